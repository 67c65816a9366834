"""Answers, the events of a stream, and prompts as fields for programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typing_extensions import TypedDict

from ragforge.domain.answers import (
    Abstention,
    Answer,
    Citation,
    CitationEvent,
    DecisionEvent,
    DoneEvent,
    Event,
    Evidence,
    Prompted,
    RemovedCitation,
    Result,
    RetrievalEvent,
    TokenEvent,
    UsageEvent,
)
from ragforge.domain.generation import Estimate, Usage
from ragforge.domain.prompts import InjectedFile, Shape, Source
from ragforge.domain.retrieval import Degraded, Verdict
from ragforge.interfaces.fields.passages import LocatorFields, PassageFields, locator_fields, passage_fields


class CitationFields(TypedDict):
    marker: int
    chunk_id: str
    document: str
    locator: LocatorFields
    quote: str
    document_id: str
    start: int
    end: int
    """Where the marker stands in the answer's text."""
    proved: bool
    reason: str


class SourceFields(TypedDict):
    chunk_id: str
    document: str
    locator: LocatorFields
    checksum: str
    score: float
    text: str
    number: int
    document_id: str
    chunk_ids: tuple[str, ...]
    tokens: int


class ShapeFields(TypedDict):
    standalone: str
    """The question as it was searched for."""
    rewritten: bool
    intent: str


class UsageFields(TypedDict):
    input_tokens: int
    output_tokens: int
    calls: int
    cost: float | None
    """In US dollars; null where no price is known."""
    seconds: float


class EvidenceFields(TypedDict):
    score: float
    threshold: float
    enough: bool
    features: Mapping[str, float]


class FileFields(TypedDict):
    document_id: str
    document: str
    how: str
    tokens: int
    named_as: str
    left_out: str


class AnswerFields(ShapeFields):
    """An answer with checked citations, or an abstention that says why; which of them, `kind` tells."""

    kind: str
    text: str
    citations: list[CitationFields]
    sources: list[SourceFields]
    removed_citations: tuple[RemovedCitation, ...]
    reason: str | None
    suggestion: str | None
    usage: UsageFields
    trace_id: str
    why: str | None
    nearest: list[PassageFields]
    quoted: bool
    unproved: tuple[str, ...]
    uncited: int
    stripped: tuple[str, ...]
    notices: tuple[str, ...]
    degraded: tuple[Degraded, ...]
    question: str
    evidence: EvidenceFields | None
    files: list[FileFields]
    model: str | None
    conversation: str | None
    turn: int | None
    timings: dict[str, float]
    """In milliseconds, by stage."""


class SectionFields(TypedDict):
    name: str
    tokens: int


class EstimateFields(TypedDict):
    model: str
    input_tokens: int
    output_tokens: int
    window: int | None
    fits: bool
    cost: float | None


class NoAnswerFields(TypedDict):
    why: str
    reason: str
    suggestion: str


class MessageFields(TypedDict):
    """A message of a prompt, as it is sent."""

    role: str
    text: str


class PromptFields(ShapeFields):
    """What would be sent, byte for byte, and what it takes."""

    messages: list[MessageFields]
    sections: list[SectionFields]
    estimate: EstimateFields | None
    left_out: tuple[str, ...]
    hidden: tuple[str, ...]
    abstention: NoAnswerFields | None
    """What would come back instead of sending it."""
    sources: list[SourceFields]
    usage: UsageFields
    notices: tuple[str, ...]
    degraded: tuple[Degraded, ...]
    question: str
    model: str | None


def answer_fields(result: Result) -> AnswerFields:
    """What `ask --json` prints: the fields of the contract, then everything else that is known."""
    answer = result if isinstance(result, Answer) else None
    none = result if isinstance(result, Abstention) else None
    account = result.account
    return {
        "kind": "abstention" if none else "answer",
        "text": result.text,
        "citations": [citation_fields(each) for each in answer.citations] if answer else [],
        "sources": [source_fields(each) for each in account.sources],
        "removed_citations": answer.removed if answer else (),
        "reason": none.reason if none else None,
        "suggestion": none.suggestion if none else None,
        "usage": usage_fields(account.usage),
        "trace_id": account.trace_id,
        "why": none.why if none else None,
        "nearest": [passage_fields(each) for each in none.nearest] if none else [],
        "quoted": bool(answer and answer.quoted),
        "unproved": answer.unproved if answer else (),
        "uncited": answer.uncited if answer else 0,
        "stripped": answer.stripped if answer else (),
        "notices": account.notices,
        "degraded": account.degraded,
        "question": account.question,
        **shape_fields(account.shape),
        "evidence": None if account.evidence is None else evidence_fields(account.evidence),
        "files": [file_fields(each) for each in account.files],
        "model": account.model or None,
        "conversation": account.conversation or None,
        "turn": account.turn or None,
        "timings": {stage: round(milliseconds, 3) for stage, milliseconds in account.timings.items()},
    }


def citation_fields(citation: Citation) -> CitationFields:
    return {
        "marker": citation.marker,
        "chunk_id": citation.chunk,
        "document": citation.name,
        "locator": locator_fields(citation.locator),
        "quote": citation.quote,
        "document_id": citation.document,
        "start": citation.start,
        "end": citation.end,
        "proved": citation.proved,
        "reason": citation.reason,
    }


def source_fields(source: Source) -> SourceFields:
    return {
        "chunk_id": source.chunk,
        "document": source.name,
        "locator": locator_fields(source.locator),
        "checksum": source.checksum,
        "score": source.score,
        "text": source.text,
        "number": source.number,
        "document_id": source.document,
        "chunk_ids": source.chunks,
        "tokens": source.tokens,
    }


def shape_fields(shape: Shape) -> ShapeFields:
    return {"standalone": shape.standalone, "rewritten": shape.rewritten, "intent": shape.intent}


def usage_fields(usage: Usage) -> UsageFields:
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "calls": usage.calls,
        "cost": None if usage.cost is None else float(usage.cost),
        "seconds": round(usage.seconds, 3),
    }


def evidence_fields(evidence: Evidence) -> EvidenceFields:
    return {
        "score": evidence.score,
        "threshold": evidence.threshold,
        "enough": evidence.enough,
        "features": evidence.features,
    }


def file_fields(file: InjectedFile) -> FileFields:
    return {
        "document_id": file.document,
        "document": file.name,
        "how": file.how,
        "tokens": file.tokens,
        "named_as": file.named_as,
        "left_out": file.left_out,
    }


# -- a stream


def event_fields(event: Event) -> dict[str, Any]:
    """One event of `ask --json --stream`, with its name first."""
    match event:
        case RetrievalEvent():
            sources = [source_fields(each) for each in event.sources]
            return {
                "event": "retrieval",
                "sources": sources,
                **shape_fields(event.shape),
                "degraded": event.degraded,
            }
        case DecisionEvent():
            return {"event": "decision", **_verdict_fields(event.verdict)}
        case TokenEvent():
            return {"event": "token", "text": event.text}
        case CitationEvent():
            return {"event": "citation", **citation_fields(event.citation)}
        case UsageEvent():
            return {"event": "usage", **usage_fields(event.usage)}
        case DoneEvent():
            return {"event": "done", **answer_fields(event.result)}


def _verdict_fields(verdict: Verdict) -> dict[str, Any]:
    return {
        "stage": verdict.stage,
        "chunk_id": verdict.chunk,
        "document": verdict.document,
        "locator": locator_fields(verdict.locator),
        "kept": verdict.kept,
        "reason": verdict.reason,
        "score": verdict.score,
    }


# -- a prompt


def prompt_fields(prompted: Prompted) -> PromptFields:
    """What `prompt --json` prints: the messages as they would be sent, and what they take."""
    prompt, account, none = prompted.prompt, prompted.account, prompted.abstention
    return {
        "messages": [{"role": str(each.role), "text": each.text} for each in prompt.messages],
        "sections": [{"name": each.name, "tokens": each.tokens} for each in prompt.sections],
        "estimate": None if prompted.estimate is None else _estimate_fields(prompted.estimate),
        "left_out": prompt.left_out,
        "hidden": prompt.hidden,
        "abstention": None if none is None else {"why": none.why, "reason": none.reason, "suggestion": none.suggestion},
        "sources": [source_fields(each) for each in prompt.sources],
        "usage": usage_fields(account.usage),
        "notices": account.notices,
        "degraded": account.degraded,
        "question": account.question,
        **shape_fields(account.shape),
        "model": account.model or None,
    }


def _estimate_fields(estimate: Estimate) -> EstimateFields:
    return {
        "model": estimate.model,
        "input_tokens": estimate.input_tokens,
        "output_tokens": estimate.output_tokens,
        "window": estimate.window,
        "fits": estimate.fits,
        "cost": None if estimate.cost is None else float(estimate.cost),
    }
