"""What every catalog keeps. Subclass, give the fixture `catalog` (on the fixture `clock`), and pytest runs it all."""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import pytest

from ragforge.domain.access import Clearance, Scope
from ragforge.domain.cursor import Cursor
from ragforge.domain.discovery import InterviewState
from ragforge.domain.documents import Mark, Parsed, Reason, Split, TextKind, chunk_id, version_id
from ragforge.domain.evaluation import Run
from ragforge.domain.generation import Usage
from ragforge.domain.lessons import LessonFilters, PatternState, Words
from ragforge.domain.library import (
    REMOVALS,
    UPLOAD,
    Change,
    ChunkPlace,
    Document,
    Generation,
    Job,
    JobState,
    JobTerms,
    Labels,
    Op,
    Outcome,
    Priority,
    Progress,
    Publication,
    Removed,
    Status,
    StoredText,
)
from ragforge.domain.records import ProjectTextKind
from ragforge.domain.retrieval import Filters
from ragforge.domain.strategy import Strategy
from ragforge.errors import NotAllowed, NotFound, Outdated, StoreError, UserError
from ragforge.operate.access import owner
from ragforge.ports import (
    Artifacts,
    Catalog,
    Changes,
    Conversations,
    Documents,
    Embeddings,
    Evaluations,
    Interviews,
    Jobs,
    Lessons,
    Passages,
    Patterns,
    Projects,
    ProjectTexts,
    QueryLog,
    Unit,
)
from ragforge.testing import records
from ragforge.testing.contracts import lessons
from ragforge.testing.contracts.shelves import ShelfContract
from ragforge.testing.shelf import (
    BROKEN,
    CARD,
    CRASHED,
    OTHER_CARD,
    ManualClock,
    Shelf,
    file,
    hash_of,
    scope_of,
    split_into,
    vectors,
)

WORDS = "The refund window for chairs is thirty days from delivery. Tables may be returned within sixty days."
HARD_TEXTS = [
    "plain " * 30,
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 beyond the first plane 👩‍👩‍👧‍👦🎉 " * 6,
    "e\u0301a\u0308o\u0302 combining n\u0303 " * 10,
    "日本語の文書です。検索できますか？漢字𠮷野家。" * 6,
    "mixed é 😀 漢\r\n\ttabs\n\n" * 8,
    "x",
]


GENERATION = Generation(1, 1, Strategy(), "splitter/1", CARD.name, CARD.fingerprint)
_NOW = datetime(2026, 1, 1, tzinfo=UTC)
RUN = Run("run", "", "set", "", "", {}, "", _NOW, _NOW, 0, 0, 0, 0, 0.0, {})
STORED = StoredText("0" * 16, 1, "a", Parsed(WORDS))


def texts(count: int) -> list[str]:
    return [
        f"Document number {number} tells of shelf {number * 7} in the cellar of the library." for number in range(count)
    ]


class CatalogContract(ShelfContract):
    """The truth: what was published can be read, what was removed is gone, and nobody sees half of it."""

    # -- projects

    def test_projects_are_created_listed_renamed_removed(self, catalog: Catalog) -> None:
        scope = owner()
        zoo, ant = Shelf.create(catalog, "zoo").project, Shelf.create(catalog, "ant").project
        with catalog.read() as unit:
            assert unit.projects.all(scope) == [ant, zoo]
            assert unit.projects.get(scope, "ant") == ant
            assert unit.projects.org_context(scope, ant.id) == ""
        assert (ant.strategy, ant.chunker, ant.embedder, ant.generation) == (Strategy(), "splitter/1", "hashing", 1)
        with catalog.write() as unit:
            unit.projects.rename(scope, ant.id, "Bee", "bee")
            unit.projects.remove(scope, zoo.id)
        with catalog.read() as unit:
            (left,) = unit.projects.all(scope)
            assert (left.id, left.name, left.slug) == (ant.id, "Bee", "bee")
            with pytest.raises(NotFound):
                unit.projects.get(scope, "zoo")

    def test_a_slug_is_taken_once(self, catalog: Catalog) -> None:
        Shelf.create(catalog, "one")
        two = Shelf.create(catalog, "two")
        with pytest.raises(UserError, match="exists already"):
            Shelf.create(catalog, "one")
        with pytest.raises(UserError, match="exists already"), catalog.write() as unit:
            unit.projects.rename(owner(), two.id, "One", "one")
        with catalog.write() as unit:
            unit.projects.rename(owner(), two.id, "TWO", "two")

    def test_removing_a_project_leaves_nothing_of_it(self, catalog: Catalog, shelf: Shelf) -> None:
        other = Shelf.create(catalog, "other")
        pages = file("/a", WORDS)
        shelf.publish(pages)
        other.publish(file("/a", WORDS))
        with catalog.write() as unit:
            unit.projects.remove(owner(), shelf.id)
        assert other.texts() == {WORDS}
        assert other.known(pages.hashes) == set(pages.hashes)
        assert other.faults() == []

    # -- publishing

    def test_a_new_file_can_be_read_back(self, shelf: Shelf) -> None:
        published = shelf.publish(file("/docs/a.md", WORDS, labels=Labels("manual", ("x", "ü"), Clearance.PUBLIC)))[0]
        assert (published.outcome, published.replaced, published.obsolete_blobs) == (Outcome.READY, False, ())
        (found,) = shelf.documents()
        assert found == shelf.document(published.document)
        assert (found.id, found.name, found.status, found.enabled) == (published.document, "a.md", Status.READY, True)
        assert found.labels == Labels("manual", ("x", "ü"), Clearance.PUBLIC)
        assert (found.characters, found.chunks, found.title, found.summary) == (len(WORDS), 6, "Title", "summary")
        assert [source.key for source in found.sources] == ["/docs/a.md"]
        assert found.problem is None
        assert shelf.text(found.id) == WORDS
        assert "".join(chunk.text for chunk in shelf.chunks(found.id)) == WORDS

    def test_chunk_ids_follow_from_what_they_are(self, shelf: Shelf) -> None:
        publication = file("/a", WORDS)
        (published,) = shelf.publish(publication)
        version = version_id(publication.source.sha256, "markdown/1", "a")
        for chunk in shelf.chunks(published.document):
            assert chunk.version == version
            assert chunk.id == chunk_id(shelf.id, published.document, version, chunk.position, "splitter/1")
            assert (chunk.generation, chunk.project, chunk.document) == (1, shelf.id, published.document)
            assert chunk.locator == publication.split.leaves[chunk.position].locator

    def test_changing_back_gives_the_same_chunk_ids(self, shelf: Shelf) -> None:
        document = shelf.add("/a", WORDS).document
        before = [chunk.id for chunk in shelf.chunks(document)]
        shelf.add("/a", "something else")
        assert shelf.add("/a", WORDS).document == document
        assert [chunk.id for chunk in shelf.chunks(document)] == before

    @pytest.mark.parametrize("text", HARD_TEXTS, ids=range(len(HARD_TEXTS)))
    def test_texts_are_exact_slices(self, shelf: Shelf, text: str) -> None:
        (published,) = shelf.publish(file("/a", text, size=17, overlap=5))
        chunks = shelf.chunks(published.document)
        assert [chunk.text for chunk in chunks] == [text[chunk.start : chunk.end] for chunk in chunks]
        assert shelf.text(published.document) == text

    def test_the_same_file_again_is_unchanged(self, shelf: Shelf) -> None:
        first = shelf.add("/a", WORDS)
        again = file("/a", WORDS)
        seq = shelf.last_change()
        (second,) = shelf.publish(again)
        assert (second.outcome, second.document, second.replaced) == (Outcome.UNCHANGED, first.document, False)
        assert second.obsolete_blobs == (again.blob,)
        assert shelf.changes(seq) == []

    def test_the_same_bytes_elsewhere_are_one_document(self, shelf: Shelf) -> None:
        first = shelf.add("/a", WORDS)
        seq, copy = shelf.last_change(), file("/b", WORDS)
        (second,) = shelf.publish(copy)
        assert (second.outcome, second.document, second.replaced) == (Outcome.DUPLICATE, first.document, False)
        assert second.obsolete_blobs == (copy.blob,)
        assert [source.key for source in shelf.document(first.document).sources] == ["/a", "/b"]
        assert shelf.changes(seq) == []

    def test_the_same_bytes_twice_in_one_batch_are_one_document(self, shelf: Shelf) -> None:
        assert shelf.outcomes(file("/a", WORDS), file("/b", WORDS)) == [Outcome.READY, Outcome.DUPLICATE]
        assert len(shelf.documents()) == 1

    def test_a_changed_file_replaces_its_text(self, shelf: Shelf) -> None:
        old, new = file("/a", texts(1)[0]), file("/a", WORDS)
        (first,) = shelf.publish(old)
        (second,) = shelf.publish(new)
        assert (second.document, second.outcome, second.replaced) == (first.document, Outcome.READY, True)
        assert second.obsolete_blobs == (old.blob,)
        assert shelf.texts() == {WORDS}
        assert shelf.known(old.hashes) == set()
        assert shelf.faults() == []

    def test_a_changed_copy_leaves_the_others_alone(self, shelf: Shelf) -> None:
        first = shelf.add("/a", WORDS)
        shelf.add("/b", WORDS)
        changed = shelf.add("/a", "now different")
        assert changed.document != first.document
        assert changed.obsolete_blobs == ()
        assert [s.key for s in shelf.document(first.document).sources] == ["/b"]
        assert shelf.text(first.document) == WORDS
        assert shelf.text(changed.document) == "now different"

    def test_a_file_that_becomes_a_copy_moves_and_its_document_goes(self, shelf: Shelf) -> None:
        a, c = file("/a", texts(1)[0]), file("/c", WORDS)
        shelf.publish(a, c)
        moved = shelf.add("/a", WORDS)
        assert (moved.outcome, moved.replaced) == (Outcome.DUPLICATE, True)
        assert a.blob in moved.obsolete_blobs
        (left,) = shelf.documents()
        assert left.id == moved.document
        assert {source.key for source in left.sources} == {"/a", "/c"}
        assert shelf.known(a.hashes) == set()
        assert shelf.faults() == []

    def test_two_files_swap_their_bytes_in_one_batch(self, shelf: Shelf) -> None:
        one, two = texts(2)
        shelf.publish(file("/a", one), file("/b", two))
        shelf.publish(file("/a", two), file("/b", one))
        assert {(d.sources[0].key, shelf.text(d.id)) for d in shelf.documents()} == {("/a", two), ("/b", one)}
        assert shelf.faults() == []

    def test_one_path_twice_in_one_batch_ends_as_the_last(self, shelf: Shelf) -> None:
        one, two = texts(2)
        shelf.publish(file("/a", one), file("/a", two))
        assert shelf.texts() == {two}
        assert self.follow(shelf, []) == self.visible(shelf)
        assert shelf.faults() == []

    # -- files that cannot be read

    def test_a_failed_file_is_kept_with_its_reason(self, shelf: Shelf) -> None:
        published = shelf.add("/a", "bytes", BROKEN)
        assert published.outcome == Outcome.FAILED
        found = shelf.document(published.document)
        assert found.status == Status.FAILED
        assert found.problem is not None
        assert (found.problem.reason, found.problem.message, found.problem.hint) == (
            BROKEN.reason,
            BROKEN.message,
            BROKEN.hint,
        )
        assert (shelf.text(found.id), shelf.chunks(found.id), shelf.changes()) == ("", [], [])

    def test_a_failed_new_version_keeps_the_readable_one(self, shelf: Shelf) -> None:
        old = file("/a", WORDS)
        (first,) = shelf.publish(old)
        second = shelf.add("/a", "broken bytes", BROKEN)
        assert (second.document, second.outcome, second.obsolete_blobs) == (first.document, Outcome.FAILED, ())
        found = shelf.document(first.document)
        assert found.status == Status.READY
        assert found.problem is not None
        assert found.sha256 == old.source.sha256
        assert shelf.text(found.id) == WORDS
        assert shelf.faults() == []

    def test_a_readable_version_after_a_failed_one_replaces_both(self, shelf: Shelf) -> None:
        old, broken = file("/a", WORDS), file("/a", "broken", failure=BROKEN)
        shelf.publish(old)
        shelf.publish(broken)
        mended = shelf.add("/a", "mended")
        assert set(mended.obsolete_blobs) == {old.blob, broken.blob}
        found = shelf.document(mended.document)
        assert found.problem is None
        assert shelf.texts() == {"mended"}
        assert shelf.faults() == []

    def test_going_back_to_the_readable_bytes_clears_the_problem(self, shelf: Shelf) -> None:
        broken = file("/a", "broken", failure=BROKEN)
        shelf.add("/a", WORDS)
        shelf.publish(broken)
        back = shelf.add("/a", WORDS)
        assert broken.blob in back.obsolete_blobs
        assert shelf.document(back.document).problem is None
        with shelf.catalog.read() as unit:
            assert unit.documents.sources(owner(), shelf.id, ["/a"])["/a"].problem is None
            assert unit.documents.versions_with(owner(), shelf.id, [broken.source.sha256]) == frozenset()
        assert shelf.faults() == []

    def test_a_problem_leaves_with_the_path_that_had_it(self, shelf: Shelf) -> None:
        document = shelf.add("/a", WORDS).document
        shelf.add("/a", "broken", BROKEN)
        shelf.add("/b", WORDS)
        assert shelf.document(document).problem is not None
        shelf.add("/a", "mended")
        assert shelf.document(document).problem is None
        shelf.add("/b", "broken", BROKEN)
        shelf.add("/c", WORDS)
        shelf.remove_source("/b")
        assert shelf.document(document).problem is None
        assert shelf.faults() == []

    def test_a_retry_can_succeed(self, shelf: Shelf) -> None:
        broken = file("/a", WORDS, failure=CRASHED)
        (first,) = shelf.publish(broken)
        second = shelf.add("/a", WORDS)
        assert (second.document, second.outcome) == (first.document, Outcome.READY)
        assert second.obsolete_blobs == (broken.blob,)
        assert shelf.texts() == {WORDS}
        assert shelf.document(first.document).problem is None

    def test_three_strikes_are_quarantine(self, shelf: Shelf) -> None:
        outcomes = [shelf.add("/a", "bomb", CRASHED).outcome for _ in range(3)]
        assert outcomes == [Outcome.FAILED, Outcome.FAILED, Outcome.QUARANTINED]
        (found,) = shelf.documents()
        assert found.status == Status.QUARANTINED
        with shelf.catalog.read() as unit:
            assert unit.documents.all(owner(), shelf.id, Status.QUARANTINED) == [found]
            assert unit.documents.all(owner(), shelf.id, Status.READY) == []

    def test_only_what_breaks_the_parser_is_a_strike(self, shelf: Shelf) -> None:
        for _ in range(4):
            shelf.publish(*(file(f"/{reason}", reason, failure=replace(BROKEN, reason=reason)) for reason in Reason))
        struck_out = {document.name for document in shelf.documents() if document.status == Status.QUARANTINED}
        assert struck_out == {Reason.TIMEOUT, Reason.MEMORY, Reason.CRASHED}

    def test_copies_of_a_broken_file_in_one_batch_are_one_document(self, shelf: Shelf) -> None:
        copies = [file(key, "bytes", failure=BROKEN) for key in ("/a", "/b", "/c", "/d")]
        published = shelf.publish(*copies)
        (found,) = shelf.documents()
        assert {(p.document, p.outcome) for p in published} == {(found.id, Outcome.FAILED)}
        assert [source.key for source in found.sources] == ["/a", "/b", "/c", "/d"]
        obsolete = {blob for p in published for blob in p.obsolete_blobs}
        with shelf.catalog.read() as unit:
            assert {copy.blob for copy in copies} - obsolete == set(unit.documents.blobs(owner()))
        assert shelf.faults() == []

    def test_a_broken_and_a_readable_copy_in_one_batch_are_readable(self, shelf: Shelf) -> None:
        shelf.publish(file("/a", WORDS, failure=CRASHED), file("/b", WORDS))
        assert shelf.texts() == {WORDS}
        assert shelf.faults() == []

    # -- sources, names, labels

    def test_sources_tell_what_was_seen_where(self, shelf: Shelf) -> None:
        good, bad = file("/docs/a_b.md", WORDS), file("/docs/axb.md", "bytes", failure=BROKEN)
        shelf.publish(good, bad, file("/Docs/c.md", "elsewhere"))
        with shelf.catalog.read() as unit:
            found = unit.documents.sources(owner(), shelf.id, ["/docs/a_b.md", "/docs/axb.md", "/nowhere"])
            assert {key: (known.source, known.status) for key, known in found.items()} == {
                "/docs/a_b.md": (good.source, Status.READY),
                "/docs/axb.md": (bad.source, Status.FAILED),
            }
            assert [known.problem is None for known in found.values()] == [True, False]
            keys = unit.documents.source_keys
            assert set(keys(owner(), shelf.id, "/docs/")) == {"/docs/a_b.md", "/docs/axb.md"}
            assert keys(owner(), shelf.id, "/docs/a_") == ["/docs/a_b.md"]
            held = unit.documents.versions_with(owner(), shelf.id, [good.source.sha256, "0" * 64])
            assert held == {good.source.sha256}
            assert set(unit.documents.blobs(owner())) >= {good.blob, bad.blob}
            assert ("a_b.md", good.source.sha256, good.blob) in set(unit.documents.stored(owner(), shelf.id))

    def test_usage_counts_documents_and_all_their_bytes(self, shelf: Shelf) -> None:
        shelf.add("/a", "12345")
        shelf.add("/b", "12345")
        shelf.add("/c", "1234567")
        shelf.add("/c", "123", BROKEN)
        with shelf.catalog.read() as unit:
            assert unit.documents.usage(owner(), shelf.id) == (2, 15)

    def test_a_document_goes_with_its_last_source(self, shelf: Shelf) -> None:
        original = file("/a", WORDS)
        shelf.publish(original, file("/b", WORDS))
        assert shelf.remove_source("/a") == Removed()
        assert shelf.texts() == {WORDS}
        count = len(original.hashes)
        assert shelf.remove_source("/b") == Removed((original.blob,), count, count)
        assert shelf.documents() == []
        assert shelf.remove_source("/b") == Removed()
        assert shelf.faults() == []

    def test_removing_a_document_returns_all_its_bytes(self, shelf: Shelf) -> None:
        old, broken = file("/a", WORDS), file("/a", "broken", failure=BROKEN)
        shelf.publish(old)
        (published,) = shelf.publish(broken)
        assert set(shelf.remove(published.document).blobs) == {old.blob, broken.blob}
        assert shelf.documents() == []
        with pytest.raises(NotFound):
            shelf.remove(published.document)
        with pytest.raises(NotFound):
            shelf.text(published.document)

    def test_files_are_found_by_id_name_and_path(self, shelf: Shelf) -> None:
        one = shelf.publish(file("/docs/report.md", WORDS), file("/docs/50%_done.md", "other"))[0].document
        shelf.publish(file("/mail/copy.md", WORDS))
        with shelf.catalog.read() as unit:

            def find(name: str) -> list[str]:
                return unit.documents.find(owner(), shelf.id, name)

            for name in (one, one[:4], one[:10], "report.md", "/docs/report.md", "copy.md", "/mail/copy.md"):
                assert find(name) == [one], name
            for name in (one[:3], "report", "/docs", "%", "____", "nothing", ""):
                assert find(name) == [], name

    def test_labels_and_switches_reach_the_documents_and_the_log(self, shelf: Shelf) -> None:
        one, two = (p.document for p in shelf.publish(file("/a", "first"), file("/b", "second")))
        seq = shelf.last_change()
        with shelf.catalog.write() as unit:
            unit.documents.enable(owner(), shelf.id, [one], False)
            unit.documents.label(
                owner(), shelf.id, [one, two], source_type="mail", tags=("a", "ß"), confidentiality=Clearance.PUBLIC
            )
            unit.documents.label(owner(), shelf.id, [two], source_type=None, tags=[], confidentiality=None)
            unit.documents.label(owner(), shelf.id, [two], source_type=None, tags=None, confidentiality=None)
        assert not shelf.document(one).enabled
        assert shelf.document(two).enabled
        assert shelf.document(one).labels == Labels("mail", ("a", "ß"), Clearance.PUBLIC)
        assert shelf.document(two).labels == Labels("mail", (), Clearance.PUBLIC)
        changes = shelf.changes(seq)
        assert [change.op for change in changes] == [Op.META] * 4
        assert len({change.document for change in changes}) == 2
        with pytest.raises(NotFound), shelf.catalog.write() as unit:
            unit.documents.enable(owner(), shelf.id, [one, "missing"], True)
        assert not shelf.document(one).enabled, "all or none"

    def test_labels_outlive_a_change_of_the_file(self, shelf: Shelf) -> None:
        document = shelf.add("/a", WORDS).document
        with shelf.catalog.write() as unit:
            unit.documents.label(
                owner(), shelf.id, [document], source_type="law", tags=None, confidentiality=Clearance.RESTRICTED
            )
            unit.documents.enable(owner(), shelf.id, [document], False)
        shelf.add("/a", "changed")
        found = shelf.document(document)
        assert (found.labels.source_type, found.labels.confidentiality) == ("law", Clearance.RESTRICTED)
        assert not found.enabled

    def test_phrases_of_other_documents_are_known(self, shelf: Shelf) -> None:
        other = Shelf.create(shelf.catalog, "other")
        one = shelf.add("/a", "alpha beta gamma").document
        other.add("/b", "beta delta")
        with shelf.catalog.read() as unit:
            assert unit.documents.occurs_elsewhere(owner(), shelf.id, one, "beta")
            assert not unit.documents.occurs_elsewhere(owner(), shelf.id, one, "alpha")

    def test_many_ids_at_once(self, shelf: Shelf) -> None:
        document = shelf.add("/a", WORDS).document
        ids = [f"{number:016x}" for number in range(70_000)] + [document]
        with shelf.catalog.read() as unit:
            assert [found.id for found in unit.documents.get(owner(), shelf.id, ids)] == [document]

    # -- vectors

    def test_vectors_are_put_once(self, shelf: Shelf) -> None:
        publication = file("/a", WORDS)
        shelf.publish(publication)
        with shelf.catalog.write() as unit:
            before = sorted(unit.embeddings.sample(owner(), shelf.id, shelf.documents()[0].id, 100))
            hashes = publication.hashes
            unit.embeddings.put(owner(), shelf.id, CARD, hashes, vectors(hashes) + 1)
            assert sorted(unit.embeddings.sample(owner(), shelf.id, shelf.documents()[0].id, 100)) == before
        assert before == sorted(row.tobytes() for row in vectors(publication.hashes))

    def test_vectors_are_known_by_model(self, shelf: Shelf) -> None:
        publication = file("/a", WORDS)
        shelf.publish(publication)
        unknown = hash_of("never seen")
        assert shelf.known([*publication.hashes, unknown]) == set(publication.hashes)
        assert shelf.known(publication.hashes, OTHER_CARD) == set()

    def test_a_vector_stays_while_another_document_uses_its_text(self, shelf: Shelf) -> None:
        shared = "The same first forty characters, always. "[:40]
        one, two = file("/x/a", shared + "and then one thing"), file("/y/a", shared + "and then another")
        first, second = shelf.publish(one, two)
        both = set(one.hashes) & set(two.hashes)
        assert both
        with shelf.catalog.read() as unit:
            sampled = unit.embeddings.sample(owner(), shelf.id, first.document, 100)
        own = [text_hash for text_hash in one.hashes if text_hash not in both]
        assert sorted(sampled) == sorted(row.tobytes() for row in vectors(own))
        shelf.remove(first.document)
        assert shelf.known(one.hashes) == both
        shelf.remove(second.document)
        assert shelf.known([*one.hashes, *two.hashes]) == set()

    def test_projects_do_not_share_vectors(self, shelf: Shelf) -> None:
        other = Shelf.create(shelf.catalog, "other")
        publication = file("/a", WORDS)
        (published,) = shelf.publish(publication)
        assert other.known(publication.hashes) == set()
        other.publish(file("/a", WORDS))
        shelf.remove(published.document)
        assert shelf.known(publication.hashes) == set()
        assert other.known(publication.hashes) == set(publication.hashes)
        assert other.faults() == []

    def test_files_without_their_vectors_are_refused(self, shelf: Shelf) -> None:
        publication = file("/a", WORDS)
        with pytest.raises(Outdated), shelf.catalog.write() as unit:
            unit.documents.publish(owner(), shelf.id, 1, [publication])
        with pytest.raises(Outdated), shelf.catalog.write() as unit:
            hashes = publication.hashes
            unit.embeddings.put(owner(), shelf.id, OTHER_CARD, hashes, vectors(hashes))
            unit.documents.publish(owner(), shelf.id, 1, [publication])
        assert shelf.documents() == []
        assert shelf.known(publication.hashes, OTHER_CARD) == set()

    def test_files_of_another_generation_are_refused(self, shelf: Shelf) -> None:
        with pytest.raises(Outdated), shelf.catalog.write() as unit:
            unit.documents.publish(owner(), shelf.id, 2, [file("/a", "text", failure=BROKEN)])
        shelf.add("/a", WORDS)
        shelf.reindex("splitter/2", CARD, 30)
        with pytest.raises(Outdated), shelf.catalog.write() as unit:
            unit.documents.publish(owner(), shelf.id, 1, [file("/b", "text", failure=BROKEN)])

    # -- generations

    def test_readers_see_the_old_generation_until_the_swap(self, shelf: Shelf) -> None:
        document = shelf.add("/a", WORDS).document
        before = shelf.chunks(document)
        generation = shelf.begin("splitter/2", CARD)
        assert (generation.number, generation.chunks, generation.chunker) == (2, 2, "splitter/2")
        assert shelf.split(generation, 10) == 1
        assert shelf.split(generation, 10) == 0
        assert shelf.chunks(document) == before
        assert shelf.embed(generation, CARD) > 0
        assert shelf.embed(generation, CARD) == 0
        assert (shelf.chunks(document), shelf.live().number) == (before, 1)
        shelf.swap(CARD)
        after = shelf.chunks(document)
        assert not {c.id for c in before} & {c.id for c in after}
        assert {c.generation for c in after} == {2}
        assert all(c.text == WORDS[c.start : c.end] for c in after)
        assert shelf.document(document).chunks == len(after) > len(before)
        assert shelf.changes()[-1].op == Op.GENERATION
        assert shelf.text(document) == WORDS
        with shelf.catalog.read() as unit:
            assert unit.projects.get(owner(), "demo").generation == 2
            assert unit.projects.building(owner(), shelf.id) is None

    def test_sweeping_clears_what_was_retired(self, shelf: Shelf) -> None:
        old = file("/a", WORDS)
        shelf.publish(old)
        shelf.reindex("splitter/2", CARD, 10)
        assert shelf.known(old.hashes) == set()
        assert shelf.faults() == []
        with shelf.catalog.write() as unit:
            assert unit.projects.sweep(owner(), shelf.id, 10) == 0

    def test_sweeping_goes_on_where_it_stopped(self, shelf: Shelf) -> None:
        shelf.publish(*(file(f"/{n}", text) for n, text in enumerate(texts(5))))
        generation = shelf.begin("splitter/2", CARD)
        shelf.split(generation, 10)
        shelf.embed(generation, CARD)
        shelf.swap(CARD)
        with shelf.catalog.write() as unit:
            assert [unit.projects.sweep(owner(), shelf.id, 2) for _ in range(4)] == [2, 2, 1, 0]
        assert shelf.texts() == set(texts(5))

    def test_a_change_of_model_keeps_the_chunks(self, shelf: Shelf) -> None:
        publication = file("/a", WORDS)
        document = shelf.publish(publication)[0].document
        before = shelf.chunks(document)
        generation = shelf.begin("splitter/1", OTHER_CARD)
        assert (generation.number, generation.chunks) == (2, 1)
        assert shelf.split(generation, 10) == 0
        assert shelf.embed(generation, OTHER_CARD) == len(before)
        shelf.swap(OTHER_CARD)
        shelf.sweep()
        assert [replace(chunk, generation=1) for chunk in shelf.chunks(document)] == before
        assert shelf.known(publication.hashes, OTHER_CARD) == set(publication.hashes)
        assert shelf.known(publication.hashes, CARD) == set()
        assert shelf.faults() == []

    def test_pending_text_is_what_was_hashed(self, shelf: Shelf) -> None:
        publication = file("/docs/näme.md", WORDS)
        shelf.publish(publication)
        generation = shelf.begin("splitter/1", OTHER_CARD)
        with shelf.catalog.read() as unit:
            pending = unit.embeddings.pending(owner(), shelf.id, generation, 100)
            assert len(unit.embeddings.pending(owner(), shelf.id, generation, 2)) == 2
        assert {(hash_of(chunk.text), chunk.text_hash) for chunk in pending} == {(h, h) for h in publication.hashes}

    def test_a_split_is_put_once(self, shelf: Shelf) -> None:
        document = shelf.add("/a", WORDS).document
        generation = shelf.begin("splitter/2", CARD)
        with shelf.catalog.write() as unit:
            (stored,) = unit.documents.unsplit(owner(), shelf.id, generation, 10)
            assert (stored.document, stored.name, stored.parsed) == (document, "a", Parsed(WORDS, title="Title"))
            for size in (10, 20):
                publication = split_into(file("/a"), stored.parsed, size)
                unit.documents.put_split(owner(), shelf.id, generation, stored, publication.split, publication.hashes)
        shelf.embed(generation, CARD)
        shelf.swap(CARD)
        shelf.sweep()
        assert {len(chunk.text) for chunk in shelf.chunks(document)} <= {1, 2, 3, 4, 5}
        assert shelf.faults() == []

    def test_what_was_parsed_comes_back_for_splitting(self, shelf: Shelf) -> None:
        marks = (Mark(0, page=1), Mark(10, start=1.5, end=2.0, speaker="Zoë"))
        parsed = Parsed(WORDS, TextKind.TRANSCRIPT, marks, None, ("a note",))
        shelf.publish(split_into(file("/a", WORDS), parsed, 30, 10))
        generation = shelf.begin("splitter/2", CARD)
        with shelf.catalog.read() as unit:
            assert unit.documents.unsplit(owner(), shelf.id, generation, 10)[0].parsed == parsed

    def test_a_file_that_left_while_it_was_split_is_passed_over(self, shelf: Shelf) -> None:
        document = shelf.add("/a", WORDS).document
        generation = shelf.begin("splitter/2", CARD)
        with shelf.catalog.read() as unit:
            (stored,) = unit.documents.unsplit(owner(), shelf.id, generation, 10)
        shelf.remove(document)
        with shelf.catalog.write() as unit:
            publication = split_into(file("/a"), stored.parsed, 10)
            unit.documents.put_split(owner(), shelf.id, generation, stored, publication.split, publication.hashes)
        shelf.swap(CARD)
        assert shelf.documents() == []
        assert shelf.faults() == []

    def test_begin_resumes_what_has_the_same_settings(self, shelf: Shelf) -> None:
        shelf.publish(*(file(f"/{n}", text) for n, text in enumerate(texts(3))))
        first = shelf.begin("splitter/2", CARD)
        shelf.split(first, 10, limit=2)
        assert shelf.begin("splitter/2", CARD) == first
        assert shelf.split(first, 10) == 1
        assert shelf.begin("splitter/3", CARD).chunker == "splitter/3"

    def test_an_abandoned_generation_leaves_nothing(self, shelf: Shelf) -> None:
        document = shelf.add("/a", WORDS).document
        before = shelf.chunks(document)
        generation = shelf.begin("splitter/2", CARD)
        shelf.split(generation, 10)
        shelf.embed(generation, CARD)
        with shelf.catalog.write() as unit:
            unit.projects.abandon(owner(), shelf.id)
            assert unit.projects.building(owner(), shelf.id) is None
        shelf.sweep()
        assert shelf.chunks(document) == before
        assert shelf.faults() == []

    def test_settings_can_return_before_the_sweep(self, shelf: Shelf) -> None:
        document = shelf.add("/a", WORDS).document
        before = {chunk.id for chunk in shelf.chunks(document)}
        for chunker, size in (("splitter/2", 10), ("splitter/1", 40)):
            generation = shelf.begin(chunker, CARD)
            shelf.split(generation, size)
            shelf.embed(generation, CARD)
            shelf.swap(CARD)
        assert {chunk.id for chunk in shelf.chunks(document)} == before
        shelf.sweep()
        assert shelf.texts() == {WORDS}
        assert shelf.faults() == []

    def test_an_abandoned_generation_can_be_begun_again(self, shelf: Shelf) -> None:
        shelf.add("/a", WORDS)
        generation = shelf.begin("splitter/2", CARD)
        shelf.split(generation, 10)
        with shelf.catalog.write() as unit:
            unit.projects.abandon(owner(), shelf.id)
        shelf.reindex("splitter/2", CARD, 10)
        assert shelf.texts() == {WORDS}
        assert shelf.faults() == []

    def test_a_late_splitter_is_refused(self, shelf: Shelf) -> None:
        shelf.add("/a", WORDS)
        stale = shelf.begin("splitter/2", CARD)
        with shelf.catalog.read() as unit:
            (stored,) = unit.documents.unsplit(owner(), shelf.id, stale, 10)
        with shelf.catalog.write() as unit:
            unit.projects.abandon(owner(), shelf.id)
        shelf.sweep()
        shelf.begin("splitter/3", CARD)
        with pytest.raises(Outdated), shelf.catalog.write() as unit:
            publication = split_into(file("/a"), stored.parsed, 10)
            unit.documents.put_split(owner(), shelf.id, stale, stored, publication.split, publication.hashes)

    def test_an_unfinished_generation_does_not_go_live(self, shelf: Shelf) -> None:
        shelf.publish(file("/a", WORDS), file("/b", "other words"))
        with pytest.raises(Outdated):
            shelf.swap(CARD)
        generation = shelf.begin("splitter/2", CARD)
        shelf.split(generation, 10, limit=1)
        shelf.embed(generation, CARD)
        with pytest.raises(Outdated):
            shelf.swap(CARD)
        shelf.split(generation, 10)
        with pytest.raises(Outdated):
            shelf.swap(CARD)
        shelf.embed(generation, CARD)
        shelf.add("/c", "came in between")
        with pytest.raises(Outdated):
            shelf.swap(CARD)
        assert shelf.live().number == 1

    def test_files_may_come_and_go_while_a_generation_is_built(self, shelf: Shelf) -> None:
        one, two, three = texts(3)
        shelf.publish(file("/a", one), file("/b", two))
        generation = shelf.begin("splitter/2", CARD)
        shelf.split(generation, 10)
        shelf.add("/a", three)
        shelf.remove_source("/b")
        shelf.add("/c", WORDS)
        assert shelf.faults() == []
        shelf.reindex("splitter/2", CARD, 10)
        assert shelf.texts() == {three, WORDS}
        assert shelf.faults() == []

    # -- the change log

    def visible(self, shelf: Shelf) -> set[int]:
        return {chunk.key for document in shelf.documents() for chunk in shelf.chunks(document.id)}

    def follow(self, shelf: Shelf, known: list[Change]) -> set[int]:
        """The chunks an index holds that follows the log; a new generation is read anew."""
        held: set[int] = set()
        for change in known + shelf.changes(known[-1].seq if known else 0):
            if change.op == Op.PUT and change.chunk:
                held.add(change.chunk)
            elif change.op == Op.REMOVE and change.chunk:
                held.discard(change.chunk)
        return held

    def test_what_went_is_logged_before_what_came(self, shelf: Shelf) -> None:
        shelf.publish(file("/a", texts(1)[0]), file("/b", WORDS))
        seq = shelf.last_change()
        shelf.publish(file("/a", "new a"), file("/b", "new b"))
        operations = [change.op for change in shelf.changes(seq) if change.chunk is not None]
        assert operations == sorted(operations, key=lambda op: op == Op.PUT)
        assert {Op.PUT, Op.REMOVE} == set(operations)
        assert self.follow(shelf, []) == self.visible(shelf)

    def test_numbers_rise_and_are_never_reused(self, shelf: Shelf) -> None:
        seen: list[int] = []
        for number in range(3):
            document = shelf.add("/a", f"text {number}").document
            seen += [change.seq for change in shelf.changes(seen[-1] if seen else 0)]
        shelf.remove(document)
        seen += [change.seq for change in shelf.changes(seen[-1])]
        with shelf.catalog.write() as unit:
            unit.changes.prune(owner(), shelf.id)
            unit.projects.remove(owner(), shelf.id)
        again = Shelf.create(shelf.catalog)
        again.add("/a", WORDS)
        seen += [change.seq for change in again.changes()]
        assert seen == sorted(set(seen))

    def test_the_log_is_read_in_pieces(self, shelf: Shelf) -> None:
        shelf.add("/a", WORDS)
        whole = shelf.changes()
        with shelf.catalog.read() as unit:
            now = unit.passages.moment(owner(), shelf.id)
            first = unit.passages.changes(owner(), now, 0, 2)
            assert first == whole[:2]
            assert unit.passages.changes(owner(), now, first[-1].seq, 100) == whole[2:]
            assert now.seq == whole[-1].seq

    def test_a_filter_may_name_very_many(self, shelf: Shelf) -> None:
        """More than a statement takes parameters: 32,766 in SQLite, 65,535 in Postgres."""
        first, second, third = (shelf.add(f"/{name}", f"text {name}").document for name in "abc")
        many = [f"{number:016x}" for number in range(100_000)]
        with shelf.catalog.read() as unit:
            now = unit.passages.moment(owner(), shelf.id)
            _, both = unit.passages.eligible(owner(), now, Filters(documents=("none",)))
            found, others = unit.passages.eligible(owner(), now, Filters(documents=(*many, first, third)))
            assert len(found) == 2 and len(others) == 1 and sorted(found + others) == sorted(both)
            assert unit.passages.eligible(owner(), now, Filters(documents=(first,), source_types=tuple(many)))[0] == []
            assert unit.passages.eligible(owner(), now, Filters(source_types=("document",)))[0] == sorted(both)
            assert unit.documents.known(owner(), shelf.id, [*many, second]) == {second}

    def test_an_index_that_is_not_used_any_more_does_not_hold_the_log(self, shelf: Shelf) -> None:
        shelf.add("/a", WORDS)
        last, lines = shelf.last_change(), len(shelf.changes())
        with shelf.catalog.write() as unit:
            for engine, generation, seq in (("new", 1, last), ("old", 1, 0), ("new", 7, 0)):
                unit.changes.follow(owner(), shelf.id, engine, generation, "", seq)
            assert unit.changes.prune(owner(), shelf.id) == 0
            unit.changes.unfollow(owner(), shelf.id, [1, 2], ["new", "newer"])
            assert unit.changes.prune(owner(), shelf.id) == lines - 1
            assert unit.changes.followed(owner(), shelf.id, "new", 1) == last
            assert unit.changes.followed(owner(), shelf.id, "old", 1) == -1

    def test_pruning_without_followers_keeps_the_newest_line(self, shelf: Shelf) -> None:
        other = Shelf.create(shelf.catalog, "other")
        other.add("/a", WORDS)
        shelf.add("/a", WORDS)
        whole, foreign = shelf.changes(), other.changes()
        with shelf.catalog.write() as unit:
            assert unit.changes.prune(owner(), shelf.id) == len(whole) - 1
            assert unit.changes.prune(owner(), shelf.id) == 0
        assert shelf.changes() == whole[-1:]
        assert shelf.last_change() == whole[-1].seq
        assert other.changes() == foreign

    def test_each_machine_follows_for_itself(self, shelf: Shelf) -> None:
        shelf.add("/a", WORDS)
        last = shelf.last_change()
        with shelf.catalog.write() as unit:
            for engine, seq in (("tantivy@aa", last), ("tantivy@bb", 0), ("pgvector", last)):
                unit.changes.follow(owner(), shelf.id, engine, 1, "f", seq)
            assert unit.changes.newest(owner()) == {shelf.id: last}
            assert unit.changes.prune(owner(), shelf.id) == 0
            unit.changes.unfollow(owner(), shelf.id, [1], ["snapshot@aa", "pgvector"])  # what bb has is its own
            assert unit.changes.followed(owner(), shelf.id, "tantivy@aa", 1) == -1
            assert unit.changes.followed(owner(), shelf.id, "tantivy@bb", 1) == 0
            unit.changes.unfollow(owner(), shelf.id, [2], ["snapshot@aa"])
            assert unit.changes.followed(owner(), shelf.id, "tantivy@bb", 1) == -1

    def test_the_log_is_kept_for_an_index_that_is_being_built(self, shelf: Shelf) -> None:
        shelf.add("/a", WORDS)
        last, lines = shelf.last_change(), len(shelf.changes())
        with shelf.catalog.write() as unit:
            unit.changes.follow(owner(), shelf.id, "tantivy@aa", 1, "f", last)
            unit.changes.follow(owner(), shelf.id, "tantivy@bb", 1, "f", -1)
            assert unit.changes.prune(owner(), shelf.id) == 0
            assert unit.passages.moment(owner(), shelf.id).forgotten == 0
            unit.changes.follow(owner(), shelf.id, "tantivy@bb", 1, "f", last)
            assert unit.changes.prune(owner(), shelf.id) == lines - 1

    def test_an_index_on_a_server_is_another_machines_until_nobody_brought_it_up_for_a_day(
        self, shelf: Shelf, clock: ManualClock
    ) -> None:
        shelf.add("/a", WORDS)
        last, mine = shelf.last_change(), ["tantivy", "tantivy@aa"]
        with shelf.catalog.write() as unit:
            for engine, seq in (("tantivy@aa", last), ("pgvector", last), ("qdrant", 0)):
                unit.changes.follow(owner(), shelf.id, engine, 1, "f", seq)
            unit.changes.unfollow(owner(), shelf.id, [1], mine)
            assert unit.changes.followed(owner(), shelf.id, "pgvector", 1) == last
            assert unit.changes.followed(owner(), shelf.id, "qdrant", 1) == 0
        clock.advance(25 * 3600)
        with shelf.catalog.write() as unit:
            unit.changes.unfollow(owner(), shelf.id, [1], mine)
            assert unit.changes.followed(owner(), shelf.id, "pgvector", 1) == last, "nothing came that it has not"
            assert unit.changes.followed(owner(), shelf.id, "qdrant", 1) == -1

    def test_how_far_a_machine_looked_for_removals_is_not_how_far_its_indexes_are(self, shelf: Shelf) -> None:
        shelf.add("/a", WORDS)
        last = shelf.last_change()
        with shelf.catalog.write() as unit:
            unit.nodes.seen(owner(), "aa", "host", "server", "1")
            unit.changes.follow(owner(), shelf.id, "tantivy@aa", 1, "f", last)
            unit.changes.follow(owner(), shelf.id, f"{REMOVALS}server@aa", 1, "", 0)
            assert [node.behind for node in unit.nodes.all(owner())] == [0]
            assert unit.changes.prune(owner(), shelf.id) == 0, "the log is kept for that, too"
            unit.changes.unfollow(owner(), shelf.id, [1], ["tantivy", "tantivy@aa", f"{REMOVALS}server@aa"])
            assert unit.changes.followed(owner(), shelf.id, f"{REMOVALS}server@aa", 1) == 0

    def test_it_is_known_by_one_word_whoever_asks_first(self, shelf: Shelf) -> None:
        with ThreadPoolExecutor(4) as threads:
            known = set(threads.map(lambda _: shelf.catalog.identity(), range(8)))
        (word,) = known
        assert len(word) == 16 and int(word, 16) and shelf.catalog.identity() == word

    def test_places_that_it_claimed_are_remembered(self, shelf: Shelf) -> None:
        assert not shelf.catalog.has_claimed("/share")
        for _ in range(2):
            shelf.catalog.note_claim("/share")
        assert shelf.catalog.has_claimed("/share") and not shelf.catalog.has_claimed("/shar")

    def test_the_log_says_that_all_build_anew_until_they_have(self, shelf: Shelf) -> None:
        shelf.add("/a", WORDS)
        last = shelf.last_change()
        with shelf.catalog.write() as unit:
            for engine in ("tantivy@aa", "tantivy@bb"):
                unit.changes.follow(owner(), shelf.id, engine, 1, "f", last)
            line = unit.changes.renew(owner(), shelf.id)
            assert line > last and unit.changes.newest(owner()) == {shelf.id: line}
            unit.changes.follow(owner(), shelf.id, "tantivy@aa", 1, "f", line)
        shelf.add("/b", "another text")
        with shelf.catalog.write() as unit:
            unit.changes.prune(owner(), shelf.id)
        (renewal,) = [change for change in shelf.changes(last) if change.renews(1)]
        assert renewal.seq == line and not renewal.renews(2) and renewal.chunk is None
        shelf.reindex("splitter/2", CARD, 10)
        assert not any(change.renews(2) for change in shelf.changes(last)), "a new generation is built once"
        with shelf.catalog.write() as unit:
            line = unit.changes.renew(owner(), shelf.id, 7)
        assert [change.seq for change in shelf.changes(last) if change.renews(7)] == [line]

    def test_the_log_is_not_kept_for_a_machine_that_is_away_for_a_day(self, shelf: Shelf, clock: ManualClock) -> None:
        shelf.add("/a", WORDS)
        last, lines = shelf.last_change(), len(shelf.changes())
        with shelf.catalog.write() as unit:
            for node, seq in (("aa", last), ("bb", 0)):
                unit.nodes.seen(owner(), node, f"host-{node}", "server", "1")
                unit.changes.follow(owner(), shelf.id, f"tantivy@{node}", 1, "f", seq)
            assert unit.changes.prune(owner(), shelf.id) == 0
        clock.advance(25 * 3600)
        with shelf.catalog.write() as unit:
            unit.nodes.seen(owner(), "aa", "host-aa", "server", "2")
            assert unit.changes.prune(owner(), shelf.id) == lines - 1
            known = [(node.id, node.host, node.role, node.version) for node in unit.nodes.all(owner())]
            assert known == [("aa", "host-aa", "server", "2"), ("bb", "host-bb", "server", "1")]
            assert unit.nodes.forget(owner()) == 0
        clock.advance(7 * 24 * 3600)
        with shelf.catalog.write() as unit:
            unit.nodes.seen(owner(), "aa", "host-aa", "server", "2")
            assert unit.nodes.forget(owner()) == 1
            assert [node.id for node in unit.nodes.all(owner())] == ["aa"]
            assert unit.changes.followed(owner(), shelf.id, "tantivy@bb", 1) == -1

    def test_the_log_is_not_kept_for_whoever_ran_one_command_and_left(self, shelf: Shelf, clock: ManualClock) -> None:
        """Nobody ever saw that machine serve: only its indexes are known. A worker does not keep them up."""
        shelf.add("/a", WORDS)
        lines = len(shelf.changes())
        with shelf.catalog.write() as unit:
            unit.changes.follow(owner(), shelf.id, "tantivy@cc", 1, "f", 0)
            assert unit.changes.prune(owner(), shelf.id) == 0, "it may come back soon"
        clock.advance(25 * 3600)
        with shelf.catalog.write() as unit:
            unit.nodes.seen(owner(), "cc", "host-cc", "worker", "1")
            assert unit.changes.prune(owner(), shelf.id) == lines - 1
        clock.advance(7 * 24 * 3600)
        with shelf.catalog.write() as unit:
            unit.nodes.forget(owner())
            assert unit.changes.followed(owner(), shelf.id, "tantivy@cc", 1) == -1

    def test_a_machine_that_serves_and_works_is_both(self, shelf: Shelf) -> None:
        with shelf.catalog.write() as unit:
            unit.nodes.seen(owner(), "aa", "host", "server", "1")
            unit.nodes.seen(owner(), "aa", "host", "worker", "1")
            assert {(node.id, node.role) for node in unit.nodes.all(owner())} == {("aa", "server"), ("aa", "worker")}

    def test_machines_are_the_owners_business(self, shelf: Shelf) -> None:
        reader = replace(owner(), principal="other", projects=frozenset({shelf.id}))
        uses: list[Callable[[Unit], object]] = [
            lambda unit: unit.nodes.seen(reader, "aa", "host", "server", "1"),
            lambda unit: unit.nodes.all(reader),
            lambda unit: unit.nodes.forget(reader),
        ]
        for use in uses:
            with shelf.catalog.write() as unit, pytest.raises(NotAllowed):
                use(unit)

    # -- jobs

    def enqueue(self, shelf: Shelf, kind: str = "add") -> Job:
        with shelf.catalog.write() as unit:
            (job,) = unit.jobs.enqueue(owner(), shelf.id, kind, [{"paths": ["/ü"]}])
            return job

    def claim(self, shelf: Shelf, worker: str = "w", job: str | None = None, kinds: tuple[str, ...] = ("add",)) -> Job:
        with shelf.catalog.write() as unit:
            claimed = unit.jobs.claim(owner(), worker, kinds, 10, job)
        assert claimed is not None
        return claimed

    def job(self, shelf: Shelf, job: str) -> Job:
        with shelf.catalog.read() as unit:
            (found,) = [known for known in unit.jobs.all(owner(), shelf.id) if known.id == job]
        return found

    def test_jobs_are_taken_in_order_and_by_kind(self, shelf: Shelf) -> None:
        first, reindex, second = self.enqueue(shelf), self.enqueue(shelf, "reindex"), self.enqueue(shelf)
        assert (first.state, first.payload, first.project) == (JobState.QUEUED, {"paths": ["/ü"]}, shelf.id)
        assert self.claim(shelf).id == first.id
        assert self.claim(shelf, job=reindex.id, kinds=("add", "reindex")).id == reindex.id
        taken = self.claim(shelf, "me")
        assert (taken.id, taken.state, taken.owner, taken.attempts) == (second.id, JobState.RUNNING, "me", 1)
        with shelf.catalog.write() as unit:
            assert unit.jobs.claim(owner(), "w", ("add", "reindex"), 10) is None
            assert [job.id for job in unit.jobs.all(owner())] == [second.id, reindex.id, first.id]

    def test_a_page_begins_where_the_one_before_ended(self, shelf: Shelf, clock: ManualClock) -> None:
        """Several have the same moment; what is gone by now leaves its moment."""
        documents: list[str] = []
        for _ in range(2):
            clock.advance(1)
            for _ in range(3):
                self.enqueue(shelf)
            files = [file(f"/{number}", f"words {number}") for number in range(len(documents), len(documents) + 3)]
            documents += [each.document for each in shelf.publish(*files)]
        with shelf.catalog.write() as unit:
            jobs, files_ = unit.jobs.all(owner(), shelf.id), unit.documents.all(owner(), shelf.id)
            assert [each.id for each in files_] == documents
            for place, job in enumerate(jobs):
                after = Cursor(job.created_at, job.id)
                assert unit.jobs.all(owner(), shelf.id, 2, after) == jobs[place + 1 : place + 3]
            for place, document in enumerate(files_):
                after = Cursor(document.created_at, document.id)
                assert unit.documents.all(owner(), shelf.id, None, 2, after) == files_[place + 1 : place + 3]
            for at, older, newer in ((jobs[0].created_at, jobs, files_[3:]), (jobs[-1].created_at, jobs[3:], files_)):
                gone = Cursor(at, "gone\x00é")
                assert unit.jobs.all(owner(), shelf.id, None, gone) == older
                assert unit.documents.all(owner(), shelf.id, after=gone) == newer

    def test_a_job_is_claimed_once(self, shelf: Shelf) -> None:
        for _ in range(10):
            self.enqueue(shelf)
        start = threading.Barrier(4)

        def work(worker: str) -> list[str]:
            start.wait()
            taken: list[str] = []
            while True:
                with shelf.catalog.write() as unit:
                    job = unit.jobs.claim(owner(), worker, ("add",), 60)
                if job is None:
                    return taken
                taken.append(job.id)

        with ThreadPoolExecutor(4) as pool:
            taken = [job for jobs in pool.map(work, "abcd") for job in jobs]
        assert len(taken) == len(set(taken)) == 10

    def test_a_dead_workers_job_is_taken_over_and_the_late_one_refused(self, shelf: Shelf, clock: ManualClock) -> None:
        self.enqueue(shelf)
        late = self.claim(shelf, "late")
        clock.advance(11)
        heir = self.claim(shelf, "heir")
        assert (heir.id, heir.attempts) == (late.id, 2)
        assert heir.fence > late.fence
        with shelf.catalog.write() as unit:
            assert not unit.jobs.heartbeat(owner(), [late], 10, {late.id: Progress("parse", 9, 9)})
            unit.jobs.finish(owner(), [late], "late")
            assert unit.jobs.heartbeat(owner(), [heir], 10, {})
        found = self.job(shelf, heir.id)
        assert (found.state, found.owner, found.progress) == (JobState.RUNNING, "heir", None)
        with shelf.catalog.write() as unit:
            unit.jobs.finish(owner(), [heir])
            unit.jobs.finish(owner(), [heir], "twice")
        assert (self.job(shelf, heir.id).state, self.job(shelf, heir.id).error) == (JobState.DONE, "")

    def test_heartbeats_keep_the_lease_and_tell_the_progress(self, shelf: Shelf, clock: ManualClock) -> None:
        self.enqueue(shelf)
        job = self.claim(shelf)
        progress = Progress("embed", 3, 10, 40, 20, 1.5)
        for _ in range(3):
            clock.advance(9)
            with shelf.catalog.write() as unit:
                assert unit.jobs.reap(owner()) == 0
                assert unit.jobs.heartbeat(owner(), [job], 10, {job.id: progress})
        assert self.job(shelf, job.id).progress == progress

    def test_five_dead_workers_are_quarantine_and_others_come_between(self, shelf: Shelf, clock: ManualClock) -> None:
        queued = self.enqueue(shelf)
        for attempt, rest in enumerate((0, 4, 16, 64), 1):
            assert self.claim(shelf).attempts == attempt
            clock.advance(11)
            with shelf.catalog.write() as unit:
                assert unit.jobs.reap(owner()) == 1
                assert rest == 0 or unit.jobs.claim(owner(), "w", ("add",), 10) is None
            clock.advance(rest)
        assert self.claim(shelf).attempts == 5
        clock.advance(11)
        with shelf.catalog.write() as unit:
            assert unit.jobs.reap(owner()) == 1
            assert unit.jobs.claim(owner(), "w", ("add",), 10) is None
        found = self.job(shelf, queued.id)
        assert (found.state, found.owner) == (JobState.QUARANTINED, None)
        assert found.error

    def test_failures_end_or_return_to_the_queue_and_rest_there(self, shelf: Shelf, clock: ManualClock) -> None:
        queued = self.enqueue(shelf)
        for state in (JobState.QUEUED, JobState.QUEUED, JobState.QUARANTINED):
            job = self.claim(shelf)
            with shelf.catalog.write() as unit:
                unit.jobs.finish(owner(), [job], "broke", retry=True)
                assert unit.jobs.claim(owner(), "w", ("add",), 10) is None
            assert (self.job(shelf, queued.id).state, self.job(shelf, queued.id).error) == (state, "broke")
            clock.advance(60)
        self.enqueue(shelf)
        job = self.claim(shelf)
        with shelf.catalog.write() as unit:
            unit.jobs.finish(owner(), [job], "broke")
        assert self.job(shelf, job.id).state == JobState.FAILED

    def test_jobs_can_be_cancelled(self, shelf: Shelf, clock: ManualClock) -> None:
        waiting, running, dead = self.enqueue(shelf, "b"), self.enqueue(shelf), self.enqueue(shelf)
        held, _ = self.claim(shelf), self.claim(shelf)
        with shelf.catalog.write() as unit:
            for job in (waiting, running, dead):
                unit.jobs.cancel(owner(), job.id)
            assert not unit.jobs.heartbeat(owner(), [held], 10, {})
        assert self.job(shelf, waiting.id).state == JobState.CANCELLED
        assert self.job(shelf, running.id).cancel_requested
        clock.advance(11)
        with shelf.catalog.write() as unit:
            unit.jobs.finish(owner(), [held])
            unit.jobs.reap(owner())
        assert {self.job(shelf, job.id).state for job in (running, dead)} == {JobState.CANCELLED}
        with pytest.raises(NotFound), shelf.catalog.write() as unit:
            unit.jobs.cancel(owner(), "missing")

    def test_all_that_somebody_asked_for_is_cancelled_with_a_reason(self, shelf: Shelf, clock: ManualClock) -> None:
        guest = replace(owner(), principal="key:1", oversees=False)
        with shelf.catalog.write() as unit:
            mine = unit.jobs.enqueue(guest, shelf.id, "add", [{}] * 4)
            (other,) = unit.jobs.enqueue(owner(), shelf.id, "add", [{}])
            (accepted,) = unit.jobs.enqueue(guest, shelf.id, UPLOAD, [{}])
        done, held, _ = (self.claim(shelf, job=job.id) for job in mine[:3])
        with shelf.catalog.write() as unit:
            unit.jobs.finish(owner(), [done], results=["kept"])
            stopped = unit.jobs.cancel_all(owner(), "key:1", "because")
            assert {job.id for job in stopped} == {job.id for job in mine[1:]}
            assert not unit.jobs.heartbeat(owner(), [held], 10, {})
            unit.jobs.release(owner(), [held])
        clock.advance(11)
        with shelf.catalog.write() as unit:
            unit.jobs.reap(owner())
        for job in mine[1:]:
            assert (self.job(shelf, job.id).state, self.job(shelf, job.id).error) == (JobState.CANCELLED, "because")
        assert self.job(shelf, mine[0].id).state == JobState.DONE
        assert self.job(shelf, other.id).state == JobState.QUEUED
        assert self.job(shelf, accepted.id).state == JobState.QUEUED

    def test_a_job_waits_for_those_before_it_on_its_lane(self, shelf: Shelf) -> None:
        with shelf.catalog.write() as unit:
            lanes = [JobTerms(lane=lane) for lane in ("a", "a", "b", "")]
            first, second, other, free = unit.jobs.enqueue(owner(), shelf.id, "add", [{}] * 4, lanes)
        assert [self.claim(shelf).id for _ in range(3)] == [first.id, other.id, free.id]
        with shelf.catalog.write() as unit:
            assert unit.jobs.claim(owner(), "w", ["add"], 10) is None
            held = unit.jobs.get(owner(), first.id)
            unit.jobs.finish(owner(), [held], results=[{"a": 1}])
            assert unit.jobs.waiting(owner(), ["add"]) and not unit.jobs.waiting(owner(), ["make"])
        assert self.job(shelf, first.id).result == {"a": 1}
        assert self.claim(shelf).id == second.id

    def test_what_is_asked_with_a_key_is_found_by_it(self, shelf: Shelf) -> None:
        guest = scope_of(shelf.id)
        with shelf.catalog.write() as unit:
            parts = [JobTerms("key", part, f"d{part}") for part in range(2)]
            made = unit.jobs.enqueue(owner(), shelf.id, "add", [{}] * 2, parts)
            unit.jobs.enqueue(guest, shelf.id, "add", [{}], [JobTerms("key", 0, "other")])
            assert [(job.id, digest) for job, digest in unit.jobs.asked(owner(), "key").values()] == [
                (made[0].id, "d0"),
                (made[1].id, "d1"),
            ]
            assert [digest for _, digest in unit.jobs.asked(guest, "key").values()] == ["other"]
            assert unit.jobs.asked(owner(), "unheard of") == {}
        with pytest.raises(StoreError), shelf.catalog.write() as unit:
            unit.jobs.enqueue(owner(), shelf.id, "add", [{}], [JobTerms("key", 1, "d1")])

    def test_who_has_the_fewest_running_is_served_first(self, shelf: Shelf) -> None:
        """However much somebody asked for before; what runs of other kinds does not count."""
        many, one, two = (replace(owner(), principal=f"key:{name}", oversees=False) for name in "abc")
        with shelf.catalog.write() as unit:
            theirs = unit.jobs.enqueue(many, shelf.id, "add", [{}] * 5)
            unit.jobs.enqueue(one, shelf.id, "make", [{}])
            (lone,) = unit.jobs.enqueue(one, shelf.id, "add", [{}])
            pair = unit.jobs.enqueue(two, shelf.id, "add", [{}] * 2)
        self.claim(shelf, kinds=("make",))
        expected = [theirs[0], lone, pair[0], theirs[1], pair[1], *theirs[2:]]
        assert [self.claim(shelf).id for _ in expected] == [job.id for job in expected]

    def test_what_is_urgent_comes_first_among_ones_own(self, shelf: Shelf) -> None:
        """It changes nobody else's turn, and nothing on a lane."""
        other = replace(owner(), principal="key:a", oversees=False)
        with shelf.catalog.write() as unit:
            terms = [JobTerms(priority=priority) for priority in (Priority.LOW, Priority.NORMAL, Priority.HIGH)]
            low, plain, high = unit.jobs.enqueue(owner(), shelf.id, "add", [{}] * 3, terms)
            theirs = unit.jobs.enqueue(other, shelf.id, "add", [{}] * 2, [JobTerms(lane="a")] * 2)
            unit.jobs.enqueue(other, shelf.id, "add", [{}], [JobTerms(lane="a", priority=Priority.HIGH)])
            assert [job.priority for job in (low, plain, high)] == [Priority.LOW, Priority.NORMAL, Priority.HIGH]
        assert [self.claim(shelf).id for _ in range(4)] == [high.id, theirs[0].id, plain.id, low.id]

    def test_what_is_less_urgent_is_not_taken_along(self, shelf: Shelf) -> None:
        with shelf.catalog.write() as unit:
            terms = [JobTerms(priority=priority) for priority in (Priority.HIGH, Priority.NORMAL, Priority.HIGH)]
            first, _, second = unit.jobs.enqueue(owner(), shelf.id, "add", [{}] * 3, terms)
        claimed = self.claim(shelf, job=first.id)
        with shelf.catalog.write() as unit:
            assert [job.id for job in unit.jobs.claim_alike(owner(), claimed, 10, 10, lambda job: True)] == [second.id]

    def test_one_worker_serves_all_in_turn(self, shelf: Shelf, clock: ManualClock) -> None:
        """When nothing runs, it is the turn of whoever was served the longest ago."""
        guests = [replace(owner(), principal=f"key:{name}", oversees=False) for name in "ab"]
        with shelf.catalog.write() as unit:
            first, second = (unit.jobs.enqueue(guest, shelf.id, "add", [{}] * 3) for guest in guests)
            unit.jobs.cancel(owner(), second[0].id)  # which was no service
        served = []
        for ended in (None, "could not be done", None, None, None):
            clock.advance(1)
            job = self.claim(shelf)
            served.append(job.id)
            with shelf.catalog.write() as unit:
                unit.jobs.finish(owner(), [job], ended)
        assert served == [job.id for job in (first[0], second[1], first[1], second[2], first[2])]

    def test_who_cannot_be_served_keeps_nobody_waiting(self, shelf: Shelf) -> None:
        """What rests after a failure, or waits on a lane."""
        guest, other = (replace(owner(), principal=f"key:{name}", oversees=False) for name in "ab")
        with shelf.catalog.write() as unit:
            unit.jobs.enqueue(guest, shelf.id, "add", [{}], [JobTerms(lane="a")])
        broken = self.claim(shelf)
        with shelf.catalog.write() as unit:
            unit.jobs.finish(owner(), [broken], "broke", retry=True)
            unit.jobs.enqueue(guest, shelf.id, "add", [{}], [JobTerms(lane="a")])
            ready = unit.jobs.enqueue(other, shelf.id, "add", [{}] * 2)
        assert [self.claim(shelf).id for _ in ready] == [job.id for job in ready]

    def test_jobs_that_are_alike_are_claimed_together(self, shelf: Shelf) -> None:
        other = Shelf.create(shelf.catalog, "other")
        first, again, second, third = (self.enqueue(shelf) for _ in range(4))
        mine = self.claim(shelf, job=first.id)
        self.claim(shelf, job=again.id)
        with shelf.catalog.write() as unit:
            unit.jobs.finish(owner(), [unit.jobs.get(owner(), again.id)], "broke", retry=True)
            unit.jobs.enqueue(scope_of(shelf.id), shelf.id, "add", [{}])
            unit.jobs.enqueue(owner(), other.id, "add", [{}])
            taken = unit.jobs.claim_alike(owner(), mine, 10, 10, lambda job: job.id != second.id)
        assert [(job.id, job.owner, job.attempts) for job in taken] == [(third.id, mine.owner, 1)]
        assert self.job(shelf, second.id).state == JobState.QUEUED

    def test_where_few_are_left_some_stay_for_another_worker(self, shelf: Shelf) -> None:
        with shelf.catalog.write() as unit:
            for _ in range(81):
                unit.jobs.enqueue(owner(), shelf.id, "add", [{}])
        taken = []
        while True:
            with shelf.catalog.write() as unit:
                job = unit.jobs.claim(owner(), "w", ("add",), 10)
                if job is None:
                    break
                taken.append([job, *unit.jobs.claim_alike(owner(), job, 10, 64, lambda job: True)])
        assert [len(jobs) for jobs in taken] == [41, 20, 17, 3]
        ids = [job.id for jobs in taken for job in jobs]
        assert len(set(ids)) == 81

    def test_several_jobs_end_together_each_in_its_own_way(self, shelf: Shelf) -> None:
        made = [self.enqueue(shelf) for _ in range(5)]
        claimed = [self.claim(shelf) for _ in made]
        with shelf.catalog.write() as unit:
            assert unit.jobs.holds(owner(), claimed) and unit.jobs.holds(owner(), [])
            told = {claimed[0].id: Progress("parse", 1, 2), claimed[2].id: Progress("embed", 3, 4)}
            assert unit.jobs.heartbeat(owner(), claimed, 10, told)
        assert [self.job(shelf, job.id).progress for job in made[:3]] == [
            Progress("parse", 1, 2),
            None,
            Progress("embed", 3, 4),
        ]
        with shelf.catalog.write() as unit:
            assert unit.jobs.heartbeat(owner(), claimed, 10, {claimed[0].id: Progress("parse", 2, 2)})
            unit.jobs.cancel(owner(), made[1].id, "not needed")
            unit.jobs.cancel(owner(), made[2].id)
            unit.jobs.release(owner(), [claimed[4]])
            assert not unit.jobs.heartbeat(owner(), claimed, 10, {})
            assert unit.jobs.holds(owner(), claimed[:4]) and not unit.jobs.holds(owner(), claimed)
        assert self.job(shelf, made[2].id).progress == Progress("embed", 3, 4)
        with shelf.catalog.write() as unit:
            unit.jobs.finish(owner(), claimed, results=[{"n": 0}, None, {"n": 2}, None, {"n": 4}])
            found = unit.jobs.some(owner(), [*(job.id for job in made), "missing"])
        assert [(found[job.id].state, found[job.id].result, found[job.id].error) for job in made] == [
            (JobState.DONE, {"n": 0}, ""),
            (JobState.CANCELLED, None, "not needed"),
            (JobState.DONE, {"n": 2}, ""),
            (JobState.DONE, None, ""),
            (JobState.QUEUED, None, ""),
        ]
        assert set(found) == {job.id for job in made}

    def test_several_jobs_fail_together_each_by_its_own_strikes(self, shelf: Shelf, clock: ManualClock) -> None:
        first, second = self.enqueue(shelf), self.enqueue(shelf)
        for _ in range(2):
            held = self.claim(shelf, job=first.id)
            with shelf.catalog.write() as unit:
                unit.jobs.finish(owner(), [held], "broke", retry=True)
            clock.advance(60)
        both = [self.claim(shelf, job=job.id) for job in (second, first)]
        with shelf.catalog.write() as unit:
            unit.jobs.finish(owner(), both, "broke again", retry=True)
        assert [self.job(shelf, job.id).state for job in both] == [JobState.QUEUED, JobState.QUARANTINED]
        assert {self.job(shelf, job.id).error for job in both} == {"broke again"}

    def test_a_beat_and_the_work_of_the_same_jobs_do_not_block_each_other(self, shelf: Shelf) -> None:
        made = [self.enqueue(shelf) for _ in range(20)]
        held = [self.claim(shelf) for _ in made]

        def beat(jobs: list[Job]) -> None:
            for number in range(25):
                with shelf.catalog.write() as unit:
                    assert unit.jobs.heartbeat(owner(), jobs, 60, {job.id: Progress("p", number, 25) for job in jobs})

        with ThreadPoolExecutor(3) as pool:
            for done in [pool.submit(beat, jobs) for jobs in (held, held[::-1], held[10:] + held[:10])]:
                done.result()

    def test_what_is_given_back_waits_as_if_it_had_not_been_begun(self, shelf: Shelf, clock: ManualClock) -> None:
        first, cancelled = self.enqueue(shelf), self.enqueue(shelf)
        held, other = self.claim(shelf), self.claim(shelf)
        with shelf.catalog.write() as unit:
            unit.jobs.cancel(owner(), cancelled.id)
            unit.jobs.release(owner(), [other])
            unit.jobs.release(owner(), [held], "no room", 5)
            unit.jobs.release(owner(), [held], "twice")
            assert not unit.jobs.waiting(owner(), ["add"])
        found = self.job(shelf, first.id)
        assert (found.state, found.attempts, found.error) == (JobState.QUEUED, 0, "no room")
        assert self.job(shelf, cancelled.id).state == JobState.CANCELLED
        clock.advance(6)
        assert self.claim(shelf).id == first.id

    def test_the_jobs_of_the_dead_are_free_at_once(self, shelf: Shelf) -> None:
        first, second = self.enqueue(shelf), self.enqueue(shelf)
        self.claim(shelf, "dead")
        self.claim(shelf, "alive")
        with shelf.catalog.write() as unit:
            assert unit.jobs.holders(owner()) == {"dead", "alive"}
            assert unit.jobs.free(owner(), lambda worker: worker == "alive") == 1
            assert [job.id for job in unit.jobs.unfinished(owner(), "add")] == [first.id, second.id]
            assert unit.jobs.counts(owner()) == {("add", "queued"): 1, ("add", "running"): 1}
            assert unit.jobs.holders(owner()) == {"alive"}
        assert self.claim(shelf).id == first.id

    def test_who_does_not_oversee_sees_own_jobs_only(self, shelf: Shelf) -> None:
        reader = replace(scope_of(shelf.id, clearance=Clearance.INTERNAL), oversees=False)
        admin = replace(scope_of(shelf.id, clearance=Clearance.INTERNAL), principal="admin")
        theirs = self.enqueue(shelf)
        with shelf.catalog.write() as unit:
            (own,) = unit.jobs.enqueue(reader, shelf.id, "add", [{}])
            maker = unit.jobs.maker(owner(), own.id)
            assert (maker.principal, maker.storage, maker.clearance) == ("guest", "guest", Clearance.INTERNAL)
            for scope in (reader, admin):
                assert [job.id for job in unit.jobs.all(scope)] == [own.id]
                with pytest.raises(NotFound):
                    unit.jobs.get(scope, theirs.id)
            with pytest.raises(NotFound):
                unit.jobs.get(replace(reader, principal="another"), own.id)
            assert len(unit.jobs.all(owner())) == 2 and len(unit.jobs.all(owner(), limit=1)) == 1

    # -- who may see what

    def test_a_foreign_project_looks_like_a_missing_one(self, shelf: Shelf) -> None:
        mine = Shelf.create(shelf.catalog, "mine")
        document = shelf.add("/a", WORDS).document
        guest = scope_of(mine.id)
        for use in self.uses_of_a_project(document):
            assert _refusal(shelf, guest, use, shelf.id) == _refusal(shelf, guest, use, "f" * 16), use
        assert shelf.texts() == {WORDS}
        with shelf.catalog.read() as unit:
            assert [project.id for project in unit.projects.all(guest)] == [mine.id]
            with pytest.raises(NotFound) as foreign:
                unit.projects.get(guest, "demo")
            with pytest.raises(NotFound) as missing:
                unit.projects.get(guest, "omed")
            assert str(foreign.value).replace("demo", "omed") == str(missing.value)
            with pytest.raises(NotAllowed):  # who saw only some would take the others for strays
                list(unit.documents.blobs(guest))

    def uses_of_a_project(self, document: str) -> list[Callable[[Unit, Scope, str], object]]:
        """Every function that takes a project."""
        return [
            lambda u, s, p: u.projects.rename(s, p, "X", "x"),
            lambda u, s, p: u.projects.remove(s, p),
            lambda u, s, p: u.projects.org_context(s, p),
            lambda u, s, p: u.projects.set_org_context(s, p, "x"),
            lambda u, s, p: u.projects.live(s, p),
            lambda u, s, p: u.projects.building(s, p),
            lambda u, s, p: u.projects.begin(s, p, Strategy(), "x", CARD),
            lambda u, s, p: u.projects.abandon(s, p),
            lambda u, s, p: u.projects.swap(s, p),
            lambda u, s, p: u.projects.sweep(s, p, 1),
            lambda u, s, p: u.projects.with_id(s, p),
            lambda u, s, p: u.documents.summaries(s, p),
            lambda u, s, p: u.documents.sources(s, p, ["/a"]),
            lambda u, s, p: u.documents.source_keys(s, p, "/"),
            lambda u, s, p: u.documents.usage(s, p),
            lambda u, s, p: u.documents.versions_with(s, p, ["0"]),
            lambda u, s, p: u.documents.publish(s, p, 1, [file("/b", "b", failure=BROKEN)]),
            lambda u, s, p: u.documents.all(s, p),
            lambda u, s, p: u.documents.get(s, p, [document]),
            lambda u, s, p: u.documents.known(s, p, [document]),
            lambda u, s, p: u.documents.find(s, p, document),
            lambda u, s, p: u.documents.chunks(s, p, document),
            lambda u, s, p: u.documents.places(s, p, ["c"]),
            lambda u, s, p: u.documents.text(s, p, document),
            lambda u, s, p: u.documents.version(s, p, document),
            lambda u, s, p: u.documents.blob(s, p, document),
            lambda u, s, p: u.documents.remove(s, p, document),
            lambda u, s, p: u.documents.remove_source(s, p, "/a"),
            lambda u, s, p: u.documents.enable(s, p, [document], False),
            lambda u, s, p: u.documents.label(s, p, [document], source_type="x", tags=None, confidentiality=None),
            lambda u, s, p: u.documents.occurs_elsewhere(s, p, document, "refund"),
            lambda u, s, p: u.documents.unsplit(s, p, GENERATION, 1),
            lambda u, s, p: u.documents.put_split(s, p, GENERATION, STORED, Split(), []),
            lambda u, s, p: list(u.documents.stored(s, p)),
            lambda u, s, p: u.embeddings.known(s, p, CARD.fingerprint, [b"0"]),
            lambda u, s, p: u.embeddings.put(s, p, CARD, [b"0"], vectors([b"0"])),
            lambda u, s, p: u.embeddings.sample(s, p, document, 1),
            lambda u, s, p: u.embeddings.of_document(s, p, document),
            lambda u, s, p: u.embeddings.put_stored(s, p, CARD, []),
            lambda u, s, p: u.embeddings.pending(s, p, GENERATION, 1),
            lambda u, s, p: u.embeddings.sweep(s, p),
            lambda u, s, p: u.changes.prune(s, p),
            lambda u, s, p: u.changes.renew(s, p),
            lambda u, s, p: u.changes.follow(s, p, "engine", 1, "", 0),
            lambda u, s, p: u.changes.followed(s, p, "engine", 1),
            lambda u, s, p: u.changes.unfollow(s, p, [1], ["engine"]),
            lambda u, s, p: u.documents.announce(s, p, [1]),
            lambda u, s, p: u.passages.moment(s, p),
            lambda u, s, p: u.evaluations.put_questions(s, p, "set", "", []),
            lambda u, s, p: u.evaluations.question_sets(s, p),
            lambda u, s, p: u.evaluations.question_set(s, p, "set"),
            lambda u, s, p: u.evaluations.questions(s, p, "set"),
            lambda u, s, p: u.evaluations.add_run(s, p, RUN, []),
            lambda u, s, p: u.evaluations.runs(s, p),
            lambda u, s, p: u.evaluations.results(s, p, "run"),
            lambda u, s, p: u.jobs.enqueue(s, p, "add", [{}]),
            lambda u, s, p: u.jobs.all(s, p),
            lambda u, s, p: u.jobs.unfinished(s, "add", p),
            lambda u, s, p: u.conversations.begin(s, p, "title"),
            lambda u, s, p: u.conversations.get(s, p, "c"),
            lambda u, s, p: u.conversations.all(s, p),
            lambda u, s, p: u.conversations.rename(s, p, "c", "title"),
            lambda u, s, p: u.conversations.remove(s, p, "c"),
            lambda u, s, p: u.conversations.add(s, p, records.turn("c"), "", None),
            lambda u, s, p: u.conversations.turns(s, p, "c"),
            lambda u, s, p: u.conversations.update(s, p, "t", summary="x"),
            lambda u, s, p: u.conversations.remove_turn(s, p, "t"),
            lambda u, s, p: u.conversations.roll(s, p, records.rollup("c", 1, 1), "", None),
            lambda u, s, p: u.conversations.unroll(s, p, "r"),
            lambda u, s, p: u.conversations.rollups(s, p, "c"),
            lambda u, s, p: u.conversations.recalled(s, p, ["r"]),
            lambda u, s, p: u.conversations.vectors(s, p, "c", "f"),
            lambda u, s, p: u.conversations.unembedded(s, p, "c", "f"),
            lambda u, s, p: u.conversations.put_vector(s, p, "t", "f", b"0000"),
            lambda u, s, p: u.conversations.forget_document(s, p, document),
            lambda u, s, p: u.interviews.put(s, p, "c", InterviewState("problem")),
            lambda u, s, p: u.interviews.get(s, p, "c"),
            lambda u, s, p: u.interviews.versions(s, p, "c"),
            lambda u, s, p: u.interviews.at(s, p, "c", 1),
            lambda u, s, p: u.texts.read(s, p, ProjectTextKind.HARD_RULES),
            lambda u, s, p: u.texts.write(s, p, ProjectTextKind.HARD_RULES, "x"),
            lambda u, s, p: u.texts.versions(s, p, ProjectTextKind.HARD_RULES),
            lambda u, s, p: u.log.add(s, p, records.entry()),
            lambda u, s, p: u.log.all(s, p, 1),
            lambda u, s, p: u.log.get(s, p, "e"),
            lambda u, s, p: u.log.mark(s, p, "e", "good", ""),
            lambda u, s, p: u.log.charge(s, p, "e", Usage()),
            lambda u, s, p: u.log.spent(s, p, "day"),
            lambda u, s, p: u.log.prune(s, p, _NOW),
            lambda u, s, p: u.artifacts.put(s, p, records.artifact()),
            lambda u, s, p: u.artifacts.get(s, p, "a"),
            lambda u, s, p: u.artifacts.all(s, p),
            lambda u, s, p: u.artifacts.remove(s, p, "a"),
            lambda u, s, p: u.artifacts.forget_document(s, p, document),
            lambda u, s, p: u.lessons.capture(s, p, lessons.BACKEND, lessons.TOLD, verified=True),
            lambda u, s, p: u.lessons.get(s, p, "l"),
            lambda u, s, p: u.lessons.staged(s, p),
            lambda u, s, p: u.lessons.change(s, p, "l", verified=True),
            lambda u, s, p: u.lessons.remove(s, p, ["l"]),
            lambda u, s, p: u.lessons.pending(s, p, 1),
            lambda u, s, p: u.lessons.waiting(s, p),
            lambda u, s, p: u.lessons.rejected(s, p),
            lambda u, s, p: u.lessons.take_up(s, p, 1, ""),
            lambda u, s, p: u.lessons.share(s, p, True),
            lambda u, s, p: u.lessons.facet(s, p, lessons.BACKEND),
            lambda u, s, p: u.lessons.findable(s, p, LessonFilters()),
            lambda u, s, p: u.patterns.all(s, p),
            lambda u, s, p: u.patterns.count(s, p),
            lambda u, s, p: u.patterns.get(s, p, "p"),
            lambda u, s, p: u.patterns.seen_from(s, p, ["p"]),
            lambda u, s, p: u.patterns.lessons(s, p, "p"),
            lambda u, s, p: u.patterns.outcomes(s, p, "p"),
            lambda u, s, p: u.patterns.judge(s, p, "p", PatternState.REJECTED, approved=False),
            lambda u, s, p: u.patterns.edit(s, p, "p", Words("a", "b", "c"), 1),
            lambda u, s, p: u.patterns.merge(s, p, "p", ["q"]),
            lambda u, s, p: u.patterns.split(s, p, "p", ["l"]),
            lambda u, s, p: u.patterns.record(s, p, "p", success=True, note=""),
        ]

    def test_every_function_that_takes_a_project_is_tried(self) -> None:
        tried = {use.__code__.co_names[:2] for use in self.uses_of_a_project("")}
        tried |= {use.__code__.co_names[1:3] for use in self.uses_of_a_project("")}  # inside list(...)
        parts = {
            "projects": Projects,
            "documents": Documents,
            "embeddings": Embeddings,
            "changes": Changes,
            "passages": Passages,
            "jobs": Jobs,
            "evaluations": Evaluations,
            "conversations": Conversations,
            "interviews": Interviews,
            "texts": ProjectTexts,
            "log": QueryLog,
            "artifacts": Artifacts,
            "lessons": Lessons,
            "patterns": Patterns,
        }
        for part, port in parts.items():
            for name, function in vars(port).items():
                if not name.startswith("_") and "project" in inspect.signature(function).parameters:
                    assert (part, name) in tried, f"{port.__name__}.{name}"

    def test_documents_of_a_foreign_project_are_not_reached_through_ones_own(self, shelf: Shelf) -> None:
        mine = Shelf.create(shelf.catalog, "mine")
        foreign = shelf.add("/a", WORDS).document
        own = mine.add("/a", "my own words").document
        guest = scope_of(mine.id)
        for use in self.uses_of_a_document():
            assert _refusal(shelf, guest, partial(use, mine.id), foreign) == _refusal(
                shelf, guest, partial(use, mine.id), "f" * 16
            ), use
        with shelf.catalog.read() as unit:
            assert unit.documents.find(guest, mine.id, foreign) == []
            assert unit.documents.known(guest, mine.id, [foreign, own]) == {own}
            assert unit.documents.get(guest, mine.id, [foreign]) == []
            assert unit.embeddings.sample(guest, mine.id, foreign, 10) == []
            assert unit.embeddings.of_document(guest, mine.id, foreign) == []
            assert not unit.documents.occurs_elsewhere(guest, mine.id, own, "refund")
            assert unit.documents.occurs_elsewhere(owner(), mine.id, own, "refund")
        assert shelf.document(foreign).enabled

    def uses_of_a_document(self) -> list[Callable[[str, Unit, Scope, str], object]]:
        return [
            lambda p, u, s, d: u.documents.chunks(s, p, d),
            lambda p, u, s, d: u.documents.text(s, p, d),
            lambda p, u, s, d: u.documents.version(s, p, d),
            lambda p, u, s, d: u.documents.blob(s, p, d),
            lambda p, u, s, d: u.documents.remove(s, p, d),
            lambda p, u, s, d: u.documents.enable(s, p, [d], False),
            lambda p, u, s, d: u.documents.label(s, p, [d], source_type="x", tags=None, confidentiality=None),
            lambda p, u, s, d: u.documents.occurs_elsewhere(s, p, d, "words"),
        ]

    def test_removals_are_written_down_with_the_removal(self, shelf: Shelf) -> None:
        """Ids and a checksum, no words; for the owner alone. One that is rolled back is none."""
        gone, kept = (shelf.add(f"/{name}", f"words of {name}").document for name in ("gone", "kept"))
        sha256 = shelf.document(gone).sha256
        with pytest.raises(ZeroDivisionError), shelf.catalog.write() as unit:
            unit.documents.remove(owner(), shelf.id, kept)
            _ = 1 / 0
        with shelf.catalog.write() as unit:
            talk = unit.conversations.begin(owner(), shelf.id, "talk").id
            turn = unit.conversations.add(owner(), shelf.id, records.turn(talk), "", None).id
            unit.conversations.remove_turn(owner(), shelf.id, turn)
            unit.documents.remove(owner(), shelf.id, gone)
            unit.conversations.remove(owner(), shelf.id, talk)
            unit.projects.remove(owner(), shelf.id)
        with shelf.catalog.write() as unit:
            told = unit.tombstones.all(owner())
            assert [(str(each.kind), each.id, each.sha256) for each in told] == [
                ("turn", turn, ""),
                ("document", gone, sha256),
                ("conversation", talk, ""),
                ("project", shelf.id, ""),
            ]
            assert unit.tombstones.all(owner(), told[0].number) == told[1:]
            unit.tombstones.put(owner(), told)
            again = unit.tombstones.all(owner())
            assert [replace(each, number=0) for each in again] == [replace(each, number=0) for each in told]
            assert again[0].number > told[-1].number, "one that is written again is news"
            for guest in (scope_of(shelf.id), replace(scope_of(), projects=None)):
                with pytest.raises(NotAllowed):
                    unit.tombstones.all(guest)
                with pytest.raises(NotAllowed):
                    unit.tombstones.put(guest, told)

    def test_only_the_owner_takes_the_whole_catalog(self, shelf: Shelf) -> None:
        """Also not who reaches every project: keys of others are in it, and what was removed."""
        for guest in (scope_of(shelf.id), replace(scope_of(), projects=None)):
            with pytest.raises(NotAllowed), shelf.catalog.dumping(guest):
                pass
            with pytest.raises(NotAllowed), shelf.catalog.loading(guest, "0001", ()):
                pass
        with shelf.catalog.dumping(owner()) as dump:
            assert [row["slug"] for row in dump.rows("projects")] == ["demo"]

    def test_a_guest_names_no_projects(self, shelf: Shelf) -> None:
        """Names are one space: who may take one learns which are taken."""
        guest = scope_of(shelf.id)
        for slug in ("demo", "free"):
            with pytest.raises(NotAllowed) as refused, shelf.catalog.write() as unit:
                unit.projects.create(guest, slug, slug, Strategy(), "x", CARD)
            assert slug not in str(refused.value)
            with pytest.raises(NotAllowed), shelf.catalog.write() as unit:
                unit.projects.rename(guest, shelf.id, slug, slug)

    def test_foreign_jobs_are_out_of_reach(self, shelf: Shelf, clock: ManualClock) -> None:
        mine = Shelf.create(shelf.catalog, "mine")
        guest = scope_of(mine.id)
        foreign, own = self.enqueue(shelf), self.enqueue(mine)
        with shelf.catalog.write() as unit:
            assert [job.id for job in unit.jobs.all(guest)] == [own.id]
            assert unit.jobs.claim(guest, "w", ("add",), 10, foreign.id) is None
            claimed = unit.jobs.claim(guest, "w", ("add",), 10)
            assert claimed is not None
            assert claimed.id == own.id
            assert unit.jobs.claim(guest, "w", ("add",), 10) is None
        held = self.claim(shelf)
        with shelf.catalog.write() as unit:
            assert not unit.jobs.heartbeat(guest, [held], 10, {})
            unit.jobs.finish(guest, [held])
            clock.advance(11)
            assert unit.jobs.reap(guest) == 1
            for job in (foreign.id, "f" * 16):
                with pytest.raises(NotFound, match=f"no job '{job}'"):
                    unit.jobs.cancel(guest, job)
        assert self.job(shelf, foreign.id).state == JobState.RUNNING

    def test_documents_above_the_clearance_do_not_show(self, shelf: Shelf) -> None:
        labels = Labels(confidentiality=Clearance.CONFIDENTIAL)
        secret_file = file("/secret.md", WORDS, labels=labels)
        secret, open_one = (p.document for p in shelf.publish(secret_file, file("/open.md", "for all to read")))
        low, high = (scope_of(shelf.id, clearance=level) for level in (Clearance.INTERNAL, Clearance.CONFIDENTIAL))
        for scope, seen in ((low, {open_one}), (high, {secret, open_one})):
            assert self.seen_by(shelf, scope, secret_file) == seen
        for use in self.uses_of_a_document():
            hidden, missing = (_refusal(shelf, low, partial(use, shelf.id), d) for d in (secret, "f" * 16))
            assert hidden == missing, use
        assert {d.id for d in shelf.documents()} == {secret, open_one}
        assert shelf.remove_source("/secret.md").blobs == (secret_file.blob,)

    def seen_by(self, shelf: Shelf, scope: Scope, secret: Publication) -> set[str]:
        """The documents a scope learns of; every reading function must agree."""
        with shelf.catalog.write() as unit:
            documents = unit.documents
            seen: list[Document] = documents.all(scope, shelf.id)
            ids, keys = {d.id for d in seen}, {s.key for d in seen for s in d.sources}
            everything = [d.id for d in shelf.documents()]
            sees_secret = secret.source.key in keys
            assert {d.id for d in documents.get(scope, shelf.id, everything)} == ids
            assert {d for name in everything for d in documents.find(scope, shelf.id, name)} == ids
            assert bool(documents.find(scope, shelf.id, secret.source.key)) == sees_secret
            assert set(documents.sources(scope, shelf.id, ["/secret.md", "/open.md"])) == keys
            assert set(documents.source_keys(scope, shelf.id, "/")) == keys
            assert bool(documents.versions_with(scope, shelf.id, [secret.source.sha256])) == sees_secret
            (open_one,) = documents.find(scope, shelf.id, "/open.md")
            assert documents.occurs_elsewhere(scope, shelf.id, open_one, "refund") == sees_secret
            stored = {sha256 for _, sha256, _ in documents.stored(scope, shelf.id)}
            assert (secret.source.sha256 in stored) == sees_secret
            assert {d for d in everything if unit.embeddings.sample(scope, shelf.id, d, 1)} == ids
            assert {d for d in everything if unit.embeddings.of_document(scope, shelf.id, d)} == ids
            chunks = [chunk.id for d in everything for chunk in documents.chunks(owner(), shelf.id, d)]
            assert {place.document for place in documents.places(scope, shelf.id, chunks).values()} == ids
            unit.projects.begin(owner(), shelf.id, Strategy(), "splitter/9", OTHER_CARD)
            building = unit.projects.building(scope, shelf.id)
            assert building is not None
            assert {s.document for s in documents.unsplit(scope, shelf.id, building, 10)} == ids
            pending = unit.embeddings.pending(scope, shelf.id, replace(building, chunks=1), 100)
            assert any("refund" in chunk.text for chunk in pending) == sees_secret
            unit.projects.abandon(owner(), shelf.id)
        return ids

    def test_nobody_labels_above_their_clearance(self, shelf: Shelf) -> None:
        document = shelf.add("/a", WORDS).document
        low = replace(shelf, scope=scope_of(shelf.id, clearance=Clearance.INTERNAL))
        secret = file("/b", "other words", labels=Labels(confidentiality=Clearance.CONFIDENTIAL))
        with pytest.raises(NotAllowed, match="internal"):
            low.publish(secret)
        with pytest.raises(NotAllowed), shelf.catalog.write() as unit:
            unit.documents.label(
                low.scope, shelf.id, [document], source_type=None, tags=None, confidentiality=Clearance.RESTRICTED
            )
        assert shelf.texts() == {WORDS}
        assert low.publish(file("/b", "other words"))[0].outcome is Outcome.READY

    def test_a_path_that_is_taken_above_looks_free(self, shelf: Shelf) -> None:
        (above,) = shelf.publish(file("/a", WORDS, labels=Labels(confidentiality=Clearance.RESTRICTED)))
        low = replace(shelf, scope=scope_of(shelf.id, clearance=Clearance.INTERNAL))
        first, again = (low.publish(file("/a", text))[0] for text in ("some words", "changed words"))
        assert first.document == again.document != above.document
        assert (first.outcome, first.replaced) == (Outcome.READY, False) and again.replaced
        assert shelf.texts() == {WORDS, "changed words"}
        (mine,) = low.documents()
        assert (mine.id, mine.name, [each.key for each in mine.sources]) == (first.document, "a", ["/a"])

    def test_an_upload_whose_name_is_taken_above_keeps_it(self, shelf: Shelf) -> None:
        """Whatever others are called: a name that looks like the key beside is another's."""
        secret = Labels(confidentiality=Clearance.RESTRICTED)
        (above,) = shelf.publish(file("upload:a.md", WORDS, labels=secret, name="a.md"))
        low = replace(shelf, scope=scope_of(shelf.id, clearance=Clearance.INTERNAL))
        keys = [f"upload:{name}" for name in ("a.md", "a.md#1", "1__a.md", "%a.md")]
        mine = [low.publish(file(key, f"words of {key}", name=key[7:]))[0].document for key in keys]
        assert len({above.document, *mine}) == 5
        assert [source.key for each in low.documents() for source in each.sources] == keys
        with shelf.catalog.read() as unit:
            assert [unit.documents.find(low.scope, shelf.id, key) for key in keys] == [[each] for each in mine]
            assert unit.documents.find(owner(), shelf.id, "upload:a.md") == [above.document]
            now = unit.passages.moment(low.scope, shelf.id)
            chunks = [chunk.key for each in mine for chunk in unit.documents.chunks(low.scope, shelf.id, each)]
            assert {each.source for each in unit.passages.stored(low.scope, now, chunks)} == set(keys)

    def test_bytes_of_a_document_above_are_refused(self, shelf: Shelf) -> None:
        shelf.publish(file("/a", WORDS, labels=Labels(confidentiality=Clearance.RESTRICTED)))
        before = shelf.documents()
        low = replace(shelf, scope=scope_of(shelf.id, clearance=Clearance.INTERNAL))
        with pytest.raises(NotAllowed, match="cannot be taken in"):
            low.publish(file("/free", "free words"), file("/b", WORDS))
        assert shelf.documents() == before

    def test_a_low_clearance_does_not_remove_by_path(self, shelf: Shelf) -> None:
        labels = Labels(confidentiality=Clearance.CONFIDENTIAL)
        shelf.publish(file("/a", WORDS, labels=labels), file("/b", WORDS))
        low = scope_of(shelf.id, clearance=Clearance.INTERNAL)
        with shelf.catalog.write() as unit:
            for key in ("/a", "/b", "/missing"):
                assert unit.documents.remove_source(low, shelf.id, key) == Removed()
        assert len(shelf.documents()[0].sources) == 2

    def test_building_anew_needs_to_see_everything(self, shelf: Shelf) -> None:
        """Else the documents one cannot see would drop out of the new generation."""
        low = scope_of(shelf.id, clearance=Clearance.INTERNAL)
        with pytest.raises(NotAllowed), shelf.catalog.write() as unit:
            unit.projects.begin(low, shelf.id, Strategy(), "x", CARD)
        with pytest.raises(NotAllowed), shelf.catalog.write() as unit:
            unit.projects.swap(low, shelf.id)

    def test_chunks_are_placed_while_they_are_there(self, shelf: Shelf) -> None:
        document = shelf.add("/a.md", WORDS).document
        chunks = {chunk.id: chunk for chunk in shelf.chunks(document)}

        def placed() -> dict[str, ChunkPlace]:
            with shelf.catalog.read() as unit:
                return unit.documents.places(owner(), shelf.id, [*chunks, "gone"])

        assert placed() == {id: ChunkPlace(document, "a.md", chunk.locator) for id, chunk in chunks.items()}
        shelf.add("/a.md", "Something else.")
        assert placed() == {}
        shelf.add("/a.md", WORDS)
        shelf.remove(document)
        assert placed() == {}

    # -- transactions

    def test_an_exception_takes_everything_back(self, shelf: Shelf) -> None:
        shelf.add("/a", WORDS)
        before, log = shelf.documents(), shelf.changes()
        with pytest.raises(ZeroDivisionError), shelf.catalog.write() as unit:
            shelf.publish_in(unit, file("/a", "changed"), file("/b", "new"))
            unit.jobs.enqueue(owner(), shelf.id, "add", [{}])
            unit.projects.rename(owner(), shelf.id, "X", "x")
            assert len(unit.documents.all(owner(), shelf.id)) == 2
            raise ZeroDivisionError
        assert (shelf.documents(), shelf.changes()) == (before, log)
        assert shelf.texts() == {WORDS}
        with shelf.catalog.read() as unit:
            assert unit.jobs.all(owner()) == []
            assert unit.projects.get(owner(), "demo").name == "Demo"
        assert shelf.faults() == []

    def test_a_reader_keeps_its_moment_while_others_write(self, shelf: Shelf) -> None:
        document = shelf.add("/a", WORDS).document
        with shelf.catalog.read() as unit:
            before = unit.documents.all(owner(), shelf.id)
            with ThreadPoolExecutor(1) as pool:
                pool.submit(shelf.add, "/a", "changed").result()
                pool.submit(shelf.add, "/b", "new").result()
            assert unit.documents.all(owner(), shelf.id) == before
            assert unit.documents.text(owner(), shelf.id, document) == WORDS
            assert "".join(c.text for c in unit.documents.chunks(owner(), shelf.id, document)) == WORDS
        assert shelf.texts() == {"changed", "new"}

    def test_reading_inside_a_write_sees_what_is_committed(self, shelf: Shelf) -> None:
        with shelf.catalog.write() as unit:
            shelf.publish_in(unit, file("/a", WORDS))
            assert shelf.documents() == []
            assert len(unit.documents.all(owner(), shelf.id)) == 1
        assert len(shelf.documents()) == 1

    def test_writing_inside_a_read_is_allowed(self, shelf: Shelf) -> None:
        with shelf.catalog.read() as unit:
            assert unit.documents.all(owner(), shelf.id) == []
            shelf.add("/a", WORDS)
            assert unit.documents.all(owner(), shelf.id) == []
        assert shelf.texts() == {WORDS}

    def test_a_write_inside_a_write_is_refused_at_once(self, shelf: Shelf) -> None:
        began = time.monotonic()
        with pytest.raises(RuntimeError, match="inside"), shelf.catalog.write() as unit:
            unit.jobs.enqueue(owner(), shelf.id, "add", [{}])
            shelf.add("/a", WORDS)
        assert time.monotonic() - began < 5
        shelf.add("/a", WORDS)
        with shelf.catalog.read() as unit:
            assert unit.jobs.all(owner()) == []

    def test_many_threads_publish_at_once(self, shelf: Shelf) -> None:
        def work(worker: int) -> None:
            for number in range(3):
                shelf.add(f"/{worker}/{number}", f"{WORDS} {worker} {number}")

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(work, range(6)))
        assert len(shelf.texts()) == 18
        assert self.follow(shelf, []) == self.visible(shelf)
        assert shelf.faults() == []

    def test_files_that_were_not_read_again_only_join(self, shelf: Shelf) -> None:
        """A touched file whose bytes are known comes without text; it must never become an empty document."""
        document = shelf.add("/a", WORDS).document
        shelf.add("/b", "bytes", BROKEN)

        def unread(key: str, text: str) -> Publication:
            return replace(file(key, text), parsed=Parsed(""), split=Split(), hashes=())

        (joined,) = shelf.publish(unread("/a", WORDS))
        assert (joined.document, joined.outcome, shelf.text(document)) == (document, Outcome.UNCHANGED, WORDS)
        for key, text in (("/b", "bytes"), ("/c", "bytes that left meanwhile")):
            with pytest.raises(Outdated):
                shelf.publish(unread(key, text))
        assert shelf.faults() == []


def _refusal(shelf: Shelf, scope: Scope, use: Callable[[Unit, Scope, str], object], target: str) -> str:
    """How a use of something is refused, without its name."""
    with pytest.raises(NotFound) as refused, shelf.catalog.write() as unit:
        use(unit, scope, target)
    return f"{refused.value} {refused.value.hint}".replace(target, "...")
