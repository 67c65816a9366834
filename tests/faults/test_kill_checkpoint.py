"""`kill -9` while lessons are embedded or removed: nothing twice, nothing lost, nothing half-visible."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
import sqlalchemy as sa

from ragforge import Ragforge
from tests.forge import WatchedEmbedder, faults, open_forge, prose
from tests.proof import count, record

_POINTS = ("lessons.embedded", "lessons.taking_up", "lessons.taken_up", "lessons.following")
_SCRIPT = """
import sys
from pathlib import Path
from tests.forge import open_forge
print("begun", flush=True)
with open_forge(Path(sys.argv[1]), learn__embedder="hashing") as forge:
    print("open", flush=True)
    forge.lessons.checkpoint("phase", project="p")
    print("done", flush=True)
"""


def told(forge: Ragforge, first: int, number: int) -> None:
    """Some of them are the same lesson, told again."""
    for each in range(first, first + number):
        failure, _, solution = prose(each % 40, 6)[8:].partition(".")
        forge.lessons.capture_failure(
            project="p", agent_type="backend", failure_description=failure, solution_steps=solution, key=f"told {each}"
        )


def begun(workspace: Path, variables: Mapping[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _SCRIPT, str(workspace)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, **variables},
    )


def whole(workspace: Path, number: int) -> None:
    """Every lesson is there once: staged, or embedded with one pair of vectors and part of one pattern."""
    with open_forge(workspace, learn__embedder="hashing") as forge:
        with forge._parts.catalog._database.read() as connection:  # type: ignore[attr-defined]

            def figure(statement: str) -> int:
                return int(connection.execute(sa.text(statement)).scalar() or 0)

            assert figure("SELECT count(*) FROM knowledge_staging") == number
            embedded = figure("SELECT count(*) FROM knowledge_staging WHERE embedded AND embedded_at IS NOT NULL")
            assert embedded == figure("SELECT count(*) FROM knowledge_vectors")
            assert embedded == figure("SELECT count(*) FROM knowledge_staging WHERE pattern IS NOT NULL")
            assert figure("SELECT count(*) FROM knowledge_staging WHERE NOT embedded AND embedded_at IS NOT NULL") == 0
            assert (
                figure(
                    "SELECT count(*) FROM knowledge_patterns p WHERE NOT EXISTS"
                    " (SELECT 1 FROM knowledge_staging s WHERE s.pattern = p.ord)"
                )
                == 0
            )
        assert sum(each.record.captures for each in forge.lessons.patterns(project="p")) == embedded
        assert faults(forge) == []


@pytest.mark.parametrize("point", _POINTS)
def test_K3_killed_at_each_step_it_goes_on_where_it_was(point: str, tmp_path: Path) -> None:
    workspace = tmp_path / "ws"
    with open_forge(workspace, learn__embedder="hashing") as forge:
        forge.lessons.calibration()
        told(forge, 0, 100)
    for number in (1, 2):
        killed = begun(workspace, {"RAGFORGE_TESTING": "1", "RAGFORGE_FAILPOINT": f"{point}:kill@{number}"})
        killed.communicate(timeout=60)
        whole(workspace, 100)
    embedder = WatchedEmbedder()
    with open_forge(workspace, embedder, learn__embedder="hashing") as forge:
        staged = len(forge.lessons.staged(project="p"))
        report = forge.lessons.checkpoint("phase", project="p")
        assert report.embedded == staged and len(embedder.texts) == 2 * staged, "nothing is embedded again"
        assert [each.record.captures for each in forge.lessons.patterns(project="p")].count(3) == 20
    whole(workspace, 100)


def test_K3_killed_at_any_moment_nothing_is_embedded_twice_and_nothing_is_lost(tmp_path: Path) -> None:
    workspace, chance, kills = tmp_path / "ws", random.Random(7), count(4, 100)
    with open_forge(workspace, learn__embedder="hashing") as forge:
        forge.lessons.calibration()
    number, ended = 0, 0
    for _ in range(kills):
        with open_forge(workspace, learn__embedder="hashing") as forge:
            told(forge, number, 70)
        number += 70
        process = begun(workspace, {})
        assert process.stdout is not None
        while process.stdout.readline().strip() != "open":
            pass
        time.sleep(chance.random() * 0.5)
        process.kill()
        ended += "done" in process.communicate(timeout=60)[0]
        whole(workspace, number)
    with open_forge(workspace, learn__embedder="hashing") as forge:
        forge.lessons.checkpoint("project", project="p")
        assert forge.lessons.staged(project="p") == []
        patterns = forge.lessons.patterns(project="p")
        assert sum(each.record.captures for each in patterns) == number
    whole(workspace, number)
    record("kill -9 of checkpoints", kills=kills, ended_before=ended, lessons=number, twice=0, lost=0)


def test_K3_two_checkpoints_at_once_embed_each_lesson_once(tmp_path: Path) -> None:
    workspace = tmp_path / "ws"
    with open_forge(workspace, learn__embedder="hashing") as forge:
        forge.lessons.calibration()
        told(forge, 0, 300)
    processes = [begun(workspace, {}) for _ in range(2)]
    for process in processes:
        assert "done" in process.communicate(timeout=120)[0]
    whole(workspace, 300)
    with open_forge(workspace, learn__embedder="hashing") as forge:
        assert forge.lessons.staged(project="p") == []


def test_K8_killed_while_it_prunes_it_goes_on(tmp_path: Path) -> None:
    workspace = tmp_path / "ws"
    with open_forge(workspace, learn__embedder="hashing") as forge:
        told(forge, 0, 50)
        forge.lessons.checkpoint("phase", project="p")
        with forge._parts.catalog._database.write() as connection:  # type: ignore[attr-defined]
            connection.execute(sa.text("UPDATE knowledge_staging SET embedded_at = embedded_at - 31536000001"))
    script = _SCRIPT.replace('forge.lessons.checkpoint("phase", project="p")', "forge.lessons.prune()")
    killed = subprocess.run(
        [sys.executable, "-c", script, str(workspace)],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "RAGFORGE_TESTING": "1", "RAGFORGE_FAILPOINT": "lessons.pruning:kill"},
        capture_output=True,
        timeout=60,
    )
    assert killed.returncode == -9
    with open_forge(workspace, learn__embedder="hashing") as forge:
        forge.lessons.prune()
        assert forge.lessons.patterns(project="p") == [] and faults(forge) == []
