"""The questions that search answers worst, with the place of every wanted document in each stage.

Each is explained twice: as shipped, which tells what became of a document, and with every passage as a candidate, which
tells how far away it was.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench import data, page
from bench.search_peers import common
from bench.search_peers.common import K, Query
from bench.search_peers.ragforge import PROJECT, OurFiles
from ragforge.domain.retrieval import Passage, QueryWords, Retrieved, Trace, Tuning
from ragforge.evaluate.metrics import ndcg
from ragforge.retrieve.words import index_terms

LOWEST, NEAREST = 3, 2
"""Questions of each corpus: whose best wanted document stands lowest, and nearest to the first ten."""
SHOWN = 4
"""Wanted documents of a question that get a row, the best placed first."""
EVERY = 1_000_000


@dataclass(frozen=True, slots=True)
class Found:
    """A document by its best passage, where every passage is a candidate."""

    title: str
    passage: Passage
    place: int
    shared: tuple[str, ...]
    """Words of the question that the passage holds."""
    fate: str
    """What became of it with the settings as shipped; empty if it was among the first ten."""
    candidate: bool


@dataclass(frozen=True, slots=True)
class Failure:
    """A question of whose wanted documents none came among the first ten."""

    query: Query
    words: QueryWords
    wanted: tuple[Found, ...]
    """Best placed first."""
    first: Found


def explained(shared: Path) -> str:
    """The worst of each corpus, and what became of all that failed."""
    parts: list[str] = []
    rows = [["", "questions", "none in the first ten", "best at 11 to 20", "lower, but a candidate", "no candidate"]]
    number = 0
    for corpus in data.CORPORA:
        asked, failed = _failures(data.corpus(shared, corpus))
        outside = [failure for failure in failed if not any(found.candidate for found in failure.wanted)]
        near = [failure for failure in failed if failure not in outside and failure.wanted[0].place <= 2 * K]
        counts = (asked, len(failed), len(near), len(failed) - len(near) - len(outside), len(outside))
        rows.append([corpus, *map(str, counts)])
        for failure in _telling(failed):
            number += 1
            parts.append(_told(number, corpus, failure))
    return "\n\n".join([page.table(rows), *parts])


def _telling(failed: Sequence[Failure]) -> list[Failure]:
    """The worst and the nearest; of several questions for the same documents one is enough."""
    by_wanted: dict[frozenset[str], Failure] = {}
    for failure in sorted(failed, key=lambda failure: -failure.wanted[0].place):
        by_wanted.setdefault(frozenset(found.title for found in failure.wanted), failure)
    distinct = list(by_wanted.values())
    return distinct[:LOWEST] + distinct[-NEAREST:]


def _failures(folder: Path) -> tuple[int, list[Failure]]:
    grades, titles = data.grades(folder), _titles(folder)
    asked = [query for query in common.queries(folder) if query.id in grades]
    with tempfile.TemporaryDirectory() as store:
        ours = OurFiles()
        ours.build(common.passages(folder), Path(store))
        search = ours.variants()["hybrid"]
        failed = [query for query in asked if ndcg(search(query), grades[query.id], K) == 0]
        failures = [_failure(ours, query, _wanted(grades[query.id]), titles) for query in failed]
        ours.forge.close()
    return len(asked), failures


def _titles(folder: Path) -> dict[str, str]:
    with (folder / "corpus.jsonl").open(encoding="utf-8") as lines:
        return {row["_id"]: row["title"].strip(" .") for row in map(json.loads, lines)}


def _wanted(grades: dict[str, float]) -> set[str]:
    return {document for document, grade in grades.items() if grade > 0}


def _failure(ours: OurFiles, query: Query, wanted: Collection[str], titles: dict[str, str]) -> Failure:
    tuning = ours.forge.tuning()
    wide = replace(tuning, keyword_candidates=EVERY, vector_candidates=EVERY, duplicates=1.0)
    shipped, everything = _trace(ours, query, tuning), _trace(ours, query, wide)
    places: dict[str, Found] = {}
    for place, passage in enumerate(everything.candidates, 1):
        document = ours.ids[passage.name]
        if document not in places and (document in wanted or place == 1):
            fate, candidate = _fate(shipped, passage)
            shared = _shared(shipped.words, passage)
            places[document] = Found(titles[document], passage, place, shared, fate, candidate)
    found = [place for document, place in places.items() if document in wanted]
    return Failure(query, shipped.words, tuple(found), next(iter(places.values())))


def _trace(ours: OurFiles, query: Query, tuning: Tuning) -> Trace:
    retrieved: Retrieved = ours.forge.explain(query.text, project=PROJECT, vector=query.vector, tuning=tuning)
    assert retrieved.trace is not None
    return retrieved.trace


def _shared(words: QueryWords, passage: Passage) -> tuple[str, ...]:
    held = set(index_terms(f"{passage.header}\n{passage.text}"))
    return tuple(group[0] for group in words.groups if not held.isdisjoint(group))


def _fate(shipped: Trace, best: Passage) -> tuple[str, bool]:
    """Where and why a document was left, and whether it was a candidate at all."""
    places = [place for place, passage in enumerate(shipped.candidates, 1) if passage.name == best.name]
    if not places:
        return "search: no candidate", False
    for verdict in shipped.verdicts:
        if verdict.document == best.name and not verdict.kept and verdict.stage == "dedupe":
            return f"dedupe: {verdict.reason}", True
    if places[0] <= K:
        return "", True
    score, tenth = shipped.candidates[places[0] - 1].score, shipped.candidates[K - 1].score
    return f"cut to ten: {score:.2f}, the tenth {tenth:.2f}", True


# -- as Markdown


def _told(number: int, corpus: str, failure: Failure) -> str:
    looked_for = len(failure.words.groups)
    rows = [["", "words", "meaning", "both", "shares", "cosine", "left by"]]
    shown = failure.wanted[:SHOWN]
    rows += [_row(found.title, found, looked_for) for found in shown]
    rows.append(_row(f"*first:* {failure.first.title}", failure.first, looked_for))
    return "\n\n".join(
        [
            f"**{number}. {failure.query.text.rstrip(' .?')}** ({corpus} {failure.query.id})",
            page.table(rows),
            *_rest(failure.wanted[SHOWN:]),
            _words(failure, shown),
        ]
    )


def _row(title: str, found: Found, looked_for: int) -> list[str]:
    ranks, scores = found.passage.ranks, found.passage.scores
    return [
        _short(title),
        str(ranks.get("keywords", "–")),
        str(ranks.get("vectors", "–")),
        str(found.place),
        f"{len(found.shared)} of {looked_for}",
        f"{scores['vectors']:.2f}",
        found.fate,
    ]


def _rest(others: Sequence[Found]) -> Iterator[str]:
    if others:
        yield f"{len(others)} more were wanted, at {', '.join(str(found.place) for found in others)}."


def _words(failure: Failure, shown: Sequence[Found]) -> str:
    """Which words were looked for, and which of them nothing wanted holds."""
    held = {word for found in shown for word in found.shared}
    lists = {True: "Held by a wanted one", False: "By none"}
    looked_for = [group[0] for group in failure.words.groups]
    told = ((title, [word for word in looked_for if (word in held) is here]) for here, title in lists.items())
    return " ".join(f"*{title}:* {', '.join(words)}." for title, words in told if words)


def _short(title: str, most: int = 80) -> str:
    return title if len(title) <= most else f"{title[:most].rsplit(' ', 1)[0]} …"
