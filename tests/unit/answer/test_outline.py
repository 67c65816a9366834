"""Outlines: what a file says, what is wrong with it, and how a text is held against it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragforge.answer.outline import SOURCES, STRUCTURED, Outline, Part, differences, headings, kinds, outline
from ragforge.errors import UserError

TWO = Outline("x", "X", (Part("Overview", 1, "", ("q",), "i"), Part("Goals", 2, "", ("q",), "i")))


def test_the_shipped_kinds() -> None:
    assert set(kinds()) == {"blueprint", "build-plan", "pdr", "workflow"}
    blueprint = outline("blueprint")
    assert [(part.level, part.heading) for part in blueprint.parts] == [
        (1, "Overview"),
        (2, "Goals"),
        (2, "Architecture"),
        (2, "Features"),
        (2, "Risks"),
        (2, "Next Steps"),
    ]
    for kind in kinds():
        shape = outline(kind)
        assert shape.about and STRUCTURED[0] <= shape.sampling.temperature <= STRUCTURED[1]
        assert all(part.says and part.questions and part.ingest for part in shape.parts)


def test_a_file_of_the_users_own(tmp_path: Path) -> None:
    (tmp_path / "memo.md").write_text(
        "---\ntitle: Memo\nmax_tokens: 200\n---\n"
        "# What\nSay it\nshortly.\n- What happened?\n* When?\n> minutes\n> or mail\n"
    )
    memo = outline("memo", tmp_path)
    assert memo.parts == (Part("What", 1, "Say it shortly.", ("What happened?", "When?"), "minutes or mail"),)
    assert (memo.title, memo.sampling.max_tokens) == ("Memo", 200)
    assert "memo" in kinds(tmp_path) and "blueprint" in kinds(tmp_path)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no heading"),
        ("just text", "stands above the first heading"),
        ("# A\n", "'A' has nothing to search for"),
        ("# A\n- q\n## A\n- q\n", "'A' is there already"),
        ("# A\n- q\n## Sources\n- q\n", "'Sources' is there already"),
        ("## A\n- q\n", "2 levels deep"),
        ("# A\n- q\n### B\n- q\n", "3 levels deep"),
        ("#\n- q\n", "no words"),
        ("---\ntemperature: 0.5\n---\n# A\n- q\n", "temperature is '0.5'"),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "mine.md").write_text(text)
    with pytest.raises(UserError) as problem:
        outline("mine", tmp_path)
    assert told in problem.value.message
    assert problem.value.hint


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("# Overview\nx\n## Goals\ny\n", []),
        (f"# Overview\nx\n## Goals\ny\n## {SOURCES}\n1. a\n", []),
        ("# Overview\nx\n", ["the section “Goals” is missing"]),
        ("# Overview\nx\n## Goals\n\n", ["the section “Goals” is empty"]),
        ("## Goals\ny\n# Overview\nx\n", ["“Goals” is out of order"]),
        ("# Overview\nx\n## Goals\ny\n## Prices\nz\n", ["the heading “Prices” is not in the outline"]),
        (
            "# Overview\nx\n# Goals\ny\n",
            ["the section “Goals” is missing", "the heading “Goals” is not in the outline"],
        ),
        ("# Overview\nx\n## Goals\ny\n## Goals\nz\n", ["“Goals” is out of order"]),
        ("# Overview\nx\n```\n## Goals\n```\n", ["the section “Goals” is missing"]),
        ("# Overview\n~~~\n# code\n```\n~~~\n   ## Goals ##\ny", []),
    ],
)
def test_differences(text: str, told: list[str]) -> None:
    assert differences(TWO, text) == told


def test_headings_know_code_and_closing_marks() -> None:
    text = "# A #\n#no\n    # code\n``` x\n# in code\n````\n## B\n"
    assert [(level, name) for level, name, _ in headings(text)] == [(1, "A"), (2, "B")]
