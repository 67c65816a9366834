"""Names of stored bytes: `{owner}/{date}/{random}`. A client's file name is no part of them."""

from __future__ import annotations

import re
import secrets

from ragforge.errors import StoreError
from ragforge.ports import Clock

_KEY = re.compile(r"[a-z0-9]+/\d{4}-\d{2}-\d{2}/[0-9a-f]{32}")


def new_key(owner: str, clock: Clock) -> str:
    return f"{owner}/{clock():%Y-%m-%d}/{secrets.token_hex(16)}"


def is_key(name: str) -> bool:
    return _KEY.fullmatch(name) is not None


def checked(key: str) -> str:
    """The same key; refused if it could name anything else."""
    if not is_key(key):
        raise StoreError(f"not a stored file's name: {key!r}")
    return key
