"""Calls about join tokens, API keys, users and usage. Creating calls carry an idempotency key, so that repeating one
creates nothing twice. Only fields that were set are sent, so that a change leaves the others as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel

from corral.client.transport import ApiRequest, ApiTransport
from corral.wire.access import (
    CallerOut,
    CreatedKeyOut,
    CreatedTokenOut,
    JoinOut,
    KeyIn,
    KeyOut,
    KeyPatch,
    RotateIn,
    TokenIn,
    TokenOut,
    UserIn,
    UserOut,
    UserPatch,
)
from corral.wire.usage import UsageOut


class TokenCalls:
    """Client-side calls of the HTTP API about join tokens: create, list, revoke."""

    def __init__(self, transport: ApiTransport) -> None:
        self._transport = transport

    async def create(self, token: TokenIn) -> CreatedTokenOut:
        call = ApiRequest(method="POST", path="/api/tokens", body=token, creates=True)
        return await self._transport.fetch(call, CreatedTokenOut)

    async def get_join_commands(self) -> JoinOut:
        """Return the commands that make another machine a node, and whether it can reach the cluster."""
        return await self._transport.fetch(ApiRequest(method="GET", path="/api/join"), JoinOut)

    async def list(self) -> list[TokenOut]:
        return await self._transport.fetch(ApiRequest(method="GET", path="/api/tokens"), list[TokenOut])

    async def revoke(self, token_id: str) -> TokenOut:
        call = ApiRequest(method="DELETE", path=f"/api/tokens/{quote(token_id, safe='')}")
        return await self._transport.fetch(call, TokenOut)


class KeyCalls:
    """Client-side calls of the HTTP API about API keys."""

    def __init__(self, transport: ApiTransport) -> None:
        self._transport = transport

    async def create(self, key: KeyIn) -> CreatedKeyOut:
        call = ApiRequest(method="POST", path="/api/keys", body=_dump_set_fields(key), creates=True)
        return await self._transport.fetch(call, CreatedKeyOut)

    async def get(self, key_id: str) -> KeyOut:
        return await self._transport.fetch(ApiRequest(method="GET", path=f"/api/keys/{quote(key_id, safe='')}"), KeyOut)

    async def change(self, key_id: str, change: KeyPatch) -> KeyOut:
        call = ApiRequest(method="PATCH", path=f"/api/keys/{quote(key_id, safe='')}", body=_dump_set_fields(change))
        return await self._transport.fetch(call, KeyOut)

    async def list(self) -> list[KeyOut]:
        return await self._transport.fetch(ApiRequest(method="GET", path="/api/keys"), list[KeyOut])

    async def revoke(self, key_id: str, *, last: bool = False) -> KeyOut:
        """Revoke a key. `last`: also if it is the last admin key that works."""
        path = f"/api/keys/{quote(key_id, safe='')}" + ("?last=true" if last else "")
        return await self._transport.fetch(ApiRequest(method="DELETE", path=path), KeyOut)

    async def rotate(self, key_id: str, *, grace_s: float | None = None) -> CreatedKeyOut:
        path = f"/api/keys/{quote(key_id, safe='')}/rotate"
        body = None if grace_s is None else RotateIn(grace_s=grace_s)
        return await self._transport.fetch(ApiRequest(method="POST", path=path, body=body, creates=True), CreatedKeyOut)


class UserCalls:
    """Client-side calls of the HTTP API about users."""

    def __init__(self, transport: ApiTransport) -> None:
        self._transport = transport

    async def get_me(self) -> CallerOut:
        """Return the user and the key that this client signs in with."""
        return await self._transport.fetch(ApiRequest(method="GET", path="/api/me"), CallerOut)

    async def create(self, user: UserIn) -> UserOut:
        call = ApiRequest(method="POST", path="/api/users", body=_dump_set_fields(user), creates=True)
        return await self._transport.fetch(call, UserOut)

    async def list(self) -> list[UserOut]:
        return await self._transport.fetch(ApiRequest(method="GET", path="/api/users"), list[UserOut])

    async def change(self, user_id: str, change: UserPatch) -> UserOut:
        call = ApiRequest(method="PATCH", path=f"/api/users/{quote(user_id, safe='')}", body=_dump_set_fields(change))
        return await self._transport.fetch(call, UserOut)

    async def delete(self, user_id: str) -> UserOut:
        call = ApiRequest(method="DELETE", path=f"/api/users/{quote(user_id, safe='')}")
        return await self._transport.fetch(call, UserOut)


def _dump_set_fields(body: BaseModel) -> dict[str, Any]:
    return body.model_dump(mode="json", exclude_unset=True)


class UsageCalls:
    """Client-side calls of the HTTP API about usage.

    `is_mine`: usage of the calling key only; everything else is for admins.
    """

    def __init__(self, transport: ApiTransport) -> None:
        self._transport = transport

    async def get_report(
        self, by: Sequence[str], since: datetime, until: datetime | None = None, *, is_mine: bool = False
    ) -> UsageOut:
        return await self._transport.fetch(_make_request(by, since, until, is_mine=is_mine), UsageOut)

    async def get_csv(
        self, by: Sequence[str], since: datetime, until: datetime | None = None, *, is_mine: bool = False
    ) -> bytes:
        return await self._transport.send(_make_request(by, since, until, is_mine=is_mine, form="csv"))


def _make_request(
    by: Sequence[str], since: datetime, until: datetime | None, *, is_mine: bool, form: str = "json"
) -> ApiRequest:
    parameters = {"by": ",".join(by), "from": since.isoformat(), "format": form}
    if until is not None:
        parameters["to"] = until.isoformat()
    return ApiRequest(method="GET", path="/api/me/usage" if is_mine else "/api/usage", parameters=parameters)
