"""How a lesson looks on the page: its words, who it is for, how it has done, who told it and when."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from html import escape

from ragforge.domain.access import OWNER
from ragforge.domain.lessons import ANY, EntryType, Facets, Label, Lesson, Pattern, PatternState, Quality, Record, Words
from ragforge.errors import RagforgeError
from ragforge.interfaces.ui.look import bar, chip, problem_text
from ragforge.interfaces.ui.session import keep
from ragforge.interfaces.words import ago, count
from ragforge.learn.rank import label_of
from ragforge.learn.retention import YEAR

KINDS: Mapping[EntryType, str] = {
    EntryType.FAILURE: "Failure solved",
    EntryType.REJECTION: "Rejected, then approved",
    EntryType.APPROVAL: "Approved at once",
}
FIELDS: Mapping[str, str] = {
    "gate_type": "Gate",
    "task": "Task",
    "failure_description": "What failed",
    "error_message": "Error message",
    "human_feedback": "What a person said",
    "solution_steps": "What solved it",
    "revision_approach": "What was approved then",
    "approved_approach": "What was approved",
    "decision_criteria": "When to try it",
    "evidence": "What verified it",
}
"""The words of a capture, in the order in which they are read."""
_OF_KIND: Mapping[EntryType, frozenset[str]] = {
    EntryType.FAILURE: frozenset({"failure_description", "error_message", "solution_steps"}),
    EntryType.REJECTION: frozenset({"gate_type", "human_feedback", "revision_approach"}),
    EntryType.APPROVAL: frozenset({"gate_type", "approved_approach"}),
}
_OF_ALL = frozenset({"task", "decision_criteria", "evidence"})
_LABELS = {Label.MOST_COMMON: "ok", Label.MODERATE: "note", Label.LESS_COMMON: ""}


def fields_of(kind: EntryType) -> list[str]:
    """What a capture of this kind may tell."""
    return [name for name in FIELDS if name in _OF_KIND[kind] | _OF_ALL]


def shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"


def line(text: str, longest: int = 90) -> str:
    """On one line of a list to choose from."""
    return shortened(" ".join(text.split()), longest)


# -- HTML of escaped parts


def facts(told: Iterable[tuple[str, str]], verbatim: frozenset[str] = frozenset()) -> str:
    """Names and what is said under each; nothing of it can leave its place, whatever way it is written."""
    rows = "".join(
        f'<dt>{escape(name)}</dt><dd class="{"code" if name in verbatim else ""}">{escape(text)}</dd>'
        for name, text in told
        if text
    )
    return f'<dl class="rf-facts">{rows}</dl>'


def words_html(words: Words, longest: int = 8_000) -> str:
    problem, solution, when = (shortened(text, longest) for text in (words.problem, words.solution, words.when_to_try))
    return facts((("Problem", problem), ("Solution", solution), ("When to try", when)))


def capture_html(lesson: Lesson) -> str:
    """All that was told, in the teller's own words."""
    error = FIELDS["error_message"]
    told = ((FIELDS[name], str(getattr(lesson.told, name))) for name in fields_of(lesson.facets.entry_type))
    return facts(told, frozenset({error}))


def chips(facets: Facets, quality: Quality) -> str:
    """Its kind, what that is worth, and who it is for."""
    known = (("agent", facets.agent_type), ("task", facets.task_type), ("technology", facets.technology))
    wanted = [chip(f"{name}: {value}") for name, value in known if value != ANY]
    return chip(KINDS[facets.entry_type], "kind") + chip(quality) + ("".join(wanted) or chip("for every agent"))


def pattern_chips(pattern: Pattern) -> str:
    """The same, with what people said of it."""
    said = ""
    if pattern.state is PatternState.REJECTED:
        said = chip("rejected", "no")
    elif pattern.approved:
        said = chip("edited by a person" if pattern.edited else "approved by a person", "ok")
    return f'<div class="rf-chips">{chips(pattern.facets, pattern.quality)}{said}</div>'


def record_text(record: Record) -> str:
    """`5 successes, 1 failure`."""
    return f"{count(record.successes, 'success', 'successes')}, {count(record.losses, 'failure')}"


def record_html(record: Record) -> str:
    """How it has done: its label, a bar of how often it worked, and the figures."""
    label, share = label_of(record), record.successes / max(1, record.successes + record.losses)
    told = f'<span class="rf-scored">{bar(share)}{escape(record_text(record))}</span>'
    return f'<div class="rf-record">{chip(label, _LABELS[label])}{told}</div>'


def lives(pattern: Pattern) -> str:
    """Since when and until when: a year from the moment its last capture was embedded."""
    if pattern.first_at is None or pattern.last_at is None:
        return ""
    return f"Since {day(pattern.first_at)}, until {day(pattern.last_at + YEAR)} unless it is told again"


def day(moment: datetime) -> str:
    return moment.astimezone().strftime("%Y-%m-%d")


def who(principal: str) -> str:
    """As a person would say it; keys have no names here, only ids."""
    kind, _, id = principal.partition(":")
    if principal == OWNER:
        return "the owner"
    return f"key {id}" if kind == "key" and id else principal or "somebody"


def told_by(lesson: Lesson) -> str:
    until = "" if lesson.embedded_at is None else f", kept until {day(lesson.embedded_at + YEAR)}"
    return f"Told by {who(lesson.captured_by)}, {ago(lesson.captured_at)}{until}"


# -- what is done with it


def done(deed: Callable[[], str]) -> bool:
    """Do it in a callback, where no rerun can lose it; the page says then what came of it, if that is to be said."""
    try:
        said = deed()
    except RagforgeError as problem:
        keep("trouble", problem_text(problem))
        return False
    keep("toast", said)
    return True
