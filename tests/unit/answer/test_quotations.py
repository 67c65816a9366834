"""What a section quotes without a model: only what surely tells it, in a form that can be read."""

from __future__ import annotations

import pytest

from ragforge.answer.quotations import Sought, bullets, chosen, focused, forms_in, telling, words_of
from ragforge.answer.quote import Quoted
from ragforge.domain.prompts import Source
from ragforge.retrieve.words import query_words, terms_of
from tests.unit.answer.support import rare, source


def quoted(number: int, text: str, score: float = 1.0) -> Quoted:
    return Quoted(number, 0, len(text), text, score)


def found(name: str, text: str) -> Source:
    return source(0, text, name=name)


def sought(question: str, *texts: str) -> Sought:
    groups = query_words(question, ("de" if question.startswith("Was ") else "en",)).groups
    return Sought.of(question, groups, rare(question, texts), terms_of)


# -- what bears on a question


@pytest.mark.parametrize(
    ("question", "title", "says"),
    [
        ("What are the risks?", "Risks", True),
        ("What are the risks?", "3. Risks", True),
        ("What are the risks?", "2.4 Main project risks { #risks }", True),
        ("What are the risks?", "Risks and how we meet them", True),
        ("What are the steps?", "Step 4: Open the door", False),
        ("What are the risks?", "Risk insurance", False),
        ("What are the risks?", "Settings and risks", False),
        ("What are the risks?", "Risks in path operations", False),
        ("What are the risks?", "Risks of the lamps", True),  # as the brief says
        ("What are the project risks?", "Risks", False),
        ("What are the project risks?", "Risks of the project", True),
        ("How is quality measured?", "Water quality", False),
        ("What are the tests?", "Test it", False),
        ("Which questions are open?", "Open questions", True),
        ("What are the next steps?", "4. Next steps", True),
        ("How does it work?", "How it works", True),
        ("How does it work?", "Work", True),
        ("Was sind die Ziele?", "Unsere Ziele", True),
        ("目標", "目標", True),
    ],
)
def test_a_title_says_the_words_and_nothing_else_that_tells(question: str, title: str, says: bool) -> None:
    assert sought(question).is_title(title, forms_in("lamps")) is says


@pytest.mark.parametrize(
    ("question", "sentence", "told"),
    [
        ("What are the risks?", "The main risk is the carrier.", True),
        ("What are the risks?", "Risks: the carrier, the weather.", True),
        ("What is the aim?", "On-time delivery fell to 93 percent; the aim is 96 percent.", True),
        ("What is the purpose?", "The purpose of the project is to sell chairs.", True),
        ("What is the budget?", "The budget for external testing is raised to 60,000 euros.", True),
        ("What is delayed?", "The interface to the warehouse is delayed by three weeks.", True),
        ("What is undecided?", "It is still undecided who pays.", True),
        ("Was ist das Ziel?", "Das Ziel des Projekts ist Frieden.", True),
        ("What is the outlook?", "In the north, the outlook figures were compiled from 828 points.", False),
        ("What is delayed?", "The interface is not delayed.", False),
        ("What is delayed?", "If the interface is delayed, call us.", False),
        ("What is the test plan?", "Priya becomes the owner of the training plan.", False),
        ("What are the risks?", "The risk manager is Anna Petersen.", False),
        ("What are the interfaces?", "The volume plugin interfaces are new.", False),
        ("What can fail?", "The command should fail as the copy is read-only.", False),
        ("What are the interfaces?", "The owner of the interface is Anna.", False),
        ("What are the dependencies?", "These dependencies are resolved as others are.", False),
        ("What are the steps?", "The first step is to open the door.", False),
        ("What are the next steps?", "The next step is to open the door.", True),
        ("How does it work?", "Working from abroad is possible.", False),
        ("When does it begin?", "This agreement begins on 1 February 2026.", False),
        ("What must it do?", "The pump must not run dry.", False),
    ],
)
def test_a_sentence_tells_what_it_is_about_and_not_what_it_mentions(question: str, sentence: str, told: bool) -> None:
    assert sought(question).is_told_by(sentence) is told


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


def test_a_brief_chooses_what_is_about_it() -> None:
    lamps, chairs = found("lamps.md", "Lamps may break."), found("b.md", "Oak chairs are heavy.")
    assert focused([lamps, chairs], sought("oak chairs")) == [chairs]
    assert focused([lamps, chairs], sought("lamps")) == [lamps]
    assert focused([lamps, chairs], sought("the board of directors")) == []


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
    first = [quoted(1, "A."), quoted(1, "A. "), quoted(2, "A.")]
    best, more = chosen(first, set(), 5)
    assert ([(each.source, each.text) for each in best], more) == ([(1, "A.")], 0)
    before = set(map(words_of, best))
    assert [each.text for each in chosen([*first, quoted(2, "C.")], before, 5)[0]] == ["C."]
    assert [each.text for each in chosen(first, before, 5)[0]] == ["A."]


def test_of_too_many_each_source_gives_in_turn_first_what_stands_below_a_title() -> None:
    many = [Quoted(1, place, place + 1, f"one {place}", 1.0) for place in range(4)]
    others = [Quoted(2, 0, 1, "stated", 0.0), Quoted(2, 5, 6, "below", 1.0)]
    best, more = chosen([*many, *others], set(), 3)
    assert ([each.text for each in best], more) == (["one 0", "one 1", "below"], 3)


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
    quotes = [each.text for each in telling(source(1, text), sought("What are the risks?"))]
    assert (quote.strip() in quotes) is told


MINUTES = """Minutes of the committee
Date: 4 May 2026.

1. Status
The interface is late by three weeks.

2. Risks
The weekend collides with the stocktaking.
Who can move it?

3. Next steps
- Jonas sends the plan.

1. Public
2. Internal
3. Risks
"""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (MINUTES, ["The weekend collides with the stocktaking.", "Who can move it?"]),
        ("Risks\n=====\n\nIt may rain.\n\nTeam\n====\n\nAnna leads.", ["It may rain."]),
        ("Intro.\n\n**Risks**\n\nIt may rain.\n\n**Team**\n\nAnna leads.", ["It may rain."]),
        ("Intro.\n\nRisks:\n- rain\n- wind\n\nBest regards", ["rain", "wind"]),
        ("RISKS\nIt may rain.\n\nTEAM\nAnna leads.", ["It may rain."]),
        ("Risks\n\nIt may rain.\n\nTeam\n\nAnna leads.", ["It may rain."]),
        ("# Risks\n## Weather\nIt may rain.\n# Team\nAnna leads.", ["It may rain."]),
        ("```\n# Risks\n```\nAnna leads.", []),
    ],
)
def test_headings_of_plain_text_are_seen_and_items_of_lists_are_none(text: str, told: list[str]) -> None:
    assert [each.text for each in telling(source(1, text), sought("What are the risks?"))] == told


def test_the_name_of_a_file_and_the_headings_above_a_passage_are_titles_too() -> None:
    risks = sought("What are the risks?")
    for known in (source(1, "It may rain.", name="risks-2026.md"), source(1, "It may rain.", path=("Plan", "Risks"))):
        assert [each.text for each in telling(known, risks)] == ["It may rain."]
    inner = source(1, "# Plan\nAnna leads.\n## Risks\nIt may rain.", path=("Plan", "Risks"))
    assert [each.text for each in telling(inner, risks)] == ["It may rain."], "the heading is in the text"


def test_a_list_comes_with_the_sentence_that_announces_it() -> None:
    text = "# Plan\nThe main risks for us are:\n\n- rain\n- wind\n\nAnna leads."
    assert [each.text for each in telling(source(1, text), sought("What are the risks?"))] == [
        "The main risks for us are:\n\n- rain\n- wind"
    ]


def test_the_rarer_word_of_a_question_counts_more() -> None:
    texts = ["Customers buy chairs.", "Customers buy lamps.", "Customers complain."]
    question = sought("What do customers complain about?", *texts)
    assert question.held_by(texts[0]) < 0.5 < question.held_by(texts[2])
