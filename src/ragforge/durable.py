"""What was written survives a power failure."""

from __future__ import annotations

import os
from pathlib import Path


def sync(path: Path) -> None:
    """Make a file's bytes, or the names in a folder, durable."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except PermissionError:  # Windows does not open folders
        return
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
