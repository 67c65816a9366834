"""Uploads that wait in S3: what one machine was sent another takes in, and nobody's is lost or left behind."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ragforge.adapters.blobs.s3 import Bucket, S3Uploads
from ragforge.adapters.locks import FileLock
from ragforge.errors import StoreError, Unreachable
from ragforge.operate.inbox import Received, SharedInbox
from ragforge.testing.s3 import TemporaryS3
from tests.bad_servers import nobody
from tests.cutting import Cutting

NewInbox = Callable[..., SharedInbox]


def now() -> datetime:
    return datetime.now(UTC)


def in_two_days() -> datetime:
    return now() + timedelta(days=2)


@pytest.fixture
def place(s3: TemporaryS3) -> tuple[str, str]:
    name, _, folder = s3.create().removeprefix("s3://").partition("/")
    return name, folder


@pytest.fixture
def new_inbox(s3: TemporaryS3, place: tuple[str, str], tmp_path: Path) -> Iterator[NewInbox]:
    """The inbox of a machine; of one that has none, or when it is later."""
    made: list[SharedInbox] = []

    def make(machine: str, *needed: str, clock: Callable[[], datetime] = now, url: str = s3.url) -> SharedInbox:
        (tmp_path / machine).mkdir(exist_ok=True)
        inbox = SharedInbox(tmp_path / machine / "inbox", FileLock, S3Uploads(Bucket(*place, url)), clock)
        inbox.open(lambda: needed)
        made.append(inbox)
        return inbox

    yield make
    for inbox in made:
        inbox.close()


def received(inbox: SharedInbox, data: bytes) -> Received:
    with inbox.receive("a.md") as receiving:
        receiving.write(data)
        return receiving.keep()


def fetched(inbox: SharedInbox, name: str) -> bytes | None:
    path = inbox.here(name)
    return path.read_bytes() if path else None


def files_of(inbox: SharedInbox) -> set[str]:
    return {path.name for path in inbox.path("0" * 32).parent.iterdir()} - {"lock"}


def waiting(s3: TemporaryS3, place: tuple[str, str]) -> set[str]:
    name, folder = place
    page = s3.client.list_objects_v2(Bucket=name, Prefix=f"{folder}/inbox/")
    return {item["Key"].rpartition("/")[2] for item in page.get("Contents", ())}


def test_what_one_machine_receives_another_reads(s3: TemporaryS3, place: tuple[str, str], new_inbox: NewInbox) -> None:
    here, there = new_inbox("a"), new_inbox("b")
    uploads = [received(here, f"bytes {number}".encode() * 1_000) for number in range(20)]
    assert waiting(s3, place) == set()
    here.sync([each.inbox for each in uploads])
    assert waiting(s3, place) == {each.inbox for each in uploads}
    assert files_of(here) == set(), "whoever takes it in removes it; this machine would never learn of it"
    for number, each in enumerate(uploads):
        with there.read(each.inbox) as file:
            assert file.read() == f"bytes {number}".encode() * 1_000
        assert fetched(there, each.inbox) == f"bytes {number}".encode() * 1_000
    assert files_of(there) == {each.inbox for each in uploads}
    for each in uploads:
        there.remove(each.inbox)
        there.remove(each.inbox)
    assert files_of(there) == waiting(s3, place) == set()
    with pytest.raises(FileNotFoundError):
        here.read(uploads[0].inbox)
    assert here.here(uploads[0].inbox) is None


def test_what_cannot_be_sent_on_is_not_acknowledged(tmp_path: Path, new_inbox: NewInbox) -> None:
    inbox = new_inbox("a", url=nobody())
    upload = received(inbox, b"x")
    with pytest.raises(Unreachable):
        inbox.sync([upload.inbox])
    inbox.remove(upload.inbox)
    assert files_of(inbox) == set()


def test_what_could_not_be_removed_goes_with_the_next(
    s3: TemporaryS3, place: tuple[str, str], new_inbox: NewInbox
) -> None:
    inbox = new_inbox("a")
    uploads = [received(inbox, b"x") for _ in range(2)]
    inbox.sync([each.inbox for each in uploads])
    reached, inbox._uploads = inbox._uploads, S3Uploads(Bucket(*place, nobody()))
    inbox.remove(uploads[0].inbox)
    assert waiting(s3, place) == {each.inbox for each in uploads}
    inbox._uploads = reached
    inbox.remove(uploads[1].inbox)
    assert waiting(s3, place) == set()


def test_only_what_nobody_needs_for_a_day_is_swept(
    s3: TemporaryS3, place: tuple[str, str], new_inbox: NewInbox
) -> None:
    first = new_inbox("a")
    needed, left = (received(first, b"x") for _ in range(2))
    first.sync([needed.inbox, left.inbox])
    new_inbox("b")
    assert waiting(s3, place) == {needed.inbox, left.inbox}
    new_inbox("c", needed.inbox, clock=in_two_days)
    assert waiting(s3, place) == {needed.inbox}


def test_what_was_received_before_it_was_shared_is_sent_on(
    s3: TemporaryS3, place: tuple[str, str], tmp_path: Path, new_inbox: NewInbox
) -> None:
    """Acknowledged by a server whose settings named no storage for all."""
    name = "a" * 32
    folder = tmp_path / "a" / "inbox"
    folder.mkdir(parents=True)
    (folder / name).write_bytes(b"waits")
    new_inbox("a", name, url=nobody()).close()
    assert (folder / name).read_bytes() == b"waits"
    inbox = new_inbox("a", name)
    assert waiting(s3, place) == {name} and files_of(inbox) == set()
    assert fetched(new_inbox("b", name), name) == fetched(inbox, name) == b"waits"
    with inbox.read(name) as file:
        assert file.read() == b"waits"


def test_storage_that_is_away_keeps_nobody_from_beginning(
    new_inbox: NewInbox, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "ragforge"):
        new_inbox("a", url=nobody())
    assert "not looked for" in caplog.text


def test_what_is_put_back_waits_for_all(s3: TemporaryS3, place: tuple[str, str], new_inbox: NewInbox) -> None:
    here, there, name = new_inbox("a"), new_inbox("b"), "d" * 32
    for data in (b"old", b"new"):
        here.put_back(name, iter((data[:1], data[1:])))
    assert files_of(here) == set() and waiting(s3, place) == {name}
    assert fetched(there, name) == b"new"


def test_a_fetch_that_fails_leaves_no_half_file(s3: TemporaryS3, new_inbox: NewInbox) -> None:
    here = new_inbox("a")
    upload = received(here, bytes(5_000_000))
    here.sync([upload.inbox])
    way = Cutting(s3.url, back=2_000_000)
    with way.listening() as url:
        there = new_inbox("b", url=url)
        with pytest.raises(Unreachable):
            there.here(upload.inbox)
    assert way.cut and files_of(there) == set()


def test_only_names_of_its_own_are_taken(new_inbox: NewInbox) -> None:
    inbox = new_inbox("a")
    for use in (inbox.here, inbox.read, inbox.remove):
        with pytest.raises(StoreError):
            use("../etc/passwd")
