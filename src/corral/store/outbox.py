"""The outbox: every change leaves an event here in its own transaction.

Readers resume from a `Position`. Numbers become visible out of order, so a reader stops before the oldest
transaction still running: everything it returns is final, and nothing older can appear later.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from sqlalchemy import insert, text

from corral.domain.cluster import Event, Position
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


_READ = text("""
    SELECT "transaction"::text AS transaction, number, kind, key, data, at
      FROM outbox
     WHERE ("transaction", number) > (CAST(CAST(:transaction AS text) AS xid8), :number)
       AND "transaction" < pg_snapshot_xmin(pg_current_snapshot())
     ORDER BY outbox."transaction", number
     LIMIT :limit
""")


async def read(tx: Transaction, after: Position, limit: int = READ_LIMIT) -> list[Event]:
    """The next events after a position, oldest first."""
    rows = await tx.execute(_READ, {"transaction": str(after.transaction), "number": after.number, "limit": limit})
    return [
        Event(
            position=Position(int(row.transaction), row.number),
            kind=row.kind,
            key=row.key,
            at=row.at,
            data=row.data if isinstance(row.data, dict) else json.loads(row.data),
        )
        for row in rows
    ]


_HEAD = text("""
    SELECT (pg_snapshot_xmin(pg_current_snapshot())::text::numeric - 1)::text AS transaction,
           (SELECT h."transaction"::text FROM outbox_horizon h) AS pruned_transaction,
           (SELECT h.number FROM outbox_horizon h) AS pruned_number
""")
# Larger than any number a sequence will give, smaller than bigint's limit: "after everything of this transaction".
_LAST_NUMBER = 10**18 - 1


@dataclass(frozen=True, slots=True)
class Bounds:
    """`head`: everything up to here is final and visible. `horizon`: everything up to here has been pruned."""

    head: Position
    horizon: Position

    def can_resume(self, after: Position) -> bool:
        """A place before the horizon has lost events; one beyond the head is from another database."""
        return self.horizon <= after <= self.head


async def bounds(tx: Transaction) -> Bounds:
    row = (await tx.execute(_HEAD)).one()
    return Bounds(
        head=Position(int(row.transaction), _LAST_NUMBER),
        horizon=Position(int(row.pruned_transaction), row.pruned_number),
    )


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
    """Delete events older than the retention and move the horizon along."""
    return int((await tx.execute(_PRUNE, {"retention_s": retention_s})).scalar_one())
