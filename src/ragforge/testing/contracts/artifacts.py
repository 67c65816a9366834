"""What every catalog keeps of documents that were made: whole, and without a word of documents that are gone."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from ragforge.domain.access import Clearance
from ragforge.domain.documents import Locator
from ragforge.domain.library import Labels
from ragforge.domain.records import FORGOTTEN_SECTION, FORGOTTEN_SOURCE, Artifact
from ragforge.errors import NotFound
from ragforge.operate.access import owner
from ragforge.testing.contracts.shelves import ShelfContract
from ragforge.testing.records import NOON, artifact, source
from ragforge.testing.shelf import Shelf, file


def put(shelf: Shelf, made: Artifact) -> Artifact:
    with shelf.catalog.write() as unit:
        unit.artifacts.put(shelf.scope, shelf.id, made)
    return made


def stored(shelf: Shelf) -> list[Artifact]:
    with shelf.catalog.read() as unit:
        return unit.artifacts.all(shelf.scope, shelf.id)


class ArtifactsContract(ShelfContract):
    """Documents that were made from a project."""

    def test_one_comes_back_as_it_was(self, shelf: Shelf) -> None:
        a, b = (shelf.add(f"/{name}", f"text of {name}").document for name in "ab")
        made = put(shelf, artifact(source(1, a, "“Ärger” 日本語"), source(2, b), source(3, a)))
        bare = put(shelf, artifact(title="", sections=(), usage={}, problems=(), made_at=NOON + timedelta(seconds=1)))
        assert stored(shelf) == [bare, made]
        with shelf.catalog.read() as unit:
            assert unit.artifacts.get(shelf.scope, shelf.id, made.id) == made
            with pytest.raises(NotFound, match="no made document 'gone'"):
                unit.artifacts.get(shelf.scope, shelf.id, "gone")

    def test_one_replaces_that_of_the_same_id(self, shelf: Shelf) -> None:
        a, b = (shelf.add(f"/{name}", f"text of {name}").document for name in "ab")
        made = put(shelf, artifact(source(1, a)))
        other = put(shelf, artifact(source(1, a)))
        again = put(shelf, artifact(source(1, b), id=made.id, title="Newer"))
        assert sorted(each.title for each in stored(shelf)) == ["Newer", "Plan"]
        with shelf.catalog.write() as unit:
            assert unit.artifacts.forget_document(shelf.scope, shelf.id, a) == 1
            assert unit.artifacts.get(shelf.scope, shelf.id, again.id) == again
            assert unit.artifacts.get(shelf.scope, shelf.id, other.id) != other

    def test_one_can_be_removed(self, shelf: Shelf) -> None:
        made, other = put(shelf, artifact()), put(shelf, artifact())
        with shelf.catalog.write() as unit:
            unit.artifacts.remove(shelf.scope, shelf.id, made.id)
            with pytest.raises(NotFound):
                unit.artifacts.remove(shelf.scope, shelf.id, made.id)
        assert stored(shelf) == [other]

    def test_of_a_removed_document_no_word_stays(self, shelf: Shelf) -> None:
        kept, gone = shelf.add("/kept", "stays").document, shelf.add("/gone", "goes").document
        made = put(shelf, artifact(source(1, kept), source(2, gone, "secret"), source(3, kept)))
        untouched = put(shelf, artifact(source(1, kept)))
        shelf.remove(gone)
        left = {each.id: each for each in stored(shelf)}
        assert left[untouched.id] == untouched
        emptied = left[made.id]
        assert emptied.sources == (
            made.sources[0],
            replace(
                made.sources[1], name=FORGOTTEN_SOURCE, locator=Locator(), checksum="", text="", tokens=0, spans=()
            ),
            made.sources[2],
        )
        section = emptied.sections[1]
        assert (section.text, section.open, section.reason, section.sources) == ("", True, FORGOTTEN_SECTION, ())
        assert [*emptied.sections[:1], *emptied.sections[2:]] == [*made.sections[:1], *made.sections[2:]]
        assert emptied.problems == (
            "no section on costs",
            "[2]: the document was removed, and what cited it with it",
        )
        with shelf.catalog.write() as unit:
            assert unit.artifacts.forget_document(shelf.scope, shelf.id, gone) == 0

    def test_what_a_model_wrote_of_a_removed_document_goes_also_where_it_is_not_cited(self, shelf: Shelf) -> None:
        kept, gone = shelf.add("/kept", "stays").document, shelf.add("/gone", "goes").document
        made = artifact(source(1, kept), source(2, kept), problems=("Part 1: left out: secret", "Part 2: slow", "late"))
        one, two, three = made.sections
        doubtful = replace(two, text="It may be secret [2].", read=(kept, gone), doubtful=True)
        for first, second, problems in (
            (replace(one, read=(kept, gone)), replace(two, read=(kept,)), ("Part 2: slow", "late")),
            (replace(one, read=(kept,)), doubtful, ("Part 1: left out: secret", "late")),
            (one, two, made.problems),
        ):
            put(shelf, replace(made, sections=(first, second, three)))
            with shelf.catalog.write() as unit:
                unit.artifacts.forget_document(shelf.scope, shelf.id, gone)
            (left,) = stored(shelf)
            assert left.problems == problems and left.sections[0].text == one.text
            assert left.sections[1].open is second.doubtful and "may be secret" not in repr(left)
            assert gone not in repr(left)

    def test_a_section_of_two_documents_leaves_nothing_of_either(self, shelf: Shelf) -> None:
        """The first that goes opens the section; of the second only the source is left, and goes too."""
        first, second = (shelf.add(f"/{name}", name).document for name in ("first", "second"))
        both = artifact(source(1, first, "alpha secret"), source(2, second, "bravo secret"))
        section = replace(both.sections[0], sources=(1, 2), read=(first, second))
        put(shelf, replace(both, sections=(section,)))
        for document in (first, second):
            with shelf.catalog.write() as unit:
                unit.artifacts.forget_document(shelf.scope, shelf.id, document)
        (left,) = stored(shelf)
        assert "secret" not in repr(left)

    def test_what_is_made_while_its_document_goes_is_stored_without_it(self, shelf: Shelf) -> None:
        gone = shelf.add("/gone", "goes").document
        shelf.remove(gone)
        with shelf.catalog.write() as unit:
            kept = unit.artifacts.put(shelf.scope, shelf.id, artifact(source(1, gone, "secret")))
        (left,) = stored(shelf)
        assert "secret" not in repr(left) and left.sections[0].open and left == kept

    def test_one_made_from_hidden_documents_is_hidden(self, shelf: Shelf) -> None:
        (secret,) = shelf.publish(file("/secret", "words", labels=Labels(confidentiality=Clearance.RESTRICTED)))
        (public,) = shelf.publish(file("/open", "open words", labels=Labels(confidentiality=Clearance.PUBLIC)))
        hidden = put(shelf, artifact(source(1, public.document), source(2, secret.document)))
        seen = put(shelf, artifact(source(1, public.document)))
        low = replace(owner(), clearance=Clearance.INTERNAL)
        with shelf.catalog.write() as unit:
            assert unit.artifacts.all(low, shelf.id) == [seen]
            with pytest.raises(NotFound):
                unit.artifacts.get(low, shelf.id, hidden.id)
            with pytest.raises(NotFound):
                unit.artifacts.remove(low, shelf.id, hidden.id)
            assert unit.artifacts.forget_document(low, shelf.id, secret.document) == 0
            assert unit.artifacts.get(shelf.scope, shelf.id, hidden.id) == hidden

    def test_they_are_the_projects_own_and_go_with_it(self, shelf: Shelf) -> None:
        document = shelf.add("/a", "words").document
        made = put(shelf, artifact(source(1, document)))
        other = Shelf.create(shelf.catalog, "other")
        with shelf.catalog.write() as unit:
            assert unit.artifacts.forget_document(owner(), other.id, document) == 0
        assert stored(shelf) == [made] and stored(other) == []
        put(other, replace(made, sources=(), title="Elsewhere"))
        assert stored(shelf) == [made]
        with shelf.catalog.write() as unit:
            unit.projects.remove(shelf.scope, shelf.id)
        assert stored(Shelf.create(shelf.catalog)) == []
        assert [each.title for each in stored(other)] == ["Elsewhere"]
