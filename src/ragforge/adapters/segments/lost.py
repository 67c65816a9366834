"""How an engine's trouble with its files becomes one sentence: the index is lost, and is built again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ragforge.errors import IndexLost


def lost(engine: str, why: object) -> IndexLost:
    hint = "it is built again from the catalog: ragforge rebuild"
    return IndexLost(f"the {engine} index cannot be used: {why}", hint=hint)


@contextmanager
def reading(engine: str) -> Iterator[None]:
    """Whatever an engine raises over its files, a panic of Rust code too, means that the index is lost."""
    try:
        yield
    except (ValueError, OSError, MemoryError, OverflowError) as problem:
        raise lost(engine, problem) from problem
    except BaseException as problem:
        if not is_panic(problem):
            raise
        raise lost(engine, problem) from problem


def is_panic(problem: BaseException) -> bool:
    """Whether Rust code gave up; its exception is no `Exception` and cannot be imported."""
    return type(problem).__name__ == "PanicException"
