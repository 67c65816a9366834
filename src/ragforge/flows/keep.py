"""What is left of a question when it is answered: a turn of its conversation, and a line of the query log.

turn -> summary, tags, vector -> stored; spans of very old turns -> one titled summary each; question -> log
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from uuid import uuid4

import numpy as np

from ragforge.answer.clean import links_in
from ragforge.answer.stream import clean
from ragforge.domain.access import Scope
from ragforge.domain.answers import Abstention, Answer, Result
from ragforge.domain.cancel import Cancel, Cancelled
from ragforge.domain.conversation import Remembered, Rollup, Turn
from ragforge.domain.library import Project
from ragforge.domain.records import LogEntry
from ragforge.domain.tokens import estimated_tokens
from ragforge.errors import Outdated, RagforgeError
from ragforge.flows.ask import WORDS, Kept
from ragforge.ports import Catalog, Clock, Embedder
from ragforge.remember.rollup import Draft, Roller, rolled, spans, summary_of, tags_of
from ragforge.remember.words import text_of

_EMBED_SECONDS = 1.0
"""An answer that is there does not wait longer for the vector by which it may be recalled."""


class Keep:
    """Writes down what was asked and answered."""

    def __init__(
        self,
        catalog: Catalog,
        embedder_of: Callable[[Project], Embedder],
        clock: Clock,
        *,
        log: bool,
    ) -> None:
        self._catalog = catalog
        self._embedder_of = embedder_of
        self._clock = clock
        self._log = log

    def __call__(self, kept: Kept) -> None:
        """In one transaction: what is said to be stored is stored."""
        scope, project, asking = kept.scope, kept.project, kept.asking
        turn = turn_of(kept.result, self._clock()) if asking.conversation and kept.result is not None else None
        vector = None if turn is None else self._vector(project, turn)
        with self._catalog.write() as c:
            if turn is not None:
                c.conversations.add(scope, project.id, turn, project.embedder_fingerprint, vector)
                c.conversations.recalled(scope, project.id, [each.id for each in kept.account.memory if each.kept])
            if self._log:
                c.log.add(scope, project.id, self._entry(kept))
        if turn is not None:
            self._roll(scope, project, kept)

    def _vector(self, project: Project, what: Turn | Rollup) -> bytes | None:
        """None if the model does not answer: then it is recalled by its words."""
        try:
            vector = self._embedder_of(project).embed_query(text_of(what), Cancel(_EMBED_SECONDS))
        except (RagforgeError, Cancelled):  # the clock is our own
            return None
        return np.asarray(vector, np.float32).tobytes()

    def _roll(self, scope: Scope, project: Project, kept: Kept) -> None:
        """Very old turns become one summary for each topic."""
        conversation = kept.asking.conversation
        read_at = self._clock()  # a rollup of something that is removed meanwhile is refused
        with self._catalog.read() as c:
            turns = [turn for turn in c.conversations.turns(scope, project.id, conversation) if not turn.rolled_into]
            vectors = c.conversations.vectors(scope, project.id, conversation, project.embedder_fingerprint)
            floor = c.passages.moment(scope, project.id).cosine_floor
        remembered = [
            Remembered(turn, np.frombuffer(vectors[turn.id], np.float32) if turn.id in vectors else None)
            for turn in turns
        ]
        for span in spans(remembered, turns[-1].number + 1 if turns else 1, recent=5, cosine_floor=floor):
            model = kept.cheap if kept.cancel.remaining() > 0 else None
            written = Roller(WORDS, estimated_tokens, model)(span, kept.account.trace_id, kept.cancel)
            own = links_in(turn.question for turn in span)
            draft = Draft(*(clean(text, (), own)[0] for text in (written.draft.title, written.draft.text)))
            rollup = rolled(span, draft, uuid4().hex, read_at, estimated_tokens)
            vector = self._vector(project, rollup)
            with suppress(Outdated), self._catalog.write() as c:  # something of it was removed meanwhile
                c.conversations.roll(scope, project.id, rollup, project.embedder_fingerprint, vector)

    def _entry(self, kept: Kept) -> LogEntry:
        asking, account = kept.asking, kept.account
        generation = sum(account.timings.get(stage, 0.0) for stage in ("answer", "check"))
        kind = "error" if kept.result is None else "abstention" if isinstance(kept.result, Abstention) else "answer"
        return LogEntry(
            id=account.trace_id,
            asked_at=self._clock(),
            kind=kind,
            question=asking.question,
            standalone=account.shape.standalone if account.shape.rewritten else "",
            agent=asking.agent,
            conversation=asking.conversation,
            k=asking.tuning.context_chunks,
            chunks=tuple((source.chunk, source.score) for source in account.sources),
            cited=_cited(kept.result),
            model=account.model,
            profile=asking.profile,
            retrieval_ms=sum(account.timings.values()) - generation,
            generation_ms=generation,
            input_tokens=account.usage.input_tokens,
            output_tokens=account.usage.output_tokens,
            cost=account.usage.cost,
            error="; ".join(filter(None, (kept.error, *(missing.message for missing in account.degraded)))),
        )


def turn_of(result: Result, now: datetime) -> Turn:
    """A question and what came back, as a conversation keeps them."""
    account = result.account
    turn = Turn(
        id=uuid4().hex,
        conversation=account.conversation,
        number=max(1, account.turn),
        question=account.question,
        answer=result.text,
        asked_at=now,
        standalone=account.shape.standalone if account.shape.rewritten else "",
        abstained=isinstance(result, Abstention),
        tokens=estimated_tokens(f"{account.question}\n{result.text}"),
        documents=_cited(result),
    )
    return replace(turn, summary=summary_of(turn, WORDS), tags=tags_of(turn, WORDS))


def _cited(result: Result | None) -> tuple[str, ...]:
    """The documents that it cites, each once."""
    return tuple(dict.fromkeys(each.document for each in result.citations)) if isinstance(result, Answer) else ()
