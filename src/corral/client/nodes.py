"""Calls about nodes. A node is named by its id or its name."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from corral.client.transport import ApiRequest, ApiTransport
from corral.wire.nodes import (
    ApprovedNodeOut,
    ApproveNodeIn,
    NodeOut,
    NodeProbeOut,
    ReplicaSlotsIn,
    ReplicaSlotsOut,
    VramBudgetIn,
    VramBudgetOut,
)


def make_node_path(node: str, *rest: str) -> str:
    # Names may contain spaces and slashes; each part is quoted as one segment.
    return "/".join(["/api/nodes", *(quote(part, safe="") for part in (node, *rest))])


class NodeCalls:
    """Client-side calls of the HTTP API about nodes."""

    def __init__(self, transport: ApiTransport) -> None:
        self._transport = transport

    async def list(self, *, selector: str | None = None, status: str | None = None) -> list[NodeOut]:
        given = {"selector": selector, "status": status}
        parameters = {name: value for name, value in given.items() if value}
        return await self._transport.fetch(
            ApiRequest(method="GET", path="/api/nodes", parameters=parameters), list[NodeOut]
        )

    async def get(self, node: str) -> NodeOut:
        return await self._transport.fetch(ApiRequest(method="GET", path=make_node_path(node)), NodeOut)

    async def approve(self, node: str, labels: Mapping[str, str] | None = None) -> ApprovedNodeOut:
        """Approve a pending node. `labels`: the proposed labels that were shown; only these are approved with it."""
        body = None if labels is None else ApproveNodeIn(labels=dict(labels))
        return await self._transport.fetch(
            ApiRequest(method="POST", path=make_node_path(node, "approve"), body=body), ApprovedNodeOut
        )

    async def drain(self, node: str) -> NodeOut:
        return await self._transport.fetch(ApiRequest(method="POST", path=make_node_path(node, "drain")), NodeOut)

    async def resume(self, node: str) -> NodeOut:
        return await self._transport.fetch(ApiRequest(method="POST", path=make_node_path(node, "resume")), NodeOut)

    async def stop(self, node: str) -> None:
        """Tell the node's worker to stop."""
        await self._transport.send(ApiRequest(method="POST", path=make_node_path(node, "stop")))

    async def probe(self, node: str) -> NodeProbeOut:
        """Send a request to the node over the bus, and return whether and how fast it replied."""
        return await self._transport.fetch(ApiRequest(method="POST", path=make_node_path(node, "probe")), NodeProbeOut)

    async def remove(self, node: str) -> None:
        await self._transport.send(ApiRequest(method="DELETE", path=make_node_path(node)))

    async def set_slots(self, node: str, value: int) -> ReplicaSlotsOut:
        call = ApiRequest(
            method="PUT", path=make_node_path(node, "max-replicas-per-model"), body=ReplicaSlotsIn(value=value)
        )
        return await self._transport.fetch(call, ReplicaSlotsOut)

    async def reset_slots(self, node: str) -> ReplicaSlotsOut:
        call = ApiRequest(method="DELETE", path=make_node_path(node, "max-replicas-per-model"))
        return await self._transport.fetch(call, ReplicaSlotsOut)

    async def set_budget(self, node: str, value: str) -> VramBudgetOut:
        call = ApiRequest(method="PUT", path=make_node_path(node, "vram-budget"), body=VramBudgetIn(value=value))
        return await self._transport.fetch(call, VramBudgetOut)

    async def reset_budget(self, node: str) -> VramBudgetOut:
        return await self._transport.fetch(
            ApiRequest(method="DELETE", path=make_node_path(node, "vram-budget")), VramBudgetOut
        )


class LabelCalls:
    """Client-side calls of the HTTP API about labels of nodes."""

    def __init__(self, transport: ApiTransport) -> None:
        self._transport = transport

    async def get(self, node: str) -> dict[str, str]:
        return await self._transport.fetch(
            ApiRequest(method="GET", path=make_node_path(node, "labels")), dict[str, str]
        )

    async def replace(self, node: str, labels: Mapping[str, str]) -> dict[str, str]:
        call = ApiRequest(method="PUT", path=make_node_path(node, "labels"), body=labels)
        return await self._transport.fetch(call, dict[str, str])

    async def merge(self, node: str, labels: Mapping[str, str]) -> dict[str, str]:
        call = ApiRequest(method="PATCH", path=make_node_path(node, "labels"), body=labels)
        return await self._transport.fetch(call, dict[str, str])

    async def approve(self, node: str, labels: Mapping[str, str]) -> dict[str, str]:
        """Approve labels that the worker proposes. Return all labels that are in effect."""
        call = ApiRequest(
            method="POST", path=make_node_path(node, "approve-labels"), body=ApproveNodeIn(labels=dict(labels))
        )
        return await self._transport.fetch(call, dict[str, str])

    async def remove(self, node: str, key: str) -> None:
        await self._transport.send(ApiRequest(method="DELETE", path=make_node_path(node, "labels", key)))
