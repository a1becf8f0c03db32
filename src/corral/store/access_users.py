"""Users, and the sessions of users and of keys that were shown by a browser. A session is kept as a hash only."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, delete, func, select, true, update
from sqlalchemy.dialects.postgresql import insert

from corral.domain.access import SESSION_KEY_PREFIX, Principal, Scope, User
from corral.domain.errors import Conflict, NotFound
from corral.store import access as access_store
from corral.store.database import Transaction, as_uuid
from corral.store.schema import NOW
from corral.store.tenant_schema import sessions, users


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRow:
    """A session that is valid now."""

    hash: str
    principal: Principal
    left_s: float


def _to_user(row: Any) -> User:
    return User(
        id=row.id,
        name=row.name,
        scope=Scope(row.scope),
        issuer=row.issuer or "",
        subject=row.subject or "",
        has_password=row.password_hash is not None,
        created_at=row.created_at,
        created_by=row.created_by,
        disabled_at=row.disabled_at,
    )


async def insert_user(tx: Transaction, values: dict[str, Any]) -> User:
    made = await tx.execute(insert(users).values(**values).on_conflict_do_nothing().returning(users.c.id))
    if made.one_or_none() is None:
        raise Conflict(
            f"There is a user named {values['name']} already.", hint="Choose another name.", code="user_name_taken"
        )
    return await get_user(tx, values["id"])


async def list_users(tx: Transaction) -> list[User]:
    return [_to_user(row) for row in await tx.execute(select(users).order_by(users.c.name))]


async def get_user(tx: Transaction, user_id: str) -> User:
    row = (await tx.execute(select(users).where(users.c.id == as_uuid(user_id)))).one_or_none()
    if row is None:
        raise NotFound("There is no such user.", hint="`corral users list` shows them.", code="user_not_found")
    return _to_user(row)


async def find_by_name(tx: Transaction, name: str) -> User | None:
    row = (await tx.execute(select(users).where(users.c.name == name.lower()))).one_or_none()
    return None if row is None else _to_user(row)


async def find_by_subject(tx: Transaction, issuer: str, subject: str) -> User | None:
    """Locked: what the provider says of them is about to be written."""
    whose = select(users).where(users.c.issuer == issuer, users.c.subject == subject).with_for_update()
    row = (await tx.execute(whose)).one_or_none()
    return None if row is None else _to_user(row)


async def find_password(tx: Transaction, name: str) -> tuple[User, str] | None:
    """A user who may come in with a password, and its hash."""
    row = (await tx.execute(select(users).where(users.c.name == name.lower()))).one_or_none()
    if row is None or row.password_hash is None or row.disabled_at is not None:
        return None
    return _to_user(row), row.password_hash


async def update_user(tx: Transaction, user_id: str, values: dict[str, Any]) -> None:
    await tx.execute(update(users).where(users.c.id == user_id).values(**values))


async def set_disabled(tx: Transaction, user_id: str, *, disabled: bool) -> None:
    since = func.coalesce(users.c.disabled_at, NOW) if disabled else None
    await tx.execute(update(users).where(users.c.id == user_id).values(disabled_at=since))


async def delete_user(tx: Transaction, user_id: str) -> None:
    """Their keys and sessions go with them."""
    await access_store.retire_secrets(tx, user_id=user_id)
    await tx.execute(delete(users).where(users.c.id == user_id))


async def insert_session(tx: Transaction, values: dict[str, Any], life_s: float) -> None:
    ends = func.corral_now() + func.make_interval(0, 0, 0, 0, 0, 0, life_s)
    await tx.execute(insert(sessions).values(**values, expires_at=ends))


async def prune_sessions(tx: Transaction, owner_id: str, most: int) -> None:
    """Take away what has run out, anybody's, and of this user or key all but the newest `most`."""
    is_owners = _is_of([owner_id])
    newest = select(sessions.c.hash).where(is_owners).order_by(sessions.c.created_at.desc())
    too_many = is_owners & sessions.c.hash.not_in(newest.limit(most))
    await tx.execute(delete(sessions).where((sessions.c.expires_at <= func.corral_now()) | too_many))


async def delete_session(tx: Transaction, session_hash: str) -> str | None:
    """Delete the session; return the id of the user or key that it belonged to, None if there was no such session."""
    owner = func.coalesce(sessions.c.user_id, sessions.c.key_id)
    gone = await tx.execute(delete(sessions).where(sessions.c.hash == session_hash).returning(owner))
    return gone.scalar_one_or_none()


async def delete_sessions(tx: Transaction, user_id: str) -> None:
    await tx.execute(delete(sessions).where(sessions.c.user_id == user_id))


async def shorten_sessions(tx: Transaction, key_id: str, left_s: float | None) -> None:
    """End the sessions of this key within `left_s` seconds, or now if that is None."""
    of_key = sessions.c.key_id == as_uuid(key_id)
    if left_s is None:
        await tx.execute(delete(sessions).where(of_key))
        return
    end = func.corral_now() + func.make_interval(0, 0, 0, 0, 0, 0, left_s)
    await tx.execute(update(sessions).where(of_key).values(expires_at=func.least(sessions.c.expires_at, end)))


def _is_of(owners: Collection[str]) -> ColumnElement[bool]:
    ids = [as_uuid(owner) for owner in owners]
    return sessions.c.user_id.in_(ids) | sessions.c.key_id.in_(ids)


_LEFT_S = func.extract("epoch", sessions.c.expires_at - func.corral_now()).label("left_s")


def _of_users() -> Select[Any]:
    return (
        select(sessions.c.hash, users.c.id, users.c.name, users.c.scope, _LEFT_S)
        .select_from(sessions.join(users, users.c.id == sessions.c.user_id))
        .where(sessions.c.expires_at > func.corral_now(), users.c.disabled_at.is_(None))
    )


def _of_keys() -> Select[Any]:
    return select(sessions.c.hash, sessions.c.key_id, _LEFT_S).where(
        sessions.c.expires_at > func.corral_now(), sessions.c.key_id.is_not(None)
    )


def _to_session(row: Any) -> SessionRow:
    principal = Principal(key_id=f"{SESSION_KEY_PREFIX}{row.id}", name=row.name, scope=Scope(row.scope), user_id=row.id)
    return SessionRow(hash=row.hash, principal=principal, left_s=float(row.left_s))


async def _read_sessions(tx: Transaction, condition: ColumnElement[bool]) -> list[SessionRow]:
    found = [_to_session(row) for row in await tx.execute(_of_users().where(condition))]
    of_keys = (await tx.execute(_of_keys().where(condition))).all()
    # What a key may, and whether it still works, is decided where keys are read.
    holders = await access_store.list_active_principals(tx, {row.key_id for row in of_keys}) if of_keys else {}
    found += [
        SessionRow(hash=row.hash, principal=holders[row.key_id], left_s=float(row.left_s))
        for row in of_keys
        if row.key_id in holders
    ]
    return found


async def find_session(tx: Transaction, session_hash: str) -> SessionRow | None:
    return next(iter(await _read_sessions(tx, sessions.c.hash == session_hash)), None)


async def list_sessions(tx: Transaction, *, only: Collection[str] | None = None) -> list[SessionRow]:
    """Return the sessions that are valid now: all, or those of these users and keys."""
    return await _read_sessions(tx, true() if only is None else _is_of(only))
