"""Runs programs for the installer: bounded in time and in kept output, and never left behind."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from corral.runtime.processes import kill_group

OUTPUT_BYTES_MAX = 64 * 1024
TAIL_LINES = 20
_CHUNK = 16 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramResult:
    """Holds the exit code and the last output of a program that the installer ran; no code means that it timed out."""

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
