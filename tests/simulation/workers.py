"""A worker machine of the simulated cluster: the product's agent, with a wire, a bus and a clock of its own.

The machine keeps its identity over crashes, as a disk does. A process that ends by itself is started again after a
while, as by a service manager; one that was refused for its token waits until somebody gives it another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextvars import Context
from typing import Protocol

import nkeys

from corral.adapters.nats.keys import NatsKeyKind, key_from_seed
from corral.bus.subjects import BusRole
from corral.domain.errors import CorralError
from corral.domain.node import NodeType
from corral.runtime.services import Service, ServiceGroup
from corral.worker.address import AdvertisedAddresses
from corral.worker.bus_link import BusGrant, CommandHandler, WorkerBus
from corral.worker.control_plane import CALL_TIMEOUT_S, HttpControlPlane, _FrontendTransports
from corral.worker.hardware_reader import HardwareReader
from corral.worker.identity import WorkerIdentity
from corral.worker.membership import Membership, MembershipDeps, WorkerProfile
from tests.simulation.bus import SimBus
from tests.simulation.clock import SimClock, SimIds
from tests.simulation.machine import Machine
from tests.simulation.wire import Server, Wire, WireTransport
from tests.simulation.worlds import SimulationDeps

GIB = 1024**3
RESTART_AFTER_S = 10.0


class SimWorkerBus(SimBus):
    async def refresh_credential(self) -> None:
        """Do nothing: the newest credential is used at the next connect, and the simulated bus ignores it."""


class SimReadings:
    """Reads the hardware of a machine with one GPU whose free memory moves."""

    def __init__(self, around: SimulationDeps, name: str) -> None:
        self._rng = around.rng(f"hardware of {name}")

    async def read(self) -> Mapping[str, object]:
        return {
            "total_vram": 24 * GIB,
            "available_vram": self._rng.randrange(24) * GIB,
            "total_ram": 64 * GIB,
            "available_ram": self._rng.randrange(64) * GIB,
            "gpu_vendor": "nvidia",
        }


class Work(Protocol):
    """Does what a machine does for jobs: made again with each process, on a disk that stays."""

    def begin(self, control: HttpControlPlane, boot_id: str, services: ServiceGroup) -> CommandHandler: ...

    def services(self, place: Callable[[], str | None]) -> tuple[Service, ...]: ...

    def power_cut(self) -> None:
        """Stop all writing by what still runs of this process."""
        ...

    def lie_in_wait(self, moment: str | None, strike: Callable[[], None]) -> None:
        """Call `strike` when a job gets to this moment; None: not any more."""
        ...


class SimWorker:
    """Runs the worker processes of a machine. `work` is what the machine does beside being a member; without it the
    worker takes no jobs."""

    labels: Mapping[str, str] = {"rack": "r1"}
    slots = 1

    def __init__(
        self,
        name: str,
        around: SimulationDeps,
        servers: Mapping[str, Server],
        work: Work | None = None,
        node_type: NodeType = NodeType.BACKEND,
    ) -> None:
        rng = around.rng(f"machine {name}")
        self.name = name
        self.node_type = node_type
        self._work = work
        self.token: str | None = None
        self.node_id: str | None = None
        self._around = around
        self._rng = rng
        # Its wall clock is wrong by up to five minutes and runs up to one percent fast or slow.
        self.clock = SimClock(around.loop, offset_s=rng.uniform(-300, 300), drift=rng.uniform(-0.01, 0.01))
        self._ids = SimIds(around.rng(f"ids of {name}"), self.clock)
        seed, public = self._new_bus_key()
        self._identity = WorkerIdentity(credential=f"cn_{self._ids.new_secret()}", bus_seed=seed, bus_public_key=public)
        self._servers = servers
        self._urls = sorted(servers)
        rng.shuffle(self._urls)
        self._bus: SimWorkerBus | None = None
        self._services: ServiceGroup | None = None
        self._restarting: asyncio.TimerHandle | None = None
        self.agent: Membership | None = None
        self.machine = Machine(name, around.loop, around.turnstile)
        self.wire = self._new_wire()
        # Whether it is meant to run: a process that ended by itself comes back, one that was stopped does not.
        self.should_run = False
        self.was_refused_for_its_token = False

    @property
    def is_running(self) -> bool:
        return self._services is not None

    @property
    def _role(self) -> BusRole:
        return BusRole.AGENT if self.node_type is NodeType.AGENT else BusRole.WORKER

    @property
    def waits_for_a_token(self) -> bool:
        """Return whether it was removed and its token does not let it in again: it retries until it gets another
        one."""
        return self.agent is not None and "join token" in (self.agent.find_not_ready_reason() or "")

    def start(self) -> None:
        """Start a new process with a new boot id."""
        self.should_run = True
        if self._services is not None or self.token is None:
            return
        around, boot_id = self._around, self._ids.new_id()
        around.trace.add(f"{self.name} starts as {boot_id}")
        around.diary.silent_since_s.pop(self.name, None)
        self.wire = self._new_wire(faults_of=self.wire)
        services = ServiceGroup()
        profile = WorkerProfile(
            name=self.name,
            version="1",
            frontend=",".join(self._urls),
            boot_id=boot_id,
            token=self.token,
            labels=self.labels,
            node_type=self.node_type,
            max_replicas_per_model=self.slots,
        )
        control = self._control()
        duties = self._work.begin(control, boot_id, services) if self._work is not None else None
        agent = Membership(profile, self._identity, self._make_deps(control, duties), on_end=services.request_stop)
        self.agent = agent
        services.add(agent)
        if self._work is not None:
            services.add(*self._work.services(lambda: agent.node_id if agent.is_approved else None))
        self._services = services
        self.machine.run(self._live(services), name="process")

    async def stop(self) -> None:
        """Stop the process as SIGTERM does, with a goodbye."""
        self.should_run = False
        if self._services is None:
            return
        self._around.trace.add(f"{self.name} stops")
        self.machine.thaw()
        self._services.request_stop()
        await asyncio.wait(self._around.loop.tasks_of(self.machine.name), timeout=60)
        await self.crash()

    async def crash(self) -> None:
        """Stop the process as a power cut does. It stays down until it is started."""
        self.should_run = False
        if self._services is not None:
            self._around.trace.add(f"{self.name} is gone")
        self._ended()
        if self._work is not None:
            self._work.power_cut()
        self.wire.is_dead = True
        if self._bus is not None:
            self._bus.unplug()
        await self.machine.kill()

    def lie_in_wait(self, moment: str | None) -> None:
        """Have the power cut at a moment of a job."""
        if self._work is not None:
            self._work.lie_in_wait(moment, self._strike)

    def _strike(self) -> None:
        self._around.loop.create_task(self.crash(), name=f"ambush of {self.name}", context=Context())

    def _ended(self) -> None:
        self._services = None
        self.agent = None
        self._around.diary.silent_since_s.setdefault(self.name, self._around.now())

    async def _live(self, services: ServiceGroup) -> None:
        try:
            await services.run()
        except CorralError as error:
            self._around.trace.add(f"{self.name} ends: {error.slug}")
            self.was_refused_for_its_token = error.slug.startswith("join_token")
            if error.slug not in ("boot_superseded",) and not self.was_refused_for_its_token:
                self._around.violated(f"{self.name} gave up: {error.slug}: {error}")
        self._ended()
        if self._bus is not None:
            self._bus.unplug()
        if self.should_run and not self.was_refused_for_its_token:
            self._around.loop.call_later(RESTART_AFTER_S, self._start_again)

    def _start_again(self) -> None:
        if self.should_run:
            self.start()

    def _new_wire(self, faults_of: Wire | None = None) -> Wire:
        """Make the cables of a new process; the faults of the machine's network stay."""
        rng = self._around.rng(f"wire of {self.name} at {self._around.now()!r}")
        wire = Wire(client=self.name, servers=self._servers, rng=rng, clock=self.clock)
        if faults_of is not None:
            wire.faults, wire.unreachable = faults_of.faults, faults_of.unreachable
        return wire

    def _make_deps(self, control: HttpControlPlane, duties: CommandHandler | None) -> MembershipDeps:
        return MembershipDeps(
            control=control,
            command_handler=duties,
            open_bus=self._open_bus,
            hardware_reader=self.readings(),
            find_addresses=self._addresses,
            save_identity=self._save,
            new_bus_key=self._new_bus_key,
            clock=self.clock,
            rng=self._around.rng(f"jitter of {self.name}"),
        )

    def readings(self) -> HardwareReader:
        return SimReadings(self._around, self.name)

    def _control(self) -> HttpControlPlane:
        """Make the product's own client of the control plane, failover and all, over this machine's wire."""
        control = HttpControlPlane(tuple(self._urls), self._identity.credential, clock=self.clock, ids=self._ids)

        def transport(url: str, key: str | None) -> WireTransport:
            return WireTransport(self.wire, url, key, timeout_s=CALL_TIMEOUT_S, ids=self._ids)

        control._frontends = [
            _FrontendTransports(anonymous=transport(url, None), authenticated=transport(url, self._identity.credential))
            for url in self._urls
        ]
        return control

    def _open_bus(self, grant: BusGrant, _newest: Callable[[], BusGrant]) -> WorkerBus:
        self._bus = SimWorkerBus(self._around.loop, self._around.network, role=self._role, owner_id=grant.node_id)
        return self._bus

    def _new_bus_key(self) -> tuple[str, str]:
        seed = nkeys.encode_seed(self._rng.randbytes(32), nkeys.PREFIX_BYTE_USER).decode()
        return seed, key_from_seed(seed, NatsKeyKind.USER).public

    async def _addresses(self) -> AdvertisedAddresses:
        return AdvertisedAddresses(address=f"{self.name}:9000", http_address=f"{self.name}:9001")

    async def _save(self, identity: WorkerIdentity) -> None:
        if self._rng.random() < 0.1:
            raise OSError("the disk is full")
        self._identity = identity
        self.node_id = identity.node_id
