"""Calls about rules: where models may run and how many replicas they are to have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from corral.client.http import Call, Transport
from corral.wire.rules import RuleOut


class RuleCalls:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(self) -> list[RuleOut]:
        return await self._transport.fetch(Call(method="GET", path="/api/rules"), list[RuleOut])

    async def get(self, model: str) -> RuleOut:
        return await self._transport.fetch(Call(method="GET", path=_path(model)), RuleOut)

    async def put(self, model: str, rule: Mapping[str, Any]) -> RuleOut:
        """Replace what there is."""
        return await self._transport.fetch(Call(method="PUT", path=_path(model), body=rule), RuleOut)

    async def remove(self, model: str) -> RuleOut:
        """The rule that was there."""
        return await self._transport.fetch(Call(method="DELETE", path=_path(model)), RuleOut)


def _path(model: str) -> str:
    return f"/api/rules/{quote(model, safe='')}"
