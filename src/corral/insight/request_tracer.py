"""Traces of requests: a span for each, with the time in the queue and the time at the engine inside it.

    client's span ──> corral.request ──┬── corral.queue     until a replica was picked
                                       └── corral.engine ──> the engine's own, if it makes any

The client's trace is continued; without one, a new trace is begun. The engine gets the span `corral.engine` as its
parent. Spans are made from the record of a request after its end and sent in batches, so that a request pays for two
ids and one place in a queue.

Guarantee: a request never waits for a collector and never fails because of one. Limit: spans that a collector does not
accept in time are dropped, oldest first, and counted.
"""

from __future__ import annotations

from collections import OrderedDict, deque

from corral.domain.usage import RequestRecord
from corral.ports.requests import SpanExporter, TraceContext, TraceSpan, is_kept, parse_traceparent
from corral.ports.runtime import IdGenerator

INTERVAL_S = 2.0
# A minute of a busy frontend; beyond it the oldest are dropped.
WAITING_MAX = 20_000
# The number of spans that collectors accept in one call.
BATCH = 500
# The most open requests whose parent span is remembered; a request beyond it begins a trace of its own.
PARENTS_MAX = 50_000
_NS = 1_000_000_000


class RequestTracer:
    """Makes OpenTelemetry traces of inference requests after their end, and sends them in batches.

    Implements `Tracer` and `RequestListener`.
    """

    def __init__(self, exporter: SpanExporter, ids: IdGenerator, *, share: float = 1.0) -> None:
        """Make a tracer. `share` is the share of traces beginning here that is kept; for a client's trace, the client
        has decided."""
        self._exporter = exporter
        self._ids = ids
        self._share = share
        self._parents: OrderedDict[str, str] = OrderedDict()
        self._waiting: deque[tuple[RequestRecord, str]] = deque(maxlen=WAITING_MAX)
        self.sent = 0
        self.dropped = 0

    def begin(self, sent: str) -> str:
        parent = parse_traceparent(sent) if sent else None
        if parent is None:
            trace_id = _to_hex(self._ids.new_id())
            is_sampled = is_kept(trace_id, self._share)
            return str(TraceContext(trace_id=trace_id, span_id=self._new_span_id(), is_sampled=is_sampled))
        if not parent.is_sampled:
            return str(parent)
        own = TraceContext(trace_id=parent.trace_id, span_id=self._new_span_id(), is_sampled=True)
        self._parents[own.span_id] = parent.span_id
        if len(self._parents) > PARENTS_MAX:
            self._parents.popitem(last=False)
        return str(own)

    def on_requests_ended(self, *records: RequestRecord) -> None:
        for record in records:
            if record.traceparent.endswith("-01"):
                self.dropped += len(self._waiting) == WAITING_MAX
                self._waiting.append((record, self._parents.pop(record.traceparent[36:52], "")))

    async def tick(self) -> int:
        """Send the waiting spans and return how many there were. Spans that cannot be sent are dropped."""
        total = 0
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
            try:
                spans = [span for record, parent_id in batch for span in self._make_spans(record, parent_id)]
                await self._exporter.send(spans)
            except BaseException:
                self.dropped += len(batch)
                raise
            self.sent += len(batch)
            total += len(spans)
        return total

    def _make_spans(self, record: RequestRecord, parent_id: str) -> list[TraceSpan]:
        context = parse_traceparent(record.traceparent)
        assert context is not None, "the record of a request has the trace context that was made for it"
        whole = TraceSpan(
            name="corral.request",
            trace_id=context.trace_id,
            span_id=self._new_span_id(),
            parent_id=parent_id,
            begin_ns=_to_ns(record.began_at),
            end_ns=_to_ns(record.began_at + record.total_s),
            is_server=True,
            attributes=_make_attributes(record),
            error=record.error_code,
        )
        return [whole, *self._make_child_spans(record, whole, context.span_id)]

    def _make_child_spans(self, record: RequestRecord, whole: TraceSpan, engine_span_id: str) -> list[TraceSpan]:
        if not record.attempts:
            return []
        picked_ns = _to_ns(record.began_at + record.queue_s)
        queue = TraceSpan(
            name="corral.queue",
            trace_id=whole.trace_id,
            span_id=self._new_span_id(),
            parent_id=whole.span_id,
            begin_ns=whole.begin_ns,
            end_ns=picked_ns,
        )
        first_byte_s = record.first_byte_s
        engine = TraceSpan(
            name="corral.engine",
            trace_id=whole.trace_id,
            span_id=engine_span_id,
            parent_id=whole.span_id,
            begin_ns=picked_ns,
            end_ns=whole.end_ns,
            is_client=True,
            attributes={"corral.replica": record.replica_id, "corral.node": record.node_name},
            events=() if first_byte_s is None else (("first byte", _to_ns(record.began_at + first_byte_s)),),
            error=record.error_code,
        )
        return [queue, engine]

    def _new_span_id(self) -> str:
        # The second half of a UUID is random.
        return _to_hex(self._ids.new_id())[16:]


def _make_attributes(record: RequestRecord) -> dict[str, str | int | float | bool]:
    """Return the attributes of a request's span. Names with `gen_ai` and `http` are OpenTelemetry's own."""
    known: dict[str, str | int | float | bool | None] = {
        "http.response.status_code": record.status,
        "gen_ai.operation.name": record.call,
        "gen_ai.request.model": record.model,
        "gen_ai.usage.input_tokens": record.prompt_tokens,
        "gen_ai.usage.output_tokens": record.completion_tokens,
        "corral.request_id": record.request_id,
        "corral.key_id": record.key_id,
        "corral.node": record.node_name,
        "corral.attempts": record.attempts,
        "corral.events": record.events,
        "error.type": record.error_code,
        "corral.error_origin": record.origin.value,
    }
    return {name: value for name, value in known.items() if value is not None and value != ""}


def _to_hex(uuid: str) -> str:
    return uuid.replace("-", "")


def _to_ns(epoch_s: float) -> int:
    return int(epoch_s * _NS)
