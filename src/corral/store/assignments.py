"""Assignments: the pending changes of each node. One row per node and backend; a newer request replaces the older.

Guarantee: an assignment and the target that it belongs to are written in one transaction, and so is their end. A
cancelled, drained or replaced request leaves a target with its end behind, never an assignment that could run later.
Any number of nodes is a handful of statements. Operations are locked first, by id, then targets and assignments;
nodes come after operations, and replicas after both.

The installed backends that nodes report are stored here too. A report lists all of them; only differences are written.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from sqlalchemy import delete, func, select, text, tuple_, update
from sqlalchemy.dialects.postgresql import insert

from corral.domain.backend import Assignment, InstalledBackend
from corral.domain.errors import NotFound
from corral.domain.node import NodeId
from corral.domain.operation import Operation, OperationId
from corral.policy.gallery import build_to_json
from corral.policy.operation_plan import PlannedTarget
from corral.ports.runtime import IdGenerator
from corral.store import operations as operation_store
from corral.store import outbox
from corral.store.database import Transaction
from corral.store.operations import to_assignment, to_installed
from corral.store.schema import NOW, assignments, installed_backends, nodes, operations

OPEN_STATES = "('queued', 'working', 'unconfirmed')"

_INSTALLED_COLUMNS = tuple(field.name for field in fields(InstalledBackend) if field.name != "name")


async def list_installed(
    tx: Transaction, *, only: Collection[NodeId] | None = None
) -> dict[NodeId, tuple[InstalledBackend, ...]]:
    """Return installed backends by node; a node without any is left out. Of these nodes only, if some are given."""
    statement = select(installed_backends).order_by(installed_backends.c.node_id, installed_backends.c.name)
    if only is not None:
        statement = statement.where(installed_backends.c.node_id.in_(list(only)))
    found: dict[NodeId, list[InstalledBackend]] = {}
    for row in await tx.execute(statement):
        found.setdefault(NodeId(row.node_id), []).append(to_installed(row))
    return {node_id: tuple(items) for node_id, items in found.items()}


async def replace_installed_many(
    tx: Transaction, reported: Mapping[NodeId, Iterable[InstalledBackend]]
) -> dict[NodeId, list[str]]:
    """Replace the installed backends of many nodes, in as many statements as for one. The caller prevents concurrent
    calls."""
    previous = await list_installed(tx, only=reported.keys())
    removed: list[tuple[NodeId, str]] = []
    newer: list[dict[str, Any]] = []
    names: dict[NodeId, list[str]] = {}
    for node_id, items in sorted(reported.items()):
        was = {item.name: item for item in previous.get(node_id, ())}
        now = {item.name: item for item in items}
        lost = sorted(was.keys() - now.keys())
        changed = [item for name, item in sorted(now.items()) if was.get(name) != item]
        removed += [(node_id, name) for name in lost]
        newer += [asdict(item) | {"node_id": node_id} for item in changed]
        names[node_id] = sorted({*lost, *(item.name for item in changed)})
    if removed:
        columns = tuple_(installed_backends.c.node_id, installed_backends.c.name)
        await tx.execute(delete(installed_backends).where(columns.in_(removed)))
    if newer:
        statement = insert(installed_backends)
        values: dict[str, Any] = {name: statement.excluded[name] for name in _INSTALLED_COLUMNS}
        await tx.execute(
            statement.on_conflict_do_update(index_elements=["node_id", "name"], set_=values | {"reported_at": NOW}),
            newer,
        )
    return names


async def note_reports(tx: Transaction, node_ids: Collection[NodeId]) -> None:
    """Record that these nodes have reported: from now on their lists are known, also those that are empty."""
    await tx.execute(update(nodes).where(nodes.c.id.in_(list(node_ids))).values(backends_at=NOW))


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentRow:
    """A pending engine backend change of a node as read from PostgreSQL, with node name and operation."""

    assignment: Assignment
    node_name: str
    kind: str
    subject: str


# A transaction that drains or removes a node holds its row; this waits for it and sees the result. Heartbeats do not
# wait. One after the other: of two that come at once for one node, each would miss that it replaces the other.
_ONE_AT_A_TIME = text("SELECT pg_advisory_xact_lock(hashtextextended('assign', 0))")

_LOCK_NODES = text("""
    SELECT id::text AS id, (drained_at IS NULL AND approved_at IS NOT NULL AND node_type = 'backend') AS is_usable
      FROM nodes WHERE id = ANY(CAST(:ids AS uuid[])) ORDER BY id FOR KEY SHARE
""")

_BATCH_CTE = """
    WITH item AS (
        SELECT * FROM jsonb_to_recordset(CAST(:batch AS jsonb)) AS item(
            node uuid, node_name text, wave integer, backend text, desired text, build jsonb, previous jsonb,
            job_id uuid, total_bytes bigint, state text, error_code text, error_text text)
    )
"""

_REPLACED = text(f"""
    {_BATCH_CTE}
    SELECT a.node_id::text AS node, a.operation_id::text AS operation_id, a.backend
      FROM assignments a JOIN item ON item.node = a.node_id AND item.backend = a.backend
     WHERE item.state = 'queued' AND a.operation_id <> CAST(:operation_id AS uuid)
""")  # noqa: S608 - no value in it

# Attempts and delays start over: a new request is to be tried now.
_ASSIGN = text(f"""
    {_BATCH_CTE}, put AS (
        INSERT INTO assignments (node_id, backend, desired, operation_id, build)
        SELECT node, backend, desired, CAST(:operation_id AS uuid), build FROM item
         WHERE state = 'queued' ORDER BY node, backend
        ON CONFLICT (node_id, backend) DO UPDATE
           SET desired = excluded.desired, generation = excluded.generation, operation_id = excluded.operation_id,
               build = excluded.build, state = 'open', attempts = 0, next_retry_at = NULL, error_code = NULL,
               error_text = NULL, created_at = corral_now(), updated_at = corral_now()
        RETURNING node_id, generation
    )
    INSERT INTO operation_targets (operation_id, node, node_name, wave, state, total_bytes, job_id, generation, build,
                                   previous, error_code, error_text, finished_at)
    SELECT CAST(:operation_id AS uuid), item.node, item.node_name, item.wave, item.state, item.total_bytes, item.job_id,
           coalesce(put.generation, 0), item.build, item.previous, item.error_code, item.error_text,
           CASE WHEN item.state <> 'queued' THEN corral_now() END
      FROM item LEFT JOIN put ON put.node_id = item.node
     ORDER BY item.node
    ON CONFLICT (operation_id, node) DO UPDATE
       SET wave = excluded.wave, state = excluded.state, job_id = excluded.job_id, seq = 0,
           generation = excluded.generation, error_code = excluded.error_code, error_text = excluded.error_text,
           stop_wanted = false, keeps_partial = false, contacted_at = NULL, heard_at = NULL,
           finished_at = excluded.finished_at
""")  # noqa: S608 - no value in it


async def assign(tx: Transaction, operation: Operation, planned: Sequence[PlannedTarget], ids: IdGenerator) -> None:
    """Write the targets and assignments of an operation, each with a job of its own.

    A node that is drained, or was removed a moment ago, gets a target that has ended. An assignment of another
    operation for the same node and backend is replaced, and its target is superseded. A target that exists already
    starts over.
    """
    if not planned:
        return
    batch = [_make_row(target, ids.new_id()) for target in planned]
    await tx.execute(_ONE_AT_A_TIME)
    # Before the nodes: the removal of a node locks its operations first.
    await _lock_replaced_operations(tx, batch, operation)
    rows = await tx.execute(_LOCK_NODES, {"ids": [target.node.id for target in planned]})
    drained = {target.node.id for target in planned if target.node.drained_at is not None}
    usable = {NodeId(row.id): bool(row.is_usable) and row.id not in drained for row in rows}
    batch = [item | _make_ended_columns(usable.get(item["node"])) for item in batch]
    older = await _lock_replaced_operations(tx, batch, operation)
    parameters = {"batch": json.dumps(batch), "operation_id": operation.id}
    await tx.execute(_ASSIGN, parameters)
    await _supersede(tx, older, operation)


async def _lock_replaced_operations(
    tx: Transaction, batch: Sequence[Mapping[str, Any]], operation: Operation
) -> list[tuple[str, str]]:
    """Lock and return the operations, each with a node, whose assignments this batch replaces."""
    rows = await tx.execute(_REPLACED, {"batch": json.dumps(batch), "operation_id": operation.id})
    older = [(row.operation_id, row.node) for row in rows]
    await lock_operations(tx, {OperationId(operation_id) for operation_id, _ in older})
    return older


def _make_row(target: PlannedTarget, job_id: str) -> dict[str, Any]:
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


def _make_ended_columns(is_usable: bool | None) -> dict[str, Any]:  # noqa: FBT001 - three values
    """Return the columns that end a target whose node is drained, or removed (None)."""
    if is_usable:
        return {}
    is_removed = is_usable is None
    code, fate = ("node_removed", "removed") if is_removed else ("node_drained", "drained")
    return {
        "state": "error" if is_removed else "skipped",
        "error_code": code,
        "error_text": f"The node was {fate} before it got the command.",
    }


# Whether the worker of an open target may have begun, so that it has to be sent a stop command: its command was sent,
# or is on its way (`dispatch.mark_sent`).
_MAY_HAVE_BEGUN = "(state <> 'queued' OR contacted_at IS NOT NULL)"
_SUPERSEDE = text(f"""
    WITH gone AS (
        SELECT * FROM jsonb_to_recordset(CAST(:pairs AS jsonb)) AS gone(operation_id uuid, node uuid)
    )
    UPDATE operation_targets t
       SET state = 'superseded', finished_at = corral_now(), error_code = NULL, error_text = NULL,
           stop_wanted = {_MAY_HAVE_BEGUN}
      FROM gone
     WHERE t.operation_id = gone.operation_id AND t.node = gone.node
       AND t.state IN ('queued', 'working', 'unconfirmed')
""")  # noqa: S608 - no value in it


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
) -> list[AssignmentRow]:
    """Return open and given-up assignments, by node and backend."""
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
        AssignmentRow(assignment=to_assignment(row), node_name=row.node_name, kind=row.kind, subject=row.subject)
        for row in await tx.execute(statement)
    ]


async def get_assignment(tx: Transaction, node_id: NodeId, backend: str) -> Assignment:
    statement = select(assignments).where(assignments.c.node_id == node_id, assignments.c.backend == backend)
    row = (await tx.execute(statement)).one_or_none()
    if row is None:
        raise NotFound(
            f"The node has no pending change of {backend[:80]!r}.",
            hint="`corral backends pending` lists the pending changes.",
            code="assignment_not_found",
        )
    return to_assignment(row)


async def list_for_nodes(tx: Transaction, node_ids: Collection[NodeId]) -> list[Assignment]:
    """Return open and given-up assignments of these nodes."""
    statement = select(assignments).where(assignments.c.node_id.in_(list(node_ids)))
    return [to_assignment(row) for row in await tx.execute(statement)]


async def count_states(tx: Transaction) -> dict[str, int]:
    """Return how many assignments are open and how many have failed."""
    rows = await tx.execute(select(assignments.c.state, func.count().label("number")).group_by(assignments.c.state))
    return {str(row.state): row.number for row in rows}


async def list_open(tx: Transaction) -> dict[NodeId, tuple[Assignment, ...]]:
    """Return the open assignments by node, without failed ones."""
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
    """Make the open targets of these nodes due now, because something about the nodes has changed."""
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
    """Make the open targets of an operation due now, because it was requested again. Their attempts stay counted."""
    await lock_operations(tx, [operation_id])
    if (await tx.execute(_HASTEN, {"operation_id": operation_id})).rowcount:
        await wake_operations(tx, [operation_id])


_RELEASE_TARGETS = text(f"""
    UPDATE operation_targets
       SET state = 'cancelled', finished_at = corral_now(), keeps_partial = :keeps_partial,
           stop_wanted = {_MAY_HAVE_BEGUN}
     WHERE operation_id = CAST(:operation_id AS uuid) AND state IN {OPEN_STATES}
    RETURNING stop_wanted
""")  # noqa: S608 - no value in it


async def release_operation(tx: Transaction, operation_id: OperationId, *, keeps_partial: bool = False) -> bool:
    """Cancel every open target of an operation. Return True if a worker has to be sent a stop command."""
    await tx.execute(delete(assignments).where(assignments.c.operation_id == operation_id))
    parameters = {"operation_id": operation_id, "keeps_partial": keeps_partial}
    return any(row.stop_wanted for row in await tx.execute(_RELEASE_TARGETS, parameters))


_DISCARD_PAUSED = text("""
    UPDATE operation_targets SET keeps_partial = false, stop_wanted = true
     WHERE operation_id = CAST(:operation_id AS uuid) AND state = 'cancelled' AND keeps_partial
       AND (contacted_at IS NOT NULL OR stop_wanted)
    RETURNING node
""")


async def discard_paused(tx: Transaction, operation_id: OperationId) -> bool:
    """Cancel a paused operation: workers delete the bytes that they kept for it. Return True if one has to be
    notified."""
    return bool((await tx.execute(_DISCARD_PAUSED, {"operation_id": operation_id})).all())


_RELEASE_UNSENT = text("""
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


async def release_unsent(tx: Transaction, operation_id: OperationId) -> None:
    """Cancel the targets that no worker is at; running work is left alone."""
    await tx.execute(_RELEASE_UNSENT, {"operation_id": operation_id})


_END_MISSING = text("""
    UPDATE operation_targets
       SET state = 'error', finished_at = corral_now(), keeps_partial = false, stop_wanted = false,
           error_code = 'node_removed', error_text = 'The node was removed.'
     WHERE operation_id = CAST(:operation_id AS uuid) AND state = 'cancelled' AND keeps_partial
""")


async def end_missing(tx: Transaction, operation_id: OperationId) -> None:
    """End targets that could not be assigned again after a pause, because their node is gone."""
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
       SET state = CASE WHEN :is_there AND operation_id NOT IN (SELECT id FROM operations WHERE kind LIKE 'run_%')
                        THEN 'skipped' ELSE 'error' END,
           finished_at = corral_now(), error_code = :code, error_text = :words,
           stop_wanted = (:is_there AND {_MAY_HAVE_BEGUN})
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


async def list_operations_of_node(tx: Transaction, node_id: NodeId) -> frozenset[OperationId]:
    """Return the operations with an open target or a stop command for a node."""
    return frozenset(OperationId(row.id) for row in await tx.execute(text(_OF_NODE), {"node": node_id}))


async def lock_operations_of_node(tx: Transaction, node_id: NodeId) -> frozenset[OperationId]:
    return frozenset(OperationId(row.id) for row in await tx.execute(_LOCK_OF_NODE, {"node": node_id}))


async def end_for_node(tx: Transaction, node_id: NodeId, node_name: str, *, is_removed: bool) -> None:
    """End the targets of a drained or removed node. A drained node finishes the job that its worker runs; a removed
    one ends all.

    A drained node is skipped, which is no failure; a load is tried elsewhere. A run has failed there.
    """
    code, fate = ("node_removed", "removed") if is_removed else ("node_drained", "drained")
    parameters = {"node": node_id, "code": code, "words": f"The node was {fate}.", "is_there": not is_removed}
    await lock_operations_of_node(tx, node_id)
    ended = {OperationId(row.operation_id) for row in await tx.execute(_END_TARGETS, parameters)}
    if is_removed:
        await tx.execute(_FORGET_STOPS, {"node": node_id})
    ended_rows = (await tx.execute(_END_ASSIGNMENTS, {"node": node_id})).all()
    await _append_ended_events(tx, node_id, {row.backend: row.operation_id for row in ended_rows}, code)
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
    """Delete satisfied assignments and complete their targets. Return the nodes and operations concerned."""
    if not satisfied:
        return []
    await lock_operations(tx, {assignment.operation_id for assignment in satisfied})
    # By generation: an assignment that was replaced in the meantime is not the one that was examined.
    parameters = {
        "nodes": sorted({assignment.node_id for assignment in satisfied}),
        "generations": [assignment.generation for assignment in satisfied],
    }
    settled = (await tx.execute(_SETTLE, parameters)).all()
    rows = sorted((row.node_id, row.backend, row.operation_id) for row in settled)
    finished = sorted((row.operation_id, row.node_name) for row in settled if row.node_name)
    await operation_store.add_notes(tx, [(OperationId(key), "info", name, "done") for key, name in finished])
    await outbox.append_many(
        tx, "assignment.ended", [_make_ended_event(node, backend, key, "satisfied") for node, backend, key in rows]
    )
    await wake_operations(tx, sorted({OperationId(key) for _, _, key in rows}))
    return [(NodeId(node), OperationId(key)) for node, _, key in rows]


_DISCARD = text(f"""
    WITH gone AS (
        DELETE FROM assignments WHERE node_id = CAST(:node AS uuid) AND generation = :generation
        RETURNING operation_id, node_id
    )
    UPDATE operation_targets t
       SET state = 'cancelled', finished_at = corral_now(), stop_wanted = {_MAY_HAVE_BEGUN}
      FROM gone
     WHERE t.operation_id = gone.operation_id AND t.node = gone.node_id AND t.state IN {OPEN_STATES}
""")  # noqa: S608 - no value in it


async def discard(tx: Transaction, assignment: Assignment) -> None:
    """Delete one assignment and end its target. The caller has locked its operation."""
    await tx.execute(_DISCARD, {"node": assignment.node_id, "generation": assignment.generation})
    await _append_ended_events(tx, assignment.node_id, {assignment.backend: assignment.operation_id}, "dropped")
    await wake_operations(tx, [assignment.operation_id])


async def _append_ended_events(
    tx: Transaction, node_id: NodeId, operations_by_backend: Mapping[str, str], reason: str
) -> None:
    ended = [
        _make_ended_event(node_id, backend, operation_id, reason)
        for backend, operation_id in sorted(operations_by_backend.items())
    ]
    await outbox.append_many(tx, "assignment.ended", ended)


def _make_ended_event(node_id: str, backend: str, operation_id: str, reason: str) -> tuple[str, dict[str, Any]]:
    return node_id, {"node_id": node_id, "backend": backend, "id": operation_id, "reason": reason}
