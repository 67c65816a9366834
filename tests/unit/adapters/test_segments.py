"""Segments and their manifest: what is merged, what a manifest may claim, who may write, and who still reads."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragforge.adapters.segments import index as segments
from ragforge.adapters.segments.manifest import Manifest, Record, StoredFile
from ragforge.adapters.segments.rows import cut, last_of_each, pieces, places_of, to_merge
from ragforge.adapters.vectors.snapshot import SnapshotIndex
from ragforge.domain.retrieval import Keys, VectorRows
from ragforge.errors import DiskFull, IndexLost, StoreError

DIMENSION = 8
NONE = np.empty(0, dtype=np.int64)
EMPTY = np.empty((0, 1), dtype=np.float32)


def rows(*keys: int, document: int = 1) -> VectorRows:
    """Rows whose vectors follow from their keys."""
    wide = np.array(keys, dtype=np.int64)
    vectors = (
        np.stack([np.random.default_rng(key).normal(size=DIMENSION) for key in keys]) if keys else np.empty((0, 8))
    )
    return VectorRows(wide, np.full(len(keys), document, dtype=np.int64), vectors.astype(np.float32))


def rebuilt(folder: Path, *keys: int) -> SnapshotIndex:
    index = SnapshotIndex(folder, "f")
    with index.writing(blocking=True):
        index.rebuild([rows(*keys)], 1)
    return index


def apply(index: SnapshotIndex, put: VectorRows, removed: Keys, watermark: int) -> None:
    with index.writing(blocking=True):
        index.apply(put, removed, watermark)


def pending(index: SnapshotIndex) -> bool:
    with index.writing(blocking=True):
        return index.pending()


def keys_of(index: SnapshotIndex) -> list[int]:
    reader = index.pin()
    try:
        return list(map(int, reader.keys()))
    finally:
        reader.release()


def inside(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def segment_folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir())


# -- what is merged


def test_few_segments_stay() -> None:
    assert to_merge([], 65_536) == []
    assert to_merge([10, 500, 3_000, 4_000, 60_000], 65_536) == []
    assert to_merge([1, 2, 3, 4], 65_536) == []


def test_a_full_tier_becomes_one() -> None:
    assert to_merge([60_000, 1, 2, 3, 4, 5], 65_536) == [1, 2, 3, 4, 5]
    assert to_merge([5_000, 6_000, 7_000, 8_000, 9_000, 3], 65_536) == [0, 1, 2, 3, 4]


def test_a_merged_tier_may_fill_the_next() -> None:
    assert to_merge([1_000, 1_000, 1_000, 1_000, 500, 500, 500, 500, 500], 65_536) == list(range(9))


@given(st.lists(st.integers(0, 70_000), max_size=40), st.sampled_from([16_384, 65_536]))
def test_merging_ends(sizes: list[int], cap: int) -> None:
    """What is merged leaves few segments of each tier, and large ones are never touched."""
    chosen = to_merge(sizes, cap)
    assert all(sizes[place] <= cap // 2 for place in chosen)
    left = [size for place, size in enumerate(sizes) if place not in chosen]
    for low, high in ((-1, 512), (512, 4_096), (4_096, cap // 2)):
        assert sum(low < size <= high for size in left) <= 4


@given(st.lists(st.integers(0, 30), max_size=12), st.integers(1, 17))
def test_batches_are_cut_to_groups(sizes: list[int], cap: int) -> None:
    keys = np.arange(sum(sizes), dtype=np.int64)
    starts = np.cumsum([0, *sizes])
    batches = [VectorRows(keys[a:b], keys[a:b], EMPTY) for a, b in pairwise(starts)]

    def part(batch: VectorRows, start: int, end: int) -> VectorRows:
        return VectorRows(batch.keys[start:end], batch.documents[start:end], EMPTY)

    groups = [np.concatenate([batch.keys for batch in group]) for group in cut(batches, cap, part)]
    assert np.concatenate([*groups, NONE]).tolist() == keys.tolist()
    assert [len(group) for group in groups[:-1]] == [cap] * (len(groups) - 1)
    assert all(0 < len(group) <= cap for group in groups)


@given(st.lists(st.tuples(st.lists(st.integers(0, 40), unique=True, max_size=20), st.booleans()), max_size=5))
def test_pieces_hold_each_living_row_once(batches: list[tuple[list[int], bool]]) -> None:
    """Sorted by key; of rows with the same key the last source's."""
    sources = [
        VectorRows(np.sort(np.array(keys, np.int64)), np.array(sorted(keys), np.int64), EMPTY) for keys, _ in batches
    ]
    living = [source.keys % 3 > 0 if masked else None for source, (_, masked) in zip(sources, batches, strict=True)]
    expected = {
        int(key): (number, place)
        for number, (source, mask) in enumerate(zip(sources, living, strict=True))
        for place, key in enumerate(source.keys)
        if mask is None or mask[place]
    }
    found = [
        (int(key), (int(source), int(row)))
        for piece in (pieces(sources, living, 7) if sources else ())
        for key, source, row in zip(piece.keys, piece.source, piece.row, strict=True)
    ]
    assert found == sorted(expected.items())


@given(st.lists(st.integers(-5, 5)))
def test_the_last_of_each_key(keys: list[int]) -> None:
    expected = {key: place for place, key in enumerate(keys)}
    assert last_of_each(np.array(keys, dtype=np.int64)).tolist() == [expected[key] for key in sorted(expected)]


@given(st.sets(st.integers(0, 50)), st.lists(st.integers(-3, 53)))
def test_places_of_keys(held: set[int], wanted: list[int]) -> None:
    keys = np.array(sorted(held), dtype=np.int64)
    places, there = places_of(keys, np.array(wanted, dtype=np.int64))
    assert there.tolist() == [key in held for key in wanted]
    assert [int(keys[place]) for place, known in zip(places, there, strict=True) if known] == [
        k for k in wanted if k in held
    ]


# -- the manifest

FILE = StoredFile("rows", 12, "0" * 64, 1_700_000_000_000_000_000)
MANIFEST = Manifest(
    "f",
    7,
    3,
    (
        Record("0123456789abcdef", 9, (FILE,), {"dimension": 8}, np.arange(9) % 2 == 1),
        Record("fedcba9876543210", 1, (FILE, replace(FILE, name="x.term")), {}),
    ),
)


def test_a_manifest_is_read_as_written() -> None:
    again = Manifest.load(MANIFEST.dump())
    assert (again.fingerprint, again.watermark, again.epoch) == ("f", 7, 3)
    first, second = again.segments
    assert (first.name, first.rows, first.files, first.facts) == ("0123456789abcdef", 9, (FILE,), {"dimension": 8})
    assert first.dead is not None and first.dead.tolist() == (np.arange(9) % 2 == 1).tolist()
    assert (first.count, second.count, second.dead) == (5, 1, None)


def signed(change: Callable[[dict[str, Any]], object]) -> bytes:
    """A manifest that lies, with a checksum that is right."""
    body = json.loads(MANIFEST.dump())["manifest"]
    change(body)
    checksum = hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    return json.dumps({"manifest": body, "sha256": checksum}).encode()


LIES: dict[str, Callable[[dict[str, Any]], object]] = {
    "another format": lambda body: body.update(format=2),
    "no format": lambda body: body.pop("format"),
    "a fingerprint that is no text": lambda body: body.update(fingerprint=["f"]),
    "a watermark that is no number": lambda body: body.update(watermark="7"),
    "a watermark that is a fraction": lambda body: body.update(watermark=7.5),
    "a negative epoch": lambda body: body.update(epoch=-1),
    "an epoch that is a bool": lambda body: body.update(epoch=True),
    "no segments": lambda body: body.pop("segments"),
    "segments that are no list": lambda body: body.update(segments={}),
    "a segment that is no object": lambda body: body.update(segments=[7]),
    "10^12 rows": lambda body: body["segments"][0].update(rows=10**12),
    "negative rows": lambda body: body["segments"][0].update(rows=-5),
    "more dead rows than rows": lambda body: body["segments"][0].update(dead=base64.b64encode(b"1" * 99).decode()),
    "dead rows that are no code": lambda body: body["segments"][0].update(dead="###"),
    "a path for a name": lambda body: body["segments"][0].update(name="../../../etc"),
    "an absolute path": lambda body: body["segments"][0].update(name="/etc/passwd"),
    "the same segment twice": lambda body: body["segments"].append(body["segments"][0]),
    "a path for a file": lambda body: body["segments"][0]["files"][0].__setitem__(0, "../lock"),
    "a hidden file": lambda body: body["segments"][0]["files"][0].__setitem__(0, ".managed.json"),
    "a negative size": lambda body: body["segments"][0]["files"][0].__setitem__(1, -1),
    "a checksum that is none": lambda body: body["segments"][0]["files"][0].__setitem__(2, "abc"),
    "a file without a time": lambda body: body["segments"][0]["files"][0].pop(),
    "facts that are no numbers": lambda body: body["segments"][0].update(facts={"dimension": "384"}),
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
def test_a_manifest_that_lies_is_refused(lie: Callable[[dict[str, Any]], object]) -> None:
    with pytest.raises(ValueError):
        Manifest.load(signed(lie))
    assert Manifest.load(signed(lambda body: None)).epoch == 3


@given(st.data())
def test_a_manifest_with_another_byte_is_refused_or_the_same(data: st.DataObject) -> None:
    whole = bytearray(MANIFEST.dump())
    place = data.draw(st.integers(0, len(whole) - 1))
    whole[place] = data.draw(st.integers(0, 255))
    try:
        again = Manifest.load(bytes(whole))
    except ValueError:  # a wrong encoding is one, too
        return
    assert again.dump() == MANIFEST.dump()


@pytest.mark.parametrize("content", [b"", b"null", b"[]", b"{}", b"\xff\xfe", b"[" * 100_000, b'{"manifest": 1e999}'])
def test_an_index_with_a_strange_manifest_is_lost(tmp_path: Path, content: bytes) -> None:
    index = rebuilt(tmp_path / "i", 1, 2)
    (tmp_path / "i" / "manifest.json").write_bytes(content)
    with pytest.raises(IndexLost, match="manifest"):
        index.pin()
    assert index.verify()
    with index.writing(blocking=True):
        index.rebuild([rows(1, 2)], 2)
    assert keys_of(index) == [1, 2]


# -- files that change under a reader


def test_what_is_missing_is_told(tmp_path: Path) -> None:
    index = SnapshotIndex(tmp_path / "i", "f")
    with pytest.raises(IndexLost, match="no manifest"):
        index.pin()
    with index.writing(blocking=True), pytest.raises(IndexLost):
        index.apply(rows(1), NONE, 1)  # a part of the rows must not look like all of them
    index = rebuilt(tmp_path / "i", 1)
    shutil.rmtree(segment_folders(tmp_path / "i")[0])
    with pytest.raises(IndexLost, match="missing"):
        index.pin()
    with pytest.raises(IndexLost, match="other settings"):
        SnapshotIndex(tmp_path / "i", "g").pin()
    shutil.rmtree(tmp_path / "i")
    with pytest.raises(IndexLost, match="no manifest"):
        index.pin()


@pytest.mark.parametrize("hashed", [64 << 20, 0], ids=["small", "large"])
def test_a_file_that_was_touched_or_copied_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hashed: int
) -> None:
    monkeypatch.setattr(segments, "_HASHED_ON_OPEN", hashed)
    index = rebuilt(tmp_path / "i", 1, 2, 3)
    file = segment_folders(tmp_path / "i")[0] / "rows"
    assert keys_of(index) == [1, 2, 3]
    os.utime(file)
    assert keys_of(index) == [1, 2, 3]
    shutil.copy(file, tmp_path / "copy")
    os.replace(tmp_path / "copy", file)
    assert keys_of(index) == [1, 2, 3]
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(IndexLost, match="damaged"):
        index.pin()
    with file.open("ab") as longer:
        longer.write(b"x")
    with pytest.raises(IndexLost, match="bytes in place of"):
        index.pin()


def test_silent_damage_of_a_large_index_is_found_and_never_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flipped bit without a trace in size and time: `verify` sees it, and a merge does not give it a new checksum."""
    monkeypatch.setattr(segments, "_HASHED_ON_OPEN", 0)
    index = rebuilt(tmp_path / "i", 1, 2, 3)
    file = segment_folders(tmp_path / "i")[0] / "rows"
    index.close()
    before = file.stat()
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    os.utime(file, ns=(before.st_mtime_ns, before.st_mtime_ns))
    assert keys_of(index) == [1, 2, 3]
    assert index.verify() == [f"rows of segment {file.parent.name} is damaged"]
    with index.writing(blocking=True), pytest.raises(IndexLost, match="damaged"):
        index.apply(rows(), np.array([1, 2]), 2)
    with pytest.raises(IndexLost):  # so that it is built anew
        index.pin()


# -- writing


def test_one_writer_among_threads_and_instances(tmp_path: Path) -> None:
    first, second = SnapshotIndex(tmp_path / "i", "f"), SnapshotIndex(tmp_path / "i", "f")
    inside, most = 0, 0

    def write(index: SnapshotIndex) -> None:
        nonlocal inside, most
        with index.writing(blocking=True) as mine:
            assert mine
            inside += 1
            most = max(most, inside)
            threading.Event().wait(0.002)
            inside -= 1

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, [first, second] * 10))
    assert most == 1
    with first.writing(blocking=True), second.writing(blocking=False) as mine:
        assert not mine


def test_writing_needs_the_right_to_write(tmp_path: Path) -> None:
    index = rebuilt(tmp_path / "i", 1)
    for write in (lambda: index.apply(rows(2), NONE, 2), lambda: index.rebuild([], 2), index.erase, index.pending):
        with pytest.raises(AssertionError, match="right to write"):
            write()
    with index.writing(blocking=True), ThreadPoolExecutor(1) as pool, pytest.raises(AssertionError):
        pool.submit(index.erase).result()  # another thread has it


def test_who_waited_for_a_dropped_index_writes_a_new_one(tmp_path: Path) -> None:
    index, other = rebuilt(tmp_path / "i", 1), SnapshotIndex(tmp_path / "i", "f")
    with ThreadPoolExecutor(1) as pool:
        with index.writing(blocking=True):
            waiting = pool.submit(lambda: rebuilt(tmp_path / "i", 5))
            threading.Event().wait(0.05)
            index.drop()
            assert not (tmp_path / "i").exists()
        waiting.result()
    assert keys_of(other) == keys_of(index) == [5]
    index.drop()
    index.drop()
    assert not (tmp_path / "i").exists()


def test_an_index_is_dropped_while_others_ask_to_write(tmp_path: Path) -> None:
    """Each of them makes folder and lock if there are none, at any moment."""
    index, other, done = SnapshotIndex(tmp_path / "i", "f"), SnapshotIndex(tmp_path / "i", "f"), threading.Event()

    def ask() -> int:
        asked = 0
        while not done.is_set():
            with other.writing(blocking=False):
                asked += 1
        return asked

    with ThreadPoolExecutor(2) as pool:
        asking = [pool.submit(ask) for _ in range(2)]
        try:
            for _ in range(200):
                index.drop()
        finally:
            done.set()
        assert all(some.result() for some in asking)
    index.drop()
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("file", "link", "file/below", "link/below"):
        with pytest.raises(StoreError), SnapshotIndex(tmp_path / name, "f").writing(blocking=True):
            raise AssertionError("it cannot be written")


def test_nothing_to_write_writes_little(tmp_path: Path) -> None:
    index = rebuilt(tmp_path / "i", 1, 2)
    before = segment_folders(tmp_path / "i")
    stamp = (tmp_path / "i" / "manifest.json").stat()
    apply(index, rows(), np.array([77]), 1)
    assert (tmp_path / "i" / "manifest.json").stat() == stamp
    apply(index, rows(), NONE, 9)
    assert index.pin().watermark == 9
    assert segment_folders(tmp_path / "i") == before


def test_small_segments_are_merged_and_dead_ones_leave(tmp_path: Path) -> None:
    index = rebuilt(tmp_path / "i", 1)
    for key in range(2, 40):
        apply(index, rows(key), NONE, key)
    assert len(segment_folders(tmp_path / "i")) <= 4
    assert keys_of(index) == list(range(1, 40))
    apply(index, rows(), np.arange(1, 40), 40)
    assert segment_folders(tmp_path / "i") == []
    assert keys_of(index) == []
    index.close()
    apply(index, rows(50), NONE, 41)
    assert len([name for name in inside(tmp_path / "i") if name.startswith("epoch-")]) == 1


@pytest.mark.parametrize("point", ["index.segment", "index.swap", "index.swapped"])
@pytest.mark.parametrize("what", ["raise", "enospc"])
def test_a_failed_write_leaves_one_whole_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str, what: str
) -> None:
    index = rebuilt(tmp_path / "i", 1, 2)
    before = segment_folders(tmp_path / "i")
    monkeypatch.setenv("RAGFORGE_TESTING", "1")
    monkeypatch.setattr("ragforge.failpoints._passed", {})
    monkeypatch.setenv("RAGFORGE_FAILPOINT", f"{point}:{what}")
    with pytest.raises(DiskFull if what == "enospc" else StoreError):
        apply(index, rows(3), np.array([1]), 2)
    monkeypatch.delenv("RAGFORGE_FAILPOINT")
    if point == "index.swapped":
        assert keys_of(index) == [2, 3]
    else:
        assert keys_of(index) == [1, 2]
        assert segment_folders(tmp_path / "i") == before
    apply(index, rows(3), np.array([1]), 2)
    assert keys_of(index) == [2, 3]
    assert not [name for name in inside(tmp_path / "i") if name.startswith("manifest-")]
    assert index.verify() == []


def test_what_a_killed_writer_left_is_removed_but_nothing_else(tmp_path: Path) -> None:
    index = rebuilt(tmp_path / "i", 1)
    (tmp_path / "i" / "00112233445566aa").mkdir()
    (tmp_path / "i" / "00112233445566aa" / "rows").write_bytes(b"torn")
    (tmp_path / "i" / "manifest-00112233445566aa").write_bytes(b"torn")
    (tmp_path / "i" / "notes.txt").write_text("not ours")
    apply(index, rows(2), NONE, 2)
    left = [name for name in inside(tmp_path / "i") if "00112233445566" in name or name == "notes.txt"]
    assert left == ["notes.txt"]


# -- who still reads


@contextmanager
def other_process(folder: Path) -> Iterator[Callable[[bytes], bytes]]:
    """A process that pins when told `p`, pins and releases on `r`, and answers with what it sees."""
    ours, theirs = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        os.close(ours[1])
        os.close(theirs[0])
        index = SnapshotIndex(folder, "f")
        pinned = []
        try:
            while order := os.read(ours[0], 1):
                pinned.append(index.pin())
                if order == b"r":
                    while pinned:
                        pinned.pop().release()
                    os.write(theirs[1], b"%d" % len(keys_of(index)))
                else:
                    os.write(theirs[1], b"%d" % pinned[-1].rows)
        finally:
            os._exit(0)
    os.close(ours[0])
    os.close(theirs[1])

    def ask(order: bytes) -> bytes:
        os.write(ours[1], order)
        return os.read(theirs[0], 10)

    try:
        yield ask
    finally:
        os.close(ours[1])
        os.close(theirs[0])
        os.waitpid(child, 0)


def test_erasing_waits_for_readers_of_other_processes(tmp_path: Path) -> None:
    folder = tmp_path / "i"
    index = rebuilt(folder, 1, 2, 3)
    index.close()
    with other_process(folder) as ask:
        assert ask(b"p") == b"3"
        apply(index, rows(), np.array([2]), 2)
        with index.writing(blocking=True):
            assert not index.erase()
            assert not index.erase()
        assert pending(index)
        assert ask(b"r") == b"2"  # it sees the new state and has let the old one go
        assert not pending(index)
        with index.writing(blocking=True):
            assert index.erase()
        assert ask(b"p") == b"2"
        apply(index, rows(4), np.array([3]), 3)
        with index.writing(blocking=True):
            assert not index.erase()
    assert not pending(index)  # it is gone, and so is its hold
    with index.writing(blocking=True):
        assert index.erase()
    assert keys_of(index) == [1, 4]


def test_a_processs_own_readers_are_no_others(tmp_path: Path) -> None:
    index = rebuilt(tmp_path / "i", 1, 2, 3)
    readers = [index.pin()]
    for step in (1, 2):
        apply(index, rows(10 + step), np.array([step]), 1 + step)
        readers.append(index.pin())
        with index.writing(blocking=True):
            assert index.erase()
    assert [reader.keys().tolist() for reader in readers] == [[1, 2, 3], [2, 3, 11], [3, 11, 12]]
    assert keys_of(index) == [3, 11, 12]
    for reader in readers:
        reader.release()
        reader.release()
    index.close()
    apply(index, rows(20), NONE, 9)
    assert len([name for name in inside(tmp_path / "i") if name.startswith("epoch-")]) == 1


def test_our_pinned_reader_keeps_another_process_from_saying_erased(tmp_path: Path) -> None:
    """Also after we have erased something ourselves meanwhile."""
    index = rebuilt(tmp_path / "i", 1, 2, 3)
    reader = index.pin()
    apply(index, rows(), np.array([1]), 2)
    with index.writing(blocking=True):
        assert index.erase()
    child = os.fork()
    if not child:
        other = SnapshotIndex(tmp_path / "i", "f")
        os._exit(int(pending(other)))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    reader.release()


def test_a_state_that_goes_while_it_is_opened(tmp_path: Path) -> None:
    """The files of the manifest just read are removed before they are opened: the next state is read."""
    writer = rebuilt(tmp_path / "i", 1, 2, 3)

    class Late(SnapshotIndex):
        def _open(self, folder: Path, record: Record) -> Any:
            if keys_of(writer) == [1, 2, 3]:
                with writer.writing(blocking=True):
                    writer.apply(rows(4), np.array([1]), 2)
                    writer.erase()
            return super()._open(folder, record)

    late = Late(tmp_path / "i", "f")
    reader = late.pin()
    assert (reader.watermark, reader.keys().tolist()) == (2, [2, 3, 4])
    reader.release()
    late.close()
    with writer.writing(blocking=True):
        assert writer.erase()  # nothing of the state that went is held


def test_readers_in_threads_while_one_writes(tmp_path: Path) -> None:
    """Every state that is read is one that was written: `n` rows at watermark `n`."""
    index, other = rebuilt(tmp_path / "i", 1), SnapshotIndex(tmp_path / "i", "f")
    done = threading.Event()

    def read(of: SnapshotIndex) -> int:
        seen = 0
        while not done.is_set():
            reader = of.pin()
            assert reader.keys().tolist() == list(range(1, reader.watermark + 1))
            assert reader.watermark >= seen
            seen = reader.watermark
            reader.release()
            done.wait(0.001)
        return seen

    with ThreadPoolExecutor(4) as pool:
        readers = [pool.submit(read, which) for which in (index, index, other, other)]
        try:
            for number in range(2, 31):
                apply(index, rows(number), NONE, number)
                if number % 10 == 0:
                    with index.writing(blocking=True):
                        index.erase()
        finally:
            done.set()
        assert all(reader.result() for reader in readers)
    assert keys_of(other) == list(range(1, 31))
