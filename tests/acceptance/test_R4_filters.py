"""R4: what the asker may not see, or did not ask for, is never a candidate; a narrow filter still fills k."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from ragforge import Ragforge
from ragforge.domain.access import Clearance
from ragforge.domain.cancel import Cancel
from ragforge.domain.library import Labels
from ragforge.domain.retrieval import Filters, Retrieved
from ragforge.errors import NotFound
from ragforge.testing.hashing import HashingEmbedder
from tests.forge import open_forge
from tests.proof import count

WORDS = "the oak chair stands in the hall beside the walnut desk"


def note(number: int) -> str:
    return f"# Note {number}\n\n{WORDS}, number {number} of word{number % 7} and word{number % 11}.\n"


def write(folder: Path, count: int, first: int = 0) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{number}.md" for number in range(first, first + count)]
    for number, path in enumerate(paths, first):
        path.write_text(note(number))
    return paths


def names(found: Retrieved) -> set[str]:
    return {passage.name for passage in found.passages}


@pytest.fixture
def forge(swift_path: Path) -> Iterator[Ragforge]:
    with open_forge(swift_path / "workspace", search__duplicates=1.0) as forge:
        forge.add(write(swift_path / "a", 10), project="p")
        labels = Labels("meeting", ("red", "agent:planner"), Clearance.RESTRICTED)
        forge.add(write(swift_path / "b", 3, 100), project="p", labels=labels)
        forge.add(write(swift_path / "c", 3, 200), project="p", labels=Labels("email", ("blue",)))
        yield forge


RESTRICTED = {"100.md", "101.md", "102.md"}
EMAILS = {"200.md", "201.md", "202.md"}


def test_R4_each_filter_alone(forge: Ragforge) -> None:
    def found(**filters: object) -> set[str]:
        return names(forge.search("oak chair", project="p", k=20, filters=Filters(**filters)))  # type: ignore[arg-type]

    assert len(found()) == 16
    assert found(documents=("3.md", "200.md")) == {"3.md", "200.md"}
    assert found(source_types=("meeting",)) == RESTRICTED
    assert found(source_types=("meeting", "email")) == RESTRICTED | EMAILS
    assert found(tags=("blue", "green")) == EMAILS
    assert found(tags=("blue",), source_types=("meeting",)) == set()
    assert found(confidentiality=Clearance.INTERNAL).isdisjoint(RESTRICTED)
    assert len(found(agent="planner")) == 16, "documents that name no agent are for every one"
    assert found(agent="tester").isdisjoint(RESTRICTED)
    now = datetime.now(UTC)
    assert found(since=now + timedelta(hours=1)) == set() == found(until=now - timedelta(hours=1))
    assert len(found(since=now - timedelta(hours=1), until=now + timedelta(hours=1))) == 16


def test_R4_a_file_that_is_off_is_not_found_and_on_it_is_again(forge: Ragforge) -> None:
    assert "7.md" in names(forge.search("oak chair number 7", project="p"))
    forge.enable(["7.md"], False, project="p")
    found = forge.search("oak chair number 7", project="p", k=20)
    assert "7.md" not in names(found) and len(found.passages) == 15
    forge.enable(["7.md"], True, project="p")
    assert "7.md" in names(forge.search("oak chair number 7", project="p"))


def test_R4_clearance_holds_for_the_next_question(forge: Ragforge) -> None:
    reader = Ragforge(forge._parts, replace(forge._scope, clearance=Clearance.INTERNAL))
    assert names(reader.search("oak chair", project="p", k=20)).isdisjoint(RESTRICTED)
    assert len(names(reader.search("oak chair", project="p", k=20))) == 13
    forge.label(["5.md"], project="p", confidentiality=Clearance.CONFIDENTIAL)
    assert "5.md" not in names(reader.search("oak chair", project="p", k=20))
    explained = reader.explain("oak chair number 101", project="p", k=20)
    assert explained.trace is not None
    assert {passage.name for passage in explained.trace.candidates}.isdisjoint(RESTRICTED | {"5.md"})


def test_R4_an_unknown_value_is_said(forge: Ragforge) -> None:
    with pytest.raises(NotFound, match=r"nothing\.md"):
        forge.search("oak", project="p", filters=Filters(documents=("nothing.md",)))
    found = forge.search("oak", project="p", filters=Filters(tags=("purple",)))
    assert found.passages == () and "no file of the project matches the filters" in found.notice
    with pytest.raises(NotFound, match="unknown"):
        forge.search("oak", project="unknown")


@pytest.mark.parametrize("share", [100, 10])
def test_R4_a_narrow_filter_fills_k_and_finds_the_best(swift_path: Path, share: int) -> None:
    """Recall against every vector that the filter lets through."""
    embedder = HashingEmbedder(64)
    total = count(1_500, 3_000)
    texts = [f"word{n % 97} word{n % 89} word{n % 83} word{n % 101} item{n}" for n in range(total)]
    docs = swift_path / "docs"
    docs.mkdir()
    with open_forge(swift_path / "workspace", search__duplicates=1.0, search__vector_candidates=60) as forge:
        for number, text in enumerate(texts):
            (docs / f"{number}.md").write_text(text + "\n")
        forge.add(docs, project="p")
        chosen = [f"{number}.md" for number in range(0, total, share)]
        forge.label(chosen, project="p", tags=["chosen"])
        allowed = {document.name for document in forge.documents(project="p") if "chosen" in document.labels.tags}
        assert len(allowed) == total // share
        hits = wanted = 0
        for number in range(40):
            question = f"word{number} word{number * 2 % 89} word{number * 3 % 83}"
            found = forge.search(
                question, project="p", filters=Filters(tags=("chosen",)), tuning=replace(forge.tuning(), alpha=1.0)
            )
            assert len(found.passages) == 10 and names(found) <= allowed
            query = embedder.embed_query(question, Cancel())
            exact = sorted(
                (-float(np.dot(vector, query)), passage)
                for passage, vector in _vectors(forge, embedder, allowed).items()
            )
            last = -exact[9][0]
            hits += sum(passage.scores["vectors"] >= last - 1e-5 for passage in found.passages)
            wanted += 10
        assert hits / wanted >= 0.98


_KNOWN: dict[frozenset[str], dict[str, np.ndarray]] = {}


def _vectors(forge: Ragforge, embedder: HashingEmbedder, names: set[str]) -> dict[str, np.ndarray]:
    """Vectors of the files' only chunks, as they were embedded."""
    from ragforge.domain.tokens import Passage

    key = frozenset(names)
    if key not in _KNOWN:
        texts = {name: f"[Source: {name}]\n{forge.chunks(name, project='p')[0].text}" for name in names}
        vectors = embedder.embed([Passage(text) for text in texts.values()], Cancel())
        _KNOWN[key] = dict(zip(texts, vectors, strict=True))
    return _KNOWN[key]
