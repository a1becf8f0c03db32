"""Streams: a frame is made once for all who watch, and what waits goes out together."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

from corral.api import stream as event_stream
from corral.api.stream import BIG_FRAMES_MAX, FRAMES_MAX, OPERATION_TOPICS, FrameCache, render_items, take_items
from corral.bus.messages import OperationDelta, TargetDelta
from corral.domain.cluster import OutboxEvent, OutboxPosition
from tests.support.hand_clock import HandClock

AT = datetime(2026, 1, 2, tzinfo=UTC)


def event(number: int, kind: str = "operation.changed") -> OutboxEvent:
    return OutboxEvent(position=OutboxPosition(1, number), kind=kind, key="k", at=AT, data={"id": "k"})


def delta(rev: int) -> OperationDelta:
    target = TargetDelta(node="n", node_name="a", state="working", percent=50.0)
    return OperationDelta(operation_id="k", rev=rev, state="running", targets=(target,))


def test_frame_is_made_once_however_many_read_it() -> None:
    frames, changed, progress = FrameCache(HandClock()), event(1), delta(1)
    assert frames.render_change(changed) is frames.render_change(changed)
    assert frames.render_progress(progress) is frames.render_progress(progress)
    assert b"id: 1-1\nevent: operation.changed\n" in frames.render_change(changed)
    assert b'"rev":2' in frames.render_progress(delta(2))
    assert b'"rev":1' in frames.render_progress(progress)


def test_frames_are_kept_in_a_bounded_number_and_never_mistaken() -> None:
    frames = FrameCache(HandClock())
    for number in range(FRAMES_MAX * 2):
        assert f"id: 1-{number}\n".encode() in frames.render_change(event(number))
    for rev in range(BIG_FRAMES_MAX * 20):
        assert f'"rev":{rev},'.encode() in frames.render_progress(delta(rev))
    assert (len(frames._changes), len(frames._progress)) == (FRAMES_MAX, BIG_FRAMES_MAX)


async def test_waiting_frames_are_sent_together_up_to_the_first_progress() -> None:
    queue: asyncio.Queue[Any] = asyncio.Queue(maxsize=event_stream.QUEUE_LIMIT)
    items = [event(1), event(2), delta(1), event(3), None]
    for item in items:
        queue.put_nowait(item)
    assert await take_items(queue) == items[:3]
    assert await take_items(queue) == [items[3]]
    assert await take_items(queue) == []


def test_filtered_events_send_only_their_last_position_and_only_if_no_event_follows() -> None:
    def ids(*items: OutboxEvent) -> list[bytes]:
        return [frame.split(b"\n")[0] for frame in render_items(FrameCache(HandClock()), list(items), OPERATION_TOPICS)]

    other = "node.backends_changed"
    assert ids(event(1, other), event(2, other), event(3)) == [b"id: 1-3"]
    assert ids(event(1), event(2, other), event(3, other)) == [b"id: 1-1", b"id: 1-3"]
