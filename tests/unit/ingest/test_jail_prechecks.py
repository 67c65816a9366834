"""Prechecks: honest files pass quickly, and depth is measured right whatever stands around it."""

from __future__ import annotations

import io
import time
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from ragforge.domain.documents import ParseFailure, Reason
from ragforge.ingest.jail.prechecks import MAX_DEPTH, precheck
from tests.proof import count


def check(data: bytes, type_name: str) -> ParseFailure | None:
    file = io.BytesIO(data)
    file.seek(0, io.SEEK_END)
    refused = precheck(file, len(data), type_name)
    assert file.tell() == 0
    return refused


def reason(data: bytes, type_name: str) -> Reason | None:
    refused = check(data, type_name)
    return refused.reason if refused else None


def zipped(parts: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return file.getvalue()


TREE = b"<?xml version='1.0'?><a><b c='1'/>text</a>"


# What may stand beside an element and says nothing of its depth, though it looks so.
asides = some.sampled_from(
    [
        b"",
        b"text",
        b"/>",
        b"<!-- </a><a> -->",
        b"<![CDATA[</a></a><a>]]>",
        b"<?x </a> ?>",
        b"<b/>",
        b"<b c='/>'/>",
        b"&lt;",
    ]
)
names = some.sampled_from([b"a", b"w:p", b"long-name"])
attributes = some.sampled_from([b"", b" b='1'", b" b='/>'", b" b='>'", b' c="x/y"'])


@settings(max_examples=count(33, 100), deadline=None)
@given(
    some.sampled_from([1, 5, 200, MAX_DEPTH - 1, MAX_DEPTH, MAX_DEPTH + 1, 400, 2000]),
    names,
    attributes,
    some.lists(asides, min_size=1, max_size=4),
    some.integers(1, 3),
    some.sampled_from(["utf-8", "utf-16"]),
)
def test_depth_is_measured_exactly(
    depth: int, name: bytes, attribute: bytes, beside: list[bytes], times: int, encoding: str
) -> None:
    around = b"".join(beside)
    levels = (depth - 1 - (b"<b" in around)) if depth > 2 else 1
    chain = (b"<" + name + attribute + b">" + around) * levels + (b"</" + name + b">") * levels
    document = (b"<root xmlns:w='w'>" + chain * times + b"</root>").decode().encode(encoding)
    deepest = levels + 1 + (b"<b" in around)
    assert reason(document, "xml") == (Reason.HOSTILE if deepest > MAX_DEPTH else None)


@pytest.mark.parametrize("type_name", ["docx", "pptx", "xlsx", "epub", "odt", "ods", "odp", "zip"])
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_honest_archives_pass(type_name: str, method: int) -> None:
    embedded = zipped({"xl/workbook.xml": TREE})
    assert (
        check(zipped({"a.xml": TREE, "b/c.rels": TREE, "d.xlsx": embedded, "e.png": b"\0" * 9}, method), type_name)
        is None
    )


def test_small_honest_archives_may_shrink_much() -> None:
    assert check(zipped({"a.xml": b"<a>" + b"<b/>" * 500_000 + b"</a>"}), "docx") is None


@pytest.mark.parametrize(
    ("document", "docx", "epub"),
    [
        (b"<!DOCTYPE html><html/>", Reason.HOSTILE, None),
        (b'<!DOCTYPE ncx PUBLIC "-//N//DTD" "http://example.com/ncx.dtd"><ncx/>', Reason.HOSTILE, None),
        (b"<!-- <!DOCTYPE x> --><a><![CDATA[<!DOCTYPE x [<!ENTITY]]></a>", None, None),
        (b'<!DOCTYPE x [<!ENTITY a "b">]><x/>', Reason.HOSTILE, Reason.HOSTILE),
        (b"<!doctype x [<!ELEMENT a ANY>]><x/>", Reason.HOSTILE, Reason.HOSTILE),
    ],
)
def test_document_types(document: bytes, docx: Reason | None, epub: Reason | None) -> None:
    assert reason(zipped({"a.xml": document}), "docx") == docx
    assert reason(zipped({"a.xml": document}), "epub") == epub
    assert reason(document, "xml") == epub


def test_a_bomb_inside_an_embedded_file_is_found() -> None:
    bomb = zipped({"a.bin": b"\0" * 12_000_000})
    assert reason(zipped({"word/embeddings/a.xlsx": bomb}), "docx") is Reason.HOSTILE


def test_archives_inside_each_other_end_somewhere() -> None:
    data = zipped({"a.xml": TREE})
    for _ in range(3):
        data = zipped({"a.zip": data})
    assert reason(data, "zip") is Reason.HOSTILE


def test_a_password_is_named() -> None:
    data = bytearray(zipped({"a.xml": TREE}))
    data[data.rfind(b"PK\1\2") + 8] |= 1
    assert reason(bytes(data), "docx") is Reason.ENCRYPTED


@pytest.mark.parametrize("encoding", ["windows-1251", "koi8-r", "shift_jis", "gb2312", "euc-kr", "iso-8859-5"])
def test_encodings_of_the_world_pass(encoding: str) -> None:
    assert check(f"<?xml version='1.0' encoding='{encoding}'?><a/>".encode(), "xml") is None


@pytest.mark.parametrize("encoding", ["utf-7", "cp037", "unicode_escape", "zlib", "no-such"])
def test_encodings_that_hide_signs_do_not(encoding: str) -> None:
    assert reason(f"<?xml version='1.0' encoding='{encoding}'?><a/>".encode(), "xml") is Reason.HOSTILE


def test_a_pdf_needs_its_header() -> None:
    assert check(b"%PDF-1.7 and so on", "pdf") is None
    assert reason(b"no such thing", "pdf") is Reason.CORRUPT


def test_other_types_are_left_to_the_jail() -> None:
    assert check(b"[" * 1000, "json") is None


@settings(max_examples=count(33, 100), deadline=None)
@given(some.data())
def test_a_damaged_archive_raises_nothing(data: some.DataObject) -> None:
    archive = bytearray(zipped({"a.xml": TREE, "b.zip": zipped({"c.xml": TREE}), "d.png": b"picture"}))
    for _ in range(data.draw(some.integers(1, 5))):
        archive[data.draw(some.integers(0, len(archive) - 1))] = data.draw(some.integers(0, 255))
    cut = data.draw(some.integers(0, len(archive)))
    for damaged in (bytes(archive), bytes(archive[:cut]), bytes(archive[cut:])):
        check(damaged, "docx")


@pytest.mark.parametrize("opening", [b"<!--", b"<![CDATA[", b"<?", b"<?xml encoding", b"<!-- -->", b"<!DOCTYPE "])
def test_what_is_never_closed_costs_little(opening: bytes) -> None:
    part = b"<r>" + opening * (1_000_000 // len(opening))
    began = time.thread_time()
    check(part, "xml")
    check(zipped({"[Content_Types].xml": part}), "docx")
    assert time.thread_time() - began < 2


@pytest.mark.parametrize("aside", [b"<!-- ", b"<![CDATA[ ", b"<? "])
def test_what_hides_behind_an_open_aside_is_still_seen(aside: bytes) -> None:
    assert reason(b"<!-- a -->" + aside + b"<!ENTITY a 'b'>", "xml") == Reason.HOSTILE


def test_an_ordinary_file_costs_little() -> None:
    text = b"<w:p><w:pPr><w:jc w:val='left'/></w:pPr><w:r><w:t>%s</w:t></w:r></w:p>"
    body = b"".join(text % str(hash(number)).encode() for number in range(10_000))
    data = zipped({"word/document.xml": b"<w:document>" + body + b"</w:document>"})
    started = time.thread_time()
    assert check(data, "docx") is None
    assert time.thread_time() - started < 0.1
