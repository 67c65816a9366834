from __future__ import annotations

import time
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragforge.answer.quote import LIST_ITEMS, LIST_WORDS, Quoted, quote, word_count
from ragforge.domain.prompts import Source
from ragforge.retrieve.words import terms_of
from tests.unit.answer.support import groups_of, rare, source

HANDBOOK = """# Employee handbook

Welcome to Nordlicht. The company was founded in 1987 by Inge and Klaus Petersen; since 2019 their daughter Inga
leads it. We are 164 people who build furniture in Flensburg and sell it in Hamburg.

## Holidays

You have 30 days of holiday a year. Ask for holidays in the portal. Days of the old year can be taken until 31 March.

| Occasion | Days |
|---|---|
| Your wedding | 2 |
| Moving house | 1 |
"""
FAQ = """### Where do you deliver to?

To Germany, Denmark and Austria. The islands cost EUR 38 more, because a ferry is involved.

### How do I clean the top?

Wipe it with a damp cloth:

- in the direction of the grain
- never with silicone
"""


def asked(question: str, *sources: Source, **limits: int) -> list[Quoted]:
    known = rare(question, [each.text for each in sources], rows=200)
    return quote(question, groups_of(question), known, sources, terms_of, **limits)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("When was the company founded?", "1987"),
        ("How many days of holiday do I have a year?", "30 days"),
        ("How many days do I get for moving house?", "| Moving house | 1 |"),
        ("Where do you deliver to?", "To Germany, Denmark and Austria."),
        ("How do I clean the top?", "never with silicone"),
        ("Why are the islands dearer?", "because a ferry is involved"),
    ],
)
def test_the_sentence_that_answers_is_quoted_as_it_stands(question: str, answer: str) -> None:
    sources = source(1, HANDBOOK, name="handbook.docx"), source(2, FAQ, name="faq.html")
    quoted = asked(question, *sources)
    assert answer in " ".join(each.text for each in quoted)
    for each in quoted:
        assert each.text == sources[each.source - 1].text[each.start : each.end]


def test_a_fact_gets_one_sentence_and_more_is_quoted_in_the_order_of_the_sources() -> None:
    sources = source(1, HANDBOOK, 1.0), source(2, FAQ, 0.9)
    assert len(asked("When was the company founded?", *sources)) == 1
    several = asked("What about holidays of the old year?", *sources)
    assert len(several) == 2
    assert several == sorted(several, key=lambda each: (each.source, each.start))


def test_the_same_sentence_in_two_sources_is_quoted_once() -> None:
    text = "The gate keeps what bears on the task. It was built in Kiel."
    quoted = asked("What does the gate keep?", source(1, text), source(2, text.replace("Kiel", "Husum")))
    assert len({each.text for each in quoted}) == len(quoted)


def test_a_name_in_the_question_is_not_the_name_that_is_asked_for() -> None:
    text = "The Vikings met Harald. The Vikings met Harald and Rollo."
    assert "Rollo" in asked("Who of the Vikings met Harald?", source(1, text))[0].text


def test_a_long_sentence_is_cut_to_the_clauses_that_bear_on_the_question() -> None:
    filler = ", ".join(f"clause {number} tells of something that is far from it" for number in range(20))
    text = f"{filler}, the squeaking comes from the dry bushing, {filler}."
    (only,) = asked("Where does the squeaking come from?", source(1, text), sentences=1, words=30)
    assert "the squeaking comes from the dry bushing" in only.text
    assert word_count(only.text) <= 30


def test_without_anything_to_quote_there_is_none() -> None:
    assert asked("When?") == asked("When?", source(1, ""), source(2, "# Only a heading")) == []


def test_code_comes_with_the_line_that_announces_it() -> None:
    text = "Anything else.\n\nDeclare the cookie in the function:\n\n```python\nads: Cookie = None\n```\n\nThat is all."
    assert any("Declare" in each.text and "ads: Cookie" in each.text for each in asked("ads Cookie", source(1, text)))


def test_an_item_that_is_quoted_is_not_quoted_again_with_what_announces_it() -> None:
    text = "The gate has what all of you will want to have as a key:\n\n- gate key 5\n- a lamp\n"
    quoted = asked("Which gate key?", source(1, text))
    assert [each.text for each in quoted] == ["The gate has what all of you will want to have as a key:", "gate key 5"]
    assert all(first.end <= second.start for first, second in pairwise(quoted))


def test_titles_are_not_quoted_nor_scraps_after_a_sentence() -> None:
    text = "Return of chairs\n\nSubject: Return of one chair, order 4417\n\nA chair can be returned for 60 days."
    quoted = asked("How can I return a chair?", source(1, text))
    assert [each.text for each in quoted] == ["A chair can be returned for 60 days."]
    assert asked("return of chairs", source(1, "Return of chairs")) == []
    assert [each.text for each in asked("Which batch?", source(1, "stock:\n  batch: L-2511\n"))] == ["batch: L-2511"]


MINUTES = """Steering committee, project Delta (migration of the ERP of Norrland Foods)
Date: 1 June 2026. Present: Hanna Berg (chair), Tomas Ek. Excused: Priya Raman.

1. Risks
The weekend collides with the stocktaking.

2. Next steps
- Tomas books twelve workers.
- Jonas writes the plan.
"""


def test_the_title_of_a_plain_text_answers_nothing_but_tells_what_is_below_it() -> None:
    quoted = asked("What are the risks of project Delta?", source(1, MINUTES))
    assert quoted[0].text == "The weekend collides with the stocktaking."
    assert asked("Who is the CEO of Norrland Foods?", source(1, MINUTES)) == [], "nothing tells of a CEO"


def test_what_only_repeats_the_question_does_not_answer_it() -> None:
    assert asked("Who was excused on 1 June 2026?", source(1, MINUTES))[0].text == "Excused: Priya Raman."
    notes = "The portal is written by Luca. Who pays the postage from Malta? The legal department has not answered yet."
    quoted = asked("Who pays the postage from Malta?", source(1, notes))
    assert [each.text for each in quoted] == ["The legal department has not answered yet."]
    open_ones = asked("What are the open questions?", source(1, f"## Open questions\n\n{notes}"))
    assert "Who pays the postage from Malta?" in [each.text for each in open_ones], "here, they are the answer"


LIMITS = """## Hotels

| City | Limit per night |
|---|---|
| Stockholm | 185 euros |
| Munich | 170 euros |
| elsewhere | 140 euros |
"""


@pytest.mark.parametrize(
    ("question", "rows"),
    [
        ("What is the hotel limit in Munich?", ["| Munich | 170 euros |"]),
        ("What is the hotel limit in Madrid?", ["| elsewhere | 140 euros |"]),
        ("What is the hotel limit in Munich and Stockholm?", ["| Stockholm | 185 euros |", "| Munich | 170 euros |"]),
    ],
)
def test_a_row_about_another_thing_is_no_answer(question: str, rows: list[str]) -> None:
    assert [each.text for each in asked(question, source(1, LIMITS))] == rows
    if "Madrid" in question:
        assert asked(question, source(1, LIMITS.replace("| elsewhere | 140 euros |\n", ""))) == []


def test_a_list_that_is_asked_for_is_quoted_whole_or_says_how_much_is_left() -> None:
    text = "# Portal\n\n## Data classes\n\n1. Public\n2. Internal\n3. Secret: never leaves the network. Nor the safe.\n"
    (only,) = asked("What are the data classes?", source(1, text))
    assert only.text == text[text.index("Public") :].strip() and only.more == 0
    (only,) = asked("What are the hotel limits?", source(1, LIMITS))
    assert only.text == LIMITS[LIMITS.index("| Stockholm") :].strip()
    (only,) = asked("What are the next steps?", source(1, MINUTES))
    assert only.text.startswith("Tomas") and only.text.endswith("plan.")
    led = "The main goals are:\n\n" + "".join(f"- Reach step number {number}.\n" for number in range(30))
    (only,) = asked("What are the main goals?", source(1, led))
    assert only.text.startswith("The main goals are:") and only.more == 30 - LIST_ITEMS
    (only,) = asked("What are the main goals?", source(1, led.replace("Reach", "Reach " + "again and " * 20)))
    assert 0 < only.more < 30 and word_count(only.text) <= LIST_WORDS


def test_an_item_that_is_asked_for_by_its_words_is_quoted_alone() -> None:
    text = "## Goals\n\n- Fewer calls about returns.\n- Answers within one day.\n"
    assert asked("Which goals are about calls?", source(1, text))[0].text == "Fewer calls about returns."


def test_each_of_several_things_gets_its_sentence() -> None:
    sources = [
        source(
            number, f"## Warranty\n\nThe warranty is {months} months. It does not cover wear.\n", score, name, [name]
        )
        for number, (name, months, score) in enumerate((("x300.md", 24, 1.0), ("x200.md", 36, 0.7)), 1)
    ]
    for question in (
        "What is the warranty of the X200 and the X300?",
        'Compare the warranty in "x200.md" and "x300.md"',
    ):
        assert [each.text for each in asked(question, *sources)] == [
            "The warranty is 24 months.",
            "The warranty is 36 months.",
        ]
    both = source(3, "The warranty of the X200 and the X300 is 12 months.", 1.0)
    assert asked("What is the warranty of the X200 and the X300?", both)[0].source == 3


def test_a_value_is_found_by_the_keys_above_it() -> None:
    text = "climate:\n  temperature:\n    max: 24\n  humidity:\n    max: 55\n"
    quoted = asked("What is the max humidity?", source(1, text))
    assert quoted[0].text.endswith("max: 55")


def test_a_misspelt_name_finds_its_sentence() -> None:
    text = "Celoron went to the river. Washington stayed at home."
    assert [each.text for each in asked("Where did Washinton stay?", source(1, text))] == ["Washington stayed at home."]


def test_words_in_scripts_without_spaces_are_counted() -> None:
    assert word_count("two words") == 2
    assert word_count("保修期为两年。") == 4
    assert word_count("x" * 1_000) == 50


def test_only_what_was_found_is_quoted_from_a_larger_source() -> None:
    text = "The gate opened in 1987. The gate opened in 1990."
    start = text.index("The gate opened in 1990")
    part = replace(source(1, text), spans=(("c1", start, len(text)),))
    assert [each.text for each in asked("When did the gate open?", part)] == ["The gate opened in 1990."]


TEXT = st.lists(
    st.sampled_from(
        (
            "The gate opened in 1987. ",
            "holiday days ",
            "\n",
            "\n\n",
            "# Gate\n",
            "- item: ",
            "| gate | 5 |\n",
            "保修期。",
        )
    )
    | st.sampled_from(("```\n", "because, ", "x" * 40 + " ", "word " * 30)),
    max_size=25,
).map("".join)


@given(
    st.lists(st.tuples(TEXT, st.floats(0, 1)), max_size=4),
    st.sampled_from(["When did the gate open?", "holiday", "保修期", "", "Why x?"]),
    st.integers(1, 4),
    st.integers(5, 80),
)
def test_quotes_are_exact_within_limits_and_apart(
    texts: list[tuple[str, float]], question: str, sentences: int, words: int
) -> None:
    sources = [source(number, text, score) for number, (text, score) in enumerate(texts, 1)]
    quoted = asked(question, *sources, sentences=sentences, words=words)
    assert len(quoted) <= sentences
    assert sum(word_count(each.text) for each in quoted) <= words
    assert quoted == asked(question, *sources, sentences=sentences, words=words)
    before = (0, 0)
    for each in quoted:
        assert each.text and each.text == sources[each.source - 1].text[each.start : each.end]
        assert before <= (each.source, each.start)
        before = (each.source, each.end)


@pytest.mark.parametrize(
    "text",
    ["gate open " * 5_000, "|-" + " " * 20_000 + "x|", "gate, " * 5_000, "门" * 20_000, "A" * 20_000, "1. " * 5_000],
)
def test_odd_texts_take_no_longer_than_others(text: str) -> None:
    began = time.thread_time()
    assert sum(word_count(each.text) for each in asked("When did the gate open?", source(1, text))) <= 60
    assert time.thread_time() - began < 2
