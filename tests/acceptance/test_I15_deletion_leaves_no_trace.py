"""I15: a deleted file leaves nothing behind in any byte of the workspace, and there is proof of it."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from ragforge import Ragforge
from ragforge.answer.artifacts import markdown
from ragforge.domain.cancel import Cancel
from ragforge.domain.tokens import Passage
from ragforge.testing.hashing import HashingEmbedder
from tests.forge import faults, fill, open_forge, places_of, prose
from tests.pdf_files import pdf

CANARY = "zanzibarquokka"


def secret(folder: Path) -> Path:
    path = folder / "secret.md"
    path.write_text(prose(4242, 30) + f"\nThe {CANARY} sleeps under the walnut desk all day long.\n")
    return path


def vectors_of(texts: list[str]) -> list[bytes]:
    matrix = HashingEmbedder(64).embed([Passage(text) for text in texts], Cancel())
    return [np.asarray(vector).tobytes()[64:128] for vector in matrix]


def test_I15_text_vectors_summary_and_bytes_are_gone(swift_path: Path) -> None:
    docs = swift_path / "docs"
    fill(docs, 10)
    path = secret(docs)
    (docs / "secret.pdf").write_bytes(pdf([[(72, 700, f"Another {CANARY} on paper.")]]))
    workspace = swift_path / "workspace"
    with open_forge(workspace) as forge:
        forge.add(docs, project="p")
        summary = forge.document("secret.md", project="p").summary
        chunks = forge.chunks("secret.md", project="p")
        leads = [f"[Source: {' > '.join(('secret.md', *c.locator.path))}]\n{c.header}{c.text}" for c in chunks]
        needles = [CANARY.encode(), summary[:40].encode(), *vectors_of(leads)]
        for needle in needles:
            assert places_of(needle, workspace), "the test looks for the right bytes"
        removals = list(forge.removing(["secret.md", "secret.pdf"], project="p"))
        assert all(removal.erased for removal in removals)
        assert removals[0].chunks == removals[0].vectors == len(chunks) and removals[0].blobs == 1
        assert removals[0].bytes_scanned > 10_000
        for needle in needles:
            assert places_of(needle, workspace) == []
        assert len(forge.documents(project="p")) == 10 and faults(forge) == []
    assert places_of(CANARY.encode(), workspace) == []
    assert path.exists(), "the user's own file is not ours to delete"


def test_I15_what_a_change_replaced_is_gone_too(swift_path: Path) -> None:
    path = secret(swift_path)
    with open_forge(swift_path / "workspace") as forge:
        forge.add(path, project="p")
        path.write_text(prose(5))
        forge.add(path, project="p")
        list(forge.removing(["secret.md"], project="p"))
        assert places_of(CANARY.encode(), swift_path / "workspace") == []


def test_I15_words_that_others_share_do_not_spoil_the_proof(swift_path: Path) -> None:
    docs = swift_path / "docs"
    fill(docs, 3)
    (docs / "twin.md").write_text((docs / "file0001.md").read_text() + "\nOne more sentence at the end of it.\n")
    with open_forge(swift_path / "workspace") as forge:
        forge.add(docs, project="p")
        kept = forge.chunks("file0001.md", project="p")
        (removal,) = forge.removing(["twin.md"], project="p")
        assert removal.erased
        assert forge.chunks("file0001.md", project="p") == kept and faults(forge) == []


def test_I15_a_whole_project_leaves_no_trace(swift_path: Path) -> None:
    secret(swift_path)
    with open_forge(swift_path / "workspace") as forge:
        forge.add(swift_path / "secret.md", project="p")
        assert all(removal.erased for removal in forge.remove_project("p"))
        assert places_of(CANARY.encode(), swift_path / "workspace") == []
        assert not (swift_path / "workspace" / "projects" / "p").exists()


def interview(forge: Ragforge) -> str:
    """An interview that quotes what the secret file says of returns, sums it up, and is written up."""
    id = forge.discovery.begin("Returns", project="p").id
    for message, probe in (
        ("We are Nordlicht, and returns are a burden for support.", ""),
        ("Support is swamped by returns.", "impact"),
        (f"The {CANARY[:4]} costs 600 euros a month, 40 tickets a week are about it.", "impact"),
        ("The cause is the old memo on returns.", "root-cause"),
    ):
        forge.discovery.say(message, id, project="p", probe=probe)
    forge.discovery.document(id, project="p", keep=True)
    return id


def test_I15_what_an_interview_quoted_is_gone_too(swift_path: Path) -> None:
    """From its turns, their vectors, every version of what it knows, and the document that was made of it."""
    docs, workspace = swift_path / "docs", swift_path / "workspace"
    fill(docs, 3)
    told = f"Returns of the {CANARY} cost 600 euros a month, and 40 tickets a week are about them."
    (docs / "secret.md").write_text(f"# Returns\n\n{told}\n")
    with open_forge(workspace) as forge:
        forge.add(docs, project="p")
        id = interview(forge)
        by_hand = forge.discovery.add_assumption("The memo is old.", id, project="p")
        state = forge.discovery.get(id, project="p").state
        assert any(told in point.text for point in state.points), "it was quoted"
        assert any(told in turn.answer for turn in forge.discovery.turns(id, project="p"))
        (made,) = forge.artifacts(project="p")
        assert any(told in section.text for section in made.sections)
        document = forge.document("secret.md", project="p").id
        holding = [turn for turn in forge.discovery.turns(id, project="p") if document in turn.documents]
        needles = [CANARY.encode(), b"cost 600 euros a month, and 40", *vectors_of([turn.summary for turn in holding])]
        for needle in needles:
            assert places_of(needle, workspace), "the test looks for the right bytes"
        (removal,) = forge.removing(["secret.md"], project="p")
        assert removal.erased
        for needle in needles:
            assert places_of(needle, workspace) == []
        left = forge.discovery.get(id, project="p").state
        assert by_hand in left.assumptions and left.points and left.version == state.version
        assert forge.discovery.org_context(project="p").startswith("We are Nordlicht")
        assert document not in forge.discovery.say("Returns are late.", id, project="p").turn.documents
        assert CANARY not in markdown(forge.discovery.document(id, project="p")) and faults(forge) == []
    assert places_of(CANARY.encode(), workspace) == []


def test_I15_a_removed_interview_and_a_turn_taken_back_leave_no_trace(swift_path: Path) -> None:
    workspace, word = swift_path / "workspace", b"xylophonewombat"
    with open_forge(workspace) as forge:
        id = forge.discovery.begin("Returns", project="p").id
        forge.discovery.say("We are Nordlicht, and returns are a burden for support.", id, project="p")
        for take_back in (
            lambda: forge.discovery.undo(id, project="p"),
            lambda: forge.discovery.remove(id, project="p"),
        ):
            forge.discovery.say(f"I think the {word.decode()} makes returns late.", id, project="p")
            assert word in repr(forge.discovery.get(id, project="p").state).encode() and places_of(word, workspace)
            take_back()
            forge.prune_log(datetime.now(UTC) + timedelta(days=1), project="p")  # it keeps what was asked
            assert places_of(word, workspace) == []
        assert faults(forge) == []


@pytest.mark.embedded("SQLite's write-ahead log keeps what a reader may still ask for", part="catalog")
def test_I15_pending_while_another_process_reads_and_finished_by_check(swift_path: Path) -> None:
    path = secret(swift_path)
    workspace = swift_path / "workspace"
    with open_forge(workspace) as forge:
        forge.add(path, project="p")
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if not child:  # holds a read transaction until told to end
        try:
            with open_forge(workspace) as forge, forge._parts.catalog.read() as c:
                c.projects.get(forge._scope, "p")
                os.write(ready[1], b"r")
                os.read(go[0], 1)
        finally:
            os._exit(0)
    os.read(ready[0], 1)
    with open_forge(workspace, store__busy_seconds=0.2) as forge:
        (removal,) = forge.removing(["secret.md"], project="p")
        assert not removal.erased and removal.pending and not removal.remains
        assert removal.pending == ("catalog.db-wal: another process reads the catalog",)
        assert forge.documents(project="p") == [], "it cannot be found all the same"
        os.write(go[1], b"g")
        os.waitpid(child, 0)
        forge.check()
        assert places_of(CANARY.encode(), workspace) == []
    for end in (*ready, *go):
        os.close(end)


def test_I15_what_a_kill_left_is_gone_too(swift_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = secret(swift_path)
    workspace = swift_path / "workspace"
    monkeypatch.setenv("RAGFORGE_TESTING", "1")
    monkeypatch.setenv("RAGFORGE_FAILPOINT", "ingest.publishing:kill")
    child = os.fork()
    if not child:
        open_forge(workspace).add(path, project="p")
        os._exit(0)
    os.waitpid(child, 0)
    monkeypatch.delenv("RAGFORGE_FAILPOINT")
    assert places_of(CANARY.encode(), workspace), "the kill left bytes behind"
    (workspace / "projects" / "p" / "project_state.json.ab12.new").write_text(CANARY)
    with open_forge(workspace) as forge:
        forge.check()
        assert places_of(CANARY.encode(), workspace) == []


@pytest.mark.alone
def test_I15_removing_many_is_quick(swift_path: Path) -> None:
    docs = swift_path / "docs"
    docs.mkdir()
    for number in range(60):  # texts that differ in a number only
        (docs / f"{number}.md").write_text(f"# Note {number}\n\nThe desk number {number} stands in a room.\n")
    with open_forge(swift_path / "workspace") as forge:
        forge.add(swift_path / "docs", project="p")
        began = time.monotonic()
        removals = list(forge.removing([d.id for d in forge.documents(project="p")], project="p"))
        assert len(removals) == 60 and sum(removal.searched for removal in removals) == 48
        assert all(removal.erased for removal in removals if removal.searched)
        assert time.monotonic() - began < 10
        assert list((swift_path / "workspace" / "uploads").rglob("*")) == []
