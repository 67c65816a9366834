"""One value of a settings file, changed by a program: everything else in it stays as people wrote it."""

from __future__ import annotations

import json
import os
import re
import stat
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ragforge.durable import sync
from ragforge.errors import UserError, cannot_write

_SECTION = re.compile(r"\s*\[")
_VALUE = r"\"(?:[^\"\\]|\\.)*\"|'[^']*'"
_MARK = "\ufeff"
"""With which some editors begin a file."""
_PRIVATE = 0o600


def with_value(text: str, key: str, value: str) -> str:
    """The text with `section.name` set to this; nothing sets it if the value is empty."""
    mark = _MARK if text.startswith(_MARK) else ""
    before = _read(text.removeprefix(mark))
    section, name = key.split(".")
    lines = [line for line in re.split(r"(?<=\n)", text.removeprefix(mark)) if line]
    first, end = _place_of(lines, section)
    place = next((at for at in range(first, end) if re.match(rf"\s*{name}\s*=", lines[at])), None)
    quoted = json.dumps(value, ensure_ascii=False)
    if place is not None:
        changed = re.sub(rf"({name}\s*=\s*)(?:{_VALUE})", lambda at: at[1] + quoted, lines[place], count=1)
        lines[place] = changed if value else ""
    elif value:
        _insert(lines, first, end, section, name, f"{name} = {quoted}")
    new = "".join(lines)
    try:
        after = tomllib.loads(new)
    except tomllib.TOMLDecodeError:
        after = {}
    if after != _expected(before, section, name, value):
        where = f"below a line [{section}] of its own"
        raise UserError(f"{key} is not written as a program can change it", hint=f"write it as {name} = … {where}")
    return mark + new


@contextmanager
def replacing(path: Path, text: str, *, private: bool = False) -> Iterator[Path]:
    """The new text, durable beside the file; `take_place` puts it there. Without that, nothing is left of it."""
    path = path.resolve()
    new = path.with_name(f".{path.name}.new")
    try:
        mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else _PRIVATE
        new.unlink(missing_ok=True)
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE), "wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        os.chmod(new, _PRIVATE if private else mode)
    except OSError as problem:
        raise cannot_write(path, problem) from problem
    try:
        yield new
    finally:
        new.unlink(missing_ok=True)


def take_place(new: Path, path: Path) -> None:
    """In one step, and for good."""
    path = path.resolve()
    try:
        os.replace(new, path)
        sync(path.parent)
    except OSError as problem:
        raise cannot_write(path, problem) from problem


def _place_of(lines: list[str], section: str) -> tuple[int, int]:
    """Where the lines of a section begin and end; at the end of the file if it has none."""
    header = re.compile(rf"\s*\[\s*{section}\s*\]")
    first = next((at for at, line in enumerate(lines, 1) if header.match(line)), len(lines))
    end = next((at for at in range(first, len(lines)) if _SECTION.match(lines[at])), len(lines))
    return first, end


def _insert(lines: list[str], first: int, end: int, section: str, name: str, written: str) -> None:
    """Below the comment that tells of it, else where its section begins."""
    line_end = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += line_end
    if first == len(lines) and not (lines and re.match(rf"\s*\[\s*{section}\s*\]", lines[-1])):
        lines += [line_end] if lines else []
        lines += [f"[{section}]{line_end}", f"{written}{line_end}"]
        return
    told = next((at for at in range(first, end) if re.match(rf"\s*#\s*{name}\s*=", lines[at])), first - 1)
    lines.insert(told + 1, f"{written}{line_end}")


def _read(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise UserError(f"the settings are not valid TOML: {problem}", hint="correct that line") from problem


def _expected(tables: dict[str, Any], section: str, name: str, value: str) -> dict[str, Any]:
    inside = {key: other for key, other in tables.get(section, {}).items() if key != name}
    if value:
        inside[name] = value
    return {**tables, section: inside} if inside or section in tables else tables
