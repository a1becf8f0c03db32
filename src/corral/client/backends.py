"""Calls about backends: what there is, what is installed where, asking for changes, and processes on one node.

Whatever asks for a change carries an idempotency key, so that a lost connection does not ask twice.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from urllib.parse import quote

from pydantic import ValidationError

from corral.client.events import EventStream
from corral.client.http import Call, Transport
from corral.client.nodes import node_path
from corral.wire.backends import (
    AdmittedOut,
    CatalogPageOut,
    CollectedOut,
    ExternalIn,
    GalleryOut,
    InstalledBackendOut,
    LogLineOut,
    LogOut,
    NodeBackendOut,
    PlanOut,
    ProcessOut,
    RefreshOut,
    StartedOut,
    StartIn,
    StopIn,
    StoppedOut,
    TargetsIn,
    UpgradeOut,
    UpgradesAppliedOut,
)
from corral.wire.events import EventOut

PAGE_ITEMS_MAX = 200
_PLAN = {"plan": "true"}
# By another name: in a class with a method `list`, that word means the method.
NodeBackends = list[NodeBackendOut]
Galleries = list[GalleryOut]
Keys = list[str]


class BackendCalls:
    """`verb` is install, upgrade, reinstall, rollback or delete."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(self) -> list[InstalledBackendOut]:
        """What is installed, and where."""
        return await self._transport.fetch(Call(method="GET", path="/backends"), list[InstalledBackendOut])

    async def on_node(self, node: str) -> NodeBackends:
        return await self._transport.fetch(Call(method="GET", path=node_path(node, "backends")), NodeBackends)

    async def search(self, term: str = "", *, page: int = 1, items: int = PAGE_ITEMS_MAX) -> CatalogPageOut:
        """A page of the catalog."""
        parameters = {"page": str(page), "items": str(items)} | ({"term": term} if term else {})
        return await self._transport.fetch(
            Call(method="GET", path="/api/backends", parameters=parameters), CatalogPageOut
        )

    async def upgrades(self) -> dict[str, UpgradeOut]:
        return await self._transport.fetch(Call(method="GET", path="/api/backends/upgrades"), dict[str, UpgradeOut])

    async def check_upgrades(self) -> dict[str, UpgradeOut]:
        """Ask for a new check; the answer is what is known now."""
        call = Call(method="POST", path="/api/backends/upgrades/check")
        return await self._transport.fetch(call, dict[str, UpgradeOut])

    async def upgrade_all(self) -> UpgradesAppliedOut:
        call = Call(method="POST", path="/api/backends/upgrades/apply", creates=True)
        return await self._transport.fetch(call, UpgradesAppliedOut)

    async def galleries(self) -> Galleries:
        return await self._transport.fetch(Call(method="GET", path="/api/backends/galleries"), Galleries)

    async def refresh_galleries(self) -> RefreshOut:
        """Have them fetched anew; the answer is what is known now."""
        return await self._transport.fetch(Call(method="POST", path="/api/backends/galleries/refresh"), RefreshOut)

    async def collect(self, node: str, *, dry_run: bool = False) -> CollectedOut:
        """Throw away what no backend uses on a node, or tell what that is."""
        parameters = {"dry_run": "true"} if dry_run else {}
        call = Call(method="POST", path=node_path(node, "backends", "collect"), parameters=parameters)
        return await self._transport.fetch(call, CollectedOut)

    async def ask(self, verb: str, backend: str, wish: TargetsIn, *, after: bool = False) -> AdmittedOut:
        parameters = {"after": "true"} if after else {}
        return await self._transport.fetch(_wish(verb, backend, wish, parameters, creates=True), AdmittedOut)

    async def plan(self, verb: str, backend: str, wish: TargetsIn) -> PlanOut:
        return await self._transport.fetch(_wish(verb, backend, wish, _PLAN, creates=False), PlanOut)

    async def ask_external(self, wish: ExternalIn, *, after: bool = False) -> AdmittedOut:
        parameters = {"after": "true"} if after else {}
        return await self._transport.fetch(_external(wish, parameters, creates=True), AdmittedOut)

    async def plan_external(self, wish: ExternalIn) -> PlanOut:
        return await self._transport.fetch(_external(wish, _PLAN, creates=False), PlanOut)


class ProcessCalls:
    """Processes on one node."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(self, node: str) -> list[ProcessOut]:
        return await self._transport.fetch(Call(method="GET", path=node_path(node, "processes")), list[ProcessOut])

    async def start(self, node: str, wish: StartIn) -> StartedOut:
        call = Call(method="POST", path=node_path(node, "backends", "start"), body=wish, creates=True)
        return await self._transport.fetch(call, StartedOut)

    async def stop(self, node: str, wish: StopIn) -> StoppedOut:
        call = Call(method="POST", path=node_path(node, "backends", "stop"), body=wish)
        return await self._transport.fetch(call, StoppedOut)

    async def logs(self, node: str) -> Keys:
        """Which processes have left lines."""
        return await self._transport.fetch(Call(method="GET", path=node_path(node, "backend-logs")), Keys)

    async def log(self, node: str, key: str, *, lines: int = 200) -> LogOut:
        path = node_path(node, "backend-logs", key)
        return await self._transport.fetch(Call(method="GET", path=path, parameters={"lines": str(lines)}), LogOut)

    async def follow_log(self, node: str, key: str, *, after: int | None = None) -> AsyncGenerator[LogLineOut, None]:
        """Lines as they are written, over broken connections, until the caller stops."""
        stream = EventStream(
            transport=self._transport,
            position=None if after is None else str(after),
            path=node_path(node, "backend-logs", key, "stream"),
        )
        async with aclosing(stream.items()) as items:
            async for item in items:
                line = _line(item.data) if isinstance(item, EventOut) and item.kind == "line" else None
                if line is not None:
                    yield line


def _wish(verb: str, backend: str, wish: TargetsIn, parameters: Mapping[str, str], *, creates: bool) -> Call:
    path = f"/api/backends/{verb}/{quote(backend, safe='')}"
    return Call(method="POST", path=path, body=wish, parameters=parameters, creates=creates)


def _external(wish: ExternalIn, parameters: Mapping[str, str], *, creates: bool) -> Call:
    path = "/api/backends/install-external"
    return Call(method="POST", path=path, body=wish, parameters=parameters, creates=creates)


def _line(data: object) -> LogLineOut | None:
    try:
        return LogLineOut.model_validate(data)
    except ValidationError:
        return None
