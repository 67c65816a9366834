"""A made document as a person changes it: whole or not at all, and never over what somebody else wrote meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragforge import Ragforge
from ragforge.domain.records import Artifact
from ragforge.errors import Conflict, NotFound, UserError
from ragforge.flows.make import Made
from tests.forge import open_forge, places_of

FILES = {
    "goals.md": "# Goals\n\n- Halve the number of calls about returns.\n",
    "risks.md": "# Risks\n\nThe interface of the carrier is unstable.\n",
}
GOALS, FEATURES = 1, 3


@pytest.fixture
def forge(tmp_path: Path) -> Iterator[Ragforge]:
    (tmp_path / "files").mkdir()
    for name, text in FILES.items():
        (tmp_path / "files" / name).write_text(text)
    with open_forge(tmp_path / "ws") as forge:
        forge.add([tmp_path / "files"], project="p")
        yield forge


@pytest.fixture
def made(forge: Ragforge) -> Artifact:
    *_, last = forge.making("blueprint", project="p")
    assert isinstance(last, Made)
    assert [last.artifact.sections[place].heading for place in (GOALS, FEATURES)] == ["Goals", "Features"]
    return forge.artifact("last", project="p")


def test_a_change_is_kept_in_its_place(forge: Ragforge, made: Artifact) -> None:
    text = "Halve the number of calls [1].\n\nAnd be kind."
    done = forge.edit_artifact("last", project="p", title=" A  plan ", texts={GOALS: text, FEATURES: "None yet."})
    assert forge.artifacts(project="p") == [done]
    assert (done.id, done.made_at, done.title) == (made.id, made.made_at, "A plan")
    assert done.sections[GOALS].text == text and not done.sections[FEATURES].open
    assert [each for place, each in enumerate(done.sections) if place not in (GOALS, FEATURES)] == [
        each for place, each in enumerate(made.sections) if place not in (GOALS, FEATURES)
    ]
    assert forge.edit_artifact(made.id, project="p") == done, "nothing is asked for, and nothing changes"
    for wrong in ({"title": " "}, {"texts": {99: "x"}}, {"texts": {-1: "x"}}):
        with pytest.raises(UserError):
            forge.edit_artifact(made.id, project="p", **wrong)
    with pytest.raises(NotFound):
        forge.edit_artifact("none", project="p", title="x")
    assert forge.artifacts(project="p") == [done]


def test_what_somebody_else_changed_is_not_overwritten(forge: Ragforge, made: Artifact) -> None:
    seen = made.sections[GOALS].text
    first = forge.edit_artifact(made.id, project="p", texts={GOALS: "Mine."}, was={GOALS: seen})
    with pytest.raises(Conflict, match="“Goals” was changed meanwhile") as problem:
        forge.edit_artifact(made.id, project="p", texts={GOALS: "Theirs.", FEATURES: "x"}, was={GOALS: seen})
    assert problem.value.hint and forge.artifact(made.id, project="p") == first
    still = {GOALS: "Mine.", FEATURES: made.sections[FEATURES].shown}
    both = forge.edit_artifact(made.id, project="p", texts={GOALS: "Ours.", FEATURES: "x"}, was=still)
    assert [both.sections[place].text for place in (GOALS, FEATURES)] == ["Ours.", "x"]


def test_changes_of_several_at_once_are_all_kept(forge: Ragforge, made: Artifact) -> None:
    def change(place: int) -> None:
        forge.edit_artifact(made.id, project="p", texts={place: f"Words of {place}."})

    threads = [threading.Thread(target=change, args=(place,)) for place in range(len(made.sections))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done = forge.artifact(made.id, project="p")
    assert [each.text for each in done.sections] == [f"Words of {place}." for place in range(len(made.sections))]


def test_of_a_removed_file_no_word_stays_in_what_a_person_changed(
    forge: Ragforge, made: Artifact, tmp_path: Path
) -> None:
    forge.edit_artifact(made.id, project="p", texts={GOALS: "Halve the number of calls about returns, I say."})
    assert all(proof.erased for proof in forge.removing(["goals.md"], project="p"))
    left = forge.artifact(made.id, project="p")
    assert left.sections[GOALS].open and "Halve" not in repr(left)
    cited = next(source.number for source in made.sources if source.name == "goals.md")
    told = forge.edit_artifact(made.id, project="p", texts={GOALS: f"Fewer calls [{cited}]."})
    assert told.sections[GOALS].text == "Fewer calls." and any(f"[{cited}]" in each for each in told.problems)
    assert places_of(b"Halve", tmp_path / "ws") == []
