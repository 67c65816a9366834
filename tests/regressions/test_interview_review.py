"""Faults of interviews that were found by reading and by trying, each as it was shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from ragforge import Ragforge
from ragforge.adapters.models import counting
from ragforge.discover.fitting import squeezed
from ragforge.discover.route import Routing
from ragforge.domain.discovery import Standing
from ragforge.testing.model_server import SERVER_ERROR, ModelServer
from tests.forge import open_forge
from tests.served import add_files, open_served

SECRET = "# Plans\n\nZanzibar moves to Dortmund in the spring.\n"


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


def routed(server: ModelServer, probe: str = "framing", mode: str = "problem", *, retrieve: bool = True) -> None:
    form = Routing(probe, [], mode, micro_synthesis=False, requires_retrieval=retrieve, reason="scripted")
    server.forms.extend((json.dumps(asdict(form)), json.dumps({"summary": "It went on."})))


def call(name: str, **given: Any) -> tuple[str, str]:
    return name, json.dumps(given)


def asking(*texts: str, **more: Any) -> tuple[str, str]:
    return call("ask_questions", reply="Noted.", questions=[{"text": text} for text in texts], **more)


def all_words(forge: Ragforge, interview: str) -> str:
    state = forge.discovery.get(interview, project="p").state
    turns = forge.discovery.turns(interview, project="p")
    return f"{state} {[(turn.answer, turn.summary) for turn in turns]}"


def forgotten(forge: Ragforge, interview: str) -> None:
    (document,) = forge.documents(project="p")
    list(forge.removing([document.id], project="p"))
    assert "Zanzibar" not in all_words(forge, interview)


def test_a_question_in_plain_words_goes_with_its_document(server: ModelServer, tmp_path: Path) -> None:
    with open_served(tmp_path / "ws", server) as forge:
        add_files(forge, tmp_path / "files", {"plans.md": SECRET})
        interview = forge.discovery.begin("Move", project="p").id
        routed(server)
        server.acts.append("I see. Which team leads Zanzibar in Dortmund today?")
        done = forge.discovery.say("We plan a move in the spring.", interview, project="p")
        assert "Zanzibar" in done.turn.answer and done.state.asked[-1].documents
        forgotten(forge, interview)


def test_what_is_asked_once_more_goes_with_its_document(server: ModelServer, tmp_path: Path) -> None:
    with open_served(tmp_path / "ws", server) as forge:
        add_files(forge, tmp_path / "files", {"plans.md": SECRET})
        interview = forge.discovery.begin("Move", project="p").id
        routed(server)
        server.acts.append([asking("Who leads Zanzibar in Dortmund?", "What is Zanzibar for?")])
        forge.discovery.say("We plan a move in the spring.", interview, project="p")
        server.always = server.always_forms = SERVER_ERROR
        done = forge.discovery.say("What do you mean?", interview, project="p")
        assert "Zanzibar" in done.turn.answer
        forgotten(forge, interview)


def test_what_was_read_in_evidence_goes_with_its_document(server: ModelServer, tmp_path: Path) -> None:
    with open_served(tmp_path / "ws", server) as forge:
        add_files(forge, tmp_path / "files", {"plans.md": SECRET})
        interview = forge.discovery.begin("Move", project="p").id
        routed(server)
        claim = call(
            "register_assumption", statement="The move is planned in the spring", confidence="low", impact="high",
            evidence="Zanzibar moves to Dortmund in the spring", sources=[1],
        )  # fmt: skip
        server.acts.append([claim, asking("Who decides on the move?", "When was it planned?")])
        first = forge.discovery.say("We plan a move in the spring.", interview, project="p")
        assert first.state.assumptions[0].evidence[0].cited
        later = call("register_assumption", statement="Zanzibar slips beyond Dortmund", confidence="low", impact="low")
        server.acts.append([later, asking("Who pays for it?", "Who knows of it?")])
        second = forge.discovery.say("continue", interview, project="p")
        assert second.state.assumptions[1].documents
        forgotten(forge, interview)
        kept = forge.discovery.get(interview, project="p").state
        assert [each.id for each in kept.assumptions] == ["A1"], (
            "what the person said of it stays, without the evidence"
        )
        assert not kept.assumptions[0].evidence


def test_a_common_word_ties_nothing_to_a_document(server: ModelServer, tmp_path: Path) -> None:
    with open_served(tmp_path / "ws", server) as forge:
        add_files(forge, tmp_path / "files", {f"n{n}.md": f"# Note {n}\n\nTeam {n} met.\n" for n in range(8)})
        interview = forge.discovery.begin("Returns", project="p").id
        routed(server)
        point = {"text": "The support team is swamped by returns", "sources": [], "criterion": ""}
        server.acts.append([call("fill_section", section="problem", points=[point]), asking("Who?", "Since when?")])
        done = forge.discovery.say("Support is swamped by returns since spring.", interview, project="p")
        assert done.state.points and not done.state.points[0].documents


def test_a_model_may_not_call_everything_met_nor_settle_without_proof(server: ModelServer, tmp_path: Path) -> None:
    with open_served(tmp_path / "ws", server) as forge:
        interview = forge.discovery.begin("Returns", project="p").id
        routed(server)
        everything = forge.discovery.modes()["problem"].paths
        claim = call("register_assumption", statement="The memo is old", confidence="low", impact="high")
        moon = call("update_assumption", id="A1", status="refuted", evidence="The moon told everybody about it.")
        server.acts.append([claim])
        server.acts.append([moon, asking("Who wrote it?", "Who wrote it?")])
        server.acts.append([asking("Who wrote the memo?", "Who reads it?", criteria_met=everything)])
        done = forge.discovery.say("I think the memo is old.", interview, project="p")
        refused = " ".join(each.text for each in done.account.changes if each.refused)
        assert "neither the person nor a passage says that" in refused and "there twice" in refused
        assert done.state.assumptions[0].status is Standing.OPEN
        assert not done.state.met


def test_a_model_may_not_change_the_mode_by_itself_nor_skip_a_question(server: ModelServer, tmp_path: Path) -> None:
    with open_served(tmp_path / "ws", server) as forge:
        add_files(forge, tmp_path / "files", {"plans.md": SECRET})
        interview = forge.discovery.begin("Returns", project="p").id
        routed(server, "outcome", "solution", retrieve=False)
        server.acts.append([asking("Who wrote it?", "Who reads it?")])
        done = forge.discovery.say("What does the policy say?", interview, project="p")
        assert done.account.decision.mode == "problem" and done.account.searches


def test_a_small_window_is_left_to_rules(server: ModelServer, tmp_path: Path) -> None:
    with open_served(tmp_path / "ws", server, model__window=5_600, model__max_tokens=400) as forge:
        interview = forge.discovery.begin("Returns", project="p").id
        routed(server)
        done = forge.discovery.say("We sell desks, and returns take weeks.", interview, project="p")
        assert not done.account.model and any("reads too little" in each for each in done.account.notices)
        assert done.state.points


def test_one_long_word_fits(tmp_path: Path) -> None:
    text = "🧑‍🚀" * 3_000
    assert counting.count(squeezed(text, 840, lambda one: counting.count(one, "anthropic")), "anthropic") <= 840


def test_what_is_said_with_a_yes_is_heard(tmp_path: Path) -> None:
    with open_forge(tmp_path / "ws") as forge:
        talk = forge.discovery
        interview = talk.begin("Returns", project="p").id
        for _ in range(60):
            if talk.say("continue", interview, project="p").state.offer:
                break
        done = talk.say("OK, but legal must approve any new wording.", interview, project="p")
        assert done.state.mode == "problem"
        assert any("legal must approve" in each.text.lower() for each in done.state.points)
        assert talk.say("yes", interview, project="p").state.mode == "solution"


def test_a_change_of_mode_loses_nothing(tmp_path: Path) -> None:
    with open_forge(tmp_path / "ws") as forge:
        talk = forge.discovery
        interview = talk.begin("Returns", project="p").id
        talk.say("We sell desks in Kiel.", interview, project="p")
        done = talk.say("Zubrowka gizmos glow purple on Tuesdays.", interview, project="p", mode="solution")
        assert any("Zubrowka" in each.text for each in done.state.points)
        assert done.account.decision.mode == "solution"


def test_undo_leaves_what_was_corrected_by_hand(tmp_path: Path) -> None:
    with open_forge(tmp_path / "ws") as forge:
        talk = forge.discovery
        interview = talk.begin("Returns", project="p").id
        talk.say("I think the old memo is the cause of all returns.", interview, project="p")
        before = talk.get(interview, project="p").state
        talk.say("We are swamped by 40 tickets a week. A1 is wrong.", interview, project="p")
        talk.add_point("impact", "By hand: 13 hours a week.", interview, project="p")
        talk.add_assumption("Legal agrees in time", interview, project="p")
        for place in range(25):
            talk.revise_assumption("A2", interview, project="p", confidence=("low", "high")[place % 2])
        after = talk.undo(interview, project="p")
        assert [each.statement for each in after.assumptions] == [
            before.assumptions[0].statement,
            "Legal agrees in time",
        ]
        assert after.assumptions[0].status is Standing.OPEN
        assert [each.text for each in after.points] == [
            *(each.text for each in before.points),
            "By hand: 13 hours a week.",
        ]
        assert len(talk.turns(interview, project="p")) == 1
        talk.undo(interview, project="p")
        assert not talk.org_context(project="p"), "what the first turn said of the organisation is taken back, too"


def test_it_is_not_over_while_probes_are_left(tmp_path: Path) -> None:
    with open_forge(tmp_path / "ws") as forge:
        talk = forge.discovery
        interview = talk.begin("Rosters", project="p").id
        talk.say("Ward managers build rosters in Excel after hours.", interview, project="p")
        for _ in range(3):
            talk.say("continue", interview, project="p")
        back = talk.say("continue", interview, project="p", probe="framing")
        assert "everything" not in back.turn.answer and "?" in back.turn.answer
        why = talk.say("Why do you ask?", interview, project="p")
        assert talk.modes()["problem"].probes["framing"].purpose in why.turn.answer


def test_who_says_hello_first_is_asked_who_they_are(tmp_path: Path) -> None:
    with open_forge(tmp_path / "ws") as forge:
        talk = forge.discovery
        interview = talk.begin("Returns", project="p").id
        talk.say("hello", interview, project="p")
        assert not talk.org_context(project="p")
        talk.say("We are Nordlicht, a furniture maker.", interview, project="p")
        assert talk.org_context(project="p") == "We are Nordlicht, a furniture maker."
