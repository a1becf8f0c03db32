"""Loading and unloading models, where one would go, and how far a load is."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from fastapi.responses import Response

from corral.access.allowed import may_ask
from corral.api.backends.asking import Caller, CallerIn
from corral.api.backends.first_fetch import wait_for_galleries
from corral.api.idempotency import once_as
from corral.api.openai.asked import shown_to
from corral.api.operations.views import as_json
from corral.api.parts import AnybodyIn, OperateIn, Parts, PartsIn
from corral.domain.access import Principal
from corral.domain.errors import NotFound, Unavailable, Unprocessable
from corral.domain.model import Model
from corral.domain.operation import ACTIVE, OPEN, Operation, OperationKind, OperationState
from corral.loading.admission import scope_of
from corral.loading.request import Wanted
from corral.loading.service import Planned
from corral.operations.admission import Admitted
from corral.policy.loading import eta_s
from corral.policy.placing.placement import Choice
from corral.policy.placing.scoring import Terms
from corral.serving.waiting import loading_object
from corral.store import models as model_store
from corral.store import nodes as node_store
from corral.store import operations as operation_store
from corral.store import replicas as replica_store
from corral.store.database import Transaction
from corral.wire.loads import (
    FittingOut,
    LoadIn,
    LoadPlanOut,
    LoadStatusOut,
    ModelNameIn,
    NodeModelIn,
    NotThereOut,
    PlacedOut,
    PlanIn,
    UnloadIn,
    VictimOut,
)
from corral.wire.models import AskedModelOut

router = APIRouter(tags=["models"])
NameIn = Annotated[str, Path(min_length=1, max_length=255)]
NodeIn = Annotated[str, Path(min_length=1, max_length=255, description="Name or id of a node.")]
# How often a blocking call looks, and for how long it looks at most.
LOOK_S = 0.25
LOOKS_MAX_S = 3600.0
SHOWN_MAX = 100
_DOING = {OperationKind.MODEL_LOAD: "{} is being loaded.", OperationKind.MODEL_UNLOAD: "{} is being unloaded."}


@router.post("/api/models/{name:path}/load", response_model=AskedModelOut | LoadPlanOut, status_code=202)
async def load_model(caller: CallerIn, name: NameIn, body: LoadIn | None = None) -> Response:
    """Have one replica more, or several: engine, files and process, on the nodes where that is soonest done. A load of
    the model that is under way already is joined."""
    wanted = _wanted(OperationKind.MODEL_LOAD, name, body or LoadIn())
    if caller.plans:
        return _json(await _plan(caller.parts, wanted), 200)
    return await _ask(caller, wanted)


@router.post("/api/models/{name:path}/unload", response_model=AskedModelOut, status_code=202)
async def unload_model(caller: CallerIn, name: NameIn, body: UnloadIn | None = None) -> Response:
    """End its replicas. What they are answering is finished within the grace, unless it is forced. With `delete_files`
    the nodes also remove their copies of its files; the model stays."""
    return await _unload(caller, name, body or UnloadIn())


@router.post("/api/nodes/{node}/models/unload", response_model=AskedModelOut, status_code=202)
async def unload_on_node(caller: CallerIn, node: NodeIn, body: NodeModelIn) -> Response:
    """End the replicas of a model on one node. Those of other nodes stay."""
    return await _unload_there(caller, node, body, delete_files=False)


@router.post("/api/nodes/{node}/models/delete", response_model=AskedModelOut, status_code=202)
async def delete_on_node(caller: CallerIn, node: NodeIn, body: NodeModelIn) -> Response:
    """Remove one node's copy of a model's files, after its replicas there have ended: an operation, so that a node that
    is away does it when it is back. The model and the copies of other nodes stay; a rule may load it there again."""
    return await _unload_there(caller, node, body, delete_files=True)


async def _unload_there(caller: Caller, node: str, body: NodeModelIn, *, delete_files: bool) -> Response:
    async with caller.parts.database.transaction() as tx:
        # The address names the node, so a node that does not exist is told before the model in the body is.
        found = await node_store.get_node(tx, node)
    return await _unload(
        caller, body.model_name, UnloadIn(nodes=[found.id], force=body.force, delete_files=delete_files)
    )


async def _unload(caller: Caller, name: str, body: UnloadIn) -> Response:
    wanted = Wanted(
        kind=OperationKind.MODEL_UNLOAD,
        model=name,
        nodes=None if body.nodes is None else tuple(body.nodes),
        is_forced=body.force,
        removes_files=body.delete_files,
        reason="an admin",
    )
    return await _ask(caller, wanted)


@router.get(
    "/api/models/{name:path}/load-status",
    response_model=LoadStatusOut,
    response_model_exclude_none=True,
    responses={204: {"description": "No load is under way, and `quiet` was said."}},
)
async def load_status(
    parts: PartsIn,
    principal: AnybodyIn,
    name: NameIn,
    *,
    quiet: Annotated[bool, Query(description="No load under way is no error: 204 instead of 404.")] = False,
) -> LoadStatusOut | Response:
    """How far the load of a model is; 404 if none is under way."""
    async with parts.database.transaction() as tx:
        model = await _get_allowed(tx, parts, principal, name)
        chain = await operation_store.list_active(tx, scope_of(model.name))
        loads = [one for one in chain if one.kind is OperationKind.MODEL_LOAD]
        operation = await operation_store.get(tx, loads[0].id) if loads else None
    if operation is None and quiet:
        return Response(status_code=204)
    if operation is None:
        raise NotFound(f"No load of {model.name} is under way.", code="no_load")
    loading = loading_object(model.name, operation, _left_s(parts, operation), model.paths)
    return LoadStatusOut(**loading, message=operation.message)


async def _get_allowed(tx: Transaction, parts: Parts, principal: Principal, name: str) -> Model:
    """Return the model of this name; one that the key may not ask is answered as one that does not exist."""
    if principal.models is None:
        return await model_store.get_model(tx, name)
    model = await model_store.find_model(tx, name)
    if model is None or not may_ask(principal, model.name, model.config.aliases):
        raise parts.gateway.router.not_found(name, shown_to(principal))
    return model


@router.post("/api/plan")
async def plan_load(parts: PartsIn, _: OperateIn, body: PlanIn) -> LoadPlanOut:
    """Where a model would go now, by what that was decided, and for every other node why not."""
    await wait_for_galleries(parts)
    return await _plan(parts, _wanted(OperationKind.MODEL_LOAD, body.model, body))


@router.post("/backend/load")
async def load_and_wait(parts: PartsIn, operator: OperateIn, body: ModelNameIn) -> AskedModelOut:
    """Load a model, and answer when it is loaded. One that is loaded already is enough."""
    wanted = Wanted(kind=OperationKind.MODEL_LOAD, model=body.model, if_cold=True, reason="an admin")
    admitted = await parts.loading.loads.admit(wanted, operator.name, queue_behind=True)
    ended = await _ended(parts, admitted.operation)
    if ended.state in OPEN:
        raise Unavailable(f"{ended.subject} is still being loaded.", code="model_loading")
    if ended.state is not OperationState.COMPLETED:
        fault = ended.fault
        raise Unprocessable(fault.text if fault else ended.message, code=fault.code if fault else "load_failed")
    return asked_out(Admitted(operation=ended, is_duplicate=admitted.is_duplicate), f"{ended.subject} is loaded.")


@router.post("/backend/shutdown")
async def shut_down(parts: PartsIn, operator: OperateIn, body: ModelNameIn) -> AskedModelOut:
    """Unload a model from everywhere; 404 if it is loaded nowhere."""
    async with parts.database.transaction() as tx:
        model = await model_store.get_model(tx, body.model)
        if not await replica_store.list_replicas(tx, model=model.name):
            raise NotFound(f"{model.name} is loaded nowhere.", code="model_not_loaded")
    wanted = Wanted(kind=OperationKind.MODEL_UNLOAD, model=model.name, reason="an admin")
    return asked_out(await parts.loading.loads.admit(wanted, operator.name))


def _wanted(kind: OperationKind, name: str, body: LoadIn) -> Wanted:
    nodes = None if body.nodes is None else tuple(body.nodes)
    return Wanted(kind=kind, model=name, count=body.count, nodes=nodes, reason="an admin")


async def _ask(caller: Caller, wanted: Wanted) -> Response:
    loads = caller.parts.loading.loads

    async def work(tx: Transaction) -> tuple[int, bytes]:
        admitted = await loads.admit_in(tx, wanted, caller.operator.name, queue_behind=caller.waits)
        return 200 if admitted.is_duplicate else 202, as_json(asked_out(admitted))

    return await once_as(caller.request, caller.parts.database, caller.operator, work)


def asked_out(admitted: Admitted, message: str = "") -> AskedModelOut:
    operation = admitted.operation
    url = f"/api/models/job/{operation.id}"
    if not message:
        message = _DOING.get(operation.kind, "{} is being worked on.").format(operation.subject)
        if admitted.is_duplicate:
            message = f"The {operation.kind.replace('_', ' ')} of {operation.subject} is under way already."
    return AskedModelOut(
        id=operation.id,
        job_id=operation.id,
        uuid=operation.id,
        status_url=url,
        status=url,
        name=operation.subject,
        message=message,
        state=operation.state,
        deduplicated=admitted.is_duplicate,
    )


async def _ended(parts: Parts, operation: Operation) -> Operation:
    """The operation at its end, or where it is after an hour."""
    until = parts.clock.monotonic() + LOOKS_MAX_S
    while operation.state in ACTIVE and parts.clock.monotonic() < until:
        await parts.clock.sleep(LOOK_S)
        try:
            async with parts.database.transaction() as tx:
                operation = await operation_store.get(tx, operation.id)
        except Unavailable:
            continue  # It is asked again; the load goes on.
    return operation


def _left_s(parts: Parts, operation: Operation) -> float | None:
    progress, began = operation.progress, operation.started_at
    if began is None:
        return None
    return eta_s(progress.current_bytes, progress.total_bytes, (parts.clock.wall() - began).total_seconds())


async def _plan(parts: Parts, wanted: Wanted) -> LoadPlanOut:
    return plan_out(await parts.loading.plan(wanted))


def plan_out(planned: Planned) -> LoadPlanOut:
    decided, model = planned.decided, planned.model
    fault = decided.fault
    message = fault.text if fault else decided.waits
    if not message:
        message = f"{model.name} would go to {', '.join(choice.node for choice in decided.choices)}."
        if decided.eviction is not None:
            message = decided.eviction.sentence
    return LoadPlanOut(
        model=model.name,
        fits=bool(decided.choices),
        message=message,
        code=fault.code if fault else "",
        fetches_files=planned.needs_fetch,
        choices=[_placed(choice, planned) for choice in decided.choices],
        evicts=[VictimOut(model=one.model, node_id=one.node_id, index=one.index) for one in decided.victims],
        others=[
            FittingOut(
                node_id=one.node_id,
                node_name=one.node,
                cost_s=round(one.terms.total_s, 1),
                cost=_cost(one.terms),
            )
            for one in decided.placement.scored[:SHOWN_MAX]
        ],
        refused=[
            NotThereOut(node_id=one.node_id, node_name=one.node, reason=one.filter, sentence=one.sentence)
            for one in decided.placement.refusals[:SHOWN_MAX]
        ],
        warnings=list(decided.placement.warnings),
    )


def _placed(choice: Choice, planned: Planned) -> PlacedOut:
    engine = planned.engines[choice.node_id]
    return PlacedOut(
        node_id=choice.node_id,
        node_name=choice.node,
        index=choice.index,
        threads=choice.threads,
        vram_bytes=choice.need.vram_bytes,
        ram_bytes=choice.need.ram_bytes,
        fetch_bytes=choice.missing_bytes,
        backend=engine.name,
        version=engine.version,
        installs_backend=engine.build is not None,
        ready_s=round(choice.terms.ready_s + choice.terms.evict_s, 1),
        cost=_cost(choice.terms),
    )


def _cost(terms: Terms) -> dict[str, float]:
    return {name: round(seconds, 2) for name, seconds in terms._asdict().items()}


def _json(value: Any, status: int) -> Response:
    return Response(as_json(value), status_code=status, media_type="application/json")
