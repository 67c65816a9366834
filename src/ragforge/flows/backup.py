"""A workspace into one file, and out of it again.

backup:  tables of one moment -> uploads that wait -> settings and templates -> original files -> what was removed
meanwhile
restore: verify all -> tables, in one transaction -> remove again what was removed since -> files -> take its place
Indexes are not in it: they are built from the catalog, without a model.
"""

from __future__ import annotations

import glob
import json
import os
import re
import shutil
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from ragforge.domain.access import Scope
from ragforge.domain.archives import BackupReport, Kind, RestoreReport, TableShape, Tombstone
from ragforge.domain.cancel import Cancel
from ragforge.domain.library import UPLOAD, Progress
from ragforge.domain.sizes import KB, MB, size_text
from ragforge.durable import sync
from ragforge.errors import Busy, CorruptStore, DiskFull, UserError, cannot_write
from ragforge.failpoints import failpoint
from ragforge.operate.archive import Archive, Writer, is_safe, writing
from ragforge.operate.inbox import Inbox
from ragforge.operate.secrets import without_secrets
from ragforge.ports import BlobStore, Catalog, CatalogLoad, Clock, TableRow
from ragforge.settings import FACTS

FORMAT = "ragforge backup"
VERSION = 1
SETTINGS = "ragforge.toml"
_OWN_FOLDERS = ("agents", "discovery", "outlines", "templates")
"""Folders of a workspace in which people write."""
_LARGEST_OWN_FILE = 5 * MB
_EVERY = 500
_NOTE = "restored-0"
"""Tells whoever works there first that what is derived has to be made."""
_BEING_BUILT = ".restoring"
_UNFINISHED = "unfinished"
"""Stands in a folder until it is a whole workspace."""
_LARGEST_SETTINGS = 200 * KB
_MOST_DOTS = 300
"""In a line of settings. A name of many parts takes the TOML library minutes."""
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_Version = Mapping[str, str]
"""The name of a stored file, its blob and its sha256."""


@dataclass(frozen=True, slots=True)
class Backup:
    """Everything a workspace holds, but its indexes and its secrets."""

    catalog: Catalog
    blobs: BlobStore
    inbox: Inbox
    workspace: Path
    secrets: Sequence[str]
    """Values that must not be in it."""
    made_by: str
    now: Clock

    def __call__(self, scope: Scope, file: Path, cancel: Cancel) -> Iterator[Progress | BackupReport]:
        file = Path(os.path.abspath(file.expanduser()))
        if self.workspace.resolve() in file.resolve().parents:
            raise UserError(f"{file} is inside the workspace", hint="choose a place that does not get lost with it")
        began = time.monotonic()
        with writing(file, cancel) as archive, tempfile.TemporaryFile("w+", encoding="utf-8") as wanted:
            archive.add_text("README.md", _README)
            made_at = self.now()
            dumped = yield from self._tables(scope, archive, wanted, began)
            failpoint("backup.dumped")
            lost = self._uploads(scope, archive, dumped.uploads)
            left_out = self._own_files(archive)
            originals = yield from self._originals(archive, wanted, began)
            with self.catalog.read() as c:
                removed = c.tombstones.all(scope, dumped.last_removal)
                needed = set(c.documents.blobs(scope)) if originals.absent else set()
            missing, damaged = originals.told_apart(needed)
            archive.facts |= {
                "format": FORMAT,
                "version": VERSION,
                "made_at": made_at.isoformat(),
                "made_by": self.made_by,
                "schema": dumped.schema,
                "tables": dumped.tables,
                "missing": missing,
                "damaged": damaged,
                "missing_uploads": [{"job": each.job, "name": each.name} for each in lost],
                "removed_meanwhile": [_written(each) for each in removed],
                "left_out": left_out,
            }
        self.catalog.flush()  # what was removed while the catalog was read could not be cleared from its log
        yield BackupReport(
            file=file,
            size=file.stat().st_size,
            made_at=made_at,
            projects=dumped.rows("projects"),
            documents=dumped.rows("documents"),
            files=originals.copied,
            uploads=len(dumped.uploads) - len(lost),
            removed=sum(each.kind not in (Kind.KEY, Kind.UPLOAD) for each in removed),
            missing=tuple(version["name"] for version in missing),
            damaged=tuple(version["name"] for version in damaged),
            missing_uploads=tuple(each.name for each in lost),
            left_out=tuple(left_out),
        )

    def _tables(
        self, scope: Scope, archive: Writer, wanted: TextIO, began: float
    ) -> Generator[Progress, None, _Dumped]:
        """Every table as it is now. Which stored bytes its rows need is written to `wanted`: they can be many."""
        uploads: list[_Upload] = []
        tables: list[dict[str, Any]] = []
        with self.catalog.dumping(scope) as dump:
            for shape in dump.shapes:
                yield Progress("catalog", 0, None, seconds=time.monotonic() - began)
                rows = dump.rows(shape.name)
                if shape.name == "versions":
                    rows = _noting_blobs(rows, wanted.write)
                elif shape.name == "jobs":
                    rows = _noting_uploads(rows, uploads.append)
                count = archive.add_lines(f"catalog/{shape.name}.jsonl", rows)
                tables.append({"name": shape.name, "columns": shape.columns, "base64": shape.binary, "rows": count})
            return _Dumped(dump.schema, dump.last_removal, tables, uploads)

    def _originals(self, archive: Writer, wanted: TextIO, began: float) -> Generator[Progress, None, _Originals]:
        """Copy the original files that were noted."""
        copied = 0
        absent: list[_Version] = []
        changed: list[_Version] = []
        wanted.seek(0)
        for place, line in enumerate(wanted):
            if place % _EVERY == 0:
                yield Progress("files", place, None, seconds=time.monotonic() - began)
            version = json.loads(line)
            sha256 = _copied(archive, f"files/{version['blob']}", partial(self.blobs.open, version["blob"]))
            copied += bool(sha256)
            if not sha256:
                absent.append(version)
            elif sha256 != version["sha256"]:
                changed.append(version)
        return _Originals(copied, absent, changed)

    def _uploads(self, scope: Scope, archive: Writer, uploads: Sequence[_Upload]) -> list[_Upload]:
        """Copy what waits. What a worker took in meanwhile is a document's by now. Returns those that are neither."""
        gone = [each for each in uploads if not _copied(archive, each.member, partial(self.inbox.read, each.inbox))]
        if not gone:
            return []
        with self.catalog.read() as c:
            blobs = {
                sha256: blob
                for project in c.projects.all(scope)
                for _, sha256, blob in c.documents.stored(scope, project.id)
            }
        return [
            each
            for each in gone
            if each.sha256 not in blobs
            or not _copied(archive, each.member, partial(self.blobs.open, blobs[each.sha256]))
        ]

    def _own_files(self, archive: Writer) -> list[str]:
        """Settings, without what looks like a secret, and what people wrote for this workspace."""
        left_out: list[str] = []
        for path in [self.workspace / SETTINGS, *_own_files(self.workspace)]:
            try:
                text = path.read_bytes().decode()
            except (OSError, UnicodeDecodeError):
                continue
            name = path.relative_to(self.workspace).as_posix()
            kept, found = without_secrets(text, self.secrets)
            left_out += [f"{name} {what}" for what in found]
            if name == SETTINGS and not _is_readable(kept):
                left_out.append(f"{name} as a whole (no valid settings)")
                continue
            archive.add_text(f"workspace/{name}", kept if found else text)
        return left_out


@dataclass(frozen=True, slots=True)
class _Dumped:
    """The tables that are in the archive."""

    schema: str
    last_removal: int
    tables: Sequence[Mapping[str, Any]]
    """Name, columns and number of rows of each, as the manifest tells them."""
    uploads: Sequence[_Upload]

    def rows(self, table: str) -> int:
        return next(int(each["rows"]) for each in self.tables if each["name"] == table)


@dataclass(frozen=True, slots=True)
class _Originals:
    """What became of the original files."""

    copied: int
    absent: Sequence[_Version]
    changed: Sequence[_Version]

    def told_apart(self, needed: Collection[str]) -> tuple[list[_Version], list[_Version]]:
        """Those that went while they were copied, and those that are damaged: they are absent and still needed."""
        gone = [version for version in self.absent if version["blob"] not in needed]
        return gone, [*self.changed, *(version for version in self.absent if version["blob"] in needed)]


@dataclass(frozen=True, slots=True)
class _Upload:
    """A file that was acknowledged and waits to be taken in."""

    job: str
    inbox: str
    name: str
    sha256: str

    @property
    def member(self) -> str:
        return f"inbox/{self.inbox}"


def _copied(archive: Writer, name: str, open_file: Callable[[], BinaryIO]) -> str:
    """Their sha256; empty if the bytes are not there, perhaps because they were removed meanwhile: the removal wins."""
    try:
        file = open_file()
    except FileNotFoundError:
        return ""
    with file:
        return archive.add_file(name, file)


def _own_files(workspace: Path) -> Iterator[Path]:
    for folder in _OWN_FOLDERS:
        for path in sorted((workspace / folder).rglob("*")):
            name = path.relative_to(workspace).as_posix()
            if path.is_file() and not path.is_symlink() and is_safe(name) and path.stat().st_size <= _LARGEST_OWN_FILE:
                yield path


def _noting_blobs(rows: Iterator[TableRow], note: Callable[[str], object]) -> Iterator[TableRow]:
    """The same rows; which stored bytes they need is written down."""
    for row in rows:
        if row["blob"]:
            note(json.dumps({name: row[name] for name in ("blob", "name", "sha256")}) + "\n")
        yield row


def _noting_uploads(rows: Iterator[TableRow], note: Callable[[_Upload], object]) -> Iterator[TableRow]:
    for row in rows:
        payload = json.loads(row["payload"])
        note(_Upload(row["id"], payload["inbox"], payload["name"], payload["sha256"]))
        yield row


@dataclass(frozen=True, slots=True)
class Place:
    """Where a workspace is built: its folder, an empty catalog, its stored bytes, and where uploads wait."""

    folder: Path
    catalog: Catalog
    blobs: BlobStore
    inbox: Inbox
    require_free: Callable[[str], None]
    """Raises if stored bytes are another catalog's there than of the one that is known so."""


@dataclass(frozen=True, slots=True)
class Replaced:
    """The workspace that a restore takes the place of."""

    removed: Sequence[Tombstone] = ()
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Restore:
    """A backup becomes a workspace: whole, or not at all."""

    workspace: Path
    on_server: bool
    """The catalog is on a server: the folder is filled in place, and the server's commit decides."""
    place_at: Callable[[Path], AbstractContextManager[Place]]
    replaced: Callable[[], AbstractContextManager[Replaced]]
    """The workspace that is there, with nobody at work in it until the end."""

    def __call__(
        self, scope: Scope, file: Path, cancel: Cancel, *, replacing: bool
    ) -> Iterator[Progress | RestoreReport]:
        with Archive(file, FORMAT, VERSION) as archive:
            self._require_place(archive, replacing)
            for done in archive.verify(cancel):
                yield Progress("verifying", done, len(archive.facts["members"]))
            there = _is_workspace(self.workspace)
            with self.replaced() if there and not self.on_server else nullcontext(Replaced()) as before:
                if self.on_server:
                    report = yield from self._in_place(scope, archive, before, cancel)
                else:
                    report = yield from self._beside(scope, archive, before, cancel, there=there)
        yield report

    def _require_place(self, archive: Archive, replacing: bool) -> None:
        there = _is_workspace(self.workspace)
        if self.on_server:
            if replacing:
                raise UserError(
                    "a catalog on a server is not replaced",
                    hint="make an empty database, name it in store.database_url, and restore without --replace",
                )
        elif there and not replacing:
            raise UserError(
                f"{self.workspace} is a workspace already",
                hint="restore to another --workspace, or with --replace, which keeps the old one beside it",
            )
        elif not there and self.workspace.exists() and any(self.workspace.iterdir()):
            raise UserError(f"{self.workspace} is not empty and no workspace", hint="choose another --workspace")
        above = next(folder for folder in self.workspace.parents if folder.is_dir())
        free = shutil.disk_usage(above).free
        if archive.size > free:
            raise DiskFull(
                f"it needs {size_text(archive.size)}, and {size_text(free)} are free",
                hint="free some space, or choose another --workspace",
            )

    def _in_place(
        self, scope: Scope, archive: Archive, before: Replaced, cancel: Cancel
    ) -> Generator[Progress, None, RestoreReport]:
        """Fill the folder, then the database in one step. What is left of one that failed is used by the next."""
        was_there = self.workspace.exists()
        try:
            return (yield from self._fill(scope, archive, self.workspace, before, cancel))
        except BaseException:
            if not was_there:
                shutil.rmtree(self.workspace, ignore_errors=True)
            raise

    def _beside(
        self, scope: Scope, archive: Archive, before: Replaced, cancel: Cancel, *, there: bool
    ) -> Generator[Progress, None, RestoreReport]:
        """Build it in a folder beside the place, then let it take the place in one step."""
        try:
            self.workspace.parent.mkdir(parents=True, exist_ok=True)
            _sweep(self.workspace)
            above = self.workspace.parent
            new = Path(tempfile.mkdtemp(prefix=f".{self.workspace.name}.", suffix=_BEING_BUILT, dir=above))
            try:
                (new / _UNFINISHED).touch()
                if there:
                    _keep_own_settings(self.workspace, new)
                report = yield from self._fill(scope, archive, new, before, cancel)
                (new / _UNFINISHED).unlink()
                sync(new)
                failpoint("restore.built")
                _require_free(self.workspace, there)
            except BaseException:
                shutil.rmtree(new, ignore_errors=True)
                raise
            old = _take_place(new, self.workspace, there=there)
        except OSError as problem:
            raise cannot_write(self.workspace, problem) from problem
        failpoint("restore.placed")
        return replace(report, workspace=self.workspace, before=old, notices=(*report.notices, *before.notices))

    def _fill(
        self, scope: Scope, archive: Archive, folder: Path, before: Replaced, cancel: Cancel
    ) -> Generator[Progress, None, RestoreReport]:
        facts = archive.facts
        notices = _unpack_own_files(archive, folder)
        yield Progress("catalog", 0, None)
        with self.place_at(folder) as place:
            if self.on_server and not place.catalog.is_empty():
                raise UserError("the database is not empty", hint="make a new one and name it in store.database_url")
            with place.catalog.loading(scope, _text(facts, "schema"), _tables(archive)) as load:
                failpoint("restore.loaded")
                place.require_free(load.identity())
                meanwhile = [_tombstone(each) for each in _list(facts, "removed_meanwhile")]
                removed = load.remove_again([*meanwhile, *before.removed])
                missing = {_text(each, "blob"): _text(each, "name") for each in _list(facts, "missing")}
                load.without_bytes(missing.keys())
                damaged = {_text(each, "blob"): _text(each, "name") for each in _list_if_told(facts, "damaged")}
                given_up = {_text(each, "job"): _text(each, "name") for each in _list_if_told(facts, "missing_uploads")}
                load.without_uploads(given_up.keys())
                uploads = _uploads(scope, archive, place.inbox, load, cancel)
                files = yield from self._files(scope, archive, place.blobs, load, damaged.keys(), cancel)
                keys = sum(key.revoked_at is None for key in load.unit.keys.all(scope))
                projects = load.unit.projects.all(scope)
                documents = sum(load.unit.documents.usage(scope, project.id)[0] for project in projects)
            place.catalog.flush()
        return RestoreReport(
            workspace=folder,
            made_at=_moment(facts, "made_at"),
            projects=len(projects),
            documents=documents,
            files=files,
            uploads=uploads,
            removed=removed,
            missing=tuple(missing.values()),
            damaged=tuple(damaged.values()),
            missing_uploads=tuple(given_up.values()),
            keys=keys,
            notices=notices,
        )

    def _files(
        self,
        scope: Scope,
        archive: Archive,
        blobs: BlobStore,
        load: CatalogLoad,
        damaged: Collection[str],
        cancel: Cancel,
    ) -> Generator[Progress, None, int]:
        """Put back the original files that the catalog needs, and no others. Those that were lost stay so: `check`
        goes on telling."""
        needed = [
            blob
            for blob in load.unit.documents.blobs(scope)
            if blob and (blob not in damaged or f"files/{blob}" in archive)
        ]
        for place, blob in enumerate(needed):
            cancel.check()
            blobs.put_back(blob, _member(archive, f"files/{blob}"))
            if place % _EVERY == 0:
                blobs.sync()
                yield Progress("files", place, len(needed))
        failpoint("restore.files")
        blobs.sync()
        return len(needed)


# -- the parts of an archive


def _tables(archive: Archive) -> Iterator[tuple[TableShape, Iterator[TableRow]]]:
    for each in _list(archive.facts, "tables"):
        shape = TableShape(_text(each, "name"), _names(each, "columns"), _names(each, "base64"))
        name = f"catalog/{shape.name}.jsonl"
        if name not in archive:
            raise CorruptStore(f"the backup lacks its table {shape.name}", hint="take another backup")
        yield shape, archive.lines(name)


def _written(tombstone: Tombstone) -> dict[str, object]:
    return {
        "kind": str(tombstone.kind),
        "id": tombstone.id,
        "sha256": tombstone.sha256,
        "removed_at": tombstone.removed_at.isoformat(),
    }


def _tombstone(facts: Mapping[str, Any]) -> Tombstone:
    try:
        kind = Kind(facts["kind"])
    except (KeyError, TypeError, ValueError):
        raise _damaged("what was removed meanwhile") from None
    return Tombstone(0, kind, _text(facts, "id"), _text(facts, "sha256"), _moment(facts, "removed_at"))


def _text(facts: Any, name: str) -> str:
    if not isinstance(facts, Mapping) or not isinstance(facts.get(name), str):
        raise _damaged(name)
    return str(facts[name])


def _list(facts: Any, name: str) -> list[Any]:
    if not isinstance(facts, Mapping) or not isinstance(facts.get(name), list):
        raise _damaged(name)
    return list(facts[name])


def _list_if_told(facts: Mapping[str, Any], name: str) -> list[Any]:
    """Older backups do not tell all of them."""
    return _list(facts, name) if name in facts else []


def _names(facts: Any, name: str) -> tuple[str, ...]:
    names = _list(facts, name)
    if not all(isinstance(each, str) for each in names):
        raise _damaged(name)
    return tuple(names)


def _moment(facts: Any, name: str) -> datetime:
    try:
        moment = datetime.fromisoformat(_text(facts, name))
    except ValueError:
        raise _damaged(name) from None
    if moment.tzinfo is None:  # it could not be compared with others
        raise _damaged(name)
    return moment


def _damaged(what: str) -> CorruptStore:
    return CorruptStore(f"the backup's manifest does not tell {what}", hint="take another backup; nothing was changed")


def _uploads(scope: Scope, archive: Archive, inbox: Inbox, load: CatalogLoad, cancel: Cancel) -> int:
    """Put back what waits to be taken in. Returns how many."""
    waiting = load.unit.jobs.unfinished(scope, UPLOAD)
    for job in waiting:
        cancel.check()
        name = str(job.payload["inbox"])
        inbox.put_back(name, _member(archive, f"inbox/{name}"))
    if waiting:
        inbox.sync()
    return len(waiting)


def _member(archive: Archive, name: str) -> Iterator[bytes]:
    if name not in archive:
        raise CorruptStore("the backup lacks files that its catalog names", hint="take another backup")
    return archive.pieces(name)


# -- folders


def _is_workspace(folder: Path) -> bool:
    return (folder / SETTINGS).exists() or (folder / "catalog.db").exists()


def _unpack_own_files(archive: Archive, folder: Path) -> tuple[str, ...]:
    """Settings and templates. What a setting opens to others, or where it leads, is not for an archive to say."""
    notices: list[str] = []
    for name in archive.names("workspace/"):
        inside = name.removeprefix("workspace/")
        if inside != SETTINGS and inside.split("/")[0] not in _OWN_FOLDERS:
            raise _damaged("which files are a workspace's own")
        target = folder / inside
        if target.exists():
            continue
        text = archive.text(name)
        if inside == SETTINGS:
            text, guarded = _without_guarded(text)
            notices += [f"{key} is not taken over: set it again if it is meant" for key in guarded]
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.encode())
    for name in ("uploads", "projects", "inflight", "indexes"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "inflight" / _NOTE).touch()
    if not (folder / SETTINGS).exists():
        (folder / SETTINGS).write_text("", encoding="utf-8")
    left_out = [str(each) for each in _list_if_told(archive.facts, "left_out")]
    return (*notices, *(f"{each} was left out of the backup: it looked like a secret" for each in left_out))


def _without_guarded(text: str) -> tuple[str, list[str]]:
    """The settings without those that could send keys and texts elsewhere or loosen a bound, and the names of these.

    A text that has none is kept as it is. Else it is written anew from what was read, so that no way of writing TOML
    gets past us.
    """
    try:
        tables = _settings(text)
    except ValueError as problem:
        raise CorruptStore(
            f"the backup's {SETTINGS} is damaged: {problem}", hint="take another backup; nothing was changed"
        ) from None
    keys = [f"{section}.{name}" for section, table in tables.items() for name in table]
    left_out = [key for key in keys if _is_guarded(key)]
    return (_rewritten(tables) if left_out else text), left_out


def _is_guarded(key: str) -> bool:
    return key in FACTS and FACTS[key].guarded


def _is_readable(text: str) -> bool:
    try:
        _settings(text)
    except ValueError:
        return False
    return True


def _settings(text: str) -> dict[str, dict[str, Any]]:
    """Sections of plain values. Raises `ValueError` if it holds anything else."""
    if len(text) > _LARGEST_SETTINGS or any(line.count(".") > _MOST_DOTS for line in text.split("\n")):
        raise ValueError("it is larger than it can be")
    try:
        tables = tomllib.loads(text.removeprefix("\ufeff"))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    for section, table in tables.items():
        if not isinstance(table, dict) or not all(map(_is_plain, table.values())):
            raise ValueError(f"{section!r} is no section of plain values")
    return tables


def _is_plain(value: object) -> bool:
    if isinstance(value, int):
        return -(1 << 63) <= value < 1 << 63
    return isinstance(value, str | float)


def _rewritten(tables: Mapping[str, Mapping[str, Any]]) -> str:
    lines = ["# Written anew when a backup was restored. What was set for another machine is a comment."]
    for section, table in tables.items():
        lines += ["", f"[{_toml_name(section)}]"]
        for name, value in table.items():
            line = f"{_toml_name(name)} = {_toml_value(value)}"
            lines.append(f"# {line}  # not taken over" if _is_guarded(f"{section}.{name}") else line)
    return "\n".join(lines) + "\n"


def _toml_name(name: str) -> str:
    return name if _BARE.fullmatch(name) else _toml_text(name)


def _toml_value(value: Any) -> str:
    if isinstance(value, str):
        return _toml_text(value)
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _toml_text(text: str) -> str:
    """In quotes and on one line: whatever could end the line, or change how it looks, is written as its number."""
    return '"' + "".join(map(_toml_character, text)) + '"'


def _toml_character(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    return character if character.isprintable() else f"\\U{ord(character):08X}"


def _keep_own_settings(old: Path, new: Path) -> None:
    """The settings and keys of the machine are those that are there, not those of the backup."""
    for name in (SETTINGS, ".env"):
        if (old / name).is_file():
            shutil.copy2(old / name, new / name)


def _require_free(place: Path, there: bool) -> None:
    if not there and place.exists() and any(place.iterdir()):
        raise Busy(f"somebody else put something in {place} just now", hint="choose another --workspace")


def _take_place(new: Path, place: Path, *, there: bool) -> Path | None:
    """Let the new folder be the workspace, in one step. Returns where the old one is then."""
    if not there:
        _rename_or_discard(new, new, place)  # an empty folder gives way
        sync(place.parent)
        return None
    stamp, number = f"{datetime.now():%Y%m%d-%H%M%S}", 1
    while (kept := place.with_name(f"{place.name}.before-{stamp}-{number}")).exists():
        number += 1
    if _exchange(new, place):
        failpoint("restore.exchanged")
        os.rename(new, kept)
    else:
        _rename_or_discard(new, place, kept)
        failpoint("restore.exchanged")
        os.rename(new, place)
    sync(place.parent)
    return kept


def _rename_or_discard(new: Path, before: Path, after: Path) -> None:
    """A place that cannot be had, such as one where a disk is mounted, leaves nothing behind."""
    try:
        os.rename(before, after)
    except OSError:
        shutil.rmtree(new, ignore_errors=True)
        raise


def _exchange(one: Path, other: Path) -> bool:
    """Swap two folders so that at no moment one of them is missing. False where the system cannot."""
    if not sys.platform.startswith("linux"):
        return False
    import ctypes

    at_cwd, exchange = -100, 2
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    return bool(rename(at_cwd, os.fsencode(one), at_cwd, os.fsencode(other), exchange) == 0)


def _sweep(workspace: Path) -> None:
    """Half workspaces that a killed restore left. A whole one may be the old one: it stays."""
    for left in workspace.parent.glob(f".{glob.escape(workspace.name)}.*{_BEING_BUILT}"):
        if (left / _UNFINISHED).exists():
            shutil.rmtree(left, ignore_errors=True)


_README = """\
# A backup of a ragforge workspace

`ragforge restore FILE --workspace NEW` makes a workspace of it. Without ragforge:

- `files/` holds the original files under opaque names. `catalog/versions.jsonl` tells of each (`blob`) its name and
  its sha256.
- `inbox/` holds uploads that were acknowledged and not taken in yet; `catalog/jobs.jsonl` tells their names.
- `catalog/*.jsonl` are the tables of the catalog, one JSON object a line. `sections.jsonl` holds the texts,
  `embeddings.jsonl` the vectors (float32 numbers, lowest byte first, in base64). `ord` are the keys by which rows of
  different tables belong together.
- `workspace/` holds settings and templates, without what looked like a secret.
- `manifest.json` tells the version, the number of rows and, of every member, its size and sha256. What was removed
  while the backup was made stands under `removed_meanwhile`: a restore leaves it out. Files whose bytes were lost or
  changed before stand under `damaged`.

Anyone who has this file can read every document in it. Keep it as you keep the documents, and delete it when they
have to be gone everywhere.
"""
