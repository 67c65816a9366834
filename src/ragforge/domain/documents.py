"""A file on its way to searchable text: what was parsed, how it was split, where each piece stands.

    bytes -> Parsed (or ParseFailure) -> Split(sections, leaves)

Offsets always refer to `Parsed.text`, so `text[leaf.start:leaf.end]` is the leaf's text.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from enum import StrEnum


class TextKind(StrEnum):
    """What the text is made of; the splitter chooses its boundaries by it."""

    PROSE = "prose"
    TABLE = "table"
    CODE = "code"
    DATA = "data"
    TRANSCRIPT = "transcript"


@dataclass(frozen=True, slots=True)
class Mark:
    """A fact about the text from `offset` on, until the next mark: its page, or its time and speaker."""

    offset: int
    page: int | None = None
    start: float | None = None
    end: float | None = None
    speaker: str | None = None


@dataclass(frozen=True, slots=True)
class Parsed:
    """A file as Markdown, with marks that lead back to its pages or times."""

    text: str
    kind: TextKind = TextKind.PROSE
    marks: tuple[Mark, ...] = ()
    title: str | None = None
    notes: tuple[str, ...] = ()
    """What a person should know: "encoding guessed: cp1252", "2 pages hold no text"."""


class Reason(StrEnum):
    """Why a file did not become text. The message beside it is for people; this is for programs."""

    EMPTY = "empty"
    TOO_LARGE = "too_large"
    UNSUPPORTED = "unsupported"
    LEGACY_FORMAT = "legacy_format"
    BINARY = "binary"
    ENCRYPTED = "encrypted"
    NO_TEXT = "no_text"
    CORRUPT = "corrupt"
    HOSTILE = "hostile"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    CRASHED = "crashed"
    UNREADABLE = "unreadable"
    NOT_JAILED = "not_jailed"


@dataclass(frozen=True, slots=True)
class ParseFailure:
    """A file that could not be read, said so that a person can act on it."""

    reason: Reason
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Locator:
    """Where in its document a piece of text stands: headings, page, time."""

    path: tuple[str, ...] = ()
    page: int | None = None
    page_end: int | None = None
    start: float | None = None
    end: float | None = None
    speaker: str | None = None

    def label(self) -> str:
        """The locator as a reader would write it: `p. 3`, `t=12:34`, `Refunds > Chairs`."""
        if self.start is not None:
            return f"t={clock_time(self.start)}"
        if self.page is not None:
            return f"p. {self.page}" if self.page_end in (None, self.page) else f"p. {self.page}–{self.page_end}"
        return " > ".join(self.path)


def clock_time(seconds: float) -> str:
    """Seconds as `12:34` or `1:02:03`."""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


@dataclass(frozen=True, slots=True)
class Section:
    """A parent: what is returned when one of its leaves is found."""

    position: int
    start: int
    end: int
    locator: Locator
    tokens: int
    header: str = ""
    """Table header repeated before a piece that starts inside a table; not part of the text."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A piece that is embedded and searched. It lies inside the section at `section`."""

    position: int
    section: int
    start: int
    end: int
    locator: Locator
    tokens: int
    header: str = ""


@dataclass(frozen=True, slots=True)
class Split:
    """A text's sections and leaves, each in order of position. The sections together cover the text."""

    sections: tuple[Section, ...] = ()
    leaves: tuple[Leaf, ...] = field(default=())


def breadcrumb(name: str, path: tuple[str, ...]) -> str:
    """`[Source: file > H1 > H2]`, embedded before every leaf."""
    return f"[Source: {' > '.join((name, *path))}]"


def lead(name: str, piece: Leaf | Section) -> str:
    """What stands before a piece when it is embedded or shown: its breadcrumb and any table header."""
    return breadcrumb(name, piece.locator.path) + "\n" + piece.header


def digest(*parts: str) -> str:
    """A stable id of its parts: 32 hex characters."""
    return hashlib.blake2b("\x1f".join(parts).encode(), digest_size=16).hexdigest()


def version_id(sha256: str, parser: str, name: str) -> str:
    """The same bytes, read the same way under the same name, are the same version."""
    return digest("version", sha256, parser, name)


def chunk_id(project: str, document: str, version: str, position: int, chunker: str) -> str:
    """The same leaf of the same version has the same id, whoever writes it and however often."""
    return digest("chunk", project, document, version, str(position), chunker)
