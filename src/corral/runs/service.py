"""Runs as the rest of a frontend uses them: start, find, cancel and decide about them, and hand them to workers.

Each kind of run has a `RunKindHandler`, registered by the flow that starts such runs. It builds what a worker gets when
the run begins, not when it was requested: a turn that waited behind another one knows the answer of that one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import structlog

from corral.bus.messages import WakeRun
from corral.bus.subjects import RUN_WAKE
from corral.domain.errors import Conflict, InvalidRequest, NotAllowed, NotFound, Unprocessable
from corral.domain.node import NodeId
from corral.domain.operation import Fault, OperationId
from corral.domain.run import Run, RunId, RunKind, RunState
from corral.domain.state_words import say_run_state
from corral.operations import actions
from corral.operations.command_sender import CommandSender
from corral.operations.driver import OperationPool
from corral.policy.earlier_calls import continue_spec
from corral.ports.bus import Bus
from corral.ports.runtime import Clock, IdGenerator
from corral.runs.admission import RunAdmissionController
from corral.runs.held_runs import require_held
from corral.runs.pool import (
    NullRunMetrics,
    RunEnding,
    RunMetrics,
    RunPoolHandler,
    RunReportListener,
    read_earlier_calls,
)
from corral.runs.trace import REASON_MAX, RunTraceNotifier, RunTraceReader, RunTraceWriter
from corral.runtime.attempt import AttemptFailure, attempt
from corral.store import access as access_store
from corral.store import runs as store
from corral.store.database import Database, Transaction
from corral.store.runs import StoredRun

log = structlog.get_logger(__name__)


class RunKindHandler(Protocol):
    """Interface that builds the work of one kind of run (LLM agent's turn, task, batch), and applies its end."""

    async def build_spec(self, tx: Transaction, run: Run) -> dict[str, Any]:
        """Return the fields of `wire.run_work.RunSpec`, with references in place of secrets."""
        ...

    async def on_run_ended(self, tx: Transaction, ending: RunEnding) -> None:
        """Apply the end of a run to what it belongs to, in the transaction that ends it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RunServiceDeps:
    """Dependencies of a frontend's service for runs (LLM agents' turns, tasks, batches)."""

    database: Database
    bus: Bus
    clock: Clock
    ids: IdGenerator
    sender: CommandSender
    frontend_id: str
    metrics: RunMetrics = field(default_factory=NullRunMetrics)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWork:
    """What a worker needs from a frontend to execute its attempt of a run, such as an LLM agent's turn."""

    run: Run
    spec: Mapping[str, Any]


class RunService:
    """Starts, finds and cancels runs (LLM agents' turns, tasks, batches) in a frontend, and gives them to workers."""

    def __init__(self, deps: RunServiceDeps) -> None:
        self._deps = deps
        self._kinds: dict[RunKind, RunKindHandler] = {}
        self.admission = RunAdmissionController(deps.database, deps.ids)
        # Returns whether this frontend drives the operation.
        self.wake_operation: Callable[[OperationId], bool] = lambda _: False
        self.readers = RunTraceNotifier(deps.bus, deps.frontend_id, self._wake_operation)
        self.writer = RunTraceWriter(deps.database, self.readers, deps.clock, self._wake_operation)
        self.reader = RunTraceReader(deps.database, self.readers, deps.clock)
        handler = RunPoolHandler(deps.sender, deps.ids, self._kinds, deps.metrics)
        self.pool = OperationPool(admission=self.admission, handler=handler, listener=RunReportListener())

    def _wake_operation(self, operation_id: OperationId) -> bool:
        return self.wake_operation(operation_id)

    def add_kind(self, kind: RunKind, handler: RunKindHandler) -> None:
        assert kind not in self._kinds, f"two handlers for runs of kind {kind}"
        self._kinds[kind] = handler

    async def get(self, run_id: str, owner: str | None) -> Run:
        """Return a run; with an owner, only if it is theirs."""
        async with self._deps.database.single_statements() as tx:
            return await store.get_run(tx, run_id, owner=owner)

    async def cancel(self, run_id: str, owner: str | None, actor: str) -> Run:
        """Cancel a run. Its worker stops it within seconds. Raises `Conflict` if its worker has ended it already."""
        run = await self.get(run_id, owner)
        if run.state.is_final:
            raise Conflict(f"{say_run_state('The run', run.state)} already.", code="run_ended")
        async with self._deps.database.transaction() as tx:
            if not await actions.cancel_run_in(tx, run.id, actor):
                raise Conflict("The run has ended already.", code="run_ended")
        return await self._announce_cancelled(run.id)

    async def announce_cancelled(self, run_ids: Iterable[RunId]) -> None:
        """Send stop commands to workers, and wake readers, after runs were cancelled in a larger transaction."""
        for run_id in run_ids:
            await self._announce_cancelled(run_id)

    async def _announce_cancelled(self, run_id: RunId) -> Run:
        cancelled = await self.get(run_id, None)
        if cancelled.started_at is not None and cancelled.finished_at is not None:
            seconds = (cancelled.finished_at - cancelled.started_at).total_seconds()
            self._deps.metrics.count_run(cancelled.kind, cancelled.state, seconds)
        self.wake_operation(OperationId(run_id))
        await self.readers.announce(cancelled.id, cancelled.last_seq, cancelled.state)
        return cancelled

    async def delete(self, run_id: str, owner: str | None) -> None:
        """Delete a run that has ended, with its trace."""
        async with self._deps.database.transaction() as tx:
            run = await store.get_run(tx, run_id, owner=owner)
            if not run.state.is_final:
                raise Conflict(
                    f"{say_run_state('The run', run.state)}.",
                    hint=f"Cancel it first: corral runs cancel {run.id}",
                    code="run_open",
                )
            await store.delete_run(tx, run.id)

    async def decide(self, run_id: str, owner: str | None, call_id: str, *, approved: bool, reason: str = "") -> Run:
        """Approve or refuse a tool call that waits for a person. The first decision counts."""
        async with self._deps.database.transaction() as tx:
            run = await store.get_run(tx, run_id, owner=owner)
            stored = await store.lock_run(tx, run.id)
            assert stored is not None, "the run was just read"
            run = stored.run
            entry = run.approvals.get(call_id)
            if entry is None:
                raise NotFound(f"No tool call {call_id[:80]!r} of this run waits for approval.", code="call_not_found")
            if "approved" in entry or run.state is not RunState.WAITING_APPROVAL:
                raise Conflict(
                    "This tool call was decided already.",
                    code="call_decided",
                )
            decided = {**entry, "approved": approved, "reason": reason[:REASON_MAX]}
            await store.write_decision(tx, run.id, {**run.approvals, call_id: decided})
        if run.node_id is not None:
            await self._wake_worker(run.node_id, WakeRun(run_id=run.id))
        return await self.get(run.id, None)

    async def _wake_worker(self, node_id: NodeId, message: WakeRun) -> None:
        outcome = await attempt(lambda: self._deps.bus.publish(RUN_WAKE, message, node=node_id))
        if isinstance(outcome, AttemptFailure):
            # It asks by itself every few seconds.
            log.info("a worker learns of a decision with its next delivery only", problem=outcome.sentence)

    async def build_work(self, node_id: NodeId, run_id: str, job_id: str) -> RunWork:
        """Return what a worker needs for its attempt. Raises `Conflict` if another worker or none holds the run now."""
        async with self._deps.database.single_statements() as tx:
            run = require_held(await store.get_run(tx, run_id), node_id, job_id)
            spec, fault = await self._build_spec(tx, run)
        if fault is not None:
            # The owner has to know, and another worker would not do better.
            await self.writer.fail(node_id, run, fault)
            raise Conflict(f"The run cannot begin. {fault.text}", code="run_failed")
        if not run.last_seq:
            # Its trace is empty, so the first delivery need not read the row again.
            self.writer.remember(StoredRun(run=run, outcome=None, silent_since=None, event_bytes=0))
        budgets = run.budgets
        limits = {
            "wall_s": budgets.wall_s,
            "steps": budgets.steps,
            "tool_calls": budgets.tool_calls,
            "tokens": budgets.tokens,
        }
        return RunWork(run=run, spec={"budgets": limits, "session_key": run.session_key, **spec})

    async def _build_spec(self, tx: Transaction, run: Run) -> tuple[dict[str, Any], Fault | None]:
        """Return the work of a run, or why it cannot begin."""
        handler = self._kinds.get(run.kind)
        if handler is None:
            raise NotFound(f"This frontend knows no runs of kind {run.kind}.", code="run_kind_unknown")
        # The work may need secrets of the owner.
        if await access_store.find_principal_by_key_id(tx, run.key_id) is None:
            return {}, Fault(code="run_owner_gone", text="The key or user that this run belongs to no longer works.")
        try:
            return continue_spec(await handler.build_spec(tx, run), await read_earlier_calls(tx, run)), None
        except (InvalidRequest, NotAllowed, NotFound, Unprocessable) as error:
            return {}, Fault(code=error.slug, text=error.message)
