"""Settings: every source, its rank, where a value came from, and what a mistake says."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as checks
from hypothesis import strategies as st

from ragforge.domain.sizes import size_text
from ragforge.errors import UserError
from ragforge.settings import (
    FACTS,
    SECTIONS,
    Settings,
    load,
    parse_size,
    read_dotenv,
    template,
)
from tests.proof import count


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def here(tmp_path: Path) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    return folder


def refusal(workspace: Path, here: Path, **sources: object) -> UserError:
    with pytest.raises(UserError) as caught:
        load(workspace, env=sources.get("env", {}), flags=sources.get("flags"), folder=here)  # type: ignore[arg-type]
    return caught.value


def test_defaults_hold_when_nothing_is_said(workspace: Path, here: Path) -> None:
    settings = load(workspace, env={"XDG_DATA_HOME": str(here)}, folder=here)
    assert settings.limits.file_bytes == 100_000_000
    assert settings.jail.memory_bytes == 1 << 30 and settings.jail.unsafe is False
    assert settings.store.models_dir == here / "ragforge" / "models"
    assert settings.origins["limits.file_bytes"] == "default"
    assert settings.origins["workspace"] == "flag --workspace"
    assert load(workspace, env={}, folder=here).store.models_dir == Path.home() / ".local/share/ragforge/models"


def test_each_source_outranks_the_one_before(workspace: Path, here: Path, tmp_path: Path) -> None:
    key, variable = "ingest.batch_files", "RAGFORGE_INGEST__BATCH_FILES"

    def value(**more: object) -> tuple[int, str]:
        settings = load(workspace, folder=here, **{"env": {}, **more})  # type: ignore[arg-type]
        return settings.ingest.batch_files, settings.origins[key]

    assert value() == (500, "default")
    (workspace / "ragforge.toml").write_text("# mine\n\n[ingest]\nbatch_files = 1\n")
    assert value() == (1, f"{workspace / 'ragforge.toml'}:4")
    config = tmp_path / "other.toml"
    config.write_text("ingest.batch_files = 2\n")
    assert value(config=config) == (2, f"{config}:1")
    (here / ".env").write_text(f"# comment\nexport {variable}='3'\n")
    assert value(config=config) == (3, f"{here / '.env'}:2")
    (workspace / ".env").write_text(f"{variable}=4 # four\n")
    assert value(config=config) == (4, f"{workspace / '.env'}:1")
    assert value(config=config, env={variable: "5"}) == (5, f"environment {variable}")
    flags = {"--set": {key: "6"}}
    assert value(config=config, env={variable: "5"}, flags=flags) == (6, "flag --set")


def test_the_workspace_is_found(workspace: Path, here: Path) -> None:
    env = {"RAGFORGE_WORKSPACE": str(workspace)}
    assert load(env=env, folder=here).workspace == workspace
    assert load(here, env=env, folder=here).workspace == here
    settings = load(env={}, folder=here)
    assert settings.workspace == Path.home() / "ragforge"
    assert settings.origins["workspace"] == "default"
    assert load("~/somewhere", env={}, folder=here).workspace == Path.home() / "somewhere"


def test_models_have_a_short_name_and_paths_start_at_the_workspace(workspace: Path, here: Path) -> None:
    settings = load(workspace, env={"RAGFORGE_MODELS": "weights"}, folder=here)
    assert settings.store.models_dir == workspace / "weights"
    assert settings.origins["store.models_dir"] == "environment RAGFORGE_MODELS"


@pytest.mark.parametrize(
    ("toml", "message", "hint"),
    [
        (
            "[limits]\nfile_byte = 5",
            "ragforge.toml:2: limits.file_byte is not a setting",
            "limits.file_bytes? It takes",
        ),
        ("[limit]\nfile_bytes = 5", "ragforge.toml:1: [limit] is not a setting", "[limits]"),
        ("nonsense = 5", "[nonsense] is not a setting", "the sections are store, limits"),
        ("limits = 5", "limits is a section", "[limits]"),
        ("[limits]\nfile_bytes = true", "limits.file_bytes cannot be True", "a size such as 100MB"),
        ('[limits]\nfile_bytes = "many"', "limits.file_bytes cannot be 'many'", "a size"),
        ("[limits]\nfile_bytes = 0", "limits.file_bytes cannot be 0", "at least 1 B"),
        ('[limits]\nproject_files = "5"', "limits.project_files cannot be '5'", "a whole number"),
        ("[jail]\nunsafe = 1", "jail.unsafe cannot be 1", "true or false"),
        ("[jail]\ncpu_seconds = 1.5", "jail.cpu_seconds cannot be 1.5", "a whole number"),
        ("[embed]\ntimeout_seconds = nan", "embed.timeout_seconds cannot be nan", "a number, at least 0.1"),
        ('[split]\nstrategy = "words"', "split.strategy cannot be 'words'", "one of sections, chars, tokens"),
        ("[split]\nleaf_min = 900", "[split] sizes must rise: section_min <= leaf_min < leaf_max", "together"),
        (
            '[index]\nkeywords = "qdrant"\nvectors = "chroma"\nurl = "http://localhost:6333"',
            "index.url is of one server, but words are to be in Qdrant, vectors in Chroma",
            'index.vectors = "qdrant"',
        ),
        ("[limits", "is not valid TOML", "correct"),
    ],
)
def test_a_mistake_in_the_file_names_line_key_and_cure(
    workspace: Path, here: Path, toml: str, message: str, hint: str
) -> None:
    (workspace / "ragforge.toml").write_text(toml)
    error = refusal(workspace, here)
    assert message in error.message and str(workspace / "ragforge.toml") in error.message
    assert hint in error.hint
    assert error.exit_code == 2


@pytest.mark.parametrize(
    "toml",
    [
        'keywords = "qdrant"\nvectors = "qdrant"\nurl = "http://localhost:6333"',
        'keywords = "tantivy"\nvectors = "chroma"\nurl = "http://localhost:8000"',
        'keywords = "qdrant"\nvectors = "pgvector"\nurl = "http://localhost:6333"',
        'keywords = "qdrant"\nvectors = "chroma"',
    ],
)
def test_engines_that_one_address_is_enough_for(workspace: Path, here: Path, toml: str) -> None:
    (workspace / "ragforge.toml").write_text(f"[index]\n{toml}\n")
    assert load(workspace, env={}, folder=here).index.vectors in toml


def test_a_mistake_in_a_variable_or_flag_is_named(workspace: Path, here: Path) -> None:
    error = refusal(workspace, here, env={"RAGFORGE_JAIL__UNSAF": "true"})
    assert "environment RAGFORGE_JAIL__UNSAF" in error.message and "RAGFORGE_JAIL__UNSAFE?" in error.hint
    error = refusal(workspace, here, env={"RAGFORGE_LIMITS_FILE_BYTES": "5"})
    assert "RAGFORGE_LIMITS__FILE_BYTES?" in error.hint
    for value in ("1", "yes", "on"):
        assert "true or false" in refusal(workspace, here, env={"RAGFORGE_JAIL__UNSAFE": value}).hint
    error = refusal(workspace, here, flags={"--set": {"jail.processes": "0"}})
    assert "flag --set: jail.processes cannot be '0'" in error.message
    assert (
        load(workspace, env={"RAGFORGE_TEST_SERVER": "x", "RAGFORGE_JAIL__UNSAFE": ""}, folder=here).jail.unsafe
        is False
    )


def test_the_env_file_of_a_foreign_folder_cannot_open_the_jail(workspace: Path, here: Path) -> None:
    for name, value in (
        ("RAGFORGE_JAIL__UNSAFE", "true"),
        ("RAGFORGE_EMBED__BASE_URL", "http://example.org"),
        ("RAGFORGE_WORKSPACE", str(here)),
    ):
        (here / ".env").write_text(f"{name}={value}\n")
        assert "not taken from the .env of the current folder" in refusal(workspace, here).message
    (here / ".env").unlink()
    (workspace / ".env").write_text("RAGFORGE_JAIL__UNSAFE=true\n")
    assert load(workspace, env={}, folder=workspace).jail.unsafe is True


def test_secrets_are_found_and_never_shown(workspace: Path, here: Path) -> None:
    (here / ".env").write_text('OPENAI_API_KEY="sk-secret # not a comment"\nPATH=/nowhere\nMY_KEY=other\n')
    settings = load(workspace, env={"VOYAGE_API_KEY": "pa-secret"}, folder=here)
    assert settings.secrets == {"OPENAI_API_KEY": "sk-secret # not a comment", "VOYAGE_API_KEY": "pa-secret"}
    assert "sk-secret" not in repr(settings) and "pa-secret" not in repr(settings)
    named = load(workspace, env={"RAGFORGE_EMBED__API_KEY_ENV": "MY_KEY"}, folder=here)
    assert named.secrets["MY_KEY"] == "other"


def test_dotenv_lines(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(
        "\ufeffA=1\n  B = two words  # note\nC=\"x # y\" # z\nD=#none\nnot a line\nE='a=b'\n"
    )
    found = {name: value for name, (value, _) in read_dotenv(tmp_path / ".env").items()}
    assert found == {"A": "1", "B": "two words", "C": "x # y", "D": "", "E": "a=b"}
    (tmp_path / "bad").write_bytes(b"A=\xff\xfe")
    with pytest.raises(UserError, match="cannot be read"):
        read_dotenv(tmp_path / "bad")


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("100MB", 100_000_000),
        ("1 GiB", 1 << 30),
        ("1.5kb", 1500),
        ("2_000", 2000),
        ("7B", 7),
        ("5 XB", None),
        ("", None),
    ],
)
def test_sizes(text: str, count: int | None) -> None:
    assert parse_size(text) == count


@checks(max_examples=count(33, 100), deadline=None)
@given(st.integers(0, 10**13))
def test_a_size_is_shown_within_five_percent(count: int) -> None:
    shown = parse_size(size_text(count))
    assert shown is not None and abs(shown - count) <= 0.06 * count


def test_the_template_changes_nothing_and_says_every_default(workspace: Path, here: Path) -> None:
    (workspace / "ragforge.toml").write_text(template())
    settings = load(workspace, env={}, folder=here)
    assert dict(settings.values()) == dict(load(here, env={}, folder=here).values())
    assert set(settings.origins.values()) == {"default", "flag --workspace"}
    lines = [line.removeprefix("# ") for line in template().splitlines()[1:]]
    spoken = tomllib.loads("\n".join(lines))
    assert {f"{section}.{name}" for section, table in spoken.items() for name in table} == set(FACTS)
    (workspace / "ragforge.toml").write_text("\n".join(lines))
    again = load(workspace, env={}, folder=here)
    assert again == settings and set(spoken) == set(SECTIONS)


def test_sections_stand_alone(workspace: Path) -> None:
    assert Settings(workspace).split.leaf_max == 500
    assert dict(Settings(workspace).values())["embed.model"] == "minilm"
