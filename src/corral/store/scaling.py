"""What one pass of the scaler reads of the registry, and what it writes about rules. The number of statements does not
grow with models, replicas or nodes."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ARRAY, UUID, cast, func, select, text

from corral.domain.operation import OperationId, OperationState
from corral.store.database import Transaction
from corral.store.model_schema import model_demand, models
from corral.store.schema import operations

PARALLEL_MAX = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaled:
    """A model as the scaler sees it."""

    name: str
    run_hash: str
    groups: tuple[str, ...]
    is_enabled: bool
    is_pinned: bool
    # None: it says nothing about it.
    idle_s: float | None
    # How many requests a replica works on at a time.
    parallel: int


async def list_scaled(tx: Transaction) -> list[Scaled]:
    config = models.c.config
    statement = select(
        models.c.name,
        models.c.run_hash,
        config["groups"].label("groups"),
        config["enabled"].label("enabled"),
        config["pinned"].label("pinned"),
        config["idle"].label("idle"),
        config["options"]["parallel"].label("parallel"),
    )
    return [
        Scaled(
            name=row.name,
            run_hash=row.run_hash,
            groups=tuple(row.groups or ()),
            is_enabled=row.enabled is not False,
            is_pinned=row.pinned is True,
            idle_s=None if row.idle is None else float(row.idle),
            parallel=_parallel(row.parallel),
        )
        for row in await tx.execute(statement)
    ]


def _parallel(value: Any) -> int:
    """An option is whatever text an admin wrote; the engine has the last word about it, not the scaler."""
    said = str(value)
    return min(max(int(said), 1), PARALLEL_MAX) if said.isascii() and said.isdecimal() and len(said) < 9 else 1


async def list_waiting(tx: Transaction) -> dict[str, int]:
    """How many requests wait for a model, over all frontends that are there."""
    total = func.sum(model_demand.c.waiting).label("waiting")
    statement = (
        select(model_demand.c.model, total)
        .where(model_demand.c.expires_at > func.corral_now(), model_demand.c.waiting > 0)
        .group_by(model_demand.c.model)
    )
    return {row.model: int(row.waiting) for row in await tx.execute(statement)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    state: OperationState
    error_code: str
    error_text: str


async def list_ended(tx: Transaction, ids: Collection[OperationId]) -> dict[OperationId, Ended]:
    """Those of these operations that have come to an end."""
    if not ids:
        return {}
    statement = select(operations.c.id, operations.c.state, operations.c.error_code, operations.c.error_text).where(
        operations.c.id == func.any(cast(sorted(ids), ARRAY(UUID(as_uuid=False)))),
        operations.c.finished_at.is_not(None),
    )
    return {
        OperationId(row.id): Ended(
            state=OperationState(row.state), error_code=row.error_code or "", error_text=row.error_text or ""
        )
        for row in await tx.execute(statement)
    }


_SET_BACK = text("""
    UPDATE rules r SET unsatisfiable_ticks = s.ticks, unsatisfiable_until = s.until
      FROM jsonb_to_recordset(CAST(:setbacks AS jsonb)) AS s(model text, ticks int, until timestamptz)
     WHERE r.model = s.model
""")


async def write_setbacks(tx: Transaction, setbacks: Mapping[str, tuple[int, datetime | None]]) -> None:
    """How often in a row a rule could not be met, and until when it is left alone."""
    if not setbacks:
        return
    rows = [
        {"model": model, "ticks": ticks, "until": None if until is None else until.isoformat()}
        for model, (ticks, until) in sorted(setbacks.items())
    ]
    await tx.execute(_SET_BACK, {"setbacks": json.dumps(rows)})
