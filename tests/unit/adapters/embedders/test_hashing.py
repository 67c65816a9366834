"""The embedder for tests: words by their letters alone, wherever they stand."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from ragforge.domain.cancel import Cancel
from ragforge.domain.tokens import Passage
from ragforge.testing.hashing import HashingEmbedder, HashingTokenizer
from tests.proof import count

WORDS = re.compile(r"[a-zA-Z0-9\x80-\U0010ffff]+|[!-~]")


@settings(max_examples=count(33, 100), deadline=None)
@given(
    text=st.text(alphabet=st.one_of(st.sampled_from("aB9 _.\n\x00é日🎉"), st.characters(codec="utf-8")), max_size=60)
)
def test_tokens_are_the_words_and_equal_words_have_equal_ids(text: str) -> None:
    words = list(WORDS.finditer(text))
    tokens, folded = HashingTokenizer().encode([text, re.sub("[A-Z]", lambda match: match[0].lower(), text)])
    assert tokens.starts.tolist() == [word.start() for word in words]
    assert tokens.ids.tolist() == folded.ids.tolist()
    alone = HashingTokenizer().encode([word[0] for word in words])
    assert tokens.ids.tolist() == [int(one.ids[0]) for one in alone]


def test_texts_that_share_words_are_near() -> None:
    embedder = HashingEmbedder(dimension=128)
    near, far = embedder.embed([Passage("The cat SAT there"), Passage("tax invoice")], Cancel())
    query = embedder.embed_query("the cat sat", Cancel())
    assert query @ near > 0.8
    assert abs(query @ far) < 0.5
