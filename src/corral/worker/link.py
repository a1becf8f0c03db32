"""The worker's place on the bus: opened when a credential has come, kept over reconnects, replaced with the node.

Guarantee: after every connect the subscriptions stand before anybody is told, and a fresh credential is taken into
use without a gap. When to ask for one is told by `next_look_s`, in this machine's own monotonic time: its wall clock
may be wrong. Limit: the link never asks for a credential itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from corral.bus.messages import Describe, Hello, NodeDescription, StopAnswer, StopNode, WakeNode
from corral.bus.subjects import NODE_DESCRIBE, NODE_HELLO, NODE_STOP, NODE_WAKE
from corral.domain.errors import CorralError
from corral.ports.bus import Bus, Delivery
from corral.ports.runtime import Clock

log = structlog.get_logger(__name__)

# A quarter of its life is left for trying again.
REFRESH_AT = 0.75
# Between two attempts to get a credential, and between two looks at a connection that does not come back.
RETRY_S = 30.0


class WorkerBus(Bus, Protocol):
    async def refresh(self) -> None:
        """Take the newest credential into use without missing a message."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What a frontend gave: where the bus is, and a token for the holder of the seed."""

    node_id: str
    url: str
    token: str = field(repr=False)
    seed: str = field(repr=False)
    expires_in_s: float
    # What tickets of other nodes are checked with; an old frontend tells none.
    ticket_key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hearing:
    """What the worker does about messages."""

    boot_id: str
    describe: Callable[[], NodeDescription]
    wake: Callable[[], None]
    stop: Callable[[], None]
    duties: Duties | None = None


class Duties(Protocol):
    """What a worker does beside being a member."""

    async def subscribe(self, bus: Bus, node_id: str) -> None:
        """Hear commands on this bus from now on; it replaces the one before."""
        ...

    def on_bus(self) -> None:
        """After every connect."""
        ...

    def registered(self) -> None:
        """The node has a place that it did not have before."""
        ...

    async def removed(self) -> None:
        """The node was removed from the cluster: end what runs for it, and throw away what was begun."""
        ...


# The newest grant is asked for at every connect: the token changes, the node and the address do not.
OpenBus = Callable[[Grant, Callable[[], Grant]], WorkerBus]


class BusLink:
    def __init__(self, open_bus: OpenBus, hearing: Hearing, clock: Clock) -> None:
        self._open_bus = open_bus
        self._hearing = hearing
        self._clock = clock
        self._bus: WorkerBus | None = None
        self._grant: Grant | None = None
        self._granted_at = 0.0
        # One change at a time: a credential must not arrive at a bus that is being left.
        self._changing = asyncio.Lock()

    @property
    def is_connected(self) -> bool:
        return self._bus is not None and self._bus.is_connected

    @property
    def has_credential(self) -> bool:
        return self._grant is not None

    @property
    def ticket_key(self) -> str:
        """Empty as long as no frontend has told one."""
        return self._grant.ticket_key if self._grant else ""

    def next_look_s(self) -> float:
        """In how many seconds a credential is wanted; 0 means now."""
        grant = self._grant
        if grant is None:
            return 0.0
        age_s = self._clock.monotonic() - self._granted_at
        due_s = REFRESH_AT * grant.expires_in_s
        if not self.is_connected:
            # It may have run out while this machine slept, which a monotonic clock does not see.
            due_s = min(due_s, RETRY_S)
        return max(0.0, due_s - age_s)

    async def use(self, grant: Grant) -> None:
        """Be on the bus with this credential."""
        async with self._changing:
            known, self._grant = self._grant, grant
            self._granted_at = self._clock.monotonic()
            is_same_place = known is not None and (known.node_id, known.url) == (grant.node_id, grant.url)
            if self._bus is not None and is_same_place:
                await self._bus.refresh()
                return
            await self._close()
            self._bus = await self._opened(grant)

    async def leave(self) -> None:
        async with self._changing:
            self._grant = None
            await self._close()

    async def _opened(self, grant: Grant) -> WorkerBus:
        bus = self._open_bus(grant, lambda: self._grant or grant)
        try:
            await bus.subscribe(NODE_DESCRIBE, self._on_describe, node=grant.node_id)
            await bus.subscribe(NODE_WAKE, self._on_wake, node=grant.node_id)
            await bus.subscribe(NODE_STOP, self._on_stop, node=grant.node_id)
            if self._hearing.duties is not None:
                await self._hearing.duties.subscribe(bus, grant.node_id)
            bus.on_reconnect(self._greeting(bus, grant.node_id))
            await bus.start()
        except BaseException:
            await asyncio.shield(bus.stop())
            raise
        return bus

    async def _close(self) -> None:
        bus, self._bus = self._bus, None
        if bus is not None:
            await asyncio.shield(bus.stop())

    def _greeting(self, bus: Bus, node_id: str) -> Callable[[], Awaitable[None]]:
        async def greet() -> None:
            # The heartbeat is the message that counts; the greeting is only sooner.
            self._hearing.wake()
            if self._hearing.duties is not None:
                self._hearing.duties.on_bus()
            try:
                await bus.publish(NODE_HELLO, Hello(boot_id=self._hearing.boot_id), node=node_id)
            except CorralError as error:
                log.debug("could not greet the frontends", problem=error.message)

        return greet

    async def _on_describe(self, _: Delivery[Describe]) -> NodeDescription:
        return self._hearing.describe()

    async def _on_wake(self, _: Delivery[WakeNode]) -> None:
        self._hearing.wake()

    async def _on_stop(self, delivery: Delivery[StopNode]) -> StopAnswer:
        log.info("asked over the bus to stop", reason=delivery.message.reason)
        self._hearing.stop()
        return StopAnswer(accepted=True, boot_id=self._hearing.boot_id)
