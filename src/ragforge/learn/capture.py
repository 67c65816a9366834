"""What is told about a failure or a person's decision, made fit to be kept: complete, bounded, without secrets.

What comes out of a context block is refused: lessons that are read must not be counted as lessons that were learnt.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import replace

from ragforge.domain.lessons import ANY, TOLD, EntryType, Facets, LessonFilters, Told, Words
from ragforge.errors import UserError

LONGEST = 8_000
"""Characters of one text."""
LONGEST_NAME = 100
"""Of an agent, a task, a technology or a gate."""
_NEEDED: Mapping[EntryType, tuple[str, ...]] = {
    EntryType.FAILURE: ("failure_description", "solution_steps"),
    EntryType.REJECTION: ("gate_type", "human_feedback", "revision_approach"),
    EntryType.APPROVAL: ("gate_type", "approved_approach"),
}
_COMMON = ("task", "decision_criteria", "evidence")
_TAKEN: Mapping[EntryType, frozenset[str]] = {
    EntryType.FAILURE: frozenset({*_COMMON, *_NEEDED[EntryType.FAILURE], "error_message"}),
    EntryType.REJECTION: frozenset({*_COMMON, *_NEEDED[EntryType.REJECTION]}),
    EntryType.APPROVAL: frozenset({*_COMMON, *_NEEDED[EntryType.APPROVAL]}),
}
_OF_A_BLOCK = re.compile(
    r"\[\W*orchestrator\W+context\W+historical|\[\W*end\W*context\W*\]"
    r"|pattern\s+\d+\s*\((?:most common|moderate|less common)\s*-\s*\d+\s+success"
    r"|similar\s+situations\s+have\s+been\s+resolved\s+these\s+ways",
    re.IGNORECASE,
)
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e01ef]"
)
"""Signs that nobody sees, but a model may read."""


def facets(entry_type: str, agent_type: str, task_type: str, technology: str) -> Facets:
    """Who it is for, in one spelling. What is left open is for all; so is every decision of a person."""
    kind = _kind(entry_type)
    agent = named(agent_type, "agent_type")
    if kind is EntryType.FAILURE and not agent:
        raise UserError("a failure needs the agent that met it", hint="give agent_type, such as backend, or any")
    return Facets(kind, agent or ANY, named(task_type, "task_type") or ANY, named(technology, "technology") or ANY)


def filters(agent_type: str, task_type: str, technology: str, entry_type: str) -> LessonFilters:
    return LessonFilters(
        named(agent_type, "agent_type"),
        named(task_type, "task_type"),
        named(technology, "technology"),
        _kind(entry_type) if entry_type else None,
    )


def _kind(entry_type: str) -> EntryType:
    try:
        return EntryType(entry_type)
    except ValueError:
        known = ", ".join(EntryType)
        raise UserError(f"no kind of lesson {entry_type!r}", hint=f"one of {known}") from None


def named(name: str, field: str) -> str:
    """One spelling of a name: `Backend Developer` and `backend_developer` are the same agent."""
    folded = re.sub(r"[\s_-]+", "-", unicodedata.normalize("NFKC", _UNSEEN.sub("", name)).casefold().strip())
    if len(folded) > LONGEST_NAME:
        raise UserError(f"{field} is longer than {LONGEST_NAME} characters", hint="give a short name, such as backend")
    return folded.strip("-")


def told(entry_type: EntryType, given: Told, mask: Callable[[str], str]) -> Told:
    """The words as they are kept. Raises what is wrong with them."""
    clean = Told(**{name: _clean(getattr(given, name)) for name in TOLD})
    clean = replace(clean, gate_type=named(clean.gate_type, "gate_type"))
    if missing := [name for name in _NEEDED[entry_type] if not getattr(clean, name)]:
        raise UserError(
            f"a lesson of the kind {entry_type} needs {' and '.join(missing)}",
            hint="say what happened, and what was done about it",
        )
    for name in TOLD:
        text = getattr(clean, name)
        if text and name not in _TAKEN[entry_type]:
            taken = ", ".join(sorted(_TAKEN[entry_type]))
            raise UserError(f"a lesson of the kind {entry_type} has no {name}", hint=f"it takes {taken}")
        check(name, text)
    return Told(**{name: mask(getattr(clean, name)) for name in TOLD})


def edited(words: Words, mask: Callable[[str], str]) -> Words:
    """A person's words for a pattern, as they are kept."""
    kept: dict[str, str] = {}
    for name in ("problem", "solution", "when_to_try"):
        text = _clean(getattr(words, name))
        if not text:
            raise UserError(f"a pattern needs {name}", hint="give all three: problem, solution, when to try")
        check(name, text)
        kept[name] = mask(text)
    return Words(**kept)


def note(text: str) -> str:
    """What is said of an outcome, as it is kept."""
    kept = _clean(text)
    check("note", kept)
    return kept


def check(name: str, text: str) -> None:
    """Refuses what is too long, or was read from a block."""
    if len(text) > LONGEST:
        raise UserError(f"{name} is longer than {LONGEST:,} characters", hint="tell what matters, without whole logs")
    if _OF_A_BLOCK.search(unicodedata.normalize("NFKC", text)):
        raise UserError(
            f"{name} repeats a block of historical knowledge",
            hint="tell what happened in your own words; if a known pattern helped, record an outcome for it instead",
        )


def _clean(text: str) -> str:
    return _UNSEEN.sub("", unicodedata.normalize("NFC", text)).replace("\r\n", "\n").strip()
