"""`kill -9` at random moments of add, rm and reindex: nothing acknowledged is lost, nothing is half there or twice.

Each victim is forked from this process, works on the workspace and says on a pipe what it was told is durable. The
judge then reads the catalog's file with plain SQL as well as through ragforge.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ragforge import Ragforge
from ragforge.domain.library import FileResult, Outcome
from ragforge.domain.strategy import Strategy
from ragforge.testing.hashing import HashingEmbedder
from ragforge.testing.records import turn
from tests.proof import count, record

SMALL = Strategy(leaf_min=20, leaf_max=40, section_min=5, parent_min=60, parent_max=120)
OTHER = Strategy(name="chars")
FAILPOINTS = (
    "ingest.embedded",
    "ingest.publishing",
    "ingest.published",
    "remove.committed",
    "reindex.splitting",
    "reindex.embedding",
    "reindex.remembering",
    "reindex.swapping",
    "reindex.swapped",
)


class Stage:
    """A folder of files that changes, the workspace beside it, and what is known to be durable."""

    def __init__(self, root: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.docs = root / "docs"
        self.docs.mkdir()
        self.workspace = root / "workspace"
        self.contents: dict[str, set[str]] = {}
        """Every text a file has had: one of them must be what the catalog holds."""
        self.durable: dict[str, str] = {}
        """Path -> text that was acknowledged last."""
        self.gone: set[str] = set()
        for number in range(12):
            self.write(f"file{number}.md")
        with self.open() as forge:
            project = forge.create_project("p", strategy=SMALL, embedder="hashing")
            self.thread = forge.begin_conversation("talk", project="p").id
            with forge._parts.catalog.write() as c:
                for _ in range(3):  # kept while the model did not answer
                    c.conversations.add(forge._scope, project.id, turn(self.thread), "", None)

    def open(self) -> Ragforge:
        return Ragforge.open(self.workspace, embedders={"hashing": HashingEmbedder(64)})

    def write(self, name: str) -> None:
        words = [f"word{self.random.randrange(500)}" for _ in range(self.random.randrange(30, 400))]
        sentences = [" ".join(words[i : i + 9]).capitalize() + "." for i in range(0, len(words), 9)]
        text = f"# Page {self.random.randrange(10**9)}\n\n" + "\n\n".join(sentences) + "\n"
        path = self.docs / name
        path.write_text(text)
        self.contents.setdefault(str(path), set()).add(text)

    def victim(self, work: Callable[[Ragforge, Callable[[object], None]], None]) -> tuple[int, int]:
        """Fork a process that does the work and acknowledges on a pipe. Returns its pid and the pipe's end."""
        reading, writing = os.pipe()
        pid = os.fork()
        if pid:
            os.close(writing)
            return pid, reading
        try:
            os.close(reading)
            with self.open() as forge:
                work(forge, lambda message: (os.write(writing, json.dumps(message).encode() + b"\n"), None)[1])
        finally:
            os._exit(0)

    # -- the three kinds of work

    def add(self, forge: Ragforge, tell: Callable[[object], None]) -> None:
        for event in forge.adding([self.docs], project="p"):
            if isinstance(event, FileResult) and event.outcome in (Outcome.READY, Outcome.UNCHANGED):
                tell(["ready", event.path])

    def remove(self, forge: Ragforge, tell: Callable[[object], None]) -> None:
        documents = forge.documents(project="p")
        for document in self.random.sample(documents, min(2, len(documents))):
            tell(["leaving", document.sources[0].key])
            for _removal in forge.removing([document.id], project="p"):
                tell(["gone", document.sources[0].key])

    def reindex(self, forge: Ragforge, tell: Callable[[object], None]) -> None:
        target = OTHER if forge.project("p").strategy == SMALL else SMALL
        for _progress in forge.reindexing(project="p", strategy=target):
            tell(["progress"])

    # -- judging

    def believe(self, messages: bytes) -> None:
        """Take note of what was acknowledged before the kill; a torn last line was not."""
        for line in messages.split(b"\n")[:-1]:
            kind, *rest = json.loads(line)
            if kind == "ready":
                self.durable[rest[0]] = Path(rest[0]).read_text()
                self.gone.discard(rest[0])
            elif kind == "leaving":  # from here on it may be there or not, but whole
                self.durable.pop(rest[0], None)
            elif kind == "gone":
                self.gone.add(rest[0])

    def judge(self) -> None:
        with self.open() as forge:
            bad = [finding for finding in forge.check() if not finding.ok]
            assert not bad, bad
            documents = forge.documents(project="p")
            held = {source.key: document for document in documents for source in document.sources}
            assert len(held) == len(documents), "a file is there twice"
            for path, text in self.durable.items():
                assert path in held, f"lost: {path}"
                assert held[path].characters == len(text), f"not the acknowledged text: {path}"
            assert not self.gone & held.keys(), "came back after its removal"
            with forge._parts.catalog.read() as c:
                for path, document in held.items():
                    whole = c.documents.text(forge._scope, document.project, document.id)
                    assert whole in self.contents[path], f"half a text: {path}"
            assert len(forge.turns(self.thread, project="p")) == 3
        self.read_file()

    def read_file(self) -> None:
        """The same judged from the file itself, with plain SQL."""
        import pysqlite3.dbapi2 as sqlite

        connection = sqlite.connect(self.workspace / "catalog.db")
        question = connection.execute
        assert question("PRAGMA integrity_check").fetchone()[0] == "ok"
        assert question("SELECT count(*) - count(DISTINCT key) FROM sources").fetchone()[0] == 0
        assert question("SELECT count(*) - count(DISTINCT sha256) FROM versions").fetchone()[0] == 0
        assert not question(
            """SELECT v.ord FROM versions v JOIN documents d ON d.live = v.ord JOIN projects p ON p.ord = d.project
               JOIN generations g ON g.project = p.ord AND g.number = p.generation
               WHERE v.chunks <> (SELECT count(*) FROM chunks c WHERE c.version = v.ord AND c.generation = g.chunks)
                  OR v.chunks = 0"""
        ).fetchall()
        assert not question(
            """SELECT c.id FROM chunks c JOIN generations g ON g.project = c.project AND g.chunks = c.generation
               WHERE g.state = 'live' AND NOT EXISTS (SELECT 1 FROM embeddings e WHERE e.project = c.project
               AND e.text_hash = c.text_hash AND e.embedder = g.embedder)"""
        ).fetchall()
        connection.close()


def run(stage: Stage, work: Callable[[Ragforge, Callable[[object], None]], None], seconds: float | None) -> bool:
    """One victim; killed after `seconds` (or by its failpoint). True if it was killed before its end."""
    pid, pipe = stage.victim(work)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(pid, signal.SIGKILL)
    messages = b""
    while piece := os.read(pipe, 1 << 16):
        messages += piece
    os.close(pipe)
    _, status = os.waitpid(pid, 0)
    stage.believe(messages)
    return os.WIFSIGNALED(status)


def test_random_kills_lose_nothing(tmp_path: Path) -> None:
    stage = Stage(tmp_path, seed=7)
    kills, wanted = 0, count(5, 200)
    began = time.monotonic()
    longest = 0.25
    while kills < wanted:
        for name in stage.random.sample(sorted(os.listdir(stage.docs)), 4):
            stage.write(name)
        if len(list(stage.docs.iterdir())) < 30:
            stage.write(f"new{stage.random.randrange(10**6)}.md")
        for path in list(stage.durable):
            if path in stage.contents and Path(path).read_text() != stage.durable[path]:
                del stage.durable[path]  # changed on disk: the old text or the new one may be there
        work = stage.random.choice([stage.add, stage.add, stage.remove, stage.reindex])
        if work == stage.add:  # what was removed is still on disk: it may come back before that is acknowledged
            stage.gone.clear()
        killed = run(stage, work, stage.random.uniform(0.0, longest))
        longest = min(1.5, longest * 1.1) if killed else max(0.1, longest * 0.8)
        kills += killed
        stage.judge()
    record("kills", random=kills, lost=0, half=0, twice=0, seconds=round(time.monotonic() - began))


@pytest.mark.parametrize("name", FAILPOINTS)
def test_a_kill_at_each_failpoint_loses_nothing(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(tmp_path, seed=11)
    assert not run(stage, stage.add, None)
    for number in range(3):
        stage.write(f"file{number}.md")
        stage.durable.pop(str(stage.docs / f"file{number}.md"), None)
    work = {"ingest": stage.add, "remove": stage.remove, "reindex": stage.reindex}[name.split(".")[0]]
    monkeypatch.setenv("RAGFORGE_TESTING", "1")
    monkeypatch.setenv("RAGFORGE_FAILPOINT", f"{name}:kill")
    assert run(stage, work, None), "the failpoint was not reached"
    monkeypatch.delenv("RAGFORGE_FAILPOINT")
    stage.judge()
    assert not run(stage, work, None), "the same work ends after a restart"
    stage.judge()
