"""Agents for the tests of the page: the test plays the worker that takes their turns, and gives signs of life.

The frontend is that of `run_scene`. Its dispatcher gives turns to the agent node as always, so what a browser sends is
queued, taken and answered in the way of a cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import text

from tests.agents.hand_worker import HandWorker
from tests.page.run_scene import RunScene, post_as_worker, run_scene
from tests.page.support import BackgroundLoop
from tests.support.frontends import ADMIN_KEY
from tests.support.polling import eventually

MODEL = {
    "name": "chatty",
    "backend": "fake",
    "files": [{"path": "m.gguf", "uri": "https://tools.example/m.gguf"}],
}


@dataclass
class HeldTurn:
    """One turn that the test has taken as its worker."""

    scene: AgentScene
    run_id: str

    def deliver(self, *events: tuple[str, dict[str, Any]]) -> dict[str, Any]:
        """Deliver entries of the trace, and return what the frontend says about the turn."""
        return dict(self.scene.run(self._deliver(events)))

    async def _deliver(self, events: Sequence[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
        worker = self.scene.worker
        first = worker.numbers.get(self.run_id, 0) + 1
        at = datetime.now(UTC).isoformat()
        entries = [
            {"seq": first + place, "at": at, "type": kind, "tool": data.get("name", ""), "data": data}
            for place, (kind, data) in enumerate(events)
        ]
        worker.numbers[self.run_id] = first - 1 + len(entries)
        body = {"job_id": worker.jobs[self.run_id], "events": entries}

        return dict(await post_as_worker(worker.node, f"/runs/{self.run_id}/events", body))

    def write(self, *pieces: str) -> None:
        """Deliver pieces of the answer."""
        self.deliver(*(("content", {"text": piece}) for piece in pieces))

    def end(self, content: str = "done", **outcome: Any) -> None:
        """Deliver the end of the turn, and wait until its frontend has concluded it."""
        values = {"state": "completed", "content": content, "reason": "answer"} | outcome
        if values["state"] == "completed" and "messages" not in values:
            values["messages"] = [{"role": "assistant", "content": content}]
        assert self.deliver(("end", values))["must_stop"] is False
        self.scene.worker.jobs.pop(self.run_id, None)
        self.scene.run(self.scene.worker.wait_until_ended(self.run_id))

    def end_when_stopped(self) -> None:
        """Stop the turn as a worker does that learns of its cancellation."""

        async def must_stop() -> bool:
            return bool((await self._deliver(()))["must_stop"])

        self.scene.run(eventually(must_stop))
        self.scene.worker.jobs.pop(self.run_id, None)


@dataclass
class AgentScene:
    """A frontend with one model, and an agent node whose worker is the test."""

    runs: RunScene
    worker: HandWorker

    @property
    def url(self) -> str:
        return self.runs.url

    def run(self, work: Any) -> Any:
        return self.runs.run(work)

    def call(self, method: str, path: str, body: Any = None, *, key: str = ADMIN_KEY) -> tuple[int, Any]:
        return self.runs.call(method, path, body, key=key)

    def create(self, name: str = "helper", *, key: str = ADMIN_KEY, **config: Any) -> Any:
        status, made = self.call("POST", "/api/agents", {"name": name, "model": "chatty"} | config, key=key)
        assert status == 201, made
        return made

    def chat(self, message: str, *, name: str = "helper", thread: str | None = None, key: str = ADMIN_KEY) -> Any:
        body = {"message": message} | ({"thread_id": thread} if thread else {})
        status, sent = self.call("POST", f"/api/agents/{name}/chat", body, key=key)
        assert status == 202, sent
        return sent

    def take(self, number: int = 0) -> HeldTurn:
        """Take the open turn with this number, the oldest being 0, as soon as there is one."""

        async def look() -> str:
            _, found = await self.runs.frontend.call("GET", "/api/runs?state=open&all_users=true")
            ids = [run["id"] for run in reversed(found["runs"])]
            return str(ids[number]) if len(ids) > number else ""

        run_id = self.run(eventually(look))
        self.run(self.worker.take(run_id))
        return HeldTurn(self, run_id)

    def forget_all(self) -> None:
        """Delete every agent, run and declared MCP server."""
        for agent in self.call("GET", "/api/agents?all_users=true")[1]["items"]:
            path = f"/api/agents/{agent['name']}?owner={agent['owner']}"
            assert self.call("DELETE", path)[0] == 204
        self.runs.forget_all()

        async def clear_servers() -> None:
            async with self.runs.frontend.database.transaction() as tx:
                await tx.execute(text("DELETE FROM mcp_servers"))

        self.run(clear_servers())


@contextmanager
def agent_scene(aside: BackgroundLoop, address: str) -> Iterator[AgentScene]:
    """Yield a frontend on a database of its own, with a model and an agent node that takes four turns."""
    with run_scene(aside, address) as runs:
        status, made = runs.call("PUT", "/api/models/config/chatty", MODEL)
        assert status in (200, 201), made
        # The turns that the worker takes are those for which the scene gives signs of life.
        yield AgentScene(runs, HandWorker(runs.frontend, runs.node, jobs=runs.jobs))
