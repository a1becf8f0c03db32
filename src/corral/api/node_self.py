"""`/api/node`: what workers call. Each call after the first is checked against the node's own credential."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.routing import Route

from corral.access.entries import NodeEntry
from corral.api.metrics import Metrics
from corral.api.parts import Parts, PartsIn, bearer
from corral.api.views import replica_out
from corral.domain.backend import InstalledBackend
from corral.domain.errors import Conflict
from corral.domain.node import Hardware, Node
from corral.nodes import lifecycle
from corral.nodes.bus_keys import record_key
from corral.nodes.registration import Registration, register
from corral.operations.reports import report_of
from corral.policy.status import status_of
from corral.ports.credentials import BusCredential
from corral.store import nodes as node_store
from corral.store import replicas as replica_store
from corral.wire.backends import BackendsReportIn
from corral.wire.nodes import (
    BootIn,
    CredentialsIn,
    CredentialsOut,
    HardwareReport,
    HeartbeatIn,
    HeartbeatOut,
    MessageOut,
    RegisterIn,
    RegisterOut,
    ReplicaOut,
)

router = APIRouter(prefix="/api/node", tags=["node self-service"])
# An older process must not speak for the newer one; a caller that does not say which it is, is believed.
SpeakerIn = Annotated[BootIn | None, Body()]
_HARDWARE = set(HardwareReport.model_fields)
_BEAT = _HARDWARE | {"boot_id", "bus_ok"}


async def _caller(request: Request, parts: Parts, node_id: str, boot_id: str | None = None) -> NodeEntry:
    return await parts.directory.node(node_id, bearer(request), boot_id=boot_id)


@router.post("/register", status_code=201)
async def register_node(request: Request, parts: PartsIn, body: RegisterIn) -> RegisterOut:
    """Join with a token, or come back with the node's own credential. Sending it again changes nothing."""
    hardware = body.model_dump(include=_HARDWARE)
    gpus = hardware.pop("gpus")
    registered = await register(
        parts.database,
        parts.ids,
        parts.join_policy,
        Registration(
            name=body.name,
            type=body.node_type,
            credential=body.credential,
            boot_id=body.boot_id,
            token=bearer(request) or body.token,
            bus_public_key=body.bus_public_key,
            version=body.version,
            address=body.address,
            http_address=body.http_address,
            seen_address=request.client.host if request.client else "",
            labels=body.labels,
            slots=body.max_replicas_per_model,
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
        status=status_of(node),
        approved=node.approved_at is not None,
        created_at=node.created_at,
        max_replicas_per_model=node.slots,
        heartbeat_interval_s=parts.told.heartbeat_interval_s,
        api_token=registered.api_token,
    )
    credential = await _granted(parts, node, body.bus_public_key)
    if credential is not None:
        answer.nats_url = _nats_url(request, parts)
        answer.nats_jwt = credential.token
        answer.nats_jwt_expires_in_s = credential.expires_in_s
        answer.ticket_key = parts.credentials.ticket_key()
    return answer


async def _granted(parts: Parts, node: Node, public_key: str | None) -> BusCredential | None:
    """Return a token for the key that came with a registration. A pending node gets none, nor does one that shows
    another's key: it asks for a credential by itself and is told why."""
    if node.approved_at is None or not public_key:
        return None
    credential = parts.credentials.mint(node, public_key)
    try:
        async with parts.database.transaction() as tx:
            locked = await node_store.lock_node(tx, node.id)
            await record_key(tx, locked, public_key, credential.expires_in_s)
    except Conflict:
        return None
    return credential


def _nats_url(request: Request, parts: Parts) -> str:
    return parts.told.nats_url.replace("{host}", request.url.hostname or "127.0.0.1")


@router.post("/{node_id}/heartbeat")
async def heartbeat(
    request: Request, parts: PartsIn, node_id: str, body: Annotated[HeartbeatIn | None, Body()] = None
) -> HeartbeatOut:
    """Renews the node's lease. The answer comes from memory; the write happens with those of the other nodes."""
    return await _beat(request, parts, node_id, body or HeartbeatIn())


async def swift_heartbeat(request: Request) -> Response:
    """The same call without the framework's work around it, which is two thirds of what a heartbeat costs.

    It is put before the route above, which describes it and whose errors it shares.
    """
    sent = await request.body()
    try:
        beat = HeartbeatIn.model_validate_json(sent) if sent and sent != b"null" else HeartbeatIn()
    except ValidationError as error:
        raise RequestValidationError(error.errors(include_url=False, include_context=False)) from error
    answer = await _beat(request, request.app.state.parts, request.path_params["node_id"], beat)
    return Response(answer.model_dump_json(), media_type="application/json")


SWIFT_ROUTES = [Route("/api/node/{node_id}/heartbeat", swift_heartbeat, methods=["POST"])]


async def _beat(request: Request, parts: Parts, node_id: str, beat: HeartbeatIn) -> HeartbeatOut:
    node = await _caller(request, parts, node_id, beat.boot_id)
    metrics: Metrics = request.app.state.metrics
    metrics.heartbeats.inc()
    parts.heartbeats.record(node.id, beat.model_dump(include=_BEAT, exclude_none=True))
    return HeartbeatOut(
        approved=node.is_approved,
        draining=node.is_draining,
        heartbeat_interval_s=parts.told.heartbeat_interval_s,
    )


@router.post("/{node_id}/credentials")
async def refresh_credentials(request: Request, parts: PartsIn, node_id: str, body: CredentialsIn) -> CredentialsOut:
    """A fresh bus credential. It changes nothing else about the node."""
    entry = await _caller(request, parts, node_id)
    async with parts.database.transaction() as tx:
        node = await node_store.lock_node(tx, entry.id)
        if node.approved_at is None:
            raise Conflict("A pending node gets no bus credential.", hint="Wait for approval.", code="node_pending")
        # First, so that what is no key is refused before it is written down.
        credential = parts.credentials.mint(node, body.bus_public_key)
        await record_key(tx, node, body.bus_public_key, credential.expires_in_s)
        if node.bus_public_key != body.bus_public_key:
            await node_store.update_node(tx, node.id, {"bus_public_key": body.bus_public_key})
    return CredentialsOut(
        nats_url=_nats_url(request, parts),
        nats_jwt=credential.token,
        nats_jwt_expires_in_s=credential.expires_in_s,
        ticket_key=parts.credentials.ticket_key(),
    )


@router.post("/{node_id}/backends")
async def report_backends(request: Request, parts: PartsIn, node_id: str, body: BackendsReportIn) -> MessageOut:
    """Everything that the worker has installed: what is not in it is not there. What the node owed and now has is
    settled by it."""
    node = await _caller(request, parts, node_id)
    installed = [InstalledBackend(**item.model_dump()) for item in body.backends]
    taken = await parts.reports.take(report_of(node.id, body.boot_id, installed, body.removed))
    return MessageOut(message=f"{len(taken.changed)} changed")


@router.post("/{node_id}/drain")
async def drain_self(request: Request, parts: PartsIn, node_id: str, body: SpeakerIn = None) -> MessageOut:
    """The worker asks for no new work, for instance while it shuts down."""
    node = await _caller(request, parts, node_id)
    await lifecycle.self_drain(parts.database, node.id, body.boot_id if body else None)
    return MessageOut(message="no new work")


@router.post("/{node_id}/resume")
async def resume_self(request: Request, parts: PartsIn, node_id: str, body: SpeakerIn = None) -> MessageOut:
    """Takes back the worker's own drain; an admin's drain and approval are not touched."""
    node = await _caller(request, parts, node_id)
    await lifecycle.self_resume(parts.database, node.id, body.boot_id if body else None)
    return MessageOut(message="ready for work")


async def _leave(request: Request, parts: PartsIn, node_id: str, body: SpeakerIn = None) -> MessageOut:
    """The worker stops. The node stays registered, approved or pending as it was."""
    node = await _caller(request, parts, node_id)
    await lifecycle.leave(parts.database, node.id, body.boot_id if body else None)
    return MessageOut(message="offline")


router.post("/{node_id}/deregister", name="deregister")(_leave)
router.delete("/{node_id}", name="deregister_by_delete")(_leave)


@router.get("/{node_id}/models")
async def own_models(request: Request, parts: PartsIn, node_id: str) -> list[ReplicaOut]:
    """The replicas that the registry has for this node."""
    node = await _caller(request, parts, node_id)
    async with parts.database.transaction() as tx:
        return [replica_out(replica) for replica in await replica_store.list_replicas(tx, node.id)]
