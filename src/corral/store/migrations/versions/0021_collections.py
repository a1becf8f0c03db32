"""Collections of documents, and runs that read them. The table of chunks needs an extension, and comes with it."""

from __future__ import annotations

from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

STATEMENTS = (
    "ALTER TABLE operations DROP CONSTRAINT operations_kind_check",
    """
    ALTER TABLE operations ADD CONSTRAINT operations_kind_check CHECK (kind IN (
        'backend_install', 'backend_upgrade', 'backend_reinstall', 'backend_rollback', 'backend_delete',
        'model_install', 'model_load', 'model_stage', 'model_unload', 'model_delete',
        'run_agent_turn', 'run_task', 'run_chat', 'run_batch', 'run_skill_sync', 'run_quantize',
        'run_ingest'))
    """,
    """
    CREATE TABLE collections (
        id uuid NOT NULL,
        owner varchar(64) NOT NULL,
        user_id uuid,
        owner_key_id uuid,
        name varchar(100) NOT NULL,
        embedding_model varchar(255) NOT NULL,
        dimension integer,
        chunk_size integer NOT NULL,
        chunk_overlap integer NOT NULL,
        created_at timestamptz DEFAULT corral_now() NOT NULL,
        CONSTRAINT collections_pkey PRIMARY KEY (id),
        CONSTRAINT collections_owner_name_key UNIQUE (owner, name),
        CONSTRAINT collections_owner_check CHECK (num_nonnulls(user_id, owner_key_id) = 1),
        CONSTRAINT collections_user_id_fkey FOREIGN KEY(user_id) REFERENCES users (id) ON DELETE CASCADE,
        CONSTRAINT collections_owner_key_id_fkey FOREIGN KEY(owner_key_id) REFERENCES api_keys (id) ON DELETE CASCADE
    )
    """,
    "CREATE INDEX collections_user_id_idx ON collections (user_id)",
    "CREATE INDEX collections_owner_key_id_idx ON collections (owner_key_id)",
    """
    CREATE TABLE collection_sources (
        id uuid NOT NULL,
        collection_id uuid NOT NULL,
        url text NOT NULL,
        interval_s double precision NOT NULL,
        next_read_at timestamptz DEFAULT corral_now() NOT NULL,
        last_read_at timestamptz,
        problem text DEFAULT '' NOT NULL,
        key_id varchar(64) NOT NULL,
        owner_name varchar(255) NOT NULL,
        CONSTRAINT collection_sources_pkey PRIMARY KEY (id),
        CONSTRAINT collection_sources_collection_id_url_key UNIQUE (collection_id, url),
        CONSTRAINT collection_sources_collection_id_fkey FOREIGN KEY(collection_id) REFERENCES collections (id)
            ON DELETE CASCADE
    )
    """,
    "CREATE INDEX collection_sources_next_read_at_idx ON collection_sources (next_read_at)",
    """
    CREATE TABLE collection_entries (
        id uuid NOT NULL,
        collection_id uuid NOT NULL,
        name varchar(255) NOT NULL,
        media_type varchar(100) DEFAULT '' NOT NULL,
        size_bytes bigint NOT NULL,
        sha256 varchar(64) NOT NULL,
        artifact_id uuid,
        source_id uuid,
        state varchar(16) DEFAULT 'queued' NOT NULL,
        message text DEFAULT '' NOT NULL,
        version integer DEFAULT 1 NOT NULL,
        ready_version integer,
        chunks integer DEFAULT 0 NOT NULL,
        run_id uuid,
        key_id varchar(64) NOT NULL,
        owner_name varchar(255) NOT NULL,
        created_at timestamptz DEFAULT corral_now() NOT NULL,
        updated_at timestamptz DEFAULT corral_now() NOT NULL,
        CONSTRAINT collection_entries_pkey PRIMARY KEY (id),
        CONSTRAINT collection_entries_collection_id_name_key UNIQUE (collection_id, name),
        CONSTRAINT collection_entries_state_check CHECK (state IN ('queued', 'reading', 'ready', 'failed')),
        CONSTRAINT collection_entries_collection_id_fkey FOREIGN KEY(collection_id) REFERENCES collections (id)
            ON DELETE CASCADE,
        CONSTRAINT collection_entries_artifact_id_fkey FOREIGN KEY(artifact_id) REFERENCES artifacts (id)
            ON DELETE SET NULL,
        CONSTRAINT collection_entries_source_id_fkey FOREIGN KEY(source_id) REFERENCES collection_sources (id)
            ON DELETE SET NULL
    )
    """,
    "CREATE INDEX collection_entries_artifact_id_idx ON collection_entries (artifact_id)",
    "CREATE INDEX collection_entries_source_id_idx ON collection_entries (source_id)",
    "CREATE INDEX collection_entries_run_id_idx ON collection_entries (run_id)",
    """
    CREATE INDEX collection_entries_waiting_idx ON collection_entries (updated_at)
     WHERE state = 'queued' AND run_id IS NULL
    """,
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
