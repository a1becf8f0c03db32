"""Stores fine-tunings: a row beside the run, its checkpoints, its curve as entries of the run's trace, its exports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Select,
    delete,
    exists,
    func,
    insert,
    literal,
    literal_column,
    select,
    text,
    update,
)

from corral.domain.artifact import ArtifactId
from corral.domain.errors import NotFound
from corral.domain.fine_tuning import (
    Checkpoint,
    Dataset,
    ExportFormat,
    ExportStatus,
    FineTune,
    FineTuneExport,
    RunFile,
    TrainingMethod,
    make_checkpoint_name,
)
from corral.domain.run import FINAL_RUN_STATES, RunId, RunState
from corral.store.database import Transaction, as_uuid
from corral.store.fine_tune_schema import (
    fine_tune_checkpoints,
    fine_tune_datasets,
    fine_tune_exports,
    fine_tunes,
    run_files,
)
from corral.store.run_files import list_files
from corral.store.run_schema import artifacts, runs

LISTED_MAX = 200
MESSAGE_MAX = 1000
# Entries of a curve that one read returns; a trainer makes about a thousand.
POINTS_MAX = 20_000

_PERCENT: ColumnElement[Any] = literal_column("""
    (SELECT max((e.data ->> 'percent')::float8) FROM run_events e
      WHERE e.run_id = runs.id AND e.type = 'status' AND jsonb_typeof(e.data -> 'percent') = 'number')
""").label("percent")
_PHASE: ColumnElement[Any] = literal_column("""
    (SELECT e.data ->> 'phase' FROM run_events e
      WHERE e.run_id = runs.id AND e.type = 'status' AND jsonb_typeof(e.data -> 'phase') = 'string'
      ORDER BY e.seq DESC LIMIT 1)
""").label("phase")
_LATEST: ColumnElement[Any] = literal_column("""
    (SELECT e.data FROM run_events e
      WHERE e.run_id = runs.id AND e.type = 'status' AND jsonb_typeof(e.data -> 'step') = 'number'
      ORDER BY e.seq DESC LIMIT 1)
""").label("latest")
_POINTS = text("""
    SELECT e.data FROM run_events e
     WHERE e.run_id = CAST(:id AS uuid) AND e.type = 'status' AND jsonb_typeof(e.data -> 'step') = 'number'
     ORDER BY e.seq LIMIT :limit
""")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFineTune:
    """Values with which a fine-tuning is inserted into PostgreSQL."""

    model: str
    backend: str
    method: str
    training_type: str
    dataset_id: str
    dataset_name: str
    parameters: Mapping[str, Any]
    resumed_from: str = ""


async def insert_fine_tune(tx: Transaction, run_id: RunId, new: NewFineTune) -> None:
    await tx.execute(insert(fine_tunes).values(id=run_id, **asdict(new)))


def _select_fine_tunes() -> Select[Any]:
    run_columns = (
        runs.c.owner,
        runs.c.owner_name,
        runs.c.key_id,
        runs.c.state.label("run_state"),
        runs.c.error_code,
        runs.c.error_text,
        runs.c.message,
        runs.c.node_name,
        runs.c.request["needs"].label("needs"),
        runs.c.created_at,
        runs.c.started_at,
        runs.c.finished_at,
    )
    return select(fine_tunes, *run_columns, _PERCENT, _PHASE, _LATEST).join(runs, runs.c.id == fine_tunes.c.id)


def _to_fine_tune(row: Any) -> FineTune:
    state = RunState(row.run_state)
    percent = 100.0 if state is RunState.COMPLETED else min(99.0, max(0.0, row.percent or 0.0))
    return FineTune(
        id=RunId(row.id),
        owner=row.owner,
        owner_name=row.owner_name,
        key_id=row.key_id,
        run_state=state,
        error_code=row.error_code or "",
        error_text=row.error_text or "",
        message=row.message,
        node_name=row.node_name,
        model=row.model,
        backend=row.backend,
        method=TrainingMethod(row.method),
        training_type=row.training_type,
        dataset_id=str(row.dataset_id),
        dataset_name=row.dataset_name,
        parameters=row.parameters,
        resumed_from=row.resumed_from,
        is_stopping=row.is_stopping,
        result=row.result,
        latest=row.latest or {},
        phase=row.phase or "",
        percent=percent,
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        needs=row.needs or {},
    )


async def find_fine_tune(
    tx: Transaction, job_id: str, *, owner: str | None = None, locks: bool = False
) -> FineTune | None:
    """Return a fine-tuning; with `owner`, only if it is theirs."""
    known = as_uuid(job_id)
    if known is None:
        return None
    statement = _select_fine_tunes().where(fine_tunes.c.id == known)
    if owner is not None:
        statement = statement.where(runs.c.owner == owner)
    if locks:
        statement = statement.with_for_update(of=fine_tunes)
    row = (await tx.execute(statement)).one_or_none()
    return None if row is None else _to_fine_tune(row)


async def get_fine_tune(tx: Transaction, job_id: str, *, owner: str | None = None, locks: bool = False) -> FineTune:
    found = await find_fine_tune(tx, job_id, owner=owner, locks=locks)
    if found is None:
        raise NotFound(
            f"There is no fine-tuning {job_id[:80]!r}.",
            hint="`corral fine-tune list` shows yours.",
            code="fine_tune_not_found",
        )
    return found


async def list_fine_tunes(tx: Transaction, owner: str | None, limit: int = 50) -> list[FineTune]:
    """Return fine-tunings, newest first; without an owner those of everybody."""
    statement = _select_fine_tunes()
    if owner is not None:
        statement = statement.where(runs.c.owner == owner)
    ordered = statement.order_by(runs.c.created_at.desc(), runs.c.id.desc()).limit(max(1, min(limit, LISTED_MAX)))
    return [_to_fine_tune(row) for row in await tx.execute(ordered)]


async def list_points(tx: Transaction, job_id: RunId) -> list[dict[str, Any]]:
    """Return the curve of a fine-tuning, in the order in which its worker has written it."""
    rows = await tx.execute(_POINTS, {"id": job_id, "limit": POINTS_MAX})
    return [row.data for row in rows]


async def request_stop(tx: Transaction, job_id: RunId) -> None:
    await tx.execute(update(fine_tunes).where(fine_tunes.c.id == job_id).values(is_stopping=True))


async def record_result(tx: Transaction, job_id: RunId, result: Mapping[str, Any]) -> None:
    await tx.execute(update(fine_tunes).where(fine_tunes.c.id == job_id).values(result=dict(result)))


# --- checkpoints ---


async def put_checkpoint(tx: Transaction, job_id: RunId, checkpoint: Checkpoint) -> None:
    """Record a checkpoint whose files are recorded; repeating it changes nothing."""
    known = select(literal(1)).where(
        fine_tune_checkpoints.c.fine_tune_id == job_id, fine_tune_checkpoints.c.step == checkpoint.step
    )
    if (await tx.execute(known)).first() is not None:
        return
    await tx.execute(
        insert(fine_tune_checkpoints).values(
            fine_tune_id=job_id,
            step=checkpoint.step,
            epoch=checkpoint.epoch,
            loss=checkpoint.loss,
            is_inherited=checkpoint.is_inherited,
        )
    )


async def list_checkpoints(tx: Transaction, job_id: str) -> list[Checkpoint]:
    """Return the checkpoints of a fine-tuning, newest first."""
    own = fine_tune_checkpoints
    size = func.coalesce(
        select(func.sum(run_files.c.size_bytes))
        .where(
            run_files.c.run_id == own.c.fine_tune_id,
            run_files.c.folder == func.concat(make_checkpoint_name(0)[:-1], own.c.step),
        )
        .scalar_subquery(),
        0,
    )
    statement = select(own, size.label("size_bytes")).where(own.c.fine_tune_id == job_id).order_by(own.c.step.desc())
    return [
        Checkpoint(
            step=row.step,
            epoch=row.epoch,
            loss=row.loss,
            created_at=row.created_at,
            size_bytes=int(row.size_bytes),
            is_inherited=row.is_inherited,
        )
        for row in await tx.execute(statement)
    ]


async def delete_checkpoints(tx: Transaction, job_id: RunId, *, keep: int) -> list[int]:
    """Forget all checkpoints but the newest, and return the steps of those that stay."""
    steps = [one.step for one in await list_checkpoints(tx, job_id)][:keep]
    own = fine_tune_checkpoints
    await tx.execute(delete(own).where(own.c.fine_tune_id == job_id, own.c.step.not_in(steps)))
    return steps


# --- exports ---


async def insert_export(tx: Transaction, export: FineTuneExport) -> None:
    await tx.execute(
        insert(fine_tune_exports).values(
            id=export.id,
            fine_tune_id=export.job_id,
            run_id=export.run_id,
            format=export.format,
            weight_type=export.weight_type,
            name=export.name,
            step=export.step,
            status=export.status,
            message=export.message,
            registered_name=export.registered_name,
        )
    )


def _select_exports() -> Select[Any]:
    needs = runs.c.request["needs"].label("needs")
    return select(fine_tune_exports, needs).outerjoin(runs, runs.c.id == fine_tune_exports.c.run_id)


def _to_export(row: Any) -> FineTuneExport:
    return FineTuneExport(
        id=str(row.id),
        job_id=RunId(row.fine_tune_id),
        run_id=None if row.run_id is None else RunId(row.run_id),
        format=ExportFormat(row.format),
        weight_type=row.weight_type,
        name=row.name,
        step=row.step,
        status=ExportStatus(row.status),
        message=row.message,
        registered_name=row.registered_name,
        created_at=row.created_at,
        needs=row.needs or {},
    )


async def list_exports(tx: Transaction, job_id: str) -> list[FineTuneExport]:
    """Return the exports of a fine-tuning, newest first."""
    statement = _select_exports().where(fine_tune_exports.c.fine_tune_id == job_id)
    ordered = statement.order_by(fine_tune_exports.c.created_at.desc(), fine_tune_exports.c.id)
    return [_to_export(row) for row in await tx.execute(ordered)]


async def find_export_of_run(tx: Transaction, run_id: RunId, *, locks: bool = False) -> FineTuneExport | None:
    """Return the export whose files a run makes."""
    statement = _select_exports().where(fine_tune_exports.c.run_id == run_id)
    if locks:
        statement = statement.with_for_update(of=fine_tune_exports)
    row = (await tx.execute(statement)).one_or_none()
    return None if row is None else _to_export(row)


async def list_export_files(tx: Transaction, export: FineTuneExport) -> list[RunFile]:
    """Return the files of the checkpoint that an export is made from."""
    return await list_files(tx, export.run_id or export.job_id, make_checkpoint_name(export.step))


async def record_export_model(tx: Transaction, export_id: str, name: str) -> None:
    """Record which model an export has created; the export goes on."""
    await tx.execute(update(fine_tune_exports).where(fine_tune_exports.c.id == export_id).values(registered_name=name))


async def end_export(
    tx: Transaction, export_id: str, status: ExportStatus, *, message: str = "", registered_name: str = ""
) -> None:
    """End an export that has not ended; one that has stays as it is."""
    await tx.execute(
        update(fine_tune_exports)
        .where(fine_tune_exports.c.id == export_id, fine_tune_exports.c.status == ExportStatus.EXPORTING)
        .values(status=status, message=message[:MESSAGE_MAX], registered_name=registered_name)
    )


_LOCK_NAMES = text("SELECT pg_advisory_xact_lock(hashtextextended('names of exports', 0))")


async def lock_export_names(tx: Transaction) -> None:
    """Let choices of names for exports wait for each other."""
    await tx.execute(_LOCK_NAMES)


async def is_name_reserved(tx: Transaction, name: str) -> bool:
    """Return whether an export that has not ended is going to have this name."""
    own = fine_tune_exports
    condition = exists(select(literal(1)).where(own.c.name == name, own.c.status == ExportStatus.EXPORTING))
    return bool((await tx.execute(select(condition))).scalar_one())


# --- datasets ---


async def insert_dataset(tx: Transaction, artifact_id: ArtifactId, kind: str, rows: int, columns: list[str]) -> None:
    await tx.execute(insert(fine_tune_datasets).values(id=artifact_id, format=kind, rows=rows, columns=columns))


def _select_datasets() -> Select[Any]:
    columns = (artifacts.c.owner, artifacts.c.name, artifacts.c.size_bytes, artifacts.c.sha256, artifacts.c.created_at)
    return select(fine_tune_datasets, *columns).join(artifacts, artifacts.c.id == fine_tune_datasets.c.id)


def _to_dataset(row: Any) -> Dataset:
    return Dataset(
        id=str(row.id),
        owner=row.owner,
        name=row.name,
        format=row.format,
        rows=row.rows,
        columns=tuple(row.columns),
        size_bytes=row.size_bytes,
        sha256=row.sha256,
        created_at=row.created_at,
    )


async def list_datasets(tx: Transaction, owner: str, limit: int = LISTED_MAX) -> list[Dataset]:
    """Return the datasets of an owner, newest first."""
    statement = _select_datasets().where(artifacts.c.owner == owner).order_by(artifacts.c.created_at.desc())
    return [_to_dataset(row) for row in await tx.execute(statement.limit(limit))]


async def find_dataset(tx: Transaction, reference: str, owner: str | None) -> Dataset | None:
    """Return the dataset with this id; for an owner also the newest of theirs with this name."""
    known = as_uuid(reference.removeprefix("file-"))
    statement = _select_datasets()
    if owner is not None:
        statement = statement.where(artifacts.c.owner == owner)
    if known is not None:
        statement = statement.where(fine_tune_datasets.c.id == known)
    elif owner is not None:
        statement = statement.where(artifacts.c.name == reference).order_by(artifacts.c.created_at.desc()).limit(1)
    else:
        return None
    row = (await tx.execute(statement)).first()
    return None if row is None else _to_dataset(row)


async def is_dataset_in_use(tx: Transaction, dataset_id: str) -> bool:
    """Return whether a fine-tuning that has not ended needs this file."""
    condition = exists(
        select(literal(1))
        .select_from(fine_tunes.join(runs, runs.c.id == fine_tunes.c.id))
        .where(fine_tunes.c.dataset_id == dataset_id, runs.c.state.not_in([str(one) for one in FINAL_RUN_STATES]))
    )
    return bool((await tx.execute(select(condition))).scalar_one())
