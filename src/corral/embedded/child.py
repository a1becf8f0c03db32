"""One supervised process: started, watched until it is ready, started again when it dies, stopped when asked.

All handling of the process happens in `run`; `stop` and `restart` only ask. How to start it is worked out anew at
each start, so a restart picks up a changed port. A child that has never been ready and fails for good puts its
reason into `failure` instead of being tried for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from corral.domain.errors import CorralError
from corral.embedded.errors import StartFailed
from corral.embedded.home import Home
from corral.embedded.logs import open_log, tail_log
from corral.embedded.processes import MARKER_HOME, MARKER_NAME, identify
from corral.embedded.state import ChildRecord, ChildState, StateFile
from corral.runtime.guard import Failed, attempt

# A ready check costs a file read or a loopback connection; twenty of them a second disturb nobody.
READY_POLL_S = 0.03
# A first start that fails this often will not succeed by itself.
START_ATTEMPTS = 3
# After SIGKILL a process is gone as soon as the kernel is done with its disk writes.
KILL_LIMIT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How to start a process now. Nothing secret belongs into `command`: everybody can read it."""

    command: tuple[str, ...]
    env: Mapping[str, str]
    uid: int | None = None
    gid: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildPlan:
    name: str
    launch: Callable[[], Awaitable[Launch]]
    is_ready: Callable[[int], Awaitable[bool]]
    # Each signal is given its seconds before the next; SIGKILL for the whole group comes after the last.
    stop_signals: tuple[tuple[signal.Signals, float], ...] = ((signal.SIGTERM, 10.0),)
    start_limit_s: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """The pause before a restart doubles with each death in a row and starts over after a long life."""

    first_s: float = 0.2
    ceiling_s: float = 10.0
    reset_after_s: float = 30.0

    def pause_s(self, deaths: int) -> float:
        return float(min(self.ceiling_s, self.first_s * 2 ** min(deaths - 1, 16)))


class Happening(StrEnum):
    READY = "ready"
    DIED = "died"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildEvent:
    name: str
    what: Happening
    took_s: float = 0.0
    reason: str = ""
    restart_in_s: float = 0.0
    # How many deaths in a row, or before this ready.
    deaths: int = 0
    is_first: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What all children of one supervisor share."""

    home: Home
    state: StateFile
    tell: Callable[[ChildEvent], None]
    hurry: asyncio.Event
    backoff: Backoff = Backoff()
    # Whether the home is still this supervisor's. If not, nothing is started any more: another one may run there.
    is_home_ours: Callable[[], bool] = lambda: True


class Child:
    def __init__(self, plan: ChildPlan, around: Surroundings) -> None:
        self.plan = plan
        self.ready = asyncio.Event()
        self.failure: asyncio.Future[CorralError] = asyncio.get_running_loop().create_future()
        self._around = around
        self._record = ChildRecord()
        self._deaths = 0
        self._was_ready = False
        self._stopping = False
        # Set by `stop` and `restart`: whatever `run` waits for, it stops waiting.
        self._interrupt = asyncio.Event()
        self._finished = asyncio.Event()

    @property
    def name(self) -> str:
        return self.plan.name

    @property
    def pid(self) -> int | None:
        return self._record.pid

    def restart(self) -> None:
        """End the process and start it anew, without counting that as a death."""
        self._interrupt.set()

    async def stop(self) -> None:
        """End the process for good; returns when it is gone. Only after `run` has been started."""
        self._stopping = True
        self._interrupt.set()
        await self._finished.wait()

    async def run(self) -> None:
        try:
            while not self._stopping:
                self._interrupt.clear()
                began = time.monotonic()
                outcome = await attempt(self._live)
                self.ready.clear()
                if isinstance(outcome, Failed):
                    await self._after_death(outcome.error, time.monotonic() - began)
        finally:
            self._write(state=ChildState.STOPPED, pid=None, born_s=None)
            self._finished.set()

    async def _live(self) -> None:
        """From start to end of one process. Returns if the end was asked for, raises if it was not."""
        began = time.monotonic()
        # Launching writes into the home and spawning runs in it, so each of them looks first whose home it is.
        launch = await self.plan.launch() if self._around.is_home_ours() else None
        if self._stopping:
            return
        if launch is None or not self._around.is_home_ours():
            await self._interrupt.wait()
            return
        process = await self._spawn(launch)
        exited = asyncio.create_task(process.wait())
        interrupted = asyncio.create_task(self._interrupt.wait())
        try:
            if await self._becomes_ready(process, exited, interrupted):
                self._tell_ready(time.monotonic() - began)
                await asyncio.wait({exited, interrupted}, return_when=asyncio.FIRST_COMPLETED)
            if self._interrupt.is_set():
                await self._terminate(process, exited)
                return
        finally:
            interrupted.cancel()
            if not exited.done():
                _signal_group(process.pid, signal.SIGKILL)
                await asyncio.shield(exited)
        raise StartFailed(f"{self.name} {describe_exit(exited.result())}")

    async def _spawn(self, launch: Launch) -> asyncio.subprocess.Process:
        home = self._around.home
        self._write(state=ChildState.STARTING, pid=None, born_s=None)
        marked = {**launch.env, MARKER_HOME: str(home.root), MARKER_NAME: self.name}
        with open_log(home.log_of(self.name)) as log:
            process = await asyncio.create_subprocess_exec(
                *launch.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=marked,
                # Python puts it on its module path, so it must be a folder without names that could be modules.
                cwd=home.run if launch.uid is None else "/",
                # Its own session: Ctrl-C on the terminal reaches the supervisor alone, which stops in order.
                start_new_session=True,
                user=launch.uid,
                group=launch.gid,
                extra_groups=None if launch.uid is None else [],
            )
        known = identify(process.pid)
        self._write(pid=process.pid, born_s=None if known is None else known.born_s)
        return process

    async def _becomes_ready(
        self,
        process: asyncio.subprocess.Process,
        exited: asyncio.Task[int],
        interrupted: asyncio.Task[bool],
    ) -> bool:
        deadline = time.monotonic() + self.plan.start_limit_s
        while time.monotonic() < deadline:
            outcome = await attempt(lambda: self.plan.is_ready(process.pid))
            if exited.done() or interrupted.done():
                return False
            if not isinstance(outcome, Failed) and outcome.value:
                return True
            await asyncio.wait({exited, interrupted}, timeout=READY_POLL_S, return_when=asyncio.FIRST_COMPLETED)
        raise StartFailed(f"{self.name} was not ready after {self.plan.start_limit_s:.0f} s")

    async def _terminate(self, process: asyncio.subprocess.Process, exited: asyncio.Task[int]) -> None:
        self._write(state=ChildState.STOPPING)
        began = time.monotonic()
        for number, limit_s in self.plan.stop_signals:
            if exited.done():
                break
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)
            await self._wait_unless_hurried(exited, limit_s)
        if not exited.done():
            _signal_group(process.pid, signal.SIGKILL)
            await asyncio.wait({exited}, timeout=KILL_LIMIT_S)
        if self._stopping:
            self._tell(Happening.STOPPED, took_s=time.monotonic() - began)

    async def _wait_unless_hurried(self, exited: asyncio.Task[int], limit_s: float) -> None:
        hurried = asyncio.create_task(self._around.hurry.wait())
        try:
            await asyncio.wait({exited, hurried}, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            hurried.cancel()

    async def _after_death(self, error: Exception, lived_s: float) -> None:
        self._deaths = 1 if lived_s >= self._around.backoff.reset_after_s else self._deaths + 1
        pause_s = self._around.backoff.pause_s(self._deaths)
        if not self._was_ready and (self._deaths >= START_ATTEMPTS or _is_final(error)):
            self._give_up(error)
            pause_s = self._around.backoff.ceiling_s
        self._write(state=ChildState.RESTARTING, pid=None, born_s=None, restarts=self._record.restarts + 1)
        self._tell(Happening.DIED, reason=str(error), restart_in_s=pause_s)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await self._interrupt.wait()

    def _give_up(self, error: Exception) -> None:
        if self.failure.done():
            return
        if isinstance(error, CorralError) and error.hint is not None:
            self.failure.set_result(error)
            return
        log = self._around.home.log_of(self.name)
        last = "".join(f"\n    {line}" for line in tail_log(log))
        self.failure.set_result(StartFailed(f"{error}.{last}", hint=f"Its log is {log}.", details={"child": self.name}))

    def _tell_ready(self, took_s: float) -> None:
        is_first, self._was_ready = not self._was_ready, True
        self._write(state=ChildState.READY)
        self.ready.set()
        self._tell(Happening.READY, took_s=took_s, is_first=is_first)

    def _tell(
        self,
        what: Happening,
        *,
        took_s: float = 0.0,
        reason: str = "",
        restart_in_s: float = 0.0,
        is_first: bool = False,
    ) -> None:
        self._around.tell(
            ChildEvent(
                name=self.name,
                what=what,
                took_s=took_s,
                reason=reason,
                restart_in_s=restart_in_s,
                deaths=self._deaths,
                is_first=is_first,
            )
        )

    def _write(self, **changes: object) -> None:
        self._record = replace(self._record, **changes)  # type: ignore[arg-type]
        self._around.state.set_child(self.name, self._record)


def describe_exit(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def _is_final(error: Exception) -> bool:
    """Whether trying again cannot help: a person has to do what the hint says."""
    return isinstance(error, CorralError) and error.hint is not None and not error.retryable


def _signal_group(pid: int, number: signal.Signals) -> None:
    # The child leads its own session, so its group holds nobody else's processes.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
