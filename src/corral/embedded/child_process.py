"""The supervised processes of one `corral up`, each watched until it is ready, restarted when it dies, and stopped.

All handling of the process happens in `run`; `stop` and `restart` only request. How to start it is worked out at
each start, so a restart picks up a changed port. A child that has never been ready and fails for good puts its reason
into `failure` instead of being tried for ever.

Children write to their log files themselves, opened for appending, so they outlive the supervisor without losing a
line. A file that has grown too large is copied to `<name>.log.1` and emptied; lines written meanwhile may be lost.

The frontend and the worker get their settings as environment variables. Secrets travel as the names of files, never in
the environment or on a command line. A variable and its `_FILE` twin are never both set. The worker does not receive
what only a frontend needs: it must not be able to reach the database.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from corral.domain.errors import CorralError
from corral.embedded.home import ChildStartFailed, HomeLayout
from corral.embedded.owned_processes import MARKER_HOME, MARKER_NAME, end_leftovers
from corral.embedded.private_files import PRIVATE_FILE
from corral.embedded.supervisor_state import ChildRecord, ChildState, SupervisorStateFile
from corral.embedded.tcp_ports import get_reachable_host, is_loopback
from corral.runtime.attempt import AttemptFailure, attempt
from corral.runtime.processes import (
    UNKNOWN_BIRTH_S,
    RestartBackoff,
    RestartCount,
    SpawnedProcess,
    SpawnRequest,
    describe_exit,
    end_in_steps,
    spawn_process,
)

# A readiness check costs a file read or a loopback connection; twenty of them a second cost next to nothing.
READY_POLL_S = 0.03
# A first start that fails this often will not succeed by itself.
START_ATTEMPTS = 3
# After SIGKILL a process is gone as soon as the kernel is done with its disk writes.
KILL_LIMIT_S = 10.0
CHILD_BACKOFF = RestartBackoff(first_s=0.2, ceiling_s=10.0, reset_after_s=30.0)
MAX_LOG_BYTES = 10 * 1024 * 1024
_TAIL_BYTES = 16 * 1024
# A log may pass its limit by what a child writes within this time.
LOG_CHECK_S = 20.0


def open_log(path: Path, max_bytes: int = MAX_LOG_BYTES) -> BinaryIO:
    """Open the log for a child that is about to start; one that is too large is set aside first."""
    shorten_log(path, max_bytes)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, PRIVATE_FILE), "ab", buffering=0)


def shorten_log(path: Path, max_bytes: int = MAX_LOG_BYTES) -> bool:
    """Keep the newest `max_bytes` aside and empty the file in place: its writers go on with the same descriptor."""
    try:
        if path.stat().st_size <= max_bytes:
            return False
    except FileNotFoundError:
        return False
    aside = path.with_name(path.name + ".1")
    with path.open("rb") as source:
        source.seek(-max_bytes, os.SEEK_END)
        with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE_FILE), "wb") as target:
            shutil.copyfileobj(source, target)
    os.truncate(path, 0)
    return True


def tail_log(path: Path, lines: int = 12) -> list[str]:
    """Return the last lines, for people."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            text = file.read().decode("utf-8", errors="replace")
    except OSError:
        return []
    return [line for line in text.splitlines() if line.strip()][-lines:]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildLaunch:
    """How `corral up` starts one child process: command, environment and user. No secret belongs in the command."""

    command: tuple[str, ...]
    env: Mapping[str, str]
    uid: int | None = None
    gid: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildPlan:
    """Describes a child process of `corral up`: how it is launched, when it is ready, and how it is stopped."""

    name: str
    launch: Callable[[], Awaitable[ChildLaunch]]
    is_ready: Callable[[int], Awaitable[bool]]
    # Each signal is given its seconds before the next; SIGKILL for the whole group comes after the last.
    stop_signals: tuple[tuple[signal.Signals, float], ...] = ((signal.SIGTERM, 10.0),)
    start_limit_s: float = 60.0


class ChildEventKind(StrEnum):
    """Names what happened to a child process of `corral up`: it became ready, died, or was stopped."""

    READY = "ready"
    DIED = "died"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildEvent:
    """Reports that a child process of `corral up` became ready, died or stopped, for the person who watches."""

    name: str
    kind: ChildEventKind
    took_s: float = 0.0
    reason: str = ""
    restart_in_s: float = 0.0
    # How many deaths in a row, or before the child became ready this time.
    deaths: int = 0
    is_first: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildDeps:
    """Dependencies that the supervisor of `corral up` hands to each child process: home, state file and so on."""

    home: HomeLayout
    state: SupervisorStateFile
    on_event: Callable[[ChildEvent], None]
    hurry: asyncio.Event
    backoff: RestartBackoff = CHILD_BACKOFF
    # Whether the home is still this supervisor's. If not, nothing is started any more: another one may run there.
    is_home_held: Callable[[], bool] = lambda: True


class ChildProcess:
    """Supervises one child process of `corral up`: starts it, waits until ready, restarts it, and stops it."""

    def __init__(self, plan: ChildPlan, deps: ChildDeps) -> None:
        self.plan = plan
        self.ready = asyncio.Event()
        self.failure: asyncio.Future[CorralError] = asyncio.get_running_loop().create_future()
        self._deps = deps
        self._record = ChildRecord()
        self._restarts = RestartCount()
        self._was_ready = False
        self._is_stopping = False
        # Set by `stop` and `restart`: whatever `run` waits for, it stops waiting.
        self._interrupt = asyncio.Event()
        self._finished_event = asyncio.Event()

    @property
    def name(self) -> str:
        return self.plan.name

    @property
    def pid(self) -> int | None:
        return self._record.pid

    def restart(self) -> None:
        """End the process and start it again, without counting that as a death."""
        self._interrupt.set()

    async def stop(self) -> None:
        """End the process for good; returns when it is gone. Only after `run` has been started."""
        self._is_stopping = True
        self._interrupt.set()
        await self._finished_event.wait()

    async def run(self) -> None:
        try:
            while not self._is_stopping:
                self._interrupt.clear()
                began = time.monotonic()
                outcome = await attempt(self._run_process)
                self.ready.clear()
                if isinstance(outcome, AttemptFailure):
                    await self._handle_death(outcome.error, time.monotonic() - began)
        finally:
            self._write_record(state=ChildState.STOPPED, pid=None, born_s=None)
            self._finished_event.set()

    async def _run_process(self) -> None:
        """Run one process from start to end. Returns if the end was requested, raises if it was not."""
        began = time.monotonic()
        # Launching writes into the home and spawning runs in it, so each of them looks first whose home it is.
        launch = await self.plan.launch() if self._deps.is_home_held() else None
        if self._is_stopping:
            return
        if launch is None or not self._deps.is_home_held():
            await self._interrupt.wait()
            return
        process = await self._spawn(launch)
        exited = asyncio.create_task(process.wait_ended())
        interrupted = asyncio.create_task(self._interrupt.wait())
        try:
            if await self._wait_ready(process, exited, interrupted):
                self._report_ready(time.monotonic() - began)
                await asyncio.wait({exited, interrupted}, return_when=asyncio.FIRST_COMPLETED)
            if self._interrupt.is_set():
                await self._terminate(process, exited)
                return
        finally:
            interrupted.cancel()
            if not exited.done():
                process.kill_group()
                await asyncio.shield(exited)
        raise ChildStartFailed(f"{self.name} {describe_exit(exited.result())}")

    async def _spawn(self, launch: ChildLaunch) -> SpawnedProcess:
        home = self._deps.home
        self._write_record(state=ChildState.STARTING, pid=None, born_s=None)
        marked = {**launch.env, MARKER_HOME: str(home.root), MARKER_NAME: self.name}
        log = home.get_log_path(self.name)
        shorten_log(log)
        process = await spawn_process(
            SpawnRequest(
                command=launch.command,
                environment=marked,
                # Python puts the folder on its module path, so it must have no names that could be modules.
                directory=home.run if launch.uid is None else Path("/"),
                stdout=log,
                stderr=log,
                uid=launch.uid,
                gid=launch.gid,
            )
        )
        birth = process.birth
        self._write_record(pid=birth.pid, born_s=None if birth.born_s == UNKNOWN_BIRTH_S else birth.born_s)
        return process

    async def _wait_ready(
        self,
        process: SpawnedProcess,
        exited: asyncio.Task[int],
        interrupted: asyncio.Task[bool],
    ) -> bool:
        deadline = time.monotonic() + self.plan.start_limit_s
        while time.monotonic() < deadline:
            outcome = await attempt(lambda: self.plan.is_ready(process.birth.pid))
            if exited.done() or interrupted.done():
                return False
            if not isinstance(outcome, AttemptFailure) and outcome.value:
                return True
            await asyncio.wait({exited, interrupted}, timeout=READY_POLL_S, return_when=asyncio.FIRST_COMPLETED)
        raise ChildStartFailed(f"{self.name} was not ready after {self.plan.start_limit_s:.0f} s")

    async def _terminate(self, process: SpawnedProcess, exited: asyncio.Task[int]) -> None:
        self._write_record(state=ChildState.STOPPING)
        began = time.monotonic()

        async def send(number: signal.Signals) -> None:
            process.send_signal(number)

        polite = [(partial(send, number), limit_s) for number, limit_s in self.plan.stop_signals]
        if not await end_in_steps(polite, partial(self._wait_unless_hurried, exited)):
            process.kill_group()
            await asyncio.wait({exited}, timeout=KILL_LIMIT_S)
        if self._is_stopping:
            self._report(ChildEventKind.STOPPED, took_s=time.monotonic() - began)

    async def _wait_unless_hurried(self, exited: asyncio.Task[int], limit_s: float) -> bool:
        hurry = asyncio.create_task(self._deps.hurry.wait())
        try:
            await asyncio.wait({exited, hurry}, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            hurry.cancel()
        return exited.done()

    async def _handle_death(self, error: Exception, lived_s: float) -> None:
        self._restarts = self._restarts.with_crash(lived_s, self._deps.backoff)
        pause_s = self._restarts.compute_pause_s(self._deps.backoff)
        if not self._was_ready and (self._restarts.in_a_row >= START_ATTEMPTS or _is_final(error)):
            self._give_up(error)
            pause_s = self._deps.backoff.ceiling_s
        self._write_record(state=ChildState.RESTARTING, pid=None, born_s=None, restarts=self._restarts.total)
        self._report(ChildEventKind.DIED, reason=str(error), restart_in_s=pause_s)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await self._interrupt.wait()

    def _give_up(self, error: Exception) -> None:
        if self.failure.done():
            return
        if isinstance(error, CorralError) and error.hint is not None:
            self.failure.set_result(error)
            return
        log = self._deps.home.get_log_path(self.name)
        last = "".join(f"\n    {line}" for line in tail_log(log))
        self.failure.set_result(
            ChildStartFailed(f"{error}.{last}", hint=f"Its log is {log}.", details={"child": self.name})
        )

    def _report_ready(self, took_s: float) -> None:
        is_first, self._was_ready = not self._was_ready, True
        self._write_record(state=ChildState.READY)
        self.ready.set()
        self._report(ChildEventKind.READY, took_s=took_s, is_first=is_first)

    def _report(
        self,
        kind: ChildEventKind,
        *,
        took_s: float = 0.0,
        reason: str = "",
        restart_in_s: float = 0.0,
        is_first: bool = False,
    ) -> None:
        self._deps.on_event(
            ChildEvent(
                name=self.name,
                kind=kind,
                took_s=took_s,
                reason=reason,
                restart_in_s=restart_in_s,
                deaths=self._restarts.in_a_row,
                is_first=is_first,
            )
        )

    def _write_record(self, **changes: object) -> None:
        self._record = replace(self._record, **changes)  # type: ignore[arg-type]
        self._deps.state.set_child(self.name, self._record)


def _is_final(error: Exception) -> bool:
    """Return whether a retry cannot help: a person has to do what the hint says."""
    return isinstance(error, CorralError) and error.hint is not None and not error.retryable


class ChildSupervisor:
    """Starts the child processes of `corral up` together, waits until they are ready, and stops them in reverse order.

    Starting at once is safe because each of them waits for what it needs; stopping in order is needed because a
    worker says goodbye to its frontend, and a frontend to the database. When `stop` returns, no process of this
    home lives, unless the home was deleted: then the children have ended, and what they left running is for `corral
    down`.
    """

    def __init__(self, plans: Sequence[ChildPlan], deps: ChildDeps, group: asyncio.TaskGroup) -> None:
        self._deps = deps
        self._group = group
        self.children = {plan.name: ChildProcess(plan, deps) for plan in plans}
        self._logs: asyncio.Task[None] | None = None

    def start(self) -> None:
        for child in self.children.values():
            self._group.create_task(child.run(), name=f"run {child.name}")
        self._logs = self._group.create_task(self._shorten_logs(), name="shorten logs")

    async def wait_ready(self) -> CorralError | None:
        """Return None when every child is ready, or the reason why one cannot become so."""
        all_ready = asyncio.create_task(self._wait_all_ready())
        failures = [child.failure for child in self.children.values()]
        awaited: list[asyncio.Future[Any]] = [all_ready, *failures]
        try:
            await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
        finally:
            all_ready.cancel()
        return next((failure.result() for failure in failures if failure.done()), None)

    def is_ready(self) -> bool:
        return all(child.ready.is_set() for child in self.children.values())

    def restart(self, *names: str) -> None:
        """Restart these children, because their environment has changed."""
        for name in names:
            if name in self.children:
                self.children[name].restart()

    async def stop(self) -> None:
        if self._logs is not None:
            self._logs.cancel()
        for child in reversed(self.children.values()):
            await child.stop()
        # What a child started and did not end itself carries our marker too. In a home that is not ours any more, so do
        # the processes of the supervisor that runs there now.
        if self._deps.is_home_held():
            await asyncio.to_thread(end_leftovers, self._deps.home)

    async def _wait_all_ready(self) -> None:
        for child in self.children.values():
            await child.ready.wait()

    async def _shorten_logs(self) -> None:
        while True:
            await asyncio.sleep(LOG_CHECK_S)
            for path in self._deps.home.logs.glob("*.log"):
                await asyncio.to_thread(shorten_log, path)


_FRONTEND_ONLY = (
    "CORRAL_DATABASE_URL",
    "CORRAL_NATS_ACCOUNT_SEED",
    "CORRAL_NATS_OPERATOR_SEED",
    "CORRAL_NATS_SYSTEM_SEED",
    "CORRAL_ADMIN_KEY",
    "CORRAL_LOCAL_JOIN_TOKEN",
    "CORRAL_KEY",
    "CORRAL_METRICS_KEY",
    "CORRAL_SECRETS_KEY",
    "CORRAL_HUB_TOKEN",
    "CORRAL_LIBRARY_STORAGE_KEY",
)
# The person's own CORRAL_ variables are about another cluster, or about the client.
_NOT_INHERITED = ("CORRAL_KEY", "CORRAL_URL", "CORRAL_DETACH", MARKER_HOME, MARKER_NAME)


# What the person has set for the worker with engines, and what an agent worker has no use for.
_ENGINE_ONLY = ("CORRAL_ADDRESS", "CORRAL_MODELS_DIR", "CORRAL_BACKENDS_DIR", "CORRAL_SHARED_MODELS_DIR")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpEndpoint:
    """Host and port where a child process of `corral up` answers HTTP."""

    host: str
    port: int

    @property
    def url(self) -> str:
        host = get_reachable_host(self.host)
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    @property
    def is_public(self) -> bool:
        """Return whether other machines can reach the endpoint."""
        return not is_loopback(self.host)


@dataclass(frozen=True, slots=True, kw_only=True)
class BusAddress:
    """Says where NATS is for `corral up`, and whether it is one of the supervisor's child processes."""

    nats_url: str
    nats_port: int
    is_own_bus: bool


def make_frontend_environment(
    inherited: Mapping[str, str], *, home: HomeLayout, endpoint: HttpEndpoint, bus: BusAddress
) -> dict[str, str]:
    variables = {
        "CORRAL_DATABASE_URL_FILE": str(home.database_url),
        "CORRAL_NATS_URL": bus.nats_url,
        "CORRAL_ADMIN_KEY_FILE": str(home.admin_key),
        "CORRAL_LOCAL_JOIN_TOKEN_FILE": str(home.join_token),
        "CORRAL_HOST": endpoint.host,
        "CORRAL_PORT": str(endpoint.port),
    }
    if "CORRAL_LIBRARY_DIR" not in inherited:
        variables["CORRAL_LIBRARY_DIR"] = str(home.root / "library")
    if not inherited.get("CORRAL_SECRETS_KEY_FILE"):
        variables["CORRAL_SECRETS_KEY_FILE"] = str(home.secrets_key)
    if "CORRAL_STATE_DIR" not in inherited:
        variables["CORRAL_STATE_DIR"] = str(home.root / "frontend")
    if bus.is_own_bus:
        variables["CORRAL_NATS_ACCOUNT_SEED_FILE"] = str(home.nats_account_seed)
        variables["CORRAL_NATS_OPERATOR_SEED_FILE"] = str(home.nats_operator_seed)
        variables["CORRAL_NATS_SYSTEM_SEED_FILE"] = str(home.nats_system_seed)
        if endpoint.is_public and "CORRAL_NATS_PUBLIC_URL" not in inherited:
            # The worker reaches NATS by the name under which it reached the frontend.
            variables["CORRAL_NATS_PUBLIC_URL"] = f"nats://{{host}}:{bus.nats_port}"
    return _merge(inherited, variables)


def make_worker_environment(
    inherited: Mapping[str, str], *, home: HomeLayout, frontend: HttpEndpoint, endpoint: HttpEndpoint
) -> dict[str, str]:
    """Return the variables of the worker. `endpoint` is where the worker says whether it is ready."""
    variables = {
        "CORRAL_JOIN": frontend.url,
        "CORRAL_TOKEN_FILE": str(home.join_token),
        "CORRAL_WORKER_HOME": str(home.worker),
        "CORRAL_HTTP_HOST": endpoint.host,
        "CORRAL_HTTP_PORT": str(endpoint.port),
    }
    if "CORRAL_SHARED_MODELS_DIR" not in inherited:
        # On one machine the files of models are there already, in the frontend's library.
        variables["CORRAL_SHARED_MODELS_DIR"] = inherited.get("CORRAL_LIBRARY_DIR") or str(home.root / "library")
    hidden = {name + suffix for name in _FRONTEND_ONLY for suffix in ("", "_FILE")}
    return _merge({name: value for name, value in inherited.items() if name not in hidden}, variables)


def make_agent_environment(
    inherited: Mapping[str, str], *, home: HomeLayout, frontend: HttpEndpoint, endpoint: HttpEndpoint
) -> dict[str, str]:
    """Return the variables of the agent worker: those of the worker, under another name and in another folder."""
    environment = make_worker_environment(inherited, home=home, frontend=frontend, endpoint=endpoint)
    for name in _ENGINE_ONLY:
        environment.pop(name, None)
    return environment | {
        "CORRAL_NODE_TYPE": "agent",
        "CORRAL_NAME": f"agent-{socket.gethostname()}",
        "CORRAL_WORKER_HOME": str(home.agent),
        # A file of settings may name some for the worker; an empty variable would not count.
        "CORRAL_PREFETCH_BACKENDS": ",",
        "CORRAL_PREFETCH_MODELS": ",",
    }


def _merge(inherited: Mapping[str, str], variables: Mapping[str, str]) -> dict[str, str]:
    twins = {name.removesuffix("_FILE") for name in variables} | {f"{name}_FILE" for name in variables}
    left_out = twins.union(_NOT_INHERITED)
    kept = {name: value for name, value in inherited.items() if name not in left_out}
    # Lines must reach the log when they are written, not when a buffer is full.
    return {**kept, "PYTHONUNBUFFERED": "1", **variables}
