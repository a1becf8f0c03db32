"""How a frontend leaves: what it is answering ends first, and only then what the answers need.

Asked to stop, it says so at `/readyz`, closes its port and every idle connection, and lets open answers go on for a
grace. What is left then is cut, with an event in the client's own dialect that says so. Nothing open: it is quick.
"""

from __future__ import annotations

import asyncio

import structlog

from corral.app.core import Core
from corral.app.listening.server import GRACE_S, HttpServer

log = structlog.get_logger(__name__)


class Leaving:
    def __init__(self, core: Core, http: HttpServer, grace_s: float) -> None:
        self._core = core
        self._http = http
        self._grace_s = grace_s
        self._drained: asyncio.Task[bool] | None = None

    @property
    def has_begun(self) -> bool:
        return self._core.health.is_stopping

    def hurry(self) -> None:
        """Wait no longer."""
        if self._drained is not None:
            self._drained.cancel()

    async def leave(self) -> None:
        self._core.begin_stop()
        under_way = len(self._core.gateway.open)
        if under_way:
            log.info("answers are being finished", count=under_way, grace_s=self._grace_s)
        if await self._finishes():
            return
        log.warning("answers were cut", count=self._core.gateway.stop())
        # The last words to the clients have to leave, too.
        await self._http.drain(GRACE_S)

    async def _finishes(self) -> bool:
        drained = self._drained = asyncio.get_running_loop().create_task(self._http.drain(self._grace_s), name="drain")
        await asyncio.wait({drained})
        return not drained.cancelled() and drained.result()
