"""A guided interview in the terminal: what is said, how far it has come, what is assumed, and how a turn came about."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ragforge.domain.discovery import Standing, when
from ragforge.interfaces.cli.answers import names_in, source_lines, title
from ragforge.interfaces.cli.common import Common
from ragforge.interfaces.cli.output import (
    Column,
    one_line,
    paint,
    plain,
    plain_text,
    print_data,
    print_table,
    table,
    width_of_terminal,
    wrapped,
)
from ragforge.interfaces.cli.passages import warn
from ragforge.interfaces.cli.why import print_fact, print_facts, print_timings, print_usage
from ragforge.interfaces.fields.discovery import probe_fields, standings
from ragforge.interfaces.words import ago, count, spent

if TYPE_CHECKING:
    from ragforge.app import Ragforge
    from ragforge.discover.knowledge import Mode
    from ragforge.domain.conversation import Turn
    from ragforge.domain.discovery import Assumption, Interview, InterviewState, Progression, TurnAccount

ID_LENGTH = 8
_COLOURS = {
    Standing.OPEN: "",
    Standing.CONFIRMED: "green",
    Standing.REFUTED: "dim",
    Standing.SHAKEN: "yellow",
}
_ITEM = re.compile(r"\s*(?:(?:[-*]|\d+\.|>)\s+)?")
_BROKEN = re.compile(r"(?<!\n)\n(?!\s*(?:\n|[-*>|#]|\d+\.))")
"""The end of a line within a paragraph."""
_BOLD = re.compile(r"\*\*(.+?)\*\*", re.DOTALL)
_LEAST_STATEMENT = 30
"""Cells beside the other columns of the register; with fewer, a statement stands below them."""


# -- what is said


def print_markdown(text: str) -> None:
    """As it is for a file or a pipe; on a terminal broken between words, and bold where it should be."""
    for line in plain_text(text).strip("\n").splitlines():
        shown = wrapped(line, len(_ITEM.match(line)[0])) if line.strip() else ""  # type: ignore[index]
        print_data(_BOLD.sub(lambda found: paint(found[1], "bold"), shown) if sys.stdout.isatty() else shown)


def print_opening(text: str) -> None:
    """What is said first. It comes from a file, where lines end anywhere: a terminal breaks them anew."""
    print_markdown(text if width_of_terminal() is None else _BROKEN.sub(" ", text))


def print_sources(common: Common, forge: Ragforge, turn: Turn) -> None:
    """The places that a reply cites."""
    if turn.citations:
        print_data()
        for line in source_lines(turn, names_in(common, forge, turn), "place"):
            print_data(line)


def print_exchange(common: Common, forge: Ragforge, turn: Turn) -> None:
    """A message and the reply to it."""
    print_data(paint(f"> {wrapped(one_line(turn.question), 2)}", "bold"))
    print_data()
    print_markdown(turn.answer)
    print_sources(common, forge, turn)
    print_data()


def print_transcript(
    common: Common, forge: Ragforge, interview: Interview, opening: str, turns: Sequence[Turn]
) -> None:
    """All that was said; before the first turn, the opening that waits for an answer."""
    talk = interview.talk
    print_data(f"{paint(one_line(talk.title), 'bold')}  {talk.id}")
    print_data()
    if opening:
        print_opening(opening)
        print_data()
    for turn in turns:
        by = f", {turn.model}" if turn.model else ""
        told = f"turn {turn.number} · {turn.mode} · {turn.probe} · {ago(turn.asked_at)}{by}"
        print_data(paint(f"── {plain(told)}", "dim"))
        print_exchange(common, forge, turn)


# -- below a reply


def progress_line(state: InterviewState, progress: Sequence[Progression]) -> str:
    """`Problem · Stakeholder mapping · 2 of 7 probes done · 3 assumptions (1 shaken)`."""
    current = next((each.title for each in progress if each.current), "")
    done = f"{sum(each.done for each in progress)} of {count(len(progress), 'probe')} done"
    assumed = ""
    if state.assumptions:
        by_status = standings(state.assumptions)
        settled = [f"{by_status[each]} {each}" for each in ("confirmed", "refuted", "shaken") if by_status[each]]
        assumed = count(len(state.assumptions), "assumption") + (f" ({', '.join(settled)})" if settled else "")
    return plain(" · ".join(filter(None, (state.mode.capitalize(), current, done, assumed))))


def say_progress(common: Common, state: InterviewState, progress: Sequence[Progression]) -> None:
    common.say(paint(progress_line(state, progress), "dim", sys.stderr))


def say_remarks(common: Common, account: TurnAccount) -> None:
    """What was not there, and what a person should know of the turn."""
    warn(common, account)
    for notice in account.notices:
        common.say(f"Note: {one_line(notice)}")
    if account.usage.calls:
        common.say(f"{plain(account.model or 'a language model')}: {spent(account.usage)}")


# -- the register


def print_register(assumptions: Sequence[Assumption]) -> None:
    """A line for each, with its whole statement; below it the evidence."""
    columns = (Column("id"), Column("status"), Column("confidence"), Column("impact"), Column("depends on"))
    rows = [
        [each.id, each.status, each.confidence, each.impact, ", ".join(each.depends_on) or "–"] for each in assumptions
    ]
    head, *lines = table(columns, rows, None)
    indent = max(map(len, (head, *lines))) + 2
    width = width_of_terminal()
    beside = width is None or width - indent >= _LEAST_STATEMENT
    print_data(paint(f"{head:<{indent}}ASSUMPTION" if beside else head, "bold"))
    margin = indent if beside else 4
    for each, line in zip(assumptions, lines, strict=True):
        statement = wrapped(one_line(each.statement), margin)
        told = f"{line:<{indent}}{statement}" if beside else f"{line}\n    {statement}"
        print_data(paint(told, _COLOURS[each.status]) if _COLOURS[each.status] else told)
        for some in each.evidence:
            cited = f" [{', '.join(dict.fromkeys(one.name for one in some.cited))}]" if some.cited else ""
            proof = wrapped(one_line(f"{when(some.turn)}: {some.text}{cited}"), margin)
            print_data(paint(f"{'':<{margin}}{proof}", "dim"))


# -- how far it has come


def print_progress(state: InterviewState, progress: Sequence[Progression], mode: Mode) -> None:
    """Each probe with its criteria: ✓ met, ? nobody can tell, · not yet."""
    for each in progress:
        unknown = f", {each.unknown} unknown" if each.unknown else ""
        here = "  ← asked now" if each.current else ""
        print_data(f"{paint(plain(each.title), 'bold')}  {each.key}  {each.met} of {each.criteria} met{unknown}{here}")
        for one in probe_fields(each, mode, state)["details"]:
            mark = "✓" if one["met"] else "?" if one["unknown"] else "·"
            turn = f" (turn {one['turn']})" if one["turn"] else ""
            print_data(f"  {mark} {wrapped(one_line(one['text'] + turn), 4)}")


def print_points(state: InterviewState, modes: Mapping[str, Mode]) -> None:
    """The points of the document by section, with the numbers by which they can be removed."""
    for mode in modes.values():
        for section in mode.sections:
            points = [each for each in state.points if each.section == section.key]
            if not points:
                continue
            print_data(f"{paint(plain(section.heading), 'bold')}  {section.key}")
            wide = max(len(each.id) for each in points) + 2
            for each in points:
                source = ", ".join(dict.fromkeys(one.name for one in each.cited)) or when(each.turn)
                rests = f", assumption {each.assumption}" if each.assumption else ""
                told = wrapped(one_line(f"{each.text} ({source}{rests})"), wide + 2)
                print_data(f"  {each.id:<{wide}}{told}")


def print_list(texts: Iterable[str]) -> None:
    for each in texts:
        print_data(f"- {wrapped(one_line(each), 2)}")


def print_probes(mode: Mode) -> None:
    """What is asked in a mode, and what is typical of domains, by their keys."""
    print_data(f"{paint(plain(mode.name), 'bold')}  {plain(mode.title)}; ends in: {plain(mode.document)}")
    print_data()
    print_table(
        (Column("probe"), Column("title"), Column("criteria", align_right=True), Column("purpose", least=20)),
        [[each.key, each.title, str(len(each.criteria)), one_line(each.purpose)] for each in mode.probes.values()],
    )
    print_data()
    print_table(
        (Column("pattern"), Column("title", least=12), Column("about", least=20)),
        [[each.key, each.title, one_line(each.about)] for each in mode.patterns.values()],
    )
    print_data()
    print_table(
        (Column("section"), Column("heading"), Column("says", least=20)),
        [[each.key, each.heading, one_line(each.says)] for each in mode.sections],
    )


# -- how a turn came about


def print_remembered(turn: Turn) -> None:
    """What is stored of a turn that was taken at another time."""
    print_fact("turn", f"{turn.number}, {ago(turn.asked_at)}")
    print_fact("decided", f"{plain(turn.mode)}, {plain(turn.probe)}")
    print_fact("asked by", plain(turn.model) or "rules")
    print_fact("summary", one_line(turn.summary) or "–")
    print_facts("cites", dict.fromkeys(title(each.name, each.locator) for each in turn.citations))


def print_account(account: TurnAccount) -> None:
    """What was decided, searched, read, sent, changed, refused and left out."""
    decision = account.decision
    by = plain(decision.by) or "rules"
    print_fact("decided", f"{decision.mode}, {decision.probe}: {one_line(decision.reason)} (by {by})")
    also = [
        "a message with nothing to go on" if decision.filler else "",
        "sums up" if decision.micro_synthesis else "",
        f"patterns: {', '.join(decision.patterns)}" if decision.patterns else "",
    ]
    print_facts("", filter(None, also))
    looked = f"{count(account.searches, 'time')}" if account.searches else "nothing was looked up"
    print_fact("searched", looked)
    for number, source in enumerate(account.sources):
        told = f"[{source.number}] {title(source.name, source.locator)}, {count(source.tokens, 'token')}"
        print_fact("" if number else "sources", told)
    if account.recalled:
        print_fact("recalled", f"turn{'s' * (len(account.recalled) > 1)} {', '.join(map(str, account.recalled))}")
    parts = ", ".join(f"{plain(each.name)} {each.tokens:,}" for each in account.sections)
    sent = "sent" if account.model else "as a model would read it"
    print_fact("context", f"{count(account.phase_b_tokens, 'token')}, {sent}: {parts}")
    if account.phase_a_tokens:
        print_fact("", f"deciding took {count(account.phase_a_tokens, 'token')}")
    print_facts("shortened", account.compressed)
    print_facts("changes", (f"✓ {each.tool}: {each.text}" for each in account.changes if not each.refused))
    print_facts("refused", (f"– {each.tool}: {each.text}" for each in account.changes if each.refused))
    print_facts("missing", (f"{missing.part}: {missing.message}" for missing in account.degraded))
    print_facts("notes", account.notices)
    print_usage(account)
    if account.timings:
        print_timings(account.timings)
