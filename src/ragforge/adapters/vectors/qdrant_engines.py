"""Where Qdrant's collections are: in a folder of local mode, or on a server. Its errors in our words."""

from __future__ import annotations

import errno
import json
import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

from ragforge.adapters.locks import FileLock
from ragforge.adapters.vectors.rows import make_folder, not_installed
from ragforge.durable import sync
from ragforge.errors import Busy, IndexLost, RagforgeError, StoreError, UserError, cannot_write
from ragforge.once import once

if TYPE_CHECKING:
    from qdrant_client import QdrantClient, models

_EF = 256
VECTOR = "v"
STATE = "00000000-0000-0000-0000-000000000000"
"""The id of the point that says what its collection holds."""


class _Qdrant:
    """What is asked of both."""

    def client(self) -> AbstractContextManager[QdrantClient]:
        """The client for one call, with what it raises in our words."""
        raise NotImplementedError

    def prepare(self) -> None:
        """Be ready for a new collection, whatever is wrong with the old one."""

    def target(self, alias: str) -> str | None:
        """The name of the collection behind an alias."""
        with self.client() as client:
            aliases = client.get_aliases().aliases
        return next((known.collection_name for known in aliases if known.alias_name == alias), None)

    def point(self, alias: str, collection: str) -> None:
        """Put another collection behind the alias, in one step."""
        from qdrant_client import models

        create = models.CreateAlias(collection_name=collection, alias_name=alias)
        changes: list[models.AliasOperations] = [models.CreateAliasOperation(create_alias=create)]
        if self.target(alias) is not None:
            delete = models.DeleteAlias(alias_name=alias)
            changes.insert(0, models.DeleteAliasOperation(delete_alias=delete))
        with self.client() as client:
            client.update_collection_aliases(changes)

    def create(self, collection: str, dimension: int) -> None:
        from qdrant_client import models

        params = models.VectorParams(size=dimension, distance=models.Distance.COSINE)
        with self.client() as client:
            client.create_collection(collection, vectors_config={VECTOR: params})

    def effort(self, limit: int) -> models.SearchParams | None:
        """How hard to look for this many rows; None: at every row."""
        return None

    def delete(self, collection: str) -> None:
        """Remove a collection; absent is fine."""
        with self.client() as client:
            client.delete_collection(collection)


class QdrantServer(_Qdrant):
    """Collections on a server."""

    def __init__(self, url: str, key: str, timeout: int) -> None:
        if not url.startswith(("http://", "https://")):
            raise UserError(f"not the address of a Qdrant server: {url}", hint="write it like http://localhost:6333")
        self._url, self._key, self._timeout = url, key, timeout

    @once
    def _client(self) -> QdrantClient:
        kind = _client_class()
        return kind(url=self._url, api_key=self._key or None, timeout=self._timeout, check_compatibility=False)

    @contextmanager
    def client(self) -> Iterator[QdrantClient]:
        client = self._client
        from qdrant_client.common.client_exceptions import QdrantException
        from qdrant_client.http.exceptions import ApiException, UnexpectedResponse

        try:
            yield client
        except UnexpectedResponse as problem:
            reason = f"the Qdrant server at {self._url} says: {problem.status_code} {problem.reason_phrase}"
            if problem.status_code in (404, 500):
                raise IndexLost(reason) from problem
            raise StoreError(reason, hint="check the address and the key in the settings") from problem
        except (ApiException, QdrantException, ValueError) as problem:
            raise StoreError(
                f"the Qdrant server at {self._url} does not answer",
                hint="is the server running? Check the address in the settings",
            ) from problem

    def effort(self, limit: int) -> models.SearchParams | None:
        from qdrant_client import models

        return models.SearchParams(hnsw_ef=max(_EF, limit))

    @contextmanager
    def bulk(self, collection: str) -> Iterator[None]:
        """Around many writes; the server has its own ways."""
        yield

    def create(self, collection: str, dimension: int) -> None:
        """With an index of the documents, so that a narrow filter still fills k."""
        from qdrant_client import models

        super().create(collection, dimension)
        with self.client() as client:
            client.create_payload_index(collection, "document", models.PayloadSchemaType.INTEGER, wait=True)

    def drop(self, alias: str) -> None:
        collection = self.target(alias)
        if collection is not None:
            self.delete(collection)

    def close(self) -> None:
        if (client := self.__dict__.pop("_client", None)) is not None:
            client.close()


class LocalQdrant(_Qdrant):
    """Collections in a folder that one process at a time may use."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name
        self._client: QdrantClient | None = None
        self._owner = FileLock(folder / "owner.lock")
        self._one_at_a_time = RLock()

    @contextmanager
    def client(self) -> Iterator[QdrantClient]:
        with self._one_at_a_time:
            try:
                if self._client is None:
                    self._client = self._open()
                yield self._client
            except RagforgeError:
                raise
            except OSError as problem:
                raise cannot_write(self._folder, problem) from problem
            except Exception as problem:
                if "disk is full" in str(problem):  # as SQLite says it
                    raise cannot_write(self._folder, OSError(errno.ENOSPC, "")) from problem
                raise IndexLost(f"Qdrant cannot use its folder: {problem}") from problem

    def prepare(self) -> None:
        """Start anew if the files cannot even be opened."""
        try:
            self.target(self._name)
        except IndexLost:
            self.drop(self._name)

    @contextmanager
    def bulk(self, collection: str) -> Iterator[None]:
        """Around many writes: one flush for all. A file tells that they are under way: a power cut leaves a ruin."""
        name = self.target(collection) or collection
        with self.client() as client:
            self._unfinished.touch()
            storage = _storage(client, name)
            storage.execute("PRAGMA synchronous = OFF")
        try:
            yield
        finally:
            with self.client():
                storage.execute("PRAGMA synchronous = FULL")
                sync(Path(storage.execute("PRAGMA database_list").fetchone()[2]))
                self._unfinished.unlink(missing_ok=True)

    def drop(self, alias: str) -> None:
        """Remove everything but the files of the locks, which other processes may wait for."""
        with self._one_at_a_time:
            self.close()
            if not self._folder.is_dir():
                return
            self._own()
            try:
                for path in self._folder.iterdir():
                    if path.suffix != ".lock":
                        shutil.rmtree(path) if path.is_dir() else path.unlink()
            except OSError as problem:
                raise cannot_write(self._folder, problem) from problem
            finally:
                self._owner.release()

    def close(self) -> None:
        with self._one_at_a_time:
            if self._client is not None:
                self._client.close()
                self._client = None
                self._owner.release()

    @property
    def _unfinished(self) -> Path:
        return self._folder / "unfinished"

    def _own(self) -> None:
        make_folder(self._folder)
        if not self._owner.acquire(blocking=False):
            raise Busy(
                "another process uses this Qdrant folder, and its local mode serves one at a time",
                hint="end the other process, or choose the snapshot index or a Qdrant server in the settings",
            )

    def _open(self) -> QdrantClient:
        kind = _client_class()
        self._own()
        try:
            if self._unfinished.exists():
                raise IndexLost("Qdrant was interrupted while it wrote to its folder")
            _refuse_foreign_files(self._folder, self._name)
            # one thread at a time uses it, but not always the same one
            return kind(path=str(self._folder), force_disable_check_same_thread=True)
        except BaseException:
            self._owner.release()
            raise


def _client_class() -> type[QdrantClient]:
    try:
        from qdrant_client import QdrantClient
    except ImportError as problem:
        raise not_installed("Qdrant", "qdrant") from problem
    return QdrantClient


def _storage(client: QdrantClient, collection: str) -> Any:
    """The SQLite connection of local mode, which flushes after every point and cannot be told otherwise."""
    local: Any = client._client
    return local.collections[collection].storage.storage


# -- local mode keeps each point as a pickle, which could run anything when it is read: look at every one before


def _text(*words: str) -> bytes:
    return b"\x8c(?:" + b"|".join(re.escape(bytes([len(word)]) + word.encode()) for word in words) + b")"


_OWN_CLASS = _text("qdrant_client.http.models.models") + rb"\x94" + _text("PointStruct") + rb"\x94\x93\x94\)\x81\x94"
_NAMES = _text(
    *("__dict__", "__pydantic_extra__", "__pydantic_fields_set__", "__pydantic_private__", "id", "vector", "payload"),
    *(VECTOR, STATE, "document", "mark", "watermark", "dimension", "dead"),
)
_INTEGER = rb"K.|M..|J.{4}|\x8a(?:" + b"|".join(rb"\x%02x.{%d}" % (size, size) for size in range(1, 9)) + b")"
_VALUE = rb"G.{8}|[()\]}Nabesu\x88\x89\x8f\x90\x94]|h.|j.{4}|\x95.{8}|\x8c\x40[0-9a-f]{64}|" + _NAMES + b"|" + _INTEGER
_POINT = re.compile(rb"\x80.\x95.{8}" + _OWN_CLASS + rb"(?:" + _VALUE + rb")*+\.", re.DOTALL)
"""Qdrant's own class once, then numbers, known names and plain containers: nothing that could be called."""


def _refuse_foreign_files(folder: Path, name: str) -> None:
    """Raise `IndexLost` unless the folder holds nothing but points as this index writes them."""
    meta = folder / "meta.json"
    if not meta.exists():
        return
    collections = json.loads(meta.read_text(encoding="utf-8"))["collections"]
    if not all(re.fullmatch(rf"{re.escape(name)}\.\d{{1,9}}", known) for known in collections):
        raise IndexLost("the Qdrant folder holds another's collections")
    for path in (folder / "collection").glob("*/*"):
        if path.name not in ("storage.sqlite", "storage.sqlite-journal"):
            raise IndexLost("the Qdrant folder holds files that are not its own")
    for path in (folder / "collection").glob("*/storage.sqlite"):
        with closing(sqlite3.connect(path)) as storage:
            for (point,) in storage.execute("SELECT point FROM points"):
                if _POINT.fullmatch(point) is None:
                    raise IndexLost("the Qdrant folder holds something that is no point of this index")
