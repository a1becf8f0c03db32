"""Bytes of artifacts in chunks, and batches."""

from __future__ import annotations

from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

STATEMENTS = (
    "ALTER TABLE artifacts ADD COLUMN purpose varchar(32) DEFAULT '' NOT NULL",
    "ALTER TABLE artifacts ADD COLUMN is_complete boolean DEFAULT true NOT NULL",
    "DROP INDEX artifacts_run_id_idx",
    "CREATE UNIQUE INDEX artifacts_run_id_name_idx ON artifacts (run_id, name)",
    "CREATE INDEX artifacts_expires_at_idx ON artifacts (expires_at) WHERE expires_at IS NOT NULL",
    """
    CREATE TABLE artifact_chunks (
        artifact_id uuid NOT NULL,
        start_byte bigint NOT NULL,
        content bytea NOT NULL,
        CONSTRAINT artifact_chunks_pkey PRIMARY KEY (artifact_id, start_byte),
        CONSTRAINT artifact_chunks_artifact_id_fkey FOREIGN KEY(artifact_id) REFERENCES artifacts (id) ON DELETE CASCADE
    )
    """,
    """
    CREATE TABLE batches (
        id uuid NOT NULL,
        input_file_id uuid NOT NULL,
        output_file_id uuid,
        error_file_id uuid,
        endpoint varchar(64) NOT NULL,
        completion_window varchar(16) NOT NULL,
        metadata jsonb DEFAULT '{}'::jsonb NOT NULL,
        status varchar(16) DEFAULT 'validating' NOT NULL,
        errors jsonb DEFAULT '[]'::jsonb NOT NULL,
        next_byte bigint DEFAULT 0 NOT NULL,
        next_line integer DEFAULT 0 NOT NULL,
        total integer DEFAULT 0 NOT NULL,
        completed integer DEFAULT 0 NOT NULL,
        failed integer DEFAULT 0 NOT NULL,
        created_at timestamptz DEFAULT corral_now() NOT NULL,
        expires_at timestamptz NOT NULL,
        in_progress_at timestamptz,
        finalizing_at timestamptz,
        ended_at timestamptz,
        CONSTRAINT batches_pkey PRIMARY KEY (id),
        CONSTRAINT batches_status_check CHECK (status IN ('validating', 'in_progress', 'completed', 'failed',
            'expired', 'cancelled')),
        CONSTRAINT batches_id_fkey FOREIGN KEY(id) REFERENCES runs (id) ON DELETE CASCADE
    )
    """,
    "CREATE INDEX batches_open_idx ON batches (input_file_id) WHERE ended_at IS NULL",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
