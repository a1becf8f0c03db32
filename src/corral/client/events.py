"""Following the event stream for as long as the caller wants, over restarts of frontends.

Guarantee: between two items no event is missing, or a `Reset` stands there, which means "read the state anew". A
stream that breaks resumes at the last position. Limit: the very first connection must work (so that a wrong address
is told at once), and a refusal such as a revoked key ends the stream with its error.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing
from dataclasses import dataclass

import aiohttp
from pydantic import ValidationError

from corral.client.errors import error_from_answer, unexpected_answer
from corral.client.http import Transport
from corral.client.sse import Frame, FrameTooLarge, SseParser
from corral.domain.errors import CorralError, Unavailable
from corral.wire.events import EventOut

FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 10.0
# The frontend sends a sign of life far more often; a silent connection is a dead one.
IDLE_LIMIT_S = 60.0
CONNECT_LIMIT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Connected:
    """The stream stands here now: what is read from now on is not older than the events that follow."""

    position: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """Something may have been missed: read the state anew, the stream goes on from here."""

    position: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted:
    """The stream broke; it is being taken up again. For people's eyes only."""

    reason: str


StreamItem = EventOut | Connected | Reset | Interrupted


@dataclass(slots=True)
class EventStream:
    transport: Transport
    position: str | None
    topics: Collection[str] | None = None
    path: str = "/api/events"
    _was_connected: bool = False
    _pause_s: float = FIRST_PAUSE_S
    _asked_pause_s: float | None = None

    async def items(self) -> AsyncGenerator[StreamItem, None]:
        while True:
            reason = "the frontend ended the stream"
            try:
                # Closed by name: a watcher that stops must give its connection back at once.
                async with aclosing(self._connection()) as connection:
                    async for item in connection:
                        yield item
            except (aiohttp.ClientError, TimeoutError, FrameTooLarge) as error:
                if not self._was_connected:
                    raise self.transport.unreachable(error) from error
                reason = str(error) or type(error).__name__
            except Unavailable as error:
                if not self._was_connected:
                    raise
                reason = error.message
            yield Interrupted(reason=reason)
            await self.transport.clock.sleep(max(self._pause_s, self._asked_pause_s or 0.0))
            self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)

    async def _connection(self) -> AsyncGenerator[StreamItem, None]:
        """One connection, from opening to its end."""
        async with self.transport.session.get(
            self.transport.url + self.path,
            params={"topics": ",".join(sorted(self.topics))} if self.topics else None,
            headers=self._headers(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_LIMIT_S, sock_read=IDLE_LIMIT_S),
            allow_redirects=False,
        ) as response:
            await self._check(response)
            # Reconnected without a position: whatever happened in between is unknown.
            if self._was_connected and self.position is None:
                yield Reset(position=None)
            self._was_connected = True
            parser = SseParser(last_id=self.position)
            async for chunk in response.content.iter_any():
                self._pause_s = FIRST_PAUSE_S
                for frame in parser.feed(chunk):
                    yield self._item(frame)
                self.position, self._asked_pause_s = parser.last_id, parser.retry_s

    def _headers(self) -> dict[str, str]:
        headers = self.transport.headers() | {"Accept": "text/event-stream", "Cache-Control": "no-store"}
        if self.position is not None:
            headers["Last-Event-ID"] = self.position
        return headers

    async def _check(self, response: aiohttp.ClientResponse) -> None:
        if response.status != 200:
            error = error_from_answer(response.status, await response.read(), origin=self.transport.url)
            # A frontend that is just starting or stopping may say anything above 500; it is asked again.
            if response.status >= 500 and not isinstance(error, Unavailable):
                raise Unavailable(error.message, hint=error.hint, code=error.slug)
            raise error
        if response.content_type != "text/event-stream":
            raise self._stranger()

    def _stranger(self) -> CorralError:
        return unexpected_answer(self.transport.url, "no event stream")

    def _item(self, frame: Frame) -> StreamItem:
        if frame.event == "hello":
            return Connected(position=frame.id)
        if frame.event == "reset":
            return Reset(position=frame.id)
        try:
            return EventOut.model_validate_json(frame.data)
        except ValidationError:
            # A newer frontend's event that we cannot read still means that something changed.
            return Reset(position=frame.id)


def watch(
    transport: Transport, last_event_id: str | None, topics: Collection[str] | None
) -> AsyncGenerator[StreamItem, None]:
    return EventStream(transport=transport, position=last_event_id, topics=topics).items()
