"""Usage: sums that grow by batches, each counted once, and what is asked of them.

A batch carries the name of its spool and a number that only grows. The number is written in the same statement as the
sums: a batch that is sent again, because nobody knows whether the first time went through, counts nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    String,
    Text,
    bindparam,
    delete,
    func,
    literal,
    select,
    text,
    tuple_,
)

from corral.domain.access import SESSION_KEY_PREFIX
from corral.domain.usage import Buckets, By, Sums, UsageQuestion, UsageRow
from corral.store.database import Transaction
from corral.store.tenant_schema import usage, usage_spools

# Rows are locked in one order, of keys too, so that two spools cannot wait for each other. A key that is gone keeps the
# names under which it was counted before. When a key was last used is told by the time at which a batch is counted that
# comes at once, by the end of its hour for one that comes late; neither takes anything back.
_COUNT = text("""
    WITH told AS (
        INSERT INTO usage_spools AS s (id, batch) VALUES (:spool, :batch)
        ON CONFLICT (id) DO UPDATE SET batch = excluded.batch, updated_at = corral_now()
         WHERE s.batch < excluded.batch
        RETURNING 1
    ), said AS (
        SELECT * FROM jsonb_to_recordset(CAST(:sums AS jsonb)) AS s(
            hour bigint, key_id text, model text, call text, node text, requests bigint, errors bigint,
            prompt_tokens bigint, cached_tokens bigint, completion_tokens bigint, estimated_tokens bigint)
    ), counted AS (
        INSERT INTO usage AS u (hour, key_id, model, call, node, key_name, user_name, requests, errors,
                                prompt_tokens, cached_tokens, completion_tokens, estimated_tokens)
        SELECT to_timestamp(said.hour * 3600), said.key_id, said.model, said.call, said.node,
               coalesce(k.name, CASE WHEN p.id IS NOT NULL THEN 'session' END, ''), coalesce(p.name, ''),
               said.requests, said.errors,
               said.prompt_tokens, said.cached_tokens, said.completion_tokens, said.estimated_tokens
          FROM said
          LEFT JOIN api_keys k ON CAST(k.id AS text) = said.key_id
          LEFT JOIN users p ON p.id = k.user_id OR said.key_id = :session || CAST(p.id AS text)
         WHERE EXISTS (SELECT 1 FROM told)
         ORDER BY said.hour, said.key_id, said.model, said.call, said.node
        ON CONFLICT (hour, key_id, model, call, node) DO UPDATE
           SET key_name = coalesce(nullif(excluded.key_name, ''), u.key_name),
               user_name = coalesce(nullif(excluded.user_name, ''), u.user_name),
               requests = u.requests + excluded.requests,
               errors = u.errors + excluded.errors,
               prompt_tokens = u.prompt_tokens + excluded.prompt_tokens,
               cached_tokens = u.cached_tokens + excluded.cached_tokens,
               completion_tokens = u.completion_tokens + excluded.completion_tokens,
               estimated_tokens = u.estimated_tokens + excluded.estimated_tokens
    ), seen AS (
        SELECT k.id, CASE WHEN s.hour >= floor(extract(epoch FROM corral_now()) / 3600) - 1 THEN corral_now()
                          ELSE to_timestamp((s.hour + 1) * 3600) END AS at
          FROM api_keys k
          JOIN (SELECT key_id, max(hour) AS hour FROM said GROUP BY key_id) s ON s.key_id = CAST(k.id AS text)
         WHERE EXISTS (SELECT 1 FROM told)
         ORDER BY k.id
           FOR NO KEY UPDATE OF k
    ), used AS (
        UPDATE api_keys k SET last_used_at = seen.at
          FROM seen
         WHERE k.id = seen.id AND (k.last_used_at IS NULL OR k.last_used_at < seen.at)
    )
    SELECT EXISTS (SELECT 1 FROM told)
""").bindparams(
    bindparam("spool", type_=String),
    bindparam("sums", type_=Text),
    # Who asks by a session has no key of their own.
    bindparam("session", SESSION_KEY_PREFIX, type_=String),
)


async def count(tx: Transaction, spool_id: str, batch: int, buckets: Buckets) -> bool:
    """Add the sums of a batch; False: this batch, or a later one of its spool, is counted already."""
    said = [
        {"hour": hour, "key_id": key_id, "model": model, "call": call, "node": node, **asdict(sums)}
        for (hour, key_id, model, call, node), sums in buckets.items()
    ]
    told = await tx.execute(_COUNT, {"spool": spool_id, "batch": batch, "sums": json.dumps(said)})
    return bool(told.scalar_one())


_SUMS = tuple(Sums.__dataclass_fields__)
_GROUPS: dict[By, ColumnElement[Any]] = {
    By.KEY: usage.c.key_id,
    By.MODEL: usage.c.model,
    By.USER: usage.c.user_name,
    By.CALL: usage.c.call,
    By.NODE: usage.c.node,
    By.DAY: func.date_trunc("day", usage.c.hour, "UTC", type_=usage.c.hour.type),
    By.HOUR: usage.c.hour,
}
# Where each of them goes in a row.
_FIELDS = {
    By.KEY: "key_id",
    By.MODEL: "model",
    By.USER: "user_name",
    By.CALL: "call",
    By.NODE: "node",
    By.DAY: "at",
    By.HOUR: "at",
}


def _sums() -> list[ColumnElement[Any]]:
    return [func.coalesce(func.sum(usage.c[name]), 0).label(name) for name in _SUMS]


def _asked(question: UsageQuestion) -> list[ColumnElement[bool]]:
    conditions = [usage.c.hour >= _hour(question.since)]
    if question.until is not None:
        conditions.append(usage.c.hour < _hour(question.until))
    if question.key_id is not None:
        conditions.append(usage.c.key_id == question.key_id)
    if question.user_name is not None:
        conditions.append(usage.c.user_name == question.user_name)
    return conditions


def _hour(moment: datetime) -> ColumnElement[Any]:
    return func.date_trunc("hour", literal(moment, usage.c.hour.type))


async def list_usage(
    tx: Transaction, question: UsageQuestion, *, after: UsageRow | None = None, limit: int
) -> list[UsageRow]:
    """A page of the answer in the order of what it is asked by, and the page after a row."""
    groups = [_GROUPS[by].label(f"by_{by}") for by in question.by]
    names = [func.max(usage.c.key_name).label("key_name"), func.max(usage.c.user_name).label("user_name")]
    statement = select(*groups, *names, *_sums()).where(*_asked(question)).group_by(*groups).order_by(*groups)
    if after is not None:
        place = [literal(getattr(after, _FIELDS[by]), _GROUPS[by].type) for by in question.by]
        statement = statement.where(tuple_(*(_GROUPS[by] for by in question.by)) > tuple_(*place))
    return [_row(question.by, row) for row in await tx.execute(statement.limit(limit))]


def _row(by: Sequence[By], row: Any) -> UsageRow:
    told = {_FIELDS[one]: getattr(row, f"by_{one}") for one in by}
    if By.KEY in by:
        told |= {"key_name": row.key_name, "user_name": row.user_name}
    return UsageRow(**told, sums=_to_sums(row))


def _to_sums(row: Any) -> Sums:
    return Sums(**{name: int(getattr(row, name)) for name in _SUMS})


async def total(tx: Transaction, question: UsageQuestion) -> Sums:
    return _to_sums((await tx.execute(select(*_sums()).where(*_asked(question)))).one())


async def prune(tx: Transaction, age_s: float) -> int:
    """Usage that is older, and spools that have long sent nothing: by then nothing of them can come a second time."""
    oldest = func.corral_now() - func.make_interval(0, 0, 0, 0, 0, 0, age_s)
    gone = await tx.execute(delete(usage).where(usage.c.hour < oldest))
    await tx.execute(delete(usage_spools).where(usage_spools.c.updated_at < oldest))
    return gone.rowcount
