"""What a snapshot holds, as plain data and back: for a file, with the keys of engines in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from corral.domain.node import NodeId
from corral.domain.replica import Replica, ReplicaState
from corral.policy.serving.routing import Place
from corral.store.models import facts_of
from corral.store.use import Served

_OF_REPLICA = ("id", "node_id", "model", "index", "address", "revision", "engine_key", "backend")
_OF_PLACE = ("id", "name", "is_open", "free_bytes")
_OF_SERVED = (
    "name", "run_hash", "is_enabled", "backend", "parallel", "route_policy", "takes_tools", "has_projector",
    "size_bytes",
)  # fmt: skip


def written(places: Iterable[Place], served: Iterable[Served], loaded: Iterable[Replica]) -> dict[str, Any]:
    return {
        "places": [_fields(place, _OF_PLACE) | {"labels": dict(place.labels)} for place in places],
        "models": [_written_model(model) for model in served],
        "replicas": [_fields(replica, _OF_REPLICA) for replica in loaded],
    }


def read(kept: Mapping[str, Any]) -> tuple[list[Place], list[Served], list[Replica]]:
    """What `written` wrote. `LookupError`, `TypeError` or `ValueError` if it is something else."""
    places = [Place(**one | {"id": NodeId(one["id"]), "labels": dict(one["labels"])}) for one in kept["places"]]
    served = [_read_model(one) for one in kept["models"]]
    replicas = [
        Replica(**one | {"node_id": NodeId(one["node_id"]), "state": ReplicaState.LOADED}) for one in kept["replicas"]
    ]
    return places, served, replicas


def _fields(value: object, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names}


def _written_model(model: Served) -> dict[str, Any]:
    return _fields(model, _OF_SERVED) | {
        "names": list(model.names),
        "serves": list(model.serves),
        "defaults": dict(model.defaults),
        "selector": dict(model.selector),
        "created_at": model.created_at.isoformat(),
        "facts": None if model.facts is None else asdict(model.facts),
    }


def _read_model(one: Mapping[str, Any]) -> Served:
    changed = {
        "names": tuple(one["names"]),
        "serves": tuple(one["serves"]),
        "created_at": datetime.fromisoformat(one["created_at"]),
        "facts": facts_of(one.get("facts")),
    }
    return Served(**{**one, **changed})
