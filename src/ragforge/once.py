"""A part of an object that is made when it is first asked for."""

from __future__ import annotations

from functools import cached_property
from threading import RLock
from typing import Any, Self, TypeVar, overload

T = TypeVar("T")


class once(cached_property[T]):
    """A `cached_property` that is made by one thread, however many ask at once: from Python 3.12 on those have no lock.

    For parts of which a second one would do harm: a pool, connections, a child process.
    """

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> T: ...
    def __get__(self, instance: object, owner: type[Any] | None = None) -> Any:
        if instance is None:
            return self
        with instance.__dict__.setdefault(f"{self.attrname} (lock)", RLock()):
            return super().__get__(instance, owner)
