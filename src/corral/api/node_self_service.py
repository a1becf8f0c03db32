"""`/api/node`: routes for workers. Each call after the first is checked against the node's own credential."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.routing import Route

from corral.access.directory import NodeEntry
from corral.api.deps import ApiDeps, DepsIn, get_bearer_secret
from corral.api.metrics import FrontendMetrics
from corral.api.views import replica_to_wire
from corral.bus.messages import RunningProcess
from corral.domain.backend import InstalledBackend
from corral.domain.errors import Conflict
from corral.domain.model import PrefetchEntry, PrefetchKind
from corral.domain.node import Hardware, Node, NodeId
from corral.loading.holdings import HoldingsReport
from corral.loading.prefetch import PrefetchHandler
from corral.nodes import lifecycle
from corral.nodes.registration import RegistrationRequest, record_key, register
from corral.operations.backend_reports import make_report
from corral.policy.status import compute_status
from corral.ports.credentials import BusCredential
from corral.store import nodes as node_store
from corral.store import replicas as replica_store
from corral.wire.backends import BackendsReportIn
from corral.wire.holdings import HoldingsIn, PrefetchEntryOut, PrefetchIn, PrefetchOut, RunningProcessIn
from corral.wire.loads import HoldingsResultOut
from corral.wire.nodes import (
    BusCredentialsIn,
    BusCredentialsOut,
    HardwareReport,
    HeartbeatIn,
    HeartbeatOut,
    MessageOut,
    RegisterIn,
    RegisterOut,
    ReplicaOut,
    WorkerBootIn,
)

router = APIRouter(prefix="/api/node", tags=["node self-service"])
# A worker's older process must not act for the newer one; a caller without a boot id is accepted.
WorkerBootBody = Annotated[WorkerBootIn | None, Body()]
_HARDWARE_FIELDS = set(HardwareReport.model_fields)
_HEARTBEAT_FIELDS = _HARDWARE_FIELDS | {"boot_id", "bus_ok"}


async def _authenticate_node(request: Request, deps: ApiDeps, node_id: str, boot_id: str | None = None) -> NodeEntry:
    return await deps.directory.authenticate_node(node_id, get_bearer_secret(request), boot_id=boot_id)


@router.post("/register", status_code=201)
async def register_node(request: Request, deps: DepsIn, body: RegisterIn) -> RegisterOut:
    """Register a node with a join token, or again with its own credential. Repeating the call changes nothing."""
    hardware = body.model_dump(include=_HARDWARE_FIELDS)
    gpus = hardware.pop("gpus")
    registered = await register(
        deps.database,
        deps.ids,
        deps.join_policy,
        RegistrationRequest(
            name=body.name,
            type=body.node_type,
            credential=body.credential,
            boot_id=body.boot_id,
            token=get_bearer_secret(request) or body.token,
            bus_public_key=body.bus_public_key,
            version=body.version,
            address=body.address,
            http_address=body.http_address,
            seen_address=request.client.host if request.client else "",
            labels=body.labels,
            slots=body.max_replicas_per_model,
            max_runs=body.max_runs,
            run_kinds=body.run_kinds,
            budget=body.vram_budget,
            hardware=Hardware(**hardware, gpus=None if gpus is None else tuple(gpus)),
            running=[(one.model, one.replica, one.address, one.revision) for one in body.running]
            if body.is_running_known
            else None,
        ),
    )
    node = registered.node
    answer = RegisterOut(
        id=node.id,
        name=node.name,
        node_type=node.type,
        status=compute_status(node),
        approved=node.approved_at is not None,
        created_at=node.created_at,
        max_replicas_per_model=node.slots,
        heartbeat_interval_s=deps.worker_options.heartbeat_interval_s,
        api_token=registered.api_token,
    )
    credential = await _issue_credential(deps, node, body.bus_public_key)
    if credential is not None:
        answer.nats_url = _make_nats_url(request, deps)
        answer.nats_jwt = credential.token
        answer.nats_jwt_expires_in_s = credential.expires_in_s
        answer.ticket_key = deps.credentials.get_ticket_key()
    return answer


async def _issue_credential(deps: ApiDeps, node: Node, public_key: str | None) -> BusCredential | None:
    """Return a credential for the key in a registration. A pending node gets none, nor does a node that sends the key
    of another: its separate request for a credential is refused with the reason."""
    if node.approved_at is None or not public_key:
        return None
    credential = deps.credentials.mint(node, public_key)
    try:
        async with deps.database.transaction() as tx:
            locked = await node_store.lock_node(tx, node.id)
            await record_key(tx, locked, public_key, credential.expires_in_s)
    except Conflict:
        return None
    return credential


def _make_nats_url(request: Request, deps: ApiDeps) -> str:
    return deps.worker_options.nats_url.replace("{host}", request.url.hostname or "127.0.0.1")


@router.post("/{node_id}/heartbeat")
async def record_heartbeat(
    request: Request, deps: DepsIn, node_id: str, body: Annotated[HeartbeatIn | None, Body()] = None
) -> HeartbeatOut:
    """Renew the node's lease. The response comes from memory; the write is batched with those of other nodes."""
    return await _record_heartbeat(request, deps, node_id, body or HeartbeatIn())


async def record_heartbeat_fast(request: Request) -> Response:
    """Handle a heartbeat without FastAPI's overhead, which is two thirds of a heartbeat's cost.

    Registered before the route above, which describes the call in the API reference and raises the same errors.
    """
    sent = await request.body()
    try:
        beat = HeartbeatIn.model_validate_json(sent) if sent and sent != b"null" else HeartbeatIn()
    except ValidationError as error:
        raise RequestValidationError(error.errors(include_url=False, include_context=False)) from error
    answer = await _record_heartbeat(request, request.app.state.deps, request.path_params["node_id"], beat)
    return Response(answer.model_dump_json(), media_type="application/json")


FAST_ROUTES = [Route("/api/node/{node_id}/heartbeat", record_heartbeat_fast, methods=["POST"])]


async def _record_heartbeat(request: Request, deps: ApiDeps, node_id: str, beat: HeartbeatIn) -> HeartbeatOut:
    node = await _authenticate_node(request, deps, node_id, beat.boot_id)
    metrics: FrontendMetrics = request.app.state.metrics
    metrics.heartbeats.inc()
    deps.heartbeats.record(node.id, beat.model_dump(include=_HEARTBEAT_FIELDS, exclude_none=True))
    return HeartbeatOut(
        approved=node.is_approved,
        draining=node.is_draining,
        heartbeat_interval_s=deps.worker_options.heartbeat_interval_s,
    )


@router.post("/{node_id}/credentials")
async def refresh_credentials(
    request: Request, deps: DepsIn, node_id: str, body: BusCredentialsIn
) -> BusCredentialsOut:
    """Issue a new bus credential. Nothing else about the node changes."""
    entry = await _authenticate_node(request, deps, node_id)
    async with deps.database.transaction() as tx:
        node = await node_store.lock_node(tx, entry.id)
        if node.approved_at is None:
            raise Conflict("A pending node gets no bus credential.", hint="Wait for approval.", code="node_pending")
        # Done first, so that an invalid key is refused before anything is written.
        credential = deps.credentials.mint(node, body.bus_public_key)
        await record_key(tx, node, body.bus_public_key, credential.expires_in_s)
        if node.bus_public_key != body.bus_public_key:
            await node_store.update_node(tx, node.id, {"bus_public_key": body.bus_public_key})
    return BusCredentialsOut(
        nats_url=_make_nats_url(request, deps),
        nats_jwt=credential.token,
        nats_jwt_expires_in_s=credential.expires_in_s,
        ticket_key=deps.credentials.get_ticket_key(),
    )


@router.post("/{node_id}/backends")
async def report_backends(request: Request, deps: DepsIn, node_id: str, body: BackendsReportIn) -> MessageOut:
    """Report all installed backends of a node: a backend that is not listed is not installed. Pending changes that the
    report shows as made are completed."""
    node = await _authenticate_node(request, deps, node_id)
    installed = [InstalledBackend(**item.model_dump()) for item in body.backends]
    result = await deps.backend_reports.submit_report(make_report(node.id, body.boot_id, installed, body.removed))
    return MessageOut(message=f"{len(result.changed)} changed")


@router.post("/{node_id}/drain")
async def drain_self(request: Request, deps: DepsIn, node_id: str, body: WorkerBootBody = None) -> MessageOut:
    """Drain the calling node at the request of its worker, for instance while it shuts down."""
    node = await _authenticate_node(request, deps, node_id)
    await lifecycle.drain_self(deps.database, node.id, body.boot_id if body else None)
    return MessageOut(message="no new work")


@router.post("/{node_id}/resume")
async def resume_self(request: Request, deps: DepsIn, node_id: str, body: WorkerBootBody = None) -> MessageOut:
    """End the drain that the worker started. An admin's drain and the approval stay as they are."""
    node = await _authenticate_node(request, deps, node_id)
    await lifecycle.resume_self(deps.database, node.id, body.boot_id if body else None)
    return MessageOut(message="ready for work")


async def _deregister(request: Request, deps: DepsIn, node_id: str, body: WorkerBootBody = None) -> MessageOut:
    """Record that the worker stops. The node stays registered, approved or pending as it was."""
    node = await _authenticate_node(request, deps, node_id)
    await lifecycle.leave(deps.database, node.id, body.boot_id if body else None)
    return MessageOut(message="offline")


router.post("/{node_id}/deregister", name="deregister")(_deregister)
router.delete("/{node_id}", name="deregister_by_delete")(_deregister)


@router.get("/{node_id}/models")
async def list_own_models(request: Request, deps: DepsIn, node_id: str) -> list[ReplicaOut]:
    """List the replicas that are registered for this node."""
    node = await _authenticate_node(request, deps, node_id)
    async with deps.database.transaction() as tx:
        return [replica_to_wire(replica) for replica in await replica_store.list_replicas(tx, node.id)]


@router.post("/{node_id}/holdings")
async def report_holdings(request: Request, deps: DepsIn, node_id: str, body: HoldingsIn) -> HoldingsResultOut:
    """Report all processes and model files of a node. A process that is not registered is adopted if this cluster
    started it (`ticket`), it runs at the node's own address, and its model and rule still call for it; otherwise the
    worker has to stop it. A registered replica whose process is missing in two reports is removed."""
    node = await deps.directory.authenticate_node(node_id, get_bearer_secret(request), boot_id=body.boot_id)
    result = await deps.model_operations.apply_holdings(
        HoldingsReport(
            node_id=NodeId(node.id),
            boot_id=body.boot_id,
            processes=tuple(_make_process(item) for item in body.processes if _is_storable(item)),
            models={item.name: item.revision for item in body.models if item.name.isprintable()},
            files={item.sha256: (item.size_bytes, item.is_whole) for item in body.blobs},
            is_all=body.are_files_complete,
        )
    )
    return HoldingsResultOut(adopted=list(result.adopted), stopping=list(result.stopped), removed=list(result.removed))


@router.post("/{node_id}/prefetch")
async def request_prefetch(request: Request, deps: DepsIn, node_id: str, body: PrefetchIn) -> PrefetchOut:
    """Install backends of the catalog and fetch files of the cluster's models on the calling node. Items that the node
    has already are skipped; the others become ordinary operations. The node must be approved and not drained."""
    node = await deps.directory.authenticate_node(node_id, get_bearer_secret(request), boot_id=body.boot_id)
    handler = PrefetchHandler(deps.database, deps.catalog, deps.admission, deps.model_operations.admission)
    entries = [PrefetchEntry(kind=PrefetchKind.BACKEND, name=name) for name in body.backends]
    entries += [PrefetchEntry(kind=PrefetchKind.MODEL, name=name) for name in body.models]
    results = await handler.request_entries(NodeId(node.id), entries)
    return PrefetchOut(
        entries=[
            PrefetchEntryOut(
                kind=result.entry.kind,
                name=result.entry.name,
                state=result.state,
                message=result.message,
                operation_id=result.operation_id,
            )
            for result in results
        ]
    )


def _is_storable(item: RunningProcessIn) -> bool:
    """Return whether the database can hold the values. If not, the process was not started by this cluster."""
    texts = (item.model, item.backend, item.version, item.address, item.revision, item.engine_key)
    is_short = len(item.model) <= 255 and len(item.backend) <= 255 and len(item.version) <= 128
    return (
        is_short and len(item.address) <= 255 and len(item.revision) <= 64 and all(text.isprintable() for text in texts)
    )


def _make_process(item: RunningProcessIn) -> RunningProcess:
    return RunningProcess(
        key=item.key,
        model=item.model,
        replica=min(item.replica, 2**31 - 1),
        backend=item.backend,
        version=item.version,
        address=item.address,
        pid=item.pid,
        state=item.state,
        restarts=item.restarts,
        revision=item.revision,
        operation_id=item.operation_id,
        threads=min(item.threads, 2**15),
        vram_bytes=item.vram_bytes,
        ram_bytes=item.ram_bytes,
        engine_key=item.engine_key,
        ticket=item.ticket,
    )
