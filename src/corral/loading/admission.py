"""Asking for something of a model: one operation at a time for each model, joined by everybody who wants the same.

Guarantee: of any number of requests for a cold model, on any number of frontends, one becomes a load and all others are
given its id. A load or an installation that failed a moment ago is not begun again for them: they get its id, and with
it the cause.
What wants the opposite is refused, or waits behind if it was asked to. Nothing is sent to a node here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from corral.domain.errors import Conflict, InvalidRequest, NotFound
from corral.domain.model import Model
from corral.domain.node import Node, NodeId
from corral.domain.operation import Operation, OperationId, OperationKind
from corral.domain.replica import ReplicaState
from corral.loading.request import Wanted
from corral.operations.admission import Admitted, check_chain, in_progress, write
from corral.operations.resuming import resume_paused
from corral.policy.loading import FRESH
from corral.ports.runtime import Ids
from corral.store import loads as load_store
from corral.store import models as model_store
from corral.store import nodes as node_store
from corral.store import operations as operation_store
from corral.store import replicas as replica_store
from corral.store.database import Database, Transaction, as_uuid
from corral.store.operations import NewOperation

_K = OperationKind
COUNT_MAX = 1000
REQUESTS = "requests"
# What a load need not be refused for: it goes on from there.
_BRINGS_FILES = frozenset({_K.MODEL_INSTALL, _K.MODEL_STAGE})
# Which operations under way are all that was wanted.
_JOINED: dict[OperationKind, frozenset[OperationKind]] = {
    _K.MODEL_LOAD: frozenset({_K.MODEL_LOAD}),
    _K.MODEL_INSTALL: frozenset({_K.MODEL_INSTALL, _K.MODEL_LOAD}),
    _K.MODEL_STAGE: frozenset({_K.MODEL_STAGE}),
    _K.MODEL_UNLOAD: frozenset({_K.MODEL_UNLOAD}),
    _K.MODEL_DELETE: frozenset({_K.MODEL_DELETE}),
}


def scope_of(model: str) -> str:
    return f"model:{model}"


class Loads:
    def __init__(self, database: Database, ids: Ids) -> None:
        self._database = database
        self._ids = ids

    async def ask(self, model: str) -> OperationId:
        """For a request that finds no replica; `ports.loads.Loads`."""
        wanted = Wanted(kind=_K.MODEL_LOAD, model=model, reason="a request", if_cold=True)
        return (await self.admit(wanted, REQUESTS, queue_behind=True)).operation.id

    async def admit(self, wanted: Wanted, actor: str, *, queue_behind: bool = False) -> Admitted:
        async with self._database.transaction() as tx:
            return await self.admit_in(tx, wanted, actor, queue_behind=queue_behind)

    async def again(self, tx: Transaction, old: Operation, actor: str) -> Admitted:
        """Exactly the same once more. It is an admin's wish now, so a failure of a moment ago is no answer to it."""
        wanted = replace(Wanted.from_json(old.request), if_cold=False, enough=None)
        return await self.admit_in(tx, wanted, actor, retry_of=old.id)

    async def admit_in(
        self,
        tx: Transaction,
        wanted: Wanted,
        actor: str,
        *,
        queue_behind: bool = False,
        retry_of: OperationId | None = None,
    ) -> Admitted:
        """As a part of a larger change. Refused as a whole, or written."""
        check(wanted)
        model = await model_store.get_model(tx, wanted.model)
        nodes = await named_nodes(tx, wanted)
        _check_enabled(model, wanted)
        wanted = replace(
            wanted,
            model=model.name,
            run_hash=model.run_hash,
            nodes=None if nodes is None else tuple(sorted(node.id for node in nodes)),
        )
        key = scope_of(model.name)
        await operation_store.lock_scope(tx, key)
        chain = await operation_store.list_active(tx, key)
        joined = _joined(wanted, chain)
        if joined is not None:
            return Admitted(operation=await operation_store.get(tx, joined.id), is_duplicate=True)
        if wanted.if_cold and (known := await self._already(tx, model, key)) is not None:
            return Admitted(operation=known, is_duplicate=True)
        if chain and not queue_behind and not (wanted.kind is _K.MODEL_LOAD and chain[-1].kind in _BRINGS_FILES):
            raise in_progress(chain[-1], "the same model")
        check_chain(chain)
        if not chain and (paused := await self._paused(tx, wanted, key)) is not None:
            resumed = await resume_paused(tx, paused, self._ids, actor)
            return Admitted(operation=resumed, is_duplicate=True, is_resumed=True)
        return Admitted(operation=await write(tx, self._new(wanted, nodes, key, actor), chain, retry_of))

    async def _already(self, tx: Transaction, model: Model, key: str) -> Operation | None:
        """The load that has just brought what is wanted, or the load or installation that has just failed to."""
        for replica in await replica_store.list_replicas(tx, model=model.name):
            if replica.state is ReplicaState.LOADED and replica.revision == model.run_hash and replica.operation_id:
                known = await operation_store.find(tx, replica.operation_id)
                if known is not None:
                    return known
        for kind in (_K.MODEL_LOAD, _K.MODEL_INSTALL):
            failed = await load_store.find_last(tx, key, kind)
            if failed is not None and failed[1] <= FRESH.total_seconds():
                # An edit since then is another try.
                return failed[0] if failed[0].request.get("run_hash") == model.run_hash else None
        return None

    async def _paused(self, tx: Transaction, wanted: Wanted, key: str) -> Operation | None:
        for paused in await operation_store.find_paused(tx, key):
            if paused.kind is wanted.kind and _is_same_place(wanted, paused):
                if wanted.if_cold:
                    raise Conflict(
                        f"The load of {wanted.model} was paused by an admin.",
                        hint=f"Go on with it: corral operations resume {paused.id}",
                        code="load_paused",
                        details={"operation_id": paused.id},
                    )
                return paused
        return None

    def _new(self, wanted: Wanted, nodes: Sequence[Node] | None, key: str, actor: str) -> NewOperation:
        only = nodes[0] if nodes is not None and len(nodes) == 1 else None
        return NewOperation(
            id=OperationId(self._ids.new_id()),
            kind=wanted.kind,
            subject=wanted.model,
            scope_key=key,
            scope_node=only.id if only else None,
            scope_node_name=only.name if only else "",
            request=wanted.to_json(),
            created_by=actor,
        )


def check(wanted: Wanted) -> None:
    """What can be said of a wish without looking at anything."""
    if not 1 <= wanted.count <= COUNT_MAX:
        raise InvalidRequest(f"Between 1 and {COUNT_MAX} replicas can be asked for.", code="bad_count")
    if wanted.nodes is not None and not wanted.nodes:
        raise InvalidRequest(
            "The list of nodes is empty.",
            hint="Leave the list out to let Corral choose, or to mean all of them.",
            code="no_nodes",
        )


async def named_nodes(tx: Transaction, wanted: Wanted) -> list[Node] | None:
    """The nodes of a wish by id or name, each once; one that does not exist refuses it."""
    if wanted.nodes is None:
        return None
    known = await node_store.list_named(tx, wanted.nodes)
    by_id, by_name = {node.id: node for node in known}, {node.name: node for node in known}
    found: dict[str, Node] = {}
    for reference in wanted.nodes:
        node = by_id.get(NodeId(as_uuid(reference) or "")) or by_name.get(reference)
        if node is None:
            raise NotFound(
                f"There is no node {reference[:80]!r}.",
                hint="`corral nodes list` shows the nodes.",
                code="node_not_found",
            )
        found[node.id] = node
    return list(found.values())


def _check_enabled(model: Model, wanted: Wanted) -> None:
    if wanted.kind is _K.MODEL_LOAD and not model.config.is_enabled:
        raise Conflict(
            f"Model {model.name} is disabled.", hint=f"corral models enable {model.name}", code="model_disabled"
        )


def _joined(wanted: Wanted, chain: Sequence[Operation]) -> Operation | None:
    """The operation that will do what is wanted, unless something comes after it that undoes it."""
    for operation in reversed(chain):
        if operation.kind in _JOINED[wanted.kind] and _is_same_place(wanted, operation):
            return operation
        if operation.kind.is_deletion is not wanted.kind.is_deletion:
            return None
    return None


def _is_same_place(wanted: Wanted, operation: Operation) -> bool:
    """Whoever names no node is content with any; an unloading is about exactly what it names."""
    other = Wanted.from_json(operation.request)
    if wanted.kind.is_deletion:
        return (wanted.nodes, wanted.is_forced, wanted.removes_files) == (
            other.nodes,
            other.is_forced,
            other.removes_files,
        )
    if wanted.kind is _K.MODEL_INSTALL and operation.kind is _K.MODEL_LOAD:
        return wanted.nodes is None
    return wanted.nodes is None or wanted.nodes == other.nodes
