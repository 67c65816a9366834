"""Original bytes, and uploads that wait, in S3 or in storage that speaks its protocol. Reached through s3fs.

What is sent becomes visible with the last request of many, so others see it whole or not at all, and it is durable
once that was answered. Credentials come from the environment or AWS's own files, never from settings.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import io
import itertools
from base64 import b64encode
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from io import BufferedReader
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from ragforge.adapters.blobs.keys import checked, is_key, new_key
from ragforge.errors import DiskFull, MissingExtra, StoreError, TooLarge, Unreachable
from ragforge.once import once
from ragforge.ports import Clock, StoredBlob

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer
    from s3fs import S3FileSystem

T = TypeVar("T")

PART_BYTES = 8 << 20
"""What is sent or read ahead at a time; smaller files take one request."""
_PIECE = 1 << 20
_FIRST_BYTES = 1 << 20
"""What is read at first: most files are smaller, and a reader may only want to see what they are."""
_CONNECT_SECONDS = 5
_ANSWER_SECONDS = 30
_TRIES = 3
_LONGEST_SECONDS = 300
"""What one request may take with all its tries: a part of a file on a slow line."""
_INBOX = "inbox"

_UNVERSIONED = "null"
_NO_CREDENTIALS = ("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "ProfileNotFound")
_PASSING = ("SlowDown", "ServiceUnavailable", "RequestTimeout", "InternalError", "OperationAborted", "NoSuchUpload")
_ADDRESS_HINT = "look at store.blobs and store.blobs_url"
_CREDENTIALS_HINT = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; what they name must be let into the bucket"
)


class Gone(StoreError, FileNotFoundError):
    """Removed while it was read: to most that is an error, to those who expect it a file that is not there."""


class Bucket:
    """A folder of a bucket."""

    def __init__(self, name: str, folder: str, url: str = "") -> None:
        self.name = name
        self._folder = f"{folder.strip('/')}/" if folder.strip("/") else ""
        self._url = url

    def __str__(self) -> str:
        return f"s3://{self.name}/{self._folder}".rstrip("/")

    # -- files

    def store_new(self, name: str, pieces: Iterable[bytes]) -> None:
        """Under a name that nothing has: whole, or nothing at all."""
        try:
            self.store(name, pieces)
        except BaseException:  # it may have arrived all the same, only the answer did not
            with suppress(StoreError):
                self.remove(name)
            raise

    def store(self, name: str, pieces: Iterable[bytes]) -> None:
        """Whole, or what has the name stays as it is."""
        parts = _parts(pieces)
        first = next(parts, b"")
        if len(first) == PART_BYTES:
            self._store_large(name, itertools.chain([first], parts))
        else:
            self._call("put_object", name, Body=first, ContentMD5=_md5(first))

    def _store_large(self, name: str, parts: Iterable[bytes]) -> None:
        upload = self._call("create_multipart_upload", name)["UploadId"]
        try:
            sent = [
                {"PartNumber": number, "ETag": self._send(name, upload, number, part)}
                for number, part in enumerate(parts, 1)
            ]
            self._call("complete_multipart_upload", name, UploadId=upload, MultipartUpload={"Parts": sent})
        except BaseException:
            self._abort(name, upload)
            raise

    def _abort(self, name: str, upload: str) -> None:
        with suppress(StoreError):
            self._call("abort_multipart_upload", name, UploadId=upload)

    def _send(self, name: str, upload: str, number: int, part: bytes) -> str:
        sent = self._call("upload_part", name, UploadId=upload, PartNumber=number, Body=part, ContentMD5=_md5(part))
        return str(sent["ETag"])

    def open(self, name: str) -> BufferedReader:
        """Read as it is needed. Raises FileNotFoundError if there is nothing."""
        return BufferedReader(_Reading(self, name, self.range(name, 0, _FIRST_BYTES)), _PIECE)

    def range(self, name: str, start: int, end: int, seen: str = "") -> Piece:
        """Bytes of a file, which must still be the one that was `seen`."""
        try:
            return self._wait(lambda s3: self._range(s3, name, start, end, {"IfMatch": seen} if seen else {}))
        except FileNotFoundError:
            if seen:
                raise Gone(f"a file in {self} was removed while it was read", hint="try again") from None
            raise

    async def _range(self, s3: S3FileSystem, name: str, start: int, end: int, matching: dict[str, str]) -> Piece:
        asked = {"Bucket": self.name, "Key": self._folder + name, "Range": f"bytes={start}-{end - 1}", **matching}
        for tries in itertools.count(1):
            try:
                answer = await s3._call_s3("get_object", **asked)
            except OSError as problem:
                if _answer(problem).code != "InvalidRange":
                    raise
                return Piece(b"", start, start, "")  # it is empty, or ends there
            try:
                async with answer["Body"] as body:
                    data = await body.read()
                return _piece(data, start, answer)
            except Exception:  # the answer broke off; what was sent before it is tried again by the library itself
                if tries == _TRIES:
                    raise
        raise AssertionError

    def mark(self, name: str, text: str) -> str:
        """What stands under the name: the text, if nothing did. Of many who come at once, one is the first."""
        data = text.encode()
        try:
            self._call("put_object", name, Body=data, ContentMD5=_md5(data), IfNoneMatch="*")
        except StoreError as refused:
            status = _answer(refused.__cause__).status if refused.__cause__ else 0
            if status in (400, 501):  # it knows no conditions: who is last counts, for all who look now
                if not self.marked(name):
                    self.store(name, [data])
            elif status not in (409, 412):  # another was quicker
                raise
        return self.marked(name)

    def marked(self, name: str) -> str:
        """What stands under the name; empty if nothing does."""
        with suppress(FileNotFoundError), self.open(name) as file:
            return file.read().decode(errors="replace")
        return ""

    def is_marked(self, name: str) -> bool:
        """A bucket does not become another one while it is used."""
        return True

    def remove(self, name: str) -> str:
        """All versions that the bucket keeps of it. Returns what stays all the same, and why."""
        answer = self._delete(name)
        if not answer.get("DeleteMarker") and answer.get("VersionId", _UNVERSIONED) == _UNVERSIONED:
            return ""
        try:
            for version in list(self._versions(name)):
                self._delete(name, VersionId=version)
        except Unreachable:
            raise
        except StoreError as refused:
            return f"{self} keeps older versions, which could not be deleted: {refused.message}"
        return ""

    def _delete(self, name: str, **version: str) -> dict[str, Any]:
        try:
            return self._ask("delete_object", Key=self._folder + name, **version)
        except FileNotFoundError:  # another was quicker, and the server minds
            return {}

    def _versions(self, name: str) -> Iterator[str]:
        whole = self._folder + name
        for page in self._pages("list_object_versions", ("KeyMarker", "VersionIdMarker"), whole):
            for version in (*page.get("Versions", ()), *page.get("DeleteMarkers", ())):
                if version["Key"] == whole:
                    yield version["VersionId"]

    def names(self, folder: str = "") -> Iterator[tuple[str, datetime]]:
        """All below, each with when it came."""
        for page in self._pages("list_objects_v2", ("ContinuationToken",), self._folder + folder):
            for item in page.get("Contents", ()):
                yield item["Key"].removeprefix(self._folder), item["LastModified"]

    def reach(self) -> None:
        """Raises soon if the server does not answer, or does not let us in."""
        asked = {"Bucket": self.name, "Prefix": self._folder, "MaxKeys": 1}
        self._wait(lambda s3: s3._call_s3("list_objects_v2", **asked), _CONNECT_SECONDS)

    def abandon_uploads(self, moment: datetime) -> None:
        """Parts of what a killed process was sending then, and that nobody sees: where that is allowed."""
        with suppress(StoreError):
            for page in self._pages("list_multipart_uploads", ("KeyMarker", "UploadIdMarker"), self._folder):
                for upload in page.get("Uploads", ()):
                    if upload["Initiated"] < moment:
                        self._abort(upload["Key"].removeprefix(self._folder), upload["UploadId"])

    def _pages(self, method: str, markers: tuple[str, ...], prefix: str) -> Iterator[dict[str, Any]]:
        page: dict[str, Any] = {"IsTruncated": True}
        while page.get("IsTruncated"):
            at = {marker: page[f"Next{marker}"] for marker in markers if f"Next{marker}" in page}
            page = self._ask(method, Prefix=prefix, **at)
            yield page

    # -- the server

    def _call(self, method: str, name: str, **arguments: Any) -> dict[str, Any]:
        """What must not be taken for a file that is missing here."""
        try:
            return self._ask(method, Key=self._folder + name, **arguments)
        except FileNotFoundError as problem:
            raise StoreError(f"{self} cannot be used: it is not found", hint=_ADDRESS_HINT) from problem

    def _ask(self, method: str, **arguments: Any) -> dict[str, Any]:
        return self._wait(lambda s3: s3._call_s3(method, Bucket=self.name, **arguments))

    def _wait(self, work: Callable[[S3FileSystem], Coroutine[Any, Any, T]], seconds: float = 0) -> T:
        """Done by the thread of s3fs. Whoever is interrupted meanwhile interrupts it."""
        s3 = self._filesystem
        task = asyncio.run_coroutine_threadsafe(work(s3), s3.loop)
        try:
            return task.result(seconds or _LONGEST_SECONDS)
        except Exception as problem:
            raise self._told(problem) from problem
        finally:
            task.cancel()

    @once
    def _filesystem(self) -> S3FileSystem:
        try:
            from aiobotocore.session import AioSession
            from botocore.handlers import add_expect_header
            from s3fs import S3FileSystem
        except ImportError as problem:
            raise MissingExtra("s3fs, which reaches S3,", "s3") from problem
        session = AioSession()
        session.unregister("before-call.s3", add_expect_header)  # who never says "continue" is waited for without end
        filesystem = S3FileSystem(
            session=session,
            endpoint_url=self._url or None,
            use_listings_cache=False,
            skip_instance_cache=True,
            config_kwargs={
                "connect_timeout": _CONNECT_SECONDS,
                "read_timeout": _ANSWER_SECONDS,
                "retries": {"mode": "standard", "max_attempts": _TRIES},
                "max_pool_connections": 32,
                # not all storage knows these; Content-MD5, which all know, does the same
                "request_checksum_calculation": "when_required",
                "response_checksum_validation": "when_required",
            },
        )
        filesystem.retries = 1
        return filesystem

    def close(self) -> None:
        """Its connections go with it."""
        self.__dict__.pop("_filesystem", None)

    def _told(self, problem: Exception) -> Exception:
        """What went wrong, as a sentence with the next step."""
        answer = _answer(problem)
        if answer.code == "NoSuchBucket":
            return StoreError(f"there is no bucket {self.name!r}", hint="make it, or name another in store.blobs")
        if type(problem).__name__ in _NO_CREDENTIALS:
            return StoreError(f"no credentials for {self}", hint=_CREDENTIALS_HINT)
        if answer.status == 507:
            return DiskFull(f"{self} is full; nothing was lost", hint="make room there and try again")
        if answer.code in _PASSING or 500 <= answer.status != 501 or _is_silence(problem):
            hint = "is it up, and is its address in store.blobs_url?" if self._url else "is the network up?"
            return Unreachable(f"{self} does not answer: {str(problem) or 'the time is up'}", hint=hint)
        if answer.status == 403:
            return StoreError(f"{self} refuses: {answer.message}", hint=_CREDENTIALS_HINT)
        if answer.status == 404:
            return FileNotFoundError(errno.ENOENT, f"no such file in {self}")
        why = answer.message or problem
        return StoreError(f"{self} cannot be used: {why}", hint=_ADDRESS_HINT)


class S3Blobs:
    """Original bytes in a bucket."""

    shared = True

    def __init__(self, bucket: Bucket, clock: Clock, claim: Callable[[], None] = lambda: None) -> None:
        """`claim` raises if the place is another catalog's."""
        self._bucket = bucket
        self._clock = clock
        self._claim = claim

    def put(self, owner: str, file: BinaryIO, limit: int) -> StoredBlob:
        """Copy a file's bytes, hashing them on the way."""
        self._claim()
        key = new_key(owner, self._clock)
        sha256, size = hashlib.sha256(), 0

        def counted() -> Iterator[bytes]:
            nonlocal size
            while piece := file.read(_PIECE):
                size += len(piece)
                if size > limit:
                    raise TooLarge(f"more than {limit:,} bytes")
                sha256.update(piece)
                yield piece

        self._bucket.store_new(key, counted())
        return StoredBlob(key, size, sha256.hexdigest())

    def put_back(self, key: str, pieces: Iterable[bytes]) -> None:
        """Bytes from a backup, under the name they had there. What stands under it is replaced."""
        self._claim()
        self._bucket.store(checked(key), pieces)

    def open(self, key: str) -> BufferedReader:
        return self._bucket.open(checked(key))

    def remove(self, key: str) -> str:
        return self._bucket.remove(checked(key))

    def sync(self) -> None:
        """What was answered is durable."""

    def names(self) -> Iterator[str]:
        self._claim()
        yield from filter(is_key, (name for name, _ in self._bucket.names()))

    def reach(self) -> None:
        self._bucket.reach()


class S3Uploads:
    """Uploads that wait, beside the original bytes."""

    def __init__(self, bucket: Bucket, claim: Callable[[], None] = lambda: None) -> None:
        self._bucket = bucket
        self._claim = claim

    def __str__(self) -> str:
        return f"{self._bucket}/{_INBOX}"

    def put(self, name: str, file: BinaryIO) -> None:
        self._claim()
        self._bucket.store_new(f"{_INBOX}/{name}", iter(lambda: file.read(_PIECE), b""))

    def open(self, name: str) -> BufferedReader:
        return self._bucket.open(f"{_INBOX}/{name}")

    def remove(self, name: str) -> None:
        self._bucket.remove(f"{_INBOX}/{name}")

    def before(self, moment: datetime) -> Iterator[str]:
        """Also ends what nobody has been sending since."""
        self._bucket.reach()  # whoever starts must not wait for minutes where nobody answers
        self._claim()
        self._bucket.abandon_uploads(moment)
        for name, came in self._bucket.names(f"{_INBOX}/"):
            if came < moment:
                yield name.removeprefix(f"{_INBOX}/")


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes of a file from `start` on, of how large a file, and how it is known again."""

    data: bytes
    start: int
    whole: int
    etag: str


class _Reading(io.RawIOBase):
    """A file in a bucket. It holds one piece, read ahead."""

    def __init__(self, bucket: Bucket, name: str, first: Piece) -> None:
        self._bucket = bucket
        self._name = name
        self._piece = first
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = max(0, {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._piece.whole}[whence] + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: WriteableBuffer) -> int:
        target = memoryview(buffer).cast("B")
        data = self._ahead()[: len(target)]
        target[: len(data)] = data
        self._at += len(data)
        return len(data)

    def _ahead(self) -> memoryview:
        """What is held from here on; at the end of it, the next piece."""
        held, at = self._piece, self._at
        if not held.start <= at < held.start + len(held.data) and at < held.whole:
            end = min(at + PART_BYTES, held.whole)
            self._piece = held = self._bucket.range(self._name, at, end, held.etag)
        return memoryview(held.data)[at - held.start :] if at >= held.start else memoryview(b"")


def _parts(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in parts of one size; the last may be smaller."""
    held = bytearray()
    for piece in pieces:
        held += piece
        while len(held) >= PART_BYTES:
            yield bytes(held[:PART_BYTES])
            del held[:PART_BYTES]
    if held:
        yield bytes(held)


def _md5(data: bytes) -> str:
    """So that the server sees what was damaged on the way."""
    return b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()


def _piece(data: bytes, start: int, answer: dict[str, Any]) -> Piece:
    """A range of a file, of which is told how large it is; or all of it, from a server that does not know ranges."""
    if "ContentRange" not in answer:
        return Piece(data, 0, len(data), answer["ETag"])
    return Piece(data, start, int(answer["ContentRange"].rpartition("/")[2]), answer["ETag"])


def _is_silence(problem: Exception) -> bool:
    """Whether no answer came, or not all of it."""
    from aiohttp import ClientError
    from botocore import exceptions as boto

    broken = (boto.HTTPClientError, boto.ConnectionError, boto.IncompleteReadError, ClientError)
    return isinstance(problem, broken) or (isinstance(problem, OSError) and not _answer(problem).code)


@dataclass(frozen=True, slots=True)
class _Answer:
    """What the server said was wrong; nothing if it did not answer."""

    code: str = ""
    status: int = 0
    message: str = ""


def _answer(problem: BaseException) -> _Answer:
    """s3fs makes a system's error of it, and keeps what it was made of."""
    said = getattr(problem, "response", None) or getattr(problem.__cause__, "response", None)
    if not isinstance(said, dict):
        return _Answer()
    error = said.get("Error", {})
    status = int(said.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    return _Answer(str(error.get("Code", "")), status, str(error.get("Message") or error.get("Code", "")))
