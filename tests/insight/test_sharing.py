"""Numbers of all frontends together: what each tells, and what becomes of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from corral.adapters.system import SystemIds
from corral.bus.codec import encode
from corral.bus.messages import FrontendNumbers, PlaceNumbers
from corral.bus.subjects import FRONTEND_NUMBERS
from corral.domain.answered import Origin
from corral.insight.histogram import REQUEST_BOUNDS, quantile
from corral.insight.insight import Breaker, Insight, InsightOptions
from corral.insight.sharing import PLACES_MAX, SILENT_S, WATCHED_S, Sharing
from corral.ports.bus import Delivery
from tests.insight.records import HandClock, Request, SmallFleet, record
from tests.operations.fake_bus import FakeBus, Hub


class Frontend:
    def __init__(self, hub: Hub, clock: HandClock, name: str) -> None:
        self.clock, self.fleet, self.bus = clock, SmallFleet(), FakeBus(hub)
        self.insight = Insight(InsightOptions(), self.fleet, clock, SystemIds())
        self.sharing = Sharing(self.insight, self.bus, clock, name)

    async def join(self) -> Frontend:
        await self.bus.subscribe(FRONTEND_NUMBERS, self.sharing.on_numbers)
        await self.insight.tick()
        return self

    def answers(self, count: int, **changes: object) -> None:
        for _ in range(count):
            self.insight.tally.answered(record(**changes))


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

    def told(self) -> list[FrontendNumbers]:
        return [message for name, _, message in self.hub.sent if name == FRONTEND_NUMBERS.name]


@pytest.fixture
def scene() -> Scene:
    return Scene()


@pytest.mark.behaviour("PAGE-37")
async def test_two_frontends_show_the_same_sum_whatever_happens_between_two_messages(scene: Scene) -> None:
    one, other = await scene.add("a"), await scene.add("b")
    one.answers(20)
    other.answers(7, first_byte_s=0.4, origin=Origin.ENGINE, error_code="engine_lost")
    one.fleet.requests = [Request(("chat", "chat", "replica-1"), is_streaming=True, events=3)]
    other.fleet.requests = [Request(("chat", "chat", "replica-1")), Request(("chat", "chat", ""))]
    one.sharing.watched()
    await scene.second(3)
    one.answers(5)
    scene.clock.now += 0.3
    first, second = one.sharing.look(), other.sharing.look()
    assert first == second
    assert (first.frontends, first.streams_open, first.waiting, first.in_flight) == (2, 1, 1, 2)
    assert first.total.requests_per_s == pytest.approx(27 / 3, rel=0.01)
    assert first.total.errors_per_s == pytest.approx(7 / 3, rel=0.01)
    assert first.by_model["chat"].requests_per_s == first.by_replica["replica-1"].requests_per_s
    assert first.waiting_for == {"chat": 1}
    assert first.in_flight_at == {"replica-1": 2}


@pytest.mark.behaviour("PAGE-38")
async def test_quantiles_are_those_of_all_requests_and_not_the_middle_of_two(scene: Scene) -> None:
    one, other = await scene.add("a"), await scene.add("b")
    one.answers(99, first_byte_s=0.02)
    other.answers(1, first_byte_s=20.0)
    await scene.second(2)
    pace = one.sharing.look().total.pace()
    counts = [0] * (len(REQUEST_BOUNDS) + 1)
    counts[4], counts[13] = 99, 1
    assert pace.first_byte_s.p50 == quantile(REQUEST_BOUNDS, counts, 0.5)
    assert pace.first_byte_s.p95 == quantile(REQUEST_BOUNDS, counts, 0.95)
    assert pace.first_byte_s.p95 is not None
    assert pace.first_byte_s.p95 < 0.03


@pytest.mark.behaviour("PAGE-39")
async def test_a_peer_that_is_silent_does_not_count_and_comes_back_with_its_next_word(scene: Scene) -> None:
    one, other = await scene.add("a"), await scene.add("b")
    other.answers(10)
    await scene.second()
    assert one.sharing.look().frontends == 2
    scene.frontends = [one]
    await scene.second(int(SILENT_S) - 1)
    assert one.sharing.look().frontends == 2
    await scene.second(2)
    alone = one.sharing.look()
    assert (alone.frontends, alone.total.requests_per_s) == (1, 0.0)
    scene.frontends = [one, other]
    await scene.second()
    assert one.sharing.look().frontends == 2


@pytest.mark.behaviour("PAGE-39")
async def test_without_a_bus_a_frontend_tells_its_own_numbers_as_they_are_now(scene: Scene) -> None:
    one, other = await scene.add("a"), await scene.add("b")
    other.answers(10)
    await scene.second(2)
    one.bus.unplug()
    await scene.second(int(SILENT_S) + 1)
    one.answers(20)
    summed = one.sharing.look()
    assert summed.frontends == 1
    assert summed.total.requests_per_s == pytest.approx(20 / (SILENT_S + 3))
    assert other.sharing.look().frontends == 1
    await one.bus.plug()
    await scene.second()
    assert one.sharing.look() == other.sharing.look()


@pytest.mark.behaviour("PAGE-40")
async def test_details_are_told_while_somebody_looks_at_any_frontend_and_totals_always(scene: Scene) -> None:
    one, other = await scene.add("a"), await scene.add("b")
    other.answers(30)
    await scene.second(2)
    assert [message.places for message in scene.told()] == [()] * 4
    assert one.sharing.look().total.requests_per_s == pytest.approx(15.0)
    assert one.sharing.look().by_model == {}
    one.sharing.watched()
    await scene.second(2)
    assert set(one.sharing.look().by_replica) == {"replica-1"}
    await scene.second(int(WATCHED_S + SILENT_S))
    scene.hub.sent.clear()
    await scene.second()
    assert [message.places for message in scene.told()] == [(), ()]


@pytest.mark.behaviour("PAGE-40")
async def test_what_is_still_is_not_told_and_requests_alone_tell_nothing(scene: Scene) -> None:
    one = await scene.add("a")
    one.fleet.replicas = {f"replica-{n}": Breaker(model="chat", state="closed") for n in range(1000)}
    one.answers(1000, replica_id="replica-7")
    assert scene.told() == []
    one.sharing.watched()
    await scene.second()
    (message,) = scene.told()
    assert [place.replica for place in message.places] == ["replica-7"]
    assert len(encode(message, subject="s")) < 1000
    quiet = replace(message, places=(), total=PlaceNumbers())
    assert len(encode(quiet, subject="s")) < 400


@pytest.mark.behaviour("PAGE-40")
@pytest.mark.parametrize(("width", "told"), [(36, PLACES_MAX), (400, 0)])
async def test_of_more_places_than_the_bus_carries_the_busiest_are_told_or_the_total_alone(
    scene: Scene, width: int, told: int
) -> None:
    one, other = await scene.add("a"), await scene.add("b")
    ids = [str(number).zfill(width) for number in range(PLACES_MAX + 500)]
    one.fleet.requests = [Request(("m" * 250, "chat", replica)) for replica in [*ids, ids[-1]]]
    one.sharing.watched()
    await scene.second()
    summed = other.sharing.look()
    assert summed.in_flight == PLACES_MAX + 501
    assert len(summed.in_flight_at) == told
    assert summed.in_flight_at[ids[-1]] == (2 if told else 0)


@pytest.mark.behaviour("PAGE-37")
async def test_words_of_a_newer_peer_are_understood_as_far_as_they_are_known(scene: Scene) -> None:
    one = await scene.add("a")
    total = PlaceNumbers(rates=(1.0, 0.5, 2.0, 3.0, 99.0), first_byte=(3, 2, 400, 7, 5), in_flight=4)
    heard = FrontendNumbers(origin="newer", total=total)
    await one.sharing.on_numbers(Delivery(message=heard, subject="s", node=None))
    summed = one.sharing.look()
    assert (summed.frontends, summed.in_flight, summed.total.tokens_per_s) == (2, 4, 3.0)
    assert sum(summed.total.first_byte) == 2
