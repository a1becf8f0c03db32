"""What a stream shows beside the changes: views are made for whoever watches, once for all of them."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from corral.api.live_views import LIVE_AGE_MIN_S, NODES_FRESH_S, LiveViews
from corral.domain.node import NodeId
from corral.store.database import Transaction
from corral.wire.live import LiveOut
from tests.serving.scene import keep_only_the_feed
from tests.support.frontends import RunningFrontend
from tests.support.hand_clock import HandClock


@dataclass
class Views:
    """Counts how often the live view and the numbers of nodes are made."""

    clock: HandClock = field(default_factory=HandClock)
    live: int = 0
    nodes: int = 0
    requests_open: int = 0

    async def make_live(self) -> LiveOut:
        self.live += 1
        return LiveOut(
            at=self.clock.wall(),
            answered_by="frontend-1",
            requests_open=self.requests_open,
            streams_open=0,
            models=[],
            idle_models=0,
        )

    async def read_busy(self, _: Transaction) -> dict[NodeId, int]:
        self.nodes += 1
        return {}


@pytest.fixture
def views() -> Views:
    return Views()


@pytest.fixture
async def board(frontend: RunningFrontend, views: Views) -> LiveViews:
    await keep_only_the_feed(frontend)
    sharing = frontend.core.live_views.traffic
    return LiveViews(frontend.database, views.clock, sharing, views.make_live, views.read_busy)


async def test_live_views_are_not_rendered_without_watchers(board: LiveViews, views: Views) -> None:
    for _ in range(2):
        await board.tick()
        await board.tick_nodes()
        views.clock.now += 60.0
    assert (views.live, views.nodes) == (0, 0)


async def test_board_makes_no_view_after_the_last_watcher_has_left(board: LiveViews, views: Views) -> None:
    with board.count_watcher(has_numbers=True):
        await board.tick()
        await board.tick_nodes()
    assert (views.live, views.nodes) == (1, 1)
    views.clock.now += 60.0
    await board.tick()
    await board.tick_nodes()
    assert (views.live, views.nodes) == (1, 1)


async def test_board_makes_one_live_view_for_all_watchers(board: LiveViews, views: Views) -> None:
    watchers = [board.live.watch() for _ in range(3)]
    first = {await anext(watcher) for watcher in watchers}
    assert (len(first), views.live) == (1, 1)
    views.clock.now += LIVE_AGE_MIN_S
    views.requests_open = 7
    with board.count_watcher(has_numbers=True):
        await board.tick()
    second = {await anext(watcher) for watcher in watchers}
    assert (len(second), views.live) == (1, 2)
    assert second != first
    for watcher in watchers:
        await watcher.aclose()


async def test_live_view_in_which_only_the_time_differs_is_not_sent(board: LiveViews, views: Views) -> None:
    with board.count_watcher(has_numbers=True):
        await board.tick()
        version = board.live.version
        views.clock.now += LIVE_AGE_MIN_S
        await board.tick()
        assert (views.live, board.live.version) == (2, version)
        views.clock.now += LIVE_AGE_MIN_S
        views.requests_open = 7
        await board.tick()
    assert (views.live, board.live.version) == (3, version + 1)


async def test_history_takes_node_readings_that_are_a_few_seconds_old(board: LiveViews, views: Views) -> None:
    await board.record_history()
    views.clock.now += NODES_FRESH_S
    await board.record_history()
    assert views.nodes == 1
    views.clock.now += 0.5
    await board.record_history()
    assert views.nodes == 2
