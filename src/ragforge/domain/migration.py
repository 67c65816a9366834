"""Moving the catalog to another database: what was copied, and how it is known to be the same there."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

SQLITE = "sqlite"
"""The name of the place in the workspace's own folder."""

CatalogRow = tuple[Any, ...]
"""The values of a row, in the order of its table's columns."""

_PASSWORD = re.compile(r"(?<=://)([^:/@]*):[^@]*@")
_PASSWORD_OPTION = re.compile(r"(?<=[?&])password=[^&]*&?")
_SCHEMES = ("postgresql", "postgres", "postgresql+psycopg")


class TargetState(StrEnum):
    """How far the place is to which a catalog is moved."""

    EMPTY = "empty"
    LEFT = "left"
    """A catalog was here that moved elsewhere."""
    COPYING = "copying"
    DIFFERS = "differs"
    """It was found not to be the same: it begins anew."""
    VERIFIED = "verified"
    SWITCHING = "switching"
    """The old catalog is closed; this one opens when the settings name it."""
    FINISHED = "finished"
    """A catalog that is in use."""


@dataclass(frozen=True, slots=True)
class Copied:
    """So many rows of a table, from its beginning, and their checksum."""

    rows: int = 0
    checksum: str = "0" * 64


def _digest(value: bytes) -> str:
    return hashlib.sha256(value).hexdigest()


_line = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_digest).encode


class Checksum:
    """Over rows in the order of their keys, the same from whichever database they come; it can be taken up again.

    Each row is a line of JSON, with the SHA-256 of bytes in their place. The checksum is the SHA-256 of the one before
    and the line.
    """

    def __init__(self, so_far: Copied = Copied()) -> None:  # noqa: B008 - it cannot change
        self._rows = so_far.rows
        self._digest = bytes.fromhex(so_far.checksum)

    def add(self, row: CatalogRow) -> int:
        """Returns how large it is, about."""
        line = _line(row).encode()
        self._digest = hashlib.sha256(self._digest + line).digest()
        self._rows += 1
        return len(line) + sum(len(value) for value in row if type(value) is bytes)

    @property
    def copied(self) -> Copied:
        return Copied(self._rows, self._digest.hex())


@dataclass(frozen=True, slots=True)
class CopiedTable:
    """A table that is the same in both databases."""

    name: str
    rows: int
    checksum: str


@dataclass(frozen=True, slots=True)
class MigrationReport:
    """A catalog that was moved, or that is there already."""

    source: str
    """`sqlite`, or an address without its password; empty if it was not looked at again."""
    target: str
    tables: tuple[CopiedTable, ...] = ()
    seconds: float = 0.0
    resumed: int = 0
    """Rows that an earlier run had copied."""
    switched: bool = True
    """The workspace uses the new one from now on; else it was only copied and verified."""
    already: bool = False
    """It was finished before."""
    kept: str = ""
    """Where the old catalog still is: a file, or the address of its database."""
    notices: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        return sum(table.rows for table in self.tables)


def without_password(address: str) -> str:
    """An address that can be shown and written down."""
    return _PASSWORD_OPTION.sub("", _PASSWORD.sub(r"\1@", address)).rstrip("?&")


def is_server(address: str) -> bool:
    scheme, separator, _ = address.partition("://")
    return bool(separator) and scheme in _SCHEMES


def is_same_place(one: str, other: str) -> bool:
    """Whether two addresses name one database, as far as they tell."""
    return _plain(one) == _plain(other)


def _plain(address: str) -> str:
    if not is_server(address):
        return address
    place = without_password(address).partition("://")[2]
    return re.sub(r":5432(?=/|$)", "", place, count=1)
