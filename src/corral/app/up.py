"""`corral up`: PostgreSQL, NATS, one frontend, one worker and one agent worker on this machine, as supervised children.

One process per home, guarded by a lock. It starts everything at once, says when it is ready, restarts what dies and
stops all of it in order. It holds no data: killing it loses nothing, and the next one cleans up after it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from corral.domain.access import ADMIN_KEY_PREFIX, JOIN_TOKEN_PREFIX
from corral.domain.errors import CorralError
from corral.embedded.child_process import (
    BusAddress,
    ChildDeps,
    ChildEvent,
    ChildLaunch,
    ChildPlan,
    ChildSupervisor,
    HttpEndpoint,
    make_agent_environment,
    make_frontend_environment,
    make_worker_environment,
)
from corral.embedded.home import HomeLayout, HomeLock, HomeLost, describe_lost_home, hold_lock, open_home
from corral.embedded.home_status import NodeProbeResult, is_ready, probe_nodes
from corral.embedded.nats import EmbeddedNats, find_nats
from corral.embedded.owned_processes import end_leftovers
from corral.embedded.postgres import EmbeddedPostgres, find_bin_folder
from corral.embedded.private_files import ensure_secret, read_secret, write_private
from corral.embedded.supervisor_state import SupervisorPhase, SupervisorStateFile
from corral.embedded.tcp_ports import check_port, choose_port
from corral.embedded.up_terminal import UpTerminal, leave_parent, start_detached
from corral.runtime.attempt import AttemptFailure, attempt
from corral.runtime.processes import identify_process

SERVE = (sys.executable, "-m", "corral", "serve")
WORKER = (sys.executable, "-m", "corral", "worker")
# Migrations of a large database run before a frontend is ready.
FRONTEND_START_LIMIT_S = 300.0
WORKER_START_LIMIT_S = 300.0
# A frontend lets running requests finish (CORRAL_STOP_GRACE; a longer one is cut short), a worker stops its engines.
FRONTEND_STOP = ((signal.SIGTERM, 50.0),)
WORKER_STOP = ((signal.SIGTERM, 20.0),)
# Interval at which the home is checked.
HOME_CHECK_S = 1.0
_LOST_HINT = (
    "`corral up` starts a new cluster in an empty folder. Use `corral down` before you delete the folder of a cluster."
)
_ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions:
    """Options of `corral up`: the home folder, the addresses, and what to use instead of starting it."""

    home: Path
    host: str = "127.0.0.1"
    port: int = 8080
    detach: bool = False
    # If one of these addresses is set, that server is external: it is neither started nor stopped.
    database_url: str | None = None
    nats_url: str | None = None
    postgres_bin: Path | None = None
    nats_bin: Path | None = None
    # Number of frontend processes.
    processes: int = 1
    # Whether a second worker executes runs of agents and tasks.
    agent_worker: bool = True
    serve_command: tuple[str, ...] = SERVE
    worker_command: tuple[str, ...] = WORKER
    # Set in the background process that `detach` starts, together with the time that the user had already waited.
    is_background: bool = False
    elapsed_s: float = 0.0


def run_up(options: UpOptions) -> int:
    """Run until stopped, or with `--detach` until ready. Return the exit code: 0, or 1 after a message that says what
    is wrong."""
    talk = UpTerminal(sys.stdout, sys.stderr) if options.is_background else UpTerminal(sys.stderr)
    options = replace(options, elapsed_s=options.elapsed_s + _measure_process_age_s())
    try:
        home = open_home(options.home)
        # Made absolute: the background process has another working directory and does not expand `~`.
        options = replace(options, home=home.root)
        if options.detach:
            command = (sys.executable, "-m", "corral.app.up")
            return start_detached(home, command, _options_to_json(options), sys.stderr)
        with hold_lock(home) as lock:
            return asyncio.run(_LocalCluster(home, options, talk, lock).run())
    except CorralError as error:
        talk.print_error(error)
        return 1


def _options_to_json(options: UpOptions) -> str:
    background = replace(options, detach=False, is_background=True)
    return json.dumps(asdict(background), default=lambda path: str(Path(path).absolute()))


def _options_from_json(text: str) -> UpOptions:
    given: dict[str, Any] = json.loads(text)
    for name in ("home", "postgres_bin", "nats_bin"):
        given[name] = None if given[name] is None else Path(given[name])
    for name in ("serve_command", "worker_command"):
        given[name] = tuple(given[name])
    return UpOptions(**given)


def _measure_process_age_s() -> float:
    """Return how long this process has existed, because the user has waited for its imports too."""
    me = identify_process(os.getpid())
    if me is None or not hasattr(time, "CLOCK_BOOTTIME"):
        return 0.0
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - me.born_s)


class _LocalCluster:
    """Runs one local cluster: prepares, starts and supervises PostgreSQL, NATS, a frontend and its workers until it is
    stopped."""

    def __init__(self, home: HomeLayout, options: UpOptions, terminal: UpTerminal, lock: HomeLock) -> None:
        self._home = home
        self._lock = lock
        self._options = options
        self._terminal = terminal
        self._started_at = time.monotonic() - options.elapsed_s
        self._state = SupervisorStateFile(home.state, can_write=lock.is_held)
        self._stop_requested = asyncio.Event()
        self._stop_at_once = asyncio.Event()
        self._postgres: EmbeddedPostgres | None = None
        self._nats: EmbeddedNats | None = None
        self._supervisor: ChildSupervisor | None = None
        self._frontend_address = HttpEndpoint(host=options.host, port=options.port)
        # Where the worker and the agent worker say whether they are ready, by the name of the child.
        self._worker_addresses: dict[str, HttpEndpoint] = {}
        self._is_key_refused = False

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        for number in _ENDING_SIGNALS:
            # Under `nohup`, SIGHUP must stay ignored.
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, self._on_signal)
        ended = await asyncio.to_thread(end_leftovers, self._home)
        self._terminal.print_begin(self._home, len(ended))
        self._prepare()
        async with asyncio.TaskGroup() as group:
            failure = await self._supervise(group)
        if not self._lock.is_held():
            raise HomeLost(
                f"{describe_lost_home(self._home)} Everything that it had started was ended.", hint=_LOST_HINT
            )
        if failure is not None:
            self._state.enter_phase(SupervisorPhase.FAILED)
            raise failure
        self._state.enter_phase(SupervisorPhase.STOPPED)
        return 0

    def _prepare(self) -> None:
        """Decide all addresses and credentials that the children need, before they start."""
        options = self._options
        # If the port is chosen by Corral, only the host can be wrong.
        check_port(options.host, options.port)
        port = options.port or choose_port(options.host, self._state.find_port("frontend"))
        self._frontend_address = HttpEndpoint(host=options.host, port=port)
        self._state.set_port("frontend", port)
        ensure_secret(self._home.admin_key, ADMIN_KEY_PREFIX)
        ensure_secret(self._home.join_token, JOIN_TOKEN_PREFIX)
        ensure_secret(self._home.secrets_key)
        if options.database_url is None:
            folder = find_bin_folder(options.postgres_bin)
            self._postgres = EmbeddedPostgres(self._home, self._state, folder, self._on_nats_moved)
        if options.nats_url is None:
            binary = find_nats(options.nats_bin)
            self._nats = EmbeddedNats(
                self._home, self._state, binary=binary, host=options.host, on_port_change=self._on_nats_moved
            )

    async def _supervise(self, group: asyncio.TaskGroup) -> CorralError | None:
        """Start, supervise and stop the children. Return the error of a child that never became ready, or None."""
        deps = ChildDeps(
            home=self._home,
            state=self._state,
            on_event=self._on_event,
            hurry=self._stop_at_once,
            is_home_held=self._lock.is_held,
        )
        self._state.begin(url=self._frontend_address.url, external=self._list_external_servers())
        supervisor = self._supervisor = ChildSupervisor(self._make_child_plans(), deps, group)
        supervisor.start()
        watch = group.create_task(self._watch_home(), name="watch home")
        try:
            failure = await self._wait_for_end(supervisor)
            if failure is None:
                self._terminal.print_stopping()
            return failure
        finally:
            watch.cancel()
            self._state.enter_phase(SupervisorPhase.STOPPING)
            await asyncio.shield(supervisor.stop())

    async def _watch_home(self) -> None:
        """Stop when the home is deleted: nothing works without its folders, and another run may have taken its path."""
        while True:
            await asyncio.sleep(HOME_CHECK_S)
            if not self._lock.is_held():
                self._terminal.print_line(describe_lost_home(self._home))
                self._stop_requested.set()
                return

    async def _wait_for_end(self, supervisor: ChildSupervisor) -> CorralError | None:
        ended = asyncio.create_task(self._stop_requested.wait())
        ready = asyncio.create_task(supervisor.wait_ready())
        try:
            await asyncio.wait({ready, ended}, return_when=asyncio.FIRST_COMPLETED)
            failure = ready.result() if ready.done() else None
            if failure is None and ready.done():
                self._on_ready()
                await self._flush_new_database()
                await ended
            return failure
        finally:
            ready.cancel()
            ended.cancel()

    async def _flush_new_database(self) -> None:
        if self._postgres is not None:
            outcome = await attempt(self._postgres.flush_data_folder)
            if isinstance(outcome, AttemptFailure):
                self._terminal.print_line(f"The new database could not be flushed to disk: {outcome.sentence}")

    def _make_child_plans(self) -> list[ChildPlan]:
        servers = [server.make_plan() for server in (self._postgres, self._nats) if server is not None]
        frontend = ChildPlan(
            name="frontend",
            launch=self._launch_frontend,
            is_ready=self._is_frontend_ready,
            stop_signals=FRONTEND_STOP,
            start_limit_s=FRONTEND_START_LIMIT_S,
        )
        worker = ChildPlan(
            name="worker",
            launch=self._launch_worker,
            is_ready=self._check_worker_ready,
            stop_signals=WORKER_STOP,
            start_limit_s=WORKER_START_LIMIT_S,
        )
        agent = ChildPlan(
            name="agent",
            launch=self._launch_agent,
            is_ready=self._is_agent_ready,
            stop_signals=WORKER_STOP,
            start_limit_s=WORKER_START_LIMIT_S,
        )
        return [*servers, frontend, worker, *((agent,) if self._options.agent_worker else ())]

    async def _launch_frontend(self) -> ChildLaunch:
        if self._nats is not None:
            # The files with its seeds must exist before the frontend looks for them.
            await self._nats.ensure_seeds()
        database_url = self._options.database_url or (self._postgres.url if self._postgres else "")
        write_private(self._home.database_url, database_url + "\n")
        addresses = BusAddress(
            nats_url=self._options.nats_url or (self._nats.url if self._nats else ""),
            nats_port=self._nats.port if self._nats else 0,
            is_own_bus=self._nats is not None,
        )
        environment = make_frontend_environment(
            os.environ, home=self._home, endpoint=self._frontend_address, bus=addresses
        )
        environment["CORRAL_PROCESSES"] = str(self._options.processes)
        return ChildLaunch(command=self._options.serve_command, env=environment)

    async def _launch_worker(self) -> ChildLaunch:
        configured_port = int(os.environ.get("CORRAL_HTTP_PORT") or 0)
        inherited = dict(os.environ)
        if self._options.agent_worker:
            # Then the number of runs is meant for the agent worker.
            inherited.pop("CORRAL_MAX_RUNS", None)
        environment = make_worker_environment(
            inherited,
            home=self._home,
            frontend=self._frontend_address,
            endpoint=self._choose_worker_address("worker", configured_port),
        )
        return ChildLaunch(command=self._options.worker_command, env=environment)

    async def _launch_agent(self) -> ChildLaunch:
        environment = make_agent_environment(
            os.environ,
            home=self._home,
            frontend=self._frontend_address,
            endpoint=self._choose_worker_address("agent"),
        )
        return ChildLaunch(command=self._options.worker_command, env=environment)

    def _choose_worker_address(self, name: str, configured_port: int = 0) -> HttpEndpoint:
        host = os.environ.get("CORRAL_HTTP_HOST") or "127.0.0.1"
        port = configured_port or choose_port(host, self._state.find_port(name))
        self._state.set_port(name, port)
        endpoint = self._worker_addresses[name] = HttpEndpoint(host=host, port=port)
        return endpoint

    async def _is_frontend_ready(self, pid: int) -> bool:  # noqa: ARG002 - the port was free, so it is ours
        return await asyncio.to_thread(is_ready, self._frontend_address.url)

    async def _check_worker_ready(self, pid: int) -> bool:  # noqa: ARG002 - the port was free, so it is ours
        # The worker's own status comes first: the registry may still describe the node's previous run.
        if not await asyncio.to_thread(is_ready, self._worker_addresses["worker"].url):
            return False
        # Read each time, because `corral keys rotate` may have replaced the key.
        key = read_secret(self._home.admin_key) or ""
        found = await asyncio.to_thread(probe_nodes, self._frontend_address.url, key)
        # A revoked key does not prevent serving: the worker's own status has to suffice.
        self._is_key_refused = found is NodeProbeResult.KEY_REFUSED
        return found is not NodeProbeResult.NONE_LIVE

    async def _is_agent_ready(self, pid: int) -> bool:  # noqa: ARG002 - the port was free, so it is ours
        return await asyncio.to_thread(is_ready, self._worker_addresses["agent"].url)

    def _list_external_servers(self) -> dict[str, str]:
        """Return the servers that are used but not started here, without passwords, because the result is shown."""
        given = {"postgres": self._options.database_url, "nats": self._options.nats_url}
        return {name: url.rpartition("@")[2].partition("?")[0] for name, url in given.items() if url}

    def _on_signal(self) -> None:
        if self._stop_requested.is_set():
            self._stop_at_once.set()
        self._stop_requested.set()

    def _on_nats_moved(self) -> None:
        if self._supervisor is not None:
            self._supervisor.restart("frontend", "worker", "agent")

    def _on_event(self, event: ChildEvent) -> None:
        log = str(self._home.get_log_path(event.name))
        self._terminal.print_child_event(
            event, where=self._find_address(event.name), log=log, elapsed_s=self._measure_elapsed_s()
        )

    def _on_ready(self) -> None:
        self._state.enter_phase(SupervisorPhase.READY)
        self._terminal.print_ready(
            self._home,
            self._frontend_address,
            key=None if self._is_key_refused else read_secret(self._home.admin_key),
            elapsed_s=self._measure_elapsed_s(),
            is_detached=self._options.is_background,
        )
        if self._options.is_background:
            leave_parent()

    def _find_address(self, name: str) -> str:
        match name:
            case "postgres" if self._postgres is not None:
                return f"127.0.0.1:{self._postgres.port}"
            case "nats" if self._nats is not None:
                return f"{self._options.host}:{self._nats.port}"
            case "frontend":
                return self._frontend_address.url
            case "worker" | "agent" if name in self._worker_addresses:
                return self._worker_addresses[name].url
            case _:
                return ""

    def _measure_elapsed_s(self) -> float:
        return time.monotonic() - self._started_at


if __name__ == "__main__":
    # What `--detach` starts. The options come on standard input: one of them may hold a password.
    raise SystemExit(run_up(_options_from_json(sys.stdin.read())))
