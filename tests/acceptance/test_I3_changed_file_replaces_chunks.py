"""I3: a manifest row for each file; the same bytes once; a changed file is never there twice or not at all."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from pathlib import Path

from ragforge import Ragforge
from ragforge.domain.library import Outcome
from tests.forge import faults, open_forge, prose, text_of
from tests.proof import count, record


def test_I3_a_manifest_row_for_each_file(swift_path: Path) -> None:
    path = swift_path / "note.md"
    path.write_text(prose(1))
    with open_forge(swift_path / "workspace") as forge:
        forge.add(path, project="p")
        (document,) = forge.documents(project="p")
        (source,) = document.sources
        assert (source.key, source.name) == (str(path), "note.md")
        assert source.sha256 == document.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
        assert (source.size, source.mtime_ns) == (path.stat().st_size, path.stat().st_mtime_ns)
        assert (document.type, document.mime) == ("markdown", "text/markdown")


def test_I3_the_same_bytes_are_stored_once(swift_path: Path) -> None:
    docs = swift_path / "docs"
    docs.mkdir()
    for name in ("a.md", "b.md", "c.md"):
        (docs / name).write_text(prose(1))
    with open_forge(swift_path / "workspace") as forge:
        report = forge.add(docs, project="p")
        assert (report.count(Outcome.READY), report.count(Outcome.DUPLICATE)) == (1, 2)
        (document,) = forge.documents(project="p")
        assert {source.name for source in document.sources} == {"a.md", "b.md", "c.md"}
        assert len(list((swift_path / "workspace" / "uploads").glob("*/*/*"))) == 1
        (docs / "b.md").write_text(prose(2))  # leaves the others alone
        assert forge.add(docs, project="p").count(Outcome.READY) == 1
        assert len(forge.documents(project="p")) == 2
        assert faults(forge) == []


def test_I3_touched_but_not_changed_is_not_published_again(swift_path: Path) -> None:
    path = swift_path / "note.md"
    path.write_text(prose(1))
    with open_forge(swift_path / "workspace") as forge:
        forge.add(path, project="p")
        before = forge.chunks("note.md", project="p")
        os.utime(path, ns=(1, 1))
        assert forge.add(path, project="p").count(Outcome.UNCHANGED) == 1
        assert forge.chunks("note.md", project="p") == before
        assert faults(forge) == []


class Reader:
    """Looks at the document again and again and notes every moment that should not be."""

    def __init__(self, forge: Ragforge) -> None:
        self.reads = 0
        self.wrong: list[str] = []
        self._forge = forge

    def look(self) -> None:
        with self._forge._parts.catalog.read() as c:
            project = c.projects.get(self._forge._scope, "p").id
            documents = c.documents.all(self._forge._scope, project)
            chunks = [k for d in documents for k in c.documents.chunks(self._forge._scope, project, d.id)]
        self.reads += 1
        versions = {chunk.text.split("marker", 1)[1][:6] for chunk in chunks if "marker" in chunk.text}
        if len(documents) != 1 or len(versions) != 1 or len({chunk.version for chunk in chunks}) != 1:
            self.wrong.append(f"{len(documents)} documents, versions {sorted(versions)}")
        elif len(chunks) != documents[0].chunks:
            self.wrong.append(f"{len(chunks)} of {documents[0].chunks} chunks")


def version(number: int) -> str:
    """A text of several chunks, each of which tells the version."""
    return "# Title\n\n" + "\n\n".join(
        f"Part {part} of marker{number:06} " + "and words follow " * 12 + "." for part in range(6)
    )


def test_I3_a_reader_sees_the_old_or_the_new_text_never_both_or_neither(swift_path: Path) -> None:
    path = swift_path / "note.md"
    path.write_text(version(0))
    times = count(9, 500)
    with open_forge(swift_path / "workspace") as forge, open_forge(swift_path / "workspace") as other:
        forge.add(path, project="p")
        readers = [Reader(forge), Reader(other)]
        done = threading.Event()

        def read(reader: Reader) -> None:
            while not done.is_set():
                reader.look()
                time.sleep(0.001)

        threads = [threading.Thread(target=read, args=(reader,)) for reader in readers]
        for thread in threads:
            thread.start()
        for number in range(1, times + 1):
            path.write_text(version(number))
            (result,) = forge.add(path, project="p").files
            assert result.replaced
        done.set()
        for thread in threads:
            thread.join()
        reads = sum(reader.reads for reader in readers)
        assert [wrong for reader in readers for wrong in reader.wrong] == []
        assert reads > times and f"marker{times:06}" in text_of(forge, "note.md")
        assert faults(forge) == []
    record("replacements", replaced=times, reads=reads, both_or_neither=0)


def test_I3_a_reader_in_another_process_sees_the_same(swift_path: Path) -> None:
    path = swift_path / "note.md"
    path.write_text(version(0))
    with open_forge(swift_path / "workspace") as forge:
        forge.add(path, project="p")
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        code = 1
        try:
            with open_forge(swift_path / "workspace") as forge:
                reader = Reader(forge)
                os.write(writing, b"r")
                ends = time.monotonic() + 60
                while not (swift_path / "done").exists() and time.monotonic() < ends:
                    reader.look()
                code = 0 if reader.reads > 10 and not reader.wrong else 2
        finally:
            os._exit(code)
    os.read(reading, 1)
    with open_forge(swift_path / "workspace") as forge:
        for number in range(1, count(8, 200)):
            path.write_text(version(number))
            forge.add(path, project="p")
    (swift_path / "done").touch()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    os.close(reading)
    os.close(writing)
