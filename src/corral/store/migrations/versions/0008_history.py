"""Store the curves of the last hour, one row a minute."""

from __future__ import annotations

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        """
        CREATE TABLE history_moments (
            at timestamptz DEFAULT corral_now() NOT NULL,
            cluster jsonb NOT NULL,
            names jsonb NOT NULL,
            nodes jsonb NOT NULL,
            CONSTRAINT history_moments_pkey PRIMARY KEY (at)
        )
        """
    )
