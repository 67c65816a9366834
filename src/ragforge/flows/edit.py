"""A made document as a person changes it.

read -> not changed by somebody else? -> checked as a model's text is -> held against its outline -> stored in its place
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ragforge.answer.artifacts import edited
from ragforge.domain.access import Scope
from ragforge.domain.records import Artifact
from ragforge.errors import Conflict, UserError
from ragforge.ports import Catalog
from ragforge.retrieve.words import terms_of


@dataclass(frozen=True, slots=True)
class Revision:
    """What is changed of a made document; its sections go by their places, from 0."""

    title: str | None = None
    texts: Mapping[int, str] = field(default_factory=dict)
    was: Mapping[int, str] = field(default_factory=dict)
    """The texts that the person saw there."""


@dataclass(frozen=True, slots=True)
class EditArtifact:
    """Changes of made documents, each whole or not at all."""

    catalog: Catalog

    def __call__(self, scope: Scope, project: str, id: str, revision: Revision) -> Artifact:
        """The document as it is kept now. What somebody else changes meanwhile is neither lost nor overwritten."""
        title = None if revision.title is None else " ".join(revision.title.split())
        if title == "":
            raise UserError("the title is empty", hint="give it some words, or leave it out")
        while True:
            with self.catalog.read() as c:
                before = c.artifacts.get(scope, project, id)
            _require_fitting(before, revision)
            after = edited(before, title, revision.texts, terms_of)
            with self.catalog.write() as c:
                if c.artifacts.get(scope, project, id) == before:
                    return before if after == before else c.artifacts.put(scope, project, after)


def _require_fitting(artifact: Artifact, revision: Revision) -> None:
    """The sections are there, and say what the person saw."""
    for place in revision.texts:
        if not 0 <= place < len(artifact.sections):
            hint = f"they are numbered from 0 to {len(artifact.sections) - 1}"
            raise UserError(f"the document has no section {place}", hint=hint)
        section = artifact.sections[place]
        if revision.was.get(place, section.text) not in (section.text, section.shown):
            hint = "read it again, and change what it says now"
            raise Conflict(f"the section “{section.heading}” was changed meanwhile", hint=hint)
