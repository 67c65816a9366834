"""XML parts of a zipped document, read without entities or network, and within the library's limits."""

from __future__ import annotations

import posixpath
import zipfile
from urllib.parse import unquote

from lxml import etree

from ragforge.domain.documents import Reason
from ragforge.ingest.parse.text import CannotParse

RELATIONSHIPS = "{http://schemas.openxmlformats.org/package/2006/relationships}"


def xml_tree(data: bytes) -> etree._Element:
    """The root of an XML text."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, remove_comments=True)
    root = etree.fromstring(data, parser)
    refuse_entities(root)
    return root


def refuse_entities(root: etree._Element) -> None:
    """Raise where the document declares entities of its own, which could grow or reach outside."""
    document_type = root.getroottree().docinfo.internalDTD
    if document_type is not None and any(True for _ in document_type.iterentities()):
        raise CannotParse(
            Reason.HOSTILE,
            "declares entities of its own (DTD)",
            "remove its DOCTYPE, or save it anew, and add it again",
        )


def part(archive: zipfile.ZipFile, name: str) -> etree._Element | None:
    """The root of an XML part; None if the package has no such part."""
    try:
        return xml_tree(archive.read(name))
    except KeyError:
        return None


def resolve(base: str, target: str) -> str:
    """A reference inside a package, as the name of the part it means."""
    path = unquote(target.split("#", 1)[0])
    return posixpath.normpath(posixpath.join(posixpath.dirname(base), path)).lstrip("/")


def main_part(archive: zipfile.ZipFile) -> str:
    """The name of the Office package's main part, as its relationships give it."""
    relationships = part(archive, "_rels/.rels")
    for entry in relationships if relationships is not None else ():
        if (entry.get("Type") or "").endswith("/officeDocument"):
            return resolve("", (entry.get("Target") or "").lstrip("/"))
    return ""


def core_title(archive: zipfile.ZipFile) -> str | None:
    """The title in an Office package's properties."""
    properties = part(archive, "docProps/core.xml")
    title = properties.findtext("{http://purl.org/dc/elements/1.1/}title") if properties is not None else None
    return " ".join((title or "").split()) or None
