"""Admission of operations about models: one at a time for each model, joined by every request for the same.

Guarantee: of any number of requests for a cold model, on any number of frontends, one becomes a load and all others
are given its id. A load or an installation that failed a moment ago is not started again for them: they get its id,
and with it the cause. A request for the opposite is refused, or waits behind if it says so. Admission sends nothing
to a node.

`ModelOperationSpec` is the request as a value, stored whole with the operation, so that a retry repeats it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from corral.domain.errors import Conflict, InvalidRequest
from corral.domain.model import Model
from corral.domain.node import Node
from corral.domain.operation import Operation, OperationId, OperationKind
from corral.domain.replica import ReplicaState
from corral.models.adapters import find_adapter_state, require_whole
from corral.operations.admission import AdmissionController, AdmissionRequest, find_named_nodes
from corral.policy.loads import FRESH
from corral.store import loads as load_store
from corral.store import models as model_store
from corral.store import nodes as node_store
from corral.store import operations as operation_store
from corral.store import replicas as replica_store
from corral.store.database import Transaction

COUNT_MAX = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOperationSpec:
    """Specifies an operation about a model, such as a load: kind, model, nodes, number of replicas.

    Stored whole with the operation.
    """

    kind: OperationKind
    # The model's own name, or an alias.
    model: str
    # For a load: how many more replicas; on different nodes if that is as good, else one after the other on one.
    count: int = 1
    # Names or ids of nodes. None: the best nodes for a load, or all nodes that have the model.
    nodes: tuple[str, ...] | None = None
    # Why the model is needed, as text.
    reason: str = ""
    # The model's run hash at the time of the request.
    run_hash: str = ""
    # For a load: an existing replica is enough.
    if_cold: bool = False
    # For the load of a rule: this many replicas in total are enough, however they were created.
    enough: int | None = None
    # For an unloading: running requests are not waited for.
    is_forced: bool = False
    # For an unloading: these nodes also remove their copies of the model's files. The model itself stays.
    removes_files: bool = False

    @property
    def subject(self) -> str:
        return self.model

    @property
    def deadline_s(self) -> float | None:
        """Return None: a load extends a deadline of its own as it progresses, and the others have none."""
        return None

    def check(self) -> None:
        """Raise if the request is invalid by itself, without a look at the registry."""
        if not 1 <= self.count <= COUNT_MAX:
            raise InvalidRequest(f"Between 1 and {COUNT_MAX} replicas can be requested.", code="bad_count")
        if self.nodes is not None and not self.nodes:
            raise InvalidRequest(
                "The list of nodes is empty.",
                hint="Leave the list out to let Corral choose, or to mean all of them.",
                code="no_nodes",
            )

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": str(self.kind),
            "model": self.model,
            "count": self.count,
            "nodes": None if self.nodes is None else list(self.nodes),
            "reason": self.reason,
            "run_hash": self.run_hash,
            "if_cold": self.if_cold,
            "enough": self.enough,
            "is_forced": self.is_forced,
            "removes_files": self.removes_files,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> ModelOperationSpec:
        nodes = value.get("nodes")
        return cls(
            kind=OperationKind(value["kind"]),
            model=value["model"],
            count=value.get("count", 1),
            nodes=None if nodes is None else tuple(nodes),
            reason=value.get("reason", ""),
            run_hash=value.get("run_hash", ""),
            if_cold=value.get("if_cold", False),
            enough=value.get("enough"),
            is_forced=value.get("is_forced", False),
            removes_files=value.get("removes_files", False),
        )


_K = OperationKind
REQUESTS = "requests"
# Kinds of operations that a load is not refused for: it continues with their files.
_BRINGS_FILES = frozenset({_K.MODEL_INSTALL, _K.MODEL_STAGE})
# The active operations that already do what a request of each kind is for.
_JOINED: dict[OperationKind, frozenset[OperationKind]] = {
    _K.MODEL_LOAD: frozenset({_K.MODEL_LOAD}),
    _K.MODEL_INSTALL: frozenset({_K.MODEL_INSTALL, _K.MODEL_LOAD}),
    _K.MODEL_STAGE: frozenset({_K.MODEL_STAGE}),
    _K.MODEL_UNLOAD: frozenset({_K.MODEL_UNLOAD}),
    _K.MODEL_DELETE: frozenset({_K.MODEL_DELETE}),
}


def make_model_scope_key(model: str) -> str:
    return f"model:{model}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAdmissionRequest(AdmissionRequest[ModelOperationSpec]):
    """A checked request for an operation about a model, with names made exact, and the model."""

    model: Model


class ModelAdmissionController(AdmissionController[ModelOperationSpec, ModelAdmissionRequest]):
    """Admits requests for operations about models: one at a time for each model, joined by equal requests."""

    scope_words = "the same model"

    async def request_load(self, model: str) -> OperationId:
        """Admit a load for a request that finds no replica. Implements `ports.requests.LoadRequester`."""
        spec = ModelOperationSpec(kind=_K.MODEL_LOAD, model=model, reason="a request", if_cold=True)
        return (await self.admit(spec, REQUESTS, queue_behind=True)).operation.id

    def _parse_retry(self, stored_request: Mapping[str, Any]) -> ModelOperationSpec:
        """Return exactly the same spec. An admin requests it now, so a failure of a moment ago is no answer to it."""
        return replace(ModelOperationSpec.from_json(stored_request), if_cold=False, enough=None)

    async def _resolve(self, tx: Transaction, spec: ModelOperationSpec) -> ModelAdmissionRequest:
        named = await model_store.get_model(tx, spec.model)
        if named.config.base and named.files is None and spec.kind is _K.MODEL_LOAD:
            # Its base can take it when the files are known.
            spec = replace(spec, kind=_K.MODEL_INSTALL, nodes=None, count=1, if_cold=False, enough=None)
        model = await find_engine_model(tx, named, spec.kind)
        nodes = await list_named_nodes(tx, spec)
        _check_enabled(model, spec)
        exact = replace(
            spec,
            model=model.name,
            run_hash=model.run_hash,
            nodes=None if nodes is None else tuple(sorted(node.id for node in nodes)),
        )
        key = make_model_scope_key(model.name)
        return ModelAdmissionRequest(spec=exact, scope_key=key, nodes=nodes, model=model)

    def _find_joined(self, request: ModelAdmissionRequest, chain: Sequence[Operation]) -> Operation | None:
        """Return the active operation that does the same, unless a later one in the chain undoes it."""
        spec = request.spec
        for operation in reversed(chain):
            if operation.kind in _JOINED[spec.kind] and _is_for_same_nodes(spec, operation):
                return operation
            if operation.kind.is_deletion is not spec.kind.is_deletion:
                return None
        return None

    async def _find_recent(self, tx: Transaction, request: ModelAdmissionRequest) -> Operation | None:
        """Return the load that has just brought the model, or the load or installation that has just failed to."""
        model = request.model
        if not request.spec.if_cold:
            return None
        for replica in await replica_store.list_replicas(tx, model=model.name):
            if replica.state is ReplicaState.LOADED and replica.revision == model.run_hash and replica.operation_id:
                known = await operation_store.find(tx, replica.operation_id)
                if known is not None:
                    return known
        for kind in (_K.MODEL_LOAD, _K.MODEL_INSTALL):
            failed = await load_store.find_last_failed(tx, request.scope_key, kind)
            if failed is not None and failed[1] <= FRESH.total_seconds():
                # A model that was edited since then deserves another try.
                return failed[0] if failed[0].request.get("run_hash") == model.run_hash else None
        return None

    def _must_queue_behind(self, request: ModelAdmissionRequest, rival: Operation) -> bool:
        return request.spec.kind is _K.MODEL_LOAD and rival.kind in _BRINGS_FILES

    async def _find_paused(self, tx: Transaction, request: ModelAdmissionRequest) -> Operation | None:
        spec = request.spec
        for paused in await operation_store.list_paused(tx, request.scope_key):
            if paused.kind is spec.kind and _is_for_same_nodes(spec, paused):
                if spec.if_cold:
                    raise Conflict(
                        f"The load of {spec.model} was paused by an admin.",
                        hint=f"Resume it: corral operations resume {paused.id}",
                        code="load_paused",
                        details={"operation_id": paused.id},
                    )
                return paused
        return None

    async def _restart(self, tx: Transaction, operation: Operation, values: Mapping[str, Any]) -> Operation:
        """Write the values. The node is chosen again; a node that has part of the files already is the likeliest."""
        return await operation_store.update_operation(tx, operation.id, {**values, "deadline_at": None})


async def find_engine_model(tx: Transaction, model: Model, kind: OperationKind) -> Model:
    """Return the model that an operation is really about: an adapter is loaded with its base. Raises for what only the
    base can do, and for an adapter that has no base, or that no engine of the base loads."""
    base_name = model.config.base
    if kind is _K.MODEL_LOAD and not base_name:
        require_whole(model)
    if not base_name or kind in (_K.MODEL_INSTALL, _K.MODEL_DELETE):
        return model
    if kind is not _K.MODEL_LOAD:
        raise Conflict(
            f"{model.name} is an adapter: it is on the nodes of its base {base_name}.",
            hint=f"Do it with {base_name}.",
            code="is_adapter",
            details={"base": base_name},
        )
    _check_enabled(model, ModelOperationSpec(kind=kind, model=model.name))
    state = await find_adapter_state(tx, model)
    if not state.is_attached:
        raise Conflict(
            f"The adapter {model.name} is not in the engines of {state.base}: {state.problem or 'it is disabled.'}",
            hint=f"corral models show {model.name}",
            code="adapter_detached",
        )
    return await model_store.get_model(tx, base_name)


async def list_named_nodes(tx: Transaction, spec: ModelOperationSpec) -> list[Node] | None:
    """Return the nodes that a spec names, each once; None if it names none. Raises if one does not exist."""
    if spec.nodes is None:
        return None
    return find_named_nodes(spec.nodes, await node_store.list_by_reference(tx, spec.nodes))


def _check_enabled(model: Model, spec: ModelOperationSpec) -> None:
    if spec.kind is _K.MODEL_LOAD and not model.config.is_enabled:
        raise Conflict(
            f"Model {model.name} is disabled.", hint=f"corral models enable {model.name}", code="model_disabled"
        )


def _is_for_same_nodes(spec: ModelOperationSpec, operation: Operation) -> bool:
    """Return whether an operation covers the nodes of a spec. A load without nodes accepts any; an unloading is about
    exactly the named ones."""
    other = ModelOperationSpec.from_json(operation.request)
    if spec.kind.is_deletion:
        return (spec.nodes, spec.is_forced, spec.removes_files) == (
            other.nodes,
            other.is_forced,
            other.removes_files,
        )
    if spec.kind is _K.MODEL_INSTALL and operation.kind is _K.MODEL_LOAD:
        return spec.nodes is None
    return spec.nodes is None or spec.nodes == other.nodes
