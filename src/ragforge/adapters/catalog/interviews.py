"""What interviews know, in versions. An interview is a conversation of its own kind: it belongs to who began it.

What may hold words of a document goes with it, in every version that is kept. To a scope that may not know of such a
document any more, it looks as if that were gone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import Row

from ragforge.adapters.catalog import tables as t
from ragforge.adapters.catalog.unit import Session, batches, cleared, moment, storable
from ragforge.domain.access import Scope
from ragforge.domain.conversation import ConversationKind
from ragforge.domain.discovery import InterviewState, StateVersion, without_documents, without_turn
from ragforge.errors import CorruptStore, NotFound, Outdated

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_KEPT = 20
"""Versions of an interview that can be gone back to."""
_UNDONE = 2
"""Turns that can be taken back however much was corrected since."""


class SqlInterviews:
    def __init__(self, session: Session) -> None:
        self._session = session

    def put(self, scope: Scope, project: str, interview: str, state: InterviewState) -> InterviewState:
        """Store what it knows now, under the next version. Refused if that is not made from the newest one.

        What may hold words of documents that were removed meanwhile is left out.
        """
        session, row = self._session, self._session.project(scope, project)
        session.lock(row.ord)
        key = self._own(scope, project, interview).ord
        if state.version != (newest := _newest(session, key)):
            raise Outdated(
                f"the interview went on elsewhere: it has version {newest}, this was made from {state.version}",
                hint="read it again, and say it once more",
            )
        held = state.documents
        kept = without_documents(state, held - session.still_there(row.ord, held))
        return _insert(session, key, replace(kept, version=newest + 1))

    def get(self, scope: Scope, project: str, interview: str) -> InterviewState:
        """What it knows now."""
        key = self._own(scope, project, interview).ord
        return self._state(scope, key, _newest(self._session, key))

    def versions(self, scope: Scope, project: str, interview: str) -> list[StateVersion]:
        """Those that are kept, newest first."""
        key = self._own(scope, project, interview).ord
        columns = (t.interview_states.c.version, t.interview_states.c.turn, t.interview_states.c.made_at)
        found = sa.select(*columns).where(t.interview_states.c.conversation == key)
        rows = self._session.execute(found.order_by(t.interview_states.c.version.desc()))
        return [StateVersion(row.version, row.turn, moment(row.made_at)) for row in rows]

    def at(self, scope: Scope, project: str, interview: str, version: int) -> InterviewState:
        """What it knew in a version that is kept."""
        return self._state(scope, self._own(scope, project, interview).ord, version)

    def _own(self, scope: Scope, project: str, interview: str) -> Row[Any]:
        """Its conversation. Another's, a chat and a missing one look the same."""
        row = self._session.project(scope, project)
        found = sa.select(t.conversations.c.ord).where(
            t.conversations.c.project == row.ord,
            t.conversations.c.principal == scope.principal,
            t.conversations.c.id == interview,
            t.conversations.c.kind == str(ConversationKind.DISCOVERY),
        )
        known = self._session.execute(found).one_or_none()
        if known is None:
            raise NotFound(f"no interview {interview!r}", hint="ragforge discover ls shows yours")
        return known

    def _state(self, scope: Scope, key: int, version: int) -> InterviewState:
        found = sa.select(t.interview_states.c.state).where(
            t.interview_states.c.conversation == key, t.interview_states.c.version == version
        )
        stored = self._session.execute(found).scalar_one_or_none()
        if stored is None:
            raise NotFound(f"the interview has no version {version}", hint="its newest ones are kept")
        state = _read(stored)
        return state if scope.sees_all else without_documents(state, self._above(scope, state.documents))

    def _above(self, scope: Scope, documents: Collection[str]) -> set[str]:
        """Of these documents, those that the scope may not know of."""
        above: set[str] = set()
        for some in batches(sorted(documents)):
            found = sa.select(t.documents.c.id).where(t.documents.c.id.in_(some), ~cleared(scope))
            above.update(self._session.execute(found).scalars())
        return above


def forget_in_interviews(session: Session, project: int, documents: Sequence[str]) -> int:
    """Leave nothing in what interviews know that may hold words of the documents. Returns how many held some."""
    forgotten = 0
    for some in batches(documents):
        in_project = sa.select(t.conversations.c.ord).where(t.conversations.c.project == project)
        holding = (t.interview_documents.c.document.in_(some), t.interview_documents.c.conversation.in_(in_project))
        keys = set(session.execute(sa.select(t.interview_documents.c.conversation).where(*holding)).scalars())
        for key in sorted(keys):
            _rewrite(session, key, partial(without_documents, gone=frozenset(some)))
        session.execute(sa.delete(t.interview_documents).where(*holding))
        forgotten += len(keys)
    return forgotten


def forget_turn(session: Session, conversation: int, turn: int) -> None:
    """What came of a turn goes with it. What is being made from before that comes too late."""
    _rewrite(session, conversation, lambda state: without_turn(state, turn))
    newest = (
        t.interview_states.c.conversation == conversation,
        t.interview_states.c.version == _newest(session, conversation),
    )
    stored = session.execute(sa.select(t.interview_states.c.state).where(*newest)).scalar_one_or_none()
    if stored is not None:
        state = _read(stored)
        _insert(session, conversation, replace(state, version=state.version + 1))


def _newest(session: Session, conversation: int) -> int:
    found = sa.select(sa.func.max(t.interview_states.c.version))
    return int(session.execute(found.where(t.interview_states.c.conversation == conversation)).scalar() or 0)


def _insert(session: Session, conversation: int, state: InterviewState) -> InterviewState:
    """As it is stored."""
    text = _text(state)
    facts = {
        "conversation": conversation,
        "version": state.version,
        "turn": state.turn,
        "state": text,
        "made_at": session.now(),
    }
    session.insert(t.interview_states, [facts])
    of_it = t.interview_states.c.conversation == conversation
    first_and_last = (  # what a turn left, and what came of that
        sa.select(sa.func.min(t.interview_states.c.version), sa.func.max(t.interview_states.c.version))
        .where(of_it, t.interview_states.c.turn >= state.turn - _UNDONE)
        .group_by(t.interview_states.c.turn)
    )
    kept = {version for both in session.execute(first_and_last) for version in both}
    old = (of_it, t.interview_states.c.version <= state.version - _KEPT, t.interview_states.c.version.not_in(kept))
    session.execute(sa.delete(t.interview_states).where(*old))
    rows = [{"conversation": conversation, "document": document} for document in sorted(state.documents)]
    session.insert_new(t.interview_documents, rows)
    touched = sa.update(t.conversations).where(t.conversations.c.ord == conversation)
    session.execute(touched.values(updated_at=session.now()))
    return _read(text)


def _rewrite(session: Session, conversation: int, change: Callable[[InterviewState], InterviewState]) -> None:
    states = sa.select(t.interview_states).where(t.interview_states.c.conversation == conversation)
    for row in session.execute(states).all():
        same = (t.interview_states.c.conversation == conversation, t.interview_states.c.version == row.version)
        session.execute(sa.update(t.interview_states).where(*same).values(state=_text(change(_read(row.state)))))


@cache
def _adapter() -> TypeAdapter[InterviewState]:
    from pydantic import TypeAdapter

    return TypeAdapter(InterviewState)


def _text(state: InterviewState) -> str:
    return storable(json.dumps(_adapter().dump_python(state, mode="json"), ensure_ascii=False))


def _read(stored: str) -> InterviewState:
    try:
        return _adapter().validate_json(stored)
    except ValueError:
        raise CorruptStore("what an interview knows cannot be read", hint="restore a backup, or remove it") from None
