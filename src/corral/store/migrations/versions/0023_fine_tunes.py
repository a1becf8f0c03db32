"""Fine-tunings: datasets, runs that train a model, their checkpoints and exports, and files that runs have made."""

from __future__ import annotations

from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

STATEMENTS = (
    "ALTER TABLE operations DROP CONSTRAINT operations_kind_check",
    """
    ALTER TABLE operations ADD CONSTRAINT operations_kind_check CHECK (kind IN (
        'backend_install', 'backend_upgrade', 'backend_reinstall', 'backend_rollback', 'backend_delete',
        'model_install', 'model_load', 'model_stage', 'model_unload', 'model_delete',
        'run_agent_turn', 'run_task', 'run_chat', 'run_batch', 'run_skill_sync', 'run_quantize',
        'run_ingest', 'run_fine_tune', 'run_fine_tune_export'))
    """,
    """
    CREATE TABLE run_files (
        run_id uuid NOT NULL,
        folder varchar(64) NOT NULL,
        path varchar(255) NOT NULL,
        sha256 varchar(64) NOT NULL,
        size_bytes bigint NOT NULL,
        CONSTRAINT run_files_pkey PRIMARY KEY (run_id, folder, path),
        CONSTRAINT run_files_run_id_fkey FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
    )
    """,
    "CREATE INDEX run_files_sha256_idx ON run_files (sha256)",
    """
    CREATE TABLE fine_tunes (
        id uuid NOT NULL,
        model varchar(255) NOT NULL,
        backend varchar(255) NOT NULL,
        method varchar(16) NOT NULL,
        training_type varchar(16) NOT NULL,
        dataset_id uuid NOT NULL,
        dataset_name varchar(255) NOT NULL,
        parameters jsonb NOT NULL,
        resumed_from varchar(64) DEFAULT '' NOT NULL,
        is_stopping boolean DEFAULT false NOT NULL,
        result jsonb DEFAULT '{}'::jsonb NOT NULL,
        CONSTRAINT fine_tunes_pkey PRIMARY KEY (id),
        CONSTRAINT fine_tunes_id_fkey FOREIGN KEY(id) REFERENCES runs (id) ON DELETE CASCADE
    )
    """,
    "CREATE INDEX fine_tunes_dataset_id_idx ON fine_tunes (dataset_id)",
    """
    CREATE TABLE fine_tune_checkpoints (
        fine_tune_id uuid NOT NULL,
        step integer NOT NULL,
        epoch double precision,
        loss double precision,
        is_inherited boolean DEFAULT false NOT NULL,
        created_at timestamptz DEFAULT corral_now() NOT NULL,
        CONSTRAINT fine_tune_checkpoints_pkey PRIMARY KEY (fine_tune_id, step),
        CONSTRAINT fine_tune_checkpoints_fine_tune_id_fkey FOREIGN KEY(fine_tune_id) REFERENCES fine_tunes (id)
            ON DELETE CASCADE
    )
    """,
    """
    CREATE TABLE fine_tune_exports (
        id uuid NOT NULL,
        fine_tune_id uuid NOT NULL,
        run_id uuid,
        format varchar(16) NOT NULL,
        weight_type varchar(16) DEFAULT '' NOT NULL,
        name varchar(255) NOT NULL,
        step integer NOT NULL,
        status varchar(16) NOT NULL,
        message text DEFAULT '' NOT NULL,
        registered_name varchar(255) DEFAULT '' NOT NULL,
        created_at timestamptz DEFAULT corral_now() NOT NULL,
        CONSTRAINT fine_tune_exports_pkey PRIMARY KEY (id),
        CONSTRAINT fine_tune_exports_status_check CHECK (status IN ('exporting', 'completed', 'failed')),
        CONSTRAINT fine_tune_exports_fine_tune_id_fkey FOREIGN KEY(fine_tune_id) REFERENCES fine_tunes (id)
            ON DELETE CASCADE,
        CONSTRAINT fine_tune_exports_run_id_fkey FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE SET NULL
    )
    """,
    "CREATE INDEX fine_tune_exports_fine_tune_id_idx ON fine_tune_exports (fine_tune_id)",
    "CREATE INDEX fine_tune_exports_run_id_idx ON fine_tune_exports (run_id)",
    """
    CREATE TABLE fine_tune_datasets (
        id uuid NOT NULL,
        format varchar(8) NOT NULL,
        rows integer NOT NULL,
        columns jsonb NOT NULL,
        CONSTRAINT fine_tune_datasets_pkey PRIMARY KEY (id),
        CONSTRAINT fine_tune_datasets_id_fkey FOREIGN KEY(id) REFERENCES artifacts (id) ON DELETE CASCADE
    )
    """,
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
