"""Runs that workers hold: what only the worker of the present attempt may read and write.

Limit: a run that is read without its lock may be given to another worker at the same moment.
"""

from __future__ import annotations

from corral.domain.errors import Conflict
from corral.domain.node import NodeId
from corral.domain.run import Run, RunKind
from corral.store import runs as store
from corral.store.database import Transaction


def require_held(run: Run | None, node_id: NodeId, job_id: str, *, kind: RunKind | None = None) -> Run:
    """Return the run. Raises `Conflict` if the worker of another node or none holds it now, or another attempt."""
    if run is None or kind not in (None, run.kind) or not run.is_held_by(node_id, job_id):
        raise Conflict("This run is not yours any more.", code="run_not_held")
    return run


async def lock_held(tx: Transaction, run_id: str, node_id: NodeId, job_id: str, *, kind: RunKind | None = None) -> Run:
    """Return a run that a worker holds, without its request, and keep it from changing until the transaction ends.

    Raises `Conflict` if the worker of another node or none holds it now, or another attempt."""
    stored = await store.lock_run(tx, run_id)
    return require_held(stored.run if stored else None, node_id, job_id, kind=kind)
