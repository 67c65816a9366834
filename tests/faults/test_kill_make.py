"""`kill -9` while a document is made: it is kept whole, with its line in the log, or nothing of it is there."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import docx

from ragforge import Ragforge
from ragforge.answer.artifacts import markdown
from ragforge.answer.outline import differences, outline
from ragforge.interfaces.cli.main import main
from ragforge.testing.model_server import NORMAL, STALL, ModelServer
from tests.forge import faults
from tests.proof import count, record

GOALS = "# Goals\n\nHalve the number of calls about returns. Reach a satisfaction of 4.2 out of 5.\n"
SECTIONS = len(outline("blueprint").parts)


def command(workspace: Path, out: Path, server: ModelServer) -> list[str]:
    settings = ["--set", "model.name=openai-compatible:stub", "--set", f"model.base_url={server.base_url}"]
    return ["-w", str(workspace), "make", "blueprint", "--out", str(out), "-q", *settings]


def begun(workspace: Path, out: Path, server: ModelServer) -> subprocess.Popen[bytes]:
    """The command line in a process of its own."""
    arguments = command(workspace, out, server)
    return subprocess.Popen([sys.executable, "-m", "ragforge.interfaces.cli.main", *arguments])


def killed(process: subprocess.Popen[bytes], server: ModelServer, calls: int, later: float = 0.0) -> None:
    """End it when the model was called so often, unless it came to its own end before."""
    deadline = time.monotonic() + 60
    while len(server.calls) < calls and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    time.sleep(later)
    process.kill()
    process.wait()


def filled(folder: Path) -> Path:
    (folder / "goals.md").write_text(GOALS)
    workspace = folder / "ws"
    with Ragforge.open(workspace) as forge:
        forge.create_project("default", embedder="wordllama")
        forge.add(folder / "goals.md")
    return workspace


def test_killed_between_two_sections_nothing_is_left(tmp_path: Path) -> None:
    workspace, out = filled(tmp_path), tmp_path / "out" / "blueprint.docx"
    out.parent.mkdir()
    with ModelServer(reply="Halve the number of calls [1].") as server:
        server.script(NORMAL, NORMAL, STALL)
        killed(begun(workspace, out, server), server, 3)
        with Ragforge.open(workspace) as forge:
            assert forge.artifacts() == [] and forge.query_log() == [] and faults(forge) == []
        assert list(out.parent.iterdir()) == []
        assert main(command(workspace, out, server)) == 0, "and it can be made again"
    with Ragforge.open(workspace) as forge:
        assert len(forge.artifacts()) == len(forge.query_log()) == 1
    assert "Goals" in [each.text for each in docx.Document(str(out)).paragraphs]


def test_killed_at_any_moment_each_document_is_whole_or_not_there(tmp_path: Path) -> None:
    workspace, chance, rounds, whole = filled(tmp_path), random.Random(6), count(1, 20), 0
    with ModelServer(reply="Halve the number of calls [1].") as server:
        for number in range(rounds):
            out = tmp_path / f"{number}.docx"
            calls = len(server.calls) + chance.randint(0, SECTIONS)
            killed(begun(workspace, out, server), server, calls, chance.random() * 0.05)
            with Ragforge.open(workspace) as forge:
                kept = forge.artifacts()
                assert len(forge.query_log()) == len(kept) and faults(forge) == []
            for each in kept:
                assert len(each.sections) == SECTIONS and each.usage["calls"] == SECTIONS
                assert differences(outline("blueprint"), markdown(each)) == []
            assert not out.exists() or len(kept) > whole, "a file is written after its document is kept"
            if out.exists():
                assert "Goals" in [each.text for each in docx.Document(str(out)).paragraphs]
            whole = len(kept)
    record("kill -9 of make", kills=rounds, whole=whole, half_kept=0)
