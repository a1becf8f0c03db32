"""`corral serve`: one frontend process on a PostgreSQL and a NATS. Any number of them run side by side."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import structlog

from corral.access.oidc import OidcOptions
from corral.adapters.engines import HttpEngines
from corral.adapters.http import HttpFetcher
from corral.adapters.nats.client import NatsBus
from corral.adapters.nats.connection import Endpoint
from corral.adapters.nats.credentials import UserMinter
from corral.adapters.nats.revocation import RevocationKeys, Revoker
from corral.adapters.nats.tls import client_tls
from corral.adapters.system import SystemClock, SystemIds
from corral.api.application import create_app, with_edge
from corral.api.cluster import metrics_page
from corral.api.join.address import JoinOptions
from corral.app.core import Core, CoreOptions, World
from corral.app.credentials import NodeCredentials
from corral.app.insight import open_spans
from corral.app.listening.leaving import Leaving
from corral.app.listening.port import PARENT_VARIABLE, listen
from corral.app.listening.server import HttpServer
from corral.app.listening.siblings import FOLDER_VARIABLE, Siblings
from corral.app.logs import configure_access_log, configure_logging, set_log_level
from corral.app.model_origins import ModelOrigins
from corral.app.model_storage import open_storage
from corral.app.settings import FrontendSettings, Loaded, redacted
from corral.app.settings.identity import parse_scopes
from corral.app.settings.values import parse_networks, parse_origins
from corral.bus.subjects import Role
from corral.domain.replica import Rule
from corral.gateway.connection_limits import ConnectionLimits
from corral.gateway.protocol import Switchboard
from corral.insight.insight import InsightOptions
from corral.models.rules import read_seed
from corral.policy.loading import Hold
from corral.policy.serving.origins import OriginPolicy
from corral.ports.runtime import Clock, Ids
from corral.runtime.byte_budget import ByteLimits
from corral.runtime.intake import Intake
from corral.runtime.services import Services
from corral.runtime.tasks import Tasks
from corral.serving.gateway import Timeouts
from corral.serving.kept import KeptFile, cluster_key
from corral.serving.seats import SeatOptions
from corral.store.database import Database
from corral.wire.settings import SettingOut
from corral.worker.address import outward_host

log = structlog.get_logger(__name__)

# Garbage is looked for when so many more objects were made than let go of. The usual 700 are those of sixty requests at
# a time: these would be looked through again and again, for a tenth of a request's time, and none of them is garbage.
YOUNG_OBJECTS = 10_000
# How often one of several processes looks whether their parent is there.
PARENT_LOOK_S = 1.0
# Of a network that no machine is in (RFC 5737): the way there is the way out.
_DOCUMENTATION_ADDRESS = "192.0.2.1"


def run_frontend(loaded: Loaded[FrontendSettings]) -> int:
    """Serve until SIGINT or SIGTERM; the exit code."""
    settings = loaded.settings
    parent = os.environ.get(PARENT_VARIABLE)
    configure_logging(settings.log_format, settings.log_level, frontend=settings.instance_id if parent else None)
    configure_access_log(settings.access_log)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(loaded, int(parent) if parent else None))
    return 0


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if sys.platform == "win32":
        return None
    import uvloop  # noqa: PLC0415 - not there on Windows

    return uvloop.new_event_loop


async def _serve(loaded: Loaded[FrontendSettings], parent_pid: int | None) -> None:
    """`parent_pid`: this is one of several on the same port, and does not outlive their parent."""
    settings = loaded.settings
    clock, ids = SystemClock(), SystemIds()
    listener = listen(settings.host, settings.port, shares_port=parent_pid is not None)
    port = listener.getsockname()[1]
    frontend_id = settings.instance_id or ids.new_id()
    database = Database(settings.database_url.get_secret_value())
    world = _world(settings, database, frontend_id, clock, ids)
    services = Services()
    options = replace(_options(settings, frontend_id, port), settings=shown_settings(loaded))
    core = Core(options, world, on_crash=services.end)
    http = HttpServer(
        with_edge(create_app(core.parts, core.metrics), core.parts, core.metrics),
        listener,
        protocol=Switchboard(core.parts, _connection_limits(settings)).protocol_class(),
        trusted_proxies=[str(network) for network in parse_networks(settings.trusted_proxies)],
        grace_s=settings.stop_grace_s,
        on_crash=services.end,
    )
    assert isinstance(world.credentials, NodeCredentials)
    assert isinstance(world.fetcher, HttpFetcher)
    assert isinstance(world.engines, HttpEngines)
    assert isinstance(world.origins, ModelOrigins)
    announcement = _Announcement(core, settings, port)
    # Before the first request and after the last: what was used is counted.
    services.add(_Closing(database), core.metering, http, world.credentials, world.bus)
    if parent_pid is not None:
        services.add(_Orphanage(parent_pid, services.end, clock), *_siblings(core, frontend_id, parent_pid))
    services.add(world.fetcher, world.engines, world.origins, core, announcement)
    leaving = Leaving(core, http, settings.stop_grace_s)
    services.before_stop(leaving.leave)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, _on_signal, services, leaving)
    await services.run()
    log.info("frontend stopped", frontend=frontend_id)


def _siblings(core: Core, frontend_id: str, parent_pid: int) -> list[Siblings]:
    """Those on the same port, if their parent has told where they meet."""
    folder, number = os.environ.get(FOLDER_VARIABLE), frontend_id.rpartition("-")[2]
    if not folder or not number.isdecimal():
        return []
    siblings = Siblings(Path(folder), int(number), lambda: metrics_page(core.parts, core.metrics), parent_pid)
    core.metrics.siblings = siblings
    return [siblings]


def _on_signal(services: Services, leaving: Leaving) -> None:
    """The first one asks to stop, a second one not to wait."""
    if leaving.has_begun:
        leaving.hurry()
    services.end()


def _options(settings: FrontendSettings, frontend_id: str, port: int) -> CoreOptions:
    return CoreOptions(
        frontend_id=frontend_id,
        host=_reached_at(settings),
        port=port,
        nats_public_url=settings.nats_public_url,
        node_lease_s=settings.node_lease_s,
        heartbeat_interval_s=settings.heartbeat_interval_s,
        heartbeat_flush_s=settings.heartbeat_flush_s,
        liveness_interval_s=settings.liveness_interval_s,
        leader_lease_s=settings.leader_lease_s,
        outbox_retention_s=settings.outbox_retention_s,
        approves_all=settings.auto_approve_nodes,
        admin_key=settings.admin_key.get_secret_value() if settings.admin_key else None,
        local_join_token=settings.local_join_token.get_secret_value() if settings.local_join_token else None,
        galleries=settings.backend_galleries,
        model_galleries=settings.model_galleries,
        rules=_rules(settings),
        gallery_interval_s=settings.gallery_interval_s,
        prefers_development=settings.prefer_development,
        upgrades_by_itself=settings.auto_upgrade_backends,
        allows_private_sources=settings.allow_private_sources,
        fan_out=settings.operation_fan_out,
        request_wait_s=settings.request_wait_s,
        timeouts=Timeouts(first_byte_s=settings.first_byte_timeout_s, between_s=settings.between_bytes_timeout_s),
        has_response_headers=settings.response_headers,
        log_level=settings.log_level,
        body_limits=ByteLimits(total_bytes=settings.request_bytes_max, key_bytes=settings.request_key_bytes_max),
        upload_limits=ByteLimits(total_bytes=settings.upload_bytes_max, key_bytes=settings.upload_key_bytes_max),
        public_url=settings.public_url,
        join=JoinOptions(listen_host=settings.host, port=port, find_host=_find_network_host),
        metrics_key=settings.metrics_key.get_secret_value() if settings.metrics_key else None,
        origins=OriginPolicy(parse_origins(settings.cors_origins)),
        oidc=_oidc(settings),
        kept_max_age_s=settings.kept_max_age_s,
        usage_dir=settings.state_dir / "usage" / cluster_key(settings.database_url.get_secret_value()),
        usage_retention_s=settings.usage_retention_s,
        insight=InsightOptions(access_log=settings.access_log, trace_share=settings.trace_share),
        seats=SeatOptions(
            concurrency=settings.replica_concurrency,
            queue_max=settings.queue_max,
            queue_wait_s=settings.queue_wait_s,
        ),
        load_hold=Hold(base_s=settings.load_hold_s, stall_s=settings.load_stall_s, cap_s=settings.load_cap_s),
        unload_grace_s=settings.unload_grace_s,
        model_idle_s=settings.model_idle_s or None,
        checks_disk=settings.disk_check,
        library_dir=settings.library_dir,
        has_shared_models=settings.shared_models,
    )


def _connection_limits(settings: FrontendSettings) -> ConnectionLimits:
    return ConnectionLimits(
        total=settings.connections_max,
        per_address=settings.connections_per_address_max,
        trusted_proxies=parse_networks(settings.trusted_proxies),
    )


def _reached_at(settings: FrontendSettings) -> str:
    """What others are told: of one that listens everywhere, this machine's address on the way to the database."""
    if settings.host not in ("0.0.0.0", "::"):  # noqa: S104 - compared with, not listened on
        return settings.host
    # Only its host: an address of several databases has no port that could be read.
    return outward_host([f"http://{urlsplit(settings.database_url.get_secret_value()).hostname or ''}"])


def _find_network_host() -> str:
    """Return this machine's address on the way out of its network. Nothing is sent: the routing table is asked."""
    return outward_host([f"http://{_DOCUMENTATION_ADDRESS}"])


def shown_settings(loaded: Loaded[FrontendSettings]) -> tuple[SettingOut, ...]:
    return tuple(
        SettingOut(
            name=one.key,
            value=one.value,
            source=one.origin,
            section=one.section,
            sentence=one.sentence,
            is_secret=one.is_secret,
        )
        for one in redacted(loaded)
    )


def _oidc(settings: FrontendSettings) -> OidcOptions | None:
    if settings.oidc_issuer is None or settings.oidc_client_id is None:
        return None
    secret = settings.oidc_client_secret
    return OidcOptions(
        issuer=settings.oidc_issuer,
        client_id=settings.oidc_client_id,
        client_secret=secret.get_secret_value() if secret else None,
        scope_claim=settings.oidc_scope_claim,
        scopes=parse_scopes(settings.oidc_scopes),
        default_scope=settings.oidc_default_scope,
    )


def _rules(settings: FrontendSettings) -> tuple[Rule, ...]:
    """Any wrong entry stops the start."""
    text = settings.rules_file.read_text(encoding="utf-8") if settings.rules_file else ""
    return read_seed(settings.rules or "", text)


def _world(settings: FrontendSettings, database: Database, frontend_id: str, clock: Clock, ids: Ids) -> World:
    rng = random.Random()  # noqa: S311 - jitter, not secrets
    tls = client_tls(tls_ca=settings.nats_tls_ca, tls_cert=settings.nats_tls_cert, tls_key=settings.nats_tls_key)
    urls = tuple(url.strip() for url in settings.nats_url.split(","))
    endpoint = Endpoint(urls=urls, client_name=f"corral frontend {frontend_id}", tls=tls)
    minter = UserMinter(settings.nats_account_seed.get_secret_value())
    ttl_s = settings.bus_credential_ttl_s
    bus = NatsBus(
        endpoint,
        minter.provider(Role.FRONTEND, subject_id=frontend_id, name="frontend", ttl_s=ttl_s, clock=clock),
        clock=clock,
        rng=rng,
    )
    keys = RevocationKeys(
        account_public=minter.account_public,
        operator_seed=settings.nats_operator_seed.get_secret_value() if settings.nats_operator_seed else None,
        system_seed=settings.nats_system_seed.get_secret_value() if settings.nats_system_seed else None,
    )
    credentials = NodeCredentials(minter, Revoker(endpoint, keys, clock=clock), ttl_s=ttl_s, clock=clock)
    intake = Intake()
    return World(
        database=database,
        bus=bus,
        credentials=credentials,
        clock=clock,
        ids=ids,
        rng=rng,
        fetcher=HttpFetcher(),
        engines=HttpEngines(intake),
        intake=intake,
        origins=ModelOrigins(settings, clock, rng, own=(settings.library_dir,), environment=os.environ),
        storage=open_storage(settings),
        spans=open_spans(settings, frontend_id),
        set_log_level=set_log_level,
        kept=KeptFile(settings.state_dir, cluster_key(settings.database_url.get_secret_value())),
    )


class _Closing:
    """The pool is closed last, after everything that uses it."""

    name = "database"

    def __init__(self, database: Database) -> None:
        self._database = database

    async def start(self) -> None:
        return

    async def stop(self) -> None:
        await self._database.close()


class _Orphanage:
    """Ends this process when its parent is gone."""

    name = "orphanage"

    def __init__(self, parent_pid: int, end: Callable[[], None], clock: Clock) -> None:
        self._parent_pid = parent_pid
        self._end = end
        self._clock = clock
        self._tasks = Tasks("orphanage")

    async def start(self) -> None:
        self._tasks.start(self._watch(), name="watch")

    async def stop(self) -> None:
        await self._tasks.close()

    async def _watch(self) -> None:
        while os.getppid() == self._parent_pid:
            await self._clock.sleep(PARENT_LOOK_S)
        log.warning("the parent process is gone")
        self._end()


class _Announcement:
    """What an operator reads when the frontend is up."""

    name = "announcement"

    def __init__(self, core: Core, settings: FrontendSettings, port: int) -> None:
        self._core = core
        self._settings = settings
        self._port = port

    async def start(self) -> None:
        if self._core.first_key is not None:
            # To the terminal and not to the log: logs are kept and shipped.
            sys.stderr.write(f"\nAdmin key, shown this once: {self._core.first_key}\n\n")
            sys.stderr.flush()
        # What the start has made stays as long as the process: it is looked through no more.
        gc.freeze()
        gc.set_threshold(YOUNG_OBJECTS)
        log.info("frontend is ready", url=f"http://{self._settings.host}:{self._port}", id=self._core.parts.frontend_id)

    async def stop(self) -> None:
        return
