"""Formats backends as text: installed ones, the catalog, one backend in full, plans and processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from corral.cli import render
from corral.domain.errors import InvalidRequest
from corral.domain.state_words import CHANGE_WORDS, find_word
from corral.wire.backends import (
    BackendGarbageOut,
    BackendInstallationOut,
    BackendPlanOut,
    CatalogEntryOut,
    EngineLogLineOut,
    EngineProcessOut,
    GalleryOut,
    InstalledBackendOut,
)
from corral.wire.operations import AssignmentOut

DESCRIPTION_MAX = 60
LARGEST_SHOWN = 2
_DRY_RUN = "Dry run: nothing was changed."
_CHANGE_WORDS = {"present": "install", "replaced": "replace", "absent": "remove", "rolled_back": "roll back"}


def format_installed_list(
    backends: Sequence[InstalledBackendOut], assignments: Sequence[AssignmentOut], now: datetime, *, colour: bool
) -> str:
    """Return one line for each backend on each node, and one for each pending change."""
    rows = [
        [
            _format_name(backend),
            installation.node_name,
            installation.node_status,
            installation.version or "unknown",
            _format_state(backend, installation),
            _format_upgrade(backend, installation),
            render.format_size(installation.size_bytes),
            f"{render.format_age(installation.installed_at, now)} ago" if installation.installed_at else render.NONE,
        ]
        for backend in backends
        for installation in backend.nodes
    ]
    rows += [
        [one.backend, one.node_name, render.NONE, one.version, _format_pending_change(one), *(render.NONE,) * 3]
        for one in assignments
    ]
    rows.sort(key=lambda row: (row[0], row[1]))
    headers = ("BACKEND", "NODE", "STATUS", "VERSION", "STATE", "UPGRADE", "SIZE", "INSTALLED")
    return render.format_table(headers, rows, colour=colour)


def _format_name(backend: InstalledBackendOut) -> str:
    """Return the name of the backend, with the build that was picked for the hardware."""
    return f"{backend.meta} ({backend.name})" if backend.meta and backend.meta != backend.name else backend.name


def _format_upgrade(backend: InstalledBackendOut, installation: BackendInstallationOut) -> str:
    """Return the version that this node would get, or a dash if its version is the newest or newer."""
    if not installation.has_upgrade or backend.is_system:
        return render.NONE
    return installation.upgrade_to or "newer image"


def _format_state(backend: InstalledBackendOut, installation: BackendInstallationOut) -> str:
    if backend.is_system:
        return "built in"
    return "drifts" if installation.drifts else "installed"


def _format_pending_change(assignment: AssignmentOut) -> str:
    word = _CHANGE_WORDS.get(assignment.desired, assignment.desired)
    state = find_word(CHANGE_WORDS, assignment.state)
    if assignment.state == "dead":
        return f"{state}: {word} ({_shorten(assignment.error)})" if assignment.error else f"{state}: {word}"
    return f"{state}: {word}" + (f", {assignment.attempts} failures" if assignment.attempts else "")


def format_pending_list(assignments: Sequence[AssignmentOut], now: datetime, *, colour: bool) -> str:
    rows = [
        [
            one.node_name,
            one.backend,
            _CHANGE_WORDS.get(one.desired, one.desired) + (f" {one.version}" if one.version else ""),
            find_word(CHANGE_WORDS, one.state),
            str(one.attempts),
            _format_next_try(one, now),
            one.operation_id,
            _shorten(one.error or "") or render.NONE,
        ]
        for one in assignments
    ]
    headers = ("NODE", "BACKEND", "CHANGE", "STATE", "FAILURES", "NEXT TRY", "OPERATION", "LAST ERROR")
    return render.format_table(headers, rows, colour=colour)


def _format_next_try(assignment: AssignmentOut, now: datetime) -> str:
    """Return when the change is retried. A change without a time waits for its node or its turn, or is running."""
    if assignment.state == "dead" or assignment.next_retry_at is None:
        return render.NONE
    return "now" if assignment.next_retry_at <= now else render.format_until(assignment.next_retry_at, now)


def format_gallery_list(galleries: Sequence[GalleryOut], now: datetime, *, colour: bool) -> str:
    rows = [
        [
            one.name,
            one.url or "comes with Corral",
            str(one.entries),
            f"{render.format_age(one.fetched_at, now)} ago" if one.fetched_at else render.NONE,
            " ".join(one.problem.split()) or render.NONE,
        ]
        for one in galleries
    ]
    return render.format_table(("GALLERY", "URL", "ENTRIES", "FETCHED", "PROBLEM"), rows, colour=colour)


def format_garbage_list(nodes: Mapping[str, BackendGarbageOut], *, colour: bool) -> str:
    """Return one line for each node, with its largest items."""
    rows = [
        [
            name,
            str(one.count),
            render.format_size(one.freed_bytes),
            ", ".join(item.name for item in one.items[:LARGEST_SHOWN]) or render.NONE,
        ]
        for name, one in nodes.items()
    ]
    return render.format_table(("NODE", "ITEMS", "SIZE", "LARGEST"), rows, colour=colour)


def describe_garbage(nodes: Sequence[BackendGarbageOut], *, dry_run: bool) -> str:
    size = render.format_size(sum(one.freed_bytes for one in nodes))
    where = f"on {len(nodes)} node" + ("s" if len(nodes) != 1 else "")
    return (
        f"{size} {where} would be freed. Dry run: nothing was changed. Run it again without `--dry-run` to apply."
        if dry_run
        else f"{size} {where} freed."
    )


def describe_upgrades(backends: Sequence[InstalledBackendOut]) -> str | None:
    """Describe which backends can be upgraded and on which nodes versions differ; None if neither is so."""
    behind = [
        one for one in backends if any(installation.has_upgrade for installation in one.nodes) and not one.is_system
    ]
    lines = [f"{one.name}: {one.upgrade_summary}" for one in backends if one.upgrade_summary and not one.is_system]
    if len(behind) == 1:
        name = behind[0].meta or behind[0].name
        lines.append(f"{name} can be upgraded: corral backends upgrade {name}")
    elif behind:
        lines.append(f"{len(behind)} can be upgraded: corral backends upgrade")
    return "\n".join(lines) or None


def format_catalog_list(entries: Sequence[CatalogEntryOut], *, colour: bool) -> str:
    rows = [
        [
            entry.name,
            entry.version or (entry.versions[0] if entry.versions else render.NONE),
            ",".join(entry.runs_on) or "no current node",
            _format_nodes(entry),
            entry.license,
            _shorten(entry.description),
        ]
        for entry in entries
    ]
    return render.format_table(
        ("NAME", "VERSION", "RUNS ON", "INSTALLED", "LICENSE", "DESCRIPTION"), rows, colour=colour
    )


def _format_nodes(entry: CatalogEntryOut) -> str:
    names = [installation.node_name for installation in entry.nodes]
    if len(names) > 3:
        return f"{len(names)} nodes"
    return ",".join(names) or render.NONE


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= DESCRIPTION_MAX else f"{line[: DESCRIPTION_MAX - 1]}…"


def is_listed_by_default(entry: CatalogEntryOut) -> bool:
    """Return whether the entry is listed without `--all`. Development builds and builds for one hardware are not."""
    return entry.meta_backend_for is None and not entry.is_development


def find_entry(entries: Sequence[CatalogEntryOut], name: str) -> CatalogEntryOut:
    key = name.lower()
    for entry in entries:
        if key in (entry.id.lower(), entry.name.lower()):
            return entry
    near = ", ".join(entry.name for entry in entries if is_listed_by_default(entry))[:200]
    raise InvalidRequest(
        f"No gallery has a backend {name!r}.",
        hint=f"`corral backends search` lists all of them: {near}"
        if near
        else "`corral backends search` lists all of them.",
        code="backend_not_found",
    )


def format_entry(entry: CatalogEntryOut, builds: Sequence[CatalogEntryOut], now: datetime, *, colour: bool) -> str:
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
        "Runs on": ", ".join(entry.runs_on) or "no current node",
        "Tested": "no: it has not been run on the machines that Corral is tested on" if entry.is_unverified else "",
    }
    parts = [render.format_facts({name: value for name, value in facts.items() if value})]
    if entry.capabilities:
        versions = {build.name: build.versions[0] for build in builds if build.versions}
        rows = [[word, name, versions.get(name, render.NONE)] for word, name in sorted(entry.capabilities.items())]
        parts.append(render.format_table(("HARDWARE", "BUILD", "VERSION"), rows, colour=colour))
    if entry.nodes:
        installations = [
            [
                installation.node_name,
                installation.node_status,
                installation.version,
                f"{render.format_age(installation.installed_at, now)} ago",
            ]
            for installation in entry.nodes
        ]
        parts.append(render.format_table(("NODE", "STATUS", "VERSION", "INSTALLED"), installations, colour=colour))
    else:
        parts.append(f"Next: corral backends install {render.clean_text(entry.name)}\n")
    return "\n".join(parts)


def format_plan(plan: BackendPlanOut, *, colour: bool) -> str:
    has_waves = any(node.wave for node in plan.nodes)
    rows = [
        [
            *([str(node.wave + 1)] if has_waves else []),
            node.node_name,
            node.node_status,
            "installed" if node.has_it else _CHANGE_WORDS.get(node.desired, node.desired),
            node.backend,
            node.version or render.NONE,
            node.previous_version or render.NONE,
            "unknown" if node.fetch_bytes is None else render.format_size(node.fetch_bytes),
        ]
        for node in plan.nodes
    ]
    headers = (*(("WAVE",) if has_waves else ()), "NODE", "STATUS", "WHAT", "BUILD", "VERSION", "HAS", "FETCHES")
    text = render.format_table(headers, rows, colour=colour)
    if plan.skipped:
        skipped = [[one.node_name, one.reason] for one in plan.skipped]
        text += "\n" + render.format_table(("SKIPPED", "REASON"), skipped, colour=colour)
    return text


def describe_plan(plan: BackendPlanOut) -> str:
    if plan.nodes and all(node.has_it for node in plan.nodes):
        return "The backend is already installed on every node of this plan: nothing would change."
    changed = sum(not node.has_it for node in plan.nodes)
    nodes = f"{changed} node" + ("s" if changed != 1 else "")
    if plan.kind == "backend_delete":
        return f"{nodes} would remove it. {_DRY_RUN}"
    if plan.kind == "backend_rollback":
        return f"{nodes} would go back to the previous version. {_DRY_RUN}"
    fetched = "an unknown amount" if plan.fetch_bytes is None else f"about {render.format_size(plan.fetch_bytes)}"
    return f"{nodes} would download {fetched} in total. {_DRY_RUN}"


def format_process_list(processes: Sequence[EngineProcessOut], *, colour: bool) -> str:
    rows = [
        [
            one.key,
            one.backend,
            one.version,
            one.state,
            one.address,
            str(one.pid),
            str(one.restarts),
            "" if one.ram_bytes is None else render.format_size(one.ram_bytes),
            "" if one.cpu_percent is None else f"{one.cpu_percent:.0f} %",
        ]
        for one in processes
    ]
    headers = ("PROCESS", "BACKEND", "VERSION", "STATE", "ADDRESS", "PID", "RESTARTS", "MEMORY", "CPU")
    return render.format_table(headers, rows, colour=colour)


def format_log_line(line: EngineLogLineOut) -> str:
    return render.clean_text(f"{line.at}  {line.stream}  {line.text}", keep="\t")
