"""The worker's own HTTP port. `/healthz`: the process serves. `/readyz`: it is registered, approved and on the bus.

Other modules add routes (`worker/files/file_routes.py`); these two need no credential. The port is bound before
anything else starts, so that a port in use is reported at once and the real one can be advertised.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Protocol

from aiohttp import web

from corral.runtime.bind_errors import explain_bind_error

# A client that has not read its response by then is cut off at the end; files are requested again.
GRACE_S = 1.0
# Room for the longest name that an inbox takes, and a ticket, beside what every request has.
_LINE_BYTES_MAX = 16 * 1024


class HttpRoutes(Protocol):
    """Interface that adds routes to the worker's own HTTP port, and closes their resources when the port stops."""

    def add_to(self, application: web.Application) -> None: ...

    def close(self) -> None:
        """Release what the routes hold, after the last request has ended."""
        ...


def open_listener(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise explain_bind_error(error, host, port, host_flag="--http-host", port_flag="--http-port") from error


class WorkerHttpServer:
    """Serves the worker's own HTTP port: /healthz, /readyz and the routes for model files. A service."""

    name = "health"

    def __init__(
        self,
        listener: socket.socket,
        find_not_ready_reason: Callable[[], str | None],
        routes: tuple[HttpRoutes, ...] = (),
    ) -> None:
        """`find_not_ready_reason` returns a sentence on why this worker cannot take work now, or None."""
        self._listener = listener
        self._routes = routes
        self._find_not_ready_reason = find_not_ready_reason
        self._runner: web.AppRunner | None = None

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    async def start(self) -> None:
        app = web.Application()
        app.router.add_get("/healthz", self._show_health)
        app.router.add_get("/readyz", self._show_readiness)
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

    async def _show_health(self, _: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def _show_readiness(self, _: web.Request) -> web.Response:
        reason = self._find_not_ready_reason()
        if reason is None:
            return web.json_response({"status": "ready"})
        return web.json_response({"status": "not ready", "reason": reason}, status=503)
