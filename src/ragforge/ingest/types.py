"""What a file is, told from its bytes. The name only chooses between kinds that look alike as bytes.

bytes -> unmistakable (PDF, RTF) -> text or not -> known binary, Office family, or text by name and look
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import BinaryIO

from ragforge.domain.documents import ParseFailure, Reason
from ragforge.ingest.parse.encoding import wide_encoding

_HEAD = 65_536
_MAX_DIRECTORY = 1_000_000


@dataclass(frozen=True, slots=True)
class FileType:
    """A kind of file: its name, its MIME type, and the parser that reads it."""

    name: str
    mime: str
    parser: str


def sniff(file: BinaryIO, name: str, size: int) -> FileType | ParseFailure:
    """The type of a file, or why it is none that can be read. Leaves the file at its start."""
    if size == 0:
        return ParseFailure(Reason.EMPTY, "the file is empty", "nothing to search in it; remove it or add text")
    file.seek(0)
    head = file.read(_HEAD)
    try:
        return _sniff(file, head, _extension(name), PurePosixPath(name).name.lower(), size)
    finally:
        file.seek(0)


def _sniff(file: BinaryIO, head: bytes, extension: str, name: str, size: int) -> FileType | ParseFailure:
    text = _is_text(head)
    pdf = head.find(b"%PDF-", 0, 1024)
    if pdf == 0 or (pdf > 0 and (extension == "pdf" or not text)):
        return _PDF
    if head.startswith(b"{\\rtf"):
        return _RTF
    if head.startswith(b"%!PS"):
        return _unsupported("a PostScript file", "convert it to PDF and add that")
    if text:
        return _text_type(_opening(head), extension, name)
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _zip_type(file, head, extension, size)
    if head.startswith(_OLE_MAGIC):
        return _ole_type(file, head, extension, size)
    return _binary_type(head, extension)


def _extension(name: str) -> str:
    return PurePosixPath(name).suffix.lower().lstrip(".")


# Text


def _is_text(head: bytes) -> bool:
    """Whether the bytes can be read as text in some encoding."""
    if wide_encoding(head):
        return not _has_magic(head)
    controls = len(head) - len(head.translate(None, _CONTROLS))
    if controls * 100 > len(head):
        return False
    return b"\0" not in head or _is_utf8(head)


# All control bytes but backspace, tab, newline, form feed, return and escape.
_CONTROLS = bytes(sorted({*range(32)} - {8, 9, 10, 12, 13, 27}))


def _is_utf8(head: bytes) -> bool:
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as problem:
        return problem.start >= len(head) - 4
    return True


def _opening(head: bytes) -> str:
    """The first lines, without byte order mark or leading blanks, for a look at what they are."""
    return head[:8192].decode(wide_encoding(head) or "latin-1", "ignore").lstrip("\ufeff\xef\xbb\xbf \t\r\n")


def _text_type(opening: str, extension: str, name: str) -> FileType:
    """Among texts the name chooses, and the look where the name says nothing."""
    named = _BY_NAME.get(name) or _BY_EXTENSION.get(extension)
    if named is None or named.parser in ("text", "transcript"):
        for look, kind in _TRANSCRIPT_LOOKS:
            if look.match(opening):
                return kind
    if named is _XML and _HTML_LOOK.match(opening):
        return _HTML
    return named or _by_look(opening)


def _by_look(opening: str) -> FileType:
    """What a text without a telling name is."""
    if _HTML_LOOK.match(opening):
        return _HTML
    if opening.startswith("<?xml"):
        return _HTML if re.search(r"<!doctype html|<html[\s>]", opening, re.IGNORECASE) else _XML
    shebang = _SHEBANG.match(opening)
    if shebang:
        return _code(_INTERPRETERS.get(shebang[1].lower(), shebang[1].lower()))
    if _JSON_LOOK.match(opening):
        return _JSON
    if opening.startswith("%YAML"):
        return _YAML
    if _HEADER_LINE.match(opening) and len(set(map(str.lower, _MAIL_HEADER.findall(opening)))) >= 3:
        return _MAIL
    return _TEXT


# Possessive throughout: a comment that could also end later would be tried in every combination.
_HTML_LOOK = re.compile(r"(?:<!--(?>.*?-->)\s*+)*+<(?:!doctype\s+html|html|head|body)[\s>]", re.IGNORECASE | re.DOTALL)
_JSON_LOOK = re.compile(r'\{\s*"(?:[^"\\]|\\.)*"\s*:|\[\s*[\[{]\s*["\[{\d]')
_SHEBANG = re.compile(r"#!\s*+(?>\S*/)?(?:env\s+(?:-S\s+)?(?>\S*/)?)?([A-Za-z]{1,30})")
_INTERPRETERS = {"sh": "shell", "bash": "shell", "zsh": "shell", "ksh": "shell", "node": "javascript", "rscript": "r"}
_HEADER_LINE = re.compile(r"[A-Za-z][A-Za-z0-9-]*: ")
_MAIL_HEADER = re.compile(
    r"^(From|To|Subject|Date|Message-ID|Received|Return-Path|MIME-Version|Delivered-To):", re.MULTILINE | re.IGNORECASE
)


def _code(language: str) -> FileType:
    return FileType(language, f"text/x-{language}", "code")


_TEXT = FileType("text", "text/plain", "text")
_PDF = FileType("pdf", "application/pdf", "pdf")
_RTF = FileType("rtf", "application/rtf", "rtf")
_HTML = FileType("html", "text/html", "html")
_XML = FileType("xml", "application/xml", "xml")
_MAIL = FileType("email", "message/rfc822", "mail")
_JSON = FileType("json", "application/json", "data")
_YAML = FileType("yaml", "application/yaml", "data")
_VTT = FileType("vtt", "text/vtt", "transcript")
_SRT = FileType("srt", "application/x-subrip", "transcript")
_SBV = FileType("sbv", "text/x-sbv", "transcript")
_TRANSCRIPT_LOOKS = (
    (re.compile(r"WEBVTT(?:[ \t\r\n]|$)"), _VTT),
    (re.compile(r"\d+[ \t]*\r?\n\d+:\d\d:\d\d[,.]\d{1,3} *--> *\d"), _SRT),
    (re.compile(r"\d+:\d\d:\d\d\.\d{3},\d+:\d\d:\d\d\.\d{3}\s"), _SBV),
)

_LANGUAGES = {
    "python": "py pyi pyw pyx",
    "javascript": "js mjs cjs jsx",
    "typescript": "ts tsx mts cts",
    "java": "java",
    "kotlin": "kt kts",
    "scala": "scala sc sbt",
    "groovy": "groovy gradle",
    "clojure": "clj cljs cljc edn",
    "c": "c h",
    "c++": "cc cpp cxx c++ hh hpp hxx inl",
    "c#": "cs csx",
    "f#": "fs fsx fsi",
    "visual-basic": "vb vbs bas cls",
    "objective-c": "m mm",
    "swift": "swift",
    "go": "go",
    "rust": "rs",
    "zig": "zig",
    "d": "d",
    "nim": "nim",
    "crystal": "cr",
    "ruby": "rb rake gemspec",
    "php": "php phtml",
    "perl": "pl pm",
    "lua": "lua",
    "r": "r",
    "julia": "jl",
    "haskell": "hs lhs",
    "ocaml": "ml mli",
    "erlang": "erl hrl",
    "elixir": "ex exs",
    "lisp": "lisp cl el scm rkt ss",
    "prolog": "pro",
    "fortran": "f f90 f95 f03 for",
    "pascal": "pas dpr",
    "ada": "adb ads",
    "cobol": "cob cbl",
    "assembly": "asm s",
    "dart": "dart",
    "solidity": "sol",
    "verilog": "v sv svh",
    "vhdl": "vhd vhdl",
    "sql": "sql ddl",
    "shell": "sh bash zsh fish ksh",
    "powershell": "ps1 psm1 psd1",
    "batch": "bat cmd",
    "css": "css scss sass less styl",
    "vue": "vue",
    "svelte": "svelte",
    "astro": "astro",
    "graphql": "graphql gql",
    "protobuf": "proto",
    "thrift": "thrift",
    "terraform": "tf tfvars hcl",
    "cmake": "cmake",
    "makefile": "mk mak",
    "nix": "nix",
    "cuda": "cu cuh",
    "glsl": "glsl vert frag hlsl wgsl",
    "tcl": "tcl",
    "awk": "awk",
    "diff": "diff patch",
}
_EXTENSIONS: tuple[tuple[FileType, str], ...] = (
    *((_code(language), extensions) for language, extensions in _LANGUAGES.items()),
    (
        _TEXT,
        "txt text log rst tex latex bib org adoc asciidoc textile ini toml cfg conf config properties env "
        "editorconfig gitignore po pot ass ssa lrc ics vcf nfo me 1st",
    ),
    (FileType("markdown", "text/markdown", "markdown"), "md markdown mdown mkd mkdn mdx qmd rmd"),
    (_HTML, "html htm xhtml xht"),
    (_XML, "xml xsd xsl xslt rss atom rdf svg opml plist kml gpx dbk dita xliff xlf wsdl tmx"),
    (_MAIL, "eml mht mhtml"),
    (_JSON, "json geojson topojson json5 jsonc webmanifest har"),
    (FileType("ndjson", "application/x-ndjson", "data"), "ndjson jsonl jsonlines"),
    (FileType("notebook", "application/x-ipynb+json", "data"), "ipynb"),
    (_YAML, "yaml yml"),
    (FileType("csv", "text/csv", "table"), "csv psv"),
    (FileType("tsv", "text/tab-separated-values", "table"), "tsv tab"),
    (_VTT, "vtt"),
    (_SRT, "srt"),
    (_SBV, "sbv"),
)
_BY_EXTENSION = {extension: kind for kind, extensions in _EXTENSIONS for extension in extensions.split()}
_BY_NAME = {
    "makefile": _code("makefile"),
    "gnumakefile": _code("makefile"),
    "cmakelists.txt": _code("cmake"),
    "dockerfile": _code("dockerfile"),
    "containerfile": _code("dockerfile"),
    "jenkinsfile": _code("groovy"),
    "rakefile": _code("ruby"),
    "gemfile": _code("ruby"),
    "vagrantfile": _code("ruby"),
}


# Zip and its families


def _zip_type(file: BinaryIO, head: bytes, extension: str, size: int) -> FileType | ParseFailure:
    if head[30:38] == b"mimetype":
        for mimetype, kind in _MIMETYPES.items():
            if head.startswith(mimetype.encode(), 38):
                return kind
    names = list(_zip_names(file, size))
    if not names:
        return ParseFailure(
            Reason.CORRUPT,
            f"a damaged or incomplete {'.' + extension if _DOCUMENTS.fullmatch(extension) else 'zip'} file",
            "copy or download it again",
        )
    if "[Content_Types].xml" in names or any(name.startswith("_rels/") for name in names):
        for folder, kind in _OFFICE.items():
            if any(name.startswith(folder) for name in names):
                if "xl/workbook.bin" in names:
                    return ParseFailure(Reason.LEGACY_FORMAT, "a binary Excel workbook (.xlsb)", "save as .xlsx")
                return kind
    for inside, what, hint in _ZIP_CONTENTS:
        if any(inside in name for name in names):
            return _unsupported(what, hint)
    return _unsupported(f"a zip archive{_called(extension)}", "unpack it and add the folder")


def _zip_names(file: BinaryIO, size: int) -> Iterator[str]:
    """The names in the central directory at the file's end, of a bounded part of it."""
    tail_start = max(0, size - 66_000)
    file.seek(tail_start)
    tail = file.read(66_000)
    end = tail.rfind(b"PK\x05\x06")
    if end < 0 or len(tail) < end + 22:
        return
    length, start = struct.unpack_from("<LL", tail, end + 12)
    directory_end = tail_start + end
    if 0xFFFFFFFF in (length, start):
        end = tail.rfind(b"PK\x06\x06")
        if end < 0 or len(tail) < end + 56:
            return
        (length,) = struct.unpack_from("<Q", tail, end + 40)
        directory_end = tail_start + end
    file.seek(max(0, directory_end - length))
    directory = file.read(min(length, _MAX_DIRECTORY))
    place = 0
    while directory[place : place + 4] == b"PK\x01\x02" and place + 46 <= len(directory):
        name, extra, comment = struct.unpack_from("<HHH", directory, place + 28)
        yield directory[place + 46 : place + 46 + name].decode("utf-8", "replace").replace("\\", "/").lstrip("/")
        place += 46 + name + extra + comment


_OPEN_XML = "application/vnd.openxmlformats-officedocument."
_OFFICE = {
    "word/": FileType("docx", _OPEN_XML + "wordprocessingml.document", "office"),
    "ppt/": FileType("pptx", _OPEN_XML + "presentationml.presentation", "office"),
    "xl/": FileType("xlsx", _OPEN_XML + "spreadsheetml.sheet", "office"),
}
_OPEN_DOCUMENT = "application/vnd.oasis.opendocument."
_MIMETYPES = {
    "application/epub+zip": FileType("epub", "application/epub+zip", "office"),
    _OPEN_DOCUMENT + "text": FileType("odt", _OPEN_DOCUMENT + "text", "office"),
    _OPEN_DOCUMENT + "spreadsheet": FileType("ods", _OPEN_DOCUMENT + "spreadsheet", "office"),
    _OPEN_DOCUMENT + "presentation": FileType("odp", _OPEN_DOCUMENT + "presentation", "office"),
}
_DOCUMENTS = re.compile("do[ct][xm]|pp[ts][xm]|potx|xls[xm]|xltx|od[tsp]|ott|epub|pdf|rtf")
_ZIP_CONTENTS = (
    ("Index/Document.iwa", "an Apple iWork document", "export it as .docx, .pptx, .xlsx or PDF"),
    ("Index.zip", "an Apple iWork document", "export it as .docx, .pptx, .xlsx or PDF"),
    ("visio/", "a Visio drawing", "export it as PDF"),
    ("FixedDocSeq", "an XPS document", "export it as PDF"),
    ("AndroidManifest.xml", "an Android app", ""),
    ("META-INF/MANIFEST.MF", "a Java archive", "add its sources instead"),
)


# Compound files of older Office programs

_OLE_MAGIC = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_OLE_KINDS = (
    ("WordDocument", "an old Word document (.doc)", "save as .docx"),
    ("PowerPoint Document", "an old PowerPoint presentation (.ppt)", "save as .pptx"),
    ("PP40", "an old PowerPoint presentation (.ppt)", "save as .pptx"),
    ("Workbook", "an old Excel workbook (.xls)", "save as .xlsx"),
    ("Book", "an old Excel workbook (.xls)", "save as .xlsx"),
    ("__properties_version1.0", "an Outlook message (.msg)", "save as .eml"),
    ("VisioDocument", "an old Visio drawing", "export it as PDF"),
    ("Quill", "a Publisher document", "export it as PDF"),
)
_OLE_BY_EXTENSION = {"doc": 0, "dot": 0, "ppt": 1, "pps": 1, "pot": 1, "xls": 3, "xlt": 3, "msg": 5}


def _ole_type(file: BinaryIO, head: bytes, extension: str, size: int) -> ParseFailure:
    streams = _ole_streams(file, head, size)
    if streams & {"EncryptedPackage", "EncryptionInfo"}:
        return ParseFailure(
            Reason.ENCRYPTED, "a password-protected Office file", "remove the password and add it again"
        )
    for stream, what, hint in _OLE_KINDS:
        if stream in streams:
            return ParseFailure(Reason.LEGACY_FORMAT, what, hint)
    if extension in _OLE_BY_EXTENSION:
        _, what, hint = _OLE_KINDS[_OLE_BY_EXTENSION[extension]]
        return ParseFailure(Reason.LEGACY_FORMAT, what, hint)
    return _unsupported("a file of an older Office program", "save it in a newer format, or as PDF")


def _ole_streams(file: BinaryIO, head: bytes, size: int) -> set[str]:
    """The names directly under the root: what lies deeper belongs to embedded objects."""
    entries = _ole_directory(file, head, size)
    names: set[str] = set()
    pending = [struct.unpack_from("<L", entries[0], 76)[0]] if entries else []
    seen: set[int] = set()
    while pending:
        index = pending.pop()
        if index in seen or index >= len(entries):
            continue
        seen.add(index)
        entry = entries[index]
        length, left, right = (*struct.unpack_from("<H", entry, 64), *struct.unpack_from("<LL", entry, 68))
        names.add(entry[: max(0, min(length, 64) - 2)].decode("utf-16-le", "replace"))
        pending += [left, right]
    return names


def _ole_directory(file: BinaryIO, head: bytes, size: int) -> list[bytes]:
    """The directory's entries, along the chain of its sectors."""
    if len(head) < 512:
        return []
    shift, first = struct.unpack_from("<H", head, 30)[0], struct.unpack_from("<L", head, 48)[0]
    if shift not in (9, 12):
        return []
    sector_size = 1 << shift
    tables = struct.unpack_from("<109L", head, 76)
    entries: list[bytes] = []
    sector = first
    for _ in range(256):
        data = _read_at(file, (sector + 1) * sector_size, sector_size, size)
        entries += [data[place : place + 128] for place in range(0, len(data) - 127, 128)]
        table, place = divmod(sector, sector_size // 4)
        if not data or table >= len(tables):
            break
        following = _read_at(file, (tables[table] + 1) * sector_size + place * 4, 4, size)
        if len(following) < 4:
            break
        (sector,) = struct.unpack("<L", following)
    return entries


def _read_at(file: BinaryIO, place: int, length: int, size: int) -> bytes:
    if place >= size:
        return b""
    file.seek(place)
    return file.read(length)


# Everything else

_OCR = "it needs OCR: add a text or a PDF with text instead"
_SPEECH = "add its transcript (.vtt, .srt) instead"
_UNPACK = "unpack it and add the folder"
_MAGIC: tuple[tuple[int, bytes, str, str], ...] = (
    (0, b"\x89PNG\r\n\x1a\n", "a PNG image", _OCR),
    (0, b"\xff\xd8\xff", "a JPEG image", _OCR),
    (0, b"GIF8", "a GIF image", _OCR),
    (8, b"WEBP", "a WebP image", _OCR),
    (0, b"II*\x00", "a TIFF image", _OCR),
    (0, b"MM\x00*", "a TIFF image", _OCR),
    (0, b"BM", "a BMP image", _OCR),
    (0, b"\x00\x00\x01\x00", "an icon", _OCR),
    (0, b"8BPS", "a Photoshop image", _OCR),
    (0, b"\x00\x00\x00\x0cjP  ", "a JPEG 2000 image", _OCR),
    (0, b"\xff\x0a", "a JPEG XL image", _OCR),
    (4, b"ftypheic", "a HEIC image", _OCR),
    (4, b"ftypmif1", "a HEIF image", _OCR),
    (4, b"ftypavif", "an AVIF image", _OCR),
    (0, b"AT&TFORM", "a DjVu document", "convert it to a PDF with text"),
    (0, b"\xd7\xcd\xc6\x9a", "a WMF drawing", _OCR),
    (8, b"WAVE", "a WAV recording", _SPEECH),
    (0, b"ID3", "an MP3 recording", _SPEECH),
    (0, b"\xff\xfb", "an MP3 recording", _SPEECH),
    (0, b"\xff\xf3", "an MP3 recording", _SPEECH),
    (0, b"\xff\xf1", "an AAC recording", _SPEECH),
    (0, b"OggS", "an Ogg recording", _SPEECH),
    (0, b"fLaC", "a FLAC recording", _SPEECH),
    (0, b"MThd", "a MIDI file", ""),
    (0, b"#!AMR", "an AMR recording", _SPEECH),
    (4, b"ftypM4A", "an M4A recording", _SPEECH),
    (4, b"ftyp", "an MP4 video", _SPEECH),
    (4, b"moov", "a QuickTime video", _SPEECH),
    (8, b"AVI ", "an AVI video", _SPEECH),
    (0, b"\x1a\x45\xdf\xa3", "a Matroska or WebM video", _SPEECH),
    (0, b"FLV", "a Flash video", _SPEECH),
    (0, b"\x30\x26\xb2\x75\x8e\x66\xcf\x11", "a Windows Media file", _SPEECH),
    (0, b"\x00\x00\x01\xba", "an MPEG video", _SPEECH),
    (0, b"\x00\x00\x01\xb3", "an MPEG video", _SPEECH),
    (0, b"\x1f\x8b", "a gzip archive", _UNPACK),
    (0, b"BZh", "a bzip2 archive", _UNPACK),
    (0, b"\xfd7zXZ\x00", "an xz archive", _UNPACK),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", _UNPACK),
    (0, b"Rar!\x1a\x07", "a RAR archive", _UNPACK),
    (0, b"\x28\xb5\x2f\xfd", "a Zstandard archive", _UNPACK),
    (0, b"\x04\x22\x4d\x18", "an LZ4 archive", _UNPACK),
    (0, b"MSCF", "a cabinet archive", _UNPACK),
    (0, b"!<arch>", "a library or package archive", _UNPACK),
    (257, b"ustar", "a tar archive", _UNPACK),
    (0, b"SQLite format 3\x00", "an SQLite database", "export the tables as .csv"),
    (4, b"Standard Jet DB", "an Access database", "export the tables as .csv"),
    (4, b"Standard ACE DB", "an Access database", "export the tables as .csv"),
    (0, b"PAR1", "a Parquet table", "export it as .csv"),
    (0, b"ARROW1", "an Arrow table", "export it as .csv"),
    (0, b"\x89HDF", "an HDF5 file", "export what is text in it"),
    (0, b"\x93NUMPY", "a NumPy array", "export it as .csv"),
    (0, b"OTTO", "a font", ""),
    (0, b"\x00\x01\x00\x00\x00", "a font", ""),
    (0, b"ttcf", "a font", ""),
    (0, b"wOFF", "a font", ""),
    (0, b"wOF2", "a font", ""),
    (0, b"\xffWPC", "a WordPerfect document", "save as .docx"),
    (0, b"\xe4\x52\x5c\x7b\x8c\xd8\xa7\x4d", "a OneNote section", "export it as .docx or PDF"),
    (0, b"bplist0", "a binary property list", "convert it to XML"),
)
_PROGRAMS: tuple[tuple[bytes, str], ...] = (
    (b"\x7fELF", "a Linux program"),
    (b"MZ", "a Windows program"),
    (b"\xfe\xed\xfa\xce", "a macOS program"),
    (b"\xfe\xed\xfa\xcf", "a macOS program"),
    (b"\xce\xfa\xed\xfe", "a macOS program"),
    (b"\xcf\xfa\xed\xfe", "a macOS program"),
    (b"\xca\xfe\xba\xbe", "a Java class or macOS program"),
    (b"\x00asm", "a WebAssembly module"),
    (b"dex\n", "an Android program"),
)


def _has_magic(head: bytes) -> bool:
    """Whether a byte order mark or NULs, seen as text, belong to a known binary format after all."""
    return any(len(magic) > 3 and head.startswith(magic, offset) for offset, magic, _, _ in _MAGIC) or any(
        len(magic) > 3 and head.startswith(magic) for magic, _ in _PROGRAMS
    )


def _binary_type(head: bytes, extension: str) -> ParseFailure:
    for offset, magic, what, hint in _MAGIC:
        if head.startswith(magic, offset):
            return _unsupported(what + _called(extension), hint)
    for magic, what in _PROGRAMS:
        if head.startswith(magic):
            return ParseFailure(Reason.BINARY, what + _called(extension), "add its sources or documentation instead")
    return ParseFailure(
        Reason.BINARY,
        f"a binary file{_called(extension)}",
        "save it as text, PDF or .docx from the program that made it",
    )


def _called(extension: str) -> str:
    """` called .md` where the name promises something that can be read."""
    return f" called .{extension}" if extension in _BY_EXTENSION or _DOCUMENTS.fullmatch(extension) else ""


def _unsupported(what: str, hint: str) -> ParseFailure:
    return ParseFailure(Reason.UNSUPPORTED, what, hint)
