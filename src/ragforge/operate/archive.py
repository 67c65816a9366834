"""One file that holds many: a ZIP that anybody can open, and a manifest that says what each member must be.

It is written under another name and gets its own when it is whole and durable. It is believed only after every member
was compared with the manifest; nothing in it may lead outside the folder it is unpacked to.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import stat
import struct
import time
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any, BinaryIO, Self

from ragforge.domain.cancel import Cancel
from ragforge.domain.sizes import GB, MB, size_text
from ragforge.durable import sync
from ragforge.errors import CorruptStore, NotFound, StoreError, TooLarge, UserError, cannot_write
from ragforge.failpoints import failpoint

MANIFEST = "manifest.json"
_PIECE = 1 << 20
_LARGEST_MANIFEST = 512 * MB
"""Enough for three million members."""
_MANIFEST_LINE = 200
"""What a member needs in the manifest, beside its name."""
_MANIFEST_ROOM = 16 * MB
_MANIFEST_UNPACKED = 50
"""Checksums do not shrink: a manifest that unpacks to so many times its size, and to more than the room, is a bomb."""
_LONGEST_LINE = 512 * MB
_UNPACKED = 200
"""An archive that claims to hold so many times its own size, and more than the least, is no archive of ours."""
_UNPACKED_AT_LEAST = GB
_UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    ValueError,
    OverflowError,
    NotImplementedError,
    RuntimeError,
)
"""What the library says of an archive that is none, or half of one."""
_FORGOTTEN_SECONDS = 3600
"""An unfinished archive that nobody wrote to for so long was left by a process that was killed."""


@contextmanager
def writing(file: Path, cancel: Cancel) -> Iterator[Writer]:
    """A new archive. Whatever ends this early leaves no file behind; only `kill -9` does, under a name of its own."""
    if file.exists():
        raise UserError(f"{file} exists already", hint="choose another name, or remove it first")
    if not file.parent.is_dir():
        raise NotFound(f"no folder {file.parent}", hint="make it first, or choose another")
    _sweep(file)
    temporary = file.with_name(f".{file.name}.{secrets.token_hex(4)}.unfinished")
    try:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
        with os.fdopen(os.open(temporary, flags, 0o600), "w+b") as stream:
            with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed:
                writer = Writer(packed, cancel)
                yield writer
                writer.seal()
            stream.flush()
            os.fsync(stream.fileno())
        failpoint("archive.written")
        os.rename(temporary, file)
        sync(file.parent)
    except OSError as problem:
        raise cannot_write(file, problem) from problem
    finally:
        temporary.unlink(missing_ok=True)


@dataclass(slots=True)
class Writer:
    """Members one after the other; each is hashed on the way."""

    _packed: zipfile.ZipFile
    _cancel: Cancel
    facts: dict[str, Any] = field(default_factory=dict)
    """What the manifest says beside the members."""
    members: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, name: str, pieces: Iterable[bytes]) -> str:
        """Returns the member's sha256."""
        sha256, size = hashlib.sha256(), 0
        info = zipfile.ZipInfo(name, time.gmtime()[:6])
        info.compress_type = zipfile.ZIP_DEFLATED
        info.external_attr = (stat.S_IFREG | 0o600) << 16
        with self._packed.open(info, "w", force_zip64=True) as member:
            for piece in pieces:
                self._cancel.check()
                sha256.update(piece)
                size += len(piece)
                member.write(piece)
        failpoint("archive.member")
        self.members[name] = {"bytes": size, "sha256": sha256.hexdigest()}
        return sha256.hexdigest()

    def add_text(self, name: str, text: str) -> None:
        self.add(name, [text.encode()])

    def add_lines(self, name: str, rows: Iterable[Mapping[str, Any]]) -> int:
        """Rows as JSON lines. Returns how many."""
        counted = 0

        def lines() -> Iterator[bytes]:
            nonlocal counted
            for counted, row in enumerate(rows, 1):  # noqa: B007 - it is what is returned
                yield json.dumps(row, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"

        self.add(name, _in_pieces(lines()))
        return counted

    def add_file(self, name: str, file: BinaryIO) -> str:
        return self.add(name, iter(lambda: file.read(_PIECE), b""))

    def seal(self) -> None:
        manifest = json.dumps({**self.facts, "members": self.members}, ensure_ascii=False, indent=1).encode()
        self._packed.writestr(MANIFEST, manifest)
        packed = self._packed.getinfo(MANIFEST).compress_size
        if len(manifest) > _largest_manifest(self.members, packed):  # it could not be read again
            raise TooLarge(f"{len(self.members):,} members are more than an archive holds", hint="export its projects")


class Archive:
    """An archive that is read. Opening it looks at its table of contents alone; `verify` reads all of it."""

    def __init__(self, file: Path, kind: str, version: int) -> None:
        self._file = file
        try:
            self._stream = file.open("rb")
        except FileNotFoundError:
            raise NotFound(f"no file {file}", hint="check the path") from None
        except OSError as problem:
            raise UserError(f"cannot read {file}: {problem.strerror}", hint="check the path") from problem
        try:
            with self._troubles():
                self._packed = zipfile.ZipFile(self._stream)
                self._infos = {info.filename: info for info in self._packed.infolist()}
            self._require_plain()
            with self._troubles():
                self.facts = self._manifest(kind, version)
            self._require_fit()
        except BaseException:
            self._stream.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._packed.close()
        self._stream.close()

    @property
    def size(self) -> int:
        """Of all members, unpacked."""
        return sum(info.file_size for info in self._infos.values())

    def names(self, folder: str = "") -> list[str]:
        return [name for name in self._infos if name.startswith(folder) and name != MANIFEST]

    def __contains__(self, name: str) -> bool:
        return name in self._infos

    def verify(self, cancel: Cancel) -> Iterator[int]:
        """Compare every member with its checksum; how many are as they should be so far."""
        for done, (name, expected) in enumerate(self.facts["members"].items()):
            yield done
            sha256 = hashlib.sha256()
            for piece in self.pieces(name):
                cancel.check()
                sha256.update(piece)
            if sha256.hexdigest() != expected["sha256"]:
                raise self._damaged(f"{name} is not what the manifest says")

    def pieces(self, name: str) -> Iterator[bytes]:
        with self._troubles(), self._packed.open(self._infos[name]) as member:
            while piece := member.read(_PIECE):
                yield piece

    def lines(self, name: str) -> Iterator[dict[str, Any]]:
        """A member of JSON lines; each is an object."""
        with self._troubles(), self._packed.open(self._infos[name]) as member:
            yield from self._objects(member, name)

    def text(self, name: str, limit: int = 10 * MB) -> str:
        """Read in pieces: asked for all at once, the library unpacks more than the size that was promised."""
        if self._infos[name].file_size > limit:
            raise self._damaged(f"{name} is larger than it can be")
        with self._troubles():
            return b"".join(self.pieces(name)).decode()

    def _objects(self, member: IO[bytes], name: str) -> Iterator[dict[str, Any]]:
        while line := member.readline(_LONGEST_LINE):
            row = json.loads(line.decode("utf-8", "surrogatepass"))
            if not isinstance(row, dict):
                raise self._damaged(f"a line of {name} is no object")
            yield row

    def _require_plain(self) -> None:
        """What its table of contents tells: none of its members could go astray or be a bomb. Nothing is unpacked."""
        if MANIFEST not in self._infos:
            raise self._foreign()
        if len(self._packed.infolist()) != len(self._infos):
            raise self._damaged("some of its members have the same name")
        for name, info in self._infos.items():
            mode = stat.S_IFMT(info.external_attr >> 16)
            if not is_safe(name) or info.flag_bits & 1 or mode not in (0, stat.S_IFREG):
                raise self._damaged(f"{name!r} is no plain file with a plain name")
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise self._damaged(f"{name} is packed in a way that we do not use")
        size = self._file.stat().st_size
        if self.size > max(_UNPACKED_AT_LEAST, _UNPACKED * size):
            raise self._damaged(f"it would unpack to {size_text(self.size)}")
        manifest = self._infos[MANIFEST]
        if manifest.file_size > _largest_manifest(self._infos, min(size, manifest.compress_size)):
            raise self._damaged(f"its manifest would unpack to {size_text(manifest.file_size)}")

    def _manifest(self, kind: str, version: int) -> dict[str, Any]:
        facts = json.loads(self.text(MANIFEST, _LARGEST_MANIFEST))
        if not isinstance(facts, dict) or facts.get("format") != kind:
            raise self._foreign()
        if not isinstance(facts.get("version"), int) or not isinstance(facts.get("members"), dict):
            raise self._damaged("its manifest lacks what it must say")
        if facts["version"] > version:
            raise StoreError(
                f"{self._file} was made by a newer ragforge ({kind} {facts['version']}, this one knows {version})",
                hint="update ragforge: pip install -U ragforge",
            )
        return facts

    def _require_fit(self) -> None:
        """The members are those of the manifest, of the size it says."""
        members = self.facts["members"]
        if set(members) != set(self.names()):
            raise self._damaged("its members are not those that its manifest names")
        for name in members:
            if not _is_member(members[name], self._infos[name].file_size):
                raise self._damaged(f"{name} has another size than its manifest says")

    @contextmanager
    def _troubles(self) -> Iterator[None]:
        try:
            yield
        except _UNREADABLE as problem:
            raise self._damaged(str(problem) or "it cannot be unpacked") from problem

    def _damaged(self, why: str) -> CorruptStore:
        return CorruptStore(
            f"{self._file} is damaged: {why}", hint="take another copy of it; nothing of it was taken over"
        )

    def _foreign(self) -> UserError:
        return UserError(
            f"{self._file} is not what is wanted here",
            hint="`restore` takes what `backup` made, and `import` what `export` made",
        )


def is_safe(name: str) -> bool:
    """Whether it names a file below the folder it is put in, on any system."""
    parts = name.split("/")
    return (
        0 < len(name) < 1000
        and all(part not in ("", ".", "..") and part == part.strip(" ") for part in parts)
        and not any(character in '\\:*?"<>|' or ord(character) < 32 or ord(character) == 127 for character in name)
    )


def _largest_manifest(names: Iterable[str], packed: int) -> int:
    """What the members' lines need, and room for what has no member, such as files whose bytes were lost."""
    lines = sum(len(name.encode()) + _MANIFEST_LINE for name in names)
    return min(_LARGEST_MANIFEST, lines + max(_MANIFEST_ROOM, _MANIFEST_UNPACKED * packed))


def _is_member(expected: Any, size: int) -> bool:
    return isinstance(expected, dict) and expected.get("bytes") == size and isinstance(expected.get("sha256"), str)


def _in_pieces(lines: Iterable[bytes]) -> Iterator[bytes]:
    held: list[bytes] = []
    size = 0
    for line in lines:
        held.append(line)
        size += len(line)
        if size >= _PIECE:
            yield b"".join(held)
            held, size = [], 0
    yield b"".join(held)


def _sweep(file: Path) -> None:
    for left in file.parent.glob(f".{_escaped(file.name)}.*.unfinished"):
        try:
            if time.time() - left.stat().st_mtime > _FORGOTTEN_SECONDS:
                left.unlink()
        except OSError:  # another was quicker, or it is not ours
            continue


def _escaped(name: str) -> str:
    return "".join(f"[{character}]" if character in "*?[" else character for character in name)
