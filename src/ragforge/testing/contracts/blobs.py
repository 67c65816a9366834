"""What every store of original bytes keeps. Subclass, give the fixture `blobs`, and pytest runs it all."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from ragforge.errors import StoreError, TooLarge
from ragforge.ports import BlobStore

MB = 1_000_000
LIMIT = 100 * MB
KEY = f"owner/2026-03-01/{'0' * 32}"
SIZES = (0, 1, 1 << 20, (1 << 20) + 1, 8 << 20, 19 * MB)
"""Around what is sent or read at a time."""


def march() -> datetime:
    """When all of it is stored."""
    return datetime(2026, 3, 1, tzinfo=UTC)


def some_bytes(size: int) -> bytes:
    return hashlib.shake_128(str(size).encode()).digest(size)


class Broken(io.BytesIO):
    """A file whose disk fails after its bytes."""

    def read(self, size: int | None = -1) -> bytes:
        if piece := super().read(size):
            return piece
        raise OSError(5, "Input/output error")


def breaking(data: bytes) -> Iterator[bytes]:
    yield data
    raise OSError(5, "Input/output error")


class BlobStoreContract:
    """The store is empty at the beginning of each test, and its clock shows `march`."""

    @pytest.mark.parametrize("size", SIZES)
    def test_bytes_come_back_as_they_were(self, blobs: BlobStore, size: int) -> None:
        data = some_bytes(size)
        stored = blobs.put("owner", io.BytesIO(data), LIMIT)
        blobs.sync()
        assert (stored.size, stored.sha256) == (size, hashlib.sha256(data).hexdigest())
        with blobs.open(stored.key) as file:
            assert file.read() == data
        assert stored.key.startswith("owner/2026-03-01/")

    def test_it_can_be_reached(self, blobs: BlobStore) -> None:
        blobs.put("owner", io.BytesIO(b"x"), LIMIT)
        blobs.reach()

    def test_it_can_be_read_in_any_order(self, blobs: BlobStore) -> None:
        data = some_bytes(19 * MB)
        with blobs.open(blobs.put("owner", io.BytesIO(data), LIMIT).key) as file:
            assert file.seek(0, io.SEEK_END) == len(data) and file.read(1) == b""
            for number in range(30):
                at, size = number * 7_919_003 % len(data), number * 1_299_709 % (3 * MB)
                assert file.seek(at) == at
                assert file.read(size) == data[at : at + size]
                assert file.tell() == min(at + size, len(data))
            file.seek(-5, io.SEEK_END)
            assert file.read() == data[-5:]
            file.seek(0)
            assert hashlib.file_digest(file, "sha256").digest() == hashlib.sha256(data).digest()

    def test_an_archive_is_read_where_it_is(self, blobs: BlobStore) -> None:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("large", some_bytes(3 * MB))
            archive.writestr("word/document.xml", "<words/>")
        stored = blobs.put("owner", io.BytesIO(packed.getvalue()), LIMIT)
        with blobs.open(stored.key) as file, zipfile.ZipFile(file) as archive:
            assert archive.read("word/document.xml") == b"<words/>" and archive.testzip() is None

    def test_the_same_bytes_twice_have_two_names(self, blobs: BlobStore) -> None:
        one, two = (blobs.put("owner", io.BytesIO(b"same"), LIMIT) for _ in range(2))
        assert one.key != two.key and one.sha256 == two.sha256
        assert set(blobs.names()) == {one.key, two.key}

    @pytest.mark.parametrize("limit", [100, 17 * MB])
    def test_too_large_leaves_nothing(self, blobs: BlobStore, limit: int) -> None:
        with pytest.raises(TooLarge):
            blobs.put("owner", io.BytesIO(bytes(limit + 1)), limit)
        assert list(blobs.names()) == []
        assert blobs.put("owner", io.BytesIO(bytes(limit)), limit).size == limit

    @pytest.mark.parametrize("size", [0, 100, 17 * MB])
    def test_a_source_that_breaks_is_not_taken_for_a_broken_store(self, blobs: BlobStore, size: int) -> None:
        with pytest.raises(OSError, match="Input/output"):
            blobs.put("owner", Broken(some_bytes(size)), LIMIT)
        with pytest.raises(OSError, match="Input/output"):
            blobs.put_back(KEY, breaking(some_bytes(size)))
        assert list(blobs.names()) == []

    def test_what_is_put_back_has_its_name_and_replaces_what_has_it(self, blobs: BlobStore) -> None:
        for data in (b"first", some_bytes(9 * MB), b""):
            blobs.put_back(KEY, iter((data[:3], data[3:])))
            blobs.sync()
            assert list(blobs.names()) == [KEY]
            with blobs.open(KEY) as file:
                assert file.read() == data

    @pytest.mark.parametrize("size", [100, 17 * MB])
    def test_what_could_not_be_put_back_leaves_what_has_its_name(self, blobs: BlobStore, size: int) -> None:
        blobs.put_back(KEY, [b"as it was"])
        with pytest.raises(OSError, match="Input/output"):
            blobs.put_back(KEY, breaking(some_bytes(size)))
        with blobs.open(KEY) as file:
            assert file.read() == b"as it was"
        assert list(blobs.names()) == [KEY]

    def test_what_is_removed_is_gone_and_may_be_removed_again(self, blobs: BlobStore) -> None:
        stored = blobs.put("owner", io.BytesIO(b"x"), LIMIT)
        other = blobs.put("owner", io.BytesIO(b"y"), LIMIT)
        assert [blobs.remove(stored.key), blobs.remove(stored.key)] == ["", ""]
        with pytest.raises(FileNotFoundError):
            blobs.open(stored.key)
        assert list(blobs.names()) == [other.key]
        blobs.sync()

    @pytest.mark.parametrize(
        "key", ["../../etc/passwd", "owner/2026-03-01/../x", "/etc/passwd", "", "owner/2026-03-01/abc", "inbox/x"]
    )
    def test_only_names_of_its_own_are_taken(self, blobs: BlobStore, key: str) -> None:
        for use in (blobs.open, blobs.remove, lambda key: blobs.put_back(key, [b"x"])):
            with pytest.raises(StoreError):
                use(key)

    def test_those_who_put_and_remove_at_once_do_not_disturb_each_other(self, blobs: BlobStore) -> None:
        def work(number: int) -> bool:
            kept = blobs.put("owner", io.BytesIO(some_bytes(number)), LIMIT)
            blobs.sync()
            with blobs.open(kept.key) as file:
                same = file.read() == some_bytes(number)
            blobs.remove(kept.key)
            return same

        with ThreadPoolExecutor(8) as threads:
            assert all(threads.map(work, range(80)))
        assert list(blobs.names()) == []
