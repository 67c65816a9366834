"""PPTX -> a heading for each slide with its text, tables, charts, notes and comments. A slide is a page."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from typing import Any

from pptx.enum.shapes import PP_PLACEHOLDER
from pptx.package import Package

from ragforge.domain.documents import Parsed, Reason
from ragforge.ingest.parse.markup import table
from ragforge.ingest.parse.package import core_title, xml_tree
from ragforge.ingest.parse.text import CannotParse, MarkedText

_TEXT = "{http://schemas.openxmlformats.org/drawingml/2006/main}t"
_PARAGRAPH = "{http://schemas.openxmlformats.org/drawingml/2006/main}p"
_DIAGRAM = "{http://schemas.openxmlformats.org/drawingml/2006/diagram}relIds"
_DIAGRAM_DATA = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}dm"
_BULLETED = (PP_PLACEHOLDER.BODY, PP_PLACEHOLDER.OBJECT, PP_PLACEHOLDER.VERTICAL_BODY, PP_PLACEHOLDER.VERTICAL_OBJECT)
_OUTSIDE = (PP_PLACEHOLDER.SLIDE_NUMBER, PP_PLACEHOLDER.DATE)


def read(data: bytes, archive: zipfile.ZipFile) -> Parsed:
    """Slides in order, hidden ones too, which are noted."""
    presentation = Package.open(io.BytesIO(data)).main_document_part.presentation
    authors = _authors(presentation.part)
    text = MarkedText()
    hidden: list[str] = []
    has_text = False
    for number, slide in enumerate(presentation.slides, start=1):
        if slide._element.get("show") in ("0", "false"):
            hidden.append(str(number))
        blocks = [*_slide(number, slide), *_comments(slide.part, authors)]
        has_text = has_text or len(blocks) > 1 or ":" in blocks[0]
        text.add("\n\n".join(blocks) + "\n\n", page=number)
    if not has_text:
        raise CannotParse(
            Reason.NO_TEXT,
            "no text on any slide: needs OCR",
            "export it as PDF, run that through OCR (for example ocrmypdf) and add it",
        )
    notes = (f"hidden slide{'s' if len(hidden) > 1 else ''}: {', '.join(hidden)}",) if hidden else ()
    return Parsed(text.text, marks=text.marks, title=core_title(archive), notes=notes)


def _slide(number: int, slide: Any) -> Iterator[str]:
    title = slide.shapes.title
    name = " ".join(title.text_frame.text.split()) if title is not None and title.has_text_frame else ""
    yield f"## Slide {number}: {name}" if name else f"## Slide {number}"
    for shape in slide.shapes:
        if title is None or shape.shape_id != title.shape_id:
            yield from filter(None, _shape(shape, slide))
    if slide.has_notes_slide:
        frame = slide.notes_slide.notes_text_frame
        if frame is not None and frame.text.strip():
            yield "### Notes"
            yield frame.text.replace("\v", "\n").strip()


def _related(part: Any, *kinds: str) -> Iterator[Any]:
    """The parts of these kinds that a part refers to, as XML."""
    for link in part.rels.values():
        if not link.is_external and link.reltype.rpartition("/")[2] in kinds:
            yield xml_tree(link.target_part.blob)


def _authors(presentation: Any) -> dict[str | None, str]:
    """The names of those who commented, by their identity."""
    roots = _related(presentation, "commentAuthors", "authors")
    return {author.get("id"): author.get("name") or "" for root in roots for author in root}


def _comments(slide: Any, authors: dict[str | None, str]) -> Iterator[str]:
    """What was said about a slide: `text` holds it in old files, `txBody` in new ones, where answers stand inside."""
    found = []
    for comment in (comment for root in _related(slide, "comments") for comment in root.iter("{*}cm", "{*}reply")):
        paragraphs = comment.findall("{*}text") or comment.findall(f"{{*}}txBody/{_PARAGRAPH}")
        words = _plain(" ".join("".join(paragraph.itertext()) for paragraph in paragraphs))
        if words:
            found.append(": ".join(filter(None, [authors.get(comment.get("authorId")), words])))
    if found:
        yield from ("### Comments", *found)


def _shape(shape: Any, slide: Any) -> Iterator[str]:
    """A shape's blocks of Markdown."""
    if hasattr(shape, "shapes"):
        for inner in shape.shapes:
            yield from _shape(inner, slide)
    elif getattr(shape, "has_table", False):
        yield table([[_plain(cell.text_frame.text) for cell in row.cells] for row in shape.table.rows])
    elif getattr(shape, "has_chart", False):
        yield from _chart(shape.chart)
    elif shape.has_text_frame:
        kind = shape.placeholder_format.type if shape.is_placeholder else None
        if kind not in _OUTSIDE:
            yield _text(shape.text_frame, kind in _BULLETED)
    else:
        yield from _diagram(shape, slide)
        yield _plain(_alternative_text(shape))


def _plain(text: str) -> str:
    return " ".join(text.split())


def _text(frame: Any, bulleted: bool) -> str:
    lines = [(paragraph.level, _paragraph(paragraph)) for paragraph in frame.paragraphs]
    lines = [(level, line) for level, line in lines if line]
    if bulleted and len(lines) > 1:
        return "\n".join("  " * level + "- " + line for level, line in lines)
    return "\n".join(line for _, line in lines)


def _paragraph(paragraph: Any) -> str:
    """A paragraph's text with its links; fields and line breaks are part of it."""
    text: str = paragraph.text
    for run in paragraph.runs:
        target = _target(run)
        if target and run.text.strip() and run.text.strip() != target:
            text = text.replace(run.text, f"[{run.text.strip()}]({target})", 1)
    return _plain(text)


def _target(run: Any) -> str | None:
    try:
        address: str | None = run.hyperlink.address
    except KeyError:
        return None
    return address if address and address.startswith(("http:", "https:", "mailto:")) else None


def _chart(chart: Any) -> Iterator[str]:
    """A chart's title and its figures as a table."""
    if chart.has_title and chart.chart_title.has_text_frame:
        yield _plain(chart.chart_title.text_frame.text)
    for plot in chart.plots:
        series = list(plot.series)
        rows = [["", *(_plain(one.name or "") for one in series)]]
        columns = [list(one.values) for one in series]
        for place, category in enumerate(plot.categories):
            values = [column[place] if place < len(column) else None for column in columns]
            rows.append([_plain(str(category)), *("" if value is None else f"{value:g}" for value in values)])
        yield table(rows)


def _diagram(shape: Any, slide: Any) -> Iterator[str]:
    """The texts of a SmartArt diagram, which stand in a part of their own."""
    for reference in shape._element.iter(_DIAGRAM):
        part = slide.part.related_part(reference.get(_DIAGRAM_DATA))
        root = xml_tree(part.blob)
        paragraphs = (_plain("".join(t.text or "" for t in p.iter(_TEXT))) for p in root.iter(_PARAGRAPH))
        yield "\n".join(f"- {line}" for line in paragraphs if line)


def _alternative_text(shape: Any) -> str:
    properties = shape._element.xpath(".//p:cNvPr")
    return (properties[0].get("descr") or "") if properties else ""
