"""`/api/users` and `/api/me`: people, and who one is."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter, Request, Response

from corral.access import users
from corral.api.idempotency import once
from corral.api.parts import AdminIn, AnybodyIn, Parts, PartsIn
from corral.domain.access import User
from corral.store import access_users as store
from corral.store.database import Transaction
from corral.wire.access import LimitOut
from corral.wire.users import MeOut, UserIn, UserOut, UserPatch

router = APIRouter(prefix="/api", tags=["access"])


@router.get("/me")
async def who_am_i(principal: AnybodyIn) -> MeOut:
    """Who is asking, and what they may."""
    return MeOut(
        name=principal.name,
        scope=principal.scope,
        key_id=None if principal.is_session else principal.key_id,
        user_id=principal.user_id,
        node_id=principal.node_id,
        models=None if principal.models is None else list(principal.models),
        limits=[LimitOut(**asdict(limit)) for limit in principal.limits],
    )


@router.post("/users", status_code=201, response_model=UserOut)
async def create_user(request: Request, parts: PartsIn, admin: AdminIn, body: UserIn) -> Response:
    """A user. Without a password they hold keys or come in by the provider of the settings."""
    hashed = await parts.sessions.passwords.hashed(body.password) if body.password else None

    async def work(tx: Transaction) -> UserOut:
        wish = users.UserWish(name=body.name, scope=body.scope, password_hash=hashed)
        return _out(await users.create_user(tx, parts.ids, wish, admin.name))

    return await once(request, parts.database, admin, work)


@router.get("/users")
async def list_users(parts: PartsIn, _: AdminIn) -> list[UserOut]:
    """Every user by name."""
    async with parts.database.transaction() as tx:
        return [_out(user) for user in await store.list_users(tx)]


@router.get("/users/{user_id}")
async def show_user(parts: PartsIn, _: AdminIn, user_id: str) -> UserOut:
    """One user, and what they may."""
    async with parts.database.transaction() as tx:
        return _out(await store.get_user(tx, user_id))


@router.patch("/users/{user_id}")
async def change_user(parts: PartsIn, admin: AdminIn, user_id: str, body: UserPatch) -> UserOut:
    """Another scope or password, disabled or not: here before this answer, elsewhere a moment later."""
    change = users.UserChange()
    if body.scope is not None:
        change["scope"] = body.scope
    if body.disabled is not None:
        change["disabled"] = body.disabled
    if body.password is not None:
        change["password_hash"] = await parts.sessions.passwords.hashed(body.password)
    async with parts.database.transaction() as tx:
        changed = await users.change_user(tx, user_id, change, admin.name)
    await _reload(parts)
    return _out(changed)


@router.delete("/users/{user_id}")
async def delete_user(parts: PartsIn, admin: AdminIn, user_id: str) -> UserOut:
    """Gone with their keys and sessions. What they have used stays in the record."""
    async with parts.database.transaction() as tx:
        gone = await users.delete_user(tx, user_id, admin.name)
    await _reload(parts)
    return _out(gone)


async def _reload(parts: Parts) -> None:
    await parts.directory.load_keys()
    await parts.directory.load_sessions()


def _out(user: User) -> UserOut:
    return UserOut(**asdict(user))
