"""Which of one's own jobs come first."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("rank", sa.Integer(), nullable=False, server_default="1"))
    op.drop_index("jobs_in_turn", "jobs")
    op.create_index("jobs_in_turn", "jobs", ["state", "kind", "principal", "rank", "ord"])
