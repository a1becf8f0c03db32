"""Copies that have to go (of deleted models, or of one node) go from every node that has them, also much later.

Every frontend runs it; a debt is claimed by one of them. Guarantee: a debt goes only when its worker has said that the
files are gone; contents that other models use stay, which the worker sees to. A node that is away is not asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog

from corral.bus.messages import DeleteModel
from corral.bus.subjects import MODEL_DELETE
from corral.domain.cluster import Event
from corral.domain.errors import CorralError
from corral.domain.node import NodeId
from corral.domain.operation import OperationId
from corral.loading.pace import Pace
from corral.ports.bus import Bus
from corral.runtime.guard import Failed, attempt
from corral.runtime.tasks import Tasks
from corral.store import assignments as assignment_store
from corral.store import staged as store
from corral.store.database import Database, as_uuid
from corral.store.staged import Removal

log = structlog.get_logger(__name__)

LEASE_S = 120.0
AT_A_TIME = 64
INTERVAL_S = 2.0
FIRST_PAUSE_S = 5.0
LONGEST_PAUSE_S = 600.0
# An operation that removes the copies of one node writes no event of its own.
_CALLS = ("replica.removed", "model.changed", "operation.created")


class Remover:
    def __init__(
        self,
        database: Database,
        bus: Bus,
        *,
        leaves_to_peers: Callable[[], bool] = lambda: False,
        on_crash: Callable[[BaseException], None] | None = None,
    ) -> None:
        self._leaves_to_peers = leaves_to_peers
        self._database = database
        self._bus = bus
        self._tasks = Tasks("remover", on_crash)
        self._pace = Pace()

    async def tick(self) -> int:
        """Ask for what is due; how many debts that are."""
        free = AT_A_TIME - len(self._tasks)
        if free <= 0 or self._leaves_to_peers() or not self._pace.is_due():
            return 0
        async with self._database.transaction() as tx:
            due = await store.claim_removals(tx, limit=free, lease_s=LEASE_S)
        self._pace.looked(found=bool(due) or len(self._tasks) > 0)
        for removal in due:
            self._tasks.start(self._remove(removal), name=f"remove {removal.model}")
        return len(due)

    async def idle(self) -> None:
        """Return when nobody is being waited for."""
        await self._tasks.join()

    async def close(self) -> None:
        await self._tasks.close()

    async def follow(self, events: Sequence[Event]) -> bool:
        """Nodes that are back are asked now. True if there may be something to do."""
        back = {as_uuid(event.key) for event in events if event.kind in ("node.alive", "node.bus_changed")}
        known = sorted(NodeId(node) for node in back if node is not None)
        if known:
            async with self._database.transaction() as tx:
                await store.hasten_removals(tx, known)
        is_called = bool(known) or any(event.kind in _CALLS for event in events)
        if is_called:
            self._pace.wake()
        return is_called

    async def _remove(self, removal: Removal) -> None:
        problem = ""
        try:
            await self._bus.request(MODEL_DELETE, DeleteModel(model=removal.model), node=removal.node_id)
        except CorralError as error:
            problem = error.message
        outcome = await attempt(lambda: self._write(removal, problem))
        if isinstance(outcome, Failed):
            # The claim runs out, and it is asked again: removing what is gone changes nothing.
            log.warning("could not write what became of a removal", model=removal.model, error=outcome.sentence)

    async def _write(self, removal: Removal, problem: str) -> None:
        async with self._database.transaction() as tx:
            if problem:
                pause_s = min(FIRST_PAUSE_S * float(2 ** min(removal.attempts - 1, 7)), LONGEST_PAUSE_S)
                await store.put_off_removal(tx, removal, problem, pause_s)
                return
            if removal.operation_id is not None:
                # Operations first: whoever holds one may be looking at this very debt.
                await assignment_store.wake_operations(tx, [OperationId(removal.operation_id)])
            await store.end_removal(tx, removal)
