"""Runs, their answers, and how two of them differ, on the terminal."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict

from ragforge.domain.evaluation import AnswerResult, Comparison, MetricChange, QuestionResult, Run, RunDetails
from ragforge.domain.retrieval import Tuning
from ragforge.evaluate.answers import verdict
from ragforge.evaluate.metrics import main_metric
from ragforge.evaluate.summary import (
    Unsearchable,
    amount,
    answer_facts,
    answered_worst,
    asked_by,
    by_cut,
    differing,
    doubts_of,
    facts,
    imperfect,
    scores_of,
    telling,
    wanted_by,
    why_not,
    why_unnamed,
)
from ragforge.interfaces.cli.output import Column, one_line, paint, plain, print_data, print_table
from ragforge.interfaces.words import ago

ID_LENGTH = 8
_SETTINGS_SHOWN = ("k", "fusion", "alpha", "embedder", "model")
_SAID = 300
_NAMES_SHOWN = 5

# -- one run


def print_run(details: RunDetails, cannot: Unsearchable) -> None:
    """The metrics as a table: one row for each kind, one column for each cut; those of answers below."""
    run = details.run
    head = [run.id[:ID_LENGTH], run.questions, run.label]
    print_data(paint("  ".join(plain(part) for part in head if part), "bold"))
    if run.metrics:
        cuts, kinds = by_cut(run.metrics)
        columns = [Column("metric"), *(Column(f"@{cut}", align_right=True) for cut in cuts)]
        print_table(columns, [[kind, *values] for kind, values in kinds.items()])
    print_data(f"{', '.join(facts(details, cannot))}; {run.milliseconds:.1f} ms each")
    _print_answers(details)
    print_data(_settings(run))


def _settings(run: Run) -> str:
    """What a reader asks for first, and whatever is not as usual."""
    usual = asdict(Tuning())
    shown = [
        f"{name.replace('_', ' ')} {value}"
        for name, value in run.settings.items()
        if name in _SETTINGS_SHOWN or (name in usual and value != usual[name])
    ]
    if judge := run.settings.get("judge"):
        shown.append(f"judge {judge}{' (its own judge)' * (judge == run.settings.get('model'))}")
    return paint(plain(", ".join(shown)), "dim")


def shortfall(details: RunDetails) -> str:
    """How to see what was missing, if something was."""
    short = next((each for each in details.results if each.degraded), None)
    if short is not None:
        return f"ragforge search {shlex.quote(one_line(short.text))} tells what was missing, and why"
    short = next((each for each in details.results if each.answer and each.answer.degraded), None)
    return f"ragforge ask {shlex.quote(one_line(short.text))} tells what was missing, and why" if short else ""


def print_runs(runs: Sequence[Run]) -> None:
    """One line for each."""
    columns = (
        Column("run"),
        Column("set", least=8),
        Column("label", least=8, most=40),
        Column("metric", align_right=True),
        Column("value", align_right=True),
        Column("mrr", align_right=True, dropped=True),
        Column("answered", align_right=True, dropped=True),
        Column("ms", align_right=True, dropped=True),
        Column("settings", dropped=True),
        Column("when", align_right=True, dropped=True),
    )
    rows = []
    for each in runs:
        main = main_metric(each.metrics)
        known = {**each.metrics, **each.answers}
        values = [f"{known[name]:.4f}" if name in known else "" for name in (main, "mrr", "answered")]
        facts = [f"{each.milliseconds:.1f}", each.settings_hash, ago(each.ended_at)]
        rows.append([each.id[:ID_LENGTH], each.questions, each.label, main, *values, *facts])
    print_table(columns, rows)


# -- its questions


def print_questions(details: RunDetails, cannot: Unsearchable, most: int) -> None:
    """Questions that went worst, and the answers."""
    worst = imperfect(details)[:most]
    if worst:
        print_data()
        print_data(paint("went worst", "bold"))
    for result in worst:
        _print_question(result, main_metric(result.metrics), cannot)
    answers = answered_worst(details)[:most]
    if answers:
        print_data()
        print_data(paint("answers, the worst first", "bold"))
    for result, answer in answers:
        _print_answer(result, answer)


def _print_question(result: QuestionResult, main: str, cannot: Unsearchable) -> None:
    print_data(f"{result.metrics[main]:.2f}  {one_line(result.text)}")
    wanted = [_noted(item.name, why_not(item, cannot)) for item in wanted_by(result)]
    found = list(dict.fromkeys(_noted(passage.name, why_unnamed(passage)) for passage in result.found))
    print_data(paint(f"      wanted  {_some(wanted)}", "dim"))
    print_data(paint(f"      found   {_some(found) or 'nothing'}", "dim"))


def _noted(name: str, note: str) -> str:
    return " ".join(part for part in (name, f"({note})" if note else "") if part)


def _print_answers(details: RunDetails) -> None:
    """Each metric with the number of questions it is the mean of; nothing if the run only searched."""
    asked, metrics = asked_by(details), telling(details.run)
    if not metrics:
        return
    columns = (Column("answers"), Column("mean", align_right=True), Column("questions", align_right=True))
    print_table(columns, [[name, amount(name, value), f"{asked[name]:,}"] for name, value in metrics.items()])
    print_data(one_line(", ".join(answer_facts(details))))


def _print_answer(result: QuestionResult, answer: AnswerResult) -> None:
    print_data(f"{verdict(answer).words}  {one_line(result.text)}")
    said = one_line(answer.text) or "(not shown)"
    lines = [("said", said if len(said) <= _SAID else f"{said[:_SAID]}…")]
    if answer.expected:
        lines.append(("expected", one_line(" | ".join(answer.expected))))
    if answer.cited:
        names = (_noted(p.name or f"({why_unnamed(p)})", "" if p.proved else "unproved") for p in answer.cited)
        lines.append(("cited", _some(list(dict.fromkeys(names)))))
    if scores := scores_of(answer):
        lines.append(("judge", "; ".join([scores, *map(one_line, doubts_of(answer))])))
    elif answer.unjudged:
        lines.append(("judge", f"said nothing: {one_line(answer.unjudged)}"))
    for name, text in lines:
        print_data(paint(f"      {name:<8}  {text}", "dim"))


def _some(names: Sequence[str]) -> str:
    """The first few, and how many more there are."""
    more = f" and {len(names) - _NAMES_SHOWN:,} more" if len(names) > _NAMES_SHOWN else ""
    return plain(", ".join(names[:_NAMES_SHOWN])) + more


# -- two runs


def print_comparison(comparison: Comparison, questions: int) -> None:
    """What was tried, what changed, and which questions."""
    names = " -> ".join(plain(run.label or run.id[:ID_LENGTH]) for run in (comparison.before, comparison.after))
    print_data(paint(f"{names}  {plain(comparison.before.questions)}", "bold"))
    tried = differing(comparison.before.settings, comparison.after.settings)
    print_data(paint(plain(", ".join(f"{name} {old} -> {new}" for name, old, new in tried) or "same settings"), "dim"))
    _print_changes("metric", comparison.metrics)
    _print_changes("answers", comparison.answers)
    if changed := comparison.changed[:questions]:
        print_data()
        print_data(paint(f"changed most, by {comparison.main}", "bold"))
        for change in changed:
            print_data(f"{change.difference:+.2f}  {change.before:.2f} -> {change.after:.2f}  {one_line(change.text)}")
    _print_changed_answers(comparison, questions)


def _print_changes(title: str, changes: Sequence[MetricChange]) -> None:
    """Metrics side by side; coloured where chance is unlikely."""
    if not changes:
        return
    columns = (
        Column(title),
        Column("before", align_right=True),
        Column("after", align_right=True),
        Column("change", align_right=True),
        Column("95 % interval", align_right=True, dropped=True),
        Column("p", align_right=True),
        Column("better", align_right=True),
        Column("worse", align_right=True),
        Column("same", align_right=True, dropped=True),
    )
    colours = ["" if not change.significant else "green" if change.improves else "red" for change in changes]
    print_table(columns, [_row(change) for change in changes], colours)


def _row(change: MetricChange) -> list[str]:
    name = change.metric
    low, high = (amount(name, value, signed=True) for value in (change.low, change.high))
    return [
        name,
        amount(name, change.before),
        amount(name, change.after),
        amount(name, change.difference, signed=True),
        f"{low} to {high}",
        f"{change.p:.4f}",
        f"{change.wins:,}",
        f"{change.losses:,}",
        f"{change.ties:,}",
    ]


def _print_changed_answers(comparison: Comparison, most: int) -> None:
    """Questions whose answers differ in a word, the losses first."""
    changed = comparison.changed_answers[:most]
    if changed:
        print_data()
        print_data(paint("answers that changed, the losses first", "bold"))
    for change in changed:
        print_data(f"{change.before} -> {change.after}  {one_line(change.text)}")
