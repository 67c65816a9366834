"""The catalog's tables. `ord` are small integer keys for joins and indexes; `id` are what users and logs see.

projects ─ generations (splitter and model; one is live, one may be building)
    └─ documents ─ sources (paths)
           └─ versions (bytes, how they were parsed, or why not) ─ sections (parents) ─ chunks (leaves)
embeddings (by project, model and text hash)     changes (what the indexes follow)     jobs
question_sets ─ questions (with the documents they want)
evaluation_runs ─ evaluation_results (one per question), evaluation_documents (those that an answer has words of)
conversations ─ turns (with the documents they may hold words of), rollups, memory_vectors     query_log
    └─ interview_states (in versions), interview_documents (those that a state may hold words of)
project_texts (in versions)     artifacts (with the documents they are made from)     access_keys
knowledge_staging (captures) ─ knowledge_vectors; several make up one of knowledge_patterns ─ knowledge_outcomes
knowledge_facets (what filters ask for)     knowledge_calibrations (by embedder)     knowledge_clock (of retention)
tombstones (what was removed for good, so that an older backup does not bring it back)
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    false,
    true,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

Key = BigInteger().with_variant(Integer, "sqlite")


def _key() -> Column[int]:
    return Column("ord", Key, primary_key=True, autoincrement=False)


def _belongs_to(table: str, name: str, *, nullable: bool = False, index: bool = False) -> Column[int]:
    return Column(name, Key, ForeignKey(f"{table}.ord", ondelete="CASCADE"), nullable=nullable, index=index)


def _points_to(table: str, name: str) -> Column[int]:
    """A link that is empty once its target is gone."""
    return Column(name, Key, ForeignKey(f"{table}.ord", ondelete="SET NULL"), index=True)


counters = Table(
    "counters", metadata, Column("name", Text, primary_key=True), Column("value", BigInteger, nullable=False)
)

projects = Table(
    "projects",
    metadata,
    _key(),
    Column("id", Text, nullable=False, unique=True),
    Column("slug", Text, nullable=False, unique=True),
    Column("name", Text, nullable=False),
    Column("org_context", Text, nullable=False, server_default=""),
    Column("generation", Integer, nullable=False),
    Column("forgotten", BigInteger, nullable=False, server_default="0"),  # changes up to this one are pruned
    Column("shares_lessons", Boolean, nullable=False, server_default=false()),
    Column("created_at", BigInteger, nullable=False),
)

embedders = Table(
    "embedders",
    metadata,
    _key(),
    Column("fingerprint", Text, nullable=False, unique=True),
    Column("name", Text, nullable=False),
    Column("dimension", Integer),
    Column("fusion_weight", Float, nullable=False, server_default="0.7"),
    Column("cosine_floor", Float),
)

generations = Table(
    "generations",
    metadata,
    Column("project", Key, ForeignKey("projects.ord", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("state", Text, nullable=False),  # live, building, retired
    Column("chunks", Integer, nullable=False),  # the generation whose chunk rows it uses: a change of model keeps them
    Column("strategy", Text, nullable=False),
    Column("chunker", Text, nullable=False),
    _belongs_to("embedders", "embedder"),
    Column("created_at", BigInteger, nullable=False),
)

documents = Table(
    "documents",
    metadata,
    _key(),
    Column("id", Text, nullable=False, unique=True),
    _belongs_to("projects", "project", index=True),
    Column("name", Text, nullable=False),
    Column("source_type", Text, nullable=False),
    Column("tags", Text, nullable=False),
    Column("confidentiality", Integer, nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("live", Key),  # the version that can be found; null while none could be read
    Column("latest", Key),  # the version of the newest bytes; failed when it differs from live
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
)

sources = Table(
    "sources",
    metadata,
    _key(),
    _belongs_to("projects", "project"),
    _belongs_to("documents", "document", index=True),
    Column("key", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("mtime_ns", BigInteger, nullable=False),
    Column("sha256", Text, nullable=False),
    UniqueConstraint("project", "key"),
)

versions = Table(
    "versions",
    metadata,
    _key(),
    Column("id", Text, nullable=False),
    _belongs_to("projects", "project"),
    _belongs_to("documents", "document", index=True),
    Column("sha256", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("type", Text, nullable=False),
    Column("mime", Text, nullable=False),
    Column("blob", Text, nullable=False),
    Column("parser", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("reason", Text),
    Column("message", Text, nullable=False, server_default=""),
    Column("hint", Text, nullable=False, server_default=""),
    Column("attempts", Integer, nullable=False),
    Column("notes", Text, nullable=False),
    Column("title", Text),
    Column("summary", Text, nullable=False, server_default=""),
    Column("kind", Text, nullable=False),
    Column("marks", Text, nullable=False),
    Column("characters", Integer, nullable=False),
    Column("tokens", Integer, nullable=False),
    Column("chunks", Integer, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    UniqueConstraint("project", "sha256"),
)


def _locator() -> list[Column[object]]:
    return [
        Column("path", Text, nullable=False),
        Column("page", Integer),
        Column("page_end", Integer),
        Column("time_start", Float),
        Column("time_end", Float),
        Column("speaker", Text),
    ]


sections = Table(
    "sections",
    metadata,
    Column("version", Key, ForeignKey("versions.ord", ondelete="CASCADE"), primary_key=True),
    Column("generation", Integer, primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("start", Integer, nullable=False),
    Column("text", Text, nullable=False),
    Column("header", Text, nullable=False),
    *_locator(),
    Column("tokens", Integer, nullable=False),
)

chunks = Table(
    "chunks",
    metadata,
    _key(),
    Column("id", Text, nullable=False, unique=True),
    Column("project", Key, nullable=False),
    _belongs_to("versions", "version"),
    Column("generation", Integer, nullable=False),
    Column("position", Integer, nullable=False),
    Column("section", Integer, nullable=False),
    Column("start", Integer, nullable=False),
    Column("end", Integer, nullable=False),
    Column("header", Text, nullable=False),
    *_locator(),
    Column("tokens", Integer, nullable=False),
    Column("checksum", Text, nullable=False),
    Column("text_hash", LargeBinary, nullable=False),
    Index("chunks_of_text", "project", "text_hash"),
    Index("chunks_of_version", "version", "generation", "position"),
)

embeddings = Table(
    "embeddings",
    metadata,
    Column("ord", Key, primary_key=True, autoincrement=True),
    _belongs_to("projects", "project"),
    _belongs_to("embedders", "embedder"),
    Column("text_hash", LargeBinary, nullable=False),
    Column("vector", LargeBinary, nullable=False),
    UniqueConstraint("project", "embedder", "text_hash"),
)

changes = Table(
    "changes",
    metadata,
    Column("seq", Key, primary_key=True, autoincrement=True),
    _belongs_to("projects", "project"),
    Column("op", Text, nullable=False),
    Column("document", Key, nullable=False),
    Column("chunk", Key),
    Index("changes_of_project", "project", "seq"),
    sqlite_autoincrement=True,
)

index_states = Table(
    "index_states",
    metadata,
    Column("project", Key, ForeignKey("projects.ord", ondelete="CASCADE"), primary_key=True),
    Column("collection", Text, primary_key=True),
    Column("engine", Text, primary_key=True),
    Column("generation", Integer, primary_key=True),
    Column("fingerprint", Text, nullable=False),
    Column("watermark", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
)

nodes = Table(
    "nodes",
    metadata,
    Column("id", Text, primary_key=True),
    Column("role", Text, primary_key=True),
    Column("host", Text, nullable=False),
    Column("version", Text, nullable=False),
    Column("seen_at", BigInteger, nullable=False),
)

jobs = Table(
    "jobs",
    metadata,
    _key(),
    Column("id", Text, nullable=False, unique=True),
    _belongs_to("projects", "project", nullable=True),
    Column("kind", Text, nullable=False),
    Column("payload", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("fence", Integer, nullable=False),
    Column("owner", Text),
    Column("lease_until", BigInteger),
    Column("progress", Text),
    Column("error", Text, nullable=False, server_default=""),
    Column("cancel_requested", Boolean, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("principal", Text, nullable=False, server_default="owner"),
    Column("storage", Text, nullable=False, server_default="owner"),
    Column("clearance", Integer, nullable=False, server_default="3"),
    Column("lane", Text, nullable=False, server_default=""),
    Column("asked_with", Text),
    Column("part", Integer, nullable=False, server_default="0"),
    Column("digest", Text, nullable=False, server_default=""),
    Column("hint", Text, nullable=False, server_default=""),
    Column("result", Text),
    Column("rank", Integer, nullable=False, server_default="1"),
    Index("jobs_in_turn", "state", "kind", "principal", "rank", "ord"),
    Index("jobs_served", "state", "kind", "principal", "updated_at"),
    Index("jobs_on_lane", "project", "lane"),
    Index("jobs_asked_once", "principal", "asked_with", "part", unique=True),
)

question_sets = Table(
    "question_sets",
    metadata,
    _key(),
    _belongs_to("projects", "project"),
    Column("name", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("folder", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    UniqueConstraint("project", "name"),
)

questions = Table(
    "questions",
    metadata,
    Column("question_set", Key, ForeignKey("question_sets.ord", ondelete="CASCADE"), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("id", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("documents", Text, nullable=False),
    Column("chunks", Text, nullable=False),
    Column("answers", Text, nullable=False),
    Column("answerable", Boolean, nullable=False),
    Column("judged", Boolean, nullable=False),
)

evaluation_runs = Table(
    "evaluation_runs",
    metadata,
    _key(),
    Column("id", Text, nullable=False, unique=True),
    _belongs_to("projects", "project", index=True),
    Column("questions", Text, nullable=False),  # the set's name; a run outlives a set that is imported anew
    Column("digest", Text, nullable=False),
    Column("label", Text, nullable=False),
    Column("settings", Text, nullable=False),
    Column("settings_hash", Text, nullable=False),
    Column("started_at", BigInteger, nullable=False),
    Column("ended_at", BigInteger, nullable=False),
    Column("asked", Integer, nullable=False),
    Column("scored", Integer, nullable=False),
    Column("missing", Integer, nullable=False),
    Column("degraded", Integer, nullable=False),
    Column("milliseconds", Float, nullable=False),
    Column("metrics", Text, nullable=False),
    Column("answers", Text),  # empty if it only searched
)

evaluation_results = Table(
    "evaluation_results",
    metadata,
    Column("run", Key, ForeignKey("evaluation_runs.ord", ondelete="CASCADE"), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("question", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("wanted", Text, nullable=False),
    Column("found", Text, nullable=False),
    Column("metrics", Text, nullable=False),
    Column("milliseconds", Float, nullable=False),
    Column("degraded", Text, nullable=False),
    Column("answer", Text),
)

evaluation_documents = Table(
    "evaluation_documents",
    metadata,
    Column("run", Key, ForeignKey("evaluation_runs.ord", ondelete="CASCADE"), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("document", Text, primary_key=True, index=True),  # its id
)

conversations = Table(
    "conversations",
    metadata,
    _key(),
    Column("id", Text, nullable=False, unique=True),
    _belongs_to("projects", "project"),
    Column("principal", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("last", Integer, nullable=False),  # the newest turn's number; not given again when that turn is removed
    Column("cuts", BigInteger, nullable=False),  # how often something was removed from it
    Column("kind", Text, nullable=False, server_default="chat"),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Index("conversations_of_principal", "project", "principal"),
)

rollups = Table(
    "rollups",
    metadata,
    _key(),
    Column("id", Text, nullable=False, unique=True),
    _belongs_to("conversations", "conversation", index=True),
    Column("first", Integer, nullable=False),
    Column("last", Integer, nullable=False),
    Column("title", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("made_at", BigInteger, nullable=False),
    Column("tokens", Integer, nullable=False),
    Column("used", Integer, nullable=False),
)

turns = Table(
    "turns",
    metadata,
    _key(),
    Column("id", Text, nullable=False, unique=True),
    _belongs_to("conversations", "conversation"),
    Column("number", Integer, nullable=False),
    Column("question", Text, nullable=False),
    Column("answer", Text, nullable=False),
    Column("asked_at", BigInteger, nullable=False),
    Column("standalone", Text, nullable=False),
    Column("abstained", Boolean, nullable=False),
    Column("summary", Text, nullable=False),
    Column("tags", Text, nullable=False),
    Column("importance", Float, nullable=False),
    Column("tokens", Integer, nullable=False),
    Column("source", Text, nullable=False),
    Column("probe", Text, nullable=False),
    Column("mode", Text, nullable=False),
    _points_to("rollups", "rollup"),
    Column("repeats", Boolean, nullable=False, server_default=true()),  # earlier turns
    Column("citations", Text, nullable=False, server_default="[]"),
    Column("trace_id", Text, nullable=False, server_default=""),  # the id of its entry in the query log
    Column("model", Text, nullable=False, server_default=""),
    Column("quoted", Boolean, nullable=False, server_default=false()),
    UniqueConstraint("conversation", "number"),
)

turn_documents = Table(
    "turn_documents",
    metadata,
    Column("turn", Key, ForeignKey("turns.ord", ondelete="CASCADE"), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("document", Text, nullable=False, index=True),  # its id
)

memory_vectors = Table(
    "memory_vectors",
    metadata,
    Column("item", Text, primary_key=True),  # the id of a turn or of a rollup
    Column("fingerprint", Text, primary_key=True),
    _belongs_to("conversations", "conversation", index=True),
    Column("vector", LargeBinary, nullable=False),
)

interview_states = Table(
    "interview_states",
    metadata,
    Column("conversation", Key, ForeignKey("conversations.ord", ondelete="CASCADE"), primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("turn", Integer, nullable=False),
    Column("state", Text, nullable=False),
    Column("made_at", BigInteger, nullable=False),
)

interview_documents = Table(
    "interview_documents",
    metadata,
    Column("conversation", Key, ForeignKey("conversations.ord", ondelete="CASCADE"), primary_key=True),
    Column("document", Text, primary_key=True, index=True),  # its id; a state that is kept may hold words of it
)

project_texts = Table(
    "project_texts",
    metadata,
    Column("project", Key, ForeignKey("projects.ord", ondelete="CASCADE"), primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("text", Text, nullable=False),
    Column("written_at", BigInteger, nullable=False),
    Column("written_by", Text, nullable=False),
)

query_log = Table(
    "query_log",
    metadata,
    _key(),
    _belongs_to("projects", "project"),
    Column("id", Text, nullable=False),
    Column("principal", Text, nullable=False),
    Column("asked_at", BigInteger, nullable=False),
    Column("kind", Text, nullable=False),
    Column("question", Text, nullable=False),
    Column("standalone", Text, nullable=False),
    Column("agent", Text, nullable=False),
    _points_to("conversations", "conversation"),
    Column("k", Integer, nullable=False),
    Column("chunks", Text, nullable=False),
    Column("cited", Text, nullable=False, server_default="[]"),  # ids of documents
    Column("model", Text, nullable=False),
    Column("profile", Text, nullable=False),
    Column("retrieval_ms", Float, nullable=False),
    Column("generation_ms", Float, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("cost", BigInteger),  # in millionths of a millionth of a dollar: sums are exact
    Column("error", Text, nullable=False),
    Column("feedback", Text, nullable=False),
    Column("note", Text, nullable=False),
    UniqueConstraint("project", "id"),
    Index("query_log_by_time", "project", "asked_at"),
    Index("query_log_by_principal", "principal", "asked_at"),
)

artifacts = Table(
    "artifacts",
    metadata,
    _key(),
    _belongs_to("projects", "project"),
    Column("id", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("made_at", BigInteger, nullable=False),
    Column("brief", Text, nullable=False),
    Column("agent", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("sections", Text, nullable=False),
    Column("sources", Text, nullable=False),
    Column("usage", Text, nullable=False),
    Column("problems", Text, nullable=False),
    UniqueConstraint("project", "id"),
)

artifact_documents = Table(
    "artifact_documents",
    metadata,
    Column("artifact", Key, ForeignKey("artifacts.ord", ondelete="CASCADE"), primary_key=True),
    Column("document", Text, primary_key=True, index=True),  # its id
)

access_keys = Table(
    "access_keys",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("digest", LargeBinary, nullable=False),  # of the secret, which is stored nowhere
    Column("role", Text, nullable=False),
    Column("projects", Text),  # JSON list of ids; NULL reaches all
    Column("clearance", Integer, nullable=False),
    Column("limits", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
    Column("revoked_at", BigInteger),
)

tombstones = Table(
    "tombstones",
    metadata,
    _key(),
    Column("kind", Text, nullable=False),  # document, project, conversation, turn, …
    Column("id", Text, nullable=False),
    Column("sha256", Text, nullable=False),  # of a document's bytes; nothing else is kept of it
    Column("removed_at", BigInteger, nullable=False),
    UniqueConstraint("kind", "id"),
)

knowledge_facets = Table(
    "knowledge_facets",
    metadata,
    _key(),
    _belongs_to("projects", "project"),
    Column("entry_type", Text, nullable=False),
    Column("agent_type", Text, nullable=False),
    Column("task_type", Text, nullable=False),
    Column("technology", Text, nullable=False),
    UniqueConstraint("project", "entry_type", "agent_type", "task_type", "technology", name="uq_knowledge_facets"),
)

knowledge_patterns = Table(
    "knowledge_patterns",
    metadata,
    _key(),
    Column("id", Text, nullable=False, unique=True),
    _belongs_to("projects", "project", index=True),
    _belongs_to("knowledge_facets", "facet", index=True),
    Column("state", Text, nullable=False),
    Column("approved", Boolean, nullable=False),
    Column("version", Integer, nullable=False),
    Column("problem", Text),  # a person's words; else those of the oldest capture
    Column("solution", Text),
    Column("when_to_try", Text),
    Column("created_at", BigInteger, nullable=False),
    Index("knowledge_patterns_by_state", "state", "ord"),
)

knowledge_staging = Table(
    "knowledge_staging",
    metadata,
    _key(),
    Column("id", Text, nullable=False, unique=True),
    Column("entry_type", Text, nullable=False),
    _belongs_to("projects", "project"),
    Column("agent_type", Text, nullable=False),
    Column("task_type", Text),
    Column("technology", Text),
    Column("task", Text),
    Column("failure_description", Text),
    Column("error_message", Text),
    Column("solution_steps", Text),
    Column("gate_type", Text),
    Column("human_feedback", Text),
    Column("revision_approach", Text),
    Column("approved_approach", Text),
    Column("decision_criteria", Text),
    Column("evidence", Text),
    Column("quality", Text, nullable=False),
    Column("success_verified", Boolean, nullable=False, server_default=false()),
    Column("embedded", Boolean, nullable=False, server_default=false()),
    Column("timestamp", BigInteger, nullable=False),
    Column("embedded_at", BigInteger, index=True),
    Column("principal", Text, nullable=False),
    Column("asked_with", Text),
    Column("digest", Text, nullable=False),  # of what was told
    _belongs_to("knowledge_facets", "facet", nullable=True, index=True),
    _belongs_to("knowledge_patterns", "pattern", nullable=True, index=True),
    Column("seq", BigInteger, nullable=False, index=True),  # grows whenever an index must look at the row again
    CheckConstraint(
        "(entry_type = 'failure_solution' AND failure_description IS NOT NULL)"
        " OR (entry_type = 'gate_rejection' AND gate_type IS NOT NULL)"
        " OR (entry_type = 'gate_approval' AND gate_type IS NOT NULL)",
        name="knowledge_staging_is_whole",
    ),
    Index("knowledge_staged", "project", "embedded", "ord"),
    UniqueConstraint("project", "principal", "asked_with"),
)

knowledge_vectors = Table(
    "knowledge_vectors",
    metadata,
    Column("lesson", Key, ForeignKey("knowledge_staging.ord", ondelete="CASCADE"), primary_key=True),
    Column("embedder", Key, ForeignKey("embedders.ord", ondelete="CASCADE"), primary_key=True),
    Column("problem", LargeBinary, nullable=False),
    Column("solution", LargeBinary, nullable=False),
)

knowledge_outcomes = Table(
    "knowledge_outcomes",
    metadata,
    _key(),
    Column("id", Text, nullable=False, unique=True),
    _belongs_to("knowledge_patterns", "pattern", index=True),
    _belongs_to("projects", "project"),  # where it was applied
    Column("success", Boolean, nullable=False),
    Column("note", Text, nullable=False),
    Column("recorded_at", BigInteger, nullable=False, index=True),
    Column("principal", Text, nullable=False),
    Column("asked_with", Text),
    UniqueConstraint("project", "principal", "asked_with"),
)

knowledge_calibrations = Table(
    "knowledge_calibrations",
    metadata,
    Column("embedder", Key, ForeignKey("embedders.ord", ondelete="CASCADE"), primary_key=True),
    Column("curves", Text, nullable=False),
    Column("measured", Text, nullable=False),
    Column("data", Text, nullable=False),
    Column("made_at", BigInteger, nullable=False),
)

knowledge_clock = Table(
    "knowledge_clock",
    metadata,
    Column("number", Integer, primary_key=True),  # there is one
    Column("seen_at", BigInteger, nullable=False),
    Column("paused_at", BigInteger),
    Column("pruned_at", BigInteger),
)
