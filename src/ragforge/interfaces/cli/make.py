"""`make KIND`, `make ls …`: documents that are made from a project."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, cast

import typer
from typer.core import TyperGroup

from ragforge.domain.cancel import Cancel, Cancelled
from ragforge.domain.library import Progress
from ragforge.domain.records import Artifact
from ragforge.errors import UserError
from ragforge.interfaces.cli.common import Common, command, path_of
from ragforge.interfaces.cli.output import (
    Column,
    ago,
    count,
    one_line,
    paint,
    plain,
    plain_text,
    print_data,
    print_json,
    print_table,
    say,
)
from ragforge.interfaces.cli.progress import meter
from ragforge.interfaces.cli.stop import STOPPED, stoppable

if TYPE_CHECKING:
    from ragforge.answer.agents import Agent
    from ragforge.answer.outline import Outline
    from ragforge.app import Ragforge
    from ragforge.flows.make import Made, MakeEvent

ALL_OPEN = 4
_KIND = "KIND"
_ID_LENGTH = 8
_PROBLEMS_SHOWN = 8

Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="FILE", parser=path_of, help="Also write it to a .md or .docx file"),
]
Name = Annotated[str, typer.Argument(metavar="ID", help="Id of a made document, its beginning, or last")]


class Makes(Protocol):
    """What these commands need of a workspace."""

    def making(
        self,
        kind: str,
        *,
        project: str,
        brief: str,
        agent: str,
        title: str,
        out: Path | None,
        offline: bool,
        keep: bool,
        cancel: Cancel,
    ) -> Iterator[MakeEvent]: ...
    def document_kinds(self) -> list[Outline]: ...
    def agents(self) -> list[Agent]: ...
    def artifacts(self, *, project: str) -> list[Artifact]: ...
    def artifact(self, id: str, *, project: str) -> Artifact: ...
    def export_artifact(self, artifact: Artifact, file: Path) -> None: ...
    def remove_artifacts(self, ids: Sequence[str], *, project: str) -> list[Artifact]: ...


def _makes(forge: Ragforge) -> Makes:
    return cast("Makes", forge)


class _Kinds(TyperGroup):
    """Whatever is no command is a kind of document: there may be more of them than the shipped ones."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.commands:
            return _KIND, self.commands[_KIND], args
        return super().resolve_command(ctx, args)


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        cls=_Kinds,
        help="Make a cited document from a project: blueprint, pdr, workflow, build-plan, or a kind of your own.",
        no_args_is_help=True,
    )
    command(group, _KIND)(make)
    command(group, "kinds")(list_kinds)
    command(group, "ls")(list_made)
    command(group, "show")(show)
    command(group, "rm")(remove)
    app.add_typer(group, name="make")


def make(
    common: Common,
    kind: Annotated[str, typer.Argument(metavar="KIND", help="blueprint, pdr, workflow, build-plan or your own")],
    brief: Annotated[
        str,
        typer.Option("--brief", "-b", metavar="TEXT", help="What the document is about; @FILE reads it from a file"),
    ] = "",
    agent: Annotated[str, typer.Option("--agent", metavar="NAME", help="Who writes it [default: by the kind]")] = "",
    title: Annotated[str, typer.Option("--title", metavar="TEXT", help="Title [default: kind and project]")] = "",
    out: Out = None,
    offline: Annotated[bool, typer.Option("--offline", help="Quote the documents, even if there is a model")] = False,
    keep: Annotated[bool, typer.Option("--keep/--no-keep", help="Keep it in the project")] = True,
) -> None:
    """Write a document by its outline: each section searched, written, checked and cited.

    Sections that the documents say nothing about stay open and tell what to add. Ends with 4 if all are open.
    """
    from ragforge.flows.make import Made, SectionStarted

    made: Made | None = None
    with (
        common.open() as forge,
        meter(quiet=common.quiet, lines_on_stdout=False, unit="sections") as shown,
        stoppable(lambda: None if common.quiet else shown.say("Stopping. Nothing is kept.")) as cancel,
        suppress(Cancelled),
    ):
        for event in _makes(forge).making(
            kind,
            project=common.project_in(forge),
            brief=_brief(brief),
            agent=agent,
            title=title,
            out=out,
            offline=offline,
            keep=keep,
            cancel=cancel,
        ):
            if isinstance(event, SectionStarted):
                shown.show(Progress(event.heading, event.number - 1, event.total))
            elif isinstance(event, Made):
                made = event
    if made is None:
        raise typer.Exit(STOPPED)
    _print_made(common, made, keep)
    if all(section.open for section in made.artifact.sections):
        raise typer.Exit(ALL_OPEN)


def _brief(text: str) -> str:
    """The brief itself, or the text of the file it names."""
    if not text.startswith("@"):
        return text
    file = Path(text[1:])
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "it is not UTF-8"
        raise UserError(
            f"cannot read the brief {plain(str(file))}: {reason}", hint="--brief @FILE takes text"
        ) from None


def _print_made(common: Common, made: Made, kept: bool) -> None:
    artifact = made.artifact
    if common.json:
        print_json({"document": artifact, "text": made.text, "file": str(made.file) if made.file else None})
        return
    if made.file is None:
        print_data(plain_text(made.text).rstrip("\n"))
    _say_problems(common, artifact)
    still = [section.heading for section in artifact.sections if section.open]
    facts = [
        count(len(artifact.sections) - len(still), "section"),
        *([f"{len(still)} open ({one_line(', '.join(still))})"] if still else []),
        count(len(artifact.sources), "source"),
    ]
    common.say(f"{', '.join(facts)}{_spent(artifact)}")
    where = f"Wrote {plain(str(made.file))}. " if made.file else ""
    id = artifact.id[:_ID_LENGTH]
    common.say(f"{where}Kept as {id}. Next: ragforge make show {id} --out {artifact.kind}.docx" if kept else where)


def _say_problems(common: Common, artifact: Artifact) -> None:
    for problem in artifact.problems[:_PROBLEMS_SHOWN]:
        common.say(f"{paint('Note:', 'yellow')} {one_line(problem)}")
    if len(artifact.problems) > _PROBLEMS_SHOWN:
        common.say(f"Note: and {len(artifact.problems) - _PROBLEMS_SHOWN:,} more; --json tells all")


def _spent(artifact: Artifact) -> str:
    tokens = int(artifact.usage.get("input_tokens", 0) + artifact.usage.get("output_tokens", 0))
    cost = artifact.usage.get("cost")
    return f"; {tokens:,} tokens{'' if cost is None else f', ${cost:.4f}'}" if tokens else ""


def list_kinds(common: Common) -> None:
    """List the kinds of documents that can be made, and the agents that write them.

    Files in the folders outlines and agents of the workspace add to them, or replace them.
    """
    with common.open() as forge:
        kinds, agents = _makes(forge).document_kinds(), _makes(forge).agents()
    if common.json:
        print_json({"kinds": kinds, "agents": agents})
        return
    print_table(
        (Column("kind"), Column("sections", align_right=True), Column("about", least=12)),
        [[each.kind, str(len(each.parts)), each.about] for each in kinds],
    )
    print_data()
    print_table(
        (Column("agent"), Column("writes"), Column("profile"), Column("about", least=12)),
        [[each.name, each.output, each.profile, each.about] for each in agents],
    )


def list_made(common: Common) -> None:
    """List the documents that were made, newest first."""
    with common.open() as forge:
        made = _makes(forge).artifacts(project=common.project_in(forge))
    if common.json:
        print_json({"documents": [_facts(each) for each in made]})
        return
    if not made:
        common.say("Nothing was made yet. Next: ragforge make blueprint")
        return
    print_table(
        (
            Column("id"),
            Column("kind"),
            Column("title", least=12, most=60),
            Column("open", align_right=True),
            Column("sources", align_right=True, dropped=True),
            Column("model", dropped=True),
            Column("made", align_right=True, dropped=True),
        ),
        [
            [
                each.id[:_ID_LENGTH],
                each.kind,
                each.title,
                f"{sum(section.open for section in each.sections)}/{len(each.sections)}",
                f"{len(each.sources):,}",
                each.model or "none",
                ago(each.made_at),
            ]
            for each in made
        ],
    )


def _facts(artifact: Artifact) -> dict[str, Any]:
    """What a list tells of a document; its text is in `show`."""
    return {
        "id": artifact.id,
        "kind": artifact.kind,
        "title": artifact.title,
        "made_at": artifact.made_at,
        "agent": artifact.agent,
        "model": artifact.model,
        "sections": len(artifact.sections),
        "open": [section.heading for section in artifact.sections if section.open],
        "sources": len(artifact.sources),
        "problems": len(artifact.problems),
    }


def show(common: Common, name: Name, out: Out = None) -> None:
    """Show a document that was made before, or write it to a file."""
    from ragforge.answer.artifacts import markdown

    with common.open() as forge:
        artifact = _makes(forge).artifact(name, project=common.project_in(forge))
        if out is not None:
            _makes(forge).export_artifact(artifact, out)
    text = markdown(artifact)
    if common.json:
        print_json({"document": artifact, "text": text, "file": str(out) if out else None})
        return
    if out is None:
        print_data(plain_text(text).rstrip("\n"))
    _say_problems(common, artifact)
    if out is not None:
        common.say(f"Wrote {plain(str(out))}")


def remove(
    common: Common,
    names: Annotated[list[str], typer.Argument(metavar="ID…", help="Ids of made documents, or last")],
) -> None:
    """Remove documents that were made. Files they were written to stay."""
    with common.open() as forge:
        removed = _makes(forge).remove_artifacts(names, project=common.project_in(forge))
    if common.json:
        print_json({"removed": [each.id for each in removed]})
        return
    for each in removed:
        say(f"Removed {each.id[:_ID_LENGTH]} {plain(each.title)}")
