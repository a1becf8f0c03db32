"""Applies workers' reports about loads to replicas, in the transaction that writes the target.

Guarantees: a replica is published at the moment its worker's report is written, by whichever frontend, only as its
model is now, only at its node's own address, and only where the rule of the model allows it. A report that was
applied already changes nothing.

The deadline of a load, stored as `deadline_at` with its operation, is extended whenever the load makes progress.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from corral.domain.node import Node
from corral.domain.operation import Fault, JobId, Target, TargetState
from corral.operations.job_reports import BIGINT_MAX, AppliedReport, JobObservation, ReportBatch
from corral.policy.labels import matches_labels
from corral.policy.loads import (
    LoadTimeouts,
    apply_load_observation,
    compute_deadline,
    extend_deadline,
    extend_deadline_for_engine,
    has_moved,
    is_starting_engine,
)
from corral.policy.node_identity import describe_foreign_address, is_own_address
from corral.policy.progress import Observation, TargetChange, TargetSnapshot
from corral.store import loads as store
from corral.store import nodes as node_store
from corral.store import rules as rule_store
from corral.store.database import Transaction
from corral.store.loads import LoadReport

THREADS_MAX = 2**15
# The worker reports an engine on another host than its node's.
FOREIGN_ADDRESS = "foreign_address"
# The rule of the model does not select the node.
RULE_NOT_MET = "rule_not_met"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadReportListener:
    """Applies workers' reports about loads of models to replica rows.

    It does so in the transaction that writes the operation's node.
    """

    timeouts: LoadTimeouts = field(default_factory=LoadTimeouts)

    def apply_observation(self, snapshot: TargetSnapshot, observation: Observation) -> TargetChange | None:
        return apply_load_observation(snapshot, observation)

    async def find_faults(self, tx: Transaction, done: Sequence[tuple[JobObservation, Target]]) -> dict[JobId, Fault]:
        """Return the loads whose engine is not on its node's own host, or on a node that the rule of the model does
        not allow."""
        loads = [(observation, target) for observation, target in done if "address" in observation.result]
        if not loads:
            return {}
        nodes = {node.id: node for node in await node_store.list_nodes(tx, only={target.node for _, target in loads})}
        models = await store.list_models_of(tx, {target.operation_id for _, target in loads})
        selectors = await rule_store.list_selectors(tx, set(models.values()))
        faults: dict[JobId, Fault] = {}
        for observation, target in loads:
            node, model = nodes.get(target.node), models.get((target.operation_id, target.node))
            if node is None or model is None:
                continue
            fault = find_load_fault(node, observation.result["address"], selectors.get(model, {}))
            if fault is not None:
                faults[observation.job_id] = fault
        return faults

    async def on_applied(self, tx: Transaction, batch: ReportBatch) -> None:
        applied = batch.applied
        if not applied:
            return
        moved = [one for one in applied if has_moved(one.previous.progress, one.change.target.progress)]
        starting = [
            one
            for one in moved
            if is_starting_engine(one.change.target.progress) and not is_starting_engine(one.previous.progress)
        ]
        engines = {one.change.target.operation_id for one in starting}
        await extend_deadlines(tx, {one.change.target.operation_id for one in moved}, self.timeouts, engines=engines)
        await store.mark_loaded(tx, [make_load_report(one) for one in _filter_by_state(applied, TargetState.SUCCESS)])
        await store.mark_loading(tx, [make_load_report(one) for one in starting])
        for one in _filter_by_state(applied, TargetState.ERROR):
            fault = one.change.target.fault
            # An engine that runs and must not get requests is stopped; its row stays until it has ended.
            end_load = store.abandon_loads if "address" in one.observation.result else store.drop_failed
            await end_load(tx, [make_load_report(one)], fault.text if fault else "Its load failed.")


def find_load_fault(node: Node, address: str, selector: Mapping[str, str]) -> Fault | None:
    """Return why an engine that a node has started gets no requests; None if it may get them."""
    if not is_own_address(node, address):
        return Fault(code=FOREIGN_ADDRESS, text=describe_foreign_address(node.name, node.address, address))
    if not matches_labels(selector, node.label_map):
        return Fault(code=RULE_NOT_MET, text="The rule of the model no longer allows this node.")
    return None


def _filter_by_state(applied: Sequence[AppliedReport], state: TargetState) -> list[AppliedReport]:
    return [one for one in applied if one.change.target.state is state]


def make_load_report(applied: AppliedReport) -> LoadReport:
    target, result = applied.change.target, applied.observation.result
    return LoadReport(
        operation_id=target.operation_id,
        node_id=target.node,
        address=result.get("address", ""),
        engine_key=result.get("engine_key", ""),
        backend=result.get("backend", ""),
        version=result.get("version", ""),
        vram_bytes=_parse_number(result.get("vram_bytes"), BIGINT_MAX),
        ram_bytes=_parse_number(result.get("ram_bytes"), BIGINT_MAX),
        threads=_parse_number(result.get("threads"), THREADS_MAX),
    )


def _parse_number(text: str | None, most: int) -> int | None:
    """Parse a number that a worker wrote; None for anything else."""
    cleaned = (text or "").strip()
    if not (cleaned.isascii() and cleaned.isdecimal()) or len(cleaned) > 19:
        return None
    return min(int(cleaned), most)


async def extend_deadlines(
    tx: Transaction, operation_ids: Collection[str], timeouts: LoadTimeouts, *, engines: Collection[str] = ()
) -> None:
    """Extend the deadlines of operations that have progressed. `engines`: those of which an engine is starting now,
    which has its own budget. The caller has locked the operations."""
    until = {}
    for row in await store.read_deadlines(tx, operation_ids):
        moment = extend_deadline(row.until or compute_deadline(row.began, timeouts), row.began, row.now, timeouts)
        if row.id in engines:
            moment = extend_deadline_for_engine(moment, row.now, row.budget_s)
        if moment != row.until:
            until[row.id] = moment
    await store.write_deadlines(tx, until)
