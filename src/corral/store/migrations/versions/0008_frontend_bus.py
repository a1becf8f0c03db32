"""A frontend says whether it is on the bus."""

from __future__ import annotations

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE frontends ADD COLUMN bus_ok boolean")
