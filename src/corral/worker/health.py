"""The worker's own port. `/healthz`: the process serves. `/readyz`: it is registered, approved and on the bus.

Others add what they serve there (`worker/files/server.py`); these two need nothing to be shown.

The port is taken before anything else starts, so that a taken one is told at once and the real one can be advertised.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Protocol

from aiohttp import web

from corral.runtime.bind_errors import explain_bind_error

# Whoever has not read its answer by then is cut off at the end; files are asked for again.
GRACE_S = 1.0
# A name as an inbox takes it, and a ticket, beside what every request has.
_LINE_BYTES_MAX = 16 * 1024


class Routes(Protocol):
    """What else is served on this port."""

    def add_to(self, application: web.Application) -> None: ...

    def close(self) -> None:
        """Nobody is served any more."""
        ...


def listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise explain_bind_error(error, host, port, host_flag="--http-host", port_flag="--http-port") from error


class HealthServer:
    name = "health"

    def __init__(
        self, listener: socket.socket, not_ready: Callable[[], str | None], routes: tuple[Routes, ...] = ()
    ) -> None:
        """`not_ready` says in a sentence why this worker cannot take work now, or None."""
        self._listener = listener
        self._routes = routes
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
        for routes in self._routes:
            routes.add_to(app)
        # Signals belong to the process, which stops its services in order.
        self._runner = web.AppRunner(
            app, access_log=None, handle_signals=False, shutdown_timeout=GRACE_S, max_line_size=_LINE_BYTES_MAX
        )
        await self._runner.setup()
        await web.SockSite(self._runner, self._listener).start()

    async def stop(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()
        for routes in self._routes:
            routes.close()
        self._listener.close()

    async def _alive(self, _: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def _ready(self, _: web.Request) -> web.Response:
        reason = self._not_ready()
        if reason is None:
            return web.json_response({"status": "ready"})
        return web.json_response({"status": "not ready", "reason": reason}, status=503)
