"""Files in S3: whole or not there at all whatever breaks, told in sentences, and all versions gone when removed."""

from __future__ import annotations

import hashlib
import io
import random
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from ragforge.adapters.blobs import s3 as adapter
from ragforge.adapters.blobs.s3 import Bucket, S3Blobs, S3Uploads
from ragforge.errors import DiskFull, MissingExtra, StoreError, Unreachable
from ragforge.testing.contracts.blobs import KEY, march
from ragforge.testing.s3 import READER, TemporaryS3
from tests.bad_servers import always, nobody, silence
from tests.cutting import Cutting

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

MB = 1_000_000
TOMORROW = timedelta(days=1)


def bucket_of(place: str, url: str) -> Bucket:
    name, _, folder = place.removeprefix("s3://").partition("/")
    return Bucket(name, folder, url)


def folder_of(bucket: Bucket) -> str:
    return str(bucket).removeprefix(f"s3://{bucket.name}/")


@pytest.fixture
def bucket(s3: TemporaryS3) -> Bucket:
    return bucket_of(s3.create(), s3.url)


@pytest.fixture
def blobs(bucket: Bucket) -> S3Blobs:
    return S3Blobs(bucket, march)


@pytest.fixture
def mortal(s3_soon: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[TemporaryS3]:
    """A server that a test may kill."""
    with TemporaryS3() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server


class Then(io.BytesIO):
    """A file with something that happens when so many of its bytes were read."""

    def __init__(self, data: bytes, after: int, happens: Callable[[], object]) -> None:
        super().__init__(data)
        self._after = after
        self._happens = happens

    def read(self, size: int | None = -1) -> bytes:
        if self.tell() >= self._after:
            self._after = sys.maxsize
            self._happens()
        return super().read(size)


def unfinished(server: TemporaryS3, bucket: Bucket) -> int:
    """Uploads of which only parts were sent."""
    return len(server.client.list_multipart_uploads(Bucket=bucket.name).get("Uploads", ()))


# -- the server breaks


def test_a_server_killed_in_the_middle_of_an_upload_shows_nothing_of_it(mortal: TemporaryS3) -> None:
    bucket = bucket_of(mortal.create(), mortal.url)
    blobs = S3Blobs(bucket, march)
    kept = blobs.put("owner", io.BytesIO(b"before"), MB)
    with pytest.raises(Unreachable) as away:
        blobs.put("owner", Then(bytes(30 * MB), 20 * MB, mortal.kill), 100 * MB)
    assert "does not answer" in away.value.message and away.value.hint
    with pytest.raises(Unreachable):
        blobs.open(kept.key)
    with pytest.raises(Unreachable):
        blobs.remove(kept.key)
    mortal.start()
    assert list(blobs.names()) == [kept.key]
    with blobs.open(kept.key) as file:
        assert file.read() == b"before"
    assert blobs.put("owner", io.BytesIO(bytes(20 * MB)), 100 * MB).size == 20 * MB
    assert unfinished(mortal, bucket) == 1, "the parts that were sent, of which nobody could tell the server"
    list(S3Uploads(bucket).before(datetime.now(UTC) + TOMORROW))
    assert unfinished(mortal, bucket) == 0


def test_a_reader_goes_on_when_the_server_is_back(mortal: TemporaryS3) -> None:
    blobs, data = S3Blobs(bucket_of(mortal.create(), mortal.url), march), random.Random(3).randbytes(20 * MB)
    with blobs.open(blobs.put("owner", io.BytesIO(data), 100 * MB).key) as file:
        assert file.read(MB) == data[:MB]
        mortal.kill()
        with pytest.raises(Unreachable):
            file.read(10 * MB)
        mortal.start()
        file.seek(MB)
        assert file.read() == data[MB:]


@pytest.mark.parametrize("size", [5 * MB, 12 * MB])
def test_a_put_that_is_cut_off_shows_nothing_and_one_cut_alone_is_made_good(
    s3: TemporaryS3, bucket: Bucket, size: int
) -> None:
    way = Cutting(s3.url, there=2 * MB)
    with way.listening() as url, pytest.raises(Unreachable):
        S3Blobs(bucket_of(str(bucket), url), march).put("owner", io.BytesIO(bytes(size)), 100 * MB)
    assert way.cut > 1, "it was tried again"
    blobs = S3Blobs(bucket, march)
    assert list(blobs.names()) == [] and unfinished(s3, bucket) == 0
    way = Cutting(s3.url, there=2 * MB, cuts=1)
    with way.listening() as url:
        stored = S3Blobs(bucket_of(str(bucket), url), march).put("owner", io.BytesIO(bytes(size)), 100 * MB)
    assert way.cut == 1 and list(blobs.names()) == [stored.key]


@pytest.mark.parametrize("size", [5 * MB, 12 * MB])
def test_what_cannot_be_put_back_leaves_what_was_there(
    s3: TemporaryS3, bucket: Bucket, blobs: S3Blobs, size: int
) -> None:
    """Another catalog may still need it: that of the workspace which a restore replaces."""
    blobs.put_back(KEY, [b"as it was"])
    with Cutting(s3.url, there=2 * MB).listening() as url, pytest.raises(Unreachable):
        S3Blobs(bucket_of(str(bucket), url), march).put_back(KEY, [bytes(size)])
    with blobs.open(KEY) as file:
        assert file.read() == b"as it was"
    assert unfinished(s3, bucket) == 0


def test_an_answer_that_breaks_off_is_asked_for_again(s3: TemporaryS3, bucket: Bucket, blobs: S3Blobs) -> None:
    data = random.Random(4).randbytes(12 * MB)
    stored = blobs.put("owner", io.BytesIO(data), 100 * MB)
    way = Cutting(s3.url, back=4 * MB, cuts=2)
    with way.listening() as url, S3Blobs(bucket_of(str(bucket), url), march).open(stored.key) as file:
        assert file.read() == data
    assert way.cut == 2


def test_one_who_does_not_answer_is_not_waited_for_without_end(
    s3: TemporaryS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter, "_ANSWER_SECONDS", 0.3)
    began = time.monotonic()
    with silence() as url:
        blobs = S3Blobs(Bucket("plain", "", url), march)
        with pytest.raises(Unreachable):
            blobs.open(KEY)
        with pytest.raises(Unreachable):
            blobs.put("owner", io.BytesIO(b"x"), MB)
        monkeypatch.setattr(adapter, "_LONGEST_SECONDS", 0.5)
        with pytest.raises(Unreachable, match="time is up"):  # more than the line takes before anybody reads
            blobs.put("owner", io.BytesIO(bytes(8 * MB)), 10 * MB)
    with pytest.raises(Unreachable):
        S3Blobs(Bucket("plain", "", nobody()), march).open(KEY)
    assert time.monotonic() - began < 60


@pytest.mark.parametrize("size", [3 * MB, 20 * MB])
def test_who_is_interrupted_leaves_nothing(s3: TemporaryS3, bucket: Bucket, blobs: S3Blobs, size: int) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        blobs.put("owner", Then(bytes(size), size - MB, interrupt), 100 * MB)
    assert list(blobs.names()) == [] and unfinished(s3, bucket) == 0


def test_what_is_removed_while_it_is_read_is_said_to_be_gone(blobs: S3Blobs) -> None:
    stored = blobs.put("owner", io.BytesIO(bytes(20 * MB)), 100 * MB)
    with blobs.open(stored.key) as file:
        file.read(MB)
        blobs.remove(stored.key)
        with pytest.raises(FileNotFoundError) as gone:
            file.read(15 * MB)
    assert isinstance(gone.value, StoreError) and gone.value.hint


# -- how much


def test_a_large_file_is_never_in_memory_as_a_whole(blobs: S3Blobs) -> None:
    class Zeros(io.RawIOBase):
        left = 200 * MB

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: WriteableBuffer) -> int:
            size = min(memoryview(buffer).nbytes, self.left)
            self.left -= size
            return size

    tracemalloc.start()
    try:
        stored = blobs.put("owner", io.BufferedReader(Zeros()), 1_000 * MB)
        with blobs.open(stored.key) as file:
            assert hashlib.file_digest(file, "sha256").hexdigest() == stored.sha256
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert stored.size == 200 * MB and peak < 80 * MB


def test_names_are_told_page_by_page(s3: TemporaryS3, bucket: Bucket, blobs: S3Blobs) -> None:
    keys = {f"owner/2026-03-01/{number:032x}" for number in range(1_105)}

    def put(key: str) -> None:
        s3.client.put_object(Bucket=bucket.name, Key=f"{folder_of(bucket)}/{key}", Body=b"x")

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(put, keys))
    told = list(blobs.names())
    assert len(told) == len(keys) and set(told) == keys


# -- whose it is


def test_of_many_who_come_at_once_one_is_the_first(bucket: Bucket) -> None:
    names = [f"{number:016x}" for number in range(16)]
    with ThreadPoolExecutor(8) as threads:
        told = set(threads.map(lambda name: bucket.mark("whose", name), names))
    assert len(told) == 1 and told <= set(names)
    assert bucket.mark("whose", "late") == told.pop()


def test_storage_that_knows_no_conditions_is_marked_all_the_same(s3: TemporaryS3, bucket: Bucket) -> None:
    class Plain(Bucket):
        """As one that refuses a header which it does not know."""

        def _call(self, method: str, name: str, **arguments: object) -> dict[str, object]:
            if "IfNoneMatch" in arguments:
                with always(501) as url:
                    return Bucket(self.name, "", url)._call(method, name, **arguments)
            return super()._call(method, name, **arguments)

    plain = Plain(bucket.name, folder_of(bucket), s3.url)
    assert plain.mark("whose", "mine") == plain.mark("whose", "late") == bucket.mark("whose", "later") == "mine"


# -- what is refused


def test_what_is_set_wrongly_is_said_with_the_next_step(
    s3: TemporaryS3, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusal(bucket: Bucket) -> StoreError:
        with pytest.raises(StoreError) as refused:
            S3Blobs(bucket, march).put("owner", io.BytesIO(b"x"), MB)
        assert not isinstance(refused.value, Unreachable)
        return refused.value

    missing = refusal(Bucket("no-such-bucket", "", s3.url))
    assert "no bucket 'no-such-bucket'" in missing.message and "store.blobs" in missing.hint
    with pytest.raises(StoreError, match="no bucket"):
        S3Blobs(Bucket("no-such-bucket", "", s3.url), march).open(KEY)
    assert "store.blobs_url" in refusal(Bucket("plain", "", "no address")).hint
    for name, value in READER.items():
        monkeypatch.setenv(name, value)
    assert "AWS_ACCESS_KEY_ID" in refusal(bucket_of(str(bucket), s3.url)).hint
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    wrong = refusal(bucket_of(str(bucket), s3.url))
    assert "AWS_ACCESS_KEY_ID" in wrong.hint and "wrong" not in wrong.message
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    assert "no credentials" in refusal(bucket_of(str(bucket), s3.url)).message


@pytest.mark.parametrize(("status", "passes"), [(503, True), (404, False), (501, False), (507, False)])
def test_only_what_may_pass_is_said_to_be_away(s3: TemporaryS3, status: int, passes: bool) -> None:
    with always(status) as url, pytest.raises(StoreError) as refused:
        S3Blobs(Bucket("plain", "", url), march).put("owner", io.BytesIO(b"x"), MB)
    assert isinstance(refused.value, Unreachable) == passes and not isinstance(refused.value, OSError)
    assert isinstance(refused.value, DiskFull) == (status == 507) and refused.value.hint


def test_without_s3fs_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(MissingExtra) as missing:
        S3Blobs(Bucket("plain", ""), march).open(KEY)
    assert missing.value.hint == 'pip install "ragforge[s3]"'


# -- versions


def versions(server: TemporaryS3, bucket: Bucket) -> int:
    page = server.client.list_object_versions(Bucket=bucket.name, Prefix=folder_of(bucket))
    return len(page.get("Versions", ())) + len(page.get("DeleteMarkers", ()))


def test_a_bucket_that_keeps_versions_keeps_none_of_what_is_removed(s3: TemporaryS3) -> None:
    bucket = bucket_of(s3.create(versioned=True), s3.url)
    blobs = S3Blobs(bucket, march)
    for data in (b"first", b"second"):
        blobs.put_back(KEY, [data])
    assert versions(s3, bucket) == 2
    s3.client.delete_object(Bucket=bucket.name, Key=f"{folder_of(bucket)}/{KEY}")
    assert versions(s3, bucket) == 3, "one who was killed here left it to the next"
    assert blobs.remove(KEY) == "" and versions(s3, bucket) == 0


def test_versions_that_may_not_be_deleted_are_told(s3: TemporaryS3) -> None:
    name = f"locked-{random.randrange(1 << 32)}"
    s3.client.create_bucket(Bucket=name, ObjectLockEnabledForBucket=True)
    rule = {"DefaultRetention": {"Mode": "COMPLIANCE", "Days": 1}}
    s3.client.put_object_lock_configuration(
        Bucket=name, ObjectLockConfiguration={"ObjectLockEnabled": "Enabled", "Rule": rule}
    )
    blobs = S3Blobs(Bucket(name, "", s3.url), march)
    stored = blobs.put("owner", io.BytesIO(b"x"), MB)
    assert f"s3://{name} keeps older versions" in blobs.remove(stored.key)
    with pytest.raises(FileNotFoundError):
        blobs.open(stored.key)
