"""What retrieval is measured on, made from the shared data once and kept in a folder beside the peers' environments.

corpora        documents with judged queries, one passage for each document, embedded with MiniLM
windows        some number of windows of 120 words over all texts there are, with the static vectors of wordllama
short_windows  the same of 30 words, embedded with MiniLM: it reads a hundred thousand of them in some minutes
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from ragforge.adapters.embedders.minilm import MiniLM
from ragforge.adapters.embedders.wordllama import WordLlama
from ragforge.adapters.weights import model_folder
from ragforge.domain.cancel import Cancel
from ragforge.domain.tokens import Matrix, Passage
from ragforge.ports import Embedder
from ragforge.settings import load

CORPORA = ("scifact_train", "cranfield")
CACHE = Path(__file__).parents[1] / ".cache" / "bench"
DEFAULT_DATA = Path(__file__).parents[2] / "shared" / "data"

_WORDS, _FEW_WORDS = 120, 30
_LARGEST_FILE = 2 << 20
_QUERIES = 3_000
_AT_ONCE = 512


def corpus(shared: Path, name: str, cache: Path = CACHE) -> Path:
    """A folder with a judged corpus, as the peers' scripts read it."""
    folder = cache / name
    if (folder / "query_vectors.npy").exists():
        return folder
    documents, queries = _rows(shared / name / "corpus.jsonl"), _rows(shared / name / "queries.jsonl")
    passages = [
        {"id": row["_id"], "document": row["_id"], "text": f"{row['title']}\n{row['text']}".strip()}
        for row in documents
    ]
    embedder = minilm()
    _write(folder, passages, ({"id": row["_id"], "text": row["text"]} for row in queries))
    for file in ("corpus.jsonl", "qrels.tsv"):
        shutil.copyfile(shared / name / file, folder / file)
    np.save(folder / "vectors.npy", _embedded(embedder, [passage["text"] for passage in passages]))
    np.save(folder / "query_vectors.npy", _embedded(embedder, [row["text"] for row in queries]))
    return folder


def windows(shared: Path, count: int, cache: Path = CACHE) -> Path:
    """A folder with so many windows, and distinct questions of real people to ask them."""
    return _cut(shared, cache / f"windows_{count}", count, _WORDS, WordLlama)


def short_windows(shared: Path, count: int, cache: Path = CACHE) -> Path:
    """The same with MiniLM's vectors."""
    return _cut(shared, cache / f"short_windows_{count}", count, _FEW_WORDS, minilm)


def grades(folder: Path) -> dict[str, dict[str, float]]:
    """For each query that has a relevant document, the grades of those that were judged."""
    judged: dict[str, dict[str, float]] = {}
    for line in (folder / "qrels.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        query, document, grade = line.split("\t")
        judged.setdefault(query, {})[document] = float(grade)
    return {query: given for query, given in judged.items() if max(given.values()) > 0}


def minilm() -> MiniLM:
    return MiniLM(model_folder("minilm", load().store.models_dir))


def _cut(shared: Path, folder: Path, count: int, words: int, model: Callable[[], Embedder]) -> Path:
    if (folder / "query_vectors.npy").exists():
        return folder
    embedder = model()
    cut = list(_windows(list(_texts(shared)), count, words))
    passages = ({"id": f"w{number}", "document": name, "text": text} for number, (name, text) in enumerate(cut))
    questions = _questions(shared)
    _write(folder, passages, ({"id": f"q{number}", "text": text} for number, text in enumerate(questions)))
    asked = _embedded(embedder, questions)
    shape = (len(cut), asked.shape[1])
    vectors = np.lib.format.open_memmap(folder / "vectors.npy", "w+", np.float32, shape)
    for start in range(0, len(cut), _AT_ONCE):
        batch = [Passage(text) for _, text in cut[start : start + _AT_ONCE]]
        vectors[start : start + len(batch)] = embedder.embed(batch, Cancel())
    vectors.flush()
    np.save(folder / "query_vectors.npy", asked)  # last: it tells that the folder is complete
    return folder


def _embedded(embedder: Embedder, texts: Sequence[str]) -> Matrix:
    batches = (texts[start : start + _AT_ONCE] for start in range(0, len(texts), _AT_ONCE))
    return np.vstack([embedder.embed([Passage(text) for text in batch], Cancel()) for batch in batches])


def _rows(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def _write(folder: Path, passages: Iterable[dict[str, str]], queries: Iterable[dict[str, str]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in (("passages.jsonl", passages), ("queries.jsonl", queries)):
        with (folder / name).open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)


def _texts(shared: Path) -> Iterator[tuple[str, str]]:
    """Every text there is: the corpora's documents, and each file that is readable as it stands."""
    for name in ("scifact_train", "cranfield", "squad2", "k8s_docs"):
        for row in _rows(shared / name / "corpus.jsonl"):
            yield f"{name}/{row['_id']}", f"{row['title']}\n{row['text']}"
    for folder in ("fastapi_docs", "files"):
        for path in sorted((shared / folder).rglob("*")):
            if path.is_file() and path.stat().st_size <= _LARGEST_FILE:
                raw = path.read_bytes()
                if b"\x00" not in raw:
                    yield str(path.relative_to(shared)), raw.decode(errors="ignore")


def _windows(texts: Sequence[tuple[str, str]], count: int, size: int) -> Iterator[tuple[str, str]]:
    """Windows at even steps through all words, no two alike; they overlap where there are too few words."""
    split = [(name, words) for name, text in texts if len(words := text.split()) >= size // 2]
    starts = sum(max(1, len(words) - size + 1) for _, words in split)
    seen: set[str] = set()
    step = starts / (count * 1.05)
    while True:
        position, passed = 0.0, 0
        for name, words in split:
            here = max(1, len(words) - size + 1)
            while position < passed + here:
                at = int(position - passed)
                text = " ".join(words[at : at + size])
                position += step
                if text not in seen:
                    seen.add(text)
                    yield name, text
                    if len(seen) == count:
                        return
            passed += here
        step *= 0.7


def _questions(shared: Path) -> list[str]:
    """Claims, questions and follow-ups, in an order of chance that is always the same."""
    asked = [
        row["text"]
        for name in ("scifact_train", "cranfield", "k8s_docs")
        for row in _rows(shared / name / "queries.jsonl")
    ]
    asked += [row["question"] for row in _rows(shared / "squad2" / "questions.jsonl")]
    distinct = list(dict.fromkeys(asked))
    random.Random(7).shuffle(distinct)
    return distinct[:_QUERIES]
