"""Join tokens, API keys, remembered answers of creating calls, and the audit. Secrets are kept as hashes only."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Select, case, delete, func, insert, literal, select, text, update
from sqlalchemy.dialects.postgresql import insert as postgres_insert

from corral.domain.access import ApiKey, JoinToken, Principal, SecretState
from corral.domain.errors import NotFound
from corral.store.database import Transaction, as_uuid
from corral.store.schema import NOW, api_keys, audit, idempotency_keys, join_tokens


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
        else_=literal(SecretState.ACTIVE),
    )
    return select(api_keys, state.label("state"))


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
    )


async def insert_key(tx: Transaction, values: dict[str, Any], expires_in_s: float | None = None) -> ApiKey:
    await tx.execute(insert(api_keys).values(**values, expires_at=_expiry(expires_in_s)))
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


async def has_admin_key(tx: Transaction) -> bool:
    return bool((await tx.execute(text("SELECT EXISTS (SELECT 1 FROM api_keys WHERE node_id IS NULL)"))).scalar())


async def list_keys(tx: Transaction) -> list[ApiKey]:
    return [_to_key(row) for row in await tx.execute(_keys().order_by(api_keys.c.created_at))]


async def get_key(tx: Transaction, key_id: str) -> ApiKey:
    row = (await tx.execute(_keys().where(api_keys.c.id == as_uuid(key_id)))).one_or_none()
    if row is None:
        raise NotFound("There is no such API key.", hint="`corral keys list` shows them.", code="key_not_found")
    return _to_key(row)


async def rotate_key(tx: Transaction, key_id: str, secret_hash: str, prefix: str) -> ApiKey:
    await get_key(tx, key_id)
    await tx.execute(update(api_keys).where(api_keys.c.id == key_id).values(hash=secret_hash, prefix=prefix))
    return await get_key(tx, key_id)


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
    active = _keys().where(api_keys.c.node_id.is_(None)).subquery()
    statement = select(func.count()).select_from(active).where(active.c.state == SecretState.ACTIVE)
    return int((await tx.execute(statement)).scalar_one())


async def delete_node_keys(tx: Transaction, node_id: str) -> None:
    await tx.execute(delete(api_keys).where(api_keys.c.node_id == node_id))


async def find_principal(tx: Transaction, secret_hash: str) -> Principal | None:
    """The holder of an active key."""
    row = (await tx.execute(_keys().where(api_keys.c.hash == secret_hash))).one_or_none()
    if row is None or row.state != SecretState.ACTIVE:
        return None
    return Principal(key_id=row.id, name=row.name, node_id=row.node_id)


async def list_active_key_hashes(tx: Transaction) -> list[tuple[str, Principal, float | None]]:
    """Hash, holder and seconds left of every key that works now."""
    active = _keys().add_columns(func.extract("epoch", api_keys.c.expires_at - func.corral_now()).label("left_s"))
    rows = await tx.execute(active.where(api_keys.c.revoked_at.is_(None)))
    return [
        (row.hash, Principal(key_id=row.id, name=row.name, node_id=row.node_id), _seconds(row.left_s))
        for row in rows
        if row.state == SecretState.ACTIVE
    ]


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


async def list_audit(tx: Transaction, limit: int) -> list[dict[str, Any]]:
    rows = await tx.execute(select(audit).order_by(audit.c.id.desc()).limit(limit))
    return [dict(row._mapping) for row in rows]  # noqa: SLF001 - SQLAlchemy's public name for a row as a mapping


async def prune_audit(tx: Transaction, age_s: float) -> int:
    oldest = func.corral_now() - func.make_interval(0, 0, 0, 0, 0, 0, age_s)
    return (await tx.execute(delete(audit).where(audit.c.at < oldest))).rowcount
