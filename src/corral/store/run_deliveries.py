"""Writes the entries of traces that workers deliver, many runs in one statement. A delivery locks its run alone."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import text

from corral.domain.operation import JobId
from corral.domain.run import OpenToolCall, RunEvent, RunId, RunState, RunUsage
from corral.store.database import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceDelivery:
    """New entries of a run's trace to be inserted into PostgreSQL, and the changes of the run's row."""

    run_id: RunId
    job_id: JobId
    events: Sequence[RunEvent]
    size_bytes: int
    state: RunState
    open_calls: Sequence[OpenToolCall]
    usage: RunUsage
    approvals: Mapping[str, Any]
    outcome: Mapping[str, Any] | None


# All deliveries in one statement. A target that another transaction writes is left to it: reports lock targets before
# runs, so waiting could deadlock; the next sign of life follows within seconds.
_WRITE_DELIVERIES = text("""
    WITH d AS (
        SELECT * FROM jsonb_to_recordset(CAST(:deliveries AS jsonb)) AS d(
            run_id uuid, last_seq bigint, size_bytes bigint, state text, open_calls jsonb, usage jsonb,
            approvals jsonb, outcome jsonb)
    ), added AS (
        INSERT INTO run_events (run_id, seq, at, type, tool, data)
        SELECT e.run_id, e.seq, e.at, e.type, e.tool, e.data
          FROM jsonb_to_recordset(CAST(:events AS jsonb)) AS e(
               run_id uuid, seq bigint, at timestamptz, type text, tool text, data jsonb)
    ), alive AS (
        UPDATE operation_targets SET heard_at = corral_now(), state = 'working'
         WHERE job_id IN (SELECT job_id FROM operation_targets
                           WHERE job_id = ANY(CAST(:jobs AS uuid[])) AND state IN ('queued', 'working', 'unconfirmed')
                             FOR NO KEY UPDATE SKIP LOCKED)
    ), responding AS (
        UPDATE runs SET silent_since = NULL
         WHERE job_id = ANY(CAST(:jobs AS uuid[])) AND silent_since IS NOT NULL
           AND id NOT IN (SELECT run_id FROM d)
    )
    UPDATE runs SET
        last_seq = d.last_seq, event_bytes = runs.event_bytes + d.size_bytes, state = d.state,
        open_call = d.open_calls, usage = d.usage, approvals = d.approvals, outcome = d.outcome,
        started_at = COALESCE(runs.started_at, corral_now()), silent_since = NULL,
        attempt_started_at = COALESCE(runs.attempt_started_at, corral_now())
      FROM d
     WHERE runs.id = d.run_id
""")


async def write_deliveries(tx: Transaction, deliveries: Sequence[TraceDelivery], job_ids: Collection[JobId]) -> None:
    """Write entries of traces, and a sign of life of these jobs. The caller holds the locks of the runs and has checked
    the numbers of the entries."""
    if not job_ids:
        return
    rows, events = _render_deliveries(deliveries)
    parameters = {"deliveries": json.dumps(rows), "events": json.dumps(events), "jobs": list(job_ids)}
    await tx.execute(_WRITE_DELIVERIES, parameters)


# The same for runs whose row is known from the last delivery, in one statement without a look at them. A run that has
# changed since, or that another transaction has locked, is left out.
_WRITE_KNOWN = text("""
    WITH d AS (
        SELECT * FROM jsonb_to_recordset(CAST(:deliveries AS jsonb)) AS d(
            run_id uuid, job_id uuid, known_seq bigint, last_seq bigint, size_bytes bigint, state text,
            open_calls jsonb, usage jsonb, approvals jsonb, outcome jsonb)
    ), known AS (
        SELECT r.id FROM runs r JOIN d ON d.run_id = r.id
         WHERE r.job_id = d.job_id AND r.last_seq = d.known_seq AND r.approvals = '{}' AND r.outcome IS NULL
           AND r.finished_at IS NULL
           FOR NO KEY UPDATE OF r SKIP LOCKED
    ), added AS (
        INSERT INTO run_events (run_id, seq, at, type, tool, data)
        SELECT e.run_id, e.seq, e.at, e.type, e.tool, e.data
          FROM jsonb_to_recordset(CAST(:events AS jsonb)) AS e(
               run_id uuid, seq bigint, at timestamptz, type text, tool text, data jsonb)
          JOIN known ON known.id = e.run_id
    ), alive AS (
        UPDATE operation_targets SET heard_at = corral_now(), state = 'working'
         WHERE job_id IN (SELECT t.job_id FROM operation_targets t JOIN d ON d.job_id = t.job_id
                            JOIN known ON known.id = d.run_id
                           WHERE t.state IN ('queued', 'working', 'unconfirmed')
                             FOR NO KEY UPDATE OF t SKIP LOCKED)
    )
    UPDATE runs SET
        last_seq = d.last_seq, event_bytes = runs.event_bytes + d.size_bytes, state = d.state,
        open_call = d.open_calls, usage = d.usage, approvals = d.approvals, outcome = d.outcome,
        started_at = COALESCE(runs.started_at, corral_now()), silent_since = NULL,
        attempt_started_at = COALESCE(runs.attempt_started_at, corral_now())
      FROM d JOIN known ON known.id = d.run_id
     WHERE runs.id = d.run_id
    RETURNING runs.id::text AS id
""")


async def write_known(tx: Transaction, deliveries: Sequence[TraceDelivery]) -> set[RunId]:
    """Write entries of traces of runs that are not locked, if their rows are still as the deliveries assume: without
    approvals, and with no entry between. Return the runs that were written."""
    rows, events = _render_deliveries(deliveries)
    written = await tx.execute(_WRITE_KNOWN, {"deliveries": json.dumps(rows), "events": json.dumps(events)})
    return {RunId(row.id) for row in written}


def _render_deliveries(deliveries: Sequence[TraceDelivery]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the values of runs, and the entries of their traces."""
    rows = [
        {
            "run_id": delivery.run_id,
            "job_id": delivery.job_id,
            "known_seq": delivery.events[0].seq - 1,
            "last_seq": max(event.seq for event in delivery.events),
            "size_bytes": delivery.size_bytes,
            "state": delivery.state,
            "open_calls": [asdict(call) for call in delivery.open_calls] or None,
            "usage": asdict(delivery.usage),
            "approvals": dict(delivery.approvals),
            "outcome": None if delivery.outcome is None else dict(delivery.outcome),
        }
        for delivery in deliveries
    ]
    events = [
        {
            "run_id": delivery.run_id,
            "seq": event.seq,
            "at": event.at.isoformat(),
            "type": event.type,
            "tool": event.tool,
            "data": dict(event.data),
        }
        for delivery in deliveries
        for event in delivery.events
    ]
    return rows, events
