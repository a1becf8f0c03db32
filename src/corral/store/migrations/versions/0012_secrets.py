"""Secrets of users, keys and the cluster, sealed with a key that the database does not hold."""

from __future__ import annotations

from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

STATEMENTS = (
    """
    CREATE TABLE secrets (
        id uuid NOT NULL,
        owner varchar(64) NOT NULL,
        user_id uuid,
        key_ref uuid,
        name varchar(100) NOT NULL,
        sealed bytea NOT NULL,
        key_id varchar(16) NOT NULL,
        created_at timestamptz NOT NULL DEFAULT corral_now(),
        updated_at timestamptz NOT NULL DEFAULT corral_now(),
        changed_by varchar(255) NOT NULL,
        last_used_at timestamptz,
        CONSTRAINT secrets_pkey PRIMARY KEY (id),
        CONSTRAINT secrets_owner_name_key UNIQUE (owner, name),
        CONSTRAINT secrets_user_id_fkey FOREIGN KEY(user_id) REFERENCES users (id) ON DELETE CASCADE,
        CONSTRAINT secrets_key_ref_fkey FOREIGN KEY(key_ref) REFERENCES api_keys (id) ON DELETE CASCADE,
        CONSTRAINT secrets_one_owner_check CHECK (num_nonnulls(user_id, key_ref) <= 1),
        CONSTRAINT secrets_owner_check
            CHECK (owner = coalesce('user:' || user_id::text, 'key:' || key_ref::text, 'cluster'))
    )
    """,
    "CREATE INDEX secrets_user_id_idx ON secrets (user_id)",
    "CREATE INDEX secrets_key_ref_idx ON secrets (key_ref)",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
