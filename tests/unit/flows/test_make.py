"""The path of a made document: real files, a real project and its search; the model is a server on the loopback."""

from __future__ import annotations

import re
import threading
import time
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
from ragforge.testing.model_server import CUT, NORMAL, STALL, UNAUTHORIZED, UNAVAILABLE, ModelServer
from tests.forge import open_forge
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
    before = len(forge.query_log(project="p"))
    made(forge, keep=False)
    assert len(forge.query_log(project="p")) == before, "what is not kept leaves nothing"


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


def test_a_model_that_finds_nothing_leaves_the_section_open(forge: Ragforge, server: ModelServer) -> None:
    server.reply = f"{SENTINEL}\n"
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
