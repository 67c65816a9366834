"""The model these tests run on."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragforge.adapters import weights


@pytest.fixture(scope="session")
def minilm_folder(models: Path) -> Path:
    return weights.model_folder("minilm", models)
