"""Membership: register, report, be approved, be on the bus, and take leave.

    not registered --register--> pending --approved--> member --bus credential--> ready
          ^-------- 404 or 401 on a heartbeat --------'

Guarantee: nothing that a frontend or the bus does for however long ends this worker; it goes on trying and comes back
by itself. It ends only when told to, when a registration is refused for good, or when a newer process has its place
(`membership.py` has the table). Heartbeats go over HTTP and do not wait for the bus.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random  # noqa: TID251 - only the type; the generator is passed in
from typing import Any

import structlog
from pydantic import ValidationError

from corral.bus.messages import NodeDescription, RunningProcess
from corral.domain.errors import InvalidRequest, NotAuthenticated, Unavailable
from corral.domain.node import NodeType
from corral.ports.runtime import Clock
from corral.runtime.guard import Failed, attempt
from corral.runtime.loop import Loop, LoopPlan
from corral.runtime.signals import Signal
from corral.wire.nodes import SURVIVORS_MAX, HeartbeatIn, HeartbeatOut, RegisterIn, RegisterOut
from corral.worker.address import Advertised
from corral.worker.control import ControlPlane
from corral.worker.identity import Identity
from corral.worker.link import BusLink, Duties, Grant, Hearing, OpenBus
from corral.worker.membership import (
    FIRST_PAUSE_S,
    HEARTBEAT_RETRY_S,
    Next,
    Place,
    after_failed_heartbeat,
    after_failed_registration,
    registration_pause_s,
    was_removed,
)
from corral.worker.readings import Readings
from corral.worker.renewal import Renewal
from corral.worker.trouble import Trouble

log = structlog.get_logger(__name__)

# The frontend may be away; the machine must not wait for it longer than this to shut down.
FAREWELL_LIMIT_S = 5.0
# A frontend that tells nonsense must not turn a worker into a load generator.
SHORTEST_INTERVAL_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What this worker says of itself, by its settings."""

    name: str
    version: str
    frontend: str
    boot_id: str
    node_type: NodeType = NodeType.BACKEND
    token: str | None = field(default=None, repr=False)
    labels: Mapping[str, str] = field(default_factory=dict)
    max_replicas_per_model: int = 1
    vram_budget: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the worker is given from outside."""

    control: ControlPlane
    open_bus: OpenBus
    readings: Readings
    # Asked at each registration: a machine that was carried elsewhere has another address.
    addresses: Callable[[], Awaitable[Advertised]]
    save_identity: Callable[[Identity], Awaitable[None]]
    new_bus_key: Callable[[], tuple[str, str]]
    clock: Clock
    rng: Random
    # An agent node has none: it gets neither backends nor models.
    duties: Duties | None = None
    # What runs here, once what an earlier process has left is known; None while that is not known.
    running: Callable[[], Awaitable[Sequence[RunningProcess] | None]] | None = None


class Agent:
    """A service. `on_end(error)` asks the process to stop; without an error it was asked to over the bus."""

    name = "membership"

    def __init__(
        self,
        profile: Profile,
        identity: Identity,
        around: Surroundings,
        *,
        on_end: Callable[[BaseException | None], None],
    ) -> None:
        self._profile = profile
        self._identity = identity
        self._around = around
        self._on_end = on_end
        self._place: Place | None = None
        self._is_ending = False
        # The node whose engines and jobs were ended because it was removed.
        self._removed_id: str | None = None
        self._refusals = 0
        self._started_at = around.clock.monotonic()
        self._report: Mapping[str, object] = {}
        self._registering = Trouble("registration")
        self._reporting = Trouble("heartbeat")
        self._joining = Trouble("joining the bus")
        # An agent node's key for the API, told at registration.
        self.api_token: str | None = None
        self.heard: Signal[HeartbeatOut] = Signal()
        hearing = Hearing(
            boot_id=profile.boot_id,
            describe=self.describe,
            wake=self.wake,
            stop=self._asked_to_stop,
            duties=around.duties,
        )
        self.link = BusLink(around.open_bus, hearing, around.clock)
        self.renewal = Renewal(
            around.control,
            self.link,
            place=lambda: self._place,
            identity=lambda: self._identity,
            clock=around.clock,
            rng=around.rng,
        )
        self.loop = Loop(LoopPlan(name=self.name, interval_s=FIRST_PAUSE_S), self.tick, around.clock, around.rng)
        for loop in (self.loop, self.renewal.loop):
            loop.on_crash = on_end

    @property
    def node_id(self) -> str | None:
        return self._place.node_id if self._place else None

    @property
    def is_approved(self) -> bool:
        return self._place is not None and self._place.is_approved

    @property
    def ticket_key(self) -> str:
        """What tickets of other nodes are checked with; empty as long as no frontend has told it."""
        return self.link.ticket_key

    def not_ready(self) -> str | None:
        """Why this worker cannot take work now."""
        if self._is_ending:
            return "stopping"
        if self._place is None:
            return f"not registered: {self._registering.latest or 'no answer yet'}"
        if not self._place.is_approved:
            return self._waiting
        return None if self.link.is_connected else "not on the bus"

    @property
    def _waiting(self) -> str:
        return f"waiting for approval: corral nodes approve {shlex.quote(self._profile.name)}"

    def wake(self) -> None:
        """Send a heartbeat now."""
        self.loop.wake()

    def describe(self) -> NodeDescription:
        return NodeDescription(
            node_id=self.node_id or "",
            boot_id=self._profile.boot_id,
            name=self._profile.name,
            version=self._profile.version,
            uptime_s=self._around.clock.monotonic() - self._started_at,
            hardware=dict(self._report),
        )

    async def start(self) -> None:
        self._report = await self._around.readings.read()
        await self.loop.start()
        await self.renewal.loop.start()

    async def stop(self) -> None:
        """Take leave: no new work, goodbye, off the bus."""
        self._is_ending = True
        await self.renewal.loop.stop()
        await self.loop.stop()
        if self._place is not None:
            await self._say_goodbye(self._place.node_id)
        await self.link.leave()

    async def tick(self) -> None:
        """One pass: a registration or a heartbeat."""
        if self._is_ending:
            return
        if self._place is None:
            await self._register()
        else:
            await self._beat(self._place)

    async def _register(self) -> None:
        outcome = await attempt(self._ask_for_a_place)
        if isinstance(outcome, Failed):
            await self._refused(outcome.error)
            return
        self._registering.over()
        await self._take_place(outcome.value)

    async def _ask_for_a_place(self) -> RegisterOut:
        self._report = await self._around.readings.read()
        advertised = await self._around.addresses()
        running = await self._around.running() if self._around.running else ()
        return await self._around.control.register(self._wish(advertised, running))

    def _wish(self, advertised: Advertised, running: Sequence[RunningProcess] | None) -> RegisterIn:
        profile = self._profile
        values: dict[str, Any] = dict(self._report) | {
            "name": profile.name,
            "node_type": str(profile.node_type),
            "credential": self._identity.credential,
            "boot_id": profile.boot_id,
            "bus_public_key": self._identity.bus_public_key,
            "token": profile.token,
            "address": advertised.address,
            "http_address": advertised.http_address,
            "labels": dict(profile.labels),
            "max_replicas_per_model": profile.max_replicas_per_model,
            "vram_budget": profile.vram_budget,
            "version": profile.version,
            "running": [_survivor(each) for each in running or () if each.state == "ready"][:SURVIVORS_MAX],
            "is_running_known": running is not None,
        }
        try:
            return RegisterIn.model_validate(values)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            raise InvalidRequest(f"This worker cannot register: {where}: {first['msg']}.") from error

    async def _refused(self, error: Exception) -> None:
        was_accepted = self._identity.is_accepted_as(self._profile.name, self._profile.frontend)
        if after_failed_registration(error, was_accepted=was_accepted) is Next.END:
            self._end(error)
            return
        if isinstance(error, NotAuthenticated) and self._identity.node_id is not None:
            # It may have been removed while this worker was away. A heartbeat is answered with what became of it.
            own = Place(node_id=self._identity.node_id, is_approved=False)
            asked = await attempt(lambda: self._send_heartbeat(own))
            if isinstance(asked, Failed) and was_removed(asked.error):
                await self._end_work_of_removed(own.node_id)
        self._registering.tell(error)
        self._refusals += 1
        # Much of it is chance: after an outage a whole cluster must not come back in step.
        self._pace(registration_pause_s(self._refusals), jitter=0.3)

    async def _take_place(self, answer: RegisterOut) -> None:
        place = Place(node_id=answer.id, is_approved=answer.approved)
        log.info("registered", node=answer.name, id=answer.id, approved=answer.approved)
        self._place = place
        self.api_token = answer.api_token or self.api_token
        self._pace(answer.heartbeat_interval_s)
        sent_key = self._identity.bus_public_key
        await self._remember(answer.id)
        if not place.is_approved:
            await self.link.leave()
            log.info(self._waiting, id=answer.id)
            return
        self._tell_duties()
        if self._identity.bus_public_key == sent_key:
            await self._join_bus(answer)
        # Otherwise, or when that failed, a credential is asked for by itself.
        self.renewal.loop.wake()

    async def _join_bus(self, answer: RegisterOut) -> None:
        if answer.nats_url is None or answer.nats_jwt is None or answer.nats_jwt_expires_in_s is None:
            return
        grant = Grant(
            node_id=answer.id,
            url=answer.nats_url,
            token=answer.nats_jwt,
            seed=self._identity.bus_seed,
            expires_in_s=answer.nats_jwt_expires_in_s,
            ticket_key=answer.ticket_key or "",
        )
        joined = await attempt(lambda: self.link.use(grant))
        if isinstance(joined, Failed):
            self._joining.tell(joined.error)
        else:
            self._joining.over()

    async def _remember(self, node_id: str) -> None:
        identity = self._identity.accepted(node_id, self._profile.name, self._profile.frontend)
        if identity == self._identity:
            return
        if self._identity.node_id not in (None, node_id):
            # The old node was removed, and its key refused on the bus with it: the new node needs another.
            identity = identity.with_bus_key(*self._around.new_bus_key())
        self._identity = identity
        outcome = await attempt(lambda: self._around.save_identity(identity))
        if isinstance(outcome, Failed):
            # The credential is on the disk since before the first call; it leads to the same node again.
            log.warning("the node's id was not kept", problem=outcome.sentence)

    async def _beat(self, place: Place) -> None:
        outcome = await attempt(lambda: self._send_heartbeat(place))
        if isinstance(outcome, Failed):
            await self._unheard(outcome.error)
            return
        self._reporting.over()
        self._refusals = 0
        answer = outcome.value
        self._pace(answer.heartbeat_interval_s)
        if answer.approved and not place.is_approved:
            await self._approved(place)
        self.heard.fire(answer)

    async def _send_heartbeat(self, place: Place) -> HeartbeatOut:
        self._report = await self._around.readings.read()
        own = {"boot_id": self._profile.boot_id, "bus_ok": self.link.is_connected}
        beat = HeartbeatIn.model_validate({**self._report, **own})
        return await self._around.control.heartbeat(place.node_id, beat)

    async def _unheard(self, error: Exception) -> None:
        match after_failed_heartbeat(error):
            case Next.END:
                # The node is the other process's now: no goodbye in its name.
                self._place = None
                self._end(error)
            case Next.REGISTER:
                log.warning("this node is not known any more; registering again", problem=str(error))
                lost, self._place = self._place, None
                await self.link.leave()
                if lost is not None and was_removed(error):
                    await self._end_work_of_removed(lost.node_id)
                # Not at once: a frontend that takes every registration and no heartbeat must not be hammered.
                self._refusals += 1
                self._pace(registration_pause_s(self._refusals))
            case Next.AGAIN:
                self._reporting.tell(error)
                self._pace(HEARTBEAT_RETRY_S)

    async def _end_work_of_removed(self, node_id: str) -> None:
        """End engines and jobs of a node that an admin has removed, once; a registration may make it another node."""
        if self._around.duties is None or self._removed_id == node_id:
            return
        log.warning("this node was removed from the cluster: its engines and jobs end", id=node_id)
        outcome = await attempt(self._around.duties.removed)
        if isinstance(outcome, Failed):
            log.warning("not everything of the removed node has ended", problem=outcome.sentence)
        else:
            self._removed_id = node_id

    async def _approved(self, place: Place) -> None:
        log.info("approved", id=place.node_id)
        if self._profile.node_type is NodeType.AGENT:
            # The same process registers once more: that is how an agent is told its API key.
            await self._register()
            return
        self._place = Place(node_id=place.node_id, is_approved=True)
        self._tell_duties()
        self.renewal.loop.wake()

    def _tell_duties(self) -> None:
        if self._around.duties is not None:
            self._around.duties.registered()

    async def _say_goodbye(self, node_id: str) -> None:
        control, boot_id = self._around.control, self._profile.boot_id

        async def farewell() -> None:
            try:
                async with asyncio.timeout(FAREWELL_LIMIT_S):
                    await attempt(lambda: control.drain(node_id, boot_id))
                    await control.deregister(node_id, boot_id)
            except TimeoutError as error:
                raise Unavailable(f"No frontend answered within {FAREWELL_LIMIT_S:g} s.") from error

        outcome = await attempt(farewell)
        if isinstance(outcome, Failed):
            log.warning("could not say goodbye; the node goes offline when its lease ends", problem=outcome.sentence)
        else:
            log.info("left the cluster", id=node_id)

    def _asked_to_stop(self) -> None:
        self._on_end(None)

    def _end(self, error: Exception) -> None:
        self._is_ending = True
        self._on_end(error)

    def _pace(self, interval_s: float, *, jitter: float = 0.1) -> None:
        pause_s = max(SHORTEST_INTERVAL_S, interval_s)
        self.loop.plan = LoopPlan(name=self.name, interval_s=pause_s, jitter=jitter)


def _survivor(process: RunningProcess) -> dict[str, object]:
    return {
        "model": process.model,
        "replica": process.replica,
        "address": process.address,
        "revision": process.revision,
    }
