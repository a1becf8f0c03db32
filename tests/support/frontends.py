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

from corral.adapters.engines import HttpEngineClient
from corral.adapters.nats.authority import NatsAuthority
from corral.adapters.nats.client import NatsBus
from corral.adapters.nats.connection import NatsEndpoint
from corral.adapters.nats.credentials import UserTokenIssuer
from corral.adapters.nats.revocation import CredentialRevoker, RevocationKeys
from corral.adapters.system import SystemClock, SystemIdGenerator
from corral.api.application import create_app, wrap_with_edge
from corral.app.core import CoreDeps, CoreOptions, FrontendCore
from corral.app.http_server import HttpServer
from corral.app.port_providers import NodeCredentialIssuer
from corral.app.process_group import listen
from corral.bus.subjects import BusRole
from corral.gateway.connection.protocol import ConnectionRegistry
from corral.gateway.routing.saved_state import SavedStateFile, compute_cluster_key
from corral.ports.files import Fetcher
from corral.ports.requests import LoadRequester, SpanExporter
from corral.runtime.read_batcher import ReadBatcher
from corral.runtime.services import ServiceGroup
from corral.store.database import Database

ADMIN_KEY = "ck_the-admin-key-of-the-tests-0123456789abcdef"
# No process listens on port 1 of the loopback: a bus that is always away.
NO_BUS = "nats://127.0.0.1:1"
# Most tests take less: the first passes of late loops are a third of the work of a frontend that is started for one
# test. A test that waits for what such a loop does by itself waits so much longer.
LATE_LOOPS_AFTER_S = 5.0
_ids = SystemIdGenerator()


@dataclass
class RunningFrontend:
    """Holds a frontend that runs inside the test's process, and a session to call it with."""

    url: str
    core: FrontendCore
    database: Database
    bus: NatsBus
    http: aiohttp.ClientSession
    server: HttpServer

    async def call(
        self, method: str, path: str, body: Any = None, *, key: str | None = ADMIN_KEY, **headers: str
    ) -> tuple[int, Any]:
        """Make one call and return its status and JSON. `headers` use `_` for `-`."""
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
    """Return options for a test: the real defaults, with a new frontend id and with late loops that begin later."""
    base = CoreOptions(
        frontend_id=_ids.new_id(),
        host="127.0.0.1",
        port=0,
        nats_public_url=NO_BUS,
        admin_key=ADMIN_KEY,
        late_loops_after_s=LATE_LOOPS_AFTER_S,
    )
    return replace(base, **changes)


@asynccontextmanager
async def running_frontend(
    database_url: str,
    *,
    authority: NatsAuthority | None = None,
    nats_url: str = NO_BUS,
    loads: LoadRequester | None = None,
    spans: SpanExporter | None = None,
    state_dir: Path | None = None,
    waits: bool = True,
    fetcher: Fetcher | None = None,
    **changes: Any,
) -> AsyncIterator[RunningFrontend]:
    """Run a frontend. `changes` are fields of CoreOptions. `waits`: yield only after it has started."""
    clock, authority = SystemClock(), authority or NatsAuthority.create()
    listener = listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    chosen = options(port=port, nats_public_url=nats_url, **changes)
    minter = UserTokenIssuer(authority.account_seed)
    endpoint = NatsEndpoint(urls=(nats_url,), client_name="test frontend")
    provider = minter.make_provider(BusRole.FRONTEND, subject_id=chosen.frontend_id, name="t", ttl_s=600, clock=clock)
    rng = random.Random(1)
    bus = NatsBus(endpoint, provider, clock=clock, rng=rng)
    keys = RevocationKeys(
        account_public=minter.account_public,
        operator_seed=authority.operator_seed,
        system_seed=authority.system_seed,
    )
    credentials = NodeCredentialIssuer(minter, CredentialRevoker(endpoint, keys, clock=clock), ttl_s=600, clock=clock)
    database = Database(database_url)
    intake = ReadBatcher()
    engines = HttpEngineClient(intake)
    deps = CoreDeps(
        database=database,
        bus=bus,
        credentials=credentials,
        clock=clock,
        ids=_ids,
        rng=rng,
        engines=engines,
        read_batcher=intake,
        load_requester=loads,
        span_exporter=spans,
        saved_state_file=SavedStateFile(state_dir, compute_cluster_key(database_url)) if state_dir else None,
    )
    if fetcher is not None:
        deps = replace(deps, fetcher=fetcher)
    core = FrontendCore(chosen, deps)
    http = HttpServer(
        wrap_with_edge(create_app(core.api_deps, core.metrics), core.api_deps, core.metrics),
        listener,
        protocol=ConnectionRegistry(core.api_deps).make_protocol_class(),
    )
    services = ServiceGroup([core.usage_shipper, http, credentials, bus, engines, core])
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
