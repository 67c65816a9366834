"""`project …` and `reindex`: projects, how they are split and embedded."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ragforge.domain.cancel import Cancelled
from ragforge.domain.library import Project
from ragforge.domain.strategy import Strategy
from ragforge.errors import UserError
from ragforge.interfaces.cli import texts
from ragforge.interfaces.cli.common import Common, command
from ragforge.interfaces.cli.documents import STORE_FAILED, DryRun, Yes, confirm, print_proof, removal_fields
from ragforge.interfaces.cli.output import Column, plain, print_data, print_json, print_table
from ragforge.interfaces.cli.progress import meter
from ragforge.interfaces.cli.stop import STOPPED, stoppable
from ragforge.interfaces.words import ago, count, duration

if TYPE_CHECKING:
    from ragforge.app import Ragforge

Slug = Annotated[str, typer.Argument(metavar="PROJECT", help="The project")]
StrategyName = Annotated[
    Literal["sections", "chars", "tokens"] | None, typer.Option("--strategy", help="How texts are split")
]
Sizes = Annotated[
    list[str] | None,
    typer.Option("--split", metavar="NAME=NUMBER", help="A size of the splitter, as leaf_max=400; may be repeated"),
]
EmbedderName = Annotated[str | None, typer.Option("--embedder", metavar="NAME", help="The model that makes vectors")]


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Make, list, change and remove projects.", no_args_is_help=True)
    command(group, "new", project=False)(new)
    command(group, "ls", project=False)(list_projects)
    command(group, "set", project=False)(change)
    command(group, "rename", project=False)(rename)
    command(group, "rm", project=False)(remove)
    texts.register(group)
    app.add_typer(group, name="project")
    command(app, "reindex")(reindex)


def new(
    common: Common,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the project")],
    strategy: StrategyName = None,
    split: Sizes = None,
    embedder: EmbedderName = None,
) -> None:
    """Make a project."""
    with common.open(create=True) as forge:
        chosen = strategy_of(_default_strategy(forge), strategy, split)
        project = forge.create_project(name, strategy=chosen, embedder=embedder)
    if common.json:
        print_json({"project": project})
    else:
        common.say(
            f"Made project {plain(project.slug)}, split by {project.strategy.name}, embedder {plain(project.embedder)}"
        )


def list_projects(common: Common) -> None:
    """List the projects with their documents, chunks and embedder."""
    with common.open() as forge:
        rows = [(project, forge.documents(project=project.slug)) for project in forge.projects()]
    if common.json:
        sizes = [{"project": p, "documents": len(d), "chunks": sum(one.chunks for one in d)} for p, d in rows]
        print_json({"projects": sizes})
    elif not rows:
        common.say("There are no projects. Next: ragforge project new NAME, or ragforge add PATH")
    else:
        sharing = any(project.shares_lessons for project, _ in rows)
        columns = (
            Column("project", least=12),
            Column("name", least=12, dropped=True),
            Column("documents", align_right=True),
            Column("chunks", align_right=True),
            Column("split"),
            Column("embedder", least=12),
            *([Column("lessons")] if sharing else []),
            Column("made", align_right=True),
        )
        print_table(columns, [_row(project, len(d), sum(one.chunks for one in d), sharing) for project, d in rows])


def _row(project: Project, documents: int, chunks: int, sharing: bool) -> list[str]:
    numbers = (f"{documents:,}", f"{chunks:,}")
    lessons = ["shared" if project.shares_lessons else "kept"] if sharing else []
    facts = (project.strategy.name, project.embedder, *lessons, ago(project.created_at))
    return [project.slug, project.name, *numbers, *facts]


def change(
    common: Common,
    project: Slug,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="A new name, which -p then takes")] = None,
    strategy: StrategyName = None,
    split: Sizes = None,
    embedder: EmbedderName = None,
    share_lessons: Annotated[
        bool | None,
        typer.Option(
            "--share-lessons/--keep-lessons", help="Whether other projects are told what was learnt in this one"
        ),
    ] = None,
) -> None:
    """Change a project. A new splitter or model re-indexes it, while it stays usable."""
    if not (name or strategy or split or embedder or share_lessons is not None):
        raise UserError("Nothing to change", hint="give --name, --strategy, --split, --embedder or --share-lessons")
    with common.open() as forge:
        slug = _renamed(common, forge, project, name).slug if name else forge.project(project).slug
        if share_lessons is not None:
            forge.lessons.share(share_lessons, project=slug)
            common.say(f"Its lessons are told {'in all projects' if share_lessons else 'in this project only'}")
        if strategy or split or embedder:
            _reindex(common, forge, slug, strategy, split, embedder)
        _print_project(common, forge.project(slug))


def rename(
    common: Common, project: Slug, name: Annotated[str, typer.Argument(metavar="NAME", help="The new name")]
) -> None:
    """Give a project another name, which -p then takes."""
    with common.open() as forge:
        _print_project(common, _renamed(common, forge, project, name))


def _renamed(common: Common, forge: Ragforge, project: str, name: str) -> Project:
    renamed = forge.rename_project(project, name)
    if renamed.slug != project:
        common.say(f"Project {plain(project)} is now -p {plain(renamed.slug)}")
    return renamed


def remove(common: Common, project: Slug, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Remove a project and everything in it for good. Prints the proof."""
    with common.open() as forge:
        documents = forge.documents(project=forge.project(project).slug)
        chunks = sum(document.chunks for document in documents)
        content = f"{count(len(documents), 'document')} and {count(chunks, 'chunk')}"
        if dry_run:
            if common.json:
                print_json({"would_remove": {"project": project, "documents": len(documents), "chunks": chunks}})
            else:
                print_data(f"would remove project {plain(project)} with {content}")
            return
        if not confirm(f"Remove project {plain(project)} with {content} for good?", yes):
            common.say("Nothing removed.")
            return
        removals = forge.remove_project(project)
    if common.json:
        print_json({"project": project, "removed": [removal_fields(removal) for removal in removals]})
    else:
        for removal in removals:
            print_proof(common, removal)
        common.say(f"Removed project {plain(project)} with {content}")
    if any(removal.remains for removal in removals):
        raise typer.Exit(STORE_FAILED)


def reindex(common: Common, strategy: StrategyName = None, split: Sizes = None, embedder: EmbedderName = None) -> None:
    """Split or embed a project anew. It stays usable, and the new index takes over when it is complete."""
    with common.open() as forge:
        slug = forge.project(common.project_in(forge)).slug
        _reindex(common, forge, slug, strategy, split, embedder)
        _print_project(common, forge.project(slug))


def _reindex(
    common: Common, forge: Ragforge, slug: str, strategy: str | None, split: list[str] | None, embedder: str | None
) -> None:
    before = forge.project(slug)
    chosen = strategy_of(before.strategy, strategy, split)
    began, turns = time.monotonic(), 0
    with (
        meter(quiet=common.quiet, lines_on_stdout=False) as shown,
        stoppable(lambda: shown.say("Stopping. Ctrl-C again stops at once.")) as cancel,
    ):
        with suppress(Cancelled):
            for progress in forge.reindexing(project=slug, strategy=chosen, embedder=embedder, cancel=cancel):
                shown.show(progress)
                turns = progress.turns
        was_stopped = cancel.is_set
    if was_stopped:
        common.say("Stopped. The project works as before; run the same command again to go on.")
        raise typer.Exit(STOPPED)
    if forge.project(slug).generation == before.generation:
        done = f"embedded {count(turns, 'turn')} of conversations" if turns else "nothing to do"
        common.say(f"Already split by {before.strategy.name} with {plain(before.embedder)}; {done}")
    else:
        common.say(f"Re-indexed {plain(slug)} in {duration(time.monotonic() - began)}")


def _print_project(common: Common, project: Project) -> None:
    if common.json:
        print_json({"project": project})
    else:
        common.say(
            f"Project {plain(project.slug)} ({plain(project.name)}): split by {project.strategy.name}, "
            f"embedder {plain(project.embedder)}, generation {project.generation}"
            f"{', shares its lessons' if project.shares_lessons else ''}"
        )


def _default_strategy(forge: Ragforge) -> Strategy:
    values = asdict(forge.settings.split)
    return Strategy(name=values.pop("strategy"), **values)


def strategy_of(base: Strategy, name: str | None, sizes: list[str] | None) -> Strategy | None:
    """The base with what was asked for on top; None if nothing was."""
    from ragforge.settings import nearest

    known = tuple(f.name for f in fields(Strategy) if f.name != "name")
    given: dict[str, int] = {}
    for text in sizes or ():
        key, _, number = text.partition("=")
        if key not in known:
            raise UserError(
                f"{plain(key)} is not a size of the splitter",
                hint=f"did you mean {nearest(key, known) or ', '.join(known)}?",
            )
        if not number.isdecimal():
            raise UserError(f"--split {plain(text)} has no number", hint=f"write --split {key}=400")
        given[key] = int(number)
    if name is None and not given:
        return None
    # another strategy starts from its own sizes, not from those of the old one
    start = base if name in (None, base.name) else Strategy(name=name)
    try:
        return Strategy(**(asdict(start) | given))
    except ValueError as problem:
        raise UserError(str(problem), hint="give several --split to move them together") from problem
