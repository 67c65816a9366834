"""`learn export`, `learn import`: lessons as lines of JSON, for other workspaces and other programs."""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from ragforge.domain.cancel import Cancelled
from ragforge.domain.library import Progress
from ragforge.errors import NotFound, UserError
from ragforge.interfaces.cli.common import Common, command, path_of
from ragforge.interfaces.cli.output import plain, print_json
from ragforge.interfaces.cli.progress import meter
from ragforge.interfaces.cli.review import project_in
from ragforge.interfaces.cli.stop import STOPPED, stoppable
from ragforge.interfaces.records import json_text
from ragforge.interfaces.words import count

_STANDARD = "-"

File = Annotated[
    Path, typer.Argument(metavar="FILE.jsonl", parser=path_of, help="One lesson a line; - is standard input or output")
]


def register(group: typer.Typer) -> None:
    command(group, "export")(export)
    command(group, "import")(import_lessons)


def export(common: Common, file: File) -> None:
    """Write every lesson of a project, one a line: what was told, and how its pattern did."""
    written = 0
    with common.open() as forge, _writing(file) as out:
        for record in forge.lessons.exported(project=project_in(common, forge)):
            out.write(json_text(record) + "\n")
            written += 1
    if str(file) == _STANDARD:
        common.say(f"{count(written, 'lesson')}")
    elif common.json:
        print_json({"export": {"file": str(file), "lessons": written}})
    else:
        common.say(f"Wrote {count(written, 'lesson')} to {plain(str(file))}")


@contextmanager
def _writing(file: Path) -> Iterator[TextIO]:
    """The file appears whole or not at all."""
    if str(file) == _STANDARD:
        yield sys.stdout
        return
    beside = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    try:
        with beside.open("x", encoding="utf-8") as out:
            yield out
        beside.replace(file)
    except OSError as problem:
        raise UserError(f"cannot write {plain(str(file))}: {problem.strerror}", hint="choose another file") from problem
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


def import_lessons(common: Common, file: File) -> None:
    """Stage lessons that `learn export` wrote, or that you wrote: one object a line, with entry_type and its fields.

    What was imported before under the same id is not told twice, so the command can be run again. Lines that do not say
    "verified": true wait for a person.
    """
    records = _records(file)
    new = known = waiting = 0
    was_stopped = True
    with (
        common.open(create=True) as forge,
        meter(quiet=common.quiet or common.json, lines_on_stdout=False, unit="lessons") as shown,
        stoppable(lambda: None if common.quiet else shown.say("Stopping. What is staged stays.")) as cancel,
        suppress(Cancelled),
    ):
        project = common.begun(forge)
        before = {each.id for each in forge.lessons.staged(project=project)}
        for lesson in forge.lessons.importing(records, project=project):
            is_known = lesson.embedded or lesson.id in before
            before.add(lesson.id)
            new, known = new + (not is_known), known + is_known
            waiting += not is_known and not lesson.verified
            shown.show(Progress("staging", new + known, len(records)))
            cancel.check()
        was_stopped = False
    if common.json:
        print_json({"import": {"new": new, "known": known, "unverified": waiting}})
    else:
        parts = [count(new, "new lesson"), *([f"{known:,} known"] if known else [])]
        parts += [f"{waiting:,} to be approved by a person"] if waiting else []
        then = "staged" if waiting and waiting == new else "checkpoint"
        common.say(f"Staged in {plain(project)}: {', '.join(parts)}{f'. Next: ragforge learn {then}' if new else ''}")
    if was_stopped:
        raise typer.Exit(STOPPED)


def _records(file: Path) -> list[Any]:
    """Every line, so that a file with a broken one changes nothing."""
    name = "standard input" if str(file) == _STANDARD else plain(str(file))
    try:
        data = sys.stdin.buffer.read() if str(file) == _STANDARD else file.expanduser().read_bytes()
        lines = data.decode("utf-8-sig").split("\n")  # other line ends may stand inside a text
    except FileNotFoundError:
        raise NotFound(f"there is no file {name}", hint="name a file of lessons, or - for stdin") from None
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "it is not UTF-8"
        raise UserError(f"cannot read {name}: {reason}", hint="lessons are lines of JSON in UTF-8") from None
    records = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                records.append(json.loads(line))
            except ValueError:
                raise UserError(
                    f"line {number:,} of {name} is not JSON", hint="one object a line; nothing was staged"
                ) from None
    return records
