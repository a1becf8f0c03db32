"""Turns a worker's prefetch list into ordinary operations for that machine alone.

Guarantee: an entry becomes an operation only if the catalog has the backend or the cluster has the model, the node
lacks it, and no other operation brings it to the node. Of any number of equal requests one becomes an operation. A
worker cannot restart what an operator has just stopped: an operation that is paused, or ended a few minutes ago, is
the answer to the request. Limit: an operation that fails is not repeated here; retries are the operations' own.
"""

from __future__ import annotations

from collections.abc import Sequence

from corral.domain.backend import AssignmentState, DesiredState
from corral.domain.errors import CorralError, Unavailable
from corral.domain.model import PrefetchEntry, PrefetchKind, PrefetchResult, PrefetchState
from corral.domain.node import Node, NodeId
from corral.domain.operation import Operation, OperationId, OperationKind
from corral.domain.state_words import OPERATION_WORDS, find_word
from corral.loading.admission import ModelAdmissionController, ModelOperationSpec, make_model_scope_key
from corral.operations.backend_plan import BackendOperationSpec, BuildCatalog, make_scope_key, plan
from corral.operations.backend_pool import BackendAdmissionController
from corral.policy.operation_plan import find_refusal
from corral.store import assignments as assignment_store
from corral.store import holdings as staged_store
from corral.store import models as model_store
from corral.store import nodes as node_store
from corral.store import operations as operation_store
from corral.store.database import Database, Transaction

# Keeps a worker that restarts again and again from filling the history with operations.
RECENT_S = 600.0
_ACTOR_LENGTH_MAX = 255


class PrefetchHandler:
    """Starts operations that bring the engine backends and models of a node's prefetch list to the node."""

    def __init__(
        self,
        database: Database,
        catalog: BuildCatalog,
        admission: BackendAdmissionController,
        model_admission: ModelAdmissionController,
    ) -> None:
        self._database = database
        self._catalog = catalog
        self._admission = admission
        self._model_admission = model_admission

    async def request_entries(self, node_id: NodeId, entries: Sequence[PrefetchEntry]) -> list[PrefetchResult]:
        """Return what became of each entry. Raises `Conflict` if the node is pending, drained or an agent."""
        async with self._database.transaction() as tx:
            node = await node_store.get_node(tx, node_id)
        refusal = find_refusal(node)
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
        spec = BackendOperationSpec(kind=OperationKind.BACKEND_INSTALL, backend=entry.name, nodes=(node.id,))
        (target,) = (await plan(tx, spec, self._catalog)).targets
        if target.installed_version is not None:
            return _make_present_result(entry, node)
        for assignment in await assignment_store.list_for_nodes(tx, [node.id]):
            is_open = assignment.state is AssignmentState.OPEN and assignment.desired is not DesiredState.ABSENT
            if assignment.backend == target.backend and is_open:
                return _make_requested_result(entry, assignment.operation_id, "An active operation already brings it.")
        known = await self._find_known(tx, node, make_scope_key(spec, [node.id]), spec.kind)
        if known is not None:
            return _make_known_result(entry, known)
        admitted = await self._admission.admit_in(tx, spec, _make_actor(node))
        return _make_requested_result(entry, admitted.operation.id, "It is being installed.")

    async def _request_model(self, tx: Transaction, node: Node, entry: PrefetchEntry) -> PrefetchResult:
        model = await model_store.get_model(tx, entry.name)
        if model.files is not None:
            contents = {file.sha256 for file in model.files if file.size_bytes}
            staged = await staged_store.list_files(tx, contents) if contents else []
            if contents <= {file.sha256 for file in staged if file.node_id == node.id and file.is_whole}:
                return _make_present_result(entry, node)
        known = await self._find_known(tx, node, make_model_scope_key(model.name), OperationKind.MODEL_STAGE)
        if known is not None:
            return _make_known_result(entry, known)
        spec = ModelOperationSpec(
            kind=OperationKind.MODEL_STAGE, model=model.name, nodes=(node.id,), reason="the node's prefetch list"
        )
        # Not queued behind others: a load of the model would wait for all of them.
        admitted = await self._model_admission.admit_in(tx, spec, _make_actor(node))
        return _make_requested_result(entry, admitted.operation.id, "Its files are being fetched.")

    async def _find_known(self, tx: Transaction, node: Node, key: str, kind: OperationKind) -> Operation | None:
        return await operation_store.find_latest_for_node(tx, node.id, key, kind, ended_within_s=RECENT_S)


def _make_actor(node: Node) -> str:
    return f"node {node.name}"[:_ACTOR_LENGTH_MAX]


def _make_present_result(entry: PrefetchEntry, node: Node) -> PrefetchResult:
    return PrefetchResult(entry=entry, state=PrefetchState.PRESENT, message=f"Node {node.name} has it.")


def _make_known_result(entry: PrefetchEntry, operation: Operation) -> PrefetchResult:
    word = find_word(OPERATION_WORDS, operation.state)
    return _make_requested_result(entry, operation.id, f"Operation {operation.id} for it is {word}.")


def _make_requested_result(entry: PrefetchEntry, operation_id: OperationId, message: str) -> PrefetchResult:
    return PrefetchResult(entry=entry, state=PrefetchState.REQUESTED, message=message, operation_id=operation_id)
