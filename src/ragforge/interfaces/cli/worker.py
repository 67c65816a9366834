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
    is_new_machine = bool(common.settings().store.database_url)  # all there is to know is in the database
    with (
        common.open(create=is_new_machine) as forge,
        logged(common, forge, form),
        stoppable(lambda: say("Stopping; what is not done goes back to the queue.")) as cancel,
    ):
        number = uploads or forge.settings.server.uploads or 1
        work, neighbour = forge.worker(number), forge.neighbour(serves=False)
        work.start()
        if neighbour is not None:
            neighbour.start()
        try:
            threads = count(number, "upload")
            say(f"Working on what waits in {forge.workspace}, {threads} at once. Ctrl-C stops it.")
            while not cancel.wait(1.0):
                pass
        finally:
            if neighbour is not None:
                neighbour.stop()
            work.stop()
