"""Engines that nobody can reach and loads that nobody does: for frontends that only administer, and the simulator."""

from __future__ import annotations

import asyncio

from corral.domain.errors import Unavailable
from corral.domain.operation import OperationId
from corral.ports.engines import Engine, EngineCall, EngineLost, Hearer


class NoEngines:
    def send(self, engine: Engine, call: EngineCall, hearer: Hearer) -> _NoLine:
        del call
        line = _NoLine()
        error = EngineLost(f"There is no way to {engine.address}.")
        line.told = asyncio.get_running_loop().call_soon(hearer.on_lost, error)
        return line


class _NoLine:
    told: asyncio.Handle | None = None

    def pause(self) -> None:
        return

    def resume(self) -> None:
        return

    def write(self, piece: bytes, *, is_last: bool = False) -> None:
        del piece, is_last

    def hang_up(self) -> None:
        if self.told is not None:
            self.told.cancel()


class NoLoads:
    async def ask(self, model: str) -> OperationId:
        raise Unavailable(f"Model {model} is not loaded, and this frontend loads none.", code="loads_nothing")
