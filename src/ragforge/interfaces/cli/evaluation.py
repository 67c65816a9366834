"""`eval …`: how well the right documents are found and questions answered, run against run."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragforge.domain.cancel import Cancelled
from ragforge.domain.library import FileResult, Outcome, Progress
from ragforge.errors import UserError
from ragforge.interfaces.cli.common import Common, command, path_of
from ragforge.interfaces.cli.files import SOME_FAILED
from ragforge.interfaces.cli.output import Column, one_line, paint, plain, print_data, print_json, print_table, say
from ragforge.interfaces.cli.progress import meter
from ragforge.interfaces.cli.stop import STOPPED, stoppable
from ragforge.interfaces.cli.tuning import Tune, tuning_options
from ragforge.interfaces.words import ago, count

if TYPE_CHECKING:
    from ragforge.domain.evaluation import Comparison, ImportReport, Run, RunDetails
    from ragforge.evaluate.summary import Unsearchable

BELOW_GATE = 1
_SHOWN = 10
_FAILURES_SHOWN = 5
_FAILED = (Outcome.FAILED, Outcome.QUARANTINED)

Html = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", parser=path_of, help="Also write a page with charts")
]
Name = Annotated[str, typer.Argument(metavar="RUN", help="Id of a run, its beginning, its label, or last")]
Rows = Annotated[int, typer.Option("--questions", min=0, metavar="N", help="Questions to list")]


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        help="Measure how well the right documents are found and questions answered.", no_args_is_help=True
    )
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
    from ragforge.domain.evaluation import ImportReport

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
    answers: Annotated[
        bool, typer.Option("--answers", help="Answer every question too, and measure the answers")
    ] = False,
    model: Annotated[
        str,
        typer.Option(
            "--model", "-m", metavar="NAME", help="Who answers: provider:model, a profile, or offline to quote"
        ),
    ] = "",
    judge: Annotated[bool, typer.Option("--judge", help="Let a model judge each answer")] = False,
    judge_model: Annotated[
        str,
        typer.Option("--judge-model", metavar="NAME", help="Who judges [default: premium, else who answers]"),
    ] = "",
) -> None:
    """Search for every question of a set, measure what was found, and keep the run.

    With --answers each question is answered too. Only the run is kept of that: no turn, no line in the log.
    """
    from ragforge.domain.evaluation import Run
    from ragforge.evaluate.summary import unsearchable
    from ragforge.interfaces.cli.evaluated import ID_LENGTH, print_run, shortfall
    from ragforge.interfaces.cli.gates import Gate, print_gate, require_metrics

    gates = [Gate.parse(text) for text in fail_under or ()]
    judge = judge or bool(judge_model)
    _require_answers(answers, {"--model": bool(model), "--judge": judge})
    done: Run | None = None
    with (
        common.open() as forge,
        meter(quiet=common.quiet, lines_on_stdout=False, unit="questions") as shown,
        stoppable(lambda: None if common.quiet else shown.say("Stopping. Nothing is kept of this run.")) as cancel,
        suppress(Cancelled),
    ):
        tuning = tune(forge.tuning())
        project = common.project_in(forge)
        if gates:
            known = forge.questions(questions, project=project)
            require_metrics(gates, tuning.k, questions, known, answers=answers, judge=judge)
        for event in forge.evaluating(
            questions,
            project=project,
            tuning=tuning,
            label=label,
            answers=answers,
            model=model,
            judge=judge_model if judge else None,
            cancel=cancel,
        ):
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
        print_run(details, cannot)
        for result in results:
            print_gate(result)
        if note := shortfall(details):
            common.say(f"Note: {note}")
        common.say(f"Kept as {done.id[:ID_LENGTH]}. Next: ragforge eval show {done.id[:ID_LENGTH]} --html report.html")
    if not all(result["met"] for result in results):
        raise typer.Exit(BELOW_GATE)


def _require_answers(answers: bool, options: Mapping[str, bool]) -> None:
    """Answers may cost money, so that nothing but `--answers` asks for them."""
    if lone := [name for name, is_given in options.items() if is_given and not answers]:
        raise UserError(f"{lone[0]} needs --answers", hint="add --answers: every question is then answered too")


# -- what is kept


def list_runs(common: Common) -> None:
    """List the sets of questions and the runs over them, newest first."""
    from ragforge.interfaces.cli.evaluated import print_runs

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
        print_runs(runs)


def show(
    common: Common,
    name: Name,
    against: Annotated[
        str, typer.Option("--against", metavar="RUN", help="Set beside it on the page: an older run")
    ] = "",
    html: Html = None,
    questions: Rows = _SHOWN,
) -> None:
    """Show a run: its metrics, its settings, the questions that went worst, and the answers."""
    from ragforge.evaluate.summary import hidden, unsearchable
    from ragforge.interfaces.cli.evaluated import print_questions, print_run

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
    print_run(details, cannot)
    print_questions(details, cannot, questions)
    if note:
        common.say(f"Note: {note}")


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
    from ragforge.evaluate.summary import unsearchable
    from ragforge.interfaces.cli.evaluated import print_comparison

    with common.open() as forge:
        project = common.project_in(forge)
        comparison = forge.compare_evaluations(before, after, project=project)
        if html:
            details = forge.evaluation(comparison.after.id, project=project)
            cannot = unsearchable(details, forge.documents(project=project))
            _write_page(common, html, details, comparison, cannot)
    if common.json:
        print_json({"comparison": comparison})
        return
    print_comparison(comparison, questions)
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
