"""Guided interviews: conversations of another kind, with what they know in versions."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.add_column("conversations", sa.Column("kind", sa.Text(), server_default="chat", nullable=False))
    op.create_table(
        "interview_states",
        sa.Column("conversation", _KEY, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("turn", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("made_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["conversation"], ["conversations.ord"], name="fk_interview_states_conversation", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("conversation", "version", name="pk_interview_states"),
    )
    op.create_table(
        "interview_documents",
        sa.Column("conversation", _KEY, nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["conversation"], ["conversations.ord"], name="fk_interview_documents_conversation", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("conversation", "document", name="pk_interview_documents"),
    )
    op.create_index("ix_interview_documents_document", "interview_documents", ["document"])
