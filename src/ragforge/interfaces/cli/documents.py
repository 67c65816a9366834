"""`ls`, `show`, `rm`, `on`, `off`, `label`: the files of a project."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from ragforge.domain.library import Chunk, Document, Problem, Removal, Status
from ragforge.errors import UserError
from ragforge.interfaces.cli.common import Common, command
from ragforge.interfaces.cli.files import Secrecy, SourceType, Tags, clearance
from ragforge.interfaces.cli.output import (
    Column,
    ago,
    count,
    cut,
    one_line,
    paint,
    plain,
    plain_text,
    print_data,
    print_json,
    print_table,
    say,
    width_of_terminal,
    wrapped,
)
from ragforge.settings import size_text

STORE_FAILED = 8
_ID_LENGTH = 8

Ids = Annotated[list[str], typer.Argument(metavar="ID", help="Ids, their beginnings, names or paths")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only print what would be done")]


def register(app: typer.Typer) -> None:
    command(app, "ls")(list_documents)
    command(app, "show")(show)
    command(app, "rm")(remove)
    command(app, "on")(turn_on)
    command(app, "off")(turn_off)
    command(app, "label")(label)


def list_documents(
    common: Common,
    status: Annotated[Status | None, typer.Option("--status", help="Only files that stand so")] = None,
) -> None:
    """List the files of a project."""
    with common.open() as forge:
        has_begun = common.project is not None or bool(forge.projects())
        documents = forge.documents(project=common.project_name, status=status) if has_begun else []
    if common.json:
        print_json({"documents": documents})
    elif not documents:
        common.say(_nothing(common, status))
    elif status in (Status.FAILED, Status.QUARANTINED):
        _print_problems(documents)
    else:
        print_table(_COLUMNS, [_row(document) for document in documents], [_colour(d) for d in documents])
        _mention_problems(common, documents)


_COLUMNS = (
    Column("id"),
    Column("status"),
    Column("use"),
    Column("name", least=16, most=40),
    Column("type", dropped=True),
    Column("chunks", align_right=True, dropped=True),
    Column("size", align_right=True, dropped=True),
    Column("changed", align_right=True, dropped=True),
    Column("summary", least=16, dropped=True),
)


def _row(document: Document) -> list[str]:
    return [
        document.id[:_ID_LENGTH],
        f"{document.status}{'!' if document.problem and document.status == Status.READY else ''}",
        "on" if document.enabled else "off",
        document.name,
        document.type,
        f"{document.chunks:,}",
        size_text(document.size),
        ago(document.updated_at),
        cut(one_line(document.summary), 100),
    ]


def _colour(document: Document) -> str:
    if document.status != Status.READY:
        return "red"
    return "yellow" if document.problem else "" if document.enabled else "dim"


def _nothing(common: Common, status: Status | None) -> str:
    if status:
        return f"No file of project {plain(common.project_name)} is {status}."
    return f"Project {plain(common.project_name)} holds no files. Next: ragforge add PATH"


def _print_problems(documents: Sequence[Document]) -> None:
    for document in documents:
        print_data(f"{document.id[:_ID_LENGTH]}  {paint(plain(document.name), 'bold')}")
        if document.problem:
            print_data(f"          {_reason(document.problem)}: {one_line(document.problem.message)}")
            if document.problem.hint:
                print_data(f"          {paint(one_line(document.problem.hint), 'dim')}")


def _reason(problem: Problem) -> str:
    return problem.reason.replace("_", " ")


def _mention_problems(common: Common, documents: Sequence[Document]) -> None:
    failed = sum(document.status != Status.READY for document in documents)
    stale = sum(document.status == Status.READY and document.problem is not None for document in documents)
    if failed:
        common.say(f"{count(failed, 'file')} could not be read. Why: ragforge ls --status failed")
    if stale:
        common.say(
            f"! {count(stale, 'file')} changed but could not be read again; the older text stays. Why: ragforge show ID"
        )


def show(
    common: Common,
    id: Annotated[str, typer.Argument(metavar="ID", help="Id, its beginning, name or path")],
    chunks: Annotated[bool, typer.Option("--chunks/--no-chunks", help="List the chunks")] = True,
    text: Annotated[bool, typer.Option("--text", help="Print the whole text of each chunk")] = False,
) -> None:
    """Show one file: its facts, its summary, where it came from, and its chunks."""
    with common.open() as forge:
        document = forge.document(id, project=common.project_name)
        pieces = forge.chunks(document.id, project=common.project_name) if chunks or text else []
    if common.json:
        print_json({"document": document, **({"chunks": pieces} if chunks or text else {})})
        return
    width = width_of_terminal()
    for name, value in _facts(document):
        print_data(f"{paint(f'{name:<10}', 'dim')} {value}")
    if pieces:
        print_data()
    for piece in pieces:
        print_data(_chunk_text(piece) if text else _chunk_line(piece, width))


def _facts(document: Document) -> list[tuple[str, str]]:
    labels = document.labels
    facts = [
        ("name", paint(plain(document.name), "bold")),
        ("title", one_line(document.title or "")),
        ("id", document.id),
        ("status", f"{document.status}, {'on' if document.enabled else 'off'}"),
        ("type", f"{document.type} ({document.mime})" if document.mime else document.type),
        (
            "size",
            f"{size_text(document.size)}, {count(document.characters, 'character')}, "
            f"{count(document.tokens, 'token')}, {count(document.chunks, 'chunk')}",
        ),
        ("labels", plain(", ".join((labels.source_type, labels.confidentiality.name.lower(), *labels.tags)))),
        ("added", f"{document.created_at.astimezone():%Y-%m-%d %H:%M}"),
        ("changed", f"{document.updated_at.astimezone():%Y-%m-%d %H:%M}"),
        ("sha256", document.sha256),
        *(("source", plain(source.key)) for source in document.sources),
        *(("note", one_line(note)) for note in document.notes),
        ("summary", wrapped(one_line(document.summary), 11)),
    ]
    if problem := document.problem:
        facts += [
            ("problem", paint(f"{_reason(problem)}: {one_line(problem.message)}", "red")),
            ("next", one_line(problem.hint)),
        ]
    return [(name, value) for name, value in facts if value]


def _place(chunk: Chunk) -> str:
    """Page or time, and the headings above it."""
    label, path = chunk.locator.label(), " > ".join(chunk.locator.path)
    return one_line(" · ".join(dict.fromkeys(part for part in (label, path) if part)))


def _chunk_line(chunk: Chunk, width: int | None) -> str:
    line = f"{chunk.position:>4}  {count(chunk.tokens, 'token'):>11}  {_place(chunk)}  {one_line(chunk.text)}"
    return cut(line, width) if width else line


def _chunk_text(chunk: Chunk) -> str:
    head = " · ".join(part for part in (f"chunk {chunk.position}", _place(chunk), count(chunk.tokens, "token")) if part)
    return f"{paint(f'── {head}', 'bold')}\n{plain_text(chunk.header + chunk.text)}\n"


def remove(common: Common, ids: Ids, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Remove files for good: bytes, text, chunks, vectors and summary. Prints the proof."""
    with common.open() as forge:
        documents = forge.find(ids, project=common.project_name)
        if dry_run:
            _print_plan(common, documents)
            return
        names = ", ".join(plain(document.name) for document in documents[:5])
        more = f" and {len(documents) - 5:,} more" if len(documents) > 5 else ""
        confirm(f"Remove {names}{more} for good?", yes)
        removals = []
        for removal in forge.removing([document.id for document in documents], project=common.project_name):
            removals.append(removal)
            if not common.json:
                print_proof(removal)
    if common.json:
        print_json({"removed": [removal_fields(removal) for removal in removals]})
    if any(removal.remains for removal in removals):
        raise typer.Exit(STORE_FAILED)


def _print_plan(common: Common, documents: Sequence[Document]) -> None:
    if common.json:
        print_json({"would_remove": [{"id": d.id, "name": d.name, "chunks": d.chunks} for d in documents]})
        return
    for document in documents:
        print_data(f"would remove  {plain(document.name)}  ({count(document.chunks, 'chunk')})")


def confirm(question: str, yes: bool) -> None:
    """Ask on the terminal; without one, demand `--yes`."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UserError(
            "This removes things for good, and nobody is here to ask", hint="add --yes, or --dry-run to look first"
        )
    typer.confirm(question, abort=True, err=True)


def removal_fields(removal: Removal) -> dict[str, object]:
    return {**{name: getattr(removal, name) for name in Removal.__dataclass_fields__}, "erased": removal.erased}


def print_proof(removal: Removal) -> None:
    """What is gone, and what a scan of the workspace still found."""
    gone = ", ".join(
        (count(removal.chunks, "chunk"), count(removal.vectors, "vector"), count(removal.blobs, "stored file"))
    )
    searched = f"{size_text(removal.bytes_scanned)} of the workspace searched"
    if removal.erased:
        print_data(f"{paint('erased', 'green')}   {plain(removal.name)}: {gone}; {searched}, nothing of it found")
        return
    if not removal.searched:
        print_data(f"{paint('removed', 'green')}  {plain(removal.name)}: {gone}; others of this many were searched for")
        return
    word = "remains" if removal.remains else "pending"
    print_data(f"{paint(word, 'red' if removal.remains else 'yellow')}  {plain(removal.name)}: {gone}; {searched}")
    for place in removal.remains:
        print_data(f"         still found in {plain(place)}")
    for place in removal.pending:
        print_data(f"         held by another process: {plain(place)}; `ragforge check` finishes it")


def turn_on(common: Common, ids: Ids) -> None:
    """Let files be used again."""
    _enable(common, ids, True)


def turn_off(common: Common, ids: Ids) -> None:
    """Keep files, but do not use them."""
    _enable(common, ids, False)


def _enable(common: Common, ids: Sequence[str], on: bool) -> None:
    with common.open() as forge:
        documents = forge.enable(ids, on, project=common.project_name)
    _print_changed(common, documents, "on" if on else "off")


def label(
    common: Common,
    ids: Ids,
    source_type: SourceType = None,
    tag: Tags = None,
    confidentiality: Secrecy = None,
) -> None:
    """Change what is said of files; filters use it. Tags given here replace the old ones."""
    if source_type is None and tag is None and confidentiality is None:
        raise UserError("Nothing to change", hint="give --source-type, --tag or --confidentiality")
    with common.open() as forge:
        documents = forge.label(
            ids,
            project=common.project_name,
            source_type=source_type,
            tags=tag,
            confidentiality=clearance(confidentiality),
        )
    _print_changed(common, documents, "labelled")


def _print_changed(common: Common, documents: Sequence[Document], word: str) -> None:
    if common.json:
        print_json({"documents": documents})
    elif not common.quiet:
        for document in documents:
            say(f"{word}  {plain(document.name)}")
