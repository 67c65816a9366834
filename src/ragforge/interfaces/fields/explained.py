"""How a question was searched for, and how its answer came about: every candidate, every stage, every reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from typing_extensions import TypedDict

from ragforge.domain.answers import Account, Prompted
from ragforge.domain.conversation import Conflict, MemoryVerdict
from ragforge.domain.documents import Locator
from ragforge.domain.prompts import Condensed, Shape, Source, SuperPrompt
from ragforge.domain.retrieval import Degraded, Retrieved, Stage, Trace, Tuning, Verdict
from ragforge.interfaces.fields.answers import (
    EstimateFields,
    EvidenceFields,
    FileFields,
    NoAnswerFields,
    SectionFields,
    UsageFields,
    evidence_fields,
    file_fields,
    prompt_fields,
    usage_fields,
)
from ragforge.interfaces.fields.passages import (
    BlockFields,
    LocatorFields,
    PassageFields,
    RetrievedFields,
    block_fields,
    locator_fields,
    passage_fields,
    retrieved_fields,
)


class VerdictFields(TypedDict):
    stage: str
    kept: bool
    reason: str
    score: float


class FateFields(TypedDict):
    """A candidate, and where its way ended."""

    chunk_id: str
    document: str
    locator: LocatorFields
    kept: bool
    stage: str
    reason: str
    source: int | None
    verdicts: list[VerdictFields]


class PromptOutline(TypedDict):
    tokens: int
    sections: list[SectionFields]
    condensed: list[str]
    left_out: tuple[str, ...]
    hidden: tuple[str, ...]


class WhyFields(TypedDict):
    """How an answer came about."""

    question: str
    shape: Shape
    files: list[FileFields]
    memory: tuple[MemoryVerdict, ...]
    conflicts: tuple[Conflict, ...]
    candidates: list[FateFields]
    evidence: EvidenceFields | None
    prompt: PromptOutline | None
    degraded: tuple[Degraded, ...]
    notices: tuple[str, ...]
    reran: bool
    model: str
    usage: UsageFields
    timings: dict[str, float]
    trace_id: str
    conversation: str
    turn: int


class CandidateFields(PassageFields):
    place: int | None
    """Among those that no stage took out."""
    fused: float | None
    verdicts: list[VerdictFields]


class SearchFields(RetrievedFields):
    """A search with every candidate and every verdict."""

    settings: str
    words: tuple[tuple[str, ...], ...]
    tuning: Tuning
    alpha: float
    watermark: int | None
    behind: int | None
    """Of the indexes, as changes; null for those who do not see all documents."""
    candidates: list[CandidateFields]
    near_misses: list[str]
    context: list[BlockFields]


class OutcomeFields(WhyFields):
    """Whether there would be an answer, and how it would come about."""

    kind: str
    abstention: NoAnswerFields | None
    estimate: EstimateFields | None


class ExplanationFields(SearchFields):
    question: str
    replays: list[SearchFields]
    answer: OutcomeFields


CUT = "cut"
"""Where a candidate ends that is not among the best: no stage, but a limit."""
PROMPT = "prompt"
"""Where a source ends that the finished prompt does not hold."""


# -- where the way of each candidate ended


@dataclass(frozen=True, slots=True)
class Fate:
    """A candidate, what each stage said of it, and which one had the last word."""

    chunk: str
    name: str
    locator: Locator
    way: tuple[Verdict, ...]
    kept: bool
    stage: str
    reason: str
    source: int = 0
    """The number it is cited by; 0: it is no source."""

    @property
    def score(self) -> float:
        """What it was found with, before any stage judged it."""
        return self.way[0].score


def fates(account: Account) -> list[Fate]:
    """Every candidate once, in the order in which they were found."""
    ways: dict[str, list[Verdict]] = {}
    for verdict in account.verdicts:
        ways.setdefault(verdict.chunk, []).append(verdict)
    numbers = {chunk: source.number for source in reversed(read_sources(account)) for chunk in source.chunks}
    best = sum(chunk in numbers or any(_is_late(verdict) for verdict in way) for chunk, way in ways.items())
    return [
        Fate(
            chunk,
            way[0].document,
            way[0].locator,
            tuple(way),
            *_end(account, way, numbers.get(chunk, 0), best),
            source=numbers.get(chunk, 0),
        )
        for chunk, way in ways.items()
    ]


def read_sources(account: Account) -> Sequence[Source]:
    """What is read for the answer. Named files are the last sources; without a model, only passages of them are."""
    files = 0 if account.model else sum(bool(file.text) for file in account.files)
    return account.sources[: len(account.sources) - files]


def _is_late(verdict: Verdict) -> bool:
    """Whether only the best come so far."""
    return verdict.stage in (Stage.GATE, Stage.WINDOW)


def _end(account: Account, way: Sequence[Verdict], number: int, best: int) -> tuple[bool, str, str]:
    """Kept or not, where that was decided, and why."""
    last, dropped = way[-1], next((verdict for verdict in way if not verdict.kept), None)
    if number and account.prompt is not None and all(source.number != number for source in account.prompt.sources):
        no_room = any(name.startswith(f"source {number},") for name in account.prompt.left_out)
        return False, PROMPT, "no room" if no_room else "no condensed statement stands on it"
    if number and dropped is not None:
        return True, PROMPT, f"all of its file is there, whatever {dropped.stage} said: {dropped.reason}"
    if number:
        return True, last.stage, last.reason
    if dropped is not None:
        return False, dropped.stage, dropped.reason
    if last.stage == Stage.GATE:
        return False, Stage.WINDOW, "replaced or removed since it was found"
    return False, CUT, f"beyond the best {best:,}"


def statements_of(condensed: Condensed | None) -> list[str]:
    """Every statement with its sources, under its heading."""
    groups = (
        ()
        if condensed is None
        else (
            ("Facts", condensed.facts),
            ("Constraints", condensed.constraints),
            ("Open Issues", condensed.open_issues),
        )
    )
    return [
        line
        for title, statements in groups
        if statements
        for line in (f"{title}:", *(f"- {each.text} {''.join(f'[{n}]' for n in each.sources)}" for each in statements))
    ]


# -- how an answer came about


def why_fields(account: Account) -> WhyFields:
    """The same as fields."""
    shape, evidence, prompt = account.shape, account.evidence, account.prompt
    return {
        "question": account.question,
        "shape": shape,
        "files": [file_fields(file) for file in account.files],
        "memory": account.memory,
        "conflicts": account.conflicts,
        "candidates": [_fate_fields(fate) for fate in fates(account)],
        "evidence": None if evidence is None else evidence_fields(evidence),
        "prompt": None if prompt is None else _prompt_fields(prompt, account.condensed),
        "degraded": account.degraded,
        "notices": account.notices,
        "reran": account.reran,
        "model": account.model,
        "usage": usage_fields(account.usage),
        "timings": {stage: round(spent, 3) for stage, spent in account.timings.items()},
        "trace_id": account.trace_id,
        "conversation": account.conversation,
        "turn": account.turn,
    }


def _fate_fields(fate: Fate) -> FateFields:
    return {
        "chunk_id": fate.chunk,
        "document": fate.name,
        "locator": locator_fields(fate.locator),
        "kept": fate.kept,
        "stage": fate.stage,
        "reason": fate.reason,
        "source": fate.source or None,
        "verdicts": [
            {"stage": each.stage, "kept": each.kept, "reason": each.reason, "score": each.score} for each in fate.way
        ],
    }


def _prompt_fields(prompt: SuperPrompt, condensed: Condensed | None) -> PromptOutline:
    return {
        "tokens": sum(section.tokens for section in prompt.sections),
        "sections": [{"name": section.name, "tokens": section.tokens} for section in prompt.sections],
        "condensed": statements_of(condensed),
        "left_out": prompt.left_out,
        "hidden": prompt.hidden,
    }


# -- how a question was searched for


@dataclass(frozen=True, slots=True)
class ExplainedSearch:
    """A search with its trace, by chunk."""

    label: str
    retrieved: Retrieved
    trace: Trace
    verdicts: Mapping[str, Sequence[Verdict]]
    places: Mapping[str, int]
    """Of all candidates that no stage took out, also beyond the first k."""

    @classmethod
    def of(cls, label: str, retrieved: Retrieved) -> Self:
        trace = retrieved.trace
        assert trace is not None, "explain always brings a trace"
        verdicts: dict[str, list[Verdict]] = {candidate.chunk: [] for candidate in trace.candidates}
        for verdict in trace.verdicts:
            verdicts[verdict.chunk].append(verdict)
        left = [c.chunk for c in trace.candidates if not any(_takes_out(verdict) for verdict in verdicts[c.chunk])]
        return cls(label, retrieved, trace, verdicts, {chunk: place for place, chunk in enumerate(left, 1)})

    @property
    def shown(self) -> int:
        return len(self.retrieved.passages)

    def fused(self, chunk: str) -> float | None:
        return next((verdict.score for verdict in self.verdicts[chunk] if verdict.stage == Stage.FUSE), None)

    def decided(self, chunk: str) -> Verdict:
        """The stage that took it out, or the last one."""
        verdicts = self.verdicts[chunk]
        return next((verdict for verdict in verdicts if _takes_out(verdict)), verdicts[-1])

    def fields(self) -> SearchFields:
        trace = self.trace
        return {
            "settings": self.label,
            **retrieved_fields(self.retrieved),
            "words": trace.words.groups,
            "tuning": trace.tuning,
            "alpha": trace.alpha,
            "watermark": trace.watermark,
            "behind": trace.behind,
            "candidates": [
                {
                    **passage_fields(candidate),
                    "place": self.places.get(candidate.chunk),
                    "fused": self.fused(candidate.chunk),
                    "verdicts": [
                        {"stage": v.stage, "kept": v.kept, "reason": v.reason, "score": v.score}
                        for v in self.verdicts[candidate.chunk]
                    ],
                }
                for candidate in trace.candidates
            ],
            "near_misses": [passage.chunk for passage in trace.near_misses],
            "context": [block_fields(block) for block in self.retrieved.context],
        }


def _takes_out(verdict: Verdict) -> bool:
    """The window only chooses what goes into the context; a passage it leaves out is still found."""
    return not verdict.kept and verdict.stage != Stage.WINDOW


def explanation_fields(
    question: str, first: ExplainedSearch, replays: Sequence[ExplainedSearch], prompted: Prompted
) -> ExplanationFields:
    """What `explain --json` prints: the search, what other settings would have found, and what would come of it."""
    return {
        "question": question,
        **first.fields(),
        "replays": [replay.fields() for replay in replays],
        "answer": _outcome_fields(prompted),
    }


def _outcome_fields(prompted: Prompted) -> OutcomeFields:
    told = prompt_fields(prompted)
    return {
        "kind": "answer" if prompted.abstention is None else "abstention",
        "abstention": told["abstention"],
        "estimate": told["estimate"],
        **why_fields(prompted.account),
    }
