"""Small parts of a page that are pressed: the steps of an interview, and the lines of its register.

As `cited`, this component is trusted code, shows HTML that was made here of escaped parts, and loads nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

import streamlit as st

from ragforge.domain.discovery import Assumption, Progression
from ragforge.interfaces.ui.redraw import REDRAW

_HTML = '<div class="root"></div>'

_CSS = """
.root { color: var(--st-text-color); font-family: var(--st-font); font-size: .875rem; line-height: 1.4;
  container-type: inline-size; }
button { font: inherit; color: inherit; cursor: pointer; }
button:focus-visible, tr:focus-visible { outline: 2px solid var(--st-primary-color); outline-offset: 2px; }
.root { --ok: #1f9254; --no: #cf3d3d; --note: #b97a06; }

.steps { list-style: none; margin: 0; padding: 2px; display: grid; grid-template-columns: repeat(7, minmax(0, 1fr));
  gap: .5rem; }
.step { width: 100%; height: 100%; display: flex; flex-direction: column; gap: .3rem; text-align: left;
  padding: .1rem 0; background: none; border: 0; border-radius: .35rem; }
.track { display: block; height: 4px; border-radius: 2px; background: color-mix(in srgb, currentColor 14%, transparent);
  overflow: hidden; }
.track > i { display: block; height: 100%; border-radius: 2px; background: var(--st-primary-color); }
.done .track > i { background: var(--ok); }
.head { display: flex; gap: .45rem; align-items: flex-start; }
.dot { flex: none; width: 1.2rem; height: 1.2rem; border-radius: 50%; display: grid; place-items: center;
  font-size: .7rem; font-weight: 600; box-sizing: border-box;
  border: 1px solid color-mix(in srgb, currentColor 35%, transparent); }
.done .dot { background: var(--ok); border-color: var(--ok); color: #fff; }
.current .dot { background: var(--st-primary-color); border-color: var(--st-primary-color);
  color: var(--st-background-color); }
.chosen .dot { border: 2px dashed var(--st-primary-color); }
.name { font-size: .8rem; line-height: 1.25; opacity: .8; overflow-wrap: break-word; hyphens: auto; }
.current .name, .chosen .name { opacity: 1; font-weight: 600; }
.step:hover .name { opacity: 1; text-decoration: underline; text-underline-offset: 2px; }
.far { font-size: .75rem; opacity: .72; margin-top: auto; padding-left: 1.65rem; }
.now { display: none; font-size: .8rem; margin-top: .35rem; }
@container (max-width: 640px) {
  .now { display: block; }
  .steps { gap: .3rem; }
  .name { display: none; }
  .head { justify-content: center; } .far { text-align: center; padding: 0; white-space: nowrap; font-size: .7rem; }
  .dot { width: 1.5rem; height: 1.5rem; }
}

.register { width: 100%; border-collapse: collapse; }
.register th { text-align: left; font-weight: 600; font-size: .75rem; opacity: .72; padding: 0 .5rem .25rem 0;
  border-bottom: 1px solid var(--st-border-color); }
.register td { padding: .5rem .5rem .5rem 0; vertical-align: top; border-bottom: 1px solid var(--st-border-color); }
.register tr.row { cursor: pointer; }
.register tr.row:hover td { background: color-mix(in srgb, var(--st-primary-color) 6%, transparent); }
.register tr.chosen td { background: color-mix(in srgb, var(--st-primary-color) 11%, transparent); }
.register td:first-child { padding-left: .45rem; border-left: 3px solid transparent; }
.register tr.shaken td:first-child { border-left-color: var(--note); }
.register tr.refuted td:first-child { border-left-color: var(--no); }
.register tr.confirmed td:first-child { border-left-color: var(--ok); }
.register .id { font-weight: 600; padding: 0 .25rem; border: 0; border-radius: .3rem; background: none;
  color: var(--st-primary-color); }
.register .id:hover { text-decoration: underline; }
.says { overflow-wrap: anywhere; unicode-bidi: plaintext; }
tr.refuted .says { text-decoration: line-through; text-decoration-thickness: 1px; opacity: .7; }
.tag { display: inline-block; white-space: nowrap; border-radius: 1rem; padding: .05rem .5rem; font-size: .75rem;
  background: color-mix(in srgb, currentColor 11%, transparent); }
.tag.shaken { background: color-mix(in srgb, var(--note) 26%, transparent); font-weight: 600; }
.tag.refuted { background: color-mix(in srgb, var(--no) 24%, transparent); font-weight: 600; }
.tag.confirmed { background: color-mix(in srgb, var(--ok) 24%, transparent); }
.low { opacity: .72; } .high { font-weight: 600; }
.hint { display: none; }
@container (max-width: 560px) {
  .register thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  .register tr.row { display: grid; grid-template-columns: auto 1fr; border-bottom: 1px solid var(--st-border-color); }
  .register td { border-bottom: 0; padding: 0 .5rem 0 0; font-size: .8rem; }
  .register td.who { grid-row: 1 / span 2; padding-top: .45rem; padding-bottom: .45rem; }
  .register td.what { padding-top: .45rem; font-size: .875rem; }
  .register tr.row > td.rest { display: flex; flex-wrap: wrap; gap: .1rem .6rem; align-items: center;
    padding: .3rem .5rem .45rem 0; }
  .wide { display: none; } .hint { display: inline; opacity: .72; }
}
@container (min-width: 560.01px) { .rest { display: none; } }
"""

_JS = (
    REDRAW
    + """
export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".root");
  redraw(root, data.html);
  root.onclick = (event) => {
    const pressed = event.target.closest("[data-press]");
    if (pressed && !data.disabled) setTriggerValue("press", pressed.dataset.press);
  };
}
"""
)


@st.cache_resource(show_spinner=False)
def _component() -> Callable[..., object]:
    """Registered once: another registration would take what is on the page off it for a moment."""
    return st.components.v2.component("ragforge_pressing", html=_HTML, css=_CSS, js=_JS)


def pressed(html: str, *, key: str, disabled: bool = False) -> str:
    """Show it. What was pressed just now, or nothing."""
    shown = _component()(key=key, data={"html": html, "disabled": disabled}, on_press_change=lambda: None)
    found = getattr(shown, "press", None)
    return found if isinstance(found, str) else ""


# -- the steps


def steps_html(steps: Sequence[Progression], chosen: str) -> str:
    """Every probe of a mode: done, current or open. The one that a person chose is asked next."""
    now = next((each for each in steps if each.key == chosen), None) or next((e for e in steps if e.current), None)
    named = f'<div class="now"><b>{escape(now.title)}</b> {escape(far(now))}</div>' if now else ""
    return f'<ol class="steps">{"".join(_step(n, each, chosen) for n, each in enumerate(steps, 1))}</ol>{named}'


def _step(number: int, step: Progression, chosen: str) -> str:
    state = "done" if step.done else "current" if step.current else "open"
    kinds = {state, "current"} if step.current else {state}
    told = far(step)
    if step.key == chosen:
        kinds.add("chosen")
        told = f"{told}, asked next"
    settled = step.met + step.unknown
    share = round(100 * min(1.0, settled / step.criteria)) if step.criteria else 0
    now = ' aria-current="step"' if step.current else ""
    words = escape(f"{step.title}: {told}. {'Press to leave it' if step.key == chosen else 'Press to be asked next'}")
    return (
        f'<li><button type="button" class="step {" ".join(sorted(kinds))}" data-press="{escape(step.key)}" '
        f'data-state="{state}" title="{words}" aria-label="{words}"{now}>'
        f'<span class="track"><i style="width:{share}%"></i></span>'
        f'<span class="head"><span class="dot">{"✓" if step.done else number}</span>'
        f'<span class="name">{escape(step.title)}</span></span>'
        f'<span class="far">{"next" if step.key == chosen else f"{settled} of {step.criteria}"}</span></button></li>'
    )


def far(step: Progression) -> str:
    """`2 of 4 known, 1 that nobody can tell`."""
    unknown = f", {step.unknown} that nobody can tell" if step.unknown else ""
    return f"{step.met} of {step.criteria} known{unknown}"


# -- the register


def register_html(assumptions: Sequence[Assumption], chosen: str) -> str:
    """A table; where there is little room, of two lines each."""
    heads = "".join(f"<th>{each}</th>" for each in ("", "Assumption", "Confidence", "Impact", "Status", "Depends on"))
    rows = "".join(_row(each, chosen) for each in assumptions)
    return f'<table class="register"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>'


def _row(each: Assumption, chosen: str) -> str:
    id, rests = escape(each.id), escape(", ".join(each.depends_on))
    tag = f'<span class="tag {each.status}">{each.status}</span>'
    on = f'<span><span class="hint">depends on</span> {rests}</span>' if rests else ""
    kinds = f"row {each.status}{' chosen' if each.id == chosen else ''}"
    return (
        f'<tr class="{kinds}" data-press="{id}" data-id="{id}" data-status="{each.status}">'
        f'<td class="who"><button type="button" class="id" data-press="{id}" aria-label="Change {id}" '
        f'aria-pressed="{"true" if each.id == chosen else "false"}">{id}</button></td>'
        f'<td class="what"><div class="says">{escape(each.statement)}</div></td>'
        f'<td class="wide {each.confidence}">{each.confidence}</td><td class="wide {each.impact}">{each.impact}</td>'
        f'<td class="wide">{tag}</td><td class="wide">{rests}</td>'
        f'<td class="rest">{tag}<span class="{each.confidence}"><span class="hint">confidence</span> {each.confidence}'
        f'</span><span class="{each.impact}"><span class="hint">impact</span> {each.impact}</span>{on}</td></tr>'
    )
