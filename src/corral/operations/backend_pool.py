"""The pool of backend operations: how they are admitted, planned, decided, sent and reported on.

Admission plans a request before it is accepted, so that one that no node can fulfil is refused. A request joins the
last active operation of its scope if that has the same intent, and hastens the changes that it has pending. A paused
operation is resumed with the same nodes and builds: a worker has ended the old job, so each target gets a new one with
a newer generation, and the worker continues from the bytes that it kept. Targets whose node has been drained or removed
meanwhile end with that reason.

A step turns what `policy/dispatch.py` decides into rows and commands. Guarantee: after a failure no assignment is left
that could run later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from corral.domain.backend import DesiredState
from corral.domain.errors import Conflict, CorralError, NotFound, Unavailable
from corral.domain.node import Node, NodeId
from corral.domain.operation import Fault, JobId, Operation, OperationState, Target, TargetState
from corral.operations.admission import AdmissionController, AdmissionRequest, find_named_nodes
from corral.operations.backend_plan import (
    BackendOperationPlan,
    BackendOperationSpec,
    BuildCatalog,
    FleetSnapshot,
    is_same_request,
    make_scope_key,
    plan,
    plan_targets,
    read_fleet,
)
from corral.operations.command_sender import CommandSender
from corral.operations.driver import AdvanceResult, CommandCall, OperationPool, PoolHandler, make_failed_verdict
from corral.operations.job_reports import JobObservation, ReportBatch, add_change_notes
from corral.policy.dispatch import DispatchDecision, OperationView, conclude, decide
from corral.policy.gallery import build_from_json
from corral.policy.operation_plan import PlannedTarget, compute_desired
from corral.policy.progress import Observation, TargetChange, TargetEnd, TargetSnapshot, apply_observation
from corral.ports.runtime import IdGenerator
from corral.store import assignments as assignment_store
from corral.store import dispatch as store
from corral.store import nodes as node_store
from corral.store import operations as operation_store
from corral.store import replicas as replica_store
from corral.store.database import Database, Transaction
from corral.store.dispatch import OperationLease

# Limits how many ends may follow from one another: a node removed, then later waves skipped, then a rollback begun.
ROUNDS_MAX = 4
SKIPPED_SHOWN = 50
# Refusals that depend on what nodes have now.
_MAY_CHANGE = frozenset({"backend_not_installed", "already_current"})


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendAdmissionRequest(AdmissionRequest[BackendOperationSpec]):
    """A checked request for an engine backend operation, with the nodes and backends that it can concern."""

    fleet: FleetSnapshot


class BackendAdmissionController(AdmissionController[BackendOperationSpec, BackendAdmissionRequest]):
    """Admits requests for backend operations, such as an installation; says what joins and what is refused."""

    scope_words = "the same nodes"

    def __init__(self, database: Database, catalog: BuildCatalog, ids: IdGenerator) -> None:
        super().__init__(database, ids)
        self._catalog = catalog

    async def plan(self, spec: BackendOperationSpec) -> BackendOperationPlan:
        """Return what the operation would do to which node; nothing is written."""
        async with self._database.transaction() as tx:
            return await plan(tx, spec, self._catalog)

    def _parse_retry(self, stored_request: Mapping[str, Any]) -> BackendOperationSpec:
        return BackendOperationSpec.from_json(stored_request)

    async def _resolve(self, tx: Transaction, spec: BackendOperationSpec) -> BackendAdmissionRequest:
        fleet = await read_fleet(tx, spec)
        named = None if spec.nodes is None else find_named_nodes(spec.nodes, fleet.nodes)
        key = make_scope_key(spec, None if named is None else [node.id for node in named])
        return BackendAdmissionRequest(spec=spec, scope_key=key, nodes=named, fleet=fleet)

    def _find_joined(self, request: BackendAdmissionRequest, chain: Sequence[Operation]) -> Operation | None:
        return chain[-1] if chain and is_same_request(request.spec, chain[-1].request) else None

    async def _on_joined(self, tx: Transaction, operation: Operation) -> None:
        await assignment_store.hasten(tx, operation.id)

    def _check_possible(self, request: BackendAdmissionRequest, *, is_first: bool) -> None:
        """Raise if no node could fulfil the request. A request that waits behind another operation is planned when its
        turn comes: until then the other operation may bring what is missing."""
        fleet = request.fleet
        try:
            plan_targets(request.spec, fleet.nodes, fleet.installed, self._catalog, assignments=fleet.assignments)
        except (Conflict, NotFound) as refusal:
            if is_first or refusal.slug not in _MAY_CHANGE:
                raise

    async def _find_paused(self, tx: Transaction, request: BackendAdmissionRequest) -> Operation | None:
        for paused in await operation_store.list_paused(tx, request.scope_key):
            if is_same_request(request.spec, paused.request):
                return paused
        return None

    async def _restart(self, tx: Transaction, operation: Operation, values: Mapping[str, Any]) -> Operation:
        operation = await operation_store.update_operation(tx, operation.id, values)
        put_aside = [target for target in operation.targets if _is_paused_target(target)]
        present = await node_store.list_nodes(tx, only=[target.node for target in put_aside])
        await assignment_store.assign(tx, operation, _plan_paused_targets(operation, put_aside, present), self._ids)
        await assignment_store.end_missing(tx, operation.id)
        return operation


def _is_paused_target(target: Target) -> bool:
    """Return whether a target was stopped by a pause, not cancelled for good."""
    return target.state is TargetState.CANCELLED and target.keeps_partial


def _plan_paused_targets(
    operation: Operation, targets: Sequence[Target], present: Sequence[Node]
) -> list[PlannedTarget]:
    nodes: dict[NodeId, Node] = {node.id: node for node in present}
    planned: list[PlannedTarget] = []
    for target in targets:
        # A removal that has begun is never paused, so every paused target has its build.
        if target.node in nodes and target.build is not None:
            build = build_from_json(target.build)
            planned.append(
                PlannedTarget(
                    node=nodes[target.node],
                    backend=build.name,
                    desired=DesiredState.ROLLED_BACK
                    if target.is_rollback
                    else compute_desired(operation.kind, target.previous),
                    build=build,
                    previous=target.previous,
                    wave=target.wave,
                    fetch_bytes=target.progress.total_bytes,
                )
            )
    return planned


class BackendPoolHandler(PoolHandler[OperationView]):
    """Drives engine backend operations in a frontend: decides by `policy/dispatch.py`, and sends jobs to workers.

    Sends, queries and stops jobs by the pending changes of nodes.
    """

    def __init__(self, sender: CommandSender, catalog: BuildCatalog, ids: IdGenerator) -> None:
        self._sender = sender
        self._catalog = catalog
        self._ids = ids

    async def read_view(self, tx: Transaction, lease: OperationLease, *, queries_all: bool = False) -> OperationView:
        found = await store.read_leased(tx, lease, locks=True)
        nodes = await node_store.list_nodes(tx, only=_list_relevant_nodes(found.operation))
        return OperationView(
            operation=found.operation,
            strategy=BackendOperationSpec.from_json(found.operation.request).strategy,
            assignments=found.assignments,
            nodes={node.id: node for node in nodes},
            now=found.now,
            queries_all=queries_all,
        )

    async def advance(
        self, tx: Transaction, lease: OperationLease, view: OperationView
    ) -> tuple[OperationView, AdvanceResult]:
        if view.operation.state is OperationState.RUNNING and not view.targets:
            problem = await self._plan(tx, view.operation)
            if problem is not None:
                return view, AdvanceResult(verdict=make_failed_verdict(view.operation, problem))
            view = await self.read_view(tx, lease, queries_all=view.queries_all)
        moved: set[NodeId] = set()
        view, decision = await self._settle(tx, lease, view, moved)
        calls: tuple[CommandCall, ...] = (
            *(partial(self._sender.cancel_job, target) for target in decision.stop),
            *(partial(self._sender.query_job, target) for target in decision.query),
            *(partial(self._sender.send_assignment, target, view.assignments[target.node]) for target in decision.send),
        )
        jobs = tuple(target.job_id for target in decision.send)
        return view, AdvanceResult(verdict=conclude(view), calls=calls, jobs_to_send=jobs, moved=frozenset(moved))

    async def give_up(self, tx: Transaction, view: OperationView, fault: Fault) -> AdvanceResult:
        ended = TargetEnd(state=TargetState.ERROR, fault=fault)
        await self._end(tx, [(target, ended) for target in view.targets], view)
        return AdvanceResult(verdict=make_failed_verdict(view.operation, fault))

    async def _plan(self, tx: Transaction, operation: Operation) -> Fault | None:
        """Write targets and assignments of the operation; return a fault if there are none."""
        spec = BackendOperationSpec.from_json(operation.request)
        try:
            planned = await plan(tx, spec, self._catalog, skips_drained=True)
        except Unavailable:
            raise
        except CorralError as error:
            return Fault(code=error.slug, text=error.message)
        if not planned.targets:
            return Fault(code="no_eligible_nodes", text="No eligible node is left.")
        await assignment_store.assign(tx, operation, planned.targets, self._ids)
        await operation_store.add_notes(
            tx,
            [
                (operation.id, "info", node.name, f"left out: {reason}")
                for node, reason in planned.skipped[:SKIPPED_SHOWN]
            ],
        )
        return None

    async def _settle(
        self, tx: Transaction, lease: OperationLease, view: OperationView, moved: set[NodeId]
    ) -> tuple[OperationView, DispatchDecision]:
        """Write the targets that have ended without a command and those that roll back, until nothing more follows."""
        for _ in range(ROUNDS_MAX):
            decision = decide(view)
            if decision.end:
                await self._end(tx, decision.end, view)
                moved |= {target.node for target, _ in decision.end}
            elif decision.roll_back:
                await self._roll_back(tx, decision, view)
                moved |= {target.node for target in decision.roll_back}
            else:
                return view, decision
            view = await self.read_view(tx, lease, queries_all=view.queries_all)
        return view, decide(view)

    async def _end(self, tx: Transaction, ends: Sequence[tuple[Target, TargetEnd]], view: OperationView) -> None:
        changes = []
        for target, ended in ends:
            assignment = view.assignments.get(target.node)
            snapshot = TargetSnapshot(
                target=target,
                desired=assignment.desired if assignment else None,
                attempts=assignment.attempts if assignment else 0,
                next_job=target.job_id,
            )
            change = apply_observation(snapshot, ended)
            if change is not None:
                changes.append(change)
        await store.write_changes(tx, changes)
        await add_change_notes(tx, changes)

    async def _roll_back(self, tx: Transaction, decision: DispatchDecision, view: OperationView) -> None:
        rollbacks = [
            (target.node, str((target.previous or {}).get("name", "")), JobId(self._ids.new_id()))
            for target in decision.roll_back
        ]
        names = await store.roll_back(tx, view.operation.id, rollbacks)
        await operation_store.add_notes(
            tx,
            [
                (view.operation.id, "warning", name, "rolls back to the previous version: another node failed")
                for name in names
            ],
        )


def _list_relevant_nodes(operation: Operation) -> list[NodeId]:
    """Return the nodes of the targets that matter: all where waves wait for one another, else those of open targets."""
    has_waves = any(target.wave for target in operation.targets)
    return [target.node for target in operation.targets if has_waves or target.stop_wanted or not target.state.is_final]


class BackendJobListener:
    """Applies workers' reports about engine backend jobs to PostgreSQL.

    Rows of replicas are deleted exactly for the processes that a job has ended.
    """

    def apply_observation(self, snapshot: TargetSnapshot, observation: Observation) -> TargetChange | None:
        return apply_observation(snapshot, observation)

    async def find_faults(
        self, tx: Transaction, done: Sequence[tuple[JobObservation, Target]]
    ) -> Mapping[JobId, Fault]:
        """Return no faults: what a worker calls done is done."""
        del tx, done
        return {}

    async def on_applied(self, tx: Transaction, batch: ReportBatch) -> None:
        late = await store.mark_too_late(tx, batch.late)
        text = "had finished before it could be stopped; what it has is in the list of installed backends"
        await operation_store.add_notes(tx, [(key, "warning", name, text) for key, name in late])
        reported = ((one.observation.node, one.observation.stopped) for one in batch.applied)
        await _remove_stopped(tx, (*batch.ended_processes, *reported))


async def _remove_stopped(tx: Transaction, stopped: Iterable[tuple[NodeId, Iterable[str]]]) -> None:
    """Delete the rows of ended processes; a key is `model#index`, and the model's name may contain a `#` too. All at
    once and last, so that a transaction that holds a replica waits for nothing that comes before."""
    ended = []
    for node, keys in stopped:
        for key in keys:
            model, hash_sign, index = key.rpartition("#")
            if hash_sign and model and index.isascii() and index.isdecimal() and len(index) < 10:
                ended.append((node, model, int(index)))
    await replica_store.remove_ended_processes(tx, ended, "a job has ended its process")


def make_backend_pool(
    admission: BackendAdmissionController, sender: CommandSender, catalog: BuildCatalog, ids: IdGenerator
) -> OperationPool:
    return OperationPool(
        admission=admission, handler=BackendPoolHandler(sender, catalog, ids), listener=BackendJobListener()
    )
