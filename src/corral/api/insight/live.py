"""`GET /api/live`: what is going on now, for `corral top` and for pages.

Guarantee: it is answered from memory while PostgreSQL is away, and then shows the replicas that requests are given to;
with PostgreSQL it also shows those that are being loaded or unloaded. Numbers are those of all frontends that are heard
of over the bus (`insight/sharing.py`). Limit: of frontends that are not, only the requests in flight and waiting are in
it, as PostgreSQL knows them, and only if nobody at all is heard of.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from fastapi import APIRouter

from corral.api.insight.degraded import degraded
from corral.api.parts import OperateIn, Parts, PartsIn
from corral.domain.errors import StoreUnavailable
from corral.domain.node import NodeId
from corral.domain.replica import Replica
from corral.insight.recent import Flow, Spread
from corral.insight.sharing import Summed
from corral.serving.snapshot import Snapshot
from corral.store import nodes as node_store
from corral.store import replicas as replica_store
from corral.store import scaling as scaling_store
from corral.store.database import Transaction
from corral.wire.live import LiveModel, LiveOut, LiveReplica, PaceOut, SpreadOut

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
    """Models, replicas, requests and tokens, as of this moment, of all frontends."""
    parts.board.sharing.watched()
    return await look(parts)


async def look(parts: Parts) -> LiveOut:
    registry = await _read(parts)
    summed = parts.board.sharing.look()
    models = _models(parts, registry, summed)
    return LiveOut(
        at=parts.clock.wall(),
        answered_by=parts.frontend_id,
        frontends=summed.frontends,
        requests_open=summed.waiting + summed.in_flight,
        streams_open=summed.streams_open,
        pace=_pace(summed.total),
        degraded=degraded(parts),
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


async def busy_nodes(parts: Parts, tx: Transaction) -> Counter[NodeId] | None:
    """The requests in flight at each node, of all frontends; None: some have not told where theirs are."""
    summed = parts.board.sharing.look()
    in_flight = _in_flight(parts, summed)
    # After a time in which nobody has looked, peers tell only how many there are. The next second has the rest.
    if summed.frontends > 1 and summed.in_flight_at.total() < summed.in_flight:
        return None
    busy: Counter[NodeId] = Counter()
    for replica_id, node_id in (await node_store.list_homes(tx)).items():
        busy[node_id] += in_flight(replica_id)
    return busy


def _in_flight(parts: Parts, summed: Summed) -> Callable[[str], int]:
    """By replica. Alone, or without a bus, the others are counted as their leases say; what is being unloaded has no
    seat any more, and may still answer."""
    use = parts.gateway.router.use
    if summed.frontends > 1:
        return summed.in_flight_at.__getitem__
    return lambda replica_id: max(use.in_flight(replica_id), summed.in_flight_at[replica_id])


def _snapshot(parts: Parts) -> Snapshot:
    return parts.gateway.router.snapshot


def _models(parts: Parts, registry: _Registry, summed: Summed) -> list[LiveModel]:
    replicas = _replicas(parts, registry.replicas, summed)
    known = {model.name for model in _snapshot(parts).list_models()}
    # Alone, or without a bus: the leases have what others do, and ours as they were up to two seconds ago.
    waiting = summed.waiting_for if summed.frontends > 1 else summed.waiting_for | Counter(registry.waiting)
    moving = {name for name, flow in summed.by_model.items() if flow.requests_per_s or flow.tokens_per_s}
    shown = [
        LiveModel(
            name=name,
            waiting=waiting[name],
            in_flight=sum(replica.in_flight for replica in replicas.get(name, ())),
            pace=_pace(summed.by_model.get(name)),
            replicas=sorted(replicas.get(name, ()), key=lambda replica: (replica.node, replica.index)),
        )
        for name in (replicas.keys() | +waiting | moving) & known
    ]
    return sorted(shown, key=lambda model: (-model.waiting - model.in_flight, -model.pace.tokens_per_s, model.name))


def _replicas(parts: Parts, replicas: Iterable[Replica], summed: Summed) -> dict[str, list[LiveReplica]]:
    """By model."""
    breakers = parts.insight.fleet.breakers()
    nodes = {node.id: node.name for node in parts.directory.list_nodes()}
    in_flight = _in_flight(parts, summed)
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
                in_flight=in_flight(replica.id),
                pace=_pace(summed.by_replica.get(replica.id)),
            )
        )
    return dict(shown)


def _pace(flow: Flow | None) -> PaceOut:
    if flow is None:
        return _STILL
    pace = flow.pace()
    return PaceOut(
        requests_per_s=round(pace.requests_per_s, 3),
        errors_per_s=round(pace.errors_per_s, 3),
        prompt_tokens_per_s=round(pace.prompt_tokens_per_s, 2),
        tokens_per_s=round(pace.tokens_per_s, 2),
        first_byte_s=_spread(pace.first_byte_s),
        inter_token_s=_spread(pace.inter_token_s),
        queue_s=_spread(pace.queue_s),
    )


def _spread(spread: Spread) -> SpreadOut:
    return SpreadOut(p50=_rounded(spread.p50), p95=_rounded(spread.p95))


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 6)
