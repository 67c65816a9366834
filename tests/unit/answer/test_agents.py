"""Agents are files with a header and a persona; what is wrong with one is told with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragforge.answer.agents import PROFILES, Agent, agent, agent_for, agent_names
from ragforge.answer.headed import MOST_BYTES
from ragforge.answer.outline import STRUCTURED, kinds, outline
from ragforge.domain.generation import Sampling
from ragforge.errors import NotFound, UserError

KINDS = kinds()


def test_every_kind_of_document_has_a_shipped_agent() -> None:
    for kind in ("blueprint", "pdr", "workflow", "build-plan"):
        writer = agent_for(kind, KINDS)
        assert writer is not None, kind
        assert writer.profile in PROFILES and len(writer.persona) > 50
        sampling = writer.sampling(outline(kind).sampling)
        assert STRUCTURED[0] <= sampling.temperature <= STRUCTURED[1]
        assert sampling.max_tokens > 100


def test_a_file_of_the_users_own_adds_or_replaces(tmp_path: Path) -> None:
    (tmp_path / "architect.md").write_text("---\nprofile: cheap\noutput: blueprint\n---\nShort and plain.\n")
    (tmp_path / "poet.md").write_text("You rhyme.\n")
    (tmp_path / "README.md").write_text("no agent: its name has capitals")
    assert {"architect", "poet", "librarian"} <= set(agent_names(tmp_path))
    assert "README" not in agent_names(tmp_path)
    assert agent("architect", KINDS, tmp_path) == Agent("architect", "Short and plain.", "cheap", "blueprint")
    assert agent("poet", KINDS, tmp_path) == Agent("poet", "You rhyme.", "balanced", "answer")
    assert agent("architect", KINDS).profile == "premium"


def test_an_agent_changes_only_what_it_sets() -> None:
    usual = Sampling(0.3, 700)
    assert Agent("a", "x").sampling(usual) == usual
    assert Agent("a", "x", temperature=0.2).sampling(usual) == Sampling(0.2, 700)
    assert Agent("a", "x", max_tokens=99).sampling(usual) == Sampling(0.3, 99)


def test_a_folder_that_is_not_there_is_no_mistake(tmp_path: Path) -> None:
    assert agent_names(tmp_path / "agents") == agent_names()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("---\nprofile: huge\n---\nx", "profile is 'huge'"),
        ("---\noutput: novel\n---\nx", "output is 'novel'"),
        ("---\noutput: pdr\ntemperature: 0.9\n---\nx", "temperature is '0.9'"),
        ("---\noutput: pdr\ntemperature: 0.1\n---\nx", "temperature is '0.1'"),
        ("---\ntemperature: warm\n---\nx", "temperature is 'warm'"),
        ("---\ntemperature: nan\n---\nx", "temperature is 'nan'"),
        ("---\nmax_tokens: 5\n---\nx", "max_tokens is '5'"),
        ("---\nprofile: cheap\n---\n  \n", "no persona"),
        ("", "no persona"),
        ("---\nprofile: cheap\nx", "line 3: 'x' is no setting"),
        ("---\nprofile: cheap\n", "the header has no end"),
        ("---\nprofile:\n---\nx", "line 2: 'profile:' is no setting"),
        ("---\nmood: good\n---\nx", "line 2: unknown setting 'mood'"),
        ("---\nprofile: cheap\nprofile: premium\n---\nx", "line 3: profile is there twice"),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "mine.md").write_text(text)
    with pytest.raises(UserError) as problem:
        agent("mine", KINDS, tmp_path)
    assert told in problem.value.message and "mine.md" in problem.value.message
    assert problem.value.hint


def test_an_unknown_name_is_answered_with_those_there_are() -> None:
    with pytest.raises(NotFound, match="no agent 'nobody'") as problem:
        agent("nobody", KINDS)
    assert "architect" in problem.value.hint


@pytest.mark.parametrize("name", ["../architect", "/etc/passwd", "", "architect.md"])
def test_a_name_is_never_a_path(name: str) -> None:
    with pytest.raises(NotFound):
        agent(name, KINDS)


def test_files_that_are_no_text_or_too_large(tmp_path: Path) -> None:
    (tmp_path / "mine.md").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="not UTF-8"):
        agent("mine", KINDS, tmp_path)
    (tmp_path / "mine.md").write_bytes(b"x" * (MOST_BYTES + 1))
    with pytest.raises(UserError, match="too large"):
        agent("mine", KINDS, tmp_path)
    (tmp_path / "mine.md").unlink()
    (tmp_path / "mine.md").mkdir()
    with pytest.raises(UserError, match="cannot read"):
        agent("mine", KINDS, tmp_path)
