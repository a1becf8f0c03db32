"""A node of the staging benchmark as a process of its own: it serves a file, or fetches it and tells how long it took.

python -m bench.staging_node serve <folder> <public key>                  prints its address, ends with its input
python -m bench.staging_node pull <folder> <library> <node> <ticket> <sha256> <size>     prints seconds
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import uvloop
from aiohttp import web

from corral.adapters.system import SystemClock
from corral.bus.messages import BlobSource, ModelFileItem
from corral.domain.operation import JobPhase
from corral.transfer.chunks import ChunkHasher
from corral.worker.files.chunk_client import LibraryAccess
from corral.worker.files.content_puller import PullOptions
from corral.worker.files.file_routes import TicketContext
from corral.worker.files.node_files import NodeFiles, NodeFilesDeps, compose_files
from corral.worker.http_server import WorkerHttpServer, open_listener


class NullWorkReport:
    """A `WorkReport` that ignores everything."""

    def on_phase(self, phase: JobPhase) -> None: ...

    def on_progress(self, current_bytes: int, total_bytes: int | None, file_name: str = "") -> None: ...


class ChunkListRoutes:
    """Serves chunk hashes of contents, as a frontend does."""

    def __init__(self, lists: dict[str, bytes]) -> None:
        self._lists = lists

    def add_to(self, application: web.Application) -> None:
        application.router.add_get("/api/node/{node}/blobs/{sha256}/chunks", self._send_list)

    def close(self) -> None:
        return

    async def _send_list(self, request: web.Request) -> web.Response:
        return web.Response(body=self._lists[request.match_info["sha256"]])


@dataclass(frozen=True)
class BenchNode:
    """Holds the files and the address of a node in the staging benchmark."""

    files: NodeFiles
    url: str


@asynccontextmanager
async def run_node(
    folder: Path, library_url: str, public_key: str, limit: int | None = None, lists: dict[str, bytes] | None = None
) -> AsyncIterator[BenchNode]:
    """Run a node as long as the block lasts."""
    parts = NodeFilesDeps(
        models_dir=folder,
        inbox_dir=folder / "inbox",
        library=LibraryAccess(urls=(library_url,), credential="", get_node_id=lambda: "bench"),
        tickets=TicketContext(get_ticket_key=lambda: public_key, get_node_id=lambda: "bench"),
        clock=SystemClock(),
        pull_options=PullOptions(headroom_bytes=0, bandwidth_bytes_per_s=limit),
    )
    files, routes = compose_files(parts)
    server = WorkerHttpServer(open_listener("127.0.0.1", 0), lambda: None, (routes, ChunkListRoutes(lists or {})))
    await files.start()
    await server.start()
    try:
        yield BenchNode(files, f"http://127.0.0.1:{server.port}")
    finally:
        await files.stop()
        await server.stop()


async def serve(folder: Path, public_key: str) -> None:
    (path,) = [path for path in (folder / "blobs").iterdir() if len(path.name) == 64]
    hasher = ChunkHasher()
    hasher.update(await asyncio.to_thread(path.read_bytes))
    blob = hasher.finish()
    async with run_node(folder, "", public_key, lists={blob.sha256: blob.chunks}) as running:
        print(running.url, flush=True)
        await asyncio.to_thread(sys.stdin.read)


async def pull(folder: Path, library: str, places: tuple[BlobSource, ...], file: ModelFileItem) -> float:
    async with run_node(folder, library, "") as running:
        began = time.perf_counter()
        await running.files.ensure_files("m", "r1", (file,), places, NullWorkReport())
        return time.perf_counter() - began


def main(verb: str, folder: str, *more: str) -> None:
    if verb == "serve":
        uvloop.run(serve(Path(folder), more[0]))
        return
    library, url, ticket, sha256, size = more
    place = BlobSource(kind="node", url=url, ticket=ticket)
    file = ModelFileItem(path="model.gguf", sha256=sha256, size_bytes=int(size))
    print(uvloop.run(pull(Path(folder), library, (place,), file)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
