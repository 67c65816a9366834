"""What may not leave: hidden characters, and addresses that no source holds."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragforge.answer.clean import Plain, find_link, links_in, trimmed
from tests.proof import count


def plain(*pieces: str) -> str:
    passing = Plain()
    return "".join(passing.feed(piece) for piece in pieces) + passing.feed("", final=True)


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("a\r\nb\rc", "a\nb\nc"),
        ("ht\u200btps", "https"),
        ("a\u200b\u200db", "ab"),
        ("é\u200dé", "é\u200dé"),
        ("hid\U000e0041den", "hidden"),
        ("&#104;&#x74;tp", "http"),
        ("&#104ttp", "http"),
        ("a&colon;b&sol;c&period;d", "a:b/c.d"),
        ("&#60;b&#x3e;", "&lt;b&gt;"),
        ("&lt; &amp; &copy; &unknown; & &#", "&lt; &amp; &copy; &unknown; & &#"),
        ("a&#8203;b", "ab"),
    ],
)
def test_the_text_as_a_reader_sees_it(written: str, shown: str) -> None:
    assert plain(written) == shown
    assert plain(*written) == shown


@settings(max_examples=count(100, 5_000))
@given(
    st.lists(st.sampled_from(["&", "#", "1", "04", ";", "x", "a", "amp", "\r", "\n", "\u200b", "\u200d", "é", "\x00"]))
)
def test_pieces_do_not_matter(pieces: list[str]) -> None:
    assert plain(*pieces) == plain("".join(pieces))


@pytest.mark.parametrize(
    "harmless",
    [
        "e.g.",
        "3.14",
        "v1.2.3",
        "src/main.py",
        "a:b",
        "12:30",
        "and/or",
        "C:\\a",
        "user.name",
        "README.md#use",
        "std::vector",
    ],
)
def test_this_is_no_address(harmless: str) -> None:
    assert find_link(harmless) == -1
    assert find_link(harmless, code=True) == -1


@pytest.mark.parametrize("code", ["self.net(x)", "a//b", "//comment", "//foo.bar()", "obj.name", "x.com"])
def test_in_code_less_is_one(code: str) -> None:
    assert find_link(code, code=True) == -1


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("https://a.b", 0),
        ("x=https://a.b", 2),
        ("javascript:x", 0),
        ("www.a", 0),
        ("a@b.org", 1),
        ("evil.com", 0),
        ("evil.io/x", 0),
        ("ｗｗｗ.a", 0),
        ("\\\\host\\x", 0),
        ("10.0.0.1:80", 0),
    ],
)
def test_this_is_one(text: str, at: int) -> None:
    assert find_link(text) == at


def test_addresses_of_the_sources() -> None:
    texts = [
        "See (https://a.example/b_(c)), or <https://d.example/?e=1&f=2>.",
        "Mail x@g.example; or [h](http://i.example).",
    ]
    assert links_in(texts) == {
        "https://a.example/b_(c)",
        "https://d.example/?e=1&f=2",
        "@g.example",
        "http://i.example",
    }
    assert trimmed("https://a.example/b_(c)),") == "https://a.example/b_(c)"
