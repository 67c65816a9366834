"""A provider over real HTTP, with every trouble it can make."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import traceback
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from ragforge.adapters.embedders.provider import Patience, ProviderEmbedder
from ragforge.domain.cancel import Cancel, Cancelled
from ragforge.domain.tokens import Passage
from ragforge.errors import BadVectors, ProviderError, QuotaExceeded, RateLimited
from ragforge.testing import provider as stub_module
from ragforge.testing.provider import ProviderStub

KEY = "sk-very-secret-0123456789"
QUICK = Patience(request_seconds=5, budget_seconds=30, first_pause_seconds=0.02)
HASTY = Patience(request_seconds=0.5, budget_seconds=30, first_pause_seconds=0.02)

Connect = Callable[..., ProviderEmbedder]


@pytest.fixture
def stub() -> Iterator[ProviderStub]:
    with ProviderStub() as running:
        yield running


@pytest.fixture
def connect(stub: ProviderStub) -> Iterator[Connect]:
    opened: list[ProviderEmbedder] = []

    def open_embedder(
        name: str = "openai:text-embedding-3-small", key: str = KEY, patience: Patience = QUICK
    ) -> ProviderEmbedder:
        opened.append(ProviderEmbedder(name, key=key, base_url=stub.base_url, patience=patience))
        return opened[-1]

    yield open_embedder
    for embedder in opened:
        embedder.close()


def passages(count: int, words: int = 5) -> list[Passage]:
    return [Passage(f"passage {number} " + "word " * words) for number in range(count)]


@pytest.mark.parametrize(
    "trouble",
    [stub_module.SERVER_ERROR, stub_module.UNAVAILABLE, stub_module.RESET, stub_module.STALL, stub_module.DRIP],
)
def test_passing_troubles_are_ridden_out(stub: ProviderStub, connect: Connect, trouble: str) -> None:
    stub.script(trouble, trouble)
    vectors = connect(patience=HASTY).embed(passages(3), Cancel())
    np.testing.assert_allclose(vectors, stub.vectors(tuple(p.text for p in passages(3))), atol=1e-6)
    assert len(stub.calls) >= 3


@pytest.mark.parametrize("trouble", [stub_module.RATE_LIMIT_SECONDS, stub_module.RATE_LIMIT_DATE])
def test_the_pause_the_provider_asks_for_is_kept(stub: ProviderStub, connect: Connect, trouble: str) -> None:
    stub.script(trouble)
    connect().embed(passages(1), Cancel())
    first, second = stub.calls
    assert second.at - first.at >= 0.95


def test_too_long_a_pause_is_handed_on(stub: ProviderStub, connect: Connect) -> None:
    stub.script(stub_module.RATE_LIMIT_LONG)
    started = time.monotonic()
    with pytest.raises(RateLimited) as caught:
        connect().embed(passages(1), Cancel())
    assert caught.value.retry_after == 3600
    assert time.monotonic() - started < 10
    assert len(stub.calls) == 1


def test_a_used_up_quota_is_not_tried_again(stub: ProviderStub, connect: Connect) -> None:
    stub.script(stub_module.QUOTA)
    with pytest.raises(QuotaExceeded) as caught:
        connect().embed(passages(1), Cancel())
    assert len(stub.calls) == 1
    assert not caught.value.retryable
    assert "minilm" in caught.value.hint


@pytest.mark.parametrize(
    ("trouble", "hint"),
    [
        (stub_module.UNAUTHORIZED, "OPENAI_API_KEY"),
        (stub_module.UNKNOWN_MODEL, "model's name"),
        (stub_module.BAD_REQUEST, ""),
    ],
)
def test_refusals_fail_at_once_and_never_show_the_key(
    stub: ProviderStub, connect: Connect, trouble: str, hint: str, caplog: pytest.LogCaptureFixture
) -> None:
    stub.script(trouble)
    with caplog.at_level(logging.DEBUG), pytest.raises(ProviderError) as caught:
        connect().embed(passages(1), Cancel())
    assert len(stub.calls) == 1
    assert stub.calls[0].authorization == f"Bearer {KEY}"
    assert hint in caught.value.hint
    shown = "".join(traceback.format_exception(caught.value)) + caught.value.message + caught.value.hint + repr(caught)
    assert KEY not in shown
    assert KEY not in caplog.text


@pytest.mark.parametrize(
    "trouble",
    [
        stub_module.NOT_A_NUMBER,
        stub_module.ZEROS,
        stub_module.WRONG_COUNT,
        stub_module.NOT_JSON,
        stub_module.WRONG_DIMENSION,
    ],
)
def test_bad_vectors_never_come_through(stub: ProviderStub, connect: Connect, trouble: str) -> None:
    embedder = connect()
    embedder.embed_query("sets the dimension", Cancel())
    stub.script(trouble)
    with pytest.raises(BadVectors):
        embedder.embed(passages(2), Cancel())
    assert embedder.card.dimension == stub.dimension


def test_no_vectors_at_all(stub: ProviderStub, connect: Connect) -> None:
    stub.script(stub_module.WRONG_COUNT)
    with pytest.raises(BadVectors):
        connect().embed(passages(1), Cancel())


def test_only_the_batch_that_failed_is_sent_again(stub: ProviderStub, connect: Connect) -> None:
    stub.script(stub_module.NORMAL, stub_module.SERVER_ERROR)
    wanted = passages(700)
    vectors = connect().embed(wanted, Cancel())
    np.testing.assert_allclose(vectors, stub.vectors(tuple(p.text for p in wanted)), atol=1e-6)
    assert len(stub.calls) == 4
    assert len(stub.texts) == 700 + len(stub.calls[1].texts)


def test_batches_keep_to_the_token_budget(stub: ProviderStub, connect: Connect) -> None:
    connect("openai-compatible:bge-m3").embed(passages(40, words=1500), Cancel())
    assert 1 < len(stub.calls) < 10
    assert max(len(call.texts) for call in stub.calls) < 40


def test_a_batch_that_is_too_large_is_halved(stub: ProviderStub, connect: Connect) -> None:
    stub.most_texts = 10
    wanted = passages(64)
    vectors = connect().embed(wanted, Cancel())
    np.testing.assert_allclose(vectors, stub.vectors(tuple(p.text for p in wanted)), atol=1e-6)
    assert {len(call.texts) for call in stub.calls} == {64, 32, 16, 8}


def test_too_many_bytes_are_halved_down_to_one(stub: ProviderStub, connect: Connect) -> None:
    stub.most_characters = 100
    assert connect().embed(passages(4), Cancel()).shape == (4, stub.dimension)
    stub.most_characters = 10
    with pytest.raises(ProviderError, match="too large"):
        connect().embed(passages(2), Cancel())


def test_a_service_that_stays_down_is_given_up(stub: ProviderStub, connect: Connect) -> None:
    stub.script(*[stub_module.UNAVAILABLE] * 50)
    with pytest.raises(ProviderError, match="503") as caught:
        connect().embed(passages(1), Cancel())
    assert caught.value.retryable
    assert 3 <= len(stub.calls) <= 8


def test_the_callers_deadline_bounds_the_tries(stub: ProviderStub, connect: Connect) -> None:
    embedder = connect(patience=Patience(request_seconds=0.3, first_pause_seconds=0.3))
    embedder.embed_query("loads the library", Cancel())
    stub.script(*[stub_module.UNAVAILABLE] * 50)
    started = time.monotonic()
    with pytest.raises((ProviderError, Cancelled)):
        embedder.embed_query("no time", Cancel(deadline_seconds=1))
    assert time.monotonic() - started < 3


def test_nobody_listens() -> None:
    embedder = ProviderEmbedder("ollama:nomic-embed-text", base_url="http://127.0.0.1:9/v1", patience=QUICK)
    with pytest.raises(ProviderError, match="cannot be reached") as caught:
        embedder.embed(passages(1), Cancel())
    assert "ollama serve" in caught.value.hint
    assert caught.value.retryable
    embedder.close()


@pytest.mark.parametrize("trouble", [stub_module.STALL, stub_module.RATE_LIMIT_SECONDS])
def test_cancel_wakes_a_request_and_a_pause(stub: ProviderStub, connect: Connect, trouble: str) -> None:
    embedder = connect(patience=Patience())
    embedder.embed_query("loads the library", Cancel())
    stub.script(trouble)
    cancel = Cancel()
    threading.Timer(0.2, cancel.set).start()
    started = time.monotonic()
    with pytest.raises(Cancelled):
        embedder.embed(passages(1), cancel)
    assert time.monotonic() - started < 0.95
    assert embedder.embed(passages(1), Cancel()).shape == (1, stub.dimension)


def test_prefixes_are_sent(stub: ProviderStub, connect: Connect) -> None:
    embedder = connect("openai-compatible:intfloat/e5-small-v2")
    embedder.embed([Passage("a document")], Cancel())
    embedder.embed_query("a question", Cancel())
    assert stub.texts == ["passage: a document", "query: a question"]


def test_voyage_is_told_what_a_text_is(stub: ProviderStub, connect: Connect) -> None:
    embedder = connect("voyage:voyage-3.5")
    embedder.embed([Passage("a document")], Cancel())
    embedder.embed_query("a question", Cancel())
    assert [call.body["input_type"] for call in stub.calls] == ["document", "query"]
    assert [call.body["truncation"] for call in stub.calls] == [False, False]


def test_a_text_over_the_limit_is_sent_in_pieces_and_none_of_it_lost(stub: ProviderStub, connect: Connect) -> None:
    words = [f"w{number}" for number in range(900)]
    vectors = connect("openai-compatible:bge-small-en").embed([Passage("short"), Passage(" ".join(words))], Cancel())
    assert vectors.shape == (2, stub.dimension)
    assert len(stub.texts) > 3
    assert set(" ".join(stub.texts).split()) >= set(words)


def test_blank_text_is_never_sent(stub: ProviderStub, connect: Connect) -> None:
    connect().embed([Passage(""), Passage("  \n ")], Cancel())
    assert all(text.strip() for text in stub.texts)


def test_it_can_be_called_where_a_loop_is_running(connect: Connect) -> None:
    embedder = connect()

    async def inside() -> int:
        return len(embedder.embed(passages(2), Cancel()))

    assert asyncio.run(inside()) == 2
