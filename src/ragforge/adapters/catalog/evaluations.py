"""Question sets and the runs over them. A run keeps ids of what was found; of an answer the text, until a document that
has words in it is removed."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import asdict, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Row

from ragforge.adapters.catalog import tables as t
from ragforge.adapters.catalog.unit import Session, batches, cleared, milliseconds, moment, storable
from ragforge.domain.access import Scope
from ragforge.domain.conversation import FORGOTTEN_ANSWER
from ragforge.domain.evaluation import (
    FEEDBACK,
    AnswerKind,
    AnswerResult,
    CitedPassage,
    FoundPassage,
    Judgement,
    Question,
    QuestionResult,
    QuestionSet,
    Run,
    Wanted,
    set_digest,
)
from ragforge.errors import NotFound


class SqlEvaluations:
    def __init__(self, session: Session) -> None:
        self._session = session

    # -- questions

    def put_questions(self, scope: Scope, project: str, name: str, folder: str, questions: Sequence[Question]) -> bool:
        """Store a set in place of the one of that name. False if it was the same."""
        session, row = self._session, self._session.project(scope, project)
        session.lock(row.ord)
        digest, now = set_digest(questions), session.now()
        known = session.execute(_named(row.ord, name)).one_or_none()
        if known is not None:  # imported without its documents, it keeps the ones it has
            folder = folder or known.folder
        facts = {"digest": digest, "folder": folder, "updated_at": now}
        if known is None:
            (key,) = session.keys(t.question_sets, 1)
            session.insert(
                t.question_sets, [{"ord": key, "project": row.ord, "name": name, "created_at": now, **facts}]
            )
        elif (known.digest, known.folder) == (digest, folder):
            return False
        else:
            key = known.ord
            session.execute(sa.update(t.question_sets).where(t.question_sets.c.ord == key).values(facts))
            session.execute(sa.delete(t.questions).where(t.questions.c.question_set == key))
        session.insert(t.questions, [_question_row(key, place, q) for place, q in enumerate(questions)])
        return True

    def question_sets(self, scope: Scope, project: str) -> list[QuestionSet]:
        row = self._session.project(scope, project)
        statement = self._sets(row.ord).order_by(t.question_sets.c.name)
        return [_question_set(found, project) for found in self._session.execute(statement)]

    def question_set(self, scope: Scope, project: str, name: str) -> QuestionSet:
        row = self._session.project(scope, project)
        found = self._session.execute(self._sets(row.ord).where(t.question_sets.c.name == name)).one_or_none()
        if found is None:
            raise NotFound(f"no set of questions {name!r}", hint="ragforge eval ls shows the sets and their runs")
        return _question_set(found, project)

    def questions(self, scope: Scope, project: str, name: str) -> list[Question]:
        """The questions of a set, in the order of their file."""
        self.question_set(scope, project, name)
        row = self._session.project(scope, project)
        statement = (
            sa.select(t.questions)
            .join(t.question_sets, t.question_sets.c.ord == t.questions.c.question_set)
            .where(t.question_sets.c.project == row.ord, t.question_sets.c.name == name)
            .order_by(t.questions.c.position)
        )
        return [_question(found) for found in self._session.execute(statement)]

    def _sets(self, project: int) -> sa.Select[Any]:
        return (
            sa.select(
                t.question_sets,
                sa.func.count(t.questions.c.position).label("questions"),
                sa.func.sum(sa.case((t.questions.c.judged, 1), else_=0)).label("judged"),
            )
            .outerjoin(t.questions, t.questions.c.question_set == t.question_sets.c.ord)
            .where(t.question_sets.c.project == project)
            .group_by(t.question_sets.c.ord)
        )

    # -- runs

    def add_run(self, scope: Scope, project: str, run: Run, results: Sequence[QuestionResult]) -> None:
        """Store it whole. An answer with words of a document that was removed meanwhile is stored without its text."""
        session, row = self._session, self._session.project(scope, project)
        session.lock(row.ord)
        read = {document for result in results if result.answer for document in result.answer.documents}
        known = session.still_there(row.ord, read)
        kept = [_without(result, read - known) for result in results]
        (key,) = session.keys(t.evaluation_runs, 1)
        session.insert(t.evaluation_runs, [_run_row(key, row.ord, run)])
        session.insert(t.evaluation_results, [_result_row(key, place, r) for place, r in enumerate(kept)])
        session.insert(
            t.evaluation_documents,
            [
                {"run": key, "position": place, "document": document}
                for place, result in enumerate(kept)
                for document in sorted(set(result.answer.documents if result.answer else ()))
            ],
        )

    def runs(self, scope: Scope, project: str) -> list[Run]:
        """All runs, newest first."""
        row = self._session.project(scope, project)
        statement = sa.select(t.evaluation_runs).where(t.evaluation_runs.c.project == row.ord)
        found = self._session.execute(statement.order_by(t.evaluation_runs.c.ord.desc()))
        return [_run(each, project) for each in found]

    def results(self, scope: Scope, project: str, run: str) -> list[QuestionResult]:
        """What became of each question, in the set's order, with the names the documents have now.

        What is not known to be open to the scope is blank: documents above it, names that no document has any more, and
        the question and the answer that may tell of them.
        """
        row = self._session.project(scope, project)
        statement = (
            sa.select(t.evaluation_results, t.evaluation_runs.c.questions)
            .join(t.evaluation_runs, t.evaluation_runs.c.ord == t.evaluation_results.c.run)
            .where(t.evaluation_runs.c.project == row.ord, t.evaluation_runs.c.id == run)
            .order_by(t.evaluation_results.c.position)
        )
        read, rows = self._read(row.ord, run), self._session.execute(statement).all()
        results = [_result(each, read[each.position]) for each in rows]
        found = {passage.document for result in results for passage in _passages(result)}
        wanted = {item.found_as for result in results for item in result.wanted if item.found_as is not None}
        names = self._names(scope, row.ord, found.union(wanted, *read.values()))
        results = [_named_now(result, names) for result in results]
        if scope.sees_all:
            return results
        known = names.keys() | self._chunks(scope, row.ord, wanted - names.keys())
        marked = any(each.questions == FEEDBACK for each in rows)
        return [_seen(result, known, marked) for result in results]

    def _read(self, project: int, run: str) -> dict[int, list[str]]:
        """The documents that have words in an answer, by the question's position."""
        statement = (
            sa.select(t.evaluation_documents.c.position, t.evaluation_documents.c.document)
            .join(t.evaluation_runs, t.evaluation_runs.c.ord == t.evaluation_documents.c.run)
            .where(t.evaluation_runs.c.project == project, t.evaluation_runs.c.id == run)
            .order_by(t.evaluation_documents.c.position, t.evaluation_documents.c.document)
        )
        documents: dict[int, list[str]] = defaultdict(list)
        for row in self._session.execute(statement):
            documents[row.position].append(row.document)
        return documents

    def _names(self, scope: Scope, project: int, documents: set[str]) -> dict[str, str]:
        """Names of those that are still there and that the scope may know of."""
        names: dict[str, str] = {}
        for batch in batches(sorted(documents)):
            statement = sa.select(t.documents.c.id, t.documents.c.name).where(
                t.documents.c.project == project, t.documents.c.id.in_(batch), cleared(scope)
            )
            names |= {row.id: row.name for row in self._session.execute(statement)}
        return names

    def _chunks(self, scope: Scope, project: int, ids: set[str]) -> set[str]:
        """Those that are chunks of documents the scope may know of."""
        chunks: set[str] = set()
        for batch in batches(sorted(ids)):
            statement = (
                sa.select(t.chunks.c.id)
                .join(t.versions, t.versions.c.ord == t.chunks.c.version)
                .join(t.documents, t.documents.c.ord == t.versions.c.document)
                .where(t.chunks.c.project == project, t.chunks.c.id.in_(batch), cleared(scope))
            )
            chunks |= set(self._session.execute(statement).scalars())
        return chunks


def forget_in_evaluations(session: Session, project: int, documents: Sequence[str]) -> int:
    """Of answers with words of the documents, keep the figures only. Returns how many there were."""
    forgotten = 0
    read, results = t.evaluation_documents.c, t.evaluation_results.c
    for some in batches(documents):
        answers = (
            sa.select(results.run, results.position, results.answer)
            .join(t.evaluation_runs, t.evaluation_runs.c.ord == results.run)
            .where(t.evaluation_runs.c.project == project)
            .where(
                sa.exists().where(read.run == results.run, read.position == results.position, read.document.in_(some))
            )
        )
        for row in session.execute(answers).all():
            kept = _answer_text(_forgotten(_answer(row.answer, ())))
            at = (results.run == row.run, results.position == row.position)
            session.execute(sa.update(t.evaluation_results).where(*at).values(answer=kept))
            its = (read.run == row.run, read.position == row.position)
            session.execute(sa.delete(t.evaluation_documents).where(*its))
            forgotten += 1
    return forgotten


def as_typed(session: Session, logged: sa.ColumnElement[bool]) -> None:
    """Questions of these log entries, where they are in a set, in the words that were typed: of those by which they
    were searched, some are of a conversation."""
    log, asked, results = t.query_log.c, t.questions.c, t.evaluation_results.c
    rewritten = sa.select(log.project, log.id, log.question).where(logged, log.standalone != "", log.feedback != "")
    for row in session.execute(rewritten).all():
        sets = sa.select(t.question_sets.c.ord).where(t.question_sets.c.project == row.project)
        held = (asked.id == row.id, asked.question_set.in_(sets))
        changed = list(session.execute(sa.select(asked.question_set).where(*held)).scalars())
        session.execute(sa.update(t.questions).where(*held).values(text=row.question))
        for key in changed:
            told = sa.select(t.questions).where(asked.question_set == key).order_by(asked.position)
            digest = set_digest([_question(each) for each in session.execute(told)])
            session.execute(sa.update(t.question_sets).where(t.question_sets.c.ord == key).values(digest=digest))
        runs = sa.select(t.evaluation_runs.c.ord).where(t.evaluation_runs.c.project == row.project)
        answers = sa.select(results.run, results.position, results.answer).where(
            results.question == row.id, results.run.in_(runs)
        )
        for each in session.execute(answers).all():
            answer = None if each.answer is None else _answer_text(_forgotten(_answer(each.answer, ())))
            at = (results.run == each.run, results.position == each.position)
            session.execute(sa.update(t.evaluation_results).where(*at).values(text=row.question, answer=answer))


def _without(result: QuestionResult, gone: Collection[str]) -> QuestionResult:
    """The result; without its answer's text if that has words of one of these documents."""
    answer = result.answer
    if answer is None or not any(document in gone for document in answer.documents):
        return result
    return replace(result, answer=_forgotten(answer))


def _forgotten(answer: AnswerResult) -> AnswerResult:
    judgement = None if answer.judgement is None else replace(answer.judgement, reasons={})
    return replace(answer, text=FORGOTTEN_ANSWER, documents=(), judgement=judgement)


def _named(project: int, name: str) -> sa.Select[Any]:
    return sa.select(t.question_sets).where(t.question_sets.c.project == project, t.question_sets.c.name == name)


def _question_row(key: int, position: int, question: Question) -> dict[str, Any]:
    return {
        "question_set": key,
        "position": position,
        "id": question.id,
        "text": question.text,
        "documents": json.dumps(dict(question.documents), ensure_ascii=False),
        "chunks": json.dumps(question.chunks),
        "answers": json.dumps(question.answers, ensure_ascii=False),
        "answerable": question.answerable,
        "judged": bool(question.wanted),
    }


def _question(row: Row[Any]) -> Question:
    return Question(
        id=row.id,
        text=row.text,
        documents=json.loads(row.documents),
        chunks=tuple(json.loads(row.chunks)),
        answers=tuple(json.loads(row.answers)),
        answerable=row.answerable,
    )


def _question_set(row: Row[Any], project: str) -> QuestionSet:
    return QuestionSet(
        name=row.name,
        project=project,
        digest=row.digest,
        questions=row.questions,
        judged=int(row.judged or 0),
        folder=row.folder,
        created_at=moment(row.created_at),
        updated_at=moment(row.updated_at),
    )


def _run_row(key: int, project: int, run: Run) -> dict[str, Any]:
    return {
        "ord": key,
        "id": run.id,
        "project": project,
        "questions": run.questions,
        "digest": run.digest,
        "label": run.label,
        "settings": json.dumps(dict(run.settings), ensure_ascii=False),
        "settings_hash": run.settings_hash,
        "started_at": milliseconds(run.started_at),
        "ended_at": milliseconds(run.ended_at),
        "asked": run.asked,
        "scored": run.scored,
        "missing": run.missing,
        "degraded": run.degraded,
        "milliseconds": run.milliseconds,
        "metrics": json.dumps(dict(run.metrics)),
        "answers": json.dumps(dict(run.answers)) if run.answers else None,
    }


def _run(row: Row[Any], project: str) -> Run:
    return Run(
        id=row.id,
        project=project,
        questions=row.questions,
        digest=row.digest,
        label=row.label,
        settings=json.loads(row.settings),
        settings_hash=row.settings_hash,
        started_at=moment(row.started_at),
        ended_at=moment(row.ended_at),
        asked=row.asked,
        scored=row.scored,
        missing=row.missing,
        degraded=row.degraded,
        milliseconds=row.milliseconds,
        metrics=json.loads(row.metrics),
        answers=json.loads(row.answers or "{}"),
    )


def _result_row(key: int, position: int, result: QuestionResult) -> dict[str, Any]:
    return {
        "run": key,
        "position": position,
        "question": result.question,
        "text": result.text,
        "wanted": json.dumps([[w.name, w.grade, w.found_as] for w in result.wanted], ensure_ascii=False),
        "found": json.dumps([[p.chunk, p.document, p.score] for p in result.found]),
        "metrics": json.dumps(dict(result.metrics)),
        "milliseconds": result.milliseconds,
        "degraded": json.dumps(result.degraded),
        "answer": None if result.answer is None else _answer_text(result.answer),
    }


def _answer_text(answer: AnswerResult) -> str:
    """As JSON. The documents have a table of their own, and names are looked up when it is read."""
    facts = {name: value for name, value in asdict(answer).items() if name != "documents"}
    facts["cited"] = [[passage.chunk, passage.document, passage.proved] for passage in answer.cited]
    return storable(json.dumps(facts, ensure_ascii=False))


def _answer(stored: str, documents: Sequence[str]) -> AnswerResult:
    facts = json.loads(stored)
    judgement = facts["judgement"]
    return AnswerResult(
        **facts
        | {
            "kind": AnswerKind(facts["kind"]),
            "expected": tuple(facts["expected"]),
            "cited": tuple(CitedPassage(*passage) for passage in facts["cited"]),
            "documents": tuple(documents),
            "degraded": tuple(facts["degraded"]),
            "judgement": None if judgement is None else Judgement(**judgement),
        }
    )


def _result(row: Row[Any], read: Sequence[str]) -> QuestionResult:
    return QuestionResult(
        question=row.question,
        text=row.text,
        wanted=tuple(Wanted(*wanted) for wanted in json.loads(row.wanted)),
        found=tuple(FoundPassage(*passage) for passage in json.loads(row.found)),
        metrics=json.loads(row.metrics),
        milliseconds=row.milliseconds,
        degraded=tuple(json.loads(row.degraded)),
        answer=None if row.answer is None else _answer(row.answer, read),
    )


def _passages(result: QuestionResult) -> Sequence[FoundPassage | CitedPassage]:
    return (*result.found, *(result.answer.cited if result.answer else ()))


def _named_now(result: QuestionResult, names: Mapping[str, str]) -> QuestionResult:
    answer = result.answer
    if answer is not None:
        cited = tuple(replace(passage, name=names.get(passage.document, "")) for passage in answer.cited)
        answer = replace(answer, cited=cited)
    found = tuple(replace(passage, name=names.get(passage.document, "")) for passage in result.found)
    return replace(result, found=found, wanted=_called_now(result.wanted, names), answer=answer)


def _called_now(wanted: Sequence[Wanted], names: Mapping[str, str]) -> tuple[Wanted, ...]:
    """What was asked for by its id, which tells a reader nothing, by its name."""
    return tuple(
        replace(item, name=names[item.name]) if item.name == item.found_as and item.name in names else item
        for item in wanted
    )


def _seen(result: QuestionResult, known: Set[str], marked: bool) -> QuestionResult:
    """Only what is known to be open: a blank in the place of all else.

    A question that was `marked` and wants no document may be about anything.
    """
    is_open = {item.found_as for item in result.wanted} <= known and not (marked and not result.wanted)
    return replace(
        result,
        text=result.text if is_open else "",
        wanted=tuple(item if item.found_as in known else Wanted("", item.grade, None) for item in result.wanted),
        found=tuple(each if each.document in known else FoundPassage("", "", 0.0) for each in result.found),
        answer=None if result.answer is None else _seen_answer(result.answer, known, is_open),
    )


def _seen_answer(answer: AnswerResult, known: Set[str], is_open: bool) -> AnswerResult:
    """Its figures; words, also those that were expected, only if all documents they can come from are open."""
    cited = tuple(each if each.document in known else CitedPassage("", "", each.proved) for each in answer.cited)
    if is_open and known >= set(answer.documents):
        return replace(answer, cited=cited)
    return replace(_forgotten(answer), text="", unjudged="", expected=(), cited=cited)
