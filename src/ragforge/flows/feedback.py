"""What a person thinks of an answer: a mark in the query log, and a question to measure by.

mark the entry -> which documents are right? -> a new version of the set `feedback`, with the question or without it
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass

from ragforge.domain.access import Clearance, Scope
from ragforge.domain.evaluation import FEEDBACK, Feedback, Question
from ragforge.domain.records import LogEntry
from ragforge.errors import NotFound, UserError
from ragforge.ports import Catalog, Unit


@dataclass(frozen=True, slots=True)
class GiveFeedback:
    """Marks answers of a project. A second mark replaces the first, also in the set."""

    catalog: Catalog

    def __call__(
        self, scope: Scope, project: str, id: str, *, good: bool, note: str, expected: Collection[str]
    ) -> Feedback:
        """Of an answer, by its id in the log. `expected` are ids of the documents that are right."""
        with self.catalog.write() as c:
            entry = c.log.get(scope, project, id)
            if entry.kind == "error":
                raise UserError("there was no answer to that question", hint="ask it again, then judge the answer")
            c.log.mark(scope, project, id, "good" if good else "bad", note)
            cited = [each for each in entry.cited if each in c.documents.known(scope, project, entry.cited)]
            right = expected or (cited if good else ())
            question = _question(entry, _words(c, scope, project, entry, right), good, right)
            _put(c, scope, project, id, question)
            return Feedback(c.log.get(scope, project, id), question)


def _words(c: Unit, scope: Scope, project: str, entry: LogEntry, right: Collection[str]) -> str:
    """The question as it was searched for; it is as typed again when the conversation goes whose words are in it.

    Whoever may know of the right documents reads it, so it may have words of nothing that is more confidential. Where
    none is right, only those read it who may know of all.
    """
    if not entry.standalone or not right:
        return entry.standalone or entry.question
    told = {each for turn in c.conversations.turns(scope, project, entry.conversation) for each in turn.documents}
    levels = {each.id: each.labels.confidentiality for each in c.documents.get(scope, project, told | set(right))}
    highest = max((levels[each] for each in right if each in levels), default=min(Clearance))
    is_open = all(each in levels and levels[each] <= highest for each in told)
    return entry.standalone if is_open else entry.question


def _question(entry: LogEntry, text: str, good: bool, documents: Collection[str]) -> Question | None:
    """What the answer teaches: where to find it, or that it is not there. None if nobody knows."""
    if entry.kind == "document" or not text:  # its title asks nothing, or the log keeps no text
        return None
    if documents:
        return Question(entry.id, text, dict.fromkeys(documents, 1.0))
    return Question(entry.id, text, answerable=False) if good and entry.kind == "abstention" else None


def _put(c: Unit, scope: Scope, project: str, id: str, question: Question | None) -> None:
    """The set with this question in the place of an earlier one of the same entry."""
    known: list[Question] = []
    with suppress(NotFound):
        known = c.evaluations.questions(scope, project, FEEDBACK)
    place = next((place for place, each in enumerate(known) if each.id == id), len(known))
    changed = [*known[:place], *([question] if question else []), *known[place + 1 :]]
    if changed != known:
        c.evaluations.put_questions(scope, project, FEEDBACK, "", changed)
