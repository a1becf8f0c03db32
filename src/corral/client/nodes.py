"""Calls about nodes. A node is named by its id or its name."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from corral.client.http import Call, Transport
from corral.wire.nodes import ApproveIn, ApproveOut, BudgetIn, BudgetOut, NodeOut, ProbeOut, SlotsIn, SlotsOut


def node_path(node: str, *rest: str) -> str:
    # Names may hold spaces and slashes; each part is one segment whatever it holds.
    return "/".join(["/api/nodes", *(quote(part, safe="") for part in (node, *rest))])


class NodeCalls:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(self, *, selector: str | None = None, status: str | None = None) -> list[NodeOut]:
        given = {"selector": selector, "status": status}
        parameters = {name: value for name, value in given.items() if value}
        return await self._transport.fetch(Call(method="GET", path="/api/nodes", parameters=parameters), list[NodeOut])

    async def get(self, node: str) -> NodeOut:
        return await self._transport.fetch(Call(method="GET", path=node_path(node)), NodeOut)

    async def approve(self, node: str, labels: Mapping[str, str] | None = None) -> ApproveOut:
        """Approve a pending node. `labels`: the proposed labels that were shown; only these are approved with it."""
        body = None if labels is None else ApproveIn(labels=dict(labels))
        return await self._transport.fetch(Call(method="POST", path=node_path(node, "approve"), body=body), ApproveOut)

    async def drain(self, node: str) -> NodeOut:
        return await self._transport.fetch(Call(method="POST", path=node_path(node, "drain")), NodeOut)

    async def resume(self, node: str) -> NodeOut:
        return await self._transport.fetch(Call(method="POST", path=node_path(node, "resume")), NodeOut)

    async def stop(self, node: str) -> None:
        """Ask the node's worker to end."""
        await self._transport.send(Call(method="POST", path=node_path(node, "stop")))

    async def probe(self, node: str) -> ProbeOut:
        """Ask the node itself, over the bus."""
        return await self._transport.fetch(Call(method="POST", path=node_path(node, "probe")), ProbeOut)

    async def remove(self, node: str) -> None:
        await self._transport.send(Call(method="DELETE", path=node_path(node)))

    async def set_slots(self, node: str, value: int) -> SlotsOut:
        call = Call(method="PUT", path=node_path(node, "max-replicas-per-model"), body=SlotsIn(value=value))
        return await self._transport.fetch(call, SlotsOut)

    async def reset_slots(self, node: str) -> SlotsOut:
        call = Call(method="DELETE", path=node_path(node, "max-replicas-per-model"))
        return await self._transport.fetch(call, SlotsOut)

    async def set_budget(self, node: str, value: str) -> BudgetOut:
        call = Call(method="PUT", path=node_path(node, "vram-budget"), body=BudgetIn(value=value))
        return await self._transport.fetch(call, BudgetOut)

    async def reset_budget(self, node: str) -> BudgetOut:
        return await self._transport.fetch(Call(method="DELETE", path=node_path(node, "vram-budget")), BudgetOut)


class LabelCalls:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def get(self, node: str) -> dict[str, str]:
        return await self._transport.fetch(Call(method="GET", path=node_path(node, "labels")), dict[str, str])

    async def replace(self, node: str, labels: Mapping[str, str]) -> dict[str, str]:
        call = Call(method="PUT", path=node_path(node, "labels"), body=labels)
        return await self._transport.fetch(call, dict[str, str])

    async def merge(self, node: str, labels: Mapping[str, str]) -> dict[str, str]:
        call = Call(method="PATCH", path=node_path(node, "labels"), body=labels)
        return await self._transport.fetch(call, dict[str, str])

    async def approve(self, node: str, labels: Mapping[str, str]) -> dict[str, str]:
        """Let these labels count, which the worker sends and nobody has approved; returns all that count."""
        call = Call(method="POST", path=node_path(node, "approve-labels"), body=ApproveIn(labels=dict(labels)))
        return await self._transport.fetch(call, dict[str, str])

    async def remove(self, node: str, key: str) -> None:
        await self._transport.send(Call(method="DELETE", path=node_path(node, "labels", key)))
