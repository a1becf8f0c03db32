"""The worker's connection to the bus: opened with a credential, kept over reconnects, replaced with the node.

Guarantee: after every connect the subscriptions stand before any callback runs, and a fresh credential is taken into
use without a gap. `compute_renewal_delay_s` says when to request the next one, in this machine's own monotonic time:
its wall clock may be wrong. Limit: the link never requests a credential itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from corral.bus.messages import DescribeNode, NodeDescription, StopNode, StopNodeReply, WakeNode, WorkerHello
from corral.bus.subjects import NODE_DESCRIBE, NODE_HELLO, NODE_STOP, NODE_WAKE
from corral.domain.errors import CorralError
from corral.ports.bus import Bus, Delivery
from corral.ports.runtime import Clock

log = structlog.get_logger(__name__)

# A quarter of the credential's life is left for retries.
REFRESH_AT = 0.75
# Seconds between two attempts to get a credential, and between two checks of a connection that does not come back.
RETRY_S = 30.0


class WorkerBus(Bus, Protocol):
    """NATS as a worker uses it: it can also switch to a new credential without reconnecting."""

    async def refresh_credential(self) -> None:
        """Take the newest credential into use without missing a message."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BusGrant:
    """What a frontend grants a node so that its worker can join NATS: address, token, seed, lifetime and ticket key."""

    node_id: str
    url: str
    token: str = field(repr=False)
    seed: str = field(repr=False)
    expires_in_s: float
    # The key that tickets of other nodes are checked with; an old frontend sends none.
    ticket_key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageHandlers:
    """Callbacks that a worker runs for NATS messages about its own node: describe, wake, stop and bus commands."""

    boot_id: str
    describe: Callable[[], NodeDescription]
    wake: Callable[[], None]
    stop: Callable[[], None]
    command_handler: CommandHandler | None = None


class CommandHandler(Protocol):
    """Interface that handles bus commands about engine backends and models on a worker, and the removal of its node."""

    async def subscribe(self, bus: Bus, node_id: str) -> None:
        """Receive commands on this bus from now on, in place of the previous bus."""
        ...

    def on_connect(self) -> None:
        """Called after every connect to the bus."""
        ...

    def on_registered(self) -> None:
        """Called when the node has been registered under an id that it did not have before."""
        ...

    async def on_removed(self) -> None:
        """Called when the node was removed from the cluster: end what runs for it, and discard unfinished work."""
        ...


# Every connect uses the newest grant: the token changes, the node and the address do not.
BusFactory = Callable[[BusGrant, Callable[[], BusGrant]], WorkerBus]


class BusLink:
    """Connects a worker to NATS with the credential from a frontend, renews the credential, and disconnects."""

    def __init__(self, open_bus: BusFactory, handlers: MessageHandlers, clock: Clock) -> None:
        self._open_bus = open_bus
        self._handlers = handlers
        self._clock = clock
        self._bus: WorkerBus | None = None
        self._grant: BusGrant | None = None
        self._granted_at = 0.0
        # One change at a time: a credential must not arrive at a bus that is being left.
        self._change_lock = asyncio.Lock()

    @property
    def is_connected(self) -> bool:
        return self._bus is not None and self._bus.is_connected

    @property
    def has_credential(self) -> bool:
        return self._grant is not None

    @property
    def ticket_key(self) -> str:
        """Return the public key that tickets are checked with; empty as long as no frontend has sent one."""
        return self._grant.ticket_key if self._grant else ""

    def compute_renewal_delay_s(self) -> float:
        """Return in how many seconds a new credential is needed; 0 means now."""
        grant = self._grant
        if grant is None:
            return 0.0
        age_s = self._clock.monotonic() - self._granted_at
        due_s = REFRESH_AT * grant.expires_in_s
        if not self.is_connected:
            # The credential may have expired while this machine slept, which a monotonic clock does not see.
            due_s = min(due_s, RETRY_S)
        return max(0.0, due_s - age_s)

    async def use_grant(self, grant: BusGrant) -> None:
        """Connect to the bus with this grant, or take its fresh credential into use."""
        async with self._change_lock:
            previous, self._grant = self._grant, grant
            self._granted_at = self._clock.monotonic()
            is_same_bus = previous is not None and (previous.node_id, previous.url) == (grant.node_id, grant.url)
            if self._bus is not None and is_same_bus:
                await self._bus.refresh_credential()
                return
            await self._close()
            self._bus = await self._open(grant)

    async def leave(self) -> None:
        async with self._change_lock:
            self._grant = None
            await self._close()

    async def _open(self, grant: BusGrant) -> WorkerBus:
        bus = self._open_bus(grant, lambda: self._grant or grant)
        try:
            await bus.subscribe(NODE_DESCRIBE, self._on_describe, node=grant.node_id)
            await bus.subscribe(NODE_WAKE, self._on_wake, node=grant.node_id)
            await bus.subscribe(NODE_STOP, self._on_stop, node=grant.node_id)
            if self._handlers.command_handler is not None:
                await self._handlers.command_handler.subscribe(bus, grant.node_id)
            bus.on_reconnect(self._make_greeter(bus, grant.node_id))
            await bus.start()
        except BaseException:
            await asyncio.shield(bus.stop())
            raise
        return bus

    async def _close(self) -> None:
        bus, self._bus = self._bus, None
        if bus is not None:
            await asyncio.shield(bus.stop())

    def _make_greeter(self, bus: Bus, node_id: str) -> Callable[[], Awaitable[None]]:
        async def greet() -> None:
            # The heartbeat is the message that counts; the greeting is only faster.
            self._handlers.wake()
            if self._handlers.command_handler is not None:
                self._handlers.command_handler.on_connect()
            try:
                await bus.publish(NODE_HELLO, WorkerHello(boot_id=self._handlers.boot_id), node=node_id)
            except CorralError as error:
                log.debug("could not greet the frontends", problem=error.message)

        return greet

    async def _on_describe(self, _: Delivery[DescribeNode]) -> NodeDescription:
        return self._handlers.describe()

    async def _on_wake(self, _: Delivery[WakeNode]) -> None:
        self._handlers.wake()

    async def _on_stop(self, delivery: Delivery[StopNode]) -> StopNodeReply:
        log.info("stop requested over the bus", reason=delivery.message.reason)
        self._handlers.stop()
        return StopNodeReply(accepted=True, boot_id=self._handlers.boot_id)
