"""A document from a project, whole: by its outline, section by section. Read this first.

outline  which sections, what each is searched by
search   every question of the section; those with enough evidence count
open?    no evidence -> the section stays open, and says what to add
write    by a model from the numbered passages; without one by quoting them
check    cleaned, without headings of its own, every citation checked, what cites nothing left out
store    the sections together, held against the outline; what is wrong is told
export   Markdown or DOCX
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, TypeAlias

from ragforge.answer.agents import Agent
from ragforge.answer.artifacts import (
    ENOUGH,
    Numbering,
    Settled,
    bullets,
    markdown,
    narrowed,
    new_quotes,
    opened,
    passages_of,
    prompt_parts,
    settled,
    tamed,
    telling,
    titled,
)
from ragforge.answer.outline import Outline, Part, differences
from ragforge.answer.quote import Quoted
from ragforge.answer.weigh import Groups, TermsOf
from ragforge.domain.access import Scope
from ragforge.domain.answers import Citation, Evidence, RemovedCitation
from ragforge.domain.cancel import Cancel
from ragforge.domain.generation import Sampling, Usage
from ragforge.domain.library import Project
from ragforge.domain.prompts import PromptParts, Source, SuperPrompt
from ragforge.domain.records import Artifact, ArtifactSection
from ragforge.domain.retrieval import ContextBlock, Retrieved
from ragforge.errors import NotFound, ProviderError, UserError, cannot_write
from ragforge.ports import Catalog, Clock, LanguageModel

LAST = "last"
_LEAST_OF_ID = 4
_SHOWN = 100
_LONGEST_BRIEF = 20_000


# -- what other steps lend


class Checked(Protocol):
    """A text that nothing harmful is left in, and whose every marker stands for a source."""

    @property
    def text(self) -> str: ...
    @property
    def citations(self) -> Sequence[Citation]: ...
    @property
    def removed(self) -> Sequence[RemovedCitation]: ...
    @property
    def stripped(self) -> Sequence[str]: ...


@dataclass(frozen=True, slots=True)
class Writer:
    """A model, and how it is spoken to."""

    model: LanguageModel
    assemble: Callable[[PromptParts], SuperPrompt]
    """The parts of a prompt to the exact messages, with the project's own rules."""
    declines: Callable[[str], bool]
    """Whether a text says that the passages do not hold what was asked for."""


# -- what comes in and out


@dataclass(frozen=True, slots=True)
class MakeRequest:
    """Which document, what for, and where to write it."""

    outline: Outline
    agent: Agent | None = None
    brief: str = ""
    title: str = ""
    """Empty: the outline's with the project's name."""
    out: Path | None = None
    keep: bool = True
    """Whether it is stored in the project."""


@dataclass(frozen=True, slots=True)
class SectionStarted:
    """The search for a section begins."""

    heading: str
    number: int
    total: int


@dataclass(frozen=True, slots=True)
class SectionWritten:
    """A section with evidence. `left_out` names the files that there was no room for."""

    section: ArtifactSection
    problems: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


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


MakeEvent: TypeAlias = SectionStarted | SectionWritten | SectionOpen | Made


# -- the path


@dataclass(frozen=True, slots=True)
class Make:
    """A document, written from what a project holds."""

    catalog: Catalog
    search: Callable[[str], Retrieved]
    """A question to passages and their context, with the trace that evidence and quoting need."""
    evidence: Callable[[Retrieved], Evidence]
    quote: Callable[[Retrieved, Sequence[Source]], Sequence[Quoted]]
    """The best-supported sentences of the sources for what was searched."""
    terms_of: TermsOf
    check: Callable[[str, Sequence[Source]], Checked]
    """The same cleaning and checking that answers go through."""
    writer: Writer | None
    """None: sentences of the documents are quoted."""
    export: Export
    clock: Clock

    def __call__(
        self, scope: Scope, project: Project, request: MakeRequest, trace_id: str, cancel: Cancel
    ) -> Iterator[MakeEvent]:
        """Each section as it is ready, then the document. One that is stopped leaves nothing."""
        _require_fitting(request)
        if request.out is not None:
            self.export.require(request.out)
        title = request.title.strip() or f"{request.outline.title}: {project.name}"
        work = _Work(request, title, trace_id, cancel)
        for number, part in enumerate(request.outline.parts, start=1):
            cancel.check()
            yield SectionStarted(part.heading, number, len(request.outline.parts))
            event = self._section(part, work)
            work.sections.append(event.section)
            yield event
        artifact = self._whole(work)
        if request.keep:
            with self.catalog.write() as c:
                c.artifacts.put(scope, project.id, artifact)
        if request.out is not None:
            self.export(artifact, request.out)
        yield Made(artifact, markdown(artifact), request.out)

    def _section(self, part: Part, work: _Work) -> SectionWritten | SectionOpen:
        found = [each for question in part.questions if (each := self._bearing(question, work)) is not None]
        if not found:
            return SectionOpen(opened(part, "The documents do not tell enough about this."))
        sources, left_out = passages_of([each.blocks for each in found])
        problems = _Problems(part.heading)
        done = None
        if self.writer is not None and work.model_answers:
            done = self._written(self.writer, part, sources, work, problems)
        if done is None:
            done = self._quoted(found, part, sources, work, problems)
        work.problems += problems.told
        if not done.sources:
            return SectionOpen(opened(part, "The passages that were found do not tell this."))
        section = ArtifactSection(part.heading, part.level, done.text, sources=done.sources)
        return SectionWritten(section, tuple(problems.told), left_out)

    def _bearing(self, question: str, work: _Work) -> _Found | None:
        """What was found for a question of the outline, if that is enough to write from.

        Whether it is, the question alone decides: a brief would lend its words to passages that tell something else.
        """
        plain = self.search(question)
        work.degraded |= {f"{lost.part}: {lost.message}": None for lost in plain.degraded}
        enough, groups = self.evidence(plain), plain.trace.words.groups if plain.trace else ()
        narrow = narrowed(question, work.request.brief)
        found = plain if narrow == question else self.search(narrow)
        certain = enough.score >= max(ENOUGH, enough.threshold)
        blocks = found.context if certain else titled(found, groups, self.terms_of)
        return _Found(plain, blocks, groups) if blocks else None

    def _written(
        self, writer: Writer, part: Part, sources: tuple[Source, ...], work: _Work, problems: _Problems
    ) -> Settled | None:
        """What a model writes and cites; empty if it says that nothing is there, None if it is of no use."""
        request = work.request
        persona = request.agent.persona if request.agent else ""
        prompt = writer.assemble(prompt_parts(request.outline, part, work.title, request.brief, persona, sources))
        if prompt.left_out:
            problems.add(f"did not fit into the prompt: {', '.join(prompt.left_out)}")
        try:
            text = _said(writer.model, prompt, work)
        except ProviderError as problem:
            work.model_answers = problem.retryable
            problems.add(f"quoted, as the model failed: {problem.message}")
            return None
        if writer.declines(text):
            return Settled("", ())
        done = self._checked(text, part, prompt.sources or sources, work, problems, strict=True)
        if not done.sources:
            problems.add("quoted, as the model cited nothing")
            return None
        work.model = writer.model.card.name
        if work.at_limit:
            problems.add(f"may end too early: the model wrote as much as it may, {work.sampling.max_tokens:,} tokens")
        return done

    def _quoted(
        self, found: Sequence[_Found], part: Part, sources: Sequence[Source], work: _Work, problems: _Problems
    ) -> Settled:
        """Sentences of the documents, as list items."""
        quotes = (
            quote
            for each in found
            for quote in telling(self.quote(each.plain, each.of(sources)), sources, each.groups, self.terms_of)
        )
        text = bullets(new_quotes(quotes, work.quoted))
        return self._checked(text, part, sources, work, problems, strict=False)

    def _checked(
        self, text: str, part: Part, sources: Sequence[Source], work: _Work, problems: _Problems, *, strict: bool
    ) -> Settled:
        """A text that holds nothing harmful, no heading, and no marker but of sources, under the document's numbers."""
        cleaned = self.check(text, sources)
        plain, invented = tamed(cleaned.text, part.heading)  # only now can nothing become a heading any more
        checked = self.check(plain, sources)
        done = settled(checked.text, checked.citations, sources, work.numbering, strict=strict)
        for heading in invented:
            problems.add(f"the heading “{heading}” is not in the outline and became plain text")
        for what in (*cleaned.stripped, *checked.stripped):
            problems.add(f"taken out: {what}")
        for removed in (*cleaned.removed, *checked.removed):
            problems.add(f"the citation {removed.marker} was removed: {removed.reason}")
        for what in done.left_out:
            problems.add(f"left out, as it cites nothing: {_short(what)}")
        for what in done.unproved:
            problems.add(f"not proved by its source: {_short(what)}")
        return done

    def _whole(self, work: _Work) -> Artifact:
        """The sections together, held against the outline."""
        now, request, used = self.clock(), work.request, work.usage
        artifact = Artifact(
            id=secrets.token_hex(8),
            kind=request.outline.kind,
            title=work.title,
            made_at=now.replace(microsecond=now.microsecond // 1000 * 1000),  # as exact as the catalog keeps it
            sections=tuple(work.sections),
            sources=work.numbering.sources,
            brief=request.brief,
            agent=request.agent.name if request.agent else "",
            model=work.model,
            usage={
                "input_tokens": used.input_tokens,
                "output_tokens": used.output_tokens,
                "calls": used.calls,
                "seconds": used.seconds,
                **({} if used.cost is None else {"cost": float(used.cost)}),
            },
        )
        wrong = differences(request.outline, markdown(artifact))
        return replace(artifact, problems=(*work.problems, *work.degraded, *wrong))


@dataclass(frozen=True, slots=True)
class _Found:
    """What bears on one question of the outline, whose words are the groups."""

    plain: Retrieved
    """Of the question alone."""
    blocks: tuple[ContextBlock, ...]
    groups: Groups

    def of(self, sources: Sequence[Source]) -> list[Source]:
        """Those of a section's sources that were found for this question, best first."""
        numbered = {(source.document, source.text): source for source in sources}
        return [numbered[key] for block in self.blocks if (key := (block.document, block.text)) in numbered]


@dataclass(slots=True)
class _Work:
    """What is known of a document while it is made."""

    request: MakeRequest
    title: str
    trace_id: str
    cancel: Cancel
    numbering: Numbering = field(default_factory=Numbering)
    sections: list[ArtifactSection] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    degraded: dict[str, None] = field(default_factory=dict)
    quoted: set[tuple[str, str]] = field(default_factory=set)
    usage: Usage = field(default_factory=Usage)
    model: str = ""
    model_answers: bool = True
    """False once it failed in a way that will not pass."""
    at_limit: bool = False
    """Whether the last text is as long as the model may write."""

    @property
    def sampling(self) -> Sampling:
        usual = self.request.outline.sampling
        return self.request.agent.sampling(usual) if self.request.agent else usual


@dataclass(slots=True)
class _Problems:
    """What is wrong with one section, in words."""

    heading: str
    told: list[str] = field(default_factory=list)

    def add(self, problem: str) -> None:
        self.told.append(f"{self.heading}: {problem}")


def _said(model: LanguageModel, prompt: SuperPrompt, work: _Work) -> str:
    """All that the model writes; what it took is added up."""
    pieces: list[str] = []
    work.at_limit = False
    for piece in model.stream(prompt.messages, work.sampling, work.trace_id, work.cancel):
        if isinstance(piece, Usage):
            work.usage += piece
            work.at_limit = piece.output_tokens >= work.sampling.max_tokens
        else:
            pieces.append(piece)
    return "".join(pieces)


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN].rstrip()}…"


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
class Export:
    """A made document as a file; the ending of its name says which kind."""

    writers: Mapping[str, Callable[[Artifact], bytes]]
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

    def __call__(self, artifact: Artifact, file: Path) -> None:
        """Write it whole or not at all."""
        self.require(file)
        data = self.writers[file.suffix.lower()](artifact)
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


# -- what was made before


@dataclass(frozen=True, slots=True)
class MadeDocuments:
    """The documents that a project keeps."""

    catalog: Catalog

    def all(self, scope: Scope, project: str) -> list[Artifact]:
        """Newest first."""
        with self.catalog.read() as c:
            return c.artifacts.all(scope, project)

    def find(self, scope: Scope, project: str, name: str) -> Artifact:
        """One by its id, the beginning of it, or `last`."""
        every = self.all(scope, project)
        if name == LAST and every:
            return every[0]
        found = [each for each in every if each.id.startswith(name)] if len(name) >= _LEAST_OF_ID else []
        if not found:
            hint = "ragforge make ls shows what was made" if every else "ragforge make blueprint makes one"
            raise NotFound(f"no document {name!r} was made", hint=hint)
        if len(found) > 1:
            raise UserError(f"{name!r} could be {len(found)} documents", hint="write more of its id")
        return found[0]

    def remove(self, scope: Scope, project: str, names: Sequence[str]) -> list[Artifact]:
        """All of them or none."""
        found = {each.id: each for name in names for each in [self.find(scope, project, name)]}
        with self.catalog.write() as c:
            for id in found:
                c.artifacts.remove(scope, project, id)
        return list(found.values())
