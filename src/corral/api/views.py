"""Converts values of the domain to JSON bodies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from corral.domain.cluster import OutboxEvent
from corral.domain.node import Node, NodeId
from corral.domain.replica import Replica, ReplicaState
from corral.policy.budget import parse_stored_budget
from corral.policy.node_identity import describe_address
from corral.policy.status import compute_status, describe_status, is_schedulable, list_conditions
from corral.wire.live import EventOut, LiveNodeOut
from corral.wire.nodes import NodeConditionOut, NodeOut, ReplicaOut

_LOADING_STATES = (ReplicaState.STAGING, ReplicaState.LOADING)


def node_to_wire(node: Node, busy: Mapping[NodeId, int] | None = None) -> NodeOut:
    """Convert a node. `busy` maps nodes to their requests in flight, if they are known more exactly than by the
    leases."""
    hardware = asdict(node.hardware)
    reported = hardware["available_vram"]
    budget = parse_stored_budget(node.budget)
    hardware["available_vram"] = budget.cap(reported, hardware["total_vram"], node.held_vram)
    return NodeOut(
        **hardware,
        id=node.id,
        name=node.name,
        node_type=node.type,
        status=compute_status(node),
        status_reason=describe_status(node),
        schedulable=is_schedulable(node),
        conditions=[NodeConditionOut(**asdict(fact)) for fact in list_conditions(node)],
        address=node.address,
        http_address=node.http_address,
        seen_address=node.seen_address,
        address_note=describe_address(node),
        reported_available_vram=reported,
        reserved_vram=node.reserved_vram,
        max_replicas_per_model=node.slots,
        max_replicas_per_model_manually_set=node.slots_override is not None,
        max_runs=node.max_runs,
        vram_budget=node.budget,
        vram_budget_bytes=budget.compute_ceiling(node.hardware.total_vram),
        vram_budget_manually_set=node.budget_override is not None,
        labels=node.label_map,
        label_sources={label.key: label.source for label in node.labels},
        proposed_labels=dict(node.proposed_labels),
        held_threads=node.held_threads,
        model_count=node.model_count,
        in_flight_count=node.in_flight_count if busy is None else busy.get(node.id, 0),
        boot_id=node.boot_id,
        version=node.version,
        last_heartbeat=node.last_heartbeat_at,
        created_at=node.created_at,
        updated_at=node.updated_at,
    )


def live_node_to_wire(node: Node, in_flight: int) -> LiveNodeOut:
    hardware = node.hardware
    return LiveNodeOut(
        id=node.id,
        status=compute_status(node),
        status_reason=describe_status(node),
        schedulable=is_schedulable(node),
        available_vram=parse_stored_budget(node.budget).cap(
            hardware.available_vram, hardware.total_vram, node.held_vram
        ),
        reported_available_vram=hardware.available_vram,
        reserved_vram=node.reserved_vram,
        available_ram=hardware.available_ram,
        available_disk=hardware.available_disk,
        in_flight_count=in_flight,
        model_count=node.model_count,
        last_heartbeat=node.last_heartbeat_at,
    )


def replica_to_wire(replica: Replica) -> ReplicaOut:
    return ReplicaOut(
        id=replica.id,
        node_id=replica.node_id,
        model_name=replica.model,
        replica_index=replica.index,
        address=replica.address,
        state=replica.state,
        in_flight=replica.in_flight,
        last_used=replica.last_used_at,
        config_revision=replica.revision,
        backend_type=replica.backend,
        loading_by=(replica.operation_id or "") if replica.state in _LOADING_STATES else "",
        created_at=replica.created_at,
        updated_at=replica.updated_at,
    )


def event_to_wire(event: OutboxEvent) -> EventOut:
    return EventOut(id=str(event.position), kind=event.kind, key=event.key, at=event.at, data=event.data)
