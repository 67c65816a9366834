"""What a person says in an interview: begun in a callback, worked on by a thread, never lost."""

from __future__ import annotations

from collections.abc import Iterator

from ragforge.domain.access import Action
from ragforge.domain.cancel import Cancel
from ragforge.domain.discovery import InterviewEvent
from ragforge.errors import RagforgeError
from ragforge.interfaces.ui.asking import Said
from ragforge.interfaces.ui.look import problem_text
from ragforge.interfaces.ui.session import Session, drop, keep, kept

DESCRIBE = Action.WRITE
"""What is known of the organisation is the project's, and everybody's interviews build on it."""


def say(session: Session, interview: str, message: str, number: int) -> None:
    """In a callback, before the page is run: whatever interrupts that, it is on its way, or kept with the reason."""
    if not message.strip():
        return
    try:
        _begin(session, interview, message, number)
        drop("unsaid")
        drop("probe")
    except RagforgeError as problem:
        keep("unsaid", (interview, message, problem_text(problem)))


def _begin(session: Session, interview: str, message: str, number: int) -> None:
    visitor, slug, model = session.visitor, session.slug, session.choices.model
    visitor.check_model(model)
    forge, at_once = session.forge(Action.ASK), visitor.spend()
    probe, describe = str(kept("probe", "")), visitor.may(DESCRIBE)

    def stream(cancel: Cancel) -> Iterator[InterviewEvent]:
        return forge.discovery.saying(
            message, interview, project=slug, model=model, probe=probe, describe=describe, turn=number, cancel=cancel
        )

    said = Said(message, interview, number)
    session.engine.answers.begin(visitor.id, said, stream, may_go_on=visitor.may_go_on, at_once=at_once)


def latest(session: Session, interview: str) -> Said | None:
    """What was said last, unless that was forgotten."""
    found = session.engine.answers.latest(session.visitor.id, interview)
    return found if isinstance(found, Said) else None
