from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragforge.answer.weigh import covered, kin_of, named, only_asks, weights
from ragforge.retrieve.words import terms_of
from tests.unit.answer.support import groups_of, rare

TEXT = "The Normans under Bismarck spread Islamist literature to 164 people."


def held(question: str, text: str = TEXT) -> float:
    """How much of a question a text holds, with the kin of its words."""
    groups, terms = groups_of(question), frozenset(terms_of([text])[0])
    return covered(groups, weights(groups, rare(question, [text], rows=1_000)), terms, kin_of(groups, terms))


@pytest.mark.parametrize(
    ("question", "least", "most"),
    [
        ("Normans", 1.0, 1.0),
        ("Normandy", 0.6, 0.6),  # of the same family
        ("Islam", 0.6, 0.6),
        ("Bismark", 0.8, 0.8),  # a letter is missing
        ("poeple", 0.8, 0.8),  # two changed places
        ("peaple", 0.8, 0.8),
        ("normal", 0.0, 0.8),
        ("sprad", 0.8, 0.8),
        ("Bolivia", 0.0, 0.0),
        ("165", 0.0, 0.0),  # a number is no misspelling of another
        ("Bismarck poeple Bolivia", 0.5, 0.7),
    ],
)
def test_words_of_one_family_and_misspelt_ones_count_in_part(question: str, least: float, most: float) -> None:
    assert least - 1e-9 <= held(question) <= most + 1e-9


def test_what_is_there_as_it_is_written_is_not_taken_for_a_misspelling() -> None:
    groups = groups_of("stage")
    assert kin_of(groups, {"state"})[0]
    assert not kin_of(groups, {"state", "stage"})[0]


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("When did William gain the throne of England?", {"william", "england"}),
        ("Huguenots settled where?", set()),
        ("FastAPI needs which Python?", {"fastapi", "python"}),
        ("Is error ERR-4012 dangerous?", {"err4012"}),
        ("Who was king in 1643?", {"1643"}),
        ("Read it. What is a Pod?", {"pod"}),
        ("who founded nordlicht", set()),
        ("WHO FOUNDED NORDLICHT", set()),
        ("Wie oft muss ich den Tisch ölen?", set()),
        ("Ist der Artikel N-260 lieferbar?", {"n260"}),
        ("", set()),
    ],
)
def test_names_numbers_and_codes_are_told_from_other_words(question: str, names: set[str]) -> None:
    groups = groups_of(question)
    found = {term for group, is_name in zip(groups, named(question, groups, terms_of), strict=True) if is_name
             for term in group}  # fmt: skip
    assert names <= found
    assert bool(names) == bool(found)


WORDS = st.text("abcde", min_size=1, max_size=9)


@given(st.lists(WORDS.map(lambda word: (word,)), max_size=6), st.frozensets(WORDS, max_size=12))
def test_kin_are_among_the_terms_never_the_word_and_never_worth_more(
    groups: list[tuple[str, ...]], terms: frozenset[str]
) -> None:
    kin = kin_of(groups, terms)
    assert len(kin) == len(groups)
    for (word,), found in zip(groups, kin, strict=True):
        assert found.keys() <= terms - {word}
        assert all(0 < part < 1 for part in found.values())
        assert word not in terms or all(part < 0.8 for part in found.values())
    even = [1.0] * len(groups)
    assert covered(groups, even, terms) <= covered(groups, even, terms, kin) <= 1 + 1e-9


def test_a_long_question_on_many_words_takes_no_time() -> None:
    groups = [(f"aaaa{number}".translate(str.maketrans("0123456789", "abcdefghij")),) for number in range(64)]
    terms = {f"aaab{number}".translate(str.maketrans("0123456789", "abcdefghij")) for number in range(5_000)}
    began = time.thread_time()
    kin_of(groups, terms)
    assert time.thread_time() - began < 2


def test_words_that_only_ask_count_little() -> None:
    for question in ("Wie hoch ist die Kaution?", "Wie lange gilt die Kaution?", "What do they say of the Kaution?"):
        groups = groups_of(question)
        (asking,) = (group for group in groups if only_asks(group))
        weighed = dict(zip(groups, weights(groups, rare(question, [TEXT], rows=1_000)), strict=True))
        assert weighed[asking] < 0.5 * weighed["kaution",]
