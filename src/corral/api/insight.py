"""Routes about requests and settings: `/api/live`, `/api/explain` and `/api/settings`, and what does not work now.

Guarantee of `/api/live`: it is answered from memory while PostgreSQL is down, and then shows the replicas that are
open for requests; with PostgreSQL it also shows those that are being loaded or unloaded. Numbers are those of all
frontends that report over the bus (`insight/traffic_aggregator.py`). Limit: of frontends that do not report, only the
requests in flight and waiting are included, as PostgreSQL knows them, and only if no frontend reports at all.

Guarantee of `/api/explain`: the explanation is the pick itself, with the same numbers, made without checking a replica
out; answered from memory. Limit: it is about now and about the frontend that answers. Where an earlier request went is
in its response headers, its line in the access log and its trace.

`list_degradations` has the same sentences for `/api/cluster`, `/api/live` and `/readyz`, from memory alone. Limit:
this is what this frontend knows; a stopped engine counts until it has been called.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Body

from corral.api.deps import AdminIn, ApiDeps, DepsIn, OperatorIn
from corral.domain.errors import StoreUnavailable
from corral.domain.node import NodeId
from corral.domain.replica import Replica
from corral.gateway.routing.router import RoutingExplanation
from corral.gateway.routing.routing_snapshot import RoutingSnapshot
from corral.insight.recent_rates import QuantilePair, RequestFlow
from corral.insight.traffic_aggregator import ClusterTraffic
from corral.policy.serving.routing import resolve_policy_name
from corral.store import nodes as node_store
from corral.store import replicas as replica_store
from corral.store import rules as rule_store
from corral.store.database import Transaction
from corral.store.replica_use import ServedModel
from corral.wire.cluster import (
    ExcludedReplicaOut,
    ExplainRoutingIn,
    RouteCandidateOut,
    RoutingExplanationOut,
    SettingChangesIn,
    SettingsOut,
)
from corral.wire.live import LiveModelOut, LiveOut, LiveReplicaOut, QuantilePairOut, RequestPaceOut

router = APIRouter(tags=["cluster"])
# A client that polls once a second needs a response in time, even without the data of PostgreSQL.
READ_LIMIT_S = 2.0
_NO_PACE = RequestPaceOut()
_EXAMPLE = {"request_wait": "90s", "disk_check": False, "model_idle": None}


@dataclass(frozen=True, slots=True, kw_only=True)
class _RegistryState:
    """Holds the replicas and waiting requests of the registry, or of memory instead."""

    replicas: list[Replica]
    waiting: Mapping[str, int]


@router.get("/api/live")
async def show_live(deps: DepsIn, _: OperatorIn) -> LiveOut:
    """Show models, replicas, requests and tokens as of now, over all frontends."""
    deps.live_views.traffic.note_watcher()
    return await read_live(deps)


async def read_live(deps: ApiDeps) -> LiveOut:
    registry = await _read_registry(deps)
    summed = deps.live_views.traffic.compute_totals()
    models = _render_models(deps, registry, summed)
    return LiveOut(
        at=deps.clock.wall(),
        answered_by=deps.frontend_id,
        frontends=summed.frontends,
        requests_open=summed.waiting + summed.in_flight,
        streams_open=summed.streams_open,
        pace=_render_pace(summed.total),
        degraded=list_degradations(deps),
        models=models,
        idle_models=len({model.name for model in _get_snapshot(deps).list_models()} - {model.name for model in models}),
    )


async def _read_registry(deps: ApiDeps) -> _RegistryState:
    if deps.health.store is None:
        try:
            async with asyncio.timeout(READ_LIMIT_S), deps.database.transaction() as tx:
                return _RegistryState(
                    replicas=await replica_store.list_replicas(tx),
                    waiting=await rule_store.list_waiting_requests(tx),
                )
        except (StoreUnavailable, TimeoutError):
            pass  # PostgreSQL has just failed, so the state in memory is shown instead.
    snapshot = _get_snapshot(deps)
    known = [replica for model in snapshot.list_models() for replica in snapshot.list_open_replicas(model)]
    return _RegistryState(replicas=known, waiting={})


async def count_in_flight_by_node(deps: ApiDeps, tx: Transaction) -> Counter[NodeId] | None:
    """Return the requests in flight at each node over all frontends; None if some have not reported where theirs
    are."""
    summed = deps.live_views.traffic.compute_totals()
    in_flight = _make_in_flight_counter(deps, summed)
    # After a time without watchers, peers report totals only. The details follow within a second.
    if summed.frontends > 1 and summed.in_flight_at.total() < summed.in_flight:
        return None
    busy: Counter[NodeId] = Counter()
    for replica_id, node_id in (await node_store.list_replica_nodes(tx)).items():
        busy[node_id] += in_flight(replica_id)
    return busy


def _make_in_flight_counter(deps: ApiDeps, summed: ClusterTraffic) -> Callable[[str], int]:
    """Return a function that counts the requests in flight at a replica. Alone, or without a bus, those of other
    frontends come from their leases; a replica that is being unloaded is in no pool any more, and may still answer."""
    use = deps.gateway.router.leases
    if summed.frontends > 1:
        return summed.in_flight_at.__getitem__
    return lambda replica_id: max(use.count_in_flight(replica_id), summed.in_flight_at[replica_id])


def _get_snapshot(deps: ApiDeps) -> RoutingSnapshot:
    return deps.gateway.router.snapshot


def _render_models(deps: ApiDeps, registry: _RegistryState, summed: ClusterTraffic) -> list[LiveModelOut]:
    replicas = _render_replicas(deps, registry.replicas, summed)
    known = {model.name for model in _get_snapshot(deps).list_models()}
    # Alone, or without a bus: the leases have the counts of all frontends, up to two seconds old.
    waiting = summed.waiting_for if summed.frontends > 1 else summed.waiting_for | Counter(registry.waiting)
    moving = {name for name, flow in summed.by_model.items() if flow.requests_per_s or flow.tokens_per_s}
    shown = [
        LiveModelOut(
            name=name,
            waiting=waiting[name],
            in_flight=sum(replica.in_flight for replica in replicas.get(name, ())),
            pace=_render_pace(summed.by_model.get(name)),
            replicas=sorted(replicas.get(name, ()), key=lambda replica: (replica.node, replica.index)),
        )
        for name in (replicas.keys() | +waiting | moving) & known
    ]
    return sorted(shown, key=lambda model: (-model.waiting - model.in_flight, -model.pace.tokens_per_s, model.name))


def _render_replicas(
    deps: ApiDeps, replicas: Iterable[Replica], summed: ClusterTraffic
) -> dict[str, list[LiveReplicaOut]]:
    """Render the replicas by model."""
    breakers = deps.request_monitor.fleet.list_breakers()
    nodes = {node.id: node.name for node in deps.directory.list_nodes()}
    in_flight = _make_in_flight_counter(deps, summed)
    shown: defaultdict[str, list[LiveReplicaOut]] = defaultdict(list)
    for replica in replicas:
        breaker = breakers.get(replica.id)
        shown[replica.model].append(
            LiveReplicaOut(
                id=replica.id,
                node=nodes.get(replica.node_id, replica.node_id),
                index=replica.index,
                state=replica.state,
                breaker=breaker.state if breaker else "closed",
                in_flight=in_flight(replica.id),
                pace=_render_pace(summed.by_replica.get(replica.id)),
            )
        )
    return dict(shown)


def _render_pace(flow: RequestFlow | None) -> RequestPaceOut:
    if flow is None:
        return _NO_PACE
    pace = flow.compute_pace()
    return RequestPaceOut(
        requests_per_s=round(pace.requests_per_s, 3),
        errors_per_s=round(pace.errors_per_s, 3),
        prompt_tokens_per_s=round(pace.prompt_tokens_per_s, 2),
        tokens_per_s=round(pace.tokens_per_s, 2),
        first_byte_s=_render_spread(pace.first_byte_s),
        inter_token_s=_render_spread(pace.inter_token_s),
        queue_s=_render_spread(pace.queue_s),
    )


def _render_spread(spread: QuantilePair) -> QuantilePairOut:
    return QuantilePairOut(p50=_round_seconds(spread.p50), p95=_round_seconds(spread.p95))


def _round_seconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 6)


def list_degradations(deps: ApiDeps) -> list[str]:
    """Return a sentence for each thing that does not work; empty when all is well."""
    health = deps.health
    health.record_bus(is_connected=deps.bus.is_connected)
    first, *others = health.list_sentences(has_leader=deps.leader.has_recent_leader) or [""]
    if not first:
        return []
    is_cut_off = health.store is not None or health.saved_as_of is not None or health.bus is not None
    return [f"{first} {_describe_serving(deps)}" if is_cut_off else first, *others]


def _describe_serving(deps: ApiDeps) -> str:
    snapshot = deps.gateway.router.snapshot
    breakers = deps.request_monitor.fleet.list_breakers()
    loaded = served = 0
    for model in snapshot.list_models():
        if not model.is_enabled:
            continue
        replicas = snapshot.list_open_replicas(model)
        if not replicas and not snapshot.list_left_out(model):
            continue
        loaded += 1
        served += any(replica.id not in breakers or breakers[replica.id].state != "open" for replica in replicas)
    if loaded == 0:
        return "No model is loaded."
    return f"Serving {served} of {loaded} loaded {'model' if loaded == 1 else 'models'}."


@router.post("/api/explain")
async def explain_routing(body: ExplainRoutingIn, deps: DepsIn, _: OperatorIn) -> RoutingExplanationOut:
    """Say which replica would answer a request for this model now, and why: what is known of each replica, in the order
    in which they would be picked. Nothing is sent to any of them."""
    routing = deps.gateway.router
    model = await routing.resolve(body.model)
    outlook = routing.explain_routing(model)
    names = {node.id: node.name for node in deps.directory.list_nodes()}
    return RoutingExplanationOut(
        model=model.name,
        answered_by=deps.frontend_id,
        policy=resolve_policy_name(model.route_policy),
        picked=outlook.picked,
        waiting=outlook.waiting,
        message=_describe_outcome(model, outlook, deps.gateway.wait_s),
        candidates=[
            RouteCandidateOut(
                replica_id=term.replica_id,
                node=term.node_name,
                is_picked=term.replica_id == outlook.picked,
                expected_s=term.expected_s,
                in_flight=term.in_flight,
                capacity=term.capacity,
                seconds=term.response_s,
                is_learnt=term.is_learnt,
                breaker=term.breaker,
                free_bytes=term.free_bytes,
                sentence=term.sentence,
            )
            for term in outlook.candidates
        ],
        left_out=[
            ExcludedReplicaOut(
                replica_id=replica.id,
                node=names.get(replica.node_id, replica.node_id),
                sentence=f"{names.get(replica.node_id, replica.node_id)}: {reason}",
            )
            for replica, reason in outlook.left_out
        ],
    )


def _describe_outcome(model: ServedModel, explanation: RoutingExplanation, wait_s: float) -> str:
    if explanation.picked is not None:
        picked = next(term for term in explanation.candidates if term.replica_id == explanation.picked)
        return f"The next request for {model.name} goes to {picked.node_name}."
    if explanation.waiting:
        return f"{explanation.waiting} requests wait for {model.name} here; the next one would wait behind them."
    if explanation.candidates:
        return f"All replicas of {model.name} are full; the next request would wait for its turn."
    limit = f"for up to {wait_s:g} s" if wait_s else "as long as it takes"
    return f"No replica of {model.name} takes requests; the next one would wait {limit} for the model to load."


@router.get("/api/settings")
async def show_settings(deps: DepsIn, _: AdminIn) -> SettingsOut:
    """List every setting with its value, the source of the value, and what the setting does."""
    return _list_settings(deps)


@router.post("/api/settings")
async def change_settings(
    deps: DepsIn, admin: AdminIn, body: Annotated[SettingChangesIn, Body(examples=[_EXAMPLE])]
) -> SettingsOut:
    """Change settings of all frontends while they run, by name; null goes back to the default. Only settings with
    `is_live` can be changed; either all changes of a request apply or none. A value that a frontend was given at its
    start takes precedence there."""
    await deps.live_settings.change(body, admin.name)
    return _list_settings(deps)


def _list_settings(deps: ApiDeps) -> SettingsOut:
    effective = deps.live_settings.effective
    shown = [
        one.model_copy(update={"is_live": True, **_get_effective_fields(deps, one.name)})
        if one.name in effective
        else one
        for one in deps.settings
    ]
    return SettingsOut(answered_by=deps.frontend_id, settings=shown)


def _get_effective_fields(deps: ApiDeps, name: str) -> dict[str, str]:
    now = deps.live_settings.effective[name]
    return {"value": now.value, "source": now.source}
