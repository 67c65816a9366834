"""`eval …`: how well the right documents are found, run against run."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from ragforge.domain.cancel import Cancelled
from ragforge.domain.evaluation import Comparison, ImportReport, QuestionResult, Run, RunDetails
from ragforge.domain.library import FileResult, Outcome, Progress
from ragforge.domain.retrieval import Tuning
from ragforge.errors import UserError
from ragforge.evaluate.metrics import main_metric, measured
from ragforge.evaluate.summary import (
    Unsearchable,
    by_cut,
    differing,
    facts,
    hidden,
    imperfect,
    unsearchable,
    wanted_by,
    why_not,
    why_unnamed,
)
from ragforge.interfaces.cli.common import Common, command, path_of
from ragforge.interfaces.cli.files import SOME_FAILED
from ragforge.interfaces.cli.output import (
    Column,
    ago,
    count,
    one_line,
    paint,
    plain,
    print_data,
    print_json,
    print_table,
    say,
)
from ragforge.interfaces.cli.progress import meter
from ragforge.interfaces.cli.stop import STOPPED, stoppable
from ragforge.interfaces.cli.tuning import Tune, tuning_options

BELOW_GATE = 1
_ID_LENGTH = 8
_SHOWN = 10
_FAILURES_SHOWN = 5
_NAMES_SHOWN = 5
_SETTINGS_SHOWN = ("k", "fusion", "alpha", "embedder")
_FAILED = (Outcome.FAILED, Outcome.QUARANTINED)

Html = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", parser=path_of, help="Also write a page with charts")
]
Name = Annotated[str, typer.Argument(metavar="RUN", help="Id of a run, its beginning, its label, or last")]
Rows = Annotated[int, typer.Option("--questions", min=0, metavar="N", help="Questions to list")]


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Measure how well the right documents are found.", no_args_is_help=True)
    command(group, "import")(import_questions)
    command(group, "run")(run)
    command(group, "ls")(list_runs)
    command(group, "show")(show)
    command(group, "compare")(compare)
    app.add_typer(group, name="eval")


# -- import


def import_questions(
    common: Common,
    path: Annotated[
        Path, typer.Argument(metavar="PATH", parser=path_of, help="A .jsonl or .csv file, or a BEIR folder")
    ],
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Name of the set [default: the file's]")] = "",
    split: Annotated[str, typer.Option("--split", metavar="NAME", help="Which qrels/NAME.tsv of a BEIR folder")] = "",
    corpus: Annotated[
        Path | None,
        typer.Option("--corpus", metavar="FILE", parser=path_of, help="Documents to add, as corpus.jsonl of BEIR"),
    ] = None,
    with_corpus: Annotated[
        bool, typer.Option("--with-corpus/--no-corpus", help="Add the documents that come with the questions")
    ] = True,
    documents: Annotated[
        Path | None,
        typer.Option(
            "--documents",
            metavar="FOLDER",
            parser=path_of,
            help="Where their files are written [default: NAME-documents in the current folder]",
        ),
    ] = None,
) -> None:
    """Import questions whose documents are known, and the documents that come with them.

    All lines are good or nothing is imported. Importing the same again changes nothing.
    """
    report: ImportReport | None = None
    failures: list[FileResult] = []
    with (
        common.open(create=True) as forge,
        meter(quiet=common.quiet, lines_on_stdout=common.json) as shown,
        stoppable(lambda: None if common.quiet else shown.say("Stopping. What is ready stays.")) as cancel,
        suppress(Cancelled),
    ):
        for event in forge.importing_questions(
            path,
            project=common.project_name,
            name=name,
            split=split,
            corpus=corpus,
            with_corpus=with_corpus,
            documents=documents,
            cancel=cancel,
        ):
            if isinstance(event, Progress):
                shown.show(event)
            elif isinstance(event, ImportReport):
                report = event
            elif event.outcome in _FAILED and len(failures) < _FAILURES_SHOWN:
                failures.append(event)
    if report is None:
        raise typer.Exit(STOPPED)
    if common.json:
        print_json({"import": report})
    else:
        for failure in failures:
            say(f"{paint('failed', 'red')} {plain(failure.path)}: {one_line(failure.message)}")
        common.say(_imported(report))
    if failures:
        raise typer.Exit(SOME_FAILED)


def _imported(report: ImportReport) -> str:
    questions = report.questions
    said = f"{count(questions.questions, 'question')} as {plain(questions.name)}, {questions.judged:,} to judge by"
    if report.left_out:
        said += f"; {report.left_out:,} of another split left out"
    parts = [f"{number:,} {outcome}" for outcome in Outcome if (number := report.documents.get(outcome, 0))]
    parts += [f"{report.empty:,} without text"] if report.empty else []
    documents = f". Documents in {plain(questions.folder)}: {', '.join(parts)}" if parts else ""
    return f"{'Imported' if report.changed else 'Nothing new:'} {said}{documents}"


# -- run


@dataclass(frozen=True, slots=True)
class Gate:
    """The least a metric must reach."""

    metric: str
    least: float

    @classmethod
    def parse(cls, text: str) -> Gate:
        metric, _, value = text.partition("=")
        try:
            least = float(value)
        except ValueError:
            least = math.nan
        metric = metric.strip().lower()
        if math.isnan(least):
            raise UserError(f"--fail-under {plain(text)} has no number", hint="write --fail-under ndcg@10=0.7")
        if not 0 <= least <= 1:
            part = least / 100 if 1 < least <= 100 else 0.7
            hint = f"write --fail-under {plain(metric)}={part:g}"
            raise UserError(f"--fail-under {plain(text)}: metrics lie between 0 and 1", hint=hint)
        return cls(metric, least)

    def result(self, run: Run) -> dict[str, Any]:
        value = run.metrics[self.metric]
        return {"metric": self.metric, "least": self.least, "value": value, "met": value >= self.least}


@tuning_options
def run(
    common: Common,
    questions: Annotated[str, typer.Argument(metavar="SET", help="Name of a set of questions")],
    tune: Tune,
    label: Annotated[str, typer.Option("--label", metavar="TEXT", help="What is tried, for the list of runs")] = "",
    fail_under: Annotated[
        list[str] | None,
        typer.Option("--fail-under", metavar="METRIC=VALUE", help="End with 1 if a metric is lower; may be repeated"),
    ] = None,
) -> None:
    """Search for every question of a set, measure what was found, and keep the run."""
    gates = [Gate.parse(text) for text in fail_under or ()]
    done: Run | None = None
    with (
        common.open() as forge,
        meter(quiet=common.quiet, lines_on_stdout=False, unit="questions") as shown,
        stoppable(lambda: None if common.quiet else shown.say("Stopping. Nothing is kept of this run.")) as cancel,
        suppress(Cancelled),
    ):
        tuning = tune(forge.tuning())
        _require_metrics(gates, tuning.k)
        project = common.project_in(forge)
        for event in forge.evaluating(questions, project=project, tuning=tuning, label=label, cancel=cancel):
            if isinstance(event, Run):
                done = event
                details = forge.evaluation(done.id, project=project)
                cannot = unsearchable(details, forge.documents(project=project))
            else:
                shown.show(event)
    if done is None:
        raise typer.Exit(STOPPED)
    results = [gate.result(done) for gate in gates]
    if common.json:
        print_json({"run": done, "gates": results, "unsearchable": cannot})
    else:
        _print_run(details, cannot)
        for result in results:
            _say_gate(result)
        if short := next((each for each in details.results if each.degraded), None):
            common.say(f"Note: ragforge search {shlex.quote(one_line(short.text))} tells what was missing, and why")
        common.say(
            f"Kept as {done.id[:_ID_LENGTH]}. Next: ragforge eval show {done.id[:_ID_LENGTH]} --html report.html"
        )
    if not all(result["met"] for result in results):
        raise typer.Exit(BELOW_GATE)


def _require_metrics(gates: Sequence[Gate], k: int) -> None:
    """Gates are of metrics that a run with this k has."""
    known = measured([], {}, k)
    for gate in gates:
        if gate.metric not in known:
            kind, _, cut = gate.metric.partition("@")
            is_cut = f"{kind}@1" in known and re.fullmatch("[1-9][0-9]*", cut)
            other = f"--k {cut} measures {gate.metric}; " if is_cut else ""
            raise UserError(
                f"a run with k {k} has no metric {plain(gate.metric)!r}", hint=f"{other}use one of: {', '.join(known)}"
            )


def _say_gate(result: dict[str, Any]) -> None:
    mark = paint("✓", "green") if result["met"] else paint("✗", "red")
    relation = "reaches" if result["met"] else "is under"
    print_data(f"{mark} {result['metric']} {result['value']:.4f} {relation} {result['least']:g}")


def _print_run(details: RunDetails, cannot: Unsearchable) -> None:
    """The metrics as a table: one row for each kind, one column for each cut."""
    run = details.run
    head = [run.id[:_ID_LENGTH], run.questions, run.label]
    print_data(paint("  ".join(plain(part) for part in head if part), "bold"))
    cuts, kinds = by_cut(run.metrics)
    columns = [Column("metric"), *(Column(f"@{cut}", align_right=True) for cut in cuts)]
    print_table(columns, [[kind, *values] for kind, values in kinds.items()])
    print_data(f"{', '.join(facts(details, cannot))}; {run.milliseconds:.1f} ms each")
    print_data(_settings(run))


def _settings(run: Run) -> str:
    """What a reader asks for first, and whatever is not as usual."""
    usual = asdict(Tuning())
    shown = [
        f"{name.replace('_', ' ')} {value}"
        for name, value in run.settings.items()
        if name in _SETTINGS_SHOWN or (name in usual and value != usual[name])
    ]
    return paint(plain(", ".join(shown)), "dim")


# -- what is kept


def list_runs(common: Common) -> None:
    """List the sets of questions and the runs over them, newest first."""
    with common.open() as forge:
        project = common.project_in(forge)
        sets, runs = forge.question_sets(project=project), forge.evaluations(project=project)
    if common.json:
        print_json({"sets": sets, "runs": runs})
        return
    if not sets:
        common.say("No questions yet. Next: ragforge eval import FILE")
        return
    print_table(
        (Column("set"), Column("questions", align_right=True), Column("judged", align_right=True), Column("imported")),
        [[s.name, f"{s.questions:,}", f"{s.judged:,}", ago(s.updated_at)] for s in sets],
    )
    if runs:
        print_data()
        _print_runs(runs)


def _print_runs(runs: Sequence[Run]) -> None:
    columns = (
        Column("run"),
        Column("set", least=8),
        Column("label", least=8, most=40),
        Column("metric", align_right=True),
        Column("value", align_right=True),
        Column("mrr", align_right=True, dropped=True),
        Column("ms", align_right=True, dropped=True),
        Column("settings", dropped=True),
        Column("when", align_right=True, dropped=True),
    )
    rows = []
    for each in runs:
        main = main_metric(each.metrics)
        values = [f"{each.metrics[name]:.4f}" if name in each.metrics else "" for name in (main, "mrr")]
        facts = [f"{each.milliseconds:.1f}", each.settings_hash, ago(each.ended_at)]
        rows.append([each.id[:_ID_LENGTH], each.questions, each.label, main, *values, *facts])
    print_table(columns, rows)


def show(
    common: Common,
    name: Name,
    against: Annotated[
        str, typer.Option("--against", metavar="RUN", help="Set beside it on the page: an older run")
    ] = "",
    html: Html = None,
    questions: Rows = _SHOWN,
) -> None:
    """Show a run: its metrics, its settings, and the questions that went worst."""
    if against and not html:
        raise UserError("--against needs --html FILE", hint=f"ragforge eval compare {plain(against)} {plain(name)}")
    with common.open() as forge:
        project = common.project_in(forge)
        details = forge.evaluation(name, project=project)
        cannot = unsearchable(details, forge.documents(project=project))
        if html:
            comparison = forge.compare_evaluations(against, details.run.id, project=project) if against else None
            _write_page(common, html, details, comparison, cannot)
    note = hidden(details)
    if common.json:
        print_json({"run": details.run, "results": details.results, "unsearchable": cannot, "note": note})
        return
    _print_run(details, cannot)
    worst = imperfect(details)[:questions]
    if worst:
        print_data()
        print_data(paint("went worst", "bold"))
    for result in worst:
        _print_question(result, main_metric(result.metrics), cannot)
    if note:
        common.say(f"Note: {note}")


def _print_question(result: QuestionResult, main: str, cannot: Unsearchable) -> None:
    print_data(f"{result.metrics[main]:.2f}  {one_line(result.text)}")
    wanted = [_noted(item.name, why_not(item, cannot)) for item in wanted_by(result)]
    found = list(dict.fromkeys(_noted(passage.name, why_unnamed(passage)) for passage in result.found))
    print_data(paint(f"      wanted  {_some(wanted)}", "dim"))
    print_data(paint(f"      found   {_some(found) or 'nothing'}", "dim"))


def _noted(name: str, note: str) -> str:
    return " ".join(part for part in (name, f"({note})" if note else "") if part)


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES_SHOWN:,} more" if len(names) > _NAMES_SHOWN else ""
    return plain(", ".join(names[:_NAMES_SHOWN])) + more


# -- compare


def compare(
    common: Common,
    before: Annotated[str, typer.Argument(metavar="BEFORE", help="A run: id, its beginning, label, or last")],
    after: Annotated[str, typer.Argument(metavar="AFTER", help="The run to set against it")],
    html: Html = None,
    questions: Rows = _SHOWN,
) -> None:
    """Compare two runs over the same questions: what changed, by how much, and whether it could be chance.

    Differences are AFTER minus BEFORE. p comes from a paired randomisation test, the interval from a bootstrap.
    """
    with common.open() as forge:
        project = common.project_in(forge)
        comparison = forge.compare_evaluations(before, after, project=project)
        if html:
            details = forge.evaluation(comparison.after.id, project=project)
            cannot = unsearchable(details, forge.documents(project=project))
            _write_page(common, html, details, comparison, cannot)
    if common.json:
        print_json({"comparison": comparison})
    else:
        _print_comparison(common, comparison, questions)


def _print_comparison(common: Common, comparison: Comparison, questions: int) -> None:
    columns = (
        Column("metric"),
        Column("before", align_right=True),
        Column("after", align_right=True),
        Column("change", align_right=True),
        Column("95 % interval", align_right=True, dropped=True),
        Column("p", align_right=True),
        Column("better", align_right=True),
        Column("worse", align_right=True),
        Column("same", align_right=True, dropped=True),
    )
    rows = [
        [
            change.metric,
            f"{change.before:.4f}",
            f"{change.after:.4f}",
            f"{change.difference:+.4f}",
            f"{change.low:+.4f} to {change.high:+.4f}",
            f"{change.p:.4f}",
            f"{change.wins:,}",
            f"{change.losses:,}",
            f"{change.ties:,}",
        ]
        for change in comparison.metrics
    ]
    colours = [
        "" if not change.significant else "green" if change.difference > 0 else "red" for change in comparison.metrics
    ]
    names = " -> ".join(plain(run.label or run.id[:_ID_LENGTH]) for run in (comparison.before, comparison.after))
    print_data(paint(f"{names}  {plain(comparison.before.questions)}", "bold"))
    tried = differing(comparison.before.settings, comparison.after.settings)
    print_data(paint(plain(", ".join(f"{name} {old} -> {new}" for name, old, new in tried) or "same settings"), "dim"))
    print_table(columns, rows, colours)
    if changed := comparison.changed[:questions]:
        print_data()
        print_data(paint(f"changed most, by {comparison.main}", "bold"))
        for change in changed:
            print_data(f"{change.difference:+.2f}  {change.before:.2f} -> {change.after:.2f}  {one_line(change.text)}")
    if comparison.notice:
        common.say(f"Note: {one_line(comparison.notice)}")


def _write_page(
    common: Common, file: Path, details: RunDetails, comparison: Comparison | None, cannot: Unsearchable
) -> None:
    from ragforge.evaluate.report import page

    try:
        file.write_text(page(details, comparison, cannot), encoding="utf-8")
    except OSError as problem:
        raise UserError(f"cannot write {plain(str(file))}: {problem.strerror}", hint="choose another file") from problem
    common.say(f"Wrote {plain(str(file))}")
