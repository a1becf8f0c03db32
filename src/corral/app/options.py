"""What one frontend is told, and what it is given from outside."""

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
from corral.app.no_engines import NoEngines
from corral.app.no_network import NoNetwork, NoOrigins
from corral.domain.backend import Gallery
from corral.domain.replica import Rule
from corral.insight.insight import InsightOptions
from corral.policy.loading import Hold
from corral.policy.serving.origins import OriginPolicy
from corral.ports.bus import Bus
from corral.ports.credentials import BusCredentials
from corral.ports.engines import Engines
from corral.ports.fetch import Fetcher
from corral.ports.loads import Loads
from corral.ports.origin import Origins
from corral.ports.runtime import Clock, Ids
from corral.ports.storage import Storage
from corral.ports.traces import Spans
from corral.runtime.byte_budget import ByteLimits
from corral.runtime.intake import Intake
from corral.serving.gateway import BODY_LIMITS, UPLOAD_LIMITS, Timeouts
from corral.serving.kept import KeptFile
from corral.serving.seats import SeatOptions
from corral.store.database import Database
from corral.wire.settings import SettingOut


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreOptions:
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
    approves_all: bool = False
    admin_key: str | None = None
    local_join_token: str | None = None
    galleries: tuple[Gallery, ...] = ()
    model_galleries: tuple[Gallery, ...] = ()
    # Made so at every start; others are left alone.
    rules: tuple[Rule, ...] = ()
    gallery_interval_s: float = 3600.0
    prefers_development: bool = False
    upgrades_by_itself: bool = False
    allows_private_sources: bool = False
    operation_lease_s: float = 30.0
    # How many nodes one operation speaks to at once.
    fan_out: int = 128
    # How long a load may take, and a replica that is to end may finish what it is answering.
    load_hold: Hold = field(default_factory=Hold)
    unload_grace_s: float = 30.0
    # Off: a full disk is a warning.
    checks_disk: bool = True
    # Where the files of models are kept; None: nowhere, and none can be fetched.
    library_dir: Path | None = None
    # All workers see the library's folder themselves.
    has_shared_models: bool = False
    # A model that nobody asks for is unloaded after so long, unless it says otherwise. None: never.
    model_idle_s: float | None = None
    # How long a request may wait for its model; 0: as long as the load takes.
    request_wait_s: float = 60.0
    # How many requests a replica is given at a time, how many wait for their turn, and how long.
    seats: SeatOptions = field(default_factory=SeatOptions)
    # How long an engine may be silent.
    timeouts: Timeouts = field(default_factory=Timeouts)
    # Whether answers name node, replica and time in the queue.
    has_response_headers: bool = True
    # What is kept of requests: bodies in memory, uploads on the disk.
    body_limits: ByteLimits = BODY_LIMITS
    upload_limits: ByteLimits = UPLOAD_LIMITS
    # What is seen of requests.
    insight: InsightOptions = field(default_factory=InsightOptions)
    # The address that browsers use; None: whatever each asks by.
    public_url: str | None = None
    # Where another machine reaches this frontend.
    join: JoinOptions = field(default_factory=JoinOptions)
    # None: /metrics is open.
    metrics_key: str | None = field(default=None, repr=False)
    # Web pages of these origins may call models.
    origins: OriginPolicy = field(default_factory=lambda: OriginPolicy(()))
    # Who vouches for people; None: nobody, they have passwords.
    oidc: OidcOptions | None = None
    # What was kept on disk longer ago is not served.
    kept_max_age_s: float = 7 * 86400.0
    # Where usage is on the disk until PostgreSQL has it; None: in memory only.
    usage_dir: Path | None = None
    usage_retention_s: float = 400 * 86400.0
    log_level: str = "info"
    # All that this frontend was told, as admins may see it.
    settings: tuple[SettingOut, ...] = ()

    def frontend_row(self) -> dict[str, object]:
        """Return what the registry keeps of this frontend process."""
        return {
            "id": self.frontend_id,
            "host": self.host,
            "port": self.port,
            "pid": os.getpid(),
            "version": __version__,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What the core is given from outside."""

    database: Database
    bus: Bus
    credentials: BusCredentials
    clock: Clock
    ids: Ids
    rng: random.Random
    fetcher: Fetcher = field(default_factory=NoNetwork)
    engines: Engines = field(default_factory=NoEngines)
    # What is read from engines and clients is taken together.
    intake: Intake = field(default_factory=Intake)
    origins: Origins = field(default_factory=NoOrigins)
    storage: Storage | None = None
    # Where traces go; None: there are none.
    spans: Spans | None = None
    # Instead of our own way to load a model.
    loads: Loads | None = None
    # Changes what this process logs; by default nobody does.
    set_log_level: Callable[[Any], None] = lambda _level: None
    # Where what is served is kept for a start without PostgreSQL; None: nowhere.
    kept: KeptFile | None = None
