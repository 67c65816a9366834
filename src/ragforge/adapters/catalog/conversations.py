"""Conversations: turns, the rollups that stand for old ones, and the vectors of both.

A conversation belongs to the principal who began it; to all others it is not there. What is made from a turn goes
with it: its vector, the rollup that tells of it, and later questions that were rewritten with its words. An answer goes
with the documents it may hold words of, and takes later answers along that may repeat it. To a scope that may not know
of such a document any more, it looks as if that were gone.
"""

from __future__ import annotations

import json
import secrets
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Row

from ragforge.adapters.catalog import tables as t
from ragforge.adapters.catalog.evaluations import as_typed
from ragforge.adapters.catalog.interviews import forget_turn
from ragforge.adapters.catalog.tombstones import bury
from ragforge.adapters.catalog.unit import (
    Session,
    batches,
    cleared,
    milliseconds,
    moment,
    storable,
    stored_locator,
)
from ragforge.domain.access import Scope
from ragforge.domain.archives import Kind
from ragforge.domain.citations import Citation
from ragforge.domain.conversation import FORGOTTEN_ANSWER, Conversation, ConversationKind, Rollup, Turn
from ragforge.errors import NotFound, Outdated, UserError


class SqlConversations:
    def __init__(self, session: Session) -> None:
        self._session = session

    def begin(
        self,
        scope: Scope,
        project: str,
        title: str,
        id: str = "",
        kind: ConversationKind = ConversationKind.CHAT,
    ) -> Conversation:
        """A new one, under an id of its own unless it had one before."""
        session, row = self._session, self._session.project(scope, project)
        (key,) = session.keys(t.conversations, 1)
        now = session.now()
        facts = {
            "ord": key,
            "id": id or secrets.token_hex(8),
            "project": row.ord,
            "principal": scope.principal,
            "title": storable(title),
            "last": 0,
            "cuts": 0,
            "kind": str(kind),
            "created_at": now,
            "updated_at": now,
        }
        session.insert(t.conversations, [facts])
        return self.get(scope, project, str(facts["id"]))

    def get(self, scope: Scope, project: str, conversation: str) -> Conversation:
        row = self._visible(scope, project, conversation)
        return _conversation(row, project, len(self._withheld(scope, row.ord)))

    def all(self, scope: Scope, project: str) -> list[Conversation]:
        """The principal's own, the one that was spoken in last first."""
        newest_first = self._own(scope, project).order_by(
            t.conversations.c.updated_at.desc(), t.conversations.c.ord.desc()
        )
        found = self._session.execute(newest_first).all()
        return [_conversation(row, project, len(self._withheld(scope, row.ord))) for row in found]

    def rename(self, scope: Scope, project: str, conversation: str, title: str) -> Conversation:
        """Give it another title; its place among the others stays."""
        key = self._locked(scope, project, conversation)
        renamed = sa.update(t.conversations).where(t.conversations.c.ord == key).values(title=storable(title))
        self._session.execute(renamed)
        return self.get(scope, project, conversation)

    def remove(self, scope: Scope, project: str, conversation: str) -> None:
        """Remove it with its turns, rollups and vectors; the log keeps the questions, but not where they were asked."""
        remove_conversation(self._session, self._locked(scope, project, conversation), conversation)

    # -- turns

    def add(
        self, scope: Scope, project: str, turn: Turn, fingerprint: str, vector: bytes | None, cuts: int | None = None
    ) -> Turn:
        """Store a turn under the next number, which is never given twice. It is returned as it is stored.

        If a document that it may hold words of was removed while the answer was written, only the question is stored;
        likewise if it may repeat earlier turns and something was removed from the conversation since it had `cuts`.
        """
        session, row = self._session, self._session.project(scope, project)
        key = self._locked(scope, project, turn.conversation)
        is_cut = cuts is not None and cuts != self._cuts(scope, key)
        held = dict.fromkeys((*turn.documents, *(each.document for each in turn.citations)))
        gone = set(held) - session.still_there(row.ord, held)
        forgotten = bool(gone) or (is_cut and turn.repeats)
        next_number = (
            sa.update(t.conversations)
            .where(t.conversations.c.ord == key)
            .values(last=t.conversations.c.last + 1, updated_at=session.now())
            .returning(t.conversations.c.last)
        )
        number = session.execute(next_number).scalar_one()
        (turn_key,) = session.keys(t.turns, 1)
        facts = {"ord": turn_key, "conversation": key, "number": number, **_turn_row(turn)}
        lost = _FORGOTTEN if forgotten else {"standalone": ""} if is_cut else {}
        session.insert(t.turns, [facts | lost])
        if not forgotten:
            _rests_on(session, turn_key, held)
            if vector is not None:
                self._put_vector(key, turn.id, fingerprint, vector)
        (added,) = self._turns(key, t.turns.c.ord == turn_key)
        return added

    def turns(self, scope: Scope, project: str, conversation: str) -> list[Turn]:
        """All of them, in their order; also those that a rollup stands for."""
        key = self._visible(scope, project, conversation).ord
        return self._turns(key, withheld=self._withheld(scope, key))

    def update(
        self,
        scope: Scope,
        project: str,
        turn: str,
        *,
        summary: str | None = None,
        tags: Sequence[str] | None = None,
        importance: float | None = None,
    ) -> None:
        """Change what is given. A turn without its answer takes no summary and no tags: they were made from it."""
        found = self._turn(scope, project, turn)
        forgotten = found.answer == FORGOTTEN_ANSWER
        values: dict[str, Any] = {}
        if summary is not None and not forgotten:
            values["summary"] = storable(summary)
        if tags is not None and not forgotten:
            values["tags"] = _list_text(tags)
        if importance is not None:
            if not 0 <= importance <= 1:
                raise UserError(f"importance {importance} is not between 0 and 1", hint="1 keeps a turn from fading")
            values["importance"] = importance
        if values:
            self._session.execute(sa.update(t.turns).where(t.turns.c.ord == found.ord).values(values))

    def remove_turn(self, scope: Scope, project: str, turn: str) -> None:
        """Remove it with its vector; a rollup that tells of it goes too, and its other turns stand for themselves."""
        remove_turn(self._session, self._turn(scope, project, turn))

    def forget_document(self, scope: Scope, project: str, document: str) -> int:
        """Of turns that may hold its words, whoever asked, keep the question only. Returns how many there were."""
        session, row = self._session, self._session.project(scope, project)
        session.lock(row.ord)
        return 0 if session.is_above(scope, row.ord, document) else forget_in_turns(session, row.ord, [document])

    # -- rollups

    def roll(
        self,
        scope: Scope,
        project: str,
        rollup: Rollup,
        fingerprint: str,
        vector: bytes | None,
        cuts: int | None = None,
    ) -> None:
        """Let the rollup stand for the turns of its span.

        Refused if there are none, if another one stands for some, and if something was removed from the conversation
        since it had `cuts`, when its turns were read: the summary might still tell of it.
        """
        session, key = self._session, self._locked(scope, project, rollup.conversation)
        is_cut = cuts is not None and cuts != self._cuts(scope, key)
        span = (t.turns.c.conversation == key, t.turns.c.number.between(rollup.first, rollup.last))
        rolled = list(session.execute(sa.select(t.turns.c.rollup).where(*span)).scalars())
        if not rolled or any(other is not None for other in rolled) or is_cut:
            raise Outdated("these turns were removed or rolled up meanwhile", hint="read the conversation again")
        (rollup_key,) = session.keys(t.rollups, 1)
        session.insert(t.rollups, [{"ord": rollup_key, "conversation": key, **_rollup_row(rollup)}])
        session.execute(sa.update(t.turns).where(*span).values(rollup=rollup_key))
        if vector is not None:
            self._put_vector(key, rollup.id, fingerprint, vector)

    def unroll(self, scope: Scope, project: str, rollup: str) -> None:
        """Remove a rollup; its turns stand for themselves again."""
        key, _ = self._item(scope, project, t.rollups, rollup)
        _drop_rollups(self._session, [key])

    def rollups(self, scope: Scope, project: str, conversation: str) -> list[Rollup]:
        """In the order of their spans."""
        key = self._visible(scope, project, conversation).ord
        found = sa.select(t.rollups).where(t.rollups.c.conversation == key).order_by(t.rollups.c.first)
        withheld = self._withheld_items(scope, key)
        return [_rollup(row, conversation) for row in self._session.execute(found) if row.id not in withheld]

    def recalled(self, scope: Scope, project: str, rollups: Collection[str]) -> None:
        """Count that these were of use; what is gone meanwhile is passed over."""
        own = self._own(scope, project).with_only_columns(t.conversations.c.ord)
        for batch in batches(sorted(set(rollups))):
            self._session.execute(
                sa.update(t.rollups)
                .where(t.rollups.c.id.in_(batch), t.rollups.c.conversation.in_(own))
                .values(used=t.rollups.c.used + 1)
            )

    # -- vectors

    def vectors(self, scope: Scope, project: str, conversation: str, fingerprint: str) -> dict[str, bytes]:
        """By the id of the turn or rollup."""
        key = self._visible(scope, project, conversation).ord
        found = sa.select(t.memory_vectors.c.item, t.memory_vectors.c.vector).where(
            t.memory_vectors.c.conversation == key, t.memory_vectors.c.fingerprint == fingerprint
        )
        withheld = self._withheld_items(scope, key)
        return {row.item: bytes(row.vector) for row in self._session.execute(found) if row.item not in withheld}

    def unembedded(self, scope: Scope, project: str, conversation: str, fingerprint: str) -> list[str]:
        """Turns with their answer, and rollups, that have no vector of this model yet, in their order."""
        key = self._visible(scope, project, conversation).ord
        said = self._unembedded(t.turns, key, fingerprint).where(t.turns.c.answer != FORGOTTEN_ANSWER)
        made = self._unembedded(t.rollups, key, fingerprint)
        statements = (said.order_by(t.turns.c.number), made.order_by(t.rollups.c.first))
        found = [id for statement in statements for id in self._session.execute(statement).scalars()]
        withheld = self._withheld_items(scope, key) if found else set()
        return [id for id in found if id not in withheld]

    def _unembedded(self, table: sa.Table, conversation: int, fingerprint: str) -> sa.Select[Any]:
        vector = sa.exists().where(t.memory_vectors.c.item == table.c.id, t.memory_vectors.c.fingerprint == fingerprint)
        return sa.select(table.c.id).where(table.c.conversation == conversation, ~vector)

    def put_vector(self, scope: Scope, project: str, id: str, fingerprint: str, vector: bytes) -> None:
        """The vector of a turn or rollup that is still there, in place of an older one of this model.

        A turn that lost its answer takes none: it was made from that.
        """
        session = self._session
        is_turn = session.execute(sa.select(t.turns.c.ord).where(t.turns.c.id == id)).first() is not None
        key, conversation = self._item(scope, project, t.turns if is_turn else t.rollups, id)
        if is_turn and session.execute(_forgotten(key)).first():
            return
        self._put_vector(conversation, id, fingerprint, vector)

    def _put_vector(self, conversation: int, id: str, fingerprint: str, vector: bytes) -> None:
        same = (t.memory_vectors.c.item == id, t.memory_vectors.c.fingerprint == fingerprint)
        self._session.execute(sa.delete(t.memory_vectors).where(*same))
        facts = {"item": id, "fingerprint": fingerprint, "conversation": conversation, "vector": vector}
        self._session.insert(t.memory_vectors, [facts])

    # -- what the scope may reach

    def _own(self, scope: Scope, project: str) -> sa.Select[Any]:
        row = self._session.project(scope, project)
        counted = sa.select(sa.func.count()).where(t.turns.c.conversation == t.conversations.c.ord).scalar_subquery()
        return sa.select(t.conversations, counted.label("turns")).where(
            t.conversations.c.project == row.ord, t.conversations.c.principal == scope.principal
        )

    def _visible(self, scope: Scope, project: str, conversation: str) -> Row[Any]:
        """Its row, if it is the principal's. Another's and a missing one look the same."""
        own = self._own(scope, project).where(t.conversations.c.id == conversation)
        row = self._session.execute(own).one_or_none()
        if row is None:
            raise NotFound(f"no conversation {conversation!r}", hint="ragforge conversation ls shows yours")
        return row

    def _locked(self, scope: Scope, project: str, conversation: str) -> int:
        """Its key, for a change: one transaction after the other, so that none works on what another removes."""
        self._session.lock(self._session.project(scope, project).ord)
        return int(self._visible(scope, project, conversation).ord)

    def _cuts(self, scope: Scope, conversation: int) -> int:
        """What is withheld counts as removed."""
        counted = sa.select(t.conversations.c.cuts).where(t.conversations.c.ord == conversation)
        return int(self._session.execute(counted).scalar_one()) + len(self._withheld(scope, conversation))

    def _withheld(self, scope: Scope, conversation: int) -> set[int]:
        """Turns that may hold words of a document above the scope, and later ones that may repeat those."""
        if scope.sees_all:
            return set()
        within = t.turns.c.conversation == conversation
        first = self._session.execute(holding_above(scope, within).with_only_columns(sa.func.min(t.turns.c.number)))
        if (number := first.scalar()) is None:
            return set()
        repeating = sa.and_(within, t.turns.c.number > number, t.turns.c.repeats)
        both = sa.union(holding_above(scope, within), sa.select(t.turns.c.ord).where(repeating))
        return set(self._session.execute(both).scalars())

    def _withheld_items(self, scope: Scope, conversation: int) -> set[str]:
        """The ids of these turns, and of the rollups that tell of them."""
        keys = self._withheld(scope, conversation)
        items: set[str] = set()
        for batch in batches(sorted(keys)):
            found = (
                sa.select(t.turns.c.id, t.rollups.c.id)
                .outerjoin(t.rollups, t.rollups.c.ord == t.turns.c.rollup)
                .where(t.turns.c.ord.in_(batch))
            )
            items |= {id for row in self._session.execute(found) for id in row if id is not None}
        return items

    def _item(self, scope: Scope, project: str, table: sa.Table, id: str) -> tuple[int, int]:
        """The keys of a turn or rollup and of its conversation, for a change."""
        self._session.lock(self._session.project(scope, project).ord)
        own = self._own(scope, project).with_only_columns(t.conversations.c.ord)
        found = sa.select(table.c.ord, table.c.conversation).where(table.c.id == id, table.c.conversation.in_(own))
        row = self._session.execute(found).one_or_none()
        if row is None:
            raise NotFound(f"no {table.name.removesuffix('s')} {id!r}", hint="it may have been removed meanwhile")
        return row.ord, row.conversation

    def _turn(self, scope: Scope, project: str, turn: str) -> Row[Any]:
        key, _ = self._item(scope, project, t.turns, turn)
        return self._session.execute(sa.select(t.turns).where(t.turns.c.ord == key)).one()

    def _turns(self, conversation: int, *where: sa.ColumnElement[bool], withheld: Collection[int] = ()) -> list[Turn]:
        found = (
            sa.select(t.turns, t.conversations.c.id.label("in_conversation"), t.rollups.c.id.label("rolled_into"))
            .join(t.conversations, t.conversations.c.ord == t.turns.c.conversation)
            .outerjoin(t.rollups, t.rollups.c.ord == t.turns.c.rollup)
            .where(t.turns.c.conversation == conversation, *where)
            .order_by(t.turns.c.number)
        )
        held = (
            sa.select(t.turn_documents.c.turn, t.turn_documents.c.document)
            .join(t.turns, t.turns.c.ord == t.turn_documents.c.turn)
            .where(t.turns.c.conversation == conversation, *where)
            .order_by(t.turn_documents.c.turn, t.turn_documents.c.position)
        )
        documents: dict[int, list[str]] = defaultdict(list)
        for each in self._session.execute(held):
            documents[each.turn].append(each.document)
        turns: list[Turn] = []
        told_on = False
        for row in self._session.execute(found):
            turn = _turn(row, documents[row.ord])
            if row.ord in withheld:
                turn = _without_answer(turn)
                told_on = True
            turns.append(replace(turn, standalone="") if told_on else turn)  # rewritten with words of what was said
        return turns


def holding_above(scope: Scope, where: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """Of these turns, those that may hold words of a document that the scope may not know of."""
    return (
        sa.select(t.turns.c.ord)
        .join(t.turn_documents, t.turn_documents.c.turn == t.turns.c.ord)
        .join(t.documents, t.documents.c.id == t.turn_documents.c.document)
        .where(where, ~cleared(scope))
    )


def remove_conversation(session: Session, key: int, id: str) -> None:
    _forget_rewrites(session, key, 0)
    session.execute(sa.delete(t.conversations).where(t.conversations.c.ord == key))
    bury(session, Kind.CONVERSATION, [(id, "")])


def remove_turn(session: Session, turn: Row[Any]) -> None:
    _bequeath(session, turn)
    _drop_vectors(session, [turn.id])
    _drop_rollups(session, [turn.rollup])
    forget_turn(session, turn.conversation, turn.number)
    _cut(session, turn.conversation, turn.number)
    session.execute(sa.delete(t.turns).where(t.turns.c.ord == turn.ord))
    bury(session, Kind.TURN, [(turn.id, "")])


def forget_in_turns(session: Session, project: int, documents: Sequence[str]) -> int:
    """Of the project's turns that may hold words of the documents, and of later ones that may repeat those, keep the
    question only. Returns how many there were."""
    forgotten = 0
    for some in batches(documents):
        holding = sa.select(t.turn_documents.c.turn).where(t.turn_documents.c.document.in_(some))
        in_project = sa.select(t.conversations.c.ord).where(t.conversations.c.project == project)
        first = (
            sa.select(t.turns.c.conversation, sa.func.min(t.turns.c.number).label("number"))
            .where(t.turns.c.ord.in_(holding), t.turns.c.conversation.in_(in_project))
            .group_by(t.turns.c.conversation)
        )
        for cut in session.execute(first).all():
            told_on = sa.and_(t.turns.c.number > cut.number, t.turns.c.repeats, t.turns.c.answer != FORGOTTEN_ANSWER)
            found = session.execute(
                sa.select(t.turns.c.ord, t.turns.c.id, t.turns.c.rollup).where(
                    t.turns.c.conversation == cut.conversation, sa.or_(t.turns.c.ord.in_(holding), told_on)
                )
            ).all()
            for batch in batches(found):
                keys = [row.ord for row in batch]
                session.execute(sa.update(t.turns).where(t.turns.c.ord.in_(keys)).values(_FORGOTTEN))
                session.execute(sa.delete(t.turn_documents).where(t.turn_documents.c.turn.in_(keys)))
                _drop_vectors(session, [row.id for row in batch])
                _drop_rollups(session, [row.rollup for row in batch])
            _cut(session, cut.conversation, cut.number)
            forgotten += len(found)
    return forgotten


_FORGOTTEN = {"answer": FORGOTTEN_ANSWER, "standalone": "", "summary": "", "tags": "[]", "citations": "[]"}


def _without_answer(turn: Turn) -> Turn:
    """As it would be if its documents were gone."""
    return replace(turn, answer=FORGOTTEN_ANSWER, standalone="", summary="", tags=(), citations=(), documents=())


def _forgotten(turn: int) -> sa.Select[Any]:
    return sa.select(t.turns.c.ord).where(t.turns.c.ord == turn, t.turns.c.answer == FORGOTTEN_ANSWER)


def _cut(session: Session, conversation: int, number: int) -> None:
    """A turn went, or its answer: what was made from it meanwhile comes too late."""
    _forget_rewrites(session, conversation, number)
    cut = sa.update(t.conversations).where(t.conversations.c.ord == conversation)
    session.execute(cut.values(cuts=t.conversations.c.cuts + 1))


def _rests_on(session: Session, turn: int, documents: Iterable[str], first: int = 0) -> None:
    """Documents that a turn may hold words of, from this position on."""
    rows = [
        {"turn": turn, "position": place, "document": document}
        for place, document in enumerate(dict.fromkeys(documents), first)
    ]
    session.insert(t.turn_documents, rows)


def _bequeath(session: Session, turn: Row[Any]) -> None:
    """The next turn that may repeat this one goes with its documents from now on, and takes those after it along."""
    heir = (
        sa.select(t.turns.c.ord)
        .where(t.turns.c.conversation == turn.conversation, t.turns.c.number > turn.number)
        .where(t.turns.c.repeats, t.turns.c.answer != FORGOTTEN_ANSWER)
        .order_by(t.turns.c.number)
        .limit(1)
    )
    key = session.execute(heir).scalar_one_or_none()
    if key is None:
        return
    held = sa.select(t.turn_documents.c.document).order_by(t.turn_documents.c.position)
    own, left = (
        list(session.execute(held.where(t.turn_documents.c.turn == each)).scalars()) for each in (key, turn.ord)
    )
    _rests_on(session, key, (document for document in left if document not in own), len(own))


def _forget_rewrites(session: Session, conversation: int, number: int) -> None:
    """Later questions were rewritten with words of what was said before; only what was typed stays."""
    later = (t.turns.c.conversation == conversation, t.turns.c.number > number)
    session.execute(sa.update(t.turns).where(*later).values(standalone=""))
    logged = t.query_log.c.conversation == conversation
    as_typed(session, logged)
    session.execute(sa.update(t.query_log).where(logged).values(standalone=""))


def _drop_rollups(session: Session, keys: Iterable[int | None]) -> None:
    """Remove rollups with their vectors; their turns lose the link by themselves."""
    for batch in batches({key for key in keys if key is not None}):
        ids = session.execute(sa.select(t.rollups.c.id).where(t.rollups.c.ord.in_(batch))).scalars()
        _drop_vectors(session, list(ids))
        session.execute(sa.delete(t.rollups).where(t.rollups.c.ord.in_(batch)))


def _drop_vectors(session: Session, ids: Iterable[str]) -> None:
    for batch in batches(ids):
        session.execute(sa.delete(t.memory_vectors).where(t.memory_vectors.c.item.in_(batch)))


def _list_text(items: Sequence[object]) -> str:
    return storable(json.dumps(list(items), ensure_ascii=False))


def _conversation(row: Row[Any], project: str, withheld: int) -> Conversation:
    times = (moment(row.created_at), moment(row.updated_at))
    return Conversation(row.id, project, row.title, row.turns, *times, row.cuts + withheld, ConversationKind(row.kind))


def _turn_row(turn: Turn) -> dict[str, Any]:
    return {
        "id": turn.id,
        "question": storable(turn.question),
        "answer": storable(turn.answer),
        "asked_at": milliseconds(turn.asked_at),
        "standalone": storable(turn.standalone),
        "abstained": turn.abstained,
        "summary": storable(turn.summary),
        "tags": _list_text(turn.tags),
        "importance": turn.importance,
        "tokens": turn.tokens,
        "source": turn.source,
        "probe": storable(turn.probe),
        "mode": turn.mode,
        "repeats": turn.repeats,
        "citations": _list_text([asdict(each) for each in turn.citations]),
        "trace_id": storable(turn.trace_id),
        "model": storable(turn.model),
        "quoted": turn.quoted,
    }


def _turn(row: Row[Any], documents: Sequence[str]) -> Turn:
    return Turn(
        id=row.id,
        conversation=row.in_conversation,
        number=row.number,
        question=row.question,
        answer=row.answer,
        asked_at=moment(row.asked_at),
        standalone=row.standalone,
        abstained=row.abstained,
        summary=row.summary,
        tags=tuple(json.loads(row.tags)),
        importance=row.importance,
        tokens=row.tokens,
        documents=tuple(documents),
        repeats=row.repeats,
        source=row.source,
        probe=row.probe,
        mode=row.mode,
        rolled_into=row.rolled_into or "",
        citations=tuple(_citation(each) for each in json.loads(row.citations)),
        trace_id=row.trace_id,
        model=row.model,
        quoted=row.quoted,
    )


def _citation(stored: dict[str, Any]) -> Citation:
    return Citation(**stored | {"locator": stored_locator(stored["locator"])})


def _rollup_row(rollup: Rollup) -> dict[str, Any]:
    return {
        "id": rollup.id,
        "first": rollup.first,
        "last": rollup.last,
        "title": storable(rollup.title),
        "text": storable(rollup.text),
        "made_at": milliseconds(rollup.made_at),
        "tokens": rollup.tokens,
        "used": rollup.used,
    }


def _rollup(row: Row[Any], conversation: str) -> Rollup:
    return Rollup(
        id=row.id,
        conversation=conversation,
        first=row.first,
        last=row.last,
        title=row.title,
        text=row.text,
        made_at=moment(row.made_at),
        tokens=row.tokens,
        used=row.used,
    )
