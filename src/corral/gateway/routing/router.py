"""Routes one request: finds its model, checks out a replica, and decides what to do when the call fails.

A warm request is decided in memory and at once. If all replicas are full, the request waits for its turn
(`replica_pool.py`). A cold one waits for the one load (`load_waiter.py`) and looks again, three times at most: a model
can be evicted in the moment in which it is ready. Before the first byte a failed call is retried on another replica; a
replica whose address refuses connections loses its row. Replicas are never probed: the call is the probe.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import structlog

from corral.domain.agent import AGENT_PREFIX
from corral.domain.cluster import OutboxEvent
from corral.domain.errors import Conflict, CorralError, NotAllowed, StoreUnavailable
from corral.domain.replica import Replica
from corral.gateway.errors import AllReplicasFailed, ModelEdited, ModelNotFound
from corral.gateway.routing.in_flight_leases import INTERVAL_S, InFlightLeases
from corral.gateway.routing.load_waiter import LoadWaiter
from corral.gateway.routing.replica_pool import QueueEntry, ReplicaCheckout, ReplicaPool
from corral.gateway.routing.routing_snapshot import LATEST, ModelFilter, RoutingSnapshot
from corral.policy.serving.routing import CandidateSnapshot
from corral.ports.runtime import Clock
from corral.store import replica_use as use_store
from corral.store.database import Database, is_storable
from corral.store.replica_use import ServedModel

log = structlog.get_logger(__name__)

# A model that is evicted after every load ends in an error instead of an endless retry.
ROUNDS_MAX = 3
# How often the model may be edited while one request waits. Each edit ends the load in progress.
EDITS_MAX = 20
# The most calls of one request, over all replicas.
ATTEMPTS_MAX = 4
# An unknown name is looked up in the registry once in this time, so that guessed names put no load on it.
MISS_LIFE_S = 2.0
MISSES_MAX = 1000
NAME_LENGTH_MAX = 255
# Codes of an overloaded engine, which is not a failure.
ENGINE_GARBAGE = "engine_garbage"
ENGINE_BUSY = "engine_busy"


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingExplanation:
    """Explains which replica a request for a model would get now, and the state of all others."""

    # Every replica that is open for requests, the best one first.
    candidates: list[CandidateSnapshot]
    # The replica's id; None: the request would wait for its turn or for a load.
    picked: str | None
    # How many requests wait before it.
    waiting: int
    left_out: list[tuple[Replica, str]]


class Router:
    """Finds in memory the model that an inference request names, and a replica that answers the request.

    Removes replicas whose address refuses connections.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        snapshot: RoutingSnapshot,
        leases: InFlightLeases,
        load_waiter: LoadWaiter,
    ) -> None:
        self._database = database
        self.clock = clock
        self.snapshot = snapshot
        self.leases = leases
        self.load_waiter = load_waiter
        self._misses: OrderedDict[str, float] = OrderedDict()

    async def follow(self, events: Sequence[OutboxEvent]) -> None:
        await self.snapshot.follow(events)
        await self.load_waiter.follow(events)

    async def tick(self) -> int:
        """Run one pass of the leases. Does nothing while nothing is loaded and no request waits."""
        if self.leases.is_quiet and not self.snapshot.has_replicas:
            return 0
        pools = self.snapshot.pools
        pools.fade_times(INTERVAL_S)
        try:
            reported = await self.leases.tick()
        finally:
            # This runs even while PostgreSQL is down.
            pools.serve_waiting()
        pools.forget_unknown(self.snapshot.list_replica_ids())
        return reported

    async def stop(self) -> None:
        await self.load_waiter.close()
        await self.leases.withdraw()

    async def resolve(self, name: str, is_shown: ModelFilter | None = None) -> ServedModel:
        """Return the model with this name or alias, if the filter shows it. A name that is not in memory is looked up
        in the registry: the model may be new."""
        model = self.snapshot.find(name)
        if model is None and _may_exist(name) and not self._is_known_miss(name):
            await self.snapshot.refresh({name, name.removesuffix(LATEST)})
            model = self.snapshot.find(name)
        if model is None:
            self._remember_miss(name)
        if model is None or (is_shown is not None and not is_shown(model)):
            raise self.make_not_found_error(name, is_shown)
        if not model.is_enabled:
            raise NotAllowed(
                f"Model {model.name} is disabled.", hint=f"corral models enable {model.name}", code="model_disabled"
            )
        if not model.is_attached:
            raise make_detached_error(model)
        return model

    def make_not_found_error(self, name: str, is_shown: ModelFilter | None = None) -> ModelNotFound:
        """Return the same error for a name that means no model and for a model that the caller may not see."""
        close = self.snapshot.find_close_names(name, is_shown)
        scope, hint = "", "`corral models list` shows the models."
        if is_shown is not None:
            scope, hint = " that this key may use", "GET /v1/models lists the models that it may use."
        return ModelNotFound(
            f"There is no model named {name[:255]!r}{scope}.",
            hint=f"Did you mean {' or '.join(close)}?" if close else hint,
            details={"close": close},
        )

    def check_out(self, model: ServedModel, excluded: Collection[str] = ()) -> ReplicaCheckout | None:
        """Check out a replica for one request; None if none is open, all are full or other requests wait."""
        pool = self.snapshot.find_pool(model)
        return None if pool is None or pool.queue.count else pool.check_out(excluded)

    def list_candidates(self, model: ServedModel) -> list[CandidateSnapshot]:
        """Return the candidates as the next request would rank them, the best one first."""
        pool = self.snapshot.find_pool(model)
        return pool.list_candidates() if pool else []

    def explain_routing(self, model: ServedModel) -> RoutingExplanation:
        """Return what would happen to a request now. Nothing is counted or checked out."""
        pool = self.snapshot.find_pool(model)
        waiting = pool.queue.count if pool else 0
        return RoutingExplanation(
            candidates=self.list_candidates(model),
            # A new request does not jump the queue.
            picked=pool.predict_pick() if pool and not waiting else None,
            waiting=waiting,
            left_out=self.snapshot.list_left_out(model),
        )

    async def remove_replica(self, replica: Replica, reason: str) -> bool:
        """Remove a replica that no longer listens at its address. Return False if the registry cannot be reached
        now."""
        try:
            async with self._database.transaction() as tx:
                was_there = await use_store.remove_refused_replica(tx, replica, reason)
            await self.snapshot.refresh([replica.model])
        except StoreUnavailable:
            return False
        if was_there:
            log.warning("replica is gone", model=replica.model, node=replica.node_id, reason=reason)
        return True

    def make_selector(
        self, model: ServedModel, wait_s: float, key_id: str = "", cost: int = 1, attempts: int = 0
    ) -> ReplicaSelector:
        """Make the selector of one request. `key_id` and `cost`, in expected tokens, decide its place in the queue;
        `attempts` is how many replicas it has tried already."""
        return ReplicaSelector(self, model, wait_s, key_id, cost, attempts)

    def _is_known_miss(self, name: str) -> bool:
        return self._misses.get(name, 0.0) > self.clock.monotonic()

    def _remember_miss(self, name: str) -> None:
        if not self._is_known_miss(name):
            self._misses[name] = self.clock.monotonic() + MISS_LIFE_S
            self._misses.move_to_end(name)
        while len(self._misses) > MISSES_MAX:
            self._misses.popitem(last=False)


def make_detached_error(model: ServedModel) -> CorralError:
    """Return the error for an adapter that no engine of its base loads."""
    return Conflict(
        f"The adapter {model.name} is not in the engines of its base {model.base}: its files were not fetched yet, or"
        " it does not fit.",
        hint=f"`corral models load {model.name}` fetches them; `corral models show {model.name}` says why not.",
        code="adapter_detached",
    )


def _may_exist(name: str) -> bool:
    return 0 < len(name) <= NAME_LENGTH_MAX and is_storable(name) and not name.startswith(AGENT_PREFIX)


class ReplicaSelector:
    """Selects the replicas to which one inference request is sent, one after the other.

    Waits for a turn or a load, and excludes those that failed. `wait_s` 0 waits as long as the load takes.
    """

    __slots__ = (
        "_attempts",
        "_cost",
        "_edits",
        "_excluded",
        "_failure",
        "_key_id",
        "_load_deadline",
        "_queue_deadline",
        "_rounds",
        "_router",
        "_tried_once",
        "_wait_s",
        "is_background",
        "model",
    )

    def __init__(
        self, router: Router, model: ServedModel, wait_s: float, key_id: str, cost: int, attempts: int
    ) -> None:
        self._router = router
        self._wait_s = wait_s
        self._key_id = key_id
        self._cost = cost
        self._load_deadline: float | None = None
        self._queue_deadline: float | None = None
        self._rounds = 0
        self._edits = 0
        self._attempts = attempts
        # Replicas that are excluded, and those that get one more chance.
        self._excluded: Collection[str] = ()
        self._tried_once: Collection[str] = ()
        self._failure: CorralError | None = None
        # Gives way to all other requests, and leaves them room.
        self.is_background = False
        self.model = model

    def try_check_out(self) -> ReplicaCheckout | None:
        """Return a replica if one is free at once, else None."""
        if self.is_background and not self._attempts:
            pool = self._find_pool()
            held = None if pool is None or pool.queue.background_count else pool.check_out_behind_others()
        elif not self._attempts:
            held = self._router.check_out(self.model)
        else:
            # A retry has had its turn, and does not wait behind requests that have not.
            pool = self._find_pool()
            held = None if pool is None else pool.check_out(self._excluded)
        if held is not None:
            self._attempts += 1
        return held

    async def wait_for_replica(self) -> ReplicaCheckout:
        """Return the replica to call next. Waits for a turn if all are full, and loads the model if it has no
        replica."""
        while True:
            held = self.try_check_out()
            if held is not None:
                return held
            pool = self._find_pool()
            if pool is not None and any(routable.replica.id not in self._excluded for routable in pool.replicas):
                held = await self._wait_for_turn(pool)
                if held is not None:
                    return held
            elif self._failure is not None:
                raise self._make_failed_error()
            elif self._is_outdated():
                self.model = await self._router.resolve(self.model.name)
            else:
                await self._wait_for_load()

    async def release_refused(self, checkout: ReplicaCheckout, error: CorralError) -> None:
        """Release a replica whose address refused the call or belongs to another process, and remove its row. If that
        fails now, the replica is excluded for this request."""
        checkout.record_failure(is_gone=True)
        checkout.release()
        self._excluded = {*self._excluded, checkout.replica.id}
        if not await self._router.remove_replica(checkout.replica, error.message):
            self._failure = error

    def release_lost(self, checkout: ReplicaCheckout, error: CorralError) -> bool:
        """Release a replica whose call broke before its first byte. The row stays, because *busy* is not *dead*. Return
        True if there is no other replica, so that the same one gets one more call: its engine may be about to die."""
        if error.slug != ENGINE_BUSY:
            checkout.record_failure()
        checkout.release()
        replica_id = checkout.replica.id
        if replica_id in self._tried_once or self.has_others(replica_id):
            self._excluded = {*self._excluded, replica_id}
            self._failure = error
        self._tried_once = {*self._tried_once, replica_id}
        return replica_id not in self._excluded

    def has_others(self, replica_id: str) -> bool:
        pool = self._router.snapshot.find_pool(self.model)
        replicas = pool.replicas if pool is not None else ()
        return any(
            routable.replica.id != replica_id and routable.replica.id not in self._excluded for routable in replicas
        )

    def _find_pool(self) -> ReplicaPool | None:
        """Return the pool to check out from; None if there is none, or too many replicas were tried."""
        return self._router.snapshot.find_pool(self.model) if self._attempts < ATTEMPTS_MAX else None

    def _is_outdated(self) -> bool:
        """Return whether the model was edited or removed while the request waited."""
        now = self._router.snapshot.find(self.model.name)
        return now is None or now.run_hash != self.model.run_hash

    async def _wait_for_turn(self, pool: ReplicaPool) -> ReplicaCheckout | None:
        now = self._router.clock.monotonic()
        if self._queue_deadline is None:
            longest_s = self._router.snapshot.pools.options.queue_wait_s
            self._queue_deadline = now + min(longest_s, self._wait_s or longest_s)
        entry = QueueEntry(
            key_id=self._key_id,
            cost=self._cost,
            excluded=self._excluded,
            is_retry=self._attempts > 0,
            is_background=self.is_background,
        )
        # Requests without a waiting client are no reason to load more replicas.
        counting = nullcontext() if self.is_background else self._router.leases.count_waiting(self.model.pool_name)
        with counting:
            held = await pool.wait_for_turn(entry, max(0.0, self._queue_deadline - now))
        if held is not None:
            self._attempts += 1
        return held

    async def _wait_for_load(self) -> None:
        if self._rounds >= ROUNDS_MAX:
            raise AllReplicasFailed(
                f"Model {self.model.name} was loaded {ROUNDS_MAX} times and evicted each time before it could respond.",
                hint=f"Check whether it fits: `corral models plan {self.model.name}`.",
                code="model_evicted",
            )
        if self._edits >= EDITS_MAX:
            raise ModelEdited(
                f"Model {self.model.name} was edited {EDITS_MAX} times while this request waited for it.",
                hint=f"Retry when the edits are done. `corral models revisions {self.model.name}` lists them.",
            )
        if self._load_deadline is None and self._wait_s:
            self._load_deadline = self._router.clock.monotonic() + self._wait_s
        run_hash = self.model.run_hash
        was_edited = await self._router.load_waiter.wait_for_load(
            self.model, until=self._load_deadline, budget_s=self._wait_s
        )
        # The model may have been edited, renamed or removed while the request waited.
        self.model = await self._router.resolve(self.model.name)
        if was_edited or self.model.run_hash != run_hash:
            self._edits += 1
        else:
            self._rounds += 1

    def _make_failed_error(self) -> CorralError:
        assert self._failure is not None
        return AllReplicasFailed(
            f"The engine of {self.model.name} does not respond: {self._failure.message}",
            hint="Retry later. `corral operations list` shows the operations in progress.",
            code=ENGINE_GARBAGE if self._failure.slug == ENGINE_GARBAGE else None,
            details={"tried": self._attempts},
        )
