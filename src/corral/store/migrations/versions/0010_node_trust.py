"""Record what an admin has approved of a node: its labels, the address it registered from, and its bus keys."""

from __future__ import annotations

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

STATEMENTS = (
    """
    ALTER TABLE nodes
        ADD COLUMN seen_address varchar(255) NOT NULL DEFAULT '',
        ADD COLUMN bus_joined_at timestamptz,
        ADD COLUMN approved_labels jsonb NOT NULL DEFAULT '{}'::jsonb
    """,
    # Nodes that were approved before labels needed an approval keep their labels.
    """
    UPDATE nodes n SET bus_joined_at = n.approved_at,
           approved_labels = COALESCE((SELECT jsonb_object_agg(l.key, l.value) FROM node_labels l
                                        WHERE l.node_id = n.id AND l.source = 'worker'), '{}'::jsonb)
     WHERE n.approved_at IS NOT NULL
    """,
    # Labels that the machine itself reports need no approval.
    """
    DELETE FROM node_labels
     WHERE source = 'admin' AND key IN ('node.name', 'node.replica-slots', 'gpu.vendor', 'gpu.vram')
    """,
    """
    CREATE TABLE bus_keys (
        public_key varchar(64) NOT NULL,
        node_id uuid NOT NULL,
        expires_at timestamptz NOT NULL,
        CONSTRAINT bus_keys_pkey PRIMARY KEY (public_key),
        CONSTRAINT bus_keys_node_id_fkey FOREIGN KEY(node_id) REFERENCES nodes (id) ON DELETE CASCADE
    )
    """,
    "CREATE INDEX bus_keys_node_id_idx ON bus_keys (node_id)",
    # Tokens that frontends of the previous version have issued live for 30 days at most.
    """
    INSERT INTO bus_keys (public_key, node_id, expires_at)
    SELECT bus_public_key, id, corral_now() + interval '30 days' FROM nodes
     WHERE bus_public_key IS NOT NULL AND approved_at IS NOT NULL
     ORDER BY approved_at
    ON CONFLICT DO NOTHING
    """,
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
