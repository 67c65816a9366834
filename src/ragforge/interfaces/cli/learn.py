"""`learn …`: what agents learn, from telling it to being told it. The review of it is in `review`."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from ragforge.domain.cancel import Cancelled
from ragforge.domain.lessons import CheckpointReport, EntryType
from ragforge.domain.library import Progress
from ragforge.errors import UserError
from ragforge.interfaces.cli import capture, exchange, review
from ragforge.interfaces.cli.capture import Key
from ragforge.interfaces.cli.common import Common, command
from ragforge.interfaces.cli.learned import (
    ID_LENGTH,
    checkpoint_text,
    cosine_alone,
    print_calibration,
    print_decisions,
    print_found,
    print_staged,
    pruned_text,
    say_pending,
)
from ragforge.interfaces.cli.output import one_line, plain, plain_text, print_data, print_json
from ragforge.interfaces.cli.passages import warn
from ragforge.interfaces.cli.progress import meter
from ragforge.interfaces.cli.stop import STOPPED, stoppable
from ragforge.interfaces.cli.texts import text_of, texts_of

_SHORT = {"failure": EntryType.FAILURE, "rejection": EntryType.REJECTION, "approval": EntryType.APPROVAL}
_FIT_STAGE = "fitting to the embedder"


def kind_of(text: str) -> EntryType:
    """A kind of lesson by its short name or its whole one."""
    known = {**_SHORT, **{str(kind): kind for kind in EntryType}}
    if text not in known:
        raise typer.BadParameter(f"{text!r} is none of {', '.join(_SHORT)}")
    return known[text]


OfAgent = Annotated[str, typer.Option("--agent", metavar="NAME", help="Only lessons for this agent or for any")]
OfTaskType = Annotated[str, typer.Option("--task-type", metavar="NAME", help="Only lessons for such tasks or for any")]
OfTechnology = Annotated[str, typer.Option("--technology", metavar="NAME", help="Only lessons for this one or for any")]


class _InOrder(TyperGroup):
    """Lists groups of commands before commands: one tells before one asks."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(super().list_commands(ctx), key=lambda name: not isinstance(self.commands[name], TyperGroup))


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        cls=_InOrder,
        help="What agents learn: told, embedded at checkpoints, asked for, reviewed, and gone a year later.",
        no_args_is_help=True,
    )
    capture.register(group)
    command(group, "staged")(list_staged)
    command(group, "checkpoint")(checkpoint)
    command(group, "query")(query)
    command(group, "context")(context)
    command(group, "outcome")(outcome)
    review.register(group)
    exchange.register(group)
    command(group, "prune", project=False)(prune)
    command(group, "calibrate", project=False)(calibrate)
    app.add_typer(group, name="learn")


# -- what was told, and taking it up


def list_staged(common: Common) -> None:
    """List what waits for a checkpoint, oldest first; what nobody has verified waits for a person, too."""
    with common.open() as forge:
        lessons = forge.lessons.staged(project=review.project_in(common, forge))
    if common.json:
        print_json({"lessons": lessons})
        return
    if not lessons:
        common.say("Nothing waits for a checkpoint. Next: ragforge learn ls shows what was embedded")
        return
    print_staged(lessons)
    if waiting := [each.id[:ID_LENGTH] for each in lessons if not each.verified]:
        step = f"ragforge learn approve {waiting[0]}, or ragforge learn reject {waiting[0]}"
        common.say(f"{len(waiting):,} of {len(lessons):,} not verified: a person decides. Next: {step}")
    if len(waiting) < len(lessons):
        common.say("Next: ragforge learn checkpoint")


def checkpoint(
    common: Common,
    kind: Annotated[
        Literal["phase", "project", "cancelled", "manual"], typer.Option("--kind", help="What is reached")
    ] = "manual",
) -> None:
    """Embed what is staged and verified. What tells the same becomes one pattern, and counts.

    It can be stopped and run again: nothing is taken up twice.
    """
    report: CheckpointReport | None = None
    with (
        common.open() as forge,
        meter(quiet=common.quiet or common.json, lines_on_stdout=False, unit="lessons") as shown,
        stoppable(lambda: None if common.quiet else shown.say("Stopping. What is embedded stays.")) as cancel,
        suppress(Cancelled),
    ):
        project = review.project_in(common, forge)
        shown.show(Progress(_FIT_STAGE, 0, None))
        for event in forge.lessons.checkpointing(kind, project=project, cancel=cancel):
            if isinstance(event, Progress):
                shown.show(event)
            else:
                report = event
    if report is None:
        raise typer.Exit(STOPPED)
    if common.json:
        print_json({"checkpoint": report})
        return
    common.say(checkpoint_text(report))
    if report.waiting:
        common.say(f"{report.waiting:,} not verified: a person decides. Next: ragforge learn staged")
    for notice in report.notices:
        common.say(f"Note: {one_line(notice)}")


# -- asking


def query(
    common: Common,
    text: Annotated[list[str], typer.Argument(metavar="TEXT", help="A task that is about to begin, or a failure")],
    failure: Annotated[bool, typer.Option("--failure", help="TEXT is a failure: how was the same solved?")] = False,
    error: Annotated[
        str, typer.Option("--error", metavar="TEXT", help="The error message of the failure; means --failure")
    ] = "",
    agent: OfAgent = "",
    task_type: OfTaskType = "",
    technology: OfTechnology = "",
    entry_type: Annotated[
        EntryType | None,
        typer.Option(
            "--entry-type",
            metavar="failure|rejection|approval",
            parser=kind_of,
            help="Only what was learnt from these; with a task",
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", help="Patterns at most [default: 5 of a task, 3 of a failure]")
    ] = None,
    why: Annotated[bool, typer.Option("--why", help="Show what became of every pattern that was near")] = False,
) -> None:
    """Find what is known for a task or a failure, the most reliable first.

    TEXT and --error may be @FILE, or - for stdin. How well a pattern fits goes from 0 to 1: a task asks for 0.7 or
    more, a failure for 0.75.
    """
    asked, message = texts_of({"TEXT": " ".join(text), "--error": error})
    failure = failure or bool(error)
    if failure and entry_type not in (None, EntryType.FAILURE):
        raise UserError("a failure is looked for among failures only", hint="leave out --entry-type, or --failure")
    with common.open() as forge:
        from ragforge.flows.lessons import FAILURE_RESULTS, TASK_RESULTS

        project = review.project_in(common, forge)
        whom = {"project": project, "agent_type": agent, "task_type": task_type, "technology": technology}
        most = (FAILURE_RESULTS if failure else TASK_RESULTS) if limit is None else limit
        if failure:
            found = forge.lessons.query_for_failure(asked, message, limit=most, **whom)
        else:
            found = forge.lessons.query_for_task(asked, entry_type=entry_type or "", limit=most, **whom)
        slugs = {each.id: each.slug for each in forge.projects()}
        here = forge.project(project).id
    if common.json:
        print_json(found)
        return
    print_found(found, slugs, here)
    if why:
        print_decisions(found)
    warn(common, found)
    if found.notice:
        common.say(f"{one_line(found.notice[:1].upper() + found.notice[1:])}")
    elif found.patterns:
        id = found.patterns[0].pattern.id[:ID_LENGTH]
        common.say(f"Tell what comes of one: ragforge learn outcome {id} won, or lost")


def context(
    common: Common,
    task: Annotated[list[str], typer.Argument(metavar="TASK", help="The task; @FILE or - for stdin")],
    failure: Annotated[
        str, typer.Option("--failure", metavar="TEXT", help="What failed on the way; @FILE or - for stdin")
    ] = "",
    error: Annotated[str, typer.Option("--error", metavar="TEXT", help="Its error message")] = "",
    agent: OfAgent = "",
    task_type: OfTaskType = "",
    technology: OfTechnology = "",
    max_tokens: Annotated[
        int, typer.Option("--max-tokens", min=0, metavar="N", help="Tokens of it [default: learn.context_tokens]")
    ] = 0,
) -> None:
    """Print what an agent reads before its task: the task, and the block of what is known.

    With --failure the block is of how that was solved before. Where nothing is known it is the task alone.
    """
    with common.open() as forge:
        told = forge.lessons.context(
            text_of("TASK", " ".join(task)),
            project=review.project_in(common, forge),
            failure_description=text_of("--failure", failure),
            error_message=text_of("--error", error),
            agent_type=agent,
            task_type=task_type,
            technology=technology,
            max_tokens=max_tokens,
        )
    if common.json:
        print_json(told)
        return
    print_data(plain_text(told.text))
    warn(common, told.found)
    for left_out in told.left_out:
        common.say(f"Note: {one_line(left_out)}")
    if told.shown:
        ids = ", ".join(id[:ID_LENGTH] for id in told.shown)
        first = told.shown[0][:ID_LENGTH]
        common.say(f"Patterns {ids}; tell what comes of one: ragforge learn outcome {first} won, or lost")
    elif told.found.notice:
        common.say(f"Only the task: {one_line(told.found.notice)}")


def outcome(
    common: Common,
    pattern: Annotated[str, typer.Argument(metavar="PATTERN", help="Id of a pattern that was applied")],
    came: Annotated[Literal["won", "lost"], typer.Argument(metavar="won|lost", help="Whether it worked")],
    note: Annotated[str, typer.Option("--note", metavar="TEXT", help="What happened; @FILE or - for stdin")] = "",
    key: Key = "",
) -> None:
    """Tell what came of applying a pattern. It counts from the next question on.

    The pattern may also be of another project that shares its lessons.
    """
    with common.open() as forge:
        project = review.project_in(common, forge)
        id = review.pattern_in_reach(forge, project, pattern)
        said = text_of("--note", note)
        recorded = forge.lessons.record_outcome(id, came == "won", project=project, note=said, key=key)
    if common.json:
        print_json({"outcome": recorded})
    else:
        common.say(f"Recorded: {recorded.pattern[:ID_LENGTH]} {came} in {plain(project)}")


# -- upkeep


def prune(
    common: Common,
    trust_clock: Annotated[
        bool, typer.Option("--trust-clock", help="The clock is right, also where it jumped since it was last seen")
    ] = False,
) -> None:
    """Remove now what was embedded more than a year ago, in all projects. It happens once a day anyway.

    Nothing is removed by a clock that jumped, until it says the same a day later or you say that it is right.
    """
    with common.open() as forge, stoppable(lambda: None) as cancel:
        report = forge.lessons.prune(trust_clock=trust_clock, cancel=cancel)
    if common.json:
        print_json({"prune": report})
    else:
        common.say(pruned_text(report))
    say_pending(report.pending)


def calibrate(
    common: Common,
    anew: Annotated[bool, typer.Option("--anew", help="Fit them again, to lessons that come with us")] = False,
) -> None:
    """Show what similarity means for the embedder of lessons: four curves, and how well each one tells.

    They are fitted to lessons that people judged, once for each embedder. A value is reached by meaning and by shared
    words together; the last column says how near in meaning two texts without one shared word have to be.
    """
    with (
        common.open() as forge,
        meter(quiet=common.quiet or common.json, lines_on_stdout=False, unit="texts") as shown,
        stoppable(lambda: None if common.quiet else shown.say("Stopping. Nothing is changed.")) as cancel,
    ):
        shown.show(Progress(_FIT_STAGE, 0, None))
        fitted = forge.lessons.calibrate(cancel=cancel) if anew else forge.lessons.calibration()
    if common.json:
        print_json(
            {"calibration": fitted, "cosine_alone": {name: cosine_alone(fitted, name) for name in fitted.measured}}
        )
    else:
        print_calibration(fitted)
