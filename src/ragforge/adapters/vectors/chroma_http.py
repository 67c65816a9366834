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
from ragforge.errors import IndexLost, StoreError, UserError
from ragforge.once import once

if TYPE_CHECKING:
    import httpx

_PLACE = "/api/v2/tenants/default_tenant/databases/default_database"


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
        answer = self.send(
            "POST", "/collections", {"name": name, "metadata": dict(metadata), "configuration": configuration or {}}
        )
        return HttpCollection(self, answer)

    def get_collection(self, name: str) -> HttpCollection:
        return HttpCollection(self, self.send("GET", f"/collections/{quote(name, safe='')}"))

    def delete_collection(self, name: str) -> None:
        self.send("DELETE", f"/collections/{quote(name, safe='')}")

    def send(self, method: str, path: str, body: Any = None) -> Any:
        session = self._session
        from httpx import HTTPError

        try:
            answer = session.request(method, path, json=body)
            if answer.is_success:
                return answer.json() if answer.content else None
        except (HTTPError, ValueError) as problem:
            raise StoreError(
                f"the Chroma server at {self.url} does not answer: {type(problem).__name__}",
                hint="is the server running? Check the address in the settings",
            ) from problem
        reason = f"the Chroma server at {self.url} says: {answer.status_code} {answer.text[:300]}"
        if answer.status_code == 404 and "NotFoundError" in answer.text:  # and not just some other web server
            raise Gone(reason)
        if answer.status_code == 500:  # it cannot read what it has
            raise IndexLost(reason)
        raise StoreError(reason, hint="check the address and the key in the settings, and the server's log")

    def close(self) -> None:
        if (session := self.__dict__.pop("_session", None)) is not None:
            session.close()


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
        return self._server.send("POST", f"{self._path}/query", request)
