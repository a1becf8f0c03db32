"""Assignments: what each node still owes. One row per node and backend; a newer wish replaces the older.

Guarantee: an assignment and the target that it belongs to are written in one transaction, and so is their end. What a
cancelled, drained or replaced wish leaves behind is a target with its end, never an assignment that could run later.
Any number of nodes is a handful of statements. Operations are locked first, by id, then targets and assignments; nodes
come after operations, and replicas after both.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, func, select, text

from corral.domain.backend import Assignment
from corral.domain.errors import NotFound
from corral.domain.node import NodeId
from corral.domain.operation import Operation, OperationId
from corral.policy.gallery import build_to_json
from corral.policy.planning import PlannedTarget
from corral.ports.runtime import Ids
from corral.store import operations as operation_store
from corral.store import outbox
from corral.store.database import Transaction
from corral.store.operation_rows import to_assignment
from corral.store.schema import assignments, nodes, operations

OPEN_STATES = "('queued', 'working', 'unconfirmed')"


@dataclass(frozen=True, slots=True, kw_only=True)
class Owed:
    """An assignment with the name of its node and what it was asked for with."""

    assignment: Assignment
    node_name: str
    kind: str
    subject: str


# Whoever drains or removes a node holds its row; this waits for them and sees what they did. Heartbeats do not wait.
# One after the other: of two that come at once for one node, each would miss that it replaces the other.
_ONE_AT_A_TIME = text("SELECT pg_advisory_xact_lock(hashtextextended('assign', 0))")

_LOCK_NODES = text("""
    SELECT id::text AS id, (drained_at IS NULL AND approved_at IS NOT NULL AND node_type = 'backend') AS is_usable
      FROM nodes WHERE id = ANY(CAST(:ids AS uuid[])) ORDER BY id FOR KEY SHARE
""")

_WISH = """
    WITH wish AS (
        SELECT * FROM jsonb_to_recordset(CAST(:batch AS jsonb)) AS wish(
            node uuid, node_name text, wave integer, backend text, desired text, build jsonb, previous jsonb,
            job_id uuid, total_bytes bigint, state text, error_code text, error_text text)
    )
"""

_REPLACED = text(f"""
    {_WISH}
    SELECT a.node_id::text AS node, a.operation_id::text AS operation_id, a.backend
      FROM assignments a JOIN wish ON wish.node = a.node_id AND wish.backend = a.backend
     WHERE wish.state = 'queued' AND a.operation_id <> CAST(:operation_id AS uuid)
""")  # noqa: S608 - no value in it

# Attempts and delays start anew: whoever asks again wants it tried now.
_ASSIGN = text(f"""
    {_WISH}, put AS (
        INSERT INTO assignments (node_id, backend, desired, operation_id, build)
        SELECT node, backend, desired, CAST(:operation_id AS uuid), build FROM wish
         WHERE state = 'queued' ORDER BY node, backend
        ON CONFLICT (node_id, backend) DO UPDATE
           SET desired = excluded.desired, generation = excluded.generation, operation_id = excluded.operation_id,
               build = excluded.build, state = 'open', attempts = 0, next_retry_at = NULL, error_code = NULL,
               error_text = NULL, created_at = corral_now(), updated_at = corral_now()
        RETURNING node_id, generation
    )
    INSERT INTO operation_targets (operation_id, node, node_name, wave, state, total_bytes, job_id, generation, build,
                                   previous, error_code, error_text, finished_at)
    SELECT CAST(:operation_id AS uuid), wish.node, wish.node_name, wish.wave, wish.state, wish.total_bytes, wish.job_id,
           coalesce(put.generation, 0), wish.build, wish.previous, wish.error_code, wish.error_text,
           CASE WHEN wish.state <> 'queued' THEN corral_now() END
      FROM wish LEFT JOIN put ON put.node_id = wish.node
     ORDER BY wish.node
    ON CONFLICT (operation_id, node) DO UPDATE
       SET wave = excluded.wave, state = excluded.state, job_id = excluded.job_id, seq = 0,
           generation = excluded.generation, error_code = excluded.error_code, error_text = excluded.error_text,
           stop_wanted = false, keeps_partial = false, contacted_at = NULL, heard_at = NULL,
           finished_at = excluded.finished_at
""")  # noqa: S608 - no value in it


async def assign(tx: Transaction, operation: Operation, planned: Sequence[PlannedTarget], ids: Ids) -> None:
    """Targets and assignments of an operation, each with a job of its own.

    A node that was drained or removed a moment ago gets a target that has ended. An assignment of another operation
    for the same node and backend is replaced, and its target is superseded. Called again for a target that is there,
    it begins anew.
    """
    if not planned:
        return
    wishes = [_wish(target, ids.new_id()) for target in planned]
    await tx.execute(_ONE_AT_A_TIME)
    # Before the nodes: whoever takes a node out holds its operations first.
    await _lock_replaced(tx, wishes, operation)
    rows = await tx.execute(_LOCK_NODES, {"ids": [target.node.id for target in planned]})
    usable = {NodeId(row.id): bool(row.is_usable) for row in rows}
    wishes = [wish | _too_late(usable.get(wish["node"])) for wish in wishes]
    older = await _lock_replaced(tx, wishes, operation)
    parameters = {"batch": json.dumps(wishes), "operation_id": operation.id}
    await tx.execute(_ASSIGN, parameters)
    await _supersede(tx, older, operation)


async def _lock_replaced(
    tx: Transaction, wishes: Sequence[Mapping[str, Any]], operation: Operation
) -> list[tuple[str, str]]:
    """The operations, each with a node, whose assignments these wishes take the place of."""
    rows = await tx.execute(_REPLACED, {"batch": json.dumps(wishes), "operation_id": operation.id})
    older = [(row.operation_id, row.node) for row in rows]
    await lock_operations(tx, {OperationId(operation_id) for operation_id, _ in older})
    return older


def _wish(target: PlannedTarget, job_id: str) -> dict[str, Any]:
    return {
        "node": target.node.id,
        "node_name": target.node.name,
        "wave": target.wave,
        "backend": target.backend,
        "desired": str(target.desired),
        "build": None if target.build is None else build_to_json(target.build),
        "previous": None if target.previous is None else dict(target.previous),
        "job_id": job_id,
        "total_bytes": target.fetch_bytes or None,
        "state": "queued",
    }


def _too_late(is_usable: bool | None) -> dict[str, Any]:  # noqa: FBT001 - three values
    """What becomes of a wish for a node that is drained, or gone: None."""
    if is_usable:
        return {}
    is_removed = is_usable is None
    code, fate = ("node_removed", "removed") if is_removed else ("node_drained", "drained")
    return {
        "state": "error" if is_removed else "skipped",
        "error_code": code,
        "error_text": f"The node was {fate} before it was told.",
    }


_SUPERSEDE = text("""
    WITH gone AS (
        SELECT * FROM jsonb_to_recordset(CAST(:pairs AS jsonb)) AS gone(operation_id uuid, node uuid)
    )
    UPDATE operation_targets t
       SET state = 'superseded', finished_at = corral_now(), error_code = NULL, error_text = NULL,
           stop_wanted = t.state <> 'queued'
      FROM gone
     WHERE t.operation_id = gone.operation_id AND t.node = gone.node
       AND t.state IN ('queued', 'working', 'unconfirmed')
""")


async def _supersede(tx: Transaction, pairs: Sequence[tuple[str, str]], newer: Operation) -> None:
    if not pairs:
        return
    sent = [{"operation_id": operation_id, "node": node} for operation_id, node in pairs]
    await tx.execute(_SUPERSEDE, {"pairs": json.dumps(sent)})
    older = sorted({OperationId(operation_id) for operation_id, _ in pairs})
    words = f"Replaced by operation {newer.id} ({newer.kind} {newer.subject}) of {newer.created_by}."
    await operation_store.add_notes(tx, [(operation_id, "info", "", words) for operation_id in older])
    await wake_operations(tx, older)


async def list_assignments(
    tx: Transaction, *, node_id: NodeId | None = None, operation_id: OperationId | None = None
) -> list[Owed]:
    """Open and dead ones, by node and backend."""
    statement = (
        select(assignments, nodes.c.name.label("node_name"), operations.c.kind, operations.c.subject)
        .join(nodes, nodes.c.id == assignments.c.node_id)
        .join(operations, operations.c.id == assignments.c.operation_id)
        .order_by(nodes.c.name, assignments.c.backend)
    )
    if node_id is not None:
        statement = statement.where(assignments.c.node_id == node_id)
    if operation_id is not None:
        statement = statement.where(assignments.c.operation_id == operation_id)
    return [
        Owed(assignment=to_assignment(row), node_name=row.node_name, kind=row.kind, subject=row.subject)
        for row in await tx.execute(statement)
    ]


async def get_assignment(tx: Transaction, node_id: NodeId, backend: str) -> Assignment:
    statement = select(assignments).where(assignments.c.node_id == node_id, assignments.c.backend == backend)
    row = (await tx.execute(statement)).one_or_none()
    if row is None:
        raise NotFound(
            f"The node owes nothing about {backend[:80]!r}.",
            hint="`corral backends owed` shows what is.",
            code="assignment_not_found",
        )
    return to_assignment(row)


async def list_of_nodes(tx: Transaction, node_ids: Collection[NodeId]) -> list[Assignment]:
    """Open and dead ones of these nodes."""
    statement = select(assignments).where(assignments.c.node_id.in_(list(node_ids)))
    return [to_assignment(row) for row in await tx.execute(statement)]


async def count_states(tx: Transaction) -> dict[str, int]:
    """How many are open and how many were given up."""
    rows = await tx.execute(select(assignments.c.state, func.count().label("number")).group_by(assignments.c.state))
    return {str(row.state): row.number for row in rows}


async def list_owed(tx: Transaction) -> dict[NodeId, tuple[Assignment, ...]]:
    """By node; what is dead is not coming any more."""
    found: dict[NodeId, list[Assignment]] = {}
    statement = select(assignments).where(assignments.c.state == "open")
    for row in await tx.execute(statement.order_by(assignments.c.node_id, assignments.c.backend)):
        found.setdefault(NodeId(row.node_id), []).append(to_assignment(row))
    return {node_id: tuple(items) for node_id, items in found.items()}


_LOCK_OPERATIONS = text("""
    SELECT id FROM operations WHERE id = ANY(CAST(:ids AS uuid[])) ORDER BY id FOR NO KEY UPDATE
""")


async def lock_operations(tx: Transaction, operation_ids: Collection[OperationId]) -> None:
    if operation_ids:
        await tx.execute(_LOCK_OPERATIONS, {"ids": list(operation_ids)})


_WAKE = """
    UPDATE operations SET due_at = corral_now()
     WHERE id IN (SELECT id FROM operations
                   WHERE {which} AND (due_at IS NULL OR due_at > corral_now())
                   ORDER BY id FOR NO KEY UPDATE)
"""
_WAKE_NODES = text(
    _WAKE.format(
        which="id IN (SELECT operation_id FROM operation_targets WHERE node = ANY(CAST(:ids AS uuid[]))"
        " AND (state IN ('queued', 'working', 'unconfirmed') OR stop_wanted))"
    )
)
_WAKE_OPERATIONS = text(_WAKE.format(which="id = ANY(CAST(:ids AS uuid[]))"))


async def wake_nodes(tx: Transaction, node_ids: Collection[NodeId]) -> int:
    """Something has changed about these nodes: whatever is still to be done there is looked at now."""
    if not node_ids:
        return 0
    return (await tx.execute(_WAKE_NODES, {"ids": list(node_ids)})).rowcount


async def wake_operations(tx: Transaction, operation_ids: Collection[OperationId]) -> int:
    if not operation_ids:
        return 0
    return (await tx.execute(_WAKE_OPERATIONS, {"ids": list(operation_ids)})).rowcount


_HASTEN = text("""
    UPDATE assignments SET next_retry_at = NULL, updated_at = corral_now()
     WHERE operation_id = CAST(:operation_id AS uuid) AND state = 'open' AND next_retry_at > corral_now()
""")


async def hasten(tx: Transaction, operation_id: OperationId) -> None:
    """Somebody has asked for it again: what waits after a failure is tried now. Its attempts stay counted."""
    await lock_operations(tx, [operation_id])
    if (await tx.execute(_HASTEN, {"operation_id": operation_id})).rowcount:
        await wake_operations(tx, [operation_id])


# `stop_wanted`: the worker may have something of it, so it has to be told; one that was never told has not.
_RELEASE_TARGETS = text(f"""
    UPDATE operation_targets
       SET state = 'cancelled', finished_at = corral_now(), keeps_partial = :keeps_partial,
           stop_wanted = (state <> 'queued' OR contacted_at IS NOT NULL)
     WHERE operation_id = CAST(:operation_id AS uuid) AND state IN {OPEN_STATES}
    RETURNING stop_wanted
""")  # noqa: S608 - no value in it


async def release_operation(tx: Transaction, operation_id: OperationId, *, keeps_partial: bool = False) -> bool:
    """Take back everything that an operation still wants. True if a worker has to be told to stop."""
    await tx.execute(delete(assignments).where(assignments.c.operation_id == operation_id))
    parameters = {"operation_id": operation_id, "keeps_partial": keeps_partial}
    return any(row.stop_wanted for row in await tx.execute(_RELEASE_TARGETS, parameters))


_DISCARD_PUT_ASIDE = text("""
    UPDATE operation_targets SET keeps_partial = false, stop_wanted = true
     WHERE operation_id = CAST(:operation_id AS uuid) AND state = 'cancelled' AND keeps_partial
       AND (contacted_at IS NOT NULL OR stop_wanted)
    RETURNING node
""")


async def discard_put_aside(tx: Transaction, operation_id: OperationId) -> bool:
    """A paused operation is cancelled: workers throw away what they kept for it. True if one has to be told."""
    return bool((await tx.execute(_DISCARD_PUT_ASIDE, {"operation_id": operation_id})).all())


_RELEASE_UNTOLD = text("""
    WITH gone AS (
        DELETE FROM assignments a
         WHERE a.operation_id = CAST(:operation_id AS uuid)
           AND NOT EXISTS (SELECT 1 FROM operation_targets t
                            WHERE t.operation_id = a.operation_id AND t.node = a.node_id
                              AND t.state IN ('working', 'unconfirmed'))
    )
    UPDATE operation_targets SET state = 'cancelled', finished_at = corral_now()
     WHERE operation_id = CAST(:operation_id AS uuid) AND state = 'queued'
""")


async def release_untold(tx: Transaction, operation_id: OperationId) -> None:
    """Take back what no worker is at; work that goes on is left alone."""
    await tx.execute(_RELEASE_UNTOLD, {"operation_id": operation_id})


_END_MISSING = text("""
    UPDATE operation_targets
       SET state = 'error', finished_at = corral_now(), keeps_partial = false, stop_wanted = false,
           error_code = 'node_removed', error_text = 'The node was removed.'
     WHERE operation_id = CAST(:operation_id AS uuid) AND state = 'cancelled' AND keeps_partial
""")


async def end_missing(tx: Transaction, operation_id: OperationId) -> None:
    """After a pause: what could not be assigned once more has no node any more."""
    await tx.execute(_END_MISSING, {"operation_id": operation_id})


_OF_NODE = """
    SELECT id::text AS id FROM operations
     WHERE id IN (SELECT operation_id FROM operation_targets
                   WHERE node = CAST(:node AS uuid)
                     AND (state IN ('queued', 'working', 'unconfirmed') OR stop_wanted))
"""
_LOCK_OF_NODE = text(f"{_OF_NODE} ORDER BY operations.id FOR NO KEY UPDATE")
_END_TARGETS = text(f"""
    UPDATE operation_targets
       SET state = CASE WHEN :is_there AND operation_id IN (SELECT id FROM operations WHERE kind LIKE 'backend_%')
                        THEN 'skipped' ELSE 'error' END,
           finished_at = corral_now(), error_code = :code, error_text = :words,
           stop_wanted = (:is_there AND state = 'unconfirmed')
     WHERE node = CAST(:node AS uuid) AND state IN {OPEN_STATES} AND NOT (:is_there AND state = 'working')
    RETURNING operation_id::text AS operation_id
""")  # noqa: S608 - no value in it
_END_ASSIGNMENTS = text("""
    DELETE FROM assignments a
     WHERE a.node_id = CAST(:node AS uuid)
       AND NOT EXISTS (SELECT 1 FROM operation_targets t
                        WHERE t.operation_id = a.operation_id AND t.node = a.node_id AND t.state = 'working')
    RETURNING a.backend, a.operation_id::text AS operation_id
""")
_FORGET_STOPS = text("""
    UPDATE operation_targets SET stop_wanted = false WHERE node = CAST(:node AS uuid) AND stop_wanted
""")


async def operations_of_node(tx: Transaction, node_id: NodeId) -> frozenset[OperationId]:
    """Those that still want something of a node, or have to tell it something."""
    return frozenset(OperationId(row.id) for row in await tx.execute(text(_OF_NODE), {"node": node_id}))


async def lock_of_node(tx: Transaction, node_id: NodeId) -> frozenset[OperationId]:
    return frozenset(OperationId(row.id) for row in await tx.execute(_LOCK_OF_NODE, {"node": node_id}))


async def end_for_node(tx: Transaction, node_id: NodeId, node_name: str, *, is_removed: bool) -> None:
    """A drained node ends what it has not begun; what its worker is at is finished. A removed one ends all of it.

    Backends are skipped on a drained node, which is no failure. A load has failed there, so it is tried elsewhere.
    """
    code, fate = ("node_removed", "removed") if is_removed else ("node_drained", "drained")
    parameters = {"node": node_id, "code": code, "words": f"The node was {fate}.", "is_there": not is_removed}
    await lock_of_node(tx, node_id)
    ended = {OperationId(row.operation_id) for row in await tx.execute(_END_TARGETS, parameters)}
    if is_removed:
        await tx.execute(_FORGET_STOPS, {"node": node_id})
    gone = (await tx.execute(_END_ASSIGNMENTS, {"node": node_id})).all()
    await _tell_ended(tx, node_id, {row.backend: row.operation_id for row in gone}, code)
    words = f"{node_name} was {fate}."
    await operation_store.add_notes(tx, [(key, "warning", node_name, words) for key in sorted(ended)])
    await wake_operations(tx, sorted(ended))


_SETTLE = text(f"""
    WITH done AS (
        DELETE FROM assignments
         WHERE node_id = ANY(CAST(:nodes AS uuid[])) AND generation = ANY(CAST(:generations AS bigint[]))
        RETURNING node_id, backend, operation_id
    ), closed AS (
        UPDATE operation_targets t
           SET state = 'success', percent = 100, finished_at = corral_now(), error_code = NULL, error_text = NULL
          FROM done
         WHERE t.operation_id = done.operation_id AND t.node = done.node_id AND t.state IN {OPEN_STATES}
        RETURNING t.operation_id, t.node, t.node_name
    )
    SELECT done.node_id::text AS node_id, done.backend, done.operation_id::text AS operation_id, closed.node_name
      FROM done LEFT JOIN closed ON closed.operation_id = done.operation_id AND closed.node = done.node_id
""")  # noqa: S608 - no value in it


async def settle(tx: Transaction, satisfied: Collection[Assignment]) -> list[tuple[NodeId, OperationId]]:
    """These are satisfied: their assignments go, their targets have succeeded. The nodes and operations concerned."""
    if not satisfied:
        return []
    await lock_operations(tx, {assignment.operation_id for assignment in satisfied})
    # By generation: one that was replaced in the meantime is not the one that was looked at.
    parameters = {
        "nodes": sorted({assignment.node_id for assignment in satisfied}),
        "generations": [assignment.generation for assignment in satisfied],
    }
    settled = (await tx.execute(_SETTLE, parameters)).all()
    rows = sorted((row.node_id, row.backend, row.operation_id) for row in settled)
    finished = sorted((row.operation_id, row.node_name) for row in settled if row.node_name)
    await operation_store.add_notes(tx, [(OperationId(key), "info", name, "done") for key, name in finished])
    await outbox.append_many(
        tx, "assignment.ended", [_ended(node, backend, key, "satisfied") for node, backend, key in rows]
    )
    await wake_operations(tx, sorted({OperationId(key) for _, _, key in rows}))
    return [(NodeId(node), OperationId(key)) for node, _, key in rows]


_DROP = text(f"""
    WITH gone AS (
        DELETE FROM assignments WHERE node_id = CAST(:node AS uuid) AND generation = :generation
        RETURNING operation_id, node_id
    )
    UPDATE operation_targets t
       SET state = 'cancelled', finished_at = corral_now(), stop_wanted = t.state <> 'queued'
      FROM gone
     WHERE t.operation_id = gone.operation_id AND t.node = gone.node_id AND t.state IN {OPEN_STATES}
""")  # noqa: S608 - no value in it


async def drop(tx: Transaction, assignment: Assignment) -> None:
    """Take back one assignment; its target has ended with it. The caller has locked its operation."""
    await tx.execute(_DROP, {"node": assignment.node_id, "generation": assignment.generation})
    await _tell_ended(tx, assignment.node_id, {assignment.backend: assignment.operation_id}, "dropped")
    await wake_operations(tx, [assignment.operation_id])


async def _tell_ended(tx: Transaction, node_id: NodeId, gone: Mapping[str, str], reason: str) -> None:
    ended = [_ended(node_id, backend, operation_id, reason) for backend, operation_id in sorted(gone.items())]
    await outbox.append_many(tx, "assignment.ended", ended)


def _ended(node_id: str, backend: str, operation_id: str, reason: str) -> tuple[str, dict[str, Any]]:
    return node_id, {"node_id": node_id, "backend": backend, "id": operation_id, "reason": reason}
