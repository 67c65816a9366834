"""Where Qdrant's collections are: in a folder of local mode, or on a server."""

from __future__ import annotations

import errno
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar

from ragforge.adapters.locks import FileLock
from ragforge.adapters.vectors.qdrant_clients import Address, Calls, Item, client_class
from ragforge.adapters.vectors.qdrant_files import refuse_foreign_files
from ragforge.adapters.vectors.rows import is_numbered, make_folder
from ragforge.durable import sync
from ragforge.errors import Busy, IndexLost, RagforgeError, cannot_write

if TYPE_CHECKING:
    from qdrant_client import QdrantClient, models

T = TypeVar("T")

_LINKS, _BUILD_EFFORT = 16, 128
"""Of the graph: links of a row, and how many rows are looked at to choose them."""
_LEAST_EFFORT = 256
_SETTLE_SECONDS = 120
"""So long may a server build its graph before the new collection is used; until then it looks at every row."""
_LOOK_AGAIN = 0.25


@dataclass(frozen=True, slots=True)
class QdrantPlace:
    """Where the collections are, and how a server keeps them."""

    location: Path | str
    """A folder of local mode, or a server's address: `http://host:6333`, with `?grpc_port=` if that is not 6334."""
    key: str = field(default="", repr=False)
    grpc: bool = False
    shards: int = 1
    replicas: int = 1
    write_consistency: int = 1
    """Replicas that must have a write before it counts. Fewer than there are: a search may for a moment miss the
    newest rows."""
    timeout: int = 30
    """Seconds for one call; a search takes at most 5."""


@dataclass(frozen=True, slots=True)
class Layout:
    """What a collection is made for."""

    vectors: Mapping[str, models.VectorParams] = field(default_factory=dict)
    sparse: Mapping[str, models.SparseVectorParams] = field(default_factory=dict)
    indexed: Mapping[str, models.PayloadSchemaType | models.KeywordIndexParams] = field(default_factory=dict)
    """Fields of the payload that rows are sought by."""


class Qdrant:
    """What is asked of both."""

    shared: bool

    def quickly(self, call: Callable[[QdrantClient, int], T]) -> T:
        """What a call for a search brings; it is given the seconds that it may take."""
        raise NotImplementedError

    def patiently(self, call: Callable[[QdrantClient], T]) -> T:
        """What any other call brings. It may be made twice."""
        raise NotImplementedError

    def side_by_side(self, work: Callable[[Item], T], items: Iterable[Item]) -> list[T]:
        """The results of several calls, in their order."""
        return [work(item) for item in items]

    def prepare(self) -> None:
        """Be ready for a new collection, whatever is wrong with the old one."""

    def create(self, collection: str, layout: Layout) -> None:
        """Make a collection anew."""
        raise NotImplementedError

    def settle(self, collection: str) -> None:
        """A new collection has all its rows."""

    def bulk(self, collection: str) -> AbstractContextManager[None]:
        """Around many writes."""
        return nullcontext()

    def drop(self, alias: str) -> None:
        """Remove all that was ever made for an alias."""
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    @property
    def ordering(self) -> models.WriteOrdering | None:
        """How writes of one collection follow each other."""
        return None

    def effort(self, limit: int) -> models.SearchParams | None:
        """How hard to look for this many rows; None: at every row."""
        return None

    def target(self, alias: str) -> str | None:
        """The name of the collection behind an alias."""
        aliases = self.patiently(lambda client: client.get_aliases()).aliases
        return next((known.collection_name for known in aliases if known.alias_name == alias), None)

    def made_for(self, alias: str) -> list[str]:
        """The collections `alias.<n>`: the one behind the alias, and those that whoever was killed left."""
        collections = self.patiently(lambda client: client.get_collections()).collections
        return [known.name for known in collections if is_numbered(alias, known.name)]

    def point(self, alias: str, collection: str) -> None:
        """Put another collection behind the alias, in one step."""
        from qdrant_client import models

        create = models.CreateAlias(collection_name=collection, alias_name=alias)
        changes: list[models.AliasOperations] = [models.CreateAliasOperation(create_alias=create)]
        if self.target(alias) is not None:
            delete = models.DeleteAlias(alias_name=alias)
            changes.insert(0, models.DeleteAliasOperation(delete_alias=delete))
        self.patiently(lambda client: client.update_collection_aliases(changes))

    def delete(self, collection: str) -> None:
        """Remove a collection; absent is fine."""
        self.patiently(lambda client: client.delete_collection(collection))


def open_place(place: QdrantPlace, name: str, known: re.Pattern[bytes]) -> Qdrant:
    """The engine of an index. `known`: what a point of it looks like in a file of local mode."""
    if isinstance(place.location, Path):
        return LocalQdrant(place.location, name, known)
    return QdrantServer(place, place.location)


class QdrantServer(Qdrant):
    """Collections on a server or a cluster."""

    shared = True

    def __init__(self, place: QdrantPlace, url: str) -> None:
        self._place = place
        self._calls = Calls(Address.of(url, place.key, grpc=place.grpc, timeout=place.timeout))

    def quickly(self, call: Callable[[QdrantClient, int], T]) -> T:
        return self._calls.quickly(call)

    def patiently(self, call: Callable[[QdrantClient], T]) -> T:
        return self._calls.patiently(call)

    def side_by_side(self, work: Callable[[Item], T], items: Iterable[Item]) -> list[T]:
        return self._calls.side_by_side(work, items)

    @property
    def ordering(self) -> models.WriteOrdering | None:
        from qdrant_client import models

        return models.WriteOrdering.MEDIUM if self._place.replicas > 1 else None

    def effort(self, limit: int) -> models.SearchParams | None:
        from qdrant_client import models

        return models.SearchParams(hnsw_ef=max(_LEAST_EFFORT, 2 * limit))

    def create(self, collection: str, layout: Layout) -> None:
        """Without a graph until its rows are in, as Qdrant advises; but with what filters need, which it builds on."""
        from qdrant_client import models

        def anew(client: QdrantClient) -> None:
            client.delete_collection(collection)  # of a try whose answer was lost
            client.create_collection(
                collection,
                vectors_config=layout.vectors,
                sparse_vectors_config=layout.sparse,
                hnsw_config=models.HnswConfigDiff(m=0),
                shard_number=self._place.shards,
                replication_factor=self._place.replicas,
                write_consistency_factor=self._place.write_consistency,
            )

        self.patiently(anew)
        for name, schema in layout.indexed.items():
            self._index_field(collection, name, schema)

    def _index_field(self, collection: str, name: str, schema: Any) -> None:
        self.patiently(lambda client: client.create_payload_index(collection, name, schema, wait=True))

    def settle(self, collection: str) -> None:
        """Have the graph built. If that takes long, it is used all the same: every row is looked at meanwhile."""
        from qdrant_client import models

        graph = models.HnswConfigDiff(m=_LINKS, ef_construct=_BUILD_EFFORT)
        self.patiently(lambda client: client.update_collection(collection, hnsw_config=graph))
        deadline = time.monotonic() + _SETTLE_SECONDS
        while self._status(collection) != models.CollectionStatus.GREEN and time.monotonic() < deadline:
            time.sleep(_LOOK_AGAIN)

    def _status(self, collection: str) -> models.CollectionStatus:
        return self.patiently(lambda client: client.get_collection(collection)).status

    def drop(self, alias: str) -> None:
        for collection in self.made_for(alias):
            self.delete(collection)

    def close(self) -> None:
        self._calls.close()


class LocalQdrant(Qdrant):
    """Collections in a folder that one process at a time may use."""

    shared = False

    def __init__(self, folder: Path, name: str, known: re.Pattern[bytes]) -> None:
        self._folder = folder
        self._name = name
        self._known = known
        self._client: QdrantClient | None = None
        self._owner = FileLock(folder / "owner.lock")
        self._one_at_a_time = RLock()

    def quickly(self, call: Callable[[QdrantClient, int], T]) -> T:
        return self.patiently(lambda client: call(client, 0))

    def patiently(self, call: Callable[[QdrantClient], T]) -> T:
        with self._one_at_a_time:
            try:
                if self._client is None:
                    self._client = self._open()
                return call(self._client)
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

    def create(self, collection: str, layout: Layout) -> None:
        self.patiently(
            lambda client: client.create_collection(
                collection, vectors_config=layout.vectors, sparse_vectors_config=layout.sparse
            )
        )

    @contextmanager
    def bulk(self, collection: str) -> Iterator[None]:
        """One flush for all writes. A file tells that they are under way: a power cut leaves a ruin."""
        name = self.target(collection) or collection
        storage = self.patiently(lambda client: self._begin(client, name))
        try:
            yield
        finally:
            self.patiently(lambda client: self._finish(storage))

    def _begin(self, client: QdrantClient, collection: str) -> Any:
        """The SQLite connection of local mode, which flushes after every point and cannot be told otherwise."""
        self._unfinished.touch()
        local: Any = client._client
        storage = local.collections[collection].storage.storage
        storage.execute("PRAGMA synchronous = OFF")
        return storage

    def _finish(self, storage: Any) -> None:
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
        kind = client_class()
        self._own()
        try:
            if self._unfinished.exists():
                raise IndexLost("Qdrant was interrupted while it wrote to its folder")
            refuse_foreign_files(self._folder, self._name, self._known)
            # one thread at a time uses it, but not always the same one
            return kind(path=str(self._folder), force_disable_check_same_thread=True)
        except BaseException:
            self._owner.release()
            raise
