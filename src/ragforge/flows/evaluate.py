"""Evaluation, whole: questions come in, are searched one by one, measured, kept, and compared. Read this first.

import   read all -> check names -> (corpus: write files, add them) -> store the set
run      set -> find the wanted documents -> search (and answer, and judge) each question -> measure
         -> store the run in one step
compare  two stored runs -> differences, significance, questions that changed
"""

from __future__ import annotations

import re
import secrets
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragforge.domain.access import Scope
from ragforge.domain.answers import Answer, Result
from ragforge.domain.cancel import Cancel
from ragforge.domain.documents import digest
from ragforge.domain.evaluation import (
    FEEDBACK,
    LAST,
    AnswerResult,
    Comparison,
    FoundPassage,
    ImportReport,
    Question,
    QuestionResult,
    Run,
    RunDetails,
    Wanted,
    settings_digest,
)
from ragforge.domain.library import FileResult, Outcome, Progress, Project
from ragforge.domain.retrieval import Retrieved
from ragforge.errors import NotFound, ProviderError, TooLarge, UserError
from ragforge.evaluate.answers import failed, judged, overall, recorded
from ragforge.evaluate.compare import compare
from ragforge.evaluate.corpus import ELSEWHERE, UNCLEAR, Names, check_corpus, file_name, write_corpus
from ragforge.evaluate.judge import Judge, given
from ragforge.evaluate.metrics import means, measured, quantile, ranked_once
from ragforge.evaluate.questions import BadLine, Problems, Reading, read_questions
from ragforge.ports import Catalog, Clock

if TYPE_CHECKING:
    from ragforge.assemble.assemble import Templates
    from ragforge.domain.records import ProjectText
    from ragforge.flows.ask import Asking, Models

_LEAST_OF_ID = 4
_LONGEST_NAME = 100
_SHOWN = 120


@dataclass(frozen=True, slots=True)
class ImportRequest:
    """A file or folder of questions, and what to do with the documents beside it."""

    path: Path
    name: str = ""
    """The set's name; empty: that of the file or folder."""
    split: str = ""
    """Which judgements of a BEIR folder that has several."""
    corpus: Path | None = None
    """Documents that belong to the questions; None: the folder's own `corpus.jsonl`."""
    with_corpus: bool = True
    documents: Path | None = None
    """Where the documents' files are written; None: where they were before, else `NAME-documents` here."""


@dataclass(frozen=True, slots=True)
class ImportQuestions:
    """Questions, and perhaps their documents, into a project."""

    catalog: Catalog
    project: Callable[[], Project]
    """The project, made if there is none yet: asked for when all is read and good."""
    workspace: Path
    add: Callable[[Project, Sequence[Path]], Iterator[FileResult | Progress]]

    def __call__(self, scope: Scope, request: ImportRequest) -> Iterator[FileResult | Progress | ImportReport]:
        """Everything is read before anything is written; the report comes last."""
        path = request.path.expanduser()
        reading = read_questions(path, request.split)
        name = _set_name(request.name or path.resolve().stem)
        corpus = request.corpus or reading.corpus if request.with_corpus else None
        coming = check_corpus(corpus) if corpus is not None else frozenset()
        project = self.project()
        with self.catalog.read() as c:
            sets = c.evaluations.question_sets(scope, project.id)
            before = next((known.folder for known in sets if known.name == name), "")
            names = Names(c.documents.all(scope, project.id), before)
        _require_clear(reading, names, coming)
        folder, empty = "", 0
        outcomes: Counter[Outcome] = Counter()
        if corpus is not None:
            target = self._target(request.documents or Path(before or f"{name}-documents"))
            yield Progress("writing", 0, None)
            written = write_corpus(corpus, target)
            folder, empty = str(target), written.empty
            for event in self.add(project, written.files):
                if isinstance(event, FileResult):
                    outcomes[event.outcome] += 1
                yield event
        with self.catalog.write() as c:
            changed = c.evaluations.put_questions(scope, project.id, name, folder, reading.questions)
            questions = c.evaluations.question_set(scope, project.id, name)
        changed = changed or any(outcomes[outcome] for outcome in outcomes if outcome is not Outcome.UNCHANGED)
        yield ImportReport(questions, changed, reading.left_out, dict(outcomes), empty)

    def _target(self, folder: Path) -> Path:
        """The folder for a corpus's files: never inside the workspace, from which nothing is added."""
        target = folder.expanduser().resolve()
        if target.is_relative_to(self.workspace.resolve()):
            raise UserError(f"the documents would be written into the workspace, to {target}", hint=ELSEWHERE)
        return target


def _require_clear(reading: Reading, names: Names, coming: frozenset[str]) -> None:
    """Every wanted name means one file at most; a file of that name that comes with the questions is meant first."""
    problems = Problems(reading.file)
    for line, question in reading.numbered:
        for name in _documents_of(question):
            if file_name(name) not in coming and (unclear := names.unclear(name)):
                problems.add(line, BadLine(f"{name!r} {unclear}"))
    problems.check(hint=UNCLEAR)


def _documents_of(question: Question) -> Iterable[str]:
    """What a question calls the documents it wants. A chunk is named by its id and nothing else."""
    return () if question.chunks else question.wanted


def _set_name(name: str) -> str:
    if not re.fullmatch(rf"[^\W_][\w .+-]{{0,{_LONGEST_NAME - 1}}}", name.strip()):
        hint = f"--name takes up to {_LONGEST_NAME} letters, digits, spaces, dots and dashes"
        raise UserError(f"{name!r} cannot name a set of questions", hint=hint)
    return name.strip()


def answering(
    asking: Asking, models: Models, templates: Templates, texts: Iterable[ProjectText], judge: Judge | None
) -> dict[str, object]:
    """Everything an answer depends on beside the ranking, for the record of a run."""
    return {
        "model": models.main.card.name if models.main else "offline",
        "cheap_model": models.cheap.card.name if models.cheap else "",
        "stages": ", ".join(sorted(asking.stages)),
        "strictness": asking.strictness,
        "temperature": asking.sampling.temperature,
        "max_tokens": asking.sampling.max_tokens,
        "file_tokens": asking.file_tokens,
        "whole_project_tokens": asking.whole_project_tokens,
        "templates": digest(templates.system, templates.user)[:12],
        **{text.kind.replace("-", "_"): f"version {text.version}" for text in texts},
        "judge": judge.model.card.name if judge else "",
    }


@dataclass(frozen=True, slots=True)
class Evaluate:
    """A set of questions, searched one by one and measured; perhaps answered too."""

    catalog: Catalog
    search: Callable[[str], Retrieved]
    """A question to passages, with the settings of the run and no cache."""
    clock: Clock
    ask: Callable[[str], Result] | None = None
    """A question to an answer, with the settings of the run; nothing of it is kept elsewhere."""
    judge: Judge | None = None

    def __call__(
        self, scope: Scope, project: str, name: str, k: int, settings: Mapping[str, Any], label: str, cancel: Cancel
    ) -> Iterator[Progress | Run]:
        """The run comes last and is stored by then; a run that is stopped leaves nothing."""
        with self.catalog.read() as c:
            questions = c.evaluations.questions(scope, project, name)
            known = c.evaluations.question_set(scope, project, name)
            documents = c.documents.all(scope, project)
        names = Names(documents, known.folder)
        wanted = [_wanted(question, names, scope.sees_all) for question in questions]
        if self.ask is None or any(wanted):
            _require_documents(wanted, {each.id for each in documents if not each.enabled}, name, scope.sees_all)
        began, started_at = time.monotonic(), self._now()
        stage = "searching" if self.ask is None else "answering"
        results: list[QuestionResult] = []
        for question, its in zip(questions, wanted, strict=True):
            cancel.check()
            results.append(self._measured(question, its, k, cancel))
            yield Progress(stage, len(results), len(questions), seconds=time.monotonic() - began)
        cancel.check()
        scored = [result.metrics for result in results if result.metrics]
        run = Run(
            id=secrets.token_hex(8),
            project=project,
            questions=name,
            digest=known.digest,
            label=label.strip(),
            settings=settings,
            settings_hash=settings_digest(settings),
            started_at=started_at,
            ended_at=self._now(),
            asked=len(results),
            scored=len(scored),
            missing=len({item.name for its in wanted for item in its if item.found_as is None}),
            degraded=sum(bool(result.degraded) for result in results),
            milliseconds=quantile([result.milliseconds for result in results], 0.5),
            metrics=means(scored),
            answers=overall([result.answer for result in results if result.answer]),
        )
        with self.catalog.write() as c:
            c.evaluations.add_run(scope, project, run, results)
        yield run

    def _now(self) -> datetime:
        """As exact as the catalog keeps it."""
        now = self.clock()
        return now.replace(microsecond=now.microsecond // 1000 * 1000)

    def _measured(self, question: Question, wanted: tuple[Wanted, ...], k: int, cancel: Cancel) -> QuestionResult:
        began = time.perf_counter()
        retrieved = self.search(question.text)
        milliseconds = _since(began)
        passages = retrieved.passages[:k]
        ranking = ranked_once(p.chunk if question.chunks else p.document for p in passages)
        return QuestionResult(
            question=question.id,
            text=question.text,
            wanted=wanted,
            found=tuple(FoundPassage(p.chunk, p.document, p.score, p.name) for p in passages),
            metrics=measured(ranking, _grades(wanted), k) if wanted else {},
            milliseconds=milliseconds,
            degraded=tuple(part.part for part in retrieved.degraded),
            answer=None if self.ask is None else self._answered(self.ask, question, cancel),
        )

    def _answered(self, ask: Callable[[str], Result], question: Question, cancel: Cancel) -> AnswerResult:
        """What came back. One question that comes to nothing is counted, and does not end the run."""
        began = time.perf_counter()
        try:
            result = ask(question.text)
        except (ProviderError, TooLarge) as problem:
            return failed(question, problem.message, _since(began))
        answer = recorded(question, result, _since(began))
        if self.judge is None or not isinstance(result, Answer):
            return answer
        opinion = self.judge(question.text, result, cancel)
        if isinstance(opinion, str):
            return replace(answer, unjudged=opinion)
        return judged(answer, opinion, (source.document for source in given(result)))


def _since(began: float) -> float:
    return (time.perf_counter() - began) * 1000


def _wanted(question: Question, names: Names, tells: bool) -> tuple[Wanted, ...]:
    """What a question wants, as the project holds it. Raises `UserError` for a name that several files share.

    `tells` allows the words of the question.
    """
    found: dict[str, str | None] = dict(zip(question.chunks, question.chunks, strict=True))
    for name in _documents_of(question):
        if unclear := names.unclear(name):
            which = f"the question {question.text[:_SHOWN]!r}" if tells else "a question"
            raise UserError(f"{which} wants {name!r}, which {unclear}", hint=UNCLEAR)
        found[name] = next(iter(names.find(name)), None)
    return tuple(Wanted(name, grade, found[name]) for name, grade in question.wanted.items())


def _grades(wanted: Sequence[Wanted]) -> dict[str, float]:
    """Grade by id. Names of the same document count once; what is not there stays, and is never found."""
    grades: dict[str, float] = {}
    for item in wanted:
        key = item.found_as or f"\x00{item.name}"
        grades[key] = max(item.grade, grades.get(key, item.grade))
    return grades


def _require_documents(wanted: Sequence[tuple[Wanted, ...]], off: set[str], name: str, tells: bool) -> None:
    """Something can be found. `tells` allows an example of what cannot."""
    items = [item for its in wanted for item in its]
    if not items:
        raise UserError(
            f"no question of {name} says which documents it wants",
            hint="import it with documents, or a qrels file; --answers judges answers without them",
        )
    asleep = [item for item in items if item.found_as in off]
    absent = [item for item in items if item.found_as is None]
    if len(asleep) + len(absent) < len(items):
        return
    such = f", such as {(asleep or absent)[0].name!r}" if tells else ""
    if asleep:
        raise UserError(f"the documents that {name} wants are switched off{such}", hint="ragforge on FILE")
    raise NotFound(
        f"the project holds none of the documents that {name} wants{such}",
        hint="add them, or import the set with its corpus; ragforge ls shows the names",
    )


@dataclass(frozen=True, slots=True)
class Questions:
    """Questions as they may be shown."""

    catalog: Catalog

    def seen(self, scope: Scope, project: str, name: str) -> list[Question]:
        """Those of a set, in their order; without those that may tell of a document above the scope."""
        with self.catalog.read() as c:
            questions = c.evaluations.questions(scope, project, name)
            if scope.sees_all:
                return questions
            names = Names(c.documents.all(scope, project), c.evaluations.question_set(scope, project, name).folder)
            chunks = c.documents.places(scope, project, [chunk for question in questions for chunk in question.chunks])
        marked = name == FEEDBACK
        return [question for question in questions if _is_open(question, names, chunks, marked=marked)]


def _is_open(question: Question, names: Names, chunks: Collection[str], *, marked: bool) -> bool:
    """Whether all documents that it wants are. One that was `marked` and wants none may be about anything."""
    if not question.wanted:
        return not marked
    return all(map(names.find, question.documents)) and all(chunk in chunks for chunk in question.chunks)


@dataclass(frozen=True, slots=True)
class Runs:
    """Stored runs: one of them, or two side by side."""

    catalog: Catalog

    def details(self, scope: Scope, project: str, name: str) -> RunDetails:
        """A run by id, the beginning of its id, its label, or `last`."""
        with self.catalog.read() as c:
            run = _find(c.evaluations.runs(scope, project), name)
            return RunDetails(run, tuple(c.evaluations.results(scope, project, run.id)))

    def compare(self, scope: Scope, project: str, before: str, after: str) -> Comparison:
        return compare(self.details(scope, project, before), self.details(scope, project, after))


def _find(runs: Sequence[Run], name: str) -> Run:
    """Among runs, newest first. Of several with one label the newest is meant."""
    if name == LAST and runs:
        return runs[0]
    labelled = [run for run in runs if run.label == name][:1]
    begun = [run for run in runs if run.id.startswith(name)] if len(name) >= _LEAST_OF_ID else []
    found = labelled or begun
    if not found:
        hint = "ragforge eval ls shows the runs" if runs else "ragforge eval run SET makes one"
        raise NotFound(f"no run {name!r}", hint=hint)
    if len(found) > 1:
        raise UserError(f"{name!r} could be {len(found)} runs", hint="write more of its id")
    return found[0]
