"""Lets requests wait for a model: one load, any number of waiters.

The first waiter requests the load, or joins the load that another frontend has requested; one follower per model then
reads the operation's row, every two seconds and whenever an event reports progress. The row decides, because events may
be lost. Guarantee: every waiter is woken once, with the recorded cause if the load failed. A caller that leaves ends
nothing but its own wait. Limit: being woken is a hint to look again, not a promise that the model is loaded.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog

from corral.domain.cluster import OutboxEvent
from corral.domain.errors import CorralError, StoreUnavailable, Unavailable
from corral.domain.operation import ACTIVE, JobPhase, Operation, OperationId, OperationState, TargetState
from corral.gateway.errors import LoadFailed, ModelLoading, NoCapacity
from corral.gateway.routing.in_flight_leases import InFlightLeases
from corral.gateway.routing.routing_snapshot import RoutingSnapshot
from corral.policy.loads import EDITED, compute_retry_after_s, estimate_eta_s
from corral.ports.requests import LoadRequester
from corral.ports.runtime import Clock
from corral.runtime.attempt import AttemptFailure, attempt
from corral.runtime.tasks import TaskSet
from corral.store import loads as load_store
from corral.store import models as model_store
from corral.store import operations as operation_store
from corral.store.database import Database, Transaction
from corral.store.replica_use import ServedModel

log = structlog.get_logger(__name__)

# The interval at which the row is read without any event.
POLL_S = 2.0
_COMPLETED_STATES = frozenset({OperationState.COMPLETED, OperationState.COMPLETED_WITH_PENDING})
# Failures that may go away by themselves, so that the same request may succeed later.
_TEMPORARY_CODES = frozenset(
    {
        "no_room",
        "no_capacity",
        "no_eligible_nodes",
        "no_free_slot",
        "eviction_busy",
        "insufficient_vram",
        "insufficient_disk",
        "insufficient_ram",
        "node_unreachable",
        "node_timeout",
        "node_drained",
        "node_removed",
        "source_unavailable",
        "worker_restarted",
        "owner_lost",
        "deadline_passed",
    }
)


@dataclass(slots=True, kw_only=True)
class _PendingLoad:
    """Tracks one load of a model that requests wait for here."""

    model: str
    operation: Operation | None = None
    operation_id: OperationId | None = None
    waiters: int = 0
    error: CorralError | None = None
    # The load ended because the model was edited, disabled or deleted.
    was_edited: bool = False
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    check: asyncio.Event = field(default_factory=asyncio.Event)
    # The first progress that was seen, and when: the start of the rate measurement.
    first_progress: tuple[float, int] | None = None
    eta_s: float | None = None
    # The model's files, known once one of them has made progress.
    paths: tuple[str, ...] = ()

    def record_progress(self, operation: Operation, now: float) -> None:
        self.operation = operation
        current, total = operation.progress.current_bytes, operation.progress.total_bytes
        if operation.progress.phase not in (JobPhase.DOWNLOADING, JobPhase.STAGING) or current is None or total is None:
            self.first_progress = self.eta_s = None
            return
        if self.first_progress is None or current < self.first_progress[1]:
            self.first_progress = (now, current)
        elapsed_s, moved = now - self.first_progress[0], current - self.first_progress[1]
        self.eta_s = estimate_eta_s(moved, total - self.first_progress[1], elapsed_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadWaiterDeps:
    """Dependencies of `LoadWaiter`, which lets inference requests wait while their model is loaded."""

    database: Database
    loads: LoadRequester
    snapshot: RoutingSnapshot
    leases: InFlightLeases
    clock: Clock
    on_crash: Callable[[BaseException], None] | None = None


class LoadWaiter:
    """Lets inference requests wait while their model is loaded: one load for any number of waiting requests."""

    def __init__(self, deps: LoadWaiterDeps) -> None:
        self._deps = deps
        self._pending: dict[str, _PendingLoad] = {}
        self._tasks = TaskSet("waiting", deps.on_crash)

    async def wait_for_load(self, model: ServedModel, *, until: float | None, budget_s: float) -> bool:
        """Wait until a load of the model has ended well, and raise its cause if it has not. Return True if it ended
        because the model was edited. `until` is monotonic; None: no limit."""
        name = model.pool_name
        wait = self._pending.get(name)
        if wait is None:
            wait = self._pending[name] = _PendingLoad(model=name)
            self._tasks.start(self._follow_load(wait, model), name=f"load of {name}")
        left_s = None if until is None else max(0.0, until - self._deps.clock.monotonic())
        wait.waiters += 1
        try:
            with self._deps.leases.count_waiting(name):
                async with asyncio.timeout(left_s):
                    await wait.ended.wait()
        except TimeoutError:
            raise _make_loading_error(wait, model.name, budget_s) from None
        finally:
            wait.waiters -= 1
        if wait.error is not None:
            # A copy for each waiter, because an error collects the traceback of every raise.
            raise copy.copy(wait.error)
        return wait.was_edited

    async def follow(self, events: Sequence[OutboxEvent]) -> None:
        """Wake the followers whose operations appear in these events."""
        keys = {event.key for event in events}
        nodes_moved = any(event.kind.startswith("node.") for event in events)
        for wait in self._pending.values():
            if nodes_moved or wait.model in keys or wait.operation_id in keys:
                wait.check.set()

    async def close(self) -> None:
        await self._tasks.close()

    async def _follow_load(self, wait: _PendingLoad, model: ServedModel) -> None:
        try:
            outcome = await attempt(lambda: self._watch_operation(wait, model))
            if isinstance(outcome, AttemptFailure):
                wait.error = _to_corral_error(outcome.error, wait.model)
        except asyncio.CancelledError:
            wait.error = Unavailable("This frontend is stopping.", hint="Retry on another frontend.", code="stopping")
            raise
        finally:
            del self._pending[wait.model]
            wait.ended.set()

    async def _watch_operation(self, wait: _PendingLoad, model: ServedModel) -> None:
        deps = self._deps
        wait.operation_id = await deps.loads.request_load(wait.model)
        while True:
            wait.check.clear()
            known = deps.snapshot.find(wait.model)
            # The model was loaded otherwise, deleted or edited: the waiters look again themselves.
            if known is None or known.run_hash != model.run_hash or deps.snapshot.list_open_replicas(known):
                return
            try:
                async with deps.database.transaction() as tx:
                    operation = await operation_store.find(tx, wait.operation_id)
                    cause = await _find_cause(tx, operation)
                    if operation is not None and operation.progress.file_name not in ("", *wait.paths):
                        found = await model_store.find_model(tx, wait.model)
                        wait.paths = found.paths if found is not None else ()
            except StoreUnavailable:
                pass  # PostgreSQL is down: the load goes on at its node, and each waiter waits as long as it may.
            else:
                if operation is not None:
                    wait.record_progress(operation, deps.clock.monotonic())
                if operation is None or operation.state not in ACTIVE:
                    operation = cause or operation
                    # The event about the replica may not have arrived yet.
                    await deps.snapshot.refresh([wait.model])
                    wait.was_edited = _is_superseded(operation)
                    if not wait.was_edited:
                        _check_ended_well(wait.model, operation)
                    return
            if not wait.waiters:
                return  # All waiters have left. The next request joins the operation.
            await _wait_for_event(wait.check, POLL_S)


async def _find_cause(tx: Transaction, operation: Operation | None) -> Operation | None:
    """Return the failed installation because of which the load was not started; its error is the one for the client."""
    if operation is None or operation.state is not OperationState.CANCELLED:
        return None
    return await load_store.find_ended_install(tx, operation)


def _is_superseded(operation: Operation | None) -> bool:
    """Return whether the load ended because its model was edited, disabled or deleted. Waiting requests resolve the
    model again."""
    if operation is None:
        return False
    # Frontends of the previous version write these as failures.
    was_changed = operation.fault is not None and operation.fault.code in (EDITED, "model_not_found")
    return operation.state is OperationState.SUPERSEDED or was_changed


def _check_ended_well(model: str, operation: Operation | None) -> None:
    if operation is None or operation.state in _COMPLETED_STATES:
        return
    if operation.state is not OperationState.FAILED:
        raise NoCapacity(
            f"The load of {model} was {operation.state}.",
            hint=f"`corral operations show {operation.id}` shows details. A new request starts another load.",
            code="load_cancelled",
            details={"operation_id": operation.id},
        )
    code = operation.fault.code if operation.fault else ""
    cause = (operation.fault.text if operation.fault else "") or operation.message or "no cause was recorded"
    details = {"operation_id": operation.id}
    kind: type[CorralError] = NoCapacity if code in _TEMPORARY_CODES else LoadFailed
    raise kind(
        f"Model {model} could not be loaded: {cause}",
        hint=f"`corral operations show {operation.id}` shows details.",
        code=code or None,
        details=details,
    )


def _to_corral_error(error: Exception, model: str) -> CorralError:
    if isinstance(error, CorralError):
        return error
    log.error("waiting for a model failed", model=model, exc_info=error)
    return LoadFailed(f"Internal error in Corral while waiting for {model}. See the log of this frontend.")


def _make_loading_error(wait: _PendingLoad, name: str, budget_s: float) -> ModelLoading:
    """Return the error for a request that may not wait any longer."""
    left_s, loading = wait.eta_s, render_loading(name, wait.operation, wait.eta_s, wait.paths)
    words = [f"Model {name} is loading", str(loading["state"]).replace("_", " ")]
    if loading.get("node"):
        words[0] += f" on {loading['node']}"
    if loading["progress"]:
        words.append(f"{loading['progress']:.0f}%")
    if left_s is not None:
        words.append(f"about {left_s:.0f} s left")
    return ModelLoading(
        ", ".join(words) + ".",
        hint="The load continues. Retry after the time in Retry-After.",
        details={"loading": loading, "retry_after_s": round(compute_retry_after_s(left_s, budget_s))},
    )


def render_loading(
    model: str, operation: Operation | None, left_s: float | None, paths: Sequence[str]
) -> dict[str, Any]:
    """Return the progress of a load in the fields that LocalAI uses. Unknown fields are absent. `paths` are the model's
    files: several are fetched at a time, and the one that progressed last is shown."""
    if operation is None:
        return {"model": model, "state": "pending", "progress": 0.0}
    progress = operation.progress
    working = [target.node_name for target in operation.targets if target.state is TargetState.WORKING]
    known: Mapping[str, object] = {
        "model": model,
        "operation_id": operation.id,
        "state": str(progress.phase or operation.state),
        "node": working[0] if working else operation.scope_node_name or None,
        "progress": round(progress.percent, 1),
        "bytes_sent": progress.current_bytes,
        "total_bytes": progress.total_bytes,
        "file_name": progress.file_name or None,
        "file_index": paths.index(progress.file_name) + 1 if progress.file_name in paths else None,
        "total_files": len(paths) or None,
        "eta_seconds": None if left_s is None else round(left_s, 1),
    }
    return {name: value for name, value in known.items() if value is not None}


async def _wait_for_event(event: asyncio.Event, timeout_s: float) -> None:
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        return
