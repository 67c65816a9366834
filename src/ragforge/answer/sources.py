"""What can be cited: passages, chunks and blocks of context under their numbers, each with the lines above its text.

And where in its document any place of a source stands: `paths_in` a source, then `path_at` a place.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from ragforge.answer.outline import fence_after
from ragforge.domain.library import Chunk, Document
from ragforge.domain.prompts import Source
from ragforge.domain.retrieval import ContextBlock, Passage
from ragforge.domain.titles import plain_title


def source_of_passage(number: int, passage: Passage) -> Source:
    """A passage as it was found."""
    text, shift = passage.header + passage.text, len(passage.header)
    return Source(
        number, passage.chunk, (passage.chunk,), passage.document, passage.name, passage.locator, passage.checksum,
        passage.score, text, passage.tokens, ((passage.chunk, shift, len(text)),),
    )  # fmt: skip


def source_of_chunk(number: int, document: Document, chunk: Chunk) -> Source:
    """A chunk that nobody searched for: of a project that is read whole."""
    text, shift = chunk.header + chunk.text, len(chunk.header)
    return Source(
        number, chunk.id, (chunk.id,), document.id, document.name, chunk.locator, chunk.checksum, 0.0, text,
        chunk.tokens, ((chunk.id, shift, len(text)),),
    )  # fmt: skip


def source_of_block(number: int, block: ContextBlock) -> Source:
    """Passages with the rest of their section, and where in it they stand."""
    shift = len(block.header)
    spans = tuple((chunk, start + shift, end + shift) for chunk, start, end in block.spans)
    return Source(
        number, block.best or block.chunks[0], block.chunks, block.document, block.name, block.locator,
        block.checksum, block.score, block.header + block.text, block.tokens, spans,
    )  # fmt: skip


# -- headings

Paths: TypeAlias = Sequence[tuple[int, tuple[str, ...]]]
"""From which place of a text on which headings hold, outer ones first."""

_SIGNS = re.compile(r" {0,3}(#{1,6})(?![^ \t])")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-+)[ \t]*")
_OPENS_NO_TITLE = tuple("#|>-*+<`~=")
_LONGEST_TITLE = 300
_REMARKED = frozenset(
    ending
    for endings in (
        "py pyi pyw pyx sh bash zsh fish rb pl pm r jl tcl awk nim ps1 ex exs cmake mk makefile dockerfile nix tf",
        "tfvars hcl toml yaml yml ini cfg conf config properties env graphql gql gitignore dockerignore editorconfig",
    )
    for ending in endings.split()
)
"""Endings of files in which a line that begins with `#` is a remark and no heading."""


class _Heading(NamedTuple):
    at: int
    level: int
    title: str


def path_at(paths: Paths, at: int) -> tuple[str, ...]:
    """The headings that a place stands under."""
    return paths[bisect_right(paths, at, key=itemgetter(0)) - 1][1]


def paths_in(source: Source) -> Paths:
    """The headings that hold at the start of a source, and from each of its own headings on."""
    ending = re.split(r"[./\\]", source.name.lower())[-1]
    headings = [] if ending in _REMARKED else list(_headings(source.text))
    opened = _above(source, headings)
    paths = [(0, _titles(opened))]
    for heading in headings:
        opened = _opened(opened, heading)
        paths.append((heading.at, _titles(opened)))
    return paths


def _above(source: Source, headings: Sequence[_Heading]) -> list[_Heading]:
    """The headings above a source's text: those of its locator, which holds where its first chunk begins.

    Nobody knows their levels. They are taken to be as deep as they can be, so that none stays that may have ended.
    """
    begin = source.spans[0][1] if source.spans else 0
    begin += len(source.text[begin:]) - len(source.text[begin:].lstrip())
    inside: list[_Heading] = []
    for heading in headings:
        if heading.at <= begin:
            inside = _opened(inside, heading)
    path, titles = source.locator.path, _titles(inside)
    known = next(size for size in range(len(titles), -1, -1) if path[len(path) - size :] == titles[:size])
    above = path[: len(path) - known]
    below = inside[0].level if inside else len(above) + 1
    return [_Heading(0, below - len(above) + place, title) for place, title in enumerate(above)]


def _opened(opened: Sequence[_Heading], heading: _Heading) -> list[_Heading]:
    """What holds from a heading on: it ends those of its level and below."""
    return [*(each for each in opened if each.level < heading.level), heading]


def _titles(opened: Sequence[_Heading]) -> tuple[str, ...]:
    return tuple(heading.title for heading in opened if heading.title)


def _headings(text: str) -> Iterator[_Heading]:
    """Those with signs before them and those with a line below them; in code there are none."""
    at, fence, before, alone = 0, "", "", True
    for line in text.split("\n"):
        fence = fence_after(fence, line)
        if not fence:
            if signs := _SIGNS.match(line):
                yield _Heading(at, len(signs[1]), plain_title(_unclosed(line[signs.end() :].strip())))
            elif alone and _may_be_title(before) and _UNDERLINE.fullmatch(line):
                yield _Heading(at - len(before) - 1, 1 if "=" in line else 2, plain_title(before))
        alone, before = not before.strip(), line
        at += len(line) + 1


def _may_be_title(line: str) -> bool:
    return 0 < len(line) <= _LONGEST_TITLE and bool(line.strip()) and not line.lstrip().startswith(_OPENS_NO_TITLE)


def _unclosed(title: str) -> str:
    """Without the signs that may stand behind a heading, too."""
    bare = title.rstrip("#")
    return bare.rstrip() if not bare or bare[-1] in " \t" else title
