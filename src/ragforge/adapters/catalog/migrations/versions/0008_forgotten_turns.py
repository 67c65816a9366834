"""Cuts of a conversation are counted instead of timed, and a turn tells whether it may repeat earlier ones.

Of a turn from before nobody knows: it is taken for one that does.
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_BEFORE = "This answer was removed: it cited a document that is no longer in the project."
_NOW = "This answer was removed: it used something that is no longer in the project."


def upgrade() -> None:
    op.execute("ALTER TABLE conversations RENAME COLUMN cut_at TO cuts")
    op.execute("UPDATE conversations SET cuts = 0")
    op.add_column("turns", sa.Column("repeats", sa.Boolean(), server_default=sa.true(), nullable=False))
    answer = sa.table("turns", sa.column("answer", sa.Text()))
    op.execute(sa.update(answer).where(answer.c.answer == _BEFORE).values(answer=_NOW))
