"""`explain`: the way of a question to its answer, and what other settings would have found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragforge.domain.answers import Prompted
from ragforge.domain.retrieval import ContextBlock, Passage, Stage, Trace, Tuning, Verdict
from ragforge.errors import UserError
from ragforge.interfaces.cli.common import Common, command
from ragforge.interfaces.cli.output import (
    Column,
    one_line,
    paint,
    plain,
    print_data,
    print_json,
    table,
    width_of_terminal,
    wrapped,
)
from ragforge.interfaces.cli.passages import files_of, remark, warn
from ragforge.interfaces.cli.search import (
    Agent,
    Files,
    MaxConfidentiality,
    Question,
    Since,
    Tags,
    Types,
    Until,
    filters_of,
)
from ragforge.interfaces.cli.tuning import Tune, tuning_options
from ragforge.interfaces.cli.why import (
    INDENT,
    LEAST_TITLE,
    print_fact,
    print_files,
    print_memory,
    print_notes,
    print_passage,
    print_prompt,
    print_question,
    print_timings,
    print_usage,
    stages_text,
    titled,
)
from ragforge.interfaces.explaining import explain_all
from ragforge.interfaces.fields.explained import ExplainedSearch, explanation_fields, read_sources
from ragforge.interfaces.words import count, evidence_text

if TYPE_CHECKING:
    from ragforge.app import Ragforge

_MOST_DROPPED = 5
"""Of one stage, unless all are wanted."""
_AS_MEASURED = -1
"""How the settings write that alpha is what was measured for the model."""
_NAMES = tuple(field.name for field in fields(Tuning))


def register(app: typer.Typer) -> None:
    command(app, "explain")(explain)


@tuning_options
def explain(
    common: Common,
    question: Question,
    tune: Tune,
    file: Files = None,
    source_type: Types = None,
    tag: Tags = None,
    agent: Agent = "",
    max_confidentiality: MaxConfidentiality = None,
    since: Since = None,
    until: Until = None,
    every: Annotated[bool, typer.Option("--all", help="Show every candidate, not only the best")] = False,
    vs: Annotated[
        list[str] | None,
        typer.Option("--vs", metavar="NAME=VALUE,…", help="Ask again with other settings; may be repeated"),
    ] = None,
    conversation: Annotated[
        str, typer.Option("--conversation", "-c", metavar="ID", help="As the next question of this one, or of the last")
    ] = "",
    model: Annotated[
        str, typer.Option("--model", "-m", metavar="NAME", help="Let this model judge and condense; it may cost")
    ] = "",
) -> None:
    """Show the way of a question: its words, every candidate's way, the context, and whether it would be answered.

    No language model is asked unless --model names one, and nothing is kept. With --vs, as in
    `--vs alpha=0.2 --vs fusion=rrf,reranker=cosine`, the places of the passages under each setting stand side by side.
    """
    asked = " ".join(question)
    changes = [(text, settings_of(common, text)) for text in vs or ()]
    with common.open() as forge:
        project = common.project_in(forge)
        filters = filters_of(common, forge, file, source_type, tag, agent, max_confidentiality, since, until)
        tuning = tune(forge.tuning())
        told = explain_all(
            forge,
            asked,
            project,
            filters=filters,
            tuning=tuning,
            conversation=conversation,
            model=model,
            changes=changes,
            kind=Explained,
        )
        first, replays, prompted = told.first, told.replays, told.prompted
        if common.json:
            print_json(explanation_fields(asked, first, replays, prompted))
            return
        print_question(prompted.account)
        print_files(prompted.account)
        print_memory(prompted.account)
        _print_words(first, is_measured=":" not in forge.project(project).embedder)
        if replays:
            _print_replays([first, *replays])
        else:
            if first.trace.candidates:
                _print_candidates(first, every=every)
                _print_context(first)
            _print_answer(forge, prompted, first, every=every)
        also = replace(first.retrieved, degraded=prompted.account.degraded)
        warn(common, *(each.retrieved for each in (first, *replays)), also)
        if notice := remark(first.retrieved):
            common.say(notice)


def settings_of(common: Common, text: str) -> dict[str, Any]:
    """Settings of a search as they are written: `alpha=0.2`, `fusion=rrf,k=5`."""
    from ragforge.settings import nearest

    given: dict[str, str] = {}
    for pair in text.split(","):
        written, is_pair, value = pair.partition("=")
        name = written.strip().replace("-", "_").removeprefix("search.")
        if name not in _NAMES:
            hint = f"did you mean {near}?" if (near := nearest(name, _NAMES)) else f"use one of: {', '.join(_NAMES)}"
            raise UserError(f"--vs: {plain(written.strip()) or 'nothing'} is not a setting of a search", hint=hint)
        if not is_pair:
            raise UserError(f"--vs: {plain(name)} has no value", hint=f"write it as --vs {name}=VALUE")
        given[name] = value.strip()
    try:
        chosen = common.settings({"--vs": {f"search.{name}": value for name, value in given.items()}}).search
    except UserError as error:
        told = error.message.removeprefix("flag --vs: search.")
        if told == error.message:
            raise
        hint = "it takes a number from 0 to 1" if told.startswith("alpha ") else error.hint
        raise UserError(f"--vs: {told}", hint=hint) from None
    values = {name: getattr(chosen, name) for name in given}
    return values | ({"alpha": None} if values.get("alpha") == _AS_MEASURED else {})


# -- what is told of one run


class Explained(ExplainedSearch):
    """A search with its trace, by chunk, in words."""

    @cached_property
    def files(self) -> Mapping[str, str]:
        """What to call the file of each candidate."""
        return files_of(self.trace.candidates)

    def place(self, chunk: str) -> str:
        """`3`, `(12)` beyond the passages that are shown, `–` if it was taken out or not a candidate."""
        number = self.places.get(chunk)
        return "–" if number is None else str(number) if number <= self.shown else f"({number})"

    def verdict(self, chunk: str) -> str:
        """What decided, and the cut to k, which is no stage."""
        decided = self.decided(chunk)
        told = f"{decided.stage}: {one_line(decided.reason)}"
        return f"beyond the best {self.shown}; {told}" if self.places.get(chunk, 0) > self.shown else told


# -- for people


def _print_words(explained: Explained, *, is_measured: bool) -> None:
    groups = [one_line(" or ".join(group)) for group in explained.trace.words.groups]
    print_fact("words", " · ".join(groups) or "none to look for")
    print_fact("settings", _settings(explained.trace, is_measured=is_measured))
    print_fact("indexes", _indexes(explained))


def _settings(trace: Trace, *, is_measured: bool) -> str:
    tuning = trace.tuning
    return ", ".join(
        (
            f"{tuning.keyword_candidates} candidates by words",
            f"{tuning.vector_candidates} by meaning",
            f"{tuning.fusion} (alpha {trace.alpha:g}{_origin(tuning, is_measured=is_measured)})",
            f"reranked by {one_line(tuning.reranker)}" if tuning.reranker else "not reranked",
            f"the best {tuning.k}",
        )
    )


def _origin(tuning: Tuning, *, is_measured: bool) -> str:
    """Where the share of meaning comes from, unless it was asked for."""
    if tuning.alpha is not None:
        return ""
    if tuning.fusion == "rrf":
        return ": both count the same"
    return ", measured for the model" if is_measured else ", the default: not measured for this model"


def _indexes(explained: Explained) -> str:
    behind, parts = explained.trace.behind, {missing.part for missing in explained.retrieved.degraded}
    missing = [f"the {part.removesuffix('s')} index is missing" for part in ("keywords", "vectors") if part in parts]
    lag = f"{count(behind, 'change')} behind the catalog; searched all the same" if behind else ""
    return "; ".join((*missing, lag) if lag else missing) or "up to date"


def _title(files: Mapping[str, str], passage: Passage | ContextBlock, room: int | None) -> str:
    return titled(files[passage.document], passage.locator, room)


def _numbers(names: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[str, list[str], int | None]:
    """Columns of numbers that passages are written beside: head and rows, and the cells left for a passage."""
    head, *lines = table([Column(name, align_right=True) for name in names], rows, None)
    width = width_of_terminal()
    room = None if width is None else max(LEAST_TITLE, width - len(head) - 2)
    return head, [f"{line:<{len(head)}}" for line in lines], room


def _print_candidates(explained: Explained, *, every: bool) -> None:
    trace, reranked = explained.trace, bool(explained.trace.tuning.reranker)
    near = {passage.chunk for passage in trace.near_misses}
    found = {passage.chunk for passage in explained.retrieved.passages}
    parts = (
        ("", [c for c in trace.candidates if c.chunk in found]),
        ("── near misses", [c for c in trace.candidates if c.chunk in near]),
        ("── others", [c for c in trace.candidates if c.chunk not in found | near]),
    )
    shown = parts[: None if every else 2]
    head, lines, room = _numbers(
        ("place", "words", "meaning", "fused", *(("rerank",) if reranked else ())),
        [_row(explained, candidate, reranked=reranked) for _, candidates in shown for candidate in candidates],
    )
    line = iter(lines)
    print_data()
    print_data(paint(f"{head}  PASSAGE", "bold"))
    for title, candidates in shown:
        if title and candidates:
            print_data(paint(f"{'':<{len(head)}}  {title}", "bold"))
        for candidate in candidates:
            print_data(f"{next(line)}  {_title(explained.files, candidate, room)}")
            print_data(paint(_below(explained.verdict(candidate.chunk), len(head) + 4), "dim"))
    if not every and (hidden := len(parts[2][1])):
        print_data(paint(f"{count(hidden, 'more candidate')}: --all", "dim"))


def _below(text: str, indent: int) -> str:
    """A text under a passage; one that is too long for that begins further left, and goes on below."""
    from rich.cells import cell_len

    if (width := width_of_terminal()) is not None:
        indent = min(indent, max(INDENT, width - cell_len(text)))
    return f"{'':<{indent}}{wrapped(text, indent)}"


def _row(explained: Explained, candidate: Passage, *, reranked: bool) -> list[str]:
    scores, fused = candidate.scores, explained.fused(candidate.chunk)
    rerank = f"{scores['rerank']:.2f}" if "rerank" in scores else "–"
    return [
        explained.place(candidate.chunk),
        _leg(candidate, "keywords", 1),
        _leg(candidate, "vectors", 2),
        "–" if fused is None else f"{fused:.2f}",
        *([rerank] if reranked else []),
    ]


def _leg(candidate: Passage, engine: str, digits: int) -> str:
    """Place and score in one engine's own list: `3: 7.9`; a score alone where only the other engine found it."""
    rank, score = candidate.ranks.get(engine), candidate.scores.get(engine)
    shown = "" if score is None else f"{score:.{digits}f}"
    return f"{rank}: {shown}" if rank else shown or "–"


def _print_context(explained: Explained) -> None:
    blocks, tuning = explained.retrieved.context, explained.trace.tuning
    width = width_of_terminal()
    tokens = sum(block.tokens for block in blocks)
    print_data()
    print_fact("context", f"{count(len(blocks), 'block')}, {tokens:,} of {count(tuning.context_tokens, 'token')}")
    for block in blocks:
        part = "the whole section" if block.whole else count(len(block.chunks), "chunk")
        start, end = f"{'':<{INDENT}}{block.tokens:>5,}  ", f" ({part})"
        room = None if width is None else max(LEAST_TITLE, width - len(start) - len(end))
        print_data(f"{start}{_title(explained.files, block, room)}{end}")


# -- other settings


def _print_replays(runs: Sequence[Explained]) -> None:
    """Each passage that any of the runs shows, with its place in each."""
    first, *others = runs
    names = [plain(run.label) for run in runs]
    width = width_of_terminal()
    if width is not None and sum(map(len, names)) > width // 2:
        names = [chr(ord("A") + number % 26) for number in range(len(runs))]
        for name, run in zip(names, runs, strict=True):
            print_fact(name, plain(run.label))
    passages = {passage.chunk: passage for run in runs for passage in run.retrieved.passages}
    files = files_of(passages.values())
    has_moved = {chunk: any(run.places.get(chunk) != first.places.get(chunk) for run in others) for chunk in passages}
    head, lines, room = _numbers(
        names, [[first.place(chunk), *(_moved(first, other, chunk) for other in others)] for chunk in passages]
    )
    print_data()
    print_data(paint(f"{head}  PASSAGE", "bold"))
    for line, (chunk, passage) in zip(lines, passages.items(), strict=True):
        shown = f"{line}  {_title(files, passage, room)}"
        print_data(shown if has_moved[chunk] else paint(shown, "dim"))
    print_data()
    print_fact("time", ", ".join(f"{run.retrieved.timings['total']:,.1f} ms" for run in runs))


def _moved(first: Explained, other: Explained, chunk: str) -> str:
    """The place, and where it came from: `2 ↑`."""
    before, now = first.places.get(chunk), other.places.get(chunk)
    if before == now:
        return f"{other.place(chunk)}  "
    is_better = before is None or (now is not None and now < before)
    return f"{other.place(chunk)} {'↑' if is_better else '↓'}"


# -- after the search


def _print_answer(forge: Ragforge, prompted: Prompted, explained: Explained, *, every: bool) -> None:
    """What the later stages did, and what would come of it."""
    account = prompted.account
    print_data()
    _print_stage(explained, [each for each in account.verdicts if each.stage == Stage.GATE], every=every)
    if account.model:
        _print_stage(explained, [each for each in account.verdicts if each.stage == Stage.WINDOW], every=every)
    if account.evidence is not None and account.evidence.features:
        print_fact("evidence", evidence_text(account.evidence))
    if prompted.abstention is None:  # otherwise none is sent
        print_prompt(prompted.prompt, prompted.account.condensed)
    print_notes([note for note in account.notices if note != explained.retrieved.notice], reran=account.reran)
    print_usage(account)
    print_fact("answer", one_line(_outcome(prompted)))
    if (named := forge.settings.model.name) and not account.model:
        print_fact("", f"by rules alone; --model {plain(named)} lets the model judge, and may cost")
    if explained.trace.candidates:
        print_timings(explained.retrieved.timings)
        around = {stage: spent for stage, spent in account.timings.items() if stage != "search"}
        print_fact("", f"{sum(around.values()):,.1f} ms around it: {stages_text(around)}")


def _print_stage(explained: Explained, verdicts: Sequence[Verdict], *, every: bool) -> None:
    """How many passages a stage kept, and those it did not; on demand, those it did, too."""
    if not verdicts:
        return
    dropped = [verdict for verdict in verdicts if not verdict.kept]
    shown = verdicts if every else dropped[:_MOST_DROPPED]
    print_fact(verdicts[0].stage, f"{len(verdicts) - len(dropped):,} of {count(len(verdicts), 'passage')} kept")
    documents = {candidate.chunk: candidate.document for candidate in explained.trace.candidates}
    for verdict in shown:
        name = explained.files.get(documents.get(verdict.chunk, ""), verdict.document)
        print_passage("✓" if verdict.kept else "–", verdict.score, name, verdict.locator, verdict.reason)
    if (hidden := len(dropped) - len(shown)) > 0:
        print_data(paint(f"{'':<{INDENT}}{hidden:,} more dropped: --all", "dim"))


def _outcome(prompted: Prompted) -> str:
    """Whether there would be an answer, and what it would stand on."""
    account, told = prompted.account, prompted.abstention
    if told is not None:
        return f"none: {told.text}"
    if account.shape.casual:
        return "none is looked for: the question says nothing to look for"
    if not account.model:
        return f"would quote sentences of {count(len(read_sources(account)), 'passage')}"
    sources = count(len(prompted.prompt.sources), "source")
    cost = prompted.estimate.cost if prompted.estimate is not None else None
    price = f", for at most ${cost:,.4f}" if cost else ""
    return f"{account.model} would write it from {sources}{price}, unless it finds that they do not hold it"
