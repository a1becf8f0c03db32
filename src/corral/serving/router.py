"""One request's way to a replica: the name it asks for, the replica that answers, and what to do when that fails.

Warm, everything is decided in memory and at once. If all replicas are full, the request waits for its turn
(`queue.py`). Cold, it waits for the one load (`waiting.py`) and looks again, three times at most: a model can be
evicted in the moment in which it is ready. Before the first byte a call that failed is made again at another replica; a
replica at whose address nobody listens loses its row. No replica is ever probed: the call is the probe.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import structlog

from corral.domain.cluster import Event
from corral.domain.errors import CorralError, NotAllowed, StoreUnavailable
from corral.domain.replica import Replica
from corral.policy.serving.routing import Term
from corral.ports.runtime import Clock
from corral.serving.errors import EngineFailed, ModelEdited, ModelNotFound
from corral.serving.queue import Asking
from corral.serving.seats import Bench, Held
from corral.serving.snapshot import LATEST, ModelFilter, Snapshot
from corral.serving.use import INTERVAL_S, Use
from corral.serving.waiting import Waiters
from corral.store import use as use_store
from corral.store.database import Database, is_storable
from corral.store.use import Served

log = structlog.get_logger(__name__)

# A model that is evicted again whenever it was loaded is told, not tried for ever.
ROUNDS_MAX = 3
# How often the model may be edited while one request waits. Each edit ends the load that was waited for.
EDITS_MAX = 20
# Calls of one request, over all replicas.
ATTEMPTS_MAX = 4
# A name that is not known is looked for in the registry once in so long, so that guessing is no load on it.
MISS_LIFE_S = 2.0
MISSES_MAX = 1000
NAME_LENGTH_MAX = 255
# An engine that has more to do than it can: no sign of a fault.
ENGINE_GARBAGE = "engine_garbage"
ENGINE_BUSY = "engine_busy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    # Of every replica that is given requests, in the order of picks.
    terms: list[Term]
    # The replica; None: it would wait, for its turn or for a load.
    picked: str | None
    # How many are before it.
    waiting: int
    left_out: list[tuple[Replica, str]]


class Router:
    def __init__(self, database: Database, clock: Clock, snapshot: Snapshot, use: Use, waiters: Waiters) -> None:
        self._database = database
        self.clock = clock
        self.snapshot = snapshot
        self.use = use
        self.waiters = waiters
        self._misses: OrderedDict[str, float] = OrderedDict()

    async def follow(self, events: Sequence[Event]) -> None:
        await self.snapshot.follow(events)
        await self.waiters.follow(events)

    async def tick(self) -> int:
        """One pass of the leases; none while nothing is loaded and nobody asks."""
        if self.use.is_quiet and not self.snapshot.has_replicas:
            return 0
        seats = self.snapshot.seats
        seats.fade(INTERVAL_S)
        try:
            told = await self.use.tick()
        finally:
            # Also while PostgreSQL is away.
            seats.serve_waiting()
        seats.forget(self.snapshot.replica_ids())
        return told

    async def stop(self) -> None:
        await self.waiters.close()
        await self.use.withdraw()

    async def resolve(self, name: str, is_shown: ModelFilter | None = None) -> Served:
        """Return the model that is meant by a name, if the filter lets it be seen. The registry is asked for a name
        that is not in memory: the model may be on its way."""
        model = self.snapshot.find(name)
        if model is None and _may_exist(name) and not self._was_missed(name):
            await self.snapshot.refresh({name, name.removesuffix(LATEST)})
            model = self.snapshot.find(name)
        if model is None:
            self._miss(name)
        if model is None or (is_shown is not None and not is_shown(model)):
            raise self.not_found(name, is_shown)
        if not model.is_enabled:
            raise NotAllowed(
                f"Model {model.name} is disabled.", hint=f"corral models enable {model.name}", code="model_disabled"
            )
        return model

    def not_found(self, name: str, is_shown: ModelFilter | None = None) -> ModelNotFound:
        """Return the error for a name that means no model, or none that may be seen: it does not tell which."""
        close = self.snapshot.close_names(name, is_shown)
        whose, otherwise = "", "`corral models list` shows the models."
        if is_shown is not None:
            whose, otherwise = " that this key may ask", "GET /v1/models lists what it may ask for."
        return ModelNotFound(
            f"There is no model named {name[:255]!r}{whose}.",
            hint=f"Was {' or '.join(close)} meant?" if close else otherwise,
            details={"close": close},
        )

    def take(self, model: Served, without: Collection[str] = ()) -> Held | None:
        """A replica for one request, counted from now on; None if none is open, all are full or others wait."""
        bench = self.snapshot.bench(model)
        return None if bench is None or bench.queue.count else bench.take(without)

    def explain(self, model: Served) -> list[Term]:
        """Why the next request would go where it goes; the first one is where."""
        bench = self.snapshot.bench(model)
        return bench.explain() if bench else []

    def outlook(self, model: Served) -> Outlook:
        """What would become of a request that came now. Nothing is counted and nothing is taken."""
        bench = self.snapshot.bench(model)
        waiting = bench.queue.count if bench else 0
        return Outlook(
            terms=self.explain(model),
            # Who comes later does not jump the queue.
            picked=bench.would_take() if bench and not waiting else None,
            waiting=waiting,
            left_out=self.snapshot.left_out(model),
        )

    async def remove(self, replica: Replica, reason: str) -> bool:
        """It is not at its address any more. False if the registry cannot be told now."""
        try:
            async with self._database.transaction() as tx:
                was_there = await use_store.remove_refused(tx, replica, reason)
            await self.snapshot.refresh([replica.model])
        except StoreUnavailable:
            return False
        if was_there:
            log.warning("replica is gone", model=replica.model, node=replica.node_id, reason=reason)
        return True

    def visit(self, model: Served, wait_s: float, who: str = "", cost: int = 1, attempts: int = 0) -> Visit:
        """`who` is the key that asks and `cost` what it asks for, in expected tokens: whose turn it is goes by them.
        `attempts`: so many replicas were taken for it already."""
        return Visit(self, model, wait_s, who, cost, attempts)

    def _was_missed(self, name: str) -> bool:
        return self._misses.get(name, 0.0) > self.clock.monotonic()

    def _miss(self, name: str) -> None:
        if not self._was_missed(name):
            self._misses[name] = self.clock.monotonic() + MISS_LIFE_S
            self._misses.move_to_end(name)
        while len(self._misses) > MISSES_MAX:
            self._misses.popitem(last=False)


def _may_exist(name: str) -> bool:
    return 0 < len(name) <= NAME_LENGTH_MAX and is_storable(name)


class Visit:
    """One request on its way. `wait_s` 0: as long as the load takes."""

    __slots__ = (
        "_attempts",
        "_cost",
        "_edits",
        "_failure",
        "_once",
        "_queue_until",
        "_rounds",
        "_router",
        "_until",
        "_wait_s",
        "_who",
        "_without",
        "model",
    )

    def __init__(self, router: Router, model: Served, wait_s: float, who: str, cost: int, attempts: int) -> None:
        self._router = router
        self._wait_s = wait_s
        self._who = who
        self._cost = cost
        self._until: float | None = None
        self._queue_until: float | None = None
        self._rounds = 0
        self._edits = 0
        self._attempts = attempts
        # Replicas that are of no use to it, and those that get one more chance.
        self._without: Collection[str] = ()
        self._once: Collection[str] = ()
        self._failure: CorralError | None = None
        self.model = model

    def try_now(self) -> Held | None:
        """A replica at once, or none."""
        if not self._attempts:
            held = self._router.take(self.model)
        else:
            # It has had its turn, and does not wait behind those who have not.
            bench = self._bench()
            held = None if bench is None else bench.take(self._without)
        if held is not None:
            self._attempts += 1
        return held

    async def replica(self) -> Held:
        """The replica to call next. Waits for its turn if all are full, and loads the model if there is none."""
        while True:
            held = self.try_now()
            if held is not None:
                return held
            bench = self._bench()
            if bench is not None and any(seat.replica.id not in self._without for seat in bench.seats):
                held = await self._turn(bench)
                if held is not None:
                    return held
            elif self._failure is not None:
                raise self._failed()
            elif self._is_outdated():
                self.model = await self._router.resolve(self.model.name)
            else:
                await self._wait()

    async def refused(self, held: Held, error: CorralError) -> None:
        """Nobody listened, or somebody else. Its row goes; if it cannot go now, it has failed for this request."""
        held.failed(is_gone=True)
        held.release()
        self._without = {*self._without, held.replica.id}
        if not await self._router.remove(held.replica, error.message):
            self._failure = error

    def lost(self, held: Held, error: CorralError) -> bool:
        """The call broke before its first byte. Once more at the same replica if there is no other, which is told: it
        may be about to die, and is not there any more a moment later. *Busy* is not *dead*: the row stays."""
        if error.slug != ENGINE_BUSY:
            held.failed()
        held.release()
        replica_id = held.replica.id
        if replica_id in self._once or self.has_others(replica_id):
            self._without = {*self._without, replica_id}
            self._failure = error
        self._once = {*self._once, replica_id}
        return replica_id not in self._without

    def has_others(self, replica_id: str) -> bool:
        bench = self._router.snapshot.bench(self.model)
        seats = bench.seats if bench is not None else ()
        return any(seat.replica.id != replica_id and seat.replica.id not in self._without for seat in seats)

    def _bench(self) -> Bench | None:
        """Where a replica is to be had; None if there is none, or too many were tried."""
        return self._router.snapshot.bench(self.model) if self._attempts < ATTEMPTS_MAX else None

    def _is_outdated(self) -> bool:
        """It was edited or removed while we waited."""
        now = self._router.snapshot.find(self.model.name)
        return now is None or now.run_hash != self.model.run_hash

    async def _turn(self, bench: Bench) -> Held | None:
        now = self._router.clock.monotonic()
        if self._queue_until is None:
            longest_s = self._router.snapshot.seats.options.queue_wait_s
            self._queue_until = now + min(longest_s, self._wait_s or longest_s)
        asking = Asking(who=self._who, cost=self._cost, without=self._without, is_again=self._attempts > 0)
        with self._router.use.waiting(self.model.name):
            held = await bench.wait(asking, max(0.0, self._queue_until - now))
        if held is not None:
            self._attempts += 1
        return held

    async def _wait(self) -> None:
        if self._rounds >= ROUNDS_MAX:
            raise EngineFailed(
                f"Model {self.model.name} was loaded {ROUNDS_MAX} times and was gone each time before it could answer.",
                hint=f"Is there room for it? `corral models plan {self.model.name}` tells.",
                code="model_evicted",
            )
        if self._edits >= EDITS_MAX:
            raise ModelEdited(
                f"Model {self.model.name} was edited {EDITS_MAX} times while this request waited for it.",
                hint=f"Ask again when it stays as it is. `corral models revisions {self.model.name}` shows the edits.",
            )
        if self._until is None and self._wait_s:
            self._until = self._router.clock.monotonic() + self._wait_s
        run_hash = self.model.run_hash
        was_edited = await self._router.waiters.wait(self.model, until=self._until, budget_s=self._wait_s)
        # It may have been edited, renamed or removed while we waited.
        self.model = await self._router.resolve(self.model.name)
        if was_edited or self.model.run_hash != run_hash:
            self._edits += 1
        else:
            self._rounds += 1

    def _failed(self) -> CorralError:
        assert self._failure is not None
        return EngineFailed(
            f"The engine of {self.model.name} does not answer: {self._failure.message}",
            hint="Try again; `corral operations list` shows what is being done about it.",
            code=ENGINE_GARBAGE if self._failure.slug == ENGINE_GARBAGE else None,
            details={"tried": self._attempts},
        )
