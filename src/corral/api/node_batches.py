"""`/api/node/{node_id}/runs/{run_id}/batch`: what workers read and write of the batches that they hold.

The input goes out in slices and the answers come in with the cursor behind them; repeating a call changes nothing. A
batch that is not the worker's any more is refused with 409.
"""

from __future__ import annotations

import base64
from typing import Annotated

from fastapi import APIRouter, Body, Depends, Query, Request

from corral.api.deps import DepsIn, get_bearer_secret
from corral.api.large_body_route import LargeBodyRoute
from corral.api.node_runs import JobIdIn
from corral.batches.service import SLICE_BYTES_MAX, BatchAnswers, InputSlice
from corral.domain.errors import InvalidRequest
from corral.domain.node import NodeId
from corral.wire.batches import BatchAnswersIn, BatchCursorOut, BatchInputOut, BatchValidationIn

router = APIRouter(prefix="/api/node", tags=["node self-service"], route_class=LargeBodyRoute)


async def _parse_slice(
    start: Annotated[int, Query(ge=0, le=2**53)] = 0,
    limit: Annotated[int, Query(ge=1, le=SLICE_BYTES_MAX)] = SLICE_BYTES_MAX,
) -> InputSlice:
    return InputSlice(start_byte=start, limit=limit)


@router.get("/{node_id}/runs/{run_id}/batch/input")
async def read_batch_input(
    request: Request,
    deps: DepsIn,
    node_id: str,
    run_id: str,
    part: Annotated[InputSlice, Depends(_parse_slice)],
    job_id: JobIdIn = "",
) -> BatchInputOut:
    """Return bytes of a batch's input, from a position on."""
    entry = await deps.directory.authenticate_node(node_id, get_bearer_secret(request))
    content = await deps.batches.read_input(NodeId(entry.id), run_id, job_id, part)
    return BatchInputOut(content=base64.b64encode(content).decode())


@router.post("/{node_id}/runs/{run_id}/batch/validation", status_code=204)
async def report_batch_validation(
    request: Request, deps: DepsIn, node_id: str, run_id: str, body: Annotated[BatchValidationIn | None, Body()] = None
) -> None:
    """Record what a worker found in the input: how many requests it has, or what is wrong with it."""
    body = body or BatchValidationIn()
    entry = await deps.directory.authenticate_node(node_id, get_bearer_secret(request), boot_id=body.boot_id)
    await deps.batches.record_validation(NodeId(entry.id), run_id, body.job_id, body.total, body.errors)


@router.post("/{node_id}/runs/{run_id}/batch/answers")
async def store_batch_answers(
    request: Request, deps: DepsIn, node_id: str, run_id: str, body: Annotated[BatchAnswersIn | None, Body()] = None
) -> BatchCursorOut:
    """Store lines for the files of a batch, and move the cursor behind them. The answer says where the cursor stands:
    behind these lines, or elsewhere if they do not follow it."""
    body = body or BatchAnswersIn()
    entry = await deps.directory.authenticate_node(node_id, get_bearer_secret(request), boot_id=body.boot_id)
    try:
        output, errors = body.output.encode("ascii"), body.errors.encode("ascii")
    except UnicodeEncodeError as error:
        raise InvalidRequest("The lines of a batch are ASCII.") from error
    answers = BatchAnswers(
        from_byte=body.from_byte,
        to_byte=body.to_byte,
        to_line=body.to_line,
        completed=body.completed,
        failed=body.failed,
        output=output,
        errors=errors,
    )
    batch = await deps.batches.store_answers(NodeId(entry.id), run_id, body.job_id, answers)
    return BatchCursorOut(next_byte=batch.next_byte, next_line=batch.next_line)
