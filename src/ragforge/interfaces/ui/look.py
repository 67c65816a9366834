"""What every page looks like: its style, small pieces of HTML, and how a problem is told."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from typing import ParamSpec

import streamlit as st

from ragforge.domain.retrieval import Degraded
from ragforge.errors import RagforgeError, Unauthenticated
from ragforge.interfaces.hints import PAGE, renamed

P = ParamSpec("P")

_STYLE = """
<style>
[data-testid="stMainBlockContainer"] { padding-top: 4.2rem; padding-bottom: 6rem; max-width: 70rem; }
[data-testid="stSidebarUserContent"] { padding-top: .4rem; }
[data-testid="stSidebarHeader"] { padding-bottom: 0; min-height: 2.4rem; height: 2.4rem; }
[data-testid="stSidebar"] [data-testid="stVerticalBlock"] { gap: .6rem; }
[class*="st-key-open-"] button { justify-content: flex-start; text-align: left; }
.rf-passage :is(p, li, td, th, h1, h2, h3, h4, blockquote), .rf-passage { unicode-bidi: plaintext; }
.rf-brand { font-weight: 700; font-size: 1.15rem; letter-spacing: -.01em; }
.rf-dim { opacity: .72; font-size: .85rem; overflow-wrap: anywhere; }
.rf-passage { line-height: 1.55; overflow-wrap: anywhere; }
.rf-passage table, .rf-table { border-collapse: collapse; }
.rf-passage table { display: block; overflow-x: auto; margin-bottom: .75rem; }
.rf-passage th, .rf-passage td { border: 1px solid rgb(128 128 128 / .35); padding: .25rem .55rem; text-align: left; }
.rf-passage :is(h1, h2, h3, h4) { font-size: 1.05rem; margin: .8rem 0 .3rem; padding: 0; }
.rf-passage pre { white-space: pre-wrap; background: rgb(128 128 128 / .12); padding: .6rem; border-radius: .4rem; }
.rf-passage mark { background: #ffe08a; color: #1c1c1c; border-radius: .15rem; padding: 0 .05rem; }
.rf-wide { overflow-x: auto; }
.rf-table { width: 100%; font-size: .875rem; }
.rf-table th { text-align: left; font-weight: 600; opacity: .8; padding: .3rem .7rem .3rem 0; vertical-align: bottom;
  border-bottom: 1px solid rgb(128 128 128 / .4); white-space: nowrap; }
.rf-table td { padding: .4rem .7rem .4rem 0; vertical-align: top; border-bottom: 1px solid rgb(128 128 128 / .18); }
.rf-table td.num, .rf-table th.num { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.rf-table tr.out { opacity: .74; }
.rf-table small { opacity: .8; }
.rf-bar { display: inline-block; width: 5rem; height: .45rem; border-radius: .3rem; background: rgb(128 128 128 / .22);
  vertical-align: middle; margin-right: .45rem; }
.rf-bar > i { display: block; height: 100%; border-radius: .3rem; background: #3d7edb; }
.rf-scored { white-space: nowrap; }
.rf-bar.low > i { background: #8a94a3; }
.rf-chip { display: inline-block; font-size: .8rem; padding: .1rem .55rem; margin: 0 .3rem .3rem 0; border-radius: 1rem;
  background: rgb(128 128 128 / .16); overflow-wrap: anywhere; }
.rf-chip.ok { background: rgb(46 160 90 / .2); } .rf-chip.no { background: rgb(208 66 66 / .18); }
.rf-chip.note { background: rgb(214 158 20 / .22); } .rf-chip.kind { background: rgb(61 126 219 / .2); }
.rf-chip.whole { white-space: nowrap; }
.rf-chips { margin-bottom: .25rem; }
.rf-lesson.out .rf-facts { opacity: .66; }
dl.rf-facts.rf-facts { display: grid; grid-template-columns: 8.5rem minmax(0, 1fr); gap: .35rem .9rem;
  margin: 0 0 .5rem; padding: 0; }
.rf-facts dt { opacity: .72; font-size: .85rem; line-height: 1.7; margin: 0; padding: 0; }
.rf-facts.rf-facts dd, .rf-said { padding: 0; margin: 0; line-height: 1.45; white-space: pre-wrap;
  overflow-wrap: anywhere; unicode-bidi: plaintext; }
.rf-facts dd.code { font-family: monospace; font-size: .82rem; line-height: 1.75; }
.rf-record { display: flex; flex-wrap: wrap; align-items: center; gap: .1rem .5rem; font-size: .875rem; }
.rf-record .rf-chip { margin-bottom: 0; }
@media (max-width: 640px) { [data-testid="stMainBlockContainer"] { padding-left: .9rem; padding-right: .9rem; }
  dl.rf-facts.rf-facts { grid-template-columns: minmax(0, 1fr); gap: 0; }
  .rf-facts.rf-facts dd { margin-bottom: .45rem; } }
</style>
"""


def style() -> None:
    st.html(_STYLE)


def html(text: str) -> None:
    """HTML that was made here, of escaped parts."""
    st.html(text)


def dim(text: str) -> None:
    html(f'<div class="rf-dim">{escape(text)}</div>')


def chip(text: str, kind: str = "") -> str:
    return f'<span class="rf-chip {kind}">{escape(text)}</span>'


def bar(share: float, *, low: bool = False) -> str:
    """A number from 0 to 1 as a small bar."""
    width = round(100 * min(1.0, max(0.0, share)))
    return f'<span class="rf-bar{" low" if low else ""}"><i style="width:{width}%"></i></span>'


def scored(share: float, score: float, *, low: bool = False) -> str:
    """The bar and its number, on one line."""
    return f'<span class="rf-scored">{bar(share, low=low)}{score:.2f}</span>'


def table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Sequence[int] = (), out: Sequence[int] = ()
) -> str:
    """A table of cells that are HTML already; `numbers` are columns, `out` rows that count less."""
    head = "".join(f'<th class="{_kind(n, numbers)}">{escape(each)}</th>' for n, each in enumerate(heads))
    body = "".join(
        f'<tr class="{"out" if place in out else ""}">'
        + "".join(f'<td class="{_kind(n, numbers)}">{cell}</td>' for n, cell in enumerate(row))
        + "</tr>"
        for place, row in enumerate(rows)
    )
    whole = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    return f'<div class="rf-wide"><table class="rf-table">{whole}</table></div>'


def _kind(column: int, numbers: Sequence[int]) -> str:
    return "num" if column in numbers else ""


# -- problems


def problem_text(problem: RagforgeError) -> str:
    """What is wrong, and what to do next, as Markdown that says nothing else."""
    return quiet(sentence(problem.message)) + next_step(problem.hint)


def next_step(hint: str) -> str:
    """What to do next, in the words of this page; nothing if there is no hint."""
    return f"\n\n**Next:** {quiet(renamed(hint, PAGE))}" if hint else ""


def missing_text(missing: Degraded) -> str:
    """A part that was not there."""
    return f"Without {quiet(missing.part)}: {quiet(missing.message)}.{next_step(missing.hint)}"


def quiet(text: str) -> str:
    """Text of anybody as it is, in a place where Streamlit reads Markdown. As little is escaped as will do: screen
    readers read labels out as they are written."""
    apart = _LIVELY.sub(lambda found: f"{found[0][0]}\u2060{found[0][1:]}", text)
    return _MARKS.sub(lambda found: _SIGN.sub(r"\\\g<0>", found[0]), apart)


_LIVELY = re.compile(r"www\.|://|@|:\w|->|<-|<=|>=|--", re.IGNORECASE)
"""What Streamlit makes a link, an icon or a sign of also where it is escaped: a mark that nobody sees parts it."""
_SIGN = re.compile(r"[^\w\s]|_")
_MARKS = re.compile(r"[\\`*\[\]<~$|&]|(?<![^\W_])_+|_+(?![^\W_])|(?<=\d)[.)](?=\s)|^[ \t]*[#>+=-]", re.MULTILINE)
"""Signs of Markdown; some are signs only at the beginning of a line, or beside a word."""


def sentence(text: str) -> str:
    """With a capital, unless it begins with a name."""
    first = text.partition(" ")[0]
    return text[:1].upper() + text[1:] if first.isalpha() else text


def part(show: Callable[P, None], every: float | None = None) -> Callable[P, None]:
    """A part of the page that is run alone, by itself every so many seconds.

    It has a container to itself: where it is run again before the page that was drawn is sent, the server leaves it out
    of that, and the browser gives its place to what stands behind it, which is then lost.
    """

    def shown(*args: P.args, **named: P.kwargs) -> None:
        with st.container():
            st.fragment(show, run_every=every)(*args, **named)

    return shown


@contextmanager
def told() -> Iterator[None]:
    """What goes wrong is said calmly, and the rest of the page stays."""
    try:
        yield
    except Unauthenticated:
        st.rerun()  # from its beginning, where whoever looks is asked for a key
    except RagforgeError as problem:
        show_problem(problem)


def show_problem(problem: RagforgeError) -> None:
    st.error(problem_text(problem), icon=":material/error:")


def empty(title: str, text: str) -> None:
    """Instead of a list that holds nothing: what would be there, and how to bring it."""
    with st.container(border=True):
        st.markdown(f"**{title}**")
        st.markdown(text)
