"""Make what is derived equal the catalog: after a kill, and when `check` finds a difference."""

from __future__ import annotations

import hashlib
import logging
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from pathlib import Path

from ragforge.domain.access import Scope
from ragforge.domain.discovery import LONGEST_ORG_CONTEXT
from ragforge.domain.library import Finding, Project, Status
from ragforge.errors import NotAllowed, Unreachable, UserError
from ragforge.flows.follow import Follow
from ragforge.flows.recollect import unembedded
from ragforge.ingest.state_file import STATE_FILE, UNFINISHED, project_state, state_text, write_if_changed
from ragforge.ports import BlobStore, Catalog

log = logging.getLogger("ragforge.reconcile")

ORG_CONTEXT_FILE = "context.md"
"""Lies beside `project_state.json`, where a person put it."""
_SWEEP = 500
VECTORS_OF_NOBODY = "vectors without a chunk"
"""What the catalog calls them."""


@dataclass(frozen=True, slots=True)
class Reconcile:
    """The catalog against stored bytes, checksums, state files and indexes."""

    catalog: Catalog
    blobs: BlobStore
    follow: Follow
    workspace: Path
    has_others: bool = False
    """Other machines work on the catalog: what they do reaches files here a little later, or when somebody looks."""

    # -- state files

    def write_state(self, scope: Scope, slug: str) -> bool:
        """Write a project's `project_state.json` until it is current: others may be writing an older one."""
        written = False
        while write_if_changed(self._state_path(slug), self._state_content(scope, slug)):
            written = True
        return written

    def _state_content(self, scope: Scope, slug: str) -> str:
        with self.catalog.read() as c:
            project = c.projects.get(scope, slug)
            org_context = c.projects.org_context(scope, project.id)
            return state_text(project_state(c.documents.summaries(scope, project.id), org_context))

    def forget_state(self, slug: str, renamed_to: str = "") -> None:
        """A project is gone or renamed: so is its folder of derived files. What a person put there moves along."""
        if slug == renamed_to:
            return
        folder = self._state_path(slug).parent
        own, there = folder / ORG_CONTEXT_FILE, self._state_path(renamed_to).parent / ORG_CONTEXT_FILE
        if renamed_to and own.is_file() and not there.exists():
            there.parent.mkdir(parents=True, exist_ok=True)
            own.replace(there)
        shutil.rmtree(folder, ignore_errors=True)

    def tidy(self, scope: Scope) -> list[str]:
        """Remove what was derived of projects and generations that are no more, whoever removed or renamed them.

        What a person put there stays. Returns folders of indexes that could not be removed, and why.
        """
        states = list(self.workspace.glob(f"projects/*/{STATE_FILE}"))  # before asking: a new one is not among them
        with self.catalog.read() as c:
            slugs = {project.slug for project in c.projects.all(scope)}
        for state in states:
            if state.parent.name not in slugs:
                with suppress(OSError):  # removed just now; or something of a person is beside it
                    state.unlink()
                    state.parent.rmdir()
        return self.follow.tidy()

    def org_context_file(self, slug: str) -> str:
        """What a person wrote down of their organisation, beside the project's state file; empty if nothing."""
        path = self._state_path(slug).parent / ORG_CONTEXT_FILE
        try:
            text = path.read_bytes()[:LONGEST_ORG_CONTEXT].decode("utf-8-sig", errors="replace").strip()
        except FileNotFoundError:
            return ""
        except OSError as problem:
            raise UserError(f"{path} cannot be read: {problem.strerror}", hint="mend it, or remove it") from None
        return text

    def _state_path(self, slug: str) -> Path:
        return self.workspace / "projects" / slug / STATE_FILE

    # -- after a kill

    def recover(self, scope: Scope) -> None:
        """Clear what a killed process left. Only while nobody is at work: unpublished bytes look just like it.

        Vectors stay: the next try need not embed them again. `sweep_vectors` follows when it is done.
        """
        try:
            self.remove_stray_blobs(scope)
        except Unreachable as away:  # it keeps nobody from other work; `check` finds them
            log.warning("stored files that nobody needs were not looked for: %s", away.message)
        for unfinished in self.workspace.glob(f"projects/*/*{UNFINISHED}"):
            unfinished.unlink(missing_ok=True)
        self.tidy(scope)
        with self.catalog.write() as c:
            c.jobs.reap(scope)
            projects = c.projects.all(scope)
        for project in projects:
            sweep(self.catalog, scope, project.id, vectors=False)
            self.write_state(scope, project.slug)
        self.catalog.flush()  # a removal that was cut short left its text in the log

    def sweep_vectors(self, scope: Scope) -> None:
        """Vectors that work which failed left for its next try, and that nobody uses now."""
        with self.catalog.write() as c:
            for project in c.projects.all(scope):
                c.embeddings.sweep(scope, project.id)

    def stray_blobs(self, scope: Scope) -> list[str]:
        """Stored bytes that no version needs. Who does not see all projects cannot tell.

        What another machine is publishing looks the same, and cannot be asked after: there the last two days are left.
        """
        if scope.projects is not None:
            raise NotAllowed("only the owner of the workspace may clear stored files")
        with self.catalog.read() as c:
            needed = set(c.documents.blobs(scope))
        if not self.blobs.shared:
            return [key for key in self.blobs.names() if key not in needed]
        if not needed:  # a catalog that is new, or the wrong one: what is stored there is another's
            return []
        yesterday = (datetime.now(UTC) - timedelta(days=1)).date().isoformat()
        return [key for key in self.blobs.names() if key not in needed and _day_of(key) < yesterday]

    def remove_stray_blobs(self, scope: Scope) -> int:
        stray = self.stray_blobs(scope)
        for key in stray:
            self.blobs.remove(key)
        return len(stray)

    # -- check

    def check(self, scope: Scope, slug: str | None, *, repair: bool, alone: bool = True) -> Iterator[Finding]:
        """Everything that could differ from the catalog, each with what was found."""
        with self.catalog.read() as c:
            projects = c.projects.all(scope) if slug is None else [c.projects.get(scope, slug)]
        for project in projects:
            yield self._bytes(scope, project)
            yield self._chunks(scope, project)
            yield self._state(scope, project, repair, alone)
            yield from self.follow.check(project.id, project.slug, repair=repair)
            yield from self._memory(scope, project)
        if left := self.tidy(scope):
            yield Finding("indexes nobody uses", False, "; ".join(left), "remove these folders by hand")

    def catalog_findings(self, scope: Scope, *, alone: bool, repair: bool) -> list[Finding]:
        """What is wrong inside the catalog itself. Vectors come before their chunks: of files that are being added
        they look like nobody's."""
        findings = self._inspected(alone)
        if repair and not all(finding.ok for finding in findings):
            with self.catalog.read() as c:
                projects = c.projects.all(scope)
            for project in projects:
                sweep(self.catalog, scope, project.id, vectors=alone)
            after = {finding.subject: finding.ok for finding in self._inspected(alone)}
            findings = [replace(f, repaired=not f.ok and after.get(f.subject, False)) for f in findings]
        return findings

    def _inspected(self, alone: bool) -> list[Finding]:
        waits = "not looked for while files are being added"
        return [
            finding if alone or finding.subject != VECTORS_OF_NOBODY else Finding(finding.subject, True, waits)
            for finding in self.catalog.inspect()
        ]

    def stray(self, scope: Scope, *, alone: bool, repair: bool) -> Finding:
        """Stored bytes that no version needs. Those of a file that is being added look the same."""
        if not alone:
            return Finding("stored files nobody needs", True, "not looked for while files are being added")
        stray = self.remove_stray_blobs(scope) if repair else len(self.stray_blobs(scope))
        hint = "ragforge check --repair removes them"
        return Finding("stored files nobody needs", stray == 0, str(stray), hint, repaired=repair and stray > 0)

    def _bytes(self, scope: Scope, project: Project) -> Finding:
        """Every stored file is there and still hashes to what it was."""
        bad: list[str] = []
        missing: dict[str, str] = {}
        with self.catalog.read() as c:
            for document, sha256, blob in c.documents.stored(scope, project.id):
                try:
                    with self.blobs.open(blob) as file:
                        if hashlib.file_digest(file, "sha256").hexdigest() != sha256:
                            bad.append(f"{document} (changed)")
                except FileNotFoundError:
                    missing[blob] = f"{document} (missing)"
        with self.catalog.read() as c:  # what was replaced or removed meanwhile is not missed
            bad += [missing[blob] for _, _, blob in c.documents.stored(scope, project.id) if blob in missing]
        return _finding(f"{project.slug}: stored files", bad)

    def _chunks(self, scope: Scope, project: Project) -> Finding:
        """Every chunk's text still has its checksum."""
        bad = []
        with self.catalog.read() as c:
            for document in c.documents.all(scope, project.id, Status.READY):
                for chunk in c.documents.chunks(scope, project.id, document.id):
                    if blake2b(chunk.text.encode(), digest_size=16).hexdigest() != chunk.checksum:
                        bad.append(f"{document.name} chunk {chunk.position}")
        return _finding(f"{project.slug}: chunk checksums", bad)

    def _state(self, scope: Scope, project: Project, repair: bool, alone: bool) -> Finding:
        content = self._state_content(scope, project.slug)
        path = self._state_path(project.slug)
        if self.has_others:
            self.write_state(scope, project.slug)
        current = path.exists() and path.read_bytes() == content.encode()
        if repaired := repair and not current:
            self.write_state(scope, project.slug)
        elif not current and not alone:
            return Finding(f"{project.slug}: project_state.json", True, "follows when what is being added is there")
        hint = "ragforge check --repair writes it anew"
        detail = "current" if current else "not current"
        return Finding(f"{project.slug}: project_state.json", current, detail, hint, repaired)

    def _memory(self, scope: Scope, project: Project) -> Iterator[Finding]:
        """Turns that could be recalled by their meaning if they had a vector."""
        with self.catalog.read() as c:
            now = c.passages.moment(scope, project.id)
            if now.cosine_floor is None:  # nobody measured its cosines: words decide anyway
                return
            missing = sum(1 for _ in unembedded(c, scope, project.id, now.embedder))
        if missing:
            detail = f"{missing:,} turn{'s' * (missing != 1)} without a vector can only be recalled by words"
            hint = f"ragforge reindex --project {project.slug}"
            yield Finding(f"{project.slug}: memory", True, detail, hint, warning=True)


def _day_of(key: str) -> str:
    """When bytes were stored: their key tells."""
    return key.split("/")[1]


def _finding(subject: str, bad: list[str]) -> Finding:
    hint = "remove these files with ragforge rm and add them again"
    shown = ", ".join(bad[:5]) + (f" and {len(bad) - 5} more" if len(bad) > 5 else "")
    return Finding(subject, not bad, shown or "all as they should be", hint)


def sweep(catalog: Catalog, scope: Scope, project: str, *, vectors: bool = True) -> None:
    """Clear rows of retired generations a little at a time, then vectors nobody uses."""
    while True:
        with catalog.write() as c:
            if c.projects.sweep(scope, project, _SWEEP) < _SWEEP:
                if vectors:
                    c.embeddings.sweep(scope, project)
                return
