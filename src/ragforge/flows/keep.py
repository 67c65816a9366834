"""What is left of a question when it is answered: a turn of its conversation, and a line of the query log.

turn -> summary, tags, vector -> stored; spans of very old turns -> one titled summary each; question -> log
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from uuid import uuid4

import numpy as np

from ragforge.domain.access import Scope
from ragforge.domain.answers import Abstention, Result
from ragforge.domain.cancel import Cancel
from ragforge.domain.conversation import Remembered, Rollup, Turn
from ragforge.domain.library import Project
from ragforge.domain.records import LogEntry
from ragforge.errors import RagforgeError
from ragforge.flows.ask import WORDS, Asking, Kept, tokens_of
from ragforge.ports import Catalog, Clock, Embedder, LanguageModel
from ragforge.remember.rollup import Roller, rolled, spans, summary_of, tags_of
from ragforge.remember.words import text_of


class Keep:
    """Writes down what was asked and answered."""

    def __init__(
        self,
        catalog: Catalog,
        embedder_of: Callable[[Project], Embedder],
        cheap: Callable[[], LanguageModel | None],
        clock: Clock,
        *,
        log: bool,
    ) -> None:
        self._catalog = catalog
        self._embedder_of = embedder_of
        self._cheap = cheap
        self._clock = clock
        self._log = log

    def __call__(self, kept: Kept) -> None:
        """In one transaction: what is said to be stored is stored."""
        scope, project, asking = kept.scope, kept.project, kept.asking
        turn = self._turn(asking, kept.result) if asking.conversation else None
        vector = None if turn is None else self._vector(project, turn)
        with self._catalog.write() as c:
            if turn is not None:
                c.conversations.add(scope, project.id, turn, project.embedder_fingerprint, vector)
            if self._log:
                c.log.add(scope, project.id, self._entry(asking, kept.result))
        if turn is not None:
            self._roll(scope, project, asking.conversation)

    def _turn(self, asking: Asking, result: Result) -> Turn:
        shape, account = result.account.shape, result.account
        cited = () if isinstance(result, Abstention) else result.citations
        turn = Turn(
            id=uuid4().hex,
            conversation=asking.conversation,
            number=account.turn,
            question=asking.question,
            answer=result.text,
            asked_at=self._clock(),
            standalone=shape.standalone if shape.rewritten else "",
            abstained=isinstance(result, Abstention),
            tokens=tokens_of(f"{asking.question}\n{result.text}"),
            documents=tuple(dict.fromkeys(each.document for each in cited)),
        )
        return _described(turn)

    def _vector(self, project: Project, what: Turn | Rollup) -> bytes | None:
        """None if the model does not answer: then it is recalled by its words."""
        try:
            vector = self._embedder_of(project).embed_query(text_of(what), Cancel())
        except RagforgeError:
            return None
        return np.asarray(vector, np.float32).tobytes()

    def _roll(self, scope: Scope, project: Project, conversation: str) -> None:
        """Very old turns become one summary for each topic."""
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
            written = Roller(WORDS, tokens_of, self._cheap())(span, uuid4().hex, Cancel(30))
            rollup = rolled(span, written.draft, uuid4().hex, read_at, tokens_of)
            vector = self._vector(project, rollup)
            with self._catalog.write() as c:
                c.conversations.roll(scope, project.id, rollup, project.embedder_fingerprint, vector)

    def _entry(self, asking: Asking, result: Result) -> LogEntry:
        account = result.account
        generation = sum(account.timings.get(stage, 0.0) for stage in ("answer", "check"))
        return LogEntry(
            id=account.trace_id,
            asked_at=self._clock(),
            kind="abstention" if isinstance(result, Abstention) else "answer",
            question=asking.question,
            standalone=account.shape.standalone if account.shape.rewritten else "",
            agent=asking.agent,
            conversation=asking.conversation,
            k=asking.tuning.context_chunks,
            chunks=tuple((source.chunk, source.score) for source in account.sources),
            model=account.model,
            retrieval_ms=sum(account.timings.values()) - generation,
            generation_ms=generation,
            input_tokens=account.usage.input_tokens,
            output_tokens=account.usage.output_tokens,
            cost=account.usage.cost,
            error="; ".join(missing.message for missing in account.degraded),
        )


def _described(turn: Turn) -> Turn:
    return replace(turn, summary=summary_of(turn, WORDS), tags=tags_of(turn, WORDS))
