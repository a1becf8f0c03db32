"""Engines that nobody can reach and loads that nobody does: for frontends that only administer, and the simulator."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from corral.domain.errors import Unavailable
from corral.domain.operation import OperationId
from corral.ports.engines import EngineAnswer, EngineCall, EngineLost


class NoEngines:
    def call(self, call: EngineCall) -> AbstractAsyncContextManager[EngineAnswer]:
        raise EngineLost(f"There is no way to {call.address}.")


class NoLoads:
    async def ask(self, model: str) -> OperationId:
        raise Unavailable(f"Model {model} is not loaded, and this frontend loads none.", code="loads_nothing")
