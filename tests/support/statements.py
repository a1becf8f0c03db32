"""Shows tests and benchmarks the statements that go to PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import event

from corral.store.database import Database


def count_statements(database: Database, on_statement: Callable[[str], None]) -> None:
    """Call `on_statement` for every statement that goes to the server."""

    @event.listens_for(database.engine.sync_engine, "before_cursor_execute")
    def _on_statement(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        on_statement(statement)
