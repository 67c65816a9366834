"""Files come, change, are copied, break and go in any order; after every step the catalog shows what a few lines
of plain Python say it must."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ragforge.domain.library import Op, Status
from ragforge.ports import Catalog, EmbedderCard
from ragforge.testing.shelf import BROKEN, CARD, OTHER_CARD, Shelf, file

KEYS = ("/a/one.md", "/a/two.md", "/b/one.md", "/b/three.md")
TEXTS = (
    "The refund window for chairs is thirty days from delivery, for tables sixty.",
    "The refund window for chairs is thirty days from delivery, and no longer.",
    "日本語の文書です。検索できますか？" * 4,
    "x",
)


@dataclass(eq=False)
class ModelDocument:
    """The bytes at each path, the text that is shown, and the newest bytes if they could not be read."""

    paths: dict[str, str] = field(default_factory=dict)
    text: str | None = None
    broken: str | None = None

    @property
    def is_new(self) -> bool:
        return self.text is None and self.broken is None


class CatalogMachine(RuleBasedStateMachine):
    """Subclass and give `make_catalog`, a fresh catalog for each run."""

    def make_catalog(self) -> Catalog:
        raise NotImplementedError

    @initialize()
    def begin(self) -> None:
        self.shelf = Shelf.create(self.make_catalog())
        self.model: list[ModelDocument] = []
        self.followed: set[int] = set()
        self.seq = 0

    def teardown(self) -> None:
        if hasattr(self, "shelf"):
            self.shelf.catalog.close()

    # -- what happens

    @rule(
        files=st.lists(
            st.tuples(st.sampled_from(KEYS), st.sampled_from(TEXTS), st.booleans() | st.just(True)),
            min_size=1,
            max_size=3,
        )
    )
    def add(self, files: list[tuple[str, str, bool]]) -> None:
        self.shelf.publish(*(file(key, text, failure=None if ok else BROKEN) for key, text, ok in files))
        for key, text, ok in files:
            self.add_to_model(key, text, ok)

    @rule(key=st.sampled_from(KEYS))
    def remove_path(self, key: str) -> None:
        self.shelf.remove_source(key)
        self.leave(key)

    @rule(position=st.integers(0, 3))
    def remove_document(self, position: int) -> None:
        if position < len(self.model):
            (gone,) = [
                d for d in self.shelf.documents() if {s.key for s in d.sources} == set(self.model[position].paths)
            ]
            self.shelf.remove(gone.id)
            del self.model[position]

    @rule(chunker=st.sampled_from(["splitter/1", "splitter/2"]), card=st.sampled_from([CARD, OTHER_CARD]))
    def reindex(self, chunker: str, card: EmbedderCard) -> None:
        live = self.shelf.live()
        if (chunker, card.fingerprint) != (live.chunker, live.embedder_fingerprint):
            self.shelf.reindex(chunker, card, 40 if chunker == "splitter/1" else 23)

    @rule()
    def begin_and_leave_unfinished(self) -> None:
        self.shelf.split(self.shelf.begin("splitter/3", self.shelf.card), 11, limit=1)

    # -- what must come of it

    def add_to_model(self, key: str, text: str, ok: bool) -> None:
        owner = next((d for d in self.model if key in d.paths), None)
        holder = next((d for d in self.model if text in (d.text, d.broken)), None)
        if holder is None:
            holder = owner if owner is not None and len(owner.paths) == 1 else ModelDocument()
        if holder not in self.model:
            self.model.append(holder)
        if owner is not holder:
            self.leave(key)
        holder.paths[key] = text
        if text != holder.text:
            holder.text, holder.broken = (text, None) if ok else (holder.text, text)
        self.forget_broken(holder)

    def leave(self, key: str) -> None:
        for document in self.model:
            if document.paths.pop(key, None) is not None:
                self.forget_broken(document)
        self.model = [document for document in self.model if document.paths or document.is_new]

    def forget_broken(self, document: ModelDocument) -> None:
        if document.text is not None and document.broken not in document.paths.values():
            document.broken = None

    @invariant()
    def shows_what_it_must(self) -> None:
        expected = {
            (tuple(sorted(document.paths.items())), document.text or "", document.broken is not None)
            for document in self.model
        }
        hashes = {file("", text).source.sha256: text for text in TEXTS}
        documents = self.shelf.documents()
        shown = {
            (
                tuple(sorted((source.key, hashes[source.sha256]) for source in document.sources)),
                self.shelf.text(document.id),
                document.problem is not None,
            )
            for document in documents
        }
        assert shown == expected
        assert len(documents) == len(self.model)
        for document in documents:
            assert (document.status == Status.READY) == bool(self.shelf.chunks(document.id))
            assert document.name in {source.name for source in document.sources}

    @invariant()
    def is_sound(self) -> None:
        assert self.shelf.faults() == []

    @invariant()
    def log_leads_to_what_is_shown(self) -> None:
        visible = {chunk.key for document in self.shelf.documents() for chunk in self.shelf.chunks(document.id)}
        for change in self.shelf.changes(self.seq):
            assert change.seq > self.seq
            self.seq = change.seq
            if change.op == Op.GENERATION:
                self.followed = set(visible)
            elif change.chunk is not None:
                (self.followed.add if change.op == Op.PUT else self.followed.discard)(change.chunk)
        assert visible <= self.followed  # it also names what is being built, which an index does not take
