"""The register of assumptions: what is believed, how sure, what rests on what, and what falls with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

from ragforge.discover.fitting import Count, fitted, shortened
from ragforge.domain.discovery import (
    Assumption,
    Evidence,
    InterviewState,
    Level,
    Standing,
    reached,
    stand_again,
)
from ragforge.errors import Conflict, NotFound, UserError

MOST = 500
"""Assumptions of one interview."""
LONGEST = 400
"""Characters of a statement."""
LONGEST_EVIDENCE = 1_000
_URGENT = (Standing.SHAKEN, Standing.OPEN, Standing.REFUTED, Standing.CONFIRMED)
_WEIGHT = {Level.HIGH: 0, Level.MEDIUM: 1, Level.LOW: 2}
_SHARES = (1.0, 0.85, 0.7, 0.5, 0.3, 0.0)
"""Of the room, for statements; the rest is for the numbers of those that are not stated."""
_SAME = 0.8
"""Two statements that share this part of their words say the same."""


def find(state: InterviewState, id: str) -> Assumption:
    wanted = id.strip().upper()
    for each in state.assumptions:
        if each.id == wanted:
            return each
    known = f"there are {state.assumptions[0].id} to {state.assumptions[-1].id}" if state.assumptions else "none yet"
    raise NotFound(f"no assumption {wanted!r}", hint=known)


def registered(
    state: InterviewState,
    statement: str,
    *,
    confidence: Level,
    impact: Level,
    probe: str,
    turn: int,
    subject: Callable[[str], Collection[str]],
    depends_on: Sequence[str] = (),
    evidence: Sequence[Evidence] = (),
    documents: Sequence[str] = (),
) -> tuple[InterviewState, Assumption]:
    """The state with one more. `subject` are the telling words of a text: what says the same is not taken twice."""
    words = _statement(statement)
    if len(state.assumptions) >= MOST:
        raise UserError(f"there are {MOST} assumptions already", hint="settle some first: confirm or refute them")
    if same := alike(state, words, subject):
        raise Conflict(f"{same.id} says the same: {same.statement}", hint=f"update {same.id} instead")
    number = state.numbers[0] + 1
    rests_on = tuple(dict.fromkeys(find(state, each).id for each in depends_on))
    fallen = any(find(state, each).status in (Standing.REFUTED, Standing.SHAKEN) for each in rests_on)
    new = Assumption(
        f"A{number}",
        words,
        confidence,
        impact,
        turn,
        probe,
        Standing.SHAKEN if fallen else Standing.OPEN,
        rests_on,
        tuple(evidence),
        tuple(dict.fromkeys(documents)),
    )
    return replace(state, assumptions=(*state.assumptions, new), numbers=(number, state.numbers[1])), new


def alike(state: InterviewState, statement: str, subject: Callable[[str], Collection[str]]) -> Assumption | None:
    """The assumption that says the same, if there is one."""
    words = set(subject(statement))
    for each in state.assumptions:
        other = set(subject(each.statement))
        if words and len(words & other) >= _SAME * len(words | other):
            return each
    return None


def revised(
    state: InterviewState,
    id: str,
    *,
    statement: str | None = None,
    confidence: Level | None = None,
    impact: Level | None = None,
    status: Standing | None = None,
    depends_on: Sequence[str] | None = None,
    evidence: Evidence | None = None,
) -> tuple[InterviewState, tuple[str, ...]]:
    """The state with one assumption changed, and the ids of those that fell or recovered with it."""
    old = find(state, id)
    if evidence is not None and len(evidence.text) > LONGEST_EVIDENCE:
        raise UserError(
            f"the evidence has {len(evidence.text):,} characters", hint=f"say it in at most {LONGEST_EVIDENCE:,}"
        )
    if status is Standing.SHAKEN:
        raise UserError("only what an assumption rests on can shake it", hint="say open, confirmed or refuted")
    rests_on = old.depends_on if depends_on is None else tuple(find(state, each).id for each in depends_on)
    if circle := _circle(state, old.id, rests_on):
        raise UserError(f"that is a circle: {' → '.join(circle)}", hint="leave out one of these dependencies")
    new = replace(
        old,
        statement=old.statement if statement is None else _statement(statement),
        confidence=confidence or old.confidence,
        impact=impact or old.impact,
        status=status or old.status,
        depends_on=tuple(dict.fromkeys(rests_on)),
        evidence=old.evidence if evidence is None else (*old.evidence, evidence),
    )
    state = replace(
        state,
        assumptions=tuple(new if each is old else each for each in state.assumptions),
        points=tuple(
            replace(each, text=new.statement) if each.assumption == old.id and each.text == old.statement else each
            for each in state.points
        ),
    )
    return _settled(state, old, new)


def removed(state: InterviewState, id: str) -> InterviewState:
    """The state without an assumption; what depended on it no longer does."""
    old = find(state, id)
    gone = old.id
    state = replace(
        state,
        assumptions=tuple(
            replace(each, depends_on=tuple(one for one in each.depends_on if one != gone))
            for each in state.assumptions
            if each.id != gone
        ),
        points=tuple(
            replace(each, assumption="") if each.assumption == gone else each
            for each in state.points
            if each.assumption != gone or each.text != old.statement  # else it would stand there as a fact
        ),
    )
    return _recovered(state)[0]


def _settled(state: InterviewState, old: Assumption, new: Assumption) -> tuple[InterviewState, tuple[str, ...]]:
    """What rests on an assumption falls with it, and stands again when nothing that it rests on is refuted."""
    by_id = {each.id: each for each in state.assumptions}
    touched: list[str] = []
    if new.status is Standing.REFUTED and old.status is not Standing.REFUTED:
        for id in dependants(state, new.id):
            if by_id[id].status in (Standing.OPEN, Standing.CONFIRMED):
                by_id[id] = replace(by_id[id], status=Standing.SHAKEN)
                touched.append(id)
    else:
        if new.status is Standing.OPEN and _rests_on_fallen(by_id, new.id):
            by_id[new.id] = replace(new, status=Standing.SHAKEN)
        return _recovered(replace(state, assumptions=tuple(by_id.values())))
    return replace(state, assumptions=tuple(by_id.values())), tuple(touched)


def _recovered(state: InterviewState) -> tuple[InterviewState, tuple[str, ...]]:
    """What rests on nothing refuted any more stands again; and which these are."""
    after = replace(state, assumptions=stand_again(state.assumptions))
    pairs = zip(state.assumptions, after.assumptions, strict=True)
    return after, tuple(one.id for one, other in pairs if one.status is not other.status)


def _rests_on_fallen(by_id: dict[str, Assumption], id: str) -> bool:
    return any(by_id[each].status is Standing.REFUTED for each in reached(lambda one: by_id[one].depends_on, id))


def dependants(state: InterviewState, id: str) -> list[str]:
    """Whatever rests on it, near or far, in the order of the register."""
    above: dict[str, list[str]] = {}
    for each in state.assumptions:
        for one in each.depends_on:
            above.setdefault(one, []).append(each.id)
    found = set(reached(lambda one: above.get(one, ()), id))
    return [each.id for each in state.assumptions if each.id in found]


def _circle(state: InterviewState, id: str, rests_on: Sequence[str]) -> list[str]:
    """The way by which an assumption would come to rest on itself."""
    by_id = {each.id: each.depends_on for each in state.assumptions} | {id: tuple(rests_on)}
    ways: list[list[str]] = [[id]]
    seen: set[str] = set()
    while ways:
        way = ways.pop()
        for each in by_id.get(way[-1], ()):
            if each == id:
                return [*way, id]
            if each not in seen:
                seen.add(each)
                ways.append([*way, each])
    return []


def _statement(text: str) -> str:
    flat = " ".join(text.split())
    if not flat:
        raise UserError("the assumption says nothing", hint="state it in one sentence")
    if len(flat) > LONGEST:
        raise UserError(f"the assumption has {len(flat)} characters", hint=f"state it in at most {LONGEST}")
    return flat


# -- as it is read


def counts(state: InterviewState) -> str:
    """How many there are, by how sure and how they stand: all that Phase A is told of them."""
    if not state.assumptions:
        return "none"
    live = [each for each in state.assumptions if each.status in (Standing.OPEN, Standing.SHAKEN)]
    sure = Counter(each.confidence for each in live)
    stand = Counter(each.status for each in state.assumptions)
    by_confidence = ", ".join(f"{sure[level]} {level}" for level in Level)
    by_status = ", ".join(f"{stand[each]} {each}" for each in Standing if stand[each])
    risky = sum(each.impact is Level.HIGH and each.confidence is not Level.HIGH for each in live)
    return (
        f"{len(state.assumptions)} in all ({by_status}); of those not settled by confidence: {by_confidence}; "
        f"{risky} with high impact and not sure"
    )


def text(state: InterviewState, room: int, count: Count) -> tuple[str, str]:
    """The whole register within a number of tokens; and what was shortened, in words.

    None is left out: what does not fit in full is told in a few words, and where there is no room for these, by number.
    """
    if not state.assumptions:
        return "No assumptions yet.", ""
    urgent = sorted(state.assumptions, key=lambda each: (_URGENT.index(each.status), _WEIGHT[each.impact]))
    items = [(each.id, _line(each), _short(each)) for each in urgent]
    for share in _SHARES:
        shown = fitted(items, int(room * share), count)
        lines = [shown.texts[each.id] for each in state.assumptions if each.id in shown.texts]
        untold = [each for each in state.assumptions if each.id not in shown.texts]
        whole = "\n".join((*lines, *_by_number(untold)))
        if count(whole) <= room:
            break
    else:
        whole = f"{counts(state)}; too many to name"
    if not (shown.short or untold):
        return whole, ""
    full = len(lines) - shown.short
    told = f"{full} of {len(items)} in full, {shown.short} in a few words, {len(untold)} by number"
    return whole, f"assumptions: {told}"


def _by_number(untold: Sequence[Assumption]) -> Iterator[str]:
    for status in Standing:
        if numbers := [int(each.id[1:]) for each in untold if each.status is status]:
            yield f"{status}, by number: {ranges(numbers)}"


def _line(each: Assumption) -> str:
    rests = f"; depends on {', '.join(each.depends_on)}" if each.depends_on else ""
    proof = f" Evidence: {each.evidence[-1].text}" if each.evidence else ""
    return (
        f"{each.id} [{each.status}; confidence {each.confidence}; impact {each.impact}{rests}] {each.statement}{proof}"
    )


def _short(each: Assumption) -> str:
    return f"{each.id} [{each.status}; {each.confidence}/{each.impact}] {shortened(each.statement, 8)}"


def ranges(numbers: Sequence[int], letter: str = "A") -> str:
    """`A1–A4, A7`."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][-1] + 1:
            found[-1] = [found[-1][0], number]
        else:
            found.append([number])
    return ", ".join("–".join(f"{letter}{each}" for each in dict.fromkeys(run)) for run in found)
