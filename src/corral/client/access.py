"""Calls about join tokens and API keys. What makes a secret carries an idempotency key: repeating makes no second."""

from __future__ import annotations

from urllib.parse import quote

from corral.client.http import Call, Transport
from corral.wire.access import KeyIn, KeyMade, KeyOut, TokenIn, TokenMade, TokenOut


class TokenCalls:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def create(self, token: TokenIn) -> TokenMade:
        call = Call(method="POST", path="/api/tokens", body=token, creates=True)
        return await self._transport.fetch(call, TokenMade)

    async def list(self) -> list[TokenOut]:
        return await self._transport.fetch(Call(method="GET", path="/api/tokens"), list[TokenOut])

    async def revoke(self, token_id: str) -> TokenOut:
        call = Call(method="DELETE", path=f"/api/tokens/{quote(token_id, safe='')}")
        return await self._transport.fetch(call, TokenOut)


class KeyCalls:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def create(self, key: KeyIn) -> KeyMade:
        call = Call(method="POST", path="/api/keys", body=key, creates=True)
        return await self._transport.fetch(call, KeyMade)

    async def list(self) -> list[KeyOut]:
        return await self._transport.fetch(Call(method="GET", path="/api/keys"), list[KeyOut])

    async def revoke(self, key_id: str) -> KeyOut:
        return await self._transport.fetch(Call(method="DELETE", path=f"/api/keys/{quote(key_id, safe='')}"), KeyOut)

    async def rotate(self, key_id: str) -> KeyMade:
        path = f"/api/keys/{quote(key_id, safe='')}/rotate"
        return await self._transport.fetch(Call(method="POST", path=path, creates=True), KeyMade)
