"""Loads with real files and real engines, by a worker that is killed with SIGKILL in the middle of them."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest

from corral.adapters.system import SystemClock
from corral.bus.messages import BlobSource, LoadModel
from corral.domain.backend import Build
from corral.domain.model import CHUNK_BYTES
from corral.policy.gallery import build_to_json
from corral.runtime.tasks import TaskSet
from corral.worker.processes.system_process_control import SystemProcessControl
from tests.engines.engine_processes import version_of
from tests.support.polling import eventually
from tests.support.ports import find_free_port
from tests.worker.files.scene import PretendLibrary, item, some_bytes

ROOT = Path(__file__).parents[2]
BODY = some_bytes(2 * CHUNK_BYTES + 999)
FILE = item(BODY, "weights/model.gguf")


def load_of(job_id: str = "j1", **changes: Any) -> LoadModel:
    version = version_of("fake")
    build = Build(name="fake", version=version.version, source=version.source, manifest=version.manifest)
    values: dict[str, Any] = {
        "model": "org/qwen",
        "replica": 0,
        "revision": "r1",
        "backend": "fake",
        "build": build_to_json(build),
        "files": (FILE,),
        "places": (BlobSource(kind="library"),),
        "entry": FILE.path,
        "threads": 1,
        "ready_s": 60.0,
    }
    return LoadModel(job_id=job_id, **(values | changes))


@dataclass
class Loader:
    """One life of the worker."""

    process: asyncio.subprocess.Process
    seen: list[dict[str, Any]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    async def say(self, **command: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command).encode() + b"\n")
        await self.process.stdin.drain()

    async def load(self, command: LoadModel) -> None:
        await self.say(load=asdict(command))

    async def kill(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()

    async def until(self, look: Callable[[dict[str, Any]], Any]) -> Any:
        async def newest() -> Any:
            assert self.process.returncode is None, "\n".join(self.lines)
            return look(self.seen[-1]) if self.seen else None

        return await eventually(newest, within_s=60)

    async def running(self, state: str, key: str = "org/qwen#0") -> dict[str, Any]:
        def look(seen: dict[str, Any]) -> Any:
            return next((one for one in seen["running"] if (one["key"], one["state"]) == (key, state)), None)

        found: dict[str, Any] = await self.until(look)
        return found

    async def end(self, job_id: str = "j1") -> dict[str, Any]:
        def look(seen: dict[str, Any]) -> Any:
            over = ("done", "failed", "cancelled", "paused")
            return next((job for job in seen["jobs"] if job["job_id"] == job_id and job["state"] in over), None)

        found: dict[str, Any] = await self.until(look)
        return found

    async def read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            text = line.decode().rstrip()
            if text.startswith("seen: "):
                self.seen.append(json.loads(text.removeprefix("seen: ")))
            else:
                self.lines.append(text)


@dataclass
class LoaderScene:
    home: Path
    library: PretendLibrary
    port: int
    tasks: TaskSet
    lives: list[Loader] = field(default_factory=list)

    async def start(self) -> Loader:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.worker.programs.loader",
            str(self.home),
            self.library.url,
            str(self.port),
            cwd=ROOT,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            limit=1 << 20,
        )
        loader = Loader(process)
        self.lives.append(loader)
        self.tasks.start(loader.read(), name="read")
        return loader

    async def close(self) -> None:
        for loader in self.lives:
            await loader.kill()
        machine = SystemProcessControl(SystemClock())
        for marker in await machine.list_markers(str((self.home / "engines").resolve())):
            await machine.kill(None, marker)
        await self.tasks.close()


@asynccontextmanager
async def benched(root: Path) -> AsyncIterator[LoaderScene]:
    library = PretendLibrary()
    library.put(BODY)
    async with library.running():
        bench = LoaderScene(home=root / "worker", library=library, port=find_free_port(), tasks=TaskSet("loaders"))
        try:
            yield bench
        finally:
            await bench.close()


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[LoaderScene]:
    async with benched(tmp_path) as made:
        yield made


async def answers(process: dict[str, Any]) -> int:
    headers = {"Authorization": f"Bearer {process['engine_key']}"}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.get(f"http://{process['address']}/v1/models") as answer,
    ):
        return answer.status


def is_alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


@pytest.mark.behaviour("JOB-22")
async def test_load_from_nothing_to_an_engine_that_answers_and_its_next_worker(bench: LoaderScene):
    first = await bench.start()
    await first.load(load_of())
    end = await first.end()
    assert end["state"] == "done", end["error_text"]
    process = await first.running("ready")
    result = end["result"]
    assert {name: result[name] for name in ("key", "backend", "address")} == {
        "key": "org/qwen#0",
        "backend": "fake",
        "address": process["address"],
    }
    assert (result["threads"], result["engine_key"]) == ("1", process["engine_key"])
    assert int(result["ram_bytes"]) > 1 << 20
    assert await answers(process) == 200
    arguments = psutil.Process(process["pid"]).cmdline()
    (path,) = (Path(each.removeprefix("--model=")) for each in arguments if each.startswith("--model="))
    assert path.read_bytes() == BODY
    percents = [job["percent"] for seen in first.seen for job in seen["jobs"]]
    assert percents == sorted(percents)
    await first.kill()
    second = await bench.start()
    adopted = await second.running("ready")
    assert (adopted["pid"], adopted["revision"], adopted["engine_key"]) == (process["pid"], "r1", process["engine_key"])
    # The same once more, by another job and by the same one: it is there.
    await second.load(load_of("j2"))
    assert (await second.end("j2"))["result"]["address"] == process["address"]
    await second.load(load_of("j1"))
    assert (await second.end("j1"))["seq"] == end["seq"]
    assert (await second.running("ready"))["pid"] == process["pid"]
    assert bench.library.sent == len(BODY)
    # Another revision: the old process ends, and is named.
    await second.load(load_of("j3", revision="r2"))
    end = await second.end("j3")
    assert (end["state"], end["stopped"]) == ("done", ["org/qwen#0"])
    assert not is_alive(process["pid"])


async def test_worker_that_is_killed_while_it_fetches_files_goes_on_from_the_chunks_that_it_has(bench: LoaderScene):
    bench.library.gate, bench.library.open_until = asyncio.Event(), 1
    first = await bench.start()
    await first.load(load_of())
    part = bench.home / "models" / "blobs" / f"{FILE.sha256}.part"

    async def has_one_chunk() -> bool:
        return part.exists() and part.read_bytes()[:CHUNK_BYTES] == BODY[:CHUNK_BYTES]

    await eventually(has_one_chunk, within_s=60)
    await first.until(lambda seen: seen["jobs"][0]["phase"] == "staging")
    await first.kill()
    bench.library.gate.set()
    second = await bench.start()
    end = await second.end()
    assert end["state"] == "done", end["error_text"]
    assert [each.chunk for each in bench.library.requests].count(0) == 1
    assert await answers(await second.running("ready")) == 200


async def test_worker_that_is_killed_while_the_engine_loads_waits_for_the_same_process(bench: LoaderScene):
    first = await bench.start()
    await first.load(load_of(options={"load_s": "6"}))
    loading = await first.running("starting")
    await first.kill()
    assert is_alive(loading["pid"])
    second = await bench.start()
    end = await second.end()
    assert end["state"] == "done", end["error_text"]
    ready = await second.running("ready")
    assert (ready["pid"], ready["job_id"]) == (loading["pid"], "j1")
    assert await answers(ready) == 200


async def test_load_that_is_cancelled_while_the_engine_loads_ends_that_process_and_keeps_the_files(
    bench: LoaderScene,
):
    worker = await bench.start()
    await worker.load(load_of())
    other = await worker.running("ready")
    await worker.load(load_of("j2", replica=1, options={"load_s": "600"}))
    loading = await worker.running("starting", "org/qwen#1")
    await worker.say(cancel="j2")
    assert (await worker.end("j2"))["state"] == "cancelled"
    assert not is_alive(loading["pid"])
    assert await answers(other) == 200
    assert bench.library.sent == len(BODY)
    await worker.load(load_of("j3", replica=1))
    assert (await worker.end("j3"))["state"] == "done"
    assert bench.library.sent == len(BODY)


async def test_cancellation_right_before_a_kill_ends_the_process_that_was_loading(bench: LoaderScene):
    first = await bench.start()
    await first.load(load_of(options={"load_s": "600"}))
    loading = await first.running("starting")
    await first.kill()
    journal = bench.home / "journal" / "jobs"
    (path,) = journal.glob("*.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"stop": "cancel"}))
    second = await bench.start()
    assert (await second.end())["state"] == "cancelled"
    assert not is_alive(loading["pid"])


@pytest.mark.behaviour("NODE-83")
async def test_engine_that_fails_or_takes_too_long_is_reported_with_its_output_and_ends_nothing_else(
    bench: LoaderScene,
):
    worker = await bench.start()
    await worker.load(load_of())
    other = await worker.running("ready")
    await worker.load(load_of("j2", replica=1, options={"refuse_start": "no room for tensors"}))
    end = await worker.end("j2")
    assert (end["state"], end["error_code"]) == ("failed", "engine_failed"), end["error_text"]
    assert "no room for tensors" in end["error_text"]
    await worker.load(load_of("j3", replica=1, options={"load_s": "600"}, ready_s=1.0))
    end = await worker.end("j3")
    assert (end["state"], end["error_code"]) == ("failed", "load_timeout")
    assert "not ready after 1 s. That is what it was given for 16 MiB of files; load_timeout of" in end["error_text"]
    await worker.until(lambda seen: [one["key"] for one in seen["running"]] == ["org/qwen#0"])
    assert await answers(other) == 200
