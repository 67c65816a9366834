"""Text -> sections and leaves with their locators. Pure, in one pass, without tokenising anything.

scan       one scanner for each kind of text: where it may be cut, its headings and tables
sections   parents along the tree of headings, or windows
cuts       leaves inside each parent
locate     headings, pages, times of each piece
"""

from __future__ import annotations

import numpy as np

from ragforge.domain.documents import Leaf, Parsed, Section, Split, TextKind
from ragforge.domain.strategy import Strategy
from ragforge.domain.tokens import Tokens
from ragforge.ingest.split import code, lines, markdown
from ragforge.ingest.split.cuts import Cutter, Size
from ragforge.ingest.split.locate import Guide
from ragforge.ingest.split.outline import ROWS, SENTENCES, Outline
from ragforge.ingest.split.sections import parents
from ragforge.ingest.split.windows import windows

__all__ = ["split"]

_LEAF_CHARACTERS = 8_000
_PARENT_CHARACTERS = 32_000


def split(parsed: Parsed, tokens: Tokens, strategy: Strategy, name: str) -> Split:
    """Cut a text by the strategy. `tokens` are those of `parsed.text`; `name` stands in every leaf's lead."""
    text = parsed.text
    if not text:
        return Split()
    outline = _scan(parsed)
    if not outline.starts:
        outline.add(0, 0, SENTENCES)
    cutter = Cutter(text, outline, np.ascontiguousarray(tokens.starts).data)
    guide = Guide(parsed, outline, cutter, name, strategy.leaf_max // 2)
    if strategy.name == "sections":
        return _sections(cutter, guide, outline, strategy, len(text))
    return _windows(text, cutter, guide, strategy)


def _scan(parsed: Parsed) -> Outline:
    match parsed.kind:
        case TextKind.CODE:
            return code.scan(parsed.text)
        case TextKind.DATA:
            return lines.scan_data(parsed.text)
        case TextKind.TRANSCRIPT:
            return lines.scan_transcript(parsed.text, parsed.marks)
        case TextKind.TABLE:
            return markdown.scan(parsed.text, ROWS)
        case TextKind.PROSE:
            return markdown.scan(parsed.text)


def _sections(cutter: Cutter, guide: Guide, outline: Outline, strategy: Strategy, end: int) -> Split:
    parent = Size(strategy.parent_min, strategy.parent_max, strategy.section_min, _PARENT_CHARACTERS)
    leaf = Size(strategy.leaf_min, strategy.leaf_max, strategy.section_min, _LEAF_CHARACTERS)
    sections: list[Section] = []
    leaves: list[Leaf] = []
    starts = parents(cutter, outline, end, parent)
    for position, (first, last) in enumerate(zip(starts, [*starts[1:], end], strict=True)):
        cuts = cutter.pieces(first, last, leaf, guide.lead)
        total = 0
        for start, stop in zip(cuts, [*cuts[1:], last], strict=True):
            count = cutter.count(start, stop)
            total += count
            leaves.append(
                Leaf(len(leaves), position, start, stop, guide.locator(start, stop), count, guide.header(start))
            )
        whole = leaves[-1].locator if len(cuts) == 1 else guide.locator(first, last)
        sections.append(Section(position, first, last, whole, total, guide.header(first)))
    return Split(tuple(sections), tuple(leaves))


def _windows(text: str, cutter: Cutter, guide: Guide, strategy: Strategy) -> Split:
    sections: list[Section] = []
    leaves: list[Leaf] = []
    spans = windows(text, cutter, strategy.window(), by_tokens=strategy.name == "tokens")
    for position, (start, end) in enumerate(spans):
        locator, count, header = guide.locator(start, end), cutter.count(start, end), guide.header(start)
        sections.append(Section(position, start, end, locator, count, header))
        leaves.append(Leaf(position, position, start, end, locator, count, header))
    return Split(tuple(sections), tuple(leaves))
