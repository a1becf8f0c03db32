"""Following events: nothing missed without a `Reset`, over every way in which a stream can break."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from itertools import pairwise

import pytest
from aiohttp.test_utils import TestServer
from hypothesis import given
from hypothesis import strategies as st

from corral.adapters.system import SystemIdGenerator
from corral.client import CorralClient, StreamConnectedNotice, StreamInterruptedNotice, StreamItem, StreamResetNotice
from corral.client.events import LINE_LIMIT_CHARACTERS, FrameTooLarge, SseParser
from corral.domain.errors import CorralError, NotAuthenticated, Unavailable
from corral.wire.live import EventOut
from tests.unit.client.standin import KEY, StandIn, an_event, hang_up, json_answer, refusal
from tests.unit.client.test_client import NoWaiting, a_client


@pytest.fixture
async def frontend() -> AsyncIterator[StandIn]:
    standin = StandIn()
    async with TestServer(standin.app()) as server:
        standin.url = str(server.make_url("")).rstrip("/")
        yield standin


@pytest.fixture
async def client(frontend: StandIn) -> AsyncIterator[CorralClient]:
    async with a_client(frontend.url) as client:
        yield client


async def until_the_script_ends(client: CorralClient, last_event_id: str | None = None, topics=None) -> list[str]:
    """All items as short words; the stand-in's script ends with a refusal."""
    words: list[str] = []
    async with aclosing(client.watch_events(last_event_id, topics)) as items:
        with pytest.raises(CorralError, match="script is over"):
            await collect(items, words)
    return words


async def collect(items: AsyncIterator[StreamItem], words: list[str]) -> None:
    while True:
        words.append(word(await anext(items)))


def word(item: StreamItem) -> str:
    match item:
        case EventOut():
            return item.id
        case StreamConnectedNotice():
            return f"connected {item.position}"
        case StreamResetNotice():
            return f"reset {item.position}"
        case StreamInterruptedNotice():
            return "interrupted"


async def test_broken_stream_resumes_at_the_last_event(frontend, client):
    frontend.streams = [b": hello\n\n" + an_event(1) + an_event(2), an_event(3)]
    words = await until_the_script_ends(client, topics=["node", "cluster"])
    assert words == ["1-1", "1-2", "interrupted", "1-3", "interrupted"]
    assert [seen.headers.get("Last-Event-ID") for seen in frontend.seen] == [None, "1-2", "1-3"]
    assert frontend.seen[0].query == {"topics": "cluster,node"}


async def test_stream_cut_inside_an_event_asks_for_that_event_again(frontend, client):
    frontend.streams = [an_event(1) + an_event(2)[:-2], an_event(2)]
    assert await until_the_script_ends(client) == ["1-1", "interrupted", "1-2", "interrupted"]
    assert frontend.seen[1].headers["Last-Event-ID"] == "1-1"


async def test_reset_of_the_frontend_is_passed_on_with_its_position(frontend, client):
    frontend.streams = [b"id: 9-9\nevent: reset\ndata: {}\n\n", b"event: reset\n\n"]
    words = await until_the_script_ends(client, "1-1")
    assert words == ["reset 9-9", "interrupted", "reset 9-9", "interrupted"]
    assert [seen.headers["Last-Event-ID"] for seen in frontend.seen] == ["1-1", "9-9", "9-9"]


async def test_hello_sets_the_position_of_the_stream(frontend, client):
    frontend.streams = [b"retry: 1\nid: 7-7\nevent: hello\ndata: {}\n\n", an_event(8)]
    assert await until_the_script_ends(client) == ["connected 7-7", "interrupted", "1-8", "interrupted"]
    assert frontend.seen[1].headers["Last-Event-ID"] == "7-7"


async def test_gap_without_a_position_is_a_reset(frontend, client):
    frontend.streams = [b": hello\n\n", an_event(5)]
    assert await until_the_script_ends(client) == ["interrupted", "reset None", "1-5", "interrupted"]


async def test_unreadable_event_becomes_a_reset(frontend, client):
    frontend.streams = [b"id: 1-4\ndata: what\n\n"]
    assert await until_the_script_ends(client) == ["reset 1-4", "interrupted"]


async def test_event_watch_retries_while_a_frontend_is_starting_and_ends_with_a_revoked_key(frontend, client):
    async with aclosing(client.watch_events()) as items:
        frontend.streams = [an_event(1)]
        assert isinstance(await anext(items), EventOut)
        frontend.on(
            "GET /api/events",
            refusal(503, "starting", "Starting."),
            refusal(500, "internal", "Broken."),
            refusal(401, "not_authenticated", "This key was revoked."),
        )
        assert [type(await anext(items)) for _ in range(3)] == [StreamInterruptedNotice] * 3
        with pytest.raises(NotAuthenticated, match="revoked"):
            await anext(items)


async def test_pauses_grow_up_to_a_limit_while_nothing_comes(frontend):
    clock = NoWaiting()
    client = CorralClient(frontend.url, KEY, clock=clock, ids=SystemIdGenerator())
    async with client, aclosing(client.watch_events()) as items:
        frontend.streams = [an_event(1)]
        await anext(items)
        frontend.on("GET /api/events", refusal(503, "starting", "Starting."))
        for _ in range(9):
            assert isinstance(await anext(items), StreamInterruptedNotice)
    assert clock.pauses[0] < 1
    assert clock.pauses[-1] == 10
    assert clock.pauses == sorted(clock.pauses)


async def test_event_watch_raises_at_once_when_the_first_connection_fails(frontend, client):
    frontend.on("GET /api/events", hang_up)
    with pytest.raises(Unavailable):
        await anext(client.watch_events())
    frontend.on("GET /api/events", json_answer({}))
    with pytest.raises(CorralError, match="no event stream"):
        await anext(client.watch_events())


STREAM = (
    b"\xef\xbb\xbf: hi\r\nid: 1\r\ndata: a\r\ndata: \xc3\xa4\r\n\r\n"
    b"retry: 1500\nevent: reset\ndata\n\rid: 3\rdata:z\r\r "
)


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_frames_do_not_depend_on_where_the_bytes_are_cut(cuts):
    def parse(edges: list[int]) -> list[tuple[str, str, str | None]]:
        parser = SseParser()
        pieces = (STREAM[start:end] for start, end in pairwise([0, *sorted(edges), len(STREAM)]))
        frames = [frame for piece in pieces for frame in parser.feed(piece)]
        assert parser.retry_s == 1.5
        return [(frame.event, frame.data, frame.id) for frame in frames]

    assert parse(cuts) == parse([]) == [("message", "a\nä", "1"), ("reset", "", "1"), ("message", "z", "3")]


def test_endless_line_is_refused():
    with pytest.raises(FrameTooLarge):
        SseParser().feed(b"data: " + b"x" * LINE_LIMIT_CHARACTERS)
