"""What is deployed can be restored: the new workspace is built beside the old one, which is thus never the volume."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from ragforge.settings import load
from tests.docs.test_docs import unknown_words

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


def test_the_compose_file_says_what_ragforge_understands() -> None:
    """Every variable is a setting with a value it takes, every command is one, and every place is made."""
    composed = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    ours = {name: each for name, each in composed["services"].items() if "environment" in each and name != "database"}
    assert {"server-1", "server-2", "worker", "page"} == ours.keys() and ours["worker"]["deploy"]["replicas"] == 2
    for service in ours.values():
        given = service["environment"].items()
        variables = {name: re.sub(r"\$\{POSTGRES_PASSWORD.*?\}", "secret", value) for name, value in given}
        settings = load("/nowhere", env=variables)
        assert settings.store.database_url == "postgresql://ragforge:secret@database/ragforge"
        assert (settings.index.vectors, settings.server.uploads, settings.embed.threads) == ("qdrant", 0, 1)
        if command := service.get("command"):
            assert command[0] == "ragforge"
            words = [word for word in command[1:2] + command[2:] if word == command[1] or word.startswith("--")]
            assert unknown_words(words) == [], command
    named = {volume.partition(":")[0] for each in composed["services"].values() for volume in each.get("volumes", ())}
    assert named == composed["volumes"].keys()
    mounted = {config["source"] for each in composed["services"].values() for config in each.get("configs", ())}
    assert mounted == composed["configs"].keys()
