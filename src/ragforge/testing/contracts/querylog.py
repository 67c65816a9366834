"""What every catalog keeps of questions: figures that add up to the last digit, and no text of a document."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from ragforge.domain.access import Clearance
from ragforge.domain.cursor import Cursor
from ragforge.domain.generation import Usage
from ragforge.domain.records import LogEntry, Spent
from ragforge.errors import NotFound, UserError
from ragforge.operate.access import owner
from ragforge.testing.contracts.shelves import ShelfContract
from ragforge.testing.records import NOON, entry
from ragforge.testing.shelf import Shelf


def log(shelf: Shelf, *entries: LogEntry) -> None:
    with shelf.catalog.write() as unit:
        for each in entries:
            unit.log.add(shelf.scope, shelf.id, each)


def logged(shelf: Shelf, limit: int = 100, since: datetime | None = None) -> list[LogEntry]:
    with shelf.catalog.read() as unit:
        return unit.log.all(shelf.scope, shelf.id, limit, since)


def spent(shelf: Shelf, by: str, since: datetime | None = None) -> list[Spent]:
    with shelf.catalog.read() as unit:
        return unit.log.spent(shelf.scope, shelf.id, by, since)


class QueryLogContract(ShelfContract):
    """One entry for each question."""

    def test_an_entry_comes_back_as_it_was(self, shelf: Shelf) -> None:
        with shelf.catalog.write() as unit:
            talk = unit.conversations.begin(shelf.scope, shelf.id, "talk")
        full = entry(
            kind="error",
            question="Wo? 日本語",
            standalone="Where is it?",
            agent="architect",
            conversation=talk.id,
            k=8,
            chunks=(("c1", 0.5), ("c2", 0.125)),
            cited=("d2", "d1"),
            model="openai:gpt",
            profile="cheap",
            retrieval_ms=1.5,
            generation_ms=2.25,
            input_tokens=3_000_000_000,
            output_tokens=7,
            cost=Decimal("12.000000000001"),
            error="the provider said no",
            feedback="bad",
            note="too long",
        )
        bare = entry(cost=None, question="nul \x00")
        log(shelf, full, bare)
        with shelf.catalog.read() as unit:
            assert unit.log.get(shelf.scope, shelf.id, full.id) == full
            assert unit.log.get(shelf.scope, shelf.id, bare.id) == replace(bare, question="nul \ufffd")
            with pytest.raises(NotFound, match="no question 'gone'"):
                unit.log.get(shelf.scope, shelf.id, "gone")

    def test_an_entry_is_written_once(self, shelf: Shelf) -> None:
        first = entry()
        log(shelf, first, replace(first, question="other"))
        assert logged(shelf) == [first]

    def test_a_conversation_that_is_gone_or_anothers_is_left_empty(self, shelf: Shelf) -> None:
        guest = replace(owner(), principal="guest", projects=frozenset({shelf.id}))
        with shelf.catalog.write() as unit:
            foreign = unit.conversations.begin(guest, shelf.id, "theirs")
        log(shelf, entry(conversation="gone"), entry(conversation=foreign.id))
        assert [each.conversation for each in logged(shelf)] == ["", ""]

    def test_the_newest_come_first(self, shelf: Shelf) -> None:
        entries = [entry(asked_at=NOON + timedelta(milliseconds=number)) for number in (2, 0, 1, 3)]
        log(shelf, *entries)
        newest = sorted(entries, key=lambda each: each.asked_at, reverse=True)
        assert logged(shelf) == newest
        assert logged(shelf, limit=2) == newest[:2]
        assert logged(shelf, since=NOON + timedelta(milliseconds=1)) == newest[:3]

    def test_a_page_begins_where_the_one_before_ended(self, shelf: Shelf) -> None:
        """Several have the same moment; an entry that is gone by now leaves its moment."""
        moments = [NOON + timedelta(milliseconds=step) for step in (1, 0, 0, 0, -1)]
        log(shelf, *(entry(id=f"q{number}", asked_at=at) for number, at in enumerate(moments)))
        newest = logged(shelf)
        with shelf.catalog.read() as unit:
            for place, last in enumerate(newest):
                after = Cursor(last.asked_at, last.id)
                assert unit.log.all(shelf.scope, shelf.id, 2, after=after) == newest[place + 1 : place + 3]
            gone = Cursor(NOON, "gone\x00é")
            assert unit.log.all(shelf.scope, shelf.id, 10, after=gone) == newest[1:]

    def test_entries_are_found_by_the_beginning_of_their_ids(self, shelf: Shelf) -> None:
        for number, id in enumerate(("ab1", "ab2", "a_b", "b")):
            log(shelf, entry(id=id, asked_at=NOON + timedelta(seconds=number)))
        with shelf.catalog.read() as unit:
            found = {
                begins: [each.id for each in unit.log.all(shelf.scope, shelf.id, 10, begins=begins)]
                for begins in ("ab", "a_", "ab1", "x", "")
            }
        assert found == {"ab": ["ab2", "ab1"], "a_": ["a_b"], "ab1": ["ab1"], "x": [], "": ["b", "a_b", "ab2", "ab1"]}

    def test_an_answer_can_be_marked(self, shelf: Shelf) -> None:
        asked, other = entry(), entry()
        log(shelf, asked, other)
        with shelf.catalog.write() as unit:
            unit.log.mark(shelf.scope, shelf.id, asked.id, "good", "thanks é")
        assert set(logged(shelf)) == {replace(asked, feedback="good", note="thanks é"), other}
        with shelf.catalog.write() as unit:
            unit.log.mark(shelf.scope, shelf.id, asked.id, "", "")
        assert set(logged(shelf)) == {asked, other}
        with pytest.raises(UserError, match="'great'"), shelf.catalog.write() as unit:
            unit.log.mark(shelf.scope, shelf.id, asked.id, "great", "")
        with pytest.raises(NotFound), shelf.catalog.write() as unit:
            unit.log.mark(shelf.scope, shelf.id, "gone", "good", "")

    def test_sums_are_exact(self, shelf: Shelf) -> None:
        tenth = {"model": "m", "profile": "cheap", "input_tokens": 10, "output_tokens": 1, "cost": Decimal("0.1")}
        log(shelf, *(entry(**tenth) for _ in range(3)))
        log(shelf, entry(model="m", profile="premium", cost=Decimal("0.0000000375"), input_tokens=1))
        log(shelf, entry(model="free", cost=None, input_tokens=5))
        log(shelf, entry(model="m", profile="cheap", agent="architect", cost=None))
        assert spent(shelf, "model") == [
            Spent("free", 1, 5, 0, None, unpriced=1),
            Spent("m", 5, 31, 3, Decimal("0.3000000375")),
        ]
        assert spent(shelf, "profile") == [
            Spent("", 1, 5, 0, None, unpriced=1),
            Spent("cheap", 4, 30, 3, Decimal("0.3")),
            Spent("premium", 1, 1, 0, Decimal("0.0000000375")),
        ]
        assert [(each.name, each.questions) for each in spent(shelf, "agent")] == [("", 5), ("architect", 1)]
        with pytest.raises(UserError, match="'moon'") as refused:
            spent(shelf, "moon")
        assert "model, profile, agent, day" in refused.value.hint

    def test_what_came_after_an_entry_is_added_to_it(self, shelf: Shelf) -> None:
        priced, quoted, unpriced = (
            entry(input_tokens=100, output_tokens=10, cost=Decimal("0.01")),
            entry(cost=None),
            entry(input_tokens=100, cost=None),
        )
        log(shelf, priced, quoted, unpriced)
        more = Usage(7, 3, 1, Decimal("0.002"))
        with shelf.catalog.write() as unit:
            for each in (priced, quoted, unpriced):
                unit.log.charge(shelf.scope, shelf.id, each.id, more)
        assert set(logged(shelf)) == {
            replace(priced, input_tokens=107, output_tokens=13, cost=Decimal("0.012")),
            replace(quoted, input_tokens=7, output_tokens=3, cost=Decimal("0.002")),
            replace(unpriced, input_tokens=107, output_tokens=3),
        }
        with shelf.catalog.write() as unit:
            unit.log.charge(shelf.scope, shelf.id, priced.id, Usage(1, 1, 1))
            assert unit.log.get(shelf.scope, shelf.id, priced.id).cost is None, "of a part of it no price is known"
            with pytest.raises(NotFound):
                unit.log.charge(shelf.scope, shelf.id, "gone", more)

    def test_days_end_at_midnight_utc(self, shelf: Shelf) -> None:
        midnight = datetime(2030, 3, 1, tzinfo=UTC)
        moments = [midnight - timedelta(milliseconds=1), midnight, midnight + timedelta(hours=23, minutes=59)]
        log(shelf, *(entry(asked_at=asked) for asked in moments))
        assert [(day.name, day.questions) for day in spent(shelf, "day")] == [("2030-02-28", 1), ("2030-03-01", 2)]
        assert [(day.name, day.cost) for day in spent(shelf, "day", midnight)] == [("2030-03-01", Decimal("0.0246"))]

    def test_old_entries_are_pruned(self, shelf: Shelf) -> None:
        old, new = entry(asked_at=NOON - timedelta(days=1)), entry()
        log(shelf, old, new)
        with shelf.catalog.write() as unit:
            assert unit.log.prune(shelf.scope, shelf.id, NOON) == 1
            assert unit.log.prune(shelf.scope, shelf.id, NOON) == 0
        assert logged(shelf) == [new]

    def test_marked_entries_can_be_passed_over(self, shelf: Shelf) -> None:
        old = NOON - timedelta(days=1)
        plain, marked = entry(asked_at=old), entry(asked_at=old, feedback="bad")
        log(shelf, plain, marked)
        with shelf.catalog.write() as unit:
            assert unit.log.prune(shelf.scope, shelf.id, NOON, marked=False) == 1
        assert logged(shelf) == [marked]

    def test_a_guest_sees_their_own_questions_only(self, shelf: Shelf) -> None:
        guest = replace(owner(), principal="guest", projects=frozenset({shelf.id}), oversees=False)
        mine, theirs = entry(model="m", input_tokens=3), entry(model="m", input_tokens=4)
        log(shelf, mine)
        with shelf.catalog.write() as unit:
            unit.log.add(guest, shelf.id, theirs)
            assert unit.log.all(guest, shelf.id, 10) == [theirs]
            with pytest.raises(NotFound):
                unit.log.get(guest, shelf.id, mine.id)
            with pytest.raises(NotFound):
                unit.log.mark(guest, shelf.id, mine.id, "bad", "")
            assert [each.input_tokens for each in unit.log.spent(guest, shelf.id, "model")] == [4]
            assert [each.input_tokens for each in unit.log.spent(shelf.scope, shelf.id, "model")] == [7]
            assert unit.log.prune(guest, shelf.id, NOON + timedelta(days=1)) == 1
        assert logged(shelf) == [mine]

    def test_who_oversees_sees_everybodys_sums_and_with_full_clearance_their_questions(self, shelf: Shelf) -> None:
        theirs = entry(model="m", input_tokens=3)
        log(shelf, theirs)
        admin = replace(owner(), principal="admin", projects=frozenset({shelf.id}))
        low = replace(admin, clearance=Clearance.CONFIDENTIAL)
        all_but_overseeing = replace(owner(), principal="reader", oversees=False)
        with shelf.catalog.read() as unit:
            assert unit.log.all(admin, shelf.id, 10) == [theirs]
            assert unit.log.all(low, shelf.id, 10) == []
            assert unit.log.all(all_but_overseeing, shelf.id, 10) == []
            with pytest.raises(NotFound):
                unit.log.get(low, shelf.id, theirs.id)
            assert [each.input_tokens for each in unit.log.spent(low, shelf.id, "day")] == [3]
            assert unit.log.spent(all_but_overseeing, shelf.id, "day") == []

    def test_what_somebody_used_is_summed_over_all_projects(self, shelf: Shelf) -> None:
        other = Shelf.create(shelf.catalog, "other")
        guest = replace(owner(), principal="guest", projects=frozenset({shelf.id, other.id}), oversees=False)
        priced = {"model": "m", "input_tokens": 10, "output_tokens": 1, "cost": Decimal("0.1")}
        with shelf.catalog.write() as unit:
            unit.log.add(guest, shelf.id, entry(asked_at=NOON, **priced))
            unit.log.add(guest, other.id, entry(asked_at=NOON + timedelta(hours=1), **priced))
            unit.log.add(guest, shelf.id, entry(asked_at=NOON, input_tokens=5, cost=None))
            unit.log.add(guest, shelf.id, entry(asked_at=NOON - timedelta(milliseconds=1), **priced))
        log(shelf, entry(asked_at=NOON, **priced))
        with shelf.catalog.read() as unit:
            assert unit.log.used(owner(), "guest", NOON) == Spent("guest", 3, 25, 2, Decimal("0.2"), unpriced=1)
            assert unit.log.used(owner(), "nobody", NOON) == Spent("nobody", 0, 0, 0, None)
            assert unit.log.used(guest, "owner", NOON) == Spent("owner", 0, 0, 0, None)
            narrow = replace(owner(), projects=frozenset({other.id}))
            assert unit.log.used(narrow, "guest", NOON) == Spent("guest", 1, 10, 1, Decimal("0.1"))

    def test_it_is_the_projects_own_and_goes_with_it(self, shelf: Shelf) -> None:
        asked = entry()
        log(shelf, asked)
        other = Shelf.create(shelf.catalog, "other")
        log(other, replace(asked, question="elsewhere"))
        assert [each.question for each in logged(other)] == ["elsewhere"]
        with shelf.catalog.write() as unit:
            unit.projects.remove(shelf.scope, shelf.id)
        again = Shelf.create(shelf.catalog)
        assert logged(again) == [] and spent(again, "day") == []
        assert len(logged(other)) == 1
