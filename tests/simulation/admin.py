"""The admin of the simulated cluster, with the product's client, and what the admin meant.

One call after the other, each repeated at some frontend until its outcome is known. `Will` says what the registry has
to hold for each node; while a call is under way its fields are `unsure`, because either value may be the truth.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from corral.client.client import CorralClient
from corral.domain.errors import CorralError, Unavailable
from corral.wire.access import TokenIn
from tests.simulation.clock import SimClock, SimIds
from tests.simulation.wire import Server, Wire, WireTransport
from tests.simulation.workers import SimWorker
from tests.simulation.worlds import ADMIN_KEY, SimulationDeps

T = TypeVar("T")
# Longer than any machine is frozen: a call that was given up and then done after all would undo a later one.
TIMEOUT_S = 3600.0
PAUSE_S = 2.0


@dataclass(slots=True)
class NodeSettings:
    """Holds what the admin last set on one node."""

    name: str
    may_be_approved: bool = False
    is_removed: bool = False
    drained: bool = False
    labels: dict[str, str] = field(default_factory=dict)
    slots: int | None = None
    budget: str | None = None
    unsure: set[str] = field(default_factory=set)


@dataclass(slots=True)
class TokenSettings:
    secret: str
    max_uses: int | None
    approves: bool
    is_revoked: bool = False


def client_over(transport: WireTransport, ids: SimIds) -> CorralClient:
    """Make the product's client with its socket replaced."""
    client = CorralClient(transport.url, ADMIN_KEY, clock=transport.clock, ids=ids)
    parts = (
        client.nodes,
        client.labels,
        client.tokens,
        client.keys,
        client.operations,
        client.assignments,
        client.backends,
        client.models,
        client.rules,
    )
    for holder in (client, *parts):
        holder._transport = transport
    return client


class Admin:
    # On average, between two things that the admin does.
    pause_s = 8.0

    def __init__(self, around: SimulationDeps, servers: dict[str, Server], workers: dict[str, SimWorker]) -> None:
        self._around = around
        self._servers = servers
        self._workers = workers
        self._rng = around.rng("admin")
        self._clock = SimClock(around.loop)
        self._ids = SimIds(around.rng("ids of the admin"), self._clock)
        self.wire = Wire(client="admin", servers=servers, rng=around.rng("wire of the admin"), clock=self._clock)
        self._clients = [self._client(url) for url in sorted(servers)]
        self.wills: dict[str, NodeSettings] = {}
        self.tokens: dict[str, TokenSettings] = {}
        self.is_done = False

    async def hand_out_tokens(self) -> None:
        """Give most workers one token, with one use too few on some seeds, and the others one of their own."""
        names = sorted(self._workers)
        shared = await self.create_token(max_uses=len(names) - self._rng.randrange(2), approves=False)
        own = await self.create_token(max_uses=1, approves=True)
        for name in names:
            self._workers[name].token = shared
        self._workers[self._rng.choice(names)].token = own

    async def work(self) -> None:
        """Act on a random node again and again, until stopped."""
        while not self.is_done:
            await self._clock.sleep(self._rng.expovariate(1 / self.pause_s))
            nodes = await self._until_known(lambda client: client.nodes.list())
            for node in nodes:
                self.wills.setdefault(node.id, NodeSettings(name=node.name))
            await self._help_refused_workers()
            if not nodes:
                continue
            pending = [node.id for node in nodes if node.status == "pending"]
            if pending and self._rng.random() < 0.7:
                await self.approve(self._rng.choice(pending))
            else:
                await self._something(self._rng.choice(nodes).id)

    async def settle(self) -> None:
        """Stop acting, and approve every node that waits."""
        self.is_done = True
        await self._help_refused_workers()
        for node in await self._until_known(lambda client: client.nodes.list()):
            self.wills.setdefault(node.id, NodeSettings(name=node.name))
            if node.status == "pending":
                await self.approve(node.id)

    async def _something(self, node_id: str) -> None:
        actions = (self._drain, self._resume, self._label, self._slots, self._budget, self._probe, self._revoke)
        chosen = self._rng.choice(actions)
        if self._rng.random() < 0.06:
            chosen = self._remove
        await chosen(node_id)

    async def approve(self, node_id: str) -> None:
        will = self.wills[node_id]
        will.may_be_approved = True
        self._note(f"approves {will.name}")
        await self._until_known(lambda client: client.nodes.approve(node_id), fine=("not_pending",))

    async def _drain(self, node_id: str) -> None:
        await self._set(node_id, "drained", True, lambda client: client.nodes.drain(node_id))

    async def _resume(self, node_id: str) -> None:
        await self._set(node_id, "drained", False, lambda client: client.nodes.resume(node_id))

    async def _label(self, node_id: str) -> None:
        labels = {key: str(self._rng.randrange(9)) for key in ("zone", "tier", "team") if self._rng.random() < 0.6}
        await self._set(node_id, "labels", labels, lambda client: client.labels.replace(node_id, labels))

    async def _slots(self, node_id: str) -> None:
        slots = self._rng.choice((None, 2, 4, 8))
        if slots is None:
            await self._set(node_id, "slots", None, lambda client: client.nodes.reset_slots(node_id))
        else:
            await self._set(node_id, "slots", slots, lambda client: client.nodes.set_slots(node_id, slots))

    async def _budget(self, node_id: str) -> None:
        budget = self._rng.choice((None, "80%", "12GB", ""))
        if budget is None:
            await self._set(node_id, "budget", None, lambda client: client.nodes.reset_budget(node_id))
        else:
            await self._set(node_id, "budget", budget, lambda client: client.nodes.set_budget(node_id, budget))

    async def _probe(self, node_id: str) -> None:
        """Probe a node; whatever comes of that is an observation."""
        try:
            answer = await self._rng.choice(self._clients).nodes.probe(node_id)
        except CorralError as error:
            self._note(f"probes {self.wills[node_id].name}: {error.slug}")
            return
        if answer.node_id != node_id:
            self._around.violated(f"probed {node_id}, and {answer.node_id} answered")

    async def _revoke(self, _: str) -> None:
        token_id = self._rng.choice(sorted(self.tokens))
        self._note(f"revokes token {token_id}")
        await self._until_known(lambda client: client.tokens.revoke(token_id))
        self.tokens[token_id].is_revoked = True

    async def _remove(self, node_id: str) -> None:
        """Remove a node. Its machine may come back: its worker is started again with another token."""
        will = self.wills[node_id]
        await self._set(
            node_id, "is_removed", True, lambda client: client.nodes.remove(node_id), fine=("node_not_found",)
        )
        worker = self._workers[will.name]
        worker.token = await self.create_token(max_uses=1, approves=self._rng.random() < 0.5)
        if worker.should_run:
            await worker.crash()
            worker.start()

    async def _help_refused_workers(self) -> None:
        for name in sorted(self._workers):
            worker = self._workers[name]
            if worker.was_refused_for_its_token or worker.waits_for_a_token:
                worker.token = await self.create_token(max_uses=1, approves=False)
                worker.was_refused_for_its_token = False
                if worker.should_run:
                    await worker.crash()
                    worker.start()

    async def create_token(self, *, max_uses: int | None, approves: bool) -> str:
        body = TokenIn(name=f"token {len(self.tokens)}", max_uses=max_uses, approves=approves)
        made = await self._until_known(lambda client: client.tokens.create(body))
        secret = str(made.token)
        self.tokens[made.id] = TokenSettings(secret=secret, max_uses=max_uses, approves=approves)
        return secret

    async def _set(
        self,
        node_id: str,
        what: str,
        value: Any,
        call: Callable[[CorralClient], Awaitable[object]],
        fine: tuple[str, ...] = (),
    ) -> None:
        will = self.wills[node_id]
        self._note(f"sets {what} of {will.name} to {value!r}")
        will.unsure.add(what)
        await self._until_known(call, fine=fine)
        setattr(will, what, value)
        will.unsure.discard(what)

    async def _until_known(self, call: Callable[[CorralClient], Awaitable[T]], fine: tuple[str, ...] = ()) -> Any:
        while True:
            client = self._rng.choice(self._clients)
            if self._servers[client.url].is_frozen:
                # The page hangs: a person goes to another. The call that was frozen half way is waited for.
                await self._clock.sleep(PAUSE_S)
                continue
            try:
                return await call(client)
            except CorralError as error:
                if error.slug in fine:
                    return None
                if not isinstance(error, Unavailable) and error.slug != "try_again":
                    self._around.violated(f"the admin got {error.slug}: {error}")
                    return None
            await self._clock.sleep(self._rng.uniform(0, PAUSE_S))

    def _client(self, url: str) -> CorralClient:
        return client_over(WireTransport(self.wire, url, ADMIN_KEY, timeout_s=TIMEOUT_S, ids=self._ids), self._ids)

    def _note(self, what: str) -> None:
        self._around.trace.add(f"admin {what}")
