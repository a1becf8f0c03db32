"""Stores quantisations: a row beside the run, with the result once it is in the library."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, insert, literal_column, select, update

from corral.domain.errors import NotFound
from corral.domain.model import ModelConfig, ModelProvenance
from corral.domain.quantization import Quantization
from corral.domain.run import RunId, RunState
from corral.policy.models.configuration import from_stored, to_mapping
from corral.store.database import Transaction, as_uuid
from corral.store.run_schema import quantizations, runs
from corral.store.schema import NOW

LISTED_MAX = 200
PROBLEM_MAX = 1000

# The worker of an earlier attempt may have been further, and a bar never goes back. What a worker writes is no number
# because it should be one.
_PERCENT: ColumnElement[Any] = literal_column("""
    (SELECT max((e.data ->> 'percent')::float8) FROM run_events e
      WHERE e.run_id = runs.id AND e.type = 'status' AND jsonb_typeof(e.data -> 'percent') = 'number')
""").label("percent")
_PHASE: ColumnElement[Any] = literal_column("""
    (SELECT e.data ->> 'phase' FROM run_events e
      WHERE e.run_id = runs.id AND e.type = 'status' AND jsonb_typeof(e.data -> 'phase') = 'string'
      ORDER BY e.seq DESC LIMIT 1)
""").label("phase")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewQuantization:
    """Values with which a quantisation is inserted into PostgreSQL."""

    model: str
    backend: str
    weight_type: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizationResult:
    """The file that a quantisation has made, and the configuration of the model that it becomes."""

    file_name: str
    provenance: ModelProvenance
    config: ModelConfig


async def insert_quantization(tx: Transaction, run_id: RunId, new: NewQuantization) -> None:
    await tx.execute(insert(quantizations).values(id=run_id, **asdict(new)))


def _select_quantizations() -> Select[Any]:
    run_columns = (
        runs.c.owner,
        runs.c.owner_name,
        runs.c.state.label("run_state"),
        runs.c.error_code,
        runs.c.error_text,
        runs.c.message,
        runs.c.node_name,
        runs.c.request["needs"].label("needs"),
        runs.c.request["adapter"].label("adapter"),
        runs.c.request["imatrix"].astext.label("imatrix"),
        runs.c.created_at,
        runs.c.started_at,
        runs.c.finished_at,
    )
    return select(quantizations, *run_columns, _PERCENT, _PHASE).join(runs, runs.c.id == quantizations.c.id)


def _to_quantization(row: Any) -> Quantization:
    state = RunState(row.run_state)
    percent = 100.0 if state is RunState.COMPLETED else min(99.0, max(0.0, row.percent or 0.0))
    return Quantization(
        id=RunId(row.id),
        owner=row.owner,
        owner_name=row.owner_name,
        run_state=state,
        error_code=row.error_code or "",
        error_text=row.error_text or "",
        message=row.message,
        node_name=row.node_name,
        model=row.model,
        backend=row.backend,
        weight_type=row.weight_type,
        name=row.name,
        file_name=row.file_name,
        sha256=row.sha256 or "",
        size_bytes=row.size_bytes,
        provenance=ModelProvenance(**row.source) if row.source else None,
        config=from_stored(row.config) if row.config else None,
        registered_name=row.registered_name,
        problem=row.problem,
        phase=row.phase or "",
        percent=percent,
        needs=row.needs or {},
        adapter=row.adapter or {},
        imatrix=row.imatrix or "",
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
    )


async def find_quantization(
    tx: Transaction, job_id: str, *, owner: str | None = None, locks: bool = False
) -> Quantization | None:
    """Return a quantisation; with `owner`, only if it is theirs."""
    known = as_uuid(job_id)
    if known is None:
        return None
    statement = _select_quantizations().where(quantizations.c.id == known)
    if owner is not None:
        statement = statement.where(runs.c.owner == owner)
    if locks:
        statement = statement.with_for_update(of=quantizations)
    row = (await tx.execute(statement)).one_or_none()
    return None if row is None else _to_quantization(row)


async def get_quantization(
    tx: Transaction, job_id: str, *, owner: str | None = None, locks: bool = False
) -> Quantization:
    found = await find_quantization(tx, job_id, owner=owner, locks=locks)
    if found is None:
        raise NotFound(
            f"There is no quantisation {job_id[:80]!r}.",
            hint="`corral quantize list` shows yours.",
            code="quantization_not_found",
        )
    return found


async def list_quantizations(tx: Transaction, owner: str | None, limit: int = 50) -> list[Quantization]:
    """Return quantisations, newest first; without an owner those of everybody."""
    statement = _select_quantizations()
    if owner is not None:
        statement = statement.where(runs.c.owner == owner)
    ordered = statement.order_by(runs.c.created_at.desc(), runs.c.id.desc()).limit(max(1, min(limit, LISTED_MAX)))
    return [_to_quantization(row) for row in await tx.execute(ordered)]


async def record_result(tx: Transaction, run_id: RunId, result: QuantizationResult) -> None:
    """Record the file that a quantisation has made, once it is in the library and was checked."""
    await tx.execute(
        update(quantizations)
        .where(quantizations.c.id == run_id)
        .values(
            file_name=result.file_name,
            sha256=result.provenance.sha256,
            size_bytes=result.provenance.size_bytes,
            source=asdict(result.provenance),
            config=to_mapping(result.config),
            stored_at=NOW,
        )
    )


async def record_registered(tx: Transaction, run_id: RunId, name: str) -> None:
    await tx.execute(
        update(quantizations).where(quantizations.c.id == run_id).values(registered_name=name, name=name, problem="")
    )


async def record_problem(tx: Transaction, run_id: RunId, problem: str) -> None:
    """Record why a result could not be registered as a model."""
    await tx.execute(update(quantizations).where(quantizations.c.id == run_id).values(problem=problem[:PROBLEM_MAX]))
