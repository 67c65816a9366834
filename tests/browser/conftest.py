"""One browser for all tests of a process, and the pages that those share who need no settings of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from playwright.sync_api import Browser

from ragforge import Ragforge
from ragforge.settings import load
from ragforge.testing.model_server import ModelServer
from tests.browser.driving import CHROMIUM, Place, chromium, served_by, ui
from tests.process import Serving

_SETTINGS = '[embed]\nmodel = "wordllama"\n[learn]\nembedder = "wordllama"\n[limits]\nfile_bytes = 2_000_000\n'


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    if not CHROMIUM:
        pytest.skip("no Chromium is installed here: apt-get install chromium, or set CHROMIUM")
    with chromium() as found:
        yield found


@pytest.fixture(scope="package")
def _shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Serving]]:
    workspace = tmp_path_factory.mktemp("shown") / "workspace"
    workspace.mkdir()
    (workspace / "ragforge.toml").write_text(_SETTINGS)
    with ui(workspace) as serving:
        yield workspace, serving


@pytest.fixture
def place(_shown: tuple[Path, Serving]) -> Iterator[Place]:
    """Answers quote; files are at most 2 MB."""
    yield from _place(*_shown)


@pytest.fixture(scope="package")
def _answering(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Serving, ModelServer]]:
    workspace = tmp_path_factory.mktemp("answering") / "workspace"
    workspace.mkdir()
    with ModelServer() as model, ui(served_by(model, workspace)) as serving:
        yield workspace, serving, model


@pytest.fixture
def model(_answering: tuple[Path, Serving, ModelServer]) -> Iterator[ModelServer]:
    """It says what a test tells it to; what others asked is forgotten."""
    found = _answering[2]
    found.calls.clear()
    found.piece_seconds, found.disconnects = 0.0, 0
    yield found
    found.piece_seconds = 0.0  # what a test that failed left half said ends now
    found.rest()


@pytest.fixture
def place_with_model(_answering: tuple[Path, Serving, ModelServer], model: ModelServer) -> Iterator[Place]:
    """Answers come from `model`."""
    workspace, serving, _ = _answering
    yield from _place(workspace, serving)


def _place(workspace: Path, serving: Serving) -> Iterator[Place]:
    with Ragforge.open(load(workspace)) as forge:
        project = forge.create_project(f"shop-{uuid4().hex[:8]}", embedder="wordllama")
    yield Place(workspace, serving, project.slug)
    with Ragforge.open(load(workspace)) as forge:
        for each in forge.projects():  # those too that the test made
            forge.remove_project(each.slug)
