"""What the splitter's tests share: a small tokenizer, and documents whose structure is known."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from ragforge.domain.documents import Mark, Parsed, Split, TextKind
from ragforge.domain.strategy import Strategy
from ragforge.domain.tokens import Tokens
from ragforge.ingest.split import split

_TOKEN = re.compile(r"\w{1,6}|[^\w\s]")

WORDS = (
    *("river", "stone", "engine", "a", "of", "the", "under", "copper", "window", "signal", "yellow", "and", "harbour"),
    *("maintenance", "configuration", "Berlin", "Dr.Who", "3.14", "v1.2.3", "https://example.org/a.b?c=d!e", "U.S."),
    *("e.g.", "No.5", "i.e.", "(see", "below)", "file.txt", "10.000,00", "J."),
)
SENTENCES = (
    "Dr. Smith met J. R. Brown at 5 p.m. in the U.S. to talk about version 1.2.3 of the tool.",
    "See e.g. the page https://example.org/a.html?x=1!2 or i.e. the copy in Fig. 3 and No. 7.",
    'He asked "why?" and left!',
    "Was it 3.14, or 2.71?",
    "Wait… then go on.",
    "これは文です。",
    "It costs approx. 3.50 etc. and so on.",
)


def tokens_of(text: str) -> Tokens:
    starts = np.fromiter((found.start() for found in _TOKEN.finditer(text)), np.int32)
    return Tokens(np.zeros(len(starts), np.int32), starts)


def split_text(
    text: str,
    strategy: Strategy | None = None,
    kind: TextKind = TextKind.PROSE,
    marks: tuple[Mark, ...] = (),
) -> Split:
    return split(Parsed(text, kind, marks), tokens_of(text), strategy or Strategy(), "note.md")


def assert_tiles(text: str, result: Split) -> None:
    """Sections tile the text, leaves tile their sections, nothing is blank, counts are right."""
    tokens = tokens_of(text)
    assert "".join(text[section.start : section.end] for section in result.sections) == text
    assert [section.position for section in result.sections] == list(range(len(result.sections)))
    assert [leaf.position for leaf in result.leaves] == list(range(len(result.leaves)))
    for section in result.sections:
        leaves = [leaf for leaf in result.leaves if leaf.section == section.position]
        assert leaves[0].start == section.start
        assert leaves[-1].end == section.end
        assert all(a.end == b.start for a, b in pairwise(leaves))
        assert section.tokens == tokens.count(section.start, section.end)
    for leaf in result.leaves:
        assert leaf.tokens == tokens.count(leaf.start, leaf.end)
        assert text[leaf.start : leaf.end].strip() or not text.strip()


@dataclass
class Document:
    """A Markdown text, and where its parts stand in it."""

    text: str = ""
    sentences: list[tuple[int, int]] = field(default_factory=list)
    rows: list[tuple[int, int]] = field(default_factory=list)
    tables: list[tuple[int, int, str]] = field(default_factory=list)
    """Offset of the first row, end, header and separator."""
    fences: list[tuple[int, int]] = field(default_factory=list)
    headings: list[tuple[int, tuple[str, ...]]] = field(default_factory=list)

    def path_at(self, offset: int) -> tuple[str, ...]:
        return next((path for start, path in reversed(self.headings) if start <= offset), ())


def a_sentence(chance: random.Random, words: int) -> str:
    if chance.random() < 0.3:
        return chance.choice(SENTENCES)
    return " ".join(["Then", *(chance.choice(WORDS) for _ in range(words)), "end"]) + chance.choice(".!?")


def a_document(seed: int, blocks: int, *, longest: int = 40) -> Document:
    """A text of paragraphs, lists, tables, code and headings in a random order."""
    chance = random.Random(seed)
    document = Document()
    parts: list[str] = []
    length = 0
    path: list[tuple[int, str]] = []

    def add(part: str) -> int:
        nonlocal length
        parts.append(part)
        length += len(part)
        return length - len(part)

    for number in range(blocks):
        match chance.choices(("heading", "paragraph", "list", "table", "code"), (3, 6, 2, 1, 1))[0]:
            case "heading":
                level = chance.randint(1, 4)
                path = [*(outer for outer in path if outer[0] < level), (level, f"Part {number}")]
                start = add(f"{'#' * level} Part **{number}**\n\n")
                document.headings.append((start, tuple(title for _, title in path)))
            case "paragraph":
                for _ in range(chance.randint(1, 8)):
                    sentence = a_sentence(chance, chance.randint(1, longest))
                    start = add(sentence)
                    document.sentences.append((start, start + len(sentence)))
                    add(chance.choice((" ", "\n", "  ")))
                add("\n\n")
            case "list":
                for item in range(chance.randint(1, 9)):
                    add("- " if seed % 2 else f"{item + 1}. ")
                    sentence = a_sentence(chance, chance.randint(1, longest))
                    start = add(sentence)
                    document.sentences.append((start, start + len(sentence)))
                    add("\n")
                add("\n")
            case "table":
                header = "| Name | Value of it |\n| --- | :---: |\n"
                add(header)
                body = length
                for _ in range(chance.randint(1, 60)):
                    row = f"| {chance.choice(WORDS)} | {a_sentence(chance, 8)} |\n"
                    start = add(row)
                    document.rows.append((start, start + len(row)))
                document.tables.append((body, length, header))
                add("\n")
            case _:
                start = add("```python\n# Not a heading. No end here.\n")
                for _ in range(chance.randint(1, 120)):
                    add(f"value = call({chance.choice(WORDS)!r})\n" if chance.random() < 0.9 else "\n")
                add("```\n")
                document.fences.append((start, length))
                add("\n")
    document.text = "".join(parts)
    return document
