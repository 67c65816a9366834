"""The default embedder: nothing cut, the same vector for the same text, as fast as its engine."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from ragforge.adapters.embedders.minilm import LIMIT, MiniLM
from ragforge.domain.cancel import Cancel, Cancelled
from ragforge.domain.tokens import Ints, Passage
from ragforge.errors import NotFound

SENTENCES = [
    f"Shelf {number} of the old library holds {number * 13} maps of distant harbours." for number in range(120)
]


@pytest.fixture(scope="module")
def minilm(minilm_folder: Path) -> MiniLM:
    return MiniLM(minilm_folder)


def test_meaning_is_found_without_common_words(minilm: MiniLM) -> None:
    texts = ["You may return a purchase and get your money back.", "The cat sleeps on the warm roof."]
    vectors = minilm.embed([Passage(text) for text in texts], Cancel())
    scores = vectors @ minilm.embed_query("How do refunds work?", Cancel())
    assert scores[0] > scores[1] + 0.2


def test_the_last_sentence_of_a_long_passage_counts(minilm: MiniLM) -> None:
    body = " ".join(SENTENCES[:70])
    endings = ("Whales sing in the cold ocean.", "Whales sing in the warm ocean.")
    passages = [Passage(f"{body} {ending}") for ending in endings]
    assert all(len(tokens) > 900 for tokens in minilm.tokenizer.encode([passage.text for passage in passages]))
    left, right = minilm.embed(passages, Cancel())
    assert np.abs(left - right).max() > 1e-4
    assert left @ right > 0.98


def test_a_text_at_the_limit_is_one_piece(minilm: MiniLM) -> None:
    ids = np.full(LIMIT, 2003, dtype=np.int32)
    at_limit, over = minilm.embed([Passage("", ids), Passage("", np.append(ids, np.int32(2003)))], Cancel())
    assert np.isfinite(at_limit).all()
    assert at_limit @ over > 0.99


def test_company_and_threads_do_not_change_a_vector(minilm: MiniLM, minilm_folder: Path) -> None:
    """The engine quantises by batch: were texts run together, these would differ by hundredths."""
    passages = [Passage(" ".join(SENTENCES[number : number + 1 + number % 7])) for number in range(24)]
    together = minilm.embed(passages, Cancel())
    alone = np.stack([minilm.embed([passage], Cancel())[0] for passage in passages])
    on_one_thread = MiniLM(minilm_folder, threads=1).embed(passages, Cancel())
    np.testing.assert_array_equal(together, alone)
    np.testing.assert_array_equal(together, on_one_thread)


def test_cancel_stops_between_texts(minilm: MiniLM) -> None:
    cancel = Cancel()
    threading.Timer(0.2, cancel.set).start()
    started = time.monotonic()
    with pytest.raises(Cancelled):
        minilm.embed([Passage(" ".join(SENTENCES))] * 200, cancel)
    assert time.monotonic() - started < 5
    assert minilm.embed_query("still works", Cancel()).shape == (384,)


def test_missing_weights_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NotFound) as caught:
        MiniLM(tmp_path)
    assert caught.value.hint == "ragforge models pull minilm"


def test_importing_and_naming_loads_no_engine(minilm_folder: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from ragforge.adapters.embedders.minilm import MiniLM;"
        "print(MiniLM(Path(sys.argv[1])).card.name, 'onnxruntime' in sys.modules, 'tokenizers' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(minilm_folder)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["minilm", "False", "False"]


def raw_onnxruntime(folder: Path, each: list[Ints]) -> float:
    """CPU seconds of the bare engine in its customary shape: padded batches, sorted by length."""
    ort = pytest.importorskip("onnxruntime")
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(str(folder / "model_quantized.onnx"), options, providers=["CPUExecutionProvider"])
    ordered = sorted(each, key=len)
    started = time.process_time()
    for start in range(0, len(ordered), 4):
        batch = ordered[start : start + 4]
        ids = np.zeros((len(batch), max(map(len, batch)) + 2), dtype=np.int64)
        for row, one in zip(ids, batch, strict=True):
            row[: len(one) + 2] = [101, *one, 102]
        session.run(None, {"input_ids": ids, "attention_mask": (ids > 0) * 1, "token_type_ids": ids * 0})
    return time.process_time() - started


def test_costs_little_more_than_the_bare_engine(minilm_folder: Path) -> None:
    minilm = MiniLM(minilm_folder, threads=1)
    texts = [" ".join(SENTENCES[number : number + 18 + number % 8]) for number in range(8)]
    each = [tokens.ids for tokens in minilm.tokenizer.encode(texts)]
    minilm.load()
    ratios = []
    for _ in range(3):
        raw = raw_onnxruntime(minilm_folder, each)
        started = time.process_time()
        minilm.embed([Passage(text) for text in texts], Cancel())
        ratios.append(raw / (time.process_time() - started))
        if ratios[-1] >= 0.9:
            return
    pytest.fail(f"below 90 % of the bare engine: {ratios}")
