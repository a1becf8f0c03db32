"""`/api/fleet`: everything that a file can say about a fleet, written and read as one."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from corral.api.models.bodies import check_sources, document_of, serve_as_changed
from corral.api.parts import OperateIn, PartsIn
from corral.models import fleet
from corral.policy.models.fleetfile import from_mapping, to_mapping
from corral.wire.models import FleetOut, StepOut

router = APIRouter(tags=["models"])
Fleet = dict[str, Any]


@router.get("/api/fleet")
async def export_fleet(parts: PartsIn, _: OperateIn) -> Fleet:
    """Models, rules, the admin's labels and galleries, as a file has them. Applying it changes nothing."""
    async with parts.database.transaction() as tx:
        return to_mapping(await fleet.export(tx))


@router.post(
    "/api/fleet",
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": {"type": "object"}}, "application/yaml": {"schema": {}}},
        }
    },
)
async def apply_fleet(
    request: Request,
    parts: PartsIn,
    operator: OperateIn,
    *,
    plan: Annotated[bool, Query(description="Only say what would be done.")] = False,
    prune: Annotated[
        bool, Query(description="Remove what an earlier file had brought and this one does not have.")
    ] = False,
) -> FleetOut:
    """Make the fleet what the file says: in one transaction, or not at all. Only an admin key changes galleries."""
    wanted = from_mapping(await document_of(request))
    for config in wanted.models:
        check_sources(parts, config)
    work = fleet.plan if plan else fleet.apply
    steps = await work(parts.database, wanted, operator.name, prunes=prune, is_admin=operator.is_admin)
    if not plan:
        await serve_as_changed(parts, {one.name for one in steps})
    return FleetOut(
        plan=plan,
        steps=[
            StepOut(kind=one.kind, name=one.name, action=one.action, changes=list(one.lines), stopped=one.stopped)
            for one in steps
        ],
    )
