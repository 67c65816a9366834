"""I6: sections end at headings; long ones are split, short ones join, and never inside a sentence."""

from __future__ import annotations

from pathlib import Path

from ragforge.domain.strategy import Strategy
from tests.forge import open_forge

SENTENCE = "The desk number {} was made of oak in the year of the flood and sold to a friend of the house."


def document() -> str:
    long = "\n\n".join(" ".join(SENTENCE.format(n * 10 + k) for k in range(5)) for n in range(30))
    short = "".join(f"## Note {n}\n\nOnly a few words here.\n\n" for n in range(4))
    return f"# Handbook\n\n## Long part\n\n{long}\n\n{short}## Last part\n\n{SENTENCE.format(0)}\n"


def test_I6_sizes_and_boundaries_hold_on_what_is_stored(swift_path: Path) -> None:
    (swift_path / "book.md").write_text(document())
    with open_forge(swift_path / "workspace") as forge:
        forge.create_project("q", strategy=Strategy(), embedder="hashing")
        forge.add(swift_path / "book.md", project="q")
        chunks = forge.chunks("book.md", project="q")
    assert len(chunks) > 5
    assert all(chunk.tokens <= 500 for chunk in chunks)
    assert all(chunk.text.strip()[-1] in ".!?" for chunk in chunks), "ends inside a sentence"
    assert all(chunk.text.strip()[0] in "T#O" for chunk in chunks), "starts inside a sentence"
    assert "".join("".join(chunk.text.split()) for chunk in chunks) == "".join(document().split())
    notes = [chunk for chunk in chunks if "Note 0" in chunk.text]
    assert len(notes) == 1 and "Note 3" in notes[0].text, "sections under 100 tokens join"
