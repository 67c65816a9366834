"""`keys …`: who may call a server, and what for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Annotated, Literal

import typer

from ragforge.domain.access import AccessKey, Clearance, KeyLimits, Role
from ragforge.errors import NotFound, UserError
from ragforge.interfaces.cli.common import Common, command
from ragforge.interfaces.cli.output import Column, one_line, plain, print_data, print_json, print_table
from ragforge.interfaces.words import ago

_IN = re.compile(r"(\d+) *([hdw])")
_HOURS = {"h": 1, "d": 24, "w": 168}

RoleName = Literal["reader", "editor", "admin", "orchestrator", "agent"]
ClearanceName = Literal["public", "internal", "confidential", "restricted"]


def coming(text: str) -> datetime:
    """A date, or how long from now."""
    try:
        if match := _IN.fullmatch(text.strip()):
            return datetime.now(UTC) + timedelta(hours=int(match[1]) * _HOURS[match[2]])
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise typer.BadParameter(f"{text!r} is neither 12h, 30d or 8w nor a date such as 2027-05-01") from None


def dollars(text: str) -> Decimal:
    try:
        amount = Decimal(text.strip().removeprefix("$"))
    except InvalidOperation:
        amount = Decimal("NaN")
    if not (amount.is_finite() and amount >= 0):
        raise typer.BadParameter(f"{text!r} is no amount of US dollars, such as 2.50")
    return amount


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Keys for those who call a server: make, list and revoke them.", no_args_is_help=True)
    command(group, "new", project=False)(new)
    command(group, "ls", project=False)(list_keys)
    command(group, "revoke", project=False)(revoke)
    app.add_typer(group, name="keys")


def new(
    common: Common,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who or what will use it")],
    role: Annotated[
        RoleName,
        typer.Option(
            "--role",
            help="reader: search and ask; editor: files and made documents too; admin: projects, rules, everybody's "
            "log and figures too; agent: a reader that tells lessons; orchestrator: one that also asks for them",
        ),
    ] = "reader",
    project: Annotated[
        list[str] | None,
        typer.Option("--project", "-p", metavar="NAME", help="A project it reaches; may be repeated [default: all]"),
    ] = None,
    clearance: Annotated[
        ClearanceName | None,
        typer.Option(
            "--clearance",
            help="The most confidential files it may know of [default: internal; for an admin restricted]",
        ),
    ] = None,
    expires: Annotated[
        datetime | None,
        typer.Option("--expires", metavar="WHEN", parser=coming, help="12h, 30d, 8w from now, or a date"),
    ] = None,
    per_minute: Annotated[int, typer.Option("--per-minute", metavar="N", min=0, help="Requests a minute; 0: any")] = 0,
    at_once: Annotated[
        int, typer.Option("--at-once", metavar="N", min=0, help="Requests at once; 0: half of what may wait")
    ] = 0,
    tokens_per_day: Annotated[
        int, typer.Option("--tokens-per-day", metavar="N", min=0, help="Tokens of language models a day (UTC); 0: any")
    ] = 0,
    cost_per_day: Annotated[
        Decimal | None,
        typer.Option("--cost-per-day", metavar="DOLLARS", parser=dollars, help="US dollars a day (UTC)"),
    ] = None,
) -> None:
    """Make a key. It is printed this once; only a digest of it is stored.

    Once there is a key, nobody calls a server without one.
    """
    slugs = [*([common.project] if common.project else []), *(project or ())]
    with common.open(create=True) as forge:
        reached = [forge.project(slug) for slug in slugs]
        key, secret = forge.access().create(
            name,
            Role(role),
            projects=frozenset(each.id for each in reached) if reached else None,
            clearance=Clearance[clearance.upper()] if clearance else None,
            expires_at=expires,
            limits=KeyLimits(per_minute, at_once, tokens_per_day, cost_per_day),
        )
    if common.json:
        print_json({"key": key, "secret": secret})
        return
    where = ", ".join(plain(each.slug) for each in reached) or "all projects"
    common.say(
        f"Made key {key.id} for {one_line(key.name)}: {key.role} of {where}, up to {key.clearance.name.lower()} files"
        f"{f', until {_day(key.expires_at)}' if key.expires_at else ''}."
    )
    common.say("It is shown this once. Callers send it as: Authorization: Bearer rf_…")
    print_data(secret)


def list_keys(common: Common) -> None:
    """List the keys, newest first; also those that work no more."""
    with common.open() as forge:
        keys = forge.access().keys()
        slugs = {project.id: project.slug for project in forge.projects()}
    now = datetime.now(UTC)
    if common.json:
        print_json({"keys": [{"key": key, "state": _state(key, now), "reaches": _reaches(key, slugs)} for key in keys]})
    elif not keys:
        common.say("There are no keys: servers listen on this machine only. Next: ragforge keys new NAME")
    else:
        columns = (
            Column("id"),
            Column("name", least=12),
            Column("role"),
            Column("projects", least=12),
            Column("clearance"),
            Column("state"),
            Column("limits", least=8, dropped=True),
            Column("made", align_right=True, dropped=True),
        )
        print_table(
            columns, [_row(key, slugs, now) for key in keys], ["" if key.works_at(now) else "dim" for key in keys]
        )


def _row(key: AccessKey, slugs: Mapping[str, str], now: datetime) -> list[str]:
    reaches = _reaches(key, slugs)
    return [
        key.id,
        one_line(key.name),
        str(key.role),
        "all" if reaches is None else ", ".join(reaches) or "none that is left",
        key.clearance.name.lower(),
        _state(key, now) if not key.works_at(now) or key.expires_at is None else f"until {_day(key.expires_at)}",
        ", ".join(_limits(key.limits)),
        ago(key.created_at),
    ]


def _reaches(key: AccessKey, slugs: Mapping[str, str]) -> list[str] | None:
    """Names of its projects that are still there; None if it reaches all."""
    return None if key.projects is None else sorted(slugs[each] for each in key.projects if each in slugs)


def _state(key: AccessKey, now: datetime) -> str:
    return "works" if key.works_at(now) else "revoked" if key.revoked_at else "expired"


def _limits(limits: KeyLimits) -> list[str]:
    said = [
        f"{limits.requests_per_minute:,}/min" if limits.requests_per_minute else "",
        f"{limits.concurrent:,} at once" if limits.concurrent else "",
        f"{limits.tokens_per_day:,} tokens/day" if limits.tokens_per_day else "",
        f"${limits.cost_per_day}/day" if limits.cost_per_day is not None else "",
    ]
    return [each for each in said if each]


def _day(moment: datetime) -> str:
    return moment.astimezone().strftime("%Y-%m-%d %H:%M")


def revoke(
    common: Common, id: Annotated[str, typer.Argument(metavar="ID", help="Id of a key, or its beginning")]
) -> None:
    """Let a key open nothing from now on.

    What is open with it ends within a second, and long work that it asked for is cancelled. Files that it sent before
    are still taken in.
    """
    with common.open() as forge:
        key = forge.access().revoke(_named(forge.access().keys(), id).id)
    if common.json:
        print_json({"key": key})
    else:
        common.say(f"Revoked key {key.id} of {one_line(key.name)}")


def _named(keys: Sequence[AccessKey], name: str) -> AccessKey:
    name = name.removeprefix("rf_")
    found = [key for key in keys if name and key.id.startswith(name)]
    if not found:
        raise NotFound(f"no key {plain(name)!r}", hint="ragforge keys ls shows them")
    if len(found) > 1:
        raise UserError(f"{plain(name)!r} could be {len(found)} keys", hint="write more of its id")
    return found[0]
