"""Parents along the tree of headings.

A heading's subtree that is small enough stays together. A larger one is taken apart into its own text and
its children, small neighbours among them are joined, and what is still too long is cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ragforge.ingest.split.cuts import Cutter, Size
from ragforge.ingest.split.outline import Outline

_DEEPEST = 99


class Piece(NamedTuple):
    start: int
    end: int
    tokens: int


class _Node(NamedTuple):
    """A heading whose subtree is still being read, with the pieces found below it."""

    level: int
    start: int
    below: list[Piece]


def parents(cutter: Cutter, outline: Outline, end: int, size: Size) -> list[int]:
    """The starts of the sections that tile `text[:end]`."""
    if cutter.count(0, end) <= size.most and end - cutter.first <= size.characters:
        return [0]
    return [
        start
        for piece in _tree(cutter, outline, end, size)
        for start in (
            [piece.start]
            if piece.tokens <= size.most and piece.end - piece.start <= size.characters
            else cutter.pieces(piece.start, piece.end, size, lambda _: 0)
        )
    ]


def _tree(cutter: Cutter, outline: Outline, end: int, size: Size) -> list[Piece]:
    root = _Node(0, 0, [])
    opened = [root]
    for level, start in _headings(cutter, outline):
        while opened[-1].level >= level:
            node = opened.pop()
            opened[-1].below.extend(_pieces(cutter, node, start, size))
        opened.append(_Node(level, start, []))
    while len(opened) > 1:
        node = opened.pop()
        opened[-1].below.extend(_pieces(cutter, node, end, size))
    return _joined(root.below, size)


def _headings(cutter: Cutter, outline: Outline) -> Iterator[tuple[int, int]]:
    """Level and start of every heading; text before the first counts as one without children."""
    if not outline.headings or outline.headings[0].start > cutter.first:
        yield _DEEPEST, 0
        yield from ((heading.level, heading.start) for heading in outline.headings)
    else:
        yield outline.headings[0].level, 0
        yield from ((heading.level, heading.start) for heading in outline.headings[1:])


def _pieces(cutter: Cutter, node: _Node, end: int, size: Size) -> list[Piece]:
    whole = Piece(node.start, end, cutter.count(node.start, end))
    if not node.below or (whole.tokens <= size.most and end - node.start <= size.characters):
        return [whole]
    first = node.below[0].start
    return _joined([Piece(node.start, first, cutter.count(node.start, first)), *node.below], size)


def _joined(pieces: list[Piece], size: Size) -> list[Piece]:
    """Siblings with small neighbours joined. A scrap joins in any case; what gets too long is cut later."""
    joined: list[Piece] = []
    for piece in pieces:
        last = joined[-1] if joined else None
        if last and (
            last.tokens < size.floor or (last.tokens < size.least and last.tokens + piece.tokens <= size.most)
        ):
            joined[-1] = Piece(last.start, piece.end, last.tokens + piece.tokens)
        else:
            joined.append(piece)
    if len(joined) > 1:
        before, last = joined[-2:]
        if last.tokens < size.floor or (last.tokens < size.least and before.tokens + last.tokens <= size.most):
            joined[-2:] = [Piece(before.start, last.end, before.tokens + last.tokens)]
    return joined
