"""`/api/fine-tuning`: LocalAI-compatible jobs that train models, and the datasets that they train on.

A job is one run; a job or dataset of another owner does not exist. Progress is a stream of server-sent events that
resumes at any frontend, and the whole curve can be read afterwards.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import StreamingResponse

from corral.api.deps import ApiDeps, DepsIn, OperatorIn, VisibleOwnerIn
from corral.api.dialects.uploads import UploadReceiver
from corral.api.downloads import make_attachment_headers, make_file_name
from corral.api.idempotency import create_once
from corral.api.model_archive import iter_archive
from corral.api.node_quantization import register_model_files
from corral.api.openai.file_form import FileFormReader, parse_boundary
from corral.api.stream import RETRY_MS, FrameStream, make_stream_response
from corral.api.trace_stream import TraceStream, parse_last_entry, render_frame
from corral.domain.errors import CorralError, NotFound
from corral.domain.fine_tuning import Checkpoint, Dataset, ExportFormat, FineTune, FineTuneExport, RunFile
from corral.fine_tuning.exports import ExportSpec
from corral.fine_tuning.service import FineTuneSpec
from corral.policy import fine_tuning as policy
from corral.policy.datasets import DatasetFacts, DatasetReader
from corral.quantization.service import QuantizationSpec
from corral.runs.artifacts import UploadDescription
from corral.store import access as access_store
from corral.store import artifacts as artifact_store
from corral.store import fine_tunes as store
from corral.store import models as model_store
from corral.store import run_files as file_store
from corral.store.database import Transaction
from corral.store.fine_tunes import LISTED_MAX
from corral.wire.base import make_clamp
from corral.wire.fine_tuning import (
    CheckpointListOut,
    CheckpointOut,
    DatasetListOut,
    DatasetOut,
    FineTuneBackendOut,
    FineTuneCurveOut,
    FineTuneExportIn,
    FineTuneExportOut,
    FineTuneIn,
    FineTuneListOut,
    FineTuneOut,
    FineTunePointOut,
)

router = APIRouter(prefix="/api/fine-tuning", tags=["fine-tuning"])
_STILL = b": still\n\n"
# A call that a backend serves which trains.
_CALL = "fine_tune"
_PURPOSE = "fine-tune"
_FORM: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {"file": {"type": "string", "format": "binary"}},
                }
            }
        },
    }
}


@router.get("/backends")
async def list_fine_tuning_backends(deps: DepsIn, _: OperatorIn) -> list[FineTuneBackendOut]:
    """List the backends that train models."""
    found = [entry for entry in deps.catalog.list_entries() if _CALL in deps.catalog.list_calls(entry.name)]
    shown = [entry for entry in found if entry.is_meta] or found
    return [FineTuneBackendOut(name=one.name, description=one.description, tags=list(one.tags)) for one in shown]


# --- datasets ---


@router.post("/datasets", status_code=201, openapi_extra=_FORM)
async def upload_dataset(request: Request, deps: DepsIn, caller: OperatorIn) -> DatasetOut:
    """Upload a dataset: JSON lines, CSV or JSON. A broken one is refused with the numbers of its lines, and nothing is
    stored. It counts among your files, and stays until you delete it."""
    boundary = parse_boundary(request.headers.get("content-type", ""))
    form = FileFormReader(boundary, UploadReceiver(request.receive).iter_pieces())
    description = UploadDescription(purpose=_PURPOSE)
    facts: list[DatasetFacts] = []
    readers: list[DatasetReader] = []

    async def iter_checked() -> Any:
        async with aclosing(form.iter_file()) as pieces:
            async for piece in pieces:
                if not readers:
                    readers.append(DatasetReader(form.file_name or ""))
                readers[0].feed(piece)
                yield piece

    def check() -> None:
        description.name, description.media_type = form.file_name or "dataset", form.media_type
        # An empty file has no piece.
        facts.append((readers[0] if readers else DatasetReader(description.name)).finish())

    async with aclosing(iter_checked()) as pieces:
        artifact = await deps.artifacts.receive(caller.owner, pieces, description, check)
    async with deps.database.transaction() as tx:
        await artifact_store.keep_forever(tx, artifact.id)
        await store.insert_dataset(tx, artifact.id, facts[0].format, facts[0].rows, list(facts[0].columns))
        dataset = await deps.fine_tunes.get_dataset(tx, artifact.id, str(caller.owner))
    return dataset_to_wire(dataset)


@router.get("/datasets")
async def list_datasets(deps: DepsIn, caller: OperatorIn) -> DatasetListOut:
    """List your datasets, newest first."""
    async with deps.database.transaction() as tx:
        found = await store.list_datasets(tx, str(caller.owner))
    return DatasetListOut(datasets=[dataset_to_wire(one) for one in found])


@router.delete("/datasets/{dataset_id}", status_code=204)
async def delete_dataset(deps: DepsIn, caller: OperatorIn, dataset_id: str) -> None:
    """Delete one of your datasets. One that an active fine-tuning needs is refused with 409."""
    async with deps.database.transaction() as tx:
        found = await deps.fine_tunes.get_dataset(tx, dataset_id, str(caller.owner))
    await deps.artifacts.delete(found.id, str(caller.owner))


# --- jobs ---


@router.get("/jobs")
async def list_fine_tuning_jobs(
    deps: DepsIn,
    _: OperatorIn,
    owner: VisibleOwnerIn,
    limit: Annotated[int, Query(ge=1), make_clamp(LISTED_MAX)] = 50,
) -> FineTuneListOut:
    """List fine-tunings, newest first."""
    async with deps.database.transaction() as tx:
        found = await store.list_fine_tunes(tx, owner, limit)
        jobs = [fine_tune_to_wire(job, await store.list_exports(tx, job.id)) for job in found]
    return FineTuneListOut(jobs=jobs)


@router.post("/jobs", status_code=201, response_model=FineTuneOut)
async def start_fine_tuning(request: Request, deps: DepsIn, caller: OperatorIn, body: FineTuneIn) -> Response:
    """Start a fine-tuning. It is refused before anything is fetched if no node has room for it, or if the dataset has
    no rows that the method can use."""
    settings = body.model_dump(exclude_none=True)
    policy.refuse_tokens(settings)
    spec = FineTuneSpec(
        model=body.model,
        dataset=body.dataset_source,
        settings={**(body.extra_options or {}), **settings},
        backend=body.backend or policy.BACKEND,
        resume_from=body.resume_from_checkpoint,
    )
    size_bytes = await _measure_source(deps, body.model)

    async def create(tx: Transaction) -> FineTuneOut:
        return fine_tune_to_wire(await deps.fine_tunes.create(tx, caller, spec, size_bytes), [])

    return await create_once(request, deps.database, caller, create)


async def _measure_source(deps: ApiDeps, name: str) -> int | None:
    """Return how large the files of a model are that were never fetched; None if they were, or no source says."""
    async with deps.database.transaction() as tx:
        model = await model_store.get_model(tx, name)
    return None if model.files is not None else await deps.library.measure(model.config.files)


@router.get("/jobs/{job_id}")
async def show_fine_tuning(deps: DepsIn, _: OperatorIn, owner: VisibleOwnerIn, job_id: str) -> FineTuneOut:
    """Show one fine-tuning."""
    return await _render_job(deps, job_id, owner)


@router.delete("/jobs/{job_id}", status_code=204)
async def delete_fine_tuning(deps: DepsIn, _: OperatorIn, owner: VisibleOwnerIn, job_id: str) -> None:
    """Delete a fine-tuning that has ended, with its checkpoints. Models that it has become stay. One that is active or
    being exported is refused with 409."""
    _job, hashes = await deps.fine_tunes.delete(job_id, owner)
    for sha256 in hashes:
        await deps.library.forget(sha256)


@router.post("/jobs/{job_id}/stop")
async def stop_fine_tuning(
    deps: DepsIn,
    caller: OperatorIn,
    owner: VisibleOwnerIn,
    job_id: str,
    *,
    save_checkpoint: Annotated[bool, Query(description="End with a checkpoint, behind the present step.")] = False,
) -> FineTuneOut:
    """Stop a fine-tuning: at once, or behind the present step with a checkpoint from which it can go on."""
    await deps.fine_tunes.stop(job_id, owner, caller.name, saves=save_checkpoint)
    return await _render_job(deps, job_id, owner)


@router.get("/jobs/{job_id}/curve")
async def read_fine_tuning_curve(deps: DepsIn, _: OperatorIn, owner: VisibleOwnerIn, job_id: str) -> FineTuneCurveOut:
    """Return the whole curve of a training, whether or not it was watched. Steps that were trained twice, because a
    worker was lost, are in it twice."""
    async with deps.database.transaction() as tx:
        job = await store.get_fine_tune(tx, job_id, owner=owner)
        points = await store.list_points(tx, job.id)
    return FineTuneCurveOut(points=[FineTunePointOut.model_validate(one) for one in points])


@router.get("/jobs/{job_id}/checkpoints")
async def list_fine_tuning_checkpoints(
    deps: DepsIn, _: OperatorIn, owner: VisibleOwnerIn, job_id: str
) -> CheckpointListOut:
    """List the checkpoints of a fine-tuning that are kept, newest first."""
    async with deps.database.transaction() as tx:
        job = await store.get_fine_tune(tx, job_id, owner=owner)
        found = await store.list_checkpoints(tx, job.id)
    return CheckpointListOut(checkpoints=[checkpoint_to_wire(job, one) for one in found])


@router.get("/jobs/{job_id}/progress", response_class=StreamingResponse)
async def stream_fine_tuning(
    request: Request,
    deps: DepsIn,
    _: OperatorIn,
    owner: VisibleOwnerIn,
    job_id: str,
    last_event_id: Annotated[str | None, Header(max_length=20)] = None,
) -> StreamingResponse:
    """Stream a fine-tuning as server-sent events: `state` with the job as it is now, then one event for each entry of
    its trace (`status` has `phase`, `percent`, `step`, `total`, `loss` and the rest of the curve), then `done` with the
    job at its end, and the stream closes. It resumes behind `Last-Event-ID`."""
    job = await _get_job(deps, job_id, owner)
    trace = TraceStream(request, deps, owner).iter_frames(
        job.id, parse_last_entry(last_event_id), still=_STILL, until_ended=True
    )
    return make_stream_response(_render_progress(deps, job, trace))


async def _render_progress(deps: ApiDeps, job: FineTune, trace: FrameStream) -> FrameStream:
    first = await _render_job(deps, job.id, None)
    yield f"retry: {RETRY_MS}\n\n".encode() + render_frame("state", first.model_dump_json())
    async with aclosing(trace):
        async for frame in trace:
            yield frame
    async with deps.database.transaction() as tx:
        ended = await store.find_fine_tune(tx, job.id)
    if ended is not None:
        yield render_frame("done", (await _render_job(deps, job.id, None)).model_dump_json())


@router.post("/jobs/{job_id}/export", status_code=202)
async def export_fine_tuning(
    deps: DepsIn, caller: OperatorIn, owner: VisibleOwnerIn, job_id: str, body: FineTuneExportIn
) -> FineTuneExportOut:
    """Make a model of a checkpoint: the adapter as it is, a whole model in 16 bits, or a quantised GGUF file. A name
    that is taken, also by another export, is refused with 409."""
    job_text, _, name = body.checkpoint_path.rpartition("/")
    del job_text
    spec = ExportSpec(format=body.export_format, name=body.name, checkpoint=name, weight_type=body.quantization_method)
    async with deps.database.transaction() as tx:
        job = await store.get_fine_tune(tx, job_id, owner=owner)
        export = await deps.fine_tune_exports.create(tx, caller, job, spec)
    if export.format is ExportFormat.LORA:
        async with deps.database.transaction() as tx:
            files = policy.choose_adapter_files(await store.list_export_files(tx, export))
        export = await finish_export(deps, job, export, files)
    return export_to_wire(export)


async def finish_export(deps: ApiDeps, job: FineTune, export: FineTuneExport, files: list[RunFile]) -> FineTuneExport:
    """Register the model of an export whose files are in the library, and start the quantisation of one that is to
    become a GGUF file. What is wrong is in the export that it returns."""
    name = await deps.fine_tune_exports.register(export, files, job.owner_name)
    if name:
        await register_model_files(deps, name)
    if name and export.format is ExportFormat.GGUF:
        await _start_quantization(deps, job, export, name)
    elif name:
        message = await deps.fine_tune_exports.describe(job, export, name)
        await deps.fine_tune_exports.complete(export, name, message)
    async with deps.database.transaction() as tx:
        return next(one for one in await store.list_exports(tx, job.id) if one.id == export.id)


async def _start_quantization(deps: ApiDeps, job: FineTune, export: FineTuneExport, merged: str) -> None:
    """Let a quantisation make the GGUF file of a whole model; why it cannot is the message of the export."""
    spec = QuantizationSpec(model=merged, weight_type=export.weight_type, name=export.name)
    try:
        async with deps.database.transaction() as tx:
            caller = await access_store.find_principal_by_key_id(tx, job.key_id)
            if caller is None:
                raise NotFound("The key or user that the job belongs to no longer works.", code="run_owner_gone")
            started = await deps.quantizations.create(tx, caller, spec, None)
    except CorralError as error:
        if error.retryable:
            raise
        await deps.fine_tune_exports.fail(export, f"The whole model is {merged}; no GGUF file: {error.message}")
        return
    text = (
        f"The whole model is {merged}, and a quantisation makes {export.name} of it. Look at it:"
        f" corral quantize show {started.id}"
    )
    await deps.fine_tune_exports.complete(export, export.name, text)


@router.get("/jobs/{job_id}/download", response_class=StreamingResponse)
async def download_fine_tuning(
    deps: DepsIn,
    _: OperatorIn,
    owner: VisibleOwnerIn,
    job_id: str,
    checkpoint: Annotated[str, Query(max_length=100, description="Such as checkpoint-20; empty: the newest.")] = "",
) -> StreamingResponse:
    """Download a checkpoint as a tar.gz archive: the adapter or the weights, with tokenizer and configuration."""
    step = policy.parse_step(checkpoint) if checkpoint else None
    async with deps.database.transaction() as tx:
        job = await store.get_fine_tune(tx, job_id, owner=owner)
        chosen = await deps.fine_tunes.get_checkpoint(tx, job.id, step)
        files = policy.choose_result_files(await file_store.list_files(tx, job.id, chosen.name))
    await _require_here(deps, files)
    name = make_file_name(f"{job.model}-{chosen.name}", ".tar.gz")
    return StreamingResponse(
        iter_archive(deps.library, files), headers=make_attachment_headers(name), media_type="application/gzip"
    )


async def _require_here(deps: ApiDeps, files: list[RunFile]) -> None:
    for file in files:
        if not deps.library.can_serve(await deps.library.get_blob(file.sha256)):
            raise NotFound(
                f"This frontend does not hold {file.path} of the checkpoint.",
                hint="Ask the other frontends.",
                code="blob_not_here",
            )


async def _get_job(deps: ApiDeps, job_id: str, owner: str | None) -> FineTune:
    async with deps.database.transaction() as tx:
        return await store.get_fine_tune(tx, job_id, owner=owner)


async def _render_job(deps: ApiDeps, job_id: str, owner: str | None) -> FineTuneOut:
    async with deps.database.transaction() as tx:
        job = await store.get_fine_tune(tx, job_id, owner=owner)
        return fine_tune_to_wire(job, await store.list_exports(tx, job.id))


# --- rendering ---


def fine_tune_to_wire(job: FineTune, exports: list[FineTuneExport]) -> FineTuneOut:
    latest = FineTunePointOut.model_validate({"step": 0, **job.latest})
    newest = exports[0] if exports else None
    return FineTuneOut(
        id=job.id,
        user_id=job.owner_name,
        model=job.model,
        backend=job.backend,
        training_type=job.training_type,
        training_method=job.method,
        status=policy.find_status(job),
        message=job.error_text or job.message,
        export_status=newest.status if newest is not None else "",
        export_message=newest.message if newest is not None else "",
        export_model_name=export_to_wire(newest).model_name if newest is not None else "",
        created_at=job.created_at,
        dataset_source=job.dataset_name,
        dataset_id=job.dataset_id,
        progress_percent=job.percent,
        current_step=latest.step,
        total_steps=latest.total,
        current_epoch=latest.epoch,
        loss=latest.loss,
        eval_loss=latest.eval_loss,
        eta_seconds=None if job.run_state.is_final else latest.eta_seconds,
        phase=job.phase,
        is_stopping=job.is_stopping and not job.run_state.is_final,
        run_id=job.id,
        node_name=job.node_name,
        error_code=job.error_code,
        parameters=dict(job.parameters),
        resumed_from=job.resumed_from,
        result=dict(job.result),
        exports=[export_to_wire(one) for one in exports],
        started_at=job.started_at,
        finished_at=job.finished_at,
    )


def checkpoint_to_wire(job: FineTune, one: Checkpoint) -> CheckpointOut:
    return CheckpointOut(
        name=one.name,
        path=f"{job.id}/{one.name}",
        step=one.step,
        epoch=one.epoch,
        loss=one.loss,
        size_bytes=one.size_bytes,
        is_inherited=one.is_inherited,
        created_at=one.created_at,
    )


def export_to_wire(export: FineTuneExport) -> FineTuneExportOut:
    return FineTuneExportOut(
        id=export.id,
        export_format=export.format,
        quantization_method=export.weight_type,
        name=export.name,
        checkpoint=f"checkpoint-{export.step}",
        status=export.status,
        message=export.message,
        model_name=export.registered_name if export.status == "completed" else "",
        run_id=export.run_id or "",
        created_at=export.created_at,
    )


def dataset_to_wire(one: Dataset) -> DatasetOut:
    return DatasetOut(
        id=one.id,
        name=one.name,
        format=one.format,
        rows=one.rows,
        columns=list(one.columns),
        size_bytes=one.size_bytes,
        sha256=one.sha256,
        created_at=one.created_at,
    )
