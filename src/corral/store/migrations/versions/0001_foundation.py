"""Foundation: nodes and the tables that depend on them, access, leases, outbox."""

from __future__ import annotations

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# The schema as it was at this revision, spelled out: later changes to schema.py must not change the past.
STATEMENTS = (
    # The only source of time that is stored and compared. The simulator replaces it by virtual time.
    """
    CREATE FUNCTION corral_now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE AS 'SELECT now()'
    """,
    """
    CREATE TABLE nodes (
        id uuid CONSTRAINT nodes_pkey PRIMARY KEY,
        name varchar(255) NOT NULL CONSTRAINT nodes_name_key UNIQUE,
        node_type varchar(16) NOT NULL CONSTRAINT nodes_node_type_check CHECK (node_type IN ('backend', 'agent')),
        credential_hash varchar(64) NOT NULL,
        bus_public_key varchar(64),
        boot_id varchar(64) NOT NULL,
        version varchar(64) NOT NULL DEFAULT '',
        address varchar(255) NOT NULL DEFAULT '',
        http_address varchar(255) NOT NULL DEFAULT '',
        approved_at timestamptz,
        approved_by varchar(255),
        drained_at timestamptz,
        drained_by varchar(255),
        self_drained_at timestamptz,
        liveness varchar(8) NOT NULL CONSTRAINT nodes_liveness_check CHECK (liveness IN ('alive', 'lost', 'left')),
        liveness_since timestamptz NOT NULL DEFAULT corral_now(),
        lease_expires_at timestamptz NOT NULL,
        last_heartbeat_at timestamptz,
        bus_ok boolean,
        bus_since timestamptz,
        total_vram bigint,
        available_vram bigint,
        total_ram bigint,
        available_ram bigint,
        total_disk bigint,
        available_disk bigint,
        gpu_vendor varchar(64),
        gpu_compute_capability varchar(64),
        capability varchar(64),
        cpu_cores integer,
        cpu_threads integer,
        architecture varchar(64),
        system varchar(64),
        unified_memory boolean,
        gpus jsonb,
        slots_reported integer NOT NULL DEFAULT 1,
        slots_override integer,
        budget_reported varchar(64),
        budget_override varchar(64),
        created_at timestamptz NOT NULL DEFAULT corral_now(),
        updated_at timestamptz NOT NULL DEFAULT corral_now(),
        CONSTRAINT nodes_slots_check
            CHECK (slots_reported >= 1 AND (slots_override IS NULL OR slots_override >= 1))
    ) WITH (fillfactor = 60)
    """,
    """
    CREATE TABLE node_labels (
        node_id uuid NOT NULL CONSTRAINT node_labels_node_id_fkey REFERENCES nodes (id) ON DELETE CASCADE,
        key varchar(128) NOT NULL,
        source varchar(8) NOT NULL CONSTRAINT node_labels_source_check CHECK (source IN ('auto', 'worker', 'admin')),
        value varchar(255) NOT NULL,
        CONSTRAINT node_labels_pkey PRIMARY KEY (node_id, key, source)
    )
    """,
    """
    CREATE TABLE replicas (
        id uuid CONSTRAINT replicas_pkey PRIMARY KEY,
        node_id uuid NOT NULL CONSTRAINT replicas_node_id_fkey REFERENCES nodes (id) ON DELETE CASCADE,
        model varchar(255) NOT NULL,
        replica_index integer NOT NULL,
        state varchar(16) NOT NULL
            CONSTRAINT replicas_state_check CHECK (state IN ('staging', 'loading', 'loaded', 'unloading')),
        address varchar(255) NOT NULL DEFAULT '',
        revision varchar(64) NOT NULL DEFAULT '',
        in_flight integer NOT NULL DEFAULT 0,
        last_used_at timestamptz,
        created_at timestamptz NOT NULL DEFAULT corral_now(),
        updated_at timestamptz NOT NULL DEFAULT corral_now(),
        CONSTRAINT replicas_node_id_model_replica_index_key UNIQUE (node_id, model, replica_index),
        CONSTRAINT replicas_not_negative_check CHECK (replica_index >= 0 AND in_flight >= 0)
    )
    """,
    "CREATE INDEX replicas_model_idx ON replicas (model)",
    """
    CREATE TABLE reservations (
        id uuid CONSTRAINT reservations_pkey PRIMARY KEY,
        node_id uuid NOT NULL CONSTRAINT reservations_node_id_fkey REFERENCES nodes (id) ON DELETE CASCADE,
        holder varchar(255) NOT NULL,
        vram_bytes bigint NOT NULL CONSTRAINT reservations_vram_bytes_check CHECK (vram_bytes > 0),
        created_at timestamptz NOT NULL DEFAULT corral_now(),
        CONSTRAINT reservations_node_id_holder_key UNIQUE (node_id, holder)
    )
    """,
    """
    CREATE TABLE rules (
        model varchar(255) CONSTRAINT rules_pkey PRIMARY KEY,
        selector jsonb NOT NULL DEFAULT '{}'
            CONSTRAINT rules_selector_check CHECK (jsonb_typeof(selector) = 'object'),
        min_replicas integer NOT NULL DEFAULT 0,
        max_replicas integer NOT NULL DEFAULT 0,
        unsatisfiable_until timestamptz,
        unsatisfiable_ticks integer NOT NULL DEFAULT 0,
        created_at timestamptz NOT NULL DEFAULT corral_now(),
        updated_at timestamptz NOT NULL DEFAULT corral_now()
    )
    """,
    """
    CREATE TABLE join_tokens (
        id uuid CONSTRAINT join_tokens_pkey PRIMARY KEY,
        name varchar(100) NOT NULL,
        hash varchar(64) NOT NULL CONSTRAINT join_tokens_hash_key UNIQUE,
        prefix varchar(16) NOT NULL,
        uses integer NOT NULL DEFAULT 0,
        max_uses integer,
        approves boolean NOT NULL DEFAULT false,
        expires_at timestamptz,
        revoked_at timestamptz,
        created_at timestamptz NOT NULL DEFAULT corral_now(),
        created_by varchar(255) NOT NULL,
        CONSTRAINT join_tokens_uses_check CHECK (max_uses IS NULL OR uses <= max_uses)
    )
    """,
    """
    CREATE TABLE api_keys (
        id uuid CONSTRAINT api_keys_pkey PRIMARY KEY,
        name varchar(100) NOT NULL,
        hash varchar(64) NOT NULL CONSTRAINT api_keys_hash_key UNIQUE,
        prefix varchar(16) NOT NULL,
        node_id uuid CONSTRAINT api_keys_node_id_fkey REFERENCES nodes (id) ON DELETE CASCADE,
        expires_at timestamptz,
        revoked_at timestamptz,
        created_at timestamptz NOT NULL DEFAULT corral_now(),
        created_by varchar(255) NOT NULL
    )
    """,
    """
    CREATE TABLE leases (
        name varchar(64) CONSTRAINT leases_pkey PRIMARY KEY,
        holder varchar(64) NOT NULL,
        term bigint NOT NULL,
        acquired_at timestamptz NOT NULL,
        expires_at timestamptz NOT NULL,
        unbroken_since timestamptz NOT NULL
    )
    """,
    """
    CREATE TABLE frontends (
        id varchar(64) CONSTRAINT frontends_pkey PRIMARY KEY,
        host varchar(255) NOT NULL,
        port integer NOT NULL,
        pid integer NOT NULL,
        version varchar(64) NOT NULL,
        started_at timestamptz NOT NULL DEFAULT corral_now(),
        seen_at timestamptz NOT NULL DEFAULT corral_now()
    )
    """,
    """
    CREATE TABLE outbox (
        number bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT outbox_pkey PRIMARY KEY,
        transaction xid8 NOT NULL DEFAULT pg_current_xact_id(),
        kind varchar(64) NOT NULL,
        key varchar(255) NOT NULL,
        data jsonb NOT NULL DEFAULT '{}',
        at timestamptz NOT NULL DEFAULT corral_now()
    )
    """,
    "CREATE INDEX outbox_position_idx ON outbox (transaction, number)",
    """
    CREATE TABLE outbox_horizon (
        id integer CONSTRAINT outbox_horizon_pkey PRIMARY KEY
            CONSTRAINT outbox_horizon_single_row_check CHECK (id = 1),
        transaction xid8 NOT NULL,
        number bigint NOT NULL
    )
    """,
    "INSERT INTO outbox_horizon VALUES (1, '0', 0)",
    """
    CREATE TABLE idempotency_keys (
        hash varchar(64) CONSTRAINT idempotency_keys_pkey PRIMARY KEY,
        request_hash varchar(64) NOT NULL,
        status integer NOT NULL,
        answer bytea NOT NULL,
        created_at timestamptz NOT NULL DEFAULT corral_now()
    )
    """,
    "CREATE INDEX idempotency_keys_created_at_idx ON idempotency_keys (created_at)",
    """
    CREATE TABLE audit (
        id bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT audit_pkey PRIMARY KEY,
        at timestamptz NOT NULL DEFAULT corral_now(),
        actor varchar(255) NOT NULL,
        action varchar(64) NOT NULL,
        target varchar(255) NOT NULL,
        detail text NOT NULL DEFAULT ''
    )
    """,
    "CREATE INDEX audit_at_idx ON audit (at)",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
