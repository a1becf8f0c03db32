"""Settings that admins change while the cluster runs."""

from __future__ import annotations

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

STATEMENTS = (
    """
    CREATE TABLE cluster_settings (
        name varchar(64) NOT NULL,
        value text NOT NULL,
        changed_by varchar(255) NOT NULL,
        changed_at timestamptz NOT NULL DEFAULT corral_now(),
        CONSTRAINT cluster_settings_pkey PRIMARY KEY (name)
    )
    """,
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
