"""A key's day: what its questions took is counted however they were asked, and more is refused until midnight (UTC)."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

from ragforge import Ragforge
from ragforge.domain.access import KeyLimits, Role
from ragforge.domain.cancel import Cancel, Cancelled
from ragforge.errors import OverLimit, UserError
from ragforge.flows.make import Made
from ragforge.operate.access import Access
from ragforge.retrieve import gate
from ragforge.testing.model_server import NORMAL, STALL, ModelServer
from ragforge.testing.provider import ProviderStub
from tests.forge import open_forge
from tests.served import add_files, open_served
from tests.serving import serving

FILES = {"chair.md": "# Returns\n\nA chair can be returned within 30 days of delivery.\n"}
QUESTION = {"question": "How long can I return a chair?"}


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture(params=["with a log", "without a log"])
def forge(request: pytest.FixtureRequest, swift_path: Path, model: ModelServer) -> Iterator[Ragforge]:
    with open_served(swift_path / "workspace", model, ask__log=request.param == "with a log") as opened:
        add_files(opened, swift_path / "files", FILES)
        yield opened


def used(access: Access, secret: str) -> int:
    spent, _ = access.used_today(access.resolve(secret))
    return spent.input_tokens + spent.output_tokens


@pytest.mark.parametrize("how", [{}, {"ephemeral": True}])
def test_O4_a_days_tokens_are_used_up(forge: Ragforge, how: dict[str, Any]) -> None:
    access = forge.access()
    _, secret = access.create("k", Role.READER, limits=KeyLimits(tokens_per_day=1))
    _, other = access.create("other", Role.READER, limits=KeyLimits(tokens_per_day=10**9))
    headers = {"Authorization": f"Bearer {secret}"}
    with serving(forge) as url, httpx.Client(base_url=url, headers=headers, timeout=60) as client:
        assert client.post("/v1/projects/p/ask", json=QUESTION | how).status_code == 200
        assert used(access, secret) > 1 and used(access, other) == 0
        time.sleep(1.1)  # what was looked up is believed for a second
        refused = client.post("/v1/projects/p/search", json=QUESTION)
        assert refused.status_code == 429 and refused.json()["error"]["code"] == "limit"
        assert 0 < int(refused.headers["Retry-After"]) <= 86_400
        assert client.get("/v1/projects/p/files").status_code == 200, "what costs nothing goes on"
        answer = client.post("/v1/projects/p/ask", json=QUESTION, headers={"Authorization": f"Bearer {other}"})
        assert answer.status_code == 200, "others go on"
    if how or not forge.settings.ask.log:
        assert "chair" not in str(forge.query_log(project="p")[-1]), "figures, and nothing of the question"


def test_O4_without_tokens_there_is_no_end(forge: Ragforge) -> None:
    access = forge.access()
    _, secret = access.create("k", Role.READER, limits=KeyLimits(cost_per_day=Decimal("0.01")))
    with serving(forge) as url, httpx.Client(base_url=url, headers={"X-API-Key": secret}, timeout=60) as client:
        for _ in range(3):
            assert client.post("/v1/projects/p/ask", json=QUESTION | {"model": "offline"}).status_code == 200
    assert used(access, secret) == 0


def test_O4_the_owner_leaves_no_line_where_none_is_wanted(forge: Ragforge) -> None:
    before = len(forge.query_log(project="p"))
    forge.ask(QUESTION["question"], project="p", ephemeral=True)
    forge.prompt(QUESTION["question"], project="p")
    assert len(forge.query_log(project="p")) == before


def set_at_call(model: ModelServer, calls: int) -> Cancel:
    """Set when the model was called so many times more: by then it was asked, and does not answer."""
    cancel, last = Cancel(), len(model.calls) + calls

    def wait() -> None:
        deadline = time.monotonic() + 30
        while len(model.calls) < last and time.monotonic() < deadline:
            time.sleep(0.01)
        cancel.set()

    threading.Thread(target=wait, daemon=True).start()
    return cancel


def keyed(forge: Ragforge, role: Role = Role.READER, tokens_per_day: int = 0) -> tuple[str, Ragforge]:
    """A key, and the workspace as whoever has it reaches it."""
    _, secret = forge.access().create("k", role, limits=KeyLimits(tokens_per_day=tokens_per_day))
    return secret, forge.acting(forge.access().resolve(secret).scope)


def test_O4_vectors_of_a_service_are_counted(swift_path: Path) -> None:
    with ProviderStub() as paid, open_forge(swift_path / "w", embed__base_url=paid.base_url, ask__log=False) as forge:
        forge.create_project("bought", embedder="openai-compatible:vectors")
        secret, _ = keyed(forge)
        texts = {"input": ["a chair", "thirty days"]}
        with serving(forge) as url, httpx.Client(base_url=url, headers={"X-API-Key": secret}, timeout=60) as client:
            told = client.post("/v1/embeddings", json=texts | {"model": "ragforge/bought"}).json()
            assert client.post("/v1/embeddings", json=texts | {"model": "ragforge/p"}).status_code == 200
        assert used(forge.access(), secret) == told["usage"]["total_tokens"] > 0, "a model of our own costs nothing"
        forge.embedded(["mine"], project="bought")
        assert len(forge.query_log(project="bought")) == 1, "the owner's are nobody's figures"


def test_O4_what_a_judge_takes_is_counted(forge: Ragforge, model: ModelServer, swift_path: Path) -> None:
    questions = swift_path / "asked.jsonl"
    questions.write_text('{"question": "How long can I return a chair?", "documents": ["chair.md"]}\n')
    list(forge.importing_questions(questions, project="p", name="asked"))
    secret, guest = keyed(forge, Role.EDITOR)
    how = {"answers": True, "model": "offline", "judge": "openai-compatible:judge"}
    list(guest.evaluating("asked", project="p", **how))  # type: ignore[arg-type]
    assert len(model.calls) == 1 and used(forge.access(), secret) > 100
    model.script(STALL)
    before, cancel = used(forge.access(), secret), set_at_call(model, 1)
    with pytest.raises(Cancelled):
        list(guest.evaluating("asked", project="p", cancel=cancel, **how))  # type: ignore[arg-type]
    assert used(forge.access(), secret) > before + 100, "it was asked"


def test_O4_a_prompt_that_comes_to_nothing_is_counted(forge: Ragforge, model: ModelServer) -> None:
    secret, guest = keyed(forge)
    with pytest.raises(UserError, match="names none"):
        guest.prompt(QUESTION["question"], project="p", lock=True)
    assert len(model.calls) == 1 and used(forge.access(), secret) > 0
    model.script(STALL)
    before, cancel = used(forge.access(), secret), set_at_call(model, 1)
    with pytest.raises(Cancelled):
        guest.prompt(QUESTION["question"], project="p", cancel=cancel)
    assert used(forge.access(), secret) > before


def test_O4_calls_before_the_one_that_was_stopped_are_counted(
    forge: Ragforge, model: ModelServer, monkeypatch: pytest.MonkeyPatch, swift_path: Path
) -> None:
    add_files(forge, swift_path / "more", {"sofa.md": "# Returns\n\nA sofa can be returned within a long time.\n"})
    monkeypatch.setattr(gate, "_TOKENS_BATCH", 1)  # a call for each passage
    secret, guest = keyed(forge)
    how: dict[str, Any] = {"project": "p", "stages": ["gate"], "ephemeral": True}

    def asked(*behaviours: str) -> int:
        before, cancel = used(forge.access(), secret), set_at_call(model, len(behaviours))
        model.script(*behaviours)
        with pytest.raises(Cancelled):
            guest.ask(QUESTION["question"], cancel=cancel, **how)
        return used(forge.access(), secret) - before

    assert asked(NORMAL, STALL) > 1.5 * asked(STALL)


def calls_of_one(forge: Ragforge, model: ModelServer) -> int:
    """How often a model is called for one question."""
    forge.ask(QUESTION["question"], project="p")
    return len(model.calls)


def test_O4_many_questions_at_once_do_not_pass_a_days_limit(forge: Ragforge, model: ModelServer) -> None:
    one = calls_of_one(forge, model)
    secret, _ = keyed(forge, tokens_per_day=1)
    with serving(forge) as url, httpx.Client(base_url=url, headers={"X-API-Key": secret}, timeout=60) as client:

        def ask(number: int) -> int:
            how = {"headers": {"Accept": "text/event-stream"}} if number % 2 else {}
            answer = client.post("/v1/projects/p/ask", json=QUESTION, **how)  # type: ignore[arg-type]
            return 429 if '"code":"limit"' in answer.text.replace(" ", "") else answer.status_code

        with ThreadPoolExecutor(12) as threads:
            told = list(threads.map(ask, range(12)))
    assert set(told) == {200, 429} and told.count(200) <= 2
    assert len(model.calls) <= one + 2 * one


def test_O4_few_questions_are_at_work_at_once_where_the_day_is_limited(forge: Ragforge) -> None:
    _, guest = keyed(forge, tokens_per_day=10**6)
    at_work = [guest.answering(QUESTION["question"], project="p") for _ in range(3)]
    for events in at_work[:2]:
        next(events)
    with pytest.raises(OverLimit, match="2 at once") as refused:
        next(at_work[2])
    assert refused.value.retry_after == 1.0
    with pytest.raises(OverLimit):
        guest.prompt(QUESTION["question"], project="p")
    assert guest.ask(QUESTION["question"], project="p", model="offline"), "which takes nothing"
    assert keyed(forge, tokens_per_day=10**6)[1].ask(QUESTION["question"], project="p"), "others go on"
    at_work[0].close()  # type: ignore[attr-defined]
    assert guest.ask(QUESTION["question"], project="p") and guest.ask(QUESTION["question"], project="p")
    at_work[1].close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("how", [{}, {"model": "offline", "judge": "openai-compatible:judge"}])
def test_O4_an_evaluation_ends_with_the_day(
    forge: Ragforge, model: ModelServer, swift_path: Path, how: dict[str, Any]
) -> None:
    lines = (json.dumps({"question": f"Can I return chair {n}?", "documents": ["chair.md"]}) for n in range(4))
    (swift_path / "asked.jsonl").write_text("\n".join(lines))
    list(forge.importing_questions(swift_path / "asked.jsonl", project="p", name="asked"))
    _, guest = keyed(forge, Role.EDITOR, tokens_per_day=1)
    guest._in_a_job, one = True, calls_of_one(forge, model)
    with pytest.raises(OverLimit, match="1 tokens a day"):
        list(guest.evaluating("asked", project="p", answers=True, **how))
    assert 0 < len(model.calls) - one <= one
    assert not forge.evaluations(project="p")


def test_O4_a_document_is_quoted_where_the_day_ends(forge: Ragforge, model: ModelServer) -> None:
    _, guest = keyed(forge, Role.EDITOR, tokens_per_day=1)
    made = list(guest.making("blueprint", project="p", brief="chair returns"))[-1]
    assert isinstance(made, Made)
    assert len(model.calls) == 1
    assert any("quoted: this key may use 1 tokens a day" in problem for problem in made.artifact.problems)
