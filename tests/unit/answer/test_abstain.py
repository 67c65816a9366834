from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragforge.answer.abstain import MINILM, WORDLLAMA, WORDS_ALONE, Calibration, Heard, evidence
from ragforge.answer.weigh import SMALLEST, covered, named, rarity, weights
from ragforge.domain.answers import Evidence
from ragforge.retrieve.words import terms_of
from tests.unit.answer.support import groups_of, rare, sentences_of

TEXTS = (
    "The gate keeps what bears on the task. It was built in 1987 by Inge Petersen.",
    "You have 30 days of holiday a year. Ask for holidays in the portal.",
    "Wipe the top with a damp cloth. Oil it twice a year.",
)


def heard(text: str, cosine: float | None) -> Heard:
    return Heard(cosine, frozenset(terms_of([text])[0]), sentences_of(text))


def judged(question: str, cosines: tuple[float | None, ...], calibration: Calibration = MINILM) -> Evidence:
    """The texts in the order of their cosines, as three passages of a project that has no others."""
    ranked = sorted(zip(TEXTS, cosines, strict=True), key=lambda each: -(each[1] or 0))
    passages = [heard(text, cosine) for text, cosine in ranked]
    groups = groups_of(question)
    return evidence(groups, rare(question, TEXTS), passages, calibration, named(question, groups, terms_of))


@pytest.mark.parametrize("calibration", [MINILM, WORDLLAMA])
def test_three_small_files_are_enough_for_what_they_tell_and_not_for_the_rest(calibration: Calibration) -> None:
    assert judged("How many days of holiday do I have?", (0.1, 0.62, 0.12), calibration).enough
    assert judged("holiday", (0.1, 0.5, 0.12), calibration).enough
    assert not judged("Who won the world cup in 2014?", (0.08, 0.05, 0.02), calibration).enough
    assert not judged("quantum entanglement", (0.05, 0.02, 0.02), calibration).enough


def test_words_alone_decide_where_there_are_no_vectors() -> None:
    none = (None, None, None)
    found = judged("Who built the gate in 1987?", none, WORDS_ALONE)
    assert found.enough
    assert "cosine" not in found.features
    assert not judged("Which bank finances the works council?", none, WORDS_ALONE).enough


def test_without_passages_there_is_no_evidence() -> None:
    nothing = evidence(groups_of("gate"), {}, [], MINILM)
    assert nothing == Evidence(0.0, MINILM.threshold)
    assert not nothing.enough


def test_a_question_without_words_is_judged_by_meaning_alone() -> None:
    assert not evidence((), {}, [heard(TEXTS[0], 0.1)], MINILM).enough


def test_a_name_that_no_passage_holds_counts_more_than_another_word() -> None:
    cosines = (0.3, 0.1, 0.1)
    known, unknown = "Was the gate built by Inge?", "Was the gate built by Frida?"
    assert judged(known, cosines).features["missing"] == 0
    assert judged(unknown, cosines).features["missing"] == 1
    assert judged(unknown, cosines).score < judged("Was the gate built by frida?", cosines).score


@pytest.mark.parametrize("calibration", [MINILM, WORDLLAMA])
def test_a_misspelt_word_is_not_the_end_of_it(calibration: Calibration) -> None:
    cosines = (0.1, 0.3, 0.12)
    assert judged("How many days of holliday do I have?", cosines, calibration).enough
    assert not judged("How many months of prison do I have?", cosines, calibration).enough


@pytest.mark.parametrize("question", ["How many gates?", "How heavy are gates?", "Explain gates"])
def test_words_that_only_ask_count_less(question: str) -> None:
    groups = groups_of(question)
    rare_words = rarity(dict.fromkeys((term for group in groups for term in group), 1), 1_000)
    many, gates = weights(groups, rare_words)
    assert 0 < many < gates


def test_a_word_counts_as_its_commonest_term_and_a_small_project_as_a_part_of_a_larger() -> None:
    assert weights([("rare", "common")], {"rare": 5.0, "common": 1.0}) == [1.0]
    assert rarity({"a": 1}, 3) == rarity({"a": 1}, SMALLEST)
    assert rarity({"a": 1}, 3)["a"] > 0.8 * rarity({"a": 0}, 3)["a"]


TERMS = st.frozensets(st.sampled_from("abcdef"), max_size=6)
GROUPS = st.lists(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=3).map(tuple), max_size=6)
PASSAGES = st.lists(
    st.builds(Heard, st.one_of(st.none(), st.floats(-1, 1)), TERMS, st.lists(TERMS, max_size=3).map(tuple)), max_size=12
)


@given(GROUPS, st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 50)), PASSAGES, st.booleans())
def test_the_score_is_a_probability_and_says_what_it_rests_on(
    groups: list[tuple[str, ...]], holding: dict[str, int], passages: list[Heard], names: bool
) -> None:
    for calibration in (MINILM, WORDLLAMA, WORDS_ALONE):
        found = evidence(groups, rarity(holding, 50), passages, calibration, [names] * len(groups))
        assert 0 <= found.score <= 1
        assert found.enough == (found.score >= found.threshold)
        assert bool(found.features) == bool(passages)


@given(GROUPS, st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 50)), TERMS, TERMS)
def test_more_terms_never_cover_less(
    groups: list[tuple[str, ...]], holding: dict[str, int], some: frozenset[str], more: frozenset[str]
) -> None:
    weighed = weights(groups, rarity(holding, 50))
    assert 0 <= covered(groups, weighed, some) <= covered(groups, weighed, some | more) <= 1 + 1e-9
