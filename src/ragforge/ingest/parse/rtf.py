r"""RTF -> text: paragraphs, table rows on one line, `\'xx` by code page and `\uN`.

A small reader of the format's own: groups, control words, and a list of destinations that hold no text.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass, replace

from ragforge.domain.documents import Parsed, Reason
from ragforge.ingest.parse.markup import table
from ragforge.ingest.parse.text import CannotParse, MarkedText

_TOKEN = re.compile(
    rb"\\(?P<word>[a-zA-Z]{1,32})(?P<number>-?\d{1,10})? ?|\\'(?P<hex>[0-9a-fA-F]{2})|\\(?P<symbol>[^a-zA-Z])"
    rb"|(?P<brace>[{}])|(?P<text>[^\\{}\r\n]+)|[\r\n]+",
    re.S,
)
_SKIPPED = frozenset(
    b"fonttbl colortbl stylesheet info pict object objdata themedata colorschememapping datastore listtable "
    b"listoverridetable rsidtbl generator fldinst xmlnstbl latentstyles header headerl headerr headerf footer "
    b"footerl footerr footerf pntext filetbl revtbl mmathPr pgdsctbl bkmkstart bkmkend shppict nonshppict "
    b"atnid atnauthor atnref atrfstart atrfend userprops docvar xe tc".split()
)
_BREAKS = {b"par": "\n\n", b"sect": "\n\n", b"page": "\n\n", b"line": "\n", b"softline": "\n"}
_CHARACTERS = {
    b"tab": " ",
    b"emdash": "—",
    b"endash": "–",
    b"bullet": "•",
    b"lquote": "‘",
    b"rquote": "’",
    b"ldblquote": "“",
    b"rdblquote": "”",
    b"emspace": " ",
    b"enspace": " ",
}
_CHARSETS = {
    77: "mac_roman",
    128: "cp932",
    129: "cp949",
    134: "gbk",
    136: "big5",
    161: "cp1253",
    162: "cp1254",
    163: "cp1258",
    177: "cp1255",
    178: "cp1256",
    186: "cp1257",
    204: "cp1251",
    222: "cp874",
    238: "cp1250",
}
_CODE_PAGES = {b"mac": "mac_roman", b"pc": "cp437", b"pca": "cp850", b"ansi": "cp1252"}


@dataclass(frozen=True, slots=True)
class State:
    """What holds inside a group, until it is closed."""

    skipped: bool = False
    hidden: bool = False
    codec: str = "cp1252"
    skip_after_unicode: int = 1
    font_table: bool = False


def parse(data: bytes, name: str) -> Parsed:
    """The document's text and its title."""
    if not data.lstrip(b"\xef\xbb\xbf \r\n").startswith(b"{\\rtf"):
        raise CannotParse(Reason.CORRUPT, "not an RTF file", "open it in the program that made it and save it again")
    reader = Reader()
    place = 0
    while match := _TOKEN.search(data, place):
        place = match.end()
        if match["word"] == b"bin":
            place += max(0, int(match["number"] or 0))
        else:
            reader.take(match)
    text = MarkedText()
    text.add(reader.finish())
    notes = (f"{reader.hidden} hidden passage{'s' if reader.hidden > 1 else ''}",) if reader.hidden else ()
    return Parsed(text.text, title=_title(data), notes=notes)


def _title(data: bytes) -> str | None:
    match = re.search(rb"\{\\title\s([^{}\\]{1,300})\}", data[:100_000])
    return match.group(1).decode("cp1252", "replace").strip() or None if match else None


class Reader:
    """Takes tokens one after the other and gathers paragraphs and tables."""

    def __init__(self) -> None:
        self.hidden = 0
        self._state = State()
        self._stack: list[State] = []
        self._blocks: list[str] = []
        self._paragraph: list[str] = []
        self._bytes = bytearray()
        self._row: list[str] = []
        self._rows: list[list[str]] = []
        self._fonts: dict[int, str] = {}
        self._font = 0
        self._default_codec = "cp1252"
        self._to_skip = 0
        self._starred = False
        self._in_table = False

    def take(self, match: re.Match[bytes]) -> None:
        if match["hex"] is not None:
            self._byte(bytes.fromhex(match["hex"].decode()))
        elif match["text"] is not None:
            self._byte(match["text"])
        elif match["brace"] == b"{":
            self._flush_bytes()
            self._stack.append(self._state)
            self._to_skip = 0
        elif match["brace"] == b"}":
            self._flush_bytes()
            self._state = self._stack.pop() if self._stack else State()
            self._to_skip = 0
        elif match["symbol"] is not None:
            self._symbol(match["symbol"])
        elif match["word"] is not None:
            self._word(match["word"], int(match["number"]) if match["number"] else None)

    def finish(self) -> str:
        self._end_paragraph("\n\n")
        self._end_table()
        text = "".join(self._blocks).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return re.sub(r"\n{3,}", "\n\n", text).strip()

    def _byte(self, data: bytes) -> None:
        skipped = min(self._to_skip, len(data))
        self._to_skip -= skipped
        if not self._state.skipped:
            self._bytes += data[skipped:]

    def _flush_bytes(self) -> None:
        if self._bytes:
            text = bytes(self._bytes).decode(self._state.codec, "replace")
            self._bytes.clear()
            self._write(text)

    def _write(self, text: str) -> None:
        if not self._state.skipped:
            self._flush_bytes()
            self._paragraph.append(text)

    def _symbol(self, symbol: bytes) -> None:
        if symbol == b"*":
            self._starred = True
        elif symbol in (b"\\", b"{", b"}"):
            self._byte(symbol)
        elif symbol == b"~":
            self._write(" ")
        elif symbol == b"_":
            self._write("-")
        elif symbol in (b"\n", b"\r"):
            self._end_paragraph("\n\n")

    def _word(self, word: bytes, number: int | None) -> None:
        starred, self._starred = self._starred, False
        if word in _SKIPPED or (starred and word not in (b"shpinst", b"shptxt")):
            self._flush_bytes()
            self._state = replace(self._state, skipped=True, font_table=word == b"fonttbl")
        elif self._state.font_table or word in (b"f", b"deff", b"ansicpg", b"fcharset") or word in _CODE_PAGES:
            self._encoding(word, number or 0)
        elif word == b"u" and number is not None:
            self._write(chr(number % 65536))
            self._to_skip = self._state.skip_after_unicode
        elif word == b"uc":
            self._state = replace(self._state, skip_after_unicode=max(0, number or 0))
        elif word == b"v" and not self._state.skipped:
            self._flush_bytes()
            self.hidden += number != 0 and not self._state.hidden
            self._state = replace(self._state, hidden=number != 0)
        elif not self._state.skipped:
            self._layout(word)

    def _encoding(self, word: bytes, number: int) -> None:
        self._flush_bytes()
        if word == b"ansicpg" or word in _CODE_PAGES:
            codec = _CODE_PAGES.get(word) or _known(f"cp{number}")
            self._default_codec = codec
            self._state = replace(self._state, codec=codec)
        elif word == b"f":
            self._font = number
            if not self._state.font_table:
                self._state = replace(self._state, codec=self._fonts.get(number, self._default_codec))
        elif word == b"fcharset" and number > 1:
            self._fonts[self._font] = _CHARSETS.get(number, self._default_codec)

    def _layout(self, word: bytes) -> None:
        if word in _CHARACTERS:
            self._write(_CHARACTERS[word])
        elif word in (b"cell", b"nestcell"):
            self._row.append(" ".join(self._taken().split()))
        elif word in (b"row", b"nestrow"):
            self._rows.append(self._row)
            self._row = []
        elif word in (b"intbl", b"pard"):
            self._in_table = word == b"intbl"
        elif word in _BREAKS and (self._in_table or self._row):
            self._write(" ")
        elif word in _BREAKS:
            self._end_paragraph(_BREAKS[word])

    def _taken(self) -> str:
        self._flush_bytes()
        text = "".join(self._paragraph)
        self._paragraph.clear()
        return text

    def _end_paragraph(self, end: str) -> None:
        text = self._taken()
        if text.strip():
            self._end_table()
            self._blocks.append(text.strip() + end)

    def _end_table(self) -> None:
        rows = self._rows + ([self._row] if self._row else [])
        if any(map(any, rows)):
            self._blocks.append("\n\n" + table(rows) + "\n\n")
        self._rows, self._row = [], []


def _known(codec: str) -> str:
    try:
        return codecs.lookup(codec).name
    except LookupError:
        return "cp1252"
