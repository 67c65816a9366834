"""What a second look at the flows found."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import pytest

from ragforge import Ragforge
from ragforge.domain.access import Clearance
from ragforge.domain.library import FileResult, JobState, Labels, Outcome
from ragforge.errors import UserError
from ragforge.flows import ingest
from tests.forge import faults, fill, open_forge, prose


def test_the_proof_holds_when_another_project_has_the_same_file(swift_path: Path) -> None:
    path = swift_path / "shared.md"
    path.write_text(prose(1))
    with open_forge(swift_path / "workspace") as forge:
        forge.create_project("other", embedder="hashing")
        forge.add(path, project="p")
        forge.add(path, project="other")
        (removal,) = forge.removing(["shared.md"], project="p")
        assert removal.erased and removal.chunks > 0
        assert len(forge.documents(project="other")) == 1 and faults(forge) == []


def test_an_interrupt_after_the_commit_keeps_the_stored_bytes(
    swift_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = swift_path / "note.md"
    path.write_text(prose(1))
    with open_forge(swift_path / "workspace") as forge:

        def interrupted(self: object, *_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(ingest._Run, "_label", interrupted)
        monkeypatch.setattr(ingest._Run, "settle", lambda self, files: iter(self.changed.extend(files) or ()))
        with pytest.raises(KeyboardInterrupt):
            forge.add(path, project="p")
        monkeypatch.undo()
        assert forge.document("note.md", project="p").chunks > 0
        assert faults(forge) == []


def test_labels_that_are_given_hold_for_files_that_are_here_already(swift_path: Path) -> None:
    fill(swift_path / "docs", 2)
    with open_forge(swift_path / "workspace") as forge:
        forge.add(swift_path / "docs", project="p")
        secret = Labels("contract", ("legal",), Clearance.RESTRICTED)
        report = forge.add(swift_path / "docs", project="p", labels=secret)
        assert report.count(Outcome.UNCHANGED) == 2
        assert {document.labels for document in forge.documents(project="p")} == {secret}
        forge.add(swift_path / "docs", project="p")
        assert {document.labels for document in forge.documents(project="p")} == {secret}, "nothing was said"


def test_small_files_do_not_wait_for_a_large_one(swift_path: Path) -> None:
    docs = swift_path / "docs"
    fill(docs, 3)
    (docs / "zz-large.md").write_text("\n\n".join(prose(seed) for seed in range(400)))
    with open_forge(swift_path / "workspace", ingest__batch_leaves=20) as forge:
        events = list(forge.adding([docs], project="p"))
    names = [Path(event.path).name for event in events if isinstance(event, FileResult)]
    assert names[-1] == "zz-large.md" and len(names) == 4
    stages = [getattr(event, "stage", "") for event in events]
    first_result = next(place for place, event in enumerate(events) if isinstance(event, FileResult))
    assert "embedding" in stages[first_result:], "the large one is embedded after the small ones are durable"


def test_what_is_refused_for_its_size_takes_no_room(swift_path: Path) -> None:
    docs = swift_path / "docs"
    fill(docs, 2)
    for name in ("a1.md", "a2.md", "a3.md"):
        (docs / name).write_text(prose(5) * 50)
    with open_forge(swift_path / "workspace", limits__file_bytes=6000, limits__project_files=2) as forge:
        report = forge.add(docs, project="p")
        assert report.count(Outcome.READY) == 2 and len(report.failed) == 3


def test_another_workspace_is_not_a_folder_of_documents(swift_path: Path) -> None:
    docs = swift_path / "docs"
    fill(docs, 1)
    with open_forge(docs / "elsewhere") as other:
        other.add(docs, project="p")
    with open_forge(swift_path / "workspace") as forge:
        assert [Path(file.path).name for file in forge.add(docs, project="p").files] == [
            path.name for path in docs.iterdir() if path.is_file()
        ]


def test_an_empty_path_is_a_mistake(swift_path: Path) -> None:
    with open_forge(swift_path / "workspace") as forge, pytest.raises(UserError):
        forge.add("", project="p")


def test_work_that_is_abandoned_ends_before_its_job(swift_path: Path) -> None:
    fill(swift_path / "docs", 60)
    with open_forge(swift_path / "workspace", ingest__batch_leaves=4) as forge:
        events = forge.adding([swift_path / "docs"], project="p")
        assert any(isinstance(event, FileResult) for event in events)
        events.close()  # type: ignore[attr-defined]
        (job,) = forge.jobs(project="p")
        assert job.state is JobState.FAILED
        assert faults(forge) == []


def test_a_project_renamed_under_an_add_is_no_trouble(swift_path: Path) -> None:
    fill(swift_path / "docs", 30)
    with open_forge(swift_path / "workspace", ingest__batch_leaves=4) as forge:
        for number, _ in enumerate(forge.adding([swift_path / "docs"], project="p")):
            if number == 5:
                forge.rename_project("p", "Other Name")
        assert len(forge.documents(project="other-name")) == 30
        assert len(forge.documents(project="Other Name")) == 30
        assert faults(forge) == []


def test_large_texts_are_not_all_held_at_once(swift_path: Path) -> None:
    docs = swift_path / "docs"
    docs.mkdir()
    line = prose(3).replace("\n", " ")
    for number in range(12):
        (docs / f"large{number}.txt").write_text(f"Text {number}. " + (line + "\n\n") * (4_000_000 // len(line)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with open_forge(swift_path / "workspace") as forge:
        forge.create_project("usual", embedder="hashing")  # with chunks of the usual size
        assert forge.add(docs, project="usual").count(Outcome.READY) == 12
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / (1 if sys.platform == "darwin" else 1024)
    assert grown < 650, f"{grown:.0f} MB"


def test_open_is_enough_to_see_models(tmp_path: Path) -> None:
    from ragforge.settings import load

    with Ragforge.outside(load(tmp_path / "nowhere")) as forge:
        assert {model.name for model in forge.models()} == {"minilm", "wordllama"}
    assert list(tmp_path.iterdir()) == []
