"""A collector of traces: OTLP over HTTP, as its specification has it."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


@dataclass
class Collector:
    url: str = ""
    spans: list[Span] = field(default_factory=list)
    # Of whoever sent them.
    about: dict[str, str] = field(default_factory=dict)
    # What it answers instead of taking spans.
    refuses_with: int = 0

    async def take(self, request: web.Request) -> web.Response:
        if self.refuses_with:
            return web.Response(status=self.refuses_with)
        body = await request.read()
        if request.headers.get("content-encoding") == "gzip" and body[:2] == b"\x1f\x8b":
            body = gzip.decompress(body)
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.about = {one.key: one.value.string_value for one in resource.resource.attributes}
            self.spans += [span for scope in resource.scope_spans for span in scope.spans]
        return web.Response(content_type="application/x-protobuf")

    def named(self, name: str) -> Span:
        (found,) = [span for span in self.spans if span.name == name]
        return found


def attributes(span: Span) -> dict[str, str | int]:
    return {one.key: one.value.string_value or one.value.int_value for one in span.attributes}


@asynccontextmanager
async def collecting() -> AsyncIterator[Collector]:
    collector = Collector()
    app = web.Application()
    app.router.add_post("/v1/traces", collector.take)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    collector.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield collector
    finally:
        await runner.cleanup()
