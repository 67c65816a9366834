"""`project_state.json`: what a project holds, derived from the catalog so that people and other tools can read it."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ragforge.domain.library import Summary
from ragforge.errors import cannot_write

STATE_FILE = "project_state.json"
UNFINISHED = ".new"
"""How the name of a state file ends until it is whole."""


def project_state(summaries: Sequence[Summary], org_context: str) -> dict[str, Any]:
    """What a project holds. The keys are fixed; readers of the file depend on them."""
    return {
        "file_summaries": [
            {
                "filename": summary.name,
                "uploaded_at": summary.created_at.strftime("%Y-%m-%dT%H:%M:%S"),
                "summary": summary.text,
                "chunk_count": summary.chunks,
            }
            for summary in summaries
        ],
        "org_context": org_context,
    }


def state_text(state: Mapping[str, Any]) -> str:
    """The file's content."""
    return json.dumps(state, ensure_ascii=False, indent=2)


def write_if_changed(path: Path, content: str) -> bool:
    """Replace the file in one step. True if it was another before."""
    data = content.encode()
    with suppress(OSError):  # absent, or something else in its place
        if path.read_bytes() == data:
            return False
    beside = path.with_name(f"{path.name}.{secrets.token_hex(4)}{UNFINISHED}")  # others may be writing it too
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with beside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as problem:
        with suppress(OSError):
            beside.unlink()
        raise cannot_write(path, problem) from problem
    return True
