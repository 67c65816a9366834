"""Everything ragforge raises on purpose.

    RagforgeError            message, hint (the next step), exit code
    ├── UserError            2  a wrong argument, setting or value
    │   ├── MissingExtra     2  an optional dependency is not installed
    │   ├── TooLarge         2  over a size limit
    │   └── Conflict         2  the same key for another request
    ├── NotFound             5  no such project, file, path
    ├── NotAllowed           6  the scope does not reach it
    │   ├── Unauthenticated  6  no key, or one that works no more
    │   └── OverLimit        6  the key has used what it may for now; `retry_after` seconds
    ├── ProviderError        7  a model or embedding service failed; `retryable` says whether to try again
    │   ├── WrongShape       7  a model answered, but not in the shape that was asked for
    │   ├── RateLimited      7  slow down; `retry_after` seconds when the provider said so
    │   └── QuotaExceeded    7  the account is exhausted; trying again does not help
    ├── BadVectors           7  wrong dimension, NaN or infinity from an embedder
    └── StoreError           8  the workspace cannot be read or written
        ├── Unreachable      8  a server that holds it does not answer just now
        ├── Busy             8  another process holds the writer's place
        ├── Outdated         8  the project changed under the work; the caller prepares it anew
        ├── DiskFull         8
        ├── CorruptStore     8
        └── IndexLost        8  a derived index is missing, damaged or of another model; it is built again

A file that cannot be parsed is no error: it is a `ParseFailure`, kept and shown.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragforge.domain.generation import Usage


class RagforgeError(Exception):
    """Base of all; `hint` tells a person what to do next."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UserError(RagforgeError):
    """A wrong argument, setting or value."""

    exit_code = 2


class MissingExtra(UserError):
    """An optional dependency is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} is not installed", hint=f'pip install "ragforge[{extra}]"')


class TooLarge(UserError):
    """Over a size limit."""


class Conflict(UserError):
    """What was asked for contradicts what is there, or what was asked before under the same key."""


class NotFound(RagforgeError):
    """No such project, file or path; or one the caller may not know of."""

    exit_code = 5


class NotAllowed(RagforgeError):
    """The caller's scope does not reach this."""

    exit_code = 6


class Unauthenticated(NotAllowed):
    """No key, or one that works no more."""


class OverLimit(NotAllowed):
    """A key has used as much as it may for now."""

    def __init__(self, message: str, *, hint: str = "", retry_after: float) -> None:
        super().__init__(message, hint=hint)
        self.retry_after = retry_after


class ProviderError(RagforgeError):
    """A model or embedding service failed."""

    exit_code = 7

    def __init__(self, message: str, *, hint: str = "", retryable: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.retryable = retryable
        self.usage: Usage | None = None
        """What was paid all the same: for a form that did not fit, or an answer that broke off."""


class RateLimited(ProviderError):
    """The provider asks to slow down."""

    def __init__(self, message: str, *, hint: str = "", retry_after: float | None = None) -> None:
        super().__init__(message, hint=hint, retryable=True)
        self.retry_after = retry_after


class WrongShape(ProviderError):
    """A model answered, but not in the shape that was asked for."""


class QuotaExceeded(ProviderError):
    """The account's quota is used up; trying again does not help."""


class BadVectors(RagforgeError):
    """An embedder returned vectors that cannot be used."""

    exit_code = 7


class StoreError(RagforgeError):
    """The workspace cannot be read or written."""

    exit_code = 8


class Unreachable(StoreError):
    """A server that holds the catalog, an index or files does not answer; what is asked again later may work."""


class Busy(StoreError):
    """Another process holds the writer's place."""


class Outdated(StoreError):
    """What the work was prepared from changed since: a generation, vectors, a talk, an interview; prepare it anew."""


class DiskFull(StoreError):
    """No space left."""


class CorruptStore(StoreError):
    """The catalog's file is damaged."""


class IndexLost(StoreError):
    """A derived index is missing, damaged or made for something else. It is built again from the catalog."""


def cannot_write(where: object, problem: OSError) -> StoreError:
    """What the file system refused, as a sentence with the next step."""
    if problem.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull("the disk is full; nothing was lost", hint="free some space and try again")
    refusal = f"cannot write {where}: {problem.strerror}"
    return StoreError(refusal, hint="check the folder's permissions, or choose another --workspace")
