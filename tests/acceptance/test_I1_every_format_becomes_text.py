"""I1: every format becomes text that can be found, whatever its kind."""

from __future__ import annotations

import email.message
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import openpyxl
import pptx

from ragforge.domain.documents import Reason
from ragforge.domain.library import Outcome
from tests.forge import open_forge, text_of
from tests.office_files import docx, epub, opendocument, paragraph
from tests.pdf_files import pdf

SENTENCE = "The walnut desk is returned within thirty days of delivery."


def presentation() -> bytes:
    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[5])
    assert slide.shapes.title is not None
    slide.shapes.title.text = SENTENCE
    return saved(deck.save)


def workbook() -> bytes:
    book = openpyxl.Workbook()
    book.active.append(["Rule", "Days"])
    book.active.append([SENTENCE, 30])
    return saved(book.save)


def saved(save: Callable[[io.BytesIO], object]) -> bytes:
    out = io.BytesIO()
    save(out)
    return out.getvalue()


def mail() -> bytes:
    message = email.message.EmailMessage()
    message["From"], message["To"], message["Subject"] = "ann@example.com", "bob@example.com", "Returns"
    message["Date"] = "Mon, 02 Mar 2026 10:00:00 +0000"
    message.set_content(SENTENCE)
    return message.as_bytes()


def named_first(package: bytes) -> bytes:
    """The package with its type as the first entry, stored: what its standard asks for."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(package)) as before, zipfile.ZipFile(out, "w") as after:
        for name in sorted(before.namelist(), key=lambda name: name != "mimetype"):
            after.writestr(name, before.read(name))
    return out.getvalue()


FILES: dict[str, bytes] = {
    "note.md": f"# Returns\n\n{SENTENCE}\n".encode(),
    "note.txt": SENTENCE.encode(),
    "umlaut.txt": f"Möbel für Kunden. {SENTENCE}".encode("utf-16"),
    "rules.docx": docx(paragraph("Returns", "berschrift1") + paragraph(SENTENCE)),
    "rules.pdf": pdf([[(72, 700, SENTENCE)]]),
    "deck.pptx": presentation(),
    "table.xlsx": workbook(),
    "table.csv": f"rule,days\n{SENTENCE},30\n".encode(),
    "table.tsv": f"rule\tdays\n{SENTENCE}\t30\n".encode(),
    "data.json": json.dumps({"rule": SENTENCE}).encode(),
    "data.jsonl": json.dumps({"rule": SENTENCE}).encode() + b"\n",
    "data.yml": f"rule: {SENTENCE}\n".encode(),
    "data.yaml": f"rules:\n  - {SENTENCE}\n".encode(),
    "page.html": f"<!doctype html><html><body><h1>Returns</h1><p>{SENTENCE}</p></body></html>".encode(),
    "page.xml": f'<?xml version="1.0"?><rules><rule>{SENTENCE}</rule></rules>'.encode(),
    "mail.eml": mail(),
    "old.rtf": rb"{\rtf1\ansi " + SENTENCE.encode() + b"}",
    "book.epub": named_first(epub({"one.xhtml": f"<html><body><h1>One</h1><p>{SENTENCE}</p></body></html>"})),
    "text.odt": named_first(opendocument(f"<text:p>{SENTENCE}</text:p>")),
    "code.py": f'def days():\n    """{SENTENCE}"""\n    return 30\n'.encode(),
    "code.sql": f"-- {SENTENCE}\nSELECT 30;\n".encode(),
    "talk.vtt": f"WEBVTT\n\n00:01.000 --> 00:04.000\n<v Ann>{SENTENCE}\n".encode(),
    "talk.srt": f"1\n00:00:01,000 --> 00:00:04,000\n{SENTENCE}\n".encode(),
    "talk.json": json.dumps([{"text": SENTENCE, "start": 1.0, "duration": 3.0}]).encode(),
}


def test_I1_every_format_becomes_text_that_can_be_found(swift_path: Path) -> None:
    docs = swift_path / "docs"
    docs.mkdir()
    for name, content in FILES.items():
        (docs / name).write_bytes(content)
    with open_forge(swift_path / "workspace") as forge:
        report = forge.add(docs, project="p")
        assert report.failed == ()
        assert report.count(Outcome.READY) == len(FILES)
        for name in FILES:
            found = " ".join(text_of(forge, name).split())
            assert SENTENCE in found, f"{name}: {found}"
        assert all(document.chunks and document.summary for document in forge.documents(project="p"))


def test_I1_what_is_no_text_says_what_it_is_and_what_to_do(swift_path: Path) -> None:
    docs = swift_path / "docs"
    docs.mkdir()
    (docs / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8)
    (docs / "old.doc").write_bytes(bytes.fromhex("d0cf11e0a1b11ae1") + bytes(2000))
    (docs / "scan.pdf").write_bytes(pdf([[]], image=True))
    with open_forge(swift_path / "workspace") as forge:
        report = forge.add(docs, project="p")
        assert report.count(Outcome.READY) == 0
        reasons = {Path(file.path).name: file.reason for file in report.failed}
        assert reasons["scan.pdf"] is Reason.NO_TEXT
        assert reasons["picture.png"] in (Reason.BINARY, Reason.UNSUPPORTED)
        assert all(file.message and file.hint for file in report.failed)
