"""What a worker says that it runs and holds, held against the registry, in both directions.

    listed, with a row          confirmed; a new address is taken over
    listed, without a row       as its model is now: adopted, and gets requests. Else it is nobody's, and is stopped
    a row, not listed twice     its process is gone, and so is the row
    started by hand             left alone

Only the present process of a node is heard. Guarantees: no answer removes nothing, and being busy is no reason for
anything: a process that is listed is there. Nodes are locked before replicas, and operations not at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from corral.bus.messages import RunningProcess
from corral.domain.errors import BootSuperseded, NotFound
from corral.domain.node import Node, NodeId, NodeType
from corral.domain.replica import Replica, ReplicaState
from corral.ports.runtime import Ids
from corral.store import nodes as node_store
from corral.store import replicas as replica_store
from corral.store import staged as store
from corral.store.database import Database, Transaction, as_uuid

MISSES_MAX = 2
# How late a report may be.
LATE_S = 120.0
_READY = "ready"
_S = ReplicaState


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """One report. `files` None: nothing was said about files."""

    node_id: NodeId
    boot_id: str
    processes: tuple[RunningProcess, ...] = ()
    # Model to run hash, and content to size and whether it is whole.
    models: Mapping[str, str] | None = None
    files: Mapping[str, tuple[int, bool]] | None = None
    is_all: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What a report means for the rows."""

    confirmed: tuple[str, ...] = ()
    corrected: tuple[Replica, ...] = ()
    adopted: tuple[Replica, ...] = ()
    missed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    adopted: tuple[str, ...] = ()
    stopped: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


async def take(database: Database, ids: Ids, report: Holdings) -> Taken:
    """Write down one report."""
    async with database.transaction() as tx:
        node = (await node_store.lock_nodes(tx, [report.node_id])).get(report.node_id)
        if node is None:
            raise NotFound("The node has just been removed.", code="node_not_found")
        if report.boot_id != node.boot_id:
            raise BootSuperseded(
                f"A newer worker process of node {node.name} has registered; this one is no longer heard."
            )
        if node.approved_at is None or node.type is not NodeType.BACKEND:
            return Taken()
        await _take_files(tx, report)
        taken = await _take_processes(tx, ids, node, report.processes)
        await store.note_holdings(tx, node.id)
    return taken


async def _take_files(tx: Transaction, report: Holdings) -> None:
    if report.models is not None:
        await store.replace_models(tx, report.node_id, report.models, is_all=report.is_all)
    if report.files is not None and report.is_all:
        await store.replace_files(tx, report.node_id, report.files)


async def _take_processes(tx: Transaction, ids: Ids, node: Node, processes: Sequence[RunningProcess]) -> Taken:
    rows = await replica_store.list_replicas(tx, node.id)
    hashes = await store.run_hashes(tx, [process.model for process in processes])
    known = {(row.model, row.index) for row in rows}
    ended: set[tuple[str, int, str]] = set()
    if any((process.model, process.replica) not in known for process in processes):
        # A report that was on its way while a process was ended still lists it.
        ended = await replica_store.list_just_ended(tx, node.id, LATE_S)
    there = [one for one in processes if (one.model, one.replica, one.address) not in ended]
    settled = settle(node, rows, there, hashes)
    await store.confirm(tx, settled.confirmed)
    for replica in settled.corrected:
        await store.correct(tx, replica)
    await store.adopt(tx, [replace(replica, id=ids.new_id()) for replica in settled.adopted])
    missed = await store.miss(tx, settled.missed)
    gone = [(node_id, model, index) for node_id, model, index, count in missed if count >= MISSES_MAX]
    await replica_store.remove_ended(tx, gone, "its worker does not run it any more", may_return=True)
    stopped = [one for one in (*settled.adopted, *settled.corrected) if one.state is _S.UNLOADING]
    return Taken(
        adopted=tuple(one.process_key for one in settled.adopted if one.state is _S.LOADED),
        stopped=tuple(one.process_key for one in stopped),
        removed=tuple(f"{model}#{index}" for _, model, index in gone),
    )


@dataclass(slots=True, kw_only=True)
class _Sorting:
    node: Node
    hashes: Mapping[str, str]
    confirmed: list[str] = field(default_factory=list)
    corrected: list[Replica] = field(default_factory=list)
    adopted: list[Replica] = field(default_factory=list)

    def known(self, row: Replica, process: RunningProcess) -> None:
        if row.state in (_S.STAGING, _S.LOADING):
            return  # The load itself says what becomes of it.
        is_other = process.revision != row.revision
        has_moved = process.state == _READY and process.address not in ("", row.address)
        if row.state is _S.UNLOADING:
            if is_other or has_moved:
                # So that the stop finds it; the reason stays.
                self.corrected.append(_as_running(row, process))
            return
        self.confirmed.append(row.id)
        if is_other:
            reason = "Its process was loaded as something else."
            self.corrected.append(replace(_as_running(row, process), state=_S.UNLOADING, stop_reason=reason))
        elif has_moved:
            self.corrected.append(_as_running(row, process))

    def unknown(self, process: RunningProcess) -> None:
        wanted = self.hashes.get(process.model)
        reason = ""
        if wanted is None:
            reason = f"There is no model {process.model}, or it is disabled."
        elif wanted != process.revision:
            reason = "It was loaded before the model was edited."
        elif self.node.drained_at is not None:
            reason = "The node was drained."
        elif process.state != _READY:
            return  # It is as it should be and not ready: adopted when it is.
        self.adopted.append(_found(self.node, process, reason))


def settle(
    node: Node, rows: Sequence[Replica], processes: Sequence[RunningProcess], hashes: Mapping[str, str]
) -> Settled:
    """`hashes`: the run hashes of the models that these processes name, as far as there are such models."""
    sorting = _Sorting(node=node, hashes=hashes)
    by_place = {(row.model, row.index): row for row in rows}
    listed: set[str] = set()
    for process in processes:
        row = by_place.get((process.model, process.replica))
        if row is not None:
            listed.add(row.id)
        if not process.revision:
            continue
        if row is None:
            sorting.unknown(process)
        else:
            sorting.known(row, process)
    return Settled(
        confirmed=tuple(sorting.confirmed),
        corrected=tuple(sorting.corrected),
        adopted=tuple(sorting.adopted),
        missed=tuple(row.id for row in rows if row.state is _S.LOADED and row.id not in listed),
    )


def _as_running(row: Replica, process: RunningProcess) -> Replica:
    return replace(
        row,
        address=process.address or row.address,
        engine_key=process.engine_key or row.engine_key,
        revision=process.revision,
    )


def _found(node: Node, process: RunningProcess, reason: str) -> Replica:
    return Replica(
        id="",
        node_id=node.id,
        model=process.model,
        index=process.replica,
        state=_S.UNLOADING if reason else _S.LOADED,
        address=process.address,
        revision=process.revision,
        engine_key=process.engine_key,
        backend=process.backend,
        version=process.version,
        operation_id=as_uuid(process.operation_id),
        vram_bytes=process.vram_bytes,
        ram_bytes=process.ram_bytes,
        threads=process.threads,
        stop_reason=f"Nobody asked for it. {reason}" if reason else "",
    )
