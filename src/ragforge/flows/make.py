"""A document from a project, whole: by its outline, section by section. Read this first.

outline  which sections, what each is searched by
search   every question of every section
plan     the passages and the exact prompt of each section, with tokens and price; nothing is spent until here
open?    no passages -> the section stays open, and says what to add
write    by a model from the numbered passages; without one by quoting what surely tells it
check    cleaned, without headings of its own, every citation checked, what cites nothing left out
store    the sections together, held against the outline; what is wrong is told. What was paid is logged, also of one
         that is stopped
export   Markdown or DOCX
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Generic, TypeAlias, TypeVar
from uuid import uuid4

from ragforge.answer.abstain import PASSAGES
from ragforge.answer.agents import Agent
from ragforge.answer.artifacts import (
    Numbering,
    Settled,
    markdown,
    opened,
    passages_of,
    prompt_parts,
    topic,
    vetted,
)
from ragforge.answer.clean import asks_for_address, links_in
from ragforge.answer.outline import Outline, Part, differences
from ragforge.answer.quotations import Sought, bullets, chosen, focused, forms_in, telling, words_of
from ragforge.answer.quote import Quoted
from ragforge.assemble.assemble import Templates, assemble
from ragforge.assemble.estimate import cost, estimate, prompt_tokens
from ragforge.domain.access import OWNER, Scope
from ragforge.domain.cancel import Cancel, Cancelled
from ragforge.domain.generation import Estimate, Sampling, Usage
from ragforge.domain.library import Progress, Project
from ragforge.domain.pending import waited
from ragforge.domain.prompts import PromptParts, Source, SuperPrompt
from ragforge.domain.records import Artifact, ArtifactSection, LogEntry, ProjectTextKind
from ragforge.domain.retrieval import Retrieved, Tuning
from ragforge.errors import OverLimit, ProviderError, RagforgeError, StoreError, TooLarge, UserError, cannot_write
from ragforge.flows.grounds import SENTINEL, said_missing, sought_in, sources_in
from ragforge.flows.search import Asked, Search
from ragforge.ports import Catalog, Clock, LanguageModel
from ragforge.retrieve.words import terms_of

T = TypeVar("T")

_LONGEST_BRIEF = 20_000
_SENTENCES = 12
"""Quoted in one section, at most."""


# -- what comes in and out


@dataclass(frozen=True, slots=True)
class MakeRequest:
    """Which document, what for, and where to write it."""

    outline: Outline
    tuning: Tuning
    agent: Agent | None = None
    profile: str = ""
    """By which the model was chosen; for the log."""
    brief: str = ""
    title: str = ""
    """Empty: the outline's with the project's name."""
    out: Path | None = None
    keep: bool = True
    """Whether it is stored in the project."""
    section_seconds: float = 180.0
    """That a model may take for one section."""

    @property
    def sampling(self) -> Sampling:
        return self.agent.sampling(self.outline.sampling) if self.agent else self.outline.sampling


@dataclass(frozen=True, slots=True)
class PlannedSection:
    """What a section will be written from; without sources it stays open."""

    heading: str
    sources: tuple[Source, ...]
    left_out: tuple[str, ...] = ()
    """Files that there was no room for."""
    estimate: Estimate | None = None
    """None where no model is asked."""


@dataclass(frozen=True, slots=True)
class Planned:
    """The document before anything is written or spent. Whoever stops here owes nothing."""

    title: str
    model: str
    sections: tuple[PlannedSection, ...]

    @property
    def input_tokens(self) -> int:
        return sum(each.input_tokens for each in self._estimates)

    @property
    def output_tokens(self) -> int:
        """At most: what the model may write."""
        return sum(each.output_tokens for each in self._estimates)

    @property
    def cost(self) -> Decimal | None:
        """At most, in US dollars; None where no price is known."""
        costs = [each.cost for each in self._estimates]
        return None if None in costs else sum((cost for cost in costs if cost is not None), Decimal(0))

    @property
    def _estimates(self) -> list[Estimate]:
        return [each.estimate for each in self.sections if each.estimate is not None]


@dataclass(frozen=True, slots=True)
class SectionWritten:
    """A section with evidence."""

    section: ArtifactSection
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SectionOpen:
    """A section that nothing could be written for."""

    section: ArtifactSection


@dataclass(frozen=True, slots=True)
class Made:
    """The whole document, checked, stored and written out; comes last."""

    artifact: Artifact
    text: str
    """As Markdown."""
    file: Path | None = None


MakeEvent: TypeAlias = Progress | Planned | SectionWritten | SectionOpen | Made


# -- the path


class Make:
    """Documents, written from what a project holds."""

    def __init__(
        self,
        catalog: Catalog,
        search: Search,
        project: Callable[[Scope, str], Project],
        templates: Callable[[], Templates],
        export: Export[Artifact],
        clock: Clock,
        may_spend: Callable[[Scope, Usage], None],
        *,
        log: bool,
        log_text: bool = True,
    ) -> None:
        """`may_spend` raises `OverLimit` when somebody, with what is not written down yet, has used up their day."""
        self._catalog = catalog
        self._search = search
        self._project = project
        self._templates = templates
        self._export = export
        self._clock = clock
        self._may_spend = may_spend
        self._log = log
        self._log_text = log_text

    def __call__(
        self, scope: Scope, name: str, request: MakeRequest, model: LanguageModel | None, cancel: Cancel
    ) -> Iterator[MakeEvent]:
        """The plan, each section as it is ready, and the document. One that is stopped leaves only what it cost."""
        _require_fitting(request)
        if request.out is not None:
            self._export.require(request.out)
        project = self._project(scope, name)
        run = _Run(
            lambda question: self._searched(scope, project, request.tuning, question, cancel),
            None if model is None else self._writer(scope, project, model, request.sampling),
            project,
            request,
            cancel,
            partial(self._may_spend, scope),
        )
        try:
            yield from run.plan()
            yield from run.write()
        except BaseException as problem:  # also of whoever closes this generator
            with suppress(RagforgeError):  # else that would hide the problem
                self._paid(scope, project, run, f"not finished: {problem}".rstrip(": "))
            raise
        artifact = run.whole(self._clock())
        if request.keep:
            with self._catalog.write() as c:
                artifact = c.artifacts.put(scope, project.id, artifact)
                if self._log:
                    c.log.add(scope, project.id, run.entry(artifact.made_at, artifact.sources, titled=self._log_text))
        if not (request.keep and self._log):
            self._paid(scope, project, run)
        if request.out is not None:
            self._written_out(artifact, request.out, kept=request.keep)
        yield Made(artifact, markdown(artifact), request.out)

    def _paid(self, scope: Scope, project: Project, run: _Run, error: str = "") -> None:
        """Log what calls took, of a document that is not kept; of somebody with a key also where the log is off."""
        if (self._log or scope.principal != OWNER) and run.usage.calls:
            with self._catalog.write() as c:
                titled = self._log and self._log_text and run.request.keep
                c.log.add(scope, project.id, run.entry(self._clock(), error=error, titled=titled))

    def _searched(self, scope: Scope, project: Project, tuning: Tuning, question: str, cancel: Cancel) -> Retrieved:
        enough = replace(tuning, k=max(tuning.context_chunks, PASSAGES))
        return self._search(scope, project.slug, Asked(question, enough, explain=True), cancel)

    def _writer(self, scope: Scope, project: Project, model: LanguageModel, sampling: Sampling) -> _Writer:
        """The model with the project's own rules."""
        with self._catalog.read() as c:
            rules, memory = (c.texts.read(scope, project.id, kind).text for kind in ProjectTextKind)
        templates, window = self._templates(), model.card.window
        room = None if window is None else window - sampling.max_tokens

        def assembled(parts: PromptParts) -> SuperPrompt:
            ruled = replace(parts, hard_rules=rules, project_memory=memory)
            return assemble(ruled, templates, model.count, room, sentinel=SENTINEL)

        return _Writer(model, assembled, sampling, links_in((rules, memory)))

    def _written_out(self, artifact: Artifact, file: Path, *, kept: bool) -> None:
        try:
            self._export(artifact, file)
        except StoreError as problem:
            if kept:
                problem.hint = f"the document is kept: ragforge make show {artifact.id} --out FILE"
            raise


@dataclass(frozen=True, slots=True)
class _Writer:
    """A model, and how it is spoken to."""

    model: LanguageModel
    assemble: Callable[[PromptParts], SuperPrompt]
    sampling: Sampling
    links: frozenset[str]
    """Addresses that the project's own rules hold."""

    def estimate(self, prompt: SuperPrompt) -> Estimate:
        return estimate(prompt, self.model.card, self.sampling, self.model.count)

    def begun(self, prompt: SuperPrompt, text: str) -> Usage:
        """What a call took that nobody waited for, as far as one can tell."""
        used = Usage(prompt_tokens(prompt.messages, self.model.count), self.model.count(text), calls=1)
        return replace(used, cost=cost(used, self.model.card))


@dataclass(frozen=True, slots=True)
class _Found:
    """What was found for one question of the outline."""

    sought: Sought
    sources: tuple[Source, ...]
    bearing: tuple[Source, ...]
    """Those that surely tell what is asked: they can be quoted."""


@dataclass(frozen=True, slots=True)
class _Gathered:
    """A section before it is written."""

    part: Part
    found: tuple[_Found, ...]
    sources: tuple[Source, ...]
    left_out: tuple[str, ...]
    prompt: SuperPrompt | None


@dataclass(slots=True)
class _Run:
    """One document on its way."""

    search: Callable[[str], Retrieved]
    writer: _Writer | None
    project: Project
    request: MakeRequest
    cancel: Cancel
    may_spend: Callable[[Usage], None]
    """Raises `OverLimit` when no more may be spent after this much."""
    trace_id: str = field(default_factory=lambda: uuid4().hex)
    gathered: list[_Gathered] = field(default_factory=list)
    numbering: Numbering = field(default_factory=Numbering)
    sections: list[ArtifactSection] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    degraded: dict[str, None] = field(default_factory=dict)
    quoted: set[str] = field(default_factory=set)
    brief: Sought | None = None
    """What the brief is about; None if nothing in the project is."""
    usage: Usage = field(default_factory=Usage)
    model: str = ""
    """Who wrote at least one section."""
    model_answers: bool = True
    """False once it failed in a way that will not pass, or may not be asked again."""
    searching_ms: float = 0.0
    writing_ms: float = 0.0

    @property
    def title(self) -> str:
        return self.request.title.strip() or f"{self.request.outline.title}: {self.project.name}"

    # -- before anything is written

    def plan(self) -> Iterator[MakeEvent]:
        """Search for every section, and tell what it will be written from and what that may cost."""
        began, parts = time.perf_counter(), self.request.outline.parts
        self.brief = self._about()
        for done, part in enumerate(parts):
            self.cancel.check()
            yield Progress("searching", done, len(parts))
            self.gathered.append(self._gather(part))
        self.searching_ms = (time.perf_counter() - began) * 1000
        model = self.writer.model.card.name if self.writer else ""
        yield Planned(self.title, model, tuple(map(self._planned, self.gathered)))

    def _about(self) -> Sought | None:
        """The words of the brief, if they name something that is there."""
        if not (brief := topic(self.request.brief)):
            return None
        found = self.search(brief)
        sought = sought_in(found)
        return sought if focused(sources_in(found), sought) else None

    def _gather(self, part: Part) -> _Gathered:
        """A model gets what was found, and says itself if that does not tell; quotes come from what surely tells."""
        found = tuple(map(self._find, part.questions))
        sources, left_out = passages_of([each.sources if self.writer else each.bearing for each in found])
        prompt = self.writer.assemble(self._prompt_parts(part, sources)) if self.writer and sources else None
        return _Gathered(part, found, sources, left_out, prompt)

    def _find(self, question: str) -> _Found:
        """What tells it, the question alone decides: a brief would lend its words to what tells other things.

        The brief chooses among what was found.
        """
        plain = self.search(question)
        self.degraded |= {f"{lost.part}: {lost.message}": None for lost in plain.degraded}
        sought, brief = sought_in(plain), topic(self.request.brief)
        sources = sources_in(self.search(f"{question} ({brief})")) if brief else sources_in(plain)
        known = {(source.document, source.text): source for source in (*sources, *sources_in(plain))}.values()
        about = list(known) if self.brief is None else focused(list(known), self.brief)
        bearing = (source for source in about if any(self._telling(source, sought)))
        return _Found(sought, tuple(sources), tuple(bearing))

    def _telling(self, source: Source, sought: Sought) -> Iterator[Quoted]:
        """A heading may also hold words of the project's name and of the brief: “Risks of the returns portal”."""
        return telling(source, sought, forms_in(f"{self.project.name} {topic(self.request.brief)}"))

    def _prompt_parts(self, part: Part, sources: tuple[Source, ...]) -> PromptParts:
        request = self.request
        persona = request.agent.persona if request.agent else ""
        return prompt_parts(request.outline, part, self.title, request.brief, persona, sources)

    def _planned(self, section: _Gathered) -> PlannedSection:
        told = self.writer.estimate(section.prompt) if self.writer and section.prompt else None
        return PlannedSection(section.part.heading, section.sources, section.left_out, told)

    # -- section by section

    def write(self) -> Iterator[MakeEvent]:
        """Each section, written, quoted or open."""
        began = time.perf_counter()
        for done, section in enumerate(self.gathered):
            self.cancel.check()
            yield Progress("writing", done, len(self.gathered))
            event = self._section(section)
            self.sections.append(event.section)
            yield event
        self.writing_ms = (time.perf_counter() - began) * 1000

    def _section(self, section: _Gathered) -> SectionWritten | SectionOpen:
        part, problems = section.part, _Problems(section.part.heading)
        if not section.sources:
            return SectionOpen(opened(part, "No passage says this in so many words."))
        done = None
        if self.writer is not None and section.prompt is not None and self.model_answers:
            done = self._written(self.writer, section, section.prompt, problems)
        if done is None:
            done = self._quoted(section, problems)
        self.problems += problems.told
        read = tuple(dict.fromkeys(source.document for source in section.sources))
        if not done.sources:
            told = opened(part, "The passages that were found do not tell this.")
            return SectionOpen(replace(told, read=read))
        written = ArtifactSection(
            part.heading, part.level, done.text, sources=done.sources, read=read, doubtful=bool(done.unproved)
        )
        return SectionWritten(written, tuple(problems.told))

    def _written(self, writer: _Writer, section: _Gathered, prompt: SuperPrompt, problems: _Problems) -> Settled | None:
        """What a model writes and cites; empty if it says that nothing is there, None if it is of no use."""
        if prompt.left_out:
            problems.add(f"did not fit into the prompt: {', '.join(prompt.left_out)}")
        try:
            self.may_spend(self.usage)
            text, cut = self._said(writer, prompt)
        except OverLimit as problem:
            self.model_answers = False
            problems.add(f"quoted: {problem.message}")
            return None
        except (ProviderError, TooLarge) as problem:
            if isinstance(problem, ProviderError):  # what is too large is so for this section
                self.model_answers = problem.retryable
                self.usage += problem.usage or Usage()
            problems.add(f"quoted, as the model failed: {problem.message}")
            return None
        if said_missing(text) is not None:
            return Settled("", ())
        done = self._checked(text, section.part, prompt.sources, problems, strict=True)
        if not done.sources:
            problems.add("quoted, as the model cited nothing")
            return None
        self.model = writer.model.card.name
        if cut:
            problems.add(f"ends early: the model wrote as much as it may, {writer.sampling.max_tokens:,} tokens")
        return done

    def _said(self, writer: _Writer, prompt: SuperPrompt) -> tuple[str, bool]:
        """All that the model writes, and whether it was cut off; what it took is added up."""
        pieces: list[str] = []
        cut = False
        in_time = self.cancel.within(self.request.section_seconds)
        said: Iterator[str | Usage] = waited(
            writer.model.stream(prompt.messages, writer.sampling, self.trace_id, in_time)
        )
        try:
            for piece in said:
                if isinstance(piece, Usage):
                    self.usage += piece
                    cut = piece.cut
                else:
                    pieces.append(piece)
        except Cancelled:
            self.usage += writer.begun(prompt, "".join(pieces))
            raise
        return "".join(pieces), cut

    def _quoted(self, section: _Gathered, problems: _Problems) -> Settled:
        """Sentences of the documents, as list items."""
        numbered = {(source.document, source.text): source for source in section.sources}
        quotes: list[Quoted] = []
        for each in section.found:
            for source in each.bearing:
                if known := numbered.get((source.document, source.text)):
                    quotes += self._telling(known, each.sought)
        best, more = chosen(quotes, self.quoted, _SENTENCES)
        self.quoted.update(map(words_of, best))
        if more:
            problems.add(f"{more:,} more that tell this were left out: a section quotes {_SENTENCES} at most")
        return self._checked(bullets(best), section.part, section.sources, problems, strict=False)

    def _checked(
        self, text: str, part: Part, sources: Sequence[Source], problems: _Problems, *, strict: bool
    ) -> Settled:
        """A text that holds nothing harmful, no heading, and no marker but of sources, under the document's numbers."""
        links, asked = self._own_links(part), asks_for_address(" ".join((part.heading, part.says, *part.questions)))
        done, wrong = vetted(
            text, part.heading, sources, terms_of, self.numbering, links,
            addresses=asked,  # else a document could plant them
            strict=strict,
        )  # fmt: skip
        for each in wrong:
            problems.add(each)
        return done

    def _own_links(self, part: Part) -> frozenset[str]:
        """Addresses that people wrote for this document and this project."""
        request = self.request
        persona = request.agent.persona if request.agent else ""
        written = links_in((request.brief, request.title, persona, part.says))
        return written | self.writer.links if self.writer else written

    # -- the whole

    def whole(self, now: datetime) -> Artifact:
        """The sections together, held against the outline."""
        request, used = self.request, self.usage
        artifact = Artifact(
            id=secrets.token_hex(8),
            kind=request.outline.kind,
            title=self.title,
            made_at=now.replace(microsecond=now.microsecond // 1000 * 1000),  # as exact as the catalog keeps it
            sections=tuple(self.sections),
            sources=self.numbering.sources,
            brief=request.brief,
            agent=request.agent.name if request.agent else "",
            model=self.model,
            usage={
                "input_tokens": used.input_tokens,
                "output_tokens": used.output_tokens,
                "calls": used.calls,
                "seconds": used.seconds,
                **({} if used.cost is None else {"cost": float(used.cost)}),
            },
        )
        wrong = differences(request.outline, markdown(artifact))
        return replace(artifact, problems=(*self.problems, *self.degraded, *wrong))

    def entry(
        self, asked_at: datetime, sources: Sequence[Source] = (), error: str = "", *, titled: bool = False
    ) -> LogEntry:
        """The document as a line of the query log, so that its price is among the others.

        Without its title, only its kind and what it took.
        """
        request = self.request
        return LogEntry(
            id=self.trace_id,
            asked_at=asked_at,
            kind="error" if error else "document",
            question=self.title if titled else request.outline.title,
            agent=request.agent.name if request.agent else "",
            k=request.tuning.context_chunks,
            chunks=tuple((source.chunk, source.score) for source in sources),
            cited=tuple(dict.fromkeys(source.document for source in sources)),
            model=self.writer.model.card.name if self.writer and self.usage.calls else "",
            profile=request.profile,
            retrieval_ms=self.searching_ms,
            generation_ms=self.writing_ms,
            input_tokens=self.usage.input_tokens,
            output_tokens=self.usage.output_tokens,
            cost=self.usage.cost,
            error=error or "; ".join(self.degraded),
        )


@dataclass(slots=True)
class _Problems:
    """What is wrong with one section, in words."""

    heading: str
    told: list[str] = field(default_factory=list)

    def add(self, problem: str) -> None:
        self.told.append(f"{self.heading}: {problem}")


def _require_fitting(request: MakeRequest) -> None:
    agent, kind = request.agent, request.outline.kind
    if agent is not None and agent.output != kind:
        raise UserError(
            f"the agent {agent.name} writes {agent.output}, not {kind}",
            hint=f"leave --agent out, or copy its file with output: {kind}",
        )
    if len(request.brief) > _LONGEST_BRIEF:
        raise UserError(
            f"the brief has {len(request.brief):,} characters",
            hint=f"keep it under {_LONGEST_BRIEF:,}, and add the rest as a document: ragforge add FILE",
        )


# -- files


@dataclass(frozen=True, slots=True)
class Export(Generic[T]):
    """Something as a file, such as a made document; the ending of its name says which kind."""

    writers: Mapping[str, Callable[[T], bytes]]
    """By ending: `.md`, `.docx`."""

    def require(self, file: Path) -> None:
        """Can it be written? Asked before any work."""
        if file.suffix.lower() not in self.writers:
            endings = " or ".join(self.writers)
            raise UserError(f"cannot write {file.name}: its kind is not known", hint=f"end the name with {endings}")
        if not os.path.isdir(file.parent):
            raise UserError(f"there is no folder {file.parent}", hint="make it first, or choose another --out")
        if os.path.isdir(file):
            raise UserError(f"{file} is a folder", hint="name a file in it")

    def __call__(self, what: T, file: Path) -> None:
        """Write it whole or not at all."""
        self.require(file)
        data = self.writers[file.suffix.lower()](what)
        beside = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
        try:
            try:
                with beside.open("xb") as out:
                    out.write(data)
                beside.replace(file)
            finally:
                beside.unlink(missing_ok=True)
        except OSError as problem:
            raise cannot_write(file, problem) from problem
