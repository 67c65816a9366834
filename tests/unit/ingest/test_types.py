"""Type from the bytes; the name only where bytes look alike."""

from __future__ import annotations

import io
import struct
import time
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragforge.domain.documents import ParseFailure, Reason
from ragforge.ingest.parse.registry import PARSERS
from ragforge.ingest.types import FileType, sniff
from tests.proof import count


def kind(data: bytes, name: str) -> FileType:
    found = sniff(io.BytesIO(data), name, len(data))
    assert isinstance(found, FileType), found
    return found


def failure(data: bytes, name: str) -> ParseFailure:
    found = sniff(io.BytesIO(data), name, len(data))
    assert isinstance(found, ParseFailure), found
    return found


def archive(*names: str, first: tuple[str, str] | None = None) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as packed:
        if first:
            packed.writestr(zipfile.ZipInfo(first[0]), first[1])
        for name in names:
            packed.writestr(name, "<xml/>" * 20)
    return buffer.getvalue()


def compound(*streams: str, embedded: str = "") -> bytes:
    """A compound file with streams under its root, and one under a storage of its own."""
    names = ["Root Entry", *streams, "ObjectPool", embedded or "x"]
    nothing = 0xFFFFFFFF
    entries = b""
    for place, name in enumerate(names):
        encoded = name.encode("utf-16-le")
        right = place + 1 if 0 < place < len(names) - 2 else nothing
        child = 1 if place == 0 else len(names) - 1 if name == "ObjectPool" else nothing
        entry = encoded.ljust(64, b"\0") + struct.pack("<H", len(encoded) + 2) + b"\x02\x01"
        entries += (entry + struct.pack("<LLL", nothing, right, child)).ljust(128, b"\0")
    sectors = [entries[place : place + 512].ljust(512, b"\0") for place in range(0, len(entries), 512)]
    chain = [*range(2, len(sectors) + 1), 0xFFFFFFFE]
    table = struct.pack("<L", 0xFFFFFFFD) + b"".join(struct.pack("<L", following) for following in chain)
    header = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1".ljust(30, b"\0") + struct.pack("<H", 9)
    header = header.ljust(48, b"\0") + struct.pack("<L", 1)
    header = header.ljust(76, b"\0") + struct.pack("<109L", 0, *[nothing] * 108)
    return header + table.ljust(512, b"\xff") + b"".join(sectors)


@pytest.mark.parametrize(
    ("name", "parser", "type_name"),
    [
        ("notes.md", "markdown", "markdown"),
        ("notes.txt", "text", "text"),
        ("app.PY", "code", "python"),
        ("query.sql", "code", "sql"),
        ("rows.csv", "table", "csv"),
        ("rows.tsv", "table", "tsv"),
        ("a.json", "data", "json"),
        ("a.jsonl", "data", "ndjson"),
        ("a.yml", "data", "yaml"),
        ("a.toml", "text", "text"),
        ("server.log", "text", "text"),
        ("talk.srt", "transcript", "srt"),
        ("page.html", "html", "html"),
        ("mail.eml", "mail", "email"),
        ("feed.xml", "xml", "xml"),
        ("Dockerfile", "code", "dockerfile"),
        ("README", "text", "text"),
        ("what.unknown", "text", "text"),
        ("really.doc", "text", "text"),
    ],
)
def test_name_chooses_among_texts(name: str, parser: str, type_name: str) -> None:
    found = kind(b"plain words, nothing else\n", name)
    assert (found.parser, found.name) == (parser, type_name)


@pytest.mark.parametrize("name", ["a.pdf", "a.txt", "a.docx", "noname"])
def test_pdf_whatever_the_name(name: str) -> None:
    assert kind(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\x00", name).name == "pdf"


def test_pdf_after_junk_but_not_a_text_about_pdf() -> None:
    assert kind(b"\0\0junk" * 20 + b"%PDF-1.4 ...", "a.bin").name == "pdf"
    assert kind(b'HEADER = b"%PDF-1.4"\n', "a.py").name == "python"


def test_rtf_whatever_the_name() -> None:
    assert kind(rb"{\rtf1\ansi Hello}", "letter.doc").parser == "rtf"


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (("[Content_Types].xml", "_rels/.rels", "word/document.xml"), "docx"),
        (("[Content_Types].xml", "word/document2.xml", "word/vbaProject.bin"), "docx"),
        (("ppt/presentation.xml", "[Content_Types].xml"), "pptx"),
        (("[Content_Types].xml", "xl/workbook.xml"), "xlsx"),
    ],
)
def test_office_by_content(parts: tuple[str, ...], expected: str) -> None:
    found = kind(archive(*parts), "called.zip")
    assert (found.name, found.parser) == (expected, "office")


@pytest.mark.parametrize(
    ("mimetype", "expected"),
    [("application/epub+zip", "epub"), ("application/vnd.oasis.opendocument.text", "odt")],
)
def test_open_document_and_epub(mimetype: str, expected: str) -> None:
    assert kind(archive("content.xml", first=("mimetype", mimetype)), "x.bin").name == expected


def test_archives_say_what_to_do() -> None:
    plain = failure(archive("a.txt", "b.txt"), "things.zip")
    assert (plain.reason, plain.message, plain.hint) == (
        Reason.UNSUPPORTED,
        "a zip archive",
        "unpack it and add the folder",
    )
    assert failure(archive("[Content_Types].xml", "xl/workbook.bin"), "a.xlsb").reason is Reason.LEGACY_FORMAT
    assert "called .docx" in failure(archive("a.txt"), "a.docx").message
    assert failure(archive("[Content_Types].xml", "word/document.xml")[:150], "cut.docx").reason is Reason.CORRUPT


@pytest.mark.parametrize(
    ("stream", "reason", "hint"),
    [
        ("WordDocument", Reason.LEGACY_FORMAT, "save as .docx"),
        ("PowerPoint Document", Reason.LEGACY_FORMAT, "save as .pptx"),
        ("Workbook", Reason.LEGACY_FORMAT, "save as .xlsx"),
        ("Book", Reason.LEGACY_FORMAT, "save as .xlsx"),
        ("__properties_version1.0", Reason.LEGACY_FORMAT, "save as .eml"),
        ("EncryptedPackage", Reason.ENCRYPTED, "remove the password and add it again"),
    ],
)
def test_old_office_files(stream: str, reason: Reason, hint: str) -> None:
    found = failure(compound("a", "b", "c", "d", stream), "anything.docx")
    assert (found.reason, found.hint) == (reason, hint)


def test_embedded_object_does_not_decide() -> None:
    found = failure(compound("Workbook", embedded="WordDocument"), "a.xls")
    assert found.hint == "save as .xlsx"


def test_damaged_compound_file_falls_back_on_the_name() -> None:
    assert failure(compound("WordDocument")[:512], "a.ppt").hint == "save as .pptx"
    assert failure(compound("Unheard of"), "a.bin").reason is Reason.UNSUPPORTED


@pytest.mark.parametrize(
    ("data", "reason", "words"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", Reason.UNSUPPORTED, "a PNG image called .md"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF\0", Reason.UNSUPPORTED, "a JPEG image called .md"),
        (b"\x7fELF\x02\x01\x01\0\0\0", Reason.BINARY, "a Linux program called .md"),
        (b"MZ\x90\0\x03\0\0\0", Reason.BINARY, "a Windows program called .md"),
        (b"SQLite format 3\0\x10\0", Reason.UNSUPPORTED, "an SQLite database called .md"),
        (b"\x1f\x8b\x08\0\0\0\0\0\0\x03", Reason.UNSUPPORTED, "a gzip archive called .md"),
        (bytes(range(256)) * 4, Reason.BINARY, "a binary file called .md"),
        (b"a\0b\0\0\0c\x01\x02" * 9, Reason.BINARY, "a binary file called .md"),
    ],
)
def test_says_what_a_file_is_really(data: bytes, reason: Reason, words: str) -> None:
    found = failure(data, "notes.md")
    assert (found.reason, found.message) == (reason, words)


def test_empty() -> None:
    assert failure(b"", "a.md").reason is Reason.EMPTY


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32", "utf-16-le", "utf-16-be", "utf-32-be", "koi8-r"])
def test_text_in_any_encoding(encoding: str) -> None:
    assert kind("Привет, мир! Hello, world.\n".encode(encoding), "a.txt").parser == "text"


@pytest.mark.parametrize("encoding", ["shift_jis", "euc-jp", "gb18030", "big5", "utf-16-le"])
def test_asian_text(encoding: str) -> None:
    assert kind(("日本東京大阪\n" * 20).encode(encoding), "a.txt").parser == "text"


@pytest.mark.parametrize(
    ("data", "name", "expected"),
    [
        (b"<!DOCTYPE html><html><body>x", "page", "html"),
        (b"<!-- hi -->\n<html><body>x", "page.aspx", "html"),
        (b"<!doctype html><p>x", "a.txt", "text"),
        (b"<html>\n<body>x", "a.md", "markdown"),
        (b"<!doctype html><p>x", "a.xml", "html"),
        (b'<?xml version="1.0"?><a/>', "a", "xml"),
        (b'<?xml version="1.0"?><!DOCTYPE html><html/>', "a", "html"),
        (b'{"a": 1}', "a", "json"),
        (b"[1] Smith, J. (2001)", "references", "text"),
        (b"#!/usr/bin/env python3\nprint(1)\n", "run", "python"),
        (b"#!/bin/bash\necho\n", "run", "shell"),
        (b"From: a@b.c\nTo: d@e.f\nSubject: x\nDate: y\n\nHello", "message", "email"),
        (b"Note: this is no mail\n", "message", "text"),
        (b"WEBVTT\n\n00:01.000 --> 00:02.000\nHi", "a.txt", "vtt"),
        (b"\xef\xbb\xbfWEBVTT - talk\n", "a", "vtt"),
        (b"1\r\n00:00:01,000 --> 00:00:02,000\r\nHi\r\n", "a.txt", "srt"),
        (b"0:00:01.000,0:00:02.000\nHi\n", "captions", "sbv"),
        (b"WEBVTT is a format\n", "about.md", "markdown"),
    ],
)
def test_looks_decide_where_the_name_does_not(data: bytes, name: str, expected: str) -> None:
    assert kind(data, name).name == expected


def test_a_few_control_bytes_do_not_make_a_log_binary() -> None:
    assert kind(b"line of a log\n" * 100 + b"\0" + b"more\n" * 100, "a.log").parser == "text"


@pytest.mark.parametrize("name", ["page", "page.xml"])
@pytest.mark.parametrize("opening", [b"<!---->", b"<!-- ", b"<!-- --> ", b"{ ", b"[ ", b"#! /", b"From: "])
def test_the_look_of_a_text_takes_no_time(opening: bytes, name: str) -> None:
    began = time.thread_time()
    kind(opening * 10_000 + b"x", name)
    assert time.thread_time() - began < 1


@settings(max_examples=count(33, 100), deadline=None)
@given(
    st.one_of(
        st.binary(max_size=700),
        st.binary(max_size=700).map(lambda tail: b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + tail),
        st.binary(max_size=200).map(lambda tail: b"PK\x03\x04" + tail + b"PK\x05\x06" + tail[:20]),
    ),
    st.sampled_from(["a", "a.md", "a.docx", "a.doc", "a.zip", "a.json", ".env", "", "a."]),
)
def test_never_raises_and_leaves_the_file_at_its_start(data: bytes, name: str) -> None:
    file = io.BytesIO(data)
    found = sniff(file, name, len(data))
    assert file.tell() == 0
    if isinstance(found, FileType):
        assert found.parser in PARSERS
    else:
        assert found.message


@settings(max_examples=40, deadline=None)
@given(st.binary(min_size=512, max_size=1024))
def test_broken_compound_files(noise: bytes) -> None:
    data = compound("WordDocument")
    assert isinstance(sniff(io.BytesIO(data[:48] + noise), "a.doc", 48 + len(noise)), ParseFailure)
