"""Nodes as text: the list, one in full, and what to do next about it."""

from __future__ import annotations

from datetime import datetime

from corral.cli import render
from corral.wire.events import EventOut
from corral.wire.nodes import Gpu, NodeOut

# Facts about engines, which an agent node does not run.
_OF_ENGINES = frozenset({"Capability", "Threads", "VRAM", "VRAM budget", "Slots", "Models"})
LIST_HEADERS = ("NAME", "STATUS", "TYPE", "CAPABILITY", "VRAM", "RAM", "DISK", "SLOTS", "LABELS", "HEARTBEAT", "AGE")


def node_list(nodes: list[NodeOut], now: datetime, *, colour: bool) -> str:
    return render.table(LIST_HEADERS, [_row(node, now) for node in nodes], colour=colour)


def _row(node: NodeOut, now: datetime) -> list[str]:
    return [
        node.name,
        node.status,
        node.node_type,
        render.NONE if _is_agent(node) else node.capability or render.NONE,
        render.NONE if _is_agent(node) else render.free_of(node.available_vram, node.total_vram),
        render.free_of(node.available_ram, node.total_ram),
        render.free_of(node.available_disk, node.total_disk),
        render.NONE if _is_agent(node) else str(node.max_replicas_per_model),
        _labels(node, with_automatic=False),
        f"{render.age(node.last_heartbeat, now)} ago" if node.last_heartbeat else "never",
        render.age(node.created_at, now),
    ]


def _is_agent(node: NodeOut) -> bool:
    """Tell whether the node runs agents only: then it has no replicas, no VRAM budget and no slots."""
    return node.node_type == "agent"


def node_in_full(node: NodeOut, now: datetime, *, colour: bool) -> str:
    parts = [render.facts(_facts(node, now))]
    if node.gpus:
        rows = [_gpu_row(gpu) for gpu in node.gpus]
        parts.append(render.table(("GPU", "NAME", "VRAM", "COMPUTE", "DRIVER"), rows))
    conditions = [
        [item.name, render.yes_no(item.holds), render.age(item.since, now), item.reason] for item in node.conditions
    ]
    parts.append(render.table(("CONDITION", "HOLDS", "SINCE", "REASON"), conditions, colour=colour))
    step = next_step(node)
    if step:
        parts.append(f"Next: {render.clean(step)}\n")
    return "\n".join(parts)


def _facts(node: NodeOut, now: datetime) -> dict[str, str]:
    budget = node.vram_budget or "no cap"
    if node.vram_budget and node.vram_budget_bytes is not None:
        budget += f" ({render.size(node.vram_budget_bytes)})"
    heartbeat = f"{render.age(node.last_heartbeat, now)} ago" if node.last_heartbeat else "never"
    facts = {
        "Name": node.name,
        "Id": node.id,
        "Status": f"{node.status}: {node.status_reason}",
        "Takes work": render.yes_no(node.schedulable),
        "Type": node.node_type,
        "Capability": node.capability or render.NONE,
        "Address": f"{node.address}. {node.address_note}" if node.address_note else node.address,
        "Worker": f"version {node.version or 'unknown'}, boot {node.boot_id}, {node.http_address or 'no own port'}",
        "System": " ".join(filter(None, (node.system, node.architecture))),
        "Processor": _processor(node),
        "Threads": _threads(node),
        "RAM": f"{render.free_of(node.available_ram, node.total_ram)} free",
        "VRAM": _vram(node),
        "VRAM budget": f"{budget}, {_set_by(is_manual=node.vram_budget_manually_set)}",
        "Disk": f"{render.free_of(node.available_disk, node.total_disk)} free",
        "Slots": f"{node.max_replicas_per_model} per model, "
        f"{_set_by(is_manual=node.max_replicas_per_model_manually_set)}",
        "Models": f"{node.model_count}, {node.in_flight_count} requests in flight",
        "Labels": _labels(node, with_automatic=True),
        **({"Not approved": render.pairs_text(node.proposed_labels)} if node.proposed_labels else {}),
        "Heartbeat": heartbeat,
        "Registered": f"{render.age(node.created_at, now)} ago ({render.moment(node.created_at)})",
    }
    return {name: text for name, text in facts.items() if name not in _OF_ENGINES} if _is_agent(node) else facts


def _processor(node: NodeOut) -> str:
    if node.cpu_cores is None and node.cpu_threads is None:
        return render.NONE
    return f"{node.cpu_cores or '?'} cores, {node.cpu_threads or '?'} threads"


def _threads(node: NodeOut) -> str:
    if node.cpu_threads is None:
        return f"{node.held_threads} in use"
    return f"{node.held_threads} of {node.cpu_threads} threads in use"


def _vram(node: NodeOut) -> str:
    if node.total_vram is None:
        return "none or unknown"
    text = f"{render.free_of(node.available_vram, node.total_vram)} free"
    if node.reserved_vram:
        text += f", {render.size(node.reserved_vram)} reserved"
    return f"{text}, shared with RAM" if node.unified_memory else text


def _set_by(*, is_manual: bool) -> str:
    return "set by an admin" if is_manual else "as the worker reports"


def _labels(node: NodeOut, *, with_automatic: bool) -> str:
    kept = {key: value for key, value in node.labels.items() if with_automatic or node.label_sources.get(key) != "auto"}
    return render.pairs_text(kept)


def _gpu_row(gpu: Gpu) -> list[str]:
    return [
        str(gpu.index),
        gpu.name or gpu.vendor,
        render.free_of(gpu.available_vram, gpu.total_vram),
        gpu.compute_capability or render.NONE,
        gpu.driver or render.NONE,
    ]


def next_step(node: NodeOut) -> str | None:
    """What an admin can do about the node's state; None when all is well."""
    match node.status:
        case "pending":
            return f"corral nodes approve {node.name}"
        case "draining":
            return f"corral nodes resume {node.name}"
        case "offline":
            return f"start its worker again on that machine, or: corral nodes remove {node.name}"
        case "unhealthy":
            return "see with `corral cluster` whether NATS is up, then look at the worker's log on that machine"
        case _ if node.proposed_labels:
            return f"corral nodes approve-labels {node.name}"
        case _:
            return None


def event_line(event: EventOut) -> str:
    """One event as one line."""
    name = str(event.data.get("name") or event.data.get("node") or event.key)
    others = {key: str(value) for key, value in event.data.items() if key not in {"name", "node"}}
    line = f"{render.moment(event.at)}  {event.kind}  {name}"
    return render.clean(f"{line}  {render.pairs_text(others)}" if others else line)
