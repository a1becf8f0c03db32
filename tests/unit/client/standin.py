"""A stand-in frontend: the real routes over real HTTP, with answers that a test can script."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

KEY = "ck_stand-in-key-0123456789"
NOON = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
GIB = 1024**3
STREAMS = ("/api/events", "/api/operations/events")
OPERATION = "01a1df0f-711a-745f-ac40-911e6c48d021"
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


def a_node(name: str = "gpu-a", **changes: Any) -> dict[str, Any]:
    node: dict[str, Any] = {
        "id": f"id-{name}", "name": name, "node_type": "backend", "status": "healthy", "status_reason": "All is well.",
        "schedulable": True, "address": "10.0.0.5:9000", "http_address": "10.0.0.5:9001", "boot_id": "boot-1",
        "version": "0.1.0", "max_replicas_per_model": 2, "max_replicas_per_model_manually_set": True,
        "vram_budget": "80%", "vram_budget_bytes": 19 * GIB, "vram_budget_manually_set": False,
        "labels": {"site": "attic", "gpu.vendor": "nvidia"}, "label_sources": {"site": "admin", "gpu.vendor": "auto"},
        "last_heartbeat": NOON.isoformat(), "created_at": NOON.isoformat(), "updated_at": NOON.isoformat(),
        "total_vram": 24 * GIB, "available_vram": 20 * GIB, "total_ram": 64 * GIB, "available_ram": 32 * GIB,
        "total_disk": 2000 * GIB, "available_disk": 0, "capability": "nvidia-cuda-12", "gpu_vendor": "nvidia",
        "gpus": [{"vendor": "nvidia", "name": "RTX 3090", "index": 0, "total_vram": 24 * GIB}],
        "conditions": [
            {"name": "approved", "holds": True, "since": NOON.isoformat(), "reason": "Approved by admin."},
            {"name": "alive", "holds": True, "since": NOON.isoformat(), "reason": "Heartbeats arrive."},
            {"name": "on_bus", "holds": None, "since": None, "reason": "Not known yet."},
        ],
    }  # fmt: skip
    return node | changes


def a_token(**changes: Any) -> dict[str, Any]:
    token: dict[str, Any] = {
        "id": "t1", "name": "rack 2", "prefix": "cj_9fKq", "uses": 0, "max_uses": 1, "approves": False,
        "expires_at": None, "revoked_at": None, "created_at": NOON.isoformat(), "created_by": "admin",
        "state": "active",
    }  # fmt: skip
    return token | changes


def join_commands(**changes: Any) -> dict[str, Any]:
    commands: dict[str, Any] = {
        "url": "http://yard:8080", "problem": None, "hint": None, "version": "0.1.0",
        "command": "curl -fsSL http://yard:8080/join | sh -s -- --token {token}",
        "command_without_curl": "python3 -c … | sh -s -- --token {token}",
        "worker_command": "corral worker --join http://yard:8080 --token {token}",
        "wheel_sha256": "a1b2", "script_sha256": "c3d4",
    }  # fmt: skip
    return commands | changes


def a_key(**changes: Any) -> dict[str, Any]:
    key: dict[str, Any] = {
        "id": "k1", "name": "ci", "prefix": "ck_4Fab", "created_at": NOON.isoformat(), "created_by": "admin",
        "expires_at": None, "revoked_at": None, "state": "active",
    }  # fmt: skip
    return key | changes


def a_cluster(**changes: Any) -> dict[str, Any]:
    cluster: dict[str, Any] = {
        "version": "0.1.0", "answered_by": "front-1", "postgres": {"state": "up", "detail": "18.4"},
        "nats": {"state": "up"}, "degraded": [],
        "leader": {"holder": "front-1", "term": 7, "acquired_at": NOON.isoformat(), "expires_at": None},
        "frontends": [
            {"id": "front-1", "host": "10.0.0.1", "port": 8080, "pid": 11, "version": "0.1.0", "alive": True,
             "leader": True, "started_at": NOON.isoformat(), "seen_at": NOON.isoformat()},
        ],
        "nodes": [{"id": "id-gpu-a", "name": "gpu-a", "status": "healthy", "status_reason": "All is well."}],
    }  # fmt: skip
    return cluster | changes


def a_target(name: str = "gpu-a", **changes: Any) -> dict[str, Any]:
    target: dict[str, Any] = {
        "node_id": f"id-{name}", "node_name": name, "status": "queued", "state": "queued", "file_name": "",
        "percentage": 0.0, "wave": 0, "attempt": 0, "version": "2.0.0", "previous_version": "", "job_id": "j1",
        "build": {"name": "cuda-engine", "version": "2.0.0", "meta": "engine", "gallery": "corral"},
    }  # fmt: skip
    return target | changes


def an_operation(**changes: Any) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "id": OPERATION, "jobID": OPERATION, "name": "engine", "fullName": "engine", "kind": "backend_install",
        "state": "running", "rev": 1, "progress": 0.0, "taskType": "installation", "isDeletion": False,
        "isBackend": True, "isQueued": False, "cancellable": True, "message": "Installing on 1 of 1 node",
        "createdBy": "admin", "createdAt": NOON.isoformat(), "updatedAt": NOON.isoformat(), "request": {},
        "nodes": [a_target()],
    }  # fmt: skip
    return operation | changes


def admitted(**changes: Any) -> dict[str, Any]:
    url = f"/api/backends/job/{OPERATION}"
    answer: dict[str, Any] = {
        "id": OPERATION, "jobID": OPERATION, "uuid": OPERATION, "statusUrl": url, "status_url": url,
        "message": "Installing engine is under way.", "state": "queued", "deduplicated": False,
    }  # fmt: skip
    return answer | changes


def hello() -> bytes:
    return b"id: 1-0\nevent: hello\ndata: {}\n\n"


def progress(rev: int, **changes: Any) -> bytes:
    """A step without a place of its own."""
    data = {"id": OPERATION, "rev": rev, "state": "running", "progress": 10.0, "nodes": []} | changes
    body = {"id": "", "kind": "operation.progress", "key": OPERATION, "at": NOON.isoformat(), "data": data}
    return f"event: operation.progress\ndata: {json.dumps(body)}\n\n".encode()


def refusal(status: int, code: str, message: str, hint: str | None = None) -> Answer:
    async def answer(request: web.Request) -> web.Response:
        body = {"code": code, "message": message, "hint": hint, "type": "corral_error", "request_id": "r-1"}
        return web.json_response({"error": body}, status=status)

    return answer


def json_answer(value: Any, status: int = 200) -> Answer:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response(value, status=status)

    return answer


async def hang_up(request: web.Request) -> web.Response:
    """Cut the connection without an answer, as a frontend does that is killed."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


@dataclass(frozen=True)
class SeenRequest:
    method: str
    path: str
    query: dict[str, str]
    headers: Mapping[str, str]
    body: Any


@dataclass
class StandIn:
    """`script["GET /api/nodes"]` is a list of answers; the last one stays."""

    script: dict[str, list[Answer]] = field(default_factory=dict)
    seen: list[SeenRequest] = field(default_factory=list)
    # One entry per connection to the event stream: what is written before it is cut.
    streams: list[bytes] = field(default_factory=list)
    # With this, the last stream stays open until the server ends.
    holds_last_stream: bool = False
    over: asyncio.Event = field(default_factory=asyncio.Event)
    keys: set[str] = field(default_factory=lambda: {KEY})
    url: str = ""

    def on(self, route: str, *answers: Answer) -> None:
        self.script[route] = list(answers)

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_route("*", "/{rest:.*}", self._handle)
        return app

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        content = await request.read()
        body = await request.json() if content and request.content_type == "application/json" else None
        self.seen.append(
            SeenRequest(
                request.method, request.raw_path.split("?")[0], dict(request.query), request.headers.copy(), body
            )
        )
        if request.headers.get("Authorization", "").removeprefix("Bearer ") not in self.keys:
            refused = refusal(401, "not_authenticated", "This key is not known.", "`corral login` stores another.")
            return await refused(request)
        if request.path in STREAMS and f"GET {request.path}" not in self.script:
            return await self._stream(request)
        answers = self.script.get(f"{request.method} {request.path}") or [refusal(404, "not_found", "Nothing here.")]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        return await answer(request)

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        if not self.streams:
            return await refusal(410, "script_ended", "The test's script is over.")(request)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(self.streams.pop(0))
        if self.holds_last_stream and not self.streams:
            await self.over.wait()
        return response


@contextmanager
def served_in_a_thread(standin: StandIn, tls: ssl.SSLContext | None = None) -> Iterator[StandIn]:
    """For commands that run their own event loop. `tls`: over https."""
    loop = asyncio.new_event_loop()
    runner = web.AppRunner(standin.app(), shutdown_timeout=1)

    async def start() -> None:
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        standin.url = f"{'https' if tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}"

    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(start(), loop).result(30)
        yield standin
    finally:
        loop.call_soon_threadsafe(standin.over.set)
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def an_event(number: int, kind: str = "node.approved", *, key: str = "id-gpu-a", **data: Any) -> bytes:
    body = {"id": f"1-{number}", "kind": kind, "key": key, "at": NOON.isoformat(), "data": data}
    return f"id: 1-{number}\nevent: {kind}\ndata: {json.dumps(body)}\n\n".encode()
