"""What every embedder keeps. Subclass, give the fixture `embedder`, and pytest runs it all."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from ragforge.domain.cancel import Cancel, Cancelled
from ragforge.domain.tokens import Matrix, Passage
from ragforge.ports import Embedder

TEXTS = [
    "The refund window for chairs is thirty days from delivery.",
    "Backups run every night at two and are kept for a year.",
    "ok",
    "def add(a: int, b: int) -> int:\n    return a + b\n",
    "Grüße aus Köln, façade, naïve, Ελληνικά, русский текст",
    "日本語の文書です。検索できますか？",
    "👩‍👩‍👧‍👦 family 🎉🎉 \U0001f3f4\U000e0067\U000e0062",
    "tabs\tand\r\nnewlines \x00\x01\x7f control\u200b zero width",
    "[CLS] </s> <s> [SEP] [PAD] <unk>",
    "a" * 3000,
]


def sentences(count: int, last: str) -> str:
    """A long text whose only difference is its last sentence."""
    body = [
        f"Paragraph {number} tells of shelf {number * 7} in the cellar of the old library." for number in range(count)
    ]
    return " ".join([*body, last])


class EmbedderContract:
    """A passage gives one vector of unit length, whatever it is, whoever asks and however often."""

    tolerance = 1e-5
    """How far two vectors of the same text may be apart in any component."""

    @pytest.fixture
    def embedder(self) -> Embedder:
        raise NotImplementedError

    def same(self, left: Matrix, right: Matrix) -> None:
        np.testing.assert_allclose(left, right, atol=self.tolerance)

    def test_vectors_are_float32_of_unit_length(self, embedder: Embedder) -> None:
        vectors = embedder.embed([Passage(text) for text in TEXTS], Cancel())
        assert vectors.dtype == np.float32
        assert vectors.shape == (len(TEXTS), embedder.card.dimension)
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-4)

    def test_order_is_kept_and_company_does_not_matter(self, embedder: Embedder) -> None:
        together = embedder.embed([Passage(text) for text in TEXTS], Cancel())
        backwards = embedder.embed([Passage(text) for text in reversed(TEXTS)], Cancel())[::-1]
        alone = np.stack([embedder.embed([Passage(text)], Cancel())[0] for text in TEXTS])
        self.same(together, backwards)
        self.same(together, alone)

    def test_same_text_same_vector(self, embedder: Embedder) -> None:
        first, second = (embedder.embed([Passage(TEXTS[0])] * 3, Cancel()) for _ in range(2))
        self.same(first, second)
        self.same(first[0], first[2])

    def test_known_ids_give_the_vector_of_the_text(self, embedder: Embedder) -> None:
        tokens = embedder.tokenizer.encode(TEXTS)
        with_ids = [Passage(text, token.ids) for text, token in zip(TEXTS, tokens, strict=True)]
        without = [Passage(text) for text in TEXTS]
        self.same(embedder.embed(with_ids, Cancel()), embedder.embed(without, Cancel()))

    def test_nothing_to_embed(self, embedder: Embedder) -> None:
        assert embedder.embed([], Cancel()).shape[0] == 0

    @pytest.mark.parametrize("text", ["", " ", "\n\n", "\x00"])
    def test_blank_text_has_a_vector(self, embedder: Embedder, text: str) -> None:
        [vector] = embedder.embed([Passage(text)], Cancel())
        assert np.isfinite(vector).all()
        assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-4)

    def test_the_end_of_a_long_text_counts(self, embedder: Embedder) -> None:
        left, right = embedder.embed(
            [
                Passage(sentences(70, "Whales sing in the deep cold ocean.")),
                Passage(sentences(70, "The invoice number is due at the bank tomorrow.")),
            ],
            Cancel(),
        )
        assert np.abs(left - right).max() > 10 * self.tolerance
        assert float(left @ right) > 0.8

    def test_a_very_long_text_has_one_vector(self, embedder: Embedder) -> None:
        vectors = embedder.embed([Passage("short"), Passage(sentences(400, "End."))], Cancel())
        assert vectors.shape == (2, embedder.card.dimension)
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-4)

    def test_a_query_finds_its_passage(self, embedder: Embedder) -> None:
        passages = embedder.embed([Passage(text) for text in TEXTS[:2]], Cancel())
        query = embedder.embed_query("refund window for chairs", Cancel())
        assert query.shape == (embedder.card.dimension,)
        assert np.argmax(passages @ query) == 0

    def test_cancelled_work_stops(self, embedder: Embedder) -> None:
        cancel = Cancel()
        cancel.set()
        with pytest.raises(Cancelled):
            embedder.embed([Passage("never embedded")], cancel)
        with pytest.raises(Cancelled):
            embedder.embed_query("never embedded", Cancel(deadline_seconds=0))

    def test_many_threads_get_the_same_vectors(self, embedder: Embedder) -> None:
        alone = embedder.embed([Passage(text) for text in TEXTS[:4]], Cancel())
        with ThreadPoolExecutor(4) as pool:
            calls = [pool.submit(embedder.embed, [Passage(text)], Cancel()) for text in TEXTS[:4] * 2]
            for index, call in enumerate(calls):
                self.same(call.result()[0], alone[index % 4])

    def test_the_card_does_not_change(self, embedder: Embedder) -> None:
        embedder.embed_query("first", Cancel())
        card = embedder.card
        embedder.embed_query("second", Cancel())
        assert embedder.card == card
        assert card.name
        assert card.fingerprint
        assert 0 < card.fusion_weight < 1

    def test_token_offsets_ascend_within_the_text(self, embedder: Embedder) -> None:
        for text, tokens in zip(TEXTS, embedder.tokenizer.encode(TEXTS), strict=True):
            assert tokens.ids.dtype == tokens.starts.dtype == np.int32
            assert len(tokens.ids) == len(tokens.starts) > 0
            assert (np.diff(tokens.starts) >= 0).all()
            assert tokens.starts[0] >= 0
            assert tokens.starts[-1] < len(text)
            assert tokens.count(0, len(text)) == len(tokens)
        assert len(embedder.tokenizer.encode([""])[0]) == 0
        assert embedder.tokenizer.encode([]) == []
        assert embedder.tokenizer.fingerprint
