"""Reads and writes a whole fleet as one file: models, rules, labels and limits of nodes, galleries, agents, tasks, MCP
servers; kept in git.

    models:    [{name: chat, backend: llama-cpp, …}]
    rules:     [{model: chat, min_replicas: 1}]
    nodes:     {gpu-a: {labels: {zone: b}}}              the admin's labels of a node, exactly these
               {gpu-a: {max_replicas_per_model: 4, vram_budget: 80%}}    the admin's limits; without one it stays
    galleries: {models: [{name: ours, url: https://…}], backends: []}
    mcp_servers: [{name: time, command: uvx, args: [mcp-server-time]}]
    agents:    [{name: clock, model: chat, mcp_stdio_servers: [time]}]
    tasks:     [{name: greet, model: chat, prompt: "Greet {{ name }}."}]

Agents, tasks and MCP servers are kept as they are written, with a name each: their flows know what they mean.
Guarantee: `to_mapping` of what is in the registry reads back to the same, so applying an export changes nothing.
Limit: addresses of galleries with a password are refused, because an export would tell it; they belong in the settings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from corral.domain.backend import BUILT_IN_GALLERY, Gallery
from corral.domain.errors import InvalidRequest
from corral.domain.model import ModelConfig
from corral.domain.replica import Rule
from corral.policy.budget import parse_budget
from corral.policy.labels import check_labels
from corral.policy.models import configuration, rules
from corral.policy.models.mapping_reader import MappingReader

CODE = "bad_fleet_file"
KINDS = ("backends", "models")
ITEMS_MAX = 10_000
# The limits of a node, as the API calls them.
SLOTS, BUDGET = "max_replicas_per_model", "vram_budget"
LIMITS = (SLOTS, BUDGET)
# Sections whose entries other flows read.
NAMED_SECTIONS = ("mcp_servers", "agents", "tasks")
SLOTS_MAX = 1024
_GALLERY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetFile:
    """Parsed fleet file, which describes a cluster's models, rules, labels and galleries in one document."""

    models: tuple[ModelConfig, ...] = ()
    rules: tuple[Rule, ...] = ()
    # The admin's labels by a node's name.
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    # The admin's values of `LIMITS` by a node's name.
    limits: Mapping[str, Mapping[str, int | str]] = field(default_factory=dict)
    # Galleries by kind.
    galleries: Mapping[str, tuple[Gallery, ...]] = field(default_factory=dict)
    # Entries by name, in the form of the API. Secrets are references.
    mcp_servers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    agents: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    tasks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def from_mapping(value: object) -> FleetFile:
    reader = MappingReader({} if value is None or value == [] else value, "The file", CODE)
    reader.check_keys(("models", "rules", "nodes", "galleries", *NAMED_SECTIONS))
    models = tuple(configuration.from_mapping(item) for item in _read_list(reader, "models", "name"))
    ruled = tuple(rules.from_mapping(item) for item in _read_list(reader, "rules", "model"))
    _check_names(reader, models)
    _check_unique(reader, "rules", [rule.model for rule in ruled])
    return FleetFile(
        models=models,
        rules=ruled,
        labels=_parse_labels(reader),
        limits=_parse_limits(reader),
        galleries=_parse_galleries(reader),
        mcp_servers=_parse_named(reader, "mcp_servers"),
        agents=_parse_named(reader, "agents"),
        tasks=_parse_named(reader, "tasks"),
    )


def to_mapping(fleet: FleetFile) -> dict[str, Any]:
    """Return the fleet as it is written; empty sections are left out."""
    written: dict[str, Any] = {
        "galleries": {
            kind: [_gallery_mapping(one) for one in fleet.galleries.get(kind, ())]
            for kind in KINDS
            if fleet.galleries.get(kind)
        },
        "nodes": {name: _make_node_mapping(fleet, name) for name in sorted(fleet.labels.keys() | fleet.limits.keys())},
        "models": [configuration.to_mapping(model) for model in sorted(fleet.models, key=lambda one: one.name)],
        "rules": [rules.to_mapping(rule) for rule in sorted(fleet.rules, key=lambda one: one.model)],
        "mcp_servers": _list_named(fleet.mcp_servers),
        "agents": _list_named(fleet.agents),
        "tasks": _list_named(fleet.tasks),
    }
    return {key: value for key, value in written.items() if value}


def _make_node_mapping(fleet: FleetFile, name: str) -> dict[str, Any]:
    labels = {"labels": dict(sorted(fleet.labels[name].items()))} if name in fleet.labels else {}
    return {**labels, **fleet.limits.get(name, {})}


def _read_list(reader: MappingReader, key: str, name_key: str) -> Sequence[Any]:
    """Read a list, or a mapping from names to the rest."""
    found = reader.value.get(key)
    if isinstance(found, Mapping):
        items: Sequence[Any] = [
            {name_key: name, **item} if isinstance(item, Mapping) else item for name, item in found.items()
        ]
    else:
        items = reader.read_items(key)
    if len(items) > ITEMS_MAX:
        raise reader.make_error(f"{key} has more than {ITEMS_MAX} items")
    return items


def _parse_named(reader: MappingReader, key: str) -> dict[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    for item in _read_list(reader, key, "name"):
        entry = MappingReader(item, reader.describe_place(key), CODE)
        name = entry.read_text("name", required=True).strip()
        if name in found:
            raise reader.make_error(f"{key} has the name {name!r} twice")
        found[name] = {**entry.value, "name": name}
    return found


def _list_named(entries: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{"name": name} | dict(entry) for name, entry in sorted(entries.items())]


def _check_names(reader: MappingReader, models: Sequence[ModelConfig]) -> None:
    _check_unique(reader, "models", [name for model in models for name in (model.name, *model.aliases)])


def _check_unique(reader: MappingReader, key: str, names: Sequence[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise reader.make_error(f"{key} has the name {name!r} twice")
        seen.add(name)


def _parse_labels(reader: MappingReader) -> dict[str, dict[str, str]]:
    nodes = reader.read_inner("nodes")
    found: dict[str, dict[str, str]] = {}
    for name in nodes.value:
        node = nodes.read_inner(name)
        node.check_keys(("labels", *LIMITS))
        if node.value and "labels" not in node.value:
            # The node is listed for its limits.
            continue
        labels = dict(node.read_inner("labels").value)
        for key, value in labels.items():
            if not isinstance(value, str):
                raise node.make_error(f"the label {key[:60]} is not a text; put it in quotes")
        try:
            check_labels(labels)
        except InvalidRequest as error:
            raise node.make_error(error.message.rstrip("."), error.hint) from error
        found[name] = labels
    return found


def _parse_limits(reader: MappingReader) -> dict[str, dict[str, int | str]]:
    nodes = reader.read_inner("nodes")
    found: dict[str, dict[str, int | str]] = {}
    for name in nodes.value:
        node = nodes.read_inner(name)
        limits: dict[str, int | str] = {}
        slots = node.read_integer(SLOTS, least=1, most=SLOTS_MAX)
        if slots is not None:
            limits[SLOTS] = slots
        if node.value.get(BUDGET) is not None:
            limits[BUDGET] = _parse_budget(node)
        if limits:
            found[name] = limits
    return found


def _parse_budget(node: MappingReader) -> str:
    budget = node.read_text(BUDGET, longest=64).strip()
    try:
        parse_budget(budget)
    except InvalidRequest as error:
        raise node.make_error(f"{BUDGET}: {error.message.rstrip('.')}", error.hint) from error
    return budget


def _parse_galleries(reader: MappingReader) -> dict[str, tuple[Gallery, ...]]:
    kinds = reader.read_inner("galleries")
    kinds.check_keys(KINDS)
    found = {}
    for kind in KINDS:
        galleries = tuple(_gallery(kinds, kind, item) for item in kinds.read_items(kind))
        _check_unique(kinds, kind, [one.name.lower() for one in galleries])
        if galleries:
            found[kind] = galleries
    return found


def _gallery(outer: MappingReader, kind: str, item: object) -> Gallery:
    reader = MappingReader(item, outer.describe_place(kind), CODE)
    reader.check_keys(("name", "url", "mirrors"))
    name = reader.read_text("name", required=True)
    if not _GALLERY_NAME.fullmatch(name) or name.lower() == BUILT_IN_GALLERY:
        raise reader.make_error(
            f"{name[:60]!r} is not a name for a gallery", "One plain word, not that of the built-in one."
        )
    url, mirrors = reader.read_text("url", required=True), reader.read_texts("mirrors")
    for address in (url, *mirrors):
        _check_address(reader, address)
    return Gallery(name=name, url=url, mirrors=mirrors)


def _check_address(reader: MappingReader, address: str) -> None:
    try:
        parsed = urlsplit(address)
        is_web = parsed.scheme in ("http", "https") and bool(parsed.hostname)
    except ValueError:
        is_web = False
    if not is_web:
        raise reader.make_error("an address of a gallery begins with http:// or https://")
    if parsed.username or parsed.password or parsed.query:
        raise reader.make_error(
            "the address holds a secret", "Configure such a gallery in the settings of the frontends."
        )


def _gallery_mapping(gallery: Gallery) -> dict[str, Any]:
    return {"name": gallery.name, "url": gallery.url} | ({"mirrors": list(gallery.mirrors)} if gallery.mirrors else {})
