"""`/api/cluster`, `/healthz`, `/readyz`, `/metrics`: the state of the control plane."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from hmac import compare_digest

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from corral import __version__
from corral.api.deps import ApiDeps, DepsIn, OperatorIn, get_bearer_secret
from corral.api.insight import list_degradations
from corral.api.metrics import FrontendMetrics
from corral.domain.errors import NotAuthenticated, StoreUnavailable
from corral.domain.node import NodeStatus
from corral.policy.status import compute_status, describe_status
from corral.reconcile.leader import LEASE_NAME
from corral.reconcile.maintenance import FRONTEND_ALIVE_S
from corral.store import cluster as cluster_store
from corral.store import nodes as node_store
from corral.wire.cluster import ClusterNodeOut, ClusterOut, DependencyOut, FrontendOut, LeaderOut

router = APIRouter(tags=["cluster"])
_NO_LEADER = LeaderOut(holder=None, term=0, acquired_at=None, expires_at=None)
_UNKNOWN = "PostgreSQL does not respond, so the state is unknown."
# Short, because this route is used to find out what is wrong.
READ_LIMIT_S = 5.0


@router.get("/healthz")
async def check_liveness() -> dict[str, str]:
    """Report that this process runs."""
    return {"status": "ok"}


@router.get("/health")
async def check_health() -> dict[str, str]:
    """Report that this process runs, under the name that clients of vLLM, SGLang and llama.cpp use. Needs no key."""
    return {"status": "ok"}


@router.get("/readyz")
async def check_readiness(deps: DepsIn) -> JSONResponse:
    """Report whether this frontend has read the registry and takes requests."""
    reason = "stopping" if deps.health.is_stopping else deps.get_not_ready_reason()
    if reason is not None:
        status = "stopping" if reason == "stopping" else "starting"
        return JSONResponse({"status": status, "reason": reason}, status_code=503)
    return JSONResponse({"status": "ready", "degraded": list_degradations(deps)})


@router.get("/metrics", response_class=Response)
async def show_metrics(request: Request, deps: DepsIn) -> Response:
    """Show metrics for Prometheus: by models and calls, never by key, person or request. Requires the key
    `metrics_key` if it is set. Of several processes on one port, any process answers for all, and each number has the
    label `process`."""
    key, shown = deps.metrics_key, get_bearer_secret(request) or ""
    if key is not None and not compare_digest(shown.encode(), key.encode()):
        raise NotAuthenticated(
            "/metrics requires the key of the setting `metrics_key`.", hint="Send it as 'Authorization: Bearer …'."
        )
    frontend_metrics: FrontendMetrics = request.app.state.metrics
    page = (
        render_metrics_page(deps, frontend_metrics)
        if frontend_metrics.page_collector is None
        else await frontend_metrics.page_collector.collect_pages()
    )
    return Response(page, media_type="text/plain; version=0.0.4")


def render_metrics_page(deps: ApiDeps, metrics: FrontendMetrics) -> bytes:
    """Return the metrics of this process as text."""
    metrics.leader.set(int(deps.leader.is_leader()))
    metrics.bus.set(int(deps.bus.is_connected))
    metrics.heartbeats_waiting.set(len(deps.heartbeats))
    metrics.held_operations.set(deps.count_held_operations())
    return metrics.render()


@router.get("/api/cluster")
async def show_cluster(request: Request, deps: DepsIn, _: OperatorIn) -> ClusterOut:
    """Show the frontends, the leader, the nodes in brief, and what does not work at present."""
    if deps.health.store is not None:
        return _make_from_memory(deps)
    try:
        async with asyncio.timeout(READ_LIMIT_S), deps.database.transaction() as tx:
            lease = await cluster_store.find_lease(tx, LEASE_NAME)
            frontends = await cluster_store.list_frontends(tx, FRONTEND_ALIVE_S)
            nodes = await node_store.list_nodes(tx)
    except StoreUnavailable as error:
        deps.health.record_store_outage(error)
        return _make_from_memory(deps)
    except TimeoutError:
        deps.health.record_store_outage(StoreUnavailable(details={"cause": f"no response within {READ_LIMIT_S:.0f} s"}))
        return _make_from_memory(deps)
    numbers: FrontendMetrics = request.app.state.metrics
    for status in NodeStatus:
        numbers.nodes.labels(status).set(sum(compute_status(node) is status for node in nodes))
    holder = lease.holder if lease and lease.holder else None
    return ClusterOut(
        version=__version__,
        answered_by=deps.frontend_id,
        postgres=DependencyOut(state="up"),
        nats=_make_bus_state(deps),
        degraded=list_degradations(deps),
        leader=_NO_LEADER
        if lease is None
        else LeaderOut(holder=holder, term=lease.term, acquired_at=lease.acquired_at, expires_at=lease.expires_at),
        frontends=[FrontendOut(**asdict(frontend), leader=frontend.id == holder) for frontend in frontends],
        nodes=[
            ClusterNodeOut(id=node.id, name=node.name, status=compute_status(node), status_reason=describe_status(node))
            for node in nodes
        ],
    )


def _make_from_memory(deps: ApiDeps) -> ClusterOut:
    """Return the cluster from the memory of this frontend, while PostgreSQL is away."""
    cause = deps.health.store.cause if deps.health.store else ""
    return ClusterOut(
        version=__version__,
        answered_by=deps.frontend_id,
        postgres=DependencyOut(state="down", detail=cause),
        nats=_make_bus_state(deps),
        degraded=list_degradations(deps),
        leader=_NO_LEADER,
        frontends=[],
        nodes=[
            ClusterNodeOut(id=node.id, name=node.name, status="unknown", status_reason=_UNKNOWN)
            for node in deps.directory.list_nodes()
        ],
    )


def _make_bus_state(deps: ApiDeps) -> DependencyOut:
    return DependencyOut(state="up" if deps.bus.is_connected else "down")
