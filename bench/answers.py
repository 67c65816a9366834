"""Offline answers measured, ours alone: `make bench-answers`, or `python -m bench.answers quotes abstention`.

    quotes      `ask` on SQuAD 2: the right paragraph among the first three sources; the answer inside what is quoted
    abstention  AUROC with the article, and with the paragraph, switched off; calibrated on half of the articles,
                measured on the other, both ways; and what comes of one threshold
    elsewhere   the same threshold on other documents: their own questions, and those of SQuAD 2
    speed       CPU ms of one `ask` on ten thousand chunks
    fit         the weights for `answer/abstain.py`, from all questions; printed, not kept

Figures are kept in docs/benchmarks.json, where a part that is measured again replaces only itself; the tables in
docs/benchmarks.md are written from that file.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from bench import data, page
from bench.retrieval import PAGE, keep, kept
from bench.search_peers import common
from ragforge import Ragforge
from ragforge.adapters.embedders.wordllama import WordLlama
from ragforge.answer.abstain import PASSAGES, SENTENCES_OF, Calibration, calibration_of, features
from ragforge.answer.quote import quote
from ragforge.answer.weigh import named, rarity
from ragforge.domain.answers import Answer
from ragforge.domain.cancel import Cancel
from ragforge.domain.prompts import Source
from ragforge.domain.retrieval import Passage
from ragforge.flows.grounds import evidence_in, heard, traced
from ragforge.retrieve.words import terms_of

PARTS = ("quotes", "abstention", "elsewhere", "speed")
EMBEDDERS = ("minilm", "wordllama")
THERE, NO_ARTICLE, NO_PARAGRAPH, LOOK_ALIKE = "there", "article absent", "paragraph absent", "look-alike"
FOLLOW_UPS = Path(__file__).with_name("follow_ups.jsonl")

_WARM_UP, _TIMED = 100, 300
_EVERY = 5
"""Of the documentation of Kubernetes, so many files are left out for one that is in the project of ten thousand."""

Row = dict[str, Any]
Figures = dict[str, Any]
Score = Callable[[Mapping[str, float]], float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=list(PARTS), help=f"some of {', '.join(PARTS)}, fit")
    parser.add_argument("--data", type=Path, default=data.DEFAULT_DATA, help="the folder of the shared data")
    parser.add_argument("--embedder", choices=EMBEDDERS, nargs="*", default=list(EMBEDDERS))
    parser.add_argument("--page", action="store_true", help="measure nothing, only write the page")
    chosen = parser.parse_args()
    if unknown := set(chosen.parts) - {*PARTS, "fit"}:
        raise SystemExit(f"no part {', '.join(sorted(unknown))}: there are {', '.join(PARTS)} and fit")
    if not chosen.page:
        with Ragforge.open(data.CACHE / "answers") as forge:
            for place, figures in measure(forge, chosen.parts, chosen.data, chosen.embedder):
                print(f"{'/'.join(place)}: {json.dumps(figures)}", flush=True)
                keep(("answers", *place), figures)
    page.write(PAGE, tables(kept().get("answers", {})), "bench/answers.py")


def measure(
    forge: Ragforge, parts: Sequence[str], shared: Path, embedders: Sequence[str]
) -> Iterator[tuple[tuple[str, ...], Figures]]:
    """Each figure with its place among the results, as soon as it is there."""
    questions = _rows(shared / "squad2" / "questions.jsonl")
    sample = {row["_id"] for row in _rows(shared / "squad2" / "questions_sample.jsonl")}
    for embedder in embedders:
        if {"quotes", "abstention", "fit"} & set(parts):
            project = _squad(forge, shared, embedder)
        if "quotes" in parts:
            asked = [row for row in questions if row["answerable"] and row["_id"] in sample]
            yield ("quotes", embedder), quotes(forge, project, asked)
        if {"abstention", "fit"} & set(parts):
            measured = list(_measured(forge, project, questions, sample))
            names = list(calibration_of(embedder).weights)
            if "abstention" in parts:
                yield ("abstention", embedder), abstention(measured, names, calibration_of(embedder).threshold)
            if "fit" in parts:
                words = [name for name in names if name not in ("cosine", "lead")]
                print(f"{embedder}: {_fitted(measured, names)}; words alone: {_fitted(measured, words)}")
        if "elsewhere" in parts:
            strange = [row["question"] for row in questions if row["_id"] in sample and row["answerable"]]
            yield ("elsewhere", embedder), elsewhere(forge, shared, embedder, strange)
    if "speed" in parts:
        yield ("speed",), speed(forge, shared, [row["question"] for row in questions])


# -- quotes


def quotes(forge: Ragforge, project: str, questions: Sequence[Row]) -> Figures:
    """What a person gets, by the shares of the questions."""
    results = []
    for row in questions:
        result = forge.ask(row["question"], project=project, model="offline", ephemeral=True)
        sources = list(dict.fromkeys(source.name for source in result.account.sources))
        text = result.text if isinstance(result, Answer) else ""
        results.append(
            {
                "right source in 3": _file(row["doc_ids"][0]) in sources[:3],
                "answer quoted": any(answer in text for answer in row["answers"]),
                "abstained": not text,
                "sentences": len(result.citations) if isinstance(result, Answer) else 0,
                "words": len(text.split()) - text.count(" ["),
            }
        )
    mean = {name: round(float(np.mean([each[name] for each in results])), 3) for name in results[0]}
    most = {f"most {name}": max(each[name] for each in results) for name in ("sentences", "words")}
    return {"questions": len(results), **mean, **most}


# -- abstention


def abstention(measured: Sequence[Row], names: Sequence[str], threshold: float) -> Figures:
    articles = sorted({row["article"] for row in measured})
    half = len(articles) // 2
    halves = {"first": articles[:half], "last": articles[half:], "even": articles[::2], "odd": articles[1::2]}
    fitted = {
        name: partial(_score, _fitted([row for row in measured if row["article"] in chosen], names))
        for name, chosen in halves.items()
    }
    figures: Figures = {"halves": {}, "threshold": threshold}
    for name, chosen in halves.items():
        rest = [row for row in measured if row["article"] not in chosen]
        figures["halves"][name] = {
            "sample": _aurocs([row for row in rest if row["sample"]], fitted[name]),
            "all": _aurocs(rest, fitted[name]),
        }

    def unseen(row: Mapping[str, Any]) -> float:
        return fitted["even" if row["article"] in halves["odd"] else "odd"](row)

    for kind, rows in (("sample", [row for row in measured if row["sample"]]), ("all", measured)):
        figures[f"at the threshold, {kind}"] = {
            case: _answered([row for row in rows if row["case"] == case], unseen, threshold) for case in _cases(rows)
        }
    return figures


def _answered(rows: Sequence[Row], score: Score, threshold: float) -> Figures:
    answered = [row for row in rows if score(row) >= threshold]
    right = sum(row["right"] for row in answered) / len(rows)
    return {"questions": len(rows), "answered": round(len(answered) / len(rows), 4), "right": round(right, 4)}


def _measured(forge: Ragforge, project: str, questions: Sequence[Row], sample: set[str]) -> Iterator[Row]:
    """Each question's features: with everything there; and, if it has an answer, with its place switched off."""

    def rows(asked: Sequence[Row], case: str) -> Iterator[Row]:
        for row in asked:
            found = {"case": case, "article": _article(row), "sample": row["_id"] in sample}
            yield found | _found(forge, project, row, off)

    off: Counter[str] = Counter()
    answerable = sorted((row for row in questions if row["answerable"]), key=lambda row: row["doc_ids"][0])
    yield from rows(answerable, THERE)
    yield from rows([row for row in questions if not row["answerable"]], LOOK_ALIKE)
    files = {document.name: document.id for document in forge.documents(project=project)}
    names = {id: name for name, id in files.items()}
    for case, place in ((NO_ARTICLE, _article), (NO_PARAGRAPH, lambda row: row["doc_ids"][0])):
        for where, asked in groupby(answerable, place):
            gone = [id for name, id in files.items() if name == _file(where) or name.startswith(f"{where} ")]
            chunks = [chunk for id in gone for chunk in forge.chunks(id, project=project)]
            off = Counter(
                term for chunk in chunks for term in {*terms_of([names[chunk.document]])[0], *terms_of([chunk.text])[0]}
            )
            off[""] = len(chunks)
            forge.enable(gone, False, project=project)
            try:
                yield from rows(list(asked), case)
            finally:
                forge.enable(gone, True, project=project)


def _found(forge: Ragforge, project: str, row: Row, gone: Mapping[str, int]) -> Figures:
    """What a question brings: the features of its evidence, and whether the answer would be quoted.

    A file that is switched off stays in the index, and its words would still count as known; `gone` takes them out.
    """
    question = row["question"]
    retrieved = forge.explain(question, project=project, k=PASSAGES)
    trace = traced(retrieved)
    living = {term: max(0, count - gone.get(term, 0)) for term, count in trace.holding.items()}
    rare, groups = rarity(living, trace.rows - gone.get("", 0)), trace.words.groups
    best = [heard(each, whole=place < SENTENCES_OF) for place, each in enumerate(retrieved.passages)]
    quoted = quote(question, groups, rare, [_source(*each) for each in enumerate(retrieved.passages, 1)], terms_of)
    text = " ".join(each.text for each in quoted)
    right = any(answer in text for answer in row["answers"])
    return {"right": right} | features(groups, rare, best, named(question, groups, terms_of))


def _source(number: int, passage: Passage) -> Source:
    return Source(
        number, passage.chunk, (passage.chunk,), passage.document, passage.name, passage.locator, passage.checksum,
        passage.score, passage.text, passage.tokens,
    )  # fmt: skip


def _aurocs(rows: Sequence[Row], score: Score) -> dict[str, float]:
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


# -- elsewhere


def elsewhere(forge: Ragforge, shared: Path, embedder: str, strange: Sequence[str]) -> Figures:
    """How many questions are answered from documents that nothing was fitted on."""
    project = _project(forge, f"fastapi-{embedder}", embedder, [shared / "fastapi_docs" / "docs"])
    first = [row["before"][0] for row in _rows(FOLLOW_UPS)]
    own = dict.fromkeys(each if isinstance(each, str) else each[0] for each in first)

    def answered(questions: Iterable[str]) -> Figures:
        found = [evidence_in(forge.explain(each, project=project, k=PASSAGES), embedder).enough for each in questions]
        return {"questions": len(found), "answered": round(float(np.mean(found)), 4)}

    return {"own": answered(own), "strange": answered(strange)}


# -- speed


def speed(forge: Ragforge, shared: Path, questions: Sequence[str]) -> Figures:
    """CPU ms of whole asks, each another question, after some that warm up."""
    project = _ten_thousand(forge, shared)
    asked = [*questions[::20], *(row["text"] for row in _rows(shared / "k8s_docs" / "queries.jsonl"))]
    random.Random(7).shuffle(asked)
    for question in asked[:_WARM_UP]:
        forge.ask(question, project=project, model="offline")
    timed = asked[_WARM_UP : _WARM_UP + _TIMED]
    before = common.reference()
    asks = [_timed(partial(forge.ask, each, project=project, model="offline")) for each in timed]
    after = common.reference()
    results, spent = [result for result, _ in asks], [took for _, took in asks]
    embed = WordLlama().embed_query
    embed(timed[0], Cancel())  # it reads its files
    embedding = [_timed(partial(embed, each, Cancel()))[1] for each in timed]
    stages = {stage for result in results for stage in result.account.timings}
    return {
        "chunks": sum(document.chunks for document in forge.documents(project=project)),
        "questions": len(timed),
        "cpu_ms": round(float(np.mean(spent) - np.mean(embedding)), 1),
        "median_ms": round(float(np.median(spent) - np.median(embedding)), 1),
        "p95_ms": round(float(np.percentile(spent, 95)), 1),
        "answered": round(float(np.mean([isinstance(result, Answer) for result in results])), 3),
        "stages_ms": {
            stage: round(float(np.mean([result.account.timings.get(stage, 0.0) for result in results])), 1)
            for stage in sorted(stages)
        },
        "reference": [before, after],
    }


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    began = time.process_time()
    return work(), (time.process_time() - began) * 1e3


def _ten_thousand(forge: Ragforge, shared: Path) -> str:
    """A project of about so many chunks: abstracts, paragraphs of an encyclopedia, and pages of documentation."""
    with tempfile.TemporaryDirectory() as folder:
        for corpus, step in (("scifact_train", 1), ("squad2", 1), ("k8s_docs", _EVERY)):
            for number, row in enumerate(_rows(shared / corpus / "corpus.jsonl")[::step]):
                ending = "md" if corpus == "k8s_docs" else "txt"
                file = Path(folder, f"{corpus}-{number:04}.{ending}")
                file.write_text(f"{row['title']}\n\n{row['text']}".strip(), encoding="utf-8")
        return _project(forge, "ten-thousand", "wordllama", [Path(folder)])


# -- the projects


def _squad(forge: Ragforge, shared: Path, embedder: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        for row in _rows(shared / "squad2" / "corpus.jsonl"):
            Path(folder, _file(row["_id"])).write_text(row["text"], encoding="utf-8")
        return _project(forge, f"squad2-{embedder}", embedder, [Path(folder)])


def _project(forge: Ragforge, name: str, embedder: str, paths: Sequence[Path]) -> str:
    """A project with these files, made once."""
    if all(project.slug != name for project in forge.projects()):
        forge.create_project(name, embedder=embedder)
        forge.add(paths, project=name)
    if off := [document.id for document in forge.documents(project=name) if not document.enabled]:
        forge.enable(off, True, project=name)  # by a run that was killed
    return name


def _file(paragraph: str) -> str:
    article, _, number = paragraph.partition("#")
    return f"{article} {int(number or 0):02}.txt"


def _article(row: Row) -> str:
    return str(row["doc_ids"][0]).partition("#")[0]


def _rows(file: Path) -> list[Row]:
    with file.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


# -- the page


def tables(results: Mapping[str, Any]) -> str:
    parts = (_quoted(results), _ranked(results), _at_the_threshold(results), _elsewhere(results), _asked(results))
    return "\n\n".join(part for part in parts if part)


def _quoted(results: Mapping[str, Any]) -> str:
    measured = results.get("quotes", {})
    if not measured:
        return ""
    shares = ("right source in 3", "answer quoted", "abstained")
    rows = [["vectors", "questions", *shares, "sentences: mean / most", "words: mean / most"]]
    for embedder in _in_order(measured):
        each = measured[embedder]
        lengths = [f"{each[name]:.2g} / {each[f'most {name}']}" for name in ("sentences", "words")]
        rows.append([embedder, str(each["questions"]), *(_percent(each[share]) for share in shares), *lengths])
    return "### Quotes, sample\n\n" + page.table(rows)


def _ranked(results: Mapping[str, Any]) -> str:
    measured = results.get("abstention", {})
    if not measured:
        return ""
    cases = (NO_ARTICLE, NO_PARAGRAPH)
    rows = [["vectors", "calibrated on", *(f"{kind}: {case}" for kind in ("sample", "all") for case in cases)]]
    for embedder in _in_order(measured):
        for half, each in measured[embedder]["halves"].items():
            found = [f"{each[kind][case]:.4f}" for kind in ("sample", "all") for case in cases]
            rows.append([embedder, f"{half} articles", *found])
    return "### Abstention: AUROC on the other half of the articles\n\n" + page.table(rows)


def _at_the_threshold(results: Mapping[str, Any]) -> str:
    measured = results.get("abstention", {})
    if not measured:
        return ""
    answered = (
        "answered: article absent",
        "answered: paragraph absent",
        "of which still right",
        "answered: look-alikes",
    )
    rows = [["vectors", "threshold", "questions", "false abstentions", *answered]]
    for embedder in _in_order(measured):
        for kind in ("sample", "all"):
            each = measured[embedder][f"at the threshold, {kind}"]
            gone = each[NO_PARAGRAPH]
            rows.append(
                [
                    embedder,
                    str(measured[embedder]["threshold"]),
                    f"{each[THERE]['questions']:,}",
                    _percent(1 - each[THERE]["answered"]),
                    _percent(each[NO_ARTICLE]["answered"]),
                    _percent(gone["answered"]),
                    _percent(gone["right"]),
                    _percent(each[LOOK_ALIKE]["answered"]),
                ]
            )
    return "### Abstention at the threshold, in per cent of the questions\n\n" + page.table(rows)


def _elsewhere(results: Mapping[str, Any]) -> str:
    measured = results.get("elsewhere", {})
    if not measured:
        return ""
    rows = [["vectors", "its own questions", "answered", "questions of SQuAD", "answered"]]
    for embedder in _in_order(measured):
        parts = (measured[embedder][kind] for kind in ("own", "strange"))
        rows.append(
            [embedder, *(cell for each in parts for cell in (str(each["questions"]), _percent(each["answered"])))]
        )
    return "### Other documents, same threshold\n\n" + page.table(rows)


def _asked(results: Mapping[str, Any]) -> str:
    each = results.get("speed")
    if not each:
        return ""
    reference = [sum(one[name] for one in each["reference"]) / 2 for name in ("python_ms", "numpy_ms")]
    rows = [
        ["chunks", "questions", "CPU ms beyond the query's vector: mean", "median", "95 of 100 below", "reference ms"],
        [
            f"{each['chunks']:,}",
            str(each["questions"]),
            *(f"{each[name]:.1f}" for name in ("cpu_ms", "median_ms", "p95_ms")),
            " / ".join(f"{ms:.3g}" for ms in reference),
        ],
    ]
    return "### One `ask`\n\n" + page.table(rows)


def _in_order(measured: Mapping[str, Any]) -> list[str]:
    return [embedder for embedder in EMBEDDERS if embedder in measured]


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


if __name__ == "__main__":
    main()
