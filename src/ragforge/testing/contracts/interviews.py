"""What every catalog keeps of interviews: in versions, for who began them, and without a word of what went."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragforge.domain.access import Clearance, Scope
from ragforge.domain.conversation import Conversation, ConversationKind
from ragforge.domain.discovery import Evidence, InterviewState, without_documents, without_turn
from ragforge.domain.library import Labels
from ragforge.errors import NotFound, Outdated
from ragforge.operate.access import owner
from ragforge.ports import Unit
from ragforge.testing.contracts.shelves import ShelfContract
from ragforge.testing.interview_states import assumption, cited, point, rich, states
from ragforge.testing.records import MODEL, artifact, source, turn
from ragforge.testing.shelf import ManualClock, Shelf, file, scope_of

KEPT = 20


def begin(
    shelf: Shelf, kind: ConversationKind = ConversationKind.DISCOVERY, scope: Scope | None = None
) -> Conversation:
    with shelf.catalog.write() as unit:
        return unit.conversations.begin(scope or shelf.scope, shelf.id, "Chairs", kind=kind)


def put(shelf: Shelf, talk: Conversation, state: InterviewState, scope: Scope | None = None) -> InterviewState:
    with shelf.catalog.write() as unit:
        return unit.interviews.put(scope or shelf.scope, shelf.id, talk.id, state)


def get(shelf: Shelf, talk: Conversation, scope: Scope | None = None) -> InterviewState:
    with shelf.catalog.read() as unit:
        return unit.interviews.get(scope or shelf.scope, shelf.id, talk.id)


def at(shelf: Shelf, talk: Conversation, version: int, scope: Scope | None = None) -> InterviewState:
    with shelf.catalog.read() as unit:
        return unit.interviews.at(scope or shelf.scope, shelf.id, talk.id, version)


def versions(shelf: Shelf, talk: Conversation) -> list[tuple[int, int]]:
    with shelf.catalog.read() as unit:
        return [(each.version, each.turn) for each in unit.interviews.versions(shelf.scope, shelf.id, talk.id)]


def say(shelf: Shelf, talk: Conversation) -> str:
    with shelf.catalog.write() as unit:
        return unit.conversations.add(shelf.scope, shelf.id, turn(talk.id), MODEL, None).id


def two(shelf: Shelf) -> tuple[str, str]:
    """Documents: one that stays, and one that goes."""
    return shelf.add("/kept", "stays").document, shelf.add("/gone", "goes").document


class InterviewsContract(ShelfContract):
    """States with their versions, beside the turns of a conversation."""

    def test_a_state_comes_back_as_it_was(self, shelf: Shelf, clock: ManualClock) -> None:
        talk = begin(shelf)
        assert talk.kind is ConversationKind.DISCOVERY
        with pytest.raises(NotFound):  # nothing is known yet
            get(shelf, talk)
        clock.advance(60)
        state = rich(*two(shelf))
        stored = put(shelf, talk, state)
        assert stored == replace(state, version=1) == get(shelf, talk) == at(shelf, talk, 1)
        with shelf.catalog.read() as unit:
            (version,) = unit.interviews.versions(shelf.scope, shelf.id, talk.id)
            assert (version.version, version.turn, version.made_at) == (1, 2, clock())
            known = unit.conversations.get(shelf.scope, shelf.id, talk.id)
            assert known == replace(talk, updated_at=clock()), "it was spoken in just now"

    def test_any_state_comes_back_as_it_was(self, shelf: Shelf) -> None:
        documents = two(shelf)

        @settings(max_examples=40, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(st.data())
        def survives(data: st.DataObject) -> None:
            talk, state = begin(shelf), data.draw(states(documents))
            assert put(shelf, talk, state) == replace(state, version=1) == get(shelf, talk)

        survives()

    def test_what_no_database_takes_is_replaced(self, shelf: Shelf) -> None:
        talk = begin(shelf)
        stored = put(shelf, talk, InterviewState("problem", points=(point(1, text="nul \x00 half \ud83d"),)))
        assert "\ufffd" in stored.points[0].text and "\ud83d" not in stored.points[0].text
        assert get(shelf, talk) == stored

    def test_versions_count_up_and_the_newest_are_kept(self, shelf: Shelf) -> None:
        talk, other, state = begin(shelf), begin(shelf), InterviewState("problem")
        put(shelf, other, state)
        for number in range(1, KEPT + 6):
            state = put(shelf, talk, replace(state, turn=number, points=(point(number),)))
            assert (state.version, get(shelf, talk)) == (number, state)
        assert versions(shelf, talk) == [(number, number) for number in range(KEPT + 5, 5, -1)]
        assert at(shelf, talk, 6).points == (point(6),)
        for gone in (0, 5, KEPT + 6):
            with pytest.raises(NotFound, match=f"no version {gone}"):
                at(shelf, talk, gone)
        assert versions(shelf, other) == [(1, 0)], "each interview counts for itself"

    def test_what_is_made_from_an_older_version_comes_too_late(self, shelf: Shelf) -> None:
        talk = begin(shelf)
        first = put(shelf, talk, InterviewState("problem"))
        second = put(shelf, talk, replace(first, turn=1))
        for late in (first, InterviewState("problem"), replace(second, version=3)):
            with pytest.raises(Outdated) as refused:
                put(shelf, talk, replace(late, points=(point(1),)))
            assert refused.value.hint
        assert get(shelf, talk) == second and versions(shelf, talk) == [(2, 1), (1, 0)]

    def test_of_many_who_go_on_at_once_one_does(self, shelf: Shelf) -> None:
        talk = begin(shelf)
        first = put(shelf, talk, InterviewState("problem"))

        def went_on(number: int) -> bool:
            try:
                put(shelf, talk, replace(first, points=(point(number),)))
            except Outdated:
                return False
            return True

        with ThreadPoolExecutor(4) as pool:
            assert sum(pool.map(went_on, range(8))) == 1
        assert versions(shelf, talk) == [(2, 0), (1, 0)]

    def test_a_failed_write_leaves_nothing(self, shelf: Shelf) -> None:
        talk = begin(shelf)
        first = put(shelf, talk, InterviewState("problem"))
        with pytest.raises(ZeroDivisionError), shelf.catalog.write() as unit:
            unit.interviews.put(shelf.scope, shelf.id, talk.id, replace(first, turn=1))
            _ = 1 / 0
        assert get(shelf, talk) == first and versions(shelf, talk) == [(1, 0)]

    # -- who may see what

    def test_an_interview_is_its_principals_only(self, shelf: Shelf) -> None:
        talk, chat = begin(shelf), begin(shelf, ConversationKind.CHAT)
        other = Shelf.create(shelf.catalog, "other")
        stored = put(shelf, talk, InterviewState("problem"))
        uses: list[Callable[[Unit, Scope, str, str], object]] = [
            lambda u, s, p, id: u.interviews.put(s, p, id, stored),
            lambda u, s, p, id: u.interviews.get(s, p, id),
            lambda u, s, p, id: u.interviews.versions(s, p, id),
            lambda u, s, p, id: u.interviews.at(s, p, id, 1),
        ]
        guest, second = scope_of(shelf.id), replace(owner(), principal="second")
        strangers = [(guest, shelf.id, talk.id), (second, shelf.id, talk.id)]
        strangers += [(owner(), other.id, talk.id), (owner(), shelf.id, chat.id)]
        for scope, project, id in strangers:
            for use in uses:
                assert _refusal(shelf, use, scope, project, id) == _refusal(shelf, use, scope, project, "f" * 16)
        assert get(shelf, talk) == stored and versions(shelf, talk) == [(1, 0)]

    def test_of_a_document_above_the_scope_nothing_is_told(self, shelf: Shelf) -> None:
        kept, above = two(shelf)
        guest = scope_of(shelf.id, clearance=Clearance.INTERNAL)
        talk = begin(shelf, scope=guest)
        whole = put(shelf, talk, rich(kept, above), guest)
        for level, expected in (
            (Clearance.CONFIDENTIAL, without_documents(whole, {above})),
            (Clearance.INTERNAL, whole),
        ):
            with shelf.catalog.write() as unit:
                unit.documents.label(owner(), shelf.id, [above], source_type=None, tags=None, confidentiality=level)
            assert get(shelf, talk, guest) == at(shelf, talk, 1, guest) == expected
        assert "secret" not in repr(without_documents(whole, {above}))

    def test_who_goes_on_without_a_document_above_them_keeps_nothing_of_it(self, shelf: Shelf) -> None:
        kept, above = two(shelf)
        guest = scope_of(shelf.id, clearance=Clearance.INTERNAL)
        talk = begin(shelf, scope=guest)
        put(shelf, talk, rich(kept, above), guest)
        with shelf.catalog.write() as unit:
            high = Clearance.RESTRICTED
            unit.documents.label(owner(), shelf.id, [above], source_type=None, tags=None, confidentiality=high)
        seen = get(shelf, talk, guest)
        assert "secret" not in repr(put(shelf, talk, replace(seen, turn=3), guest))
        shelf.remove(above)
        assert "secret" not in repr(at(shelf, talk, 1, replace(guest, clearance=Clearance.RESTRICTED)))

    # -- what is gone

    @pytest.mark.parametrize("how", ["remove", "publish", "source"])
    def test_of_a_removed_document_no_version_keeps_a_word(self, shelf: Shelf, how: str) -> None:
        shelf.add("/same", "the same words")
        kept, gone = two(shelf)
        talk, other = begin(shelf), begin(shelf)
        first = put(shelf, talk, rich(kept, gone))
        second = put(shelf, talk, replace(first, turn=3, points=(*first.points, point(5, turn=3))))
        apart = put(shelf, other, InterviewState("problem", points=(point(1, documents=(kept,)),)))
        if how == "remove":
            shelf.remove(gone)
        elif how == "publish":
            shelf.add("/gone", "the same words")  # its path went to another document
        else:
            shelf.remove_source("/gone")
        for before in (first, second):
            after = at(shelf, talk, before.version)
            assert after == without_documents(before, {gone})
            assert "secret" not in repr(after) and gone not in after.documents and kept in after.documents
        left = get(shelf, talk)
        assert [each.id for each in left.assumptions] == ["A1", "A3"] and left.assumptions[1].depends_on == ("A1",)
        assert left.assumptions[0].evidence == (Evidence("They said so.", 1),)
        assert [(each.id, each.assumption) for each in left.points] == [
            ("P1", ""),
            ("P3", ""),
            ("P4", "A3"),
            ("P5", ""),
        ]
        assert [each.criterion for each in left.met] == ["framing.who", "people.who"]
        assert len(left.asked) == 2 and left.numbers == (3, 4)
        assert get(shelf, other) == apart
        assert put(shelf, talk, left).version == 3, "it goes on"

    def test_what_is_cited_is_held_also_where_it_does_not_say_so(self, shelf: Shelf) -> None:
        """As a line of an import might not."""
        kept, gone = two(shelf)
        talk = begin(shelf)
        proof = (Evidence("secret", 1, (cited(kept), cited(gone, "secret"))),)
        bare = InterviewState(
            "problem",
            points=(point(1, text="secret", cited=(cited(gone, "secret"),)),),
            assumptions=(assumption(1, evidence=proof),),
        )
        assert bare.documents == {kept, gone}
        put(shelf, talk, bare)
        shelf.remove(gone)
        assert "secret" not in repr(get(shelf, talk)) and len(get(shelf, talk).assumptions) == 1

    def test_a_document_that_went_while_the_turn_was_on_its_way_is_left_out(self, shelf: Shelf) -> None:
        kept, gone = two(shelf)
        elsewhere = Shelf.create(shelf.catalog, "elsewhere").add("/foreign", "of another project").document
        talk = begin(shelf)
        first = put(shelf, talk, InterviewState("problem"))
        shelf.remove(gone)
        made = rich(kept, gone)
        stored = put(shelf, talk, replace(made, version=first.version))
        assert stored == replace(without_documents(made, {gone}), version=2) == get(shelf, talk)
        stored = put(shelf, talk, replace(stored, points=(point(1, documents=(elsewhere,)),)))
        assert stored.points == ()

    def test_a_document_of_another_project_takes_nothing_along(self, shelf: Shelf) -> None:
        """Bytes that both have are two documents."""
        kept, gone = two(shelf)
        other = Shelf.create(shelf.catalog, "other")
        theirs = other.add("/gone", "goes").document
        talk = begin(shelf)
        stored = put(shelf, talk, rich(kept, gone))
        other.remove(theirs)
        assert get(shelf, talk) == stored

    def test_what_came_of_a_removed_turn_goes_with_it(self, shelf: Shelf) -> None:
        talk = begin(shelf)
        state = put(shelf, talk, InterviewState("problem"))
        ids = [say(shelf, talk), say(shelf, talk)]
        first = put(shelf, talk, replace(rich(*two(shelf)), version=state.version))
        with shelf.catalog.write() as unit:
            unit.conversations.remove_turn(shelf.scope, shelf.id, ids[1])
        left = without_turn(first, 2)
        assert [each.id for each in left.points] == ["P1", "P2"] and [each.id for each in left.assumptions] == [
            "A1",
            "A3",
        ]
        assert at(shelf, talk, 2) == left and get(shelf, talk) == replace(left, version=3)
        with pytest.raises(Outdated):  # what was being said knew of it
            put(shelf, talk, replace(first, turn=3))
        with shelf.catalog.write() as unit:
            unit.conversations.remove_turn(shelf.scope, shelf.id, ids[0])
        assert get(shelf, talk) == replace(without_turn(left, 1), version=4)

    def test_a_turn_of_a_chat_leaves_no_state(self, shelf: Shelf) -> None:
        chat = begin(shelf, ConversationKind.CHAT)
        said = say(shelf, chat)
        with shelf.catalog.write() as unit:
            unit.conversations.remove_turn(shelf.scope, shelf.id, said)
        with pytest.raises(NotFound):
            get(shelf, chat)

    @pytest.mark.parametrize("how", ["conversation", "project"])
    def test_all_goes_with_the_conversation_and_the_project(self, shelf: Shelf, how: str) -> None:
        talk, other = begin(shelf), begin(shelf)
        kept, gone = two(shelf)
        put(shelf, talk, rich(kept, gone))
        apart = put(shelf, other, rich(kept, gone))
        with shelf.catalog.write() as unit:
            if how == "project":
                unit.projects.remove(shelf.scope, shelf.id)
            else:
                unit.conversations.remove(shelf.scope, shelf.id, talk.id)
        with pytest.raises(NotFound):
            get(shelf, talk)
        if how == "conversation":
            assert get(shelf, other) == apart
            shelf.remove(gone)  # those that are gone hold nothing of it
            assert get(shelf, other) == without_documents(apart, {gone})
            with shelf.catalog.write() as unit:
                again = unit.conversations.begin(
                    shelf.scope, shelf.id, "again", talk.id, kind=ConversationKind.DISCOVERY
                )
            assert put(shelf, again, InterviewState("problem")).version == 1
        assert shelf.faults() == []

    # -- beside them

    def test_the_organisation_is_told_once_for_all(self, shelf: Shelf) -> None:
        other = Shelf.create(shelf.catalog, "other")
        for text in ("We make “Möbel” 日本語\n\nin Flensburg.", "Other words.", ""):
            with shelf.catalog.write() as unit:
                unit.projects.set_org_context(shelf.scope, shelf.id, text)
            with shelf.catalog.read() as unit:
                assert unit.projects.org_context(scope_of(shelf.id), shelf.id) == text
                assert unit.projects.org_context(owner(), other.id) == ""
        with shelf.catalog.write() as unit:
            unit.projects.set_org_context(shelf.scope, shelf.id, "nul \x00 half \ud83d")
        with shelf.catalog.read() as unit:
            assert unit.projects.org_context(owner(), shelf.id).startswith("nul \ufffd half \ufffd")

    def test_a_document_of_what_a_person_said_stays(self, shelf: Shelf) -> None:
        """Its sources are of no document: neither is one missed, nor does another's removal touch them."""
        kept, gone = two(shelf)
        (secret,) = shelf.publish(file("/high", "high", labels=Labels(confidentiality=Clearance.RESTRICTED)))
        said, passage, lost = source(1, "", "I said so."), source(2, kept), source(3, gone, "secret")
        with shelf.catalog.write() as unit:
            only = unit.artifacts.put(shelf.scope, shelf.id, artifact(said, kind="problem-brief"))
            mixed = unit.artifacts.put(shelf.scope, shelf.id, artifact(said, passage, lost))
        assert only.sources == (said,) and not only.sections[0].open
        shelf.remove(gone)
        shelf.remove(secret.document)
        with shelf.catalog.read() as unit:
            assert unit.artifacts.get(shelf.scope, shelf.id, only.id) == only
            assert unit.artifacts.get(scope_of(shelf.id, clearance=Clearance.PUBLIC), shelf.id, only.id) == only
            left = unit.artifacts.get(shelf.scope, shelf.id, mixed.id)
        assert left.sources[:2] == (said, passage) and left.sections[:2] == mixed.sections[:2]
        assert left.sections[2].open and "secret" not in repr(left)


def _refusal(shelf: Shelf, use: Callable[[Unit, Scope, str, str], object], scope: Scope, project: str, id: str) -> str:
    """How a use of something is refused, without its name."""
    with pytest.raises(NotFound) as refused, shelf.catalog.write() as unit:
        use(unit, scope, project, id)
    return f"{refused.value} {refused.value.hint}".replace(id, "...")
