"""What a person corrects in an interview by hand: assumptions, and points of the document."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ragforge.domain.discovery import Standing
from ragforge.errors import UserError
from ragforge.interfaces.cli.common import Common, command
from ragforge.interfaces.cli.discovered import print_points, print_register
from ragforge.interfaces.cli.output import one_line, print_json
from ragforge.interfaces.fields.discovery import assumption_fields, point_fields, standings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ragforge.app import Ragforge
    from ragforge.discover.knowledge import Mode

LAST = "last"
_ENTRY = re.compile(r"[APap]\d+")

Name = Annotated[str, typer.Argument(metavar="[ID]", help="Id of an interview, its beginning, or last")]
Chosen = Annotated[
    str, typer.Option("--id", metavar="ID", help="Which interview: its id, the beginning of it, or last")
]
Level = Literal["low", "medium", "high"]
DependsOn = Annotated[
    list[str] | None,
    typer.Option("--depends-on", metavar="A1", help="What it rests on; may be repeated; '' for nothing"),
]


def register(group: typer.Typer) -> None:
    command(group, "register")(list_assumptions)
    command(group, "assume")(assume)
    command(group, "revise")(revise)
    command(group, "points")(list_points)
    command(group, "point")(point)
    command(group, "edit")(edit)
    command(group, "forget")(forget)


def project_in(common: Common, forge: Ragforge) -> str:
    """The project's name; where the usual one was not begun, how to begin."""
    return common.project_in(forge, "There is no interview here yet", "ragforge discover begins one")


# -- assumptions


def list_assumptions(common: Common, id: Name = LAST) -> None:
    """Show the register of assumptions: how sure, how much hangs on them, what rests on what, what became of them."""
    with common.open() as forge:
        interview = forge.discovery.get(id, project=project_in(common, forge))
    assumptions = interview.state.assumptions
    if common.json:
        found = [assumption_fields(each) for each in assumptions]
        print_json({"interview": interview.id, "assumptions": found, "counts": standings(assumptions)})
    elif assumptions:
        print_register(assumptions)
    else:
        common.say("No assumptions yet. Next: ragforge discover assume, with what is taken for true")


def assume(
    common: Common,
    statement: Annotated[list[str], typer.Argument(metavar="STATEMENT", help="What is taken for true")],
    confidence: Annotated[Level, typer.Option("--confidence", help="How well it is supported")] = "medium",
    impact: Annotated[Level, typer.Option("--impact", help="How much breaks if it is false")] = "medium",
    depends_on: DependsOn = None,
    id: Chosen = LAST,
) -> None:
    """Register an assumption. What says the same as another is refused."""
    with common.open() as forge:
        made = forge.discovery.add_assumption(
            " ".join(statement),
            id,
            project=project_in(common, forge),
            confidence=confidence,
            impact=impact,
            depends_on=_ids(depends_on) or (),
        )
    if common.json:
        print_json({"assumption": assumption_fields(made)})
        return
    shaken = "; it is shaken, because what it rests on is" if made.status is Standing.SHAKEN else ""
    common.say(f"Registered {made.id}: confidence {made.confidence}, impact {made.impact}{shaken}")


def revise(
    common: Common,
    assumption: Annotated[str, typer.Argument(metavar="A2", help="The assumption, by its number")],
    status: Annotated[
        Literal["open", "confirmed", "refuted"] | None, typer.Option("--status", help="What became of it")
    ] = None,
    confidence: Annotated[Level | None, typer.Option("--confidence", help="How well it is supported")] = None,
    impact: Annotated[Level | None, typer.Option("--impact", help="How much breaks if it is false")] = None,
    depends_on: DependsOn = None,
    statement: Annotated[str | None, typer.Option("--statement", metavar="TEXT", help="Say it in other words")] = None,
    evidence: Annotated[str, typer.Option("--evidence", metavar="TEXT", help="Why it is believed, or not")] = "",
    id: Chosen = LAST,
) -> None:
    """Change an assumption. What rests on one that is refuted is shaken, and stands again when that is taken back.

    Dependencies may not close a circle.
    """
    given = (status, confidence, impact, depends_on, statement)
    if all(each is None for each in given) and not evidence.strip():
        raise UserError("nothing to change", hint="ragforge discover revise --help lists what can be")
    with common.open() as forge:
        project = project_in(common, forge)
        before = {each.id: each for each in forge.discovery.get(id, project=project).state.assumptions}
        state = forge.discovery.revise_assumption(
            assumption,
            id,
            project=project,
            statement=statement,
            confidence=confidence,
            impact=impact,
            status=status,
            depends_on=_ids(depends_on),
            evidence=evidence,
        )
    wanted = assumption.strip().upper()
    revised = next(each for each in state.assumptions if each.id == wanted)
    moved = [
        each for each in state.assumptions if each.id != wanted and each.status is not before.get(each.id, each).status
    ]
    shaken = [each.id for each in moved if each.status is Standing.SHAKEN]
    recovered = [each.id for each in moved if each.status is not Standing.SHAKEN]
    if common.json:
        print_json({"assumption": assumption_fields(revised), "shaken": shaken, "recovered": recovered})
        return
    told = [f"{revised.id} is {revised.status}, confidence {revised.confidence}, impact {revised.impact}"]
    told += [f"shaken with it: {', '.join(shaken)}"] if shaken else []
    told += [f"open again: {', '.join(recovered)}"] if recovered else []
    common.say("; ".join(told))


def _ids(given: list[str] | None) -> list[str] | None:
    """`A1,A2` or each by itself; an empty text names none."""
    return None if given is None else [id for text in given for id in re.split(r"[,\s]+", text) if id]


# -- points


def list_points(common: Common, id: Name = LAST) -> None:
    """Show the points of the document by section, each with its number and where it comes from."""
    with common.open() as forge:
        interview = forge.discovery.get(id, project=project_in(common, forge))
        modes = forge.discovery.modes()
    points = interview.state.points
    if common.json:
        print_json({"interview": interview.id, "points": [point_fields(each) for each in points]})
    elif points:
        print_points(interview.state, modes)
    else:
        common.say("The document has no points yet. Next: ragforge discover, or ragforge discover point")


def point(
    common: Common,
    section: Annotated[
        str, typer.Argument(metavar="SECTION", help="Its key or its heading; discover knowledge lists them")
    ],
    text: Annotated[list[str], typer.Argument(metavar="TEXT", help="One sentence")],
    id: Chosen = LAST,
) -> None:
    """Write a sentence into a section of the document."""
    with common.open() as forge:
        into = _section(forge.discovery.modes(), section)
        made = forge.discovery.add_point(into, " ".join(text), id, project=project_in(common, forge))
    if common.json:
        print_json({"point": point_fields(made)})
    else:
        common.say(f"Wrote {made.id} into {made.section}")


def edit(
    common: Common,
    point: Annotated[str, typer.Argument(metavar="P3", help="The point, by its number")],
    text: Annotated[list[str] | None, typer.Argument(metavar="[TEXT]", help="The same in other words")] = None,
    section: Annotated[
        str | None,
        typer.Option("--section", metavar="KEY", help="Move it there: the key or the heading of a section"),
    ] = None,
    id: Chosen = LAST,
) -> None:
    """Put a point of the document in other words, move it to another section, or both.

    What you write yourself is no quotation: the point then no longer cites a document.
    """
    if text is None and section is None:
        raise UserError("nothing to change", hint="write its new words after it, or --section with another place")
    with common.open() as forge:
        project = project_in(common, forge)
        modes = forge.discovery.modes()
        state = forge.discovery.revise_point(
            point,
            id,
            project=project,
            text=None if text is None else " ".join(text),
            section=None if section is None else _section(modes, section),
        )
    wanted = point.strip().upper()
    made = next(each for each in state.points if each.id == wanted)
    if common.json:
        print_json({"point": point_fields(made)})
    else:
        common.say(f"{made.id} is now in {made.section}: {one_line(made.text)}")


def _section(modes: Mapping[str, Mode], wanted: str) -> str:
    """A section's key, however it was written; what is none is left for the interview to refuse."""
    flat = " ".join(wanted.split()).casefold()
    sections = [each for mode in modes.values() for each in mode.sections]
    named = {each.heading.casefold(): each.key for each in reversed(sections)}
    return {**named, **{each.key.casefold(): each.key for each in sections}}.get(flat, wanted)


def forget(
    common: Common,
    entries: Annotated[list[str], typer.Argument(metavar="A2|P3...", help="Assumptions and points, by their numbers")],
    id: Chosen = LAST,
) -> None:
    """Remove assumptions and points. What rested on an assumption no longer does.

    If one of them is not there, nothing is removed.
    """
    wanted = list(dict.fromkeys(entry.upper() for text in entries for entry in re.split(r"[,\s]+", text) if entry))
    wrong = [each for each in wanted if not _ENTRY.fullmatch(each)] if wanted else entries
    if wrong:
        raise UserError(
            f"{one_line(wrong[0])!r} is no assumption and no point",
            hint="write A2 or P3; ragforge discover register and ragforge discover points list them",
        )
    with common.open() as forge:
        project = project_in(common, forge)
        interview = forge.discovery.get(id, project=project)
        state = interview.state
        there = {each.id for each in state.assumptions} | {each.id for each in state.points}
        for each in sorted(wanted, key=there.__contains__):  # what is not there is refused before anything goes
            remove = forge.discovery.remove_assumption if each.startswith("A") else forge.discovery.remove_point
            remove(each, interview.id, project=project)
    if common.json:
        print_json({"removed": wanted})
    else:
        common.say(f"Removed {', '.join(wanted)}")
