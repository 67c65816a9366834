"""How far one file may go."""

from __future__ import annotations

import sys
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """What one file may use. Memory is counted on top of what the loaded parser takes."""

    memory_bytes: int = 1 << 30
    cpu_seconds: int = 15
    wall_seconds: float = 18
    file_size_bytes: int = 0
    """No parser needs to write a file."""
    open_files: int = 128
    output_characters: int = 20_000_000
    output_bytes: int = 80_000_000
    watch_memory: bool = sys.platform != "linux"
    """Look at the child's memory many times a second, where the system does not bound it itself."""
