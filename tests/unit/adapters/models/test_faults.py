"""Whatever a service does, a call ends in time, in a typed way, and costs at most two requests."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from ragforge.adapters.models.breaker import Breaker
from ragforge.adapters.models.pydantic_ai import Patience, ServedModel
from ragforge.domain.cancel import Cancel
from ragforge.domain.generation import Message, Role, Sampling
from ragforge.domain.pending import waited
from ragforge.errors import ProviderError, QuotaExceeded, RagforgeError, RateLimited
from ragforge.testing import model_server as behaviours
from ragforge.testing.contracts.models import TOOLS, Verdict
from ragforge.testing.model_server import FAULTS, ModelServer
from tests.proof import count, record

AT_ONCE = 8
"""Calls: the servers are in this process too, and one of them writes without end."""
DEADLINE = 1.6
KEY = "sk-very-secret"
QUESTION = (Message(Role.USER, "What is the refund window?"),)
FINAL = {behaviours.UNAUTHORIZED, behaviours.FORBIDDEN, behaviours.UNKNOWN_MODEL, behaviours.QUOTA}
"""Trying again does not help."""
SPEECHLESS = set(FAULTS) - {
    behaviours.RESET_MIDWAY,
    behaviours.STALL_MIDWAY,
    behaviours.HALF_OPEN,
    behaviours.BREAKS_OFF,
    behaviours.TRUNCATED,
    behaviours.HUGE,
}
"""Fail before the first word."""


@dataclass(frozen=True, slots=True)
class Outcome:
    fault: str
    problem: RagforgeError | None
    overrun: float
    written: str = ""


def model_at(server: ModelServer, protocol: str) -> ServedModel:
    """A model without a breaker: every request is really sent."""
    name, url = {
        "openai": ("openai-compatible:any", server.base_url),
        "anthropic": ("anthropic:claude-haiku-4-5", server.root_url),
    }[protocol]
    never = Breaker(name, failures=1_000_000)
    patience = Patience(idle_seconds=1.2, pause_seconds=0.05)
    return ServedModel(name, key=KEY, base_url=url, patience=patience, breaker=never)


def attempt(model: ServedModel, fault: str, kind: str) -> Outcome:
    cancel, began, written = Cancel(DEADLINE), time.monotonic(), ""
    problem: RagforgeError | None = None
    try:
        if kind == "stream":
            for piece in waited(model.stream(QUESTION, Sampling(), "request-1", cancel)):
                written += piece if isinstance(piece, str) else ""
        elif kind == "fill":
            model.fill(QUESTION, Verdict, Sampling(), "request-1", cancel)
        else:
            model.act(QUESTION, TOOLS, Sampling(), "request-1", cancel)
    except RagforgeError as failure:
        problem = failure
    return Outcome(fault, problem, time.monotonic() - began - DEADLINE, written)


def warm_up(protocol: str) -> None:
    """What is imported for the first request is no part of the others."""
    with ModelServer() as server:
        model = model_at(server, protocol)
        list(waited(model.stream(QUESTION, Sampling(), "request-1", Cancel(30))))
        model.fill(QUESTION, Verdict, Sampling(), "request-1", Cancel(30))
        model.act(QUESTION, TOOLS, Sampling(), "request-1", Cancel(30))
        model.close()


@pytest.mark.alone
@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
@pytest.mark.parametrize("kind", ["stream", "fill", "act"])
def test_every_call_ends_in_time_with_at_most_two_requests(protocol: str, kind: str) -> None:
    times = count(2, 50)
    warm_up(protocol)
    with ExitStack() as stack:
        servers = {fault: stack.enter_context(ModelServer(always=fault)) for fault in FAULTS}
        models = {fault: model_at(server, protocol) for fault, server in servers.items()}
        for model in models.values():
            stack.callback(model.close)
            _ = model._model
        with ThreadPoolExecutor(AT_ONCE) as pool:
            jobs = [pool.submit(attempt, models[fault], fault, kind) for _ in range(times) for fault in FAULTS]
            outcomes = [job.result() for job in jobs]
        calls = {fault: len(server.calls) for fault, server in servers.items()}

    worst = max(outcomes, key=lambda outcome: outcome.overrun)
    average = sum(calls.values()) / len(outcomes)
    record(
        f"model_faults_{protocol}_{kind}",
        scenarios=len(FAULTS),
        requests=len(outcomes),
        deadline_seconds=DEADLINE,
        worst_overrun_seconds=round(worst.overrun, 3),
        worst_scenario=worst.fault,
        upstream_calls_on_average=round(average, 3),
    )
    assert worst.overrun <= 1.0, worst
    assert average <= 2
    assert max(calls.values()) <= 2 * times
    for outcome in outcomes:
        check(outcome, kind)
    for fault in FINAL:
        assert calls[fault] == times, fault


def check(outcome: Outcome, kind: str) -> None:
    problem = outcome.problem
    if outcome.fault == behaviours.HUGE and kind != "stream":
        return  # a large but right answer
    assert isinstance(problem, ProviderError), outcome
    assert KEY not in f"{problem} {problem.hint} {problem!r}"
    if outcome.overrun >= 0:
        return  # the clock was quicker than the fault
    if outcome.fault != behaviours.HUGE:  # stopped by the clock or by its length, whichever comes first
        assert problem.retryable == (outcome.fault not in FINAL), outcome
    assert isinstance(problem, RateLimited) == (outcome.fault.startswith("429") and outcome.fault != behaviours.QUOTA)
    assert isinstance(problem, QuotaExceeded) == (outcome.fault == behaviours.QUOTA)
    if kind == "stream":
        assert bool(outcome.written) == (outcome.fault not in SPEECHLESS), outcome


def test_what_fails_once_is_tried_once_more() -> None:
    with ModelServer() as server:
        model = model_at(server, "openai")
        for fault in (behaviours.SERVER_ERROR, behaviours.RESET, behaviours.GARBAGE, behaviours.EMPTY):
            before = len(server.calls)
            server.script(fault)
            outcome = attempt(model, fault, "stream")
            assert outcome.problem is None
            assert outcome.written == server.reply
            assert len(server.calls) - before == 2
        model.close()


def test_nothing_is_said_twice() -> None:
    """Once a word has reached the caller there is no second try."""
    with ModelServer() as server:
        model = model_at(server, "openai")
        server.script(behaviours.RESET_MIDWAY)
        outcome = attempt(model, behaviours.RESET_MIDWAY, "stream")
        assert isinstance(outcome.problem, ProviderError)
        assert str(server.reply).startswith(outcome.written)
        assert len(server.calls) == 1
        model.close()


def test_a_model_that_writes_without_end_is_stopped() -> None:
    with ModelServer(always=behaviours.HUGE) as server:
        model = model_at(server, "openai")
        with pytest.raises(ProviderError, match="does not keep to 16 tokens"):
            list(waited(model.stream(QUESTION, Sampling(max_tokens=16), "request-1", Cancel(10))))
        model.close()


def test_few_pieces_may_be_too_long_as_well() -> None:
    with ModelServer(reply="x" * 100_000) as server:
        model = model_at(server, "openai")
        with pytest.raises(ProviderError, match="does not keep to 256 tokens"):
            list(waited(model.stream(QUESTION, Sampling(max_tokens=256), "request-1", Cancel(10))))
        assert len(server.calls) == 1
        model.close()


def test_a_service_nobody_runs_is_said_so() -> None:
    with ModelServer() as server:
        url = server.base_url
    model = ServedModel("ollama:llama3.2", base_url=url, patience=Patience(pause_seconds=0.01))
    with pytest.raises(ProviderError, match="cannot be reached") as caught:
        list(waited(model.stream(QUESTION, Sampling(), "request-1", Cancel(5))))
    assert "ollama serve" in caught.value.hint
    model.close()
