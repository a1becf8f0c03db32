"""From the domain's values to JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from corral.domain.cluster import Event
from corral.domain.node import Node, NodeId
from corral.domain.replica import Replica, ReplicaState
from corral.policy.budget import budget_or_no_cap
from corral.policy.node_identity import address_note
from corral.policy.status import conditions_of, is_schedulable, reason_of, status_of
from corral.wire.events import EventOut
from corral.wire.live import NodeLive
from corral.wire.nodes import Condition, NodeOut, ReplicaOut

_ON_THEIR_WAY = (ReplicaState.STAGING, ReplicaState.LOADING)


def node_out(node: Node, busy: Mapping[NodeId, int] | None = None) -> NodeOut:
    """`busy`: the requests in flight at each node, if they are known better than by the leases."""
    hardware = asdict(node.hardware)
    reported = hardware["available_vram"]
    budget = budget_or_no_cap(node.budget)
    hardware["available_vram"] = budget.cap(reported, hardware["total_vram"], node.held_vram)
    return NodeOut(
        **hardware,
        id=node.id,
        name=node.name,
        node_type=node.type,
        status=status_of(node),
        status_reason=reason_of(node),
        schedulable=is_schedulable(node),
        conditions=[Condition(**asdict(fact)) for fact in conditions_of(node)],
        address=node.address,
        http_address=node.http_address,
        seen_address=node.seen_address,
        address_note=address_note(node),
        reported_available_vram=reported,
        reserved_vram=node.reserved_vram,
        max_replicas_per_model=node.slots,
        max_replicas_per_model_manually_set=node.slots_override is not None,
        vram_budget=node.budget,
        vram_budget_bytes=budget.ceiling(node.hardware.total_vram),
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


def node_live(node: Node, in_flight: int) -> NodeLive:
    hardware = node.hardware
    return NodeLive(
        id=node.id,
        status=status_of(node),
        status_reason=reason_of(node),
        schedulable=is_schedulable(node),
        available_vram=budget_or_no_cap(node.budget).cap(hardware.available_vram, hardware.total_vram, node.held_vram),
        reported_available_vram=hardware.available_vram,
        reserved_vram=node.reserved_vram,
        available_ram=hardware.available_ram,
        available_disk=hardware.available_disk,
        in_flight_count=in_flight,
        model_count=node.model_count,
        last_heartbeat=node.last_heartbeat_at,
    )


def replica_out(replica: Replica) -> ReplicaOut:
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
        loading_by=(replica.operation_id or "") if replica.state in _ON_THEIR_WAY else "",
        created_at=replica.created_at,
        updated_at=replica.updated_at,
    )


def event_out(event: Event) -> EventOut:
    return EventOut(id=str(event.position), kind=event.kind, key=event.key, at=event.at, data=event.data)
