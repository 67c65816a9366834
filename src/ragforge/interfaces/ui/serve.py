"""The pages as a server: it listens, guards its names, and lets Streamlit answer.

Streamlit looks after sessions and forged requests. Before it stand the names under which it may be called, so that no
page of somebody else's can trick a browser into it, and a policy that lets nothing be loaded from elsewhere.
"""

from __future__ import annotations

import logging
import re
import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ragforge.interfaces.http.guard import Names
from ragforge.interfaces.http.serve import run
from ragforge.interfaces.ui import engine

_UPLOAD = re.compile(r"/_stcore/upload_file/([^/]*)")
"""Where Streamlit takes files, for the tab that is named."""

log = logging.getLogger("ragforge.ui")

_LOCAL = ("localhost", "127.0.0.1", "[::1]")
_LARGEST_MESSAGE = 16 * 2**20
"""Of what a browser says over its socket; files come another way."""
_POLICY = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self' 'unsafe-inline' 'unsafe-eval' blob: data:",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "font-src 'self' data:",
        "connect-src 'self' data: blob:",
        "worker-src 'self' blob:",
        "object-src 'none'",
        "base-uri 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
"""Streamlit brings its own scripts; whatever a document says, a browser asks nobody else."""


class Door:
    """Before Streamlit: known names only, and the policy on every answer."""

    def __init__(self, app: ASGIApp, names: Names, tabs: engine.Tabs) -> None:
        self._app = app
        self._names = names
        self._tabs = tabs

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not self._names.known_host(host) or not self._names.known_origin(headers.get("origin", ""), host):
            await _refused(scope, receive, send)
            return
        if (upload := _UPLOAD.match(scope["path"])) and upload[1] not in self._tabs:
            await PlainTextResponse("Nobody may bring files here who has not signed in.\n", 403)(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer = MutableHeaders(scope=message)
                answer["Content-Security-Policy"] = _POLICY
                answer["X-Content-Type-Options"] = "nosniff"
                answer["Referrer-Policy"] = "no-referrer"
            await send(message)

        await self._app(scope, receive, guarded)


async def _refused(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 4403})
        return
    await PlainTextResponse("This page does not go by that name.\n", 421)(scope, receive, send)


def serve(
    chosen: engine.Engine,
    listening: socket.socket,
    hosts: tuple[str, ...],
    started: Callable[[], None],
    stopping: Callable[[], None],
) -> None:
    """Until a signal comes."""
    engine.use(chosen)
    app = _pages(chosen, Names((*_LOCAL, *hosts), ()))
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=1,
        ws_max_size=_LARGEST_MESSAGE,
        ws_per_message_deflate=False,
    )

    def begin() -> None:
        _quieten()  # what was loaded meanwhile
        started()

    _quieten()
    run(config, [listening], begin, stopping)


def _quieten() -> None:
    """What libraries have to say goes where everything is logged, without secrets or words of documents."""
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] in ("streamlit", "uvicorn", "websockets"):
            logger = logging.getLogger(name)
            logger.handlers.clear()
            logger.propagate = True
            logger.setLevel(logging.WARNING)


def _failed(problem: Exception) -> bool:
    """A fault of ours: the log tells what it was, the page that it is there. Streamlit shows nothing of its own."""
    import streamlit as st

    log.error("a page failed: %s", type(problem).__name__, exc_info=problem)
    st.error(
        "Something went wrong here, and it is not your fault. Nothing was lost.\n\n**Next:** reload the page; the log "
        "of ragforge ui tells more.",
        icon=":material/bug_report:",
    )
    return True


def _pages(chosen: engine.Engine, names: Names) -> ASGIApp:
    from streamlit import config
    from streamlit.starlette import App

    for name, value in {
        "browser.gatherUsageStats": False,
        "client.showErrorDetails": "none",
        "client.toolbarMode": "minimal",
        "global.developmentMode": False,
        "runner.magicEnabled": False,
        "server.fileWatcherType": "none",
        "server.headless": True,
        "server.maxUploadSize": max(1, chosen.largest_file // 1_000_000),
        "server.runOnSave": False,
        "theme.light.primaryColor": "#2f6fd0",
        "theme.dark.primaryColor": "#4a8bea",
    }.items():
        config.set_option(name, value)
    door = Middleware(Door, names=names, tabs=chosen.tabs)
    app: ASGIApp = App(Path(__file__).parent / "page.py", middleware=[door], on_script_error=_failed)
    return app
