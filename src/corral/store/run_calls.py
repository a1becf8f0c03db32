"""Reads the tool calls that attempts of a run have made from its trace, for the attempt that follows."""

from __future__ import annotations

from sqlalchemy import text

from corral.domain.run import MadeCalls, RunEvent, RunEventType
from corral.store.database import Transaction

_EARLIER = """
    SELECT seq, at, type, tool, data, octet_length(data::text) AS size_bytes FROM run_events
     WHERE run_id = CAST(:run_id AS uuid) AND type IN ('step', 'tool_call', 'tool_result')
"""
_EARLIER_CALLS = text(f"""
    WITH earlier AS ({_EARLIER}
       AND seq < (SELECT max(seq) FROM run_events WHERE run_id = CAST(:run_id AS uuid) AND type = 'retried'))
    SELECT seq, at, type, tool, data FROM earlier
     WHERE (SELECT sum(size_bytes) FROM earlier) <= :most
     ORDER BY seq
""")  # noqa: S608 - no value in it
_MEASURE_CALLS = text(f"""
    SELECT coalesce(sum(size_bytes), 0) AS size_bytes,
           coalesce(bool_or(type = 'tool_call' AND data -> 'is_repeatable' IS DISTINCT FROM 'true'), false)
               AS has_effects
      FROM ({_EARLIER}) made
""")  # noqa: S608 - no value in it


async def list_earlier_calls(tx: Transaction, run_id: str, most_bytes: int) -> list[RunEvent]:
    """Return the steps of a run's earlier attempts, with the calls and results of tools, in order; none if they are
    larger than this."""
    rows = await tx.execute(_EARLIER_CALLS, {"run_id": run_id, "most": most_bytes})
    return [RunEvent(seq=row.seq, at=row.at, type=RunEventType(row.type), tool=row.tool, data=row.data) for row in rows]


async def measure_calls(tx: Transaction, run_id: str) -> MadeCalls:
    """Return how large the calls and results of tools in a run's trace are, and whether a call may have had effects."""
    row = (await tx.execute(_MEASURE_CALLS, {"run_id": run_id})).one()
    return MadeCalls(size_bytes=int(row.size_bytes), may_have_effects=row.has_effects)
