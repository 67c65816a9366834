"""Found leaves become the context: parents where they fit, within a budget, best first.

    plan (which leaves, which parents whole) -> the caller fetches those parents -> blocks

Candidates whose scores are close are equals. Among equals breadth comes before depth: a leaf of every file, then more
leaves of each, then their whole parents. Only then the next lower scores get what room is left. One that does not fit
leaves its room to smaller ones after it; nothing is cut.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TypeAlias

from ragforge.domain.documents import Locator
from ragforge.domain.retrieval import Candidate, ContextBlock, Decision, Stage, StoredPassage

CLOSE = 0.05
"""Scores that differ by at most this part of the range of all are close."""

Parent: TypeAlias = tuple[str, int]
"""A document's id and the position of its section. One search sees one version of a document."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The leaves of the context, best first with their scores, and the parents that are given whole."""

    leaves: tuple[tuple[StoredPassage, float], ...]
    parents: tuple[Parent, ...]
    """Whose text is more than their leaf's: fetch these."""
    decisions: tuple[Decision, ...]


def plan(
    candidates: Sequence[Candidate],
    passages: Mapping[int, StoredPassage],
    *,
    chunks: int,
    tokens: int,
    closeness: float = CLOSE,
) -> Plan:
    """Choose from candidates, best first: at most so many leaves, and with their parents at most so many tokens."""
    room = _Room(chunks, tokens)
    for equals in _tiers(candidates, closeness):
        leaves = [passages[each.key] for each in equals]
        for leaf in _breadth_first(leaves, room.leaves_of_document):
            room.take(leaf)
        for leaf in leaves:
            room.widen(leaf)
    if candidates and not room.taken and chunks > 0 and tokens > 0:
        room.take_alone(passages[candidates[0].key])
    return Plan(
        leaves=tuple((passages[each.key], each.score) for each in candidates if each.key in room.taken),
        parents=tuple(room.whole),
        decisions=tuple(
            Decision(Stage.WINDOW, each.key, each.key in room.taken, room.reason(passages[each.key]), each.score)
            for each in candidates
        ),
    )


def blocks(plan: Plan, parents: Mapping[Parent, tuple[str, str]]) -> list[ContextBlock]:
    """The context in the order of its best leaves; of a parent its table header and text. One that is not given is
    left at its leaves."""
    places = {leaf.key: place for place, (leaf, _) in enumerate(plan.leaves)}
    fetched: dict[Parent, list[StoredPassage]] = defaultdict(list)
    loose: list[StoredPassage] = []
    whole = set(plan.parents).intersection(parents)
    for leaf in sorted((leaf for leaf, _ in plan.leaves), key=_reading_order):
        (fetched[_parent(leaf)] if _parent(leaf) in whole else loose).append(leaf)
    groups: list[tuple[list[StoredPassage], tuple[str, str] | None]] = [(run, None) for run in _runs(loose)]
    groups += [(leaves, parents[parent]) for parent, leaves in fetched.items()]
    by_best_leaf = sorted(
        ((min(places[leaf.key] for leaf in leaves), leaves, parent) for leaves, parent in groups), key=itemgetter(0)
    )
    return [_block(leaves, parent, *plan.leaves[best]) for best, leaves, parent in by_best_leaf]


class _Room:
    """What is in the context so far, and why the rest is not."""

    def __init__(self, chunks: int, tokens: int) -> None:
        self._chunks = chunks
        self._tokens = tokens
        self._used = 0
        self._tokens_of_parent: Counter[Parent] = Counter()
        self._refused: dict[int, str] = {}
        self.leaves_of_document: Counter[str] = Counter()
        self.taken: set[int] = set()
        self.whole: dict[Parent, None] = {}

    def take(self, leaf: StoredPassage) -> None:
        """A leaf, if there is room. Inside a parent that is there already it needs none."""
        needed = 0 if _parent(leaf) in self.whole else leaf.tokens
        over = self._used + needed - self._tokens
        if len(self.taken) >= self._chunks:
            plural = "" if self._chunks == 1 else "s"
            self._refused[leaf.key] = f"no room: over the limit of {self._chunks:,} chunk{plural}"
        elif over > 0:
            self._refused[leaf.key] = f"no room: {over:,} tokens over the budget of {self._tokens:,}"
        else:
            self._add(leaf, needed)

    def take_alone(self, leaf: StoredPassage) -> None:
        """The best leaf, if none fits: more than was asked for, but nothing would be worse."""
        self._add(leaf, leaf.tokens)

    def widen(self, leaf: StoredPassage) -> None:
        """A taken leaf to its whole parent, if there is room for the rest of it."""
        parent = _parent(leaf)
        if leaf.key not in self.taken or parent in self.whole or _is_whole(leaf):
            return
        missing = leaf.section_tokens - self._tokens_of_parent[parent]
        if self._used + missing <= self._tokens:
            self._used += missing
            self.whole[parent] = None

    def reason(self, leaf: StoredPassage) -> str:
        if leaf.key not in self.taken:
            return self._refused[leaf.key] + (", but its section is there" if _parent(leaf) in self.whole else "")
        if self._used > self._tokens:
            return f"larger than the budget of {self._tokens:,} tokens, but nothing fits: it stands alone"
        if _parent(leaf) in self.whole or _is_whole(leaf):
            return "in the context, its section whole"
        return f"in the context without the rest of its section ({leaf.section_tokens:,} tokens): no room"

    def _add(self, leaf: StoredPassage, needed: int) -> None:
        self.taken.add(leaf.key)
        self._used += needed
        self._tokens_of_parent[_parent(leaf)] += needed
        self.leaves_of_document[leaf.document] += 1


def _tiers(candidates: Sequence[Candidate], closeness: float) -> Iterator[list[Candidate]]:
    """Candidates in groups: in each, all are close to the best one of it."""
    scores = [each.score for each in candidates]
    near = closeness * (max(scores) - min(scores)) if scores else 0.0
    tier: list[Candidate] = []
    for each in candidates:
        if tier and tier[0].score - each.score > near:
            yield tier
            tier = []
        tier.append(each)
    if tier:
        yield tier


def _breadth_first(leaves: Sequence[StoredPassage], already: Mapping[str, int]) -> list[StoredPassage]:
    """Those of files with the fewest leaves first; each leaf makes its file wait."""
    turns = Counter(already)
    order: list[tuple[int, int]] = []
    for place, leaf in enumerate(leaves):
        order.append((turns[leaf.document], place))
        turns[leaf.document] += 1
    return [leaves[place] for _, place in sorted(order)]


def _parent(leaf: StoredPassage) -> Parent:
    return leaf.document, leaf.section


def _is_whole(leaf: StoredPassage) -> bool:
    """Whether the leaf is all of its section."""
    return (leaf.start, leaf.end) == (leaf.section_start, leaf.section_end)


def _reading_order(leaf: StoredPassage) -> tuple[str, int, int]:
    return leaf.document, leaf.start, leaf.end


def _runs(leaves: Sequence[StoredPassage]) -> list[list[StoredPassage]]:
    """Leaves in reading order, neighbours together: those that overlap, and those that meet inside a section."""
    runs: list[list[StoredPassage]] = []
    for leaf in leaves:
        if runs and _touch(runs[-1], leaf):
            runs[-1].append(leaf)
        else:
            runs.append([leaf])
    return runs


def _touch(run: Sequence[StoredPassage], leaf: StoredPassage) -> bool:
    last = max(run, key=lambda each: each.end)
    if leaf.document != last.document:
        return False
    return leaf.start < last.end or (leaf.start == last.end and leaf.section == last.section)


def _block(
    leaves: Sequence[StoredPassage], parent: tuple[str, str] | None, best: StoredPassage, score: float
) -> ContextBlock:
    """One block of leaves in reading order: their parent's text, or their own without what they repeat."""
    first = leaves[0]
    if parent is not None:
        (header, text), tokens, begins = parent, first.section_tokens, first.section_start
    else:
        header, (text, tokens), begins = first.header, _joined(leaves), first.start
    return ContextBlock(
        document=first.document,
        name=first.name,
        locator=_span([leaf.locator for leaf in leaves]),
        text=text,
        header=header,
        tokens=tokens,
        score=score,
        chunks=tuple(leaf.chunk for leaf in leaves),
        whole=parent is not None or (len(leaves) == 1 and _is_whole(first)),
        spans=tuple((leaf.chunk, leaf.start - begins, leaf.end - begins) for leaf in leaves),
        best=best.chunk,
        checksum=best.checksum,
    )


def _joined(leaves: Sequence[StoredPassage]) -> tuple[str, int]:
    """The text of a run, and its tokens: of a leaf that repeats the one before, the share that is new."""
    pieces, tokens, end = [leaves[0].text], leaves[0].tokens, leaves[0].end
    for leaf in leaves[1:]:
        new = leaf.text[max(0, end - leaf.start) :]
        pieces.append(new)
        tokens += math.ceil(leaf.tokens * len(new) / max(1, len(leaf.text)))
        end = max(end, leaf.end)
    return "".join(pieces), tokens


def _span(locators: Sequence[Locator]) -> Locator:
    """One locator for neighbours: the headings they share, from the first page or time to the last."""
    if len(locators) == 1:
        return locators[0]
    pages = [page for each in locators for page in (each.page, each.page_end) if page is not None]
    times = [time for each in locators for time in (each.start, each.end) if time is not None]
    speakers = {each.speaker for each in locators}
    return Locator(
        path=_common(locators),
        page=min(pages, default=None),
        page_end=max(pages, default=None),
        start=min(times, default=None),
        end=max(times, default=None),
        speaker=speakers.pop() if len(speakers) == 1 else None,
    )


def _common(locators: Sequence[Locator]) -> tuple[str, ...]:
    levels = zip(*(each.path for each in locators), strict=False)
    shared: list[str] = []
    for headings in levels:
        if len(set(headings)) > 1:
            break
        shared.append(headings[0])
    return tuple(shared)
