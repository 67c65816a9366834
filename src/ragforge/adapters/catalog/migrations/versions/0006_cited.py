"""The query log tells which documents an answer cites."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("query_log", sa.Column("cited", sa.Text(), server_default="[]", nullable=False))
