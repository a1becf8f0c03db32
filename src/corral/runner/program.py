"""Composes the runner process. A worker starts it, with pipes as stdin and stdout."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import sys
import tempfile
import time
from datetime import UTC, datetime

import aiohttp
import psutil

from corral import __version__
from corral.domain.run import SERVER_GRACE_S
from corral.runner.document_reader import DocumentReader
from corral.runner.logs import configure_runner_logging
from corral.runner.mcp_pool import McpPool
from corral.runner.model_step import GuidedModelRegistry
from corral.runner.runner_process import RunnerProcess
from corral.runner.secret_masker import SecretMasker
from corral.runner.stdio_server import StdioOptions
from corral.runner.turn import TurnDeps
from corral.runner.worker_link import WorkerLink
from corral.wire.runner_protocol import (
    PROGRAM_HOMES_VARIABLE,
    PROGRAM_LIMITS_VARIABLE,
    SERVER_GRACE_VARIABLE,
    ProgramLimits,
)

# Model calls of all runs; each run makes one at a time.
CONNECTIONS_MAX = 512
# What the process may write to, where the system counts that. A run that needs more fails, and not the machine.
MEMORY_BYTES_MIN = 1024**3
MEMORY_BYTES_MAX = 4 * 1024**3
# What the processes that read documents get of the environment: it may hold secrets.
_READER_VARIABLES = ("PATH", "PYTHONPATH", "LANG")


class RunnerClock:
    """The real clock of the runner process. Implements `ports.runtime.Clock`.

    The adapters of the other programs are not for runners.
    """

    def monotonic(self) -> float:
        return time.monotonic()

    def wall(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def run_program() -> None:
    """Run until the worker closes the pipe."""
    # The process holds secrets: it leaves no image of its memory behind.
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _limit_memory()
    # Stdout belongs to the protocol alone: whatever a library prints goes to the log.
    protocol_output = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    # Ctrl-C on the worker's terminal is the worker's business; it closes the pipe.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    masker = SecretMasker()
    configure_runner_logging(masker, sys.stderr)
    asyncio.run(_run(masker, protocol_output))


def _limit_memory() -> None:
    """Limit this process to half of the machine's memory. Programs of MCP servers have limits of their own."""
    limit = min(MEMORY_BYTES_MAX, max(MEMORY_BYTES_MIN, psutil.virtual_memory().total // 2))
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    with contextlib.suppress(ValueError, OSError):
        # The hard limit stays: it would be that of the programs, too.
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


async def _run(masker: SecretMasker, protocol_output: int) -> None:
    clock = RunnerClock()
    limits = ProgramLimits.model_validate_json(os.environ.get(PROGRAM_LIMITS_VARIABLE, "{}"))
    stdio = StdioOptions(
        path=os.environ.get("PATH", os.defpath),
        lang=os.environ.get("LANG", "C.UTF-8"),
        limits=limits,
        homes=os.environ.get(PROGRAM_HOMES_VARIABLE) or f"{tempfile.gettempdir()}/corral-mcp-",
    )
    connector = aiohttp.TCPConnector(limit=CONNECTIONS_MAX)
    # Runs of all users share the session.
    async with aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as http:
        deps = TurnDeps(
            http=http,
            pool=McpPool(stdio, clock, masker),
            clock=clock,
            masker=masker,
            guided_models=GuidedModelRegistry(),
            server_grace_s=float(os.environ.get(SERVER_GRACE_VARIABLE, SERVER_GRACE_S)),
            documents=DocumentReader(
                limits, {name: os.environ[name] for name in _READER_VARIABLES if name in os.environ}
            ),
        )
        link = await WorkerLink.open(sys.stdin.buffer, os.fdopen(protocol_output, "wb", buffering=0))
        runner = RunnerProcess(link, deps)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, runner.shut_down)
        await runner.serve(os.getpid(), __version__)
        link.close()
