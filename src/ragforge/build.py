"""The only place where settings become objects. Reads as a parts list."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from ragforge.adapters.blobs.storage import Storage, storage
from ragforge.adapters.locks import WorkspaceLock
from ragforge.domain.access import Scope
from ragforge.domain.generation import MILLION, Usage
from ragforge.domain.library import Finding, Project
from ragforge.domain.migration import SQLITE, is_same_place, is_server, without_password
from ragforge.domain.models import LanguageModels, ModelState, PulledModel
from ragforge.domain.records import Artifact
from ragforge.domain.retrieval import IndexedText, Moment, Tuning
from ragforge.domain.strategy import Strategy
from ragforge.errors import Busy, CorruptStore, IndexLost, NotFound, RagforgeError, StoreError, UserError
from ragforge.flows.follow import LESSONS, Indexes
from ragforge.once import once
from ragforge.operate import telemetry
from ragforge.operate.counters import CountedEmbedder, Counters
from ragforge.operate.inbox import Inbox, SharedInbox
from ragforge.operate.inflight import InFlight
from ragforge.operate.ready import Probe
from ragforge.ports import (
    BlobStore,
    Catalog,
    CatalogSource,
    Embedder,
    KeywordIndex,
    LanguageModel,
    Parsers,
    ProcessLock,
    Reranker,
    VectorIndex,
)
from ragforge.settings import FILE_NAME, Settings, template

if TYPE_CHECKING:
    from ragforge.adapters.catalog.database import Database
    from ragforge.adapters.models.names import Name
    from ragforge.adapters.models.states import Access
    from ragforge.adapters.postgres import PostgresServer
    from ragforge.adapters.vectors.chroma_process import ChromaProcess
    from ragforge.adapters.vectors.qdrant_engines import QdrantPlace
    from ragforge.flows.backup import Place, Replaced
    from ragforge.flows.migrate import Migrate

OFFLINE = "offline"
"""The name that asks for no language model, whatever the settings say."""
PROFILES = ("cheap", "balanced", "premium")
ANSWERS = "answers"
"""What the model of the settings is for, beside what profiles are for."""
INDEXED_TEXT = "name heading*2 header text"
"""What of a chunk the keyword index holds; part of its fingerprint."""


def indexed_terms(text: IndexedText) -> tuple[str, ...]:
    """A chunk's terms for the keyword index: its file's name counts like its text, its headings twice."""
    from ragforge.retrieve.words import index_terms

    return index_terms("\n".join((text.name, *text.path, *text.path, text.header, text.text)))


def utc_now() -> datetime:
    return datetime.now(UTC)


class Parts:
    """Everything the flows need, made when first asked for."""

    def __init__(self, settings: Settings, embedders: Mapping[str, Embedder] | None = None) -> None:
        self.settings = settings
        self.workspace = settings.workspace
        self.counters = Counters()
        self._embedders: dict[str, Embedder] = {
            name: CountedEmbedder(embedder, self.counters) for name, embedder in (embedders or {}).items()
        }
        self._embedders_lock = Lock()
        self._rerankers: dict[str, Reranker] = {}
        self._language_models: dict[str, LanguageModel] = {}
        self._indexes: dict[tuple[str, int, str, str], Indexes] = {}
        self._lesson_indexes: dict[str, Indexes] = {}
        self._indexes_lock = Lock()
        self._exits = ExitStack()
        self.notices: list[str] = []
        """What a person should know about what was done, such as an upgrade."""

    # -- truth

    @once
    def catalog(self) -> Catalog:
        from ragforge.adapters.catalog.catalog import SqlCatalog

        store = self.settings.store
        if store.database_url:
            return SqlCatalog.connect(store.database_url, utc_now, store.connections, store.reach_seconds)
        _require_catalog(self.workspace)
        catalog = SqlCatalog.open(self.workspace / "catalog.db", utc_now, store.busy_seconds)
        if catalog.upgraded_from is not None:
            self.notices.append(f"the workspace was upgraded; the catalog as it was is kept in {catalog.upgraded_from}")
        return catalog

    @once
    def _storage(self) -> Storage:
        store = self.settings.store
        return storage(store.blobs, store.blobs_url, self.workspace, utc_now, lambda: self.catalog)

    @property
    def blobs(self) -> BlobStore:
        return self._storage.blobs

    @once
    def storage_probe(self) -> Probe | None:
        """Whether the storage that machines share answers; None where files are in the workspace."""
        return Probe(lambda: self._storage.reach()) if self.settings.store.blobs else None

    @once
    def node(self) -> str:
        """By what this workspace's folder is known to others on the same catalog; empty where there are none."""
        if not self.settings.store.database_url:
            return ""
        from ragforge.operate.nodes import identity

        return identity(self.workspace)

    @once
    def in_flight(self) -> InFlight:
        folder = self.workspace / "inflight"
        return InFlight(folder, lambda: WorkspaceLock(folder / "lock"))

    @once
    def inbox(self) -> Inbox:
        return _inbox(self._storage, lambda: self.catalog.identity())

    # -- reading files

    @once
    def parsers(self) -> Parsers:
        from ragforge.ingest.jail.limits import Limits
        from ragforge.ingest.jail.pool import Jail

        jail = self.settings.jail
        limits = Limits(memory_bytes=jail.memory_bytes, cpu_seconds=jail.cpu_seconds, wall_seconds=jail.wall_seconds)
        return Jail(limits, concurrency=jail.processes, unsafe=jail.unsafe)

    # -- models

    def embedder(self, name: str) -> Embedder:
        """The embedder called `name`, made once."""
        with self._embedders_lock:
            if name not in self._embedders:
                self._embedders[name] = CountedEmbedder(self._make_embedder(name), self.counters)
            return self._embedders[name]

    def _make_embedder(self, name: str) -> Embedder:
        embed = self.settings.embed
        if name == "minilm":
            from ragforge.adapters.embedders.minilm import MiniLM
            from ragforge.adapters.weights import model_folder

            return MiniLM(model_folder(name, self.settings.store.models_dir), embed.threads or None)
        if name == "wordllama":
            from ragforge.adapters.embedders.wordllama import WordLlama

            return WordLlama()
        if ":" in name:
            from ragforge.adapters.embedders.provider import Patience, ProviderEmbedder

            patience = Patience(request_seconds=embed.timeout_seconds)
            embedder = ProviderEmbedder(name, key=self._key(name), base_url=embed.base_url or None, patience=patience)
            self._exits.callback(embedder.close)
            return embedder
        raise UserError(
            f"no embedder called {name!r}",
            hint="use minilm, wordllama, or provider:model such as openai:text-embedding-3-small",
        )

    def embedding_usage(self, name: str, tokens: int) -> Usage:
        """What so many tokens take of a service that embeds; nothing of a model that is part of this process."""
        if ":" not in name:
            return Usage()
        from ragforge.adapters.models.names import parse_name
        from ragforge.adapters.models.prices import listed

        price = listed(parse_name(name), self.settings.embed.base_url).input_price
        return Usage(tokens, 0, 1, None if price is None else price * tokens / MILLION)

    def _key(self, name: str) -> str | None:
        variable = self.settings.embed.api_key_env or f"{name.split(':')[0].upper()}_API_KEY"
        return self.settings.secrets.get(variable)

    def language_model(self, name_or_profile: str = "") -> LanguageModel | None:
        """The language model of this name or profile, made once; without a name, that of the settings.

        None if there is none: answers then quote.
        """
        name = self._model_name(name_or_profile)
        if name in ("", OFFLINE):
            return None
        with self._embedders_lock:
            if name not in self._language_models:
                self._language_models[name] = self._make_language_model(name)
            return self._language_models[name]

    def _model_name(self, name_or_profile: str = "") -> str:
        """The name that is meant; a profile without a model of its own has that of the settings."""
        profiles = {profile: getattr(self.settings.model, profile) for profile in PROFILES}
        usual = profiles.get(self.settings.model.name) or self.settings.model.name
        return profiles.get(name_or_profile, name_or_profile) or usual

    def _make_language_model(self, name: str) -> LanguageModel:
        from ragforge.adapters.models.names import parse_name
        from ragforge.adapters.models.pydantic_ai import Patience, ServedModel

        reached, settings = self._access(parse_name(name)), self.settings.model
        model = ServedModel(
            name,
            key=reached.key,
            key_name=reached.key_name,
            base_url=reached.base_url,
            proxy=settings.proxy,
            window=reached.window,
            patience=Patience(idle_seconds=settings.idle_seconds),
            calling=lambda: self._provider_call(name),
            spent=lambda usage: self.counters.spend(name, usage),
        )
        self._exits.callback(model.close)
        return model

    def _provider_call(self, name: str) -> AbstractContextManager[None]:
        self.counters.add("provider_calls")
        return telemetry.aside("provider call", model=name)

    def _access(self, name: Name) -> Access:
        from ragforge.adapters.models.names import COMPATIBLE
        from ragforge.adapters.models.states import Access

        settings, usual = self.settings.model, self._model_name()
        # the address and the key were given for one service: another must not get to see them
        is_meant = name.provider in (COMPATIBLE, usual.partition(":")[0])
        key_name = (settings.api_key_env if is_meant else "") or name.key_name
        return Access(
            key_name,
            self.settings.secrets.get(key_name, ""),
            settings.base_url if is_meant else "",
            settings.window if str(name) == usual else 0,
        )

    def language_models(self, *, with_cards: bool = True) -> LanguageModels:
        """The language models of the settings, and those that an Ollama on its port has. None of them is called."""
        from ragforge.adapters.models.states import at_hand

        uses: dict[str, tuple[str, ...]] = {}
        for use in ("", *PROFILES):
            if (name := self._model_name(use)) not in ("", OFFLINE):
                uses[name] = (*uses.get(name, ()), use or ANSWERS)
        return at_hand(uses, self._access, os.environ, with_cards=with_cards)

    # -- indexes

    def indexes(self, moment: Moment) -> Indexes:
        """The indexes of one generation of a project, made once."""
        key = (moment.project, moment.generation, moment.chunker, moment.embedder)
        with self._indexes_lock:
            if key not in self._indexes:
                place = self.indexes_folder / moment.project / str(moment.generation)
                keywords, vectors = (place / folder for folder in self.engines.values())
                self._indexes[key] = Indexes(self._keywords(keywords, moment), self._vectors(vectors, moment))
            return self._indexes[key]

    def lesson_indexes(self, fingerprint: str) -> Indexes:
        """The indexes of what was learnt in all projects, in the space of one embedder; always local."""
        from ragforge.adapters.keywords.tantivy import TantivyIndex
        from ragforge.adapters.vectors.snapshot import SnapshotIndex
        from ragforge.retrieve.words import FINGERPRINT

        with self._indexes_lock:
            if fingerprint not in self._lesson_indexes:
                place = self.indexes_folder / LESSONS
                keywords = TantivyIndex(place / "keywords", f"{FINGERPRINT} {fingerprint}")
                self._lesson_indexes[fingerprint] = Indexes(
                    keywords, SnapshotIndex(place / "vectors", f"{fingerprint} cosine")
                )
            return self._lesson_indexes[fingerprint]

    def drop_indexes(self, project: str) -> None:
        """Remove all that is open of a project's indexes, files and all."""
        with self._indexes_lock:
            indexes = [self._indexes.pop(key) for key in list(self._indexes) if key[0] == project]
        for index in (index for both in indexes for index in (both.keywords, both.vectors)):
            with index.writing(blocking=True):
                index.drop()
            index.close()
        shutil.rmtree(self.indexes_folder / project, ignore_errors=True)

    @property
    def engines(self) -> dict[str, str]:
        """The chosen engines, and the folder each keeps beside the other's."""
        index = self.settings.index
        vectors = {"snapshot": "vectors"}.get(index.vectors, f"{index.vectors}-server" if index.url else index.vectors)
        keywords = {"tantivy": "keywords"}.get(index.keywords, f"{index.keywords}-words")
        return {keywords if index.keywords == "qdrant" else index.keywords: keywords, index.vectors: vectors}

    @property
    def searches_at_once(self) -> int:
        """As many as there are processors: more would only take the interpreter from each other. And no more than the
        database of the indexes has connections for: one that waited for its second one would keep its first."""
        processors = max(2, os.cpu_count() or 2)
        index = self.settings.index
        pinned = (index.keywords == "postgres") + (index.vectors == "pgvector")
        return min(processors, 2 * self.settings.store.connections // pinned) if pinned else processors

    @property
    def indexes_folder(self) -> Path:
        return self.workspace / "indexes"

    def _keywords(self, folder: Path, moment: Moment) -> KeywordIndex:
        from ragforge.retrieve.words import FINGERPRINT

        index, fingerprint = self.settings.index, f"{FINGERPRINT} {INDEXED_TEXT} {moment.chunker}"
        if index.keywords == "tantivy":
            from ragforge.adapters.keywords.tantivy import TantivyIndex

            return TantivyIndex(folder, fingerprint)
        if index.keywords == "postgres":
            from ragforge.adapters.keywords.postgres import PostgresWords

            return PostgresWords(self.index_server, f"{moment.project}_{moment.generation}", fingerprint)
        from ragforge.adapters.keywords.qdrant import QdrantWords

        name = f"ragforge-{moment.project}-{moment.generation}-words"
        return QdrantWords(self._qdrant(folder), name, fingerprint, self._writers_lock(folder, name))

    def _vectors(self, folder: Path, moment: Moment) -> VectorIndex:
        index, fingerprint = self.settings.index, f"{moment.embedder} cosine {moment.chunker}"
        if index.vectors == "snapshot":
            from ragforge.adapters.vectors.snapshot import SnapshotIndex

            return SnapshotIndex(folder, fingerprint)
        if index.vectors == "pgvector":
            from ragforge.adapters.vectors.pgvector import PgVectorIndex

            name = f"{moment.project}_{moment.generation}"
            return PgVectorIndex(self.index_server, name, fingerprint, exact_rows=index.exact_rows)
        name = f"ragforge-{moment.project}-{moment.generation}"
        if index.vectors == "chroma":
            from ragforge.adapters.vectors.chroma import ChromaEmbedded, ChromaServer

            if not index.url:
                return ChromaEmbedded(folder, fingerprint, self._chroma)
            key = self.settings.secrets.get(index.api_key_env, "")
            return ChromaServer(index.url, name, fingerprint, self._writers_lock(folder, name), key=key)
        from ragforge.adapters.vectors.qdrant import QdrantIndex

        return QdrantIndex(self._qdrant(folder), name, fingerprint, self._writers_lock(folder, name))

    def _qdrant(self, folder: Path) -> QdrantPlace:
        """Where Qdrant's collections are: a server, or a folder of its local mode."""
        from ragforge.adapters.vectors.qdrant_engines import QdrantPlace

        index = self.settings.index
        return QdrantPlace(
            index.url or folder,
            key=self.settings.secrets.get(index.api_key_env, ""),
            grpc=index.grpc,
            shards=index.shards,
            replicas=index.replicas,
            write_consistency=index.write_consistency,
        )

    def _writers_lock(self, folder: Path, name: str) -> Callable[[], ProcessLock]:
        """Of an index that is on a server: all machines must see the lock, so the database they share keeps it."""
        from ragforge.adapters.vectors.rows import lock_of_file

        if self.settings.store.database_url and self.settings.index.url:
            return lambda: self.index_server.lock(name)
        return lock_of_file(folder / f"{name}.lock")

    def index_servers(self) -> Iterator[Finding]:
        """Whether the servers that keep indexes answer; of local indexes there is nothing to say."""
        index = self.settings.index
        engines = {engine for engine in (index.keywords, index.vectors) if engine not in ("tantivy", "snapshot")}
        for engine in sorted(engines):
            subject = f"index {engine}"
            if engine in ("chroma", "qdrant") and not index.url:
                hint = "set index.url to the address of a server"
                yield Finding(subject, False, "embedded in this workspace: other machines do not see it", hint)
                continue
            try:
                self._reach(engine)
            except RagforgeError as problem:
                yield Finding(subject, False, problem.message, problem.hint)
            else:
                yield Finding(subject, True, "answers")

    def _reach(self, engine: str) -> None:
        """Raises if the server of an engine does not answer: an index that nobody made is asked for."""
        nobodys = Moment("doctor", "doctor", 0, 0, 0, "", "", None, 0.0, None, 0, 0)
        folder = self.indexes_folder / "doctor"
        is_vectors = engine == self.settings.index.vectors
        index = self._vectors(folder, nobodys) if is_vectors else self._keywords(folder, nobodys)
        try:
            index.pin().release()
        except IndexLost:  # so it should be
            pass
        finally:
            index.close()
        if engine == "pgvector":
            with self.index_server.connection() as connection:
                known = "SELECT 1 FROM pg_available_extensions WHERE name = 'vector'"
                if connection.execute(known).fetchone() is None:
                    raise StoreError("the server has no pgvector", hint="install pgvector on the database server")

    @once
    def index_server(self) -> PostgresServer:
        """The database of indexes that Postgres keeps, and of locks that all machines see."""
        from ragforge.adapters.postgres import PostgresServer

        store = self.settings.store
        url = self.settings.index.database_url or store.database_url
        if not url:
            raise UserError(
                "an index in Postgres needs a database",
                hint="set index.database_url, or store.database_url for the catalog too",
            )
        server = PostgresServer(url, store.connections)
        self._exits.callback(server.close)
        return server

    @once
    def _chroma(self) -> ChromaProcess:
        """One child process for all indexes."""
        from ragforge.adapters.vectors.chroma_process import ChromaProcess

        process = ChromaProcess()
        self._exits.callback(process.close)
        return process

    def reranker(self, name: str) -> Reranker:
        """The reranker called `name`, made once."""
        with self._embedders_lock:
            if name not in self._rerankers:
                self._rerankers[name] = self._make_reranker(name)
            return self._rerankers[name]

    def _make_reranker(self, name: str) -> Reranker:
        if name == "cross-encoder":
            from ragforge.adapters.rerankers.cross_encoder import CrossEncoder

            return CrossEncoder(self.settings.store.models_dir / "cross-encoder")
        from ragforge.adapters.rerankers.provider import ProviderReranker

        key = self.settings.secrets.get(f"{name.split(':')[0].upper()}_API_KEY")
        reranker = ProviderReranker(name, key=key, base_url=self.settings.search.reranker_url or None)
        self._exits.callback(reranker.close)
        return reranker

    def embedder_of(self, project: Project) -> Embedder:
        """A project's embedder; refused if it would now give other vectors than those stored."""
        embedder = self.embedder(project.embedder)
        if embedder.card.fingerprint != project.embedder_fingerprint:
            raise UserError(
                f"the model {project.embedder!r} is not the one project {project.slug!r} was built with",
                hint=f"ragforge reindex --project {project.slug} --embedder {project.embedder}",
            )
        return embedder

    def new_projects_embedder(self) -> tuple[Embedder, str]:
        """The embedder for a new project and, when it is the fallback, a sentence that says so."""
        wanted, fallback = self.settings.embed.model, self.settings.embed.fallback
        try:
            return self.embedder(wanted), ""
        except NotFound as missing:
            if not fallback:
                raise
            return self.embedder(fallback), (
                f"{missing.message}; the project uses {fallback}. For better search: {missing.hint}, then "
                f"ragforge reindex --embedder {wanted}"
            )

    def lessons_embedder(self) -> Embedder:
        """One for the lessons of all projects, so that they can be compared."""
        try:
            return self.embedder(self.settings.learn.embedder)
        except NotFound:
            if not self.settings.embed.fallback:
                raise
            return self.embedder(self.settings.embed.fallback)

    def models(self) -> list[ModelState]:
        from ragforge.adapters.weights import available

        return available(self.settings.store.models_dir)

    def pull_model(self, name: str, source: Path | None, progress: Callable[[str, int, int], None]) -> PulledModel:
        from ragforge.adapters.weights import pull

        return pull(name, self.settings.store.models_dir, source, progress)

    def docx(self, artifact: Artifact) -> bytes:
        """A made document as a Word file."""
        from ragforge.adapters.exports.docx import docx
        from ragforge.answer.artifacts import made_how

        return docx(artifact, made_how(artifact))

    def strategy(self) -> Strategy:
        """How a new project's texts are split."""
        values = asdict(self.settings.split)
        return Strategy(name=values.pop("strategy"), **values)

    @once
    def tuning(self) -> Tuning:
        """How passages are found unless a question says otherwise."""
        values = asdict(self.settings.search)
        for name in ("cached_questions", "reranker_url"):
            values.pop(name)
        alpha = values.pop("alpha")
        return Tuning(alpha=None if alpha < 0 else alpha, **values)

    def ranking(self, project: Project, tuning: Tuning) -> dict[str, object]:
        """Everything a ranking depends on, for the record of an evaluation."""
        from ragforge.retrieve.words import FINGERPRINT

        return {
            **asdict(tuning),
            "vector_index": self.settings.index.vectors,
            "embedder": project.embedder,
            "embedder_fingerprint": project.embedder_fingerprint,
            "chunker": project.chunker,
            "words": f"{FINGERPRINT} {INDEXED_TEXT}",
        }

    def close(self) -> None:
        for both in (*self._indexes.values(), *self._lesson_indexes.values()):
            both.keywords.close()
            both.vectors.close()
        for part in ("inbox", "_storage", "parsers", "catalog"):
            if part in self.__dict__:
                self.__dict__[part].close()
        self._exits.close()


def make_workspace(folder: Path, *, create: bool) -> bool:
    """Make the folder a workspace if it is none. True if it was made just now."""
    if (folder / FILE_NAME).exists() or (folder / "catalog.db").exists():
        return False
    if not create:
        raise NotFound(f"no workspace at {folder}", hint="ragforge init makes one")
    if folder.is_dir():
        held = {path.name for path in folder.iterdir()}
        if FILE_NAME in held:  # another was quicker
            return False
        if held:
            raise UserError(f"{folder} is not empty and no workspace", hint="choose another folder with --workspace")
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (folder / FILE_NAME).open("x", encoding="utf-8") as file:
            file.write(template())
        for name in ("uploads", "projects", "inflight", "indexes"):
            (folder / name).mkdir(exist_ok=True)
    except FileExistsError as problem:
        if not folder.is_dir():
            raise UserError(f"{folder} is a file, not a folder", hint="choose a folder with --workspace") from problem
        return False  # another was quicker
    except OSError as problem:
        raise UserError(
            f"cannot make {folder}: {os.strerror(problem.errno or 0)}", hint="choose another folder with --workspace"
        ) from problem
    return True


def _require_catalog(workspace: Path) -> None:
    """A catalog that was lost must not be taken for a new one: the stored files would look like nobody's."""
    path = workspace / "catalog.db"
    lost = not path.exists() or path.stat().st_size == 0
    if lost and next((workspace / "uploads").glob("*/*/*"), None) is not None:
        raise CorruptStore(
            f"{path} is gone or empty, but files are stored beside it",
            hint="restore a backup from the workspace's backups/ folder, or choose another --workspace",
        )


def _inbox(stored: Storage, catalog: Callable[[], str] = lambda: "") -> Inbox:
    if stored.uploads is not None:
        return SharedInbox(stored.inbox, WorkspaceLock, stored.uploads, utc_now, catalog=catalog)
    if stored.claim is None:
        return Inbox(stored.inbox, WorkspaceLock, catalog=catalog)
    return Inbox(
        stored.inbox, WorkspaceLock, shared=True, claim=stored.claim, catalog=catalog, former=stored.former_inbox
    )


@contextmanager
def new_place(settings: Settings, folder: Path) -> Iterator[Place]:
    """Where a backup becomes a workspace: stored bytes in the folder, and a catalog that has no tables yet."""
    from ragforge.adapters.catalog.catalog import SqlCatalog
    from ragforge.flows.backup import Place

    url = settings.store.database_url
    catalog = SqlCatalog.unopened(None if url else folder / "catalog.db", url, utc_now)
    stored = storage(settings.store.blobs, settings.store.blobs_url, folder, utc_now)
    try:
        require_free = (lambda _: None) if stored.claim is None else stored.claim.require_free
        yield Place(folder, catalog, stored.blobs, _inbox(stored), require_free)
    finally:
        stored.close()
        catalog.close()


@contextmanager
def old_workspace(settings: Settings, scope: Scope) -> Iterator[Replaced]:
    """The workspace that a backup takes the place of, with nobody at work in it: what was removed stays removed."""
    from ragforge.flows.backup import Replaced

    parts = Parts(settings)
    with parts.in_flight.alone() as nobody_works, parts.inbox.alone() as nobody_serves:
        if not (nobody_works and nobody_serves):
            raise Busy(f"somebody is at work in {settings.workspace}", hint="end it first, also ragforge serve")
        try:
            with parts.catalog.read() as c:
                replaced = Replaced(c.tombstones.all(scope))
        except StoreError as problem:
            why = f"what was removed since the backup could not be read, and may be back: {problem.message}"
            replaced = Replaced(notices=(why,))
        finally:
            parts.close()
        yield replaced


@contextmanager
def nobody_at_work(settings: Settings) -> Iterator[None]:
    """The workspace, with nobody else who adds, removes or serves."""
    parts = Parts(settings)
    try:
        with parts.in_flight.alone() as nobody_works, parts.inbox.alone() as nobody_serves:
            if not (nobody_works and nobody_serves):
                raise Busy(f"somebody is at work in {settings.workspace}", hint="end it first, also ragforge serve")
            yield
    finally:
        parts.close()


def migration(settings: Settings, to: str, *, keep_password: bool = False) -> Migrate:
    """What moves the catalog from where it is to a database on a server, or to the workspace (`sqlite`)."""
    from ragforge.adapters.catalog import moved, moving
    from ragforge.flows.migrate import KEY, Migrate, Named

    _require_target(settings, to)
    in_use, file, address = settings.store.database_url, settings.workspace / "catalog.db", without_password(to)
    is_target = is_same_place(in_use or SQLITE, to)
    origin = settings.origins.get(KEY, "default")
    is_in_file = origin == "default" or origin.startswith(str(settings.workspace / FILE_NAME))
    named = Named(
        file=settings.workspace / FILE_NAME,
        new="" if to == SQLITE else to if keep_password else address,
        private=keep_password and address != to,
        is_target=is_target,
        elsewhere="" if is_in_file else origin,
    )

    def end(url: str) -> Database:
        return moved.server_end(url) if url and url != SQLITE else moved.file_end(file)

    @contextmanager
    def source() -> Iterator[CatalogSource]:
        if not old:
            _require_catalog(settings.workspace)
        with moving.leaving(end(old), without_password(old) or SQLITE, address) as found:
            yield found

    def clear_away(target: str) -> str:
        if target == SQLITE:
            return without_password(old)
        kept = moved.clear_away(moved.file_end(file), target)
        return str(kept) if kept else without_password(old)

    old = "" if is_target else in_use
    has_source = not is_target or (to != SQLITE and file.exists())
    return Migrate(
        workspace=settings.workspace,
        named=named,
        alone=lambda: nobody_at_work(settings),
        target=lambda: moving.filling(end(to), address),
        source=source if has_source else None,
        went_to=lambda: moved.went_to(end(old)) if has_source else "",
        clear_away=clear_away,
    )


def take_back(settings: Settings) -> str:
    """Let the catalog that the settings name be used again after it was moved. Returns where it had gone."""
    from ragforge.adapters.catalog import moved

    url = settings.store.database_url
    with nobody_at_work(settings):
        return moved.take_back(moved.server_end(url) if url else moved.file_end(settings.workspace / "catalog.db"))


def _require_target(settings: Settings, to: str) -> None:
    if to != SQLITE and not is_server(to):
        raise UserError(
            "a catalog is moved to a Postgres database or to sqlite", hint="postgresql://USER@HOST/DATABASE"
        )
    index = settings.index
    if to == SQLITE and not index.database_url and {"postgres", "pgvector"} & {index.keywords, index.vectors}:
        raise UserError(
            "the indexes are in the database that the catalog would leave",
            hint="set index.database_url, or choose other engines in index.keywords and index.vectors first",
        )
