"""When a scheduler looks again at a time of a task or an agent whose start has failed."""

from __future__ import annotations

from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE tasks ADD COLUMN next_look_at timestamptz")
    op.execute("ALTER TABLE agents ADD COLUMN next_look_at timestamptz")
