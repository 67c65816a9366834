"""Counters count from many threads, and an embedder that is counted stays the same embedder."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ragforge.domain.cancel import Cancel
from ragforge.domain.tokens import Passage
from ragforge.operate.counters import CountedEmbedder, Counters
from ragforge.testing.hashing import HashingEmbedder


def test_nothing_is_lost_between_threads() -> None:
    counters = Counters()

    def work() -> None:
        for _ in range(500):
            counters.add("chunks", 2)
            counters.add("searches")

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(work) for _ in range(8)]:
            done.result()
    assert counters.all() == dict.fromkeys(counters.all(), 0) | {"chunks": 8_000, "searches": 4_000}


def test_a_counted_embedder_gives_the_same_vectors() -> None:
    bare, counters = HashingEmbedder(16), Counters()
    counted = CountedEmbedder(bare, counters)
    assert counted.card == bare.card and counted.tokenizer.fingerprint == bare.tokenizer.fingerprint
    passages = [Passage("oak chairs"), Passage("walnut desks")]
    assert np.array_equal(counted.embed(passages, Cancel()), bare.embed(passages, Cancel()))
    assert np.array_equal(counted.embed_query("oak", Cancel()), bare.embed_query("oak", Cancel()))
    assert counters.all()["embedding_calls"] == 2
