"""Rates of the last seconds, from sums that only grow."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from corral.adapters.system import SystemIdGenerator
from corral.domain.usage import ErrorOrigin
from corral.insight.recent_rates import INTERVAL_S, RequestPace
from corral.insight.request_monitor import RequestMonitor, RequestMonitorOptions
from corral.insight.tally import TallyKey
from tests.insight.records import HandClock, Request, SmallFleet, record


class Scene:
    def __init__(self) -> None:
        self.clock, self.fleet = HandClock(), SmallFleet()
        self.insight = RequestMonitor(RequestMonitorOptions(), self.fleet, self.clock, SystemIdGenerator())

    async def pass_time(self, seconds: float) -> None:
        for _ in range(int(seconds / INTERVAL_S)):
            self.clock.now += INTERVAL_S
            await self.insight.tick()

    def paces(self, group: Callable[[TallyKey], str] = lambda place: place.model) -> dict[str, RequestPace]:
        flows = self.insight.recent.open_window(self.insight.count_open().events).compute_flows(group)
        return {name: flow.compute_pace() for name, flow in flows.items()}

    def pace(self, model: str = "chat") -> RequestPace:
        return self.paces().get(model, RequestPace())


async def test_rates_are_those_of_the_last_ten_seconds() -> None:
    scene = Scene()
    await scene.pass_time(2)
    for _ in range(20):
        scene.insight.tally.on_requests_ended(record(origin=ErrorOrigin.ENGINE, error_code="engine_lost"))
    await scene.pass_time(10)
    pace = scene.pace()
    assert pace.requests_per_s == pytest.approx(2.0)
    assert pace.errors_per_s == pytest.approx(2.0)
    assert pace.prompt_tokens_per_s == pytest.approx(60.0)
    assert pace.tokens_per_s == pytest.approx(402.0)
    await scene.pass_time(12)
    assert scene.pace().requests_per_s == 0.0
    # Times are those of a minute.
    assert scene.pace().first_byte_s.p50 == pytest.approx(0.1, abs=0.05)
    await scene.pass_time(62)
    assert scene.pace().first_byte_s.p50 is None
    assert scene.paces() == {}


@pytest.mark.parametrize("answers_before", [0, 1])
async def test_long_answer_is_seen_while_it_is_written_and_not_once_more_at_its_end(answers_before: int) -> None:
    scene = Scene()
    for _ in range(answers_before):
        scene.insight.tally.on_requests_ended(record())
    await scene.pass_time(2)
    for events in (20, 40, 60, 80, 100):
        scene.fleet.requests = [Request(("chat", "chat", "replica-1"), is_streaming=True, events=events)]
        await scene.pass_time(2)
    assert scene.pace().tokens_per_s == pytest.approx(10.0)
    scene.fleet.requests = []
    scene.insight.tally.on_requests_ended(record(events=100))
    assert scene.pace().tokens_per_s == pytest.approx(10.0)


async def test_rates_are_given_by_replica_and_removed_replicas_make_no_burst() -> None:
    scene = Scene()
    await scene.pass_time(2)
    for number in (1, 2):
        for _ in range(number * 10):
            scene.insight.tally.on_requests_ended(record(replica_id=f"replica-{number}"))
    by_replica = scene.paces(lambda place: place.replica_id)
    assert set(by_replica) == {"replica-1", "replica-2"}
    await scene.pass_time(20)
    assert scene.pace().requests_per_s == 0.0
    scene.fleet.replicas = {}
    await scene.pass_time(2)
    assert scene.pace().requests_per_s == 0.0
    assert scene.insight.tally.compute_totals()["chat", "chat"].requests == 30


async def test_rates_are_absent_before_the_first_note() -> None:
    scene = Scene()
    scene.insight.tally.on_requests_ended(record())
    assert scene.paces() == {}


async def test_open_requests_are_counted_by_replica_and_by_queue() -> None:
    scene = Scene()
    scene.fleet.requests = [
        Request(("chat", "chat", "replica-1"), is_streaming=True, events=3),
        Request(("chat", "chat", "replica-1")),
        Request(("chat", "chat", "")),
        Request(("other", "embeddings", "")),
    ]
    going = scene.insight.count_open()
    assert (going.requests, going.streams) == (4, 1)
    assert going.waiting == {"chat": 1, "other": 1}
    assert going.in_flight == {"replica-1": 2}
