"""Whatever a model's service does, a question ends in time and in a typed way, costs little, and search goes on."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from ragforge import Ragforge
from ragforge.domain.answers import Abstention, Answer, DoneEvent, Result, TokenEvent, WhyNot
from ragforge.domain.cancel import Cancel, Cancelled
from ragforge.domain.tokens import Vector
from ragforge.errors import ProviderError, RagforgeError, TooLarge, UserError
from ragforge.ports import Embedder
from ragforge.testing import model_server as behaviours
from ragforge.testing.hashing import HashingEmbedder
from ragforge.testing.model_server import FAULTS, ModelServer
from tests.forge import open_forge
from tests.proof import count, record
from tests.served import add_files, answers, open_served

DEADLINE = 4.0
AT_ONCE = 8
"""Questions: the servers are in this process too, and one of them writes without end."""
KEY = "sk-very-secret"
QUESTION = "Who founded the company?"
FILES = {
    "founders.md": "# Company\n\nThe company was founded in 1987 by Inge and Klaus Petersen in Husum.\n",
    "returns.md": "# Returns\n\nA chair can be sent back within 60 days of its delivery. The van collects it.\n",
    "lamps.md": "# Lamps\n\nA lamp that fails within two years is mended without cost.\n",
    "desks.md": "# Desks\n\nA desk is delivered in three boxes, and put together by two people.\n",
}
SPEECHLESS = set(FAULTS) - {
    behaviours.RESET_MIDWAY,
    behaviours.STALL_MIDWAY,
    behaviours.HALF_OPEN,
    behaviours.BREAKS_OFF,
    behaviours.TRUNCATED,
    behaviours.HUGE,
}
"""Those that fail before the first word."""


@pytest.fixture(scope="module")
def workspace(memory_folder: Path | None) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=memory_folder) as folder:
        docs, workspace = Path(folder, "docs"), Path(folder, "workspace")
        with open_forge(workspace) as forge:
            add_files(forge, docs, FILES)
        yield workspace


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("STUB_KEY", KEY)
    return KEY


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


def opened(workspace: Path, server: ModelServer, embedder: Embedder | None = None, **more: object) -> Ragforge:
    """The workspace with the server for its model, which may be silent for a second."""
    usual = {"model__api_key_env": "STUB_KEY", "model__idle_seconds": 1.0}
    return open_served(workspace, server, embedder, **{**usual, **more})


@dataclass(frozen=True, slots=True)
class Outcome:
    fault: str
    staged: bool
    result: Result | None
    problem: RagforgeError | None
    overrun: float


def attempt(forge: Ragforge, fault: str, staged: bool) -> Outcome:
    """One question under the fault; without stages the only call is the one that writes the answer."""
    began, result, problem = time.monotonic(), None, None
    cancel = Cancel(DEADLINE)
    try:
        if staged:
            result = forge.ask(QUESTION, project="p", cancel=cancel)
        else:
            result = forge.ask(QUESTION, project="p", cancel=cancel, stages=())
    except RagforgeError as failure:
        problem = failure
    return Outcome(fault, staged, result, problem, time.monotonic() - began - DEADLINE)


def warm_up(workspace: Path) -> None:
    """What is imported for the first question is no part of the others."""
    with ModelServer() as server, opened(workspace, server) as forge:
        assert isinstance(forge.ask(QUESTION, project="p", ephemeral=True), Answer)


@pytest.mark.alone
@pytest.mark.usefixtures("key")
def test_every_question_ends_in_time_and_search_goes_on(workspace: Path) -> None:
    times = count(1, 5)
    warm_up(workspace)
    with ExitStack() as stack:
        servers = {fault: stack.enter_context(ModelServer(always=fault)) for fault in FAULTS}
        forges = {fault: stack.enter_context(opened(workspace, server)) for fault, server in servers.items()}
        searching = stack.enter_context(open_forge(workspace))
        for forge in forges.values():  # opened and warm, as a service is
            forge.ask(QUESTION, project="p", model="offline", ephemeral=True)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            jobs = [
                pool.submit(attempt, forges[fault], fault, staged)
                for _ in range(times)
                for staged in (True, False)
                for fault in FAULTS
            ]
            slowest = search_until(lambda: all(job.done() for job in jobs), searching)
            outcomes = [job.result() for job in jobs]
        calls = {fault: len(server.calls) for fault, server in servers.items()}
        assert found(searching) and all(found(forge) for forge in forges.values()), "search answers afterwards"

    worst = max(outcomes, key=lambda outcome: outcome.overrun)
    average = sum(calls.values()) / len(outcomes)
    record(
        "provider_faults",
        scenarios=len(FAULTS),
        questions=len(outcomes),
        deadline_seconds=DEADLINE,
        worst_overrun_seconds=round(worst.overrun, 3),
        worst_scenario=worst.fault,
        upstream_calls_on_average=round(average, 3),
        slowest_search_meanwhile_seconds=round(slowest, 3),
        quoted=sum(isinstance(each.result, Answer) and each.result.quoted for each in outcomes),
    )
    assert worst.overrun <= 1.0, worst
    assert average <= 2, calls
    for outcome in outcomes:
        check(outcome)


def found(forge: Ragforge) -> bool:
    return forge.search(QUESTION, project="p", k=1).passages[0].name == "founders.md"


def search_until(done: Callable[[], bool], forge: Ragforge) -> float:
    """Search again and again, and tell how long the slowest took."""
    slowest = 0.0
    while not done():
        began = time.monotonic()
        assert found(forge)
        slowest = max(slowest, time.monotonic() - began)
        time.sleep(0.02)
    return slowest


def check(outcome: Outcome) -> None:
    """Quotes that say what failed and what to do; or as much of the answer as there was, and that it broke off."""
    assert outcome.problem is None, outcome
    answer = outcome.result
    assert isinstance(answer, Answer), outcome
    told = " ".join((*answer.account.notices, *(each.message for each in answer.account.degraded)))
    assert KEY not in repr(answer)
    if not answer.account.degraded:  # a limit of its own stopped it
        assert outcome.fault == behaviours.HUGE, outcome
        return
    assert "openai-compatible:stub" in told, outcome
    assert all(each.hint for each in answer.account.degraded), outcome
    if answer.quoted:
        assert answer.text.startswith("The company was founded in 1987") and answer.citations[0].proved
        assert "these are quotes" in told
    else:
        assert not outcome.staged or outcome.fault == behaviours.HUGE, outcome
        assert outcome.fault not in SPEECHLESS and "stopped in the middle" in told, outcome


# -- what exactly is said


@pytest.mark.usefixtures("key")
@pytest.mark.parametrize(
    ("fault", "said", "hint"),
    [
        (behaviours.UNAUTHORIZED, "refused the key (401)", "set STUB_KEY"),
        (behaviours.FORBIDDEN, "refused the key (403)", "set STUB_KEY"),
        (behaviours.UNKNOWN_MODEL, "no model is called openai-compatible:stub", "model's name"),
        (behaviours.RATE_LIMITED_LONG, "asks to slow down", "wait 3,600 s"),
        (behaviours.QUOTA, "quota", "add credit"),
        (behaviours.SERVER_ERROR, "answered 500", "try again"),
        (behaviours.WRONG_TYPE, "no answer that can be read", "the right address?"),
        (behaviours.STALL, "did not answer in time", "model.idle_seconds"),
    ],
)
def test_the_answer_says_what_failed_and_what_to_do(
    workspace: Path, server: ModelServer, fault: str, said: str, hint: str
) -> None:
    server.always = fault
    with opened(workspace, server, model__idle_seconds=0.3) as forge:
        answer = forge.ask(QUESTION, project="p", stages=())
    assert isinstance(answer, Answer) and answer.quoted
    [missing] = answer.account.degraded
    assert missing.part == "model" and said in missing.message and hint in missing.hint
    assert missing.message.count("openai-compatible:stub") == 1
    assert KEY not in repr(answer)


@pytest.mark.usefixtures("key")
@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("ollama:llama3.1", "ollama:llama3.2"),
        ("openai-compatible:qwen3-8b", "openai-compatible:qwen3:8b"),
        ("openai:gpt-4.1-minni", "openai:gpt-4.1-mini"),
    ],
)
def test_an_unknown_model_is_told_what_there_is(workspace: Path, server: ModelServer, name: str, near: str) -> None:
    server.always = behaviours.UNKNOWN_MODEL
    with opened(workspace, server, model__name=name) as forge:
        answer = forge.ask(QUESTION, project="p")
    assert isinstance(answer, Answer) and answer.quoted and len(server.calls) == 1
    assert any(near in missing.hint for missing in answer.account.degraded)


def test_a_model_without_a_key_or_with_a_wrong_name_is_said_at_once(workspace: Path, server: ModelServer) -> None:
    with opened(workspace, server, model__name="openai:gpt-4.1-mini") as forge:
        with pytest.raises(UserError, match="needs a key") as caught:
            forge.ask(QUESTION, project="p")
        assert "set STUB_KEY" in caught.value.hint
        with pytest.raises(UserError, match="no language model is called 'gpt'"):
            forge.ask(QUESTION, project="p", model="gpt")
        with pytest.raises(UserError, match="no provider is called 'nobody'"):
            forge.ask(QUESTION, project="p", model="nobody:x")
        assert found(forge) and not server.calls


def test_what_fails_in_passing_is_never_seen(workspace: Path, server: ModelServer) -> None:
    server.reply = "Inge and Klaus Petersen founded it in 1987 [1]."
    server.script(behaviours.SERVER_ERROR)
    with opened(workspace, server) as forge:
        answer = forge.ask(QUESTION, project="p", stages=())
    assert isinstance(answer, Answer) and not answer.quoted and not answer.account.degraded
    assert answer.citations[0].name == "founders.md" and len(server.calls) == 2


def test_a_model_that_keeps_failing_is_left_alone(workspace: Path, server: ModelServer) -> None:
    server.always = behaviours.SERVER_ERROR
    with opened(workspace, server) as forge:
        answers = [forge.ask(QUESTION, project="p", ephemeral=True) for _ in range(8)]
        assert all(isinstance(answer, Answer) and answer.quoted for answer in answers)
        assert len(server.calls) <= 6, "the breaker opens after five failures in a row"
        assert any("tried again in" in each.message for each in answers[-1].account.degraded)


@pytest.mark.usefixtures("key")
def test_a_failure_on_the_way_costs_no_further_calls(workspace: Path, server: ModelServer) -> None:
    """The first stage that fails is the last that asks."""
    server.script(behaviours.NORMAL, behaviours.UNAUTHORIZED)
    with opened(workspace, server) as forge:
        answer = forge.ask(QUESTION, project="p")
    assert isinstance(answer, Answer) and answer.quoted
    assert len(server.calls) == 2


def test_a_prompt_that_was_made_before_and_cannot_be_sent_is_an_error(workspace: Path, server: ModelServer) -> None:
    with opened(workspace, server) as forge:
        prompted = forge.prompt(QUESTION, project="p", stages=())
        server.always = behaviours.UNAUTHORIZED
        with pytest.raises(ProviderError, match="wants a key") as caught:
            forge.ask(QUESTION, project="p", prompted=prompted)
        assert "STUB_KEY" in caught.value.hint
        [logged] = forge.query_log(project="p", limit=1)
        assert logged.kind == "error" and "wants a key" in logged.error


# -- too little room


@pytest.mark.parametrize("window", [100, 500, 1_100, 1_500])
def test_a_small_window_is_said(workspace: Path, server: ModelServer, window: int) -> None:
    with opened(workspace, server, model__window=window) as forge:
        try:
            answer = forge.ask(QUESTION, project="p", ephemeral=True)
        except TooLarge as problem:
            assert f"{max(0, window - 1024)}" in problem.message and "model.max_tokens" in problem.hint
            assert window < 1_500
        else:
            assert isinstance(answer, Answer)
            assert any("no room in the prompt for" in notice for notice in answer.account.notices)
            sent = [call for call in server.calls if call.json.get("stream")]
            assert len(sent) == (not answer.quoted) and all(len(call.prompt) // 5 + 1024 < window for call in sent)
            assert answer.account.sources and (answer.quoted or answer.account.prompt.sources)  # type: ignore[union-attr]


def test_what_fits_no_more_is_named(workspace: Path, server: ModelServer) -> None:
    with opened(workspace, server, model__window=700, model__max_tokens=60) as forge:
        answer = forge.ask("Who founded the company, and when is a lamp mended?", project="p", stages=())
    assert isinstance(answer, Answer) and not answer.quoted
    left_out = [notice for notice in answer.account.notices if "no room in the prompt for source" in notice]
    kept = {source.name for source in answer.account.prompt.sources} if answer.account.prompt else set()
    assert left_out and kept and not any(name in left_out[0] for name in kept)


class SlowToFind(HashingEmbedder):
    """Takes its time with questions."""

    def embed_query(self, text: str, cancel: Cancel) -> Vector:
        time.sleep(1.7)
        return super().embed_query(text, cancel)


def test_time_that_ran_out_between_two_calls_is_said(workspace: Path, server: ModelServer) -> None:
    warm_up(workspace)
    with opened(workspace, server, SlowToFind(64), model__timeout_seconds=1.5) as forge:
        answer = forge.ask(QUESTION, project="p", ephemeral=True)
    assert isinstance(answer, Answer) and answer.quoted
    assert any("in the time given" in missing.message for missing in answer.account.degraded)
    assert len(server.calls) == 1


# -- somebody who does not wait


def eventually(true: Callable[[], bool], seconds: float = 3.0) -> bool:
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.01)
    return true()


def test_a_stream_that_is_closed_hangs_up_and_keeps_no_turn(workspace: Path, server: ModelServer) -> None:
    server.always = behaviours.STALL_MIDWAY
    server.reply = "The company was founded in 1987 by Inge and Klaus Petersen [1]. So it was, in Husum."
    with opened(workspace, server, model__idle_seconds=30) as forge:
        conversation = forge.begin_conversation("cut short", project="p").id
        before = len(forge.query_log(project="p", limit=1_000))
        stream = forge.stream(QUESTION, project="p", conversation=conversation, stages=())
        assert any(isinstance(event, TokenEvent) for event in stream)
        assert server.disconnects == 0
        stream.close()  # type: ignore[attr-defined]
        assert eventually(lambda: server.disconnects == 1)
        assert forge.turns(conversation, project="p") == []
        assert len(forge.query_log(project="p", limit=1_000)) == before + 1, "it was paid"
        server.always = behaviours.NORMAL
        assert isinstance(forge.ask(QUESTION, project="p", conversation=conversation, stages=()), Answer)
        assert [turn.number for turn in forge.turns(conversation, project="p")] == [1]


@pytest.mark.parametrize("stages", [(), ("shape", "gate", "condense")])
def test_a_cancel_hangs_up_and_keeps_no_turn(workspace: Path, server: ModelServer, stages: tuple[str, ...]) -> None:
    server.always = behaviours.STALL
    with opened(workspace, server, model__idle_seconds=30) as forge:
        conversation = forge.begin_conversation("cancelled", project="p").id
        before = len(forge.query_log(project="p", limit=1_000))
        cancel, stopped = Cancel(), [0.0]

        def stop_it() -> None:
            eventually(lambda: bool(server.calls), 30)
            stopped[0] = time.monotonic()
            cancel.set()

        stopper = threading.Thread(target=stop_it)
        stopper.start()
        with pytest.raises(Cancelled):
            forge.ask(QUESTION, project="p", conversation=conversation, stages=stages, cancel=cancel)
        assert time.monotonic() - stopped[0] < 3
        stopper.join()
        assert eventually(lambda: server.disconnects == 1)
        assert forge.turns(conversation, project="p") == []
        assert len(forge.query_log(project="p", limit=1_000)) == before + 1, "it was paid"


def test_what_is_done_after_an_answer_keeps_nobody_waiting(workspace: Path, server: ModelServer) -> None:
    """Old turns are summed up when an answer is kept: by the model that answers, and in the time for the question."""
    with opened(workspace, server, model__idle_seconds=30) as forge:
        conversation = forge.begin_conversation("long", project="p").id
        server.always = behaviours.STALL
        for number in range(54):
            forge.ask(f"Who founded company {number}?", project="p", conversation=conversation, model="offline")
        assert forge.rollups(conversation, project="p") and not server.calls, "nobody is asked for an offline answer"
        server.always, server.always_forms = behaviours.NORMAL, behaviours.STALL
        for asked in range(1, 20):
            began = time.monotonic()
            forge.ask(QUESTION, project="p", conversation=conversation, stages=(), cancel=Cancel(DEADLINE))
            assert time.monotonic() - began < DEADLINE + 1
            if len(server.calls) > asked:
                break
        else:
            raise AssertionError("none of them was summed up")


# -- nothing to ask, or nobody


@pytest.mark.parametrize("model", ["", "offline"])
def test_a_file_that_is_not_there_or_is_off_is_said(workspace: Path, server: ModelServer, model: str) -> None:
    with opened(workspace, server) as forge:
        for name, said in (("prices.toml", "prices.toml"), ("lamps.md", "lamps.md is switched off")):
            forge.enable(["lamps.md"], False, project="p")
            try:
                question = f"Who founded the company, as {name} has it?"
                result = forge.ask(question, project="p", model=model, ephemeral=True)
                with pytest.raises(UserError, match="names none that can be read") as caught:
                    forge.ask(question, project="p", model=model, lock=True)
            finally:
                forge.enable(["lamps.md"], True, project="p")
            assert any(said in notice for notice in result.account.notices), result.account.notices
            assert said in caught.value.hint
        assert "mended" not in "".join(call.prompt for call in server.calls)


@pytest.mark.parametrize("model", ["", "offline"])
def test_an_empty_project_says_so_and_pays_for_no_answer(workspace: Path, server: ModelServer, model: str) -> None:
    with opened(workspace, server) as forge:
        if not any(project.slug == "empty" for project in forge.projects()):
            forge.create_project("empty", embedder="hashing")
        result = forge.ask(QUESTION, project="empty", model=model)
    assert isinstance(result, Abstention) and result.why is WhyNot.EMPTY_PROJECT and "ragforge add" in result.suggestion
    assert not answers(server)


def test_without_a_model_everything_is_answered_by_quoting(workspace: Path) -> None:
    with open_forge(workspace) as forge:
        events = list(forge.stream(QUESTION, project="p"))
    done = events[-1]
    assert isinstance(done, DoneEvent) and isinstance(done.result, Answer)
    assert done.result.quoted and done.result.account.model == "" and not done.result.account.degraded
