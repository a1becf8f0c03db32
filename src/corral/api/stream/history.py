"""`GET /api/history` and `GET /api/nodes/{node}/history`: curves of the last hour, from memory."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from corral.api.parts import OperateIn, Parts, PartsIn
from corral.domain.errors import NotFound
from corral.insight.history import STEP_S, Past
from corral.wire.live import PastOut

router = APIRouter()
MinutesIn = Annotated[int, Query(ge=1, le=60, description="How far back.")]
MINUTES = 30


@router.get("/api/history", tags=["cluster"])
async def cluster_history(parts: PartsIn, _: OperateIn, minutes: MinutesIn = MINUTES) -> PastOut:
    """Requests, tokens, times and VRAM, of all frontends and nodes: every five seconds since this frontend started, and
    once a minute before."""
    return _out(parts.board.history.cluster(_since(parts, minutes)))


@router.get("/api/nodes/{node}/history", tags=["nodes"])
async def node_history(parts: PartsIn, _: OperateIn, node: str, minutes: MinutesIn = MINUTES) -> PastOut:
    """Memory, disk and requests of one node, by its id or its name. While it was not there, nothing is known."""
    known = next((one.id for one in parts.directory.list_nodes() if node in (one.id, one.name)), None)
    if known is None:
        raise NotFound(
            f"There is no node {node[:80]!r}.", hint="`corral nodes list` shows the nodes.", code="node_not_found"
        )
    return _out(parts.board.history.node(known, _since(parts, minutes)))


def _since(parts: Parts, minutes: int) -> float:
    return parts.clock.wall().timestamp() - minutes * 60


def _out(past: Past) -> PastOut:
    return PastOut(step_s=STEP_S, at=past.at, series=past.series)
