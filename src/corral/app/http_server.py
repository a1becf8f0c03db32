"""Runs uvicorn as a service on a socket that is already open, and shuts a frontend down gracefully.

When a stop is requested, the frontend reports it at `/readyz`, closes its port and every idle connection, and lets open
responses go on for a grace period. Responses that are still open then are interrupted with an event in the client's own
dialect. Without open responses the shutdown is immediate.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence

import structlog
import uvicorn
from starlette.types import ASGIApp

from corral.app.core import FrontendCore
from corral.runtime.tasks import TaskSet

log = structlog.get_logger(__name__)

# Event streams end by themselves when the feed closes; connections that are still open after this are cut.
CLOSE_GRACE_S = 5
# How long idle connections stay open after the port was closed.
LINGER_S = 0.3


class _SignalFreeServer(uvicorn.Server):
    """uvicorn's server without its own signal handlers: the process stops its services in order itself."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install no signal handlers: the process handles signals and stops its services in order."""
        yield


class HttpServer:
    """Runs uvicorn as a service on an open socket. `protocol` handles the connections; None: uvicorn's own.

    Connections are accepted once `wait_for_turn` returns, which is set for a port shared with other processes.
    """

    name = "http"

    def __init__(
        self,
        app: ASGIApp,
        listener: socket.socket,
        *,
        protocol: type[asyncio.Protocol] | None = None,
        trusted_proxies: Sequence[str] = (),
        grace_s: float = 0.0,
        on_crash: Callable[[BaseException], None] | None = None,
    ) -> None:
        self._listener = listener
        self._tasks = TaskSet("http", on_crash)
        self._server = _SignalFreeServer(
            uvicorn.Config(
                app,
                http=protocol or "httptools",
                ws="none",
                lifespan="off",
                access_log=False,
                log_config=None,
                server_header=False,
                # The client's address is that of the connection, unless the operator has named trusted proxies.
                proxy_headers=bool(trusted_proxies),
                forwarded_allow_ips=list(trusted_proxies),
                timeout_graceful_shutdown=math.ceil(grace_s) + CLOSE_GRACE_S,
                timeout_keep_alive=75,
                limit_concurrency=None,
            )
        )

        self.wait_for_turn: Callable[[], Awaitable[None]] | None = None
        self._turn: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._tasks.start(self._serve(), name="serve")

    async def _serve(self) -> None:
        if self.wait_for_turn is not None:
            self._turn = asyncio.ensure_future(self.wait_for_turn())
            try:
                await asyncio.wait({self._turn})
            finally:
                self._turn.cancel()
            if self._turn.cancelled():
                return
            self._turn.result()
        await self._server.serve(sockets=[self._listener])

    def _request_exit(self) -> None:
        self._server.should_exit = True
        if self._turn is not None:
            self._turn.cancel()

    async def drain(self, within_s: float) -> bool:
        """Accept no new connections, close idle ones, and wait for the others to end. Return whether they did in
        time."""
        try:
            async with asyncio.timeout(within_s):
                await self._close_listeners()
                self._request_exit()
                await self._tasks.join()
        except TimeoutError:
            return False
        return True

    async def _close_listeners(self) -> None:
        """Close the port, and wait a moment before idle connections are closed: a request that a client is just sending
        is still handled, and its response carries `Connection: close`."""
        for server in self._server.servers if self._server.started else ():
            server.close()
        if self._server.server_state.connections:
            await asyncio.sleep(LINGER_S)

    async def stop(self) -> None:
        self._request_exit()
        await self._tasks.join()
        self._listener.close()


class GracefulShutdown:
    """Shuts a frontend down gracefully: open responses may end within a grace, then they are interrupted."""

    def __init__(self, core: FrontendCore, http: HttpServer, grace_s: float) -> None:
        self._core = core
        self._http = http
        self._grace_s = grace_s
        self._drain_task: asyncio.Task[bool] | None = None

    @property
    def has_begun(self) -> bool:
        return self._core.health.is_stopping

    def stop_waiting(self) -> None:
        """Stop waiting for open responses and interrupt them now."""
        if self._drain_task is not None:
            self._drain_task.cancel()

    async def shut_down(self) -> None:
        self._core.begin_stop()
        open_count = len(self._core.gateway.open_exchanges)
        if open_count:
            log.info("waiting for open responses", count=open_count, grace_s=self._grace_s)
        if await self._drain_in_time():
            return
        log.warning("open responses were interrupted", count=self._core.gateway.stop())
        # The final events of interrupted responses still have to be sent.
        await self._http.drain(CLOSE_GRACE_S)

    async def _drain_in_time(self) -> bool:
        drained = self._drain_task = asyncio.get_running_loop().create_task(
            self._http.drain(self._grace_s), name="drain"
        )
        await asyncio.wait({drained})
        return not drained.cancelled() and drained.result()
