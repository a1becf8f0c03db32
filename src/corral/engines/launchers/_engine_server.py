"""The HTTP server of launchers whose engine has none of its own.

A launcher imports names of this module like any other; `corral.engines.read_launcher` puts this text in the place of
the import, because a launcher is one file that runs with `-I` in the engine's environment.
"""

from __future__ import annotations

import argparse
import asyncio
import hmac
import os
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

WAITING_MAX = 64
GRACE_S = 10.0


class ApiError(Exception):
    """Raised in an engine server when a call is to be answered with an error in OpenAI's format."""

    def __init__(self, status: int, message: str, code: str = "invalid_value") -> None:
        super().__init__(message)
        self.status, self.code = status, code

    def make_response(self) -> web.Response:
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        error = {"message": str(self), "type": kind, "param": None, "code": self.code}
        headers = {"Retry-After": "1"} if self.status == 503 else None
        return web.json_response({"error": error}, status=self.status, headers=headers)


class EngineServer:
    """HTTP server for engines that Corral implements in Python: checks the key, queues and counts the calls.

    Runs a few calls at a time.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self.name = options.name or Path(options.model).name
        self.key = read_key(options.api_key_env)
        self.engine: Any = None
        self.running = self.waiting = self.served = self.failed = 0
        self._slots = asyncio.Semaphore(options.parallel)
        self._pool = ThreadPoolExecutor(options.parallel)

    async def load(self, load: Callable[[], Any]) -> None:
        loading = asyncio.get_running_loop().run_in_executor(self._pool, load)
        await asyncio.wait([loading])
        if fault := loading.exception():
            print(f"error: the model cannot be loaded: {fault}", file=sys.stderr, flush=True)
            os._exit(1)
        self.engine = loading.result()
        print(f"ready: {self.name}", file=sys.stderr, flush=True)

    async def run_call(self, call: Callable[..., Any], *arguments: object) -> Any:
        """Run a call that computes in a thread and return its result."""
        if self.engine is None:
            raise ApiError(503, "Loading model", "loading")
        if self.waiting >= WAITING_MAX:
            raise ApiError(503, f"{WAITING_MAX} calls are waiting already.", "overloaded")
        self.waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self.waiting -= 1
        self.running += 1
        try:
            return await self._run_in_pool(call, *arguments)
        finally:
            self.running -= 1
            self._slots.release()

    async def _run_in_pool(self, call: Callable[..., Any], *arguments: object) -> Any:
        computing = asyncio.get_running_loop().run_in_executor(self._pool, call, self.engine, *arguments)
        await asyncio.wait([computing])
        fault = computing.exception()
        if fault is None or isinstance(fault, ApiError):
            return computing.result()
        traceback.print_exception(fault)
        raise ApiError(500, "The engine failed at this call; see its log.", "internal") from fault

    @web.middleware
    async def guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        key = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if self.key and request.path != "/health" and not hmac.compare_digest(key.encode(), self.key.encode()):
            return ApiError(401, "The key is missing or wrong.", "invalid_api_key").make_response()
        try:
            answer = await handler(request)
        except ApiError as refused:
            self.failed += 1
            return refused.make_response()
        except web.HTTPException as error:
            return ApiError(error.status, f"{error.reason}: {request.method} {request.path}", "http").make_response()
        self.served += request.method == "POST"
        return answer

    async def show_health(self, _request: web.Request) -> web.Response:
        if self.engine is None:
            return ApiError(503, "Loading model", "loading").make_response()
        return web.json_response({"status": "ok"})

    async def list_models(self, _request: web.Request) -> web.Response:
        model = {"id": self.name, "object": "model", "created": 0, "owned_by": "corral"}
        return web.json_response({"object": "list", "data": [model]})

    async def show_metrics(self, _request: web.Request) -> web.Response:
        numbers = {
            "corral_engine_requests_processing": ("gauge", self.running),
            "corral_engine_requests_waiting": ("gauge", self.waiting),
            "corral_engine_requests_total": ("counter", self.served),
            "corral_engine_requests_failed_total": ("counter", self.failed),
        }
        lines = [f"# TYPE {name} {kind}\n{name} {value}\n" for name, (kind, value) in numbers.items()]
        return web.Response(text="".join(lines), headers={"Content-Type": "text/plain; version=0.0.4"})


def read_key(variable: str) -> str:
    """Return the key that callers must send; a variable that was named and is empty must not disable the check."""
    key = os.environ.pop(variable, "") if variable else ""
    if variable and not key:
        print(f"error: {variable} is empty, so there is no key to check", file=sys.stderr, flush=True)
        raise SystemExit(1)
    return key


def make_parser(description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--check", action="store_true", help="load the engine, print its version and exit")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--model", default="")
    parser.add_argument("--name", default="", help="the model's public name")
    parser.add_argument("--threads", type=int, default=1, help="of one call")
    parser.add_argument("--parallel", type=int, default=1, help="calls at a time")
    parser.add_argument("--api-key-env", default="", help="the variable that holds the key that callers must send")
    return parser


def serve(
    options: argparse.Namespace,
    load: Callable[[], Any],
    routes: Mapping[str, Callable[..., Any]],
    *,
    body_limit_bytes: int,
) -> None:
    """Serve until SIGTERM; then running calls may end, and a load in progress is dropped."""
    server = EngineServer(options)
    app = web.Application(middlewares=[server.guard], client_max_size=body_limit_bytes)
    app.add_routes([web.get("/health", server.show_health), web.get("/v1/models", server.list_models)])
    app.add_routes([web.get("/metrics", server.show_metrics)])
    app.add_routes([web.post(path, partial(handler, server)) for path, handler in routes.items()])

    async def start(app: web.Application) -> None:
        app["loading"] = asyncio.create_task(server.load(load))

    app.on_startup.append(start)
    web.run_app(app, host=options.host, port=options.port, print=None, shutdown_timeout=GRACE_S)
    os._exit(0)
