"""A run, alone or against an older one, as one HTML page: no scripts, nothing from elsewhere, light and dark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from ragforge.domain.evaluation import (
    AnswerResult,
    Comparison,
    FoundPassage,
    MetricChange,
    QuestionResult,
    Run,
    RunDetails,
)
from ragforge.evaluate.answers import AMOUNTS, LESS_IS_BETTER, verdict
from ragforge.evaluate.charts import Bar, bars, delta_bars, score_histogram, time_histogram
from ragforge.evaluate.metrics import main_metric, quantile
from ragforge.evaluate.summary import (
    Unsearchable,
    amount,
    answer_facts,
    answered_worst,
    asked_by,
    by_cut,
    counted,
    differing,
    doubts_of,
    facts,
    hidden,
    imperfect,
    scores_of,
    shown,
    telling,
    wanted_by,
    why_not,
    why_unnamed,
)

_WORST = 25
_CHANGED = 25
_TITLES = {
    "ndcg": "nDCG",
    "recall": "Recall",
    "precision": "Precision",
    "hit": "Hit rate",
    "mrr": "MRR",
    "answer_hit": "Answer hit",
    "citation_precision": "Citation precision",
    "false_answers": "False answers",
    "false_abstentions": "False abstentions",
    "answer_ms": "Time, ms",
}


def page(details: RunDetails, comparison: Comparison | None = None, cannot: Unsearchable | None = None) -> str:
    """The whole page. `comparison` is of an older run with this one; `cannot` tells why documents cannot be found."""
    run, cannot = details.run, cannot or {}
    main = main_metric(run.metrics)
    judged = [result for result in details.results if result.metrics]
    body = "\n".join(
        (
            _head(details, comparison, cannot),
            _tiles(run, main, comparison),
            _charts(details, judged, main, comparison),
            _significance(comparison),
            _changed(comparison),
            _changed_answers(comparison),
            _worst(details, main, cannot),
            _answers(details),
            _all_metrics(details),
            _settings(run),
        )
    )
    title = escape(f"{run.questions} · {run.label or run.id[:8]}")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{_STYLE}</style>
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"""


def _charts(details: RunDetails, judged: Sequence[QuestionResult], main: str, comparison: Comparison | None) -> str:
    return _grid(
        *_found_charts(details.run, judged, main, comparison),
        *_answer_chart(details.run, comparison),
        *_delta_chart(comparison),
        _times("Time per search, ms", [result.milliseconds for result in details.results]),
        *_answer_times(details),
    )


def _found_charts(
    run: Run, judged: Sequence[QuestionResult], main: str, comparison: Comparison | None
) -> Iterable[tuple[str, str, str]]:
    if not judged:
        return
    before = {change.metric: change.before for change in comparison.metrics} if comparison else {}
    rows = [Bar(_title(name), run.metrics[name], before.get(name)) for name in _at_main_cut(run, main)]
    yield "Metrics", _legend(comparison), bars("Metrics of the run", rows)
    yield (
        f"Questions by {_title(main)}",
        f"{counted(len(judged), 'judged question')}; further right is better",
        score_histogram("Questions by score", [result.metrics[main] for result in judged]),
    )


def _legend(comparison: Comparison | None) -> str:
    return "wide: this run; thin: the older one" if comparison else "1 is perfect"


def _answer_chart(run: Run, comparison: Comparison | None) -> Iterable[tuple[str, str, str]]:
    """Shares that are better the higher they are."""
    before = {change.metric: change.before for change in comparison.answers} if comparison else {}
    rows = [Bar(_title(name), run.answers[name], before.get(name)) for name in _shares(run)]
    if rows:
        yield "Answers", _legend(comparison), bars("Metrics of the answers", rows)


def _shares(run: Run) -> list[str]:
    return [name for name in run.answers if name not in LESS_IS_BETTER]


def _times(title: str, times: Sequence[float]) -> tuple[str, str, str]:
    pace = f"half within {_milliseconds(quantile(times, 0.5))}, 95 % within {_milliseconds(quantile(times, 0.95))}"
    return title, pace, time_histogram("Milliseconds per question", times, quantile(times, 0.98))


def _answer_times(details: RunDetails) -> Iterable[tuple[str, str, str]]:
    answers = [result.answer.metrics for result in details.results if result.answer]
    if answers:
        yield _times("Time per answer, ms", [metrics["answer_ms"] for metrics in answers])


def _delta_chart(comparison: Comparison | None) -> Iterable[tuple[str, str, str]]:
    if comparison is None or not comparison.metrics:
        return
    deltas = [change.difference for change in comparison.changed]
    better = sum(delta > 0 for delta in deltas)
    caption = (
        f"{better:,} better, {len(deltas) - better:,} worse, {comparison.questions - len(deltas):,} the same; "
        "a bar is a question"
    )
    chart = delta_bars("Differences by question", deltas) if deltas else '<p class="none">No question changed.</p>'
    yield f"Change of {_title(comparison.main)}", caption, chart


def _grid(*figures: tuple[str, str, str]) -> str:
    each = (f"<figure><h2>{t}</h2>{chart}<figcaption>{c}</figcaption></figure>" for t, c, chart in figures)
    return f"<div class='charts'>{''.join(each)}</div>"


# -- words


def _head(details: RunDetails, comparison: Comparison | None, cannot: Unsearchable) -> str:
    run = details.run
    against = f" against {_named(comparison.before)}" if comparison else ""
    told = [f"run {run.id[:8]}", f"{run.ended_at:%Y-%m-%d %H:%M} UTC", *facts(details, cannot), *answer_facts(details)]
    notices = [notice for notice in (comparison.notice if comparison else "", hidden(details)) if notice]
    return (
        f"<header><p class='kicker'>Evaluation of {escape(run.questions)}</p><h1>{_named(run)}{against}</h1>"
        f"<p class='facts'>{escape(' · '.join(told))}</p>{_tried(comparison)}"
        f"{''.join(f'<p class=notice>{escape(notice)}</p>' for notice in notices)}</header>"
    )


def _tried(comparison: Comparison | None) -> str:
    """The settings in which this run differs from the older one."""
    if comparison is None:
        return ""
    changes = differing(comparison.before.settings, comparison.after.settings)
    told = [f"{escape(name)} {escape(old)} → {escape(new)}" for name, old, new in changes]
    return f"<p class='facts'>{' · '.join(f'<bdi>{each}</bdi>' for each in told) or 'same settings'}</p>"


def _named(run: Run) -> str:
    return f"<bdi>{escape(run.label or run.id[:8])}</bdi>"


def _tiles(run: Run, main: str, comparison: Comparison | None) -> str:
    changes = {change.metric: change for change in (*comparison.metrics, *comparison.answers)} if comparison else {}
    tiles = []
    for name, value in [
        *((name, run.metrics[name]) for name in _at_main_cut(run, main)),
        *((name, run.answers[name]) for name in _shares(run)),
    ]:
        change = changes.get(name)
        note = f"{_change(change, 3)} <small>p {_p(change.p)}</small>" if change else ""
        tiles.append(f"<div><b>{value:.3f}</b><span>{_title(name)}</span><em>{note}</em></div>")
    return f"<section class='tiles'>{''.join(tiles)}</section>"


def _at_main_cut(run: Run, main: str) -> list[str]:
    """The metrics at the main one's cut, and those without a cut."""
    cut = main.partition("@")[2]
    return [name for name in run.metrics if name.partition("@")[2] in ("", cut)]


def _title(metric: str) -> str:
    kind, _, cut = metric.partition("@")
    return escape(f"{_TITLES.get(kind, kind.capitalize())}{f'@{cut}' if cut else ''}")


def _signed(value: float, digits: int) -> str:
    text = f"{value:+.{digits}f}"
    return text[1:] if float(text) == 0 else text.replace("-", "−")


def _change(change: MetricChange, digits: int = 4) -> str:
    """A difference; coloured as better or worse if it can be trusted."""
    kind = "" if not change.significant else "better" if change.improves else "worse"
    return f"<span class='{kind}'>{_difference(change.metric, change.difference, digits)}</span>"


def _difference(metric: str, value: float, digits: int = 4) -> str:
    return amount(metric, value, signed=True).replace("-", "−") if metric in AMOUNTS else _signed(value, digits)


def _p(p: float) -> str:
    return "&lt; 0.001" if p < 0.001 else f"{p:.3f}"


def _milliseconds(value: float) -> str:
    return f"{value:.0f} ms" if value >= 10 else f"{value:.1f} ms"


# -- tables


def _significance(comparison: Comparison | None) -> str:
    if comparison is None:
        return ""
    cut = comparison.main.partition("@")[2]
    main = [change for change in comparison.metrics if change.metric.partition("@")[2] in ("", cut)]
    rest = [change for change in comparison.metrics if change not in main]
    more = f"<details><summary>At other cuts</summary>{_change_table(rest)}</details>" if rest else ""
    coloured = "coloured where chance is unlikely (p below 0.05)."
    tables = ""
    if main:
        lead = f"Over {counted(comparison.questions, 'question')}; {coloured}"
        tables = _section("Is it more than chance?", lead, _change_table(main) + more)
    if comparison.answers:
        lead = f"Each over the questions where both runs have it; {coloured}"
        tables += _section("Answers: is it more than chance?", lead, _change_table(comparison.answers))
    return tables


def _change_table(changes: Sequence[MetricChange]) -> str:
    rows = [
        [
            _title(change.metric),
            amount(change.metric, change.before),
            amount(change.metric, change.after),
            _change(change),
            f"{_difference(change.metric, change.low)} to {_difference(change.metric, change.high)}",
            _p(change.p),
            f"{change.wins:,} / {change.losses:,} / {change.ties:,}",
        ]
        for change in changes
    ]
    heads = ("Metric", "Before", "After", "Change", "95 % interval", "p", "Better / worse / same")
    return _table(heads, rows, "numbers")


def _changed(comparison: Comparison | None) -> str:
    if comparison is None or not comparison.changed:
        return ""
    rows = [
        [
            f"<span class='{'better' if change.difference > 0 else 'worse'}'>{_signed(change.difference, 2)}</span>",
            f"<span class='whole'>{change.before:.2f} → {change.after:.2f}</span>",
            _text(change.text),
        ]
        for change in comparison.changed[:_CHANGED]
    ]
    lead = f"{_part(len(rows), len(comparison.changed))}, by {_title(comparison.main)}; most changed first."
    return _section("Questions that changed", lead, _table(("Change", "", "Question"), rows))


def _changed_answers(comparison: Comparison | None) -> str:
    if comparison is None or not comparison.changed_answers:
        return ""
    rows = [
        [f"<span class='whole'>{escape(change.before)} → {escape(change.after)}</span>", _text(change.text)]
        for change in comparison.changed_answers[:_CHANGED]
    ]
    lead = f"{_part(len(rows), len(comparison.changed_answers))}; the losses first."
    return _section("Answers that changed", lead, _table(("Change", "Question"), rows))


def _part(shown: int, all: int) -> str:
    return f"The first {shown} of {all:,}" if shown < all else f"All {all:,}" if all > 1 else "The only one"


def _worst(details: RunDetails, main: str, cannot: Unsearchable) -> str:
    title, all = "Questions that went worst", imperfect(details)
    if not main:
        return ""
    if not all:
        return _section(title, "None: every question found all it wanted, in the best order.", "")
    rows = [[f"{r.metrics[main]:.2f}", _text(r.text), _wanted(r, cannot), _found(r)] for r in all[:_WORST]]
    lead = f"{_part(len(rows), len(all))} that could have gone better, worst first. A tick marks what was wanted."
    return _section(title, lead, _table((_title(main), "Question", "Wanted", "Found"), rows))


def _wanted(result: QuestionResult, cannot: Unsearchable) -> str:
    found = {passage.document for passage in result.found} | {passage.chunk for passage in result.found}
    items = [
        f"{'✓ ' if wanted.found_as in found else ''}{_text(wanted.name)}{_small(why_not(wanted, cannot))}"
        for wanted in wanted_by(result)
    ]
    return _list(items, 4)


def _found(result: QuestionResult) -> str:
    wanted = {item.found_as for item in result.wanted if item.grade > 0}
    best: dict[str, FoundPassage] = {}
    for passage in result.found:
        best.setdefault(passage.document, passage)
    items = [
        f"{'✓ ' if wanted & {passage.document, passage.chunk} else ''}{_text(passage.name)}"
        f"{_small(why_unnamed(passage))}{_small(f'{passage.score:.2f}' if passage.document else '')}"
        for passage in best.values()
    ]
    return _list(items, 4) if items else "<small>nothing</small>"


def _small(note: str) -> str:
    return f" <small>{note}</small>" if note else ""


def _list(items: Sequence[str], most: int) -> str:
    more = [f"<small>and {len(items) - most:,} more</small>"] if len(items) > most else []
    return "<br>".join([*items[:most], *more])


def _answers(details: RunDetails) -> str:
    """What was answered, the worst first."""
    all = answered_worst(details)
    if not all:
        return ""
    rows = [[escape(verdict(a).words), _text(result.text), _said(a), _cited(a)] for result, a in all[:_WORST]]
    lead = f"{_part(len(rows), len(all))}, the worst first. A tick marks a passage that bears its sentence out."
    return _section("Answers", lead, _table(("", "Question", "Answer", "Cited"), rows))


def _said(answer: AnswerResult) -> str:
    notes = [f"expected {_text(' | '.join(answer.expected))}"] if answer.expected else []
    if scores := scores_of(answer):
        notes += [f"judge: {scores}", *map(_text, doubts_of(answer))]
    elif answer.unjudged:
        notes.append(f"not judged: {_text(answer.unjudged)}")
    return "<br>".join([_text(answer.text or "not shown"), *(f"<small>{note}</small>" for note in notes)])


def _cited(answer: AnswerResult) -> str:
    items = [f"{'✓ ' if p.proved else ''}{_text(p.name)}{_small(why_unnamed(p))}" for p in answer.cited]
    return _list(list(dict.fromkeys(items)), 4) if items else "<small>nothing</small>"


def _all_metrics(details: RunDetails) -> str:
    run, tables = details.run, ""
    if run.metrics:
        cuts, kinds = by_cut(run.metrics)
        rows = [[_title(kind), *values] for kind, values in kinds.items()]
        tables = _table(["", *(f"@{cut}" for cut in cuts)], rows, "numbers")
    if answers := telling(run):
        asked = asked_by(details)
        rows = [[_title(name), amount(name, value), f"{asked[name]:,}"] for name, value in answers.items()]
        tables += _table(("Answers", "Mean", "Questions"), rows, "numbers")
    return _section("All metrics", "", tables)


def _settings(run: Run) -> str:
    rows = [
        f"<dt>{escape(name.replace('_', ' '))}</dt><dd>{escape(shown(value))}</dd>"
        for name, value in run.settings.items()
    ]
    return _section("Settings", f"Fingerprint {escape(run.settings_hash)}", f"<dl>{''.join(rows)}</dl>")


def _section(title: str, lead: str, body: str) -> str:
    return f"<section><h2>{title}</h2>{f'<p class=lead>{lead}</p>' if lead else ''}{body}</section>"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "texts") -> str:
    """Cells are HTML. On a narrow screen each row becomes a block, its cells labelled."""
    head = "".join(f"<th>{name}</th>" for name in heads)
    body = "".join(
        f"<tr>{''.join(_cell(name, cell) for name, cell in zip(heads, row, strict=False))}</tr>" for row in rows
    )
    return (
        f"<div class='scroll'><table class='{kind}'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _cell(name: str, cell: str) -> str:
    return f"<td data-name='{name}'>{cell}</td>"


def _text(text: str) -> str:
    """Text of people: escaped, shortened, and kept from turning the reading direction of what follows."""
    short = text if len(text) <= 280 else text[:279] + "…"
    return f"<bdi>{escape(short)}</bdi>"


_STYLE = """
:root {
  --paper: #faf9f7; --card: #ffffff; --ink: #22272e; --soft: #6b7280; --line: #e6e3dd;
  --this: #3d6f9e; --other: #b9c6d3; --track: #f1efeb;
  --up: #3f8a6d; --down: #c0704a; --better: #2c7357; --worse: #a9552f;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #16191d; --card: #1d2126; --ink: #e3e6ea; --soft: #98a1ac; --line: #2d333a;
    --this: #6fa3d2; --other: #47596b; --track: #262b31;
    --up: #5fb28f; --down: #d68a63; --better: #74c7a4; --worse: #e09b76;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
}
main { max-width: 1040px; margin: 0 auto; padding: 40px 20px 64px; }
h1 { font-size: 1.75rem; line-height: 1.25; font-weight: 650; margin: 0 0 .4rem; letter-spacing: -.01em; }
h2 { font-size: 1.02rem; font-weight: 650; margin: 0 0 .5rem; }
.kicker { color: var(--soft); margin: 0 0 .3rem; }
.facts, .lead, figcaption { color: var(--soft); font-size: .9rem; margin: 0; }
.lead { margin-bottom: .8rem; }
.notice { border-left: 3px solid var(--down); padding-left: .8rem; margin: 1rem 0 0; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(128px, 1fr)); gap: 12px; margin: 28px 0 12px; }
.tiles div, figure, section:not(.tiles) {
  background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 16px 18px;
}
.tiles b { display: block; font-size: 1.6rem; font-weight: 650; font-variant-numeric: tabular-nums; line-height: 1.2; }
.tiles span { color: var(--soft); font-size: .9rem; }
.tiles em { display: block; font-style: normal; font-size: .9rem; }
.tiles .better, .better { color: var(--better); } .tiles .worse, .worse { color: var(--worse); }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 400px), 1fr)); gap: 12px; }
figure { margin: 0; display: flex; flex-direction: column; }
figure svg { width: 100%; height: auto; margin: auto 0; }
figcaption { margin-top: .5rem; }
.none { color: var(--soft); margin: auto; }
section:not(.tiles) { margin-top: 12px; }
svg text { fill: var(--soft); font-size: 11px; font-variant-numeric: tabular-nums; }
svg .name, svg .value { fill: var(--ink); font-size: 12.5px; }
svg .this { fill: var(--this); } svg .other { fill: var(--other); } svg .track { fill: var(--track); }
svg .up { fill: var(--up); } svg .down { fill: var(--down); }
svg .grid { stroke: var(--line); } svg .axis { stroke: var(--soft); stroke-opacity: .5; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th { text-align: left; font-weight: 600; color: var(--soft); }
th, td { padding: 7px 14px 7px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
tbody tr:last-child td { border-bottom: 0; }
td { overflow-wrap: anywhere; }
table.texts td:first-child, table.numbers :is(th, td) { font-variant-numeric: tabular-nums; white-space: nowrap; }
table.numbers th:not(:first-child), table.numbers td:not(:first-child) { text-align: right; }
table.texts td:nth-last-child(-n+2):not(:nth-child(2)) { min-width: 11rem; }
summary { color: var(--soft); font-size: .9rem; cursor: pointer; padding-top: .7rem; }
.whole { white-space: nowrap; }
small { color: var(--soft); }
.tiles small { white-space: nowrap; }
dl { display: grid; grid-template-columns: minmax(9rem, auto) 1fr; gap: 4px 16px; margin: 0; font-size: .9rem; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
@media (max-width: 640px) {
  main { padding: 24px 14px 48px; }
  h1 { font-size: 1.4rem; }
  table.texts thead { display: none; }
  table.texts tr { display: block; padding: 10px 0; border-bottom: 1px solid var(--line); }
  table.texts tbody tr:last-child { border-bottom: 0; }
  table.texts td { display: block; border: 0; padding: 2px 0; }
  table.texts td:first-child, table.texts td:has(.whole) { display: inline-block; margin-right: 12px; }
  table.texts td[data-name="Wanted"]::before, table.texts td[data-name="Found"]::before {
    content: attr(data-name); display: block; color: var(--soft); font-size: .8rem; margin-top: 4px;
  }
}
@media print { body { background: none; } figure, section { break-inside: avoid; } }
"""
