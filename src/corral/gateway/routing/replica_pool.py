"""Holds every loaded replica as this frontend sees it, and the pool of a model: its replicas and the requests that
wait.

A replica keeps its expected wait precomputed: it changes when a request comes or goes, not when a replica is looked
for. So choosing one is a loop over plain numbers, and a request that finds room costs some microseconds, no query and
no task.

Guarantees: a request is counted once from the checkout to its end, whichever way it ends; releasing twice counts once,
and so does a verdict. A replica is given no more requests than it works on at a time; a released one goes to the next
waiting request at once, and is used or released even if that request is cancelled in that very moment; a cancelled
request leaves the queue at once. `policy/serving/fair_queue.py` decides whose turn it is; a request that had a replica
and lost it goes first: it has had its turn, and can use only the replicas that it has not tried. Limit: the counts of
other frontends are as old as their last lease; see `policy/serving/routing.py` for what that means.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

from corral.domain.replica import Replica
from corral.gateway.errors import QueueFull, QueueTimeout
from corral.policy.serving.circuit_breaker import CircuitBreaker
from corral.policy.serving.fair_queue import FairQueue
from corral.policy.serving.routing import (
    LEAST_WAIT,
    NEVER,
    CandidateSnapshot,
    RoutableNode,
    RoutePolicy,
    compute_allowed_in_flight,
    compute_preference,
    compute_retry_after_s,
    compute_step_s,
    compute_typical_s,
    fade_average,
    find_policy,
    order_candidates,
    update_average,
)
from corral.ports.runtime import Clock
from corral.store.replica_use import PeerUse, ServedModel


class ReleasableResource(Protocol):
    """Interface of a resource, such as a replica, that a queue gives to a request and that is released afterwards."""

    def release(self) -> None: ...


T = TypeVar("T", bound=ReleasableResource)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueEntry:
    """One inference request that waits for a replica: its key, its cost in tokens and the replicas it cannot use."""

    key_id: str = ""
    cost: int = 1
    excluded: Collection[str] = ()
    # The request had a replica before and lost it.
    is_retry: bool = False
    # No client waits for the answer: the request gives way to all others.
    is_background: bool = False


class ReplicaQueue(Generic[T]):
    """Queues the requests for one model until a replica has room, fairly between API keys.

    Retries go first, and requests in the background last. `take` gives a free replica that is not excluded, or None;
    `take_behind_others` gives one for a request in the background.
    """

    def __init__(
        self, take: Callable[[Collection[str]], T | None], take_behind_others: Callable[[], T | None] = lambda: None
    ) -> None:
        self._take = take
        self._take_behind_others = take_behind_others
        self._fair_queue: FairQueue[asyncio.Future[T | None]] = FairQueue()
        self._background_queue: FairQueue[asyncio.Future[T | None]] = FairQueue()
        self._retries: dict[asyncio.Future[T | None], Collection[str]] = {}
        # Plain numbers, because every request reads them: without and with those in the background.
        self.count = 0
        self.total_count = 0

    @property
    def background_count(self) -> int:
        return self.total_count - self.count

    async def wait_for_turn(self, entry: QueueEntry, timeout_s: float) -> T | None:
        """Wait for a replica and return it; None: look again, the replicas have changed. Raises `TimeoutError` after
        `timeout_s`."""
        future: asyncio.Future[T | None] = asyncio.get_running_loop().create_future()
        ticket, is_behind = 0, entry.is_background and not entry.is_retry
        if entry.is_retry:
            self._retries[future] = entry.excluded
        elif is_behind:
            ticket = self._background_queue.add(entry.key_id, entry.cost, future)
        else:
            ticket = self._fair_queue.add(entry.key_id, entry.cost, future)
        self.count += not is_behind
        self.total_count += 1
        # A replica may have become free meanwhile, and no other event would hand it out.
        self.hand_out_free()
        try:
            async with asyncio.timeout(timeout_s):
                return await future
        except BaseException:
            self._withdraw(future, ticket, is_behind=is_behind)
            raise

    def hand_out_free(self) -> None:
        """Hand out the free replicas to the entries whose turn it is."""
        for future, without in tuple(self._retries.items()):
            thing = None if future.done() else self._take(without)
            if thing is not None:
                self._remove_retry(future)
                future.set_result(thing)
        while self.count > len(self._retries):
            thing = self._take(())
            if thing is None:
                return
            self._hand_over(thing)
        while self.background_count:
            thing = self._take_behind_others()
            if thing is None:
                return
            self._hand_over_behind_others(thing)

    def wake_all(self, *, only_retries: bool = False) -> None:
        """Wake the entries to look again, because the model has other replicas now."""
        woken = list(self._retries)
        self._retries.clear()
        self.count -= len(woken)
        self.total_count -= len(woken)
        if not only_retries:
            others = self._fair_queue.clear()
            self.count -= len(others)
            woken += others
            background = self._background_queue.clear()
            self.total_count -= len(others) + len(background)
            woken += background
        for future in woken:
            if not future.done():
                future.set_result(None)

    def _hand_over(self, thing: T) -> None:
        while (future := self._fair_queue.pop()) is not None:
            self.count -= 1
            self.total_count -= 1
            # The request was cancelled, and has not left the queue yet.
            if not future.done():
                future.set_result(thing)
                return
        thing.release()

    def _hand_over_behind_others(self, thing: T) -> None:
        while (future := self._background_queue.pop()) is not None:
            self.total_count -= 1
            if not future.done():
                future.set_result(thing)
                return
        thing.release()

    def _withdraw(self, future: asyncio.Future[T | None], ticket: int, *, is_behind: bool) -> None:
        if is_behind:
            self.total_count -= self._background_queue.remove(ticket)
        elif not self._remove_retry(future) and self._fair_queue.remove(ticket):
            self.count -= 1
            self.total_count -= 1
        handed = future.result() if future.done() and not future.cancelled() else None
        if handed is not None:
            handed.release()

    def _remove_retry(self, future: asyncio.Future[T | None]) -> bool:
        if self._retries.pop(future, None) is None:
            return False
        self.count -= 1
        self.total_count -= 1
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaPoolOptions:
    """Tunables of request queues: how many requests a replica works on at a time, and how many wait how long."""

    # How many requests a replica works on at a time, unless its model sets this itself.
    concurrency: int = 64
    # How many requests may wait for one model at this frontend, and how long.
    queue_max: int = 1000
    queue_wait_s: float = 60.0


class RoutableReplica:
    """One loaded replica as this frontend routes requests to it: open requests, response times, circuit breaker.

    Implements `policy.serving.routing.RouteCandidate`.
    """

    __slots__ = (
        "_current_limit",
        "_step_s",
        "breaker",
        "expected_s",
        "first_byte_s",
        "free_bytes",
        "in_flight_elsewhere",
        "in_flight_here",
        "is_used",
        "last_pick",
        "max_in_flight",
        "node_name",
        "other_frontends",
        "pool",
        "replica",
        "response_headers",
        "response_s",
    )

    def __init__(self, replica: Replica, pool: ReplicaPool) -> None:
        self.replica = replica
        self.pool = pool
        self.node_name = ""
        # Response headers that say which node and replica answered.
        self.response_headers: tuple[tuple[bytes, bytes], ...] = ()
        self.free_bytes = 0
        # This frontend's requests in flight there, those of other frontends, and the number of those frontends.
        self.in_flight_here = 0
        self.in_flight_elsewhere = 0
        self.other_frontends = 0
        self.last_pick = 0
        # Whether a request came since the last pass of the leases.
        self.is_used = False
        # Learnt from responses; None before the first one.
        self.response_s: float | None = None
        self.first_byte_s: float | None = None
        self.breaker = CircuitBreaker()
        # How many requests of this frontend the replica takes, and how many now: none while its breaker is not closed.
        self.max_in_flight = 0
        self._current_limit = 0
        self._step_s = 0.0
        self.expected_s = NEVER

    @property
    def has_room(self) -> bool:
        return self.in_flight_here < self.max_in_flight

    @property
    def has_room_behind_others(self) -> bool:
        """Return whether a request in the background may come: one more fits in afterwards, or nothing is in flight."""
        return self.has_room and (not self.in_flight_here or self.in_flight_here + 1 < self.max_in_flight)

    def update(self, replica: Replica, node: RoutableNode) -> None:
        """Apply the registry's current row. A new address means a new process, so everything that was learnt is
        forgotten."""
        if replica.address != self.replica.address:
            self.breaker = CircuitBreaker()
            self.response_s = self.first_byte_s = None
        self.replica = replica
        self.node_name = node.name
        self.response_headers = (
            (b"x-corral-node", node.name.encode("ascii", "replace")),
            (b"x-corral-replica", replica.id.encode("ascii", "replace")),
        )
        self.free_bytes = node.free_bytes

    def recompute_expected_wait(self) -> None:
        """Recompute the ranking. Called after any change except this frontend's in-flight count."""
        pool = self.pool
        self.max_in_flight = compute_allowed_in_flight(pool.capacity, self.in_flight_elsewhere, self.other_frontends)
        self._current_limit = self.max_in_flight if self.breaker.open_until is None else 0
        self._step_s = compute_step_s(pool.capacity, pool.typical_s if self.response_s is None else self.response_s)
        own = self.in_flight_here
        # The seconds until this replica has answered one more request; the terms that in-flight requests do
        # not change are precomputed.
        self.expected_s = (own + self.in_flight_elsewhere + 1) * self._step_s if own < self._current_limit else NEVER

    def add_request(self) -> None:
        self.in_flight_here = own = self.in_flight_here + 1
        self.is_used = True
        # As in `weigh`.
        self.expected_s = (own + self.in_flight_elsewhere + 1) * self._step_s if own < self._current_limit else NEVER

    def remove_request(self) -> None:
        self.in_flight_here = own = self.in_flight_here - 1
        assert own >= 0, f"replica {self.replica.id} was released more often than checked out"
        self.expected_s = (own + self.in_flight_elsewhere + 1) * self._step_s if own < self._current_limit else NEVER
        if self.pool.queue.total_count:
            self.pool.queue.hand_out_free()

    def record_times(self, response_s: float, first_byte_s: float) -> None:
        """Record the response times of a request that is still counted here. The ranking is recomputed when it is
        released."""
        known, known_first = self.response_s, self.first_byte_s
        if known is None or known_first is None:
            self.response_s, self.first_byte_s = response_s, first_byte_s
            self.pool.recompute()
        else:
            self.response_s = response_s = update_average(known, response_s)
            self.first_byte_s = update_average(known_first, first_byte_s)
            self._step_s = compute_step_s(self.pool.capacity, response_s)

    def make_snapshot(self, now: float) -> CandidateSnapshot:
        return CandidateSnapshot(
            replica_id=self.replica.id,
            node_name=self.node_name,
            in_flight=self.in_flight_here + self.in_flight_elsewhere,
            capacity=self.pool.capacity,
            response_s=self.pool.typical_s if self.response_s is None else self.response_s,
            is_learnt=self.response_s is not None,
            expected_s=None if self.expected_s == NEVER else self.expected_s,
            last_pick=self.last_pick,
            free_bytes=self.free_bytes,
            breaker=self.breaker.get_state(now),
        )


class ReplicaCheckout:
    """Reserves one replica for one inference request until the request is done, and records how it went.

    A context manager: leaving it releases the replica.
    """

    __slots__ = ("_is_checked_out", "_is_judged", "_routable", "_trial", "node_name", "replica", "response_headers")

    def __init__(self, routable: RoutableReplica) -> None:
        self._routable = routable
        self._is_checked_out = True
        self._is_judged = False
        self.replica = routable.replica
        self.node_name = routable.node_name
        self.response_headers = routable.response_headers
        # The breaker that let this request through as a probe.
        self._trial = trial = routable.breaker if routable.breaker.open_until is not None else None
        if trial is not None:
            trial.begin_trial()
        routable.add_request()

    def release(self) -> None:
        if self._is_checked_out:
            self._is_checked_out = False
            if self._trial is not None:
                self._trial.end_trial()
            self._routable.remove_request()

    def record_success(self, response_s: float | None = None, first_byte_s: float | None = None) -> None:
        """Record a success, with the time to the first byte and to the end. None: the response says nothing about the
        speed of the replica, as when the engine refuses the request. The first verdict counts."""
        if self._is_judged:
            return
        self._is_judged = True
        routable, trial = self._routable, self._trial
        if trial is None:
            routable.breaker.record_success()
        else:
            routable.breaker.record_success(is_trial=trial is routable.breaker)
            routable.pool.recompute()
        if response_s is not None:
            routable.record_times(response_s, response_s if first_byte_s is None else first_byte_s)

    def record_failure(self, *, is_gone: bool = False) -> None:
        """Record a failure of the engine: lost, an error of its own, or no first byte in time. Busy (503) is not a
        failure. `is_gone`: nothing listens at the address, so the breaker opens at once. The first verdict counts."""
        routable = self._routable
        if self._is_judged or routable.replica.address != self.replica.address:
            return
        self._is_judged = True
        routable.pool.record_failure(routable, is_trial=self._trial is not None, is_gone=is_gone)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class ReplicaPool:
    """The replicas of one model that take requests now, and the queue of requests that wait for one."""

    def __init__(self, model: ServedModel, pools: ReplicaPools) -> None:
        self._pools = pools
        self.model = model
        self.replicas: tuple[RoutableReplica, ...] = ()
        self.queue: ReplicaQueue[ReplicaCheckout] = ReplicaQueue(self.check_out, self.check_out_behind_others)
        self.capacity = pools.options.concurrency
        self.typical_s = compute_typical_s(())
        self._policy: RoutePolicy = LEAST_WAIT
        self._picks = 0
        # Whether some breaker is not closed, so that a checkout must look at the breakers.
        self._has_open_breaker = False

    def update_replicas(self, model: ServedModel, replicas: tuple[RoutableReplica, ...]) -> None:
        """Replace the replicas that are open for requests."""
        is_same, self.model = model.run_hash == self.model.run_hash, model
        self.capacity = model.parallel or self._pools.options.concurrency
        self._policy = find_policy(model.route_policy)
        self.replicas = replicas
        self.recompute()
        if self.queue.total_count:
            self.queue.wake_all(only_retries=bool(is_same and replicas))
            self.queue.hand_out_free()

    def recompute(self) -> None:
        """Recompute the values that the replicas share, and the ranking of each replica."""
        self.typical_s = compute_typical_s(routable.response_s for routable in self.replicas)
        self._has_open_breaker = any(routable.breaker.open_until is not None for routable in self.replicas)
        for routable in self.replicas:
            routable.recompute_expected_wait()

    def fade_times(self, quiet_s: float) -> None:
        if len(self.replicas) > 1:
            self.typical_s = compute_typical_s(routable.response_s for routable in self.replicas)
            for routable in self.replicas:
                if routable.response_s is not None and not routable.in_flight_here and not routable.is_used:
                    routable.response_s = fade_average(routable.response_s, self.typical_s, quiet_s)
                routable.recompute_expected_wait()

    def check_out(self, excluded: Collection[str] = ()) -> ReplicaCheckout | None:
        """Return a replica with room, counted from now on; None if none has room."""
        replicas = self.replicas
        routable: RoutableReplica | None
        if excluded or self._has_open_breaker:
            routable = self._pick_with_breakers(excluded)
        elif len(replicas) == 1:
            # Most models have one replica, so there is nothing to rank.
            routable = replicas[0] if replicas[0].expected_s != NEVER else None
        else:
            routable = self._policy.pick(replicas)
        if routable is None:
            return None
        self._picks += 1
        routable.last_pick = self._picks
        return ReplicaCheckout(routable)

    def check_out_behind_others(self) -> ReplicaCheckout | None:
        """Return a replica for a request in the background, counted from now on; None while another request waits, or
        if it would take the last room of a busy replica."""
        if self.queue.count:
            return None
        left = [routable for routable in self.replicas if routable.has_room_behind_others]
        if self._has_open_breaker:
            routable = self._pick_with_breakers([one.replica.id for one in self.replicas if one not in left])
        else:
            routable = self._policy.pick(left) if left else None
        if routable is None:
            return None
        self._picks += 1
        routable.last_pick = self._picks
        return ReplicaCheckout(routable)

    async def wait_for_turn(self, entry: QueueEntry, timeout_s: float) -> ReplicaCheckout | None:
        """Wait for a replica and return it when it is this request's turn; None: look again. Raises `QueueFull` or
        `QueueTimeout` (with the time to wait)."""
        waiting = self.queue.background_count if entry.is_background else self.queue.count
        name = self.model.name
        if waiting >= self._pools.options.queue_max and not entry.is_retry:
            raise QueueFull(
                f"The queue of {name} is full: {waiting} requests are waiting.",
                hint="Retry after the time in Retry-After.",
                details=self._make_retry_details(waiting),
            )
        try:
            return await self.queue.wait_for_turn(entry, timeout_s)
        except TimeoutError:
            busy = (
                f"All {len(self.replicas)} replicas of {name} are busy" if len(self.replicas) > 1 else f"{name} is busy"
            )
            raise QueueTimeout(
                f"{busy}; the request has waited {timeout_s:.3g} s.",
                hint="Retry after the time in Retry-After.",
                details=self._make_retry_details(self.queue.count),
            ) from None

    def record_failure(self, routable: RoutableReplica, *, is_trial: bool, is_gone: bool) -> None:
        now, jitter = self._pools.clock.monotonic(), self._pools.random()
        if is_gone:
            routable.breaker.trip(now, jitter)
        else:
            routable.breaker.record_failure(now, jitter, is_trial=is_trial)
        if routable.breaker.open_until is not None:
            self.recompute()

    def list_candidates(self) -> list[CandidateSnapshot]:
        """Return the candidates as the next checkout would rank them, the best one first."""
        now = self._pools.clock.monotonic()
        terms, chosen = order_candidates(routable.make_snapshot(now) for routable in self.replicas), self.predict_pick()
        return sorted(terms, key=lambda term: term.replica_id != chosen)

    def predict_pick(self) -> str | None:
        """Return the id of the replica that the next checkout takes, if one has room."""
        routable = self._pick_with_breakers(()) if self._has_open_breaker else self._policy.pick(self.replicas)
        return None if routable is None else routable.replica.id

    def _pick_with_breakers(self, excluded: Collection[str]) -> RoutableReplica | None:
        """Choose a replica with regard to the breakers. One whose breaker is due for a probe goes first, because a
        failed probe is retried elsewhere. If no breaker is closed, the one that opens soonest is tried: a request is
        never lost to breakers alone."""
        now = self._pools.clock.monotonic()
        left = [routable for routable in self.replicas if routable.replica.id not in excluded]
        tripped = [routable for routable in left if routable.breaker.open_until is not None]
        for routable in tripped:
            if routable.has_room and routable.breaker.allows_trial(now):
                return routable
        if len(tripped) < len(left):
            return self._policy.pick(left)
        with_room = [routable for routable in tripped if routable.has_room]
        return min(with_room, key=lambda routable: routable.breaker.open_until or 0.0, default=None)

    def _make_retry_details(self, waiting: int) -> dict[str, object]:
        room, seconds = (
            sum(routable.max_in_flight for routable in self.replicas),
            compute_typical_s(routable.response_s for routable in self.replicas),
        )
        return {"retry_after_s": compute_retry_after_s(waiting, room, seconds), "waiting": waiting}


class ReplicaPools:
    """The replica pools of all models of a frontend, to find a replica for a request, or by id.

    `random` gives numbers from 0 to 1, for the jitter of circuit breakers.
    """

    def __init__(self, clock: Clock, random: Callable[[], float], options: ReplicaPoolOptions | None = None) -> None:
        self.clock = clock
        self.random = random
        self.options = options or ReplicaPoolOptions()
        self._replicas: dict[str, RoutableReplica] = {}
        self._pools: dict[str, ReplicaPool] = {}
        # Returns the pool of a model by its name, or None. A bound method of the dict, because every request calls it.
        self.find_pool: Callable[[str], ReplicaPool | None] = self._pools.get

    def __iter__(self) -> Iterator[RoutableReplica]:
        return iter(self._replicas.values())

    def find(self, replica_id: str) -> RoutableReplica | None:
        return self._replicas.get(replica_id)

    def update_pool(self, model: ServedModel, open_replicas: Sequence[tuple[Replica, RoutableNode]]) -> ReplicaPool:
        """Set the replicas of a model that are open for requests, and return its pool."""
        pool = self._pools.get(model.name)
        if pool is None:
            pool = self._pools[model.name] = ReplicaPool(model, self)
        routables = []
        for replica, node in sorted(open_replicas, key=lambda one: compute_preference(one[1])):
            routable = self._replicas.get(replica.id)
            if routable is None:
                routable = self._replicas[replica.id] = RoutableReplica(replica, pool)
            routable.pool = pool
            routable.update(replica, node)
            routables.append(routable)
        pool.update_replicas(model, tuple(routables))
        return pool

    def remove_pool(self, model: str) -> None:
        """Remove the pool of a deleted model."""
        pool = self._pools.pop(model, None)
        if pool is not None:
            pool.update_replicas(pool.model, ())

    def apply_other_leases(self, others: dict[str, PeerUse]) -> None:
        """Apply the counts of other frontends; replicas that the leases do not name count zero."""
        nothing = PeerUse()
        for routable in self._replicas.values():
            usage = others.get(routable.replica.id, nothing)
            if (routable.in_flight_elsewhere, routable.other_frontends) != (usage.in_flight, usage.frontends):
                routable.in_flight_elsewhere, routable.other_frontends = usage.in_flight, usage.frontends
                routable.recompute_expected_wait()

    def fade_times(self, quiet_s: float) -> None:
        """Fade what was learnt of replicas that had no request for `quiet_s`."""
        for pool in self._pools.values():
            pool.fade_times(quiet_s)

    def serve_waiting(self) -> None:
        """Hand out replicas that became free without a release: a breaker is due for a probe, or another frontend has
        left room."""
        for pool in tuple(self._pools.values()):
            if pool.queue.total_count:
                pool.queue.hand_out_free()

    def forget_unknown(self, known_ids: Collection[str]) -> None:
        """Forget all replicas except the known ones, busy ones and those whose breaker is not closed."""
        unused = [
            routable for routable in self._replicas.values() if not routable.in_flight_here and not routable.is_used
        ]
        for routable in unused:
            if routable.replica.id not in known_ids:
                del self._replicas[routable.replica.id]
