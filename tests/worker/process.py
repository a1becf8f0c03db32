"""One worker process, its output, and its end."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

from corral.runtime.tasks import TaskSet

PROGRAM = Path(__file__).parent / "programs" / "worker.py"
END_LIMIT_S = 40.0


class WorkerProcess:
    def __init__(self, environment: dict[str, str]) -> None:
        self.environment = environment
        self._process: asyncio.subprocess.Process | None = None
        self._readers = TaskSet("worker output")
        self.lines: list[str] = []

    async def __aenter__(self) -> WorkerProcess:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(PROGRAM),
            env=self.environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        self._readers.start(self._read(self._process), name="read")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.ended()

    @property
    def process(self) -> asyncio.subprocess.Process:
        assert self._process is not None, "the process was not started"
        return self._process

    @property
    def output(self) -> str:
        return "\n".join(self.lines)

    def logged(self, event: str) -> list[dict[str, Any]]:
        parsed = [json.loads(line) for line in self.lines if line.startswith("{")]
        return [line for line in parsed if line.get("event") == event]

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def ended(self) -> int:
        """The exit code, once all of its output has been read."""
        async with asyncio.timeout(END_LIMIT_S):
            await self._readers.join()
            return await self.process.wait()

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            self.lines.append(line.decode().rstrip())
