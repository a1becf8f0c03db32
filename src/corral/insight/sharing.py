"""Numbers of all frontends together: each tells its own once a second, and adds up what it hears.

Guarantee: two frontends that hear each other tell the same, to the digit, because each takes for its own part what it
has told. Times are added up as buckets, never as quantiles. A peer that is silent for five seconds does not count, and
without a bus a frontend tells its own; `frontends` says how many are in a sum. A request pays nothing for any of this.
Limits: it is up to a second old where there are peers. The details, by model and replica, are told only while somebody
looks anywhere, so the first look after a quiet time has them of this frontend and the totals of all.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from corral.bus.messages import FrontendNumbers, PlaceNumbers
from corral.bus.subjects import FRONTEND_NUMBERS
from corral.domain.errors import CorralError, TooLarge
from corral.insight.histogram import QUEUE_BOUNDS, REQUEST_BOUNDS, TOKEN_BOUNDS
from corral.insight.insight import Insight
from corral.insight.recent import Flow
from corral.insight.tally import Place
from corral.ports.bus import Bus, Delivery
from corral.ports.runtime import Clock

INTERVAL_S = 1.0
# Who was not heard of for so long does not count.
SILENT_S = 5.0
# A look counts for so long: whoever looks once a second is always looking.
WATCHED_S = 5.0
# Half a megabyte, which the bus carries; those that are left out are the quietest, and in the total.
PLACES_MAX = 2000
PEERS_MAX = 1000
_DIGITS = 4
_Key = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summed:
    """What passes through all frontends that are heard of."""

    frontends: int
    streams_open: int
    waiting: int
    in_flight: int
    total: Flow
    by_model: dict[str, Flow]
    by_replica: dict[str, Flow]
    # By model and by replica.
    waiting_for: Counter[str]
    in_flight_at: Counter[str]


@dataclass(frozen=True, slots=True)
class _Heard:
    at: float
    numbers: FrontendNumbers


class _Sum:
    """Several places together. Buckets are added as they were told, few of many: there may be thousands of places."""

    __slots__ = ("_first_byte", "_inter_token", "_queue", "_rates")

    def __init__(self) -> None:
        self._rates = [0.0] * 4
        self._first_byte = [0] * (len(REQUEST_BOUNDS) + 1)
        self._inter_token = [0] * (len(TOKEN_BOUNDS) + 1)
        self._queue = [0] * (len(QUEUE_BOUNDS) + 1)

    def add(self, place: PlaceNumbers) -> None:
        # A newer peer may tell more than we know of.
        for number, rate in enumerate(place.rates[:4]):
            self._rates[number] += rate
        _add(self._first_byte, place.first_byte)
        _add(self._inter_token, place.inter_token)
        _add(self._queue, place.queue)

    def flow(self) -> Flow:
        requests, errors, prompts, tokens = self._rates
        return Flow(
            requests_per_s=requests,
            errors_per_s=errors,
            prompt_tokens_per_s=prompts,
            tokens_per_s=tokens,
            first_byte=self._first_byte,
            inter_token=self._inter_token,
            queue=self._queue,
        )


@dataclass(slots=True)
class _Details:
    """What the places of all frontends come to."""

    by_model: defaultdict[str, _Sum] = field(default_factory=lambda: defaultdict(_Sum))
    by_replica: defaultdict[str, _Sum] = field(default_factory=lambda: defaultdict(_Sum))
    waiting_for: Counter[str] = field(default_factory=Counter)
    in_flight_at: Counter[str] = field(default_factory=Counter)

    def take(self, place: PlaceNumbers) -> None:
        if place.rates:
            self.by_model[place.model].add(place)
            if place.replica:
                self.by_replica[place.replica].add(place)
        if place.waiting:
            self.waiting_for[place.model] += place.waiting
        if place.in_flight:
            self.in_flight_at[place.replica] += place.in_flight


class Sharing:
    def __init__(self, insight: Insight, bus: Bus, clock: Clock, frontend_id: str) -> None:
        self._insight = insight
        self._bus = bus
        self._clock = clock
        self._frontend_id = frontend_id
        self._peers: dict[str, _Heard] = {}
        self._told: _Heard | None = None
        self._watched_until = 0.0

    def watched(self) -> None:
        """Somebody looks, here and now."""
        self._watched_until = self._clock.monotonic() + WATCHED_S

    async def tick(self) -> int:
        """Tell what passes through this frontend; of how many places."""
        self._peers = dict(self._fresh())
        if not self._bus.is_connected:
            self._told = None
            return 0
        is_watched = self._clock.monotonic() < self._watched_until
        wants = is_watched or any(heard.numbers.is_watched for heard in self._peers.values())
        numbers = self._own(has_places=wants, is_watched=is_watched)
        try:
            numbers = await self._tell(numbers)
        except CorralError:
            self._told = None
            return 0
        self._told = _Heard(self._clock.monotonic(), numbers)
        return len(numbers.places)

    async def on_numbers(self, delivery: Delivery[FrontendNumbers]) -> None:
        """A peer tells. Our own words come back as well, and change nothing."""
        numbers = delivery.message
        if numbers.origin == self._frontend_id or (len(self._peers) >= PEERS_MAX and numbers.origin not in self._peers):
            return
        self._peers[numbers.origin] = _Heard(self._clock.monotonic(), numbers)

    def look(self) -> Summed:
        """All together, as of now."""
        # In one order everywhere: the last digit of a sum hangs on it.
        numbers = sorted([self._mine(), *(heard.numbers for _, heard in self._fresh())], key=lambda one: one.origin)
        details, total = _Details(), _Sum()
        for one in numbers:
            total.add(one.total)
            for place in one.places:
                details.take(place)
        return Summed(
            frontends=len(numbers),
            streams_open=sum(one.streams_open for one in numbers),
            waiting=sum(one.total.waiting for one in numbers),
            in_flight=sum(one.total.in_flight for one in numbers),
            total=total.flow(),
            by_model={name: one.flow() for name, one in details.by_model.items()},
            by_replica={name: one.flow() for name, one in details.by_replica.items()},
            waiting_for=details.waiting_for,
            in_flight_at=details.in_flight_at,
        )

    def _fresh(self) -> list[tuple[str, _Heard]]:
        oldest = self._clock.monotonic() - SILENT_S
        return [(origin, heard) for origin, heard in self._peers.items() if heard.at > oldest]

    def _mine(self) -> FrontendNumbers:
        """What was told, if somebody can have heard it; else what is so at this moment."""
        told = self._told
        is_known = told is not None and self._clock.monotonic() - told.at < SILENT_S and bool(self._fresh())
        return told.numbers if told is not None and is_known else self._own(has_places=True, is_watched=False)

    async def _tell(self, numbers: FrontendNumbers) -> FrontendNumbers:
        try:
            await self._bus.publish(FRONTEND_NUMBERS, numbers)
        except TooLarge:
            numbers = replace(numbers, places=())
            await self._bus.publish(FRONTEND_NUMBERS, numbers)
        return numbers

    def _own(self, *, has_places: bool, is_watched: bool) -> FrontendNumbers:
        going = self._insight.going()
        look = self._insight.recent.look(going.events)
        waiting = going.waiting.total()
        # Both in one pass over what has changed; without places it is all one.
        flows = look.flows(_key if has_places else _no_key)
        places = _places(flows, going.places if has_places else {})
        total = _Sum()
        for place in places:
            total.add(place)
        return FrontendNumbers(
            origin=self._frontend_id,
            streams_open=going.streams,
            total=_place(("", ""), total.flow(), waiting=waiting, in_flight=going.requests - waiting),
            places=_busiest(places) if has_places else (),
            is_watched=is_watched,
        )


def _key(place: Place) -> _Key:
    return (place.model, place.replica_id)


def _no_key(_: Place) -> _Key:
    return ("", "")


def _places(flows: dict[_Key, Flow], under_way: Mapping[Place, int]) -> list[PlaceNumbers]:
    """What is still in every way is left out."""
    opened: Counter[_Key] = Counter()
    for place, count in under_way.items():
        opened[_key(place)] += count
    return [
        _place(key, flows.get(key), waiting=0 if key[1] else opened[key], in_flight=opened[key] if key[1] else 0)
        for key in sorted(flows.keys() | opened.keys())
    ]


def _busiest(places: list[PlaceNumbers]) -> tuple[PlaceNumbers, ...]:
    if len(places) > PLACES_MAX:
        places = sorted(places, key=lambda one: -one.waiting - one.in_flight - sum(one.rates[3:4]))
    return tuple(places[:PLACES_MAX])


def _place(key: _Key, flow: Flow | None, *, waiting: int, in_flight: int) -> PlaceNumbers:
    if flow is None:
        return PlaceNumbers(model=key[0], replica=key[1], waiting=waiting, in_flight=in_flight)
    rates = (flow.requests_per_s, flow.errors_per_s, flow.prompt_tokens_per_s, flow.tokens_per_s)
    return PlaceNumbers(
        model=key[0],
        replica=key[1],
        waiting=waiting,
        in_flight=in_flight,
        rates=tuple(round(rate, _DIGITS) for rate in rates),
        first_byte=_sparse(flow.first_byte),
        inter_token=_sparse(flow.inter_token),
        queue=_sparse(flow.queue),
    )


def _sparse(counts: Sequence[int]) -> tuple[int, ...]:
    return tuple(part for number, count in enumerate(counts) if count for part in (number, count))


def _add(counts: list[int], sparse: Sequence[int]) -> None:
    for number, count in zip(sparse[::2], sparse[1::2], strict=False):
        if 0 <= number < len(counts):
            counts[number] += count
