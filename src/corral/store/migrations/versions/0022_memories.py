"""What agents remember is marked, because it has a retention and documents of people have none."""

from __future__ import annotations

from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

STATEMENTS = (
    "ALTER TABLE collection_entries ADD COLUMN is_memory boolean DEFAULT false NOT NULL",
    # The names that agents give: the id of the run, and the part of the turn.
    """
    UPDATE collection_entries SET is_memory = true
     WHERE name ~ '^memory/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-[^/]+[.]md$' AND source_id IS NULL
    """,
    "CREATE INDEX collection_entries_memories_idx ON collection_entries (updated_at) WHERE is_memory",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
