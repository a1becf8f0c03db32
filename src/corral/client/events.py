"""Follows the event stream for as long as the caller likes, over restarts of frontends.

Guarantee: between two items no event is missing, or else there is a `StreamResetNotice`, which means that the state has
to be read again. A broken stream resumes at the last position. Limit: the very first connection must succeed, so that a
wrong address is reported at once, and a refusal such as a revoked key ends the stream with its error.

`SseParser` parses server-sent events from bytes: a stream that is cut anywhere gives the same frames.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing
from dataclasses import dataclass, field

import aiohttp
from pydantic import ValidationError

from corral.client.transport import ApiTransport, make_error_from_response, make_unexpected_response_error
from corral.domain.errors import CorralError, Unavailable
from corral.wire.live import EventOut

FIRST_PAUSE_S = 0.25
PAUSE_MAX_S = 10.0
# The frontend sends keepalives far more often, so a connection that is silent for this long is dead.
IDLE_LIMIT_S = 60.0
CONNECT_LIMIT_S = 10.0
# Corral's events have a few kilobytes; an endless line from another server must not fill the memory.
LINE_LIMIT_CHARACTERS = 1024 * 1024
_LINE_END = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamConnectedNotice:
    """Item that the client's event stream yields when it is connected.

    Later events are newer than what is read from now on.
    """

    position: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamResetNotice:
    """Item that the client's event stream yields when events may have been missed.

    The state has to be read again.
    """

    position: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamInterruptedNotice:
    """Item that the client's event stream yields when the connection broke and is being restored.

    For display only.
    """

    reason: str


StreamItem = EventOut | StreamConnectedNotice | StreamResetNotice | StreamInterruptedNotice


@dataclass(slots=True)
class EventStream:
    """Follows the API's stream of server-sent events for a client, and reconnects at the last position."""

    transport: ApiTransport
    position: str | None
    topics: Collection[str] | None = None
    path: str = "/api/events"
    _was_connected: bool = False
    _pause_s: float = FIRST_PAUSE_S
    _requested_pause_s: float | None = None

    async def iter_items(self) -> AsyncGenerator[StreamItem, None]:
        while True:
            reason = "the frontend ended the stream"
            try:
                # Closed explicitly, so that a watcher that stops releases its connection at once.
                async with aclosing(self._iter_connection()) as connection:
                    async for item in connection:
                        yield item
            except (aiohttp.ClientError, TimeoutError, FrameTooLarge) as error:
                if not self._was_connected:
                    raise self.transport.make_unreachable_error(error) from error
                reason = str(error) or type(error).__name__
            except Unavailable as error:
                if not self._was_connected:
                    raise
                reason = error.message
            yield StreamInterruptedNotice(reason=reason)
            await self.transport.clock.sleep(max(self._pause_s, self._requested_pause_s or 0.0))
            self._pause_s = min(self._pause_s * 2, PAUSE_MAX_S)

    async def _iter_connection(self) -> AsyncGenerator[StreamItem, None]:
        """Open one connection and yield its items until it ends."""
        async with self.transport.session.get(
            self.transport.url + self.path,
            params={"topics": ",".join(sorted(self.topics))} if self.topics else None,
            headers=self._make_headers(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_LIMIT_S, sock_read=IDLE_LIMIT_S),
            allow_redirects=False,
        ) as response:
            await self._check_response(response)
            # Reconnected without a position, so events may have been missed.
            if self._was_connected and self.position is None:
                yield StreamResetNotice(position=None)
            self._was_connected = True
            parser = SseParser(last_id=self.position)
            async for chunk in response.content.iter_any():
                self._pause_s = FIRST_PAUSE_S
                for frame in parser.feed(chunk):
                    yield self._parse_item(frame)
                self.position, self._requested_pause_s = parser.last_id, parser.retry_s

    def _make_headers(self) -> dict[str, str]:
        headers = self.transport.make_headers() | {"Accept": "text/event-stream", "Cache-Control": "no-store"}
        if self.position is not None:
            headers["Last-Event-ID"] = self.position
        return headers

    async def _check_response(self, response: aiohttp.ClientResponse) -> None:
        if response.status != 200:
            error = make_error_from_response(response.status, await response.read(), origin=self.transport.url)
            # A frontend that is starting or stopping may respond with any 5xx status; the connection is retried.
            if response.status >= 500 and not isinstance(error, Unavailable):
                raise Unavailable(error.message, hint=error.hint, code=error.slug)
            raise error
        if response.content_type != "text/event-stream":
            raise self._make_foreign_error()

    def _make_foreign_error(self) -> CorralError:
        return make_unexpected_response_error(self.transport.url, "no event stream")

    def _parse_item(self, frame: SseFrame) -> StreamItem:
        if frame.event == "hello":
            return StreamConnectedNotice(position=frame.id)
        if frame.event == "reset":
            return StreamResetNotice(position=frame.id)
        try:
            return EventOut.model_validate_json(frame.data)
        except ValidationError:
            # An event of a newer frontend that cannot be parsed still means that something changed.
            return StreamResetNotice(position=frame.id)


def watch_events(
    transport: ApiTransport, last_event_id: str | None, topics: Collection[str] | None
) -> AsyncGenerator[StreamItem, None]:
    return EventStream(transport=transport, position=last_event_id, topics=topics).iter_items()


class FrameTooLarge(ValueError):
    """Raised when a line of the event stream that a client reads is longer than any event of Corral."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SseFrame:
    """One server-sent event as the client parsed it: its name, data and id."""

    event: str
    data: str
    # The last id seen on the stream, also if this frame had none.
    id: str | None


@dataclass(slots=True)
class SseParser:
    """Parses server-sent events for the client from bytes that may be cut anywhere. No I/O."""

    # Set only when a frame is complete: after a stream was cut before that, the frame has to be sent again.
    last_id: str | None = None
    # The pause before reconnecting that the server requests.
    retry_s: float | None = None
    _decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
    )
    _pending: str = ""
    _event: str = ""
    _id: str | None = None
    _data: list[str] = field(default_factory=list)

    def feed(self, chunk: bytes) -> list[SseFrame]:
        """Return the frames that this piece completes."""
        self._pending += self._decoder.decode(chunk)
        frames: list[SseFrame] = []
        start = 0
        for end in _LINE_END.finditer(self._pending):
            # A lone CR at the very end may be the first half of CRLF.
            if end.group() == "\r" and end.end() == len(self._pending):
                break
            frame = self._take_line(self._pending[start : end.start()])
            start = end.end()
            if frame is not None:
                frames.append(frame)
        self._pending = self._pending[start:]
        if len(self._pending) > LINE_LIMIT_CHARACTERS:
            raise FrameTooLarge("a line of the event stream is too long")
        return frames

    def _take_line(self, line: str) -> SseFrame | None:
        if not line:
            return self._dispatch()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "data":
                self._data.append(value)
            case "event":
                self._event = value
            case "id" if "\0" not in value:
                self._id = value
            case "retry" if value.isascii() and value.isdigit():
                self.retry_s = int(value) / 1000
        return None

    def _dispatch(self) -> SseFrame | None:
        data, event = "\n".join(self._data), self._event or "message"
        if self._id is not None:
            self.last_id = self._id or None
        self._data, self._event, self._id = [], "", None
        # A frame without data only moves the position; Corral's `reset` frames may have none either.
        if not data and event == "message":
            return None
        return SseFrame(event=event, data=data, id=self.last_id)
