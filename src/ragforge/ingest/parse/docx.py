"""DOCX -> Markdown by mammoth: styles become headings, lists and tables; pictures their alternative text."""

from __future__ import annotations

import importlib.util
import io
import re
import sys
import zipfile
from importlib import import_module
from typing import Any

import mammoth
from defusedxml import ElementTree
from lxml import etree

from ragforge.domain.documents import Parsed, Reason
from ragforge.ingest.parse.html import tree
from ragforge.ingest.parse.markup import markdown
from ragforge.ingest.parse.package import core_title, main_part, part, resolve
from ragforge.ingest.parse.text import CannotParse, MarkedText

_STYLE_MAP = ["p[style-name='Title'] => h1:fresh"] + [f"p[style-name='heading {n}'] => h6:fresh" for n in (7, 8, 9)]
_WRAPPERS = ("fldSimple", "moveTo", "dir", "bdo", "customXml", "ruby", "rubyBase")
_LAYOUT = (
    "rFonts",
    "sz",
    "szCs",
    "color",
    "lang",
    "spacing",
    "shd",
    "kern",
    "bCs",
    "iCs",
    "noProof",
    "proofErr",
    "ind",
    "jc",
    "tabs",
    "tcW",
    "tcBorders",
    "tblBorders",
    "tblGrid",
    "vAlign",
    "trHeight",
    "lastRenderedPageBreak",
    "keepNext",
    "keepLines",
    "widowControl",
    "contextualSpacing",
    "bookmarkEnd",
    "autoSpaceDE",
    "autoSpaceDN",
    "adjustRightInd",
)
_BACK_LINKS = ("#footnote-ref-", "#endnote-ref-")
_PAGE_NUMBER = re.compile(
    r"(?:page|seite|página|pagina|side|sida|[ps](?=\.))?\W{0,5}\d{1,9}\W{0,5}"
    r"(?:(?:of|von|sur|de|di|af|av)?\W{0,5}\d{1,9}\W{0,5})?",
    re.IGNORECASE,
)


def read(data: bytes, archive: zipfile.ZipFile) -> Parsed:
    """The document's body with foot- and endnotes, then what stands beside it; equations as LaTeX.

    A note says where text is hidden.
    """
    name = main_part(archive)
    document = part(archive, name)
    notes = []
    style_map = list(_STYLE_MAP)
    margins = [*_related(archive, name, "header"), *_related(archive, name, "footer")]
    comments = _related(archive, name, "comments")
    hidden = sum(hidden_passages(root) for root in (document, *margins, *comments) if root is not None)
    if hidden:
        notes.append(f"{hidden} hidden passage{'s' if hidden > 1 else ''}")
    if document is not None:
        style_map += _own_heading_styles(part(archive, resolve(name, "styles.xml")))
        equations_to_latex(document)
        open_wrappers(document)
        drop_layout(document)
        data = _with_part(archive, name, etree.tostring(document, encoding="UTF-8", standalone=True))
    page = mammoth.convert_to_html(
        io.BytesIO(data), style_map="\n".join(style_map), convert_image=mammoth.images.img_element(lambda image: {})
    )
    root = tree(page.value)
    for link in list(root.iter("a")):
        if (link.get("href") or "").startswith(_BACK_LINKS):
            link.drop_tree()
    body = markdown(root)
    beside = [
        *_section("Header and footer", "\n", _margin_lines(margins)),
        *_section("Comments", "\n\n", _said(comments)),
    ]
    if not body and any("/media/" in entry for entry in archive.namelist()):
        if not beside:
            raise CannotParse(
                Reason.NO_TEXT, "pictures only: needs OCR", "save it as PDF, run that through OCR and add it"
            )
        notes.append("no text in its body, but pictures: they need OCR")
    text = MarkedText()
    text.add("\n\n".join(filter(None, [body, *beside])))
    return Parsed(text.text, title=core_title(archive), notes=tuple(notes))


def _related(archive: zipfile.ZipFile, name: str, kind: str) -> list[etree._Element]:
    """The parts of a kind that a part refers to."""
    folder, _, file = name.rpartition("/")
    links = part(archive, f"{folder}/_rels/{file}.rels".lstrip("/"))
    targets = [
        resolve(name, link.get("Target") or "")
        for link in (links if links is not None else ())
        if (link.get("Type") or "").endswith(f"/{kind}") and link.get("TargetMode") != "External"
    ]
    found = (part(archive, target) for target in dict.fromkeys(targets))
    return [root for root in found if root is not None]


def _section(title: str, between: str, lines: list[str]) -> list[str]:
    return [f"## {title}\n\n{between.join(lines)}"] if lines else []


def _margin_lines(margins: list[etree._Element]) -> list[str]:
    """Each line of headers and footers once; page numbers say nothing."""
    lines = dict.fromkeys(line for root in margins for line in _lines(root))
    return [line for line in lines if any(map(str.isalpha, line)) and not _PAGE_NUMBER.fullmatch(line)]


def _said(comments: list[etree._Element]) -> list[str]:
    """Each comment behind the name of who wrote it."""
    found = []
    for comment in (comment for root in comments for comment in root.iter("{*}comment")):
        if words := " ".join(_lines(comment)):
            found.append(": ".join(filter(None, [_attribute(comment, "author"), words])))
    return found


def _lines(root: etree._Element) -> list[str]:
    """The text of each paragraph. Those of a text box, which stand inside another, are lines of their own."""
    lines: dict[etree._Element | None, list[str]] = {paragraph: [] for paragraph in root.iter("{*}p")}
    for piece in root.iter("{*}t", "{*}tab", "{*}ptab", "{*}br", "{*}cr"):
        owner = next(piece.iterancestors("{*}p"), None)
        if owner in lines:
            lines[owner].append(piece.text or " ")
    return [line for pieces in lines.values() if (line := " ".join("".join(pieces).split()))]


def hidden_passages(document: etree._Element) -> int:
    """How many passages of the text are hidden, or white and so unseen. Runs side by side count once."""
    found = 0
    for paragraph in document.iter("{*}p"):
        before = False
        for run in paragraph.iter("{*}r"):
            hidden = _is_hidden(run) and any((text.text or "").strip() for text in run.iter("{*}t"))
            found += hidden and not before
            before = hidden
    return found


def _is_hidden(run: etree._Element) -> bool:
    properties = run.find("{*}rPr")
    if properties is None:
        return False
    vanish, color = properties.find("{*}vanish"), properties.find("{*}color")
    if vanish is not None and _value(vanish) not in ("0", "false", "off"):
        return True
    # White on a shaded ground can be read: a dark table header is no hiding place.
    shaded = properties.find("{*}shd") is not None or properties.find("{*}highlight") is not None
    in_shaded_cell = next(run.iterancestors("{*}tc"), None) is not None
    return color is not None and (_value(color) or "").upper() == "FFFFFF" and not shaded and not in_shaded_cell


def _value(element: etree._Element) -> str | None:
    return next((value for key, value in element.attrib.items() if etree.QName(key).localname == "val"), None)


def _own_heading_styles(styles: etree._Element | None) -> list[str]:
    """Style map lines for the document's own paragraph styles that have an outline level, or inherit one."""
    if styles is None:
        return []
    by_id = {_attribute(style, "styleId"): style for style in styles.findall("{*}style")}
    lines = []
    for style in by_id.values():
        name = _child_value(style, "name") or ""
        level = _outline_level(style, by_id)
        is_plain = not set(name) & set("'\"\\\n") and not name.lower().startswith(("heading ", "toc"))
        if level is not None and level < 9 and name and is_plain and _attribute(style, "type") == "paragraph":
            lines.append(f"p[style-name='{name}'] => h{min(level + 1, 6)}:fresh")
    return lines


def _outline_level(style: etree._Element, by_id: dict[str | None, etree._Element]) -> int | None:
    seen: set[str | None] = set()
    current: etree._Element | None = style
    while current is not None and _attribute(current, "styleId") not in seen:
        seen.add(_attribute(current, "styleId"))
        level = current.find("{*}pPr/{*}outlineLvl")
        if level is not None:
            value = _value(level) or ""
            return int(value) if value.isascii() and value.isdigit() else None
        current = by_id.get(_child_value(current, "basedOn"))
    return None


def _attribute(element: etree._Element, name: str) -> str | None:
    return next((value for key, value in element.attrib.items() if etree.QName(key).localname == name), None)


def _child_value(element: etree._Element, name: str) -> str | None:
    child = element.find(f"{{*}}{name}")
    return None if child is None else _value(child)


def _load_equation_reader() -> Any:
    """MarkItDown's reader of Office equations, loaded by itself: its package would load an ONNX runtime too."""
    package = importlib.util.find_spec("markitdown")
    assert package is not None and package.submodule_search_locations
    folder = f"{package.submodule_search_locations[0]}/converter_utils/docx/math"
    spec = importlib.util.spec_from_file_location(
        "markitdown_math", f"{folder}/__init__.py", submodule_search_locations=[folder]
    )
    assert spec is not None
    sys.modules["markitdown_math"] = importlib.util.module_from_spec(spec)
    return import_module("markitdown_math.omml").oMath2Latex


_latex_of = _load_equation_reader()


def equations_to_latex(document: etree._Element) -> None:
    """Put `$latex$` in the place of every equation, which mammoth would leave out."""
    equations = list(document.iter("{http://schemas.openxmlformats.org/officeDocument/2006/math}oMath"))
    word = etree.QName(document).namespace
    for equation in equations:
        run = etree.Element(f"{{{word}}}r")
        text = etree.SubElement(run, f"{{{word}}}t")
        text.text = f" ${_latex(equation)}$ "
        run.tail = equation.tail
        parent = equation.getparent()
        parent.replace(equation, run)
        if etree.QName(parent).localname == "oMathPara":
            parent.tag = f"{{{word}}}smartTag"


def open_wrappers(document: etree._Element) -> None:
    """Turn elements whose text mammoth would leave out into ones it looks into."""
    word = etree.QName(document).namespace
    for reading in list(document.iter(f"{{{word}}}rt")):
        reading.getparent().remove(reading)
    for wrapper in list(document.iter(*(f"{{{word}}}{name}" for name in _WRAPPERS))):
        wrapper.tag = f"{{{word}}}smartTag"


def drop_layout(document: etree._Element) -> None:
    """Take away what mammoth reads slowly and does not use: fonts, sizes, spacing, revision numbers."""
    word = etree.QName(document).namespace
    for element in list(document.iter(*(f"{{{word}}}{name}" for name in _LAYOUT))):
        element.getparent().remove(element)
    for element in document.iter(f"{{{word}}}p", f"{{{word}}}r", f"{{{word}}}tr"):
        element.attrib.clear()


def _latex(equation: etree._Element) -> str:
    """LaTeX of an equation; its bare signs where it holds something unknown."""
    try:
        latex: str = _latex_of(ElementTree.fromstring(etree.tostring(equation, with_tail=False))).latex
    except (NotImplementedError, AttributeError, TypeError, KeyError, ValueError):
        latex = "".join(equation.itertext())
    return " ".join(latex.split())


def _with_part(archive: zipfile.ZipFile, name: str, content: bytes) -> bytes:
    """The package with one part changed, and without pictures and embedded files."""
    changed = io.BytesIO()
    with zipfile.ZipFile(changed, "w") as target:
        for entry in archive.infolist():
            if entry.filename == name:
                target.writestr(name, content)
            elif not entry.is_dir() and not set(entry.filename.split("/")) & {"media", "embeddings"}:
                target.writestr(entry.filename, archive.read(entry))
    return changed.getvalue()
