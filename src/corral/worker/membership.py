"""Keeps the worker a member: registers, sends heartbeats, gets approved, joins the bus, and leaves.

    not registered --register--> pending --approved--> member --bus credential--> ready
          ^-------- 404 or 401 on a heartbeat --------'

Guarantee: no failure of a frontend or of the bus, however long, ends this worker; it keeps trying and comes back by
itself. It ends only on request, when a registration is refused for good, or when a newer process has its place.
Heartbeats go over HTTP and do not wait for the bus. After a refusal:

    error                                        registration          heartbeat
    no answer, 5xx, a proxy's page               again, later          again, soon
    409 name taken, 400, 403, 413, 422           end                   again, soon
    401                                          end, or again later   register
    404 of a frontend                            again, later          register
    409 a newer process has registered           end                   end

A 401 ends a registration only if this machine was never accepted: a person is waiting for the message then. One that
was accepted before has lost its place (removed, or a restored database) and waits for a valid token instead.

A worker ends its engines and jobs only when a frontend says that the node was removed: `is_node_removed`. "Not known"
alone may be an older database that was restored, and its engines go on.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random  # noqa: TID251 - only the type; the generator is passed in
from typing import Any

import structlog
from pydantic import ValidationError

from corral.bus.messages import NodeDescription, RunningProcess
from corral.domain.errors import (
    BootSuperseded,
    InvalidRequest,
    NameTaken,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    Unavailable,
    Unprocessable,
)
from corral.domain.node import NodeType
from corral.ports.runtime import Clock
from corral.runtime.attempt import AttemptFailure, attempt
from corral.runtime.loop import Loop, LoopOptions, ValueSignal
from corral.wire.nodes import SURVIVORS_MAX, HeartbeatIn, HeartbeatOut, RegisterIn, RegisterOut
from corral.worker.address import AdvertisedAddresses
from corral.worker.bus_link import RETRY_S, BusFactory, BusGrant, BusLink, CommandHandler, MessageHandlers
from corral.worker.control_plane import ControlPlane, FailureLog
from corral.worker.hardware_reader import HardwareReader
from corral.worker.identity import WorkerIdentity

# A frontend that is just starting is ready within seconds, and a person is waiting: retry often, a few times.
EAGER_PAUSE_S = 0.1
EAGER_ATTEMPTS = 30
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0
# A missed heartbeat is repeated well before the lease ends.
HEARTBEAT_RETRY_S = 2.0
# How `corral.client` marks a response that no frontend wrote.
_UNEXPECTED_ANSWER = "unexpected_answer"
_FINAL_ERRORS = (NameTaken, InvalidRequest, NotAllowed, Unprocessable, BootSuperseded)


class MembershipDecision(StrEnum):
    """Decisions of a worker after a refused registration or heartbeat: retry, register again, or end."""

    AGAIN = "again"
    REGISTER = "register"
    END = "end"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRegistration:
    """The node id and approval that a frontend gave this worker with its latest registration."""

    node_id: str
    is_approved: bool


def decide_after_failed_registration(error: Exception, *, was_accepted: bool) -> MembershipDecision:
    if getattr(error, "slug", "") == _UNEXPECTED_ANSWER:
        return MembershipDecision.AGAIN
    if isinstance(error, NotAuthenticated):
        return MembershipDecision.AGAIN if was_accepted else MembershipDecision.END
    return MembershipDecision.END if isinstance(error, _FINAL_ERRORS) else MembershipDecision.AGAIN


def decide_after_failed_heartbeat(error: Exception) -> MembershipDecision:
    if getattr(error, "slug", "") == _UNEXPECTED_ANSWER:
        return MembershipDecision.AGAIN
    if isinstance(error, BootSuperseded):
        return MembershipDecision.END
    return MembershipDecision.REGISTER if isinstance(error, NotFound | NotAuthenticated) else MembershipDecision.AGAIN


def is_node_removed(error: Exception) -> bool:
    """Return whether a frontend says that an admin has removed the node."""
    return isinstance(error, NotFound) and error.slug == "node_not_found" and error.details.get("is_removed") is True


def compute_registration_pause_s(failures: int) -> float:
    """Return the pause: ten times a second for three seconds, then 1, 2, 4, … 30 seconds; the caller adds jitter."""
    assert failures > 0, "there is no pause before the first attempt"
    if failures <= EAGER_ATTEMPTS:
        return EAGER_PAUSE_S
    return float(min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(failures - EAGER_ATTEMPTS - 1, 10)))


log = structlog.get_logger(__name__)
# A frontend may be unreachable; the machine must not wait for it longer than this to shut down.
GOODBYE_LIMIT_S = 5.0
# A frontend that sends a nonsensical interval must not turn a worker into a load generator.
MIN_INTERVAL_S = 0.05
# Only credentials that live for seconds lead to so short a pause; it keeps the loop from spinning.
SHORTEST_PAUSE_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerProfile:
    """What a worker says of itself when it registers, read from its settings: name, version, labels, limits."""

    name: str
    version: str
    frontend: str
    boot_id: str
    node_type: NodeType = NodeType.BACKEND
    token: str | None = field(default=None, repr=False)
    labels: Mapping[str, str] = field(default_factory=dict)
    max_replicas_per_model: int = 1
    max_runs: int = 0
    # The kinds of runs that this version executes.
    run_kinds: tuple[str, ...] = ()
    vram_budget: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipDeps:
    """Dependencies of a worker's membership: frontends, NATS, hardware readings, clock and command handler."""

    control: ControlPlane
    open_bus: BusFactory
    hardware_reader: HardwareReader
    # Called at each registration: a machine that was carried elsewhere has another address.
    find_addresses: Callable[[], Awaitable[AdvertisedAddresses]]
    save_identity: Callable[[WorkerIdentity], Awaitable[None]]
    new_bus_key: Callable[[], tuple[str, str]]
    clock: Clock
    rng: Random
    # None on a node that gets no commands: an agent node that executes no runs.
    command_handler: CommandHandler | None = None
    # Returns what runs here once the engines of an earlier process are adopted; None before.
    wait_for_processes: Callable[[], Awaitable[Sequence[RunningProcess] | None]] | None = None


class MembershipMessenger:
    """Makes and sends a worker's registrations, heartbeats and goodbye to a frontend.

    Each has a fresh reading of the hardware.
    """

    def __init__(self, profile: WorkerProfile, deps: MembershipDeps, is_on_bus: Callable[[], bool]) -> None:
        self._profile = profile
        self._deps = deps
        self._is_on_bus = is_on_bus
        self._started_at = deps.clock.monotonic()
        # The last reading of the hardware.
        self._report: Mapping[str, object] = {}

    async def read_hardware(self) -> None:
        self._report = await self._deps.hardware_reader.read()

    def describe_node(self, node_id: str) -> NodeDescription:
        """Return what this worker says of itself on the bus, with the last reading of the hardware."""
        return NodeDescription(
            node_id=node_id,
            boot_id=self._profile.boot_id,
            name=self._profile.name,
            version=self._profile.version,
            uptime_s=self._deps.clock.monotonic() - self._started_at,
            hardware=dict(self._report),
        )

    async def send_registration(self, identity: WorkerIdentity) -> RegisterOut:
        await self.read_hardware()
        advertised = await self._deps.find_addresses()
        running = await self._deps.wait_for_processes() if self._deps.wait_for_processes else ()
        return await self._deps.control.register(self._make_registration_request(identity, advertised, running))

    async def send_heartbeat(self, node_id: str) -> HeartbeatOut:
        await self.read_hardware()
        own = {"boot_id": self._profile.boot_id, "bus_ok": self._is_on_bus()}
        beat = HeartbeatIn.model_validate({**self._report, **own})
        return await self._deps.control.send_heartbeat(node_id, beat)

    async def send_goodbye(self, node_id: str) -> None:
        """Deregister the node, if a frontend answers in time."""
        control, boot_id = self._deps.control, self._profile.boot_id

        async def deregister() -> None:
            try:
                async with asyncio.timeout(GOODBYE_LIMIT_S):
                    await attempt(lambda: control.drain(node_id, boot_id))
                    await control.deregister(node_id, boot_id)
            except TimeoutError as error:
                raise Unavailable(f"No frontend responded within {GOODBYE_LIMIT_S:g} s.") from error

        outcome = await attempt(deregister)
        if isinstance(outcome, AttemptFailure):
            log.warning("could not say goodbye; the node goes offline when its lease ends", problem=outcome.sentence)
        else:
            log.info("left the cluster", id=node_id)

    def _make_registration_request(
        self, identity: WorkerIdentity, advertised: AdvertisedAddresses, running: Sequence[RunningProcess] | None
    ) -> RegisterIn:
        profile = self._profile
        values: dict[str, Any] = dict(self._report) | {
            "name": profile.name,
            "node_type": str(profile.node_type),
            "credential": identity.credential,
            "boot_id": profile.boot_id,
            "bus_public_key": identity.bus_public_key,
            "token": profile.token,
            "address": advertised.address,
            "http_address": advertised.http_address,
            "labels": dict(profile.labels),
            "max_replicas_per_model": profile.max_replicas_per_model,
            "max_runs": profile.max_runs,
            "run_kinds": list(profile.run_kinds),
            "vram_budget": profile.vram_budget,
            "version": profile.version,
            "running": [_format_survivor(each) for each in running or () if each.state == "ready"][:SURVIVORS_MAX],
            "is_running_known": running is not None,
        }
        try:
            return RegisterIn.model_validate(values)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            raise InvalidRequest(f"This worker cannot register: {where}: {first['msg']}.") from error


class Membership:
    """Keeps a worker a member of its cluster: registers its node, sends heartbeats, joins NATS. A service."""

    name = "membership"

    def __init__(
        self,
        profile: WorkerProfile,
        identity: WorkerIdentity,
        deps: MembershipDeps,
        *,
        on_end: Callable[[BaseException | None], None],
    ) -> None:
        self._profile = profile
        self._identity = identity
        self._deps = deps
        self._on_end = on_end
        self._registration: NodeRegistration | None = None
        self._is_ending = False
        # The node whose engines and jobs were ended because it was removed.
        self._removed_id: str | None = None
        self._refusals = 0
        self._messenger = MembershipMessenger(profile, deps, lambda: self.link.is_connected)
        self._registration_failures = FailureLog("registration")
        self._heartbeat_failures = FailureLog("heartbeat")
        self._bus_failures = FailureLog("joining the bus")
        # An agent node's key for the API, received at registration.
        self.api_token: str | None = None
        self.heartbeat_answered: ValueSignal[HeartbeatOut] = ValueSignal()
        handlers = MessageHandlers(
            boot_id=profile.boot_id,
            describe=self.describe,
            wake=self.wake,
            stop=self._on_stop_request,
            command_handler=deps.command_handler,
        )
        self.link = BusLink(deps.open_bus, handlers, deps.clock)
        self.renewer = CredentialRenewer(
            deps.control,
            self.link,
            get_registration=lambda: self._registration,
            get_identity=lambda: self._identity,
            clock=deps.clock,
            rng=deps.rng,
        )
        self.loop = Loop(LoopOptions(name=self.name, interval_s=FIRST_PAUSE_S), self.tick, deps.clock, deps.rng)
        for loop in (self.loop, self.renewer.loop):
            loop.on_crash = on_end

    @property
    def node_id(self) -> str | None:
        return self._registration.node_id if self._registration else None

    @property
    def is_approved(self) -> bool:
        return self._registration is not None and self._registration.is_approved

    @property
    def ticket_key(self) -> str:
        """Return the public key that tickets of other nodes are checked with; empty as long as no frontend has sent
        it."""
        return self.link.ticket_key

    def find_not_ready_reason(self) -> str | None:
        """Return why this worker cannot take work now; None if it can."""
        if self._is_ending:
            return "stopping"
        if self._registration is None:
            return f"not registered: {self._registration_failures.latest or 'no response yet'}"
        if not self._registration.is_approved:
            return self._approval_hint
        return None if self.link.is_connected else "not on the bus"

    @property
    def _approval_hint(self) -> str:
        return f"waiting for approval: corral nodes approve {shlex.quote(self._profile.name)}"

    def wake(self) -> None:
        """Send a heartbeat now."""
        self.loop.wake()

    def describe(self) -> NodeDescription:
        return self._messenger.describe_node(self.node_id or "")

    async def start(self) -> None:
        await self._messenger.read_hardware()
        await self.loop.start()
        await self.renewer.loop.start()

    async def stop(self) -> None:
        """Leave the cluster: accept no new work, deregister, and disconnect from the bus."""
        self._is_ending = True
        await self.renewer.loop.stop()
        await self.loop.stop()
        if self._registration is not None:
            await self._messenger.send_goodbye(self._registration.node_id)
        await self.link.leave()

    async def tick(self) -> None:
        """Run one pass: a registration or a heartbeat."""
        if self._is_ending:
            return
        if self._registration is None:
            await self._register()
        else:
            await self._send_and_apply_heartbeat(self._registration)

    async def _register(self) -> None:
        outcome = await attempt(lambda: self._messenger.send_registration(self._identity))
        if isinstance(outcome, AttemptFailure):
            await self._handle_refused_registration(outcome.error)
            return
        self._registration_failures.record_recovery()
        await self._apply_registration(outcome.value)

    async def _handle_refused_registration(self, error: Exception) -> None:
        was_accepted = self._identity.is_accepted_as(self._profile.name, self._profile.frontend)
        if decide_after_failed_registration(error, was_accepted=was_accepted) is MembershipDecision.END:
            self._end(error)
            return
        if isinstance(error, NotAuthenticated) and self._identity.node_id is not None:
            # The node may have been removed while this worker was away. The response to a heartbeat says so.
            registration = NodeRegistration(node_id=self._identity.node_id, is_approved=False)
            heartbeat = await attempt(lambda: self._messenger.send_heartbeat(registration.node_id))
            if isinstance(heartbeat, AttemptFailure) and is_node_removed(heartbeat.error):
                await self._end_work_of_removed(registration.node_id)
        self._registration_failures.record_failure(error)
        self._refusals += 1
        # Much of the pause is random: after an outage a whole cluster must not come back in step.
        self._set_interval(compute_registration_pause_s(self._refusals), jitter=0.3)

    async def _apply_registration(self, answer: RegisterOut) -> None:
        registration = NodeRegistration(node_id=answer.id, is_approved=answer.approved)
        log.info("registered", node=answer.name, id=answer.id, approved=answer.approved)
        self._registration = registration
        self.api_token = answer.api_token or self.api_token
        self._set_interval(answer.heartbeat_interval_s)
        sent_key = self._identity.bus_public_key
        await self._save_node_id(answer.id)
        if not registration.is_approved:
            await self.link.leave()
            log.info(self._approval_hint, id=answer.id)
            return
        self._notify_command_handler()
        if self._identity.bus_public_key == sent_key:
            await self._join_bus(answer)
        # Otherwise, or when that failed, a credential is requested separately.
        self.renewer.loop.wake()

    async def _join_bus(self, answer: RegisterOut) -> None:
        if answer.nats_url is None or answer.nats_jwt is None or answer.nats_jwt_expires_in_s is None:
            return
        grant = BusGrant(
            node_id=answer.id,
            url=answer.nats_url,
            token=answer.nats_jwt,
            seed=self._identity.bus_seed,
            expires_in_s=answer.nats_jwt_expires_in_s,
            ticket_key=answer.ticket_key or "",
        )
        joined = await attempt(lambda: self.link.use_grant(grant))
        if isinstance(joined, AttemptFailure):
            self._bus_failures.record_failure(joined.error)
        else:
            self._bus_failures.record_recovery()

    async def _save_node_id(self, node_id: str) -> None:
        identity = self._identity.with_registration(node_id, self._profile.name, self._profile.frontend)
        if identity == self._identity:
            return
        if self._identity.node_id not in (None, node_id):
            # The previous node was removed, and its bus key revoked with it: the new node needs another key.
            identity = identity.with_bus_key(*self._deps.new_bus_key())
        self._identity = identity
        outcome = await attempt(lambda: self._deps.save_identity(identity))
        if isinstance(outcome, AttemptFailure):
            # The credential has been on the disk since before the first call; it leads to the same node again.
            log.warning("the node's id could not be saved", problem=outcome.sentence)

    async def _send_and_apply_heartbeat(self, registration: NodeRegistration) -> None:
        outcome = await attempt(lambda: self._messenger.send_heartbeat(registration.node_id))
        if isinstance(outcome, AttemptFailure):
            await self._handle_failed_heartbeat(outcome.error)
            return
        self._heartbeat_failures.record_recovery()
        self._refusals = 0
        answer = outcome.value
        self._set_interval(answer.heartbeat_interval_s)
        if answer.approved and not registration.is_approved:
            await self._handle_approval(registration)
        self.heartbeat_answered.fire(answer)

    async def _handle_failed_heartbeat(self, error: Exception) -> None:
        match decide_after_failed_heartbeat(error):
            case MembershipDecision.END:
                # The node belongs to the other process now: no goodbye in its name.
                self._registration = None
                self._end(error)
            case MembershipDecision.REGISTER:
                log.warning("this node is not known any more; registering again", problem=str(error))
                lost, self._registration = self._registration, None
                await self.link.leave()
                if lost is not None and is_node_removed(error):
                    await self._end_work_of_removed(lost.node_id)
                # Not at once: a frontend that takes every registration and no heartbeat must not be hammered.
                self._refusals += 1
                self._set_interval(compute_registration_pause_s(self._refusals))
            case MembershipDecision.AGAIN:
                self._heartbeat_failures.record_failure(error)
                self._set_interval(HEARTBEAT_RETRY_S)

    async def _end_work_of_removed(self, node_id: str) -> None:
        """End engines and jobs of a node that an admin has removed, once; a registration may make it another node."""
        if self._deps.command_handler is None or self._removed_id == node_id:
            return
        log.warning("this node was removed from the cluster: its engines and jobs end", id=node_id)
        outcome = await attempt(self._deps.command_handler.on_removed)
        if isinstance(outcome, AttemptFailure):
            log.warning("not everything of the removed node has ended", problem=outcome.sentence)
        else:
            self._removed_id = node_id

    async def _handle_approval(self, registration: NodeRegistration) -> None:
        log.info("approved", id=registration.node_id)
        if self._profile.node_type is NodeType.AGENT:
            # The same process registers once more: that is how an agent receives its API key.
            await self._register()
            return
        self._registration = NodeRegistration(node_id=registration.node_id, is_approved=True)
        self._notify_command_handler()
        self.renewer.loop.wake()

    def _notify_command_handler(self) -> None:
        if self._deps.command_handler is not None:
            self._deps.command_handler.on_registered()

    def _on_stop_request(self) -> None:
        self._on_end(None)

    def _end(self, error: Exception) -> None:
        self._is_ending = True
        self._on_end(error)

    def _set_interval(self, interval_s: float, *, jitter: float = 0.1) -> None:
        pause_s = max(MIN_INTERVAL_S, interval_s)
        self.loop.options = LoopOptions(name=self.name, interval_s=pause_s, jitter=jitter)


def _format_survivor(process: RunningProcess) -> dict[str, object]:
    return {
        "model": process.model,
        "replica": process.replica,
        "address": process.address,
        "revision": process.revision,
    }


class CredentialRenewer:
    """Renews a worker's NATS credential before it expires.

    Retries until a frontend has issued one; a request changes nothing about the node. While no frontend answers,
    the worker neither gives up nor ends. The connection in use stays until its own credential expires.
    """

    def __init__(
        self,
        control: ControlPlane,
        link: BusLink,
        *,
        get_registration: Callable[[], NodeRegistration | None],
        get_identity: Callable[[], WorkerIdentity],
        clock: Clock,
        rng: Random,
    ) -> None:
        self._control = control
        self._link = link
        self._get_registration = get_registration
        self._get_identity = get_identity
        self._failure_log = FailureLog("getting a bus credential")
        self.loop = Loop(LoopOptions(name="bus credential", interval_s=RETRY_S), self.tick, clock, rng)

    async def tick(self) -> None:
        registration = self._get_registration()
        if registration is None or not registration.is_approved:
            self._set_interval(RETRY_S)
            return
        due_s = self._link.compute_renewal_delay_s()
        if due_s > 0:
            self._set_interval(due_s)
            return
        outcome = await attempt(lambda: self._renew(registration))
        if isinstance(outcome, AttemptFailure):
            self._failure_log.record_failure(outcome.error)
            self._set_interval(RETRY_S if self._link.has_credential else HEARTBEAT_RETRY_S)
            return
        self._failure_log.record_recovery()
        self._set_interval(self._link.compute_renewal_delay_s())

    async def _renew(self, registration: NodeRegistration) -> None:
        identity = self._get_identity()
        fresh = await self._control.refresh_credentials(registration.node_id, identity.bus_public_key)
        if self._get_registration() != registration or self._get_identity().bus_seed != identity.bus_seed:
            # The node was registered again meanwhile, and this token is not for the new one.
            return
        await self._link.use_grant(
            BusGrant(
                node_id=registration.node_id,
                url=fresh.nats_url,
                token=fresh.nats_jwt,
                seed=identity.bus_seed,
                expires_in_s=fresh.nats_jwt_expires_in_s,
                ticket_key=fresh.ticket_key,
            )
        )

    def _set_interval(self, seconds: float) -> None:
        pause_s = max(SHORTEST_PAUSE_S, min(seconds, RETRY_S))
        self.loop.options = LoopOptions(name=self.loop.name, interval_s=pause_s)


# A little more than an engine has to answer when it is adopted.
WAIT_S = 12.0


class SurvivorReader:
    """Lists the engines that run on a worker, once those left by an earlier worker process are adopted. A service.

    A worker that registers before adoption would report that nothing runs, and its replicas would get no requests until
    its first report. Guarantee: the wait is bounded; an engine that does not respond must not keep the node away for
    long. A worker that is still adopting says so: its replicas stay, and the first report says which of them run.
    """

    name = "survivors"

    def __init__(self, list_processes: Callable[[], tuple[RunningProcess, ...]]) -> None:
        self._list_processes = list_processes
        self._adopted_event = asyncio.Event()

    async def start(self) -> None:
        self._adopted_event.set()

    async def stop(self) -> None:
        return

    async def wait_for_processes(self) -> tuple[RunningProcess, ...] | None:
        """Return the processes of this machine, or None if the worker has not finished looking within the limit."""
        try:
            async with asyncio.timeout(WAIT_S):
                await self._adopted_event.wait()
        except TimeoutError:
            return None
        return self._list_processes()
