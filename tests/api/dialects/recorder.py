"""An engine that remembers what it was sent and answers what the test says."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.serving.scene import put_model, put_replica, settled
from tests.support.frontends import RunningFrontend
from tests.support.nodes import join_node


@dataclass(slots=True)
class RecordedRequest:
    path: str
    headers: Mapping[str, str]
    size_bytes: int
    sha256: str
    # The first bytes.
    beginning: bytes


@dataclass
class Recorder:
    address: str = ""
    requests: list[RecordedRequest] = field(default_factory=list)
    # By path: status and JSON.
    answers: dict[str, tuple[int, Any]] = field(default_factory=dict)
    # By path: the events of a stream, which go before an answer.
    streams: dict[str, bytes] = field(default_factory=dict)
    # By path: the bytes of an answer, which go before both.
    bodies: dict[str, bytes] = field(default_factory=dict)
    # Paths that are never answered, and those of them whose caller has hung up.
    silent: set[str] = field(default_factory=set)
    hung_up: list[str] = field(default_factory=list)
    content_type: str = "application/json"

    async def handle(self, request: web.Request) -> web.Response:
        digest, size_bytes, beginning = hashlib.sha256(), 0, b""
        async for piece in request.content.iter_chunked(65536):
            digest.update(piece)
            size_bytes += len(piece)
            beginning = (beginning + piece)[:4096] if len(beginning) < 4096 else beginning
        self.requests.append(
            RecordedRequest(request.path, request.headers.copy(), size_bytes, digest.hexdigest(), beginning)
        )
        if request.path in self.silent:
            try:
                await asyncio.Event().wait()
            finally:
                self.hung_up.append(request.path)
        if request.path in self.bodies:
            return web.Response(body=self.bodies[request.path], content_type=self.content_type)
        if request.path in self.streams:
            return web.Response(body=self.streams[request.path], content_type="text/event-stream")
        status, content = self.answers.get(request.path, (200, {"path": request.path}))
        return web.json_response(content, status=status, content_type=self.content_type)


@asynccontextmanager
async def recorder(frontend: RunningFrontend, backend: str, **config: Any) -> AsyncIterator[Recorder]:
    """The engine of the model `chat`, whose backend this is."""
    made = Recorder()
    app = web.Application(client_max_size=1 << 30)
    app.router.add_route("*", "/{path:.*}", made.handle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    made.address = f"{host}:{port}"
    await put_model(frontend.database, backend=backend, **config)
    placed = await join_node(frontend, "recording")
    await put_replica(frontend.database, placed.id, made.address)
    await settled(frontend)
    try:
        yield made
    finally:
        await runner.cleanup()
