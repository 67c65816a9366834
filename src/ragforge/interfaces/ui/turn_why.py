"""The view Why of an interview: what was decided for a turn, read, sent, registered, refused and shortened."""

from __future__ import annotations

import re
from html import escape

import streamlit as st

from ragforge.domain.discovery import Change, TurnAccount
from ragforge.interfaces.ui.cited import Listed, cited
from ragforge.interfaces.ui.lesson_look import facts
from ragforge.interfaces.ui.look import chip, dim, empty, html, missing_text, sentence, table
from ragforge.interfaces.ui.passage import Place, where
from ragforge.interfaces.ui.session import Session, keep, kept, open_window
from ragforge.interfaces.ui.sight import Sight, explained
from ragforge.interfaces.words import count, price

_SHORT = 60
_DID = {
    "fill_section": "Into the document",
    "from_documents": "From your files",
    "register_assumption": "Assumed",
    "update_assumption": "Assumption changed",
    "open_question": "Open question",
    "update_org_context": "The organisation",
}


def why(session: Session, sight: Sight) -> None:
    if not sight.turns:
        empty(
            "Nothing to explain yet",
            "Say something: here you see what was decided for each turn and why, what was read, and what came of it.",
        )
        return
    by_id = {turn.id: turn for turn in reversed(sight.turns)}
    wanted = kept("explained", "")
    key = "explained-choice"
    st.session_state[key] = wanted if wanted in by_id else next(iter(by_id))
    st.selectbox(
        "Of which turn",
        list(by_id),
        key=key,
        format_func=lambda id: _named(by_id[id].number, by_id[id].question) if id in by_id else id,
        on_change=lambda: keep("explained", st.session_state[key]),
        label_visibility="collapsed",
    )
    turn = by_id[st.session_state[key]]
    done = explained(session, sight, turn)
    if done is None:
        mode = sight.modes[turn.mode].title if turn.mode in sight.modes else turn.mode
        html(facts((("Probe", sight.probe(turn.probe)), ("Mode", mode), ("Asked by", turn.model or "rules"))))
        dim("The rest is known of turns since this page was started.")
        return
    account = done.account
    _decided(sight, account)
    for missing in account.degraded:
        st.warning(missing_text(missing), icon=":material/warning:")
    for notice in account.notices:
        dim(sentence(notice))
    _read(account, turn.id)
    _came(account)
    _sent(account)


def _named(number: int, question: str) -> str:
    line = " ".join(question.split())
    return f"Turn {number}: {line if len(line) <= _SHORT else line[: _SHORT - 1].rstrip() + '…'}"


def _head(text: str) -> None:
    html(f'<h4 class="rf-head">{escape(text)}</h4>')


def _decided(sight: Sight, account: TurnAccount) -> None:
    decision = account.decision
    mode = sight.modes.get(decision.mode)
    patterns = [mode.patterns[key].title if mode and key in mode.patterns else key for key in decision.patterns]
    html(
        facts(
            (
                ("Probe", sight.probe(decision.probe)),
                ("Because", decision.reason if decision.by else _in_words(sight, decision.reason)),
                ("Decided by", decision.by or "rules"),
                ("Asked by", account.model or "rules, no model"),
                ("Mode", mode.title if mode else decision.mode),
                ("Patterns", ", ".join(patterns) or "none seen"),
                ("Summed up", "yes" if decision.micro_synthesis else ""),
            )
        )
    )


def _in_words(sight: Sight, reason: str) -> str:
    """What rules say, with the names of probes in place of their keys."""
    keys = "|".join(re.escape(key) for mode in sight.modes.values() for key in mode.probes)
    return re.sub(rf"(?<![\w-])({keys})(?![\w-])", lambda found: f"“{sight.probe(found[1])}”", reason)


def _read(account: TurnAccount, turn: str) -> None:
    _head("What was read")
    if not account.decision.requires_retrieval and not account.searches:
        html(chip("Nothing was looked up"))
    else:
        html(chip(count(account.searches, "search", "searches")) + chip(count(len(account.sources), "passage"), "kind"))
    if account.recalled:
        dim(f"Older turns brought back: {', '.join(map(str, account.recalled))}")
    if account.sources:
        places = {source.number: Place.read(source) for source in account.sources}
        listed = [Listed(number, place.name, where(place.locator)) for number, place in places.items()]
        pressed = cited("", listed, key=f"why-sources-{turn}")
        if pressed in places:
            open_window("passage", places[pressed])


def _came(account: TurnAccount) -> None:
    _head("What came of it")
    done = [each for each in account.changes if not each.refused]
    not_done = [each for each in account.changes if each.refused]
    if not done and not not_done:
        dim("Nothing was registered.")
    if done:
        html(_changes(done))
    if not_done:
        html(chip(f"{len(not_done):,} refused", "no") + _changes(not_done))


def _changes(changes: list[Change]) -> str:
    return table(("", ""), [[escape(_DID.get(each.tool, each.tool)), _said(each.text)] for each in changes])


def _said(text: str) -> str:
    return f'<div class="rf-said">{escape(text)}</div>'


def _sent(account: TurnAccount) -> None:
    _head("What was put together")
    rows = [[escape(each.name), f"{each.tokens:,}"] for each in account.sections]
    rows.append(["<b>All that a model reads</b>", f"<b>{account.phase_b_tokens:,}</b>"])
    if account.phase_a_tokens:
        rows.insert(0, ["To decide", f"{account.phase_a_tokens:,}"])
    html(table(("Part", "Tokens"), rows, numbers=(1,)))
    if not account.model:
        dim("No model was asked: rules worked with the same.")
    for note in account.compressed:
        dim(f"Shortened: {note}")
    usage = account.usage
    if usage.calls:
        dim(
            f"{account.model}: {count(usage.calls, 'call')}, {usage.input_tokens:,} tokens read, "
            f"{usage.output_tokens:,} written, {price(usage.cost)}"
        )
    dim(f"{sum(account.timings.values()):,.0f} ms")
