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


# Invisible characters that carry orders past a reader's eye: tags, bidi controls, zero-width ones
# (a joiner between two emoji stays), and control characters other than tab and newline.
_INVISIBLE = re.compile(
    "[\U000e0000-\U000e007f\u202a-\u202e\u2066-\u2069\u200b\u200c\u2060\ufeff\u00ad"
    "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff]"
    "|(?<![\U00002600-\U0001faff\ufe0f])\u200d|\u200d(?![\U00002600-\U0001faff])"
)
_NEWLINES = re.compile("\r\n?|[\u0085\u2028\u2029]")


def clean(text: str) -> str:
    """NFC, one kind of newline, nothing invisible. Offsets are counted after this."""
    if text.isascii() and text.isprintable():
        return text
    text = _NEWLINES.sub("\n", text)
    text = _INVISIBLE.sub("", text)
    return text if unicodedata.is_normalized("NFC", text) else unicodedata.normalize("NFC", text)


def bounded(text: str) -> str:
    """The text itself, unless it is longer than a document may be."""
    if len(text) > MAX_CHARACTERS:
        raise CannotParse(
            Reason.TOO_LARGE, f"more than {MAX_CHARACTERS // 1_000_000} million characters", "split the file"
        )
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
            raise CannotParse(
                Reason.TOO_LARGE, f"more than {MAX_CHARACTERS // 1_000_000} million characters", "split the file"
            )

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    @property
    def marks(self) -> tuple[Mark, ...]:
        return tuple(self._marks)
