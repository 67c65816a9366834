"""Every keyword index keeps the same contract."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from ragforge.adapters.keywords.tantivy import TantivyIndex, TantivyReader
from ragforge.ports import KeywordReader
from ragforge.testing.contracts.keywords import KeywordIndexContract, OpenIndex


class TestTantivy(KeywordIndexContract):
    @pytest.fixture
    def folder(self, swift_path: Path) -> Path:
        return swift_path / "index"

    @pytest.fixture
    def open_index(self, folder: Path) -> OpenIndex:
        return partial(TantivyIndex, folder)

    def dictionary(self, reader: KeywordReader, beginning: str) -> list[str]:
        assert isinstance(reader, TantivyReader)
        return reader.terms_starting(beginning, 100)
