"""`ragforge` as tests run it: in this process, against one workspace, with what it printed."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ragforge import Ragforge
from ragforge.interfaces.cli.main import main
from ragforge.settings import load


@dataclass(frozen=True)
class Done:
    """What a command printed."""

    stdout: str
    stderr: str


class Shell:
    """Runs `ragforge` against one workspace; `always` stands before every command."""

    def __init__(self, workspace: Path, capture: pytest.CaptureFixture[str], *always: str) -> None:
        self.workspace = workspace
        self._capture = capture
        self._always = always

    def with_options(self, *always: str) -> Shell:
        return Shell(self.workspace, self._capture, *self._always, *always)

    def run(self, *arguments: str, code: int = 0, stdin: str = "") -> Done:
        self._capture.readouterr()
        before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(stdin.encode("utf-8", "surrogateescape")))
        try:
            returned = main(["-w", str(self.workspace), *self._always, *arguments])
        finally:
            sys.stdin = before
        done = Done(*self._capture.readouterr())
        assert returned == code, f"{arguments}: {returned}\n{done}"
        return done

    def json(self, *arguments: str, code: int = 0, stdin: str = "") -> Any:
        (line,) = self.run(*arguments, "--json", code=code, stdin=stdin).stdout.splitlines()
        return json.loads(line)

    def json_lines(self, *arguments: str, code: int = 0, stdin: str = "") -> list[Any]:
        return [json.loads(line) for line in self.run(*arguments, "--json", code=code, stdin=stdin).stdout.splitlines()]

    def forge(self) -> Ragforge:
        return Ragforge.open(load(self.workspace, env={}, folder=self.workspace))


def fill_workspace(folder: Path, files: Mapping[str, str]) -> Path:
    """A workspace beside a folder of these files, added to it. No variable of this machine counts."""
    settings = load(folder / "workspace", flags={"the test": {"embed.model": "wordllama"}}, env={}, folder=folder)
    docs = folder / "docs"
    for name, text in files.items():
        (docs / name).parent.mkdir(parents=True, exist_ok=True)
        (docs / name).write_text(text, encoding="utf-8")
    with Ragforge.open(settings) as forge:
        assert not forge.add(docs).failed
    return folder / "workspace"


def bare_environment(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Nothing of this machine's settings, and a folder of one's own."""
    for name in [name for name in os.environ if name.startswith("RAGFORGE_") or name.endswith("_API_KEY")]:
        monkeypatch.delenv(name)
    for name in ("COLUMNS", "VISUAL", "EDITOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RAGFORGE_EMBED__MODEL", "wordllama")
    monkeypatch.chdir(folder)
