"""`corral up`: PostgreSQL, NATS, one frontend and one worker on this machine, as supervised children.

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
from corral.embedded.child import Backoff, ChildEvent, ChildPlan, Launch, Surroundings
from corral.embedded.detach import leave_parent, start_detached
from corral.embedded.environment import Addresses, Place, frontend_environment, worker_environment
from corral.embedded.errors import HomeLost
from corral.embedded.files import ensure_secret, read_secret, write_private
from corral.embedded.home import Home, HomeLock, describe_lost, hold_lock, open_home
from corral.embedded.leftovers import end_leftovers
from corral.embedded.nats import EmbeddedNats, find_nats
from corral.embedded.ports import check_port, choose_port
from corral.embedded.postgres import EmbeddedPostgres, find_bin_folder
from corral.embedded.probe import NodeProbe, is_ready, probe_nodes
from corral.embedded.processes import identify
from corral.embedded.state import Phase, StateFile
from corral.embedded.supervisor import Supervisor
from corral.embedded.talk import Talk
from corral.runtime.guard import Failed, attempt

SERVE = (sys.executable, "-m", "corral", "serve")
WORKER = (sys.executable, "-m", "corral", "worker")
# Migrations of a large database run before a frontend is ready.
FRONTEND_START_LIMIT_S = 300.0
WORKER_START_LIMIT_S = 300.0
# A frontend lets running requests finish (CORRAL_STOP_GRACE; a longer one is cut short), a worker stops its engines.
FRONTEND_STOP = ((signal.SIGTERM, 50.0),)
WORKER_STOP = ((signal.SIGTERM, 20.0),)
# How often to look whether the home is still there.
HOME_CHECK_S = 1.0
_LOST_HINT = "`corral up` starts anew in an empty folder. Use `corral down` before you delete the folder of a cluster."
_ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions:
    home: Path
    host: str = "127.0.0.1"
    port: int = 8080
    detach: bool = False
    # An address here means that this part is somebody else's: it is neither started nor stopped.
    database_url: str | None = None
    nats_url: str | None = None
    postgres_bin: Path | None = None
    nats_bin: Path | None = None
    # How many processes the frontend is.
    processes: int = 1
    serve_command: tuple[str, ...] = SERVE
    worker_command: tuple[str, ...] = WORKER
    # Set in the process that `detach` starts, which nobody watches; and what had passed for the person before it.
    is_background: bool = False
    elapsed_s: float = 0.0


def run_up(options: UpOptions) -> int:
    """Run until stopped (or, detached, until ready); the exit code: 0, or 1 after a sentence about what is wrong."""
    talk = Talk(sys.stdout, sys.stderr) if options.is_background else Talk(sys.stderr)
    options = replace(options, elapsed_s=options.elapsed_s + _age_s())
    try:
        home = open_home(options.home)
        # As a whole path: the process in the background stands in another folder, and reads no `~`.
        options = replace(options, home=home.root)
        if options.detach:
            command = (sys.executable, "-m", "corral.app.up")
            return start_detached(home, command, _options_to_json(options), sys.stderr)
        with hold_lock(home) as lock:
            return asyncio.run(_Up(home, options, talk, lock).run())
    except CorralError as error:
        talk.error(error)
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


def _age_s() -> float:
    """How long this process has existed: the person has waited for its imports, too."""
    me = identify(os.getpid())
    if me is None or not hasattr(time, "CLOCK_BOOTTIME"):
        return 0.0
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - me.born_s)


class _Up:
    """One run. What it knows beyond its children: where they are, and when it began."""

    def __init__(self, home: Home, options: UpOptions, talk: Talk, lock: HomeLock) -> None:
        self._home = home
        self._lock = lock
        self._options = options
        self._talk = talk
        self._began = time.monotonic() - options.elapsed_s
        self._state = StateFile(home.state, may_write=lock.is_held)
        self._end = asyncio.Event()
        self._hurry = asyncio.Event()
        self._postgres: EmbeddedPostgres | None = None
        self._nats: EmbeddedNats | None = None
        self._supervisor: Supervisor | None = None
        self._place = Place(host=options.host, port=options.port)
        self._worker: Place | None = None
        self._is_key_refused = False

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        for number in _ENDING_SIGNALS:
            # Under `nohup` a closed terminal is to be ignored.
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, self._on_signal)
        ended = await asyncio.to_thread(end_leftovers, self._home)
        self._talk.begin(self._home, len(ended))
        self._prepare()
        async with asyncio.TaskGroup() as group:
            failure = await self._supervise(group)
        if not self._lock.is_held():
            raise HomeLost(f"{describe_lost(self._home)} Everything that it had started was ended.", hint=_LOST_HINT)
        if failure is not None:
            self._state.enter(Phase.FAILED)
            raise failure
        self._state.enter(Phase.STOPPED)
        return 0

    def _prepare(self) -> None:
        """Everything that others are told must be decided before they start."""
        options = self._options
        # Of a port that is ours to choose only the address can be wrong.
        check_port(options.host, options.port)
        port = options.port or choose_port(options.host, self._state.port("frontend"))
        self._place = Place(host=options.host, port=port)
        self._state.set_port("frontend", port)
        ensure_secret(self._home.admin_key, ADMIN_KEY_PREFIX)
        ensure_secret(self._home.join_token, JOIN_TOKEN_PREFIX)
        if options.database_url is None:
            folder = find_bin_folder(options.postgres_bin)
            self._postgres = EmbeddedPostgres(self._home, self._state, folder, self._on_moved)
        if options.nats_url is None:
            binary = find_nats(options.nats_bin)
            self._nats = EmbeddedNats(self._home, self._state, binary=binary, host=options.host, moved=self._on_moved)

    async def _supervise(self, group: asyncio.TaskGroup) -> CorralError | None:
        """From start to stop; the reason if something never came up."""
        around = Surroundings(
            home=self._home,
            state=self._state,
            tell=self._on_event,
            hurry=self._hurry,
            backoff=Backoff(),
            is_home_ours=self._lock.is_held,
        )
        self._state.begin(url=self._place.url, external=self._external())
        supervisor = self._supervisor = Supervisor(self._plans(), around, group)
        supervisor.start()
        watch = group.create_task(self._watch_home(), name="watch home")
        try:
            failure = await self._until_end(supervisor)
            if failure is None:
                self._talk.stopping()
            return failure
        finally:
            watch.cancel()
            self._state.enter(Phase.STOPPING)
            await asyncio.shield(supervisor.stop())

    async def _watch_home(self) -> None:
        """End this run when its home is deleted: without its folders nothing works, and another may run there."""
        while True:
            await asyncio.sleep(HOME_CHECK_S)
            if not self._lock.is_held():
                self._talk.say(describe_lost(self._home))
                self._end.set()
                return

    async def _until_end(self, supervisor: Supervisor) -> CorralError | None:
        ended = asyncio.create_task(self._end.wait())
        ready = asyncio.create_task(supervisor.wait_ready())
        try:
            await asyncio.wait({ready, ended}, return_when=asyncio.FIRST_COMPLETED)
            failure = ready.result() if ready.done() else None
            if failure is None and ready.done():
                self._on_ready()
                await self._settle()
                await ended
            return failure
        finally:
            ready.cancel()
            ended.cancel()

    async def _settle(self) -> None:
        if self._postgres is not None:
            outcome = await attempt(self._postgres.settle)
            if isinstance(outcome, Failed):
                self._talk.say(f"The new database could not be flushed to disk: {outcome.sentence}")

    def _plans(self) -> list[ChildPlan]:
        servers = [server.plan() for server in (self._postgres, self._nats) if server is not None]
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
            is_ready=self._is_worker_ready,
            stop_signals=WORKER_STOP,
            start_limit_s=WORKER_START_LIMIT_S,
        )
        return [*servers, frontend, worker]

    async def _launch_frontend(self) -> Launch:
        if self._nats is not None:
            # The files with its seeds must exist before the frontend looks for them.
            await self._nats.seeds_exist()
        database_url = self._options.database_url or (self._postgres.url if self._postgres else "")
        write_private(self._home.database_url, database_url + "\n")
        addresses = Addresses(
            nats_url=self._options.nats_url or (self._nats.url if self._nats else ""),
            nats_port=self._nats.port if self._nats else 0,
            is_own_bus=self._nats is not None,
        )
        told = frontend_environment(os.environ, home=self._home, place=self._place, addresses=addresses)
        told["CORRAL_PROCESSES"] = str(self._options.processes)
        return Launch(command=self._options.serve_command, env=told)

    async def _launch_worker(self) -> Launch:
        host = os.environ.get("CORRAL_HTTP_HOST") or "127.0.0.1"
        wanted = int(os.environ.get("CORRAL_HTTP_PORT") or 0)
        port = wanted or choose_port(host, self._state.port("worker"))
        self._state.set_port("worker", port)
        self._worker = Place(host=host, port=port)
        told = worker_environment(os.environ, home=self._home, place=self._place, own=self._worker)
        return Launch(command=self._options.worker_command, env=told)

    async def _is_frontend_ready(self, pid: int) -> bool:  # noqa: ARG002 - the port was free, so it is ours
        return await asyncio.to_thread(is_ready, self._place.url)

    async def _is_worker_ready(self, pid: int) -> bool:  # noqa: ARG002 - the port was free, so it is ours
        # Its own word first: what the registry knows of this node may still be about its last run.
        assert self._worker is not None, "the worker was launched before it is asked"
        if not await asyncio.to_thread(is_ready, self._worker.url):
            return False
        # Read each time: `corral keys rotate` may have replaced it.
        key = read_secret(self._home.admin_key) or ""
        found = await asyncio.to_thread(probe_nodes, self._place.url, key)
        # A key that was taken away is no reason not to serve: the worker's own word has to do.
        self._is_key_refused = found is NodeProbe.KEY_REFUSED
        return found is not NodeProbe.NONE_LIVE

    def _external(self) -> dict[str, str]:
        """What we use and do not run. Without passwords: this is shown."""
        given = {"postgres": self._options.database_url, "nats": self._options.nats_url}
        return {name: url.rpartition("@")[2].partition("?")[0] for name, url in given.items() if url}

    def _on_signal(self) -> None:
        if self._end.is_set():
            self._hurry.set()
        self._end.set()

    def _on_moved(self) -> None:
        if self._supervisor is not None:
            self._supervisor.restart("frontend", "worker")

    def _on_event(self, event: ChildEvent) -> None:
        log = str(self._home.log_of(event.name))
        self._talk.child(event, where=self._where(event.name), log=log, elapsed_s=self._elapsed_s())

    def _on_ready(self) -> None:
        self._state.enter(Phase.READY)
        self._talk.ready(
            self._home,
            self._place,
            key=None if self._is_key_refused else read_secret(self._home.admin_key),
            elapsed_s=self._elapsed_s(),
            is_detached=self._options.is_background,
        )
        if self._options.is_background:
            leave_parent()

    def _where(self, name: str) -> str:
        match name:
            case "postgres" if self._postgres is not None:
                return f"127.0.0.1:{self._postgres.port}"
            case "nats" if self._nats is not None:
                return f"{self._options.host}:{self._nats.port}"
            case "frontend":
                return self._place.url
            case "worker" if self._worker is not None:
                return self._worker.url
            case _:
                return ""

    def _elapsed_s(self) -> float:
        return time.monotonic() - self._began


if __name__ == "__main__":
    # What `--detach` starts. The options come on standard input: one of them may hold a password.
    raise SystemExit(run_up(_options_from_json(sys.stdin.read())))
