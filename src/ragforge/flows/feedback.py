"""What a person thinks of an answer: a mark in the query log, and a question to measure by.

mark the entry -> which documents are right? -> a new version of the set `feedback`, with the question or without it
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass

from ragforge.domain.access import Scope
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
            question = _question(entry, good, expected or (cited if good else ()))
            _put(c, scope, project, id, question)
            return Feedback(c.log.get(scope, project, id), question)


def _question(entry: LogEntry, good: bool, documents: Collection[str]) -> Question | None:
    """What the answer teaches: where to find it, or that it is not there. None if nobody knows."""
    text = entry.standalone or entry.question  # as typed again when the conversation goes whose words are in it
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
