"""S6: the last turns are always in the prompt as they are; older ones come back by topic, fading, within a budget."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from ragforge.domain.tokens import estimated_tokens
from ragforge.errors import UserError
from tests.talk import Talk, blocks, history, shelve, talk

DAY = 86_400.0
CHAIR = "How long can a chair be returned?"
CHAIR_ANSWER = "A chair can be returned for 60 days, and the van collects it in Husum."
LAMP = "Who mends a broken lamp?"
FILES = {
    "chairs.md": "# Chairs\n\nA chair can be returned for as long as 60 days.\n",
    "lamps.md": "# Lamps\n\nOlaf mends a broken lamp.\n",
}
PARTLY = "Which colour, weight, price and height has a chair?"
"""One of its five telling words is in the turn about chairs."""


@pytest.fixture(scope="module")
def shelf(memory_folder: Path | None) -> Iterator[Path]:
    """A workspace whose files no test changes."""
    with TemporaryDirectory(dir=memory_folder) as folder:
        yield shelve(Path(folder), FILES)


@pytest.fixture
def chat(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Talk]:
    with talk(shelf, monkeypatch) as chat:
        yield chat


# -- G


@pytest.mark.parametrize("k", [3, 5])
def test_S6_the_last_turns_are_always_sent_in_order_and_word_for_word(
    shelf: Path, monkeypatch: pytest.MonkeyPatch, k: int
) -> None:
    with talk(shelf, monkeypatch, ask__recent_turns=k) as chat:
        chat.fill(3)
        long = "  ".join(f"Step {number}: turn the wheel {number} times." for number in range(40))
        chat.say(LAMP, f"{long}\n\n- and then rest [1]")
        chat.fill(2)
        recent, last = blocks(chat.sent(CHAIR), "turn"), chat.turns[-k:]
    assert recent == {f"turn {turn.number}": f"Question: {turn.question}\nAnswer: {turn.answer}" for turn in last}
    assert list(recent) == [f"turn {number}" for number in range(7 - k, 7)]
    assert any(long in text for text in recent.values()), "nothing of them is summarised"


def test_S6_the_last_turns_stay_over_their_budget_and_it_is_said(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with talk(shelf, monkeypatch, ask__memory_tokens=10) as chat:
        chat.fill(5)
        account = chat.asked(CHAIR)
        assert len(blocks(chat.sent(CHAIR), "turn")) == 4
    assert any("the last 4 turns take" in notice and "over their budget" in notice for notice in account.notices)


def test_S6_what_the_window_of_the_model_cannot_hold_is_named(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with talk(shelf, monkeypatch, model__window=1_100, model__max_tokens=200) as chat:
        chat.say(LAMP, "Olaf mends it, " + "and-he-mends-it-well-" * 250 + "always.")
        account = chat.asked(CHAIR)
    assert any(notice.startswith("turn 1 with its ") and "is left out" in notice for notice in account.notices)
    assert account.prompt is not None and "mends-it-well" not in account.prompt.messages[1].text


@pytest.mark.parametrize("k", [2, 6])
def test_S6_other_numbers_of_recent_turns_are_refused(shelf: Path, monkeypatch: pytest.MonkeyPatch, k: int) -> None:
    with pytest.raises(UserError), talk(shelf, monkeypatch, ask__recent_turns=k) as chat:
        chat.fill(1)
        chat.asked(CHAIR)


def test_S6_a_question_by_itself_and_another_conversation_remember_nothing(chat: Talk) -> None:
    chat.say(CHAIR, CHAIR_ANSWER)
    chat.fill(5)
    other = chat.forge.begin_conversation("another", project="p").id
    chat.forge.ask(CHAIR, project="p", conversation=other, stages=("memory",), ephemeral=True)
    assert not history(chat.served.calls[-1].prompt)
    alone = chat.forge.prompt(CHAIR, project="p", stages=("memory",)).account
    off = chat.forge.prompt(CHAIR, project="p", conversation=chat.thread, stages=()).account
    for account in (alone, off):
        assert not account.memory and account.prompt is not None
        assert not history(account.prompt.messages[1].text)


# -- E: topic


def test_S6_a_turn_is_kept_with_what_memory_needs_of_it(chat: Talk) -> None:
    chat.clock.advance(5 * DAY)
    turn = chat.say(CHAIR, CHAIR_ANSWER)
    assert turn.number == 1 and turn.asked_at == chat.clock() and turn.source == "chat" and turn.importance == 0
    assert {"chair", "returned"} <= set(turn.tags) and "60 days" in turn.summary and turn.tokens > 0


def test_S6_an_older_turn_comes_back_when_the_topic_does(chat: Talk) -> None:
    first = chat.say(CHAIR, CHAIR_ANSWER)
    chat.say(LAMP, "Olaf in Tondern mends a broken lamp.")
    chat.fill(6)
    memory = {each.first: each for each in chat.asked(CHAIR).memory}
    assert list(memory) == [1, 2, 3, 4], "each turn before the last four has its verdict"
    assert memory[1].id == first.id and memory[1].kept
    assert memory[1].reason.startswith("on topic, 8 turns ago")
    assert [memory[number].reason for number in (2, 3, 4)] == ["off topic"] * 3
    earlier = blocks(chat.sent(CHAIR), "earlier")
    assert earlier == {"earlier, turn 1": f"Asked: {CHAIR}\nAnswered: {CHAIR_ANSWER}"}
    assert list(blocks(chat.sent(LAMP), "earlier")) == ["earlier, turn 2"]


def test_S6_a_turn_without_an_answer_does_not_come_back(chat: Talk) -> None:
    lost = chat.forge.ask("Does a chair fly to the moon with enzymes?", project="p", conversation=chat.thread)
    assert lost.account.turn == 1 and chat.forge.turns(chat.thread, project="p")[0].abstained
    chat.fill(5)
    [first, *_] = chat.asked("Does a chair fly to the moon?").memory
    assert not first.kept and first.reason == "no answer was found then"


# -- E: fading


def test_S6_memory_fades_softly_with_the_distance_until_it_is_dropped(chat: Talk) -> None:
    turn = chat.say(CHAIR, CHAIR_ANSWER)
    chat.fill(4)
    verdicts = [chat.verdict(PARTLY, turn.id)]
    while verdicts[-1].kept:
        chat.fill(1)
        verdicts.append(chat.verdict(PARTLY, turn.id))
    assert 10 < len(verdicts) < 40
    assert verdicts[-1].reason == f"faded: {len(verdicts) + 4} turns ago"
    for before, after in pairwise(verdicts):
        assert 0.95 * before.score < after.score < before.score, "no step is a cliff"
    assert chat.verdict(CHAIR, turn.id).kept, "what is plainly on topic comes back however old it is"


def test_S6_a_long_gap_damps(chat: Talk) -> None:
    turn = chat.say(CHAIR, CHAIR_ANSWER)
    chat.fill(5)
    scores = [chat.verdict(PARTLY, turn.id).score]
    chat.clock.advance(0.9 * DAY)
    assert chat.verdict(PARTLY, turn.id).score == scores[0], "the first day does not count"
    for _ in range(6):
        chat.clock.advance(20 * DAY)
        scores.append(chat.verdict(PARTLY, turn.id).score)
    assert scores == sorted(scores, reverse=True) and len(set(scores)) == len(scores)
    faded = chat.verdict(PARTLY, turn.id)
    assert not faded.kept and faded.reason == "faded: 6 turns and 121 days ago"
    assert chat.verdict(CHAIR, turn.id).kept


def test_S6_importance_overrides_topic_distance_and_time(chat: Talk) -> None:
    turn = chat.say(CHAIR, CHAIR_ANSWER)
    chat.fill(8)
    chat.clock.advance(400 * DAY)
    before = chat.verdict(PARTLY, turn.id)
    assert not before.kept
    chat.forge.mark_turn(turn.id, importance=0.5, project="p")
    lifted = chat.verdict(PARTLY, turn.id)
    assert lifted.score > before.score and not chat.verdict(LAMP, turn.id).kept, "some importance needs the topic still"
    chat.forge.mark_turn(turn.id, project="p")
    marked = chat.verdict(LAMP, turn.id)
    assert marked.kept and marked.reason.startswith("marked important, 9 turns and 400 days ago")
    assert CHAIR_ANSWER in blocks(chat.sent(LAMP), "earlier")["earlier, turn 1"]
    chat.forge.mark_turn(turn.id, importance=0, project="p")
    assert chat.verdict(LAMP, turn.id).reason == "off topic"
    for wrong in (-0.1, 1.1):
        with pytest.raises(UserError, match="importance"):
            chat.forge.mark_turn(turn.id, importance=wrong, project="p")


# -- the budget


@pytest.mark.parametrize("budget", [0, 90])
def test_S6_the_budget_comes_first(shelf: Path, monkeypatch: pytest.MonkeyPatch, budget: int) -> None:
    with talk(shelf, monkeypatch, ask__memory_tokens=budget) as chat:
        for number in range(6):
            chat.say(CHAIR, f"{CHAIR_ANSWER} That was asked {number + 1} times.")
        important = chat.turns[0].id
        chat.forge.mark_turn(important, project="p")
        chat.fill(4)
        account = chat.asked(CHAIR, model="offline")
    assert account.prompt is not None
    earlier = blocks(history(account.prompt.messages[1].text), "earlier")
    assert sum(map(estimated_tokens, earlier.values())) <= budget
    kept = [each for each in account.memory if each.kept]
    assert len(kept) == len(earlier) and len(account.memory) == 6
    assert all(each.reason.startswith("no room: ") for each in account.memory if not each.kept)
    fits = budget // estimated_tokens(f"Asked: {CHAIR}\nAnswered: {CHAIR_ANSWER} That was asked 1 times.")
    assert len(kept) == min(fits, 6)
    assert not kept or kept[0].id == important, "what is marked is kept before the rest"


def test_S6_a_long_turn_comes_back_by_its_summary(chat: Talk) -> None:
    tale = " ".join(f"Then the van number {number} drives on to the next town." for number in range(30))
    turn = chat.say(CHAIR, f"{CHAIR_ANSWER} {tale}")
    chat.fill(5)
    assert chat.verdict(CHAIR, turn.id).reason == "on topic, 6 turns ago, as its summary"
    [recalled] = blocks(chat.sent(CHAIR), "earlier").values()
    assert "60 days" in recalled and "number 29" not in recalled and len(recalled) < 600
