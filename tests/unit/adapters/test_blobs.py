"""Original bytes in a folder."""

from __future__ import annotations

import io
import os
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ragforge.adapters.blobs.folder import FolderBlobs
from ragforge.errors import StoreError, TooLarge


def blobs(folder: Path) -> FolderBlobs:
    return FolderBlobs(folder, lambda: datetime(2026, 3, 1, tzinfo=UTC))


def test_bytes_come_back_as_they_were(tmp_path: Path) -> None:
    store = blobs(tmp_path / "uploads")
    data = os.urandom(3_000_000)
    stored = store.put("owner", io.BytesIO(data), 10_000_000)
    store.sync()
    assert stored.size == len(data)
    with store.open(stored.key) as file:
        assert file.read() == data
    assert list(store.names()) == [stored.key]
    assert (tmp_path / "uploads" / stored.key).stat().st_mode & 0o777 == 0o600


def test_the_same_bytes_twice_have_two_names(tmp_path: Path) -> None:
    store = blobs(tmp_path)
    one, two = (store.put("owner", io.BytesIO(b"same"), 10) for _ in range(2))
    assert one.key != two.key and one.sha256 == two.sha256


def test_too_large_leaves_nothing(tmp_path: Path) -> None:
    store = blobs(tmp_path)
    with pytest.raises(TooLarge):
        store.put("owner", io.BytesIO(b"x" * 101), 100)
    assert list(store.names()) == []
    assert store.put("owner", io.BytesIO(b"x" * 100), 100).size == 100


class Broken(io.BytesIO):
    def read(self, size: int | None = -1) -> bytes:
        raise OSError(5, "Input/output error")


def test_a_source_that_breaks_is_not_taken_for_a_broken_store(tmp_path: Path) -> None:
    store = blobs(tmp_path)
    with pytest.raises(OSError, match="Input/output"):
        store.put("owner", Broken(), 100)
    assert list(store.names()) == []


def test_a_store_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError) as refused:
        blobs(tmp_path / "file").put("owner", io.BytesIO(b"x"), 100)
    assert refused.value.hint


@pytest.mark.parametrize(
    "key", ["../../etc/passwd", "owner/2026-03-01/../x", "/etc/passwd", "", "owner/2026-03-01/abc"]
)
def test_only_names_of_our_own_are_paths(tmp_path: Path, key: str) -> None:
    for use in (blobs(tmp_path).open, blobs(tmp_path).remove):
        with pytest.raises(StoreError):
            use(key)


def test_removing_takes_empty_folders_along_and_may_be_repeated(tmp_path: Path) -> None:
    store = blobs(tmp_path / "uploads")
    stored = store.put("owner", io.BytesIO(b"x"), 10)
    store.remove(stored.key)
    store.remove(stored.key)
    assert os.listdir(tmp_path / "uploads") == []
    store.sync()


def test_threads_that_put_and_remove_do_not_disturb_each_other(swift_path: Path) -> None:
    store = blobs(swift_path)
    problems: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(150):
                stored = store.put("owner", io.BytesIO(b"x"), 10)
                store.sync()
                store.remove(stored.key)
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == [] and list(store.names()) == []
