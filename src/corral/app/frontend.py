"""`corral serve`: one frontend process, which uses PostgreSQL and NATS. Any number of them run side by side."""

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
from corral.adapters.engines import HttpEngineClient
from corral.adapters.http import HttpFetcher
from corral.adapters.nats.client import NatsBus
from corral.adapters.nats.connection import NatsEndpoint, make_client_tls
from corral.adapters.nats.credentials import UserTokenIssuer
from corral.adapters.nats.revocation import CredentialRevoker, RevocationKeys
from corral.adapters.system import SystemClock, SystemIdGenerator
from corral.api.application import create_app, wrap_with_edge
from corral.api.cluster import render_metrics_page
from corral.api.join.address import JoinOptions
from corral.app.core import CoreDeps, CoreOptions, FrontendCore
from corral.app.http_server import GracefulShutdown, HttpServer
from corral.app.insight import open_span_exporter
from corral.app.logs import configure_access_log, configure_logging, set_log_level
from corral.app.port_providers import LazyModelFileOrigins, NodeCredentialIssuer, open_storage
from corral.app.process_group import (
    FOLDER_VARIABLE,
    PARENT_VARIABLE,
    MetricsPeers,
    bind_shared_port,
    is_port_served,
    listen,
)
from corral.app.settings import FrontendSettings, LoadedSettings, redact_settings
from corral.app.settings.models import parse_scopes
from corral.app.settings.values import parse_networks, parse_origins, read_sealing_keys
from corral.bus.subjects import BusRole
from corral.domain.errors import InvalidRequest
from corral.domain.replica import Rule
from corral.gateway.connection.connection_limits import ConnectionLimits
from corral.gateway.connection.protocol import ConnectionRegistry
from corral.gateway.exchange.gateway import ExchangeTimeouts
from corral.gateway.routing.replica_pool import ReplicaPoolOptions
from corral.gateway.routing.saved_state import SavedStateFile, compute_cluster_key
from corral.insight.request_monitor import RequestMonitorOptions
from corral.models.rules import read_seed
from corral.policy.loads import LoadTimeouts
from corral.policy.sealing_keys import SealingKey
from corral.policy.serving.cors import CorsPolicy
from corral.ports.runtime import Clock, IdGenerator
from corral.runs.artifacts import ArtifactOptions
from corral.runtime.byte_budget import ByteLimits
from corral.runtime.read_batcher import ReadBatcher
from corral.runtime.services import ServiceGroup
from corral.runtime.tasks import TaskSet
from corral.store.database import Database
from corral.wire.cluster import SettingOut
from corral.worker.address import find_outward_host

log = structlog.get_logger(__name__)

# Net number of new objects after which the garbage collector runs. The default of 700 is reached by about sixty
# concurrent requests, so that the collector would scan live objects all the time, at a tenth of a request's time.
GC_THRESHOLD = 10_000
# Interval at which a process of a group checks whether its parent is alive.
PARENT_POLL_S = 1.0
# Pause between two looks at a shared port while this process starts.
PORT_POLL_S = 0.2
# An address of a documentation network (RFC 5737), which no machine has: its route is the default route.
_DOCUMENTATION_ADDRESS = "192.0.2.1"


def run_frontend(loaded: LoadedSettings[FrontendSettings]) -> int:
    """Serve until SIGINT or SIGTERM; the exit code."""
    settings = loaded.settings
    parent = os.environ.get(PARENT_VARIABLE)
    configure_logging(settings.log_format, settings.log_level, frontend=settings.instance_id if parent else None)
    configure_access_log(settings.access_log)
    with asyncio.Runner(loop_factory=_pick_loop_factory()) as runner:
        runner.run(_serve(loaded, int(parent) if parent else None))
    return 0


def _pick_loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if sys.platform == "win32":
        return None
    import uvloop  # noqa: PLC0415 - not there on Windows

    return uvloop.new_event_loop


async def _serve(loaded: LoadedSettings[FrontendSettings], parent_pid: int | None) -> None:
    """Serve until stopped. `parent_pid` is set in a process of a group (`corral serve --processes`), which ends when
    its parent does."""
    settings = loaded.settings
    clock, ids = SystemClock(), SystemIdGenerator()
    open_port = listen if parent_pid is None else bind_shared_port
    listener = open_port(settings.host, settings.port)
    port = listener.getsockname()[1]
    frontend_id = settings.instance_id or ids.new_id()
    database = Database(settings.database_url.get_secret_value())
    deps = _make_core_deps(settings, database, frontend_id, clock, ids)
    services = ServiceGroup()
    options = replace(_make_core_options(settings, frontend_id, port), settings=list_shown_settings(loaded))
    core = FrontendCore(options, deps, on_crash=services.request_stop)
    http = HttpServer(
        wrap_with_edge(create_app(core.api_deps, core.metrics), core.api_deps, core.metrics),
        listener,
        protocol=ConnectionRegistry(core.api_deps, _make_connection_limits(settings)).make_protocol_class(),
        trusted_proxies=[str(network) for network in parse_networks(settings.trusted_proxies)],
        grace_s=settings.stop_grace_s,
        on_crash=services.request_stop,
    )
    assert isinstance(deps.credentials, NodeCredentialIssuer)
    assert isinstance(deps.fetcher, HttpFetcher)
    assert isinstance(deps.engines, HttpEngineClient)
    assert isinstance(deps.origins, LazyModelFileOrigins)
    announcement = _ReadyAnnouncer(core, settings, port)
    # Started before the first request and stopped after the last one, so that all usage is counted.
    services.add(_DatabaseCloser(database), core.usage_shipper, http, deps.credentials, deps.bus)
    if parent_pid is not None:
        http.wait_for_turn = _PortTurn(core, settings.host, port, clock).wait
        services.add(
            _ParentWatcher(parent_pid, services.request_stop, clock),
            *_make_process_group(core, frontend_id, parent_pid),
        )
    services.add(deps.fetcher, deps.engines, deps.origins, core, announcement)
    shutdown = GracefulShutdown(core, http, settings.stop_grace_s)
    services.set_before_stop(shutdown.shut_down)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, _on_signal, services, shutdown)
    await services.run()
    log.info("frontend stopped", frontend=frontend_id)


def _make_process_group(core: FrontendCore, frontend_id: str, parent_pid: int) -> list[MetricsPeers]:
    """Return the metrics peers of a process group, empty if the parent has named no folder for their sockets."""
    folder, number = os.environ.get(FOLDER_VARIABLE), frontend_id.rpartition("-")[2]
    if not folder or not number.isdecimal():
        return []
    metrics_peers = MetricsPeers(
        Path(folder), int(number), lambda: render_metrics_page(core.api_deps, core.metrics), parent_pid
    )
    core.metrics.page_collector = metrics_peers
    return [metrics_peers]


def _on_signal(services: ServiceGroup, shutdown: GracefulShutdown) -> None:
    """Stop gracefully at the first signal; stop waiting for open responses at the second."""
    if shutdown.has_begun:
        shutdown.stop_waiting()
    services.request_stop()


def _make_core_options(settings: FrontendSettings, frontend_id: str, port: int) -> CoreOptions:
    return CoreOptions(
        frontend_id=frontend_id,
        host=_find_advertised_host(settings),
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
        rules=_read_rules(settings),
        gallery_interval_s=settings.gallery_interval_s,
        prefers_development=settings.prefer_development,
        upgrades_automatically=settings.auto_upgrade_backends,
        allows_private_sources=settings.allow_private_sources,
        allows_inline_rewards=settings.allow_inline_rewards,
        fan_out=settings.operation_fan_out,
        request_wait_s=settings.request_wait_s,
        exchange_timeouts=ExchangeTimeouts(
            first_byte_s=settings.first_byte_timeout_s, between_bytes_s=settings.between_bytes_timeout_s
        ),
        has_response_headers=settings.response_headers,
        log_level=settings.log_level,
        body_limits=ByteLimits(total_bytes=settings.request_bytes_max, key_bytes=settings.request_key_bytes_max),
        upload_limits=ByteLimits(total_bytes=settings.upload_bytes_max, key_bytes=settings.upload_key_bytes_max),
        public_url=settings.public_url,
        join=JoinOptions(listen_host=settings.host, port=port, find_host=_find_network_host),
        metrics_key=settings.metrics_key.get_secret_value() if settings.metrics_key else None,
        cors_policy=CorsPolicy(parse_origins(settings.cors_origins)),
        mcp_read_only=settings.mcp_read_only,
        oidc=_make_oidc_options(settings),
        sealing_keys=_read_sealing_keys(settings),
        saved_state_max_age_s=settings.kept_max_age_s,
        usage_dir=settings.state_dir / "usage" / compute_cluster_key(settings.database_url.get_secret_value()),
        usage_retention_s=settings.usage_retention_s,
        run_retention_s=settings.run_retention_s,
        thread_retention_s=settings.thread_retention_s,
        memory_retention_s=settings.memory_retention_s,
        run_timeout_s=settings.run_timeout_s,
        artifacts=ArtifactOptions(
            owner_bytes_max=settings.artifact_bytes_max, retention_s=settings.artifact_retention_s
        ),
        embedding_model=settings.embedding_model,
        allows_private_webhooks=settings.allow_private_webhooks,
        request_monitor=RequestMonitorOptions(access_log=settings.access_log, trace_share=settings.trace_share),
        replica_pool=ReplicaPoolOptions(
            concurrency=settings.replica_concurrency,
            queue_max=settings.queue_max,
            queue_wait_s=settings.queue_wait_s,
        ),
        load_timeouts=LoadTimeouts(
            base_s=settings.load_hold_s, stall_s=settings.load_stall_s, cap_s=settings.load_cap_s
        ),
        unload_grace_s=settings.unload_grace_s,
        model_idle_s=settings.model_idle_s or None,
        checks_disk=settings.disk_check,
        library_dir=settings.library_dir,
        has_shared_models=settings.shared_models,
    )


def _make_connection_limits(settings: FrontendSettings) -> ConnectionLimits:
    return ConnectionLimits(
        total=settings.connections_max,
        per_address=settings.connections_per_address_max,
        trusted_proxies=parse_networks(settings.trusted_proxies),
    )


def _find_advertised_host(settings: FrontendSettings) -> str:
    """Return the host that other machines use. If the frontend listens on all addresses: this machine's address on the
    route to the database."""
    if settings.host not in ("0.0.0.0", "::"):  # noqa: S104 - compared with, not listened on
        return settings.host
    # Only the host is used: an address with several databases has no port that could be parsed.
    return find_outward_host([f"http://{urlsplit(settings.database_url.get_secret_value()).hostname or ''}"])


def _find_network_host() -> str:
    """Return this machine's address on its default route. Reads the routing table and sends nothing."""
    return find_outward_host([f"http://{_DOCUMENTATION_ADDRESS}"])


def list_shown_settings(loaded: LoadedSettings[FrontendSettings]) -> tuple[SettingOut, ...]:
    return tuple(
        SettingOut(
            name=one.key,
            value=one.value,
            source=one.origin,
            section=one.section,
            sentence=one.sentence,
            is_secret=one.is_secret,
        )
        for one in redact_settings(loaded)
    )


def _make_oidc_options(settings: FrontendSettings) -> OidcOptions | None:
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


def _read_sealing_keys(settings: FrontendSettings) -> tuple[SealingKey, ...]:
    """Return the keys of the key file, none if no file is set."""
    if settings.secrets_key_file is None:
        return ()
    try:
        return read_sealing_keys(settings.secrets_key_file)
    except ValueError as error:
        # It was right when the settings were checked, a moment ago.
        raise InvalidRequest(f"secrets_key_file {error}.") from None


def _read_rules(settings: FrontendSettings) -> tuple[Rule, ...]:
    """Return the rules of the settings. Raises for any invalid entry, which prevents the start."""
    text = settings.rules_file.read_text(encoding="utf-8") if settings.rules_file else ""
    return read_seed(settings.rules or "", text)


def _make_core_deps(
    settings: FrontendSettings, database: Database, frontend_id: str, clock: Clock, ids: IdGenerator
) -> CoreDeps:
    rng = random.Random()  # noqa: S311 - jitter, not secrets
    tls = make_client_tls(tls_ca=settings.nats_tls_ca, tls_cert=settings.nats_tls_cert, tls_key=settings.nats_tls_key)
    urls = tuple(url.strip() for url in settings.nats_url.split(","))
    endpoint = NatsEndpoint(urls=urls, client_name=f"corral frontend {frontend_id}", tls=tls)
    minter = UserTokenIssuer(settings.nats_account_seed.get_secret_value())
    ttl_s = settings.bus_credential_ttl_s
    bus = NatsBus(
        endpoint,
        minter.make_provider(BusRole.FRONTEND, subject_id=frontend_id, name="frontend", ttl_s=ttl_s, clock=clock),
        clock=clock,
        rng=rng,
    )
    keys = RevocationKeys(
        account_public=minter.account_public,
        operator_seed=settings.nats_operator_seed.get_secret_value() if settings.nats_operator_seed else None,
        system_seed=settings.nats_system_seed.get_secret_value() if settings.nats_system_seed else None,
    )
    credentials = NodeCredentialIssuer(minter, CredentialRevoker(endpoint, keys, clock=clock), ttl_s=ttl_s, clock=clock)
    intake = ReadBatcher()
    return CoreDeps(
        database=database,
        bus=bus,
        credentials=credentials,
        clock=clock,
        ids=ids,
        rng=rng,
        fetcher=HttpFetcher(),
        engines=HttpEngineClient(intake),
        read_batcher=intake,
        origins=LazyModelFileOrigins(
            settings, clock, rng, extra_folders=(settings.library_dir,), environment=os.environ
        ),
        storage=open_storage(settings),
        span_exporter=open_span_exporter(settings, frontend_id),
        set_log_level=set_log_level,
        saved_state_file=SavedStateFile(
            settings.state_dir, compute_cluster_key(settings.database_url.get_secret_value())
        ),
    )


class _DatabaseCloser:
    """Closes the database pool as the last service, after everything that uses it."""

    name = "database"

    def __init__(self, database: Database) -> None:
        self._database = database

    async def start(self) -> None:
        return

    async def stop(self) -> None:
        await self._database.close()


class _ParentWatcher:
    """Ends this frontend process when its parent process is gone."""

    name = "orphanage"

    def __init__(self, parent_pid: int, end: Callable[[], None], clock: Clock) -> None:
        self._parent_pid = parent_pid
        self._end = end
        self._clock = clock
        self._tasks = TaskSet("orphanage")

    async def start(self) -> None:
        self._tasks.start(self._watch(), name="watch")

    async def stop(self) -> None:
        await self._tasks.close()

    async def _watch(self) -> None:
        while os.getppid() == self._parent_pid:
            await self._clock.sleep(PARENT_POLL_S)
        log.warning("the parent process is gone")
        self._end()


class _PortTurn:
    """Keeps a process of a group off its shared port while it starts and another process serves the port."""

    def __init__(self, core: FrontendCore, host: str, port: int, clock: Clock) -> None:
        self._core = core
        self._host = host
        self._port = port
        self._clock = clock

    async def wait(self) -> None:
        """Return once this frontend is ready or no other process accepts connections on the port."""
        while self._core.get_not_ready_reason() is not None and await is_port_served(self._host, self._port):
            await self._clock.sleep(PORT_POLL_S)


class _ReadyAnnouncer:
    """Prints the first admin key and logs that the frontend is ready, once all services have started."""

    name = "announcement"

    def __init__(self, core: FrontendCore, settings: FrontendSettings, port: int) -> None:
        self._core = core
        self._settings = settings
        self._port = port

    async def start(self) -> None:
        if self._core.first_key is not None:
            # Written to the terminal and not to the log, because logs are kept and shipped.
            sys.stderr.write(f"\nAdmin key, shown this once: {self._core.first_key}\n\n")
            sys.stderr.flush()
        # Objects that the start has created live as long as the process, so the collector need not scan them again.
        gc.freeze()
        gc.set_threshold(GC_THRESHOLD)
        log.info(
            "frontend is ready", url=f"http://{self._settings.host}:{self._port}", id=self._core.api_deps.frontend_id
        )

    async def stop(self) -> None:
        return
