"""The stream of an agent: what it sends, and that it resumes at another frontend without losing or repeating."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest

from corral.agents import stream as stream_module
from corral.agents.stream import StreamCursor, parse_cursor
from corral.client.events import SseFrame
from tests.agents.hand_worker import HandWorker, chat, create, join_worker, make_key
from tests.api.streams import Stream, open_stream
from tests.support.frontends import RunningFrontend, running_frontend

PATH = "/api/agents/helper/sse"


@pytest.fixture
async def worker(frontend: RunningFrontend) -> HandWorker:
    return await join_worker(frontend)


@pytest.fixture
async def other(database_url: str) -> AsyncIterator[RunningFrontend]:
    """A second frontend of the same cluster."""
    async with running_frontend(database_url) as running:
        yield running


async def read_until_end(stream: Stream) -> list[tuple[str, dict[str, Any], str | None]]:
    """Read events until a turn has ended."""
    found = []
    while True:
        frame = _read(await stream.next())
        found.append(frame)
        if frame[0] == "json_message_status" and frame[1]["status"] in ("completed", "cancelled", "error"):
            return found


def _read(frame: SseFrame) -> tuple[str, dict[str, Any], str | None]:
    return frame.event, json.loads(frame.data), frame.id


def shorten(frames: list[tuple[str, dict[str, Any], str | None]]) -> list[str]:
    return [
        f"{event}:{data.get('type') or data.get('status') or data.get('sender') or ''}" for event, data, _ in frames
    ]


@pytest.mark.behaviour("AGENT-6")
async def test_stream_has_messages_pieces_and_states_of_a_turn_with_its_run_in_each(
    frontend: RunningFrontend, worker: HandWorker
) -> None:
    await create(frontend)
    async with open_stream(frontend.url, path=PATH) as stream:
        sent = await chat(frontend, "hello")
        run_id = sent["run_id"]
        await worker.take(run_id)
        call = {"call_id": "c1", "name": "files__read", "arguments": {"path": "x"}}
        await worker.deliver(
            run_id,
            ("step", {"step": 1}),
            ("reasoning", {"text": "hm"}),
            ("tool_call", call),
            ("tool_result", {"call_id": "c1", "name": "files__read", "content": "text"}),
            ("content", {"text": "It is "}),
            ("content", {"text": "text."}),
            ("usage", {"prompt_tokens": 3}),
        )
        used = {"prompt_tokens": 3, "completion_tokens": 2, "steps": 1, "tool_calls": 1}
        await worker.end(run_id, "It is text.", usage=used)
        frames = await read_until_end(stream)
    assert shorten(frames) == [
        "json_message:user",
        "json_message_status:processing",
        "stream_event:reasoning",
        "stream_event:tool_call",
        "stream_event:tool_result",
        "stream_event:content",
        "stream_event:content",
        "stream_event:done",
        "json_message:agent",
        "json_message_status:completed",
    ]
    places = [data.get("metadata", data) for _, data, _ in frames]
    assert {place["run_id"] for place in places} == {run_id}
    assert {place["thread_id"] for place in places} == {sent["thread_id"]}
    question, answered = frames[0][1], frames[-2][1]
    assert (question["id"], question["content"]) == (sent["message_id"], "hello")
    assert (answered["id"], answered["content"]) == (f"{sent['message_id']}-agent", "It is text.")
    assert (frames[3][1]["tool_name"], frames[3][1]["tool_args"]) == ("files__read", {"path": "x"})
    assert frames[4][1]["tool_result"] == "text"
    assert frames[7][1]["usage"] == used


async def test_stream_says_why_a_turn_failed_and_that_one_was_cancelled(
    frontend: RunningFrontend, worker: HandWorker
) -> None:
    await create(frontend)
    async with open_stream(frontend.url, path=PATH) as stream:
        first = await chat(frontend, "one")
        await worker.answer(first["run_id"], state="failed", error_code="model_failed", error_text="No model.")
        frames = await read_until_end(stream)
        assert shorten(frames)[2:] == ["stream_event:done", "json_error:", "json_message_status:error"]
        assert (frames[3][1]["error"], frames[3][1]["code"]) == ("No model.", "model_failed")
        second = await chat(frontend, "two")
        assert (await frontend.call("POST", f"/api/runs/{second['run_id']}/cancel"))[0] == 200
        assert shorten(await read_until_end(stream))[-1] == "json_message_status:cancelled"


async def test_end_in_a_stream_counts_the_trace_of_a_turn_whose_worker_reports_no_usage(
    frontend: RunningFrontend, worker: HandWorker
) -> None:
    await create(frontend)
    async with open_stream(frontend.url, path=PATH) as stream:
        run_id = (await chat(frontend, "one"))["run_id"]
        await worker.take(run_id)
        await worker.deliver(run_id, ("step", {"step": 1}), ("usage", {"prompt_tokens": 5, "completion_tokens": 4}))
        await worker.end(run_id, usage="none")
        frames = await read_until_end(stream)
    [done] = [data for event, data, _ in frames if event == "stream_event" and data["type"] == "done"]
    assert done["usage"] == {"prompt_tokens": 5, "completion_tokens": 4, "steps": 1, "tool_calls": 0}


async def test_stream_says_that_a_tool_call_waits_for_a_person(frontend: RunningFrontend, worker: HandWorker) -> None:
    await create(frontend, tool_rules={"files__*": "ask"})
    async with open_stream(frontend.url, path=PATH) as stream:
        run_id = (await chat(frontend, "one"))["run_id"]
        await worker.take(run_id)
        call = {"call_id": "c1", "name": "files__write", "arguments": {}}
        await worker.deliver(run_id, ("approval_requested", call))
        for expected in ("processing", "waiting_approval"):
            while (frame := await stream.next()).event != "json_message_status":
                continue
            assert json.loads(frame.data)["status"] == expected
        assert json.loads(frame.data)["call_id"] == "c1"


@pytest.mark.behaviour("AGENT-11")
async def test_stream_resumes_behind_every_event_at_another_frontend_without_loss_or_repetition(
    frontend: RunningFrontend, worker: HandWorker, other: RunningFrontend
) -> None:
    await create(frontend, cancel_previous_on_new_message=False)
    async with open_stream(frontend.url, path=PATH) as stream:
        one = await chat(frontend, "one")
        two = await chat(frontend, "two")
        for sent in (one, two):
            await worker.take(sent["run_id"])
        # Two turns at once, their entries in turn, delivered to either frontend.
        for number in range(3):
            await worker.deliver(one["run_id"], ("content", {"text": f"a{number}"}))
            await worker.deliver(two["run_id"], ("content", {"text": f"b{number}"}), at=other)
        await worker.end(one["run_id"], "A")
        await worker.end(two["run_id"], "B")
        whole = await read_until_end(stream) + await read_until_end(stream)
    assert len(whole) == 2 * (2 + 3 + 3)
    assert all(event_id for _, _, event_id in whole)
    for position, (_, _, event_id) in enumerate(whole[:-1]):
        async with open_stream(other.url, path=PATH, last_id=event_id) as resumed:
            rest = await read_until_end(resumed)
            if len(rest) < len(whole) - position - 1:
                rest += await read_until_end(resumed)
        # Turns that run at once have no order between them; each has its own.
        for run_id in (one["run_id"], two["run_id"]):
            expected = [_describe(frame) for frame in whole[position + 1 :] if _get_run(frame) == run_id]
            assert [_describe(frame) for frame in rest if _get_run(frame) == run_id] == expected, position
        assert len(rest) == len(whole) - position - 1


def _describe(frame: tuple[str, dict[str, Any], str | None]) -> str:
    return f"{frame[0]} {json.dumps(frame[1], sort_keys=True)}"


def _get_run(frame: tuple[str, dict[str, Any], str | None]) -> str:
    return str(frame[1].get("metadata", frame[1])["run_id"])


@pytest.mark.behaviour("AGENT-11")
async def test_stream_that_resumes_behind_more_turns_than_it_reads_at_once_loses_none(
    frontend: RunningFrontend, worker: HandWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_module, "FOLLOWED_MAX", 2)
    await create(frontend)
    async with open_stream(frontend.url, path=PATH) as stream:
        first = await chat(frontend, "first")
        await worker.answer(first["run_id"], "A")
        position = (await read_until_end(stream))[-1][2]
    later = []
    for number in range(7):
        later.append((await chat(frontend, f"later {number}"))["run_id"])
        await worker.answer(later[-1], "B")
    # Otherwise turns of the last seconds are read again in any case.
    monkeypatch.setattr(stream_module, "LAG", timedelta(0))
    async with open_stream(frontend.url, path=PATH, last_id=position) as resumed:
        assert [_get_run((await read_until_end(resumed))[-1]) for _ in later] == later


@pytest.mark.behaviour("AGENT-11")
async def test_stream_that_was_cut_before_its_first_event_resumes_where_it_began(
    frontend: RunningFrontend, worker: HandWorker, other: RunningFrontend
) -> None:
    await create(frontend)
    async with frontend.http.get(
        f"{frontend.url}{PATH}", headers={"Authorization": f"Bearer {(await make_key(frontend, 'ann'))['key']}"}
    ) as refused:
        assert refused.status == 404
    async with open_stream(frontend.url, path=PATH) as stream:
        first = (await stream.response.content.readuntil(b"\n\n")).decode()
    [start] = [line.removeprefix("id: ") for line in first.splitlines() if line.startswith("id: ")]
    run_id = (await chat(frontend, "hello"))["run_id"]
    await worker.answer(run_id, "hi")
    async with open_stream(other.url, path=PATH, last_id=start) as resumed:
        assert shorten(await read_until_end(resumed))[0] == "json_message:user"


@pytest.mark.behaviour("AGENT-2")
async def test_stream_of_a_shared_agent_has_only_the_turns_of_its_reader(
    frontend: RunningFrontend, worker: HandWorker
) -> None:
    await create(frontend, shared=True)
    key = (await make_key(frontend, "ann"))["key"]
    async with open_stream(frontend.url, path=PATH, key=key) as stream:
        stranger = (await chat(frontend, "not for ann"))["run_id"]
        await worker.answer(stranger, "secret")
        mine = (await chat(frontend, "for ann", key=key))["run_id"]
        await worker.answer(mine, "hello ann")
        frames = await read_until_end(stream)
    assert {_get_run(frame) for frame in frames} == {mine}


async def test_new_stream_begins_with_the_turns_that_are_open(frontend: RunningFrontend, worker: HandWorker) -> None:
    await create(frontend)
    done = (await chat(frontend, "done"))["run_id"]
    await worker.answer(done)
    opened = (await chat(frontend, "open"))["run_id"]
    await worker.take(opened)
    await worker.deliver(opened, ("content", {"text": "so far"}))
    async with open_stream(frontend.url, path=PATH) as stream:
        await worker.end(opened, "so far")
        frames = await read_until_end(stream)
    assert {_get_run(frame) for frame in frames} == {opened}
    assert "stream_event:content" in shorten(frames)


async def test_stream_is_woken_by_a_new_turn_and_does_not_wait_for_its_next_look(
    frontend: RunningFrontend, worker: HandWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_module, "LOOK_INTERVAL_S", 600.0)
    await create(frontend)
    async with open_stream(frontend.url, path=PATH) as stream:
        # Behind the first turn the reader waits; the others are new to it.
        for number in range(3):
            run_id = (await chat(frontend, f"message {number}"))["run_id"]
            assert _get_run(_read(await stream.next())) == run_id
            await worker.answer(run_id, "hi")
            frames = await read_until_end(stream)
            assert {_get_run(frame) for frame in frames} == {run_id}


async def test_stream_ends_with_its_agent(frontend: RunningFrontend, worker: HandWorker) -> None:
    del worker
    await create(frontend)
    async with open_stream(frontend.url, path=PATH) as stream:
        assert (await frontend.call("DELETE", "/api/agents/helper"))[0] == 204
        assert await stream.next_or_end() is None


@pytest.mark.parametrize("text", ["", "x", "1~x", "1~00000000000000000000000000000000.x", "9" * 30, "1~" + "0" * 9000])
def test_text_that_is_no_cursor_is_read_as_none(text: str) -> None:
    assert parse_cursor(text) is None


def test_cursor_is_read_as_it_was_written() -> None:
    seen = {"01a1edd3-034d-7995-9ff2-8de9fa7391e9": 7, "01a1edd3-034d-7995-9ff2-8de9fa7391ea": -1}
    cursor = StreamCursor(since=datetime(2026, 11, 18, 8, 0, 0, 123456, tzinfo=UTC), seen=seen)
    assert parse_cursor(str(cursor)) == cursor


async def test_stream_for_pages_says_hello_and_still_and_resumes_by_its_address(
    frontend: RunningFrontend, worker: HandWorker, other: RunningFrontend
) -> None:
    await create(frontend)
    async with open_stream(frontend.url, path=f"{PATH}?signs=true") as stream:
        assert (await stream.next()).event == "hello"
        # Signs have no id of their own: a page resumes behind the last event.
        assert (await stream.next()).event == "still"
        run_id = (await chat(frontend, "hello"))["run_id"]
        await worker.take(run_id)
        await worker.deliver(run_id, ("content", {"text": "one"}), ("content", {"text": "two"}))
        while (frame := await stream.next()).event != "stream_event":
            continue
        assert json.loads(frame.data)["content"] == "one"
    async with open_stream(other.url, path=f"{PATH}?signs=true&after={quote(frame.id or '')}") as resumed:
        assert (await resumed.next()).event == "hello"
        await worker.end(run_id, "onetwo")
        frames = [frame for frame in await read_until_end(resumed) if frame[0] != "still"]
    assert shorten(frames) == [
        "stream_event:content",
        "stream_event:done",
        "json_message:agent",
        "json_message_status:completed",
    ]
    assert frames[0][1]["content"] == "two"
