"""Words in segments: BM25 over all of them as if they were one, and any string is a term."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import tempfile
import threading
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ragforge.adapters.keywords import tantivy
from ragforge.adapters.keywords.tantivy import TantivyIndex, TantivyReader
from ragforge.adapters.segments.files import checksum
from ragforge.adapters.segments.manifest import Manifest
from ragforge.domain.retrieval import Allowed, Keys, KeywordRows, QueryWords
from ragforge.errors import DiskFull, IndexLost, StoreError
from ragforge.ports import KeywordIndex
from ragforge.testing.bm25 import Bm25

NONE = np.empty(0, dtype=np.int64)
ALL = Allowed()
WORDS = [f"w{number}" for number in range(200)]


class SmallSegments(TantivyIndex):
    """Cut early, so that few rows fill many segments."""

    cap = 50


def keys(*numbers: int) -> Keys:
    return np.array(numbers, dtype=np.int64)


def rows(texts: Mapping[int, tuple[str, ...]], documents: dict[int, int] | None = None) -> KeywordRows:
    owners = [(documents or {}).get(key, key) for key in texts]
    return KeywordRows(keys(*texts), keys(*owners), tuple(texts.values()))


def words(*terms: str) -> QueryWords:
    return QueryWords(tuple((term,) for term in terms))


def rebuilt(folder: Path, *batches: KeywordRows) -> TantivyIndex:
    index = TantivyIndex(folder, "f")
    with index.writing(blocking=True):
        index.rebuild(batches, 1)
    return index


def found(reader: TantivyReader, query: QueryWords, k: int = 10, allowed: Allowed = ALL) -> list[int]:
    return [int(key) for key in reader.search(query, k, allowed).keys]


def random_text(random: np.random.Generator) -> tuple[str, ...]:
    share = 1 / np.arange(2, 202)
    chosen = random.choice(WORDS, int(random.integers(0, 90)), p=share / share.sum())
    return tuple(map(str, chosen))


def test_it_is_a_keyword_index(tmp_path: Path) -> None:
    index: KeywordIndex = TantivyIndex(tmp_path, "f")
    assert (index.engine, index.fingerprint) == ("tantivy", "f")
    index.close()


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1 << 30))
def test_any_history_gives_what_plain_bm25_finds(swift_path: Path, seed: int) -> None:
    """Once removed rows are erased; before, they are never found, and only the statistics still know them."""
    random = np.random.default_rng(seed)
    texts = {key: random_text(random) for key in range(1, 180)}
    owners = {key: 1 + key % 17 for key in range(5_000)}
    index = SmallSegments(Path(tempfile.mkdtemp(dir=swift_path)), "f")
    with index.writing(blocking=True):
        index.rebuild([rows(texts, owners)], 1)
        for step in range(2, 9):
            known = np.array(sorted(texts))
            removed = random.choice(known, random.integers(0, len(known) // 4 + 1), replace=False)
            put = {int(key): random_text(random) for key in random.choice(known, random.integers(0, 9), replace=False)}
            put |= {int(key): random_text(random) for key in range(500 * step, 500 * step + random.integers(0, 70))}
            for key in removed.tolist():
                texts.pop(key, None)
            texts |= put
            index.apply(rows(put, owners), removed, step)
            reader = index.pin()
            assert reader.keys().tolist() == sorted(texts)
            assert set(found(reader, words("w0", "w1"), 5_000)) == {k for k, t in texts.items() if {"w0", "w1"} & {*t}}
            reader.release()
        assert index.erase()
    reader, oracle = index.pin(), Bm25(texts, rounded=True)
    for _ in range(12):
        query = words(*map(str, random.choice(WORDS[:60], int(random.integers(1, 5)), replace=False)))
        documents = random.choice(np.arange(1, 18), int(random.integers(1, 17)), replace=False)
        hidden = np.sort(random.choice(np.array(sorted(texts)), 20, replace=False))
        for allowed in (ALL, Allowed(documents), Allowed(documents, deny=True), Allowed(hidden=hidden)):
            result = reader.search(query, 20, allowed)
            expected = [
                key
                for key in oracle.search(query, 5_000)
                if (allowed.documents is None or (owners[key] in documents) != allowed.deny)
                and (allowed.hidden is None or key not in hidden)
            ]
            assert set(result.keys.tolist()) <= set(expected)
            scores = [(oracle.is_complete(query, key), oracle.score(query, key)) for key in result.keys.tolist()]
            best = [(oracle.is_complete(query, key), oracle.score(query, key)) for key in expected[:20]]
            np.testing.assert_allclose(scores, best, rtol=1e-5)  # rows as near as that may have changed places
            np.testing.assert_allclose(result.scores, [score for _, score in best], rtol=1e-5)
    assert index.verify() == []
    index.close()


def test_filters_of_any_kind_find_the_same(swift_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether hits are filtered here or by tantivy, document by document or as a set."""
    random = np.random.default_rng(5)
    texts = {key: random_text(random) for key in range(1, 3_000)}
    owners = {key: key // 3 for key in texts}
    index = rebuilt(swift_path / "i", rows(texts, owners))
    with index.writing(blocking=True):
        index.apply(rows({}), keys(*range(5, 3_000, 9)), 2)
    reader, query = index.pin(), words("w1", "w40", "w90")
    thin, thick = np.arange(0, 1_000, 90), np.arange(0, 1_000, 3)
    cases = [Allowed(thin), Allowed(thick), Allowed(np.setdiff1d(np.arange(1_000), thin), deny=True)]
    cases.append(Allowed(thick, deny=True, hidden=keys(*range(1, 400))))
    here = [found(reader, query, 25, allowed) for allowed in cases]
    assert all(len(some) == 25 for some in here)
    for few in (0, 10_000):
        monkeypatch.setattr(tantivy, "_UNFILTERED", 0)
        monkeypatch.setattr(tantivy, "_FEW_DOCUMENTS", few)
        assert [found(reader, query, 5, allowed) for allowed in cases] == [some[:5] for some in here]


def test_rows_that_stand_behind_many_hidden_ones_are_found(swift_path: Path) -> None:
    """Thousands of better ones are removed, hidden or not allowed."""
    texts: dict[int, tuple[str, ...]] = dict.fromkeys(range(1, 3_001), ("apple",))
    texts[3_001] = ("apple", "pear", "plum", "fig")
    index = rebuilt(swift_path / "i", rows(texts, dict.fromkeys(range(1, 3_001), 7)))
    reader = index.pin()
    assert found(reader, words("apple"), 3, Allowed(hidden=keys(*range(1, 3_001)))) == [3_001]
    assert found(reader, words("apple"), 3, Allowed(keys(7), deny=True)) == [3_001]
    with index.writing(blocking=True):
        index.apply(rows({}), keys(*range(1, 700)), 2)
    assert found(index.pin(), words("apple"), 2, Allowed(hidden=keys(*range(700, 2_999)))) == [2_999, 3_000]


def test_equal_rows_come_by_key_from_segments_that_overlap(swift_path: Path) -> None:
    texts = dict.fromkeys(range(0, 400, 2), ("apple",))
    index = rebuilt(swift_path / "i", rows(texts))
    with index.writing(blocking=True):
        index.apply(rows(dict.fromkeys(range(1, 400, 2), ("apple",))), NONE, 2)
    reader = index.pin()
    for k in (1, 7, 100, 399):
        assert found(reader, words("apple"), k) == list(range(k))
    assert found(reader, words("apple"), 5, Allowed(hidden=keys(*range(90)))) == list(range(90, 95))


def test_very_many_documents_and_hits(swift_path: Path) -> None:
    texts = {key: ("apple", f"n{key}") for key in range(20_000)}
    index = rebuilt(swift_path / "i", rows(texts))
    reader = index.pin()
    assert len(reader.search(words("apple"), 10_000, ALL)) == 10_000
    assert found(reader, words("apple"), 10**9)[-1] == 19_999
    many = np.arange(100_000, dtype=np.int64) * 2
    assert found(reader, words("apple"), 3, Allowed(many)) == [0, 2, 4]
    assert found(reader, words("apple"), 3, Allowed(many, deny=True)) == [1, 3, 5]
    assert found(reader, words("n7"), 3, Allowed(many)) == []
    assert found(reader, words("n7"), 3, Allowed(many, deny=True)) == [7]
    scores = reader.score(words("n3", "n9999"), np.arange(20_001))
    assert np.flatnonzero(scores[:-1]).tolist() == [3, 9_999]
    assert np.isnan(scores[-1])


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(st.text(max_size=8), max_size=6), min_size=1, max_size=5))
@example([["", " ", "\t", "a b", "a\nb", "\ud800"], ["\x00", "\x0b", "\u2003", "\u0085"], [" x", "x "]])
@example([["long" * 20_000, "ok"], ["ok"]])
def test_any_string_is_a_term(swift_path: Path, texts: list[list[str]]) -> None:
    """It is put, found by itself, kept by a merge, and scored alike before and after."""
    index = rebuilt(swift_path / "i", rows({key: tuple(text) for key, text in enumerate(texts)}))
    before = index.pin()
    with index.writing(blocking=True):
        index.apply(rows({100: ("filler",)}), NONE, 2)
        index.apply(rows({}), keys(100), 3)
        assert index.erase()
    reader = index.pin()
    assert reader.rows == before.rows == len(texts)
    for key, text in enumerate(texts):
        for term in text:
            held = 0 < len(term.encode(errors="replace")) <= 65_530
            assert (key in found(reader, words(term), 10)) == held
            assert (reader.holding([term])[term] > 0) == held
        everything = words(*text)
        known = reader.score(everything, keys(*range(len(texts))))
        if all(term.isalnum() and len(term) < 1_000 for some in texts for term in some):  # as our tokenizer makes them
            np.testing.assert_allclose(
                reader.score_new(everything, [Counter(some) for some in texts]), known, rtol=1e-4
            )
        np.testing.assert_allclose(before.score(everything, keys(*range(len(texts)))), known, rtol=1e-4)
    before.release()
    reader.release()
    assert index.verify() == []
    index.close()


def test_a_question_of_many_words(swift_path: Path) -> None:
    texts = {key: (f"n{key}", "apple") for key in range(50)}
    reader = rebuilt(swift_path / "i", rows(texts)).pin()
    many = words(*(f"n{number}" for number in range(3_000)))
    assert sorted(found(reader, many, 100)) == list(range(50))
    assert found(reader, words("n3", *["apple"] * 40), 2) == [3, 0]


def test_the_dictionary_tells_what_is_left(swift_path: Path) -> None:
    index = rebuilt(swift_path / "i", rows({1: ("canary1", "apple"), 2: ("canary2",), 3: ("apple",)}))
    assert index.pin().terms_starting("canary", 10) == ["canary1", "canary2"]
    assert index.pin().terms_starting("canary", 1) == ["canary1"]
    with index.writing(blocking=True):
        index.apply(rows({2: ("pear",)}), keys(1), 2)
        assert index.erase()
    assert index.pin().terms_starting("canary", 10) == []
    with index.writing(blocking=True):
        index.rebuild([], 3)
    assert index.pin().terms_starting("", 10) == []


def test_opening_leaves_no_folder_and_no_lock_behind(swift_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even that of a process that was killed over it."""
    memory = swift_path / "memory"
    old, young = memory / "ragforge-view-1", memory / "ragforge-view-2"
    old.mkdir(parents=True)
    young.mkdir()
    (old / "link").symlink_to("nowhere")
    os.utime(old, (0, 0))
    monkeypatch.setattr(tantivy, "_MEMORY", memory)
    index = rebuilt(swift_path / "i", rows({1: ("apple",)}), rows({2: ("pear",)}))
    assert found(index.pin(), words("pear")) == [2]
    assert list(memory.iterdir()) == [young]
    assert not [path for path in (swift_path / "i").rglob("*") if path.is_symlink() or path.name.startswith(".")]


class Watched(TantivyIndex):
    """Written while tantivy's own thread looks at the folder late, as it may when the machine is busy."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "f")
        self.seen: list[Path] = []
        self.looked = 0

    def _write(self, folder: Path, piece: Any) -> Any:
        self.seen.append(folder)
        facts = super()._write(folder, piece)
        (folder / ".tantivy-meta.lock").touch()
        return facts

    def look(self, done: threading.Event) -> None:
        """Of each index that it opens, tantivy reads the state once more in a thread, and makes a lock for that."""
        while not done.wait(1e-5):
            for folder in self.seen[-3:]:
                with suppress(OSError):
                    (folder / ".tantivy-meta.lock").touch()
                    self.looked += 1


def test_a_lock_that_tantivy_makes_late_is_in_nobodys_way(swift_path: Path) -> None:
    index, done = Watched(swift_path / "i"), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(index.look, done)
        try:
            with index.writing(blocking=True):
                index.rebuild([], 0)
                for step in range(1, 40):
                    index.apply(rows({step: ("apple", f"n{step}")}), keys(step - 3), step)
                    if step % 5 == 0:
                        assert index.erase()
        finally:
            done.set()
        looking.result()
    assert index.looked
    assert found(index.pin(), words("apple")) == [37, 38, 39]
    assert index.verify() == []
    assert not [path for path in (swift_path / "i").rglob("*") if path.name.startswith(".")]


def test_where_there_is_no_memory_folder_another_is_used(swift_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = rebuilt(swift_path / "i", rows({1: ("apple",)}))
    monkeypatch.setattr(tantivy, "_MEMORY", swift_path / "nowhere")
    monkeypatch.setattr(tempfile, "tempdir", str(swift_path))
    assert found(index.pin(), words("apple")) == [1]
    assert [path.name for path in swift_path.iterdir()] == ["i"]


def test_where_the_memory_is_full_a_disk_is_used(swift_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And where that is full too, the index is not taken for a damaged one."""
    index = rebuilt(swift_path / "i", rows({1: ("apple",)}))
    memory, disk, full = swift_path / "memory", swift_path / "disk", [swift_path / "memory"]
    for folder in (memory, disk):
        folder.mkdir()
    monkeypatch.setattr(tantivy, "_MEMORY", memory)
    monkeypatch.setattr(tempfile, "tempdir", str(disk))
    symlink = os.symlink

    def on_a_full_disk(source: str, target: Path) -> None:
        if any(target.is_relative_to(folder) for folder in full):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        symlink(source, target)

    monkeypatch.setattr(os, "symlink", on_a_full_disk)
    assert found(index.pin(), words("apple")) == [1]
    index.close()
    full.append(disk)
    with pytest.raises(StoreError, match="no place") as refused:
        index.pin()
    assert not isinstance(refused.value, IndexLost)
    assert [*memory.iterdir(), *disk.iterdir()] == []
    full.clear()
    assert found(index.pin(), words("apple")) == [1]


def test_only_other_segments_are_opened_anew(swift_path: Path) -> None:
    """Rows that die, or a watermark that moves, need no new searcher."""
    index = rebuilt(swift_path / "i", rows({1: ("apple",), 2: ("apple",), 3: ("apple",), 4: ("apple",), 5: ("pear",)}))
    before = index.pin()
    with index.writing(blocking=True):
        index.apply(rows({}), keys(1), 2)
    after = index.pin()
    assert after._state.view is before._state.view
    assert (found(before, words("apple")), found(after, words("apple"))) == ([1, 2, 3, 4], [2, 3, 4])
    with index.writing(blocking=True):
        index.apply(rows({6: ("apple",)}), NONE, 3)
    assert found(index.pin(), words("apple")) == [2, 3, 4, 6]


def test_a_full_disk_is_told_as_such(swift_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = rebuilt(swift_path / "i", rows({1: ("apple",)}))

    def no_space(*_: object) -> None:
        raise ValueError("An IO error occurred: 'No space left on device (os error 28)'")

    monkeypatch.setattr(tantivy, "_build", no_space)
    with index.writing(blocking=True), pytest.raises(DiskFull):
        index.apply(rows({2: ("pear",)}), NONE, 2)
    assert found(index.pin(), words("apple", "pear")) == [1]


@pytest.mark.parametrize("ending", [".idx", ".term", ".store", ".fieldnorm", ".fast", ".pos", "meta.json", "rows"])
@pytest.mark.parametrize("content", [b"", b"\x00" * 4_096, b"\xff" * 4_096, b"{}"], ids=["empty", "0", "255", "{}"])
def test_nonsense_under_a_right_checksum_is_a_lost_index(swift_path: Path, ending: str, content: bytes) -> None:
    """Whatever tantivy makes of it, its own panic too: the process lives and says so, or does not need that file."""
    texts = {key: ("apple", f"n{key}") for key in range(300)}
    index = rebuilt(swift_path / "i", rows(texts))
    index.close()
    (file,) = [path for path in (swift_path / "i").glob("*/*") if path.name.endswith(ending)]
    file.write_bytes(content)
    manifest = json.loads((swift_path / "i" / "manifest.json").read_bytes())
    for entry in manifest["manifest"]["segments"][0]["files"]:
        if entry[0] == file.name:
            entry[1:] = [len(content), checksum(file), file.stat().st_mtime_ns]
    manifest["sha256"] = tantivy_checksum(manifest["manifest"])
    (swift_path / "i" / "manifest.json").write_text(json.dumps(manifest))
    assert Manifest.load((swift_path / "i" / "manifest.json").read_bytes()).segments[0].rows == 300
    try:
        reader = index.pin()
        assert found(reader, words("apple", "n7"), 1) == [7]
        assert reader.score(words("apple"), keys(5))[0] > 0
        with index.writing(blocking=True):
            index.apply(rows({}), keys(*range(100, 300)), 2)
    except IndexLost:
        with index.writing(blocking=True):
            index.rebuild([rows(texts)], 3)
    assert found(index.pin(), words("apple", "n7"), 1) == [7]


def tantivy_checksum(body: object) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def test_one_thread_watches_however_many_segments(swift_path: Path) -> None:
    """tantivy starts a thread for each index it opens; we open one."""
    before = len(os.listdir("/proc/self/task"))
    index = SmallSegments(swift_path / "i", "f")
    with index.writing(blocking=True):
        index.rebuild([rows(dict.fromkeys(range(1_000), ("apple",)))], 1)
    reader = index.pin()
    assert reader.rows == 1_000
    assert len([path for path in (swift_path / "i").iterdir() if path.is_dir()]) == 20
    assert len(os.listdir("/proc/self/task")) <= before + 21  # those of the writers end within half a second
