"""The path of a question where something else happens meanwhile, or where a part of it does not fit."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from ragforge import Ragforge
from ragforge.domain.access import Clearance
from ragforge.domain.answers import Abstention, Answer, TokenEvent, UsageEvent
from ragforge.domain.cancel import Cancel, Cancelled
from ragforge.domain.conversation import Turn
from ragforge.domain.retrieval import Filters
from ragforge.errors import Busy, NotFound, ProviderError, TooLarge, UserError
from ragforge.flows.ask import Kept
from ragforge.testing.model_server import NORMAL, STALL_MIDWAY, TOO_LONG, UNAUTHORIZED, ModelServer
from tests.served import add_files, open_served, received

FILES = {
    "returns.md": "# Returns\n\nA chair can be sent back within 60 days of its delivery.\n",
    "founders.md": "# Company\n\nThe company was founded in 1987 by Inge and Klaus Petersen.\n",
    "server.toml": "# The port that the server listens on\nport = 8080\nname = 'zanzibar'\n",
}
QUESTION = "How long can I send a chair back?"
REPLY = "A chair can be sent back within 60 days of its delivery [1]."


@pytest.fixture(scope="module")
def stub() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture
def server(stub: ModelServer) -> ModelServer:
    stub.calls.clear()
    stub.reply, stub.always = REPLY, NORMAL
    return stub


@pytest.fixture
def forge(tmp_path: Path, server: ModelServer) -> Iterator[Ragforge]:
    with open_served(tmp_path / "ws", server) as forge:
        add_files(forge, tmp_path / "docs", FILES)
        yield forge


def asked(forge: Ragforge, question: str = QUESTION, **how: object) -> Answer:
    answer = forge.ask(question, project="p", **{"stages": ("inject",), **how})  # type: ignore[arg-type]
    assert isinstance(answer, Answer)
    return answer


# -- filters hold for files that are named


@pytest.mark.parametrize(
    "filters",
    [Filters(agent="analyst"), Filters(confidentiality=Clearance.PUBLIC), Filters(documents=("returns.md",))],
    ids=["another agent's", "too confidential", "another file"],
)
def test_a_named_file_that_the_filters_leave_out_is_not_injected(
    forge: Ragforge, server: ModelServer, filters: Filters
) -> None:
    forge.label(["server.toml"], project="p", tags=("agent:lawyer",), confidentiality=Clearance.RESTRICTED)
    told = forge.prompt("What port is in server.toml?", project="p", filters=filters, stages=("inject",))
    assert not told.account.files and "zanzibar" not in "".join(each.text for each in told.prompt.messages)
    assert any("server.toml is named, but the filters" in notice for notice in told.account.notices)
    let_through = Filters(agent="lawyer", confidentiality=Clearance.RESTRICTED)
    told = forge.prompt("What port is in server.toml?", project="p", filters=let_through, stages=("inject",))
    assert [file.name for file in told.account.files] == ["server.toml"]


@pytest.mark.parametrize("model", ["", "offline"])
def test_a_lock_on_a_file_that_the_filters_leave_out_is_refused(forge: Ragforge, model: str) -> None:
    with pytest.raises(UserError, match="names none that can be read") as refused:
        forge.ask(
            "What does `returns.md` say of 1987?",
            project="p",
            lock=True,
            model=model,
            filters=Filters(documents=("founders.md",)),
        )
    assert "the filters of the question leave it out" in refused.value.hint


# -- what does not fit


def test_a_prompt_that_the_service_finds_too_long_leaves_the_quotes(forge: Ragforge, server: ModelServer) -> None:
    server.always = TOO_LONG
    answer = asked(forge)
    assert answer.quoted and "60 days" in answer.text
    assert any("does not fit" in missing.message for missing in answer.account.degraded)


def test_an_edited_prompt_that_is_too_long_is_refused(forge: Ragforge, server: ModelServer) -> None:
    prompted = forge.prompt(QUESTION, project="p", stages=())
    server.always = TOO_LONG
    with pytest.raises(TooLarge):
        forge.ask(QUESTION, project="p", stages=(), prompted=prompted)


def test_small_work_that_does_not_fit_is_done_by_rules(forge: Ragforge, server: ModelServer) -> None:
    server.always_forms = TOO_LONG
    try:
        answer = asked(forge, stages=("shape", "gate", "condense"))
    finally:
        server.always_forms = ""
    assert answer.text == REPLY and not answer.quoted


def test_a_model_without_room_for_any_passage_is_not_asked(tmp_path: Path, server: ModelServer) -> None:
    server.reply = "Whenever you like, as far as I know."
    text = "# Returns\n\n" + "A chair can be sent back within 60 days of its delivery by the van. " * 30
    with open_served(tmp_path / "ws", server) as forge:
        add_files(forge, tmp_path / "docs", {"returns.md": text})
        told = forge.prompt(QUESTION, project="p", stages=())
        assert told.estimate is not None
        bare = told.estimate.input_tokens - sum(n for name, n in told.estimate.parts.items() if name == "Context")
    room = bare + told.estimate.output_tokens + 60
    with open_served(tmp_path / "ws", server, model__window=room) as forge:
        answer = asked(forge, stages=())
    assert server.calls == [] and answer.quoted and "60 days" in answer.text
    assert "the model has no room for any passage: these are quotes" in answer.account.notices


# -- while the model writes


def test_an_answer_is_not_lost_with_its_conversation(forge: Ragforge, server: ModelServer) -> None:
    conversation = forge.begin_conversation("brief", project="p").id

    def reply(_: str) -> str:
        forge.remove_conversation(conversation, project="p")
        return REPLY

    server.reply = reply
    answer = asked(forge, conversation=conversation)
    assert answer.text == REPLY
    assert any(notice.startswith("this answer was not kept") for notice in answer.account.notices)
    [entry] = forge.query_log(project="p")
    assert entry.id == answer.account.trace_id and entry.input_tokens > 0
    with pytest.raises(NotFound):
        forge.turns(conversation, project="p")


@pytest.mark.parametrize("how", ["closed", "cancelled"])
def test_what_was_paid_is_logged_when_nobody_waits(forge: Ragforge, server: ModelServer, how: str) -> None:
    conversation = forge.begin_conversation("cut short", project="p").id
    server.reply, server.always = REPLY * 3, STALL_MIDWAY
    cancel = Cancel()
    stream = forge.stream(QUESTION, project="p", conversation=conversation, stages=(), cancel=cancel)
    assert any(isinstance(event, TokenEvent) for event in stream)
    if how == "closed":
        stream.close()  # type: ignore[attr-defined]
    else:
        cancel.set()
        with pytest.raises(Cancelled):
            list(stream)
    [entry] = forge.query_log(project="p")
    assert (entry.kind, entry.error) == ("error", "stopped before the answer was complete")
    assert entry.input_tokens > 50 and 0 < entry.output_tokens < 60 and entry.cost == Decimal(0)
    assert forge.turns(conversation, project="p") == []


def test_an_answer_that_is_complete_is_kept_though_nobody_waits_for_its_end(forge: Ragforge) -> None:
    conversation = forge.begin_conversation("left early", project="p").id
    stream = forge.stream(QUESTION, project="p", conversation=conversation, stages=())
    assert any(isinstance(event, UsageEvent) for event in stream)
    stream.close()  # type: ignore[attr-defined]
    [turn] = forge.turns(conversation, project="p")
    [entry] = forge.query_log(project="p")
    assert turn.answer == REPLY and (entry.kind, entry.error) == ("answer", "") and entry.input_tokens > 0


def test_one_that_stops_before_a_model_is_asked_leaves_nothing(forge: Ragforge) -> None:
    stream = forge.stream(QUESTION, project="p", stages=())
    next(stream)
    stream.close()  # type: ignore[attr-defined]
    assert forge.query_log(project="p") == []


def test_what_went_wrong_is_told_also_where_it_cannot_be_logged(
    forge: Ragforge, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(_: Kept) -> None:
        raise Busy("another process writes")

    monkeypatch.setattr(forge._flows.ask, "_keep", busy)
    server.always = UNAUTHORIZED
    with pytest.raises(ProviderError, match="wants a key"):
        forge.ask("What port is in server.toml?", project="p", lock=True)


def test_a_greeting_needs_no_model(forge: Ragforge, server: ModelServer) -> None:
    server.always = UNAUTHORIZED
    answer = forge.ask("hello", project="p", stages=())
    assert isinstance(answer, Answer) and "Ask me something" in answer.text


# -- a prompt that was made before


def test_a_prompt_of_a_file_that_changed_since_is_refused(forge: Ragforge, tmp_path: Path) -> None:
    prompted = forge.prompt(QUESTION, project="p", stages=())
    asked(forge, prompted=prompted)
    add_files(forge, tmp_path / "docs", {"returns.md": "# Returns\n\nA chair can be sent back within 14 days.\n"})
    with pytest.raises(UserError, match="which changed since it was made") as refused:
        forge.ask(QUESTION, project="p", prompted=prompted)
    assert refused.value.hint == "make the prompt anew"


def test_a_prompt_with_a_turn_that_was_removed_since_is_refused(forge: Ragforge) -> None:
    conversation = forge.begin_conversation("ours", project="p").id
    asked(forge, "Can lamps be sent back?", conversation=conversation, stages=())
    prompted = forge.prompt(QUESTION, project="p", conversation=conversation, stages=("memory",))
    forge.remove_turn(forge.turns(conversation, project="p")[0].id, project="p")
    with pytest.raises(UserError, match="a turn was removed since the prompt was made"):
        forge.ask(QUESTION, project="p", conversation=conversation, prompted=prompted)


def test_the_number_of_a_turn_is_the_one_it_is_stored_under(forge: Ragforge) -> None:
    conversation = forge.begin_conversation("ours", project="p").id
    for _ in range(2):
        asked(forge, conversation=conversation)
    forge.remove_turn(forge.turns(conversation, project="p")[-1].id, project="p")
    answer = asked(forge, conversation=conversation)
    assert [turn.number for turn in forge.turns(conversation, project="p")] == [1, answer.account.turn] == [1, 3]


# -- turns that are kept elsewhere


def test_turns_that_are_given_come_after_those_of_the_conversation(forge: Ragforge, server: ModelServer) -> None:
    conversation = forge.begin_conversation("ours", project="p").id
    for subject in ("tables", "lamps", "beds"):
        asked(forge, f"Can {subject} be sent back?", conversation=conversation, stages=())
    given = tuple(
        Turn(id=f"t{number}", conversation="", number=number, question=question, answer="No.", asked_at=entry.asked_at)
        for entry in forge.query_log(project="p", limit=1)
        for number, question in enumerate(("Are sofas sold?", "Are rugs sold?"), 1)
    )
    asked(forge, conversation=conversation, history=given, stages=("memory",))
    sent = "".join(text for _, text in received(server.calls[-1]))
    places = [sent.index(f"Question: {question}") for question in ("Can beds be sent back?", "Are sofas", "Are rugs")]
    assert places == sorted(places)


def test_an_abstention_is_told_when_all_passages_go_between_search_and_reading(
    forge: Ragforge, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = forge._flows.ask._search
    window = type(search).window

    def late(self: object, *how: object) -> object:
        list(forge.removing(["returns.md", "founders.md", "server.toml"], project="p"))
        return window(self, *how)  # type: ignore[arg-type]

    monkeypatch.setattr(type(search), "window", late)
    answer = forge.ask(QUESTION, project="p", stages=())
    assert isinstance(answer, Abstention) and server.calls == []
