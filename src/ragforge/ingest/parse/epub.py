"""EPUB -> Markdown: the chapters in reading order, each by the HTML reader."""

from __future__ import annotations

import zipfile

from lxml import etree

from ragforge.domain.documents import Parsed, Reason
from ragforge.ingest.parse.encoding import decode
from ragforge.ingest.parse.html import tree
from ragforge.ingest.parse.markup import markdown
from ragforge.ingest.parse.package import part, resolve
from ragforge.ingest.parse.text import CannotParse, MarkedText

_FONT_OBFUSCATION = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")


def read(data: bytes, archive: zipfile.ZipFile) -> Parsed:
    """All chapters of the book, and its title."""
    if _is_protected(archive):
        raise CannotParse(Reason.ENCRYPTED, "encrypted (copy protection)", "add a copy without protection")
    container = part(archive, "META-INF/container.xml")
    rootfile = container.find(".//{*}rootfile") if container is not None else None
    opf = (rootfile.get("full-path") or "") if rootfile is not None else ""
    package = part(archive, opf)
    if package is None:
        raise CannotParse(Reason.CORRUPT, "damaged: the book has no table of its parts", "download it again")
    names = set(archive.namelist())
    text = MarkedText()
    missing = 0
    for chapter in _spine(package, opf):
        if chapter in names:
            text.add(markdown(tree(decode(archive.read(chapter))[0])) + "\n\n")
        else:
            missing += 1
    title = " ".join((package.findtext(".//{http://purl.org/dc/elements/1.1/}title") or "").split())
    notes = (f"{missing} chapters are missing in the file",) if missing else ()
    return Parsed(text.text.strip(), title=title or None, notes=notes)


def _spine(package: etree._Element, opf: str) -> list[str]:
    """Names of the chapters in reading order."""
    items = {item.get("id"): item for item in package.iter("{*}item")}
    chapters = [items[entry.get("idref")] for entry in package.iter("{*}itemref") if entry.get("idref") in items]
    return [resolve(opf, item.get("href") or "") for item in chapters if "nav" not in (item.get("properties") or "")]


def _is_protected(archive: zipfile.ZipFile) -> bool:
    """True where more than fonts is encrypted."""
    encryption = part(archive, "META-INF/encryption.xml")
    methods = encryption.iter("{*}EncryptionMethod") if encryption is not None else ()
    return any(method.get("Algorithm") not in _FONT_OBFUSCATION for method in methods)
