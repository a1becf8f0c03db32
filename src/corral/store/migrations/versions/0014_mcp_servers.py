"""MCP servers that admins declare; one shared agent of each name; runs by the run that started them."""

from __future__ import annotations

from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

STATEMENTS = (
    """
    CREATE TABLE mcp_servers (
        name varchar(50) NOT NULL,
        config jsonb NOT NULL,
        created_by varchar(255) NOT NULL,
        created_at timestamptz DEFAULT corral_now() NOT NULL,
        updated_at timestamptz DEFAULT corral_now() NOT NULL,
        CONSTRAINT mcp_servers_pkey PRIMARY KEY (name)
    )
    """,
    "CREATE UNIQUE INDEX agents_shared_name_idx ON agents (name) WHERE is_shared",
    "CREATE INDEX runs_parent_id_idx ON runs (parent_id) WHERE parent_id IS NOT NULL",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
