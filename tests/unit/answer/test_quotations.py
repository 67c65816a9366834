"""What a section quotes without a model: only what surely tells it, in a form that can be read."""

from __future__ import annotations

import pytest

from ragforge.answer.quotations import Sought, bullets, focused, new_quotes, telling, titled
from ragforge.answer.quote import Quoted
from ragforge.domain.prompts import Source
from ragforge.retrieve.words import terms_of
from tests.unit.answer.support import groups_of, rare, source


def quoted(number: int, text: str, score: float = 1.0) -> Quoted:
    return Quoted(number, 0, len(text), text, score)


def found(name: str, text: str) -> Source:
    return source(0, text, name=name)


def sought(question: str, *texts: str) -> Sought:
    return Sought.of(question, groups_of(question), rare(question, texts), terms_of)


# -- what bears on a question


def test_what_stands_below_a_title_with_all_the_words_tells_them() -> None:
    question = "What are the project risks?"
    named = [
        found("project risks.md", "x"),
        found("a.md", "# Risks of the project\n\nx"),
        found("b.md", "# Risks\n\nx"),
    ]
    assert [each.name for each in titled(named, sought(question))] == ["project risks.md", "a.md"]


@pytest.mark.parametrize(
    ("question", "line", "held"),
    [
        ("What are the objectives?", "The objective is peace.", True),
        ("What are the objectives?", "Any objections against that?", False),
        ("What are the risks?", "One risk is left.", True),
        ("What can fail?", "Every tenth request failed.", True),
        ("What are the limitations?", "There is a limit.", False),
        ("Was sind die Ziele?", "Das Ziel ist Frieden.", True),
        ("目標は何ですか", "目標は平和です", True),
    ],
)
def test_a_word_is_held_in_any_form_but_not_by_a_false_friend(question: str, line: str, held: bool) -> None:
    assert (sought(question).held_by(line) > 0) is held


def test_a_brief_chooses_what_is_about_it_unless_nothing_is() -> None:
    lamps, chairs = found("lamps.md", "Lamps may break."), found("b.md", "Oak chairs are heavy.")
    assert focused([lamps, chairs], sought("oak chairs")) == [chairs]
    assert focused([lamps, chairs], sought("lamps")) == [lamps]
    assert focused([lamps, chairs], sought("the board of directors")) == [lamps, chairs]


# -- what is quoted


def test_quotations_are_list_items_with_their_markers() -> None:
    assert bullets([quoted(2, "One\nand the same."), quoted(1, "- item")]) == "- One and the same. [2]\n- item [1]"


def test_the_words_of_a_link_stay() -> None:
    assert bullets([quoted(1, "See [Returns](/returns) for more.")]) == "- See Returns for more. [1]"


def test_what_looks_like_a_marker_or_a_list_inside_of_a_sentence() -> None:
    assert (
        bullets([quoted(2, "*Delete* has 2 steps (see 1) + a proof.")])
        == "- *Delete* has 2 steps (see 1) + a proof. [2]"
    )
    assert bullets([quoted(2, "It is known [1], as was shown ([3],[4]).")]) == "- It is known, as was shown. [2]"
    assert bullets([quoted(2, "A claim (as in [3]).")]) == "- A claim (as in). [2]"
    assert bullets([quoted(2, "- It stays\n  *ready* and\n  `whole`.")]) == "- It stays *ready* and `whole`. [2]"


def test_table_rows_lists_and_code_stay_readable() -> None:
    assert bullets([quoted(1, "| Print | A label | must |")]) == "- Print, A label, must [1]"
    assert bullets([quoted(1, "Steps:\n- one\n- two")]) == "- Steps:\n  - one\n  - two [1]"
    assert bullets([quoted(1, "Run:\n```\nmake\n```")]) == "- Run:\n  ```\n  make\n  ```\n  [1]"
    assert bullets([quoted(1, "Run:\n```\nmake")]) == "- Run:\n  ```\n  make\n  ```\n  [1]"


def test_a_quotation_is_not_repeated_unless_there_is_no_other() -> None:
    before: set[str] = set()
    first = [quoted(1, "A."), quoted(1, "A. "), quoted(2, "A.")]
    assert [(each.source, each.text) for each in new_quotes(first, before)] == [(1, "A.")]
    assert [each.text for each in new_quotes([*first, quoted(2, "C.")], before)] == ["C."]
    assert [each.text for each in new_quotes(first, before)] == ["A."]


@pytest.mark.parametrize(
    ("text", "quote", "told"),
    [
        ("# Risks\nThe carrier may break down.", "The carrier may break down.", True),
        ("# Team\nAnna Petersen leads all of it.", "Anna Petersen leads all of it.", False),
        ("# Team\nThe main risk is the carrier.", "The main risk is the carrier.", True),
        ("# Team\nIs there any risk in all of this?", "Is there any risk in all of this?", False),
        ("# Team\nSome risk.", "Some risk.", False),
        ("# Risks\nrisk = Decimal('49.00') + risks", "risk = Decimal('49.00') + risks", False),
        ("# Team\n| Tobias Petersen | risk and insurance |", "| Tobias Petersen | risk and insurance |", False),
        ("# Risks\n| Tobias Petersen | the carrier's way |", "| Tobias Petersen | the carrier's way |", True),
        ("# Risks\n" + "word " * 70, "word " * 70, False),
        (
            "# Risks\nThe carrier\nimports goods, and\nreturn is slow.",
            "The carrier\nimports goods, and\nreturn is slow.",
            True,
        ),
        ("# Risks\n-q, --quiet      No risk and no messages", "-q, --quiet      No risk and no messages", False),
        ("# Risks\n<!-- a note nobody should see -->", "<!-- a note nobody should see -->", False),
        ("# Plan: goals, risks, tests, checks and figures\nAnna leads it all.", "Anna leads it all.", False),
    ],
)
def test_only_statements_on_the_question_tell(text: str, quote: str, told: bool) -> None:
    known = source(1, text)
    quotes = [Quoted(1, text.index(quote), len(text), quote, 1.0)]
    assert bool([*telling(quotes, known, sought("What are the risks?"))]) is told


def test_the_rarer_word_of_a_question_counts_more() -> None:
    texts = ["Customers buy chairs.", "Customers buy lamps.", "Customers complain."]
    question = sought("What do customers complain about?", *texts)
    assert question.held_by(texts[0]) < 0.5 < question.held_by(texts[2])
