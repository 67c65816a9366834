"""Whichever engine is chosen, the same rows are found: the same top ten for the same questions and filters.

The engines are compared with what plain Python finds, and so with each other. Those that look at every row must find
the best ten, up to rows whose scores cannot be told apart; those that walk through a graph must find 99 of 100.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from ragforge.adapters.keywords.postgres import PostgresWords
from ragforge.adapters.keywords.qdrant import QdrantWords
from ragforge.adapters.keywords.tantivy import TantivyIndex
from ragforge.adapters.postgres import PostgresServer
from ragforge.adapters.vectors.chroma import ChromaEmbedded, ChromaServer
from ragforge.adapters.vectors.chroma_process import ChromaProcess
from ragforge.adapters.vectors.pgvector import PgVectorIndex
from ragforge.adapters.vectors.qdrant import QdrantIndex
from ragforge.adapters.vectors.qdrant_engines import QdrantPlace
from ragforge.adapters.vectors.rows import lock_of_file
from ragforge.adapters.vectors.snapshot import SnapshotIndex
from ragforge.domain.retrieval import Allowed, KeywordRows, Ranked, VectorRows
from ragforge.domain.tokens import Vector
from ragforge.ports import KeywordIndex, VectorIndex
from ragforge.testing.chroma import TemporaryChroma
from ragforge.testing.contracts import keywords, vectors
from ragforge.testing.postgres import TemporaryPostgres
from tests.indexed import index_database
from tests.qdrant_rest import RestQdrant, rest_qdrant

K = 10
FINGERPRINT = "f"


@pytest.fixture(scope="module")
def database(postgres: TemporaryPostgres) -> Iterator[PostgresServer]:
    with index_database(postgres) as server:
        yield server


@pytest.fixture(scope="module")
def chroma_process() -> Iterator[ChromaProcess]:
    process = ChromaProcess()
    yield process
    process.close()


@pytest.fixture(scope="module")
def chroma_server() -> Iterator[TemporaryChroma]:
    with TemporaryChroma() as server:
        yield server


@pytest.fixture(scope="module")
def qdrant_rest() -> Iterator[RestQdrant]:
    """The engine of Qdrant's server, asked as a server is."""
    with rest_qdrant() as server:
        yield server


def filters(documents: int) -> dict[str, Allowed]:
    random = np.random.default_rng(11)
    everything = np.arange(1, documents + 1)
    few, some = (np.sort(random.choice(everything, size, replace=False)) for size in (documents // 50, documents // 5))
    hidden = np.sort(random.choice(np.arange(1, 20_000), 4_000, replace=False))
    return {
        "all": Allowed(),
        "2 %": Allowed(few),
        "20 %": Allowed(some),
        "denied 2 %": Allowed(few, deny=True),
        "denied 80 %": Allowed(np.setdiff1d(everything, some), deny=True),
        "hidden": Allowed(hidden=hidden),
        "20 %, hidden": Allowed(some, hidden=hidden),
    }


# -- vectors


@dataclass(frozen=True, slots=True)
class Agreement:
    """How well an engine's answers are the exact ones."""

    wrong: list[str]
    """Answers that are no best ten, whatever rows with equal scores one takes."""
    recall: float


def compared(index: VectorIndex, library: vectors.Library, questions: int) -> Agreement:
    wrong, hits, wanted = [], 0, 0
    reader = index.pin()
    for name, allowed in filters(300).items():
        eligible = np.isin(library.keys, library.eligible(allowed))
        for number, query in enumerate(library.queries[:questions]):
            exact = dict(
                zip(library.keys[eligible].tolist(), (library.vectors[eligible] @ query).tolist(), strict=True)
            )
            best = sorted(exact.values(), reverse=True)[:K]
            result = reader.search(query, K, allowed)
            assert len(result) == len(best), (name, number)
            found = [exact[key] for key in result.keys.tolist()]  # fails if one was not allowed
            np.testing.assert_allclose(result.scores, found, atol=1e-5)
            good = sum(score >= best[-1] - 1e-6 for score in found)
            hits, wanted = hits + good, wanted + len(best)
            if good < len(best):
                wrong.append(f"{name}, question {number}")
    reader.release()
    return Agreement(wrong, hits / wanted)


def changed(library: vectors.Library) -> tuple[VectorRows, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Some rows get other vectors and documents, some go; the library is as the index should be then."""
    random = np.random.default_rng(12)
    other, gone = np.arange(0, 300), np.arange(300, 500)
    put = VectorRows(library.keys[other], random.permutation(library.documents[other]), library.vectors[other[::-1]])
    library.documents[other], library.vectors[other] = put.documents, put.vectors
    removed = library.keys[gone]
    for column in ("keys", "documents", "vectors"):
        setattr(library, column, np.delete(getattr(library, column), gone, axis=0))
    return put, removed


@pytest.fixture
def make_vectors(
    swift_path: Path, database: PostgresServer, request: pytest.FixtureRequest
) -> Callable[[str], VectorIndex]:
    lock = lock_of_file(swift_path / "writer.lock")

    def make(engine: str) -> VectorIndex:
        if engine == "snapshot":
            return SnapshotIndex(swift_path / "snapshot", FINGERPRINT)
        if engine == "pgvector":
            return PgVectorIndex(database, "exact", FINGERPRINT)
        if engine == "pgvector with a graph":
            return PgVectorIndex(database, "graph", FINGERPRINT, exact_rows=100)
        if engine == "qdrant":
            return QdrantIndex(QdrantPlace(swift_path / "qdrant"), "p", FINGERPRINT, lock)
        if engine == "qdrant server":
            rest: RestQdrant = request.getfixturevalue("qdrant_rest")
            return QdrantIndex(QdrantPlace(rest.url), "agree", FINGERPRINT, lock)
        if engine == "chroma":
            process: ChromaProcess = request.getfixturevalue("chroma_process")
            return ChromaEmbedded(swift_path / "chroma", FINGERPRINT, process)
        server: TemporaryChroma = request.getfixturevalue("chroma_server")
        return ChromaServer(server.url, "agree", FINGERPRINT, lock)

    return make


@pytest.mark.parametrize(
    ("engine", "exact", "rows", "questions"),
    [
        ("snapshot", True, 3_000, 15),
        ("pgvector", True, 3_000, 15),
        ("qdrant", True, 1_000, 3),  # its local mode is slow
        ("qdrant server", False, 3_000, 15),
        ("pgvector with a graph", False, 3_000, 15),
        ("chroma", False, 3_000, 15),
        ("chroma server", False, 3_000, 15),
    ],
)
def test_vectors_are_found_alike(
    make_vectors: Callable[[str], VectorIndex], engine: str, exact: bool, rows: int, questions: int
) -> None:
    library, index = vectors.Library(rows, 300, seed=21), make_vectors(engine)
    vectors.rebuild(index, library.parts(1_000), 1)
    for watermark in (2, 3):
        agreement = compared(index, library, questions)
        assert agreement.recall >= 0.99
        assert not (exact and agreement.wrong)
        if watermark == 2:
            put, removed = changed(library)
            vectors.write(index, put, removed, watermark)
    index.drop()
    index.close()


def test_equal_vectors_come_by_key_everywhere(make_vectors: Callable[[str], VectorIndex]) -> None:
    same: Vector = vectors.axis(1)
    put = vectors.rows([31, 7, 19, 5, 11], [same, same, vectors.axis(2), same, same])
    answers = {}
    for engine in ("snapshot", "pgvector", "pgvector with a graph", "qdrant", "qdrant server"):
        index = make_vectors(engine)
        vectors.rebuild(index, [put], 1)
        answers[engine] = index.pin().search(same, 3, Allowed()).keys.tolist()
        index.drop()
        index.close()
    assert list(answers.values()) == [[5, 7, 11]] * 5


# -- words


def questions(library: keywords.Library, repeated: int) -> list[str]:
    random = np.random.default_rng(22)
    sizes = (1, 2, 3, 4, 5, 8, 12) * repeated
    more = [" ".join(f"w{number}" for number in random.choice(400, size, replace=False)) for size in sizes]
    return [*library.questions[-3 * repeated :], *more]


def answers(index: KeywordIndex, library: keywords.Library, repeated: int) -> dict[tuple[str, str], Ranked]:
    reader = index.pin()
    found = {
        (name, question): reader.search(keywords.asking(question), K, allowed)
        for name, allowed in filters(120).items()
        for question in questions(library, repeated)
    }
    reader.release()
    return found


def assert_same(ours: Ranked, theirs: Ranked, where: object) -> None:
    """The same rows in the same order; where scores cannot be told apart, one may stand for another."""
    np.testing.assert_allclose(ours.scores, theirs.scores, rtol=1e-5, err_msg=str(where))
    lowest = min(theirs.scores, default=0) * (1 + 1e-5)
    for mine, other in ((ours, theirs), (theirs, ours)):
        above = mine.keys[mine.scores > lowest]
        assert np.isin(above, other.keys).all(), where


@pytest.mark.parametrize(
    ("engine", "rows", "repeated"), [("postgres", 1_200, 4), ("qdrant", 400, 1), ("qdrant server", 1_000, 1)]
)
def test_words_are_found_alike(
    database: PostgresServer, qdrant_rest: RestQdrant, swift_path: Path, engine: str, rows: int, repeated: int
) -> None:
    library = keywords.Library(rows, 120, seed=23)
    reference = TantivyIndex(swift_path / "tantivy", FINGERPRINT)
    index: KeywordIndex = PostgresWords(database, "words", FINGERPRINT)
    if engine != "postgres":
        place = QdrantPlace(qdrant_rest.url if engine == "qdrant server" else swift_path / "qdrant")
        index = QdrantWords(place, "w", FINGERPRINT, lock_of_file(swift_path / "writer.lock"))
    for each in (reference, index):
        keywords.rebuild(each, library.parts(500), 1)
    _compare(index, reference, library, repeated)
    put, removed = _changed_words(library)
    for each in (reference, index):
        keywords.write(each, put, removed, 2)
        assert keywords.erase(each)  # only then tantivy's statistics are without what was removed
    _compare(index, reference, library, repeated)
    for each in (reference, index):
        each.drop()
        each.close()


def _compare(index: KeywordIndex, reference: KeywordIndex, library: keywords.Library, repeated: int) -> None:
    expected = answers(reference, library, repeated)
    assert sum(map(len, expected.values())) > 3 * len(expected)
    for where, found in answers(index, library, repeated).items():
        assert_same(found, expected[where], where)
    terms = [f"w{number}" for number in range(0, 400, 7)]
    assert index.pin().holding(terms) == reference.pin().holding(terms)


def _changed_words(library: keywords.Library) -> tuple[KeywordRows, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    other, gone = list(library.texts)[:100], list(library.texts)[100:200]
    fresh = list(keywords.Library(100, 120, seed=24).texts.values())
    library.texts |= dict(zip(other, fresh, strict=True))
    for key in gone:
        del library.texts[key]
        del library.documents[key]
    return keywords.rows({key: library.texts[key] for key in other}, library.documents), np.array(gone, np.int64)
