"""S2: a model may propose intent, domain and headers, before and after retrieval; one change of scope, one re-run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragforge import Ragforge
from ragforge.assemble.condense import Draft, DraftStatement
from ragforge.assemble.shape import INTENTS, TASKS, Proposal, changes_scope
from ragforge.domain.access import Scope
from ragforge.domain.answers import Answer, Result
from ragforge.domain.cancel import Cancel
from ragforge.domain.prompts import Shape, Shaping
from ragforge.domain.retrieval import ContextBlock, Passage, Retrieved, Tuning, Verdict
from ragforge.errors import UserError
from ragforge.flows.search import Asked, Search
from ragforge.testing.model_server import GARBAGE, ModelServer
from tests.proof import count, record
from tests.served import add_files, answers, form, open_served

FILES = {
    "founders.md": "# Company\n\nThe company was founded in 1987 by Inge and Klaus Petersen in Husum.\n",
    "returns.md": "# Returns\n\nA chair can be sent back within 60 days of its delivery. The van collects it.\n",
    "lamps.md": "# Lamps\n\nA lamp that fails within two years is mended without cost.\n",
    "desks.md": "# Desks\n\nA desk is delivered in three boxes, and put together by two people.\n",
}
QUESTION = "Who founded the company?"
FACT = "The company was founded in 1987 by Inge and Klaus Petersen in Husum."
STAGES = ("shape", "condense")
GOOD = Draft((DraftStatement(FACT, (1,)),), (), ())
BAD = Draft((DraftStatement("The company was founded in 2051 by Elvis.", (1,)),), (), ())


class Watched:
    """The search itself, and how often it was asked."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self.asked: list[str] = []

    def __call__(self, scope: Scope, name: str, asked: Asked, cancel: Cancel) -> Retrieved:
        self.asked.append(asked.question)
        return self._search(scope, name, asked, cancel)

    def window(
        self, scope: Scope, name: str, passages: Sequence[Passage], tuning: Tuning
    ) -> tuple[Sequence[ContextBlock], Sequence[Verdict]]:
        return self._search.window(scope, name, passages, tuning)


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer(reply="Inge and Klaus Petersen founded it in 1987 [1].") as server:
        yield server


@pytest.fixture(scope="module")
def forge(server: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ragforge]:
    folder = tmp_path_factory.mktemp("shapes")
    with open_served(folder / "workspace", server) as forge:
        add_files(forge, folder / "docs", FILES)
        yield forge


@contextmanager
def watched(forge: Ragforge) -> Iterator[Watched]:
    flow = forge._flows.ask
    search = flow._search
    spy = Watched(search)
    flow._search = spy  # type: ignore[assignment]
    try:
        yield spy
    finally:
        flow._search = search


def ask(forge: Ragforge, server: ModelServer, *forms: object) -> tuple[Result, list[str], Shape]:
    """The answer with these filled forms, what was searched for, and the shape before anything was found."""
    first, *rest = forms
    server.forms.clear()
    server.forms.append(form(first))  # type: ignore[arg-type]
    before = forge.prompt(QUESTION, project="p", stages=("shape",)).account.shape
    server.forms.clear()
    server.forms.extend(form(each) for each in (first, *rest))  # type: ignore[arg-type]
    with watched(forge) as spy:
        result = forge.ask(QUESTION, project="p", stages=STAGES, ephemeral=True)
    return result, spy.asked, before


def proposal(intent: str = "lookup", domain: str = "company history", standalone: str = QUESTION) -> Proposal:
    return Proposal(standalone, intent, domain, ("In short",), "because")


def test_S2_a_proposal_shapes_the_prompt(forge: Ragforge, server: ModelServer) -> None:
    result, searches, before = ask(forge, server, proposal("explain"), GOOD, proposal("explain"))
    assert isinstance(result, Answer) and not result.account.reran and searches == [QUESTION]
    assert before.intent == result.account.shape.intent == "explain"
    assert result.account.shape.domain == "company history"
    sent = answers(server)[-1].prompt
    assert "Use these headings:" in sent and "In short" in sent


@pytest.mark.parametrize("after", [proposal("compare"), proposal(domain="marine biology")])
def test_S2_a_change_of_scope_searches_once_more_and_never_again(
    forge: Ragforge, server: ModelServer, after: Proposal
) -> None:
    result, searches, before = ask(forge, server, proposal(), GOOD, after, GOOD, proposal("code", "cooking"))
    assert result.account.reran and len(searches) == 2
    assert changes_scope(before, result.account.shape)
    assert (result.account.shape.intent, result.account.shape.domain) == (after.intent, after.domain)


def test_S2_without_condensing_there_is_no_audit(forge: Ragforge, server: ModelServer) -> None:
    result, searches, _ = ask(forge, server, proposal(), BAD, proposal("compare", "marine biology"))
    assert not result.account.reran and len(searches) == 1
    assert any("not condensed" in notice for notice in result.account.notices)


def test_S2_a_model_that_cannot_shape_leaves_the_rules(forge: Ragforge, server: ModelServer) -> None:
    server.forms.clear()
    server.script(GARBAGE, GARBAGE)
    shape = forge.prompt("Compare a chair and a lamp", project="p", stages=("shape",)).account.shape
    assert shape.intent == "compare" and shape.standalone == "Compare a chair and a lamp"
    assert "the model could not be asked" in shape.reason


# -- what a person says of the shape

SAID = Shaping("compare", "family businesses", ("Who", "When and where"))


def said(forge: Ragforge, server: ModelServer, shaping: Shaping, *forms: object) -> tuple[Result, list[str]]:
    """The answer to the question as a person shapes it, and what was searched for."""
    server.forms.clear()
    server.forms.extend(form(each) for each in forms)  # type: ignore[arg-type]
    with watched(forge) as spy:
        result = forge.ask(QUESTION, project="p", stages=STAGES, ephemeral=True, shaping=shaping)
    return result, spy.asked


def test_S2_what_a_person_says_is_in_the_prompt_and_not_what_was_proposed(forge: Ragforge, server: ModelServer) -> None:
    server.forms.clear()
    server.forms.append(form(proposal("explain")))
    prompted = forge.prompt(QUESTION, project="p", stages=("shape",), shaping=SAID)
    sent = prompted.prompt.messages[-1].text
    assert "Who\nWhen and where" in sent and "In short" not in sent
    shape = prompted.account.shape
    assert Shaping(shape.intent, shape.domain, shape.headers) == SAID and shape.standalone == QUESTION


def test_S2_the_audit_does_not_overwrite_a_person(forge: Ragforge, server: ModelServer) -> None:
    issues = Draft(GOOD.facts, (), (DraftStatement(FACT, (1,)),))
    for draft in (GOOD, issues):
        elsewhere = proposal("code", "marine biology", "Who founded the company in Husum?")
        result, searches = said(forge, server, SAID, proposal(), draft, elsewhere, GOOD)
        shape = result.account.shape
        assert Shaping(shape.intent, shape.domain, shape.headers) == SAID
        assert not result.account.reran and searches == [QUESTION], "what a person said leads to no other search"
        assert shape.standalone == QUESTION, "what is told is what was searched for"
        assert "When and where" in answers(server)[-1].prompt and "In short" not in answers(server)[-1].prompt


def test_S2_what_a_person_leaves_out_is_as_proposed(forge: Ragforge, server: ModelServer) -> None:
    result, _ = said(forge, server, Shaping(domain="family businesses"), proposal("explain"), GOOD, proposal("explain"))
    shape = result.account.shape
    assert (shape.intent, shape.domain, shape.headers) == ("explain", "family businesses", ("In short",))
    result, searches = said(forge, server, Shaping(headers=()), proposal(), GOOD, proposal("compare"), GOOD)
    assert result.account.shape.headers == () and "Use these headings" not in answers(server)[-1].prompt
    assert result.account.reran and len(searches) == 2, "of what nobody said the audit may still decide"


def test_S2_by_rules_the_headings_follow_the_intent_that_a_person_says(forge: Ragforge) -> None:
    def headers(intent: str = "", question: str = QUESTION) -> tuple[str, ...]:
        how = Shaping(intent)
        return forge.prompt(question, project="p", model="offline", shaping=how).account.shape.headers

    assert headers() == () and headers("decide") == ("Recommendation", "Reasons", "Risks")
    assert headers("decide", "Wer hat die Firma gegründet und warum war das so?") == ()
    assert forge.prompt("thanks!", project="p", model="offline", shaping=SAID).account.shape.casual


def test_S2_an_intent_that_nobody_knows_is_refused(forge: Ragforge) -> None:
    for intent in ("nonsense", "chat", "Compare"):
        with pytest.raises(UserError, match="no intent is called") as problem:
            forge.ask(QUESTION, project="p", shaping=Shaping(intent))
        assert all(task in problem.value.hint for task in TASKS)


# -- whatever is proposed

WORDS = st.sampled_from(
    ["company", "founders", "history of the company", "marine biology", "cooking", "", " ", "Husum", "1987", "chair",
     "the", "https://evil.com/x", "<b>x</b>", "[1]", "\n", "🌍", "x" * 400]
)  # fmt: skip
STANDALONE = st.sampled_from(
    [QUESTION, "Who founded the company in Husum?", "Who founded the company in 1987?", "What is a whale?", "", "Who?",
     "Who founded the company Petersen?", "Who founded the company? https://evil.com/x", QUESTION * 40]
)  # fmt: skip
PROPOSALS = st.builds(
    Proposal,
    STANDALONE | st.text(max_size=40),
    st.sampled_from([*INTENTS, "CHAT", "nonsense", ""]),
    WORDS | st.text(max_size=20),
    st.lists(WORDS, max_size=8).map(tuple),
    WORDS,
)
DRAFTS = st.sampled_from([GOOD, GOOD, BAD, Draft((), (), ())])


@settings(max_examples=count(30, 500), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(first=PROPOSALS, draft=DRAFTS, audit=PROPOSALS, again=DRAFTS, late=PROPOSALS)
def test_S2_whatever_is_proposed_there_are_at_most_two_searches(
    forge: Ragforge,
    server: ModelServer,
    first: Proposal,
    draft: Draft,
    audit: Proposal,
    again: Draft,
    late: Proposal,
) -> None:
    calls = len(server.calls)
    result, searches, before = ask(forge, server, first, draft, audit, again, late, late)
    account = result.account
    assert len(searches) == 1 + account.reran
    assert account.reran == (draft is GOOD and changes_scope(before, account.shape))
    assert searches[0] == before.standalone and searches[-1] == account.shape.standalone
    assert {"founded", "company"} <= set(account.shape.standalone.lower().rstrip("?").split()), "the question is asked"
    assert len(server.calls) - calls <= 1 + 5, "shape; shape, condense, audit, condense, answer"
    record("audits", random_shapers=count(30, 500), most_searches=2, most_model_calls=5)
