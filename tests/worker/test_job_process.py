"""Jobs of a real worker process: killed in the middle, stopped, and followed over a real bus."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import io
import signal
import tarfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from corral.adapters.system import SystemIdGenerator
from corral.bus import subjects
from corral.bus.messages import BackendCommand, GetJobs, JobEvent, ListBackends, ListRunning, StartBackend
from corral.domain.backend import BackendSource, Build, Manifest, ReadyProbe, SourceKind
from corral.domain.errors import CorralError
from corral.domain.operation import JobState
from corral.policy.gallery import build_to_json
from corral.ports.bus import Delivery
from tests.support.frontends import RunningFrontend
from tests.support.nodes import create_join_token
from tests.support.polling import eventually
from tests.worker.conftest import StartProcess

MIB = 1 << 20
HALF = 2 * MIB
ENGINE = b"""
import http.server, sys

class Engine(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass

http.server.HTTPServer((sys.argv[1], int(sys.argv[2])), Engine).serve_forever()
"""


def package(name: str) -> bytes:
    """An engine as an archive, of which two halves can be served. Each has content of its own."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for path, content in (("engine.py", ENGINE), ("name", name.encode()), ("weights.bin", bytes(2 * HALF))):
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return data.getvalue()


class SlowSource:
    """Gives one half, and the rest when it is let."""

    def __init__(self) -> None:
        self.url = ""
        self.is_let = asyncio.Event()
        self.ranges: list[str | None] = []

    async def serve(self, request: web.Request) -> web.StreamResponse:
        data, requested_range = package(request.match_info["name"]), request.headers.get("Range")
        if request.method == "HEAD":
            return web.Response(headers={"ETag": '"1"', "Content-Length": str(len(data))})
        self.ranges.append(requested_range)
        start = int(requested_range.removeprefix("bytes=").removesuffix("-")) if requested_range else 0
        response = web.StreamResponse(status=206 if requested_range else 200, headers={"ETag": '"1"'})
        response.content_length = len(data) - start
        if requested_range:
            response.headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        await response.prepare(request)
        # The worker may be gone by the time that the rest is let.
        with contextlib.suppress(ConnectionError):
            await response.write(data[start : max(start, HALF)])
            await self.is_let.wait()
            await response.write(data[max(start, HALF) :])
        return response

    def command(self, name: str = "tiny") -> BackendCommand:
        digest = hashlib.sha256(package(name)).hexdigest()
        source = BackendSource(kind=SourceKind.URL, uri=f"{self.url}/{name}.tar", sha256=digest)
        manifest = Manifest(
            command=("{python}", "{dir}/engine.py", "{host}", "{port}"), ready=ReadyProbe(path="/", timeout_s=60)
        )
        build = Build(name=name, version="1", source=source, manifest=manifest, meta="engine")
        ids = SystemIdGenerator()
        return BackendCommand(job_id=ids.new_id(), generation=1, backend=name, build=build_to_json(build))


@pytest.fixture
async def source() -> AsyncIterator[SlowSource]:
    slow = SlowSource()
    app = web.Application()
    app.router.add_get("/{name}.tar", slow.serve)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    slow.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield slow
    slow.is_let.set()
    await runner.cleanup()


class JobListener:
    """What a frontend hears of jobs, and what it asks."""

    def __init__(self, cluster: RunningFrontend, node_id: str) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.events: list[JobEvent] = []

    async def take(self, delivery: Delivery[JobEvent]) -> None:
        self.events.append(delivery.message)

    async def until_fetched(self, size_bytes: int) -> None:
        async def look() -> bool:
            return any((event.current_bytes or 0) >= size_bytes for event in self.events)

        await eventually(look)

    async def end(self, job_id: str) -> JobEvent:
        async def look() -> JobEvent | None:
            ended = [each for each in self.events if each.job_id == job_id and JobState(each.state).is_final]
            return ended[0] if ended else None

        return await eventually(look) or pytest.fail("it did not end")

    async def is_known(self, job_id: str) -> JobEvent | None:
        try:
            answer = await self.cluster.bus.request(subjects.JOBS_GET, GetJobs(job_ids=(job_id,)), node=self.node_id)
        except CorralError:
            return None
        return answer.jobs[0] if answer.jobs else None


@asynccontextmanager
async def hearing(cluster: RunningFrontend) -> AsyncIterator[JobListener]:
    async def node() -> str:
        status, found = await cluster.call("GET", "/api/nodes/gpu-a")
        facts = {fact["name"]: fact["holds"] for fact in found["conditions"]} if status == 200 else {}
        return str(found["id"]) if facts.get("on_bus") else ""

    ear = JobListener(cluster, await eventually(node, within_s=60))
    subscription = await cluster.bus.subscribe(subjects.JOB_EVENT, ear.take, node=ear.node_id)
    yield ear
    await subscription.cancel()


@pytest.mark.behaviour("JOB-5")
async def test_killed_worker_finishes_the_job_by_itself_with_the_same_id_growing_numbers_and_the_bytes_it_had(
    cluster: RunningFrontend, start_process: StartProcess, source: SlowSource
):
    first = await start_process(token=await create_join_token(cluster, approves=True))
    async with hearing(cluster) as ear:
        command = source.command()
        accepted = await cluster.bus.request(subjects.BACKEND_INSTALL, command, node=ear.node_id)
        await ear.until_fetched(HALF // 2)
        first.send(signal.SIGKILL)
        await first.ended()
        events_before = len(ear.events)
        source.is_let.set()
        await start_process()
        end = await ear.end(command.job_id)
        assert (end.state, end.percent, end.result["version"]) == ("done", 100.0, "1")
        numbers = [event.seq for event in ear.events]
        assert numbers == sorted(set(numbers))
        assert ear.events[events_before].seq > ear.events[events_before - 1].seq
        assert source.ranges[0] is None
        assert source.ranges[1] is not None
        # Sent once more by a frontend that knows nothing of all this.
        again = await cluster.bus.request(subjects.BACKEND_INSTALL, command, node=ear.node_id)
        assert again.job == end
        assert again.boot_id != accepted.boot_id
        listed = await cluster.bus.request(subjects.BACKEND_LIST, ListBackends(), node=ear.node_id)
        assert [(each.name, each.generation) for each in listed.backends] == [("tiny", 1)]


@pytest.mark.behaviour("OPS-85")
async def test_stopped_worker_keeps_its_download_ends_its_engines_goes_offline_and_exits_with_0(
    cluster: RunningFrontend, start_process: StartProcess, source: SlowSource, tmp_path: Path
):
    worker = await start_process(token=await create_join_token(cluster, approves=True))
    async with hearing(cluster) as ear:
        # One engine that runs, and the download of another.
        source.is_let.set()
        installed = source.command()
        await cluster.bus.request(subjects.BACKEND_INSTALL, installed, node=ear.node_id)
        assert (await ear.end(installed.job_id)).state == "done"
        start = StartBackend(job_id=SystemIdGenerator().new_id(), backend="engine", model="qwen")
        await cluster.bus.request(subjects.BACKEND_START, start, node=ear.node_id)
        started = await ear.end(start.job_id)
        assert started.state == "done", started.error_text
        source.is_let.clear()
        ear.events.clear()
        fetching = source.command("other")
        await cluster.bus.request(subjects.BACKEND_INSTALL, fetching, node=ear.node_id)
        await ear.until_fetched(HALF // 2)
        (process,) = (await cluster.bus.request(subjects.MODELS_RUNNING, ListRunning(), node=ear.node_id)).processes
        assert Path(f"/proc/{process.pid}").exists()
        worker.send(signal.SIGTERM)
        assert await worker.ended() == 0
        assert not Path(f"/proc/{process.pid}").exists()
        assert "left the cluster" in worker.output
        assert not any(JobState(event.state).is_final for event in ear.events)
        status, node = await cluster.call("GET", "/api/nodes/gpu-a")
        assert (status, node["status"]) == (200, "offline")
        source.is_let.set()
        requests_before = len(source.ranges)
        await start_process()
        assert (await ear.end(fetching.job_id)).state == "done"
        assert source.ranges[requests_before] is not None
        assert await ear.is_known(fetching.job_id) == await ear.end(fetching.job_id)
