"""`GET /api/live`: what is going on now, for `corral top` and for pages.

Guarantee: it is answered from memory while PostgreSQL is away, and then shows the replicas that requests are given to;
with PostgreSQL it also shows those that are being loaded or unloaded. Limit: rates and times are those of this
frontend; requests in flight and waiting are those of all.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

from fastapi import APIRouter

from corral.api.parts import OperateIn, Parts, PartsIn
from corral.domain.errors import StoreUnavailable
from corral.domain.replica import Replica
from corral.insight.going import Going
from corral.insight.recent import Look, Pace
from corral.serving.snapshot import Snapshot
from corral.store import replicas as replica_store
from corral.store import scaling as scaling_store
from corral.wire.live import LiveModel, LiveOut, LiveReplica, PaceOut

router = APIRouter(tags=["cluster"])
# Whoever looks once a second wants an answer, be it without what PostgreSQL knows.
LOOK_LIMIT_S = 2.0
_STILL = PaceOut()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Registry:
    """What others have written down."""

    replicas: list[Replica]
    waiting: Mapping[str, int]


@router.get("/api/live")
async def live(parts: PartsIn, _: OperateIn) -> LiveOut:
    """Models, replicas, requests and tokens, as of this moment."""
    registry = await _read(parts)
    going = parts.insight.going()
    look = parts.insight.recent.look(going.events)
    models = _models(parts, registry, going, look)
    return LiveOut(
        at=parts.clock.wall(),
        answered_by=parts.frontend_id,
        requests_open=going.requests,
        streams_open=going.streams,
        pace=_pace(look.paces(lambda _: "").get("")),
        degraded=_degraded(parts),
        models=models,
        idle_models=len({model.name for model in _snapshot(parts).list_models()} - {model.name for model in models}),
    )


async def _read(parts: Parts) -> _Registry:
    if parts.health.store is None:
        try:
            async with asyncio.timeout(LOOK_LIMIT_S), parts.database.transaction() as tx:
                return _Registry(
                    replicas=await replica_store.list_replicas(tx), waiting=await scaling_store.list_waiting(tx)
                )
        except (StoreUnavailable, TimeoutError):
            pass  # It has just gone; what is in memory is told instead.
    snapshot = _snapshot(parts)
    known = [replica for model in snapshot.list_models() for replica in snapshot.open_replicas(model)]
    return _Registry(replicas=known, waiting={})


def _snapshot(parts: Parts) -> Snapshot:
    return parts.gateway.router.snapshot


def _models(parts: Parts, registry: _Registry, going: Going, look: Look) -> list[LiveModel]:
    paces = look.paces(lambda place: place.model)
    replicas = _replicas(parts, registry.replicas, look)
    known = {model.name for model in _snapshot(parts).list_models()}
    moving = {name for name, pace in paces.items() if pace.requests_per_s or pace.tokens_per_s}
    names = (replicas.keys() | going.waiting.keys() | registry.waiting.keys() | moving) & known
    shown = [
        LiveModel(
            name=name,
            # The leases have ours as they were up to two seconds ago.
            waiting=max(going.waiting[name], registry.waiting.get(name, 0)),
            in_flight=sum(replica.in_flight for replica in replicas.get(name, ())),
            pace=_pace(paces.get(name)),
            replicas=sorted(replicas.get(name, ()), key=lambda replica: (replica.node, replica.index)),
        )
        for name in names
    ]
    return sorted(shown, key=lambda model: (-model.waiting - model.in_flight, -model.pace.tokens_per_s, model.name))


def _replicas(parts: Parts, replicas: Iterable[Replica], look: Look) -> dict[str, list[LiveReplica]]:
    """By model."""
    paces = look.paces(lambda place: place.replica_id)
    breakers = parts.insight.fleet.breakers()
    nodes = {node.id: node.name for node in parts.directory.list_nodes()}
    shown: defaultdict[str, list[LiveReplica]] = defaultdict(list)
    for replica in replicas:
        breaker = breakers.get(replica.id)
        shown[replica.model].append(
            LiveReplica(
                id=replica.id,
                node=nodes.get(replica.node_id, replica.node_id),
                index=replica.index,
                state=replica.state,
                breaker=breaker.state if breaker else "closed",
                in_flight=parts.gateway.router.use.in_flight(replica.id),
                pace=_pace(paces.get(replica.id)),
            )
        )
    return dict(shown)


def _degraded(parts: Parts) -> list[str]:
    parts.health.saw_bus(is_connected=parts.bus.is_connected)
    return parts.health.sentences(has_leader=parts.leader.is_led)


def _pace(pace: Pace | None) -> PaceOut:
    return _STILL if pace is None else PaceOut.model_validate(asdict(pace))
