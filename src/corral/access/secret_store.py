"""Stores secrets of users, keys and the cluster, and returns their values to the parts of a frontend that need them.

Guarantee: a value leaves this store only by `resolve`, and is written nowhere unsealed: not in a row, an audit entry,
an event or an error. Events name a secret by its id alone, because operators read the events of all owners. Limits: an
owner has at most 100 secrets; a thief of both the key file and the database can read all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import structlog

from corral.access.secret_sealer import SealedValue, SecretSealer, SecretUnreadable
from corral.domain.access import CLUSTER, Owner
from corral.domain.errors import Conflict, NotAuthenticated, NotFound, Unavailable
from corral.domain.secret import (
    SECRETS_OF_OWNER_MAX,
    SecretScope,
    SecretValue,
    StoredSecret,
    check_secret_name,
    check_secret_value,
    is_secret_name,
)
from corral.policy.secret_references import SecretReference
from corral.ports.runtime import IdGenerator
from corral.store import access as access_store
from corral.store import outbox
from corral.store import secrets as store
from corral.store.database import Database, Transaction
from corral.store.secrets import SealedRow

log = structlog.get_logger(__name__)

# A few megabytes at most, and a transaction of milliseconds.
RESEAL_BATCH = 50


class NoSecretsKey(Unavailable):
    """This frontend has no key with which it could encrypt stored secrets."""

    code = "no_secrets_key"
    retryable = False


class SecretStore:
    """Puts, lists, deletes and resolves stored secrets of users. Without a sealer it lists and deletes only."""

    def __init__(self, database: Database, ids: IdGenerator, sealer: SecretSealer | None) -> None:
        self._database = database
        self._ids = ids
        self._sealer = sealer

    async def put(self, owner: Owner, name: str, value: SecretValue, actor: str) -> StoredSecret:
        """Store a value under a name, and replace the previous one."""
        check_secret_name(name)
        check_secret_value(value.text)
        sealed = self._require_sealer().seal(owner, name, value)
        values = {"sealed": sealed.content, "key_id": sealed.key_id, "changed_by": actor[:255]}
        async with self._database.transaction() as tx:
            await _lock_owner(tx, owner)
            stored = await store.update_secret(tx, owner, name, values)
            if stored is None:
                await _check_room(tx, owner)
                stored = await store.insert_secret(tx, owner, values | {"id": self._ids.new_id(), "name": name})
            await access_store.record_audit(tx, actor, "secret.put", stored.id, _make_reference(owner, name))
            await outbox.append(tx, "secret.changed", stored.id)
        return stored

    async def list(self, owner: Owner) -> list[StoredSecret]:
        """Return the secrets of an owner by name, without their values."""
        async with self._database.transaction() as tx:
            return await store.list_secrets(tx, owner)

    async def delete(self, owner: Owner, name: str, actor: str) -> None:
        if not is_secret_name(name):
            raise _make_not_found_error(owner, ())
        async with self._database.transaction() as tx:
            secret_id = await store.delete_secret(tx, owner, name)
            if secret_id is None:
                raise _make_not_found_error(owner, (name,))
            await access_store.record_audit(tx, actor, "secret.delete", secret_id, _make_reference(owner, name))
            await outbox.append(tx, "secret.deleted", secret_id)

    async def resolve(self, owner: Owner, names: Collection[str]) -> dict[str, SecretValue]:
        """Return the values of these secrets by name, and record that they were used.

        Raises `NotFound` with the names that do not exist, and `SecretUnreadable` with the name of one that no key of
        this frontend opens. The caller decides who may be given a value: pass `CLUSTER` for configurations of admins
        only.
        """
        if not names:
            return {}
        sealer = self._require_sealer()
        async with self._database.transaction() as tx:
            rows = await store.list_sealed(tx, owner, names)
        missing = set(names).difference(row.name for row in rows)
        if missing:
            raise _make_not_found_error(owner, missing)
        # Opened for the owner and the name that were requested, whatever the row says.
        values = {row.name: sealer.open(owner, row.name, _to_sealed_value(row)) for row in rows}
        async with self._database.transaction() as tx:
            await store.record_uses(tx, [row.id for row in rows])
        return values

    async def reseal(self) -> int:
        """Seal every value with the first key that an older key of the file has sealed; return how many. Called at the
        start, so that the older key can be removed from the file afterwards. Harmless if several frontends do it."""
        if self._sealer is None or not self._sealer.older_key_ids:
            return 0
        resealed, last_id = 0, None
        while True:
            async with self._database.transaction() as tx:
                rows = await store.list_sealed_with(tx, self._sealer.older_key_ids, RESEAL_BATCH, last_id)
            if not rows:
                return resealed
            last_id = rows[-1].id
            resealed += await self._reseal_rows(self._sealer, rows)

    async def _reseal_rows(self, sealer: SecretSealer, rows: Iterable[SealedRow]) -> int:
        sealed: list[tuple[SealedRow, SealedValue]] = []
        for row in rows:
            try:
                value = sealer.open(row.owner, row.name, _to_sealed_value(row))
            except SecretUnreadable:
                log.warning("a secret cannot be opened and was not sealed again", id=row.id, owner=str(row.owner))
            else:
                sealed.append((row, sealer.seal(row.owner, row.name, value)))
        async with self._database.transaction() as tx:
            return sum([await store.replace_sealed(tx, row, new.content, new.key_id) for row, new in sealed])

    def _require_sealer(self) -> SecretSealer:
        if self._sealer is None:
            raise NoSecretsKey(
                "This frontend cannot seal secrets, because it has no key for them.",
                hint="Set secrets_key_file of every frontend to the same file, and start them again; "
                "`openssl rand -hex 32` makes a key. `corral up` does all of this itself.",
            )
        return self._sealer


async def _lock_owner(tx: Transaction, owner: Owner) -> None:
    if not await store.lock_owner(tx, owner):
        # The caller's user or key has just been deleted or revoked.
        raise NotAuthenticated(
            "The user or key that the secret would belong to no longer exists.", hint="Sign in again."
        )


async def _check_room(tx: Transaction, owner: Owner) -> None:
    if await store.count_secrets(tx, owner) >= SECRETS_OF_OWNER_MAX:
        raise Conflict(
            f"There are {SECRETS_OF_OWNER_MAX} secrets already, which is the limit.",
            hint=f"Delete one with `corral secrets delete{_get_flag(owner)} NAME`.",
            code="too_many_secrets",
        )


def _to_sealed_value(row: SealedRow) -> SealedValue:
    return SealedValue(content=row.sealed, key_id=row.key_id)


def _make_reference(owner: Owner, name: str) -> str:
    scope = SecretScope.CLUSTER if owner == CLUSTER else SecretScope.OWN
    return str(SecretReference(name=name, scope=scope))


def _get_flag(owner: Owner) -> str:
    return " --cluster" if owner == CLUSTER else ""


def _make_not_found_error(owner: Owner, names: Iterable[str]) -> NotFound:
    """Return the error for secrets that do not exist. Without names it repeats none, for texts that are no names."""
    kind, flag, listed = "cluster secret" if owner == CLUSTER else "secret", _get_flag(owner), ", ".join(sorted(names))
    return NotFound(
        f"There is no {kind} named {listed}." if listed else f"There is no {kind} of that name.",
        hint=f"`corral secrets list{flag}` shows them; `corral secrets set{flag} NAME` stores one.",
        code="secret_not_found",
    )
