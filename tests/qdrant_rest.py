"""Qdrant's own engine behind its REST protocol, on this machine.

No wheel brings the server, but one brings its engine (`qdrant-edge-py`): segments, graphs, sparse vectors and filters
are real; what is ours is the calls over HTTP. It keeps what it was asked, and fails when it is told to.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock, Thread
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import qdrant_edge as edge


@dataclass(frozen=True)
class Asked:
    """One request."""

    method: str
    path: str
    body: dict[str, Any]


@dataclass
class Failure:
    """What is answered instead, how many times, to which requests."""

    status: int
    times: int
    path: re.Pattern[str]
    after: bool
    """The request is carried out all the same: only its answer is lost."""


@dataclass
class RestQdrant:
    """What the tests see of the server."""

    url: str = ""
    asked: list[Asked] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    connections: int = 0

    def fail(self, status: int, times: int = 1, path: str = "", *, after: bool = False) -> None:
        self.failures.append(Failure(status, times, re.compile(path), after))

    def requests(self, method: str, path: str) -> list[Asked]:
        return [asked for asked in self.asked if asked.method == method and re.search(path, asked.path)]


class _Missing(Exception):
    """No such collection."""


class _Engine:
    """Collections as shards of Qdrant's own engine, one call at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = count(1)
        self._shards: dict[str, edge.EdgeShard] = {}
        self._folders: dict[str, Path] = {}
        self._aliases: dict[str, str] = {}
        self._lock = Lock()

    def answer(self, asked: Asked) -> Any:
        for method, pattern, function in _ROUTES:
            if asked.method == method and (match := re.fullmatch(pattern, asked.path)):
                with self._lock:
                    return function(self, asked.body, *match.groups())
        raise LookupError(f"{asked.method} {asked.path}")

    def close(self) -> None:
        for shard in self._shards.values():
            shard.close()

    def _shard(self, name: str) -> edge.EdgeShard:
        try:
            return self._shards[self._aliases.get(name, name)]
        except KeyError:
            raise _Missing(name) from None

    def create(self, body: Any, name: str) -> bool:
        dense = {
            vector: edge.EdgeVectorParams(size=params["size"], distance=getattr(edge.Distance, params["distance"]))
            for vector, params in (body.get("vectors") or {}).items()
        }
        sparse = {vector: edge.EdgeSparseVectorParams() for vector in body.get("sparse_vectors") or {}}
        config = edge.EdgeConfig(vectors=dense, sparse_vectors=sparse, hnsw_config=_GRAPH, optimizers=_EAGER)
        folder = self._folders[name] = self._folder / str(next(self._numbers))
        folder.mkdir()
        self._shards[name] = edge.EdgeShard.create(str(folder), config)
        return True

    def update(self, body: Any, name: str) -> bool:
        """Build the graph, if there is to be one."""
        if body["hnsw_config"]["m"]:
            self._shard(name).optimize()
        return True

    def delete(self, body: Any, name: str) -> bool:
        shard = self._shards.pop(name, None)
        if shard is not None:
            shard.close()
            shutil.rmtree(self._folders.pop(name))
        self._aliases = {alias: target for alias, target in self._aliases.items() if target != name}
        return shard is not None

    def info(self, body: Any, name: str) -> Any:
        self._shard(name)
        return _INFO

    def index_field(self, body: Any, name: str) -> Any:
        schema = body["field_schema"]
        kind = schema if isinstance(schema, str) else schema["type"]
        wanted = getattr(edge.PayloadSchemaType, kind.capitalize())
        self._shard(name).update(edge.UpdateOperation.create_field_index(body["field_name"], wanted))
        return _DONE

    def collections(self, body: Any) -> Any:
        return {"collections": [{"name": name} for name in self._shards]}

    def aliases(self, body: Any) -> Any:
        known = [{"alias_name": alias, "collection_name": target} for alias, target in self._aliases.items()]
        return {"aliases": known}

    def change_aliases(self, body: Any) -> bool:
        for action in body["actions"]:
            if "delete_alias" in action:
                del self._aliases[action["delete_alias"]["alias_name"]]
            else:
                made = action["create_alias"]
                self._aliases[made["alias_name"]] = made["collection_name"]
        return True

    def upsert(self, body: Any, name: str) -> Any:
        points = [edge.Point(_id(one["id"]), _vectors(one["vector"]), one["payload"]) for one in body["points"]]
        self._shard(name).update(edge.UpdateOperation.upsert_points(points))
        return _DONE

    def remove(self, body: Any, name: str) -> Any:
        self._shard(name).update(edge.UpdateOperation.delete_points([_id(one) for one in body["points"]]))
        return _DONE

    def retrieve(self, body: Any, name: str) -> Any:
        ids = [_id(one) for one in body["ids"]]
        return [_shown(one) for one in self._shard(name).retrieve(ids, **_with(body))]

    def count(self, body: Any, name: str) -> Any:
        wanted = edge.CountRequest(exact=body["exact"], filter=_filter(body.get("filter")))
        return {"count": self._shard(name).count(wanted)}

    def scroll(self, body: Any, name: str) -> Any:
        offset = None if body.get("offset") is None else _id(body["offset"])
        points, after = self._shard(name).scroll(edge.ScrollRequest(offset=offset, limit=body["limit"], **_with(body)))
        return {
            "points": [_shown(one) for one in points],
            "next_page_offset": None if after is None else _shown_id(after),
        }

    def query(self, body: Any, name: str) -> Any:
        asked = body["query"]
        vector = asked.get("nearest", asked) if isinstance(asked, dict) else asked
        params = body.get("params") or {}
        wanted = edge.QueryRequest(
            limit=body["limit"],
            query=edge.Query.Nearest(_vector(vector), using=body["using"]),
            filter=_filter(body.get("filter")),
            params=edge.SearchParams(hnsw_ef=params.get("hnsw_ef"), exact=bool(params.get("exact"))),
            **_with(body),
        )
        found = self._shard(name).query(wanted)
        return {"points": [{**_shown(one), "score": one.score, "version": one.version} for one in found]}


_GRAPH = edge.HnswIndexConfig(m=16, ef_construct=128, full_scan_threshold=10)
_EAGER = edge.EdgeOptimizersConfig(indexing_threshold=100)
"""A graph is built for 100 KB: the tests have few rows."""
_DONE = {"operation_id": 1, "status": "completed"}
_INFO = {
    "status": "green",
    "optimizer_status": "ok",
    "segments_count": 1,
    "payload_schema": {},
    "config": {
        "params": {},
        "hnsw_config": {"m": 16, "ef_construct": 128, "full_scan_threshold": 10},
        "optimizer_config": {
            "deleted_threshold": 0.2,
            "vacuum_min_vector_number": 1000,
            "default_segment_number": 0,
            "flush_interval_sec": 5,
        },
    },
}


def _id(told: int | str) -> Any:
    return told if isinstance(told, int) else UUID(told)


def _shown_id(known: Any) -> int | str:
    return known if isinstance(known, int) else str(known)


def _vector(told: Any) -> Any:
    return edge.SparseVector(told["indices"], told["values"]) if isinstance(told, dict) else told


def _vectors(told: Any) -> Any:
    return {name: _vector(vector) for name, vector in told.items()}


def _shown(point: Any) -> dict[str, Any]:
    vectors = None if point.vector is None else {name: _shown_vector(one) for name, one in point.vector.items()}
    return {"id": _shown_id(point.id), "payload": point.payload, "vector": vectors}


def _shown_vector(vector: Any) -> Any:
    sparse = isinstance(vector, edge.SparseVector)
    return {"indices": vector.indices, "values": vector.values} if sparse else vector


def _with(body: Any) -> dict[str, Any]:
    return {"with_payload": body.get("with_payload") or False, "with_vector": body.get("with_vector") or False}


def _filter(told: Any) -> Any:
    if told is None:
        return None
    return edge.Filter(
        must=[_condition(one) for one in told.get("must") or []],
        must_not=[_condition(one) for one in told.get("must_not") or []],
    )


def _condition(told: Any) -> Any:
    if "has_id" in told:
        return edge.HasIdCondition({_id(one) for one in told["has_id"]})
    return edge.FieldCondition(told["key"], match=edge.MatchAny(told["match"]["any"]))


_NAMED = r"/collections/([^/]+)"
_ROUTES: list[tuple[str, str, Callable[..., Any]]] = [
    ("GET", "/aliases", _Engine.aliases),
    ("GET", "/collections", _Engine.collections),
    ("POST", "/collections/aliases", _Engine.change_aliases),
    ("GET", _NAMED, _Engine.info),
    ("PUT", _NAMED, _Engine.create),
    ("PATCH", _NAMED, _Engine.update),
    ("DELETE", _NAMED, _Engine.delete),
    ("PUT", f"{_NAMED}/index", _Engine.index_field),
    ("PUT", f"{_NAMED}/points", _Engine.upsert),
    ("POST", f"{_NAMED}/points", _Engine.retrieve),
    ("POST", f"{_NAMED}/points/delete", _Engine.remove),
    ("POST", f"{_NAMED}/points/count", _Engine.count),
    ("POST", f"{_NAMED}/points/scroll", _Engine.scroll),
    ("POST", f"{_NAMED}/points/query", _Engine.query),
]


def _handler(seen: RestQdrant, engine: _Engine) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            seen.connections += 1
            super().setup()

        def answer(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
            asked = Asked(self.command, urlsplit(self.path).path, body)
            seen.asked.append(asked)
            failure = next((one for one in seen.failures if one.times and one.path.search(asked.path)), None)
            if failure is not None:
                failure.times -= 1
                if failure.after:
                    engine.answer(asked)
                self.say(failure.status, {"status": {"error": "told to fail"}})
                return
            try:
                self.say(200, {"result": engine.answer(asked), "status": "ok", "time": 0.0})
            except _Missing as missing:
                self.say(404, {"status": {"error": f"Not found: Collection `{missing}` doesn't exist!"}})

        def say(self, status: int, body: Any) -> None:
            said = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = answer

        def log_message(self, format: str, *args: object) -> None:
            """Tests are quiet."""

    return Handler


@contextmanager
def rest_qdrant() -> Iterator[RestQdrant]:
    with TemporaryDirectory(prefix="ragforge-qdrant-") as folder:
        seen, engine = RestQdrant(), _Engine(Path(folder))
        server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(seen, engine))
        server.daemon_threads = True
        seen.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield seen
        finally:
            server.shutdown()
            server.server_close()
            thread.join()
            engine.close()
