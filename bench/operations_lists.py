"""How long the lists of operations take with a long record, against the same lists with a short one."""

from __future__ import annotations

import json
import time
from typing import Any

import aiohttp
import asyncpg
from sqlalchemy import event

from bench.cluster import BenchCluster
from bench.report import ReportRow, format_table, print_progress
from corral.store import operations as store
from corral.store.database import Database

ROWS = 10_000
FEW = 100
TARGETS = 3
# Failures that nobody has dismissed, in the live list.
LISTED, LISTED_TARGETS = 20, 50
CALLS = 300
WARM_UP = 30

_FILL = """
    WITH made AS (
        INSERT INTO operations (id, kind, subject, scope_key, request, state, message, percent, created_by, created_at,
                                started_at, finished_at, error_code, error_text)
        SELECT gen_random_uuid(), 'backend_install', 'engine-' || n, 'bench:' || $3 || n, $2::jsonb, $3,
               'On 3 nodes.', 100, 'bench', now() - n * interval '1 minute', now() - n * interval '1 minute',
               now() - n * interval '1 minute' + interval '30 s',
               CASE WHEN $3 = 'failed' THEN 'digest_mismatch' END, CASE WHEN $3 = 'failed' THEN 'Wrong digest.' END
          FROM generate_series(1, $1::int) AS n
        RETURNING id
    )
    INSERT INTO operation_targets (operation_id, node, node_name, state, percent, job_id, finished_at)
    SELECT made.id, gen_random_uuid(), 'node-' || t, $5, 100, gen_random_uuid(), now()
      FROM made, generate_series(1, $4::int) AS t
"""
_REQUEST = json.dumps({"kind": "backend_install", "backend": "engine"})


async def measure(running: BenchCluster, session: aiohttp.ClientSession, database: asyncpg.Connection) -> str:
    await database.execute("DELETE FROM operations")
    await database.execute(_FILL, LISTED, _REQUEST, "failed", LISTED_TARGETS, "error")
    await _fill(database, FEW)
    short = await _lists(running, session, f"record of {FEW}")
    await _fill(database, ROWS - FEW)
    long = await _lists(running, session, f"record of {ROWS:,}")
    shown = format_table(
        f"Lists, {CALLS} calls one after the other; {LISTED} failures of {LISTED_TARGETS} nodes in the live list",
        [long, short],
        ratio_of=tuple(long.values),
    )
    return shown + f"\nHow PostgreSQL reads a page of the record: {await _plan(running, database)}\n"


async def _fill(database: asyncpg.Connection, rows: int) -> None:
    await database.execute(_FILL, rows, _REQUEST, "completed", TARGETS, "success")
    await database.execute("ANALYZE operations, operation_targets")


async def _lists(running: BenchCluster, session: aiohttp.ClientSession, name: str) -> ReportRow:
    print_progress(f"lists: {name}")
    history = f"{running.url}/api/operations/history"
    deep = await _last_cursor(session, history)
    live = await _times(session, f"{running.url}/api/operations")
    first = await _times(session, history)
    last = await _times(session, f"{history}?before={deep}")
    return ReportRow(
        name,
        {
            "live p50 ms": _at(live, 0.5),
            "live p99 ms": _at(live, 0.99),
            "record p50 ms": _at(first, 0.5),
            "record p99 ms": _at(first, 0.99),
            "its last page p50 ms": _at(last, 0.5),
            "p99 ms": _at(last, 0.99),
        },
    )


async def _last_cursor(session: aiohttp.ClientSession, history: str) -> str:
    """Leaf through all of it, as a client does."""
    cursor, url = "", f"{history}?limit=50"
    while True:
        async with session.get(url) as answer:
            page: dict[str, Any] = await answer.json()
            assert answer.status == 200, page
        if not page.get("next") or not page["operations"]:
            return cursor
        before, cursor = cursor, page["next"]
        async with session.get(f"{history}?limit=50&before={cursor}") as answer:
            if not (await answer.json())["operations"]:
                return before
        url = f"{history}?limit=50&before={cursor}"


async def _times(session: aiohttp.ClientSession, url: str) -> list[float]:
    taken = []
    for number in range(CALLS + WARM_UP):
        began = time.monotonic()
        async with session.get(url) as answer:
            await answer.read()
            assert answer.status == 200, await answer.text()
        if number >= WARM_UP:
            taken.append(time.monotonic() - began)
    return sorted(taken)


def _at(taken: list[float], share: float) -> float:
    return taken[min(len(taken) - 1, int(len(taken) * share))] * 1000


async def _plan(running: BenchCluster, connection: asyncpg.Connection) -> str:
    """The plan of the very statement that the product sends."""
    sent: list[tuple[str, Any]] = []
    database = Database(running.database_url)

    @event.listens_for(database.engine.sync_engine, "before_cursor_execute")
    def _before(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        sent.append((statement, parameters))

    try:
        async with database.transaction() as tx:
            await store.list_history(tx)
    finally:
        await database.close()
    statement, parameters = sent[-1]
    rows = await connection.fetch(f"EXPLAIN {statement}", *parameters)
    lines = [str(row[0]).strip().partition("  (cost")[0] for row in rows]
    return "; ".join(line.removeprefix("->  ") for line in lines if "Filter" not in line)
