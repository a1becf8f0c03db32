"""Routes for backends and engines of one node: `/api/nodes/{node}/backends`, `/processes`. `{node}` is an id or a name.

Installed backends are read from the registry, so that an offline node is shown as well. Running engines are read from
the worker itself.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any
from uuid import UUID, uuid5

from fastapi import APIRouter, Request, Response

from corral.api.backends.operation_requests import (
    OperationCallerIn,
    make_external_spec,
    make_forced_spec,
    make_spec,
    plan_or_admit,
    to_strategy,
)
from corral.api.deps import DepsIn, OperatorIn
from corral.bus.messages import StartBackend, StopBackend
from corral.domain.access import Principal
from corral.domain.backend import InstalledBackend
from corral.domain.errors import InvalidRequest, Unprocessable
from corral.domain.operation import OperationKind
from corral.nodes import commands
from corral.operations.backend_plan import BackendOperationSpec
from corral.store import assignments as assignment_store
from corral.store import nodes as node_store
from corral.wire.backends import (
    BackendChangeIn,
    BackendGarbageItemOut,
    BackendGarbageOut,
    BackendOperationOut,
    BackendPlanOut,
    EngineProcessOut,
    ExternalBackendIn,
    NodeBackendChangeIn,
    NodeBackendInstallIn,
    NodeBackendOut,
    StartedEngineOut,
    StartEngineIn,
    StopEnginesIn,
    StoppedEnginesOut,
)

router = APIRouter(prefix="/api/nodes/{node}", tags=["backends"])
_JOBS = UUID("6b8f3a52-3d0e-4c55-9e0c-1f6c1b7a9d10")
_OPERATION_ROUTE: dict[str, Any] = {
    "status_code": 202,
    "response_model": BackendOperationOut,
    "responses": {
        200: {
            "model": BackendOperationOut | BackendPlanOut,
            "description": "A plan, or an operation that was requested before.",
        }
    },
}


# Options that requests for one node share with those for the fleet.
_SHARED_FIELDS = {"version", "ignore_capability", "strategy"}


@router.get("/backends")
async def list_node_backends(deps: DepsIn, _: OperatorIn, node: str) -> list[NodeBackendOut]:
    """List the backends of a node as it last reported them, by name. Nothing is sent over the bus."""
    async with deps.database.transaction() as tx:
        found = await node_store.get_node(tx, node)
        items = (await assignment_store.list_installed(tx, only=[found.id])).get(found.id, ())
    return [node_backend_to_wire(item) for item in items]


def node_backend_to_wire(item: InstalledBackend) -> NodeBackendOut:
    return NodeBackendOut(**asdict(item), gallery_url=item.gallery)


@router.post("/backends/install", **_OPERATION_ROUTE)
async def install_on_node(caller: OperationCallerIn, node: str, body: NodeBackendInstallIn) -> Response:
    """Install a backend on this node, from a gallery or from a `uri`."""
    _check_source(body)
    given = body.model_dump(include=_SHARED_FIELDS)
    if body.uri:
        external_body = ExternalBackendIn(uri=body.uri, name=body.name, alias=body.alias, sha256=body.sha256, **given)
        return await plan_or_admit(caller, make_external_spec(caller.deps, external_body, (node,)), status=202)
    spec = make_spec(OperationKind.BACKEND_INSTALL, body.backend, BackendChangeIn(**given), nodes=(node,))
    return await plan_or_admit(caller, await make_forced_spec(caller.deps, spec) if body.force else spec, status=202)


def _check_source(body: NodeBackendInstallIn) -> None:
    if bool(body.backend) == bool(body.uri):
        raise InvalidRequest("Give either a backend of a gallery or a uri, not both.", hint='{"backend": "llama-cpp"}')
    if body.backend_galleries:
        raise Unprocessable(
            "Galleries are a setting of the frontends; a request cannot add its own.",
            hint="Leave backend_galleries out, or add the gallery to CORRAL_BACKEND_GALLERIES.",
            code="galleries_are_settings",
        )


@router.post("/backends/upgrade", **_OPERATION_ROUTE)
async def upgrade_on_node(caller: OperationCallerIn, node: str, body: NodeBackendChangeIn) -> Response:
    """Upgrade a backend on this node."""
    return await plan_or_admit(caller, _make_spec(node, OperationKind.BACKEND_UPGRADE, body), status=202)


@router.post("/backends/reinstall", **_OPERATION_ROUTE)
async def reinstall_on_node(caller: OperationCallerIn, node: str, body: NodeBackendChangeIn) -> Response:
    """Download a backend of this node again and replace it."""
    return await plan_or_admit(caller, _make_spec(node, OperationKind.BACKEND_REINSTALL, body), status=202)


@router.post("/backends/rollback", **_OPERATION_ROUTE)
async def roll_back_on_node(caller: OperationCallerIn, node: str, body: NodeBackendChangeIn) -> Response:
    """Go back to the previous version of a backend on this node. Nothing is downloaded."""
    return await plan_or_admit(caller, _make_spec(node, OperationKind.BACKEND_ROLLBACK, body), status=202)


@router.post("/backends/delete", **_OPERATION_ROUTE)
async def delete_on_node(caller: OperationCallerIn, node: str, body: NodeBackendChangeIn) -> Response:
    """Remove a backend from this node, as an operation, so that a node that is offline removes it when it is back."""
    return await plan_or_admit(caller, _make_spec(node, OperationKind.BACKEND_DELETE, body), status=202)


def _make_spec(node: str, kind: OperationKind, body: NodeBackendChangeIn) -> BackendOperationSpec:
    return BackendOperationSpec(
        kind=kind,
        backend=body.backend,
        nodes=(node,),
        version=body.version,
        deadline_s=body.strategy.deadline_s,
        strategy=to_strategy(body.strategy),
    )


@router.post("/backends/start", status_code=202)
async def start_engine(
    request: Request, deps: DepsIn, operator: OperatorIn, node: str, body: StartEngineIn
) -> StartedEngineOut:
    """Start an engine on a node. The worker has the job when this responds; `/processes` shows when it is ready. A
    second request with the same `Idempotency-Key` is the same job."""
    command = StartBackend(
        job_id=_make_job_id(request, operator) or deps.ids.new_id(),
        backend=body.backend,
        model=body.model or body.backend,
        replica=body.replica,
        model_path=body.model_path,
        threads=body.threads,
        options=body.options,
    )
    accepted = await commands.start_engine(deps.database, deps.bus, node, command)
    key = f"{command.model}#{command.replica}"
    job = accepted.job
    message = job.error_text or f"{key} is starting."
    return StartedEngineOut(job_id=job.job_id, key=key, state=job.state, message=message)


def _make_job_id(request: Request, operator: Principal) -> str | None:
    """Return a job id that depends on the idempotency key alone: the worker recognises a repeated job by its id."""
    key = request.headers.get("idempotency-key")
    if key is None:
        return None
    return str(uuid5(_JOBS, f"{operator.key_id} {request.url.path} {key}"))


@router.post("/backends/stop")
async def stop_engine(deps: DepsIn, _: OperatorIn, node: str, body: StopEnginesIn) -> StoppedEnginesOut:
    """Stop one process, those of one backend, or all. Responds when they have ended, and names those that have not."""
    if sum((bool(body.backend), bool(body.key), body.all)) != 1:
        raise InvalidRequest("Give exactly one of backend, key and all.", hint='{"key": "tiny#0"}')
    if body.key:
        ended = await commands.stop_process(deps.database, deps.bus, node, body.key, force=body.force)
    else:
        command = StopBackend(backend=body.backend, all=body.all, force=body.force)
        ended = await commands.stop_backend(deps.database, deps.bus, node, command)
    return StoppedEnginesOut(
        stopped=list(ended.stopped),
        survivors=list(ended.survivors),
        message=_describe_stop(len(ended.stopped), len(ended.survivors)),
    )


def _describe_stop(stopped: int, survivors: int) -> str:
    if survivors:
        return f"{stopped} stopped, {survivors} could not be stopped."
    return f"{stopped} stopped." if stopped else "No engines were running."


@router.post("/backends/collect")
async def collect_node_garbage(deps: DepsIn, _: OperatorIn, node: str, *, dry_run: bool = False) -> BackendGarbageOut:
    """Delete files on the node that no backend uses: leftovers, and downloads that were not continued for a week. With
    `dry_run` nothing is deleted. Workers do the same once a day."""
    found = await commands.collect_garbage(deps.database, deps.bus, node, dry_run=dry_run)
    return BackendGarbageOut(
        items=[BackendGarbageItemOut(name=item.name, size_bytes=item.size_bytes) for item in found.items],
        count=found.count,
        freed_bytes=found.freed_bytes,
        dry_run=dry_run,
        message=_describe_garbage(found.count, found.freed_bytes, dry_run=dry_run),
    )


def _describe_garbage(count: int, freed_bytes: int, *, dry_run: bool) -> str:
    if not count:
        return "There are no unused items."
    summary = f"{count} unused {'item' if count == 1 else 'items'}, {freed_bytes} bytes"
    return f"{summary}, would be deleted. Dry run: nothing was changed." if dry_run else f"{summary}, were deleted."


@router.get("/processes")
async def list_processes(deps: DepsIn, _: OperatorIn, node: str) -> list[EngineProcessOut]:
    """List the engine processes of a node, as its worker reports them now."""
    found = await commands.list_running(deps.database, deps.bus, node)
    return [EngineProcessOut(**asdict(process)) for process in sorted(found, key=lambda process: process.key)]
