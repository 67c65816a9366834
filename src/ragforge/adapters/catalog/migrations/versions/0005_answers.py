"""Conversations with their memory, texts of a project, the query log, and documents that were made."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "artifacts",
        sa.Column("ord", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("project", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("made_at", sa.BigInteger(), nullable=False),
        sa.Column("brief", sa.Text(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("sections", sa.Text(), nullable=False),
        sa.Column("sources", sa.Text(), nullable=False),
        sa.Column("usage", sa.Text(), nullable=False),
        sa.Column("problems", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["project"], ["projects.ord"], name=op.f("fk_artifacts_project"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("ord", name=op.f("pk_artifacts")),
        sa.UniqueConstraint("project", "id", name=op.f("uq_artifacts_project_id")),
    )
    op.create_table(
        "conversations",
        sa.Column("ord", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("principal", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("last", sa.Integer(), nullable=False),
        sa.Column("cut_at", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["project"], ["projects.ord"], name=op.f("fk_conversations_project"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("ord", name=op.f("pk_conversations")),
        sa.UniqueConstraint("id", name=op.f("uq_conversations_id")),
    )
    op.create_index("conversations_of_principal", "conversations", ["project", "principal"], unique=False)
    op.create_table(
        "project_texts",
        sa.Column("project", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("written_at", sa.BigInteger(), nullable=False),
        sa.Column("written_by", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["project"], ["projects.ord"], name=op.f("fk_project_texts_project"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("project", "kind", "version", name=op.f("pk_project_texts")),
    )
    op.create_table(
        "artifact_documents",
        sa.Column("artifact", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["artifact"], ["artifacts.ord"], name=op.f("fk_artifact_documents_artifact"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("artifact", "document", name=op.f("pk_artifact_documents")),
    )
    op.create_index(op.f("ix_artifact_documents_document"), "artifact_documents", ["document"], unique=False)
    op.create_table(
        "memory_vectors",
        sa.Column("item", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("conversation", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("vector", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["conversation"], ["conversations.ord"], name=op.f("fk_memory_vectors_conversation"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("item", "fingerprint", name=op.f("pk_memory_vectors")),
    )
    op.create_index(op.f("ix_memory_vectors_conversation"), "memory_vectors", ["conversation"], unique=False)
    op.create_table(
        "query_log",
        sa.Column("ord", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("project", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("principal", sa.Text(), nullable=False),
        sa.Column("asked_at", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("question", sa.Text(), nullable=False),
        sa.Column("standalone", sa.Text(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("conversation", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("k", sa.Integer(), nullable=False),
        sa.Column("chunks", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("profile", sa.Text(), nullable=False),
        sa.Column("retrieval_ms", sa.Float(), nullable=False),
        sa.Column("generation_ms", sa.Float(), nullable=False),
        sa.Column("input_tokens", sa.BigInteger(), nullable=False),
        sa.Column("output_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cost", sa.BigInteger(), nullable=True),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("feedback", sa.Text(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["conversation"], ["conversations.ord"], name=op.f("fk_query_log_conversation"), ondelete="SET NULL"
        ),
        sa.ForeignKeyConstraint(["project"], ["projects.ord"], name=op.f("fk_query_log_project"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("ord", name=op.f("pk_query_log")),
        sa.UniqueConstraint("project", "id", name=op.f("uq_query_log_project_id")),
    )
    op.create_index(op.f("ix_query_log_conversation"), "query_log", ["conversation"], unique=False)
    op.create_index("query_log_by_time", "query_log", ["project", "asked_at"], unique=False)
    op.create_table(
        "rollups",
        sa.Column("ord", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("conversation", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("first", sa.Integer(), nullable=False),
        sa.Column("last", sa.Integer(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("made_at", sa.BigInteger(), nullable=False),
        sa.Column("tokens", sa.Integer(), nullable=False),
        sa.Column("used", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["conversation"], ["conversations.ord"], name=op.f("fk_rollups_conversation"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("ord", name=op.f("pk_rollups")),
        sa.UniqueConstraint("id", name=op.f("uq_rollups_id")),
    )
    op.create_index(op.f("ix_rollups_conversation"), "rollups", ["conversation"], unique=False)
    op.create_table(
        "turns",
        sa.Column("ord", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("conversation", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("question", sa.Text(), nullable=False),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.Column("asked_at", sa.BigInteger(), nullable=False),
        sa.Column("standalone", sa.Text(), nullable=False),
        sa.Column("abstained", sa.Boolean(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("tags", sa.Text(), nullable=False),
        sa.Column("importance", sa.Float(), nullable=False),
        sa.Column("tokens", sa.Integer(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("probe", sa.Text(), nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("rollup", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.ForeignKeyConstraint(
            ["conversation"], ["conversations.ord"], name=op.f("fk_turns_conversation"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["rollup"], ["rollups.ord"], name=op.f("fk_turns_rollup"), ondelete="SET NULL"),
        sa.PrimaryKeyConstraint("ord", name=op.f("pk_turns")),
        sa.UniqueConstraint("conversation", "number", name=op.f("uq_turns_conversation_number")),
        sa.UniqueConstraint("id", name=op.f("uq_turns_id")),
    )
    op.create_index(op.f("ix_turns_rollup"), "turns", ["rollup"], unique=False)
    op.create_table(
        "turn_documents",
        sa.Column("turn", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["turn"], ["turns.ord"], name=op.f("fk_turn_documents_turn"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("turn", "position", name=op.f("pk_turn_documents")),
    )
    op.create_index(op.f("ix_turn_documents_document"), "turn_documents", ["document"], unique=False)
