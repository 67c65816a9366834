"""What every catalog keeps of conversations: numbers without gaps at once, one's own only, and nothing of what went."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from ragforge.domain.access import Clearance, Scope
from ragforge.domain.conversation import FORGOTTEN_ANSWER, Conversation, Rollup, Turn
from ragforge.domain.library import Labels
from ragforge.errors import NotFound, Outdated, UserError
from ragforge.operate.access import owner
from ragforge.ports import Unit
from ragforge.testing.contracts.shelves import ShelfContract
from ragforge.testing.records import MODEL, NOON, VECTOR, citation, entry, rollup, turn
from ragforge.testing.shelf import OTHER_CARD, ManualClock, Shelf, file


def begin(shelf: Shelf, title: str = "Chairs", scope: Scope | None = None) -> Conversation:
    with shelf.catalog.write() as unit:
        return unit.conversations.begin(scope or shelf.scope, shelf.id, title)


def add(shelf: Shelf, said: Turn, vector: bytes | None = None, cuts: int | None = None) -> Turn:
    with shelf.catalog.write() as unit:
        return unit.conversations.add(shelf.scope, shelf.id, said, MODEL, vector, cuts)


def roll(shelf: Shelf, made: Rollup, vector: bytes | None = None, cuts: int | None = None) -> None:
    with shelf.catalog.write() as unit:
        unit.conversations.roll(shelf.scope, shelf.id, made, MODEL, vector, cuts)


def get(shelf: Shelf, conversation: Conversation) -> Conversation:
    with shelf.catalog.read() as unit:
        return unit.conversations.get(shelf.scope, shelf.id, conversation.id)


def turns(shelf: Shelf, conversation: Conversation) -> list[Turn]:
    with shelf.catalog.read() as unit:
        return unit.conversations.turns(shelf.scope, shelf.id, conversation.id)


def rollups(shelf: Shelf, conversation: Conversation) -> list[Rollup]:
    with shelf.catalog.read() as unit:
        return unit.conversations.rollups(shelf.scope, shelf.id, conversation.id)


def embedded(shelf: Shelf, conversation: Conversation, model: str = MODEL) -> set[str]:
    with shelf.catalog.read() as unit:
        return set(unit.conversations.vectors(shelf.scope, shelf.id, conversation.id, model))


class ConversationsContract(ShelfContract):
    """Turns with their vectors, and the summaries that stand for old ones."""

    def test_a_turn_comes_back_as_it_was(self, shelf: Shelf, clock: ManualClock) -> None:
        a, b = (shelf.add(f"/{name}", f"text of {name}").document for name in "ab")
        talk = begin(shelf, "Stühle 👩‍👩‍👧")
        assert (talk.project, talk.title, talk.turns) == (shelf.id, "Stühle 👩‍👩‍👧", 0)
        assert talk.created_at == talk.updated_at == clock()
        clock.advance(60)
        said = turn(
            talk.id,
            "Wie lange? 日本語",
            answer="“30” days\n\nor so",
            standalone="How long for chairs?",
            abstained=True,
            summary="Refunds",
            tags=("refund", "ü"),
            importance=0.25,
            tokens=12,
            documents=(b, a),
            repeats=True,
            source="ask",
            probe="why",
            mode="draft",
            citations=(citation(a, "“30” days\nor \\ so"), citation(b, marker=2, proved=False, reason="no “30”")),
            trace_id="request-1",
            model="openai:gpt-5",
            quoted=True,
        )
        added = add(shelf, said, VECTOR)
        assert added == replace(said, number=1)
        assert turns(shelf, talk) == [added]
        assert get(shelf, talk) == replace(talk, turns=1, updated_at=clock())
        with shelf.catalog.read() as unit:
            assert unit.conversations.vectors(shelf.scope, shelf.id, talk.id, MODEL) == {said.id: VECTOR}

    def test_what_no_database_takes_is_replaced(self, shelf: Shelf) -> None:
        talk = begin(shelf, "a\x00b")
        known = shelf.add("/a", "text").document
        cited = citation(known, "half \ud83d", name="\udc00.md")
        added = add(shelf, turn(talk.id, "nul \x00", answer="half \ud83d", tags=("\udc00",), citations=(cited,)))
        assert (get(shelf, talk).title, added.question) == ("a\ufffdb", "nul \ufffd")
        assert "\ufffd" in added.answer and "\ufffd" in added.tags[0]
        assert "\ufffd" in added.citations[0].quote and "\ufffd" in added.citations[0].name

    def test_the_newest_conversation_comes_first(self, shelf: Shelf, clock: ManualClock) -> None:
        one, two = begin(shelf, "one"), begin(shelf, "two")
        clock.advance(1)
        add(shelf, turn(one.id))
        with shelf.catalog.read() as unit:
            assert [talk.id for talk in unit.conversations.all(shelf.scope, shelf.id)] == [one.id, two.id]

    def test_a_new_title_changes_nothing_else(self, shelf: Shelf, clock: ManualClock) -> None:
        one, two = begin(shelf, "one"), begin(shelf, "two")
        add(shelf, turn(one.id))
        clock.advance(1)
        with shelf.catalog.write() as unit:
            renamed = unit.conversations.rename(shelf.scope, shelf.id, one.id, "Stühle\x00")
            assert [talk.id for talk in unit.conversations.all(shelf.scope, shelf.id)] == [two.id, one.id]
        assert renamed == get(shelf, one) == replace(one, title="Stühle\ufffd", turns=1)
        assert get(shelf, two) == two

    def test_numbers_are_given_once(self, shelf: Shelf) -> None:
        talk = begin(shelf)
        with ThreadPoolExecutor(4) as pool:
            added = list(pool.map(lambda _: add(shelf, turn(talk.id)), range(12)))
        assert sorted(said.number for said in added) == list(range(1, 13))
        with shelf.catalog.write() as unit:
            unit.conversations.remove_turn(shelf.scope, shelf.id, turns(shelf, talk)[-1].id)
        assert add(shelf, turn(talk.id)).number == 13

    def test_a_turn_can_be_marked_and_summed_up(self, shelf: Shelf) -> None:
        talk = begin(shelf)
        said = add(shelf, turn(talk.id, summary="old", tags=("x",)))
        with shelf.catalog.write() as unit:
            unit.conversations.update(shelf.scope, shelf.id, said.id)
            unit.conversations.update(shelf.scope, shelf.id, said.id, importance=1.0)
        assert turns(shelf, talk) == [replace(said, importance=1.0)]
        with shelf.catalog.write() as unit:
            unit.conversations.update(shelf.scope, shelf.id, said.id, summary="", tags=["é", "b"], importance=0.0)
        assert turns(shelf, talk) == [replace(said, summary="", tags=("é", "b"))]
        for wrong in (-0.1, 1.1, float("nan")):
            with pytest.raises(UserError, match="between 0 and 1"), shelf.catalog.write() as unit:
                unit.conversations.update(shelf.scope, shelf.id, said.id, importance=wrong)

    # -- rollups

    def test_a_rollup_stands_for_its_turns(self, shelf: Shelf) -> None:
        talk = begin(shelf)
        for _ in range(5):
            add(shelf, turn(talk.id), VECTOR)
        made, later = rollup(talk.id, 1, 2, tokens=9), rollup(talk.id, 3, 3)
        roll(shelf, later)
        roll(shelf, made, VECTOR)
        assert rollups(shelf, talk) == [made, later]
        assert [said.rolled_into for said in turns(shelf, talk)] == [made.id, made.id, later.id, "", ""]
        with shelf.catalog.write() as unit:
            unit.conversations.recalled(shelf.scope, shelf.id, [made.id, "gone"])
            unit.conversations.recalled(shelf.scope, shelf.id, [made.id])
        assert [each.used for each in rollups(shelf, talk)] == [2, 0]
        with shelf.catalog.write() as unit:
            unit.conversations.unroll(shelf.scope, shelf.id, made.id)
        assert rollups(shelf, talk) == [later]
        assert made.id not in embedded(shelf, talk) and len(embedded(shelf, talk)) == 5
        assert [said.rolled_into for said in turns(shelf, talk)] == ["", "", later.id, "", ""]

    def test_a_span_is_rolled_once(self, shelf: Shelf) -> None:
        talk = begin(shelf)
        for _ in range(3):
            add(shelf, turn(talk.id))
        roll(shelf, rollup(talk.id, 1, 2))
        for first, last in ((1, 2), (2, 3), (4, 9), (3, 2)):
            with pytest.raises(Outdated):
                roll(shelf, rollup(talk.id, first, last))
        assert len(rollups(shelf, talk)) == 1

    # -- vectors

    def test_what_has_no_vector_is_told(self, shelf: Shelf) -> None:
        talk = begin(shelf)
        one, two, three = (add(shelf, turn(talk.id), VECTOR if n == 1 else None) for n in range(3))
        made = rollup(talk.id, 1, 1)
        roll(shelf, made)
        with shelf.catalog.write() as unit:
            missing = unit.conversations.unembedded(shelf.scope, shelf.id, talk.id, MODEL)
            assert missing == [one.id, three.id, made.id]
            assert unit.conversations.unembedded(shelf.scope, shelf.id, talk.id, "other") == [
                one.id,
                two.id,
                three.id,
                made.id,
            ]
            for id in missing:
                unit.conversations.put_vector(shelf.scope, shelf.id, id, MODEL, VECTOR)
            unit.conversations.put_vector(shelf.scope, shelf.id, two.id, MODEL, VECTOR * 2)
            unit.conversations.put_vector(shelf.scope, shelf.id, two.id, "other", VECTOR)
            assert unit.conversations.unembedded(shelf.scope, shelf.id, talk.id, MODEL) == []
            found = unit.conversations.vectors(shelf.scope, shelf.id, talk.id, MODEL)
            assert found == dict.fromkeys((one.id, three.id, made.id), VECTOR) | {two.id: VECTOR * 2}
            with pytest.raises(NotFound):
                unit.conversations.put_vector(shelf.scope, shelf.id, "gone", MODEL, VECTOR)

    def test_vectors_of_a_model_go_when_no_generation_uses_it(self, shelf: Shelf) -> None:
        talk, live = begin(shelf), shelf.card.fingerprint
        said = add(shelf, turn(talk.id))
        with shelf.catalog.write() as unit:
            for model in (live, OTHER_CARD.fingerprint, "gone/1"):
                unit.conversations.put_vector(shelf.scope, shelf.id, said.id, model, VECTOR)
        shelf.begin("splitter/1", OTHER_CARD)
        shelf.sweep()
        assert not embedded(shelf, talk, "gone/1")
        assert embedded(shelf, talk, live) == embedded(shelf, talk, OTHER_CARD.fingerprint) == {said.id}
        shelf.swap(OTHER_CARD)
        shelf.sweep()
        assert not embedded(shelf, talk, live) and embedded(shelf, talk, OTHER_CARD.fingerprint) == {said.id}

    # -- what is removed

    def test_a_removed_conversation_takes_all_of_it_along(self, shelf: Shelf) -> None:
        talk, other = begin(shelf), begin(shelf)
        add(shelf, turn(talk.id), VECTOR)
        add(shelf, turn(other.id), VECTOR)
        roll(shelf, rollup(talk.id, 1, 1), VECTOR)
        asked = entry(conversation=talk.id, standalone="with words of the conversation")
        with shelf.catalog.write() as unit:
            unit.log.add(shelf.scope, shelf.id, asked)
            assert unit.log.get(shelf.scope, shelf.id, asked.id) == asked
            unit.conversations.remove(shelf.scope, shelf.id, talk.id)
            assert unit.log.get(shelf.scope, shelf.id, asked.id) == replace(asked, conversation="", standalone="")
            assert [left.id for left in unit.conversations.all(shelf.scope, shelf.id)] == [other.id]
            with pytest.raises(NotFound):
                unit.conversations.turns(shelf.scope, shelf.id, talk.id)
        assert len(turns(shelf, other)) == len(embedded(shelf, other)) == 1

    def test_a_removed_turn_takes_what_was_made_from_it_along(self, shelf: Shelf) -> None:
        talk = begin(shelf)
        one, two, three = (add(shelf, turn(talk.id, standalone="in full"), VECTOR) for _ in range(3))
        made = rollup(talk.id, 1, 2)
        roll(shelf, made, VECTOR)
        with shelf.catalog.write() as unit:
            unit.conversations.remove_turn(shelf.scope, shelf.id, two.id)
        assert turns(shelf, talk) == [one, replace(three, standalone="")]
        assert rollups(shelf, talk) == [] and embedded(shelf, talk) == {one.id, three.id}
        assert get(shelf, talk).turns == 2

    def test_they_go_with_the_project(self, shelf: Shelf) -> None:
        talk = begin(shelf)
        add(shelf, turn(talk.id), VECTOR)
        roll(shelf, rollup(talk.id, 1, 1), VECTOR)
        with shelf.catalog.write() as unit:
            unit.projects.remove(shelf.scope, shelf.id)
        again = Shelf.create(shelf.catalog)
        with shelf.catalog.read() as unit:
            assert unit.conversations.all(again.scope, again.id) == []
            with pytest.raises(NotFound):
                unit.conversations.get(again.scope, again.id, talk.id)

    # -- documents that are removed

    def test_of_a_removed_document_no_answer_stays(self, shelf: Shelf) -> None:
        kept, gone = shelf.add("/kept", "stays").document, shelf.add("/gone", "goes").document
        talk, quiet = begin(shelf), begin(shelf)
        facts: dict[str, Any] = {"summary": "sum", "tags": ("t",), "standalone": "in full"}
        cited = (citation(kept), citation(gone, "words of the one that goes"))
        one = add(shelf, turn(talk.id, documents=(kept,), citations=cited[:1], **facts), VECTOR)
        two = add(shelf, turn(talk.id, documents=(kept, gone), citations=cited, **facts), VECTOR)
        three = add(shelf, turn(talk.id, **facts), VECTOR)
        calm = add(shelf, turn(quiet.id, documents=(kept,), **facts), VECTOR)
        roll(shelf, rollup(talk.id, 2, 2), VECTOR)
        roll(shelf, rollup(quiet.id, 1, 1), VECTOR)
        calm = turns(shelf, quiet)[0]
        asked = entry(conversation=talk.id, standalone="with words of the conversation")
        with shelf.catalog.write() as unit:
            unit.log.add(shelf.scope, shelf.id, asked)
        shelf.remove(gone)
        assert turns(shelf, talk) == [
            one,
            replace(two, answer=FORGOTTEN_ANSWER, summary="", tags=(), citations=(), standalone="", documents=()),
            replace(three, standalone=""),
        ]
        assert rollups(shelf, talk) == [] and embedded(shelf, talk) == {one.id, three.id}
        assert turns(shelf, quiet) == [calm] and len(rollups(shelf, quiet)) == 1
        with shelf.catalog.write() as unit:
            assert unit.log.get(shelf.scope, shelf.id, asked.id) == replace(asked, standalone="")
            assert unit.conversations.forget_document(shelf.scope, shelf.id, gone) == 0
            assert unit.conversations.forget_document(shelf.scope, shelf.id, kept) == 2, "one has nothing to lose"

    def test_of_a_document_above_the_scope_no_answer_is_told(self, shelf: Shelf) -> None:
        kept, above = shelf.add("/kept", "stays").document, shelf.add("/above", "rises").document
        talk = begin(shelf)
        facts: dict[str, Any] = {"summary": "sum", "tags": ("t",), "standalone": "in full"}
        one = add(shelf, turn(talk.id, documents=(kept,), **facts), VECTOR)
        cited = (citation(kept), citation(above, "words of the one above"))
        two = add(shelf, turn(talk.id, documents=(kept, above), citations=cited, model="m", **facts), VECTOR)
        three = add(shelf, turn(talk.id, **facts), VECTOR)
        four = add(shelf, turn(talk.id, documents=(kept,), citations=cited[:1], repeats=True, **facts), VECTOR)
        roll(shelf, rollup(talk.id, 1, 1), VECTOR)
        roll(shelf, rollup(talk.id, 2, 3), VECTOR)
        asked = entry(conversation=talk.id, standalone="with words of the conversation")
        low = replace(shelf.scope, clearance=Clearance.INTERNAL)
        with shelf.catalog.write() as unit:
            unit.log.add(shelf.scope, shelf.id, asked)

        def seen() -> tuple[Any, ...]:
            with shelf.catalog.read() as unit:
                known_by, talks = (low, shelf.id, talk.id), unit.conversations
                return (
                    [replace(each, rolled_into="") for each in talks.turns(*known_by)],
                    [(each.first, each.last) for each in talks.rollups(*known_by)],
                    {one.id, two.id, three.id, four.id}.intersection(talks.vectors(*known_by, MODEL)),
                    {one.id, two.id, three.id, four.id}.intersection(talks.unembedded(*known_by, "another")),
                    unit.log.get(low, shelf.id, asked.id),
                    unit.log.all(low, shelf.id, 10),
                    talks.get(*known_by).cuts,
                )

        lost: dict[str, Any] = {"summary": "", "tags": (), "standalone": "", "citations": (), "documents": ()}
        lost["answer"] = FORGOTTEN_ANSWER
        ids = {one.id, two.id, three.id, four.id}
        whole = ([one, two, three, four], [(1, 1), (2, 3)], ids, ids, asked, [asked], talk.cuts)
        assert seen() == whole
        for level, expected in (
            (
                Clearance.CONFIDENTIAL,
                (
                    [
                        one,
                        replace(two, **lost),
                        replace(three, standalone=""),
                        replace(four, **lost),
                    ],
                    [(1, 1)],
                    {one.id, three.id},
                    {one.id, three.id},
                    replace(asked, standalone=""),
                    [replace(asked, standalone="")],
                    talk.cuts + 2,
                ),
            ),
            (Clearance.INTERNAL, whole),
        ):
            with shelf.catalog.write() as unit:
                unit.documents.label(shelf.scope, shelf.id, [above], source_type=None, tags=None, confidentiality=level)
            assert seen() == expected
            assert [each.answer for each in turns(shelf, talk)] == [each.answer for each in whole[0]], "to its owner"

    def test_what_a_turn_cites_it_may_hold_words_of(self, shelf: Shelf) -> None:
        """Also if it does not say so, as a line of an import might not."""
        kept, gone = shelf.add("/kept", "stays").document, shelf.add("/gone", "goes").document
        talk = begin(shelf)
        said = add(shelf, turn(talk.id, documents=(kept,), citations=(citation(gone), citation(kept, marker=2))))
        assert said.documents == (kept, gone)
        shelf.remove(gone)
        late = add(shelf, turn(talk.id, citations=(citation(gone),)))
        assert late.answer == FORGOTTEN_ANSWER
        assert [(each.answer, each.citations) for each in turns(shelf, talk)] == [(FORGOTTEN_ANSWER, ())] * 2

    def test_later_turns_that_may_repeat_it_are_forgotten_too(self, shelf: Shelf) -> None:
        kept, gone = shelf.add("/kept", "stays").document, shelf.add("/gone", "goes").document
        talk, other = begin(shelf), begin(shelf)
        add(shelf, turn(talk.id, documents=(kept,), repeats=True))
        add(shelf, turn(talk.id, documents=(gone,)))
        add(shelf, turn(talk.id, documents=(kept,)))
        add(shelf, turn(talk.id, documents=(kept,), repeats=True, summary="sum"), VECTOR)
        add(shelf, turn(other.id, repeats=True))
        roll(shelf, rollup(talk.id, 3, 4), VECTOR)
        shelf.remove(gone)
        lost = [said.answer == FORGOTTEN_ANSWER for said in turns(shelf, talk)]
        assert lost == [False, True, False, True] and embedded(shelf, talk) == set() and rollups(shelf, talk) == []
        assert turns(shelf, talk)[3].documents == () and turns(shelf, other)[0].answer != FORGOTTEN_ANSWER
        add(shelf, turn(talk.id, repeats=True))
        shelf.remove(kept)
        assert turns(shelf, talk)[4].answer == FORGOTTEN_ANSWER, "the first and the third held words of that one"

    def test_what_was_forgotten_takes_no_newer_turn_along(self, shelf: Shelf) -> None:
        kept, gone = shelf.add("/kept", "stays").document, shelf.add("/gone", "goes").document
        talk = begin(shelf)
        add(shelf, turn(talk.id, documents=(kept, gone)))
        shelf.remove(gone)
        later = add(shelf, turn(talk.id, repeats=True))
        shelf.remove(kept)
        assert turns(shelf, talk)[1] == later

    def test_the_documents_of_a_removed_turn_are_those_of_the_next_that_may_repeat_it(self, shelf: Shelf) -> None:
        a, b = (shelf.add(f"/{name}", f"text of {name}").document for name in "ab")
        talk = begin(shelf)
        first = add(shelf, turn(talk.id, documents=(a, b)))
        add(shelf, turn(talk.id))
        heir = add(shelf, turn(talk.id, documents=(b,), repeats=True))
        add(shelf, turn(talk.id, repeats=True))
        with shelf.catalog.write() as unit:
            unit.conversations.remove_turn(shelf.scope, shelf.id, first.id)
        assert [said.documents for said in turns(shelf, talk)] == [(), (b, a), ()]
        with shelf.catalog.write() as unit:
            unit.conversations.remove_turn(shelf.scope, shelf.id, heir.id)
        assert [said.documents for said in turns(shelf, talk)] == [(), (b, a)]
        shelf.remove(a)
        assert [said.answer == FORGOTTEN_ANSWER for said in turns(shelf, talk)] == [False, True]

    def test_a_document_whose_path_went_to_another_is_forgotten_too(self, shelf: Shelf) -> None:
        shelf.add("/a", "the same words")
        gone = shelf.add("/b", "other words").document
        talk = begin(shelf)
        add(shelf, turn(talk.id, documents=(gone,)))
        shelf.add("/b", "the same words")
        assert [said.answer for said in turns(shelf, talk)] == [FORGOTTEN_ANSWER]

    def test_an_answer_that_comes_after_its_document_went_is_not_kept(self, shelf: Shelf) -> None:
        kept, gone = shelf.add("/kept", "stays").document, shelf.add("/gone", "goes").document
        shelf.remove(gone)
        talk = begin(shelf)
        added = add(shelf, turn(talk.id, documents=(gone, kept), citations=(citation(kept),), summary="sum"), VECTOR)
        assert (added.answer, added.summary, added.citations, added.documents) == (FORGOTTEN_ANSWER, "", (), ())
        assert embedded(shelf, talk) == set()

    def test_an_answer_that_repeats_what_went_meanwhile_is_not_kept(self, shelf: Shelf) -> None:
        gone = shelf.add("/gone", "goes").document
        talk = begin(shelf)
        add(shelf, turn(talk.id, documents=(gone,)))
        read = get(shelf, talk).cuts
        shelf.remove(gone)
        now = get(shelf, talk).cuts
        told = turn(talk.id, standalone="in full", repeats=True)
        assert add(shelf, told, VECTOR, read).answer == FORGOTTEN_ANSWER and embedded(shelf, talk) == set()
        own = add(shelf, turn(talk.id, standalone="in full"), VECTOR, read)
        assert own.answer != FORGOTTEN_ANSWER and own.standalone == "", "it may have been rewritten with what went"
        whole = add(shelf, turn(talk.id, standalone="in full", repeats=True), VECTOR, now)
        assert whole.answer != FORGOTTEN_ANSWER and whole.standalone and len(embedded(shelf, talk)) == 2

    def test_what_was_made_from_a_forgotten_answer_comes_too_late(self, shelf: Shelf) -> None:
        gone = shelf.add("/gone", "goes").document
        talk = begin(shelf)
        add(shelf, turn(talk.id, documents=(gone,)))
        shelf.remove(gone)
        (said,) = turns(shelf, talk)
        with shelf.catalog.write() as unit:
            assert unit.conversations.unembedded(shelf.scope, shelf.id, talk.id, MODEL) == []
            unit.conversations.put_vector(shelf.scope, shelf.id, said.id, MODEL, VECTOR)
            unit.conversations.update(shelf.scope, shelf.id, said.id, summary="secret", tags=["secret"], importance=0.5)
        assert turns(shelf, talk) == [replace(said, importance=0.5)] and embedded(shelf, talk) == set()

    @pytest.mark.parametrize("how", ["document", "turn"])
    def test_a_rollup_made_before_something_went_comes_too_late(
        self, shelf: Shelf, clock: ManualClock, how: str
    ) -> None:
        """Whatever the clocks say: on a server, they are those of several machines."""
        gone = shelf.add("/gone", "goes").document
        talk = begin(shelf)
        first = add(shelf, turn(talk.id, documents=(gone,)))
        add(shelf, turn(talk.id))
        read = get(shelf, talk).cuts
        with shelf.catalog.write() as unit:
            if how == "document":
                unit.documents.remove(shelf.scope, shelf.id, gone)
            else:
                unit.conversations.remove_turn(shelf.scope, shelf.id, first.id)
        with pytest.raises(Outdated):
            roll(shelf, rollup(talk.id, 1, 2, made_at=clock() + timedelta(hours=1)), cuts=read)
        roll(shelf, rollup(talk.id, 1, 2, made_at=clock() - timedelta(hours=1)), cuts=get(shelf, talk).cuts)

    def test_answers_to_others_are_forgotten_too(self, shelf: Shelf) -> None:
        gone = shelf.add("/gone", "goes").document
        guest = replace(owner(), principal="guest", projects=frozenset({shelf.id}))
        talk = begin(shelf, scope=guest)
        with shelf.catalog.write() as unit:
            unit.conversations.add(guest, shelf.id, turn(talk.id, documents=(gone,)), MODEL, None)
        shelf.remove(gone)
        with shelf.catalog.read() as unit:
            (said,) = unit.conversations.turns(guest, shelf.id, talk.id)
        assert said.answer == FORGOTTEN_ANSWER

    def test_a_document_that_one_may_not_know_of_is_not_forgotten(self, shelf: Shelf) -> None:
        (secret,) = shelf.publish(file("/secret", "words", labels=Labels(confidentiality=Clearance.RESTRICTED)))
        elsewhere = Shelf.create(shelf.catalog, "elsewhere")
        talk = begin(shelf)
        said = add(shelf, turn(talk.id, documents=(secret.document,)))
        with shelf.catalog.write() as unit:
            low = replace(owner(), clearance=Clearance.PUBLIC)
            assert unit.conversations.forget_document(low, shelf.id, secret.document) == 0
            assert unit.conversations.forget_document(owner(), elsewhere.id, secret.document) == 0
        assert turns(shelf, talk) == [said]

    # -- who may see what

    def test_a_conversation_is_its_principals_only(self, shelf: Shelf) -> None:
        talk = begin(shelf)
        said = add(shelf, turn(talk.id), VECTOR)
        made = rollup(talk.id, 1, 1)
        roll(shelf, made, VECTOR)
        before = (get(shelf, talk), turns(shelf, talk), rollups(shelf, talk), embedded(shelf, talk))
        guest = replace(owner(), principal="guest", projects=frozenset({shelf.id}))
        other_owner = replace(owner(), principal="second")
        uses: list[tuple[str, Callable[[Unit, Scope, str], object]]] = [
            (talk.id, lambda u, s, id: u.conversations.get(s, shelf.id, id)),
            (talk.id, lambda u, s, id: u.conversations.rename(s, shelf.id, id, "theirs")),
            (talk.id, lambda u, s, id: u.conversations.remove(s, shelf.id, id)),
            (talk.id, lambda u, s, id: u.conversations.add(s, shelf.id, turn(id), "", None)),
            (talk.id, lambda u, s, id: u.conversations.turns(s, shelf.id, id)),
            (said.id, lambda u, s, id: u.conversations.update(s, shelf.id, id, importance=1.0)),
            (said.id, lambda u, s, id: u.conversations.remove_turn(s, shelf.id, id)),
            (talk.id, lambda u, s, id: u.conversations.roll(s, shelf.id, rollup(id, 1, 1), "", None)),
            (made.id, lambda u, s, id: u.conversations.unroll(s, shelf.id, id)),
            (talk.id, lambda u, s, id: u.conversations.rollups(s, shelf.id, id)),
            (talk.id, lambda u, s, id: u.conversations.vectors(s, shelf.id, id, MODEL)),
            (talk.id, lambda u, s, id: u.conversations.unembedded(s, shelf.id, id, MODEL)),
            (made.id, lambda u, s, id: u.conversations.put_vector(s, shelf.id, id, MODEL, b"0000")),
        ]
        for scope in (guest, other_owner):
            for target, use in uses:
                assert _refusal(shelf, scope, use, target) == _refusal(shelf, scope, use, "f" * 16)
            with shelf.catalog.write() as unit:
                assert unit.conversations.all(scope, shelf.id) == []
                unit.conversations.recalled(scope, shelf.id, [made.id])
            with pytest.raises(NotFound), shelf.catalog.write() as unit:
                unit.conversations.put_vector(scope, shelf.id, said.id, MODEL, b"0000")
        assert (get(shelf, talk), turns(shelf, talk), rollups(shelf, talk), embedded(shelf, talk)) == before

    def test_a_conversation_is_found_in_its_own_project_only(self, shelf: Shelf) -> None:
        talk = begin(shelf)
        other = Shelf.create(shelf.catalog, "other")
        said = add(shelf, turn(talk.id))
        with shelf.catalog.write() as unit:
            assert unit.conversations.all(owner(), other.id) == []
            with pytest.raises(NotFound):
                unit.conversations.turns(owner(), other.id, talk.id)
            with pytest.raises(NotFound):
                unit.conversations.remove_turn(owner(), other.id, said.id)

    def test_a_failed_write_leaves_nothing(self, shelf: Shelf) -> None:
        talk = begin(shelf)
        with pytest.raises(ZeroDivisionError), shelf.catalog.write() as unit:
            unit.conversations.add(shelf.scope, shelf.id, turn(talk.id, asked_at=NOON), MODEL, VECTOR)
            _ = 1 / 0
        assert turns(shelf, talk) == [] and embedded(shelf, talk) == set()
        assert add(shelf, turn(talk.id)).number == 1


def _refusal(shelf: Shelf, scope: Scope, use: Callable[[Unit, Scope, str], object], target: str) -> str:
    """How a use of something is refused, without its name."""
    with pytest.raises(NotFound) as refused, shelf.catalog.write() as unit:
        use(unit, scope, target)
    return f"{refused.value} {refused.value.hint}".replace(target, "...")
