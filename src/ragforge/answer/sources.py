"""What can be cited: passages, chunks and blocks of context under their numbers, each with the lines above its text."""

from __future__ import annotations

from ragforge.domain.library import Chunk, Document
from ragforge.domain.prompts import Source
from ragforge.domain.retrieval import ContextBlock, Passage


def source_of_passage(number: int, passage: Passage) -> Source:
    """A passage as it was found."""
    text, shift = passage.header + passage.text, len(passage.header)
    return Source(
        number, passage.chunk, (passage.chunk,), passage.document, passage.name, passage.locator, passage.checksum,
        passage.score, text, passage.tokens, ((passage.chunk, shift, len(text)),),
    )  # fmt: skip


def source_of_chunk(number: int, document: Document, chunk: Chunk) -> Source:
    """A chunk that nobody searched for: of a project that is read whole."""
    text, shift = chunk.header + chunk.text, len(chunk.header)
    return Source(
        number, chunk.id, (chunk.id,), document.id, document.name, chunk.locator, chunk.checksum, 0.0, text,
        chunk.tokens, ((chunk.id, shift, len(text)),),
    )  # fmt: skip


def source_of_block(number: int, block: ContextBlock) -> Source:
    """Passages with the rest of their section, and where in it they stand."""
    shift = len(block.header)
    spans = tuple((chunk, start + shift, end + shift) for chunk, start, end in block.spans)
    return Source(
        number, block.best or block.chunks[0], block.chunks, block.document, block.name, block.locator,
        block.checksum, block.score, block.header + block.text, block.tokens, spans,
    )  # fmt: skip
