"""A frontend for the tests of the worker's own logic: the rules of registration in a few lines, and faults on demand.

The same rules stand in the real frontend; `test_cluster.py` holds the worker to that one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from corral.domain.errors import (
    BootSuperseded,
    Conflict,
    CorralError,
    NameTaken,
    NotAuthenticated,
    NotFound,
    Unavailable,
)
from corral.ports.runtime import Clock
from corral.wire.backends import BackendsReportIn
from corral.wire.holdings import HoldingsIn, PrefetchEntryOut, PrefetchIn, PrefetchOut
from corral.wire.nodes import BusCredentialsOut, HeartbeatIn, HeartbeatOut, RegisterIn, RegisterOut

TOKEN = "cj_a-join-token-of-the-tests-0123456789"
INTERVAL_S = 10.0
BUS_URL = "nats://bus.example:4222"
EPOCH = datetime(2030, 1, 1, tzinfo=UTC)


@dataclass
class PretendNode:
    id: str
    name: str
    credential: str
    boot_id: str
    is_approved: bool = False
    has_left: bool = False
    is_draining: bool = False
    beats: list[HeartbeatIn] = field(default_factory=list)


@dataclass
class PretendFrontend:
    clock: Clock
    tokens: set[str] = field(default_factory=lambda: {TOKEN})
    approves: bool = False
    credential_life_s: float = 3600.0
    bus_url: str = BUS_URL
    # Nobody answers.
    is_away: bool = False
    # Calls are taken and never answered.
    hangs: bool = False
    # So many answers are lost after the call has done its work.
    answers_to_lose: int = 0
    nodes: dict[str, PretendNode] = field(default_factory=dict)
    # (seconds, call)
    calls: list[tuple[float, str]] = field(default_factory=list)
    registrations: list[RegisterIn] = field(default_factory=list)
    # Raised by the next calls of that name.
    refusals: dict[str, list[CorralError]] = field(default_factory=dict)
    minted: int = 0
    reports: list[BackendsReportIn] = field(default_factory=list)
    holdings: list[HoldingsIn] = field(default_factory=list)
    prefetches: list[PrefetchIn] = field(default_factory=list)
    # Kind and name of an entry, and what is answered for it; otherwise it is requested.
    prefetch_answers: dict[tuple[str, str], PrefetchEntryOut] = field(default_factory=dict)
    # Ids of nodes of which it knows that they were removed.
    removed: set[str] = field(default_factory=set)

    def times(self, call: str) -> list[float]:
        return [at for at, name in self.calls if name == call]

    def only_node(self) -> PretendNode:
        (node,) = self.nodes.values()
        return node

    def remove(self, node: PretendNode) -> None:
        """As an admin does."""
        self.lose(node)
        self.removed.add(node.id)

    def lose(self, node: PretendNode) -> None:
        """As after a restore of an older database."""
        del self.nodes[node.name]

    async def register(self, request: RegisterIn) -> RegisterOut:
        await self._called("register")
        self.registrations.append(request)
        node = self.nodes.get(request.name)
        if node is None or node.credential != request.credential:
            if request.token not in self.tokens:
                raise NotAuthenticated("This join token is not known here.", hint="Make another.")
            if node is not None:
                raise NameTaken(f"Another machine is registered as {request.name!r}.", hint="Choose another --name.")
            number = len(self.registrations)
            node = PretendNode(
                id=f"node-{number}",
                name=request.name,
                credential=request.credential,
                boot_id=request.boot_id,
                is_approved=self.approves,
            )
            self.nodes[request.name] = node
        node.boot_id, node.has_left = request.boot_id, False
        answer = RegisterOut(
            id=node.id,
            name=node.name,
            node_type=request.node_type,
            status="",
            approved=node.is_approved,
            created_at=EPOCH,
            max_replicas_per_model=1,
            heartbeat_interval_s=INTERVAL_S,
        )
        if node.is_approved:
            answer.nats_url, answer.nats_jwt = self.bus_url, self._mint()
            answer.nats_jwt_expires_in_s = self.credential_life_s
            answer.api_token = f"ck_key-{len(self.registrations)}" if request.node_type == "agent" else None
        self._answer()
        return answer

    async def send_heartbeat(self, node_id: str, heartbeat: HeartbeatIn) -> HeartbeatOut:
        await self._called("heartbeat")
        node = self._known(node_id)
        if heartbeat.boot_id != node.boot_id:
            raise BootSuperseded
        node.beats.append(heartbeat)
        self._answer()
        return HeartbeatOut(approved=node.is_approved, draining=node.is_draining, heartbeat_interval_s=INTERVAL_S)

    async def refresh_credentials(self, node_id: str, bus_public_key: str) -> BusCredentialsOut:
        await self._called("credentials")
        node = self._known(node_id)
        if not node.is_approved:
            raise Conflict("A pending node gets no bus credential.", code="node_pending")
        self._answer()
        return BusCredentialsOut(
            nats_url=self.bus_url, nats_jwt=self._mint(), nats_jwt_expires_in_s=self.credential_life_s
        )

    async def report_backends(self, node_id: str, report: BackendsReportIn) -> None:
        await self._called("backends")
        self._known(node_id)
        self.reports.append(report)
        self._answer()

    async def report_holdings(self, node_id: str, report: HoldingsIn) -> None:
        await self._called("holdings")
        self._known(node_id)
        self.holdings.append(report)
        self._answer()

    async def request_prefetch(self, node_id: str, body: PrefetchIn) -> PrefetchOut:
        await self._called("prefetch")
        self._known(node_id)
        self.prefetches.append(body)
        requested = [("backend", name) for name in body.backends] + [("model", name) for name in body.models]
        entries = [
            self.prefetch_answers.get((kind, name)) or PrefetchEntryOut(kind=kind, name=name, state="requested")
            for kind, name in requested
        ]
        self._answer()
        return PrefetchOut(entries=entries)

    async def drain(self, node_id: str, boot_id: str) -> None:
        await self._called("drain")
        self._known(node_id).is_draining = True

    async def resume(self, node_id: str, boot_id: str) -> None:
        await self._called("resume")
        self._known(node_id).is_draining = False

    async def deregister(self, node_id: str, boot_id: str) -> None:
        await self._called("deregister")
        self._known(node_id).has_left = True

    def _known(self, node_id: str) -> PretendNode:
        for node in self.nodes.values():
            if node.id == node_id:
                return node
        details = {"is_removed": True} if node_id in self.removed else {}
        raise NotFound("This node is not registered here.", code="node_not_found", details=details)

    def _mint(self) -> str:
        self.minted += 1
        return f"token-{self.minted}"

    async def _called(self, name: str) -> None:
        self.calls.append((self.clock.monotonic(), name))
        await self.clock.sleep(1e9 if self.hangs else 0)
        if self.is_away:
            raise Unavailable("The frontend does not respond.", code="unreachable")
        if self.refusals.get(name):
            raise self.refusals[name].pop(0)

    def _answer(self) -> None:
        if self.answers_to_lose > 0:
            self.answers_to_lose -= 1
            raise Unavailable("The connection broke before the answer.", code="unreachable")
