"""`/api/cluster`, `/healthz`, `/readyz`, `/metrics`: how the control plane itself is doing."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from corral import __version__
from corral.api.metrics import Metrics
from corral.api.parts import AdminIn, Parts, PartsIn
from corral.domain.errors import StoreUnavailable
from corral.domain.node import NodeStatus
from corral.policy.status import reason_of, status_of
from corral.reconcile.leader import LEASE_NAME
from corral.reconcile.upkeep import FRONTEND_ALIVE_S
from corral.store import cluster as cluster_store
from corral.store import nodes as node_store
from corral.wire.cluster import ClusterNode, ClusterOut, FrontendOut, LeaderOut, PartOut

router = APIRouter(tags=["cluster"])
_NO_LEADER = LeaderOut(holder=None, term=0, acquired_at=None, expires_at=None)


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """This process serves."""
    return {"status": "ok"}


@router.get("/readyz")
async def readyz(parts: PartsIn) -> JSONResponse:
    """This frontend has read the registry and takes requests."""
    reason = parts.not_ready()
    if reason is not None:
        status = "stopping" if reason == "stopping" else "starting"
        return JSONResponse({"status": status, "reason": reason}, status_code=503)
    return JSONResponse({"status": "ready", "degraded": _degraded(parts, is_store_up=not parts.feed.is_away)})


@router.get("/metrics", response_class=Response)
async def metrics(request: Request, parts: PartsIn) -> Response:
    """For Prometheus: aggregates, no names."""
    numbers: Metrics = request.app.state.metrics
    numbers.leader.set(int(parts.leader.is_leader()))
    numbers.bus.set(int(parts.bus.is_connected))
    numbers.waiting.set(len(parts.heartbeats))
    numbers.held.set(parts.held())
    return Response(numbers.render(), media_type="text/plain; version=0.0.4")


@router.get("/api/cluster")
async def cluster(request: Request, parts: PartsIn, _: AdminIn) -> ClusterOut:
    """The frontends, who leads, the nodes in brief, and what does not work now."""
    bus = PartOut(state="up" if parts.bus.is_connected else "down")
    try:
        async with parts.database.transaction() as tx:
            lease = await cluster_store.find_lease(tx, LEASE_NAME)
            frontends = await cluster_store.list_frontends(tx, FRONTEND_ALIVE_S)
            nodes = await node_store.list_nodes(tx)
    except StoreUnavailable as error:
        return ClusterOut(
            version=__version__,
            answered_by=parts.frontend_id,
            postgres=PartOut(state="down", detail=str(error.details.get("cause", ""))),
            nats=bus,
            degraded=_degraded(parts, is_store_up=False),
            leader=_NO_LEADER,
            frontends=[],
            nodes=[],
        )
    numbers: Metrics = request.app.state.metrics
    for status in NodeStatus:
        numbers.nodes.labels(status).set(sum(status_of(node) is status for node in nodes))
    holder = lease.holder if lease and lease.holder else None
    return ClusterOut(
        version=__version__,
        answered_by=parts.frontend_id,
        postgres=PartOut(state="up"),
        nats=bus,
        degraded=_degraded(parts, is_store_up=True),
        leader=_NO_LEADER
        if lease is None
        else LeaderOut(holder=holder, term=lease.term, acquired_at=lease.acquired_at, expires_at=lease.expires_at),
        frontends=[FrontendOut(**asdict(frontend), leader=frontend.id == holder) for frontend in frontends],
        nodes=[
            ClusterNode(id=node.id, name=node.name, status=status_of(node), status_reason=reason_of(node))
            for node in nodes
        ],
    )


def _degraded(parts: Parts, *, is_store_up: bool) -> list[str]:
    sentences = []
    if not is_store_up:
        sentences.append("The database is away: what is known is served, nothing can be changed.")
    if not parts.bus.is_connected:
        sentences.append("The bus is away: nodes get no commands.")
    return sentences
