"""Quantisations: runs that make a model smaller, what they made, and where a model came from."""

from __future__ import annotations

from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

STATEMENTS = (
    "ALTER TABLE operations DROP CONSTRAINT operations_kind_check",
    """
    ALTER TABLE operations ADD CONSTRAINT operations_kind_check CHECK (kind IN (
        'backend_install', 'backend_upgrade', 'backend_reinstall', 'backend_rollback', 'backend_delete',
        'model_install', 'model_load', 'model_stage', 'model_unload', 'model_delete',
        'run_agent_turn', 'run_task', 'run_chat', 'run_batch', 'run_skill_sync', 'run_quantize'))
    """,
    "ALTER TABLE models ADD COLUMN provenance jsonb",
    """
    CREATE TABLE quantizations (
        id uuid NOT NULL,
        model varchar(255) NOT NULL,
        backend varchar(255) NOT NULL,
        weight_type varchar(16) NOT NULL,
        name varchar(255) DEFAULT '' NOT NULL,
        file_name varchar(255) DEFAULT '' NOT NULL,
        sha256 varchar(64),
        size_bytes bigint,
        source jsonb DEFAULT '{}'::jsonb NOT NULL,
        config jsonb,
        registered_name varchar(255) DEFAULT '' NOT NULL,
        problem text DEFAULT '' NOT NULL,
        stored_at timestamptz,
        CONSTRAINT quantizations_pkey PRIMARY KEY (id),
        CONSTRAINT quantizations_id_fkey FOREIGN KEY(id) REFERENCES runs (id) ON DELETE CASCADE
    )
    """,
    "CREATE INDEX quantizations_sha256_idx ON quantizations (sha256) WHERE sha256 IS NOT NULL",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
