"""The block that an agent reads before its task, word for word as it was decided on.

Whatever a lesson says stays on its own line: it can neither end the block nor begin another pattern.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence

from ragforge.domain.lessons import FoundPattern, LessonFilters

BEGIN = "[ORCHESTRATOR CONTEXT: Historical Knowledge]"
END = "[END CONTEXT]"
_INTRODUCTION = "Similar situations have been resolved these ways:"
_RECOMMENDATION = "Recommendation: Try patterns in order. Pattern 1 is most likely based on historical data."
SHOWN = 3
"""Patterns of a block."""
_SHORTEST = 60
"""Characters that a text is shortened to at most; a pattern that needs less is left out."""
_MARKS = ("endcontext", "orchestratorcontext")
"""The letters of the block's marks; whatever stands between them may be invisible, or look like something else."""
_BRACKETS = re.compile(r"[\[\]{}<>\uff3b\uff3d\u3010\u3011\u3014\u3015\u27e6\u27e7\u2045\u2046]")

Count = Callable[[str], int]


def basic(task: str, filters: LessonFilters) -> str:
    """What an agent is told of its task, whatever is known."""
    lines = [f"Task: {_line(task)}"]
    for label, value in (
        ("Agent", filters.agent_type),
        ("Task type", filters.task_type),
        ("Technology", filters.technology),
    ):
        if value:
            lines.append(f"{label}: {value}")
    return "\n".join(lines)


def block(patterns: Sequence[FoundPattern], budget: int, count: Count) -> tuple[str, int, tuple[str, ...]]:
    """The block of the first three within a budget of tokens, how many it shows, and what was shortened or left out.

    First long texts are shortened, the longest first; then the last pattern is left out. One pattern always stays.
    """
    shown = list(patterns[:SHOWN])
    left_out: list[str] = []
    while shown:
        texts = [_texts(each) for each in shown]
        if count(_written(shown, texts)) <= budget:
            return _written(shown, texts), len(shown), tuple(left_out)
        cut = _shortened(shown, texts, budget, count)
        if cut is not None:
            return cut, len(shown), (*left_out, "long texts were shortened to fit")
        if len(shown) == 1:
            smallest = [[_cut(text, _SHORTEST) for text in texts[0]]]
            return _written(shown, smallest), 1, (*left_out, "its texts were shortened, and are over the budget still")
        left_out.append(f"pattern {len(shown)} did not fit")
        shown.pop()
    return "", 0, ()


def _shortened(shown: Sequence[FoundPattern], texts: Sequence[Sequence[str]], budget: int, count: Count) -> str | None:
    """With every text cut to the same length, the longest that fits; None if none does."""
    low, high, best = _SHORTEST, max(len(text) for three in texts for text in three), None
    while low <= high:
        middle = (low + high) // 2
        tried = _written(shown, [[_cut(text, middle) for text in three] for three in texts])
        if count(tried) <= budget:
            best, low = tried, middle + 1
        else:
            high = middle - 1
    return best


def _written(shown: Sequence[FoundPattern], texts: Sequence[Sequence[str]]) -> str:
    parts = [BEGIN, "", _INTRODUCTION, ""]
    for number, (each, (problem, solution, when)) in enumerate(zip(shown, texts, strict=True), 1):
        successes = each.record.successes
        parts += [
            f"Pattern {number} ({each.label} - {successes} success{'' if successes == 1 else 'es'}):",
            f"- Problem: {problem}",
            f"- Solution: {solution}",
            f"- When to try: {when}",
            "",
        ]
    return "\n".join([*parts, _RECOMMENDATION, "", END])


def _texts(found: FoundPattern) -> tuple[str, str, str]:
    words = found.pattern.words
    return _line(words.problem), _line(words.solution), _line(words.when_to_try)


def _line(text: str) -> str:
    """On one line. A text that could be taken for a mark of the block has no brackets left."""
    line = " ".join(text.split())
    return _BRACKETS.sub("", line) if resembles_mark(line) else line


def resembles_mark(text: str) -> bool:
    letters = "".join(filter(str.isalnum, unicodedata.normalize("NFKC", text).casefold()))
    return any(mark in letters for mark in _MARKS)


def _cut(text: str, length: int) -> str:
    if len(text) <= length:
        return text
    head = text[: length - 1]
    return (head[: head.rfind(" ")] if " " in head[length // 2 :] else head).rstrip(" ,;:.") + "…"
