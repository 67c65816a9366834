"""A folder mirrored into a project: what is new or changed is added, what left the folder leaves the project."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ragforge.domain.access import Scope
from ragforge.domain.cancel import Cancel
from ragforge.domain.library import FileResult, Labels, Outcome, Progress
from ragforge.errors import NotFound, UserError
from ragforge.flows.ingest import Ingest
from ragforge.ingest.walk import Found, Unreadable, find_files, key_of

_BATCH = 200
_POLL_MILLISECONDS = 500


@dataclass(frozen=True, slots=True)
class Sync:
    """Mirror a folder, once or for ever."""

    ingest: Ingest

    def once(
        self,
        scope: Scope,
        slug: str,
        folder: Path,
        labels: Labels | None,
        cancel: Cancel,
        *,
        retry: bool = False,
        allow_empty: bool = False,
    ) -> Iterator[FileResult | Progress]:
        """Add what is new or changed, then remove what is gone."""
        gone = self.gone(scope, slug, folder, allow_empty=allow_empty)
        yield from self.ingest.add(scope, slug, [folder], labels, cancel, retry=retry)
        yield from self._remove(scope, slug, gone, cancel)

    def watch(
        self, scope: Scope, slug: str, folder: Path, labels: Labels | None, cancel: Cancel
    ) -> Iterator[FileResult | Progress]:
        """Mirror now, and again whenever something in the folder changes, until cancelled."""
        from watchfiles import watch

        folder = folder.expanduser()
        if not folder.is_dir():
            raise NotFound(f"no folder {folder}", hint="check the path")
        changes = watch(folder, rust_timeout=_POLL_MILLISECONDS, yield_on_timeout=True, raise_interrupt=False)
        began = os.stat(folder)
        next(changes)  # watch before the first look, so that nothing falls between the two
        yield from self.once(scope, slug, folder, labels, cancel)
        yield Progress("watching", 0, None)
        for changed in changes:
            if cancel.is_set:
                return
            if not _is_same(folder, began):
                raise NotFound(f"{folder} is no longer the folder it was", hint="nothing was removed; watch it again")
            if changed:
                yield from self.once(scope, slug, folder, labels, cancel, allow_empty=True)
                yield Progress("watching", 0, None)

    def gone(self, scope: Scope, slug: str, folder: Path, *, allow_empty: bool = False) -> list[str]:
        """Known paths below the folder that are no longer there. What lies in an unreadable place is not gone."""
        folder = Path(os.path.abspath(folder.expanduser()))
        if not folder.is_dir():
            raise NotFound(f"no folder {folder}", hint="check the path; nothing was removed")
        found = list(find_files([folder], self.ingest.workspace))
        present = {file.key for file in found if isinstance(file, Found)}
        hidden = tuple(key_of(place.path) for place in found if isinstance(place, Unreadable))
        with self.ingest.catalog.read() as c:
            project = c.projects.get(scope, slug)
            known = c.documents.source_keys(scope, project.id, f"{folder}{os.sep}")
        gone = [key for key in known if key not in present and not key.startswith(hidden) and not os.path.isfile(key)]
        if gone and not present and not allow_empty:
            raise UserError(
                f"{folder} is empty, but {len(gone)} of its files are known",
                hint="if it is a drive, mount it; to remove them all use ragforge rm or --allow-empty",
            )
        return gone

    def _remove(self, scope: Scope, slug: str, gone: list[str], cancel: Cancel) -> Iterator[FileResult]:
        catalog = self.ingest.catalog
        for start in range(0, len(gone), _BATCH):
            cancel.check()
            keys = [key for key in gone[start : start + _BATCH] if not os.path.lexists(key)]  # some may have come back
            with catalog.write() as c:
                project = c.projects.get(scope, slug)
                removed = [c.documents.remove_source(scope, project.id, key) for key in keys]
            for item in removed:
                for blob in item.blobs:
                    self.ingest.blobs.remove(blob)
            yield from (FileResult(key, Outcome.REMOVED) for key in keys)


def _is_same(folder: Path, before: os.stat_result) -> bool:
    """False when a drive was unmounted, or another folder stands in its place."""
    try:
        return os.path.samestat(os.stat(folder), before)
    except OSError:
        return False
