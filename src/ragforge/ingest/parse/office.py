"""Office files and e-books: whatever is a zip of XML parts. Looks inside and hands on to the reader of the kind.

The readers use the libraries MarkItDown's converters stand on (mammoth, python-pptx, openpyxl) themselves:
importing MarkItDown's package loads an ONNX runtime and pandas, and its text loses pages, sheets' formats and
pictures' alternative texts.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable

from ragforge.domain.documents import Parsed, Reason
from ragforge.ingest.parse import docx, epub, opendocument, pptx, xlsx
from ragforge.ingest.parse.text import CannotParse

Reader = Callable[[bytes, zipfile.ZipFile], Parsed]

_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED_PACKAGE = "EncryptedPackage".encode("utf-16-le")
_MAIN_PART = re.compile(
    r"(wordprocessingml|ms-word|presentationml|ms-powerpoint|spreadsheetml|ms-excel)[^\"']*main\+xml"
)
_READERS: dict[str, Reader] = {
    "wordprocessingml": docx.read,
    "ms-word": docx.read,
    "presentationml": pptx.read,
    "ms-powerpoint": pptx.read,
    "spreadsheetml": xlsx.read,
    "ms-excel": xlsx.read,
    "application/epub+zip": epub.read,
    **{
        f"application/vnd.oasis.opendocument.{kind}": opendocument.read
        for kind in ("text", "presentation", "spreadsheet")
    },
}


def parse(data: bytes, name: str) -> Parsed:
    """Markdown of a DOCX, PPTX, XLSX, EPUB or OpenDocument file, by what the file holds, not by its name."""
    if data.startswith(_OLE):
        raise _not_a_zip(data)
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except zipfile.BadZipFile as problem:
        raise CannotParse(
            Reason.CORRUPT, f"damaged: {problem}", "open it in the program that made it and save it again"
        ) from None
    with archive:
        if any(entry.flag_bits & 1 for entry in archive.infolist()):
            raise encrypted()
        kind = _kind(archive)
        if kind not in _READERS:
            raise CannotParse(
                Reason.UNSUPPORTED,
                f"not a kind of document ragforge reads ({kind})" if kind else "a zip, but no document",
                "save it as DOCX, PPTX, XLSX or PDF and add that",
            )
        return _READERS[kind](data, archive)


def encrypted() -> CannotParse:
    return CannotParse(Reason.ENCRYPTED, "encrypted", "save a copy without password and add that")


def _not_a_zip(data: bytes) -> CannotParse:
    if _ENCRYPTED_PACKAGE in data:
        return encrypted()
    return CannotParse(
        Reason.LEGACY_FORMAT, "an old Office file under a new name", "save it as DOCX, PPTX or XLSX and add that"
    )


def _kind(archive: zipfile.ZipFile) -> str:
    """What the package says it holds: a part of the main content type, or its MIME type."""
    names = set(archive.namelist())
    if "[Content_Types].xml" in names:
        types = archive.read("[Content_Types].xml")
        text = types.decode("utf-16" if types[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8", "replace")
        match = _MAIN_PART.search(text)
        return match.group(1) if match else ""
    if "META-INF/container.xml" in names:
        return "application/epub+zip"
    kind = archive.read("mimetype")[:200].decode("ascii", "replace").strip() if "mimetype" in names else ""
    return kind.removesuffix("-template")
