"""Sends spans over OTLP and HTTP to any collector, through OpenTelemetry's own library (the extra `otel`).

The library speaks HTTP in threads of ours: one call at a time, and no longer than its time limit.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags
from opentelemetry.trace.status import Status, StatusCode

from corral.domain.errors import Unavailable
from corral.ports.requests import TraceSpan

TIMEOUT_S = 5.0
PATH = "/v1/traces"


class OtlpSpanExporter:
    """Sends trace spans of requests and loads to an OpenTelemetry collector over OTLP and HTTP.

    Implements `ports.requests.SpanExporter`.
    """

    def __init__(self, endpoint: str, *, version: str, frontend_id: str) -> None:
        """Make an exporter. `endpoint` is the collector's, as in `OTEL_EXPORTER_OTLP_ENDPOINT`: without the path."""
        # The library logs every failed batch; the loop that sends them logs the failure once.
        logging.getLogger("opentelemetry.exporter.otlp").setLevel(logging.CRITICAL)
        self._endpoint = endpoint.rstrip("/")
        self._exporter = OTLPSpanExporter(endpoint=f"{self._endpoint}{PATH}", timeout=TIMEOUT_S)
        about = {"service.name": "corral", "service.version": version, "service.instance.id": frontend_id}
        self._resource = Resource.create(about)
        self._scope = InstrumentationScope("corral", version)

    async def close(self) -> None:
        await asyncio.to_thread(self._exporter.shutdown)

    async def send(self, spans: Sequence[TraceSpan]) -> None:
        made = [self._to_readable_span(span) for span in spans]
        if await asyncio.to_thread(self._exporter.export, made) is not SpanExportResult.SUCCESS:
            raise Unavailable(f"The collector at {self._endpoint} does not accept spans.", hint="Check otlp_endpoint.")

    def _to_readable_span(self, span: TraceSpan) -> ReadableSpan:
        return ReadableSpan(
            name=span.name,
            context=_make_context(span.trace_id, span.span_id),
            parent=_make_context(span.trace_id, span.parent_id) if span.parent_id else None,
            resource=self._resource,
            attributes=span.attributes,
            events=[Event(name, timestamp=at_ns) for name, at_ns in span.events],
            kind=SpanKind.SERVER if span.is_server else SpanKind.CLIENT if span.is_client else SpanKind.INTERNAL,
            status=Status(StatusCode.ERROR, span.error) if span.error else Status(),
            start_time=span.begin_ns,
            end_time=span.end_ns,
            instrumentation_scope=self._scope,
        )


def _make_context(trace_id: str, span_id: str) -> SpanContext:
    sampled = TraceFlags(TraceFlags.SAMPLED)
    return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=False, trace_flags=sampled)
