"""Usage is kept by node as well, and a key knows when it was last used."""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

# A column with a constant default is added without touching a row; the index of the new key is built from all of them.
STATEMENTS = (
    "ALTER TABLE api_keys ADD COLUMN last_used_at timestamptz",
    "ALTER TABLE usage ADD COLUMN node varchar(255) DEFAULT '' NOT NULL",
    # Ours is meant for statements that are short.
    "SET LOCAL statement_timeout = 0",
)
NEW_KEY = """
    ALTER TABLE usage
        DROP CONSTRAINT usage_pkey,
        ADD CONSTRAINT usage_pkey PRIMARY KEY (hour, key_id, model, call, node)
"""
# As exact as usage is: the end of the last hour in which it was used. An hour that is going on has not ended.
LAST_USED = """
    UPDATE api_keys k SET last_used_at = least(u.hour + interval '1 hour', corral_now())
      FROM (SELECT key_id, max(hour) AS hour FROM usage GROUP BY key_id) u
     WHERE u.key_id = CAST(k.id AS text)
"""
LONG_LIMIT_S = 3600.0


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
    for long in (NEW_KEY, LAST_USED):
        # The driver has a limit of its own, which only the driver can lift.
        op.get_bind().connection.run_async(lambda driver, long=long: driver.execute(long, timeout=LONG_LIMIT_S))
