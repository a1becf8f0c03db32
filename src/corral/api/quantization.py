"""`/api/quantization`: LocalAI-compatible jobs that make models smaller. A job is one run; a job of another owner does
not exist. Progress is a stream of server-sent events that resumes at any frontend."""

from __future__ import annotations

from contextlib import aclosing
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import StreamingResponse

from corral.api.deps import ApiDeps, DepsIn, OperatorIn, VisibleOwnerIn
from corral.api.idempotency import create_once
from corral.api.models.configs import provenance_to_wire
from corral.api.node_quantization import register_model_files
from corral.api.stream import RETRY_MS, FrameStream, make_stream_response
from corral.api.trace_stream import TraceStream, parse_last_entry, render_frame
from corral.domain.errors import Conflict, NotFound
from corral.domain.quantization import Quantization
from corral.domain.run import RunKind
from corral.policy import quantization as policy
from corral.policy.runs import can_execute, has_room
from corral.policy.status import is_schedulable
from corral.quantization.service import QuantizationSpec
from corral.store import models as model_store
from corral.store import nodes as node_store
from corral.store import quantizations as store
from corral.store.database import Transaction
from corral.store.quantizations import LISTED_MAX
from corral.wire.base import make_clamp
from corral.wire.quantization import (
    QuantizationBackendOut,
    QuantizationImportIn,
    QuantizationImportOut,
    QuantizationIn,
    QuantizationListOut,
    QuantizationOut,
    QuantizationPlanOut,
    QuantizationSizeOut,
)

router = APIRouter(prefix="/api/quantization", tags=["quantization"])
_STILL = b": still\n\n"
# A call that a backend serves which quantises.
_CALL = "quantize"


@router.get("/backends")
async def list_quantization_backends(deps: DepsIn, _: OperatorIn) -> list[QuantizationBackendOut]:
    """List the backends that quantise models."""
    found = [entry for entry in deps.catalog.list_entries() if _CALL in deps.catalog.list_calls(entry.name)]
    shown = [entry for entry in found if entry.is_meta] or found
    return [
        QuantizationBackendOut(name=entry.name, description=entry.description, tags=list(entry.tags)) for entry in shown
    ]


@router.get("/plan")
async def plan_quantization(
    deps: DepsIn, _: OperatorIn, model: Annotated[str, Query(min_length=1, max_length=255)]
) -> QuantizationPlanOut:
    """Show how large a model would be with each type of weights, and on which nodes it would fit. Nothing is
    stored."""
    async with deps.database.transaction() as tx:
        found = await model_store.get_model(tx, model)
        nodes = [node for node in await node_store.list_nodes(tx) if is_schedulable(node)]
    sizes = [
        QuantizationSizeOut(
            quantization_type=one.name,
            bits_per_weight=one.bits_per_weight,
            size_bytes=(size := policy.estimate_result_bytes(found, one)),
            fits_on=policy.list_fitting(nodes, size),
        )
        for one in policy.WEIGHT_TYPES.values()
    ]
    needs = policy.compute_needs(found, found.payload_bytes, policy.parse_weight_type(policy.DEFAULT_TYPE))
    return QuantizationPlanOut(
        model=found.name,
        quantization_type=found.facts.quantisation if found.facts is not None else "",
        size_bytes=found.payload_bytes,
        is_requantized=policy.is_quantized(found),
        can_run_on=[node.name for node in nodes if can_execute(node, RunKind.QUANTIZE) and has_room(node, needs)],
        types=sizes,
    )


@router.get("/jobs")
async def list_quantization_jobs(
    deps: DepsIn,
    _: OperatorIn,
    owner: VisibleOwnerIn,
    limit: Annotated[int, Query(ge=1), make_clamp(LISTED_MAX)] = 50,
) -> QuantizationListOut:
    """List quantisations, newest first."""
    async with deps.database.transaction() as tx:
        found = await store.list_quantizations(tx, owner, limit)
    return QuantizationListOut(jobs=[quantization_to_wire(job) for job in found])


@router.post("/jobs", status_code=201, response_model=QuantizationOut)
async def start_quantization(request: Request, deps: DepsIn, caller: OperatorIn, body: QuantizationIn) -> Response:
    """Start a quantisation. It is refused before anything is fetched if no node has room for it, or if the name of the
    result is taken."""
    spec = QuantizationSpec(
        model=body.model,
        weight_type=body.quantization_type,
        name=body.name,
        backend=body.backend or policy.BACKEND,
        base=body.base,
        imatrix=body.imatrix,
    )
    size_bytes = await _measure_source(deps, body.model)

    async def create(tx: Transaction) -> QuantizationOut:
        return quantization_to_wire(await deps.quantizations.create(tx, caller, spec, size_bytes))

    return await create_once(request, deps.database, caller, create)


async def _measure_source(deps: ApiDeps, name: str) -> int | None:
    """Return how large the files of a model are that were never fetched; None if they were, or no source says."""
    async with deps.database.transaction() as tx:
        model = await model_store.get_model(tx, name)
    return None if model.files is not None else await deps.library.measure(model.config.files)


@router.get("/jobs/{job_id}")
async def show_quantization(deps: DepsIn, _: OperatorIn, owner: VisibleOwnerIn, job_id: str) -> QuantizationOut:
    """Show one quantisation."""
    return quantization_to_wire(await _get_job(deps, job_id, owner))


@router.delete("/jobs/{job_id}", status_code=204)
async def delete_quantization(deps: DepsIn, _: OperatorIn, owner: VisibleOwnerIn, job_id: str) -> None:
    """Delete a quantisation that has ended, with its result. A model that was registered stays."""
    job = await deps.quantizations.delete(job_id, owner)
    if job.has_result:
        await deps.library.forget(job.sha256)


@router.post("/jobs/{job_id}/stop")
async def stop_quantization(deps: DepsIn, caller: OperatorIn, owner: VisibleOwnerIn, job_id: str) -> QuantizationOut:
    """Stop a quantisation. Its program is killed within seconds, and what it has written is deleted."""
    job = await _get_job(deps, job_id, owner)
    await deps.runs.cancel(job.id, owner, caller.name)
    return quantization_to_wire(await _get_job(deps, job_id, owner))


@router.get("/jobs/{job_id}/progress", response_class=StreamingResponse)
async def stream_quantization(
    request: Request,
    deps: DepsIn,
    _: OperatorIn,
    owner: VisibleOwnerIn,
    job_id: str,
    last_event_id: Annotated[str | None, Header(max_length=20)] = None,
) -> StreamingResponse:
    """Stream a quantisation as server-sent events: `state` with the job as it is now, then one event for each entry of
    its trace (`status` has `phase` and `percent`), then `done` with the job at its end, and the stream closes. It
    resumes behind `Last-Event-ID`."""
    job = await _get_job(deps, job_id, owner)
    trace = TraceStream(request, deps, owner).iter_frames(
        job.id, parse_last_entry(last_event_id), still=_STILL, until_ended=True
    )
    return make_stream_response(_render_progress(deps, job, trace))


async def _render_progress(deps: ApiDeps, job: Quantization, trace: FrameStream) -> FrameStream:
    yield f"retry: {RETRY_MS}\n\n".encode() + render_frame("state", quantization_to_wire(job).model_dump_json())
    async with aclosing(trace):
        async for frame in trace:
            yield frame
    async with deps.database.transaction() as tx:
        ended = await store.find_quantization(tx, job.id)
    if ended is not None:
        yield render_frame("done", quantization_to_wire(ended).model_dump_json())


@router.post("/jobs/{job_id}/import")
async def import_quantization(
    deps: DepsIn, caller: OperatorIn, owner: VisibleOwnerIn, job_id: str, body: QuantizationImportIn
) -> QuantizationImportOut:
    """Register the result of a quantisation as a model."""
    async with deps.database.transaction() as tx:
        job = await store.get_quantization(tx, job_id, owner=owner, locks=True)
        name = body.name or policy.make_model_name(job.model, job.weight_type)
        registered = await deps.quantizations.register(tx, job, name, caller.name)
    await register_model_files(deps, registered)
    return QuantizationImportOut(message=f"The result is the model {registered}.", name=registered)


@router.get("/jobs/{job_id}/download", response_class=StreamingResponse)
async def download_quantization(deps: DepsIn, _: OperatorIn, owner: VisibleOwnerIn, job_id: str) -> StreamingResponse:
    """Download the file that a quantisation has made."""
    job = await _get_job(deps, job_id, owner)
    if not job.has_result or job.size_bytes is None:
        raise Conflict(
            f"The quantisation of {job.model} has no result.",
            hint=f"corral quantize show {job.id}",
            code="no_result",
        )
    blob = await deps.library.get_blob(job.sha256)
    if not deps.library.can_serve(blob):
        raise NotFound(
            "This frontend does not hold the file.",
            hint="Ask another frontend, or fetch it with `corral models stage`.",
            code="blob_not_here",
        )
    headers = {
        "Content-Length": str(blob.size_bytes),
        "Content-Disposition": f'attachment; filename="{_make_ascii(job.file_name)}"',
        "X-Content-SHA256": blob.sha256,
    }
    content = deps.library.read(blob.sha256, 0, blob.size_bytes)
    return StreamingResponse(content, headers=headers, media_type="application/octet-stream")


async def _get_job(deps: ApiDeps, job_id: str, owner: str | None) -> Quantization:
    async with deps.database.transaction() as tx:
        return await store.get_quantization(tx, job_id, owner=owner)


def _make_ascii(name: str) -> str:
    """Return a file name that a header takes."""
    return "".join(one if one.isascii() and one.isprintable() and one not in '"\\' else "_" for one in name)


def quantization_to_wire(job: Quantization) -> QuantizationOut:
    is_imported, has_problem = bool(job.registered_name), bool(job.problem)
    return QuantizationOut(
        id=job.id,
        user_id=job.owner_name,
        model=job.model,
        backend=job.backend,
        quantization_type=job.weight_type,
        status=policy.find_status(job),
        message=job.message,
        output_file=job.file_name,
        import_status="completed" if is_imported else "failed" if has_problem else "",
        import_message=job.problem,
        import_model_name=job.registered_name,
        created_at=job.created_at,
        progress_percent=job.percent,
        phase=job.phase,
        run_id=job.id,
        node_name=job.node_name,
        name=job.name,
        error_code=job.error_code,
        size_bytes=job.size_bytes,
        sha256=job.sha256,
        provenance=provenance_to_wire(job.provenance),
        started_at=job.started_at,
        finished_at=job.finished_at,
    )
