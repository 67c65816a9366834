"""S6: turns without a vector of the project's model get one by `reindex`, and are recalled by their meaning again."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from ragforge import Ragforge
from ragforge.build import OFFLINE
from ragforge.domain.cancel import Cancel, Cancelled
from ragforge.domain.library import Finding
from ragforge.domain.strategy import Strategy
from ragforge.domain.tokens import Matrix, Passage
from ragforge.errors import ProviderError
from ragforge.ports import EmbedderCard
from ragforge.settings import load
from ragforge.testing.records import rollup, turn
from tests.forge import SMALL, WatchedEmbedder, faults

FILES = {
    "chairs.md": "# Chairs\n\nA chair can be returned for 60 days.\n",
    "lamps.md": "# Lamps\n\nOlaf mends a lamp.\n",
}
CHAIR = "How long can a chair be returned?"
BY_MEANING = "furniture refund"
"""Shares no word with the turn about chairs."""
SAME = {"furniture": "chair", "refund": "returned"}


class Meaning(WatchedEmbedder):
    """Knows that some words mean the same; its cosines are measured."""

    def __init__(self, name: str, dimension: int) -> None:
        super().__init__(dimension)
        self._card = EmbedderCard(name, f"{name}/1", dimension, cosine_floor=0.0)

    def embed(self, passages: Sequence[Passage], cancel: Cancel) -> Matrix:
        told = [" ".join(SAME.get(word, word) for word in passage.text.split()) for passage in passages]
        return super().embed([Passage(text) for text in told], cancel)


def opened(workspace: Path) -> tuple[Ragforge, Meaning, Meaning]:
    """A workspace with two files and two models of different dimensions."""
    first, second = Meaning("first", 512), Meaning("second", 256)
    settings = load(workspace, flags={"the test": {"ingest.batch_leaves": 10}})
    forge = Ragforge.open(settings, embedders={"first": first, "second": second})
    if not forge.projects():
        forge.create_project("p", strategy=SMALL, embedder="first")
        docs = workspace.parent / "docs"
        docs.mkdir()
        for name, text in FILES.items():
            (docs / name).write_text(text)
        assert not forge.add(docs, project="p").failed
    return forge, first, second


def talk(forge: Ragforge) -> str:
    """A conversation in which the first of six turns is about chairs."""
    thread = forge.begin_conversation("talk", project="p").id
    for question in (CHAIR, *["Who mends a lamp?"] * 5):
        forge.ask(question, project="p", conversation=thread, model=OFFLINE, stages=("memory",))
    return thread


def add_turns(forge: Ragforge, count: int, thread: str = "") -> str:
    """Turns without a vector, as they are kept when the model does not answer."""
    thread = thread or forge.begin_conversation("talk", project="p").id
    with forge._parts.catalog.write() as c:
        for number in range(count):
            told = turn(thread, f"What about number{number}?")
            c.conversations.add(forge._scope, forge.project("p").id, told, "", None)
    return thread


def vectors(forge: Ragforge, thread: str, model: Meaning) -> dict[str, bytes]:
    with forge._parts.catalog.read() as c:
        return c.conversations.vectors(forge._scope, forge.project("p").id, thread, model.card.fingerprint)


def recalled(forge: Ragforge, thread: str) -> bool:
    """Whether the turn about chairs comes back for a question that shares no word with it."""
    account = forge.prompt(BY_MEANING, project="p", conversation=thread, model=OFFLINE, stages=("memory",)).account
    return account.memory[0].kept


def warned(forge: Ragforge) -> list[Finding]:
    return [finding for finding in forge.check() if finding.subject == "p: memory"]


def test_S6_another_model_embeds_the_turns_too(swift_path: Path) -> None:
    forge, first, second = opened(swift_path / "workspace")
    with forge:
        thread = talk(forge)
        assert len(vectors(forge, thread, first)) == 6 and recalled(forge, thread)
        steps = list(forge.reindexing(project="p", embedder="second"))
        assert len(vectors(forge, thread, second)) == 6 and steps[-1].turns == 6
        assert recalled(forge, thread)
        assert vectors(forge, thread, first) == {}, "what no generation uses is swept"
        assert warned(forge) == [] and faults(forge) == []


def test_S6_a_turn_of_an_interview_is_embedded_by_its_summary(swift_path: Path) -> None:
    """It tells what the person said; the reply is questions that every interview asks."""
    forge, first, second = opened(swift_path / "workspace")
    said = ("We make chairs, and a chair is returned too late.", "Olaf mends every lamp.", "continue")

    def fail() -> None:
        raise ProviderError("the service is down", hint="try again")

    with forge:
        thread = forge.discovery.begin("Chairs", project="p").id
        first.before = lambda: None
        for message in said[:2]:
            forge.discovery.say(message, thread, project="p")
        first.before = fail
        forge.discovery.say(said[2], thread, project="p")
        first.before = lambda: None
        turns = forge.discovery.turns(thread, project="p")
        summaries = [turn.summary for turn in turns]
        assert all(summaries) and not any(
            turn.answer in summary for turn, summary in zip(turns, summaries, strict=True)
        )
        assert set(summaries[:2]) <= set(first.texts), "as it was stored"
        assert len(vectors(forge, thread, first)) == 2 and "1 turn " in warned(forge)[0].detail
        assert list(forge.reindexing(project="p"))[-1].turns == 1 and first.texts[-1] == summaries[2]
        stored = vectors(forge, thread, first)
        assert list(forge.reindexing(project="p", embedder="second"))[-1].turns == 3
        assert [text for text in second.texts if text in summaries] == summaries and len(stored) == 3
        (whole,) = [text for text in second.texts if "returned too late" in text]
        assert whole == summaries[0], "neither its questions nor its answer"
        assert len(vectors(forge, thread, second)) == 3 and warned(forge) == [] and faults(forge) == []


def test_S6_a_turn_that_was_kept_without_its_vector_gets_it_later(swift_path: Path) -> None:
    forge, first, _ = opened(swift_path / "workspace")

    def fail() -> None:
        raise ProviderError("the service is down", hint="try again")

    with forge:
        first.before = fail
        thread = talk(forge)
        first.before = lambda: None
        assert vectors(forge, thread, first) == {} and not recalled(forge, thread)
        [warning] = warned(forge)
        assert warning.ok and warning.warning and "6 turns" in warning.detail
        assert warning.hint == "ragforge reindex --project p"
        assert [step.turns for step in forge.reindexing(project="p")][-1] == 6
        assert recalled(forge, thread) and warned(forge) == [] and faults(forge) == []
        calls = first.calls
        assert list(forge.reindexing(project="p")) == [] and first.calls == calls


def test_S6_another_splitter_embeds_what_is_missing_and_nothing_twice(swift_path: Path) -> None:
    forge, first, _ = opened(swift_path / "workspace")
    with forge:
        thread = talk(forge)
        add_turns(forge, 3, thread)
        with forge._parts.catalog.write() as c:
            c.conversations.roll(forge._scope, forge.project("p").id, rollup(thread, 7, 8), "", None)
        before = vectors(forge, thread, first)
        steps = list(forge.reindexing(project="p", strategy=Strategy(name="chars")))
        assert steps[-1].turns == 4, "three turns and a summary"
        after = vectors(forge, thread, first)
        assert len(after) == 10 and before.items() <= after.items()


def test_S6_a_kill_between_two_batches_of_turns_loses_none(swift_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = swift_path / "workspace"
    forge, _, _ = opened(workspace)
    with forge:
        threads = [add_turns(forge, 12), add_turns(forge, 13)]
    monkeypatch.setenv("RAGFORGE_TESTING", "1")
    monkeypatch.setenv("RAGFORGE_FAILPOINT", "reindex.remembering:kill@2")
    child = os.fork()
    if not child:
        forge, _, _ = opened(workspace)
        list(forge.reindexing(project="p", embedder="second"))
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    monkeypatch.delenv("RAGFORGE_FAILPOINT")
    forge, _, second = opened(workspace)
    with forge:
        assert forge.project("p").embedder == "first"
        steps = list(forge.reindexing(project="p", embedder="second"))
        assert forge.project("p").embedder == "second" and steps[-1].turns == 15, "the first ten were kept"
        assert len(second.texts) == 15, "the chunks were, too"
        assert [len(vectors(forge, thread, second)) for thread in threads] == [12, 13]
        assert faults(forge) == []


def test_S6_what_is_removed_while_it_is_embedded_gets_no_vector(swift_path: Path) -> None:
    forge, first, _ = opened(swift_path / "workspace")
    with forge:
        thread, gone = add_turns(forge, 3), add_turns(forge, 1)
        removed = forge.turns(thread, project="p")[0].id
        with forge._parts.catalog.write() as c:
            later = turn(thread, "And that?", standalone="And what was said first?")
            c.conversations.add(forge._scope, forge.project("p").id, later, "", None)

        def remove() -> None:
            first.before = lambda: None
            forge.remove_turn(removed, project="p")
            forge.remove_conversation(gone, project="p")

        first.before = remove
        list(forge.reindexing(project="p"))
        assert set(vectors(forge, thread, first)) == {each.id for each in forge.turns(thread, project="p")}
        assert first.texts[-1].startswith("And that?"), "embedded again, without the words of what was removed"
        assert faults(forge) == []


def test_S6_a_turn_that_comes_before_the_swap_is_embedded_with_the_rest(swift_path: Path) -> None:
    forge, _, second = opened(swift_path / "workspace")
    with forge:
        thread = add_turns(forge, 2)
        for step in forge.reindexing(project="p", embedder="second"):
            if step.stage == "indexing" and len(forge.turns(thread, project="p")) == 2:
                add_turns(forge, 1, thread)
        assert len(vectors(forge, thread, second)) == 3


def test_S6_it_stops_when_told_to_and_goes_on(swift_path: Path) -> None:
    forge, first, _ = opened(swift_path / "workspace")
    with forge:
        thread, cancel = add_turns(forge, 25), Cancel()
        with pytest.raises(Cancelled):
            for step in forge.reindexing(project="p", cancel=cancel):
                assert step.turns == 10
                cancel.set()
        assert len(vectors(forge, thread, first)) == 10
        assert [step.turns for step in forge.reindexing(project="p")] == [10, 15, 15]
