"""Files of questions -> `Question` records: JSONL, CSV, or a BEIR folder. All lines are good, or none is taken.

questions.jsonl   {"question", "id"?, "documents"?, "grades"?, "chunks"?, "answers"?, "answerable"?}
                  also: "document", "answer"; and as SQuAD is often passed on, "_id", "doc_ids"
                  a list of documents that is there and empty says that there is no answer
questions.csv     a header with question, and id, documents, chunks, answers, answerable as far as there are any
folder/           queries.jsonl, qrels.tsv or qrels/SPLIT.tsv, and perhaps corpus.jsonl (see `corpus`)
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar

from ragforge.domain.documents import digest
from ragforge.domain.evaluation import Question
from ragforge.errors import NotFound, UserError

_SHOWN = 5
_SEVERAL = ("|", ";", "\n")
_YES, _NO = ("true", "yes", "y", "1"), ("false", "no", "n", "0")
_HIGHEST_GRADE = 1_000_000
_DOCUMENTS = ("documents", "document", "doc_ids")
"""What a list of documents may be called."""
_FORMATS = "use a .jsonl or .csv file, or a BEIR folder with queries.jsonl and qrels.tsv"

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Reading:
    """What a file or folder holds."""

    file: Path
    """Where the questions themselves stand."""
    numbered: tuple[tuple[int, Question], ...]
    """Each question after the number of its line."""
    left_out: int = 0
    """Queries of a BEIR folder that its judgements do not mention: they belong to another split."""
    corpus: Path | None = None

    @property
    def questions(self) -> tuple[Question, ...]:
        return tuple(question for _, question in self.numbered)


def read_questions(path: Path, split: str = "") -> Reading:
    """Every question. Raises `UserError` that names the bad lines; `split` chooses between qrels of a BEIR folder."""
    if path.is_dir():
        return _beir(path, split)
    if not path.is_file():
        raise NotFound(f"there is no {path}", hint="check the spelling and the folder you are in")
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        reading = Reading(path, tuple(_unique(path, _parsed(path, _question_of_line))))
    elif path.suffix.lower() in (".csv", ".tsv"):
        reading = Reading(path, tuple(_merged(path, _csv_rows(path))))
    else:
        raise UserError(f"{path.name} is no file of questions", hint=_FORMATS)
    if not reading.numbered:
        raise UserError(f"{path.name} holds no questions", hint=_FORMATS)
    return reading


# -- lines and what is wrong with them


class BadLine(ValueError):
    """Why a line cannot be taken."""


@dataclass(slots=True)
class Problems:
    """What is wrong with the lines of one file; raised together, so that all can be mended at once."""

    file: Path
    found: list[str] = field(default_factory=list)

    def add(self, line: int, problem: BadLine) -> None:
        self.found.append(f"line {line}: {problem}")

    def check(self, hint: str = "mend these lines and import it again") -> None:
        if self.found:
            lines = "1 bad line" if len(self.found) == 1 else f"{len(self.found):,} bad lines"
            more = "; …" if len(self.found) > _SHOWN else ""
            message = f"{self.file.name} has {lines}, nothing was imported: {'; '.join(self.found[:_SHOWN])}{more}"
            raise UserError(message, hint=hint)


def lines_of(file: Path) -> Iterator[tuple[int, str | BadLine]]:
    """Lines that are not blank, with their numbers; one that is no UTF-8 comes as its problem."""
    try:
        with file.open("rb") as stream:
            for number, line in enumerate(stream, 1):
                try:
                    text = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
                except UnicodeDecodeError:
                    yield number, BadLine("not UTF-8")
                    continue
                if text.strip():
                    yield number, text
    except OSError as problem:
        raise UserError(
            f"cannot read {file}: {problem.strerror}", hint="check the path and its permissions"
        ) from problem


def _parsed(file: Path, parse: Callable[[str], Item]) -> Iterator[tuple[int, Item]]:
    """Each line as `parse` reads it, with its number. Raises at the end if any was bad."""
    problems = Problems(file)
    for number, line in lines_of(file):
        try:
            if isinstance(line, BadLine):
                raise line
            yield number, parse(line)
        except BadLine as problem:
            problems.add(number, problem)
    problems.check()


def json_object(line: str) -> Mapping[str, Any]:
    """A line of JSON that holds an object."""
    try:
        value = json.loads(line, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise BadLine("no JSON") from None
    if not isinstance(value, dict):
        raise BadLine("no JSON object {…}")
    return value


def _refuse_constant(name: str) -> float:
    raise ValueError(name)


def id_of(value: object, what: str) -> str:
    """An id, which may be a whole number."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else text_of(value, what)


def text_of(value: object, what: str) -> str:
    """A name or a sentence, stripped."""
    if value is None:
        raise BadLine(f"{what} is missing")
    if not isinstance(value, str):
        raise BadLine(f"{what} is {_kind(value)}, not a text in quotes")
    text = value.strip()
    if not text:
        raise BadLine(f"{what} is empty")
    if "\x00" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise BadLine(f"{what} holds characters that are no text")
    return text


def _kind(value: object) -> str:
    """What JSON calls a value."""
    kinds = {bool: "true or false", str: "a text", list: "a list", dict: "an object", NoneType: "null"}
    return kinds.get(type(value), "a number")


def _unique(file: Path, questions: Iterable[tuple[int, Question]]) -> list[tuple[int, Question]]:
    """The questions, if no two have the same id."""
    problems, first = Problems(file), dict[str, int]()
    kept = []
    for number, question in questions:
        if first.setdefault(question.id, number) != number:
            problems.add(number, BadLine(f"the same question as line {first[question.id]} ({question.id})"))
        kept.append((number, question))
    problems.check()
    return kept


# -- JSONL


def _question_of_line(line: str) -> Question:
    return _question(json_object(line))


def _question(entry: Mapping[str, Any]) -> Question:
    """A question from its fields, each by one of its names."""
    if "question" not in entry:
        hint = " (a BEIR set is imported by its folder)" if "text" in entry else ""
        raise BadLine(f'no "question"{hint}')
    text = text_of(entry["question"], "the question")
    answerable = entry.get("answerable", not _has_none(entry))
    if not isinstance(answerable, bool):
        raise BadLine('"answerable" is neither true nor false')
    id = _first(entry, "id", "_id")
    question = Question(
        id=digest("question", text)[:12] if id is None else id_of(id, "the id"),
        text=text,
        documents={**dict.fromkeys(_names(entry, *_DOCUMENTS), 1.0), **_grades(entry)},
        chunks=_names(entry, "chunks"),
        answers=_names(entry, "answers", "answer"),
        answerable=answerable,
    )
    if not answerable:
        _require_nothing_wanted(question, is_about="doc_ids" in entry)
    return question


def _has_none(entry: Mapping[str, Any]) -> bool:
    """Whether the author looked, and no document answers: an empty list, and nothing else that could be found."""
    others = ("grades", "chunks", "answers", "answer")
    return [] in (entry.get(name) for name in _DOCUMENTS) and not any(entry.get(name) for name in others)


def _require_nothing_wanted(question: Question, is_about: bool) -> None:
    """`doc_ids` tell what a question was written about, which may look like an answer and be none."""
    relevant = not is_about and any(grade > 0 for grade in question.documents.values())
    for name, given in (("documents", relevant), ("chunks", question.chunks), ("answers", question.answers)):
        if given:
            raise BadLine(f'"answerable" is false, but there are {name}: leave out one of the two')


def _first(entry: Mapping[str, Any], *keys: str) -> Any:
    """What a field holds that has several names."""
    given = [key for key in keys if entry.get(key) is not None]
    if len(given) > 1:
        raise BadLine(f'"{given[0]}" and "{given[1]}" mean the same: leave out one of the two')
    return entry[given[0]] if given else None


def _names(entry: Mapping[str, Any], *keys: str) -> tuple[str, ...]:
    """A list of texts, or a single one; each once."""
    value = _first(entry, *keys)
    if value is None:
        return ()
    if isinstance(value, dict):
        raise BadLine(f'"{keys[0]}" is an object, not a list of texts')
    items = value if isinstance(value, list) else [value]
    return tuple(dict.fromkeys(text_of(item, f'an entry of "{keys[0]}"') for item in items))


def _grades(entry: Mapping[str, Any]) -> dict[str, float]:
    grades = entry.get("grades")
    if grades is None:
        return {}
    if not isinstance(grades, dict):
        raise BadLine(f'"grades" is {_kind(grades)}, not an object such as {{"faq.html": 2}}')
    return {text_of(name, "a graded document"): _grade(name, grade) for name, grade in grades.items()}


def _grade(name: str, value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise BadLine(f"the grade of {name!r} is {_kind(value)}, not a number")
    if not 0 <= value <= _HIGHEST_GRADE:
        raise BadLine(f"the grade of {name!r} is {value!r:.12}, not between 0 (not relevant) and {_HIGHEST_GRADE:,}")
    return float(value)


# -- CSV


def _csv_rows(file: Path) -> Iterator[tuple[int, Question]]:
    problems = Problems(file)
    lines = list(lines_of(file))
    for number, line in lines:
        if isinstance(line, BadLine):
            problems.add(number, line)
    problems.check()
    with file.open(encoding="utf-8-sig", newline="") as stream:
        rows = csv.reader(stream, delimiter=_delimiter(str(lines[0][1]) if lines else ""), strict=True)
        header: list[str] = []
        try:
            for row in rows:
                if not any(cell.strip() for cell in row):
                    continue
                if not header:
                    header = [cell.strip().lower() for cell in row]
                    if "question" not in header:
                        raise UserError(f"{file.name} has no column called question in its first line", hint=_FORMATS)
                    continue
                try:
                    yield rows.line_num, _question_of_row(header, row)
                except BadLine as problem:
                    problems.add(rows.line_num, problem)
        except csv.Error as problem:
            problems.add(rows.line_num, BadLine(str(problem)))
    problems.check()


def _delimiter(header: str) -> str:
    return max(",;\t", key=header.count)


def _question_of_row(header: list[str], row: list[str]) -> Question:
    if len(row) > len(header):
        raise BadLine(f"{len(row)} cells under a header of {len(header)}")
    entry: dict[str, Any] = {name: cell for name, cell in zip(header, row, strict=False) if cell.strip()}
    for name in (*_DOCUMENTS, "chunks", "answers", "answer"):
        if name in entry:
            entry[name] = _several(entry[name])
    if "answerable" in entry:
        word = entry["answerable"].strip().lower()
        entry["answerable"] = True if word in _YES else False if word in _NO else word
    entry.setdefault("question", "")
    return _question(entry)


def _several(cell: str) -> list[str]:
    """The parts of a cell that lists several things."""
    for separator in _SEVERAL:
        cell = cell.replace(separator, "|")
    return [part for part in cell.split("|") if part.strip()]


def _merged(file: Path, rows: Iterable[tuple[int, Question]]) -> list[tuple[int, Question]]:
    """Rows with the same question are one: tables often have a row for each of its documents."""
    problems, merged = Problems(file), dict[str, tuple[int, Question]]()
    for number, question in rows:
        first, known = merged.get(question.id, (number, question))
        for what, same in (
            ("text", known.text == question.text),
            ("answerable", known.answerable == question.answerable),
        ):
            if not same:
                problems.add(number, BadLine(f"the same question as line {first}, but another {what}"))
        merged[question.id] = (
            first,
            replace(
                known,
                documents={**known.documents, **question.documents},
                chunks=tuple(dict.fromkeys((*known.chunks, *question.chunks))),
                answers=tuple(dict.fromkeys((*known.answers, *question.answers))),
            ),
        )
    problems.check()
    return list(merged.values())


# -- BEIR


def _beir(folder: Path, split: str) -> Reading:
    queries = folder / "queries.jsonl"
    if not queries.is_file():
        raise UserError(f"{folder} is no BEIR folder: it has no queries.jsonl", hint=_FORMATS)
    asked = {question.id: (number, question) for number, question in _unique(queries, _parsed(queries, _query))}
    judged: dict[str, dict[str, float]] = {}
    judgements = _qrels_file(folder, split)
    problems = Problems(judgements)
    for number, (query, document, grade) in _parsed(judgements, _judgement):
        if query == _HEADER:
            continue
        if query in asked:
            judged.setdefault(query, {})[document] = grade
        else:
            problems.add(number, BadLine(f"no query {query!r}"))
    problems.check()
    if not judged:
        raise UserError(f"{judgements.name} judges none of the queries", hint=_FORMATS)
    kept = tuple(
        (number, replace(question, documents=judged[id])) for id, (number, question) in asked.items() if id in judged
    )
    corpus = folder / "corpus.jsonl"
    return Reading(queries, kept, len(asked) - len(kept), corpus if corpus.is_file() else None)


def _query(line: str) -> Question:
    entry = json_object(line)
    return Question(id_of(entry.get("_id"), 'the "_id"'), text_of(entry.get("text"), 'the "text"'))


_HEADER = ""
"""Stands for the query of a header line; no query is called so."""


def _judgement(line: str) -> tuple[str, str, float]:
    """Query, document and grade. Three columns as in BEIR, or four as trec_eval reads them."""
    cells = line.split("\t") if "\t" in line else line.split()
    if len(cells) == 4:
        cells = [cells[0], *cells[2:]]
    if len(cells) != 3:
        raise BadLine(f"{len(cells)} columns, not query-id, corpus-id and score")
    if [cell.strip().lower() for cell in cells[::2]] == ["query-id", "score"]:
        return _HEADER, "", 0.0
    query, document, grade = cells
    return text_of(query, "the query-id"), text_of(document, "the corpus-id"), _score(grade)


def _score(cell: str) -> float:
    """Public sets grade below zero what is spam; it is not relevant, as for trec_eval."""
    try:
        score = float(cell)
    except ValueError:
        score = inf
    if not abs(score) <= _HIGHEST_GRADE:
        raise BadLine(f"the score {cell.strip()!r} is no number up to {_HIGHEST_GRADE:,}")
    return max(0.0, score)


def _qrels_file(folder: Path, split: str) -> Path:
    """`qrels.tsv`, or the one of the chosen split; `test` if there are several and none was chosen."""
    if not split and (folder / "qrels.tsv").is_file():
        return folder / "qrels.tsv"
    splits = {file.stem: file for file in sorted((folder / "qrels").glob("*.tsv"))}
    if not splits:
        raise UserError(f"{folder} has no qrels.tsv and no qrels/*.tsv", hint=_FORMATS)
    if not split:
        split = next(iter(splits)) if len(splits) == 1 else "test"
    if split not in splits:
        raise UserError(f"{folder} has no split {split!r}", hint=f"--split takes {', '.join(splits)}")
    return splits[split]
