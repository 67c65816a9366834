"""Phase B by a model: the tools it works with, and what each call must pass before it changes anything.

Nothing is taken on trust: a point needs a passage that bears it out or words that the person said, an assumption may
not close a circle, a question is not asked twice, and what the organisation is comes from the person alone. What is
refused is answered with the reason, so that the model can mend it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, make_dataclass, replace
from functools import cache
from typing import Literal

from ragforge.discover import register, skeleton
from ragforge.discover.hear import settled
from ragforge.discover.knowledge import Mode
from ragforge.discover.questions import MOST
from ragforge.domain.discovery import AskedQuestion, Change, Cited, Decision, Evidence, InterviewState, Level, Standing
from ragforge.domain.generation import Called, Tool
from ragforge.errors import RagforgeError, UserError

LONGEST_ORG_CONTEXT = 1_500
_LONGEST_REPLY = 2_500
_LONGEST_QUESTION = 300
_MOST_NEW = 12
"""Assumptions of one turn."""
_OWN_WORDS = 0.6
"""Of a point's telling words, those that the person must have used where no passage is cited."""
_SAME = 0.8


@dataclass(frozen=True, slots=True)
class RegisterAssumption:
    """Something taken for true without proof."""

    statement: str
    confidence: Level
    impact: Level
    depends_on: tuple[str, ...] = ()
    evidence: str = ""
    sources: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class UpdateAssumption:
    """New evidence on an assumption, or another view of it."""

    id: str
    confidence: Level | None = None
    impact: Level | None = None
    status: Literal["open", "confirmed", "refuted"] | None = None
    depends_on: tuple[str, ...] | None = None
    evidence: str = ""
    sources: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class NewPoint:
    """One sentence for the document."""

    text: str
    sources: tuple[int, ...] = ()
    criterion: str = ""


@dataclass(frozen=True, slots=True)
class FillSection:
    """Points for one section."""

    section: str
    points: tuple[NewPoint, ...]


@dataclass(frozen=True, slots=True)
class UpdateOrgContext:
    """What the organisation is, as the person tells it: the whole text."""

    text: str


@dataclass(frozen=True, slots=True)
class NewQuestion:
    """A question for the person."""

    text: str
    criterion: str = ""


@dataclass(frozen=True, slots=True)
class AskQuestions:
    """The end of the turn: what is said and asked."""

    reply: str
    questions: tuple[NewQuestion, ...]
    criteria_met: tuple[str, ...] = ()


ASK = "ask_questions"
_TOOLS = (
    Tool(
        "register_assumption",
        "Register a claim that nobody has proved. confidence: how well it is supported; impact: what breaks if it is "
        "false; depends_on: ids such as A2; sources: numbers of passages that speak for it.",
        RegisterAssumption,
    ),
    Tool(
        "update_assumption",
        "Change an assumption: confirm or refute it, with the evidence; set confidence, impact or dependencies.",
        UpdateAssumption,
    ),
    Tool(
        "fill_section",
        "Add points to a section of the document. Each is one sentence that a numbered passage says (sources) or that "
        "the person said (no sources). criterion: the criterion of the probe that it meets, if it meets one.",
        FillSection,
    ),
    Tool(
        "update_org_context",
        "Replace what is known of the organisation, in the person's own words: who they are, who is involved.",
        UpdateOrgContext,
    ),
    Tool(
        "ask_questions",
        "End the turn. reply: one to four sentences on what was understood, citing passages as [1]; questions: two or "
        "three, open, about one thing; criteria_met: criteria of the probe that are met now.",
        AskQuestions,
    ),
)


def tools_for(mode: Mode, state: InterviewState) -> tuple[Tool, ...]:
    """The tools of a turn. The sections are part of their form; while nothing is assumed, nothing can be updated."""
    return _tools_for(tuple(each.key for each in mode.sections), bool(state.assumptions))


def all_tools(mode: Mode) -> tuple[Tool, ...]:
    """Those that a turn may come to have."""
    return _tools_for(tuple(each.key for each in mode.sections), True)


@cache
def _tools_for(keys: tuple[str, ...], updates: bool) -> tuple[Tool, ...]:
    sections = Literal[keys]  # type: ignore[valid-type]
    shapes: dict[str, type] = {
        "fill_section": make_dataclass(
            "FillSection", [("section", sections), ("points", tuple[NewPoint, ...])], bases=(FillSection,), frozen=True
        ),
    }
    there = [each for each in _TOOLS if each.name != "update_assumption" or updates]
    return tuple(replace(each, shape=shapes.get(each.name, each.shape)) for each in there)


@dataclass(frozen=True, slots=True)
class Checks:
    """How claims are held against passages and against what was said."""

    cite: Callable[[str, Sequence[int]], tuple[tuple[Cited, ...], str]]
    """A sentence and numbers of passages: what bears it out, or why nothing does."""
    clean: Callable[[str], str]
    """A text without links, images and what else could do harm."""
    subject: Callable[[str], Collection[str]]
    said: Collection[str]
    """The telling words that the person used in this interview, and those of the organisation's context."""
    inherits: Callable[[str, Sequence[Cited]], tuple[str, ...]]
    """Documents whose words a text may hold without citing them."""
    may_describe: bool = True
    """Whether who is asked may change what is known of the organisation."""


@dataclass(slots=True)
class Workbench:
    """A turn's draft of the state: every call is checked, done, and answered."""

    mode: Mode
    decision: Decision
    turn: int
    state: InterviewState
    checks: Checks
    changes: list[Change] = field(default_factory=list)
    org_context: str | None = None
    """What it became, if it was changed."""
    reply: str = ""
    questions: tuple[AskedQuestion, ...] = ()
    done: bool = False

    def use(self, called: Called) -> str:
        """Do what a call asks for, or say why not: the answer that the model reads."""
        name = called.call.name
        if called.problem:
            return self._refused(name, called.problem)
        uses: Mapping[type, Callable[..., str]] = {
            RegisterAssumption: self._register,
            UpdateAssumption: self._update,
            FillSection: self._fill,
            UpdateOrgContext: self._describe,
            AskQuestions: self._ask,
        }
        use = next(use for shape, use in uses.items() if isinstance(called.given, shape))
        try:
            return use(called.given)
        except RagforgeError as problem:
            return self._refused(name, f"{problem.message}; {problem.hint}" if problem.hint else problem.message)

    def _refused(self, tool: str, why: str) -> str:
        self.changes.append(Change(tool, why, refused=True))
        return f"refused: {why}"

    def _did(self, tool: str, what: str) -> str:
        self.changes.append(Change(tool, what))
        return f"done: {what}"

    def _register(self, given: RegisterAssumption) -> str:
        statement = self.checks.clean(given.statement)
        if sum(each.tool == "register_assumption" and not each.refused for each in self.changes) >= _MOST_NEW:
            raise UserError(f"{_MOST_NEW} were registered in this turn", hint="keep to what matters, and ask")
        there = {each.id for each in self.state.assumptions}
        cited, _ = self.checks.cite(given.evidence or statement, given.sources) if given.sources else ((), "")
        evidence = self.checks.clean(given.evidence)
        self.state, new = register.registered(
            self.state,
            statement,
            confidence=given.confidence,
            impact=given.impact,
            probe=self.decision.probe,
            turn=self.turn,
            subject=self.checks.subject,
            depends_on=[each for each in given.depends_on if each.strip().upper() in there],
            evidence=self._evidence(evidence, cited),
            documents=self.checks.inherits(statement, ()),
        )
        rests = f", depends on {', '.join(new.depends_on)}" if new.depends_on else ""
        sure = f"confidence {new.confidence}, impact {new.impact}{rests}"
        unknown = [each for each in given.depends_on if each.strip().upper() not in there]
        told = f"; there is no {_short(', '.join(unknown))}, that was left out" if unknown else ""
        return self._did("register_assumption", f"{new.id}: {new.statement} ({sure})") + told

    def _evidence(self, text: str, cited: tuple[Cited, ...]) -> list[Evidence]:
        said = text or (cited[0].quote if cited else "")
        return [Evidence(said, self.turn, cited, self.checks.inherits(said, cited))] if said else []

    def _update(self, given: UpdateAssumption) -> str:
        evidence = self.checks.clean(given.evidence)
        cited: tuple[Cited, ...] = ()
        if given.sources:
            cited, why = self.checks.cite(evidence, given.sources)
            if not cited:
                raise UserError(why, hint="leave sources out, or quote what the passage says")
        if given.status in ("confirmed", "refuted") and not evidence:
            raise UserError(f"{given.id} cannot be {given.status} without evidence", hint="say what shows it")
        if evidence and not cited and not self._was_said(evidence):
            raise UserError("neither the person nor a passage says that", hint="cite a passage, or use their words")
        self.state, touched = register.revised(
            self.state,
            given.id,
            confidence=given.confidence,
            impact=given.impact,
            status=None if given.status is None else Standing(given.status),
            depends_on=given.depends_on,
            evidence=Evidence(evidence, self.turn, cited, self.checks.inherits(evidence, cited)) if evidence else None,
        )
        new = register.find(self.state, given.id)
        return self._did("update_assumption", settled(new.id, new.status, touched))

    def _fill(self, given: FillSection) -> str:
        if not given.points:
            raise UserError("there are no points", hint="give at least one")
        return "\n".join(self._point(given.section, each) for each in given.points)

    def _point(self, section: str, given: NewPoint) -> str:
        """Each stands or falls by itself."""
        text = self.checks.clean(given.text)
        cited: tuple[Cited, ...] = ()
        if given.sources:
            cited, why = self.checks.cite(text, given.sources)
            if not cited and not self._was_said(text):  # else it is the person's, not the passage's
                return self._refused("fill_section", f"“{_short(text)}”: {why}")
        elif not self._was_said(text):
            why = "the person did not say that: cite a passage, or register it as an assumption"
            return self._refused("fill_section", f"“{_short(text)}”: {why}")
        criterion = self._path(given.criterion)
        try:
            self.state, point = skeleton.pointed(
                self.state,
                self.mode,
                section,
                text,
                self.turn,
                subject=self.checks.subject,
                criterion=criterion,
                cited=cited,
                documents=self.checks.inherits(text, cited),
            )
        except RagforgeError as problem:
            return self._refused("fill_section", f"{problem.message}; {problem.hint}")
        if criterion:
            self.state = skeleton.met(self.state, criterion, self.turn)
        if point is None:
            return f"there already: {_short(text)}"
        return self._did("fill_section", f"{section}: {text}")

    def _was_said(self, text: str) -> bool:
        words = set(self.checks.subject(text))
        return bool(words) and len(words & set(self.checks.said)) >= _OWN_WORDS * len(words)

    def _path(self, criterion: str) -> str:
        """A criterion of this probe, by its key or its full name; empty where there is none."""
        name = criterion.strip().removeprefix(f"{self.decision.probe}.")
        full = f"{self.decision.probe}.{name}"
        return full if name and self.mode.criterion(full) else ""

    def _bears(self, path: str) -> bool:
        """Whether there is something to meet a criterion by: a point, or an answer to what was asked for it."""
        pointed = any(each.criterion == path for each in self.state.points)
        return pointed or any(f"{each.probe}.{each.criterion}" == path for each in self.state.pending)

    def _describe(self, given: UpdateOrgContext) -> str:
        text = self.checks.clean(given.text).strip()
        if not self.checks.may_describe:
            raise UserError("this person may not change what is known of the organisation", hint="go on without")
        if not text:
            raise UserError("the text is empty", hint="say who they are and who is involved")
        if len(text) > LONGEST_ORG_CONTEXT:
            raise UserError(f"it has {len(text):,} characters", hint=f"say it in {LONGEST_ORG_CONTEXT:,}")
        if not self._was_said(text) or self.checks.inherits(text, ()):  # it outlives every document
            raise UserError("the person did not say that of their organisation", hint="use their words")
        self.org_context = text
        return self._did("update_org_context", _short(text))

    def _ask(self, given: AskQuestions) -> str:
        texts = [" ".join(self.checks.clean(each.text).split()) for each in given.questions]
        if not 1 <= len(texts) <= MOST:
            raise UserError(f"there are {len(texts)} questions", hint="ask two or three")
        for text in texts:
            if not text or len(text) > _LONGEST_QUESTION:
                raise UserError(f"a question has {len(text)} characters", hint=f"1 to {_LONGEST_QUESTION}")
            if before := self._asked_before(text):
                raise UserError(f"that was asked in turn {before.turn}: {before.text}", hint="ask something else")
        if len(set(texts)) < len(texts):
            raise UserError("a question is there twice", hint="ask each once")
        reply = given.reply.strip()  # its markers are checked with the rest of the turn
        if len(reply) > _LONGEST_REPLY:
            raise UserError(f"the reply has {len(reply):,} characters", hint=f"say it in {_LONGEST_REPLY:,}")
        for each in given.criteria_met:
            if (path := self._path(each)) and self._bears(path):
                self.state = skeleton.met(self.state, path, self.turn)
                self._did("criterion_met", path)
        self.reply, self.done = reply, True
        self.questions = tuple(
            AskedQuestion(
                text,
                self.decision.probe,
                self._path(each.criterion).partition(".")[2],
                self.turn,
                documents=self.checks.inherits(text, ()),
            )
            for text, each in zip(texts, given.questions, strict=True)
        )
        return self._did("ask_questions", f"{len(texts)} question{'s' * (len(texts) != 1)}")

    def _asked_before(self, text: str) -> AskedQuestion | None:
        words = set(self.checks.subject(text))
        for each in self.state.asked:
            other = set(self.checks.subject(each.text))
            if words and len(words & other) >= _SAME * len(words | other):
                return each
        return None


def _short(text: str) -> str:
    return text if len(text) <= 120 else f"{text[:118].rstrip()} …"
