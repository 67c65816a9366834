"""Under which headings words of a source stand, whatever part of its document the source is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragforge.answer.sources import path_at, paths_in
from tests.proof import count
from tests.unit.answer.support import source

REPORT = (
    "# Report\n\nIntro.\n\n## 1. Rain\n\n### 1.4 Skåne\n\nMuch rain.\n\n### 1.5 Gotland\n\nLittle rain.\n\n"
    "## 2. Snow #\n\nNo snow.\n\n# Annex\n\nFigures.\n"
)


def under(words: str, text: str, path: Sequence[str] = (), name: str = "report.md", chunk: str = "") -> tuple[str, ...]:
    """The headings above some words; `chunk` are those that the found chunk begins with."""
    begin = text.index(chunk)
    part = replace(source(1, text, name=name, path=path), spans=(("c", begin, len(text)),))
    return path_at(paths_in(part), text.index(words))


@pytest.mark.parametrize(
    ("words", "path"),
    [
        ("Intro", ("Report",)),
        ("Much", ("Report", "1. Rain", "1.4 Skåne")),
        ("Little", ("Report", "1. Rain", "1.5 Gotland")),
        ("No snow", ("Report", "2. Snow")),
        ("Figures", ("Annex",)),
    ],
)
def test_a_heading_replaces_its_siblings(words: str, path: tuple[str, ...]) -> None:
    assert under(words, REPORT, ["Report"]) == path
    inner = REPORT[REPORT.index("### 1.4") :]
    if words in inner:
        assert under(words, inner, ["Report", "1. Rain", "1.4 Skåne"]) == path
    middle = REPORT[REPORT.index("Much") :]
    if words in middle:
        assert under(words, middle, ["Report", "1. Rain", "1.4 Skåne"]) == path


def test_the_path_of_a_source_is_that_of_its_chunk_and_not_of_its_first_words() -> None:
    inner = REPORT[REPORT.index("### 1.4") :]
    path = ["Report", "1. Rain", "1.5 Gotland"]
    assert under("Much", inner, path, chunk="### 1.5") == ("Report", "1. Rain", "1.4 Skåne")
    assert under("Little", inner, path, chunk="### 1.5") == ("Report", "1. Rain", "1.5 Gotland")
    assert under("Little", inner, ["Report", "1. Rain"]) == ("Report", "1. Rain", "1.5 Gotland")  # what several share


def test_no_heading_stays_that_may_have_ended() -> None:
    text = "##### Deep\n\nThis.\n\n#### Deep, too\n\nThat.\n\n### Higher\n\nAll.\n"
    assert under("This", text, ["Top", "Middle", "Deep"]) == ("Top", "Middle", "Deep")
    assert under("That", text, ["Top", "Middle", "Deep"]) == ("Top", "Deep, too")
    assert under("All", text, ["Top", "Middle", "Deep"]) == ("Higher",)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("Offices\n=======\n\nIntro.\n\nBonn\n----\n\nwords", ("Offices", "Bonn")),
        ("# Code\n\n```sh\n# no heading\n```\n\nwords", ("Code",)),
        ("# The [guide](https://a.example/x) to **chairs**\n\nwords", ("The guide to chairs",)),
        ("Top\n\n---\n\nwords", ()),
        ("| a | b |\n|---|---|\n\nwords", ()),
        ("#tag\n\nwords", ()),
        ("#\n\nwords", ()),
    ],
)
def test_what_is_a_heading(text: str, path: tuple[str, ...]) -> None:
    assert under("words", text, path[:1]) == path


@pytest.mark.parametrize("name", ["app.py", "deploy/Makefile", "settings.TOML", ".env"])
def test_remarks_in_code_are_no_headings(name: str) -> None:
    text = "import os\n\n# Helpers\n\nwords = 1\n"
    assert under("words", text, ["main"], name=name) == ("main",)


titles = st.sampled_from(["Rain", "Snow", "Wind", "Sun", "Fog"])


@settings(max_examples=count(50, 150), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), titles), min_size=1, max_size=9), st.data())
def test_wherever_a_text_is_cut_the_path_is_that_of_the_whole(
    steps: list[tuple[int, str]], data: st.DataObject
) -> None:
    level, text, starts, paths = 0, "", [], []
    opened: list[str] = []
    for number, (step, words) in enumerate(steps):
        level = min(6, level + 1) if step == 0 or level == 0 else max(1, level + 1 - step)
        opened = [*opened[: level - 1], f"{number} {words}"]
        starts.append(len(text))
        paths.append(tuple(opened))
        text += f"{'#' * level} {opened[-1]}\n\nText {number}.\n\n"
    cut = data.draw(st.integers(0, len(starts) - 1))
    after = data.draw(st.booleans())  # whether the piece begins below its heading
    begin = text.index(f"Text {cut}.") if after else starts[cut]
    piece = text[begin:]
    for number in range(cut, len(starts)):
        assert under(f"Text {number}.", piece, paths[cut]) == paths[number]
