"""The documentation is run: its commands in order, its Python, its links, and the names it uses."""

from __future__ import annotations

import io
import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from ragforge import Ragforge
from ragforge.domain.documents import Parsed
from ragforge.domain.migration import without_password
from ragforge.ingest.parse import registry
from ragforge.interfaces.cli.main import build, main
from ragforge.settings import load
from ragforge.testing.postgres import TemporaryPostgres
from tests.serving import serving

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "src" / "ragforge" / "samples"
GENERATED = ROOT / "docs" / "reference"
PAGES = sorted(
    page
    for page in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
    if GENERATED not in page.parents  # its own test compares it with the code
)
HOME = "/home/you"
COPIES_SAMPLES = "cp -r src/ragforge/samples documents"
PULLS_MODEL = "ragforge models pull minilm"
ADDRESS = "http://127.0.0.1:8600"
"""Where a server listens unless told otherwise; here it takes a free port."""
DATABASE = "postgresql://ragforge@localhost/ragforge"
MOST_NOT_RUN = 10
RUN = ("python", "console", "sh")
"""The languages of blocks that are run."""
READ = ("toml", "json", "markdown", "text")
"""Those that are only looked at: settings, data, documents, and what cannot be run here."""
NOTHING_TO_RUN = {"change-the-prompt", "container", "serve", "several-machines", "streams", "systemd", "web-page"}
"""How-tos that show only what a test cannot do, or what other tests do."""

_BLOCK = re.compile(
    r"(?:^<!-- not run: (?P<why>.+?) -->\n)?^```(?P<language>\w*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL
)
_INTO = " | ragforge "
_CODE = re.compile(r"`([^`]+)`")
_MENTION = re.compile(r"ragforge ([a-z].*)")
_ELSEWHERE = re.compile(r"(?:^\$ (?:\w+=\S+ )*|\bas_|\bragforge |/bin/)ragforge ([a-z-].*)$", re.MULTILINE)
"""Commands for another machine: in a terminal, by the function for the service's user, in a container by its name."""
_LINK = re.compile(r"(?<!\\)\]\(([^)\s]+)\)")
_CHANGING = re.compile(r"\b[0-9a-f]{8,16}\b|\d[\d,.]*|\bjust now\b|\b[KMG]?B\b|\b(?:minilm|wordllama)\b")


@dataclass(frozen=True)
class Block:
    """A block of code in a page."""

    language: str
    body: str
    line: int
    not_run: str


@dataclass(frozen=True)
class Step:
    """A command of a page, and what the page says it shows."""

    command: str
    shown: tuple[str, ...]


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for match in _BLOCK.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        yield Block(match["language"], match["body"], line, match["why"] or "")


def steps(block: Block) -> Iterator[Step]:
    """The commands of a `console` block with their output; every line of an `sh` block is one."""
    if block.language == "sh":
        for line in block.body.splitlines():
            if command := line.split(" #")[0].strip():
                yield Step(command, ())
        return
    first, *rest = re.split(r"^\$ ", block.body, flags=re.MULTILINE)
    assert not first, f"line {block.line}: a console block begins with a command"
    for piece in rest:
        command, *shown = piece.rstrip("\n").split("\n")
        yield Step(command, tuple(line for line in shown if line.strip()))


class Reader:
    """A person who follows a page from top to bottom, in a folder of their own."""

    def __init__(self, folder: Path, page: Path) -> None:
        self.folder = folder
        self.page = page
        self.names: dict[str, Any] = {"__name__": "__documentation__"}
        self.code = 0
        self.done = 0
        """Blocks of Python, and commands."""
        self.address = ADDRESS
        """Where the server really is that the page has started."""
        self.database = DATABASE
        """Where the database really is that the page names in its commands."""

    def follow(self) -> None:
        with ExitStack() as self.running:
            self.follow_blocks()

    def follow_blocks(self) -> None:
        for block in blocks(self.page):
            where = f"{self.page.relative_to(ROOT)}:{block.line}"
            if block.not_run:
                continue
            if block.language == "python":
                exec(compile(block.body.replace(ADDRESS, self.address), where, "exec"), self.names)
                self.done += 1
            elif block.language in RUN:
                for step in steps(block):
                    self.do(step, where)
                    self.done += 1
                self.expect(0, where)

    def do(self, step: Step, where: str) -> None:
        """Run one command. It ends well, unless the page asks for its exit code next."""
        if step.command == "echo $?":
            assert step.shown == (str(self.code),), f"{where}: exit code {self.code}"
            self.code = 0
            return
        self.expect(0, where)
        fed, _, piped = step.command.partition(_INTO)
        words = shlex.split(step.command if not piped else f"ragforge {piped}")
        if piped:
            self.code, output = run(words[1:], self.called(fed, where))
        elif words[0] == "curl":
            output = self.called(step.command, where).replace(self.address, ADDRESS)
        elif words[0] != "ragforge":
            self.called(step.command, where)
            return
        elif words[1] == "serve":
            self.address = self.running.enter_context(serving(self.running.enter_context(Ragforge.open())))
            return
        else:
            self.code, output = run([word.replace(DATABASE, self.database) for word in words[1:]])
            output = output.replace(without_password(self.database), DATABASE)
        actual = output.replace(str(self.folder), HOME).splitlines()
        for line in step.shown:
            pattern = as_pattern(line)
            assert any(pattern.fullmatch(squeeze(found)) for found in actual), (
                f"{where}: {step.command}\nnot shown: {line}\nbut:\n{output}"
            )
        self.output = output

    def called(self, command: str, where: str) -> str:
        """What another program prints."""
        command = command.replace(ADDRESS, self.address)
        done = subprocess.run(command, shell=True, cwd=self.folder, capture_output=True, text=True)
        assert done.returncode == 0, f"{where}: {command}: {done.stderr}"
        return done.stdout

    def expect(self, code: int, where: str) -> None:
        assert self.code == code, f"{where}: exit code {self.code}\n{self.output}"


def run(arguments: list[str], fed: str = "") -> tuple[int, str]:
    """Run the command line in this process, with this on its standard input; its exit code and all it printed."""
    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    before = sys.stdin, sys.stdout, sys.stderr
    sys.stdin = io.TextIOWrapper(io.BytesIO(fed.encode()), encoding="utf-8")
    sys.stdout = sys.stderr = printed
    try:
        code = main(arguments)
    finally:
        sys.stdin, sys.stdout, sys.stderr = before
    return code, printed.buffer.getvalue().decode()


def squeeze(line: str) -> str:
    return " ".join(line.split())


def as_pattern(line: str) -> re.Pattern[str]:
    """A shown line: its words count; ids, numbers, sizes and times may differ, and `…` stands for anything."""
    parts = []
    for piece in squeeze(line).split("…"):
        fixed = [re.escape(part) for part in _CHANGING.split(piece)]
        parts.append(r"(?:[\w.,]+|just now|\d+ min ago)".join(fixed))
    return re.compile(".*".join(parts), re.DOTALL)


@pytest.fixture
def home(tmp_path: Path, models: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with nothing in it but a way to the samples."""
    for name in [name for name in os.environ if name.startswith("RAGFORGE_")]:
        monkeypatch.delenv(name)
    (tmp_path / "src").symlink_to(ROOT / "src")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("RAGFORGE_MODELS", str(models))
    monkeypatch.setenv("RAGFORGE_EMBED__MODEL", "wordllama")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def copy_samples(target: Path) -> None:
    """Those whose parsers load quickly; a page that wants all copies them itself."""
    shutil.copytree(SAMPLES, target, ignore=shutil.ignore_patterns("__pycache__", "*.docx", "*.pptx", "*.pdf"))


PAGES_TO_RUN = [page for page in PAGES if any(block.language in RUN and not block.not_run for block in blocks(page))]


@pytest.mark.parametrize("page", PAGES_TO_RUN, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_does_what_it_says(
    page: Path, home: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    text = page.read_text(encoding="utf-8")
    if COPIES_SAMPLES not in text:
        copy_samples(home / "documents")
    if PULLS_MODEL in text:  # so its reader has the better model, and finds what that finds
        monkeypatch.delenv("RAGFORGE_EMBED__MODEL")
    reader = Reader(home, page)
    if DATABASE in text:
        server: TemporaryPostgres = request.getfixturevalue("postgres")
        reader.database = server.create()
        if f"--to {DATABASE}" not in text:
            monkeypatch.setenv("RAGFORGE_STORE__DATABASE_URL", reader.database)
    reader.follow()
    assert reader.done


def test_a_how_to_runs_unless_it_is_known_why_not() -> None:
    not_run = {page.stem for page in PAGES if page.parent.name == "howto" and page not in PAGES_TO_RUN}
    assert not_run == NOTHING_TO_RUN


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_settings_and_data_can_be_read(page: Path, tmp_path: Path) -> None:
    for block in blocks(page):
        where = f"{page.relative_to(ROOT)}:{block.line}"
        assert block.language in (*RUN, *READ), f"{where}: a block says what it is"
        if block.language == "toml":
            (tmp_path / "ragforge.toml").write_text(block.body)
            read = load(tmp_path, env={}, folder=tmp_path)
            assert any(origin != "default" for key, origin in read.origins.items() if key != "workspace"), where
        elif block.language == "json":
            json.loads(block.body)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in _LINK.findall(page.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{page.name}: {link}"
        assert not anchor or anchor in anchors(target), f"{page.name}: {link}"


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_and_option_exists(page: Path) -> None:
    for words in mentioned(page):
        assert not unknown_words(words), f"{page.name}: ragforge {shlex.join(words)}"


def mentioned(page: Path) -> Iterator[list[str]]:
    """What stands behind `ragforge` in commands: in sentences, in what is run, in what is only shown, in settings of
    other programs."""
    for block in blocks(page):
        if block.language in ("console", "sh"):
            for step in steps(block):
                if found := re.search(r"(?:^|\| )(?:\w+=\S+ )*ragforge (.*)", step.command):
                    yield shlex.split(found[1])
        elif block.language == "text":
            yield from map(shlex.split, _ELSEWHERE.findall(block.body))
        elif block.language == "json":
            yield from commands_of(json.loads(block.body))
    for code in map(squeeze, _CODE.findall(_BLOCK.sub("", page.read_text(encoding="utf-8")))):
        if found := _MENTION.fullmatch(code) or _ELSEWHERE.search(code):
            yield shlex.split(found[1])


def commands_of(data: Any) -> list[list[str]]:
    """The arguments of ragforge wherever it is the command of a program's settings."""
    if isinstance(data, list):
        return [words for each in data for words in commands_of(each)]
    if not isinstance(data, dict):
        return []
    own = [data.get("args", [])] if data.get("command") == "ragforge" else []
    return own + commands_of(list(data.values()))


def test_commands_are_found_wherever_they_stand() -> None:
    found = {page.stem: list(mentioned(page)) for page in PAGES}
    assert ["keys", "new", "me", "--role", "admin"] in found["container"]
    assert ["restore", "/data/monday.zip", "--replace"] in found["container"]
    assert ["models", "pull", "minilm"] in found["systemd"] and ["doctor"] in found["systemd"]
    assert ["serve"] in found["serve"] and ["jobs", "ls"] in found["serve"]
    assert ["mcp", "--workspace", "/home/you/ragforge"] in found["mcp"]
    assert unknown_words(["jobs", "nap"]) == ["nap"]
    assert unknown_words(["keys", "new", "me", "--colour"]) == ["--colour"]


@cache
def commands() -> Any:
    return typer.main.get_command(build())


def unknown_words(words: list[str]) -> list[str]:
    """Those options of a command line, or the command itself, that the program does not have."""
    command = commands()
    options = {name for parameter in command.params for name in parameter.opts}
    unknown = []
    for word in words:
        if word.startswith("-"):
            unknown += [] if word.split("=")[0] in options | {"--help"} else [word]
        elif hasattr(command, "commands") and "=" not in word:
            try:
                _, command, _ = command.resolve_command(typer.Context(command), [word])
            except typer.TyperException:
                return [*unknown, word]
            options |= {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    return unknown


def test_few_blocks_are_not_run() -> None:
    assert sum(bool(block.not_run) for page in PAGES for block in blocks(page)) <= MOST_NOT_RUN


def test_every_page_is_linked() -> None:
    linked = {
        (page.parent / link.partition("#")[0]).resolve()
        for page in PAGES
        for link in _LINK.findall(page.read_text(encoding="utf-8"))
    }
    assert {page for page in PAGES if page not in linked} <= {ROOT / "README.md"}


def test_examples_run(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for example in sorted((ROOT / "examples").glob("*.py")):
        runpy.run_path(str(example), run_name="__main__")
    assert "erased: True" in capsys.readouterr().out


def test_samples_are_what_their_sources_say() -> None:
    """Made anew, the binary samples read the same as those that are shipped."""
    tool = runpy.run_path(str(ROOT / "tools" / "make_samples.py"))
    for name, write in tool["WRITERS"].items():
        file = SAMPLES / f"{name}.{write.__name__}"
        parser = "pdf" if file.suffix == ".pdf" else "office"
        made = write((ROOT / "tools" / "samples" / f"{name}.md").read_text(encoding="utf-8"))
        shipped = registry.run(parser, file.read_bytes(), file.name)
        assert isinstance(shipped, Parsed) and registry.run(parser, made, file.name) == shipped
