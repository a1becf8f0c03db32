"""Calls about what was used."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from corral.client.http import Call, Transport
from corral.wire.usage import UsageOut


class UsageCalls:
    """`is_mine`: of the key that asks alone; the others are for admins."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def report(
        self, by: Sequence[str], since: datetime, until: datetime | None = None, *, is_mine: bool = False
    ) -> UsageOut:
        return await self._transport.fetch(_call(by, since, until, is_mine=is_mine), UsageOut)

    async def csv(
        self, by: Sequence[str], since: datetime, until: datetime | None = None, *, is_mine: bool = False
    ) -> bytes:
        return await self._transport.send(_call(by, since, until, is_mine=is_mine, form="csv"))


def _call(by: Sequence[str], since: datetime, until: datetime | None, *, is_mine: bool, form: str = "json") -> Call:
    parameters = {"by": ",".join(by), "from": since.isoformat(), "format": form}
    if until is not None:
        parameters["to"] = until.isoformat()
    return Call(method="GET", path="/api/me/usage" if is_mine else "/api/usage", parameters=parameters)
