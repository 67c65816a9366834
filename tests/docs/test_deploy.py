"""What is deployed can be restored: the new workspace is built beside the old one, which is thus never the volume."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DEPLOY = Path(__file__).parents[2] / "deploy"


@pytest.mark.parametrize(
    ("file", "place"),
    [("Containerfile", r"^VOLUME (\S+)$"), ("ragforge.service", r"^StateDirectory=(\S+)$")],
)
def test_the_workspace_is_a_folder_in_what_its_user_owns(file: str, place: str) -> None:
    text = (DEPLOY / file).read_text()
    workspace, owned = (re.search(each, text, re.MULTILINE) for each in (r"RAGFORGE_WORKSPACE=(\S+)", place))
    assert workspace and owned
    assert Path(workspace[1]).parent == Path("/var/lib" if "State" in place else "/", owned[1])
