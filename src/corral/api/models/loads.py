"""Routes that load, unload and place models, and show the progress of a load."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from fastapi.responses import Response

from corral.api.backends.operation_requests import OperationCaller, OperationCallerIn, wait_for_galleries
from corral.api.deps import AnyCallerIn, ApiDeps, DepsIn, OperatorIn
from corral.api.idempotency import run_once
from corral.api.operations import to_json
from corral.domain.access import Principal, can_use_model
from corral.domain.errors import NotFound, Unavailable, Unprocessable
from corral.domain.model import Model
from corral.domain.operation import ACTIVE, OPEN, Operation, OperationKind, OperationState
from corral.gateway.request.request_builder import make_model_filter
from corral.gateway.routing.load_waiter import render_loading
from corral.loading.admission import ModelOperationSpec, make_model_scope_key
from corral.loading.service import LoadPlan
from corral.operations.admission import AdmissionResult
from corral.policy.loads import estimate_eta_s
from corral.policy.placing.placement import CostTerms, PlacementChoice
from corral.store import models as model_store
from corral.store import nodes as node_store
from corral.store import operations as operation_store
from corral.store import replicas as replica_store
from corral.store.database import Transaction
from corral.wire.loads import (
    EvictionVictimOut,
    FittingNodeOut,
    LoadIn,
    LoadPlanIn,
    LoadPlanOut,
    LoadStatusOut,
    ModelNameIn,
    NodeModelIn,
    PlacementOut,
    RefusedNodeOut,
    UnloadIn,
)
from corral.wire.models import ModelOperationOut

router = APIRouter(tags=["models"])
NameIn = Annotated[str, Path(min_length=1, max_length=255)]
NodeIn = Annotated[str, Path(min_length=1, max_length=255, description="Name or id of a node.")]
# Polling interval of a blocking call, and its maximum duration.
POLL_S = 0.25
WAIT_MAX_S = 3600.0
REFUSALS_MAX = 100
_KIND_SENTENCES = {OperationKind.MODEL_LOAD: "{} is being loaded.", OperationKind.MODEL_UNLOAD: "{} is being unloaded."}


@router.post("/api/models/{name:path}/load", response_model=ModelOperationOut | LoadPlanOut, status_code=202)
async def load_model(caller: OperationCallerIn, name: NameIn, body: LoadIn | None = None) -> Response:
    """Load one or more additional replicas of a model on the nodes where they are ready soonest. A load of the model
    that is already running is joined."""
    spec = _make_spec(OperationKind.MODEL_LOAD, name, body or LoadIn())
    if caller.is_plan_only:
        return _make_json_response(await _plan_load(caller.deps, spec), 200)
    return await _admit_operation(caller, spec)


@router.post("/api/models/{name:path}/unload", response_model=ModelOperationOut, status_code=202)
async def unload_model(caller: OperationCallerIn, name: NameIn, body: UnloadIn | None = None) -> Response:
    """Unload replicas of a model. Requests in flight may finish within the grace period, unless `force` is set. With
    `delete_files` the nodes also delete their copies of its files; the model stays."""
    return await _unload_model(caller, name, body or UnloadIn())


@router.post("/api/nodes/{node}/models/unload", response_model=ModelOperationOut, status_code=202)
async def unload_model_on_node(caller: OperationCallerIn, node: NodeIn, body: NodeModelIn) -> Response:
    """Unload the replicas of a model on one node. Those on other nodes stay."""
    return await _unload_on_node(caller, node, body, delete_files=False)


@router.post("/api/nodes/{node}/models/delete", response_model=ModelOperationOut, status_code=202)
async def delete_model_on_node(caller: OperationCallerIn, node: NodeIn, body: NodeModelIn) -> Response:
    """Remove one node's copy of a model's files, after its replicas there have ended: an operation, so that a node that
    is away does it when it is back. The model and the copies of other nodes stay; a rule may load it there again."""
    return await _unload_on_node(caller, node, body, delete_files=True)


async def _unload_on_node(caller: OperationCaller, node: str, body: NodeModelIn, *, delete_files: bool) -> Response:
    async with caller.deps.database.transaction() as tx:
        # The node is part of the path, so an unknown node is reported before an unknown model in the body.
        found = await node_store.get_node(tx, node)
    return await _unload_model(
        caller, body.model_name, UnloadIn(nodes=[found.id], force=body.force, delete_files=delete_files)
    )


async def _unload_model(caller: OperationCaller, name: str, body: UnloadIn) -> Response:
    spec = ModelOperationSpec(
        kind=OperationKind.MODEL_UNLOAD,
        model=name,
        nodes=None if body.nodes is None else tuple(body.nodes),
        is_forced=body.force,
        removes_files=body.delete_files,
        reason="an admin",
    )
    return await _admit_operation(caller, spec)


@router.get(
    "/api/models/{name:path}/load-status",
    response_model=LoadStatusOut,
    response_model_exclude_none=True,
    responses={204: {"description": "No load is running, and `quiet` is set."}},
)
async def show_load_status(
    deps: DepsIn,
    principal: AnyCallerIn,
    name: NameIn,
    *,
    quiet: Annotated[bool, Query(description="Respond with 204 instead of 404 if no load is running.")] = False,
) -> LoadStatusOut | Response:
    """Show the progress of the load of a model; 404 if none is running."""
    async with deps.database.transaction() as tx:
        model = await _get_allowed_model(tx, deps, principal, name)
        chain = await operation_store.list_active(tx, make_model_scope_key(model.config.base or model.name))
        loads = [one for one in chain if one.kind is OperationKind.MODEL_LOAD]
        operation = await operation_store.get(tx, loads[0].id) if loads else None
    if operation is None and quiet:
        return Response(status_code=204)
    if operation is None:
        raise NotFound(f"No load of {model.name} is running.", code="no_load")
    loading = render_loading(model.name, operation, _estimate_left_s(deps, operation), model.paths)
    return LoadStatusOut(**loading, message=operation.message)


async def _get_allowed_model(tx: Transaction, deps: ApiDeps, principal: Principal, name: str) -> Model:
    """Return the model of this name. For a model that the key may not use, raises the same error as for an unknown
    one."""
    if principal.models is None:
        return await model_store.get_model(tx, name)
    model = await model_store.find_model(tx, name)
    if model is None or not can_use_model(principal, model.name, model.config.aliases):
        raise deps.gateway.router.make_not_found_error(name, make_model_filter(principal))
    return model


@router.post("/api/plan")
async def plan_load(deps: DepsIn, _: OperatorIn, body: LoadPlanIn) -> LoadPlanOut:
    """Plan a load: where the model would be placed now, at which cost, and why not on each other node."""
    await wait_for_galleries(deps)
    return await _plan_load(deps, _make_spec(OperationKind.MODEL_LOAD, body.model, body))


@router.post("/backend/load")
async def load_model_and_wait(deps: DepsIn, operator: OperatorIn, body: ModelNameIn) -> ModelOperationOut:
    """Load a model and respond when it is loaded. A model that is already loaded is left as it is."""
    spec = ModelOperationSpec(kind=OperationKind.MODEL_LOAD, model=body.model, if_cold=True, reason="an admin")
    admitted = await deps.model_operations.admission.admit(spec, operator.name, queue_behind=True)
    ended = await _wait_for_end(deps, admitted.operation)
    if ended.state in OPEN:
        raise Unavailable(f"{ended.subject} is still being loaded.", code="model_loading")
    if ended.state is not OperationState.COMPLETED:
        fault = ended.fault
        raise Unprocessable(fault.text if fault else ended.message, code=fault.code if fault else "load_failed")
    return admission_to_wire(
        AdmissionResult(operation=ended, is_duplicate=admitted.is_duplicate), f"{ended.subject} is loaded."
    )


@router.post("/backend/shutdown")
async def shut_down_model(deps: DepsIn, operator: OperatorIn, body: ModelNameIn) -> ModelOperationOut:
    """Unload a model from all nodes; 404 if it is not loaded."""
    async with deps.database.transaction() as tx:
        model = await model_store.get_model(tx, body.model)
        if not await replica_store.list_replicas(tx, model=model.name):
            raise NotFound(f"{model.name} is not loaded on any node.", code="model_not_loaded")
    spec = ModelOperationSpec(kind=OperationKind.MODEL_UNLOAD, model=model.name, reason="an admin")
    return admission_to_wire(await deps.model_operations.admission.admit(spec, operator.name))


def _make_spec(kind: OperationKind, name: str, body: LoadIn) -> ModelOperationSpec:
    nodes = None if body.nodes is None else tuple(body.nodes)
    return ModelOperationSpec(kind=kind, model=name, count=body.count, nodes=nodes, reason="an admin")


async def _admit_operation(caller: OperationCaller, spec: ModelOperationSpec) -> Response:
    loads = caller.deps.model_operations.admission

    async def work(tx: Transaction) -> tuple[int, bytes]:
        admitted = await loads.admit_in(tx, spec, caller.operator.name, queue_behind=caller.waits_for_running)
        return 200 if admitted.is_duplicate else 202, to_json(admission_to_wire(admitted))

    return await run_once(caller.request, caller.deps.database, caller.operator, work)


def admission_to_wire(admitted: AdmissionResult, message: str = "") -> ModelOperationOut:
    operation = admitted.operation
    url = f"/api/models/job/{operation.id}"
    if not message:
        message = _KIND_SENTENCES.get(operation.kind, "{} is being worked on.").format(operation.subject)
        if admitted.is_duplicate:
            message = f"The {operation.kind.replace('_', ' ')} of {operation.subject} is already running."
    return ModelOperationOut(
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


async def _wait_for_end(deps: ApiDeps, operation: Operation) -> Operation:
    """Wait for the operation to end and return it; after an hour, return it as it is."""
    until = deps.clock.monotonic() + WAIT_MAX_S
    while operation.state in ACTIVE and deps.clock.monotonic() < until:
        await deps.clock.sleep(POLL_S)
        try:
            async with deps.database.transaction() as tx:
                operation = await operation_store.get(tx, operation.id)
        except Unavailable:
            continue  # Read again at the next round; the load goes on.
    return operation


def _estimate_left_s(deps: ApiDeps, operation: Operation) -> float | None:
    progress, began = operation.progress, operation.started_at
    if began is None:
        return None
    return estimate_eta_s(progress.current_bytes, progress.total_bytes, (deps.clock.wall() - began).total_seconds())


async def _plan_load(deps: ApiDeps, spec: ModelOperationSpec) -> LoadPlanOut:
    return load_plan_to_wire(await deps.model_operations.plan(spec))


def load_plan_to_wire(plan: LoadPlan) -> LoadPlanOut:
    decision, model = plan.decision, plan.model
    fault = decision.fault
    message = fault.text if fault else decision.wait_message
    if not message:
        message = f"{model.name} would be placed on {', '.join(choice.node for choice in decision.choices)}."
        if decision.eviction is not None:
            message = decision.eviction.sentence
    return LoadPlanOut(
        model=model.name,
        fits=bool(decision.choices),
        message=message,
        code=fault.code if fault else "",
        fetches_files=plan.needs_fetch,
        choices=[_placement_to_wire(choice, plan) for choice in decision.choices],
        evicts=[EvictionVictimOut(model=one.model, node_id=one.node_id, index=one.index) for one in decision.victims],
        others=[
            FittingNodeOut(
                node_id=one.node_id,
                node_name=one.node,
                cost_s=round(one.terms.total_s, 1),
                cost=_round_cost(one.terms),
            )
            for one in decision.placement.scored[:REFUSALS_MAX]
        ],
        refused=[
            RefusedNodeOut(node_id=one.node_id, node_name=one.node, reason=one.filter, sentence=one.sentence)
            for one in decision.placement.refusals[:REFUSALS_MAX]
        ],
        warnings=list(decision.placement.warnings),
    )


def _placement_to_wire(choice: PlacementChoice, plan: LoadPlan) -> PlacementOut:
    engine = plan.engines[choice.node_id]
    return PlacementOut(
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
        cost=_round_cost(choice.terms),
    )


def _round_cost(terms: CostTerms) -> dict[str, float]:
    return {name: round(seconds, 2) for name, seconds in terms._asdict().items()}


def _make_json_response(value: Any, status: int) -> Response:
    return Response(to_json(value), status_code=status, media_type="application/json")
