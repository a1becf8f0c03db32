"""Stores users and sessions, join tokens, API keys, remembered answers of creating calls, and the audit log.

Secrets and sessions are kept as hashes only. A session belongs to a user, or to a key that was used in a browser.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, fields
from math import inf
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Select,
    case,
    delete,
    exists,
    func,
    insert,
    literal,
    literal_column,
    null,
    select,
    text,
    true,
    update,
)
from sqlalchemy.dialects.postgresql import aggregate_order_by
from sqlalchemy.dialects.postgresql import insert as postgres_insert

from corral.domain.access import SESSION_KEY_PREFIX, ApiKey, JoinToken, KeyLimit, Principal, Scope, SecretState, User
from corral.domain.errors import Conflict, NotFound
from corral.store.database import Transaction, as_uuid
from corral.store.schema import (
    NOW,
    api_keys,
    audit,
    idempotency_keys,
    join_tokens,
    key_limits,
    retired_secrets,
    sessions,
    users,
)

_HAS_PREVIOUS = func.coalesce(api_keys.c.previous_until > func.corral_now(), literal(value=False))
_LIMIT_FIELDS = tuple(field.name for field in fields(KeyLimit))


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRow:
    """A browser's session as read from PostgreSQL: its hash, its user or key, and the seconds left."""

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
    made = await tx.execute(postgres_insert(users).values(**values).on_conflict_do_nothing().returning(users.c.id))
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
    """Return the user of this subject, locked: the provider's claims are about to be written."""
    query = select(users).where(users.c.issuer == issuer, users.c.subject == subject).with_for_update()
    row = (await tx.execute(query)).one_or_none()
    return None if row is None else _to_user(row)


async def find_password(tx: Transaction, name: str, *, locked: bool = False) -> tuple[User, str] | None:
    """Return a user who may sign in with a password, and its hash. `locked`: it cannot change until the transaction
    ends."""
    statement = select(users).where(users.c.name == name.lower())
    row = (await tx.execute(statement.with_for_update(read=True) if locked else statement)).one_or_none()
    if row is None or row.password_hash is None or row.disabled_at is not None:
        return None
    return _to_user(row), row.password_hash


async def update_user(tx: Transaction, user_id: str, values: dict[str, Any]) -> None:
    await tx.execute(update(users).where(users.c.id == user_id).values(**values))


async def set_disabled(tx: Transaction, user_id: str, *, disabled: bool) -> None:
    since = func.coalesce(users.c.disabled_at, NOW) if disabled else None
    await tx.execute(update(users).where(users.c.id == user_id).values(disabled_at=since))


async def delete_user(tx: Transaction, user_id: str) -> None:
    """Delete a user with their keys, sessions and secrets."""
    await retire_secrets(tx, user_id=user_id)
    await tx.execute(delete(users).where(users.c.id == user_id))


async def insert_session(tx: Transaction, values: dict[str, Any], life_s: float) -> None:
    ends = func.corral_now() + func.make_interval(0, 0, 0, 0, 0, 0, life_s)
    await tx.execute(insert(sessions).values(**values, expires_at=ends))


async def prune_sessions(tx: Transaction, owner_id: str, most: int) -> None:
    """Delete all expired sessions, and of this user or key all but the newest `most`."""
    is_owners = _is_of([owner_id])
    newest = select(sessions.c.hash).where(is_owners).order_by(sessions.c.created_at.desc())
    too_many = is_owners & sessions.c.hash.not_in(newest.limit(most))
    await tx.execute(delete(sessions).where((sessions.c.expires_at <= func.corral_now()) | too_many))


async def delete_session(tx: Transaction, session_hash: str) -> str | None:
    """Delete the session; return the id of the user or key that it belonged to, None if there was no such session."""
    owner = func.coalesce(sessions.c.user_id, sessions.c.key_id)
    deleted = await tx.execute(delete(sessions).where(sessions.c.hash == session_hash).returning(owner))
    return deleted.scalar_one_or_none()


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


def _select_user_sessions() -> Select[Any]:
    return (
        select(sessions.c.hash, users.c.id, users.c.name, users.c.scope, _LEFT_S)
        .select_from(sessions.join(users, users.c.id == sessions.c.user_id))
        .where(sessions.c.expires_at > func.corral_now(), users.c.disabled_at.is_(None))
    )


def _select_key_sessions() -> Select[Any]:
    return select(sessions.c.hash, sessions.c.key_id, _LEFT_S).where(
        sessions.c.expires_at > func.corral_now(), sessions.c.key_id.is_not(None)
    )


def _to_session(row: Any) -> SessionRow:
    principal = Principal(key_id=f"{SESSION_KEY_PREFIX}{row.id}", name=row.name, scope=Scope(row.scope), user_id=row.id)
    return SessionRow(hash=row.hash, principal=principal, left_s=float(row.left_s))


async def _read_sessions(tx: Transaction, condition: ColumnElement[bool]) -> list[SessionRow]:
    found = [_to_session(row) for row in await tx.execute(_select_user_sessions().where(condition))]
    of_keys = (await tx.execute(_select_key_sessions().where(condition))).all()
    # The permissions of a key, and whether it still works, are decided where keys are read.
    holders = await list_active_principals(tx, {row.key_id for row in of_keys}) if of_keys else {}
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


def _make_expiry(seconds: float | None) -> Any:
    return None if seconds is None else func.corral_now() + func.make_interval(0, 0, 0, 0, 0, 0, seconds)


def _select_tokens() -> Select[Any]:
    state = case(
        (join_tokens.c.revoked_at.is_not(None), literal(SecretState.REVOKED)),
        (join_tokens.c.expires_at <= func.corral_now(), literal(SecretState.EXPIRED)),
        (join_tokens.c.uses >= join_tokens.c.max_uses, literal(SecretState.USED_UP)),
        else_=literal(SecretState.ACTIVE),
    )
    return select(join_tokens, state.label("state"))


def _to_token(row: Any) -> JoinToken:
    return JoinToken(
        id=row.id,
        name=row.name,
        prefix=row.prefix,
        uses=row.uses,
        max_uses=row.max_uses,
        approves=row.approves,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
        created_at=row.created_at,
        created_by=row.created_by,
        state=SecretState(row.state),
    )


async def insert_token(tx: Transaction, values: dict[str, Any], expires_in_s: float | None) -> JoinToken:
    await tx.execute(insert(join_tokens).values(**values, expires_at=_make_expiry(expires_in_s)))
    return await get_token(tx, values["id"])


async def ensure_token(tx: Transaction, values: dict[str, Any]) -> None:
    """Insert a token from the settings if it is new; an existing one is left alone."""
    await tx.execute(postgres_insert(join_tokens).values(**values).on_conflict_do_nothing(index_elements=["hash"]))


async def list_tokens(tx: Transaction) -> list[JoinToken]:
    return [_to_token(row) for row in await tx.execute(_select_tokens().order_by(join_tokens.c.created_at))]


async def get_token(tx: Transaction, token_id: str) -> JoinToken:
    row = (await tx.execute(_select_tokens().where(join_tokens.c.id == as_uuid(token_id)))).one_or_none()
    if row is None:
        raise NotFound("There is no such join token.", hint="`corral tokens list` shows them.", code="token_not_found")
    return _to_token(row)


async def find_token_by_hash(tx: Transaction, secret_hash: str) -> JoinToken | None:
    """Return the join token with this secret, locked: its uses are about to be counted."""
    statement = _select_tokens().where(join_tokens.c.hash == secret_hash).with_for_update()
    row = (await tx.execute(statement)).one_or_none()
    return None if row is None else _to_token(row)


async def count_token_use(tx: Transaction, token_id: str) -> None:
    await tx.execute(update(join_tokens).where(join_tokens.c.id == token_id).values(uses=join_tokens.c.uses + 1))


async def revoke_token(tx: Transaction, token_id: str) -> JoinToken:
    await get_token(tx, token_id)
    await tx.execute(
        update(join_tokens)
        .where(join_tokens.c.id == token_id, join_tokens.c.revoked_at.is_(None))
        .values(revoked_at=NOW)
    )
    return await get_token(tx, token_id)


def _select_keys() -> Select[Any]:
    state = case(
        (api_keys.c.revoked_at.is_not(None), literal(SecretState.REVOKED)),
        (api_keys.c.expires_at <= func.corral_now(), literal(SecretState.EXPIRED)),
        (users.c.disabled_at.is_not(None), literal(SecretState.DISABLED)),
        else_=literal(SecretState.ACTIVE),
    )
    limit = func.to_jsonb(literal_column(key_limits.name))
    limits = (
        select(func.jsonb_agg(aggregate_order_by(limit, key_limits.c.model)))
        .where(key_limits.c.key_id == api_keys.c.id)
        .scalar_subquery()
    )
    return select(
        api_keys,
        state.label("state"),
        _HAS_PREVIOUS.label("has_previous"),
        users.c.name.label("user_name"),
        users.c.scope.label("user_scope"),
        limits.label("limits"),
    ).select_from(api_keys.outerjoin(users, users.c.id == api_keys.c.user_id))


def _to_key(row: Any) -> ApiKey:
    return ApiKey(
        id=row.id,
        name=row.name,
        prefix=row.prefix,
        created_at=row.created_at,
        created_by=row.created_by,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
        node_id=row.node_id,
        state=SecretState(row.state),
        scope=Scope(row.scope),
        user_id=row.user_id,
        user_name=row.user_name,
        models=_to_models(row),
        limits=_to_limits(row),
        previous_until=row.previous_until if row.has_previous else None,
        last_used_at=row.last_used_at,
    )


def _to_principal(row: Any) -> Principal:
    scope = Scope(row.scope)
    return Principal(
        key_id=row.id,
        name=row.name,
        node_id=row.node_id,
        # A user with a lesser role than their key's scope has the lesser rights.
        scope=scope if row.user_scope is None else scope.narrow_to(Scope(row.user_scope)),
        user_id=row.user_id,
        models=_to_models(row),
        limits=_to_limits(row),
    )


def _to_models(row: Any) -> tuple[str, ...] | None:
    return None if row.models is None else tuple(row.models)


def _to_limits(row: Any) -> tuple[KeyLimit, ...]:
    return tuple(KeyLimit(**{name: one[name] for name in _LIMIT_FIELDS}) for one in row.limits or ())


def _with_models(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values with every model as NULL, which is not JSON's null."""
    if "models" not in values:
        return values
    models = values["models"]
    return values | {"models": null() if models is None else list(models)}


async def insert_key(tx: Transaction, values: dict[str, Any], expires_in_s: float | None = None) -> ApiKey:
    await tx.execute(insert(api_keys).values(**_with_models(values), expires_at=_make_expiry(expires_in_s)))
    return await get_key(tx, values["id"])


async def ensure_key(tx: Transaction, values: dict[str, Any]) -> bool:
    """Insert a key from the settings; True if it is new."""
    made = await tx.execute(
        postgres_insert(api_keys)
        .values(**values)
        .on_conflict_do_nothing(index_elements=["hash"])
        .returning(api_keys.c.id)
    )
    return made.one_or_none() is not None


async def retire_secrets(tx: Transaction, *, key_id: str | None = None, user_id: str | None = None) -> None:
    """Remember the current secret of this key, or of all keys of this user, so that no start makes a key of it
    again."""
    condition = api_keys.c.id == key_id if key_id is not None else api_keys.c.user_id == user_id
    hashes = select(api_keys.c.hash).where(condition)
    statement = postgres_insert(retired_secrets).from_select(["hash"], hashes).on_conflict_do_nothing()
    await tx.execute(statement)


async def is_retired_secret(tx: Transaction, secret_hash: str) -> bool:
    """Return whether a key had this secret earlier and has it no longer."""
    return bool((await tx.execute(select(exists().where(retired_secrets.c.hash == secret_hash)))).scalar())


async def lock_first_key(tx: Transaction) -> None:
    """Let one transaction at a time make the first admin key: until there is a row, there is none to lock."""
    await tx.execute(text("SELECT pg_advisory_xact_lock(hashtextextended('first admin key', 0))"))


async def has_admin_key(tx: Transaction) -> bool:
    of_admins = api_keys.c.node_id.is_(None) & (api_keys.c.scope == Scope.ADMIN)
    return bool((await tx.execute(select(exists().where(of_admins)))).scalar())


async def list_keys(tx: Transaction) -> list[ApiKey]:
    return [_to_key(row) for row in await tx.execute(_select_keys().order_by(api_keys.c.created_at))]


async def find_active_key(tx: Transaction, name: str, user_id: str | None) -> ApiKey | None:
    """Return the active key with this name of this user, or without an owner. The name is locked until the end."""
    await tx.execute(text("SELECT pg_advisory_xact_lock(hashtextextended(:key, 1))"), {"key": f"{user_id} {name}"})
    rows = await tx.execute(
        _select_keys().where(api_keys.c.name == name, api_keys.c.user_id.is_not_distinct_from(user_id))
    )
    return next((key for key in map(_to_key, rows) if key.state is SecretState.ACTIVE), None)


async def get_key(tx: Transaction, key_id: str) -> ApiKey:
    row = (await tx.execute(_select_keys().where(api_keys.c.id == as_uuid(key_id)))).one_or_none()
    if row is None:
        raise NotFound("There is no such API key.", hint="`corral keys list` shows them.", code="key_not_found")
    return _to_key(row)


# Locked in the same order as in `store/usage.py`. A key in constant use is written once a minute.
_RECORD_USES = text("""
    WITH used AS (
        SELECT id FROM api_keys
         WHERE id = ANY(CAST(:ids AS uuid[]))
           AND (last_used_at IS NULL OR last_used_at < corral_now() - interval '1 minute')
         ORDER BY id
           FOR NO KEY UPDATE
    )
    UPDATE api_keys k SET last_used_at = corral_now() FROM used WHERE k.id = used.id
""")


async def record_uses(tx: Transaction, key_ids: Collection[str]) -> None:
    """Record that these keys were used now."""
    await tx.execute(_RECORD_USES, {"ids": sorted(key_ids)})


async def lock_key(tx: Transaction, key_id: str) -> ApiKey:
    """Return the key and lock it until the transaction ends."""
    await tx.execute(select(api_keys.c.id).where(api_keys.c.id == as_uuid(key_id)).with_for_update())
    return await get_key(tx, key_id)


async def rotate_key(tx: Transaction, key_id: str, secret_hash: str, prefix: str, grace_s: float | None) -> ApiKey:
    """Replace the secret of a key. With a grace the current secret works for so long; the one before it never does."""
    previous = (None, None) if grace_s is None else (api_keys.c.hash, _make_expiry(grace_s))
    values = {"hash": secret_hash, "prefix": prefix, "previous_hash": previous[0], "previous_until": previous[1]}
    await tx.execute(update(api_keys).where(api_keys.c.id == key_id).values(**values))
    return await get_key(tx, key_id)


async def update_key(tx: Transaction, key_id: str, values: dict[str, Any]) -> None:
    await tx.execute(update(api_keys).where(api_keys.c.id == key_id).values(**_with_models(values)))


async def set_expiry(tx: Transaction, key_id: str, expires_in_s: float | None) -> None:
    await tx.execute(update(api_keys).where(api_keys.c.id == key_id).values(expires_at=_make_expiry(expires_in_s)))


async def put_limits(tx: Transaction, key_id: str, limits: Sequence[KeyLimit]) -> None:
    """Replace all limits of a key by these."""
    await tx.execute(delete(key_limits).where(key_limits.c.key_id == key_id))
    if limits:
        await tx.execute(insert(key_limits), [{"key_id": key_id, **asdict(limit)} for limit in limits])


async def revoke_key(tx: Transaction, key_id: str) -> ApiKey:
    await get_key(tx, key_id)
    await tx.execute(
        update(api_keys).where(api_keys.c.id == key_id, api_keys.c.revoked_at.is_(None)).values(revoked_at=NOW)
    )
    return await get_key(tx, key_id)


async def lock_admin_keys(tx: Transaction) -> None:
    """Lock every admin key until the transaction ends."""
    ids = select(api_keys.c.id).where(api_keys.c.node_id.is_(None)).order_by(api_keys.c.id)
    await tx.execute(ids.with_for_update())


async def count_active_admin_keys(tx: Transaction) -> int:
    """Return how many active keys have every permission."""
    active = _select_keys().where(api_keys.c.node_id.is_(None), api_keys.c.scope == Scope.ADMIN).subquery()
    is_admins = func.coalesce(active.c.user_scope, Scope.ADMIN) == Scope.ADMIN
    statement = select(func.count()).select_from(active).where(active.c.state == SecretState.ACTIVE, is_admins)
    return int((await tx.execute(statement)).scalar_one())


async def delete_key(tx: Transaction, key_id: str) -> None:
    await tx.execute(delete(api_keys).where(api_keys.c.id == key_id))


async def delete_node_keys(tx: Transaction, node_id: str) -> None:
    await tx.execute(delete(api_keys).where(api_keys.c.node_id == node_id))


async def find_principal(tx: Transaction, secret_hash: str) -> Principal | None:
    """Return the holder of an active key."""
    row = (await tx.execute(_select_keys().where(_has_secret(secret_hash)))).one_or_none()
    if row is None or row.state != SecretState.ACTIVE:
        return None
    return _to_principal(row)


async def find_principal_by_key_id(tx: Transaction, key_id: str) -> Principal | None:
    """Return the holder of an active key by the key's id, or the enabled user of a session's id."""
    if not key_id.startswith(SESSION_KEY_PREFIX):
        return (await list_active_principals(tx, [key_id])).get(key_id)
    statement = select(users).where(
        users.c.id == key_id.removeprefix(SESSION_KEY_PREFIX), users.c.disabled_at.is_(None)
    )
    row = (await tx.execute(statement)).one_or_none()
    return None if row is None else Principal(key_id=key_id, name=row.name, scope=Scope(row.scope), user_id=row.id)


def has_active_owner(user_id: ColumnElement[Any], key_id: ColumnElement[Any]) -> ColumnElement[bool]:
    """Return the condition that the owner of a row can still sign in: the user is enabled, the key works."""
    user, key = users.alias("owning_user"), api_keys.alias("owning_key")
    is_disabled = exists(select(user.c.id).where(user.c.id == user_id, user.c.disabled_at.is_not(None)))
    ended = key.c.revoked_at.is_not(None) | (key.c.expires_at <= func.corral_now())
    return ~is_disabled & ~exists(select(key.c.id).where(key.c.id == key_id, ended))


async def lock_secret(tx: Transaction, secret_hash: str) -> float | None:
    """Return for how many seconds this secret of a key works: infinity if the key was not rotated, None if it does
    not.

    The key cannot be rotated or revoked until the transaction ends.
    """
    has_secret = _has_secret(secret_hash)
    await tx.execute(select(api_keys.c.id).where(has_secret).with_for_update(read=True))
    # A second statement, because it sees what was committed while the lock was awaited.
    left_s = _compute_left_s(api_keys.c.previous_until, "previous_left_s")
    row = (await tx.execute(_select_keys().add_columns(left_s).where(has_secret))).one_or_none()
    if row is None or row.state != SecretState.ACTIVE:
        return None
    return float(row.previous_left_s) if row.hash != secret_hash else inf


def _has_secret(secret_hash: str) -> ColumnElement[bool]:
    """Return the condition that a key has this secret, or had it before and its grace lasts."""
    return (api_keys.c.hash == secret_hash) | ((api_keys.c.previous_hash == secret_hash) & _HAS_PREVIOUS)


async def list_active_principals(tx: Transaction, key_ids: Collection[str]) -> dict[str, Principal]:
    """Return the holders of the active ones among these keys, by the key's id."""
    rows = await tx.execute(_select_keys().where(api_keys.c.id.in_([as_uuid(key_id) for key_id in key_ids])))
    return {row.id: _to_principal(row) for row in rows if row.state == SecretState.ACTIVE}


async def list_active_key_hashes(tx: Transaction) -> list[tuple[str, Principal, float | None]]:
    """Return hash, holder and seconds left of every active secret."""
    rows = await tx.execute(
        _select_keys()
        .add_columns(
            _compute_left_s(api_keys.c.expires_at, "left_s"),
            _compute_left_s(api_keys.c.previous_until, "previous_left_s"),
        )
        .where(api_keys.c.revoked_at.is_(None))
    )
    hashes: list[tuple[str, Principal, float | None]] = []
    for row in rows:
        if row.state != SecretState.ACTIVE:
            continue
        principal, left_s = _to_principal(row), _to_float(row.left_s)
        hashes.append((row.hash, principal, left_s))
        if row.has_previous:
            previous_s = float(row.previous_left_s)
            hashes.append((row.previous_hash, principal, previous_s if left_s is None else min(left_s, previous_s)))
    return hashes


def _compute_left_s(end: Any, name: str) -> Any:
    return func.extract("epoch", end - func.corral_now()).label(name)


def _to_float(value: Any) -> float | None:
    return None if value is None else float(value)


async def find_answer(tx: Transaction, key_hash: str) -> tuple[str, int, bytes] | None:
    row = (await tx.execute(select(idempotency_keys).where(idempotency_keys.c.hash == key_hash))).one_or_none()
    return None if row is None else (row.request_hash, row.status, row.answer)


async def insert_answer(tx: Transaction, key_hash: str, request_hash: str, status: int, answer: bytes) -> None:
    await tx.execute(
        insert(idempotency_keys).values(hash=key_hash, request_hash=request_hash, status=status, answer=answer)
    )


async def lock_answer(tx: Transaction, key_hash: str) -> None:
    """Make calls with the same key wait for each other, so that the second finds the first one's answer."""
    await tx.execute(text("SELECT pg_advisory_xact_lock(hashtextextended(:key, 0))"), {"key": key_hash})


async def prune_answers(tx: Transaction, age_s: float) -> int:
    oldest = func.corral_now() - func.make_interval(0, 0, 0, 0, 0, 0, age_s)
    deleted = await tx.execute(delete(idempotency_keys).where(idempotency_keys.c.created_at < oldest))
    return deleted.rowcount


async def record_audit(tx: Transaction, actor: str, action: str, target: str, detail: str = "") -> None:
    """Write an audit entry (actor, action, target) in the transaction of the action."""
    await tx.execute(insert(audit).values(actor=actor[:255], action=action, target=target[:255], detail=detail[:2000]))


async def list_audit(tx: Transaction, limit: int, *, before_id: int | None = None) -> list[dict[str, Any]]:
    """Return audit entries, newest first; `before_id`: only those that are older than this one."""
    statement = select(audit).order_by(audit.c.id.desc()).limit(limit)
    rows = await tx.execute(statement if before_id is None else statement.where(audit.c.id < before_id))
    return [dict(row._mapping) for row in rows]  # noqa: SLF001 - SQLAlchemy's public name for a row as a mapping


async def prune_audit(tx: Transaction, age_s: float) -> int:
    oldest = func.corral_now() - func.make_interval(0, 0, 0, 0, 0, 0, age_s)
    return (await tx.execute(delete(audit).where(audit.c.at < oldest))).rowcount
