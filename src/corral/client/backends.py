"""Calls about backends: the catalog, installed backends, changes, and engine processes on one node.

Each call that requests a change carries an idempotency key, so that repeating it after a lost connection does not start
a second change.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from urllib.parse import quote

from pydantic import ValidationError

from corral.client.events import EventStream
from corral.client.nodes import make_node_path
from corral.client.transport import ApiRequest, ApiTransport
from corral.wire.backends import (
    AppliedUpgradesOut,
    BackendGarbageOut,
    BackendOperationOut,
    BackendPlanOut,
    CatalogPageOut,
    EngineLogLineOut,
    EngineLogOut,
    EngineProcessOut,
    ExternalBackendIn,
    GalleryOut,
    GalleryRefreshOut,
    InstalledBackendOut,
    NodeBackendOut,
    StartedEngineOut,
    StartEngineIn,
    StopEnginesIn,
    StoppedEnginesOut,
    TargetsIn,
)
from corral.wire.live import EventOut

PAGE_ITEMS_MAX = 200
_PLAN = {"plan": "true"}
# An alias, because inside a class with a method `list` that name means the method.
NodeBackends = list[NodeBackendOut]
Galleries = list[GalleryOut]
Keys = list[str]


class BackendCalls:
    """Client-side calls of the HTTP API about engine backends.

    `verb` is install, upgrade, reinstall, rollback or delete.
    """

    def __init__(self, transport: ApiTransport) -> None:
        self._transport = transport

    async def list(self) -> list[InstalledBackendOut]:
        """List the installed backends and their nodes."""
        return await self._transport.fetch(ApiRequest(method="GET", path="/backends"), list[InstalledBackendOut])

    async def list_on_node(self, node: str) -> NodeBackends:
        return await self._transport.fetch(
            ApiRequest(method="GET", path=make_node_path(node, "backends")), NodeBackends
        )

    async def search(self, term: str = "", *, page: int = 1, items: int = PAGE_ITEMS_MAX) -> CatalogPageOut:
        """Return one page of the catalog."""
        parameters = {"page": str(page), "items": str(items)} | ({"term": term} if term else {})
        return await self._transport.fetch(
            ApiRequest(method="GET", path="/api/backends", parameters=parameters), CatalogPageOut
        )

    async def upgrade_all(self) -> AppliedUpgradesOut:
        call = ApiRequest(method="POST", path="/api/backends/upgrades/apply", creates=True)
        return await self._transport.fetch(call, AppliedUpgradesOut)

    async def list_galleries(self) -> Galleries:
        return await self._transport.fetch(ApiRequest(method="GET", path="/api/backends/galleries"), Galleries)

    async def refresh_galleries(self) -> GalleryRefreshOut:
        """Request a new download of the galleries. The response holds what is known now."""
        return await self._transport.fetch(
            ApiRequest(method="POST", path="/api/backends/galleries/refresh"), GalleryRefreshOut
        )

    async def collect_garbage(self, node: str, *, dry_run: bool = False) -> BackendGarbageOut:
        """Delete files on a node that no backend uses; with `dry_run` only list them."""
        parameters = {"dry_run": "true"} if dry_run else {}
        call = ApiRequest(method="POST", path=make_node_path(node, "backends", "collect"), parameters=parameters)
        return await self._transport.fetch(call, BackendGarbageOut)

    async def request_change(
        self, verb: str, backend: str, body: TargetsIn, *, after: bool = False
    ) -> BackendOperationOut:
        parameters = {"after": "true"} if after else {}
        return await self._transport.fetch(
            _make_change_request(verb, backend, body, parameters, creates=True), BackendOperationOut
        )

    async def plan_change(self, verb: str, backend: str, body: TargetsIn) -> BackendPlanOut:
        return await self._transport.fetch(
            _make_change_request(verb, backend, body, _PLAN, creates=False), BackendPlanOut
        )

    async def request_external(self, body: ExternalBackendIn, *, after: bool = False) -> BackendOperationOut:
        parameters = {"after": "true"} if after else {}
        return await self._transport.fetch(_make_external_request(body, parameters, creates=True), BackendOperationOut)

    async def plan_external(self, body: ExternalBackendIn) -> BackendPlanOut:
        return await self._transport.fetch(_make_external_request(body, _PLAN, creates=False), BackendPlanOut)


class ProcessCalls:
    """Client-side calls of the HTTP API about engine processes of one node and their logs."""

    def __init__(self, transport: ApiTransport) -> None:
        self._transport = transport

    async def list(self, node: str) -> list[EngineProcessOut]:
        return await self._transport.fetch(
            ApiRequest(method="GET", path=make_node_path(node, "processes")), list[EngineProcessOut]
        )

    async def start(self, node: str, body: StartEngineIn) -> StartedEngineOut:
        call = ApiRequest(method="POST", path=make_node_path(node, "backends", "start"), body=body, creates=True)
        return await self._transport.fetch(call, StartedEngineOut)

    async def stop(self, node: str, body: StopEnginesIn) -> StoppedEnginesOut:
        call = ApiRequest(method="POST", path=make_node_path(node, "backends", "stop"), body=body)
        return await self._transport.fetch(call, StoppedEnginesOut)

    async def list_logs(self, node: str) -> Keys:
        """List the processes of a node that have log lines."""
        return await self._transport.fetch(ApiRequest(method="GET", path=make_node_path(node, "backend-logs")), Keys)

    async def read_log(self, node: str, key: str, *, lines: int = 200) -> EngineLogOut:
        path = make_node_path(node, "backend-logs", key)
        return await self._transport.fetch(
            ApiRequest(method="GET", path=path, parameters={"lines": str(lines)}), EngineLogOut
        )

    async def follow_log(
        self, node: str, key: str, *, after: int | None = None
    ) -> AsyncGenerator[EngineLogLineOut, None]:
        """Yield log lines as they are written. Reconnects when the connection breaks, and runs until the caller
        stops."""
        stream = EventStream(
            transport=self._transport,
            position=None if after is None else str(after),
            path=make_node_path(node, "backend-logs", key, "stream"),
        )
        async with aclosing(stream.iter_items()) as items:
            async for item in items:
                line = _parse_line(item.data) if isinstance(item, EventOut) and item.kind == "line" else None
                if line is not None:
                    yield line


def _make_change_request(
    verb: str, backend: str, body: TargetsIn, parameters: Mapping[str, str], *, creates: bool
) -> ApiRequest:
    path = f"/api/backends/{verb}/{quote(backend, safe='')}"
    return ApiRequest(method="POST", path=path, body=body, parameters=parameters, creates=creates)


def _make_external_request(body: ExternalBackendIn, parameters: Mapping[str, str], *, creates: bool) -> ApiRequest:
    path = "/api/backends/install-external"
    return ApiRequest(method="POST", path=path, body=body, parameters=parameters, creates=creates)


def _parse_line(data: object) -> EngineLogLineOut | None:
    try:
        return EngineLogLineOut.model_validate(data)
    except ValidationError:
        return None
