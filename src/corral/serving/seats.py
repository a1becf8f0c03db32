"""Seats: every loaded replica as this frontend sees it, and the bench of a model: its seats and who waits for one.

A seat has the number that picks go by ready: it changes when a request comes or goes, not when one is looked for. So a
pick is a loop over plain numbers, and a request that finds room costs some microseconds, no query and no task.

Guarantee: a request is counted once from the pick to its end, whichever way it ends; letting go twice counts once, and
so does a verdict. A replica is given no more requests than it works on at a time; what is let go of goes to the next
who waits, at once. Limit: what others have there is as old as their last lease; see `own_room` for what that means.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from corral.domain.replica import Replica
from corral.policy.serving.breaker import Breaker
from corral.policy.serving.routing import (
    LEAST_WAIT,
    NEVER,
    Place,
    RoutePolicy,
    Term,
    explain,
    faded,
    learnt,
    own_room,
    policy_of,
    preference,
    retry_after_s,
    step_s,
    typical_s,
)
from corral.ports.runtime import Clock
from corral.serving.errors import QueueFull, QueueTimeout
from corral.serving.queue import Asking, Queue
from corral.store.use import Elsewhere, Served


@dataclass(frozen=True, slots=True, kw_only=True)
class SeatOptions:
    # How many requests a replica works on at a time, unless its model says so itself.
    concurrency: int = 64
    # How many may wait for one model at this frontend, and how long.
    queue_max: int = 1000
    queue_wait_s: float = 60.0


class Seat:
    """A `policy.serving.routing.Candidate`."""

    __slots__ = (
        "_limit",
        "_step_s",
        "bench",
        "breaker",
        "expected_s",
        "first_byte_s",
        "free_bytes",
        "is_used",
        "named",
        "node_name",
        "others",
        "own",
        "picked",
        "replica",
        "room",
        "seconds",
        "sharers",
    )

    def __init__(self, replica: Replica, bench: Bench) -> None:
        self.replica = replica
        self.bench = bench
        self.node_name = ""
        # Lines of a head that say where an answer comes from.
        self.named: tuple[tuple[bytes, bytes], ...] = ()
        self.free_bytes = 0
        # Requests of this frontend there; those of others, and of how many others.
        self.own = 0
        self.others = 0
        self.sharers = 0
        self.picked = 0
        # A request came since the last pass of the leases.
        self.is_used = False
        # Learnt from answers; None: there was none yet.
        self.seconds: float | None = None
        self.first_byte_s: float | None = None
        self.breaker = Breaker()
        # How many requests of this frontend it takes; and now, which is none while its breaker is not closed.
        self.room = 0
        self._limit = 0
        self._step_s = 0.0
        self.expected_s = NEVER

    @property
    def has_room(self) -> bool:
        return self.own < self.room

    def renew(self, replica: Replica, place: Place) -> None:
        """As the registry has it now. At another address there is another process, of which nothing is known."""
        if replica.address != self.replica.address:
            self.breaker = Breaker()
            self.seconds = self.first_byte_s = None
        self.replica = replica
        self.node_name = place.name
        self.named = (
            (b"x-corral-node", place.name.encode("ascii", "replace")),
            (b"x-corral-replica", replica.id.encode("ascii", "replace")),
        )
        self.free_bytes = place.free_bytes

    def weigh(self) -> None:
        """Anew, after anything but the number of own requests has changed."""
        bench = self.bench
        self.room = own_room(bench.capacity, self.others, self.sharers)
        self._limit = self.room if self.breaker.until is None else 0
        self._step_s = step_s(bench.capacity, bench.typical_s if self.seconds is None else self.seconds)
        own = self.own
        # `policy.serving.routing.expected_s`, with what does not change by coming and going worked out before.
        self.expected_s = (own + self.others + 1) * self._step_s if own < self._limit else NEVER

    def enter(self) -> None:
        self.own = own = self.own + 1
        self.is_used = True
        # As in `weigh`.
        self.expected_s = (own + self.others + 1) * self._step_s if own < self._limit else NEVER

    def leave(self) -> None:
        self.own = own = self.own - 1
        assert own >= 0, f"replica {self.replica.id} was let go more often than taken"
        self.expected_s = (own + self.others + 1) * self._step_s if own < self._limit else NEVER
        if self.bench.queue.count:
            self.bench.queue.serve()

    def learn(self, seconds: float, first_byte_s: float) -> None:
        """From somebody who is still here: what follows from it is worked out when they leave."""
        known, known_first = self.seconds, self.first_byte_s
        if known is None or known_first is None:
            self.seconds, self.first_byte_s = seconds, first_byte_s
            self.bench.settle()
        else:
            self.seconds = seconds = learnt(known, seconds)
            self.first_byte_s = learnt(known_first, first_byte_s)
            self._step_s = step_s(self.bench.capacity, seconds)

    def term(self, now: float) -> Term:
        return Term(
            replica_id=self.replica.id,
            node_name=self.node_name,
            in_flight=self.own + self.others,
            capacity=self.bench.capacity,
            seconds=self.bench.typical_s if self.seconds is None else self.seconds,
            is_learnt=self.seconds is not None,
            expected_s=None if self.expected_s == NEVER else self.expected_s,
            picked=self.picked,
            free_bytes=self.free_bytes,
            breaker=self.breaker.state(now),
        )


class Held:
    """One request at one replica. A context manager: leaving it lets go."""

    __slots__ = ("_is_held", "_is_judged", "_seat", "_trial", "named", "node_name", "replica")

    def __init__(self, seat: Seat) -> None:
        self._seat = seat
        self._is_held = True
        self._is_judged = False
        self.replica = seat.replica
        self.node_name = seat.node_name
        self.named = seat.named
        # The breaker that let it through to see whether the replica is well again.
        self._trial = trial = seat.breaker if seat.breaker.until is not None else None
        if trial is not None:
            trial.begin_trial()
        seat.enter()

    def release(self) -> None:
        if self._is_held:
            self._is_held = False
            if self._trial is not None:
                self._trial.end_trial()
            self._seat.leave()

    def succeeded(self, seconds: float | None = None, first_byte_s: float | None = None) -> None:
        """It has answered: after so long the first byte, after so long all. None: the answer says nothing about how
        fast the replica is, as when it refuses what it was asked. The first verdict counts."""
        if self._is_judged:
            return
        self._is_judged = True
        seat, trial = self._seat, self._trial
        if trial is None:
            seat.breaker.succeeded()
        else:
            seat.breaker.succeeded(is_trial=trial is seat.breaker)
            seat.bench.settle()
        if seconds is not None:
            seat.learn(seconds, seconds if first_byte_s is None else first_byte_s)

    def failed(self, *, is_gone: bool = False) -> None:
        """The engine is to blame: lost, an error of its own, or no first byte in time. Busy (503) is none of these.
        `is_gone`: nobody listens there, and nothing has to be counted to know it. The first verdict counts."""
        seat = self._seat
        if self._is_judged or seat.replica.address != self.replica.address:
            return
        self._is_judged = True
        seat.bench.failed(seat, is_trial=self._trial is not None, is_gone=is_gone)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class Bench:
    """The seats of one model that are open now, and the queue for them."""

    def __init__(self, model: Served, seats: Seats) -> None:
        self._all = seats
        self.model = model
        self.seats: tuple[Seat, ...] = ()
        self.queue: Queue[Held] = Queue(self.take)
        self.capacity = seats.options.concurrency
        self.typical_s = typical_s(())
        self._policy: RoutePolicy = LEAST_WAIT
        self._picks = 0
        # Some breaker is not closed: picks have to look more closely.
        self._has_tripped = False

    def arrange(self, model: Served, seats: tuple[Seat, ...]) -> None:
        """These are open from now on."""
        is_same, self.model = model.run_hash == self.model.run_hash, model
        self.capacity = model.parallel or self._all.options.concurrency
        self._policy = policy_of(model.route_policy)
        self.seats = seats
        self.settle()
        if self.queue.count:
            self.queue.wake(only_again=bool(is_same and seats))
            self.queue.serve()

    def settle(self) -> None:
        """Work out anew what the seats have in common, and each of them."""
        self.typical_s = typical_s(seat.seconds for seat in self.seats)
        self._has_tripped = any(seat.breaker.until is not None for seat in self.seats)
        for seat in self.seats:
            seat.weigh()

    def fade(self, quiet_s: float) -> None:
        if len(self.seats) > 1:
            self.typical_s = typical_s(seat.seconds for seat in self.seats)
            for seat in self.seats:
                if seat.seconds is not None and not seat.own and not seat.is_used:
                    seat.seconds = faded(seat.seconds, self.typical_s, quiet_s)
                seat.weigh()

    def take(self, without: Collection[str] = ()) -> Held | None:
        """A replica with room, counted from now on; None if none has."""
        seats = self.seats
        seat: Seat | None
        if without or self._has_tripped:
            seat = self._careful_pick(without)
        elif len(seats) == 1:
            # Most models have one replica: there is nothing to weigh.
            seat = seats[0] if seats[0].expected_s != NEVER else None
        else:
            seat = self._policy.pick(seats)
        if seat is None:
            return None
        self._picks += 1
        seat.picked = self._picks
        return Held(seat)

    async def wait(self, asking: Asking, within_s: float) -> Held | None:
        """A replica when it is this one's turn; None: look again. `QueueFull`, `QueueTimeout` (with the time to wait)
        if it cannot be."""
        waiting, name = self.queue.count, self.model.name
        if waiting >= self._all.options.queue_max and not asking.is_again:
            raise QueueFull(
                f"Already {waiting} requests wait for {name}.",
                hint="Ask again after the time in Retry-After.",
                details=self._when(waiting),
            )
        try:
            return await self.queue.wait(asking, within_s)
        except TimeoutError:
            busy = f"All {len(self.seats)} replicas of {name} are busy" if len(self.seats) > 1 else f"{name} is busy"
            raise QueueTimeout(
                f"{busy}; the request has waited {within_s:.3g} s.",
                hint="Ask again after the time in Retry-After.",
                details=self._when(self.queue.count),
            ) from None

    def failed(self, seat: Seat, *, is_trial: bool, is_gone: bool) -> None:
        now, jitter = self._all.clock.monotonic(), self._all.chance()
        if is_gone:
            seat.breaker.trip(now, jitter)
        else:
            seat.breaker.failed(now, jitter, is_trial=is_trial)
        if seat.breaker.until is not None:
            self.settle()

    def explain(self) -> list[Term]:
        """What a pick would know now, the one that it would take first."""
        now = self._all.clock.monotonic()
        terms, chosen = explain(seat.term(now) for seat in self.seats), self.would_take()
        return sorted(terms, key=lambda term: term.replica_id != chosen)

    def would_take(self) -> str | None:
        """The replica that the next pick takes, if there is one with room."""
        seat = self._careful_pick(()) if self._has_tripped else self._policy.pick(self.seats)
        return None if seat is None else seat.replica.id

    def _careful_pick(self, without: Collection[str]) -> Seat | None:
        """One whose breaker lets one through goes first: whoever fails there is answered elsewhere. If no breaker is
        closed, the one that opens soonest is tried; a request is never lost to breakers alone."""
        now = self._all.clock.monotonic()
        left = [seat for seat in self.seats if seat.replica.id not in without]
        tripped = [seat for seat in left if seat.breaker.until is not None]
        for seat in tripped:
            if seat.has_room and seat.breaker.lets_one_through(now):
                return seat
        if len(tripped) < len(left):
            return self._policy.pick(left)
        with_room = [seat for seat in tripped if seat.has_room]
        return min(with_room, key=lambda seat: seat.breaker.until or 0.0, default=None)

    def _when(self, waiting: int) -> dict[str, object]:
        room, seconds = sum(seat.room for seat in self.seats), typical_s(seat.seconds for seat in self.seats)
        return {"retry_after_s": retry_after_s(waiting, room, seconds), "waiting": waiting}


class Seats:
    """All of them, by replica and by model. `chance` gives numbers from 0 to 1."""

    def __init__(self, clock: Clock, chance: Callable[[], float], options: SeatOptions | None = None) -> None:
        self.clock = clock
        self.chance = chance
        self.options = options or SeatOptions()
        self._seats: dict[str, Seat] = {}
        self._benches: dict[str, Bench] = {}
        # Return the bench of a model by its name; None: it has none. Asked for every request, so it is no method.
        self.bench: Callable[[str], Bench | None] = self._benches.get

    def __iter__(self) -> Iterator[Seat]:
        return iter(self._seats.values())

    def find(self, replica_id: str) -> Seat | None:
        return self._seats.get(replica_id)

    def benches(self) -> Collection[Bench]:
        return self._benches.values()

    def arrange(self, model: Served, found: Sequence[tuple[Replica, Place]]) -> Bench:
        """These replicas of the model are open now, and no others."""
        bench = self._benches.get(model.name)
        if bench is None:
            bench = self._benches[model.name] = Bench(model, self)
        seats = []
        for replica, place in sorted(found, key=lambda one: preference(one[1])):
            seat = self._seats.get(replica.id)
            if seat is None:
                seat = self._seats[replica.id] = Seat(replica, bench)
            seat.bench = bench
            seat.renew(replica, place)
            seats.append(seat)
        bench.arrange(model, tuple(seats))
        return bench

    def dismiss(self, model: str) -> None:
        """There is no such model any more."""
        bench = self._benches.pop(model, None)
        if bench is not None:
            bench.arrange(bench.model, ())

    def hear(self, elsewhere: dict[str, Elsewhere]) -> None:
        """What the other frontends have; nothing at the replicas that they do not name."""
        nothing = Elsewhere()
        for seat in self._seats.values():
            said = elsewhere.get(seat.replica.id, nothing)
            if (seat.others, seat.sharers) != (said.in_flight, said.frontends):
                seat.others, seat.sharers = said.in_flight, said.frontends
                seat.weigh()

    def fade(self, quiet_s: float) -> None:
        """What was learnt of replicas that nobody has asked for so long fades."""
        for bench in self._benches.values():
            bench.fade(quiet_s)

    def serve_waiting(self) -> None:
        """Give those who wait what has become free without anybody letting go of it: a breaker's time is over, another
        frontend has left room."""
        for bench in tuple(self._benches.values()):
            if bench.queue.count:
                bench.queue.serve()

    def forget(self, known: Collection[str]) -> None:
        """Keep these, those that are busy and those that have something to tell."""
        gone = [seat for seat in self._seats.values() if not seat.own and not seat.is_used]
        for seat in gone:
            if seat.replica.id not in known:
                del self._seats[seat.replica.id]
