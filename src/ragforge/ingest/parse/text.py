"""What all parsers share: clean text, and text that is put together with its marks."""

from __future__ import annotations

import re
import unicodedata

from ragforge.domain.documents import Mark, ParseFailure, Reason

MAX_CHARACTERS = 20_000_000


class CannotParse(Exception):
    """Raised by a parser when it knows what is wrong with the file."""

    def __init__(self, reason: Reason, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.failure = ParseFailure(reason, message, hint)


# Invisible characters that carry orders past a reader's eye: tags, variation selectors used as an alphabet,
# bidi controls, zero-width ones, fillers, and control characters other than tab and newline.
_INVISIBLE = re.compile(
    "[\U000e0000-\U000e0fff\u202a-\u202e\u2066-\u2069\u200b\u200e\u200f\u061c\u2060-\u2064\ufeff\u00ad\u180e"
    "\u3164\uffa0\ufff9-\ufffb\ufe00-\ufe0e\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff]"
)
# Zero-width joiners stay where they make one sign of two: between emoji, and in scripts that are written with them.
_JOINED = "\u0600-\u109f\u1780-\u18af\u2190-\u21ff\u2600-\u27bf\u2b00-\u2bff\ufe0f\U0001f000-\U0001faff"
_JOINERS = re.compile(f"(?<![{_JOINED}])[\u200c\u200d]|[\u200c\u200d](?![{_JOINED}])")
_REPEATED = re.compile("\ufe0f{2,}")
_NEWLINES = re.compile("[\u0085\u2028\u2029]")
_MARKS = re.compile(r"[^\w\s\x00-\u02ff]{31,}")  # may hold a long run of combining marks
_MOST_MARKS = 30  # on one letter; no script needs more (Unicode Annex 15, stream-safe text)
_ASCII_CONTROLS = bytes({*range(32), 127} - {9, 10})


def clean(text: str) -> str:
    """NFC, one kind of newline, nothing invisible. Offsets are counted after this."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.isascii():
        return text if text.isprintable() else text.encode().translate(None, _ASCII_CONTROLS).decode()
    text = _INVISIBLE.sub("", _NEWLINES.sub("\n", text))
    if "\u200c" in text or "\u200d" in text:
        text = _JOINERS.sub("", text)
    text = _REPEATED.sub("\ufe0f", text)  # last: what stood between two may be gone by now
    if unicodedata.is_normalized("NFC", text):
        return text
    # Marks are sorted in time that grows with the square of their number, so a heap of them is cut down first.
    return unicodedata.normalize("NFC", _MARKS.sub(_few_marks, text))


def _few_marks(match: re.Match[str]) -> str:
    """The characters without the combining marks that stand beyond the most a letter may have."""
    kept: list[str] = []
    marks = 0
    for character in match[0]:
        marks = marks + 1 if unicodedata.category(character).startswith("M") else 0
        if marks <= _MOST_MARKS:
            kept.append(character)
    return "".join(kept)


def too_large() -> CannotParse:
    """What to raise for a text that is longer than a document may be."""
    return CannotParse(
        Reason.TOO_LARGE, f"more than {MAX_CHARACTERS // 1_000_000} million characters", "split the file"
    )


def bounded(text: str) -> str:
    """The text itself, unless it is too large."""
    if len(text) > MAX_CHARACTERS:
        raise too_large()
    return text


class MarkedText:
    """Pieces of text joined into one, each with the mark that holds for it. Cleans what it takes."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._marks: list[Mark] = []
        self._length = 0

    def add(
        self,
        text: str,
        *,
        page: int | None = None,
        start: float | None = None,
        end: float | None = None,
        speaker: str | None = None,
    ) -> None:
        """Append a piece; a mark is set where any of its facts is given."""
        if page is not None or start is not None or speaker is not None:
            self._marks.append(Mark(self._length, page, start, end, speaker))
        text = clean(text)
        self._pieces.append(text)
        self._length += len(text)
        if self._length > MAX_CHARACTERS:
            raise too_large()

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    @property
    def marks(self) -> tuple[Mark, ...]:
        return tuple(self._marks)
