"""Says from where a node fetches the files of a model for a run, and has them fetched into the library first.

Limit: the node keeps its copy as if the model had been staged there; it goes with the model, or when the disk is full.
"""

from __future__ import annotations

from dataclasses import dataclass

from corral.bus.messages import BlobSource, ModelFileItem
from corral.domain.errors import Unprocessable
from corral.domain.model import Model
from corral.domain.node import Node, NodeId
from corral.domain.operation import OPEN, Operation, OperationId, OperationKind, OperationState
from corral.loading.admission import ModelAdmissionController, ModelOperationSpec
from corral.loading.fetches import is_available
from corral.loading.kinds.commands import BlobSourceResolver, list_file_items
from corral.loading.placer import PlacementSnapshot, Placer, list_file_holders
from corral.policy.loads import pick_sources
from corral.store import holdings as staged_store
from corral.store import models as model_store
from corral.store import operations as operation_store
from corral.store.database import Database

REASON = "a program on a node reads them"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFileSources:
    """The files of a model with the addresses that a node fetches them from, or the operation that brings them into the
    library."""

    model: Model
    files: tuple[ModelFileItem, ...] = ()
    sources: tuple[BlobSource, ...] = ()
    # None: the files are available.
    fetch: Operation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFileSourceProvider:
    """Provides the files of models to nodes that execute runs."""

    database: Database
    placer: Placer
    admission: ModelAdmissionController
    blob_sources: BlobSourceResolver

    async def provide(
        self, model: str, node_id: NodeId, actor: str, fetch_id: OperationId | None = None
    ) -> ModelFileSources:
        """Return the sources, or the operation that fetches the files. `fetch_id`: the operation that the last call has
        returned. Raises `Unprocessable` if it has failed."""
        async with self.database.transaction() as tx:
            found = await model_store.get_model(tx, model)
            snapshot = await self.placer.read_snapshot(tx, found)
            if is_available(found, snapshot.in_library, snapshot.staged):
                await staged_store.cancel_removals(tx, [(node_id, found.name)])
                await staged_store.put_models(tx, [(node_id, found.name, found.run_hash)])
                fetch = None
            else:
                earlier = await operation_store.find(tx, fetch_id) if fetch_id else None
                fetch = earlier if earlier is not None and earlier.state is not OperationState.COMPLETED else None
                if fetch is None:
                    spec = ModelOperationSpec(kind=OperationKind.MODEL_INSTALL, model=found.name, reason=REASON)
                    fetch = (await self.admission.admit_in(tx, spec, actor)).operation
        if fetch is not None:
            _check_fetch(fetch)
            return ModelFileSources(model=found, fetch=fetch)
        return await self._resolve(found, node_id, snapshot)

    async def _resolve(self, model: Model, node_id: NodeId, snapshot: PlacementSnapshot) -> ModelFileSources:
        nodes: dict[NodeId, Node] = dict(snapshot.nodes)
        holders = pick_sources([node_id], list_file_holders(model, snapshot)).get(node_id, ())
        sources = await self.blob_sources.resolve(node_id, holders, nodes, model)
        return ModelFileSources(model=model, files=list_file_items(model), sources=sources)


def _check_fetch(fetch: Operation) -> None:
    """Raise if the files will not come."""
    if fetch.state not in OPEN and fetch.state is not OperationState.COMPLETED:
        text = fetch.fault.text if fetch.fault is not None else fetch.message
        raise Unprocessable(
            f"The files of {fetch.subject} could not be fetched: {text}",
            hint=f"corral operations show {fetch.id}",
            code=fetch.fault.code if fetch.fault is not None else "fetch_failed",
        )
