"""`log …` and `feedback`: what was asked, what it took, and what people thought of the answers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ragforge.errors import NotFound
from ragforge.interfaces.cli.common import Common, command
from ragforge.interfaces.cli.documents import DryRun, Yes, confirm, find
from ragforge.interfaces.cli.names import names_of
from ragforge.interfaces.cli.output import Column, one_line, paint, plain, print_data, print_json, print_table
from ragforge.interfaces.cli.passages import place
from ragforge.interfaces.words import ago, count, price_of

if TYPE_CHECKING:
    from ragforge.app import Ragforge
    from ragforge.domain.evaluation import Feedback
    from ragforge.domain.library import ChunkPlace
    from ragforge.domain.records import LogEntry, Spent

_ID_LENGTH = 8
_SHOWN = 20
_AGO = re.compile(r"(\d+) *([hdw])")
_HOURS = {"h": 1, "d": 24, "w": 168}
_NAMES_SHOWN = 5


def moment(text: str) -> datetime:
    """A date, or how long ago."""
    try:
        if match := _AGO.fullmatch(text.strip()):
            return datetime.now(UTC) - timedelta(hours=int(match[1]) * _HOURS[match[2]])
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise typer.BadParameter(f"{text!r} is neither 12h, 7d or 2w nor a date such as 2026-05-01") from None


_NOT_KEPT = "(not kept)"
Name = Annotated[str, typer.Argument(metavar="ID", help="Id of a question in the log, its beginning, or last")]
Since = Annotated[
    datetime | None,
    typer.Option(
        "--since", metavar="WHEN", parser=moment, help="Only what was asked since: 12h, 7d, 2w ago, or a date"
    ),
]


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="What was asked, and what it took.", no_args_is_help=True)
    command(group, "ls")(list_questions)
    command(group, "show")(show)
    command(group, "cost")(cost)
    command(group, "rm")(remove)
    app.add_typer(group, name="log")
    command(app, "feedback")(feedback)


# -- the log


def list_questions(
    common: Common,
    since: Since = None,
    limit: Annotated[int, typer.Option("--limit", min=1, metavar="N", help="Questions to list")] = _SHOWN,
) -> None:
    """List what was asked, newest first.

    `ask --ephemeral` leaves nothing here; with the setting ask.log = false nothing does.
    """
    with common.open() as forge:
        is_on = forge.settings.ask.log
        entries = forge.query_log(project=common.project_in(forge), limit=limit, since=since)
    if common.json:
        print_json({"on": is_on, "questions": entries})
        return
    if not entries:
        common.say("Nothing was asked since then." if since else 'Nothing was asked yet. Next: ragforge ask "…"')
    else:
        print_table(_COLUMNS, [_row(entry) for entry in entries], [_colour(entry) for entry in entries])
        if len(entries) == limit:
            common.say(f"These are the newest {limit:,}; --limit shows more")
    if not is_on:
        common.say("The log is off (ask.log is false): what is asked now is not written down")


_COLUMNS = (
    Column("id"),
    Column("when"),
    Column("kind"),
    Column("question", least=20, most=60),
    Column("mark"),
    Column("ms", align_right=True, dropped=True),
    Column("model", dropped=True),
    Column("tokens", align_right=True, dropped=True),
    Column("cost", align_right=True, dropped=True),
)


def _row(entry: LogEntry) -> list[str]:
    return [
        entry.id[:_ID_LENGTH],
        ago(entry.asked_at),
        entry.kind,
        one_line(entry.question) or _NOT_KEPT,
        entry.feedback,
        f"{entry.retrieval_ms + entry.generation_ms:,.0f}",
        entry.model or "none",
        f"{entry.input_tokens + entry.output_tokens:,}",
        price_of(entry.input_tokens + entry.output_tokens, entry.cost),
    ]


def _colour(entry: LogEntry) -> str:
    return "red" if entry.kind == "error" else "yellow" if entry.feedback == "bad" else ""


def show(common: Common, id: Name) -> None:
    """Show one question: what was found for it, who answered, what it took, and what went wrong."""
    with common.open() as forge:
        project = common.project_in(forge)
        entry = forge.logged(id, project=project)
        places = forge.places([chunk for chunk, _ in entry.chunks], project=project)
        cited = _names(forge, project, entry.cited)
    if common.json:
        chunks = [
            {"chunk": chunk, "score": score, **(asdict(places[chunk]) if chunk in places else {})}
            for chunk, score in entry.chunks
        ]
        print_json({"question": entry, "chunks": chunks})
        return
    for name, value in _facts(entry, cited):
        print_data(f"{paint(f'{name:<12}', 'dim')} {value}")
    if entry.chunks:
        print_data()
        _print_chunks(entry, places)


def _names(forge: Ragforge, project: str, documents: Sequence[str]) -> list[str]:
    """What documents are called, of those that are still there."""
    names = []
    for document in documents:
        with suppress(NotFound):
            names.append(forge.document(document, project=project).name)
    return names


def _facts(entry: LogEntry, cited: Sequence[str]) -> list[tuple[str, str]]:
    tokens = entry.input_tokens + entry.output_tokens
    gone = len(entry.cited) - len(cited)
    facts = [
        ("question", paint(one_line(entry.question), "bold") if entry.question else _NOT_KEPT),
        ("searched as", one_line(entry.standalone)),
        ("id", entry.id),
        ("asked", f"{entry.asked_at.astimezone():%Y-%m-%d %H:%M:%S}"),
        ("ended as", entry.kind),
        ("cites", plain(", ".join([*cited, *([f"{count(gone, 'file')} that left the project"] if gone else [])]))),
        ("problem", paint(one_line(entry.error), "red")),
        ("agent", plain(entry.agent)),
        ("conversation", entry.conversation),
        ("model", plain(f"{entry.model}, profile {entry.profile}" if entry.profile else entry.model) or "none"),
        ("tokens", f"{entry.input_tokens:,} read, {entry.output_tokens:,} written" if tokens else ""),
        ("cost", price_of(tokens, entry.cost)),
        ("chunks", f"{len(entry.chunks):,} used (k {entry.k})"),
        ("took", f"{entry.retrieval_ms:,.0f} ms up to the answer, {entry.generation_ms:,.0f} ms for it"),
        ("marked", " — ".join(part for part in (entry.feedback, one_line(entry.note)) if part)),
    ]
    return [(name, value) for name, value in facts if value]


def _print_chunks(entry: LogEntry, places: Mapping[str, ChunkPlace]) -> None:
    columns = (Column("score", align_right=True), Column("chunk"), Column("file", least=16), Column("place", least=12))
    rows = []
    for chunk, score in entry.chunks:
        at = places.get(chunk)
        where = (at.name, place(at.locator)) if at else ("(no longer there)", "")
        rows.append([f"{score:.2f}", chunk[:_ID_LENGTH], *where])
    print_table(columns, rows)


def cost(
    common: Common,
    by: Annotated[
        Literal["model", "profile", "agent", "day"], typer.Option("--by", help="What to sum by; days are in UTC")
    ] = "model",
    since: Since = None,
) -> None:
    """Sum up questions, tokens and money."""
    with common.open() as forge:
        spent = forge.spent(by=by, project=common.project_in(forge), since=since)
    total = _total(spent)
    if common.json:
        print_json({"by": by, "spent": spent, "total": total})
        return
    if not spent:
        common.say("Nothing was asked since then." if since else 'Nothing was asked yet. Next: ragforge ask "…"')
        return
    columns = (
        Column(by, least=12),
        Column("questions", align_right=True),
        Column("read", align_right=True),
        Column("written", align_right=True),
        Column("cost", align_right=True),
    )
    rows = [*spent, total] if len(spent) > 1 else spent
    print_table(columns, [_sum(each) for each in rows], ["" if each is not total else "bold" for each in rows])
    if total.unpriced:
        unknown = count(total.unpriced, "question")
        common.say(f"Note: {unknown} went to a model whose price is not known: the sums are without them")


def _sum(spent: Spent) -> list[str]:
    tokens = (spent.input_tokens, spent.output_tokens)
    return [
        spent.name or "none",
        f"{spent.questions:,}",
        *(f"{number:,}" for number in tokens),
        price_of(sum(tokens), spent.cost),
    ]


def _total(spent: Sequence[Spent]) -> Spent:
    from ragforge.domain.records import Spent

    costs = [each.cost for each in spent if each.cost is not None]
    return Spent(
        "total",
        sum(each.questions for each in spent),
        sum(each.input_tokens for each in spent),
        sum(each.output_tokens for each in spent),
        sum(costs, Decimal(0)) if costs else None,
        sum(each.unpriced for each in spent),
    )


def remove(
    common: Common,
    before: Annotated[
        datetime,
        typer.Option("--before", metavar="WHEN", parser=moment, help="What was asked before: 90d, 12w ago, or a date"),
    ],
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Remove old questions from the log for good.

    Those that feedback put into the set of that name stay there.
    """
    with common.open() as forge:
        project = common.project_in(forge)
        everything, newer = (_total(forge.spent(project=project, since=since)).questions for since in (None, before))
        when, found = f"{before.astimezone():%Y-%m-%d %H:%M}", everything - newer
        what = f"{count(found, 'question')} asked before {when}"
        if found and not dry_run and not confirm(f"Remove {what} from the log for good?", yes):
            common.say("Nothing removed.")
            return
        removed = found if dry_run else forge.prune_log(before, project=project)
    if common.json:
        print_json({"would_remove" if dry_run else "removed": removed, "before": before})
    elif dry_run:
        print_data(f"would remove {what}")
    else:
        common.say(f"Removed {what}" if found else f"Nothing to remove: nothing was asked before {when}")


# -- feedback


def feedback(
    common: Common,
    id: Name,
    mark: Annotated[Literal["good", "bad"], typer.Argument(metavar="good|bad", help="What you think of the answer")],
    note: Annotated[str, typer.Option("--note", metavar="TEXT", help="Why; kept with the mark")] = "",
    expected: Annotated[
        list[str] | None,
        typer.Option(
            "--expected", metavar="FILE", help="A file that should be found: id, name, end of its path; may be repeated"
        ),
    ] = None,
) -> None:
    """Mark an answer of the log as good or bad. A second mark replaces the first.

    Where the right files are known, the question joins the set `feedback`, which `ragforge eval run feedback` measures:
    the files that a good answer cites, else those that --expected names. A good abstention joins as a question that the
    files do not answer.
    """
    with common.open() as forge:
        project = common.project_in(forge)
        files = [document.id for document in find(common, forge, expected or ())]
        given = forge.give_feedback(id, mark == "good", note=note, expected=files, project=project)
        wanted = forge.find(list(given.question.documents), project=project) if given.question else []
    if common.json:
        print_json({"feedback": given})
    else:
        common.say(_told(given, list(names_of(wanted).values())))


def _told(given: Feedback, files: Sequence[str]) -> str:
    """What was marked, and what came of it."""
    id, mark = given.entry.id[:_ID_LENGTH], given.entry.feedback
    said = f"Marked {id} {mark}"
    if given.question is None:
        why = "the answer cites no file that is there" if mark == "good" else "nobody said which files are right"
        return f"{said}. It is no question to measure by: {why}. Next: ragforge feedback {id} {mark} --expected FILE"
    more = f" and {len(files) - _NAMES_SHOWN:,} more" if len(files) > _NAMES_SHOWN else ""
    what = f"wants {plain(', '.join(files[:_NAMES_SHOWN]))}{more}" if files else "has no answer in the files"
    return f"{said}. In the set feedback, the question {what}. Next: ragforge eval run feedback"
