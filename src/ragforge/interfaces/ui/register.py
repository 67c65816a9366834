"""The register of assumptions on the page Discovery: what is believed, how sure, and what falls with what."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import streamlit as st

from ragforge.domain.access import Action
from ragforge.domain.discovery import Assumption, Level, Standing
from ragforge.interfaces.ui.look import chip, dim, empty, html
from ragforge.interfaces.ui.pressing import pressed, register_html
from ragforge.interfaces.ui.session import Session, drop, keep, kept
from ragforge.interfaces.ui.sight import Sight, changed, refused

_LONGEST = 400
_STANDINGS = [Standing.OPEN, Standing.CONFIRMED, Standing.REFUTED]
"""What a person can say of one; shaken is what becomes of it."""
_LEVELS = list(Level)
_KINDS = {Standing.SHAKEN: "note", Standing.REFUTED: "no", Standing.CONFIRMED: "ok"}


def register(session: Session, sight: Sight) -> None:
    known = sight.state.assumptions
    by_id = {each.id: each for each in known}
    chosen = str(kept("assumption", ""))
    if not known:
        empty(
            "Nothing is assumed yet",
            "What somebody believes and nobody has shown is put here, with how sure it is and what breaks if it is "
            "false. You can add to it yourself.",
        )
    else:
        _counts(known)
        if found := pressed(register_html(known, chosen), key=f"register-{sight.id}"):
            choose("" if found == chosen else found)
            st.rerun()
    if chosen in by_id:
        _editor(session, sight, by_id[chosen])
    _adding(session, sight)


def choose(id: str) -> None:
    """Open one for a change, or none; the boxes begin anew."""
    keep("assumption", id)
    keep("assumption_number", kept("assumption_number", 0) + 1)
    drop("refused_change")


def _counts(known: Sequence[Assumption]) -> None:
    """What to look at first."""
    counts = {standing: sum(each.status is standing for each in known) for standing in Standing}
    order = (Standing.SHAKEN, Standing.REFUTED, Standing.OPEN, Standing.CONFIRMED)
    html("".join(chip(f"{counts[each]:,} {each}", _KINDS.get(each, "")) for each in order if counts[each]))


# -- one of them


def _editor(session: Session, sight: Sight, one: Assumption) -> None:
    number = kept("assumption_number", 0)
    key = {name: f"{name}-{one.id}-{number}" for name in ("status", "confidence", "impact", "rests", "evidence")}
    others = {each.id: each.statement for each in sight.state.assumptions if each.id != one.id}
    with st.container(border=True, key="assumption-editor"):
        html(f'<div class="rf-said"><b>{escape(one.id)}</b> {escape(one.statement)}</div>')
        if one.status is Standing.SHAKEN:
            dim("Shaken: something that it depends on was refuted. Say how it stands now.")
        for proof in one.evidence:
            dim(f"Turn {proof.turn}: {proof.text}")
        with st.form(f"change-{one.id}", border=False):
            st.segmented_control(
                "Status", _STANDINGS, default=one.status if one.status in _STANDINGS else None, key=key["status"]
            )
            st.segmented_control("Confidence", _LEVELS, default=one.confidence, required=True, key=key["confidence"])
            st.segmented_control("Impact", _LEVELS, default=one.impact, required=True, key=key["impact"])
            st.multiselect(
                "Depends on", list(others), default=[each for each in one.depends_on if each in others],
                format_func=lambda id: f"{id} {others.get(id, '')}", key=key["rests"], placeholder="Nothing",
            )  # fmt: skip
            st.text_input(
                "What shows it", key=key["evidence"], max_chars=_LONGEST, placeholder="We checked: 5 of 40 tickets"
            )
            with st.container(horizontal=True):
                st.form_submit_button("Save", type="primary", on_click=_revised, args=(session, sight, one, key),
                                      disabled=sight.busy)  # fmt: skip
                st.form_submit_button("Leave it", on_click=choose, args=("",))
        refused()
        with st.popover("Remove …", icon=":material/delete:", type="tertiary", key=f"remove-{one.id}"):
            st.markdown("It leaves the register; what depended on it no longer does.")
            st.button("Remove for good", key=f"remove-sure-{one.id}", type="primary", disabled=sight.busy,
                      on_click=_removed, args=(session, sight, one.id))  # fmt: skip


def _revised(session: Session, sight: Sight, one: Assumption, key: dict[str, str]) -> None:
    """Only what was changed: a turn may have changed the rest meanwhile."""
    given = {name: st.session_state[where] for name, where in key.items()}
    was = {"status": one.status, "confidence": one.confidence, "impact": one.impact}
    change = {name: str(given[name]) for name, before in was.items() if given[name] and given[name] != before}
    rests = tuple(given["rests"])

    def saved() -> str:
        before = {each.id: each.status for each in sight.state.assumptions}
        after = session.forge(Action.ASK).discovery.revise_assumption(
            one.id, sight.id, project=session.slug, depends_on=None if rests == one.depends_on else rests,
            evidence=str(given["evidence"] or ""), confidence=change.get("confidence"), impact=change.get("impact"),
            status=change.get("status"),
        )  # fmt: skip
        fell = [each.id for each in after.assumptions if each.id != one.id and each.status != before.get(each.id)]
        shaken = [each.id for each in after.assumptions if each.id in fell and each.status is Standing.SHAKEN]
        if shaken:
            return f"Saved. Shaken by it: {', '.join(shaken)}."
        return f"Saved. Standing again: {', '.join(fell)}." if fell else f"Saved {one.id}."

    if changed(saved):
        choose("")


def _removed(session: Session, sight: Sight, id: str) -> None:
    def removed() -> str:
        session.forge(Action.ASK).discovery.remove_assumption(id, sight.id, project=session.slug)
        return f"Removed {id}."

    if changed(removed):
        choose("")


# -- one more


def _adding(session: Session, sight: Sight) -> None:
    there = {each.id: each.statement for each in sight.state.assumptions}
    number = kept("added_number", 0)
    key = {name: f"new-{name}-{number}" for name in ("statement", "confidence", "impact", "rests")}
    with st.expander("Add an assumption", icon=":material/add:"), st.form("add-assumption", border=False):
        st.text_area("What is taken for true", key=key["statement"], max_chars=_LONGEST, height="content",
                     placeholder="Customers read the return policy before they buy")  # fmt: skip
        st.segmented_control("Confidence", _LEVELS, default=Level.MEDIUM, required=True, key=key["confidence"])
        st.segmented_control("Impact if false", _LEVELS, default=Level.MEDIUM, required=True, key=key["impact"])
        if there:
            st.multiselect("Depends on", list(there), format_func=lambda id: f"{id} {there.get(id, '')}",
                           key=key["rests"], placeholder="Nothing")  # fmt: skip
        st.form_submit_button("Add", type="primary", on_click=_added, args=(session, sight, key), disabled=sight.busy)
    if not kept("assumption", ""):
        refused()


def _added(session: Session, sight: Sight, key: dict[str, str]) -> None:
    given = {name: st.session_state.get(where) for name, where in key.items()}
    keep("assumption", "")

    def added() -> str:
        made = session.forge(Action.ASK).discovery.add_assumption(
            str(given["statement"] or ""), sight.id, project=session.slug, confidence=str(given["confidence"]),
            impact=str(given["impact"]), depends_on=tuple(given["rests"] or ()),
        )  # fmt: skip
        return f"Added {made.id}."

    if changed(added):
        keep("added_number", kept("added_number", 0) + 1)  # empty boxes for the next one
