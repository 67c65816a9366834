"""The skeleton as a document: a problem brief or product requirements, every point with its source.

A source is a passage, or what the person said in a turn. Assumptions stand in a table, and what is not known last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from ragforge.discover.knowledge import Knowledge, Mode
from ragforge.domain.conversation import Turn
from ragforge.domain.discovery import (
    BY_HAND,
    DOCUMENT_KINDS,
    UNKNOWN,
    AskedQuestion,
    Assumption,
    Cited,
    InterviewState,
    Point,
    Standing,
    when,
)
from ragforge.domain.documents import Locator
from ragforge.domain.prompts import Source
from ragforge.domain.records import Artifact, ArtifactSection

ASSUMPTIONS, OPEN_QUESTIONS, PROBLEM = "Assumptions", "Open questions", "The problem"
_OF_THE_PROBLEM = ("problem", "people", "impact")
"""Sections of the first mode that the second's document repeats."""

Escape = Callable[[str], str]
"""A text as Markdown that means nothing but itself."""


class _Sources:
    """Numbers in the order in which sources are first named."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str], int] = {}
        self.found: list[Source] = []

    def of(self, point: Point) -> list[int]:
        if point.cited:
            return [self.passage(each) for each in point.cited]
        return [self.turn(point.turn, point.text)]

    def passage(self, cited: Cited) -> int:
        number = self._number((cited.document, cited.quote))
        if number > len(self.found):
            self.found.append(
                Source(
                    number, cited.chunk, (cited.chunk,), cited.document, cited.name, cited.locator, cited.checksum,
                    1.0, cited.quote, 0,
                )
            )  # fmt: skip
        return number

    def turn(self, turn: int, text: str) -> int:
        """What was taken down of it: whoever reads the document need not read the whole talk."""
        number = self._number(("", str(turn) if turn != BY_HAND else text))
        if number > len(self.found):
            name = f"Interview, turn {turn}" if turn != BY_HAND else "Written by hand"
            self.found.append(Source(number, "", (), "", name, Locator(), "", 1.0, text, 0))
        elif text not in (known := self.found[number - 1]).text:
            self.found[number - 1] = replace(known, text=f"{known.text}\n{text}")
        return number

    def _number(self, key: tuple[str, str]) -> int:
        return self._numbers.setdefault(key, len(self._numbers) + 1)


def document(
    state: InterviewState,
    mode: Mode,
    knowledge: Knowledge,
    turns: Sequence[Turn],
    *,
    id: str,
    title: str,
    made_at: datetime,
    escape: Escape,
) -> Artifact:
    """All of it, from what is known now; sections that nothing was said to are open."""
    sources = _Sources()
    sections: list[ArtifactSection] = []
    if mode.name != (first := next(iter(knowledge))):
        of_problem = [each for each in state.points if each.section in _OF_THE_PROBLEM]
        if of_problem:
            says = knowledge[first].title
            sections.append(_section(PROBLEM, says, of_problem, state, sources, escape))
    for section in mode.sections:
        points = [each for each in state.points if each.section == section.key]
        sections.append(_section(section.heading, section.says, points, state, sources, escape))
    sections.append(_assumptions(state.assumptions, sources, escape))
    sections.append(_open_questions(state, mode, escape))
    models = dict.fromkeys(turn.model for turn in turns if turn.model)
    return Artifact(
        id,
        DOCUMENT_KINDS[mode.name],
        title,
        made_at.replace(microsecond=made_at.microsecond // 1000 * 1000),
        tuple(sections),
        tuple(sources.found),
        model=", ".join(models),
    )


def _section(
    heading: str, says: str, points: Sequence[Point], state: InterviewState, sources: _Sources, escape: Escape
) -> ArtifactSection:
    if not points:
        reason = f"Nobody said anything to this yet. {says}"
        return ArtifactSection(heading, 1, f"> **Open.** {escape(reason)}", open=True, reason=reason)
    standing = {each.id: each.status for each in state.assumptions}
    lines: list[str] = []
    numbers: list[int] = []
    for point in points:
        own = sources.of(point)
        numbers += own
        marks = "".join(f"[{number}]" for number in dict.fromkeys(own))
        lines.append(f"- {escape(point.text)}{_rests(point, standing)} {marks}")
    read = dict.fromkeys(document for point in points for document in point.documents)
    cited = {each.document for point in points for each in point.cited}
    return ArtifactSection(
        heading,
        1,
        "\n".join(lines),
        sources=tuple(dict.fromkeys(numbers)),
        read=tuple(read),
        doubtful=not cited.issuperset(read),
    )


def _rests(point: Point, standing: Mapping[str, Standing]) -> str:
    """What a point rests on, where that is not certain."""
    if not point.assumption or standing.get(point.assumption) is Standing.CONFIRMED:
        return ""
    status = standing.get(point.assumption, Standing.OPEN)
    return f" (assumption {point.assumption}{'' if status is Standing.OPEN else f', {status}'})"


def _assumptions(assumptions: Sequence[Assumption], sources: _Sources, escape: Escape) -> ArtifactSection:
    if not assumptions:
        return ArtifactSection(ASSUMPTIONS, 1, "None were registered.")
    numbers: list[int] = []
    rows = ["| | Assumption | Confidence | Impact | Status | Depends on | Evidence |", "|---|---|---|---|---|---|---|"]
    for each in assumptions:
        marks = [sources.turn(each.turn, each.statement)]
        marks += [sources.passage(cited) for some in each.evidence for cited in some.cited]
        numbers += marks
        proof = "; ".join(escape(some.text) for some in each.evidence)
        cells = (
            each.id,
            f"{escape(each.statement)} {''.join(f'[{number}]' for number in dict.fromkeys(marks))}",
            each.confidence,
            each.impact,
            each.status,
            ", ".join(each.depends_on),
            proof,
        )
        rows.append("| " + " | ".join(cell.replace("\n", " ") for cell in cells) + " |")
    read = dict.fromkeys(document for each in assumptions for document in _documents(each))
    return ArtifactSection(
        ASSUMPTIONS, 1, "\n".join(rows), sources=tuple(dict.fromkeys(numbers)), read=tuple(read), doubtful=bool(read)
    )


def _documents(assumption: Assumption) -> Iterable[str]:
    yield from assumption.documents
    yield from (cited.document for some in assumption.evidence for cited in some.cited)


def open_questions(state: InterviewState, mode: Mode) -> list[str]:
    """What nobody could tell, and what was not talked about; in the order of the probes."""
    met = {each.criterion: each.turn for each in state.met}
    found: list[str] = []
    for path in mode.paths:
        criterion = mode.criterion(path)
        assert criterion is not None
        if met.get(path, UNKNOWN) != UNKNOWN:
            continue
        asked = [one for one in state.asked if f"{one.probe}.{one.criterion}" == path]
        unknown = next((one for one in asked if one.answered == UNKNOWN), None)
        if unknown is not None or path in met:
            found.append(f"{unknown.text if unknown else _question(mode, path)} Nobody could tell.")
        else:
            found.append(f"{asked[-1].text} Not answered." if asked else f"{_question(mode, path)} Not talked about.")
    own = (each for each in state.asked if each.answered == UNKNOWN and not each.criterion)
    return [*(f"{each.text} ({when(each.turn)})" for each in own), *found]


def _question(mode: Mode, path: str) -> str:
    """By which a criterion is asked for first."""
    probe, _, key = path.partition(".")
    questions = (one for cluster in mode.probes[probe].clusters for one in cluster.questions if one.criterion == key)
    return next(questions).ask


def _open_questions(state: InterviewState, mode: Mode, escape: Escape) -> ArtifactSection:
    found = open_questions(state, mode)
    shaken = [each for each in state.assumptions if each.status is Standing.SHAKEN]
    found += [f"{each.id} is shaken: what it rests on was refuted. {each.statement}" for each in shaken]
    text = "\n".join(f"- {escape(each)}" for each in found) or "None."
    entries: list[AskedQuestion | Assumption] = [*state.asked, *shaken]
    read = dict.fromkeys(document for each in entries for document in each.documents)
    return ArtifactSection(OPEN_QUESTIONS, 1, text, read=tuple(read), doubtful=bool(read))
