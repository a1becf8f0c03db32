"""Asking for backends over the whole fleet: `/api/backends/…` and the ancestor's `/backends/…`.

Each has `?plan=true`, which only says what would be done, and `?after=true`, which waits for what is under way.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Request, Response

from corral.api.backends.asking import Caller, CallerIn, admitted_out, answer, asked_for, asked_from_outside, forced
from corral.api.backends.upgrades import current_upgrades
from corral.api.idempotency import once_as
from corral.api.operations.views import as_json, display_name
from corral.api.parts import OperateIn, PartsIn
from corral.domain.errors import CorralError
from corral.domain.operation import ACTIVE, Operation, OperationKind, OperationState
from corral.operations.request import Asked
from corral.store import operations as operation_store
from corral.store.database import Transaction
from corral.wire.backends import (
    AdmittedOut,
    ApplyIn,
    ExternalIn,
    InstallIn,
    JobOut,
    PlanOut,
    RefusedOut,
    TargetsIn,
    UpgradesAppliedOut,
    WishIn,
)

router = APIRouter(tags=["backends"])
NAME_MAX = 255
NameIn = Annotated[str, Path(max_length=NAME_MAX, pattern=r"^[^\x00-\x1f\x7f]+$", description="Name or gallery@name.")]
_ASKING: dict[str, Any] = {"response_model": AdmittedOut | PlanOut}


@router.post("/api/backends/install/{name:path}", **_ASKING)
async def install(caller: CallerIn, name: NameIn, body: Annotated[InstallIn | None, Body()] = None) -> Response:
    """Install on every node that may have it, or on some. Where it is there already, that is enough; with `force` it
    is fetched again. A build for special hardware needs nodes: without them it is 409 with the name to ask for."""
    return await answer(caller, await _installation(caller, name, body))


@router.post("/api/backends/install-external", **_ASKING)
async def install_external(caller: CallerIn, body: ExternalIn) -> Response:
    """Install something that is in no gallery. Addresses inside a network are refused unless a setting allows them."""
    nodes = None if body.nodes is None else tuple(body.nodes)
    return await answer(caller, asked_from_outside(caller.parts, body, nodes))


async def _upgrade(caller: CallerIn, name: NameIn, body: Annotated[WishIn | None, Body()] = None) -> Response:
    """Put the newest version, or the one that is named, on every node that has it."""
    return await answer(caller, asked_for(OperationKind.BACKEND_UPGRADE, name, body))


async def _reinstall(caller: CallerIn, name: NameIn, body: Annotated[WishIn | None, Body()] = None) -> Response:
    """Fetch it again and replace what is there, on every node that has it."""
    return await answer(caller, asked_for(OperationKind.BACKEND_REINSTALL, name, body))


async def _roll_back(caller: CallerIn, name: NameIn, body: Annotated[TargetsIn | None, Body()] = None) -> Response:
    """Go back to the version before, on every node that has kept one. Nothing is fetched; asking again swaps back."""
    return await answer(caller, asked_for(OperationKind.BACKEND_ROLLBACK, name, body))


async def _delete(caller: CallerIn, name: NameIn, body: Annotated[TargetsIn | None, Body()] = None) -> Response:
    """Remove it from every node that has it or owes it. An operation like the others, also on the ancestor's
    synchronous path: nodes that are away lose it when they are back."""
    return await answer(caller, asked_for(OperationKind.BACKEND_DELETE, name, body))


for _path, _name, _work in (
    ("/api/backends/upgrade/{name:path}", "upgrade", _upgrade),
    ("/backends/upgrade/{name:path}", "upgrade_as_ancestor", _upgrade),
    ("/api/backends/reinstall/{name:path}", "reinstall", _reinstall),
    ("/api/backends/rollback/{name:path}", "roll_back", _roll_back),
    ("/api/backends/delete/{name:path}", "delete", _delete),
    ("/api/backends/system/delete/{name:path}", "delete_from_system", _delete),
    ("/backends/delete/{name:path}", "delete_as_ancestor", _delete),
):
    router.post(_path, name=_name, **_ASKING)(_work)


@router.post("/backends/apply", **_ASKING)
async def apply(caller: CallerIn, body: ApplyIn) -> Response:
    """The ancestor's way to install. Sending it again is harmless."""
    return await answer(caller, await _installation(caller, body.id, body))


async def _installation(caller: Caller, name: str, body: InstallIn | None) -> Asked:
    asked = asked_for(OperationKind.BACKEND_INSTALL, name, body)
    return await forced(caller.parts, asked) if body is not None and body.force else asked


@router.post("/api/backends/upgrades/apply", response_model=UpgradesAppliedOut)
async def apply_upgrades(request: Request, parts: PartsIn, operator: OperateIn) -> Response:
    """Upgrade everything that has an upgrade: one operation for each. One that is refused does not stop the others."""
    caller = Caller(request=request, parts=parts, operator=operator, plans=False, waits=False)
    upgrades = await current_upgrades(parts)

    async def work(tx: Transaction) -> tuple[int, bytes]:
        done = UpgradesAppliedOut(operations=[])
        for found in upgrades:
            await _upgrade_one(tx, caller, found.backend, done)
        return 200, as_json(done)

    return await once_as(request, parts.database, operator, work)


async def _upgrade_one(tx: Transaction, caller: Caller, name: str, done: UpgradesAppliedOut) -> None:
    asked = Asked(kind=OperationKind.BACKEND_UPGRADE, backend=name)
    try:
        admitted = await caller.parts.admission.admit_in(tx, asked, caller.operator.name)
    except CorralError as error:
        if error.retryable:
            raise
        done.refused.append(RefusedOut(backend=name, code=error.slug, message=error.message))
    else:
        done.operations.append(admitted_out(admitted))


async def _job(parts: PartsIn, _: OperateIn, uid: str) -> JobOut:
    """The ancestor's view of an operation; `/api/operations/{id}` says more."""
    async with parts.database.transaction() as tx:
        return job_out(await operation_store.get(tx, uid))


for _path, _name in (("/api/backends/job/{uid}", "job"), ("/backends/jobs/{uid}", "job_as_ancestor")):
    router.get(_path, name=_name, response_model_exclude_none=True)(_job)


def job_out(operation: Operation) -> JobOut:
    state = operation.state
    is_done = state in (OperationState.COMPLETED, OperationState.COMPLETED_WITH_PENDING)
    return JobOut(
        progress=operation.progress.percent,
        message=operation.message,
        gallery_element_name=display_name(operation),
        processed=state not in ACTIVE,
        deletion=operation.kind.is_deletion,
        queued=state is OperationState.QUEUED,
        error=operation.fault.text if operation.fault else None,
        completed=True if is_done else None,
        cancelled=True if state in (OperationState.CANCELLED, OperationState.PAUSED) else None,
        phase=operation.progress.phase,
        state=state,
    )
