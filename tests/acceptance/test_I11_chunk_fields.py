"""I11: everything a chunk must carry."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ragforge.domain.library import Labels
from tests.forge import open_forge, prose


def test_I11_a_chunk_and_its_document_carry_every_field(swift_path: Path) -> None:
    text = prose(1, 40)
    (swift_path / "note.md").write_text(text)
    with open_forge(swift_path / "workspace") as forge:
        forge.add(swift_path / "note.md", project="p", labels=Labels(tags=("trade", "oak")))
        document = forge.document("note.md", project="p")
        chunks = forge.chunks("note.md", project="p")
        project = forge.project("p")
    assert [chunk.position for chunk in chunks] == list(range(len(chunks)))
    for chunk in chunks:
        assert chunk.text == text[chunk.start : chunk.end] and chunk.tokens > 0
        assert chunk.locator.path == ("Page 1",)
        assert (chunk.document, chunk.project, chunk.version) == (document.id, project.id, document.version)
        assert chunk.generation == project.generation
        assert chunk.checksum == hashlib.blake2b(chunk.text.encode(), digest_size=16).hexdigest()
    assert len({chunk.id for chunk in chunks}) == len(chunks) == document.chunks
    assert (document.labels.tags, document.mime) == (("trade", "oak"), "text/markdown")
    assert datetime.now(UTC) - document.created_at < timedelta(minutes=5)


def test_I11_the_same_file_gives_the_same_chunks_but_ids_of_its_own_in_another_project(swift_path: Path) -> None:
    (swift_path / "note.md").write_text(prose(1, 40))
    with open_forge(swift_path / "workspace") as forge:
        forge.create_project("q", strategy=forge.project("p").strategy, embedder="hashing")
        for project in ("p", "q"):
            forge.add(swift_path / "note.md", project=project)
        here, there = (forge.chunks("note.md", project=project) for project in ("p", "q"))
    assert [chunk.text for chunk in here] == [chunk.text for chunk in there]
    assert not {chunk.id for chunk in here} & {chunk.id for chunk in there}
