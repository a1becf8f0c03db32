"""Runs, agents, tasks, artifacts and webhooks; how many runs a node takes."""

from __future__ import annotations

from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

STATEMENTS = (
    "ALTER TABLE nodes ADD COLUMN max_runs integer",
    "ALTER TABLE operations DROP CONSTRAINT operations_kind_check",
    """
    ALTER TABLE operations ADD CONSTRAINT operations_kind_check CHECK (kind IN (
        'backend_install', 'backend_upgrade', 'backend_reinstall', 'backend_rollback', 'backend_delete',
        'model_install', 'model_load', 'model_stage', 'model_unload', 'model_delete',
        'run_agent_turn', 'run_task', 'run_chat', 'run_batch'))
    """,
    """
    CREATE TABLE agents (
        id uuid NOT NULL,
        owner varchar(64) NOT NULL,
        user_id uuid,
        owner_key_id uuid,
        name varchar(100) NOT NULL,
        is_shared boolean DEFAULT false NOT NULL,
        status varchar(16) DEFAULT 'active' NOT NULL,
        config jsonb NOT NULL,
        revision integer DEFAULT 1 NOT NULL,
        next_run_at timestamptz,
        last_run_at timestamptz,
        created_at timestamptz DEFAULT corral_now() NOT NULL,
        created_by varchar(255) NOT NULL,
        updated_at timestamptz DEFAULT corral_now() NOT NULL,
        CONSTRAINT agents_pkey PRIMARY KEY (id),
        CONSTRAINT agents_owner_name_key UNIQUE (owner, name),
        CONSTRAINT agents_status_check CHECK (status IN ('active', 'paused')),
        CONSTRAINT agents_owner_check CHECK (num_nonnulls(user_id, owner_key_id) = 1),
        CONSTRAINT agents_user_id_fkey FOREIGN KEY(user_id) REFERENCES users (id) ON DELETE CASCADE,
        CONSTRAINT agents_owner_key_id_fkey FOREIGN KEY(owner_key_id) REFERENCES api_keys (id) ON DELETE CASCADE
    )
    """,
    "CREATE INDEX agents_next_run_at_idx ON agents (next_run_at) WHERE next_run_at IS NOT NULL",
    "CREATE INDEX agents_owner_key_id_idx ON agents (owner_key_id)",
    "CREATE INDEX agents_user_id_idx ON agents (user_id)",
    """
    CREATE TABLE threads (
        id uuid NOT NULL,
        agent_id uuid NOT NULL,
        owner varchar(64) NOT NULL,
        user_id uuid,
        owner_key_id uuid,
        title varchar(200) DEFAULT '' NOT NULL,
        last_seq integer DEFAULT 0 NOT NULL,
        created_at timestamptz DEFAULT corral_now() NOT NULL,
        updated_at timestamptz DEFAULT corral_now() NOT NULL,
        CONSTRAINT threads_pkey PRIMARY KEY (id),
        CONSTRAINT threads_owner_check CHECK (num_nonnulls(user_id, owner_key_id) = 1),
        CONSTRAINT threads_agent_id_fkey FOREIGN KEY(agent_id) REFERENCES agents (id) ON DELETE CASCADE,
        CONSTRAINT threads_user_id_fkey FOREIGN KEY(user_id) REFERENCES users (id) ON DELETE CASCADE,
        CONSTRAINT threads_owner_key_id_fkey FOREIGN KEY(owner_key_id) REFERENCES api_keys (id) ON DELETE CASCADE
    )
    """,
    "CREATE INDEX threads_agent_id_updated_at_idx ON threads (agent_id, owner, updated_at)",
    "CREATE INDEX threads_owner_key_id_idx ON threads (owner_key_id)",
    "CREATE INDEX threads_user_id_idx ON threads (user_id)",
    """
    CREATE TABLE thread_messages (
        thread_id uuid NOT NULL,
        seq integer NOT NULL,
        role varchar(16) NOT NULL,
        message jsonb NOT NULL,
        run_id uuid,
        created_at timestamptz DEFAULT corral_now() NOT NULL,
        CONSTRAINT thread_messages_pkey PRIMARY KEY (thread_id, seq),
        CONSTRAINT thread_messages_role_check CHECK (role IN ('user', 'assistant', 'tool', 'system')),
        CONSTRAINT thread_messages_thread_id_fkey FOREIGN KEY(thread_id) REFERENCES threads (id) ON DELETE CASCADE
    )
    """,
    """
    CREATE TABLE tasks (
        id uuid NOT NULL,
        owner varchar(64) NOT NULL,
        user_id uuid,
        owner_key_id uuid,
        name varchar(100) NOT NULL,
        is_enabled boolean DEFAULT true NOT NULL,
        config jsonb NOT NULL,
        revision integer DEFAULT 1 NOT NULL,
        next_run_at timestamptz,
        last_run_at timestamptz,
        cron_note text DEFAULT '' NOT NULL,
        created_at timestamptz DEFAULT corral_now() NOT NULL,
        created_by varchar(255) NOT NULL,
        updated_at timestamptz DEFAULT corral_now() NOT NULL,
        CONSTRAINT tasks_pkey PRIMARY KEY (id),
        CONSTRAINT tasks_owner_name_key UNIQUE (owner, name),
        CONSTRAINT tasks_owner_check CHECK (num_nonnulls(user_id, owner_key_id) = 1),
        CONSTRAINT tasks_user_id_fkey FOREIGN KEY(user_id) REFERENCES users (id) ON DELETE CASCADE,
        CONSTRAINT tasks_owner_key_id_fkey FOREIGN KEY(owner_key_id) REFERENCES api_keys (id) ON DELETE CASCADE
    )
    """,
    "CREATE INDEX tasks_next_run_at_idx ON tasks (next_run_at) WHERE next_run_at IS NOT NULL",
    "CREATE INDEX tasks_owner_key_id_idx ON tasks (owner_key_id)",
    "CREATE INDEX tasks_user_id_idx ON tasks (user_id)",
    """
    CREATE TABLE runs (
        id uuid NOT NULL,
        kind varchar(32) NOT NULL,
        owner varchar(64) NOT NULL,
        user_id uuid,
        owner_key_id uuid,
        owner_name varchar(255) NOT NULL,
        key_id varchar(64) NOT NULL,
        subject varchar(255) NOT NULL,
        trigger varchar(16) NOT NULL,
        state varchar(20) DEFAULT 'queued' NOT NULL,
        request jsonb NOT NULL,
        budgets jsonb NOT NULL,
        selector jsonb DEFAULT '{}'::jsonb NOT NULL,
        session_key varchar(64) DEFAULT '' NOT NULL,
        agent_id uuid,
        task_id uuid,
        thread_id uuid,
        parent_id uuid,
        depth integer DEFAULT 0 NOT NULL,
        attempt integer DEFAULT 0 NOT NULL,
        job_id uuid,
        node uuid,
        node_name varchar(255) DEFAULT '' NOT NULL,
        silent_since timestamptz,
        last_seq bigint DEFAULT 0 NOT NULL,
        event_bytes bigint DEFAULT 0 NOT NULL,
        open_call jsonb,
        approvals jsonb DEFAULT '{}'::jsonb NOT NULL,
        usage jsonb DEFAULT '{}'::jsonb NOT NULL,
        outcome jsonb,
        result jsonb,
        error_code varchar(64),
        error_text text,
        message text DEFAULT '' NOT NULL,
        created_at timestamptz DEFAULT corral_now() NOT NULL,
        started_at timestamptz,
        finished_at timestamptz,
        CONSTRAINT runs_pkey PRIMARY KEY (id),
        CONSTRAINT runs_state_check CHECK (state IN (
            'queued', 'leased', 'running', 'waiting_approval', 'completed', 'failed', 'cancelled', 'lost')),
        CONSTRAINT runs_trigger_check CHECK (trigger IN ('api', 'manual', 'cron', 'agent', 'schedule')),
        CONSTRAINT runs_owner_check CHECK (num_nonnulls(user_id, owner_key_id) = 1),
        CONSTRAINT runs_id_fkey FOREIGN KEY(id) REFERENCES operations (id) ON DELETE CASCADE,
        CONSTRAINT runs_user_id_fkey FOREIGN KEY(user_id) REFERENCES users (id) ON DELETE CASCADE,
        CONSTRAINT runs_owner_key_id_fkey FOREIGN KEY(owner_key_id) REFERENCES api_keys (id) ON DELETE CASCADE,
        CONSTRAINT runs_agent_id_fkey FOREIGN KEY(agent_id) REFERENCES agents (id) ON DELETE SET NULL,
        CONSTRAINT runs_task_id_fkey FOREIGN KEY(task_id) REFERENCES tasks (id) ON DELETE SET NULL,
        CONSTRAINT runs_thread_id_fkey FOREIGN KEY(thread_id) REFERENCES threads (id) ON DELETE SET NULL,
        CONSTRAINT runs_job_id_key UNIQUE (job_id)
    )
    """,
    "CREATE INDEX runs_agent_id_idx ON runs (agent_id)",
    "CREATE INDEX runs_finished_at_idx ON runs (finished_at) WHERE finished_at IS NOT NULL",
    """
    CREATE INDEX runs_open_idx
        ON runs (node) WHERE state IN ('queued', 'leased', 'running', 'waiting_approval')
    """,
    "CREATE INDEX runs_owner_created_at_idx ON runs (owner, created_at)",
    "CREATE INDEX runs_owner_key_id_idx ON runs (owner_key_id)",
    "CREATE INDEX runs_session_key_idx ON runs (session_key, created_at) WHERE session_key <> ''",
    "CREATE INDEX runs_task_id_created_at_idx ON runs (task_id, created_at)",
    "CREATE INDEX runs_thread_id_idx ON runs (thread_id)",
    "CREATE INDEX runs_user_id_idx ON runs (user_id)",
    """
    CREATE TABLE run_events (
        run_id uuid NOT NULL,
        seq bigint NOT NULL,
        at timestamptz NOT NULL,
        type varchar(32) NOT NULL,
        tool varchar(200) DEFAULT '' NOT NULL,
        data jsonb DEFAULT '{}'::jsonb NOT NULL,
        CONSTRAINT run_events_pkey PRIMARY KEY (run_id, seq),
        CONSTRAINT run_events_run_id_fkey FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
    )
    """,
    """
    CREATE TABLE run_media (
        run_id uuid NOT NULL,
        position integer NOT NULL,
        kind varchar(8) NOT NULL,
        content_type varchar(100) NOT NULL,
        name varchar(255) DEFAULT '' NOT NULL,
        content bytea NOT NULL,
        CONSTRAINT run_media_pkey PRIMARY KEY (run_id, position),
        CONSTRAINT run_media_kind_check CHECK (kind IN ('image', 'video', 'audio', 'file')),
        CONSTRAINT run_media_run_id_fkey FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
    )
    """,
    """
    CREATE TABLE artifacts (
        id uuid NOT NULL,
        owner varchar(64) NOT NULL,
        user_id uuid,
        owner_key_id uuid,
        run_id uuid,
        kind varchar(32) NOT NULL,
        name varchar(255) NOT NULL,
        media_type varchar(100) DEFAULT '' NOT NULL,
        sha256 varchar(64) NOT NULL,
        size_bytes bigint NOT NULL,
        created_at timestamptz DEFAULT corral_now() NOT NULL,
        expires_at timestamptz,
        CONSTRAINT artifacts_pkey PRIMARY KEY (id),
        CONSTRAINT artifacts_owner_check CHECK (num_nonnulls(user_id, owner_key_id) = 1),
        CONSTRAINT artifacts_user_id_fkey FOREIGN KEY(user_id) REFERENCES users (id) ON DELETE CASCADE,
        CONSTRAINT artifacts_owner_key_id_fkey FOREIGN KEY(owner_key_id) REFERENCES api_keys (id) ON DELETE CASCADE,
        CONSTRAINT artifacts_run_id_fkey FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
    )
    """,
    "CREATE INDEX artifacts_owner_created_at_idx ON artifacts (owner, created_at)",
    "CREATE INDEX artifacts_owner_key_id_idx ON artifacts (owner_key_id)",
    "CREATE INDEX artifacts_run_id_idx ON artifacts (run_id)",
    "CREATE INDEX artifacts_sha256_idx ON artifacts (sha256)",
    "CREATE INDEX artifacts_user_id_idx ON artifacts (user_id)",
    """
    CREATE TABLE webhook_deliveries (
        id uuid NOT NULL,
        run_id uuid NOT NULL,
        position integer NOT NULL,
        url text NOT NULL,
        state varchar(16) DEFAULT 'pending' NOT NULL,
        attempts integer DEFAULT 0 NOT NULL,
        next_at timestamptz,
        last_status integer,
        last_error text DEFAULT '' NOT NULL,
        created_at timestamptz DEFAULT corral_now() NOT NULL,
        delivered_at timestamptz,
        CONSTRAINT webhook_deliveries_pkey PRIMARY KEY (id),
        CONSTRAINT webhook_deliveries_run_id_position_key UNIQUE (run_id, position),
        CONSTRAINT webhook_deliveries_state_check CHECK (state IN ('pending', 'delivered', 'failed')),
        CONSTRAINT webhook_deliveries_run_id_fkey FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
    )
    """,
    "CREATE INDEX webhook_deliveries_next_at_idx ON webhook_deliveries (next_at) WHERE state = 'pending'",
    "CREATE INDEX webhook_deliveries_run_id_idx ON webhook_deliveries (run_id)",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
