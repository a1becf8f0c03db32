"""Routes about access: API keys, join tokens, users, the caller (`/api/me`), and the audit log. Sign-in is
`sessions.py`.

The audit log is for admins only, because it names people.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from corral.access import keys, tokens, users
from corral.api.deps import AdminIn, AnyCallerIn, ApiDeps, DepsIn
from corral.api.idempotency import create_once
from corral.domain.access import KeyLimit, User
from corral.domain.errors import NotFound
from corral.store import access as store
from corral.store.database import Transaction
from corral.wire.access import (
    AuditEntryOut,
    AuditOut,
    CallerOut,
    CreatedKeyOut,
    CreatedTokenOut,
    KeyIn,
    KeyOut,
    KeyPatch,
    LimitIn,
    LimitOut,
    RotateIn,
    TokenIn,
    TokenOut,
    UserIn,
    UserOut,
    UserPatch,
)

router = APIRouter(prefix="/api", tags=["access"])
RevokeLastQuery = Annotated[bool, Query(description="Revoke the key even if it is the last working admin key.")]
_audit_router = APIRouter(prefix="/api/audit", tags=["cluster"])


@router.post("/keys", status_code=201, response_model=CreatedKeyOut)
async def create_key(request: Request, deps: DepsIn, admin: AdminIn, body: KeyIn) -> Response:
    """Create an API key, for inference unless `scope` allows more. The secret is in this response and nowhere else.

    409 `key_name_taken` if a working key of the same user has the name.
    """

    async def work(tx: Transaction) -> CreatedKeyOut:
        spec = keys.KeySpec(
            name=body.name,
            scope=body.scope,
            user_id=await _find_user_id(tx, body.user),
            models=_to_patterns(body.models),
            limits=_to_limits(body.limits),
            expires_in_s=body.expires_in_s,
        )
        await keys.check_name_is_free(tx, spec.name, spec.user_id)
        key, secret = await keys.create_key(tx, deps.ids, spec, admin.name)
        return CreatedKeyOut(**asdict(key), key=secret)

    return await create_once(request, deps.database, admin, work)


@router.get("/keys")
async def list_keys(deps: DepsIn, _: AdminIn) -> list[KeyOut]:
    """List the API keys with their state, oldest first. Secrets are not included."""
    async with deps.database.transaction() as tx:
        return [KeyOut(**asdict(key)) for key in await store.list_keys(tx)]


@router.get("/keys/{key_id}")
async def show_key(deps: DepsIn, _: AdminIn, key_id: str) -> KeyOut:
    """Show one API key with its scope, models and limits."""
    async with deps.database.transaction() as tx:
        return KeyOut(**asdict(await store.get_key(tx, key_id)))


@router.patch("/keys/{key_id}")
async def change_key(deps: DepsIn, admin: AdminIn, key_id: str, body: KeyPatch) -> KeyOut:
    """Change the scope, models or limits of a key: at this frontend at once, at the others a moment later."""
    change = keys.KeyChange()
    for name in body.model_fields_set:
        match name:
            case "models":
                change["models"] = _to_patterns(body.models)
            case "limits":
                change["limits"] = _to_limits(body.limits)
            case "name":
                change["name"] = body.name
            case "scope":
                change["scope"] = body.scope
            case "expires_in_s":
                change["expires_in_s"] = body.expires_in_s
    async with deps.database.transaction() as tx:
        changed = await keys.change_key(tx, key_id, change, admin.name)
    await deps.directory.load_keys()
    return KeyOut(**asdict(changed))


@router.post("/keys/{key_id}/rotate", status_code=201, response_model=CreatedKeyOut)
async def rotate_key(
    request: Request, deps: DepsIn, admin: AdminIn, key_id: str, body: RotateIn | None = None
) -> Response:
    """Give a key a new secret. The old secret stops working after the grace period; without one, at this frontend at
    once and at the others a moment later. Sessions that were opened with the old secret end with it."""
    grace_s = body.grace_s if body else None

    async def work(tx: Transaction) -> CreatedKeyOut:
        key, secret = await keys.rotate_key(tx, deps.ids, key_id, admin.name, grace_s)
        return CreatedKeyOut(**asdict(key), key=secret)

    answer = await create_once(request, deps.database, admin, work)
    await deps.directory.load_keys()
    await deps.directory.load_sessions({key_id})
    return answer


@router.delete("/keys/{key_id}")
async def revoke_key(deps: DepsIn, admin: AdminIn, key_id: str, *, last: RevokeLastQuery = False) -> KeyOut:
    """Revoke a key: at this frontend at once, at the others a moment later. Sessions that were opened with it end, and
    secrets that belong to it are deleted. For the last working admin key this fails with 409 `last_key`, unless
    `last=true` is given.
    """
    async with deps.database.transaction() as tx:
        revoked = await keys.revoke_key(tx, key_id, admin.name, allows_none=last)
    await deps.directory.load_keys()
    return KeyOut(**asdict(revoked))


async def _find_user_id(tx: Transaction, name: str | None) -> str | None:
    if name is None:
        return None
    user = await store.find_by_name(tx, name)
    if user is None:
        raise NotFound(
            f"There is no user named {name}.", hint="`corral users list` shows the users.", code="user_not_found"
        )
    return user.id


def _to_patterns(models: list[str] | None) -> tuple[str, ...] | None:
    return None if models is None else tuple(models)


def _to_limits(limits: list[LimitIn]) -> tuple[KeyLimit, ...]:
    return tuple(KeyLimit(**limit.model_dump()) for limit in limits)


@router.post("/tokens", status_code=201, response_model=CreatedTokenOut)
async def create_token(request: Request, deps: DepsIn, admin: AdminIn, body: TokenIn) -> Response:
    """Create a join token for new machines. The secret is in this response and nowhere else."""
    spec = tokens.JoinTokenSpec(
        name=body.name, max_uses=body.max_uses, expires_in_s=body.expires_in_s, approves=body.approves
    )

    async def work(tx: Transaction) -> CreatedTokenOut:
        token, secret = await tokens.create_token(tx, deps.ids, spec, admin.name)
        return CreatedTokenOut(**asdict(token), token=secret)

    return await create_once(request, deps.database, admin, work)


@router.get("/tokens")
async def list_tokens(deps: DepsIn, _: AdminIn) -> list[TokenOut]:
    """List the join tokens with their uses and state, oldest first. Secrets are not included."""
    async with deps.database.transaction() as tx:
        return [TokenOut(**asdict(token)) for token in await store.list_tokens(tx)]


@router.delete("/tokens/{token_id}")
async def revoke_token(deps: DepsIn, admin: AdminIn, token_id: str) -> TokenOut:
    """Revoke a join token: no more machines can join with it. Machines that have joined stay."""
    async with deps.database.transaction() as tx:
        return TokenOut(**asdict(await tokens.revoke_token(tx, token_id, admin.name)))


@router.get("/me")
async def show_caller(principal: AnyCallerIn) -> CallerOut:
    """Show the caller and their scope."""
    return CallerOut(
        name=principal.name,
        scope=principal.scope,
        key_id=None if principal.is_session else principal.key_id,
        user_id=principal.user_id,
        node_id=principal.node_id,
        models=None if principal.models is None else list(principal.models),
        limits=[LimitOut(**asdict(limit)) for limit in principal.limits],
    )


@router.post("/users", status_code=201, response_model=UserOut)
async def create_user(request: Request, deps: DepsIn, admin: AdminIn, body: UserIn) -> Response:
    """Create a user. Without a password, the user can only have keys or sign in through the OpenID Connect provider."""
    hashed = await deps.sessions.passwords.hash_password(body.password) if body.password else None

    async def work(tx: Transaction) -> UserOut:
        spec = users.UserSpec(name=body.name, scope=body.scope, password_hash=hashed)
        return _to_wire(await users.create_user(tx, deps.ids, spec, admin.name))

    return await create_once(request, deps.database, admin, work)


@router.get("/users")
async def list_users(deps: DepsIn, _: AdminIn) -> list[UserOut]:
    """List the users by name."""
    async with deps.database.transaction() as tx:
        return [_to_wire(user) for user in await store.list_users(tx)]


@router.get("/users/{user_id}")
async def show_user(deps: DepsIn, _: AdminIn, user_id: str) -> UserOut:
    """Show one user with their scope."""
    async with deps.database.transaction() as tx:
        return _to_wire(await store.get_user(tx, user_id))


@router.patch("/users/{user_id}")
async def change_user(deps: DepsIn, admin: AdminIn, user_id: str, body: UserPatch) -> UserOut:
    """Change the scope or password of a user, or disable them: at this frontend at once, at the others a moment
    later."""
    change = users.UserChange()
    if body.scope is not None:
        change["scope"] = body.scope
    if body.disabled is not None:
        change["disabled"] = body.disabled
    if body.password is not None:
        change["password_hash"] = await deps.sessions.passwords.hash_password(body.password)
    async with deps.database.transaction() as tx:
        changed = await users.change_user(tx, user_id, change, admin.name)
    await _reload_directory(deps)
    return _to_wire(changed)


@router.delete("/users/{user_id}")
async def delete_user(deps: DepsIn, admin: AdminIn, user_id: str) -> UserOut:
    """Delete a user with their keys, sessions and secrets. The record of their usage stays."""
    async with deps.database.transaction() as tx:
        deleted = await users.delete_user(tx, user_id, admin.name)
    await _reload_directory(deps)
    return _to_wire(deleted)


async def _reload_directory(deps: ApiDeps) -> None:
    await deps.directory.load_keys()
    await deps.directory.load_sessions()


def _to_wire(user: User) -> UserOut:
    return UserOut(**asdict(user))


@_audit_router.get("")
async def list_audit(
    deps: DepsIn,
    _: AdminIn,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
    before: Annotated[int | None, Query(ge=1, le=2**62, description="The `next` of the previous page.")] = None,
) -> AuditOut:
    """List the audit log page by page, newest first. Later entries never change a page that was read."""
    async with deps.database.transaction() as tx:
        # One more than is returned, to see whether there is a next page.
        rows = await store.list_audit(tx, limit + 1, before_id=before)
    entries = [AuditEntryOut(**row) for row in rows[:limit]]
    return AuditOut(entries=entries, next=entries[-1].id if len(rows) > limit else None)


router.routes.extend(_audit_router.routes)
