"""Admission of runs: the run and its operation are written in one transaction, before the id is returned.

Guarantees: runs of one scope (a thread, a task) run one after the other, in the order of their requests. Without a
scope a run waits only for a place. A request is refused with 503 if no node could take the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from corral.domain.errors import Conflict, LimitReached, Unavailable
from corral.domain.node import Liveness, Node
from corral.domain.operation import JobId, Operation, OperationKind, Target
from corral.domain.run import RunId, RunKind, RunPlaceKind
from corral.operations.admission import AdmissionController, AdmissionRequest
from corral.policy.batches import WINDOW_S
from corral.policy.labels import matches_labels
from corral.policy.runs import (
    can_execute,
    choose_place,
    compute_look_interval,
    list_eligible,
    make_places,
    make_waiting_message,
)
from corral.store import nodes as node_store
from corral.store import run_places as place_store
from corral.store import runs as store
from corral.store.database import Transaction
from corral.store.operations import LeaseTerms
from corral.store.runs import NewRun, RunPlacement

# A run that finds no place within this time fails: its caller has long left.
QUEUE_LIMIT_S = 3600.0
# A batch may wait as long as it may take, and so may a program: no caller waits for its first word.
BATCH_QUEUE_LIMIT_S = WINDOW_S
AFTER_MESSAGE = "Waiting until the run before it has ended."
# One owner's runs that have not ended; more are a script out of control.
OPEN_RUNS_MAX = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOperationSpec:
    """Specifies the operation that executes a run (LLM agent's turn, task, batch) on a node.

    It holds no text of the owner and no name of an agent or a task: operators can read operations and their events.
    """

    run: NewRun
    # Runs with the same scope wait for each other; empty: this run waits for no other.
    scope: str = ""
    is_scope_new: bool = False

    @property
    def kind(self) -> OperationKind:
        return self.run.kind.operation_kind

    @property
    def subject(self) -> str:
        return str(self.run.agent_id or self.run.task_id or self.run.kind)

    @property
    def deadline_s(self) -> float | None:
        return get_queue_limit_s(self.run.kind)

    def check(self) -> None:
        """Accept every spec: flows check what people send before they make one."""

    def to_json(self) -> dict[str, Any]:
        return {"kind": str(self.kind), "trigger": str(self.run.trigger), "scope": self.scope}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAdmissionRequest(AdmissionRequest[RunOperationSpec]):
    """A checked request for a run (LLM agent's turn, task, batch), with the nodes that take runs."""

    run_nodes: Sequence[Node]
    # The node that it gets at once.
    chosen: Node | None = None
    # Says what it waits for, if it was looked at.
    message: str = ""


class RunAdmissionController(AdmissionController[RunOperationSpec, RunAdmissionRequest]):
    """Admits runs (LLM agents' turns, tasks, batches): writes the rows of the operation and the run.

    The run waits behind an earlier run of the same scope.
    """

    scope_words = "the same thread or task"
    # Every message to an agent is a run: the run itself is the record of who sent it.
    is_audited = False
    is_claimed_at_once = True

    async def start(self, tx: Transaction, new: NewRun, *, scope: str = "", is_scope_new: bool = False) -> RunId:
        """Admit a run inside a larger transaction and return its id. `is_scope_new`: what the scope names was made in
        this transaction, so no other run can have the scope."""
        spec = RunOperationSpec(run=new, scope=scope, is_scope_new=is_scope_new or not scope)
        admitted = await self.admit_in(tx, spec, new.owner_name, queue_behind=True)
        return RunId(admitted.operation.id)

    def _parse_retry(self, stored_request: Mapping[str, Any]) -> RunOperationSpec:
        del stored_request
        raise Conflict(
            "A run cannot be retried as an operation.",
            hint="Send the message, the task or the batch again.",
            code="not_retryable",
        )

    async def _resolve(self, tx: Transaction, spec: RunOperationSpec) -> RunAdmissionRequest:
        nodes = await require_run_node(tx, spec.run.selector, spec.run.kind)
        scope_key = f"run:{spec.scope or self._ids.new_id()}"
        return RunAdmissionRequest(
            spec=spec, scope_key=scope_key, nodes=None, is_scope_new=spec.is_scope_new, run_nodes=nodes
        )

    async def _plan_start(
        self, tx: Transaction, request: RunAdmissionRequest, terms: LeaseTerms | None
    ) -> tuple[RunAdmissionRequest, LeaseTerms | None]:
        """Choose the node of a run that need not wait, if no other choice of a node is being made now: waiting for one
        would hold a connection. A run that finds no free place waits without a lease, as after a look."""
        run = request.spec.run
        is_placing, open_runs = await place_store.try_lock_places(tx, str(run.owner))
        if open_runs >= OPEN_RUNS_MAX:
            raise LimitReached(
                f"You have {OPEN_RUNS_MAX} runs that have not ended, which is the limit.",
                hint="Wait until some have ended, or cancel some: corral runs cancel ID",
                code="too_many_runs",
            )
        # What a program needs is compared with the room of its node.
        if terms is None or not is_placing or run.kind.is_program:
            return request, terms
        use = await place_store.read_place_use(tx, run.kind.place_kind, run.selector, run.session_key)
        places = make_places(request.run_nodes, run.kind, use.active)
        chosen = choose_place(places, run.selector, preferred=use.last_node, ahead=use.ahead)
        if chosen is not None:
            return replace(request, chosen=chosen.node), terms
        eligible = list_eligible(places, run.selector)
        if not eligible or any(place.free > 0 for place in eligible):
            # Others are to be woken for these places.
            return request, terms
        message = make_waiting_message(use.ahead)
        look_s = compute_look_interval(use.ahead).total_seconds()
        return replace(request, message=message), LeaseTerms(owner=None, lease_s=look_s)

    async def _write_details(self, tx: Transaction, request: RunAdmissionRequest, operation: Operation) -> Operation:
        """Write the run, with its node if it has got one."""
        run, node = request.spec.run, request.chosen
        if node is None:
            message = AFTER_MESSAGE if operation.after_id is not None else request.message or operation.message
            await store.insert_run(tx, operation.id, run, message)
            return operation
        job_id, message = JobId(self._ids.new_id()), f"Given to {node.name}."
        await store.insert_run(tx, operation.id, run, message, RunPlacement(job_id=job_id, node=node))
        target = Target(operation_id=operation.id, node=node.id, node_name=node.name, job_id=job_id)
        return replace(operation, message=message, targets=(target,))

    def _find_joined(self, request: RunAdmissionRequest, chain: Sequence[Operation]) -> Operation | None:
        """Return None: every request for a run is a run of its own."""
        del request, chain
        return None

    async def _find_paused(self, tx: Transaction, request: RunAdmissionRequest) -> Operation | None:
        """Return None: runs cannot be paused."""
        del tx, request
        return None

    async def _restart(self, tx: Transaction, operation: Operation, values: Mapping[str, Any]) -> Operation:
        del tx, operation, values
        raise AssertionError("a run cannot be paused, so it is never resumed")


def get_queue_limit_s(kind: RunKind) -> float:
    """Return how long a run of this kind may wait for a place."""
    return QUEUE_LIMIT_S if kind.place_kind is RunPlaceKind.TURNS else BATCH_QUEUE_LIMIT_S


async def require_run_node(
    tx: Transaction, selector: Mapping[str, str], kind: RunKind = RunKind.AGENT_TURN
) -> Sequence[Node]:
    """Return the nodes that take runs. Raises `Unavailable` if no approved one takes runs of this kind with this
    selector, busy or not."""
    found = await node_store.list_nodes(tx, takes_runs=True)
    taking = [node for node in found if node.approved_at is not None]
    alive = [node for node in taking if node.liveness is Liveness.ALIVE]
    able = [node for node in alive if can_execute(node, kind)]
    if any(matches_labels(selector, node.label_map) for node in able):
        return found
    if kind.is_program and not (able and selector):
        raise Unavailable(
            f"No backend node that is up executes runs of the kind {kind}.",
            hint="Start a worker on a machine with Linux on x86-64; `corral nodes list` shows the nodes.",
            code="no_program_node",
        )
    if alive and not able:
        text = f"No agent worker that is up executes runs of the kind {kind}: all are of an older version."
        hint = "Upgrade the workers; `corral nodes list` shows their versions."
    elif not taking:
        text, hint = "No agent worker has joined.", "Start one: corral worker --type agent --join …"
    elif not alive:
        text, hint = "No agent worker is up.", "`corral nodes list` shows them; start one of them again."
    else:
        pairs = ", ".join(f"{key}={value}" for key, value in sorted(selector.items()))
        text, hint = f"No agent worker has the labels {pairs}.", "`corral nodes labels` sets labels."
    raise Unavailable(text, hint=hint, code="no_agent_worker")
