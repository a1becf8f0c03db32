"""API keys: what people and their programs show to be let in."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypedDict

import structlog

from corral.access.secrets import hash_secret, make_secret, shown_prefix
from corral.domain.access import ADMIN_KEY_PREFIX, ApiKey, KeyLimit, Scope, SecretState
from corral.domain.errors import Conflict
from corral.ports.runtime import Ids
from corral.store import access as store
from corral.store import access_users as user_store
from corral.store import outbox
from corral.store.database import Transaction

log = structlog.get_logger(__name__)

_REPLACE_GIVEN = "Set a key that works, or a secret that was never used before: the next start makes a key of it."


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyWish:
    name: str
    scope: Scope = Scope.INFER
    user_id: str | None = None
    models: tuple[str, ...] | None = None
    limits: tuple[KeyLimit, ...] = ()
    expires_in_s: float | None = None


# Where somebody finds a key again when no admin key is left.
WAY_BACK = (
    "Afterwards `corral keys recover` makes a new admin key, on the machine of `corral up` or with the address of the"
    " database."
)


class KeyChange(TypedDict, total=False):
    """What shall be different; what is not named stays."""

    name: str
    scope: Scope
    models: tuple[str, ...] | None
    limits: tuple[KeyLimit, ...]
    # From now on; None: it does not expire.
    expires_in_s: float | None


@asynccontextmanager
async def keeping_a_way_in(tx: Transaction, *, allows_none: bool = False, hint: str = "") -> AsyncIterator[None]:
    """Raise `Conflict` at the end of the block if it has left no admin key that works, unless `allows_none`.

    `hint` is told in addition to the advice to make another key first.
    """
    # Two who take away the last two keys at once would each see the other's key.
    await store.lock_admin_keys(tx)
    before = await store.count_active_admin_keys(tx)
    yield
    if not allows_none and before > 0 and await store.count_active_admin_keys(tx) == 0:
        raise Conflict(
            "This is the last admin key that works; without it nobody could administer the cluster.",
            hint=f"Make another first with `corral keys create NAME --admin`. {hint}".rstrip(),
            code="last_key",
        )


async def create_key(tx: Transaction, ids: Ids, wish: KeyWish, actor: str) -> tuple[ApiKey, str]:
    """The key and, this once, its secret."""
    secret = make_secret(ADMIN_KEY_PREFIX, ids)
    row = _row(ids, wish.name, secret, actor) | {
        "scope": wish.scope,
        "user_id": wish.user_id,
        "models": wish.models,
    }
    key = await store.insert_key(tx, row, wish.expires_in_s)
    await store.put_limits(tx, key.id, wish.limits)
    await store.record(tx, actor, "key.create", key.id, wish.name)
    await outbox.append(tx, "key.created", key.id, {"name": wish.name})
    return await store.get_key(tx, key.id), secret


async def check_name_is_free(tx: Transaction, name: str, user_id: str | None, key_id: str | None = None) -> None:
    """Raise `Conflict` if another key of the same user has this name and works: nobody could tell the two apart."""
    same = await store.find_active_key(tx, name, user_id)
    if same is not None and same.id != key_id:
        raise Conflict(
            f"There is a key named {name} already ({same.prefix}…, scope {same.scope}).",
            hint=f"Choose another name; `corral keys rotate {same.id}` gives that key a new secret.",
            code="key_name_taken",
        )


async def change_key(tx: Transaction, key_id: str, change: KeyChange, actor: str) -> ApiKey:
    async with keeping_a_way_in(tx):
        before = await store.lock_key(tx, key_id)
        if before.state is SecretState.REVOKED:
            raise _stays_revoked()
        if before.node_id is not None and "scope" in change:
            raise Conflict("The key of an agent node may only ask models.", code="key_of_node")
        if "name" in change:
            await check_name_is_free(tx, change["name"], before.user_id, key_id)
        values = {name: value for name, value in change.items() if name in ("name", "scope", "models")}
        if values:
            await store.update_key(tx, key_id, values)
        if "limits" in change:
            await store.put_limits(tx, key_id, change["limits"])
        if "expires_in_s" in change:
            await store.set_expiry(tx, key_id, change["expires_in_s"])
    key = await store.get_key(tx, key_id)
    await store.record(tx, actor, "key.change", key_id, key.name)
    await outbox.append(tx, "key.changed", key_id, {"name": key.name})
    return key


async def rotate_key(
    tx: Transaction, ids: Ids, key_id: str, actor: str, grace_s: float | None = None
) -> tuple[ApiKey, str]:
    """Give the key a new secret. The old one, and the sessions that it opened, end at once or after the grace."""
    before = await store.lock_key(tx, key_id)
    if before.state is SecretState.REVOKED:
        raise _stays_revoked()
    secret = make_secret(ADMIN_KEY_PREFIX, ids)
    await store.retire_secrets(tx, key_id=key_id)
    await user_store.shorten_sessions(tx, key_id, grace_s)
    key = await store.rotate_key(tx, key_id, hash_secret(secret), shown_prefix(secret), grace_s)
    await store.record(tx, actor, "key.rotate", key_id, key.name)
    await outbox.append(tx, "key.rotated", key_id, {"name": key.name})
    return key, secret


async def revoke_key(tx: Transaction, key_id: str, actor: str, *, allows_none: bool = False) -> ApiKey:
    """Revoke the key for good. The last admin key that works is revoked only with `allows_none`."""
    async with keeping_a_way_in(tx, allows_none=allows_none, hint=f"Or revoke it with ?last=true. {WAY_BACK}"):
        key = await store.revoke_key(tx, key_id)
    await store.record(tx, actor, "key.revoke", key_id, key.name)
    await outbox.append(tx, "key.revoked", key_id, {"name": key.name})
    return key


def _stays_revoked() -> Conflict:
    return Conflict(
        "A revoked key stays revoked.", hint="Make a new one with `corral keys create`.", code="key_revoked"
    )


async def ensure_first_key(tx: Transaction, ids: Ids, given: str | None) -> str | None:
    """At boot: make the key of the settings valid unless it was taken away; without one, make one on an empty database.

    Returns the secret only if it was made here and nobody has seen it yet.
    """
    if given is not None:
        await _ensure_given(tx, ids, given)
        return None
    if await store.has_admin_key(tx):
        return None
    _, secret = await create_key(tx, ids, KeyWish(name="admin", scope=Scope.ADMIN), "first start")
    return secret


async def _ensure_given(tx: Transaction, ids: Ids, given: str) -> None:
    """Make the secret of the settings an admin key, unless a key has or had it: it may have been taken away since."""
    if await store.is_retired(tx, hash_secret(given)):
        log.warning("the admin key of the settings was replaced by a rotation and does not work", hint=_REPLACE_GIVEN)
        return
    row = _row(ids, "admin", given, "settings") | {"scope": Scope.ADMIN}
    if await store.ensure_key(tx, row):
        await outbox.append(tx, "key.created", "admin", {"name": "admin"})
    elif await store.find_principal(tx, hash_secret(given)) is None:
        log.warning("the admin key of the settings was revoked or has expired and does not work", hint=_REPLACE_GIVEN)


async def issue_node_key(tx: Transaction, ids: Ids, node_id: str, node_name: str) -> str:
    """An agent node's own key; the one before it goes in the same transaction."""
    await store.delete_node_keys(tx, node_id)
    secret = make_secret(ADMIN_KEY_PREFIX, ids)
    row = _row(ids, f"agent {node_name}"[:100], secret, "registration") | {"node_id": node_id, "scope": Scope.INFER}
    key = await store.insert_key(tx, row)
    await outbox.append(tx, "key.created", key.id, {"name": key.name})
    return secret


def _row(ids: Ids, name: str, secret: str, actor: str) -> dict[str, object]:
    return {
        "id": ids.new_id(),
        "name": name,
        "hash": hash_secret(secret),
        "prefix": shown_prefix(secret),
        "created_by": actor,
    }
