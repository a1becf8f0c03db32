"""Let sessions refer to the key that opened them, and remember replaced secrets by their hashes."""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

STATEMENTS = (
    # A frontend of the previous version joins sessions with their users, so it does not see those of keys.
    "ALTER TABLE sessions ALTER COLUMN user_id DROP NOT NULL",
    """
    ALTER TABLE sessions
        ADD COLUMN key_id uuid,
        ADD CONSTRAINT sessions_key_id_fkey FOREIGN KEY(key_id) REFERENCES api_keys (id) ON DELETE CASCADE,
        ADD CONSTRAINT sessions_owner_check CHECK (num_nonnulls(user_id, key_id) = 1)
    """,
    "CREATE INDEX sessions_key_id_idx ON sessions (key_id)",
    """
    CREATE TABLE retired_secrets (
        hash varchar(64) NOT NULL,
        retired_at timestamptz DEFAULT corral_now() NOT NULL,
        CONSTRAINT retired_secrets_pkey PRIMARY KEY (hash)
    )
    """,
    """
    INSERT INTO retired_secrets (hash)
    SELECT previous_hash FROM api_keys WHERE previous_hash IS NOT NULL
    ON CONFLICT DO NOTHING
    """,
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
