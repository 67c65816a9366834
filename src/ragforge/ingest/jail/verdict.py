"""How a child ended, as an answer for people."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from ragforge.domain.documents import Parsed, ParseFailure, Reason
from ragforge.ingest.jail import frames
from ragforge.ingest.jail.limits import Limits

_SMALLER = "split the file into smaller ones"


@dataclass(frozen=True, slots=True)
class Ending:
    """What the launcher tells of a child."""

    code: int = 0
    """The exit code, or the signal that ended it as a negative number."""
    stopped: str = ""
    """Why the launcher ended it; empty if it did not."""
    cpu: float = 0.0
    memory: int = 0
    error: str = ""
    """Why no child was started."""


def verdict(ending: Ending, frame: bytes | bytearray, limits: Limits) -> Parsed | ParseFailure:
    """The child's own answer if it gave one, else why not."""
    if ending.error:
        return ParseFailure(Reason.CRASHED, f"the parser could not be loaded ({ending.error})", "reinstall ragforge")
    if ending.stopped == "wall":
        return out_of_time(limits.wall_seconds)
    if ending.stopped == "memory":
        return out_of_memory(limits)
    if ending.code == 0:
        try:
            return frames.decode(frame, limits.output_characters)
        except ValueError as problem:
            return ParseFailure(Reason.CRASHED, f"the parser gave no readable answer ({problem})", "report the file")
    name = _name(ending.code)
    if name == "SIGXCPU" or ending.cpu >= limits.cpu_seconds:
        return out_of_time(limits.cpu_seconds)
    # The system ends the largest process when memory runs out; a library may abort instead of raising.
    if name == "SIGKILL" or ending.memory > limits.memory_bytes // 2:
        return out_of_memory(limits)
    return ParseFailure(Reason.CRASHED, f"the parser crashed ({name})", "save the file anew or convert it to PDF")


def out_of_time(seconds: float) -> ParseFailure:
    return ParseFailure(Reason.TIMEOUT, f"parser exceeded {seconds:g} s", _SMALLER)


def out_of_memory(limits: Limits) -> ParseFailure:
    return ParseFailure(Reason.MEMORY, f"parser exceeded {limits.memory_bytes // 1_000_000} MB of memory", _SMALLER)


def too_large(limits: Limits) -> ParseFailure:
    return ParseFailure(Reason.TOO_LARGE, f"more than {limits.output_bytes // 1_000_000} MB of text", _SMALLER)


def _name(code: int) -> str:
    if code > 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
