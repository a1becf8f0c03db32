"""The admin of operations: asks for them, twice and against each other, and takes back, stops, repeats and hides them.

Calls go to any frontend and are given up after a while; what was given up may be done all the same. Refusals are part
of the game as long as they are among those that an admin can meet; any other answer is a violation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from typing_extensions import override

from corral.client.client import CorralClient
from corral.domain.errors import CorralError, Unavailable
from corral.wire.backends import BackendChangeIn, BackendOperationOut, StrategyIn, TargetsIn
from corral.wire.operations import OperationOut
from tests.simulation.admin import Admin, client_over
from tests.simulation.clock import SimClock, SimIds
from tests.simulation.operations.gallery import CONCRETE, META, SOLO, VERSIONS
from tests.simulation.wire import Server, Wire, WireTransport
from tests.simulation.workers import SimWorker
from tests.simulation.worlds import ADMIN_KEY, SimulationDeps

T = TypeVar("T")
AGENT = "agent"
FIRST_S = 15.0
TIMEOUT_S = 20.0
PAUSE_S = 4.0
VERBS = ("install", "install", "install", "upgrade", "upgrade", "reinstall", "delete", "delete")
REFUSALS = frozenset(
    {
        "operation_in_progress",
        "backend_not_installed",
        "already_current",
        "no_eligible_nodes",
        "node_pending",
        "node_draining",
        "node_is_agent",
        "node_not_found",
        "concrete_backend_requires_target",
        "ambiguous_backend",
        "operation_ended",
        "nothing_to_pause",
        "deletion_running",
        "not_paused",
        "not_retryable",
        "not_failed",
        "too_many_waiting",
        "try_again",
        "assignment_open",
        "assignment_not_found",
    }
)


class NodesAdmin(Admin):
    """Lets nodes in quickly, and drains and removes them while operations run."""

    pause_s = 20.0

    @override
    async def hand_out_tokens(self) -> None:
        names = sorted(self._workers)
        approving = await self.create_token(max_uses=None, approves=True)
        for name in names:
            self._workers[name].token = approving
        if self._rng.random() < 0.25:
            self._workers[self._rng.choice(names)].token = await self.create_token(max_uses=1, approves=False)

    @override
    async def _something(self, node_id: str) -> None:
        chosen = self._rng.choices((self._drain, self._resume, self._remove), weights=(3, 5, 1))[0]
        await chosen(node_id)


class Operator:
    def __init__(
        self, around: SimulationDeps, wire: Wire, servers: Mapping[str, Server], workers: Mapping[str, SimWorker]
    ) -> None:
        self._around = around
        self._rng = around.rng("operator")
        self._clock = SimClock(around.loop)
        ids = SimIds(around.rng("ids of the operator"), self._clock)
        self._clients = [
            client_over(WireTransport(wire, url, ADMIN_KEY, timeout_s=TIMEOUT_S, ids=ids), ids)
            for url in sorted(servers)
        ]
        self._names = sorted(workers)
        self.is_done = False
        self.requests = 0

    async def work(self) -> None:
        while not self.is_done:
            await self._clock.sleep(self._rng.expovariate(1 / PAUSE_S))
            if self._rng.random() < 0.6:
                await self._ask()
            else:
                await self._act()

    async def settle(self) -> None:
        """Resume every paused operation at the end, and cancel those that cannot go on."""
        listed = await self._call(lambda client: client.operations.list())
        for operation in listed or ():
            if operation.state != "paused":
                continue
            if self._rng.random() > 0.7 or await self._call(self._acting("resume", operation)) is None:
                await self._call(self._acting("cancel", operation))

    async def _ask(self) -> None:
        verb, backend, body = self._draw_request()
        after = self._rng.random() < 0.3
        self.requests += 1
        self._note(f"asks to {verb} {backend} {body.model_dump(exclude_defaults=True)}{' after' if after else ''}")

        def ask(client: CorralClient) -> Awaitable[BackendOperationOut]:
            return client.backends.request_change(verb, backend, body, after=after)

        if self._rng.random() < 0.25:
            # The same twice at once, by two people.
            async with asyncio.TaskGroup() as group:
                for _ in range(2):
                    group.create_task(self._call(ask))
        else:
            await self._call(ask)

    def _draw_request(self) -> tuple[str, str, TargetsIn]:
        rng, verb = self._rng, self._rng.choice(VERBS)
        if self._around.now() < FIRST_S and rng.random() < 0.8:
            # There is little to upgrade yet.
            verb = "install"
        backend = rng.choice((META, META, SOLO, SOLO, CONCRETE))
        if backend == CONCRETE or rng.random() < 0.5:
            names = self._names if rng.random() < 0.2 else [name for name in self._names if name != AGENT]
            nodes = rng.sample(names, k=min(len(names), rng.choice((1, 1, 2, 3))))
        else:
            nodes = None
        strategy = StrategyIn(deadline=rng.choice((None, None, None, "15s", "60s")))
        if verb in ("upgrade", "reinstall") and rng.random() < 0.6:
            strategy.waves = rng.choice(([1], [1, 2], [2]))
            strategy.stop_on_failure = rng.random() < 0.5
            strategy.rollback = rng.random() < 0.5
        if verb == "delete":
            return verb, backend, TargetsIn(nodes=nodes, strategy=strategy)
        return verb, backend, BackendChangeIn(nodes=nodes, strategy=strategy, version=rng.choice(("", *VERSIONS)))

    async def _act(self) -> None:
        listed = await self._call(lambda client: client.operations.list())
        if not listed:
            return
        operation = self._rng.choice(listed)
        verbs = {
            "failed": ("retry", "retry", "dismiss", "cancel"),
            "paused": ("resume", "resume", "cancel", "retry"),
        }.get(operation.state, ("cancel", "cancel", "pause", "pause", "retry", "dismiss", "resume"))
        await self._call(self._acting(self._rng.choice(verbs), operation))

    def _acting(self, verb: str, operation: OperationOut) -> Callable[[CorralClient], Awaitable[object]]:
        self._note(f"would {verb} {operation.id} ({operation.kind} {operation.full_name}, {operation.state})")

        async def act(client: CorralClient) -> object:
            return await getattr(client.operations, verb)(operation.id)

        return act

    async def _call(self, call: Callable[[CorralClient], Awaitable[T]]) -> T | None:
        """Return the answer of a call; None if it was refused, or its result is unknown."""
        try:
            return await call(self._rng.choice(self._clients))
        except Unavailable as error:
            self._note(f"is left without an answer: {error.slug}")
        except CorralError as error:
            self._note(f"is refused: {error.slug}")
            if error.slug not in REFUSALS:
                self._around.violated(f"the operator got {error.slug}: {error}")
        return None

    def _note(self, what: str) -> None:
        self._around.trace.add(f"operator {what}")
