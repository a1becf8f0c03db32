"""A real nats-server for tests: on a free loopback port, with an authority, and gone when the block ends."""

from __future__ import annotations

import asyncio
import random
import shutil
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType

from corral.adapters.nats.authority import NatsAuthority, NatsServerTls
from corral.adapters.nats.client import NatsBus, ReconnectTiming
from corral.adapters.nats.connection import NatsEndpoint
from corral.adapters.nats.credentials import CredentialProvider, UserTokenIssuer
from corral.adapters.system import SystemClock
from corral.bus.subjects import BusRole
from corral.runtime.tasks import TaskSet
from tests.support import polling
from tests.support.ports import find_free_port

START_LIMIT_S = 20.0
# Tests do not want to wait a second for every attempt.
QUICK = ReconnectTiming(retry_s=0.05)


class NatsServer:
    """`async with NatsServer(tmp_path) as server:` runs one; `kill` and `restart` are for the tests of outages."""

    def __init__(
        self,
        directory: Path,
        authority: NatsAuthority | None = None,
        *,
        tls: NatsServerTls | None = None,
        is_started: bool = True,
    ) -> None:
        self.authority = authority or NatsAuthority.create()
        self.port = find_free_port()
        self.directory = directory / f"nats-{self.port}"
        self._tls = tls
        self._is_started = is_started
        self._process: asyncio.subprocess.Process | None = None
        self._lines: list[str] = []
        self._readers = TaskSet("nats-server log")

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return "\n".join(self._lines)

    @property
    def minter(self) -> UserTokenIssuer:
        return UserTokenIssuer(self.authority.account_seed)

    async def __aenter__(self) -> NatsServer:
        if self._is_started:
            await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.kill()
        await self._readers.close()

    async def start(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        config = self.directory / "nats.conf"
        config.write_text(
            self.authority.render_server_config(
                host="127.0.0.1", port=self.port, directory=self.directory, tls=self._tls
            )
        )
        self._process = await asyncio.create_subprocess_exec(
            _binary(), "-c", str(config), stderr=asyncio.subprocess.PIPE, stdin=asyncio.subprocess.DEVNULL
        )
        ready = asyncio.Event()
        self._readers.start(self._read_log(self._process, ready), name="read")
        async with asyncio.timeout(START_LIMIT_S):
            await ready.wait()
        assert "Server is ready" in self.log, f"nats-server did not start:\n{self.log}"

    async def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        process, self._process = self._process, None
        if process is not None:
            if process.returncode is None:
                process.kill()
            await process.wait()

    async def restart(self) -> None:
        """Kill it and start it again on the same port with the same files."""
        await self.kill()
        await self.start()

    def endpoint(self, name: str = "test") -> NatsEndpoint:
        return NatsEndpoint(urls=(self.url,), client_name=name)

    def provider(self, role: BusRole, owner_id: str, *, ttl_s: float = 3600.0) -> CredentialProvider:
        return self.minter.make_provider(role, subject_id=owner_id, name=owner_id, ttl_s=ttl_s, clock=SystemClock())

    def bus(self, role: BusRole, owner_id: str, *, credentials: CredentialProvider | None = None) -> NatsBus:
        """A client that is not started yet."""
        return NatsBus(
            self.endpoint(owner_id),
            credentials or self.provider(role, owner_id),
            clock=SystemClock(),
            rng=random.Random(1),
            timing=QUICK,
        )

    async def _read_log(self, process: asyncio.subprocess.Process, ready: asyncio.Event) -> None:
        assert process.stderr is not None
        try:
            async for line in process.stderr:
                self._lines.append(line.decode().rstrip())
                if "Server is ready" in self._lines[-1]:
                    ready.set()
        finally:
            ready.set()


class ShiftedClock(SystemClock):
    """The real clock, some time ahead."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def wall(self) -> datetime:
        return super().wall() + self.ahead


async def eventually(is_true: Callable[[], bool], what: str, *, limit_s: float = 20.0) -> None:
    """Wait until something that cannot be awaited has become true."""

    async def look() -> bool:
        return is_true()

    try:
        await polling.eventually(look, within_s=limit_s)
    except AssertionError:
        raise AssertionError(f"this did not become true: {what}") from None


def _binary() -> str:
    beside = Path(sys.executable).parent / "nats-server"
    found = str(beside) if beside.is_file() else shutil.which("nats-server")
    assert found is not None, "nats-server is not installed (make dev)"
    return found
