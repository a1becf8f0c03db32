"""LoRA adapters as models: which of them the engines of their base load."""

from __future__ import annotations

from alembic import op

revision = "0025"
down_revision = "0023"
branch_labels = None
depends_on = None

STATEMENTS = ("ALTER TABLE models ADD COLUMN adapters jsonb DEFAULT '[]'::jsonb NOT NULL",)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
