from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragforge.answer.citations import check
from ragforge.answer.quote import Quoted, quote
from ragforge.answer.shown import shown
from ragforge.domain.prompts import Source
from ragforge.retrieve.words import terms_of
from tests.unit.answer.support import groups_of, rare, source


def quoted(text: str, *pieces: str) -> str:
    """Pieces of a text as an answer."""
    found = [Quoted(1, at, at + len(piece), piece, 1.0) for piece in pieces if (at := text.index(piece)) >= 0]
    return shown(found, [source(1, text)])


TABLE = """| Group | Return within | Note |
|---|---|---|
| Chairs | 60 days | |
| Lamps \\| bulbs | **30 days** | boxed |
"""


def test_a_row_has_the_names_of_its_columns() -> None:
    assert quoted(TABLE, "| Chairs | 60 days | |") == "Group: Chairs; Return within: 60 days [1]"
    lamps = TABLE.splitlines()[3]
    assert quoted(TABLE, lamps) == "Group: Lamps | bulbs; Return within: 30 days; Note: boxed [1]"
    assert quoted("| Holm | 1090 |\n| Sylt | 649 |", "| Holm | 1090 |") == "Holm, 1090 [1]"
    assert quoted(TABLE, "| Chairs | 60 days | |", lamps).count("\n\n") == 1, "rows are no sentences of one paragraph"


def test_sentences_that_follow_each_other_make_a_paragraph_and_each_has_its_marker() -> None:
    text = "Yes. The oil is safe for all children. It cures for three days.\n\nOther things are not."
    assert quoted(text, "Yes.", "The oil is safe for all children.") == "Yes. The oil is safe for all children. [1]"
    assert quoted(text, "The oil is safe for all children.", "It cures for three days.") == (
        "The oil is safe for all children. [1] It cures for three days. [1]"
    )
    assert quoted(text, "It cures for three days.", "Other things are not.") == (
        "It cures for three days. [1]\n\nOther things are not. [1]"
    )


def test_items_without_a_line_that_announces_them_are_a_list_and_what_is_left_out_is_said() -> None:
    text = "## Steps\n\n1. Open the box. Look inside it.\n2. Close it.\n3. Go home.\n"
    listed = text[text.index("Open") : text.index("\n3.")]
    whole = Quoted(1, text.index("Open"), text.index("\n3."), listed, 1.0, more=1)
    assert shown([whole], [source(1, text)]) == (
        "- Open the box. [1] Look inside it. [1]\n- Close it. [1]\n- … and 1 more"
    )  # fmt: skip
    rows = "\n".join(TABLE.splitlines()[2:])
    assert quoted(TABLE, rows).startswith("- Group: Chairs; Return within: 60 days [1]\n- Group: Lamps")


def test_a_list_is_a_list_and_code_is_code() -> None:
    text = "Wipe it:\n\n- in the *direction* of the grain\n- never with silicone\n"
    assert quoted(text, text.strip()) == (
        "Wipe it:\n- in the direction of the grain [1]\n- never with silicone [1]"
    )  # fmt: skip
    text = "Run it like this:\n\n```python\n    if ready:\n        run()\n```\n"
    assert quoted(text, text[: text.index("\n```\n")]) == (
        "Run it like this: [1]\n```\nif ready:\n    run()\n```"
    )  # fmt: skip
    assert quoted(text, "if ready:\n        run()") == "```\nif ready:\n    run()\n```\n[1]"
    assert quoted("```\nfrom here import there\n```", "from here import there") == "`from here import there` [1]"


def test_a_value_is_told_with_its_keys() -> None:
    text = "climate:\n  humidity:\n    alarm_below: 38\n"
    assert quoted(text, "alarm_below: 38") == "climate: humidity: alarm_below: 38 [1]"
    long = "This is what you should take with you on a journey of several days:\n\n- a lamp for the night\n"
    assert quoted(long, "a lamp for the night") == "a lamp for the night [1]"


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("See [the **rules**](https://evil.example/x) now.", "See the rules now."),
        ("It **was** so [3], and *is* [4][5].", "It was so, and is."),
        ("Use `a[0]` and `__init__` here.", "Use `a[0]` and `__init__` here."),
        ("A file snake_case_name and 2 * 3 * 4.", "A file snake_case_name and 2 * 3 * 4."),
        ("Two\n  lines<br>of text.", "Two lines of text."),
    ],
)
def test_prose_is_without_links_notes_and_emphasis(written: str, read: str) -> None:
    assert quoted(written, written) == f"{read} [1]"


def test_what_was_cut_off_shows() -> None:
    text = "First this clause stands here, then another one follows it, and a third one ends it."
    assert quoted(text, "then another one follows it,") == "… then another one follows it, … [1]"


def test_nothing_shown_is_not_in_the_source_and_every_claim_is_cited() -> None:
    steps = "It takes three days:\n\n- on Monday we write the note\n- on Tuesday we collect the piece\n"
    text = f"# Returns\n\n{TABLE}\n{steps}"
    where = Source(1, "c", ("c",), "d", "returns.md", source(1, "").locator, "", 1.0, text, 0)
    for question in ("Within how many days can chairs be returned?", "What do you do on Tuesday?", "lamps"):
        quotes = quote(question, groups_of(question), rare(question, [text], rows=100), [where], terms_of)
        assert quotes
        checked = check(shown(quotes, [where]), [where], terms_of)
        assert checked.citations
        assert all(citation.proved for citation in checked.citations)
        assert (checked.unproved, checked.removed, checked.uncited) == ((), (), 0)


PIECES = (
    "A gate opened. ",
    "keys:\n",
    "  a: 5\n",
    "| a | b |\n",
    "|---|---|\n",
    "```\n",
    "x = 1\n",
    "\n",
    "- item [7]\n",
    "`",
)


@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join), st.integers(1, 3))
def test_every_quotation_is_shown_with_its_marker_alone(text: str, sentences: int) -> None:
    sources = [source(1, text)]
    quotes = quote("gate", groups_of("gate"), {"gate": 1.0}, sources, terms_of, sentences=sentences)
    answer = shown(quotes, sources)
    assert bool(answer) == bool(quotes)
    assert not quotes or "[1]" in answer
    outside = re.sub(r"(?s)```.*?```|`[^`\n]*`", "", answer)
    assert "[7]" not in outside or "`" in text
