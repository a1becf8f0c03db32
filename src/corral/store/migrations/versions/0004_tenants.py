"""Users, sessions, keys with scopes and limits, and usage."""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

STATEMENTS = (
    """
    CREATE TABLE users (
        id uuid NOT NULL,
        name varchar(255) NOT NULL,
        scope varchar(16) NOT NULL,
        password_hash text,
        issuer varchar(255),
        subject varchar(255),
        disabled_at timestamptz,
        created_at timestamptz DEFAULT corral_now() NOT NULL,
        created_by varchar(255) NOT NULL,
        CONSTRAINT users_pkey PRIMARY KEY (id),
        CONSTRAINT users_name_key UNIQUE (name),
        CONSTRAINT users_issuer_subject_key UNIQUE (issuer, subject),
        CONSTRAINT users_scope_check CHECK (scope IN ('admin', 'operate', 'infer'))
    )
    """,
    """
    CREATE TABLE sessions (
        hash varchar(64) NOT NULL,
        user_id uuid NOT NULL,
        created_at timestamptz DEFAULT corral_now() NOT NULL,
        expires_at timestamptz NOT NULL,
        user_agent varchar(255) DEFAULT '' NOT NULL,
        CONSTRAINT sessions_pkey PRIMARY KEY (hash),
        CONSTRAINT sessions_user_id_fkey FOREIGN KEY(user_id) REFERENCES users (id) ON DELETE CASCADE
    )
    """,
    "CREATE INDEX sessions_user_id_idx ON sessions (user_id)",
    # Keys of agent nodes could only send inference requests before scopes existed.
    """
    ALTER TABLE api_keys
        ADD COLUMN user_id uuid,
        ADD COLUMN scope varchar(16) DEFAULT 'admin' NOT NULL,
        ADD COLUMN models jsonb,
        ADD CONSTRAINT api_keys_user_id_fkey FOREIGN KEY(user_id) REFERENCES users (id) ON DELETE CASCADE,
        ADD CONSTRAINT api_keys_scope_check CHECK (scope IN ('admin', 'operate', 'infer'))
    """,
    "UPDATE api_keys SET scope = 'infer' WHERE node_id IS NOT NULL",
    """
    CREATE TABLE key_limits (
        key_id uuid NOT NULL,
        model varchar(255) NOT NULL,
        requests_per_minute integer,
        tokens_per_minute bigint,
        tokens_per_day bigint,
        tokens_per_month bigint,
        CONSTRAINT key_limits_pkey PRIMARY KEY (key_id, model),
        CONSTRAINT key_limits_key_id_fkey FOREIGN KEY(key_id) REFERENCES api_keys (id) ON DELETE CASCADE
    )
    """,
    """
    CREATE TABLE usage (
        hour timestamptz NOT NULL,
        key_id varchar(64) NOT NULL,
        model varchar(255) NOT NULL,
        call varchar(32) NOT NULL,
        key_name varchar(100) DEFAULT '' NOT NULL,
        user_name varchar(255) DEFAULT '' NOT NULL,
        requests bigint DEFAULT 0 NOT NULL,
        errors bigint DEFAULT 0 NOT NULL,
        prompt_tokens bigint DEFAULT 0 NOT NULL,
        cached_tokens bigint DEFAULT 0 NOT NULL,
        completion_tokens bigint DEFAULT 0 NOT NULL,
        estimated_tokens bigint DEFAULT 0 NOT NULL,
        CONSTRAINT usage_pkey PRIMARY KEY (hour, key_id, model, call)
    )
    """,
    "CREATE INDEX usage_key_id_hour_idx ON usage (key_id, hour)",
    """
    CREATE TABLE usage_spools (
        id varchar(64) NOT NULL,
        batch bigint NOT NULL,
        updated_at timestamptz DEFAULT corral_now() NOT NULL,
        CONSTRAINT usage_spools_pkey PRIMARY KEY (id)
    )
    """,
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
