"""The built-in gallery's engines as real processes, made ready and started as a worker does it."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp

from corral.backends.index import parse_index
from corral.bus.messages import StartBackend
from corral.domain.backend import BackendVersion, GalleryEntry, Manifest, SourceKind
from corral.engines import list_gallery_files, read_launcher
from corral.worker.job_ports import RunnableBackend
from corral.worker.processes.launch import LAUNCHER_NAME, EngineAllocation, make_launch
from tests.support.cache_folder import ensure_cached_folder, run_uv, write_requirements_file
from tests.support.polling import eventually
from tests.support.ports import find_free_port

KEY = "a-key-for-tests"
LLAMA = "cpu-llama-cpp"


def entries() -> dict[str, GalleryEntry]:
    found: dict[str, GalleryEntry] = {}
    for path in list_gallery_files():
        index = parse_index(path.read_text(encoding="utf-8"), "builtin")
        assert index.warnings == (), path.name
        found |= {entry.name: entry for entry in index.entries}
    return found


def version_of(name: str, version: str = "") -> BackendVersion:
    """One version of an entry; the newest if none is named."""
    versions = entries()[name].versions
    return versions[0] if not version else next(item for item in versions if item.version == version)


def interpreter(name: str, version: BackendVersion) -> Path:
    """What runs the engine: an environment of its own with exactly what the gallery says, or ours if it has none."""
    source = version.source
    if source.kind is SourceKind.BUNDLED:
        return Path(sys.executable)
    key = "\n".join([*source.requirements, sys.version])
    folder = ensure_cached_folder(
        "engines", f"{name}-{version.version}", key, partial(_make_environment, source.requirements)
    )
    return folder / "venv" / "bin" / "python"


def _make_environment(requirements: tuple[str, ...], folder: Path) -> None:
    pinned_file = write_requirements_file(folder, requirements)
    venv = folder / "venv"
    run_uv("venv", "--relocatable", "--python", sys.executable, venv)
    run_uv("pip", "install", "--python", venv, "--no-deps", "--no-build", "--require-hashes", "-r", pinned_file)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    status: int
    content: bytes
    headers: Mapping[str, str]

    def json(self) -> Any:
        return json.loads(self.content)


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    process: subprocess.Popen[bytes]
    url: str
    log: Path
    manifest: Manifest
    # The statuses of its health on the way to being ready.
    healths: set[int] = field(default_factory=set)

    async def ready(self) -> None:
        async def is_ready() -> bool:
            assert self.process.poll() is None, self.read_log()
            self.healths.add(await self.health())
            return 200 in self.healths

        await eventually(is_ready, within_s=90.0)

    async def health(self) -> int:
        """Its status, and 0 while nothing listens."""
        try:
            return (await self.get(self.manifest.ready.path, key="")).status
        except aiohttp.ClientConnectionError:
            return 0

    async def get(self, path: str, *, key: str = KEY) -> Call:
        async with self._session(key) as session, session.get(path) as answer:
            return Call(status=answer.status, content=await answer.read(), headers=answer.headers.copy())

    async def post(self, path: str, body: Any, *, key: str = KEY) -> Call:
        if isinstance(body, bytes):
            body = io.BytesIO(body)
        given = {"data": body} if isinstance(body, (io.BytesIO, aiohttp.FormData)) else {"json": body}
        async with self._session(key) as session, session.post(path, **given) as answer:
            return Call(status=answer.status, content=await answer.read(), headers=answer.headers.copy())

    async def chat(self, text: str, **more: object) -> Call:
        body = {"messages": [{"role": "user", "content": text}], "temperature": 0, "max_tokens": 24} | more
        return await self.post("/v1/chat/completions", body)

    async def numbers(self) -> dict[str, float]:
        """What it says about itself, by the names that its manifest gives to the metrics."""
        names = dict(self.manifest.metrics)
        lines = (await self.get(names.pop("path"))).content.decode().splitlines()
        values = {line.split()[0].partition("{")[0]: float(line.split()[-1]) for line in lines if line[:1] not in "#"}
        return {ours: values[theirs] for ours, theirs in names.items() if not ours.startswith("answer_")}

    def read_log(self) -> str:
        return self.log.read_text(errors="replace")[-4000:]

    async def ended(self) -> int:
        """By itself; the exit code."""

        async def has_ended() -> bool:
            return self.process.poll() is not None

        await eventually(has_ended)
        return self.process.wait()

    def end(self) -> int:
        """By SIGTERM; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=30)

    @asynccontextmanager
    async def _session(self, key: str) -> AsyncIterator[aiohttp.ClientSession]:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        limit = aiohttp.ClientTimeout(total=60)
        async with aiohttp.ClientSession(self.url, headers=headers, timeout=limit) as session:
            yield session


def check(name: str, folder: Path, version: str = "") -> str:
    """What the installer runs before a version is taken into use; its output."""
    chosen = version_of(name, version)
    launcher = read_launcher(chosen.manifest.launcher)
    assert launcher is not None
    (folder / LAUNCHER_NAME).write_text(launcher)
    filled = {"{python}": str(interpreter(name, chosen)), "{launcher}": str(folder / LAUNCHER_NAME)}
    command = [filled.get(part, part) for part in chosen.manifest.check]
    environment = {key: text for key, text in chosen.manifest.environment.items() if "{" not in text}
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@contextmanager
def running(
    name: str, folder: Path, *, model: Path | str = "", called: str = "our-model", version: str = "", **options: object
) -> Iterator[Engine]:
    """An engine of the gallery with one thread, ready or not yet. Options are the model's settings."""
    chosen = version_of(name, version)
    folder.mkdir(parents=True, exist_ok=True)
    launcher = read_launcher(chosen.manifest.launcher)
    assert launcher is not None
    (folder / LAUNCHER_NAME).write_text(launcher)
    runnable = RunnableBackend(
        name=name,
        version=chosen.version,
        directory=folder,
        manifest=chosen.manifest,
        python=str(interpreter(name, chosen)),
    )
    settings = {key: str(value).lower() for key, value in options.items()}
    command = StartBackend(job_id="1", backend=name, model=called, model_path=str(model), options=settings)
    with started(runnable, command, folder / "log") as engine:
        yield engine


@contextmanager
def started(runnable: RunnableBackend, command: StartBackend, log: Path) -> Iterator[Engine]:
    place = EngineAllocation(host="127.0.0.1", port=find_free_port(), threads=1, api_key=KEY)
    launch = make_launch(runnable, command, place, os.environ)
    environment = dict(launch.environment)
    with log.open("wb") as output:
        process = subprocess.Popen(
            launch.command, env=environment, cwd=runnable.directory, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        yield Engine(process=process, url=f"http://127.0.0.1:{place.port}", log=log, manifest=runnable.manifest)
    finally:
        process.kill()
        process.wait()
