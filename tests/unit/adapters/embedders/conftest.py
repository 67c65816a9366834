"""The models these tests run on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ragforge.adapters import weights


@pytest.fixture(scope="session")
def models() -> Path:
    """A folder that holds the verified minilm model."""
    given = os.environ.get("RAGFORGE_MODELS")
    folder = Path(given) if given else Path(__file__).parents[4] / ".cache" / "models"
    weights.pull("minilm", folder)
    return folder


@pytest.fixture(scope="session")
def minilm_folder(models: Path) -> Path:
    return weights.model_folder("minilm", models)
