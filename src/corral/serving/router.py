"""One request's way to a replica: the name it asks for, the replica that answers, and what to do when that fails.

Warm, everything is decided in memory and at once. Cold, the request waits for the one load (`waiting.py`) and looks
again, three times at most: a model can be evicted in the moment in which it is ready. Before the first byte a call
that failed is made again at another replica; a replica at whose address nobody listens loses its row.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence

import structlog

from corral.domain.cluster import Event
from corral.domain.errors import CorralError, NotAllowed, StoreUnavailable
from corral.domain.replica import Replica
from corral.policy.routing import Choice, pick
from corral.ports.runtime import Clock
from corral.serving.errors import EngineFailed, ModelNotFound
from corral.serving.snapshot import Snapshot
from corral.serving.use import Held, Use
from corral.serving.waiting import Waiters
from corral.store import use as use_store
from corral.store.database import Database, is_storable
from corral.store.use import Served

log = structlog.get_logger(__name__)

# A model that is evicted again whenever it was loaded is told, not tried for ever.
ROUNDS_MAX = 3
# Calls of one request, over all replicas.
ATTEMPTS_MAX = 4
# A name that is not known is looked for in the registry once in so long, so that guessing is no load on it.
MISS_LIFE_S = 2.0
MISSES_MAX = 1000
NAME_LENGTH_MAX = 255


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
        told = await self.use.tick()
        self.use.forget_others(self.snapshot.replica_ids())
        return told

    async def stop(self) -> None:
        await self.waiters.close()
        await self.use.withdraw()

    async def resolve(self, name: str) -> Served:
        """The model that is meant by a name. One that is not in memory may be on its way: the registry is asked."""
        model = self.snapshot.find(name)
        if model is None and _may_exist(name) and not self._was_missed(name):
            await self.snapshot.refresh([name])
            model = self.snapshot.find(name)
        if model is None:
            self._miss(name)
            close = self.snapshot.close_names(name)
            raise ModelNotFound(
                f"There is no model named {name[:255]!r}.",
                hint=f"Was {' or '.join(close)} meant?" if close else "`corral models list` shows the models.",
                details={"close": close},
            )
        if not model.is_enabled:
            raise NotAllowed(
                f"Model {model.name} is disabled.", hint=f"corral models enable {model.name}", code="model_disabled"
            )
        return model

    def take(self, model: Served, without: Collection[str] = ()) -> Held | None:
        """A replica for one request, counted from now on; None if none is open."""
        open_now = {replica.id: replica for replica in self.snapshot.open_replicas(model)}
        choices = [self._choice(replica) for replica in open_now.values()]
        chosen = pick(choices, without=without, preferred=lambda choice: not self.use.is_resting(choice.id))
        if chosen is None:
            return None
        place = self.snapshot.place(open_now[chosen.id])
        return self.use.take(open_now[chosen.id], place.name if place else "")

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

    def visit(self, model: Served, wait_s: float, who: str = "", cost: int = 1) -> Visit:
        """`who` is the key that asks and `cost` what it asks for, in expected tokens: whose turn it is goes by them."""
        del who, cost
        return Visit(self, model, wait_s)

    def _choice(self, replica: Replica) -> Choice:
        place = self.snapshot.place(replica)
        return Choice(
            id=replica.id,
            in_flight=self.use.in_flight(replica.id),
            picked=self.use.picked(replica.id),
            free_bytes=place.free_bytes if place else 0,
        )

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

    def __init__(self, router: Router, model: Served, wait_s: float) -> None:
        self._router = router
        self._wait_s = wait_s
        self._until: float | None = None
        self._rounds = 0
        self._attempts = 0
        self._without: set[str] = set()
        self._once: set[str] = set()
        self._failure: CorralError | None = None
        self.model = model

    def try_now(self) -> Held | None:
        """A replica at once, or none."""
        held = self._router.take(self.model, self._without) if self._attempts < ATTEMPTS_MAX else None
        if held is not None:
            self._attempts += 1
        return held

    async def replica(self) -> Held:
        """The replica to call next. Loads the model if there is none."""
        while True:
            held = self.try_now()
            if held is not None:
                return held
            if self._failure is not None:
                raise self._failed()
            await self._wait()

    async def refused(self, held: Held, error: CorralError) -> None:
        """Nobody listened, or somebody else. Its row goes; if it cannot go now, it has failed for this request."""
        held.release()
        self._without.add(held.replica.id)
        self._router.use.rest(held.replica.id)
        if not await self._router.remove(held.replica, error.message):
            self._failure = error

    def lost(self, held: Held, error: CorralError) -> None:
        """The call broke before its first byte. Once more at the same replica if there is no other: a connection that
        was kept open may have been closed just then. *Busy* is not *dead*: the row stays."""
        held.release()
        self._router.use.rest(held.replica.id)
        if held.replica.id in self._once or self.has_others(held.replica.id):
            self._without.add(held.replica.id)
            self._failure = error
        self._once.add(held.replica.id)

    def has_others(self, replica_id: str) -> bool:
        others = {replica.id for replica in self._router.snapshot.open_replicas(self.model)} - self._without
        return bool(others - {replica_id})

    async def _wait(self) -> None:
        if self._rounds >= ROUNDS_MAX:
            raise EngineFailed(
                f"Model {self.model.name} was loaded {ROUNDS_MAX} times and was gone each time before it could answer.",
                hint=f"Is there room for it? `corral models plan {self.model.name}` tells.",
                code="model_evicted",
            )
        self._rounds += 1
        if self._until is None and self._wait_s:
            self._until = self._router.clock.monotonic() + self._wait_s
        await self._router.waiters.wait(self.model, until=self._until, budget_s=self._wait_s)
        # It may have been edited, renamed or removed while we waited.
        self.model = await self._router.resolve(self.model.name)

    def _failed(self) -> CorralError:
        assert self._failure is not None
        return EngineFailed(
            f"The engine of {self.model.name} does not answer: {self._failure.message}",
            hint="Try again; `corral operations list` shows what is being done about it.",
            details={"tried": self._attempts},
        )
