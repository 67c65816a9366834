"""Programs that know OpenAI's API ask a project unchanged, but for the address and the key."""

from __future__ import annotations

import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import openai
import pytest
from openai import OpenAI

from ragforge import Ragforge
from ragforge.domain.access import Role
from ragforge.domain.cancel import Cancel
from ragforge.domain.tokens import Matrix, Passage
from ragforge.errors import StoreError
from ragforge.interfaces.http.completions import Replies
from ragforge.testing.model_server import BREAKS_OFF, CUT, NORMAL, RESET_MIDWAY, STALL, STALL_MIDWAY, ModelServer
from tests.forge import WatchedEmbedder, open_forge
from tests.proof import record
from tests.served import add_files, answers, open_served, received
from tests.serving import serving

FILES = {
    "returns.md": "# Returns\n\nThe refund window is thirty days. Chairs must be unused.\n",
    "parts.md": "# Parts\n\nThe gizmo needs a sprocket of nine millimetres.\n",
}
QUESTION = "How long is the refund window?"
SCRIPT = """
from openai import OpenAI

client = OpenAI(base_url=BASE_URL, api_key=KEY)
for model in client.models.list():
    print(model.id)

messages = [{"role": "user", "content": "How long is the refund window?"}]
reply = client.chat.completions.create(model="ragforge/p", messages=messages)
print(reply.choices[0].message.content)

for chunk in client.chat.completions.create(model="ragforge/p", messages=messages, stream=True):
    if chunk.choices and chunk.choices[0].delta.content:
        print(chunk.choices[0].delta.content, end="")
print()

vectors = client.embeddings.create(model="ragforge/p", input=["refund", "sprocket"])
print(len(vectors.data), len(vectors.data[0].embedding))
"""


@dataclass
class Shop:
    """A server, the model behind it, and an ordinary client."""

    forge: Ragforge
    model: ModelServer
    url: str
    client: OpenAI

    def ask(self, *messages: tuple[str, str], **how: object) -> openai.types.chat.ChatCompletion:
        said = [{"role": role, "content": text} for role, text in messages]
        return self.client.chat.completions.create(model="ragforge/p", messages=said, **how)  # type: ignore[call-overload, no-any-return]


@contextmanager
def opened(folder: Path) -> Iterator[Shop]:
    with ModelServer() as model, open_served(folder / "workspace", model) as forge:
        add_files(forge, folder / "docs", FILES)
        with serving(forge) as url, OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
            yield Shop(forge, model, url, client)


@pytest.fixture(scope="module")
def one_shop(memory_folder: Path | None) -> Iterator[Shop]:
    with tempfile.TemporaryDirectory(dir=memory_folder) as folder, opened(Path(folder)) as shop:
        yield shop


@pytest.fixture
def shop(one_shop: Shop) -> Shop:
    """For tests that change nothing in it; its model begins anew."""
    one_shop.model.rest()
    one_shop.model.reply, one_shop.model.always, one_shop.model.always_forms = ModelServer.reply, NORMAL, NORMAL
    one_shop.model.calls.clear()
    one_shop.model.disconnects = 0
    return one_shop


def test_an_ordinary_script_runs_unchanged(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    before = ended_with(shop)
    exec(SCRIPT, {"BASE_URL": f"{shop.url}/v1", "KEY": "none"})
    answer = "The refund window is thirty days [1]."
    assert capsys.readouterr().out.splitlines() == ["ragforge/p", answer, answer, "2 64"]
    until(lambda: (ended_with(shop) - before).total() >= SCRIPT.count("client."))
    ended = ended_with(shop) - before
    record("openai_client", calls=ended.total(), failed=ended.total() - ended["200"])
    assert ended == {"200": 4}


def ended_with(shop: Shop) -> Counter[str]:
    """How many requests the server has answered, by their status."""
    page = httpx.get(f"{shop.url}/metrics").text
    counts: Counter[str] = Counter()
    for status, number in re.findall(r'^ragforge_http_requests_total.*route="/v1/.*status="(\d+)"} (.+)$', page, re.M):
        counts[status] += int(float(number))
    return counts


def test_an_answer_tells_what_it_cites_and_what_it_took(shop: Shop) -> None:
    reply = shop.ask(("user", QUESTION))
    choice, extra = reply.choices[0], reply.model_extra
    assert choice.finish_reason == "stop" and extra is not None
    assert reply.usage and reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens > 0
    (mark,) = choice.message.annotations or []
    cited = mark.url_citation
    assert choice.message.content and choice.message.content[cited.start_index : cited.end_index] == "[1]"
    assert (cited.model_extra or {})["quote"] == "The refund window is thirty days."
    assert (cited.model_extra or {})["file"] == "returns.md" and cited.title.startswith("returns.md")
    assert cited.url.startswith(f"{shop.url}/v1/projects/p/files/") and cited.url.endswith("/content")
    assert extra["sources"][0]["document"] == "returns.md" and "thirty days" in extra["sources"][0]["text"]
    assert (
        extra["ragforge"]["kind"] == "answer"
        and extra["ragforge"]["trace_id"] == shop.forge.logged("last", project="p").id
    )


def test_the_last_pieces_of_a_stream_tell_the_same(shop: Shop) -> None:
    stream = shop.client.chat.completions.create(
        model="ragforge/p",
        messages=[{"role": "user", "content": QUESTION}],
        stream=True,
        stream_options={"include_usage": True},
    )
    *pieces, last, used = list(stream)
    assert "".join(piece.choices[0].delta.content or "" for piece in pieces) == "The refund window is thirty days [1]."
    assert pieces[0].choices[0].delta.role == "assistant" and len(pieces) > 2
    assert last.choices[0].finish_reason == "stop"
    (mark,) = (last.choices[0].delta.model_extra or {})["annotations"]
    assert mark["url_citation"]["file"] == "returns.md"
    assert (last.model_extra or {})["sources"][0]["document"] == "returns.md"
    assert not used.choices and used.usage and used.usage.total_tokens > 0
    assert len({each.id for each in (*pieces, last, used)}) == 1


def test_a_stream_ends_as_openai_ends_it(shop: Shop) -> None:
    body = {"model": "ragforge/p", "messages": [{"role": "user", "content": QUESTION}], "stream": True}
    with httpx.stream("POST", f"{shop.url}/v1/chat/completions", json=body) as response:
        lines = [line for line in response.iter_lines() if line]
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["cache-control"] == "no-store" and response.headers["x-accel-buffering"] == "no"
    assert lines[-1] == "data: [DONE]" and all(line.startswith("data: {") for line in lines[:-1])
    assert '"usage"' not in "".join(lines)


def test_earlier_messages_are_history_and_system_messages_instruct(shop: Shop) -> None:
    shop.ask(
        ("system", "Speak like a pirate."),
        ("user", "What does the gizmo need?"),
        ("assistant", "A sprocket of nine millimetres."),
        ("developer", "Name the file."),
        ("user", "How long is the refund window for it?"),
        temperature=0.7,
        max_completion_tokens=77,
        stop=["END", "STOP"],
    )
    sent = answers(shop.model)[-1]
    whole = "\n".join(text for _, text in received(sent))
    assert "Speak like a pirate.\n\nName the file." in "\n".join(
        text for role, text in received(sent) if role == "system"
    )
    assert "What does the gizmo need?" in whole and "A sprocket of nine millimetres." in whole
    assert sent.json["temperature"] == 0.7 and sent.json["stop"] == ["END", "STOP"]
    assert 77 in (sent.json.get("max_tokens"), sent.json.get("max_completion_tokens"))


@pytest.mark.parametrize("stream", [False, True])
def test_an_abstention_is_a_whole_answer(shop: Shop, stream: bool) -> None:
    body = {"model": "ragforge/p", "messages": [{"role": "user", "content": "Who painted zyxwv?"}], "stream": stream}
    shop.model.reply = "MISSING: the files do not name a painter."
    made = shop.client.chat.completions.create(**body)  # type: ignore[call-overload]
    if stream:
        pieces = list(made)
        text, last = "".join(piece.choices[0].delta.content or "" for piece in pieces), pieces[-1]
    else:
        text, last = made.choices[0].message.content, made
    assert last.choices[0].finish_reason == "stop"
    told = last.model_extra["ragforge"]
    assert told["kind"] == "abstention" and told["why"] and text.startswith(told["reason"])


def test_an_answer_that_is_cut_says_so(shop: Shop) -> None:
    shop.model.always = CUT
    assert shop.ask(("user", QUESTION)).choices[0].finish_reason == "length"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"n": 2}, "n"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "assistant", "content": "Hello"}]}, "messages"),
        ({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}, "messages"),
        ({"messages": [{"role": "user", "content": "  "}]}, "messages"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
            "messages[0].content",
        ),
        ({"messages": [{"role": "tool", "content": "1", "tool_call_id": "c"}]}, "messages[0].role"),
        ({"temperature": 9}, "temperature"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"stop": [""]}, "stop"),
    ],
)
def test_what_is_not_done_is_refused_in_their_shape(shop: Shop, body: dict[str, object], param: str) -> None:
    usual = {"model": "ragforge/p", "messages": [{"role": "user", "content": QUESTION}]}
    with pytest.raises(openai.BadRequestError) as refused:
        shop.client.post("/chat/completions", body={**usual, **body}, cast_to=object)
    error = refused.value
    assert error.param == param and error.type == "invalid_request_error" and error.code
    assert isinstance(error.body, dict) and error.body["message"].endswith(f". Next: {error.body['hint']}")
    assert not answers(shop.model)


def test_what_openai_would_leave_aside_is_left_aside(shop: Shop) -> None:
    reply = shop.ask(
        ("user", QUESTION), n=1, tools=[], user="me", seed=3, presence_penalty=0.5, extra_body={"made_up": [1, 2]}
    )
    assert reply.choices[0].message.content == "The refund window is thirty days [1]."
    parts = [{"type": "text", "text": "How long is"}, {"type": "text", "text": "the refund window?"}]
    messages = [{"role": "user", "content": parts}]
    again = shop.client.chat.completions.create(model="ragforge/p", messages=messages)  # type: ignore[arg-type]
    assert again.choices[0].message.content == reply.choices[0].message.content


def test_a_project_out_of_reach_is_a_model_that_does_not_exist(swift_path: Path) -> None:
    with opened(swift_path) as shop:
        _out_of_reach(shop)


def _out_of_reach(shop: Shop) -> None:
    other = shop.forge.create_project("other", embedder="hashing")
    key = shop.forge.access().create("a reader", Role.READER, projects=frozenset({other.id}))[1]
    time.sleep(0.6)  # until then the server believes that there are no keys
    with OpenAI(base_url=f"{shop.url}/v1", api_key=key, max_retries=0) as client:
        assert [model.id for model in client.models.list()] == ["ragforge/other"]
        assert client.models.retrieve("ragforge/other").owned_by == "ragforge"
        told = []
        for name in ("ragforge/p", "ragforge/q", "gpt-5"):
            for call in (
                lambda: client.models.retrieve(name),  # noqa: B023
                lambda: client.embeddings.create(model=name, input="x"),  # noqa: B023
                lambda: client.chat.completions.create(model=name, messages=[{"role": "user", "content": "x"}]),  # noqa: B023
            ):
                with pytest.raises(openai.NotFoundError) as missing:
                    call()
                assert missing.value.code == "model_not_found" and missing.value.param == "model"
                assert "Next: GET /v1/models lists those that do; a project" in missing.value.message
                told.append(missing.value.message.replace(name, "…"))
        assert len({text.split("request_id")[0] for text in told}) == 1
    wrong = OpenAI(base_url=f"{shop.url}/v1", api_key="wrong", max_retries=0)
    with wrong as stranger, pytest.raises(openai.AuthenticationError, match=r"works no more\. Next: "):
        stranger.models.list()


def test_vectors_are_those_of_the_project(shop: Shop) -> None:
    texts = ["refund window", "sprocket", "refund window"]
    by_client = shop.client.embeddings.create(model="ragforge/p", input=texts)  # the client asks for base64
    plain = shop.client.post(
        "/embeddings", body={"model": "ragforge/p", "input": texts, "encoding_format": "float"}, cast_to=object
    )
    expected, _ = shop.forge.embedded(texts, project="p")
    assert np.array_equal(np.array([each.embedding for each in by_client.data], np.float32), expected)
    assert np.allclose([each["embedding"] for each in plain["data"]], expected)  # type: ignore[index]
    assert by_client.usage.prompt_tokens > 0 and [each.index for each in by_client.data] == [0, 1, 2]
    assert len(shop.client.embeddings.create(model="ragforge/p", input="one", dimensions=64).data) == 1


@pytest.mark.parametrize(
    "body",
    [
        {"input": []},
        {"input": ""},
        {"input": ["a", ""]},
        {"input": [[1, 2]]},
        {"input": ["x"] * 257},
        {"input": ["x" * 2_000] * 200},
        {"input": "x", "dimensions": 3},
        {"input": "x", "encoding_format": "int8"},
        {"input": None},
    ],
)
def test_what_cannot_be_embedded_is_refused(shop: Shop, body: dict[str, object]) -> None:
    with pytest.raises(openai.BadRequestError):
        shop.client.post("/embeddings", body={"model": "ragforge/p", **body}, cast_to=object)


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


class Slow(WatchedEmbedder):
    """Takes its time over long texts, until it is told to stop."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[Cancel] = []

    def embed(self, passages: Sequence[Passage], cancel: Cancel) -> Matrix:
        if len(passages[0].text) > 1_000:
            self.begun.append(cancel)
            cancel.wait(20)
            cancel.check()
        return super().embed(passages, cancel)


def test_vectors_of_much_text_keep_nobody_from_searching_and_end_with_whoever_wants_them(tmp_path: Path) -> None:
    embedder = Slow()
    with open_forge(tmp_path / "ws", embedder, server__threads=2) as forge, serving(forge) as url:
        add_files(forge, tmp_path / "docs", FILES)

        def embed(_: int) -> None:
            body = {"model": "ragforge/p", "input": "word " * 1_000}
            with pytest.raises(httpx.ReadTimeout):
                httpx.post(f"{url}/v1/embeddings", json=body, timeout=1)

        with ThreadPoolExecutor(5) as pool:
            waiting = [pool.submit(embed, number) for number in range(5)]
            until(lambda: len(embedder.begun) == 2)
            httpx.post(f"{url}/v1/projects/p/search", json={"question": QUESTION}, timeout=0.9).raise_for_status()
            for each in waiting:
                each.result()
        until(lambda: all(each.is_set for each in embedder.begun))


@pytest.mark.parametrize("when", ["before the answer", "in the answer", "in its stream"])
def test_when_nobody_waits_any_more_the_model_stops(shop: Shop, when: str) -> None:
    shop.model.reply = "The refund window is thirty days [1]. " * 20
    if when == "before the answer":
        shop.model.always_forms = STALL
    else:
        shop.model.always = STALL_MIDWAY
    streams = when == "in its stream"
    body = {"model": "ragforge/p", "messages": [{"role": "user", "content": QUESTION}], "stream": streams}
    with httpx.Client(timeout=1) as client:
        if streams:
            with client.stream("POST", f"{shop.url}/v1/chat/completions", json=body) as response:
                assert next(response.iter_lines()).startswith("data: ")
        else:
            with pytest.raises(httpx.ReadTimeout):
                client.post(f"{shop.url}/v1/chat/completions", json=body)
    deadline = time.monotonic() + 5
    while not shop.model.disconnects and time.monotonic() < deadline:
        time.sleep(0.02)
    assert shop.model.disconnects == 1


@pytest.mark.parametrize("fault", [RESET_MIDWAY, BREAKS_OFF])
@pytest.mark.parametrize("stream", [True, False])
def test_an_answer_that_the_model_breaks_off_is_not_taken_for_whole(shop: Shop, fault: str, stream: bool) -> None:
    shop.model.reply, shop.model.always = "The refund window is thirty days [1]. " * 20, fault
    usual = {"stream_options": {"include_usage": True}} if stream else {}
    answer: Any = shop.ask(("user", QUESTION), stream=stream, **usual)
    if stream:
        *pieces, told, used = answer
        text, usage = "".join(piece.choices[0].delta.content or "" for piece in pieces), used.usage
    else:
        told, text, usage = answer, answer.choices[0].message.content, answer.usage
    assert 0 < len(text) < len(shop.model.reply) and told.choices[0].finish_reason == "length"
    assert "the model stopped in the middle of its answer" in told.ragforge["notices"]
    assert usage.prompt_tokens > 0 and usage.completion_tokens > 0


@pytest.mark.parametrize(
    ("problem", "code", "said"),
    [
        (StoreError("the disk is gone", hint="call somebody"), "store", "the disk is gone"),
        (ZeroDivisionError("a secret"), "internal", "something went wrong here"),
    ],
)
def test_what_fails_in_a_stream_is_told_as_openai_tells_it(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, problem: Exception, code: str, said: str
) -> None:
    def fail(*_: object) -> None:
        raise problem

    monkeypatch.setattr(Replies, "ended", fail)
    asked = {"model": "ragforge/p", "messages": [{"role": "user", "content": QUESTION}], "stream": True}
    pieces = shop.client.chat.completions.create(**asked)  # type: ignore[call-overload]
    assert next(pieces).choices and next(pieces).choices[0].delta.content
    with pytest.raises(openai.APIError, match=said) as caught:
        list(pieces)
    assert (caught.value.code, caught.value.type) == (code, "server_error")
    raw = httpx.post(f"{shop.url}/v1/chat/completions", json=asked, timeout=20)
    assert raw.status_code == 200 and raw.text.endswith("\n\n") and '"error"' in raw.text.splitlines()[-2]
    assert "a secret" not in raw.text and "[DONE]" not in raw.text
