"""The documents that come with a set of questions, one Markdown file for each, and how questions find theirs."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from ragforge.domain.documents import digest
from ragforge.domain.library import Document
from ragforge.errors import UserError
from ragforge.evaluate.questions import BadLine, Problems, id_of, json_object, lines_of

ELSEWHERE = "--documents FOLDER writes them elsewhere, --no-corpus leaves them out"
_ENDING = ".md"
_LONGEST = 160
_UNSAFE = set('\\:*?"<>|%')
UNCLEAR = "use an id or a path instead and import the questions again; ragforge ls shows the ids"
_SHORT_ID = 8
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Entry:
    """A document of a corpus file."""

    id: str
    text: str
    """As Markdown, its title as the heading. Empty if there is nothing to read."""


@dataclass(frozen=True, slots=True)
class Written:
    """The files of a corpus, and how many of its entries held no text."""

    files: tuple[Path, ...]
    empty: int


def check_corpus(file: Path) -> frozenset[str]:
    """The names of its files. Raises `UserError` that names the bad lines, before anything is written."""
    problems, first = Problems(file), dict[str, int]()
    for number, line in lines_of(file):
        try:
            name = file_name(_entry(line).id)
            if first.setdefault(name, number) != number:
                raise BadLine(f"the same document as line {first[name]}")
        except BadLine as problem:
            problems.add(number, problem)
    problems.check()
    return frozenset(first)


def write_corpus(file: Path, folder: Path) -> Written:
    """A Markdown file for each entry with text. Files that are right already are not touched."""
    files, empty = [], 0
    try:
        for entry in (_entry(line) for _, line in lines_of(file)):
            if not entry.text:
                empty += 1
                continue
            path = folder / file_name(entry.id)
            text = entry.text.encode()
            if not path.is_file() or path.read_bytes() != text:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(text)
            files.append(path)
    except OSError as problem:
        raise UserError(f"cannot write the documents to {folder}: {problem.strerror}", hint=ELSEWHERE) from problem
    return Written(tuple(files), empty)


def _entry(line: str | BadLine) -> Entry:
    if isinstance(line, BadLine):
        raise line
    fields = json_object(line)
    title, text = (_prose(fields.get(name), name) for name in ("title", "text"))
    body = "\n\n".join(part for part in (f"# {' '.join(title.split())}" if title else "", text) if part)
    return Entry(id_of(fields.get("_id"), 'the "_id"'), f"{body}\n" if body else "")


def _prose(value: object, name: str) -> str:
    if value is not None and not isinstance(value, str):
        raise BadLine(f'"{name}" is no text')
    text = (value or "").replace("\x00", " ").strip()
    return text.encode(errors="replace").decode()


def file_name(id: str) -> str:
    """The path of an entry's file: its id, with what a file system could take amiss written as %XX."""
    *folders, name = (_part(part) for part in id.split("/"))
    name = name if name.endswith(_ENDING) else name + _ENDING
    return "/".join((*folders, name))


def _part(part: str) -> str:
    safe = "".join(quote(c, safe="") if c in _UNSAFE or unicodedata.category(c)[0] == "C" else c for c in part)
    safe = f"%2E{safe[1:]}" if safe.startswith(".") else safe or "%2F"
    if len(safe.encode()) > _LONGEST:
        safe = f"{safe[: _LONGEST // 4]}-{digest(part)[:16]}"
    return safe


class Names:
    """What the questions call a document -> its id."""

    def __init__(self, documents: Iterable[Document], folder: str = "") -> None:
        self._folder = folder
        self._ids: dict[str, set[str]] = {}
        self._paths: dict[str, set[str]] = {}
        self._names: dict[str, set[str]] = {}
        self._stems: dict[str, set[str]] = {}
        self._keys: dict[str, tuple[str, ...]] = {}
        for document in documents:
            self._keys[document.id] = tuple(source.key for source in document.sources)
            _put(self._ids, document.id, document.id, document.id[:_SHORT_ID])
            _put(self._paths, document.id, *self._keys[document.id])
            names = {document.name, *(source.name for source in document.sources)}
            _put(self._names, document.id, *names)
            _put(self._stems, document.id, *(Path(name).stem for name in names))

    def find(self, name: str) -> list[str]:
        """Every document that is called so: by id, path, name, name without ending, or the end of its path."""
        return sorted(next((found for found in self._candidates(name) if found), ()))

    def unclear(self, name: str) -> str:
        """What to say after a name that several documents share; nothing if it is clear."""
        found = self.find(name)
        ids = ", ".join(id[:_SHORT_ID] for id in found[:_SHOWN])
        more = ", …" if len(found) > _SHOWN else ""
        return f"could be {len(found):,} files ({ids}{more})" if len(found) > 1 else ""

    def _candidates(self, name: str) -> Iterator[set[str]]:
        """From the surest way to name a document to the vaguest."""
        if self._folder:
            yield self._paths.get(f"{self._folder}/{file_name(name)}", set())
        yield self._ids.get(name, set())
        yield self._paths.get(name, set())
        yield self._names.get(name, set())
        yield self._stems.get(name, set())
        if "/" in name:
            last = name.rpartition("/")[2]
            alike = self._names.get(last, set()) | self._stems.get(last, set())
            yield {id for id in alike if any(_ends_with(key, f"/{name}") for key in self._keys[id])}


def _put(index: dict[str, set[str]], id: str, *names: str) -> None:
    for name in names:
        index.setdefault(name, set()).add(id)


def _ends_with(path: str, end: str) -> bool:
    return path.endswith(end) or path.rpartition(".")[0].endswith(end)
