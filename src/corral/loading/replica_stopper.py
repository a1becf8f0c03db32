"""Ends the process of a replica: exactly that process, acknowledged by its worker, retried until it is.

Every frontend runs this loop; a row is claimed by one of them. Guarantees: a row is deleted only when its worker has
confirmed that exactly this process has ended, and only if the row has not changed. A worker that does not respond
keeps its row, and is queried again after a pause that doubles to four minutes. Nothing coarser is ever sent.

`PollPacer` paces this loop and that of `copy_remover.py`: work that is also announced is polled for at every pass while
there is some, seldom after a quiet time. A lost announcement costs `PASSES_BETWEEN_POLLS` passes and no more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog

from corral.bus.messages import StopModel, StopModelReply
from corral.bus.subjects import MODEL_STOP
from corral.domain.cluster import OutboxEvent
from corral.domain.errors import CorralError
from corral.domain.node import NodeId
from corral.domain.replica import Replica, ReplicaState
from corral.policy.loads import compute_stop_pause_s
from corral.ports.bus import Bus
from corral.runtime.attempt import AttemptFailure, attempt
from corral.runtime.tasks import TaskSet
from corral.store import replicas as store
from corral.store.database import Database, as_uuid

log = structlog.get_logger(__name__)

# While a frontend waits for a worker's reply, no other frontend sends it the same command.
LEASE_S = 120.0
AT_A_TIME = 64
INTERVAL_S = 1.0
_BACK = ("node.alive", "node.returned", "node.bus_changed")
# After so many passes in a row that found nothing, only one pass in so many polls.
QUIET_PASSES = 30
PASSES_BETWEEN_POLLS = 10


class PollPacer:
    """Decides whether a pass polls the database: every pass while there is work, every tenth after a quiet time."""

    def __init__(self) -> None:
        self._in_vain = 0

    def start_pass(self) -> bool:
        """Return whether this pass is to poll."""
        if self._in_vain < QUIET_PASSES or self._in_vain % PASSES_BETWEEN_POLLS == 0:
            return True
        self._in_vain += 1
        return False

    def record_poll(self, *, found: bool) -> None:
        self._in_vain = 0 if found else self._in_vain + 1

    def wake(self) -> None:
        """Poll at the next pass: work was announced."""
        self._in_vain = 0


class ReplicaStopper:
    """Ends the processes of replicas marked unloading, and retries until each worker has acknowledged it."""

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
        self._tasks = TaskSet("stopper", on_crash)
        self._pace = PollPacer()

    async def tick(self) -> int:
        """Start to stop the due replicas and return how many there were. A worker that does not respond delays no
        other."""
        free = AT_A_TIME - len(self._tasks)
        if free <= 0 or self._leaves_to_peers() or not self._pace.start_pass():
            return 0
        async with self._database.transaction() as tx:
            stops = await store.claim_stops(tx, limit=free, lease_s=LEASE_S)
        self._pace.record_poll(found=bool(stops) or len(self._tasks) > 0)
        for stop in stops:
            self._tasks.start(self._stop(stop.replica), name=f"stop {stop.replica.process_key}")
        return len(stops)

    async def wait_idle(self) -> None:
        """Wait until no worker's answer is outstanding."""
        await self._tasks.join()

    async def close(self) -> None:
        await self._tasks.close()

    async def follow(self, events: Sequence[OutboxEvent]) -> bool:
        """Make the stops on nodes that are back due at once. Return whether there may be something to do, such as a
        new mark."""
        returned_nodes = {as_uuid(event.key) for event in events if event.kind in _BACK}
        known = sorted(NodeId(node) for node in returned_nodes if node is not None)
        if known:
            async with self._database.transaction() as tx:
                await store.hasten_stops(tx, known)
        is_called = bool(known) or any(
            event.kind == "replica.changed" and event.data.get("state") == ReplicaState.UNLOADING for event in events
        )
        if is_called:
            self._pace.wake()
        return is_called

    async def _stop(self, replica: Replica) -> None:
        problem = await self._ask(replica)
        outcome = await attempt(lambda: self._write(replica, problem))
        if isinstance(outcome, AttemptFailure):
            # The claim expires and the stop is sent again: stopping an ended process changes nothing.
            log.warning("could not write the outcome of a stop", replica=replica.id, error=outcome.sentence)

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
