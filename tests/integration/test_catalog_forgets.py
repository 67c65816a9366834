"""What is removed of conversations, artifacts and texts leaves no byte in the workspace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from ragforge.adapters.catalog.catalog import SqlCatalog
from ragforge.domain.conversation import ConversationKind
from ragforge.domain.records import ProjectTextKind
from ragforge.ports import Unit
from ragforge.testing.interview_states import rich
from ragforge.testing.records import MODEL, artifact, entry, rollup, source, turn
from ragforge.testing.shelf import ManualClock, Shelf
from tests.forge import faults, fill, open_forge, places_of

CANARY = "zanzibarquokka"
VECTORS = [bytes(range(start, start + 64)) for start in (10, 90, 170)]
LONG = "harmless words that fill more than a page of the file " * 200


@dataclass
class Spread:
    """A catalog in which one secret stands wherever an answer can carry it."""

    catalog: SqlCatalog
    shelf: Shelf
    folder: Path
    document: str
    conversation: str
    turns: list[str]
    rollup: str
    artifact: str

    def places(self) -> list[str]:
        assert self.catalog.flush()
        needles = [CANARY.encode(), *VECTORS]
        return sorted({name for needle in needles for name in places_of(needle, self.folder)})

    def change(self, change: Callable[[Unit], object]) -> None:
        with self.catalog.write() as unit:
            change(unit)


def spread(folder: Path) -> Spread:
    """Turns that quote and summarise it, a question rewritten with it, a rollup, the log, a made document, and what an
    interview knows, in two versions."""
    catalog = SqlCatalog.open(folder / "catalog.db", ManualClock())
    shelf = Shelf.create(catalog)
    shelf.add("/other.md", "nothing to hide here")
    document = shelf.add("/secret.md", f"The {CANARY} sleeps.").document
    scope = shelf.scope
    with catalog.write() as unit:
        talk = unit.conversations.begin(scope, shelf.id, "About animals")
        for number in range(5):  # others around it, so that it does not stand at the edge of a page
            unit.conversations.add(scope, shelf.id, turn(talk.id, f"question {number}", answer=LONG), MODEL, None)
        quoting = turn(
            talk.id, answer=f"It is the {CANARY}. {LONG}{CANARY}", summary=CANARY, tags=(CANARY,), documents=(document,)
        )
        short = turn(talk.id, answer=CANARY, standalone=f"Where does the {CANARY} sleep?", documents=(document,))
        after = turn(talk.id, "And where?", standalone=f"Where does the {CANARY} sleep?", answer="Under the desk.")
        turns = [
            unit.conversations.add(scope, shelf.id, said, MODEL, vector)
            for said, vector in ((quoting, VECTORS[0]), (short, VECTORS[1]), (after, None))
        ]
        made = rollup(talk.id, 4, turns[1].number, title=CANARY, text=LONG + CANARY)
        unit.conversations.roll(scope, shelf.id, made, MODEL, VECTORS[2])
        asked = entry(conversation=talk.id, standalone=f"Where does the {CANARY} sleep?")
        unit.log.add(scope, shelf.id, asked)
        plan = artifact(source(1, document, f"{LONG} {CANARY}"), source(2, document, CANARY))
        plan = replace(plan, sources=tuple(replace(each, name=f"{CANARY}.md") for each in plan.sources))
        unit.artifacts.put(scope, shelf.id, plan)
        asked_of = unit.conversations.begin(scope, shelf.id, "Interview", kind=ConversationKind.DISCOVERY)
        state = unit.interviews.put(scope, shelf.id, asked_of.id, rich(document, document, LONG + CANARY))
        unit.interviews.put(scope, shelf.id, asked_of.id, replace(state, turn=3))
    return Spread(catalog, shelf, folder, document, talk.id, [said.id for said in turns], made.id, plan.id)


@pytest.fixture
def secret(swift_path: Path) -> Iterator[Spread]:
    spread_out = spread(swift_path)
    assert spread_out.places() == ["catalog.db"], "the test looks for the right bytes"
    yield spread_out
    spread_out.catalog.close()


def test_a_removed_document_is_in_no_answer_and_no_artifact(secret: Spread) -> None:
    secret.shelf.remove(secret.document)
    assert secret.places() == []
    with secret.catalog.read() as unit:
        kept = unit.conversations.turns(secret.shelf.scope, secret.shelf.id, secret.conversation)
        assert len(kept) == 8 and kept[5].question == "How long?" and kept[7].answer == "Under the desk."


def test_a_document_whose_last_path_is_gone_is_in_no_answer(secret: Spread) -> None:
    secret.shelf.remove_source("/secret.md")
    assert secret.places() == []


def test_what_is_removed_one_by_one_is_gone(secret: Spread) -> None:
    scope, project = secret.shelf.scope, secret.shelf.id
    secret.change(lambda unit: unit.conversations.unroll(scope, project, secret.rollup))
    assert secret.catalog.flush()
    assert places_of(VECTORS[2], secret.folder) == []
    with secret.catalog.write() as unit:
        for said in secret.turns[:2]:
            unit.conversations.remove_turn(scope, project, said)
    secret.change(lambda unit: unit.artifacts.remove(scope, project, secret.artifact))
    secret.change(lambda unit: unit.documents.remove(scope, project, secret.document))
    assert secret.places() == []


def test_a_removed_conversation_is_gone(secret: Spread) -> None:
    scope, project = secret.shelf.scope, secret.shelf.id
    secret.change(lambda unit: unit.conversations.remove(scope, project, secret.conversation))
    assert secret.catalog.flush()
    assert [name for vector in VECTORS for name in places_of(vector, secret.folder)] == []
    assert places_of(CANARY.encode(), secret.folder), "the document itself is still there"
    secret.shelf.remove(secret.document)
    assert secret.places() == []


def test_a_removed_project_is_gone(secret: Spread) -> None:
    scope, project = secret.shelf.scope, secret.shelf.id
    secret.change(lambda unit: unit.texts.write(scope, project, ProjectTextKind.HARD_RULES, LONG + CANARY))
    secret.change(lambda unit: unit.log.add(scope, project, entry(question=CANARY, note=CANARY)))
    secret.change(lambda unit: unit.projects.remove(scope, project))
    assert secret.places() == []


def test_pruned_questions_are_gone(secret: Spread) -> None:
    scope, project = secret.shelf.scope, secret.shelf.id
    word = "xylophonewombat"
    asked = entry(question=f"Is there a {word}?", note=word)
    secret.change(lambda unit: unit.log.add(scope, project, asked))
    assert secret.catalog.flush() and places_of(word.encode(), secret.folder)
    later = asked.asked_at.replace(year=2031)
    secret.change(lambda unit: unit.log.prune(scope, project, later))
    assert secret.catalog.flush() and places_of(word.encode(), secret.folder) == []


def test_the_proof_of_a_removal_counts_answers_too(swift_path: Path) -> None:
    docs, workspace = swift_path / "docs", swift_path / "workspace"
    fill(docs, 3)
    text = f"The {CANARY} sleeps under the walnut desk all day long, and nobody has ever seen it awake."
    (docs / "secret.md").write_text(text)
    with open_forge(workspace) as forge:
        forge.add(docs, project="p")
        document = forge.document("secret.md", project="p")
        catalog, scope = forge._parts.catalog, forge._scope
        with catalog.write() as unit:
            talk = unit.conversations.begin(scope, document.project, "talk")
            said = turn(talk.id, answer=f"“{text}” [1]", documents=(document.id,))
            unit.conversations.add(scope, document.project, said, MODEL, None)
            unit.artifacts.put(scope, document.project, artifact(source(1, document.id, text)))
        (removal,) = forge.removing(["secret.md"], project="p")
        assert removal.erased and not removal.remains
        assert places_of(CANARY.encode(), workspace) == [] and faults(forge) == []
