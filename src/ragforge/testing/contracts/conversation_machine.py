"""Conversations and interviews begin, grow, are rolled up, cut and removed in any order; after every step the catalog
shows what a dictionary says it must."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from ragforge.domain.conversation import FORGOTTEN_ANSWER, ConversationKind, Rollup, Turn
from ragforge.domain.discovery import InterviewState, without_documents, without_turn
from ragforge.errors import Outdated
from ragforge.ports import Catalog, Unit
from ragforge.testing.interview_states import rich
from ragforge.testing.records import MODEL, VECTOR, rollup, turn
from ragforge.testing.shelf import Shelf

_KEPT = 20
"""Versions of an interview."""


@dataclass
class Talk:
    """A conversation as plain Python holds it."""

    last: int = 0
    turns: dict[int, Turn] = field(default_factory=dict)
    rollups: dict[str, Rollup] = field(default_factory=dict)
    vectors: set[str] = field(default_factory=set)
    cuts: int = 0
    states: dict[int, InterviewState] = field(default_factory=dict)
    """Of an interview, by version."""

    def store(self, state: InterviewState) -> None:
        self.states[state.version] = state
        self.states.pop(state.version - _KEPT, None)

    def drop_rollup(self, id: str) -> None:
        if self.rollups.pop(id, None) is not None:
            self.vectors.discard(id)
            self.turns = {
                number: replace(said, rolled_into="") if said.rolled_into == id else said
                for number, said in self.turns.items()
            }

    def cut(self, number: int) -> None:
        self.cuts += 1
        for later in self.turns:
            if later > number:
                self.turns[later] = replace(self.turns[later], standalone="")

    def forget(self, number: int) -> None:
        said = self.turns[number]
        self.drop_rollup(said.rolled_into)
        self.vectors.discard(said.id)
        self.turns[number] = forgotten(replace(said, rolled_into=""))

    def bequeath(self, said: Turn) -> None:
        for number, later in sorted(self.turns.items()):
            if number > said.number and later.repeats and later.answer != FORGOTTEN_ANSWER:
                both = dict.fromkeys((*later.documents, *said.documents))
                self.turns[number] = replace(later, documents=tuple(both))
                break


def forgotten(said: Turn) -> Turn:
    return replace(said, answer=FORGOTTEN_ANSWER, standalone="", summary="", tags=(), documents=())


class ConversationMachine(RuleBasedStateMachine):
    """Subclass and give `make_catalog`, a fresh catalog for each run."""

    talks = Bundle("talks")
    documents = Bundle("documents")

    def make_catalog(self) -> Catalog:
        raise NotImplementedError

    @initialize()
    def start(self) -> None:
        self.shelf = Shelf.create(self.make_catalog())
        self.model: dict[str, Talk] = {}
        self.added = 0

    def teardown(self) -> None:
        if hasattr(self, "shelf"):
            self.shelf.catalog.close()

    # -- what happens

    @rule(target=talks, kind=st.sampled_from(ConversationKind))
    def begin(self, kind: ConversationKind) -> str:
        with self.shelf.catalog.write() as unit:
            id = unit.conversations.begin(self.shelf.scope, self.shelf.id, "talk", kind=kind).id
        self.model[id] = Talk()
        if kind is ConversationKind.DISCOVERY:
            self.learn(id, InterviewState("problem"))
        return id

    def learn(self, talk: str, state: InterviewState) -> None:
        with self.shelf.catalog.write() as unit:
            self.model[talk].store(unit.interviews.put(self.shelf.scope, self.shelf.id, talk, state))

    @rule(talk=talks, held=st.lists(documents, min_size=2, max_size=2), late=st.sampled_from([0, 0, 1]))
    def know(self, talk: str, held: list[str], late: int) -> None:
        model = self.model[talk]
        if not model.states:
            return
        newest = max(model.states)
        made = replace(rich(*held), version=newest - late)
        try:
            self.learn(talk, made)
        except Outdated:
            assert late
        else:
            assert model.states[newest + 1] == replace(made, version=newest + 1) and not late

    @rule(target=documents)
    def add_document(self) -> str:
        self.added += 1
        return self.shelf.add(f"/{self.added}", f"text number {self.added}").document

    @rule(
        talk=talks,
        held=st.lists(documents, max_size=2, unique=True),
        embedded=st.booleans(),
        repeats=st.booleans(),
        late=st.sampled_from([0, 0, 1]),
    )
    def add(self, talk: str, held: list[str], embedded: bool, repeats: bool, late: int) -> None:
        model = self.model[talk]
        said = turn(talk, standalone="in full", summary="sum", tags=("x",), documents=tuple(held), repeats=repeats)
        with self.shelf.catalog.write() as unit:
            vector = VECTOR if embedded else None
            cuts = model.cuts - late
            added = unit.conversations.add(self.shelf.scope, self.shelf.id, said, MODEL, vector, cuts)
        model.last += 1
        stored = forgotten(said) if late and repeats else replace(said, standalone="") if late else said
        assert added == replace(stored, number=model.last)
        model.turns[model.last] = added
        if embedded and added.answer != FORGOTTEN_ANSWER:
            model.vectors.add(said.id)

    @rule(
        talk=talks,
        first=st.integers(1, 6),
        length=st.integers(1, 4),
        embedded=st.booleans(),
        late=st.sampled_from([0, 0, 1]),
    )
    def roll(self, talk: str, first: int, length: int, embedded: bool, late: int) -> None:
        model, made = self.model[talk], rollup(talk, first, first + length - 1)
        span = [number for number in model.turns if made.first <= number <= made.last]
        possible = not late and bool(span) and not any(model.turns[number].rolled_into for number in span)
        try:
            with self.shelf.catalog.write() as unit:
                vector = VECTOR if embedded else None
                cuts = model.cuts - late
                unit.conversations.roll(self.shelf.scope, self.shelf.id, made, MODEL, vector, cuts)
        except Outdated:
            assert not possible
            return
        assert possible
        model.rollups[made.id] = made
        for number in span:
            model.turns[number] = replace(model.turns[number], rolled_into=made.id)
        if embedded:
            model.vectors.add(made.id)

    @rule(talk=talks, place=st.integers(0, 3))
    def unroll(self, talk: str, place: int) -> None:
        model = self.model[talk]
        for id in list(model.rollups)[place : place + 1]:
            with self.shelf.catalog.write() as unit:
                unit.conversations.unroll(self.shelf.scope, self.shelf.id, id)
            model.drop_rollup(id)

    @rule(talk=talks, place=st.integers(0, 5))
    def remove_turn(self, talk: str, place: int) -> None:
        model = self.model[talk]
        for number in list(model.turns)[place : place + 1]:
            said = model.turns[number]
            with self.shelf.catalog.write() as unit:
                unit.conversations.remove_turn(self.shelf.scope, self.shelf.id, said.id)
            model.drop_rollup(said.rolled_into)
            del model.turns[number]
            model.vectors.discard(said.id)
            model.bequeath(said)
            model.cut(number)
            if model.states:
                model.states = {version: without_turn(state, number) for version, state in model.states.items()}
                newest = max(model.states)
                model.store(replace(model.states[newest], version=newest + 1))

    @rule(talk=talks)
    def embed_what_is_missing(self, talk: str) -> None:
        model = self.model[talk]
        with self.shelf.catalog.write() as unit:
            missing = unit.conversations.unembedded(self.shelf.scope, self.shelf.id, talk, MODEL)
            for id in missing:
                unit.conversations.put_vector(self.shelf.scope, self.shelf.id, id, MODEL, VECTOR)
        answered = {said.id for said in model.turns.values() if said.answer != FORGOTTEN_ANSWER}
        everything = answered | set(model.rollups)
        assert set(missing) == everything - model.vectors
        model.vectors = everything

    @rule(target=talks, talk=consumes(talks))
    def remove(self, talk: str) -> object:
        with self.shelf.catalog.write() as unit:
            unit.conversations.remove(self.shelf.scope, self.shelf.id, talk)
        del self.model[talk]
        return multiple()

    @rule(target=documents, document=consumes(documents))
    def remove_document(self, document: str) -> object:
        self.shelf.remove(document)
        for model in self.model.values():
            model.states = {version: without_documents(state, {document}) for version, state in model.states.items()}
            holding = [number for number, said in model.turns.items() if document in said.documents]
            if holding:
                told_on = [
                    number
                    for number, said in model.turns.items()
                    if number > min(holding) and said.repeats and said.answer != FORGOTTEN_ANSWER
                ]
                for number in {*holding, *told_on}:
                    model.forget(number)
                model.cut(min(holding))
        return multiple()

    # -- what must come of it

    @invariant()
    def shows_what_it_must(self) -> None:
        with self.shelf.catalog.read() as unit:
            talks = unit.conversations.all(self.shelf.scope, self.shelf.id)
            shown = {talk.id: (talk.turns, talk.cuts) for talk in talks}
            assert shown == {id: (len(model.turns), model.cuts) for id, model in self.model.items()}
            for id, model in self.model.items():
                self.shows(unit, id, model)

    def shows(self, unit: Unit, id: str, model: Talk) -> None:
        where = (self.shelf.scope, self.shelf.id, id)
        assert unit.conversations.turns(*where) == [model.turns[number] for number in sorted(model.turns)]
        assert unit.conversations.rollups(*where) == sorted(model.rollups.values(), key=lambda made: made.first)
        assert set(unit.conversations.vectors(*where, MODEL)) == model.vectors
        if model.states:
            known = unit.interviews.versions(*where)
            assert {each.version: unit.interviews.at(*where, each.version) for each in known} == model.states
            assert unit.interviews.get(*where) == model.states[max(model.states)]
