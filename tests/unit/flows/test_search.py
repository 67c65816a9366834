"""What a search remembers from one question to the next."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragforge.errors import NotFound
from tests.forge import open_forge


def test_a_project_is_remembered_once_however_it_is_called(swift_path: Path) -> None:
    """Else every spelling would stay in memory, and callers choose them."""
    (swift_path / "a.md").write_text("The badger was seen in Oslo.\n")
    with open_forge(swift_path / "workspace") as forge:
        forge.add(swift_path / "a.md", project="p")
        for number in range(10):
            assert forge.search("badger", project="P" + "!" * number).passages
        assert list(forge._flows.search._projects) == ["p"]
        forge.rename_project("p", "Other")
        assert forge.search("badger", project="other").passages
        with pytest.raises(NotFound):
            forge.search("badger", project="p")
        assert list(forge._flows.search._projects) == ["other"]
