"""What every test shares: a closed network, and for those that need it one Postgres, one S3 and a model's weights."""

from __future__ import annotations

import gc
import ipaddress
import os
import shutil
import signal
import ssl
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling, Scheduling

from ragforge.adapters import weights
from ragforge.testing.postgres import TemporaryPostgres
from ragforge.testing.s3 import TemporaryS3
from tests import loaded, schemas
from tests.proof import PROVING, count, note_failure

pytest.register_assert_rewrite("ragforge.testing.contracts")

_IN_MEMORY = "ragforge-tests-"
_BROWSER = "tests/browser/"
_ROOM = 8 << 30
"""Bytes, several times what a whole run leaves in its temporary folders."""


def _is_local(host: object) -> bool:
    if not isinstance(host, str | bytes | None):
        return False
    name = host.decode() if isinstance(host, bytes) else host
    if name in (None, "", "localhost"):
        return True
    try:
        return ipaddress.ip_address(name.split("%")[0]).is_loopback
    except ValueError:
        return False


def _refuse_network(event: str, arguments: tuple[object, ...]) -> None:
    """Only this machine may be reached, whatever library tries."""
    if event in ("socket.connect", "socket.sendto"):
        address = arguments[1]
        outside = isinstance(address, tuple) and not _is_local(address[0])
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        outside = not _is_local(arguments[0])
    else:
        return
    if outside:
        raise PermissionError(f"tests do not use the network: {event} {arguments[-1]!r}")


sys.addaudithook(_refuse_network)


settings.register_profile("counted", max_examples=count(40, 100))
settings.load_profile("counted")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "embedded(reason, part): holds where the part, catalog or indexes, is local files, nowhere else"
    )
    if os.environ.get("RAGFORGE_TEST_STACK"):
        from tests import stacks

        config.pluginmanager.register(stacks)
    _hear_ctrl_c()
    _work_in_memory(config)


def _work_in_memory(config: pytest.Config) -> None:
    """Thousands of workspaces wait for the disk at every commit: `tmp_path` is in memory where there is room for it,
    unless `--basetemp` says otherwise. Full proofs are of the disk."""
    if config.option.basetemp or hasattr(config, "workerinput"):
        return
    memory = _memory()
    if memory is not None:
        _sweep(memory)
    if _has_room(memory):
        config.option.basetemp = tempfile.mkdtemp(prefix=f"{_IN_MEMORY}{os.getpid()}-", dir=memory)
        config.add_cleanup(partial(shutil.rmtree, config.option.basetemp, ignore_errors=True))


def _sweep(memory: Path) -> None:
    """A run that was killed could not remove its folder, and memory is dear."""
    for folder in memory.glob(f"{_IN_MEMORY}*"):
        pid = folder.name.removeprefix(_IN_MEMORY).partition("-")[0]
        if not Path("/proc", pid).exists():
            shutil.rmtree(folder, ignore_errors=True)


def _memory() -> Path | None:
    memory = Path("/dev/shm")
    return memory if os.access(memory, os.W_OK) else None


def _has_room(memory: Path | None) -> bool:
    return not PROVING and memory is not None and shutil.disk_usage(memory).free > _ROOM


def _hear_ctrl_c() -> None:
    """A shell lets what it starts in the background ignore Ctrl-C, and all children of that would ignore it too: the
    tests of Ctrl-C would wait for nothing."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class _ByFile(LoadScopeScheduling):  # type: ignore[misc]
    """A file's tests follow each other, and share what they make. Those with a browser count as one file: two at once
    wait for each other."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return _BROWSER if file.startswith(_BROWSER) else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling:
    return _ByFile(config, log)


def pytest_collection_finish() -> None:
    """Thousands of tests are a large heap, and each full collection of it would stop every thread for a second."""
    gc.collect()
    gc.freeze()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        note_failure(report.nodeid)


@pytest.fixture(scope="session", autouse=True)
def _made_once() -> Iterator[None]:
    with schemas.replayed(), loaded.shared():
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_certificates() -> Iterator[None]:
    """Nobody on this machine speaks TLS: the certificates of all the world are not read anew for every client."""
    with pytest.MonkeyPatch.context() as patch:
        if not PROVING:
            patch.setattr(ssl.SSLContext, "load_verify_locations", lambda *_, **__: None)
        yield


@pytest.fixture(scope="session")
def memory_folder() -> Path | None:
    """A folder in memory where there is one: for tests that write much and do not look at durability."""
    return _memory()


@pytest.fixture
def swift_path(memory_folder: Path | None) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=memory_folder) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def postgres(memory_folder: Path | None) -> Iterator[TemporaryPostgres]:
    with TemporaryPostgres(memory_folder if _has_room(memory_folder) else None) as server:
        yield server


@pytest.fixture(scope="session")
def s3_server() -> Iterator[TemporaryS3]:
    with TemporaryS3() as server:
        yield server


@pytest.fixture
def s3_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between its tries the library for S3 rests up to three seconds: here it tries as often, and rests less."""
    from botocore.retries.standard import ExponentialBackoff

    if not PROVING:
        monkeypatch.setattr(ExponentialBackoff, "delay_amount", lambda *_: 0.05)


@pytest.fixture
def s3(s3_server: TemporaryS3, s3_soon: None, monkeypatch: pytest.MonkeyPatch) -> TemporaryS3:
    """A server that lets this process in."""
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    return s3_server


@pytest.fixture(scope="session")
def models() -> Path:
    """A folder that holds the verified minilm model."""
    given = os.environ.get("RAGFORGE_MODELS")
    folder = Path(given) if given else Path(__file__).parents[1] / ".cache" / "models"
    weights.pull("minilm", folder)
    return folder
