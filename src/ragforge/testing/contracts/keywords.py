"""What every keyword index keeps. Subclass, give the fixture `open_index`, and pytest runs it all."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest

from ragforge.domain.retrieval import Allowed, Keys, KeywordRows, QueryWords, Ranked
from ragforge.errors import IndexLost
from ragforge.ports import KeywordIndex, KeywordReader
from ragforge.testing.bm25 import Bm25
from ragforge.testing.contracts.vectors import ALL, NONE, keys

OpenIndex: TypeAlias = Callable[[str], KeywordIndex]
"""Opens the index of this test, always the same one, with a fingerprint. Another process must be able to call it."""

FINGERPRINT = "words-a"
CANARY = "quokkazebu7301"
LONGEST_WAIT = 60


def rows(texts: dict[int, str], documents: dict[int, int] | None = None) -> KeywordRows:
    """Rows with the words of these texts; each in a document of its own, key plus 1,000, unless told."""
    owners = [(documents or {}).get(key, key + 1_000) for key in texts]
    return KeywordRows(keys(*texts), keys(*owners), tuple(tuple(text.split()) for text in texts.values()))


NO_ROWS = rows({})


def asking(question: str) -> QueryWords:
    """One group for each word; `a|b` is one group of two terms."""
    return QueryWords(tuple(tuple(word.split("|")) for word in question.split()))


def write(index: KeywordIndex, put: KeywordRows, removed: Keys, watermark: int) -> None:
    with index.writing(blocking=True) as ours:
        assert ours
        index.apply(put, removed, watermark)


def rebuild(index: KeywordIndex, parts: Sequence[KeywordRows], watermark: int) -> None:
    with index.writing(blocking=True) as ours:
        assert ours
        index.rebuild(iter(parts), watermark)


def erase(index: KeywordIndex) -> bool:
    with index.writing(blocking=True) as ours:
        assert ours
        return index.erase()


def well_formed(result: Ranked) -> Ranked:
    """The result, once it is sure that no row stands in it twice or scores zero."""
    assert result.keys.dtype == np.int64
    assert result.scores.dtype == np.float32
    assert result.keys.shape == result.scores.shape
    assert (result.scores > 0).all()
    assert np.isfinite(result.scores).all()
    assert len(set(result.keys.tolist())) == len(result)
    return result


def found(reader: KeywordReader, question: str, k: int = 10, allowed: Allowed = ALL) -> list[int]:
    return [int(key) for key in well_formed(reader.search(asking(question), k, allowed)).keys]


def counted(texts: Iterable[Iterable[str]]) -> list[Counter[str]]:
    return [Counter(text) for text in texts]


class Library:
    """Rows of words that are as unevenly common as those of a language, and what plain BM25 finds in them."""

    def __init__(self, size: int, documents: int, seed: int = 7) -> None:
        random = np.random.default_rng(seed)
        words = np.array([f"w{number}" for number in range(400)])
        share = 1 / np.arange(3, 403)
        self.texts = {
            int(key): " ".join(random.choice(words, int(random.integers(1, 150)), p=share / share.sum()))
            for key in np.sort(random.choice(size * 5, size, replace=False) + 1)
        }
        owners = random.permutation(np.arange(size) % documents) + 1
        self.documents = {key: int(owner) for key, owner in zip(self.texts, owners, strict=True)}
        asked = [random.choice(words, int(random.integers(1, 5)), replace=False) for _ in range(12)]
        self.questions = [*(" ".join(some) for some in asked), "w1|w150 w2|w200|w9", " ".join(words[10:400:19])]

    @property
    def rows(self) -> KeywordRows:
        return rows(self.texts, self.documents)

    def parts(self, size: int) -> list[KeywordRows]:
        all_keys = list(self.texts)
        return [
            rows({key: self.texts[key] for key in all_keys[at : at + size]}, self.documents)
            for at in range(0, len(all_keys), size)
        ]

    def eligible(self, allowed: Allowed) -> set[int]:
        """The keys of the rows that may be returned."""
        hidden = set() if allowed.hidden is None else set(allowed.hidden.tolist())
        named = None if allowed.documents is None else set(allowed.documents.tolist())
        return {
            key
            for key, document in self.documents.items()
            if key not in hidden and (named is None or (document in named) != allowed.deny)
        }

    def oracle(self, *, rounded: bool = True) -> Bm25:
        return Bm25({key: text.split() for key, text in self.texts.items()}, rounded=rounded)


class KeywordIndexContract:
    """Rows go in and out by key, those that hold the words are found by BM25, and nothing of a removed one stays."""

    isolated = True
    """Whether a pinned reader keeps its moment, and another process may read while one writes."""

    @pytest.fixture
    def open_index(self) -> OpenIndex:
        raise NotImplementedError

    @pytest.fixture
    def folder(self) -> Path | None:
        """Where its files are, if it has files of its own."""
        return None

    def dictionary(self, reader: KeywordReader, beginning: str) -> list[str]:
        """The terms in the engine's own dictionary that begin so, whether or not a row can be found by them."""
        raise NotImplementedError

    @pytest.fixture
    def index(self, open_index: OpenIndex) -> Iterator[KeywordIndex]:
        index = open_index(FINGERPRINT)
        yield index
        index.close()

    # -- rows and watermark

    def test_nothing_was_built_yet(self, index: KeywordIndex) -> None:
        with pytest.raises(IndexLost):
            index.pin()
        assert index.fingerprint == FINGERPRINT
        assert index.engine

    def test_an_empty_index_finds_nothing(self, index: KeywordIndex) -> None:
        rebuild(index, [], 3)
        reader = index.pin()
        assert (reader.watermark, reader.rows, reader.keys().tolist()) == (3, 0, [])
        assert found(reader, "chair") == found(reader, "chair", 10, Allowed(keys(5))) == []
        assert np.isnan(reader.score(asking("chair"), keys(1, 2))).all()
        assert np.isfinite(reader.score_new(asking("chair"), counted([["chair"], []]))).all()
        assert reader.holding(["chair"]) == {"chair": 0}
        reader.release()
        assert index.verify() == []

    def test_rows_may_come_after_an_empty_start(self, index: KeywordIndex) -> None:
        rebuild(index, [], 0)
        write(index, rows({1: "chair", 2: "desk"}), NONE, 2)
        reader = index.pin()
        assert (reader.watermark, reader.rows) == (2, 2)
        assert found(reader, "desk") == [2]

    def test_put_replace_and_remove(self, index: KeywordIndex) -> None:
        rebuild(index, [rows({1: "red chair", 2: "red desk", 3: "red shelf"})], 1)
        for _ in range(2):  # applied twice, as after a crash: nothing changes
            write(index, rows({2: "green lamp", 4: "red lamp"}), keys(3), 5)
            reader = index.pin()
            assert (reader.watermark, reader.rows, reader.keys().tolist()) == (5, 3, [1, 2, 4])
            assert found(reader, "green") == [2]
            assert found(reader, "desk") == found(reader, "shelf") == []
            assert sorted(found(reader, "red")) == [1, 4]
            scores = reader.score(asking("desk green"), keys(1, 2, 3, 4))
            assert (scores[0], scores[3]) == (0, 0)
            assert scores[1] > 0
            assert np.isnan(scores[2])
            assert reader.holding(["red", "lamp", "desk"]) == {"red": 2, "lamp": 2, "desk": 0}
            reader.release()
        assert index.verify() == []

    def test_the_last_of_equal_keys_counts(self, index: KeywordIndex) -> None:
        first = KeywordRows(keys(3, 1, 3), keys(10, 20, 30), (("ant",), ("bee",), ("cat",)))
        rebuild(index, [first], 1)
        second = KeywordRows(keys(1, 5, 1), keys(40, 50, 60), (("dog",), ("eel",), ("fox",)))
        write(index, second, keys(1), 2)
        reader = index.pin()
        assert (reader.rows, reader.keys().tolist()) == (3, [1, 3, 5])
        assert [found(reader, word) for word in ("ant", "bee", "cat", "dog", "eel", "fox")] == [
            [],
            [],
            [3],
            [],
            [5],
            [1],
        ]
        assert found(reader, "fox", 10, Allowed(keys(20, 40))) == []

    def test_a_row_moves_to_another_document(self, index: KeywordIndex) -> None:
        rebuild(index, [rows({1: "chair", 2: "chair"}, {1: 10, 2: 20})], 1)
        write(index, rows({1: "chair"}, {1: 30}), NONE, 2)
        reader = index.pin()
        assert found(reader, "chair", 10, Allowed(keys(10))) == []
        assert found(reader, "chair", 10, Allowed(keys(30))) == [1]

    def test_removing_what_is_not_there(self, index: KeywordIndex) -> None:
        rebuild(index, [rows({1: "chair"})], 1)
        write(index, NO_ROWS, keys(7, 8, 9), 4)
        reader = index.pin()
        assert (reader.watermark, reader.keys().tolist()) == (4, [1])

    def test_the_watermark_moves_without_rows(self, index: KeywordIndex) -> None:
        rebuild(index, [rows({1: "chair"})], 1)
        write(index, NO_ROWS, NONE, 1_234_567_890_123)
        reader = index.pin()
        assert (reader.watermark, reader.rows) == (1_234_567_890_123, 1)

    def test_every_row_may_go(self, index: KeywordIndex) -> None:
        rebuild(index, [rows({1: "chair", 2: "desk"})], 1)
        write(index, NO_ROWS, keys(1, 2), 2)
        reader = index.pin()
        assert (reader.rows, found(reader, "chair desk")) == (0, [])
        write(index, rows({3: "chair"}), NONE, 3)
        assert found(index.pin(), "chair") == [3]

    def test_large_keys_and_documents(self, index: KeywordIndex) -> None:
        big = 2**53 + 12_345  # beyond what a float holds exactly
        rebuild(index, [rows({big: "chair", big + 1: "chair"}, {big: big + 2, big + 1: big + 3})], 1)
        reader = index.pin()
        assert found(reader, "chair") == reader.keys().tolist() == [big, big + 1]
        assert found(reader, "chair", 10, Allowed(keys(big + 3))) == [big + 1]
        assert found(reader, "chair", 10, Allowed(keys(big + 3), deny=True)) == [big]
        assert found(reader, "chair", 10, Allowed(hidden=keys(big))) == [big + 1]

    def test_a_row_without_words_is_a_row(self, index: KeywordIndex) -> None:
        rebuild(index, [rows({1: "", 2: "chair"})], 1)
        reader = index.pin()
        assert (reader.rows, reader.keys().tolist()) == (2, [1, 2])
        assert reader.score(asking("chair"), keys(1)).tolist() == [0]

    # -- what is found

    def test_any_of_the_words_is_enough_and_all_of_them_come_first(self, index: KeywordIndex) -> None:
        long = "desk chair " + "filler " * 60
        texts = {1: "chair chair chair", 2: long, 3: "desk", 4: "shelf", 5: long} | dict.fromkeys(range(6, 30), "lamp")
        rebuild(index, [rows(texts)], 1)
        reader = index.pin()
        result = well_formed(reader.search(asking("desk chair"), 10, ALL))
        assert result.keys[:2].tolist() == [2, 5]  # complete, though the others score higher
        assert sorted(result.keys[2:].tolist()) == [1, 3]
        assert result.scores[2] > result.scores[0]
        assert found(reader, "desk chair", 1) == [2]
        assert found(reader, "desk chair", 3)[:2] == [2, 5]

    def test_terms_of_a_group_stand_for_each_other(self, index: KeywordIndex) -> None:
        texts = {1: "haus garten", 2: "hauser", 3: "garten", 4: "hauser garten"} | dict.fromkeys(range(5, 20), "x")
        rebuild(index, [rows(texts)], 1)
        assert sorted(found(index.pin(), "haus|hauser garten")[:2]) == [1, 4]
        assert sorted(found(index.pin(), "haus|hauser")) == [1, 2, 4]

    def test_a_term_of_several_groups_counts_once(self, index: KeywordIndex) -> None:
        rebuild(index, [rows({1: "err 4012 err4012", 2: "err 4012", 3: "err", 4: "4012"})], 1)
        reader = index.pin()
        assert found(reader, "err|err4012 4012|err4012")[:2] == [1, 2]
        groups = reader.score(asking("err|err4012 4012|err4012"), keys(1, 2, 3, 4))
        np.testing.assert_allclose(groups, reader.score(asking("err err4012 4012"), keys(1, 2, 3, 4)), rtol=1e-5)
        result = reader.search(asking("err|err4012 4012|err4012"), 4, ALL)
        np.testing.assert_allclose(result.scores, reader.score(asking("err err4012 4012"), result.keys), rtol=1e-3)

    def test_equal_rows_come_by_key(self, index: KeywordIndex) -> None:
        rebuild(index, [rows(dict.fromkeys((31, 7, 19), "chair")), rows({5: "chair", 11: "chair"})], 1)
        write(index, rows({3: "chair", 23: "chair"}), NONE, 2)
        reader = index.pin()
        assert found(reader, "chair") == [3, 5, 7, 11, 19, 23, 31]
        assert found(reader, "chair", 3) == [3, 5, 7]

    def test_as_many_as_asked_for(self, index: KeywordIndex) -> None:
        rebuild(index, [rows(dict.fromkeys(range(1, 6), "chair") | {6: "desk"})], 1)
        reader = index.pin()
        assert [len(found(reader, "chair", k)) for k in (0, 1, 4, 5, 6, 1_000_000)] == [0, 1, 4, 5, 5, 5]

    def test_no_words_find_nothing(self, index: KeywordIndex) -> None:
        rebuild(index, [rows({1: "chair"})], 1)
        reader = index.pin()
        assert found(reader, "") == found(reader, "unknown") == found(reader, "unknown words|only") == []
        assert reader.score(asking(""), keys(1, 2)).tolist()[0] == 0

    @pytest.mark.parametrize(
        "term",
        ['"', "*", "a:b", "words:chair", "(", "[", "^2", "~", "\\", "\u0002de", "c++", "é", "漢字", "🚀", "x" * 64],
    )
    def test_terms_are_no_syntax(self, index: KeywordIndex, term: str) -> None:
        rebuild(index, [KeywordRows(keys(1, 2), keys(1, 2), (("chair",), (term, "desk")))], 1)
        reader = index.pin()
        words = QueryWords(((term,),))
        assert reader.search(words, 10, ALL).keys.tolist() == [2]
        assert reader.score(words, keys(1, 2))[0] == 0
        assert reader.holding([term, "chair"]) == {term: 1, "chair": 1}

    def test_filters_lose_nothing_and_let_nothing_through(self, index: KeywordIndex) -> None:
        library = Library(1_000, 200)
        rebuild(index, library.parts(300), 1)
        reader, oracle = index.pin(), library.oracle()
        everything = np.arange(1, 201)
        random = np.random.default_rng(1)
        two, twenty = (np.sort(random.choice(everything, size, replace=False)) for size in (2, 20))
        best = keys(*sorted({key for question in library.questions for key in oracle.search(asking(question), 3)}))
        cases = {
            "all": ALL,
            "1 %": Allowed(two),
            "10 %": Allowed(twenty),
            "denied all but 1 %": Allowed(np.setdiff1d(everything, two), deny=True),
            "denied all but 10 %": Allowed(np.setdiff1d(everything, twenty), deny=True),
            "denied 1 %": Allowed(two, deny=True),
            "denied none": Allowed(NONE, deny=True),
            "denied all": Allowed(everything, deny=True),
            "none": Allowed(NONE),
            "absent": Allowed(keys(5_000, 5_001)),
            "denied absent": Allowed(keys(5_000, 5_001), deny=True),
            "hidden best": Allowed(hidden=best),
            "10 %, hidden best": Allowed(twenty, hidden=best),
            "denied 10 %, hidden best": Allowed(twenty, deny=True, hidden=best),
            "hidden none": Allowed(hidden=NONE),
            "hidden most": Allowed(hidden=keys(*list(library.texts)[5:])),
        }
        for name, allowed in cases.items():
            eligible = library.eligible(allowed)
            for question in library.questions[::3]:
                expected = [key for key in oracle.search(asking(question), 1_000) if key in eligible][:10]
                assert found(reader, question, 10, allowed) == expected, (name, question)

    def test_scores_by_key_are_those_of_the_search(self, index: KeywordIndex) -> None:
        library = Library(300, 30)
        rebuild(index, [library.rows], 1)
        reader = index.pin()
        for question in library.questions:
            result = reader.search(asking(question), 40, ALL)
            np.testing.assert_allclose(reader.score(asking(question), result.keys), result.scores, rtol=1e-3)
        some = keys(
            *list(library.texts)[::-7], 999_999, *list(library.texts)[:1] * 2
        )  # any order, one absent, one twice
        scores = reader.score(asking("w1 w2"), some)
        assert scores.dtype == np.float32
        expected = [library.oracle().score(asking("w1 w2"), key) if key in library.texts else np.nan for key in some]
        np.testing.assert_allclose(scores, expected, rtol=1e-3)
        assert reader.score(asking("w1"), NONE).shape == (0,)

    def test_new_rows_score_as_they_would_in_the_index(self, index: KeywordIndex) -> None:
        library = Library(600, 30)
        rebuild(index, [library.rows], 1)
        reader = index.pin()
        texts = [text.split() for text in library.texts.values()]
        for question in library.questions:
            known = reader.score(asking(question), reader.keys())
            np.testing.assert_allclose(reader.score_new(asking(question), counted(texts)), known, rtol=1e-3, atol=1e-6)
        new = {900_001: "w0 w1 w2 w5", 900_002: "w3", 900_003: "w0 " * 200}
        as_new = reader.score_new(asking("w0 w1 w3"), counted(text.split() for text in new.values()))
        assert as_new.dtype == np.float32
        write(index, rows(new), NONE, 2)
        np.testing.assert_allclose(as_new, index.pin().score(asking("w0 w1 w3"), keys(*new)), rtol=0.02)
        assert reader.score_new(asking("w0"), []).shape == (0,)
        unknown = reader.score_new(asking("unheard"), counted([["unheard"], ["w0"], []]))
        assert unknown[0] > 0
        assert unknown[1:].tolist() == [0, 0]

    def test_it_scores_as_plain_bm25_does(self, index: KeywordIndex) -> None:
        for seed in range(4):
            library = Library(250, 30, seed)
            rebuild(index, library.parts(60 + 100 * seed), seed)
            reader, oracle = index.pin(), library.oracle()
            for question in library.questions:
                words = asking(question)
                expected = [oracle.score(words, key) for key in library.texts]
                np.testing.assert_allclose(reader.score(words, keys(*library.texts)), expected, rtol=1e-3, atol=1e-6)
                assert set(found(reader, question)) == set(oracle.search(words, 10)), question
            terms = [f"w{number}" for number in range(0, 400, 13)]
            assert reader.holding(terms) == {term: oracle.holding(term) for term in terms}
            reader.release()

    def test_removed_rows_are_not_counted(self, index: KeywordIndex) -> None:
        library = Library(300, 30)
        rebuild(index, [library.rows], 1)
        gone = list(library.texts)[::3]
        write(index, NO_ROWS, keys(*gone), 2)
        for key in gone:
            del library.texts[key]
        terms = [f"w{number}" for number in range(0, 400, 13)]
        expected = {term: library.oracle().holding(term) for term in terms}
        assert index.pin().holding(terms) == expected
        assert erase(index)
        reader, oracle = index.pin(), library.oracle()
        assert reader.holding(terms) == expected
        for question in library.questions:
            assert found(reader, question) == oracle.search(asking(question), 10), question

    def test_two_threads_find_the_same(self, index: KeywordIndex) -> None:
        library = Library(300, 30)
        rebuild(index, [library.rows], 1)
        reader = index.pin()
        alone = [found(reader, question) for question in library.questions]
        with ThreadPoolExecutor(2) as pool:
            assert list(pool.map(lambda question: found(index.pin(), question), library.questions)) == alone

    # -- rebuilding, and readers meanwhile

    def test_a_rebuilt_index_finds_the_same(self, index: KeywordIndex) -> None:
        library = Library(600, 60)
        rebuild(index, [], 0)
        for watermark, part in enumerate(library.parts(45), 1):
            write(index, part, NONE, watermark)
        reader = index.pin()
        before = [found(reader, question) for question in library.questions]
        reader.release()
        rebuild(index, library.parts(100), 99)
        reader = index.pin()
        assert (reader.watermark, reader.rows, reader.keys().tolist()) == (99, 600, list(library.texts))
        assert [found(reader, question) for question in library.questions] == before

    def test_after_churn_a_rebuilt_index_finds_nearly_the_same(self, index: KeywordIndex) -> None:
        library = Library(600, 60)
        rebuild(index, [library.rows], 1)
        changed = list(library.texts)[::5]
        others = list(Library(600, 60, seed=8).texts.values())
        library.texts |= dict(zip(changed[::2], others, strict=False))
        write(
            index, rows({key: library.texts[key] for key in changed[::2]}, library.documents), keys(*changed[1::2]), 2
        )
        for key in changed[1::2]:
            del library.texts[key]
        reader = index.pin()
        before = [set(found(reader, question)) for question in library.questions]
        rebuild(index, [library.rows], 3)
        reader = index.pin()
        shared = sum(len(old & set(found(reader, q))) for old, q in zip(before, library.questions, strict=True))
        assert shared >= 0.95 * sum(map(len, before))

    def test_a_rebuild_leaves_no_old_row(self, index: KeywordIndex) -> None:
        rebuild(index, [rows({1: "chair", 2: "desk"})], 1)
        rebuild(index, [rows({3: "lamp"})], 2)
        reader = index.pin()
        assert (reader.keys().tolist(), found(reader, "chair desk lamp")) == ([3], [3])

    def test_a_failed_rebuild_leaves_the_old_one(self, index: KeywordIndex) -> None:
        rebuild(index, [rows({1: "chair", 2: "desk"})], 7)

        def broken() -> Iterator[KeywordRows]:
            yield rows({3: "lamp"})
            raise OSError("the catalog went away")

        with index.writing(blocking=True), pytest.raises(OSError, match="catalog"):
            index.rebuild(broken(), 8)
        reader = index.pin()
        assert (reader.watermark, reader.keys().tolist(), found(reader, "desk lamp")) == (7, [1, 2], [2])

    def test_a_pinned_reader_keeps_its_moment(self, index: KeywordIndex) -> None:
        rebuild(index, [rows({1: "chair", 2: "desk"})], 1)
        reader = index.pin()
        write(index, rows({1: "stool", 3: "desk"}), keys(2), 2)
        erase(index)
        rebuild(index, [rows({4: "desk"})], 3)
        assert (reader.watermark, reader.rows) == (1, 2)
        if self.isolated:
            assert reader.keys().tolist() == [1, 2]
            assert (found(reader, "desk"), found(reader, "chair"), found(reader, "stool")) == ([2], [1], [])
            assert reader.holding(["desk", "stool"]) == {"desk": 1, "stool": 0}
        else:
            assert (found(reader, "desk"), found(reader, "chair")) == ([4], [])
        reader.release()
        assert found(index.pin(), "desk") == [4]

    # -- removing for good

    def test_erasing_leaves_no_trace(self, index: KeywordIndex, folder: Path | None) -> None:
        library = Library(300, 30)
        rebuild(index, [library.rows], 1)
        write(index, rows({900_001: f"{CANARY}a w1", 900_002: f"{CANARY}b w1"}), NONE, 2)
        reader = index.pin()
        assert self.dictionary(reader, CANARY) == [f"{CANARY}a", f"{CANARY}b"]
        reader.release()
        write(index, rows({900_002: "w1 w2"}), keys(900_001), 3)
        assert erase(index)
        assert erase(index)  # and again, with nothing to do
        reader = index.pin()
        assert self.dictionary(reader, CANARY) == []
        assert reader.keys().tolist() == [*library.texts, 900_002]
        assert found(reader, f"{CANARY}a") == found(reader, f"{CANARY}b") == []
        assert np.isnan(reader.score(asking("w1"), keys(900_001))).all()
        reader.release()
        index.close()
        assert folder is None or _files_with(CANARY, folder) == []

    def test_the_search_for_traces_is_not_blind(self, index: KeywordIndex, folder: Path | None) -> None:
        rebuild(index, [rows({1: "chair", 2: CANARY})], 1)
        assert self.dictionary(index.pin(), CANARY[:5]) == [CANARY]
        index.close()
        assert folder is None or _files_with(CANARY, folder)

    def test_a_dropped_index_is_gone(self, index: KeywordIndex, folder: Path | None) -> None:
        rebuild(index, [rows({1: CANARY})], 1)
        with index.writing(blocking=True):
            index.drop()
        with pytest.raises(IndexLost):
            index.pin()
        assert folder is None or _files_with(CANARY, folder) == []
        rebuild(index, [rows({2: "chair"})], 2)
        assert index.pin().keys().tolist() == [2]

    # -- who may use it

    def test_closing_and_opening_keeps_all(self, index: KeywordIndex, open_index: OpenIndex) -> None:
        library = Library(300, 30)
        rebuild(index, [library.rows], 41)
        write(index, NO_ROWS, keys(*list(library.texts)[:5]), 42)
        before = [found(index.pin(), question) for question in library.questions]
        index.close()
        again = open_index(FINGERPRINT)
        try:
            reader = again.pin()
            assert (reader.watermark, reader.keys().tolist()) == (42, list(library.texts)[5:])
            assert [found(reader, question) for question in library.questions] == before
            reader.release()
            assert again.verify() == []
        finally:
            again.close()

    def test_another_fingerprint_has_no_index(self, index: KeywordIndex, open_index: OpenIndex) -> None:
        rebuild(index, [rows({1: "chair"})], 1)
        index.close()
        other = open_index("words-b")
        try:
            with pytest.raises(IndexLost):
                other.pin()
            rebuild(other, [rows({2: "desk"})], 2)
            assert other.pin().keys().tolist() == [2]
        finally:
            other.close()

    def test_one_writer_at_a_time(self, index: KeywordIndex) -> None:
        rebuild(index, [], 0)

        def try_to_write() -> bool:
            with index.writing(blocking=False) as ours:
                return ours

        with ThreadPoolExecutor(1) as pool:
            with index.writing(blocking=False) as ours:
                assert ours
                assert not pool.submit(try_to_write).result()
            assert pool.submit(try_to_write).result()

    def test_one_process_writes_and_another_reads(self, index: KeywordIndex, open_index: OpenIndex) -> None:
        rebuild(index, [], 0)
        if not self.isolated:
            index.close()
            with _Other(_write_one_by_one, open_index):
                pass
            assert _consistent(index) == BATCHES
            return
        with _Other(_write_one_by_one, open_index) as other:
            seen = set()
            while (watermark := _consistent(index)) < BATCHES:
                seen.add(watermark)
                if watermark:
                    with index.writing(blocking=False) as ours:
                        assert not ours or _consistent(index) == BATCHES
                assert other.is_alive or _consistent(index) == BATCHES
            assert len(seen) > 1
        write(index, NO_ROWS, keys(1), BATCHES + 1)
        assert index.pin().rows == BATCHES - 1

    def test_what_another_process_reads_is_erased_when_it_is_done(
        self, index: KeywordIndex, open_index: OpenIndex
    ) -> None:
        rebuild(index, [rows({1: "chair", 2: CANARY})], 1)
        if not self.isolated:  # it holds nothing back
            reader = index.pin()
            write(index, NO_ROWS, keys(2), 2)
            assert erase(index)
            assert self.dictionary(reader, CANARY) == []
            return
        with _Other(_hold_a_reader, open_index) as other:
            other.wait()
            write(index, NO_ROWS, keys(2), 2)
            assert not erase(index)
            assert found(index.pin(), CANARY) == []
        assert erase(index)
        assert self.dictionary(index.pin(), CANARY) == []


def _files_with(term: str, folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and term.encode() in path.read_bytes()]


# -- a second process

BATCHES = 12


def _write_one_by_one(open_index: OpenIndex, ready: Event, go_on: Event) -> None:
    """Put one row with each step of the watermark, and keep the right to write until all are in."""
    index = open_index(FINGERPRINT)
    with index.writing(blocking=True):
        for number in range(1, BATCHES + 1):
            index.apply(rows({number: f"chair number{number}"}), NONE, number)
    index.close()


def _consistent(index: KeywordIndex) -> int:
    """The watermark; the rows must be exactly those of it."""
    reader = index.pin()
    watermark = reader.watermark
    assert reader.rows == watermark
    assert sorted(found(reader, "chair", 100)) == reader.keys().tolist() == list(range(1, watermark + 1))
    assert reader.holding(["chair"]) == {"chair": watermark}
    reader.release()
    return watermark


def _hold_a_reader(open_index: OpenIndex, ready: Event, go_on: Event) -> None:
    index = open_index(FINGERPRINT)
    reader = index.pin()
    ready.set()
    assert go_on.wait(LONGEST_WAIT)
    assert found(reader, CANARY) == [2]
    reader.release()
    index.close()


class _Other:
    """A function that runs in a process of its own until the end of the block, and must end well."""

    def __init__(self, function: Callable[[OpenIndex, Event, Event], None], open_index: OpenIndex) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._ready, self._go_on = spawn.Event(), spawn.Event()
        self._process = spawn.Process(target=function, args=(open_index, self._ready, self._go_on))

    @property
    def is_alive(self) -> bool:
        return self._process.is_alive()

    def wait(self) -> None:
        """Until it is ready."""
        assert self._ready.wait(LONGEST_WAIT)

    def __enter__(self) -> _Other:
        self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._go_on.set()
        self._process.join(LONGEST_WAIT)
        assert self._process.exitcode == 0
        self._process.close()
