"""Adds up the numbers of all frontends: each publishes its own once a second, and sums what it receives.

Guarantee: two connected frontends show the same numbers, to the digit, because each uses for its own part what it has
published. Times are added up as buckets, never as quantiles. A peer that is silent for five seconds does not count, and
without a bus a frontend shows its own; `frontends` says how many are in a sum. A request pays nothing for any of this.
Limits: with peers, the numbers are up to a second old. The details, by model and replica, are published only while
a client watches, so the first look after a quiet time has the details of this frontend and the totals of all.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from corral.bus.messages import FrontendTraffic, ReplicaTraffic
from corral.bus.subjects import FRONTEND_NUMBERS
from corral.domain.errors import CorralError, TooLarge
from corral.insight.recent_rates import RequestFlow
from corral.insight.request_monitor import RequestMonitor
from corral.insight.tally import QUEUE_BOUNDS, REQUEST_BOUNDS, TOKEN_BOUNDS, TallyKey
from corral.ports.bus import Bus, Delivery
from corral.ports.runtime import Clock

INTERVAL_S = 1.0
# A peer that was silent for this long does not count.
SILENT_S = 5.0
# A view counts as watching for this long, so a client that polls once a second is always watching.
WATCHED_S = 5.0
# Half a megabyte, which the bus carries; the rows left out are the quietest, and still in the total.
PLACES_MAX = 2000
PEERS_MAX = 1000
_DIGITS = 4
_Key = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterTraffic:
    """Inference traffic of the whole cluster: sums of requests, rates and times over all live frontends."""

    frontends: int
    streams_open: int
    waiting: int
    in_flight: int
    total: RequestFlow
    by_model: dict[str, RequestFlow]
    by_replica: dict[str, RequestFlow]
    # The details by model and by replica.
    waiting_for: Counter[str]
    in_flight_at: Counter[str]


@dataclass(frozen=True, slots=True)
class _TimedTraffic:
    """Holds the traffic that one frontend has reported, and when."""

    at: float
    numbers: FrontendTraffic


class _FlowSum:
    """Adds up the flows of several models and replicas, bucket by bucket."""

    __slots__ = ("_first_byte", "_inter_token", "_queue", "_rates")

    def __init__(self) -> None:
        self._rates = [0.0] * 4
        self._first_byte = [0] * (len(REQUEST_BOUNDS) + 1)
        self._inter_token = [0] * (len(TOKEN_BOUNDS) + 1)
        self._queue = [0] * (len(QUEUE_BOUNDS) + 1)

    def add(self, row: ReplicaTraffic) -> None:
        # A newer peer may send more buckets than this version knows.
        for number, rate in enumerate(row.rates[:4]):
            self._rates[number] += rate
        _add_sparse(self._first_byte, row.first_byte)
        _add_sparse(self._inter_token, row.inter_token)
        _add_sparse(self._queue, row.queue)

    def make_flow(self) -> RequestFlow:
        requests, errors, prompts, tokens = self._rates
        return RequestFlow(
            requests_per_s=requests,
            errors_per_s=errors,
            prompt_tokens_per_s=prompts,
            tokens_per_s=tokens,
            first_byte=self._first_byte,
            inter_token=self._inter_token,
            queue=self._queue,
        )


@dataclass(slots=True)
class _DetailSums:
    """Adds up the numbers of all frontends by model and by replica."""

    by_model: defaultdict[str, _FlowSum] = field(default_factory=lambda: defaultdict(_FlowSum))
    by_replica: defaultdict[str, _FlowSum] = field(default_factory=lambda: defaultdict(_FlowSum))
    waiting_for: Counter[str] = field(default_factory=Counter)
    in_flight_at: Counter[str] = field(default_factory=Counter)

    def add(self, row: ReplicaTraffic) -> None:
        if row.rates:
            self.by_model[row.model].add(row)
            if row.replica:
                self.by_replica[row.replica].add(row)
        if row.waiting:
            self.waiting_for[row.model] += row.waiting
        if row.in_flight:
            self.in_flight_at[row.replica] += row.in_flight


class TrafficAggregator:
    """Publishes this frontend's inference traffic over NATS once a second, and adds up that of all frontends."""

    def __init__(self, insight: RequestMonitor, bus: Bus, clock: Clock, frontend_id: str) -> None:
        self._insight = insight
        self._bus = bus
        self._clock = clock
        self._frontend_id = frontend_id
        self._peers: dict[str, _TimedTraffic] = {}
        self._published_traffic: _TimedTraffic | None = None
        self._watched_until = 0.0

    def note_watcher(self) -> None:
        """Note that a client watches the numbers now."""
        self._watched_until = self._clock.monotonic() + WATCHED_S

    async def tick(self) -> int:
        """Publish this frontend's numbers, and return how many rows they have."""
        self._peers = dict(self._list_fresh())
        if not self._bus.is_connected:
            self._published_traffic = None
            return 0
        is_watched = self._clock.monotonic() < self._watched_until
        publishes_details = is_watched or any(peer.numbers.is_watched for peer in self._peers.values())
        numbers = self._measure_own(has_places=publishes_details, is_watched=is_watched)
        try:
            numbers = await self._publish(numbers)
        except CorralError:
            self._published_traffic = None
            return 0
        self._published_traffic = _TimedTraffic(self._clock.monotonic(), numbers)
        return len(numbers.places)

    async def on_traffic(self, delivery: Delivery[FrontendTraffic]) -> None:
        """Take the numbers of a peer. Our own messages come back as well, and change nothing."""
        numbers = delivery.message
        if numbers.origin == self._frontend_id or (len(self._peers) >= PEERS_MAX and numbers.origin not in self._peers):
            return
        self._peers[numbers.origin] = _TimedTraffic(self._clock.monotonic(), numbers)

    def compute_totals(self) -> ClusterTraffic:
        """Return the sums over all frontends as of now."""
        # The same order on every frontend, because the last digit of a sum depends on it.
        numbers = sorted(
            [self._get_own(), *(peer.numbers for _, peer in self._list_fresh())], key=lambda one: one.origin
        )
        details, total = _DetailSums(), _FlowSum()
        for one in numbers:
            total.add(one.total)
            for row in one.places:
                details.add(row)
        return ClusterTraffic(
            frontends=len(numbers),
            streams_open=sum(one.streams_open for one in numbers),
            waiting=sum(one.total.waiting for one in numbers),
            in_flight=sum(one.total.in_flight for one in numbers),
            total=total.make_flow(),
            by_model={name: one.make_flow() for name, one in details.by_model.items()},
            by_replica={name: one.make_flow() for name, one in details.by_replica.items()},
            waiting_for=details.waiting_for,
            in_flight_at=details.in_flight_at,
        )

    def _list_fresh(self) -> list[tuple[str, _TimedTraffic]]:
        oldest = self._clock.monotonic() - SILENT_S
        return [(origin, peer) for origin, peer in self._peers.items() if peer.at > oldest]

    def _get_own(self) -> FrontendTraffic:
        """Return the published numbers if a peer can have received them; else the current ones."""
        published = self._published_traffic
        is_known = (
            published is not None and self._clock.monotonic() - published.at < SILENT_S and bool(self._list_fresh())
        )
        return (
            published.numbers
            if published is not None and is_known
            else self._measure_own(has_places=True, is_watched=False)
        )

    async def _publish(self, numbers: FrontendTraffic) -> FrontendTraffic:
        try:
            await self._bus.publish(FRONTEND_NUMBERS, numbers)
        except TooLarge:
            numbers = replace(numbers, places=())
            await self._bus.publish(FRONTEND_NUMBERS, numbers)
        return numbers

    def _measure_own(self, *, has_places: bool, is_watched: bool) -> FrontendTraffic:
        open_requests = self._insight.count_open()
        look = self._insight.recent.open_window(open_requests.events)
        waiting = open_requests.waiting.total()
        # Details and totals in one pass over the changed rows; without details, everything is one group.
        flows = look.compute_flows(_make_key if has_places else _make_empty_key)
        rows = _make_rows(flows, open_requests.places if has_places else {})
        total = _FlowSum()
        for row in rows:
            total.add(row)
        return FrontendTraffic(
            origin=self._frontend_id,
            streams_open=open_requests.streams,
            total=_make_row(("", ""), total.make_flow(), waiting=waiting, in_flight=open_requests.requests - waiting),
            places=_pick_busiest(rows) if has_places else (),
            is_watched=is_watched,
        )


def _make_key(tally_key: TallyKey) -> _Key:
    return (tally_key.model, tally_key.replica_id)


def _make_empty_key(_: TallyKey) -> _Key:
    return ("", "")


def _make_rows(flows: dict[_Key, RequestFlow], under_way: Mapping[TallyKey, int]) -> list[ReplicaTraffic]:
    """Return the rows with any traffic; idle ones are left out."""
    opened: Counter[_Key] = Counter()
    for tally_key, count in under_way.items():
        opened[_make_key(tally_key)] += count
    return [
        _make_row(key, flows.get(key), waiting=0 if key[1] else opened[key], in_flight=opened[key] if key[1] else 0)
        for key in sorted(flows.keys() | opened.keys())
    ]


def _pick_busiest(rows: list[ReplicaTraffic]) -> tuple[ReplicaTraffic, ...]:
    if len(rows) > PLACES_MAX:
        rows = sorted(rows, key=lambda one: -one.waiting - one.in_flight - sum(one.rates[3:4]))
    return tuple(rows[:PLACES_MAX])


def _make_row(key: _Key, flow: RequestFlow | None, *, waiting: int, in_flight: int) -> ReplicaTraffic:
    if flow is None:
        return ReplicaTraffic(model=key[0], replica=key[1], waiting=waiting, in_flight=in_flight)
    rates = (flow.requests_per_s, flow.errors_per_s, flow.prompt_tokens_per_s, flow.tokens_per_s)
    return ReplicaTraffic(
        model=key[0],
        replica=key[1],
        waiting=waiting,
        in_flight=in_flight,
        rates=tuple(round(rate, _DIGITS) for rate in rates),
        first_byte=_to_sparse(flow.first_byte),
        inter_token=_to_sparse(flow.inter_token),
        queue=_to_sparse(flow.queue),
    )


def _to_sparse(counts: Sequence[int]) -> tuple[int, ...]:
    return tuple(part for number, count in enumerate(counts) if count for part in (number, count))


def _add_sparse(counts: list[int], sparse: Sequence[int]) -> None:
    for number, count in zip(sparse[::2], sparse[1::2], strict=False):
        if 0 <= number < len(counts):
            counts[number] += count
