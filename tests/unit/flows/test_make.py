"""The path of a made document: real files, a real project and its search; the model is scripted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragforge import Ragforge
from ragforge.answer.agents import agent, agent_for
from ragforge.answer.outline import differences, kinds, outline
from ragforge.domain.answers import Evidence
from ragforge.domain.cancel import Cancel, Cancelled
from ragforge.domain.retrieval import Degraded, Retrieved
from ragforge.errors import NotFound, ProviderError, StoreError, UserError
from ragforge.flows.make import (
    Made,
    MadeDocuments,
    Make,
    MakeEvent,
    MakeRequest,
    SectionOpen,
    SectionStarted,
    SectionWritten,
)
from tests.forge import open_forge
from tests.making import EXPORT, NOTHING, Scripted, maker
from tests.proof import count

BLUEPRINT = outline("blueprint")
FILES = {
    "goals.md": "# Goals\n\nHalve the number of calls about returns. Reach a satisfaction of 4.2 out of 5.\n",
    "concept.md": "# Architecture\n\nThe portal consists of a web front end and a returns service in Python.\n",
    "risks.md": "# Risks\n\nThe interface of the carrier is unstable: every tenth label request fails.\n",
}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ragforge]:
    folder = tmp_path_factory.mktemp("files")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    with open_forge(tmp_path_factory.mktemp("ws") / "ws") as forge:
        forge.add([folder], project="p")
        yield forge


@pytest.fixture
def forge(filled: Ragforge) -> Iterator[Ragforge]:
    """A project that keeps no made document from one test to the next."""
    yield filled
    project = filled.project("p").id
    with filled._parts.catalog.write() as c:
        for each in c.artifacts.all(filled._scope, project):
            c.artifacts.remove(filled._scope, project, each.id)


def events(make: Make, forge: Ragforge, cancel: Cancel | None = None, **request: object) -> list[MakeEvent]:
    asked = replace(MakeRequest(BLUEPRINT), **request)  # type: ignore[arg-type]
    return list(make(forge._scope, forge.project("p"), asked, "trace-1", cancel or Cancel()))


def made(make: Make, forge: Ragforge, **request: object) -> Made:
    last = events(make, forge, None, **request)[-1]
    assert isinstance(last, Made)
    return last


def test_without_a_model_sections_quote_the_documents_and_the_others_are_open(forge: Ragforge) -> None:
    done = made(maker(forge), forge)
    by_heading = {section.heading: section for section in done.artifact.sections}
    assert list(by_heading) == [part.heading for part in BLUEPRINT.parts]
    assert "Halve the number of calls about returns. [1]" in by_heading["Goals"].text
    assert "every tenth label request fails" in by_heading["Risks"].text
    assert [section.heading for section in done.artifact.sections if section.open] == [
        "Overview",
        "Features",
        "Next Steps",
    ]
    assert "a feature list" in by_heading["Features"].text
    assert [source.number for source in done.artifact.sources] == [1, 2, 3]
    assert {source.name for source in done.artifact.sources} == set(FILES)
    assert done.artifact.model == "" and done.artifact.problems == ()
    assert differences(BLUEPRINT, done.text) == []


def test_quotations_are_words_of_the_documents(forge: Ragforge) -> None:
    whole = " ".join(" ".join(FILES.values()).split())
    for section in made(maker(forge), forge).artifact.sections:
        if not section.open:
            for line in section.text.splitlines():
                assert line.removeprefix("- ").rsplit(" [", 1)[0] in whole


def test_events_come_in_order(forge: Ragforge) -> None:
    kinds_of = [type(event) for event in events(maker(forge), forge)]
    assert kinds_of[0::2] == [SectionStarted] * 6 + [Made]
    assert kinds_of[1::2] == [SectionOpen, SectionWritten, SectionWritten, SectionOpen, SectionWritten, SectionOpen]


def test_a_project_without_documents_gives_only_open_sections(tmp_path: Path) -> None:
    with open_forge(tmp_path / "ws") as forge:
        done = made(maker(forge), forge)
    assert all(section.open for section in done.artifact.sections)
    assert done.artifact.sources == () and "## Sources" not in done.text


# -- with a model


def test_a_model_writes_each_section_from_its_passages(forge: Ragforge) -> None:
    model = Scripted(
        ["Halve the calls [1].", "The portal consists of a front end and a service [1].", "The interface fails [1]."]
    )
    writer = agent_for("blueprint", kinds())
    done = made(maker(forge, model), forge, agent=writer, brief="the returns portal")
    texts = [section.text for section in done.artifact.sections if not section.open]
    assert [text[-4:] for text in texts] == ["[1].", "[2].", "[3]."]
    assert done.artifact.model == "stub:one" and done.artifact.agent == "architect"
    assert done.artifact.usage["calls"] == 3 and done.artifact.usage["input_tokens"] == 30
    assert len(model.asked) == 3, "open sections cost nothing"
    messages, sampling, request = model.asked[0]
    assert writer is not None and messages[0].text == writer.persona
    assert "“Goals”" in messages[1].text and "the returns portal" in messages[1].text
    assert FILES["goals.md"].split("\n")[2] in messages[1].text
    assert 0.2 <= sampling.temperature <= 0.4 and sampling.max_tokens == BLUEPRINT.sampling.max_tokens
    assert request == "trace-1"


def test_what_a_model_invents_does_not_stay(forge: Ragforge) -> None:
    said = "# Goals\n\nHalve the calls [1].\n\n## Budget\n\nIt costs 5 million.\n\nFalse [77]. ![x](http://evil.example/p.png)"
    done = made(maker(forge, Scripted([said])), forge)
    assert (
        "million" not in done.text and "Budget" not in done.text and "evil" not in done.text and "[77]" not in done.text
    )
    assert differences(BLUEPRINT, done.text) == []
    told = "\n".join(done.artifact.problems)
    for problem in (
        "“Budget” is not in the outline",
        "cites nothing: It costs 5 million.",
        "[77] was removed",
        "taken out",
    ):
        assert problem in told


def test_a_model_that_cites_nothing_is_replaced_by_quotations(forge: Ragforge) -> None:
    done = made(maker(forge, Scripted(["I know it all by heart."])), forge)
    assert "by heart" not in done.text and "Halve the number of calls" in done.text
    assert "Goals: quoted, as the model cited nothing" in done.artifact.problems
    assert done.artifact.model == ""


def test_a_model_that_finds_nothing_leaves_the_section_open(forge: Ragforge) -> None:
    done = made(maker(forge, Scripted([NOTHING])), forge)
    assert all(section.open for section in done.artifact.sections)


def test_a_model_that_fails_for_good_is_asked_once(forge: Ragforge) -> None:
    model = Scripted([ProviderError("the key is wrong")])
    done = made(maker(forge, model), forge)
    assert len(model.asked) == 1
    assert "Halve the number of calls" in done.text
    assert "Goals: quoted, as the model failed: the key is wrong" in done.artifact.problems


def test_a_model_that_may_recover_is_asked_again(forge: Ragforge) -> None:
    model = Scripted([ProviderError("busy", retryable=True), "The portal has parts [1].", "The interface fails [1]."])
    done = made(maker(forge, model), forge)
    assert len(model.asked) == 3 and done.artifact.model == "stub:one"


def test_a_text_that_reaches_the_limit_is_told(forge: Ragforge) -> None:
    short = replace(BLUEPRINT, sampling=replace(BLUEPRINT.sampling, max_tokens=4))
    done = made(maker(forge, Scripted(["Halve the calls again [1]."])), forge, outline=short)
    assert any("may end too early" in problem for problem in done.artifact.problems)


# -- stored and written out


def test_it_is_kept_found_and_removed(forge: Ragforge) -> None:
    done = made(maker(forge), forge).artifact
    kept = MadeDocuments(forge._parts.catalog)
    project = forge.project("p").id
    assert [each.id for each in kept.all(forge._scope, project)] == [done.id]
    assert kept.find(forge._scope, project, "last") == kept.find(forge._scope, project, done.id[:6])
    found = kept.find(forge._scope, project, done.id)
    assert (found.title, found.sections, found.problems) == (done.title, done.sections, done.problems)
    assert [each.id for each in kept.remove(forge._scope, project, ["last", done.id])] == [done.id]
    with pytest.raises(NotFound, match="no document"):
        kept.find(forge._scope, project, done.id)


def test_not_kept_on_demand_nor_when_stopped(forge: Ragforge, tmp_path: Path) -> None:
    kept = MadeDocuments(forge._parts.catalog)
    made(maker(forge), forge, keep=False)
    cancel = Cancel()
    make = maker(forge)(
        forge._scope, forge.project("p"), MakeRequest(BLUEPRINT, out=tmp_path / "x.md"), "trace", cancel
    )
    next(make)
    cancel.set()
    with pytest.raises(Cancelled):
        list(make)
    assert kept.all(forge._scope, forge.project("p").id) == []
    assert not (tmp_path / "x.md").exists()


def test_files_are_written_by_their_ending(forge: Ragforge, tmp_path: Path) -> None:
    done = made(maker(forge), forge, out=tmp_path / "b.md")
    assert (tmp_path / "b.md").read_text() == done.text
    EXPORT(done.artifact, tmp_path / "b.DOCX")
    assert (tmp_path / "b.DOCX").read_bytes()[:2] == b"PK"
    assert sorted(each.name for each in tmp_path.iterdir() if each.is_file()) == ["b.DOCX", "b.md"]


@pytest.mark.parametrize("name", ["x.pdf", "x", "no/x.md", "folder.md"])
def test_what_cannot_be_written_is_told_before_any_work(forge: Ragforge, tmp_path: Path, name: str) -> None:
    (tmp_path / "folder.md").mkdir()
    model = Scripted(["x [1]"])
    with pytest.raises(UserError):
        made(maker(forge, model), forge, out=tmp_path / name)
    assert model.asked == []


def test_a_file_that_fails_leaves_nothing_beside_it(forge: Ragforge, tmp_path: Path) -> None:
    done = made(maker(forge), forge)
    (tmp_path / "long").mkdir()
    with pytest.raises(StoreError):
        EXPORT(done.artifact, tmp_path / "long" / ("x" * 300 + ".md"))
    assert list((tmp_path / "long").iterdir()) == []


# -- what is refused or told


def test_an_agent_of_another_kind_is_refused(forge: Ragforge) -> None:
    with pytest.raises(UserError, match="process-analyst writes workflow, not blueprint"):
        made(maker(forge), forge, agent=agent("process-analyst", kinds()))


def test_a_brief_that_is_a_document_is_refused(forge: Ragforge) -> None:
    with pytest.raises(UserError, match="characters"):
        made(maker(forge), forge, brief="x" * 20_001)


def test_what_was_missing_is_told(forge: Ragforge) -> None:
    usual = maker(forge)

    def search(question: str) -> Retrieved:
        return replace(usual.search(question), degraded=(Degraded("vectors", "the index is lost"),))

    assert made(replace(usual, search=search), forge).artifact.problems == ("vectors: the index is lost",)


def test_weak_evidence_and_no_heading_leave_a_section_open(forge: Ragforge) -> None:
    weak = replace(maker(forge), evidence=lambda found: Evidence(0.49, 0.25))
    strong = replace(maker(forge), evidence=lambda found: Evidence(0.5, 0.25))
    written = [s.heading for s in made(weak, forge).artifact.sections if not s.open]
    assert written == ["Goals", "Architecture", "Risks"], "by their headings alone"
    assert len(made(strong, forge).artifact.sources) >= 3
    unsure = replace(maker(forge, Scripted(["x [1]"])), evidence=lambda found: Evidence(0.6, 0.9))
    assert [s.heading for s in made(unsure, forge).artifact.sections if not s.open] == written


def test_whatever_a_model_says_only_sources_are_cited_and_the_outline_holds(forge: Ragforge) -> None:
    goals = replace(BLUEPRINT, parts=(replace(BLUEPRINT.parts[1], level=1),))
    lines = (
        *("# Goals", "## Prices", "Halve the calls [1].", "- Reach 4.2 of 5 [1]", "\nMade up.\n", "False [9].", "[1]"),
        *("\u200b# Hidden", "&#35; Entity", "===", "| a | b [1] |", "|---|---|", "![x](http://evil.example/[1])", ""),
        *("[chunk: nope]", "[1-3]", "<h1>Tag [1]</h1>", "> # quoted [1]", "[link](http://evil.example) [1]", NOTHING),
    )

    @settings(max_examples=count(12, 400), deadline=None)
    @given(st.lists(st.sampled_from(lines), max_size=10).map("\n".join))
    def holds(said: str) -> None:
        done = made(maker(forge, Scripted([said])), forge, outline=goals, keep=False)
        (section,) = done.artifact.sections
        assert differences(goals, done.text) == []
        assert "evil.example" not in done.text and "Made up" not in done.text
        numbers = {int(number) for number in re.findall(r"\[(\d+)\]", section.text)}
        assert numbers == set(section.sources) == {source.number for source in done.artifact.sources}
        assert section.open is not bool(numbers)

    holds()
