"""`/api/node/{node_id}/runs/{run_id}/fine-tuning` and `…/result-files`: what workers of fine-tunings fetch and send.

A worker that does not hold the run is refused with 409. Guarantee: a file is recorded only once its bytes are in the
library, and a checkpoint or a model only once all of its files are recorded.
"""

from __future__ import annotations

import base64
from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Body, Query, Request

from corral.api.deps import ApiDeps, DepsIn, get_bearer_secret
from corral.api.fine_tuning import finish_export
from corral.api.node_runs import JobIdIn
from corral.domain.errors import InvalidRequest
from corral.domain.fine_tuning import Checkpoint, FineTune, RunFile
from corral.domain.node import NodeId
from corral.domain.operation import OperationId
from corral.domain.run import RunKind
from corral.fine_tuning.service import record_run_file
from corral.loading.kinds.commands import LIBRARY
from corral.policy.fine_tuning import find_model_folder
from corral.runs.held_runs import require_held
from corral.store import fine_tunes as store
from corral.store import runs as run_store
from corral.wire.fine_tuning import (
    CheckpointIn,
    CheckpointKeptOut,
    DatasetSliceOut,
    ExportResultIn,
    ExportResultOut,
    FineTuneSourceOut,
    FineTuneStateIn,
    FineTuneStateOut,
    RunFileIn,
    RunFileOut,
)
from corral.wire.quantization import QuantizationSourceIn

router = APIRouter(prefix="/api/node/{node_id}/runs/{run_id}", tags=["node self-service"])
# Of a dataset, in one response.
SLICE_BYTES = 512 * 1024


@router.post("/fine-tuning/source")
async def find_fine_tuning_source(
    request: Request,
    deps: DepsIn,
    node_id: str,
    run_id: str,
    body: Annotated[QuantizationSourceIn | None, Body()] = None,
) -> FineTuneSourceOut:
    """Return where the files of the base model and of the checkpoint are fetched from, or the operation that brings
    the model into the library."""
    body = body or QuantizationSourceIn()
    entry = await deps.directory.authenticate_node(node_id, get_bearer_secret(request), boot_id=body.boot_id)
    job, files = await _find_work(deps, NodeId(entry.id), run_id, body.job_id)
    fetch_id = OperationId(body.operation_id) if body.operation_id else None
    found = await deps.model_operations.file_sources.provide(job.model, NodeId(entry.id), job.owner_name, fetch_id)
    if found.fetch is not None:
        return FineTuneSourceOut(
            is_ready=False, operation_id=found.fetch.id, percent=found.fetch.progress.percent or 0.0
        )
    sources = await deps.library.list_blob_sources({file.sha256 for file in files}) if files else ()
    return FineTuneSourceOut(
        is_ready=True,
        model=found.model.name,
        revision=found.model.run_hash,
        files=[asdict(file) for file in found.files],
        sources=[asdict(one) for one in found.sources],
        folder=find_model_folder(found.model),
        checkpoint_files=[{"path": file.path, "sha256": file.sha256, "size_bytes": file.size_bytes} for file in files],
        checkpoint_sources=[asdict(one) for one in (LIBRARY, *sources)],
    )


async def _find_work(deps: ApiDeps, node_id: NodeId, run_id: str, job_id: str) -> tuple[FineTune, list[RunFile]]:
    """Return the fine-tuning that a worker trains or exports, and the files of the checkpoint that it begins with."""
    async with deps.database.transaction() as tx:
        run = require_held(await run_store.find_run(tx, run_id, reads_request=False), node_id, job_id)
    if run.kind is RunKind.FINE_TUNE_EXPORT:
        export, job = await deps.fine_tune_exports.find_held(node_id, run_id, job_id)
        async with deps.database.transaction() as tx:
            return job, await store.list_export_files(tx, export)
    job = await deps.fine_tunes.find_held(node_id, run_id, job_id)
    return job, await deps.fine_tunes.list_checkpoint_files(job.id, None)


@router.get("/fine-tuning/dataset")
async def read_dataset_slice(
    request: Request,
    deps: DepsIn,
    node_id: str,
    run_id: str,
    start: Annotated[int, Query(ge=0, le=2**53)] = 0,
    job_id: JobIdIn = "",
) -> DatasetSliceOut:
    """Return bytes of the dataset of a fine-tuning, from a position on."""
    entry = await deps.directory.authenticate_node(node_id, get_bearer_secret(request))
    job = await deps.fine_tunes.find_held(NodeId(entry.id), run_id, job_id)
    content = await deps.fine_tunes.read_dataset(job, start, SLICE_BYTES)
    return DatasetSliceOut(content=base64.b64encode(content).decode())


@router.post("/fine-tuning/state")
async def read_fine_tuning_state(
    request: Request, deps: DepsIn, node_id: str, run_id: str, body: Annotated[FineTuneStateIn | None, Body()] = None
) -> FineTuneStateOut:
    """Say whether a training is to end with a checkpoint behind the present step."""
    body = body or FineTuneStateIn()
    entry = await deps.directory.authenticate_node(node_id, get_bearer_secret(request), boot_id=body.boot_id)
    job = await deps.fine_tunes.find_held(NodeId(entry.id), run_id, body.job_id)
    return FineTuneStateOut(must_stop=job.is_stopping)


@router.post("/result-files")
async def record_result_file(
    request: Request, deps: DepsIn, node_id: str, run_id: str, body: Annotated[RunFileIn | None, Body()] = None
) -> RunFileOut:
    """Record a file that the program of a run has made and that was sent to `/api/files/results` before."""
    body = body or RunFileIn()
    entry = await deps.directory.authenticate_node(node_id, get_bearer_secret(request), boot_id=body.boot_id)
    if body.sha256 is None:
        raise InvalidRequest("The sha256 of the file is missing.")
    holder = (NodeId(entry.id), run_id, body.job_id)
    blob = await deps.library.get_blob(body.sha256)
    file = RunFile(run_id=run_id, folder=body.folder, path=body.path, sha256=blob.sha256, size_bytes=blob.size_bytes)
    await record_run_file(deps.database, holder, file)
    return RunFileOut(size_bytes=blob.size_bytes)


@router.post("/fine-tuning/checkpoint")
async def record_checkpoint(
    request: Request, deps: DepsIn, node_id: str, run_id: str, body: Annotated[CheckpointIn | None, Body()] = None
) -> CheckpointKeptOut:
    """Record a checkpoint whose files were all sent. Only the newest are kept. Repeating the call changes nothing."""
    body = body or CheckpointIn()
    entry = await deps.directory.authenticate_node(node_id, get_bearer_secret(request), boot_id=body.boot_id)
    holder = (NodeId(entry.id), run_id, body.job_id)
    made = Checkpoint(step=body.step, epoch=body.epoch, loss=body.loss, created_at=deps.clock.wall(), size_bytes=0)
    kept, dropped = await deps.fine_tunes.record_checkpoint(holder, made)
    for sha256 in dropped:
        await deps.library.forget(sha256)
    return CheckpointKeptOut(steps=[one.step for one in kept])


@router.post("/fine-tuning/export")
async def record_export(
    request: Request, deps: DepsIn, node_id: str, run_id: str, body: Annotated[ExportResultIn | None, Body()] = None
) -> ExportResultOut:
    """Make a model of the files that the worker of an export has sent. Repeating the call changes nothing."""
    body = body or ExportResultIn()
    entry = await deps.directory.authenticate_node(node_id, get_bearer_secret(request), boot_id=body.boot_id)
    holder = (NodeId(entry.id), run_id, body.job_id)
    export, job = await deps.fine_tune_exports.find_held(*holder)
    if export.status == "exporting":
        export = await finish_export(deps, job, export, await deps.fine_tune_exports.list_result_files(holder))
    problem = export.message if export.status == "failed" else ""
    return ExportResultOut(model=export.registered_name, problem=problem)
