"""The data of one request under way: its state, the events of its stream, and the record that is made of it at its end.

Kept apart from `exchange.py`, because this is data and that is behaviour: nothing here calls an engine or a client.
"""

from __future__ import annotations

from asyncio import Task
from dataclasses import replace
from functools import partial
from typing import Any

from corral.domain.usage import ErrorOrigin, RequestRecord, new_uninitialised
from corral.gateway.exchange.gateway import Gateway, InferenceRequest, ResponseSink
from corral.gateway.routing.in_flight_leases import ReplicaCheckout
from corral.gateway.routing.router import ReplicaSelector
from corral.policy.serving.response_check import EVENTS, WHOLE, find_last_end
from corral.policy.serving.response_rewriter import N_MARK, ResponseRewriter, make_rewriter, rewrite_whole
from corral.policy.serving.token_usage import UNKNOWN_USAGE, TokenUsage, may_contain_usage, parse_usage
from corral.ports.requests import EngineCallHandle, EngineLost, HeadLines

# The states of a request. Plain numbers, because members of an enum cost several times as much to compare.
WAITING, CALLING, RELAYING, DONE = range(4)
# The error code in the record of a request whose client disconnected.
CLIENT_LEFT_CODE = "client_left"
BYTES_PER_TOKEN = 4
# A body with pictures or sound counts as a prompt of at most this many bytes, because they are not text.
MEDIA_PROMPT_BYTES = 16 * 1024
_MEDIA = b";base64,"
# A response up to this size is buffered before it is relayed.
BUFFERED_BYTES_MAX = 8 * 1024 * 1024
# A response that is read whole, because it is translated, has at most this many bytes …
READ_BYTES_MAX = 32 * 1024 * 1024
# … and about this many values, which take up to a hundred bytes of memory each when they are decoded …
READ_VALUES_MAX = 4_000_000
# … and a larger one than this is not read on the event loop.
READ_AT_ONCE_BYTES_MAX = 64 * 1024
# A request body that is larger is dropped as soon as no retry can need it.
KEPT_BODY_BYTES = 64 * 1024
# An event that is larger is relayed in pieces.
EVENT_BYTES_MAX = 1024 * 1024
# The end mark of OpenAI's streams, which is not counted as an event.
_END_OF_STREAM = b"data: [DONE]\n\n"


class ExchangeState:
    """State of relaying one inference request: the request, the chosen replica and the response received so far."""

    __slots__ = (
        "_attempts",
        "_began",
        "_buffered",
        "_buffered_bytes",
        "_checkout",
        "_client",
        "_engine_call",
        "_first_byte_s",
        "_form",
        "_gateway",
        "_has_begun",
        "_has_moved",
        "_has_written",
        "_head",
        "_is_paused",
        "_kind",
        "_name_change",
        "_prompt_bytes",
        "_queue_s",
        "_request",
        "_rest",
        "_rewriter",
        "_selector",
        "_sent_bytes",
        "_silent_since",
        "_size_bytes",
        "_splitter",
        "_state",
        "_status",
        "_task",
    )

    def __init__(self, gateway: Gateway, request: InferenceRequest, client: ResponseSink) -> None:
        if gateway.tracer is not None:
            request = replace(request, traceparent=gateway.tracer.begin(request.traceparent))
        self._gateway = gateway
        self._request = request
        self._client = client
        self._state = WAITING
        self._began = self._silent_since = gateway.clock.monotonic()
        self._queue_s = 0.0
        self._attempts = 0
        self._checkout: ReplicaCheckout | None = None
        self._engine_call: EngineCallHandle | None = None
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
        # The buffered pieces of a response that is no stream and is not relayed yet.
        self._buffered: list[bytes] = []
        self._buffered_bytes = 0
        self._splitter: EventSplitter | None = None
        # Set for a request whose response may have to be changed. Most requests are chats for one choice, which this
        # test shows without a function call.
        is_plain = request.call == "chat" and request.body.find(N_MARK) < 0
        self._rewriter = None if is_plain else self._make_rewriter()
        # An adapter is answered under its own name. Inside a text no such bytes stand without a backslash.
        self._name_change = request.model.name_change
        self._sent_bytes = 0
        # The size of the prompt in a body that was dropped.
        self._prompt_bytes = 0
        # Made only when no replica is free at once, or the first one fails: most requests do not need a selector.
        self._selector: ReplicaSelector | None = None

    @property
    def is_done(self) -> bool:
        return self._state == DONE

    @property
    def node_name(self) -> str:
        return self._checkout.node_name if self._checkout is not None else ""

    @property
    def tally_key(self) -> tuple[str, str, str]:
        """Return model, call and replica; the replica is empty while there is none."""
        return (
            self._request.model.name,
            self._request.call,
            self._checkout.replica.id if self._checkout is not None else "",
        )

    @property
    def is_streaming(self) -> bool:
        return self._state == RELAYING and self._form != WHOLE

    @property
    def events(self) -> int:
        """Return how many events of the stream have been relayed so far."""
        return self._splitter.events if self._splitter is not None else 0

    def _make_rewriter(self) -> ResponseRewriter | None:
        request, options = self._request, self._request.read_options
        return make_rewriter(request.call, request.body, options.echo if options is not None else None)

    def _needs_whole(self) -> bool:
        """Return whether the response is read or rewritten as a whole, so that it cannot be relayed in pieces."""
        options, rewriter = self._request.read_options, self._rewriter
        return (options is not None and options.read is not None) or (rewriter is not None and rewriter.needs_whole)

    def _is_too_large_to_rewrite(self, rewriter: ResponseRewriter, rest: bytes) -> bool:
        """Return whether a whole response has to be rewritten and is too large for the event loop."""
        if len(rest) <= READ_AT_ONCE_BYTES_MAX or self._form != WHOLE or self._state == RELAYING:
            return False
        return rewriter.may_change(rest)

    async def _rewrite_large(self, whole: bytes) -> None:
        """Rewrite a whole response in another process."""
        assert self._rewriter is not None
        self._buffered = []
        refuse_many_values(whole)
        self._rewriter.prepare(self._request.body)
        work = partial(rewrite_whole, self._rewriter)
        self._rewriter, written = await self._gateway.compute.run(work, whole)
        self._buffered = [written]

    def _rewrite_rest(self, rewriter: ResponseRewriter, rest: bytes) -> bytes:
        """Return the rest of a response, or the whole of it, as the client is to get it."""
        if self._form == EVENTS:
            return rewriter.rewrite_events(rest)
        if self._form != WHOLE or self._state == RELAYING or not rewriter.may_change(rest):
            return rest
        rewriter.prepare(self._request.body)
        return rewriter.rewrite(rest)

    def _make_record(self, status: int, origin: ErrorOrigin, code: str, total_s: float, whole: bytes) -> RequestRecord:
        """Make the record for the request listeners. `whole` is a response that was buffered to its end."""
        request, held, stream, events, usage = self._request, self._checkout, self._splitter, 0, UNKNOWN_USAGE
        if stream is not None:
            events, usage = stream.events, stream.parse_usage()
        elif whole and self._form == WHOLE and status < 300:
            usage = parse_usage(whole)
        is_estimated = events > 0 and usage.completion is None
        if self._rewriter is not None:
            usage, is_rewritten_estimate = self._count_rewritten(self._rewriter, usage, code)
            is_estimated = is_estimated or is_rewritten_estimate
        prompt = usage.prompt
        if prompt is None and (is_estimated or (code == CLIENT_LEFT_CODE and self._attempts)):
            # No usage was reported: the client left before the end, or the engine never reports it.
            prompt, is_estimated = self._estimate_prompt(), True
        record = new_uninitialised(RequestRecord)
        record.request_id = request.request_id
        record.key_id = request.principal.key_id
        record.model = request.model.name
        record.call = request.call
        record.status = status
        record.origin = origin
        record.error_code = code
        record.replica_id, record.node_name = (held.replica.id, held.node_name) if held is not None else ("", "")
        record.began_at = self._began + self._gateway.epoch_s
        record.queue_s = self._queue_s
        record.first_byte_s = self._first_byte_s
        record.total_s = total_s
        record.is_stream = self._form != WHOLE
        record.events = events
        record.prompt_tokens = prompt
        record.cached_tokens = usage.cached
        record.completion_tokens = (
            self._estimate_completion() if events and usage.completion is None else usage.completion
        )
        record.is_estimated = is_estimated
        record.received_bytes = request.received_bytes or len(request.body)
        record.sent_bytes = self._sent_bytes
        record.attempts = self._attempts
        record.traceparent = request.traceparent
        record.run_id = ""
        return record

    def _count_rewritten(self, rewriter: ResponseRewriter, usage: TokenUsage, code: str) -> tuple[TokenUsage, bool]:
        """Return the usage of a response that may have been changed, and whether it is an estimate."""
        choices, is_estimated = rewriter.choices, False
        if choices is not None:
            usage, is_estimated = choices.make_total(usage), choices.is_estimated
            if code and self.events and usage.completion is not None:
                # The response was cut off: some choices have reported their usage, and others had no time to.
                usage, is_estimated = self._complete_usage(usage, counts_prompts=choices.counts_prompts), True
        return (usage._replace(completion=0) if rewriter.is_prompt_alone else usage), is_estimated

    def _complete_usage(self, usage: TokenUsage, *, counts_prompts: bool) -> TokenUsage:
        """Return at least what the client has received, and with several prompts at least what it has sent."""
        completion = max(usage.completion or 0, self._estimate_completion())
        prompt = max(usage.prompt or 0, self._estimate_prompt()) if counts_prompts else usage.prompt
        return usage._replace(completion=completion, prompt=prompt)

    def _estimate_completion(self) -> int:
        """Estimate one token per event; the first event of a chat only names the role."""
        return max(0, self.events - 1) if self._request.call == "chat" else self.events

    def _estimate_prompt(self) -> int:
        """Estimate the prompt's tokens from its bytes, so that a request that ends before its engine reports usage is
        not free."""
        size_bytes = self._prompt_bytes or estimate_prompt_bytes(self._request)
        return -(-size_bytes // BYTES_PER_TOKEN)


def estimate_prompt_bytes(request: InferenceRequest) -> int:
    """Return how many bytes of a request's body are a prompt, at most."""
    size_bytes = len(request.body)
    if request.size_bytes is not None or request.body.find(_MEDIA) >= 0:
        return min(size_bytes, MEDIA_PROMPT_BYTES)
    return size_bytes


def refuse_many_values(raw: bytes) -> None:
    """Raise `EngineLost` for a response with more values than may be decoded, without decoding it."""
    if raw.count(b",") + raw.count(b"[") + raw.count(b"{") > READ_VALUES_MAX:
        raise EngineLost("The engine's response has too many values.", code="engine_answer_too_large")


class EventSplitter:
    """Splits an engine's response stream into whole events, counts them and reads the token counts in them.

    `end_of_event` is an empty line, or the end of a line.

    Guarantee: `feed` returns whole events (or whole lines), in order and byte for byte, and keeps an incomplete rest
    until it is complete. Limit: an event that is larger than `EVENT_BYTES_MAX` is returned in pieces.
    """

    __slots__ = ("_buffered", "_buffered_bytes", "_end_of_event", "_first_usage_piece", "_last_usage_piece", "events")

    def __init__(self, end_of_event: bytes) -> None:
        self._end_of_event = end_of_event
        self._buffered: list[bytes] = []
        self._buffered_bytes = 0
        # How many whole events were found so far.
        self.events = 0
        # Pieces in which the engine may have reported its token usage.
        self._first_usage_piece: bytes | None = None
        self._last_usage_piece: bytes | None = None

    def feed(self, piece: bytes) -> bytes:
        """Add a piece of the stream, and return the whole events that can be relayed now; may be empty."""
        end_of_event = self._end_of_event
        if self._buffered or not piece.endswith(end_of_event):
            piece = self._split_whole_events(piece)
            if not piece:
                return piece
        self.events += piece.count(end_of_event) or piece.count(b"\r\n\r\n")
        if piece.endswith(_END_OF_STREAM):
            self.events -= 1
        if may_contain_usage(piece):
            self._note_usage(piece)
        return piece

    def finish(self) -> bytes:
        """End the stream, and return the bytes after the last whole event."""
        rest = b"".join(self._buffered)
        if may_contain_usage(rest):
            self._note_usage(rest)
        return rest

    def parse_usage(self) -> TokenUsage:
        if self._last_usage_piece is None or self._first_usage_piece is None:
            return UNKNOWN_USAGE
        return parse_usage(self._last_usage_piece).merge_over(parse_usage(self._first_usage_piece))

    def _split_whole_events(self, piece: bytes) -> bytes:
        """Return the whole events, and keep the beginning of an incomplete one, up to a limit."""
        self._buffered.append(piece)
        self._buffered_bytes += len(piece)
        if b"\n" not in piece and self._buffered_bytes <= EVENT_BYTES_MAX:
            return b""
        got = b"".join(self._buffered)
        end = find_last_end(got, self._end_of_event)
        if len(got) - end > EVENT_BYTES_MAX:
            end = len(got)
        rest = got[end:]
        self._buffered, self._buffered_bytes = [rest] if rest else [], len(rest)
        return got[:end]

    def _note_usage(self, piece: bytes) -> None:
        if self._first_usage_piece is None:
            self._first_usage_piece = piece
        self._last_usage_piece = piece
