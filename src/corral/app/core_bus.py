"""Connects a frontend to its peers and workers over the bus: what it subscribes to, and how it reacts to each message.

A message on the bus is a hint: it wakes a loop that would look by itself some seconds later.
"""

from __future__ import annotations

from functools import partial

from corral.app.core_loops import LoopSet
from corral.app.core_options import CoreDeps
from corral.bus.messages import WakeFrontends, WorkerHello
from corral.bus.subjects import FRONTEND_NUMBERS, FRONTENDS_WAKE, JOB_EVENT, NODE_HELLO, OPERATION_DELTA, RUN_DELTA
from corral.domain.errors import CorralError
from corral.domain.node import NodeId
from corral.gateway.routing.health import Health
from corral.insight.traffic_aggregator import TrafficAggregator
from corral.nodes.commands import note_bus
from corral.operations.deltas import OperationDeltaFeed
from corral.operations.dispatcher import OperationDispatcher
from corral.ports.bus import Delivery
from corral.reconcile.leader import LeaderElector
from corral.reconcile.maintenance import FrontendPresence
from corral.runs.trace import RunTraceNotifier
from corral.runtime.tasks import TaskSet


class FrontendBusHandler:
    """Connects a frontend to NATS: wakes its loops at messages, and wakes other frontends after commits.

    Loops are also woken at changes of the connection.
    """

    def __init__(
        self, deps: CoreDeps, health: Health, loops: LoopSet, presence: FrontendPresence, leader: LeaderElector
    ) -> None:
        self._database = deps.database
        self._bus = deps.bus
        self._health = health
        self._loops = loops
        self._presence = presence
        self._leader = leader
        self._is_subscribed = False
        self._tasks = TaskSet("frontend")

    async def subscribe_once(
        self,
        dispatcher: OperationDispatcher,
        deltas: OperationDeltaFeed,
        traffic: TrafficAggregator,
        trace_readers: RunTraceNotifier,
    ) -> None:
        """Subscribe to everything that frontends listen to; a no-op after the first success."""
        if self._is_subscribed:
            return  # PostgreSQL became unreachable again during the boot.
        await self._bus.subscribe(FRONTENDS_WAKE, self._on_wake)
        await self._bus.subscribe(NODE_HELLO, self._on_hello)
        await self._bus.subscribe(JOB_EVENT, dispatcher.on_job_event)
        await self._bus.subscribe(OPERATION_DELTA, deltas.on_delta)
        await self._bus.subscribe(FRONTEND_NUMBERS, traffic.on_traffic)
        await self._bus.subscribe(RUN_DELTA, trace_readers.on_delta)
        self._bus.on_reconnect(partial(self._on_reconnect, dispatcher))
        self._is_subscribed = True

    async def close(self) -> None:
        """Cancel the messages to peers that are still being sent."""
        await self._tasks.close()

    def check_connection(self) -> None:
        """Record whether the bus is connected, and tell the peers at once if that has changed."""
        if self._health.record_bus(is_connected=self._bus.is_connected):
            self._loops.wake("presence")

    def leaves_to_peers(self) -> bool:
        """Return whether operations are left to peers because this frontend is off the bus and a peer is on it."""
        if not self._bus.is_connected:
            # If NATS is unreachable for every frontend, all must know it before the first one hands its operations
            # over.
            self._loops.wake("presence")
            # It gives the lead back after seconds, and its own interval is longer.
            self._loops.wake("leader")
        return self._presence.leaves_to_peers()

    def wake_peers(self) -> None:
        """Tell the peers in the background that events were written, if the bus is connected."""
        if self._bus.is_connected:
            self._tasks.start(self._publish_wake(), name="wake")

    async def _publish_wake(self) -> None:
        try:
            await self._bus.publish(FRONTENDS_WAKE, WakeFrontends())
        except CorralError:
            return  # The message is only a hint: the peers poll at their own interval anyway.

    async def _on_wake(self, _: Delivery[WakeFrontends]) -> None:
        self._loops.wake("feed")

    async def _on_hello(self, hello: Delivery[WorkerHello]) -> None:
        """Note that a worker has connected to the bus, sooner than its next heartbeat would show it."""
        if hello.node is not None and self._leader.is_leader():
            await note_bus(self._database, NodeId(hello.node), is_on_bus=True)

    async def _on_reconnect(self, dispatcher: OperationDispatcher) -> None:
        self._loops.wake("feed")
        self._loops.wake("presence")
        # The next time off the bus is to be counted from its own beginning.
        self._loops.wake("leader")
        await dispatcher.on_reconnect()
