"""Documents that come with questions: their files, and how questions find theirs."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragforge.domain.library import Document, Labels, Source, Status
from ragforge.errors import UserError
from ragforge.evaluate.corpus import Names, check_corpus, file_name, write_corpus


def corpus(folder: Path, *entries: object) -> Path:
    path = folder / "corpus.jsonl"
    path.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
    return path


def test_a_file_for_each_entry(tmp_path: Path) -> None:
    file = corpus(
        tmp_path,
        {"_id": "1", "title": "Wings\nin slipstream", "text": "Lift  grows.\n"},
        {"_id": "docs/a.md", "title": "", "text": "Plain\x00 text"},
        {"_id": "e", "title": " ", "text": None},
        {"_id": "t", "title": "Only a title"},
    )
    assert check_corpus(file) == {"1.md", "docs/a.md", "e.md", "t.md"}
    written = write_corpus(file, tmp_path / "out")
    assert {str(path.relative_to(tmp_path / "out")): path.read_text() for path in written.files} == {
        "1.md": "# Wings in slipstream\n\nLift  grows.\n",
        "docs/a.md": "Plain  text\n",
        "t.md": "# Only a title\n",
    }
    assert written.empty == 1


def test_files_that_are_right_are_not_touched(tmp_path: Path) -> None:
    file = corpus(tmp_path, {"_id": "1", "text": "same"}, {"_id": "2", "text": "old"})
    for path in write_corpus(file, tmp_path).files:
        os.utime(path, ns=(0, 0))
    corpus(tmp_path, {"_id": "1", "text": "same"}, {"_id": "2", "text": "new"})
    write_corpus(file, tmp_path)
    assert (tmp_path / "1.md").stat().st_mtime_ns == 0
    assert (tmp_path / "2.md").stat().st_mtime_ns > 0 and (tmp_path / "2.md").read_text() == "new\n"


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"text": "x"}, 'the "_id" is missing'),
        ({"_id": "1", "text": ["x"]}, '"text" is no text'),
        ({"_id": "1", "title": 5}, '"title" is no text'),
        ({"_id": "0", "text": "x"}, "the same document as line 1"),
        ({"_id": "0.md", "text": "x"}, "the same document as line 1"),
    ],
)
def test_bad_entries_are_named_and_nothing_is_written(tmp_path: Path, entry: object, reason: str) -> None:
    with pytest.raises(UserError) as refused:
        check_corpus(corpus(tmp_path, {"_id": "0", "text": "x"}, entry))
    assert "corpus.jsonl has 1 bad line" in refused.value.message
    assert f"line 2: {reason}" in refused.value.message


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(UserError, match="cannot write the documents") as refused:
        write_corpus(corpus(tmp_path, {"_id": "1", "text": "x"}), tmp_path / "taken")
    assert "--documents" in refused.value.hint


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=300))
def test_no_id_leaves_the_folder_or_hides(id: str) -> None:
    name = file_name(id)
    parts = name.split("/")
    assert name == file_name(id) and name.endswith(".md")
    assert all(part and not part.startswith(".") and len(part.encode()) < 256 for part in parts)
    assert not any(character in name for character in "\x00\n\\")
    assert os.path.normpath(f"/top/{name}").startswith("/top/")


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12), unique=True, max_size=8))
def test_different_ids_are_different_files(ids: list[str]) -> None:
    told_apart = [id for id in ids if f"{id}.md" not in ids]  # `a` and `a.md` are refused when they are checked
    assert len({file_name(id) for id in told_apart}) == len(told_apart)


# -- names


def document(id: str, *keys: str) -> Document:
    when = datetime(2030, 1, 1, tzinfo=UTC)
    sources = tuple(Source(key, key.rpartition("/")[2], 1, 1, id) for key in keys)
    return Document(
        id=id, project="p", name=sources[0].name, status=Status.READY, labels=Labels(), enabled=True, type="markdown",
        mime="", size=1, sha256=id, version="v", title=None, summary="", notes=(), characters=1, tokens=1, chunks=1,
        problem=None, sources=sources, created_at=when, updated_at=when,
    )  # fmt: skip


def test_a_document_is_found_by_any_of_its_names() -> None:
    names = Names(
        [
            document("aaaaaaaabbbbbbbb", "/home/docs/returns.md", "/copy/refunds.txt"),
            document("cccccccc00000000", "/home/docs/en/index.md"),
            document("dddddddd00000000", "/home/docs/de/index.md"),
        ]
    )
    for name in ("aaaaaaaabbbbbbbb", "aaaaaaaa", "/copy/refunds.txt", "returns.md", "refunds", "docs/returns"):
        assert names.find(name) == ["aaaaaaaabbbbbbbb"], name
        assert names.unclear(name) == ""
    assert names.find("index.md") == names.find("index") == ["cccccccc00000000", "dddddddd00000000"]
    assert names.unclear("index") == "could be 2 files (cccccccc, dddddddd)"
    assert names.find("de/index.md") == names.find("docs/de/index") == ["dddddddd00000000"]
    assert names.find("e/index.md") == [], "folders count whole"
    assert names.find("nothing") == [] and names.unclear("nothing") == ""


def test_of_many_files_with_one_name_some_are_told() -> None:
    names = Names([document(f"{number}" * 16, f"/{number}/a.md") for number in range(5)])
    assert names.unclear("a") == "could be 5 files (00000000, 11111111, 22222222, …)"


def test_a_set_finds_its_own_documents_first() -> None:
    documents = [document("a" * 16, "/one/1.md"), document("b" * 16, "/two/1.md")]
    assert len(Names(documents).find("1")) == 2
    assert Names(documents, "/two").find("1") == ["b" * 16]
