"""Markdown files with a small header, such as personas and outlines: the shipped ones, and a folder of the user's own.

    ---
    profile: balanced
    ---
    The text.

A file of the user's own replaces the shipped one of the same name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from ragforge.errors import NotFound, UserError

MOST_BYTES = 64_000
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_FENCE = "---"


@dataclass(frozen=True, slots=True)
class Headed:
    """A file as it was read: `key: value` lines, and the text below them."""

    path: Path
    header: Mapping[str, str]
    body: str

    @property
    def name(self) -> str:
        return self.path.stem

    def problem(self, message: str, hint: str) -> UserError:
        """What is wrong with the file, said with its path."""
        return UserError(f"{self.path}: {message}", hint=hint)

    def number(self, key: str, usual: float, least: float, most: float) -> float:
        """A number of the header within its bounds."""
        text = self.header.get(key)
        if text is None:
            return usual
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not least <= value <= most:
            raise self.problem(f"{key} is {text!r}", f"write a number from {least:g} to {most:g}")
        return value

    def choice(self, key: str, usual: str, choices: Collection[str]) -> str:
        """One of several words."""
        value = self.header.get(key, usual)
        if value not in choices:
            raise self.problem(f"{key} is {value!r}", f"use one of: {', '.join(choices)}")
        return value


def names(shipped: Path, own: Path | None) -> list[str]:
    """What the files are called, without their ending."""
    return sorted(_files(shipped, own))


def read(name: str, shipped: Path, own: Path | None, keys: Collection[str], what: str) -> Headed:
    """The file of that name, with no key in its header but these."""
    files = _files(shipped, own)
    if name not in files:
        raise NotFound(f"no {what} {name!r}", hint=f"there are: {', '.join(sorted(files))}")
    return parsed(files[name], _text(files[name]), keys)


def parsed(path: Path, text: str, keys: Collection[str]) -> Headed:
    """Header and body of a text. The header may be missing."""
    lines = text.lstrip("\ufeff").replace("\r\n", "\n").split("\n")
    header: dict[str, str] = {}
    if lines[0].rstrip() == _FENCE:
        for number, line in enumerate(lines[1:], start=2):
            if line.rstrip() == _FENCE:
                return Headed(path, header, "\n".join(lines[number:]).strip())
            key, colon, value = (part.strip() for part in line.partition(":"))
            if key.startswith("#") or not (key or colon):
                continue
            if not colon or not value:
                raise UserError(f"{path}, line {number}: {line.strip()!r} is no setting", hint="write key: value")
            if key not in keys:
                raise UserError(f"{path}, line {number}: unknown setting {key!r}", hint=f"known: {', '.join(keys)}")
            if key in header:
                raise UserError(f"{path}, line {number}: {key} is there twice", hint="keep one of them")
            header[key] = value
        raise UserError(f"{path}: the header has no end", hint="end it with a line of three dashes")
    return Headed(path, header, "\n".join(lines).strip())


def _files(shipped: Path, own: Path | None) -> dict[str, Path]:
    """By name; the user's own come last and so count. Other names, such as `README.md`, are left alone."""
    folders = [shipped, *([own] if own is not None and own.is_dir() else [])]
    return {path.stem: path for folder in folders for path in sorted(folder.glob("*.md")) if _NAME.fullmatch(path.stem)}


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise UserError(f"{path} is too large", hint=f"keep it under {MOST_BYTES // 1000} kB")
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as problem:
        raise UserError(f"{path} is not UTF-8", hint="save it as UTF-8") from problem
    except OSError as problem:
        raise UserError(f"cannot read {path}: {problem.strerror}", hint="check its permissions") from problem
