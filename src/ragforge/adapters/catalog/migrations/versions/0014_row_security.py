"""On Postgres, rows of projects that a transaction did not say it is for are not there, whatever is asked for.

A second wall behind the conditions of every statement. It holds for the owner of the tables too, but not for a
superuser, nor for who has BYPASSRLS.
"""

from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_OF_PROJECTS = (
    "generations", "documents", "sources", "versions", "chunks", "embeddings", "changes", "index_states", "jobs",
    "question_sets", "evaluation_runs", "conversations", "project_texts", "query_log", "artifacts",
)  # fmt: skip
_BELOW = {
    "sections": ("version", "versions"),
    "questions": ("question_set", "question_sets"),
    "evaluation_results": ("run", "evaluation_runs"),
    "evaluation_documents": ("run", "evaluation_runs"),
    "rollups": ("conversation", "conversations"),
    "turns": ("conversation", "conversations"),
    "turn_documents": ("turn", "turns"),
    "memory_vectors": ("conversation", "conversations"),
    "interview_states": ("conversation", "conversations"),
    "interview_documents": ("conversation", "conversations"),
    "artifact_documents": ("artifact", "artifacts"),
}
_NAMED = "(SELECT current_setting('ragforge.projects', true))"
_SEEN = (
    f"{_NAMED} = '*' OR "  # noqa: S608 - nothing but our own words
    f"project IN (SELECT ord FROM projects WHERE id = ANY (string_to_array({_NAMED}, ',')))"
)


def upgrade() -> None:
    if op.get_bind().dialect.name != "postgresql":
        return
    for table in _OF_PROJECTS:
        orphan = " OR project IS NULL" if table == "jobs" else ""
        _wall(table, _SEEN + orphan)
    for table, (column, parent) in _BELOW.items():
        above = f"EXISTS (SELECT 1 FROM {parent} above WHERE above.ord = {table}.{column})"  # noqa: S608
        _wall(table, f"{_NAMED} = '*' OR {above}")


def _wall(table: str, seen: str) -> None:
    op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
    op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
    op.execute(f"CREATE POLICY of_the_transaction ON {table} USING ({seen}) WITH CHECK ({seen})")
