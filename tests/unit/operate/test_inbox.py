"""The inbox: what is kept is durable and private, what is not is gone, and nobody's file is swept."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from pathlib import Path

import pytest

from ragforge.adapters.locks import FileLock
from ragforge.errors import StoreError
from ragforge.operate.inbox import Inbox


def opened(folder: Path, *needed: str) -> Inbox:
    inbox = Inbox(folder, FileLock)
    inbox.open(lambda: needed)
    return inbox


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {"lock"}


def test_what_is_kept_stays_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    inbox = opened(tmp_path / "inbox")
    with inbox.receive("../../etc/passwd") as receiving:
        receiving.write(b"some ")
        receiving.write(b"bytes")
        received = receiving.keep()
    inbox.sync()
    path = inbox.path(received.inbox)
    assert path.parent == tmp_path / "inbox" and path.read_bytes() == b"some bytes"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (received.size, received.sha256) == (10, hashlib.sha256(b"some bytes").hexdigest())
    inbox.remove(received.inbox)
    inbox.remove(received.inbox)
    assert names(tmp_path / "inbox") == set()


def test_what_is_not_kept_is_gone(tmp_path: Path) -> None:
    inbox = opened(tmp_path / "inbox")
    with pytest.raises(ValueError), inbox.receive("a") as receiving:
        receiving.write(b"half")
        raise ValueError
    assert names(tmp_path / "inbox") == set()


def test_nobodys_files_are_swept_at_the_start_unless_another_receives(tmp_path: Path) -> None:
    folder = tmp_path / "inbox"
    first = opened(folder)
    for name in ("a" * 32, "b" * 32):
        (folder / name).write_bytes(b"x")
    opened(folder, "b" * 32).close()
    assert names(folder) == {"a" * 32, "b" * 32}, "the first may be receiving them"
    first.close()
    opened(folder, "b" * 32).close()
    assert names(folder) == {"b" * 32}


def test_what_another_machine_may_be_receiving_is_not_swept_for_a_day(tmp_path: Path) -> None:
    old, new, needed = ("a" * 32, "b" * 32, "c" * 32)
    for name, hours in ((old, 25), (new, 23), (needed, 25)):
        (tmp_path / name).write_bytes(b"x")
        then = time.time() - hours * 3_600
        os.utime(tmp_path / name, (then, then))
    inbox = Inbox(tmp_path, FileLock, shared=True)
    inbox.open(lambda: (needed,))
    inbox.close()
    assert names(tmp_path) == {new, needed}


def test_a_catalog_sweeps_only_what_was_sent_to_itself(tmp_path: Path) -> None:
    folder, word, other = tmp_path / "inbox", "1" * 16, "2" * 16
    inbox = Inbox(folder, FileLock, catalog=lambda: word)
    inbox.open(tuple)
    with inbox.receive("a") as receiving:
        received = receiving.keep()
    inbox.close()
    assert received.inbox.startswith(word) and inbox.path(received.inbox).exists()
    (folder / (other + "b" * 16)).write_bytes(b"of a catalog that a setting names no more")
    Inbox(folder, FileLock, catalog=lambda: word).open(tuple)
    assert names(folder) == {other + "b" * 16}


def test_what_waits_in_a_former_folder_is_brought_along_and_nothing_else(tmp_path: Path) -> None:
    former, needed, left, others = tmp_path / "former", "a" * 32, "a" * 31 + "b", "b" * 32
    former.mkdir()
    for name in (needed, left, others):
        (former / name).write_bytes(name.encode())
    inbox = Inbox(tmp_path / "inbox", FileLock, shared=True, former=former, catalog=lambda: "a" * 16)
    assert inbox.here(needed) == former / needed
    inbox.open(lambda: (needed, "c" * 32))
    assert inbox.here(needed) == tmp_path / "inbox" / needed and inbox.here("c" * 32) is None
    with inbox.read(needed) as file:
        assert file.read() == needed.encode()
    assert names(former) == {others}, "what this catalog knew, and needs no more, is swept"
    assert names(tmp_path / "inbox") == {needed}
    inbox.remove(needed)
    assert names(tmp_path / "inbox") == set()


def test_nobody_is_alone_while_another_receives(tmp_path: Path) -> None:
    first, second = opened(tmp_path / "inbox"), Inbox(tmp_path / "inbox", FileLock)
    with second.alone() as alone:
        assert not alone
    first.close()
    with second.alone() as alone:
        assert alone


@pytest.mark.parametrize("name", ["../catalog.db", "lock", "", "A" * 32, "a" * 31])
def test_only_names_of_its_own_are_paths(tmp_path: Path, name: str) -> None:
    with pytest.raises(StoreError):
        opened(tmp_path / "inbox").path(name)
