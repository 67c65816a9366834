"""The way of a question, told to whoever asks for it: `explain` of the command line and of the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ragforge.build import OFFLINE
from ragforge.domain.answers import Account, Prompted
from ragforge.domain.cancel import Cancel
from ragforge.domain.prompts import Injection
from ragforge.domain.retrieval import Filters, Tuning
from ragforge.interfaces.fields.explained import ExplainedSearch

if TYPE_CHECKING:
    from ragforge.app import Ragforge

Search = TypeVar("Search", bound=ExplainedSearch)


@dataclass(frozen=True, slots=True)
class Explanation(Generic[Search]):
    first: Search
    replays: list[Search]
    """The same under other settings."""
    prompted: Prompted
    """What would come of it."""


def explain_all(
    forge: Ragforge,
    question: str,
    project: str,
    *,
    filters: Filters,
    tuning: Tuning,
    kind: type[Search],
    conversation: str = "",
    model: str = "",
    changes: Sequence[tuple[str, Mapping[str, Any]]] = (),
    request: str = "",
    cancel: Cancel | None = None,
) -> Explanation[Search]:
    """Search as an answer would, and once more for each change of settings. No model is asked unless one is named."""
    thread = forge.conversation(conversation, project=project).id if conversation else ""
    cancel = cancel or Cancel()
    found = forge.explain(question, project=project, filters=filters, tuning=tuning, cancel=cancel)
    prompted = forge.prompt(
        question,
        project=project,
        model=model or OFFLINE,
        conversation=thread,
        filters=filters,
        tuning=tuning,
        request=request,
        cancel=cancel,
    )
    meant, narrowed = _searched(prompted.account, filters)
    if (meant, narrowed) != (question, filters):
        found = forge.explain(meant, project=project, filters=narrowed, tuning=tuning, cancel=cancel)

    def replayed(label: str, given: Mapping[str, Any]) -> Search:
        changed = replace(tuning, **given)
        return kind.of(label, forge.explain(meant, project=project, filters=narrowed, tuning=changed, cancel=cancel))

    replays = [replayed(label, given) for label, given in changes]
    return Explanation(kind.of("as asked", found), replays, prompted)


def _searched(account: Account, filters: Filters) -> tuple[str, Filters]:
    """What was searched for, and where: a question may be rewritten, and files that it names narrow the search."""
    named = [file.document for file in account.files if file.how is Injection.NARROWS or not account.model]
    wanted = [each for each in named if not filters.documents or each in filters.documents]
    return account.shape.standalone, replace(filters, documents=tuple(wanted) or filters.documents)
