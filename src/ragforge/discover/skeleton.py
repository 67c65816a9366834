"""The document that grows: points by section, each of them said by the person or by passages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from ragforge.discover.fitting import Count, capitalised, fitted, shortened
from ragforge.discover.knowledge import Mode
from ragforge.domain.discovery import BY_HAND, Cited, InterviewState, Met, Point, when
from ragforge.errors import NotFound, UserError

MOST = 400
"""Points of one interview."""
LONGEST = 500
"""Characters of a point."""
_SAME = 0.85


def pointed(
    state: InterviewState,
    mode: Mode,
    section: str,
    text: str,
    turn: int,
    *,
    subject: Callable[[str], Collection[str]],
    criterion: str = "",
    cited: Sequence[Cited] = (),
    assumption: str = "",
    documents: Sequence[str] = (),
) -> tuple[InterviewState, Point | None]:
    """The state with one more point; none where the section says it already."""
    if mode.section(section) is None:
        raise UserError(f"no section {section!r}", hint=f"there are {', '.join(each.key for each in mode.sections)}")
    flat = _sentence(text)
    if len(state.points) >= MOST:
        raise UserError(f"there are {MOST} points already", hint="make the document, and begin another interview")
    words = set(subject(flat))
    for each in state.points:
        other = set(subject(each.text))
        if each.section == section and words and len(words & other) >= _SAME * len(words | other):
            return state, None
    number = state.numbers[1] + 1
    held = dict.fromkeys((*documents, *(each.document for each in cited)))
    point = Point(f"P{number}", section, flat, turn, criterion, tuple(cited), assumption, tuple(held))
    return replace(state, points=(*state.points, point), numbers=(state.numbers[0], number)), point


def find(state: InterviewState, id: str) -> Point:
    found = next((each for each in state.points if each.id == id.strip().upper()), None)
    if found is None:
        raise NotFound(f"no point {id!r}", hint="they are numbered P1, P2, …: see which there are")
    return found


def revised(
    state: InterviewState, id: str, sections: Collection[str], *, text: str | None = None, section: str | None = None
) -> InterviewState:
    """The state with a point in other words, or in another section. What a person writes is no longer a quotation."""
    old = find(state, id)
    if section is not None and section not in sections:
        raise UserError(f"no section {section!r}", hint=f"there are {', '.join(sections)}")
    new = replace(old, section=section or old.section)
    if text is not None and (flat := _sentence(text)) != old.text:
        new = replace(new, text=flat, turn=BY_HAND, cited=())
    return replace(state, points=tuple(new if each is old else each for each in state.points))


def removed(state: InterviewState, id: str) -> InterviewState:
    """The state without a point; a criterion that nothing else speaks to is to be met again."""
    gone = find(state, id)
    kept = tuple(each for each in state.points if each is not gone)
    lost = gone.criterion if gone.criterion not in {each.criterion for each in kept} else ""
    return replace(state, points=kept, met=tuple(each for each in state.met if each.criterion != lost))


def _sentence(text: str) -> str:
    flat = " ".join(text.split())
    if not flat:
        raise UserError("the point says nothing", hint="state it in one sentence")
    if len(flat) > LONGEST:
        raise UserError(f"the point has {len(flat)} characters", hint=f"state it in at most {LONGEST}")
    return capitalised(flat)


def is_met(state: InterviewState, criterion: str) -> bool:
    return any(each.criterion == criterion for each in state.met)


def met(state: InterviewState, criterion: str, turn: int) -> InterviewState:
    """The state with a criterion met; what was not known before may become known."""
    others = tuple(each for each in state.met if each.criterion != criterion or each.turn > 0)
    if any(each.criterion == criterion for each in others):
        return state
    return replace(state, met=(*others, Met(criterion, turn)))


# -- as it is read


def text(state: InterviewState, mode: Mode, room: int, count: Count) -> tuple[str, str]:
    """The whole skeleton within a number of tokens, every section named; and what was shortened, in words."""
    newest_first = sorted(state.points, key=lambda each: -each.turn)
    heads = sum(count(f"{each.key} ({each.heading}): 999 more") + 1 for each in mode.sections)
    shown = fitted([(each.id, _line(each), _short(each)) for each in newest_first], room - heads, count)
    lines: list[str] = []
    untold = Counter[str]()
    for section in mode.sections:
        points = [each for each in state.points if each.section == section.key]
        told = [shown.texts[each.id] for each in points if each.id in shown.texts]
        if more := len(points) - len(told):
            untold[section.key] = more
        state_of = "" if points else " empty"
        lines += [f"{section.key} ({section.heading}):{f' {more} more' if more else state_of}", *told]
    note = ""
    if shown.short or untold:
        full = len(state.points) - shown.short - untold.total()
        note = (
            f"document: {full} of {len(state.points)} points in full, {shown.short} in a few words, "
            f"{untold.total()} counted only"
        )
    return "\n".join(lines), note


def _line(each: Point) -> str:
    why = f"; assumption {each.assumption}" if each.assumption else ""
    source = ", ".join(dict.fromkeys(one.name for one in each.cited)) or when(each.turn)
    return f"- {each.id} {each.text} ({source}{why})"


def _short(each: Point) -> str:
    return f"- {each.id} {shortened(each.text, 6)}"
