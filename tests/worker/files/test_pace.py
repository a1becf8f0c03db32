"""How fast bytes may move, and how many chunks at a time; without a clock."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from corral.bus.messages import BlobSource
from corral.worker.files.chunk_client import ChunkSource, ChunkSources, LibraryAccess, list_addresses
from corral.worker.files.content_puller import BandwidthThrottle, FetchWindow


class HandClock:
    """Time passes only in pauses."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> datetime:
        return datetime.fromtimestamp(self.now, UTC)

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


async def test_limit_is_held_over_time() -> None:
    clock = HandClock()
    throttle = BandwidthThrottle(1000, clock)
    for _ in range(100):
        await throttle.take(100)
    # Ten thousand bytes at a thousand in a second, less what may go at once.
    assert 9.7 <= clock.now - 100.0 <= 10.0


async def test_unused_bandwidth_is_not_accumulated() -> None:
    clock = HandClock()
    throttle = BandwidthThrottle(1000, clock)
    await throttle.take(10)
    clock.now += 3600
    began = clock.now
    await throttle.take(2000)
    assert clock.now - began >= 1.7


async def test_transfer_without_a_limit_is_not_delayed() -> None:
    clock = HandClock()
    throttle = BandwidthThrottle(None, clock)
    await throttle.take(10**12)
    assert (throttle.is_unlimited, clock.now) == (True, 100.0)


async def test_fast_line_carries_many_chunks_and_a_slow_one_a_single_one() -> None:
    window = FetchWindow(4)
    assert window.width == 1
    window.record_duration(0.01)
    assert window.width == 4
    # Four at a time took as long as four in a row.
    window.record_duration(4 * 0.1)
    assert window.width == 2
    window.record_duration(2 * 1.0)
    assert window.width == 1
    narrow = FetchWindow(1)
    narrow.record_duration(0.1)
    assert narrow.width == 1


async def test_fetchers_beyond_the_window_wait_and_are_let_go_at_the_end() -> None:
    window = FetchWindow(2)
    second = asyncio.create_task(window.wait_for_turn(1))
    assert await window.wait_for_turn(0)
    await asyncio.sleep(0)
    assert not second.done()
    window.record_duration(0.01)
    assert await second
    window.close()
    assert not await window.wait_for_turn(0)
    assert not await window.wait_for_turn(1)


def made() -> tuple[ChunkSources, list[ChunkSource]]:
    library = LibraryAccess(urls=("http://f1/", "http://f2"), credential="c", get_node_id=lambda: "n 1")
    places = (
        BlobSource(kind="node", url="10.0.0.1:5", ticket="t"),
        BlobSource(kind="node", url="http://10.0.0.2:5", ticket="t", sha256="other"),
        BlobSource(kind="storage", url="http://s/x"),
        BlobSource(kind="from the future", url="http://s/x"),
    )
    standings = ChunkSources()
    standings.add(list_addresses(places, "ab", library))
    return standings, list(standings._sources.values())


def test_places_become_addresses_with_the_library_at_the_end() -> None:
    standings, places = made()
    assert [place.address.url for place in places] == [
        "http://10.0.0.1:5/v1/blobs/ab",
        "http://s/x",
        "http://f1/api/node/n%201/blobs/ab",
        "http://f2/api/node/n%201/blobs/ab",
    ]
    # A node's word about hashes does not count.
    assert places[0] not in standings.list_chunk_list_sources()
    assert len(standings.list_chunk_list_sources()) == 3


def test_place_that_fails_rests_longer_each_time_and_recovers() -> None:
    standings, (first, second, *_) = made()
    assert standings.find_best(0.0) is first
    first.record_failure("broke", 0.0)
    # Another request that failed with it is the same failure.
    first.record_failure("broke", 0.5)
    assert standings.find_best(0.9) is second
    assert standings.find_best(1.0) is first
    first.record_failure("broke", 1.0)
    assert standings.find_best(2.9) is second
    assert standings.find_best(3.0) is first
    first.record_success()
    first.record_failure("broke", 3.0)
    assert standings.find_best(4.0) is first
    first.exclude("lied")
    assert standings.find_best(1e9) is second
    assert "lied" in standings.describe_failures()


def test_node_is_waited_for_as_long_as_it_moves() -> None:
    standings, (first, second, *_) = made()
    for now in range(100):
        first.record_not_yet(now, float(now), limit_s=5.0)
    assert standings.find_best(99.0) is first
    first.record_not_yet(99, 104.0, limit_s=5.0)
    assert standings.find_best(104.0) is first
    first.record_not_yet(99, 104.1, limit_s=5.0)
    assert standings.find_best(104.1) is second


def test_fresh_ticket_is_used_and_a_struck_place_stays_so() -> None:
    standings, (first, *_) = made()
    first.exclude("lied")
    library = LibraryAccess(urls=(), credential="c", get_node_id=lambda: None)
    standings.add(list_addresses((BlobSource(kind="node", url="10.0.0.1:5", ticket="new"),), "ab", library))
    assert first.address.headers == {"Authorization": "Bearer new"}
    assert standings.find_best(0.0) is not first
