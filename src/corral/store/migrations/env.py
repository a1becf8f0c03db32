"""Alembic's entry: the connection and the lock come from `store/migrate.py`."""

from __future__ import annotations

from alembic import context

from corral.store.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
