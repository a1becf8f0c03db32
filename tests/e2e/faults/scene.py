"""What the tests of faults share: a cluster that installs from a server of the test, and a look at what is left behind.

`scene_of` ends every test with the same questions: is anything still pending or running, does every worker end with 0,
is there anything on a disk that nothing points to, and does any process live that this test has started?
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from corral.domain.operation import OPEN
from corral.worker.backends.layout import BackendRecords, BackendsLayout
from tests.e2e.cluster import Cluster, FrontendProcess, empty_cluster
from tests.support.polling import eventually
from tests.worker.backends.scene import engine_files, tar_of
from tests.worker.backends.server import File, FileServer, held_after

MIB = 1024 * 1024
SETTINGS = {"CORRAL_ALLOW_PRIVATE_SOURCES": "true"}
# A takeover needs a lease of 30 s to run out, and this machine may have other work.
LONG_S = 100.0
UNDER_WAY = frozenset(str(state) for state in OPEN)


@dataclass
class Scene:
    cluster: Cluster
    files: FileServer
    # Downloads that are held back until this is set.
    let: asyncio.Event = field(default_factory=asyncio.Event)
    let_late: asyncio.Event = field(default_factory=asyncio.Event)

    # --- backends to install ---

    def offer(self, name: str, *, size: int = 2 * MIB) -> File:
        """Put a backend of about this size on the server."""
        return self.files.put(f"/{name}.tar.gz", tar_of(engine_files(name, padding=size)), etag=f'"{name}"')

    def offer_in_halves(self, name: str, *, size: int = 2 * MIB, downloads: int = 1, tenths: int = 5) -> File:
        """Put a backend on the server whose first downloads stand still after so many tenths, until `let` is set."""
        file = self.offer(name, size=size)
        file.faults = [held_after(len(file.body) * tenths // 10, self.let)] * downloads
        return file

    def fetched(self, name: str) -> list[str | None]:
        """Return the ranges of all downloads of a backend; None is a download from the beginning."""
        return self.files.files[f"/{name}.tar.gz"].ranges

    # --- operations ---

    async def ask(self, name: str, *nodes: str, via: int = 0, **more: Any) -> str:
        """Have nodes install what the server has; the operation's id."""
        body = {"uri": f"{self.files.url}/{name}.tar.gz", "name": name, "nodes": list(nodes), **more}
        return await self.post("/api/backends/install-external", body, via=via)

    async def post(self, path: str, body: Any, *, via: int = 0) -> str:
        status, answer = await self.cluster.frontends[via].call("POST", path, body)
        assert status in (200, 202), answer
        return str(answer["id"])

    async def operation(self, key: str, frontend: FrontendProcess | None = None) -> Any:
        """Return an operation as one frontend shows it; None while that frontend cannot answer."""
        queried = frontend or self.cluster.running()[0]
        with contextlib.suppress(aiohttp.ClientError):
            status, found = await queried.call("GET", f"/api/operations/{key}")
            return found if status == 200 else None

    async def becomes(self, key: str, *states: str, within_s: float = LONG_S) -> Any:
        """Wait until every running frontend shows the operation in one of these states, and return it."""
        found: Any = None
        for frontend in self.cluster.running():
            found = await eventually(lambda f=frontend: self._in_state(key, f, states), within_s=within_s)  # type: ignore[misc]
        return found

    async def _in_state(self, key: str, frontend: FrontendProcess, states: tuple[str, ...]) -> Any:
        found = await self.operation(key, frontend)
        if found is None:
            return None
        assert found["state"] in states or found["state"] in UNDER_WAY, found
        return found if found["state"] in states else None

    async def until_fetched(self, key: str, size: int, *, nodes: int = 1) -> Any:
        """Wait until so many nodes are shown to have so many bytes of a download that stands still there."""

        async def look() -> Any:
            found = await self.operation(key)
            enough = [node for node in (found or {"nodes": []})["nodes"] if (node.get("current") or 0) >= size]
            return found if len(enough) >= nodes else None

        return await eventually(look, within_s=60)

    async def notes(self, key: str) -> list[str]:
        return [note["text"] for note in await self.cluster.running()[0].get(f"/api/operations/{key}/events")]

    async def installed(self, node: str) -> dict[str, Any]:
        """Return the backends that the registry lists for a node, by name."""
        found = await self.cluster.running()[0].get(f"/api/nodes/{node}/backends")
        return {backend["name"]: backend for backend in found}

    async def shows_installed(self, node: str, *names: str) -> None:
        async def look() -> bool:
            return set(await self.installed(node)) == set(names)

        await eventually(look, within_s=60)

    # --- workers ---

    def accepted(self, node: str) -> int:
        """Return how many jobs this worker has taken, in all its lives."""
        return self.cluster.workers[node].log.count("job accepted")

    def disk(self, node: str) -> Path:
        return self.cluster.folder / node / "backends"

    # --- the end ---

    async def end(self) -> None:
        """Check that nothing is running or pending; every worker exits with 0 and leaves a tidy disk."""
        self.let.set()
        await eventually(self._is_quiet, within_s=LONG_S)
        running = [worker for worker in self.cluster.workers.values() if worker.is_running]
        for worker in running:
            worker.send(signal.SIGTERM)
        for worker in running:
            assert await worker.wait() == 0, worker.log
        for name in self.cluster.workers:
            assert_tidy(self.disk(name))

    async def _is_quiet(self) -> bool:
        for frontend in self.cluster.running():
            listed = (await frontend.get("/api/operations"))["operations"]
            if any(each["state"] in UNDER_WAY for each in listed) or await frontend.get("/api/backend-intents"):
                return False
        return True


@asynccontextmanager
async def scene_of(
    folder: Path, *names: str, frontends: int = 2, command: list[str] | None = None, **settings: str
) -> AsyncIterator[Scene]:
    """Run frontends side by side and healthy workers with these settings."""
    try:
        async with FileServer().running() as files, empty_cluster(folder) as cluster:
            cluster.frontend_settings, cluster.worker_settings = SETTINGS, settings
            await cluster.postgres.start()
            await cluster.add_frontends(frontends)
            if names:
                await cluster.join(*names, command=command)
            scene = Scene(cluster, files)
            try:
                yield scene
                await scene.end()
            finally:
                scene.let.set()
                scene.let_late.set()
    finally:
        orphans = processes_of(folder)
        for pid in orphans:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    assert not orphans, f"these live on: {orphans}"


def assert_tidy(root: Path) -> None:
    """Check that no file is half made, half fetched or to be deleted, and that each folder of the store has a name."""
    if not root.exists():
        return
    layout = BackendsLayout(root)
    records = BackendRecords(layout)
    records.load()
    left = [*layout.staging.iterdir(), *layout.trash.iterdir(), *layout.downloads.iterdir(), *root.rglob("*.new")]
    assert left == []
    assert {path.name for path in layout.store.iterdir()} == set(records.keys)


def processes_of(folder: Path) -> dict[int, str]:
    """Return the processes with this folder in their command line or environment, or that run in it."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                place = entry.joinpath("cwd").readlink()
                described = entry.joinpath("cmdline").read_bytes() + b"\0" + entry.joinpath("environ").read_bytes()
                if str(folder).encode() in described or place.is_relative_to(folder):
                    found[int(entry.name)] = (
                        described.partition(b"\0\0")[0].replace(b"\0", b" ").decode(errors="replace")
                    )
    return found
