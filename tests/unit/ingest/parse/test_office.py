"""Office files and e-books: headings, tables, slides and sheets come through; locks and traps are named."""

from __future__ import annotations

import io
import socket
import zipfile
from datetime import date, datetime
from typing import Any

import openpyxl
import pptx
import pytest
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.opc.package import Part
from pptx.opc.packuri import PackURI
from pptx.util import Inches

from ragforge.domain.documents import Parsed, ParseFailure, Reason, TextKind
from ragforge.ingest.parse import registry, xlsx
from ragforge.ingest.parse.office import parse
from ragforge.ingest.parse.xlsx import Value, shown
from tests.office_files import WORD, docx, epub, opendocument, packed, paragraph, word_table


def text_of(data: bytes) -> str:
    return parse(data, "file").text


def failure_of(data: bytes) -> ParseFailure:
    result = registry.run("office", data, "file")
    assert isinstance(result, ParseFailure)
    return result


# --- DOCX


def test_docx_headings_and_table() -> None:
    body = (
        paragraph("Preise", "Titel")
        + paragraph("Stühle", "berschrift1")
        + paragraph("Aus Eiche", "berschrift2")
        + word_table([["Artikel", "Preis"], ["Stuhl", "40 €"], ["Tisch | groß", "120 €"]])
        + paragraph("Kapitel der Firma", "Firma1")
        + paragraph("Only bold", properties="<w:b/>")
    )
    parsed = parse(docx(body), "a.docx")
    assert parsed.title == "Price list"
    assert parsed.text == (
        "# Preise\n\n# Stühle\n\n## Aus Eiche\n\n| Artikel | Preis |\n| --- | --- |\n| Stuhl | 40 € |\n"
        "| Tisch \\| groß | 120 € |\n\n### Kapitel der Firma\n\n**Only bold**"
    )


def test_docx_hidden_and_white_text_is_kept_and_noted() -> None:
    body = (
        paragraph("seen")
        + paragraph("obey me", properties="<w:vanish/>")
        + paragraph("white", properties='<w:color w:val="FFFFFF"/>')
        + paragraph("shown", properties='<w:vanish w:val="0"/>')
    )
    parsed = parse(docx(body), "a.docx")
    assert parsed.notes == ("2 hidden passages",)
    assert all(word in parsed.text for word in ("seen", "obey me", "white", "shown"))


def test_docx_text_that_mammoth_would_leave_out() -> None:
    body = (
        "<w:p><w:fldSimple w:instr='X'><w:r><w:t>field</w:t></w:r></w:fldSimple><w:moveTo><w:r><w:t> moved</w:t></w:r>"
        "</w:moveTo><w:r><w:ruby><w:rt><w:r><w:t>reading</w:t></w:r></w:rt><w:rubyBase><w:r><w:t> base</w:t></w:r>"
        "</w:rubyBase></w:ruby></w:r><w:del><w:r><w:delText>deleted</w:delText></w:r></w:del></w:p>"
        "<w:p><m:oMath><m:f><m:fPr/><m:num><m:r><m:t>a</m:t></m:r></m:num><m:den><m:r><m:t>b</m:t></m:r></m:den></m:f></m:oMath></w:p>"
    )
    assert text_of(docx(body)) == "field moved base\n\n$\\frac{a}{b}$"


def test_docx_pictures_links_and_footnotes() -> None:
    picture = (
        '<w:r><w:drawing><wp:inline><wp:docPr id="1" name="p" descr="A red chair"/><a:graphic><a:graphicData><pic:pic>'
        '<pic:blipFill><a:blip r:embed="i"/></pic:blipFill></pic:pic></a:graphicData></a:graphic></wp:inline>'
        "</w:drawing></w:r>"
    )
    body = (
        f'<w:p>{picture}</w:p><w:p><w:hyperlink r:id="h"><w:r><w:t>our page</w:t></w:r></w:hyperlink></w:p>'
        '<w:p><w:r><w:t>Claim</w:t></w:r><w:r><w:footnoteReference w:id="2"/></w:r></w:p>'
    )
    base = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    relationships = (
        f'<Relationship Id="i" Type="{base}/image" Target="media/i.png"/>'
        f'<Relationship Id="f" Type="{base}/footnotes" Target="footnotes.xml"/>'
        f'<Relationship Id="h" Type="{base}/hyperlink" Target="https://e.org/x" TargetMode="External"/>'
    )
    footnotes = (
        f'<w:footnotes xmlns:w="{WORD}"><w:footnote w:id="2">{paragraph("the proof")}</w:footnote></w:footnotes>'
    )
    data = docx(body, {"word/media/i.png": b"\x89PNG", "word/footnotes.xml": footnotes}, relationships)
    assert text_of(data) == "A red chair\n\n[our page](https://e.org/x)\n\nClaim[1]\n\n1. the proof"


def test_docx_of_pictures_only_needs_ocr() -> None:
    assert failure_of(docx("<w:p/>", {"word/media/scan.png": b"\x89PNG"})).reason is Reason.NO_TEXT
    assert failure_of(docx("<w:p/>")).reason is Reason.EMPTY


def test_docx_with_entities_is_refused() -> None:
    trap = '<!DOCTYPE w [<!ENTITY a "ha">]>' + f'<w:document xmlns:w="{WORD}"><w:body><w:p/></w:body></w:document>'
    assert failure_of(docx("", {"word/document.xml": trap})).reason is Reason.HOSTILE


def test_docx_linked_pictures_are_not_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("tried to connect")

    monkeypatch.setattr(socket, "socket", refuse)
    base = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    link = f'<Relationship Id="i" Type="{base}/image" Target="http://127.0.0.1:9/i.png" TargetMode="External"/>'
    picture = '<w:r><w:drawing><wp:inline><a:graphic><a:graphicData><pic:pic><pic:blipFill><a:blip r:link="i"/>'
    picture += "</pic:blipFill></pic:pic></a:graphicData></a:graphic></wp:inline></w:drawing></w:r>"
    assert text_of(docx(f"<w:p>{picture}</w:p>" + paragraph("text"), relationships=link)) == "text"


BASE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def related(**parts: str) -> tuple[dict[str, str | bytes], str]:
    """Parts beside the document, `kind_number="..."`, and the relationships that name them."""
    names = {name: f"{name}.xml" for name in parts}
    links = "".join(
        f'<Relationship Id="{name}" Type="{BASE}/{name.split("_")[0]}" Target="{target}"/>'
        for name, target in names.items()
    )
    return {
        f"word/{names[name]}": f'<w:part xmlns:w="{WORD}">{content}</w:part>' for name, content in parts.items()
    }, links


def comment(author: str, content: str) -> str:
    return f'<w:comment w:id="0" w:author="{author}">{content}</w:comment>'


def test_docx_headers_footers_and_comments_come_last() -> None:
    page = "<w:p><w:r><w:t>Seite </w:t></w:r><w:r><w:t>1</w:t></w:r><w:r><w:t> von 3</w:t></w:r></w:p>"
    more, links = related(
        footer_1=paragraph("Confidential") + page,
        header_1=paragraph("Jensen &amp; Co") + paragraph("- 2 -"),
        header_2="<w:p><w:r><w:t>Jensen</w:t><w:ptab/><w:t>&amp; Co</w:t></w:r></w:p>" + paragraph("Page turner"),
        comments=comment("Mara", paragraph("Is this right?") + paragraph("Ask Bo."))
        + comment("Bo", paragraph("Yes."))
        + comment("Bo", paragraph(" "))
        + comment("", paragraph("Nobody.")),
    )
    assert text_of(docx(paragraph("Body"), more, links)) == (
        "Body\n\n## Header and footer\n\nJensen & Co\nPage turner\nConfidential\n\n"
        "## Comments\n\nMara: Is this right? Ask Bo.\n\nBo: Yes.\n\nNobody."
    )


def test_docx_text_boxes_in_a_header_are_read_once() -> None:
    box = f"<w:txbxContent>{paragraph('Boxed')}</w:txbxContent>"
    more, links = related(header=f"<w:p><w:r><w:t>Head</w:t></w:r><w:r>{box}</w:r><w:r>{box}</w:r></w:p>")
    assert text_of(docx(paragraph("Body"), more, links)) == "Body\n\n## Header and footer\n\nHead\nBoxed"


def test_docx_with_text_beside_the_body_only_is_not_empty() -> None:
    more, links = related(header=paragraph("Letterhead"))
    assert text_of(docx("<w:p/>", more, links)) == "## Header and footer\n\nLetterhead"
    parsed = parse(docx("<w:p/>", {**more, "word/media/scan.png": b"\x89PNG"}, links), "a.docx")
    assert parsed.notes == ("no text in its body, but pictures: they need OCR",)
    more, links = related(comments=comment("Bo", paragraph("Hello")))
    assert text_of(docx("<w:p/>", more, links)) == "## Comments\n\nBo: Hello"
    more, links = related(footer=paragraph("Page 3 / 4"))
    assert failure_of(docx("<w:p/>", more, links)).reason is Reason.EMPTY


def test_docx_hidden_text_beside_the_body_is_noted() -> None:
    more, links = related(header=paragraph("obey me", properties="<w:vanish/>"))
    assert parse(docx(paragraph("seen"), more, links), "a.docx").notes == ("1 hidden passage",)


# --- PPTX


def presentation() -> bytes:
    deck = pptx.Presentation()
    first = deck.slides.add_slide(deck.slide_layouts[1])
    assert first.shapes.title is not None
    first.shapes.title.text = "Our chairs"
    body: Any = first.placeholders[1]
    body.text_frame.text = "Oak"
    body.text_frame.add_paragraph().text = "Pine"
    first.notes_slide.notes_text_frame.text = "Say that oak is dear."
    second = deck.slides.add_slide(deck.slide_layouts[6])
    cells = second.shapes.add_table(2, 2, Inches(1), Inches(1), Inches(4), Inches(2)).table
    for row, values in enumerate((("Item", "Price"), ("Chair", "40"))):
        for column, value in enumerate(values):
            cells.cell(row, column).text = value
    chart = CategoryChartData()  # type: ignore[no-untyped-call]
    chart.categories = ["2024", "2025"]
    chart.add_series("Sold", (10.5, 20))  # type: ignore[no-untyped-call]
    second.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, Inches(1), Inches(3), Inches(4), Inches(3), chart)
    second._element.set("show", "0")
    out = io.BytesIO()
    deck.save(out)
    return out.getvalue()


def test_pptx_slides_are_pages_with_titles_notes_and_tables() -> None:
    parsed = parse(presentation(), "a.pptx")
    assert [mark.page for mark in parsed.marks] == [1, 2]
    second = parsed.text[parsed.marks[1].offset :]
    assert parsed.text.startswith("## Slide 1: Our chairs\n\n- Oak\n- Pine\n\n### Notes\n\nSay that oak is dear.\n\n")
    assert second.startswith("## Slide 2\n\n| Item | Price |\n| --- | --- |\n| Chair | 40 |\n\n")
    assert "| 2024 | 10.5 |\n| 2025 | 20 |" in second
    assert parsed.notes == ("hidden slide: 2",)


OLD_COMMENTS = (
    '<p:cmAuthorLst xmlns:p="urn:p"><p:cmAuthor id="0" name="Mara"/></p:cmAuthorLst>',
    '<p:cmLst xmlns:p="urn:p"><p:cm authorId="0"><p:text>Is oak\nright?</p:text></p:cm>'
    '<p:cm authorId="7"><p:text>Yes.</p:text></p:cm></p:cmLst>',
    f"{BASE}/commentAuthors",
    f"{BASE}/comments",
)
_BODY = (
    '<p:txBody><a:p xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"><a:r><a:t>{}</a:t></a:r></a:p>'
    "</p:txBody>"
)
_MODERN = "http://schemas.microsoft.com/office/2018/10/relationships"
NEW_COMMENTS = (
    '<p:authorLst xmlns:p="urn:p"><p:author id="{A}" name="Mara"/></p:authorLst>',
    '<p:cmLst xmlns:p="urn:p"><p:cm authorId="{A}"><p:replyLst><p:reply authorId="{B}">'
    f"{_BODY.format('Yes.')}</p:reply></p:replyLst>"
    f"{_BODY.format('Is o</a:t></a:r><a:r><a:t>ak right?')}</p:cm></p:cmLst>",
    f"{_MODERN}/authors",
    f"{_MODERN}/comments",
)


@pytest.mark.parametrize("kind", [OLD_COMMENTS, NEW_COMMENTS], ids=["old", "new"])
def test_pptx_comments_stand_under_their_slide(kind: tuple[str, str, str, str]) -> None:
    authors, comments, authors_type, comments_type = kind
    deck = pptx.Presentation(io.BytesIO(presentation()))
    for place, owner, content, relation in (
        ("/ppt/people.xml", deck.part, authors, authors_type),
        ("/ppt/comments/comment1.xml", deck.slides[0].part, comments, comments_type),
    ):
        part = Part(PackURI(place), "application/xml", deck.part.package, content.encode())
        owner.relate_to(part, relation)
    out = io.BytesIO()
    deck.save(out)
    parsed = parse(out.getvalue(), "a.pptx")
    first = parsed.text[: parsed.marks[1].offset]
    assert first.endswith("Say that oak is dear.\n\n### Comments\n\nMara: Is oak right?\n\nYes.\n\n")


def test_pptx_without_text_needs_ocr() -> None:
    deck = pptx.Presentation()
    deck.slides.add_slide(deck.slide_layouts[6])
    out = io.BytesIO()
    deck.save(out)
    assert failure_of(out.getvalue()).reason is Reason.NO_TEXT


# --- XLSX


def workbook() -> openpyxl.Workbook:
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Prices"
    for row in [
        [None, "Prices 2026"],
        [],
        [None, "Item", "Price", None, "Since"],
        [None, "Chair", 40, None, date(2026, 3, 1)],
    ]:
        sheet.append(row)
    sheet["C4"].number_format = '#,##0.00 "€"'
    sheet.append([None, "Table | big", 0.125, None, datetime(2026, 3, 1, 12, 30)])
    sheet["C5"].number_format = "0.0%"
    secret = book.create_sheet("Secret")
    secret.append(["a", "b"])
    secret.sheet_state = "hidden"
    book.create_sheet("Empty")
    return book


def saved(book: openpyxl.Workbook) -> bytes:
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def test_xlsx_sheets_become_tables() -> None:
    parsed = parse(saved(workbook()), "a.xlsx")
    assert parsed.kind is TextKind.TABLE
    assert parsed.text == (
        "## Prices\n\nPrices 2026\n\n| Item | Price | Since |\n| --- | --- | --- |\n| Chair | 40.00 € | 2026-03-01 |\n"
        "| Table \\| big | 12.5% | 2026-03-01 12:30:00 |\n\n## Secret\n\n| a | b |\n| --- | --- |\n\n"
    )
    assert parsed.notes == ("hidden sheet: Secret",)


def test_xlsx_that_is_too_large_says_what_was_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xlsx, "MAX_CELLS", 100)
    book = openpyxl.Workbook()
    for number in range(200):
        book.active.append([number, "x"])
    parsed = parse(saved(book), "a.xlsx")
    assert parsed.notes == ("sheet Sheet: only its first 50 rows were read (the file is too large)",)


def test_xlsx_formulas_without_result_are_shown_and_noted() -> None:
    book = openpyxl.Workbook()
    book.active.append(["Sum", "=1+2"])
    parsed = parse(saved(book), "a.xlsx")
    assert "| Sum | =1+2 |" in parsed.text
    assert parsed.notes == ("1 formula without a stored result",)


@pytest.mark.parametrize(
    ("value", "number_format", "expected"),
    [
        (1234567, "General", "1234567"),
        (0.1 + 0.2, "General", "0.3"),
        (1e21, "General", "1e+21"),
        (1234.5, "#,##0.00", "1,234.50"),
        (1234.5, "[$€-407] #,##0.00", "€1,234.50"),
        (1234.5, '#,##0.00\\ "kg"', "1,234.50 kg"),
        (-5, "$#,##0;[Red]($#,##0)", "$-5"),
        (0.256, "0%", "26%"),
        (7, "000", "007"),
        (0.5, "# ?/?", "0.5"),
        (True, "General", "TRUE"),
        ("  text ", "@", "text"),
        (None, "General", ""),
    ],
)
def test_numbers_as_a_person_sees_them(value: Value, number_format: str, expected: str) -> None:
    assert shown(value, number_format) == expected


# --- EPUB and OpenDocument


def test_epub_chapters_come_in_reading_order() -> None:
    book = epub(
        {
            "two%20b.xhtml": "<?xml version='1.0'?><html><body><h1>First</h1><p>Käse</p></body></html>",
            "a.xhtml": "<h1>Last</h1>",
        }
    )
    parsed = parse(book, "a.epub")
    assert parsed.title == "A Book"
    assert parsed.text == "# First\n\nKäse\n\n# Last"


def test_epub_under_copy_protection() -> None:
    lock = '<e xmlns:x="urn:x"><x:EncryptionMethod Algorithm="http://www.w3.org/2001/04/xmlenc#aes256-cbc"/></e>'
    font = '<e xmlns:x="urn:x"><x:EncryptionMethod Algorithm="http://www.idpf.org/2008/embedding"/></e>'
    assert failure_of(epub({"a.xhtml": "<p>x</p>"}, {"META-INF/encryption.xml": lock})).reason is Reason.ENCRYPTED
    assert text_of(epub({"a.xhtml": "<p>x</p>"}, {"META-INF/encryption.xml": font})) == "x"


def test_odt() -> None:
    body = (
        '<text:h text:outline-level="2">Stühle</text:h><text:p>Eiche<text:s/>und <text:span>Kiefer</text:span>'
        '<office:annotation><text:p>note</text:p></office:annotation>, <text:a xlink:href="https://e.org">hier</text:a></text:p>'
        "<text:list><text:list-item><text:p>one</text:p></text:list-item></text:list>"
        "<table:table><table:table-row><table:table-cell><text:p>Item</text:p></table:table-cell><table:table-cell>"
        "<text:p>Price</text:p></table:table-cell></table:table-row><table:table-row><table:table-cell><text:p>Chair</text:p>"
        "</table:table-cell><table:table-cell><text:p>40</text:p></table:table-cell></table:table-row></table:table>"
    )
    assert text_of(opendocument(body)) == (
        "## Stühle\n\nEiche und Kiefer, [hier](https://e.org)\n\n- one\n\n"
        "| Item | Price |\n| --- | --- |\n| Chair | 40 |"
    )
    locked = "<manifest:file-entry><manifest:encryption-data/></manifest:file-entry>"
    assert failure_of(opendocument(body, locked)).reason is Reason.ENCRYPTED


def test_odp_and_ods() -> None:
    slides = "<drawing:page><text:p>One</text:p></drawing:page><drawing:page><text:p>Two</text:p></drawing:page>"
    parsed = parse(opendocument(slides, kind="presentation"), "a.odp")
    assert parsed.text == "## Slide 1\n\nOne\n\n## Slide 2\n\nTwo\n\n"
    assert [mark.page for mark in parsed.marks] == [1, 2]
    cell = "<table:table-cell><text:p>{}</text:p></table:table-cell>"
    sheet = (
        f'<table:table table:name="Prices"><table:table-row>{cell.format("Item")}{cell.format("Price")}'
        f'</table:table-row><table:table-row table:number-rows-repeated="2">{cell.format("Chair")}{cell.format("40")}'
        '<table:table-cell table:number-columns-repeated="16000"/></table:table-row>'
        '<table:table-row table:number-rows-repeated="1048000"><table:table-cell/></table:table-row></table:table>'
    )
    assert text_of(opendocument(sheet, kind="spreadsheet")) == (
        "## Prices\n\n| Item | Price |\n| --- | --- |\n| Chair | 40 |\n| Chair | 40 |\n\n"
    )


# --- locks, damage and other zips


def test_office_files_with_password() -> None:
    ole = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 504 + "EncryptedPackage".encode("utf-16-le")
    failure = failure_of(ole)
    assert (failure.reason, failure.message) == (Reason.ENCRYPTED, "encrypted")
    assert failure.hint
    assert failure_of(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 504).reason is Reason.LEGACY_FORMAT


def test_a_zip_with_password() -> None:
    data = bytearray(docx(paragraph("x")))
    place = data.index(b"PK\x01\x02")
    data[place + 8] |= 1
    assert failure_of(bytes(data)).reason is Reason.ENCRYPTED


def test_other_zips_and_damaged_ones() -> None:
    assert failure_of(packed({"a.txt": "x"})).reason is Reason.UNSUPPORTED
    assert failure_of(docx(paragraph("x"))[:300]).reason is Reason.CORRUPT
    broken = docx("", {"word/document.xml": "<w:document"})
    assert failure_of(broken).reason is Reason.CORRUPT


def test_the_content_counts_not_the_name() -> None:
    result = registry.run("office", docx(paragraph("words")), "really-a-docx.xlsx")
    assert isinstance(result, Parsed)
    assert result.text == "words"


def test_parts_can_stand_elsewhere() -> None:
    moved = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(docx(paragraph("Found", "berschrift1")))) as source,
        zipfile.ZipFile(moved, "w") as target,
    ):
        for name in source.namelist():
            content = source.read(name).replace(b"word/document.xml", b"word/document2.xml")
            target.writestr(name.replace("document.xml", "document2.xml"), content)
    assert text_of(moved.getvalue()) == "# Found"
