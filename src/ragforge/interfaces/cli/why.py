"""How an answer came about, for people: what each stage kept and dropped, and why."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from ragforge.domain.answers import Account
from ragforge.domain.conversation import Conflict, MemoryVerdict
from ragforge.domain.discovery import TurnAccount
from ragforge.domain.documents import Locator
from ragforge.domain.prompts import Condensed, InjectedFile, Injection, SuperPrompt
from ragforge.domain.retrieval import Stage
from ragforge.interfaces.cli.output import cut, one_line, paint, plain, print_data, width_of_terminal, wrapped
from ragforge.interfaces.cli.passages import place
from ragforge.interfaces.fields.explained import CUT, PROMPT, Fate, fates, statements_of
from ragforge.interfaces.words import count, evidence_text

INDENT = 10
"""Where what is told begins, after its name."""
LEAST_TITLE = 16
_LEAST_PLACE = 8


# -- for people


def print_why(account: Account) -> None:
    """Everything that is known of how an answer came about."""
    print_question(account)
    print_files(account)
    print_memory(account)
    print_fates(fates(account))
    if account.evidence is not None:
        print_fact("evidence", evidence_text(account.evidence))
    if account.prompt is not None:
        print_prompt(account.prompt, account.condensed)
    print_facts("missing", (f"{missing.part}: {missing.message}" for missing in account.degraded))
    print_notes(account.notices, reran=account.reran)
    print_usage(account)
    if account.timings:
        print_timings(account.timings)


def print_fact(name: str, text: str) -> None:
    """What is told, after its name; long texts go on below."""
    print_data(f"{paint(f'{name:<{INDENT - 1}}', 'dim')} {wrapped(text, INDENT)}".rstrip())


def print_facts(name: str, texts: Iterable[str]) -> None:
    """Several things under one name."""
    for number, text in enumerate(texts):
        print_fact("" if number else name, one_line(text))


def print_question(account: Account) -> None:
    """How the question was understood, where that is not plain."""
    shape = account.shape
    if shape.rewritten:
        print_fact("question", f"understood as “{one_line(shape.standalone)}”: {one_line(shape.reason)}")
    elif shape.casual or account.conversation:
        print_fact("question", f"left as it is: {one_line(shape.reason)}")


def print_files(account: Account) -> None:
    """The files that the question names, and how they are used."""
    print_facts("files", (f"{file.name}: {_use(file, has_model=bool(account.model))}" for file in account.files))


def _use(file: InjectedFile, *, has_model: bool) -> str:
    if file.how is Injection.NARROWS:
        return "not code or configuration, so the search is narrowed to it"
    packed = f", without {file.left_out}" if file.left_out else ""
    told = f"{file.how.upper()} in the prompt, {count(file.tokens, 'token')}{packed}"
    return told if has_model else f"{told}; without a model the search is narrowed to it"


def print_memory(account: Account) -> None:
    """What came back of the conversation, what did not, and what was overruled."""
    kept = [verdict for verdict in account.memory if verdict.kept]
    if account.memory:
        print_fact("memory", f"{len(kept):,} of {count(len(account.memory), 'earlier part')} recalled")
        spans = [_span(verdict.first, verdict.last) for verdict in kept]
        for span, verdict in zip(spans, kept, strict=True):
            mark = f"✓ {span:<{max(map(len, spans))}}  {verdict.score:.2f}  "
            print_fact("", f"{mark}{one_line(verdict.reason)}")
    for reason, verdicts in _by_reason(verdict for verdict in account.memory if not verdict.kept).items():
        print_fact("", f"– {one_line(reason)}: {_turns(verdicts)}")
    print_facts("conflicts", map(_overruled, account.conflicts))


def _by_reason(verdicts: Iterable[MemoryVerdict]) -> dict[str, list[MemoryVerdict]]:
    """Those that were left out for the same reason, but for its figures."""
    groups: defaultdict[str, list[MemoryVerdict]] = defaultdict(list)
    for verdict in verdicts:
        groups[verdict.reason.partition(": ")[0]].append(verdict)
    return groups


def _turns(verdicts: Sequence[MemoryVerdict]) -> str:
    """`turn 3`, `turns 1–12, 15`: neighbours as one span."""
    spans: list[tuple[int, int]] = []
    for verdict in sorted(verdicts, key=lambda each: each.first):
        if spans and verdict.first <= spans[-1][1] + 1:
            spans[-1] = (spans[-1][0], max(spans[-1][1], verdict.last))
        else:
            spans.append((verdict.first, verdict.last))
    if len(spans) == 1:
        return _span(*spans[0])
    return "turns " + ", ".join(_range(*span) for span in spans)


def _span(first: int, last: int) -> str:
    return f"turn {first}" if first == last else f"turns {_range(first, last)}"


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}–{last}"


def _overruled(conflict: Conflict) -> str:
    said = f"turn {conflict.number}: “{conflict.said}”"
    if conflict.repeats:
        return f"{said} is left out: {conflict.against} says it"
    return f"{said} is left out: {conflict.against} says “{conflict.instead}”"


def print_fates(found: Sequence[Fate]) -> None:
    """Every candidate: those that were kept, then those that were dropped, by the stage that did it."""
    if not found:
        return
    kept = sorted((fate for fate in found if fate.kept), key=lambda fate: fate.source)
    dropped: defaultdict[str, list[Fate]] = defaultdict(list)
    for fate in found:
        if not fate.kept:
            dropped[fate.stage].append(fate)
    counts = [f"{len(kept):,} kept", *(f"{len(each):,} {_dropped_by(each)}" for each in dropped.values())]
    print_fact("passages", f"{count(len(found), 'candidate')}: {', '.join(counts)}")
    marks = {fate.chunk: f"[{fate.source}]" if fate.kept else "a passage" for fate in found}
    for fate in kept:
        print_passage(f"[{fate.source}]", fate.score, fate.name, fate.locator, _way(fate, marks))
    for each in dropped.values():
        print_data(paint(f"{'':<{INDENT}}── {_dropped_by(each)}", "bold"))
        for fate in each:
            is_said = fate.stage == CUT
            print_passage("–", fate.score, fate.name, fate.locator, "" if is_said else _way(fate, marks))


def _dropped_by(group: Sequence[Fate]) -> str:
    stage, reason = group[0].stage, group[0].reason
    return reason if stage == CUT else f"not in the {PROMPT}" if stage == PROMPT else f"dropped by {stage}"


def _way(fate: Fate, marks: Mapping[str, str]) -> str:
    """How it was found, and what every stage said, with marks for chunks; that it repeats no other says nothing."""
    first, *rest = fate.way
    told = [
        f"{verdict.stage}: {verdict.reason}" for verdict in rest if verdict.stage != Stage.DEDUPE or not verdict.kept
    ]
    after = [] if any(verdict.stage == fate.stage for verdict in fate.way) else [f"{fate.stage}: {fate.reason}"]
    return " ".join(marks.get(word, word) for word in "; ".join((first.reason, *told, *after)).split())


def print_passage(mark: str, score: float, name: str, locator: Locator, told: str) -> None:
    """A passage in one line, and below it what is told of it."""
    start = f"{mark:>{INDENT - 4}}  {score:5.2f}  "
    width = width_of_terminal()
    print_data(start + titled(name, locator, None if width is None else max(LEAST_TITLE, width - len(start))))
    if told:
        print_data(paint(f"{'':<{len(start)}}{wrapped(one_line(told), len(start))}", "dim"))


def titled(name: str, locator: Locator, room: int | None) -> str:
    """The file, and as much of the place as fits beside it."""
    from rich.cells import cell_len

    name = plain(name)
    left = None if room is None else room - cell_len(name) - len(" · ")
    where = place(locator, left) if left is None or left >= _LEAST_PLACE else ""
    told = f"{name} · {where}" if where else name
    return told if room is None else cut(told, room)


def print_prompt(prompt: SuperPrompt, condensed: Condensed | None) -> None:
    """What the context was condensed to, the sections with their tokens, and what had no room."""
    if statements := statements_of(condensed):
        print_facts("condensed", statements)
    sections: Counter[str] = Counter()
    for section in prompt.sections:
        sections[section.name] += section.tokens
    parts = ", ".join(f"{name} {tokens:,}" for name, tokens in sections.items())
    print_fact("prompt", f"{count(sections.total(), 'token')}: {parts}")
    print_facts("", (f"no room for {name}" for name in prompt.left_out))
    print_facts("", (f"hidden characters taken out: {what}" for what in prompt.hidden))


def print_notes(notices: Iterable[str], *, reran: bool) -> None:
    """What a person should know besides."""
    again = ["the audit changed what is asked, so it was searched once more"] if reran else []
    print_facts("notes", (*again, *notices))


def print_timings(timings: Mapping[str, float]) -> None:
    """Milliseconds in all, and of each stage."""
    total = timings["total"] if "total" in timings else sum(timings.values())
    print_fact("time", f"{total:,.1f} ms: {stages_text(timings)}")


def stages_text(timings: Mapping[str, float]) -> str:
    return ", ".join(f"{stage} {spent:.1f}" for stage, spent in timings.items() if stage != "total")


def print_usage(account: Account | TurnAccount) -> None:
    """What the model took, if one was asked."""
    usage = account.usage
    if usage.calls:
        cost = "price unknown" if usage.cost is None else f"${usage.cost:,.4f}"
        tokens = f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out"
        print_fact("model", f"{one_line(account.model)}: {count(usage.calls, 'call')}, {tokens}, {cost}")
