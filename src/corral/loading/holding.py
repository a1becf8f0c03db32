"""How long a load may take, kept with its operation as `deadline_at` and pushed by whatever moves."""

from __future__ import annotations

from collections.abc import Collection

from corral.policy.loading import Hold, hold_until, pushed, pushed_for_engine
from corral.store import loads as store
from corral.store.database import Transaction


async def push(tx: Transaction, operation_ids: Collection[str], hold: Hold, *, engines: Collection[str] = ()) -> None:
    """Something of these has moved. `engines`: of those of them an engine starts now, and has its own budget. The
    caller has locked the operations."""
    until = {}
    for row in await store.read_holds(tx, operation_ids):
        moment = pushed(row.until or hold_until(row.began, hold), row.began, row.now, hold)
        if row.id in engines:
            moment = pushed_for_engine(moment, row.now, row.budget_s)
        if moment != row.until:
            until[row.id] = moment
    await store.write_holds(tx, until)
