"""`make KIND`, `make ls …`: documents that are made from a project."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from ragforge.domain.cancel import Cancelled
from ragforge.domain.library import Progress
from ragforge.errors import UserError
from ragforge.interfaces.cli.common import Common, command, path_of
from ragforge.interfaces.cli.output import (
    Column,
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
from ragforge.interfaces.words import ago, count, price, spent

if TYPE_CHECKING:
    from ragforge.domain.records import Artifact
    from ragforge.flows.make import Made, Planned

ALL_OPEN = 4
_KIND = "KIND"
_ID_LENGTH = 8
_PROBLEMS_SHOWN = 8
_WITHOUT_MODEL = "quoted without a model: only what stands under such a heading or says it in such words"

Out = Annotated[
    Path | None,
    typer.Option(
        "--out", "-o", metavar="FILE", parser=path_of, help="Write it to this .md or .docx file instead of printing it"
    ),
]
Name = Annotated[str, typer.Argument(metavar="ID", help="Id of a made document, its beginning, or last")]


class _Kinds(TyperGroup):
    """Whatever is no command is a kind of document: there may be more of them than the shipped ones."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] in self.commands and args[0] != _KIND:
            return super().resolve_command(ctx, args)
        return args[0], self.commands[_KIND], ["--kind", *args]


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
    command(group, "edit")(edit)
    command(group, "rm")(remove)
    app.add_typer(group, name="make")


def make(
    common: Common,
    kind: Annotated[str, typer.Option("--kind", hidden=True)],
    brief: Annotated[
        str,
        typer.Option("--brief", "-b", metavar="TEXT", help="What the document is about; @FILE reads it from a file"),
    ] = "",
    agent: Annotated[str, typer.Option("--agent", metavar="NAME", help="Who writes it [default: by the kind]")] = "",
    title: Annotated[str, typer.Option("--title", metavar="TEXT", help="Title [default: kind and project]")] = "",
    model: Annotated[
        str,
        typer.Option(
            "--model", "-m", metavar="NAME", help="provider:model, a profile, or offline [default: the agent's profile]"
        ),
    ] = "",
    out: Out = None,
    keep: Annotated[bool, typer.Option("--keep/--no-keep", help="Keep it in the project")] = True,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only tell passages, tokens and price of each section; nothing is written")
    ] = False,
) -> None:
    """Write a document of this kind: each section of its outline searched, written, checked and cited.

    The kinds are blueprint, pdr, workflow, build-plan and your own; `ragforge make kinds` lists them.

    Sections that the documents say nothing about stay open and tell what to add. Ends with 4 if all are open.
    """
    from ragforge.flows.make import Made, Planned

    last: Planned | Made | None = None
    with (
        common.open() as forge,
        meter(quiet=common.quiet, lines_on_stdout=False, unit="sections") as shown,
        stoppable(lambda: None if common.quiet else shown.say("Stopping. The document is not kept.")) as cancel,
        suppress(Cancelled),
    ):
        for event in forge.making(
            kind,
            project=common.project_in(forge),
            brief=_brief(brief),
            agent=agent,
            title=title,
            model=model,
            out=out,
            keep=keep,
            cancel=cancel,
        ):
            if isinstance(event, Progress):
                shown.show(event)
            elif isinstance(event, Made) or (dry_run and isinstance(event, Planned)):
                last = event
                break
    if last is None:
        raise typer.Exit(STOPPED)
    if isinstance(last, Made):
        _print_made(common, last, keep)
        is_open = all(section.open for section in last.artifact.sections)
    else:
        _print_planned(common, last)
        is_open = not any(section.sources for section in last.sections)
    if is_open:
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


def _print_planned(common: Common, planned: Planned) -> None:
    if common.json:
        print_json(_planned_fields(planned))
        return
    print_table(
        (
            Column("section"),
            Column("passages", align_right=True),
            *([Column("tokens", align_right=True)] if planned.model else []),
            Column("from", least=12),
        ),
        [
            [
                each.heading,
                f"{len(each.sources)}",
                *([f"{each.estimate.input_tokens:,}" if each.estimate else ""] if planned.model else []),
                ", ".join(dict.fromkeys(source.name for source in each.sources)) or "nothing: stays open",
            ]
            for each in planned.sections
        ],
    )
    if not planned.model:
        common.say(f"{_WITHOUT_MODEL}; free. Nothing is written yet")
        return
    tokens = f"{count(planned.input_tokens, 'token')} to read, at most {planned.output_tokens:,} to write"
    at_most = "at most " if planned.cost else ""
    common.say(f"{plain(planned.model)}: {tokens}, {at_most}{price(planned.cost)}. Nothing is written or spent yet")


def _planned_fields(planned: Planned) -> dict[str, Any]:
    return {
        "title": planned.title,
        "model": planned.model,
        "sections": [
            {
                "heading": each.heading,
                "sources": [
                    {"chunk_id": source.chunk, "document": source.name, "locator": source.locator}
                    for source in each.sources
                ],
                "left_out": each.left_out,
                "estimate": each.estimate,
            }
            for each in planned.sections
        ],
        "input_tokens": planned.input_tokens,
        "output_tokens": planned.output_tokens,
        "cost": planned.cost,
    }


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
    common.say(f"{', '.join(facts)}; {_spent(artifact) or _WITHOUT_MODEL}")
    id = artifact.id[:_ID_LENGTH]
    told = [f"Wrote {plain(str(made.file))}"] if made.file else []
    told += [f"Kept as {id}"] if kept else []
    told += [f"Next: ragforge make show {id} --out {artifact.kind}.docx"] if kept and not made.file else []
    if told:
        common.say(". ".join(told))


def _say_problems(common: Common, artifact: Artifact) -> None:
    for problem in artifact.problems[:_PROBLEMS_SHOWN]:
        common.say(f"{paint('Note:', 'yellow')} {one_line(problem)}")
    if len(artifact.problems) > _PROBLEMS_SHOWN:
        common.say(f"Note: and {len(artifact.problems) - _PROBLEMS_SHOWN:,} more; --json tells all")


def _spent(artifact: Artifact) -> str:
    from ragforge.domain.generation import Usage

    used = artifact.usage
    if not used.get("calls"):
        return ""
    cost = Decimal(str(used["cost"])) if "cost" in used else None
    tokens = int(used["input_tokens"]), int(used["output_tokens"])
    return spent(Usage(*tokens, int(used["calls"]), cost, used["seconds"]))


def list_kinds(common: Common) -> None:
    """List the kinds of documents that can be made, and the agents that write them.

    Files in the folders outlines and agents of the workspace add to them, or replace them.
    """
    with common.open() as forge:
        kinds, agents = forge.document_kinds(), forge.agents()
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
        made = forge.artifacts(project=common.project_in(forge))
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
        artifact = forge.artifact(name, project=common.project_in(forge))
        if out is not None:
            forge.export_artifact(artifact, out)
    text = markdown(artifact)
    if common.json:
        print_json({"document": artifact, "text": text, "file": str(out) if out else None})
        return
    if out is None:
        print_data(plain_text(text).rstrip("\n"))
    _say_problems(common, artifact)
    if out is not None:
        common.say(f"Wrote {plain(str(out))}")


def edit(
    common: Common,
    name: Name,
    section: Annotated[
        str | None,
        typer.Option("--section", "-s", metavar="NAME", help="Which section: its heading, or its number from 1"),
    ] = None,
    text: Annotated[
        Path | None,
        typer.Option(
            "--text", metavar="FILE", parser=path_of, help="The section's new text, - is stdin [default: your editor]"
        ),
    ] = None,
    title: Annotated[str | None, typer.Option("--title", metavar="TEXT", help="Give it another title")] = None,
) -> None:
    """Change a section of a document that was made, in your editor ($VISUAL or $EDITOR) or from a file; or its title.

    The text is checked as a model's is: citations of sources that the document does not have are removed, headings
    become plain text, images and HTML go. A section that is emptied is open again.
    """
    if section is None and (text is not None or title is None):
        raise UserError("no section is named", hint="--section NAME tells which, --title TEXT changes the title")
    with common.open() as forge:
        project = common.project_in(forge)
        before = forge.artifact(name, project=project)
        texts: dict[int, str] = {}
        was: dict[int, str] = {}
        if section is not None:
            place = _place(before, section)
            was[place] = before.sections[place].text
            texts[place] = _new_text(before, place, text)
        after = forge.edit_artifact(before.id, project=project, title=title, texts=texts, was=was)
    if common.json:
        print_json({"document": after, "changed": after != before})
        return
    for problem in (each for each in after.problems if each not in before.problems):
        common.say(f"{paint('Note:', 'yellow')} {one_line(problem)}")
    common.say(f"Changed {after.id[:_ID_LENGTH]} {plain(after.title)}" if after != before else "Nothing changed")


def _place(artifact: Artifact, section: str) -> int:
    """Of the section that is meant."""
    headings = [each.heading.casefold() for each in artifact.sections]
    if section.casefold() in headings:
        return headings.index(section.casefold())
    if section.isdecimal() and 1 <= int(section) <= len(headings):
        return int(section) - 1
    named = ", ".join(each.heading for each in artifact.sections)
    raise UserError(f"there is no section {plain(section)!r}", hint=f"the sections are {plain(named)}")


def _new_text(artifact: Artifact, place: int, file: Path | None) -> str:
    """What the section is to say; one that is open begins empty."""
    from ragforge.interfaces.cli import editor
    from ragforge.interfaces.cli.texts import read_text

    if file is not None:
        return read_text(file, "--text")
    section = artifact.sections[place]
    before = "" if section.open else section.text
    after = editor.edit(before, f"{artifact.kind}-{place + 1}.md")
    return section.text if after.strip() == before.strip() else after


def remove(
    common: Common,
    names: Annotated[list[str], typer.Argument(metavar="ID…", help="Ids of made documents, or last")],
) -> None:
    """Remove documents that were made. Files they were written to stay."""
    with common.open() as forge:
        removed = forge.remove_artifacts(names, project=common.project_in(forge))
    if common.json:
        print_json({"removed": [each.id for each in removed]})
        return
    for each in removed:
        say(f"Removed {each.id[:_ID_LENGTH]} {plain(each.title)}")
