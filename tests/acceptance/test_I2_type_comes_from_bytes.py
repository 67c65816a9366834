"""I2: the bytes tell the type, uploads have opaque names, and no file name leads out of its folder."""

from __future__ import annotations

import os
import re
from pathlib import Path

from ragforge.domain.documents import Reason
from ragforge.domain.library import Outcome
from tests.forge import faults, open_forge, prose, text_of
from tests.office_files import docx, paragraph
from tests.pdf_files import pdf


def test_I2_the_bytes_are_believed_not_the_name(swift_path: Path) -> None:
    docs = swift_path / "docs"
    docs.mkdir()
    (docs / "pdf called text.txt").write_bytes(pdf([[(72, 700, "Walnut desks are heavy.")]]))
    (docs / "word called pdf.pdf").write_bytes(docx(paragraph("Oak chairs are light.")))
    (docs / "program.md").write_bytes(b"\x7fELF\x02\x01\x01" + bytes(range(256)) * 40)
    (docs / "no extension").write_text(prose(1))
    with open_forge(swift_path / "workspace") as forge:
        report = forge.add(docs, project="p")
        types = {document.name: document.type for document in forge.documents(project="p")}
        assert types["pdf called text.txt"] == "pdf" and types["word called pdf.pdf"] == "docx"
        assert "Walnut desks" in text_of(forge, "pdf called text.txt")
        assert "Oak chairs" in text_of(forge, "word called pdf.pdf")
        (failed,) = report.failed
        assert Path(failed.path).name == "program.md" and failed.reason in (Reason.BINARY, Reason.UNSUPPORTED)
        assert report.count(Outcome.READY) == 3


def test_I2_uploads_are_stored_by_owner_date_and_a_random_name(swift_path: Path) -> None:
    docs = swift_path / "docs"
    docs.mkdir()
    names = ["..", "CON", "a\nb", "-rf", "..%2f..%2fetc", "x" * 240, "\u202egpj", "'; DROP TABLE documents; --"]
    for number, name in enumerate(names):
        (docs / f"{name}.md").write_text(prose(number))
    with open_forge(swift_path / "workspace") as forge:
        assert forge.add(docs, project="p").failed == ()
        stored = [p for p in (swift_path / "workspace" / "uploads").rglob("*") if p.is_file()]
        assert len(stored) == len([name for name in names if not name.startswith(".")])
        for path in stored:
            relative = path.relative_to(swift_path / "workspace" / "uploads").as_posix()
            assert re.fullmatch(r"[a-z0-9]+/\d{4}-\d{2}-\d{2}/[0-9a-f]{32}", relative)
            assert path.stat().st_mode & 0o077 == 0
        for document in forge.documents(project="p"):
            assert document.name.isprintable() and "/" not in document.name
        assert sorted(os.listdir(swift_path)) == ["docs", "workspace"]
        assert faults(forge) == []


def test_I2_a_file_over_the_limit_is_not_read(swift_path: Path) -> None:
    docs = swift_path / "docs"
    docs.mkdir()
    (docs / "small.md").write_text(prose(1))
    (docs / "large.md").write_text(prose(2) * 100)
    with open_forge(swift_path / "workspace", limits__file_bytes=5000) as forge:
        report = forge.add(docs, project="p")
        (failed,) = report.failed
        assert failed.reason is Reason.TOO_LARGE and "limits.file_bytes" in failed.hint
        again = forge.add(docs, project="p")
        assert again.count(Outcome.UNCHANGED) == 1 and again.failed[0].message == failed.message
        assert len(list((swift_path / "workspace" / "uploads").glob("*/*/*"))) == 1
