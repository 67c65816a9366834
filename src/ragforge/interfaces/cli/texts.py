"""`project rules`, `project memory`: two texts that people write for a project and that every prompt carries."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragforge.errors import NotFound, UserError
from ragforge.interfaces.cli import editor
from ragforge.interfaces.cli.common import Common, command, path_of
from ragforge.interfaces.cli.output import Column, cut, one_line, plain, plain_text, print_data, print_json, print_table
from ragforge.interfaces.words import ago, count, price

if TYPE_CHECKING:
    from ragforge.app import Ragforge
    from ragforge.domain.generation import Estimate
    from ragforge.domain.records import ProjectText, ProjectTextKind

_MOST_READ = 1_000_000
"""Bytes of a file that are looked at: more than the catalog takes, so that it can refuse them."""
_TITLES = {"hard-rules": "Hard Rules", "project-memory": "Project Memory"}
_COMMANDS = {"hard-rules": "project rules", "project-memory": "project memory"}
_STANDARD_INPUT = "-"

File = Annotated[
    Path | None,
    typer.Option(
        "--file", metavar="FILE", parser=path_of, help="Write a new version: the text of this file, - is stdin"
    ),
]
Edit = Annotated[bool, typer.Option("--edit", help="Write a new version in your editor: $VISUAL or $EDITOR")]
Versions = Annotated[bool, typer.Option("--versions", help="List the versions, newest first")]
Version = Annotated[int | None, typer.Option("--version", min=0, metavar="N", help="Print this version")]
Restore = Annotated[int | None, typer.Option("--restore", min=0, metavar="N", help="Let this version count again")]


def register(group: typer.Typer) -> None:
    command(group, "rules")(rules)
    command(group, "memory")(memory)


def rules(
    common: Common,
    file: File = None,
    edit: Edit = False,
    versions: Versions = False,
    version: Version = None,
    restore: Restore = None,
) -> None:
    """Print or change the Hard Rules: what every answer must keep to. They go into every prompt, before all else."""
    from ragforge.domain.records import ProjectTextKind

    _run(common, ProjectTextKind.HARD_RULES, file, edit, versions, version, restore)


def memory(
    common: Common,
    file: File = None,
    edit: Edit = False,
    versions: Versions = False,
    version: Version = None,
    restore: Restore = None,
) -> None:
    """Print or change the Project Memory: what every answer should know. It goes into every prompt, after the rules."""
    from ragforge.domain.records import ProjectTextKind

    _run(common, ProjectTextKind.PROJECT_MEMORY, file, edit, versions, version, restore)


def _run(
    common: Common,
    kind: ProjectTextKind,
    file: Path | None,
    in_editor: bool,
    list_all: bool,
    version: int | None,
    restore: int | None,
) -> None:
    flags = [name for name, is_set in (("--edit", in_editor), ("--versions", list_all)) if is_set]
    values = (("--file", file), ("--version", version), ("--restore", restore))
    if len(given := flags + [name for name, value in values if value is not None]) > 1:
        raise UserError(f"{' and '.join(given)} do not go together", hint="choose one of them")
    with common.open() as forge:
        slug = forge.project(common.project_in(forge)).slug
        if list_all:
            _list(common, kind, forge.project_text_versions(kind, project=slug))
        elif file is not None:
            _write(common, forge, slug, kind, read_text(file, "--file"))
        elif restore is not None:
            _write(common, forge, slug, kind, _version(forge, slug, kind, restore).text)
        elif in_editor:
            before = forge.project_text(kind, project=slug).text
            _write(common, forge, slug, kind, editor.edit(before, f"{kind}.md"))
        else:
            text = forge.project_text(kind, project=slug)
            _print(common, forge, text if version is None else _version(forge, slug, kind, version))


def _version(forge: Ragforge, slug: str, kind: ProjectTextKind, number: int) -> ProjectText:
    """One of the versions; 0 is the empty one that every project begins with."""
    from ragforge.domain.records import ProjectText

    known = [*forge.project_text_versions(kind, project=slug), ProjectText(kind, 0, "", None)]
    found = next((text for text in known if text.version == number), None)
    if found is None:
        raise NotFound(
            f"there is no version {number} of the {_TITLES[kind]}",
            hint=f"ragforge {_COMMANDS[kind]} --versions lists them",
        )
    return found


def read_text(file: Path, option: str) -> str:
    """What a person wrote: the text of the file that an option names, or stdin."""
    is_stdin = str(file) == _STANDARD_INPUT
    name = "standard input" if is_stdin else plain(str(file))
    try:
        if is_stdin:
            return sys.stdin.buffer.read(_MOST_READ).decode("utf-8-sig")
        with file.expanduser().open("rb") as opened:
            return opened.read(_MOST_READ).decode("utf-8-sig")
    except FileNotFoundError:
        raise NotFound(f"there is no file {name}", hint=f"{option} takes the path of a text, or - for stdin") from None
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "it is not UTF-8"
        raise UserError(f"cannot read {name}: {reason}", hint=f"{option} takes UTF-8 text") from None


def texts_of(given: Mapping[str, str]) -> list[str]:
    """What options say, each by its name: a text, that of the file which @ names, or stdin."""
    if len(several := [option for option, text in given.items() if text == _STANDARD_INPUT]) > 1:
        raise UserError(
            f"{' and '.join(several)} cannot all be standard input", hint="read the others from files: @FILE"
        )
    return [text_of(option, text) for option, text in given.items()]


def text_of(option: str, text: str) -> str:
    """One of them. `@@` is how a text begins with an @."""
    if text == _STANDARD_INPUT:
        return read_text(Path(text), option)
    if text.startswith("@@"):
        return text[1:]
    return read_text(Path(text[1:]), f"{option} @FILE") if text.startswith("@") else text


def _write(common: Common, forge: Ragforge, slug: str, kind: ProjectTextKind, text: str) -> None:
    before = forge.project_text(kind, project=slug).version
    written = forge.write_project_text(kind, text, project=slug)
    load = forge.text_estimate(written.text)
    if common.json:
        print_json({"text": written, "changed": written.version != before, "tokens": load.input_tokens})
        return
    if written.version == before:
        common.say(f"Nothing changed: {f'version {before} says the same' if before else 'it is still empty'}")
        return
    common.say(f"{_TITLES[kind]} of {plain(slug)}, version {written.version}: {_load(load)}")
    if load.window is not None and load.input_tokens > load.window // 2:
        common.say(
            f"Note: {plain(load.model)} reads {load.window:,} tokens, and answers need room there too. "
            "Shorten it, or put long material into a file and add that"
        )


def _load(load: Estimate) -> str:
    """What it adds to every prompt."""
    cost = f", {price(load.cost)}" if load.cost else ""
    return f"{count(load.input_tokens, 'token')} in every prompt{cost}" if load.input_tokens else "empty"


def _print(common: Common, forge: Ragforge, text: ProjectText) -> None:
    load = forge.text_estimate(text.text)
    if common.json:
        print_json({"text": text, "tokens": load.input_tokens})
        return
    if not text.text:
        common.say(_nothing(text.kind))
        return
    print_data(plain_text(text.text).rstrip("\n"))
    when = f", written {ago(text.written_at)}" if text.written_at else ""
    common.say(f"Version {text.version}{when}: {_load(load)}")


def _nothing(kind: ProjectTextKind) -> str:
    return f"{_TITLES[kind]}: nothing is written. Next: ragforge {_COMMANDS[kind]} --edit"


def _list(common: Common, kind: ProjectTextKind, versions: list[ProjectText]) -> None:
    if common.json:
        print_json({"versions": versions})
        return
    if not versions:
        common.say(_nothing(kind))
        return
    columns = (
        Column("version", align_right=True),
        Column("written"),
        Column("by", dropped=True),
        Column("characters", align_right=True),
        Column("begins", least=20, most=60),
    )
    rows = [
        [
            str(each.version),
            ago(each.written_at) if each.written_at else "",
            each.written_by,
            f"{len(each.text):,}",
            cut(one_line(each.text[:200]), 60) or "(empty)",
        ]
        for each in versions
    ]
    print_table(columns, rows)
