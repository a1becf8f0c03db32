"""Handles a load: get the files, choose nodes, make room, send commands, and retry on another node when one cannot.

Every look starts from the rows; a takeover is a look like any other. Guarantee: a load brings everything that it has
begun to an end: the replica is published, or its row and reservations are gone, or it is being stopped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from corral.bus.subjects import MODEL_LOAD
from corral.domain.model import Model
from corral.domain.node import NodeId
from corral.domain.operation import Fault, JobPhase, Progress, Target, TargetState
from corral.domain.replica import Replica, ReplicaState
from corral.loading.fetches import (
    FileProvisioner,
    add_file_check,
    has_known_files,
    is_available,
    is_past_deadline,
    list_cut_off_ends,
)
from corral.loading.kinds.commands import BlobSourceResolver, LoadTicketIssuer, make_load_command
from corral.loading.kinds.view import (
    ModelOperationView,
    RetryBudget,
    compute_progress,
    end_targets,
    give_up,
    list_target_calls,
    make_completed_verdict,
    make_drained_verdict,
    make_failed_verdict,
    make_not_begun_verdict,
    make_running_verdict,
    read_target_plan,
    reload_view,
    supersede,
)
from corral.loading.placer import PlacementAttempt, PlacementSnapshot, Placer
from corral.operations.command_sender import CommandResult, CommandSender
from corral.operations.driver import AdvanceResult
from corral.policy import faults
from corral.policy.loads import (
    EDITED,
    RETURN_LOOK_S,
    STALLED,
    NodeFailure,
    RetryPlan,
    combine_causes,
    find_end,
    is_left_by_drains,
    list_awaited_nodes,
    plan_retry,
)
from corral.policy.progress import TargetEnd
from corral.store import loads as load_store
from corral.store import replicas as replica_store
from corral.store.database import Transaction
from corral.store.loads import read_earlier_faults

# How often to look while others make room; the end of a replica wakes the operation at once.
ROOM_S = 1.0
# How often to look at a fleet in which every replica that could be evicted is in use.
BUSY_LOOKS = 4
# How often the stop of an evicted replica may fail; the pauses between attempts double.
STOP_TRIES = 5
# The part of the progress bar for fetching files to a frontend, if that is needed at all.
FETCH_SHARE = 0.4


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadHandler:
    """Drives operations that load a model: gets the files, chooses nodes, makes room, sends commands, and retries."""

    placer: Placer
    files: FileProvisioner
    sender: CommandSender
    blob_sources: BlobSourceResolver
    tickets: LoadTicketIssuer
    busy_budget: RetryBudget

    async def advance(self, tx: Transaction, view: ModelOperationView) -> AdvanceResult:
        model = view.model
        refusal = _find_refusal(view)
        if model is None or refusal is not None:
            return await supersede(tx, view, refusal or _make_gone_fault(view))
        await load_store.begin_deadline(tx, view.operation.id, self.files.timeouts.base_s)
        over = is_past_deadline(view.operation.deadline_at, view.now)
        replicas = await _list_awaited_replicas(tx, view)
        found = [
            (t, find_end(t, view.nodes.get(t.node), is_over=over) or _find_failed_eviction(t, replicas))
            for t in view.open_targets
        ]
        loss = await self.files.find_loss(tx, view, model)
        ends = [(target, end) for target, end in found if end is not None] or list_cut_off_ends(loss)
        moved = frozenset(target.node for target, _ in ends)
        view = await end_targets(tx, view, ends)
        if _count_missing_replicas(view):
            waiting = await self._find_place(tx, view, model)
            if waiting is not None and not view.open_targets:
                return replace(waiting, moved=moved | waiting.moved)
            view = await reload_view(tx, view)
            replicas = await _list_awaited_replicas(tx, view)
        fetch = await self.files.restore(tx, view, model, loss)
        if fetch is not None and fetch.verdict.fault is not None:
            return replace(fetch, moved=fetch.moved | moved)
        return add_file_check(self._advance_targets(view, model, replicas, moved), view, model, fetch)

    async def _find_place(self, tx: Transaction, view: ModelOperationView, model: Model) -> AdvanceResult | None:
        """Choose nodes for the load. None if nodes were chosen; else the result says what is waited for, or why
        there is no room."""
        failures = _list_failures(view)
        retry_plan = plan_retry(failures) if failures else RetryPlan()
        if retry_plan is None:
            return await self._fail(tx, view, failures)
        if not view.operation.targets and await _is_enough(tx, view, model):
            return AdvanceResult(verdict=make_completed_verdict(view, f"{model.name} is loaded already."))
        if self.files.is_fetching(view) or not has_known_files(model):
            fetching = await self._fetch_files(tx, view, model)
            # The fetch may have given the model another run hash: the model is read again in the next pass.
            return fetching or AdvanceResult(
                verdict=make_running_verdict(view, f"Choosing a node for {model.name}", next_s=0.0)
            )
        if is_past_deadline(view.operation.deadline_at, view.now):
            return await self._fail(tx, view, [*failures, _make_no_room_failure(view)])
        return await self._place(tx, view, model, failures, retry_plan)

    async def _fetch_files(self, tx: Transaction, view: ModelOperationView, model: Model) -> AdvanceResult | None:
        """Fetch the files, unless an installation that this load waited for has just failed to: then the load ends
        without a failure of its own. None if the files are available."""
        if not self.files.is_fetching(view):
            install = await load_store.find_ended_install(tx, view.operation)
            if install is not None:
                return AdvanceResult(verdict=make_not_begun_verdict(view, install))
        return await self.files.ensure_files(tx, view, model, share=FETCH_SHARE)

    async def _place(
        self, tx: Transaction, view: ModelOperationView, model: Model, failures: Sequence[NodeFailure], retry: RetryPlan
    ) -> AdvanceResult | None:
        await load_store.lock_placement(tx)
        registry = await self.placer.read_snapshot(tx, model)
        if not is_available(model, registry.in_library, registry.staged):
            return await self._fetch_files(tx, view, model)
        attempt = PlacementAttempt(spec=replace(view.spec, count=_count_missing_replicas(view)), retry=retry)
        decided = self.placer.decide(model, attempt, registry)
        key = view.operation.id
        if decided.is_busy and not self.busy_budget.exceeds_after_attempt(key):
            return _make_room_result(view, decided.fault.text if decided.fault else "")
        self.busy_budget.forget(key)
        if decided.fault is not None:
            waiting = _make_drained_result(view, failures, registry) or _make_return_result(view, failures, registry)
            return waiting or await self._fail(tx, view, failures, decided.fault)
        if decided.wait_message:
            return _make_room_result(view, decided.wait_message)
        # A node runs one replica of a load at a time; busy nodes get another one afterwards.
        now = decided.limit_to_one_per_node(excluded={target.node for target in view.open_targets})
        if not now.choices:
            return AdvanceResult(verdict=make_running_verdict(view, _describe_progress(view, ())))
        await self.placer.write_decision(tx, view.operation, model, now, registry)
        return None

    async def _fail(
        self, tx: Transaction, view: ModelOperationView, failures: Sequence[NodeFailure], refusal: Fault | None = None
    ) -> AdvanceResult:
        """Fail the load with every cause. While other nodes still load, they go on, and the load is looked at when
        they are done."""
        fault = combine_causes(failures, [refusal.text] if refusal else []) or _make_gone_fault(view)
        if refusal is not None:
            fault = replace(fault, code=refusal.code if not failures else fault.code)
        if view.open_targets:
            return AdvanceResult(verdict=make_running_verdict(view, fault.text))
        if view.loaded_node_names:
            # Loaded replicas stay; the sentence says how many are missing.
            missing = view.spec.count - len(view.loaded_node_names)
            words = f"Loaded on {_format_names(view.loaded_node_names)}; {missing} more have no place. {fault.text}"
            return AdvanceResult(verdict=make_failed_verdict(view, Fault(code=fault.code, text=words)))
        return await give_up(tx, view, fault)

    def _advance_targets(
        self, view: ModelOperationView, model: Model, existing: Mapping[str, Replica], moved: frozenset[NodeId]
    ) -> AdvanceResult:
        """Send commands to queued targets, query silent ones, and report the progress."""
        if not view.open_targets:
            return AdvanceResult(
                verdict=make_completed_verdict(view, f"Loaded on {_format_names(view.loaded_node_names)}"), moved=moved
            )
        blocked: list[Target] = []
        free: list[Target] = []
        for target in view.open_targets:
            is_blocked = target.state is TargetState.QUEUED and _list_awaited_ids(target) & existing.keys()
            (blocked if is_blocked else free).append(target)
        found = list_target_calls(view, free, self.sender, partial(self._send, view, model))
        if blocked:
            found.moments.append(view.compute_time_after(ROOM_S))
        verdict = make_running_verdict(
            view,
            _describe_progress(view, blocked),
            progress=_compute_progress(view, blocked),
            next_at=min(found.moments, default=None),
        )
        return AdvanceResult(
            verdict=verdict,
            calls=tuple(found.calls),
            jobs_to_send=tuple(found.jobs_to_send),
            moved=moved,
            watches_replicas=bool(blocked),
        )

    async def _send(self, view: ModelOperationView, model: Model, target: Target) -> CommandResult:
        sources = await self.blob_sources.resolve(
            target.node, read_target_plan(target).get("from") or (), view.nodes, model
        )
        plan = read_target_plan(target)
        ticket = self.tickets.issue(target.node, model.name, int(plan["index"]), str(plan["revision"]))
        return await self.sender.send_command(MODEL_LOAD, make_load_command(target, model, sources, ticket), target)


def _count_missing_replicas(view: ModelOperationView) -> int:
    """Return how many replicas have still to be started."""
    return max(0, view.spec.count - len(view.loaded_node_names) - len(view.open_targets))


def _find_refusal(view: ModelOperationView) -> Fault | None:
    """Return why this load has become pointless; None if it has not."""
    model = view.model
    if model is None:
        return _make_gone_fault(view)
    if not model.config.is_enabled:
        return Fault(code="model_disabled", text=f"Model {model.name} was disabled.")
    if view.is_edited(model.run_hash):
        text = f"Model {model.name} was edited while it was loaded. The next load takes it as it is now."
        return Fault(code=EDITED, text=text)
    return None


def _make_gone_fault(view: ModelOperationView) -> Fault:
    return Fault(code="model_not_found", text=f"There is no model {view.spec.model} any more.")


def _make_no_room_failure(view: ModelOperationView) -> NodeFailure:
    text = "no node had room for it in time"
    return NodeFailure(node=NodeId(""), node_name=view.spec.model, fault=Fault(code=STALLED, text=text))


def _list_failures(view: ModelOperationView) -> list[NodeFailure]:
    """Return the failures of the load, oldest first: targets that were restarted keep theirs."""
    found: list[tuple[datetime, NodeFailure]] = []
    for target in view.operation.targets:
        at = target.finished_at or view.now
        known = read_earlier_faults(target.previous)
        if target.state in (TargetState.ERROR, TargetState.SKIPPED):
            known.append(target.fault or Fault(code=faults.INTERNAL, text="It failed."))
        found += [(at, NodeFailure(node=target.node, node_name=target.node_name, fault=fault)) for fault in known]
    return [failure for _, failure in sorted(found, key=lambda item: item[0])]


async def _is_enough(tx: Transaction, view: ModelOperationView, model: Model) -> bool:
    """Return whether enough replicas exist without this load: a dead engine was restarted and adopted."""
    enough = 1 if view.spec.if_cold else view.spec.enough
    if enough is None:
        return False
    rows = await replica_store.list_replicas(tx, model=model.name)
    return sum(row.state is ReplicaState.LOADED and row.revision == model.run_hash for row in rows) >= enough


async def _list_awaited_replicas(tx: Transaction, view: ModelOperationView) -> dict[str, Replica]:
    """Return the replicas that targets wait for and that have not ended."""
    waits = {key for target in view.open_targets for key in _list_awaited_ids(target)}
    return {replica.id: replica for replica in await replica_store.list_existing(tx, waits)}


def _list_awaited_ids(target: Target) -> set[str]:
    """Return the replicas that have to end before the target starts; none once its command was sent."""
    return set(read_target_plan(target).get("waits") or ()) if target.state is TargetState.QUEUED else set()


def _find_failed_eviction(target: Target, existing: Mapping[str, Replica]) -> TargetEnd | None:
    """Return an end for a target whose evicted replicas do not stop: another node may do."""
    for key in sorted(_list_awaited_ids(target) & existing.keys()):
        replica = existing[key]
        if replica.stop_attempts > STOP_TRIES:
            text = f"{replica.model} was evicted to make room there and does not end: {replica.stop_problem}"
            return TargetEnd(state=TargetState.ERROR, fault=Fault(code="eviction_failed", text=text))
    return None


def _make_drained_result(
    view: ModelOperationView, failures: Sequence[NodeFailure], registry: PlacementSnapshot
) -> AdvanceResult | None:
    """Cancel a load of which nothing has begun, if the nodes that it names were drained. None if it is otherwise."""
    named = [registry.nodes[key] for key in map(NodeId, view.spec.nodes or ()) if key in registry.nodes]
    if view.open_targets or view.loaded_node_names or not is_left_by_drains(named, failures):
        return None
    return AdvanceResult(verdict=make_drained_verdict(view, [node.name for node in named]))


def _make_return_result(
    view: ModelOperationView, failures: Sequence[NodeFailure], registry: PlacementSnapshot
) -> AdvanceResult | None:
    """Wait for nodes whose workers are being restarted, if no other node can run the model. None if there are none."""
    awaited = list_awaited_nodes(failures, registry.nodes, view.now)
    if not awaited:
        return None
    names = _format_names([node.name for node in awaited])
    words = f"Waiting for the worker of {names}, which was stopped while it loaded {view.spec.model}"
    return AdvanceResult(verdict=make_running_verdict(view, words, next_s=RETURN_LOOK_S))


def _make_room_result(view: ModelOperationView, words: str) -> AdvanceResult:
    progress = replace(view.operation.progress, phase=JobPhase.MAKING_ROOM)
    return AdvanceResult(
        verdict=make_running_verdict(view, words, progress=progress, next_s=ROOM_S), watches_replicas=True
    )


def _compute_progress(view: ModelOperationView, blocked: Sequence[Target]) -> Progress:
    progress = compute_progress(view)
    if blocked and len(blocked) == len(view.open_targets):
        return replace(progress, phase=JobPhase.MAKING_ROOM)
    return progress


def _describe_progress(view: ModelOperationView, blocked: Sequence[Target]) -> str:
    name = view.spec.model
    if blocked and len(blocked) == len(view.open_targets):
        return f"Making room for {name} on {_format_targets(blocked)}"
    silent = [target for target in view.open_targets if target.state is TargetState.UNCONFIRMED]
    if silent and len(silent) == len(view.open_targets):
        return f"{_format_targets(silent)} got the command to load {name} and does not respond now"
    done = f"; loaded on {_format_names(view.loaded_node_names)}" if view.loaded_node_names else ""
    return f"Loading {name} on {_format_targets(view.open_targets)}{done}"


def _format_targets(targets: Sequence[Target]) -> str:
    return _format_names([target.node_name for target in targets])


def _format_names(names: Sequence[str]) -> str:
    """Return the names, each once, with a count for nodes that have several replicas."""
    counts = Counter(names)
    shown = ", ".join(name if count == 1 else f"{name} ({count} times)" for name, count in list(counts.items())[:5])
    return shown if len(counts) <= 5 else f"{shown} and {len(counts) - 5} more"
