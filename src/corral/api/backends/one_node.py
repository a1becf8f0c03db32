"""Backends and engines of one node: `/api/nodes/{node}/backends`, `/processes`. `{node}` is an id or a name.

What is installed is read from the registry, so that a node that is away is shown as well. What runs is asked of the
worker itself.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any
from uuid import UUID, uuid5

from fastapi import APIRouter, Request, Response

from corral.api.backends.asking import CallerIn, answer, asked_for, asked_from_outside, forced, strategy_of
from corral.api.parts import OperateIn, PartsIn
from corral.bus.messages import StartBackend, StopBackend
from corral.domain.access import Principal
from corral.domain.backend import InstalledBackend
from corral.domain.errors import InvalidRequest, Unprocessable
from corral.domain.operation import OperationKind
from corral.nodes import processes
from corral.operations.request import Asked
from corral.store import installed as installed_store
from corral.store import nodes as node_store
from corral.wire.backends import (
    AdmittedOut,
    CollectedItemOut,
    CollectedOut,
    ExternalIn,
    NodeBackendIn,
    NodeBackendOut,
    NodeInstallIn,
    PlanOut,
    ProcessOut,
    StartedOut,
    StartIn,
    StopIn,
    StoppedOut,
    WishIn,
)

router = APIRouter(prefix="/api/nodes/{node}", tags=["backends"])
_JOBS = UUID("6b8f3a52-3d0e-4c55-9e0c-1f6c1b7a9d10")
_ASKING: dict[str, Any] = {
    "status_code": 202,
    "response_model": AdmittedOut,
    "responses": {200: {"model": AdmittedOut | PlanOut, "description": "A plan, or what was asked for already."}},
}


# What a wish about one node has in common with one about the fleet.
_SHARED = {"version", "ignore_capability", "strategy"}


@router.get("/backends")
async def list_node_backends(parts: PartsIn, _: OperateIn, node: str) -> list[NodeBackendOut]:
    """What the node last reported to have, by name. Nothing is asked over the bus; an agent node has none."""
    async with parts.database.transaction() as tx:
        found = await node_store.get_node(tx, node)
        items = (await installed_store.list_installed(tx, only=[found.id])).get(found.id, ())
    return [node_backend_out(item) for item in items]


def node_backend_out(item: InstalledBackend) -> NodeBackendOut:
    return NodeBackendOut(**asdict(item), gallery_url=item.gallery)


@router.post("/backends/install", **_ASKING)
async def install_on_node(caller: CallerIn, node: str, body: NodeInstallIn) -> Response:
    """Install on this node, from a gallery or from a `uri`."""
    _check_source(body)
    given = body.model_dump(include=_SHARED)
    if body.uri:
        wish = ExternalIn(uri=body.uri, name=body.name, alias=body.alias, sha256=body.sha256, **given)
        return await answer(caller, asked_from_outside(caller.parts, wish, (node,)), status=202)
    asked = asked_for(OperationKind.BACKEND_INSTALL, body.backend, WishIn(**given), nodes=(node,))
    return await answer(caller, await forced(caller.parts, asked) if body.force else asked, status=202)


def _check_source(body: NodeInstallIn) -> None:
    if bool(body.backend) == bool(body.uri):
        raise InvalidRequest(
            "Either a backend of a gallery or a uri is needed, and not both.", hint='{"backend": "llama-cpp"}'
        )
    if body.backend_galleries:
        raise Unprocessable(
            "Galleries are a setting of the frontends; a request cannot bring its own.",
            hint="Leave backend_galleries out, or add the gallery to CORRAL_BACKEND_GALLERIES.",
            code="galleries_are_settings",
        )


@router.post("/backends/upgrade", **_ASKING)
async def upgrade_on_node(caller: CallerIn, node: str, body: NodeBackendIn) -> Response:
    """Put another version in place of the one that this node has."""
    return await answer(caller, _on(node, OperationKind.BACKEND_UPGRADE, body), status=202)


@router.post("/backends/reinstall", **_ASKING)
async def reinstall_on_node(caller: CallerIn, node: str, body: NodeBackendIn) -> Response:
    """Fetch again what this node has and replace it."""
    return await answer(caller, _on(node, OperationKind.BACKEND_REINSTALL, body), status=202)


@router.post("/backends/rollback", **_ASKING)
async def roll_back_on_node(caller: CallerIn, node: str, body: NodeBackendIn) -> Response:
    """Go back to the version that this node had before. Nothing is fetched."""
    return await answer(caller, _on(node, OperationKind.BACKEND_ROLLBACK, body), status=202)


@router.post("/backends/delete", **_ASKING)
async def delete_on_node(caller: CallerIn, node: str, body: NodeBackendIn) -> Response:
    """Remove it from this node: an operation like the others, so that a node that blinks does not keep it."""
    return await answer(caller, _on(node, OperationKind.BACKEND_DELETE, body), status=202)


def _on(node: str, kind: OperationKind, body: NodeBackendIn) -> Asked:
    return Asked(
        kind=kind,
        backend=body.backend,
        nodes=(node,),
        version=body.version,
        deadline_s=body.strategy.deadline_s,
        strategy=strategy_of(body.strategy),
    )


@router.post("/backends/start", status_code=202)
async def start_engine(request: Request, parts: PartsIn, operator: OperateIn, node: str, body: StartIn) -> StartedOut:
    """Run an engine there. The worker has the job when this answers; `/processes` shows when it is ready. Sent again
    with the same `Idempotency-Key`, it is the same job."""
    wish = StartBackend(
        job_id=_job_id(request, operator) or parts.ids.new_id(),
        backend=body.backend,
        model=body.model or body.backend,
        replica=body.replica,
        model_path=body.model_path,
        threads=body.threads,
        options=body.options,
    )
    accepted = await processes.start(parts.database, parts.bus, node, wish)
    key = f"{wish.model}#{wish.replica}"
    job = accepted.job
    message = job.error_text or f"{key} is starting."
    return StartedOut(job_id=job.job_id, key=key, state=job.state, message=message)


def _job_id(request: Request, operator: Principal) -> str | None:
    """The worker knows a job that it is sent twice by its id; that is all the memory that this needs."""
    key = request.headers.get("idempotency-key")
    if key is None:
        return None
    return str(uuid5(_JOBS, f"{operator.key_id} {request.url.path} {key}"))


@router.post("/backends/stop")
async def stop_engine(parts: PartsIn, _: OperateIn, node: str, body: StopIn) -> StoppedOut:
    """End one process, those of one backend, or all. Answers when they have ended, and names those that have not."""
    if sum((bool(body.backend), bool(body.key), body.all)) != 1:
        raise InvalidRequest("Say exactly one of backend, key and all.", hint='{"key": "tiny#0"}')
    if body.key:
        ended = await processes.stop_process(parts.database, parts.bus, node, body.key, force=body.force)
    else:
        wish = StopBackend(backend=body.backend, all=body.all, force=body.force)
        ended = await processes.stop_backend(parts.database, parts.bus, node, wish)
    return StoppedOut(
        stopped=list(ended.stopped),
        survivors=list(ended.survivors),
        message=_stop_sentence(len(ended.stopped), len(ended.survivors)),
    )


def _stop_sentence(stopped: int, survivors: int) -> str:
    if survivors:
        return f"{stopped} stopped, {survivors} could not be stopped."
    return f"{stopped} stopped." if stopped else "Nothing was running."


@router.post("/backends/collect")
async def collect_on_node(parts: PartsIn, _: OperateIn, node: str, *, dry_run: bool = False) -> CollectedOut:
    """Throw away what takes room on the node and no backend uses: leftovers, and downloads that nobody has continued
    for a week. With `dry_run` nothing is touched. Workers do the same by themselves once a day."""
    found = await processes.collect(parts.database, parts.bus, node, dry_run=dry_run)
    return CollectedOut(
        items=[CollectedItemOut(name=item.name, size_bytes=item.size_bytes) for item in found.items],
        count=found.count,
        freed_bytes=found.freed_bytes,
        dry_run=dry_run,
        message=_collect_sentence(found.count, found.freed_bytes, dry_run=dry_run),
    )


def _collect_sentence(count: int, freed_bytes: int, *, dry_run: bool) -> str:
    if not count:
        return "Nothing is unused."
    what = f"{count} unused {'item' if count == 1 else 'items'}, {freed_bytes} bytes"
    return f"{what}, would go. Nothing was done." if dry_run else f"{what}, are gone."


@router.get("/processes")
async def list_processes(parts: PartsIn, _: OperateIn, node: str) -> list[ProcessOut]:
    """What runs there, asked of the worker itself."""
    found = await processes.running(parts.database, parts.bus, node)
    return [ProcessOut(**asdict(process)) for process in sorted(found, key=lambda process: process.key)]
