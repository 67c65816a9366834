"""I12: one summary paragraph for each file, made without a network, and in `project_state.json`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from ragforge import Ragforge
from tests.forge import open_forge, prose


def state(forge: Ragforge) -> Any:
    return json.loads((forge.workspace / "projects" / "p" / "project_state.json").read_text())


def test_I12_every_file_has_a_summary_and_the_state_file_shows_it(swift_path: Path) -> None:
    docs = swift_path / "docs"
    docs.mkdir()
    (docs / "returns.md").write_text(
        "# Returns\n\nDesks may be returned within thirty days of their delivery to the customer. "
        "A refund of the price of returned desks goes to the card of the customer. Weather was fine.\n"
    )
    (docs / "prices.csv").write_text("item,price\nchair,40\ndesk,200\n")
    (docs / "tool.py").write_text("def price(item):\n    return 40\n")
    with open_forge(swift_path / "workspace") as forge:
        forge.add(docs, project="p")
        documents = forge.documents(project="p")
        for document in documents:
            assert document.summary and len(document.summary) <= 420 and "\n" not in document.summary
        shown = state(forge)
        assert set(shown) == {"file_summaries", "org_context"}
        assert [entry["filename"] for entry in shown["file_summaries"]] == [d.name for d in documents]
        for entry, document in zip(shown["file_summaries"], documents, strict=True):
            assert set(entry) == {"filename", "uploaded_at", "summary", "chunk_count"}
            assert (entry["summary"], entry["chunk_count"]) == (document.summary, document.chunks)
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", entry["uploaded_at"])
        summary = forge.document("returns.md", project="p").summary
        assert "thirty days" in summary and "# " not in summary


def test_I12_the_state_file_follows_change_and_deletion(swift_path: Path) -> None:
    path = swift_path / "note.md"
    path.write_text(prose(1))
    with open_forge(swift_path / "workspace") as forge:
        assert state(forge)["file_summaries"] == []
        forge.add(path, project="p")
        first = state(forge)["file_summaries"][0]["summary"]
        path.write_text(prose(2))
        forge.add(path, project="p")
        (entry,) = state(forge)["file_summaries"]
        assert entry["summary"] != first
        list(forge.removing(["note.md"], project="p"))
        assert state(forge)["file_summaries"] == []
