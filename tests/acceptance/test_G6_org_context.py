"""G6: what is known of the organisation: read from a file, primed by the first turn, and kept current by code alone."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ragforge import Ragforge
from ragforge.errors import UserError
from ragforge.testing.model_server import ModelServer
from tests.forge import faults, fill, open_forge, places_of
from tests.served import open_served

ORG = "We are Nordlicht Möbel, a furniture maker in Flensburg."
FIRST = f"{ORG} I lead its support. Can you help us?"


@pytest.fixture
def forge(tmp_path: Path) -> Iterator[Ragforge]:
    with open_forge(tmp_path / "ws") as forge:
        forge.add(fill(tmp_path / "docs", 2), project="p")
        yield forge


def folder(forge: Ragforge, project: str = "p") -> Path:
    return forge.workspace / "projects" / project


def state(forge: Ragforge, project: str = "p") -> dict[str, Any]:
    """The file as any tool reads it, with the keys that it always has."""
    found: dict[str, Any] = json.loads((folder(forge, project) / "project_state.json").read_text(encoding="utf-8"))
    assert list(found) == ["file_summaries", "org_context"]
    for entry in found["file_summaries"]:
        assert list(entry) == ["filename", "uploaded_at", "summary", "chunk_count"]
    return found


# -- a file that a person wrote


def test_G6_a_context_file_is_read_when_an_interview_begins(forge: Ragforge) -> None:
    (folder(forge) / "context.md").write_bytes(b"\xef\xbb\xbf" + f"\n{ORG}\n\n".encode())
    assert forge.discovery.org_context(project="p") == "", "nobody has begun"
    interview = forge.discovery.begin("Returns", project="p")
    assert forge.discovery.org_context(project="p") == state(forge)["org_context"] == ORG
    assert ORG in forge.discovery.opening(interview.id, project="p")
    assert (folder(forge) / "context.md").exists(), "it is the person's own"
    done = forge.discovery.say("We also sell lamps, and returns are late.", interview.id, project="p")
    assert forge.discovery.org_context(project="p") == ORG, "what is known is not primed again"
    block = next(section.text for section in done.account.sections if section.name == "Context block")
    assert ORG in block
    assert faults(forge) == []


def test_G6_a_context_file_does_not_replace_what_is_known(forge: Ragforge) -> None:
    forge.discovery.set_org_context("We sell boats.", project="p")
    (folder(forge) / "context.md").write_text(ORG)
    forge.discovery.begin("Returns", project="p")
    assert forge.discovery.org_context(project="p") == state(forge)["org_context"] == "We sell boats."
    forge.discovery.set_org_context("", project="p")
    forge.discovery.begin("Again", project="p")
    assert forge.discovery.org_context(project="p") == ORG, "nothing was known any more"


def test_G6_a_context_file_of_any_bytes_does_no_harm(forge: Ragforge) -> None:
    path = folder(forge) / "context.md"
    cases = ((b"", ""), (b" \n\t ", ""), (b"half \xff of it", "half \ufffd of it"), (b"x" * 50_000, "x" * 6_000))
    for data, expected in cases:
        forge.discovery.set_org_context("", project="p")
        path.write_bytes(data)
        forge.discovery.begin("Returns", project="p")
        assert forge.discovery.org_context(project="p") == state(forge)["org_context"] == expected
    path.unlink()
    path.mkdir()
    with pytest.raises(UserError, match=r"context\.md cannot be read") as refused:
        forge.discovery.begin("Returns", project="p")
    assert refused.value.hint


def test_G6_a_context_file_moves_with_its_project(forge: Ragforge) -> None:
    (folder(forge) / "context.md").write_text(ORG)
    assert forge.rename_project("p", "Desks").slug == "desks"
    assert not folder(forge).exists()
    assert (folder(forge, "desks") / "context.md").read_text() == ORG
    assert len(state(forge, "desks")["file_summaries"]) == 2
    forge.discovery.begin("Returns", project="desks")
    assert state(forge, "desks")["org_context"] == ORG
    forge.rename_project("desks", "DESKS")  # the same folder
    assert (folder(forge, "desks") / "context.md").read_text() == ORG and state(forge, "desks")["org_context"] == ORG
    folder(forge, "other").mkdir()
    (folder(forge, "other") / "context.md").write_text("Somebody put this here before.")
    forge.rename_project("Desks", "Other")  # by its name
    assert not folder(forge, "desks").exists()
    assert (folder(forge, "other") / "context.md").read_text() == "Somebody put this here before."
    assert state(forge, "other")["org_context"] == ORG and faults(forge) == []
    forge.remove_project("other")
    assert not folder(forge, "other").exists()


# -- the first turn


def test_G6_the_first_turn_primes_it(forge: Ragforge) -> None:
    interview = forge.discovery.begin("Returns", project="p").id
    done = forge.discovery.say(FIRST, interview, project="p")
    told = "We are Nordlicht Möbel, a furniture maker in Flensburg. I lead its support."
    assert forge.discovery.org_context(project="p") == state(forge)["org_context"] == told, "its question is none"
    assert "update_org_context" in {change.tool for change in done.account.changes}
    later = forge.discovery.say("We are growing fast, and returns are late.", interview, project="p")
    assert "update_org_context" not in {change.tool for change in later.account.changes}
    forge.discovery.say("We are somebody else.", forge.discovery.begin("Lamps", project="p").id, project="p")
    assert state(forge)["org_context"] == told, "another interview builds on it"


@pytest.mark.parametrize("message", ["continue", "Can you help us with returns?"])
def test_G6_a_first_turn_that_tells_nothing_primes_nothing(forge: Ragforge, message: str) -> None:
    interview = forge.discovery.begin("Returns", project="p").id
    forge.discovery.say(message, interview, project="p")
    assert forge.discovery.org_context(project="p") == state(forge)["org_context"] == ""


def test_G6_who_may_not_describe_it_does_not(forge: Ragforge) -> None:
    (folder(forge) / "context.md").write_text("Ours.")
    interview = forge.discovery.begin("Returns", project="p", describe=False).id
    done = forge.discovery.say(FIRST, interview, project="p", describe=False)
    assert "update_org_context" not in {change.tool for change in done.account.changes}
    assert forge.discovery.org_context(project="p") == state(forge)["org_context"] == ""


def test_G6_a_turn_that_is_not_kept_describes_nothing(forge: Ragforge) -> None:
    interview = forge.discovery.begin("Returns", project="p").id
    events = forge.discovery.saying(FIRST, interview, project="p")
    next(events)
    events.close()  # type: ignore[attr-defined]
    assert forge.discovery.org_context(project="p") == state(forge)["org_context"] == ""
    assert forge.discovery.turns(interview, project="p") == [] and faults(forge) == []


# -- by code, never by a model


def test_G6_the_state_file_follows(forge: Ragforge, tmp_path: Path) -> None:
    before = state(forge)
    for text in (ORG, 'Other words.\n\nAnd 日本語 "quoted".'):
        forge.discovery.set_org_context(f"  {text}\n", project="p")
        assert state(forge) == {**before, "org_context": text}
    forge.add(fill(tmp_path / "docs", 3), project="p")
    assert len(state(forge)["file_summaries"]) == 3 and state(forge)["org_context"] == text
    list(forge.removing(["file0000.md"], project="p"))
    assert len(state(forge)["file_summaries"]) == 2 and state(forge)["org_context"] == text
    (folder(forge) / "project_state.json").write_text('{"org_context": "a person wrote this"}')
    assert forge.discovery.org_context(project="p") == text, "the file is only derived"
    assert [finding.subject for finding in faults(forge)] == ["p: project_state.json"]
    list(forge.check(repair=True))
    assert state(forge)["org_context"] == text and faults(forge) == []
    with pytest.raises(UserError, match="6,001 characters"):
        forge.discovery.set_org_context("x" * 6_001, project="p")
    assert state(forge)["org_context"] == text


def test_G6_a_model_describes_it_in_the_words_of_the_person_only(tmp_path: Path) -> None:
    """By a tool, checked; the file is written by code. No word of a document gets into what outlives all of them."""
    canary = "zanzibarquokka"
    texts = (
        "A bank in Zürich with nine branches.",
        f"Nordlicht Möbel, furniture maker, Flensburg, support, owner of the {canary}.",
        "Nordlicht Möbel: furniture maker in Flensburg, with support.",
    )
    asked = {"reply": "Understood.", "questions": [{"text": "Who suffers most?"}, {"text": "Since when?"}]}
    server = ModelServer()
    with server, open_served(tmp_path / "ws", server) as forge:
        (tmp_path / "note.md").write_text(f"# Nordlicht\n\nNordlicht Möbel keeps a {canary} in Flensburg.\n")
        forge.add(tmp_path / "note.md", project="p")
        interview = forge.discovery.begin("Returns", project="p").id
        calls = [("update_org_context", json.dumps({"text": text})) for text in texts]
        server.acts.append([*calls, ("ask_questions", json.dumps(asked))])
        done = forge.discovery.say(FIRST, interview, project="p")
        changes = [each for each in done.account.changes if each.tool == "update_org_context"]
        assert [each.refused for each in changes] == [True, True, False]
        assert forge.discovery.org_context(project="p") == state(forge)["org_context"] == texts[2]
        assert canary in (folder(forge) / "project_state.json").read_text(), "the file's own summary"
        (removal,) = forge.removing(["note.md"], project="p")
        assert removal.erased and places_of(canary.encode(), forge.workspace) == []
        assert state(forge) == {"file_summaries": [], "org_context": texts[2]}


# -- a kill between the catalog and the file


def killed(workspace: Path, at: str, use: Callable[[Ragforge], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process does it, and dies at a failpoint."""
    monkeypatch.setenv("RAGFORGE_TESTING", "1")
    monkeypatch.setenv("RAGFORGE_FAILPOINT", f"{at}:kill")
    child = os.fork()
    if not child:
        try:
            use(open_forge(workspace))
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    monkeypatch.delenv("RAGFORGE_FAILPOINT")


USES: dict[str, tuple[Callable[[Ragforge], object], str]] = {
    "interview.begun": (lambda f: f.discovery.begin("Returns", project="p"), "Written in the file."),
    "interview.kept": (lambda f: f.discovery.say(FIRST, project="p"), FIRST.removesuffix(" Can you help us?")),
    "interview.described": (lambda f: f.discovery.set_org_context(ORG, project="p"), ORG),
}


@pytest.mark.parametrize("at", USES)
@pytest.mark.parametrize("mended_by", ["the next interview", "check", "the next work"])
def test_G6_a_stale_file_is_mended_by_whoever_comes_next(
    swift_path: Path, monkeypatch: pytest.MonkeyPatch, at: str, mended_by: str
) -> None:
    use, told = USES[at]
    workspace = swift_path / "workspace"
    with open_forge(workspace) as forge:
        if at == "interview.begun":
            (folder(forge) / "context.md").write_text(told)
        else:
            forge.discovery.begin("Returns", project="p")
    killed(workspace, at, use, monkeypatch)
    assert list((workspace / "inflight").glob("*-*")), "the note of who died"
    with open_forge(workspace) as forge:
        assert state(forge)["org_context"] == "", "it is stale"
        if mended_by == "the next interview":
            assert len(forge.discovery.all(project="p")) == 1
        elif mended_by == "check":
            assert faults(forge) == []
        else:
            forge.add(fill(swift_path / "docs", 1), project="p")
        assert state(forge)["org_context"] == told == forge.discovery.org_context(project="p")
        assert faults(forge) == [] and not list((workspace / "inflight").glob("*-*"))


def test_G6_a_turn_is_kept_where_the_file_cannot_be_written(forge: Ragforge) -> None:
    interview = forge.discovery.begin("Returns", project="p").id
    path = folder(forge) / "project_state.json"
    path.unlink()
    path.mkdir()
    done = forge.discovery.say(FIRST, interview, project="p")
    assert forge.discovery.turns(interview, project="p") == [done.turn] and path.is_dir()
    path.rmdir()
    list(forge.check())
    assert state(forge)["org_context"] == forge.discovery.org_context(project="p") != ""
    assert faults(forge) == []


def test_G6_no_note_is_left_by_who_describes_in_peace(forge: Ragforge) -> None:
    forge.discovery.set_org_context(ORG, project="p")
    forge.discovery.say("Returns are late.", forge.discovery.begin("Returns", project="p").id, project="p")
    assert not list((forge.workspace / "inflight").glob("*-*"))
