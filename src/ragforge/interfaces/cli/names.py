"""How people name files: which ones are meant, and what tells apart those that are called the same."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from ragforge.domain.library import Document
from ragforge.interfaces.cli.output import cut


def is_pattern(text: str) -> bool:
    """Whether it may mean several files."""
    return not set("*?[").isdisjoint(text)


def is_like(document: Document, text: str) -> bool:
    """Whether it names the document or ends a path it came from: `*.pdf`, `notes/2026/*.md`, `notes/**`."""
    whole = os.path.abspath(text) if text.startswith(("./", "../")) else text
    wanted = (f"{whole}/*" if whole.endswith("/**") else whole).split("/")
    paths = {document.name, *(path for source in document.sources for path in (source.name, source.key))}
    return any(_ends_like(path.split("/"), wanted) for path in paths)


def _ends_like(parts: Sequence[str], wanted: Sequence[str]) -> bool:
    """Part by part from the end; `**` stands for any number of them."""
    if not wanted:
        return True
    *before, last = wanted
    if last == "**":
        return any(_ends_like(parts[:length], before) for length in range(len(parts) + 1))
    return bool(parts) and (parts[-1] == last or fnmatchcase(parts[-1], last)) and _ends_like(parts[:-1], before)


def names_of(documents: Sequence[Document]) -> dict[str, str]:
    """What to call each document, by its id."""
    return told_apart({document.id: (document.name, _path(document)) for document in documents})


def _path(document: Document) -> str:
    named = (source.key for source in document.sources if source.name == document.name)
    return next(named, document.name)


def told_apart(files: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """What to call each file, given its name and path: of those with the same name, as much of the path as it takes."""
    alike: dict[str, dict[str, Sequence[str]]] = defaultdict(dict)
    for id, (name, path) in files.items():
        alike[name][id] = path.split("/")
    names: dict[str, str] = {}
    for name, paths in alike.items():
        names |= dict.fromkeys(paths, name) if len(paths) == 1 else _distinct_ends(paths)
    return {id: names[id] for id in files}


def _distinct_ends(paths: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The shortest end of each path that no other has, at least with its folder."""
    ends = Counter(tuple(parts[-length:]) for parts in paths.values() for length in range(1, len(parts) + 1))
    return {
        id: "/".join(
            next((parts[-n:] for n in range(2, len(parts)) if ends[tuple(parts[-n:])] == 1), parts),
        )
        for id, parts in paths.items()
    }


def fitted(name: str, width: int) -> str:
    """A name in so many cells; of one with folders the middle goes first."""
    from rich.cells import cell_len

    if cell_len(name) <= width:
        return name
    folders, _, last = name.rpartition("/")
    return cut(f"{folders.partition('/')[0]}/…/{last}" if "/" in folders else name, width)
