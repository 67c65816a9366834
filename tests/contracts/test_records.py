"""What a catalog keeps beside documents: conversations, interviews, texts, the log, artifacts, lessons, keys."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragforge.adapters.catalog.database import Database
from ragforge.ports import Catalog
from ragforge.testing.contracts.artifacts import ArtifactsContract
from ragforge.testing.contracts.conversations import ConversationsContract
from ragforge.testing.contracts.interviews import InterviewsContract
from ragforge.testing.contracts.keys import AccessKeysContract
from ragforge.testing.contracts.lessons import LessonsContract
from ragforge.testing.contracts.querylog import QueryLogContract
from ragforge.testing.contracts.texts import ProjectTextsContract
from ragforge.testing.postgres import TemporaryPostgres
from ragforge.testing.shelf import ManualClock
from tests.contracts.test_catalog import emptied


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, memory_folder: Path | None) -> Iterator[Database]:
    with tempfile.TemporaryDirectory(dir=memory_folder) as folder:
        if request.param == "sqlite":
            database = Database.sqlite(Path(folder) / "catalog.db", 30)
        else:
            server: TemporaryPostgres = request.getfixturevalue("postgres")
            database = Database.postgres(server.create())
        database.upgrade()
        yield database
        database.close()


class OnBoth:
    """A catalog with nothing in it."""

    @pytest.fixture
    def catalog(self, database: Database, clock: ManualClock) -> Catalog:
        return emptied(database, clock)


class TestConversations(OnBoth, ConversationsContract):
    pass


class TestInterviews(OnBoth, InterviewsContract):
    pass


class TestProjectTexts(OnBoth, ProjectTextsContract):
    pass


class TestQueryLog(OnBoth, QueryLogContract):
    pass


class TestArtifacts(OnBoth, ArtifactsContract):
    pass


class TestLessons(OnBoth, LessonsContract):
    pass


class TestAccessKeys(OnBoth, AccessKeysContract):
    pass
