"""Traces: continued or begun, sent to a real collector, and never in a request's way."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SentSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from corral.adapters.system import SystemIdGenerator
from corral.adapters.traces import OtlpSpanExporter
from corral.domain.errors import Unavailable
from corral.domain.usage import ErrorOrigin
from corral.insight import request_tracer as tracing
from corral.insight.request_tracer import RequestTracer
from corral.ports.requests import TraceSpan, is_kept, parse_traceparent
from tests.insight.collector import Collector, attributes, collecting
from tests.insight.records import BEGAN_AT, record

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED = f"00-{TRACE}-{SPAN}-01"


class KeptSpans:
    """Instead of a collector."""

    def __init__(self) -> None:
        self.got: list[TraceSpan] = []
        self.is_away = False

    async def send(self, spans: Sequence[TraceSpan]) -> None:
        if self.is_away:
            raise Unavailable("The collector is away.")
        self.got += spans

    async def close(self) -> None:
        return


@pytest.fixture
async def collector() -> AsyncIterator[Collector]:
    async with collecting() as running:
        yield running


async def test_trace_of_a_client_goes_on_through_queue_and_engine(collector: Collector) -> None:
    spans = OtlpSpanExporter(collector.url, version="1.2.3", frontend_id="frontend-1")
    traces = RequestTracer(spans, SystemIdGenerator())
    engine_traceparent = traces.begin(SAMPLED)
    traces.on_requests_ended(record(traceparent=engine_traceparent))
    assert await traces.tick() == 3
    await spans.close()
    request, queue, engine = (collector.named(f"corral.{name}") for name in ("request", "queue", "engine"))
    assert {span.trace_id.hex() for span in collector.spans} == {TRACE}
    assert request.parent_span_id.hex() == SPAN
    assert queue.parent_span_id == engine.parent_span_id == request.span_id
    # What the engine was told is the span of the call to it.
    assert engine_traceparent == f"00-{TRACE}-{engine.span_id.hex()}-01"
    assert len({span.span_id for span in collector.spans}) == 3
    assert request.kind == SentSpan.SPAN_KIND_SERVER
    assert engine.kind == SentSpan.SPAN_KIND_CLIENT
    assert _seconds(request) == (0.0, 2.1)
    assert _seconds(queue) == (0.0, 0.01)
    assert _seconds(engine) == (0.01, 2.1)
    assert [event.name for event in engine.events] == ["first byte"]
    found = attributes(request)
    assert found["corral.request_id"] == "request-1"
    assert (found["gen_ai.request.model"], found["gen_ai.usage.output_tokens"]) == ("chat", 200)
    assert found["http.response.status_code"] == 200
    assert (collector.about["service.name"], collector.about["service.instance.id"]) == ("corral", "frontend-1")


async def test_trace_begins_here_without_a_parent_and_carries_the_error(collector: Collector) -> None:
    spans = OtlpSpanExporter(f"{collector.url}/", version="1", frontend_id="f")
    traces = RequestTracer(spans, SystemIdGenerator())
    began = traces.begin("")
    failed = {"status": 503, "origin": ErrorOrigin.GATEWAY, "error_code": "model_loading", "attempts": 0}
    traces.on_requests_ended(record(traceparent=began, first_byte_s=None, **failed))
    await traces.tick()
    await spans.close()
    (request,) = collector.spans
    assert request.parent_span_id == b""
    assert request.trace_id.hex() == began.split("-")[1]
    assert (request.status.code, request.status.message) == (Status.STATUS_CODE_ERROR, "model_loading")
    assert attributes(request)["corral.error_origin"] == "gateway"


async def test_collector_that_refuses_costs_spans_and_nothing_else(collector: Collector) -> None:
    spans = OtlpSpanExporter(collector.url, version="1", frontend_id="f")
    traces = RequestTracer(spans, SystemIdGenerator())
    collector.refuses_with = 400
    traces.on_requests_ended(record(traceparent=traces.begin("")))
    with pytest.raises(Unavailable, match="does not accept spans"):
        await traces.tick()
    assert (traces.sent, traces.dropped) == (0, 1)
    collector.refuses_with = 0
    traces.on_requests_ended(record(traceparent=traces.begin("")))
    await traces.tick()
    await spans.close()
    assert (traces.sent, traces.dropped) == (1, 1)
    assert len(collector.spans) == 3


async def test_trace_that_its_client_does_not_keep_is_passed_on_as_it_is_and_not_sent() -> None:
    kept = KeptSpans()
    traces = RequestTracer(kept, SystemIdGenerator())
    unsampled = f"00-{TRACE}-{SPAN}-00"
    assert traces.begin(unsampled) == unsampled
    traces.on_requests_ended(record(traceparent=unsampled))
    traces.on_requests_ended(record(traceparent=""))
    await traces.tick()
    assert kept.got == []


async def test_waiting_spans_are_bounded_and_the_oldest_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "WAITING_MAX", 3)
    monkeypatch.setattr(tracing, "PARENTS_MAX", 2)
    kept = KeptSpans()
    traces = RequestTracer(kept, SystemIdGenerator())
    for number in range(5):
        traces.on_requests_ended(record(request_id=f"r{number}", traceparent=traces.begin("")))
    assert await traces.tick() == 9
    assert traces.dropped == 2
    requests = [span for span in kept.got if span.name == "corral.request"]
    assert [span.attributes["corral.request_id"] for span in requests] == ["r2", "r3", "r4"]
    kept.got = []
    headers = [traces.begin(f"00-{TRACE}-000000000000000{number}-01") for number in (1, 2, 3)]
    for header in headers:
        traces.on_requests_ended(record(traceparent=header))
    await traces.tick()
    parents = [span.parent_id for span in kept.got if span.name == "corral.request"]
    assert parents == ["", "0000000000000002", "0000000000000003"]


async def test_tracer_sends_more_spans_than_a_batch_in_several_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "BATCH", 2)
    kept = KeptSpans()
    traces = RequestTracer(kept, SystemIdGenerator())
    for _ in range(5):
        traces.on_requests_ended(record(traceparent=traces.begin("")))
    kept.is_away = True
    with pytest.raises(Unavailable):
        await traces.tick()
    kept.is_away = False
    assert await traces.tick() == 9
    assert (traces.sent, traces.dropped) == (3, 2)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "00",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE}-{SPAN}-01\nx: y",
    ],
)
def test_invalid_trace_context_starts_a_new_trace(header: str) -> None:
    assert parse_traceparent(header) is None
    began = parse_traceparent(RequestTracer(KeptSpans(), SystemIdGenerator()).begin(header))
    assert began is not None
    assert began.is_sampled
    assert began.trace_id != TRACE


@given(st.text(max_size=80))
def test_engine_always_gets_a_valid_trace_context(text: str) -> None:
    passed_on = RequestTracer(KeptSpans(), SystemIdGenerator()).begin(text)
    assert parse_traceparent(passed_on) is not None
    assert len(passed_on) == 55


def test_later_versions_are_read_as_far_as_they_are_known() -> None:
    context = parse_traceparent(f"01-{TRACE}-{SPAN}-03-later")
    assert context is not None
    assert (context.trace_id, context.is_sampled) == (TRACE, True)


def test_every_process_decides_alike_which_traces_are_kept() -> None:
    ids = [SystemIdGenerator().new_id().replace("-", "") for _ in range(2000)]
    assert all(is_kept(one, 1.0) for one in ids)
    assert not any(is_kept(one, 0.0) for one in ids)
    assert 300 < sum(is_kept(one, 0.25) for one in ids) < 700
    assert RequestTracer(KeptSpans(), SystemIdGenerator(), share=0.0).begin("").endswith("-00")


def _seconds(span: SentSpan) -> tuple[float, float]:
    began = span.start_time_unix_nano / 1e9 - BEGAN_AT, span.end_time_unix_nano / 1e9 - BEGAN_AT
    return round(began[0], 3), round(began[1], 3)
