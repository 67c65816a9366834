"""Follow-up questions made to stand alone, measured: `python -m bench.rewrites`.

    cast    the rewrites of TREC CAsT, which people made: token F1 to them beside that of the raw utterance, and
            how many of the utterances that people left as they were are left so
    search  our own follow-ups over the documentation of FastAPI: recall@5 of the page that answers, raw and rewritten

The rules were written with every second conversation of CAsT and the first of our own in sight (`seen`); `unseen` are
the others.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from bench import data
from ragforge import Ragforge
from ragforge.assemble.follow_up import stand_alone
from ragforge.domain.conversation import Turn

FOLLOW_UPS = Path(__file__).parent / "follow_ups.jsonl"
_DEPTH = 5

Figures = dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["cast", "search"], help="some of cast, search")
    parser.add_argument("--data", type=Path, default=data.DEFAULT_DATA, help="the folder of the shared data")
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - {"cast", "search"}:
        raise SystemExit(f"no part {', '.join(sorted(unknown))}: there are cast, search")
    if not arguments.data.is_dir():
        raise SystemExit(f"no folder {arguments.data}: name one with --data")
    if "cast" in arguments.parts:
        for half, figures in cast(arguments.data).items():
            print(f"cast/{half}: {json.dumps(figures)}", flush=True)
    if "search" in arguments.parts:
        for half, figures in searched(arguments.data).items():
            print(f"search/{half}: {json.dumps(figures)}", flush=True)


# -- beside what people wrote


class Pair(NamedTuple):
    """A follow-up, ours and theirs."""

    id: str
    raw: str
    ours: str
    people: str

    @property
    def stood_alone(self) -> bool:
        """Whether people left it as it was."""
        return tokens(self.raw) == tokens(self.people)

    @property
    def left(self) -> bool:
        return tokens(self.raw) == tokens(self.ours)


def cast(shared: Path) -> dict[str, Figures]:
    """Figures of both halves."""
    found = list(pairs(shared))
    conversations = list(dict.fromkeys(_conversation(pair.id) for pair in found))
    seen = set(conversations[::2])
    return {
        "seen": compared([pair for pair in found if _conversation(pair.id) in seen]),
        "unseen": compared([pair for pair in found if _conversation(pair.id) not in seen]),
    }


def pairs(shared: Path) -> Iterable[Pair]:
    """Every utterance after the first of its conversation, as we rewrite it after our own rewrites of those before."""
    said: list[Turn] = []
    for row in _rows(shared / "cast_rewrites" / "rewrites.jsonl"):
        said = said if row["history"] else []
        ours = stand_alone(row["utterance"], said)
        if said:
            yield Pair(row["_id"], row["utterance"], ours.text, row["rewrite"])
        said.append(turn(len(said) + 1, row["utterance"], ours.text if ours.rewritten else ""))


def compared(found: Sequence[Pair]) -> Figures:
    alone = [pair for pair in found if pair.stood_alone]
    changed = [pair for pair in found if not pair.left]
    return {
        "utterances": len(found),
        "f1_raw": round(fmean(f1(pair.raw, pair.people) for pair in found), 4),
        "f1": round(fmean(f1(pair.ours, pair.people) for pair in found), 4),
        "stood_alone": len(alone),
        "left_alone": round(fmean(pair.left for pair in alone), 4),
        "changed": len(changed),
        "changed_for_better": sum(f1(pair.ours, pair.people) > f1(pair.raw, pair.people) for pair in changed),
        "changed_for_worse": sum(f1(pair.ours, pair.people) < f1(pair.raw, pair.people) for pair in changed),
    }


def tokens(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def f1(ours: str, theirs: str) -> float:
    """Of the words, each as often as it occurs."""
    mine, wanted = Counter(tokens(ours)), Counter(tokens(theirs))
    common = (mine & wanted).total()
    return 2 * common / (mine.total() + wanted.total()) if common else 0.0


def turn(number: int, question: str, standalone: str = "", answer: str = "") -> Turn:
    return Turn(str(number), "bench", number, question, answer, datetime(2025, 1, 1, tzinfo=UTC), standalone)


def _conversation(id: str) -> str:
    return id.rpartition("_")[0]


# -- beside what is found


def searched(shared: Path) -> dict[str, Figures]:
    """Recall@5 of the page that answers each follow-up, as it was typed and as it is rewritten."""
    asked = list(follow_ups())
    with tempfile.TemporaryDirectory() as workspace, Ragforge.open(workspace) as forge:
        forge.add(shared / "fastapi_docs" / "docs", project="docs")
        found = {text: _sources(forge, text) for row in asked for text in (row.raw, row.rewritten)}
    halves = {half: [row for row in asked if row.half == half] for half in ("seen", "unseen")}
    return {
        half: {
            "follow_ups": len(rows),
            "rewritten": sum(row.raw != row.rewritten for row in rows),
            "recall@5_raw": round(fmean(_hit(found[row.raw], row.pages) for row in rows), 4),
            "recall@5": round(fmean(_hit(found[row.rewritten], row.pages) for row in rows), 4),
        }
        for half, rows in halves.items()
    }


class FollowUp(NamedTuple):
    """The last question of one of our conversations, raw and rewritten, with the pages that answer it."""

    raw: str
    rewritten: str
    pages: list[str]
    half: str


def follow_ups() -> Iterable[FollowUp]:
    for row in _rows(FOLLOW_UPS):
        said: list[Turn] = []
        for number, before in enumerate(row["before"], 1):
            question, answer = before if isinstance(before, list) else (before, "")
            ours = stand_alone(question, said)
            said.append(turn(number, question, ours.text if ours.rewritten else "", answer))
        yield FollowUp(row["question"], stand_alone(row["question"], said).text, row["pages"], row["half"])


def _sources(forge: Ragforge, question: str) -> list[str]:
    return [passage.source for passage in forge.search(question, project="docs", k=_DEPTH).passages]


def _hit(found: Sequence[str], pages: Sequence[str]) -> bool:
    return any(name.endswith(page) for name in found for page in pages)


def _rows(file: Path) -> list[dict[str, Any]]:
    with file.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


if __name__ == "__main__":
    main()
