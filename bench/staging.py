"""Model files: one node against `curl` from nginx, and ten nodes against ten copies from one source.

One node fetches a file from another one, chunk by chunk with checksums; each is a process of its own. Baseline in the
same run: `curl` from nginx with `sendfile`, without checksums, and with `sha256sum` after it. Ten nodes: every node has
a line of the same width, in and out, held by the product's own limit on the bandwidth; baseline in the same run: all of
them from the one source.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from statistics import median

from bench.cluster import free_port
from bench.nginx import nginx
from bench.report import ReportRow, format_table, print_progress
from bench.staging_node import NullWorkReport, run_node
from corral.adapters.nats.keys import NatsKey, NatsKeyKind, new_key
from corral.adapters.system import SystemClock
from corral.bus.messages import BlobSource, ModelFileItem
from corral.ports.credentials import BLOB_READ_SCOPE
from corral.transfer.chunks import ChunkHasher
from corral.transfer.tickets import Ticket, sign_ticket

MIB = 1024 * 1024
ONE_BYTES = 1024 * MIB
ROUNDS = 5
NODES = 10
SWARM_BYTES = 256 * MIB
# The width of every node's line: narrow enough that ten of them do not fill one machine.
LINE_BYTES_PER_S = 16 * MIB


def run() -> str:
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as folder:
        return f"{_one_node(Path(folder))}\n{asyncio.run(_ten_nodes(Path(folder)))}"


# --- one node ---


def _one_node(folder: Path) -> str:
    source, key = folder / "source", new_key(NatsKeyKind.ACCOUNT)
    file = _made(source, ONE_BYTES)
    seconds: dict[str, list[float]] = {"corral": [], "curl": [], "checked": []}
    with _nginx(folder, source / "blobs") as address, _served(source, key) as url:
        for number in range(ROUNDS + 1):
            print_progress(f"one node, round {number} of {ROUNDS}")
            corral = _pull(folder / "there", url, key, file)
            curl, checked = _curl(f"{address}/{file.sha256}", folder / "copy", file.sha256)
            # The first round warms the caches.
            if number:
                for name, value in (("corral", corral), ("curl", curl), ("checked", checked)):
                    seconds[name].append(value)
    rows = [
        _rate("Corral: node to node, every chunk verified", seconds["corral"]),
        _rate("curl from nginx, then sha256sum", seconds["checked"]),
        _rate("curl from nginx, nothing verified", seconds["curl"]),
    ]
    return format_table(f"One node, {ONE_BYTES // MIB:,} MiB, median of {ROUNDS}", rows, ratio_of=("MiB/s",))


def _rate(name: str, seconds: list[float]) -> ReportRow:
    return ReportRow(name, {"MiB/s": ONE_BYTES / MIB / median(seconds), "s": median(seconds)})


def _made(folder: Path, size_bytes: int) -> ModelFileItem:
    """Make a content in the store of a node that is not running yet."""
    blobs = folder / "blobs"
    blobs.mkdir(parents=True, exist_ok=True)
    found, path = hashlib.sha256(), blobs / "new"
    with path.open("wb") as out:
        for _ in range(size_bytes // MIB):
            piece = os.urandom(MIB)
            found.update(piece)
            out.write(piece)
        # What is still to be written would be written during the first rounds.
        os.fsync(out.fileno())
    path.rename(blobs / found.hexdigest())
    return ModelFileItem(path="model.gguf", sha256=found.hexdigest(), size_bytes=size_bytes)


def _ticket(key: NatsKey) -> str:
    expires_at = int(SystemClock().wall().timestamp()) + 3600
    return sign_ticket(Ticket(reader="bench", scope=BLOB_READ_SCOPE, expires_at=expires_at), key.sign)


@contextmanager
def _served(folder: Path, key: NatsKey) -> Iterator[str]:
    command = [sys.executable, "-m", "bench.staging_node", "serve", str(folder), key.public]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        yield process.stdout.readline().strip()
        process.stdin.close()
        process.wait(timeout=20)


def _pull(folder: Path, url: str, key: NatsKey, file: ModelFileItem) -> float:
    command = [sys.executable, "-m", "bench.staging_node", "pull", str(folder), url, url, _ticket(key)]
    command += [file.sha256, str(file.size_bytes)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    shutil.rmtree(folder)
    return float(done.stdout)


def _curl(url: str, path: Path, sha256: str) -> tuple[float, float]:
    """Return the seconds for the file, and for the file and its checksum."""
    command = ["curl", "--silent", "--fail", "--output", str(path), "--write-out", "%{time_total}", url]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    began = time.perf_counter()
    summed = subprocess.run(["sha256sum", str(path)], check=True, capture_output=True, text=True)
    checked = time.perf_counter() - began
    assert summed.stdout.startswith(sha256)
    path.unlink()
    return float(done.stdout), float(done.stdout) + checked


@contextmanager
def _nginx(folder: Path, root: Path) -> Iterator[str]:
    port = free_port()
    with nginx(folder, port, f"server {{ listen 127.0.0.1:{port}; root {root}; }}"):
        yield f"http://127.0.0.1:{port}"


# --- ten nodes ---


async def _ten_nodes(folder: Path) -> str:
    source = folder / "swarm-source"
    file = await asyncio.to_thread(_made, source, SWARM_BYTES)
    hasher = ChunkHasher()
    hasher.update((source / "blobs" / file.sha256).read_bytes())
    lists, key = {file.sha256: hasher.finish().chunks}, new_key(NatsKeyKind.ACCOUNT)
    print_progress("one node on a narrow line")
    one = await _spread(folder / "one", source, file, lists, key, count=1, is_chain=False)
    print_progress("ten nodes from node to node")
    chain = await _spread(folder / "chain", source, file, lists, key, count=NODES, is_chain=True)
    print_progress("ten nodes from one source")
    star = await _spread(folder / "star", source, file, lists, key, count=NODES, is_chain=False)
    rows = [
        ReportRow(f"{NODES} nodes, from node to node", {"s": chain, "times one node": chain / one}),
        ReportRow(f"{NODES} nodes, all from one source", {"s": star, "times one node": star / one}),
        ReportRow("one node", {"s": one, "times one node": 1.0}),
    ]
    line = LINE_BYTES_PER_S // MIB
    return format_table(
        f"{SWARM_BYTES // MIB} MiB to {NODES} nodes, {line} MiB/s in and out of each", rows, ratio_of=("s",)
    )


async def _spread(
    folder: Path,
    source: Path,
    file: ModelFileItem,
    lists: dict[str, bytes],
    key: NatsKey,
    *,
    count: int,
    is_chain: bool,
) -> float:
    """Return the seconds until the last node has the file."""
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(run_node(source, "", key.public, LINE_BYTES_PER_S, lists))
        nodes = [
            await stack.enter_async_context(run_node(folder / str(number), first.url, key.public, LINE_BYTES_PER_S))
            for number in range(count)
        ]
        urls = [first.url, *(each.url for each in nodes)]
        began = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for number, each in enumerate(nodes):
                # As the control plane does it: whoever has the fewest askers, and the source as the last resort.
                operations = [urls[number], first.url] if is_chain else [first.url]
                places = tuple(BlobSource(kind="node", url=url, ticket=_ticket(key)) for url in operations)
                group.create_task(each.files.ensure_files("m", "r1", (file,), places, NullWorkReport()))
        seconds = time.perf_counter() - began
    shutil.rmtree(folder)
    return seconds
