from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragforge.adapters.embedders.minilm import MiniLM
from ragforge.domain.cancel import Cancel
from ragforge.domain.conversation import Remembered, Turn
from ragforge.domain.generation import Role
from ragforge.domain.tokens import Passage
from ragforge.errors import ProviderError, TooLarge
from ragforge.remember.episodes import recall
from ragforge.remember.rollup import (
    Draft,
    Roller,
    Rolling,
    extracted,
    importance_of,
    rolled,
    spans,
    summary_of,
    tags_of,
)
from ragforge.remember.words import text_of
from tests.unit.remember.support import START, WORDS, Script, at_angle, count, groups_of, rollup, turn

RENT = turn(1, "When is the rent due?", "The rent of 950 EUR is due on the first Monday of each month [1].")
DEPOSIT = turn(2, "How large is the deposit?", "The deposit is three rents. Anna Meyer keeps it in an account.")
REPAIRS = turn(3, "Who pays for repairs?", "The landlord pays for repairs above 100 EUR. Small ones are the tenant's.")
SPAN = (RENT, DEPOSIT, REPAIRS)


def numbers(found: tuple[tuple[Turn, ...], ...]) -> list[list[int]]:
    return [[each.number for each in span] for span in found]


def plain(first: int, last: int) -> list[Remembered]:
    return [Remembered(turn(number, "q", "a")) for number in range(first, last + 1)]


# -- spans


def test_only_old_turns_are_rolled_and_a_growing_span_waits() -> None:
    rolling = Rolling(older_than=10, most=4)
    assert numbers(spans(plain(1, 20), 21, recent=4, rolling=rolling)) == [[1, 2, 3, 4], [5, 6, 7, 8]]
    assert numbers(spans(plain(1, 20), 23, recent=4, rolling=rolling)) == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]]
    assert not spans(plain(1, 10), 11, recent=4, rolling=rolling)


def test_the_recent_turns_are_never_rolled() -> None:
    found = spans(plain(1, 10), 11, recent=5, rolling=Rolling(older_than=0, most=2))
    assert numbers(found) == [[1, 2], [3, 4]]


def test_another_topic_a_gap_and_a_marked_turn_end_a_span() -> None:
    topics = [0.9, 0.95, 0.9, -0.4, -0.4]
    turns = [Remembered(turn(number, "q", "a"), at_angle(topic)) for number, topic in enumerate(topics, 1)]
    assert numbers(spans(turns, 99, recent=4, cosine_floor=0.0)) == [[1, 2, 3], [4, 5]]
    assert numbers(spans(turns, 99, recent=4)) == [[1, 2, 3, 4, 5]], "cosines nobody measured cut nothing"
    gap = [*plain(1, 3), *plain(5, 6)]
    assert numbers(spans(gap, 99, recent=4)) == [[1, 2, 3], [5, 6]]
    marked = [*plain(1, 2), Remembered(turn(3, "q", "a", importance=1.0)), *plain(4, 5)]
    assert numbers(spans(marked, 99, recent=4)) == [[1, 2], [4, 5]]
    known = [*plain(1, 2), Remembered(turn(3, "q", "a", rolled_into="r")), *plain(4, 4)]
    assert numbers(spans(known, 99, recent=4)) == [[1, 2]], "one turn alone is no span"


@given(st.integers(1, 120), st.integers(1, 60), st.integers(2, 12), st.integers(3, 5))
@settings(max_examples=60, deadline=None)
def test_rolling_turn_by_turn_gives_the_spans_of_rolling_at_once(
    last: int, older_than: int, most: int, recent: int
) -> None:
    rolling = Rolling(older_than=older_than, most=most)
    done: list[list[int]] = []
    for now in range(1, last + 1):
        left = [each for each in plain(1, now - 1) if not any(each.what.id in [f"t{n}" for n in s] for s in done)]
        done += numbers(spans(left, now, recent=recent, rolling=rolling))
    assert done == numbers(spans(plain(1, last - 1), last, recent=recent, rolling=rolling))
    assert all(number < last - recent for span in done for number in span)


# -- by extraction


def test_a_short_answer_is_its_own_summary() -> None:
    assert summary_of(RENT, WORDS) == "The rent of 950 EUR is due on the first Monday of each month."


def test_a_long_answer_is_summarised_by_its_best_sentences_in_order() -> None:
    filler = " ".join(
        f"Clause {number} concerns gardens, cellars and other places of the house." for number in range(9)
    )
    said = turn(4, "When is the rent due?", f"{filler} The rent is due on Mondays [3]. {filler}")
    summary = summary_of(said, WORDS)
    assert "The rent is due on Mondays." in summary
    assert len(summary) <= 320
    assert "[3]" not in summary


def test_the_first_sentence_mostly_answers() -> None:
    more = " ".join(
        f"An old {thing} stands in the yard, and nobody has found out where it came from, nor how long it will last."
        for thing in ("barrel", "ladder", "wagon", "bench", "lantern")
    )
    said = turn(4, "Which soil do old climbing roses of Flensburg like?", f"Heavy clay suits them. {more}")
    assert summary_of(said, WORDS).startswith("Heavy clay suits them.")


def test_an_answer_without_sentences_is_shortened_and_marked() -> None:
    summary = summary_of(turn(4, "Which?", "word " * 200), WORDS)
    assert summary.endswith(" …")
    assert len(summary) <= 322


def test_tags_are_the_telling_words_as_they_are_written() -> None:
    said = turn(4, "How do I configure the Gateway timeout?", "The Gateway reads gateway.toml at the start.")
    tags = tags_of(said, WORDS)
    assert tags[0] == "Gateway"
    assert {"timeout", "configure"} <= set(tags)
    assert not {"the", "how", "do", "at"} & {tag.lower() for tag in tags}
    assert len(tags) <= 5
    assert tags_of(turn(5), WORDS) == ()


def test_extraction_takes_of_each_turn_its_best_sentence_within_the_budget() -> None:
    draft = extracted(SPAN, WORDS, count, 32)
    assert draft.text == (
        "The rent of 950 EUR is due on the first Monday of each month. The deposit is three rents. "
        "The landlord pays for repairs above 100 EUR. Small ones are the tenant's."
    )
    assert draft.title in {turn.question for turn in SPAN}
    longer = extracted(SPAN, WORDS, count, 40).text
    assert "Anna Meyer keeps it in an account. The landlord" in longer, "in the order they were said"


@given(st.integers(0, 60))
@settings(max_examples=30, deadline=None)
def test_extraction_keeps_to_its_budget_or_quotes_the_beginning(tokens: int) -> None:
    draft = extracted(SPAN, WORDS, count, tokens)
    assert draft.text
    assert count(draft.text) <= max(tokens, count(RENT.answer))


def test_turns_without_an_answer_are_not_told() -> None:
    nothing = turn(4, "What of the moon?", "There is nothing on that.", abstained=True)
    assert "nothing" not in extracted((*SPAN, nothing), WORDS, count, 200).text


# -- by a model


def written(says: object) -> tuple[Draft, str, Script]:
    model = Script(says)
    found = Roller(WORDS, count, model, Rolling(tokens=40))(SPAN, "request", Cancel())
    return found.draft, found.told, model


def test_a_models_summary_is_taken_when_the_turns_say_it() -> None:
    good = Draft("Rent and deposit", "The tenant pays 950 EUR on Mondays. Anna Meyer keeps the deposit of three rents.")
    draft, told, model = written(good)
    assert draft == good
    assert not told
    (sent,) = model.asked
    assert [message.role for message in sent] == [Role.SYSTEM, Role.USER]
    assert [each["number"] for each in json.loads(sent[1].text)["turns"]] == [1, 2, 3]
    assert "950" not in sent[0].text


def test_a_capital_at_the_beginning_makes_no_name() -> None:
    assert written(Draft("Rent", "Briefly: due on Mondays. Afterwards nothing."))[1] == ""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("The rent is 95 EUR.", "extracted: the model wrote “95”, which no turn says"),
        ("The deposit is kept by Bruno.", "extracted: the model wrote “Bruno”, which no turn says"),
        ("The rent is due, see https://evil.example/x.", "extracted: the model wrote “https://evil.example/x”"),
        ("The rent is set by rent_policy.", "extracted: the model wrote “rent_policy”"),
        ("word " * 41, "extracted: the model wrote too much"),
        ("  ", "extracted: the model wrote nothing"),
    ],
)
def test_a_summary_that_invents_gives_way_to_extraction(text: str, told: str) -> None:
    draft, why, _ = written(Draft("Rent", text))
    assert draft == extracted(SPAN, WORDS, count, 40)
    assert why.startswith(told)


def test_an_invented_title_alone_is_replaced() -> None:
    draft, told, _ = written(Draft("The Flat in Hamburg", "The rent is due on Mondays."))
    assert draft == Draft(extracted(SPAN, WORDS, count, 40).title, "The rent is due on Mondays.")
    assert told.startswith("title extracted")


@pytest.mark.parametrize("problem", [ProviderError("the service is away"), TooLarge("the prompt is too large")])
def test_a_model_that_fails_costs_only_its_draft(problem: Exception) -> None:
    draft, told, _ = written(problem)
    assert draft == extracted(SPAN, WORDS, count, 40)
    assert told == f"extracted: the model could not be asked: {problem}"


def test_without_a_model_it_is_extraction() -> None:
    found = Roller(WORDS, count)(SPAN, "request", Cancel())
    assert found.draft == extracted(SPAN, WORDS, count, Rolling().tokens)
    assert not found.told
    assert found.usage.calls == 0


# -- rollups


def test_a_rollup_stands_for_its_span() -> None:
    made = rolled(SPAN, Draft("Rent", "Due on Mondays."), "r9", START, count)
    assert (made.id, made.conversation, made.first, made.last, made.tokens) == ("r9", "c", 1, 3, 4)
    assert (made.title, made.text, made.made_at, made.used) == ("Rent", "Due on Mondays.", START, 0)


@given(st.integers(0, 10_000), st.integers(1, 100))
def test_each_recall_adds_importance_below_what_a_person_marks(used: int, more: int) -> None:
    before, after = (importance_of(rollup(1, 2, "a", "b", times)) for times in (used, used + more))
    assert 0 <= before <= after < 1
    assert importance_of(rollup(1, 2, "a", "b")) == 0


# -- with a real model of meaning


def test_a_paraphrase_recalls_its_turn_and_topics_part_the_spans(models: Path) -> None:
    embedder = MiniLM(models / "minilm", threads=1)
    garden = (
        turn(4, "Which soil do roses like?", "Roses like heavy soil that holds water."),
        turn(5, "When are roses cut?", "Roses are cut in spring, above an outward bud."),
    )
    said = [*SPAN, *garden]
    vectors = embedder.embed([Passage(text_of(each)) for each in said], Cancel())
    remembered = [Remembered(each, vector) for each, vector in zip(said, vectors, strict=True)]
    question = "What day must the tenant transfer the money for the flat?"
    episodes, _ = recall(
        remembered,
        embedder.embed_query(question, Cancel()),
        groups_of(question),
        START,
        200,
        turn=12,
        words=WORDS,
        count=count,
        cosine_floor=embedder.card.cosine_floor,
    )
    assert "t1" in {episode.id for episode in episodes}
    assert not {"t4", "t5"} & {episode.id for episode in episodes}
    found = spans(remembered, 99, recent=4, cosine_floor=embedder.card.cosine_floor)
    assert numbers(found) == [[1, 2, 3], [4, 5]]
