"""A reader of `GET /api/events` for the tests: frames one by one, each within a limit."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from corral.client.events import SseFrame, SseParser
from corral.domain.cluster import OutboxPosition
from tests.support.frontends import ADMIN_KEY

FRAME_LIMIT_S = 30.0


class Stream:
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response
        self._parser = SseParser()
        self._frames: list[SseFrame] = []

    async def moves_to(self, position: str) -> None:
        """Read on, past frames without data, until the place to resume from is this one or a later one.

        A frame without data names the newest event that the frontend has read: others may have come meanwhile.
        """
        newest = OutboxPosition.parse(position)
        async with asyncio.timeout(FRAME_LIMIT_S):
            while OutboxPosition.parse(self._parser.last_id or "0-0") < newest:
                self._frames += self._parser.feed(await self.response.content.readany())

    async def next(self) -> SseFrame:
        """The next frame; fails at the end of the stream."""
        frame = await self.next_or_end()
        assert frame is not None, "the stream has ended"
        return frame

    async def next_or_end(self) -> SseFrame | None:
        async with asyncio.timeout(FRAME_LIMIT_S):
            while not self._frames:
                chunk = await self.response.content.readany()
                if not chunk:
                    return None
                self._frames += self._parser.feed(chunk)
        return self._frames.pop(0)

    async def read_to_end(self) -> list[SseFrame]:
        """Read the remaining frames of a stream that ends."""
        seen: list[SseFrame] = []
        while (frame := await self.next_or_end()) is not None:
            seen.append(frame)
        return seen

    async def until(self, kind: str, **data: Any) -> list[SseFrame]:
        """All frames up to and including the first of a kind with these data."""
        seen: list[SseFrame] = []
        while True:
            frame = await self.next()
            seen.append(frame)
            content = json.loads(frame.data).get("data", {})
            if frame.event == kind and data.items() <= content.items():
                return seen


@asynccontextmanager
async def open_stream(
    url: str,
    *,
    last_id: str | None = None,
    topics: str | None = None,
    key: str = ADMIN_KEY,
    path: str = "/api/events",
) -> AsyncIterator[Stream]:
    """A connection of its own, which must have been accepted."""
    headers = {"Authorization": f"Bearer {key}"}
    if last_id is not None:
        headers["Last-Event-ID"] = last_id
    timeout = aiohttp.ClientTimeout(total=None)
    async with (
        aiohttp.ClientSession(timeout=timeout) as session,
        session.get(f"{url}{path}", headers=headers, params={"topics": topics} if topics else None) as response,
    ):
        assert response.status == 200, await response.text()
        assert response.content_type == "text/event-stream"
        yield Stream(response)
