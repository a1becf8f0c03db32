"""Streams: a frame is made once for all who watch, and what waits goes out together."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

from corral.api.stream import watching
from corral.api.stream.frames import BIG_FRAMES_MAX, FRAMES_MAX, Frames
from corral.api.stream.routes import OPERATION_TOPICS
from corral.api.stream.watching import rendered, take
from corral.bus.messages import OperationDelta, TargetDelta
from corral.domain.cluster import Event, Position
from tests.support.hand_clock import HandClock

AT = datetime(2026, 1, 2, tzinfo=UTC)


def event(number: int, kind: str = "operation.changed") -> Event:
    return Event(position=Position(1, number), kind=kind, key="k", at=AT, data={"id": "k"})


def delta(rev: int) -> OperationDelta:
    target = TargetDelta(node="n", node_name="a", state="working", percent=50.0)
    return OperationDelta(operation_id="k", rev=rev, state="running", targets=(target,))


def test_a_frame_is_made_once_however_many_read_it() -> None:
    frames, changed, told = Frames(HandClock()), event(1), delta(1)
    assert frames.change(changed) is frames.change(changed)
    assert frames.progress(told) is frames.progress(told)
    assert b"id: 1-1\nevent: operation.changed\n" in frames.change(changed)
    assert b'"rev":2' in frames.progress(delta(2))
    assert b'"rev":1' in frames.progress(told)


def test_frames_are_kept_in_a_bounded_number_and_never_mistaken() -> None:
    frames = Frames(HandClock())
    for number in range(FRAMES_MAX * 2):
        assert f"id: 1-{number}\n".encode() in frames.change(event(number))
    for rev in range(BIG_FRAMES_MAX * 20):
        assert f'"rev":{rev},'.encode() in frames.progress(delta(rev))
    assert (len(frames._changes), len(frames._progress)) == (FRAMES_MAX, BIG_FRAMES_MAX)


async def test_what_waits_goes_out_together_up_to_the_first_progress_and_the_end_comes_last() -> None:
    queue: asyncio.Queue[Any] = asyncio.Queue(maxsize=watching.QUEUE_LIMIT)
    items = [event(1), event(2), delta(1), event(3), None]
    for item in items:
        queue.put_nowait(item)
    assert await take(queue) == items[:3]
    assert await take(queue) == [items[3]]
    assert await take(queue) == []


def test_of_events_for_others_only_the_last_place_is_told_and_only_if_nothing_came_after() -> None:
    def ids(*items: Event) -> list[bytes]:
        return [frame.split(b"\n")[0] for frame in rendered(Frames(HandClock()), list(items), OPERATION_TOPICS)]

    other = "node.backends_changed"
    assert ids(event(1, other), event(2, other), event(3)) == [b"id: 1-3"]
    assert ids(event(1), event(2, other), event(3, other)) == [b"id: 1-1", b"id: 1-3"]
