"""A newer version brings the tables of a Postgres catalog up to date while others read and write."""

from __future__ import annotations

import datetime as dt
import threading
import time
from itertools import count

import sqlalchemy as sa

from ragforge.adapters.catalog.catalog import SqlCatalog
from ragforge.adapters.catalog.database import HEAD, Database
from ragforge.operate.access import owner
from ragforge.testing.postgres import TemporaryPostgres
from ragforge.testing.shelf import Shelf

BEFORE = "0012"


def test_others_read_and_write_while_the_tables_are_upgraded(postgres: TemporaryPostgres) -> None:
    url = postgres.create()
    database = Database.postgres(url)
    with database.write() as connection:
        database.migrate_on(connection, BEFORE)
    catalog = SqlCatalog(database, lambda: dt.datetime.now(dt.UTC))
    shelf = Shelf.create(catalog)
    ended, slowest, done, problems = threading.Event(), [0.0], [0], []

    def work(number: int) -> None:
        for turn in count():
            if ended.is_set():
                return
            began = time.monotonic()
            try:
                shelf.add(f"/{number}/{turn % 5}", f"Words of {number} and {turn}. " * 30)
                with catalog.read() as unit:
                    assert unit.documents.all(owner(), shelf.id)
            except Exception as problem:
                problems.append(problem)
                return
            slowest[0], done[0] = max(slowest[0], time.monotonic() - began), done[0] + 1

    workers = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(3)]
    for worker in workers:
        worker.start()
    while done[0] < 10 and not problems:
        time.sleep(0.01)
    newer = [SqlCatalog.connect(url, lambda: dt.datetime.now(dt.UTC)) for _ in range(2)]
    at = done[0]
    while done[0] < at + 10 and not problems:
        time.sleep(0.01)
    ended.set()
    for worker in workers:
        worker.join()
    assert problems == [] and slowest[0] < 20
    with newer[0].read() as unit:
        assert len(unit.documents.all(owner(), shelf.id)) == 15 or done[0] < 60
    with database.read() as connection:
        assert connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar() == HEAD
    for each in (catalog, *newer):
        each.close()
    postgres.drop(url)
