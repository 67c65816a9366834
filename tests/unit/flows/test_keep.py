"""What is kept of a question: a turn that goes with every document it may hold words of, and a line of the log."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from ragforge import Ragforge
from ragforge.build import OFFLINE, utc_now
from ragforge.domain.access import Scope
from ragforge.domain.answers import Abstention, Answer, Result
from ragforge.domain.cancel import Cancel
from ragforge.domain.conversation import FORGOTTEN_ANSWER
from ragforge.domain.evaluation import set_digest
from ragforge.domain.records import LogEntry
from ragforge.domain.retrieval import Filters, Tuning
from ragforge.domain.tokens import Matrix, Passage
from ragforge.errors import ProviderError, StoreError
from ragforge.flows.ask import Asking, Kept
from ragforge.flows.grounds import SENTINEL
from ragforge.flows.keep import Keep
from ragforge.remember.words import text_of
from ragforge.testing.model_server import FORBIDDEN, NORMAL, ModelServer
from ragforge.testing.records import entry, turn
from tests.forge import WatchedEmbedder, open_forge, places_of
from tests.served import add_files, open_served

CANARY = "zanzibarquokka"
FILES = {
    "returns.md": f"# Returns\n\nA chair can be sent back within 60 days of its delivery. The code is {CANARY}.\n",
    "founders.md": "# Company\n\nThe company was founded in 1987 by Inge and Klaus Petersen in Husum.\n",
    "mattresses.md": "# Mattresses\n\nA mattress can be sent back within 100 nights of its delivery.\n",
}
CHAIR = "When can a chair be sent back within days of its delivery?"
MATTRESS = "When can a mattress be sent back within nights of its delivery?"
BOTH = "When can a chair or a mattress be sent back within days of delivery, and what is the code?"
PLAIN = ("memory", "inject")
"""Stages that ask no model before the answer."""


@pytest.fixture(scope="module")
def stub() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture
def server(stub: ModelServer) -> ModelServer:
    stub.calls.clear()
    stub.forms.clear()
    stub.reply, stub.always = "Nothing was told [1].", NORMAL
    return stub


@pytest.fixture
def forge(swift_path: Path, server: ModelServer) -> Iterator[Ragforge]:
    with open_served(swift_path / "ws", server) as forge:
        add_files(forge, swift_path / "docs", FILES)
        yield forge


@pytest.fixture
def thread(forge: Ragforge) -> str:
    return forge.begin_conversation("talk", project="p").id


def ask(forge: Ragforge, thread: str, question: str, **how: object) -> Result:
    return forge.ask(question, project="p", conversation=thread, **{"stages": PLAIN, **how})  # type: ignore[arg-type]


def citing(name: str, text: str) -> Callable[[str], str]:
    """A reply whose `[]` cites this file, by the number that it has in the prompt."""

    def reply(prompt: str) -> str:
        [number, *_] = re.findall(rf"^\[(\d+)\] {name}", prompt, re.MULTILINE)
        return text.replace("[]", f"[{number}]")

    return reply


def remove(forge: Ragforge, name: str) -> None:
    assert all(removal.erased for removal in forge.removing([name], project="p"))


def answers(forge: Ragforge, thread: str) -> list[str]:
    return [each.answer for each in forge.turns(thread, project="p")]


def places(forge: Ragforge) -> list[str]:
    return places_of(CANARY.encode(), forge.workspace)


# -- a removed document is in no answer


def test_a_sentence_that_cites_nothing_goes_with_every_file_of_its_prompt(
    forge: Ragforge, server: ModelServer, thread: str
) -> None:
    server.reply = citing("mattresses.md", f"The code for chairs is {CANARY}. A mattress can be sent back [].")
    result = ask(forge, thread, BOTH)
    assert (
        isinstance(result, Answer) and result.uncited and {each.name for each in result.citations} == {"mattresses.md"}
    )
    remove(forge, "returns.md")
    assert answers(forge, thread) == [FORGOTTEN_ANSWER] and places(forge) == []


def test_what_an_answer_cites_goes_with_it(forge: Ragforge, server: ModelServer, thread: str) -> None:
    """The words are in no answer and in no question, only in a quote."""
    server.reply = citing("returns.md", "The files tell which code it is [].")
    result = ask(forge, thread, "What is the code?", filters=only(forge, "returns.md"))
    assert isinstance(result, Answer) and CANARY not in result.text
    (said,) = forge.turns(thread, project="p")
    assert said.citations == result.citations and CANARY in said.citations[0].quote
    remove(forge, "returns.md")
    (said,) = forge.turns(thread, project="p")
    assert (said.answer, said.citations) == (FORGOTTEN_ANSWER, ()) and places(forge) == []


def test_what_a_model_says_instead_of_an_answer_goes_too(forge: Ragforge, server: ModelServer, thread: str) -> None:
    server.reply = f"{SENTINEL}: they only say that the code is {CANARY}."
    result = ask(forge, thread, CHAIR)
    assert isinstance(result, Abstention) and CANARY in result.text
    remove(forge, "returns.md")
    assert answers(forge, thread) == [FORGOTTEN_ANSWER] and places(forge) == []


def test_a_file_that_is_removed_while_the_model_writes_leaves_nothing(
    forge: Ragforge, server: ModelServer, thread: str
) -> None:
    def reply(prompt: str) -> str:
        remove(forge, "returns.md")
        return f"{SENTINEL}: only the code {CANARY}."

    server.reply = reply
    ask(forge, thread, CHAIR)
    assert answers(forge, thread) == [FORGOTTEN_ANSWER] and places(forge) == []


def test_an_answer_that_repeats_an_earlier_one_goes_with_it(forge: Ragforge, server: ModelServer, thread: str) -> None:
    server.reply = citing("returns.md", f"The code is {CANARY} [].")
    ask(forge, thread, "What is the code?", filters=only(forge, "returns.md"))
    server.reply = citing("mattresses.md", f"As was said, the code is {CANARY}. A mattress: 100 nights [].")
    ask(forge, thread, MATTRESS, filters=only(forge, "mattresses.md"))
    server.reply = citing("founders.md", f"Founded in 1987 [], and {CANARY}.")
    ask(forge, thread, "When was the company founded?", filters=only(forge, "founders.md"))
    remove(forge, "returns.md")
    assert answers(forge, thread) == [FORGOTTEN_ANSWER] * 3 and places(forge) == []


def test_what_an_answer_inherits_outlives_the_turn_it_has_it_from(
    forge: Ragforge, server: ModelServer, thread: str
) -> None:
    server.reply = citing("returns.md", f"The code is {CANARY} [].")
    ask(forge, thread, "What is the code?", filters=only(forge, "returns.md"))
    server.reply = citing("mattresses.md", f"As was said, the code is {CANARY}. A mattress: 100 nights [].")
    ask(forge, thread, MATTRESS, filters=only(forge, "mattresses.md"))
    forge.remove_turn(forge.turns(thread, project="p")[0].id, project="p")
    remove(forge, "returns.md")
    assert answers(forge, thread) == [FORGOTTEN_ANSWER] and places(forge) == []


def test_an_answer_that_stands_on_its_own_files_outlives_the_others(
    forge: Ragforge, server: ModelServer, thread: str
) -> None:
    """Neither a file that was only searched nor an earlier turn that it says nothing of takes an answer along."""
    server.reply = citing("returns.md", f"The code is {CANARY} [].")
    ask(forge, thread, "What is the code?", filters=only(forge, "returns.md"))
    said = "A mattress can be sent back within 100 nights of its delivery []."
    server.reply = citing("mattresses.md", said)
    ask(forge, thread, MATTRESS, filters=only(forge, "mattresses.md"))
    quoted = ask(forge, thread, MATTRESS, model=OFFLINE)
    assert isinstance(quoted, Answer) and {each.name for each in quoted.citations} == {"mattresses.md"}
    remove(forge, "returns.md")
    first, second, third = answers(forge, thread)
    assert first == FORGOTTEN_ANSWER and "100 nights" in second and third == quoted.text and places(forge) == []


# -- what it cites, and who wrote it


def test_a_turn_keeps_what_it_cites_and_who_wrote_it(swift_path: Path, server: ModelServer) -> None:
    with open_served(swift_path / "ws", server) as forge:
        add_files(forge, swift_path / "docs", FILES)
        thread = forge.begin_conversation("talk", project="p").id
        server.reply = citing("returns.md", "A chair: 60 days []. The files tell which code it is [].")
        results = [ask(forge, thread, CHAIR), ask(forge, thread, CHAIR, model=OFFLINE)]
        server.reply = f"{SENTINEL}: they only speak of chairs."
        results.append(ask(forge, thread, MATTRESS))
        before = forge.turns(thread, project="p")
        assert forge.turn_of(results[0]).citations == before[0].citations
    with open_served(swift_path / "ws", server) as again:
        turns = again.turns(thread, project="p")
        assert turns == before, "also in a workspace that is opened anew"
        assert [each.trace_id for each in turns] == [each.account.trace_id for each in results]
        assert again.give_feedback(turns[0].trace_id, True, project="p").entry.feedback == "good"
    written, quoted, none = results
    assert isinstance(written, Answer) and isinstance(quoted, Answer) and isinstance(none, Abstention)
    assert [each.citations for each in turns] == [written.citations, quoted.citations, ()]
    assert len(written.citations) == 2 and quoted.citations
    for each, result in zip(turns[:2], (written, quoted), strict=True):
        assert all(each.answer[cited.start : cited.end] == f"[{cited.marker}]" for cited in result.citations)
    assert [(each.model, each.quoted) for each in turns] == [
        ("openai-compatible:stub", False),
        ("", True),
        ("openai-compatible:stub", False),
    ]


def test_no_model_is_named_that_wrote_nothing(forge: Ragforge, server: ModelServer, thread: str) -> None:
    server.always = FORBIDDEN
    ask(forge, thread, CHAIR)
    ask(forge, thread, CHAIR, filters=Filters(tags=("none",)))
    quoted, nothing = forge.turns(thread, project="p")
    assert quoted.quoted and quoted.citations and nothing.abstained and quoted.model == nothing.model == ""


def test_a_turn_without_an_entry_in_the_log_names_none(swift_path: Path, server: ModelServer) -> None:
    with open_served(swift_path / "ws", server, ask__log=False) as forge:
        add_files(forge, swift_path / "docs", FILES)
        thread = forge.begin_conversation("talk", project="p").id
        result = ask(forge, thread, CHAIR, model=OFFLINE)
        (said,) = forge.turns(thread, project="p")
        assert said.trace_id == "" and said.citations and forge.turn_of(result).trace_id == result.account.trace_id


# -- what is done afterwards


def test_old_turns_that_cannot_be_summed_up_do_not_make_an_answer_unkept(
    forge: Ragforge, server: ModelServer, thread: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(forge, thread, CHAIR, model=OFFLINE)
    catalog, scope, project = forge._parts.catalog, forge._scope, forge.project("p")
    result = ask(forge, thread, CHAIR, model=OFFLINE, ephemeral=True)

    def full(*given: object) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(Keep, "_roll_span", full)
    with catalog.write() as c:
        for _ in range(60):
            c.conversations.add(scope, project.id, turn(thread, "And then?"), "", None)
    stored = keep(forge)(kept(forge, thread, result))
    assert stored.problems == ("old turns could not be summed up: the disk is full",)
    assert forge.turns(thread, project="p")[-1].number == stored.turn == 62


def test_what_summing_up_takes_is_in_the_log(forge: Ragforge, server: ModelServer, thread: str) -> None:
    with forge._parts.catalog.write() as c:
        for number in range(60):
            old = turn(thread, f"And {number}?", answer="Thirty days.")
            c.conversations.add(forge._scope, forge.project("p").id, old, "", None)
    server.reply = "A chair can be sent back within 60 days [1]."
    result = ask(forge, thread, CHAIR)
    rolled = forge.rollups(thread, project="p")
    assert rolled and len(server.calls) == 1 + len(rolled)
    logged = forge.logged("last", project="p")
    assert logged.id == result.account.trace_id and logged.input_tokens > result.account.usage.input_tokens
    assert logged.output_tokens > result.account.usage.output_tokens


def test_turns_without_a_vector_get_theirs_beside_a_new_one(swift_path: Path) -> None:
    embedder = WatchedEmbedder()

    def fail() -> None:
        raise ProviderError("the service is down")

    with open_forge(swift_path / "ws", embedder) as forge:
        add_files(forge, swift_path / "docs", FILES)
        thread, other = (forge.begin_conversation("talk", project="p").id for _ in range(2))
        embedder.before = fail
        for number in range(10):
            ask(forge, thread, f"{CHAIR} {number}")
        ask(forge, other, CHAIR)
        embedder.before = lambda: None
        embedder.texts.clear()
        ask(forge, thread, MATTRESS)
        told = forge.turns(thread, project="p")
        kept_vectors = vectors(forge, thread)
        assert set(kept_vectors) == {each.id for each in (*told[:8], told[-1])}, "eight of them, the oldest first"
        assert vectors(forge, other) == {}
        [same] = embedder.embed([Passage(text_of(told[-1]))], Cancel())
        assert kept_vectors[told[-1].id] == same.tobytes(), "as reindex embeds it"
        ask(forge, thread, MATTRESS)
        assert len(vectors(forge, thread)) == 12


def test_the_new_turn_does_not_wait_for_those_that_are_late(swift_path: Path) -> None:
    embedder = WatchedEmbedder()
    with open_forge(swift_path / "ws", embedder) as forge:
        add_files(forge, swift_path / "docs", FILES)
        thread = forge.begin_conversation("talk", project="p").id
        with forge._parts.catalog.write() as c:
            c.conversations.add(forge._scope, forge.project("p").id, turn(thread), "", None)
        embed, calls = embedder.embed, []

        def second_fails(passages: Sequence[Passage], cancel: Cancel) -> Matrix:
            calls.append(len(passages))
            if len(calls) == 2:
                raise ProviderError("the service is down")
            return embed(passages, cancel)

        embedder.embed = second_fails  # type: ignore[method-assign]
        result = ask(forge, thread, CHAIR, ephemeral=True)
        calls.clear()
        keep(forge)(kept(forge, thread, result))
        assert calls == [1, 1] and len(vectors(forge, thread)) == 1


# -- what is removed while an answer is written


def test_an_answer_that_may_repeat_what_was_removed_meanwhile_is_not_kept(
    forge: Ragforge, server: ModelServer, thread: str
) -> None:
    server.reply = citing("returns.md", f"The code is {CANARY} [].")
    ask(forge, thread, "What is the code?", filters=only(forge, "returns.md"))
    server.reply = citing("mattresses.md", f"As was said, the code is {CANARY}. A mattress: 100 nights [].")
    result = ask(forge, thread, MATTRESS, filters=only(forge, "mattresses.md"), ephemeral=True)
    rewritten = replace(result.account.shape, standalone=f"A mattress and the {CANARY}", rewritten=True)
    result = replace(result, account=replace(result.account, cuts=0, shape=rewritten))
    remove(forge, "returns.md")
    stored = keep(forge)(kept(forge, thread, result))
    assert stored.turn == 2 and answers(forge, thread) == [FORGOTTEN_ANSWER] * 2
    failed = replace(kept(forge, thread, result), result=None, error="broken off")
    keep(forge)(replace(failed, account=replace(failed.account, trace_id="another")))
    assert forge.logged("another", project="p").standalone == "" and places(forge) == []


def test_a_conversation_that_was_removed_meanwhile_leaves_no_words_in_the_log(forge: Ragforge, thread: str) -> None:
    result = ask(forge, thread, CHAIR, model=OFFLINE, ephemeral=True)
    rewritten = replace(result.account.shape, standalone=f"A chair and the {CANARY}", rewritten=True)
    result = replace(result, account=replace(result.account, shape=rewritten))
    forge.remove_conversation(thread, project="p")
    keep(forge)(kept(forge, "", result))
    assert forge.logged("last", project="p").standalone == ""


# -- the log


def test_a_log_without_text(swift_path: Path, server: ModelServer) -> None:
    with open_served(swift_path / "ws", server, ask__log_text=False) as forge:
        add_files(forge, swift_path / "docs", FILES)
        server.reply = "A chair can be sent back within 60 days [1]."
        thread = forge.begin_conversation("talk", project="p").id
        forge.ask(f"{CHAIR} wombat7731", project="p", stages=PLAIN)
        logged = forge.logged("last", project="p")
        assert (logged.question, logged.standalone) == ("", "") and logged.input_tokens and logged.chunks
        assert places_of(b"wombat7731", forge.workspace) == []
        given = forge.give_feedback("last", True, project="p")
        assert given.question is None and given.entry.feedback == "good"
        ask(forge, thread, CHAIR)
        assert answers(forge, thread), "a conversation is another thing"


def test_old_questions_go_by_themselves(forge: Ragforge, monkeypatch: pytest.MonkeyPatch) -> None:
    old, marked, recent = (old_entry(days) for days in (31, 31, 29))
    add_entries(forge, old, replace(marked, feedback="good"), recent)
    forge.ask(CHAIR, project="p", model=OFFLINE)
    assert old.id not in ids(forge) and {marked.id, recent.id} < ids(forge)
    add_entries(forge, again := old_entry(31, question=CANARY))
    forge.ask(CHAIR, project="p", model=OFFLINE)
    assert again.id in ids(forge), "once a day is enough"
    tomorrow = utc_now() + timedelta(days=1)
    monkeypatch.setattr(forge._flows.ask._keep, "_clock", lambda: tomorrow)
    forge.ask(CHAIR, project="p", model=OFFLINE)
    assert again.id not in ids(forge)


def test_the_questions_of_others_go_too_and_those_of_other_projects_stay(forge: Ragforge) -> None:
    theirs, elsewhere = old_entry(31), old_entry(31)
    guest = replace(forge._scope, principal="guest")
    add_entries(forge, theirs, scope=guest)
    other = forge.create_project("other", embedder="hashing")
    with forge._parts.catalog.write() as c:
        c.log.add(guest, other.id, elsewhere)
    forge.ask(CHAIR, project="p", model=OFFLINE)
    assert theirs.id not in ids(forge)
    assert [each.id for each in forge.query_log(project="other")] == [elsewhere.id]


def test_a_log_without_end(swift_path: Path) -> None:
    with open_forge(swift_path / "ws", ask__log_days=0) as forge:
        add_files(forge, swift_path / "docs", FILES)
        add_entries(forge, old := old_entry(4_000))
        forge.ask(CHAIR, project="p", model=OFFLINE)
        assert old.id in ids(forge)


# -- feedback


@pytest.mark.parametrize("how", ["conversation", "turn", "document", "log"])
def test_a_judged_question_holds_no_words_of_what_was_removed(forge: Ragforge, thread: str, how: str) -> None:
    ask(forge, thread, CHAIR, model=OFFLINE)
    [first] = forge.turns(thread, project="p")
    searched = f"Where is the {CANARY} chair sent back?"
    asked = entry(question="Where is it sent back?", standalone=searched, conversation=thread, asked_at=utc_now())
    plain = entry(question=MATTRESS, conversation=thread, asked_at=utc_now())
    add_entries(forge, asked, plain)
    for each in (asked, plain):
        forge.give_feedback(each.id, True, project="p", expected=["founders.md"])
    assert {each.text for each in forge.questions("feedback", project="p")} == {searched, MATTRESS}
    list(forge.evaluating("feedback", project="p"))
    [before] = forge.question_sets(project="p")
    if how == "conversation":
        forge.remove_conversation(thread, project="p")
    elif how == "turn":
        forge.remove_turn(first.id, project="p")
    elif how == "log":
        forge.prune_log(utc_now() + timedelta(days=1), project="p")
    remove(forge, "returns.md")
    kept_questions = forge.questions("feedback", project="p")
    assert {each.text for each in kept_questions} == {"Where is it sent back?", MATTRESS}
    [after] = forge.question_sets(project="p")
    assert after.digest != before.digest and after.digest == set_digest(kept_questions)
    assert places(forge) == []


# -- helpers


def only(forge: Ragforge, name: str) -> Filters:
    return Filters(documents=(forge.document(name, project="p").id,))


def keep(forge: Ragforge) -> Keep:
    return Keep(forge._parts.catalog, forge._scope, forge._parts.embedder_of, utc_now, log=True)


def kept(forge: Ragforge, thread: str, result: Result) -> Kept:
    """A result that was not kept, to be kept now."""
    asking = Asking(result.account.question, Tuning(), conversation=thread)
    account = replace(result.account, conversation=result.account.conversation or thread)
    return Kept(forge._scope, forge.project("p"), asking, account, replace(result, account=account))


def vectors(forge: Ragforge, thread: str) -> dict[str, bytes]:
    project = forge.project("p")
    with forge._parts.catalog.read() as c:
        return c.conversations.vectors(forge._scope, project.id, thread, project.embedder_fingerprint)


def old_entry(days: int, **facts: object) -> LogEntry:
    return entry(asked_at=utc_now() - timedelta(days=days), **facts)


def add_entries(forge: Ragforge, *entries: LogEntry, scope: Scope | None = None) -> None:
    with forge._parts.catalog.write() as c:
        for each in entries:
            c.log.add(scope or forge._scope, forge.project("p").id, each)


def ids(forge: Ragforge) -> set[str]:
    return {each.id for each in forge.query_log(project="p")}
