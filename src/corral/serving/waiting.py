"""Requests that wait for a model: one load, any number of waiters.

The first one asks for the load, which joins it if another frontend was sooner; one follower per model then looks at
the operation's row, every two seconds and whenever an event tells that something moved. The row is what counts: events
may be lost. Guarantee: everybody who waits is woken once, with the recorded cause if it failed. A caller who leaves
ends nothing but its own waiting. Limit: being woken is a hint to look again, not a promise that the model is there.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog

from corral.domain.cluster import Event
from corral.domain.errors import CorralError, StoreUnavailable, Unavailable
from corral.domain.operation import ACTIVE, Operation, OperationId, OperationState, Phase, TargetState
from corral.policy.loading import EDITED, eta_s, retry_after_s
from corral.ports.loads import Loads
from corral.ports.runtime import Clock
from corral.runtime.guard import Failed, attempt
from corral.runtime.tasks import Tasks
from corral.serving.errors import LoadFailed, ModelLoading, NoCapacity
from corral.serving.snapshot import Snapshot
from corral.serving.use import Use
from corral.store import loads as load_store
from corral.store import models as model_store
from corral.store import operations as operation_store
from corral.store.database import Database, Transaction
from corral.store.use import Served

log = structlog.get_logger(__name__)

# How often the row is read without any event.
POLL_S = 2.0
_DONE = frozenset({OperationState.COMPLETED, OperationState.COMPLETED_WITH_PENDING})
# Another time, with another load on the cluster, the same request may well succeed.
_FOR_NOW = frozenset(
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
class _Wait:
    """One model that is waited for here."""

    model: str
    operation: Operation | None = None
    operation_id: OperationId | None = None
    waiters: int = 0
    error: CorralError | None = None
    # The load ended because the model was edited, disabled or deleted.
    was_edited: bool = False
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    look: asyncio.Event = field(default_factory=asyncio.Event)
    # The first bytes that were seen to move, and when: what a rate is measured from.
    since: tuple[float, int] | None = None
    eta_s: float | None = None
    # The model's files, once one of them was seen to move.
    paths: tuple[str, ...] = ()

    def saw(self, operation: Operation, now: float) -> None:
        self.operation = operation
        current, total = operation.progress.current_bytes, operation.progress.total_bytes
        if operation.progress.phase not in (Phase.DOWNLOADING, Phase.STAGING) or current is None or total is None:
            self.since = self.eta_s = None
            return
        if self.since is None or current < self.since[1]:
            self.since = (now, current)
        elapsed_s, moved = now - self.since[0], current - self.since[1]
        self.eta_s = eta_s(moved, total - self.since[1], elapsed_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitWorld:
    database: Database
    loads: Loads
    snapshot: Snapshot
    use: Use
    clock: Clock
    on_crash: Callable[[BaseException], None] | None = None


class Waiters:
    def __init__(self, world: WaitWorld) -> None:
        self._world = world
        self._waits: dict[str, _Wait] = {}
        self._tasks = Tasks("waiting", world.on_crash)

    async def wait(self, model: Served, *, until: float | None, budget_s: float) -> bool:
        """Wait until a load of the model has ended well, and raise its cause if it has not. Return True if it ended
        because the model was edited. `until` is monotonic; None: no limit."""
        wait = self._waits.get(model.name)
        if wait is None:
            wait = self._waits[model.name] = _Wait(model=model.name)
            self._tasks.start(self._follow(wait, model), name=f"load of {model.name}")
        left_s = None if until is None else max(0.0, until - self._world.clock.monotonic())
        wait.waiters += 1
        try:
            with self._world.use.waiting(model.name):
                async with asyncio.timeout(left_s):
                    await wait.ended.wait()
        except TimeoutError:
            raise _still_loading(wait, budget_s) from None
        finally:
            wait.waiters -= 1
        if wait.error is not None:
            # A copy for each: an error gathers the path of everybody who raises it.
            raise copy.copy(wait.error)
        return wait.was_edited

    async def follow(self, events: Sequence[Event]) -> None:
        """What happened may be what somebody waits for."""
        keys = {event.key for event in events}
        nodes_moved = any(event.kind.startswith("node.") for event in events)
        for wait in self._waits.values():
            if nodes_moved or wait.model in keys or wait.operation_id in keys:
                wait.look.set()

    async def close(self) -> None:
        await self._tasks.close()

    async def _follow(self, wait: _Wait, model: Served) -> None:
        try:
            outcome = await attempt(lambda: self._see_through(wait, model))
            if isinstance(outcome, Failed):
                wait.error = _told(outcome.error, wait.model)
        except asyncio.CancelledError:
            wait.error = Unavailable("This frontend is stopping.", hint="Ask another frontend.", code="stopping")
            raise
        finally:
            del self._waits[wait.model]
            wait.ended.set()

    async def _see_through(self, wait: _Wait, model: Served) -> None:
        world = self._world
        wait.operation_id = await world.loads.ask(wait.model)
        while True:
            wait.look.clear()
            known = world.snapshot.find(wait.model)
            # Loaded by whomever, gone, or changed: those who wait look for themselves.
            if known is None or known.run_hash != model.run_hash or world.snapshot.open_replicas(known):
                return
            try:
                async with world.database.transaction() as tx:
                    operation = await operation_store.find(tx, wait.operation_id)
                    cause = await _find_cause(tx, operation)
                    if operation is not None and operation.progress.file_name not in ("", *wait.paths):
                        found = await model_store.find_model(tx, wait.model)
                        wait.paths = found.paths if found is not None else ()
            except StoreUnavailable:
                pass  # The load goes on where it runs; so does the waiting, as long as each may.
            else:
                if operation is not None:
                    wait.saw(operation, world.clock.monotonic())
                if operation is None or operation.state not in ACTIVE:
                    operation = cause or operation
                    # The event about the replica may be on its way still.
                    await world.snapshot.refresh([wait.model])
                    wait.was_edited = _is_superseded(operation)
                    if not wait.was_edited:
                        _check_ended_well(wait.model, operation)
                    return
            if not wait.waiters:
                return  # Everybody has left. Whoever comes next joins the operation.
            await _happens(wait.look, POLL_S)


async def _find_cause(tx: Transaction, operation: Operation | None) -> Operation | None:
    """The failed installation because of which a load was not begun: what it says is what a client is to be told."""
    if operation is None or operation.state is not OperationState.CANCELLED:
        return None
    return await load_store.find_ended_install(tx, operation)


def _is_superseded(operation: Operation | None) -> bool:
    """Whether the load ended because its model was edited, disabled or deleted: requests that wait resolve it anew."""
    if operation is None:
        return False
    # Frontends of the version before write these as failures.
    was_changed = operation.fault is not None and operation.fault.code in (EDITED, "model_not_found")
    return operation.state is OperationState.SUPERSEDED or was_changed


def _check_ended_well(model: str, operation: Operation | None) -> None:
    if operation is None or operation.state in _DONE:
        return
    if operation.state is not OperationState.FAILED:
        raise NoCapacity(
            f"The load of {model} was {operation.state}.",
            hint=f"`corral operations show {operation.id}` tells more; asking again begins another one.",
            code="load_cancelled",
            details={"operation_id": operation.id},
        )
    code = operation.fault.code if operation.fault else ""
    cause = (operation.fault.text if operation.fault else "") or operation.message or "nobody said why"
    details = {"operation_id": operation.id}
    kind: type[CorralError] = NoCapacity if code in _FOR_NOW else LoadFailed
    raise kind(
        f"Model {model} could not be loaded: {cause}",
        hint=f"`corral operations show {operation.id}` tells more.",
        code=code or None,
        details=details,
    )


def _told(error: Exception, model: str) -> CorralError:
    if isinstance(error, CorralError):
        return error
    log.error("waiting for a model failed", model=model, exc_info=error)
    return LoadFailed(f"Corral made a mistake while it waited for {model}; the log of this frontend says more.")


def _still_loading(wait: _Wait, budget_s: float) -> ModelLoading:
    """What a request is told that may not wait any longer."""
    left_s, loading = wait.eta_s, loading_object(wait.model, wait.operation, wait.eta_s, wait.paths)
    words = [f"Model {wait.model} is loading", str(loading["state"]).replace("_", " ")]
    if loading.get("node"):
        words[0] += f" on {loading['node']}"
    if loading["progress"]:
        words.append(f"{loading['progress']:.0f}%")
    if left_s is not None:
        words.append(f"about {left_s:.0f} s left")
    return ModelLoading(
        ", ".join(words) + ".",
        hint="The load goes on; ask again after the time in Retry-After.",
        details={"loading": loading, "retry_after_s": round(retry_after_s(left_s, budget_s))},
    )


def loading_object(
    model: str, operation: Operation | None, left_s: float | None, paths: Sequence[str]
) -> dict[str, Any]:
    """How far a load is, in the ancestor's words. What is not known is absent. `paths` are the model's files: several
    move at a time, and the one that moved last is told."""
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


async def _happens(event: asyncio.Event, within_s: float) -> None:
    try:
        async with asyncio.timeout(within_s):
            await event.wait()
    except TimeoutError:
        return
