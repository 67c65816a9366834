"""The reference pages, made from the code: `python -m ragforge.interfaces.cli.reference docs/reference`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from ragforge import errors
from ragforge.interfaces.cli.main import EXIT_CODES, build
from ragforge.settings import FACTS, FILE_NAME, PROVIDER_KEYS, SECTIONS, default_text

_WIDTH = 100
_NOTE = "<!-- Made by `python -m ragforge.interfaces.cli.reference docs/reference`; edit the code instead. -->"


def pages() -> dict[str, str]:
    """Every page by its file name."""
    return {
        "cli.md": cli_page(),
        "settings.md": settings_page(),
        "errors.md": errors_page(),
        "openapi.json": http_schema(),
    }


def cli_page() -> str:
    """Each command with its help."""
    lines = [
        "# Commands",
        "",
        _NOTE,
        "",
        "Data goes to stdout, progress and messages to stderr. The common options may stand before or after the",
        "command; `--config`, `--set` and `--debug` too, though only the first help page lists them. With `--json`,",
        "`add`, `sync` and `watch` print one line per file as it becomes durable and a summary line, `chat` one per",
        "answer, `discover` one for the interview and one per message, `ask --stream` one per event; other commands",
        "print one object. Every exit code is listed in [errors](errors.md).",
    ]
    for context in contexts(get_command(build())):
        text = "\n".join(line.rstrip() for line in context.get_help().splitlines())
        lines += ["", f"## `{context.command_path}`", "", "```text", text, "```"]
    return "\n".join(lines) + "\n"


def contexts(command: Any, name: str = "ragforge", parent: typer.Context | None = None) -> Iterator[typer.Context]:
    """Each group and command of the tree, in its context; `commands` of a group may not be imported yet."""
    context = typer.Context(command, info_name=name, parent=parent, terminal_width=_WIDTH, **command.context_settings)
    yield context
    if isinstance(command, TyperGroup):
        for child_name in command.list_commands(context):
            _, child, _ = command.resolve_command(context, [child_name])
            yield from contexts(child, child_name, context)


def settings_page() -> str:
    """Each setting with its default, what it takes and its variable."""
    lines = [
        "# Settings",
        "",
        _NOTE,
        "",
        f"A later source wins: defaults, `{FILE_NAME}` in the workspace, the file of `--config`, `.env` in the current",
        "folder, `.env` in the workspace, the environment, flags (`--set section.name=value`).",
        "`ragforge config show` prints every value and where it came from. Settings marked ◆ are not taken from the",
        "`.env` of the current folder, because that may be anybody's folder. MB are millions of bytes, MiB are",
        "1,048,576. The workspace is `--workspace`, `RAGFORGE_WORKSPACE` or `~/ragforge`.",
        "",
        "Keys of providers are read from the environment or a `.env` file and never shown: "
        + ", ".join(f"`{name}`" for name in PROVIDER_KEYS)
        + ", and those that `embed.api_key_env`, `index.api_key_env` and `model.api_key_env` name.",
    ]
    for section, cls in SECTIONS.items():
        lines += ["", f"## `[{section}]`", "", cls.__doc__ or "", ""]
        lines += ["| name | default | takes | variable | meaning |", "|---|---|---|---|---|"]
        for fact in (fact for fact in FACTS.values() if fact.section == section):
            name = f"`{fact.name}`{' ◆' if fact.guarded else ''}"
            lines.append(f"| {name} | `{default_text(fact)}` | {fact.accepts} | `{fact.variable}` | {fact.help} |")
    return "\n".join(lines) + "\n"


def errors_page() -> str:
    """Exit codes, and the tree of errors."""
    lines = ["# Exit codes and errors", "", _NOTE, "", "| exit code | meaning |", "|---|---|"]
    lines += [f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items()]
    lines += [
        "",
        "An error is one sentence and a next step on stderr; with `--json` it is",
        '`{"error": {"code", "message", "hint"}}` on stderr, where `code` is the name below.',
        "",
        "| error | exit code | meaning |",
        "|---|---|---|",
        *_error_rows(errors.RagforgeError, 0),
        "| `UsageError` | 2 | A wrong command line. |",
        "| `Unexpected` | 1 | A fault of ragforge; `--debug` shows where. |",
    ]
    return "\n".join(lines) + "\n"


def _error_rows(cls: type[errors.RagforgeError], depth: int) -> Iterator[str]:
    indent = "&nbsp;&nbsp;" * depth
    yield f"| {indent}`{cls.__name__}` | {cls.exit_code} | {(cls.__doc__ or '').splitlines()[0]} |"
    for child in (child for child in cls.__subclasses__() if child.__module__ == errors.__name__):
        yield from _error_rows(child, depth + 1)


def http_schema() -> str:
    """What `/openapi.json` answers: each route of the server, what it takes and what it gives."""
    from ragforge.interfaces.http.app import schema

    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"


def main(folder: str) -> None:
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (target / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:2] or ["docs/reference"])
