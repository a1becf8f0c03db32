"""The HTTP server as a service. The port is taken before anything else starts, so a taken one is told at once."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import math
import socket
from collections.abc import Callable, Iterator

import uvicorn
from starlette.types import ASGIApp

from corral.domain.errors import InvalidRequest
from corral.runtime.tasks import Tasks

# Streams of events end by themselves when the feed closes; whatever is left after this is cut.
GRACE_S = 5


class _Uvicorn(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals belong to the process, which stops its services in order."""
        yield


def listen(host: str, port: int, *, shares_port: bool = False) -> socket.socket:
    """A listening socket. `shares_port`: others of the same user may listen there, too, and the kernel deals out."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=1024, reuse_port=shares_port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise InvalidRequest(
                f"Port {port} of {host} is in use by another program.", hint="Choose another with --port."
            ) from error
        raise InvalidRequest(f"Cannot listen on {host}:{port}: {error.strerror}.", hint="Check --host.") from error
    # Inherited by every connection. asyncio sets it only on sockets that it made itself, and without it the second
    # of two small writes, such as headers and body, waits 40 ms for the client's acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


class HttpServer:
    name = "http"

    def __init__(
        self,
        app: ASGIApp,
        listener: socket.socket,
        *,
        grace_s: float = 0.0,
        on_crash: Callable[[BaseException], None] | None = None,
    ) -> None:
        self._listener = listener
        self._tasks = Tasks("http", on_crash)
        self._server = _Uvicorn(
            uvicorn.Config(
                app,
                http="httptools",
                ws="none",
                lifespan="off",
                access_log=False,
                log_config=None,
                server_header=False,
                timeout_graceful_shutdown=math.ceil(grace_s) + GRACE_S,
                timeout_keep_alive=75,
                limit_concurrency=None,
            )
        )

    async def start(self) -> None:
        self._tasks.start(self._server.serve(sockets=[self._listener]), name="serve")

    async def drain(self, within_s: float) -> bool:
        """Take no more connections, close the idle ones, and let the others end; whether they did in time."""
        self._server.should_exit = True
        try:
            async with asyncio.timeout(within_s):
                await self._tasks.join()
        except TimeoutError:
            return False
        return True

    async def stop(self) -> None:
        self._server.should_exit = True
        await self._tasks.join()
        self._listener.close()
