"""Changes rules, and applies the ones that a frontend is started with.

Guarantee: a seed is read whole before anything is written, and one invalid entry stops the start; a listed rule is
written at every start, other rules are left alone. Saving a rule resets its backoff.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from corral.backends.documents import load_document
from corral.domain.errors import Conflict, InvalidRequest
from corral.domain.replica import Rule
from corral.policy.models.rules import CODE, from_mapping, to_mapping
from corral.store import access as access_store
from corral.store import models as model_store
from corral.store import rules as store
from corral.store.database import Transaction

SEED_RULES_MAX = 10_000


async def save(tx: Transaction, rule: Rule, actor: str) -> bool:
    """Save a rule and return whether it differs from the stored one."""
    is_new = await store.save_rule(tx, rule)
    if is_new:
        await access_store.record_audit(tx, actor, "rule.save", rule.model[:255], json.dumps(to_mapping(rule))[:1000])
    return is_new


async def put(tx: Transaction, model: str, value: object, actor: str) -> Rule:
    """Replace a rule by the given value; routing options stay when the value does not mention them.

    An alias means its model.
    """
    name = await model_store.find_own_name(tx, model) or model
    if isinstance(value, dict) and model != name:
        value = {key: item for key, item in value.items() if key not in ("model", "model_name")}
    rule = from_mapping(value, model=name, keeps=await store.find_rule(tx, name))
    known = await model_store.find_model(tx, name)
    if known is not None and known.config.base:
        raise Conflict(
            f"{name} is an adapter: it runs in the engines of its base {known.config.base}.",
            hint=f"Give {known.config.base} the rule.",
            code="is_adapter",
            details={"base": known.config.base},
        )
    await save(tx, rule, actor)
    return await store.get_rule(tx, name)


async def remove(tx: Transaction, model: str, actor: str) -> Rule:
    """Delete the rule of a model and return it."""
    rule = await store.get_rule(tx, await model_store.find_own_name(tx, model) or model)
    await store.delete_rule(tx, rule.model)
    await model_store.put_fleet_items(tx, (), [("rule", rule.model)])
    await access_store.record_audit(tx, actor, "rule.remove", rule.model[:255])
    return rule


def read_seed(inline: str, text: str) -> tuple[Rule, ...]:
    """Return the rules of the settings: a JSON list first, then the YAML of a file. Any invalid entry is an error.

    A model that is in both has the rule of the file, which comes later.
    """
    rules: dict[str, Rule] = {}
    for value in (*_parse_list(inline, "rules", is_json=True), *_parse_list(text, "rules_file", is_json=False)):
        rule = from_mapping(value)
        rules[rule.model] = rule
    if len(rules) > SEED_RULES_MAX:
        raise InvalidRequest(f"More than {SEED_RULES_MAX} rules are too many.", code=CODE)
    return tuple(rules.values())


async def seed(tx: Transaction, rules: Sequence[Rule]) -> int:
    """Write the rules of the settings and return how many of them were new or changed."""
    changed = 0
    for rule in sorted(rules, key=lambda one: one.model):
        known = await store.find_rule(tx, rule.model)
        if known is None or to_mapping(known) != to_mapping(rule):
            changed += await save(tx, rule, "settings")
    return changed


def _parse_list(text: str, where: str, *, is_json: bool) -> Sequence[Any]:
    if not text.strip():
        return ()
    if is_json:
        try:
            found = json.loads(text)
        except ValueError as error:
            raise InvalidRequest(
                f"{where}: not valid JSON.", hint='Write [{"model": "chat", "min_replicas": 1}].', code=CODE
            ) from error
    else:
        found = load_document(text, where)
    if isinstance(found, dict) and set(found) == {"rules"}:
        found = found["rules"]
    if not isinstance(found, list):
        raise InvalidRequest(f"{where}: a list of rules was expected.", code=CODE)
    return found
