"""Markdown stays as it is; its title is found."""

from __future__ import annotations

import time

import pytest

from ragforge.domain.documents import TextKind
from ragforge.ingest.parse.markdown import parse


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ('---\ntitle: "Refunds"\ntags: [a]\n---\n# Other\n', "Refunds"),
        ("---\nauthor: me\n---\n\n# Heading\n", "Heading"),
        ("intro\n\n## Second level ##\n", "Second level"),
        ("```sh\n# no heading\n```\n\n# Yes\n", "Yes"),
        ("Big Title\n=========\n", "Big Title"),
        ("# **Bold** `code` and [a link](https://x.y)\n", "Bold code and a link"),
        ("---\n\nonly a rule\n", None),
        ("- a list\n---\n", None),
        ("#hashtag\nwords", None),
        ("", None),
    ],
)
def test_title(text: str, title: str | None) -> None:
    assert parse(text.encode(), "a.md").title == title


def test_text_is_kept_whole() -> None:
    text = "---\ntitle: T\n---\n\n# H\n\n\tcode  \n\n| a | b |\n| - | - |\n"
    parsed = parse(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode(), "a.md")
    assert (parsed.text, parsed.kind, parsed.notes) == (text, TextKind.PROSE, ())


def test_other_encodings() -> None:
    parsed = parse("# Überschrift\n\nSchöne Grüße\n".encode("cp1252"), "a.md")
    assert parsed.title == "Überschrift"
    assert parsed.notes == ("encoding guessed: windows-1252",)


@pytest.mark.parametrize("line", ["Some words – with “quotes” and a [link](x).\n", "Plain words and nothing more.\n"])
def test_is_quick(line: str) -> None:
    data = (line * 250).encode()
    started = time.thread_time()
    for _ in range(100):
        parse(data, "a.md")
    assert (time.thread_time() - started) / 100 < 0.002


@pytest.mark.timeout(20)
@pytest.mark.parametrize("text", ["---\ntitle: {}x\n---\n", "# {}x", "{}"])
@pytest.mark.parametrize("piece", [" ", "[", "#", "`", "![](", "---\n"])
def test_hostile_repetition_takes_linear_time(text: str, piece: str) -> None:
    assert parse(text.format(piece * 19_000).encode(), "a.md").text
