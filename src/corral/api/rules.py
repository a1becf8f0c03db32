"""`/api/rules`: routes about rules, which say where models may run and how many replicas they have;
`/api/nodes/scheduling` is LocalAI-compatible.

Included before the routes of nodes: `scheduling` is no node.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body

from corral.api.deps import DepsIn, OperatorIn
from corral.api.models.request_bodies import NameIn, open_model_change
from corral.domain.errors import InvalidRequest
from corral.domain.replica import Rule
from corral.models import rules as flow
from corral.policy.models.rules import to_mapping
from corral.policy.serving.routing import resolve_policy_name
from corral.store import models as model_store
from corral.store import rules as store
from corral.wire.models import RuleOut

router = APIRouter(tags=["rules"])
RuleBody = Annotated[
    dict[str, Any],
    Body(examples=[{"selector": {"gpu.vendor": "nvidia"}, "min_replicas": 1, "max_replicas": 4}]),
]


async def _list_rules(deps: DepsIn, _: OperatorIn) -> list[RuleOut]:
    """List the rules by model."""
    async with deps.database.transaction() as tx:
        names = {model.name for model in await model_store.list_models(tx)}
        return [_to_wire(rule, exists=rule.model in names) for rule in await store.list_rules(tx)]


async def _show_rule(deps: DepsIn, _: OperatorIn, name: NameIn) -> RuleOut:
    """Show the rule of one model, by its name or an alias."""
    async with deps.database.transaction() as tx:
        own = await model_store.find_own_name(tx, name)
        return _to_wire(await store.get_rule(tx, own or name), exists=own is not None)


@router.put("/api/rules/{name:path}")
async def put_rule(deps: DepsIn, operator: OperatorIn, name: NameIn, body: RuleBody) -> RuleOut:
    """Set the rule of a model; the routing policy stays if the body does not name it. The model need not exist yet.
    Saving a rule that could not be met retries it at once."""
    async with open_model_change(deps, name) as tx:
        rule = await flow.put(tx, name, body, operator.name)
        exists = await model_store.find_own_name(tx, rule.model) is not None
    return _to_wire(rule, exists=exists)


@router.post("/api/nodes/scheduling")
async def put_rule_for_localai(deps: DepsIn, operator: OperatorIn, body: RuleBody) -> RuleOut:
    """Set the rule of a model that the body names (LocalAI-compatible)."""
    name = body.get("model_name", body.get("model"))
    if not isinstance(name, str) or not name:
        raise InvalidRequest("model_name is missing.", code="bad_rule")
    return await put_rule(deps, operator, name, body)


@router.delete("/api/rules/{name:path}")
async def delete_rule(deps: DepsIn, operator: OperatorIn, name: NameIn) -> RuleOut:
    """Remove a rule and return it. Running replicas stay until they are idle."""
    async with open_model_change(deps, name) as tx:
        return _to_wire(
            await flow.remove(tx, name, operator.name), exists=await model_store.find_own_name(tx, name) is not None
        )


@router.delete("/api/nodes/scheduling/{name:path}", status_code=204)
async def delete_rule_for_localai(deps: DepsIn, operator: OperatorIn, name: NameIn) -> None:
    """Remove a rule, without a response body (LocalAI-compatible)."""
    await delete_rule(deps, operator, name)


for _path, _suffix in (("/api/rules", ""), ("/api/nodes/scheduling", "_for_localai")):
    router.get(_path, name=f"list_rules{_suffix}")(_list_rules)
    router.get(f"{_path}/{{name:path}}", name=f"show_rule{_suffix}")(_show_rule)


def _to_wire(rule: Rule, *, exists: bool) -> RuleOut:
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
        warnings=_list_warnings(rule),
    )


def _list_warnings(rule: Rule) -> list[str]:
    used = resolve_policy_name(rule.route_policy)
    if rule.route_policy in ("", used):
        return []
    return [f"route_policy {rule.route_policy} is stored and has no effect yet: requests are routed by {used}."]
