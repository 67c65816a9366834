"""The catalog moves to another database; the workspace's folder stays where it is.

nobody at work -> look how far an earlier run came -> copy the tables in their order, each batch with a note of it
-> verify every table by count and checksum -> close the old one -> name the new one in the settings -> open the new one
-> set the old one aside. The old one is the truth until it is closed. From then on neither opens before the move is
finished, so there are never two. Killed at any moment, the same command goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from ragforge.domain.cancel import Cancel
from ragforge.domain.library import Progress
from ragforge.domain.migration import (
    SQLITE,
    CatalogRow,
    Checksum,
    Copied,
    CopiedTable,
    MigrationReport,
    TargetState,
    is_same_place,
)
from ragforge.domain.sizes import MB
from ragforge.errors import CorruptStore, StoreError, UserError
from ragforge.failpoints import failpoint
from ragforge.operate.settings_file import replacing, take_place, with_value
from ragforge.ports import CatalogSource, CatalogTarget

KEY = "store.database_url"
_BATCH_ROWS = 2_000
_BATCH_BYTES = 4 * MB
"""Held in memory at once, and lost by a kill."""
_EVERY = 1_000
"""Rows between two words about how far it is."""


@dataclass(frozen=True, slots=True)
class Named:
    """What the settings say of the catalog's place, and what they shall say."""

    file: Path
    new: str
    """The address that is written down; empty for the file in the workspace."""
    private: bool
    """It has a password, and somebody asked that it is written down."""
    is_target: bool
    """The target is named already: by an earlier run, or by the environment."""
    elsewhere: str
    """Where the address in use was given if that counts more than the file; else empty."""


@dataclass(frozen=True, slots=True)
class Migrate:
    """Copy, verify, switch."""

    workspace: Path
    named: Named
    alone: Callable[[], AbstractContextManager[None]]
    """Nobody else is at work in the workspace."""
    target: Callable[[], AbstractContextManager[CatalogTarget]]
    source: Callable[[], AbstractContextManager[CatalogSource]] | None
    """The catalog in use; None where it is the target itself, so that nothing is left to copy."""
    went_to: Callable[[], str]
    """Where the source says that it went; empty if it is still in use."""
    clear_away: Callable[[str], str]
    """Set the closed catalog aside, once another is in use. Returns where it is."""

    def __call__(self, cancel: Cancel, *, switching: bool = True) -> Iterator[Progress | MigrationReport]:
        began = time.monotonic()
        with replacing(self.named.file, self._new_settings()) if switching else nullcontext():
            pass  # what cannot be written is told before the work, not after it
        with self.alone(), self.target() as target:
            if self._is_done(target):
                yield self._end(target)
                return
            if self.source is None:
                raise _without_source(target)
            with self.source() as source:
                moved = yield from self._moved(source, target, cancel)
                if switching:
                    source.seal(target.address)
            report = MigrationReport(
                source=source.address,
                target=target.address,
                tables=moved.tables,
                resumed=moved.resumed,
                switched=switching,
                notices=moved.notices,
            )
            if switching:
                failpoint("migrate.sealed")
                self._switch(target)
                report = self._cleared(report, target)
            yield replace(report, seconds=time.monotonic() - began)

    # -- the end of an earlier run

    def _is_done(self, target: CatalogTarget) -> bool:
        """Whether all is copied and closed. A catalog that came to be there otherwise is not overwritten."""
        state = target.state
        if self.named.is_target and self.source is None:
            return state in (TargetState.EMPTY, TargetState.SWITCHING, TargetState.FINISHED)
        if self.named.is_target and state == TargetState.SWITCHING:
            return is_same_place(self.went_to(), target.address)  # it may have been taken back, and used
        if self.named.is_target:
            return state == TargetState.FINISHED
        if state != TargetState.FINISHED:
            return False
        if is_same_place(self.went_to(), target.address):
            return True
        where = f"{self.workspace / 'catalog.db'} holds a catalog" if target.address == SQLITE else "it is not empty"
        hint = "move that file away" if target.address == SQLITE else "make an empty database and name that"
        raise UserError(f"the catalog is not moved there: {where}", hint=hint)

    def _end(self, target: CatalogTarget) -> MigrationReport:
        tables = tuple(CopiedTable(name, each.rows, each.checksum) for name, each in target.copied().items())
        already = target.state != TargetState.SWITCHING
        source = target.told("from")
        if not already:
            self._switch(target)
        return self._cleared(MigrationReport(source, target.address, tables, already=already), target)

    # -- copying

    def _moved(self, source: CatalogSource, target: CatalogTarget, cancel: Cancel) -> Generator[Progress, None, _Moved]:
        """Every row is there, and found to be the same."""
        sizes = source.sizes
        known, notices = yield from self._taken_up(source, target, cancel)
        tables = yield from self._copied(source, target, sizes, known, cancel)
        failpoint("migrate.copied")
        yield from self._verified(target, tables, cancel)
        target.settle(source.last_numbers())
        target.note(TargetState.VERIFIED)
        failpoint("migrate.verified")
        return _Moved(
            tuple(CopiedTable(name, each.rows, each.checksum) for name, each in tables.items()),
            sum(each.rows for each in known.values()),
            notices,
        )

    def _taken_up(
        self, source: CatalogSource, target: CatalogTarget, cancel: Cancel
    ) -> Generator[Progress, None, tuple[Mapping[str, Copied], tuple[str, ...]]]:
        """What an earlier run copied, if the source still begins with it; else the target begins anew."""
        known = target.copied()
        notices: tuple[str, ...] = ()
        begun_by = target.told("workspace")
        if begun_by and begun_by != str(self.workspace):
            raise UserError(
                f"the database holds an unfinished migration of {begun_by}",
                hint="finish that, or make another database",
            )
        if begun_by and target.state != TargetState.DIFFERS and target.told("schema") == source.schema:
            if (yield from _begins_with(source, known, cancel)):
                return known, ()
            notices = ("the workspace was used since the earlier run, so it was copied anew",)
        target.begin({"workspace": str(self.workspace), "from": source.address})
        failpoint("migrate.begun")
        return {}, notices

    def _copied(
        self,
        source: CatalogSource,
        target: CatalogTarget,
        sizes: Mapping[str, int],
        known: Mapping[str, Copied],
        cancel: Cancel,
    ) -> Generator[Progress, None, dict[str, Copied]]:
        began, total = time.monotonic(), sum(sizes.values())
        done = sum(each.rows for each in known.values())
        tables: dict[str, Copied] = {}
        for table in sizes:
            checksum = Checksum(known.get(table, Copied()))
            for rows in _batches(source.rows(table, checksum.copied.rows), checksum):
                cancel.check()
                target.add(table, rows, checksum.copied)
                failpoint("migrate.added")
                done += len(rows)
                yield Progress("copying", done, total, seconds=time.monotonic() - began)
            tables[table] = checksum.copied
        return tables

    # -- verifying

    def _verified(
        self, target: CatalogTarget, tables: Mapping[str, Copied], cancel: Cancel
    ) -> Generator[Progress, None, None]:
        """Read back all that is there. Raises what differs; the next run then begins anew."""
        reading, differing = _Reading("verifying", tables, cancel), []
        for table, copied in tables.items():
            found = yield from reading.checksum(target.rows(table))
            if found != copied:
                differing.append(f"{table} ({copied.rows:,} rows here, {found.rows:,} there)")
        if differing:
            target.note(TargetState.DIFFERS)
            raise CorruptStore(
                f"what was copied is not the same: {', '.join(differing)}",
                hint="nothing was changed in the workspace; run it again, and it begins anew",
            )

    # -- switching

    def _switch(self, target: CatalogTarget) -> None:
        """The old one is closed by now; the new one opens when the settings name it."""
        text = self._new_settings()
        with replacing(self.named.file, text, private=self.named.private) as new:
            target.note(TargetState.SWITCHING)
            failpoint("migrate.switching")
            take_place(new, self.named.file)
        failpoint("migrate.switched")
        target.finish()
        failpoint("migrate.finished")

    def _cleared(self, report: MigrationReport, target: CatalogTarget) -> MigrationReport:
        """The old one set aside, and what is left to do by hand. The move is done, whether that works or not."""
        kept, notices = "", [*report.notices, *self._advice(target)]
        try:
            kept = self.clear_away(target.address)
        except StoreError as problem:
            notices.append(f"the old catalog could not be set aside: {problem.message}")
        failpoint("migrate.cleared")
        return replace(report, kept=kept, notices=tuple(notices))

    def _new_settings(self) -> str:
        try:
            text = self.named.file.read_bytes().decode()
        except FileNotFoundError:
            text = ""
        except (OSError, UnicodeDecodeError) as problem:
            raise UserError(f"{self.named.file} cannot be read: {problem}", hint="make it readable UTF-8") from problem
        return with_value(text, KEY, self.named.new)

    def _advice(self, target: CatalogTarget) -> tuple[str, ...]:
        """What is left to do by hand."""
        if self.named.elsewhere and not self.named.is_target:
            wanted = (
                "take it away there" if not self.named.new else f"set it to {self.named.new} there, or take it away"
            )
            return (f"{KEY} is still given by {self.named.elsewhere}: {wanted}",)
        if self.named.elsewhere or self.named.private or target.opens_without_password():
            return ()
        return (
            f"{self.named.file.name} does not hold the password: set RAGFORGE_STORE__DATABASE_URL to the whole "
            "address, or PGPASSWORD, or write it into ~/.pgpass",
        )


@dataclass(frozen=True, slots=True)
class _Moved:
    """What one run did."""

    tables: tuple[CopiedTable, ...]
    resumed: int
    notices: tuple[str, ...]


class _Reading:
    """Tables that are read again, and how far that is."""

    def __init__(self, stage: str, tables: Mapping[str, Copied], cancel: Cancel) -> None:
        self._stage = stage
        self._done, self._total = 0, sum(each.rows for each in tables.values())
        self._cancel = cancel

    def checksum(self, rows: Iterable[CatalogRow]) -> Generator[Progress, None, Copied]:
        """Of the next table."""
        over = Checksum()
        for row in rows:
            over.add(row)
            self._done += 1
            if self._done % _EVERY == 0:
                self._cancel.check()
                yield Progress(self._stage, self._done, self._total)
        return over.copied


def _begins_with(source: CatalogSource, known: Mapping[str, Copied], cancel: Cancel) -> Generator[Progress, None, bool]:
    """Whether the source's tables begin with the rows that were copied."""
    reading = _Reading("comparing", known, cancel)
    for table, copied in known.items():
        if (yield from reading.checksum(source.rows(table, most=copied.rows))) != copied:
            return False
    return True


def _batches(rows: Iterable[CatalogRow], checksum: Checksum) -> Iterator[list[CatalogRow]]:
    """A few at a time, however long they are; the checksum is that of all up to the batch's end."""
    batch: list[CatalogRow] = []
    size = 0
    for row in rows:
        batch.append(row)
        size += checksum.add(row)
        if len(batch) >= _BATCH_ROWS or size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _without_source(target: CatalogTarget) -> UserError:
    """The settings name the target, in which only a part is, or nothing any more."""
    if target.state == TargetState.LEFT:
        return UserError(
            f"the catalog was moved from there to {target.told('to')}",
            hint="set store.database_url to that and run it again, or use what was left: ragforge migrate --take-back",
        )
    return UserError(
        f"a migration from {target.told('from')} is not finished, and the settings do not name that any more",
        hint="set RAGFORGE_STORE__DATABASE_URL to its address and run it again",
    )
