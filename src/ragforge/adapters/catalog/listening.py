"""Hears what other machines commit, by a connection of its own that only listens (LISTEN/NOTIFY of Postgres)."""

from __future__ import annotations

from typing import Any

import psycopg
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from ragforge.adapters.catalog.unit import CHANNEL
from ragforge.adapters.postgres import in_our_words, unreachable
from ragforge.domain.library import News, Topic

_TOPICS = frozenset(map(str, Topic))
"""Those that this version knows: a newer one may tell of others."""


class PostgresListening:
    def __init__(self, server: sa.Engine) -> None:
        """Raises `Unreachable` while the server is away, `Busy` while all our connections are in use."""
        try:
            pooled = server.raw_connection()
            connection: Any = pooled.driver_connection
            pooled.detach()  # it hears for others than whoever would get it next
            connection.autocommit = True
            connection.execute(f"LISTEN {CHANNEL}")
        except (DBAPIError, psycopg.Error, sa.exc.TimeoutError) as problem:
            raise in_our_words(problem) or unreachable() from problem
        self._connection: psycopg.Connection[Any] = connection

    def wait(self, seconds: float) -> list[News]:
        """What was told; as soon as something is, all that is there already."""
        try:
            told = list(self._connection.notifies(timeout=seconds, stop_after=1))
            if told:
                told += self._connection.notifies(timeout=0)
            else:  # a server that is gone without a word is found out
                self._connection.execute("SELECT 1")
        except (psycopg.Error, OSError) as problem:
            raise unreachable() from problem
        heard = (each.payload.partition(" ") for each in told)
        return list(dict.fromkeys(News(Topic(topic), of) for topic, _, of in heard if topic in _TOPICS))

    def close(self) -> None:
        self._connection.close()
