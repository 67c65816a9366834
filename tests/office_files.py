"""Small DOCX, EPUB and ODT files for tests, written part by part."""

from __future__ import annotations

import io
import zipfile

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_TYPES = (
    f'<Types xmlns="{_PACKAGE}/content-types"><Default Extension="xml" ContentType="application/xml"/>'
    f'<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Override PartName="/word/document.xml" ContentType="application/vnd.openxmlformats-officedocument.'
    'wordprocessingml.document.main+xml"/></Types>'
)
_STYLES = "".join(
    f'<w:style w:type="paragraph" w:styleId="{identity}"><w:name w:val="{name}"/>{rest}</w:style>'
    for identity, name, rest in [
        ("Titel", "Title", ""),
        ("berschrift1", "heading 1", ""),
        ("berschrift2", "heading 2", ""),
        ("Firma1", "Firma Kapitel", '<w:basedOn w:val="FirmaBase"/>'),
        ("FirmaBase", "Firma Base", '<w:pPr><w:outlineLvl w:val="2"/></w:pPr>'),
    ]
)


def packed(parts: dict[str, str | bytes]) -> bytes:
    """A zip of these parts."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return out.getvalue()


def paragraph(text: str, style: str = "", properties: str = "") -> str:
    style_part = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    run = f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'
    return f'<w:p w:rsidR="00AA11BB">{style_part}{run}</w:p>'


def word_table(rows: list[list[str]]) -> str:
    cells = ["".join(f"<w:tc>{paragraph(cell)}</w:tc>" for cell in row) for row in rows]
    return "<w:tbl>" + "".join(f"<w:tr>{row}</w:tr>" for row in cells) + "</w:tbl>"


def docx(body: str, more: dict[str, str | bytes] | None = None, relationships: str = "") -> bytes:
    """A Word document with this body."""
    namespaces = (
        f'xmlns:w="{WORD}" xmlns:r="{_OFFICE}/relationships" xmlns:m="{_OFFICE}/math" '
        'xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing" '
        'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
        'xmlns:pic="http://schemas.openxmlformats.org/drawingml/2006/picture"'
    )
    return packed(
        {
            "[Content_Types].xml": _TYPES,
            "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="r1" '
            f'Type="{_OFFICE}/relationships/officeDocument" Target="word/document.xml"/></Relationships>',
            "word/document.xml": f"<w:document {namespaces}><w:body>{body}</w:body></w:document>",
            "word/styles.xml": f'<w:styles xmlns:w="{WORD}">{_STYLES}</w:styles>',
            "word/_rels/document.xml.rels": f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="s" '
            f'Type="{_OFFICE}/relationships/styles" Target="styles.xml"/>{relationships}</Relationships>',
            "docProps/core.xml": '<cp:coreProperties xmlns:cp="urn:x" xmlns:dc="http://purl.org/dc/elements/1.1/">'
            "<dc:title>Price list</dc:title></cp:coreProperties>",
            **(more or {}),
        }
    )


def epub(chapters: dict[str, str], more: dict[str, str | bytes] | None = None) -> bytes:
    """A book of these chapters, in the opposite order of their names in the zip."""
    items = "".join(f'<item id="{n}" href="text/{name}"/>' for n, name in enumerate(chapters))
    spine = "".join(f'<itemref idref="{n}"/>' for n in range(len(chapters)))
    return packed(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
            '<rootfile full-path="OEBPS/book.opf"/></rootfiles></container>',
            "OEBPS/book.opf": '<package xmlns="http://www.idpf.org/2007/opf"><metadata '
            'xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>A Book</dc:title></metadata>'
            f"<manifest>{items}</manifest><spine>{spine}</spine></package>",
            **{f"OEBPS/text/{name.replace('%20', ' ')}": chapters[name] for name in reversed(chapters)},
            **(more or {}),
        }
    )


def opendocument(body: str, manifest: str = "", kind: str = "text") -> bytes:
    """An OpenDocument file of this kind with this body."""
    names = "".join(
        f' xmlns:{prefix}="urn:oasis:names:tc:opendocument:xmlns:{prefix}:1.0"'
        for prefix in ("office", "text", "table", "manifest", "drawing", "presentation")
    )
    return packed(
        {
            "mimetype": f"application/vnd.oasis.opendocument.{kind}",
            "content.xml": f'<office:document-content{names} xmlns:xlink="http://www.w3.org/1999/xlink"><office:body>'
            f"<office:{kind}>{body}</office:{kind}></office:body></office:document-content>",
            "META-INF/manifest.xml": f"<manifest:manifest{names}>{manifest}</manifest:manifest>",
        }
    )
