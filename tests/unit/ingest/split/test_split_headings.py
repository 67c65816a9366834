"""Headings found in Markdown, against a full CommonMark parser."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from ragforge.domain.titles import plain_title
from ragforge.ingest.split.markdown import scan
from tests.proof import count
from tests.unit.ingest.split.split_support import split_text

COMMONMARK = MarkdownIt("commonmark").enable("table")

LINES = st.sampled_from(
    (
        *(
            "# One",
            "## Two ##",
            "### Three",
            "###### Six",
            "####### Seven",
            "#No space",
            "#",
            "  ## Indented",
            "    # Code",
        ),
        *(
            "Title",
            "=====",
            "---",
            "--",
            "- - -",
            "***",
            "plain text",
            "more text, and more.",
            "",
            "",
            "",
            "",
            "\t# tab",
        ),
        *("```", "```python", "````", "~~~", "  ```", "   ```", "    ```", "``` not ` a fence", "# in fence?"),
        *(
            "- item",
            "* star",
            "+ plus",
            "1. first",
            "2. second",
            "7) seventh",
            "  continued",
            "   continued",
            "-",
            "  - nested",
        ),
        *("  # in item", "    # in nested", "- ```", "  ```", "- # heading in item", "1986 was a year", "    deep"),
        *(
            "> quote",
            "> # quoted",
            ">",
            "<!-- open",
            "close -->",
            "<!-- whole -->",
            "<div>",
            "</div>",
            "<pre>",
            "</pre>",
        ),
        *("<span>inline</span> text", "<b>", "| a | b |", "| --- | --- |", "a | b", "--- | ---", "| 1 | 2 |"),
        *("<?php", "?>", "<!DOCTYPE html>", "_____", "\\# escaped", "`code`", "*em*"),
    )
)


def headings_of(text: str) -> list[tuple[int, int]]:
    """Level and line of every heading that stands outside of lists and quotes."""
    tokens = COMMONMARK.parse(text)
    return [
        (token.map[0], int(token.tag[1]))
        for token in tokens
        if token.type == "heading_open" and token.level == 0 and token.map
    ]


@given(st.lists(LINES, max_size=14))
@settings(max_examples=count(133, 400), deadline=None, derandomize=True)
def test_headings_are_those_of_commonmark(lines: list[str]) -> None:
    text = "plain start\n\n" + "\n".join(lines) + "\n"
    found = [(text.count("\n", 0, heading.start), heading.level) for heading in scan(text).headings]
    assert found == headings_of(text)


@pytest.mark.parametrize(
    ("source", "title"),
    [
        ("Plain", "Plain"),
        ("**Bold** and _slanted_ `code_name`", "Bold and slanted code_name"),
        ("See [the page](https://example.org/x) ![image](y.png)", "See the page image"),
        ("What's next {#whatsnext}", "What's next"),
        ('<a name="x"></a>Anchored', "Anchored"),
        ("snake_case_name stays", "snake_case_name stays"),
        ("a \\# b", "a # b"),
        ("two\n  lines", "two lines"),
    ],
)
def test_titles_lose_their_markup(source: str, title: str) -> None:
    assert plain_title(source) == title


def test_titles_have_a_bounded_length() -> None:
    assert len(plain_title("word " * 5000)) <= 120


def test_front_matter_and_comments_hold_no_headings() -> None:
    text = "---\ntitle: x\n# comment\ndescription: >\n  # y\n---\n\n# Real\n\n<!-- # no\n\n# no -->\n\nEnd\n---\n"
    assert [heading.path for heading in scan(text).headings] == [("Real",), ("Real", "End")]


def test_a_rule_at_the_start_is_no_front_matter() -> None:
    assert [heading.path for heading in scan("---\n\n# Real\n\n---\n").headings] == [("Real",)]


def test_a_path_drops_the_headings_that_are_left() -> None:
    text = "# A\n\n## B\n\n#### C\n\n## D\n\n# E\n\nend\n"
    paths = [heading.path for heading in scan(text).headings]
    assert paths == [("A",), ("A", "B"), ("A", "B", "C"), ("A", "D"), ("E",)]


def test_an_unclosed_fence_runs_to_the_end() -> None:
    assert scan("# A\n\n```\n# b\n\n# c\n").headings[-1].path == ("A",)
    assert split_text("# A\n\n```\n# b\n").leaves[0].locator.path == ("A",)


@pytest.mark.parametrize(
    "line",
    ["# " + "<!--" * 240, "# a" + " " * 950 + "`", "# " + "[a](" * 230, "# " + "*_`" * 300, "# a" + "_" * 950 + "b"],
)
def test_hostile_headings_take_no_time(line: str) -> None:
    text = f"{line}\n" * (300_000 // len(line))
    began = time.thread_time()
    scan(text)
    assert time.thread_time() - began < 0.5
