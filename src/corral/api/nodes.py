"""`/api/nodes`: routes for admins about nodes. `{node}` is an id or a name."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Body, Query

from corral.api.deps import ApiDeps, DepsIn, OperatorIn
from corral.api.insight import count_in_flight_by_node
from corral.api.views import node_to_wire, replica_to_wire
from corral.domain.errors import InvalidRequest
from corral.domain.node import Node, NodeStatus
from corral.nodes import commands, lifecycle
from corral.policy.labels import matches_labels, parse_selector
from corral.policy.node_identity import describe_address
from corral.policy.status import compute_status
from corral.store import nodes as node_store
from corral.store import replicas as replica_store
from corral.wire.nodes import (
    ApprovedNodeOut,
    ApproveNodeIn,
    MessageOut,
    NodeOut,
    NodeProbeOut,
    ReplicaOut,
    ReplicaSlotsIn,
    ReplicaSlotsOut,
    VramBudgetIn,
    VramBudgetOut,
)

router = APIRouter(prefix="/api/nodes", tags=["nodes"])
Labels = dict[str, str]
ApproveNodeBody = Annotated[ApproveNodeIn | None, Body()]
LabelsBody = Annotated[Labels, Body(examples=[{"zone": "b", "team": "speech"}])]


@router.get("")
async def list_nodes(
    deps: DepsIn,
    _: OperatorIn,
    selector: Annotated[str, Query(max_length=2000, examples=["gpu.vendor=nvidia,zone=b"])] = "",
    status: Annotated[str, Query(max_length=20)] = "",
) -> list[NodeOut]:
    """List the nodes by name, optionally only those that match a selector and a status."""
    selector_labels = parse_selector(selector)
    if status and status not in set(NodeStatus):
        raise InvalidRequest(f"{status!r} is not a status.", hint=", ".join(NodeStatus))
    async with deps.database.transaction() as tx:
        nodes = await node_store.list_nodes(tx)
        busy = await count_in_flight_by_node(deps, tx)
    deps.live_views.traffic.note_watcher()
    shown = [
        node
        for node in nodes
        if matches_labels(selector_labels, node.label_map) and status in ("", compute_status(node))
    ]
    return [node_to_wire(node, busy) for node in shown]


@router.get("/models")
async def list_loaded_replicas(deps: DepsIn, _: OperatorIn) -> list[ReplicaOut]:
    """List every loaded replica on a healthy node."""
    async with deps.database.transaction() as tx:
        healthy = {n.id for n in await node_store.list_nodes(tx) if compute_status(n) is NodeStatus.HEALTHY}
        replicas = await replica_store.list_replicas(tx)
    return [replica_to_wire(r) for r in replicas if r.node_id in healthy and r.state == "loaded"]


@router.get("/{node}")
async def show_node(deps: DepsIn, _: OperatorIn, node: str) -> NodeOut:
    """Show one node, by its id or its name."""
    async with deps.database.transaction() as tx:
        found = await node_store.get_node(tx, node)
    return await _show_changed_node(deps, found)


async def _show_changed_node(deps: ApiDeps, node: Node) -> NodeOut:
    deps.live_views.traffic.note_watcher()
    async with deps.database.transaction() as tx:
        return node_to_wire(node, await count_in_flight_by_node(deps, tx))


@router.delete("/{node}")
async def remove_node(deps: DepsIn, operator: OperatorIn, node: str) -> MessageOut:
    """Remove a node with its credentials, labels and replicas, and revoke its access to the bus."""
    removed = await lifecycle.remove(deps.database, node, operator.name)
    if removed.bus_keys:
        await deps.credentials.revoke(*removed.bus_keys)
    return MessageOut(message=f"Removed node {removed.node.name}.")


@router.post("/{node}/approve")
async def approve_node(deps: DepsIn, operator: OperatorIn, node: str, body: ApproveNodeBody = None) -> ApprovedNodeOut:
    """Approve a pending node, with the labels that its worker sends. The node gets its bus credential after its next
    heartbeat."""
    approved = await lifecycle.approve(deps.database, node, operator.name, body.labels if body else None)
    return ApprovedNodeOut(
        id=approved.id,
        name=approved.name,
        node_type=approved.type,
        status=compute_status(approved),
        message=f"Approved node {approved.name}.",
        labels=dict(approved.approved_labels),
        address_note=describe_address(approved),
    )


@router.post("/{node}/drain")
async def drain_node(deps: DepsIn, operator: OperatorIn, node: str) -> NodeOut:
    """Drain a node: it gets no new work until it is resumed, also after restarts of its worker."""
    drained = await lifecycle.drain(deps.database, node, operator.name)
    await commands.wake(deps.bus, drained.id)
    return await _show_changed_node(deps, drained)


@router.post("/{node}/resume")
async def resume_node(deps: DepsIn, operator: OperatorIn, node: str) -> NodeOut:
    """Resume a drained node. Its approval and liveness stay as they are."""
    resumed = await lifecycle.resume(deps.database, node, operator.name)
    await commands.wake(deps.bus, resumed.id)
    return await _show_changed_node(deps, resumed)


@router.post("/{node}/probe")
async def probe_node(deps: DepsIn, _: OperatorIn, node: str) -> NodeProbeOut:
    """Probe a node over the bus. A node that does not respond is recorded as off the bus."""
    answer = await commands.describe(deps.database, deps.bus, node)
    return NodeProbeOut(**asdict(answer))


@router.post("/{node}/stop", status_code=202)
async def stop_node(deps: DepsIn, _: OperatorIn, node: str) -> MessageOut:
    """Stop the worker of a node after its running work."""
    await commands.stop(deps.database, deps.bus, node)
    return MessageOut(message="The worker is stopping.")


@router.get("/{node}/models")
async def list_node_models(deps: DepsIn, _: OperatorIn, node: str) -> list[ReplicaOut]:
    """List the replicas on one node, in any state."""
    async with deps.database.transaction() as tx:
        found = await node_store.get_node(tx, node)
        return [replica_to_wire(replica) for replica in await replica_store.list_replicas(tx, found.id)]


@router.get("/{node}/labels")
async def show_labels(deps: DepsIn, _: OperatorIn, node: str) -> Labels:
    """Show the effective labels: those of admins take precedence over approved ones of the worker; those of the machine
    (`node.*`, `gpu.*`) cannot be overridden."""
    async with deps.database.transaction() as tx:
        return (await node_store.get_node(tx, node)).label_map


@router.put("/{node}/labels")
async def replace_labels(deps: DepsIn, operator: OperatorIn, node: str, body: LabelsBody) -> Labels:
    """Replace the labels of admins with these; labels of the machine and the worker stay."""
    return (await lifecycle.put_labels(deps.database, node, body, operator.name)).label_map


@router.patch("/{node}/labels")
async def merge_labels(deps: DepsIn, operator: OperatorIn, node: str, body: LabelsBody) -> Labels:
    """Set these labels and keep the others."""
    return (await lifecycle.patch_labels(deps.database, node, body, operator.name)).label_map


@router.post("/{node}/approve-labels")
async def approve_labels(deps: DepsIn, operator: OperatorIn, node: str, body: ApproveNodeBody = None) -> Labels:
    """Approve the labels that the worker of an approved node has proposed (`proposed_labels`)."""
    shown = body.labels if body else None
    return (await lifecycle.approve_labels(deps.database, node, operator.name, shown)).label_map


@router.delete("/{node}/labels/{key:path}", status_code=204)
async def delete_label(deps: DepsIn, operator: OperatorIn, node: str, key: str) -> None:
    """Remove one label of an admin. Labels of the machine and the worker would come back and are refused."""
    await lifecycle.delete_label(deps.database, node, key, operator.name)


@router.put("/{node}/max-replicas-per-model")
async def set_slots(deps: DepsIn, operator: OperatorIn, node: str, body: ReplicaSlotsIn) -> ReplicaSlotsOut:
    """Set how many replicas of one model the node may hold, overriding the setting of its worker."""
    changed = await lifecycle.set_slots(deps.database, node, body.value, operator.name)
    return ReplicaSlotsOut(max_replicas_per_model=changed.slots)


@router.delete("/{node}/max-replicas-per-model")
async def reset_slots(deps: DepsIn, operator: OperatorIn, node: str) -> ReplicaSlotsOut:
    """Reset to the setting of the worker."""
    changed = await lifecycle.set_slots(deps.database, node, None, operator.name)
    return ReplicaSlotsOut(max_replicas_per_model=changed.slots, reset=True)


@router.put("/{node}/vram-budget")
async def set_budget(deps: DepsIn, operator: OperatorIn, node: str, body: VramBudgetIn) -> VramBudgetOut:
    """Set how much VRAM models may use on a node: 80%, 0.8, 12GB, 12GiB, bytes, or empty for all of it."""
    changed = node_to_wire(await lifecycle.set_budget(deps.database, node, body.value, operator.name))
    return VramBudgetOut(vram_budget=changed.vram_budget, vram_budget_bytes=changed.vram_budget_bytes)


@router.delete("/{node}/vram-budget")
async def reset_budget(deps: DepsIn, operator: OperatorIn, node: str) -> VramBudgetOut:
    """Reset to the setting of the worker."""
    changed = node_to_wire(await lifecycle.set_budget(deps.database, node, None, operator.name))
    return VramBudgetOut(vram_budget=changed.vram_budget, vram_budget_bytes=changed.vram_budget_bytes, reset=True)
