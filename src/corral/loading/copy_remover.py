"""Removes copies of model files (of deleted models, or of one node) from every node that has them, even much later.

Every frontend runs this loop; a pending removal is claimed by one of them. Guarantee: a pending removal is deleted
only when its worker has confirmed that the files are gone; contents that other models use stay, which the worker
ensures. A node that is away is not contacted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog

from corral.bus.messages import DeleteModel
from corral.bus.subjects import MODEL_DELETE
from corral.domain.cluster import OutboxEvent
from corral.domain.errors import CorralError
from corral.domain.node import NodeId
from corral.domain.operation import OperationId
from corral.loading.replica_stopper import PollPacer
from corral.ports.bus import Bus
from corral.runtime.attempt import AttemptFailure, attempt
from corral.runtime.tasks import TaskSet
from corral.store import assignments as assignment_store
from corral.store import holdings as store
from corral.store.database import Database, as_uuid
from corral.store.holdings import CopyRemoval

log = structlog.get_logger(__name__)

LEASE_S = 120.0
AT_A_TIME = 64
INTERVAL_S = 2.0
FIRST_PAUSE_S = 5.0
LONGEST_PAUSE_S = 600.0
# An operation that removes the copies of one node emits no event of its own.
_CALLS = ("replica.removed", "model.changed", "operation.created")


class ModelCopyRemover:
    """Has workers remove copies of model files that are pending removal, and retries until they have."""

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
        self._tasks = TaskSet("remover", on_crash)
        self._pace = PollPacer()

    async def tick(self) -> int:
        """Send the due removals to their workers and return how many there were."""
        free = AT_A_TIME - len(self._tasks)
        if free <= 0 or self._leaves_to_peers() or not self._pace.start_pass():
            return 0
        async with self._database.transaction() as tx:
            due = await store.claim_removals(tx, limit=free, lease_s=LEASE_S)
        self._pace.record_poll(found=bool(due) or len(self._tasks) > 0)
        for removal in due:
            self._tasks.start(self._remove(removal), name=f"remove {removal.model}")
        return len(due)

    async def wait_idle(self) -> None:
        """Wait until no worker's answer is outstanding."""
        await self._tasks.join()

    async def close(self) -> None:
        await self._tasks.close()

    async def follow(self, events: Sequence[OutboxEvent]) -> bool:
        """Make the removals of nodes that are back due at once. Return whether there may be something to do."""
        returned_nodes = {as_uuid(event.key) for event in events if event.kind in ("node.alive", "node.bus_changed")}
        known = sorted(NodeId(node) for node in returned_nodes if node is not None)
        if known:
            async with self._database.transaction() as tx:
                await store.hasten_removals(tx, known)
        is_called = bool(known) or any(event.kind in _CALLS for event in events)
        if is_called:
            self._pace.wake()
        return is_called

    async def _remove(self, removal: CopyRemoval) -> None:
        problem = ""
        try:
            await self._bus.request(MODEL_DELETE, DeleteModel(model=removal.model), node=removal.node_id)
        except CorralError as error:
            problem = error.message
        outcome = await attempt(lambda: self._write(removal, problem))
        if isinstance(outcome, AttemptFailure):
            # The claim expires and the removal is sent again: removing files twice changes nothing.
            log.warning("could not write the outcome of a removal", model=removal.model, error=outcome.sentence)

    async def _write(self, removal: CopyRemoval, problem: str) -> None:
        async with self._database.transaction() as tx:
            if problem:
                pause_s = min(FIRST_PAUSE_S * float(2 ** min(removal.attempts - 1, 7)), LONGEST_PAUSE_S)
                await store.postpone_removal(tx, removal, problem, pause_s)
                return
            if removal.operation_id is not None:
                # Operations are locked first: the transaction that holds one may be reading this very removal.
                await assignment_store.wake_operations(tx, [OperationId(removal.operation_id)])
            await store.end_removal(tx, removal)
