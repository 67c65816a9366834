from __future__ import annotations

import pytest

from ragforge.answer.asked import Asked, asked_for, compared, fits, wants_several


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("Who founded it?", Asked.NAME),
        ("In which year was it founded?", Asked.TIME),
        ("When did the man who founded it die?", Asked.TIME),
        ("How many people work here?", Asked.AMOUNT),
        ("What percentage is returned?", Asked.AMOUNT),
        ("What does a seal for the pump cost?", Asked.MONEY),
        ("Was kostet ein Stuhl?", Asked.MONEY),
        ("In what country is Normandy?", Asked.PLACE),
        ("Warum knarrt der Stuhl?", Asked.REASON),
        ("Wie viele Tage?", Asked.AMOUNT),
        ("¿Dónde está?", Asked.PLACE),
        ("什么时候退货？", Asked.TIME),
        ("What does the gate do?", Asked.OTHER),
        ("ERR-4012", Asked.OTHER),
        ("", Asked.OTHER),
    ],
)
def test_what_a_question_asks_for(question: str, kind: Asked) -> None:
    assert asked_for(question) is kind


def test_a_price_is_told_in_money() -> None:
    question = "What does the seal cost?"
    assert fits(Asked.MONEY, "The seal is 58 euros.", question) == fits(Asked.MONEY, "| price_eur |", question) == 1
    assert fits(Asked.MONEY, "The seal breaks after 8 seconds.", question) == 0


@pytest.mark.parametrize(
    "question",
    ["What are the milestones?", "Which languages does it speak?", "List the goals", "Welche Fristen gelten?",
     "Was sind die Risiken?", "Quels sont les risques ?", "What goals do we have?"],
)  # fmt: skip
def test_some_questions_ask_for_all_there_are(question: str) -> None:
    assert wants_several(question)


@pytest.mark.parametrize(
    "question",
    ["What does it do?", "What is the status?", "Which class is used?", "What happens next?", "Wie hoch ist die Miete?",
     "What was his name?", ""],
)  # fmt: skip
def test_others_ask_for_one_thing(question: str) -> None:
    assert not wants_several(question)


@pytest.mark.parametrize(
    ("question", "things"),
    [
        ("What is the warranty of the X200 and the X300?", ["X200", "X300"]),
        ("Compare the X200, the X300 and the X400", ["X200", "X300", "X400"]),
        ('What do "notes.md" and "plan-2.txt" say?', ["notes.md", "plan-2.txt"]),
        ("Compare the desk Sylt and the chair Fjord", ["Sylt", "Fjord"]),
        ("Was kosten X200 und X300?", ["X200", "X300"]),
        ("Besides Africa, where did Germany trade?", []),
        ("Who lives in Paris, France?", []),
        ("How do rent and food differ in Rome?", []),
        ("Is the X200 loud?", []),
    ],
)
def test_things_that_the_same_is_asked_about(question: str, things: list[str]) -> None:
    assert compared(question) == things
