"""Operations, assignments, installed backends and the copies of galleries."""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

STATEMENTS = (
    "ALTER TABLE nodes ADD COLUMN backends_at timestamptz",
    "CREATE SEQUENCE assignment_generations",
    """
    CREATE TABLE operations (
        id uuid NOT NULL,
        kind varchar(32) NOT NULL,
        subject varchar(255) NOT NULL,
        scope_key varchar(512) NOT NULL,
        scope_node uuid,
        scope_node_name varchar(255) DEFAULT '' NOT NULL,
        request jsonb NOT NULL,
        state varchar(32) NOT NULL,
        phase varchar(32),
        percent double precision DEFAULT 0 NOT NULL,
        current_bytes bigint,
        total_bytes bigint,
        file_name varchar(255) DEFAULT '' NOT NULL,
        message text DEFAULT '' NOT NULL,
        error_code varchar(64),
        error_text text,
        owner varchar(64),
        lease_until timestamptz,
        fence bigint DEFAULT 0 NOT NULL,
        due_at timestamptz,
        attempt integer DEFAULT 0 NOT NULL,
        reaped boolean DEFAULT false NOT NULL,
        after_id uuid,
        retry_of uuid,
        created_by varchar(255) NOT NULL,
        created_at timestamptz DEFAULT corral_now() NOT NULL,
        started_at timestamptz,
        finished_at timestamptz,
        updated_at timestamptz DEFAULT corral_now() NOT NULL,
        deadline_at timestamptz,
        dismissed_at timestamptz,
        dismissed_by varchar(255),
        rev bigint DEFAULT 0 NOT NULL,
        CONSTRAINT operations_pkey PRIMARY KEY (id),
        CONSTRAINT operations_state_check CHECK (
            state IN ('queued', 'running', 'waiting_on_nodes', 'completed', 'completed_with_pending',
            'failed', 'cancelled', 'paused', 'superseded')),
        CONSTRAINT operations_kind_check CHECK (
            kind IN ('backend_install', 'backend_upgrade', 'backend_reinstall', 'backend_rollback', 'backend_delete')),
        CONSTRAINT operations_percent_check CHECK (percent >= 0 AND percent <= 100),
        CONSTRAINT operations_after_id_fkey FOREIGN KEY(after_id) REFERENCES operations (id) ON DELETE SET NULL
    )
    """,
    """
    CREATE UNIQUE INDEX operations_active_scope_idx ON operations (scope_key)
     WHERE state IN ('queued', 'running', 'waiting_on_nodes') AND after_id IS NULL
    """,
    "CREATE INDEX operations_after_idx ON operations (after_id) WHERE after_id IS NOT NULL",
    "CREATE INDEX operations_due_idx ON operations (due_at) WHERE due_at IS NOT NULL",
    "CREATE INDEX operations_finished_idx ON operations (finished_at, id)",
    """
    CREATE INDEX operations_listed_idx ON operations (created_at)
     WHERE state IN ('queued', 'running', 'waiting_on_nodes', 'completed_with_pending', 'failed',
           'paused') AND dismissed_at IS NULL
    """,
    """
    CREATE TABLE operation_targets (
        operation_id uuid NOT NULL,
        node uuid NOT NULL,
        node_name varchar(255) NOT NULL,
        wave integer DEFAULT 0 NOT NULL,
        state varchar(16) NOT NULL,
        phase varchar(32),
        percent double precision DEFAULT 0 NOT NULL,
        current_bytes bigint,
        total_bytes bigint,
        file_name varchar(255) DEFAULT '' NOT NULL,
        attempt integer DEFAULT 0 NOT NULL,
        job_id uuid NOT NULL,
        seq bigint DEFAULT 0 NOT NULL,
        generation bigint DEFAULT 0 NOT NULL,
        build jsonb,
        previous jsonb,
        error_code varchar(64),
        error_text text,
        stop_wanted boolean DEFAULT false NOT NULL,
        keeps_partial boolean DEFAULT false NOT NULL,
        is_rollback boolean DEFAULT false NOT NULL,
        contacted_at timestamptz,
        heard_at timestamptz,
        finished_at timestamptz,
        CONSTRAINT operation_targets_pkey PRIMARY KEY (operation_id, node),
        CONSTRAINT operation_targets_state_check CHECK (
            state IN ('queued', 'working', 'unconfirmed', 'success', 'error', 'cancelled',
            'superseded', 'skipped')),
        CONSTRAINT operation_targets_percent_check CHECK (percent >= 0 AND percent <= 100),
        CONSTRAINT operation_targets_operation_id_fkey
            FOREIGN KEY (operation_id) REFERENCES operations (id) ON DELETE CASCADE,
        CONSTRAINT operation_targets_job_id_key UNIQUE (job_id)
    )
    """,
    """
    CREATE INDEX operation_targets_open_idx ON operation_targets (node)
     WHERE state IN ('queued', 'working', 'unconfirmed') OR stop_wanted
    """,
    """
    CREATE TABLE operation_events (
        id bigint GENERATED ALWAYS AS IDENTITY,
        operation_id uuid NOT NULL,
        at timestamptz DEFAULT corral_now() NOT NULL,
        node_name varchar(255) DEFAULT '' NOT NULL,
        level varchar(8) NOT NULL,
        text text NOT NULL,
        CONSTRAINT operation_events_pkey PRIMARY KEY (id),
        CONSTRAINT operation_events_level_check CHECK (level IN ('info', 'warning', 'error')),
        CONSTRAINT operation_events_operation_id_fkey
            FOREIGN KEY (operation_id) REFERENCES operations (id) ON DELETE CASCADE
    )
    """,
    "CREATE INDEX operation_events_operation_idx ON operation_events (operation_id, id)",
    """
    CREATE TABLE assignments (
        node_id uuid NOT NULL,
        backend varchar(255) NOT NULL,
        desired varchar(16) NOT NULL,
        generation bigint DEFAULT nextval('assignment_generations'::regclass) NOT NULL,
        operation_id uuid NOT NULL,
        build jsonb,
        state varchar(8) DEFAULT 'open'::character varying NOT NULL,
        attempts integer DEFAULT 0 NOT NULL,
        next_retry_at timestamptz,
        error_code varchar(64),
        error_text text,
        created_at timestamptz DEFAULT corral_now() NOT NULL,
        updated_at timestamptz DEFAULT corral_now() NOT NULL,
        CONSTRAINT assignments_pkey PRIMARY KEY (node_id, backend),
        CONSTRAINT assignments_desired_check CHECK (
            desired IN ('present', 'replaced', 'absent', 'rolled_back')),
        CONSTRAINT assignments_state_check CHECK (state IN ('open', 'dead')),
        CONSTRAINT assignments_backend_check CHECK (backend <> ''),
        CONSTRAINT assignments_node_id_fkey FOREIGN KEY(node_id) REFERENCES nodes (id) ON DELETE CASCADE,
        CONSTRAINT assignments_operation_id_fkey
            FOREIGN KEY (operation_id) REFERENCES operations (id) ON DELETE CASCADE
    )
    """,
    "CREATE INDEX assignments_operation_id_idx ON assignments (operation_id)",
    """
    CREATE TABLE installed_backends (
        node_id uuid NOT NULL,
        name varchar(255) NOT NULL,
        meta varchar(255) DEFAULT '' NOT NULL,
        alias varchar(255) DEFAULT '' NOT NULL,
        version varchar(128) DEFAULT '' NOT NULL,
        digest varchar(128) DEFAULT '' NOT NULL,
        uri text DEFAULT '' NOT NULL,
        gallery varchar(255) DEFAULT '' NOT NULL,
        generation bigint DEFAULT 0 NOT NULL,
        size_bytes bigint,
        previous_version varchar(128) DEFAULT '' NOT NULL,
        is_system boolean DEFAULT false NOT NULL,
        installed_at timestamptz,
        reported_at timestamptz DEFAULT corral_now() NOT NULL,
        CONSTRAINT installed_backends_pkey PRIMARY KEY (node_id, name),
        CONSTRAINT installed_backends_node_id_fkey FOREIGN KEY(node_id) REFERENCES nodes (id) ON DELETE CASCADE
    )
    """,
    """
    CREATE TABLE gallery_copies (
        name varchar(255) NOT NULL,
        url text NOT NULL,
        content text DEFAULT '' NOT NULL,
        sha256 varchar(64) DEFAULT '' NOT NULL,
        etag text DEFAULT '' NOT NULL,
        fetched_at timestamptz,
        tried_at timestamptz,
        problem text DEFAULT '' NOT NULL,
        CONSTRAINT gallery_copies_pkey PRIMARY KEY (name)
    )
    """,
    """
    CREATE TABLE gallery_digests (
        uri text NOT NULL,
        digest varchar(128) NOT NULL,
        checked_at timestamptz DEFAULT corral_now() NOT NULL,
        CONSTRAINT gallery_digests_pkey PRIMARY KEY (uri)
    )
    """,
    # An illegal transition raises and changes nothing; a test compares this with `domain.operation.TRANSITIONS`.
    """
    CREATE FUNCTION operations_guard() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF NEW.state <> OLD.state AND NOT (CASE OLD.state
            WHEN 'queued' THEN NEW.state IN ('running', 'failed', 'cancelled', 'paused', 'superseded')
            WHEN 'running' THEN true
            WHEN 'waiting_on_nodes' THEN true
            WHEN 'completed_with_pending' THEN NEW.state IN ('completed', 'failed', 'cancelled', 'superseded')
            WHEN 'paused' THEN NEW.state IN ('queued', 'cancelled', 'superseded', 'failed')
            WHEN 'failed' THEN OLD.reaped AND NEW.state = 'completed'
            ELSE false
        END) THEN
            RAISE EXCEPTION 'an operation that is % cannot become %', OLD.state, NEW.state USING ERRCODE = 'CO001';
        END IF;
        IF OLD.state IN ('completed', 'cancelled', 'superseded')
           AND (NEW.error_code, NEW.error_text, NEW.finished_at)
               IS DISTINCT FROM (OLD.error_code, OLD.error_text, OLD.finished_at) THEN
            RAISE EXCEPTION 'an operation that is % is settled', OLD.state USING ERRCODE = 'CO001';
        END IF;
        IF NEW.kind <> OLD.kind THEN
            RAISE EXCEPTION 'the kind of an operation never changes' USING ERRCODE = 'CO001';
        END IF;
        -- Who works on it, and until when, is nothing that anybody watches.
        IF (to_jsonb(NEW) - '{owner,lease_until,fence,due_at}'::text[])
           <> (to_jsonb(OLD) - '{owner,lease_until,fence,due_at}'::text[]) THEN
            NEW.rev := OLD.rev + 1;
            NEW.updated_at := corral_now();
        END IF;
        RETURN NEW;
    END $$
    """,
    """
    CREATE TRIGGER operations_guard BEFORE UPDATE ON operations FOR EACH ROW EXECUTE FUNCTION operations_guard()
    """,
    # However an operation ends, the one that waits behind it is promoted, and the scope index covers that one then.
    """
    CREATE FUNCTION operations_move_up() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        UPDATE operations
           SET after_id = NEW.after_id,
               due_at = CASE WHEN NEW.after_id IS NULL THEN corral_now() ELSE due_at END
         WHERE after_id = NEW.id;
        RETURN NULL;
    END $$
    """,
    """
    CREATE TRIGGER operations_move_up AFTER UPDATE OF state ON operations FOR EACH ROW
      WHEN (OLD.state IN ('queued', 'running', 'waiting_on_nodes')
            AND NEW.state NOT IN ('queued', 'running', 'waiting_on_nodes'))
      EXECUTE FUNCTION operations_move_up()
    """,
    # An agent node runs no engines, so a row that requests one there would be retried for ever.
    """
    CREATE FUNCTION assignments_guard() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF EXISTS (SELECT 1 FROM nodes WHERE id = NEW.node_id AND node_type <> 'backend') THEN
            RAISE EXCEPTION 'an agent node gets no backend' USING ERRCODE = '23514';
        END IF;
        RETURN NEW;
    END $$
    """,
    """
    CREATE TRIGGER assignments_guard BEFORE INSERT OR UPDATE OF node_id ON assignments
      FOR EACH ROW EXECUTE FUNCTION assignments_guard()
    """,
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
