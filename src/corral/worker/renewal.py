"""Keeps the bus credential fresh: asked for at three quarters of its life, again and again until one has come.

Asking changes nothing about the node. A frontend that is away costs nothing but attempts: the worker neither gives up
nor ends. The connection that is in use stays until its own credential runs out.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random  # noqa: TID251 - only the type; the generator is passed in

from corral.ports.runtime import Clock
from corral.runtime.guard import Failed, attempt
from corral.runtime.loop import Loop, LoopPlan
from corral.worker.control import ControlPlane
from corral.worker.identity import Identity
from corral.worker.link import RETRY_S, BusLink, Grant
from corral.worker.membership import HEARTBEAT_RETRY_S, Place
from corral.worker.trouble import Trouble

# So short a pause is only met with credentials that live for seconds; it keeps the loop from spinning.
SHORTEST_PAUSE_S = 0.05


class Renewal:
    """`wake` it when the place of the node may have changed."""

    def __init__(
        self,
        control: ControlPlane,
        link: BusLink,
        *,
        place: Callable[[], Place | None],
        identity: Callable[[], Identity],
        clock: Clock,
        rng: Random,
    ) -> None:
        self._control = control
        self._link = link
        self._place = place
        self._identity = identity
        self._trouble = Trouble("getting a bus credential")
        self.loop = Loop(LoopPlan(name="bus credential", interval_s=RETRY_S), self.tick, clock, rng)

    async def tick(self) -> None:
        place = self._place()
        if place is None or not place.is_approved:
            self._rest(RETRY_S)
            return
        due_s = self._link.next_look_s()
        if due_s > 0:
            self._rest(due_s)
            return
        outcome = await attempt(lambda: self._renew(place))
        if isinstance(outcome, Failed):
            self._trouble.tell(outcome.error)
            self._rest(RETRY_S if self._link.has_credential else HEARTBEAT_RETRY_S)
            return
        self._trouble.over()
        self._rest(self._link.next_look_s())

    async def _renew(self, place: Place) -> None:
        identity = self._identity()
        fresh = await self._control.refresh_credentials(place.node_id, identity.bus_public_key)
        if self._place() != place or self._identity().bus_seed != identity.bus_seed:
            # The node was registered anew meanwhile, and this token is not for it.
            return
        await self._link.use(
            Grant(
                node_id=place.node_id,
                url=fresh.nats_url,
                token=fresh.nats_jwt,
                seed=identity.bus_seed,
                expires_in_s=fresh.nats_jwt_expires_in_s,
                ticket_key=fresh.ticket_key,
            )
        )

    def _rest(self, seconds: float) -> None:
        pause_s = max(SHORTEST_PAUSE_S, min(seconds, RETRY_S))
        self.loop.plan = LoopPlan(name=self.loop.name, interval_s=pause_s)
