"""Many watchers of the stream of operations, in one process: `python -m bench.watchers PORT KEY COUNT CORE`.

It prints a line when all listen, and after a line on standard input what they have seen: how many frames of progress
each got, how many bytes, and how far each frame was behind the first watcher that got it.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections import Counter

import uvloop

_NEVER = 3600.0


class StreamWatcher:
    """Reads one event stream of operations and counts its frames."""

    def __init__(self, first: dict[bytes, float], behind: list[float]) -> None:
        self.progress = 0
        self.changes = 0
        self.bytes = 0
        self._first = first
        self._behind = behind
        self._times: Counter[bytes] = Counter()

    async def run(self, port: int, key: str, ready: asyncio.Event) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=64 * 1024 * 1024)
        head = f"GET /api/operations/events HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {key}\r\n\r\n"
        writer.write(head.encode())
        try:
            async with asyncio.timeout(_NEVER):
                await reader.readuntil(b"event: hello")
                ready.set()
                while True:
                    self._count_frame(await reader.readuntil(b"\n\n"))
        finally:
            writer.close()

    def _count_frame(self, frame: bytes) -> None:
        self.bytes += len(frame)
        if b"event: operation.progress" not in frame:
            self.changes += b"event: operation.changed" in frame
            return
        self.progress += 1
        now = time.monotonic()
        # Which operation, which revision and the how manieth time; the rest is not read.
        at = frame.index(b'"rev":')
        name = frame[frame.index(b'"key":') : frame.index(b'"at":')] + frame[at : frame.index(b",", at)]
        self._times[name] += 1
        name += b" %d" % self._times[name]
        self._behind.append(now - self._first.setdefault(name, now))


async def _run(port: int, key: str, count: int) -> None:
    first: dict[bytes, float] = {}
    behind: list[float] = []
    watchers = [StreamWatcher(first, behind) for _ in range(count)]
    ready = [asyncio.Event() for _ in watchers]
    tasks = [asyncio.create_task(watcher.run(port, key, event)) for watcher, event in zip(watchers, ready, strict=True)]
    for event in ready:
        await event.wait()
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    broken = sum(task.done() for task in tasks)
    for task in tasks:
        task.cancel()
    print(
        json.dumps(
            {
                "progress": [watcher.progress for watcher in watchers],
                "changes": [watcher.changes for watcher in watchers],
                "bytes": sum(watcher.bytes for watcher in watchers),
                "behind": sorted(behind),
                "deltas": len(first),
                "broken": broken,
            }
        ),
        flush=True,
    )


if __name__ == "__main__":
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(sys.argv[4])})
    uvloop.run(_run(int(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
