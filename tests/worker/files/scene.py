"""Nodes with files in one process, each with its own port, and a library that can misbehave."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from corral.adapters.nats.keys import NatsKeyKind, new_key
from corral.adapters.system import SystemClock
from corral.bus.messages import BlobSource, ModelFileItem
from corral.domain.model import CHUNK_BYTES, Blob
from corral.domain.operation import JobPhase
from corral.ports.credentials import BLOB_READ_SCOPE
from corral.transfer.chunks import ChunkHasher
from corral.transfer.inbox import Inbox
from corral.transfer.tickets import Ticket, sign_ticket
from corral.worker.files.blob_store import BlobStore
from corral.worker.files.chunk_client import LibraryAccess
from corral.worker.files.content_puller import BandwidthThrottle, ContentPuller, PullOptions
from corral.worker.files.file_routes import FileRoutes, FileRoutesOptions, TicketContext
from corral.worker.files.node_files import NodeFiles
from corral.worker.http_server import WorkerHttpServer, open_listener

MIB = 1024 * 1024
ACCOUNT = new_key(NatsKeyKind.ACCOUNT)
CREDENTIAL = "cn_of-the-tests"
# What a wrong, silent or dying server does instead of answering with a range.
Fault = Callable[[web.Request, bytes], Awaitable[web.StreamResponse]]


def some_bytes(count: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(count)


def blob_of(body: bytes) -> Blob:
    hasher = ChunkHasher()
    hasher.update(body)
    return hasher.finish()


def item(body: bytes, path: str = "model.gguf") -> ModelFileItem:
    return ModelFileItem(path=path, sha256=hashlib.sha256(body).hexdigest(), size_bytes=len(body))


def ticket(*, reader: str = "reader", scope: str = BLOB_READ_SCOPE, audience: str = "*", life_s: float = 600) -> str:
    expires_at = int(SystemClock().wall().timestamp() + life_s)
    return sign_ticket(Ticket(reader=reader, scope=scope, expires_at=expires_at, audience=audience), ACCOUNT.sign)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Every count of bytes that a limit lets through from now on."""
    taken: list[int] = []
    take = BandwidthThrottle.take

    async def counting(self: BandwidthThrottle, count: int) -> None:
        if not self.is_unlimited:
            taken.append(count)
        await take(self, count)

    monkeypatch.setattr(BandwidthThrottle, "take", counting)
    return taken


class RecordingReport:
    """A report that remembers."""

    def __init__(self) -> None:
        self.moves: list[tuple[int, int | None]] = []

    def on_phase(self, phase: JobPhase) -> None: ...

    def on_progress(self, current_bytes: int, total_bytes: int | None, file_name: str = "") -> None:
        self.moves.append((current_bytes, total_bytes))


@dataclass
class ServedChunk:
    """One request for bytes of a content. `node` is empty if it did not come by the route of the nodes."""

    sha256: str
    chunk: int
    node: str = ""
    sent: int = 0


@dataclass
class PretendLibrary:
    """A frontend's library: lists of chunks, and bytes, with faults on demand."""

    contents: dict[str, bytes] = field(default_factory=dict)
    # By chunk; one for each request, in order.
    faults: dict[int, list[Fault]] = field(default_factory=dict)
    requests: list[ServedChunk] = field(default_factory=list)
    lists: int = 0
    # Bytes are refused, lists of chunks are told.
    has_no_bytes: bool = False
    is_away: bool = False
    # Promises to keep the connection, and closes it after every answer.
    closes: bool = False
    # What it says of its copy when wrong bytes are reported, one for each report; none: it is an older frontend.
    verdicts: list[bool | None] = field(default_factory=list)
    reports: int = 0
    # Set: bytes of later chunks wait.
    gate: asyncio.Event | None = None
    open_until: int = 0
    _server: TestServer | None = None

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://{self._server.host}:{self._server.port}"

    @property
    def sent(self) -> int:
        return sum(each.sent for each in self.requests)

    def requests_of(self, node: str) -> list[ServedChunk]:
        return [each for each in self.requests if each.node == node]

    def put(self, *bodies: bytes) -> None:
        self.contents.update({hashlib.sha256(body).hexdigest(): body for body in bodies})

    @asynccontextmanager
    async def running(self) -> AsyncIterator[PretendLibrary]:
        application = web.Application()
        application.router.add_get("/api/node/{node}/blobs/{sha256}", self._bytes)
        application.router.add_get("/api/node/{node}/blobs/{sha256}/chunks", self._chunks)
        application.router.add_post("/api/node/{node}/blobs/{sha256}/damage", self._damage)
        # The same as an address of storage, without anything to show.
        application.router.add_get("/storage/{sha256}", self._bytes)
        application.router.add_get("/peer/v1/blobs/{sha256}", self._bytes)
        self._server = TestServer(application)
        async with self._server:
            yield self

    async def _chunks(self, request: web.Request) -> web.StreamResponse:
        assert request.headers["Authorization"] == f"Bearer {CREDENTIAL}"
        self.lists += 1
        body = self.contents.get(request.match_info["sha256"])
        if body is None or self.is_away:
            return web.Response(status=503 if self.is_away else 404)
        return web.Response(body=blob_of(body).chunks)

    async def _damage(self, request: web.Request) -> web.StreamResponse:
        assert request.headers["Authorization"] == f"Bearer {CREDENTIAL}"
        self.reports += 1
        return web.json_response({"is_right": self.verdicts.pop(0)}) if self.verdicts else web.Response(status=404)

    async def _bytes(self, request: web.Request) -> web.StreamResponse:
        if request.path.startswith("/api/"):
            assert request.headers["Authorization"] == f"Bearer {CREDENTIAL}"
        sha256 = request.match_info["sha256"]
        body = self.contents.get(sha256)
        if body is None or self.is_away or self.has_no_bytes:
            return web.Response(status=503 if self.is_away else 404)
        first, _, last = request.headers["Range"].removeprefix("bytes=").partition("-")
        start, end = int(first), int(last) + 1
        served = ServedChunk(sha256, start // CHUNK_BYTES, request.match_info.get("node", ""))
        self.requests.append(served)
        if self.gate is not None and served.chunk >= self.open_until:
            await self.gate.wait()
        piece = body[start:end]
        faults = self.faults.get(served.chunk)
        if faults:
            return await faults.pop(0)(request, piece)
        response = _ranged(start, len(body), len(piece))
        with contextlib.suppress(ConnectionError):
            await response.prepare(request)
            for offset in range(0, len(piece), MIB):
                await response.write(piece[offset : offset + MIB])
                served.sent += len(piece[offset : offset + MIB])
        if self.closes:
            await response.write_eof()
            assert request.transport is not None
            request.transport.close()
        return response


def _ranged(start: int, total: int, length: int) -> web.StreamResponse:
    response = web.StreamResponse(status=206)
    response.headers["Content-Range"] = f"bytes {start}-{start + length - 1}/{total}"
    response.content_length = length
    return response


# --- faults ---


async def wrong(request: web.Request, piece: bytes) -> web.StreamResponse:
    response = _ranged(0, len(piece), len(piece))
    await response.prepare(request)
    await response.write(piece[:-1] + bytes([piece[-1] ^ 1]))
    return response


async def dies(request: web.Request, piece: bytes) -> web.StreamResponse:
    """In the middle of a chunk."""
    response = _ranged(0, len(piece), len(piece))
    await response.prepare(request)
    await response.write(piece[: len(piece) // 2])
    assert request.transport is not None
    request.transport.abort()
    return response


async def longer(request: web.Request, piece: bytes) -> web.StreamResponse:
    response = _ranged(0, len(piece), len(piece) + 1)
    await response.prepare(request)
    await response.write(piece + b"x")
    return response


async def shorter(request: web.Request, piece: bytes) -> web.StreamResponse:
    response = _ranged(0, len(piece), len(piece) - 1)
    await response.prepare(request)
    await response.write(piece[:-1])
    return response


def silent(until: asyncio.Event) -> Fault:
    async def answer(request: web.Request, piece: bytes) -> web.StreamResponse:
        response = _ranged(0, len(piece), len(piece))
        with contextlib.suppress(ConnectionError):
            await response.prepare(request)
            await response.write(piece[:1000])
            await until.wait()
        return response

    return answer


async def broken(request: web.Request, piece: bytes) -> web.StreamResponse:
    return web.Response(status=500)


@dataclass
class Node:
    name: str
    store: BlobStore
    puller: ContentPuller
    files: NodeFiles
    inbox: Inbox
    port: int
    # A worker that has just started knows the places of its jobs and not yet who it is.
    is_registered: bool = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def place(self, **more: object) -> BlobSource:
        return BlobSource(kind="node", url=self.url, ticket=ticket(audience=self.name), node=self.name, **more)  # type: ignore[arg-type]

    async def have(self, *items: ModelFileItem, places: tuple[BlobSource, ...] = (), model: str = "m") -> Path:
        return await self.files.ensure_files(model, "r1", items, places, RecordingReport())


LIBRARY = BlobSource(kind="library")
QUICK = PullOptions(stall_s=5.0, header_s=10.0, patience_s=30.0, headroom_bytes=0)


class Scene:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.library = PretendLibrary()
        self._stack = AsyncExitStack()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Scene]:
        async with self._stack:
            await self._stack.enter_async_context(self.library.running())
            yield self

    def peer_place(self, library: PretendLibrary | None = None) -> BlobSource:
        """A pretend library that passes for another node."""
        return BlobSource(kind="node", url=f"{(library or self.library).url}/peer", ticket="t")

    async def another_library(self) -> PretendLibrary:
        return await self._stack.enter_async_context(PretendLibrary().running())

    async def node(
        self,
        name: str = "node-1",
        options: PullOptions = QUICK,
        *,
        serve: FileRoutesOptions | None = None,
        shared_dir: Path | None = None,
        is_registered: bool = True,
    ) -> Node:
        node = await self._stack.enter_async_context(self.running_node(name, options, serve, shared_dir))
        node.is_registered = is_registered
        return node

    @asynccontextmanager
    async def running_node(
        self,
        name: str = "node-1",
        options: PullOptions = QUICK,
        serve: FileRoutesOptions | None = None,
        shared_dir: Path | None = None,
    ) -> AsyncIterator[Node]:
        clock = SystemClock()
        store = BlobStore(self.root / name, clock, shared_dir=shared_dir)
        library = LibraryAccess(
            urls=(self.library.url,), credential=CREDENTIAL, get_node_id=lambda: name if node.is_registered else None
        )
        puller = ContentPuller(store, library, clock, options)
        inbox = Inbox(self.root / name / "inbox", shows_paths=True)
        gate = TicketContext(get_ticket_key=lambda: ACCOUNT.public, get_node_id=lambda: name)
        routes = FileRoutes(store, inbox, gate, clock, serve)
        server = WorkerHttpServer(open_listener("127.0.0.1", 0), lambda: None, (routes,))
        files = NodeFiles(store, puller, inbox, clock)
        await files.start()
        await server.start()
        node = Node(name=name, store=store, puller=puller, files=files, inbox=inbox, port=server.port)
        try:
            yield node
        finally:
            await files.stop()
            await server.stop()
