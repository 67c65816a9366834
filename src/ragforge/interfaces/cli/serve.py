"""`ragforge serve`: the HTTP server."""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

from ragforge.errors import MissingExtra
from ragforge.interfaces.cli.common import Common, command
from ragforge.interfaces.cli.logged import LogFormat, form_of, logged

if TYPE_CHECKING:
    from ragforge.app import Ragforge
    from ragforge.operate.logs import Form

_MOST_WORKERS = 64


def register(app: typer.Typer) -> None:
    command(app, "serve", project=False)(serve)


def serve(
    common: Common,
    host: Annotated[
        str | None, typer.Option("--host", metavar="ADDRESS", help="Address to listen on [default: 127.0.0.1]")
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65_535, help="Port; 0: any free one [default: 8600]")
    ] = None,
    workers: Annotated[
        int, typer.Option("--workers", min=1, max=_MOST_WORKERS, help="Processes that share the work")
    ] = 1,
    log_format: LogFormat = None,
) -> None:
    """Serve the workspace over HTTP until Ctrl-C.

    Without access keys only this machine may call, and everybody on it owns the workspace. Another address needs a
    key first: `ragforge keys new`.

    The routes are described at /docs; /healthz, /readyz and /metrics are for whoever watches over the server.
    """
    if not all(find_spec(name) for name in ("fastapi", "uvicorn")):
        raise MissingExtra("The HTTP server", "server")
    with _without("watchfiles"):  # of use to the reloader of uvicorn, and slow to load
        from ragforge.interfaces.http.serve import LISTENING, share_memory

    share_memory()
    flags: dict[str, dict[str, object]] = {}
    flags |= {"--host": {"server.host": host}} if host else {}
    flags |= {"--port": {"server.port": port}} if port is not None else {}
    form = form_of(common, log_format)
    shared = os.environ.get(LISTENING)
    with common.open(create=True, flags=flags) as forge, logged(common, forge, form):
        if shared is not None:
            _work(forge, socket.socket(fileno=int(shared)), lambda: None)
        else:
            _begin(common, forge, workers, form)


@contextmanager
def _without(module: str) -> Iterator[None]:
    """Whoever imports it meanwhile does not find it, and does without."""
    known = sys.modules.get(module)
    sys.modules[module] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[module]
        if known is not None:
            sys.modules[module] = known


def _begin(common: Common, forge: Ragforge, workers: int, form: Form) -> None:
    """Listen, and answer here or let workers answer."""
    from ragforge.interfaces.http.door import refuse_open_door
    from ragforge.interfaces.http.serve import Supervisor, listen

    server, access = forge.settings.server, forge.access()
    refuse_open_door(access, server.host)
    listening = listen(server.host, server.port, server.idle_seconds)
    told = _announcement(common, forge, listening, are_there_keys=access.are_there_keys(), form=form)
    if workers == 1:
        _work(forge, listening, told)
    else:
        Supervisor(_again(common, forge, listening, form), listening, workers).run(told)
    if form == "json":
        logging.getLogger("ragforge.serve").info("stopped")
    else:
        common.say("Stopped")


def _work(forge: Ragforge, listening: socket.socket, started: Callable[[], None]) -> None:
    from ragforge.interfaces.http.app import create_app
    from ragforge.interfaces.http.serve import serve
    from ragforge.interfaces.http.workers import Place

    place = Place.of(forge.workspace)
    sockets = [listening, place.listen()] if place.number else [listening]
    serve(create_app(forge), sockets, started, head_seconds=forge.settings.server.head_seconds)


def _again(common: Common, forge: Ragforge, listening: socket.socket, form: Form) -> list[str]:
    """The same command for a worker."""
    host, port = listening.getsockname()[:2]
    config = ["--config", str(common.config)] if common.config else []
    settings = [part for each in common.settings_given for part in ("--set", each)]
    how = [*(["--debug"] if common.debug else []), *(["--quiet"] if common.quiet else [])]
    own = ["--host", forge.settings.server.host or host, "--port", str(port), "--log-format", form]
    return [
        sys.executable,
        "-m",
        "ragforge.interfaces.cli.main",
        "-w",
        str(forge.workspace),
        *config,
        *settings,
        *how,
        "serve",
        *own,
    ]


def _announcement(
    common: Common, forge: Ragforge, listening: socket.socket, *, are_there_keys: bool, form: Form
) -> Callable[[], None]:
    from ragforge.interfaces.http.serve import address_of

    address = address_of(listening)
    keys = (
        "Callers need a key"
        if are_there_keys
        else "No key is needed: whoever is on this machine owns the workspace; ragforge keys new changes that"
    )

    def told() -> None:
        if form == "json":
            facts = {"address": address, "keys": are_there_keys, "stop": "SIGTERM"}
            logging.getLogger("ragforge.serve").info("listening", extra={"fields": facts})
            return
        common.say(f"Serving {forge.workspace} at {address}; the routes are at {address}/docs")
        common.say(keys)
        common.say("Stop with Ctrl-C")

    return told
