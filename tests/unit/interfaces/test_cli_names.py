"""Which file is meant by what is typed, and what equal names are told apart by."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from ragforge.domain.library import Document, Labels, Source, Status
from ragforge.interfaces.cli.names import fitted, is_like, is_pattern, names_of, told_apart
from tests.proof import count

NOW = datetime(2026, 5, 1, tzinfo=UTC)
PARTS = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=4)


def document(*paths: str, id: str = "1") -> Document:
    """A file that was added from these paths, named by the first."""
    sources = tuple(Source(path, path.rpartition("/")[2].removeprefix("upload:"), 1, 1, "") for path in paths)
    return Document(
        id=id, project="p", name=sources[0].name, status=Status.READY, labels=Labels(), enabled=True, type="", mime="",
        size=1, sha256="", version="", title=None, summary="", notes=(), characters=1, tokens=1, chunks=1, problem=None,
        sources=sources, created_at=NOW, updated_at=NOW,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "is_meant"),
    [
        ("travel.md", True),
        ("*.md", True),
        ("tr?vel.[lm]d", True),
        ("2024/travel.md", True),
        ("notes/2024/*.md", True),
        ("notes/*/travel.md", True),
        ("**/travel.md", True),
        ("notes/**", True),
        ("docs/**/*.md", True),
        ("docs/**/2024/**/travel.md", True),
        ("/home/you/docs/notes/2024/travel.md", True),
        ("/home/**/*.md", True),
        ("**", True),
        ("*", True),
        ("Travel.md", False),
        ("avel.md", False),
        ("4/travel.md", False),
        ("notes/*.md", False),
        ("notes/2024", False),
        ("notes", False),
        ("2024/travel.md/**", False),
        ("/notes/2024/travel.md", False),
        ("/**/*.txt", False),
        ("", False),
        ("/", False),
    ],
)
def test_a_name_a_path_or_a_pattern_is_compared_from_its_end(text: str, is_meant: bool) -> None:
    assert is_like(document("/home/you/docs/notes/2024/travel.md"), text) is is_meant


def test_a_dot_means_the_folder_one_is_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    here, elsewhere = document(f"{tmp_path}/notes/a.md"), document("/elsewhere/notes/a.md")
    for text in ("./notes/*.md", "./**", f"../{tmp_path.name}/notes/a.md"):
        assert is_like(here, text) and not is_like(elsewhere, text)


def test_every_path_of_a_file_names_it_and_signs_may_stand_for_themselves() -> None:
    copied = document("/x/a.md", "/y/b.md", "upload:c.md")
    assert all(is_like(copied, text) for text in ("a.md", "y/*.md", "c.md", "upload:c.md"))
    assert is_like(document("/x/[draft] a.md"), "x/[draft] a.md")


@settings(max_examples=count(66, 200), deadline=None)
@given(PARTS, PARTS)
def test_without_a_sign_only_the_end_of_a_path_is_meant(path: list[str], end: list[str]) -> None:
    text = "/".join(end)
    assert not is_pattern(text)
    assert is_like(document("/" + "/".join(path)), text) is (path[-len(end) :] == end)


@settings(max_examples=count(66, 200), deadline=None)
@given(st.lists(PARTS.map(lambda parts: "/" + "/".join([*parts, "x.md"])), unique=True, max_size=8))
def test_names_differ_and_end_their_paths(paths: list[str]) -> None:
    names = told_apart({path: ("x.md", path) for path in paths})
    assert len(set(names.values())) == len(paths) and list(names) == paths
    assert all(path.endswith(name) for path, name in names.items())


def test_only_as_much_of_a_path_as_it_takes() -> None:
    paths = {
        "1": "/docs/notes/2024/a.md",
        "2": "/docs/archive/notes/2024/a.md",
        "3": "/docs/notes/2023/a.md",
        "4": "upload:a.md",
        "5": "/docs/notes/2023/b.md",
    }
    assert names_of([document(path, id=id) for id, path in paths.items()]) == {
        "1": "docs/notes/2024/a.md",
        "2": "archive/notes/2024/a.md",
        "3": "2023/a.md",
        "4": "upload:a.md",
        "5": "b.md",
    }


def test_many_files_with_one_name_take_no_longer_than_as_many_others() -> None:
    paths = {str(number): f"/code/package{number}/README.md" for number in range(20_000)}
    names = told_apart({id: ("README.md", path) for id, path in paths.items()})
    assert names["7"] == "package7/README.md" and len(set(names.values())) == len(paths)


@settings(max_examples=count(33, 100), deadline=None)
@given(st.lists(st.text(max_size=9), min_size=1, max_size=5).map("/".join), st.integers(5, 40))
def test_a_long_name_fits(name: str, width: int) -> None:
    assert cell_len(fitted(name, width)) <= width
    if cell_len(name) <= width:
        assert fitted(name, width) == name


def test_of_a_long_path_the_middle_goes_first() -> None:
    assert fitted("archive/notes/2024/travel.md", 20) == "archive/…/travel.md"
    assert fitted("archive/notes/2024/travel.md", 12) == "archive/…/t…"
    assert fitted("a-very-long-name.md", 8) == "a-very-…"
