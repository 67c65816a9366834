"""`ragforge worker`: does what servers were asked for, without being one."""

from __future__ import annotations

import logging
from typing import Annotated

import typer

from ragforge.interfaces.cli.common import Common, command
from ragforge.interfaces.cli.logged import LogFormat, form_of, logged
from ragforge.interfaces.cli.stop import stoppable
from ragforge.interfaces.words import count


def register(app: typer.Typer) -> None:
    command(app, "worker", project=False)(worker)


def worker(
    common: Common,
    uploads: Annotated[
        int | None, typer.Option("--uploads", min=1, max=64, help="Files that are taken in at once [default: 2]")
    ] = None,
    log_format: LogFormat = None,
) -> None:
    """Do the work that waits in the queue, until Ctrl-C.

    It takes in uploads, and rebuilds, reindexes, evaluates and makes documents for those who asked a server for it.
    A server does this by itself; workers beside it, on the same workspace, share the work.
    """
    form = form_of(common, log_format)
    say = logging.getLogger("ragforge.worker").info if form == "json" else common.say
    with (
        common.open() as forge,
        logged(common, forge, form),
        stoppable(lambda: say("Stopping; what is not done goes back to the queue.")) as cancel,
    ):
        work = forge.worker(uploads or 0)
        work.start()
        try:
            threads = count(uploads or forge.settings.server.uploads, "upload")
            say(f"Working on what waits in {forge.workspace}, {threads} at once. Ctrl-C stops it.")
            while not cancel.wait(1.0):
                pass
        finally:
            work.stop()
