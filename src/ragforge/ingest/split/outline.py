"""A text as a row of atoms, each with how good a cut before it would be, and the headings and tables in it.

A scanner for each kind of text makes the outline in one pass over the lines; nothing else looks at the
syntax of a text. Positions and ranks are kept in flat arrays, so that a text of millions of lines fits.
"""

from __future__ import annotations

from array import array
from typing import NamedTuple

# Ranks of a cut before an atom: lower is better. 1 to 6 are headings by level.
KEY = 7
PARAGRAPH = 8
ITEM = 9
NESTED = 10
LINE = 11
CLOSER = 12
GLUED = 99  # never cut here: a heading stays with what follows it

# How an atom that is too long may be cut inside. MIXED is what may be prose or not (HTML, indented text):
# before an element, then at sentences, and at a line's end where neither is found.
SOLID, SENTENCES, LINES, ROWS, MIXED = range(5)

MAX_HEADINGS = 200_000


class Heading(NamedTuple):
    """A heading, key or definition, in force from `start` on; its title is about `text[title:end]`."""

    start: int
    title: int
    end: int
    level: int
    path: tuple[str, ...]
    above: int
    """Index of the heading it stands under, or -1."""


class Table(NamedTuple):
    """A table: header row and separator are `text[start:body]`, its rows `text[body:end]`."""

    start: int
    body: int
    end: int


class Outline:
    """Filled by a scanner from the first line to the last. The first atom takes the leading blank lines."""

    __slots__ = ("_glue", "_open", "grains", "headings", "ranks", "starts", "tables")

    def __init__(self) -> None:
        self.starts = array("l")
        self.ranks = bytearray()
        self.grains = bytearray()
        self.headings: list[Heading] = []
        self.tables: list[Table] = []
        self._open: list[int] = []
        self._glue = 0  # level of the heading just before, 0 if none

    def add(self, start: int, rank: int, grain: int) -> None:
        """Begin an atom. Right after a heading it is glued to it."""
        self.starts.append(start if self.starts else 0)
        self.ranks.append(GLUED if self._glue else rank)
        self.grains.append(grain)
        self._glue = 0

    def drop_last(self) -> None:
        """Take the last atom back: it turned out to be the start of something else."""
        if self.ranks.pop() == GLUED:
            self._glue = self.headings[-1].level
        self.starts.pop()
        self.grains.pop()

    def heading(self, start: int, end: int, level: int, title: str) -> None:
        """Begin an atom that is a heading line; a deeper heading right below stays with it."""
        if self._glue >= level:
            self._glue = 0
        self.add(start, level, SOLID)
        self.section(start, start, end, level, title)
        self._glue = level

    def section(self, start: int, named: int, end: int, level: int, title: str) -> None:
        """Record what is in force from `start` on, under what is open; its title is at `named`."""
        if len(self.headings) >= MAX_HEADINGS:
            return
        headings, opened = self.headings, self._open
        while opened and headings[opened[-1]].level >= level:
            opened.pop()
        above = opened[-1] if opened else -1
        path = headings[above].path if opened else ()
        headings.append(Heading(start, named, end, level, (*path, title) if title else path, above))
        opened.append(len(headings) - 1)

    def definition(self, start: int, named: int, level: int, path: tuple[str, ...]) -> None:
        """Record a definition whose whole path is known."""
        if len(self.headings) < MAX_HEADINGS:
            end = named + sum(map(len, path)) + 8
            self.headings.append(Heading(start, named, end, level, path, -1))
