"""The dispatcher: takes operations that are due, drives each in bounded steps, and hands over what it holds.

It runs on every frontend. The row says who holds an operation; memory here only says when to look at it next, so a
dispatcher that dies loses nothing. Guarantees: steps of one pool never wait for those of another, and an operation that
waits for its workers holds no place in a pool; a step that fails ends its own operation at most. A frontend that is off
the bus while a peer is on it claims nothing, and hands over what it holds after three seconds, except for what it is
fetching. Limit: a frontend that is killed keeps its operations until their lease runs out, 30 s.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random  # noqa: TID251 - only the type; the generator is passed in
from types import MappingProxyType

import structlog

from corral.bus.messages import JobEvent
from corral.domain.cluster import Event
from corral.domain.errors import Conflict, LeaseLost, Unavailable
from corral.domain.operation import OPEN, JobState, OperationId, OperationKind
from corral.operations.apply import Teller
from corral.operations.deltas import INTERVAL_S, Deltas
from corral.operations.events import JobEvents
from corral.operations.numbers import Numbers, StepOutcome, Uncounted
from corral.operations.planning import Builds
from corral.operations.step import Pool, Stepped, Stepper, Steps
from corral.ports.bus import Bus, Delivery
from corral.ports.runtime import Clock, Ids
from corral.runtime.guard import Failed, attempt
from corral.runtime.loop import Loop, LoopPlan
from corral.runtime.tasks import Tasks
from corral.store import assignments as assignment_store
from corral.store import dispatch as store
from corral.store import operations as operation_store
from corral.store.database import Database
from corral.store.dispatch import Claimed, Hold

log = structlog.get_logger(__name__)

# After this many owners were lost, the operation itself is what kills them.
OWNERS_MAX = 5
# When a step could do nothing, or PostgreSQL did not answer.
TRY_AGAIN_S = 1.0
# So long a frontend may be off the bus before it hands over what it holds: a reconnect takes less.
OFF_BUS_S = 3.0
# Events that may mean work for a dispatcher.
_CALLS = ("operation.", "assignment.", "node.alive", "node.bus_changed", "node.backends_changed", "node.removed")
_FINAL = frozenset(state for state in JobState if state.is_final)


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchOptions:
    frontend_id: str
    lease_s: float = 30.0
    claim_interval_s: float = 1.0
    renew_interval_s: float = 5.0
    flush_interval_s: float = 0.5
    # How many nodes are spoken to at once for one operation.
    fan_out: int = 128
    # How many steps run at once, for each kind of work.
    pools: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({"backend": 4, "model": 2}))


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchWorld:
    database: Database
    bus: Bus
    clock: Clock
    ids: Ids
    rng: Random
    catalog: Builds
    is_leader: Callable[[], bool]
    # Whether this frontend cannot reach workers and a peer can.
    leaves_to_peers: Callable[[], bool] = lambda: False
    # What drives operations that are not about backends, by pool. A pool that is not here is left to other frontends.
    others: Mapping[str, Pool] = field(default_factory=lambda: MappingProxyType({}))
    numbers: Numbers = field(default_factory=Uncounted)
    on_crash: Callable[[BaseException], None] | None = None


@dataclass(slots=True, kw_only=True)
class _Held:
    hold: Hold
    pool: str
    # When to look at it; None: when somebody calls.
    look_at: float | None
    asks_all: bool = False
    is_stepping: bool = False
    hears_replicas: bool = False


class Dispatcher:
    name = "dispatcher"

    def __init__(self, world: DispatchWorld, options: DispatchOptions, deltas: Deltas) -> None:
        self._world = world
        self._options = options
        self._deltas = deltas
        self._held: dict[OperationId, _Held] = {}
        # Since when what needs workers is left to peers.
        self._off_bus_since: float | None = None
        self._tasks = Tasks("dispatcher", world.on_crash)
        backends = Stepper(
            database=world.database,
            teller=Teller(world.bus, limit=options.fan_out, numbers=world.numbers),
            ids=world.ids,
            catalog=world.catalog,
            frontend_id=options.frontend_id,
        )
        self._steps: dict[str, Steps] = {"backend": backends} | {
            name: pool.steps for name, pool in world.others.items()
        }
        self._events = JobEvents(
            world.database,
            world.ids,
            origin=options.frontend_id,
            is_held=lambda key: key in self._held,
            numbers=world.numbers,
            listeners={name: pool.listener for name, pool in world.others.items()},
        )
        self.claim_loop = self._loop("dispatcher", options.claim_interval_s, self.tick)
        self.renew_loop = self._loop("operation leases", options.renew_interval_s, self.renew)
        self.flush_loop = self._loop("job events", options.flush_interval_s, self.flush)
        self._deltas_loop = self._loop("operation deltas", INTERVAL_S, deltas.tick)

    @property
    def loops(self) -> tuple[Loop, ...]:
        return (self.claim_loop, self.renew_loop, self.flush_loop, self._deltas_loop)

    @property
    def held(self) -> frozenset[OperationId]:
        return frozenset(self._held)

    def wake(self) -> None:
        """Look at once at what is due."""
        self.claim_loop.wake()

    async def follow(self, events: Sequence[Event]) -> None:
        """Something has been written that may be for a dispatcher."""
        if any(event.kind.startswith("replica.") for event in events):
            for held in self._held.values():
                if held.hears_replicas:
                    held.look_at = self._now()
                    self.wake()
        if any(event.kind.startswith(_CALLS) for event in events):
            self.wake()

    def call(self, operation_id: OperationId) -> None:
        """Something that this frontend does for an operation has come further."""
        held = self._held.get(operation_id)
        if held is not None:
            held.look_at = self._now()
            self.wake()

    async def on_reconnect(self) -> None:
        """What was said meanwhile is lost: ask about everything that is held."""
        for held in self._held.values():
            held.asks_all, held.look_at = True, self._now()
        self.wake()

    async def on_job_event(self, delivery: Delivery[JobEvent]) -> None:
        """Those of what is held here. The leader takes in every end: one whose operation nobody holds is not lost."""
        event = delivery.message
        is_ours = event.operation_id in self._held
        if is_ours or (event.state in _FINAL and self._world.is_leader()):
            self._events.record(delivery)

    async def tick(self) -> int:
        """Take what is due and start steps; how many were started."""
        started, leaves = 0, self._world.leaves_to_peers()
        if leaves:
            await self._hand_over_to_peers()
        else:
            self._off_bus_since = None
        for pool, size in self._options.pools.items():
            if pool not in self._steps:
                continue
            free = size - sum(held.is_stepping for held in self._held.values() if held.pool == pool)
            if free > 0:
                if not leaves:
                    await self._claim(pool, free)
                started += self._start_steps(pool, free)
        return started

    async def _hand_over_to_peers(self) -> None:
        """Give back what is held once this has lasted; what a step is at follows with the next pass."""
        if self._off_bus_since is None:
            self._off_bus_since = self._now()
        if self._now() - self._off_bus_since < OFF_BUS_S:
            return
        left = [key for key, held in self._held.items() if not held.is_stepping and not self._is_busy_with(held)]
        if not left:
            return
        log.warning("this frontend is off the bus: its operations are handed over", operations=left)
        async with self._world.database.transaction() as tx:
            await store.hand_over(tx, self._options.frontend_id, left)
        for key in left:
            del self._held[key]

    def _is_busy_with(self, held: _Held) -> bool:
        pool = self._world.others.get(held.pool)
        return pool is not None and pool.is_busy_with(held.hold.id)

    async def idle(self) -> None:
        """Return when no step runs."""
        await self._tasks.join()

    async def renew(self) -> None:
        """Keep what is held, in one statement; what somebody else has by now is let go."""
        holds = [held.hold for held in self._held.values()]
        if not holds:
            return
        async with self._world.database.transaction() as tx:
            kept = await store.renew(tx, self._options.frontend_id, holds, self._options.lease_s)
        for hold in holds:
            held = self._held.get(hold.id)
            if held is not None and held.hold == hold and hold.id not in kept and not held.is_stepping:
                del self._held[hold.id]

    async def flush(self) -> None:
        """Take in what workers have said."""
        flushed = await self._events.flush()
        for delta in flushed.deltas:
            self._deltas.publish(delta)
        for key in flushed.called:
            held = self._held.get(key)
            if held is not None:
                held.look_at = self._now()
        if flushed.called:
            self.wake()

    async def stop(self) -> None:
        """Hand everything over: peers go on at once instead of waiting for leases to run out."""
        await self._tasks.close()
        outcome = await attempt(self.flush)
        if isinstance(outcome, Failed):
            log.warning("the last events of jobs were not written", error=outcome.sentence)
        self._held.clear()
        async with self._world.database.transaction() as tx:
            await store.hand_over(tx, self._options.frontend_id)

    async def _claim(self, pool: str, limit: int) -> None:
        kinds = [kind for kind in OperationKind if kind.pool == pool]
        if not kinds:
            return
        busy = [key for key, held in self._held.items() if held.is_stepping]
        async with self._world.database.transaction() as tx:
            wish = store.Wish(owner=self._options.frontend_id, kinds=kinds, limit=limit, busy=busy)
            claimed = await store.claim(tx, wish, self._options.lease_s)
            await operation_store.add_notes(
                tx,
                [(c.hold.id, "warning", "", f"taken over from frontend {c.lost_by}") for c in claimed if c.lost_by],
            )
        for item in claimed:
            self._take(item, pool)

    def _take(self, claimed: Claimed, pool: str) -> None:
        key, held = claimed.hold.id, self._held.get(claimed.hold.id)
        if held is not None and held.hold == claimed.hold:
            held.look_at = self._now()
            return
        # Whoever takes over has not heard what was said before. One that is new has nobody to ask.
        self._held[key] = _Held(
            hold=claimed.hold, pool=pool, look_at=self._now(), asks_all=not claimed.is_new, is_stepping=False
        )
        is_lost = claimed.lost_by is not None and claimed.attempt > OWNERS_MAX + 1
        if is_lost and claimed.state in OPEN:
            del self._held[key]
            self._tasks.start(self._reap(claimed.hold, self._steps[pool]), name=f"reap {key}")

    async def _reap(self, hold: Hold, steps: Steps) -> None:
        outcome = await attempt(lambda: steps.reap(hold))
        if isinstance(outcome, Failed):
            log.warning("could not give an operation up", operation=hold.id, error=outcome.sentence)

    def _start_steps(self, pool: str, free: int) -> int:
        now = self._now()
        due = [
            held
            for held in self._held.values()
            if held.pool == pool and not held.is_stepping and held.look_at is not None and held.look_at <= now
        ]
        due.sort(key=lambda held: held.look_at or 0.0)
        for held in due[:free]:
            held.is_stepping = True
            asks_all, held.asks_all, held.look_at = held.asks_all, False, None
            self._tasks.start(self._step(held, asks_all=asks_all), name=f"step {held.hold.id}")
        return len(due[:free])

    async def _step(self, held: _Held, *, asks_all: bool) -> None:
        began = self._now()
        try:
            outcome = await attempt(lambda: self._steps[held.pool].step(held.hold, asks_all=asks_all))
            self._world.numbers.stepped(_counted(outcome), self._now() - began)
            if isinstance(outcome, Failed):
                await self._failed(held, outcome, asks_all=asks_all)
            else:
                await self._ended(held, outcome.value)
        finally:
            held.is_stepping = False
        # A place is free, and what was called for meanwhile need not wait for the interval.
        self.wake()

    async def _ended(self, held: _Held, stepped: Stepped) -> None:
        held.hears_replicas = stepped.hears_replicas
        if stepped.delta is not None:
            self._deltas.publish(stepped.delta)
        if not stepped.is_held:
            self._drop(held)
            if held.look_at is not None:
                # A worker has spoken after the step had looked: whoever takes it next is to know.
                async with self._world.database.transaction() as tx:
                    await assignment_store.wake_operations(tx, [held.hold.id])
        elif stepped.next_s is not None:
            soonest = 0.0 if stepped.has_moved else TRY_AGAIN_S
            self._look(held, max(stepped.next_s, soonest))

    async def _failed(self, held: _Held, failed: Failed, *, asks_all: bool) -> None:
        error, key = failed.error, held.hold.id
        if isinstance(error, LeaseLost):
            self._drop(held)
        elif _is_for_later(error):
            held.asks_all = held.asks_all or asks_all
            self._look(held, TRY_AGAIN_S)
        else:
            log.error("a step failed", operation=key, error=repr(error), exc_info=error)
            text = f"A fault of Corral: {failed.sentence}"
            ended = await attempt(lambda: self._steps[held.pool].fail(held.hold, text))
            if isinstance(ended, Failed) and not isinstance(ended.error, LeaseLost):
                self._look(held, TRY_AGAIN_S * 5)
            else:
                self._drop(held)

    def _look(self, held: _Held, seconds: float) -> None:
        """Unless somebody has called for an earlier look meanwhile."""
        at = self._now() + seconds
        held.look_at = at if held.look_at is None else min(held.look_at, at)

    def _drop(self, held: _Held) -> None:
        if self._held.get(held.hold.id) is held:
            del self._held[held.hold.id]

    def _now(self) -> float:
        return self._world.clock.monotonic()

    def _loop(self, name: str, interval_s: float, tick: Callable[[], Awaitable[object]]) -> Loop:
        plan = LoopPlan(name=name, interval_s=interval_s)
        return Loop(plan, tick, self._world.clock, self._world.rng, on_crash=self._world.on_crash)


def _is_for_later(error: Exception) -> bool:
    return isinstance(error, Unavailable) or (isinstance(error, Conflict) and error.slug == "try_again")


def _counted(outcome: object) -> StepOutcome:
    if not isinstance(outcome, Failed):
        return StepOutcome.DONE
    if isinstance(outcome.error, LeaseLost):
        return StepOutcome.LOST
    return StepOutcome.LATER if _is_for_later(outcome.error) else StepOutcome.FAILED
