"""Tokens from memory are the tokens of the library."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragforge.adapters.embedders import tokenizer as tokenizer_module
from ragforge.adapters.embedders.tokenizer import FileTokenizer, token_ids
from ragforge.adapters.embedders.wordllama import tokenizer_file
from ragforge.domain.tokens import Passage
from ragforge.errors import NotFound
from tests.proof import count

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
Library = pytest.importorskip("tokenizers").Tokenizer

AWKWARD = st.text(
    alphabet=st.one_of(
        st.sampled_from(" \n\t  a▁é\u0301\r\u3000\x1c\x00日本.,-_()[]'\"🎉ßİΣς\u200b"), st.characters(codec="utf-8")
    ),
    max_size=60,
)


@pytest.fixture(scope="module", params=["minilm", "wordllama"])
def path(request: pytest.FixtureRequest, minilm_folder: Path) -> Path:
    return minilm_folder / "tokenizer.json" if request.param == "minilm" else tokenizer_file()


@pytest.fixture(scope="module")
def ours(path: Path) -> FileTokenizer:
    return FileTokenizer(path)


@pytest.fixture(scope="module")
def library(path: Path) -> object:
    library = Library.from_file(str(path))
    library.no_truncation()
    library.no_padding()
    library.encode_special_tokens = True
    return library


@settings(max_examples=count(33, 100), deadline=None)
@given(text=AWKWARD)
def test_same_tokens_as_the_library(ours: FileTokenizer, library: object, text: str) -> None:
    expected = library.encode(text, add_special_tokens=False)  # type: ignore[attr-defined]
    [tokens] = ours.encode([text])
    assert tokens.ids.tolist() == expected.ids
    assert tokens.starts.tolist() == np.maximum.accumulate([0, *(start for start, _ in expected.offsets)])[1:].tolist()


def test_a_word_is_found_by_its_offset(ours: FileTokenizer) -> None:
    text = "The quick brown fox\njumps over 13 lazy dogs."
    [tokens] = ours.encode([text])
    assert tokens.count(text.index("jumps"), len(text)) + tokens.count(0, text.index("jumps")) == len(tokens)
    brown = text.index(" brown")
    assert tokens.count(brown, brown + len(" brown")) == 1


def test_marks_in_a_document_are_plain_text(minilm_folder: Path) -> None:
    [tokens] = FileTokenizer(minilm_folder / "tokenizer.json").encode(["[CLS] [SEP]"])
    assert not {101, 102} & set(tokens.ids.tolist())


def test_a_full_memory_starts_afresh(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizer_module, "_REMEMBERED_UNITS", 5)
    small, large = FileTokenizer(path), FileTokenizer(path)
    texts = [f"word{number} common {'long' * 40}{number}" for number in range(20)]
    forgetful = small.encode(texts)
    monkeypatch.setattr(tokenizer_module, "_REMEMBERED_UNITS", 1000)
    for left, right in zip(forgetful, large.encode(texts), strict=True):
        assert left.ids.tolist() == right.ids.tolist()
        assert left.starts.tolist() == right.starts.tolist()
    assert len(small._known) <= 5


def test_ids_that_came_along_are_used(ours: FileTokenizer) -> None:
    known = np.array([7, 8, 9], dtype=np.int32)
    found = token_ids([Passage("one"), Passage("two", known), Passage("three")], ours)
    assert found[1] is known
    assert found[2].tolist() == ours.encode(["three"])[0].ids.tolist()


def test_a_missing_file_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NotFound) as caught:
        FileTokenizer(tmp_path / "tokenizer.json").encode(["text"])
    assert "models pull" in caught.value.hint
