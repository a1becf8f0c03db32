"""Calls about loads: where a model would go, and how far its load is. Asking for one is in `client/models.py`."""

from __future__ import annotations

from urllib.parse import quote

from corral.client.http import Call, Transport
from corral.wire.loads import LoadIn, LoadPlanOut, LoadStatusOut, PlanIn


class LoadCalls:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def plan(self, model: str, wish: LoadIn | None = None) -> LoadPlanOut:
        """Where it would go now, and why not elsewhere."""
        wish = wish or LoadIn()
        body = PlanIn(model=model, count=wish.count, nodes=wish.nodes)
        return await self._transport.fetch(Call(method="POST", path="/api/plan", body=body), LoadPlanOut)

    async def status(self, model: str) -> LoadStatusOut:
        """`NotFound` if no load of it is under way."""
        path = f"/api/models/{quote(model, safe='')}/load-status"
        return await self._transport.fetch(Call(method="GET", path=path), LoadStatusOut)
