"""Cheap looks at a file before any child is started, with the standard library alone.

They turn away what is plainly made to harm, in milliseconds and with a clear word. They promise nothing:
whatever passes is parsed in the jail, which bounds it.
"""

from __future__ import annotations

import re
import stat
import struct
import zipfile
import zlib
from dataclasses import dataclass
from io import BytesIO
from typing import BinaryIO
from xml.parsers import expat

from ragforge.domain.documents import ParseFailure, Reason

MAX_ENTRIES = 5_000
MAX_DIRECTORY_BYTES = 2_000_000
MAX_UNPACKED_BYTES = 200_000_000
MAX_RATIO = 100
RATIO_FROM_BYTES = 10_000_000
"""Small files may shrink as much as they like."""
MAX_DEPTH = 256
MAX_PART_BYTES = 8_000_000
MAX_CHECKED_BYTES = 64_000_000
MAX_NESTING = 3

_ZIP_TYPES = {"docx", "pptx", "xlsx", "epub", "odt", "ods", "odp", "zip"}
_XML_TYPES = {"xml", "svg"}
_DOCTYPE_ALLOWED = {"epub", "odt", "ods", "odp"}
"""Their honest files name a document type, without entities."""
_XML_NAMES = (".xml", ".rels", ".xhtml", ".opf", ".ncx", ".svg", ".vml")
_ZIP_NAMES = (".zip", ".docx", ".pptx", ".xlsx", ".epub", ".odt", ".jar")

_END = struct.Struct("<4s4H2LH")
_END_64_LOCATOR = struct.Struct("<4sLQL")
_END_64 = struct.Struct("<4sQ2H2L4Q")
_LOCAL = struct.Struct("<4s5H3L2H")
_STEP = 1 << 16


class _Refused(Exception):
    """Raised where a check fails."""

    def __init__(self, reason: Reason, message: str, hint: str) -> None:
        super().__init__(message)
        self.failure = ParseFailure(reason, message, hint)


def precheck(file: BinaryIO, size: int, type_name: str) -> ParseFailure | None:
    """Why the file is not even tried; None if it may be. Leaves the file at its beginning."""
    try:
        if type_name in _ZIP_TYPES:
            _check_zip(file, size, _Budget(), type_name in _DOCTYPE_ALLOWED, 1)
        elif type_name in _XML_TYPES:
            file.seek(0)
            _check_xml(file.read(MAX_PART_BYTES), size > MAX_PART_BYTES, _Budget(), doctype_allowed=True)
        elif type_name == "pdf":
            file.seek(0)
            if b"%PDF-" not in file.read(1024):
                raise _corrupt("no PDF header")
    except _Refused as refused:
        return refused.failure
    finally:
        file.seek(0)
    return None


@dataclass(slots=True)
class _Budget:
    """What the checks of one file may still cost."""

    unpacked: int = MAX_UNPACKED_BYTES
    """Declared bytes of all archives inside each other."""
    inflated: int = MAX_CHECKED_BYTES
    """Bytes really unpacked by us."""
    events: int = 500_000
    """Elements walked one by one."""


def _hostile(message: str) -> _Refused:
    return _Refused(Reason.HOSTILE, message, "save the file anew from the program that made it")


def _corrupt(message: str) -> _Refused:
    return _Refused(Reason.CORRUPT, f"damaged ({message})", "open it in the program that made it and save it again")


# --- zip


def _check_zip(file: BinaryIO, size: int, budget: _Budget, doctype_allowed: bool, nesting: int) -> None:
    _check_end(file, size)
    try:
        with zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError, struct.error) as problem:
        raise _corrupt(f"not a whole archive: {problem}") from problem
    _check_entries(entries, size, budget)
    for entry in entries:
        name = entry.filename.lower()
        if name.endswith(_XML_NAMES):
            part, cut = _inflate(file, entry, budget)
            _check_xml(part, cut, budget, doctype_allowed)
        elif name.endswith(_ZIP_NAMES):
            if nesting == MAX_NESTING:
                raise _hostile(f"archives inside each other, more than {MAX_NESTING} deep")
            part, cut = _inflate(file, entry, budget)
            if not cut and part.startswith(b"PK"):
                _check_zip(BytesIO(part), len(part), budget, True, nesting + 1)


def _check_end(file: BinaryIO, size: int) -> None:
    """The end record, read as the zip module reads it, before anything is built from the directory it describes."""
    tail_at = max(0, size - _END.size - _END_64.size - _END_64_LOCATOR.size - 0xFFFF)
    file.seek(tail_at)
    tail = file.read(size - tail_at)
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or len(tail) - at < _END.size:
        raise _corrupt("the archive has no end")
    _, _, _, _, count, directory_size, _, _ = _END.unpack_from(tail, at)
    large_at = at - _END_64_LOCATOR.size - _END_64.size
    if large_at >= 0 and tail.startswith(b"PK\x06\x06", large_at) and tail.startswith(b"PK\x06\x07", at - 20):
        *_, count, directory_size, _ = _END_64.unpack_from(tail, large_at)
    if count > MAX_ENTRIES or directory_size > MAX_DIRECTORY_BYTES:
        raise _hostile(f"a list of {count} parts ({directory_size} bytes), which is too long")
    if directory_size > size:
        raise _corrupt("the list of parts lies outside the file")


def _check_entries(entries: list[zipfile.ZipInfo], size: int, budget: _Budget) -> None:
    if len(entries) > MAX_ENTRIES:
        raise _hostile(f"{len(entries)} parts, more than {MAX_ENTRIES}")
    names: set[str] = set()
    for entry in entries:
        name = entry.orig_filename.replace("\\", "/")
        if entry.flag_bits & 0x1:
            raise _Refused(Reason.ENCRYPTED, "protected by a password", "remove the password and add the file again")
        if name.startswith("/") or ".." in name.split("/") or "\0" in name or name[1:2] == ":":
            raise _hostile("a part's name leads out of the file")
        if name in names:
            raise _hostile("two parts of the same name")
        if stat.S_ISLNK(entry.external_attr >> 16):
            raise _hostile("a part is a link")
        names.add(name)
    unpacked = sum(entry.file_size for entry in entries)
    packed = sum(entry.compress_size for entry in entries)
    budget.unpacked -= unpacked
    if budget.unpacked < 0:
        raise _hostile(f"unpacks to more than {MAX_UNPACKED_BYTES // 1_000_000} MB")
    if unpacked > RATIO_FROM_BYTES and unpacked > MAX_RATIO * packed:
        raise _hostile(f"unpacks to more than {MAX_RATIO} times its size")
    _check_overlap(entries, size)


def _check_overlap(entries: list[zipfile.ZipInfo], size: int) -> None:
    """Parts that share their bytes unpack to any size."""
    free_from = 0
    for entry in sorted(entries, key=lambda entry: entry.header_offset):
        if entry.header_offset < free_from or entry.header_offset + _LOCAL.size + entry.compress_size > size:
            raise _hostile("parts overlap")
        free_from = entry.header_offset + _LOCAL.size + entry.compress_size


def _inflate(file: BinaryIO, entry: zipfile.ZipInfo, budget: _Budget) -> tuple[bytes, bool]:
    """A part's bytes, as many as may be looked at, and whether there are more. Refused if it is larger than it says."""
    most = min(MAX_PART_BYTES, max(0, budget.inflated), entry.file_size)
    file.seek(entry.header_offset)
    header = file.read(_LOCAL.size)
    if len(header) < _LOCAL.size or header[:4] != b"PK\x03\x04":
        raise _corrupt("a part is missing")
    name_size, extra_size = _LOCAL.unpack(header)[-2:]
    file.seek(name_size + extra_size, 1)
    if entry.compress_type == zipfile.ZIP_STORED:
        part = file.read(min(entry.compress_size, most + 1))
    elif entry.compress_type == zipfile.ZIP_DEFLATED:
        part = _inflate_stream(file, entry.compress_size, most + 1)
    else:
        return b"", True
    budget.inflated -= len(part)
    if len(part) > entry.file_size:
        raise _hostile("a part is larger than it says")
    return part, len(part) > most


def _inflate_stream(file: BinaryIO, packed: int, most: int) -> bytes:
    inflater = zlib.decompressobj(-15)
    pieces: list[bytes] = []
    try:
        while packed > 0 and most > 0 and not inflater.eof:
            data = inflater.unconsumed_tail or file.read(min(_STEP, packed))
            if not inflater.unconsumed_tail:
                packed -= len(data)
            if not data:
                break
            pieces.append(inflater.decompress(data, most))
            most -= len(pieces[-1])
    except zlib.error as problem:
        raise _corrupt("a part cannot be unpacked") from problem
    return b"".join(pieces)


# --- XML

# What is opened and never closed is taken up to the end at once (and kept): looking for its end from each of a
# million such places would take for ever.
_ASIDE = re.compile(rb"<!--.*?-->|<!\[CDATA\[.*?\]\]>|<\?.*?\?>|(<(?:!--|!\[CDATA\[|\?).*)", re.DOTALL)
_DOCTYPE = re.compile(rb"<!DOCTYPE[^>\[]*(\[)?", re.IGNORECASE)
_ENCODING = re.compile(rb"""<\?xml[^>]*?encoding\s*=\s*["']([\w.:-]*)""")
_ASCII = bytes(range(0x20, 0x7F))
_BLOCK = 2048


def _check_xml(part: bytes, cut: bool, budget: _Budget, doctype_allowed: bool) -> None:
    """No entities, nothing nested beyond reason. `cut` says that the part goes on."""
    part = _readable(part)
    bare = _without_asides(part)
    if b"<!" in bare:
        doctype = _DOCTYPE.search(bare)
        if b"<!ENTITY" in bare or (doctype and (doctype[1] or not doctype_allowed)):
            raise _hostile("XML that declares entities or a document type")
        if doctype:
            bare = bare[: doctype.start()] + bare[bare.find(b">", doctype.start()) + 1 :]
    if not _surely_shallow(bare, cut):
        _walk(part, cut, budget)


def _readable(part: bytes) -> bytes:
    """The part in an encoding in which signs can be searched. One that hides them is refused."""
    wide = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"<\0": "utf-16-le", b"\0<": "utf-16-be"}.get(part[:2])
    if wide:
        return part.decode(wide, "replace").encode("utf-8", "replace")
    declared = _ENCODING.match(part, 3 if part.startswith(b"\xef\xbb\xbf") else 0)
    name = declared[1].decode().lower() if declared else "utf-8"
    if name in ("utf-8", "utf-16"):
        return part
    try:
        plain = "escape" not in name and _ASCII.decode(name) == _ASCII.decode("ascii")
    except (LookupError, UnicodeError):
        plain = False
    if not plain:
        raise _hostile("XML in an encoding that hides its signs")
    return part


def _without_asides(part: bytes) -> bytes:
    """The part without comments, raw text and instructions, in which signs mean nothing; a first line may stay."""
    return _ASIDE.sub(rb"\1", part) if b"<!" in part or part.count(b"<?") > 1 else part


def _surely_shallow(bare: bytes, cut: bool) -> bool:
    """Whether tags, counted block by block, stay far from the limit and even out. Quick; in doubt False."""
    instructions = bare.count(b"<?")
    if b"<!" in bare or instructions > 1:
        return False
    depth = -instructions
    for at in range(0, len(bare), _BLOCK):
        stop = at + _BLOCK
        tags, closing = bare.count(b"<", at, stop), bare.count(b"</", at, stop + 1)  # two signs may span two blocks
        if depth + tags - closing > MAX_DEPTH:
            return False
        depth += tags - 2 * closing - bare.count(b"/>", at, stop + 1)
        if depth < -1:  # more ends than tags
            return False
    return cut or depth == 0


def _walk(part: bytes, cut: bool, budget: _Budget) -> None:
    """Measure the depth exactly. Damaged XML is left to its parser, and so is what would take too long."""
    depth = 0
    parser = expat.ParserCreate()

    def begin(name: str, attributes: list[str]) -> None:
        nonlocal depth
        depth += 1
        budget.events -= 1
        if depth > MAX_DEPTH:
            raise _hostile(f"XML nested more than {MAX_DEPTH} deep")
        if budget.events < 0:
            raise _Enough

    def finish(name: str) -> None:
        nonlocal depth
        depth -= 1

    parser.ordered_attributes = True
    parser.StartElementHandler = begin
    parser.EndElementHandler = finish
    try:
        parser.Parse(part, not cut)
    except (expat.ExpatError, _Enough):
        return


class _Enough(Exception):
    """Raised when a walk has taken long enough."""
