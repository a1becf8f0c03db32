"""Creates, changes, rotates and revokes API keys."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypedDict

import structlog

from corral.access.secrets import hash_secret, make_secret, make_shown_prefix
from corral.domain.access import ADMIN_KEY_PREFIX, ApiKey, KeyLimit, Scope, SecretState
from corral.domain.errors import Conflict
from corral.ports.runtime import IdGenerator
from corral.store import access as store
from corral.store import outbox
from corral.store import secrets as secret_store
from corral.store.database import Transaction

log = structlog.get_logger(__name__)

_REPLACE_CONFIGURED_HINT = (
    "Set a key that works, or a secret that was never used before: the next start makes a key of it."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySpec:
    """Values with which an API key is created: its name, scope, user, models, limits and lifetime."""

    name: str
    scope: Scope = Scope.INFER
    user_id: str | None = None
    models: tuple[str, ...] | None = None
    limits: tuple[KeyLimit, ...] = ()
    expires_in_s: float | None = None


# How to get a new key when no admin key is left.
RECOVERY_HINT = (
    "Afterwards `corral keys recover` makes a new admin key, on the machine of `corral up` or with the address of the"
    " database."
)


class KeyChange(TypedDict, total=False):
    """Fields of an API key that are to change; a field that is absent stays."""

    name: str
    scope: Scope
    models: tuple[str, ...] | None
    limits: tuple[KeyLimit, ...]
    # Counted from now; None: the key does not expire.
    expires_in_s: float | None


@asynccontextmanager
async def ensure_admin_key_remains(
    tx: Transaction, *, allows_none: bool = False, hint: str = ""
) -> AsyncIterator[None]:
    """Raise `Conflict` at the end of the block if it has left no admin key that works, unless `allows_none`.

    `hint` is added to the advice to make another key first.
    """
    # Locked, because two requests that revoke the last two admin keys at once would each see the other key.
    await store.lock_admin_keys(tx)
    previous_count = await store.count_active_admin_keys(tx)
    yield
    if not allows_none and previous_count > 0 and await store.count_active_admin_keys(tx) == 0:
        raise Conflict(
            "This is the last working admin key; without it the cluster could not be administered.",
            hint=f"Make another first with `corral keys create NAME --admin`. {hint}".rstrip(),
            code="last_key",
        )


async def create_key(tx: Transaction, ids: IdGenerator, spec: KeySpec, actor: str) -> tuple[ApiKey, str]:
    """Create a key and return it with its secret, which is not stored."""
    secret = make_secret(ADMIN_KEY_PREFIX, ids)
    row = _make_row(ids, spec.name, secret, actor) | {
        "scope": spec.scope,
        "user_id": spec.user_id,
        "models": spec.models,
    }
    key = await store.insert_key(tx, row, spec.expires_in_s)
    await store.put_limits(tx, key.id, spec.limits)
    await store.record_audit(tx, actor, "key.create", key.id, spec.name)
    await outbox.append(tx, "key.created", key.id, {"name": spec.name})
    return await store.get_key(tx, key.id), secret


async def check_name_is_free(tx: Transaction, name: str, user_id: str | None, key_id: str | None = None) -> None:
    """Raise `Conflict` if another valid key of the same user has this name."""
    same = await store.find_active_key(tx, name, user_id)
    if same is not None and same.id != key_id:
        raise Conflict(
            f"There already is a key named {name} ({same.prefix}…, scope {same.scope}).",
            hint=f"Choose another name; `corral keys rotate {same.id}` gives that key a new secret.",
            code="key_name_taken",
        )


async def change_key(tx: Transaction, key_id: str, change: KeyChange, actor: str) -> ApiKey:
    async with ensure_admin_key_remains(tx):
        previous = await store.lock_key(tx, key_id)
        if previous.state is SecretState.REVOKED:
            raise _make_revoked_error()
        if previous.node_id is not None and "scope" in change:
            raise Conflict("The key of an agent node is limited to inference.", code="key_of_node")
        if "name" in change:
            await check_name_is_free(tx, change["name"], previous.user_id, key_id)
        values = {name: value for name, value in change.items() if name in ("name", "scope", "models")}
        if values:
            await store.update_key(tx, key_id, values)
        if "limits" in change:
            await store.put_limits(tx, key_id, change["limits"])
        if "expires_in_s" in change:
            await store.set_expiry(tx, key_id, change["expires_in_s"])
    key = await store.get_key(tx, key_id)
    await store.record_audit(tx, actor, "key.change", key_id, key.name)
    await outbox.append(tx, "key.changed", key_id, {"name": key.name})
    return key


async def rotate_key(
    tx: Transaction, ids: IdGenerator, key_id: str, actor: str, grace_s: float | None = None
) -> tuple[ApiKey, str]:
    """Replace the secret of a key. The old secret, and the sessions that it opened, end at once or after the grace
    period."""
    previous = await store.lock_key(tx, key_id)
    if previous.state is SecretState.REVOKED:
        raise _make_revoked_error()
    secret = make_secret(ADMIN_KEY_PREFIX, ids)
    await store.retire_secrets(tx, key_id=key_id)
    await store.shorten_sessions(tx, key_id, grace_s)
    key = await store.rotate_key(tx, key_id, hash_secret(secret), make_shown_prefix(secret), grace_s)
    await store.record_audit(tx, actor, "key.rotate", key_id, key.name)
    await outbox.append(tx, "key.rotated", key_id, {"name": key.name})
    return key, secret


async def revoke_key(tx: Transaction, key_id: str, actor: str, *, allows_none: bool = False) -> ApiKey:
    """Revoke the key for good, and delete the secrets that belong to it. The last admin key that works is revoked only
    with `allows_none`."""
    async with ensure_admin_key_remains(
        tx, allows_none=allows_none, hint=f"Or revoke it with ?last=true. {RECOVERY_HINT}"
    ):
        key = await store.revoke_key(tx, key_id)
        # A revoked key stays revoked, so the secrets that belong to it could not be used again.
        await secret_store.delete_secrets_of_key(tx, key.id)
    await store.record_audit(tx, actor, "key.revoke", key_id, key.name)
    await outbox.append(tx, "key.revoked", key_id, {"name": key.name})
    return key


def _make_revoked_error() -> Conflict:
    return Conflict(
        "A revoked key stays revoked.", hint="Make a new one with `corral keys create`.", code="key_revoked"
    )


async def ensure_first_key(tx: Transaction, ids: IdGenerator, configured_secret: str | None) -> str | None:
    """Ensure at boot that there is an admin key: make the key of the settings valid unless it was revoked; without one,
    create a key if the database is empty.

    Returns the secret only if the key was created here, so that it can be shown. Of frontends that start together on an
    empty database, one creates a key and the others find it.
    """
    await store.lock_first_key(tx)
    if configured_secret is not None:
        await _ensure_configured_key(tx, ids, configured_secret)
        return None
    if await store.has_admin_key(tx):
        log.info(
            "the cluster has an admin key, so none was made",
            hint="The frontend that made it has printed it; `corral keys recover` makes another one.",
        )
        return None
    _, secret = await create_key(tx, ids, KeySpec(name="admin", scope=Scope.ADMIN), "first start")
    return secret


async def _ensure_configured_key(tx: Transaction, ids: IdGenerator, secret: str) -> None:
    """Make the secret of the settings an admin key, unless a key has or had it: it may have been taken away since."""
    row = _make_row(ids, "admin", secret, "settings") | {"scope": Scope.ADMIN}
    is_new = await store.ensure_key(tx, row)
    # Checked afterwards: a concurrent rotation has delayed the insert, and is visible only now.
    if await store.is_retired_secret(tx, hash_secret(secret)):
        if is_new:
            await store.delete_key(tx, str(row["id"]))
        log.warning(
            "the admin key of the settings was replaced by a rotation and does not work", hint=_REPLACE_CONFIGURED_HINT
        )
    elif is_new:
        await store.record_audit(tx, "settings", "key.create", str(row["id"]), "admin")
        await outbox.append(tx, "key.created", "admin", {"name": "admin"})
    elif await store.find_principal(tx, hash_secret(secret)) is None:
        log.warning(
            "the admin key of the settings was revoked or has expired and does not work", hint=_REPLACE_CONFIGURED_HINT
        )


async def issue_node_key(tx: Transaction, ids: IdGenerator, node_id: str, node_name: str) -> str:
    """Create the key of an agent node and return its secret. The previous key is deleted in the same transaction."""
    await store.delete_node_keys(tx, node_id)
    secret = make_secret(ADMIN_KEY_PREFIX, ids)
    row = _make_row(ids, f"agent {node_name}"[:100], secret, "registration") | {
        "node_id": node_id,
        "scope": Scope.INFER,
    }
    key = await store.insert_key(tx, row)
    await outbox.append(tx, "key.created", key.id, {"name": key.name})
    return secret


def _make_row(ids: IdGenerator, name: str, secret: str, actor: str) -> dict[str, object]:
    return {
        "id": ids.new_id(),
        "name": name,
        "hash": hash_secret(secret),
        "prefix": make_shown_prefix(secret),
        "created_by": actor,
    }
