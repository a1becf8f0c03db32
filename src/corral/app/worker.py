"""`corral worker`: the program on one machine. It needs neither PostgreSQL's nor the API's libraries.

Told to stop, it takes no more jobs, keeps what it has fetched, ends its engines and says goodbye, in this order.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import structlog

from corral import __version__
from corral.adapters.nats.client import NatsBus
from corral.adapters.nats.connection import Endpoint
from corral.adapters.nats.credentials import credential, new_user_key
from corral.adapters.nats.keys import KeyKind, key_from_seed
from corral.adapters.nats.tls import client_tls
from corral.adapters.system import SystemClock, SystemIds
from corral.app.logs import configure_logging
from corral.app.settings import WorkerSettings, parse_registry_credentials
from corral.app.settings.values import parse_names
from corral.domain.node import NodeType
from corral.domain.prefetch import PrefetchEntry, PrefetchKind
from corral.ports.runtime import Clock, Ids
from corral.runtime.services import Service, Services
from corral.worker.address import Advertised, advertise
from corral.worker.agent import Agent, Profile, Surroundings
from corral.worker.backend_reports import BackendReports
from corral.worker.backends.installer import DiskInstaller
from corral.worker.backends.options import InstallerOptions
from corral.worker.commands import BackendCommands, CommandParts
from corral.worker.files.node import FilesParts, compose_files
from corral.worker.files.places import Library
from corral.worker.files.pulling import PullOptions
from corral.worker.files.server import Gate
from corral.worker.hardware import RealMachine
from corral.worker.health import HealthServer, Routes, listen
from corral.worker.holdings import HoldingsReports
from corral.worker.home import hold_home
from corral.worker.http_control import HttpControl, frontend_urls
from corral.worker.identity import BusKeys, IdentityFile
from corral.worker.jobs.collecting import DailyCollection
from corral.worker.jobs.journal import DiskJournal
from corral.worker.jobs.runner import JobRunner, RunnerParts
from corral.worker.link import Duties, Grant, OpenBus, WorkerBus
from corral.worker.prefetch import PrefetchRequester
from corral.worker.processes.options import SupervisorOptions
from corral.worker.processes.supervisor import Parts, Supervisor
from corral.worker.readings import MachineReadings
from corral.worker.survivors import Survivors
from corral.worker.work import Files, Installer, Processes

log = structlog.get_logger(__name__)

EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - compared with, not listened on
BUS_KEYS = BusKeys(
    new=new_user_key,
    public_of=lambda seed: key_from_seed(seed, KeyKind.USER).public,
)


def run_worker(settings: WorkerSettings) -> int:
    """Work until SIGINT, SIGTERM or a stop over the bus; the exit code. Raises what ends a worker for good."""
    configure_logging(settings.log_format, settings.log_level)
    with hold_home(settings.worker_home), asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_work(settings))
    return 0


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if sys.platform == "win32":
        return None
    import uvloop  # noqa: PLC0415 - not there on Windows

    return uvloop.new_event_loop


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """A worker that is put together and not started; the caller holds its folder."""

    services: Services
    agent: Agent
    health: HealthServer
    # An agent node has neither.
    runner: JobRunner | None = None
    prefetch: PrefetchRequester | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlace:
    """Where the control plane is, and what it has told this worker so far."""

    urls: tuple[str, ...]
    credential: str = field(repr=False)
    node_id: Callable[[], str | None]
    ticket_key: Callable[[], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What everything here is made with."""

    settings: WorkerSettings
    clock: Clock
    ids: Ids
    rng: random.Random
    place: ClusterPlace


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What installs, what has files and what runs engines; `services` are started before the jobs and stopped after
    them."""

    installer: Installer
    files: Files
    processes: Processes
    services: tuple[Service, ...] = ()
    # What is served on the worker's port.
    routes: tuple[Routes, ...] = ()


MakeTools = Callable[[World], Tools]


async def _work(settings: WorkerSettings) -> None:
    worker = compose_worker(settings)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, worker.services.end)
    log.info("worker starts", node=settings.name, version=__version__, join=settings.join, port=worker.health.port)
    await worker.services.run()
    log.info("worker stopped", node=settings.name)


def real_tools(world: World) -> Tools:
    """Engines on this machine's disk, as this machine's processes."""
    settings, environment = world.settings, dict(os.environ)
    installer = DiskInstaller(
        settings.backends_dir,
        world.clock,
        world.ids,
        world.rng,
        InstallerOptions(
            headroom_bytes=settings.disk_headroom_bytes,
            require_integrity=settings.require_integrity,
            system_root=settings.system_backends_dir,
            environment=environment,
            registry_credentials=_registry_credentials(settings),
        ),
    )
    options = SupervisorOptions(
        root=settings.worker_home / "engines",
        environment=environment,
        host=settings.engine_host,
        advertised_host=_engines_reached_at(settings),
        port_base=settings.engine_port,
        port_max=settings.engine_port_max,
        threads=os.cpu_count() or 1,
    )
    supervisor = Supervisor(options, Parts(find=installer.runnable, clock=world.clock, ids=world.ids, rng=world.rng))
    files, routes = compose_files(_files_parts(world, environment))
    return Tools(installer=installer, files=files, processes=supervisor, services=(files, supervisor), routes=(routes,))


def _files_parts(world: World, environment: Mapping[str, str]) -> FilesParts:
    settings, place = world.settings, world.place
    return FilesParts(
        models_dir=settings.models_dir,
        inbox_dir=settings.worker_home / "inbox",
        library=Library(urls=place.urls, credential=place.credential, node_id=place.node_id),
        gate=Gate(ticket_key=place.ticket_key, node_id=place.node_id),
        clock=world.clock,
        pull=PullOptions(
            parallel=settings.parallel_chunks,
            headroom_bytes=settings.disk_headroom_bytes,
            bandwidth_bytes_per_s=settings.bandwidth_limit_bytes,
            environment=environment,
        ),
        shared_dir=settings.shared_models_dir,
    )


def _registry_credentials(settings: WorkerSettings) -> dict[str, str]:
    given = settings.registry_credentials
    return {} if given is None else parse_registry_credentials(given.get_secret_value())


def compose_worker(settings: WorkerSettings, make_tools: MakeTools = real_tools) -> Worker:
    clock, ids = SystemClock(), SystemIds()
    boot_id = ids.new_id()
    urls = frontend_urls(settings.join)
    file = IdentityFile(settings.worker_home, BUS_KEYS)
    identity = file.load_or_create(ids)
    services = Services()
    control = HttpControl(urls, identity.credential, clock=clock, ids=ids)
    rng = random.Random()  # noqa: S311 - jitter, not secrets
    open_bus = bus_opener(settings, clock, rng, on_crash=services.end)
    listener = listen(settings.http_host, settings.http_port)
    port = listener.getsockname()[1]
    # The tools ask the agent, which is made of them: only when they work.
    place = ClusterPlace(
        urls=urls,
        credential=identity.credential,
        node_id=lambda: agent.node_id,
        ticket_key=lambda: agent.ticket_key,
    )
    world = World(settings=settings, clock=clock, ids=ids, rng=rng, place=place)
    tools = make_tools(world) if settings.node_type is NodeType.BACKEND else None
    work = None
    if tools is not None:
        work = _work_of(world, tools, control, boot_id, on_crash=services.end)
    around = Surroundings(
        control=control,
        open_bus=open_bus,
        readings=MachineReadings(
            RealMachine(), models_dir=settings.models_dir, capability=settings.capability, clock=clock
        ),
        addresses=lambda: asyncio.to_thread(_advertised, settings, port, urls),
        save_identity=lambda changed: asyncio.to_thread(file.save, changed),
        new_bus_key=BUS_KEYS.new,
        clock=clock,
        rng=rng,
        duties=work.duties if work else None,
        running=work.survivors.running if work else None,
    )
    agent = Agent(_profile(settings, boot_id), identity, around, on_end=services.end)
    health = HealthServer(listener, agent.not_ready, tools.routes if tools else ())
    services.add(_Closing(control), health, agent)
    if work is None:
        return Worker(services=services, agent=agent, health=health)
    for reports in work.reports:
        reports.place = lambda: agent.node_id if agent.is_approved else None
    _connect_prefetch(work, agent)
    # One that is not registered tries again at its own pace.
    work.tell_figures(lambda: agent.wake() if agent.node_id is not None else None)
    services.add(*work.services)
    return Worker(services=services, agent=agent, health=health, runner=work.runner, prefetch=work.prefetch)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    duties: Duties
    runner: JobRunner
    reports: tuple[BackendReports | HoldingsReports, ...]
    survivors: Survivors
    services: tuple[Service, ...]
    processes: Processes
    prefetch: PrefetchRequester

    def tell_figures(self, wake: Callable[[], None]) -> None:
        """What is free is told as soon as an engine has started or ended: decisions about room wait for it."""
        told = self.processes.changed

        def changed() -> None:
            told()
            wake()

        self.processes.changed = changed


def _work_of(
    world: World, tools: Tools, control: HttpControl, boot_id: str, *, on_crash: Callable[[BaseException], None]
) -> _Work:
    runner = JobRunner(
        RunnerParts(
            installer=tools.installer,
            files=tools.files,
            processes=tools.processes,
            journal=DiskJournal(world.settings.worker_home),
            clock=world.clock,
            rng=world.rng,
            boot_id=boot_id,
            max_parallel=world.settings.max_parallel_jobs,
            on_crash=on_crash,
        )
    )
    reports = BackendReports(control, runner.holdings, boot_id=boot_id, clock=world.clock, rng=world.rng)
    holdings = HoldingsReports(control, tools.processes, tools.files, boot_id=boot_id, clock=world.clock, rng=world.rng)
    for each in (reports, holdings):
        each.loop.on_crash = on_crash
    runner.changed = reports.wake
    duties = BackendCommands(
        CommandParts(
            runner=runner,
            reports=reports,
            holdings=holdings,
            installer=tools.installer,
            files=tools.files,
            processes=tools.processes,
            boot_id=boot_id,
        )
    )
    collection = DailyCollection((tools.installer, tools.files), world.clock, world.rng, on_crash)
    survivors = Survivors(tools.processes.running)
    entries = _prefetch_entries(world.settings)
    prefetch = PrefetchRequester(control, entries, boot_id=boot_id, clock=world.clock, rng=world.rng)
    prefetch.loop.on_crash = on_crash
    services = (*tools.services, survivors, runner, reports, holdings, collection, *((prefetch,) if entries else ()))
    return _Work(
        duties=duties,
        runner=runner,
        reports=(reports, holdings),
        survivors=survivors,
        services=services,
        processes=tools.processes,
        prefetch=prefetch,
    )


def _prefetch_entries(settings: WorkerSettings) -> tuple[PrefetchEntry, ...]:
    backends = [PrefetchEntry(kind=PrefetchKind.BACKEND, name=name) for name in parse_names(settings.prefetch_backends)]
    models = [PrefetchEntry(kind=PrefetchKind.MODEL, name=name) for name in parse_names(settings.prefetch_models)]
    return (*backends, *models)


def _connect_prefetch(work: _Work, agent: Agent) -> None:
    """Have the prefetch list asked for as soon as a frontend knows what this approved node has."""
    prefetch = work.prefetch

    def place() -> str | None:
        node_id = agent.node_id if agent.is_approved else None
        return node_id if all(reports.taken_for == node_id for reports in work.reports) else None

    def on_taken() -> None:
        if prefetch.taken_for != place():
            prefetch.wake()

    prefetch.place = place
    for reports in work.reports:
        reports.on_taken = on_taken


def _engines_reached_at(settings: WorkerSettings) -> str:
    """The host under which others find what listens on `engine_host`."""
    if settings.engine_host not in EVERYWHERE:
        return settings.engine_host
    advertised = _advertised(settings, 0, frontend_urls(settings.join))
    return advertised.address.rpartition(":")[0].strip("[]")


def _profile(settings: WorkerSettings, boot_id: str) -> Profile:
    return Profile(
        name=settings.name,
        version=__version__,
        frontend=settings.join,
        boot_id=boot_id,
        node_type=settings.node_type,
        token=settings.token.get_secret_value() if settings.token else None,
        labels=settings.labels,
        max_replicas_per_model=settings.max_replicas_per_model,
        vram_budget=settings.vram_budget,
    )


def _advertised(settings: WorkerSettings, port: int, urls: tuple[str, ...]) -> Advertised:
    return advertise(
        wanted=settings.address,
        engine_host=settings.engine_host,
        http_host=settings.http_host,
        http_port=port,
        frontends=urls,
    )


def bus_opener(
    settings: WorkerSettings, clock: Clock, rng: random.Random, *, on_crash: Callable[[BaseException], None]
) -> OpenBus:
    """How a bus is made of what a frontend grants; a wrong certificate is told now, not at the first grant."""
    tls = client_tls(tls_ca=settings.nats_tls_ca, tls_cert=settings.nats_tls_cert, tls_key=settings.nats_tls_key)

    def open_bus(grant: Grant, newest: Callable[[], Grant]) -> WorkerBus:
        urls = tuple(url.strip() for url in (settings.nats_url or grant.url).split(","))
        endpoint = Endpoint(urls=urls, client_name=f"corral worker {settings.name}", tls=tls)
        return NatsBus(
            endpoint,
            lambda: credential(newest().token, newest().seed, subject_id=grant.node_id),
            clock=clock,
            rng=rng,
            on_crash=on_crash,
        )

    return open_bus


class _Closing:
    """Connections to the frontends are closed last: the goodbye needs them."""

    name = "control"

    def __init__(self, control: HttpControl) -> None:
        self._control = control

    async def start(self) -> None:
        return

    async def stop(self) -> None:
        await self._control.close()
