"""Calls about join tokens, API keys and users. What makes something carries an idempotency key: repeating makes no
second. Only what was said is sent, so that a change leaves the rest as it is."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from pydantic import BaseModel

from corral.client.http import Call, Transport
from corral.wire.access import KeyIn, KeyMade, KeyOut, KeyPatch, RotateIn, TokenIn, TokenMade, TokenOut
from corral.wire.join import JoinOut
from corral.wire.users import MeOut, UserIn, UserOut, UserPatch


class TokenCalls:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def create(self, token: TokenIn) -> TokenMade:
        call = Call(method="POST", path="/api/tokens", body=token, creates=True)
        return await self._transport.fetch(call, TokenMade)

    async def join_commands(self) -> JoinOut:
        """Return the commands that make another machine a node, and whether it can reach the cluster."""
        return await self._transport.fetch(Call(method="GET", path="/api/join"), JoinOut)

    async def list(self) -> list[TokenOut]:
        return await self._transport.fetch(Call(method="GET", path="/api/tokens"), list[TokenOut])

    async def revoke(self, token_id: str) -> TokenOut:
        call = Call(method="DELETE", path=f"/api/tokens/{quote(token_id, safe='')}")
        return await self._transport.fetch(call, TokenOut)


class KeyCalls:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def create(self, key: KeyIn) -> KeyMade:
        call = Call(method="POST", path="/api/keys", body=_said(key), creates=True)
        return await self._transport.fetch(call, KeyMade)

    async def get(self, key_id: str) -> KeyOut:
        return await self._transport.fetch(Call(method="GET", path=f"/api/keys/{quote(key_id, safe='')}"), KeyOut)

    async def change(self, key_id: str, change: KeyPatch) -> KeyOut:
        call = Call(method="PATCH", path=f"/api/keys/{quote(key_id, safe='')}", body=_said(change))
        return await self._transport.fetch(call, KeyOut)

    async def list(self) -> list[KeyOut]:
        return await self._transport.fetch(Call(method="GET", path="/api/keys"), list[KeyOut])

    async def revoke(self, key_id: str, *, last: bool = False) -> KeyOut:
        """`last`: also if no other admin key works."""
        path = f"/api/keys/{quote(key_id, safe='')}" + ("?last=true" if last else "")
        return await self._transport.fetch(Call(method="DELETE", path=path), KeyOut)

    async def rotate(self, key_id: str, *, grace_s: float | None = None) -> KeyMade:
        path = f"/api/keys/{quote(key_id, safe='')}/rotate"
        body = None if grace_s is None else RotateIn(grace_s=grace_s)
        return await self._transport.fetch(Call(method="POST", path=path, body=body, creates=True), KeyMade)


class UserCalls:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def me(self) -> MeOut:
        """Whose key this is."""
        return await self._transport.fetch(Call(method="GET", path="/api/me"), MeOut)

    async def create(self, user: UserIn) -> UserOut:
        call = Call(method="POST", path="/api/users", body=_said(user), creates=True)
        return await self._transport.fetch(call, UserOut)

    async def list(self) -> list[UserOut]:
        return await self._transport.fetch(Call(method="GET", path="/api/users"), list[UserOut])

    async def change(self, user_id: str, change: UserPatch) -> UserOut:
        call = Call(method="PATCH", path=f"/api/users/{quote(user_id, safe='')}", body=_said(change))
        return await self._transport.fetch(call, UserOut)

    async def delete(self, user_id: str) -> UserOut:
        call = Call(method="DELETE", path=f"/api/users/{quote(user_id, safe='')}")
        return await self._transport.fetch(call, UserOut)


def _said(body: BaseModel) -> dict[str, Any]:
    return body.model_dump(mode="json", exclude_unset=True)
