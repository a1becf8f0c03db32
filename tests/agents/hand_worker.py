"""An agent node whose worker is the test: it finds the runs that were given to it in the registry, because the tests
have no bus, and fetches and delivers over HTTP as a worker does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from corral.domain.run import RunKind
from corral.store import runs as store
from tests.support.frontends import ADMIN_KEY, RunningFrontend
from tests.support.nodes import PretendNode, create_join_token
from tests.support.polling import eventually


@dataclass
class HandWorker:
    """Plays the worker of one agent node."""

    frontend: RunningFrontend
    node: PretendNode
    jobs: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)

    async def take(self, run_id: str) -> dict[str, Any]:
        """Begin a run that was given to this worker, and return its specification."""
        await self.wait_for(run_id)
        status, work = await self.fetch(run_id)
        assert status == 200, work
        self.numbers[run_id] = work["last_seq"]
        assert (await self.deliver(run_id))["must_stop"] is False
        return dict(work["spec"])

    async def wait_for(self, run_id: str) -> None:
        """Wait until a run was given to this worker."""

        async def look() -> str:
            async with self.frontend.database.transaction() as tx:
                run = await store.get_run(tx, run_id)
            return run.job_id or "" if run.node_id == self.node.id else ""

        self.jobs[run_id] = await eventually(look)

    async def wait_until_given_again(self, run_id: str, earlier: str) -> None:
        """Wait until a run was given to this worker once more, behind an earlier attempt."""

        async def look() -> bool:
            async with self.frontend.database.transaction() as tx:
                run = await store.get_run(tx, run_id)
            return run.job_id is not None and run.job_id != earlier

        await eventually(look)

    async def fetch(self, run_id: str) -> tuple[int, Any]:
        return await self.node.call("GET", f"/runs/{run_id}?job_id={self.jobs[run_id]}")

    async def deliver(
        self, run_id: str, *events: tuple[str, dict[str, Any]], at: RunningFrontend | None = None
    ) -> dict[str, Any]:
        """Deliver entries of a run's trace, to another frontend with `at`."""
        body = []
        for kind, data in events:
            self.numbers[run_id] = self.numbers.get(run_id, 0) + 1
            entry = {"seq": self.numbers[run_id], "at": datetime.now(UTC).isoformat(), "type": kind, "data": data}
            body.append(entry | {"tool": data.get("name", "")})
        status, answer = await (at or self.frontend).call(
            "POST",
            f"/api/node/{self.node.id}/runs/{run_id}/events",
            {"job_id": self.jobs[run_id], "events": body},
            key=self.node.credential,
        )
        assert status == 200, answer
        return dict(answer)

    async def end(self, run_id: str, content: str = "done", **outcome: Any) -> None:
        """Deliver the end of a run, and wait until its frontend has concluded it."""
        values = {"state": "completed", "content": content, "reason": "answer"} | outcome
        if values["state"] == "completed" and "messages" not in values:
            values["messages"] = [{"role": "assistant", "content": content}]
        assert (await self.deliver(run_id, ("end", values)))["must_stop"] is False
        await self.wait_until_ended(run_id)

    async def answer(self, run_id: str, content: str = "done", **outcome: Any) -> dict[str, Any]:
        """Take a run and end it with this answer; return its specification."""
        spec = await self.take(run_id)
        await self.end(run_id, content, **outcome)
        return spec

    async def wait_until_ended(self, run_id: str) -> dict[str, Any]:
        async def look() -> dict[str, Any]:
            _, run = await self.frontend.call("GET", f"/api/runs/{run_id}?all_users=true")
            return dict(run) if run["finished_at"] else {}

        return await eventually(look)

    async def wait_for_run(self, *, key: str = ADMIN_KEY, number: int = 1) -> list[str]:
        """Return the ids of open runs, oldest first, once there are this many."""

        async def look() -> list[str]:
            _, found = await self.frontend.call("GET", "/api/runs?state=open&all_users=true", key=key)
            ids_found = [run["id"] for run in reversed(found["runs"])]
            return ids_found if len(ids_found) >= number else []

        return await eventually(look)


async def join_worker(
    frontend: RunningFrontend, name: str = "agent-1", max_runs: int = 4, kinds: Sequence[str] | None = tuple(RunKind)
) -> HandWorker:
    """Register an agent node and return its worker. `kinds` are the runs that it says it executes."""
    node = PretendNode(frontend, name)
    token = await create_join_token(frontend, approves=True)
    announced = {} if kinds is None else {"run_kinds": list(kinds)}
    status, answer = await node.register(token, node_type="agent", max_runs=max_runs, **announced)
    assert status == 201, answer
    return HandWorker(frontend, node)


async def make_key(frontend: RunningFrontend, name: str, **body: Any) -> dict[str, Any]:
    status, made = await frontend.call("POST", "/api/keys", {"name": name, "scope": "infer"} | body)
    assert status == 201, made
    return dict(made)


async def create(frontend: RunningFrontend, name: str = "helper", *, key: str = ADMIN_KEY, **config: Any) -> Any:
    """Create an agent and return it as the API shows it."""
    status, made = await frontend.call("POST", "/api/agents", {"name": name, "model": "m"} | config, key=key)
    assert status == 201, made
    return made


async def chat(
    frontend: RunningFrontend, text: str, *, name: str = "helper", key: str = ADMIN_KEY, thread: str | None = None
) -> Any:
    """Send a message and return what was accepted."""
    body = {"message": text} | ({"thread_id": thread} if thread else {})
    status, accepted = await frontend.call("POST", f"/api/agents/{name}/chat", body, key=key)
    assert status == 202, accepted
    return accepted
