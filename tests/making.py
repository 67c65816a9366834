"""Documents made in tests: the flow on a real project, with a model that says what it is told."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from ragforge import Ragforge
from ragforge.adapters.exports.docx import docx
from ragforge.answer import agents, citations
from ragforge.answer.abstain import PASSAGES, SENTENCES_OF, Heard, calibration_of, evidence
from ragforge.answer.artifacts import markdown
from ragforge.answer.outline import Outline, kinds, outline
from ragforge.answer.quote import Quoted, quote
from ragforge.answer.units import units
from ragforge.answer.weigh import rarity
from ragforge.domain.answers import Citation, Evidence
from ragforge.domain.cancel import Cancel
from ragforge.domain.generation import Message, ModelCard, Role, Sampling, Usage
from ragforge.domain.prompts import PromptParts, Source, SuperPrompt
from ragforge.domain.records import Artifact
from ragforge.domain.retrieval import Filters, Retrieved
from ragforge.errors import ProviderError
from ragforge.flows.make import Export, MadeDocuments, Make, MakeEvent, MakeRequest, Writer
from ragforge.flows.search import Asked
from ragforge.ports import Shaped
from ragforge.retrieve.words import terms_of

NOTHING = "NOT IN THE PASSAGES"
NOW = datetime(2030, 1, 2, tzinfo=UTC)
_MARKER = re.compile(r"\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class Plainly:
    """A text with its citations."""

    text: str
    citations: tuple[Citation, ...] = ()


def check(text: str, sources: Sequence[Source]) -> Plainly:
    """Every marker as a citation; one is proved if the source holds the first word of its line."""
    by_number = {source.number: source for source in sources}
    found = []
    for match in _MARKER.finditer(text):
        source = by_number.get(int(match[1]))
        if source is None:
            continue
        line = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
        words = re.findall(r"[^\W_]{3,}", line) or [""]
        proved = words[0] in source.text
        found.append(
            Citation(
                source.number,
                source.chunk,
                source.document,
                source.name,
                source.locator,
                "",
                match.start(),
                match.end(),
                proved,
                "" if proved else f"{words[0]} is not there",
            )
        )
    return Plainly(text, tuple(found))


def assemble(parts: PromptParts) -> SuperPrompt:
    texts = "\n".join(f"[{source.number}] {source.text}" for source in parts.sources)
    return SuperPrompt(
        (
            Message(Role.SYSTEM, parts.persona),
            Message(Role.USER, f"{texts}\n\n{parts.task}\n{parts.output}"),
        ),
        (),
        "marker",
        parts.sources,
    )


@dataclass
class Scripted:
    """A model that says what it was told to say, section by section; the last again and again."""

    says: Sequence[str | ProviderError]
    asked: list[tuple[Sequence[Message], Sampling, str]] = field(default_factory=list)
    card: ModelCard = field(default_factory=lambda: ModelCard("stub:one", 8_000))

    def stream(
        self, messages: Sequence[Message], sampling: Sampling, request: str, cancel: Cancel
    ) -> Iterator[str | Usage]:
        said = self.says[min(len(self.asked), len(self.says) - 1)]
        self.asked.append((messages, sampling, request))
        if isinstance(said, ProviderError):
            raise said
        yield from said
        yield Usage(10, len(said.split()), 1)

    def fill(
        self, messages: Sequence[Message], shape: type[Shaped], sampling: Sampling, request: str, cancel: Cancel
    ) -> tuple[Shaped, Usage]:
        raise AssertionError("documents are streamed")

    def count(self, text: str) -> int:
        return len(text.split())


def maker(forge: Ragforge, model: Scripted | None = None, project: str = "p") -> Make:
    """The flow over a project's own search."""
    embedder = forge.project(project).embedder
    calibration = calibration_of(embedder)

    def search(question: str) -> Retrieved:
        asked = Asked(question, forge.tuning(), Filters(), context=True, explain=True)
        return forge._search(forge._scope, project, asked, Cancel())

    def rare(found: Retrieved) -> dict[str, float]:
        assert found.trace is not None
        return rarity(found.trace.holding, found.trace.rows)

    def judged(found: Retrieved) -> Evidence:
        assert found.trace is not None
        heard = []
        for place, passage in enumerate(found.passages[:PASSAGES]):
            text, spans = passage.text, units(passage.text) if place < SENTENCES_OF else []
            names = " ".join((passage.name, *passage.locator.path))
            above, whole, *each = terms_of([names, text, *(text[unit.start : unit.end] for unit in spans)])
            heard.append(Heard(passage.scores.get("vectors"), frozenset((*above, *whole)), tuple(map(frozenset, each))))
        return evidence(found.trace.words.groups, rare(found), heard, calibration)

    def quoted(found: Retrieved, sources: Sequence[Source]) -> list[Quoted]:
        assert found.trace is not None
        return quote(found.question, found.trace.words.groups, rare(found), sources, terms_of, sentences=4, words=120)

    writer = Writer(model, assemble, lambda text: NOTHING in text) if model else None

    def checked(text: str, sources: Sequence[Source]) -> citations.Checked:
        return citations.check(text, sources, terms_of)

    return Make(forge._parts.catalog, search, judged, quoted, terms_of, checked, writer, EXPORT, lambda: NOW)


EXPORT = Export({".md": lambda artifact: markdown(artifact).encode(), ".docx": docx})


class MakingForge(Ragforge):
    """A workspace that can make documents, offline or by a scripted model."""

    model: Scripted | None = None

    def making(
        self,
        kind: str,
        *,
        project: str = "default",
        brief: str = "",
        agent: str = "",
        title: str = "",
        out: Path | None = None,
        offline: bool = False,
        keep: bool = True,
        cancel: Cancel | None = None,
    ) -> Iterator[MakeEvent]:
        own, outputs = self.workspace / "agents", kinds(self.workspace / "outlines")
        request = MakeRequest(
            outline(kind, self.workspace / "outlines"),
            agents.agent(agent, outputs, own) if agent else agents.agent_for(kind, outputs, own),
            brief,
            title,
            out,
            keep,
        )
        make = maker(self, None if offline else self.model, project)
        yield from make(self._scope, self.project(project), request, "trace", cancel or Cancel())

    def document_kinds(self) -> list[Outline]:
        folder = self.workspace / "outlines"
        return [outline(kind, folder) for kind in kinds(folder)]

    def agents(self) -> list[agents.Agent]:
        own, outputs = self.workspace / "agents", kinds(self.workspace / "outlines")
        return [agents.agent(name, outputs, own) for name in agents.agent_names(own)]

    def artifacts(self, *, project: str = "default") -> list[Artifact]:
        return MadeDocuments(self._parts.catalog).all(self._scope, self.project(project).id)

    def artifact(self, id: str, *, project: str = "default") -> Artifact:
        return MadeDocuments(self._parts.catalog).find(self._scope, self.project(project).id, id)

    def export_artifact(self, artifact: Artifact, file: Path) -> None:
        EXPORT(artifact, file)

    def remove_artifacts(self, ids: Sequence[str], *, project: str = "default") -> list[Artifact]:
        return MadeDocuments(self._parts.catalog).remove(self._scope, self.project(project).id, ids)
