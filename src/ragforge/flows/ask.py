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
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from uuid import uuid4

from ragforge.answer.abstain import PASSAGES
from ragforge.answer.citations import check, proving
from ragforge.answer.clean import asks_for_address, links_in
from ragforge.answer.shown import shown
from ragforge.answer.sources import source_of_block, source_of_chunk, source_of_passage
from ragforge.answer.stream import StreamFilter, clean
from ragforge.answer.weigh import covered, only_asks, weights
from ragforge.assemble.assemble import Templates, assemble
from ragforge.assemble.condense import condense
from ragforge.assemble.estimate import cost, estimate, prompt_tokens
from ragforge.assemble.inject import Named, Outcome, injected, named_files
from ragforge.assemble.shape import Shaper, changes_scope, require_known
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
    Prompted,
    Result,
    RetrievalEvent,
    TokenEvent,
    UsageEvent,
    WhyNot,
)
from ragforge.domain.cancel import Cancel, Cancelled
from ragforge.domain.conversation import (
    Conflict,
    ConversationKind,
    Episode,
    MemoryVerdict,
    Remembered,
    Rollup,
    Stored,
    Turn,
)
from ragforge.domain.documents import Locator
from ragforge.domain.generation import Acted, Message, Sampling, Tool, Usage
from ragforge.domain.library import Document, Project, Status
from ragforge.domain.pending import Pending, at_once
from ragforge.domain.prompts import Condensed, InjectedFile, Injection, PromptParts, Shape, Shaping, Source, SuperPrompt
from ragforge.domain.records import ProjectTextKind
from ragforge.domain.retrieval import Degraded, Filters, Passage, Retrieved, Trace, Tuning, Verdict
from ragforge.domain.tokens import estimated_tokens
from ragforge.errors import ProviderError, RagforgeError, StoreError, TooLarge, UserError, WrongShape
from ragforge.flows.grounds import (
    SENTINEL,
    evidence_in,
    heard,
    may_say_missing,
    quotes_in,
    rarity_in,
    said_missing,
    traced,
)
from ragforge.flows.search import Asked, Search
from ragforge.ports import Catalog, Clock, Embedder, LanguageModel, Shaped, Unit
from ragforge.remember import conflicts
from ragforge.remember.episodes import recall
from ragforge.remember.recent import FEWEST, MOST, older, recent
from ragforge.remember.words import Words
from ragforge.retrieve.gate import Judge, ModelJudge, by_score, gate, shares
from ragforge.retrieve.words import query_words, terms_of

if TYPE_CHECKING:
    from ragforge.domain.tokens import Vector

STAGES = ("memory", "shape", "inject", "gate", "condense")
_MAY_NAME_A_FILE = re.compile(
    r"[\"`“„«/\\]|(?<!\w)'\w|(?<!\w)\.\w|\.(?:[a-z][a-z0-9]{1,9}|[chrm])\b|"
    r"\b(?:make|docker|jenkins|vagrant|proc|gem|rake|just)file\b",
    re.IGNORECASE,
)
"""To look for a file takes a list of all: most questions show at a glance that they name none."""
_NEAREST = 3
_TAKES_STEPS = ("procedure", "code")
"""Intents whose answers are steps and commands, which may need an address."""
_FOR_MODELS = 0.8
"""The part of the caller's time that models may take: when they do not answer, there is still time to search."""
_LONGEST_REASON = 300
_AROUND_WORDS = ".,;:!?()[]{}\"'“”„«»‘’¿¡"


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
    history: tuple[Turn, ...] = ()
    """After those of the conversation, or instead of them: turns that are kept elsewhere."""
    ephemeral: bool = False
    """Nothing of it is kept."""
    lock: bool = False
    """Exact File Lock: only the files that the question names."""
    recent_turns: int = 4
    memory_tokens: int = 1_000
    file_tokens: int = 4_000
    whole_project_tokens: int = 0
    """Up to so many, all of the project goes into the prompt of a model."""
    persona: str = ""
    agent: str = ""
    profile: str = ""
    output: str = ""
    """What the answer should look like, in words."""
    shaping: Shaping = field(default_factory=Shaping)
    """What a person says of the shape; the rest is proposed."""
    prompted: Prompted | None = None
    """The prompt to send, as it is, with the passages that were found for it."""
    timeout_seconds: float = 180.0
    """For all that models do."""
    request: str = ""
    """The id of what brought the question: its trace and every call of a provider begin with it."""


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
        keep: Callable[[Kept], Stored],
    ) -> None:
        self._catalog = catalog
        self._search = search
        self._project = project
        self._embedder_of = embedder_of
        self._templates = templates
        self._clock = clock
        self._keep = keep

    def stream(
        self, scope: Scope, name: str, asking: Asking, models: Models, cancel: Cancel
    ) -> Iterator[Event | Pending]:
        """The answer as it comes: retrieval, decisions, tokens, citations, usage, done. While it thinks: `Pending`."""
        run = self._run(scope, name, asking, models, cancel)
        try:
            run.prepare()
            yield RetrievalEvent(tuple(run.sources), run.shape, tuple(run.degraded))
            yield from map(DecisionEvent, run.verdicts)
            result = yield from run.answer()
            yield at_once()
        except RagforgeError as problem:
            self._log(scope, run, asking, problem.message)
            raise
        except BaseException:
            if run.usage.calls:  # nobody waits for the answer, but it was paid
                self._log(scope, run, asking, _STOPPED)
            raise
        usage = run.usage
        done = self._kept(scope, run, asking, result)  # whoever still listens
        yield UsageEvent(usage)
        yield DoneEvent(done)

    def _log(self, scope: Scope, run: _Run, asking: Asking, why: str) -> None:
        """A question that came to nothing. What went wrong is to be told, also where it cannot be written down."""
        with suppress(RagforgeError):
            self._keep(Kept(scope, run.project, asking, run.account(), error=why))

    def _kept(self, scope: Scope, run: _Run, asking: Asking, result: Result) -> Result:
        """The result, stored; one that could not be stored says so, but is not lost."""
        kept = Kept(scope, run.project, asking, result.account, result, cheap=run.cheap, cancel=run.in_time)
        account = result.account
        try:
            stored = self._keep(kept)
        except RagforgeError as problem:
            if asking.conversation and not isinstance(problem, StoreError):  # it was removed meanwhile
                with suppress(RagforgeError):
                    self._keep(replace(kept, asking=replace(asking, conversation="")))
            told: tuple[str, ...] = (f"this answer was not kept: {problem.message}",)
        else:
            account, told = replace(account, turn=stored.turn or account.turn), stored.problems
        return replace(result, account=replace(account, notices=(*account.notices, *told)))

    def prompt(self, scope: Scope, name: str, asking: Asking, models: Models, cancel: Cancel) -> Prompted:
        """What would be sent, what it would take, and how it came about. Nothing is kept, but what it took so far."""
        run = self._run(scope, name, asking, models, cancel)
        figures = replace(asking, ephemeral=True)
        try:
            run.prepare()
            prompt = run.prompt()
        except BaseException:
            self._log(scope, run, figures, _STOPPED)
            raise
        with suppress(RagforgeError):
            self._keep(Kept(scope, run.project, figures, run.account(prompt)))
        told = None if models.main is None else estimate(prompt, models.main.card, asking.sampling, models.main.count)
        return Prompted(prompt, run.account(prompt), told, run.abstention())

    def _run(self, scope: Scope, name: str, asking: Asking, models: Models, cancel: Cancel) -> _Run:
        if not asking.question.strip():
            raise UserError("the question is empty", hint="ask something, such as: how long can I return a chair?")
        if unknown := asking.stages.difference(STAGES):
            raise UserError(f"no stage is called {min(unknown)!r}", hint=f"the stages are {', '.join(STAGES)}")
        require_known(asking.shaping)
        if not FEWEST <= asking.recent_turns <= MOST:
            raise UserError(
                f"{asking.recent_turns} recent turns are too few or too many",
                hint=f"set ask.recent_turns to {FEWEST} to {MOST}",
            )
        if asking.prompted is not None and models.main is None:
            raise UserError("there is no model to send the prompt to", hint="name one: model.name in ragforge.toml")
        if models.main is not None:
            self._templates()  # one that cannot be used is said before a model is paid
        project = self._project(scope, name)
        return _Run(self._catalog, self._search, self._embedder_of, self._templates, self._clock, scope, project,
                    asking, models, cancel)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Kept:
    """What is left of a question when it is answered: for the conversation and the log."""

    scope: Scope
    project: Project
    asking: Asking
    account: Account
    result: Result | None = None
    """None if it came to nothing, for the reason in `error`."""
    error: str = ""
    cheap: LanguageModel | None = None
    """Who may sum up old turns; None: rules do."""
    cancel: Cancel = field(default_factory=Cancel)
    """The time that models have."""


@dataclass(slots=True)
class _Found:
    """What one pass of retrieval brought."""

    retrieved: Retrieved
    sources: list[Source] = field(default_factory=list)
    evidence: Evidence | None = None
    condensed: Condensed | None = None
    emptied: bool = False


class Once:
    """A model for one question: when it does not answer, it is not asked again, and every stage does without.

    `spent` is told what every call took, as soon as that is known and however it ends.
    """

    def __init__(self, model: LanguageModel, spent: Callable[[Usage], None]) -> None:
        self._model = model
        self._spent = spent
        self._failed: ProviderError | None = None
        self.card = model.card
        self.count = model.count
        self.tool_tokens = model.tool_tokens

    def stream(
        self, messages: Sequence[Message], sampling: Sampling, request: str, cancel: Cancel
    ) -> Iterator[str | Usage | Pending]:
        written: list[str] = []
        usage = Usage()
        with self._watched(messages, written):
            for piece in self._model.stream(messages, sampling, request, cancel):
                if isinstance(piece, Usage):
                    usage = piece
                    continue
                if isinstance(piece, str):
                    written.append(piece)
                yield piece
        self._spent(usage)
        yield usage

    def fill(
        self, messages: Sequence[Message], shape: type[Shaped], sampling: Sampling, request: str, cancel: Cancel
    ) -> tuple[Shaped, Usage]:
        try:
            with self._watched(messages):
                filled, usage = self._model.fill(messages, shape, sampling, request, cancel)
        except TooLarge as problem:  # small work that does not fit is done by rules; an answer may fit
            raise ProviderError(problem.message, hint=problem.hint) from problem
        self._spent(usage)
        return filled, usage

    def act(
        self, messages: Sequence[Message], tools: Sequence[Tool], sampling: Sampling, request: str, cancel: Cancel
    ) -> tuple[Acted, Usage]:
        try:
            with self._watched(messages):
                acted, usage = self._model.act(messages, tools, sampling, request, cancel)
        except TooLarge as problem:
            raise ProviderError(problem.message, hint=problem.hint) from problem
        self._spent(usage)
        return acted, usage

    @contextmanager
    def _watched(self, messages: Sequence[Message], written: Sequence[str] = ()) -> Iterator[None]:
        if self._failed is not None:
            raise self._failed
        try:
            yield
        except (Cancelled, GeneratorExit):  # nobody waits for the rest, but it was asked
            usage = Usage(prompt_tokens(messages, self.count), self.count("".join(written)), calls=1)
            self._spent(replace(usage, cost=cost(usage, self.card)))
            raise
        except ProviderError as problem:
            self._spent(problem.usage or Usage())
            if not isinstance(problem, WrongShape):  # else it may still be able to write
                self._failed = problem
            raise


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
        self._model = None if models.main is None else Once(models.main, self._spent)
        self.cheap = self._model if models.cheap in (None, models.main) else Once(models.cheap, self._spent)
        self._cancel = cancel
        self.in_time = cancel.within(min(asking.timeout_seconds, _FOR_MODELS * cancel.remaining()))
        self.request = f"{asking.request}-{uuid4().hex[:12]}" if asking.request else uuid4().hex  # once, whoever asks
        self._count = estimated_tokens if self._model is None else self._model.count
        self.usage = Usage()
        self.degraded: list[Degraded] = []
        self.verdicts: list[Verdict] = []
        self._notices: list[str] = []
        self._memory: tuple[MemoryVerdict, ...] = ()
        self._conflicts: list[Conflict] = []
        self._turns: list[Turn] = []
        self._cuts: int | None = None
        self._recent: tuple[Turn, ...] = ()
        self._episodes: tuple[Episode, ...] = ()
        self.shape = Shape(asking.question.strip(), "lookup")
        self._files: tuple[InjectedFile, ...] = ()
        self._file_sources: list[Source] = []
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
        """What can be cited: passages, then the files that the question names."""
        if self._asking.prompted is not None:
            return list(self._asking.prompted.prompt.sources)
        found = [] if self._found is None else self._found.sources
        return [*found, *(replace(each, number=n) for n, each in enumerate(self._file_sources, len(found) + 1))]

    # -- before the answer

    def prepare(self) -> None:
        """Everything up to the prompt."""
        self._read_texts()
        if self._asking.prompted is not None:
            self.shape = self._asking.prompted.account.shape
            self._check_sources(self._asking.prompted.prompt.sources)
            if self._asking.prompted.account.cuts not in (None, self._cuts):
                raise UserError("a turn was removed since the prompt was made", hint="make the prompt anew")
            return
        self._shape()
        if "inject" in self._asking.stages or self._asking.lock:
            self._inject()
        if "memory" in self._asking.stages and self._turns:
            self._recall()
        if self.shape.casual or (self._asking.lock and self._model is not None):
            return
        self._found = self._retrieve()
        self._audit()

    def _check_sources(self, sources: Sequence[Source]) -> None:
        """A prompt that was made before holds nothing that was removed or changed since, nor of another project."""
        named = {source.document for source in sources}
        with self._catalog.read() as c:
            known = {each.id for each in c.documents.get(self._scope, self.project.id, named) if each.enabled}
            there = c.documents.places(self._scope, self.project.id, {id for source in sources for id in source.chunks})
        for source in sources:
            if source.document not in known:
                which = "which this project does not have or has switched off"
            elif not there.keys() >= set(source.chunks):
                which = "which changed since it was made"
            else:
                continue
            raise UserError(f"the prompt holds passages of {source.name}, {which}", hint="make the prompt anew")

    def _read_texts(self) -> None:
        with self._catalog.read() as c:
            rules, memory = (c.texts.read(self._scope, self.project.id, kind).text for kind in ProjectTextKind)
            if self._asking.conversation:
                known_by = (self._scope, self.project.id, self._asking.conversation)
                talk = c.conversations.get(*known_by)
                if talk.kind is not ConversationKind.CHAT:
                    raise UserError("that is an interview, not a chat", hint="ragforge discover goes on with it")
                self._turns, self._cuts = c.conversations.turns(*known_by), talk.cuts
        for turn in self._asking.history:
            self._turns.append(replace(turn, number=self._number))
        self._rules, self._project_memory = rules, memory

    def _recall(self) -> None:
        """The last turns as they are, and older ones that bear on the question. Both give way to injected files."""
        last = recent(self._turns, self._asking.recent_turns, budget=self._asking.memory_tokens, window=self._room)
        self._notices += last.told
        if past := older(self._turns, self._asking.recent_turns):
            self._episodes, self._memory = self._older(past)
        self._episodes, in_older = conflicts.suppress(
            self._episodes, last.turns, self._files, words=WORDS, count=self._count
        )
        self._recent, in_recent = conflicts.suppress_recent(last.turns, self._files, words=WORDS)
        self._conflicts += (*in_older, *in_recent)
        self._took("recall")

    def _older(self, past: Sequence[Turn]) -> tuple[tuple[Episode, ...], tuple[MemoryVerdict, ...]]:
        asking, question = self._asking, self.shape.standalone
        with self._catalog.read() as c:
            moment = c.passages.moment(self._scope, self.project.id)
            rollups, vectors = [], {}
            if asking.conversation:
                known_by = (self._scope, self.project.id, asking.conversation)
                rollups = c.conversations.rollups(*known_by)
                vectors = c.conversations.vectors(*known_by, self.project.embedder_fingerprint)
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
        model = self.cheap if "shape" in self._asking.stages else None
        shaper = Shaper(model, _harmless, self._asking.shaping)
        turns = self._turns if "shape" in self._asking.stages else ()
        self.shape, _ = shaper(self._asking.question, turns, self._project_memory, self.request, self.in_time)
        self._took("shape")

    def _inject(self) -> None:
        """A1: files that the question names."""
        asking = self._asking
        if not asking.lock and not _MAY_NAME_A_FILE.search(asking.question):
            return
        with self._catalog.read() as c:
            documents = c.documents.all(self._scope, self.project.id)
            named = [self._let_through(c, each) for each in named_files(asking.question, documents)]

            def read(document: Document) -> str:
                return c.documents.text(self._scope, self.project.id, document.id)

            found = injected(asking.question, named, read, asking.file_tokens, self._count, lock=asking.lock)
            self._file_sources = [self._source_of_file(c, file) for file in found.files if file.text]
        self._notices += found.told
        self._files = found.files
        if asking.lock and not self._files:
            raise UserError(
                "the question is locked to the files it names, and it names none that can be read",
                hint="; ".join(found.told) or "name a file of the project, or leave the lock off",
            )
        self._took("inject")

    def _let_through(self, c: Unit, named: Named) -> Named:
        """The filters of the question hold for files that it names, too."""
        filters = self._asking.filters
        if not filters or named.outcome is not Outcome.ONE:
            return named
        (document,) = named.documents
        passes = not filters.documents or document.id in filters.documents
        if passes:
            now = c.passages.moment(self._scope, self.project.id)
            found, _ = c.passages.eligible(self._scope, now, replace(filters, documents=(document.id,)))
            passes = bool(found)
        return named if passes else replace(named, outcome=Outcome.FILTERED)

    def _source_of_file(self, c: Unit, file: InjectedFile) -> Source:
        """A file as something to cite; of a packed one, nobody knows which of its chunks a line stands in."""
        chunks = c.documents.chunks(self._scope, self.project.id, file.document)
        whole = file.how is Injection.FULL
        return Source(
            0, chunks[0].id, tuple(chunk.id for chunk in chunks), file.document, file.name, Locator(),
            chunks[0].checksum, 1.0, file.text, file.tokens,
            tuple((chunk.id, chunk.start, chunk.end) for chunk in chunks) if whole else (),
        )  # fmt: skip

    # -- retrieval

    def _retrieve(self) -> _Found:
        """Search, gate, window, evidence, condense: one pass."""
        found = _Found(self._searched())
        self.degraded += found.retrieved.degraded
        self._notices += [found.retrieved.notice] if found.retrieved.notice else []
        trace = traced(found.retrieved)
        self.verdicts = [each for each in trace.verdicts if each.stage != "window"]
        rare = rarity_in(found.retrieved)
        found.evidence = evidence_in(found.retrieved, self.project.embedder)
        self._took("search")
        if whole := self._whole_project(trace.rows, found):
            found.sources = whole
            return found
        passages: Sequence[Passage] = found.retrieved.passages[: self._asking.tuning.context_chunks]
        if "gate" in self._asking.stages and passages:
            passages, found.emptied = self._gated(trace, rare, passages)
        found.sources = self._windowed(passages)
        self._took("gate")
        if "condense" in self._asking.stages and self._model is not None and self._enough(found):
            found.condensed = self._condensed(found.sources)
            self._took("condense")
        return found

    def _enough(self, found: _Found) -> bool:
        return bool(found.sources) and not found.emptied and found.evidence is not None and found.evidence.enough

    def _whole_project(self, rows: int, found: _Found) -> list[Source]:
        """All of a project that is small enough for a model to read it whole; empty if it is not."""
        most = self._asking.whole_project_tokens
        narrowed = self._files or self._asking.filters != Filters()
        if self._model is None or narrowed or not 0 < rows <= most or not found.retrieved.passages:
            return []
        with self._catalog.read() as c:
            ready = c.documents.all(self._scope, self.project.id, Status.READY)
            documents = {document.id: document for document in ready if document.enabled}
            tokens = sum(document.tokens for document in documents.values())
            if tokens > most:
                return []
            best_first = dict.fromkeys([*(each.document for each in found.retrieved.passages), *documents])
            chunks = [
                (documents[id], chunk)
                for id in best_first
                if id in documents
                for chunk in c.documents.chunks(self._scope, self.project.id, id)
            ]
        files = f"{len(documents):,} file{'s' * (len(documents) != 1)}"
        self._notices.append(f"the whole project is in the prompt: {files}, {tokens:,} tokens")
        return [source_of_chunk(number, *each) for number, each in enumerate(chunks, 1)]

    def _searched(self) -> Retrieved:
        """By the question as it stands alone; narrowed to the documents it names."""
        asking = self._asking
        alone = asking.lock or self._model is None  # without a model there is no prompt to inject a file into
        wanted = tuple(each.document for each in self._files if each.how is Injection.NARROWS or alone)
        narrowed = wanted or asking.filters.documents  # what it names has passed the filters
        tuning = replace(asking.tuning, k=max(asking.tuning.context_chunks, PASSAGES))
        asked = Asked(self.shape.standalone, tuning, replace(asking.filters, documents=narrowed), explain=True)
        return self._search(self._scope, self.project.slug, asked, self._cancel)

    def _gated(
        self, trace: Trace, rare: Mapping[str, float], passages: Sequence[Passage]
    ) -> tuple[Sequence[Passage], bool]:
        """A3: what bears on an answer."""
        judge = self._judge(trace, rare, passages)
        gated = gate(self.shape.standalone, passages, self._asking.strictness, judge)
        if gated.note and not gated.degraded and not (gated.emptied and not self._file_sources):  # else it is said
            self._notices.append(gated.note)
        self.degraded += [gated.degraded] if gated.degraded else []
        by_key = {passage.key: passage for passage in passages}
        self.verdicts += [
            Verdict(each.stage, by_key[each.key].chunk, by_key[each.key].name, by_key[each.key].locator, each.kept,
                    each.reason, each.score)
            for each in gated.verdicts
        ]  # fmt: skip
        return gated.kept, gated.emptied

    def _judge(self, trace: Trace, rare: Mapping[str, float], passages: Sequence[Passage]) -> Judge[Passage]:
        """A model, else whoever has read question and passage together, else the words and the nearness in meaning."""
        if self.cheap is not None:
            return ModelJudge(self.cheap, self.request, self.in_time, _harmless)
        reranker = self._asking.tuning.reranker
        reranked = [passage.scores["rerank"] for passage in passages if "rerank" in passage.scores]
        if reranker not in ("", "cosine") and len(reranked) == len(passages):
            strength = {passage.key: share for passage, share in zip(passages, shares(reranked), strict=True)}
            return by_score(lambda passage: strength[passage.key], reranker)
        groups = trace.words.groups
        weighed = weights(groups, rare)

        def score(passage: Passage) -> float:
            held = covered(groups, weighed, heard(passage, whole=False).terms)
            return max(held, passage.scores.get("vectors", 0.0))

        return by_score(score)

    def _windowed(self, passages: Sequence[Passage]) -> list[Source]:
        """For a model, passages with the rest of their sections, within the budget; quotes come from the passages."""
        if self._model is None:
            return [source_of_passage(number, passage) for number, passage in enumerate(passages, 1)]
        blocks, verdicts = self._search.window(self._scope, self.project.slug, passages, self._asking.tuning)
        self.verdicts += verdicts
        return [source_of_block(number, block) for number, block in enumerate(blocks, 1)]

    def _condensed(self, sources: Sequence[Source]) -> Condensed | None:
        """A4: facts, constraints and open issues with their sources; None: the sources go in as they are."""
        assert self.cheap is not None
        told = condense(self.shape.standalone, sources, self.cheap, proving(terms_of), self.request, self.in_time)
        if told.condensed is None:
            self._notices.append(f"not condensed: {told.reason}")
        elif told.dropped:
            self._notices.append(f"condensed context: {told.reason}; the others were left out")
        return told.condensed

    def _audit(self) -> None:
        """A2, second pass. A change of scope allows one more retrieval, and no other after that."""
        found = self._found
        if found is None or found.condensed is None or "shape" not in self._asking.stages:
            return
        after, _ = Shaper(self.cheap, _harmless, self._asking.shaping).audit(
            self.shape, found.condensed, self._asking.question, self._turns, self._project_memory, self.request,
            self.in_time,
        )  # fmt: skip
        before, self.shape = self.shape, after
        if changes_scope(before, after):
            self._reran = True
            self._found = self._retrieve()
        self._took("audit")

    # -- the answer

    def answer(self) -> Generator[Event | Pending, None, Result]:
        """Tokens and citations as they come, and the result."""
        if self._asking.prompted is None and (told := self.abstention()) is not None:
            return told
        if self.shape.casual and self._model is None:
            return (yield from self._said_casually())
        if self._model is None:
            return (yield from self._quoted())
        return (yield from self._written(self._model))

    def _why_not(self) -> WhyNot | None:
        """Whether there is too little to answer from. A file that was injected is something to answer from."""
        found = self._found
        if found is None or (self._model is not None and self._file_sources):
            return None
        if not found.retrieved.passages:
            return WhyNot.EMPTY_PROJECT if self._is_empty() else WhyNot.NOTHING_FOUND
        if not found.sources:  # all were removed between the search and the reading
            return WhyNot.NOTHING_FOUND
        if found.emptied:
            return WhyNot.GATED
        return None if found.evidence is None or found.evidence.enough else WhyNot.WEAK_EVIDENCE

    def _is_empty(self) -> bool:
        with self._catalog.read() as c:
            return not any(each.enabled for each in c.documents.all(self._scope, self.project.id, Status.READY))

    def abstention(self) -> Abstention | None:
        """What comes instead of an answer, as far as that can be told before a model is asked."""
        why = self._why_not()
        return None if why is None else self._abstention(why)

    def _abstention(self, why: WhyNot, told: str = "") -> Abstention:
        nearest = () if self._found is None else self._found.retrieved.passages[:_NEAREST]
        reason = f"{_REASONS[why]}: {told}" if told else f"{_REASONS[why]}."
        return Abstention(why, reason, self._suggestion(why), nearest, self.account())

    def _suggestion(self, why: WhyNot) -> str:
        """What would help: files on what no passage speaks of."""
        if why is WhyNot.EMPTY_PROJECT:
            return "Add files with ragforge add, or switch some on."
        if why is WhyNot.NOTHING_FOUND and self._asking.filters != Filters():
            return "Only what the filters let through was searched: ask without them, or add files that pass."
        missing = (
            []
            if self._found is None
            else _unheard(self.shape.standalone, traced(self._found.retrieved), self._found.retrieved.passages)
        )
        if missing:
            return f"No passage near it speaks of {', '.join(missing)}: add files that do, or ask in other words."
        return "Add files on this subject, or ask in other words."

    def _said_casually(self) -> Generator[Event, None, Result]:
        yield TokenEvent(_CASUAL)
        return Answer(_CASUAL, (), self.account())

    def _quoted(self) -> Generator[Event, None, Result]:
        """Without a model: the sentences that answer best, as they stand."""
        found = self._found
        assert found is not None, "without a model there is always a search"
        quotes = quotes_in(found.retrieved, found.sources)
        if not quotes:
            return self._abstention(WhyNot.WEAK_EVIDENCE)
        return (yield from self._checked(shown(quotes, found.sources), quoted=True))

    def _written(self, model: LanguageModel) -> Generator[Event | Pending, None, Result]:
        """By the model, filtered while it streams. One that fails before its first word leaves the quotes."""
        prompt = self.prompt()
        if self.sources and not prompt.sources:
            if not self._can_quote():
                raise TooLarge(
                    f"{self._model_name} has no room for any of the files", hint="choose a model with a larger window"
                )
            self._notices.append("the model has no room for any passage: these are quotes")
            return (yield from self._quoted())
        safe = StreamFilter(prompt.sources, self._own_links, addresses=self._may_show_addresses)
        raw, text, held = "", "", ""
        try:
            for piece in model.stream(prompt.messages, self._asking.sampling, self.request, self.in_time):
                if isinstance(piece, Pending):
                    yield piece
                    continue
                if isinstance(piece, Usage):
                    self._notices += [_ENDS_EARLY.format(self._asking.sampling.max_tokens)] if piece.cut else []
                    continue
                raw += piece
                held += piece
                if not text and may_say_missing(raw):
                    continue
                passed, held = safe.feed(held), ""
                text += passed
                if passed:
                    yield TokenEvent(passed)
        except (ProviderError, TooLarge) as problem:
            self.degraded.append(Degraded("model", problem.message, problem.hint))
            if not text:
                if self.shape.casual:
                    return (yield from self._said_casually())
                if not self._can_quote():
                    raise
                self._notices.append("the model did not answer: these are quotes")
                return (yield from self._quoted())
            self._notices.append("the model stopped in the middle of its answer")
            self.usage = replace(self.usage, cut=True)
        if not text and (why := said_missing(raw)) is not None:
            if self.shape.casual:
                return (yield from self._said_casually())
            return self._abstention(WhyNot.MODEL_SAYS, _harmless(why[:_LONGEST_REASON]))
        rest = safe.feed(held) + safe.end()
        if rest:
            yield TokenEvent(rest)
        self._took("answer")
        return (yield from self._checked(raw, prompt=prompt))

    @property
    def _model_name(self) -> str:
        return "" if self._model is None else self._model.card.name

    @property
    def _may_show_addresses(self) -> bool:
        """Those of sources: only if one is asked for, or how something is done. A document could have planted them."""
        return self.shape.intent in _TAKES_STEPS or asks_for_address(self._asking.question)

    @property
    def _own_links(self) -> frozenset[str]:
        """Addresses that people wrote for this question and this project."""
        asking = self._asking
        return links_in((asking.question, asking.persona, asking.output, self._rules, self._project_memory))

    def _can_quote(self) -> bool:
        return self._found is not None and bool(self._found.sources)

    def _checked(
        self, text: str, *, prompt: SuperPrompt | None = None, quoted: bool = False
    ) -> Generator[Event, None, Result]:
        """The text cleaned as the stream was, and every citation held against its passage."""
        checked = check(
            text,
            self.sources if prompt is None else prompt.sources,
            terms_of,
            self._own_links,
            addresses=quoted or self._may_show_addresses,
            question=self.shape.standalone,
        )
        if quoted:
            yield TokenEvent(checked.text)
            proved = tuple(replace(each, proved=True, reason="") for each in checked.citations)  # word for word
            checked = replace(checked, citations=proved, unproved=(), uncited=0)
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
            uncited=0 if self.shape.casual else checked.uncited,
        )

    # -- what is told

    def prompt(self) -> SuperPrompt:
        """The exact messages."""
        asking, found = self._asking, self._found
        if asking.prompted is not None:
            return asking.prompted.prompt
        parts = PromptParts(
            task=asking.question,
            shape=self.shape,
            persona=asking.persona,
            hard_rules=self._rules,
            project_memory=self._project_memory,
            files=tuple(file for file in self._files if file.how is not Injection.NARROWS),
            condensed=None if found is None else found.condensed,
            sources=tuple(self.sources),
            recent=self._recent,
            episodes=self._episodes,
            output=asking.output,
        )
        made = assemble(parts, self._templates(), self._count, self._room, sentinel=SENTINEL)
        if made.left_out:
            left_out = clean(", ".join(made.left_out), made.sources)[0]
            self._notices.append(f"no room in the prompt for {left_out}")
        self._notices += [f"taken out of the prompt: {what}" for what in made.hidden]
        if self._model is not None and self._room is None:
            self._notices.append(_UNKNOWN_WINDOW.format(self._model.card.name))
        self._took("assemble")
        return made

    def account(self, prompt: SuperPrompt | None = None) -> Account:
        """How it came about."""
        found = self._found
        if self._asking.prompted is not None:
            told = self._asking.prompted.account
            return replace(
                told,
                prompt=prompt,
                degraded=(*told.degraded, *self.degraded),
                usage=told.usage + self.usage,
                timings=dict(self._timings),
                notices=tuple(dict.fromkeys((*told.notices, *self._notices))),
                trace_id=self.request,
                conversation=self._asking.conversation,
                turn=self._number if self._asking.conversation or self._turns else 0,
            )
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
            condensed=None if found is None else found.condensed,
            prompt=prompt,
            model=self._model_name,
            usage=self.usage,
            timings=dict(self._timings),
            notices=tuple(dict.fromkeys(self._notices)),
            reran=self._reran,
            cuts=self._cuts,
            trace_id=self.request,
            conversation=self._asking.conversation,
            turn=self._number if self._asking.conversation or self._turns else 0,
        )

    def _meaning(self, text: str) -> Vector | None:
        try:
            return self._embedder_of(self.project).embed_query(text, self._cancel)
        except RagforgeError as problem:
            self.degraded.append(Degraded("embedder", f"memory by words alone: {problem.message}", problem.hint))
            return None

    def _spent(self, usage: Usage) -> None:
        self.usage += usage

    def _took(self, stage: str) -> None:
        now = time.perf_counter()
        self._timings[stage], self._lap = self._timings.get(stage, 0.0) + (now - self._lap) * 1000, now


_STOPPED = "stopped before the answer was complete"
_CASUAL = "Ask me something about the files of this project."
_UNKNOWN_WINDOW = "nobody told how much {} reads: set model.window, or it may drop what does not fit"
_ENDS_EARLY = "the answer ends early: the model wrote as much as it may, {:,} tokens (model.max_tokens)"
_REASONS = {
    WhyNot.EMPTY_PROJECT: "The project has no file that can be searched",
    WhyNot.NOTHING_FOUND: "Nothing in this project has to do with the question",
    WhyNot.WEAK_EVIDENCE: "I do not see enough in this project to answer that",
    WhyNot.GATED: "No passage clearly bears on the question",
    WhyNot.MODEL_SAYS: "The passages that were found do not answer that",
}


WORDS = Words(lambda text: query_words(text).groups, terms_of)


def _harmless(said: str) -> str:
    """What a model says in passing, as it may be shown."""
    return clean(said)[0]


def _unheard(question: str, trace: Trace, passages: Sequence[Passage]) -> list[str]:
    """The question's words that no passage holds, as they were written; not those that only ask, as “how long” does."""
    held = frozenset().union(*(heard(passage, whole=False).terms for passage in passages[:PASSAGES]))
    missing = [group for group in trace.words.groups if held.isdisjoint(group) and not only_asks(group)]
    written = [piece.strip(_AROUND_WORDS) for piece in question.split()]
    found = dict(zip(written, map(frozenset, terms_of(written)), strict=True))
    return [word for word, terms in found.items() if any(not terms.isdisjoint(group) for group in missing)][:3]


def _vector(stored: bytes | None) -> Vector | None:
    import numpy as np

    return None if stored is None else np.frombuffer(stored, np.float32)
