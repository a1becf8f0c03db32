"""The rules that ask for replicas. Whatever is saved was checked before; saving one lets it be tried again at once."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

from sqlalchemy import delete, select, update
from sqlalchemy.dialects.postgresql import insert

from corral.domain.errors import NotFound
from corral.domain.replica import Rule, Window
from corral.policy.labels import parse_selector
from corral.policy.models.rules import is_same
from corral.store import outbox
from corral.store.database import Transaction, is_storable
from corral.store.schema import NOW, rules


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
    """Write it, and forget that it could not be met: whoever saves it means "now". Whether it says something new.

    The event is written also if it does not: the reconciler looks again.
    """
    statement = select(rules).where(rules.c.model == rule.model).with_for_update()
    known = (await tx.execute(statement)).one_or_none()
    values: dict[str, Any] = {
        "selector": rule.selector,
        "min_replicas": rule.min_replicas,
        "max_replicas": rule.max_replicas,
        "spreads": rule.spreads,
        "windows": [_window_json(window) for window in rule.windows],
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
    return known is None or not is_same(_to_rule(known), rule)


async def put_rule(tx: Transaction, model: str, selector: object, *, least: int = 0, most: int = 0) -> Rule:
    """A rule of a selector and two numbers. The selector is checked here: a broken one is never stored."""
    rule = Rule(model=model, selector=parse_selector(selector), min_replicas=least, max_replicas=most)
    await save_rule(tx, rule)
    return rule


async def delete_rule(tx: Transaction, model: str) -> bool:
    """Whether there was one."""
    if not is_storable(model):
        return False
    gone = await tx.execute(delete(rules).where(rules.c.model == model))
    if gone.rowcount:
        await outbox.append(tx, "rule.changed", model, {"deleted": True})
    return bool(gone.rowcount)


def setback_data(model: str, reason: str, until: datetime | None) -> dict[str, Any]:
    """What the event about a setback says. Without a reason: there is none any more."""
    sentence = reason or "Nothing holds it back any more."
    return {"model": model, "sentence": sentence, "until": until.isoformat() if until else None}


async def clear_unsatisfiable(tx: Transaction, models: Collection[str] | None = None) -> None:
    """The fleet has changed: rules that were put aside as impossible deserve another look. It is told of those that
    were."""
    statement = update(rules).where(rules.c.unsatisfiable_until.is_not(None) | (rules.c.unsatisfiable_ticks > 0))
    if models is not None:
        statement = statement.where(rules.c.model.in_(models))
    cleared = await tx.execute(
        statement.values(unsatisfiable_until=None, unsatisfiable_ticks=0).returning(rules.c.model)
    )
    gone = [(row.model, setback_data(row.model, "", None)) for row in cleared]
    await outbox.append_many(tx, "rule.setback", gone)


def _window_json(window: Window) -> dict[str, Any]:
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
        windows=tuple(Window(**window) for window in row.windows),
        time_zone=row.time_zone,
        route_policy=row.route_policy,
        unsatisfiable_until=row.unsatisfiable_until,
        unsatisfiable_ticks=row.unsatisfiable_ticks,
    )
