"""What is known of one request on its way, and the record that is made of it at its end.

`exchange.py` is what happens to it. Kept apart, because this is data and that is behaviour: nothing here calls an
engine or a client.
"""

from __future__ import annotations

from asyncio import Task
from dataclasses import replace
from typing import Any

from corral.domain.answered import Answered, Origin
from corral.domain.records import blank
from corral.policy.serving.forms import WHOLE
from corral.policy.serving.usage import UNKNOWN, usage_of
from corral.ports.engines import HeadLines, Line
from corral.serving.gateway import Client, Gateway, Wish
from corral.serving.router import Visit
from corral.serving.stream import Stream
from corral.serving.use import Held

# Where a request is. Plain numbers: members of an enum cost several times as much to look at.
WAITING, CALLING, PASSING, OVER = range(4)
# How the record of a request says that its client went away.
CLIENT_LEFT_CODE = "client_left"
BYTES_PER_TOKEN = 4
# A body with pictures or sound in it is taken for a prompt of so many bytes at most: they are no text.
MEDIA_PROMPT_BYTES = 16 * 1024
_MEDIA = b";base64,"


class ExchangeState:
    """The data of one `Exchange`."""

    __slots__ = (
        "_at",
        "_attempts",
        "_began",
        "_client",
        "_first_byte_s",
        "_form",
        "_gateway",
        "_has_begun",
        "_has_moved",
        "_has_written",
        "_head",
        "_held",
        "_is_paused",
        "_kept",
        "_kept_bytes",
        "_kind",
        "_line",
        "_prompt_bytes",
        "_queue_s",
        "_rest",
        "_sent_bytes",
        "_silent_since",
        "_size_bytes",
        "_status",
        "_stream",
        "_task",
        "_visit",
        "_wish",
    )

    def __init__(self, gateway: Gateway, wish: Wish, client: Client) -> None:
        if gateway.tracer is not None:
            wish = replace(wish, traceparent=gateway.tracer.begin(wish.traceparent))
        self._gateway = gateway
        self._wish = wish
        self._client = client
        self._at = WAITING
        self._began = self._silent_since = gateway.clock.monotonic()
        self._queue_s = 0.0
        self._attempts = 0
        self._held: Held | None = None
        self._line: Line | None = None
        self._task: Task[Any] | None = None
        self._is_paused = False
        self._has_written = False
        self._has_moved = False
        self._has_begun = False
        self._rest = b""
        self._first_byte_s: float | None = None
        self._status = 0
        self._head: HeadLines = ()
        self._size_bytes: int | None = None
        self._form = WHOLE
        self._kind = 0
        # What was gathered of an answer that is no stream, and is not passed on yet.
        self._kept: list[bytes] = []
        self._kept_bytes = 0
        self._stream: Stream | None = None
        self._sent_bytes = 0
        # Of a body that was let go of: how much of it was a prompt.
        self._prompt_bytes = 0
        # Made when the first replica is not found at once, or fails: most requests have no use for it.
        self._visit: Visit | None = None

    @property
    def is_over(self) -> bool:
        return self._at == OVER

    @property
    def node_name(self) -> str:
        return self._held.node_name if self._held is not None else ""

    @property
    def place(self) -> tuple[str, str, str]:
        """Model, call and replica; the last is empty while there is none."""
        return self._wish.model.name, self._wish.call, self._held.replica.id if self._held is not None else ""

    @property
    def is_streaming(self) -> bool:
        return self._at == PASSING and self._form != WHOLE

    @property
    def events(self) -> int:
        """How many events of its stream have been passed on so far."""
        return self._stream.events if self._stream is not None else 0

    def _record(self, status: int, origin: Origin, code: str, total_s: float, whole: bytes) -> Answered:
        """What the listeners are told. `whole` is an answer that was gathered to its end."""
        wish, held, stream, events, usage = self._wish, self._held, self._stream, 0, UNKNOWN
        if stream is not None:
            events, usage = stream.events, stream.usage()
        elif whole and self._form == WHOLE and status < 300:
            usage = usage_of(whole)
        is_estimated = events > 0 and usage.completion is None
        prompt = usage.prompt
        if prompt is None and (is_estimated or (code == CLIENT_LEFT_CODE and self._attempts)):
            # Nobody has told: its client left before the end, when most engines tell, or the engine never does.
            prompt, is_estimated = self._estimate_prompt(), True
        told = blank(Answered)
        told.request_id = wish.request_id
        told.key_id = wish.principal.key_id
        told.model = wish.model.name
        told.call = wish.call
        told.status = status
        told.origin = origin
        told.error_code = code
        told.replica_id, told.node_name = (held.replica.id, held.node_name) if held is not None else ("", "")
        told.began_at = self._began + self._gateway.epoch_s
        told.queue_s = self._queue_s
        told.first_byte_s = self._first_byte_s
        told.total_s = total_s
        told.is_stream = self._form != WHOLE
        told.events = events
        told.prompt_tokens = prompt
        told.cached_tokens = usage.cached
        told.completion_tokens = self._estimate() if events and usage.completion is None else usage.completion
        told.is_estimated = is_estimated
        told.received_bytes = wish.received_bytes or len(wish.body)
        told.sent_bytes = self._sent_bytes
        told.attempts = self._attempts
        told.traceparent = wish.traceparent
        return told

    def _estimate(self) -> int:
        """One token for each event; the first event of a chat only says who speaks."""
        return max(0, self.events - 1) if self._wish.call == "chat" else self.events

    def _estimate_prompt(self) -> int:
        """By its bytes: a request that ends before its engine tells is not free."""
        size_bytes = self._prompt_bytes or prompt_bytes(self._wish)
        return -(-size_bytes // BYTES_PER_TOKEN)


def prompt_bytes(wish: Wish) -> int:
    """How much of a request's body is a prompt, at most."""
    size_bytes = len(wish.body)
    if wish.size_bytes is not None or wish.body.find(_MEDIA) >= 0:
        return min(size_bytes, MEDIA_PROMPT_BYTES)
    return size_bytes
