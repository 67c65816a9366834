"""One setting is changed in a file, and nothing else."""

from __future__ import annotations

import stat
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragforge.errors import StoreError, UserError
from ragforge.operate.settings_file import replacing, take_place, with_value
from ragforge.settings import template

KEY = "store.database_url"
ADDRESS = "postgresql://me@db/x"


@given(st.text(st.characters(codec="utf-8", exclude_characters="\x7f"), min_size=1))
def test_a_value_that_is_set_and_taken_away_again_leaves_the_file_as_it_was(value: str) -> None:
    changed = with_value(template(), KEY, value)
    assert tomllib.loads(changed)["store"] == {"database_url": value}
    assert with_value(changed, KEY, "") == template()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '[store]\ndatabase_url = "A"\n'),
        ("[search]\nk = 7", '[search]\nk = 7\n\n[store]\ndatabase_url = "A"\n'),
        ("[store]", '[store]\ndatabase_url = "A"\n'),
        ("[store]\r\nbusy_seconds = 5\r\n", '[store]\r\ndatabase_url = "A"\r\nbusy_seconds = 5\r\n'),
        ("[store]\ndatabase_url = 'old'  # ours\n[search]\n", '[store]\ndatabase_url = "A"  # ours\n[search]\n'),
        ('[search]\nk = 7\n[ store ]\n  database_url="old"\n', '[search]\nk = 7\n[ store ]\n  database_url="A"\n'),
        ("[store]\n# database_url = 1\nk = 5\n", '[store]\n# database_url = 1\ndatabase_url = "A"\nk = 5\n'),
        ('\ufeff[store]\nbusy_seconds = 5\n', '\ufeff[store]\ndatabase_url = "A"\nbusy_seconds = 5\n'),
    ],
)  # fmt: skip
def test_all_else_stays_as_people_wrote_it(before: str, after: str) -> None:
    assert with_value(before, KEY, "A") == after


def test_a_file_that_does_not_set_it_is_not_touched_to_unset_it() -> None:
    assert with_value("[search]\nk = 7\n", KEY, "") == "[search]\nk = 7\n"


@pytest.mark.parametrize(
    "text",
    [
        'store = { database_url = "old" }\n',
        'store.database_url = "old"\n',
        '["store"]\nbusy_seconds = 5\n',
        'text = """\n[store]\n"""\n[store]\ndatabase_url = "old"\n',
        '[store]\ndatabase_url = """old"""\n',
    ],
)
def test_what_is_written_otherwise_is_left_to_people(text: str) -> None:
    with pytest.raises(UserError, match="not written as a program can change it"):
        with_value(text, KEY, ADDRESS)


def test_what_is_no_settings_file_is_told() -> None:
    with pytest.raises(UserError, match="not valid TOML"):
        with_value("[store\n", KEY, ADDRESS)


def test_the_new_file_takes_the_place_of_the_old_one_with_its_permissions(tmp_path: Path) -> None:
    file, link = tmp_path / "real.toml", tmp_path / "ragforge.toml"
    file.write_text("old")
    file.chmod(0o640)
    link.symlink_to(file)
    with replacing(link, "new") as new:
        assert file.read_text() == "old" and stat.S_IMODE(new.stat().st_mode) == 0o640
        take_place(new, link)
    assert link.is_symlink() and file.read_text() == "new" and stat.S_IMODE(file.stat().st_mode) == 0o640
    with replacing(link, "newer", private=True) as new:
        take_place(new, link)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_what_does_not_take_place_leaves_nothing(tmp_path: Path) -> None:
    file = tmp_path / "ragforge.toml"
    file.write_text("old")
    with pytest.raises(KeyError), replacing(file, "new"):
        raise KeyError
    assert [path.name for path in tmp_path.iterdir()] == ["ragforge.toml"] and file.read_text() == "old"


def test_a_folder_that_cannot_be_written_is_told_before(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot write"), replacing(tmp_path / "nothing" / "ragforge.toml", "new"):
        pass
