"""The snapshot: every model and every loaded replica in memory, so that a warm request costs no query.

The snapshot is filled from the registry at start and follows the outbox: an event names what changed, and the changed
rows are read again. Which replicas are open is computed then, and not at each request (`replica_pool.py`). Guarantees:
while PostgreSQL and NATS are down, the snapshot answers with its last state, and it never returns a replica of another
revision than the model's. Limit: it is as old as the last event, about a second at worst; an engine that has stopped
meanwhile is noticed by calling it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from difflib import get_close_matches
from typing import Any

from corral.domain.agent import AGENT_PREFIX
from corral.domain.cluster import OutboxEvent
from corral.domain.node import Liveness, Node, NodeId, NodeType
from corral.domain.replica import Replica, ReplicaState
from corral.gateway.routing.replica_pool import ReplicaPool, ReplicaPools
from corral.policy.serving.routing import RoutableNode, explain_exclusion, is_candidate
from corral.store import nodes as node_store
from corral.store import replica_use as use_store
from corral.store.database import Database
from corral.store.models import parse_facts
from corral.store.replica_use import ServedModel

# Says whether the caller may see a model.
ModelFilter = Callable[[ServedModel], bool]
CLOSE_NAMES_MAX = 3
# Ollama's clients append this to a name without a tag.
LATEST = ":latest"
# Node events that routing ignores; many of them come at once when an operation ends.
_IGNORED_NODE_EVENTS = frozenset({"node.backends_changed", "node.bus_changed"})
_MODEL_EVENTS = ("model.", "replica.", "rule.")
# The fields that are saved of each.
_REPLICA_FIELDS = ("id", "node_id", "model", "index", "address", "revision", "engine_key", "backend")
_NODE_FIELDS = ("id", "name", "is_open", "free_bytes")
_MODEL_FIELDS = (
    "name", "run_hash", "is_enabled", "backend", "parallel", "route_policy", "takes_tools", "has_projector",
    "size_bytes", "has_mcp", "base", "is_attached", "engine_members",
)  # fmt: skip


class RoutingSnapshot:
    """Keeps every model and every loaded replica in a frontend's memory, so that routing a request needs no query.

    Follows the outbox.
    """

    def __init__(self, database: Database, pools: ReplicaPools) -> None:
        self._database = database
        self.pools = pools
        self._models: dict[str, ServedModel] = {}
        self._names: dict[str, str] = {}
        self._replicas: dict[str, tuple[Replica, ...]] = {}
        self._nodes: dict[NodeId, RoutableNode] = {}
        # Reads do not overtake each other: an older one must not bring a removed replica back.
        self._read_lock = asyncio.Lock()

    async def load(self) -> None:
        """Read all models, nodes and replicas from the registry."""
        async with self._read_lock:
            async with self._database.transaction() as tx:
                nodes = await node_store.list_nodes(tx)
                served = await use_store.list_served_models(tx)
                loaded = await use_store.list_loaded_replicas(tx)
            self._replace([_to_routable_node(node) for node in nodes], served, loaded)

    async def follow(self, events: Sequence[OutboxEvent]) -> None:
        nodes = {
            event.key for event in events if event.kind.startswith("node.") and event.kind not in _IGNORED_NODE_EVENTS
        }
        if nodes:
            await self._reload_nodes(nodes)
        changed = {event.key for event in events if event.kind.startswith(_MODEL_EVENTS)}
        if changed:
            await self.refresh(changed)

    async def refresh(self, models: Collection[str]) -> None:
        """Read these models again, by name or alias; one that no longer exists is forgotten."""
        async with self._read_lock:
            names = {self._names.get(name, name) for name in models} | set(models)
            async with self._database.transaction() as tx:
                served = await use_store.list_served_models(tx, names)
                names |= {model.name for model in served}
                loaded = await use_store.list_loaded_replicas(tx, names)
            for name in names:
                removed = self._models.pop(name, None)
                for known in removed.names if removed else ():
                    if self._names.get(known) == name:
                        del self._names[known]
                self._replicas.pop(name, None)
            self._add(served, loaded)
            self._update_pools(names)

    def find(self, name: str) -> ServedModel | None:
        """Return the model with this name or alias, with or without `:latest`."""
        model = self._models.get(self._names.get(name, ""))
        if model is None and name.endswith(LATEST):
            model = self._models.get(self._names.get(name.removesuffix(LATEST), ""))
        return model

    def list_models(self) -> list[ServedModel]:
        return sorted(self._models.values(), key=lambda model: model.name)

    def find_close_names(self, name: str, is_shown: ModelFilter | None = None) -> list[str]:
        """Return similar names of models that the filter shows."""
        known = {
            spelt.lower(): spelt
            for spelt, model in self._names.items()
            if self._models[model].is_enabled and (is_shown is None or is_shown(self._models[model]))
        }
        return [known[close] for close in get_close_matches(name.lower(), known, CLOSE_NAMES_MAX)]

    def find_pool(self, model: ServedModel) -> ReplicaPool | None:
        """Return the replica pool of this revision of the model."""
        pool = self.pools.find_pool(model.pool_name)
        return pool if pool is not None and pool.model.run_hash == model.run_hash else None

    def list_open_replicas(self, model: ServedModel) -> list[Replica]:
        """Return the replicas of the model that are open for requests now."""
        pool = self.find_pool(model)
        return [routable.replica for routable in pool.replicas] if pool else []

    def list_left_out(self, model: ServedModel) -> list[tuple[Replica, str]]:
        """Return the loaded replicas that get no requests, each with the reason."""
        found = (
            (replica, explain_exclusion(replica.revision, model.run_hash, self.find_node(replica), model.selector))
            for replica in self._replicas.get(model.pool_name, ())
        )
        return [(replica, reason) for replica, reason in found if reason]

    def find_node(self, replica: Replica) -> RoutableNode | None:
        return self._nodes.get(replica.node_id)

    def list_replica_ids(self) -> set[str]:
        return {replica.id for replicas in self._replicas.values() for replica in replicas}

    @property
    def has_replicas(self) -> bool:
        return bool(self._replicas)

    def to_saved_state(self) -> dict[str, Any]:
        """Return the snapshot as plain data, including the keys of engines."""
        replicas = [replica for found in self._replicas.values() for replica in found]
        return _encode_snapshot(self._nodes.values(), self._models.values(), replicas)

    def from_saved_state(self, state: Mapping[str, Any]) -> None:
        """Restore the snapshot from plain data. Raises `LookupError`, `TypeError` or `ValueError` if the data is
        invalid; then nothing has changed."""
        self._replace(*_decode_snapshot(state))

    def _replace(self, nodes: Sequence[RoutableNode], served: Sequence[ServedModel], loaded: Sequence[Replica]) -> None:
        previous = set(self._models)
        self._nodes = {node.id: node for node in nodes}
        self._models, self._names, self._replicas = {}, {}, {}
        self._add(served, loaded)
        self._update_pools(previous | set(self._models))

    def _add(self, served: Sequence[ServedModel], loaded: Sequence[Replica]) -> None:
        for model in served:
            self._models[model.name] = model
            self._names.update({name: model.name for name in model.names if not name.startswith(AGENT_PREFIX)})
        by_model: dict[str, list[Replica]] = {}
        for replica in loaded:
            by_model.setdefault(replica.model, []).append(replica)
        self._replicas.update({name: tuple(found) for name, found in by_model.items()})

    def _update_pools(self, names: Collection[str]) -> None:
        """Recompute which replicas of these models are open."""
        for name in names:
            model = self._models.get(name)
            if model is None or model.base:
                # The pool of an adapter is that of its base.
                self.pools.remove_pool(name)
            else:
                self.pools.update_pool(model, self._find_open(model))

    def _find_open(self, model: ServedModel) -> list[tuple[Replica, RoutableNode]]:
        placed = [(replica, self._nodes.get(replica.node_id)) for replica in self._replicas.get(model.name, ())]
        return [
            (replica, node)
            for replica, node in placed
            if node is not None and is_candidate(replica.revision, model.run_hash, node, model.selector)
        ]

    async def _reload_nodes(self, node_ids: Collection[str]) -> None:
        async with self._read_lock:
            async with self._database.transaction() as tx:
                found = {node.id: _to_routable_node(node) for node in await node_store.list_nodes(tx, only=node_ids)}
            for node_id in map(NodeId, node_ids):
                if node_id in found:
                    self._nodes[node_id] = found[node_id]
                else:
                    self._nodes.pop(node_id, None)
            known_ids = set(node_ids)
            self._update_pools(
                [
                    name
                    for name, found in self._replicas.items()
                    if any(replica.node_id in known_ids for replica in found)
                ]
            )


def _to_routable_node(node: Node) -> RoutableNode:
    is_drained = node.drained_at is not None or node.self_drained_at is not None
    is_open = node.approved_at is not None and not is_drained and node.liveness is Liveness.ALIVE
    return RoutableNode(
        id=node.id,
        name=node.name,
        is_open=is_open and node.type is NodeType.BACKEND,
        labels=node.label_map,
        free_bytes=node.hardware.available_vram or node.hardware.available_ram or 0,
    )


def _encode_snapshot(
    nodes: Iterable[RoutableNode], served: Iterable[ServedModel], loaded: Iterable[Replica]
) -> dict[str, Any]:
    return {
        "places": [_read_fields(node, _NODE_FIELDS) | {"labels": dict(node.labels)} for node in nodes],
        "models": [_encode_model(model) for model in served],
        "replicas": [_read_fields(replica, _REPLICA_FIELDS) for replica in loaded],
    }


def _decode_snapshot(state: Mapping[str, Any]) -> tuple[list[RoutableNode], list[ServedModel], list[Replica]]:
    """Decode the data of `_encode_snapshot`. Raises `LookupError`, `TypeError` or `ValueError` if the data is
    invalid."""
    nodes = [RoutableNode(**one | {"id": NodeId(one["id"]), "labels": dict(one["labels"])}) for one in state["places"]]
    served = [_decode_model(one) for one in state["models"]]
    replicas = [
        Replica(**one | {"node_id": NodeId(one["node_id"]), "state": ReplicaState.LOADED}) for one in state["replicas"]
    ]
    return nodes, served, replicas


def _read_fields(value: object, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names}


def _encode_model(model: ServedModel) -> dict[str, Any]:
    return _read_fields(model, _MODEL_FIELDS) | {
        "names": list(model.names),
        "serves": list(model.serves),
        "defaults": dict(model.defaults),
        "selector": dict(model.selector),
        "created_at": model.created_at.isoformat(),
        "facts": None if model.facts is None else asdict(model.facts),
    }


def _decode_model(one: Mapping[str, Any]) -> ServedModel:
    changed = {
        "names": tuple(one["names"]),
        "serves": tuple(one["serves"]),
        "created_at": datetime.fromisoformat(one["created_at"]),
        "facts": parse_facts(one.get("facts")),
    }
    return ServedModel(**{**one, **changed})
