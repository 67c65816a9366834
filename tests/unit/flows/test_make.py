"""The path of a made document: real files, a real project and its search; the model is a server on the loopback."""

from __future__ import annotations

import re
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragforge import Ragforge
from ragforge.answer.agents import agent, agent_for
from ragforge.answer.outline import differences, kinds, outline
from ragforge.domain.cancel import Cancel, Cancelled
from ragforge.domain.library import Progress
from ragforge.domain.records import Artifact, ProjectTextKind
from ragforge.domain.tokens import Vector
from ragforge.errors import NotFound, ProviderError, StoreError, TooLarge, UserError
from ragforge.flows.grounds import SENTINEL
from ragforge.flows.make import Made, MakeEvent, Planned, SectionOpen, SectionWritten
from ragforge.ports import Embedder
from ragforge.testing.hashing import HashingEmbedder
from ragforge.testing.model_server import (
    BREAKS_OFF,
    CUT,
    NORMAL,
    STALL,
    TOO_LONG,
    UNAUTHORIZED,
    UNAVAILABLE,
    ModelServer,
)
from tests.forge import open_forge, places_of
from tests.proof import count

BLUEPRINT = outline("blueprint")
FILES = {
    "goals.md": "# Goals\n\nHalve the number of calls about returns. Reach a satisfaction of 4.2 out of 5.\n",
    "concept.md": "# Architecture\n\nThe portal consists of a web front end and a returns service in Python.\n",
    "risks.md": "# Risks\n\nThe interface of the carrier is unstable: every tenth label request fails.\n",
}
_SECTION = re.compile("Write the section “([^”]+)”")
_SOURCE = re.compile(r"^\[(\d+)\] (\S+\.md)", re.MULTILINE)


def filled(folder: Path, embedder: Embedder | None = None, /, **how: object) -> Ragforge:
    """A project of the three files."""
    (folder / "files").mkdir()
    for name, text in FILES.items():
        (folder / "files" / name).write_text(text)
    forge = open_forge(folder / "ws", embedder, **how)
    forge.add([folder / "files"], project="p")
    return forge


@pytest.fixture(scope="module")
def stub() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, stub: ModelServer) -> Iterator[Ragforge]:
    how = {"model__name": "openai-compatible:stub", "model__base_url": stub.base_url}
    with filled(tmp_path_factory.mktemp("make"), **how) as forge:
        yield forge


@pytest.fixture
def server(stub: ModelServer) -> ModelServer:
    """One that has heard nothing yet."""
    stub.calls.clear()
    stub.reply, stub.always = "Nothing was told [1].", NORMAL
    return stub


@pytest.fixture
def forge(shared: Ragforge, server: ModelServer) -> Iterator[Ragforge]:
    """A project that keeps no made document from one test to the next."""
    yield shared
    shared.remove_artifacts([each.id for each in shared.artifacts(project="p")], project="p")


def events(forge: Ragforge, kind: str = "blueprint", **how: Any) -> list[MakeEvent]:
    return list(forge.making(kind, project="p", **how))


def made(forge: Ragforge, **how: Any) -> Made:
    last = events(forge, **how)[-1]
    assert isinstance(last, Made)
    return last


def quoted(forge: Ragforge, **how: Any) -> Made:
    return made(forge, model="offline", **how)


def is_open(artifact: Artifact) -> list[str]:
    return [section.heading for section in artifact.sections if section.open]


def citing(prompt: str, file: str) -> str:
    """The marker of a file in a prompt."""
    return next(f"[{number}]" for number, name in _SOURCE.findall(prompt) if name == file)


def section_of(prompt: str) -> str:
    found = _SECTION.search(prompt)
    assert found is not None
    return found[1]


def three_sections(prompt: str) -> str:
    """A model that knows three sections, and where they stand."""
    known = {
        "Goals": ("Halve the number of calls", "goals.md"),
        "Architecture": ("The portal consists of a web front end and a returns service", "concept.md"),
        "Risks": ("The interface of the carrier is unstable", "risks.md"),
    }
    said, file = known.get(section_of(prompt), ("", ""))
    return f"{said} {citing(prompt, file)}." if said else SENTINEL


# -- without a model


def test_sections_quote_the_documents_and_the_others_are_open(forge: Ragforge, server: ModelServer) -> None:
    done = quoted(forge)
    by_heading = {section.heading: section for section in done.artifact.sections}
    assert list(by_heading) == [part.heading for part in BLUEPRINT.parts]
    assert "Halve the number of calls about returns. [1]" in by_heading["Goals"].text
    assert "every tenth label request fails" in by_heading["Risks"].text
    assert is_open(done.artifact) == ["Overview", "Features", "Next Steps"]
    assert "a feature list" in by_heading["Features"].text
    assert [source.number for source in done.artifact.sources] == [1, 2, 3]
    assert {source.name for source in done.artifact.sources} == set(FILES)
    assert done.artifact.model == "" and done.artifact.problems == ()
    assert differences(BLUEPRINT, done.text) == []
    assert server.calls == []


def test_quotations_are_words_of_the_documents(forge: Ragforge) -> None:
    whole = " ".join(" ".join(FILES.values()).split())
    for section in quoted(forge).artifact.sections:
        if not section.open:
            for line in section.text.splitlines():
                assert line.removeprefix("- ").rsplit(" [", 1)[0] in whole


def test_a_brief_chooses_among_what_was_found(tmp_path: Path) -> None:
    with open_forge(tmp_path / "ws") as forge:
        texts = {"lamps": "Glass of lamps may break on its way.", "chairs": "Oak for chairs becomes dearer each year."}
        for name, text in texts.items():
            (tmp_path / f"{name}.md").write_text(f"# Risks\n\n{text}\n")
            forge.add(tmp_path / f"{name}.md", project="p")
        assert "lamps" in quoted(forge).text and "chairs" in quoted(forge).text
        about = quoted(forge, brief="chairs").text
        assert texts["chairs"] in about and "lamps" not in about
        assert "lamps" in quoted(forge, brief="For the board of directors.").text, "it names nothing that is there"


def of_files(folder: Path, /, **files: str) -> Ragforge:
    """A project of these files; `__` in a name is a dot."""
    (folder / "files").mkdir()
    for name, text in files.items():
        (folder / "files" / name.replace("__", ".")).write_text(text)
    forge = open_forge(folder / "ws")
    forge.add([folder / "files"], project="p")
    return forge


def sections(forge: Ragforge, **how: Any) -> dict[str, list[str]]:
    """The lines of each section that is not open, without their markers."""
    return {
        section.heading: [line.removeprefix("- ").rpartition(" [")[0] for line in section.text.splitlines()]
        for section in quoted(forge, **how).artifact.sections
        if not section.open
    }


NOTES = """# Kick-off workshop returns portal

## Workflow
1. The customer enters the order number.
2. The portal checks the purchase date.
3. The carrier prints the label.

## Open questions
Who pays the postage? The legal department has not answered yet.

## Team
Project lead is Ines Moreau.
"""
MINUTES = """Steering committee, project Delta
Date: 4 May 2026. Present: Hanna Berg, Tomas Ek.

1. Status
The interface to the warehouse is delayed by three weeks.

2. Decisions
- Priya Raman becomes the owner of the training plan.

3. Risks
The weekend collides with the stocktaking.

4. Next steps
- Jonas sends the revised plan by 11 May.
"""
OTHERS = {
    "pump__md": "# Pump\n\nThe pump must not run dry. A restore is tested each quarter. It must be reported.\n",
    "contract__txt": "1. Term. This agreement begins on 1 February 2026. It is complete after 24 months.\n",
    "water__md": "# Water\n\n## 1. Outlook\n\nThe outlook figures were compiled from 828 points.\n\n"
    "## 2. Water quality\n\nThe quality figures were measured.\n",
}


def test_a_folder_of_many_subjects_gives_open_sections_and_no_wrong_ones(tmp_path: Path) -> None:
    with of_files(tmp_path, **OTHERS) as forge:
        for kind in kinds():
            assert sections(forge, kind=kind) == {}


def test_headings_of_plain_text_and_the_items_below_them_are_quoted_in_their_order(tmp_path: Path) -> None:
    with of_files(tmp_path, notes__md=NOTES, minutes__txt=MINUTES, **OTHERS) as forge:
        delta = sections(forge, brief="project Delta")
        assert delta == {
            "Risks": [
                "The interface to the warehouse is delayed by three weeks.",
                "The weekend collides with the stocktaking.",
            ],
            "Next Steps": ["Jonas sends the revised plan by 11 May."],
        }
        steps = [line.partition(". ")[2] for line in NOTES.splitlines() if line[:1].isdigit()]
        assert sections(forge, kind="workflow", brief="returns portal") == {"Steps": steps}
        assert sections(forge, kind="workflow") == {"Steps": steps}
        assert sections(forge, kind="pdr")["Open Questions"] == [
            "Who pays the postage?",
            "The legal department has not answered yet.",
        ]
        assert "Team" not in str(sections(forge, kind="build-plan", brief="project Delta")), "that of another project"


def test_more_than_there_is_room_for_is_told(tmp_path: Path) -> None:
    with of_files(
        tmp_path, goals__md="# Goals\n\n" + "".join(f"- Reach goal number {n}.\n" for n in range(15))
    ) as forge:
        done = quoted(forge)
    assert len(done.artifact.sections[1].text.splitlines()) == 12
    assert done.artifact.problems == ("Goals: 3 more that tell this were left out: a section quotes 12 at most",)


PLANTED = "https://evil.example/login?u=1"


@pytest.mark.parametrize("model", ["offline", ""])
def test_addresses_of_documents_do_not_stand_in_a_made_one(tmp_path: Path, server: ModelServer, model: str) -> None:
    text = f"# Goals {PLANTED}\n\n## Goals\n\nHalve the calls; log in at {PLANTED} to see them.\n"
    (tmp_path / "goals.md").write_text(text)
    server.reply = lambda prompt: (
        f"Halve the calls; log in at {PLANTED} to see them [1]." if section_of(prompt) == "Goals" else SENTINEL
    )
    how = {"model__name": "openai-compatible:x", "model__base_url": server.base_url}
    with open_forge(tmp_path / "ws", **how) as forge:
        forge.add([tmp_path / "goals.md"], project="p")
        done = made(forge, model=model, out=tmp_path / "a.md")
        forge.export_artifact(done.artifact, tmp_path / "a.docx")
        assert "evil.example" not in done.text and "evil.example" not in (tmp_path / "a.md").read_text()
        with zipfile.ZipFile(tmp_path / "a.docx") as archive:
            assert b"evil.example" not in archive.read("word/document.xml")
        assert "Halve the calls; log in at [link in the source] to see them" in done.text
        asked = made(forge, model=model, brief=f"Tell people to use {PLANTED}.")
        assert f"log in at {PLANTED}" in asked.text, "people may name one"


def test_an_outline_may_ask_for_links(tmp_path: Path) -> None:
    with of_files(tmp_path, steps__md=f"# Steps\n\nOpen {PLANTED} and log in there.\n") as forge:
        assert PLANTED in quoted(forge, kind="workflow").text


def test_a_project_without_documents_gives_only_open_sections(tmp_path: Path, server: ModelServer) -> None:
    with open_forge(tmp_path / "ws", model__name="openai-compatible:x", model__base_url=server.base_url) as forge:
        done = made(forge)
    assert len(is_open(done.artifact)) == len(BLUEPRINT.parts)
    assert done.artifact.sources == () and "## Sources" not in done.text
    assert server.calls == []


def test_a_part_that_was_missing_is_told(tmp_path: Path) -> None:
    class Away(HashingEmbedder):
        def embed_query(self, text: str, cancel: Cancel) -> Vector:
            raise ProviderError("the service is away")

    with filled(tmp_path, Away(64)) as forge:
        problems = quoted(forge).artifact.problems
    assert problems == ("embedder: searched by words alone: the service is away",)


# -- with a model


def test_events_come_in_order(forge: Ragforge, server: ModelServer) -> None:
    server.reply = three_sections
    told = events(forge)
    sections = len(BLUEPRINT.parts)
    assert [event.stage for event in told if isinstance(event, Progress)] == ["searching"] * sections + [
        "writing"
    ] * sections
    plain = [type(event) for event in told if not isinstance(event, Progress)]
    written = [SectionOpen, SectionWritten, SectionWritten, SectionOpen, SectionWritten, SectionOpen]
    assert plain == [Planned, *written, Made]


def test_tokens_come_before_the_first_call(forge: Ragforge, server: ModelServer) -> None:
    planned = plan_of(forge)
    assert server.calls == [] and forge.artifacts(project="p") == []
    assert planned.model == "openai-compatible:stub" and planned.cost == 0, "on this machine"
    assert [each.heading for each in planned.sections] == [part.heading for part in BLUEPRINT.parts]
    assert planned.output_tokens == len(planned.sections) * BLUEPRINT.sampling.max_tokens
    server.reply = three_sections
    used = made(forge).artifact.usage
    assert 0 < used["input_tokens"] <= planned.input_tokens and 0 < used["output_tokens"] <= planned.output_tokens


def test_the_price_comes_before_the_first_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    with filled(tmp_path, model__name="openai:gpt-4.1-mini") as forge:
        planned = plan_of(forge)
        known = plan_of(forge, model="openai:no-such-model-yet")
    assert planned.cost is not None and 0 < planned.cost < 1
    assert planned.cost == sum(each.estimate.cost or 0 for each in planned.sections if each.estimate)
    assert known.cost is None and known.input_tokens > 0


def plan_of(forge: Ragforge, **how: Any) -> Planned:
    """What is told before anything is written."""
    told = forge.making("blueprint", project="p", **how)
    return next(event for event in told if isinstance(event, Planned))


def test_a_model_writes_each_section_from_its_passages(forge: Ragforge, server: ModelServer) -> None:
    server.reply = three_sections
    done = made(forge, brief="the returns portal")
    writer = agent_for("blueprint", kinds())
    assert writer is not None and done.artifact.agent == writer.name == "architect"
    assert done.artifact.model == "openai-compatible:stub"
    assert [text for section in done.artifact.sections if not section.open for text in [section.text]] == [
        "Halve the number of calls [1].",
        "The portal consists of a web front end and a returns service [2].",
        "The interface of the carrier is unstable [3].",
    ]
    assert is_open(done.artifact) == ["Overview", "Features", "Next Steps"], "as the model says"
    assert done.artifact.usage["calls"] == len(server.calls) == len(BLUEPRINT.parts)
    for call in server.calls:
        assert writer.persona in call.prompt and "the returns portal" in call.prompt
        assert all(text.strip() in call.prompt for text in FILES.values())
        assert call.json["max_tokens"] == BLUEPRINT.sampling.max_tokens and 0.2 <= call.json["temperature"] <= 0.4
    assert [section_of(call.prompt) for call in server.calls] == [part.heading for part in BLUEPRINT.parts]


def test_the_rules_of_the_project_and_its_templates_are_in_every_prompt(tmp_path: Path, server: ModelServer) -> None:
    server.reply = three_sections
    with filled(tmp_path, model__name="openai-compatible:x", model__base_url=server.base_url) as forge:
        forge.write_project_text(ProjectTextKind.HARD_RULES, "Never name a supplier.", project="p")
        forge.write_project_text(ProjectTextKind.PROJECT_MEMORY, "A return is called an RMA.", project="p")
        user = "{history}\n{files}\n{context}\n{task}\n{format}\nIn the style of the house."
        (forge.workspace / "templates").mkdir()
        (forge.workspace / "templates" / "user.md").write_text(user)
        made(forge)
    for call in server.calls:
        assert call.prompt.index("Never name a supplier.") < call.prompt.index("A return is called an RMA.")
        assert call.prompt.endswith("In the style of the house.")


def test_one_line_of_the_log_holds_what_it_took(forge: Ragforge, server: ModelServer) -> None:
    server.reply = three_sections
    done = made(forge)
    entry = forge.query_log(project="p")[0]
    assert {call.headers["x-request-id"] for call in server.calls} == {entry.id}
    assert (entry.kind, entry.question, entry.agent) == ("document", "Blueprint: p", "architect")
    assert (entry.model, entry.profile) == ("openai-compatible:stub", "premium")
    assert entry.input_tokens == done.artifact.usage["input_tokens"] > 0
    assert set(entry.cited) == {source.document for source in done.artifact.sources}


def test_what_is_not_kept_leaves_only_what_it_took(forge: Ragforge, server: ModelServer) -> None:
    before = len(forge.query_log(project="p"))
    quoted(forge, keep=False, title="A secret")
    assert len(forge.query_log(project="p")) == before, "it took nothing"
    server.reply = three_sections
    done = made(forge, keep=False, title="A secret")
    entry = forge.query_log(project="p")[0]
    assert (entry.kind, entry.question, entry.chunks, entry.cited) == ("document", "Blueprint", (), ())
    assert (entry.model, entry.input_tokens) == ("openai-compatible:stub", done.artifact.usage["input_tokens"])


def test_what_was_paid_for_a_document_that_is_stopped_is_logged(forge: Ragforge, server: ModelServer) -> None:
    before = len(forge.query_log(project="p"))
    server.reply = three_sections
    for event in (told := forge.making("blueprint", project="p")):
        if isinstance(event, SectionWritten):
            break
    assert len(server.calls) == 2
    told.close()  # type: ignore[attr-defined]
    (entry,) = forge.query_log(project="p")[: len(forge.query_log(project="p")) - before]
    assert (entry.kind, entry.question, entry.model) == ("error", "Blueprint: p", "openai-compatible:stub")
    assert entry.error == "not finished" and entry.input_tokens > 0 and entry.output_tokens > 0
    assert forge.artifacts(project="p") == []


def test_a_call_that_nobody_waited_for_is_paid_all_the_same(forge: Ragforge, server: ModelServer) -> None:
    before = len(forge.query_log(project="p"))
    server.always = STALL
    cancel = Cancel()
    threading.Timer(0.3, cancel.set).start()
    with pytest.raises(Cancelled):
        list(forge.making("blueprint", project="p", cancel=cancel))
    entries = forge.query_log(project="p")
    assert len(entries) == before + 1 and len(server.calls) == 1
    assert entries[0].input_tokens > 100 and entries[0].output_tokens == 0


def test_a_call_that_broke_off_is_paid_all_the_same(forge: Ragforge, server: ModelServer) -> None:
    server.reply = three_sections
    whole = made(forge).artifact.usage["input_tokens"]
    server.script(NORMAL, BREAKS_OFF)
    server.calls.clear()
    done = made(forge)
    assert "Goals: quoted, as the model failed" in done.artifact.problems[0]
    used = done.artifact.usage
    assert used["calls"] == len(server.calls) == len(BLUEPRINT.parts)
    assert used["input_tokens"] >= whole, "a whole document's"
    assert forge.query_log(project="p")[0].input_tokens == used["input_tokens"]


def test_what_a_model_invents_does_not_stay(forge: Ragforge, server: ModelServer) -> None:
    server.reply = (
        "# Goals\n\nHalve the number of calls [1].\n\n## Budget\n\nIt costs 5 million.\n\n"
        "False [77]. ![x](http://evil.example/p.png)"
    )
    done = made(forge)
    for invented in ("million", "Budget", "evil", "[77]"):
        assert invented not in done.text
    assert differences(BLUEPRINT, done.text) == []
    told = "\n".join(done.artifact.problems)
    for problem in (
        "“Budget” is not in the outline",
        "cites nothing: It costs 5 million.",
        "[77] was removed",
        "taken out",
    ):
        assert problem in told


def test_a_model_that_cites_nothing_is_replaced_by_quotations(forge: Ragforge, server: ModelServer) -> None:
    server.reply = "I know it all by heart."
    done = made(forge)
    assert "by heart" not in done.text and "Halve the number of calls" in done.text
    assert "Goals: quoted, as the model cited nothing" in done.artifact.problems
    assert done.artifact.model == "" and done.artifact.usage["calls"] == len(BLUEPRINT.parts), (
        "it was paid all the same"
    )


@pytest.mark.parametrize("dressed", ["{}\n", "**{}**", "> {}: only prices."])
def test_a_model_that_finds_nothing_leaves_the_section_open(forge: Ragforge, server: ModelServer, dressed: str) -> None:
    server.reply = dressed.format(SENTINEL)
    done = made(forge)
    assert len(is_open(done.artifact)) == len(BLUEPRINT.parts)
    assert "do not tell this" in done.artifact.sections[1].text


def test_a_model_that_fails_for_good_is_asked_once(forge: Ragforge, server: ModelServer) -> None:
    server.always = UNAUTHORIZED
    done = made(forge)
    assert len(server.calls) == 1
    assert "Halve the number of calls" in done.text
    assert any(
        problem.startswith("Overview: quoted, as the model failed:") and "key" in problem
        for problem in done.artifact.problems
    )


def test_a_model_that_may_recover_is_asked_again(forge: Ragforge, server: ModelServer) -> None:
    server.script(UNAVAILABLE, UNAVAILABLE)
    server.reply = three_sections
    done = made(forge)
    assert done.artifact.model and "Overview: quoted, as the model failed" in done.artifact.problems[0]
    assert "The interface of the carrier is unstable [3]." in done.text


def test_a_section_that_is_too_long_for_the_model_is_quoted_and_the_others_go_on(
    forge: Ragforge, server: ModelServer
) -> None:
    server.reply = three_sections
    server.script(NORMAL, TOO_LONG)
    done = made(forge)
    assert "Halve the number of calls about returns. [1]" in done.text, "quoted"
    assert "The interface of the carrier is unstable [3]." in done.text, "written"
    (problem,) = done.artifact.problems
    assert problem.startswith("Goals: quoted, as the model failed:")
    assert len(server.calls) == len(BLUEPRINT.parts) and forge.artifacts(project="p") == [done.artifact]


def test_a_section_has_its_time(tmp_path: Path, server: ModelServer) -> None:
    how = {"model__name": "openai-compatible:x", "model__base_url": server.base_url, "model__timeout_seconds": 0.5}
    server.reply = three_sections
    with filled(tmp_path, **how) as forge:
        made(forge)  # the first call loads the library
        server.script(STALL)
        done = made(forge)
    assert "did not answer in the time given" in done.artifact.problems[0]
    assert "The interface of the carrier is unstable [3]." in done.text, "the others had their own"


def test_a_text_that_reaches_the_limit_is_told(forge: Ragforge, server: ModelServer) -> None:
    server.always, server.reply = CUT, three_sections
    assert "Goals: ends early: the model wrote as much as it may, 700 tokens" in made(forge).artifact.problems


def test_what_does_not_fit_into_the_window_is_told_or_refused_before_it_costs(
    tmp_path: Path, server: ModelServer
) -> None:
    how = {"model__name": "openai-compatible:x", "model__base_url": server.base_url}
    with filled(tmp_path, **how) as forge:
        all_of_it = max(each.estimate.input_tokens for each in plan_of(forge).sections if each.estimate)
    # A prompt's marker is random and takes from 4 to 10 tokens, eight times: 120 is more than that and a source.
    with open_forge(tmp_path / "ws", model__window=all_of_it + 700 - 120, **how) as forge:
        assert all(each.estimate and each.estimate.fits for each in plan_of(forge).sections)
        problems = made(forge).artifact.problems
    assert [each for each in problems if "did not fit into the prompt: source" in each and ".md" in each]
    server.calls.clear()
    with open_forge(tmp_path / "ws", model__window=1_000, **how) as forge, pytest.raises(TooLarge):
        made(forge)
    assert server.calls == []


# -- stored and written out


def test_of_a_removed_file_no_word_that_a_model_wrote_stays(tmp_path: Path, server: ModelServer) -> None:
    def told(prompt: str) -> str:
        if section_of(prompt) != "Goals":
            return SENTINEL
        return f"The carrier has a platypus.\n\nHalve the number of calls about returns {citing(prompt, 'goals.md')}."

    server.reply = told
    with filled(tmp_path, model__name="openai-compatible:x", model__base_url=server.base_url) as forge:
        done = made(forge)
        assert "Goals: left out, as it cites nothing: The carrier has a platypus." in done.artifact.problems
        assert all(proof.erased for proof in forge.removing(["risks.md"], project="p"))
        left = forge.artifact("last", project="p")
        assert "platypus" not in repr(left) and "Halve" in repr(left), "it was read for this section, and not cited"
    assert places_of(b"platypus", tmp_path) == []


def test_a_file_that_is_removed_while_it_is_written_is_in_no_result(tmp_path: Path, server: ModelServer) -> None:
    server.reply = three_sections
    with filled(tmp_path, model__name="openai-compatible:x", model__base_url=server.base_url) as forge:
        for event in (told := forge.making("blueprint", project="p", out=tmp_path / "a.md")):
            if isinstance(event, SectionWritten):
                assert "Halve" in event.section.text
                list(forge.removing(["goals.md"], project="p"))
                break
        done = list(told)[-1]
        assert isinstance(done, Made) and done.artifact == forge.artifact("last", project="p")
    for text in (done.text, (tmp_path / "a.md").read_text()):
        assert "Halve" not in text and "it cited a document that is no longer in the project" in text
        assert "The interface of the carrier is unstable" in text
    assert "[1]: the document was removed, and what cited it with it" in done.artifact.problems


def test_it_is_kept_found_and_removed(forge: Ragforge) -> None:
    done = quoted(forge).artifact
    assert [each.id for each in forge.artifacts(project="p")] == [done.id]
    assert forge.artifact("last", project="p") == forge.artifact(done.id[:6], project="p")
    found = forge.artifact(done.id, project="p")
    assert (found.title, found.sections, found.problems, found.made_at) == (
        done.title,
        done.sections,
        done.problems,
        done.made_at,
    )
    with pytest.raises(NotFound):
        forge.remove_artifacts([done.id, "feed"], project="p")
    assert [each.id for each in forge.artifacts(project="p")] == [done.id], "all or none"
    assert [each.id for each in forge.remove_artifacts(["last", done.id], project="p")] == [done.id]
    with pytest.raises(NotFound, match="no made document"):
        forge.artifact(done.id, project="p")


def test_not_kept_on_demand_nor_when_stopped(forge: Ragforge, server: ModelServer, tmp_path: Path) -> None:
    quoted(forge, keep=False)
    cancel = Cancel()
    told = forge.making("blueprint", project="p", out=tmp_path / "x.md", cancel=cancel)
    for event in told:
        if isinstance(event, SectionWritten):
            cancel.set()
            break
    with pytest.raises(Cancelled):
        list(told)
    assert forge.artifacts(project="p") == []
    assert len(server.calls) == 1 and list(tmp_path.iterdir()) == []


def test_a_cancel_ends_the_model_at_once(forge: Ragforge, server: ModelServer) -> None:
    server.always = STALL
    cancel = Cancel()
    for event in (told := forge.making("blueprint", project="p", cancel=cancel)):
        if isinstance(event, Progress) and event.stage == "writing":
            break
    threading.Timer(0.2, cancel.set).start()
    began = time.monotonic()
    with pytest.raises(Cancelled):
        list(told)
    assert time.monotonic() - began < 3 and forge.artifacts(project="p") == []


def test_files_are_written_by_their_ending(forge: Ragforge, tmp_path: Path) -> None:
    done = quoted(forge, out=tmp_path / "b.md")
    assert (tmp_path / "b.md").read_text() == done.text
    forge.export_artifact(done.artifact, tmp_path / "b.DOCX")
    assert (tmp_path / "b.DOCX").read_bytes()[:2] == b"PK"
    assert sorted(each.name for each in tmp_path.iterdir() if each.is_file()) == ["b.DOCX", "b.md"]


@pytest.mark.parametrize("name", ["x.pdf", "x", "no/x.md", "folder.md"])
def test_what_cannot_be_written_is_told_before_any_work(
    forge: Ragforge, server: ModelServer, tmp_path: Path, name: str
) -> None:
    (tmp_path / "folder.md").mkdir()
    with pytest.raises(UserError):
        made(forge, out=tmp_path / name)
    assert server.calls == [] and forge.artifacts(project="p") == []


def test_a_file_that_fails_leaves_nothing_beside_it_and_the_document_is_kept(forge: Ragforge, tmp_path: Path) -> None:
    with pytest.raises(StoreError) as failed:
        quoted(forge, out=tmp_path / ("x" * 300 + ".md"))
    (kept,) = forge.artifacts(project="p")
    assert f"ragforge make show {kept.id} --out" in failed.value.hint
    assert list(tmp_path.iterdir()) == []


# -- what is refused


def test_an_agent_of_another_kind_is_refused(forge: Ragforge) -> None:
    assert agent("process-analyst", kinds()).output == "workflow"
    with pytest.raises(UserError, match="process-analyst writes workflow, not blueprint"):
        quoted(forge, agent="process-analyst")


def test_a_brief_that_is_a_document_is_refused(forge: Ragforge) -> None:
    with pytest.raises(UserError, match="characters"):
        quoted(forge, brief="x" * 20_001)


def test_whatever_a_model_says_only_sources_are_cited_and_the_outline_holds(
    forge: Ragforge, server: ModelServer
) -> None:
    (forge.workspace / "outlines").mkdir(exist_ok=True)
    (forge.workspace / "outlines" / "memo.md").write_text("# Goals\n- What are the goals?\n")
    goals = outline("memo", forge.workspace / "outlines")
    lines = (
        *("# Goals", "## Prices", "Halve the calls [1].", "- Reach 4.2 of 5 [1]", "\nMade up.\n", "False [9].", "[1]"),
        *("\u200b# Hidden", "&#35; Entity", "===", "| a | b [1] |", "|---|---|", "![x](http://evil.example/[1])", ""),
        *("[chunk: nope]", "[1-3]", "<h1>Tag [1]</h1>", "> # quoted [1]", "[link](http://evil.example) [1]", SENTINEL),
    )

    @settings(max_examples=count(25, 400), deadline=None)
    @given(st.lists(st.sampled_from(lines), max_size=10).map("\n".join))
    def holds(said: str) -> None:
        server.reply = said or " "
        done = made(forge, kind="memo", keep=False)
        (section,) = done.artifact.sections
        assert differences(goals, done.text) == []
        assert "evil.example" not in done.text and "Made up" not in done.text
        numbers = {int(number) for number in re.findall(r"\[(\d+)\]", section.text)}
        assert numbers == set(section.sources) == {source.number for source in done.artifact.sources}
        assert section.open is not bool(numbers)

    holds()


@pytest.mark.parametrize("log_text", [True, False])
def test_a_log_without_text_has_no_title_either(tmp_path: Path, log_text: bool) -> None:
    with filled(tmp_path, ask__log_text=log_text) as forge:
        done = quoted(forge, title="The wombat affair").artifact
        logged = forge.logged("last", project="p")
    assert done.title == "The wombat affair" and logged.kind == "document"
    assert (logged.question == "The wombat affair") == log_text and logged.question
