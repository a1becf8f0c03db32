"""Join tokens, API keys, remembered answers of creating calls, and the audit. Secrets are kept as hashes only."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, fields
from typing import Any

from sqlalchemy import Select, case, delete, exists, func, insert, literal, literal_column, null, select, text, update
from sqlalchemy.dialects.postgresql import aggregate_order_by
from sqlalchemy.dialects.postgresql import insert as postgres_insert

from corral.domain.access import ApiKey, JoinToken, KeyLimit, Principal, Scope, SecretState
from corral.domain.errors import NotFound
from corral.store.database import Transaction, as_uuid
from corral.store.schema import NOW, api_keys, audit, idempotency_keys, join_tokens
from corral.store.tenant_schema import key_limits, retired_secrets, users

_HAS_PREVIOUS = func.coalesce(api_keys.c.previous_until > func.corral_now(), literal(value=False))
_LIMIT_FIELDS = tuple(field.name for field in fields(KeyLimit))


def _expiry(seconds: float | None) -> Any:
    return None if seconds is None else func.corral_now() + func.make_interval(0, 0, 0, 0, 0, 0, seconds)


def _tokens() -> Select[Any]:
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
    await tx.execute(insert(join_tokens).values(**values, expires_at=_expiry(expires_in_s)))
    return await get_token(tx, values["id"])


async def ensure_token(tx: Transaction, values: dict[str, Any]) -> None:
    """A token that is given by settings: made once, left alone afterwards."""
    await tx.execute(postgres_insert(join_tokens).values(**values).on_conflict_do_nothing(index_elements=["hash"]))


async def list_tokens(tx: Transaction) -> list[JoinToken]:
    return [_to_token(row) for row in await tx.execute(_tokens().order_by(join_tokens.c.created_at))]


async def get_token(tx: Transaction, token_id: str) -> JoinToken:
    row = (await tx.execute(_tokens().where(join_tokens.c.id == as_uuid(token_id)))).one_or_none()
    if row is None:
        raise NotFound("There is no such join token.", hint="`corral tokens list` shows them.", code="token_not_found")
    return _to_token(row)


async def find_token_by_hash(tx: Transaction, secret_hash: str) -> JoinToken | None:
    """Locked: its uses are about to be counted."""
    statement = _tokens().where(join_tokens.c.hash == secret_hash).with_for_update()
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


def _keys() -> Select[Any]:
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
        # Who may less than their key was made for, may less.
        scope=scope if row.user_scope is None else scope.within(Scope(row.user_scope)),
        user_id=row.user_id,
        models=_to_models(row),
        limits=_to_limits(row),
    )


def _to_models(row: Any) -> tuple[str, ...] | None:
    return None if row.models is None else tuple(row.models)


def _to_limits(row: Any) -> tuple[KeyLimit, ...]:
    return tuple(KeyLimit(**{name: one[name] for name in _LIMIT_FIELDS}) for one in row.limits or ())


def _with_models(values: dict[str, Any]) -> dict[str, Any]:
    """Every model is NULL, which is not JSON's null."""
    if "models" not in values:
        return values
    models = values["models"]
    return values | {"models": null() if models is None else list(models)}


async def insert_key(tx: Transaction, values: dict[str, Any], expires_in_s: float | None = None) -> ApiKey:
    await tx.execute(insert(api_keys).values(**_with_models(values), expires_at=_expiry(expires_in_s)))
    return await get_key(tx, values["id"])


async def ensure_key(tx: Transaction, values: dict[str, Any]) -> bool:
    """A key that is given by settings; True if it is new."""
    made = await tx.execute(
        postgres_insert(api_keys)
        .values(**values)
        .on_conflict_do_nothing(index_elements=["hash"])
        .returning(api_keys.c.id)
    )
    return made.one_or_none() is not None


async def retire_secrets(tx: Transaction, *, key_id: str | None = None, user_id: str | None = None) -> None:
    """Remember the present secret of this key, or of all keys of this user: no start makes a key of it again."""
    whose = api_keys.c.id == key_id if key_id is not None else api_keys.c.user_id == user_id
    hashes = select(api_keys.c.hash).where(whose)
    statement = postgres_insert(retired_secrets).from_select(["hash"], hashes).on_conflict_do_nothing()
    await tx.execute(statement)


async def is_retired(tx: Transaction, secret_hash: str) -> bool:
    """Whether a key had this secret and has it no more."""
    return bool((await tx.execute(select(exists().where(retired_secrets.c.hash == secret_hash)))).scalar())


async def has_admin_key(tx: Transaction) -> bool:
    of_admins = api_keys.c.node_id.is_(None) & (api_keys.c.scope == Scope.ADMIN)
    return bool((await tx.execute(select(exists().where(of_admins)))).scalar())


async def list_keys(tx: Transaction) -> list[ApiKey]:
    return [_to_key(row) for row in await tx.execute(_keys().order_by(api_keys.c.created_at))]


async def find_active_key(tx: Transaction, name: str, user_id: str | None) -> ApiKey | None:
    """Return the key of this user, or of nobody, that has the name and works. The name is locked until the end."""
    await tx.execute(text("SELECT pg_advisory_xact_lock(hashtextextended(:key, 1))"), {"key": f"{user_id} {name}"})
    rows = await tx.execute(_keys().where(api_keys.c.name == name, api_keys.c.user_id.is_not_distinct_from(user_id)))
    return next((key for key in map(_to_key, rows) if key.state is SecretState.ACTIVE), None)


async def get_key(tx: Transaction, key_id: str) -> ApiKey:
    row = (await tx.execute(_keys().where(api_keys.c.id == as_uuid(key_id)))).one_or_none()
    if row is None:
        raise NotFound("There is no such API key.", hint="`corral keys list` shows them.", code="key_not_found")
    return _to_key(row)


# Locked in the order in which `store/usage.py` locks them. A key in constant use is written once a minute.
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
    """Write that these keys were used just now."""
    await tx.execute(_RECORD_USES, {"ids": sorted(key_ids)})


async def lock_key(tx: Transaction, key_id: str) -> ApiKey:
    """The key, which nobody else changes until the transaction ends."""
    await tx.execute(select(api_keys.c.id).where(api_keys.c.id == as_uuid(key_id)).with_for_update())
    return await get_key(tx, key_id)


async def rotate_key(tx: Transaction, key_id: str, secret_hash: str, prefix: str, grace_s: float | None) -> ApiKey:
    """With a grace the secret until now works for so long; the one before it never does."""
    previous = (None, None) if grace_s is None else (api_keys.c.hash, _expiry(grace_s))
    values = {"hash": secret_hash, "prefix": prefix, "previous_hash": previous[0], "previous_until": previous[1]}
    await tx.execute(update(api_keys).where(api_keys.c.id == key_id).values(**values))
    return await get_key(tx, key_id)


async def update_key(tx: Transaction, key_id: str, values: dict[str, Any]) -> None:
    await tx.execute(update(api_keys).where(api_keys.c.id == key_id).values(**_with_models(values)))


async def set_expiry(tx: Transaction, key_id: str, expires_in_s: float | None) -> None:
    await tx.execute(update(api_keys).where(api_keys.c.id == key_id).values(expires_at=_expiry(expires_in_s)))


async def put_limits(tx: Transaction, key_id: str, limits: Sequence[KeyLimit]) -> None:
    """These limits and no others."""
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
    """Keep every admin key as it is until the transaction ends."""
    ids = select(api_keys.c.id).where(api_keys.c.node_id.is_(None)).order_by(api_keys.c.id)
    await tx.execute(ids.with_for_update())


async def count_active_admin_keys(tx: Transaction) -> int:
    """How many keys work now and may do everything."""
    active = _keys().where(api_keys.c.node_id.is_(None), api_keys.c.scope == Scope.ADMIN).subquery()
    is_admins = func.coalesce(active.c.user_scope, Scope.ADMIN) == Scope.ADMIN
    statement = select(func.count()).select_from(active).where(active.c.state == SecretState.ACTIVE, is_admins)
    return int((await tx.execute(statement)).scalar_one())


async def delete_node_keys(tx: Transaction, node_id: str) -> None:
    await tx.execute(delete(api_keys).where(api_keys.c.node_id == node_id))


async def find_principal(tx: Transaction, secret_hash: str) -> Principal | None:
    """The holder of an active key."""
    is_shown = (api_keys.c.hash == secret_hash) | ((api_keys.c.previous_hash == secret_hash) & _HAS_PREVIOUS)
    row = (await tx.execute(_keys().where(is_shown))).one_or_none()
    if row is None or row.state != SecretState.ACTIVE:
        return None
    return _to_principal(row)


async def list_active_principals(tx: Transaction, key_ids: Collection[str]) -> dict[str, Principal]:
    """Return the holders of those of these keys that work now, by the key's id."""
    rows = await tx.execute(_keys().where(api_keys.c.id.in_([as_uuid(key_id) for key_id in key_ids])))
    return {row.id: _to_principal(row) for row in rows if row.state == SecretState.ACTIVE}


async def list_active_key_hashes(tx: Transaction) -> list[tuple[str, Principal, float | None]]:
    """Hash, holder and seconds left of every secret that works now."""
    rows = await tx.execute(
        _keys()
        .add_columns(_left_s(api_keys.c.expires_at, "left_s"), _left_s(api_keys.c.previous_until, "previous_left_s"))
        .where(api_keys.c.revoked_at.is_(None))
    )
    hashes: list[tuple[str, Principal, float | None]] = []
    for row in rows:
        if row.state != SecretState.ACTIVE:
            continue
        principal, left_s = _to_principal(row), _seconds(row.left_s)
        hashes.append((row.hash, principal, left_s))
        if row.has_previous:
            previous_s = float(row.previous_left_s)
            hashes.append((row.previous_hash, principal, previous_s if left_s is None else min(left_s, previous_s)))
    return hashes


def _left_s(end: Any, name: str) -> Any:
    return func.extract("epoch", end - func.corral_now()).label(name)


def _seconds(value: Any) -> float | None:
    return None if value is None else float(value)


async def find_answer(tx: Transaction, key_hash: str) -> tuple[str, int, bytes] | None:
    row = (await tx.execute(select(idempotency_keys).where(idempotency_keys.c.hash == key_hash))).one_or_none()
    return None if row is None else (row.request_hash, row.status, row.answer)


async def insert_answer(tx: Transaction, key_hash: str, request_hash: str, status: int, answer: bytes) -> None:
    await tx.execute(
        insert(idempotency_keys).values(hash=key_hash, request_hash=request_hash, status=status, answer=answer)
    )


async def lock_answer(tx: Transaction, key_hash: str) -> None:
    """Calls with the same key wait for each other, so that the second finds the first one's answer."""
    await tx.execute(text("SELECT pg_advisory_xact_lock(hashtextextended(:key, 0))"), {"key": key_hash})


async def prune_answers(tx: Transaction, age_s: float) -> int:
    oldest = func.corral_now() - func.make_interval(0, 0, 0, 0, 0, 0, age_s)
    gone = await tx.execute(delete(idempotency_keys).where(idempotency_keys.c.created_at < oldest))
    return gone.rowcount


async def record(tx: Transaction, actor: str, action: str, target: str, detail: str = "") -> None:
    """Who did what to what, in the transaction that did it."""
    await tx.execute(insert(audit).values(actor=actor[:255], action=action, target=target[:255], detail=detail[:2000]))


async def list_audit(tx: Transaction, limit: int, *, before: int | None = None) -> list[dict[str, Any]]:
    """The newest first; `before`: only those that are older than this one."""
    statement = select(audit).order_by(audit.c.id.desc()).limit(limit)
    rows = await tx.execute(statement if before is None else statement.where(audit.c.id < before))
    return [dict(row._mapping) for row in rows]  # noqa: SLF001 - SQLAlchemy's public name for a row as a mapping


async def prune_audit(tx: Transaction, age_s: float) -> int:
    oldest = func.corral_now() - func.make_interval(0, 0, 0, 0, 0, 0, age_s)
    return (await tx.execute(delete(audit).where(audit.c.at < oldest))).rowcount
