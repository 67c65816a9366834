"""What is known for a task or a failure, as servers are asked for it."""

from __future__ import annotations

from ragforge.app import Ragforge
from ragforge.domain.lessons import EntryType, FoundLessons
from ragforge.errors import UserError
from ragforge.flows.lessons import FAILURE_RESULTS, TASK_RESULTS


def found_for(
    forge: Ragforge,
    project: str,
    *,
    task: str,
    failure_description: str,
    error_message: str,
    agent_type: str,
    task_type: str,
    technology: str,
    entry_type: EntryType | None,
    limit: int | None,
) -> FoundLessons:
    """Patterns for one of the two: a task that is about to begin, or a failure."""
    has_failed = bool((failure_description + error_message).strip())
    if bool(task.strip()) == has_failed:
        raise UserError("ask for a task or for a failure", hint="give task, or failure_description and error_message")
    if not has_failed:
        return forge.lessons.query_for_task(
            task,
            project=project,
            agent_type=agent_type,
            task_type=task_type,
            technology=technology,
            entry_type=entry_type or "",
            limit=TASK_RESULTS if limit is None else limit,
        )
    if entry_type not in (None, EntryType.FAILURE):
        raise UserError("for a failure only failures are looked at", hint="leave entry_type out, or ask for a task")
    return forge.lessons.query_for_failure(
        failure_description,
        error_message,
        project=project,
        agent_type=agent_type,
        task_type=task_type,
        technology=technology,
        limit=FAILURE_RESULTS if limit is None else limit,
    )
