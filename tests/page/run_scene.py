"""A frontend with runs for the tests of the page: the test plays the part of the worker that holds them.

The frontend runs in this process, so that runs are started through its own service. Its bus is away: no command reaches
a worker, and what the worker delivers comes over HTTP as always. Signs of life of the node and of the runs that it
holds come in the background: a page may stand still for longer than a silent worker is waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from sqlalchemy import text

from corral.adapters.system import SystemIdGenerator
from corral.domain.access import Owner
from corral.domain.operation import JobId
from corral.domain.run import Run, RunEventType, RunId, RunKind, RunState
from corral.policy.sealing_keys import make_sealing_key
from corral.runs.pool import RunEnding
from corral.store import nodes as node_store
from corral.store import runs as store
from corral.store.database import Transaction
from corral.store.loads import NewTarget
from corral.store.runs import NewRun
from tests.page.support import BackgroundLoop
from tests.support.databases import fresh_database
from tests.support.frontends import ADMIN_KEY, RunningFrontend, running_frontend
from tests.support.nodes import PretendNode, create_join_token
from tests.support.polling import eventually

T = TypeVar("T")
ids = SystemIdGenerator()
# A worker that is silent for 12 s is taken to be lost.
SIGN_INTERVAL_S = 2.0


class SilentKind:
    """Knows a kind of run whose work the test itself does."""

    async def build_spec(self, tx: Transaction, run: Run) -> dict[str, Any]:
        del tx
        return {"model": "m", "messages": [{"role": "user", "content": run.request["text"]}]}

    async def on_run_ended(self, tx: Transaction, ending: RunEnding) -> None:
        del tx, ending


@dataclass
class HeldRun:
    """One run that an agent node holds."""

    scene: RunScene
    id: str
    job_id: str
    next_seq: int = 1
    # Entries begin so long ago, and each is given its own time.
    began_at: datetime = field(default_factory=lambda: datetime.now(UTC) - timedelta(seconds=30))

    def deliver(self, *events: tuple[float, str, dict[str, Any]]) -> Any:
        """Deliver entries of the trace: seconds since its beginning, type and data."""
        sent = [
            {
                "seq": self.next_seq + place,
                "at": (self.began_at + timedelta(seconds=second)).isoformat(),
                "type": kind,
                "tool": data.get("name", ""),
                "data": data,
            }
            for place, (second, kind, data) in enumerate(events)
        ]
        self.next_seq += len(sent)
        body = {"job_id": self.job_id, "events": sent}
        return self.scene.run(post_as_worker(self.scene.node, f"/runs/{self.id}/events", body))

    def read(self) -> Any:
        status, run = self.scene.call("GET", f"/api/runs/{self.id}?all_users=true")
        assert status == 200, run
        return run

    def becomes(self, state: str) -> Any:
        async def look() -> Any:
            _, run = await self.scene.frontend.call("GET", f"/api/runs/{self.id}?all_users=true")
            return run if run["state"] == state else None

        return self.scene.run(eventually(look))


@dataclass
class RunScene:
    """A frontend, an agent node, and the runs that the test starts on it."""

    aside: BackgroundLoop
    frontend: RunningFrontend
    node: PretendNode
    # The job of each run that the node holds.
    jobs: dict[str, str]

    @property
    def url(self) -> str:
        return self.frontend.url

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.aside.run(work)

    def call(self, method: str, path: str, body: Any = None, *, key: str = ADMIN_KEY) -> tuple[int, Any]:
        return self.run(self.frontend.call(method, path, body, key=key))

    def new_key(self, name: str, scope: str = "infer") -> tuple[str, str]:
        """Return the secret and the id of a new key."""
        status, made = self.call("POST", "/api/keys", {"name": name, "scope": scope})
        assert status == 201, made
        return made["key"], made["id"]

    def start(
        self, subject: str, kind: RunKind = RunKind.AGENT_TURN, *, owner: tuple[str, str] | None = None, **more: Any
    ) -> HeldRun:
        """Start a run; `owner` is the name and the id of a key, by default those of the admin."""
        return self.run(self._start(subject, kind, owner, more))

    async def _start(self, subject: str, kind: RunKind, owner: tuple[str, str] | None, more: dict[str, Any]) -> HeldRun:
        if owner is None:
            _, me = await self.frontend.call("GET", "/api/me")
            owner = (me["name"], me["key_id"])
        name, key_id = owner
        new = NewRun(
            kind=kind,
            owner=Owner(key_id=key_id),
            owner_name=name,
            key_id=key_id,
            subject=subject,
            request={"text": "hello"},
            **more,
        )
        async with self.frontend.database.transaction() as tx:
            run_id = await self.frontend.core.runs.admission.start(tx, new)
            # The test takes the place of the dispatcher and of the worker: nothing is due until an end was delivered.
            await tx.execute(text("UPDATE operations SET due_at = NULL WHERE id = CAST(:id AS uuid)"), {"id": run_id})
        return HeldRun(self, run_id, ids.new_id())

    def give(self, held: HeldRun, *, is_running: bool = True) -> HeldRun:
        """Let the agent node hold a run."""

        async def begin() -> None:
            async with self.frontend.database.transaction() as tx:
                run_id, job_id = RunId(held.id), JobId(held.job_id)
                node = await node_store.get_node(tx, self.node.id)
                await store.begin_attempt(tx, run_id, NewTarget(node=node, job_id=job_id, build={}))
                if is_running:
                    await store.mark_running(tx, [job_id])

        self.run(begin())
        self.jobs[held.id] = held.job_id
        return held

    def lose(self, held: HeldRun, message: str) -> None:
        """Take a run back from its worker, as after a loss, and give it to the same node again."""

        async def requeue() -> None:
            async with self.frontend.database.transaction() as tx:
                run_id = RunId(held.id)
                await store.append_note(tx, run_id, RunEventType.RETRIED, {"text": message, "attempt": 1})
                await store.requeue(tx, run_id, message)

        self.jobs.pop(held.id, None)
        self.run(requeue())
        held.job_id = ids.new_id()
        held.next_seq += 1
        self.give(held)

    def end(self, held: HeldRun, state: RunState, message: str = "") -> None:
        """End a run as the control plane does."""
        self.jobs.pop(held.id, None)

        async def finish() -> None:
            async with self.frontend.database.transaction() as tx:
                await store.end_run(tx, held.id, state, message=message)

        self.run(finish())

    def forget_all(self) -> None:
        """Delete every run."""
        self.jobs.clear()

        async def delete() -> None:
            async with self.frontend.database.transaction() as tx:
                await tx.execute(text("DELETE FROM operations WHERE kind LIKE 'run\\_%'"))

        self.run(delete())


async def post_as_worker(node: PretendNode, path: str, body: dict[str, Any]) -> Any:
    """Post as a worker does: once more if a change of the frontend's own got in between."""

    async def post() -> tuple[int, Any] | None:
        status, answer = await node.call("POST", path, body)
        if status == 409 and answer["error"]["code"] == "try_again":
            return None
        return status, answer

    answered = await eventually(post)
    assert answered is not None
    status, answer = answered
    assert status in (200, 204), answer
    return answer


@asynccontextmanager
async def _alive(node: PretendNode, jobs: dict[str, str]) -> AsyncIterator[None]:
    """Give signs of life for the node and for the jobs of the runs that it holds."""
    is_over = asyncio.Event()

    async def beat() -> None:
        while not is_over.is_set():
            await node.heartbeat()
            for run_id, job_id in list(jobs.items()):
                await node.call("POST", f"/runs/{run_id}/events", {"job_id": job_id, "events": []})
            with suppress(TimeoutError):
                await asyncio.wait_for(is_over.wait(), SIGN_INTERVAL_S)

    task = asyncio.create_task(beat())
    try:
        yield
    finally:
        is_over.set()
        await task


@asynccontextmanager
async def _running(
    address: str, jobs: dict[str, str], **changes: Any
) -> AsyncIterator[tuple[RunningFrontend, PretendNode]]:
    keys = (make_sealing_key(bytes(range(32))),)
    async with fresh_database(address) as url, running_frontend(url, sealing_keys=keys, **changes) as frontend:
        for kind in RunKind:
            if kind not in frontend.core.runs._kinds:
                frontend.core.runs.add_kind(kind, SilentKind())
        # The tests take the place of the dispatcher: no run is driven from its admission on.
        frontend.core.runs.admission.claimer = None
        node = PretendNode(frontend, "agent-1")
        token = await create_join_token(frontend, approves=True)
        status, answer = await node.register(
            token, node_type="agent", max_runs=4, run_kinds=[str(kind) for kind in RunKind], address=""
        )
        assert status == 201, answer
        async with _alive(node, jobs):
            yield frontend, node


@contextmanager
def run_scene(aside: BackgroundLoop, address: str, **changes: Any) -> Iterator[RunScene]:
    """Yield a frontend on a database of its own, with an agent node that takes four runs. `changes` are
    arguments of `running_frontend`."""
    jobs: dict[str, str] = {}
    with aside.inside(_running(address, jobs, **changes)) as (frontend, node):
        yield RunScene(aside, frontend, node, jobs)
