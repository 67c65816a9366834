"""Lessons, patterns and what similarity means, on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import log

import typer

from ragforge.domain.lessons import (
    ANY,
    Calibration,
    CheckpointReport,
    EntryType,
    Facets,
    FoundLessons,
    FoundPattern,
    Lesson,
    Outcome,
    Pattern,
    PatternDetails,
    PatternState,
    PruneReport,
    Record,
    Words,
)
from ragforge.interfaces.cli.documents import STORE_FAILED
from ragforge.interfaces.cli.output import Column, one_line, paint, plain, print_data, print_table, say
from ragforge.interfaces.cli.why import print_fact, print_facts
from ragforge.interfaces.words import ago, count, duration
from ragforge.learn.rank import label_of
from ragforge.learn.retention import YEAR

ID_LENGTH = 8
KINDS = {EntryType.FAILURE: "failure", EntryType.REJECTION: "rejection", EntryType.APPROVAL: "approval"}
_TELLS = {
    "task": "a task, and a lesson worth knowing for it",
    "failure": "a failure, and a lesson of the same one",
    "problem": "two lessons of one problem",
    "lesson": "two lessons that are one",
}
"""Of each curve what it tells apart from anything else."""
_WEIGHED = {"lesson": ("problem", "solution", "words of the problem", "words of the solution")}
_WEIGHED_USUALLY = ("meaning", "words", "names")
_COSINES = {"lesson": 2}
"""How many of the weights are of cosines; one, unless it says otherwise."""


# -- in words


def record_text(record: Record) -> str:
    """`5 successes, 1 loss`."""
    lost = f", {count(record.losses, 'loss', 'losses')}" if record.losses else ""
    return f"{count(record.successes, 'success', 'successes')}{lost}"


def whom(facets: Facets) -> str:
    """Whom a lesson is for: `backend, testing, python`."""
    named = [each for each in (facets.agent_type, facets.task_type, facets.technology) if each != ANY]
    return plain(", ".join(named)) or ANY


def checkpoint_text(report: CheckpointReport) -> str:
    """What a checkpoint did."""
    patterns = f"The project has {count(report.patterns, 'pattern')}"
    renewed = f"{count(report.renewed, 'lesson')} got new vectors" if report.renewed else ""
    if not report.embedded:
        return f"{renewed or 'Nothing was waiting'}. {patterns}"
    parts = [
        count(report.new_patterns, "new pattern") if report.new_patterns else "",
        f"{report.merged:,} of what a pattern tells already" if report.merged else "",
    ]
    done = (
        f"Embedded {count(report.embedded, 'lesson')} in {duration(report.seconds)}: {', '.join(filter(None, parts))}"
    )
    return f"{done}; {renewed}. {patterns}" if renewed else f"{done}. {patterns}"


def pruned_text(report: PruneReport) -> str:
    """What retention removed, or why it did not."""
    if report.paused:
        return f"Nothing removed: {one_line(report.paused)}. If the clock is right: ragforge learn prune --trust-clock"
    before = f"{report.before.astimezone():%Y-%m-%d}" if report.before else "a year ago"
    if not (report.lessons or report.outcomes):
        return f"Nothing to remove: all was embedded after {before}"
    parts = (count(report.lessons, "lesson"), count(report.patterns, "pattern"), count(report.outcomes, "outcome"))
    return f"Removed what is older than {before}: {', '.join(parts)}"


def say_pending(pending: Sequence[str]) -> None:
    """Where removed words may still be on disk; then it ends as any removal that is not complete."""
    for each in pending:
        say(f"{paint('Warning:', 'yellow', sys.stderr)} words of it may still be in {one_line(each)}")
    if pending:
        raise typer.Exit(STORE_FAILED)


# -- what waits


def print_staged(lessons: Sequence[Lesson]) -> None:
    columns = (
        Column("id"),
        Column("from"),
        Column("for", least=8, most=30),
        Column("verified"),
        Column("problem", least=20, most=70),
        Column("told", align_right=True, dropped=True),
    )
    rows = [
        [
            each.id[:ID_LENGTH],
            KINDS[each.facets.entry_type],
            whom(each.facets),
            "yes" if each.verified else "no",
            one_line(each.words.problem),
            ago(each.captured_at),
        ]
        for each in lessons
    ]
    print_table(columns, rows, ["" if each.verified else "yellow" for each in lessons])


# -- what was found


def print_found(found: FoundLessons, slugs: Mapping[str, str], here: str) -> None:
    """Patterns in their order; those that solve one problem in different ways say so."""
    places = {each.pattern.id: number for number, each in enumerate(found.patterns, 1)}
    for number, each in enumerate(found.patterns, 1):
        if number > 1:
            print_data()
        head = f"{number}  {each.label} - {record_text(each.record)}"
        print_data(f"{paint(head, 'bold')}  {each.pattern.id[:ID_LENGTH]}  fits {each.similarity:.2f}")
        _print_words(each.pattern.words)
        print_fact("for", whom(each.pattern.facets))
        print_facts("note", _notes(each, places, slugs, here))


def _notes(found: FoundPattern, places: Mapping[str, int], slugs: Mapping[str, str], here: str) -> list[str]:
    notes = []
    if others := sorted(places[id] for id in found.alternative_to if id in places):
        notes.append(f"alternative to {', '.join(map(str, others))}: the same problem, solved in another way")
    if found.pattern.project != here:
        notes.append(f"learnt in the project {slugs.get(found.pattern.project, found.pattern.project)}")
    if found.also:
        same = ", ".join(id[:ID_LENGTH] for id in found.also)
        notes.append(f"counted with the same of other projects: {same}")
    return notes


def _print_words(words: Words) -> None:
    for name, text in (("problem", words.problem), ("solution", words.solution), ("when", words.when_to_try)):
        print_facts(name, text.splitlines())


def print_decisions(found: FoundLessons) -> None:
    """What became of everything that was near, and how long it took."""
    if found.decisions:
        if found.patterns:
            print_data()
        print_table(
            (Column("fits", align_right=True), Column("pattern"), Column("told"), Column("why", least=20)),
            [
                [
                    f"{each.similarity:.2f}",
                    each.pattern[:ID_LENGTH],
                    "yes" if each.kept else "no",
                    one_line(each.reason),
                ]
                for each in sorted(found.decisions, key=lambda each: (not each.kept, -each.similarity))
            ],
        )
    took = ", ".join(f"{stage} {milliseconds:.1f} ms" for stage, milliseconds in found.timings.items())
    print_data(paint(f"{found.threshold:g} or more fits; {plain(took)}", "dim"))


# -- what is kept


def print_patterns(patterns: Sequence[Pattern]) -> None:
    columns = (
        Column("id"),
        Column("successes", align_right=True),
        Column("losses", align_right=True),
        Column("label"),
        Column("state"),
        Column("from"),
        Column("for", least=8, most=30),
        Column("problem", least=20, most=70),
        Column("last", align_right=True, dropped=True),
    )
    rows = [
        [
            each.id[:ID_LENGTH],
            f"{each.record.successes:,}",
            f"{each.record.losses:,}",
            label_of(each.record),
            "approved" if each.approved else str(each.state),
            KINDS[each.facets.entry_type],
            whom(each.facets),
            one_line(each.words.problem),
            ago(each.last_at) if each.last_at else "",
        ]
        for each in patterns
    ]
    print_table(columns, rows, ["dim" if each.state is PatternState.REJECTED else "" for each in patterns])


def print_pattern(details: PatternDetails, slugs: Mapping[str, str]) -> None:
    """A pattern with everything it stands on."""
    pattern, record = details.pattern, details.pattern.record
    print_data(f"{paint(f'{label_of(record)} - {record_text(record)}', 'bold')}  {pattern.id}")
    _print_words(pattern.words)
    print_fact("from", f"{KINDS[pattern.facets.entry_type]}, quality {pattern.quality}")
    print_fact("for", whom(pattern.facets))
    print_fact("state", _state(pattern))
    outcomes = f"{record.wins:,} won and {record.losses:,} lost when applied"
    print_fact("record", f"{count(record.captures, 'capture')}; {outcomes}")
    if pattern.last_at is not None:
        print_fact("kept", f"until {(pattern.last_at + YEAR).astimezone():%Y-%m-%d}, unless it is told again")
    _print_captures(details)
    if details.outcomes:
        _print_title("outcomes, newest first")
        for outcome in details.outcomes:
            _print_outcome(outcome, slugs)
    if details.alternatives:
        _print_title("other solutions of the same problem")
        for other in details.alternatives:
            print_data(f"{other.id[:ID_LENGTH]}  {record_text(other.record)}")
            print_facts("", other.words.solution.splitlines())


def _print_title(text: str) -> None:
    print_data()
    print_data(paint(text, "bold"))


def _state(pattern: Pattern) -> str:
    if pattern.state is PatternState.REJECTED:
        return "rejected: nobody is told of it"
    said = ", approved by a person" if pattern.approved else ", nobody has reviewed it"
    return f"{pattern.state}{said}{f', in their words (version {pattern.version})' if pattern.edited else ''}"


def _print_captures(details: PatternDetails) -> None:
    """Each with what it tells in other words than the pattern, and with what verified it."""
    _print_title("captures, oldest first")
    for lesson in details.lessons:
        print_data(f"{lesson.id}  {paint(_told_when(lesson), 'dim')}")
        own, said = asdict(lesson.words), asdict(details.pattern.words)
        for name, label in (("problem", "problem"), ("solution", "solution"), ("when_to_try", "when")):
            if own[name] != said[name]:
                print_facts(label, own[name].splitlines())
        if lesson.told.task and lesson.told.task not in own["problem"]:
            print_facts("task", lesson.told.task.splitlines())
        print_facts("evidence", lesson.told.evidence.splitlines())


def _told_when(lesson: Lesson) -> str:
    embedded = f", embedded {ago(lesson.embedded_at)}" if lesson.embedded_at else ""
    return f"told {ago(lesson.captured_at)} by {one_line(lesson.captured_by)}{embedded}"


def _print_outcome(outcome: Outcome, slugs: Mapping[str, str]) -> None:
    by = f" by {one_line(outcome.recorded_by)}" if outcome.recorded_by else ""
    where = f" in {plain(slugs.get(outcome.project, outcome.project))}" if outcome.project else ""
    word = paint("won ", "green") if outcome.success else paint("lost", "red")
    note = f"{one_line(outcome.note)}  " if outcome.note else ""
    print_data(f"{word}  {note}{paint(f'{ago(outcome.recorded_at)}{by}{where}', 'dim')}")


def print_lesson(lesson: Lesson) -> None:
    """A capture: what was told, and how far it has come."""
    print_data(f"{paint(KINDS[lesson.facets.entry_type], 'bold')}  {lesson.id}")
    _print_words(lesson.words)
    if lesson.told.task and lesson.told.task not in lesson.words.problem:
        print_facts("task", lesson.told.task.splitlines())
    print_facts("evidence", lesson.told.evidence.splitlines())
    print_fact("for", whom(lesson.facets))
    print_fact("quality", str(lesson.quality))
    print_fact("told", _told_when(lesson).removeprefix("told "))
    if lesson.embedded:
        state = f"part of the pattern {lesson.pattern}"
    elif lesson.verified:
        state = "waits for a checkpoint"
    else:
        state = "not verified: waits for a person"
    print_fact("state", state)


# -- what similarity means


def cosine_alone(calibration: Calibration, name: str) -> float | None:
    """How near in meaning two texts are that share no word, and reach what is asked for; None if none can be."""
    curve, at = getattr(calibration, name), calibration.measured[name].at
    weight = sum(curve.weights[: _COSINES.get(name, 1)])
    cosine = (log(at / (1 - at)) - curve.offset) / weight if weight > 0 else 2.0
    return round(cosine, 4) if cosine <= 1 else None


def print_calibration(calibration: Calibration) -> None:
    """The curves side by side."""
    print_data(f"{paint(plain(calibration.embedder), 'bold')}  fitted {ago(calibration.made_at)}")
    print_data()
    columns = (
        Column("curve"),
        Column("at", align_right=True),
        Column("precision", align_right=True),
        Column("recall", align_right=True),
        Column("pairs", align_right=True),
        Column("cosine alone", align_right=True),
        Column("tells", least=20, dropped=True),
    )
    rows = []
    for name, tells in _TELLS.items():
        measured, alone = calibration.measured[name], cosine_alone(calibration, name)
        figures = [f"{measured.at:g}", f"{measured.precision:.3f}", f"{measured.recall:.3f}", f"{measured.pairs:,}"]
        rows.append([name, *figures, "never" if alone is None else f"{alone:.2f}", tells])
    print_table(columns, rows)
    print_data()
    for name in _TELLS:
        curve = getattr(calibration, name)
        parts = zip(_WEIGHED.get(name, _WEIGHED_USUALLY), curve.weights, strict=True)
        weights = ", ".join(f"{what} {weight:.2f}" for what, weight in parts)
        print_fact(name, f"{weights}; offset {curve.offset:.2f}")
