"""`/api/keys`: what people and programs show to be let in, and what each of them may."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from corral.access import keys
from corral.api.idempotency import once
from corral.api.parts import AdminIn, PartsIn
from corral.domain.access import KeyLimit
from corral.domain.errors import NotFound
from corral.store import access as store
from corral.store import access_users as user_store
from corral.store.database import Transaction
from corral.wire.access import KeyIn, KeyMade, KeyOut, KeyPatch, LimitIn, RotateIn

router = APIRouter(prefix="/api", tags=["access"])
LastIn = Annotated[bool, Query(description="Revoke it also if no other admin key works.")]


@router.post("/keys", status_code=201, response_model=KeyMade)
async def create_key(request: Request, parts: PartsIn, admin: AdminIn, body: KeyIn) -> Response:
    """An API key, for asking models unless `scope` says more. The secret is in this answer and nowhere else.

    409 `key_name_taken` if a key of the same user has the name and works.
    """

    async def work(tx: Transaction) -> KeyMade:
        wish = keys.KeyWish(
            name=body.name,
            scope=body.scope,
            user_id=await _user_id(tx, body.user),
            models=_patterns(body.models),
            limits=_limits(body.limits),
            expires_in_s=body.expires_in_s,
        )
        await keys.check_name_is_free(tx, wish.name, wish.user_id)
        key, secret = await keys.create_key(tx, parts.ids, wish, admin.name)
        return KeyMade(**asdict(key), key=secret)

    return await once(request, parts.database, admin, work)


@router.get("/keys")
async def list_keys(parts: PartsIn, _: AdminIn) -> list[KeyOut]:
    """Every API key with its state, the oldest first. No secrets."""
    async with parts.database.transaction() as tx:
        return [KeyOut(**asdict(key)) for key in await store.list_keys(tx)]


@router.get("/keys/{key_id}")
async def show_key(parts: PartsIn, _: AdminIn, key_id: str) -> KeyOut:
    """One API key with its scope, models and limits."""
    async with parts.database.transaction() as tx:
        return KeyOut(**asdict(await store.get_key(tx, key_id)))


@router.patch("/keys/{key_id}")
async def change_key(parts: PartsIn, admin: AdminIn, key_id: str, body: KeyPatch) -> KeyOut:
    """Change what a key may: here before this answer, on the other frontends a moment later. Its secret stays."""
    change = keys.KeyChange()
    for name in body.model_fields_set:
        match name:
            case "models":
                change["models"] = _patterns(body.models)
            case "limits":
                change["limits"] = _limits(body.limits)
            case "name":
                change["name"] = body.name
            case "scope":
                change["scope"] = body.scope
            case "expires_in_s":
                change["expires_in_s"] = body.expires_in_s
    async with parts.database.transaction() as tx:
        changed = await keys.change_key(tx, key_id, change, admin.name)
    await parts.directory.load_keys()
    return KeyOut(**asdict(changed))


@router.post("/keys/{key_id}/rotate", status_code=201, response_model=KeyMade)
async def rotate_key(
    request: Request, parts: PartsIn, admin: AdminIn, key_id: str, body: RotateIn | None = None
) -> Response:
    """A new secret for the same key. The old one stops working after the grace; without one here before this answer,
    elsewhere a moment later. Sessions that were opened with the old one end with it."""
    grace_s = body.grace_s if body else None

    async def work(tx: Transaction) -> KeyMade:
        key, secret = await keys.rotate_key(tx, parts.ids, key_id, admin.name, grace_s)
        return KeyMade(**asdict(key), key=secret)

    answer = await once(request, parts.database, admin, work)
    await parts.directory.load_keys()
    await parts.directory.load_sessions({key_id})
    return answer


@router.delete("/keys/{key_id}")
async def revoke_key(parts: PartsIn, admin: AdminIn, key_id: str, *, last: LastIn = False) -> KeyOut:
    """The key stops working: here before this answer, on the other frontends a moment later. Sessions that were opened
    with it end. The last admin key that works is refused with 409 `last_key`, unless `last=true` says that it is meant.
    """
    async with parts.database.transaction() as tx:
        revoked = await keys.revoke_key(tx, key_id, admin.name, allows_none=last)
    await parts.directory.load_keys()
    return KeyOut(**asdict(revoked))


async def _user_id(tx: Transaction, name: str | None) -> str | None:
    if name is None:
        return None
    user = await user_store.find_by_name(tx, name)
    if user is None:
        raise NotFound(f"There is no user named {name}.", hint="`corral users list` shows them.", code="user_not_found")
    return user.id


def _patterns(models: list[str] | None) -> tuple[str, ...] | None:
    return None if models is None else tuple(models)


def _limits(limits: list[LimitIn]) -> tuple[KeyLimit, ...]:
    return tuple(KeyLimit(**limit.model_dump()) for limit in limits)
