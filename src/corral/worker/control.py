"""What a worker asks of the control plane.

Every call may be made twice: the second one finds the first one's work done. All of them raise our own errors; one
that cannot be delivered is `Unavailable`. The simulator has an implementation without sockets.
"""

from __future__ import annotations

from typing import Protocol

from corral.wire.backends import BackendsReportIn
from corral.wire.holdings import HoldingsIn, PrefetchIn, PrefetchOut
from corral.wire.nodes import CredentialsOut, HeartbeatIn, HeartbeatOut, RegisterIn, RegisterOut


class ControlPlane(Protocol):
    async def register(self, wish: RegisterIn) -> RegisterOut:
        """Present this machine: the first time with a join token, later with its own credential."""
        ...

    async def heartbeat(self, node_id: str, beat: HeartbeatIn) -> HeartbeatOut: ...

    async def refresh_credentials(self, node_id: str, bus_public_key: str) -> CredentialsOut:
        """A fresh credential for the bus; nothing else changes."""
        ...

    async def report_backends(self, node_id: str, report: BackendsReportIn) -> None:
        """Everything that is installed here."""
        ...

    async def report_holdings(self, node_id: str, report: HoldingsIn) -> None:
        """Everything that runs here, and the files of models."""
        ...

    async def request_prefetch(self, node_id: str, body: PrefetchIn) -> PrefetchOut:
        """Ask for backends and files of models on this machine; return what becomes of each."""
        ...

    async def drain(self, node_id: str, boot_id: str) -> None:
        """Ask for no new work. The boot id lets a frontend ignore a process that has been replaced."""
        ...

    async def resume(self, node_id: str, boot_id: str) -> None: ...

    async def deregister(self, node_id: str, boot_id: str) -> None:
        """Say goodbye. The node stays registered."""
        ...
