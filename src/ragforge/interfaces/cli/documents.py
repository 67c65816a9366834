"""`ls`, `show`, `rm`, `on`, `off`, `label`: the files of a project."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Annotated

import typer

from ragforge.domain.library import Chunk, Document, Problem, Removal, Status
from ragforge.domain.sizes import size_text
from ragforge.errors import NotFound, UserError
from ragforge.interfaces.cli.common import Common, command
from ragforge.interfaces.cli.files import Secrecy, SourceType, Tags, clearance, one_word
from ragforge.interfaces.cli.names import fitted, is_like, is_pattern, names_of
from ragforge.interfaces.cli.output import (
    Column,
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
from ragforge.interfaces.words import ago, count

if TYPE_CHECKING:
    from ragforge.app import Ragforge

STORE_FAILED = 8
_ID_LENGTH = 8
_LEAST_OF_ID = 4
_ALIKE_SHOWN = 5
_NAME_WIDTH = 40

Ids = Annotated[
    list[str],
    typer.Argument(metavar="ID", help="Ids, their beginnings, names, ends of paths, or patterns such as '*.pdf'"),
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
    """The files that are meant, each once; what is not found or could be several is said so that the next try succeeds.

    An id, a name or a path is tried as it stands; then as the end of a path, where a pattern may mean several.
    """
    project = common.project_in(forge)
    documents = cache(lambda: forge.documents(project=project))
    found: dict[str, Document] = {}
    for id in ids:
        try:
            meant = forge.find([id], project=project)
        except NotFound as error:
            meant = [] if os.path.lexists(id) else [document for document in documents() if is_like(document, id)]
            if not meant:
                raise _not_found(id, documents(), error) from None
            if len(meant) > 1 and not is_pattern(id):
                raise _ambiguous(id, meant) from None
        except UserError:
            raise _ambiguous(id, [d for d in documents() if d.id.startswith(id) or is_like(d, id)]) from None
        found |= {document.id: document for document in meant}
    return list(found.values())


def _not_found(id: str, documents: Sequence[Document], error: NotFound) -> NotFound:
    hint = "ragforge ls shows the files and their ids"
    if len(id) < _LEAST_OF_ID and any(document.id.startswith(id) for document in documents):
        return NotFound(f"an id needs at least {_LEAST_OF_ID} characters, not {id!r}", hint=hint)
    inside = f"{id.rstrip('/')}/**"
    if any(is_like(document, inside) for document in documents):
        return NotFound(f"{id!r} is a folder", hint=f"for the files in it, write {shlex.quote(inside)}")
    return error


def _ambiguous(id: str, documents: Sequence[Document]) -> UserError:
    shown = [f"{d.id[:_ID_LENGTH]} ({d.sources[0].key if d.sources else d.name})" for d in documents[:_ALIKE_SHOWN]]
    hint = f"use an id or more of the path: {', '.join(shown)}"
    return UserError(f"{id!r} could be {len(documents):,} files", hint=hint)


def list_documents(
    common: Common,
    status: Annotated[Status | None, typer.Option("--status", help="Only files that stand so")] = None,
    type: Annotated[str | None, typer.Option("--type", metavar="TYPE", help="Only files of this type")] = None,
    tag: Annotated[str | None, typer.Option("--tag", metavar="WORD", help="Only files with this tag")] = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="GLOB", help="Only names such as '*.pdf' or 'notes/*.md'")
    ] = None,
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
        and (name is None or is_like(document, name))
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
        names = names_of(documents)
        print_table(_COLUMNS, [_row(d, names[d.id]) for d in documents], [_colour(d) for d in documents])
        _mention_problems(common, documents)


_COLUMNS = (
    Column("id"),
    Column("status"),
    Column("use"),
    Column("name", least=16, most=_NAME_WIDTH),
    Column("type", dropped=True),
    Column("chunks", align_right=True, dropped=True),
    Column("size", align_right=True, dropped=True),
    Column("changed", align_right=True, dropped=True),
    Column("summary", least=16, dropped=True),
)


def _row(document: Document, name: str) -> list[str]:
    is_cut = width_of_terminal() is not None
    return [
        document.id[:_ID_LENGTH],
        f"{document.status}{'!' if document.problem and document.status == Status.READY else ''}",
        "on" if document.enabled else "off",
        fitted(name, _NAME_WIDTH) if is_cut else name,
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
    names = names_of(documents)
    for document in documents:
        print_data(f"{document.id[:_ID_LENGTH]}  {paint(plain(names[document.id]), 'bold')}")
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
    id: Annotated[str, typer.Argument(metavar="ID", help="Id, its beginning, name or end of its path")],
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
        names = names_of(documents)
        first = ", ".join(plain(names[document.id]) for document in documents[:5])
        more = f" and {len(documents) - 5:,} more" if len(documents) > 5 else ""
        if not yes:
            for document in documents:
                for line in _other_sources(document, ids):
                    say(f"{plain(names[document.id])} was {line}")
        if not confirm(f"Remove {first}{more} for good?", yes):
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
    names = names_of(documents)
    for document in documents:
        print_data(f"would remove  {plain(names[document.id])}  ({count(document.chunks, 'chunk')})")
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
        print_data(common.placed(f"         not erased yet: {plain(place)}; `ragforge check` finishes it"))


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
        for name in names_of(documents).values():
            say(f"{word}  {plain(name)}")
