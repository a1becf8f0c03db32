"""Formats models, gallery entries, revisions and rules as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from corral.cli import render
from corral.domain.state_words import REPLICA_WORDS, find_word
from corral.wire.loads import LoadPlanOut
from corral.wire.models import (
    GalleryModelOut,
    ModelOut,
    ModelPlanOut,
    ModelReplicaOut,
    RevisionOut,
    RuleOut,
    VariantsOut,
)

DESCRIPTION_MAX = 60
TAGS_SHOWN = 4


def format_model_list(models: Sequence[ModelOut], now: datetime, *, colour: bool) -> str:
    rows = [
        [
            model.name,
            model.backend,
            describe_state(model),
            ",".join(sorted({replica.node_name for replica in model.replicas if replica.state == "loaded"}))
            or render.NONE,
            format_size(model),
            str(model.revision),
            f"{render.format_age(model.updated_at, now)} ago",
        ]
        for model in models
    ]
    headers = ("MODEL", "BACKEND", "STATE", "NODES", "SIZE", "REVISION", "CHANGED")
    return render.format_table(headers, rows, colour=colour)


def describe_state(model: ModelOut) -> str:
    """Return the states of the replicas with their counts, or why the model has none."""
    counts = Counter(replica.state for replica in model.replicas)
    words = [
        f"{counts[state]} {REPLICA_WORDS[state]}" if counts[state] > 1 or len(counts) > 1 else REPLICA_WORDS[state]
        for state in ("loaded", "loading", "staging", "unloading")
        if counts[state]
    ]
    if not model.enabled:
        words.insert(0, "disabled")
    if model.pinned:
        words.append("pinned")
    if model.load_error and model.enabled and not counts:
        words.insert(0, "load failed")
    return ", ".join(words) or ("not downloaded" if model.files is None else "idle")


def format_size(model: ModelOut) -> str:
    return render.format_size(model.payload_bytes) if model.files else render.NONE


def format_model(model: ModelOut, now: datetime, *, colour: bool) -> str:
    config = model.config
    facts = {
        "Name": model.name,
        "Also called": ", ".join(model.aliases),
        "Description": " ".join(model.description.split()),
        "State": describe_state(model),
        "Last load": f"failed {render.format_age(model.load_failed_at, now)} ago: {model.load_error}"
        if model.load_error and model.load_failed_at
        else "",
        "Backend": model.backend,
        "Adapter of": model.base,
        "Adapters": ", ".join(model.adapters),
        "Options": _format_pairs(config.get("options")),
        "Defaults": _format_pairs(config.get("defaults")),
        "Serves": ", ".join(config.get("serves", ())),
        "From": model.gallery + (f", variant {model.variant}" if model.variant else ""),
        "Made from": _describe_provenance(model),
        "Revision": f"{model.revision}, {render.format_age(model.updated_at, now)} ago",
        "Size": format_size(model) if model.files else "",
        "Headers": _describe_facts(model.facts or {}),
        "Rule": f"corral rules show {model.name}" if model.has_rule else "",
    }
    parts = [render.format_facts({name: value for name, value in facts.items() if value})]
    files = _make_file_rows(model)
    if files:
        parts.append(render.format_table(("FILE", "SIZE", "SHA256 OR SOURCE"), files, colour=colour))
    if model.replicas:
        rows = [_make_replica_row(replica, now) for replica in model.replicas]
        headers = ("NODE", "REPLICA", "STATE", "ADDRESS", "IN FLIGHT", "MEMORY", "LAST USED", "NOTE")
        parts.append(render.format_table(headers, rows, colour=colour))
    parts.append(render.clean_text(describe_next_step(model)) + "\n")
    return "\n".join(parts)


def _describe_provenance(model: ModelOut) -> str:
    """Return what a quantisation has made a model from; empty for other models."""
    made = model.provenance
    if made is None:
        return ""
    before = ", ".join(made.source_types)
    again = "; requantised: the weights had been quantised before" if made.is_requantized else ""
    return f"{made.model} ({before}) as {made.weight_type} by {made.tool}{again}"


def _make_file_rows(model: ModelOut) -> list[list[str]]:
    if model.files:
        return [[file.path, render.format_size(file.size_bytes), file.sha256] for file in model.files]
    return [
        [file.get("path") or "all", render.NONE, file.get("uri") or f"{len(file.get('parts', ()))} parts"]
        for file in model.config.get("files", ())
    ]


def _make_replica_row(replica: ModelReplicaOut, now: datetime) -> list[str]:
    memory = replica.vram_bytes or replica.ram_bytes
    note = replica.stop_problem or replica.stop_reason or ("" if replica.is_current else "from an older revision")
    return [
        replica.node_name,
        str(replica.index),
        find_word(REPLICA_WORDS, replica.state),
        replica.address,
        str(replica.in_flight),
        render.format_size(memory),
        f"{render.format_age(replica.last_used_at, now)} ago" if replica.last_used_at else render.NONE,
        " ".join(note.split()),
    ]


def _describe_facts(facts: dict[str, Any]) -> str:
    words = [
        str(facts.get("architecture") or ""),
        f"{facts['parameters'] / 1e6:.0f}M parameters" if facts.get("parameters") else "",
        str(facts.get("quantisation") or ""),
        f"{facts['layers']} layers" if facts.get("layers") else "",
        f"context {facts['context_length']}" if facts.get("context_length") else "",
        {"True": "tool calls", "False": "no tool calls"}.get(str(facts.get("takes_tools")), ""),
    ]
    return ", ".join(word for word in words if word)


def _format_pairs(value: object) -> str:
    return ", ".join(f"{key}={item}" for key, item in value.items()) if isinstance(value, dict) else ""


def describe_next_step(model: ModelOut) -> str:
    if not model.enabled:
        return f"Next: corral models enable {model.name}"
    if any(replica.state == "loaded" for replica in model.replicas):
        return f'Next: corral run {model.name} "Hello"'
    if any(replica.state in ("staging", "loading") for replica in model.replicas):
        return "The model is being loaded: corral operations watch"
    return f"Next: corral models load {model.name}"


def format_entry_list(entries: Sequence[GalleryModelOut], *, colour: bool) -> str:
    rows = [
        [
            entry.name + (" *" if entry.has_variants else ""),
            render.format_size(entry.size_bytes) if entry.size_bytes else render.NONE,
            entry.backend,
            ",".join(entry.serves[:TAGS_SHOWN]),
            ",".join(entry.models) or render.NONE,
            entry.license,
            _shorten(entry.description),
        ]
        for entry in entries
    ]
    headers = ("NAME", "SIZE", "BACKEND", "SERVES", "MODELS", "LICENSE", "DESCRIPTION")
    return render.format_table(headers, rows, colour=colour)


def format_install_plan(plan: ModelPlanOut) -> str:
    facts = {
        "Model": plan.name,
        "Variant": plan.variant,
        "Backend": plan.backend,
        "Fetches": "an unknown amount" if plan.size_bytes is None else f"about {render.format_size(plan.size_bytes)}",
    }
    lines = [render.format_facts({name: value for name, value in facts.items() if value})]
    return "\n".join([*lines, *(render.clean_text(line) for line in plan.changes)])


def format_load_plan(plan: LoadPlanOut, *, colour: bool) -> str:
    """Return the nodes of a load plan, the models it would evict, other nodes that fit, and why the rest do not."""
    parts = []
    if plan.choices:
        rows = [
            [
                one.node_name,
                str(one.index),
                f"{one.backend} {one.version}" + (" (to be installed)" if one.installs_backend else ""),
                "unknown" if one.fetch_bytes is None else render.format_size(one.fetch_bytes),
                render.format_size(one.vram_bytes or one.ram_bytes),
                str(one.threads),
                f"{one.ready_s:.0f}s",
            ]
            for one in plan.choices
        ]
        headers = ("NODE", "REPLICA", "ENGINE", "FETCHES", "MEMORY", "THREADS", "READY IN")
        parts.append(render.format_table(headers, rows, colour=colour))
    names = {one.node_id: one.node_name for one in plan.others} | {one.node_id: one.node_name for one in plan.choices}
    if plan.evicts:
        rows = [[one.model, str(one.index), names.get(one.node_id, one.node_id)] for one in plan.evicts]
        parts.append(render.format_table(("EVICTS", "REPLICA", "NODE"), rows, colour=colour))
    chosen = {one.node_id for one in plan.choices}
    others = [[one.node_name, f"{one.cost_s:.1f}s"] for one in plan.others if one.node_id not in chosen]
    if others:
        parts.append(render.format_table(("ALSO FITS", "COST"), others, colour=colour))
    if plan.refused:
        rows = [[one.node_name, one.sentence] for one in plan.refused]
        parts.append(render.format_table(("NOT ON", "BECAUSE"), rows, colour=colour))
    return "\n".join(parts)


def format_variant_list(variants: VariantsOut, *, colour: bool) -> str:
    rows = [
        [
            one.model + (" (chosen)" if one.model == variants.auto_selected else ""),
            one.backend,
            render.format_size(one.memory_bytes),
            render.format_yes_no(one.fits),
            one.reason,
        ]
        for one in variants.variants
    ]
    return render.format_table(("VARIANT", "BACKEND", "MEMORY", "FITS", "WHY"), rows, colour=colour)


def format_revision_list(revisions: Sequence[RevisionOut], now: datetime, *, colour: bool) -> str:
    rows = [
        [
            str(one.number),
            f"{render.format_age(one.created_at, now)} ago",
            one.created_by,
            one.note or render.NONE,
            _shorten("; ".join(one.changes)) or render.NONE,
        ]
        for one in revisions
    ]
    return render.format_table(("REVISION", "MADE", "BY", "NOTE", "CHANGES"), rows, colour=colour)


def format_rule_list(rules: Sequence[RuleOut], now: datetime, *, colour: bool) -> str:
    rows = [
        [
            rule.model,
            render.format_pairs(rule.selector) if rule.selector else "any node",
            format_replica_count(rule),
            str(len(rule.windows)) if rule.windows else render.NONE,
            _describe_problem(rule, now),
        ]
        for rule in rules
    ]
    return render.format_table(("MODEL", "NODES", "REPLICAS", "WINDOWS", "NOTE"), rows, colour=colour)


def format_rule(rule: RuleOut, now: datetime, *, colour: bool) -> str:
    facts = {
        "Model": rule.model,
        "Nodes": render.format_pairs(rule.selector) if rule.selector else "any",
        "Replicas": format_replica_count(rule),
        "Routing": rule.route_policy,
        "Time zone": rule.time_zone if rule.windows else "",
        "Note": _describe_problem(rule, now).removeprefix(render.NONE),
        "Warning": " ".join(rule.warnings),
    }
    text = render.format_facts({name: value for name, value in facts.items() if value})
    if rule.windows:
        rows = [
            [
                str(one.get("cron", "")),
                render.format_span(float(one.get("duration", 0))),
                str(one.get("min_replicas", 0)),
                str(one.get("max_replicas", render.NONE)),
            ]
            for one in rule.windows
        ]
        text += "\n" + render.format_table(("BEGINS", "LASTS", "MIN", "MAX"), rows, colour=colour)
    return text


def format_replica_count(rule: RuleOut) -> str:
    if rule.spread_all:
        return "one on each"
    if rule.min_replicas and rule.min_replicas == rule.max_replicas:
        return str(rule.min_replicas)
    if rule.max_replicas:
        return f"{rule.min_replicas} to {rule.max_replicas}"
    return f"{rule.min_replicas} or more" if rule.min_replicas else "on demand"


def _describe_problem(rule: RuleOut, now: datetime) -> str:
    if not rule.model_exists:
        return "no such model yet"
    if rule.unsatisfiable_until is not None and rule.unsatisfiable_until > now:
        return f"cannot be met; retried {render.format_until(rule.unsatisfiable_until, now)}"
    return render.NONE


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= DESCRIPTION_MAX else f"{line[: DESCRIPTION_MAX - 1]}…"
