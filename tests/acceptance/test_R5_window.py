"""R5: the context keeps to its budget; parents come once, files before chunks, and what is left out is named."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragforge import Ragforge
from ragforge.domain.retrieval import Retrieved, Stage, Tuning
from ragforge.domain.strategy import Strategy
from tests.forge import SMALL, open_forge, prose

FILES = 6


@pytest.fixture(scope="module")
def forge(memory_folder: Path | None) -> Iterator[Ragforge]:
    with tempfile.TemporaryDirectory(dir=memory_folder) as name:
        folder = Path(name)
        (folder / "docs").mkdir()
        for number in range(FILES):
            (folder / "docs" / f"file{number}.md").write_text(about_harbours(number, 24))
        (folder / "long.md").write_text(about_harbours(99, 600))
        (folder / "equal").mkdir()
        for letter, sections in (("a", 4), ("b", 2), ("c", 1)):
            text = "".join(f"# {letter}\n\nharbours {words(letter, n)}\n\n" for n in range(sections))
            (folder / "equal" / f"{letter}.md").write_text(text)
        with open_forge(folder / "workspace") as forge:
            forge.add(folder / "docs", project="p")
            forge.create_project("windows", strategy=Strategy(name="tokens"), embedder="hashing")
            forge.add(folder / "long.md", project="windows")
            forge.create_project("equal", strategy=SMALL, embedder="hashing")
            forge.add(folder / "equal", project="equal")
            yield forge


def words(letter: str, number: int) -> str:
    return " ".join(f"{letter}{number}x{place}" for place in range(25))


def about_harbours(seed: int, sentences: int) -> str:
    return prose(seed, sentences).replace(".", " about harbours.")


def ask(forge: Ragforge, project: str = "p", question: str = "harbours", **tuning: int) -> Retrieved:
    return forge.search(question, project=project, context=True, tuning=Tuning(k=30, **tuning))  # type: ignore[arg-type]


def told(found: Retrieved) -> dict[bool, list[str]]:
    window = [each for each in found.decisions if each.stage is Stage.WINDOW]
    return {kept: [each.reason for each in window if each.kept is kept] for kept in (True, False)}


@pytest.mark.parametrize("tokens", [60, 200, 500, 2_000])
@pytest.mark.parametrize("chunks", [1, 4, 15])
def test_R5_the_budget_holds_and_what_is_left_out_is_named(forge: Ragforge, tokens: int, chunks: int) -> None:
    found = ask(forge, context_tokens=tokens, context_chunks=chunks)
    assert 0 < sum(block.tokens for block in found.context) <= tokens
    assert sum(len(block.chunks) for block in found.context) <= chunks
    reasons = told(found)
    assert len(reasons[True]) == sum(len(block.chunks) for block in found.context)
    assert all(reason.startswith("no room: ") for reason in reasons[False])
    assert len(reasons[True]) + len(reasons[False]) >= len(found.passages)


def test_R5_leaves_of_one_parent_give_the_parent_once(forge: Ragforge) -> None:
    found = ask(forge, context_tokens=100_000, context_chunks=100)
    chunks = {chunk.id: chunk for number in range(FILES) for chunk in forge.chunks(f"file{number}.md", project="p")}
    parents = [{(chunks[id].document, chunks[id].section) for id in block.chunks} for block in found.context]
    assert all(len(parent) == 1 for parent in parents)
    assert len(set().union(*parents)) == len(parents)
    assert any(len(block.chunks) > 1 for block in found.context)
    for block in found.context:
        assert block.whole
        own = [chunks[id] for id in block.chunks]
        whole = [c for c in chunks.values() if (c.document, c.section) == (own[0].document, own[0].section)]
        assert block.text == "".join(chunk.text for chunk in whole)
        assert block.tokens == sum(chunk.tokens for chunk in whole)


def test_R5_the_best_blocks_come_first_and_the_lowest_leave_first(forge: Ragforge) -> None:
    wide, narrow = (
        ask(forge, context_tokens=100_000, context_chunks=8),
        ask(forge, context_tokens=100_000, context_chunks=3),
    )
    for found in (wide, narrow):
        scores = [block.score for block in found.context]
        assert scores == sorted(scores, reverse=True)
    assert {id for block in narrow.context for id in block.chunks} <= {
        id for block in wide.context for id in block.chunks
    }


@pytest.mark.parametrize(("chunks", "files"), [(2, "ab"), (3, "abc"), (5, "aabbc"), (7, "aaaabbc")])
def test_R5_close_scores_prefer_more_files_over_more_chunks_of_one(forge: Ragforge, chunks: int, files: str) -> None:
    """Every chunk holds the word once among as many others: nothing tells them apart."""
    tuning = Tuning(k=30, alpha=0.0, context_chunks=chunks)
    found = forge.search("harbours", project="equal", context=True, tuning=tuning)
    assert len({passage.score for passage in found.passages}) == 1 and len(found.passages) == 7
    assert "".join(sorted(block.name[0] for block in found.context for _ in block.chunks)) == files


def test_R5_windows_that_overlap_are_joined_without_repeating(forge: Ragforge) -> None:
    found = ask(forge, "windows", context_tokens=100_000, context_chunks=100)
    chunks = {chunk.id: chunk for chunk in forge.chunks("long.md", project="windows")}
    assert len(chunks) > 3
    joined = [block for block in found.context if len(block.chunks) > 1]
    assert joined
    for block in joined:
        own = [chunks[id] for id in block.chunks]
        assert len(block.text) == own[-1].end - own[0].start < sum(len(chunk.text) for chunk in own)
        assert block.text.startswith(own[0].text) and block.text.endswith(own[-1].text)


def test_R5_a_leaf_larger_than_the_budget_stands_alone_and_says_so(forge: Ragforge) -> None:
    found = ask(forge, "windows", context_tokens=50)
    [block] = found.context
    assert block.tokens > 50
    [reason] = told(found)[True]
    assert reason.startswith("larger than the budget of 50 tokens")


def test_R5_a_section_that_begins_inside_a_table_brings_the_tables_header(swift_path: Path) -> None:
    rows = "".join(f"| item{number} | {number * 7} pounds | shelf {number % 9} |\n" for number in range(120))
    (swift_path / "prices.md").write_text(f"# Prices\n\n| Article | Price | Place |\n|---|---|---|\n{rows}")
    with open_forge(swift_path / "workspace") as forge:
        forge.add(swift_path / "prices.md", project="p")
        leaves = forge.chunks("prices.md", project="p")
        begins = {chunk.section: min(c.start for c in leaves if c.section == chunk.section) for chunk in leaves}
        inner = next(chunk for chunk in leaves[len(leaves) // 2 :] if chunk.start > begins[chunk.section])
        assert inner.header.startswith("| Article | Price | Place |")
        asked = next(word for word in inner.text.split() if word.startswith("item"))
        found = forge.search(asked, project="p", context=True, tuning=Tuning(k=1, context_chunks=1))
        (block,) = found.context
        assert block.whole and asked in block.text and block.chunks == (inner.id,)
        assert block.header == inner.header
