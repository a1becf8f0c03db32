"""Plans or admits an operation about a backend, for every route that requests one, and the routes for the whole fleet:
`/api/backends/…` and LocalAI's `/backends/…`.

Each has `?plan=true`, a dry run, and `?after=true`, which queues the change behind a running operation.

A request that names an entry of a newly configured gallery waits for the first fetch of that gallery: the leader
fetches galleries in the background, and the first install of a script that has just started a cluster would fail
otherwise. Limit: `WAIT_S`; a source that does not respond by then is left to the leader, and the request is answered
from the known entries.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, replace
from typing import Annotated, Any, Protocol

from fastapi import APIRouter, Body, Depends, Path, Query, Request, Response

from corral.api.backends.catalog import find_upgrades
from corral.api.deps import ApiDeps, DepsIn, OperatorIn
from corral.api.idempotency import run_once
from corral.api.operations import get_display_name, to_json
from corral.backends.refresh import GalleryRefresher
from corral.backends.sources import refuse_private
from corral.domain.access import Principal
from corral.domain.backend import DesiredState
from corral.domain.errors import CorralError, NotFound
from corral.domain.operation import ACTIVE, Operation, OperationKind, OperationState, RolloutStrategy
from corral.operations.admission import AdmissionResult
from corral.operations.backend_plan import BackendOperationSpec
from corral.policy.operation_plan import BackendOperationPlan, PlannedTarget
from corral.policy.status import compute_status
from corral.runtime.attempt import attempt
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
    PlannedNodeOut,
    RefusedUpgradeOut,
    SkippedNodeOut,
    StrategyIn,
    TargetsIn,
)

_KIND_WORDS = {
    OperationKind.BACKEND_INSTALL: "Installing",
    OperationKind.BACKEND_UPGRADE: "Upgrading",
    OperationKind.BACKEND_REINSTALL: "Reinstalling",
    OperationKind.BACKEND_ROLLBACK: "Rolling back",
    OperationKind.BACKEND_DELETE: "Removing",
}
WAIT_S = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationCaller:
    """Says who requests an engine backend operation, and whether it is a dry run or waits for a running one."""

    request: Request
    deps: ApiDeps
    operator: Principal
    is_plan_only: bool
    waits_for_running: bool


async def _make_caller(
    request: Request,
    deps: DepsIn,
    operator: OperatorIn,
    *,
    plan: Annotated[bool, Query(description="Dry run: only return what would change.")] = False,
    after: Annotated[bool, Query(description="Queue behind a running operation instead of failing.")] = False,
) -> OperationCaller:
    await wait_for_galleries(deps)
    return OperationCaller(request=request, deps=deps, operator=operator, is_plan_only=plan, waits_for_running=after)


OperationCallerIn = Annotated[OperationCaller, Depends(_make_caller)]


def make_spec(
    kind: OperationKind, backend: str, body: TargetsIn | None, *, nodes: tuple[str, ...] | None = None
) -> BackendOperationSpec:
    """Return the spec of an operation. `nodes` come from the address, otherwise from the body."""
    body = body or TargetsIn()
    chosen = nodes if nodes is not None else None if body.nodes is None else tuple(body.nodes)
    exact = body if isinstance(body, BackendChangeIn) else BackendChangeIn()
    return BackendOperationSpec(
        kind=kind,
        backend=backend,
        nodes=chosen,
        version=exact.version,
        ignores_capability=exact.ignore_capability,
        deadline_s=body.strategy.deadline_s,
        strategy=to_strategy(body.strategy),
    )


def make_external_spec(deps: ApiDeps, body: ExternalBackendIn, nodes: tuple[str, ...] | None) -> BackendOperationSpec:
    """Return the spec for a backend that is in no gallery. Without a name, it is taken from the address or refused."""
    sha256 = body.sha256.lower()
    return BackendOperationSpec(
        kind=OperationKind.BACKEND_INSTALL,
        backend=body.name or deps.catalog.make_external_build(body.uri, "", body.alias, sha256).name,
        nodes=nodes,
        version=body.version,
        uri=body.uri,
        alias=body.alias,
        sha256=sha256,
        ignores_capability=body.ignore_capability,
        deadline_s=body.strategy.deadline_s,
        strategy=to_strategy(body.strategy),
    )


async def make_forced_spec(deps: ApiDeps, spec: BackendOperationSpec) -> BackendOperationSpec:
    """Return the spec of a forced installation: a reinstallation if the backend is installed, otherwise an
    installation."""
    reinstall = replace(spec, kind=OperationKind.BACKEND_REINSTALL)
    try:
        await deps.admission.plan(reinstall)
    except NotFound as error:
        if error.slug != "backend_not_installed":
            raise
        return spec
    return reinstall


def to_strategy(strategy: StrategyIn) -> RolloutStrategy:
    return RolloutStrategy(
        waves=tuple(strategy.waves),
        stops_on_failure=strategy.stop_on_failure,
        rolls_back=strategy.rollback,
    )


async def plan_or_admit(caller: OperationCaller, spec: BackendOperationSpec, *, status: int = 200) -> Response:
    """Return the plan or the operation. An existing operation has status 200, a new one `status`."""
    deps = caller.deps
    if spec.uri and not deps.allows_private_sources:
        await refuse_private(spec.uri, deps.fetcher)
    if caller.is_plan_only:
        planned = plan_to_wire(spec, await deps.admission.plan(spec))
        return Response(planned.model_dump_json(), media_type="application/json")

    async def work(tx: Transaction) -> tuple[int, bytes]:
        admitted = await deps.admission.admit_in(tx, spec, caller.operator.name, queue_behind=caller.waits_for_running)
        return 200 if admitted.is_duplicate else status, to_json(admission_to_wire(admitted))

    response = await run_once(caller.request, deps.database, caller.operator, work)
    if response.status_code == 202:
        response.headers["Location"] = json.loads(bytes(response.body))["statusUrl"]
    return response


def admission_to_wire(admitted: AdmissionResult) -> BackendOperationOut:
    operation = admitted.operation
    url = f"/api/backends/job/{operation.id}"
    if admitted.is_duplicate:
        message = f"The same change was already requested. It continues as operation {operation.id}."
    elif operation.after_id:
        message = f"{_KIND_WORDS[operation.kind]} {operation.subject} waits for operation {operation.after_id}."
    else:
        message = f"{_KIND_WORDS[operation.kind]} {operation.subject} is under way."
    return BackendOperationOut(
        id=operation.id,
        job_id=operation.id,
        uuid=operation.id,
        status_url=url,
        status_url_of_localai=url,
        message=message,
        state=operation.state,
        deduplicated=admitted.is_duplicate,
    )


def plan_to_wire(spec: BackendOperationSpec, planned: BackendOperationPlan) -> BackendPlanOut:
    sizes = [target.fetch_bytes for target in planned.targets]
    known = [size for size in sizes if size is not None]
    return BackendPlanOut(
        kind=spec.kind,
        backend=spec.backend,
        nodes=[_planned_node_to_wire(target) for target in planned.targets],
        skipped=[
            SkippedNodeOut(node_id=node.id, node_name=node.name, reason=reason) for node, reason in planned.skipped
        ],
        fetch_bytes=sum(known) if len(known) == len(sizes) else None,
    )


def _planned_node_to_wire(target: PlannedTarget) -> PlannedNodeOut:
    build = target.build
    return PlannedNodeOut(
        node_id=target.node.id,
        node_name=target.node.name,
        node_status=compute_status(target.node),
        backend=target.backend,
        version=build.version if build else "",
        desired=target.desired,
        previous_version=str((target.previous or {}).get("version") or target.installed_version or ""),
        has_it=target.desired is DesiredState.PRESENT
        and target.previous is None
        and target.installed_version is not None,
        source=build.source.kind if build else "",
        uri=(build.source.uri or ", ".join(build.source.requirements)) if build else "",
        wave=target.wave,
        fetch_bytes=target.fetch_bytes if build else 0,
    )


class GalleryCatalog(Protocol):
    """Interface of a catalog of backends or models that is built from galleries, and knows which were never read."""

    def list_unread(self) -> tuple[str, ...]: ...

    async def load(self) -> None: ...


async def wait_for_galleries(deps: ApiDeps) -> None:
    """Return once each gallery has been fetched or has failed, or after `WAIT_S`. Costs nothing afterwards."""
    if deps.catalog.list_unread() or deps.model_gallery.list_unread():
        async with deps.gallery_lock:
            await attempt(lambda: _fetch_unread(deps.catalog, deps.refresher))
            await attempt(lambda: _fetch_unread(deps.model_gallery, deps.model_refresher))


async def _fetch_unread(catalog: GalleryCatalog, refresher: GalleryRefresher) -> None:
    names = catalog.list_unread()
    if names:
        # Another frontend may have fetched them since this one looked.
        await catalog.load()
        names = catalog.list_unread()
    if names:
        async with asyncio.timeout(WAIT_S):
            await refresher.refresh(names)
        await catalog.load()


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
