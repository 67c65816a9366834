"""`learn capture …`: telling what was learnt from a failure, a rejection or an approval."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer

from ragforge.domain.lessons import EntryType, Lesson
from ragforge.interfaces.cli.common import Common, command
from ragforge.interfaces.cli.learned import ID_LENGTH
from ragforge.interfaces.cli.output import print_json
from ragforge.interfaces.cli.texts import texts_of

_TEXTS = {
    "task": "--task",
    "failure_description": "--failure",
    "error_message": "--error",
    "solution_steps": "--solution",
    "gate_type": "--gate",
    "human_feedback": "--feedback",
    "revision_approach": "--revision",
    "approved_approach": "--approach",
    "decision_criteria": "--when",
    "evidence": "--evidence",
}
"""What is told, and the option that tells it."""

Agent = Annotated[str, typer.Option("--agent", metavar="NAME", help="Agent it is for, as backend [default: any]")]
TaskType = Annotated[
    str, typer.Option("--task-type", metavar="NAME", help="Kind of task it is for, as testing [default: any]")
]
Technology = Annotated[
    str, typer.Option("--technology", metavar="NAME", help="Technology it is for, as python [default: any]")
]
Task = Annotated[str, typer.Option("--task", metavar="TEXT", help="What was being done")]
When = Annotated[str, typer.Option("--when", metavar="TEXT", help="When this is the thing to try")]
Evidence = Annotated[str, typer.Option("--evidence", metavar="TEXT", help="What verified it, as the test that passes")]
Gate = Annotated[str, typer.Option("--gate", metavar="NAME", help="The gate, as architecture-review")]
Key = Annotated[
    str, typer.Option("--key", metavar="WORD", help="Your own name for this call: made again, it counts once")
]


def register(group: typer.Typer) -> None:
    kinds = typer.Typer(help="Tell what was learnt: from a failure, a rejection or an approval.", no_args_is_help=True)
    command(kinds, "failure")(capture_failure)
    command(kinds, "rejection")(capture_rejection)
    command(kinds, "approval")(capture_approval)
    group.add_typer(kinds, name="capture")


def capture_failure(
    common: Common,
    agent: Annotated[str, typer.Option("--agent", metavar="NAME", help="Agent that met it, as backend, or any")],
    failure: Annotated[str, typer.Option("--failure", metavar="TEXT", help="What went wrong")],
    solution: Annotated[str, typer.Option("--solution", metavar="TEXT", help="The steps that solved it")],
    error: Annotated[str, typer.Option("--error", metavar="TEXT", help="The error message, as it was printed")] = "",
    task_type: TaskType = "",
    technology: Technology = "",
    task: Task = "",
    when: When = "",
    evidence: Evidence = "",
    unverified: Annotated[
        bool, typer.Option("--unverified", help="Nothing proves it yet: it waits until a person approves it")
    ] = False,
    key: Key = "",
) -> None:
    """Tell a test or a task that failed, and what solved it.

    A text may be @FILE, to read it from a file, or - for stdin; @@ writes an @ that begins a text. Secrets are masked.
    """
    told = {
        "task": task,
        "failure_description": failure,
        "error_message": error,
        "solution_steps": solution,
        "decision_criteria": when,
        "evidence": evidence,
    }
    _capture(common, EntryType.FAILURE, (agent, task_type, technology), told, key, verified=not unverified)


def capture_rejection(
    common: Common,
    gate: Gate,
    feedback: Annotated[str, typer.Option("--feedback", metavar="TEXT", help="Why a person rejected it")],
    revision: Annotated[str, typer.Option("--revision", metavar="TEXT", help="The revision that they approved")],
    agent: Agent = "",
    task_type: TaskType = "",
    technology: Technology = "",
    task: Task = "",
    when: When = "",
    evidence: Evidence = "",
    key: Key = "",
) -> None:
    """Tell what a person rejected at a gate and why, and the revision that they approved.

    A text may be @FILE, to read it from a file, or - for stdin; @@ writes an @ that begins a text. Secrets are masked.
    """
    told = {
        "task": task,
        "gate_type": gate,
        "human_feedback": feedback,
        "revision_approach": revision,
        "decision_criteria": when,
        "evidence": evidence,
    }
    _capture(common, EntryType.REJECTION, (agent, task_type, technology), told, key)


def capture_approval(
    common: Common,
    gate: Gate,
    approach: Annotated[str, typer.Option("--approach", metavar="TEXT", help="What was approved")],
    agent: Agent = "",
    task_type: TaskType = "",
    technology: Technology = "",
    task: Task = "",
    when: When = "",
    evidence: Evidence = "",
    key: Key = "",
) -> None:
    """Tell what a person approved at the first attempt.

    A text may be @FILE, to read it from a file, or - for stdin; @@ writes an @ that begins a text. Secrets are masked.
    """
    told = {
        "task": task,
        "gate_type": gate,
        "approved_approach": approach,
        "decision_criteria": when,
        "evidence": evidence,
    }
    _capture(common, EntryType.APPROVAL, (agent, task_type, technology), told, key)


def _capture(
    common: Common,
    kind: EntryType,
    whom: tuple[str, str, str],
    given: Mapping[str, str],
    key: str,
    *,
    verified: bool = True,
) -> None:
    told = dict(zip(given, texts_of({_TEXTS[name]: text for name, text in given.items()}), strict=True))
    agent, task_type, technology = whom
    with common.open(create=True) as forge:
        project = common.begun(forge)
        lesson = forge.lessons.capture(
            kind,
            project=project,
            agent_type=agent,
            task_type=task_type,
            technology=technology,
            verified=verified,
            key=key,
            **told,
        )
    if common.json:
        print_json({"lesson": lesson, "quality": lesson.quality})
    else:
        common.say(_staged(lesson))


def _staged(lesson: Lesson) -> str:
    id = lesson.id[:ID_LENGTH]
    if lesson.embedded:
        return f"{id} was told before, and is part of the pattern {lesson.pattern[:ID_LENGTH]}"
    if not lesson.verified:
        return f"Staged {id}. Nobody has verified it, so it waits for a person. Next: ragforge learn approve {id}"
    return f"Staged {id}, quality {lesson.quality}. It is found after the next checkpoint: ragforge learn checkpoint"
