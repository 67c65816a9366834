"""Questions whose documents are known, runs over them, and how two runs differ."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio.to_thread
from fastapi import APIRouter
from starlette.responses import Response

from ragforge.domain.evaluation import Comparison, ImportReport, Question, QuestionSet, Run, RunDetails
from ragforge.domain.library import Job, Priority
from ragforge.interfaces.http.asking import check_model, tuning_of
from ragforge.interfaces.http.caller import Called
from ragforge.interfaces.http.errors import ERRORS
from ragforge.interfaces.http.pages import Paged
from ragforge.interfaces.http.requests import EvaluationRequest, QuestionsRequest
from ragforge.interfaces.http.routing import Route
from ragforge.interfaces.http.shapes import page_of, shape
from ragforge.interfaces.http.working import ACCEPTED, IdempotencyKey, Urgency, Wait, answered

router = APIRouter(prefix="/v1/projects/{project}", tags=["evaluation"], responses=ERRORS, route_class=Route)


@router.get("/questions", response_model=page_of(QuestionSet))
def question_sets(project: str, caller: Called, paging: Paged) -> Response:
    """The sets of questions."""
    return caller.shown(paging.page(caller.forge.question_sets(project=project), lambda each: each.name))


@router.post("/questions", response_model=shape(ImportReport))
def import_questions(project: str, asked: QuestionsRequest, caller: Called) -> Response:
    """Bring a set of questions, in place of the one of that name. All are taken, or none."""
    known = caller.forge.project(project).slug
    with TemporaryDirectory() as folder:
        file = Path(folder) / "questions.jsonl"
        file.write_text("".join(json.dumps(each.model_dump(exclude_unset=True)) + "\n" for each in asked.questions))
        *_, report = caller.forge.importing_questions(file, project=known, name=asked.name, with_corpus=False)
    return caller.shown(report)


@router.get("/questions/{name}", response_model=page_of(Question))
def questions(project: str, name: str, caller: Called, paging: Paged) -> Response:
    """The questions of a set, in the order of their file."""
    return caller.shown(paging.page(caller.forge.questions(name, project=project)))


@router.get("/evaluations", response_model=page_of(Run))
def runs(project: str, caller: Called, paging: Paged) -> Response:
    """All evaluations, newest first."""
    return caller.shown(paging.page(caller.forge.evaluations(project=project)))


@router.post("/evaluations", response_model=shape(Job), responses=ACCEPTED)
async def evaluate(
    project: str,
    asked: EvaluationRequest,
    caller: Called,
    wait: Wait = 0,
    idempotency_key: IdempotencyKey = "",
    priority: Urgency = Priority.NORMAL,
) -> Response:
    """Search for every question of a set, perhaps answer it too, and measure; the job's result names the run."""

    def enqueue() -> Job:
        for model in (asked.model, asked.judge or ""):
            check_model(caller, model)
        tuning_of(caller, asked)
        caller.forge.questions(asked.questions, project=project)  # a set that is not there is told now
        return caller.forge.enqueue(
            "evaluate", asked.model_dump(), project=project, key=idempotency_key, priority=priority
        )

    return await answered(caller, [await anyio.to_thread.run_sync(enqueue)], wait)


@router.get("/evaluations/{run}", response_model=shape(RunDetails))
def run(project: str, run: str, caller: Called) -> Response:
    """One evaluation with each of its questions, by id, the beginning of its id, its label, or `last`."""
    return caller.shown(caller.forge.evaluation(run, project=project))


@router.get("/evaluations/{before}/compare/{after}", response_model=shape(Comparison))
def compare(project: str, before: str, after: str, caller: Called) -> Response:
    """How two evaluations over the same questions differ, and whether it could be chance."""
    return caller.shown(caller.forge.compare_evaluations(before, after, project=project))
