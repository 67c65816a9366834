"""Questions on their way: a thread works on each, and pages look at it as often as they like.

So a rerun of a page, a reload or a second tab aborts nothing. Who asked is the only one who sees it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import StrEnum
from uuid import uuid4

from ragforge.domain.answers import DecisionEvent, DoneEvent, Event, Result, RetrievalEvent, TokenEvent
from ragforge.domain.cancel import Cancel, Cancelled
from ragforge.domain.prompts import Shape, Source
from ragforge.domain.retrieval import Degraded
from ragforge.errors import Busy, RagforgeError

_AT_ONCE = 16
"""Questions that are worked on at the same time."""
_KEPT = 200
"""Results whose whole account is kept in memory, for the tabs Why and Prompt."""

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
    """One question on its way. Written by its thread, read by pages."""

    def __init__(self, question: str, conversation: str) -> None:
        self.id = uuid4().hex
        self.question = question
        self.conversation = conversation
        self.began = time.monotonic()
        self.step = Step.LOOKING
        self.text = ""
        self.sources: tuple[Source, ...] = ()
        self.degraded: tuple[Degraded, ...] = ()
        self.shape: Shape | None = None
        self.candidates = 0
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

    def heard(self, event: Event) -> None:
        match event:
            case RetrievalEvent():
                self.sources, self.shape, self.degraded = event.sources, event.shape, event.degraded
                self.step = Step.READING
            case DecisionEvent():
                self.candidates += 1
            case TokenEvent():
                self.text += event.text
                self.step = Step.WRITING
            case DoneEvent():
                self.result = event.result
            case _:
                pass


class Answers:
    """All questions that were asked in this process, as far as they are remembered."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._latest: OrderedDict[tuple[str, str], Asked] = OrderedDict()
        self._results: OrderedDict[tuple[str, str], Result] = OrderedDict()

    def ask(self, visitor: str, question: str, conversation: str, stream: Callable[[Cancel], Iterator[Event]]) -> Asked:
        """Begin. `stream` is called in a thread of its own, with what stops it."""
        asked = Asked(question, conversation)
        with self._lock:
            if sum(not each.ended for each in self._latest.values()) >= _AT_ONCE:
                raise Busy("too many questions are being answered already", hint="ask again in a moment")
            self._latest[visitor, conversation] = asked
            while len(self._latest) > _KEPT:
                self._latest.popitem(last=False)
        threading.Thread(target=self._work, args=(visitor, asked, stream), name="ragforge-answer", daemon=True).start()
        return asked

    def latest(self, visitor: str, conversation: str) -> Asked | None:
        """The last question of a conversation, unless that was forgotten."""
        return self._latest.get((visitor, conversation))

    def forget(self, visitor: str, conversation: str) -> None:
        """Its last question need not be shown any more; should it still be worked on, nobody waits for it."""
        with self._lock:
            asked = self._latest.pop((visitor, conversation), None)
        if asked is not None:
            asked.stop()

    def result(self, visitor: str, trace_id: str) -> Result | None:
        """How an answer came about, as long as this process remembers it."""
        return self._results.get((visitor, trace_id))

    def stop_all(self) -> None:
        with self._lock:
            for asked in self._latest.values():
                asked.stop()

    def _work(self, visitor: str, asked: Asked, stream: Callable[[Cancel], Iterator[Event]]) -> None:
        step = Step.FAILED
        try:
            for event in stream(asked.cancel):
                asked.heard(event)
                asked.cancel.check()
            step = Step.DONE
        except Cancelled:
            step = Step.DONE if asked.result is not None else Step.STOPPED
        except RagforgeError as problem:
            asked.problem = problem
        except Exception:
            log.exception("a question failed")
            asked.problem = RagforgeError("something went wrong here", hint="the log of ragforge ui tells more")
        finally:
            if asked.result is not None:
                self._keep(visitor, asked.result)
            asked.step = step

    def _keep(self, visitor: str, result: Result) -> None:
        with self._lock:
            self._results[visitor, result.account.trace_id] = result
            while len(self._results) > _KEPT:
                with suppress(KeyError):
                    self._results.popitem(last=False)
