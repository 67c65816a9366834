"""S7: files overrule the chat, newer turns older ones, and it is shown; very old spans become summaries."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from ragforge.domain.conversation import FORGOTTEN_ANSWER
from ragforge.domain.prompts import Injection
from ragforge.errors import NotFound
from tests.forge import places_of
from tests.talk import Talk, blocks, shelve, talk

CANARY = "wobbegong7731"
FILLED = 53
"""Turns about something else, so many that the first of them are very old."""
TIMEOUT = "How long is the timeout of the server?"
NAMES_FILE = "How long is the timeout of the server in app.toml?"
CHAIR = "How long can a chair be returned?"
FILES = {
    "app.toml": "# Requests that take longer than a minute are given up and tried again.\n[server]\ntimeout = 60\n",
    "server.md": "# Server\n\nThe timeout of the server is long.\n",
    "chairs.md": "# Chairs\n\nA chair can be returned for as long as 60 days.\n",
}


@pytest.fixture(scope="module")
def shelf(memory_folder: Path | None) -> Iterator[Path]:
    """A workspace whose files no test changes."""
    with TemporaryDirectory(dir=memory_folder) as folder:
        yield shelve(Path(folder), FILES)


@pytest.fixture
def chat(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Talk]:
    with talk(shelf, monkeypatch) as chat:
        yield chat


# -- FILES > newer > older


def test_S7_what_an_older_turn_says_against_an_injected_file_is_left_out_and_shown(chat: Talk) -> None:
    turn = chat.say(TIMEOUT, "The timeout of the server is 30 seconds. Olaf chose it in Husum.")
    chat.fill(5)
    without = blocks(chat.sent(TIMEOUT), "earlier")["earlier, turn 1"]
    assert "30 seconds" in without and not chat.asked(TIMEOUT).conflicts, "without the file nothing is wrong with it"
    account = chat.asked(NAMES_FILE)
    assert [file.how for file in account.files] == [Injection.FULL]
    [conflict] = account.conflicts
    assert (conflict.id, conflict.number, conflict.against, conflict.repeats) == (turn.id, 1, "app.toml", False)
    assert conflict.said == "The timeout of the server is 30 seconds." and conflict.instead == "timeout = 60"
    told = blocks(chat.sent(NAMES_FILE), "earlier")["earlier, turn 1"]
    assert "30 seconds" not in told and "Olaf chose it in Husum." in told, "only the sentence goes"
    assert "timeout = 60" in chat.served.calls[-1].prompt


def test_S7_what_a_recent_turn_says_against_an_injected_file_gives_way_in_its_place(chat: Talk) -> None:
    chat.say(TIMEOUT, "The timeout of the server is 30 seconds. Olaf chose it.")
    assert "30 seconds" in blocks(chat.sent(TIMEOUT), "turn")["turn 1"]
    [conflict] = chat.asked(NAMES_FILE).conflicts
    assert conflict.against == "app.toml" and conflict.number == 1
    told = blocks(chat.sent(NAMES_FILE), "turn")["turn 1"]
    assert told.endswith("Answer: (app.toml says otherwise) Olaf chose it.")
    [kept] = chat.turns
    assert "30 seconds" in kept.answer, "what was said is not rewritten"


def test_S7_what_repeats_an_injected_file_is_left_out_as_a_repetition(chat: Talk) -> None:
    said = "Requests that take longer than a minute are given up and tried again."
    chat.say(TIMEOUT, f"{said} The timeout of the server was set by Olaf.")
    chat.fill(5)
    [conflict] = chat.asked(NAMES_FILE).conflicts
    assert conflict.repeats and conflict.against == "app.toml" and conflict.said == said
    told = blocks(chat.sent(NAMES_FILE), "earlier")["earlier, turn 1"]
    assert said not in told and "set by Olaf" in told


def test_S7_an_episode_with_nothing_left_goes_altogether(chat: Talk) -> None:
    chat.say(TIMEOUT, "The timeout of the server is 30 seconds.")
    chat.fill(5)
    assert len(chat.asked(NAMES_FILE).conflicts) == 1
    assert not blocks(chat.sent(NAMES_FILE), "earlier")


@pytest.mark.parametrize(
    "said",
    [
        "The timeout of the server is 60 seconds.",
        "The timeout of the server was 30 seconds before.",
        "The timeout of the printer is 30 seconds.",
        "Is the timeout of the server 30 seconds?",
    ],
)
def test_S7_what_agrees_or_speaks_of_something_else_stays(chat: Talk, said: str) -> None:
    chat.say(TIMEOUT, f"Olaf says of it: {said}")
    chat.fill(5)
    assert not chat.asked(NAMES_FILE).conflicts
    assert said in blocks(chat.sent(NAMES_FILE), "earlier")["earlier, turn 1"]


def test_S7_a_newer_turn_overrules_an_older_one(chat: Talk) -> None:
    chat.say(TIMEOUT, "The timeout of the server is 30 seconds. Olaf chose it.")
    chat.fill(3)
    chat.say(TIMEOUT, "The timeout of the server is 45 seconds.")
    chat.fill(1)
    [conflict] = chat.asked(TIMEOUT).conflicts
    assert (conflict.number, conflict.against) == (1, "turn 5") and "45 seconds" in conflict.instead
    sent = chat.sent(TIMEOUT)
    assert "30 seconds" not in sent and "45 seconds" in sent, "in the last turns as it was said"
    chat.fill(4)
    assert [each.against for each in chat.asked(TIMEOUT).conflicts] == ["turn 5"], "also when both are old"
    both = chat.asked(NAMES_FILE).conflicts
    assert {each.against for each in both} == {"app.toml"} and len(both) == 2, "a file comes before all of them"


# -- very old spans


@pytest.fixture(scope="module")
def old(shelf: Path, memory_folder: Path | None) -> Iterator[Path]:
    """A workspace with a long conversation, whose first turn holds the canary and whose second is marked."""
    with TemporaryDirectory(dir=memory_folder) as folder, pytest.MonkeyPatch.context() as patch:
        workspace = Path(folder) / "workspace"
        shutil.copytree(shelf, workspace)
        with talk(workspace, patch) as chat:
            chat.say(CHAIR, f"A chair can be returned for 60 days, says {CANARY}.")
            marked = chat.say(TIMEOUT, "The timeout of the server is 30 seconds.")
            chat.forge.mark_turn(marked.id, project="p")
        with talk(workspace, patch, go_on=True, model__name="") as chat:
            chat.fill(FILLED)
        yield workspace


@pytest.fixture
def copied(old: Path, swift_path: Path) -> Path:
    shutil.copytree(old, swift_path / "workspace")
    return swift_path / "workspace"


def test_S7_very_old_turns_become_titled_summaries(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with talk(old, monkeypatch, go_on=True, model__name="") as chat:
        rollups, turns = chat.forge.rollups(chat.thread, project="p"), chat.turns
        account = chat.asked("Does gizmo3 need sprocket3?")
    [summary] = rollups
    assert (summary.first, summary.last) == (3, 14) and summary.title and summary.tokens <= 260
    rolled = turns[2:14]
    assert all(turn.rolled_into == summary.id for turn in rolled)
    assert not any(turn.rolled_into for turn in (*turns[:2], *turns[14:])), "what is marked, or alone, or newer, stays"
    answers = " ".join(turn.answer for turn in rolled)
    assert all(sentence.strip(" .") in answers for sentence in summary.text.split(". ")), "by extraction"
    memory = {each.id: each for each in account.memory}
    assert memory[rolled[3].id].reason == f"in the summary “{summary.title}”" and not memory[rolled[3].id].kept
    assert memory[summary.id].kept and (memory[summary.id].first, memory[summary.id].last) == (3, 14)
    assert account.prompt is not None
    sent = account.prompt.messages[1].text
    assert blocks(sent, "earlier")["earlier, turns 3 to 14"] == f"{summary.title}\n{summary.text}"
    assert len(blocks(sent, "turn")) == 4, "the last turns are as they are"


def test_S7_a_model_writes_the_summary_unless_it_invents(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = {"title": "What gizmos need", "text": "Each of these gizmos does need its sprocket."}
    invented = {"title": "What gizmos need", "text": "The gizmos need 7,731 sprockets from Acme."}
    with talk(copied, monkeypatch, go_on=True) as chat:
        chat.fillers = FILLED
        chat.served.forms += [json.dumps(honest), json.dumps(invented)]
        for quoted in (10, 11):
            chat.fill(quoted)
            chat.say(TIMEOUT, "Long.")  # an answer of the model, after which it may write a summary
        _, first, second = chat.forge.rollups(chat.thread, project="p")
        assert not chat.served.forms, "it was asked for both"
    assert (first.title, first.text) == (honest["title"], honest["text"])
    assert "7,731" not in second.text and "gizmo24 does need sprocket24." in second.text, "by extraction"


def test_S7_a_summary_that_proves_useful_is_promoted(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    question, partly = "Does gizmo3 need sprocket3?", "Which gizmo, wheel, axle and lever go with sprocket3?"
    with talk(copied, monkeypatch, go_on=True, model__name="") as chat:
        [summary] = chat.forge.rollups(chat.thread, project="p")
        before = chat.verdict(partly, summary.id)
        chat.asked(question)
        assert chat.forge.rollups(chat.thread, project="p") == [summary], "only an answer counts as use"
        for number in range(1, 7):
            chat.forge.ask(question, project="p", conversation=chat.thread)
            assert chat.forge.rollups(chat.thread, project="p")[0].used == summary.used + number
        after = chat.verdict(partly, summary.id)
    assert after.score > before.score, "though it is farther away by now"


# -- deletion


@pytest.fixture
def own(shelf: Path, swift_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Talk]:
    """A conversation in a copy of the workspace."""
    shutil.copytree(shelf, swift_path / "workspace")
    with talk(swift_path / "workspace", monkeypatch) as chat:
        yield chat


def test_S7_a_removed_turn_is_gone_from_memory_from_its_summary_and_from_the_disk(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with talk(copied, monkeypatch, go_on=True) as chat:
        assert CANARY in chat.sent(CHAIR) and places_of(CANARY.encode(), copied)
        [summary] = chat.forge.rollups(chat.thread, project="p")
        kept = [turn.id for turn in chat.turns]
        chat.clock.advance(1)
        chat.forge.remove_turn(kept[0], project="p")
        assert CANARY not in chat.sent(CHAIR) and places_of(CANARY.encode(), copied) == []
        assert "sprocket3" in summary.text
        chat.forge.remove_turn(kept[5], project="p")
        assert not chat.forge.rollups(chat.thread, project="p"), "its words are in the summary, so that goes, too"
        assert [turn.id for turn in chat.turns] == [*kept[1:5], *kept[6:]]
        assert not any(turn.rolled_into for turn in chat.turns), "the others stand for themselves again"


def test_S7_a_removed_conversation_leaves_nothing(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with talk(copied, monkeypatch, go_on=True) as chat:
        assert places_of(CANARY.encode(), copied)
        chat.forge.remove_conversation(chat.thread, project="p")
        assert places_of(CANARY.encode(), copied) == []
        with pytest.raises(NotFound):
            chat.forge.turns(chat.thread, project="p")
        with pytest.raises(NotFound):
            chat.forge.ask(CHAIR, project="p", conversation=chat.thread)


def test_S7_what_a_removed_file_had_said_is_not_remembered(own: Talk) -> None:
    [number] = [source.number for source in own.asked(CHAIR).sources if source.name == "chairs.md"]
    own.say(CHAIR, f"A chair can be returned for as long as 60 days [{number}].")
    own.fill(5)
    assert own.turns[0].documents and "60 days" in own.sent(CHAIR)
    assert all(removal.erased for removal in own.forge.removing(["chairs.md"], project="p"))
    assert own.turns[0].answer == FORGOTTEN_ANSWER and own.turns[0].question == CHAIR
    prompt = own.asked(CHAIR).prompt
    assert prompt is not None and "60 days" not in prompt.messages[1].text
