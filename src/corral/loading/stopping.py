"""The one way in which a replica's process is ended: exactly that one, acknowledged, tried until it is.

Every frontend runs it; a row is claimed by one of them. Guarantees: a row goes only when its worker has said that
exactly this process has ended, and only if the row is still what it was. A worker that does not answer keeps its row,
and is asked again after a pause that doubles to four minutes. Nothing coarser is ever sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog

from corral.bus.messages import ModelStopped, StopModel
from corral.bus.subjects import MODEL_STOP
from corral.domain.cluster import Event
from corral.domain.errors import CorralError
from corral.domain.node import NodeId
from corral.domain.replica import Replica, ReplicaState
from corral.loading.pace import Pace
from corral.policy.loading import stop_pause_s
from corral.ports.bus import Bus
from corral.runtime.guard import Failed, attempt
from corral.runtime.tasks import Tasks
from corral.store import replicas as store
from corral.store.database import Database, as_uuid

log = structlog.get_logger(__name__)

# While a frontend waits for a worker, nobody else asks it.
LEASE_S = 120.0
AT_A_TIME = 64
INTERVAL_S = 1.0
_BACK = ("node.alive", "node.returned", "node.bus_changed")


class Stopper:
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
        self._tasks = Tasks("stopper", on_crash)
        self._pace = Pace()

    async def tick(self) -> int:
        """Begin to end what is due; how many that are. One worker that does not answer holds up nobody else."""
        free = AT_A_TIME - len(self._tasks)
        if free <= 0 or self._leaves_to_peers() or not self._pace.is_due():
            return 0
        async with self._database.transaction() as tx:
            stops = await store.claim_stops(tx, limit=free, lease_s=LEASE_S)
        self._pace.looked(found=bool(stops) or len(self._tasks) > 0)
        for stop in stops:
            self._tasks.start(self._stop(stop.replica), name=f"stop {stop.replica.process_key}")
        return len(stops)

    async def idle(self) -> None:
        """Return when nobody is being waited for."""
        await self._tasks.join()

    async def close(self) -> None:
        await self._tasks.close()

    async def follow(self, events: Sequence[Event]) -> bool:
        """Nodes that are back are asked now. True if there may be something to do, such as what was marked just now."""
        back = {as_uuid(event.key) for event in events if event.kind in _BACK}
        known = sorted(NodeId(node) for node in back if node is not None)
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
        if isinstance(outcome, Failed):
            # The claim runs out, and it is asked again: ending what has ended changes nothing.
            log.warning("could not write what became of a replica", replica=replica.id, error=outcome.sentence)

    async def _write(self, replica: Replica, problem: str | None) -> None:
        async with self._database.transaction() as tx:
            if problem is None:
                await store.remove_stopped(tx, replica, replica.stop_reason or "It was unloaded.")
            else:
                await store.put_off_stop(tx, replica, problem, stop_pause_s(replica.stop_attempts))

    async def _ask(self, replica: Replica) -> str | None:
        """None: the process has ended. Else what kept it, in short."""
        wish = StopModel(process_key=replica.process_key, expected_address=replica.address)
        try:
            answer = await self._bus.request(MODEL_STOP, wish, node=replica.node_id)
        except CorralError as error:
            return error.message
        return problem_of(answer, replica)


def problem_of(answer: ModelStopped, replica: Replica) -> str | None:
    if not answer.terminated:
        return answer.problem or "The worker says that it has not ended."
    if not answer.matched and answer.address and replica.address and answer.address != replica.address:
        # Ours is the only row that may have this key: its engine was started anew, and the next report says where.
        return f"Its engine answers at {answer.address} by now."
    return None
