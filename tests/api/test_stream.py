"""`GET /api/stream`: all that a page needs, on one connection, on a real frontend."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from corral.api import live_views as boards
from corral.api import stream as event_stream
from corral.api.live_views import LiveViews
from corral.api.stream import KEEPALIVE_S, QUEUE_LIMIT, FrameCache
from corral.bus.messages import OperationDelta
from corral.domain.errors import StoreUnavailable
from corral.store import nodes as node_store
from corral.store import outbox
from tests.api.operations import assert_envelope
from tests.api.streams import Stream, open_stream
from tests.api.test_authentication import make_key
from tests.operations.scene import sql
from tests.serving.scene import keep_only_the_feed, put_model, put_replica, settled
from tests.support.frontends import RunningFrontend, running_frontend
from tests.support.nodes import GIB, PretendNode, join_node
from tests.support.polling import eventually

PATH = "/api/stream"


@pytest.fixture
async def quiet(frontend: RunningFrontend) -> RunningFrontend:
    """One whose numbers move when the test says so."""
    await keep_only_the_feed(frontend)
    return frontend


@pytest.fixture
async def node(quiet: RunningFrontend) -> PretendNode:
    return await join_node(quiet, "gpu-a")


async def append(frontend: RunningFrontend, count: int, kind: str = "model.changed") -> None:
    async with frontend.database.transaction() as tx:
        for number in range(count):
            await outbox.append(tx, kind, str(number), {"number": number})
    await frontend.core.feed.tick()


async def next_of(stream: Stream, *kinds: str) -> Any:
    """What the next frame of these kinds has in it; others are passed over."""
    while True:
        frame = await stream.next()
        if frame.event in kinds:
            return json.loads(frame.data)


def refresh_now(board: LiveViews) -> None:
    board.live._least_s = board.nodes._least_s = 0.0


async def test_stream_has_changes_progress_the_live_view_and_the_numbers_of_nodes(
    quiet: RunningFrontend, node: PretendNode
) -> None:
    await put_model(quiet.database)
    await put_replica(quiet.database, node.id, "127.0.0.1:1")
    await settled(quiet)
    async with open_stream(quiet.url, path=PATH) as stream:
        assert (await stream.next()).event == "hello"
        first = [await stream.next(), await stream.next()]
        by_event = {frame.event: json.loads(frame.data) for frame in first}
        assert {frame.id for frame in first} == {str(quiet.core.feed.position)}, "numbers have no place of their own"
        assert [model["name"] for model in by_event["live"]["models"]] == ["chat"]
        assert by_event["live"]["answered_by"] == quiet.core.api_deps.frontend_id
        (shown,) = by_event["nodes"]["nodes"]
        whole = await node.read_as_admin()
        assert {name: whole[name] for name in shown} == shown
        assert {"status", "schedulable", "available_vram", "available_disk", "in_flight_count"} <= shown.keys()
        await append(quiet, 1, "node.drained")
        quiet.core.deltas.publish(OperationDelta(operation_id="o", rev=1, state="running", percent=40.0))
        await quiet.core.deltas.tick()
        later = [await stream.next(), await stream.next()]
        by_kind = {frame.event: json.loads(frame.data) for frame in later}
        assert by_kind["operation.progress"]["data"]["progress"] == 40.0
        assert by_kind["node.drained"]["data"] == {"number": 0}
        assert by_kind["node.drained"]["id"] == str(quiet.core.feed.position)


async def test_quiet_stream_sends_keepalive_events(quiet: RunningFrontend, monkeypatch: pytest.MonkeyPatch) -> None:
    assert KEEPALIVE_S == 4.0
    monkeypatch.setattr(event_stream, "KEEPALIVE_S", 0.01)
    async with open_stream(quiet.url, path=PATH) as stream:
        seen = b""
        async with asyncio.timeout(30):
            while b"\nevent: still\ndata: {}\n\n" not in seen:
                seen += await stream.response.content.readany()


@pytest.mark.behaviour("PAGE-31")
@pytest.mark.parametrize("way", ["header", "address", "both"])
async def test_stream_goes_on_where_it_was_on_another_frontend(
    quiet: RunningFrontend, database_url: str, way: str
) -> None:
    place = str(quiet.core.feed.position)
    await append(quiet, 3)
    path = PATH if way == "header" else f"{PATH}?after={'9-9' if way == 'both' else place}"
    async with (
        running_frontend(database_url) as other,
        open_stream(other.url, path=path, last_id=None if way == "address" else place) as stream,
    ):
        assert (await stream.next()).id == place
        assert [(await next_of(stream, "model.changed"))["key"] for _ in range(3)] == ["0", "1", "2"]


@pytest.mark.behaviour("PAGE-31")
async def test_unknown_position_is_a_reset_and_an_invalid_one_an_error(quiet: RunningFrontend) -> None:
    async with open_stream(quiet.url, path=f"{PATH}?after=99999999999-1") as stream:
        await next_of(stream, "reset")
    status, answer = await quiet.call("GET", f"{PATH}?after=yesterday")
    assert status == 400
    assert_envelope(answer)


async def test_stream_sends_only_changed_nodes_and_ignores_mere_heartbeats(
    quiet: RunningFrontend, node: PretendNode
) -> None:
    other = await join_node(quiet, "gpu-b")
    board = quiet.core.live_views
    refresh_now(board)
    await other.heartbeat(available_ram=5 * GIB)
    async with open_stream(quiet.url, path=PATH) as stream:
        assert {one["id"] for one in (await next_of(stream, "nodes"))["nodes"]} == {node.id, other.id}
        version = board.nodes.version
        await node.heartbeat()
        await board.tick_nodes()
        assert board.nodes.version == version
        await other.heartbeat(available_ram=4 * GIB)
        await board.tick_nodes()
        (changed,) = (await next_of(stream, "nodes"))["nodes"]
        assert (changed["id"], changed["available_ram"]) == (other.id, 4 * GIB)
        await node.call_as_admin("POST", "/drain")
        await board.tick_nodes()
        (changed,) = (await next_of(stream, "nodes"))["nodes"]
        assert (changed["id"], changed["status"], changed["schedulable"]) == (node.id, "draining", False)


@pytest.mark.behaviour("TRUST-5")
async def test_stream_shows_a_node_as_unhealthy_when_it_has_been_joining_for_too_long(
    quiet: RunningFrontend, node: PretendNode
) -> None:
    """Then only the time of the heartbeats changes in its row, and that change alone sends no event."""
    await node.heartbeat(bus_ok=False)
    board = quiet.core.live_views
    refresh_now(board)
    async with open_stream(quiet.url, path=PATH) as stream:
        assert [one["status"] for one in (await next_of(stream, "nodes"))["nodes"]] == ["joining"]
        version = board.nodes.version
        await sql(quiet.database, "UPDATE nodes SET last_heartbeat_at = approved_at + interval '61 seconds'")
        await board.tick_nodes()
        assert board.nodes.version > version
        assert [one["status"] for one in (await next_of(stream, "nodes"))["nodes"]] == ["unhealthy"]


async def test_slow_watcher_gets_the_newest_number_of_every_node(quiet: RunningFrontend, node: PretendNode) -> None:
    other = await join_node(quiet, "gpu-b")
    nodes = quiet.core.live_views.nodes
    nodes._least_s = 0.0
    slow = nodes.watch()
    await anext(slow)
    for free in range(1, 4):
        await node.heartbeat(available_ram=free * GIB)
        await nodes.refresh()
    await other.heartbeat(available_ram=9 * GIB)
    await nodes.refresh()
    numbers = json.loads((await anext(slow)).split(b"data: ")[1])["nodes"]
    assert {one["id"]: one["available_ram"] for one in numbers} == {node.id: 3 * GIB, other.id: 9 * GIB}
    await slow.aclose()


class SlowWatcher:
    """A watcher that takes nothing for a while."""

    def __init__(self, frontend: RunningFrontend) -> None:
        async def may() -> None:
            return

        watch = event_stream.WatchOptions(after=None, check_permission=may, has_numbers=True)
        frames = FrameCache(frontend.core.api_deps.clock)
        self.frames = event_stream.stream_frames(frontend.core.api_deps, frames, watch)
        self.seen = b""

    async def read_until(self, text: bytes) -> None:
        async with asyncio.timeout(30):
            while text not in self.seen:
                self.seen += await anext(self.frames)


async def test_slow_reader_delays_no_other_and_misses_no_change(quiet: RunningFrontend, node: PretendNode) -> None:
    board, count = quiet.core.live_views, QUEUE_LIMIT * 3
    refresh_now(board)
    slow = SlowWatcher(quiet)
    await slow.read_until(b"event: nodes")
    async with open_stream(quiet.url, path=PATH) as quick:
        await append(quiet, count)
        assert [(await next_of(quick, "model.changed"))["key"] for _ in range(count)] == list(map(str, range(count)))
        for rev in range(1, 11):
            quiet.core.deltas.publish(OperationDelta(operation_id="o", rev=rev, state="running"))
            await quiet.core.deltas.tick()
            assert (await next_of(quick, "operation.progress"))["data"]["rev"] == rev
            await node.heartbeat(available_ram=rev * GIB)
            await board.tick_nodes()
            assert (await next_of(quick, "nodes"))["nodes"][0]["available_ram"] == rev * GIB
    await append(quiet, 1, "model.ended")
    await slow.read_until(b"event: model.ended")
    await slow.read_until(f'"available_ram":{10 * GIB}'.encode())
    await slow.read_until(b'"rev":10')
    assert slow.seen.count(b"event: model.changed") == count
    assert slow.seen.count(b"event: operation.progress") < 10
    await slow.frames.aclose()


async def test_stream_sends_changes_while_numbers_cannot_be_read(
    quiet: RunningFrontend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "RETRY_MS", 20)
    with monkeypatch.context() as outage:

        async def away(_: Any) -> Any:
            raise StoreUnavailable

        outage.setattr(node_store, "list_readings", away)
        async with open_stream(quiet.url, path=PATH) as stream:
            await next_of(stream, "live")
            await append(quiet, 1)
            await next_of(stream, "model.changed")
            outage.undo()
            assert (await next_of(stream, "nodes")) == {"nodes": []}


async def test_stream_refuses_a_watcher_above_the_limit_and_accepts_one_when_a_slot_is_free(
    quiet: RunningFrontend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boards, "WATCHERS_MAX", 2)
    async with open_stream(quiet.url, path=PATH) as one, open_stream(quiet.url, path="/api/operations/events") as other:
        for stream in (one, other):
            assert (await stream.next()).event == "hello"
        for path in (PATH, "/api/operations/events"):
            status, answer = await quiet.call("GET", path)
            assert status == 503
            error = assert_envelope(answer, code="too_many_watchers")
            assert error["message"] == "This frontend already has 2 watchers, which is its limit."

    async def is_free() -> bool:
        return quiet.core.live_views.watchers == 0

    await eventually(is_free)
    async with open_stream(quiet.url, path=PATH) as stream:
        assert (await stream.next()).event == "hello"


@pytest.fixture
async def watched_by_key(quiet: RunningFrontend) -> AsyncIterator[tuple[Stream, str]]:
    made = await make_key(quiet, scope="operate")
    await settled(quiet)
    async with open_stream(quiet.url, path=PATH, key=made["key"]) as stream:
        await next_of(stream, "live")
        yield stream, made["id"]


async def test_stream_of_a_key_that_is_revoked_ends_and_others_go_on(
    quiet: RunningFrontend, watched_by_key: tuple[Stream, str]
) -> None:
    stream, key_id = watched_by_key
    async with open_stream(quiet.url, path=PATH) as other:
        assert (await quiet.call("DELETE", f"/api/keys/{key_id}"))[0] in (200, 204)
        await stream.read_to_end()
        await next_of(other, "key.revoked")
        await append(quiet, 1)
        await next_of(other, "model.changed")


@pytest.mark.behaviour("API-7")
async def test_stream_of_changes_ends_when_its_key_is_revoked(quiet: RunningFrontend) -> None:
    made = await make_key(quiet, scope="operate")
    async with open_stream(quiet.url, key=made["key"]) as stream:
        assert (await stream.next()).event == "hello"
        assert (await quiet.call("DELETE", f"/api/keys/{made['id']}"))[0] in (200, 204)
        await stream.read_to_end()


async def test_stream_of_a_key_that_may_less_ends(quiet: RunningFrontend, watched_by_key: tuple[Stream, str]) -> None:
    stream, key_id = watched_by_key
    status, answer = await quiet.call("PATCH", f"/api/keys/{key_id}", {"scope": "infer"})
    assert status == 200, answer
    await stream.read_to_end()
