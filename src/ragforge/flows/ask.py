"""A question becomes an answer with checked citations, or an honest abstention: the whole path, top to bottom.

recall -> shape -> inject -> search -> gate -> window -> enough? -> condense -> audit (once more?) -> assemble
-> answer -> check -> keep

Without a model the same path runs by rules, and the answer quotes. Every stage can be left out; each says what it kept,
what it dropped and why.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from uuid import uuid4

from ragforge.answer.abstain import PASSAGES, SENTENCES_OF, Heard, calibration_of, evidence
from ragforge.answer.citations import check
from ragforge.answer.quote import quote
from ragforge.answer.stream import StreamFilter
from ragforge.answer.units import units
from ragforge.answer.weigh import covered, rarity, weights
from ragforge.assemble.assemble import Templates, assemble, edited
from ragforge.assemble.condense import condense
from ragforge.assemble.estimate import estimate
from ragforge.assemble.inject import injected, named_files
from ragforge.assemble.shape import Shaper, changes_scope
from ragforge.domain.access import Scope
from ragforge.domain.answers import (
    Abstention,
    Account,
    Answer,
    CitationEvent,
    DecisionEvent,
    DoneEvent,
    Event,
    Evidence,
    Result,
    RetrievalEvent,
    TokenEvent,
    UsageEvent,
    WhyNot,
)
from ragforge.domain.cancel import Cancel
from ragforge.domain.conversation import Conflict, Episode, MemoryVerdict, Remembered, Rollup, Turn
from ragforge.domain.generation import Estimate, Sampling, Usage
from ragforge.domain.library import Document, Project, Status
from ragforge.domain.prompts import Condensed, InjectedFile, Injection, PromptParts, Shape, Source, SuperPrompt
from ragforge.domain.records import ProjectTextKind
from ragforge.domain.retrieval import ContextBlock, Degraded, Filters, Passage, Retrieved, Trace, Tuning, Verdict
from ragforge.errors import ProviderError, RagforgeError, UserError
from ragforge.flows.search import Asked, Search
from ragforge.ports import Catalog, Clock, Embedder, LanguageModel
from ragforge.remember.conflicts import suppress, suppress_recent
from ragforge.remember.episodes import recall
from ragforge.remember.recent import older, recent
from ragforge.remember.words import Words
from ragforge.retrieve.gate import ModelJudge, by_score, gate
from ragforge.retrieve.words import query_words, terms_of

if TYPE_CHECKING:
    from ragforge.domain.tokens import Vector

STAGES = ("memory", "shape", "inject", "gate", "condense")
WHOLE_PROJECT = 6_000
"""Tokens up to which all of a project goes into the prompt of a model."""
_SENTINEL = "NOT IN THE SOURCES"
_MAY_NAME_A_FILE = re.compile(r"[\"'`“„«/\\]|\w\.\w|\b(?:file|datei|fichier|archivo)\b", re.IGNORECASE)
_NEAREST = 3


@dataclass(frozen=True, slots=True)
class Models:
    """Who answers, and who does the small work before; None: rules do."""

    main: LanguageModel | None = None
    cheap: LanguageModel | None = None


@dataclass(frozen=True, slots=True)
class Asking:
    """A question, and how it is to be answered."""

    question: str
    tuning: Tuning
    filters: Filters = Filters()
    sampling: Sampling = field(default_factory=Sampling)
    stages: frozenset[str] = frozenset(STAGES)
    strictness: float = 0.3
    """Of the gate: 0 keeps all, 1 only what clearly bears on the question."""
    conversation: str = ""
    """Its id; empty: a question by itself."""
    ephemeral: bool = False
    """Nothing of it is kept."""
    lock: bool = False
    """Exact File Lock: only the files that the question names."""
    recent_turns: int = 4
    memory_tokens: int = 1_000
    file_tokens: int = 4_000
    persona: str = ""
    agent: str = ""
    output: str = ""
    """What the answer should look like, in words."""
    edited: tuple[str, ...] = ()
    """The texts of the prompt's messages as a person changed them; sent as they are."""


class Ask:
    """Answers to questions about a project."""

    def __init__(
        self,
        catalog: Catalog,
        search: Search,
        project: Callable[[Scope, str], Project],
        embedder_of: Callable[[Project], Embedder],
        templates: Callable[[], Templates],
        clock: Clock,
        keep: Callable[[Kept], None],
    ) -> None:
        self._catalog = catalog
        self._search = search
        self._project = project
        self._embedder_of = embedder_of
        self._templates = templates
        self._clock = clock
        self._keep = keep

    def __call__(self, scope: Scope, name: str, asking: Asking, models: Models, cancel: Cancel) -> Result:
        """The answer as a whole."""
        for event in self.stream(scope, name, asking, models, cancel):
            if isinstance(event, DoneEvent):
                return event.result
        raise AssertionError("a stream ends with its result")

    def stream(self, scope: Scope, name: str, asking: Asking, models: Models, cancel: Cancel) -> Iterator[Event]:
        """The answer as it comes: retrieval, decisions, tokens, citations, usage, done."""
        run = self._run(scope, name, asking, models, cancel)
        run.prepare()
        yield RetrievalEvent(tuple(run.sources), run.shape, tuple(run.degraded))
        yield from map(DecisionEvent, run.verdicts)
        result = yield from run.answer()
        yield UsageEvent(run.usage)
        if not asking.ephemeral:
            self._keep(Kept(scope, run.project, asking, result))
        yield DoneEvent(result)

    def prompt(
        self, scope: Scope, name: str, asking: Asking, models: Models, cancel: Cancel
    ) -> tuple[SuperPrompt, Estimate | None, Account]:
        """What would be sent, what it would take, and how it came about. Nothing is kept."""
        run = self._run(scope, name, asking, models, cancel)
        run.prepare()
        prompt = run.prompt()
        told = None if models.main is None else estimate(prompt, models.main.card, asking.sampling, models.main.count)
        return prompt, told, run.account(prompt)

    def _run(self, scope: Scope, name: str, asking: Asking, models: Models, cancel: Cancel) -> _Run:
        if not asking.question.strip():
            raise UserError("the question is empty", hint='ragforge ask "How long can I return a chair?"')
        if unknown := asking.stages.difference(STAGES):
            raise UserError(f"no stage is called {min(unknown)!r}", hint=f"the stages are {', '.join(STAGES)}")
        project = self._project(scope, name)
        return _Run(self._catalog, self._search, self._embedder_of, self._templates, self._clock, scope, project,
                    asking, models, cancel)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Kept:
    """What is left of a question when it is answered: for the conversation and the log."""

    scope: Scope
    project: Project
    asking: Asking
    result: Result


@dataclass(slots=True)
class _Found:
    """What one pass of retrieval brought."""

    retrieved: Retrieved
    sources: list[Source] = field(default_factory=list)
    evidence: Evidence | None = None
    condensed: Condensed | None = None
    emptied: bool = False


class _Run:
    """One question on its way."""

    def __init__(
        self,
        catalog: Catalog,
        search: Search,
        embedder_of: Callable[[Project], Embedder],
        templates: Callable[[], Templates],
        clock: Clock,
        scope: Scope,
        project: Project,
        asking: Asking,
        models: Models,
        cancel: Cancel,
    ) -> None:
        self._catalog = catalog
        self._search = search
        self._embedder_of = embedder_of
        self._templates = templates
        self._clock = clock
        self._scope = scope
        self.project = project
        self._asking = asking
        self._model = models.main
        self._cheap = models.cheap or models.main
        self._cancel = cancel
        self.request = uuid4().hex
        self._count = tokens_of if self._model is None else self._model.count
        self.usage = Usage()
        self.degraded: list[Degraded] = []
        self.verdicts: list[Verdict] = []
        self._notices: list[str] = []
        self._memory: tuple[MemoryVerdict, ...] = ()
        self._conflicts: list[Conflict] = []
        self._turns: list[Turn] = []
        self._recent: tuple[Turn, ...] = ()
        self._episodes: tuple[Episode, ...] = ()
        self.shape = Shape(asking.question.strip(), "lookup")
        self._files: tuple[InjectedFile, ...] = ()
        self._found: _Found | None = None
        self._reran = False
        self._timings: dict[str, float] = {}
        self._lap = time.perf_counter()

    @property
    def _room(self) -> int | None:
        """Tokens that a prompt may take; None if nobody knows."""
        window = None if self._model is None else self._model.card.window
        return None if window is None else window - self._asking.sampling.max_tokens

    @property
    def _number(self) -> int:
        """Of the turn that this question becomes."""
        return self._turns[-1].number + 1 if self._turns else 1

    @property
    def sources(self) -> list[Source]:
        return [] if self._found is None else self._found.sources

    # -- before the answer

    def prepare(self) -> None:
        """Everything up to the prompt."""
        self._read_texts()
        self._shape()
        if "inject" in self._asking.stages or self._asking.lock:
            self._inject()
        if "memory" in self._asking.stages and self._asking.conversation:
            self._recall()
        if self.shape.casual or (self._asking.lock and self._model is not None):
            return
        self._found = self._retrieve()
        self._audit()

    def _read_texts(self) -> None:
        with self._catalog.read() as c:
            rules, memory = (c.texts.read(self._scope, self.project.id, kind).text for kind in ProjectTextKind)
            if self._asking.conversation:
                self._turns = c.conversations.turns(self._scope, self.project.id, self._asking.conversation)
        self._rules, self._project_memory = rules, memory

    def _recall(self) -> None:
        """The last turns as they are, and older ones that bear on the question. Both give way to injected files."""
        last = recent(self._turns, self._asking.recent_turns, budget=self._asking.memory_tokens, window=self._room)
        self._notices += last.told
        if past := older(self._turns, self._asking.recent_turns):
            self._episodes, self._memory = self._older(past)
        self._episodes, conflicts = suppress(self._episodes, last.turns, self._files, words=WORDS, count=self._count)
        self._recent, others = suppress_recent(last.turns, self._files, words=WORDS)
        self._conflicts += (*conflicts, *others)
        self._took("recall")

    def _older(self, past: Sequence[Turn]) -> tuple[tuple[Episode, ...], tuple[MemoryVerdict, ...]]:
        asking, question = self._asking, self.shape.standalone
        with self._catalog.read() as c:
            moment = c.passages.moment(self._scope, self.project.id)
            rollups = c.conversations.rollups(self._scope, self.project.id, asking.conversation)
            vectors = c.conversations.vectors(
                self._scope, self.project.id, asking.conversation, self.project.embedder_fingerprint
            )
        known: list[Turn | Rollup] = [*past, *rollups]
        remembered = [Remembered(each, _vector(vectors.get(each.id))) for each in known]
        return recall(
            remembered,
            self._meaning(question) if vectors else None,
            WORDS.telling(question),
            self._clock(),
            asking.memory_tokens,
            turn=self._number,
            words=WORDS,
            count=self._count,
            cosine_floor=moment.cosine_floor,
        )

    def _shape(self) -> None:
        """A2, first pass: what is asked, understandable without the conversation."""
        model = self._cheap if "shape" in self._asking.stages else None
        shaper = Shaper(model)
        turns = self._turns if "shape" in self._asking.stages else ()
        self.shape, usage = shaper(self._asking.question, turns, self._project_memory, self.request, self._cancel)
        self.usage += usage
        self._took("shape")

    def _inject(self) -> None:
        """A1: files that the question names."""
        asking = self._asking
        if not asking.lock and not _MAY_NAME_A_FILE.search(asking.question):
            return
        with self._catalog.read() as c:
            documents = c.documents.all(self._scope, self.project.id)
            named = named_files(asking.question, documents)
            found = injected(asking.question, named, self._read, asking.file_tokens, self._count, lock=asking.lock)
        self._notices += found.told
        self._files = found.files
        if asking.lock and not self._files:
            raise UserError(
                "the question is locked to the files it names, and it names none that can be read",
                hint="; ".join(found.told) or "name a file of the project, or leave the lock off",
            )
        self._took("inject")

    def _read(self, document: Document) -> str:
        with self._catalog.read() as c:
            return c.documents.text(self._scope, self.project.id, document.id)

    # -- retrieval

    def _retrieve(self) -> _Found:
        """Search, gate, window, evidence, condense: one pass."""
        found = _Found(self._searched())
        self.degraded += found.retrieved.degraded
        self._notices += [found.retrieved.notice] if found.retrieved.notice else []
        trace = _traced(found.retrieved)
        self.verdicts = [each for each in trace.verdicts if each.stage != "window"]
        rare = rarity(trace.holding, trace.rows)
        found.evidence = self._evidence(trace, rare, found.retrieved.passages)
        passages: Sequence[Passage] = found.retrieved.passages[: self._asking.tuning.context_chunks]
        if "gate" in self._asking.stages and passages:
            passages, found.emptied = self._gated(trace, rare, passages)
        found.sources = self._windowed(passages)
        if "condense" in self._asking.stages and self._model is not None and found.evidence.enough:
            found.condensed = self._condensed(found.sources)
        self._took("retrieve")
        return found

    def _searched(self) -> Retrieved:
        """By the question as it stands alone; narrowed to the documents it names."""
        asking = self._asking
        wanted = tuple(each.document for each in self._files if each.how is Injection.NARROWS or asking.lock)
        given = asking.filters.documents
        narrowed = tuple(each for each in wanted if not given or each in given) or given
        tuning = replace(asking.tuning, k=max(asking.tuning.context_chunks, PASSAGES))
        asked = Asked(self.shape.standalone, tuning, replace(asking.filters, documents=narrowed), explain=True)
        return self._search(self._scope, self.project.slug, asked, self._cancel)

    def _evidence(self, trace: Trace, rare: Mapping[str, float], passages: Sequence[Passage]) -> Evidence:
        heard = [_heard(passage, whole=place < SENTENCES_OF) for place, passage in enumerate(passages[:PASSAGES])]
        return evidence(trace.words.groups, rare, heard, calibration_of(self.project.embedder))

    def _gated(
        self, trace: Trace, rare: Mapping[str, float], passages: Sequence[Passage]
    ) -> tuple[Sequence[Passage], bool]:
        """A3: what bears on an answer."""
        groups = trace.words.groups
        weighed = weights(groups, rare)

        def score(passage: Passage) -> float:
            held = covered(groups, weighed, _heard(passage, whole=False).terms)
            return max(held, passage.scores.get("vectors", 0.0))

        judge = by_score(score) if self._cheap is None else ModelJudge(self._cheap, self.request, self._cancel)
        gated = gate(self.shape.standalone, passages, self._asking.strictness, judge)
        self.usage += gated.usage
        self._notices += [gated.note] if gated.note else []
        self.degraded += [gated.degraded] if gated.degraded else []
        by_key = {passage.key: passage for passage in passages}
        self.verdicts += [
            Verdict(each.stage, by_key[each.key].chunk, by_key[each.key].name, by_key[each.key].locator, each.kept,
                    each.reason, each.score)
            for each in gated.verdicts
        ]  # fmt: skip
        return gated.kept, gated.emptied

    def _windowed(self, passages: Sequence[Passage]) -> list[Source]:
        """For a model, passages with the rest of their sections, within the budget; quotes come from the passages."""
        if self._model is None:
            return [_source_of_passage(number, passage) for number, passage in enumerate(passages, 1)]
        blocks, verdicts = self._search.window(self._scope, self.project.slug, passages, self._asking.tuning)
        self.verdicts += verdicts
        return [_source_of_block(number, block) for number, block in enumerate(blocks, 1)]

    def _condensed(self, sources: Sequence[Source]) -> Condensed | None:
        """A4: facts, constraints and open issues with their sources; None: the sources go in as they are."""
        assert self._cheap is not None
        told = condense(self.shape.standalone, sources, self._cheap, _proved, self.request, self._cancel)
        self.usage += told.usage
        if told.condensed is None:
            self._notices.append(f"not condensed: {told.reason}")
        return told.condensed

    def _audit(self) -> None:
        """A2, second pass. A change of scope allows one more retrieval, and no other after that."""
        found = self._found
        if found is None or found.condensed is None or "shape" not in self._asking.stages:
            return
        after, usage = Shaper(self._cheap).audit(
            self.shape, found.condensed, self._asking.question, self._turns, self._project_memory, self.request,
            self._cancel,
        )  # fmt: skip
        self.usage += usage
        before, self.shape = self.shape, after
        if changes_scope(before, after):
            self._reran = True
            self._found = self._retrieve()
        self._took("audit")

    # -- the answer

    def answer(self) -> Generator[Event, None, Result]:
        """Tokens and citations as they come, and the result."""
        if (why := self._why_not()) is not None:
            return self._abstention(why)
        if self.shape.casual and self._model is None:
            return Answer(_CASUAL, (), self.account())
        if self._model is None:
            return (yield from self._quoted())
        return (yield from self._written(self._model))

    def _why_not(self) -> WhyNot | None:
        """Whether there is too little to answer from."""
        found = self._found
        if found is None or any(file.how is not Injection.NARROWS for file in self._files):
            return None
        if not found.retrieved.passages:
            return WhyNot.EMPTY_PROJECT if self._is_empty() else WhyNot.NOTHING_FOUND
        if found.emptied:
            return WhyNot.GATED
        return None if found.evidence is None or found.evidence.enough else WhyNot.WEAK_EVIDENCE

    def _is_empty(self) -> bool:
        with self._catalog.read() as c:
            return not any(each.enabled for each in c.documents.all(self._scope, self.project.id, Status.READY))

    def _abstention(self, why: WhyNot, told: str = "") -> Abstention:
        nearest = () if self._found is None else self._found.retrieved.passages[:_NEAREST]
        reason = f"{_REASONS[why]}: {told}" if told else f"{_REASONS[why]}."
        return Abstention(why, reason, self._suggestion(why), nearest, self.account())

    def _suggestion(self, why: WhyNot) -> str:
        """What would help: files on what no passage speaks of."""
        if why is WhyNot.EMPTY_PROJECT:
            return "Add files with ragforge add, or switch some on."
        missing = (
            [] if self._found is None else _unheard(_traced(self._found.retrieved), self._found.retrieved.passages)
        )
        if missing:
            return f"No passage near it speaks of {', '.join(missing)}: add files that do, or ask in other words."
        return "Add files on this subject, or ask in other words."

    def _quoted(self) -> Generator[Event, None, Result]:
        """Without a model: the sentences that answer best, as they stand."""
        found = self._found
        assert found is not None, "without a model there is always a search"
        trace = _traced(found.retrieved)
        quotes = quote(
            self.shape.standalone, trace.words.groups, rarity(trace.holding, trace.rows), found.sources, terms_of
        )
        if not quotes:
            return self._abstention(WhyNot.WEAK_EVIDENCE)
        text = "\n\n".join(f"{' '.join(each.text.split())} [{each.source}]" for each in quotes)
        return (yield from self._checked(text, quoted=True))

    def _written(self, model: LanguageModel) -> Generator[Event, None, Result]:
        """By the model, filtered while it streams. One that fails before its first word leaves the quotes."""
        prompt = self.prompt()
        safe = StreamFilter(prompt.sources)
        raw, text, held = "", "", ""
        try:
            for piece in model.stream(prompt.messages, self._asking.sampling, self.request, self._cancel):
                if isinstance(piece, Usage):
                    self.usage += piece
                    continue
                raw += piece
                held += piece
                if not text and _SENTINEL.startswith(held.lstrip()[: len(_SENTINEL)]):
                    continue  # it may be about to say that the answer is not there
                shown, held = safe.feed(held), ""
                text += shown
                if shown:
                    yield TokenEvent(shown)
        except ProviderError as problem:
            self.degraded.append(Degraded("model", f"{model.card.name}: {problem.message}", problem.hint))
            if not text:
                if self._found is None or not self._found.sources:
                    raise
                self._notices.append("the model did not answer: these are quotes")
                return (yield from self._quoted())
            self._notices.append("the model stopped in the middle of its answer")
        if not text and held.lstrip().startswith(_SENTINEL):
            return self._abstention(WhyNot.MODEL_SAYS, held.lstrip().removeprefix(_SENTINEL).strip(" :.\n"))
        rest = safe.feed(held) + safe.end()
        if rest:
            yield TokenEvent(rest)
        self._took("answer")
        return (yield from self._checked(raw, prompt=prompt))

    def _checked(
        self, text: str, *, prompt: SuperPrompt | None = None, quoted: bool = False
    ) -> Generator[Event, None, Result]:
        """The text cleaned as the stream was, and every citation held against its passage."""
        checked = check(text, self.sources if prompt is None else prompt.sources, terms_of)
        if quoted:
            yield TokenEvent(checked.text)
        yield from map(CitationEvent, checked.citations)
        self._took("check")
        return Answer(
            checked.text,
            checked.citations,
            self.account(prompt),
            removed=checked.removed,
            unproved=checked.unproved,
            stripped=checked.stripped,
            quoted=quoted,
        )

    # -- what is told

    def prompt(self) -> SuperPrompt:
        """The exact messages."""
        asking, found = self._asking, self._found
        parts = PromptParts(
            task=asking.question,
            shape=self.shape,
            persona=asking.persona,
            hard_rules=self._rules,
            project_memory=self._project_memory,
            files=tuple(file for file in self._files if file.how is not Injection.NARROWS),
            condensed=None if found is None else found.condensed,
            sources=() if found is None else tuple(found.sources),
            recent=self._recent,
            episodes=self._episodes,
            output=asking.output,
        )
        made = assemble(parts, self._templates(), self._count, self._room, sentinel=_SENTINEL)
        if made.left_out:
            self._notices.append(f"no room in the prompt for {', '.join(made.left_out)}")
        return edited(made, asking.edited, self._count) if asking.edited else made

    def account(self, prompt: SuperPrompt | None = None) -> Account:
        """How it came about."""
        found = self._found
        return Account(
            question=self._asking.question,
            shape=self.shape,
            sources=tuple(self.sources),
            files=self._files,
            verdicts=tuple(self.verdicts),
            memory=self._memory,
            conflicts=tuple(self._conflicts),
            degraded=tuple(dict.fromkeys(self.degraded)),
            evidence=None if found is None else found.evidence,
            prompt=prompt,
            model="" if self._model is None else self._model.card.name,
            usage=self.usage,
            timings=dict(self._timings),
            notices=tuple(dict.fromkeys(self._notices)),
            reran=self._reran,
            trace_id=self.request,
            conversation=self._asking.conversation,
            turn=self._number if self._asking.conversation else 0,
        )

    def _meaning(self, text: str) -> Vector | None:
        try:
            return self._embedder_of(self.project).embed_query(text, self._cancel)
        except RagforgeError as problem:
            self.degraded.append(Degraded("embedder", f"memory by words alone: {problem.message}", problem.hint))
            return None

    def _took(self, stage: str) -> None:
        now = time.perf_counter()
        self._timings[stage], self._lap = self._timings.get(stage, 0.0) + (now - self._lap) * 1000, now


_CASUAL = "Ask me something about the files of this project."
_REASONS = {
    WhyNot.EMPTY_PROJECT: "The project has no file that can be searched",
    WhyNot.NOTHING_FOUND: "Nothing in this project has to do with the question",
    WhyNot.WEAK_EVIDENCE: "I do not see enough in this project to answer that",
    WhyNot.GATED: "No passage clearly bears on the question",
    WhyNot.MODEL_SAYS: "The passages that were found do not answer that",
}


def tokens_of(text: str) -> int:
    """An estimate that is not too low, where no model counts."""
    return max(len(text.split()) * 7 // 5, len(text) // 4) + 1


WORDS = Words(lambda text: query_words(text).groups, terms_of)


def _traced(found: Retrieved) -> Trace:
    assert found.trace is not None, "it was asked for"
    return found.trace


def _heard(passage: Passage, *, whole: bool) -> Heard:
    """What a passage has to do with a question; with its sentences, where those are wanted."""
    text = passage.header + passage.text
    pieces = [text[unit.start : unit.end] for unit in units(text)] if whole else []
    about = " ".join((passage.name, *passage.locator.path))
    terms, *sentences = (frozenset(terms) for terms in terms_of([f"{about}\n{text}", *pieces]))
    return Heard(passage.scores.get("vectors"), terms, tuple(sentences))


def _unheard(trace: Trace, passages: Sequence[Passage]) -> list[str]:
    """The question's rarest words that no passage holds, as they are looked for."""
    held = frozenset().union(*(_heard(passage, whole=False).terms for passage in passages[:PASSAGES]))
    return [group[0] for group in trace.words.groups if held.isdisjoint(group)][:3]


def _proved(statement: str, source: Source) -> bool:
    """Whether a statement's words, numbers and names are in its source."""
    return not check(f"{statement} [{source.number}]", [source], terms_of).unproved


def _vector(stored: bytes | None) -> Vector | None:
    import numpy as np

    return None if stored is None else np.frombuffer(stored, np.float32)


def _source_of_passage(number: int, passage: Passage) -> Source:
    text, shift = passage.header + passage.text, len(passage.header)
    return Source(
        number, passage.chunk, (passage.chunk,), passage.document, passage.name, passage.locator, passage.checksum,
        passage.score, text, passage.tokens, ((passage.chunk, shift, len(text)),),
    )  # fmt: skip


def _source_of_block(number: int, block: ContextBlock) -> Source:
    shift = len(block.header)
    spans = tuple((chunk, start + shift, end + shift) for chunk, start, end in block.spans)
    return Source(
        number, block.best, block.chunks, block.document, block.name, block.locator, block.checksum, block.score,
        block.header + block.text, block.tokens, spans,
    )  # fmt: skip
