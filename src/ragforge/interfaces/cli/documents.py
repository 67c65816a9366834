"""`ls`, `show`, `rm`, `on`, `off`, `label`: the files of a project."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated

import typer

from ragforge.domain.library import Chunk, Document, Problem, Removal, Status
from ragforge.domain.sizes import size_text
from ragforge.errors import NotFound, RagforgeError, UserError
from ragforge.interfaces.cli.common import Common, command
from ragforge.interfaces.cli.files import Secrecy, SourceType, Tags, clearance, one_word
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

if TYPE_CHECKING:
    from ragforge.app import Ragforge

STORE_FAILED = 8
_ID_LENGTH = 8
_LEAST_OF_ID = 4
_ALIKE_SHOWN = 5

Ids = Annotated[
    list[str], typer.Argument(metavar="ID", help="Ids, their beginnings, names, paths, or patterns such as '*.pdf'")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only print what would be done")]


def register(app: typer.Typer) -> None:
    command(app, "ls")(list_documents)
    command(app, "show")(show)
    command(app, "rm")(remove)
    command(app, "on")(turn_on)
    command(app, "off")(turn_off)
    command(app, "label")(label)


def find(common: Common, forge: Ragforge, ids: Sequence[str]) -> list[Document]:
    """The files that are meant; what is not found or could be several is said so that the next try succeeds."""
    project = common.project_in(forge)
    try:
        return forge.find(_spelled_out(forge, project, ids), project=project)
    except RagforgeError as error:
        documents = forge.documents(project=project)
        for id in ids:
            beginning = [document for document in documents if document.id.startswith(id)]
            named = [d for d in documents if id in (d.name, *(source.name for source in d.sources))]
            if isinstance(error, NotFound) and beginning and not named and len(id) < _LEAST_OF_ID:
                hint = "ragforge ls shows the files and their ids"
                raise NotFound(f"an id needs at least {_LEAST_OF_ID} characters, not {id!r}", hint=hint) from None
            alike = list({document.id: document for document in (*beginning, *named)}.values())
            if isinstance(error, UserError) and len(alike) > 1:
                raise _ambiguous(id, alike) from None
        raise


def _spelled_out(forge: Ragforge, project: str, ids: Sequence[str]) -> list[str]:
    """Patterns become the ids of the files whose names they match; a name that is matched exactly is no pattern."""
    if not any(set(id) & set("*?[") for id in ids):
        return list(ids)
    documents = forge.documents(project=project)
    names = {document.name for document in documents}
    chosen: list[str] = []
    for id in ids:
        matching = [] if id in names else [document.id for document in documents if fnmatchcase(document.name, id)]
        chosen += matching or [id]
    return chosen


def _ambiguous(id: str, documents: Sequence[Document]) -> UserError:
    shown = [f"{d.id[:_ID_LENGTH]} ({d.sources[0].key if d.sources else d.name})" for d in documents[:_ALIKE_SHOWN]]
    return UserError(f"{id!r} could be {len(documents):,} files", hint=f"use an id: {', '.join(shown)}")


def list_documents(
    common: Common,
    status: Annotated[Status | None, typer.Option("--status", help="Only files that stand so")] = None,
    type: Annotated[str | None, typer.Option("--type", metavar="TYPE", help="Only files of this type")] = None,
    tag: Annotated[str | None, typer.Option("--tag", metavar="WORD", help="Only files with this tag")] = None,
    name: Annotated[str | None, typer.Option("--name", metavar="GLOB", help="Only names such as '*.pdf'")] = None,
    off: Annotated[bool, typer.Option("--off", help="Only files that are switched off")] = False,
) -> None:
    """List the files of a project."""
    with common.open() as forge:
        has_begun = common.project is not None or any(p.slug == common.project_name for p in forge.projects())
        everything = forge.documents(project=common.project_name, status=status) if has_begun else []
    documents = [
        document
        for document in everything
        if (type is None or document.type == type)
        and (tag is None or tag in document.labels.tags)
        and (name is None or fnmatchcase(document.name, name))
        and not (off and document.enabled)
    ]
    if common.json:
        print_json({"documents": documents})
    elif not documents:
        is_filtered = off or not (type is None and tag is None and name is None)
        common.say(_nothing(common, status, is_filtered=is_filtered))
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


def _nothing(common: Common, status: Status | None, *, is_filtered: bool) -> str:
    if is_filtered:
        return f"No file of project {plain(common.project_name)} is like that."
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
        document, *others = find(common, forge, [id])
        if others:
            raise _ambiguous(id, [document, *others])
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
        ("status", _standing(document)),
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


def _standing(document: Document) -> str:
    standing = f"{document.status}, {'on' if document.enabled else 'off'}"
    if document.problem and document.status == Status.READY:
        return f"{standing}; the file changed and could not be read again, this is its older text"
    return standing


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
        documents = find(common, forge, ids)
        if dry_run:
            _print_plan(common, documents, ids)
            return
        names = ", ".join(plain(document.name) for document in documents[:5])
        more = f" and {len(documents) - 5:,} more" if len(documents) > 5 else ""
        if not yes:
            for document in documents:
                for line in _other_sources(document, ids):
                    say(f"{plain(document.name)} was {line}")
        if not confirm(f"Remove {names}{more} for good?", yes):
            common.say("Nothing removed.")
            return
        removals = []
        for removal in forge.removing([document.id for document in documents], project=common.project_name):
            removals.append(removal)
            if not common.json:
                print_proof(common, removal)
    if common.json:
        print_json({"removed": [removal_fields(removal) for removal in removals]})
    if any(removal.remains for removal in removals):
        raise typer.Exit(STORE_FAILED)


def _print_plan(common: Common, documents: Sequence[Document], ids: Sequence[str]) -> None:
    if common.json:
        plan = [
            {"id": d.id, "name": d.name, "chunks": d.chunks, "sources": [source.key for source in d.sources]}
            for d in documents
        ]
        print_json({"would_remove": plan})
        return
    for document in documents:
        print_data(f"would remove  {plain(document.name)}  ({count(document.chunks, 'chunk')})")
        for line in _other_sources(document, ids):
            print_data(f"              {line}")


def _other_sources(document: Document, ids: Sequence[str]) -> list[str]:
    """The paths that lose the document too: the same bytes are one document, however often they were added."""
    if len(document.sources) < 2:
        return []
    asked = {os.path.abspath(id) for id in ids}
    return [f"also added as {plain(source.key)}" for source in document.sources if source.key not in asked]


def confirm(question: str, yes: bool) -> bool:
    """Ask on the terminal; without one, demand `--yes`."""
    if yes:
        return True
    if not sys.stdin.isatty():
        raise UserError(
            "This removes things for good, and nobody is here to ask", hint="add --yes, or --dry-run to look first"
        )
    return typer.confirm(question, err=True)


def removal_fields(removal: Removal) -> dict[str, object]:
    return {**{name: getattr(removal, name) for name in Removal.__dataclass_fields__}, "erased": removal.erased}


def print_proof(common: Common, removal: Removal) -> None:
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
        held = f"         held by another process: {plain(place)}; `ragforge check` finishes it"
        print_data(common.placed(held))


def turn_on(common: Common, ids: Ids) -> None:
    """Let files be used again."""
    _enable(common, ids, True)


def turn_off(common: Common, ids: Ids) -> None:
    """Keep files, but do not use them."""
    _enable(common, ids, False)


def _enable(common: Common, ids: Sequence[str], on: bool) -> None:
    with common.open() as forge:
        chosen = [document.id for document in find(common, forge, ids)]
        documents = forge.enable(chosen, on, project=common.project_name)
    _print_changed(common, documents, "on" if on else "off")


def label(
    common: Common,
    ids: Ids,
    source_type: SourceType = None,
    tag: Tags = None,
    confidentiality: Secrecy = None,
) -> None:
    """Change what is said of files; filters use it. Tags given here replace the old ones; --tag '' clears them."""
    if source_type is None and tag is None and confidentiality is None:
        raise UserError("Nothing to change", hint="give --source-type, --tag or --confidentiality")
    one_word(source_type)
    with common.open() as forge:
        documents = forge.label(
            [document.id for document in find(common, forge, ids)],
            project=common.project_name,
            source_type=source_type,
            tags=None if tag is None else [word for word in tag if word.strip()],
            confidentiality=clearance(confidentiality),
        )
    _print_changed(common, documents, "labelled")


def _print_changed(common: Common, documents: Sequence[Document], word: str) -> None:
    if common.json:
        print_json({"documents": documents})
    elif not common.quiet:
        for document in documents:
            say(f"{word}  {plain(document.name)}")
