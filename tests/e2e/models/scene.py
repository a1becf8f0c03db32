"""What the tests of faults of models share: a cluster with engines that pretend, how to ask them, and what is left.

The tests of a module share one cluster, in any order: each uses models of its own, forgets them, and gives back what it
took away. `models_of` ends with the questions of `tests/e2e/faults/scene.py`: is anything under way, does every worker
end with 0 and all its engines with it, and does any process live that was started here?
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from tests.e2e.cluster import Cluster, FrontendProcess, empty_cluster
from tests.e2e.faults.scene import LONG_S, UNDER_WAY, processes_of
from tests.support.frontends import ADMIN_KEY
from tests.support.polling import eventually

QUESTION = [{"role": "user", "content": "Who goes there?"}]


@dataclass(frozen=True)
class Answer:
    """Holds what a client has got. `node` is the one that answered."""

    status: int
    body: Any
    node: str

    @property
    def error(self) -> str:
        return str(self.body["error"]["message"])

    @property
    def code(self) -> str:
        return str(self.body["error"]["code"])


class Stream:
    """Reads an answer that comes in pieces."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer
        self.events: list[Any] = []

    async def next(self) -> Any:
        """Return the next event, `[DONE]`, or None at the end."""
        async for line in self._answer.content:
            if line.startswith(b"data: "):
                payload = line.removeprefix(b"data: ").strip()
                self.events.append("[DONE]" if payload == b"[DONE]" else json.loads(payload))
                return self.events[-1]
        return None

    async def rest(self) -> list[Any]:
        """Return all events that still come, until the server has ended the stream as it should."""
        got = []
        while (event := await self.next()) is not None:
            got.append(event)
        return got


@dataclass
class Models:
    cluster: Cluster
    # Where files of models may lie.
    files: Path

    # --- models ---

    async def put(self, name: str, *, via: int = 0, backend: str = "fake", **config: Any) -> None:
        """Put a configuration. Options of the engine are given as `options=…`, as in the file."""
        status, answer = await self.call("PUT", f"/api/models/config/{name}", {"backend": backend, **config}, via=via)
        assert status == 200, answer

    async def edit(self, name: str, *, via: int = 0, **options: Any) -> None:
        status, answer = await self.call("PATCH", f"/api/models/config/{name}", {"options": options}, via=via)
        assert status == 200, answer

    async def forget(self, *names: str) -> None:
        """Delete models, and wait until no process of them runs."""
        for name in names:
            await self.call("DELETE", f"/api/models/config/{name}")

        async def are_gone() -> bool:
            return not any(process["model"] in names for process in await self.all_processes())

        await self.look(are_gone)

    def file(self, name: str, content: bytes) -> list[dict[str, str]]:
        """Write a file, and return it as the `files` of a configuration."""
        path = self.files / name
        path.write_bytes(content)
        return [{"path": name, "uri": f"file://{path}"}]

    async def replicas(self, name: str, *, via: int = 0) -> list[Any]:
        return list((await self._running(via).get(f"/api/models/config/{name}"))["replicas"])

    async def load(self, name: str, *, via: int = 0, **body: Any) -> str:
        """Load a model and return the operation's id."""
        status, answer = await self.call("POST", f"/api/models/{name}/load", body, via=via)
        assert status in (200, 202), answer
        return str(answer["id"])

    async def loaded(self, name: str, *nodes: str) -> None:
        """Have it loaded on these nodes, one after the other."""
        for node in nodes:
            await self.becomes(await self.load(name, nodes=[node]), "completed")

    async def wait_saved_on_disk(self, name: str) -> None:
        """Wait until the frontends have saved a replica of this model for a start without PostgreSQL."""

        async def is_saved() -> bool:
            # The model alone is written up to an interval earlier than its replica.
            files = list((self.cluster.folder / "state").glob("kept-*.json"))
            if len(files) != 1:
                return False
            parts = json.loads(files[0].read_text(encoding="utf-8").splitlines()[1])
            return any(replica["model"] == name for replica in parts["snapshot"]["replicas"])

        await self.look(is_saved)

    # --- requests ---

    async def chat(self, name: str, *, via: int = 0, **more: Any) -> Answer:
        body = {"model": name, "messages": QUESTION, **more}
        async with self._post("/v1/chat/completions", body, via) as answer:
            return Answer(answer.status, await answer.json(), answer.headers.get("x-corral-node", ""))

    async def answers(self, name: str, *, via: int = 0) -> Answer:
        """Send a chat, check that it was answered, and return the answer."""
        answer = await self.chat(name, via=via)
        assert answer.status == 200, answer.body
        return answer

    @asynccontextmanager
    async def stream(self, name: str, *, via: int = 0, **more: Any) -> AsyncIterator[Stream]:
        body = {"model": name, "messages": QUESTION, "stream": True, **more}
        async with self._post("/v1/chat/completions", body, via) as answer:
            assert answer.status == 200, await answer.text()
            yield Stream(answer)

    def _post(self, path: str, body: Any, via: int) -> Any:
        headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
        frontend = self.cluster.frontends[via]
        return frontend.http.post(f"{frontend.url}{path}", json=body, headers=headers)

    # --- operations ---

    async def operation(self, key: str, frontend: FrontendProcess | None = None) -> Any:
        return await (frontend or self.cluster.running()[0]).get(f"/api/operations/{key}")

    async def becomes(self, key: str, *states: str) -> Any:
        """Wait until every running frontend shows the operation in one of these states, and return it."""
        found: Any = None
        for frontend in self.cluster.running():
            found = await eventually(lambda f=frontend: self._in_state(key, f, states), within_s=LONG_S)  # type: ignore[misc]
        return found

    async def _in_state(self, key: str, frontend: FrontendProcess, states: tuple[str, ...]) -> Any:
        found = await self.operation(key, frontend)
        assert found["state"] in states or found["state"] in UNDER_WAY, found
        return found if found["state"] in states else None

    async def under_way(self, frontend: FrontendProcess, name: str) -> list[Any]:
        """Return the operations about this model that the frontend lists as not ended."""
        listed = (await frontend.get("/api/operations"))["operations"]
        return [each for each in listed if each["name"] == name and each["state"] in UNDER_WAY]

    async def at_the_engine(self, name: str, node: str = "worker-1") -> int:
        """Wait until the model's engine starts on a node, and return its pid."""
        return int((await self.process(name, node, "starting"))["pid"])

    # --- nodes ---

    async def processes(self, node: str) -> list[Any]:
        """Return what runs there, as the worker reports; nothing while it does not respond."""
        status, found = await self.call("GET", f"/api/nodes/{node}/processes")
        return list(found) if status == 200 else []

    async def all_processes(self) -> list[Any]:
        return [process for node in self.cluster.workers for process in await self.processes(node)]

    async def process(self, name: str, node: str = "worker-1", state: str = "ready") -> Any:
        """Wait until the model's process on a node is in this state, and return it."""

        async def find() -> Any:
            found = await self.processes(node)
            return next((one for one in found if (one["model"], one["state"]) == (name, state)), None)

        return await self.look(find)

    async def pid(self, name: str, node: str = "worker-1") -> int:
        return int((await self.process(name, node))["pid"])

    def accepted(self, *nodes: str) -> int:
        """Return how many jobs these workers, or all, have taken in all their lives."""
        return sum(self.cluster.workers[node].log.count("job accepted") for node in nodes or self.cluster.workers)

    def disk(self, node: str) -> Path:
        return self.cluster.folder / node / "models"

    # --- looking ---

    async def look(self, find: Callable[[], Any]) -> Any:
        async def step() -> Any:
            return await find()

        return await eventually(step, within_s=60)

    async def call(self, method: str, path: str, body: Any = None, *, via: int = 0) -> tuple[int, Any]:
        return await self._running(via).call(method, path, body)

    def _running(self, via: int) -> FrontendProcess:
        """Return the frontend with this number, or another one if it was killed."""
        preferred = self.cluster.frontends[via]
        return preferred if preferred.program.is_running else self.cluster.running()[0]

    # --- the end ---

    async def end(self) -> None:
        await eventually(self._is_quiet, within_s=LONG_S)
        running = [worker for worker in self.cluster.workers.values() if worker.is_running]
        for worker in running:
            worker.send(signal.SIGTERM)
        for worker in running:
            assert await worker.wait() == 0, worker.log

    async def _is_quiet(self) -> bool:
        for frontend in self.cluster.running():
            listed = (await frontend.get("/api/operations"))["operations"]
            if any(each["state"] in UNDER_WAY for each in listed):
                return False
        return True


@asynccontextmanager
async def models_of(
    folder: Path,
    *names: str,
    frontends: int = 2,
    command: list[str] | None = None,
    settings: Mapping[str, str] | None = None,
    lease: str = "",
) -> AsyncIterator[Models]:
    """Run frontends side by side with one library, and healthy workers with these settings. `lease`: of nodes."""
    files = folder / "files"
    files.mkdir()
    try:
        async with empty_cluster(folder) as cluster:
            cluster.frontend_settings = {
                **({"CORRAL_NODE_LEASE": lease} if lease else {}),
                "CORRAL_MODEL_PATHS": str(files),
                "CORRAL_LIBRARY_DIR": str(folder / "library"),
                "CORRAL_SHARED_MODELS": "false",
                "CORRAL_DISK_CHECK": "false",
            }
            cluster.worker_settings = settings or {}
            await cluster.postgres.start()
            await cluster.add_frontends(frontends)
            await cluster.join(*names, command=command)
            scene = Models(cluster, files)
            yield scene
            await scene.end()
    finally:
        orphans = processes_of(folder)
        for pid in orphans:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    assert not orphans, f"these live on: {orphans}"
