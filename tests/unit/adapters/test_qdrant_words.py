"""Words in Qdrant beyond the contract: hashes that meet, lengths that change, writes that break off, planted files."""

from __future__ import annotations

import os
import pickle
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragforge.adapters.keywords.qdrant import QdrantWords, _point, _Row, place_of, safe
from ragforge.adapters.vectors.qdrant_engines import QdrantPlace
from ragforge.adapters.vectors.qdrant_files import LONGEST_STRING, WORDS_POINT
from ragforge.adapters.vectors.rows import lock_of_file
from ragforge.domain.retrieval import KeywordRows, QueryWords
from ragforge.errors import IndexLost, Unreachable
from ragforge.testing.bm25 import Bm25
from ragforge.testing.contracts.keywords import NO_ROWS, Library, asking, found, rebuild, rows, write
from ragforge.testing.contracts.vectors import ALL, NONE, keys
from tests.qdrant_rest import RestQdrant, rest_qdrant


@pytest.fixture
def folder(swift_path: Path) -> Path:
    return swift_path / "index"


@pytest.fixture
def local(folder: Path, tmp_path: Path) -> Iterator[QdrantWords]:
    index = QdrantWords(QdrantPlace(folder), "p", "f", lock_of_file(tmp_path / "writer.lock"))
    yield index
    index.close()


@pytest.fixture
def server() -> Iterator[RestQdrant]:
    with rest_qdrant() as server:
        yield server


@pytest.fixture
def index(server: RestQdrant, tmp_path: Path) -> Iterator[QdrantWords]:
    index = QdrantWords(QdrantPlace(server.url), "p", "f", lock_of_file(tmp_path / "writer.lock"))
    yield index
    index.close()


def ranks_as_plain_bm25(index: QdrantWords, texts: dict[int, str], questions: list[str]) -> bool:
    reader, oracle = index.pin(), Bm25({key: text.split() for key, text in texts.items()}, rounded=True)
    return all(found(reader, question) == oracle.search(asking(question), 10) for question in questions)


def test_it_is_an_index_of_its_own(index: QdrantWords, local: QdrantWords) -> None:
    assert (index.engine, local.engine) == ("qdrant-words", "qdrant-words")
    assert (index.shared, local.shared) == (True, False)


def test_a_collection_has_sparse_vectors_and_what_it_counts_by(server: RestQdrant, index: QdrantWords) -> None:
    rebuild(index, [rows({1: "chair"})], 1)
    [made] = server.requests("PUT", r"/collections/p\.1$")
    assert (made.body["vectors"], list(made.body["sparse_vectors"])) == ({}, ["w"])
    assert "modifier" not in made.body["sparse_vectors"]["w"]  # that would be of each shard by itself
    fields = [asked.body["field_name"] for asked in server.requests("PUT", "/index$")]
    assert sorted(fields) == ["document", "terms"]


# -- terms


def meeting() -> tuple[str, str]:
    """Two terms with the same place: among some hundred thousand there are some."""
    seen: dict[int, str] = {}
    for number in count():
        term = f"t{number}"
        if (other := seen.setdefault(place_of(term), term)) != term:
            return other, term
    raise AssertionError


def test_terms_that_share_a_place_are_told_apart(index: QdrantWords, local: QdrantWords) -> None:
    one, other = meeting()
    texts = {1: one, 2: other, 3: f"{one} {other} {other}", 4: f"{other} x", 5: "x"}
    for each in (index, local):
        rebuild(each, [rows(texts)], 1)
        reader = each.pin()
        assert reader.holding([one, other]) == {one: 2, other: 3}
        assert found(reader, one) == [1, 3]
        assert sorted(found(reader, other)) == [2, 3, 4]
        assert ranks_as_plain_bm25(each, texts, [one, other, f"{one} {other}", f"x {one}"])
        assert each.verify() == []


def test_places_never_change() -> None:
    """They are in collections on servers: another hash would need another fingerprint."""
    assert [place_of(term) for term in ("chair", "漢字", "")] == [2_216_052_204, 3_609_919_093, 309_448_485]


@pytest.mark.parametrize("term", ["x" * 70_000, "漢" * 100, "a\ud800b", " ", "a b", "\x00"])
def test_odd_terms_are_found(index: QdrantWords, local: QdrantWords, term: str) -> None:
    for each in (index, local):
        rebuild(each, [KeywordRows(keys(1, 2), keys(1, 2), (("chair",), (term, "desk")))], 1)
        each.close()
        reader = each.pin()
        assert reader.search(QueryWords(((term,),)), 10, ALL).keys.tolist() == [2]
        assert reader.holding([term]) == {term: 1}
        assert each.verify() == []


@given(st.text(max_size=400))
def test_every_term_fits(term: str) -> None:
    made = safe(term)
    assert len(made.encode()) <= LONGEST_STRING
    assert bool(made) == bool(term)
    assert safe(made) == made


def test_long_terms_that_begin_alike_are_not_the_same() -> None:
    assert safe("x" * 500 + "a") != safe("x" * 500 + "b")


# -- ranking


def test_a_usual_length_that_changed_does_not_change_the_ranking(index: QdrantWords, server: RestQdrant) -> None:
    """The vectors were made for another one: rows are fetched until none that is better can be left."""
    library = Library(600, 60)
    short = [key for key, text in library.texts.items() if len(text.split()) < 62]
    others = [key for key in library.texts if key not in short]
    first = {key: library.texts[key] for key in (*short, *others[:220])}
    rebuild(index, [rows(first)], 1)
    write(index, rows({key: library.texts[key] for key in others[220:]}), NONE, 2)
    state = index._state()
    drift = state.terms / len(library.texts) / state.reference
    assert 1.02 < drift < 1.25
    assert not server.requests("PUT", r"/collections/p\.2$")
    assert ranks_as_plain_bm25(index, library.texts, library.questions)


def test_the_best_row_is_found_though_qdrant_has_it_last(index: QdrantWords, server: RestQdrant) -> None:
    """By the length that was usual at first, the short rows were better than the long one."""
    short, long = "x" + " y" * 9, "x x" + " y" * 29
    texts = {**dict.fromkeys(range(1, 61), short), 61: long, **dict.fromkeys(range(62, 195), "z " * 39)}
    rebuild(index, [rows(texts)], 1)
    assert found(index.pin(), "x", 61)[-1] == 61
    more = dict.fromkeys(range(195, 243), "z " * 60)
    write(index, rows(more), NONE, 2)
    assert not server.requests("PUT", r"/collections/p\.2$")
    assert found(index.pin(), "x") == [61, *range(1, 10)]
    assert ranks_as_plain_bm25(index, texts | more, ["x", "x y"])


def test_rows_are_written_anew_when_the_usual_length_is_far_off(index: QdrantWords, server: RestQdrant) -> None:
    library = Library(300, 30)
    rebuild(index, [rows({900_001: "w1", 900_002: "w2 w3"})], 1)
    write(index, library.rows, NONE, 2)
    assert server.requests("PUT", r"/collections/p\.2$")
    texts = library.texts | {900_001: "w1", 900_002: "w2 w3"}
    state = index._state()
    assert state.reference == pytest.approx(sum(len(text.split()) for text in texts.values()) / len(texts))
    assert (index.pin().watermark, index.verify()) == (2, [])
    assert ranks_as_plain_bm25(index, texts, library.questions)


def test_a_first_part_that_is_not_like_the_rest_does_no_harm(index: QdrantWords) -> None:
    library = Library(200, 20)
    rebuild(index, [rows({900_001: "w1"}), *library.parts(50)], 3)
    assert index._state().reference > 10
    assert ranks_as_plain_bm25(index, library.texts | {900_001: "w1"}, library.questions)


def test_very_many_equal_rows_are_not_all_fetched(index: QdrantWords, server: RestQdrant) -> None:
    rebuild(index, [rows(dict.fromkeys(range(1, 10_001), "chair"))], 1)
    reader = index.pin()
    server.asked.clear()
    assert len(found(reader, "chair")) == 10
    limits = [asked.body["limit"] for asked in server.requests("POST", "/query$")]
    assert max(limits) < 10_000


def test_what_is_counted_is_not_asked_twice(index: QdrantWords, server: RestQdrant) -> None:
    rebuild(index, [rows({1: "chair desk", 2: "desk"})], 1)

    def counts() -> int:
        before = len(server.requests("POST", "/count$"))
        assert found(index.pin(), "chair desk") == [1, 2]
        return len(server.requests("POST", "/count$")) - before

    assert (counts(), counts()) == (3, 1)  # all rows, and at first each term
    write(index, rows({3: "lamp"}), NONE, 2)
    assert counts() == 3


# -- writing


def test_a_write_that_broke_off_is_counted_anew(index: QdrantWords, server: RestQdrant) -> None:
    library = Library(300, 30)
    rebuild(index, [library.rows], 1)
    gone = list(library.texts)[::3]
    server.fail(500, 1, "/points/delete$", after=True)
    with pytest.raises(Unreachable):
        write(index, NO_ROWS, keys(*gone), 2)
    state = index._state()
    assert (state.watermark, state.unsure) == (1, True)
    write(index, NO_ROWS, keys(*gone), 3)
    for key in gone:
        del library.texts[key]
    state = index._state()
    assert (state.watermark, state.unsure) == (3, False)
    assert state.terms == sum(len(text.split()) for text in library.texts.values())
    assert index.verify() == []
    assert ranks_as_plain_bm25(index, library.texts, library.questions)


def test_rows_of_many_terms_go_in_smaller_parts(index: QdrantWords, server: RestQdrant) -> None:
    long = " ".join(f"w{number}" for number in range(30_000))
    rebuild(index, [rows(dict.fromkeys(range(1, 6), long))], 1)
    sizes = [len(asked.body["points"]) for asked in server.requests("PUT", "/points$")]
    assert sorted(sizes) == [1, 2, 3]  # and the state
    assert index.pin().holding(["w7"]) == {"w7": 5}


def test_a_damaged_row_is_told(local: QdrantWords, folder: Path) -> None:
    from qdrant_client import models

    rebuild(local, [rows({1: "chair desk", 2: "desk"})], 1)
    wrong = models.PointStruct(id=2, vector={}, payload={"document": 1, "length": 1, "terms": ["desk"], "counts": [1]})
    local._qdrant.patiently(lambda client: client.upsert("p", [wrong]))
    assert local.verify() == ["2 rows are counted, 1 are whole"]
    rebuild(local, [rows({1: "chair desk", 2: "desk"})], 1)
    assert local.verify() == []


# -- the folder


class Trap:
    """Makes a folder when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.path),)


def storage(folder: Path) -> Path:
    [path] = folder.rglob("storage.sqlite")
    return path


def test_a_planted_pickle_is_not_run(local: QdrantWords, folder: Path, tmp_path: Path) -> None:
    rebuild(local, [rows({1: "chair"})], 1)
    local.close()
    with closing(sqlite3.connect(storage(folder))) as points:
        [(genuine,)] = points.execute("SELECT point FROM points WHERE instr(point, ?)", (b"chair",)).fetchall()
    stolen = tmp_path / "stolen"
    bare = pickle.dumps(Trap(stolen), protocol=4)
    class_of_another = genuine.replace(b"h\x00\x8c\x0cSparseVector", b"h\x05\x8c\x0cSparseVector")
    assert class_of_another != genuine
    for planted in (bare, genuine[:-1] + b"0" + bare[11:], class_of_another):
        with closing(sqlite3.connect(storage(folder))) as points:
            points.execute("UPDATE points SET point = ? WHERE rowid = 1", (planted,))
            points.commit()
        with pytest.raises(IndexLost, match="no point of this index"):
            local.pin()
        assert not stolen.exists()
    rebuild(local, [rows({2: "desk"})], 2)
    assert found(local.pin(), "desk") == [2]


@settings(deadline=None)
@given(
    number=st.integers(1, 2**63 - 1),
    document=st.integers(0, 2**63 - 1),
    terms=st.lists(st.text(max_size=300), max_size=400),
)
def test_every_point_of_ours_is_known(number: int, document: int, terms: list[str]) -> None:
    point = _point(_Row.of(number, document, terms), reference=17.5)
    assert WORDS_POINT.fullmatch(pickle.dumps(point))


def test_numbers_of_every_size_come_back(local: QdrantWords) -> None:
    sizes = sorted({2**power + more for power in (1, 7, 8, 15, 16, 31, 32, 53, 62) for more in (-1, 0, 1)})
    numbers = np.array(sizes, dtype=np.int64)
    rebuild(local, [KeywordRows(numbers, numbers, tuple(("chair",) for _ in sizes))], 2**62)
    local.close()
    reader = local.pin()
    assert (reader.watermark, reader.keys().tolist()) == (2**62, sizes)
