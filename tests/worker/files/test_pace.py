"""How fast bytes may move, and how many chunks at a time; without a clock."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from corral.bus.messages import BlobPlace
from corral.worker.files.places import Library, Standing, Standings, addresses
from corral.worker.files.throttle import Throttle
from corral.worker.files.window import Window


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


@pytest.mark.behaviour("FILE-13")
async def test_a_limit_is_held_over_time() -> None:
    clock = HandClock()
    throttle = Throttle(1000, clock)
    for _ in range(100):
        await throttle.take(100)
    # Ten thousand bytes at a thousand in a second, less what may go at once.
    assert 9.7 <= clock.now - 100.0 <= 10.0


@pytest.mark.behaviour("FILE-13")
async def test_what_was_not_used_is_not_saved_up() -> None:
    clock = HandClock()
    throttle = Throttle(1000, clock)
    await throttle.take(10)
    clock.now += 3600
    began = clock.now
    await throttle.take(2000)
    assert clock.now - began >= 1.7


@pytest.mark.behaviour("FILE-13")
async def test_without_a_limit_nobody_waits() -> None:
    clock = HandClock()
    throttle = Throttle(None, clock)
    await throttle.take(10**12)
    assert (throttle.is_open, clock.now) == (True, 100.0)


async def test_a_fast_line_carries_many_chunks_and_a_slow_one_a_single_one() -> None:
    window = Window(4)
    assert window.width == 1
    window.took(0.01)
    assert window.width == 4
    # Four at a time took as long as four in a row.
    window.took(4 * 0.1)
    assert window.width == 2
    window.took(2 * 1.0)
    assert window.width == 1
    narrow = Window(1)
    narrow.took(0.1)
    assert narrow.width == 1


async def test_fetchers_beyond_the_window_wait_and_are_let_go_at_the_end() -> None:
    window = Window(2)
    second = asyncio.create_task(window.lets(1))
    assert await window.lets(0)
    await asyncio.sleep(0)
    assert not second.done()
    window.took(0.01)
    assert await second
    window.close()
    assert not await window.lets(0)
    assert not await window.lets(1)


def made() -> tuple[Standings, list[Standing]]:
    library = Library(urls=("http://f1/", "http://f2"), credential="c", node_id=lambda: "n 1")
    places = (
        BlobPlace(kind="node", url="10.0.0.1:5", ticket="t"),
        BlobPlace(kind="node", url="http://10.0.0.2:5", ticket="t", sha256="other"),
        BlobPlace(kind="storage", url="http://s/x"),
        BlobPlace(kind="from the future", url="http://s/x"),
    )
    standings = Standings()
    standings.add(addresses(places, "ab", library))
    return standings, list(standings._all.values())


def test_places_become_addresses_with_the_library_at_the_end() -> None:
    standings, places = made()
    assert [place.address.url for place in places] == [
        "http://10.0.0.1:5/v1/blobs/ab",
        "http://s/x",
        "http://f1/api/node/n%201/blobs/ab",
        "http://f2/api/node/n%201/blobs/ab",
    ]
    # A node's word about hashes does not count.
    assert places[0] not in standings.tellers()
    assert len(standings.tellers()) == 3


def test_a_place_that_fails_rests_longer_each_time_and_recovers() -> None:
    standings, (first, second, *_) = made()
    assert standings.best(0.0) is first
    first.failed("broke", 0.0)
    # Another request that failed with it is the same failure.
    first.failed("broke", 0.5)
    assert standings.best(0.9) is second
    assert standings.best(1.0) is first
    first.failed("broke", 1.0)
    assert standings.best(2.9) is second
    assert standings.best(3.0) is first
    first.good()
    first.failed("broke", 3.0)
    assert standings.best(4.0) is first
    first.strike("lied")
    assert standings.best(1e9) is second
    assert "lied" in standings.troubles()


def test_a_node_is_waited_for_as_long_as_it_moves() -> None:
    standings, (first, second, *_) = made()
    for now in range(100):
        first.not_yet(now, float(now), patience_s=5.0)
    assert standings.best(99.0) is first
    first.not_yet(99, 104.0, patience_s=5.0)
    assert standings.best(104.0) is first
    first.not_yet(99, 104.1, patience_s=5.0)
    assert standings.best(104.1) is second


def test_a_fresh_ticket_is_used_and_a_struck_place_stays_so() -> None:
    standings, (first, *_) = made()
    first.strike("lied")
    library = Library(urls=(), credential="c", node_id=lambda: None)
    standings.add(addresses((BlobPlace(kind="node", url="10.0.0.1:5", ticket="new"),), "ab", library))
    assert first.address.headers == {"Authorization": "Bearer new"}
    assert standings.best(0.0) is not first
