"""The view Why: every candidate by stage, kept or dropped and for which reason; memory, conflicts, what was missing."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

import streamlit as st

from ragforge.domain.answers import Abstention, Account
from ragforge.domain.retrieval import Stage
from ragforge.interfaces.fields.explained import CUT, PROMPT, Fate, fates, statements_of
from ragforge.interfaces.ui.look import chip, dim, empty, html, missing_text, quiet, scored, sentence, table
from ragforge.interfaces.ui.passage import where
from ragforge.interfaces.ui.session import Session, keep, kept
from ragforge.interfaces.words import count, evidence_text, price

if TYPE_CHECKING:
    from ragforge.interfaces.ui.chat import Exchange

_NEAR_MISSES = 5


def why(session: Session, exchanges: Sequence[Exchange]) -> None:
    if not exchanges:
        empty(
            "Nothing to explain yet",
            "Ask something: here you see every passage that was found for the answer, what each stage said of it, and "
            "what came near but was left out. Answers from before this page was started are not explained any more.",
        )
        return
    by_key = {each.key: each for each in reversed(exchanges)}
    chosen = kept("why", None)
    key = "why-choice"
    st.session_state[key] = chosen if chosen in by_key else next(iter(by_key))
    shown = st.selectbox(
        "Of which question",
        list(by_key),
        key=key,
        format_func=lambda id: by_key[id].question if id in by_key else id,
        on_change=lambda: keep("why", st.session_state[key]),
    )
    result = by_key[shown].result
    assert result is not None, "only those that are remembered are offered"
    account = result.account
    _question(account)
    if isinstance(result, Abstention):
        st.info(f"**No answer.** {quiet(result.reason)}", icon=":material/search_off:")
    _missing(account)
    _candidates(account, answered=not isinstance(result, Abstention))
    _memory(account)
    _context(account)
    _figures(account)


def _question(account: Account) -> None:
    shape = account.shape
    chips = [chip(f"intent: {shape.intent}")]
    chips += [chip(f"domain: {shape.domain}")] if shape.domain else []
    chips += [chip(f"❖ {file.name} · {file.how}") for file in account.files]
    chips += [chip("searched once more after the audit", "note")] if account.reran else []
    html("".join(chips))
    if shape.rewritten:
        dim(f"Understood as: {shape.standalone} ({shape.reason})")
    if account.evidence is not None:
        st.markdown(f"**Evidence** {quiet(evidence_text(account.evidence))}")


def _missing(account: Account) -> None:
    for missing in account.degraded:
        st.warning(missing_text(missing), icon=":material/warning:")
    for notice in account.notices:
        dim(sentence(notice))


def _candidates(account: Account, *, answered: bool) -> None:
    found = fates(account)
    st.subheader("Candidates", anchor=False)
    if not found:
        dim("Nothing was searched: the question names its files, or asks for nothing.")
        return
    kept_ones = sorted((fate for fate in found if fate.kept), key=lambda fate: fate.source)
    dropped = [fate for fate in found if not fate.kept]
    most = max((fate.score for fate in found), default=1.0) or 1.0
    html(
        chip(f"{len(kept_ones):,} {'used' if answered else 'kept, but too little to answer from'}", "ok")
        + "".join(chip(f"{number:,} {name}", "no") for name, number in _counts(dropped).items())
    )
    shown = [*kept_ones, *dropped[:_NEAR_MISSES]]
    _fates(shown, most)
    if rest := dropped[_NEAR_MISSES:]:
        with st.expander(f"{len(rest):,} more that were left out"):
            _fates(rest, most)


def _counts(dropped: Sequence[Fate]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for fate in dropped:
        counts[_dropped_by(fate)] = counts.get(_dropped_by(fate), 0) + 1
    return counts


def _dropped_by(fate: Fate) -> str:
    if fate.stage == CUT:
        return fate.reason
    return "not in the prompt" if fate.stage == PROMPT else f"dropped by {fate.stage}"


def _fates(found: Sequence[Fate], most: float) -> None:
    rows = [
        [
            f"<b>{fate.source}</b>" if fate.kept else "–",
            f"{escape(fate.name)}<br><small>{escape(where(fate.locator))}</small>",
            scored(fate.score / most, fate.score, low=not fate.kept),
            _way(fate),
        ]
        for fate in found
    ]
    out = [place for place, fate in enumerate(found) if not fate.kept]
    html(table(("", "Passage", "Score", "What each stage said"), rows, out=out))


def _way(fate: Fate) -> str:
    """Each stage with its verdict; that it repeats no other says nothing."""
    told = [
        f"{chip(('✓ ' if each.kept else '✗ ') + each.stage, 'ok' if each.kept else 'no')}{escape(each.reason)}"
        for each in fate.way
        if each.stage != Stage.DEDUPE or not each.kept
    ]
    if not any(each.stage == fate.stage for each in fate.way):
        told.append(
            f"{chip(('✓ ' if fate.kept else '✗ ') + fate.stage, 'ok' if fate.kept else 'no')}{escape(fate.reason)}"
        )
    return "<br>".join(told)


def _memory(account: Account) -> None:
    if account.conflicts:
        st.subheader("Conflicts", anchor=False)
        rows = [
            [
                f"turn {conflict.number}",
                f"“{escape(conflict.said)}”",
                escape(conflict.against),
                "says the same" if conflict.repeats else f"“{escape(conflict.instead)}”",
            ]
            for conflict in account.conflicts
        ]
        html(table(("Left out", "It says", "Against", "Which says"), rows))
    if account.memory:
        st.subheader("Memory", anchor=False)
        rows = [
            [
                "✓" if verdict.kept else "–",
                f"turn {verdict.first}" if verdict.first == verdict.last else f"turns {verdict.first}–{verdict.last}",
                scored(verdict.score, verdict.score, low=not verdict.kept),
                escape(verdict.reason),
            ]
            for verdict in account.memory
        ]
        html(table(("", "Turn", "Score", "Why"), rows))


def _context(account: Account) -> None:
    if statements := statements_of(account.condensed):
        st.subheader("Condensed", anchor=False)
        html("<br>".join(escape(each) for each in statements))
    if account.prompt is not None:
        st.subheader("Prompt", anchor=False)
        rows = [[escape(each.name), f"{each.tokens:,}"] for each in account.prompt.sections]
        html(table(("Block", "Tokens"), rows, numbers=(1,)))
        for name in account.prompt.left_out:
            dim(f"No room for {name}")


def _figures(account: Account) -> None:
    st.subheader("Time and cost", anchor=False)
    rows = [[escape(stage), f"{spent:,.1f} ms"] for stage, spent in account.timings.items()]
    html(table(("Stage", "Time"), rows, numbers=(1,)))
    usage = account.usage
    if usage.calls:
        dim(
            f"{account.model}: {count(usage.calls, 'call')}, {usage.input_tokens:,} tokens read, "
            f"{usage.output_tokens:,} written, {price(usage.cost)}"
        )
    dim(f"Trace {account.trace_id}")
