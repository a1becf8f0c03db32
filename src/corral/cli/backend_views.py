"""Backends as text: what is installed where, what there is, one in full, a plan, processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from corral.cli import render
from corral.domain.errors import InvalidRequest
from corral.wire.backends import (
    CatalogEntryOut,
    CollectedOut,
    GalleryOut,
    InstalledBackendOut,
    InstalledOn,
    LogLineOut,
    PlanOut,
    ProcessOut,
)
from corral.wire.operations import IntentOut

DESCRIPTION_MAX = 60
LARGEST_SHOWN = 2
_OWED = {"present": "install", "replaced": "replace", "absent": "remove", "rolled_back": "roll back"}


def installed_list(
    backends: Sequence[InstalledBackendOut], owed: Sequence[IntentOut], now: datetime, *, colour: bool
) -> str:
    """One line for each backend on each node, and one for each thing that a node still owes."""
    rows = [
        [
            _name(backend),
            place.node_name,
            place.node_status,
            place.version or "unknown",
            _state(backend, place),
            _upgrade(backend, place),
            render.size(place.size_bytes),
            f"{render.age(place.installed_at, now)} ago" if place.installed_at else render.NONE,
        ]
        for backend in backends
        for place in backend.nodes
    ]
    rows += [[one.backend, one.node_name, render.NONE, one.version, _debt(one), *(render.NONE,) * 3] for one in owed]
    rows.sort(key=lambda row: (row[0], row[1]))
    headers = ("BACKEND", "NODE", "STATUS", "VERSION", "STATE", "UPGRADE", "SIZE", "INSTALLED")
    return render.table(headers, rows, colour=colour)


def _name(backend: InstalledBackendOut) -> str:
    """As it was asked for, and what was picked for the hardware."""
    return f"{backend.meta} ({backend.name})" if backend.meta and backend.meta != backend.name else backend.name


def _upgrade(backend: InstalledBackendOut, place: InstalledOn) -> str:
    """Return what this node would get. One that has the newest version, or a newer one, gets nothing."""
    if not place.has_upgrade or backend.is_system:
        return render.NONE
    return place.upgrade_to or "newer image"


def _state(backend: InstalledBackendOut, place: InstalledOn) -> str:
    if backend.is_system:
        return "of the system"
    return "drifts" if place.drifts else "installed"


def _debt(one: IntentOut) -> str:
    word = _OWED.get(one.desired, one.desired)
    if one.state == "dead":
        return f"given up: {word} ({_shortened(one.error)})" if one.error else f"given up: {word}"
    return f"owed: {word}" + (f", {one.attempts} failures" if one.attempts else "")


def owed_list(owed: Sequence[IntentOut], now: datetime, *, colour: bool) -> str:
    rows = [
        [
            one.node_name,
            one.backend,
            _OWED.get(one.desired, one.desired) + (f" {one.version}" if one.version else ""),
            "given up" if one.state == "dead" else one.state,
            str(one.attempts),
            _next_try(one, now),
            one.operation_id,
            _shortened(one.error or "") or render.NONE,
        ]
        for one in owed
    ]
    headers = ("NODE", "BACKEND", "WISH", "STATE", "FAILURES", "NEXT TRY", "OPERATION", "LAST ERROR")
    return render.table(headers, rows, colour=colour)


def _next_try(one: IntentOut, now: datetime) -> str:
    """One without a time waits for its node or for its turn, or is being worked on."""
    if one.state == "dead" or one.next_retry_at is None:
        return render.NONE
    return "now" if one.next_retry_at <= now else render.until(one.next_retry_at, now)


def gallery_list(galleries: Sequence[GalleryOut], now: datetime, *, colour: bool) -> str:
    rows = [
        [
            one.name,
            one.url or "comes with Corral",
            str(one.entries),
            f"{render.age(one.fetched_at, now)} ago" if one.fetched_at else render.NONE,
            " ".join(one.problem.split()) or render.NONE,
        ]
        for one in galleries
    ]
    return render.table(("GALLERY", "URL", "ENTRIES", "FETCHED", "PROBLEM"), rows, colour=colour)


def collected_list(nodes: Mapping[str, CollectedOut], *, colour: bool) -> str:
    """One line for each node, with its largest items."""
    rows = [
        [
            name,
            str(one.count),
            render.size(one.freed_bytes),
            ", ".join(item.name for item in one.items[:LARGEST_SHOWN]) or render.NONE,
        ]
        for name, one in nodes.items()
    ]
    return render.table(("NODE", "ITEMS", "SIZE", "LARGEST"), rows, colour=colour)


def collected_sentence(nodes: Sequence[CollectedOut], *, dry_run: bool) -> str:
    size = render.size(sum(one.freed_bytes for one in nodes))
    where = f"on {len(nodes)} node" + ("s" if len(nodes) != 1 else "")
    return f"{size} {where} would be free. Nothing was done." if dry_run else f"{size} {where} are free again."


def upgrade_hint(backends: Sequence[InstalledBackendOut]) -> str | None:
    """Say what can be upgraded where, or where nodes only differ; None if there is nothing to say."""
    behind = [one for one in backends if any(place.has_upgrade for place in one.nodes) and not one.is_system]
    lines = [f"{one.name}: {one.upgrade_summary}" for one in backends if one.upgrade_summary and not one.is_system]
    if len(behind) == 1:
        name = behind[0].meta or behind[0].name
        lines.append(f"{name} can be upgraded: corral backends upgrade {name}")
    elif behind:
        lines.append(f"{len(behind)} can be upgraded: corral backends upgrade")
    return "\n".join(lines) or None


def catalog_list(entries: Sequence[CatalogEntryOut], *, colour: bool) -> str:
    rows = [
        [
            entry.name,
            entry.version or (entry.versions[0] if entry.versions else render.NONE),
            ",".join(entry.runs_on) or "no present node",
            _where(entry),
            entry.license,
            _shortened(entry.description),
        ]
        for entry in entries
    ]
    return render.table(("NAME", "VERSION", "RUNS ON", "INSTALLED", "LICENSE", "DESCRIPTION"), rows, colour=colour)


def _where(entry: CatalogEntryOut) -> str:
    names = [place.node_name for place in entry.nodes]
    if len(names) > 3:
        return f"{len(names)} nodes"
    return ",".join(names) or render.NONE


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= DESCRIPTION_MAX else f"{line[: DESCRIPTION_MAX - 1]}…"


def is_shown(entry: CatalogEntryOut) -> bool:
    """What a person chooses from: builds stand behind the name that picks among them."""
    return entry.meta_backend_for is None and not entry.is_development


def entry_named(entries: Sequence[CatalogEntryOut], said: str) -> CatalogEntryOut:
    wanted = said.lower()
    for entry in entries:
        if wanted in (entry.id.lower(), entry.name.lower()):
            return entry
    near = ", ".join(entry.name for entry in entries if is_shown(entry))[:200]
    raise InvalidRequest(
        f"No gallery has a backend {said!r}.",
        hint=f"`corral backends search` lists all: {near}" if near else "`corral backends search` lists all.",
        code="backend_not_found",
    )


def entry_in_full(entry: CatalogEntryOut, builds: Sequence[CatalogEntryOut], now: datetime, *, colour: bool) -> str:
    facts = {
        "Name": entry.name,
        "Id": entry.id,
        "Kind": "picks a build for each node's hardware" if entry.is_meta else "one build",
        "Part of": entry.meta_backend_for or "",
        "Description": " ".join(entry.description.split()),
        "License": entry.license,
        "Tags": ", ".join(entry.tags),
        "Links": "  ".join(entry.urls),
        "Versions": ", ".join(entry.versions),
        "Runs on": ", ".join(entry.runs_on) or "no present node",
        "Tested": "no: nobody has run it on the machines that Corral is tested on" if entry.is_unverified else "",
    }
    parts = [render.facts({name: value for name, value in facts.items() if value})]
    if entry.capabilities:
        versions = {build.name: build.versions[0] for build in builds if build.versions}
        rows = [[word, name, versions.get(name, render.NONE)] for word, name in sorted(entry.capabilities.items())]
        parts.append(render.table(("HARDWARE", "BUILD", "VERSION"), rows, colour=colour))
    if entry.nodes:
        places = [
            [place.node_name, place.node_status, place.version, f"{render.age(place.installed_at, now)} ago"]
            for place in entry.nodes
        ]
        parts.append(render.table(("NODE", "STATUS", "VERSION", "INSTALLED"), places, colour=colour))
    else:
        parts.append(f"Next: corral backends install {render.clean(entry.name)}\n")
    return "\n".join(parts)


def plan_text(plan: PlanOut, *, colour: bool) -> str:
    has_waves = any(node.wave for node in plan.nodes)
    rows = [
        [
            *([str(node.wave + 1)] if has_waves else []),
            node.node_name,
            node.node_status,
            "has it" if node.has_it else _OWED.get(node.desired, node.desired),
            node.backend,
            node.version or render.NONE,
            node.previous_version or render.NONE,
            "unknown" if node.fetch_bytes is None else render.size(node.fetch_bytes),
        ]
        for node in plan.nodes
    ]
    headers = (*(("WAVE",) if has_waves else ()), "NODE", "STATUS", "WHAT", "BUILD", "VERSION", "HAS", "FETCHES")
    text = render.table(headers, rows, colour=colour)
    if plan.skipped:
        skipped = [[one.node_name, one.reason] for one in plan.skipped]
        text += "\n" + render.table(("SKIPPED", "REASON"), skipped, colour=colour)
    return text


def plan_sentence(plan: PlanOut) -> str:
    if plan.nodes and all(node.has_it for node in plan.nodes):
        return "Every node of this plan has it already: nothing would change."
    changed = sum(not node.has_it for node in plan.nodes)
    nodes = f"{changed} node" + ("s" if changed != 1 else "")
    if plan.kind == "backend_delete":
        return f"{nodes} would lose it. Nothing was done."
    if plan.kind == "backend_rollback":
        return f"{nodes} would go back to what was there before. Nothing was done."
    fetched = "an unknown amount" if plan.fetch_bytes is None else f"about {render.size(plan.fetch_bytes)}"
    return f"{nodes} would fetch {fetched} in all. Nothing was done."


def process_list(processes: Sequence[ProcessOut], *, colour: bool) -> str:
    rows = [
        [
            one.key,
            one.backend,
            one.version,
            one.state,
            one.address,
            str(one.pid),
            str(one.restarts),
            "" if one.ram_bytes is None else render.size(one.ram_bytes),
            "" if one.cpu_percent is None else f"{one.cpu_percent:.0f} %",
        ]
        for one in processes
    ]
    headers = ("PROCESS", "BACKEND", "VERSION", "STATE", "ADDRESS", "PID", "RESTARTS", "MEMORY", "CPU")
    return render.table(headers, rows, colour=colour)


def log_line(line: LogLineOut) -> str:
    return render.clean(f"{line.at}  {line.stream}  {line.text}", keep="\t")
