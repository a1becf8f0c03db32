"""The calls that a worker makes to the control plane, as a protocol.

Every call may be repeated: the second one finds the first one's work done. All of them raise Corral's own errors; a
call that cannot be delivered raises `Unavailable`. The simulator has an implementation without sockets.
"""

from __future__ import annotations

from typing import Protocol

import structlog

from corral.wire.backends import BackendsReportIn
from corral.wire.holdings import HoldingsIn, PrefetchIn, PrefetchOut
from corral.wire.nodes import BusCredentialsOut, HeartbeatIn, HeartbeatOut, RegisterIn, RegisterOut

log = structlog.get_logger(__name__)
# Sentences may hold addresses or names, so their number has to be bounded.
MAX_REMEMBERED = 64


class ControlPlane(Protocol):
    """The calls that a worker makes to the control plane; each may be repeated without harm."""

    async def register(self, request: RegisterIn) -> RegisterOut:
        """Present this machine: the first time with a join token, later with its own credential."""
        ...

    async def send_heartbeat(self, node_id: str, heartbeat: HeartbeatIn) -> HeartbeatOut: ...

    async def refresh_credentials(self, node_id: str, bus_public_key: str) -> BusCredentialsOut:
        """Return a fresh credential for the bus; nothing else changes."""
        ...

    async def report_backends(self, node_id: str, report: BackendsReportIn) -> None:
        """Report all backends that are installed here."""
        ...

    async def report_holdings(self, node_id: str, report: HoldingsIn) -> None:
        """Report all engines that run here, and the files of models."""
        ...

    async def request_prefetch(self, node_id: str, body: PrefetchIn) -> PrefetchOut:
        """Request backends and model files for this machine. Return the result of each entry."""
        ...

    async def drain(self, node_id: str, boot_id: str) -> None:
        """Request that this node gets no new work. The boot id lets a frontend ignore a process that has been
        replaced."""
        ...

    async def resume(self, node_id: str, boot_id: str) -> None: ...

    async def deregister(self, node_id: str, boot_id: str) -> None:
        """Report that this worker stops. The node stays registered."""
        ...


class FailureLog:
    """Logs the failures of one repeated activity, each distinct message once, until the activity works again."""

    def __init__(self, activity: str) -> None:
        self._activity = activity
        self._logged: set[str] = set()
        self.latest: str | None = None

    def record_failure(self, error: Exception) -> None:
        sentence = str(error) or type(error).__name__
        self.latest = sentence
        if sentence in self._logged:
            return
        if len(self._logged) >= MAX_REMEMBERED:
            self._logged.clear()
        self._logged.add(sentence)
        log.warning("failed", what=self._activity, problem=sentence, hint=getattr(error, "hint", None))

    def record_recovery(self) -> None:
        """Record that the activity works again, so that the same failure is logged anew."""
        if self._logged:
            log.info("works again", what=self._activity)
        self._logged.clear()
        self.latest = None
