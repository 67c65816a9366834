"""Projects, documents, chunks, vectors, changes."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "counters",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_counters")),
    )
    op.create_table(
        "embedders",
        sa.Column("ord", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("dimension", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("ord", name=op.f("pk_embedders")),
        sa.UniqueConstraint("fingerprint", name=op.f("uq_embedders_fingerprint")),
    )
    op.create_table(
        "projects",
        sa.Column("ord", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("slug", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("org_context", sa.Text(), server_default="", nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("ord", name=op.f("pk_projects")),
        sa.UniqueConstraint("id", name=op.f("uq_projects_id")),
        sa.UniqueConstraint("slug", name=op.f("uq_projects_slug")),
    )
    op.create_table(
        "changes",
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("project", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("op", sa.Text(), nullable=False),
        sa.Column("document", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("chunk", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["project"], ["projects.ord"], name=op.f("fk_changes_project"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_changes")),
        sqlite_autoincrement=True,
    )
    op.create_index("changes_of_project", "changes", ["project", "seq"], unique=False)
    op.create_table(
        "documents",
        sa.Column("ord", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("source_type", sa.Text(), nullable=False),
        sa.Column("tags", sa.Text(), nullable=False),
        sa.Column("confidentiality", sa.Integer(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("live", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("latest", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["project"], ["projects.ord"], name=op.f("fk_documents_project"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("ord", name=op.f("pk_documents")),
        sa.UniqueConstraint("id", name=op.f("uq_documents_id")),
    )
    op.create_index(op.f("ix_documents_project"), "documents", ["project"], unique=False)
    op.create_table(
        "embeddings",
        sa.Column("ord", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("project", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("embedder", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("text_hash", sa.LargeBinary(), nullable=False),
        sa.Column("vector", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["embedder"], ["embedders.ord"], name=op.f("fk_embeddings_embedder"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["project"], ["projects.ord"], name=op.f("fk_embeddings_project"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("ord", name=op.f("pk_embeddings")),
        sa.UniqueConstraint("project", "embedder", "text_hash", name=op.f("uq_embeddings_project_embedder_text_hash")),
    )
    op.create_table(
        "generations",
        sa.Column("project", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("chunks", sa.Integer(), nullable=False),
        sa.Column("strategy", sa.Text(), nullable=False),
        sa.Column("chunker", sa.Text(), nullable=False),
        sa.Column("embedder", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["embedder"], ["embedders.ord"], name=op.f("fk_generations_embedder"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["project"], ["projects.ord"], name=op.f("fk_generations_project"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("project", "number", name=op.f("pk_generations")),
    )
    op.create_table(
        "sources",
        sa.Column("ord", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("project", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("document", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("mtime_ns", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["document"], ["documents.ord"], name=op.f("fk_sources_document"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["project"], ["projects.ord"], name=op.f("fk_sources_project"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("ord", name=op.f("pk_sources")),
        sa.UniqueConstraint("project", "key", name=op.f("uq_sources_project_key")),
    )
    op.create_index(op.f("ix_sources_document"), "sources", ["document"], unique=False)
    op.create_table(
        "versions",
        sa.Column("ord", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("document", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("mime", sa.Text(), nullable=False),
        sa.Column("blob", sa.Text(), nullable=False),
        sa.Column("parser", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("message", sa.Text(), server_default="", nullable=False),
        sa.Column("hint", sa.Text(), server_default="", nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("notes", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=True),
        sa.Column("summary", sa.Text(), server_default="", nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("marks", sa.Text(), nullable=False),
        sa.Column("characters", sa.Integer(), nullable=False),
        sa.Column("tokens", sa.Integer(), nullable=False),
        sa.Column("chunks", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["document"], ["documents.ord"], name=op.f("fk_versions_document"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["project"], ["projects.ord"], name=op.f("fk_versions_project"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("ord", name=op.f("pk_versions")),
        sa.UniqueConstraint("project", "sha256", name=op.f("uq_versions_project_sha256")),
    )
    op.create_index(op.f("ix_versions_document"), "versions", ["document"], unique=False)
    op.create_table(
        "chunks",
        sa.Column("ord", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("version", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("section", sa.Integer(), nullable=False),
        sa.Column("start", sa.Integer(), nullable=False),
        sa.Column("end", sa.Integer(), nullable=False),
        sa.Column("header", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("page", sa.Integer(), nullable=True),
        sa.Column("page_end", sa.Integer(), nullable=True),
        sa.Column("time_start", sa.Float(), nullable=True),
        sa.Column("time_end", sa.Float(), nullable=True),
        sa.Column("speaker", sa.Text(), nullable=True),
        sa.Column("tokens", sa.Integer(), nullable=False),
        sa.Column("checksum", sa.Text(), nullable=False),
        sa.Column("text_hash", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["version"], ["versions.ord"], name=op.f("fk_chunks_version"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("ord", name=op.f("pk_chunks")),
        sa.UniqueConstraint("id", name=op.f("uq_chunks_id")),
    )
    op.create_index("chunks_of_text", "chunks", ["project", "text_hash"], unique=False)
    op.create_index("chunks_of_version", "chunks", ["version", "generation", "position"], unique=False)
    op.create_table(
        "sections",
        sa.Column("version", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("start", sa.Integer(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("header", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("page", sa.Integer(), nullable=True),
        sa.Column("page_end", sa.Integer(), nullable=True),
        sa.Column("time_start", sa.Float(), nullable=True),
        sa.Column("time_end", sa.Float(), nullable=True),
        sa.Column("speaker", sa.Text(), nullable=True),
        sa.Column("tokens", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["version"], ["versions.ord"], name=op.f("fk_sections_version"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("version", "generation", "position", name=op.f("pk_sections")),
    )
