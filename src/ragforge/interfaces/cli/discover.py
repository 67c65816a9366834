"""`discover …`: guided interviews, from the first question to the document. Corrections by hand are in `corrected`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragforge.errors import UserError
from ragforge.interfaces.cli import corrected
from ragforge.interfaces.cli.common import Common, command, group, path_of
from ragforge.interfaces.cli.corrected import LAST, Chosen, Name, project_in
from ragforge.interfaces.cli.discovered import ID_LENGTH, print_probes, print_progress, print_transcript, say_progress
from ragforge.interfaces.cli.documents import DryRun, Yes, confirm
from ragforge.interfaces.cli.interview import Talk, show_turn, taken
from ragforge.interfaces.cli.output import Column, one_line, plain, plain_text, print_data, print_json, print_table
from ragforge.interfaces.cli.stop import stoppable
from ragforge.interfaces.cli.texts import read_text
from ragforge.interfaces.cli.typed import is_typed, typed_lines
from ragforge.interfaces.fields.discovery import (
    interview_fields,
    modes_fields,
    probe_fields,
    state_fields,
    talk_fields,
    turn_fields,
)
from ragforge.interfaces.words import ago, count

if TYPE_CHECKING:
    from ragforge.app import Ragforge
    from ragforge.domain.records import Artifact

_STANDARD_INPUT = "-"

Which = Annotated[str, typer.Argument(metavar="ID", help="Id of an interview, its beginning, or last")]
New = Annotated[bool, typer.Option("--new", help="Begin another interview")]
Title = Annotated[str, typer.Option("--title", metavar="TEXT", help="Title of the interview that is begun")]
Model = Annotated[
    str,
    typer.Option(
        "--model", "-m", metavar="NAME", help="provider:model, cheap, balanced, premium, or offline for rules"
    ),
]


def register(app: typer.Typer) -> None:
    made = group(discover)
    command(made, "ls")(list_interviews)
    command(made, "show")(show)
    command(made, "say")(say)
    corrected.register(made)
    command(made, "document")(document)
    command(made, "progress")(progress)
    command(made, "undo")(undo)
    command(made, "org")(organisation)
    command(made, "rename")(rename)
    command(made, "rm")(remove)
    command(made, "knowledge", project=False)(knowledge)
    app.add_typer(made, name="discover")


# -- the interview


def discover(
    common: Common,
    id: Chosen = LAST,
    new: New = False,
    title: Title = "",
    mode: Annotated[
        str, typer.Option("--mode", metavar="NAME", help="problem or solution [default: problem, or as it was]")
    ] = "",
    model: Model = "",
) -> None:
    """Be interviewed about a problem and its solution: questions, a register of assumptions, and a cited document.

    Without a command it goes on with the last interview of the project, or begins one. A line that begins with / is a
    command; /help lists them. Lines that are pasted together are one message. Messages may also come through a pipe,
    one in each line. With --json the first line is the interview with its opening, and each message becomes a line. A
    pipe is read to its end, and the exit code is that of what failed first.
    """
    with common.open(create=id == LAST) as forge:
        forge.answering_model(model)  # one that cannot answer is refused before anything is made
        project = common.begun(forge) if id == LAST else project_in(common, forge)
        chosen, begun = _chosen(forge, project, id, title, mode, new=new)
        if mode and not begun:
            forge.discovery.set_mode(mode, chosen, project=project)
        talk = Talk(common, forge, project, chosen, model, begun=begun)
        try:
            talk.begin()
            for line in typed_lines(common, "interview"):
                if not talk.hear(line):
                    break
        finally:
            talk.end()
    if talk.failed and not is_typed():
        raise typer.Exit(talk.failed)


def _chosen(forge: Ragforge, project: str, id: str, title: str, mode: str, *, new: bool) -> tuple[str, bool]:
    """The interview that is meant, and whether it was begun just now."""
    if new and id != LAST:
        raise UserError("--new and --id do not go together", hint="choose one of them")
    if new or (id == LAST and not forge.discovery.all(project=project)):
        return forge.discovery.begin(title, project=project, mode=mode or "problem").id, True
    if title:
        raise UserError("--title is for an interview that is begun", hint="add --new, or use ragforge discover rename")
    return forge.discovery.get(id, project=project).id, False


def say(
    common: Common,
    message: Annotated[
        list[str], typer.Argument(metavar="MESSAGE", help="What you say, after -- if it begins with a dash; - is stdin")
    ],
    id: Chosen = LAST,
    probe: Annotated[
        str, typer.Option("--probe", metavar="KEY", help="Be asked about this next; discover knowledge lists them")
    ] = "",
    mode: Annotated[str, typer.Option("--mode", metavar="NAME", help="Go on in this one: problem or solution")] = "",
    model: Model = "",
    turn: Annotated[
        int,
        typer.Option(
            "--turn",
            min=0,
            metavar="N",
            help="The number it is to have; refused if that is taken, so that nothing counts twice",
        ),
    ] = 0,
    new: New = False,
    title: Title = "",
) -> None:
    """Say one thing in an interview and print the reply: a turn for scripts.

    Where the project has no interview yet, it begins one.
    """
    words = " ".join(message)
    text = read_text(Path(_STANDARD_INPUT), "MESSAGE") if words == _STANDARD_INPUT else words
    if not text.strip():
        raise UserError("the message is empty", hint="say something, or “continue” to hear the next questions")
    with common.open(create=id == LAST) as forge:
        forge.answering_model(model)
        project = common.begun(forge) if id == LAST else project_in(common, forge)
        chosen, begun = _chosen(forge, project, id, title, mode, new=new)
        kept = False
        try:
            with stoppable(lambda: None) as cancel:
                done = taken(
                    common, forge, project, chosen, text, model=model, probe=probe, mode=mode, turn=turn, cancel=cancel
                )
            kept = True
        finally:
            if begun and not kept:
                forge.discovery.remove(chosen, project=project)
        show_turn(common, forge, project, done)


# -- interviews


def list_interviews(common: Common) -> None:
    """List the interviews, the last spoken in first."""
    with common.open() as forge:
        found = forge.discovery.all(project=project_in(common, forge))
    if common.json:
        print_json({"interviews": [talk_fields(each) for each in found]})
        return
    if not found:
        common.say("There are no interviews. Next: ragforge discover")
        return
    print_table(
        (
            Column("id"),
            Column("title", least=16),
            Column("turns", align_right=True),
            Column("begun", align_right=True, dropped=True),
            Column("last turn", align_right=True),
        ),
        [
            [each.id[:ID_LENGTH], one_line(each.title), f"{each.turns:,}", ago(each.created_at), ago(each.updated_at)]
            for each in found
        ],
    )


def show(common: Common, id: Name = LAST) -> None:
    """Show an interview, turn by turn: what was said, what was asked, and what the replies cite."""
    with common.open() as forge:
        project = project_in(common, forge)
        interview = forge.discovery.get(id, project=project)
        turns = forge.discovery.turns(interview.id, project=project)
        opening = interview.state.opening
        far = forge.discovery.progress(interview.id, project=project)
        if common.json:
            print_json(
                {
                    "interview": interview_fields(interview, far),
                    "opening": opening or None,
                    "turns": [turn_fields(each) for each in turns],
                    "state": state_fields(interview.state),
                }
            )
            return
        print_transcript(common, forge, interview, opening, turns)
        say_progress(common, interview.state, far)


def rename(
    common: Common, id: Which, title: Annotated[str, typer.Argument(metavar="TITLE", help="The new title")]
) -> None:
    """Give an interview another title. What the documents say is looked for by its words, too."""
    with common.open() as forge:
        renamed = forge.discovery.rename(id, title, project=project_in(common, forge))
    if common.json:
        print_json({"interview": talk_fields(renamed)})
    else:
        common.say(f"{renamed.id[:ID_LENGTH]} is now called “{one_line(renamed.title)}”")


def remove(common: Common, id: Which, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Remove an interview for good: its turns, its assumptions and its points.

    Documents that were kept of it stay: `ragforge make rm` removes those. The log keeps what was said until
    `ragforge log rm` removes it.
    """
    with common.open() as forge:
        project = project_in(common, forge)
        talk = forge.discovery.get(id, project=project).talk
        what = f"the interview “{one_line(talk.title)}” with {count(talk.turns, 'turn')}"
        if not dry_run and not confirm(f"Remove {what} for good?", yes):
            common.say("Nothing removed.")
            return
        if not dry_run:
            forge.discovery.remove(talk.id, project=project)
    if common.json:
        print_json({"would_remove" if dry_run else "removed": talk.id})
    elif dry_run:
        print_data(f"would remove {what}")
    else:
        common.say(f"Removed {what}")


def undo(common: Common, id: Name = LAST) -> None:
    """Take back the last turn of an interview, with all that came of it and was corrected by hand since."""
    with common.open() as forge:
        project = project_in(common, forge)
        interview = forge.discovery.get(id, project=project)
        turns = forge.discovery.turns(interview.id, project=project)
        state = forge.discovery.undo(interview.id, project=project)
        far = forge.discovery.progress(interview.id, project=project)
    number = turns[-1].number
    if common.json:
        print_json({"undone": number, "state": state_fields(state)})
        return
    common.say(f"Turn {number} is taken back.")
    say_progress(common, state, far)


# -- how far it is, and what it ends in


def progress(common: Common, id: Name = LAST) -> None:
    """Show how far an interview is: each probe, and which of its criteria are met (✓), unknown (?) or open (·)."""
    with common.open() as forge:
        project = project_in(common, forge)
        interview = forge.discovery.get(id, project=project)
        far = forge.discovery.progress(interview.id, project=project)
        still = forge.discovery.open_questions(interview.id, project=project)
        known = forge.discovery.modes()[interview.state.mode]
    state = interview.state
    if common.json:
        probes = [probe_fields(each, known, state) for each in far]
        print_json({"interview": interview.id, "mode": state.mode, "probes": probes, "open_questions": still})
        return
    print_progress(state, far, known)
    say_progress(common, state, far)


def document(
    common: Common,
    id: Name = LAST,
    mode: Annotated[
        str, typer.Option("--mode", metavar="NAME", help="problem or solution [default: where the interview is]")
    ] = "",
    title: Annotated[str, typer.Option("--title", metavar="TEXT", help="Title [default: kind and interview]")] = "",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE", parser=path_of, help="Write it to this .md or .docx file, not to stdout"
        ),
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep it among the documents that `ragforge make ls` lists")
    ] = False,
) -> None:
    """Print the document as it stands, or write it to a file: points with their sources, assumptions, what is open.

    The problem ends in a problem brief, the solution in product requirements. No model is asked.
    """
    from ragforge.answer.artifacts import markdown

    with common.open() as forge:
        project = project_in(common, forge)
        made = forge.discovery.document(id, project=project, mode=mode, title=title, out=out, keep=keep)
    text = markdown(made)
    if common.json:
        print_json({"document": made, "text": text, "file": str(out) if out else None, "kept": keep})
        return
    if out is None:
        print_data(plain_text(text).rstrip("\n"))
    common.say("; ".join(_told(made, out, keep=keep)))


def _told(made: Artifact, out: Path | None, *, keep: bool) -> list[str]:
    still = [section.heading for section in made.sections if section.open]
    sections = f"{count(len(made.sections), 'section')}{f', {len(still)} open' if still else ''}"
    told = [f"{sections}, {count(len(made.sources), 'source')}"]
    told += [f"wrote {plain(str(out))}"] if out else []
    return told + ([f"kept as {made.id[:ID_LENGTH]}: ragforge make show {made.id[:ID_LENGTH]}"] if keep else [])


# -- what interviews build on


def organisation(
    common: Common,
    text: Annotated[
        list[str] | None, typer.Argument(metavar="[TEXT]", help="What is known of the organisation; '' forgets it")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", parser=path_of, help="Read it from a file; - is stdin")
    ] = None,
) -> None:
    """Show or set what is known of the organisation: every interview of the project builds on it.

    The first turn of the first interview sets it too, and so does a file context.md in the project's folder.
    """
    if text is None and file is None:
        with common.open() as forge:
            known = forge.discovery.org_context(project=project_in(common, forge))
        if common.json:
            print_json({"org_context": known})
        elif known:
            print_data(plain_text(known).rstrip("\n"))
        else:
            common.say("Nothing is known of the organisation. Next: ragforge discover org, with who you are and do")
        return
    if text is not None and file is not None:
        raise UserError("TEXT and --file do not go together", hint="choose one of them")
    new = read_text(file, "--file") if file is not None else " ".join(text or ())
    with common.open(create=True) as forge:
        project = common.begun(forge)
        before = forge.discovery.org_context(project=project)
        forge.discovery.set_org_context(new, project=project)
        after = forge.discovery.org_context(project=project)
    if common.json:
        print_json({"org_context": after, "changed": after != before})
    elif after == before:
        common.say("Nothing changed")
    else:
        told = f"All interviews of the project build on it from now on: {count(len(after), 'character')}"
        common.say(told if after else "Nothing is known of the organisation any more")


def knowledge(
    common: Common,
    mode: Annotated[str, typer.Argument(metavar="[MODE]", help="problem or solution [default: both]")] = "",
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", parser=path_of, help="Write the shipped file of MODE to this one"),
    ] = None,
) -> None:
    """Show what the interviewer knows: probes, patterns and sections, by their keys.

    To change it, write the shipped file with --out as discovery/MODE.toml in the workspace and edit it. What it has
    replaces the shipped by key; the rest may be left out.
    """
    from ragforge.discover.knowledge import MODES, SHIPPED, load

    folder = common.settings().workspace / "discovery"
    if mode and mode not in MODES:
        raise UserError(f"no mode is called {plain(mode)!r}", hint=f"there are {', '.join(MODES)}")
    if out is not None:
        if not mode:
            raise UserError("no mode is named", hint=f"ragforge discover knowledge {MODES[0]} --out FILE")
        own = folder / f"{mode}.toml"
        if counts := out.resolve() == own.resolve():
            with common.open(create=True):  # a folder that has something in it becomes no workspace later
                pass
        _write_shipped(SHIPPED / f"{mode}.toml", out, make_folder=counts)
        if common.json:
            print_json({"mode": mode, "file": str(out)})
        else:
            when = "It counts from the next turn on" if counts else f"It counts once it is {plain(str(own))}"
            common.say(f"Wrote {plain(str(out))}. {when}")
        return
    known = {name: each for name, each in load(folder).items() if not mode or name == mode}
    if common.json:
        print_json({"modes": modes_fields(known)})
        return
    for number, each in enumerate(known.values()):
        if number:
            print_data()
        print_probes(each)
    for name in known:
        if (own := folder / f"{name}.toml").is_file():
            common.say(f"Note: {plain(str(own))} changes what is shipped")


def _write_shipped(shipped: Path, out: Path, *, make_folder: bool) -> None:
    """A file that somebody may have edited is not overwritten."""
    from ragforge.errors import cannot_write

    try:
        if make_folder:
            out.parent.mkdir(parents=True, exist_ok=True)
        elif not out.parent.is_dir():
            raise UserError(
                f"there is no folder {plain(str(out.parent))}", hint="make it first, or choose another --out"
            )
        with out.open("xb") as file:
            file.write(shipped.read_bytes())
    except FileExistsError:
        raise UserError(
            f"{plain(str(out))} is there already", hint="choose another --out, or move it away first"
        ) from None
    except OSError as problem:
        raise cannot_write(plain(str(out)), problem) from None
