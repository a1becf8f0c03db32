"""What keys have spent in the present day and month, by the registry's clock, in UTC."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import text

from corral.store.database import Transaction

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    key_id: str
    model: str
    day: int
    month: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    day_left_s: float
    month_left_s: float
    spent: tuple[Spent, ...]


async def read_spending(tx: Transaction, key_ids: Collection[str]) -> Spending:
    """Key by key and model by model; who has spent nothing is not in it."""
    ends = (await tx.execute(_ENDS)).one()
    rows = await tx.execute(_SPENT, {"keys": sorted(key_ids)})
    return Spending(
        day_left_s=float(ends.day_left_s),
        month_left_s=float(ends.month_left_s),
        spent=tuple(Spent(key_id=row.key_id, model=row.model, day=int(row.day), month=int(row.month)) for row in rows),
    )
