"""An orchestrator's memory of what worked. Read this first.

capture     told by an agent -> checked, secrets masked -> staged; nothing is embedded in the flow of work
checkpoint  staged and verified -> embedded in batches -> the same lesson told before? one pattern : a new one
query       a task or a failure -> lessons near to it, filtered -> patterns -> by what was verified, most reliable first
context     the task, then the block that an agent reads
outcome     what came of it counts for the pattern
prune       a year after they were embedded, lessons go: from the catalog, the indexes, the disk
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING

from ragforge.domain.access import Scope
from ragforge.domain.cancel import Cancel
from ragforge.domain.lessons import (
    Calibration,
    CheckpointKind,
    CheckpointReport,
    Curve,
    EntryType,
    Facets,
    FoundLessons,
    FoundPattern,
    IndexedLesson,
    Lesson,
    LessonContext,
    LessonDecision,
    LessonFilters,
    Outcome,
    Pattern,
    PruneReport,
    Record,
    RetentionClock,
    Told,
    problem_text,
    solution_text,
)
from ragforge.domain.lessons import Words as PatternWords
from ragforge.domain.library import Finding, Progress
from ragforge.domain.retrieval import Degraded, QueryWords
from ragforge.domain.tokens import Passage, estimated_tokens
from ragforge.errors import RagforgeError, StoreError, UserError
from ragforge.failpoints import failpoint
from ragforge.flows.follow import in_full
from ragforge.flows.lesson_index import LessonIndex, Near
from ragforge.learn import calibrate, capture, context, match, rank, retention
from ragforge.ports import Catalog, Clock, Embedder, Unit

if TYPE_CHECKING:
    from ragforge.domain.tokens import Matrix, Vector

_BATCH = 64
"""Lessons embedded and committed together."""
_NEIGHBOURS = 16
"""Captures that a new one is compared with."""
_ROUNDS = 3
"""In which more patterns are looked for while captures of few fill the places."""
_NEAR = 12
"""Captures that a query looks at, by meaning and by words each."""
_WEIGHED = 8
"""Patterns that are looked for, where there are so many."""
_COUNTED = 64
"""Patterns of several projects that are grouped, at most."""
_BEHIND = 2_000
"""Newer captures that a query looks at where the indexes have not followed yet."""
_REJECTED = 200
"""Captures that this project rejected, which what others tell is compared with: the newest."""
_PRUNED = 5_000
"""Captures removed in one transaction."""
_LONGEST_QUESTION = 20_000
"""Characters of a task or a failure."""
_ASKED_FOR = 3
"""Captures of a pattern whose problem is looked for in others."""
TASK_RESULTS = 5
FAILURE_RESULTS = 3
_ALIKE = 5
"""Patterns near enough to be ranked: reliability decides among what fits, not over it."""


@dataclass(frozen=True, slots=True)
class Words:
    """How texts are read: what of them is compared, and what is looked for."""

    lexicon: match.Lexicon
    query: Callable[[str], QueryWords]


class Learn:
    """Lessons of all projects, each in somebody's scope."""

    def __init__(
        self,
        catalog: Catalog,
        system: Scope,
        embedder: Callable[[], Embedder],
        index: LessonIndex,
        words: Words,
        mask: Callable[[], Callable[[str], str]],
        clock: Clock,
        wanted: str,
    ) -> None:
        self._catalog = catalog
        self._system = system
        """What is derived is of all lessons, whoever asks."""
        self._embedder = embedder
        self._index = index
        self._words = words
        self._mask = mask
        self._clock = clock
        self._wanted = wanted
        """The embedder of the settings; another may stand in for it."""
        self._calibrations: dict[str, Calibration] = {}
        self._lock = Lock()

    # -- capture

    def capture(
        self, scope: Scope, project: str, facets: Facets, told: Told, *, verified: bool = True, key: str = ""
    ) -> Lesson:
        """Stage what was learnt. It is durable when this returns, and is found after the next checkpoint."""
        kept, mask = self.told(facets.entry_type, told), self._mask()
        for name in (facets.agent_type, facets.task_type, facets.technology):
            if mask(name) != name:
                raise UserError("a name of an agent, a task or a technology looks like a secret", hint="leave it out")
        with self._catalog.write() as c:
            return c.lessons.capture(scope, project, facets, kept, verified=verified and scope.vouches, key=key)

    def told(self, entry_type: EntryType, told: Told) -> Told:
        """Words as they are kept; raises what is wrong with them."""
        return capture.told(entry_type, told, self._mask())

    def words(self, words: PatternWords) -> PatternWords:
        """A person's words for a pattern as they are kept."""
        return capture.edited(words, self._mask())

    # -- checkpoint

    def checkpoint(
        self, scope: Scope, project: str, kind: CheckpointKind, cancel: Cancel
    ) -> Iterator[Progress | CheckpointReport]:
        """Take up what is staged. Each batch is whole in the catalog before the next begins; a kill repeats none."""
        began = time.monotonic()
        embedder = self._embedder()
        curves = self.calibration(embedder, cancel)
        fingerprint, embedded, merged, renewed = embedder.card.fingerprint, 0, 0, 0
        with self._catalog.read() as c:
            total, _ = c.lessons.waiting(scope, project)
        for renewed in self._renewed(embedder, cancel):
            yield Progress("embedding lessons anew", renewed, None)
        notices = self._followed(fingerprint, cancel)
        while True:
            cancel.check()
            with self._catalog.read() as c:
                lessons = c.lessons.pending(scope, project, _BATCH)
            if not lessons:
                break
            yield Progress("embedding lessons", embedded, max(total, embedded + len(lessons)))
            problems, solutions = _embedded(embedder, lessons, cancel)
            failpoint("lessons.embedded")
            vectored = list(zip(lessons, problems, solutions, strict=True))
            near = [self._neighbours(scope, project, each, vector, fingerprint) for each, vector, _ in vectored]
            with self._catalog.write() as c:
                same = c.lessons.unchanged(self._system, lessons)  # a person may have corrected one meanwhile
                kept = [(each, its) for each, its in zip(vectored, near, strict=True) if each[0].key in same]
                rows = [(each.key, problem.tobytes(), solution.tobytes()) for (each, problem, solution), _ in kept]
                c.lessons.put_vectors(self._system, embedder.card, rows)
                taken = self._taken_up(c, scope, project, kept, curves, fingerprint)
                failpoint("lessons.taking_up")
            failpoint("lessons.taken_up")
            embedded += len(taken)
            merged += sum(taken.values())
            notices |= self._followed(fingerprint, cancel)
        with self._catalog.read() as c:
            _, waiting = c.lessons.waiting(scope, project)
            patterns = c.patterns.count(scope, project)
        new = embedded - merged
        seconds = time.monotonic() - began
        yield CheckpointReport(
            kind,
            embedded,
            new,
            merged,
            renewed,
            waiting,
            patterns,
            seconds,
            (*self._instead(embedder), *sorted(notices)),
        )

    def _renewed(self, embedder: Embedder, cancel: Cancel) -> Iterator[int]:
        """Vectors of the model that is used now, for what was taken up with another: of all projects, before anything
        new is compared with it. How many so far."""
        renewed = 0
        while True:
            cancel.check()
            with self._catalog.read() as c:
                lessons = c.lessons.outdated(self._system, embedder.card.fingerprint, _BATCH)
            if not lessons:
                return
            vectored = zip(lessons, *_embedded(embedder, lessons, cancel), strict=True)
            rows = [(each.key, problem.tobytes(), solution.tobytes()) for each, problem, solution in vectored]
            with self._catalog.write() as c:
                c.lessons.put_vectors(self._system, embedder.card, rows)
            renewed += len(lessons)
            yield renewed

    def _instead(self, embedder: Embedder) -> tuple[str, ...]:
        wanted = self._wanted
        if embedder.card.name == wanted:
            return ()
        return (f"the model {wanted} is not here, so lessons use {embedder.card.name}: ragforge models pull {wanted}",)

    def _neighbours(self, scope: Scope, project: str, lesson: Lesson, vector: Vector, fingerprint: str) -> Near:
        """Captures that may tell the same: for the same agents and tasks, also of patterns that were rejected."""
        words = self._words.query(problem_text(lesson.facets, lesson.told))
        with self._catalog.read() as c:
            facet = c.lessons.facet(scope, project, lesson.facets)
            try:
                return self._near_patterns(c, fingerprint, vector, words, facet, _NEIGHBOURS, ())
            except StoreError:
                return Near((), -1)  # all are compared

    def _near_patterns(
        self,
        c: Unit,
        fingerprint: str,
        vector: Vector,
        words: QueryWords,
        facets: Sequence[int],
        k: int,
        hidden: Sequence[int],
    ) -> Near:
        """Captures of several patterns: one that was told very often does not keep the others from being found."""
        found: dict[int, None] = {}
        seq: int | None = None
        known: set[str] = set()
        for _ in range(_ROUNDS):
            near = self._index.near(fingerprint, vector, words, facets, k, hidden)
            seq = near.seq if seq is None else min(seq, near.seq)
            found |= dict.fromkeys(near.keys)
            known |= {each.pattern for each in c.lessons.indexed(self._system, fingerprint, near.keys)}
            if len(near.keys) < k or len(known) >= _WEIGHED:
                break
            hidden = sorted({*hidden, *c.lessons.of_patterns(self._system, known)})
        return Near(tuple(found), -1 if seq is None else seq)

    def _taken_up(
        self,
        c: Unit,
        scope: Scope,
        project: str,
        vectored: Sequence[tuple[tuple[Lesson, Vector, Vector], Near]],
        curves: Calibration,
        fingerprint: str,
    ) -> dict[int, bool]:
        """Make each part of a pattern; whether that was there before. What another process took up meanwhile is left.

        Whatever came into the catalog since the index was asked is compared too, so that two that are embedded
        together, here or there, become one.
        """
        if not vectored:
            return {}
        since = min(near.seq for _, near in vectored)
        newer = _pages(lambda after: c.lessons.changed(self._system, fingerprint, since, after, _BEHIND))
        asked = {key for _, near in vectored for key in near.keys}
        known_before = {each.key: each for each in c.lessons.indexed(self._system, fingerprint, asked)}
        came = {each.key: each for each in newer}
        sides: dict[int, match.Side] = {}
        taken: dict[int, bool] = {}
        for (lesson, problem, solution), its in vectored:
            own = match.side(lesson.facets, lesson.told, self._words.lexicon)
            candidates = {key: known_before[key] for key in its.keys if key in known_before} | came
            alike = []
            for each in candidates.values():
                if each.project == lesson.project and each.facets == lesson.facets and each.key != lesson.key:
                    if each.key not in sides:
                        sides[each.key] = match.side(each.facets, each.told, self._words.lexicon)
                    other = sides[each.key]
                    cosines = _cosine(problem, each.problem), _cosine(solution, each.solution)
                    alike.append((each.pattern, match.value(curves.lesson, match.of_lessons(*cosines, own, other))))
            known, _ = match.best(alike)
            if pattern := c.lessons.take_up(scope, project, lesson.key, known):
                taken[lesson.key] = pattern == known
                came |= {each.key: each for each in c.lessons.indexed(self._system, fingerprint, [lesson.key])}
        return taken

    def _followed(self, fingerprint: str, cancel: Cancel) -> set[str]:
        """What is done is durable whatever becomes of the indexes: one that fails now catches up later."""
        try:
            self._index.catch_up(fingerprint, cancel)
        except StoreError as problem:
            return {f"all is kept, but an index of lessons could not follow yet: {in_full(problem)}"}
        return set()

    # -- query

    def for_task(self, scope: Scope, project: str, task: str, filters: LessonFilters, limit: int) -> FoundLessons:
        """What is known before a task is begun."""
        return self._find(scope, project, task, filters, "task", match.TASK, limit)

    def for_failure(
        self, scope: Scope, project: str, failure: str, error: str, filters: LessonFilters, limit: int
    ) -> FoundLessons:
        """How the same failure was solved before. Only failures are looked at."""
        text = "\n".join(filter(None, (failure.strip(), error.strip())))
        filters = replace(filters, entry_type=EntryType.FAILURE)
        return self._find(scope, project, text, filters, "failure", match.FAILURE, limit)

    def _find(
        self, scope: Scope, project: str, text: str, filters: LessonFilters, kind: str, bar: float, limit: int
    ) -> FoundLessons:
        if not text.strip():
            raise UserError(f"there is no {kind} to ask about", hint=f"describe the {kind} in a sentence")
        if len(text) > _LONGEST_QUESTION:
            raise UserError(
                f"the {kind} is longer than {_LONGEST_QUESTION:,} characters", hint="tell what matters of it"
            )
        timings: dict[str, float] = {}
        began = time.perf_counter()
        embedder = self._embedder()
        vector = embedder.embed_query(text, Cancel())
        timings["embed"] = (time.perf_counter() - began) * 1_000
        curves, began = self.calibration(embedder, Cancel()), time.perf_counter()
        lexical, words = self._words.lexicon(text), self._words.query(text)
        with self._catalog.read() as c:
            facets = c.lessons.findable(scope, project, filters)
            rows, degraded = self._near(c, embedder.card.fingerprint, vector, words, facets)
            curve = curves.task if kind == "task" else curves.failure
            scored = self._scored(rows, vector, lexical, curve)
            timings["search"] = (time.perf_counter() - began) * 1_000
            began = time.perf_counter()
            best = sorted(scored, key=lambda id: (-scored[id][0], id))
            fitting = {id: scored[id] for id in best[:_COUNTED] if scored[id][0] >= bar}
            patterns = {each.id: each for each in c.patterns.seen_from(scope, project, fitting)}
            degraded += self._unlike(c, embedder) if facets and not rows else ()
            pending, waiting = (0, 0) if patterns else c.lessons.waiting(scope, project)
            no = self._own_no(c, scope, project, embedder.card.fingerprint, patterns)
        found = [_found(patterns[id], *fitting[id][:2]) for id in fitting if id in patterns]
        near = {id: each[2] for id, each in fitting.items()}
        found, decisions = self._grouped(project, found, near, curves)
        found, refused = self._wanted_here(found, near, no, curves)
        decisions += refused
        near_enough = sorted(found, key=lambda each: (-each.similarity, each.pattern.id))
        told = rank.ranked(near_enough[:_ALIKE])[:limit]
        told_ids = {each.pattern.id for each in told}
        decisions += [
            LessonDecision(each.pattern.id, each.pattern.id in told_ids, _why(each, told_ids), each.similarity)
            for each in near_enough
        ]
        decisions += [
            LessonDecision(id, False, f"below {bar:g}" if scored[id][0] < bar else "others fit better", scored[id][0])
            for id in best
            if id not in fitting
        ]
        timings["rank"] = (time.perf_counter() - began) * 1_000
        return FoundLessons(
            tuple(self._with_alternatives(told, near, curves)),
            bar,
            tuple(decisions),
            degraded,
            "" if told else _nothing(filters, bool(facets), bool(rows), pending, waiting),
            timings,
        )

    def _near(
        self, c: Unit, fingerprint: str, vector: Vector, words: QueryWords, facets: Sequence[int]
    ) -> tuple[list[IndexedLesson], tuple[Degraded, ...]]:
        """Captures of these facets that are near, as the catalog has them now."""
        if not facets:
            return [], ()
        allowed = set(facets)
        degraded: tuple[Degraded, ...] = ()
        hidden = c.lessons.hidden(self._system)
        try:
            near = self._near_patterns(c, fingerprint, vector, words, facets, _NEAR, hidden)
            newer = near.seq < c.lessons.seq(self._system)
            since = c.lessons.changed(self._system, fingerprint, near.seq, 0, _BEHIND) if newer else []
            if len(since) == _BEHIND:
                degraded = (Degraded("lessons", "an index is far behind, so that some lessons were not looked at"),)
        except StoreError as problem:
            near, newer = Near((), -1), True
            degraded = (Degraded("lessons", f"all lessons were read: {problem.message}", problem.hint),)
            since = list(_pages(lambda after: c.lessons.changed(self._system, fingerprint, -1, after, _BEHIND)))
        if newer:
            with suppress(RagforgeError):  # the next query need not do it
                self._index.catch_up(fingerprint, wait=False)
        rows = {each.key: each for each in c.lessons.indexed(self._system, fingerprint, near.keys)}
        rows |= {each.key: each for each in since}
        return [each for each in rows.values() if each.findable and each.facet in allowed], degraded

    def _scored(
        self, rows: Sequence[IndexedLesson], vector: Vector, lexical: match.Lexical, curve: Curve
    ) -> dict[str, tuple[float, float, IndexedLesson]]:
        """Of each pattern its best capture: how well it fits, its cosine, and which it is."""
        import numpy as np

        scored: dict[str, tuple[float, float, IndexedLesson]] = {}
        if not rows:
            return scored
        stored = np.frombuffer(b"".join(each.problem for each in rows), np.float32).reshape(len(rows), -1)
        for each, cosine in zip(rows, (stored @ vector).tolist(), strict=True):
            words = self._words.lexicon(problem_text(each.facets, each.told))
            fit = match.value(curve, match.of_problems(cosine, lexical, words))
            if each.pattern not in scored or fit > scored[each.pattern][0]:
                scored[each.pattern] = fit, cosine, each
        return scored

    def _unlike(self, c: Unit, embedder: Embedder) -> tuple[Degraded, ...]:
        """Nothing is near: perhaps because all was embedded with another model."""
        if not c.lessons.outdated(self._system, embedder.card.fingerprint, 1):
            return ()
        message = f"some lessons have no vectors of {embedder.card.name}"
        return (Degraded("lessons", message, "ragforge learn checkpoint embeds them anew"),)

    def _own_no(
        self, c: Unit, scope: Scope, project: str, fingerprint: str, found: Mapping[str, Pattern]
    ) -> list[IndexedLesson]:
        """What was rejected in this project, if something is told from others: they may tell the same."""
        if all(each.project == project for each in found.values()):
            return []
        return c.lessons.indexed(self._system, fingerprint, c.lessons.rejected(scope, project)[-_REJECTED:])

    def _wanted_here(
        self,
        found: Sequence[FoundPattern],
        rows: Mapping[str, IndexedLesson],
        no: Sequence[IndexedLesson],
        curves: Calibration,
    ) -> tuple[list[FoundPattern], list[LessonDecision]]:
        """Without what failed more often than it worked, and what this project said no to."""
        kept: list[FoundPattern] = []
        refused: list[LessonDecision] = []
        for each in found:
            row, why = rows[each.pattern.id], ""
            if each.record.losses > each.record.successes:
                why = f"failed {each.record.losses} times, worked {each.record.successes} times"
            elif any(other.project != row.project and self._same(row, other, curves) for other in no):
                why = "the same was rejected in this project"
            if why:
                refused.append(LessonDecision(each.pattern.id, False, why, each.similarity))
            else:
                kept.append(each)
        return kept, refused

    def _grouped(
        self, project: str, found: Sequence[FoundPattern], rows: Mapping[str, IndexedLesson], curves: Calibration
    ) -> tuple[list[FoundPattern], list[LessonDecision]]:
        """The same pattern of several projects is one, and counts for all of them. In one project, people decide."""
        kept: list[FoundPattern] = []
        decisions: list[LessonDecision] = []

        def place(one: FoundPattern) -> tuple[object, ...]:
            """This project's own words stand for the others', and those that a person approved."""
            own = one.pattern.project == project
            return not own, not one.pattern.approved, -one.record.successes, -one.similarity, one.pattern.id

        for each in sorted(found, key=place):
            same = next((other for other in kept if self._is_same(each, other, rows, curves)), None)
            if same is None:
                kept.append(each)
                continue
            record = same.record + each.record
            kept[kept.index(same)] = replace(
                same,
                record=record,
                bound=rank.lower_bound(record),
                label=rank.label_of(record),
                similarity=max(same.similarity, each.similarity),
                also=(*same.also, each.pattern.id),
            )
            decisions.append(
                LessonDecision(each.pattern.id, False, f"counted with {same.pattern.id}: the same", each.similarity)
            )
        return kept, decisions

    def _is_same(
        self, one: FoundPattern, other: FoundPattern, rows: Mapping[str, IndexedLesson], curves: Calibration
    ) -> bool:
        if one.pattern.project == other.pattern.project or one.pattern.facets != other.pattern.facets:
            return False
        return self._same(rows[one.pattern.id], rows[other.pattern.id], curves)

    def _same(self, one: IndexedLesson, other: IndexedLesson, curves: Calibration) -> bool:
        """Whether two captures tell the same."""
        if one.facets != other.facets:
            return False
        sides = (match.side(each.facets, each.told, self._words.lexicon) for each in (one, other))
        cosines = _between(one.problem, other.problem), _between(one.solution, other.solution)
        return match.value(curves.lesson, match.of_lessons(*cosines, *sides)) >= match.SAME

    def _with_alternatives(
        self, told: Sequence[FoundPattern], rows: Mapping[str, IndexedLesson], curves: Calibration
    ) -> Iterator[FoundPattern]:
        """Which of these solve the same problem in different ways."""
        for each in told:
            others = [
                other.pattern.id for other in told if other is not each and self._conflict(each, other, rows, curves)
            ]
            yield replace(each, alternative_to=tuple(others))

    def _conflict(
        self, one: FoundPattern, other: FoundPattern, rows: Mapping[str, IndexedLesson], curves: Calibration
    ) -> bool:
        if one.pattern.facets.entry_type != other.pattern.facets.entry_type:
            return False
        return self._same_problem(rows[one.pattern.id], rows[other.pattern.id], curves)

    def _same_problem(self, one: IndexedLesson, other: IndexedLesson, curves: Calibration) -> bool:
        words = (self._words.lexicon(problem_text(each.facets, each.told)) for each in (one, other))
        alike = match.of_problems(_between(one.problem, other.problem), *words)
        return match.value(curves.problem, alike) >= match.SAME

    def alternatives(self, scope: Scope, project: str, pattern: Pattern, lessons: Sequence[Lesson]) -> list[Pattern]:
        """Other patterns of the project that solve the same problem in another way."""
        embedder = self._embedder()
        fingerprint, curves = embedder.card.fingerprint, self.calibration(embedder, Cancel())
        with self._catalog.read() as c:
            own = c.lessons.indexed(self._system, fingerprint, [each.key for each in lessons])
            facet = c.lessons.facet(scope, project, pattern.facets)
            others: dict[str, None] = {}
            for each in own[:_ASKED_FOR]:
                rows, _ = self._near(c, fingerprint, _vector(each.problem), QueryWords(), facet)
                others |= dict.fromkeys(row.pattern for row in rows if self._same_problem(each, row, curves))
            others.pop(pattern.id, None)
            return c.patterns.seen_from(scope, project, others)

    def follow(self) -> None:
        """Bring the indexes to what a person changed; should that fail now, the next query does it."""
        with suppress(RagforgeError):
            self._index.catch_up(self._embedder().card.fingerprint, wait=False)

    # -- context

    def context(
        self, scope: Scope, project: str, task: str, failure: str, filters: LessonFilters, budget: int
    ) -> LessonContext:
        """What an agent reads before its task: the task, and what is known for it, or for a failure on the way."""
        if failure:
            found = self.for_failure(scope, project, failure, "", filters, FAILURE_RESULTS)
        else:
            found = self.for_task(scope, project, task, filters, TASK_RESULTS)
        return told_in_context(context.basic(task, filters), found, budget)

    # -- outcome

    def outcome(self, scope: Scope, project: str, pattern: str, *, success: bool, note: str, key: str) -> Outcome:
        """What came of applying a pattern. It counts from the next query on."""
        kept = self._mask()(capture.note(note))
        with self._catalog.write() as c:
            return c.patterns.record(scope, project, pattern, success=success, note=kept, key=key)

    # -- what similarity means

    def calibration(self, embedder: Embedder, cancel: Cancel, *, anew: bool = False) -> Calibration:
        """The embedder's curves: those that come with us, those that are stored, or new ones."""
        fingerprint = embedder.card.fingerprint
        with self._lock:
            if anew or fingerprint not in self._calibrations:
                self._calibrations[fingerprint] = self._calibrated(embedder, cancel, anew=anew)
            return self._calibrations[fingerprint]

    def _calibrated(self, embedder: Embedder, cancel: Cancel, *, anew: bool) -> Calibration:
        card, now = embedder.card, self._clock()
        known = None if anew else calibrate.known(card.fingerprint, card.name, now)
        if known is not None:
            return known
        with self._catalog.read() as c:
            stored = c.lessons.calibration(self._system, card.fingerprint)
        if stored is not None and not anew and stored.data == calibrate.data():
            return stored
        made = calibrate.calibrate(
            card.name,
            card.fingerprint,
            lambda texts: embedder.embed([Passage(text) for text in texts], cancel),
            lambda texts: _stacked([embedder.embed_query(text, cancel) for text in texts]),
            self._words.lexicon,
            now,
        )
        with self._catalog.write() as c:
            c.lessons.put_calibration(self._system, card, made)
        return made

    # -- prune

    def prune(self, cancel: Cancel, *, asked: bool = False, trusted: bool = False) -> PruneReport:
        """Remove what was embedded a year ago or earlier, at any size. Once a day, unless asked."""
        now = self._clock()
        with self._catalog.read() as c:
            known = c.lessons.clock(self._system)
        if not asked and not trusted and known is not None and abs(now - known.seen_at) < retention.LOOK:
            return PruneReport()  # whoever only looks keeps nobody from writing
        with self._catalog.write() as c:
            known = c.lessons.clock(self._system)
            judged = retention.judge(now, known, trusted=trusted, asked=asked)
            if judged.clock != known:
                c.lessons.set_clock(self._system, _not_yet(judged, known))
        if not judged.due:
            return PruneReport(paused=judged.paused)
        before, removed = now - retention.YEAR, (0, 0, 0)
        while True:
            cancel.check()
            with self._catalog.write() as c:
                some = c.lessons.prune(self._system, before, _PRUNED)
            removed = (removed[0] + some[0], removed[1] + some[1], removed[2] + some[2])
            failpoint("lessons.pruning")
            if some[0] < _PRUNED:
                break
        pending = self.erase(cancel) if any(removed) else ()
        with self._catalog.write() as c:
            c.lessons.set_clock(self._system, judged.clock)
        return PruneReport(*removed, before=before, pending=pending)

    def erase(self, cancel: Cancel) -> tuple[str, ...]:
        """Leave nothing of removed lessons on disk. Returns where that could not be done yet, and why."""
        try:
            pending = self._index.erase(self._embedder().card.fingerprint, cancel)
        except RagforgeError as problem:  # its model is not here
            pending = (f"indexes of lessons: {in_full(problem)}",)
        if not self._catalog.flush():
            pending = (*pending, "catalog.db-wal: another process reads the catalog")
        return pending

    def forget(self) -> tuple[str, ...]:
        """A project went: so do its lessons from the indexes, where there are any."""
        return self.erase(Cancel()) if self._index.exists() else ()

    def check(self, repair: bool) -> Iterator[Finding]:
        """The indexes of lessons against the catalog, where there are any."""
        with self._catalog.read() as c:
            if not self._index.exists() and not c.lessons.outdated(self._system, "", 1):
                return
        try:
            yield from self._index.check(self._embedder().card.fingerprint, repair=repair)
        except RagforgeError as problem:
            yield Finding("lessons: indexes", False, problem.message, problem.hint)


def told_in_context(basics: str, found: FoundLessons, budget: int) -> LessonContext:
    """The basics always; of what was found as much as there is room for."""
    block, shown, left_out = context.block(found.patterns, budget - estimated_tokens(basics), estimated_tokens)
    text = f"{basics}\n\n{block}" if block else basics
    ids = tuple(each.pattern.id for each in found.patterns[:shown])
    return LessonContext(text, block, estimated_tokens(text), ids, found, left_out)


def _not_yet(judged: retention.Judgement, known: RetentionClock | None) -> RetentionClock:
    """Pruned is what it is when it has been done: a kill in between does it again."""
    return replace(judged.clock, pruned_at=known.pruned_at if known else None) if judged.due else judged.clock


def _embedded(embedder: Embedder, lessons: Sequence[Lesson], cancel: Cancel) -> tuple[Matrix, Matrix]:
    texts = [problem_text(each.facets, each.told) for each in lessons] + [solution_text(each.told) for each in lessons]
    vectors = embedder.embed([Passage(text) for text in texts], cancel)
    return vectors[: len(lessons)], vectors[len(lessons) :]


def _found(pattern: Pattern, similarity: float, cosine: float) -> FoundPattern:
    record: Record = pattern.record
    return FoundPattern(pattern, similarity, cosine, record, rank.lower_bound(record), rank.label_of(record))


def _why(found: FoundPattern, told: Collection[str]) -> str:
    if found.pattern.id in told:
        return f"fits, {found.record.successes} of {found.record.successes + found.record.losses} worked"
    return "fits, but others fit better or are more reliable"


def _nothing(filters: LessonFilters, any_facets: bool, any_near: bool, pending: int, waiting: int) -> str:
    """Why nothing is told."""
    if not any_facets:
        why = "nothing was learnt yet" if filters == LessonFilters() else "no lesson is known for these filters"
    else:
        why = "nothing that is known fits well enough" if any_near else "no lesson is near"
    if pending:
        return f"{why}; some wait for a checkpoint: ragforge learn checkpoint"
    return f"{why}; some wait until a person approves them: ragforge learn staged" if waiting else why


def _pages(read: Callable[[int], Sequence[IndexedLesson]]) -> Iterator[IndexedLesson]:
    after = 0
    while rows := read(after):
        yield from rows
        after = rows[-1].key


def _cosine(vector: Vector, stored: bytes) -> float:
    return float(_vector(stored) @ vector)


def _between(one: bytes, other: bytes) -> float:
    return _cosine(_vector(one), other)


def _vector(stored: bytes) -> Vector:
    import numpy as np

    return np.frombuffer(stored, np.float32)


def _stacked(vectors: Sequence[Vector]) -> Matrix:
    import numpy as np

    return np.stack(vectors)
