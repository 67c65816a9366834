"""What agents learn: captures, the patterns they make up, outcomes; whether a project shares them."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "knowledge_clock",
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
        sa.Column("paused_at", sa.BigInteger(), nullable=True),
        sa.Column("pruned_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("number", name="pk_knowledge_clock"),
    )
    op.create_table(
        "knowledge_calibrations",
        sa.Column("embedder", _KEY, nullable=False),
        sa.Column("curves", sa.Text(), nullable=False),
        sa.Column("measured", sa.Text(), nullable=False),
        sa.Column("data", sa.Text(), nullable=False),
        sa.Column("made_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["embedder"], ["embedders.ord"], name="fk_knowledge_calibrations_embedder", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("embedder", name="pk_knowledge_calibrations"),
    )
    op.create_table(
        "knowledge_facets",
        sa.Column("ord", _KEY, autoincrement=False, nullable=False),
        sa.Column("project", _KEY, nullable=False),
        sa.Column("entry_type", sa.Text(), nullable=False),
        sa.Column("agent_type", sa.Text(), nullable=False),
        sa.Column("task_type", sa.Text(), nullable=False),
        sa.Column("technology", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["project"], ["projects.ord"], name="fk_knowledge_facets_project", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("ord", name="pk_knowledge_facets"),
        sa.UniqueConstraint(
            "project",
            "entry_type",
            "agent_type",
            "task_type",
            "technology",
            name="uq_knowledge_facets",
        ),
    )
    op.create_table(
        "knowledge_patterns",
        sa.Column("ord", _KEY, autoincrement=False, nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project", _KEY, nullable=False),
        sa.Column("facet", _KEY, nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("approved", sa.Boolean(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("problem", sa.Text(), nullable=True),
        sa.Column("solution", sa.Text(), nullable=True),
        sa.Column("when_to_try", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["facet"], ["knowledge_facets.ord"], name="fk_knowledge_patterns_facet", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["project"], ["projects.ord"], name="fk_knowledge_patterns_project", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("ord", name="pk_knowledge_patterns"),
        sa.UniqueConstraint("id", name="uq_knowledge_patterns_id"),
    )
    op.create_index("ix_knowledge_patterns_facet", "knowledge_patterns", ["facet"], unique=False)
    op.create_index("ix_knowledge_patterns_project", "knowledge_patterns", ["project"], unique=False)
    op.create_index("knowledge_patterns_by_state", "knowledge_patterns", ["state", "ord"], unique=False)
    op.create_table(
        "knowledge_outcomes",
        sa.Column("ord", _KEY, autoincrement=False, nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("pattern", _KEY, nullable=False),
        sa.Column("project", _KEY, nullable=False),
        sa.Column("success", sa.Boolean(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("recorded_at", sa.BigInteger(), nullable=False),
        sa.Column("principal", sa.Text(), nullable=False),
        sa.Column("asked_with", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["pattern"], ["knowledge_patterns.ord"], name="fk_knowledge_outcomes_pattern", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["project"], ["projects.ord"], name="fk_knowledge_outcomes_project", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("ord", name="pk_knowledge_outcomes"),
        sa.UniqueConstraint("id", name="uq_knowledge_outcomes_id"),
        sa.UniqueConstraint(
            "project", "principal", "asked_with", name="uq_knowledge_outcomes_project_principal_asked_with"
        ),
    )
    op.create_index("ix_knowledge_outcomes_pattern", "knowledge_outcomes", ["pattern"], unique=False)
    op.create_index("ix_knowledge_outcomes_recorded_at", "knowledge_outcomes", ["recorded_at"], unique=False)
    op.create_table(
        "knowledge_staging",
        sa.Column("ord", _KEY, autoincrement=False, nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("entry_type", sa.Text(), nullable=False),
        sa.Column("project", _KEY, nullable=False),
        sa.Column("agent_type", sa.Text(), nullable=False),
        sa.Column("task_type", sa.Text(), nullable=True),
        sa.Column("technology", sa.Text(), nullable=True),
        sa.Column("task", sa.Text(), nullable=True),
        sa.Column("failure_description", sa.Text(), nullable=True),
        sa.Column("error_message", sa.Text(), nullable=True),
        sa.Column("solution_steps", sa.Text(), nullable=True),
        sa.Column("gate_type", sa.Text(), nullable=True),
        sa.Column("human_feedback", sa.Text(), nullable=True),
        sa.Column("revision_approach", sa.Text(), nullable=True),
        sa.Column("approved_approach", sa.Text(), nullable=True),
        sa.Column("decision_criteria", sa.Text(), nullable=True),
        sa.Column("evidence", sa.Text(), nullable=True),
        sa.Column("quality", sa.Text(), nullable=False),
        sa.Column("success_verified", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("embedded", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("timestamp", sa.BigInteger(), nullable=False),
        sa.Column("embedded_at", sa.BigInteger(), nullable=True),
        sa.Column("principal", sa.Text(), nullable=False),
        sa.Column("asked_with", sa.Text(), nullable=True),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("facet", _KEY, nullable=True),
        sa.Column("pattern", _KEY, nullable=True),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.CheckConstraint(
            "(entry_type = 'failure_solution' AND failure_description IS NOT NULL)"
            " OR (entry_type = 'gate_rejection' AND gate_type IS NOT NULL)"
            " OR (entry_type = 'gate_approval' AND gate_type IS NOT NULL)",
            name="knowledge_staging_is_whole",
        ),
        sa.ForeignKeyConstraint(
            ["facet"], ["knowledge_facets.ord"], name="fk_knowledge_staging_facet", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["pattern"], ["knowledge_patterns.ord"], name="fk_knowledge_staging_pattern", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["project"], ["projects.ord"], name="fk_knowledge_staging_project", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("ord", name="pk_knowledge_staging"),
        sa.UniqueConstraint("id", name="uq_knowledge_staging_id"),
        sa.UniqueConstraint(
            "project", "principal", "asked_with", name="uq_knowledge_staging_project_principal_asked_with"
        ),
    )
    op.create_index("ix_knowledge_staging_embedded_at", "knowledge_staging", ["embedded_at"], unique=False)
    op.create_index("ix_knowledge_staging_facet", "knowledge_staging", ["facet"], unique=False)
    op.create_index("ix_knowledge_staging_pattern", "knowledge_staging", ["pattern"], unique=False)
    op.create_index("ix_knowledge_staging_seq", "knowledge_staging", ["seq"], unique=False)
    op.create_index("knowledge_staged", "knowledge_staging", ["project", "embedded", "ord"], unique=False)
    op.create_table(
        "knowledge_vectors",
        sa.Column("lesson", _KEY, nullable=False),
        sa.Column("embedder", _KEY, nullable=False),
        sa.Column("problem", sa.LargeBinary(), nullable=False),
        sa.Column("solution", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["embedder"], ["embedders.ord"], name="fk_knowledge_vectors_embedder", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["lesson"], ["knowledge_staging.ord"], name="fk_knowledge_vectors_lesson", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("lesson", "embedder", name="pk_knowledge_vectors"),
    )
    op.add_column("projects", sa.Column("shares_lessons", sa.Boolean(), server_default=sa.false(), nullable=False))
