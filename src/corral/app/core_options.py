"""Options of one frontend, and the dependencies that its process or a test passes in."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from corral import __version__
from corral.access.oidc import OidcOptions
from corral.api.join.address import JoinOptions
from corral.app.port_providers import NullEngineClient, NullFetcher, NullModelFileOrigins
from corral.domain.backend import Gallery
from corral.domain.replica import Rule
from corral.gateway.exchange.gateway import BODY_LIMITS, UPLOAD_LIMITS, ExchangeTimeouts
from corral.gateway.routing.replica_pool import ReplicaPoolOptions
from corral.gateway.routing.saved_state import SavedStateFile
from corral.insight.request_monitor import RequestMonitorOptions
from corral.policy.loads import LoadTimeouts
from corral.policy.sealing_keys import SealingKey
from corral.policy.serving.cors import CorsPolicy
from corral.ports.bus import Bus
from corral.ports.credentials import BusCredentialIssuer
from corral.ports.files import Fetcher, ModelFileOrigins, SharedStorage
from corral.ports.requests import EngineClient, LoadRequester, SpanExporter
from corral.ports.runtime import Clock, IdGenerator
from corral.runs.artifacts import ArtifactOptions
from corral.runtime.byte_budget import ByteLimits
from corral.runtime.read_batcher import ReadBatcher
from corral.store.database import Database
from corral.wire.cluster import SettingOut


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreOptions:
    """Tunables of one frontend: its identity, intervals, leases, limits and policies. Built from the settings."""

    frontend_id: str
    host: str
    port: int
    nats_public_url: str
    node_lease_s: float = 45.0
    heartbeat_interval_s: float = 10.0
    heartbeat_flush_s: float = 1.0
    liveness_interval_s: float = 5.0
    leader_lease_s: float = 15.0
    outbox_retention_s: float = 86400.0
    # Time from the boot to the first pass of background loops that no request waits for.
    late_loops_after_s: float = 2.0
    approves_all: bool = False
    admin_key: str | None = None
    local_join_token: str | None = None
    galleries: tuple[Gallery, ...] = ()
    model_galleries: tuple[Gallery, ...] = ()
    # Rules that every start writes to the registry; other rules are left as they are.
    rules: tuple[Rule, ...] = ()
    gallery_interval_s: float = 3600.0
    prefers_development: bool = False
    upgrades_automatically: bool = False
    allows_private_sources: bool = False
    # Whether reward functions of users may be code, which runs on nodes.
    allows_inline_rewards: bool = False
    operation_lease_s: float = 30.0
    # Maximum number of nodes that one operation sends commands to at the same time.
    fan_out: int = 128
    # How long a load may take, and how long a replica that is to be stopped may finish its requests.
    load_timeouts: LoadTimeouts = field(default_factory=LoadTimeouts)
    unload_grace_s: float = 30.0
    # If False, a full disk is a warning instead of a reason not to place a model.
    checks_disk: bool = True
    # Folder of the library of model files. None: no library, and no file can be fetched.
    library_dir: Path | None = None
    # Whether all workers mount the library's folder themselves.
    has_shared_models: bool = False
    # Default time without requests after which a model is unloaded; a model may override it. None: never.
    model_idle_s: float | None = None
    # How long a request may wait for its model to load; 0: as long as the load takes.
    request_wait_s: float = 60.0
    # Concurrent requests per replica, length of the queue, and maximum time in it.
    replica_pool: ReplicaPoolOptions = field(default_factory=ReplicaPoolOptions)
    # How long an engine may send nothing.
    exchange_timeouts: ExchangeTimeouts = field(default_factory=ExchangeTimeouts)
    # Whether responses carry headers with the node, the replica and the time in the queue.
    has_response_headers: bool = True
    # Limits of request bodies in memory and of uploads on disk.
    body_limits: ByteLimits = BODY_LIMITS
    upload_limits: ByteLimits = UPLOAD_LIMITS
    # Options of the request statistics.
    request_monitor: RequestMonitorOptions = field(default_factory=RequestMonitorOptions)
    # The address that browsers use; None: the host of each request.
    public_url: str | None = None
    # Addresses at which other machines reach this frontend.
    join: JoinOptions = field(default_factory=JoinOptions)
    # Key for `/metrics`; None: `/metrics` is open.
    metrics_key: str | None = field(default=None, repr=False)
    # Origins whose web pages may call models.
    cors_policy: CorsPolicy = field(default_factory=lambda: CorsPolicy(()))
    # Keys that seal stored secrets, the first one new ones; empty: none can be stored or used.
    sealing_keys: tuple[SealingKey, ...] = ()
    # Whether MCP tools only read.
    mcp_read_only: bool = False
    # OpenID Connect provider for users; None: users sign in with passwords.
    oidc: OidcOptions | None = None
    # A state that was saved on disk longer ago than this is not served.
    saved_state_max_age_s: float = 7 * 86400.0
    # Folder that holds usage records until PostgreSQL has them; None: they are held in memory only.
    usage_dir: Path | None = None
    usage_retention_s: float = 400 * 86400.0
    # How long runs that have ended are kept, and how long one may take if its agent or task does not say. None: a job
    # of a task 10 minutes, a turn or a chat 5 minutes.
    run_retention_s: float = 30 * 86400.0
    thread_retention_s: float = 365 * 86400.0
    memory_retention_s: float = 365 * 86400.0
    run_timeout_s: float | None = None
    # How much an owner may keep in files, and how long.
    artifacts: ArtifactOptions = field(default_factory=ArtifactOptions)
    # The embedding model of collections that name none; empty: the only one there is.
    embedding_model: str = ""
    # Whether webhooks of tasks may lead into private networks.
    allows_private_webhooks: bool = False
    log_level: str = "info"
    # All settings of this frontend, as admins may see them.
    settings: tuple[SettingOut, ...] = ()

    def make_frontend_row(self) -> dict[str, object]:
        """Return the row of this frontend process in the registry."""
        return {
            "id": self.frontend_id,
            "host": self.host,
            "port": self.port,
            "pid": os.getpid(),
            "version": __version__,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreDeps:
    """Dependencies of a whole frontend (`FrontendCore`): database, bus, clock, ids and the adapters."""

    database: Database
    bus: Bus
    credentials: BusCredentialIssuer
    clock: Clock
    ids: IdGenerator
    rng: random.Random
    fetcher: Fetcher = field(default_factory=NullFetcher)
    engines: EngineClient = field(default_factory=NullEngineClient)
    # Handles reads from engines and clients in batches.
    read_batcher: ReadBatcher = field(default_factory=ReadBatcher)
    origins: ModelFileOrigins = field(default_factory=NullModelFileOrigins)
    storage: SharedStorage | None = None
    # Receives traces; None: no traces are recorded.
    span_exporter: SpanExporter | None = None
    # Replaces the built-in way to load a model.
    load_requester: LoadRequester | None = None
    # Changes the log level of this process; a no-op by default.
    set_log_level: Callable[[Any], None] = lambda _level: None
    # File that holds the state for a start without PostgreSQL; None: no file is written.
    saved_state_file: SavedStateFile | None = None
