"""The change log names chunks by their keys, projects tell how far it was pruned, models how much they weigh."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # No index followed the log before: lines that name chunks by id are not needed, but the numbers go on.
    op.drop_column("changes", "chunk")
    op.add_column("changes", sa.Column("chunk", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True))
    op.add_column("projects", sa.Column("forgotten", sa.BigInteger(), server_default="0", nullable=False))
    op.add_column("embedders", sa.Column("fusion_weight", sa.Float(), server_default="0.7", nullable=False))
    op.add_column("embedders", sa.Column("cosine_floor", sa.Float(), nullable=True))
    op.execute("UPDATE embedders SET cosine_floor = 0 WHERE name = 'minilm'")
    op.execute("UPDATE embedders SET fusion_weight = 0.45 WHERE name = 'wordllama'")
    op.execute(
        "UPDATE projects SET forgotten = "
        "COALESCE((SELECT MAX(seq) FROM changes WHERE changes.project = projects.ord), 0)"
    )
