"""Rerankers: a cross-encoder from a folder, and services over real HTTP with every trouble they can make."""

from __future__ import annotations

import shutil
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ragforge.adapters.embedders.provider import Patience
from ragforge.adapters.rerankers.cross_encoder import CrossEncoder
from ragforge.adapters.rerankers.provider import ProviderReranker
from ragforge.domain.cancel import Cancel, Cancelled
from ragforge.errors import ProviderError, QuotaExceeded, RateLimited, UserError
from ragforge.testing import provider as stub_module
from ragforge.testing.provider import ProviderStub
from tests.onnx_files import write_cross_encoder, write_embedder

VOCABULARY = [f"w{number}" for number in range(200)]

# -- the cross-encoder


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_cross_encoder(tmp_path_factory.mktemp("cross-encoder"), VOCABULARY, limit=64)


def words(first: int, last: int) -> str:
    return " ".join(VOCABULARY[first:last])


def test_texts_are_scored_in_their_order(model_folder: Path) -> None:
    encoder = CrossEncoder(model_folder)
    question = words(0, 4)
    scores = encoder.score(question, [words(100, 110), words(2, 10), words(0, 30), "w0"], Cancel())
    assert scores == [1, 3, 5, 2]  # shared words, and the mark that ends both
    assert encoder.score(question, [], Cancel()) == []
    assert encoder.name == "cross-encoder"


def test_company_and_threads_do_not_change_a_score(model_folder: Path) -> None:
    texts = [words(number, number + 1 + number % 9) for number in range(30)]
    together = CrossEncoder(model_folder, threads=3).score(words(5, 15), texts, Cancel())
    one = CrossEncoder(model_folder)
    assert together == [one.score(words(5, 15), [text], Cancel())[0] for text in texts]


@pytest.mark.parametrize("place", [0, 70, 140, 196])
def test_words_anywhere_in_a_text_over_the_limit_count(model_folder: Path, place: int) -> None:
    """The model takes 64 tokens; the text has 200. Its best piece decides."""
    long = VOCABULARY[100:150] * 4
    long[place : place + 4] = VOCABULARY[:4]
    encoder = CrossEncoder(model_folder)
    assert encoder.score(words(0, 4), [" ".join(long), words(0, 4), words(100, 150)], Cancel()) == [5, 5, 1]


def test_a_question_that_leaves_no_room_is_refused(model_folder: Path) -> None:
    with pytest.raises(UserError, match="longer than the cross-encoder can read"):
        CrossEncoder(model_folder).score(words(0, 60), ["w0"], Cancel())


def test_a_cancel_stops_between_texts(model_folder: Path) -> None:
    cancel = Cancel()
    cancel.set()
    with pytest.raises(Cancelled):
        CrossEncoder(model_folder).score("w0", ["w1"], cancel)


@pytest.mark.parametrize("name", ["onnx/model.onnx", "model_quantized.onnx", "onnx/model_quantized.onnx"])
def test_the_model_is_found_where_hubs_put_it(tmp_path: Path, name: str) -> None:
    folder = write_cross_encoder(tmp_path, VOCABULARY, model_file=name)
    assert CrossEncoder(folder).score("w1 w2", ["w2", "w3"], Cancel()) == [2, 1]


@pytest.mark.parametrize("missing", ["model.onnx", "tokenizer.json", "tokenizer_config.json"])
def test_a_folder_without_a_model_is_told_with_the_next_step(model_folder: Path, tmp_path: Path, missing: str) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(model_folder, folder)
    (folder / missing).unlink()
    with pytest.raises(ProviderError, match=f"{missing} is missing") as caught:
        CrossEncoder(folder)
    assert "tokenizer.json" in caught.value.hint and "cosine" in caught.value.hint
    with pytest.raises(ProviderError, match="no cross-encoder in"):
        CrossEncoder(tmp_path / "nowhere")


@pytest.mark.parametrize("file", ["model.onnx", "tokenizer.json", "tokenizer_config.json"])
def test_a_damaged_model_is_told(model_folder: Path, tmp_path: Path, file: str) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(model_folder, folder)
    (folder / file).write_bytes(b"not what it was")
    with pytest.raises(UserError, match="does not work as a cross-encoder"):
        CrossEncoder(folder).score("w1", ["w2"], Cancel())


def test_an_embedder_is_not_taken_for_one(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not work as a cross-encoder"):
        CrossEncoder(write_embedder(tmp_path, VOCABULARY)).score("w1", ["w2"], Cancel())


def test_nothing_is_written_into_the_folder(tmp_path: Path) -> None:
    folder = write_cross_encoder(tmp_path, VOCABULARY)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    CrossEncoder(folder).score("w1", ["w2"], Cancel())
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


# -- services

KEY = "sk-very-secret-0123456789"
QUICK = Patience(request_seconds=5, budget_seconds=20, first_pause_seconds=0.02, longest_pause_seconds=0.1)
QUESTION = "how long is the refund window"
TEXTS = ["chairs are blue", "the refund window is long", "a window", "refund"]
Connect = Callable[..., ProviderReranker]


@pytest.fixture
def stub() -> Iterator[ProviderStub]:
    with ProviderStub(stall_seconds=5) as running:
        yield running


@pytest.fixture
def connect(stub: ProviderStub) -> Iterator[Connect]:
    opened: list[ProviderReranker] = []

    def open_one(name: str = "jina:jina-reranker-v2-base-multilingual", patience: Patience = QUICK) -> ProviderReranker:
        opened.append(ProviderReranker(name, key=KEY, base_url=stub.base_url, patience=patience))
        return opened[-1]

    yield open_one
    for reranker in opened:
        reranker.close()


@pytest.mark.parametrize(
    ("name", "results", "extra"),
    [
        ("cohere:rerank-v3.5", "results", {}),
        ("jina:jina-reranker-v2-base-multilingual", "results", {"return_documents": False}),
        ("voyage:rerank-2.5", "data", {"truncation": False}),
    ],
)
def test_each_provider_is_spoken_to_in_its_own_way(
    stub: ProviderStub, connect: Connect, name: str, results: str, extra: dict[str, object]
) -> None:
    stub.rerank_results = results
    reranker = connect(name)
    scores = reranker.score(QUESTION, TEXTS, Cancel())
    assert scores == pytest.approx([0, 5 / 6, 1 / 6, 1 / 6])
    [call] = stub.calls
    assert call.body == {"model": name.partition(":")[2], "query": QUESTION, "documents": TEXTS, **extra}
    assert call.path == "/v1/rerank"
    assert call.authorization == f"Bearer {KEY}"
    assert reranker.name == name


def test_no_texts_need_no_call(stub: ProviderStub, connect: Connect) -> None:
    assert connect().score(QUESTION, [], Cancel()) == []
    assert not stub.calls


def test_blank_text_is_never_sent(stub: ProviderStub, connect: Connect) -> None:
    assert len(connect().score("  ", ["", " \n"], Cancel())) == 2
    assert stub.calls[0].body["query"].strip() and all(text.strip() for text in stub.texts)


@pytest.mark.parametrize(
    "trouble",
    [
        stub_module.SERVER_ERROR,
        stub_module.UNAVAILABLE,
        stub_module.RESET,
        stub_module.RATE_LIMIT_SECONDS,
        stub_module.RATE_LIMIT_DATE,
    ],
)
def test_a_passing_trouble_passes(stub: ProviderStub, connect: Connect, trouble: str) -> None:
    stub.script(trouble)
    assert len(connect().score(QUESTION, TEXTS, Cancel())) == len(TEXTS)
    first, second = stub.calls
    if trouble in (stub_module.RATE_LIMIT_SECONDS, stub_module.RATE_LIMIT_DATE):
        assert second.at - first.at > 0.95  # as long as the provider asked for


@pytest.mark.parametrize(
    ("trouble", "kind", "words"),
    [
        (stub_module.QUOTA, QuotaExceeded, "quota"),
        (stub_module.UNAUTHORIZED, ProviderError, "refused the key"),
        (stub_module.BAD_REQUEST, ProviderError, "answered 400"),
        (stub_module.UNKNOWN_MODEL, ProviderError, "was not found"),
        (stub_module.NOT_JSON, ProviderError, "did not send a score"),
        (stub_module.WRONG_COUNT, ProviderError, "did not send a score"),
        (stub_module.RATE_LIMIT_LONG, RateLimited, "slow down"),
    ],
)
def test_a_lasting_trouble_is_told_at_once_and_without_the_key(
    stub: ProviderStub, connect: Connect, trouble: str, kind: type[ProviderError], words: str
) -> None:
    stub.script(trouble)
    with pytest.raises(kind, match=words) as caught:
        connect().score(QUESTION, TEXTS, Cancel())
    assert len(stub.calls) == 1
    assert KEY not in "".join(traceback.format_exception(caught.value)) + caught.value.hint


def test_tries_are_few(stub: ProviderStub, connect: Connect) -> None:
    stub.script(*[stub_module.SERVER_ERROR] * 20)
    with pytest.raises(ProviderError, match="answered 500") as caught:
        connect().score(QUESTION, TEXTS, Cancel())
    assert caught.value.retryable
    assert len(stub.calls) == 3


@pytest.mark.parametrize("trouble", [stub_module.STALL, stub_module.DRIP])
def test_patience_is_short(stub: ProviderStub, connect: Connect, trouble: str) -> None:
    stub.script(*[trouble] * 3)
    began = time.monotonic()
    with pytest.raises(ProviderError, match=r"did not answer within 0\.3 s"):
        connect(patience=Patience(0.3, 1, 0.02, 0.1)).score(QUESTION, TEXTS, Cancel())
    assert time.monotonic() - began < 4


def test_nobody_listens() -> None:
    reranker = ProviderReranker("jina:any", base_url="http://127.0.0.1:9/v1", patience=QUICK)
    with pytest.raises(ProviderError, match="cannot be reached") as caught:
        reranker.score(QUESTION, TEXTS, Cancel())
    assert caught.value.retryable and caught.value.hint
    reranker.close()


def test_a_cancel_wakes_a_request(stub: ProviderStub, connect: Connect) -> None:
    stub.script(stub_module.STALL)
    cancel = Cancel()
    threading.Timer(0.2, cancel.set).start()
    began = time.monotonic()
    with pytest.raises(Cancelled):
        connect().score(QUESTION, TEXTS, cancel)
    assert time.monotonic() - began < 3


def test_a_service_of_ones_own_needs_no_key_and_a_paid_one_does(stub: ProviderStub) -> None:
    own = ProviderReranker("jina:bge-reranker", base_url=stub.base_url + "/", patience=QUICK)
    assert len(own.score(QUESTION, TEXTS, Cancel())) == len(TEXTS)
    assert stub.calls[0].authorization == ""
    assert stub.calls[0].path == "/v1/rerank"
    own.close()
    with pytest.raises(ProviderError, match="needs a key") as caught:
        ProviderReranker("cohere:rerank-v3.5")
    assert "COHERE_API_KEY" in caught.value.hint


@pytest.mark.parametrize("name", ["cohere", "cohere:", "nobody:model", ""])
def test_an_unknown_name_is_told_what_there_is(name: str) -> None:
    with pytest.raises(UserError, match="no reranker is called") as caught:
        ProviderReranker(name, key=KEY)
    assert "voyage:MODEL" in caught.value.hint
