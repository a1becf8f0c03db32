"""Private git repositories of skills that are synced by themselves, and the languages of collections."""

from __future__ import annotations

from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None

STATEMENTS = (
    """
    ALTER TABLE skill_repos
        ADD COLUMN username varchar(100) DEFAULT '' NOT NULL,
        ADD COLUMN secret varchar(200) DEFAULT '' NOT NULL,
        ADD COLUMN sync_interval_s double precision,
        ADD COLUMN next_sync_at timestamptz
    """,
    "CREATE INDEX skill_repos_next_sync_at_idx ON skill_repos (next_sync_at)",
    "ALTER TABLE collections ADD COLUMN language varchar(63) DEFAULT 'auto' NOT NULL",
    "ALTER TABLE collection_entries ADD COLUMN language varchar(63) DEFAULT '' NOT NULL",
    # Chunks of before are in English, and so are their words.
    "UPDATE collection_entries SET language = 'english' WHERE ready_version IS NOT NULL",
    # The table is there only where the extension is.
    """
    DO $$
    BEGIN
        IF to_regclass('collection_chunks') IS NOT NULL THEN
            ALTER TABLE collection_chunks ADD COLUMN language text DEFAULT 'english' NOT NULL;
            ALTER TABLE collection_chunks ALTER COLUMN words DROP EXPRESSION;
        END IF;
    END
    $$
    """,
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
