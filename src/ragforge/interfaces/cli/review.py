"""`learn ls`, `show`, `approve` …: the desk where people look at what agents learnt, and decide."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import typer

from ragforge.domain.lessons import EntryType, Lesson, Pattern, Words
from ragforge.errors import NotFound, UserError
from ragforge.interfaces.cli.common import Common, command
from ragforge.interfaces.cli.documents import DryRun, Yes, confirm
from ragforge.interfaces.cli.learned import (
    ID_LENGTH,
    print_lesson,
    print_pattern,
    print_patterns,
    record_text,
    say_pending,
)
from ragforge.interfaces.cli.output import plain, print_data, print_json
from ragforge.interfaces.cli.texts import texts_of
from ragforge.interfaces.words import count

if TYPE_CHECKING:
    from ragforge.app import Ragforge

_SHOWN = 50
_TOLD = {
    EntryType.FAILURE: ("failure_description", "solution_steps"),
    EntryType.REJECTION: ("human_feedback", "revision_approach"),
    EntryType.APPROVAL: ("task", "approved_approach"),
}
"""What a staged lesson says of its problem, and of its solution."""
Known = TypeVar("Known", bound=Pattern | Lesson)

Id = Annotated[str, typer.Argument(metavar="ID", help="Id of a pattern or a staged lesson, or its beginning")]
Ids = Annotated[list[str], typer.Argument(metavar="ID…", help="Ids of patterns or staged lessons, or their beginnings")]
OfPattern = Annotated[str, typer.Argument(metavar="ID", help="Id of a pattern, or its beginning")]


def register(group: typer.Typer) -> None:
    command(group, "ls")(list_patterns)
    command(group, "show")(show)
    command(group, "approve")(approve)
    command(group, "reject")(reject)
    command(group, "edit")(edit)
    command(group, "merge")(merge)
    command(group, "split")(split)
    command(group, "rm")(remove)


# -- what is meant


def project_in(common: Common, forge: Ragforge) -> str:
    """The project's name; where the usual one was not begun, how to begin."""
    return common.project_in(forge, "Nothing was learnt here yet", "ragforge learn capture failure --help")


def named(forge: Ragforge, project: str, ids: Sequence[str]) -> list[Pattern | Lesson]:
    """The patterns and lessons that are meant, each once. A lesson that a pattern holds is meant by its whole id."""
    known: list[Pattern | Lesson] = []
    found: dict[str, Pattern | Lesson] = {}
    for id in ids:
        try:
            one = forge.lessons.one(id, project=project)
        except NotFound:
            known = known or [*forge.lessons.patterns(project=project), *forge.lessons.staged(project=project)]
            one = _begins(
                known, id, "pattern or staged lesson", "ragforge learn ls and ragforge learn staged list them"
            )
        found[one.id] = one
    return list(found.values())


def _begins(known: Sequence[Known], id: str, what: str, hint: str) -> Known:
    found = [each for each in known if id and each.id.startswith(id)]
    if not found:
        raise NotFound(f"no {what} {plain(id)!r}", hint=hint)
    if len(found) > 1:
        raise UserError(f"{plain(id)!r} could be {len(found)} of them", hint="write more of its id")
    return found[0]


def _patterns(forge: Ragforge, project: str, ids: Sequence[str]) -> list[Pattern]:
    found = named(forge, project, ids)
    for each in found:
        if isinstance(each, Lesson):
            part = f"part of the pattern {each.pattern}" if each.embedded else "not embedded yet"
            raise UserError(f"{each.id} is a lesson, {part}", hint="ragforge learn ls lists the patterns")
    return [each for each in found if isinstance(each, Pattern)]


def pattern_in_reach(forge: Ragforge, project: str, id: str) -> str:
    """The id of a pattern of the project, or of one that shares its lessons."""
    here = forge.project(project)
    sharing = [each for each in forge.projects() if each.shares_lessons and each.id != here.id]
    known = [pattern for each in (here, *sharing) for pattern in forge.lessons.patterns(project=each.slug)]
    return _begins(known, id, "pattern", "ragforge learn ls shows what there is").id


# -- looking


def list_patterns(
    common: Common,
    state: Annotated[
        Literal["live", "rejected"] | None, typer.Option("--state", help="Only those that count, or that were rejected")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, metavar="N", help="Patterns to list")] = _SHOWN,
) -> None:
    """List the patterns of a project, newest first."""
    with common.open() as forge:
        patterns = forge.lessons.patterns(project=project_in(common, forge), state=state or "", limit=limit)
    if common.json:
        print_json({"patterns": patterns})
    elif not patterns:
        which = f"No pattern is {state}." if state else "There are no patterns."
        common.say(f"{which} Next: ragforge learn staged shows what waits for a checkpoint")
    else:
        print_patterns(patterns)
        if len(patterns) == limit:
            common.say(f"These are the newest {limit:,}; --limit shows more")


def show(common: Common, id: Id) -> None:
    """Show a pattern: its words, its record, its captures, what came of it, and other solutions of the same problem.

    Of a lesson it shows what was told.
    """
    with common.open() as forge:
        project = project_in(common, forge)
        (found,) = named(forge, project, [id])
        slugs = {each.id: each.slug for each in forge.projects()}
        details = forge.lessons.pattern(found.id, project=project) if isinstance(found, Pattern) else None
    if details is not None:
        if common.json:
            print_json(details)
        else:
            print_pattern(details, slugs)
    elif isinstance(found, Lesson):
        if common.json:
            print_json({"lesson": found, "quality": found.quality})
        else:
            print_lesson(found)


# -- deciding


def approve(common: Common, ids: Ids) -> None:
    """Say yes: to lessons that nobody verified, or to patterns, also to ones that were rejected before."""
    with common.open() as forge:
        project = project_in(common, forge)
        approved = [forge.lessons.approve(each.id, project=project) for each in named(forge, project, ids)]
    if common.json:
        print_json({"approved": approved})
        return
    for each in approved:
        then = "" if isinstance(each, Pattern) else "; the next checkpoint embeds it"
        common.say(f"Approved {each.id[:ID_LENGTH]}{then}")


def reject(common: Common, ids: Ids) -> None:
    """Say no: patterns are told to nobody, however often they are learnt again; staged lessons are removed."""
    with common.open() as forge:
        project = project_in(common, forge)
        answered = {each.id: forge.lessons.reject(each.id, project=project) for each in named(forge, project, ids)}
    if common.json:
        removed = [id for id, pattern in answered.items() if pattern is None]
        print_json({"rejected": [each for each in answered.values() if each], "removed": removed})
        return
    for id, pattern in answered.items():
        short = id[:ID_LENGTH]
        common.say(f"Rejected {short}: nobody is told of it" if pattern else f"Rejected {short}, and removed it")


def edit(
    common: Common,
    id: Id,
    problem: Annotated[str | None, typer.Option("--problem", metavar="TEXT", help="What the problem is")] = None,
    solution: Annotated[str | None, typer.Option("--solution", metavar="TEXT", help="What solves it")] = None,
    when: Annotated[str | None, typer.Option("--when", metavar="TEXT", help="When to try it")] = None,
) -> None:
    """Give a pattern better words, or correct a staged lesson. What is not given stays.

    A text may be @FILE, to read it from a file, or - for stdin. Whoever edits a pattern approves it.
    """
    given = {
        name: text for name, text in (("problem", problem), ("solution", solution), ("when", when)) if text is not None
    }
    if not given:
        raise UserError("Nothing to change", hint="give --problem, --solution or --when")
    new = dict(zip(given, texts_of({f"--{name}": text for name, text in given.items()}), strict=True))
    with common.open() as forge:
        project = project_in(common, forge)
        (found,) = named(forge, project, [id])
        if isinstance(found, Lesson):
            fields = dict(zip(("problem", "solution"), _TOLD[found.facets.entry_type], strict=True))
            told = {fields.get(name, "decision_criteria"): text for name, text in new.items()}
            lesson = forge.lessons.edit_staged(found.id, project=project, **told)
        else:
            was = found.words
            words = Words(
                new.get("problem", was.problem), new.get("solution", was.solution), new.get("when", was.when_to_try)
            )
            pattern = forge.lessons.edit(found.id, words, found.version, project=project)
    if isinstance(found, Lesson):
        if common.json:
            print_json({"lesson": lesson})
        else:
            common.say(f"Corrected {lesson.id[:ID_LENGTH]}")
    elif common.json:
        print_json({"pattern": pattern})
    else:
        common.say(f"Edited {pattern.id[:ID_LENGTH]}: version {pattern.version}")


def merge(
    common: Common,
    into: Annotated[str, typer.Argument(metavar="INTO", help="Id of the pattern that stays, or its beginning")],
    others: Annotated[list[str], typer.Argument(metavar="OTHER…", help="Ids of those that become part of it")],
) -> None:
    """Make patterns one that tell the same. The words of the first stay, and all captures and outcomes count for it."""
    with common.open() as forge:
        project = project_in(common, forge)
        target, *rest = _patterns(forge, project, [into, *others])
        if not rest:
            raise UserError("A pattern cannot be merged with itself", hint="name another one")
        merged = forge.lessons.merge(target.id, [each.id for each in rest], project=project)
    if common.json:
        print_json({"pattern": merged, "merged": [each.id for each in rest]})
    else:
        what = count(len(rest), "pattern")
        common.say(f"Merged {what} into {merged.id[:ID_LENGTH]}: {record_text(merged.record)}")


def split(
    common: Common,
    id: OfPattern,
    lessons: Annotated[list[str], typer.Argument(metavar="LESSON…", help="Ids of its captures, or their beginnings")],
) -> None:
    """Take captures out of a pattern that do not tell the same; they become one of their own.

    `ragforge learn show` lists the captures. Outcomes stay with the pattern they were recorded for.
    """
    with common.open() as forge:
        project = project_in(common, forge)
        (pattern,) = _patterns(forge, project, [id])
        own = forge.lessons.pattern(pattern.id, project=project).lessons
        hint = f"ragforge learn show {pattern.id[:ID_LENGTH]} lists its captures"
        taken = list(dict.fromkeys(_begins(own, each, "capture of the pattern", hint).id for each in lessons))
        made = forge.lessons.split(pattern.id, taken, project=project)
    if common.json:
        print_json({"pattern": made, "lessons": taken})
    else:
        what = f"{count(len(taken), 'capture')} out of {pattern.id[:ID_LENGTH]}"
        common.say(f"Took {what}, into the new pattern {made.id[:ID_LENGTH]}")


def remove(common: Common, ids: Ids, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Remove lessons, or patterns with all their captures and outcomes, for good.

    A pattern that is only wrong is better rejected: a removed one comes back when it is told again.
    """
    with common.open() as forge:
        project = project_in(common, forge)
        found = named(forge, project, ids)
        what = _what(found)
        if not dry_run and not confirm(f"Remove {what} for good?", yes):
            common.say("Nothing removed.")
            return
        pending = () if dry_run else forge.lessons.remove([each.id for each in found], project=project)
    if common.json:
        print_json({"would_remove" if dry_run else "removed": [each.id for each in found], "pending": pending})
    elif dry_run:
        print_data(f"would remove {what}")
    else:
        common.say(f"Removed {what}")
    say_pending(pending)


def _what(found: Sequence[Pattern | Lesson]) -> str:
    patterns = [each for each in found if isinstance(each, Pattern)]
    lessons = len(found) - len(patterns)
    captures = sum(each.record.captures for each in patterns)
    parts = [f"{count(len(patterns), 'pattern')} with {count(captures, 'capture')}"] if patterns else []
    return " and ".join(parts + ([count(lessons, "lesson")] if lessons else []))
