"""`ragforge ui`: the web page."""

from __future__ import annotations

import logging
import os
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

from ragforge.domain.hosts import is_loopback
from ragforge.errors import MissingExtra, NotAllowed, UserError
from ragforge.interfaces.cli.common import Common, command
from ragforge.interfaces.cli.logged import LogFormat, form_of, logged

if TYPE_CHECKING:
    import socket

    from ragforge.interfaces.ui.engine import Here, There
    from ragforge.operate.logs import Form

PORT = 8601
_IDLE_SECONDS = 60.0
_KEY = "RAGFORGE_KEY"


def register(app: typer.Typer) -> None:
    command(app, "ui", project=False)(ui)


def ui(
    common: Common,
    server: Annotated[
        str, typer.Option("--server", metavar="URL", help="Show a workspace that ragforge serve serves elsewhere")
    ] = "",
    key: Annotated[
        str, typer.Option("--key", metavar="KEY", help=f"Key for the server; better in the variable {_KEY}")
    ] = "",
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Address to listen on")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65_535, help="Port; 0: any free one")] = PORT,
    name: Annotated[
        list[str] | None,
        typer.Option("--name", metavar="HOST", help="Name under which the page may be called, beside its address"),
    ] = None,
    log_format: LogFormat = None,
) -> None:
    """Show the workspace as a web page, until Ctrl-C.

    Without access keys only this machine may look, and everybody on it owns the workspace. Another address needs a
    key first: `ragforge keys new`. Whoever looks then signs in with theirs.
    """
    if not all(find_spec(module) for module in ("streamlit", "uvicorn")):
        raise MissingExtra("The web page", "ui")
    if key and not server:
        raise UserError("--key is for a server", hint="name it with --server URL")
    hosts, form = (host, *(name or ())), form_of(common, log_format)
    if server:
        _elsewhere(common, server, key or os.environ.get(_KEY, ""), host, port, hosts, form)
    else:
        _here(common, host, port, hosts, form)


def _here(common: Common, host: str, port: int, hosts: tuple[str, ...], form: Form) -> None:
    from ragforge.interfaces.http.door import refuse_open_door
    from ragforge.interfaces.http.serve import listen, share_memory
    from ragforge.interfaces.ui.engine import Here

    share_memory()
    with common.open(create=True) as forge, logged(common, forge, form):
        refuse_open_door(forge.access(), host)
        listening = listen(host, port, _IDLE_SECONDS)
        with Here(forge) as chosen:
            _show(common, chosen, listening, hosts, form)


def _elsewhere(common: Common, server: str, key: str, host: str, port: int, hosts: tuple[str, ...], form: Form) -> None:
    from ragforge.interfaces.http.serve import listen
    from ragforge.interfaces.ui.engine import There, is_open
    from ragforge.operate.logs import logging_to

    if key and not is_loopback(host):
        raise NotAllowed(
            f"everybody who reaches {host} would use your key",
            hint="leave --key out, so that each signs in with their own; or listen on 127.0.0.1",
        )
    if not is_loopback(host) and is_open(server):
        raise NotAllowed(
            f"{server} needs no key, so everybody who reaches {host} could read and change everything",
            hint="make a key there first: ragforge keys new NAME --role reader; or listen on 127.0.0.1",
        )
    chosen = There(server, key, common.settings())
    with logging_to(sys.stderr, form, [key] if key else [], messages=common.debug, quiet=common.quiet):
        _show(common, chosen, listen(host, port, _IDLE_SECONDS), hosts, form)


def _show(common: Common, chosen: Here | There, listening: socket.socket, hosts: tuple[str, ...], form: Form) -> None:
    from ragforge.interfaces.http.serve import address_of
    from ragforge.interfaces.ui.serve import serve

    address = address_of(listening)

    def started() -> None:
        if form == "json":
            logging.getLogger("ragforge.ui").info("listening", extra={"fields": {"address": address}})
            return
        common.say(f"Showing {chosen.where} at {address}")
        common.say("Stop with Ctrl-C")

    serve(chosen, listening, hosts, started, chosen.stop)
    if form == "text":
        common.say("Stopped")
