"""`add`, `sync`, `watch`: bring files in, and tell what became of each."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ragforge.domain.access import Clearance
from ragforge.domain.cancel import Cancel, Cancelled
from ragforge.domain.documents import Reason
from ragforge.domain.library import FileResult, Labels, Outcome, Progress
from ragforge.errors import NotFound, UserError
from ragforge.interfaces.cli.common import Common, command, path_of
from ragforge.interfaces.cli.output import one_line, paint, plain, print_data, print_json, say
from ragforge.interfaces.cli.progress import Meter, meter
from ragforge.interfaces.cli.stop import STOPPED, stoppable
from ragforge.interfaces.words import count, duration

if TYPE_CHECKING:
    from ragforge.app import Ragforge

SOME_FAILED = 3
_FAILURES_SHOWN = 20
_FAILED = (Outcome.FAILED, Outcome.QUARANTINED)

Events = Iterator[FileResult | Progress]
Confidentiality = Literal["public", "internal", "confidential", "restricted"]
SourceType = Annotated[str | None, typer.Option("--source-type", metavar="WORD", help="Kind of source, for filters")]
Tags = Annotated[list[str] | None, typer.Option("--tag", metavar="WORD", help="A tag; may be repeated")]
Secrecy = Annotated[Confidentiality | None, typer.Option("--confidentiality", help="Who may see it")]
Unsafe = Annotated[bool, typer.Option("--unsafe-parsers", help="Parse even where the system offers no isolation")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print a line for each file")]
Folder = Annotated[Path, typer.Argument(metavar="FOLDER", parser=path_of, help="The folder")]


def register(app: typer.Typer) -> None:
    command(app, "add")(add)
    command(app, "sync")(sync)
    command(app, "watch")(watch)


def add(
    common: Common,
    paths: Annotated[list[Path], typer.Argument(metavar="PATH", parser=path_of, help="Files and folders")],
    source_type: SourceType = None,
    tag: Tags = None,
    confidentiality: Secrecy = None,
    retry: Annotated[bool, typer.Option("--retry", help="Read files again that failed before")] = False,
    unsafe_parsers: Unsafe = False,
    verbose: Verbose = False,
) -> None:
    """Add files and folders to a project.

    What is there already and has not changed is left alone, so the command can be run again at any time.
    A file that cannot be read is kept as failed, with the reason, and stops nothing.
    """
    found, missing = _existing(paths)
    labels = labels_of(source_type, tag, confidentiality)

    def events(forge: Ragforge, cancel: Cancel) -> Events:
        yield from missing
        yield from forge.adding(found, project=common.project_name, labels=labels, retry=retry, cancel=cancel)

    bring_in(common, events, paths, unsafe=unsafe_parsers, verbose=verbose)


def sync(
    common: Common,
    folder: Folder,
    source_type: SourceType = None,
    tag: Tags = None,
    confidentiality: Secrecy = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be done")] = False,
    allow_empty: Annotated[bool, typer.Option("--allow-empty", help="Remove all files if the folder is empty")] = False,
    unsafe_parsers: Unsafe = False,
    verbose: Verbose = False,
) -> None:
    """Make a project mirror a folder: add what is new, replace what changed, remove what is gone."""
    _require_folder(folder)
    labels = labels_of(source_type, tag, confidentiality)

    def events(forge: Ragforge, cancel: Cancel) -> Events:
        return forge.syncing(
            folder,
            project=common.project_name,
            labels=labels,
            cancel=cancel,
            dry_run=dry_run,
            allow_empty=allow_empty,
        )

    bring_in(common, events, [folder], unsafe=unsafe_parsers, verbose=verbose or dry_run, dry_run=dry_run)


def watch(
    common: Common,
    folder: Folder,
    source_type: SourceType = None,
    tag: Tags = None,
    confidentiality: Secrecy = None,
    unsafe_parsers: Unsafe = False,
) -> None:
    """Keep a project the mirror of a folder until Ctrl-C.

    Each file that comes, changes, goes or cannot be read is a line as it happens.
    """
    _require_folder(folder)
    labels = labels_of(source_type, tag, confidentiality)

    def events(forge: Ragforge, cancel: Cancel) -> Events:
        common.say(f"Watching {plain(str(folder))}; Ctrl-C ends it.")
        found = forge.watching(folder, project=common.project_name, labels=labels, cancel=cancel)
        return _news(found, failures_only=common.quiet and not common.json)

    bring_in(common, events, [folder], unsafe=unsafe_parsers, verbose=True, until_stopped=True)


def labels_of(
    source_type: str | None, tags: list[str] | None, confidentiality: Confidentiality | None
) -> Labels | None:
    """Labels from options; what was not said keeps its default. None if nothing was said: files keep what they have."""
    if source_type is None and tags is None and confidentiality is None:
        return None
    if not all(tag.strip() for tag in tags or ()):
        raise UserError("A tag is empty", hint="leave --tag out; ragforge label ID --tag '' clears the tags of a file")
    one_word(source_type)
    default, secrecy = Labels(), clearance(confidentiality)
    return Labels(
        source_type=source_type or default.source_type,
        tags=tuple(tags or ()),
        confidentiality=default.confidentiality if secrecy is None else secrecy,
    )


def one_word(source_type: str | None) -> None:
    """Refuse a source type that a filter could not name."""
    if source_type is not None and source_type.split() != [source_type]:
        joined = "-".join(source_type.split()) or "report"
        raise UserError(f"--source-type takes one word, not {source_type!r}", hint=f"write it as one word: {joined}")


def clearance(word: Confidentiality | None) -> Clearance | None:
    return None if word is None else Clearance[word.upper()]


def _existing(paths: list[Path]) -> tuple[list[Path], list[FileResult]]:
    """The paths that are there, and a failure for each that is not. None at all is an error."""
    found = [path for path in paths if path.exists() or path.is_symlink()]
    gone = [path for path in paths if path not in found]
    if not found:
        names = ", ".join(plain(str(path)) for path in gone)
        raise NotFound(f"There is no {names}", hint="check the spelling and the folder you are in")
    hint = "check the spelling and the folder you are in"
    return found, [
        FileResult(str(path), Outcome.FAILED, reason=Reason.UNREADABLE, message="there is no such path", hint=hint)
        for path in gone
    ]


def _require_folder(folder: Path) -> None:
    if folder.is_file():
        raise UserError(f"{plain(str(folder))} is a file, not a folder", hint="ragforge add takes single files")
    if not folder.is_dir():
        hint = "check the path; if it is on a drive, mount it. Nothing was removed"
        raise NotFound(f"There is no folder {plain(str(folder))}", hint=hint)


def _news(events: Events, *, failures_only: bool) -> Events:
    """What a person who watches wants to hear: nothing of files that stand as they did."""
    failures: dict[str, FileResult] = {}
    for event in events:
        if isinstance(event, FileResult):
            if event.outcome is Outcome.UNCHANGED or failures.get(event.path) == event:
                continue
            failures.pop(event.path, None)
            if event.outcome in _FAILED:
                failures[event.path] = event
            elif failures_only:
                continue
        yield event


@dataclass(slots=True)
class Tally:
    """What became of the files so far. Keeps only the first failures, however many files there are."""

    outcomes: Counter[Outcome] = field(default_factory=Counter)
    chunks: int = 0
    replaced: int = 0
    failures: list[FileResult] = field(default_factory=list)

    def count(self, file: FileResult) -> None:
        self.outcomes[file.outcome] += 1
        self.chunks += file.chunks
        self.replaced += file.replaced
        if file.outcome in _FAILED and len(self.failures) < _FAILURES_SHOWN:
            self.failures.append(file)

    @property
    def failed(self) -> int:
        return sum(self.outcomes[outcome] for outcome in _FAILED)

    def text(self) -> str:
        """`873 ready, 14 unchanged, 2 failed`; empty if there was nothing."""
        return ", ".join(f"{number:,} {outcome}" for outcome in Outcome if (number := self.outcomes[outcome]))


def bring_in(
    common: Common,
    events: Callable[[Ragforge, Cancel], Events],
    paths: Sequence[Path],
    *,
    unsafe: bool,
    verbose: bool,
    dry_run: bool = False,
    until_stopped: bool = False,
) -> None:
    """Run the work, show it as it goes on, and end with what became of it."""
    began = time.monotonic()
    tally = Tally()
    flags: dict[str, dict[str, object]] = {"--unsafe-parsers": {"jail.unsafe": True}} if unsafe else {}
    with (
        common.open(create=not dry_run, flags=flags) as forge,
        meter(quiet=common.quiet, lines_on_stdout=common.json or verbose) as shown,
        stoppable(lambda: _on_stop(common, shown)) as cancel,
    ):
        with suppress(Cancelled):
            _follow(events(forge, cancel), common, tally, shown, verbose, dry_run)
        was_stopped = cancel.is_set
    seconds = time.monotonic() - began
    if common.json:
        _print_summary(tally, seconds, was_stopped and not until_stopped, dry_run)
    elif not verbose:
        _show_failures(common, tally)
    if until_stopped:
        common.say(f"Stopped watching after {duration(seconds)}: {tally.text() or 'nothing changed'}")
        return
    common.say(ending(tally, seconds, paths, was_stopped=was_stopped, dry_run=dry_run))
    if was_stopped:
        raise typer.Exit(STOPPED)
    if tally.failed:
        raise typer.Exit(SOME_FAILED)


def ending(tally: Tally, seconds: float, paths: Sequence[Path], *, was_stopped: bool, dry_run: bool) -> str:
    """The last line: what came of it all."""
    if was_stopped:
        done = tally.text() or "nothing ready yet"
        return f"Stopped after {duration(seconds)}: {done}. Run the same command again for the rest."
    if dry_run:
        number = tally.outcomes[Outcome.REMOVED]
        return f"{f'{number:,}' if number else 'nothing'} would be removed"
    if not tally.outcomes:
        return f"no files in {', '.join(plain(str(path)) for path in paths)}"
    return f"{tally.text()} in {duration(seconds)}"


def _on_stop(common: Common, shown: Meter) -> None:
    if not common.quiet:
        shown.say("Stopping. What is ready stays. Ctrl-C again stops at once.")


def _follow(
    events: Iterable[FileResult | Progress], common: Common, tally: Tally, shown: Meter, verbose: bool, dry_run: bool
) -> None:
    for event in events:
        if isinstance(event, Progress):
            shown.show(event)
            continue
        tally.count(event)
        if common.json:
            print_json({"kind": "file", **_fields(event)})
        elif verbose:
            print_data(_file_line(event, dry_run))
            sys.stdout.flush()  # a reader wants to follow


def _fields(file: FileResult) -> dict[str, object]:
    return {name: getattr(file, name) for name in FileResult.__dataclass_fields__}


_COLOURS = {Outcome.READY: "green", Outcome.REMOVED: "yellow", Outcome.FAILED: "red", Outcome.QUARANTINED: "red"}
_PLANS = {Outcome.READY: "add", Outcome.REMOVED: "remove"}


def _file_line(file: FileResult, dry_run: bool) -> str:
    word = f"would {_PLANS[file.outcome]}" if dry_run and file.outcome in _PLANS else str(file.outcome)
    line = f"{paint(f'{word:<12}', _COLOURS.get(file.outcome, 'dim'))} {plain(file.path)}"
    details = [count(file.chunks, "chunk")] if file.chunks else []
    details += [one_line(text) for text in (file.message, file.hint, *file.notes) if text]
    return f"{line}  ({'; '.join(details)})" if details else line


def _print_summary(tally: Tally, seconds: float, was_stopped: bool, dry_run: bool) -> None:
    numbers = {str(outcome): tally.outcomes[outcome] for outcome in Outcome}
    extra = {"replaced": tally.replaced, "chunks": tally.chunks, "seconds": round(seconds, 3)}
    print_json({"kind": "summary", **numbers, **extra, "stopped": was_stopped, "dry_run": dry_run})


def _show_failures(common: Common, tally: Tally) -> None:
    for file in tally.failures:
        say(f"{paint('failed', 'red', sys.stderr)} {plain(file.path)}: {one_line(file.message)}")
        if file.hint:
            say(f"       {paint(one_line(file.hint), 'dim', sys.stderr)}")
    if rest := tally.failed - len(tally.failures):
        say(common.placed(f"and {rest:,} more: ragforge ls --status failed"))
