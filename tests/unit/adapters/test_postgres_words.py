"""Words in Postgres beyond the contract: every term, every count, few rows looked at, statistics that stay right."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragforge.adapters.keywords.postgres import PostgresWords, Sought, reaching
from ragforge.adapters.postgres import PostgresServer
from ragforge.domain.retrieval import Allowed, KeywordRows, QueryWords
from ragforge.errors import IndexLost, Unreachable
from ragforge.testing.bm25 import Bm25
from ragforge.testing.contracts.keywords import (
    CANARY,
    NO_ROWS,
    Library,
    asking,
    counted,
    erase,
    found,
    rebuild,
    rows,
    write,
)
from ragforge.testing.contracts.vectors import ALL, NONE, keys
from ragforge.testing.postgres import TemporaryPostgres
from tests.bad_servers import nobody
from tests.indexed import execute, files_with, index_database, tables

NUMBERS = count(1)


@pytest.fixture(scope="module")
def server(postgres: TemporaryPostgres) -> Iterator[PostgresServer]:
    with index_database(postgres) as server:
        yield server


@pytest.fixture
def index(server: PostgresServer) -> Iterator[PostgresWords]:
    index = PostgresWords(server, f"p_{next(NUMBERS)}", "f")
    yield index
    index.drop()


# -- terms


def test_how_often_a_term_occurs_is_known_exactly(index: PostgresWords) -> None:
    texts = {number: "word " * number + "filler" for number in range(1, 256)}
    rebuild(index, [rows(texts)], 1)
    oracle = Bm25({key: text.split() for key, text in texts.items()}, rounded=True)
    reader = index.pin()
    expected = [oracle.score(asking("word"), key) for key in texts]
    np.testing.assert_allclose(reader.score(asking("word"), keys(*texts)), expected, rtol=1e-6)
    as_new = reader.score_new(asking("word"), counted(text.split() for text in texts.values()))
    np.testing.assert_allclose(as_new, expected, rtol=1e-6)
    reader.release()


def test_more_than_can_be_counted_is_still_found(index: PostgresWords) -> None:
    rebuild(index, [rows({1: "word " * 255, 2: "word " * 5_000, 3: "other"})], 1)
    reader = index.pin()
    assert sorted(found(reader, "word")) == [1, 2]
    new = reader.score_new(asking("word"), counted([["word"] * 5_000]))
    np.testing.assert_allclose(new, reader.score(asking("word"), keys(2)), rtol=1e-6)
    reader.release()
    assert index.verify() == []


terms_of_any_kind = st.lists(
    st.one_of(
        st.text(st.characters(exclude_categories=()), min_size=1, max_size=8),
        st.sampled_from(["'", "\\", "\\'", "''", "a & b", "!a", "a:*", "<->", "\0", "a\0b", "\ud800", "\udfff", "a b"]),
        st.integers(1_990, 2_060).map(lambda length: "x" * length),
        st.integers(500, 1_100).map(lambda length: "漢" * length),
        st.just("y" * 70_000),
    ),
    min_size=1,
    max_size=6,
    unique=True,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(terms=terms_of_any_kind)
def test_terms_of_any_kind_are_found_and_kept_apart(index: PostgresWords, terms: list[str]) -> None:
    numbers = keys(*range(1, len(terms) + 2))
    rebuild(index, [KeywordRows(numbers, numbers, (*((term, term, "all") for term in terms), ("else",)))], 1)
    reader = index.pin()
    for number, term in enumerate(terms, 1):
        expected = [*range(1, len(terms) + 1)] if term == "all" else [number]
        if term != "else":
            assert reader.search(QueryWords(((term,),)), 10, ALL).keys.tolist() == expected
            scores = reader.score(QueryWords(((term,),)), keys(number))
            new = reader.score_new(QueryWords(((term,),)), counted([[term, term, "all"]]))
            np.testing.assert_allclose(new, scores, rtol=1e-6)
    assert reader.holding(terms)[terms[0]] >= 1
    reader.release()
    assert index.verify() == []


def test_a_row_that_is_too_large_is_found_by_its_first_words(index: PostgresWords) -> None:
    many = tuple(f"word{number:08}" for number in range(120_000))
    rebuild(index, [KeywordRows(keys(1, 2), keys(1, 2), (many, ("other",)))], 1)
    write(index, KeywordRows(keys(3), keys(3), (many[::-1],)), NONE, 2)
    reader = index.pin()
    assert found(reader, many[0]) == [1]
    assert found(reader, many[-1]) == [3]
    reader.release()
    assert index.verify() == []
    write(index, NO_ROWS, keys(1, 3), 3)
    assert index.verify() == []


def test_empty_terms_are_none(index: PostgresWords) -> None:
    rebuild(index, [KeywordRows(keys(1, 2), keys(1, 2), (("", "chair", ""), ("",)))], 1)
    reader = index.pin()
    assert reader.search(QueryWords((("",), ("chair", ""))), 10, ALL).keys.tolist() == [1]
    assert reader.search(QueryWords((("",),)), 10, ALL).keys.tolist() == []
    assert reader.holding(["", "chair"]) == {"": 0, "chair": 1}
    reader.release()
    assert index.verify() == []


# -- few rows are looked at


def meets(condition: str, held: set[str]) -> bool:
    """Whether a row with these terms does."""
    python = re.sub(r"'(\w+)'", lambda match: str(match[1] in held), condition)
    return bool(eval(python.replace("&", " and ").replace("|", " or ")))


@settings(deadline=None)
@given(
    most=st.lists(st.floats(0.01, 10), min_size=1, max_size=7),
    share=st.floats(0.01, 1),
    many=st.booleans(),
)
def test_whoever_can_reach_a_score_meets_the_condition(most: list[float], share: float, many: bool) -> None:
    sought = [Sought(f"t{number}", 1, value, value) for number, value in enumerate(most)]
    if many:  # so many weak ones that not all combinations can be written down
        sought += [Sought(f"weak{number}", 1, 0.01, 0.01) for number in range(60)]
    to_reach = share * sum(each.most for each in sought) * (1 - 1e-9)
    condition = reaching(sought, to_reach)
    for bits in range(2 ** len(most)):
        held = {each.term for place, each in enumerate(sought) if place >= len(most) or bits >> place & 1}
        if sum(each.most for each in sought if each.term in held) >= to_reach * (1 + 1e-9):
            assert meets(condition, held), condition


def test_who_cannot_reach_it_does_not() -> None:
    sought = [Sought(term, 1, most, most) for term, most in {"rare": 5.0, "some": 2.0, "common": 1.5}.items()]
    condition = reaching(sought, 3.2)
    assert [meets(condition, held) for held in ({"rare"}, {"some", "common"})] == [True, True]
    assert [meets(condition, held) for held in ({"some"}, {"common"}, set[str]())] == [False, False, False]


def test_many_rows_with_common_words_rank_as_by_plain_bm25(index: PostgresWords) -> None:
    library = Library(3_000, 300)
    rebuild(index, library.parts(1_000), 1)
    reader, oracle = index.pin(), library.oracle()
    random = np.random.default_rng(5)
    narrow = Allowed(np.arange(1, 10))
    for size in (2, 5, 8, 12, 40):
        for _ in range(4):
            words = asking(" ".join(f"w{number}" for number in random.choice(400, size, replace=False)))
            for allowed in (ALL, narrow):
                eligible = library.eligible(allowed)
                ranked = [key for key in oracle.search(words, 5_000) if key in eligible]
                if size > 4:  # of longer questions, rows with every word are not first
                    ranked.sort(key=lambda key: (-oracle.score(words, key), key))
                result = reader.search(words, 10, allowed)
                np.testing.assert_allclose(
                    result.scores, [oracle.score(words, key) for key in ranked[:10]], rtol=1e-6, err_msg=str(words)
                )
    reader.release()


# -- statistics


def test_statistics_stay_right_while_rows_come_and_go(index: PostgresWords) -> None:
    library = Library(400, 40)
    rebuild(index, [], 0)
    for watermark, part in enumerate(library.parts(50), 1):
        write(index, part, part.keys[:5] + 1_000_000, watermark)
    write(index, rows(dict.fromkeys(list(library.texts)[:50], "entirely new words")), NONE, 50)
    write(index, NO_ROWS, keys(*list(library.texts)[50:100]), 51)
    assert index.verify() == []
    library.texts = dict.fromkeys(list(library.texts)[:50], "entirely new words") | dict(
        list(library.texts.items())[100:]
    )
    reader, oracle = index.pin(), library.oracle()
    for question in library.questions:
        expected = [oracle.score(asking(question), key) for key in library.texts]
        np.testing.assert_allclose(reader.score(asking(question), keys(*library.texts)), expected, rtol=1e-6)
    reader.release()


def test_rows_that_grow_longer_are_found_as_before(index: PostgresWords) -> None:
    """What a word can add at most was computed when rows were short."""
    library = Library(2_500, 250)
    rebuild(index, [rows({900_000 + number: f"w{number % 400}" for number in range(20)})], 1)
    for watermark, part in enumerate(library.parts(500), 2):
        write(index, part, NONE, watermark)
    write(index, NO_ROWS, keys(*range(900_000, 900_020)), 50)
    reader, oracle = index.pin(), library.oracle()
    for question in ("w5 w17 w80 w200 w300", "w1 w2 w3 w4 w5 w6 w7 w8"):
        best = sorted(library.texts, key=lambda key: (-oracle.score(asking(question), key), key))[:10]
        expected = [oracle.score(asking(question), key) for key in best]
        np.testing.assert_allclose(reader.search(asking(question), 10, ALL).scores, expected, rtol=1e-6)
    reader.release()
    assert index.verify() == []


def test_wrong_statistics_are_noticed(server: PostgresServer, index: PostgresWords) -> None:
    rebuild(index, [Library(100, 10).rows], 1)
    [table, terms] = tables(server)
    execute(server, f"UPDATE ragforge_index.{terms} SET holding = holding + 1 WHERE term = 'w1'")
    execute(server, f"DELETE FROM ragforge_index.{terms} WHERE term = 'w2'")
    [problem] = index.verify()
    assert problem.startswith("of 2 words")
    execute(server, f"DELETE FROM ragforge_index.{table} WHERE key IN (SELECT max(key) FROM ragforge_index.{table})")
    assert len(index.verify()) == 3
    rebuild(index, [Library(100, 10).rows], 2)
    assert index.verify() == []


# -- removing for good


def test_nothing_of_a_removed_row_stays_in_the_files(server: PostgresServer, index: PostgresWords) -> None:
    rebuild(index, [Library(300, 30).rows], 1)
    write(index, rows({900_001: f"{CANARY} w1"}), NONE, 2)
    assert len(files_with(server, CANARY.encode())) >= 3  # the row, the index of words, the table of terms
    write(index, NO_ROWS, keys(900_001), 3)
    assert erase(index)
    assert files_with(server, CANARY.encode()) == []
    assert index.verify() == []


def test_what_is_read_is_removed_later(server: PostgresServer, index: PostgresWords) -> None:
    rebuild(index, [rows({1: "chair"})], 1)
    reader = index.pin()
    rebuild(index, [rows({2: "desk"})], 2)
    assert (found(reader, "chair"), len(tables(server))) == ([1], 4)
    assert not erase(index)
    reader.release()
    assert erase(index)
    assert len(tables(server)) == 2


# -- servers


def test_nobody_there_is_not_lost() -> None:
    server = PostgresServer(nobody().replace("http://", "postgresql://someone@") + "/nothing")
    with pytest.raises(Unreachable):
        PostgresWords(server, "p", "f").pin()
    server.close()


def test_words_need_no_pgvector(postgres: TemporaryPostgres) -> None:
    with index_database(postgres) as server:
        index = PostgresWords(server, "p", "f")
        rebuild(index, [rows({1: "chair"})], 1)
        assert found(index.pin(), "chair") == [1]
        assert execute(server, "SELECT FROM pg_extension WHERE extname = 'vector'") == []
        index.drop()
        with pytest.raises(IndexLost):
            index.pin()
