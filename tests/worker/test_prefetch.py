"""A worker asks for its prefetch list when a frontend knows what it has, and never stops for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from corral.domain.errors import NotFound
from corral.domain.model import PrefetchEntry, PrefetchKind
from corral.wire.holdings import PrefetchEntryOut
from corral.worker.prefetch import EVERY_S, PrefetchRequester
from tests.simulation.chance import chance
from tests.simulation.clock import SimClock
from tests.simulation.run import simulate
from tests.simulation.virtual_loop import VirtualLoop
from tests.support.frontends import RunningFrontend
from tests.support.nodes import create_join_token
from tests.support.polling import eventually
from tests.worker.conftest import StartWorker
from tests.worker.standin import PretendFrontend, PretendNode

pytestmark = pytest.mark.behaviour("OPS-87")
NODE_ID = "node-1"
BACKEND = PrefetchEntry(kind=PrefetchKind.BACKEND, name="solo")
MODEL = PrefetchEntry(kind=PrefetchKind.MODEL, name="chat")
Story = Callable[[PretendFrontend, PrefetchRequester, SimClock], Awaitable[None]]


def play(story: Story) -> None:
    async def run(loop: VirtualLoop) -> None:
        clock = SimClock(loop)
        frontend = PretendFrontend(clock)
        frontend.nodes["a"] = PretendNode(id=NODE_ID, name="a", credential="c", boot_id="b", is_approved=True)
        requester = PrefetchRequester(frontend, [BACKEND, MODEL], boot_id="b", clock=clock, rng=chance(1, "prefetch"))
        await requester.start()
        await story(frontend, requester, clock)
        await requester.stop()

    simulate(1, run)


def test_requester_asks_once_for_each_entry_when_it_gets_its_place():
    async def story(frontend: PretendFrontend, requester: PrefetchRequester, clock: SimClock) -> None:
        await clock.sleep(600)
        assert frontend.prefetches == []
        requester.get_node_id = lambda: NODE_ID
        requester.wake()
        await clock.sleep(3600)
        assert [(body.backends, body.models) for body in frontend.prefetches] == [(["solo"], ["chat"])]

    play(story)


def test_requester_asks_again_for_what_was_refused_and_for_nothing_else():
    async def story(frontend: PretendFrontend, requester: PrefetchRequester, clock: SimClock) -> None:
        refused = PrefetchEntryOut(kind="model", name="chat", state="refused", message="There is no model chat.")
        frontend.prefetch_answers[("model", "chat")] = refused
        requester.get_node_id = lambda: NODE_ID
        requester.wake()
        await clock.sleep(3 * EVERY_S)
        del frontend.prefetch_answers[("model", "chat")]
        await clock.sleep(20 * EVERY_S)
        requested = [(body.backends, body.models) for body in frontend.prefetches]
        assert requested[0] == (["solo"], ["chat"])
        assert set(map(str, requested[1:])) == {str(([], ["chat"]))}
        assert requester.list_open_entries(NODE_ID) == []

    play(story)


def test_requester_goes_on_when_frontends_are_away_or_too_old():
    async def story(frontend: PretendFrontend, requester: PrefetchRequester, clock: SimClock) -> None:
        frontend.is_away = True
        frontend.refusals["prefetch"] = [NotFound("There is no such route.")]
        requester.get_node_id = lambda: NODE_ID
        requester.wake()
        await clock.sleep(600)
        assert frontend.prefetches == []
        frontend.is_away = False
        await clock.sleep(5 * EVERY_S)
        assert len(frontend.prefetches) == 1

    play(story)


def test_requester_sends_again_when_the_node_has_joined_again():
    async def story(frontend: PretendFrontend, requester: PrefetchRequester, clock: SimClock) -> None:
        requester.get_node_id = lambda: NODE_ID
        requester.wake()
        await clock.sleep(2 * EVERY_S)
        frontend.nodes["a"].id = "node-2"
        requester.get_node_id = lambda: "node-2"
        await clock.sleep(3 * EVERY_S)
        assert [body.backends for body in frontend.prefetches] == [["solo"], ["solo"]]

    play(story)


async def test_worker_has_its_prefetch_list_once_it_is_approved_and_asks_no_more_after_a_restart(
    cluster: RunningFrontend, start_worker: StartWorker
):
    options = {"prefetch_backends": "fake", "prefetch_models": "nobody"}
    worker = await start_worker(token=await create_join_token(cluster, approves=True), **options)

    async def is_installed() -> bool:
        _, page = await cluster.call("GET", "/api/operations/history")
        return [(one["kind"], one["outcome"]) for one in page["operations"]] == [("backend_install", "completed")]

    await eventually(is_installed)
    await worker.services.stop()
    await cluster.call("DELETE", "/api/operations/history")
    again = await start_worker(**options)

    async def is_settled() -> bool:
        assert again.prefetch is not None
        names = [entry.name for entry in again.prefetch.list_open_entries(again.membership.node_id or "")]
        return names == ["nobody"]

    await eventually(is_settled)
    _, live = await cluster.call("GET", "/api/operations")
    _, ended = await cluster.call("GET", "/api/operations/history")
    assert (live["operations"], ended["operations"]) == ([], [])
