"""Every hostile file through the whole door: sniff, precheck, jail. All end soon, cheaply, and reach nothing.

Files that the prechecks refuse are parsed all the same: the jail has to bound them without that help.
"""

from __future__ import annotations

import gc
import resource
import secrets
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from ragforge.domain.cancel import Cancel
from ragforge.domain.documents import Parsed, ParseFailure, Reason
from ragforge.ingest.jail.limits import Limits
from ragforge.ingest.jail.pool import Jail
from ragforge.ingest.jail.prechecks import precheck
from ragforge.ingest.types import sniff
from ragforge.ports import ParseRequest
from tests.hostile import CANARY, CANARY_URL, HOSTILE
from tests.proof import PROVING, record

LIMITS = Limits() if PROVING else Limits(memory_bytes=512_000_000, cpu_seconds=1, wall_seconds=15)

REFUSED = {
    "deep.docx": Reason.HOSTILE,
    "paragraphs_60mb.docx": Reason.HOSTILE,
    "text_200mb.docx": Reason.HOSTILE,
    "media_1gb.docx": Reason.HOSTILE,
    "media_1gb.pptx": Reason.HOSTILE,
    "entries_100k.docx": Reason.HOSTILE,
    "entries_hidden.docx": Reason.HOSTILE,
    "laughs.docx": Reason.HOSTILE,
    "laughs_utf16.docx": Reason.HOSTILE,
    "quadratic.docx": Reason.HOSTILE,
    "xxe.docx": Reason.HOSTILE,
    "laughs.pptx": Reason.HOSTILE,
    "xxe.pptx": Reason.HOSTILE,
    "traversal.docx": Reason.HOSTILE,
    "absolute.docx": Reason.HOSTILE,
    "twice.docx": Reason.HOSTILE,
    "symlink.docx": Reason.HOSTILE,
    "lying_size.docx": Reason.HOSTILE,
    "overlap.docx": Reason.HOSTILE,
    "zip_in_zip.zip": Reason.HOSTILE,
    "laughs.epub": Reason.HOSTILE,
    "laughs.xml": Reason.HOSTILE,
    "quadratic.xml": Reason.HOSTILE,
    "xxe.xml": Reason.HOSTILE,
    "deep.xml": Reason.HOSTILE,
    "deep_behind_fakes.xml": Reason.HOSTILE,
    "utf7.xml": Reason.HOSTILE,
    "random.docx": Reason.CORRUPT,
}
"""What is turned away before any child is started."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one file. Its text is not kept, so that only our own memory is measured."""

    refused: ParseFailure | None
    failure: ParseFailure | None
    characters: int
    told_secret: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class Run:
    """What became of all files, and of us meanwhile."""

    outcomes: dict[str, Outcome]
    growth: int
    """Bytes by which our own memory grew at most."""
    connections: int


def ingest(jail: Jail, path: Path, word: str) -> Outcome:
    started = time.monotonic()
    size = path.stat().st_size
    with path.open("rb") as file:
        refused = precheck(file, size, path.suffix.lstrip("."))
        kind = sniff(file, path.name, size)
        if isinstance(kind, ParseFailure):
            return Outcome(refused, kind, 0, False, time.monotonic() - started)
        result = jail.parse(ParseRequest(kind.parser, path.name), file, Cancel())
    seconds = time.monotonic() - started
    if isinstance(result, Parsed):
        return Outcome(refused, None, len(result.text), word in result.text, seconds)
    return Outcome(refused, result, 0, word in result.message, seconds)


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


class Listener:
    """Counts who calls."""

    def __init__(self) -> None:
        self.calls = 0
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}/canary"
        self._thread = threading.Thread(target=self._count)
        self._thread.start()

    def _count(self) -> None:
        while True:
            connection, _ = self._server.accept()
            with connection:
                if connection.recv(4) == b"stop":
                    return
            self.calls += 1

    def close(self) -> None:
        with socket.create_connection(self._server.getsockname()) as connection:
            connection.sendall(b"stop")
        self._thread.join()
        self._server.close()


class MemoryWatch(threading.Thread):
    """Notes the most memory this process held."""

    def __init__(self) -> None:
        super().__init__()
        gc.collect()
        self.first = self.most = resident()
        self.done = threading.Event()

    def run(self) -> None:
        while not self.done.wait(0.01):
            self.most = max(self.most, resident())


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    word = secrets.token_hex(16)
    jail, listener = Jail(LIMITS, concurrency=2), Listener()
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(2) as threads:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / CANARY).write_text(word)
        (folder / CANARY_URL).write_text(listener.url)
        paths = [make(folder) for make in HOSTILE.values()]
        watch = MemoryWatch()
        watch.start()
        try:
            outcomes = dict(zip(HOSTILE, threads.map(lambda path: ingest(jail, path, word), paths), strict=True))
        finally:
            watch.done.set()
            watch.join()
            jail.close()
            listener.close()
        assert sorted(path.name for path in folder.iterdir()) == sorted({*HOSTILE, CANARY, CANARY_URL})
    record(
        "hostile_files",
        kinds=len(outcomes),
        slowest_seconds=round(max(outcome.seconds for outcome in outcomes.values()), 1),
        parent_grown_mb=round((watch.most - watch.first) / 1e6, 1),
        canaries_read=sum(outcome.told_secret for outcome in outcomes.values()),
        connections=listener.calls,
    )
    yield Run(outcomes, watch.most - watch.first, listener.calls)


@pytest.mark.parametrize("name", HOSTILE)
def test_it_ends_soon_with_text_or_a_reason(run: Run, name: str) -> None:
    outcome = run.outcomes[name]
    assert outcome.seconds < 20
    if outcome.failure is None:
        assert 0 < outcome.characters <= LIMITS.output_characters
    else:
        assert outcome.failure.message
        assert outcome.failure.hint
        assert outcome.failure.reason is not Reason.NOT_JAILED


@pytest.mark.parametrize("name", HOSTILE)
def test_what_can_be_seen_from_outside_is_refused_at_once(run: Run, name: str) -> None:
    refused = run.outcomes[name].refused
    assert (refused and refused.reason) == REFUSED.get(name)


def test_no_secret_is_read(run: Run) -> None:
    assert [name for name, outcome in run.outcomes.items() if outcome.told_secret] == []


def test_nobody_is_called(run: Run) -> None:
    assert run.connections == 0


def test_our_own_memory_stays_small(run: Run) -> None:
    assert run.growth < 50_000_000
