"""O3: who may look at the page at all. Loopback without keys; elsewhere only with them; by known names only."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from ragforge import Ragforge
from ragforge.domain.access import Role
from ragforge.settings import load
from tests.process import Serving, serve
from tests.shell import Shell


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(tmp_path / "workspace", capsys)


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    workspace = tmp_path_factory.mktemp("door") / "workspace"
    with Ragforge.open(load(workspace)) as forge:
        forge.create_project("p", embedder="wordllama")
    with serve(workspace, what="ui") as found:
        _ = found.address
        yield found


def _get(serving: Serving, **headers: str) -> httpx.Response:
    return httpx.get(serving.address, headers=headers, trust_env=False)


def test_O3_the_page_is_served_with_a_policy_that_lets_nothing_in_from_elsewhere(serving: Serving) -> None:
    answer = _get(serving)
    assert answer.status_code == 200
    policy = answer.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "img-src 'self' data: blob:" in policy
    assert not re.search(r"https?:|\*", policy)
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
    ],
)
def test_O3_other_names_and_other_pages_are_refused(serving: Serving, headers: dict[str, str]) -> None:
    assert _get(serving, **headers).status_code == 421


def test_O3_a_socket_from_another_page_is_refused(serving: Serving) -> None:
    from websockets.exceptions import InvalidStatus
    from websockets.sync.client import connect
    from websockets.typing import Origin, Subprotocol

    with pytest.raises(InvalidStatus):
        connect(
            serving.address.replace("http", "ws") + "/_stcore/stream",
            origin=Origin("https://evil.example"),
            subprotocols=[Subprotocol("streamlit")],
        )


def test_O3_it_stops_when_it_is_told_to(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    with serve(workspace, what="ui") as serving:
        _ = serving.address
        code, took = serving.stop(2)
        assert code == 0
        assert took < 6


def test_O3_without_keys_only_this_machine_may_look(shell: Shell) -> None:
    told = shell.run("ui", "--host", "0.0.0.0", "--port", "0", code=6)
    assert "there are no keys" in told.stderr
    assert "ragforge keys new" in told.stderr


def test_O3_nobody_elsewhere_may_use_the_key_of_who_started_it(shell: Shell) -> None:
    told = shell.run("ui", "--server", "http://127.0.0.1:1", "--key", "rf_x", "--host", "0.0.0.0", code=6)
    assert "would use your key" in told.stderr


def test_O3_a_key_alone_is_a_mistake(shell: Shell) -> None:
    told = shell.run("ui", "--key", "rf_x", code=2)
    assert "--server" in told.stderr


def test_O3_a_taken_port_is_told(shell: Shell) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        told = shell.run("ui", "--port", str(taken.getsockname()[1]), code=2)
        assert "is taken" in told.stderr


def test_O3_with_keys_the_page_may_be_shown_elsewhere(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    with Ragforge.open(load(workspace)) as forge:
        forge.access().create("Rita", Role.READER)
    with serve(workspace, "--host", "0.0.0.0", "--name", "docs.example.org", what="ui") as serving:
        address = serving.address.replace("0.0.0.0", "127.0.0.1")
        assert httpx.get(address, trust_env=False).status_code == 200
        named = httpx.get(address, headers={"Host": "docs.example.org"}, trust_env=False)
        assert named.status_code == 200


def test_O3_nobody_brings_files_who_has_not_signed_in(tmp_path: Path) -> None:
    """Streamlit takes files for whoever has a socket: here only for a tab that may."""
    workspace = tmp_path / "workspace"
    with Ragforge.open(load(workspace)) as forge:
        forge.access().create("Rita", Role.READER)
    with serve(workspace, what="ui") as serving:
        where = f"{serving.address}/_stcore/upload_file/somebody/some-file"
        answer = httpx.put(where, files={"file": ("a.txt", b"x" * 1000)}, trust_env=False)
        assert answer.status_code == 403


def test_O3_a_server_without_keys_is_not_shown_to_others(shell: Shell, tmp_path: Path) -> None:
    with serve(tmp_path / "served") as server:
        told = shell.run("ui", "--server", server.address, "--host", "0.0.0.0", "--port", "0", code=6)
        assert "needs no key" in told.stderr
