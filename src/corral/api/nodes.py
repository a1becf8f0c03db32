"""`/api/nodes`: what admins see and do. `{node}` is an id or a name."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Body, Query

from corral.api.insight.live import busy_nodes
from corral.api.parts import OperateIn, Parts, PartsIn
from corral.api.views import node_out, replica_out
from corral.domain.errors import InvalidRequest
from corral.domain.node import Node, NodeStatus
from corral.nodes import commands, lifecycle, settings
from corral.policy.labels import matches, parse_selector
from corral.policy.node_identity import address_note
from corral.policy.status import status_of
from corral.store import nodes as node_store
from corral.store import replicas as replica_store
from corral.wire.nodes import (
    ApproveIn,
    ApproveOut,
    BudgetIn,
    BudgetOut,
    MessageOut,
    NodeOut,
    ProbeOut,
    ReplicaOut,
    SlotsIn,
    SlotsOut,
)

router = APIRouter(prefix="/api/nodes", tags=["nodes"])
Labels = dict[str, str]
ApprovalIn = Annotated[ApproveIn | None, Body()]
LabelsIn = Annotated[Labels, Body(examples=[{"zone": "b", "team": "speech"}])]


@router.get("")
async def list_nodes(
    parts: PartsIn,
    _: OperateIn,
    selector: Annotated[str, Query(max_length=2000, examples=["gpu.vendor=nvidia,zone=b"])] = "",
    status: Annotated[str, Query(max_length=20)] = "",
) -> list[NodeOut]:
    """All nodes by name, or those with the labels of a selector and a status."""
    wanted = parse_selector(selector)
    if status and status not in set(NodeStatus):
        raise InvalidRequest(f"{status!r} is not a status.", hint=", ".join(NodeStatus))
    async with parts.database.transaction() as tx:
        nodes = await node_store.list_nodes(tx)
        busy = await busy_nodes(parts, tx)
    parts.board.sharing.watched()
    shown = [node for node in nodes if matches(wanted, node.label_map) and status in ("", status_of(node))]
    return [node_out(node, busy) for node in shown]


@router.get("/models")
async def list_loaded(parts: PartsIn, _: OperateIn) -> list[ReplicaOut]:
    """Every loaded replica on a healthy node."""
    async with parts.database.transaction() as tx:
        healthy = {n.id for n in await node_store.list_nodes(tx) if status_of(n) is NodeStatus.HEALTHY}
        replicas = await replica_store.list_replicas(tx)
    return [replica_out(r) for r in replicas if r.node_id in healthy and r.state == "loaded"]


@router.get("/{node}")
async def show_node(parts: PartsIn, _: OperateIn, node: str) -> NodeOut:
    """One node, by its id or its name."""
    async with parts.database.transaction() as tx:
        found = await node_store.get_node(tx, node)
    return await _shown(parts, found)


async def _shown(parts: Parts, node: Node) -> NodeOut:
    parts.board.sharing.watched()
    async with parts.database.transaction() as tx:
        return node_out(node, await busy_nodes(parts, tx))


@router.delete("/{node}")
async def remove_node(parts: PartsIn, operator: OperateIn, node: str) -> MessageOut:
    """Forget a node with everything that hangs on it, and cut it off the bus."""
    removed = await lifecycle.remove(parts.database, node, operator.name)
    if removed.bus_keys:
        await parts.credentials.revoke(*removed.bus_keys)
    return MessageOut(message=f"Node {removed.node.name} is removed.")


@router.post("/{node}/approve")
async def approve_node(parts: PartsIn, operator: OperateIn, node: str, body: ApprovalIn = None) -> ApproveOut:
    """Let a pending node take part, with the labels that its worker sends. It learns of it with its next heartbeat and
    then gets its bus credential."""
    approved = await lifecycle.approve(parts.database, node, operator.name, body.labels if body else None)
    return ApproveOut(
        id=approved.id,
        name=approved.name,
        node_type=approved.type,
        status=status_of(approved),
        message=f"Node {approved.name} is approved.",
        labels=dict(approved.approved_labels),
        address_note=address_note(approved),
    )


@router.post("/{node}/drain")
async def drain_node(parts: PartsIn, operator: OperateIn, node: str) -> NodeOut:
    """No new work for this node until it is resumed, across restarts of its worker."""
    drained = await lifecycle.drain(parts.database, node, operator.name)
    await commands.wake(parts.bus, drained.id)
    return await _shown(parts, drained)


@router.post("/{node}/resume")
async def resume_node(parts: PartsIn, operator: OperateIn, node: str) -> NodeOut:
    """Take an admin's drain back. Approval and liveness stay as they are."""
    resumed = await lifecycle.resume(parts.database, node, operator.name)
    await commands.wake(parts.bus, resumed.id)
    return await _shown(parts, resumed)


@router.post("/{node}/probe")
async def probe_node(parts: PartsIn, _: OperateIn, node: str) -> ProbeOut:
    """Ask the node itself over the bus; its silence is written down as *off the bus*."""
    answer = await commands.describe(parts.database, parts.bus, node)
    return ProbeOut(**asdict(answer))


@router.post("/{node}/stop", status_code=202)
async def stop_node(parts: PartsIn, _: OperateIn, node: str) -> MessageOut:
    """Ask the worker to finish and end."""
    await commands.stop(parts.database, parts.bus, node)
    return MessageOut(message="The worker is stopping.")


@router.get("/{node}/models")
async def list_node_models(parts: PartsIn, _: OperateIn, node: str) -> list[ReplicaOut]:
    """The replicas on one node, in any state."""
    async with parts.database.transaction() as tx:
        found = await node_store.get_node(tx, node)
        return [replica_out(replica) for replica in await replica_store.list_replicas(tx, found.id)]


@router.get("/{node}/labels")
async def show_labels(parts: PartsIn, _: OperateIn, node: str) -> Labels:
    """The labels that count: the admin's before the worker's, as far as an admin has approved them; the machine's own
    (`node.*`, `gpu.*`) cannot be overridden."""
    async with parts.database.transaction() as tx:
        return (await node_store.get_node(tx, node)).label_map


@router.put("/{node}/labels")
async def put_labels(parts: PartsIn, operator: OperateIn, node: str, body: LabelsIn) -> Labels:
    """Make the admin's labels exactly these; labels of the machine and the worker stay."""
    return (await settings.put_labels(parts.database, node, body, operator.name)).label_map


@router.patch("/{node}/labels")
async def patch_labels(parts: PartsIn, operator: OperateIn, node: str, body: LabelsIn) -> Labels:
    """Set these labels and leave the others."""
    return (await settings.patch_labels(parts.database, node, body, operator.name)).label_map


@router.post("/{node}/approve-labels")
async def approve_labels(parts: PartsIn, operator: OperateIn, node: str, body: ApprovalIn = None) -> Labels:
    """Let the labels count that the worker of an approved node sends and nobody has approved (`proposed_labels`)."""
    shown = body.labels if body else None
    return (await settings.approve_labels(parts.database, node, operator.name, shown)).label_map


@router.delete("/{node}/labels/{key:path}", status_code=204)
async def delete_label(parts: PartsIn, operator: OperateIn, node: str, key: str) -> None:
    """Remove one label of the admin's. Those of the machine and the worker would come back and are refused."""
    await settings.delete_label(parts.database, node, key, operator.name)


@router.put("/{node}/max-replicas-per-model")
async def set_slots(parts: PartsIn, operator: OperateIn, node: str, body: SlotsIn) -> SlotsOut:
    """How many replicas of one model the node may hold, whatever its worker says."""
    changed = await settings.set_slots(parts.database, node, body.value, operator.name)
    return SlotsOut(max_replicas_per_model=changed.slots)


@router.delete("/{node}/max-replicas-per-model")
async def reset_slots(parts: PartsIn, operator: OperateIn, node: str) -> SlotsOut:
    """Give control back to the worker's own setting."""
    changed = await settings.set_slots(parts.database, node, None, operator.name)
    return SlotsOut(max_replicas_per_model=changed.slots, reset=True)


@router.put("/{node}/vram-budget")
async def set_budget(parts: PartsIn, operator: OperateIn, node: str, body: BudgetIn) -> BudgetOut:
    """How much VRAM Corral may use there: 80%, 0.8, 12GB, 12GiB, bytes, or empty for all of it."""
    changed = node_out(await settings.set_budget(parts.database, node, body.value, operator.name))
    return BudgetOut(vram_budget=changed.vram_budget, vram_budget_bytes=changed.vram_budget_bytes)


@router.delete("/{node}/vram-budget")
async def reset_budget(parts: PartsIn, operator: OperateIn, node: str) -> BudgetOut:
    """Give control back to the worker's own setting."""
    changed = node_out(await settings.set_budget(parts.database, node, None, operator.name))
    return BudgetOut(vram_budget=changed.vram_budget, vram_budget_bytes=changed.vram_budget_bytes, reset=True)
