"""`/v1/batches`: OpenAI's batches. A batch is one run; a batch of another owner does not exist."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response

from corral.api.deps import DepsIn, OwnerIn
from corral.api.idempotency import run_once
from corral.api.openai.files import parse_file_id, render_file_id
from corral.batches.service import BatchSpec
from corral.domain.batch import Batch, BatchStatus
from corral.store import batches as store
from corral.store.batches import LISTED_MAX
from corral.store.database import Transaction
from corral.wire.base import make_clamp
from corral.wire.batches import BatchCountsOut, BatchErrorListOut, BatchErrorOut, BatchIn, BatchListOut, BatchOut

router = APIRouter(prefix="/v1/batches", tags=["files and batches"])
_PREFIX = "batch_"


@router.post("", responses={200: {"model": BatchOut}})
async def create_batch(request: Request, deps: DepsIn, caller: OwnerIn, body: BatchIn) -> Response:
    """Start a batch: the requests of a file are answered within a day, behind all other traffic. 503 if no agent worker
    is up."""
    spec = BatchSpec(
        input_file_id=parse_file_id(body.input_file_id),
        endpoint=body.endpoint,
        completion_window=body.completion_window,
        metadata=body.metadata or {},
    )

    async def work(tx: Transaction) -> tuple[int, bytes]:
        return 200, batch_to_wire(await deps.batches.create(tx, caller, spec)).model_dump_json().encode()

    return await run_once(request, deps.database, caller, work)


@router.get("")
async def list_batches(
    deps: DepsIn,
    caller: OwnerIn,
    limit: Annotated[int, Query(ge=1), make_clamp(LISTED_MAX)] = 20,
    after: Annotated[str, Query(max_length=100, description="The id of the last batch of the page before.")] = "",
) -> BatchListOut:
    """List your batches, newest first."""
    owner = str(caller.owner)
    async with deps.database.transaction() as tx:
        position: tuple[datetime, str] | None = None
        if after:
            last = await store.get_batch(tx, parse_batch_id(after), owner=owner)
            position = (last.created_at, last.id)
        found = await store.list_batches(tx, owner, limit=limit + 1, after=position)
    shown = [batch_to_wire(batch) for batch in found[:limit]]
    return BatchListOut(
        data=shown,
        first_id=shown[0].id if shown else None,
        last_id=shown[-1].id if shown else None,
        has_more=len(found) > limit,
    )


@router.get("/{batch_id}")
async def show_batch(deps: DepsIn, caller: OwnerIn, batch_id: str) -> BatchOut:
    """Show one of your batches."""
    async with deps.database.transaction() as tx:
        return batch_to_wire(await store.get_batch(tx, parse_batch_id(batch_id), owner=str(caller.owner)))


@router.post("/{batch_id}/cancel")
async def cancel_batch(deps: DepsIn, caller: OwnerIn, batch_id: str) -> BatchOut:
    """Cancel a batch. Its files keep the answers that were stored."""
    return batch_to_wire(await deps.batches.cancel(parse_batch_id(batch_id), str(caller.owner), caller.name))


def parse_batch_id(text: str) -> str:
    """Return the id of a run; any other text stays as it is, and is the id of no batch."""
    try:
        return str(UUID(hex=text.removeprefix(_PREFIX)))
    except ValueError:
        return text


def batch_to_wire(batch: Batch) -> BatchOut:
    status = batch.status

    def end_if(expected: BatchStatus) -> int | None:
        return _to_seconds(batch.ended_at) if status is expected else None

    errors = [BatchErrorOut.model_validate(error) for error in batch.errors]
    if not errors and status is BatchStatus.FAILED:
        errors = [BatchErrorOut(code=batch.run_error_code or "internal", message=batch.run_error_text)]
    # A file is shown once it is whole.
    files = (batch.output_file_id, batch.error_file_id) if status.is_final else (None, None)
    output_id, error_id = (None if file is None else render_file_id(file) for file in files)
    return BatchOut(
        id=f"{_PREFIX}{UUID(batch.id).hex}",
        endpoint=batch.endpoint,
        input_file_id=render_file_id(batch.input_file_id),
        completion_window=batch.completion_window,
        status=status,
        errors=BatchErrorListOut(data=errors) if errors else None,
        output_file_id=output_id,
        error_file_id=error_id,
        created_at=int(batch.created_at.timestamp()),
        in_progress_at=_to_seconds(batch.in_progress_at),
        expires_at=_to_seconds(batch.expires_at),
        finalizing_at=_to_seconds(batch.finalizing_at),
        completed_at=end_if(BatchStatus.COMPLETED),
        failed_at=end_if(BatchStatus.FAILED),
        expired_at=end_if(BatchStatus.EXPIRED),
        cancelling_at=_to_seconds(batch.cancelling_at),
        cancelled_at=end_if(BatchStatus.CANCELLED),
        request_counts=BatchCountsOut(total=batch.total, completed=batch.completed, failed=batch.failed),
        metadata=dict(batch.metadata) or None,
        run_id=batch.id,
    )


def _to_seconds(moment: datetime | None) -> int | None:
    return None if moment is None else int(moment.timestamp())
