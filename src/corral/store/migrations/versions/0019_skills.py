"""Skills with their files, and the git repositories that they come from."""

from __future__ import annotations

from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

STATEMENTS = (
    "ALTER TABLE operations DROP CONSTRAINT operations_kind_check",
    """
    ALTER TABLE operations ADD CONSTRAINT operations_kind_check CHECK (kind IN (
        'backend_install', 'backend_upgrade', 'backend_reinstall', 'backend_rollback', 'backend_delete',
        'model_install', 'model_load', 'model_stage', 'model_unload', 'model_delete',
        'run_agent_turn', 'run_task', 'run_chat', 'run_batch', 'run_skill_sync'))
    """,
    """
    CREATE TABLE skill_repos (
        id uuid NOT NULL,
        owner varchar(64) NOT NULL,
        user_id uuid,
        owner_key_id uuid,
        url varchar(500) NOT NULL,
        branch varchar(200) DEFAULT '' NOT NULL,
        is_enabled boolean DEFAULT true NOT NULL,
        is_shared boolean DEFAULT false NOT NULL,
        commit varchar(64) DEFAULT '' NOT NULL,
        synced_at timestamptz,
        problem text DEFAULT '' NOT NULL,
        run_id uuid,
        created_at timestamptz DEFAULT corral_now() NOT NULL,
        created_by varchar(255) NOT NULL,
        updated_at timestamptz DEFAULT corral_now() NOT NULL,
        CONSTRAINT skill_repos_pkey PRIMARY KEY (id),
        CONSTRAINT skill_repos_owner_url_branch_key UNIQUE (owner, url, branch),
        CONSTRAINT skill_repos_owner_check CHECK (num_nonnulls(user_id, owner_key_id) = 1),
        CONSTRAINT skill_repos_user_id_fkey FOREIGN KEY(user_id) REFERENCES users (id) ON DELETE CASCADE,
        CONSTRAINT skill_repos_owner_key_id_fkey FOREIGN KEY(owner_key_id) REFERENCES api_keys (id) ON DELETE CASCADE
    )
    """,
    "CREATE INDEX skill_repos_user_id_idx ON skill_repos (user_id)",
    "CREATE INDEX skill_repos_owner_key_id_idx ON skill_repos (owner_key_id)",
    """
    CREATE TABLE skills (
        id uuid NOT NULL,
        owner varchar(64) NOT NULL,
        user_id uuid,
        owner_key_id uuid,
        name varchar(64) NOT NULL,
        description varchar(1024) NOT NULL,
        front_matter jsonb NOT NULL,
        document text NOT NULL,
        sha256 varchar(64) NOT NULL,
        document_bytes integer NOT NULL,
        is_shared boolean DEFAULT false NOT NULL,
        repo_id uuid,
        commit varchar(64) DEFAULT '' NOT NULL,
        revision integer DEFAULT 1 NOT NULL,
        created_at timestamptz DEFAULT corral_now() NOT NULL,
        created_by varchar(255) NOT NULL,
        updated_at timestamptz DEFAULT corral_now() NOT NULL,
        CONSTRAINT skills_pkey PRIMARY KEY (id),
        CONSTRAINT skills_owner_name_key UNIQUE (owner, name),
        CONSTRAINT skills_owner_check CHECK (num_nonnulls(user_id, owner_key_id) = 1),
        CONSTRAINT skills_user_id_fkey FOREIGN KEY(user_id) REFERENCES users (id) ON DELETE CASCADE,
        CONSTRAINT skills_owner_key_id_fkey FOREIGN KEY(owner_key_id) REFERENCES api_keys (id) ON DELETE CASCADE,
        CONSTRAINT skills_repo_id_fkey FOREIGN KEY(repo_id) REFERENCES skill_repos (id) ON DELETE CASCADE
    )
    """,
    "CREATE INDEX skills_user_id_idx ON skills (user_id)",
    "CREATE INDEX skills_owner_key_id_idx ON skills (owner_key_id)",
    "CREATE INDEX skills_repo_id_idx ON skills (repo_id)",
    "CREATE UNIQUE INDEX skills_shared_name_idx ON skills (name) WHERE is_shared",
    """
    CREATE TABLE skill_files (
        skill_id uuid NOT NULL,
        path varchar(120) NOT NULL,
        sha256 varchar(64) NOT NULL,
        size_bytes integer NOT NULL,
        content bytea NOT NULL,
        CONSTRAINT skill_files_pkey PRIMARY KEY (skill_id, path),
        CONSTRAINT skill_files_skill_id_fkey FOREIGN KEY(skill_id) REFERENCES skills (id) ON DELETE CASCADE
    )
    """,
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
