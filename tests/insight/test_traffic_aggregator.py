"""Numbers of all frontends together: what each tells, and what becomes of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from corral.adapters.system import SystemIdGenerator
from corral.bus.codec import encode
from corral.bus.messages import FrontendTraffic, ReplicaTraffic
from corral.bus.subjects import FRONTEND_NUMBERS
from corral.domain.usage import ErrorOrigin
from corral.insight.request_monitor import BreakerStatus, RequestMonitor, RequestMonitorOptions
from corral.insight.tally import REQUEST_BOUNDS, compute_quantile
from corral.insight.traffic_aggregator import PLACES_MAX, SILENT_S, WATCHED_S, TrafficAggregator
from corral.ports.bus import Delivery
from tests.insight.records import HandClock, Request, SmallFleet, record
from tests.operations.fake_bus import FakeBus, Hub


class Frontend:
    def __init__(self, hub: Hub, clock: HandClock, name: str) -> None:
        self.clock, self.fleet, self.bus = clock, SmallFleet(), FakeBus(hub)
        self.insight = RequestMonitor(RequestMonitorOptions(), self.fleet, clock, SystemIdGenerator())
        self.sharing = TrafficAggregator(self.insight, self.bus, clock, name)

    async def join(self) -> Frontend:
        await self.bus.subscribe(FRONTEND_NUMBERS, self.sharing.on_traffic)
        await self.insight.tick()
        return self

    def answers(self, count: int, **changes: object) -> None:
        for _ in range(count):
            self.insight.tally.on_requests_ended(record(**changes))


class Scene:
    def __init__(self) -> None:
        self.hub, self.clock = Hub(), HandClock()
        self.frontends: list[Frontend] = []

    async def add(self, name: str) -> Frontend:
        frontend = await Frontend(self.hub, self.clock, name).join()
        self.frontends.append(frontend)
        return frontend

    async def second(self, times: int = 1) -> None:
        for _ in range(times):
            self.clock.now += 1.0
            for frontend in self.frontends:
                await frontend.sharing.tick()

    def list_sent(self) -> list[FrontendTraffic]:
        return [message for name, _, message in self.hub.sent if name == FRONTEND_NUMBERS.name]


@pytest.fixture
def scene() -> Scene:
    return Scene()


async def test_two_frontends_show_the_same_sum_whatever_happens_between_two_messages(scene: Scene) -> None:
    one, other = await scene.add("a"), await scene.add("b")
    one.answers(20)
    other.answers(7, first_byte_s=0.4, origin=ErrorOrigin.ENGINE, error_code="engine_lost")
    one.fleet.requests = [Request(("chat", "chat", "replica-1"), is_streaming=True, events=3)]
    other.fleet.requests = [Request(("chat", "chat", "replica-1")), Request(("chat", "chat", ""))]
    one.sharing.note_watcher()
    await scene.second(3)
    one.answers(5)
    scene.clock.now += 0.3
    first, second = one.sharing.compute_totals(), other.sharing.compute_totals()
    assert first == second
    assert (first.frontends, first.streams_open, first.waiting, first.in_flight) == (2, 1, 1, 2)
    assert first.total.requests_per_s == pytest.approx(27 / 3, rel=0.01)
    assert first.total.errors_per_s == pytest.approx(7 / 3, rel=0.01)
    assert first.by_model["chat"].requests_per_s == first.by_replica["replica-1"].requests_per_s
    assert first.waiting_for == {"chat": 1}
    assert first.in_flight_at == {"replica-1": 2}


async def test_quantiles_are_those_of_all_requests_and_not_the_middle_of_two(scene: Scene) -> None:
    one, other = await scene.add("a"), await scene.add("b")
    one.answers(99, first_byte_s=0.02)
    other.answers(1, first_byte_s=20.0)
    await scene.second(2)
    pace = one.sharing.compute_totals().total.compute_pace()
    counts = [0] * (len(REQUEST_BOUNDS) + 1)
    counts[4], counts[13] = 99, 1
    assert pace.first_byte_s.p50 == compute_quantile(REQUEST_BOUNDS, counts, 0.5)
    assert pace.first_byte_s.p95 == compute_quantile(REQUEST_BOUNDS, counts, 0.95)
    assert pace.first_byte_s.p95 is not None
    assert pace.first_byte_s.p95 < 0.03


async def test_silent_peer_is_excluded_until_its_next_message(scene: Scene) -> None:
    one, other = await scene.add("a"), await scene.add("b")
    other.answers(10)
    await scene.second()
    assert one.sharing.compute_totals().frontends == 2
    scene.frontends = [one]
    await scene.second(int(SILENT_S) - 1)
    assert one.sharing.compute_totals().frontends == 2
    await scene.second(2)
    alone = one.sharing.compute_totals()
    assert (alone.frontends, alone.total.requests_per_s) == (1, 0.0)
    scene.frontends = [one, other]
    await scene.second()
    assert one.sharing.compute_totals().frontends == 2


async def test_frontend_without_a_bus_reports_its_own_current_numbers(scene: Scene) -> None:
    one, other = await scene.add("a"), await scene.add("b")
    other.answers(10)
    await scene.second(2)
    one.bus.unplug()
    await scene.second(int(SILENT_S) + 1)
    one.answers(20)
    summed = one.sharing.compute_totals()
    assert summed.frontends == 1
    assert summed.total.requests_per_s == pytest.approx(20 / (SILENT_S + 3))
    assert other.sharing.compute_totals().frontends == 1
    await one.bus.plug()
    await scene.second()
    assert one.sharing.compute_totals() == other.sharing.compute_totals()


async def test_frontends_publish_details_only_while_watched_and_totals_always(scene: Scene) -> None:
    one, other = await scene.add("a"), await scene.add("b")
    other.answers(30)
    await scene.second(2)
    assert [message.places for message in scene.list_sent()] == [()] * 4
    assert one.sharing.compute_totals().total.requests_per_s == pytest.approx(15.0)
    assert one.sharing.compute_totals().by_model == {}
    one.sharing.note_watcher()
    await scene.second(2)
    assert set(one.sharing.compute_totals().by_replica) == {"replica-1"}
    await scene.second(int(WATCHED_S + SILENT_S))
    scene.hub.sent.clear()
    await scene.second()
    assert [message.places for message in scene.list_sent()] == [(), ()]


async def test_idle_replicas_are_not_shared_and_requests_alone_send_no_message(scene: Scene) -> None:
    one = await scene.add("a")
    one.fleet.replicas = {f"replica-{n}": BreakerStatus(model="chat", state="closed") for n in range(1000)}
    one.answers(1000, replica_id="replica-7")
    assert scene.list_sent() == []
    one.sharing.note_watcher()
    await scene.second()
    (message,) = scene.list_sent()
    assert [place.replica for place in message.places] == ["replica-7"]
    assert len(encode(message, subject="s")) < 1000
    quiet = replace(message, places=(), total=ReplicaTraffic())
    assert len(encode(quiet, subject="s")) < 400


@pytest.mark.parametrize(("width", "expected_count"), [(36, PLACES_MAX), (400, 0)])
async def test_shared_traffic_is_cut_to_the_busiest_replicas_or_the_total_when_it_exceeds_the_bus_limit(
    scene: Scene, width: int, expected_count: int
) -> None:
    one, other = await scene.add("a"), await scene.add("b")
    ids = [str(number).zfill(width) for number in range(PLACES_MAX + 500)]
    one.fleet.requests = [Request(("m" * 250, "chat", replica)) for replica in [*ids, ids[-1]]]
    one.sharing.note_watcher()
    await scene.second()
    summed = other.sharing.compute_totals()
    assert summed.in_flight == PLACES_MAX + 501
    assert len(summed.in_flight_at) == expected_count
    assert summed.in_flight_at[ids[-1]] == (2 if expected_count else 0)


async def test_words_of_a_newer_peer_are_understood_as_far_as_they_are_known(scene: Scene) -> None:
    one = await scene.add("a")
    total = ReplicaTraffic(rates=(1.0, 0.5, 2.0, 3.0, 99.0), first_byte=(3, 2, 400, 7, 5), in_flight=4)
    numbers = FrontendTraffic(origin="newer", total=total)
    await one.sharing.on_traffic(Delivery(message=numbers, subject="s", node=None))
    summed = one.sharing.compute_totals()
    assert (summed.frontends, summed.in_flight, summed.total.tokens_per_s) == (2, 4, 3.0)
    assert sum(summed.total.first_byte) == 2
