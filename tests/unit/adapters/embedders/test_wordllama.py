"""Our reading of the package's files gives the vectors of the package itself."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import time

import numpy as np

from ragforge.adapters.embedders.wordllama import WordLlama, package_folder
from ragforge.domain.cancel import Cancel
from ragforge.domain.tokens import Passage

TEXTS = [
    "The refund window for chairs is thirty days.",
    "  Leading spaces,\n\nblank lines and\ttabs  ",
    "Grüße, 日本語 and 🎉",
    "word " * 900,
    "x",
]

LIBRARY = """
import json, sys
from pathlib import Path
import wordllama
folder = Path(wordllama.__file__).parent
model = wordllama.WordLlama.load(cache_dir=folder, disable_download=True)
print(json.dumps(model.embed(json.load(sys.stdin), norm=True).tolist()))
"""


def test_vectors_are_those_of_the_library() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIBRARY], input=json.dumps(TEXTS), capture_output=True, text=True, check=True
    )
    theirs = np.array(json.loads(done.stdout))
    ours = WordLlama().embed([Passage(text) for text in TEXTS], Cancel())
    assert ((ours * theirs).sum(axis=1) > 0.9999).all()


def test_the_package_itself_is_never_imported() -> None:
    handlers = list(logging.getLogger().handlers)
    WordLlama().embed_query("hello", Cancel())
    assert "wordllama" not in sys.modules
    assert logging.getLogger().handlers == handlers
    assert package_folder().name == "wordllama"


def test_a_passage_of_a_hundred_thousand_words() -> None:
    embedder = WordLlama()
    [long] = embedder.embed([Passage("alpha beta gamma delta " * 25_000)], Cancel())
    [short] = embedder.embed([Passage("alpha beta gamma delta " * 25)], Cancel())
    assert long @ short > 0.9999


def test_two_thousand_passages_a_second() -> None:
    words = [f"w{number % 997}ord{number % 13}" for number in range(48_000)]
    passages = [Passage(" ".join(words[start : start + 120])) for start in range(0, len(words), 120)]
    embedder = WordLlama()
    rates = []
    for _ in range(4):
        started = time.process_time()
        embedder.embed(passages, Cancel())
        rates.append(len(passages) / (time.process_time() - started))
    assert max(rates) >= 2000
