"""`/api/cluster`, `/healthz`, `/readyz`, `/metrics`: how the control plane itself is doing."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from hmac import compare_digest

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from corral import __version__
from corral.api.insight.degraded import degraded
from corral.api.metrics import Metrics
from corral.api.parts import OperateIn, Parts, PartsIn, bearer
from corral.domain.errors import NotAuthenticated, StoreUnavailable
from corral.domain.node import NodeStatus
from corral.policy.status import reason_of, status_of
from corral.reconcile.leader import LEASE_NAME
from corral.reconcile.upkeep import FRONTEND_ALIVE_S
from corral.store import cluster as cluster_store
from corral.store import nodes as node_store
from corral.wire.cluster import ClusterNode, ClusterOut, FrontendOut, LeaderOut, PartOut

router = APIRouter(tags=["cluster"])
_NO_LEADER = LeaderOut(holder=None, term=0, acquired_at=None, expires_at=None)
_UNKNOWN = "PostgreSQL is away: nobody knows how it is now."
# Whoever asks this wants to know what is wrong, and not to wait for it.
LOOK_LIMIT_S = 5.0


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """This process serves."""
    return {"status": "ok"}


@router.get("/health")
async def health() -> dict[str, str]:
    """This process serves. The name by which clients of vLLM, SGLang and llama.cpp ask; without a key."""
    return {"status": "ok"}


@router.get("/readyz")
async def readyz(parts: PartsIn) -> JSONResponse:
    """This frontend has read the registry and takes requests."""
    reason = "stopping" if parts.health.is_stopping else parts.not_ready()
    if reason is not None:
        status = "stopping" if reason == "stopping" else "starting"
        return JSONResponse({"status": status, "reason": reason}, status_code=503)
    return JSONResponse({"status": "ready", "degraded": degraded(parts)})


@router.get("/metrics", response_class=Response)
async def metrics(request: Request, parts: PartsIn) -> Response:
    """For Prometheus: numbers of models and calls by their names, and of no key, person or request. With `metrics_key`
    set it takes that key. Of several processes on one port any one answers for all of them, and each number has the
    label `process`."""
    key, shown = parts.metrics_key, bearer(request) or ""
    if key is not None and not compare_digest(shown.encode(), key.encode()):
        raise NotAuthenticated(
            "/metrics wants the key of the setting `metrics_key`.", hint="Send it as 'Authorization: Bearer …'."
        )
    numbers: Metrics = request.app.state.metrics
    page = metrics_page(parts, numbers) if numbers.siblings is None else await numbers.siblings.together()
    return Response(page, media_type="text/plain; version=0.0.4")


def metrics_page(parts: Parts, numbers: Metrics) -> bytes:
    """This process' own numbers as they are now."""
    numbers.leader.set(int(parts.leader.is_leader()))
    numbers.bus.set(int(parts.bus.is_connected))
    numbers.waiting.set(len(parts.heartbeats))
    numbers.held.set(parts.held())
    return numbers.render()


@router.get("/api/cluster")
async def cluster(request: Request, parts: PartsIn, _: OperateIn) -> ClusterOut:
    """The frontends, who leads, the nodes in brief, and what does not work now."""
    if parts.health.store is not None:
        return _from_memory(parts)
    try:
        async with asyncio.timeout(LOOK_LIMIT_S), parts.database.transaction() as tx:
            lease = await cluster_store.find_lease(tx, LEASE_NAME)
            frontends = await cluster_store.list_frontends(tx, FRONTEND_ALIVE_S)
            nodes = await node_store.list_nodes(tx)
    except StoreUnavailable as error:
        parts.health.store_is_away(error)
        return _from_memory(parts)
    except TimeoutError:
        parts.health.store_is_away(StoreUnavailable(details={"cause": f"no answer within {LOOK_LIMIT_S:.0f} s"}))
        return _from_memory(parts)
    numbers: Metrics = request.app.state.metrics
    for status in NodeStatus:
        numbers.nodes.labels(status).set(sum(status_of(node) is status for node in nodes))
    holder = lease.holder if lease and lease.holder else None
    return ClusterOut(
        version=__version__,
        answered_by=parts.frontend_id,
        postgres=PartOut(state="up"),
        nats=_bus(parts),
        degraded=degraded(parts),
        leader=_NO_LEADER
        if lease is None
        else LeaderOut(holder=holder, term=lease.term, acquired_at=lease.acquired_at, expires_at=lease.expires_at),
        frontends=[FrontendOut(**asdict(frontend), leader=frontend.id == holder) for frontend in frontends],
        nodes=[
            ClusterNode(id=node.id, name=node.name, status=status_of(node), status_reason=reason_of(node))
            for node in nodes
        ],
    )


def _from_memory(parts: Parts) -> ClusterOut:
    """While PostgreSQL is away: what this frontend knows of itself and of the nodes."""
    cause = parts.health.store.cause if parts.health.store else ""
    return ClusterOut(
        version=__version__,
        answered_by=parts.frontend_id,
        postgres=PartOut(state="down", detail=cause),
        nats=_bus(parts),
        degraded=degraded(parts),
        leader=_NO_LEADER,
        frontends=[],
        nodes=[
            ClusterNode(id=node.id, name=node.name, status="unknown", status_reason=_UNKNOWN)
            for node in parts.directory.list_nodes()
        ],
    )


def _bus(parts: Parts) -> PartOut:
    return PartOut(state="up" if parts.bus.is_connected else "down")
