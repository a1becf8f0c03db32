"""A whole fleet in one file: models, rules, labels and limits of nodes, galleries; kept in git and applied as one.

    models:    [{name: chat, backend: llama-cpp, …}]
    rules:     [{model: chat, min_replicas: 1}]
    nodes:     {gpu-a: {labels: {zone: b}}}              the admin's labels of a node, exactly these
               {gpu-a: {max_replicas_per_model: 4, vram_budget: 80%}}    the admin's limits; without one it stays
    galleries: {models: [{name: ours, url: https://…}], backends: []}

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
from corral.policy.models.reading import Reader

CODE = "bad_fleet_file"
KINDS = ("backends", "models")
ITEMS_MAX = 10_000
# Of a node, as the API calls them.
SLOTS, BUDGET = "max_replicas_per_model", "vram_budget"
LIMITS = (SLOTS, BUDGET)
SLOTS_MAX = 1024
_GALLERY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetFile:
    models: tuple[ModelConfig, ...] = ()
    rules: tuple[Rule, ...] = ()
    # By a node's name: the admin's labels.
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    # By a node's name: what the admin has set of `LIMITS`.
    limits: Mapping[str, Mapping[str, int | str]] = field(default_factory=dict)
    # By kind.
    galleries: Mapping[str, tuple[Gallery, ...]] = field(default_factory=dict)


def from_mapping(value: object) -> FleetFile:
    reader = Reader({} if value is None or value == [] else value, "The file", CODE)
    reader.allow(("models", "rules", "nodes", "galleries"))
    models = tuple(configuration.from_mapping(item) for item in _listed(reader, "models", "name"))
    ruled = tuple(rules.from_mapping(item) for item in _listed(reader, "rules", "model"))
    _check_names(reader, models)
    _once(reader, "rules", [rule.model for rule in ruled])
    return FleetFile(
        models=models, rules=ruled, labels=_labels(reader), limits=_limits(reader), galleries=_galleries(reader)
    )


def to_mapping(fleet: FleetFile) -> dict[str, Any]:
    """As it is written; what there is none of is left out."""
    written: dict[str, Any] = {
        "galleries": {
            kind: [_gallery_mapping(one) for one in fleet.galleries.get(kind, ())]
            for kind in KINDS
            if fleet.galleries.get(kind)
        },
        "nodes": {name: _node_mapping(fleet, name) for name in sorted(fleet.labels.keys() | fleet.limits.keys())},
        "models": [configuration.to_mapping(model) for model in sorted(fleet.models, key=lambda one: one.name)],
        "rules": [rules.to_mapping(rule) for rule in sorted(fleet.rules, key=lambda one: one.model)],
    }
    return {key: value for key, value in written.items() if value}


def _node_mapping(fleet: FleetFile, name: str) -> dict[str, Any]:
    labels = {"labels": dict(sorted(fleet.labels[name].items()))} if name in fleet.labels else {}
    return {**labels, **fleet.limits.get(name, {})}


def _listed(reader: Reader, key: str, name_key: str) -> Sequence[Any]:
    """A list, or a mapping from names to the rest."""
    found = reader.value.get(key)
    if isinstance(found, Mapping):
        items: Sequence[Any] = [
            {name_key: name, **item} if isinstance(item, Mapping) else item for name, item in found.items()
        ]
    else:
        items = reader.items(key)
    if len(items) > ITEMS_MAX:
        raise reader.wrong(f"{key} has more than {ITEMS_MAX} items")
    return items


def _check_names(reader: Reader, models: Sequence[ModelConfig]) -> None:
    _once(reader, "models", [name for model in models for name in (model.name, *model.aliases)])


def _once(reader: Reader, key: str, names: Sequence[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise reader.wrong(f"{key} has the name {name!r} twice")
        seen.add(name)


def _labels(reader: Reader) -> dict[str, dict[str, str]]:
    nodes = reader.inner("nodes")
    found: dict[str, dict[str, str]] = {}
    for name in nodes.value:
        node = nodes.inner(name)
        node.allow(("labels", *LIMITS))
        if node.value and "labels" not in node.value:
            # It is there for its limits.
            continue
        labels = dict(node.inner("labels").value)
        for key, value in labels.items():
            if not isinstance(value, str):
                raise node.wrong(f"the label {key[:60]} is not a text; put it in quotes")
        try:
            check_labels(labels)
        except InvalidRequest as error:
            raise node.wrong(error.message.rstrip("."), error.hint) from error
        found[name] = labels
    return found


def _limits(reader: Reader) -> dict[str, dict[str, int | str]]:
    nodes = reader.inner("nodes")
    found: dict[str, dict[str, int | str]] = {}
    for name in nodes.value:
        node = nodes.inner(name)
        limits: dict[str, int | str] = {}
        slots = node.whole(SLOTS, least=1, most=SLOTS_MAX)
        if slots is not None:
            limits[SLOTS] = slots
        if node.value.get(BUDGET) is not None:
            limits[BUDGET] = _budget(node)
        if limits:
            found[name] = limits
    return found


def _budget(node: Reader) -> str:
    budget = node.text(BUDGET, longest=64).strip()
    try:
        parse_budget(budget)
    except InvalidRequest as error:
        raise node.wrong(f"{BUDGET}: {error.message.rstrip('.')}", error.hint) from error
    return budget


def _galleries(reader: Reader) -> dict[str, tuple[Gallery, ...]]:
    kinds = reader.inner("galleries")
    kinds.allow(KINDS)
    found = {}
    for kind in KINDS:
        galleries = tuple(_gallery(kinds, kind, item) for item in kinds.items(kind))
        _once(kinds, kind, [one.name.lower() for one in galleries])
        if galleries:
            found[kind] = galleries
    return found


def _gallery(outer: Reader, kind: str, item: object) -> Gallery:
    reader = Reader(item, outer.place(kind), CODE)
    reader.allow(("name", "url", "mirrors"))
    name = reader.text("name", required=True)
    if not _GALLERY_NAME.fullmatch(name) or name.lower() == BUILT_IN_GALLERY:
        raise reader.wrong(
            f"{name[:60]!r} is not a name for a gallery", "One plain word, not that of the built-in one."
        )
    url, mirrors = reader.text("url", required=True), reader.texts("mirrors")
    for address in (url, *mirrors):
        _check_address(reader, address)
    return Gallery(name=name, url=url, mirrors=mirrors)


def _check_address(reader: Reader, address: str) -> None:
    try:
        parsed = urlsplit(address)
        is_web = parsed.scheme in ("http", "https") and bool(parsed.hostname)
    except ValueError:
        is_web = False
    if not is_web:
        raise reader.wrong("an address of a gallery begins with http:// or https://")
    if parsed.username or parsed.password or parsed.query:
        raise reader.wrong("the address holds a secret", "Set such a gallery up in the settings of the frontends.")


def _gallery_mapping(gallery: Gallery) -> dict[str, Any]:
    return {"name": gallery.name, "url": gallery.url} | ({"mirrors": list(gallery.mirrors)} if gallery.mirrors else {})
