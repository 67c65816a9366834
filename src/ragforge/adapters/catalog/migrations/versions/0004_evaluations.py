"""Questions with known documents, and the runs over them."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "question_sets",
        sa.Column("ord", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("project", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("folder", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["project"], ["projects.ord"], name=op.f("fk_question_sets_project"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("ord", name=op.f("pk_question_sets")),
        sa.UniqueConstraint("project", "name", name=op.f("uq_question_sets_project_name")),
    )
    op.create_table(
        "questions",
        sa.Column("question_set", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("documents", sa.Text(), nullable=False),
        sa.Column("chunks", sa.Text(), nullable=False),
        sa.Column("answers", sa.Text(), nullable=False),
        sa.Column("answerable", sa.Boolean(), nullable=False),
        sa.Column("judged", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["question_set"], ["question_sets.ord"], name=op.f("fk_questions_question_set"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("question_set", "position", name=op.f("pk_questions")),
    )
    op.create_table(
        "evaluation_runs",
        sa.Column("ord", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("questions", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("settings", sa.Text(), nullable=False),
        sa.Column("settings_hash", sa.Text(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=False),
        sa.Column("asked", sa.Integer(), nullable=False),
        sa.Column("scored", sa.Integer(), nullable=False),
        sa.Column("missing", sa.Integer(), nullable=False),
        sa.Column("degraded", sa.Integer(), nullable=False),
        sa.Column("milliseconds", sa.Float(), nullable=False),
        sa.Column("metrics", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["project"], ["projects.ord"], name=op.f("fk_evaluation_runs_project"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("ord", name=op.f("pk_evaluation_runs")),
        sa.UniqueConstraint("id", name=op.f("uq_evaluation_runs_id")),
    )
    op.create_index(op.f("ix_evaluation_runs_project"), "evaluation_runs", ["project"], unique=False)
    op.create_table(
        "evaluation_results",
        sa.Column("run", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("question", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("wanted", sa.Text(), nullable=False),
        sa.Column("found", sa.Text(), nullable=False),
        sa.Column("metrics", sa.Text(), nullable=False),
        sa.Column("milliseconds", sa.Float(), nullable=False),
        sa.Column("degraded", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run"], ["evaluation_runs.ord"], name=op.f("fk_evaluation_results_run"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("run", "position", name=op.f("pk_evaluation_results")),
    )
