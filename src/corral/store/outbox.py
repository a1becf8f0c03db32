"""The outbox: every change appends an event here in its own transaction.

Readers resume from a `Position`. Numbers become visible out of order, so a reader stops before the oldest
transaction still running: everything it returns is final, and nothing older can appear later. Limit: a transaction that
has written and stays open, in any database of the server, holds up all later events; `read_held_up` tells which.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import CTE, ColumnElement, insert, literal, select, text

from corral.domain.cluster import OutboxEvent, OutboxPosition
from corral.store.database import Transaction
from corral.store.schema import outbox

READ_LIMIT = 500


async def append(tx: Transaction, kind: str, key: str, data: dict[str, Any] | None = None) -> None:
    tx.wrote_events = True
    await tx.execute(insert(outbox).values(kind=kind, key=key, data=data or {}))


async def append_many(tx: Transaction, kind: str, rows: list[tuple[str, dict[str, Any]]]) -> None:
    if not rows:
        return
    tx.wrote_events = True
    await tx.execute(insert(outbox), [{"kind": kind, "key": key, "data": data} for key, data in rows])


def make_part(tx: Transaction, kind: str, key: ColumnElement[Any], data: ColumnElement[Any]) -> CTE:
    """Return the part of a statement that appends an event for each row which another part of it, that `key` and `data`
    are columns of, returns."""
    tx.wrote_events = True
    event = select(literal(kind), key, data)
    return insert(outbox).from_select(["kind", "key", "data"], event).cte("event")


_READ = text("""
    SELECT "transaction"::text AS transaction, number, kind, key, data, at
      FROM outbox
     WHERE ("transaction", number) > (CAST(CAST(:transaction AS text) AS xid8), :number)
       AND "transaction" < pg_snapshot_xmin(pg_current_snapshot())
     ORDER BY outbox."transaction", number
     LIMIT :limit
""")


async def read(tx: Transaction, after: OutboxPosition, limit: int = READ_LIMIT) -> list[OutboxEvent]:
    """Return the next events after a position, oldest first."""
    rows = await tx.execute(_READ, {"transaction": str(after.transaction), "number": after.number, "limit": limit})
    return [_to_event(row) for row in rows]


def _to_event(row: Any) -> OutboxEvent:
    return OutboxEvent(
        position=OutboxPosition(int(row.transaction), row.number),
        kind=row.kind,
        key=row.key,
        at=row.at,
        data=row.data if isinstance(row.data, dict) else json.loads(row.data),
    )


# Events that were committed and that `read` may not return yet. Those of a moment ago wait only for each other.
_HELD_UP = text("""
    WITH held AS MATERIALIZED (
        SELECT "transaction"::text AS transaction, number, kind, key, data, at
          FROM outbox
         WHERE "transaction" >= pg_snapshot_xmin(pg_current_snapshot())
           AND at < corral_now() - make_interval(secs => :young_s)
    )
    SELECT held.*, age.oldest_s
      FROM (SELECT extract(epoch FROM corral_now() - min(at))::float AS oldest_s FROM held) AS age
      LEFT JOIN (SELECT * FROM held WHERE kind LIKE ANY(:kinds) ORDER BY number DESC LIMIT :limit) AS held ON TRUE
     ORDER BY held.number
""")
_YOUNG_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldUpEvents:
    """Committed events of the outbox that readers cannot see yet, because an older transaction is open.

    With the age of the oldest.
    """

    oldest_s: float
    events: tuple[OutboxEvent, ...]


async def read_held_up(tx: Transaction, prefixes: Collection[str]) -> HeldUpEvents:
    """Return the newest held-up events whose kind begins with one of these prefixes."""
    kinds = [f"{prefix}%" for prefix in prefixes]
    rows = list(await tx.execute(_HELD_UP, {"young_s": _YOUNG_S, "kinds": kinds, "limit": READ_LIMIT}))
    events = tuple(_to_event(row) for row in rows if row.number is not None)
    return HeldUpEvents(oldest_s=rows[0].oldest_s or 0.0, events=events)


_HEAD = text("""
    SELECT (pg_snapshot_xmin(pg_current_snapshot())::text::numeric - 1)::text AS transaction,
           (SELECT h."transaction"::text FROM outbox_horizon h) AS pruned_transaction,
           (SELECT h.number FROM outbox_horizon h) AS pruned_number
""")
# Larger than any number a sequence will give, smaller than bigint's limit: "after everything of this transaction".
_LAST_NUMBER = 10**18 - 1


@dataclass(frozen=True, slots=True)
class OutboxBounds:
    """Bounds of what can be read of the event outbox: final up to `head`, pruned up to `horizon`."""

    head: OutboxPosition
    horizon: OutboxPosition

    def can_resume(self, after: OutboxPosition) -> bool:
        """Return whether a reader can resume: a position before the horizon has lost events; one beyond the head is
        from another database."""
        return self.horizon <= after <= self.head


# Both of one moment: events that are not pruned by then are among those read.
_READ_WITH_BOUNDS = text(f"""
    WITH events AS ({_READ.text}), bounds AS ({_HEAD.text})
    SELECT b.transaction AS head, b.pruned_transaction, b.pruned_number, e.*
      FROM bounds b LEFT JOIN events e ON TRUE
     ORDER BY CAST(CAST(e.transaction AS text) AS xid8), e.number
""")  # noqa: S608 - no value in it


async def read_with_bounds(tx: Transaction, after: OutboxPosition) -> tuple[list[OutboxEvent], OutboxBounds]:
    """Return the next events after a position, oldest first, and the bounds of what can be read."""
    parameters = {"transaction": str(after.transaction), "number": after.number, "limit": READ_LIMIT}
    rows = list(await tx.execute(_READ_WITH_BOUNDS, parameters))
    return [_to_event(row) for row in rows if row.number is not None], _to_bounds(rows[0].head, rows[0])


def _to_bounds(head: str, row: Any) -> OutboxBounds:
    return OutboxBounds(
        head=OutboxPosition(int(head), _LAST_NUMBER),
        horizon=OutboxPosition(int(row.pruned_transaction), row.pruned_number),
    )


async def read_bounds(tx: Transaction) -> OutboxBounds:
    row = (await tx.execute(_HEAD)).one()
    return _to_bounds(row.transaction, row)


_PRUNE = text("""
    WITH gone AS (
        DELETE FROM outbox
         WHERE at < corral_now() - make_interval(secs => :retention_s)
           AND "transaction" < pg_snapshot_xmin(pg_current_snapshot())
        RETURNING "transaction", number
    ), last AS (
        SELECT "transaction", number FROM gone ORDER BY "transaction" DESC, number DESC LIMIT 1
    ), moved AS (
        UPDATE outbox_horizon h
           SET "transaction" = last."transaction", number = last.number
          FROM last
         WHERE (h."transaction", h.number) < (last."transaction", last.number)
    )
    SELECT count(*) FROM gone
""")


async def prune(tx: Transaction, retention_s: float) -> int:
    """Delete events older than the retention and advance the horizon."""
    return int((await tx.execute(_PRUNE, {"retention_s": retention_s})).scalar_one())
