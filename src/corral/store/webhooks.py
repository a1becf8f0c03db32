"""Stores the deliveries of webhooks: written with their run, due when it has ended, claimed by one frontend at a time.

What is to be sent where stands in the run's request, so that editing its task changes nothing. A claim counts as an
attempt and lasts for a while: a frontend that dies in the middle uses up one of the attempts.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, insert, select, text, update

from corral.domain.run import Run, RunId
from corral.domain.task import WebhookDelivery, WebhookState
from corral.store import runs as run_store
from corral.store.database import Transaction
from corral.store.run_schema import webhook_deliveries
from corral.store.schema import NOW

ERROR_MAX = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDelivery:
    """Values with which the delivery of a webhook of a task's job is inserted; `url` is shown to people."""

    id: str
    position: int
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedDelivery:
    """Delivery of a task's webhook that this frontend has claimed in PostgreSQL and may attempt now."""

    id: str
    position: int
    # Which attempt this is, from 1 on.
    attempt: int
    run: Run
    # How long ago the run has ended.
    age_s: float


async def insert_deliveries(tx: Transaction, run_id: RunId, deliveries: Sequence[NewDelivery]) -> None:
    if deliveries:
        rows = [{"id": one.id, "run_id": run_id, "position": one.position, "url": one.url} for one in deliveries]
        await tx.execute(insert(webhook_deliveries), rows)


async def list_deliveries(tx: Transaction, run_ids: Collection[str]) -> dict[str, list[WebhookDelivery]]:
    """Return the deliveries of these runs, by run and in the order of the task's webhooks."""
    statement = (
        select(webhook_deliveries)
        .where(webhook_deliveries.c.run_id.in_(list(run_ids)))
        .order_by(webhook_deliveries.c.run_id, webhook_deliveries.c.position)
    )
    found: dict[str, list[WebhookDelivery]] = {}
    for row in await tx.execute(statement) if run_ids else ():
        found.setdefault(str(row.run_id), []).append(_to_delivery(row))
    return found


def _to_delivery(row: Any) -> WebhookDelivery:
    return WebhookDelivery(
        id=str(row.id),
        position=row.position,
        url=row.url,
        state=WebhookState(row.state),
        attempts=row.attempts,
        last_status=row.last_status,
        last_error=row.last_error,
        delivered_at=row.delivered_at,
    )


# The first of every owner come before the second ones, so that no owner keeps others waiting. Rows are locked in a
# query of their own, which looks at them once more: another frontend may have claimed them meanwhile.
_CLAIM = text("""
    WITH due AS (
        SELECT d.id, r.owner, coalesce(d.next_at, r.finished_at) AS since,
               row_number() OVER (PARTITION BY r.owner ORDER BY coalesce(d.next_at, r.finished_at), d.id) AS place
          FROM webhook_deliveries d JOIN runs r ON r.id = d.run_id
         WHERE d.state = 'pending' AND r.finished_at IS NOT NULL
           AND (d.next_at IS NULL OR d.next_at <= corral_now()) AND d.attempts < :attempts
    ), fair AS (
        SELECT due.id FROM due
          LEFT JOIN jsonb_to_recordset(CAST(:sending AS jsonb)) AS s(owner text, number int) ON s.owner = due.owner
         WHERE due.place + coalesce(s.number, 0) <= :of_owner
         ORDER BY due.place + coalesce(s.number, 0), due.since, due.id
         LIMIT :limit
    )
    UPDATE webhook_deliveries
       SET attempts = attempts + 1, next_at = corral_now() + make_interval(secs => :lease_s)
     WHERE id IN (
        SELECT d.id FROM webhook_deliveries d
         WHERE d.id IN (SELECT id FROM fair) AND d.state = 'pending'
           AND (d.next_at IS NULL OR d.next_at <= corral_now()) AND d.attempts < :attempts
           FOR UPDATE OF d SKIP LOCKED)
    RETURNING id, run_id, position, attempts,
        (SELECT extract(epoch FROM corral_now() - r.finished_at) FROM runs r WHERE r.id = run_id) AS age_s
""")
_GIVE_UP = text("""
    UPDATE webhook_deliveries
       SET state = 'failed', next_at = NULL,
           last_error = coalesce(nullif(last_error, ''), 'The frontend was stopped during the attempt.')
     WHERE state = 'pending' AND attempts >= :attempts AND next_at <= corral_now()
""")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimLimits:
    """Limits what one claim of webhook deliveries takes from PostgreSQL: in number, for an owner, and for how long."""

    number: int
    # Deliveries of one owner under way at a time, those included that are being sent already.
    of_owner: int
    attempts: int
    lease_s: float


async def claim_due(tx: Transaction, limits: ClaimLimits, sending: Mapping[str, int]) -> list[ClaimedDelivery]:
    """Claim deliveries of runs that have ended. No other frontend gets them before the lease has run out. `sending`
    says how many deliveries of which owners are under way already."""
    # What was claimed for the last time by a frontend that never came back.
    await tx.execute(_GIVE_UP, {"attempts": limits.attempts})
    parameters = {
        "limit": limits.number,
        "of_owner": limits.of_owner,
        "attempts": limits.attempts,
        "lease_s": limits.lease_s,
        "sending": json.dumps([{"owner": owner, "number": number} for owner, number in sending.items()]),
    }
    rows = (await tx.execute(_CLAIM, parameters)).all()
    return [
        ClaimedDelivery(
            id=str(row.id),
            position=row.position,
            attempt=row.attempts,
            age_s=float(row.age_s),
            run=await run_store.get_run(tx, str(row.run_id)),
        )
        for row in rows
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryOutcome:
    """Update of a webhook delivery's row after one attempt.

    `retry_s` is the pause before the next one; None: there is no next one. One that was not sent does not count.
    """

    state: WebhookState
    status: int | None = None
    error: str = ""
    retry_s: float | None = None
    is_sent: bool = True


async def record_attempt(tx: Transaction, claimed: ClaimedDelivery, outcome: DeliveryOutcome) -> None:
    """Record how an attempt ended, unless another frontend has claimed the delivery meanwhile."""
    pause = func.make_interval(0, 0, 0, 0, 0, 0, outcome.retry_s)
    await tx.execute(
        update(webhook_deliveries)
        .where(
            webhook_deliveries.c.id == claimed.id,
            webhook_deliveries.c.attempts == claimed.attempt,
            webhook_deliveries.c.state == WebhookState.PENDING,
        )
        .values(
            state=outcome.state,
            attempts=webhook_deliveries.c.attempts if outcome.is_sent else webhook_deliveries.c.attempts - 1,
            last_status=outcome.status,
            last_error=outcome.error[:ERROR_MAX],
            next_at=None if outcome.retry_s is None else func.corral_now() + pause,
            delivered_at=NOW if outcome.state is WebhookState.DELIVERED else None,
        )
    )
