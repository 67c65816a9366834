"""`migrate`: the catalog to another database, and back."""

from __future__ import annotations

from typing import Annotated

import typer

from ragforge.domain.cancel import Cancelled
from ragforge.domain.library import Progress
from ragforge.domain.migration import SQLITE, MigrationReport, is_server
from ragforge.errors import UserError
from ragforge.interfaces.cli.common import Common, command
from ragforge.interfaces.cli.output import Column, one_line, plain, print_json, print_table
from ragforge.interfaces.cli.progress import meter
from ragforge.interfaces.cli.stop import STOPPED, stoppable
from ragforge.interfaces.words import count, duration

_COLUMNS = (Column("table"), Column("rows", align_right=True), Column("sha-256", least=12))


def register(app: typer.Typer) -> None:
    command(app, "migrate", project=False)(migrate)


def migrate(
    common: Common,
    to: Annotated[
        str,
        typer.Option("--to", metavar="ADDRESS", help="postgresql://USER@HOST/DATABASE, or sqlite", show_default=False),
    ] = "",
    switch: Annotated[
        bool, typer.Option("--switch/--no-switch", help="Use it from then on; else just copy and verify")
    ] = True,
    keep_password: Annotated[
        bool, typer.Option("--keep-password", help="Write the address into ragforge.toml with its password")
    ] = False,
    take_back: Annotated[
        bool, typer.Option("--take-back", help="Use a catalog that was moved again, as it was then")
    ] = False,
) -> None:
    """Move the catalog to a Postgres database, or back into the workspace.

    Files, settings and templates stay in the workspace's folder. Every table is compared by count and checksum before
    the new catalog is used; the old one is kept. Stopped or killed, the same command goes on where it was.
    """
    if bool(to) == take_back:
        raise UserError("say where the catalog shall go", hint="--to postgresql://USER@HOST/DATABASE, or --to sqlite")
    if take_back:
        _take_back(common)
        return
    report = _moved(common, to, switching=switch, keep_password=keep_password)
    if common.json:
        print_json({"migration": report, "rows": report.rows})
        return
    _show(common, report)


def _moved(common: Common, to: str, *, switching: bool, keep_password: bool) -> MigrationReport:
    """Show how far it is until its report comes."""
    from ragforge.app import Ragforge

    settings = common.settings()
    report: MigrationReport | None = None
    with (
        meter(quiet=common.quiet or common.json, lines_on_stdout=False, unit="rows") as shown,
        stoppable(lambda: shown.say("Stopping. Ctrl-C again stops at once.")) as cancel,
    ):
        events = Ragforge.migrating(to, settings, switching=switching, keep_password=keep_password, cancel=cancel)
        try:
            for event in events:
                if isinstance(event, Progress):
                    shown.show(event)
                else:
                    report = event
        except Cancelled:
            common.say("Stopped. Nothing was changed in the workspace; run the same command again to go on.")
            raise typer.Exit(STOPPED) from None
    assert report is not None
    return report


def _show(common: Common, report: MigrationReport) -> None:
    where = "catalog.db of the workspace" if report.target == SQLITE else plain(report.target)
    if report.already:
        common.say(f"The catalog is in {where} already.")
    else:
        filled = [table for table in report.tables if table.rows]
        print_table(_COLUMNS, [(table.name, f"{table.rows:,}", table.checksum) for table in filled])
        _say_copied(common, report)
        if report.switched:
            common.say(f"The catalog is in {where} now.")
        else:
            common.say(f"{where} holds the same. The workspace still uses its own: --switch goes on.")
    if is_server(report.kept):
        common.say(f"The old one is kept in {plain(report.kept)}: drop that database when you do not need it.")
    elif report.kept:
        common.say(
            f"The old one is kept as {plain(report.kept)}. It holds every text: delete it when you do not need it."
        )
    for notice in report.notices:
        common.say(f"Note: {one_line(notice)}")


def _say_copied(common: Common, report: MigrationReport) -> None:
    empty = sum(not table.rows for table in report.tables)
    parts = [
        f"{count(report.rows, 'row')} in {count(len(report.tables) - empty, 'table')} verified",
        f"{count(empty, 'table')} empty" if empty else "",
        f"{report.resumed:,} rows were there from before" if report.resumed else "",
    ]
    common.say(f"{', '.join(filter(None, parts))}; {duration(report.seconds)}")


def _take_back(common: Common) -> None:
    from ragforge.app import Ragforge

    went_to = Ragforge.take_back(common.settings())
    if common.json:
        print_json({"taken_back": True, "went_to": went_to})
        return
    common.say(f"The catalog is used again, as it was when it was moved to {plain(went_to)}.")
    common.say("What was done there since is not in it.")
