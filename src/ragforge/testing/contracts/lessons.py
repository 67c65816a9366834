"""What every catalog keeps of lessons: each capture once, each in its project, patterns that follow their captures."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from ragforge.domain.access import Scope
from ragforge.domain.lessons import (
    ANY,
    Calibration,
    Curve,
    EntryType,
    Facets,
    Lesson,
    LessonFilters,
    Measured,
    PatternState,
    Quality,
    RetentionClock,
    Told,
    Words,
)
from ragforge.errors import Conflict, NotAllowed, NotFound, UserError
from ragforge.operate.access import owner
from ragforge.ports import Unit
from ragforge.testing.contracts.shelves import ShelfContract
from ragforge.testing.shelf import CARD, OTHER_CARD, ManualClock, Shelf, scope_of

BACKEND = Facets(EntryType.FAILURE, "backend", "implementation", "python")
TOLD = Told(
    task="Build the API",
    failure_description="No connection 👩‍👩‍👧",
    error_message="ECONNREFUSED",
    solution_steps="Use the name of the service",
    decision_criteria="In containers",
    evidence="test_connects passes",
)
REJECTION = Facets(EntryType.REJECTION)
REJECTED = Told(gate_type="design", human_feedback="No retries", revision_approach="Retry with a budget")
VECTOR = b"\x00\x00\x80?" + bytes(12)
DAY = 86_400.0


def capture(
    shelf: Shelf, told: Told = TOLD, facets: Facets = BACKEND, *, verified: bool = True, key: str = ""
) -> Lesson:
    with shelf.catalog.write() as unit:
        return unit.lessons.capture(shelf.scope, shelf.id, facets, told, verified=verified, key=key)


def take_up(shelf: Shelf, lesson: Lesson, pattern: str = "") -> str:
    with shelf.catalog.write() as unit:
        unit.lessons.put_vectors(owner(), CARD, [(lesson.key, VECTOR, VECTOR)])
        return unit.lessons.take_up(shelf.scope, shelf.id, lesson.key, pattern)


def learnt(shelf: Shelf, *patterns: int) -> list[tuple[str, list[Lesson]]]:
    """Patterns of so many captures each."""
    made = []
    for number in patterns:
        lessons = [capture(shelf, replace(TOLD, task=f"task {each}")) for each in range(number)]
        id = take_up(shelf, lessons[0])
        for each in lessons[1:]:
            assert take_up(shelf, each, id) == id
        made.append((id, lessons))
    return made


class LessonsContract(ShelfContract):
    """Captures, patterns and outcomes."""

    def test_a_capture_comes_back_as_it_was(self, shelf: Shelf, clock: ManualClock) -> None:
        lesson = capture(shelf)
        assert (lesson.facets, lesson.told, lesson.verified, lesson.quality) == (BACKEND, TOLD, True, Quality.HIGH)
        assert (lesson.captured_at, lesson.captured_by, lesson.project) == (clock(), "owner", shelf.id)
        assert (lesson.embedded, lesson.pattern) == (False, "")
        rejection = capture(shelf, REJECTED, REJECTION)
        assert (rejection.facets, rejection.told, rejection.quality) == (REJECTION, REJECTED, Quality.HIGHEST)
        with shelf.catalog.read() as unit:
            assert unit.lessons.staged(shelf.scope, shelf.id) == [lesson, rejection]
            assert unit.lessons.staged(shelf.scope, shelf.id, 1) == [lesson]
            assert unit.lessons.get(shelf.scope, shelf.id, lesson.id) == lesson

    @pytest.mark.parametrize("kind", EntryType)
    def test_what_the_table_demands_is_demanded(self, shelf: Shelf, kind: EntryType) -> None:
        """The check of the staging table, below all validation."""
        with pytest.raises(Exception, match=r"(?i)check|refused|knowledge_staging"):
            capture(shelf, Told(solution_steps="x", approved_approach="y"), Facets(kind))

    def test_the_same_key_tells_it_once(self, shelf: Shelf) -> None:
        first = capture(shelf, key="k")
        assert capture(shelf, key="k") == first
        with pytest.raises(Conflict):
            capture(shelf, replace(TOLD, solution_steps="something else"), key="k")
        assert capture(shelf, key="other").id != first.id

    def test_a_capture_is_taken_up_once(self, shelf: Shelf, clock: ManualClock) -> None:
        lesson = capture(shelf)
        clock.advance(5)
        pattern = take_up(shelf, lesson)
        assert pattern
        assert take_up(shelf, lesson) == "", "a second checkpoint finds nothing to do"
        with shelf.catalog.read() as unit:
            assert unit.lessons.staged(shelf.scope, shelf.id) == []
            assert unit.lessons.pending(shelf.scope, shelf.id, 10) == []
            kept = unit.lessons.get(shelf.scope, shelf.id, lesson.id)
            assert (kept.embedded_at, kept.pattern) == (clock(), pattern)
            assert unit.patterns.count(shelf.scope, shelf.id) == 1

    def test_checkpoints_at_once_take_each_up_once(self, shelf: Shelf) -> None:
        lessons = [capture(shelf, replace(TOLD, task=str(number))) for number in range(8)]
        with ThreadPoolExecutor(4) as pool:
            taken = list(pool.map(lambda lesson: take_up(shelf, lesson), [*lessons, *lessons, *lessons]))
        assert sum(bool(each) for each in taken) == len(lessons)
        with shelf.catalog.read() as unit:
            assert unit.patterns.count(shelf.scope, shelf.id) == len(lessons)

    def test_pending_is_what_is_verified_and_staged(self, shelf: Shelf) -> None:
        waiting, ready = capture(shelf, verified=False), capture(shelf)
        with shelf.catalog.write() as unit:
            assert unit.lessons.pending(shelf.scope, shelf.id, 10) == [ready]
            assert unit.lessons.waiting(shelf.scope, shelf.id) == (1, 1)
            verified = unit.lessons.change(shelf.scope, shelf.id, waiting.id, verified=True)
            assert unit.lessons.pending(shelf.scope, shelf.id, 10) == [verified, ready]
            assert unit.lessons.waiting(shelf.scope, shelf.id) == (2, 0)

    def test_what_another_model_embedded_is_outdated_in_every_project(self, shelf: Shelf) -> None:
        mine = Shelf.create(shelf.catalog, "mine")
        taken = [capture(each) for each in (shelf, mine)]
        for each, lesson in zip((shelf, mine), taken, strict=True):
            take_up(each, lesson)
        capture(shelf)
        with shelf.catalog.write() as unit:
            assert unit.lessons.outdated(owner(), CARD.fingerprint, 10) == []
            assert [each.id for each in unit.lessons.outdated(owner(), OTHER_CARD.fingerprint, 10)] == [
                each.id for each in taken
            ]
            unit.lessons.put_vectors(owner(), OTHER_CARD, [(taken[0].key, VECTOR, VECTOR)])
            assert [each.id for each in unit.lessons.outdated(owner(), OTHER_CARD.fingerprint, 10)] == [taken[1].id]

    def test_what_was_corrected_meanwhile_is_known(self, shelf: Shelf) -> None:
        one, other = capture(shelf), capture(shelf)
        with shelf.catalog.write() as unit:
            assert unit.lessons.unchanged(owner(), [one, other]) == {one.key, other.key}
            unit.lessons.change(shelf.scope, shelf.id, one.id, told=replace(TOLD, evidence="another"))
            unit.lessons.remove(shelf.scope, shelf.id, [other.id])
            assert unit.lessons.unchanged(owner(), [one, other]) == set()

    def test_a_key_holds_also_when_a_person_corrected_what_it_told(self, shelf: Shelf) -> None:
        lesson = capture(shelf, key="k")
        with shelf.catalog.write() as unit:
            corrected = unit.lessons.change(shelf.scope, shelf.id, lesson.id, told=replace(TOLD, evidence="better"))
        assert capture(shelf, key="k") == corrected

    def test_lessons_that_come_while_others_expire_stay(self, shelf: Shelf, clock: ManualClock) -> None:
        """A checkpoint that joins a pattern, beside retention that would remove it: nothing new is lost."""
        for _ in range(4):
            (((id, _),)) = learnt(shelf, 1)
            clock.advance(10 * DAY)
            lesson, before = capture(shelf), clock() - timedelta(days=5)

            def prune(before: datetime = before) -> None:
                with shelf.catalog.write() as unit:
                    unit.lessons.prune(owner(), before, 100)

            with ThreadPoolExecutor(2) as pool:
                pruned = pool.submit(prune)
                taken = pool.submit(take_up, shelf, lesson, id)
                pruned.result()
                assert taken.result()
            with shelf.catalog.read() as unit:
                kept = unit.lessons.get(shelf.scope, shelf.id, lesson.id)
                assert unit.patterns.get(shelf.scope, shelf.id, kept.pattern).record.captures == 1
            with shelf.catalog.write() as unit:
                unit.lessons.remove(shelf.scope, shelf.id, [lesson.id])

    def test_what_is_staged_can_be_corrected_what_was_taken_up_cannot(self, shelf: Shelf) -> None:
        lesson = capture(shelf)
        with shelf.catalog.write() as unit:
            changed = unit.lessons.change(shelf.scope, shelf.id, lesson.id, told=replace(TOLD, evidence=""))
            assert changed == replace(lesson, told=replace(TOLD, evidence=""))
        take_up(shelf, lesson)
        with pytest.raises(Conflict), shelf.catalog.write() as unit:
            unit.lessons.change(shelf.scope, shelf.id, lesson.id, verified=False)

    def test_a_pattern_has_the_words_of_its_oldest_capture_and_counts_all(
        self, shelf: Shelf, clock: ManualClock
    ) -> None:
        first = capture(shelf)
        id = take_up(shelf, first)
        began = clock()
        clock.advance(60)
        second = capture(shelf, replace(TOLD, failure_description="other words"))
        take_up(shelf, second, id)
        with shelf.catalog.read() as unit:
            pattern = unit.patterns.get(shelf.scope, shelf.id, id)
            assert pattern.words == first.words
            assert (pattern.facets, pattern.quality, pattern.state) == (BACKEND, Quality.HIGH, PatternState.LIVE)
            assert (pattern.record.captures, pattern.first_at, pattern.last_at) == (2, began, clock())
            assert [each.id for each in unit.patterns.lessons(shelf.scope, shelf.id, id)] == [first.id, second.id]
        with shelf.catalog.write() as unit:
            assert unit.lessons.remove(shelf.scope, shelf.id, [first.id]) == 1
            assert unit.patterns.get(shelf.scope, shelf.id, id).words == second.words
            assert unit.lessons.remove(shelf.scope, shelf.id, [second.id, first.id]) == 1
            assert unit.patterns.all(shelf.scope, shelf.id) == []
            assert unit.lessons.keys(owner(), CARD.fingerprint) == []

    def test_people_judge_edit_merge_and_split(self, shelf: Shelf) -> None:
        (one, _), (two, lessons) = learnt(shelf, 1, 3)
        with shelf.catalog.write() as unit:
            patterns, scope = unit.patterns, shelf.scope
            patterns.judge(scope, shelf.id, one, PatternState.REJECTED, approved=False)
            assert [each.id for each in patterns.all(scope, shelf.id, PatternState.REJECTED)] == [one]
            assert patterns.seen_from(scope, shelf.id, [one, two]) == [patterns.get(scope, shelf.id, two)]
            assert len(unit.lessons.hidden(owner())) == 1
            words = Words("a problem", "a solution", "sometimes")
            patterns.edit(scope, shelf.id, two, words, 1)
            edited = patterns.get(scope, shelf.id, two)
            assert (edited.words, edited.edited, edited.approved, edited.version) == (words, True, True, 2)
            with pytest.raises(Conflict):
                patterns.edit(scope, shelf.id, two, words, 1)
            split = patterns.split(scope, shelf.id, two, [lessons[2].id])
            assert patterns.get(scope, shelf.id, split).record.captures == 1
            assert patterns.get(scope, shelf.id, two).record.captures == 2
            for wrong in ([], [each.id for each in lessons[:2]]):
                with pytest.raises(UserError):
                    patterns.split(scope, shelf.id, two, wrong)
            with pytest.raises(NotFound):
                patterns.split(scope, shelf.id, two, [lessons[2].id])
            assert len(unit.lessons.of_patterns(owner(), [two, split])) == 3
            patterns.record(scope, shelf.id, split, success=True, note="", key="k")
            patterns.merge(scope, shelf.id, two, [split, two])
            merged = patterns.get(scope, shelf.id, two)
            assert (merged.record.captures, merged.record.wins, merged.words) == (3, 1, words)
            with pytest.raises(NotFound):
                patterns.get(scope, shelf.id, split)
            assert patterns.record(scope, shelf.id, split, success=True, note="", key="k").pattern == two, "a retry"
            with pytest.raises(UserError, match="rejected"):
                patterns.merge(scope, shelf.id, two, [one])
            patterns.judge(scope, shelf.id, two, PatternState.REJECTED, approved=False)
            assert len(unit.lessons.rejected(shelf.scope, shelf.id)) == 4
            silent = patterns.split(scope, shelf.id, two, [lessons[0].id])
            assert patterns.get(scope, shelf.id, silent).state is PatternState.REJECTED
            version = patterns.get(scope, shelf.id, two).version
            patterns.edit(scope, shelf.id, two, words, version)
            assert not patterns.get(scope, shelf.id, two).approved
        elsewhere = replace(BACKEND, technology="go")
        for other in (capture(shelf, REJECTED, REJECTION), capture(shelf, facets=elsewhere)):
            id = take_up(shelf, other)
            with pytest.raises(UserError, match="same agent"), shelf.catalog.write() as unit:
                unit.patterns.merge(shelf.scope, shelf.id, two, [id])

    def test_outcomes_count_once_per_key(self, shelf: Shelf) -> None:
        ((id, _),) = learnt(shelf, 1)
        with shelf.catalog.write() as unit:
            first = unit.patterns.record(shelf.scope, shelf.id, id, success=True, note="it did", key="k")
            assert unit.patterns.record(shelf.scope, shelf.id, id, success=True, note="it did", key="k") == first
            with pytest.raises(Conflict):
                unit.patterns.record(shelf.scope, shelf.id, id, success=False, note="", key="k")
            unit.patterns.record(shelf.scope, shelf.id, id, success=False, note="it did not")
            record = unit.patterns.get(shelf.scope, shelf.id, id).record
            assert (record.captures, record.wins, record.losses, record.successes) == (1, 1, 1, 2)
            assert [each.note for each in unit.patterns.outcomes(shelf.scope, shelf.id, id)] == ["it did not", "it did"]
            with pytest.raises(NotFound):
                unit.patterns.record(shelf.scope, shelf.id, "f" * 16, success=True, note="")

    def test_filters_match_what_is_for_all(self, shelf: Shelf) -> None:
        anybody = replace(BACKEND, agent_type=ANY, task_type=ANY, technology=ANY)
        other = replace(BACKEND, agent_type="frontend", technology="react")
        keys: dict[Facets, int] = {}
        for facets in (BACKEND, anybody, other, REJECTION):
            take_up(shelf, capture(shelf, REJECTED if facets == REJECTION else TOLD, facets))
            with shelf.catalog.read() as unit:
                (keys[facets],) = unit.lessons.facet(shelf.scope, shelf.id, facets)
        for filters, found in (
            (LessonFilters(), {BACKEND, anybody, other, REJECTION}),
            (LessonFilters(agent_type="backend"), {BACKEND, anybody, REJECTION}),
            (LessonFilters(agent_type=ANY), {BACKEND, anybody, other, REJECTION}),
            (LessonFilters(technology="react", entry_type=EntryType.FAILURE), {anybody, other}),
            (LessonFilters("backend", "implementation", "python", EntryType.REJECTION), {REJECTION}),
            (LessonFilters(agent_type="nobody"), {anybody, REJECTION}),
        ):
            with shelf.catalog.read() as unit:
                assert unit.lessons.findable(shelf.scope, shelf.id, filters) == sorted(keys[each] for each in found)

    def test_what_is_shared_is_found_from_elsewhere_and_nothing_else(self, shelf: Shelf) -> None:
        mine = Shelf.create(shelf.catalog, "mine")
        guest = scope_of(mine.id)
        ((id, _),) = learnt(shelf, 1)
        ((own, _),) = learnt(mine, 1)
        with shelf.catalog.write() as unit:
            assert [each.id for each in unit.patterns.seen_from(guest, mine.id, [id, own])] == [own]
            assert len(unit.lessons.findable(guest, mine.id, LessonFilters())) == 1
            with pytest.raises(NotFound):
                unit.patterns.record(guest, mine.id, id, success=True, note="")
            unit.lessons.share(shelf.scope, shelf.id, True)
            assert unit.projects.with_id(shelf.scope, shelf.id).shares_lessons
            assert {each.id for each in unit.patterns.seen_from(guest, mine.id, [id, own])} == {id, own}
            assert len(unit.lessons.findable(guest, mine.id, LessonFilters())) == 2
            unit.patterns.record(guest, mine.id, id, success=True, note="a word of mine")
            assert unit.patterns.get(shelf.scope, shelf.id, id).record.wins == 1
            foreign = scope_of(shelf.id)
            (told,) = unit.patterns.outcomes(foreign, shelf.id, id)
            assert (told.note, told.recorded_by, told.project) == ("", "", ""), "words stay in their project"
            uses: tuple[Callable[[Unit], object], ...] = (
                lambda u: u.patterns.get(guest, mine.id, id),
                lambda u: u.patterns.judge(guest, mine.id, id, PatternState.REJECTED, approved=False),
                lambda u: u.patterns.edit(guest, mine.id, id, Words("a", "b", "c"), 1),
                lambda u: u.patterns.merge(guest, mine.id, own, [id]),
                lambda u: u.patterns.lessons(guest, mine.id, id),
                lambda u: u.patterns.outcomes(guest, mine.id, id),
            )
            for use in uses:
                with pytest.raises(NotFound):
                    use(unit)
            unit.lessons.share(shelf.scope, shelf.id, False)
            assert len(unit.lessons.findable(guest, mine.id, LessonFilters())) == 1

    def test_what_indexes_follow(self, shelf: Shelf) -> None:
        ((one, lessons), (two, _)) = learnt(shelf, 2, 1)
        with shelf.catalog.write() as unit:
            system, seq = owner(), unit.lessons.seq(owner())
            rows = unit.lessons.changed(system, CARD.fingerprint, -1, 0, 10)
            assert [row.key for row in rows] == unit.lessons.keys(system, CARD.fingerprint)
            assert [row.pattern for row in rows] == [one, one, two]
            assert all(row.problem == VECTOR and row.findable and row.project == shelf.id for row in rows)
            assert unit.lessons.changed(system, CARD.fingerprint, -1, rows[0].key, 1) == rows[1:2]
            assert unit.lessons.changed(system, CARD.fingerprint, seq, 0, 10) == []
            assert unit.lessons.changed(system, OTHER_CARD.fingerprint, -1, 0, 10) == []
            assert unit.lessons.indexed(system, CARD.fingerprint, [rows[1].key, 10**6]) == rows[1:2]
            split = unit.patterns.split(shelf.scope, shelf.id, one, [lessons[1].id])
            (moved,) = unit.lessons.changed(system, CARD.fingerprint, seq, 0, 10)
            assert (moved.key, moved.pattern, moved.seq) == (lessons[1].key, split, unit.lessons.seq(system))
            seq = unit.lessons.seq(system)
            unit.lessons.remove(shelf.scope, shelf.id, [lessons[0].id])
            assert unit.lessons.seq(system) > seq, "an index must look again, also when something only went"
            guest = scope_of(shelf.id)
            for use in self.uses_of_all_lessons():
                with pytest.raises(NotAllowed):
                    use(unit, guest)

    def uses_of_all_lessons(self) -> list[Callable[[Unit, Scope], object]]:
        return [
            lambda u, s: u.lessons.changed(s, CARD.fingerprint, -1, 0, 1),
            lambda u, s: u.lessons.indexed(s, CARD.fingerprint, [1]),
            lambda u, s: u.lessons.keys(s, CARD.fingerprint),
            lambda u, s: u.lessons.prune(s, ManualClock()(), 1),
            lambda u, s: u.lessons.outdated(s, CARD.fingerprint, 1),
            lambda u, s: u.lessons.unchanged(s, []),
            lambda u, s: u.lessons.put_vectors(s, CARD, []),
            lambda u, s: u.lessons.set_clock(s, RetentionClock(ManualClock()())),
            lambda u, s: u.lessons.put_calibration(s, CARD, _calibration(ManualClock())),
        ]

    def test_exactly_what_expired_goes(self, shelf: Shelf, clock: ManualClock) -> None:
        (old, _), (mixed, _) = learnt(shelf, 2, 1)
        with shelf.catalog.write() as unit:
            unit.patterns.record(shelf.scope, shelf.id, mixed, success=True, note="")
        clock.advance(10 * DAY)
        take_up(shelf, young := capture(shelf), mixed)
        staged = capture(shelf)
        before = clock() - timedelta(days=5)
        with shelf.catalog.write() as unit:
            assert unit.lessons.prune(owner(), before, 2) == (2, 1, 1)
            assert unit.lessons.prune(owner(), before, 2) == (1, 0, 0)
            assert unit.lessons.prune(owner(), before, 2) == (0, 0, 0)
            assert [each.id for each in unit.patterns.all(shelf.scope, shelf.id)] == [mixed]
            assert [each.id for each in unit.patterns.lessons(shelf.scope, shelf.id, mixed)] == [young.id]
            assert unit.lessons.keys(owner(), CARD.fingerprint) == [young.key]
            assert [each.id for each in unit.lessons.staged(shelf.scope, shelf.id)] == [staged.id]
            with pytest.raises(NotFound):
                unit.patterns.get(shelf.scope, shelf.id, old)

    def test_machines_that_prune_at_once_remove_each_once(self, shelf: Shelf, clock: ManualClock) -> None:
        learnt(shelf, 3, 2, 4, 1)
        clock.advance(10 * DAY)

        def prune(number: int) -> list[int]:
            removed = [0, 0, 0]
            while True:
                with shelf.catalog.write() as unit:
                    some = unit.lessons.prune(owner(), clock(), 2)
                removed = [before + now for before, now in zip(removed, some, strict=True)]
                if some[0] < 2:
                    return removed

        with ThreadPoolExecutor(4) as pool:
            each = list(pool.map(prune, range(4)))
        assert [sum(counts) for counts in zip(*each, strict=True)] == [10, 4, 0]
        with shelf.catalog.read() as unit:
            assert unit.lessons.keys(owner(), CARD.fingerprint) == []

    def test_lessons_go_with_their_project(self, shelf: Shelf) -> None:
        mine = Shelf.create(shelf.catalog, "mine")
        ((own, _),) = learnt(mine, 1)
        learnt(shelf, 2)
        with shelf.catalog.write() as unit:
            unit.lessons.share(owner(), mine.id, True)
            unit.patterns.record(owner(), shelf.id, own, success=False, note="words of the project that goes")
            unit.projects.remove(owner(), shelf.id)
            assert unit.patterns.get(owner(), mine.id, own).record.losses == 0
            assert len(unit.lessons.keys(owner(), CARD.fingerprint)) == 1

    def test_what_is_removed_is_written_down(self, shelf: Shelf) -> None:
        lesson = capture(shelf)
        with shelf.catalog.write() as unit:
            unit.lessons.remove(shelf.scope, shelf.id, [lesson.id, "f" * 16])
            assert [(str(each.kind), each.id) for each in unit.tombstones.all(owner())] == [("lesson", lesson.id)]

    def test_the_clock_and_calibrations_are_kept(self, shelf: Shelf, clock: ManualClock) -> None:
        with shelf.catalog.write() as unit:
            assert unit.lessons.clock(owner()) is None
            for kept in (RetentionClock(clock(), clock(), None), RetentionClock(clock(), None, clock())):
                unit.lessons.set_clock(owner(), kept)
                assert unit.lessons.clock(owner()) == kept
            made = _calibration(clock)
            assert unit.lessons.calibration(owner(), CARD.fingerprint) is None
            for each in (replace(made, data="older"), made):
                unit.lessons.put_calibration(owner(), CARD, each)
            assert unit.lessons.calibration(owner(), CARD.fingerprint) == made


def _calibration(clock: ManualClock) -> Calibration:
    curve = Curve((1.5, -2.0), 0.25)
    return Calibration(
        CARD.name, CARD.fingerprint, curve, curve, curve, curve, {"task": Measured(0.7, 0.9, 0.8, 10)}, clock(), "data"
    )
