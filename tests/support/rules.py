"""Writes rules for tests."""

from __future__ import annotations

from corral.domain.replica import Rule
from corral.policy.labels import parse_selector
from corral.store import rules as rule_store
from corral.store.database import Transaction


async def put_rule(tx: Transaction, model: str, selector: object, *, least: int = 0, most: int = 0) -> Rule:
    """Write a rule of a selector and two numbers. Raises for a selector that no route would accept."""
    rule = Rule(model=model, selector=parse_selector(selector), min_replicas=least, max_replicas=most)
    await rule_store.save_rule(tx, rule)
    return rule
