"""`search`, `rebuild`: passages for a question, and the indexes they are found with."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import MAXYEAR, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from ragforge.domain.cancel import Cancelled
from ragforge.domain.retrieval import Filters, Retrieved
from ragforge.errors import UserError
from ragforge.interfaces.cli.common import Common, command
from ragforge.interfaces.cli.documents import find
from ragforge.interfaces.cli.files import Confidentiality, clearance
from ragforge.interfaces.cli.output import plain, print_data, print_json
from ragforge.interfaces.cli.passages import columns, excerpt, files_of, heading, remark, warn, whole
from ragforge.interfaces.cli.progress import meter
from ragforge.interfaces.cli.stop import STOPPED, stoppable
from ragforge.interfaces.cli.tuning import Tune, tuning_options
from ragforge.interfaces.fields.passages import retrieved_fields
from ragforge.interfaces.words import count, duration

if TYPE_CHECKING:
    from ragforge.app import Ragforge


def beginning(text: str) -> datetime:
    """A date or a time as people write them, in their own time zone unless they name one."""
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise typer.BadParameter(f"{text!r} is not a date such as 2026-05-01 or 2026-05-01T14:30") from None


def end(text: str) -> datetime:
    """The same; a day is meant with all its hours."""
    moment = beginning(text)
    is_day = len(text) <= len("2026-05-01")
    return moment + timedelta(days=1) if is_day and moment.year < MAXYEAR else moment


Question = Annotated[list[str], typer.Argument(metavar="QUESTION", help="What you want to know, in your own words")]
Files = Annotated[
    list[str] | None,
    typer.Option("--file", metavar="ID", help="Only this file: id, name, end of its path, or pattern; may be repeated"),
]
Types = Annotated[
    list[str] | None,
    typer.Option("--source-type", metavar="WORD", help="Only files with this source type; may be repeated"),
]
Tags = Annotated[
    list[str] | None, typer.Option("--tag", metavar="WORD", help="Only files with this tag; repeated: with any of them")
]
Agent = Annotated[str, typer.Option("--agent", metavar="NAME", help="Only files for this agent or for every agent")]
MaxConfidentiality = Annotated[
    Confidentiality | None, typer.Option("--max-confidentiality", help="Only files at most so confidential")
]
Since = Annotated[
    datetime | None,
    typer.Option("--since", metavar="DATE", parser=beginning, help="Only files changed on this day or later"),
]
Until = Annotated[
    datetime | None,
    typer.Option("--until", metavar="DATE", parser=end, help="Only files changed on this day or earlier"),
]


def register(app: typer.Typer) -> None:
    command(app, "search")(search)
    command(app, "rebuild")(rebuild)


@tuning_options
def search(
    common: Common,
    question: Question,
    tune: Tune,
    file: Files = None,
    source_type: Types = None,
    tag: Tags = None,
    agent: Agent = "",
    max_confidentiality: MaxConfidentiality = None,
    since: Since = None,
    until: Until = None,
    full: Annotated[bool, typer.Option("--full", help="Show each passage whole")] = False,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Search anew, even if the same was just asked")] = False,
) -> None:
    """Find the passages that bear on a question, best first: by its words and by its meaning."""
    asked = " ".join(question)
    with common.open() as forge:
        project = common.project_in(forge)
        filters = filters_of(common, forge, file, source_type, tag, agent, max_confidentiality, since, until)
        found = forge.search(asked, project=project, filters=filters, tuning=tune(forge.tuning()), fresh=no_cache)
        if common.json:
            print_json(retrieved_fields(found))
            return
        print_passages(found, full=full)
        warn(common, found)
        if told := remark(found):
            common.say(told)
        if found.passages:
            common.say(_summary(found))


def filters_of(
    common: Common,
    forge: Ragforge,
    files: Sequence[str] | None,
    source_types: Sequence[str] | None,
    tags: Sequence[str] | None,
    agent: str,
    max_confidentiality: Confidentiality | None,
    since: datetime | None,
    until: datetime | None,
) -> Filters:
    """What the options say of the files that may be found."""
    if since and until and since >= until:
        raise UserError("--since is later than --until", hint="the earlier day comes with --since")
    return Filters(
        documents=tuple(document.id for document in find(common, forge, files)) if files else (),
        source_types=tuple(source_types or ()),
        tags=tuple(tags or ()),
        agent=agent,
        confidentiality=clearance(max_confidentiality),
        since=since,
        until=until,
    )


def print_passages(found: Retrieved, *, full: bool) -> None:
    """Each passage under its file and place; the words of the question stand out."""
    width, files = columns(), files_of(found.passages)
    digits = len(str(len(found.passages)))
    for number, passage in enumerate(found.passages, 1):
        if number > 1:
            print_data()
        text, indent, path = passage.header + passage.text, " " * (digits + 2), passage.locator.path
        under, lines = excerpt(text, path, found.question, width - len(indent))
        if full:
            under, lines = (), whole(text, found.question)
        print_data(heading(f"{number:>{digits}}", files[passage.document], passage, under, width))
        for line in lines:
            print_data(f"{indent}{line}".rstrip())


def _summary(found: Retrieved) -> str:
    files = len({passage.document for passage in found.passages})
    took = f"{found.timings['total']:,.0f} ms"
    return f"{count(len(found.passages), 'passage')} from {count(files, 'file')} in {took}"


def rebuild(common: Common) -> None:
    """Build the indexes of a project anew, from the catalog alone: nothing is read or embedded again.

    Searches go on with the old ones meanwhile. Where several machines share the catalog, each builds its own.
    """
    began = time.monotonic()
    with (
        common.open() as forge,
        meter(quiet=common.quiet, lines_on_stdout=False, unit="indexes") as shown,
        stoppable(lambda: None if common.quiet else shown.say("Stopping. Searches go on as before.")) as cancel,
    ):
        project = forge.project(common.project_in(forge)).slug
        with suppress(Cancelled):
            for progress in forge.rebuilding(project=project, cancel=cancel):
                shown.show(progress)
        was_stopped = cancel.is_set
        chunks = sum(document.chunks for document in forge.documents(project=project))
    seconds = time.monotonic() - began
    if was_stopped:
        raise typer.Exit(STOPPED)
    if common.json:
        print_json({"project": project, "chunks": chunks, "seconds": round(seconds, 3)})
    else:
        common.say(f"Rebuilt the indexes of {plain(project)}: {count(chunks, 'chunk')} in {duration(seconds)}")
