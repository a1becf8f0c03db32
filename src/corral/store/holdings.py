"""Stores what nodes hold: files, models and processes as they report them, running pulls, and pending removals of
copies.

Guarantee: a report without changes writes nothing. A pending removal survives the model, the operation and every
frontend; it is deleted when its worker has confirmed that the files are gone, or with its node.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, func, select, text, tuple_, update
from sqlalchemy.dialects.postgresql import insert

from corral.domain.node import NodeId
from corral.domain.replica import Replica, ReplicaState
from corral.store.database import Transaction
from corral.store.model_schema import library_files, model_removals, models, staged_files, staged_models
from corral.store.replicas import append_changed_replicas
from corral.store.schema import NOW, frontends, nodes, replicas

# A frontend that was not seen for so long cannot be read from.
_FRONTEND_ALIVE_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedFile:
    """Row in PostgreSQL that says that a node has a model file, whole or in part."""

    node_id: NodeId
    sha256: str
    size_bytes: int
    is_whole: bool


async def replace_files(tx: Transaction, node_id: NodeId, files: Mapping[str, tuple[int, bool]]) -> bool:
    """Replace the files of a node: content to size and whether it is whole. True if something differed."""
    rows = await tx.execute(select(staged_files).where(staged_files.c.node_id == node_id))
    previous = {row.sha256: (row.size_bytes, row.is_whole) for row in rows}
    removed = previous.keys() - files.keys()
    newer = [sha256 for sha256, held in sorted(files.items()) if previous.get(sha256) != held]
    if removed:
        condition = (staged_files.c.node_id == node_id) & staged_files.c.sha256.in_(sorted(removed))
        await tx.execute(delete(staged_files).where(condition))
    if newer:
        statement = insert(staged_files).values(
            [
                {"node_id": node_id, "sha256": sha256, "size_bytes": files[sha256][0], "is_whole": files[sha256][1]}
                for sha256 in newer
            ]
        )
        written = {name: statement.excluded[name] for name in ("size_bytes", "is_whole")}
        await tx.execute(
            statement.on_conflict_do_update(index_elements=["node_id", "sha256"], set_=written | {"reported_at": NOW})
        )
    return bool(removed or newer)


async def replace_models(tx: Transaction, node_id: NodeId, held: Mapping[str, str], *, is_all: bool = True) -> bool:
    """Replace the models of a node: name to revision. Unless `is_all`, absent ones stay."""
    rows = await tx.execute(select(staged_models).where(staged_models.c.node_id == node_id))
    previous = {row.model: row.revision for row in rows}
    removed = previous.keys() - held.keys() if is_all else set()
    newer = [(name, revision) for name, revision in sorted(held.items()) if previous.get(name) != revision]
    if removed:
        condition = (staged_models.c.node_id == node_id) & staged_models.c.model.in_(sorted(removed))
        await tx.execute(delete(staged_models).where(condition))
    if newer:
        await put_models(tx, [(node_id, name, revision) for name, revision in newer])
    return bool(removed or newer)


async def put_models(tx: Transaction, held: Collection[tuple[NodeId, str, str]]) -> None:
    """Record nodes that have files of a model, or will have them in a moment: a deletion has to reach them."""
    if not held:
        return
    statement = insert(staged_models).values(
        [{"node_id": node_id, "model": model, "revision": revision} for node_id, model, revision in held]
    )
    await tx.execute(
        statement.on_conflict_do_update(
            index_elements=["node_id", "model"],
            set_={"revision": statement.excluded.revision, "reported_at": NOW},
        )
    )


async def list_files(tx: Transaction, sha256s: Collection[str]) -> list[StagedFile]:
    """Return which nodes have these contents, whole or in part."""
    if not sha256s:
        return []
    rows = await tx.execute(select(staged_files).where(staged_files.c.sha256.in_(sorted(set(sha256s)))))
    return [
        StagedFile(node_id=NodeId(row.node_id), sha256=row.sha256, size_bytes=row.size_bytes, is_whole=row.is_whole)
        for row in rows
    ]


async def list_whole_at(tx: Transaction, sha256s: Collection[str]) -> dict[str, list[str]]:
    """Return the names of the nodes that have each of these contents whole."""
    if not sha256s:
        return {}
    rows = await tx.execute(
        select(staged_files.c.sha256, nodes.c.name)
        .join(nodes, nodes.c.id == staged_files.c.node_id)
        .where(staged_files.c.sha256.in_(sorted(set(sha256s))), staged_files.c.is_whole)
        .order_by(nodes.c.name)
    )
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row.sha256, []).append(row.name)
    return found


async def filter_in_library(tx: Transaction, sha256s: Collection[str]) -> set[str]:
    """Return those of these contents that a running frontend holds, or their shared storage."""
    if not sha256s:
        return set()
    alive = select(frontends.c.id).where(
        frontends.c.seen_at > func.corral_now() - func.make_interval(0, 0, 0, 0, 0, 0, _FRONTEND_ALIVE_S)
    )
    rows = await tx.execute(
        select(library_files.c.sha256)
        .where(
            library_files.c.sha256.in_(sorted(set(sha256s))),
            library_files.c.is_shared | library_files.c.holder.in_(alive),
        )
        .distinct()
    )
    return {row.sha256 for row in rows}


_PULLING = text("""
    SELECT t.node::text AS node, t.build -> 'load' -> 'from' ->> 0 AS source, o.subject = :model AS is_same
      FROM operation_targets t JOIN operations o ON o.id = t.operation_id
     WHERE t.state IN ('queued', 'working', 'unconfirmed') AND o.kind IN ('model_load', 'model_stage')
       AND t.build ? 'load' AND COALESCE(t.phase, '') NOT IN ('starting', 'loading')
""")


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivePull:
    """Row in PostgreSQL that says that a node is fetching model files now, and from which node.

    `is_same`: files of the requested model.
    """

    node: NodeId
    source: NodeId | None
    is_same: bool


async def list_active_pulls(tx: Transaction, model: str) -> list[ActivePull]:
    rows = await tx.execute(_PULLING, {"model": model})
    return [
        ActivePull(node=NodeId(row.node), source=NodeId(row.source) if row.source else None, is_same=row.is_same)
        for row in rows
    ]


# --- copies that have to go ---


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyRemoval:
    """Row in PostgreSQL: a pending removal of a model's files from one node, with its attempts and last problem."""

    node_id: NodeId
    node_name: str
    model: str
    operation_id: str | None
    attempts: int = 0
    problem: str = ""


_INSERT_REMOVALS = text("""
    INSERT INTO model_removals (node_id, model, operation_id)
    SELECT DISTINCT held.node_id, held.model, CAST(:operation_id AS uuid)
      FROM (SELECT node_id, model FROM staged_models WHERE model = :model
            UNION SELECT node_id, model FROM replicas WHERE model = :model) AS held
     WHERE CAST(:nodes AS uuid[]) IS NULL OR held.node_id = ANY(CAST(:nodes AS uuid[]))
     ORDER BY held.node_id
    ON CONFLICT (node_id, model) DO UPDATE
       SET operation_id = excluded.operation_id, due_at = corral_now(), attempts = 0, problem = ''
""")


async def assign_removals(
    tx: Transaction, model: str, operation_id: str, *, nodes: Collection[str] | None = None
) -> None:
    """Add a pending removal for every node that has or ever got files of the model; with `nodes`, only for those."""
    named = None if nodes is None else sorted(nodes)
    await tx.execute(_INSERT_REMOVALS, {"model": model, "operation_id": operation_id, "nodes": named})


# A model exists before its files are on any node. Rows of this age are no report that was merely late.
_INSERT_FORGOTTEN_REMOVALS = text("""
    INSERT INTO model_removals (node_id, model)
    SELECT s.node_id, s.model FROM staged_models s
     WHERE s.reported_at < corral_now() - make_interval(secs => :age_s)
       AND NOT EXISTS (SELECT 1 FROM models m WHERE m.name = s.model)
     ORDER BY s.node_id, s.model
    ON CONFLICT (node_id, model) DO NOTHING
""")


async def assign_forgotten_removals(tx: Transaction, *, age_s: float) -> int:
    """Add pending removals for nodes that have long reported files of models which do not exist: they were not
    registered when the model was deleted."""
    return (await tx.execute(_INSERT_FORGOTTEN_REMOVALS, {"age_s": age_s})).rowcount


async def list_removals(tx: Transaction, operation_id: str) -> list[CopyRemoval]:
    """Return the pending removals that an operation has written."""
    statement = (
        select(model_removals, nodes.c.name.label("node_name"))
        .join(nodes, nodes.c.id == model_removals.c.node_id)
        .where(model_removals.c.operation_id == operation_id)
    )
    return [_to_removal(row) for row in await tx.execute(statement.order_by(nodes.c.name, model_removals.c.model))]


def _to_removal(row: Any) -> CopyRemoval:
    return CopyRemoval(
        node_id=NodeId(row.node_id),
        node_name=row.node_name,
        model=row.model,
        operation_id=row.operation_id,
        attempts=row.attempts,
        problem=row.problem,
    )


# An engine that still uses the files is ended first; an unreachable node is not contacted.
_CLAIM = text("""
    WITH due AS (
        SELECT d.node_id, d.model FROM model_removals d JOIN nodes n ON n.id = d.node_id
         WHERE d.due_at <= corral_now() AND n.liveness = 'alive' AND n.bus_ok IS NOT FALSE
           AND n.approved_at IS NOT NULL
           AND NOT EXISTS (SELECT 1 FROM replicas r WHERE r.node_id = d.node_id AND r.model = d.model)
         ORDER BY d.due_at, d.node_id, d.model
         LIMIT :limit
           FOR UPDATE OF d SKIP LOCKED
    )
    UPDATE model_removals d SET due_at = corral_now() + make_interval(secs => :lease_s), attempts = d.attempts + 1
      FROM due JOIN nodes n ON n.id = due.node_id
     WHERE d.node_id = due.node_id AND d.model = due.model
    RETURNING d.node_id::text AS node_id, d.model, d.operation_id::text AS operation_id, d.attempts, d.problem,
              n.name AS node_name
""")


async def claim_removals(tx: Transaction, *, limit: int, lease_s: float) -> list[CopyRemoval]:
    return [_to_removal(row) for row in await tx.execute(_CLAIM, {"limit": limit, "lease_s": lease_s})]


async def end_removal(tx: Transaction, removal: CopyRemoval) -> None:
    """Delete a pending removal: the worker has removed the files."""
    condition = (model_removals.c.node_id == removal.node_id) & (model_removals.c.model == removal.model)
    await tx.execute(delete(model_removals).where(condition))
    held = (staged_models.c.node_id == removal.node_id) & (staged_models.c.model == removal.model)
    await tx.execute(delete(staged_models).where(held))


async def postpone_removal(tx: Transaction, removal: CopyRemoval, problem: str, pause_s: float) -> None:
    await tx.execute(
        update(model_removals)
        .where(model_removals.c.node_id == removal.node_id, model_removals.c.model == removal.model)
        .values(problem=problem[:240], due_at=func.corral_now() + func.make_interval(0, 0, 0, 0, 0, 0, pause_s))
    )


async def hasten_removals(tx: Transaction, node_ids: Collection[NodeId]) -> None:
    """Make the pending removals of nodes that are back due now."""
    if node_ids:
        await tx.execute(
            update(model_removals)
            .where(model_removals.c.node_id.in_(list(node_ids)), model_removals.c.due_at > func.corral_now())
            .values(due_at=NOW)
        )


async def cancel_removals(tx: Transaction, copies: Collection[tuple[NodeId, str]]) -> None:
    """Delete pending removals of a model that is loaded there again, so that its new files are not removed."""
    if copies:
        columns = tuple_(model_removals.c.node_id, model_removals.c.model)
        await tx.execute(delete(model_removals).where(columns.in_(sorted(copies))))


# --- processes ---

_CONFIRM = text("""
    UPDATE replicas SET confirmed_at = corral_now(), misses = 0
     WHERE id IN (SELECT id FROM replicas WHERE id = ANY(CAST(:ids AS uuid[]))
                   ORDER BY node_id, model, replica_index FOR UPDATE)
""")
# A row that is this young may be newer than the report.
_MISS = text("""
    UPDATE replicas r SET misses = r.misses + 1
      FROM (SELECT id FROM replicas
             WHERE id = ANY(CAST(:ids AS uuid[])) AND state = 'loaded'
               AND COALESCE(loaded_at, created_at) < corral_now() - make_interval(secs => :young_s)
             ORDER BY node_id, model, replica_index FOR UPDATE) AS missed
     WHERE r.id = missed.id
    RETURNING r.node_id::text AS node_id, r.model, r.replica_index, r.misses
""")
YOUNG_S = 15.0


async def confirm_replicas(tx: Transaction, replica_ids: Collection[str]) -> None:
    """Record that the workers of these replicas list them."""
    if replica_ids:
        await tx.execute(_CONFIRM, {"ids": sorted(replica_ids)})


async def count_misses(tx: Transaction, replica_ids: Collection[str]) -> list[tuple[NodeId, str, int, int]]:
    """Count a missing listing of these replicas; return node, model, index, and how often in a row it was missing."""
    if not replica_ids:
        return []
    rows = await tx.execute(_MISS, {"ids": sorted(replica_ids), "young_s": YOUNG_S})
    return [(NodeId(row.node_id), row.model, row.replica_index, row.misses) for row in rows]


async def correct_replica(tx: Transaction, replica: Replica) -> None:
    """Correct the row of a replica to the reported process: address, key, revision and state as given."""
    stops = replica.state is ReplicaState.UNLOADING
    await tx.execute(
        update(replicas)
        .where(replicas.c.id == replica.id)
        .values(
            state=replica.state,
            address=replica.address,
            engine_key=replica.engine_key,
            revision=replica.revision,
            stop_reason=replica.stop_reason,
            stop_due_at=NOW if stops else None,
            confirmed_at=NOW,
            misses=0,
            updated_at=NOW,
        )
    )
    await append_changed_replicas(tx, [replica])


async def adopt_replicas(tx: Transaction, found: Collection[Replica]) -> None:
    """Insert replicas for processes without a row: published or unloading, as their state says."""
    made: list[Replica] = []
    for replica in found:
        is_loaded = replica.state is ReplicaState.LOADED
        statement = insert(replicas).values(
            id=replica.id,
            node_id=replica.node_id,
            model=replica.model,
            replica_index=replica.index,
            state=replica.state,
            address=replica.address,
            revision=replica.revision,
            engine_key=replica.engine_key,
            backend=replica.backend,
            version=replica.version,
            operation_id=replica.operation_id,
            vram_bytes=replica.vram_bytes,
            ram_bytes=replica.ram_bytes,
            threads=replica.threads,
            loaded_at=NOW if is_loaded else None,
            confirmed_at=NOW,
            stop_reason=replica.stop_reason,
            stop_due_at=None if is_loaded else NOW,
        )
        kept = await tx.execute(
            statement.on_conflict_do_nothing(index_elements=["node_id", "model", "replica_index"]).returning(
                replicas.c.id
            )
        )
        if kept.one_or_none() is not None:
            made.append(replica)
    await append_changed_replicas(tx, made)


async def read_run_hashes(tx: Transaction, names: Collection[str]) -> dict[str, str]:
    """Return the current run hashes of models that may be loaded."""
    if not names:
        return {}
    condition = models.c.name.in_(sorted(set(names))) & (models.c.config["enabled"].astext.is_distinct_from("false"))
    rows = await tx.execute(select(models.c.name, models.c.run_hash).where(condition))
    return {row.name: row.run_hash for row in rows}


async def note_holdings(tx: Transaction, node_id: NodeId) -> None:
    """Record that the node has reported its holdings: from now on they are known, also if there are none."""
    await tx.execute(update(nodes).where(nodes.c.id == node_id).values(holdings_at=NOW))


_UNCONFIRMED = text("""
    SELECT DISTINCT n.id::text AS id FROM nodes n JOIN replicas r ON r.node_id = n.id
     WHERE r.state = 'loaded' AND n.liveness = 'alive' AND n.bus_ok IS NOT FALSE AND n.approved_at IS NOT NULL
       AND COALESCE(r.confirmed_at, r.created_at) < corral_now() - make_interval(secs => :age_s)
    UNION
    SELECT n.id::text AS id FROM nodes n
     WHERE n.liveness = 'alive' AND n.bus_ok IS NOT FALSE AND n.approved_at IS NOT NULL
       AND n.holdings_at < n.liveness_since
     LIMIT :limit
""")


async def list_unconfirmed_nodes(tx: Transaction, *, age_s: float, limit: int) -> list[NodeId]:
    """Return reachable nodes with replicas that no report has listed for so long, or that were lost, are back and
    have not reported yet: their rows were deleted when they were lost."""
    return [NodeId(row.id) for row in await tx.execute(_UNCONFIRMED, {"age_s": age_s, "limit": limit})]


_LEFT_OVER = text("""
    DELETE FROM reservations v
     WHERE v.created_at < corral_now() - make_interval(secs => 60)
       AND NOT EXISTS (SELECT 1 FROM replicas r WHERE r.id::text = v.holder)
    RETURNING v.id
""")


async def release_leftovers(tx: Transaction) -> int:
    """Delete reservations of replicas that do not exist any more."""
    return len((await tx.execute(_LEFT_OVER)).all())
