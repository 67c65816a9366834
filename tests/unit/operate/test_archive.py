"""Archives: whole under their name or not there, and believed only when every member is what the manifest says."""

from __future__ import annotations

import io
import secrets
import stat
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragforge.domain.cancel import Cancel
from ragforge.domain.sizes import MB
from ragforge.errors import CorruptStore, NotFound, StoreError, TooLarge, UserError
from ragforge.operate.archive import Archive, is_safe, writing


def made(file: Path) -> Path:
    with writing(file, Cancel()) as archive:
        archive.add_text("README.md", "hello")
        assert (
            archive.add_lines("rows.jsonl", ({"number": number, "text": "ä\ud800"} for number in range(1000))) == 1000
        )
        archive.add_file("files/big", io.BytesIO(b"x" * 3_000_000))
        archive.facts |= {"format": "thing", "version": 1}
    return file


def test_what_was_written_is_read(tmp_path: Path) -> None:
    file = made(tmp_path / "a.zip")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with Archive(file, "thing", 1) as archive:
        assert list(archive.verify(Cancel())) == [0, 1, 2]
        assert archive.text("README.md") == "hello"
        rows = list(archive.lines("rows.jsonl"))
        assert rows[999] == {"number": 999, "text": "ä\ud800"}
        assert sum(map(len, archive.pieces("files/big"))) == 3_000_000
        assert archive.names("files/") == ["files/big"] and "files/big" in archive
        with pytest.raises(CorruptStore):
            archive.text("files/big", limit=10)


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), writing(tmp_path / "a.zip", Cancel()) as archive:
        archive.add("one", (b"x" * (1 // number) for number in (1, 0)))
    assert list(tmp_path.iterdir()) == []


def test_what_could_not_be_read_again_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragforge.operate.archive._LARGEST_MANIFEST", 200)
    with pytest.raises(TooLarge, match="members") as refused:
        made(tmp_path / "a.zip")
    assert refused.value.hint and list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_cleared_later(tmp_path: Path) -> None:
    import os

    old, new = (tmp_path / f".a.zip.{name}.unfinished" for name in ("old", "new"))
    for left in (old, new):
        left.write_text("half")
    os.utime(old, (0, 0))
    made(tmp_path / "a.zip")
    assert not old.exists() and new.exists(), "another may be writing the newer one"


def test_kinds_and_versions(tmp_path: Path) -> None:
    file = made(tmp_path / "a.zip")
    with pytest.raises(UserError, match="not what is wanted"):
        Archive(file, "other", 1)
    with pytest.raises(StoreError, match="newer"):
        Archive(file, "thing", 0)
    with pytest.raises(NotFound):
        Archive(tmp_path / "none", "thing", 1)
    with pytest.raises(UserError):
        Archive(tmp_path, "thing", 1)


def test_every_flipped_byte_is_noticed_or_harmless(tmp_path: Path) -> None:
    """Of headers that nobody reads, some bytes do not matter; what is read is what was written."""
    with writing(tmp_path / "a.zip", Cancel()) as archive:
        archive.add_text("one", "the words that count")
        archive.facts |= {"format": "thing", "version": 1}
    data = (tmp_path / "a.zip").read_bytes()
    noticed = 0
    for place in range(len(data)):
        bad = bytearray(data)
        bad[place] ^= 0x5A
        (tmp_path / "bad.zip").write_bytes(bad)
        try:
            with Archive(tmp_path / "bad.zip", "thing", 1) as archive_read:
                list(archive_read.verify(Cancel()))
                assert archive_read.text("one") == "the words that count"
        except (CorruptStore, UserError, StoreError) as problem:
            assert problem.hint
            noticed += 1
    assert noticed > len(data) // 2


def bomb(file: Path, manifest: bytes, *, claims: int | None = None) -> Path:
    """An archive of a few hundred kilobytes whose manifest is as large as it is told, and says so or not."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("one", "x")
        with packed.open("manifest.json", "w") as member:
            member.write(b'{"format": "thing", "version": 1, "members": {"one": [')
            for _ in range(300):
                member.write(manifest)
            member.write(b"0]}}")
        if claims is not None:
            packed.getinfo("manifest.json").file_size = claims
    return file


@pytest.mark.parametrize("claims", [None, 1_000_000])
def test_a_manifest_that_is_a_bomb_is_not_unpacked(tmp_path: Path, claims: int | None) -> None:
    file = bomb(tmp_path / "bomb.zip", b"[]," * 333_333, claims=claims)
    assert file.stat().st_size < MB
    tracemalloc.start()
    try:
        with pytest.raises(CorruptStore):
            Archive(file, "thing", 1)
        assert tracemalloc.get_traced_memory()[1] < 20 * MB
    finally:
        tracemalloc.stop()


def test_the_table_of_contents_is_looked_at_before_the_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unread(*_: object) -> None:
        raise AssertionError("it was unpacked")

    def other(name: str, member: zipfile.ZipInfo, **how: Any) -> Path:
        with zipfile.ZipFile(tmp_path / name, "w", zipfile.ZIP_DEFLATED) as packed:
            packed.writestr("manifest.json", "{}")
            packed.writestr(member, b"\0" * 3_000_000, **how)
        return tmp_path / name

    monkeypatch.setattr("ragforge.operate.archive._UNPACKED_AT_LEAST", 2_000_000)
    link = zipfile.ZipInfo("link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with pytest.warns(UserWarning, match="Duplicate"):
        twice = other("twice.zip", zipfile.ZipInfo("manifest.json"))
    cases = [
        twice,
        other("name.zip", zipfile.ZipInfo("../x")),
        other("link.zip", link),
        other("packed.zip", zipfile.ZipInfo("x"), compress_type=zipfile.ZIP_LZMA),
        other("large.zip", zipfile.ZipInfo("x"), compress_type=zipfile.ZIP_DEFLATED),
    ]
    monkeypatch.setattr(zipfile.ZipFile, "open", unread)
    for file in cases:
        with pytest.raises(CorruptStore):
            Archive(file, "thing", 1)


def test_a_manifest_may_tell_of_much_that_is_no_member(tmp_path: Path) -> None:
    """Files whose bytes were lost have none, however many they are."""
    with writing(tmp_path / "a.zip", Cancel()) as archive:
        lost = [{"blob": secrets.token_hex(16), "sha256": secrets.token_hex(32), "name": "x"} for _ in range(200_000)]
        archive.facts |= {"format": "thing", "version": 1, "missing": lost}
    with Archive(tmp_path / "a.zip", "thing", 1) as again:
        assert again.facts["missing"] == lost


@given(st.text(max_size=30))
def test_a_safe_name_stays_inside(name: str) -> None:
    if is_safe(name):
        inside = Path("/a/b")
        assert inside in (inside / name).parents
        assert zipfile.ZipInfo(name).filename == name


@pytest.mark.parametrize("name", ["", "/x", "../x", "a/../x", "a//b", "a/", "C:x", "a\\b", "x\0", "a/.", " a", "x\n"])
def test_unsafe_names(name: str) -> None:
    assert not is_safe(name)
