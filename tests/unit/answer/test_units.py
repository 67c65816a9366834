from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ragforge.answer.units import Unit, announced, is_row, items, units


def texts(text: str) -> list[str]:
    return [text[unit.start : unit.end] for unit in units(text)]


def above(text: str, unit: Unit) -> list[str]:
    return [text[slice(*span)] for span in unit.above]


def under(text: str, unit: Unit) -> list[str]:
    return [text[slice(*span)] for span in unit.under]


def test_wrapped_prose_is_cut_at_sentences_alone() -> None:
    text = "Dr. Meyer pays 3.50 EUR, e.g. for\nbread at No. 5. She was born\nin Flensburg (U.S. citizens were not).\n"
    assert texts(text) == [
        "Dr. Meyer pays 3.50 EUR, e.g. for\nbread at No. 5.",
        "She was born\nin Flensburg (U.S. citizens were not).",
    ]


def test_items_are_quoted_without_their_markers_and_with_their_continuation() -> None:
    text = "Steps:\n\n1. Open the box.\n2. Take the key and\n   turn it.\n- [x] Done\n> Said so.\n"
    assert texts(text) == ["Steps:", "Open the box.", "Take the key and\n   turn it.", "Done", "Said so."]


def test_rows_stand_under_the_header_of_their_table() -> None:
    text = "# Guarantee\n\n| Part | Years |\n|---|---|\n| Motors | 5 |\n| Frames | 10 |\n\nAfterwards none.\n"
    found = units(text)
    assert [text[each.start : each.end] for each in found] == ["| Motors | 5 |", "| Frames | 10 |", "Afterwards none."]
    assert [above(text, each) for each in found] == [["# Guarantee", "| Part | Years |"]] * 2 + [["# Guarantee"]]


def test_rows_without_a_header_stand_under_the_heading() -> None:
    text = "## Prices\n| Holm | 1090 |\n| Sylt | 649 |"
    assert [above(text, each) for each in units(text)] == [["## Prices"]] * 2


def test_short_code_is_one_piece_and_long_code_its_lines() -> None:
    short = "Run it:\n\n```console\n$ make\n\n$ make test\n```\n"
    assert texts(short) == ["Run it:", "$ make\n\n$ make test"]
    assert [each.leads for each in units(short)] == [True, False]
    lines = [f"x{number} = {number}" for number in range(20)]
    assert texts("~~~\n" + "\n".join(lines)) == lines, "a fence that is never closed ends with the text"


def test_lines_that_are_records_are_apart() -> None:
    assert texts("name: Handewitt\naddress: Am Holzlager 4\n") == ["name: Handewitt", "address: Am Holzlager 4"]
    table = "Property Value\nLoad at rest 120 kg\nSpeed 38 mm per second, measured without any load on the top"
    assert texts(table) == table.split("\n")


def test_speakers_are_apart() -> None:
    text = "Mara Jensen: Good morning to all of you, and\nwelcome.\nJonas: Thanks a lot."
    assert texts(text) == ["Mara Jensen: Good morning to all of you, and\nwelcome.", "Jonas: Thanks a lot."]


def test_sentences_without_spaces() -> None:
    assert texts("保修期为两年。退货需在三十天内！「好。」他说。") == [
        "保修期为两年。",
        "退货需在三十天内！",
        "「好。」",
        "他说。",
    ]


def test_code_without_a_fence_is_kept_together() -> None:
    code = "def cost(order):\n    base = Decimal(0)\n    return base"
    assert texts(f"{code}\n\nThat is all.") == [code, "That is all."]


def test_prose_whose_lines_begin_like_code_is_no_code() -> None:
    text = "we had too many discussions. From June on the rule is simple and the same\nfor everything we sell:\n"
    assert [each.code for each in units(text)] == [False, False]
    text = "The van comes on the day that was agreed upon with us, and waits\nif nobody is there (at most an hour),\n"
    assert [each.code for each in units(text)] == [False]
    code = "for item in items:\n    if not item:\n        continue\n    print(item)"
    assert [each.code for each in units(code)] == [True]


def test_what_a_colon_announces_ends_with_its_indent_or_its_heading() -> None:
    text = "Do this:\n\n- first\n- second\n\n# Other\n\nNot this.\n"
    found = units(text)
    assert [text[each.start : each.end] for each in announced(text, found, 0)] == ["first", "second"]
    settings = "humidity:\n  min: 45\n  max: 55\nalarm: on\n"
    found = units(settings)
    assert [settings[each.start : each.end] for each in announced(settings, found, 0)] == ["min: 45", "max: 55"]
    assert list(announced(settings, found, 1)) == []


def test_a_value_stands_under_its_keys_and_an_item_under_what_announces_it() -> None:
    text = "climate:\n  humidity:\n    min: 45\n  alarm: on\nstock: 30\n"
    assert [under(text, each) for each in units(text)] == [
        [],
        ["climate:"],
        ["climate:", "humidity:"],
        ["climate:"],
        [],
    ]
    text = "Take with you:\n\n- a key\n- a lamp\n\nGo home. Sleep well.\n"
    assert [under(text, each) for each in units(text)] == [[], ["Take with you:"], ["Take with you:"], [], []]
    text = "    deep:\n\n# Other\n\n        code under another heading\n"
    assert [under(text, each) for each in units(text)] == [[], []]


def test_a_table_is_announced_with_all_its_rows_and_nothing_after_it() -> None:
    table = "| Part | Years |\n|---|---|\n| Motors | 5 |\n| Frames | 10 |\n"
    for heading in ("", "# Guarantee\n\n"):
        text = f"{heading}We guarantee:\n\n{table}\nAfterwards none.\n"
        found = units(text)
        rows = [text[each.start : each.end] for each in announced(text, found, 0)]
        assert rows == ["| Motors | 5 |", "| Frames | 10 |"]
        assert [is_row(text, each) for each in found] == [False, True, True, False]


def test_lines_for_the_program_that_makes_pages_are_nothing_to_quote() -> None:
    text = (
        "/// note\n\nDeclare it like this:\n\n{* ../docs_src/tutorial.py hl[3:4] *}\n\n![a picture](img/one.png)\n\n"
        '///\n\n<div class="termy">\n\n```console\n$ run\n```\n\n</div>\n\nIt is typed.\n'
    )
    found = units(text)
    assert texts(text) == ["Declare it like this:", "$ run", "It is typed."]
    assert [each.code for each in found] == [False, True, False]
    assert list(announced(text, found, 0)) == [], "what it announces is in another file"
    assert texts("Run it:\n\n<div>\n\n```\n$ run\n```\n")[1] == "$ run"


def test_lines_of_a_plain_text_that_only_name_what_follows_are_titles() -> None:
    text = (
        "Minutes of the board (Delta)\nDate: 4 May 2026.\n\n1. Status\nAll is well.\n\n2. Steps\n- Go home.\n\n"
        "1. Public\n2. Internal\n\nEvery day\nWipe it.\n"
    )
    found = units(text)
    assert [text[each.start : each.end] for each in found if each.title] == [
        "Minutes of the board (Delta)",
        "Status",
        "Steps",
        "Every day",
    ]
    assert above(text, found[-1]) == ["Minutes of the board (Delta)", "Every day"]
    assert not any(each.title for each in units("Call Bob tomorrow")), "it names nothing that follows"
    assert not any(each.title for each in units("# Minutes\n\nStatus\nAll is well.\n")), "here, headings have signs"


def test_the_items_of_a_list_or_table() -> None:
    text = "Goals:\n\n- One. More of it.\n- Two\n  - deeper\n- Three\n\nAfterwards. None.\n"
    found = units(text)
    whole = ["One. More of it.", "Two\n  - deeper", "Three"]
    for place in range(1, 4):
        assert [text[slice(*span)] for span in items(text, found, place)] == whole
    assert items(text, found, 0) == items(text, found, len(found) - 1) == []
    table = "| Part | Years |\n|---|---|\n| Motors | 5 |\n| Frames | 10 |\n"
    assert [table[slice(*span)] for span in items(table, units(table), 1)] == ["| Motors | 5 |", "| Frames | 10 |"]


def test_every_sentence_of_an_item_stands_under_what_announces_it() -> None:
    text = "Take with you:\n\n- A key. It is red.\n- A lamp.\n"
    assert [under(text, each) for each in units(text)] == [[], *[["Take with you:"]] * 3]


def test_nothing_to_quote() -> None:
    assert units("") == units("\n\n---\n# Only a heading\n***\n|---|\n") == []


PIECES = (
    "A b. ",
    "c\n",
    "\n",
    "# h\n",
    "- i ",
    "| a | b |\n",
    "|---|---|\n",
    "```\n",
    "1. ",
    "> ",
    "é。",
    "x: ",
    "\t",
    " ",
)


@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=8)), max_size=40).map("".join))
def test_units_are_in_order_apart_trimmed_and_lose_no_sentence(text: str) -> None:
    end = 0
    for unit in units(text):
        quoted = text[unit.start : unit.end]
        assert end <= unit.start < unit.end <= len(text)
        assert quoted == quoted.strip()
        assert any(sign.isalnum() for sign in quoted)
        assert all(0 <= first < last <= unit.start for first, last in (*unit.above, *unit.under))
        end = unit.end


@given(st.lists(st.text("abcdefg hij", min_size=1, max_size=30).map(str.strip).filter(bool), min_size=1, max_size=8))
def test_every_letter_of_plain_prose_is_in_a_unit(sentences: list[str]) -> None:
    text = " ".join(f"{sentence.capitalize()}." for sentence in sentences)
    assert "".join("".join(texts(text)).split()) == "".join(text.split())
