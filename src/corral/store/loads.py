"""Stores loads: a replica and its reservations, from the choice of a node until it is published or gone.

Guarantees: a load is published only with the run hash that its model has at that moment; with any other it is
unloaded at once. What an operation has begun on a node is found by operation and node, so a report that arrives
twice changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import func, select, text
from sqlalchemy.dialects.postgresql import distinct_on, insert

from corral.domain.errors import Conflict
from corral.domain.node import Node, NodeId
from corral.domain.operation import Fault, JobId, Operation, OperationId, OperationKind, OperationState
from corral.domain.replica import Replica, ReplicaState
from corral.policy import faults
from corral.store.database import Transaction
from corral.store.model_schema import models
from corral.store.operations import to_operation
from corral.store.replicas import (
    RETURNING,
    append_changed_replicas,
    append_changed_rows,
    append_removed_rows,
    release_reservations,
)
from corral.store.schema import operations, replicas, reservations

# The history of operations is long. A failure from before this says nothing about a model today.
_FAILURE_SHOWN_FOR = timedelta(days=7)


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingReplica:
    """Values with which a replica that is to be loaded is inserted, with the memory and disk reserved for it."""

    replica: Replica
    vram_bytes: int = 0
    ram_bytes: int = 0
    disk_bytes: int = 0


async def insert_pending(tx: Transaction, pending: Collection[PendingReplica], ids: Iterable[str]) -> None:
    """Insert replicas in state `staging` with their reservations. Raises `try_again` if the place is taken."""
    for item, reservation_id in zip(pending, ids, strict=False):
        replica = item.replica
        made = await tx.execute(
            insert(replicas)
            .values(
                id=replica.id,
                node_id=replica.node_id,
                model=replica.model,
                replica_index=replica.index,
                state=ReplicaState.STAGING,
                revision=replica.revision,
                backend=replica.backend,
                operation_id=replica.operation_id,
                vram_bytes=replica.vram_bytes,
                ram_bytes=replica.ram_bytes,
                threads=replica.threads,
            )
            .on_conflict_do_nothing(index_elements=["node_id", "model", "replica_index"])
            .returning(replicas.c.id)
        )
        if made.one_or_none() is None:
            raise Conflict("Another load has just taken this slot; try again.", code="try_again")
        if item.vram_bytes or item.ram_bytes or item.disk_bytes:
            await tx.execute(
                insert(reservations).values(
                    id=reservation_id,
                    node_id=replica.node_id,
                    holder=replica.id,
                    vram_bytes=item.vram_bytes,
                    ram_bytes=item.ram_bytes,
                    disk_bytes=item.disk_bytes,
                )
            )
    await append_changed_replicas(tx, [replace(item.replica, state=ReplicaState.STAGING) for item in pending])


_LOADS = """
    WITH news AS (
        SELECT * FROM jsonb_to_recordset(CAST(:batch AS jsonb)) AS news(
            operation_id uuid, node_id uuid, address text, engine_key text, backend text, version text,
            vram_bytes bigint, ram_bytes bigint, threads integer)
    ), mine AS (
        SELECT r.id FROM replicas r JOIN news ON news.operation_id = r.operation_id AND news.node_id = r.node_id
         WHERE r.state IN ('staging', 'loading')
         ORDER BY r.node_id, r.model, r.replica_index
           FOR UPDATE OF r
    )
"""
_MARK_LOADING = text(f"""
    {_LOADS}
    UPDATE replicas r SET state = 'loading', updated_at = corral_now()
      FROM mine WHERE r.id = mine.id AND r.state = 'staging'
    {RETURNING}
""")  # noqa: S608 - no value in it
# Only a replica as its model is configured now is published; any other is of no use.
_MARK_LOADED = text(f"""
    {_LOADS}
    UPDATE replicas r SET
        state = CASE WHEN fit.why = '' THEN 'loaded' ELSE 'unloading' END,
        stop_reason = fit.why,
        stop_due_at = CASE WHEN fit.why = '' THEN NULL ELSE corral_now() END,
        address = news.address, engine_key = news.engine_key,
        backend = COALESCE(NULLIF(news.backend, ''), r.backend), version = news.version,
        vram_bytes = COALESCE(news.vram_bytes, r.vram_bytes), ram_bytes = COALESCE(news.ram_bytes, r.ram_bytes),
        threads = COALESCE(news.threads, r.threads),
        load_s = EXTRACT(EPOCH FROM corral_now() - r.created_at),
        loaded_at = corral_now(), confirmed_at = corral_now(), misses = 0, updated_at = corral_now()
      FROM mine
      JOIN replicas own ON own.id = mine.id
      JOIN news ON news.operation_id = own.operation_id AND news.node_id = own.node_id
      JOIN nodes n ON n.id = own.node_id
      LEFT JOIN models m ON m.name = own.model
      CROSS JOIN LATERAL (SELECT CASE
          WHEN m.name IS NULL THEN 'The model was removed while it was loaded.'
          WHEN m.run_hash <> own.revision THEN 'The model was edited while it was loaded.'
          WHEN n.drained_at IS NOT NULL THEN 'The node was drained while it was loaded.'
          ELSE '' END AS why) AS fit
     WHERE r.id = mine.id
    {RETURNING}
""")  # noqa: S608 - no value in it
# As `policy/models/estimate.py` reads it: by the memory that was used, the maximum for one run hash.
# Placement writes 0 bytes of VRAM for a replica that makes no use of a GPU.
_OBSERVED = text(f"""
    {_LOADS}, seen AS (
        SELECT own.model, own.revision, news.vram_bytes, news.ram_bytes,
               CASE WHEN n.total_vram > 0 AND own.vram_bytes IS DISTINCT FROM 0 THEN 'gpu' ELSE 'cpu' END AS kind
          FROM news
          JOIN replicas own ON own.operation_id = news.operation_id AND own.node_id = news.node_id
          JOIN nodes n ON n.id = own.node_id
         WHERE own.state IN ('staging', 'loading') AND (news.vram_bytes IS NOT NULL OR news.ram_bytes IS NOT NULL)
    ), kept AS (
        SELECT m.name, CASE WHEN m.observed ->> 'run_hash' = m.run_hash THEN m.observed
                            ELSE jsonb_build_object('run_hash', m.run_hash) END AS document
          FROM models m WHERE m.name IN (SELECT model FROM seen)
         ORDER BY m.name FOR NO KEY UPDATE
    )
    UPDATE models m SET observed = kept.document || jsonb_build_object(seen.kind, jsonb_build_object(
            'vram_bytes', GREATEST((kept.document -> seen.kind ->> 'vram_bytes')::bigint, seen.vram_bytes),
            'ram_bytes', GREATEST((kept.document -> seen.kind ->> 'ram_bytes')::bigint, seen.ram_bytes)))
      FROM kept JOIN seen ON seen.model = kept.name
     WHERE m.name = kept.name AND m.run_hash = seen.revision
""")  # noqa: S608 - no value in it
_DROP_FAILED = text(f"""
    {_LOADS}
    DELETE FROM replicas r USING mine WHERE r.id = mine.id
    {RETURNING}
""")  # noqa: S608 - no value in it
_ABANDON = text(f"""
    {_LOADS}
    UPDATE replicas r SET state = 'unloading', stop_reason = :reason, stop_due_at = corral_now(), stop_attempts = 0,
           stop_problem = '', updated_at = corral_now()
      FROM mine WHERE r.id = mine.id
    {RETURNING}
""")  # noqa: S608 - no value in it


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadReport:
    """Update of a replica's row after its load on a node: address, engine key, backend and measured memory."""

    operation_id: str
    node_id: NodeId
    address: str = ""
    engine_key: str = ""
    backend: str = ""
    version: str = ""
    vram_bytes: int | None = None
    ram_bytes: int | None = None
    threads: int | None = None


async def list_models_of(tx: Transaction, operation_ids: Collection[str]) -> dict[tuple[str, NodeId], str]:
    """Return the models of the replicas that these operations load, by operation and node."""
    if not operation_ids:
        return {}
    rows = await tx.execute(
        select(replicas.c.operation_id, replicas.c.node_id, replicas.c.model).where(
            replicas.c.operation_id.in_(sorted(operation_ids)), replicas.c.state.in_(["staging", "loading"])
        )
    )
    return {(row.operation_id, NodeId(row.node_id)): row.model for row in rows}


async def mark_loading(tx: Transaction, reports: Collection[LoadReport]) -> None:
    """Mark replicas whose files are complete and whose engines start."""
    if reports:
        await append_changed_rows(tx, await tx.execute(_MARK_LOADING, _make_batch_parameters(reports)))


async def mark_loaded(tx: Transaction, reports: Collection[LoadReport]) -> None:
    """Publish loaded replicas with their measured memory; those with an outdated configuration are unloaded instead."""
    if not reports:
        return
    # Models are locked before replicas, in the common lock order.
    await tx.execute(_OBSERVED, _make_batch_parameters(reports))
    rows = list(await tx.execute(_MARK_LOADED, _make_batch_parameters(reports)))
    await release_reservations(tx, [row.id for row in rows])
    await append_changed_rows(tx, rows)


async def drop_failed(tx: Transaction, reports: Collection[LoadReport], reason: str) -> None:
    """Delete replicas and reservations of loads that have failed on their workers."""
    if not reports:
        return
    rows = list(await tx.execute(_DROP_FAILED, _make_batch_parameters(reports)))
    await release_reservations(tx, [row.id for row in rows])
    await append_removed_rows(tx, rows, reason)


async def abandon_loads(tx: Transaction, reports: Collection[LoadReport], reason: str) -> None:
    """Unload replicas that are no longer needed while their workers may be loading them: the replica stopper ends
    them."""
    if not reports:
        return
    rows = list(await tx.execute(_ABANDON, _make_batch_parameters(reports) | {"reason": reason}))
    await release_reservations(tx, [row.id for row in rows])
    await append_changed_rows(tx, rows)


async def abandon_operation(tx: Transaction, operation_id: str, reason: str) -> None:
    """Unload all replicas that an operation has begun and not finished."""
    rows = await tx.execute(
        select(replicas.c.node_id).where(
            replicas.c.operation_id == operation_id, replicas.c.state.in_(["staging", "loading"])
        )
    )
    news = [LoadReport(operation_id=operation_id, node_id=NodeId(row.node_id)) for row in rows]
    await abandon_loads(tx, news, reason)


def _make_batch_parameters(reports: Collection[LoadReport]) -> dict[str, Any]:
    return {
        "batch": json.dumps(
            [
                {
                    "operation_id": item.operation_id,
                    "node_id": item.node_id,
                    "address": item.address[:255],
                    "engine_key": item.engine_key,
                    "backend": item.backend[:255],
                    "version": item.version[:128],
                    "vram_bytes": item.vram_bytes,
                    "ram_bytes": item.ram_bytes,
                    "threads": item.threads,
                }
                for item in reports
            ]
        )
    }


# --- targets of loads ---

PUT_TARGET = """
    INSERT INTO operation_targets (
        operation_id, node, node_name, state, total_bytes, job_id, build, contacted_at)
    VALUES (CAST(:operation_id AS uuid), CAST(:node AS uuid), :node_name, :state, :total_bytes,
            CAST(:job_id AS uuid), CAST(:build AS jsonb), CASE WHEN :is_sent THEN corral_now() END)
    ON CONFLICT (operation_id, node) DO UPDATE SET
        state = excluded.state, job_id = excluded.job_id, seq = 0, build = excluded.build,
        total_bytes = excluded.total_bytes, current_bytes = NULL, phase = NULL, percent = 0, file_name = '',
        previous = jsonb_build_object(
            'faults', COALESCE(operation_targets.previous -> 'faults', '[]'::jsonb)
                || CASE WHEN operation_targets.error_code IS NULL THEN '[]'::jsonb
                        ELSE jsonb_build_array(jsonb_build_array(
                            operation_targets.error_code, operation_targets.error_text)) END,
            'done', COALESCE((operation_targets.previous ->> 'done')::integer, 0)
                + CASE WHEN operation_targets.state = 'success' THEN 1 ELSE 0 END),
        error_code = NULL, error_text = NULL, stop_wanted = false, keeps_partial = false,
        contacted_at = excluded.contacted_at, heard_at = NULL, finished_at = NULL
"""
_PUT_TARGET = text(PUT_TARGET)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTarget:
    """Values with which a node is added to an operation in PostgreSQL."""

    node: Node
    job_id: JobId
    build: Mapping[str, Any]
    total_bytes: int | None = None
    state: str = "queued"


async def put_targets(tx: Transaction, operation_id: OperationId, targets: Iterable[NewTarget]) -> None:
    """Insert or restart targets of an operation. An ended target starts over: its faults and number of successes are
    kept."""
    for target in targets:
        await tx.execute(_PUT_TARGET, render_target(operation_id, target))


def render_target(operation_id: OperationId, target: NewTarget, *, is_sent: bool = False) -> dict[str, Any]:
    """Return the parameters of `PUT_TARGET`. `is_sent`: its worker is about to be sent the command."""
    return {
        "operation_id": operation_id,
        "node": target.node.id,
        "node_name": target.node.name,
        "state": target.state,
        "total_bytes": target.total_bytes,
        "job_id": target.job_id,
        "build": json.dumps(target.build),
        "is_sent": is_sent,
    }


def read_earlier_faults(previous: Mapping[str, Any] | None) -> list[Fault]:
    """Return the faults of a target from before it was restarted."""
    found = (previous or {}).get("faults") or []
    return [Fault(code=str(code), text=str(words or "")) for code, words in found]


def count_earlier_successes(previous: Mapping[str, Any] | None) -> int:
    """Return how often a target had succeeded before it was restarted."""
    return int((previous or {}).get("done") or 0)


_REQUEST_STOPS = text("""
    UPDATE operation_targets SET stop_wanted = true
     WHERE operation_id = CAST(:operation_id AS uuid) AND node = ANY(CAST(:nodes AS uuid[]))
       AND contacted_at IS NOT NULL
""")


async def request_stops(tx: Transaction, operation_id: OperationId, node_ids: Collection[NodeId]) -> None:
    """Have stop commands sent to the workers of these targets, if they may be at work."""
    if node_ids:
        await tx.execute(_REQUEST_STOPS, {"operation_id": operation_id, "nodes": sorted(node_ids)})


# --- how long a load may take: `deadline_at` is the end of its hold ---

_BEGIN = text("""
    UPDATE operations SET deadline_at = corral_now() + make_interval(secs => :base_s)
     WHERE id = CAST(:id AS uuid) AND deadline_at IS NULL
""")
_READ_DEADLINES = text("""
    SELECT o.id::text AS id, COALESCE(o.started_at, o.created_at) AS began, o.deadline_at, corral_now() AS now,
           (SELECT max((t.build -> 'load' ->> 'budget_s')::double precision)
              FROM operation_targets t WHERE t.operation_id = o.id) AS budget_s
      FROM operations o
     WHERE o.id = ANY(CAST(:ids AS uuid[])) AND o.kind IN ('model_load', 'model_install', 'model_stage')
""")
_WRITE_DEADLINES = text("""
    UPDATE operations o SET deadline_at = h.until
      FROM jsonb_to_recordset(CAST(:batch AS jsonb)) AS h(id uuid, until timestamptz)
     WHERE o.id = h.id
""")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadDeadlineRow:
    """Times of a model's load as read from PostgreSQL: its begin, its deadline, and the budget of its engines."""

    id: str
    began: datetime
    until: datetime | None
    now: datetime
    budget_s: float


async def begin_deadline(tx: Transaction, operation_id: OperationId, base_s: float) -> None:
    """Set the deadline of a load, once."""
    await tx.execute(_BEGIN, {"id": operation_id, "base_s": base_s})


async def read_deadlines(tx: Transaction, operation_ids: Collection[str]) -> list[LoadDeadlineRow]:
    """Return the deadlines of operations. The caller has locked them."""
    if not operation_ids:
        return []
    return [
        LoadDeadlineRow(id=row.id, began=row.began, until=row.deadline_at, now=row.now, budget_s=row.budget_s or 0.0)
        for row in await tx.execute(_READ_DEADLINES, {"ids": sorted(operation_ids)})
    ]


async def write_deadlines(tx: Transaction, until: Mapping[str, datetime]) -> None:
    if until:
        batch = [{"id": key, "until": moment.isoformat()} for key, moment in sorted(until.items())]
        await tx.execute(_WRITE_DEADLINES, {"batch": json.dumps(batch)})


# --- reading for a decision ---


async def lock_placement(tx: Transaction) -> None:
    """Take the placement lock: decisions about room come one after the other, and each sees earlier reservations."""
    await tx.execute(text("SELECT pg_advisory_xact_lock(hashtextextended('placing', 0))"))


async def read_database_now(tx: Transaction) -> datetime:
    """Return the database's time, by which everything that is stored is compared."""
    found: datetime = (await tx.execute(select(func.corral_now()))).scalar_one()
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTraitsRow:
    """Traits of a model, read from PostgreSQL, that matter when other models are placed: run hash, groups and pin."""

    name: str
    run_hash: str
    groups: tuple[str, ...]
    is_pinned: bool


async def list_model_traits(tx: Transaction) -> list[ModelTraitsRow]:
    groups, pinned = models.c.config["groups"], models.c.config["pinned"]
    rows = await tx.execute(select(models.c.name, models.c.run_hash, groups.label("groups"), pinned.label("pinned")))
    return [
        ModelTraitsRow(
            name=row.name, run_hash=row.run_hash, groups=tuple(row.groups or ()), is_pinned=row.pinned is True
        )
        for row in rows
    ]


async def find_observed(tx: Transaction, model: str) -> Mapping[str, Any] | None:
    """Return the measured memory of a model's replicas, as `policy/models/estimate.py` reads it."""
    found = (await tx.execute(select(models.c.observed).where(models.c.name == model))).scalar_one_or_none()
    return found if isinstance(found, Mapping) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadFailure:
    """Failure of a model's last load as read from PostgreSQL, if that load had the present configuration."""

    model: str
    sentence: str
    at: datetime


async def list_load_failures(tx: Transaction, model: str | None = None) -> dict[str, LoadFailure]:
    """Return, by model, the failure of each model whose last load within a week failed and has not been made up for.

    A cancelled load says nothing about the model. A failure of an older configuration is left out.
    """
    states = (OperationState.COMPLETED, OperationState.COMPLETED_WITH_PENDING, OperationState.FAILED)
    last = (
        select(operations.c.subject, operations.c.state, operations.c.error_text, operations.c.message)
        .add_columns(operations.c.finished_at, operations.c.request["run_hash"].astext.label("run_hash"))
        .ext(distinct_on(operations.c.subject))
        .where(
            operations.c.kind == OperationKind.MODEL_LOAD,
            operations.c.state.in_(states),
            operations.c.finished_at > func.corral_now() - _FAILURE_SHOWN_FOR,
        )
        .order_by(operations.c.subject, operations.c.finished_at.desc())
    )
    if model is not None:
        last = last.where(operations.c.subject == model)
    one = last.subquery()
    statement = (
        select(one)
        .join(models, models.c.name == one.c.subject)
        .where(one.c.state == OperationState.FAILED, one.c.run_hash == models.c.run_hash)
    )
    return {
        row.subject: LoadFailure(model=row.subject, sentence=row.error_text or row.message, at=row.finished_at)
        for row in await tx.execute(statement)
    }


async def find_last_failed(tx: Transaction, scope_key: str, kind: OperationKind) -> tuple[Operation, float] | None:
    """Return the last failed operation of a scope and kind, and how many seconds ago it failed."""
    statement = (
        select(operations, func.extract("epoch", func.corral_now() - operations.c.finished_at).label("age_s"))
        .where(
            operations.c.scope_key == scope_key,
            operations.c.kind == kind,
            operations.c.finished_at.is_not(None),
        )
        .order_by(operations.c.finished_at.desc())
        .limit(1)
    )
    row = (await tx.execute(statement)).one_or_none()
    if row is None or row.state != OperationState.FAILED:
        return None
    return to_operation(row), float(row.age_s)


async def find_ended_install(tx: Transaction, load: Operation) -> Operation | None:
    """Return the installation that a load waited behind, if it fetched nothing: it failed, or was cancelled.

    An installation that ended before the load was requested is left out. So is one that also brings files to nodes,
    and an internal error of Corral: neither says that the files cannot be fetched.
    """
    statement = (
        select(operations)
        .where(
            operations.c.scope_key == load.scope_key,
            operations.c.kind == OperationKind.MODEL_INSTALL,
            operations.c.finished_at > load.created_at,
        )
        .order_by(operations.c.finished_at.desc())
        .limit(1)
    )
    if load.finished_at is not None:
        statement = statement.where(operations.c.finished_at <= load.finished_at)
    row = (await tx.execute(statement)).one_or_none()
    if row is None or row.state not in (OperationState.FAILED, OperationState.CANCELLED):
        return None
    install = to_operation(row)
    is_own_fault = install.is_reaped or (install.fault is not None and install.fault.code == faults.INTERNAL)
    is_other = install.request.get("run_hash") != load.request.get("run_hash") or install.request.get("nodes")
    return None if is_own_fault or is_other else install
