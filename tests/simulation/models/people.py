"""Who wants something of models: an admin who changes them, an admin of nodes, and clients that ask.

Calls go to any frontend and are given up after a while; what was given up may be done all the same. A refusal is part
of the game if it is one that an admin can meet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from typing_extensions import override

from corral.app.core import FrontendCore
from corral.client.client import CorralClient
from corral.domain.access import Principal
from corral.domain.errors import CorralError, Unavailable
from corral.gateway.exchange.exchange_response import open_exchange
from corral.gateway.exchange.gateway import InferenceRequest
from corral.wire.loads import LoadIn, UnloadIn
from tests.simulation.admin import client_over
from tests.simulation.clock import SimClock, SimIds
from tests.simulation.models.frontend import ModelsFrontend
from tests.simulation.models.host import GIB
from tests.simulation.operations.operator import REFUSALS, NodesAdmin
from tests.simulation.wire import Server, Wire, WireTransport
from tests.simulation.workers import SimWorker
from tests.simulation.worlds import ADMIN_KEY, SimulationDeps

T = TypeVar("T")
TIMEOUT_S = 20.0
PAUSE_S = 4.0
ASK_PAUSE_S = 3.0
BACKENDS = ("engine", "tool")
CLIENT = Principal(key_id="clients", name="clients")
NAMES = ("chat", "code", "embed", "speech", "vision", "tiny")
MODEL_REFUSALS = REFUSALS | {
    "model_not_found",
    "model_disabled",
    "revision_conflict",
    "rule_not_found",
    "not_found",
    "no_nodes",
    "load_paused",
    "model_name_taken",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnModel:
    """Describes a model of this run: what its replicas take, and its rule."""

    name: str
    ram_bytes: int
    threads: int | None
    config: Mapping[str, Any]
    rule: Mapping[str, Any] | None


def draw_models(around: SimulationDeps, number: int) -> list[DrawnModel]:
    rng = around.rng("models")
    drawn = []
    for name in NAMES[:number]:
        ram = rng.choice((1, 2, 3, 4)) * GIB
        sizes = [rng.choice((1, 2, 4)) for _ in range(rng.choice((0, 1, 1, 2)))]
        threads = rng.choice((None, 1, 2))
        config: dict[str, Any] = {
            "name": name,
            "backend": rng.choice(BACKENDS),
            "files": [
                # Two models share their first file on some seeds.
                {"path": f"part-{place}", "uri": f"https://files.example/{size}/{rng.choice((name, 'common'))}-{place}"}
                for place, size in enumerate(sizes)
            ],
            "options": {"ram": str(ram)},
            "ram": ram,
        }
        if threads is not None:
            config["threads"] = threads
        drawn.append(DrawnModel(name=name, ram_bytes=ram, threads=threads, config=config, rule=_rule(rng)))
    return drawn


def _rule(rng: Any) -> Mapping[str, Any] | None:
    return rng.choice(  # type: ignore[no-any-return]  # one of these
        (
            None,
            None,
            {"min_replicas": 1},
            {"min_replicas": 2, "max_replicas": 3},
            {"min_replicas": 1, "max_replicas": 2, "selector": {"zone": "a"}},
            {"replicas": "all"},
            {"selector": {"zone": "a"}},
        )
    )


class ModelNodesAdmin(NodesAdmin):
    """Drains and resumes nodes. Rarely removes one: another node would come back, which the other cluster simulates."""

    pause_s = 25.0

    @override
    async def _something(self, node_id: str) -> None:
        await self._rng.choices((self._drain, self._resume, self._remove), weights=(6, 10, 1))[0](node_id)

    async def resume_all(self) -> None:
        """Resume every drained node at the end."""
        for node in await self._until_known(lambda client: client.nodes.list()):
            if node.status == "draining" and node.id in self.wills:
                await self._resume(node.id)


class ModelsAdmin:
    def __init__(
        self,
        around: SimulationDeps,
        wire: Wire,
        servers: Mapping[str, Server],
        workers: Mapping[str, SimWorker],
        models: Sequence[DrawnModel],
    ) -> None:
        self._around = around
        self._rng = around.rng("admin of models")
        self._clock = SimClock(around.loop)
        ids = SimIds(around.rng("ids of the admin of models"), self._clock)
        self._clients = [
            client_over(WireTransport(wire, url, ADMIN_KEY, timeout_s=TIMEOUT_S, ids=ids), ids)
            for url in sorted(servers)
        ]
        self._nodes = sorted(workers)
        self.models = {model.name: model for model in models}
        self.is_done = False
        self._edits = 0

    async def begin(self) -> None:
        """Make all models and rules; each until it is known to be there."""
        for model in self.models.values():
            await self._make(model)
            if model.rule is not None:
                await self._call(lambda client, each=model: client.rules.put(each.name, each.rule))  # type: ignore[misc]

    async def work(self) -> None:
        acts: tuple[tuple[Callable[[DrawnModel], Awaitable[object]], int], ...] = (
            (self._load, 8),
            (self._unload, 4),
            (self._edit, 5),
            (self._describe, 2),
            (self._pin, 2),
            (self._toggle, 2),
            (self._delete, 2),
            (self._make, 5),
            (self._set_rule, 3),
            (self._act, 4),
        )
        while not self.is_done:
            await self._clock.sleep(self._rng.expovariate(1 / PAUSE_S))
            act = self._rng.choices([each for each, _ in acts], weights=[weight for _, weight in acts])[0]
            model = self.models[self._rng.choice(sorted(self.models))]
            if act in (self._load, self._edit, self._unload) and self._rng.random() < 0.45:
                # Two people at two frontends, at once or while the first thing is being done.
                other = self._rng.choice((self._load, self._edit, self._edit, self._unload, self._delete, self._cancel))
                async with asyncio.TaskGroup() as group:
                    group.create_task(_done(act(model)))
                    group.create_task(self._meanwhile(other, model))
            else:
                await act(model)

    async def _meanwhile(self, act: Callable[[DrawnModel], Awaitable[object]], model: DrawnModel) -> None:
        await self._clock.sleep(self._rng.choice((0.0, self._rng.uniform(0, 4.0))))
        await act(model)

    async def settle(self) -> None:
        """Cancel every paused operation and enable every model at the end."""
        for operation in await self._call(lambda client: client.operations.list()) or ():
            if operation.state == "paused":
                await self._call(lambda client, key=operation.id: client.operations.cancel(key))  # type: ignore[misc]
        for model in await self._call(lambda client: client.models.list()) or ():
            if not model.enabled:
                await self._call(lambda client, name=model.name: client.models.set_enabled(name, enabled=True))  # type: ignore[misc]

    async def _load(self, model: DrawnModel) -> object:
        body = LoadIn(count=self._rng.choice((1, 1, 1, 2)))
        if self._rng.random() < 0.3:
            body = LoadIn(nodes=[self._rng.choice(self._nodes)])
        self._note(f"loads {model.name} {body}")
        return await self._call(lambda client: client.models.load(model.name, body))

    async def _unload(self, model: DrawnModel) -> object:
        body = UnloadIn(force=self._rng.random() < 0.3)
        if self._rng.random() < 0.4:
            body.nodes = [self._rng.choice(self._nodes)]
        self._note(f"unloads {model.name} {body}")
        return await self._call(lambda client: client.models.unload(model.name, body))

    async def _edit(self, model: DrawnModel) -> object:
        self._edits += 1
        change = {"options": {"context_size": str(1000 + self._edits)}}
        self._note(f"edits {model.name} {change}")
        return await self._call(lambda client: client.models.patch(model.name, change))

    async def _describe(self, model: DrawnModel) -> object:
        self._edits += 1
        change = {"description": f"number {self._edits}"}
        return await self._call(lambda client: client.models.patch(model.name, change))

    async def _pin(self, model: DrawnModel) -> object:
        pinned = self._rng.random() < 0.4
        self._note(f"{'pins' if pinned else 'unpins'} {model.name}")
        return await self._call(lambda client: client.models.set_pinned(model.name, pinned=pinned))

    async def _toggle(self, model: DrawnModel) -> object:
        enabled = self._rng.random() < 0.7
        self._note(f"{'enables' if enabled else 'disables'} {model.name}")
        return await self._call(lambda client: client.models.set_enabled(model.name, enabled=enabled))

    async def _delete(self, model: DrawnModel) -> object:
        self._note(f"deletes {model.name}")
        if self._rng.random() < 0.3:
            return await self._call(lambda client: client.models.delete_now(model.name))
        return await self._call(lambda client: client.models.request_delete(model.name))

    async def _make(self, model: DrawnModel) -> object:
        self._note(f"makes {model.name}")
        return await self._call(lambda client: client.models.put(model.name, model.config))

    async def _set_rule(self, model: DrawnModel) -> object:
        rule = _rule(self._rng)
        self._note(f"gives {model.name} the rule {rule}")
        if rule is None:
            return await self._call(lambda client: client.rules.remove(model.name))
        return await self._call(lambda client: client.rules.put(model.name, rule))

    async def _cancel(self, model: DrawnModel) -> object:
        for operation in await self._call(lambda client: client.operations.list()) or ():
            if operation.name == model.name and operation.state == "running":
                self._note(f"cancels {operation.id}")
                return await self._call(lambda client, key=operation.id: client.operations.cancel(key))  # type: ignore[misc]
        return None

    async def _act(self, _: DrawnModel) -> object:
        listed = await self._call(lambda client: client.operations.list())
        if not listed:
            return None
        operation = self._rng.choice(listed)
        verb = self._rng.choice(("cancel", "cancel", "pause", "resume", "retry", "dismiss"))
        self._note(f"would {verb} {operation.id} ({operation.kind} {operation.full_name}, {operation.state})")
        return await self._call(lambda client: getattr(client.operations, verb)(operation.id))

    async def _call(self, call: Callable[[CorralClient], Awaitable[T]]) -> T | None:
        try:
            return await call(self._rng.choice(self._clients))
        except Unavailable as error:
            self._note(f"is left without an answer: {error.slug}")
        except CorralError as error:
            self._note(f"is refused: {error.slug}")
            if error.slug not in MODEL_REFUSALS:
                self._around.violated(f"the admin of models got {error.slug}: {error}")
        return None

    def _note(self, what: str) -> None:
        self._around.trace.add(f"admin of models {what}")


async def _done(work: Awaitable[object]) -> None:
    await work


@dataclass(slots=True)
class ClientRequest:
    """Holds one request and what became of it."""

    model: str
    process: str
    began_s: float
    task: asyncio.Task[None]
    outcome: str = ""


class Clients:
    """Send requests at frontends that are well, mostly for the same few models, so that others go cold."""

    def __init__(
        self, around: SimulationDeps, frontends: Sequence[ModelsFrontend], models: Sequence[DrawnModel]
    ) -> None:
        self._around = around
        self._rng = around.rng("clients")
        self._frontends = frontends
        self._names = [model.name for model in models]
        self.is_done = False
        self.requests: list[ClientRequest] = []

    async def work(self) -> None:
        while not self.is_done:
            await self._around.clock.sleep(self._rng.expovariate(1 / ASK_PAUSE_S))
            well = [frontend for frontend in self._frontends if frontend.is_well]
            if well:
                frontend, name = self._rng.choice(well), self._rng.choice(self._names)
                for _ in range(self._rng.choice((1, 1, 1, 3))):
                    self.ask(frontend, name)

    def ask(self, frontend: ModelsFrontend, name: str) -> ClientRequest:
        core = frontend.core
        assert core is not None
        task = frontend.machine.run(self._ask(core, name, len(self.requests)), name=f"request for {name}")
        request = ClientRequest(model=name, process=frontend.process, began_s=self._around.now(), task=task)
        self.requests.append(request)
        return request

    async def _ask(self, core: FrontendCore, name: str, number: int) -> None:
        gateway = core.api_deps.gateway
        outcome = "ended"
        try:
            model = await gateway.router.resolve(name)
            request = InferenceRequest(
                model=model,
                call="chat",
                path="/v1/chat/completions",
                body=model.name.encode(),
                principal=CLIENT,
                request_id=str(number),
            )
            async with open_exchange(gateway, request) as answer:
                await answer.read()
            outcome = "answered"
        except CorralError as error:
            outcome = error.slug
            if not error.message:
                self._around.violated(f"request {number} for {name} got {error.slug} without a word")
        finally:
            self.requests[number].outcome = outcome
            self._around.trace.add(f"request {number} for {name}: {outcome}")

    def hanging(self, longest_s: float) -> list[str]:
        """Return the requests at frontends that live which have been unanswered for too long."""
        now_s = self._around.now()
        return [
            f"a request for {each.model} at {each.process} has waited since {each.began_s:.1f} s"
            for each in self.requests
            if not each.task.done() and now_s - each.began_s > longest_s
        ]
