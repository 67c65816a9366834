"""The manifest: what an index is made of. It is read as if someone else had written it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

import numpy as np

from ragforge.adapters.segments.rows import Mask, places_of
from ragforge.domain.retrieval import Keys

Facts: TypeAlias = Mapping[str, int]

SEGMENT_NAME = re.compile(r"[0-9a-f]{16}")

_FORMAT = 1
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_DEAD_SHARE = 0.25
"""A segment with more dead rows than this is written again."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of a segment as it was written."""

    name: str
    size: int
    sha256: str
    mtime_ns: int


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """A segment as the manifest knows it."""

    name: str
    rows: int
    files: tuple[StoredFile, ...]
    facts: Facts
    """What its engine needs to read it."""
    dead: Mask | None = None
    """Which rows were removed; None: none."""

    @property
    def living(self) -> Mask | None:
        """Which rows were not removed; None: all are left."""
        return None if self.dead is None else ~self.dead

    @property
    def count(self) -> int:
        """How many rows were not removed."""
        return self.rows if self.dead is None else self.rows - int(np.count_nonzero(self.dead))

    @property
    def mostly_dead(self) -> bool:
        return self.count < (1 - _DEAD_SHARE) * self.rows

    def without(self, keys: Keys, gone: Keys) -> Record:
        """The same with these of its keys (both ascending) dead; the very same if none of them lives in it."""
        if not len(gone) or not len(keys) or gone[0] > keys[-1] or gone[-1] < keys[0]:
            return self
        places, there = places_of(keys, gone)
        places = places[there]
        if self.dead is not None:
            places = places[~self.dead[places]]
        if not len(places):
            return self
        dead = np.zeros(self.rows, dtype=np.bool_) if self.dead is None else self.dead.copy()
        dead[places] = True
        return replace(self, dead=dead)


@dataclass(frozen=True, slots=True, eq=False)
class Manifest:
    """One state of an index."""

    fingerprint: str
    watermark: int
    epoch: int
    """Grows whenever files leave the index."""
    segments: tuple[Record, ...] = ()

    def dump(self) -> bytes:
        body = {
            "format": _FORMAT,
            "fingerprint": self.fingerprint,
            "watermark": self.watermark,
            "epoch": self.epoch,
            "segments": [
                {
                    "name": segment.name,
                    "rows": segment.rows,
                    "files": [[file.name, file.size, file.sha256, file.mtime_ns] for file in segment.files],
                    "facts": dict(segment.facts),
                    "dead": ""
                    if segment.dead is None
                    else base64.b64encode(np.packbits(segment.dead).tobytes()).decode(),
                }
                for segment in self.segments
            ],
        }
        return json.dumps({"manifest": body, "sha256": _checksum(body)}).encode()

    @staticmethod
    def load(data: bytes) -> Manifest:
        """Read what `dump` wrote. Raises `ValueError` for anything else, whatever it claims."""
        whole = _typed(dict, json.loads(data))
        body = _typed(dict, whole.get("manifest"))
        if body.get("format") != _FORMAT:
            raise ValueError("it has another format")
        if whole.get("sha256") != _checksum(body):
            raise ValueError("its checksum is wrong")
        segments = tuple(_record(segment) for segment in _typed(list, body.get("segments")))
        if len({segment.name for segment in segments}) != len(segments):
            raise ValueError("it names a segment twice")
        return Manifest(
            fingerprint=_typed(str, body.get("fingerprint")),
            watermark=_typed(int, body.get("watermark")),
            epoch=_natural(body.get("epoch")),
            segments=segments,
        )


def _checksum(body: object) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


_T = TypeVar("_T")


def _typed(kind: type[_T], value: object) -> _T:
    if type(value) is not kind:  # a bool is no number
        raise ValueError(f"it holds {type(value).__name__} in place of {kind.__name__}")
    return value


def _natural(value: object, limit: int = 1 << 62) -> int:
    number = _typed(int, value)
    if not 0 <= number <= limit:
        raise ValueError(f"it holds the number {number}")
    return number


def _named(pattern: re.Pattern[str], value: object) -> str:
    name = _typed(str, value)
    if not pattern.fullmatch(name):
        raise ValueError(f"it holds the name {name!r}")
    return name


def _record(value: object) -> Record:
    entry = _typed(dict, value)
    rows = _natural(entry.get("rows"), 1 << 31)
    return Record(
        name=_named(SEGMENT_NAME, entry.get("name")),
        rows=rows,
        files=tuple(_stored_file(file) for file in _typed(list, entry.get("files"))),
        facts={_typed(str, name): _natural(fact) for name, fact in _typed(dict, entry.get("facts")).items()},
        dead=_dead(_typed(str, entry.get("dead")), rows),
    )


def _stored_file(value: object) -> StoredFile:
    entry = _typed(list, value)
    if len(entry) != 4:
        raise ValueError("it describes a file wrongly")
    name, size, sha256, mtime_ns = entry
    return StoredFile(_named(_FILE_NAME, name), _natural(size), _named(_SHA256, sha256), _natural(mtime_ns))


def _dead(text: str, rows: int) -> Mask | None:
    if not text:
        return None
    packed = np.frombuffer(base64.b64decode(text, validate=True), dtype=np.uint8)
    if len(packed) != (rows + 7) // 8:
        raise ValueError("it marks more rows than there are")
    return np.unpackbits(packed, count=rows).astype(np.bool_)
