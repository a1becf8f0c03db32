"""Store the previous secret of a rotated key for as long as it still works."""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

STATEMENTS = (
    "ALTER TABLE api_keys ADD COLUMN previous_hash varchar(64), ADD COLUMN previous_until timestamptz",
    "CREATE INDEX api_keys_previous_hash_idx ON api_keys (previous_hash)",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
