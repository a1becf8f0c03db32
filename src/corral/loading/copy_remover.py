"""Removes copies of model files (of deleted models, or of one node) from every node that has them, even much later.

Every frontend runs this loop; a pending removal is claimed by one of them. Guarantee: a pending removal is deleted
only when its worker has confirmed that the files are gone; contents that other models use stay, which the worker
ensures. A node that is away is not contacted.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from corral.bus.messages import DeleteModel
from corral.bus.subjects import MODEL_DELETE
from corral.domain.cluster import OutboxEvent
from corral.domain.errors import CorralError
from corral.domain.node import NodeId
from corral.domain.operation import OperationId
from corral.loading.claim_runner import LEASE_S, ClaimRunner
from corral.runtime.attempt import AttemptFailure, attempt
from corral.store import assignments as assignment_store
from corral.store import holdings as store
from corral.store.database import Transaction
from corral.store.holdings import CopyRemoval

log = structlog.get_logger(__name__)

INTERVAL_S = 2.0
FIRST_PAUSE_S = 5.0
LONGEST_PAUSE_S = 600.0
# An operation that removes the copies of one node emits no event of its own.
_CALLS = ("replica.removed", "model.changed", "operation.created")


class ModelCopyRemover(ClaimRunner[CopyRemoval]):
    """Has workers delete model files that are pending removal from their nodes, and retries until they have."""

    name = "remover"
    return_kinds = ("node.alive", "node.bus_changed")

    async def _claim(self, tx: Transaction, limit: int) -> Sequence[CopyRemoval]:
        return await store.claim_removals(tx, limit=limit, lease_s=LEASE_S)

    async def _hasten(self, tx: Transaction, node_ids: Sequence[NodeId]) -> None:
        await store.hasten_removals(tx, node_ids)

    def _is_called_by(self, event: OutboxEvent) -> bool:
        return event.kind in _CALLS and not str(event.data.get("kind", "")).startswith("run_")

    def _describe(self, claim: CopyRemoval) -> str:
        return f"remove {claim.model}"

    async def _carry_out(self, claim: CopyRemoval) -> None:
        problem = ""
        try:
            await self._bus.request(MODEL_DELETE, DeleteModel(model=claim.model), node=claim.node_id)
        except CorralError as error:
            problem = error.message
        outcome = await attempt(lambda: self._write(claim, problem))
        if isinstance(outcome, AttemptFailure):
            # The claim expires and the removal is sent again: removing files twice changes nothing.
            log.warning("could not write the outcome of a removal", model=claim.model, error=outcome.sentence)

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
