"""Ends the process of a replica: exactly that process, acknowledged by its worker, retried until it is.

Every frontend runs this loop; a row is claimed by one of them. Guarantees: a row is deleted only when its worker has
confirmed that exactly this process has ended, and only if the row has not changed. A worker that does not respond
keeps its row, and is queried again after a pause that doubles to four minutes. Nothing coarser is ever sent.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from corral.bus.messages import StopModel, StopModelReply
from corral.bus.subjects import MODEL_STOP
from corral.domain.cluster import OutboxEvent
from corral.domain.errors import CorralError
from corral.domain.node import NodeId
from corral.domain.replica import Replica, ReplicaState
from corral.loading.claim_runner import LEASE_S, ClaimRunner
from corral.policy.loads import compute_stop_pause_s
from corral.runtime.attempt import AttemptFailure, attempt
from corral.store import replicas as store
from corral.store.database import Transaction

log = structlog.get_logger(__name__)

INTERVAL_S = 1.0


class ReplicaStopper(ClaimRunner[Replica]):
    """Ends the engine processes of replicas marked unloading, and retries until each worker has confirmed it."""

    name = "stopper"
    return_kinds = ("node.alive", "node.returned", "node.bus_changed")

    async def _claim(self, tx: Transaction, limit: int) -> Sequence[Replica]:
        return [stop.replica for stop in await store.claim_stops(tx, limit=limit, lease_s=LEASE_S)]

    async def _hasten(self, tx: Transaction, node_ids: Sequence[NodeId]) -> None:
        await store.hasten_stops(tx, node_ids)

    def _is_called_by(self, event: OutboxEvent) -> bool:
        return event.kind == "replica.changed" and event.data.get("state") == ReplicaState.UNLOADING

    def _describe(self, claim: Replica) -> str:
        return f"stop {claim.process_key}"

    async def _carry_out(self, claim: Replica) -> None:
        problem = await self._ask(claim)
        outcome = await attempt(lambda: self._write(claim, problem))
        if isinstance(outcome, AttemptFailure):
            # The claim expires and the stop is sent again: stopping an ended process changes nothing.
            log.warning("could not write the outcome of a stop", replica=claim.id, error=outcome.sentence)

    async def _write(self, replica: Replica, problem: str | None) -> None:
        async with self._database.transaction() as tx:
            if problem is None:
                await store.remove_stopped(tx, replica, replica.stop_reason or "It was unloaded.")
            else:
                await store.postpone_stop(tx, replica, problem, compute_stop_pause_s(replica.stop_attempts))

    async def _ask(self, replica: Replica) -> str | None:
        """Ask the worker to end the process. Return None if it has ended, else the short reason why not."""
        command = StopModel(process_key=replica.process_key, expected_address=replica.address)
        try:
            answer = await self._bus.request(MODEL_STOP, command, node=replica.node_id)
        except CorralError as error:
            return error.message
        return find_stop_problem(answer, replica)


def find_stop_problem(answer: StopModelReply, replica: Replica) -> str | None:
    if not answer.terminated:
        return answer.problem or "The worker says that it has not ended."
    if not answer.matched and answer.address and replica.address and answer.address != replica.address:
        # Only our row may have this key: the engine was restarted, and the next report says where.
        return f"Its engine now listens at {answer.address}."
    return None
