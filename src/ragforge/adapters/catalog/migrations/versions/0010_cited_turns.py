"""A turn keeps what its answer cites, who wrote it, and which entry of the query log is its."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for column in (
        sa.Column("citations", sa.Text(), server_default="[]", nullable=False),
        sa.Column("trace_id", sa.Text(), server_default="", nullable=False),
        sa.Column("model", sa.Text(), server_default="", nullable=False),
        sa.Column("quoted", sa.Boolean(), server_default=sa.false(), nullable=False),
    ):
        op.add_column("turns", column)
