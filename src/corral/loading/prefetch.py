"""A worker's prefetch list: what one machine wants on its disk becomes ordinary operations for that machine alone.

Guarantee: an entry becomes an operation only if the catalog has the backend or the cluster has the model, the node
lacks it, and no other operation brings it to the node. Of any number of equal requests one becomes an operation.
A worker gets nothing that an operator has just stopped: an operation that is paused, or ended a few minutes ago, is the
answer to the request. Limit: an operation that fails is not repeated here; retries are the operations' own.
"""

from __future__ import annotations

from collections.abc import Sequence

from corral.domain.backend import AssignmentState, Desired
from corral.domain.errors import CorralError, Unavailable
from corral.domain.node import Node, NodeId
from corral.domain.operation import Operation, OperationId, OperationKind
from corral.domain.prefetch import PrefetchEntry, PrefetchKind, PrefetchResult, PrefetchState
from corral.loading.admission import Loads, scope_of
from corral.loading.request import Wanted
from corral.operations.admission import Admission
from corral.operations.planning import Builds, plan
from corral.operations.request import Asked
from corral.operations.scope import scope_key
from corral.policy.planning import refusal_of
from corral.store import assignments as assignment_store
from corral.store import models as model_store
from corral.store import nodes as node_store
from corral.store import operations as operation_store
from corral.store import staged as staged_store
from corral.store.database import Database, Transaction

# A worker that restarts again and again does not fill the record with operations.
RECENT_S = 600.0
_ACTOR_LENGTH_MAX = 255


class PrefetchHandler:
    """Turns the prefetch list of one node into operations of backends and models."""

    def __init__(self, database: Database, catalog: Builds, admission: Admission, loads: Loads) -> None:
        self._database = database
        self._catalog = catalog
        self._admission = admission
        self._loads = loads

    async def request(self, node_id: NodeId, entries: Sequence[PrefetchEntry]) -> list[PrefetchResult]:
        """Return what became of each entry. Raises `Conflict` if the node is pending, drained or an agent."""
        async with self._database.transaction() as tx:
            node = await node_store.get_node(tx, node_id)
        refusal = refusal_of(node)
        if refusal is not None:
            raise refusal
        return [await self._request_one(node, entry) for entry in dict.fromkeys(entries)]

    async def _request_one(self, node: Node, entry: PrefetchEntry) -> PrefetchResult:
        """Handle an entry in a transaction of its own: one that is refused keeps none of the others back."""
        try:
            async with self._database.transaction() as tx:
                if entry.kind is PrefetchKind.BACKEND:
                    return await self._request_backend(tx, node, entry)
                return await self._request_model(tx, node, entry)
        except Unavailable:
            raise
        except CorralError as refusal:
            return PrefetchResult(entry=entry, state=PrefetchState.REFUSED, message=refusal.message)

    async def _request_backend(self, tx: Transaction, node: Node, entry: PrefetchEntry) -> PrefetchResult:
        asked = Asked(kind=OperationKind.BACKEND_INSTALL, backend=entry.name, nodes=(node.id,))
        (target,) = (await plan(tx, asked, self._catalog)).targets
        if target.installed_version is not None:
            return _present(entry, node)
        for owed in await assignment_store.list_of_nodes(tx, [node.id]):
            is_open = owed.state is AssignmentState.OPEN and owed.desired is not Desired.ABSENT
            if owed.backend == target.backend and is_open:
                return _requested(entry, owed.operation_id, "An operation brings it already.")
        known = await self._find_known(tx, node, scope_key(asked, [node.id]), asked.kind)
        if known is not None:
            return _known(entry, known)
        admitted = await self._admission.admit_in(tx, asked, _actor(node))
        return _requested(entry, admitted.operation.id, "It is being installed.")

    async def _request_model(self, tx: Transaction, node: Node, entry: PrefetchEntry) -> PrefetchResult:
        model = await model_store.get_model(tx, entry.name)
        if model.files is not None:
            contents = {file.sha256 for file in model.files if file.size_bytes}
            staged = await staged_store.list_files(tx, contents) if contents else []
            if contents <= {file.sha256 for file in staged if file.node_id == node.id and file.is_whole}:
                return _present(entry, node)
        known = await self._find_known(tx, node, scope_of(model.name), OperationKind.MODEL_STAGE)
        if known is not None:
            return _known(entry, known)
        wanted = Wanted(
            kind=OperationKind.MODEL_STAGE, model=model.name, nodes=(node.id,), reason="the node's prefetch list"
        )
        # Not behind others: a load of the model would wait for all of them.
        admitted = await self._loads.admit_in(tx, wanted, _actor(node))
        return _requested(entry, admitted.operation.id, "Its files are being fetched.")

    async def _find_known(self, tx: Transaction, node: Node, key: str, kind: OperationKind) -> Operation | None:
        return await operation_store.find_latest_for_node(tx, node.id, key, kind, ended_within_s=RECENT_S)


def _actor(node: Node) -> str:
    return f"node {node.name}"[:_ACTOR_LENGTH_MAX]


def _present(entry: PrefetchEntry, node: Node) -> PrefetchResult:
    return PrefetchResult(entry=entry, state=PrefetchState.PRESENT, message=f"Node {node.name} has it.")


def _known(entry: PrefetchEntry, operation: Operation) -> PrefetchResult:
    return _requested(entry, operation.id, f"Operation {operation.id} for it is {operation.state}.")


def _requested(entry: PrefetchEntry, operation_id: OperationId, message: str) -> PrefetchResult:
    return PrefetchResult(entry=entry, state=PrefetchState.REQUESTED, message=message, operation_id=operation_id)
