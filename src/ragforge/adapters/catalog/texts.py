"""Hard Rules and Project Memory: every version is kept, the newest counts."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy import Row

from ragforge.adapters.catalog import tables as t
from ragforge.adapters.catalog.unit import Session, moment, storable
from ragforge.domain.access import Scope
from ragforge.domain.records import ProjectText, ProjectTextKind
from ragforge.domain.sizes import KB, over_limit_text
from ragforge.errors import TooLarge

MOST_BYTES = 200 * KB


class SqlProjectTexts:
    def __init__(self, session: Session) -> None:
        self._session = session

    def read(self, scope: Scope, project: str, kind: ProjectTextKind) -> ProjectText:
        """The newest version; the empty version 0 while nobody has written one."""
        newest = self._session.execute(self._newest_first(scope, project, kind).limit(1)).one_or_none()
        return ProjectText(kind, 0, "", None) if newest is None else _text(newest)

    def write(self, scope: Scope, project: str, kind: ProjectTextKind, text: str) -> ProjectText:
        """A new version, unless the newest one says the same."""
        session, row = self._session, self._session.project(scope, project)
        text = storable(text)
        size = len(text.encode())
        if size > MOST_BYTES:
            raise TooLarge(
                f"the text is too long: {over_limit_text(size, MOST_BYTES)}",
                hint="it goes into every prompt; put long material into a file and add that",
            )
        session.lock(row.ord)
        newest = self.read(scope, project, kind)
        if newest.text == text:
            return newest
        facts = {
            "project": row.ord,
            "kind": str(kind),
            "version": newest.version + 1,
            "text": text,
            "written_at": session.now(),
            "written_by": scope.principal,
        }
        session.insert(t.project_texts, [facts])
        return self.read(scope, project, kind)

    def versions(self, scope: Scope, project: str, kind: ProjectTextKind) -> list[ProjectText]:
        """All that were written, newest first."""
        return [_text(row) for row in self._session.execute(self._newest_first(scope, project, kind))]

    def _newest_first(self, scope: Scope, project: str, kind: ProjectTextKind) -> sa.Select[Any]:
        row = self._session.project(scope, project)
        return (
            sa.select(t.project_texts)
            .where(t.project_texts.c.project == row.ord, t.project_texts.c.kind == str(kind))
            .order_by(t.project_texts.c.version.desc())
        )


def _text(row: Row[Any]) -> ProjectText:
    return ProjectText(ProjectTextKind(row.kind), row.version, row.text, moment(row.written_at), row.written_by)
