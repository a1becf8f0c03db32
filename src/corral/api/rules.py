"""`/api/rules`: where models may run and how many replicas they are to have; `/api/nodes/scheduling` is the ancestor's.

Included before the routes of nodes: `scheduling` is no node.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body

from corral.api.models.bodies import NameIn, model_change
from corral.api.parts import OperateIn, PartsIn
from corral.domain.errors import InvalidRequest
from corral.domain.replica import Rule
from corral.models import rules as flow
from corral.policy.models.rules import to_mapping
from corral.policy.serving.routing import policy_name
from corral.store import models as model_store
from corral.store import rules as store
from corral.wire.rules import RuleOut

router = APIRouter(tags=["rules"])
RuleIn = Annotated[
    dict[str, Any],
    Body(examples=[{"selector": {"gpu.vendor": "nvidia"}, "min_replicas": 1, "max_replicas": 4}]),
]


async def _list(parts: PartsIn, _: OperateIn) -> list[RuleOut]:
    """Every rule, by model."""
    async with parts.database.transaction() as tx:
        names = {model.name for model in await model_store.list_models(tx)}
        return [_out(rule, exists=rule.model in names) for rule in await store.list_rules(tx)]


async def _get(parts: PartsIn, _: OperateIn, name: NameIn) -> RuleOut:
    """The rule of one model, by its name or an alias."""
    async with parts.database.transaction() as tx:
        own = await model_store.find_owner(tx, name)
        return _out(await store.get_rule(tx, own or name), exists=own is not None)


@router.put("/api/rules/{name:path}")
async def put_rule(parts: PartsIn, operator: OperateIn, name: NameIn, body: RuleIn) -> RuleOut:
    """Make the rule of a model what the body says; routing stays when it is not spoken of. A rule may be there before
    its model. Saving one that could not be met lets it be tried again at once."""
    async with model_change(parts, name) as tx:
        rule = await flow.put(tx, name, body, operator.name)
        exists = await model_store.find_owner(tx, rule.model) is not None
    return _out(rule, exists=exists)


@router.post("/api/nodes/scheduling")
async def put_rule_as_ancestor(parts: PartsIn, operator: OperateIn, body: RuleIn) -> RuleOut:
    """The same with the name in the body."""
    name = body.get("model_name", body.get("model"))
    if not isinstance(name, str) or not name:
        raise InvalidRequest("model_name is missing.", code="bad_rule")
    return await put_rule(parts, operator, name, body)


@router.delete("/api/rules/{name:path}")
async def delete_rule(parts: PartsIn, operator: OperateIn, name: NameIn) -> RuleOut:
    """Take a rule away; the answer is what it was. Replicas that run stay until they are idle."""
    async with model_change(parts, name) as tx:
        return _out(
            await flow.remove(tx, name, operator.name), exists=await model_store.find_owner(tx, name) is not None
        )


@router.delete("/api/nodes/scheduling/{name:path}", status_code=204)
async def delete_rule_as_ancestor(parts: PartsIn, operator: OperateIn, name: NameIn) -> None:
    """Take a rule away; without an answer."""
    await delete_rule(parts, operator, name)


for _path, _suffix in (("/api/rules", ""), ("/api/nodes/scheduling", "_as_ancestor")):
    router.get(_path, name=f"rules{_suffix}")(_list)
    router.get(f"{_path}/{{name:path}}", name=f"rule{_suffix}")(_get)


def _out(rule: Rule, *, exists: bool) -> RuleOut:
    return RuleOut(
        model=rule.model,
        model_name=rule.model,
        selector=rule.selector,
        node_selector=rule.selector,
        min_replicas=rule.min_replicas,
        max_replicas=rule.max_replicas,
        spread_all=rule.spreads,
        windows=to_mapping(rule).get("windows", []),
        time_zone=rule.time_zone,
        route_policy=rule.route_policy,
        unsatisfiable_until=rule.unsatisfiable_until,
        unsatisfiable_ticks=rule.unsatisfiable_ticks,
        model_exists=exists,
        warnings=_warnings(rule),
    )


def _warnings(rule: Rule) -> list[str]:
    used = policy_name(rule.route_policy)
    if rule.route_policy in ("", used):
        return []
    return [f"route_policy {rule.route_policy} is stored and has no effect yet: requests are routed by {used}."]
