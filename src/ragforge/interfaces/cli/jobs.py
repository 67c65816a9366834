"""`jobs …`: long work that waits, runs or has ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from ragforge.domain.library import ENDED, Job, JobState, Outcome, Priority
from ragforge.errors import NotFound, UserError
from ragforge.interfaces.cli.common import Common, command
from ragforge.interfaces.cli.output import Column, one_line, paint, plain, print_data, print_json, print_table
from ragforge.interfaces.words import ago, count

if TYPE_CHECKING:
    from ragforge.app import Ragforge

_SHOWN = 20
_ID_LENGTH = 8
_COLOURS = {JobState.RUNNING: "green", JobState.FAILED: "red", JobState.QUARANTINED: "red", JobState.DONE: "dim"}
_UNREAD = (Outcome.FAILED, Outcome.QUARANTINED)

Name = Annotated[str, typer.Argument(metavar="ID", help="Id of a job, or its beginning")]


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Long work: list it, look at it, cancel it.", no_args_is_help=True)
    command(group, "ls", project=False)(list_jobs)
    command(group, "show", project=False)(show)
    command(group, "cancel", project=False)(cancel)
    app.add_typer(group, name="jobs")


def list_jobs(
    common: Common,
    project: Annotated[
        str | None, typer.Option("--project", "-p", metavar="NAME", help="Only what is done to this one [default: all]")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, metavar="N", help="Jobs to list")] = _SHOWN,
) -> None:
    """List long work, newest first: what was asked of a server, and what commands do or did.

    What has ended is remembered for 30 days. What broke three times, or was at work at five kills, is set aside
    (quarantined) until it is asked for again or cancelled.
    """
    with common.open() as forge:
        jobs, slugs = forge.jobs(project=project or common.project, limit=limit), _slugs(forge)
    if common.json:
        print_json({"jobs": jobs})
        return
    if not jobs:
        common.say("There are no jobs.")
        return
    columns = (
        Column("id"),
        Column("what", least=12),
        Column("project", least=8),
        Column("state", least=16),
        Column("asked by", dropped=True),
        Column("asked", align_right=True, dropped=True),
        Column("last news", align_right=True),
    )
    print_table(columns, [_row(job, slugs) for job in jobs], [_colour(job) for job in jobs])
    if len(jobs) == limit:
        common.say(f"These are the newest {limit:,}; --limit shows more")


def _row(job: Job, slugs: Mapping[str, str]) -> list[str]:
    return [
        job.id[:_ID_LENGTH],
        _what(job),
        slugs.get(job.project or "", ""),
        _state(job),
        job.principal,
        ago(job.created_at),
        ago(job.updated_at),
    ]


def show(common: Common, id: Name) -> None:
    """Show a job: how far it is, or what became of it."""
    with common.open() as forge:
        job, slugs = _named(forge.jobs(), id), _slugs(forge)
    if common.json:
        print_json({"job": job})
        return
    print_data(f"{paint(_what(job), 'bold')}  {job.id}  {paint(_state(job), _colour(job))}")
    facts = {
        "project": slugs.get(job.project or "", ""),
        "asked": f"{ago(job.created_at)} by {job.principal}",
        "priority": "" if job.priority is Priority.NORMAL else str(job.priority),
        "last news": ago(job.updated_at),
        "begun": count(job.attempts, "time") if job.attempts else "",
        "error": one_line(job.error),
        "next": one_line(job.hint),
        "result": ", ".join(_results(job)),
    }
    for name, fact in facts.items():
        if fact:
            print_data(f"  {name:<10} {fact}")


def cancel(common: Common, id: Name) -> None:
    """Cancel a job.

    One that waits or was set aside ends at once, and a file that was sent for it is forgotten; one that runs ends
    within a few seconds.
    """
    with common.open() as forge:
        before = _named(forge.jobs(), id)
        job = forge.cancel_job(before.id)
    if common.json:
        print_json({"job": job})
    elif before.state in ENDED and before.state is job.state:
        common.say(f"{_what(job)} had ended already: {job.state}")
    else:
        common.say(f"{'Cancelled' if job.ended else 'Cancelling'} {_what(job)}")


def _what(job: Job) -> str:
    name = job.payload.get("name", "")
    return one_line(f"{job.kind} {name}" if name else job.kind)


def _state(job: Job) -> str:
    if job.state is JobState.RUNNING and job.cancel_requested:
        return "stopping"
    if job.state is JobState.RUNNING and (at := job.progress):
        return f"{at.stage} {at.done:,}/{at.total:,}" if at.total else at.stage
    return f"{job.state}, {failed}" if (failed := _failed_files(job)) else str(job.state)


def _colour(job: Job) -> str:
    return "red" if _failed_files(job) else _COLOURS.get(job.state, "")


def _failed_files(job: Job) -> str:
    """Of an upload that was worked on to its end: that its file could not be read, and why."""
    results = job.result if isinstance(job.result, list) else []
    told = (f"{each['outcome']}: {each['message']}" for each in results if each.get("outcome") in _UNREAD)
    return one_line("; ".join(told))


def _results(job: Job) -> list[str]:
    """Of uploads what became of each file, else the names of what was made."""
    results = job.result if isinstance(job.result, list) else [job.result or {}]
    return [
        f"{name} {one_line(str(value))}"
        for each in results
        for name, value in each.items()
        if value and name in ("outcome", "document", "chunks", "message", "hint", "generation", "run", "artifact")
    ]


def _slugs(forge: Ragforge) -> dict[str, str]:
    return {project.id: project.slug for project in forge.projects()}


def _named(jobs: Sequence[Job], name: str) -> Job:
    found = [job for job in jobs if name and job.id.startswith(name)]
    if not found:
        raise NotFound(f"no job {plain(name)!r}", hint="ragforge jobs ls shows them")
    if len(found) > 1:
        raise UserError(f"{plain(name)!r} could be {len(found)} jobs", hint="write more of its id")
    return found[0]
