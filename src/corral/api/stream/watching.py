"""One stream of server-sent events out of several sources, of which every route is a filter.

Changes come from the outbox, have an id and can be resumed on any frontend. Progress and numbers have none: they may be
lost, and the rows, or the next number, say the same a moment later. A slow reader makes nobody else wait, never misses
a change, and of the rest gets the newest. However many watch, each frame is made once, and what waits for a reader goes
out together. Who may watch no longer, because a key was revoked or a scope is narrower, is let go of.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass

from corral.api.events import QUIET_S, RETRY_MS, render
from corral.api.parts import Parts
from corral.api.stream.frames import Frames
from corral.bus.messages import OperationDelta
from corral.domain.cluster import Event, Position
from corral.events.feed import Quiet, Reset
from corral.runtime.guard import Done, Failed, attempt
from corral.runtime.tasks import Tasks

# A reader that is this far behind makes the sources wait; they hold a place, not a list.
QUEUE_LIMIT = 64
# After these it is asked again whether the watcher may watch.
_RIGHTS = ("key.", "user.", "session.")
# Bytes are a frame of numbers.
# Pages cannot see comments, and have to tell a quiet connection from a dead one.
_STILL = b"event: still\ndata: {}\n\n"
Item = Event | Reset | Quiet | OperationDelta | bytes
Queue = asyncio.Queue[Item | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """What one watcher wants. `topics` are prefixes of kinds; none is all of them."""

    after: Position | None
    may: Callable[[], Awaitable[object]]
    topics: tuple[str, ...] = ()
    has_numbers: bool = False


async def stream(parts: Parts, frames: Frames, watch: Watch) -> AsyncIterator[bytes]:
    start = watch.after or parts.feed.position
    assert start is not None, "the feed has begun before the first request"
    queue: Queue = asyncio.Queue(maxsize=QUEUE_LIMIT)
    readers = Tasks("stream")
    with parts.board.watching(has_numbers=watch.has_numbers):
        # All listen before the greeting goes out: what happens from now on is part of its promise.
        readers.start(_changes(parts, start, queue), name="changes")
        readers.start(_pass_on(parts.deltas.watch(), queue), name="progress")
        if watch.has_numbers:
            readers.start(_keep_passing_on(parts, parts.board.live.watch, queue), name="live")
            readers.start(_keep_passing_on(parts, parts.board.nodes.watch, queue), name="nodes")
        try:
            yield f"retry: {RETRY_MS}\nid: {start}\nevent: hello\ndata: {{}}\n\n".encode()
            while items := await take(queue):
                yield b"".join(rendered(frames, items, watch.topics))
                if _concerns_rights(items) and isinstance(await attempt(watch.may), Failed):
                    return  # The client comes back, and is told why not.
        finally:
            await readers.close()


async def take(queue: Queue) -> list[Item]:
    """What waits, or what comes next, up to the first that may be large; empty at the end."""
    items: list[Item] = []
    item = await queue.get()
    while item is not None:
        items.append(item)
        if queue.empty() or isinstance(item, OperationDelta | bytes):
            break
        item = queue.get_nowait()
    else:
        # For the next call, after what came before the end.
        if items:
            queue.put_nowait(None)
    return items


def rendered(frames: Frames, items: list[Item], topics: tuple[str, ...]) -> Iterator[bytes]:
    """Of events that are not for this stream only the place of the last matters, for resuming."""
    place: Event | None = None
    for item in items:
        if isinstance(item, Event) and topics and not item.kind.startswith(topics):
            place = item
            continue
        if place is not None and isinstance(item, Event | Reset):
            place = None
        if isinstance(item, bytes):
            yield item
        elif isinstance(item, OperationDelta):
            yield frames.progress(item)
        elif isinstance(item, Event):
            yield frames.change(item)
        elif isinstance(item, Quiet) and not topics:
            yield _STILL
        else:
            yield render(item, topics).encode()
    if place is not None:
        yield render(place, topics).encode()


def _concerns_rights(items: list[Item]) -> bool:
    return any(isinstance(item, Quiet) or (isinstance(item, Event) and item.kind.startswith(_RIGHTS)) for item in items)


async def _changes(parts: Parts, start: Position, queue: Queue) -> None:
    # However it ends, the stream ends with it: the client comes back with its last id, to whichever frontend.
    await attempt(lambda: _pass_on(parts.feed.watch(start, QUIET_S), queue))
    await queue.put(None)


async def _pass_on(source: AsyncGenerator[Item, None], queue: Queue) -> None:
    async with aclosing(source) as items:
        async for item in items:
            await queue.put(item)


async def _keep_passing_on(parts: Parts, watch: Callable[[], AsyncGenerator[bytes, None]], queue: Queue) -> None:
    """Numbers that cannot be read now may be in a while; the changes go on meanwhile."""
    while not isinstance(await attempt(lambda: _pass_on(watch(), queue)), Done):
        await parts.clock.sleep(RETRY_MS / 1000)
