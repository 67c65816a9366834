"""What each kind of job does: the work that servers and workers take on for those who asked.

A handler gets the workspace in the scope of who asked, the project's slug and the claimed jobs: several only if they
are done together. It yields what happens, and returns a result for each job: something that JSON can hold, or why it
has to wait.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, Any

from ragforge.domain.access import Clearance
from ragforge.domain.cancel import Cancel
from ragforge.domain.documents import Reason
from ragforge.domain.evaluation import Run
from ragforge.domain.lessons import CheckpointReport
from ragforge.domain.library import UPLOAD, FileResult, Job, Labels, OwnProgress
from ragforge.domain.retrieval import Tuning
from ragforge.domain.strategy import Strategy
from ragforge.errors import Busy, NotFound, UserError
from ragforge.ingest.walk import Found

if TYPE_CHECKING:
    from ragforge.app import Ragforge

Work = Generator[object, None, Sequence[object]]
Handler = Callable[["Ragforge", str, Sequence[Job], Cancel], Work]

_TOGETHER_BYTES = 4_000_000
TOGETHER = 64
"""How many uploads are looked at, at most, when some are taken in together."""


def upload(forge: Ragforge, project: str, jobs: Sequence[Job], cancel: Cancel) -> Work:
    """Take files of the inbox in. One that cannot be parsed is kept and told, as with `add`; one whose bytes are not to
    be had here was acknowledged all the same, so its job waits."""
    found = {job.id: file for job in jobs if (file := _found(forge, project, job.payload))}
    brought_by = {file.shown: job for job, file in found.items()}
    results: dict[str, FileResult] = {}
    labels = labels_of(jobs[0].payload)
    here = [job for job in jobs if job.id in found]
    for event in forge.taking_in([*found.values()], project=project, labels=labels, cancel=cancel, jobs=here):
        if isinstance(event, FileResult):
            results[brought_by[event.path]] = event
        yield replace(event, of=brought_by[event.of]) if isinstance(event, OwnProgress) else event
    return [_result(forge, job.payload, results.get(job.id)) for job in jobs]


def _result(forge: Ragforge, payload: Mapping[str, Any], result: FileResult | None) -> object:
    if result is not None and result.reason is not Reason.UNREADABLE:
        return [asdict(result)]
    place, machine = forge.inbox().place, payload.get("machine")
    return Busy(
        f"the bytes that were sent cannot be read in {place}, where they are expected: "
        f"{result.message if result else 'they are not there'}"
        + (f"; machine {machine} received them" if machine else ""),
        hint="start ragforge worker on the machine that received them, or copy what is in its inbox there; to give the "
        "file up, cancel the job",
    )


def _found(forge: Ragforge, project: str, payload: Mapping[str, Any]) -> Found | None:
    name = payload["name"]
    if path := forge.inbox().here(payload["inbox"]):
        with suppress(FileNotFoundError):
            info = os.stat(path)
            return Found(str(path), info.st_size, info.st_mtime_ns, name)
    return _published(forge, project, Found("", 0, 0, name), payload["sha256"])


def _published(forge: Ragforge, project: str, file: Found, sha256: str) -> Found | None:
    """The file as it was taken in, if it was: by a try of the same job that did not come to its end."""
    with suppress(NotFound, UserError):
        (document,) = forge.find([file.key], project=project)
        for source in document.sources:
            if (source.key, source.sha256) == (file.key, sha256):
                return replace(file, size=source.size, mtime_ns=source.mtime_ns)
    return None


def labels_of(payload: Mapping[str, Any]) -> Labels | None:
    """What is said of an upload; None: nothing, and what was said before still holds."""
    if (said := payload["labels"]) is None:
        return None
    return Labels(said["source_type"], tuple(said["tags"]), Clearance[said["confidentiality"].upper()])


def together(first: Job) -> Callable[[Job], bool]:
    """Whether a further upload can be taken in with these: few bytes, the same labels, each name once."""
    names, size, number = {first.payload["name"]}, first.payload["size"], 1

    def fits(job: Job) -> bool:
        nonlocal size, number
        said = job.payload
        if number >= TOGETHER or size + said["size"] > _TOGETHER_BYTES:
            return False
        if said["name"] in names or said["labels"] != first.payload["labels"]:
            return False
        names.add(said["name"])
        size, number = size + said["size"], number + 1
        return True

    return fits


def rebuild(forge: Ragforge, project: str, jobs: Sequence[Job], cancel: Cancel) -> Work:
    yield from forge.rebuilding(project=project, cancel=cancel)
    return [{"project": project}]


def reindex(forge: Ragforge, project: str, jobs: Sequence[Job], cancel: Cancel) -> Work:
    asked = jobs[0].payload
    strategy = Strategy(**asked["strategy"]) if asked.get("strategy") else None
    yield from forge.reindexing(project=project, strategy=strategy, embedder=asked.get("embedder"), cancel=cancel)
    return [{"project": project, "generation": forge.project(project).generation}]


def evaluate(forge: Ragforge, project: str, jobs: Sequence[Job], cancel: Cancel) -> Work:
    asked = dict(jobs[0].payload)
    given = {field.name: asked.pop(field.name) for field in fields(Tuning) if field.name in asked}
    tuning = replace(forge.tuning(), **{name: value for name, value in given.items() if value is not None})
    run: Run | None = None
    for event in forge.evaluating(project=project, tuning=tuning, cancel=cancel, **asked):
        run = event if isinstance(event, Run) else run
        yield event
    return [{"run": run.id if run else None}]


def make(forge: Ragforge, project: str, jobs: Sequence[Job], cancel: Cancel) -> Work:
    from ragforge.flows.make import Made

    artifact: str | None = None
    for event in forge.making(project=project, cancel=cancel, **jobs[0].payload):
        artifact = event.artifact.id if isinstance(event, Made) else artifact
        yield event
    return [{"artifact": artifact}]


def checkpoint(forge: Ragforge, project: str, jobs: Sequence[Job], cancel: Cancel) -> Work:
    report: object = None
    for event in forge.lessons.checkpointing(jobs[0].payload["kind"], project=project, cancel=cancel):
        report = event
        yield event
    assert isinstance(report, CheckpointReport)
    return [asdict(report)]


KINDS: dict[str, Handler] = {
    UPLOAD: upload,
    "rebuild": rebuild,
    "reindex": reindex,
    "evaluate": evaluate,
    "make": make,
    "checkpoint": checkpoint,
}
