"""Stores secrets of users, keys and the cluster. Values are sealed before they come here (`access/secret_sealer.py`).

A secret goes with its user or key by a foreign key; those of the cluster have neither. `owner` is the text of the same,
which names are unique in.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, delete, func, insert, select, text, update

from corral.domain.access import Owner
from corral.domain.secret import StoredSecret
from corral.store.database import Transaction
from corral.store.schema import NOW, api_keys, secrets, users


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedRow:
    """A stored secret as read from PostgreSQL, still encrypted: owner, name, sealed value and the key's id."""

    id: str
    owner: Owner
    name: str
    sealed: bytes = field(repr=False)
    key_id: str


_DESCRIPTION = (
    secrets.c.id,
    secrets.c.name,
    secrets.c.created_at,
    secrets.c.updated_at,
    secrets.c.changed_by,
    secrets.c.last_used_at,
)
_SEALED = (
    secrets.c.id,
    secrets.c.user_id,
    secrets.c.key_ref,
    secrets.c.name,
    secrets.c.sealed,
    secrets.c.key_id,
)


def _to_secret(row: Any) -> StoredSecret:
    return StoredSecret(
        id=row.id,
        name=row.name,
        created_at=row.created_at,
        updated_at=row.updated_at,
        changed_by=row.changed_by,
        last_used_at=row.last_used_at,
    )


def _to_sealed(row: Any) -> SealedRow:
    owner = Owner(user_id=row.user_id, key_id=row.key_ref)
    return SealedRow(id=row.id, owner=owner, name=row.name, sealed=row.sealed, key_id=row.key_id)


def _is_of(owner: Owner) -> ColumnElement[bool]:
    return secrets.c.owner == str(owner)


async def lock_owner(tx: Transaction, owner: Owner) -> bool:
    """Return whether the owner exists, and a key is not revoked. Until the transaction ends it stays so, and no other
    transaction changes the secrets of this owner."""
    await tx.execute(text("SELECT pg_advisory_xact_lock(hashtextextended(:key, 2))"), {"key": str(owner)})
    if owner.user_id is not None:
        statement = select(users.c.id).where(users.c.id == owner.user_id)
    elif owner.key_id is not None:
        statement = select(api_keys.c.id).where(api_keys.c.id == owner.key_id, api_keys.c.revoked_at.is_(None))
    else:
        return True
    return (await tx.execute(statement.with_for_update(read=True))).one_or_none() is not None


async def list_secrets(tx: Transaction, owner: Owner) -> list[StoredSecret]:
    rows = await tx.execute(select(*_DESCRIPTION).where(_is_of(owner)).order_by(secrets.c.name))
    return [_to_secret(row) for row in rows]


async def count_secrets(tx: Transaction, owner: Owner) -> int:
    return int((await tx.execute(select(func.count()).select_from(secrets).where(_is_of(owner)))).scalar_one())


async def insert_secret(tx: Transaction, owner: Owner, values: dict[str, Any]) -> StoredSecret:
    statement = insert(secrets).values(**values, owner=str(owner), user_id=owner.user_id, key_ref=owner.key_id)
    return _to_secret((await tx.execute(statement.returning(*_DESCRIPTION))).one())


async def update_secret(tx: Transaction, owner: Owner, name: str, values: dict[str, Any]) -> StoredSecret | None:
    """Replace the value of a secret; return None if there is none of this name."""
    statement = update(secrets).where(_is_of(owner), secrets.c.name == name).values(**values, updated_at=NOW)
    row = (await tx.execute(statement.returning(*_DESCRIPTION))).one_or_none()
    return None if row is None else _to_secret(row)


async def delete_secret(tx: Transaction, owner: Owner, name: str) -> str | None:
    """Delete a secret and return its id; None if there is none of this name."""
    statement = delete(secrets).where(_is_of(owner), secrets.c.name == name).returning(secrets.c.id)
    return (await tx.execute(statement)).scalar_one_or_none()


async def delete_secrets_of_key(tx: Transaction, key_id: str) -> None:
    await tx.execute(delete(secrets).where(secrets.c.key_ref == key_id))


async def list_sealed(tx: Transaction, owner: Owner, names: Collection[str]) -> list[SealedRow]:
    """Return those secrets of these names that exist, sealed."""
    rows = await tx.execute(select(*_SEALED).where(_is_of(owner), secrets.c.name.in_(names)))
    return [_to_sealed(row) for row in rows]


# Locked in one order, so that two readers of the same secrets cannot block each other. A secret in constant use is
# written once a minute.
_RECORD_USES = text("""
    WITH used AS (
        SELECT id FROM secrets
         WHERE id = ANY(CAST(:ids AS uuid[]))
           AND (last_used_at IS NULL OR last_used_at < corral_now() - interval '1 minute')
         ORDER BY id
           FOR NO KEY UPDATE
    )
    UPDATE secrets s SET last_used_at = corral_now() FROM used WHERE s.id = used.id
""")


async def record_uses(tx: Transaction, ids: Collection[str]) -> None:
    """Record that these secrets were used now."""
    await tx.execute(_RECORD_USES, {"ids": sorted(ids)})


async def list_sealed_with(
    tx: Transaction, key_ids: Collection[str], limit: int, after_id: str | None
) -> list[SealedRow]:
    """Return secrets of all owners that one of these keys has sealed, by id, those after `after_id`."""
    statement = select(*_SEALED).where(secrets.c.key_id.in_(key_ids)).order_by(secrets.c.id).limit(limit)
    rows = await tx.execute(statement if after_id is None else statement.where(secrets.c.id > after_id))
    return [_to_sealed(row) for row in rows]


async def replace_sealed(tx: Transaction, row: SealedRow, sealed: bytes, key_id: str) -> bool:
    """Store the same value in its new seal, unless it was changed meanwhile; return whether it was stored."""
    is_unchanged = (secrets.c.id == row.id) & (secrets.c.sealed == row.sealed)
    stored = await tx.execute(update(secrets).where(is_unchanged).values(sealed=sealed, key_id=key_id))
    return stored.rowcount == 1
