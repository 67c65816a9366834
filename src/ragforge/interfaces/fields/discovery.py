"""Guided interviews as fields for programs: an interview, what it knows, and how each of its turns came about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from typing_extensions import TypedDict

from ragforge.domain.conversation import Conversation, Turn
from ragforge.domain.discovery import (
    UNKNOWN,
    AskedQuestion,
    Assumption,
    Change,
    Changed,
    Cited,
    Decided,
    Decision,
    Evidence,
    Gathered,
    Interview,
    InterviewEvent,
    InterviewState,
    InterviewTurn,
    Met,
    Noticed,
    Point,
    Progression,
    Standing,
    StateVersion,
    TurnAccount,
    TurnDone,
)
from ragforge.domain.retrieval import Degraded
from ragforge.interfaces.fields.answers import (
    CitationFields,
    SectionFields,
    SourceFields,
    UsageFields,
    citation_fields,
    source_fields,
    usage_fields,
)
from ragforge.interfaces.fields.passages import LocatorFields, locator_fields

if TYPE_CHECKING:
    from ragforge.discover.knowledge import Mode


class ProgressFields(TypedDict):
    """How far a probe has come."""

    key: str
    title: str
    met: int
    criteria: int
    unknown: int
    """Of its criteria, those that the person cannot tell."""
    done: bool
    fired: bool
    """Whether it was asked yet."""
    current: bool


class TalkFields(TypedDict):
    """An interview as a list has it."""

    id: str
    title: str
    turns: int
    created_at: datetime
    updated_at: datetime


class InterviewFields(TalkFields):
    mode: str
    probe: str | None
    """The one that is being asked; null before the first turn."""
    turn: int
    """The number of the last turn, 0 before the first: what is said next is the one after it."""
    version: int
    probes_done: int
    progress: list[ProgressFields]
    assumptions: dict[str, int]
    """How many there are, `all` and by status."""
    points: int


class CitedFields(TypedDict):
    """A passage that something stands on."""

    chunk_id: str
    document: str
    document_id: str
    locator: LocatorFields
    checksum: str
    quote: str


class ProofFields(TypedDict):
    text: str
    turn: int
    cited: list[CitedFields]


class AssumptionFields(TypedDict):
    id: str
    statement: str
    status: str
    """`open`, `confirmed`, `refuted` or `shaken`: something that it depends on was refuted."""
    confidence: str
    impact: str
    depends_on: tuple[str, ...]
    evidence: list[ProofFields]
    probe: str | None
    turn: int


class PointFields(TypedDict):
    """A sentence of the document."""

    id: str
    section: str
    text: str
    turn: int
    """In which it came up; 0 where it was written by hand before the first."""
    criterion: str | None
    """`probe.criterion` that it answers."""
    cited: list[CitedFields]
    """Empty: it is what the person said in that turn."""
    assumption: str | None


class AskedFields(TypedDict):
    """A question that was put to the person."""

    text: str
    probe: str
    criterion: str | None
    turn: int
    answered: int | None
    """The turn that answered it; null: none yet."""
    unknown: bool
    """The person cannot tell."""


class MetFields(TypedDict):
    criterion: str
    turn: int | None
    """Null: the person cannot tell, and it is an open question."""
    unknown: bool


class NoticedFields(TypedDict):
    key: str
    mode: str
    turn: int


class StateFields(TypedDict):
    """All that an interview knows after a turn."""

    mode: str
    probe: str | None
    turn: int
    version: int
    offer: str | None
    """The mode that the last turn offered to go on to."""
    assumptions: list[AssumptionFields]
    points: list[PointFields]
    asked: list[AskedFields]
    pending: list[AskedFields]
    """What was asked last and is not answered."""
    met: list[MetFields]
    fired: list[NoticedFields]
    patterns: list[NoticedFields]


class VersionFields(TypedDict):
    version: int
    turn: int
    made_at: datetime


class InterviewTurnLine(TypedDict):
    """A turn as the transcript has it."""

    id: str
    number: int
    message: str
    reply: str
    asked_at: datetime
    mode: str
    probe: str
    summary: str
    citations: list[CitationFields]
    model: str | None
    """Who asked; null: rules did."""
    trace_id: str


class DecisionFields(TypedDict):
    """What happens in a turn, as it was decided before anything was read."""

    mode: str
    probe: str
    patterns: tuple[str, ...]
    micro_synthesis: bool
    requires_retrieval: bool
    filler: bool
    reason: str
    by: str | None
    """The model that decided; null: rules did."""


class ChangeFields(TypedDict):
    tool: str
    text: str
    refused: bool


class AccountFields(TypedDict):
    """How a turn came about."""

    decision: DecisionFields
    sections: list[SectionFields]
    phase_a_tokens: int
    phase_b_tokens: int
    sources: list[SourceFields]
    recalled: tuple[int, ...]
    """Numbers of the older turns that were brought back."""
    searches: int
    changes: list[ChangeFields]
    compressed: tuple[str, ...]
    notices: tuple[str, ...]
    degraded: tuple[Degraded, ...]
    model: str | None
    """Who asked; null: rules did."""
    usage: UsageFields
    timings: dict[str, float]
    """In milliseconds, by stage."""
    trace_id: str


class InterviewTurnFields(TypedDict):
    """A turn that was stored, with the state after it."""

    interview: str
    turn: InterviewTurnLine
    state: StateFields
    account: AccountFields


# -- an interview


def talk_fields(talk: Conversation) -> TalkFields:
    """A line of `discover ls --json`."""
    return {
        "id": talk.id,
        "title": talk.title,
        "turns": talk.turns,
        "created_at": talk.created_at,
        "updated_at": talk.updated_at,
    }


def interview_fields(interview: Interview, progress: Sequence[Progression]) -> InterviewFields:
    """An interview without what it knows: that is in `state_fields`."""
    state = interview.state
    return {
        **talk_fields(interview.talk),
        "mode": state.mode,
        "probe": state.probe or None,
        "turn": state.turn,
        "version": state.version,
        "probes_done": sum(each.done for each in progress),
        "progress": [progress_fields(each) for each in progress],
        "assumptions": standings(state.assumptions),
        "points": len(state.points),
    }


def progress_fields(progress: Progression) -> ProgressFields:
    return {
        "key": progress.key,
        "title": progress.title,
        "met": progress.met,
        "criteria": progress.criteria,
        "unknown": progress.unknown,
        "done": progress.done,
        "fired": progress.fired,
        "current": progress.current,
    }


def standings(assumptions: Sequence[Assumption]) -> dict[str, int]:
    """How many there are, `all` of them and by status."""
    each_of = {str(status): sum(each.status is status for each in assumptions) for status in Standing}
    return {"all": len(assumptions), **each_of}


def state_fields(state: InterviewState) -> StateFields:
    return {
        "mode": state.mode,
        "probe": state.probe or None,
        "turn": state.turn,
        "version": state.version,
        "offer": state.offer or None,
        "assumptions": [assumption_fields(each) for each in state.assumptions],
        "points": [point_fields(each) for each in state.points],
        "asked": [asked_fields(each) for each in state.asked],
        "pending": [asked_fields(each) for each in state.pending],
        "met": [met_fields(each) for each in state.met],
        "fired": [noticed_fields(each) for each in state.fired],
        "patterns": [noticed_fields(each) for each in state.patterns],
    }


def assumption_fields(assumption: Assumption) -> AssumptionFields:
    return {
        "id": assumption.id,
        "statement": assumption.statement,
        "status": assumption.status,
        "confidence": assumption.confidence,
        "impact": assumption.impact,
        "depends_on": assumption.depends_on,
        "evidence": [evidence_fields(each) for each in assumption.evidence],
        "probe": assumption.probe or None,
        "turn": assumption.turn,
    }


def evidence_fields(evidence: Evidence) -> ProofFields:
    return {"text": evidence.text, "turn": evidence.turn, "cited": [cited_fields(each) for each in evidence.cited]}


def cited_fields(cited: Cited) -> CitedFields:
    return {
        "chunk_id": cited.chunk,
        "document": cited.name,
        "document_id": cited.document,
        "locator": locator_fields(cited.locator),
        "checksum": cited.checksum,
        "quote": cited.quote,
    }


def point_fields(point: Point) -> PointFields:
    return {
        "id": point.id,
        "section": point.section,
        "text": point.text,
        "turn": point.turn,
        "criterion": point.criterion or None,
        "cited": [cited_fields(each) for each in point.cited],
        "assumption": point.assumption or None,
    }


def asked_fields(asked: AskedQuestion) -> AskedFields:
    return {
        "text": asked.text,
        "probe": asked.probe,
        "criterion": asked.criterion or None,
        "turn": asked.turn,
        "answered": asked.answered if asked.answered > 0 else None,
        "unknown": asked.answered == UNKNOWN,
    }


def met_fields(met: Met) -> MetFields:
    unknown = met.turn == UNKNOWN
    return {"criterion": met.criterion, "turn": None if unknown else met.turn, "unknown": unknown}


def noticed_fields(noticed: Noticed) -> NoticedFields:
    return {"key": noticed.key, "mode": noticed.mode, "turn": noticed.turn}


def version_fields(version: StateVersion) -> VersionFields:
    return {"version": version.version, "turn": version.turn, "made_at": version.made_at}


# -- a turn


def interview_turn_fields(done: InterviewTurn) -> InterviewTurnFields:
    """What `discover say --json` prints."""
    return {
        "interview": done.interview,
        "turn": turn_fields(done.turn),
        "state": state_fields(done.state),
        "account": account_fields(done.account),
    }


def turn_fields(turn: Turn) -> InterviewTurnLine:
    return {
        "id": turn.id,
        "number": turn.number,
        "message": turn.question,
        "reply": turn.answer,
        "asked_at": turn.asked_at,
        "mode": turn.mode,
        "probe": turn.probe,
        "summary": turn.summary,
        "citations": [citation_fields(each) for each in turn.citations],
        "model": turn.model or None,
        "trace_id": turn.trace_id,
    }


def account_fields(account: TurnAccount) -> AccountFields:
    return {
        "decision": decision_fields(account.decision),
        "sections": [{"name": each.name, "tokens": each.tokens} for each in account.sections],
        "phase_a_tokens": account.phase_a_tokens,
        "phase_b_tokens": account.phase_b_tokens,
        "sources": [source_fields(each) for each in account.sources],
        "recalled": account.recalled,
        "searches": account.searches,
        "changes": [change_fields(each) for each in account.changes],
        "compressed": account.compressed,
        "notices": account.notices,
        "degraded": account.degraded,
        "model": account.model or None,
        "usage": usage_fields(account.usage),
        "timings": {stage: round(milliseconds, 3) for stage, milliseconds in account.timings.items()},
        "trace_id": account.trace_id,
    }


def decision_fields(decision: Decision) -> DecisionFields:
    return {
        "mode": decision.mode,
        "probe": decision.probe,
        "patterns": decision.patterns,
        "micro_synthesis": decision.micro_synthesis,
        "requires_retrieval": decision.requires_retrieval,
        "filler": decision.filler,
        "reason": decision.reason,
        "by": decision.by or None,
    }


def change_fields(change: Change) -> ChangeFields:
    return {"tool": change.tool, "text": change.text, "refused": change.refused}


def event_fields(event: InterviewEvent) -> dict[str, Any]:
    """One step of a turn, with its name first: `decided`, `gathered`, `changed`, and `done` with all of it."""
    match event:
        case Decided():
            return {"event": "decided", **decision_fields(event.decision)}
        case Gathered():
            found = [source_fields(each) for each in event.sources]
            return {"event": "gathered", "sources": found, "recalled": event.recalled}
        case Changed():
            return {"event": "changed", **change_fields(event.change)}
        case TurnDone():
            return {"event": "done", **interview_turn_fields(event.done)}


# -- what the interviewer knows


class KnownFields(TypedDict):
    """A probe, a pattern or a section, by its key."""

    key: str
    title: str
    about: str


class CriterionFields(TypedDict):
    key: str
    text: str
    section: str
    critical: bool


class CriterionProgressFields(CriterionFields):
    met: bool
    unknown: bool
    """The person cannot tell."""
    turn: int | None
    """The turn that met it."""


class ProbeProgressFields(ProgressFields):
    details: list[CriterionProgressFields]


class ProbeFields(KnownFields):
    criteria: list[CriterionFields]


class ModeFields(TypedDict):
    """One half of discovery: what is asked, and what the document has."""

    name: str
    title: str
    document: str
    sections: list[KnownFields]
    probes: list[ProbeFields]
    patterns: list[KnownFields]


def mode_fields(mode: Mode) -> ModeFields:
    return {
        "name": mode.name,
        "title": mode.title,
        "document": mode.document,
        "sections": [{"key": each.key, "title": each.heading, "about": each.says} for each in mode.sections],
        "probes": [
            {
                "key": each.key,
                "title": each.title,
                "about": each.purpose,
                "criteria": [
                    {"key": one.key, "text": one.text, "section": one.section, "critical": one.critical}
                    for one in each.criteria
                ],
            }
            for each in mode.probes.values()
        ],
        "patterns": [{"key": each.key, "title": each.title, "about": each.about} for each in mode.patterns.values()],
    }


def probe_fields(progress: Progression, mode: Mode, state: InterviewState) -> ProbeProgressFields:
    """How far a probe has come, criterion by criterion."""
    turns = {each.criterion: each.turn for each in state.met}
    probe = mode.probes[progress.key]
    details: list[CriterionProgressFields] = []
    for each in probe.criteria:
        turn = turns.get(probe.path(each.key))
        details.append(
            {
                "key": each.key,
                "text": each.text,
                "section": each.section,
                "critical": each.critical,
                "met": turn is not None and turn != UNKNOWN,
                "unknown": turn == UNKNOWN,
                "turn": None if turn == UNKNOWN else turn,
            }
        )
    return {**progress_fields(progress), "details": details}


def modes_fields(modes: Mapping[str, Mode] | Iterable[Mode]) -> list[ModeFields]:
    found = modes.values() if isinstance(modes, Mapping) else modes
    return [mode_fields(each) for each in found]
