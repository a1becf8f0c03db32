"""`corral serve --processes N`: several whole frontends on one port, and a small parent that looks after them.

The parent serves nothing. It holds the port's number without listening, starts N times `corral serve`, each with an id
of its own, starts again what dies, after a pause that grows, and passes on what it is told: SIGTERM lets all of them
finish what they answer. Each has its own socket on the port (SO_REUSEPORT), and the kernel deals out new connections.
A parent that is killed takes its children with it: they notice within a second and leave as if told to.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field

import structlog

from corral.adapters.system import SystemClock, SystemIds
from corral.app.listening.port import PARENT_VARIABLE, listen
from corral.app.listening.siblings import FOLDER_VARIABLE
from corral.app.logs import configure_logging
from corral.app.settings import FrontendSettings
from corral.domain.errors import InvalidRequest
from corral.ports.runtime import Clock

log = structlog.get_logger(__name__)

# While none of them has lived for a while, one that dies this often in a row will not do better by itself.
START_ATTEMPTS = 3
# Beyond the grace: hanging up, handing over what it holds, closing.
LEAVE_LIMIT_S = 60.0


def run_processes(settings: FrontendSettings) -> int:
    """Until SIGINT or SIGTERM, or until it is clear that they cannot run; the exit code."""
    configure_logging(settings.log_format, settings.log_level)
    _check_platform()
    # Where they tell each other their metrics; closed to other users.
    with hold_port(settings.host, settings.port) as held, tempfile.TemporaryDirectory(prefix="corral-") as folder:
        plan = _plan(settings, held.getsockname()[1], {**os.environ, FOLDER_VARIABLE: folder})
        return asyncio.run(Family(plan, SystemClock()).run())


def _check_platform() -> None:
    if sys.platform == "win32" or not hasattr(socket, "SO_REUSEPORT"):
        raise InvalidRequest(
            "Several processes cannot share a port on this system.",
            hint="Leave --processes out, and start frontends on ports of their own instead.",
        )


def hold_port(host: str, port: int) -> socket.socket:
    """The number of a free port, kept for the children. It does not listen, so no connection goes astray in it."""
    # Without sharing first: a port that is anybody's already is told at once, instead of being shared by mistake.
    with listen(host, port) as asked:
        address = asked.getsockname()
        family = asked.family
    held = socket.socket(family, socket.SOCK_STREAM)
    try:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind(address)
    except OSError:
        held.close()
        raise
    return held


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyPlan:
    # By the child's id.
    commands: Mapping[str, tuple[str, ...]]
    environment: Mapping[str, str] = field(repr=False)
    # How long a child may take to leave before it is killed.
    leave_limit_s: float
    # The pause before a new start doubles with each death in a row, from the first to the last of these.
    pause_s: float = 0.2
    pause_max_s: float = 10.0
    # Who has lived so long starts over.
    proof_s: float = 30.0


def _plan(settings: FrontendSettings, port: int, environment: Mapping[str, str]) -> FamilyPlan:
    family_id = settings.instance_id or SystemIds().new_id()
    # The last of two equal flags counts: the children are told all that the parent was told, but for these.
    serve = (sys.executable, "-m", "corral", *sys.argv[1:], "--processes", "1", "--port", str(port), "--instance-id")
    return FamilyPlan(
        commands={child: (*serve, child) for child in (f"{family_id}-{n + 1}" for n in range(settings.processes))},
        environment={**environment, PARENT_VARIABLE: str(os.getpid())},
        leave_limit_s=settings.stop_grace_s + LEAVE_LIMIT_S,
    )


class Family:
    """All children of one parent."""

    def __init__(self, plan: FamilyPlan, clock: Clock) -> None:
        self.plan = plan
        self.clock = clock
        self.ending = asyncio.Event()
        self._exit_code = 0
        self._has_proved_itself = False
        self._children = [_Child(name, command, self) for name, command in plan.commands.items()]

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.end)
        log.info("frontend processes start", processes=len(self._children), pid=os.getpid())
        async with asyncio.TaskGroup() as group:
            for child in self._children:
                group.create_task(child.run(), name=child.name)
        return self._exit_code

    def end(self) -> None:
        """Have all of them leave; asked again, without waiting for what they answer."""
        self.ending.set()
        for child in self._children:
            child.tell(signal.SIGTERM)

    def died(self, child: _Child, code: int, lived_s: float) -> None:
        """One of them has ended, and nobody had told it to."""
        self._has_proved_itself |= lived_s >= self.plan.proof_s
        log.warning("a frontend process has died", child=child.name, exit_code=code, deaths=child.deaths)
        if child.deaths >= START_ATTEMPTS and not self._has_proved_itself:
            log.error("the frontend processes cannot start", exit_code=code)
            self._exit_code = code if code > 0 else 1
            self.end()


class _Child:
    def __init__(self, name: str, command: tuple[str, ...], family: Family) -> None:
        self.name = name
        self.deaths = 0
        self._command = command
        self._family = family
        self._process: asyncio.subprocess.Process | None = None

    async def run(self) -> None:
        family, plan = self._family, self._family.plan
        while not family.ending.is_set():
            began = family.clock.monotonic()
            code = await self._live()
            if family.ending.is_set():
                return
            lived_s = family.clock.monotonic() - began
            self.deaths = 1 if lived_s >= plan.proof_s else self.deaths + 1
            family.died(self, code, lived_s)
            await _happens(family.ending, min(plan.pause_max_s, plan.pause_s * 2 ** min(self.deaths - 1, 16)))

    def tell(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)

    async def _live(self) -> int:
        """One life; its exit code."""
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.DEVNULL,
            env=dict(self._family.plan.environment),
            # A Ctrl-C on the terminal reaches the parent alone: twice would mean not to wait.
            start_new_session=True,
        )
        if self._family.ending.is_set():
            self.tell(signal.SIGTERM)
        exited = asyncio.create_task(self._process.wait())
        ended = asyncio.create_task(self._family.ending.wait())
        await asyncio.wait({exited, ended}, return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        if not await _is_done(exited, self._family.plan.leave_limit_s if self._family.ending.is_set() else 0.0):
            log.error("a frontend process did not leave and is killed", child=self.name)
            self.tell(signal.SIGKILL)
        return await exited


async def _happens(event: asyncio.Event, within_s: float) -> None:
    try:
        async with asyncio.timeout(within_s):
            await event.wait()
    except TimeoutError:
        return


async def _is_done(task: asyncio.Task[int], within_s: float) -> bool:
    await asyncio.wait({task}, timeout=within_s)
    return task.done()
