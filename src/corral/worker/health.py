"""The worker's own port. `/healthz`: the process serves. `/readyz`: it is registered, approved and on the bus.

The port is taken before anything else starts, so that a taken one is told at once and the real one can be advertised.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable

from aiohttp import web

from corral.domain.errors import InvalidRequest

# Both answers are a few bytes; whoever takes longer than this to read them is cut off at the end.
GRACE_S = 1.0


def listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise InvalidRequest(
                f"Port {port} of {host} is in use by another program.", hint="Choose another with --http-port."
            ) from error
        raise InvalidRequest(
            f"Cannot listen on {host}:{port}: {error.strerror}.", hint="Check --http-host and --http-port."
        ) from error


class HealthServer:
    name = "health"

    def __init__(self, listener: socket.socket, not_ready: Callable[[], str | None]) -> None:
        """`not_ready` says in a sentence why this worker cannot take work now, or None."""
        self._listener = listener
        self._not_ready = not_ready
        self._runner: web.AppRunner | None = None

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    async def start(self) -> None:
        app = web.Application()
        app.router.add_get("/healthz", self._alive)
        app.router.add_get("/readyz", self._ready)
        # Signals belong to the process, which stops its services in order.
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=GRACE_S)
        await self._runner.setup()
        await web.SockSite(self._runner, self._listener).start()

    async def stop(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()
        self._listener.close()

    async def _alive(self, _: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def _ready(self, _: web.Request) -> web.Response:
        reason = self._not_ready()
        if reason is None:
            return web.json_response({"status": "ready"})
        return web.json_response({"status": "not ready", "reason": reason}, status=503)
