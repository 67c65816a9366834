"""Whatever the source of a model's file, its SHA-256 decides."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from ragforge.adapters import weights
from ragforge.errors import NotFound, ProviderError, StoreError, UserError

FILES = [file.name for file in weights.MINILM.files]


def test_from_a_folder(minilm_folder: Path, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    pulled = weights.pull("minilm", tmp_path, minilm_folder, lambda *step: seen.append(step), offline=True)
    assert (pulled.source, pulled.folder) == ("folder", tmp_path / "minilm")
    assert {name for name, _, _ in seen} == set(FILES)
    assert all(done <= total for _, done, total in seen)
    assert weights.model_folder("minilm", tmp_path) == pulled.folder
    assert weights.available(tmp_path, full=True)[0].verified


def test_from_a_copy_of_the_hub(minilm_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "copy" / "onnx").mkdir(parents=True)
    shutil.copy(minilm_folder / FILES[0], tmp_path / "copy" / "onnx" / FILES[0])
    shutil.copy(minilm_folder / FILES[1], tmp_path / "copy" / FILES[1])
    assert weights.pull("minilm", tmp_path / "models", tmp_path / "copy", offline=True).source == "folder"


def test_what_is_there_is_not_brought_again(minilm_folder: Path, tmp_path: Path) -> None:
    weights.pull("minilm", tmp_path, minilm_folder, offline=True)
    before = (tmp_path / "minilm" / FILES[0]).stat()
    assert weights.pull("minilm", tmp_path, offline=True).source == "present"
    assert (tmp_path / "minilm" / FILES[0]).stat().st_mtime_ns == before.st_mtime_ns


def test_files_laid_there_by_hand_are_proven_once(minilm_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(minilm_folder, tmp_path / "minilm", ignore=shutil.ignore_patterns("verified.json"))
    assert not weights.available(tmp_path)[0].verified
    assert weights.pull("minilm", tmp_path, offline=True).source == "present"
    assert weights.available(tmp_path)[0].verified


def test_a_changed_byte_is_refused_and_leaves_nothing(minilm_folder: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    shutil.copytree(minilm_folder, bad)
    with (bad / FILES[0]).open("r+b") as file:
        file.seek(1_000_000)
        file.write(b"\xff\x00\xff")
    with pytest.raises(ProviderError) as caught:
        weights.pull("minilm", tmp_path / "models", bad, offline=True)
    assert "SHA-256 differs" in caught.value.message
    assert "--from FOLDER" in caught.value.hint
    assert list((tmp_path / "models" / "minilm").iterdir()) == []


def test_damage_after_the_proof_is_seen_and_mended(minilm_folder: Path, tmp_path: Path) -> None:
    folder = weights.pull("minilm", tmp_path, minilm_folder, offline=True).folder
    with (folder / FILES[1]).open("r+b") as file:
        file.write(b"XX")
    assert not weights.available(tmp_path)[0].verified
    with pytest.raises(NotFound):
        weights.model_folder("minilm", tmp_path)
    assert weights.pull("minilm", tmp_path, minilm_folder, offline=True).source == "folder"
    assert weights.available(tmp_path, full=True)[0].verified


def test_offline_without_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ProviderError, match="offline") as caught:
        weights.pull("minilm", tmp_path, offline=True)
    assert caught.value.hint.endswith("ragforge models pull minilm --from FOLDER")


def test_an_unreachable_hub_and_registry_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real requests, sent to a port where nobody listens."""
    for variable in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")
    monkeypatch.setenv("PIP_INDEX_URL", "https://user:hunter2@127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with pytest.raises(ProviderError) as caught:
        weights.pull("minilm", tmp_path)
    assert "hub: " in caught.value.message
    assert "registry: " in caught.value.message
    assert "hunter2" not in caught.value.message


def test_a_folder_that_cannot_be_written(minilm_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "models").write_text("a file where the folder should be")
    with pytest.raises(StoreError):
        weights.pull("minilm", tmp_path / "models", minilm_folder, offline=True)


def test_an_unknown_model() -> None:
    with pytest.raises(UserError) as caught:
        weights.pull("gpt", Path("nowhere"))
    assert "minilm" in caught.value.hint


def test_a_model_of_the_package_needs_no_pull(tmp_path: Path) -> None:
    pulled = weights.pull("wordllama", tmp_path)
    assert (pulled.source, pulled.size > 0) == ("package", True)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_not_passed_over(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is no folder"):
        weights.pull("minilm", tmp_path / "models", tmp_path / "nowhere")
    assert list(tmp_path.iterdir()) == []


def test_wordllama_is_always_listed(tmp_path: Path) -> None:
    states = {state.name: state for state in weights.available(tmp_path)}
    assert states["wordllama"].verified
    assert not states["minilm"].verified
    assert states["minilm"].where is None
