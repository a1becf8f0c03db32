"""Stores the rules that ask for replicas, and reads what one pass of the scaler needs.

Callers check rules before saving; saving one lets it be tried again at once. The number of statements of a pass does
not grow with models, replicas or nodes.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ARRAY, UUID, cast, delete, func, select, text, update
from sqlalchemy.dialects.postgresql import insert

from corral.domain.errors import NotFound
from corral.domain.operation import OperationId, OperationState
from corral.domain.replica import Rule, RuleWindow
from corral.policy.models.rules import is_same_rule
from corral.store import outbox
from corral.store.database import Transaction, is_storable
from corral.store.model_schema import model_demand, models
from corral.store.schema import NOW, operations, rules

PARALLEL_MAX = 1024


async def list_rules(tx: Transaction) -> list[Rule]:
    return [_to_rule(row) for row in await tx.execute(select(rules).order_by(rules.c.model))]


async def find_rule(tx: Transaction, model: str) -> Rule | None:
    if not is_storable(model):
        return None
    row = (await tx.execute(select(rules).where(rules.c.model == model))).one_or_none()
    return None if row is None else _to_rule(row)


async def list_selectors(tx: Transaction, models: Collection[str]) -> dict[str, dict[str, str]]:
    """Return the selectors of the rules of these models, by model; a model without a rule is left out."""
    if not models:
        return {}
    rows = await tx.execute(select(rules.c.model, rules.c.selector).where(rules.c.model.in_(sorted(models))))
    return {row.model: dict(row.selector) for row in rows}


async def get_rule(tx: Transaction, model: str) -> Rule:
    found = await find_rule(tx, model)
    if found is None:
        raise NotFound(f"There is no rule for {model[:200]!r}.", hint="`corral rules list`", code="rule_not_found")
    return found


async def save_rule(tx: Transaction, rule: Rule) -> bool:
    """Write a rule and reset its backoff: a saved rule is to be tried now. Return whether it differs from the stored
    one.

    The event is written in either case: the reconciler looks again.
    """
    statement = select(rules).where(rules.c.model == rule.model).with_for_update()
    known = (await tx.execute(statement)).one_or_none()
    values: dict[str, Any] = {
        "selector": rule.selector,
        "min_replicas": rule.min_replicas,
        "max_replicas": rule.max_replicas,
        "spreads": rule.spreads,
        "windows": [_render_window(window) for window in rule.windows],
        "time_zone": rule.time_zone,
        "route_policy": rule.route_policy,
        "unsatisfiable_until": None,
        "unsatisfiable_ticks": 0,
    }
    await tx.execute(
        insert(rules)
        .values(model=rule.model, **values)
        .on_conflict_do_update(index_elements=["model"], set_={**values, "updated_at": NOW})
    )
    await outbox.append(tx, "rule.changed", rule.model, {"deleted": False})
    return known is None or not is_same_rule(_to_rule(known), rule)


async def delete_rule(tx: Transaction, model: str) -> bool:
    """Delete the rule of a model; return whether there was one."""
    if not is_storable(model):
        return False
    deleted = await tx.execute(delete(rules).where(rules.c.model == model))
    if deleted.rowcount:
        await outbox.append(tx, "rule.changed", model, {"deleted": True})
    return bool(deleted.rowcount)


def make_backoff_data(model: str, reason: str, until: datetime | None) -> dict[str, Any]:
    """Return the data of the event about a rule's backoff. Without a reason: the backoff has ended."""
    sentence = reason or "Nothing holds it back any more."
    return {"model": model, "sentence": sentence, "until": until.isoformat() if until else None}


async def clear_unsatisfiable(tx: Transaction) -> None:
    """Reset the backoff of rules after a change of the fleet, and append an event for those that had one."""
    statement = update(rules).where(rules.c.unsatisfiable_until.is_not(None) | (rules.c.unsatisfiable_ticks > 0))
    cleared = await tx.execute(
        statement.values(unsatisfiable_until=None, unsatisfiable_ticks=0).returning(rules.c.model)
    )
    cleared_events = [(row.model, make_backoff_data(row.model, "", None)) for row in cleared]
    await outbox.append_many(tx, "rule.setback", cleared_events)


def _render_window(window: RuleWindow) -> dict[str, Any]:
    return {
        "cron": window.cron,
        "duration_s": window.duration_s,
        "min_replicas": window.min_replicas,
        "max_replicas": window.max_replicas,
    }


def _to_rule(row: Any) -> Rule:
    return Rule(
        model=row.model,
        selector=row.selector,
        min_replicas=row.min_replicas,
        max_replicas=row.max_replicas,
        spreads=row.spreads,
        windows=tuple(RuleWindow(**window) for window in row.windows),
        time_zone=row.time_zone,
        route_policy=row.route_policy,
        unsatisfiable_until=row.unsatisfiable_until,
        unsatisfiable_ticks=row.unsatisfiable_ticks,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledModel:
    """A model as the autoscaler reads it from PostgreSQL: enabled, pinned, idle time and parallelism."""

    name: str
    run_hash: str
    groups: tuple[str, ...]
    is_enabled: bool
    is_pinned: bool
    # None: the model does not set it.
    idle_s: float | None
    # How many requests a replica works on at a time.
    parallel: int


async def list_scaled_models(tx: Transaction) -> list[ScaledModel]:
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
        ScaledModel(
            name=row.name,
            run_hash=row.run_hash,
            groups=tuple(row.groups or ()),
            is_enabled=row.enabled is not False,
            is_pinned=row.pinned is True,
            idle_s=None if row.idle is None else float(row.idle),
            parallel=_parse_parallel(row.parallel),
        )
        for row in await tx.execute(statement)
    ]


def _parse_parallel(value: Any) -> int:
    """Parse an option, which is free text of an admin; the engine decides about it, not the scaler."""
    text = str(value)
    return min(max(int(text), 1), PARALLEL_MAX) if text.isascii() and text.isdecimal() and len(text) < 9 else 1


async def list_waiting_requests(tx: Transaction) -> dict[str, int]:
    """Return how many requests wait for each model, over all running frontends."""
    total = func.sum(model_demand.c.waiting).label("waiting")
    statement = (
        select(model_demand.c.model, total)
        .where(model_demand.c.expires_at > func.corral_now(), model_demand.c.waiting > 0)
        .group_by(model_demand.c.model)
    )
    return {row.model: int(row.waiting) for row in await tx.execute(statement)}


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationEnd:
    """How an operation ended, as the autoscaler reads it from PostgreSQL: its state, and its error."""

    state: OperationState
    error_code: str
    error_text: str


async def list_operation_ends(tx: Transaction, ids: Collection[OperationId]) -> dict[OperationId, OperationEnd]:
    """Return the ends of those of these operations that have ended."""
    if not ids:
        return {}
    statement = select(operations.c.id, operations.c.state, operations.c.error_code, operations.c.error_text).where(
        operations.c.id == func.any(cast(sorted(ids), ARRAY(UUID(as_uuid=False)))),
        operations.c.finished_at.is_not(None),
    )
    return {
        OperationId(row.id): OperationEnd(
            state=OperationState(row.state), error_code=row.error_code or "", error_text=row.error_text or ""
        )
        for row in await tx.execute(statement)
    }


_WRITE_BACKOFFS = text("""
    UPDATE rules r SET unsatisfiable_ticks = s.ticks, unsatisfiable_until = s.until
      FROM jsonb_to_recordset(CAST(:backoffs AS jsonb)) AS s(model text, ticks int, until timestamptz)
     WHERE r.model = s.model
""")


async def write_backoffs(tx: Transaction, backoffs: Mapping[str, tuple[int, datetime | None]]) -> None:
    """Write how often in a row a rule could not be met, and until when it is left alone."""
    if not backoffs:
        return
    rows = [
        {"model": model, "ticks": ticks, "until": None if until is None else until.isoformat()}
        for model, (ticks, until) in sorted(backoffs.items())
    ]
    await tx.execute(_WRITE_BACKOFFS, {"backoffs": json.dumps(rows)})
