"""The page Evaluation: run a set of questions, see the runs side by side, compare two."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import streamlit as st

from ragforge.domain.access import Action
from ragforge.domain.evaluation import Comparison, ImportReport, MetricChange, QuestionSet, Run
from ragforge.errors import RagforgeError
from ragforge.evaluate.metrics import main_metric
from ragforge.evaluate.report import page
from ragforge.evaluate.summary import facts, imperfect, unsearchable
from ragforge.interfaces.ui.following import follow, jobs_of
from ragforge.interfaces.ui.look import chip, dim, empty, html, problem_text, quiet, table, told
from ragforge.interfaces.ui.session import Session, keep, kept
from ragforge.interfaces.words import ago, count

_MOST_METRICS = 6
_WORST = 10
_EXAMPLE = '{"question": "How long can I return a chair?", "documents": ["returns-and-refunds.md"]}'


def evaluation(session: Session) -> None:
    st.header("Evaluation", anchor=False)
    with told():
        forge = session.forge(Action.READ)
        jobs = jobs_of(session, "evaluate")
        sets = forge.question_sets(project=session.slug)
        runs = forge.evaluations(project=session.slug)
        if session.visitor.may(Action.WRITE):
            _bring(session, expanded=not sets)
            if sets:
                _start(session, sets)
        follow(session, jobs, "Asking the questions", lambda result: keep("run", result.get("run")))
        if not runs:
            empty(
                "No run yet" if sets else "No questions yet",
                "A run searches for every question of a set and measures whether the right files are found. Answers "
                "that you marked with a thumb up are in the set “feedback” already."
                if sets
                else "Bring a file of questions whose files you know, or mark answers in the chat with a thumb up: "
                "they become questions of the set “feedback”.",
            )
            return
        _runs(session, runs)
        _details(session, runs)


def _bring(session: Session, *, expanded: bool) -> None:
    with st.expander("Bring questions", icon=":material/upload_file:", expanded=expanded):
        st.markdown("A `.jsonl` or `.csv` file, one question in a line, with the files that hold its answer:")
        st.code(_EXAMPLE, language="json", wrap_lines=True)
        number = kept("questions_dropped", 0)
        file = st.file_uploader(
            "Questions", type=["jsonl", "csv"], key=f"questions-{number}", label_visibility="collapsed"
        )
        if file is not None:
            keep("questions_dropped", number + 1)
            _import(session, file)


def _import(session: Session, file: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        name = Path(file.name)
        path = Path(folder) / f"questions{name.suffix.lower()}"
        path.write_bytes(file.getbuffer())
        try:
            *_, report = session.forge(Action.WRITE).importing_questions(
                path, project=session.slug, name=name.stem, with_corpus=False
            )
        except RagforgeError as problem:
            keep("trouble", problem_text(problem))
            st.rerun()  # with an empty place for the next file
    assert isinstance(report, ImportReport)
    keep("toast", f"{count(report.questions.questions, 'question')} in the set {report.questions.name}.")
    st.rerun()


def _start(session: Session, sets: Sequence[QuestionSet]) -> None:
    by_name = {each.name: each for each in sets}
    with st.expander("Run", icon=":material/play_arrow:", expanded=True), st.form("evaluate"):
        left, right = st.columns(2)
        left.selectbox(
            "Questions", list(by_name), format_func=lambda each: f"{each} ({by_name[each].questions:,})", key="eval-set"
        )
        right.text_input("Label", placeholder="What you try, such as alpha 0.5", max_chars=100, key="eval-label")
        st.toggle(
            "Answer them, too", help="By the model of Control; else they are only searched for.", key="eval-answers"
        )
        alpha = session.choices.alpha
        dim(f"Ranking as under Control: {'as measured' if alpha is None else f'alpha {alpha:g}'}.")
        st.form_submit_button("Run", type="primary", on_click=_run, args=(session,))


def _run(session: Session) -> None:
    """Before the page is run: whatever interrupts that, the press is not lost."""
    used, given = session.choices, st.session_state
    payload = {
        "questions": given["eval-set"],
        "label": given["eval-label"],
        "answers": given["eval-answers"],
        "model": used.model,
        "judge": None,
        **({} if used.alpha is None else {"alpha": used.alpha}),
    }
    try:
        session.visitor.check_model(used.model)
        session.forge(Action.WRITE).enqueue("evaluate", payload, project=session.slug)
    except RagforgeError as problem:
        keep("trouble", problem_text(problem))


def _named(run: Run) -> str:
    return run.label or run.id[:8]


def _runs(session: Session, runs: Sequence[Run]) -> None:
    names = list(dict.fromkeys(run.questions for run in runs))
    chosen = names[0] if len(names) == 1 else st.selectbox("Of the questions", names)
    shown = [run for run in runs if run.questions == chosen]
    metrics = list(dict.fromkeys(name for run in shown for name in (*run.metrics, *run.answers)))
    main = main_metric(shown[0].metrics) if shown[0].metrics else ""
    picked = list(dict.fromkeys(([main] if main else []) + metrics))[:_MOST_METRICS]
    rows = [
        [
            escape(_named(run)),
            ago(run.started_at),
            f"{run.asked:,}",
            *(_value(run, name) for name in picked),
            f"{run.milliseconds:.0f} ms",
        ]
        for run in shown
    ]
    html(table(("Run", "When", "Asked", *picked, "Search"), rows, numbers=range(2, len(picked) + 4)))
    judged = [run for run in reversed(shown) if main in run.metrics]
    if len(judged) > 1:
        st.caption(f"{main}, run after run")
        st.bar_chart(
            {"run": [f"{place}. {_named(run)}" for place, run in enumerate(judged, 1)],
             main: [run.metrics[main] for run in judged]},
            x="run", y=main, horizontal=True, sort=False, height=60 + 44 * len(judged), x_label="", y_label="",
        )  # fmt: skip


def _value(run: Run, name: str) -> str:
    value = run.metrics.get(name, run.answers.get(name))
    return "–" if value is None else f"{value:.3f}"


def _details(session: Session, runs: Sequence[Run]) -> None:
    by_id = {run.id: run for run in runs}
    left, right = st.columns(2)
    if kept("run", None) not in by_id:
        keep("run", runs[0].id)
    key = "run-choice"
    st.session_state[key] = kept("run", None)
    left.selectbox(
        "Look into", list(by_id), key=key, format_func=lambda id: _titled(by_id[id]),
        on_change=lambda: keep("run", st.session_state[key]),
    )  # fmt: skip
    run = by_id[kept("run", None)]
    others = [each.id for each in runs if each.digest == run.digest and each.id != run.id]
    before = right.selectbox(
        "Compare with", ["", *others], format_func=lambda id: _titled(by_id[id]) if id else "No other run",
        disabled=not others,
    )  # fmt: skip
    forge = session.forge(Action.READ)
    details = forge.evaluation(run.id, project=session.slug)
    cannot = unsearchable(details, forge.documents(project=session.slug))
    comparison = forge.compare_evaluations(before, run.id, project=session.slug) if before else None
    html("".join(chip(fact) for fact in facts(details, cannot)))
    if comparison is not None:
        _comparison(comparison)
    worst = imperfect(details)[:_WORST]
    if worst:
        st.subheader("Questions that went worst", anchor=False)
        main = main_metric(run.metrics)
        rows = [
            [
                escape(result.text),
                f"{result.metrics.get(main, 0.0):.2f}",
                "<br>".join(escape(each.name) for each in result.wanted if each.grade > 0),
                "<br>".join(escape(each.name or "(removed)") for each in result.found[:3]) or "nothing",
            ]
            for result in worst
        ]
        html(table(("Question", main, "Wanted", "Found first"), rows, numbers=(1,)))
    st.download_button(
        "Report as a web page",
        data=lambda: page(details, comparison, cannot),
        file_name=f"evaluation-{run.id[:8]}.html",
        mime="text/html",
        icon=":material/download:",
        on_click="ignore",
    )


def _titled(run: Run) -> str:
    return f"{_named(run)} · {run.questions}, {ago(run.started_at)}"


def _comparison(comparison: Comparison) -> None:
    st.subheader(f"Against {quiet(_named(comparison.before))}", anchor=False)
    if comparison.notice:
        dim(comparison.notice)
    changes = [*comparison.metrics, *comparison.answers]
    rows = [[escape(each.metric), f"{each.before:.3f}", f"{each.after:.3f}", _difference(each)] for each in changes]
    html(table(("Metric", "Before", "Now", "Difference"), rows, numbers=(1, 2)))
    if comparison.changed:
        rows = [[escape(each.text), f"{each.before:.2f}", f"{each.after:.2f}"] for each in comparison.changed[:_WORST]]
        html(table(("Question", "Before", "Now"), rows, numbers=(1, 2)))


def _difference(change: MetricChange) -> str:
    kind = "" if not change.significant else "ok" if change.improves else "no"
    chance = "" if change.significant else ", could be chance"
    return chip(f"{change.difference:+.3f} (p = {change.p:.2f}{chance})", kind)
