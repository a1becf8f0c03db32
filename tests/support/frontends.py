"""A frontend inside the test's own process: the real core behind the real server on a free port."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp

from corral.adapters.engines import HttpEngines
from corral.adapters.nats.authority import Authority
from corral.adapters.nats.client import NatsBus
from corral.adapters.nats.connection import Endpoint
from corral.adapters.nats.credentials import UserMinter
from corral.adapters.nats.revocation import RevocationKeys, Revoker
from corral.adapters.system import SystemClock, SystemIds
from corral.api.application import create_app, with_edge
from corral.app.core import Core, CoreOptions, World
from corral.app.credentials import NodeCredentials
from corral.app.listening.port import listen
from corral.app.listening.server import HttpServer
from corral.bus.subjects import Role
from corral.gateway.protocol import Switchboard
from corral.ports.fetch import Fetcher
from corral.ports.loads import Loads
from corral.ports.traces import Spans
from corral.runtime.intake import Intake
from corral.runtime.services import Services
from corral.serving.kept import KeptFile, cluster_key
from corral.store.database import Database

ADMIN_KEY = "ck_the-admin-key-of-the-tests-0123456789abcdef"
# Nobody listens on port 1 of the loopback: a bus that is always away.
NO_BUS = "nats://127.0.0.1:1"
_ids = SystemIds()


@dataclass
class RunningFrontend:
    url: str
    core: Core
    database: Database
    bus: NatsBus
    http: aiohttp.ClientSession
    server: HttpServer

    async def call(
        self, method: str, path: str, body: Any = None, *, key: str | None = ADMIN_KEY, **headers: str
    ) -> tuple[int, Any]:
        """Status and JSON of one call. `headers` use `_` for `-`."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if key is not None:
            sent["Authorization"] = f"Bearer {key}"
        options: dict[str, Any] = {"data": body} if isinstance(body, (bytes, str)) else {"json": body}
        if body is None:
            options = {}
        async with self.http.request(method, f"{self.url}{path}", headers=sent, **options) as answer:
            text = await answer.read()
            is_json = answer.content_type == "application/json"
            return answer.status, (await answer.json()) if is_json and text else text.decode()


def options(**changes: Any) -> CoreOptions:
    """Those of a test: the real defaults, with an id of its own."""
    base = CoreOptions(frontend_id=_ids.new_id(), host="127.0.0.1", port=0, nats_public_url=NO_BUS, admin_key=ADMIN_KEY)
    return replace(base, **changes)


@asynccontextmanager
async def running_frontend(
    database_url: str,
    *,
    authority: Authority | None = None,
    nats_url: str = NO_BUS,
    loads: Loads | None = None,
    spans: Spans | None = None,
    state_dir: Path | None = None,
    waits: bool = True,
    fetcher: Fetcher | None = None,
    **changes: Any,
) -> AsyncIterator[RunningFrontend]:
    """`changes` are fields of CoreOptions. `waits`: it has started when it is handed over."""
    clock, authority = SystemClock(), authority or Authority.create()
    listener = listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    chosen = options(port=port, nats_public_url=nats_url, **changes)
    minter = UserMinter(authority.account_seed)
    endpoint = Endpoint(urls=(nats_url,), client_name="test frontend")
    provider = minter.provider(Role.FRONTEND, subject_id=chosen.frontend_id, name="t", ttl_s=600, clock=clock)
    rng = random.Random(1)
    bus = NatsBus(endpoint, provider, clock=clock, rng=rng)
    keys = RevocationKeys(
        account_public=minter.account_public,
        operator_seed=authority.operator_seed,
        system_seed=authority.system_seed,
    )
    credentials = NodeCredentials(minter, Revoker(endpoint, keys, clock=clock), ttl_s=600, clock=clock)
    database = Database(database_url)
    intake = Intake()
    engines = HttpEngines(intake)
    world = World(
        database=database,
        bus=bus,
        credentials=credentials,
        clock=clock,
        ids=_ids,
        rng=rng,
        engines=engines,
        intake=intake,
        loads=loads,
        spans=spans,
        kept=KeptFile(state_dir, cluster_key(database_url)) if state_dir else None,
    )
    if fetcher is not None:
        world = replace(world, fetcher=fetcher)
    core = Core(chosen, world)
    http = HttpServer(
        with_edge(create_app(core.parts, core.metrics), core.parts, core.metrics),
        listener,
        protocol=Switchboard(core.parts).protocol_class(),
    )
    services = Services([core.metering, http, credentials, bus, engines, core])
    starting = asyncio.create_task(services.start())
    if waits:
        await starting
    try:
        async with aiohttp.ClientSession() as session:
            yield RunningFrontend(
                url=f"http://127.0.0.1:{port}", core=core, database=database, bus=bus, http=session, server=http
            )
    finally:
        starting.cancel()
        await asyncio.wait({starting})
        await services.stop()
        await database.close()
