"""I4: a file that cannot be parsed is kept, says why and what to do, and stops nothing."""

from __future__ import annotations

from pathlib import Path

from ragforge.domain.documents import Reason
from ragforge.domain.library import Outcome, Status
from tests.forge import faults, fill, open_forge, prose, text_of
from tests.hostile import HOSTILE
from tests.office_files import docx, paragraph


def test_I4_bad_files_among_good_ones(swift_path: Path) -> None:
    docs = swift_path / "docs"
    good = fill(docs, 6)
    (docs / "empty.md").write_bytes(b"")
    (docs / "blank.txt").write_text(" \n\n ")
    (docs / "broken.pdf").write_bytes(b"%PDF-1.7\nnothing that a reader could use")
    (docs / "cut.docx").write_bytes(docx(paragraph("Whole once."))[:-200])
    (docs / "bomb.json").write_text("[" * 200_000)
    HOSTILE["laughs.docx"](docs)
    with open_forge(swift_path / "workspace") as forge:
        report = forge.add(docs, project="p")
        assert report.count(Outcome.READY) == len(good)
        reasons = {Path(file.path).name: file.reason for file in report.failed}
        assert set(reasons) == {"empty.md", "blank.txt", "broken.pdf", "cut.docx", "bomb.json", "laughs.docx"}
        assert reasons["empty.md"] is reasons["blank.txt"] is Reason.EMPTY
        assert reasons["laughs.docx"] is Reason.HOSTILE
        failed = {document.name: document for document in forge.documents(project="p", status=Status.FAILED)}
        assert set(failed) == set(reasons)
        for name, document in failed.items():
            assert document.problem is not None and document.problem.reason is reasons[name]
            assert document.problem.message and document.problem.hint and document.chunks == 0
            assert len(document.problem.message) < 300 and "Traceback" not in document.problem.message
        assert len(list((swift_path / "workspace" / "uploads").glob("*/*/*"))) == len(good) + len(failed)
        assert faults(forge) == []


def test_I4_failed_files_are_read_again_when_they_change_or_on_request(swift_path: Path) -> None:
    path = swift_path / "note.md"
    path.write_bytes(b"")
    with open_forge(swift_path / "workspace") as forge:
        assert forge.add(path, project="p").count(Outcome.FAILED) == 1
        (still,) = forge.add(path, project="p").failed
        assert still.reason and still.message and still.hint, "it is said again, though the file is not read again"
        assert forge.add(path, project="p", retry=True).count(Outcome.FAILED) == 1
        path.write_text(prose(1))
        assert forge.add(path, project="p").count(Outcome.READY) == 1
        (document,) = forge.documents(project="p")
        assert document.status is Status.READY and document.problem is None


def test_I4_the_last_readable_text_stays_when_the_new_bytes_are_bad(swift_path: Path) -> None:
    path = swift_path / "note.md"
    path.write_text(prose(1))
    with open_forge(swift_path / "workspace") as forge:
        forge.add(path, project="p")
        before = text_of(forge, "note.md")
        path.write_bytes(bytes(range(256)) * 10)
        assert forge.add(path, project="p").count(Outcome.FAILED) == 1
        (document,) = forge.documents(project="p")
        assert document.status is Status.READY and document.problem is not None
        assert text_of(forge, "note.md") == before
        assert faults(forge) == []
