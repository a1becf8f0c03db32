"""The dispatcher: takes operations that are due, drives each in bounded steps, and hands over what it holds.

It runs on every frontend. The row says who holds an operation; memory here only says when to look at it next, so a
dispatcher that dies loses nothing. Guarantees: steps of one pool never wait for those of another, and an operation that
waits for its workers holds no place in a pool; a step that fails ends its own operation at most. A frontend that is off
the bus while a peer is on it claims nothing, and hands over what it holds after three seconds, except for what it is
fetching. Limit: a frontend that is killed keeps its operations until their lease runs out, 30 s.

Job events are buffered, so that reports of a thousand workers become one write twice a second, not a thousand
transactions. `JobEventBuffer.record` only touches memory and keeps the newest event of each job of a node: an event of
one node never displaces an event of another node for a job with the same id. `flush` writes what has arrived since.
While PostgreSQL is away the newest events wait; beyond the bound the oldest are dropped, and their workers are queried
later.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random  # noqa: TID251 - only the type; the generator is passed in
from types import MappingProxyType
from typing import Any

import structlog

from corral.bus.messages import JobEvent, OperationDelta
from corral.domain.cluster import OutboxEvent
from corral.domain.errors import Conflict, LeaseLost, Unavailable
from corral.domain.node import NodeId
from corral.domain.operation import OPEN, JobId, JobState, Operation, OperationId, OperationKind, Progress
from corral.operations.command_sender import (
    CommandSender,
    DispatchMetrics,
    JobEventOutcome,
    NullDispatchMetrics,
    StepOutcome,
)
from corral.operations.deltas import INTERVAL_S, OperationDeltaFeed
from corral.operations.driver import OperationDriver, OperationPool, StepResult
from corral.operations.job_reports import (
    CODE_MAX,
    JobObservation,
    JobReportListener,
    apply_observations,
    list_stopped_processes,
    make_delta,
    parse_job_event,
    parse_result,
    sanitise_text,
)
from corral.policy.progress import JobReport, TargetChange, aggregate_progress
from corral.ports.bus import Bus, Delivery
from corral.ports.runtime import Clock, IdGenerator
from corral.runtime.attempt import AttemptFailure, attempt
from corral.runtime.loop import Loop, LoopOptions
from corral.runtime.tasks import TaskSet
from corral.store import assignments as assignment_store
from corral.store import dispatch as store
from corral.store import operations as operation_store
from corral.store.database import Database, Transaction, as_uuid
from corral.store.dispatch import ClaimedOperation, OperationLease
from corral.store.operations import LeaseTerms

log = structlog.get_logger(__name__)

# After so many lost owners, the operation itself is assumed to kill them.
OWNERS_MAX = 5
# An owner that drives an operation for so long is not killed by it: owners that were lost before no longer count.
PROVEN_S = 300.0
# The wait after a step that could do nothing, or while PostgreSQL does not respond.
TRY_AGAIN_S = 1.0
# How long a frontend may be off the bus before it hands its operations over; a reconnect takes less.
OFF_BUS_S = 3.0
# Events that may mean work for a dispatcher.
_CALLS = ("operation.", "assignment.", "node.alive", "node.bus_changed", "node.backends_changed", "node.removed")
_FINAL = frozenset(state for state in JobState if state.is_final)
WAITING_MAX = 20_000
# How many jobs one transaction takes; larger ones only hold locks longer.
BATCH_MAX = 1000
# Limits the remembered states: they are texts of workers, so their number is not bounded by itself.
UNREADABLE_MAX = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushResult:
    """Says what one write of buffered job events changed: operations with a moved node, and news for watchers."""

    changed_operations: frozenset[OperationId] = frozenset()
    deltas: tuple[OperationDelta, ...] = ()


class JobEventBuffer:
    """Buffers job events of workers in a frontend's memory and writes them to PostgreSQL in batches."""

    def __init__(
        self,
        database: Database,
        ids: IdGenerator,
        *,
        origin: str,
        is_held: Callable[[str], bool],
        metrics: DispatchMetrics,
        listeners: Mapping[str, JobReportListener],
    ) -> None:
        self._database = database
        self._ids = ids
        self._origin = origin
        self._is_held = is_held
        self._metrics = metrics
        self._listeners = listeners
        self._waiting: OrderedDict[tuple[NodeId, JobId], JobObservation] = OrderedDict()
        self._unreadable: set[tuple[str, str]] = set()
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def record(self, delivery: Delivery[JobEvent]) -> None:
        event = delivery.message
        news, job, node = parse_job_event(event), as_uuid(event.job_id), as_uuid(delivery.node or "")
        if news is None or job is None or node is None:
            self._metrics.count_job_event(JobEventOutcome.ODD)
            self._warn_unreadable(delivery)
            return
        self._metrics.count_job_event(JobEventOutcome.TAKEN)
        observation = JobObservation(
            node=NodeId(node),
            job_id=JobId(job),
            observation=news,
            stopped=list_stopped_processes(event),
            result=parse_result(event),
        )
        self._put(observation)

    def _warn_unreadable(self, delivery: Delivery[JobEvent]) -> None:
        """Warn about an unreadable event, once for each node and state: a worker of a later version sends it four times
        a second."""
        node, state = sanitise_text(delivery.node or "", CODE_MAX), sanitise_text(delivery.message.state, CODE_MAX)
        if (node, state) in self._unreadable:
            return
        if len(self._unreadable) >= UNREADABLE_MAX:
            self._unreadable.clear()
        self._unreadable.add((node, state))
        log.warning("unreadable job event ignored", node=node, state=state)

    def _put(self, observation: JobObservation) -> None:
        key = (observation.node, observation.job_id)
        older = self._waiting.pop(key, None)
        self._waiting[key] = observation if older is None else _pick_newest(older, observation)
        while len(self._waiting) > WAITING_MAX:
            self._waiting.popitem(last=False)
            self.dropped += 1
            self._metrics.count_job_event(JobEventOutcome.DROPPED)

    async def flush(self) -> FlushResult:
        """Write the events that are waiting now; later ones are for the next pass."""
        called: set[OperationId] = set()
        deltas: list[OperationDelta] = []
        left = len(self._waiting)
        while left > 0 and self._waiting:
            batch = [self._waiting.popitem(last=False)[1] for _ in range(min(BATCH_MAX, left, len(self._waiting)))]
            left -= len(batch)
            try:
                async with self._database.transaction() as tx:
                    flushed = await self._apply_batch(tx, batch)
            except BaseException:
                for observation in batch:
                    self._put(observation)
                raise
            called |= flushed.changed_operations
            deltas += flushed.deltas
        return FlushResult(changed_operations=frozenset(called), deltas=tuple(deltas))

    async def _apply_batch(self, tx: Transaction, batch: Collection[JobObservation]) -> FlushResult:
        changes = await apply_observations(tx, batch, self._ids, listeners=self._listeners)
        if not changes:
            return FlushResult()
        called = frozenset(
            change.target.operation_id for change in changes if change.target.state is not change.previous_state
        )
        touched = sorted({change.target.operation_id for change in changes})
        shown = await store.read_operations(tx, touched)
        whole = {
            operation.id: aggregate_progress(operation.targets, operation.progress)
            for operation in shown
            if operation.state in OPEN
        }
        revisions = await store.write_progress(tx, whole)
        # Operations of other frontends are woken over the bus; our own are woken in memory.
        await assignment_store.wake_operations(tx, sorted(key for key in called if not self._is_held(key)))
        moved = _group_moved_nodes(changes)
        deltas = [
            make_delta(_with_progress(operation, whole, revisions), moved[operation.id], origin=self._origin)
            for operation in shown
            if operation.id in revisions
        ]
        return FlushResult(changed_operations=called, deltas=tuple(deltas))


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatcherOptions:
    """Tunables of a frontend's operation dispatcher: lease, intervals, and how many steps run at once."""

    frontend_id: str
    lease_s: float = 30.0
    claim_interval_s: float = 1.0
    renew_interval_s: float = 5.0
    flush_interval_s: float = 0.5
    # How many nodes get commands at once for one operation.
    fan_out: int = 128
    # How many steps run at once, for each kind of work.
    pools: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({"backend": 4, "model": 2, "run": 8}))


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatcherDeps:
    """Dependencies of a frontend's operation dispatcher: database, bus, clock, and the pools of operations."""

    database: Database
    bus: Bus
    clock: Clock
    ids: IdGenerator
    rng: Random
    # The registry of the kinds of operations. A pool that is not listed is left to other frontends.
    pools: Mapping[str, OperationPool]
    is_leader: Callable[[], bool]
    # Whether this frontend cannot reach workers and a peer can.
    leaves_to_peers: Callable[[], bool] = lambda: False
    metrics: DispatchMetrics = field(default_factory=NullDispatchMetrics)
    on_crash: Callable[[BaseException], None] | None = None


@dataclass(slots=True, kw_only=True)
class _HeldOperation:
    """An operation that this dispatcher holds the lease of, and when to look at it next."""

    lease: OperationLease
    pool: str
    # When to look at the operation next; None: when it is woken.
    look_at: float | None
    queries_all: bool = False
    is_stepping: bool = False
    # True until a step has begun under this lease.
    is_new: bool = True
    # The operation with its targets as it was admitted, if the first step need not read it.
    placed: Operation | None = None
    # When the lease was taken, and how many owners the operation has had.
    since_s: float = 0.0
    attempt: int = 1
    watches_replicas: bool = False


class HeldOperations:
    """Remembers the operations whose leases this frontend's dispatcher holds, and when to look at each next."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._operations: dict[OperationId, _HeldOperation] = {}

    def __iter__(self) -> Iterator[_HeldOperation]:
        return iter(self._operations.values())

    def __contains__(self, operation_id: str) -> bool:
        return operation_id in self._operations

    def find(self, operation_id: OperationId) -> _HeldOperation | None:
        return self._operations.get(operation_id)

    def add(self, lease: OperationLease, pool: str, **more: Any) -> None:
        """Hold an operation and look at it at once; it takes the place of an older lease. `more` are fields of
        `_HeldOperation`."""
        now_s = self._clock.monotonic()
        self._operations[lease.id] = _HeldOperation(lease=lease, pool=pool, look_at=now_s, since_s=now_s, **more)

    def drop(self, held: _HeldOperation) -> None:
        """Hold an operation no longer. No-op if it was dropped, or is held under a newer lease."""
        if self._operations.get(held.lease.id) is held:
            del self._operations[held.lease.id]

    def clear(self) -> None:
        self._operations.clear()

    def look_now(self, held: _HeldOperation) -> None:
        held.look_at = self._clock.monotonic()

    def schedule_look(self, held: _HeldOperation, seconds: float) -> None:
        """Schedule the next look at an operation, unless it was woken for an earlier one meanwhile."""
        at = self._clock.monotonic() + seconds
        held.look_at = at if held.look_at is None else min(held.look_at, at)

    def list_proven(self) -> list[OperationId]:
        """Return the operations that others have lost and that have been held here for long enough."""
        since_s = self._clock.monotonic() - PROVEN_S
        return [held.lease.id for held in self if held.attempt > 1 and held.since_s <= since_s]

    def list_due(self, pool: str) -> list[_HeldOperation]:
        """Return the operations of a pool that are to be looked at now, the one that waits longest first."""
        now = self._clock.monotonic()
        due = [
            held
            for held in self
            if held.pool == pool and not held.is_stepping and held.look_at is not None and held.look_at <= now
        ]
        return sorted(due, key=lambda held: held.look_at or 0.0)

    def count_steps(self, pool: str) -> int:
        """Return how many operations of a pool are in the middle of a step."""
        return sum(held.is_stepping for held in self if held.pool == pool)


class OperationDispatcher:
    """Claims due operations for a frontend, drives each in bounded steps, and hands its leases over when it stops."""

    name = "dispatcher"

    def __init__(self, deps: DispatcherDeps, options: DispatcherOptions, deltas: OperationDeltaFeed) -> None:
        self._deps = deps
        self._options = options
        self._deltas = deltas
        self._held_operations = HeldOperations(deps.clock)
        # Since when operations that need workers have been left to peers.
        self._off_bus_since: float | None = None
        self._is_stopping = False
        # What the next pass of the loop is for; neither: its interval is over.
        self._is_claim_due = False
        self._is_look_due = False
        self._claimed_at_s = float("-inf")
        self._tasks = TaskSet("dispatcher", deps.on_crash)
        self._drivers = {
            name: OperationDriver(
                database=deps.database,
                sender=CommandSender(deps.bus, limit=options.fan_out, metrics=deps.metrics),
                ids=deps.ids,
                pool=pool,
                frontend_id=options.frontend_id,
            )
            for name, pool in deps.pools.items()
        }
        self._events = JobEventBuffer(
            deps.database,
            deps.ids,
            origin=options.frontend_id,
            is_held=lambda key: key in self._held_operations,
            metrics=deps.metrics,
            listeners={name: pool.listener for name, pool in deps.pools.items()},
        )
        self.claim_loop = self._make_loop("dispatcher", options.claim_interval_s, self._run_pass)
        self.renew_loop = self._make_loop("operation leases", options.renew_interval_s, self.renew_leases)
        self.flush_loop = self._make_loop("job events", options.flush_interval_s, self.flush)
        self._deltas_loop = self._make_loop("operation deltas", INTERVAL_S, deltas.tick)

    @property
    def loops(self) -> tuple[Loop, ...]:
        return (self.claim_loop, self.renew_loop, self.flush_loop, self._deltas_loop)

    @property
    def held(self) -> frozenset[OperationId]:
        return frozenset(held.lease.id for held in self._held_operations)

    def wake(self) -> None:
        """Wake the dispatcher to claim and look at due operations at once."""
        self._is_claim_due = True
        self.claim_loop.wake()

    def _wake_to_look(self) -> None:
        """Wake the dispatcher to look at operations that it holds, without a claim."""
        self._is_look_due = True
        self.claim_loop.wake()

    def find_lease_terms(self, pool: str) -> LeaseTerms | None:
        """Return how this frontend claims an operation while it is admitted; None if another one might begin sooner."""
        if pool not in self._drivers or not self._count_free(pool) or self._is_stopping or self._deps.leaves_to_peers():
            return None
        return LeaseTerms(owner=self._options.frontend_id, lease_s=self._options.lease_s)

    def hold_admitted(self, lease: OperationLease, pool: str, placed: Operation | None) -> None:
        """Drive an operation that was admitted with a lease for this frontend. `placed`: with its targets, whose
        commands can be sent at once."""
        self._held_operations.add(lease, pool, placed=placed)
        self._wake_to_look()

    async def follow(self, events: Sequence[OutboxEvent]) -> None:
        """Wake the dispatcher for events that may mean work."""
        if any(event.kind.startswith("replica.") for event in events):
            for held in self._held_operations:
                if held.watches_replicas:
                    self._held_operations.look_now(held)
                    self.wake()
        if any(event.kind.startswith(_CALLS) and event.key not in self._held_operations for event in events):
            self.wake()

    def wake_operation(self, operation_id: OperationId) -> bool:
        """Wake one operation: work for it has progressed. Return whether it is held here."""
        held = self._held_operations.find(operation_id)
        if held is None:
            return False
        # Its rows may have changed since its admission.
        held.placed = None
        self._held_operations.look_now(held)
        self._wake_to_look()
        return True

    async def on_reconnect(self) -> None:
        """Query every held operation's jobs after a reconnect: messages sent meanwhile are lost."""
        for held in self._held_operations:
            held.queries_all = True
            self._held_operations.look_now(held)
        self.wake()

    async def on_job_event(self, delivery: Delivery[JobEvent]) -> None:
        """Buffer the event of a job that is held here. The leader takes in every end, so the end of a job that no
        frontend holds is not lost."""
        event = delivery.message
        is_ours = event.operation_id in self._held_operations
        if is_ours or (event.state in _FINAL and self._deps.is_leader()):
            self._events.record(delivery)

    async def _run_pass(self) -> int:
        """Claim and start steps, or only start steps if nothing else calls for this pass."""
        is_recent = self._deps.clock.monotonic() - self._claimed_at_s < self._options.claim_interval_s
        is_look = self._is_look_due and not self._is_claim_due and is_recent
        self._is_claim_due = self._is_look_due = False
        return self._start_all_steps() if is_look else await self.tick()

    async def tick(self) -> int:
        """Claim due operations and start steps; return how many were started."""
        leaves = self._deps.leaves_to_peers()
        if leaves:
            await self._hand_over_to_peers()
        else:
            self._off_bus_since = None
        # Operations that are held already do not wait for the claim.
        started = self._start_all_steps()
        if not leaves:
            await self._claim()
            started += self._start_all_steps()
        return started

    def _start_all_steps(self) -> int:
        return sum(self._start_steps(pool, self._count_free(pool)) for pool in self._drivers)

    def _count_free(self, pool: str) -> int:
        """Return how many steps of a pool may begin now."""
        return max(0, self._options.pools.get(pool, 0) - self._held_operations.count_steps(pool))

    async def _hand_over_to_peers(self) -> None:
        """Hand the held operations over once the frontend has been off the bus for long enough; an operation in the
        middle of a step follows with the next pass."""
        if self._off_bus_since is None:
            self._off_bus_since = self._deps.clock.monotonic()
        if self._deps.clock.monotonic() - self._off_bus_since < OFF_BUS_S:
            return
        left = [held for held in self._held_operations if not held.is_stepping and not self._is_busy_with(held)]
        if not left:
            return
        keys = [held.lease.id for held in left]
        log.warning("this frontend is off the bus: its operations are handed over", operations=keys)
        async with self._deps.database.transaction() as tx:
            await store.hand_over(tx, self._options.frontend_id, keys)
        for held in left:
            self._held_operations.drop(held)

    def _is_busy_with(self, held: _HeldOperation) -> bool:
        return self._deps.pools[held.pool].is_busy_with(held.lease.id)

    async def wait_idle(self) -> None:
        """Wait until no step runs."""
        await self._tasks.join()

    async def renew_leases(self) -> None:
        """Renew the leases of all held operations in one statement, and drop those that another frontend has taken
        over."""
        holds = [held.lease for held in self._held_operations]
        if not holds:
            return
        async with self._deps.database.transaction() as tx:
            kept = await store.renew_leases(
                tx, self._options.frontend_id, holds, self._options.lease_s, self._held_operations.list_proven()
            )
        for hold in holds:
            held = self._held_operations.find(hold.id)
            if held is not None and held.lease == hold and hold.id not in kept and not held.is_stepping:
                self._held_operations.drop(held)

    async def flush(self) -> None:
        """Write the buffered job events of workers."""
        flushed = await self._events.flush()
        for delta in flushed.deltas:
            self._deltas.publish(delta)
        for key in flushed.changed_operations:
            held = self._held_operations.find(key)
            if held is not None:
                self._held_operations.look_now(held)
        if flushed.changed_operations:
            self.wake()

    async def stop(self) -> None:
        """Release every lease, so that peers continue at once instead of waiting for leases to run out."""
        self._is_stopping = True
        await self._tasks.close()
        outcome = await attempt(self.flush)
        if isinstance(outcome, AttemptFailure):
            log.warning("the last events of jobs were not written", error=outcome.sentence)
        self._held_operations.clear()
        async with self._deps.database.transaction() as tx:
            await store.hand_over(tx, self._options.frontend_id)

    async def _claim(self) -> None:
        kinds = {pool: [kind for kind in OperationKind if kind.pool == pool] for pool in self._drivers}
        pools = [(kinds[pool], free) for pool in self._drivers if kinds[pool] and (free := self._count_free(pool))]
        if not pools:
            return
        self._claimed_at_s = self._deps.clock.monotonic()
        busy = [held.lease.id for held in self._held_operations if held.is_stepping]
        async with self._deps.database.transaction() as tx:
            request = store.ClaimRequest(owner=self._options.frontend_id, pools=pools, busy=busy, held=self.held)
            claimed = await store.claim_operations(tx, request, self._options.lease_s)
            await operation_store.add_notes(
                tx,
                [(c.lease.id, "warning", "", f"taken over from frontend {c.lost_by}") for c in claimed if c.lost_by],
            )
        for item in claimed:
            self._hold_claimed(item, item.kind.pool)

    def _hold_claimed(self, claimed: ClaimedOperation, pool: str) -> None:
        held = self._held_operations.find(claimed.lease.id)
        if held is not None and held.lease == claimed.lease:
            self._held_operations.look_now(held)
            return
        is_lost = claimed.lost_by is not None and claimed.attempt > OWNERS_MAX + 1
        if is_lost and claimed.state in OPEN:
            if held is not None:
                self._held_operations.drop(held)
            self._tasks.start(self._reap(claimed.lease, self._drivers[pool]), name=f"reap {claimed.lease.id}")
        else:
            # A new owner has missed earlier events, so it queries the workers. A new operation has none to query yet.
            self._held_operations.add(claimed.lease, pool, queries_all=not claimed.is_new, attempt=claimed.attempt)

    async def _reap(self, lease: OperationLease, driver: OperationDriver) -> None:
        outcome = await attempt(lambda: driver.reap(lease))
        if isinstance(outcome, AttemptFailure):
            log.warning("could not give an operation up", operation=lease.id, error=outcome.sentence)

    def _start_steps(self, pool: str, free: int) -> int:
        due = self._held_operations.list_due(pool)[:free]
        for held in due:
            held.is_stepping = True
            asks_all, held.queries_all, held.look_at = held.queries_all, False, None
            is_first, held.is_new = held.is_new, False
            step = self._step(held, queries_all=asks_all, is_first=is_first)
            self._tasks.start(step, name=f"step {held.lease.id}")
        return len(due)

    async def _step(self, held: _HeldOperation, *, queries_all: bool, is_first: bool) -> None:
        began, driver = self._deps.clock.monotonic(), self._drivers[held.pool]
        placed, held.placed = held.placed, None

        async def step() -> StepResult:
            if placed is not None:
                return await driver.begin_placed(held.lease, placed)
            return await driver.step(held.lease, queries_all=queries_all, is_first=is_first)

        try:
            outcome = await attempt(step)
            self._deps.metrics.count_step(_classify_outcome(outcome), self._deps.clock.monotonic() - began)
            if isinstance(outcome, AttemptFailure):
                await self._handle_step_failure(held, outcome, queries_all=queries_all)
            else:
                await self._finish_step(held, outcome.value)
        finally:
            was_full = not self._count_free(held.pool)
            held.is_stepping = False
        # A place is free, so an operation that was woken meanwhile need not wait for the interval. One that is held no
        # longer may have made others due, and a full pool may have kept some from being claimed.
        if was_full or held.lease.id not in self._held_operations:
            self.wake()
        else:
            self._wake_to_look()

    async def _finish_step(self, held: _HeldOperation, result: StepResult) -> None:
        held.watches_replicas = result.watches_replicas
        if result.delta is not None:
            self._deltas.publish(result.delta)
        if not result.is_held:
            self._held_operations.drop(held)
            if held.look_at is not None:
                # A worker has reported after the step had read the rows: the next owner is to know.
                async with self._deps.database.transaction() as tx:
                    await assignment_store.wake_operations(tx, [held.lease.id])
        elif result.next_s is not None:
            soonest = 0.0 if result.has_moved else TRY_AGAIN_S
            self._held_operations.schedule_look(held, max(result.next_s, soonest))

    async def _handle_step_failure(self, held: _HeldOperation, failed: AttemptFailure, *, queries_all: bool) -> None:
        error, key = failed.error, held.lease.id
        if isinstance(error, LeaseLost):
            self._held_operations.drop(held)
        elif _is_retryable(error):
            held.queries_all = held.queries_all or queries_all
            self._held_operations.schedule_look(held, TRY_AGAIN_S)
        else:
            log.error("a step failed", operation=key, error=repr(error), exc_info=error)
            text = f"Internal error of Corral: {failed.sentence}"
            ended = await attempt(lambda: self._drivers[held.pool].fail(held.lease, text))
            if isinstance(ended, AttemptFailure) and not isinstance(ended.error, LeaseLost):
                self._held_operations.schedule_look(held, TRY_AGAIN_S * 5)
            else:
                self._held_operations.drop(held)

    def _make_loop(self, name: str, interval_s: float, tick: Callable[[], Awaitable[object]]) -> Loop:
        options = LoopOptions(name=name, interval_s=interval_s)
        return Loop(options, tick, self._deps.clock, self._deps.rng, on_crash=self._deps.on_crash)


def _is_retryable(error: Exception) -> bool:
    return isinstance(error, Unavailable) or (isinstance(error, Conflict) and error.slug == "try_again")


def _classify_outcome(outcome: object) -> StepOutcome:
    if not isinstance(outcome, AttemptFailure):
        return StepOutcome.DONE
    if isinstance(outcome.error, LeaseLost):
        return StepOutcome.LOST
    return StepOutcome.LATER if _is_retryable(outcome.error) else StepOutcome.FAILED


def _with_progress(
    operation: Operation, whole: dict[OperationId, Progress], revisions: dict[OperationId, int]
) -> Operation:
    return replace(operation, progress=whole[operation.id], rev=revisions[operation.id])


def _group_moved_nodes(changes: Collection[TargetChange]) -> dict[OperationId, set[NodeId]]:
    moved: dict[OperationId, set[NodeId]] = {}
    for change in changes:
        moved.setdefault(change.target.operation_id, set()).add(change.target.node)
    return moved


def _pick_newest(older: JobObservation, newer: JobObservation) -> JobObservation:
    """Return the newer of two observations by the worker's own counter, not by arrival. Processes that ended in either
    one count as ended."""
    stopped = tuple(dict.fromkeys((*older.stopped, *newer.stopped)))
    return replace(newer if _get_seq(newer) >= _get_seq(older) else older, stopped=stopped)


def _get_seq(observation: JobObservation) -> int:
    assert isinstance(observation.observation, JobReport), "only observations of workers are buffered"
    return observation.observation.seq
