"""Offline answers measured on SQuAD 2: `python -m bench.answers`, ours alone.

    quotes      the right paragraph among the first three sources; the answer inside what is quoted
    abstention  AUROC with the article, and with the paragraph, switched off; calibrated on half of the articles,
                measured on the other, both ways; and what the shipped weights and their threshold do
    fit         the weights for `answer/abstain.py`, from all questions

Each paragraph is a file, added as a person would. Questions are asked through the same search as everywhere.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from bench import data
from ragforge import Ragforge
from ragforge.answer.abstain import PASSAGES, SENTENCES_OF, Calibration, Heard, calibration_of, features
from ragforge.answer.quote import asked_for, quote
from ragforge.answer.units import units
from ragforge.answer.weigh import rarity
from ragforge.domain.prompts import Source
from ragforge.domain.retrieval import Passage, QueryWords
from ragforge.retrieve.words import terms_of

EMBEDDERS = ("minilm", "wordllama")
THERE, NO_ARTICLE, NO_PARAGRAPH, LOOK_ALIKE = "there", "article absent", "paragraph absent", "look-alike"
_SENTENCES, _WORDS = 2, 60

Row = dict[str, Any]
Figures = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Found:
    """What a question brought: all that abstaining and quoting need to know."""

    words: QueryWords
    rare: dict[str, float]
    passages: tuple[Passage, ...]

    @property
    def features(self) -> dict[str, float]:
        heard = [_heard(passage, place) for place, passage in enumerate(self.passages)]
        return features(self.words.groups, self.rare, heard)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["quotes", "abstention"], help="some of quotes, abstention, fit")
    parser.add_argument("--data", type=Path, default=data.DEFAULT_DATA, help="the folder of the shared data")
    parser.add_argument("--embedder", choices=EMBEDDERS, default=EMBEDDERS[0])
    parser.add_argument("--all", action="store_true", help="all questions instead of the sample")
    chosen = parser.parse_args()
    file = "questions.jsonl" if chosen.all or "fit" in chosen.parts else "questions_sample.jsonl"
    questions = [json.loads(line) for line in (chosen.data / "squad2" / file).open(encoding="utf-8")]
    with Ragforge.open(data.CACHE / "answers") as forge:
        project = _project(forge, chosen.data / "squad2" / "corpus.jsonl", chosen.embedder)
        if "quotes" in chosen.parts:
            print(json.dumps(quotes(forge, project, [row for row in questions if row["answerable"]]), indent=1))
        if {"abstention", "fit"} & set(chosen.parts):
            measured = list(_measured(forge, project, questions))
            if "abstention" in chosen.parts:
                print(json.dumps(abstention(measured, calibration_of(chosen.embedder)), indent=1))
            if "fit" in chosen.parts:
                print(_fitted(measured, list(calibration_of(chosen.embedder).weights)))


# -- quotes


def quotes(forge: Ragforge, project: str, questions: Sequence[Row]) -> Figures:
    """Shares of the questions, all together and by what they ask for."""
    results = defaultdict(list)
    for row in questions:
        found = _ask(forge, project, row["question"])
        documents = list(dict.fromkeys(passage.name for passage in found.passages))
        sources = [_source(number, passage) for number, passage in enumerate(found.passages, 1)]
        limits = {"sentences": _SENTENCES, "words": _WORDS}
        quoted = quote(row["question"], found.words.groups, found.rare, sources, terms_of, **limits)
        text = " ".join(each.text for each in quoted)
        result = (
            _file(row["doc_ids"][0]) in documents[:3],
            any(answer in text for answer in row["answers"]),
            len(quoted),
            len(text.split()),
        )
        results["all"].append(result)
        results[str(asked_for(row["question"]))].append(result)
    names = ("right source in 3", "answer quoted", "sentences", "words")
    return {
        kind: {"questions": len(rows)} | dict(zip(names, np.mean(rows, axis=0).round(3).tolist(), strict=True))
        for kind, rows in results.items()
    }


def _source(number: int, passage: Passage) -> Source:
    return Source(
        number=number,
        chunk=passage.chunk,
        chunks=(passage.chunk,),
        document=passage.document,
        name=passage.name,
        locator=passage.locator,
        checksum=passage.checksum,
        score=passage.score,
        text=passage.text,
        tokens=passage.tokens,
    )


# -- abstention


def abstention(measured: Sequence[Row], calibration: Calibration) -> Figures:
    names = list(calibration.weights)
    articles = sorted({row["article"] for row in measured})
    figures: Figures = {}
    halves = {"first": articles[: len(articles) // 2], "last": articles[len(articles) // 2 :]}
    halves |= {"even": articles[::2], "odd": articles[1::2]}
    for half, chosen in halves.items():
        learned = [row for row in measured if row["article"] in chosen]
        tested = [row for row in measured if row["article"] not in chosen]
        figures[f"AUROC, calibrated on the {half} articles"] = _aurocs(tested, partial(_score, _fitted(learned, names)))
    shipped = partial(_score, calibration)
    figures["AUROC, shipped weights"] = _aurocs(measured, shipped)
    answered = {case: np.array([shipped(row) for row in measured if row["case"] == case]) for case in _cases(measured)}
    figures[f"answered at {calibration.threshold}"] = {
        case: round(float((scores >= calibration.threshold).mean()), 3) for case, scores in answered.items()
    }
    return figures


def _measured(forge: Ragforge, project: str, questions: Sequence[Row]) -> Iterator[Row]:
    """Each question's features: with everything there; and, if it has an answer, with its place switched off."""

    def rows(asked: Sequence[Row], case: str) -> Iterator[Row]:
        for row in asked:
            found = _ask(forge, project, row["question"], off)
            yield {"case": case, "article": _article(row), **found.features}

    off: Counter[str] = Counter()
    answerable = sorted((row for row in questions if row["answerable"]), key=lambda row: row["doc_ids"][0])
    yield from rows(answerable, THERE)
    yield from rows([row for row in questions if not row["answerable"]], LOOK_ALIKE)
    files = {document.name: document.id for document in forge.documents(project=project)}
    for case, place in ((NO_ARTICLE, _article), (NO_PARAGRAPH, lambda row: row["doc_ids"][0])):
        for where, asked in groupby(answerable, place):
            gone = [id for name, id in files.items() if name == _file(where) or name.startswith(f"{where} ")]
            chunks = [chunk for id in gone for chunk in forge.chunks(id, project=project)]
            names = {id: name for name, id in files.items()}
            off = Counter(
                term for chunk in chunks for term in {*terms_of([names[chunk.document]])[0], *terms_of([chunk.text])[0]}
            )
            off[""] = len(chunks)
            forge.enable(gone, False, project=project)
            yield from rows(list(asked), case)
            forge.enable(gone, True, project=project)


def _aurocs(rows: Sequence[Row], score: Any) -> dict[str, float]:
    there = [score(row) for row in rows if row["case"] == THERE]
    return {
        case: round(_auroc(there, [score(row) for row in rows if row["case"] == case]), 4)
        for case in _cases(rows)
        if case != THERE
    }


def _cases(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row["case"] for row in rows))


def _score(calibration: Calibration, row: Mapping[str, float]) -> float:
    total = calibration.constant + sum(weight * row[name] for name, weight in calibration.weights.items())
    return 1 / (1 + math.exp(-total))


def _auroc(positive: Sequence[float], negative: Sequence[float]) -> float:
    ranked = np.sort(np.array(negative))
    below, upto = np.searchsorted(ranked, positive, "left"), np.searchsorted(ranked, positive, "right")
    return float((below + upto).mean() / 2 / len(ranked))


def _fitted(rows: Sequence[Row], names: Sequence[str]) -> Calibration:
    """Logistic regression by Newton's method. Both kinds of absence together weigh as much as presence."""
    used = [row for row in rows if row["case"] != LOOK_ALIKE]
    values = np.array([[row[name] for name in names] for row in used])
    wanted = np.array([row["case"] == THERE for row in used], float)
    weight = np.where(wanted == 1, 1.0, 0.5)
    mean, spread = values.mean(0), values.std(0) + 1e-9
    design = np.c_[np.ones(len(used)), (values - mean) / spread]
    ridge = np.diag([0.0, *[1e-4 * weight.sum()] * len(names)])
    found = np.zeros(design.shape[1])
    for _ in range(30):
        chance = 1 / (1 + np.exp(-design @ found))
        slope = design.T @ (weight * (wanted - chance)) - ridge @ found
        curve = (design * (weight * chance * (1 - chance))[:, None]).T @ design + ridge
        found += np.linalg.solve(curve, slope)
    weights = found[1:] / spread
    return Calibration(
        {name: round(float(each), 2) for name, each in zip(names, weights, strict=True)},
        round(float(found[0] - (mean * weights).sum()), 2),
    )


# -- the project


def _project(forge: Ragforge, corpus: Path, embedder: str) -> str:
    name = f"squad2-{embedder}"
    if all(project.slug != name for project in forge.projects()):
        forge.create_project(name, embedder=embedder)
        with tempfile.TemporaryDirectory() as folder:
            for line in corpus.open(encoding="utf-8"):
                row = json.loads(line)
                Path(folder, _file(row["_id"])).write_text(row["text"], encoding="utf-8")
            forge.add(folder, project=name)
    return name


def _file(paragraph: str) -> str:
    article, _, number = paragraph.partition("#")
    return f"{article} {int(number or 0):02}.txt"


def _article(row: Row) -> str:
    return str(row["doc_ids"][0]).partition("#")[0]


def _ask(forge: Ragforge, project: str, question: str, off: Mapping[str, int] | None = None) -> Found:
    """The passages with the number of rows that hold each word, less those that are switched off."""
    retrieved = forge.explain(question, project=project, k=PASSAGES)
    assert retrieved.trace is not None
    words, gone = retrieved.trace.words, off or {}
    living = {term: max(0, count - gone.get(term, 0)) for term, count in retrieved.trace.holding.items()}
    return Found(words, rarity(living, retrieved.trace.rows - gone.get("", 0)), retrieved.passages)


def _heard(passage: Passage, place: int) -> Heard:
    text = passage.text
    spans = units(text) if place < SENTENCES_OF else []
    names = " ".join((passage.name, *passage.locator.path))
    above, whole, *sentences = terms_of([names, text, *(text[unit.start : unit.end] for unit in spans)])
    return Heard(passage.scores.get("vectors"), frozenset((*above, *whole)), tuple(map(frozenset, sentences)))


if __name__ == "__main__":
    main()
