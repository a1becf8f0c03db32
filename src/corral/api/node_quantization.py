"""`/api/node/{node_id}/runs/{run_id}/quantization`, `/api/files/results`: what workers of quantisations fetch and send.

A worker that does not hold the run is refused with 409. Guarantee: a worker sends no more bytes than the run may take
of a disk, and what it sends becomes a result only after its header was read here.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Body, Request, Response

from corral.api.deps import ApiDeps, DepsIn, get_bearer_secret
from corral.api.files import UPLOAD_RESPONSES, Sha256, probe_upload, receive_upload
from corral.api.models.configs import register_uploads
from corral.api.models.request_bodies import refresh_served_models
from corral.api.node_runs import JobIdIn
from corral.domain.errors import Conflict, InvalidRequest, TooLarge
from corral.domain.node import NodeId
from corral.domain.operation import OperationId
from corral.domain.quantization import Quantization
from corral.domain.run import Run
from corral.policy.models.header_bytes import BadHeader
from corral.policy.quantization import choose_source
from corral.quantization.service import FinishedQuantization
from corral.runs.held_runs import require_held
from corral.store import models as model_store
from corral.store import runs as run_store
from corral.transfer.inbox import parse_total_bytes
from corral.wire.quantization import (
    QuantizationResultIn,
    QuantizationResultOut,
    QuantizationSourceIn,
    QuantizationSourceOut,
)

router = APIRouter(tags=["node self-service"])
# Of a result whose size could not be expected.
RESULT_BYTES_MAX = 1024**4
_PATH = "/api/node/{node_id}/runs/{run_id}/quantization"
# Below the path of uploads, whose bodies are streamed and may be large.
_FILE_PATH = "/api/files/results/{node_id}/{run_id}/{sha256}"


@router.post(f"{_PATH}/source")
async def find_quantization_source(
    request: Request,
    deps: DepsIn,
    node_id: str,
    run_id: str,
    body: Annotated[QuantizationSourceIn | None, Body()] = None,
) -> QuantizationSourceOut:
    """Return where the files of the model are fetched from, or the operation that brings them into the library."""
    body = body or QuantizationSourceIn()
    entry = await deps.directory.authenticate_node(node_id, get_bearer_secret(request), boot_id=body.boot_id)
    job = await deps.quantizations.find_held(NodeId(entry.id), run_id, body.job_id)
    fetch_id = OperationId(body.operation_id) if body.operation_id else None
    provider = deps.model_operations.file_sources
    found = await provider.provide(job.model, NodeId(entry.id), job.owner_name, fetch_id)
    if found.fetch is not None:
        return QuantizationSourceOut(
            is_ready=False, operation_id=found.fetch.id, percent=found.fetch.progress.percent or 0.0
        )
    source = choose_source(found.model, job.imatrix)
    needed = {file.path for file in source.needed}
    return QuantizationSourceOut(
        is_ready=True,
        model=found.model.name,
        revision=found.model.run_hash,
        files=[asdict(file) for file in found.files if file.path in needed],
        sources=[asdict(one) for one in found.sources],
        entry=source.entry.path,
    )


@router.head(_FILE_PATH, include_in_schema=False)
async def probe_quantization_file(
    request: Request, deps: DepsIn, node_id: str, run_id: str, sha256: Sha256, job_id: JobIdIn = ""
) -> Response:
    """Return how much of a result has arrived; described with PUT."""
    await _find_program(request, deps, node_id, run_id, job_id)
    return await probe_upload(request, deps, sha256.lower())


@router.put(_FILE_PATH, response_class=Response, responses=UPLOAD_RESPONSES)
async def send_quantization_file(
    request: Request, deps: DepsIn, node_id: str, run_id: str, sha256: Sha256, job_id: JobIdIn = ""
) -> Response:
    """Send a file that the program of a run has made, in pieces, as models are uploaded: with `Content-Range`."""
    run = await _find_program(request, deps, node_id, run_id, job_id)
    content_range = request.headers.get("content-range", "")
    # Otherwise the size would be known only afterwards.
    total = parse_total_bytes(content_range)
    limit = (run.request.get("needs") or {}).get("disk_bytes") or RESULT_BYTES_MAX
    if total > limit:
        raise TooLarge(f"The result has {total} bytes, and the run may take {limit}.", code="result_too_large")
    return await receive_upload(request, deps, sha256.lower(), content_range)


@router.post(f"{_PATH}/result")
async def report_quantization_result(
    request: Request,
    deps: DepsIn,
    node_id: str,
    run_id: str,
    body: Annotated[QuantizationResultIn | None, Body()] = None,
) -> QuantizationResultOut:
    """Take in the file that a worker has sent: its header must name the type that was requested. The result becomes a
    model if a name was requested with it. Repeating the call changes nothing."""
    body = body or QuantizationResultIn()
    entry = await deps.directory.authenticate_node(node_id, get_bearer_secret(request), boot_id=body.boot_id)
    job = await deps.quantizations.find_held(NodeId(entry.id), run_id, body.job_id)
    if body.sha256 is None:
        raise InvalidRequest("The sha256 of the result is missing.")
    if not job.has_result:
        job = await _take_result(deps, NodeId(entry.id), run_id, body)
    job = await deps.quantizations.register_if_named(job)
    if job.registered_name:
        await register_model_files(deps, job.registered_name)
    return QuantizationResultOut(
        file_name=job.file_name, size_bytes=job.size_bytes or 0, model=job.registered_name, problem=job.problem
    )


async def _take_result(deps: ApiDeps, node_id: NodeId, run_id: str, body: QuantizationResultIn) -> Quantization:
    assert body.sha256 is not None, "the caller has looked"
    blob = await deps.library.get_blob(body.sha256)
    try:
        facts = await deps.library.read_upload_facts(blob, "result.gguf")
    except BadHeader:
        # The sentence of a wrong type says enough.
        facts = None
    finished = FinishedQuantization(
        sha256=blob.sha256,
        tool=body.tool,
        source_types=body.source_types,
        is_requantized=body.is_requantized,
    )
    async with deps.database.transaction() as tx:
        return await deps.quantizations.record_result(
            tx, (node_id, run_id, body.job_id), finished, blob.size_bytes, facts
        )


async def register_model_files(deps: ApiDeps, name: str) -> None:
    """Record size and facts of a model that was just registered, and let this frontend serve it."""
    async with deps.database.transaction() as tx:
        model = await model_store.find_model(tx, name)
    if model is not None and model.files is None:
        await register_uploads(deps, model)
    await refresh_served_models(deps, [name])


async def _find_program(request: Request, deps: ApiDeps, node_id: str, run_id: str, job_id: str) -> Run:
    """Return the run of a program that a worker holds."""
    entry = await deps.directory.authenticate_node(node_id, get_bearer_secret(request))
    async with deps.database.transaction() as tx:
        run = require_held(await run_store.find_run(tx, run_id), NodeId(entry.id), job_id)
    if not run.kind.is_program:
        raise Conflict("This run makes no files for the library.", code="run_not_held")
    return run
