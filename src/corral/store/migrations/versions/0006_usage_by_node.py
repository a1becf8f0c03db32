"""Record usage by node as well, and when each key was last used."""

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
    # Lifts our own statement timeout, which is meant for short statements.
    "SET LOCAL statement_timeout = 0",
)
NEW_KEY = """
    ALTER TABLE usage
        DROP CONSTRAINT usage_pkey,
        ADD CONSTRAINT usage_pkey PRIMARY KEY (hour, key_id, model, call, node)
"""
# As exact as usage records are: the end of the last hour in which the key was used. The current hour has not ended.
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
        # The driver has its own limit, which can only be changed there.
        op.get_bind().connection.run_async(lambda driver, long=long: driver.execute(long, timeout=LONG_LIMIT_S))
