"""Records as JSON and back: the same fields for the command line, the servers and their clients.

Whoever calls with a key does not learn where things lie on the server: of a path there is only its last name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from ragforge.domain.plain import HIDDEN, decode, encode, json_text

__all__ = ["HIDDEN", "decode", "encode", "json_text", "placeless", "without_folders"]

_PATHS = frozenset({"key", "source", "folder", "file", "path"})
"""Fields that may hold a path: of a source, of a passage, of a set of questions, of what a job was asked for."""
_PROSE = frozenset({"message", "hint", "error", "detail", "notice", "notices"})
"""Fields in which we tell something in words, perhaps about a file of the server."""
_NAME = r"""[^/\s'"“”,;()](?:[^/\n'"“”,;()]*[^/\s'"“”,;()])?"""
_FOLDERS = re.compile(rf"""(?<![\w.:/}}])(?:/(?!v1/)(?:{_NAME}/)+(?=[^\s/])|[A-Za-z]:\\(?:[^\\\n'"“”]+\\)+)""")
"""What comes before the last name of an absolute path, also with spaces; not of a path of ours over HTTP."""


def placeless(value: object) -> Any:
    """A record as JSON, without the folders of the server. What documents and people say stays as it is."""
    return _placeless(encode(value))


def without_folders(text: str) -> str:
    """A sentence in which absolute paths are cut to their last name."""
    return _FOLDERS.sub("", text)


def _placeless(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _field(name, item) for name, item in value.items()}
    return [_placeless(item) for item in value] if isinstance(value, list) else value


def _field(name: str, value: Any) -> Any:
    if isinstance(value, str):
        if name == "owner":  # of a job: host and process of who does it
            return value.rpartition("/")[2]
        if name in _PATHS and PurePath(value).is_absolute():
            return PurePath(value).name
        return without_folders(value) if name in _PROSE else value
    if name in _PROSE and isinstance(value, list):
        return [without_folders(each) if isinstance(each, str) else _placeless(each) for each in value]
    return _placeless(value)
