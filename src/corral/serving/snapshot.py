"""The snapshot: every model and every loaded replica in memory, so that a warm request costs no query.

It is filled from the registry at start and follows the outbox: an event names what changed, and that is read anew.
Which replicas are open is worked out then, and not at each request (`seats.py`). Guarantee: with PostgreSQL and NATS
away it goes on answering with what it read last, and it never gives out a replica of another revision than the one that
it knows of its model. Limit: it is as old as the last event, about a second at worst; an engine that has gone meanwhile
is found out by calling it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from corral.domain.cluster import Event
from corral.domain.node import Liveness, Node, NodeId, NodeType
from corral.domain.replica import Replica
from corral.policy.serving.routing import Place, is_candidate, why_not
from corral.serving import plain
from corral.serving.seats import Bench, Seats
from corral.store import nodes as node_store
from corral.store import use as use_store
from corral.store.database import Database
from corral.store.use import Served

# Whether somebody may know of a model.
ModelFilter = Callable[[Served], bool]
CLOSE_NAMES_MAX = 3
# How Ollama's clients spell a name without a tag.
LATEST = ":latest"
# Events of nodes about what routing does not look at; many of them come at once when an operation ends.
_ELSEWHERE = frozenset({"node.backends_changed", "node.bus_changed"})
_OF_MODELS = ("model.", "replica.", "rule.")


class Snapshot:
    def __init__(self, database: Database, seats: Seats) -> None:
        self._database = database
        self.seats = seats
        self._models: dict[str, Served] = {}
        self._names: dict[str, str] = {}
        self._replicas: dict[str, tuple[Replica, ...]] = {}
        self._places: dict[NodeId, Place] = {}
        # Readings do not overtake each other: an older one must not bring a removed replica back.
        self._reading = asyncio.Lock()

    async def load(self) -> None:
        """Read everything anew."""
        async with self._reading:
            async with self._database.transaction() as tx:
                nodes = await node_store.list_nodes(tx)
                served = await use_store.list_served(tx)
                loaded = await use_store.list_loaded(tx)
            self._replace([_place(node) for node in nodes], served, loaded)

    async def follow(self, events: Sequence[Event]) -> None:
        nodes = {event.key for event in events if event.kind.startswith("node.") and event.kind not in _ELSEWHERE}
        if nodes:
            await self._reload_places(nodes)
        changed = {event.key for event in events if event.kind.startswith(_OF_MODELS)}
        if changed:
            await self.refresh(changed)

    async def refresh(self, models: Collection[str]) -> None:
        """Read these anew, under whichever of their names; one that is not there is forgotten."""
        async with self._reading:
            wanted = {self._names.get(name, name) for name in models} | set(models)
            async with self._database.transaction() as tx:
                served = await use_store.list_served(tx, wanted)
                wanted |= {model.name for model in served}
                loaded = await use_store.list_loaded(tx, wanted)
            for name in wanted:
                gone = self._models.pop(name, None)
                for known in gone.names if gone else ():
                    if self._names.get(known) == name:
                        del self._names[known]
                self._replicas.pop(name, None)
            self._put(served, loaded)
            self._arrange(wanted)

    def find(self, name: str) -> Served | None:
        """By its name or an alias, with `:latest` behind it or without."""
        model = self._models.get(self._names.get(name, ""))
        if model is None and name.endswith(LATEST):
            model = self._models.get(self._names.get(name.removesuffix(LATEST), ""))
        return model

    def list_models(self) -> list[Served]:
        return sorted(self._models.values(), key=lambda model: model.name)

    def close_names(self, name: str, is_shown: ModelFilter | None = None) -> list[str]:
        """Return names that were perhaps meant, of models that the filter lets be seen."""
        known = {
            spelt.lower(): spelt
            for spelt, model in self._names.items()
            if self._models[model].is_enabled and (is_shown is None or is_shown(self._models[model]))
        }
        return [known[close] for close in get_close_matches(name.lower(), known, CLOSE_NAMES_MAX)]

    def bench(self, model: Served) -> Bench | None:
        """The seats of this revision of the model."""
        bench = self.seats.bench(model.name)
        return bench if bench is not None and bench.model.run_hash == model.run_hash else None

    def open_replicas(self, model: Served) -> list[Replica]:
        """Those that may be given requests now."""
        bench = self.bench(model)
        return [seat.replica for seat in bench.seats] if bench else []

    def left_out(self, model: Served) -> list[tuple[Replica, str]]:
        """Loaded, and not given requests; and why."""
        found = (
            (replica, why_not(replica.revision, model.run_hash, self.place(replica), model.selector))
            for replica in self._replicas.get(model.name, ())
        )
        return [(replica, why) for replica, why in found if why]

    def place(self, replica: Replica) -> Place | None:
        return self._places.get(replica.node_id)

    def replica_ids(self) -> set[str]:
        return {replica.id for replicas in self._replicas.values() for replica in replicas}

    @property
    def has_replicas(self) -> bool:
        return bool(self._replicas)

    def to_kept(self) -> dict[str, Any]:
        """Plain data, keys of engines included."""
        replicas = [replica for found in self._replicas.values() for replica in found]
        return plain.written(self._places.values(), self._models.values(), replicas)

    def from_kept(self, kept: Mapping[str, Any]) -> None:
        """Be as it was. `LookupError`, `TypeError` or `ValueError`: the data are of no use, and nothing has changed."""
        self._replace(*plain.read(kept))

    def _replace(self, places: Sequence[Place], served: Sequence[Served], loaded: Sequence[Replica]) -> None:
        before = set(self._models)
        self._places = {place.id: place for place in places}
        self._models, self._names, self._replicas = {}, {}, {}
        self._put(served, loaded)
        self._arrange(before | set(self._models))

    def _put(self, served: Sequence[Served], loaded: Sequence[Replica]) -> None:
        for model in served:
            self._models[model.name] = model
            self._names.update(dict.fromkeys(model.names, model.name))
        by_model: dict[str, list[Replica]] = {}
        for replica in loaded:
            by_model.setdefault(replica.model, []).append(replica)
        self._replicas.update({name: tuple(found) for name, found in by_model.items()})

    def _arrange(self, names: Collection[str]) -> None:
        """Work out anew which replicas of these models are open."""
        for name in names:
            model = self._models.get(name)
            if model is None:
                self.seats.dismiss(name)
            else:
                self.seats.arrange(model, self._open(model))

    def _open(self, model: Served) -> list[tuple[Replica, Place]]:
        placed = [(replica, self._places.get(replica.node_id)) for replica in self._replicas.get(model.name, ())]
        return [
            (replica, place)
            for replica, place in placed
            if place is not None and is_candidate(replica.revision, model.run_hash, place, model.selector)
        ]

    async def _reload_places(self, node_ids: Collection[str]) -> None:
        async with self._reading:
            async with self._database.transaction() as tx:
                found = {node.id: _place(node) for node in await node_store.list_nodes(tx, only=node_ids)}
            for node_id in map(NodeId, node_ids):
                if node_id in found:
                    self._places[node_id] = found[node_id]
                else:
                    self._places.pop(node_id, None)
            there = set(node_ids)
            self._arrange(
                [name for name, found in self._replicas.items() if any(replica.node_id in there for replica in found)]
            )


def _place(node: Node) -> Place:
    is_drained = node.drained_at is not None or node.self_drained_at is not None
    is_open = node.approved_at is not None and not is_drained and node.liveness is Liveness.ALIVE
    return Place(
        id=node.id,
        name=node.name,
        is_open=is_open and node.type is NodeType.BACKEND,
        labels=node.label_map,
        free_bytes=node.hardware.available_vram or node.hardware.available_ram or 0,
    )
