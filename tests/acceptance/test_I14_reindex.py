"""I14: another splitter or model: only what changed, resumable, while readers and writers go on."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from ragforge import Ragforge
from ragforge.domain.cancel import Cancel, Cancelled
from ragforge.domain.strategy import Strategy
from ragforge.errors import ProviderError
from ragforge.ports import EmbedderCard
from ragforge.settings import load
from tests.forge import SMALL, WatchedEmbedder, faults, fill, open_forge, prose

OTHER = Strategy(name="chars", window_min=200, window_max=300, overlap_min=20, overlap_max=40)


class SecondModel(WatchedEmbedder):
    """Another model: the same tokenizer, other vectors."""

    @property
    def card(self) -> EmbedderCard:
        return EmbedderCard("second", "second/1", 32)

    def __init__(self) -> None:
        super().__init__(32)


def two_models(workspace: Path) -> tuple[Ragforge, WatchedEmbedder, SecondModel]:
    first, second = WatchedEmbedder(), SecondModel()
    settings = load(workspace, flags={"the test": {"ingest.batch_leaves": 10}})
    forge = Ragforge.open(settings, embedders={"hashing": first, "second": second})
    if not forge.projects():
        forge.create_project("p", strategy=SMALL, embedder="hashing")
    return forge, first, second


def test_I14_a_new_strategy_splits_again_and_keeps_what_is_the_same(swift_path: Path) -> None:
    docs = swift_path / "docs"
    fill(docs, 5)
    (docs / "tiny.md").write_text("# One\n\nA single sentence about oak.\n")
    embedder = WatchedEmbedder()
    with open_forge(swift_path / "workspace", embedder) as forge:
        forge.add(docs, project="p")
        before = {d.name: forge.chunks(d.id, project="p") for d in forge.documents(project="p")}
        embedded = set(embedder.texts)
        embedder.texts.clear()
        assert list(forge.reindexing(project="p", strategy=OTHER))
        assert forge.project("p").strategy == OTHER
        assert not embedded & set(embedder.texts), "a chunk that stayed as it was needs no new vector"
        for name, old in before.items():
            new = forge.chunks(name, project="p")
            assert new and all(chunk.generation == forge.project("p").generation for chunk in new)
            assert name == "tiny.md" or [c.text for c in new] != [c.text for c in old]
        calls = embedder.calls
        assert list(forge.reindexing(project="p", strategy=OTHER)) == [] and embedder.calls == calls
        assert faults(forge) == []


def test_I14_a_new_model_embeds_again_without_splitting(swift_path: Path) -> None:
    fill(swift_path / "docs", 5)
    forge, first, second = two_models(swift_path / "workspace")
    with forge:
        forge.add(swift_path / "docs", project="p")
        before = {d.id: forge.chunks(d.id, project="p") for d in forge.documents(project="p")}
        calls = first.calls
        list(forge.reindexing(project="p", embedder="second"))
        after = {d.id: forge.chunks(d.id, project="p") for d in forge.documents(project="p")}
        assert first.calls == calls and len(second.texts) == sum(map(len, before.values()))
        assert {c.id for chunks in after.values() for c in chunks} == {c.id for v in before.values() for c in v}
        assert forge.project("p").embedder == "second"
        (swift_path / "docs" / "later.md").write_text(prose(77))
        forge.add(swift_path / "docs", project="p")
        assert first.calls == calls and faults(forge) == []


def test_I14_a_failure_in_the_middle_resumes_with_the_rest(swift_path: Path) -> None:
    fill(swift_path / "docs", 30)
    forge, _, second = two_models(swift_path / "workspace")

    def fail() -> None:
        if second.calls == 4:
            raise ProviderError("the service is down", hint="try again")

    with forge:
        forge.add(swift_path / "docs", project="p")
        old = {d.id: forge.chunks(d.id, project="p") for d in forge.documents(project="p")}
        second.before = fail
        with pytest.raises(ProviderError):
            list(forge.reindexing(project="p", embedder="second"))
        assert forge.project("p").embedder == "hashing", "the old generation serves until the new one is whole"
        assert {d.id: forge.chunks(d.id, project="p") for d in forge.documents(project="p")} == old
        assert faults(forge) == []
        paid = list(second.texts)
        assert len(paid) == 30
        list(forge.reindexing(project="p", embedder="second"))
        assert len(second.texts) == len(set(second.texts)), "paid twice"
        assert forge.project("p").embedder == "second" and faults(forge) == []


def test_I14_a_kill_in_the_middle_resumes(swift_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(swift_path / "docs", 30)
    workspace = swift_path / "workspace"
    forge, _, _ = two_models(workspace)
    with forge:
        forge.add(swift_path / "docs", project="p")
    monkeypatch.setenv("RAGFORGE_TESTING", "1")
    monkeypatch.setenv("RAGFORGE_FAILPOINT", "reindex.embedding:kill@3")
    child = os.fork()
    if not child:
        forge, _, _ = two_models(workspace)
        list(forge.reindexing(project="p", embedder="second"))
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    monkeypatch.delenv("RAGFORGE_FAILPOINT")
    forge, _, second = two_models(workspace)
    with forge:
        assert forge.project("p").embedder == "hashing"
        total = sum(document.chunks for document in forge.documents(project="p"))
        list(forge.reindexing(project="p", embedder="second"))
        assert len(second.texts) == total - 20, "two batches were kept"
        assert forge.project("p").embedder == "second" and faults(forge) == []


def test_I14_readers_see_whole_generations_and_adds_come_out_right(swift_path: Path) -> None:
    docs = swift_path / "docs"
    fill(docs, 12)
    embedder = WatchedEmbedder()
    wrong: list[str] = []
    done = threading.Event()
    with open_forge(swift_path / "workspace", embedder, ingest__batch_leaves=10) as forge:
        forge.add(docs, project="p")

        def read() -> None:
            while not done.is_set():
                with forge._parts.catalog.read() as c:
                    project = c.projects.get(forge._scope, "p")
                    for document in c.documents.all(forge._scope, project.id):
                        chunks = c.documents.chunks(forge._scope, project.id, document.id)
                        if len(chunks) != document.chunks or not chunks:
                            wrong.append(f"{document.name}: {len(chunks)} of {document.chunks}")
                        if any(chunk.generation != project.generation for chunk in chunks):
                            wrong.append(f"{document.name}: a chunk of another generation")

        def add() -> None:
            with open_forge(swift_path / "workspace") as other:
                for number in range(100, 110):
                    (docs / f"during{number}.md").write_text(prose(number))
                    (docs / "file0003.md").write_text(prose(number + 500))
                    wrong.extend(file.message for file in other.add(docs, project="p").failed)

        threads = [threading.Thread(target=read), threading.Thread(target=add)]
        for thread in threads:
            thread.start()
        for strategy in (OTHER, SMALL, OTHER):
            list(forge.reindexing(project="p", strategy=strategy))
        threads[1].join()
        done.set()
        threads[0].join()
        assert wrong == []
        documents = forge.documents(project="p")
        assert len(documents) == 22 and all(document.chunks for document in documents)
        for document in documents:
            assert all(len(chunk.text) <= 300 for chunk in forge.chunks(document.id, project="p"))
        assert "Page 609" in forge.chunks("file0003.md", project="p")[0].text
        assert faults(forge) == []


def test_I14_going_back_leaves_nothing_of_the_unfinished_generation(swift_path: Path) -> None:
    fill(swift_path / "docs", 30)
    with open_forge(swift_path / "workspace", ingest__batch_leaves=10) as forge:
        forge.add(swift_path / "docs", project="p")
        cancel = Cancel()
        with pytest.raises(Cancelled):
            for _ in forge.reindexing(project="p", strategy=OTHER, cancel=cancel):
                cancel.set()
        list(forge.reindexing(project="p", strategy=SMALL))
        with forge._parts.catalog.read() as c:
            assert c.projects.building(forge._scope, forge.project("p").id) is None
        assert forge.project("p").strategy == SMALL and faults(forge) == []
