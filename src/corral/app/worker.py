"""`corral worker`: the process on one machine. It needs neither PostgreSQL's nor the API's libraries.

On a stop request it accepts no more jobs, keeps the files that it has fetched, stops its engines and deregisters, in
this order.
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
from corral.adapters.nats.connection import NatsEndpoint, make_client_tls
from corral.adapters.nats.credentials import make_credential, new_user_key
from corral.adapters.nats.keys import NatsKeyKind, key_from_seed
from corral.adapters.system import SystemClock, SystemIdGenerator
from corral.app.logs import configure_logging
from corral.app.settings import WorkerSettings, parse_registry_credentials
from corral.app.settings.values import parse_names
from corral.domain.errors import INSTALL_HINT
from corral.domain.model import PrefetchEntry, PrefetchKind
from corral.domain.node import NodeType
from corral.domain.run import RunKind
from corral.ports.runtime import Clock, IdGenerator
from corral.runtime.services import Service, ServiceGroup
from corral.runtime.tasks import TaskSet
from corral.wire.runner_protocol import PROGRAM_LIMITS_VARIABLE, SERVER_GRACE_VARIABLE
from corral.worker.address import AdvertisedAddresses, choose_advertised_addresses
from corral.worker.backends.installer import DiskInstaller
from corral.worker.backends.sources.staging_source import InstallerOptions
from corral.worker.bus_link import BusFactory, BusGrant, CommandHandler, WorkerBus
from corral.worker.command_handler import BackendCommandHandler, CommandHandlerDeps, RunCommandHandler
from corral.worker.control_plane import HttpControlPlane, parse_frontend_urls
from corral.worker.control_reporter import BackendReporter, HoldingsReporter
from corral.worker.files.chunk_client import LibraryAccess
from corral.worker.files.content_puller import PullOptions
from corral.worker.files.file_routes import TicketContext
from corral.worker.files.node_files import NodeFilesDeps, compose_files
from corral.worker.hardware import LocalHardware
from corral.worker.hardware_reader import LocalHardwareReader
from corral.worker.http_server import HttpRoutes, WorkerHttpServer, open_listener
from corral.worker.identity import BusKeyFactory, WorkerIdentityFile, hold_home
from corral.worker.job_ports import BackendInstaller, ModelFiles, ProcessSupervisor
from corral.worker.jobs.garbage_collector import DailyGarbageCollector
from corral.worker.jobs.journal import DiskJobJournal
from corral.worker.jobs.runner import JobRunner, JobRunnerDeps
from corral.worker.membership import Membership, MembershipDeps, SurvivorReader, WorkerProfile
from corral.worker.prefetch import PrefetchRequester
from corral.worker.processes.engine_process import EngineSupervisorOptions
from corral.worker.processes.supervisor import EngineSupervisor, EngineSupervisorDeps
from corral.worker.programs.program_host import ProgramHost, ProgramHostDeps, ProgramWork
from corral.worker.programs.program_preparer import ProgramPreparer, ProgramPreparerDeps
from corral.worker.programs.quantizer import Quantizer, has_quantizer_build
from corral.worker.programs.trainer import Trainer
from corral.worker.programs.training_exporter import TrainingExporter
from corral.worker.runs.executor import RunExecutor, RunExecutorDeps
from corral.worker.runs.program_limits import find_program_limits
from corral.worker.runs.runner_supervisor import (
    RUNNER_COMMAND,
    RunnerOptions,
    RunnerSupervisor,
    clean_runner_environment,
    list_missing_runner_modules,
)

log = structlog.get_logger(__name__)

ANY_ADDRESSES = ("0.0.0.0", "::")  # noqa: S104 - compared with, not listened on
BUS_KEYS = BusKeyFactory(
    make_key_pair=new_user_key,
    derive_public_key=lambda seed: key_from_seed(seed, NatsKeyKind.USER).public,
)


def run_worker(settings: WorkerSettings) -> int:
    """Run until SIGINT, SIGTERM or a stop command over the bus, and return the exit code. Raises the error that ends a
    worker for good."""
    configure_logging(settings.log_format, settings.log_level)
    with hold_home(settings.worker_home), asyncio.Runner(loop_factory=_pick_loop_factory()) as runner:
        runner.run(_run_worker(settings))
    return 0


def _pick_loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if sys.platform == "win32":
        return None
    import uvloop  # noqa: PLC0415 - not there on Windows

    return uvloop.new_event_loop


@dataclass(frozen=True, slots=True, kw_only=True)
class ComposedWorker:
    """One worker with all its services wired together, before it is started."""

    services: ServiceGroup
    membership: Membership
    health: WorkerHttpServer
    # Both are None on an agent node.
    runner: JobRunner | None = None
    prefetch: PrefetchRequester | None = None
    # None on a node that executes no runs.
    run_services: RunServices | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlaneEndpoint:
    """How a worker reaches its frontends: their addresses, and the node id and ticket key that they sent."""

    urls: tuple[str, ...]
    credential: str = field(repr=False)
    node_id: Callable[[], str | None]
    ticket_key: Callable[[], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerDeps:
    """Dependencies of all parts of a worker: settings, clock, ids and the frontends' addresses."""

    settings: WorkerSettings
    clock: Clock
    ids: IdGenerator
    rng: random.Random
    control_plane: ControlPlaneEndpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerTools:
    """The parts of a worker that serve models: installer, model files and engine processes.

    `services` start before the jobs and stop after them.
    """

    installer: BackendInstaller
    files: ModelFiles
    processes: ProcessSupervisor
    services: tuple[Service, ...] = ()
    # Routes that are served on the worker's port.
    routes: tuple[HttpRoutes, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunServices:
    """The parts of a worker that execute runs: the runner process, and the executor that hands runs to it."""

    process: RunnerSupervisor
    executor: RunExecutor
    # How many runs it executes in its runner process; 0: none, but programs perhaps.
    max_runs: int


WorkerToolsFactory = Callable[[WorkerDeps], WorkerTools]


async def _run_worker(settings: WorkerSettings) -> None:
    worker = compose_worker(settings)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, worker.services.request_stop)
    log.info("worker starts", node=settings.name, version=__version__, join=settings.join, port=worker.health.port)
    await worker.services.run()
    log.info("worker stopped", node=settings.name)


def make_real_tools(deps: WorkerDeps) -> WorkerTools:
    """Build the tools that install backends on this machine's disk and run engines as its processes."""
    settings, environment = deps.settings, dict(os.environ)
    installer = DiskInstaller(
        settings.backends_dir,
        deps.clock,
        deps.ids,
        deps.rng,
        InstallerOptions(
            headroom_bytes=settings.disk_headroom_bytes,
            require_integrity=settings.require_integrity,
            system_root=settings.system_backends_dir,
            environment=environment,
            registry_credentials=_read_registry_credentials(settings),
        ),
    )
    options = EngineSupervisorOptions(
        root=settings.worker_home / "engines",
        environment=environment,
        host=settings.engine_host,
        advertised_host=_find_engine_host(settings),
        port_base=settings.engine_port,
        port_max=settings.engine_port_max,
        threads=os.cpu_count() or 1,
    )
    supervisor = EngineSupervisor(
        options,
        EngineSupervisorDeps(find_runnable=installer.find_runnable, clock=deps.clock, ids=deps.ids, rng=deps.rng),
    )
    files, routes = compose_files(_make_files_deps(deps, environment))
    return WorkerTools(
        installer=installer, files=files, processes=supervisor, services=(files, supervisor), routes=(routes,)
    )


def _make_files_deps(deps: WorkerDeps, environment: Mapping[str, str]) -> NodeFilesDeps:
    settings, endpoint = deps.settings, deps.control_plane
    return NodeFilesDeps(
        models_dir=settings.models_dir,
        inbox_dir=settings.worker_home / "inbox",
        library=LibraryAccess(urls=endpoint.urls, credential=endpoint.credential, get_node_id=endpoint.node_id),
        tickets=TicketContext(get_ticket_key=endpoint.ticket_key, get_node_id=endpoint.node_id),
        clock=deps.clock,
        pull_options=PullOptions(
            parallel=settings.parallel_chunks,
            headroom_bytes=settings.disk_headroom_bytes,
            bandwidth_bytes_per_s=settings.bandwidth_limit_bytes,
            environment=environment,
        ),
        shared_dir=settings.shared_models_dir,
    )


def _read_registry_credentials(settings: WorkerSettings) -> dict[str, str]:
    given = settings.registry_credentials
    return {} if given is None else parse_registry_credentials(given.get_secret_value())


def compose_worker(
    settings: WorkerSettings,
    make_tools: WorkerToolsFactory = make_real_tools,
    *,
    runner_command: tuple[str, ...] = RUNNER_COMMAND,
) -> ComposedWorker:
    clock, ids = SystemClock(), SystemIdGenerator()
    boot_id = ids.new_id()
    urls = parse_frontend_urls(settings.join)
    file = WorkerIdentityFile(settings.worker_home, BUS_KEYS)
    identity = file.load_or_create(ids)
    services = ServiceGroup()
    control = HttpControlPlane(urls, identity.credential, clock=clock, ids=ids)
    rng = random.Random()  # noqa: S311 - jitter, not secrets
    open_bus = make_bus_opener(settings, clock, rng, on_crash=services.request_stop)
    listener = open_listener(settings.http_host, settings.http_port)
    port = listener.getsockname()[1]
    # Callbacks, because the membership is built from the tools, which read these values of the membership.
    endpoint = ControlPlaneEndpoint(
        urls=urls,
        credential=identity.credential,
        node_id=lambda: agent.node_id,
        ticket_key=lambda: agent.ticket_key,
    )
    deps = WorkerDeps(settings=settings, clock=clock, ids=ids, rng=rng, control_plane=endpoint)
    runs = _make_run_services(deps, control, boot_id, runner_command, on_crash=services.request_stop)
    tools = make_tools(deps) if settings.node_type is NodeType.BACKEND else None
    work = None
    if tools is not None:
        work = _make_job_services(
            deps, tools, control, boot_id, runs.executor if runs else None, on_crash=services.request_stop
        )
    program_kinds = _connect_programs(deps, tools, work, runs, control, on_crash=services.request_stop)
    around = MembershipDeps(
        control=control,
        open_bus=open_bus,
        hardware_reader=LocalHardwareReader(
            LocalHardware(), models_dir=settings.models_dir, capability=settings.capability, clock=clock
        ),
        find_addresses=lambda: asyncio.to_thread(_choose_addresses, settings, port, urls),
        save_identity=lambda changed: asyncio.to_thread(file.save, changed),
        new_bus_key=BUS_KEYS.make_key_pair,
        clock=clock,
        rng=rng,
        command_handler=_pick_command_handler(work, runs, boot_id),
        wait_for_processes=work.survivors.wait_for_processes if work else None,
    )
    max_runs = runs.max_runs if runs is not None else 0
    kinds = (*(kind for kind in RunKind if max_runs and not kind.is_program), *program_kinds)
    agent = Membership(
        _make_profile(settings, boot_id, max_runs, kinds), identity, around, on_end=services.request_stop
    )
    health = WorkerHttpServer(listener, agent.find_not_ready_reason, tools.routes if tools else ())
    services.add(_ControlCloser(control), health, agent)
    if runs is not None:
        services.add(runs.process, runs.executor)
    if work is None:
        return ComposedWorker(services=services, membership=agent, health=health, run_services=runs)
    _connect_job_services(work, agent)
    services.add(*work.services)
    return ComposedWorker(
        services=services,
        membership=agent,
        health=health,
        runner=work.runner,
        prefetch=work.prefetch,
        run_services=runs,
    )


def _make_run_services(
    deps: WorkerDeps,
    control: HttpControlPlane,
    boot_id: str,
    runner_command: tuple[str, ...],
    *,
    on_crash: Callable[[BaseException], None],
) -> RunServices | None:
    """Return the parts that execute runs; None if this worker executes none. Without places, or without the modules of
    the runner, whose runs would end at once, a backend node still runs programs."""
    settings, max_runs = deps.settings, deps.settings.max_runs
    missing = list_missing_runner_modules() if max_runs else []
    if missing:
        log.error(
            "this worker takes no runs: modules of the runner are not installed",
            missing=", ".join(missing),
            hint=INSTALL_HINT.format(extra="agents"),
        )
        max_runs = 0
    if max_runs == 0 and settings.node_type is not NodeType.BACKEND:
        return None
    options = RunnerOptions(
        command=runner_command,
        environment={**clean_runner_environment(os.environ), **make_runner_variables(settings)},
        directory=settings.worker_home / "runner",
    )
    process = RunnerSupervisor(options, deps.clock, deps.rng, on_crash)
    executor = RunExecutor(
        RunExecutorDeps(
            control=control,
            runner=process,
            clock=deps.clock,
            rng=deps.rng,
            boot_id=boot_id,
            max_runs=max_runs,
            on_crash=on_crash,
        )
    )
    return RunServices(process=process, executor=executor, max_runs=max_runs)


def _connect_programs(
    deps: WorkerDeps,
    tools: WorkerTools | None,
    work: _JobServices | None,
    runs: RunServices | None,
    control: HttpControlPlane,
    *,
    on_crash: Callable[[BaseException], None],
) -> tuple[RunKind, ...]:
    """Let a backend node run programs, and return their kinds."""
    if tools is None or work is None or runs is None:
        return ()
    settings = deps.settings
    preparer = ProgramPreparer(
        ProgramPreparerDeps(
            control=control,
            installer=tools.installer,
            files=tools.files,
            backend_locks=work.runner.backend_locks,
            on_installed=work.runner.on_change,
            work_dir=settings.worker_home / "programs",
            environment=dict(os.environ),
            threads=os.cpu_count() or 1,
            headroom_bytes=settings.disk_headroom_bytes,
            clock=deps.clock,
            rng=deps.rng,
        )
    )
    works: dict[str, ProgramWork] = {
        RunKind.FINE_TUNE: Trainer(preparer),
        RunKind.FINE_TUNE_EXPORT: TrainingExporter(preparer),
    }
    if has_quantizer_build():
        works[RunKind.QUANTIZE] = Quantizer(preparer)
    host = ProgramHostDeps(works=works, tasks=TaskSet("programs", on_crash))
    runs.executor.open_program = lambda ids: ProgramHost(ids, host)
    return tuple(RunKind(kind) for kind in works)


def make_runner_variables(settings: WorkerSettings) -> dict[str, str]:
    """Return the variables by which a runner process knows the settings of its worker."""
    limits = find_program_limits(
        settings.run_user, memory_bytes=settings.run_memory_bytes, file_bytes=settings.run_file_bytes
    )
    return {
        PROGRAM_LIMITS_VARIABLE: limits.model_dump_json(),
        SERVER_GRACE_VARIABLE: str(settings.run_mcp_grace_s),
    }


def _pick_command_handler(work: _JobServices | None, runs: RunServices | None, boot_id: str) -> CommandHandler | None:
    if work is not None:
        return work.duties
    return RunCommandHandler(runs.executor, boot_id) if runs is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _JobServices:
    """Holds everything of a worker that runs jobs and reports about them."""

    duties: CommandHandler
    runner: JobRunner
    reports: tuple[BackendReporter | HoldingsReporter, ...]
    survivors: SurvivorReader
    services: tuple[Service, ...]
    processes: ProcessSupervisor
    prefetch: PrefetchRequester

    def wake_on_process_change(self, wake: Callable[[], None]) -> None:
        """Call `wake` when an engine starts or ends, so that free memory is reported at once: placement decisions wait
        for it."""
        on_changed = self.processes.on_change

        def changed() -> None:
            on_changed()
            wake()

        self.processes.on_change = changed


def _make_job_services(
    deps: WorkerDeps,
    tools: WorkerTools,
    control: HttpControlPlane,
    boot_id: str,
    runs: RunExecutor | None,
    *,
    on_crash: Callable[[BaseException], None],
) -> _JobServices:
    runner = JobRunner(
        JobRunnerDeps(
            installer=tools.installer,
            files=tools.files,
            processes=tools.processes,
            journal=DiskJobJournal(deps.settings.worker_home),
            clock=deps.clock,
            rng=deps.rng,
            boot_id=boot_id,
            max_parallel=deps.settings.max_parallel_jobs,
            on_crash=on_crash,
        )
    )
    reports = BackendReporter(control, runner.get_inventory, boot_id=boot_id, clock=deps.clock, rng=deps.rng)
    holdings = HoldingsReporter(control, tools.processes, tools.files, boot_id=boot_id, clock=deps.clock, rng=deps.rng)
    for each in (reports, holdings):
        each.loop.on_crash = on_crash
    runner.on_change = reports.wake
    duties = BackendCommandHandler(
        CommandHandlerDeps(
            runner=runner,
            backend_reporter=reports,
            holdings_reporter=holdings,
            installer=tools.installer,
            files=tools.files,
            processes=tools.processes,
            boot_id=boot_id,
            runs=runs,
        )
    )
    collection = DailyGarbageCollector((tools.installer, tools.files), deps.clock, deps.rng, on_crash)
    survivors = SurvivorReader(tools.processes.list_running)
    entries = _list_prefetch_entries(deps.settings)
    prefetch = PrefetchRequester(control, entries, boot_id=boot_id, clock=deps.clock, rng=deps.rng)
    prefetch.loop.on_crash = on_crash
    services = (*tools.services, survivors, runner, reports, holdings, collection, *((prefetch,) if entries else ()))
    return _JobServices(
        duties=duties,
        runner=runner,
        reports=(reports, holdings),
        survivors=survivors,
        services=services,
        processes=tools.processes,
        prefetch=prefetch,
    )


def _list_prefetch_entries(settings: WorkerSettings) -> tuple[PrefetchEntry, ...]:
    backends = [PrefetchEntry(kind=PrefetchKind.BACKEND, name=name) for name in parse_names(settings.prefetch_backends)]
    models = [PrefetchEntry(kind=PrefetchKind.MODEL, name=name) for name in parse_names(settings.prefetch_models)]
    return (*backends, *models)


def _connect_job_services(job_services: _JobServices, membership: Membership) -> None:
    """Let reports go out in the name of the approved node, and changes of engines be reported at once."""
    for reports in job_services.reports:
        reports.get_node_id = lambda: membership.node_id if membership.is_approved else None
    _connect_prefetch(job_services, membership)
    # A worker that is not registered yet retries at its own pace.
    job_services.wake_on_process_change(lambda: membership.wake() if membership.node_id is not None else None)


def _connect_prefetch(job_services: _JobServices, membership: Membership) -> None:
    """Request the prefetch list as soon as the node is approved and a frontend has its first report."""
    prefetch = job_services.prefetch

    def find_approved_node_id() -> str | None:
        node_id = membership.node_id if membership.is_approved else None
        return node_id if all(reports.acknowledged_node_id == node_id for reports in job_services.reports) else None

    def on_taken() -> None:
        if prefetch.acknowledged_node_id != find_approved_node_id():
            prefetch.wake()

    prefetch.get_node_id = find_approved_node_id
    for reports in job_services.reports:
        reports.on_acknowledged = on_taken


def _find_engine_host(settings: WorkerSettings) -> str:
    """Return the host under which other machines reach sockets that listen on `engine_host`."""
    if settings.engine_host not in ANY_ADDRESSES:
        return settings.engine_host
    advertised = _choose_addresses(settings, 0, parse_frontend_urls(settings.join))
    return advertised.address.rpartition(":")[0].strip("[]")


def _make_profile(
    settings: WorkerSettings, boot_id: str, max_runs: int, run_kinds: tuple[RunKind, ...]
) -> WorkerProfile:
    return WorkerProfile(
        name=settings.name,
        version=__version__,
        frontend=settings.join,
        boot_id=boot_id,
        node_type=settings.node_type,
        token=settings.token.get_secret_value() if settings.token else None,
        labels=settings.labels,
        max_replicas_per_model=settings.max_replicas_per_model,
        max_runs=max_runs,
        run_kinds=run_kinds,
        vram_budget=settings.vram_budget,
    )


def _choose_addresses(settings: WorkerSettings, port: int, urls: tuple[str, ...]) -> AdvertisedAddresses:
    return choose_advertised_addresses(
        configured=settings.address,
        engine_host=settings.engine_host,
        http_host=settings.http_host,
        http_port=port,
        frontends=urls,
    )


def make_bus_opener(
    settings: WorkerSettings, clock: Clock, rng: random.Random, *, on_crash: Callable[[BaseException], None]
) -> BusFactory:
    """Return a factory that opens the bus with the credential from a frontend. An invalid certificate is reported now,
    not at the first use."""
    tls = make_client_tls(tls_ca=settings.nats_tls_ca, tls_cert=settings.nats_tls_cert, tls_key=settings.nats_tls_key)

    def open_bus(grant: BusGrant, newest: Callable[[], BusGrant]) -> WorkerBus:
        urls = tuple(url.strip() for url in (settings.nats_url or grant.url).split(","))
        endpoint = NatsEndpoint(urls=urls, client_name=f"corral worker {settings.name}", tls=tls)
        return NatsBus(
            endpoint,
            lambda: make_credential(newest().token, newest().seed, subject_id=grant.node_id),
            clock=clock,
            rng=rng,
            on_crash=on_crash,
        )

    return open_bus


class _ControlCloser:
    """Closes the connections to the frontends as the last service: deregistering needs them."""

    name = "control"

    def __init__(self, control: HttpControlPlane) -> None:
        self._control = control

    async def start(self) -> None:
        return

    async def stop(self) -> None:
        await self._control.close()
