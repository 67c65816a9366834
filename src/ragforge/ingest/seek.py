"""Looks for byte strings in every file below a folder. A program of its own, which loads little and starts quickly."""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from io import BufferedReader

_PIECE = 1 << 20

Needles = Sequence[tuple[str, bytes]]
"""Byte strings, each with the name of what it is a trace of."""


def seek(root: str, needles: Needles) -> tuple[int, dict[str, list[str]]]:
    """How many bytes were read, and the files in which something of each name is. Files that vanish hold nothing."""
    total = 0
    found: dict[str, list[str]] = {name: [] for name, _ in needles}
    for path in sorted(_files(root)):
        try:
            with open(path, "rb") as file:
                size, names = _search(file, needles)
        except FileNotFoundError:
            continue
        total += size
        for name in names:
            found[name].append(os.path.relpath(path, root).replace(os.sep, "/"))
    return total, found


def _files(root: str) -> Iterator[str]:
    """Every file, also while folders come and go. One that cannot be looked into would leave a hole in the proof."""

    def refuse(problem: OSError) -> None:
        if not isinstance(problem, FileNotFoundError):
            raise problem

    for folder, _, names in os.walk(root, onerror=refuse):
        yield from (path for name in names if os.path.isfile(path := os.path.join(folder, name)))


def _search(file: BufferedReader, needles: Needles) -> tuple[int, set[str]]:
    """A file's size and the names of what is in it. Read, not mapped: a log may be emptied meanwhile."""
    size, names = 0, set[str]()
    overlap = max((len(needle) for _, needle in needles), default=1) - 1
    kept = b""
    while piece := file.read(_PIECE):
        size += len(piece)
        block = kept + piece
        names.update(name for name, needle in needles if name not in names and needle in block)
        kept = block[max(0, len(block) - overlap) :]
    return size, names


def main() -> None:
    asked = json.load(sys.stdin)
    try:
        total, found = seek(asked["root"], [(name, bytes.fromhex(needle)) for name, needle in asked["needles"]])
        print(json.dumps({"bytes": total, "found": found}))
    except OSError as problem:
        print(json.dumps({"problem": [problem.errno, problem.strerror, problem.filename]}))


if __name__ == "__main__":
    main()
