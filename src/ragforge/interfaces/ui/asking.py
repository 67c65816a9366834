"""Questions on their way: a thread works on each, and pages look at it as often as they like.

So a rerun of a page, a reload or a second tab aborts nothing. Who asked is the only one who sees it. What is said in an
interview goes the same way, as a `Said`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from enum import StrEnum
from uuid import uuid4

from ragforge.domain.answers import Abstention, DoneEvent, Result, RetrievalEvent, TokenEvent
from ragforge.domain.cancel import Cancel, Cancelled
from ragforge.domain.discovery import Changed, Decided, Decision, Gathered, InterviewTurn, TurnDone
from ragforge.domain.prompts import Source
from ragforge.errors import Busy, OverLimit, RagforgeError

_AT_ONCE = 16
"""Questions that are worked on at the same time."""
_KEPT = 200
"""Results whose whole account is kept in memory, for the views Why and Prompt."""

log = logging.getLogger("ragforge.ui")


class Step(StrEnum):
    """How far a question is."""

    LOOKING = "looking"
    READING = "reading"
    WRITING = "writing"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"


class Asked:
    """One question on its way. Written by its thread, read by pages: `step` tells the end last of all."""

    def __init__(self, question: str, thread: str) -> None:
        self.id = uuid4().hex
        self.question = question
        self.thread = thread
        self.began = time.monotonic()
        self.step = Step.LOOKING
        self.text = ""
        self.sources: tuple[Source, ...] = ()
        self.result: Result | None = None
        self.problem: RagforgeError | None = None
        self.cancel = Cancel()

    @property
    def ended(self) -> bool:
        return self.step in (Step.DONE, Step.FAILED, Step.STOPPED)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    def stop(self) -> None:
        self.cancel.set()

    def heard(self, event: object) -> None:
        match event:
            case RetrievalEvent():
                self.sources = event.sources
                self.step = Step.READING
            case TokenEvent():
                self.text += event.text
                self.step = Step.WRITING
            case DoneEvent():
                self.result = event.result
            case _:
                pass

    @property
    def came(self) -> bool:
        """Whether all of the answer is there."""
        return self.result is not None

    @property
    def place(self) -> tuple[str, int]:
        """The conversation and the number of the turn that it became; nothing if it became none."""
        return ("", 0) if self.result is None else (self.result.account.conversation, self.result.account.turn)

    def reads(self, document: str) -> bool:
        """Whether words of the document may be in what came."""
        if self.result is None:
            return False
        nearest = [each.document for each in self.result.nearest] if isinstance(self.result, Abstention) else []
        return document in (*nearest, *(source.document for source in self.result.account.sources))


class Said(Asked):
    """What a person said in an interview, on its way to what they are asked next."""

    def __init__(self, message: str, interview: str, number: int) -> None:
        super().__init__(message, interview)
        self.number = number
        """Of the turn that it is to be: said twice, it counts once."""
        self.decision: Decision | None = None
        self.changes = 0
        """What was registered so far, or refused."""
        self.done: InterviewTurn | None = None

    def heard(self, event: object) -> None:
        match event:
            case Decided():
                self.decision = event.decision
                self.step = Step.READING if event.decision.requires_retrieval else Step.WRITING
            case Gathered():
                self.sources = event.sources
                self.step = Step.WRITING
            case Changed():
                self.changes += 1
            case TurnDone():
                self.done = event.done
            case _:
                pass

    @property
    def came(self) -> bool:
        return self.done is not None

    @property
    def place(self) -> tuple[str, int]:
        return ("", 0) if self.done is None else (self.done.interview, self.done.turn.number)

    def reads(self, document: str) -> bool:
        held = self.done.turn.documents if self.done is not None else ()
        sources = (*self.sources, *(self.done.account.sources if self.done is not None else ()))
        return document in (*held, *(source.document for source in sources))


class Answers:
    """The questions of this process: those at work, the last of each thread, and how answers came about."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._at_work: dict[str, str] = {}
        """Who asked, by the question's id."""
        self._latest: OrderedDict[tuple[str, str], Asked] = OrderedDict()
        self._kept: OrderedDict[tuple[str, str, int], Asked] = OrderedDict()
        """By who asked, the conversation and the turn."""

    def check(self, visitor: str, thread: str, at_once: int = 0) -> None:
        """Whether one more may be asked; raises `Busy`, or `OverLimit` for who may ask only so many at once."""
        latest = self._latest.get((visitor, thread))
        if latest is not None and not latest.ended:
            raise Busy("an answer is being written in this conversation", hint="wait for it, or stop it")
        if at_once and sum(who == visitor for who in self._at_work.values()) >= at_once:
            raise OverLimit(f"this key may ask {at_once} at once", hint="wait until one is answered", retry_after=1.0)
        if len(self._at_work) >= _AT_ONCE:
            raise Busy("too many questions are being answered already", hint="ask again in a moment")

    def ask(
        self,
        visitor: str,
        question: str,
        thread: str,
        stream: Callable[[Cancel], Iterator[object]],
        *,
        may_go_on: Callable[[], bool] = lambda: True,
        at_once: int = 0,
    ) -> Asked:
        """Begin to answer a question."""
        asked = Asked(question, thread)
        self.begin(visitor, asked, stream, may_go_on=may_go_on, at_once=at_once)
        return asked

    def begin(
        self,
        visitor: str,
        asked: Asked,
        stream: Callable[[Cancel], Iterator[object]],
        *,
        may_go_on: Callable[[], bool] = lambda: True,
        at_once: int = 0,
    ) -> None:
        """`stream` is called in a thread of its own, with what stops it.

        It stops, too, when whoever asked may not go on.
        """
        with self._lock:
            self.check(visitor, asked.thread, at_once)
            self._at_work[asked.id] = visitor
            self._latest[visitor, asked.thread] = asked
            self._latest.move_to_end((visitor, asked.thread))
            self._forget_oldest()
        work = threading.Thread(
            target=self._work, args=(visitor, asked, stream, may_go_on), name="ragforge-answer", daemon=True
        )
        work.start()

    def latest(self, visitor: str, thread: str) -> Asked | None:
        """The last question of a thread, unless that was forgotten."""
        return self._latest.get((visitor, thread))

    def forget(self, visitor: str, thread: str) -> None:
        """Its last question need not be shown any more; should it still be worked on, nobody waits for it."""
        with self._lock:
            asked = self._latest.pop((visitor, thread), None)
        if asked is not None:
            asked.stop()

    def result(self, visitor: str, conversation: str, turn: int) -> Result | None:
        """How the answer of a turn came about, as long as this process remembers it."""
        found = self._kept.get((visitor, conversation, turn))
        return None if found is None else found.result

    def said(self, visitor: str, interview: str, turn: int) -> InterviewTurn | None:
        """How a turn of an interview came about, as long as this process remembers it."""
        found = self._kept.get((visitor, interview, turn))
        return found.done if isinstance(found, Said) else None

    def forget_document(self, document: str) -> None:
        """It was deleted: nothing that was read from it stays here either."""
        with self._lock:
            for key in [key for key, asked in self._kept.items() if asked.reads(document)]:
                del self._kept[key]
            for ended in [key for key, asked in self._latest.items() if asked.ended and asked.reads(document)]:
                del self._latest[ended]

    def stop_all(self) -> None:
        with self._lock:
            for asked in self._latest.values():
                asked.stop()

    def _work(
        self,
        visitor: str,
        asked: Asked,
        stream: Callable[[Cancel], Iterator[object]],
        may_go_on: Callable[[], bool],
    ) -> None:
        step = Step.FAILED
        try:
            for event in stream(asked.cancel):
                asked.heard(event)
                asked.cancel.check()
                if not may_go_on():
                    raise Cancelled
            step = Step.DONE
        except Cancelled:
            step = Step.DONE if asked.came else Step.STOPPED
        except RagforgeError as problem:
            asked.problem = problem
        except Exception:
            log.exception("a question failed")
            asked.problem = RagforgeError("something went wrong here", hint="the log of ragforge ui tells more")
        finally:
            with self._lock:
                del self._at_work[asked.id]
                self._keep(visitor, asked)
            asked.step = step

    def _keep(self, visitor: str, asked: Asked) -> None:
        """Of what is kept in a conversation. What is not belongs to the page that asked, and goes with it."""
        conversation, turn = asked.place
        if conversation and turn:
            self._kept[visitor, conversation, turn] = asked
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)

    def _forget_oldest(self) -> None:
        ended = [key for key, asked in self._latest.items() if asked.ended]
        for key in ended[: max(0, len(self._latest) - _KEPT)]:
            del self._latest[key]
