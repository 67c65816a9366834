"""The fixtures that every suite over a catalog begins with."""

from __future__ import annotations

import pytest

from ragforge.ports import Catalog
from ragforge.testing.shelf import ManualClock, Shelf


class ShelfContract:
    """Subclass and give the fixture `catalog`, on the fixture `clock`."""

    @pytest.fixture
    def clock(self) -> ManualClock:
        return ManualClock()

    @pytest.fixture
    def catalog(self, clock: ManualClock) -> Catalog:
        raise NotImplementedError

    @pytest.fixture
    def shelf(self, catalog: Catalog) -> Shelf:
        return Shelf.create(catalog)
