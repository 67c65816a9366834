"""Answers of evaluation runs, and the documents of which words are in them."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("evaluation_runs", sa.Column("answers", sa.Text(), nullable=True))
    op.add_column("evaluation_results", sa.Column("answer", sa.Text(), nullable=True))
    op.create_table(
        "evaluation_documents",
        sa.Column("run", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run"], ["evaluation_runs.ord"], name=op.f("fk_evaluation_documents_run"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("run", "position", "document", name=op.f("pk_evaluation_documents")),
    )
    op.create_index(op.f("ix_evaluation_documents_document"), "evaluation_documents", ["document"], unique=False)
