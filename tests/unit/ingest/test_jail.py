"""The jail against a parser that does its worst."""

from __future__ import annotations

import io
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import pytest

from ragforge.domain.cancel import Cancel, Cancelled
from ragforge.domain.documents import Parsed, ParseFailure, Reason
from ragforge.ingest.jail import pool
from ragforge.ingest.jail.limits import Limits
from ragforge.ingest.jail.pool import Jail
from ragforge.ingest.parse.registry import Parser
from ragforge.ports import ParseRequest
from tests import evil

HERE = str(Path(evil.__file__).parent)
PARSERS = {"evil": Parser("evil"), "missing": Parser("no_such_module")}
MEGABYTE = 1_000_000
SMALL = Limits(
    memory_bytes=200 * MEGABYTE,
    cpu_seconds=20,
    wall_seconds=60,
    file_size_bytes=5 * MEGABYTE,
    output_characters=2 * MEGABYTE,
    output_bytes=4 * MEGABYTE,
)
REQUEST = ParseRequest("evil", "evil.bin")


@pytest.fixture(scope="module")
def jail() -> Iterator[Jail]:
    jail = Jail(SMALL, parsers=PARSERS, paths=[HERE])
    yield jail
    jail.close()


@pytest.fixture
def everyones() -> Iterator[Path]:
    """A folder every user can read and write."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


def run(jail: Jail, order: str, cancel: Cancel | None = None) -> Parsed | ParseFailure:
    return jail.parse(REQUEST, io.BytesIO(order.encode()), cancel or Cancel())


def text(result: Parsed | ParseFailure) -> str:
    assert isinstance(result, Parsed), result
    return result.text


def failure(result: Parsed | ParseFailure) -> ParseFailure:
    assert isinstance(result, ParseFailure), result
    assert result.hint
    return result


def children(process: int) -> set[int]:
    return {int(pid) for pid in Path(f"/proc/{process}/task/{process}/children").read_text().split()}


def launcher_of(jail: Jail) -> int:
    assert text(run(jail, "noise"))  # what it forks to get ready is gone by then
    launched = jail._launched
    assert launched is not None
    return launched.process.pid


def wait_until(what: str, condition: object) -> None:
    assert callable(condition)
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


# --- what comes back


def test_a_result_comes_back_whole(jail: Jail) -> None:
    assert run(jail, "marked") == evil.MARKED


def test_a_file_on_disk_is_read_whatever_its_position(jail: Jail, tmp_path: Path) -> None:
    path = tmp_path / "order"
    path.write_text("hello disk")
    with path.open("rb") as file:
        file.seek(4)
        assert text(jail.parse(REQUEST, file, Cancel())) == "hello disk"
        assert file.tell() == 4


def test_a_file_open_for_writing_is_safe_from_its_parser(jail: Jail, tmp_path: Path) -> None:
    path = tmp_path / "order"
    path.write_text("overwrite_input")
    with path.open("r+b") as file:
        handle: BinaryIO = file
        jail.parse(REQUEST, handle, Cancel())
    assert path.read_text() == "overwrite_input"


def test_parsers_that_need_no_jail_run_here() -> None:
    result = Jail(SMALL).parse(ParseRequest("text", "a.txt"), io.BytesIO(b"plain words"), Cancel())
    assert text(result) == "plain words"


def test_a_parser_that_cannot_be_loaded_is_said_clearly(jail: Jail) -> None:
    problem = failure(jail.parse(ParseRequest("missing", "a"), io.BytesIO(b"x"), Cancel()))
    assert problem.reason is Reason.CRASHED
    assert "no_such_module" in problem.message


def test_long_text_is_refused_by_characters(jail: Jail) -> None:
    assert failure(run(jail, f"long_text {3 * MEGABYTE}")).reason is Reason.TOO_LARGE


def test_a_child_that_answers_without_end_is_cut_off(jail: Jail) -> None:
    assert failure(run(jail, "lie")).reason is Reason.TOO_LARGE


def test_nonsense_from_a_child_is_a_failure(jail: Jail) -> None:
    assert failure(run(jail, "lie nonsense")).reason is Reason.CRASHED


# --- limits


@pytest.mark.parametrize(
    ("order", "reason", "word"),
    [
        (f"allocate {4_000 * MEGABYTE}", Reason.MEMORY, "memory"),
        ("grow", Reason.MEMORY, "memory"),
        ("native_abort", Reason.CRASHED, "SIGABRT"),
        ("segfault", Reason.CRASHED, "SIGSEGV"),
    ],
)
def test_a_limit_or_crash_becomes_a_failure(jail: Jail, order: str, reason: Reason, word: str) -> None:
    problem = failure(run(jail, order))
    assert (problem.reason, word in problem.message) == (reason, True), problem


@pytest.mark.parametrize(
    ("order", "limits", "message"),
    [
        ("spin", replace(SMALL, cpu_seconds=1), "parser exceeded 1 s"),
        ("spin_stubbornly", replace(SMALL, cpu_seconds=1), "parser exceeded 1 s"),
        ("sleep 60", replace(SMALL, wall_seconds=0.5), "parser exceeded 0.5 s"),
    ],
)
def test_time_is_bounded(order: str, limits: Limits, message: str) -> None:
    jail = Jail(limits, parsers=PARSERS, paths=[HERE])
    started = time.monotonic()
    try:
        problem = failure(run(jail, order))
    finally:
        jail.close()
    assert (problem.reason, problem.message) == (Reason.TIMEOUT, message)
    assert time.monotonic() - started < 30


def test_memory_is_watched_where_the_system_does_not_bound_it() -> None:
    watched = Jail(Limits(memory_bytes=200 * MEGABYTE, watch_memory=True), parsers=PARSERS, paths=[HERE])
    try:
        assert text(run(watched, f"allocate {50 * MEGABYTE}")) == f"took {50 * MEGABYTE}"
        assert failure(run(watched, "grow")).reason is Reason.MEMORY
    finally:
        watched.close()


def test_a_child_cannot_fill_the_disk_with_a_file(jail: Jail) -> None:
    assert text(run(jail, f"write_temporary {20 * MEGABYTE}")) == f"wrote {5 * MEGABYTE}"


# --- walls


def test_no_file_can_be_read(jail: Jail, everyones: Path) -> None:
    canary = everyones / "canary"
    canary.write_text("secret word")
    canary.chmod(0o644)
    for path in (canary, Path("/etc/passwd"), Path(f"/proc/{os.getpid()}/environ")):
        assert "Permission" in failure(run(jail, f"read {path}")).message


def test_no_file_can_be_written_or_changed(jail: Jail, everyones: Path) -> None:
    mine = everyones / "mine"
    mine.touch(mode=0o600)
    failure(run(jail, f"write {everyones / 'new'}"))
    failure(run(jail, f"chmod {mine}"))
    assert [path.name for path in everyones.iterdir()] == ["mine"]
    assert mine.stat().st_mode & 0o777 == 0o600


def test_no_network(jail: Jail) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.05)
        failure(run(jail, f"connect {listener.getsockname()[1]}"))
        with pytest.raises(TimeoutError):
            listener.accept()


@pytest.mark.parametrize("order", ["fork_bomb", "execute", "kill_launcher"])
def test_no_other_process(jail: Jail, order: str) -> None:
    launcher = launcher_of(jail)
    failure(run(jail, order))
    assert text(run(jail, "hello again")) == "hello again"
    assert launcher_of(jail) == launcher
    assert children(launcher) == set()


def test_the_child_sees_nothing_of_ours_and_may_use_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    jail = Jail(SMALL, parsers=PARSERS, paths=[HERE])
    try:
        seen = text(run(jail, "surroundings"))
    finally:
        jail.close()
    assert "KEY" not in seen
    assert "folder []" in seen


def test_nothing_stays_from_one_file_to_the_next(jail: Jail) -> None:
    assert text(run(jail, "remember one")) == text(run(jail, "remember two")) == "before: nothing"


def test_a_childs_noise_reaches_nobody(jail: Jail, capfd: pytest.CaptureFixture[str]) -> None:
    assert text(run(jail, "noise")) == "input: ''"
    assert capfd.readouterr() == ("", "")


# --- life and death


def test_many_threads_at_once() -> None:
    jail = Jail(SMALL, concurrency=3, parsers=PARSERS, paths=[HERE])
    orders = [f"hello {number}" for number in range(20)] + ["native_abort", "sleep 0.2"]
    try:
        with ThreadPoolExecutor(6) as threads:
            results = list(threads.map(lambda order: run(jail, order), orders))
    finally:
        jail.close()
    assert [text(result) for result in results[:20]] == orders[:20]
    assert failure(results[20]).reason is Reason.CRASHED
    assert text(results[21]) == "rested"


def test_no_more_children_than_allowed() -> None:
    jail = Jail(SMALL, concurrency=2, parsers=PARSERS, paths=[HERE])
    try:
        launcher = launcher_of(jail)
        with ThreadPoolExecutor(6) as threads:
            waiting = [threads.submit(run, jail, "sleep 0.2") for _ in range(6)]
            most = 0
            while not all(future.done() for future in waiting):
                most = max(most, len(children(launcher)))
                time.sleep(0.005)
    finally:
        jail.close()
    assert most == 2


def test_cancelling_ends_the_child_at_once(jail: Jail) -> None:
    cancel = Cancel()
    threading.Timer(0.2, cancel.set).start()
    started = time.monotonic()
    with pytest.raises(Cancelled):
        run(jail, "sleep 60", cancel)
    assert time.monotonic() - started < 20
    launcher = launcher_of(jail)
    wait_until("the child is gone", lambda: not children(launcher))


def test_nothing_is_left_behind() -> None:
    before = set(os.listdir("/proc/self/fd"))
    jail = Jail(SMALL, parsers=PARSERS, paths=[HERE])
    launcher = launcher_of(jail)
    run(jail, "hello first")
    descriptors = len(os.listdir(f"/proc/{launcher}/fd"))
    launched = jail._launched
    assert launched is not None
    for order in ("hello a", "write_temporary 1000", "native_abort", "lie", "lie nonsense"):
        run(jail, order)
    with pytest.raises(Cancelled):
        run(jail, "sleep 60", Cancel(0.1))
    wait_until("children are gone", lambda: not children(launcher))
    wait_until("their folders are gone", lambda: not list(launched.folder.iterdir()))
    assert len(os.listdir(f"/proc/{launcher}/fd")) == descriptors
    jail.close()
    assert not launched.folder.exists()
    assert not Path(f"/proc/{launcher}").exists()
    assert set(os.listdir("/proc/self/fd")) == before


def test_a_dead_launcher_is_replaced(jail: Jail) -> None:
    first = launcher_of(jail)
    os.kill(first, signal.SIGKILL)
    assert text(run(jail, "hello again")) == "hello again"
    assert launcher_of(jail) != first


def test_a_file_is_tried_again_when_the_launcher_dies_under_it(jail: Jail) -> None:
    first = launcher_of(jail)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(run, jail, "sleep 1")
        wait_until("a child runs", lambda: children(first))
        orphan = children(first).pop()
        os.kill(first, signal.SIGKILL)
        assert text(waiting.result()) == "rested"
    wait_until("the first child died with its launcher", lambda: not Path(f"/proc/{orphan}").exists())


def test_closing_fails_the_files_under_way_and_ends_all() -> None:
    jail = Jail(SMALL, parsers=PARSERS, paths=[HERE])
    launcher = launcher_of(jail)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(run, jail, "sleep 60")
        wait_until("a child runs", lambda: children(launcher))
        jail.close()
        assert failure(waiting.result(timeout=30)).reason is Reason.CRASHED
    jail.close()


_VICTIM = """
import io, sys, threading
from ragforge.domain.cancel import Cancel
from ragforge.ingest.jail.pool import Jail
from ragforge.ingest.parse.registry import Parser
from ragforge.ports import ParseRequest
jail = Jail(parsers={"evil": Parser("evil")}, paths=[sys.argv[1]])
jail.parse(ParseRequest("evil", "e"), io.BytesIO(b"noise"), Cancel())  # what is forked to get ready is gone by then
print(jail._launched.process.pid, jail._launched.folder, flush=True)
jail.parse(ParseRequest("evil", "e"), io.BytesIO(b"sleep 60"), Cancel())
"""


def test_everything_dies_with_the_parent() -> None:
    with subprocess.Popen([sys.executable, "-c", _VICTIM, HERE], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        launcher, folder = parent.stdout.readline().split()
        wait_until("a child runs", lambda: children(int(launcher)))
        (child,) = children(int(launcher))
        parent.kill()
    for process in (launcher, child):
        wait_until("the family is gone", lambda process=process: not Path(f"/proc/{process}").exists())
    wait_until("its folder is gone", lambda: not Path(folder).exists())


# --- systems without walls


def test_without_limits_a_jailed_parser_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "can_jail", lambda: False)
    problem = failure(run(Jail(SMALL, parsers=PARSERS, paths=[HERE]), "hello"))
    assert problem.reason is Reason.NOT_JAILED
    assert "--unsafe-parsers" in problem.hint


def test_without_limits_the_user_may_ask_for_a_child_bound_by_time_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "can_jail", lambda: False)
    jail = Jail(replace(SMALL, wall_seconds=20), unsafe=True, parsers=PARSERS, paths=[HERE])
    hasty = Jail(replace(SMALL, wall_seconds=0.5), unsafe=True, parsers=PARSERS, paths=[HERE])
    assert run(jail, "marked") == evil.MARKED
    assert text(run(jail, "noise")) == "input: ''"
    assert failure(run(hasty, "sleep 60")).message == "parser exceeded 0.5 s"
    assert failure(run(jail, "segfault")).reason is Reason.CRASHED
    with pytest.raises(Cancelled):
        run(jail, "sleep 60", Cancel(0.3))
