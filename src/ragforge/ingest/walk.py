"""Paths -> files. Follows links but no loop; leaves out what no one means to search."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ragforge.domain.documents import ParseFailure, Reason
from ragforge.errors import UserError

_COPY = "copy what it gives into a file and add that"
_CATALOG = "catalog.db"
_WORKSPACE_FILES = frozenset({"ragforge.toml", _CATALOG})
_SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__", "site-packages"})


@dataclass(frozen=True, slots=True)
class Found:
    """A file on disk, as it was when it was seen."""

    path: str
    size: int
    mtime_ns: int
    sent_as: str = ""
    """Of an upload, the name that its client gave it; where it lies meanwhile is nobody's business."""

    @property
    def key(self) -> str:
        """What it is known by: the same file again has the same."""
        return f"upload:{self.sent_as}" if self.sent_as else key_of(self.path)

    @property
    def name(self) -> str:
        return self.sent_as or os.path.basename(self.path)

    @property
    def shown(self) -> str:
        """How a person knows it."""
        return self.sent_as or self.path


def key_of(path: str) -> str:
    """The path as text that any store can hold: bytes that are no UTF-8 are written out."""
    return os.fsencode(path).decode(errors="backslashreplace")


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A path that cannot be read, and why."""

    path: str
    failure: ParseFailure


def find_files(paths: Sequence[str | os.PathLike[str]], workspace: Path) -> Iterator[Found | Unreadable]:
    """Every file under the paths, once. A path named by the user is taken even if hidden; our own files never are."""
    own = os.stat(workspace)
    seen = {(own.st_dev, own.st_ino)}
    with suppress(OSError):  # on Postgres it has none; closing it would drop this process's locks on it
        catalog = os.stat(workspace / _CATALOG)
        seen.add((catalog.st_dev, catalog.st_ino))
    for path in paths:
        if not os.fspath(path):  # an unset variable of a shell script, hardly the current folder
            raise UserError("an empty path", hint="name a file or a folder; . is the current one")
        yield from _visit(os.path.abspath(os.path.expanduser(path)), seen, workspace)


def _visit(path: str, seen: set[tuple[int, int]], workspace: Path) -> Iterator[Found | Unreadable]:
    try:
        info = os.stat(path)
    except (OSError, ValueError) as problem:
        yield Unreadable(path, why_unreadable(problem))
        return
    if Path(path).resolve().is_relative_to(workspace):
        yield Unreadable(
            path, ParseFailure(Reason.UNSUPPORTED, "lies inside the workspace", "add files from elsewhere")
        )
        return
    if stat.S_ISDIR(info.st_mode):
        yield from _walk(path, info, seen, workspace)
    elif (info.st_dev, info.st_ino) in seen:
        yield Unreadable(path, ParseFailure(Reason.UNSUPPORTED, "it is the workspace's catalog", "add files of yours"))
    elif stat.S_ISREG(info.st_mode):
        yield Found(path, info.st_size, info.st_mtime_ns)
    else:
        yield Unreadable(path, ParseFailure(Reason.UNSUPPORTED, "not a regular file (a pipe, socket or device)", _COPY))


def _walk(top: str, info: os.stat_result, seen: set[tuple[int, int]], workspace: Path) -> Iterator[Found | Unreadable]:
    """Folders in order of name, each real folder once, however many links lead to it."""
    waiting = [(top, info)]
    while waiting:
        folder, info = waiting.pop()
        if (info.st_dev, info.st_ino) in seen:
            continue
        seen.add((info.st_dev, info.st_ino))
        try:
            with os.scandir(folder) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError as problem:
            yield Unreadable(folder, why_unreadable(problem))
            continue
        if {entry.name for entry in entries} >= _WORKSPACE_FILES:  # another workspace: files of ragforge, not of people
            continue
        below: list[tuple[str, os.stat_result]] = []
        for entry in entries:
            if entry.name.startswith("."):
                continue
            try:
                info = entry.stat()
            except OSError as problem:
                yield Unreadable(entry.path, why_unreadable(problem))
                continue
            if entry.is_symlink() and Path(entry.path).resolve().is_relative_to(workspace):
                continue
            if stat.S_ISDIR(info.st_mode):
                if entry.name not in _SKIPPED_FOLDERS:
                    below.append((entry.path, info))
            elif stat.S_ISREG(info.st_mode) and (info.st_dev, info.st_ino) not in seen:
                yield Found(entry.path, info.st_size, info.st_mtime_ns)
        waiting += reversed(below)


def why_unreadable(problem: OSError | ValueError) -> ParseFailure:
    if isinstance(problem, ValueError):
        return ParseFailure(Reason.UNREADABLE, "not a path that a file can have", "check the path")
    if isinstance(problem, FileNotFoundError):
        return ParseFailure(Reason.UNREADABLE, "no such file or folder", "check the path; a broken link looks the same")
    if isinstance(problem, PermissionError):
        return ParseFailure(Reason.UNREADABLE, "no permission to read it", "change its permissions, then add it again")
    return ParseFailure(Reason.UNREADABLE, f"cannot be read ({problem.strerror})", "check the disk, then add it again")
