"""Frontends that execute tasks, a receiver of webhooks, and a database whose time the test sets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from corral.adapters.http import HttpFetcher
from corral.adapters.system import SystemClock
from corral.domain.access import SESSION_KEY_PREFIX, Owner, Principal, Scope
from corral.domain.errors import NotFound, Unavailable
from corral.domain.run import Run, RunKind
from corral.domain.task import MediaKind, MediaSource, Task, TaskRun, TaskSpec
from corral.reconcile.leader import LeaderElector
from corral.store import tasks as store
from corral.store.database import Database
from corral.tasks.media import MediaFetcher
from corral.tasks.scheduler import FireOutcome, TaskScheduler, TaskSchedulerDeps
from corral.tasks.service import ExecutionRequest, TaskService, TaskServiceDeps
from corral.tasks.webhook_sender import WebhookSender, WebhookSenderDeps
from tests.operations.fake_bus import Hub
from tests.operations.scene import sql
from tests.runs.scene import RunFrontend, ids

LEASE_S = 3600.0


@dataclass(frozen=True)
class KnownSecret:
    """Holds the value of a secret."""

    text: str


@dataclass
class KnownSecrets:
    """Implements `SecretResolver` with values of the test."""

    values: dict[str, str] = field(default_factory=dict)
    # Names of secrets of which this frontend lacks the key.
    unreadable: set[str] = field(default_factory=set)

    async def resolve(self, owner: Owner, names: Collection[str]) -> Mapping[str, KnownSecret]:
        del owner
        for name in names:
            if name in self.unreadable:
                raise Unavailable(f"The secret {name} cannot be read.", code="secret_unreadable")
            if name not in self.values:
                raise NotFound(f"There is no secret named {name}.", code="secret_not_found")
        return {name: KnownSecret(self.values[name]) for name in names}


class TaskFrontend(RunFrontend):
    """One frontend with tasks, on the hub; nothing happens unless the test turns it."""

    def __init__(self, database: Database, hub: Hub, name: str = "frontend-1", *, allows_private: bool = True) -> None:
        super().__init__(database, hub, name)
        self.fetcher = HttpFetcher(uses_proxies=False)
        self.secrets = KnownSecrets()
        self.leader = LeaderElector(database, SystemClock(), name, LEASE_S)
        media = MediaFetcher(self.fetcher, self.secrets, allows_private=allows_private)
        self.tasks = TaskService(
            TaskServiceDeps(
                database=database,
                ids=ids,
                runs=self.runs,
                media=media,
                default_wall_s=600.0,
                allows_private_addresses=allows_private,
            )
        )
        self.runs.add_kind(RunKind.TASK, self.tasks)
        self.scheduler = TaskScheduler(
            TaskSchedulerDeps(database=database, leader=self.leader, runs=self.runs, tasks=self.tasks)
        )
        self.webhooks = WebhookSender(
            WebhookSenderDeps(
                database=database,
                fetcher=self.fetcher,
                clock=SystemClock(),
                secrets=self.secrets,
                derive_key=lambda task_id: f"the key of task {task_id}".encode(),
                allows_private=allows_private,
            )
        )

    async def create(self, owner: Owner, **fields: Any) -> Task:
        """Create a task of the model `chat`."""
        spec = TaskSpec(**({"name": "greet", "model": "chat", "prompt": "Say hello."} | fields))
        async with self.database.transaction() as tx:
            return await self.tasks.create(tx, make_principal(owner), spec)

    async def execute(self, owner: Owner, task: str = "greet", **fields: Any) -> TaskRun:
        """Execute a task. `fields` are those of the request; `images` and the like are attachments."""
        media = {kind: fields.pop(f"{kind}s") for kind in MediaKind if f"{kind}s" in fields}
        request = ExecutionRequest(media=media, **fields)
        prepared = await self.tasks.prepare(task, make_principal(owner), request)
        async with self.database.transaction() as tx:
            run_id = await self.tasks.admit(tx, prepared)
        return await self.tasks.get_run(run_id, None)

    async def fire(self) -> dict[FireOutcome, int]:
        """Look for tasks that are due, as the leader, and wait for their attachments."""
        found = await self.begin_firing()
        await self.scheduler.join()
        return found

    async def begin_firing(self) -> dict[FireOutcome, int]:
        """Look for tasks that are due, as the leader. Return the outcomes of those that need no attachments."""
        await self.leader.tick()
        return await self.scheduler.tick()

    async def send(self) -> int:
        """Send the webhooks that are due now, and return how many there were."""
        number = await self.webhooks.tick()
        await self.webhooks.join()
        return number

    async def send_all(self) -> None:
        """Send webhooks until none is left, as if the pauses between attempts had gone by."""
        number = 1
        while number:
            await sql(self.database, "UPDATE webhook_deliveries SET next_at = corral_now() WHERE next_at IS NOT NULL")
            number = await self.send()

    async def list_runs(self, task: Task) -> list[Run]:
        """Return the runs of a task, oldest first."""
        rows = await sql(self.database, "SELECT id::text AS id FROM runs WHERE task_id = :t ORDER BY id", t=task.id)
        return [await self.get(row.id) for row in rows]

    async def reload(self, task: Task) -> Task:
        async with self.database.transaction() as tx:
            return await store.get_task(tx, task.id, None)

    async def build(self, run_id: str) -> dict[str, Any]:
        """Return what the worker that holds a run gets."""
        run = await self.get(run_id)
        assert run.node_id is not None
        assert run.job_id is not None
        return dict((await self.runs.build_work(run.node_id, run.id, run.job_id)).spec)


def make_principal(owner: Owner, **fields: Any) -> Principal:
    key_id = owner.key_id or f"{SESSION_KEY_PREFIX}{owner.user_id}"
    return Principal(key_id=key_id, name="ann", user_id=owner.user_id, scope=Scope.INFER, **fields)


async def set_time(database: Database, text: str) -> None:
    """Let the database's time go on from this moment in UTC."""
    moment = datetime.fromisoformat(text).replace(tzinfo=UTC)
    [row] = await sql(database, "SELECT now() AS now")
    shift = (moment - row.now).total_seconds()
    await sql(
        database,
        f"CREATE OR REPLACE FUNCTION corral_now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE"
        f" AS 'SELECT now() + make_interval(secs => {shift})'",
    )


PNG = b"\x89PNG\r\n\x1a\n picture"


async def serve_picture(_: web.Request) -> web.Response:
    return web.Response(body=PNG, content_type="image/png")


@dataclass
class SlowSource:
    """A source of an attachment that answers when the test allows it."""

    url: str = ""
    calls: int = 0
    requested: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def media(self) -> MediaSource:
        return MediaSource(kind=MediaKind.IMAGE, url=f"{self.url}/x.png")

    async def is_called(self, number: int) -> bool:
        return self.calls == number

    async def handle(self, request: web.Request) -> web.Response:
        self.calls += 1
        self.requested.set()
        await self.released.wait()
        return await serve_picture(request)


@asynccontextmanager
async def slow_source() -> AsyncIterator[SlowSource]:
    source = SlowSource()
    async with serving("/x.png", source.handle) as url:
        source.url = url
        try:
            yield source
        finally:
            source.released.set()


@dataclass
class ReceivedWebhook:
    """Holds one request that a receiver got."""

    path: str
    method: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class WebhookReceiver:
    """A server that answers webhooks with the next of the statuses that the test has named; then with 200."""

    url: str = ""
    statuses: list[int] = field(default_factory=list)
    received: list[ReceivedWebhook] = field(default_factory=list)
    location: str = ""

    async def handle(self, request: web.Request) -> web.Response:
        self.received.append(ReceivedWebhook(request.path, request.method, request.headers, await request.read()))
        status = self.statuses.pop(0) if self.statuses else 200
        return web.Response(status=status, headers={"Location": self.location} if 300 <= status < 400 else {})


@asynccontextmanager
async def receiving_webhooks() -> AsyncIterator[WebhookReceiver]:
    receiver = WebhookReceiver()
    async with serving("/{path:.*}", receiver.handle) as url:
        receiver.url = url
        yield receiver


@asynccontextmanager
async def serving(path: str, handler: Any) -> AsyncIterator[str]:
    """Serve one handler on the loopback and yield the address of the server."""
    app = web.Application()
    app.router.add_route("*", path, handler)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
