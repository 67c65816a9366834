"""`kill -9` between any two steps of a turn of an interview: the state is the old or the new one."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from ragforge.domain.discovery import InterviewState
from tests.forge import faults, fill, open_forge
from tests.proof import PROVING, count, record

_POINTS = (
    "interview.decided",
    "interview.gathered",
    "interview.said",
    "interview.summarised",
    "interview.keeping",
    "interview.kept",
)
_KEPT = ("interview.kept",)
"""After these the turn is stored."""
_SCRIPT = """
import sys
from pathlib import Path
from tests.forge import open_forge
with open_forge(Path(sys.argv[1])) as forge:
    print("open", flush=True)
    first = forge.discovery.get(sys.argv[2], project="p").state.turn
    for number in range(first, first + int(sys.argv[3])):
        forge.discovery.say(
            f"In week w{number} I think x{number} agents waited for warehouse y{number}, at a cost of z{number}.",
            sys.argv[2], project="p",
        )
        print("said", flush=True)
"""


def begun(workspace: Path, interview: str, turns: int, variables: Mapping[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _SCRIPT, str(workspace), interview, str(turns)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, **variables},
    )


def whole(workspace: Path, interview: str) -> InterviewState:
    """Turns, state, log and what is known of the organisation tell the same."""
    with open_forge(workspace) as forge:
        state = forge.discovery.get(interview, project="p").state
        turns = forge.discovery.turns(interview, project="p")
        assert [turn.number for turn in turns] == list(range(1, state.turn + 1))
        assert state.version == state.turn + 1
        assert {each.turn for each in state.asked} <= set(range(1, state.turn + 1))
        for turn in turns:
            assert any(each.turn == turn.number for each in state.points), "what was said was taken down"
            assert turn.summary and turn.probe and turn.mode == "problem"
        assert len([each for each in forge.query_log(limit=10_000, project="p") if each.kind == "interview"]) == len(
            turns
        )
        assert bool(forge.discovery.org_context(project="p")) == bool(turns)
        kept = (workspace / "projects" / "p" / "project_state.json").read_text()
        assert ("In week w0" in kept) == bool(turns), "the file that is derived follows"
        assert faults(forge) == []
        return state


@pytest.mark.parametrize("point", _POINTS)
def test_G5_killed_at_each_step_the_state_is_the_old_or_the_new_one(point: str, tmp_path: Path) -> None:
    workspace = tmp_path / "ws"
    with open_forge(workspace) as forge:
        forge.add(fill(tmp_path / "files", 2) and tmp_path / "files", project="p")
        interview = forge.discovery.begin("Kill", project="p").id
    for at in (1, 3) if PROVING else (2,):
        before = whole(workspace, interview)
        variables = {"RAGFORGE_TESTING": "1", "RAGFORGE_FAILPOINT": f"{point}:kill@{at}"}
        done = begun(workspace, interview, at, variables)
        said = done.communicate(timeout=60)[0].count("said")
        assert done.returncode == -signal.SIGKILL
        assert said == at - 1
        after = whole(workspace, interview)
        assert after.turn == before.turn + at - (point not in _KEPT)
    begun(workspace, interview, 1, {}).communicate(timeout=60)
    assert whole(workspace, interview).turn == after.turn + 1, "it goes on"


def test_G5_killed_at_any_moment_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    workspace = tmp_path / "ws"
    with open_forge(workspace) as forge:
        interview = forge.discovery.begin("Kill", project="p").id
    kills, told = count(4, 60), 0
    chance = random.Random(7)
    for _ in range(kills):
        process = begun(workspace, interview, 200, {})
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        for _ in range(wait := chance.randint(0, 4)):
            assert process.stdout.readline() == "said\n"
        time.sleep(chance.uniform(0.0, 0.15))
        process.kill()
        told += wait + process.communicate(timeout=60)[0].count("said")
        turn = whole(workspace, interview).turn
        assert told <= turn <= told + 1, "one turn more may be stored than was told"
        told = turn
    assert told, "some turns were made"
    record("discovery_kills", kills=kills, turns=told)
