"""Waiting for long work, up to the moment at which the server stops."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from ragforge.interfaces.http.app import create_app
from tests.forge import WatchedEmbedder, open_forge, prose
from tests.serving import listening_to


def test_who_waits_when_the_server_stops_is_told_that_it_was_accepted(tmp_path: Path) -> None:
    began, go = threading.Event(), threading.Event()

    def held() -> None:
        began.set()
        go.wait(20)

    with open_forge(tmp_path / "ws", WatchedEmbedder(64, held)) as forge, ThreadPoolExecutor(1) as pool:
        with listening_to(create_app(forge), grace_seconds=1) as address:
            upload = f"{address}/v1/projects/p/files?name=a.md&wait=30"
            waiting = pool.submit(httpx.post, upload, content=prose(1).encode(), timeout=30)
            assert began.wait(10)
        go.set()
        answer = waiting.result(10)
        assert answer.status_code == 202 and answer.json()["state"] in ("queued", "running")
        assert answer.headers["location"] == f"/v1/jobs/{forge.jobs()[0].id}"
