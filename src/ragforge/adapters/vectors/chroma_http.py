"""A Chroma server's collections over HTTP.

Chroma's own client waits for ever for a server that does not answer, and reads settings from whatever `.env` file
lies in the current folder; its protocol is small enough to speak directly.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np

from ragforge.adapters.vectors.chroma_rows import Gone
from ragforge.adapters.vectors.rows import not_installed
from ragforge.errors import IndexLost, StoreError, Unreachable, UserError
from ragforge.once import once

if TYPE_CHECKING:
    import httpx

_PLACE = "/api/v2/tenants/default_tenant/databases/default_database"
_PAGE = 1_000
"""Names that are asked for at a time."""
_TRIES = 3
_PATIENCE = 3.0
"""Seconds in which new tries are begun: a search is better answered without this index than late."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 1.0
_PASSING = frozenset({429, 502, 503, 504})
"""Statuses of a server that is overloaded, or just starting behind its proxy."""


class _Away(Unreachable):
    """It may be back in a moment."""


class ChromaHttp:
    """The collections of one server."""

    def __init__(self, url: str, timeout: float, key: str = "") -> None:
        if not url.startswith(("http://", "https://")):
            raise UserError(f"not the address of a Chroma server: {url}", hint="write it like http://localhost:8000")
        self.url = url.rstrip("/")
        self._timeout, self._key = timeout, key

    @once
    def _session(self) -> httpx.Client:
        try:
            import httpx
        except ImportError as problem:
            raise not_installed("Chroma", "chroma") from problem
        key = self._key
        headers = {"X-Chroma-Token": key, "Authorization": f"Bearer {key}"} if key else {}  # servers ask for either
        return httpx.Client(base_url=self.url + _PLACE, timeout=self._timeout, headers=headers)

    def create_collection(self, name: str, metadata: Mapping[str, Any], configuration: Any = None) -> HttpCollection:
        request = {"name": name, "metadata": dict(metadata), "configuration": configuration or {}}
        return HttpCollection(self, self.send("POST", "/collections", request, tries=1))  # a second would be refused

    def collections(self) -> list[str]:
        """The names of all, whoever made them."""
        names: list[str] = []
        while page := self.send("GET", f"/collections?limit={_PAGE}&offset={len(names)}"):
            names += [record["name"] for record in page]
        return names

    def get_collection(self, name: str) -> HttpCollection:
        return HttpCollection(self, self.send("GET", f"/collections/{quote(name, safe='')}"))

    def delete_collection(self, name: str) -> None:
        self.send("DELETE", f"/collections/{quote(name, safe='')}")

    def send(self, method: str, path: str, body: Any = None, *, tries: int = _TRIES) -> Any:
        """The answer. Every call but the making of a collection may be made twice, so it is tried again."""
        import tenacity

        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(_Away),
            wait=tenacity.wait_exponential(_FIRST_PAUSE, _LONGEST_PAUSE) + tenacity.wait_random(0, _FIRST_PAUSE),
            stop=tenacity.stop_any(tenacity.stop_after_attempt(tries), tenacity.stop_before_delay(_PATIENCE)),
            reraise=True,
        )
        return retrying(self._send, method, path, body)

    def _send(self, method: str, path: str, body: Any) -> Any:
        session = self._session
        from httpx import HTTPError, TimeoutException, TransportError

        try:
            answer = session.request(method, path, json=body)
            if answer.is_success:
                return answer.json() if answer.content else None
        except (HTTPError, ValueError) as problem:
            told = f"the Chroma server at {self.url} does not answer: {type(problem).__name__}"
            away = isinstance(problem, TransportError) and not isinstance(problem, TimeoutException)
            kind = _Away if away else Unreachable if isinstance(problem, HTTPError) else StoreError
            raise kind(told, hint="is the server running? Check the address in the settings") from problem
        raise _refusal(f"the Chroma server at {self.url} says: {answer.status_code} {answer.text[:300]}", answer)

    def close(self) -> None:
        if (session := self.__dict__.pop("_session", None)) is not None:
            session.close()


def _refusal(told: str, answer: httpx.Response) -> StoreError:
    if answer.status_code == 404 and "NotFoundError" in answer.text:  # and not just some other web server
        return Gone(told)
    if answer.status_code == 500:  # it cannot read what it has
        return IndexLost(told)
    if answer.status_code in _PASSING:
        return _Away(told, hint="try again in a moment; the server is overloaded or starting")
    return StoreError(told, hint="check the address and the key in the settings, and the server's log")


class HttpCollection:
    """One collection, with the methods of Chroma's own."""

    def __init__(self, server: ChromaHttp, record: Any) -> None:
        self._server = server
        self._path = f"/collections/{record['id']}"
        self.metadata: Any = record.get("metadata")

    def count(self) -> int:
        return int(self._server.send("GET", f"{self._path}/count"))

    def upsert(self, *, ids: list[str], embeddings: Any, metadatas: Any) -> None:
        rows = {"ids": ids, "embeddings": np.asarray(embeddings).tolist(), "metadatas": metadatas}
        self._server.send("POST", f"{self._path}/upsert", rows)

    def delete(self, *, ids: list[str]) -> None:
        self._server.send("POST", f"{self._path}/delete", {"ids": ids})

    def modify(self, *, metadata: Any) -> None:
        self._server.send("PUT", self._path, {"new_metadata": metadata})
        self.metadata = metadata

    def get(
        self,
        *,
        ids: list[str] | None = None,
        where: Any = None,
        limit: int | None = None,
        offset: int | None = None,
        include: Any = (),
    ) -> Any:
        request = {"ids": ids, "where": where, "limit": limit, "offset": offset, "include": list(include)}
        return self._server.send("POST", f"{self._path}/get", request)

    def query(self, *, query_embeddings: Any, n_results: int, where: Any = None, include: Any = ()) -> Any:
        request = {
            "query_embeddings": np.asarray(query_embeddings).tolist(),
            "n_results": n_results,
            "where": where,
            "include": list(include),
        }
        return self._server.send("POST", f"{self._path}/query", request, tries=2)
