"""Local mode keeps each point as a pickle, which could run anything when it is read: look at every one before.

A point of ours is Qdrant's own class once, then numbers, strings and plain containers: nothing that could be called.
A row of words has a second class of Qdrant's in it, named by the module's name that stands first, and any short
strings.
"""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

from ragforge.errors import IndexLost

VECTOR = "v"
WORDS = "w"
STATE = "00000000-0000-0000-0000-000000000000"
"""The id of the point that says what its collection holds."""
LONGEST_STRING = 255
"""Bytes: of those a pickle keeps the length in one."""


def _text(*words: str) -> bytes:
    return b"\x8c(?:" + b"|".join(re.escape(bytes([len(word)]) + word.encode()) for word in words) + b")"


_NEW_OBJECT = rb"\x94\x93\x94\)\x81\x94"
_POINT_CLASS = _text("qdrant_client.http.models.models") + rb"\x94" + _text("PointStruct") + _NEW_OBJECT
_SPARSE_CLASS = rb"h\x00" + _text("SparseVector") + _NEW_OBJECT
_PYDANTIC = ("__dict__", "__pydantic_extra__", "__pydantic_fields_set__", "__pydantic_private__")
_NAMES = _text(
    *_PYDANTIC, "id", "vector", "payload", VECTOR, STATE, "document", "mark", "watermark", "dimension", "dead"
)
_ANY_STRING = rb"\x8c(?:" + b"|".join(rb"\x%02x.{%d}" % (size, size) for size in range(LONGEST_STRING + 1)) + b")"
_INTEGER = rb"K.|M..|J.{4}|\x8a(?:" + b"|".join(rb"\x%02x.{%d}" % (size, size) for size in range(1, 9)) + b")"
_PLAIN = rb"G.{8}|[()\]}Nabesu\x88\x89\x8f\x90\x94]|h.|j.{4}|\x95.{8}|" + _INTEGER
_VALUE = _PLAIN + rb"|\x8c\x40[0-9a-f]{64}|" + _NAMES
_BEGINNING = rb"\x80.\x95.{8}" + _POINT_CLASS

POINT = re.compile(_BEGINNING + rb"(?:" + _VALUE + rb")*+\.", re.DOTALL)
"""A row of vectors, or the state."""
WORDS_POINT = re.compile(
    _BEGINNING + rb"(?:" + _SPARSE_CLASS + rb"|" + _PLAIN + rb"|" + _ANY_STRING + rb")*+\.", re.DOTALL
)
"""A row of words, or the state."""


def refuse_foreign_files(folder: Path, name: str, known: re.Pattern[bytes]) -> None:
    """Raise `IndexLost` unless the folder holds nothing but points as this index writes them."""
    meta = folder / "meta.json"
    if not meta.exists():
        return
    collections = json.loads(meta.read_text(encoding="utf-8"))["collections"]
    if not all(re.fullmatch(rf"{re.escape(name)}\.\d{{1,9}}", one) for one in collections):
        raise IndexLost("the Qdrant folder holds another's collections")
    for path in (folder / "collection").glob("*/*"):
        if path.name not in ("storage.sqlite", "storage.sqlite-journal"):
            raise IndexLost("the Qdrant folder holds files that are not its own")
    for path in (folder / "collection").glob("*/storage.sqlite"):
        with closing(sqlite3.connect(path)) as storage:
            for (point,) in storage.execute("SELECT point FROM points"):
                if known.fullmatch(point) is None:
                    raise IndexLost("the Qdrant folder holds something that is no point of this index")
