"""What is left of a question when it is answered: a turn of its conversation, and a line of the query log.

turn -> what it may hold words of, summary, tags, vector -> stored; spans of very old turns -> one titled summary each
question -> log, as long as the settings say
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING
from uuid import uuid4

from ragforge.answer.clean import links_in
from ragforge.answer.stream import clean
from ragforge.domain.access import OWNER, Scope
from ragforge.domain.answers import Abstention, Answer, Result, WhyNot, by_model, read_for
from ragforge.domain.cancel import Cancel, Cancelled
from ragforge.domain.conversation import FORGOTTEN_ANSWER, Remembered, Stored, Turn
from ragforge.domain.generation import Usage
from ragforge.domain.library import Project
from ragforge.domain.records import LogEntry
from ragforge.domain.tokens import Passage, estimated_tokens
from ragforge.errors import NotFound, Outdated, RagforgeError
from ragforge.flows.ask import WORDS, Kept
from ragforge.flows.recollect import Unembedded, put_vectors, unembedded
from ragforge.ports import Catalog, Clock, Embedder, Unit
from ragforge.remember.rollup import Draft, Roller, rolled, spans, summary_of, tags_of
from ragforge.remember.words import text_of, uncited

if TYPE_CHECKING:
    from ragforge.domain.tokens import Vector

_EMBED_SECONDS = 1.0
"""An answer that is there does not wait longer for the vector by which it may be recalled."""
_CATCH_UP = 8
"""Turns without a vector that get theirs beside a new one."""


@dataclass(frozen=True, slots=True)
class _Past:
    """A conversation as it was before this turn."""

    turns: Sequence[Turn]
    vectors: dict[str, bytes]
    unembedded: Sequence[Unembedded]
    cosine_floor: float | None
    cuts: int


class Keep:
    """Writes down what was asked and answered."""

    def __init__(
        self,
        catalog: Catalog,
        owner: Scope,
        embedder_of: Callable[[Project], Embedder],
        clock: Clock,
        *,
        log: bool,
        log_text: bool = True,
        log_days: int = 0,
    ) -> None:
        self._catalog = catalog
        self._owner = owner
        self._embedder_of = embedder_of
        self._clock = clock
        self._log = log
        self._log_text = log_text
        self._log_days = log_days
        self._pruned: dict[str, date] = {}

    def __call__(self, kept: Kept) -> Stored:
        """In one transaction: what is said to be stored is stored."""
        if kept.asking.ephemeral:
            self._figures(kept)
            return Stored()
        stored = self._turn(kept) if kept.asking.conversation and kept.result is not None else self._entry_only(kept)
        self.prune(kept.project.id)
        return stored

    def _entry_only(self, kept: Kept) -> Stored:
        if self._log:
            with self._catalog.write() as c:
                c.log.add(kept.scope, kept.project.id, self._entry(kept, rewritten=_is_whole(c, kept)))
        else:
            self._figures(kept)
        return Stored()

    def _figures(self, kept: Kept) -> None:
        """Of somebody with a key, what a question took and nothing else: the limits of keys are counted from it."""
        if kept.scope.principal == OWNER or not kept.account.usage.calls:
            return
        entry = self._entry(kept, rewritten=False)
        if kept.result is None and not kept.error:
            entry = replace(entry, kind="search")  # a prompt that was only looked at
        bare = replace(entry, question="", agent="", conversation="", k=0, chunks=(), cited=(), error="")
        with self._catalog.write() as c:
            c.log.add(kept.scope, kept.project.id, bare)

    def paid(self, scope: Scope, project: str, kind: str, model: str, usage: Usage) -> None:
        """The same of what is no question, such as vectors of texts."""
        if scope.principal == OWNER or not usage.calls:
            return
        entry = LogEntry(
            uuid4().hex,
            self._clock(),
            kind,
            "",
            model=model,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cost=usage.cost,
        )
        with self._catalog.write() as c:
            c.log.add(scope, project, entry)

    def _turn(self, kept: Kept) -> Stored:
        scope, project, account, result = kept.scope, kept.project, kept.account, kept.result
        assert result is not None, "a question that came to nothing is no turn"
        past = self._past(kept)
        turn = _with_earlier(turn_of(result, self._clock()), kept, past)
        turn = turn if self._log else replace(turn, trace_id="")
        cancel = Cancel(_EMBED_SECONDS)
        vectors = self._vectors(project, [text_of(turn)], cancel)
        late = self._vectors(project, [each.text for each in past.unembedded], cancel) if vectors else []
        fingerprint = project.embedder_fingerprint
        with self._catalog.write() as c:
            vector = vectors[0].tobytes() if vectors else None
            added = c.conversations.add(scope, project.id, turn, fingerprint, vector, account.cuts)
            c.conversations.recalled(scope, project.id, [each.id for each in account.memory if each.kept])
            if late:
                put_vectors(c, scope, project.id, fingerprint, past.unembedded, late)
            if self._log:
                c.log.add(scope, project.id, self._entry(kept, rewritten=bool(added.standalone)))
        if not self._log:
            self._figures(kept)
        try:
            self._roll(kept, past, added.number + 1)
        except Cancelled:  # nobody waits any longer; they are summed up after the next question
            return Stored(added.number)
        except RagforgeError as problem:
            return Stored(added.number, (f"old turns could not be summed up: {problem.message}",))
        return Stored(added.number)

    def _past(self, kept: Kept) -> _Past:
        conversation, fingerprint = kept.asking.conversation, kept.project.embedder_fingerprint
        known_by = (kept.scope, kept.project.id, conversation)
        with self._catalog.read() as c:
            late = unembedded(c, kept.scope, kept.project.id, fingerprint, {conversation})
            return _Past(
                c.conversations.turns(*known_by),
                c.conversations.vectors(*known_by, fingerprint),
                list(islice(late, _CATCH_UP)),
                c.passages.moment(kept.scope, kept.project.id).cosine_floor,
                c.conversations.get(*known_by).cuts,
            )

    def _vectors(self, project: Project, texts: Sequence[str], cancel: Cancel) -> list[Vector]:
        """None of them if the model does not answer: then they are recalled by their words."""
        if not texts:
            return []
        try:
            return list(self._embedder_of(project).embed([Passage(text) for text in texts], cancel))
        except (RagforgeError, Cancelled):  # the clock is our own
            return []

    def _roll(self, kept: Kept, past: _Past, now: int) -> None:
        """Very old turns become one summary for each topic. What that takes is added to the question's entry."""
        remembered = [
            Remembered(turn, _vector(past.vectors.get(turn.id))) for turn in past.turns if not turn.rolled_into
        ]
        usage = Usage()
        try:
            for span in spans(remembered, now, recent=5, cosine_floor=past.cosine_floor):
                usage += self._roll_span(kept, span, past.cuts)
        finally:
            if usage.calls:
                with suppress(NotFound), self._catalog.write() as c:  # where nothing is logged
                    c.log.charge(kept.scope, kept.project.id, kept.account.trace_id, usage)

    def _roll_span(self, kept: Kept, span: Sequence[Turn], cuts: int) -> Usage:
        project, read_at = kept.project, self._clock()
        model = kept.cheap if kept.cancel.remaining() > 0 else None
        written = Roller(WORDS, estimated_tokens, model)(span, kept.account.trace_id, kept.cancel)
        own = links_in(turn.question for turn in span)
        draft = Draft(*(clean(text, (), own)[0] for text in (written.draft.title, written.draft.text)))
        rollup = rolled(span, draft, uuid4().hex, read_at, estimated_tokens)
        vectors = self._vectors(project, [text_of(rollup)], Cancel(_EMBED_SECONDS))
        vector = vectors[0].tobytes() if vectors else None
        with suppress(Outdated), self._catalog.write() as c:  # something of it was removed meanwhile
            c.conversations.roll(kept.scope, project.id, rollup, project.embedder_fingerprint, vector, cuts)
        return written.usage

    def prune(self, project: str) -> None:
        """Once a day, entries whose time is up, whoever asked; what somebody marked stays."""
        now = self._clock()
        if not self._log_days or self._pruned.get(project) == now.date():
            return
        self._pruned[project] = now.date()
        with suppress(RagforgeError):  # else tomorrow
            with self._catalog.write() as c:
                pruned = c.log.prune(self._owner, project, now - timedelta(days=self._log_days), marked=False)
            if pruned:
                self._catalog.flush()

    def _entry(self, kept: Kept, *, rewritten: bool) -> LogEntry:
        asking, account = kept.asking, kept.account
        generation = sum(account.timings.get(stage, 0.0) for stage in ("answer", "check"))
        kind = "error" if kept.result is None else "abstention" if isinstance(kept.result, Abstention) else "answer"
        return LogEntry(
            id=account.trace_id,
            asked_at=self._clock(),
            kind=kind,
            question=asking.question if self._log_text else "",
            standalone=account.shape.standalone if rewritten and account.shape.rewritten and self._log_text else "",
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
        documents=read_for(result),
        citations=result.citations if isinstance(result, Answer) else (),
        trace_id=account.trace_id,
        model=account.model if by_model(result) else "",
        quoted=isinstance(result, Answer) and result.quoted,
    )
    return replace(turn, summary=summary_of(turn, WORDS), tags=tags_of(turn, WORDS))


def _with_earlier(turn: Turn, kept: Kept, past: _Past) -> Turn:
    """The turn, marked if it may repeat earlier ones; with the documents of those that are kept elsewhere."""
    asking, account, result = kept.asking, kept.account, kept.result
    assert result is not None, "a question that came to nothing is no turn"
    earlier = [each.answer for each in (*past.turns, *asking.history) if each.answer != FORGOTTEN_ANSWER]
    is_cut = account.cuts not in (None, past.cuts)  # something was told that nobody can compare it with any more
    if not _was_told(result, "memory" in asking.stages) or not (is_cut or (earlier and _repeats(result, earlier))):
        return turn
    elsewhere = [document for each in asking.history for document in each.documents]
    return replace(turn, repeats=True, documents=tuple(dict.fromkeys((*turn.documents, *elsewhere))))


def _was_told(result: Result, remembers: bool) -> bool:
    """Whether what wrote its text had words of earlier turns before it."""
    rewritten = result.account.shape.rewritten
    if isinstance(result, Answer):
        return not result.quoted and (remembers or rewritten)
    return rewritten or (remembers and result.why is WhyNot.MODEL_SAYS)  # it names words that no passage has


def _repeats(result: Result, earlier: Sequence[str]) -> bool:
    """Whether its text may hold what only earlier answers say.

    Not if every claim of it is borne out by the passages it cites, and each word that it shares with an earlier answer
    is in its own passages or in the question.
    """
    account = result.account
    if isinstance(result, Abstention) or account.shape.casual or result.uncited or result.unproved:
        return True
    own = WORDS.of("\n".join((account.question, *(f"{each.name}\n{each.text}" for each in account.sources))))
    said = WORDS.of("\n".join(map(uncited, earlier)))
    return not (WORDS.of(uncited(result.text)) - own).isdisjoint(said)


def _is_whole(c: Unit, kept: Kept) -> bool:
    """Whether nothing was removed of the conversation with whose words the question may have been rewritten."""
    account = kept.account
    if not account.conversation:
        return True
    try:
        return account.cuts in (None, c.conversations.get(kept.scope, kept.project.id, account.conversation).cuts)
    except NotFound:
        return False


def _cited(result: Result | None) -> tuple[str, ...]:
    """The documents that it cites, each once."""
    return tuple(dict.fromkeys(each.document for each in result.citations)) if isinstance(result, Answer) else ()


def _vector(stored: bytes | None) -> Vector | None:
    import numpy as np

    return None if stored is None else np.frombuffer(stored, np.float32)
