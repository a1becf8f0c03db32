"""Formats nodes as text: the list, one node in full, and what to do next about a node."""

from __future__ import annotations

from datetime import datetime

from corral.cli import render
from corral.domain.state_words import NODE_WORDS, find_word
from corral.wire.live import EventOut
from corral.wire.nodes import GpuReport, NodeOut

# Facts about engines. An agent node runs none, so these are left out for it.
_ENGINE_FACTS = frozenset({"Capability", "Threads", "VRAM", "VRAM budget", "Slots", "Models"})
LIST_HEADERS = ("NAME", "STATUS", "TYPE", "CAPABILITY", "VRAM", "RAM", "DISK", "SLOTS", "LABELS", "HEARTBEAT", "AGE")


def format_node_list(nodes: list[NodeOut], now: datetime, *, colour: bool) -> str:
    return render.format_table(LIST_HEADERS, [_make_row(node, now) for node in nodes], colour=colour)


def _make_row(node: NodeOut, now: datetime) -> list[str]:
    return [
        node.name,
        find_word(NODE_WORDS, node.status),
        node.node_type,
        render.NONE if _is_agent(node) else node.capability or render.NONE,
        render.NONE if _is_agent(node) else render.format_free(node.available_vram, node.total_vram),
        render.format_free(node.available_ram, node.total_ram),
        render.format_free(node.available_disk, node.total_disk),
        render.NONE if _is_agent(node) else str(node.max_replicas_per_model),
        _format_labels(node, with_automatic=False),
        f"{render.format_age(node.last_heartbeat, now)} ago" if node.last_heartbeat else "never",
        render.format_age(node.created_at, now),
    ]


def _is_agent(node: NodeOut) -> bool:
    """Return whether the node runs agents only: then it has no replicas, no VRAM budget and no slots."""
    return node.node_type == "agent"


def format_node(node: NodeOut, now: datetime, *, colour: bool) -> str:
    parts = [render.format_facts(_collect_facts(node, now))]
    if node.gpus:
        rows = [_make_gpu_row(gpu) for gpu in node.gpus]
        parts.append(render.format_table(("GPU", "NAME", "VRAM", "COMPUTE", "DRIVER"), rows))
    conditions = [
        [item.name, render.format_yes_no(item.holds), render.format_age(item.since, now), item.reason]
        for item in node.conditions
    ]
    parts.append(render.format_table(("CONDITION", "HOLDS", "SINCE", "REASON"), conditions, colour=colour))
    step = describe_next_step(node)
    if step:
        parts.append(f"Next: {render.clean_text(step)}\n")
    return "\n".join(parts)


def _collect_facts(node: NodeOut, now: datetime) -> dict[str, str]:
    budget = node.vram_budget or "no limit"
    if node.vram_budget and node.vram_budget_bytes is not None:
        budget += f" ({render.format_size(node.vram_budget_bytes)})"
    heartbeat = f"{render.format_age(node.last_heartbeat, now)} ago" if node.last_heartbeat else "never"
    facts = {
        "Name": node.name,
        "Id": node.id,
        "Status": f"{find_word(NODE_WORDS, node.status)}: {node.status_reason}",
        "Takes work": render.format_yes_no(node.schedulable),
        "Type": node.node_type,
        "Capability": node.capability or render.NONE,
        "Address": f"{node.address}. {node.address_note}" if node.address_note else node.address,
        "Worker": f"version {node.version or 'unknown'}, boot {node.boot_id}, {node.http_address or 'no port'}",
        "System": " ".join(filter(None, (node.system, node.architecture))),
        "Processor": _format_processor(node),
        "Threads": _format_threads(node),
        "RAM": f"{render.format_free(node.available_ram, node.total_ram)} free",
        "VRAM": _format_vram(node),
        "VRAM budget": f"{budget}, {_describe_setter(is_manual=node.vram_budget_manually_set)}",
        "Disk": f"{render.format_free(node.available_disk, node.total_disk)} free",
        "Slots": f"{node.max_replicas_per_model} per model, "
        f"{_describe_setter(is_manual=node.max_replicas_per_model_manually_set)}",
        **_format_runs(node),
        "Models": f"{node.model_count}, {node.in_flight_count} requests in flight",
        "Labels": _format_labels(node, with_automatic=True),
        **({"Not approved": render.format_pairs(node.proposed_labels)} if node.proposed_labels else {}),
        "Heartbeat": heartbeat,
        "Registered": f"{render.format_age(node.created_at, now)} ago ({render.format_time(node.created_at)})",
    }
    return {name: text for name, text in facts.items() if name not in _ENGINE_FACTS} if _is_agent(node) else facts


def _format_runs(node: NodeOut) -> dict[str, str]:
    if node.max_runs:
        return {"Runs": f"up to {node.max_runs} at the same time"}
    return {"Runs": "none (--max-runs 0, or modules are missing: see the worker's log)"} if _is_agent(node) else {}


def _format_processor(node: NodeOut) -> str:
    if node.cpu_cores is None and node.cpu_threads is None:
        return render.NONE
    return f"{node.cpu_cores or '?'} cores, {node.cpu_threads or '?'} threads"


def _format_threads(node: NodeOut) -> str:
    if node.cpu_threads is None:
        return f"{node.held_threads} in use"
    return f"{node.held_threads} of {node.cpu_threads} threads in use"


def _format_vram(node: NodeOut) -> str:
    if node.total_vram is None:
        return "none or unknown"
    text = f"{render.format_free(node.available_vram, node.total_vram)} free"
    if node.reserved_vram:
        text += f", {render.format_size(node.reserved_vram)} reserved"
    return f"{text}, shared with RAM" if node.unified_memory else text


def _describe_setter(*, is_manual: bool) -> str:
    return "set by an admin" if is_manual else "as the worker reports"


def _format_labels(node: NodeOut, *, with_automatic: bool) -> str:
    kept = {key: value for key, value in node.labels.items() if with_automatic or node.label_sources.get(key) != "auto"}
    return render.format_pairs(kept)


def _make_gpu_row(gpu: GpuReport) -> list[str]:
    return [
        str(gpu.index),
        gpu.name or gpu.vendor,
        render.format_free(gpu.available_vram, gpu.total_vram),
        gpu.compute_capability or render.NONE,
        gpu.driver or render.NONE,
    ]


def describe_next_step(node: NodeOut) -> str | None:
    """Return what an admin can do about the state of the node; None if the node is healthy."""
    match node.status:
        case "pending":
            return f"corral nodes approve {node.name}"
        case "draining":
            return f"corral nodes resume {node.name}"
        case "offline":
            return f"start its worker again on that machine, or: corral nodes remove {node.name}"
        case "unhealthy":
            return "check with `corral cluster` that NATS is up, then read the worker's log on that machine"
        case _ if node.proposed_labels:
            return f"corral nodes approve-labels {node.name}"
        case _:
            return None


def format_event_line(event: EventOut) -> str:
    """Return an event as one line."""
    name = str(event.data.get("name") or event.data.get("node") or event.key)
    others = {key: str(value) for key, value in event.data.items() if key not in {"name", "node"}}
    line = f"{render.format_time(event.at)}  {event.kind}  {name}"
    return render.clean_text(f"{line}  {render.format_pairs(others)}" if others else line)
