"""What every catalog keeps of a project's texts: all versions, of which the newest counts."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from ragforge.domain.records import ProjectText, ProjectTextKind
from ragforge.errors import TooLarge
from ragforge.operate.access import owner
from ragforge.testing.contracts.shelves import ShelfContract
from ragforge.testing.shelf import ManualClock, Shelf

RULES, MEMORY = ProjectTextKind.HARD_RULES, ProjectTextKind.PROJECT_MEMORY


def write(shelf: Shelf, text: str, kind: ProjectTextKind = RULES) -> ProjectText:
    with shelf.catalog.write() as unit:
        return unit.texts.write(shelf.scope, shelf.id, kind, text)


def read(shelf: Shelf, kind: ProjectTextKind = RULES) -> ProjectText:
    with shelf.catalog.read() as unit:
        return unit.texts.read(shelf.scope, shelf.id, kind)


def versions(shelf: Shelf, kind: ProjectTextKind = RULES) -> list[ProjectText]:
    with shelf.catalog.read() as unit:
        return unit.texts.versions(shelf.scope, shelf.id, kind)


class ProjectTextsContract(ShelfContract):
    """Hard Rules and Project Memory, in versions."""

    def test_every_project_begins_with_an_empty_text(self, shelf: Shelf) -> None:
        assert read(shelf) == ProjectText(RULES, 0, "", None)
        assert versions(shelf) == []
        assert write(shelf, "") == ProjectText(RULES, 0, "", None), "to write nothing over nothing is no version"

    def test_the_newest_counts_and_all_are_kept(self, shelf: Shelf, clock: ManualClock) -> None:
        first = write(shelf, "Antworte kurz. 日本語")
        assert first == ProjectText(RULES, 1, "Antworte kurz. 日本語", clock(), "owner")
        clock.advance(60)
        with shelf.catalog.write() as unit:
            guest = replace(owner(), principal="guest", projects=frozenset({shelf.id}))
            second = unit.texts.write(guest, shelf.id, RULES, "")
        assert second == ProjectText(RULES, 2, "", clock(), "guest"), "to empty it is a version"
        third = write(shelf, first.text)
        assert (third.version, third.text) == (3, first.text)
        assert read(shelf) == third and versions(shelf) == [third, second, first]
        assert read(shelf, MEMORY).version == 0

    def test_the_same_text_again_is_no_new_version(self, shelf: Shelf, clock: ManualClock) -> None:
        first = write(shelf, "a\x00b \ud83d")
        clock.advance(60)
        assert write(shelf, "a\x00b \ud83d") == first == read(shelf)
        assert write(shelf, first.text) == first
        assert versions(shelf) == [first]

    def test_a_text_that_no_prompt_could_hold_is_refused(self, shelf: Shelf) -> None:
        most = "ü" * 100_000
        assert write(shelf, most).text == most
        with pytest.raises(TooLarge, match="200,001 bytes is over the limit of 200,000") as refused:
            write(shelf, most + "x")
        assert refused.value.hint
        assert read(shelf).version == 1

    def test_writers_at_once_get_versions_of_their_own(self, shelf: Shelf) -> None:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda number: write(shelf, f"text {number}"), range(8)))
        assert [each.version for each in versions(shelf)] == list(range(8, 0, -1))
        assert len({each.text for each in versions(shelf)}) == 8

    def test_they_are_the_projects_own_and_go_with_it(self, shelf: Shelf) -> None:
        write(shelf, "mine")
        other = Shelf.create(shelf.catalog, "other")
        assert read(other).version == 0
        with shelf.catalog.write() as unit:
            unit.projects.remove(shelf.scope, shelf.id)
        assert versions(Shelf.create(shelf.catalog)) == []
