"""A real HTTP server on the loopback whose answers a test sets, and which records its requests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from corral.adapters.http import HttpFetcher
from corral.adapters.system import SystemClock

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]

HTML = "<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body><p>Please sign in.</p></body></html>\n"


@dataclass
class Site:
    """`answers` by path; what has none is 404."""

    url: str
    answers: dict[str, Answer] = field(default_factory=dict)
    requests: list[web.BaseRequest] = field(default_factory=list)

    def text(self, path: str, text: str, *, status: int = 200, **headers: str) -> str:
        """Answer a path with a text; its address."""

        async def answer(_: web.Request) -> web.Response:
            return web.Response(text=text, status=status, headers={k.replace("_", "-"): v for k, v in headers.items()})

        self.answers[path] = answer
        return f"{self.url}{path}"

    def paths(self) -> list[str]:
        return [request.path for request in self.requests]


@asynccontextmanager
async def site() -> AsyncIterator[Site]:
    async def handle(request: web.Request) -> web.StreamResponse:
        made.requests.append(request)
        answer = made.answers.get(request.path)
        return await answer(request) if answer is not None else web.Response(status=404, text="nothing here")

    app = web.Application(client_max_size=0)
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    listener = web.TCPSite(runner, "127.0.0.1", 0)
    await listener.start()
    port = runner.addresses[0][1]
    made = Site(url=f"http://127.0.0.1:{port}")
    try:
        yield made
    finally:
        await runner.cleanup()


@asynccontextmanager
async def fetcher() -> AsyncIterator[HttpFetcher]:
    made = HttpFetcher(uses_proxies=False)
    try:
        yield made
    finally:
        await made.stop()


class HandClock(SystemClock):
    """A clock that a test moves by hand."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s
