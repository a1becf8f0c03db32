"""Stores usage: sums that grow by batches, each counted once, and queries over them.

What keys have spent in the current day and month is read by the registry's clock, in UTC.

A batch carries the name of its spool and a number that only grows. The number is written in the same statement as
the sums: a batch that is sent again, because its first outcome is unknown, counts nothing.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
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
from corral.domain.usage import UsageBuckets, UsageGrouping, UsageQuery, UsageRow, UsageSums
from corral.store.database import Transaction
from corral.store.schema import usage, usage_spools

# Rows are locked in one order, of keys too, so that two spools cannot wait for each other. A deleted key keeps the
# names under which it was counted before. The last use of a key is the time of counting for a batch that comes at
# once, and the end of its hour for one that comes late; neither moves it back.
_COUNT = text("""
    WITH spool AS (
        INSERT INTO usage_spools AS s (id, batch) VALUES (:spool, :batch)
        ON CONFLICT (id) DO UPDATE SET batch = excluded.batch, updated_at = corral_now()
         WHERE s.batch < excluded.batch
        RETURNING 1
    ), reported AS (
        SELECT * FROM jsonb_to_recordset(CAST(:sums AS jsonb)) AS s(
            hour bigint, key_id text, model text, call text, node text, requests bigint, errors bigint,
            prompt_tokens bigint, cached_tokens bigint, completion_tokens bigint, estimated_tokens bigint)
    ), counted AS (
        INSERT INTO usage AS u (hour, key_id, model, call, node, key_name, user_name, requests, errors,
                                prompt_tokens, cached_tokens, completion_tokens, estimated_tokens)
        SELECT to_timestamp(reported.hour * 3600), reported.key_id, reported.model, reported.call, reported.node,
               coalesce(k.name, CASE WHEN p.id IS NOT NULL THEN 'session' END, ''), coalesce(p.name, ''),
               reported.requests, reported.errors,
               reported.prompt_tokens, reported.cached_tokens, reported.completion_tokens, reported.estimated_tokens
          FROM reported
          LEFT JOIN api_keys k ON CAST(k.id AS text) = reported.key_id
          LEFT JOIN users p ON p.id = k.user_id OR reported.key_id = :session || CAST(p.id AS text)
         WHERE EXISTS (SELECT 1 FROM spool)
         ORDER BY reported.hour, reported.key_id, reported.model, reported.call, reported.node
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
          JOIN (SELECT key_id, max(hour) AS hour FROM reported GROUP BY key_id) s ON s.key_id = CAST(k.id AS text)
         WHERE EXISTS (SELECT 1 FROM spool)
         ORDER BY k.id
           FOR NO KEY UPDATE OF k
    ), used AS (
        UPDATE api_keys k SET last_used_at = seen.at
          FROM seen
         WHERE k.id = seen.id AND (k.last_used_at IS NULL OR k.last_used_at < seen.at)
    )
    SELECT EXISTS (SELECT 1 FROM spool)
""").bindparams(
    bindparam("spool", type_=String),
    bindparam("sums", type_=Text),
    # A caller with a session has no key of their own.
    bindparam("session", SESSION_KEY_PREFIX, type_=String),
)

_ENDS = text("""
    SELECT extract(epoch FROM date_trunc('day', utc) + interval '1 day' - utc) AS day_left_s,
           extract(epoch FROM date_trunc('month', utc) + interval '1 month' - utc) AS month_left_s
      FROM (SELECT corral_now() AT TIME ZONE 'UTC' AS utc) AS now
""")
_SPENT = text("""
    SELECT key_id, model,
           sum(prompt_tokens + completion_tokens) AS month,
           coalesce(sum(prompt_tokens + completion_tokens)
                        FILTER (WHERE hour >= date_trunc('day', corral_now(), 'UTC')), 0) AS day
      FROM usage
     WHERE key_id = ANY(:keys) AND hour >= date_trunc('month', corral_now(), 'UTC')
     GROUP BY key_id, model
""")


async def add_batch(tx: Transaction, spool_id: str, batch: int, buckets: UsageBuckets) -> bool:
    """Add the sums of a batch; False: this batch, or a later one of its spool, is counted already."""
    rows = [
        {"hour": hour, "key_id": key_id, "model": model, "call": call, "node": node, **asdict(sums)}
        for (hour, key_id, model, call, node), sums in buckets.items()
    ]
    written = await tx.execute(_COUNT, {"spool": spool_id, "batch": batch, "sums": json.dumps(rows)})
    return bool(written.scalar_one())


_SUMS = tuple(UsageSums.__dataclass_fields__)
_GROUPS: dict[UsageGrouping, ColumnElement[Any]] = {
    UsageGrouping.KEY: usage.c.key_id,
    UsageGrouping.MODEL: usage.c.model,
    UsageGrouping.USER: usage.c.user_name,
    UsageGrouping.CALL: usage.c.call,
    UsageGrouping.NODE: usage.c.node,
    UsageGrouping.DAY: func.date_trunc("day", usage.c.hour, "UTC", type_=usage.c.hour.type),
    UsageGrouping.HOUR: usage.c.hour,
}
# The position of each of these values in a row.
_FIELDS = {
    UsageGrouping.KEY: "key_id",
    UsageGrouping.MODEL: "model",
    UsageGrouping.USER: "user_name",
    UsageGrouping.CALL: "call",
    UsageGrouping.NODE: "node",
    UsageGrouping.DAY: "at",
    UsageGrouping.HOUR: "at",
}


def _select_sums() -> list[ColumnElement[Any]]:
    return [func.coalesce(func.sum(usage.c[name]), 0).label(name) for name in _SUMS]


def _make_conditions(question: UsageQuery) -> list[ColumnElement[bool]]:
    conditions = [usage.c.hour >= _truncate_to_hour(question.since)]
    if question.until is not None:
        conditions.append(usage.c.hour < _truncate_to_hour(question.until))
    if question.key_id is not None:
        conditions.append(usage.c.key_id == question.key_id)
    if question.user_name is not None:
        conditions.append(usage.c.user_name == question.user_name)
    return conditions


def _truncate_to_hour(moment: datetime) -> ColumnElement[Any]:
    return func.date_trunc("hour", literal(moment, usage.c.hour.type))


async def list_usage(
    tx: Transaction, question: UsageQuery, *, after: UsageRow | None = None, limit: int
) -> list[UsageRow]:
    """Return a page of the usage in the order of its grouping, and the page after a row."""
    groups = [_GROUPS[by].label(f"by_{by}") for by in question.by]
    names = [func.max(usage.c.key_name).label("key_name"), func.max(usage.c.user_name).label("user_name")]
    statement = (
        select(*groups, *names, *_select_sums()).where(*_make_conditions(question)).group_by(*groups).order_by(*groups)
    )
    if after is not None:
        position = [literal(getattr(after, _FIELDS[by]), _GROUPS[by].type) for by in question.by]
        statement = statement.where(tuple_(*(_GROUPS[by] for by in question.by)) > tuple_(*position))
    return [_to_row(question.by, row) for row in await tx.execute(statement.limit(limit))]


def _to_row(by: Sequence[UsageGrouping], row: Any) -> UsageRow:
    values = {_FIELDS[one]: getattr(row, f"by_{one}") for one in by}
    if UsageGrouping.KEY in by:
        values |= {"key_name": row.key_name, "user_name": row.user_name}
    return UsageRow(**values, sums=_to_sums(row))


def _to_sums(row: Any) -> UsageSums:
    return UsageSums(**{name: int(getattr(row, name)) for name in _SUMS})


async def read_total(tx: Transaction, question: UsageQuery) -> UsageSums:
    return _to_sums((await tx.execute(select(*_select_sums()).where(*_make_conditions(question)))).one())


async def prune(tx: Transaction, age_s: float) -> int:
    """Delete older usage, and spools that have long sent nothing: none of their batches can arrive a second time."""
    oldest = func.corral_now() - func.make_interval(0, 0, 0, 0, 0, 0, age_s)
    deleted = await tx.execute(delete(usage).where(usage.c.hour < oldest))
    await tx.execute(delete(usage_spools).where(usage_spools.c.updated_at < oldest))
    return deleted.rowcount


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySpending:
    """Tokens that one API key has spent on one model in the present day and month."""

    key_id: str
    model: str
    day: int
    month: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendingSnapshot:
    """What API keys have spent, as read from PostgreSQL, and the seconds until the day and the month end."""

    day_left_s: float
    month_left_s: float
    spent: tuple[KeySpending, ...]


async def read_spending(tx: Transaction, key_ids: Collection[str]) -> SpendingSnapshot:
    """Return the spending by key and model; a key that has spent nothing is left out."""
    ends = (await tx.execute(_ENDS)).one()
    rows = await tx.execute(_SPENT, {"keys": sorted(key_ids)})
    return SpendingSnapshot(
        day_left_s=float(ends.day_left_s),
        month_left_s=float(ends.month_left_s),
        spent=tuple(
            KeySpending(key_id=row.key_id, model=row.model, day=int(row.day), month=int(row.month)) for row in rows
        ),
    )
