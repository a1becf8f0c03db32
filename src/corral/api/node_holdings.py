"""`/api/node/{node_id}/holdings` and `/prefetch`: what a worker runs and holds, and what it wants to hold."""

from __future__ import annotations

from fastapi import APIRouter, Request

from corral.api.parts import PartsIn, bearer
from corral.bus.messages import RunningProcess
from corral.domain.node import NodeId
from corral.domain.prefetch import PrefetchEntry, PrefetchKind
from corral.loading.holdings import Holdings
from corral.loading.prefetch import PrefetchHandler
from corral.wire.holdings import HoldingsIn, PrefetchEntryOut, PrefetchIn, PrefetchOut, ProcessIn
from corral.wire.loads import TakenOut

router = APIRouter(prefix="/api/node", tags=["node self-service"])


@router.post("/{node_id}/holdings")
async def report_holdings(request: Request, parts: PartsIn, node_id: str, body: HoldingsIn) -> TakenOut:
    """Everything that runs and lies on a node, at once. A process that is not registered is adopted if this cluster has
    asked the node to run it (`ticket`), it is at the node's own address, and it is what its model and the model's rule
    ask for now; else it is ended. What was reported twice without a process that is registered is gone."""
    node = await parts.directory.node(node_id, bearer(request), boot_id=body.boot_id)
    taken = await parts.loading.take_holdings(
        Holdings(
            node_id=NodeId(node.id),
            boot_id=body.boot_id,
            processes=tuple(_process(item) for item in body.processes if _is_storable(item)),
            models={item.name: item.revision for item in body.models if item.name.isprintable()},
            files={item.sha256: (item.size_bytes, item.is_whole) for item in body.blobs},
            is_all=body.are_files_complete,
        )
    )
    return TakenOut(adopted=list(taken.adopted), stopping=list(taken.stopped), removed=list(taken.removed))


@router.post("/{node_id}/prefetch")
async def prefetch(request: Request, parts: PartsIn, node_id: str, body: PrefetchIn) -> PrefetchOut:
    """Have backends of the catalog installed, and files of the cluster's models fetched, on the calling node. What it
    has already is left alone; the rest becomes ordinary operations. The node must be approved and not drained."""
    node = await parts.directory.node(node_id, bearer(request), boot_id=body.boot_id)
    handler = PrefetchHandler(parts.database, parts.catalog, parts.admission, parts.loading.loads)
    entries = [PrefetchEntry(kind=PrefetchKind.BACKEND, name=name) for name in body.backends]
    entries += [PrefetchEntry(kind=PrefetchKind.MODEL, name=name) for name in body.models]
    results = await handler.request(NodeId(node.id), entries)
    return PrefetchOut(
        entries=[
            PrefetchEntryOut(
                kind=result.entry.kind,
                name=result.entry.name,
                state=result.state,
                message=result.message,
                operation_id=result.operation_id,
            )
            for result in results
        ]
    )


def _is_storable(item: ProcessIn) -> bool:
    """Whether a row can hold it. One that cannot was started by nobody of this cluster."""
    texts = (item.model, item.backend, item.version, item.address, item.revision, item.engine_key)
    is_short = len(item.model) <= 255 and len(item.backend) <= 255 and len(item.version) <= 128
    return (
        is_short and len(item.address) <= 255 and len(item.revision) <= 64 and all(text.isprintable() for text in texts)
    )


def _process(item: ProcessIn) -> RunningProcess:
    return RunningProcess(
        key=item.key,
        model=item.model,
        replica=min(item.replica, 2**31 - 1),
        backend=item.backend,
        version=item.version,
        address=item.address,
        pid=item.pid,
        state=item.state,
        restarts=item.restarts,
        revision=item.revision,
        operation_id=item.operation_id,
        threads=min(item.threads, 2**15),
        vram_bytes=item.vram_bytes,
        ram_bytes=item.ram_bytes,
        engine_key=item.engine_key,
        ticket=item.ticket,
    )
