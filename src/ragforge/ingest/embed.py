"""Leaves -> vectors: what was embedded once is not embedded again."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from hashlib import blake2b

import numpy as np

from ragforge.domain.access import Scope
from ragforge.domain.cancel import Cancel
from ragforge.domain.documents import Parsed, Split, lead
from ragforge.domain.tokens import Ints, Matrix, Passage, Tokens
from ragforge.ports import Catalog, Embedder, Tokenizer

_FIRST_BATCH = 16
_LARGEST_BATCH = 256
_QUICK_SECONDS = 1.0


def passages(
    name: str, parsed: Parsed, split: Split, tokens: Tokens, tokenizer: Tokenizer
) -> list[tuple[bytes, Passage]]:
    """Each leaf as it is embedded, breadcrumb first, with that text's hash. Only the breadcrumbs are tokenised."""
    leads = [lead(name, leaf) for leaf in split.leaves]
    distinct = list(dict.fromkeys(leads))
    ids: dict[str, Ints] = {text: t.ids for text, t in zip(distinct, tokenizer.encode(distinct), strict=True)}
    first = tokens.starts.searchsorted([leaf.start for leaf in split.leaves])
    last = tokens.starts.searchsorted([leaf.end for leaf in split.leaves])
    found: list[tuple[bytes, Passage]] = []
    for before, leaf, low, high in zip(leads, split.leaves, first, last, strict=True):
        text = before + parsed.text[leaf.start : leaf.end]
        found.append((text_hash(text), Passage(text, np.concatenate((ids[before], tokens.ids[low:high])))))
    return found


def text_hash(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=16).digest()


def embed_missing(
    catalog: Catalog,
    scope: Scope,
    project: str,
    embedder: Embedder,
    wanted: Mapping[bytes, Passage],
    cancel: Cancel,
) -> Iterator[tuple[list[bytes], Matrix]]:
    """Vectors of the passages that have none yet, a batch at a time."""
    yield from embed_all(embedder, without_vectors(catalog, scope, project, embedder, wanted), cancel)


def without_vectors(
    catalog: Catalog, scope: Scope, project: str, embedder: Embedder, wanted: Mapping[bytes, Passage]
) -> dict[bytes, Passage]:
    """Those of the passages that have no vector yet."""
    with catalog.read() as c:
        known = c.embeddings.known(scope, project, embedder.card.fingerprint, wanted.keys())
    return {text_hash: passage for text_hash, passage in wanted.items() if text_hash not in known}


def embed_all(
    embedder: Embedder, wanted: Mapping[bytes, Passage], cancel: Cancel
) -> Iterator[tuple[list[bytes], Matrix]]:
    """Vectors of all of these, a batch at a time, longest first so that batches pad little.

    Batches grow while they are quick, so that a service is called seldom and a slow model gives signs of life.
    """
    missing = sorted(wanted, key=lambda h: -len(wanted[h].text))
    start, size = 0, _FIRST_BATCH
    while hashes := missing[start : start + size]:
        began = time.monotonic()
        vectors = embedder.embed([wanted[h] for h in hashes], cancel)
        yield hashes, vectors
        start += len(hashes)
        if time.monotonic() - began < _QUICK_SECONDS:
            size = min(2 * size, _LARGEST_BATCH)
