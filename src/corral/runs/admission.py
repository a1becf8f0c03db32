"""Admission of runs: the run and its operation are written in one transaction, before the id is returned.

Guarantees: runs of one scope (a thread, a task) run one after the other, in the order of their requests. Without a
scope a run waits only for a place. A request is refused with 503 if no node could take the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from corral.domain.errors import Conflict, LimitReached, Unavailable
from corral.domain.node import Liveness
from corral.domain.operation import Operation, OperationId, OperationKind
from corral.domain.run import RunId, RunKind, RunPlaceKind
from corral.operations.admission import AdmissionController, AdmissionRequest, AdmissionResult
from corral.policy.batches import WINDOW_S
from corral.policy.labels import matches_labels
from corral.policy.runs import can_execute
from corral.store import nodes as node_store
from corral.store import runs as store
from corral.store.database import Transaction
from corral.store.runs import NewRun

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


class RunAdmissionController(AdmissionController[RunOperationSpec, AdmissionRequest[RunOperationSpec]]):
    """Admits runs (LLM agents' turns, tasks, batches): writes the rows of the operation and the run.

    The run waits behind an earlier run of the same scope.
    """

    scope_words = "the same thread or task"
    # Every message to an agent is a run: the run itself is the record of who sent it.
    is_audited = False
    is_claimed_at_once = True

    async def start(self, tx: Transaction, new: NewRun, *, scope: str = "") -> RunId:
        """Admit a run inside a larger transaction and return its id."""
        spec = RunOperationSpec(run=new, scope=scope)
        admitted = await self.admit_in(tx, spec, new.owner_name, queue_behind=True)
        return RunId(admitted.operation.id)

    async def admit_in(
        self,
        tx: Transaction,
        spec: RunOperationSpec,
        actor: str,
        *,
        queue_behind: bool = False,
        retry_of: OperationId | None = None,
    ) -> AdmissionResult:
        admitted = await super().admit_in(tx, spec, actor, queue_behind=queue_behind, retry_of=retry_of)
        message = AFTER_MESSAGE if admitted.operation.after_id is not None else admitted.operation.message
        await store.insert_run(tx, admitted.operation.id, spec.run, message)
        return admitted

    def _parse_retry(self, stored_request: Mapping[str, Any]) -> RunOperationSpec:
        del stored_request
        raise Conflict(
            "A run cannot be retried as an operation.",
            hint="Send the message, the task or the batch again.",
            code="not_retryable",
        )

    async def _resolve(self, tx: Transaction, spec: RunOperationSpec) -> AdmissionRequest[RunOperationSpec]:
        await require_run_node(tx, spec.run.selector, spec.run.kind)
        if await store.count_open(tx, str(spec.run.owner)) >= OPEN_RUNS_MAX:
            raise LimitReached(
                f"You have {OPEN_RUNS_MAX} runs that have not ended, which is the limit.",
                hint="Wait until some have ended, or cancel some: corral runs cancel ID",
                code="too_many_runs",
            )
        return AdmissionRequest(spec=spec, scope_key=f"run:{spec.scope or self._ids.new_id()}", nodes=None)

    def _find_joined(self, request: AdmissionRequest[RunOperationSpec], chain: Sequence[Operation]) -> Operation | None:
        """Return None: every request for a run is a run of its own."""
        del request, chain
        return None

    async def _find_paused(self, tx: Transaction, request: AdmissionRequest[RunOperationSpec]) -> Operation | None:
        """Return None: runs cannot be paused."""
        del tx, request
        return None

    async def _restart(self, tx: Transaction, operation: Operation, values: Mapping[str, Any]) -> Operation:
        del tx, operation, values
        raise AssertionError("a run cannot be paused, so it is never resumed")


def get_queue_limit_s(kind: RunKind) -> float:
    """Return how long a run of this kind may wait for a place."""
    return QUEUE_LIMIT_S if kind.place_kind is RunPlaceKind.TURNS else BATCH_QUEUE_LIMIT_S


async def require_run_node(tx: Transaction, selector: Mapping[str, str], kind: RunKind = RunKind.AGENT_TURN) -> None:
    """Raise `Unavailable` if no approved node takes runs of this kind with this selector, busy or not."""
    found = await node_store.list_nodes(tx, takes_runs=True)
    taking = [node for node in found if node.approved_at is not None]
    alive = [node for node in taking if node.liveness is Liveness.ALIVE]
    able = [node for node in alive if can_execute(node, kind)]
    if any(matches_labels(selector, node.label_map) for node in able):
        return
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
