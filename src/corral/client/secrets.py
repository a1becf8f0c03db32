"""Calls about secrets: of the caller, or with `is_cluster` those of the whole cluster."""

from __future__ import annotations

from urllib.parse import quote

from corral.client.transport import ApiRequest, ApiTransport
from corral.wire.secrets import SecretIn, SecretOut


class SecretCalls:
    """Client-side calls of the HTTP API about stored secrets."""

    def __init__(self, transport: ApiTransport) -> None:
        self._transport = transport

    async def list(self, *, is_cluster: bool = False) -> list[SecretOut]:
        call = ApiRequest(method="GET", path="/api/secrets", parameters=_make_parameters(is_cluster=is_cluster))
        return await self._transport.fetch(call, list[SecretOut])

    async def put(self, name: str, value: str, *, is_cluster: bool = False) -> SecretOut:
        """Store a value under a name, and replace the previous one."""
        path, parameters = f"/api/secrets/{quote(name, safe='')}", _make_parameters(is_cluster=is_cluster)
        call = ApiRequest(method="PUT", path=path, parameters=parameters, body=SecretIn(value=value))
        return await self._transport.fetch(call, SecretOut)

    async def delete(self, name: str, *, is_cluster: bool = False) -> None:
        path, parameters = f"/api/secrets/{quote(name, safe='')}", _make_parameters(is_cluster=is_cluster)
        await self._transport.send(ApiRequest(method="DELETE", path=path, parameters=parameters))


def _make_parameters(*, is_cluster: bool) -> dict[str, str]:
    return {"scope": "cluster"} if is_cluster else {}
