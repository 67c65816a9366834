"""`backup`, `restore`, `export`, `import`: a workspace, or one project, as one file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from ragforge.domain.archives import BackupReport, ExportReport, ImportedProject, RestoreReport
from ragforge.domain.cancel import Cancel, Cancelled
from ragforge.domain.library import Progress
from ragforge.domain.sizes import size_text
from ragforge.interfaces.cli.common import Common, command, path_of
from ragforge.interfaces.cli.output import one_line, plain, print_json
from ragforge.interfaces.cli.progress import meter
from ragforge.interfaces.cli.stop import STOPPED, stoppable
from ragforge.interfaces.words import count

File = Annotated[Path, typer.Argument(metavar="FILE", parser=path_of, help="The archive, a ZIP file")]
Report = TypeVar("Report", BackupReport, RestoreReport, ExportReport, ImportedProject)
_SHOWN = 5
_DAMAGED = "Stored bytes that are lost or changed, of which `ragforge check` tells more"


def register(app: typer.Typer) -> None:
    command(app, "backup", project=False)(backup)
    command(app, "restore", project=False)(restore)
    command(app, "export")(export)
    command(app, "import")(import_project)


def backup(common: Common, file: File) -> None:
    """Put everything of the workspace into one file, while it is used.

    It holds documents, conversations, settings and access keys (only their digests), but no secrets and no indexes.
    """
    with common.open() as forge:
        report = _ended(common, BackupReport, lambda cancel: forge.backing_up(file, cancel=cancel), "There is no file.")
    if common.json:
        print_json({"backup": report})
        return
    common.say(
        f"{plain(str(report.file))} holds {count(report.projects, 'project')} and {count(report.documents, 'file')} "
        f"({size_text(report.size)}). Anyone who has it can read them."
    )
    if report.removed:
        common.say(f"Removed while it was made, and not restored from it: {report.removed}")
    _say_uploads(common, report.uploads)
    _say_names(common, "Replaced while it was made, so without the original bytes", report.missing)
    _say_names(common, _DAMAGED, report.damaged)
    _say_names(common, "Uploads that were given up or replaced while it was made", report.missing_uploads)
    _say_names(common, "Left out, for it looks like a secret", report.left_out)


def restore(
    common: Common,
    file: File,
    replacing: Annotated[
        bool, typer.Option("--replace", help="Take the place of the workspace; the old one is kept beside it")
    ] = False,
) -> None:
    """Make a workspace of a backup. It has to be new or empty, unless it is to be replaced.

    All of the file is verified before anything is written. Indexes are built without a model. What was removed in the
    workspace that is replaced, after the backup was made, is not brought back.
    """
    from ragforge.app import Ragforge

    settings = common.settings()
    report = _ended(
        common,
        RestoreReport,
        lambda cancel: Ragforge.restoring(file, settings, replacing=replacing, cancel=cancel),
        "Nothing was changed, unless it said that the indexes are built: those are finished when they are needed.",
    )
    if common.json:
        print_json({"restored": report})
        return
    common.say(
        f"{plain(str(report.workspace))} holds {count(report.projects, 'project')} and "
        f"{count(report.documents, 'file')}, as of {report.made_at.astimezone():%Y-%m-%d %H:%M}"
    )
    if report.removed:
        common.say(f"Removed since, and not brought back: {report.removed}")
    _say_uploads(common, report.uploads)
    _say_names(common, "Without their original bytes", report.missing)
    _say_names(common, _DAMAGED, report.damaged)
    _say_names(common, "Uploads that the backup lacks", report.missing_uploads)
    if report.keys:
        working = count(report.keys, "access key that works", "access keys that work")
        common.say(f"With it came {working}: ragforge keys ls")
    for notice in report.notices:
        common.say(f"Note: {one_line(notice)}")
    if report.before is not None:
        common.say(f"The workspace as it was: {plain(str(report.before))}. Delete it when you do not need it.")


def export(
    common: Common,
    file: File,
    vectors: Annotated[bool, typer.Option(help="With vectors, so that nothing has to be embedded again")] = True,
) -> None:
    """Write one project to a file that any program can read.

    It holds the original files, their texts as Markdown, chunks, your conversations, rules, questions and made
    documents.
    """
    with common.open() as forge:
        project = common.project_in(forge)
        report = _ended(
            common,
            ExportReport,
            lambda cancel: forge.exporting(file, project=project, vectors=vectors, cancel=cancel),
            "There is no file.",
        )
    if common.json:
        print_json({"export": report})
        return
    common.say(
        f"{plain(str(report.file))} holds {plain(report.project)}: {count(report.documents, 'file')} and "
        f"{count(report.conversations, 'conversation')} ({size_text(report.size)})"
    )
    _say_names(common, "Without their original bytes", report.missing)


def import_project(common: Common, file: File) -> None:
    """Take in a project that `export` wrote, under its own name or that of --project.

    What is there already stays as it is, so it can be run again.
    """
    with common.open(create=True) as forge:
        report = _ended(
            common,
            ImportedProject,
            lambda cancel: forge.importing(file, project=common.project or "", cancel=cancel),
            "What was taken in stays; run the same command again to go on.",
        )
    if common.json:
        print_json({"import": report})
        return
    parts = [
        count(report.documents, "new file"),
        f"{report.unchanged:,} known" if report.unchanged else "",
        count(report.embedded, "text embedded", "texts embedded") if report.embedded else "",
        count(report.conversations, "conversation") if report.conversations else "",
        count(report.artifacts, "made document") if report.artifacts else "",
        count(report.runs, "evaluation") if report.runs else "",
    ]
    common.say(f"Project {plain(report.project)}: {', '.join(filter(None, parts))}")
    for notice in report.notices:
        common.say(f"Note: {one_line(notice)}")


def _ended(
    common: Common, kind: type[Report], begin: Callable[[Cancel], Iterable[object]], when_stopped: str
) -> Report:
    """Show how far it is until its report comes."""
    report: Report | None = None
    with (
        meter(quiet=common.quiet or common.json, lines_on_stdout=False) as shown,
        stoppable(lambda: shown.say("Stopping. Ctrl-C again stops at once.")) as cancel,
        _stopped(common, when_stopped),
    ):
        for event in begin(cancel):
            if isinstance(event, Progress):
                shown.show(event)
            elif isinstance(event, kind):
                report = event
    assert report is not None
    return report


@contextmanager
def _stopped(common: Common, what: str) -> Iterator[None]:
    try:
        yield
    except Cancelled:
        common.say(f"Stopped. {what}")
        raise typer.Exit(STOPPED) from None


def _say_uploads(common: Common, waiting: int) -> None:
    if waiting:
        common.say(f"{count(waiting, 'upload')} waiting in it: `ragforge serve` or `ragforge worker` takes them in")


def _say_names(common: Common, what: str, names: tuple[str, ...]) -> None:
    if names:
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        common.say(f"{what}: {', '.join(plain(name) for name in names[:_SHOWN])}{more}")
