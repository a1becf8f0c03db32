"""`/api/node/{node_id}/runs/{run_id}/document` and `…/collection`: what workers read and write of collections.

The worker of a run that reads a document gets its bytes and delivers its chunks; the worker of a turn searches the
collection of the turn's agent, and adds to it. A run that is not the worker's any more is refused with 409.
"""

from __future__ import annotations

import base64
from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Request

from corral.api.deps import DepsIn, get_bearer_secret
from corral.api.large_body_route import LargeBodyRoute
from corral.api.node_runs import JobIdIn
from corral.domain.collection import SearchQuery
from corral.domain.errors import LimitReached, Unprocessable
from corral.domain.node import NodeId
from corral.domain.run import RunKind
from corral.knowledge.ingest import SLICE_BYTES_MAX, ChunkDelivery
from corral.knowledge.service import decode_embedding
from corral.policy import documents as policy
from corral.runs.held_runs import lock_held
from corral.wire.collections import (
    DocumentChunksIn,
    DocumentChunksOut,
    DocumentSliceOut,
    RunMemoryIn,
    RunMemoryOut,
    RunSearchIn,
    RunSearchOut,
)

router = APIRouter(prefix="/api/node", tags=["node self-service"], route_class=LargeBodyRoute)


@router.get("/{node_id}/runs/{run_id}/document")
async def read_document_slice(
    request: Request,
    deps: DepsIn,
    node_id: str,
    run_id: str,
    start: Annotated[int, Query(ge=0, le=2**53)] = 0,
    job_id: JobIdIn = "",
) -> DocumentSliceOut:
    """Return bytes of the document that a run is to read, from a position on."""
    entry = await deps.directory.authenticate_node(node_id, get_bearer_secret(request))
    content = await deps.knowledge.ingest.read_file(NodeId(entry.id), run_id, job_id, start, SLICE_BYTES_MAX)
    return DocumentSliceOut(content=base64.b64encode(content).decode())


@router.post("/{node_id}/runs/{run_id}/document/chunks")
async def store_document_chunks(
    request: Request, deps: DepsIn, node_id: str, run_id: str, body: Annotated[DocumentChunksIn | None, Body()] = None
) -> DocumentChunksOut:
    """Store chunks of the document that a run reads. Repeating a delivery changes nothing; with the last chunks the
    document is ready."""
    body = body or DocumentChunksIn()
    entry = await deps.directory.authenticate_node(node_id, get_bearer_secret(request), boot_id=body.boot_id)
    delivery = ChunkDelivery(
        first=body.first,
        contents=body.contents,
        embeddings=[decode_embedding(one) for one in body.embeddings],
        total=body.total,
    )
    stored = await deps.knowledge.ingest.store_chunks(NodeId(entry.id), run_id, body.job_id, delivery)
    return DocumentChunksOut(stored=stored)


@router.post("/{node_id}/runs/{run_id}/collection/search")
async def search_for_run(
    request: Request, deps: DepsIn, node_id: str, run_id: str, body: Annotated[RunSearchIn | None, Body()] = None
) -> RunSearchOut:
    """Search the collection of a turn's agent, which belongs to the owner of the run."""
    body = body or RunSearchIn()
    entry = await deps.directory.authenticate_node(node_id, get_bearer_secret(request), boot_id=body.boot_id)
    async with deps.database.transaction() as tx:
        run = await lock_held(tx, run_id, NodeId(entry.id), body.job_id, kind=RunKind.AGENT_TURN)
        collection, results = await deps.agents.turns.find_searched(tx, run)
    query = SearchQuery(text=body.query, embedding=decode_embedding(body.embedding), results=results)
    found = await deps.knowledge.collections.search(collection, query)
    shown: list[dict[str, Any]] = [
        {
            "id": one.id,
            "content": one.text,
            "similarity": round(one.similarity, 4),
            "file_name": one.entry_name,
            "source": one.source_url or policy.make_raw_address(collection.name, one.entry_name),
        }
        for one in found
    ]
    return RunSearchOut(results=shown)


@router.post("/{node_id}/runs/{run_id}/collection/memories")
async def add_memory_for_run(
    request: Request, deps: DepsIn, node_id: str, run_id: str, body: Annotated[RunMemoryIn | None, Body()] = None
) -> RunMemoryOut:
    """Store what the agent of a turn wants to remember. The same tool call is stored once."""
    body = body or RunMemoryIn()
    entry = await deps.directory.authenticate_node(node_id, get_bearer_secret(request), boot_id=body.boot_id)
    try:
        async with deps.database.transaction() as tx:
            run = await lock_held(tx, run_id, NodeId(entry.id), body.job_id, kind=RunKind.AGENT_TURN)
            collection, _ = await deps.agents.turns.find_searched(tx, run)
            name = await deps.agents.turns.memory.add(tx, run, collection, body.call_id, body.text)
    except LimitReached as error:
        # Waiting would not help: the model is given the reason.
        raise Unprocessable(error.message, hint=error.hint, code=error.slug) from error
    return RunMemoryOut(entry=name)
