"""XML: sections, paragraphs and `name: value` lines; entities are refused, nothing is fetched."""

from __future__ import annotations

import socket

import pytest

from ragforge.domain.documents import ParseFailure, Reason
from ragforge.ingest.parse import registry
from ragforge.ingest.parse.xml import parse

LAUGHS = b'<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]><x>&b;</x>'
OUTSIDE = b'<!DOCTYPE x [<!ENTITY f SYSTEM "file:///etc/hostname">]><x>&f;</x>'


def test_records_become_lines_with_their_attributes() -> None:
    source = b'<shop v="2"><item id="7"><price cur="EUR">40</price><tags><t>oak</t></tags></item><empty/></shop>'
    assert parse(source, "a.xml").text == "v: 2\n\n- item (id: 7)\n  - price (cur: EUR): 40\n  - tags\n    - t: oak"


def test_titles_become_headings() -> None:
    source = b"""<?xml version="1.0"?>
    <!DOCTYPE article PUBLIC "-//OASIS//DTD DocBook XML V4.5//EN" "http://www.oasis-open.org/docbook/xml/4.5/docbookx.dtd">
    <article><title>Guide</title><section><title>Install</title><para>Press <key>Enter</key>&nbsp;now.</para>
    <para><![CDATA[if a < b]]></para></section></article>"""
    parsed = parse(source, "a.xml")
    assert parsed.title == "Guide"
    assert parsed.text == "# Guide\n\n## Install\n\nPress Enter now.\n\nif a < b"


def test_a_feed_shows_its_items_and_their_html() -> None:
    source = """<rss version="2.0"><channel><title>News</title><item><title>Überschrift</title>
    <description>&lt;p&gt;Some &lt;b&gt;bold&lt;/b&gt; words&lt;/p&gt;</description></item></channel></rss>"""
    parsed = parse(source.encode(), "feed.xml")
    assert parsed.title == "News"
    assert "## Überschrift\n\n- description: Some **bold** words" in parsed.text


@pytest.mark.parametrize("data", [LAUGHS, OUTSIDE, LAUGHS.decode().encode("utf-16")])
def test_entities_are_refused(data: bytes) -> None:
    failure = registry.run("xml", data, "a.xml")
    assert isinstance(failure, ParseFailure)
    assert failure.reason is Reason.HOSTILE


def test_an_outside_document_type_is_not_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("tried to connect")

    monkeypatch.setattr(socket, "socket", refuse)
    source = b'<!DOCTYPE x SYSTEM "http://127.0.0.1:9/x.dtd"><x><a>text</a></x>'
    assert parse(source, "a.xml").text == "- a: text"


def test_other_encodings_are_read() -> None:
    source = '<?xml version="1.0" encoding="iso-8859-1"?><x><a>Käse</a></x>'
    assert parse(source.encode("latin-1"), "a.xml").text == "- a: Käse"


def test_what_is_not_well_formed_is_read_and_noted() -> None:
    parsed = parse(b"<x><a>fish & chips</a><b>two</b></x>", "a.xml")
    assert "chips" in parsed.text
    assert "- b: two" in parsed.text
    assert parsed.notes == ("not well-formed XML: parts may be missing",)


def test_undeclared_prefixes_are_read() -> None:
    assert "- creator: Ann" in parse(b"<x><dc:creator>Ann</dc:creator><b>two</b></x>", "a.xml").text


def test_what_is_no_xml_says_so() -> None:
    failure = registry.run("xml", b"\x00\x01 no xml at all", "a.xml")
    assert isinstance(failure, ParseFailure)
    assert failure.reason is Reason.CORRUPT
