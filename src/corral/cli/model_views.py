"""Models, entries of galleries, revisions and rules as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from corral.cli import render
from corral.wire.loads import LoadPlanOut
from corral.wire.models import GalleryModelOut, ModelOut, ModelPlanOut, PlaceOut, RevisionOut, VariantsOut
from corral.wire.rules import RuleOut

DESCRIPTION_MAX = 60
TAGS_SHOWN = 4


def model_list(models: Sequence[ModelOut], now: datetime, *, colour: bool) -> str:
    rows = [
        [
            model.name,
            model.backend,
            state_of(model),
            ",".join(sorted({place.node_name for place in model.replicas if place.state == "loaded"})) or render.NONE,
            size_of(model),
            str(model.revision),
            f"{render.age(model.updated_at, now)} ago",
        ]
        for model in models
    ]
    headers = ("MODEL", "BACKEND", "STATE", "NODES", "SIZE", "REVISION", "CHANGED")
    return render.table(headers, rows, colour=colour)


def state_of(model: ModelOut) -> str:
    """One word if one is enough: what runs, else why nothing does."""
    counts = Counter(place.state for place in model.replicas)
    told = [
        f"{counts[state]} {state}" if counts[state] > 1 or len(counts) > 1 else state
        for state in ("loaded", "loading", "staging", "unloading")
        if counts[state]
    ]
    if not model.enabled:
        told.insert(0, "disabled")
    if model.pinned:
        told.append("pinned")
    if model.load_error and model.enabled and not counts:
        told.insert(0, "load failed")
    return ", ".join(told) or ("not fetched" if model.files is None else "ready to load")


def size_of(model: ModelOut) -> str:
    return render.size(model.payload_bytes) if model.files else render.NONE


def model_in_full(model: ModelOut, now: datetime, *, colour: bool) -> str:
    config = model.config
    facts = {
        "Name": model.name,
        "Also called": ", ".join(model.aliases),
        "Description": " ".join(model.description.split()),
        "State": state_of(model),
        "Last load": f"failed {render.age(model.load_failed_at, now)} ago: {model.load_error}"
        if model.load_error and model.load_failed_at
        else "",
        "Backend": model.backend,
        "Options": _pairs(config.get("options")),
        "Defaults": _pairs(config.get("defaults")),
        "Serves": ", ".join(config.get("serves", ())),
        "From": model.gallery + (f", variant {model.variant}" if model.variant else ""),
        "Revision": f"{model.revision}, {render.age(model.updated_at, now)} ago",
        "Size": size_of(model) if model.files else "",
        "Headers": _headers(model.facts or {}),
        "Rule": f"corral rules show {model.name}" if model.has_rule else "",
    }
    parts = [render.facts({name: value for name, value in facts.items() if value})]
    files = _files(model)
    if files:
        parts.append(render.table(("FILE", "SIZE", "SHA256 OR SOURCE"), files, colour=colour))
    if model.replicas:
        rows = [_place(place, now) for place in model.replicas]
        headers = ("NODE", "REPLICA", "STATE", "ADDRESS", "IN FLIGHT", "MEMORY", "LAST USED", "NOTE")
        parts.append(render.table(headers, rows, colour=colour))
    parts.append(render.clean(next_step(model)) + "\n")
    return "\n".join(parts)


def _files(model: ModelOut) -> list[list[str]]:
    if model.files:
        return [[file.path, render.size(file.size_bytes), file.sha256] for file in model.files]
    return [
        [file.get("path") or "all", render.NONE, file.get("uri") or f"{len(file.get('parts', ()))} parts"]
        for file in model.config.get("files", ())
    ]


def _place(place: PlaceOut, now: datetime) -> list[str]:
    memory = place.vram_bytes or place.ram_bytes
    note = place.stop_problem or place.stop_reason or ("" if place.is_current else "of an older revision")
    return [
        place.node_name,
        str(place.index),
        place.state,
        place.address,
        str(place.in_flight),
        render.size(memory),
        f"{render.age(place.last_used_at, now)} ago" if place.last_used_at else render.NONE,
        " ".join(note.split()),
    ]


def _headers(facts: dict[str, Any]) -> str:
    told = [
        str(facts.get("architecture") or ""),
        f"{facts['parameters'] / 1e6:.0f}M parameters" if facts.get("parameters") else "",
        str(facts.get("quantisation") or ""),
        f"{facts['layers']} layers" if facts.get("layers") else "",
        f"context {facts['context_length']}" if facts.get("context_length") else "",
        {"True": "takes tools", "False": "takes no tools"}.get(str(facts.get("takes_tools")), ""),
    ]
    return ", ".join(word for word in told if word)


def _pairs(value: object) -> str:
    return ", ".join(f"{key}={item}" for key, item in value.items()) if isinstance(value, dict) else ""


def next_step(model: ModelOut) -> str:
    if not model.enabled:
        return f"Next: corral models enable {model.name}"
    if any(place.state == "loaded" for place in model.replicas):
        return f'Next: corral run {model.name} "Hello"'
    if any(place.state in ("staging", "loading") for place in model.replicas):
        return "It is being loaded: corral operations watch"
    return f"Next: corral models load {model.name}"


def entry_list(entries: Sequence[GalleryModelOut], *, colour: bool) -> str:
    rows = [
        [
            entry.name + (" *" if entry.has_variants else ""),
            render.size(entry.size_bytes) if entry.size_bytes else render.NONE,
            entry.backend,
            ",".join(entry.serves[:TAGS_SHOWN]),
            ",".join(entry.models) or render.NONE,
            entry.license,
            _shortened(entry.description),
        ]
        for entry in entries
    ]
    headers = ("NAME", "SIZE", "BACKEND", "SERVES", "MODELS", "LICENSE", "DESCRIPTION")
    return render.table(headers, rows, colour=colour)


def plan_in_full(plan: ModelPlanOut) -> str:
    facts = {
        "Model": plan.name,
        "Variant": plan.variant,
        "Backend": plan.backend,
        "Fetches": "an unknown amount" if plan.size_bytes is None else f"about {render.size(plan.size_bytes)}",
    }
    lines = [render.facts({name: value for name, value in facts.items() if value})]
    return "\n".join([*lines, *(render.clean(line) for line in plan.changes)])


def load_plan(plan: LoadPlanOut, *, colour: bool) -> str:
    """Where it would go, what would have to go for it, where else it would fit, and why not there."""
    parts = []
    if plan.choices:
        rows = [
            [
                one.node_name,
                str(one.index),
                f"{one.backend} {one.version}" + (" (to be installed)" if one.installs_backend else ""),
                "unknown" if one.fetch_bytes is None else render.size(one.fetch_bytes),
                render.size(one.vram_bytes or one.ram_bytes),
                str(one.threads),
                f"{one.ready_s:.0f}s",
            ]
            for one in plan.choices
        ]
        headers = ("NODE", "REPLICA", "ENGINE", "FETCHES", "MEMORY", "THREADS", "READY IN")
        parts.append(render.table(headers, rows, colour=colour))
    names = {one.node_id: one.node_name for one in plan.others} | {one.node_id: one.node_name for one in plan.choices}
    if plan.evicts:
        rows = [[one.model, str(one.index), names.get(one.node_id, one.node_id)] for one in plan.evicts]
        parts.append(render.table(("MAKES ROOM", "REPLICA", "NODE"), rows, colour=colour))
    chosen = {one.node_id for one in plan.choices}
    others = [[one.node_name, f"{one.cost_s:.1f}s"] for one in plan.others if one.node_id not in chosen]
    if others:
        parts.append(render.table(("ALSO FITS", "COST"), others, colour=colour))
    if plan.refused:
        rows = [[one.node_name, one.sentence] for one in plan.refused]
        parts.append(render.table(("NOT ON", "BECAUSE"), rows, colour=colour))
    return "\n".join(parts)


def variant_list(variants: VariantsOut, *, colour: bool) -> str:
    rows = [
        [
            one.model + (" (chosen)" if one.model == variants.auto_selected else ""),
            one.backend,
            render.size(one.memory_bytes),
            render.yes_no(one.fits),
            one.reason,
        ]
        for one in variants.variants
    ]
    return render.table(("VARIANT", "BACKEND", "MEMORY", "FITS", "WHY"), rows, colour=colour)


def revision_list(revisions: Sequence[RevisionOut], now: datetime, *, colour: bool) -> str:
    rows = [
        [
            str(one.number),
            f"{render.age(one.created_at, now)} ago",
            one.created_by,
            one.note or render.NONE,
            _shortened("; ".join(one.changes)) or render.NONE,
        ]
        for one in revisions
    ]
    return render.table(("REVISION", "MADE", "BY", "NOTE", "CHANGES"), rows, colour=colour)


def rule_list(rules: Sequence[RuleOut], now: datetime, *, colour: bool) -> str:
    rows = [
        [
            rule.model,
            render.pairs_text(rule.selector) if rule.selector else "any node",
            count_of(rule),
            str(len(rule.windows)) if rule.windows else render.NONE,
            _trouble(rule, now),
        ]
        for rule in rules
    ]
    return render.table(("MODEL", "NODES", "REPLICAS", "WINDOWS", "NOTE"), rows, colour=colour)


def rule_in_full(rule: RuleOut, now: datetime, *, colour: bool) -> str:
    facts = {
        "Model": rule.model,
        "Nodes": render.pairs_text(rule.selector) if rule.selector else "any",
        "Replicas": count_of(rule),
        "Routing": rule.route_policy,
        "Time zone": rule.time_zone if rule.windows else "",
        "Note": _trouble(rule, now).removeprefix(render.NONE),
        "Warning": " ".join(rule.warnings),
    }
    text = render.facts({name: value for name, value in facts.items() if value})
    if rule.windows:
        rows = [
            [
                str(one.get("cron", "")),
                render.span(float(one.get("duration", 0))),
                str(one.get("min_replicas", 0)),
                str(one.get("max_replicas", render.NONE)),
            ]
            for one in rule.windows
        ]
        text += "\n" + render.table(("BEGINS", "LASTS", "MIN", "MAX"), rows, colour=colour)
    return text


def count_of(rule: RuleOut) -> str:
    if rule.spread_all:
        return "one on each"
    if rule.min_replicas and rule.min_replicas == rule.max_replicas:
        return str(rule.min_replicas)
    if rule.max_replicas:
        return f"{rule.min_replicas} to {rule.max_replicas}"
    return f"{rule.min_replicas} or more" if rule.min_replicas else "as asked for"


def _trouble(rule: RuleOut, now: datetime) -> str:
    if not rule.model_exists:
        return "no such model yet"
    if rule.unsatisfiable_until is not None and rule.unsatisfiable_until > now:
        return f"cannot be met; tried again {render.until(rule.unsatisfiable_until, now)}"
    return render.NONE


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= DESCRIPTION_MAX else f"{line[: DESCRIPTION_MAX - 1]}…"
