"""The HTTP server as a service."""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
from collections.abc import Callable, Iterator, Sequence

import uvicorn
from starlette.types import ASGIApp

from corral.runtime.tasks import Tasks

# Streams of events end by themselves when the feed closes; whatever is left after this is cut.
GRACE_S = 5
# How long idle connections stay open when the port is closed already.
LINGER_S = 0.3


class _Uvicorn(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals belong to the process, which stops its services in order."""
        yield


class HttpServer:
    """`protocol` stands between the sockets and the application; None: uvicorn's own."""

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
        self._tasks = Tasks("http", on_crash)
        self._server = _Uvicorn(
            uvicorn.Config(
                app,
                http=protocol or "httptools",
                ws="none",
                lifespan="off",
                access_log=False,
                log_config=None,
                server_header=False,
                # Who asks is who is connected, unless an operator has named the proxies that may speak for others.
                proxy_headers=bool(trusted_proxies),
                forwarded_allow_ips=list(trusted_proxies),
                timeout_graceful_shutdown=math.ceil(grace_s) + GRACE_S,
                timeout_keep_alive=75,
                limit_concurrency=None,
            )
        )

    async def start(self) -> None:
        self._tasks.start(self._server.serve(sockets=[self._listener]), name="serve")

    async def drain(self, within_s: float) -> bool:
        """Take no more connections, close the idle ones, and let the others end; whether they did in time."""
        try:
            async with asyncio.timeout(within_s):
                await self._linger()
                self._server.should_exit = True
                await self._tasks.join()
        except TimeoutError:
            return False
        return True

    async def _linger(self) -> None:
        """The port first. A client that is just sending on a connection that looks idle is still answered, and told
        that it was the last time."""
        for server in self._server.servers if self._server.started else ():
            server.close()
        if self._server.server_state.connections:
            await asyncio.sleep(LINGER_S)

    async def stop(self) -> None:
        self._server.should_exit = True
        await self._tasks.join()
        self._listener.close()
