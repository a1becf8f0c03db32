"""Starts, identifies and ends processes: engines of a worker, children of `corral up`, programs of the installer.

A supervised process is started in a session of its own, so that Ctrl-C on a terminal does not reach it and its group
holds only its own processes. It appends its output to files itself, so it outlives its supervisor without losing a
line. A pid alone proves nothing, because it is used again: a process is identified by its pid and its birth.
`run_program` runs a program to its end: bounded in time and in kept output, and never left behind.

Limit: what a supervisor does between a start and an end (readiness, records, reports) is its own business.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil

# The kernel gives the boot time in whole seconds, which may jump by one; a pid is not reused within this.
BIRTH_TOLERANCE_S = 1.5
# The birth of a process that had ended before it could be read. No live process has it.
UNKNOWN_BIRTH_S = -1.0
_PRIVATE_FILE = 0o600


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessBirth:
    """Identifies an operating-system process by its pid and start time, so that a reused pid is noticed.

    The start is in seconds after boot, which a changed wall clock does not move.
    """

    pid: int
    born_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SpawnRequest:
    """Specifies one operating-system process to start, and the two files that its output is appended to.

    The process gets a session of its own.
    """

    command: tuple[str, ...] = field(repr=False)
    environment: Mapping[str, str] = field(repr=False)
    directory: Path
    stdout: Path
    stderr: Path
    # The user and group to run as; None for those of this process.
    uid: int | None = None
    gid: int | None = None


class SpawnedProcess:
    """Handle of an operating-system process that this process has started."""

    def __init__(self, process: asyncio.subprocess.Process, birth: ProcessBirth) -> None:
        self._process = process
        self._birth = birth

    @property
    def birth(self) -> ProcessBirth:
        return self._birth

    def is_alive(self) -> bool:
        return self._process.returncode is None and is_alive(self._birth)

    async def wait_ended(self) -> int:
        return await self._process.wait()

    def send_signal(self, number: signal.Signals) -> None:
        """Signal the process alone. No-op if it has ended."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    def kill_group(self) -> None:
        kill_group(self._birth.pid)


async def spawn_process(request: SpawnRequest) -> SpawnedProcess:
    """Start a process. Raises OSError if there is no such program."""
    # Only where another account is requested: uvloop, on which workers run, refuses these arguments even if None.
    account: dict[str, Any] = {}
    if request.uid is not None:
        account = {"user": request.uid, "group": request.gid, "extra_groups": []}
    with contextlib.ExitStack() as files:
        stdout = files.enter_context(_open_for_append(request.stdout))
        stderr = files.enter_context(_open_for_append(request.stderr))
        process = await asyncio.create_subprocess_exec(
            *request.command,
            env=dict(request.environment),
            cwd=str(request.directory),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
            **account,
        )
    # Without a birth the process has ended and was reaped: nothing can be mistaken for it.
    birth = identify_process(process.pid) or ProcessBirth(pid=process.pid, born_s=UNKNOWN_BIRTH_S)
    return SpawnedProcess(process, birth)


@contextlib.contextmanager
def _open_for_append(path: Path) -> Iterator[int]:
    """Open an output file for appending: when it is truncated or emptied, an appender goes on at its new end."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, _PRIVATE_FILE)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def identify_process(pid: int) -> ProcessBirth | None:
    """Return the birth of the process that has this pid now; None if there is none."""
    try:
        return ProcessBirth(pid=pid, born_s=psutil.Process(pid).create_time() - psutil.boot_time())
    except psutil.Error:
        return None


def is_same_birth(birth: ProcessBirth, known: ProcessBirth) -> bool:
    return birth.pid == known.pid and abs(birth.born_s - known.born_s) <= BIRTH_TOLERANCE_S


def is_alive(known: ProcessBirth) -> bool:
    """Return whether exactly this process lives, rather than a zombie or a later process with its pid."""
    now = identify_process(known.pid)
    if now is None or not is_same_birth(now, known):
        return False
    try:
        return psutil.Process(known.pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def iterate_live_processes() -> Iterator[psutil.Process]:
    """Yield all processes but zombies. Not by `process_iter`: its cache of a pid may be of an earlier process."""
    for pid in psutil.pids():
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            if process.status() != psutil.STATUS_ZOMBIE:
                yield process


def read_marker(process: psutil.Process, variable: str) -> str | None:
    """Return a variable of the process's environment; None for another user's process and for one that has ended."""
    try:
        return process.environ().get(variable)
    except (psutil.Error, OSError, ValueError):
        return None


def signal_processes(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        # psutil compares the birth again before it signals: a pid that was reused is not hit.
        with contextlib.suppress(psutil.Error):
            process.send_signal(number)


def kill_group(pid: int) -> None:
    """Kill a process that leads its own session, with everything of its group that it has left running."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


async def end_in_steps(
    steps: Iterable[tuple[Callable[[], Awaitable[None]], float]], wait_ended: Callable[[float], Awaitable[bool]]
) -> bool:
    """End a process politely, then by force: send each signal in turn and give it its seconds. Return whether it ended.

    `wait_ended` waits up to so many seconds and returns whether the process has ended.
    """
    for send, limit_s in steps:
        await send()
        if await wait_ended(limit_s):
            return True
    return False


def describe_exit(code: int | None) -> str:
    """Describe an exit code of `subprocess`: negative for a signal, None where it could not be observed."""
    if code is None:
        return "ended with an unknown exit code"
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        return f"was ended by signal {-code}"
    # The usual reason for a SIGKILL that no program sent.
    return f"was ended by {name}" + (", perhaps because memory ran out" if -code == signal.SIGKILL else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartBackoff:
    """Says how long to wait before a crashed process is restarted: first pause, ceiling, and when it starts over.

    The pause doubles with each crash in a row, up to the ceiling, and starts over after a long healthy time. There is
    no last attempt: a process that comes back after an hour is better than one that an admin has to restart by hand.
    """

    first_s: float = 1.0
    ceiling_s: float = 60.0
    reset_after_s: float = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartCount:
    """Counts the restarts of a supervised process: all for people, and those in a row for the next pause."""

    total: int = 0
    in_a_row: int = 0

    def with_crash(self, healthy_s: float, backoff: RestartBackoff) -> RestartCount:
        in_a_row = 1 if healthy_s >= backoff.reset_after_s else self.in_a_row + 1
        return replace(self, total=self.total + 1, in_a_row=in_a_row)

    def compute_pause_s(self, backoff: RestartBackoff) -> float:
        # The exponent is bounded: after a thousand crashes the power would be a number of a thousand bits.
        doubled = backoff.first_s * 2 ** min(max(0, self.in_a_row - 1), 16)
        return float(min(backoff.ceiling_s, doubled))


OUTPUT_BYTES_MAX = 64 * 1024
TAIL_LINES = 20
_CHUNK = 16 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramResult:
    """Exit code and last output of a program that was run to its end; no code means that it timed out."""

    code: int | None
    """None if the program was ended because its time was up."""
    output: str

    @property
    def is_success(self) -> bool:
        return self.code == 0

    @property
    def outcome(self) -> str:
        if self.code is None:
            return "did not end in time"
        if self.code < 0:
            with contextlib.suppress(ValueError):
                return f"was ended by {signal.Signals(-self.code).name}"
        return f"ended with {self.code}"

    @property
    def tail(self) -> str:
        return "\n".join(self.output.strip().splitlines()[-TAIL_LINES:])


async def run_program(
    command: Sequence[str], *, folder: Path, environment: Mapping[str, str], limit_s: float
) -> ProgramResult:
    """Run a program to its end. Raises OSError if it cannot be started."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env=dict(environment),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    output = bytearray()
    code: int | None = None
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await _drain(process, output)
                code = await process.wait()
    finally:
        # Also end what the program has started itself and left running.
        kill_group(process.pid)
        await process.wait()
    return ProgramResult(code=code, output=output.decode(errors="replace"))


async def _drain(process: asyncio.subprocess.Process, output: bytearray) -> None:
    assert process.stdout is not None
    while chunk := await process.stdout.read(_CHUNK):
        output += chunk
        del output[:-OUTPUT_BYTES_MAX]
