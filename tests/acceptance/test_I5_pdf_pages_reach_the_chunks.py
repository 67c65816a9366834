"""I5: PDF text keeps its page numbers down to what a citation shows."""

from __future__ import annotations

from pathlib import Path

from tests.forge import open_forge
from tests.pdf_files import pdf


def test_I5_each_chunk_names_the_page_its_text_stands_on(swift_path: Path) -> None:
    pages = [
        [(72.0, 740.0 - 16 * line, f"Page{page} line{line} tells about desks and chairs of oak.") for line in range(30)]
        for page in range(1, 9)
    ]
    (swift_path / "book.pdf").write_bytes(pdf(pages))
    with open_forge(swift_path / "workspace") as forge:
        forge.add(swift_path / "book.pdf", project="p")
        chunks = forge.chunks("book.pdf", project="p")
    assert len(chunks) > 16
    seen = set()
    for chunk in chunks:
        first, last = chunk.locator.page, chunk.locator.page_end or chunk.locator.page
        assert first is not None and last is not None
        on = [page for page in range(1, 9) if f"Page{page} " in chunk.text]
        assert (first, last) == (min(on), max(on)), chunk
        assert chunk.locator.label() == f"p. {first}"
        seen.update(on)
    assert seen == set(range(1, 9))
