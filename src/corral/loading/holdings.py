"""Reconciles a worker's report of its processes and files with the registry, in both directions.

    listed, with a row          confirmed; a new port is taken over
    listed, without a row       adopted and routed to, if it has the ticket of its load, runs at the node's own
                                address and matches its model and the rule of the model as they are now; else stopped
    a row, not listed twice     the process is gone, and the row is deleted; in the first report of a worker process
                                once is enough, since no start of its predecessor can still be on its way
    started by hand             left alone

Only the current worker process of a node may report. Guarantees: a worker cannot bring a process into service that
the cluster has not commanded, nor send requests to another host (`loading/kinds/commands.py`). A missing answer
removes nothing, and a busy process is left alone: a process that is listed is there. Nodes are locked before
replicas, and operations not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from corral.bus.messages import RunningProcess
from corral.domain.errors import BootSuperseded, NotFound
from corral.domain.node import Node, NodeId, NodeType
from corral.domain.replica import Replica, ReplicaState
from corral.loading.kinds.commands import LoadTicketIssuer
from corral.policy.labels import matches_labels
from corral.policy.node_identity import describe_foreign_address, is_own_address
from corral.ports.runtime import IdGenerator
from corral.store import holdings as store
from corral.store import nodes as node_store
from corral.store import replicas as replica_store
from corral.store import rules as rule_store
from corral.store.database import Database, Transaction, as_uuid

MISSES_MAX = 2
# How late a report may arrive.
LATE_S = 120.0
_READY = "ready"
_S = ReplicaState


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldingsReport:
    """One worker's report to a frontend of the engine processes, models and files on its node.

    `files` None: none were reported.
    """

    node_id: NodeId
    boot_id: str
    processes: tuple[RunningProcess, ...] = ()
    # Model to run hash, and content to size and whether it is whole.
    models: Mapping[str, str] | None = None
    files: Mapping[str, tuple[int, bool]] | None = None
    is_all: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldingsDiff:
    """Differences between a worker's report of its engine processes and the replicas in PostgreSQL.

    Replicas are confirmed, corrected, adopted or missed.
    """

    confirmed: tuple[str, ...] = ()
    corrected: tuple[Replica, ...] = ()
    adopted: tuple[Replica, ...] = ()
    missed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldingsResult:
    """Names the replicas that a frontend adopted, stopped or removed because of a worker's report."""

    adopted: tuple[str, ...] = ()
    stopped: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


async def apply_report(
    database: Database, ids: IdGenerator, tickets: LoadTicketIssuer, report: HoldingsReport
) -> HoldingsResult:
    """Apply one report to the registry and return what it changed."""
    async with database.transaction() as tx:
        node = (await node_store.lock_nodes(tx, [report.node_id])).get(report.node_id)
        if node is None:
            raise NotFound("The node was removed a moment ago.", code="node_not_found")
        if report.boot_id != node.boot_id:
            raise BootSuperseded(
                f"A newer worker process of node {node.name} has registered; messages of this one are ignored."
            )
        if node.approved_at is None or node.type is not NodeType.BACKEND:
            return HoldingsResult()
        await _apply_files(tx, report)
        taken = await _apply_processes(tx, ids, tickets, node, report.processes)
        await store.note_holdings(tx, node.id)
    return taken


async def _apply_files(tx: Transaction, report: HoldingsReport) -> None:
    if report.models is not None:
        await store.replace_models(tx, report.node_id, report.models, is_all=report.is_all)
    if report.files is not None and report.is_all:
        await store.replace_files(tx, report.node_id, report.files)


async def _apply_processes(
    tx: Transaction, ids: IdGenerator, tickets: LoadTicketIssuer, node: Node, processes: Sequence[RunningProcess]
) -> HoldingsResult:
    rows = await replica_store.list_replicas(tx, node.id)
    known = {(row.model, row.index) for row in rows}
    unknown = {process.model for process in processes if (process.model, process.replica) not in known}
    check = AdoptionPolicy(
        node=node,
        hashes=await store.read_run_hashes(tx, unknown),
        selectors=await rule_store.list_selectors(tx, unknown),
        has_ticket=lambda process: tickets.is_valid(node.id, process),
    )
    ended: set[tuple[str, int, str]] = set()
    if unknown:
        # A report that was on its way while a process was stopped still lists it.
        ended = await replica_store.list_just_ended(tx, node.id, LATE_S)
    running = [one for one in processes if (one.model, one.replica, one.address) not in ended]
    settled = diff_holdings(rows, running, check)
    await store.confirm_replicas(tx, settled.confirmed)
    for replica in settled.corrected:
        await store.correct_replica(tx, replica)
    await store.adopt_replicas(tx, [replace(replica, id=ids.new_id()) for replica in settled.adopted])
    missed = await store.count_misses(tx, settled.missed)
    misses_max = MISSES_MAX if node.holdings_at is not None else 1
    missing = [(node_id, model, index) for node_id, model, index, count in missed if count >= misses_max]
    await replica_store.remove_ended_processes(tx, missing, "its worker no longer runs it", may_return=True)
    stopped = [one for one in (*settled.adopted, *settled.corrected) if one.state is _S.UNLOADING]
    return HoldingsResult(
        adopted=tuple(one.process_key for one in settled.adopted if one.state is _S.LOADED),
        stopped=tuple(one.process_key for one in stopped),
        removed=tuple(f"{model}#{index}" for _, model, index in missing),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptionPolicy:
    """Decides whether an engine process that a worker reports and no replica row knows becomes a replica.

    It also decides whether a process that a row knows may have moved. `hashes`: the run hashes of models that may be
    loaded, by name. `selectors`: those of the rules, by model.
    """

    node: Node
    hashes: Mapping[str, str] = field(default_factory=dict)
    selectors: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    has_ticket: Callable[[RunningProcess], bool] = lambda _: False

    def find_refusal(self, process: RunningProcess) -> str:
        """Return why this process is not adopted; '' if it may be."""
        current = self.hashes.get(process.model)
        if current is None:
            return f"There is no model {process.model}, or it is disabled."
        if current != process.revision:
            return "It was loaded before the model was edited."
        if self.node.drained_at is not None:
            return "The node was drained."
        if not matches_labels(self.selectors.get(process.model, {}), self.node.label_map):
            return "The rule of the model does not allow this node."
        if (process.address or process.state == _READY) and not self.is_own(process):
            return self.describe_foreign_address(process)
        return "" if self.has_ticket(process) else "It has no valid ticket of a load on this node."

    def is_own(self, process: RunningProcess) -> bool:
        return is_own_address(self.node, process.address)

    def describe_foreign_address(self, process: RunningProcess) -> str:
        return describe_foreign_address(self.node.name, self.node.address, process.address)


@dataclass(slots=True, kw_only=True)
class _ProcessMatcher:
    """Matches reported processes with replica rows, one by one, and collects what follows for the rows."""

    check: AdoptionPolicy
    confirmed: list[str] = field(default_factory=list)
    corrected: list[Replica] = field(default_factory=list)
    adopted: list[Replica] = field(default_factory=list)

    def add_known(self, row: Replica, process: RunningProcess) -> None:
        if row.state in (_S.STAGING, _S.LOADING):
            return  # The load itself decides about its process.
        is_other = process.revision != row.revision
        has_moved = process.state == _READY and process.address not in ("", row.address)
        if row.state is _S.UNLOADING:
            if is_other or has_moved:
                # The row gets the process, so that the stop finds it; the reason stays.
                self.corrected.append(_with_process(row, process))
            return
        self.confirmed.append(row.id)
        if is_other:
            reason = "Its process was loaded as something else."
            self.corrected.append(replace(_with_process(row, process), state=_S.UNLOADING, stop_reason=reason))
        elif has_moved and not self.check.is_own(process):
            reason = self.check.describe_foreign_address(process)
            self.corrected.append(replace(_with_process(row, process), state=_S.UNLOADING, stop_reason=reason))
        elif has_moved:
            self.corrected.append(_with_process(row, process))

    def add_unknown(self, process: RunningProcess) -> None:
        reason = self.check.find_refusal(process)
        if not reason and process.state != _READY:
            return  # The process matches and is not ready: it is adopted when it is.
        self.adopted.append(_make_adopted_replica(self.check.node, process, reason))


def diff_holdings(rows: Sequence[Replica], processes: Sequence[RunningProcess], check: AdoptionPolicy) -> HoldingsDiff:
    """Return the changes that a report of these processes means for the rows of its node."""
    sorting = _ProcessMatcher(check=check)
    by_place = {(row.model, row.index): row for row in rows}
    listed: set[str] = set()
    for process in processes:
        row = by_place.get((process.model, process.replica))
        if row is not None:
            listed.add(row.id)
        if not process.revision:
            continue
        if row is None:
            sorting.add_unknown(process)
        else:
            sorting.add_known(row, process)
    return HoldingsDiff(
        confirmed=tuple(sorting.confirmed),
        corrected=tuple(sorting.corrected),
        adopted=tuple(sorting.adopted),
        missed=tuple(row.id for row in rows if row.state is _S.LOADED and row.id not in listed),
    )


def _with_process(row: Replica, process: RunningProcess) -> Replica:
    return replace(
        row,
        address=process.address or row.address,
        engine_key=process.engine_key or row.engine_key,
        revision=process.revision,
    )


def _make_adopted_replica(node: Node, process: RunningProcess, reason: str) -> Replica:
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
        stop_reason=f"No load requested it. {reason}" if reason else "",
    )
