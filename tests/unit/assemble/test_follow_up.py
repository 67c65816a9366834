"""Follow-up questions stand alone where the rules are sure, and stay as they are where they are not."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragforge.assemble.follow_up import asked_at_end, offered, phrases, stand_alone
from ragforge.domain.conversation import Turn
from tests.proof import count


def said(*questions: str, answer: str = "") -> list[Turn]:
    """A conversation as it is kept: each question with its own rewrite, the last with an answer."""
    turns: list[Turn] = []
    for number, question in enumerate(questions, 1):
        alone = stand_alone(question, turns)
        text = answer if number == len(questions) else ""
        rewrite = alone.text if alone.rewritten else ""
        turns.append(Turn(str(number), "c", number, question, text, datetime(2025, 1, 1, tzinfo=UTC), rewrite))
    return turns


@pytest.mark.parametrize(
    ("before", "question", "alone"),
    [
        (["What is throat cancer?"], "Is it treatable?", "Is throat cancer treatable?"),
        (["What is a sub application?"], "How do I mount it?", "How do I mount a sub application?"),
        (["Tell me about background tasks."], "When would I use them?", "When would I use background tasks?"),
        (["What is UploadFile?"], "What are its advantages?", "What are UploadFile's advantages?"),
        (["What are header parameters?"], "Can they be duplicated?", "Can header parameters be duplicated?"),
        (["Who was Anne Bonny?"], "How did she die?", "How did Anne Bonny die?"),
        (["What is a middleware?"], "How do I create one?", "How do I create a middleware?"),
        (["What are mammals?"], "What is the largest one on land?", "What is the largest mammal on land?"),
        (["What are mammals?"], "What is the largest in the world?", "What is the largest mammal in the world?"),
        (["What was the Stanford Experiment?"], "Was the experiment ethical?", "Was the Stanford Experiment ethical?"),
        (["What is anemia?"], "What are the symptoms?", "What are the symptoms of anemia?"),
        (["What is anemia?", "What are the symptoms?"], "Can it go away?", "Can anemia go away?"),
        (["What is a JWT token?"], "What do I need for that?", "What do I need for a JWT token?"),
        (["Is throat cancer treatable?"], "Why?", "Why is throat cancer treatable?"),
        (["How was melatonin discovered?"], "When?", "When was melatonin discovered?"),
        (["What is the largest mammal in the world?"], "And in the UK?", "What is the largest mammal in the UK?"),
        (["How do I declare a path parameter?"], "What about query parameters?", "How do I declare query parameters?"),
        (["How do I update a body with PUT?"], "What about PATCH?", "How do I update a body with PATCH?"),
        (["Why is Boise called the city of trees?"], "How do I get there?", "How do I get to Boise?"),
        (
            ["Why is Boise called the city of trees?"],
            "What can I do there in summer?",
            "What can I do in Boise in summer?",
        ),
        (["Does FastAPI support GraphQL?"], "Which libraries exist for it?", "Which libraries exist for GraphQL?"),
        (["What is CORS?"], "Great. How do I enable it?", "Great. How do I enable CORS?"),
        (["What is the warranty of the X200?"], "And of the X300?", "What is the warranty of the X300?"),
        (["What is the price of the seal of X200?"], "And of X300?", "What is the price of the seal of X300?"),
        (["What is the warranty of the X200?"], "And the price?", "And the price of the X200?"),
        (["What is the price of the X200?"], "And the sound level?", "And the sound level of the X200?"),
        (["What is the warranty of the X200?"], "What is the price?", "What is the price of the X200?"),
        (["What is the warranty of the X200?"], "Is it loud?", "Is the X200 loud?"),
        (["What is the capital of France?"], "What about the president?", "What about the president of France?"),
        (["What is the price of the X300?"], "Same for the X200", "What is the price of the X200?"),
        (["What is the price of the X300?"], "The same for the X200, please.", "What is the price of the X200?"),
        (["What is the capital of France?"], "And of Germany?", "What is the capital of Germany?"),
        (["How loud is the X200?"], "And for the X300?", "How loud is the X300?"),
        (["what is the price of the x200?"], "and the x300?", "What is the price of the x300?"),
        (["what is the price of the x200?"], "and the weight?", "and the weight of the x200?"),
        (["Where is the oldest crust found?"], "What about the youngest?", "Where is the youngest found?"),
        (["How loud is the X200?"], "What about the X300?", "How loud is the X300?"),
        (["Does Marta Lindqvist own the X200?"], "And the X300?", "Does Marta Lindqvist own the X300?"),
    ],
)
def test_a_follow_up_stands_alone(before: list[str], question: str, alone: str) -> None:
    result = stand_alone(question, said(*before))
    assert result.text == alone
    assert result.rewritten
    assert result.reason


@pytest.mark.parametrize(
    ("before", "question"),
    [
        (["What is throat cancer?"], "Tell me about lung cancer."),
        (["What is CORS?"], "How do I mount a Flask application?"),
        (["What is inflation?"], "What is frictional unemployment and why is it important?"),
        (["What is a vegan?"], "If you don't eat any meat, is it bad for you?"),
        (["What is a proxy?"], "Is it possible to set two headers?"),
        (["What is a proxy?"], "How much does it cost to run Traefik?"),
        (["What is a franchise?"], "I bought a car yesterday. How fast is it?"),
        (["What is a proxy?"], "Is running Traefik worth it?"),
        (["What is CORS?"], "Is there a limit for files?"),
        (["When is the next meeting?"], "What about the budget?"),
        (["When is the next meeting?"], "And the budget?"),
        (["Who is the project lead?"], "What about the budget?"),
        (["When does the meeting start?"], "What about the budget?"),
        (["Is Paris a capital?"], "And of Germany?"),
        (["How loud is the X200?"], "And the 2nd?"),
        (["What is the price of the X200?"], "How long does delivery take?"),
        (["What is CORS?"], "How old is he?"),
        ([], "Is it treatable?"),
        (["thanks"], "Is it treatable?"),
    ],
)
def test_what_stands_alone_or_is_unsure_is_left(before: list[str], question: str) -> None:
    result = stand_alone(question, said(*before))
    assert result.text == question
    assert not result.rewritten
    assert result.reason


@pytest.mark.parametrize(
    ("before", "question"),
    [
        ("Was ist Kehlkopfkrebs?", "Ist er heilbar?"),
        ("Was ist ein Proxy?", "Und wie richte ich ihn ein?"),
        ("Was ist ein Proxy?", "Was ist das?"),
        ("Wie kündige ich?", "Warum?"),
        ("Qu'est-ce que le cancer de la gorge ?", "Est-ce qu'il se soigne ?"),
        ("Comment installer Python ?", "Et sur Windows ?"),
        ("¿Qué es el cáncer de garganta?", "¿Tiene cura?"),
        ("¿Cómo instalo Python?", "¿Y en Windows?"),
        ("¿Qué es un proxy?", "¿Qué he hecho mal con los proxies?"),
        ("Cos'è un proxy?", "E come lo configuro?"),
        ("プロキシとは何ですか", "それはどう設定しますか"),
        ("What is a proxy?", "Was kostet es?"),
    ],
)
def test_other_languages_are_left_as_they_are(before: str, question: str) -> None:
    assert stand_alone(question, said(before)).text == question


FOREIGN = """
Was kostet er? | Und in Berlin? | Wie lange dauert das? | Was ist mit der Garantie? | Wer hat das gesagt? | Ist das so?
Kann man es zurückgeben? | Welche Symptome gibt es? | Und warum? | Die App startet nicht, was nun?
Et en hiver ? | Combien ça coûte ? | Pourquoi ? | Et les symptômes ? | Comment on l'installe ? | Il est gratuit ?
Qui est-elle ? | C'est quoi the deal ? | No me sirve, he probado eso | ¿Y los síntomas? | ¿Cuánto cuesta? | ¿Por qué?
Y en invierno? | Quien es el? | Es gratis? | Is dat gratis? | En in de winter? | Hoe werkt het? | E quanto custa?
E in inverno? | Quanto costa? | Och på vintern? | Ile to kosztuje?
"""


@pytest.mark.parametrize("before", ["What is throat cancer?", "Who was Anne Bonny?", "Is throat cancer treatable?"])
def test_another_language_after_an_english_question(before: str) -> None:
    for question in FOREIGN.replace("\n", " | ").strip(" |").split(" | "):
        assert stand_alone(question, said(before)).text == question


def test_a_topic_is_kept_through_several_turns() -> None:
    turns = said(
        "How was Netflix started?", "How did it originally work?", "What is its relationship with Blockbuster?"
    )
    assert stand_alone("How has it impacted society?", turns).text == "How has Netflix impacted society?"


def test_a_question_is_asked_of_one_thing_after_the_other() -> None:
    turns = said("What is the warranty of the X200?", "And of the X300?", "and the price?")
    assert turns[-1].standalone == "and the price of the X300?"
    assert stand_alone("What about the X200?", turns).text == "The price of the X200?"
    turns = said("How loud is the X300?", "and the price?", "Same for the X200")
    assert turns[-1].standalone == "The price of the X200?"
    assert stand_alone("and the sound level?", turns).text == "and the sound level of the X200?"


def test_the_nth_of_a_list_in_the_answer() -> None:
    turns = said("What can I stream?", answer="You can stream:\n\n1. JSON Lines\n2. **Raw bytes**: any data\n3. Events")
    assert stand_alone("How does the second one work?", turns).text == "How does Raw bytes work?"
    assert stand_alone("Tell me about the last one.", turns).text == "Tell me about Events."


@pytest.mark.parametrize(
    ("answer", "offer"),
    [
        ("Refunds take 14 days. Shall I explain the refund steps?", "explain the refund steps"),
        ("It does [1]. Would you like me to compare both plans? [2]", "compare both plans"),
        ("If that helps, do you want to see an example?", "see an example"),
        ("Let me know if you'd like the full list.", "the full list"),
        ("Did you mean the chair refund?", "the chair refund"),
        ("Soll ich die Schritte der Rückgabe erklären?", "Soll ich die Schritte der Rückgabe erklären?"),
    ],
)
def test_yes_is_the_offer(answer: str, offer: str) -> None:
    assert offered(answer) == offer
    for yes in ("yes", "Yes, please!", "sure", "go ahead", "ja bitte"):
        assert stand_alone(yes, said("How do refunds work?", answer=answer)).text == offer


def test_an_answer_that_asks_nothing_offers_nothing() -> None:
    answer = "Is it free? Yes, it is [1]."
    assert asked_at_end(answer) == ""
    assert stand_alone("yes", said("Is it free?", answer=answer)).text == "yes"


def test_phrases_stand_where_they_say() -> None:
    text = "How do big companies in the US adapt to `GDPR` and the Museum of Art?"
    found = phrases(text)
    assert [phrase.text for phrase in found][-2:] == ["`GDPR`", "Museum of Art"]
    assert all(text[phrase.start : phrase.end] == phrase.text for phrase in found)


WORDS = (
    "it its they them their he she this that these one ones the a what about how why is are of in and `x` Paris OAuth2 "
    "symptoms types first largest best yes , . ? ! ' ’s 42 über что"
)
words = st.sampled_from(WORDS.split())
talk = st.lists(words, max_size=14).map(" ".join) | st.text(max_size=60)


@settings(max_examples=count(100, 300), deadline=None)
@given(st.lists(talk, max_size=4), talk, talk)
def test_any_talk_is_survived_and_rewriting_again_says_the_same(before: list[str], question: str, answer: str) -> None:
    turns = said(*before, answer=answer)
    result = stand_alone(question, turns)
    assert result == stand_alone(question, turns)
    assert result.reason
    assert result.rewritten == (result.text != question) or result.text.strip() == question.strip()
    if not turns:
        assert result.text == question


@pytest.mark.parametrize("piece", ["it ", "a-", "the first ", "What about ", "a.", "`", "Is it ", "1. x\n"])
def test_a_huge_message_is_quick(piece: str) -> None:
    huge = piece * (100_000 // len(piece))
    turns = said("What is a proxy?", huge, answer=huge)
    began = time.thread_time()
    stand_alone(huge, turns)
    stand_alone("Is it free?", turns)
    stand_alone("yes", turns)
    stand_alone("the second one", turns)
    assert time.thread_time() - began < 0.5
