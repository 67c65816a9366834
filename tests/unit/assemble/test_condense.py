"""Condensing: every statement cites and holds, a draft that mostly does not is refused, and quotes do it offline."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from ragforge.answer.citations import check
from ragforge.assemble.condense import (
    Condensing,
    Draft,
    DraftStatement,
    checked,
    condense,
    messages,
)
from ragforge.domain.cancel import Cancel, Cancelled
from ragforge.domain.documents import Locator
from ragforge.domain.generation import Role, Usage
from ragforge.domain.prompts import Source, Statement
from ragforge.errors import ProviderError
from ragforge.retrieve.words import terms_of
from tests.candidates import MANY
from tests.unit.assemble.scripted import Scripted, source

TASK = "How long can I return a chair, and who pays in Norway?"
SOURCES = (
    source(1, "Chairs can be returned within 30 days. They must be unused.", name="returns.md"),
    source(2, "Return shipping costs 6.90 euros.", name="shipping.pdf", locator=Locator(page=3)),
)


def proved(text: str, cited: Source) -> bool:
    """As the answer's citations are checked."""
    return not check(f"{text} [{cited.number}]", [cited], terms_of).unproved


def said(text: str, *numbers: int) -> DraftStatement:
    return DraftStatement(text, numbers)


def judged(
    facts: Sequence[DraftStatement] = (),
    constraints: Sequence[DraftStatement] = (),
    issues: Sequence[DraftStatement] = (),
) -> Condensing:
    return checked(Draft(tuple(facts), tuple(constraints), tuple(issues)), TASK, SOURCES, proved, Usage())


GOOD = said("Chairs can be returned within 30 days.", 1)


def test_a_draft_that_holds_is_taken_over() -> None:
    draft = Draft((GOOD,), (said("They must be\n unused.", 1),), (said("Who pays in Norway is not said."),))
    model = Scripted([draft])
    done = condense(TASK, SOURCES, model, proved, "request", Cancel())
    assert done.condensed is not None
    assert done.condensed.facts == (Statement("Chairs can be returned within 30 days.", (1,)),)
    assert done.condensed.constraints == (Statement("They must be unused.", (1,)),)
    assert done.condensed.open_issues == (Statement("Who pays in Norway is not said.", ()),)
    assert (done.reason, done.dropped, done.usage.calls) == ("3 of 3 statements hold", (), 1)


def test_the_draft_is_a_form_that_a_service_can_fill() -> None:
    form = TypeAdapter(Draft)
    filled = '{"facts": [{"text": "So.", "sources": [1, 2]}], "constraints": [], "open_issues": []}'
    assert form.validate_json(filled) == Draft((said("So.", 1, 2),), (), ())
    assert form.json_schema()["required"] == ["facts", "constraints", "open_issues"]


def test_sources_are_data_in_the_users_message() -> None:
    system, user = messages(TASK, SOURCES)
    assert (system.role, user.role) == (Role.SYSTEM, Role.USER)
    assert "Chairs" not in system.text
    assert json.loads(user.text)["sources"][1] == {
        "number": 2,
        "from": "shipping.pdf, p. 3",
        "text": "Return shipping costs 6.90 euros.",
    }


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (said("Chairs are fine."), "it cites no source"),
        (said("Chairs are fine.", 3), "there is no source 3"),
        (said("Chairs are fine.", 1, 0), "there is no source 0"),
        (said("Chairs can be returned within 60 days.", 1), "what it cites does not say so"),
        (said("Shipping costs 6.90 euros.", 1), "what it cites does not say so"),
        (said("Chairs can be returned in Oslo.", 1), "what it cites does not say so"),
        (said("  ", 1), "it is empty"),
        (said("x" * 601, 1), "it is longer than 600 characters"),
    ],
)
def test_what_does_not_hold_is_dropped_and_named(bad: DraftStatement, reason: str) -> None:
    done = judged([GOOD, bad])
    assert done.condensed is not None and [each.text for each in done.condensed.facts] == [GOOD.text]
    assert [each.reason for each in done.dropped] == [reason]


def test_numbers_may_stand_in_any_of_the_cited_sources_or_its_name() -> None:
    done = judged([said("Within 30 days it costs 6.90 euros.", 1, 2), said("It is on p. 3.", 2)])
    assert done.condensed is not None and not done.dropped


def test_an_issue_may_say_what_no_source_says_but_invents_no_number() -> None:
    issues = [said("Nothing is said of Norway."), said("The 30 days may be 60."), said("Which?", 8)]
    done = judged([GOOD], issues=issues)
    assert done.condensed is not None
    assert [each.text for each in done.condensed.open_issues] == ["Nothing is said of Norway."]
    assert [each.reason for each in done.dropped] == ["nobody said 60", "there is no source 8"]


def test_an_issue_that_cites_may_name_it_too() -> None:
    done = judged([GOOD], issues=[said("This says nothing of Norway.", 1)])
    assert done.condensed is not None and done.condensed.open_issues[0].sources == (1,)


@pytest.mark.parametrize("mark", [" [1].", ". [1]", ".[1][2]", " [1, 2]."])
def test_marks_in_the_text_are_not_kept_twice(mark: str) -> None:
    done = judged([said("Chairs can be returned within 30 days" + mark, 1)])
    assert done.condensed is not None
    assert done.condensed.facts == (Statement("Chairs can be returned within 30 days.", (1,)),)


def test_the_same_sentence_twice_is_one_with_all_its_sources() -> None:
    done = judged([said("It is so.", 1), said("It  is so.", 2), said("It is so.", 1)])
    assert done.condensed is not None and done.condensed.facts == (Statement("It is so.", (1, 2)),)


def test_fewer_than_half_that_hold_are_none() -> None:
    bad = said("Chairs can be returned within 60 days.", 1)
    assert judged([GOOD, bad]).condensed is not None
    done = judged([GOOD, bad, bad])
    assert done.condensed is None and done.reason == "only 1 of 3 statements hold" and len(done.dropped) == 2


@pytest.mark.parametrize("issues", [[], [said("Nothing is said of Norway.")]])
def test_without_anything_a_source_says_the_sources_stay(issues: list[DraftStatement]) -> None:
    done = judged(issues=issues)
    assert done.condensed is None and done.reason


def test_a_model_that_fails_or_has_no_room_leaves_the_sources() -> None:
    failing = Scripted([ProviderError("no answer")])
    done = condense(TASK, SOURCES, failing, proved, "request", Cancel())
    assert (done.condensed, done.reason) == (None, "the model could not condense: no answer")
    small = Scripted([], window=1_000)
    done = condense(TASK, SOURCES, small, proved, "request", Cancel())
    assert done.condensed is None and "has room for 1000" in done.reason and not small.asked
    assert condense(TASK, (), small, proved, "request", Cancel()).condensed is None
    with pytest.raises(Cancelled):
        condense(TASK, SOURCES, Scripted([Cancelled()]), proved, "request", Cancel())


statements = st.lists(
    st.builds(
        DraftStatement,
        st.sampled_from(
            ["Within 30 days.", "Within 31 days.", "It costs 6.90.", "Plain words.", "", "Ask Peru, Oslo."]
        ),
        st.lists(st.integers(0, 3), max_size=3).map(tuple),
    ),
    max_size=5,
)


@MANY
@given(statements, statements, statements)
def test_whatever_a_model_drafts_each_kept_statement_holds(
    facts: list[DraftStatement], constraints: list[DraftStatement], issues: list[DraftStatement]
) -> None:
    done = judged(facts, constraints, issues)
    drafted = len(facts) + len(constraints) + len(issues)
    if done.condensed is None:
        assert done.reason
        return
    assert 2 * (drafted - len(done.dropped)) >= drafted
    texts = {each.number: f"{each.name} {each.text}" for each in SOURCES}
    for each in (*done.condensed.facts, *done.condensed.constraints):
        assert each.text and each.sources and set(each.sources) <= texts.keys()
    assert all(set(each.sources) <= texts.keys() for each in done.condensed.open_issues)
