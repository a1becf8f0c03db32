"""Record whether a frontend is on the bus, and which nodes were removed."""

from __future__ import annotations

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

STATEMENTS = (
    "ALTER TABLE frontends ADD COLUMN bus_ok boolean",
    """
    CREATE TABLE removed_nodes (
        id uuid NOT NULL,
        removed_at timestamptz DEFAULT corral_now() NOT NULL,
        CONSTRAINT removed_nodes_pkey PRIMARY KEY (id)
    )
    """,
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
