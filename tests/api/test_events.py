"""The event stream: nothing lost, nothing twice, on whichever frontend."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from sqlalchemy import text
from starlette.requests import Request
from starlette.responses import StreamingResponse

from corral.api import stream as api_events
from corral.domain.access import Principal
from corral.domain.cluster import ORIGIN, OutboxPosition
from corral.events.feed import RING_SIZE
from corral.store import outbox
from tests.api.operations import assert_envelope
from tests.api.streams import open_stream
from tests.support.frontends import ADMIN_KEY, RunningFrontend, running_frontend
from tests.support.nodes import create_join_token, join_node
from tests.support.polling import eventually


async def _written(frontend: RunningFrontend, after: str) -> list[str]:
    """The ids of what the outbox holds after a place, in its order."""
    here, ids = OutboxPosition.parse(after), []
    async with frontend.database.transaction() as tx:
        while batch := await outbox.read(tx, here):
            ids += [str(event.position) for event in batch]
            here = batch[-1].position
    return ids


async def _taken_in(frontend: RunningFrontend) -> None:
    """Wait until the frontend's own feed has everything that is written by now."""
    async with frontend.database.transaction() as tx:
        newest = (await tx.execute(text('SELECT max("transaction"::text::bigint) FROM outbox'))).scalar_one()

    async def has_it() -> bool:
        position = frontend.core.feed.position
        return position is not None and position.transaction >= newest

    await eventually(has_it)


async def _token(frontend: RunningFrontend, name: str) -> None:
    await create_join_token(frontend, name=name)


@pytest.mark.behaviour("EVT-1")
async def test_stream_greets_with_its_position_and_then_tells_what_happens(frontend: RunningFrontend) -> None:
    async with open_stream(frontend.url) as stream:
        hello = await stream.next()
        assert hello.event == "hello"
        assert OutboxPosition.parse(hello.id or "") > ORIGIN
        assert stream.response.headers["Cache-Control"] == "no-store"
        await join_node(frontend, "gpu-1")
        kinds = [frame.event for frame in await stream.until("node.approved", name="gpu-1")]
        assert [kind for kind in kinds if kind != "leader.changed"] == [
            "token.created",
            "node.registered",
            "node.approved",
        ]


@pytest.mark.behaviour("EVT-1")
async def test_events_written_while_hello_is_sent_are_delivered(frontend: RunningFrontend) -> None:
    principal = Principal(key_id="k", name="admin")
    headers = [(b"authorization", f"Bearer {ADMIN_KEY}".encode())]
    request = Request({"type": "http", "method": "GET", "headers": headers})
    answer = await api_events.stream_events(request, frontend.core.api_deps, principal)
    assert isinstance(answer, StreamingResponse)
    stream = aiter(answer.body_iterator)
    assert "event: hello" in str(await anext(stream))
    await _token(frontend, "in between")
    await _taken_in(frontend)
    received = ""
    async with asyncio.timeout(20):
        while "in between" not in received:
            received += str(await anext(stream))


@pytest.mark.behaviour("EVT-2")
async def test_watcher_that_changes_frontends_while_both_write_misses_nothing_and_sees_nothing_twice(
    frontend: RunningFrontend, database_url: str
) -> None:
    async with running_frontend(database_url) as other, open_stream(frontend.url) as first:
        start = (await first.next()).id or ""
        async with asyncio.TaskGroup() as writers:
            for writer in range(6):
                writers.create_task(_write((frontend, other)[writer % 2], f"w{writer}", 12))
            seen = await _hop((frontend, other), start, count=6 * 12)
        assert seen == (await _written(frontend, start))[: len(seen)]
        assert len(seen) == len(set(seen))


async def _write(frontend: RunningFrontend, name: str, count: int) -> None:
    for number in range(count):
        await _token(frontend, f"{name}-{number}")


async def _hop(frontends: tuple[RunningFrontend, ...], start: str, count: int) -> list[str]:
    """Read a few events, go to the other frontend with the last id, and so on until all tokens have arrived."""
    seen: list[str] = []
    tokens, turn = 0, 0
    while tokens < count:
        turn += 1
        async with open_stream(frontends[turn % 2].url, last_id=seen[-1] if seen else start) as stream:
            assert (await stream.next()).event == "hello"
            for _ in range(min(7, count - tokens)):
                frame = await stream.next()
                assert frame.event != "reset"
                tokens += frame.event == "token.created"
                seen.append(frame.id or "")
                if tokens == count:
                    break
    return seen


@pytest.mark.behaviour("EVT-3")
@pytest.mark.parametrize(
    "given", ["x", "1", "1-", "-1", "1-2-3", "1.5-2", "-1-2", "9" * 40 + "-1", "1-" + "9" * 19, "x" * 61, "²-1"]
)
async def test_id_that_is_none_is_refused(frontend: RunningFrontend, given: str) -> None:
    sent = {"Authorization": f"Bearer {ADMIN_KEY}", "Last-Event-ID": given}
    async with frontend.http.get(f"{frontend.url}/api/events", headers=sent) as answer:
        assert answer.status == 400
        assert_envelope(await answer.json())


@pytest.mark.behaviour("EVT-3")
async def test_id_that_is_too_old_gets_a_reset_and_then_what_is_new(frontend: RunningFrontend) -> None:
    await _token(frontend, "old")
    async with frontend.database.transaction() as tx:
        await tx.execute(text("UPDATE outbox SET at = at - interval '2 days'"))
    async with frontend.database.transaction() as tx:
        assert await outbox.prune(tx, 86400.0) > 0
    await _expect_reset(frontend, "1-1")


@pytest.mark.behaviour("EVT-3")
@pytest.mark.parametrize("given", [f"{2**62}-1", "9999999999999999999-999999999999999999"])
async def test_id_of_another_database_gets_a_reset_and_then_what_is_new(frontend: RunningFrontend, given: str) -> None:
    await _expect_reset(frontend, given)


async def _expect_reset(frontend: RunningFrontend, last_id: str) -> None:
    async with open_stream(frontend.url, last_id=last_id) as stream:
        assert (await stream.next()).event == "hello"
        reset = await stream.next()
        assert reset.event == "reset"
        assert OutboxPosition.parse(reset.id or "") < OutboxPosition(2**61, 0)
        await _token(frontend, "new")
        await stream.until("token.created", name="new")


async def test_event_stream_carries_only_the_chosen_topics(frontend: RunningFrontend) -> None:
    async with open_stream(frontend.url, topics="key, node") as stream:
        await stream.next()
        await join_node(frontend, "n")
        await frontend.call("POST", "/api/keys", {"name": "last"})
        seen = await stream.until("key.created", name="last")
        assert [frame.event for frame in seen] == ["node.registered", "node.approved", "key.created"]


async def test_event_stream_resume_position_moves_past_events_that_are_filtered_out(frontend: RunningFrontend) -> None:
    async with open_stream(frontend.url, topics="key") as stream:
        hello = await stream.next()
        await _token(frontend, "of no interest")
        *_, newest = await _written(frontend, hello.id or "")
        await stream.moves_to(newest)


async def test_frontend_that_stops_ends_its_streams_cleanly_and_another_goes_on(
    frontend: RunningFrontend, database_url: str
) -> None:
    async with running_frontend(database_url) as stopping:
        watching = open_stream(stopping.url)
        stream = await watching.__aenter__()
        last = (await stream.next()).id
    # Read to its end without an error: the last chunk came, the connection was not cut.
    while (frame := await stream.next_or_end()) is not None:
        last = frame.id
    await watching.__aexit__(None, None, None)
    await _token(frontend, "later")
    async with open_stream(frontend.url, last_id=last) as resumed:
        await resumed.until("token.created", name="later")


async def test_fifty_watchers_see_the_same_in_the_same_order(frontend: RunningFrontend) -> None:
    ready = asyncio.Barrier(51)

    async def watch() -> list[str | None]:
        async with open_stream(frontend.url, topics="token") as stream:
            await stream.next()
            await ready.wait()
            return [frame.id for frame in await stream.until("token.created", name="w-9")]

    async with asyncio.TaskGroup() as together:
        watchers = [together.create_task(watch()) for _ in range(50)]
        await ready.wait()
        await _write(frontend, "w", 10)
    seen = {tuple(watcher.result()) for watcher in watchers}
    assert len(seen) == 1
    assert len(seen.pop()) == 10


async def test_watcher_too_slow_for_the_memory_of_the_frontend_loses_nothing(frontend: RunningFrontend) -> None:
    # More than the buffers of both ends hold: the frontend has to wait for the reader, which falls behind its ring.
    total, padding = RING_SIZE * 2, "x" * 8000
    async with open_stream(frontend.url, topics="bulk") as stream:
        await stream.next()
        for begin in range(0, total, 512):
            rows: list[tuple[str, dict[str, Any]]] = [("k", {"n": n, "p": padding}) for n in range(begin, begin + 512)]
            async with frontend.database.transaction() as tx:
                await outbox.append_many(tx, "bulk.written", rows)
            # The frontend has taken it in; the watcher has read nothing of it yet.
            await _taken_in(frontend)
        seen = await stream.until("bulk.written", n=total - 1)
        assert len(seen) == total
        assert [frame.id for frame in seen] == sorted(
            (frame.id for frame in seen), key=lambda i: OutboxPosition.parse(i or "")
        )
