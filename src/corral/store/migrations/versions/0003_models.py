"""Models, their files, replicas that are loaded and stopped in order, and their use."""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

STATEMENTS = (
    "ALTER TABLE nodes ADD COLUMN holdings_at timestamptz",
    # Older replica rows were not written by a load, so they can be deleted.
    "DELETE FROM replicas",
    """
    ALTER TABLE replicas
        DROP CONSTRAINT replicas_not_negative_check,
        DROP COLUMN in_flight,
        DROP COLUMN last_used_at,
        ADD COLUMN engine_key text DEFAULT '' NOT NULL,
        ADD COLUMN backend varchar(255) DEFAULT '' NOT NULL,
        ADD COLUMN version varchar(128) DEFAULT '' NOT NULL,
        ADD COLUMN operation_id uuid,
        ADD COLUMN vram_bytes bigint,
        ADD COLUMN ram_bytes bigint,
        ADD COLUMN threads integer DEFAULT 1 NOT NULL,
        ADD COLUMN load_s double precision,
        ADD COLUMN loaded_at timestamptz,
        ADD COLUMN confirmed_at timestamptz,
        ADD COLUMN misses integer DEFAULT 0 NOT NULL,
        ADD COLUMN stop_reason text DEFAULT '' NOT NULL,
        ADD COLUMN stop_due_at timestamptz,
        ADD COLUMN stop_attempts integer DEFAULT 0 NOT NULL,
        ADD COLUMN stop_problem text DEFAULT '' NOT NULL,
        ADD CONSTRAINT replicas_not_negative_check CHECK (replica_index >= 0 AND threads >= 0)
    """,
    "CREATE INDEX replicas_stop_idx ON replicas (stop_due_at) WHERE state = 'unloading'",
    """
    CREATE TABLE replica_use (
        replica_id uuid NOT NULL,
        frontend_id varchar(64) NOT NULL,
        in_flight integer NOT NULL,
        last_used_at timestamptz,
        expires_at timestamptz NOT NULL,
        CONSTRAINT replica_use_pkey PRIMARY KEY (replica_id, frontend_id),
        CONSTRAINT replica_use_in_flight_check CHECK (in_flight >= 0),
        CONSTRAINT replica_use_replica_id_fkey FOREIGN KEY(replica_id) REFERENCES replicas (id) ON DELETE CASCADE
    )
    """,
    """
    CREATE TABLE model_demand (
        model varchar(255) NOT NULL,
        frontend_id varchar(64) NOT NULL,
        waiting integer NOT NULL,
        asked_at timestamptz NOT NULL,
        expires_at timestamptz NOT NULL,
        CONSTRAINT model_demand_pkey PRIMARY KEY (model, frontend_id),
        CONSTRAINT model_demand_waiting_check CHECK (waiting >= 0)
    )
    """,
    """
    ALTER TABLE reservations
        DROP CONSTRAINT reservations_vram_bytes_check,
        ALTER COLUMN vram_bytes SET DEFAULT 0,
        ADD COLUMN ram_bytes bigint DEFAULT 0 NOT NULL,
        ADD COLUMN disk_bytes bigint DEFAULT 0 NOT NULL,
        ADD CONSTRAINT reservations_not_negative_check
            CHECK (vram_bytes >= 0 AND ram_bytes >= 0 AND disk_bytes >= 0),
        ADD CONSTRAINT reservations_something_check CHECK (vram_bytes + ram_bytes + disk_bytes > 0)
    """,
    """
    ALTER TABLE rules
        ADD COLUMN spreads boolean DEFAULT false NOT NULL,
        ADD COLUMN windows jsonb DEFAULT '[]'::jsonb NOT NULL,
        ADD COLUMN time_zone varchar(64) DEFAULT 'UTC' NOT NULL,
        ADD COLUMN route_policy varchar(32) DEFAULT '' NOT NULL,
        ADD CONSTRAINT rules_not_negative_check CHECK (min_replicas >= 0 AND max_replicas >= 0),
        ADD CONSTRAINT rules_spreads_check CHECK (NOT spreads OR (min_replicas = 0 AND max_replicas = 0))
    """,
    """
    CREATE TABLE models (
        name varchar(255) NOT NULL,
        revision integer NOT NULL,
        run_hash varchar(64) NOT NULL,
        config jsonb NOT NULL,
        facts jsonb,
        observed jsonb,
        created_at timestamptz DEFAULT corral_now() NOT NULL,
        updated_at timestamptz DEFAULT corral_now() NOT NULL,
        CONSTRAINT models_pkey PRIMARY KEY (name)
    )
    """,
    """
    CREATE TABLE model_revisions (
        model varchar(255) NOT NULL,
        number integer NOT NULL,
        run_hash varchar(64) NOT NULL,
        config jsonb NOT NULL,
        note text DEFAULT '' NOT NULL,
        created_by varchar(255) NOT NULL,
        created_at timestamptz DEFAULT corral_now() NOT NULL,
        CONSTRAINT model_revisions_pkey PRIMARY KEY (model, number),
        CONSTRAINT model_revisions_model_fkey FOREIGN KEY(model) REFERENCES models (name) ON DELETE CASCADE
    )
    """,
    """
    CREATE TABLE model_names (
        name varchar(255) NOT NULL,
        model varchar(255) NOT NULL,
        CONSTRAINT model_names_pkey PRIMARY KEY (name),
        CONSTRAINT model_names_model_fkey FOREIGN KEY(model) REFERENCES models (name) ON DELETE CASCADE
    )
    """,
    "CREATE INDEX model_names_model_idx ON model_names (model)",
    """
    CREATE TABLE fleet_items (
        kind varchar(16) NOT NULL,
        name varchar(255) NOT NULL,
        applied_at timestamptz DEFAULT corral_now() NOT NULL,
        CONSTRAINT fleet_items_pkey PRIMARY KEY (kind, name)
    )
    """,
    """
    CREATE TABLE galleries (
        kind varchar(16) NOT NULL,
        name varchar(64) NOT NULL,
        url text NOT NULL,
        mirrors jsonb DEFAULT '[]'::jsonb NOT NULL,
        CONSTRAINT galleries_pkey PRIMARY KEY (kind, name),
        CONSTRAINT galleries_kind_check CHECK (kind IN ('backends', 'models'))
    )
    """,
    """
    CREATE TABLE blobs (
        sha256 varchar(64) NOT NULL,
        size_bytes bigint NOT NULL,
        chunks bytea NOT NULL,
        created_at timestamptz DEFAULT corral_now() NOT NULL,
        CONSTRAINT blobs_pkey PRIMARY KEY (sha256)
    )
    """,
    """
    CREATE TABLE model_files (
        model varchar(255) NOT NULL,
        path varchar(1024) NOT NULL,
        sha256 varchar(64) NOT NULL,
        CONSTRAINT model_files_pkey PRIMARY KEY (model, path),
        CONSTRAINT model_files_model_fkey FOREIGN KEY(model) REFERENCES models (name) ON DELETE CASCADE,
        CONSTRAINT model_files_sha256_fkey FOREIGN KEY(sha256) REFERENCES blobs (sha256)
    )
    """,
    "CREATE INDEX model_files_sha256_idx ON model_files (sha256)",
    """
    CREATE TABLE library_files (
        sha256 varchar(64) NOT NULL,
        holder varchar(255) NOT NULL,
        is_shared boolean DEFAULT false NOT NULL,
        created_at timestamptz DEFAULT corral_now() NOT NULL,
        CONSTRAINT library_files_pkey PRIMARY KEY (sha256, holder),
        CONSTRAINT library_files_sha256_fkey FOREIGN KEY(sha256) REFERENCES blobs (sha256) ON DELETE CASCADE
    )
    """,
    """
    CREATE TABLE staged_files (
        node_id uuid NOT NULL,
        sha256 varchar(64) NOT NULL,
        size_bytes bigint NOT NULL,
        is_whole boolean DEFAULT true NOT NULL,
        reported_at timestamptz DEFAULT corral_now() NOT NULL,
        CONSTRAINT staged_files_pkey PRIMARY KEY (node_id, sha256),
        CONSTRAINT staged_files_node_id_fkey FOREIGN KEY(node_id) REFERENCES nodes (id) ON DELETE CASCADE
    )
    """,
    "CREATE INDEX staged_files_sha256_idx ON staged_files (sha256)",
    """
    CREATE TABLE staged_models (
        node_id uuid NOT NULL,
        model varchar(255) NOT NULL,
        revision varchar(64) DEFAULT '' NOT NULL,
        reported_at timestamptz DEFAULT corral_now() NOT NULL,
        CONSTRAINT staged_models_pkey PRIMARY KEY (node_id, model),
        CONSTRAINT staged_models_node_id_fkey FOREIGN KEY(node_id) REFERENCES nodes (id) ON DELETE CASCADE
    )
    """,
    "CREATE INDEX staged_models_model_idx ON staged_models (model)",
    """
    CREATE TABLE model_removals (
        node_id uuid NOT NULL,
        model varchar(255) NOT NULL,
        operation_id uuid,
        due_at timestamptz DEFAULT corral_now() NOT NULL,
        attempts integer DEFAULT 0 NOT NULL,
        problem text DEFAULT '' NOT NULL,
        created_at timestamptz DEFAULT corral_now() NOT NULL,
        CONSTRAINT model_removals_pkey PRIMARY KEY (node_id, model),
        CONSTRAINT model_removals_node_id_fkey FOREIGN KEY(node_id) REFERENCES nodes (id) ON DELETE CASCADE
    )
    """,
    "CREATE INDEX model_removals_due_at_idx ON model_removals (due_at)",
    """
    ALTER TABLE operations
        DROP CONSTRAINT operations_kind_check,
        ADD CONSTRAINT operations_kind_check CHECK (
            kind IN ('backend_install', 'backend_upgrade', 'backend_reinstall', 'backend_rollback', 'backend_delete',
            'model_install', 'model_load', 'model_stage', 'model_unload', 'model_delete'))
    """,
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
