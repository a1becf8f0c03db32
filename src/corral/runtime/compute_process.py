"""Runs functions in one other process, so that long work does not block the event loop.

A thread would not do: decoders hold the interpreter's lock. The process is started with the first call, ends when it
has been idle for a minute, and is replaced when it dies or takes too long. One call runs at a time, in the order in
which they came. Guarantee: waiting calls are bounded in bytes, running ones in time; a call that is cancelled ends with
its process. Limit: functions and their results are pickled, so both are small and importable; large data is handed over
as plain bytes.
"""

from __future__ import annotations

import asyncio
import pickle
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from corral.domain.errors import Unavailable
from corral.runtime.compute_child import LENGTHS, encode_head
from corral.runtime.python_environment import make_python_environment

T = TypeVar("T")

_PIECE_BYTES = 256 * 1024
_COMMAND = (sys.executable, "-m", "corral.runtime.compute_child")


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeOptions:
    """Limits of a `ComputeProcess`, which runs functions in another process: bytes, seconds per call, idle seconds."""

    # Bytes that may wait or be worked on. A call without another one before it is always accepted.
    bytes_max: int = 128 * 1024 * 1024
    timeout_s: float = 30.0
    idle_s: float = 60.0


class ComputeProcess:
    """Runs CPU-heavy functions of a frontend in another process, so that they do not hold up its event loop.

    Pure functions, one call at a time.
    """

    def __init__(self, options: ComputeOptions | None = None) -> None:
        self._options = options or ComputeOptions()
        self._turn = asyncio.Lock()
        self._process: Process | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._held_bytes = 0
        self._is_closed = False

    @property
    def pid(self) -> int | None:
        """Return the id of the process; None while there is none."""
        return self._process.pid if self._process is not None else None

    async def run(self, work: Callable[[bytes], tuple[T, bytes]], payload: bytes) -> tuple[T, bytes]:
        """Return what `work` returns for `payload`, or raise what it raises.

        Raises `Unavailable` if too much waits already, the work took too long, or the process died of it."""
        size_bytes = len(payload)
        if self._held_bytes and self._held_bytes + size_bytes > self._options.bytes_max:
            raise Unavailable(
                "This frontend is already translating as many large requests and responses as it may hold.",
                hint="Retry in a moment, or on another frontend.",
                code="translation_busy",
            )
        self._held_bytes += size_bytes
        try:
            async with self._turn:
                return await self._run_now(work, payload)
        finally:
            self._held_bytes -= size_bytes

    async def close(self) -> None:
        """End the process. Calls that wait fail."""
        self._is_closed = True
        await self._end()

    async def _run_now(self, work: Callable[[bytes], tuple[T, bytes]], payload: bytes) -> tuple[T, bytes]:
        self._stop_idle_timer()
        value: T | Exception | None = None
        is_answered = False
        try:
            async with asyncio.timeout(self._options.timeout_s):
                value, written = await self._exchange(await self._start(), pickle.dumps(work), payload)
                is_answered = True
        except (TimeoutError, OSError, EOFError) as error:
            raise Unavailable(
                "A large request or response could not be translated: the process for it took too long, or died.",
                hint="Send or request less at a time.",
                code="translation_failed",
            ) from error
        finally:
            if not is_answered:
                # The process is in the middle of work that no caller waits for.
                await self._end()
        self._idle_timer = asyncio.get_running_loop().call_later(self._options.idle_s, self._end_idle)
        if isinstance(value, Exception):
            raise value
        return value, written

    async def _start(self) -> Process:
        if self._is_closed:
            raise Unavailable("This frontend is stopping.", hint="Retry on another frontend.", code="stopping")
        if self._process is None or self._process.returncode is not None:
            environment = make_python_environment()
            self._process = await asyncio.create_subprocess_exec(
                *_COMMAND, stdin=PIPE, stdout=PIPE, env=environment, start_new_session=True
            )
        return self._process

    async def _exchange(self, process: Process, pickled: bytes, payload: bytes) -> tuple[Any, bytes]:
        target, source = process.stdin, process.stdout
        assert target is not None
        assert source is not None
        target.write(encode_head(pickled, payload))
        view = memoryview(payload)
        for at in range(0, len(payload), _PIECE_BYTES):
            target.write(view[at : at + _PIECE_BYTES])
            await target.drain()
        pickled_bytes, written_bytes = LENGTHS.unpack(await source.readexactly(LENGTHS.size))
        value = pickle.loads(await source.readexactly(pickled_bytes))  # noqa: S301 - from our own child
        pieces, left_bytes = [], written_bytes
        while left_bytes:
            piece = await source.readexactly(min(left_bytes, _PIECE_BYTES))
            pieces.append(piece)
            left_bytes -= len(piece)
        return value, b"".join(pieces)

    async def _end(self) -> None:
        self._stop_idle_timer()
        process, self._process = self._process, None
        if process is not None:
            if process.returncode is None:
                process.kill()
            await process.wait()

    def _end_idle(self) -> None:
        """Close the standard input of an idle process, which ends it; the next call starts another one."""
        process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            process.stdin.close()

    def _stop_idle_timer(self) -> None:
        timer, self._idle_timer = self._idle_timer, None
        if timer is not None:
            timer.cancel()
