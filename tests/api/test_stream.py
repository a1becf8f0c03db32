"""`GET /api/stream`: all that a page needs, on one connection, on a real frontend."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from corral.api.events import QUIET_S
from corral.api.stream import board as boards
from corral.api.stream import watching
from corral.api.stream.board import Board
from corral.api.stream.frames import Frames
from corral.api.stream.watching import QUEUE_LIMIT
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
from tests.support.nodes import GIB, PretendNode, joined
from tests.support.waiting import eventually

PATH = "/api/stream"


@pytest.fixture
async def quiet(frontend: RunningFrontend) -> RunningFrontend:
    """One whose numbers move when the test says so."""
    await keep_only_the_feed(frontend)
    return frontend


@pytest.fixture
async def node(quiet: RunningFrontend) -> PretendNode:
    return await joined(quiet, "gpu-a")


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


def refresh_now(board: Board) -> None:
    board.live._least_s = board.nodes._least_s = 0.0


@pytest.mark.behaviour("PAGE-30")
@pytest.mark.behaviour("PAGE-34")
async def test_one_stream_has_changes_progress_the_live_view_and_the_numbers_of_nodes(
    quiet: RunningFrontend, node: PretendNode
) -> None:
    await put_model(quiet.database)
    await put_replica(quiet.database, node.id, "127.0.0.1:1")
    await settled(quiet)
    async with open_stream(quiet.url, path=PATH) as stream:
        assert (await stream.next()).event == "hello"
        first = [await stream.next(), await stream.next()]
        told = {frame.event: json.loads(frame.data) for frame in first}
        assert {frame.id for frame in first} == {str(quiet.core.feed.position)}, "numbers have no place of their own"
        assert [model["name"] for model in told["live"]["models"]] == ["chat"]
        assert told["live"]["answered_by"] == quiet.core.parts.frontend_id
        (shown,) = told["nodes"]["nodes"]
        whole = await node.shown()
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


@pytest.mark.behaviour("PAGE-30")
async def test_a_quiet_stream_says_now_and_then_that_it_is_there(
    quiet: RunningFrontend, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert QUIET_S == 4.0
    monkeypatch.setattr(watching, "QUIET_S", 0.01)
    async with open_stream(quiet.url, path=PATH) as stream:
        seen = b""
        async with asyncio.timeout(30):
            while b"\nevent: still\ndata: {}\n\n" not in seen:
                seen += await stream.response.content.readany()


@pytest.mark.behaviour("PAGE-31")
@pytest.mark.parametrize("way", ["header", "address", "both"])
async def test_a_stream_goes_on_where_it_was_on_another_frontend(
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
async def test_a_place_that_nobody_knows_is_a_reset_and_one_that_is_none_is_an_error(quiet: RunningFrontend) -> None:
    async with open_stream(quiet.url, path=f"{PATH}?after=99999999999-1") as stream:
        await next_of(stream, "reset")
    status, answer = await quiet.call("GET", f"{PATH}?after=yesterday")
    assert status == 400
    assert_envelope(answer)


@pytest.mark.behaviour("PAGE-34")
async def test_of_nodes_only_what_has_changed_is_told_and_a_heartbeat_alone_is_nothing(
    quiet: RunningFrontend, node: PretendNode
) -> None:
    other = await joined(quiet, "gpu-b")
    board = quiet.core.board
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
        await node.admin("POST", "/drain")
        await board.tick_nodes()
        (changed,) = (await next_of(stream, "nodes"))["nodes"]
        assert (changed["id"], changed["status"], changed["schedulable"]) == (node.id, "draining", False)


@pytest.mark.behaviour("TRUST-5")
async def test_node_that_has_been_joining_for_too_long_is_told_as_unhealthy(
    quiet: RunningFrontend, node: PretendNode
) -> None:
    """Nothing of its row changes then but the time of its heartbeats, which alone is told to nobody."""
    await node.heartbeat(bus_ok=False)
    board = quiet.core.board
    refresh_now(board)
    async with open_stream(quiet.url, path=PATH) as stream:
        assert [one["status"] for one in (await next_of(stream, "nodes"))["nodes"]] == ["joining"]
        version = board.nodes.version
        await sql(quiet.database, "UPDATE nodes SET last_heartbeat_at = approved_at + interval '61 seconds'")
        await board.tick_nodes()
        assert board.nodes.version > version
        assert [one["status"] for one in (await next_of(stream, "nodes"))["nodes"]] == ["unhealthy"]


@pytest.mark.behaviour("PAGE-32")
async def test_who_is_behind_gets_the_newest_number_of_every_node_and_skips_what_was_between(
    quiet: RunningFrontend, node: PretendNode
) -> None:
    other = await joined(quiet, "gpu-b")
    nodes = quiet.core.board.nodes
    nodes._least_s = 0.0
    slow = nodes.watch()
    await anext(slow)
    for free in range(1, 4):
        await node.heartbeat(available_ram=free * GIB)
        await nodes.refresh()
    await other.heartbeat(available_ram=9 * GIB)
    await nodes.refresh()
    told = json.loads((await anext(slow)).split(b"data: ")[1])["nodes"]
    assert {one["id"]: one["available_ram"] for one in told} == {node.id: 3 * GIB, other.id: 9 * GIB}
    await slow.aclose()


class Slow:
    """A watcher that takes nothing for a while."""

    def __init__(self, frontend: RunningFrontend) -> None:
        async def may() -> None:
            return

        watch = watching.Watch(after=None, may=may, has_numbers=True)
        frames = Frames(frontend.core.parts.clock)
        self.frames = watching.stream(frontend.core.parts, frames, watch)
        self.seen = b""

    async def read_until(self, text: bytes) -> None:
        async with asyncio.timeout(30):
            while text not in self.seen:
                self.seen += await anext(self.frames)


@pytest.mark.behaviour("PAGE-32")
async def test_a_slow_reader_makes_nobody_wait_misses_no_change_and_gets_the_newest_of_the_rest(
    quiet: RunningFrontend, node: PretendNode
) -> None:
    board, count = quiet.core.board, QUEUE_LIMIT * 3
    refresh_now(board)
    slow = Slow(quiet)
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
    await slow.frames.aclose()  # type: ignore[attr-defined] # it is a generator


@pytest.mark.behaviour("PAGE-30")
async def test_numbers_that_cannot_be_read_come_when_they_can_and_changes_go_on(
    quiet: RunningFrontend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "RETRY_MS", 20)
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


@pytest.mark.behaviour("PAGE-35")
async def test_one_watcher_too_many_is_told_to_go_elsewhere_and_a_place_that_is_free_is_given(
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
            assert error["message"] == "This frontend has 2 watchers, and takes no more."

    async def is_free() -> bool:
        return quiet.core.board.watchers == 0

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


async def _ends(stream: Stream) -> None:
    while await stream.next_or_end() is not None:
        pass


@pytest.mark.behaviour("PAGE-36")
async def test_the_stream_of_a_key_that_is_revoked_ends_and_others_go_on(
    quiet: RunningFrontend, watched_by_key: tuple[Stream, str]
) -> None:
    stream, key_id = watched_by_key
    async with open_stream(quiet.url, path=PATH) as other:
        assert (await quiet.call("DELETE", f"/api/keys/{key_id}"))[0] in (200, 204)
        await _ends(stream)
        await next_of(other, "key.revoked")
        await append(quiet, 1)
        await next_of(other, "model.changed")


@pytest.mark.behaviour("PAGE-36")
async def test_the_stream_of_a_key_that_may_less_ends(
    quiet: RunningFrontend, watched_by_key: tuple[Stream, str]
) -> None:
    stream, key_id = watched_by_key
    status, answer = await quiet.call("PATCH", f"/api/keys/{key_id}", {"scope": "infer"})
    assert status == 200, answer
    await _ends(stream)
