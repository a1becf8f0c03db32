"""API keys: what people and their programs show to be let in."""

from __future__ import annotations

from corral.access.secrets import hash_secret, make_secret, shown_prefix
from corral.domain.access import ADMIN_KEY_PREFIX, ApiKey, SecretState
from corral.domain.errors import Conflict
from corral.ports.runtime import Ids
from corral.store import access as store
from corral.store import outbox
from corral.store.database import Transaction


async def create_key(
    tx: Transaction, ids: Ids, name: str, actor: str, *, expires_in_s: float | None = None
) -> tuple[ApiKey, str]:
    """The key and, this once, its secret."""
    secret = make_secret(ADMIN_KEY_PREFIX, ids)
    key = await store.insert_key(tx, _row(ids, name, secret, actor), expires_in_s)
    await store.record(tx, actor, "key.create", key.id, name)
    await outbox.append(tx, "key.created", key.id, {"name": name})
    return key, secret


async def rotate_key(tx: Transaction, ids: Ids, key_id: str, actor: str) -> tuple[ApiKey, str]:
    """The same key with a new secret; the old one stops working at once."""
    before = await store.get_key(tx, key_id)
    if before.state is SecretState.REVOKED:
        raise Conflict(
            "A revoked key stays revoked.", hint="Make a new one with `corral keys create`.", code="key_revoked"
        )
    secret = make_secret(ADMIN_KEY_PREFIX, ids)
    key = await store.rotate_key(tx, key_id, hash_secret(secret), shown_prefix(secret))
    await store.record(tx, actor, "key.rotate", key_id, key.name)
    await outbox.append(tx, "key.rotated", key_id, {"name": key.name})
    return key, secret


async def revoke_key(tx: Transaction, key_id: str, actor: str) -> ApiKey:
    # Two who revoke the last two keys at once would each see the other's key.
    await store.lock_admin_keys(tx)
    before = await store.get_key(tx, key_id)
    is_active_admin = before.state is SecretState.ACTIVE and before.node_id is None
    if is_active_admin and await store.count_active_admin_keys(tx) == 1:
        raise Conflict(
            "This is the last key that works; without it nobody could get in.",
            hint="Make another first with `corral keys create`.",
            code="last_key",
        )
    key = await store.revoke_key(tx, key_id)
    await store.record(tx, actor, "key.revoke", key_id, key.name)
    await outbox.append(tx, "key.revoked", key_id, {"name": key.name})
    return key


async def ensure_first_key(tx: Transaction, ids: Ids, given: str | None) -> str | None:
    """At boot: the key from the settings is made valid; on an empty database without one, a key is made.

    Returns the secret only if it was made here and nobody has seen it yet.
    """
    if given is not None:
        if await store.ensure_key(tx, _row(ids, "admin", given, "settings")):
            await outbox.append(tx, "key.created", "admin", {"name": "admin"})
        return None
    if await store.has_admin_key(tx):
        return None
    _, secret = await create_key(tx, ids, "admin", "first start")
    return secret


async def issue_node_key(tx: Transaction, ids: Ids, node_id: str, node_name: str) -> str:
    """An agent node's own key; the one before it goes in the same transaction."""
    await store.delete_node_keys(tx, node_id)
    secret = make_secret(ADMIN_KEY_PREFIX, ids)
    row = _row(ids, f"agent {node_name}"[:100], secret, "registration") | {"node_id": node_id}
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
