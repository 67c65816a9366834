"""Keys of those who may call a server, and the jobs that they ask for; what was removed for good."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "access_keys",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("projects", sa.Text(), nullable=True),
        sa.Column("clearance", sa.Integer(), nullable=False),
        sa.Column("limits", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_access_keys"),
    )
    op.create_index("query_log_by_principal", "query_log", ["principal", "asked_at"])
    op.create_table(
        "tombstones",
        sa.Column("ord", _KEY, autoincrement=False, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("removed_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("ord", name="pk_tombstones"),
        sa.UniqueConstraint("kind", "id", name="uq_tombstones_kind_id"),
    )
    for column in (
        sa.Column("principal", sa.Text(), server_default="owner", nullable=False),
        sa.Column("storage", sa.Text(), server_default="owner", nullable=False),
        sa.Column("clearance", sa.Integer(), server_default="3", nullable=False),
        sa.Column("lane", sa.Text(), server_default="", nullable=False),
        sa.Column("asked_with", sa.Text(), nullable=True),
        sa.Column("part", sa.Integer(), server_default="0", nullable=False),
        sa.Column("digest", sa.Text(), server_default="", nullable=False),
        sa.Column("hint", sa.Text(), server_default="", nullable=False),
        sa.Column("result", sa.Text(), nullable=True),
    ):
        op.add_column("jobs", column)
    op.drop_index("ix_jobs_state", "jobs")
    op.create_index("jobs_in_turn", "jobs", ["state", "kind", "principal", "ord"])
    op.create_index("jobs_served", "jobs", ["state", "kind", "principal", "updated_at"])
    op.create_index("jobs_on_lane", "jobs", ["project", "lane"])
    op.create_index("jobs_asked_once", "jobs", ["principal", "asked_with", "part"], unique=True)
