"""Routes that change backends on the whole fleet: `/api/backends/…` and LocalAI's `/backends/…`.

Each has `?plan=true`, a dry run, and `?after=true`, which queues the change behind a running operation.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Request, Response

from corral.api.backends.catalog import find_upgrades
from corral.api.backends.operation_requests import (
    OperationCaller,
    OperationCallerIn,
    admission_to_wire,
    make_external_spec,
    make_forced_spec,
    make_spec,
    plan_or_admit,
)
from corral.api.deps import DepsIn, OperatorIn
from corral.api.idempotency import run_once
from corral.api.operations import get_display_name, to_json
from corral.domain.errors import CorralError
from corral.domain.operation import ACTIVE, Operation, OperationKind, OperationState
from corral.operations.backend_plan import BackendOperationSpec
from corral.store import operations as operation_store
from corral.store.database import Transaction
from corral.wire.backends import (
    AppliedUpgradesOut,
    ApplyBackendIn,
    BackendChangeIn,
    BackendOperationOut,
    BackendPlanOut,
    ExternalBackendIn,
    InstallBackendIn,
    LocalAiJobOut,
    RefusedUpgradeOut,
    TargetsIn,
)

router = APIRouter(tags=["backends"])
NAME_MAX = 255
NameIn = Annotated[str, Path(max_length=NAME_MAX, pattern=r"^[^\x00-\x1f\x7f]+$", description="Name or gallery@name.")]
_OPERATION_ROUTE: dict[str, Any] = {"response_model": BackendOperationOut | BackendPlanOut}


@router.post("/api/backends/install/{name:path}", **_OPERATION_ROUTE)
async def install_backend(
    caller: OperationCallerIn, name: NameIn, body: Annotated[InstallBackendIn | None, Body()] = None
) -> Response:
    """Install a backend on all suitable nodes, or on some. Nodes that have it are left alone; with `force` it is
    downloaded again. A build for specific hardware needs `nodes`: without them it is 409 with the name to use
    instead."""
    return await plan_or_admit(caller, await _make_install_spec(caller, name, body))


@router.post("/api/backends/install-external", **_OPERATION_ROUTE)
async def install_external_backend(caller: OperationCallerIn, body: ExternalBackendIn) -> Response:
    """Install a backend from an address. Addresses in private networks are refused unless a setting allows them."""
    nodes = None if body.nodes is None else tuple(body.nodes)
    return await plan_or_admit(caller, make_external_spec(caller.deps, body, nodes))


async def _upgrade_backend(
    caller: OperationCallerIn, name: NameIn, body: Annotated[BackendChangeIn | None, Body()] = None
) -> Response:
    """Upgrade a backend to the newest or the given version on every node that has it."""
    return await plan_or_admit(caller, make_spec(OperationKind.BACKEND_UPGRADE, name, body))


async def _reinstall_backend(
    caller: OperationCallerIn, name: NameIn, body: Annotated[BackendChangeIn | None, Body()] = None
) -> Response:
    """Download a backend again and replace it on every node that has it."""
    return await plan_or_admit(caller, make_spec(OperationKind.BACKEND_REINSTALL, name, body))


async def _roll_back_backend(
    caller: OperationCallerIn, name: NameIn, body: Annotated[TargetsIn | None, Body()] = None
) -> Response:
    """Go back to the previous version on every node that kept it. Nothing is downloaded; a second call swaps back."""
    return await plan_or_admit(caller, make_spec(OperationKind.BACKEND_ROLLBACK, name, body))


async def _delete_backend(
    caller: OperationCallerIn, name: NameIn, body: Annotated[TargetsIn | None, Body()] = None
) -> Response:
    """Remove a backend from every node that has it or has a pending change of it. This is an operation also on
    LocalAI's synchronous path: offline nodes remove it when they are back."""
    return await plan_or_admit(caller, make_spec(OperationKind.BACKEND_DELETE, name, body))


for _path, _name, _work in (
    ("/api/backends/upgrade/{name:path}", "upgrade_backend", _upgrade_backend),
    ("/backends/upgrade/{name:path}", "upgrade_backend_for_localai", _upgrade_backend),
    ("/api/backends/reinstall/{name:path}", "reinstall_backend", _reinstall_backend),
    ("/api/backends/rollback/{name:path}", "roll_back_backend", _roll_back_backend),
    ("/api/backends/delete/{name:path}", "delete_backend", _delete_backend),
    ("/api/backends/system/delete/{name:path}", "delete_system_backend", _delete_backend),
    ("/backends/delete/{name:path}", "delete_backend_for_localai", _delete_backend),
):
    router.post(_path, name=_name, **_OPERATION_ROUTE)(_work)


@router.post("/backends/apply", **_OPERATION_ROUTE)
async def apply_backend(caller: OperationCallerIn, body: ApplyBackendIn) -> Response:
    """Install a backend (LocalAI-compatible). Sending the request again is harmless."""
    return await plan_or_admit(caller, await _make_install_spec(caller, body.id, body))


async def _make_install_spec(caller: OperationCaller, name: str, body: InstallBackendIn | None) -> BackendOperationSpec:
    spec = make_spec(OperationKind.BACKEND_INSTALL, name, body)
    return await make_forced_spec(caller.deps, spec) if body is not None and body.force else spec


@router.post("/api/backends/upgrades/apply", response_model=AppliedUpgradesOut)
async def apply_upgrades(request: Request, deps: DepsIn, operator: OperatorIn) -> Response:
    """Upgrade all backends with an upgrade, one operation each. A refused upgrade does not stop the others."""
    caller = OperationCaller(request=request, deps=deps, operator=operator, is_plan_only=False, waits_for_running=False)
    upgrades = await find_upgrades(deps)

    async def work(tx: Transaction) -> tuple[int, bytes]:
        done = AppliedUpgradesOut(operations=[])
        for upgrade in upgrades:
            await _upgrade_one(tx, caller, upgrade.backend, done)
        return 200, to_json(done)

    return await run_once(request, deps.database, operator, work)


async def _upgrade_one(tx: Transaction, caller: OperationCaller, name: str, done: AppliedUpgradesOut) -> None:
    spec = BackendOperationSpec(kind=OperationKind.BACKEND_UPGRADE, backend=name)
    try:
        admitted = await caller.deps.admission.admit_in(tx, spec, caller.operator.name)
    except CorralError as error:
        if error.retryable:
            raise
        done.refused.append(RefusedUpgradeOut(backend=name, code=error.slug, message=error.message))
    else:
        done.operations.append(admission_to_wire(admitted))


async def _show_job(deps: DepsIn, _: OperatorIn, uid: str) -> LocalAiJobOut:
    """Show an operation in LocalAI's form; `/api/operations/{id}` has more details."""
    async with deps.database.transaction() as tx:
        return job_to_wire(await operation_store.get(tx, uid))


for _path, _name in (
    ("/api/backends/job/{uid}", "show_backend_job"),
    ("/backends/jobs/{uid}", "show_backend_job_for_localai"),
):
    router.get(_path, name=_name, response_model_exclude_none=True)(_show_job)


def job_to_wire(operation: Operation) -> LocalAiJobOut:
    state = operation.state
    is_done = state in (OperationState.COMPLETED, OperationState.COMPLETED_WITH_PENDING)
    return LocalAiJobOut(
        progress=operation.progress.percent,
        message=operation.message,
        gallery_element_name=get_display_name(operation),
        processed=state not in ACTIVE,
        deletion=operation.kind.is_deletion,
        queued=state is OperationState.QUEUED,
        error=operation.fault.text if operation.fault else None,
        completed=True if is_done else None,
        cancelled=True if state in (OperationState.CANCELLED, OperationState.PAUSED) else None,
        phase=operation.progress.phase,
        state=state,
    )
