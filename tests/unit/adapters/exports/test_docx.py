"""A made document as a Word file: whole, readable by our own parser, and harmless whatever the text holds."""

from __future__ import annotations

import io
import zipfile
from datetime import UTC, datetime
from xml.etree import ElementTree

from hypothesis import given, settings
from hypothesis import strategies as st

from ragforge.adapters.exports.docx import docx
from ragforge.domain.documents import Locator
from ragforge.domain.prompts import Source
from ragforge.domain.records import Artifact, ArtifactSection
from ragforge.ingest.parse.docx import read
from tests.proof import count

WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
TEXT = """Two **bold** words and `code` [1], *slanted* [2].

- one
  - below
- two [1]

1. first
2. second

Between.

1. again first

| part | cost |
|---|---|
| desk | 5 [2] |

```
a = [1]
```

> **Open.** Nothing."""


def artifact(text: str = TEXT, title: str = "Plan & <more>") -> Artifact:
    sources = tuple(
        Source(number, f"c{number}", (), f"d{number}", name, Locator(page=number), "", 1.0, "t", 1)
        for number, name in ((1, "a.md"), (2, "b & c.pdf"))
    )
    sections = (ArtifactSection("Overview", 1, text), ArtifactSection("Goals", 2, "Short. [2]"))
    return Artifact("id", "blueprint", title, datetime(2030, 1, 2, tzinfo=UTC), sections, sources)


def parts(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def body(data: bytes) -> ElementTree.Element:
    return ElementTree.fromstring(parts(data)["word/document.xml"])


def text_of(element: ElementTree.Element) -> str:
    return "".join(node.text or "" for node in element.iter(f"{WORD}t"))


def test_our_own_parser_reads_what_was_written() -> None:
    data = docx(artifact())
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        text = read(data, archive).text
    assert "# Overview" in text and "## Goals" in text and "## Sources" in text
    assert "**bold**" in text
    assert "| part | cost |" in text.replace("**", "")
    assert "[1] a.md, p. 1" in text.replace("\\", "") and "b & c.pdf, p. 2" in text
    assert "a = [1]" in text.replace("\\", "")
    assert text.index("Overview") < text.index("Goals") < text.index("Sources")


def test_every_part_is_xml_and_nothing_points_outside() -> None:
    for name, data in parts(docx(artifact())).items():
        ElementTree.fromstring(data)
        assert b'TargetMode="External"' not in data, name
        assert b"file:" not in data, name


def test_markers_lead_to_their_source() -> None:
    root = body(docx(artifact()))
    links = [(link.get(f"{WORD}anchor"), text_of(link)) for link in root.iter(f"{WORD}hyperlink")]
    names = {mark.get(f"{WORD}name") for mark in root.iter(f"{WORD}bookmarkStart")}
    assert ("source_1", "[1]") in links and ("source_2", "[2]") in links
    assert {anchor for anchor, _ in links} <= names


def test_lists_that_count_begin_anew() -> None:
    data = docx(artifact())
    numbers = [each.get(f"{WORD}val") for each in body(data).iter(f"{WORD}numId")]
    assert numbers == ["1", "1", "1", "2", "2", "3"]
    listed = ElementTree.fromstring(parts(data)["word/numbering.xml"]).findall(f"{WORD}num")
    assert {each.get(f"{WORD}numId") for each in listed} == {"1", "2", "3"}


def test_links_images_and_html_stay_text() -> None:
    text = "![x](https://evil.example/a.png) [y](https://evil.example) <img src=x> <https://evil.example>"
    data = parts(docx(artifact(text)))
    assert sorted(data) == sorted(parts(docx(artifact("plain"))))
    assert b"evil" not in data["word/_rels/document.xml.rels"]
    assert "https://evil.example/a.png" in text_of(ElementTree.fromstring(data["word/document.xml"]))


def test_a_remark_stands_below_the_title() -> None:
    first, second, third = list(body(docx(artifact(), "Made of *oak*."))[0])[:3]
    assert [text_of(each) for each in (first, second, third)] == ["Plan & <more>", "Made of oak.", "Overview"]


def test_the_same_document_gives_the_same_bytes() -> None:
    assert docx(artifact()) == docx(artifact())


def test_any_text_gives_a_whole_file() -> None:
    @settings(max_examples=count(60, 2_000), deadline=None)
    @given(
        st.text(max_size=200)
        | st.lists(st.sampled_from(["- a", "| a |", "|---|", "```", "> q", "1. x", "\x00", "\ud800"])).map("\n".join),
        st.text(min_size=1, max_size=40),
    )
    def holds(text: str, title: str) -> None:
        body(docx(artifact(text, title)))

    holds()
