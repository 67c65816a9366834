"""The answer on the page: a text whose citations are buttons, and below it the list of its sources.

Streamlit's own Markdown cannot tell which word was clicked; this component can. It is trusted code, shows HTML which
`render` made harmless, and loads nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple

import streamlit as st

from ragforge.interfaces.ui.redraw import REDRAW
from ragforge.interfaces.ui.session import drop, keep, kept

_HTML = '<div class="answer" part="answer"><div class="text"></div><div class="sources"></div></div>'

_CSS = """
.answer { color: var(--st-text-color); font-family: var(--st-font); font-size: 1rem; line-height: 1.6;
  overflow-wrap: anywhere; }
.answer :is(p, li, td, th, h1, h2, h3, h4, blockquote) { unicode-bidi: plaintext; }
.answer p { margin: 0 0 .75rem; } .answer p:last-child { margin-bottom: 0; }
.answer h1, .answer h2, .answer h3, .answer h4 { font-size: 1.1rem; margin: 1.1rem 0 .4rem; font-weight: 600; }
.answer ul, .answer ol { margin: 0 0 .75rem; padding-left: 1.4rem; }
.answer a { color: var(--st-link-color); }
.answer code { font-family: var(--st-code-font); font-size: .875em; background: var(--st-code-background-color);
  border-radius: .25rem; padding: .1em .3em; }
.answer pre { background: var(--st-code-background-color); border-radius: var(--st-base-radius); padding: .75rem;
  overflow-x: auto; } .answer pre code { padding: 0; background: none; }
.answer blockquote { margin: 0 0 .75rem; padding-left: .9rem; border-left: 3px solid var(--st-border-color); }
.answer table { border-collapse: collapse; margin: 0 0 .75rem; display: block; overflow-x: auto; }
.answer th, .answer td { border: 1px solid var(--st-border-color); padding: .3rem .6rem; text-align: left; }
.answer p.open { opacity: .72; font-size: .9rem; } .answer :is(h1, h2, h3, h4):first-child { margin-top: 0; }
.cite { font: inherit; font-size: .72em; font-weight: 600; line-height: 1.3; min-width: 1.6em; padding: 0 .4em;
  margin: 0 .12em; vertical-align: .25em; border-radius: 1em; cursor: pointer; color: var(--st-primary-color);
  background: color-mix(in srgb, var(--st-primary-color) 12%, transparent);
  border: 1px solid color-mix(in srgb, var(--st-primary-color) 35%, transparent); }
.cite:hover { background: var(--st-primary-color); color: var(--st-background-color); }
.cite.doubtful { border-style: dashed; }
button:focus-visible { outline: 2px solid var(--st-primary-color); outline-offset: 2px; }
.sources { display: flex; flex-wrap: wrap; gap: .4rem; margin-top: .8rem; }
.sources:empty { display: none; }
.source { font: inherit; font-size: .85rem; text-align: left; max-width: 100%; padding: .25rem .6rem; cursor: pointer;
  border-radius: var(--st-base-radius); border: 1px solid var(--st-border-color); color: var(--st-text-color);
  background: var(--st-secondary-background-color); }
.source:hover { border-color: var(--st-primary-color); }
.source b { color: var(--st-primary-color); margin-right: .35em; }
.source small { opacity: .72; margin-left: .35em; }
.writing .text > :last-child::after { content: "▍"; opacity: .6; }
"""

_JS = (
    REDRAW
    + """
const shown = new Map();  // where each answer is on the page
// document.body.mark: the one that has the focus, or had it when its answer was taken off the page for a moment
const buttons = (key) => [...(shown.get(key)?.querySelectorAll("[data-cite]") ?? [])];
const isFree = () => document.activeElement === document.body;
const lead = ({ key, place }) => buttons(key)[place]?.focus({ preventScroll: true });
const leadBack = (from, seen, left) => {  // when its window, which comes in a moment, is closed
  const open = document.querySelector('[role="dialog"]') !== null;
  if (seen && !open && isFree()) lead(from);
  else if (open || left) setTimeout(leadBack, 100, from, seen || open, open ? 10 : left - 1);
};
export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".answer"), key = data.key;
  const text = root.querySelector(".text"), sources = root.querySelector(".sources");
  const placed = (target) => ({ key, place: buttons(key).indexOf(target.closest("[data-cite]")) });
  redraw(text, data.html);
  redraw(sources, data.sources);
  root.classList.toggle("writing", data.writing);
  root.onclick = (event) => {
    const pressed = event.target.closest("[data-cite]");
    if (!pressed) return;
    setTriggerValue("cite", Number(pressed.dataset.cite));
    leadBack(placed(pressed), false, 600);
  };
  if (shown.get(key) !== root) {
    shown.set(key, root);
    root.addEventListener("focusin", (event) => { document.body.mark = placed(event.target); });
    root.addEventListener("focusout", () => {
      const left = document.body.mark;
      setTimeout(() => { if (root.isConnected && document.body.mark === left) document.body.mark = null; });
    });
  }
  if (document.body.mark?.key === key && isFree()) lead(document.body.mark);
}
"""
)


@st.cache_resource(show_spinner=False)
def _component() -> Callable[..., object]:
    """Registered once: another registration would take what is on the page off it for a moment."""
    return st.components.v2.component("ragforge_cited", html=_HTML, css=_CSS, js=_JS)


class Listed(NamedTuple):
    """A source as a button below the answer."""

    number: int
    name: str
    place: str


def cited(html: str, sources: Sequence[Listed] = (), *, key: str, writing: bool = False) -> int | None:
    """Show an answer. The number of the citation that was pressed just now, if one was."""
    listed = "".join(
        f'<button type="button" class="source" data-cite="{each.number}"><b>{each.number}</b>{escape(each.name)}'
        f"{f'<small>{escape(each.place)}</small>' if each.place else ''}</button>"
        for each in sources
    )
    _component()(
        key=key,
        data={"key": key, "html": html, "sources": listed, "writing": writing},
        on_cite_change=lambda: _heard(key),
    )
    pressed, number = kept("cited", ("", None))
    if pressed != key:
        return None
    drop("cited")
    return int(number) if isinstance(number, int | float) else None


def _heard(key: str) -> None:
    """Before the page is run: the answer may become whole meanwhile, and that run ends before it comes here."""
    keep("cited", (key, st.session_state[key].cite))
