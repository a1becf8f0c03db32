"""Two frontends on a real bus: one live view."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.api.streams import Stream, open_stream
from tests.bus.nats_server import NatsServer
from tests.insight.records import Request, record
from tests.serving.scene import put_model, put_replica, settled
from tests.support.frontends import RunningFrontend, running_frontend
from tests.support.nodes import join_node
from tests.support.polling import eventually

Pair = tuple[RunningFrontend, RunningFrontend]


@pytest.fixture
async def nats(tmp_path: Path) -> AsyncIterator[NatsServer]:
    async with NatsServer(tmp_path) as server:
        yield server


@pytest.fixture
async def pair(database_url: str, nats: NatsServer) -> AsyncIterator[Pair]:
    """They share a model, have a replica of it, and nobody decides about that."""
    async with (
        running_frontend(database_url, authority=nats.authority, nats_url=nats.url) as one,
        running_frontend(database_url, authority=nats.authority, nats_url=nats.url) as other,
    ):
        for frontend in (one, other):
            for loop in (frontend.core.loops["replicas"], frontend.core.loops["scaling"], frontend.core.loops["stops"]):
                await loop.stop()
        await put_model(one.database)
        node = await join_node(one, "gpu-a")
        replica = await put_replica(one.database, node.id, "127.0.0.1:1")
        await settled(one, other)
        for frontend, count in ((one, 30), (other, 12)):
            await frontend.core.request_monitor.tick()
            for _ in range(count):
                frontend.core.request_monitor.tally.on_requests_ended(record(replica_id=replica.id))
        yield one, other


async def live(frontend: RunningFrontend) -> Any:
    status, found = await frontend.call("GET", "/api/live")
    assert status == 200, found
    return found


def without_who(found: Any) -> Any:
    return {name: value for name, value in found.items() if name not in ("at", "answered_by")}


async def test_two_frontends_show_the_same_live_numbers_of_both(pair: Pair) -> None:
    one, other = pair

    async def same() -> Any:
        first, second = await live(one), await live(other)
        answers = sum(one.core.live_views.traffic.compute_totals().total.first_byte)
        is_whole = first["frontends"] == 2 and answers == 42 and first["models"][0]["pace"] == first["pace"]
        return first if is_whole and without_who(first) == without_who(second) else None

    found = await eventually(same)
    (model,) = found["models"]
    assert model["pace"] == found["pace"] == model["replicas"][0]["pace"]
    assert found["pace"]["first_byte_s"]["p50"] == pytest.approx(0.1, abs=0.05)


async def test_two_pages_on_two_frontends_show_the_same_requests_in_flight(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = pair
    (model,) = (await live(one))["models"]
    replica_id = model["replicas"][0]["id"]
    for frontend, count in ((one, 2), (other, 1)):
        under_way = [Request(("chat", "chat", replica_id)), Request(("chat", "chat", ""))] * count
        monkeypatch.setattr(
            frontend.core.request_monitor.fleet, "list_open_requests", lambda under_way=under_way: under_way
        )

    async def shows_all(stream: Stream) -> None:
        while True:
            frame = await stream.next()
            if frame.event == "live":
                found = json.loads(frame.data)
                model = found["models"][0]
                if (found["requests_open"], model["in_flight"], model["waiting"]) == (6, 3, 3):
                    return

    async with open_stream(one.url, path="/api/stream") as first, open_stream(other.url, path="/api/stream") as second:
        await shows_all(first)
        await shows_all(second)


async def test_node_counts_requests_of_both_frontends_and_uses_leases_until_all_have_reported(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = pair
    (row,) = (await one.call("GET", "/api/nodes/gpu-a/models"))[1]
    for frontend, count in ((one, 2), (other, 1)):
        under_way = [Request(("chat", "chat", row["id"])), Request(("chat", "chat", ""))] * count
        monkeypatch.setattr(
            frontend.core.request_monitor.fleet, "list_open_requests", lambda under_way=under_way: under_way
        )

    async def counts() -> list[int]:
        lists = [(await frontend.call("GET", "/api/nodes"))[1][0] for frontend in pair]
        shown = [(await frontend.call("GET", "/api/nodes/gpu-a"))[1] for frontend in pair]
        return [node["in_flight_count"] for node in lists + shown]

    async def is_whole() -> bool:
        return await counts() == [3] * 4

    # No lease says so: only the live numbers know these requests.
    await eventually(is_whole)
    whole = one.core.live_views.traffic.compute_totals()
    unreported = replace(whole, in_flight_at=whole.in_flight_at - whole.in_flight_at)
    monkeypatch.setattr(one.core.live_views.traffic, "compute_totals", lambda: unreported)
    assert (await one.call("GET", "/api/nodes/gpu-a"))[1]["in_flight_count"] == 0, "as the leases say"


async def test_live_numbers_exclude_a_stopped_frontend_and_are_local_without_a_bus(
    pair: Pair, nats: NatsServer
) -> None:
    one, other = pair

    async def hears_both() -> bool:
        return [(await live(frontend))["frontends"] for frontend in pair] == [2, 2]

    await eventually(hears_both)
    await nats.kill()

    async def is_alone() -> bool:
        return [(await live(frontend))["frontends"] for frontend in pair] == [1, 1]

    await eventually(is_alone)
    assert sum(one.core.live_views.traffic.compute_totals().total.first_byte) == 30
    assert sum(other.core.live_views.traffic.compute_totals().total.first_byte) == 12
    assert any("bus" in sentence.lower() or "nats" in sentence.lower() for sentence in (await live(one))["degraded"])
