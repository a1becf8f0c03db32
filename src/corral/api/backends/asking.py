"""One way to ask for an operation, behind every route that can: plan it, or admit it and say where to look."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import Depends, Query, Request, Response

from corral.api.backends.first_fetch import wait_for_galleries
from corral.api.idempotency import once_as
from corral.api.operations.views import as_json
from corral.api.parts import OperateIn, Parts, PartsIn
from corral.backends.outside import refuse_private
from corral.domain.access import Principal
from corral.domain.backend import Desired
from corral.domain.errors import NotFound
from corral.domain.operation import OperationKind, Strategy
from corral.operations.admission import Admitted
from corral.operations.request import Asked
from corral.policy.planning import Planned, PlannedTarget
from corral.policy.status import status_of
from corral.store.database import Transaction
from corral.wire.backends import (
    AdmittedOut,
    ExternalIn,
    PlannedNodeOut,
    PlanOut,
    SkippedOut,
    StrategyIn,
    TargetsIn,
    WishIn,
)

_DOING = {
    OperationKind.BACKEND_INSTALL: "Installing",
    OperationKind.BACKEND_UPGRADE: "Upgrading",
    OperationKind.BACKEND_REINSTALL: "Reinstalling",
    OperationKind.BACKEND_ROLLBACK: "Rolling back",
    OperationKind.BACKEND_DELETE: "Removing",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who asks, and how."""

    request: Request
    parts: Parts
    operator: Principal
    plans: bool
    waits: bool


async def _caller(
    request: Request,
    parts: PartsIn,
    operator: OperateIn,
    *,
    plan: Annotated[bool, Query(description="Only say what would be done.")] = False,
    after: Annotated[bool, Query(description="Wait for what is under way instead of being refused.")] = False,
) -> Caller:
    await wait_for_galleries(parts)
    return Caller(request=request, parts=parts, operator=operator, plans=plan, waits=after)


CallerIn = Annotated[Caller, Depends(_caller)]


def asked_for(
    kind: OperationKind, backend: str, wish: TargetsIn | None, *, nodes: tuple[str, ...] | None = None
) -> Asked:
    """A wish as a value. `nodes` are those of the address; else the body's."""
    wish = wish or TargetsIn()
    chosen = nodes if nodes is not None else None if wish.nodes is None else tuple(wish.nodes)
    exact = wish if isinstance(wish, WishIn) else WishIn()
    return Asked(
        kind=kind,
        backend=backend,
        nodes=chosen,
        version=exact.version,
        ignores_capability=exact.ignore_capability,
        deadline_s=wish.strategy.deadline_s,
        strategy=strategy_of(wish.strategy),
    )


def asked_from_outside(parts: Parts, wish: ExternalIn, nodes: tuple[str, ...] | None) -> Asked:
    """A wish for something that is in no gallery. Without a name, the address tells one, or the wish is refused."""
    sha256 = wish.sha256.lower()
    return Asked(
        kind=OperationKind.BACKEND_INSTALL,
        backend=wish.name or parts.catalog.external(wish.uri, "", wish.alias, sha256).name,
        nodes=nodes,
        version=wish.version,
        uri=wish.uri,
        alias=wish.alias,
        sha256=sha256,
        ignores_capability=wish.ignore_capability,
        deadline_s=wish.strategy.deadline_s,
        strategy=strategy_of(wish.strategy),
    )


async def forced(parts: Parts, asked: Asked) -> Asked:
    """Fetch again what is there. Where it is nowhere yet, installing is all that can be meant."""
    again = replace(asked, kind=OperationKind.BACKEND_REINSTALL)
    try:
        await parts.admission.plan(again)
    except NotFound as error:
        if error.slug != "backend_not_installed":
            raise
        return asked
    return again


def strategy_of(strategy: StrategyIn) -> Strategy:
    return Strategy(
        waves=tuple(strategy.waves),
        stops_on_failure=strategy.stop_on_failure,
        rolls_back=strategy.rollback,
    )


async def answer(caller: Caller, asked: Asked, *, status: int = 200) -> Response:
    """The plan, or the operation. One that was there already is 200, whatever a new one is."""
    parts = caller.parts
    if asked.uri and not parts.allows_private_sources:
        await refuse_private(asked.uri, parts.fetcher)
    if caller.plans:
        planned = plan_out(asked, await parts.admission.plan(asked))
        return Response(planned.model_dump_json(), media_type="application/json")

    async def work(tx: Transaction) -> tuple[int, bytes]:
        admitted = await parts.admission.admit_in(tx, asked, caller.operator.name, queue_behind=caller.waits)
        return 200 if admitted.is_duplicate else status, as_json(admitted_out(admitted))

    response = await once_as(caller.request, parts.database, caller.operator, work)
    if response.status_code == 202:
        response.headers["Location"] = json.loads(bytes(response.body))["statusUrl"]
    return response


def admitted_out(admitted: Admitted) -> AdmittedOut:
    operation = admitted.operation
    url = f"/api/backends/job/{operation.id}"
    if admitted.is_duplicate:
        message = f"This was asked for already; it goes on as operation {operation.id}."
    elif operation.after_id:
        message = f"{_DOING[operation.kind]} {operation.subject} waits for operation {operation.after_id}."
    else:
        message = f"{_DOING[operation.kind]} {operation.subject} is under way."
    return AdmittedOut(
        id=operation.id,
        job_id=operation.id,
        uuid=operation.id,
        status_url=url,
        status_url_of_ancestor=url,
        message=message,
        state=operation.state,
        deduplicated=admitted.is_duplicate,
    )


def plan_out(asked: Asked, planned: Planned) -> PlanOut:
    sizes = [target.fetch_bytes for target in planned.targets]
    known = [size for size in sizes if size is not None]
    return PlanOut(
        kind=asked.kind,
        backend=asked.backend,
        nodes=[_planned_node(target) for target in planned.targets],
        skipped=[SkippedOut(node_id=node.id, node_name=node.name, reason=reason) for node, reason in planned.skipped],
        fetch_bytes=sum(known) if len(known) == len(sizes) else None,
    )


def _planned_node(target: PlannedTarget) -> PlannedNodeOut:
    build = target.build
    return PlannedNodeOut(
        node_id=target.node.id,
        node_name=target.node.name,
        node_status=status_of(target.node),
        backend=target.backend,
        version=build.version if build else "",
        desired=target.desired,
        previous_version=str((target.previous or {}).get("version") or target.installed_version or ""),
        has_it=target.desired is Desired.PRESENT and target.previous is None and target.installed_version is not None,
        source=build.source.kind if build else "",
        uri=(build.source.uri or ", ".join(build.source.requirements)) if build else "",
        wave=target.wave,
        fetch_bytes=target.fetch_bytes if build else 0,
    )
