"""Every setting of every process, typed, with its default and its sentence.

The models are plain values: making one reads neither the environment nor a file (`loading.py` does that once), so a
test can build exactly the settings it means. Flags, variables, the reference page and `config show` are made from the
fields, so they cannot drift apart.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field, SecretStr

from corral.app.settings.base import BrokenRule, ProcessSettings, shown_default
from corral.app.settings.client import ClientSettings
from corral.app.settings.galleries import Galleries
from corral.app.settings.identity import Identity
from corral.app.settings.values import (
    AccountSeed,
    AdvertisedAddress,
    AnyCase,
    DatabaseUrl,
    Directory,
    Duration,
    DurationOrZero,
    Folders,
    FrontendUrls,
    Labels,
    Names,
    NatsUrl,
    Networks,
    OperatorSeed,
    Origins,
    ReadableFile,
    RegistryCredentials,
    SizeBytes,
    StorageAddress,
    StorageKey,
    VramBudget,
    WebAddress,
    duration_text,
    without_userinfo,
)
from corral.domain.node import NodeType
from corral.insight.access_log import AccessLogStyle

# A silent node must be shown as such within a minute; the liveness pass that follows the lease takes the rest.
LONGEST_NODE_LEASE_S = 55.0
LONGEST_DETECTION_S = 60.0
HEARTBEATS_PER_LEASE = 3


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class _Logging(ProcessSettings):
    log_format: Annotated[LogFormat, AnyCase] | None = Field(
        default=None,
        description="How log lines look: text for people, json for collectors.",
        json_schema_extra=shown_default("text on a terminal, otherwise json"),
    )
    log_level: Annotated[LogLevel, AnyCase] = Field(
        default=LogLevel.INFO, description="The least important kind of line that is written."
    )


class _BusTls(ProcessSettings):
    nats_tls_ca: ReadableFile | None = Field(
        default=None, description="File with the authorities that may have signed the NATS server's certificate."
    )
    nats_tls_cert: ReadableFile | None = Field(
        default=None, description="File with the client certificate shown to NATS. Goes with the key."
    )
    nats_tls_key: ReadableFile | None = Field(
        default=None, description="File with the private key of the client certificate shown to NATS."
    )

    def broken_rules(self) -> Iterator[BrokenRule]:
        yield from super().broken_rules()
        yield from self.must_go_together(
            "nats_tls_cert", "nats_tls_key", why="a certificate and its key are useless alone"
        )


class FrontendSettings(Identity, _BusTls, _Logging):
    """`corral serve`: one control-plane process."""

    process: ClassVar[str] = "frontend"

    database_url: DatabaseUrl = Field(description="PostgreSQL address: postgresql://user:password@host:5432/database.")
    nats_url: NatsUrl = Field(description="NATS address: nats://host:4222. Several are parted by commas.")
    nats_account_seed: AccountSeed = Field(
        description="Seed of the NATS account that signs the credentials of frontends and nodes. Starts with SA."
    )
    nats_operator_seed: OperatorSeed | None = Field(
        default=None, description="Seed of the NATS operator, needed to cut off a revoked node. Starts with SO."
    )
    nats_system_seed: AccountSeed | None = Field(
        default=None, description="Seed of the NATS system account, needed beside the operator's. Starts with SA."
    )
    nats_public_url: str = Field(
        default_factory=lambda data: without_userinfo(str(data["nats_url"])),
        description="NATS address that workers are told. {host} stands for the host by which a worker reached us.",
        json_schema_extra=shown_default("the NATS address"),
    )
    host: str = Field(default="127.0.0.1", min_length=1, description="Address to listen on.")
    port: int = Field(default=8080, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    admin_key: SecretStr | None = Field(
        default=None, description="Admin key that must exist. Without it, one is made at the very first start."
    )
    metrics_key: SecretStr | None = Field(
        default=None, description="Key that GET /metrics asks for, as a bearer token. Without it, it is open to all."
    )
    local_join_token: SecretStr | None = Field(
        default=None, description="Join token that must exist; a node that joins with it is approved at once."
    )
    auto_approve_nodes: bool = Field(default=False, description="Approve every node that joins with a valid token.")
    node_lease_s: Duration = Field(
        default=45.0, description="A node that has not been heard of for this long is offline."
    )
    heartbeat_interval_s: Duration = Field(default=10.0, description="How often a worker reports; workers are told.")
    heartbeat_flush_s: Duration = Field(
        default=1.0, description="How long heartbeats are gathered before one write to PostgreSQL."
    )
    liveness_interval_s: Duration = Field(default=5.0, description="How often silent nodes are looked for.")
    leader_lease_s: Duration = Field(
        default=15.0, description="How long a frontend leads without renewing; a dead leader is replaced after this."
    )
    bus_credential_ttl_s: Duration = Field(
        default=3600.0, description="Life of a node's NATS credential; it is renewed well before its end."
    )
    outbox_retention_s: Duration = Field(
        default=86400.0, description="How far back a page or client can resume its event stream."
    )
    operation_fan_out: int = Field(
        default=128, ge=1, le=10_000, description="How many nodes one operation speaks to at the same time."
    )
    request_wait_s: DurationOrZero = Field(
        default=60.0,
        description="How long a request waits for a model that is being loaded; 0 waits as long as the load takes.",
    )
    first_byte_timeout_s: DurationOrZero = Field(
        default=600.0,
        description="How long an engine may think before the first byte of an answer; 0 is for ever. A long prompt, or "
        "an answer that is no stream, is silent for minutes.",
    )
    between_bytes_timeout_s: DurationOrZero = Field(
        default=300.0, description="How long an engine may be silent in the middle of an answer; 0 is for ever."
    )
    request_bytes_max: SizeBytes = Field(
        default=512 * 1024**2,
        gt=0,
        description="How much of request bodies above 64 KiB a frontend keeps in memory at a time; more is 503.",
    )
    request_key_bytes_max: SizeBytes = Field(
        default=128 * 1024**2, gt=0, description="The same for the requests of one key; more is 429."
    )
    upload_bytes_max: SizeBytes = Field(
        default=4 * 1024**3,
        gt=0,
        description="How much of uploads of sound a frontend keeps on its disk at a time; more is 503.",
    )
    upload_key_bytes_max: SizeBytes = Field(
        default=1024**3, gt=0, description="The same for the uploads of one key; more is 429."
    )
    connections_max: int = Field(
        default=16_384, ge=1, le=1_000_000, description="How many connections of clients a frontend keeps open."
    )
    connections_per_address_max: int = Field(
        default=2_048,
        ge=1,
        le=1_000_000,
        description="The same for one address. The machine itself and trusted proxies may have more.",
    )
    trusted_proxies: Networks = Field(
        default="",
        description="Addresses or networks of reverse proxies, parted by commas: X-Forwarded-For and -Proto of theirs "
        "are believed.",
        json_schema_extra=shown_default("none"),
    )
    response_headers: bool = Field(
        default=True, description="Whether answers of models say which node and replica they come from."
    )
    cors_origins: Origins = Field(
        default="",
        description="Origins of web pages that may call models from a browser, separated by commas: "
        "https://chat.example.com. `*` is any. Only calls to models are open to them, with a key and without cookies.",
        json_schema_extra=shown_default("none"),
    )
    replica_concurrency: int = Field(
        default=64,
        ge=1,
        le=100_000,
        description="How many requests a replica is given at a time, unless its model says so with `parallel`.",
    )
    queue_max: int = Field(
        default=1000, ge=0, le=1_000_000, description="How many requests may wait for a full model, at one frontend."
    )
    queue_wait_s: Duration = Field(
        default=60.0, description="How long a request waits for its turn at a model that is loaded and full."
    )
    load_hold_s: Duration = Field(
        default=25 * 60.0, description="How long loading a model may take before anything of it has moved."
    )
    load_stall_s: Duration = Field(
        default=10 * 60.0, description="How long a load of which something has moved may stand still."
    )
    load_cap_s: Duration = Field(
        default=24 * 3600.0, description="How long loading a model may take at most, however much moves."
    )
    unload_grace_s: DurationOrZero = Field(
        default=30.0, description="How long a replica that is to end may finish what it is answering."
    )
    model_idle_s: DurationOrZero = Field(
        default=0.0,
        description="A model that nobody asks for is unloaded after so long, unless it says otherwise; 0: never.",
    )
    disk_check: bool = Field(
        default=True, description="Place no model where its files do not fit; off: only say that they do not."
    )
    backend_galleries: Galleries = Field(
        default=(),
        description='Galleries beside the built-in one, as JSON: [{"name": …, "url": …, "mirrors": […]}].',
        json_schema_extra=shown_default("none"),
    )
    model_galleries: Galleries = Field(
        default=(),
        description='Galleries of models beside the built-in one, as JSON: [{"name": …, "url": …, "mirrors": […]}].',
        json_schema_extra=shown_default("none"),
    )
    rules: str | None = Field(
        default=None,
        description='Rules that are made so at every start, as JSON: [{"model": …, "min_replicas": 1}].',
        json_schema_extra=shown_default("none"),
    )
    rules_file: ReadableFile | None = Field(
        default=None,
        description="YAML file with more such rules; it wins where both speak of a model.",
        json_schema_extra=shown_default("none"),
    )
    gallery_interval_s: Duration = Field(default=3600.0, description="How often each gallery is fetched anew.")
    prefer_development: bool = Field(
        default=False, description="Install the development build of a backend where its gallery has one."
    )
    auto_upgrade_backends: bool = Field(
        default=False, description="Upgrade installed backends as soon as their gallery has something newer."
    )
    allow_private_sources: bool = Field(
        default=False,
        description="Let admins install from addresses inside a network. Galleries may be anywhere without this.",
    )
    hub_endpoint: WebAddress | None = Field(
        default=None,
        description="Address of the Hugging Face hub, or of a mirror of it, that models are fetched from.",
        json_schema_extra=shown_default("the public hub"),
    )
    hub_token: SecretStr | None = Field(
        default=None, description="Token for models of the hub that are not open to everybody."
    )
    model_paths: Folders = Field(
        default="",
        description="Folders of the frontend's machine that models may be taken from, parted by commas.",
        json_schema_extra=shown_default("none"),
    )
    library_dir: Directory = Field(
        default_factory=lambda: Path("~/.corral-library").expanduser(),
        description="Directory in which this frontend keeps the files of models.",
        json_schema_extra=shown_default("~/.corral-library"),
    )
    library_storage: StorageAddress | None = Field(
        default=None,
        description="S3-compatible storage for the files of models: s3://bucket/folder?endpoint=https://host:9000.",
        json_schema_extra=shown_default("none: they stay in the directory"),
    )
    library_storage_key: StorageKey | None = Field(
        default=None,
        description="Name and secret of the key for the storage: name:secret.",
        json_schema_extra=shown_default("what the machine itself has"),
    )
    state_dir: Directory = Field(
        default_factory=lambda: Path("~/.corral-state").expanduser(),
        description="Directory for what this frontend needs when PostgreSQL is away: what it serves, what it counted.",
        json_schema_extra=shown_default("~/.corral-state"),
    )
    kept_max_age_s: Duration = Field(
        default=7 * 86400.0,
        description="How old what is kept in that directory may be for a start without PostgreSQL.",
    )
    usage_retention_s: Duration = Field(
        default=400 * 86400.0, description="How long it is known who has used how much of what."
    )
    access_log: Annotated[AccessLogStyle, AnyCase] = Field(
        default=AccessLogStyle.OFF,
        description="A line on standard error for each request to a model: off, text for people, json for collectors.",
    )
    otlp_endpoint: WebAddress | None = Field(
        default=None,
        description="Address of an OpenTelemetry collector that takes traces over HTTP: http://host:4318.",
        json_schema_extra=shown_default("none: no traces"),
    )
    trace_share: float = Field(
        default=1.0, ge=0, le=1, description="How many of the traces that begin here are kept: 0.1 is every tenth."
    )
    stop_grace_s: DurationOrZero = Field(
        default=30.0, description="How long answers may go on when this frontend is told to stop; then they are cut."
    )
    processes: int = Field(
        default=1, ge=1, le=64, description="How many frontend processes share the port; each is a whole frontend."
    )
    shared_models: bool = Field(
        default=False,
        description="The library's directory is the same for all frontends and workers: files are linked, not moved.",
    )
    registry_credentials: RegistryCredentials | None = Field(
        default=None,
        description='Names and passwords for registries of models, as JSON: {"host:port": "user:password"}.',
    )
    instance_id: str | None = Field(
        default=None,
        min_length=1,
        description="Name of this frontend among its peers.",
        json_schema_extra=shown_default("made anew at each start"),
    )

    def broken_rules(self) -> Iterator[BrokenRule]:
        yield from super().broken_rules()
        yield from self.must_go_together("nats_operator_seed", "nats_system_seed", why="revoking a node takes both")
        yield from self.must_go_together("oidc_issuer", "oidc_client_id", why="a provider knows us by our client id")
        if self.shared_models and self.library_storage is not None:
            yield BrokenRule(
                fields=("shared_models", "library_storage"),
                sentence="{0} and {1} are both set: files of models are either in a folder that all share or there",
                hint="Leave one of them out.",
            )
        least = HEARTBEATS_PER_LEASE * self.heartbeat_interval_s
        if self.node_lease_s < least:
            yield BrokenRule(
                fields=("node_lease_s", "heartbeat_interval_s"),
                sentence=f"{{0}} ({duration_text(self.node_lease_s)}) is shorter than three times {{1}} "
                f"({duration_text(self.heartbeat_interval_s)}): one late heartbeat would take a healthy node offline",
                hint=f"Set {{0}} to at least {duration_text(least)}, or let nodes report more often.",
            )
        if self.node_lease_s > LONGEST_NODE_LEASE_S:
            yield BrokenRule(
                fields=("node_lease_s",),
                sentence=f"{{0}} ({duration_text(self.node_lease_s)}) is longer than "
                f"{duration_text(LONGEST_NODE_LEASE_S)}: a dead node would get work for more than a minute",
                hint=f"Set {{0}} to {duration_text(LONGEST_NODE_LEASE_S)} or less.",
            )
        elif self.node_lease_s + self.liveness_interval_s > LONGEST_DETECTION_S:
            yield BrokenRule(
                fields=("node_lease_s", "liveness_interval_s"),
                sentence="{0} and {1} together are longer than a minute: "
                "a dead node must be seen as such within a minute",
                hint="Make one of them shorter.",
            )
        if self.heartbeat_flush_s > self.heartbeat_interval_s:
            yield BrokenRule(
                fields=("heartbeat_flush_s", "heartbeat_interval_s"),
                sentence="{0} is longer than {1}: heartbeats would be written later than the next one comes",
                hint="Set {0} to a fraction of {1}; 1s is a good value.",
            )


def _default_name(data: dict[str, Any]) -> str:
    host = socket.gethostname()
    return f"agent-{host}" if data["node_type"] is NodeType.AGENT else host


class WorkerSettings(_BusTls, _Logging):
    """`corral worker`: the program on one machine."""

    process: ClassVar[str] = "worker"

    join: FrontendUrls = Field(description="Address of a frontend: http://host:8080. Several are parted by commas.")
    token: SecretStr | None = Field(
        default=None, description="Join token; needed the first time only, the node keeps a credential of its own."
    )
    node_type: Annotated[NodeType, AnyCase] = Field(
        default=NodeType.BACKEND,
        description="What the node is for: backend runs engines; agent runs none, and gets a key to ask models with.",
    )
    name: str = Field(
        default_factory=_default_name,
        min_length=1,
        max_length=255,
        description="Name of the node; unique in the cluster.",
        json_schema_extra=shown_default("the machine's host name (agent-<host name> for an agent)"),
    )
    worker_home: Directory = Field(
        default_factory=lambda: Path("~/.corral-worker").expanduser(),
        description="Directory of the worker: its identity, installed engines, logs.",
        json_schema_extra=shown_default("~/.corral-worker"),
    )
    models_dir: Directory = Field(
        default_factory=lambda data: Path(data["worker_home"]) / "models",
        description="Directory for model files.",
        json_schema_extra=shown_default("models in the worker's directory"),
    )
    backends_dir: Directory = Field(
        default_factory=lambda data: Path(data["worker_home"]) / "backends",
        description="Directory for installed engines.",
        json_schema_extra=shown_default("backends in the worker's directory"),
    )
    system_backends_dir: Directory | None = Field(
        default=None,
        description="Directory with engines that came with the machine; they are used and never changed.",
        json_schema_extra=shown_default("none"),
    )
    disk_headroom_bytes: SizeBytes = Field(
        default=1024**3,
        description="How much of the disk an installation leaves free: 1GiB, 500MB.",
        json_schema_extra=shown_default("1GiB"),
    )
    shared_models_dir: Directory | None = Field(
        default=None,
        description="Library of a frontend, if it is a folder of this machine: its files are linked and not fetched.",
        json_schema_extra=shown_default("none"),
    )
    parallel_chunks: int = Field(
        default=4, ge=1, le=64, description="How many pieces of model files are fetched at a time."
    )
    bandwidth_limit_bytes: SizeBytes | None = Field(
        default=None,
        gt=0,
        description="How much is fetched of model files, and once more how much is served, in a second: 100MB.",
        json_schema_extra=shown_default("no limit"),
    )
    require_integrity: bool = Field(
        default=False, description="Refuse to install what nobody has promised a digest of."
    )
    registry_credentials: RegistryCredentials | None = Field(
        default=None,
        description='Names and passwords for registries of images, as JSON: {"host:port": "user:password"}.',
    )
    prefetch_backends: Names = Field(
        default="",
        description="Backends that this machine wants on its disk, separated by commas. They are installed by ordinary "
        "operations once the node is approved.",
        json_schema_extra=shown_default("none"),
    )
    prefetch_models: Names = Field(
        default="",
        description="Models of the cluster whose files this machine wants on its disk, separated by commas.",
        json_schema_extra=shown_default("none"),
    )
    max_parallel_jobs: int = Field(
        default=4, ge=1, le=64, description="How many engines are installed or changed at a time."
    )
    address: AdvertisedAddress | None = Field(
        default=None,
        description="host:port under which the frontends reach this machine.",
        json_schema_extra=shown_default("the address that leads to the frontend, with the port really taken"),
    )
    http_host: str = Field(default="127.0.0.1", min_length=1, description="Address that the worker's own port is on.")
    http_port: int = Field(default=0, ge=0, le=65535, description="The worker's own port; 0 takes a free one.")
    engine_host: str = Field(
        default="127.0.0.1",
        min_length=1,
        description="Address that engines with a key of their own listen on; the others stay on the loopback.",
    )
    engine_port: int = Field(default=50_100, ge=1, le=65535, description="The lowest port that engines get.")
    engine_port_max: int | None = Field(
        default=None,
        ge=1,
        le=65535,
        description="The highest port that engines get.",
        json_schema_extra=shown_default("65535"),
    )
    labels: Labels = Field(default_factory=dict, description="Labels of the node: key=value,key2=value2.")
    max_replicas_per_model: int = Field(default=1, ge=1, description="How many copies of one model may run here.")
    vram_budget: VramBudget | None = Field(
        default=None,
        description="How much GPU memory may be used: 80%, 12GB, 12GiB.",
        json_schema_extra=shown_default("all of it"),
    )
    capability: str | None = Field(
        default=None,
        min_length=1,
        description="What kind of engine builds fit, instead of what was detected.",
        json_schema_extra=shown_default("detected"),
    )
    nats_url: NatsUrl | None = Field(
        default=None,
        description="NATS address to use instead of the one that the frontend tells.",
        json_schema_extra=shown_default("told by the frontend"),
    )

    def broken_rules(self) -> Iterator[BrokenRule]:
        yield from super().broken_rules()
        for field in ("prefetch_backends", "prefetch_models"):
            if getattr(self, field) and self.node_type is NodeType.AGENT:
                yield BrokenRule(
                    fields=(field, "node_type"),
                    sentence="{0} is set and {1} is agent: an agent node has neither backends nor files of models",
                    hint="Leave {0} out.",
                )


class UpSettings(ProcessSettings):
    """`corral up`: a whole cluster on this machine."""

    process: ClassVar[str] = "up"

    home: Directory = Field(
        default_factory=lambda: Path("~/.corral").expanduser(),
        description="Directory with everything that the local cluster keeps.",
        json_schema_extra=shown_default("~/.corral"),
    )
    host: str = Field(default="127.0.0.1", min_length=1, description="Address that the frontend listens on.")
    port: int = Field(default=8080, ge=0, le=65535, description="Port that the frontend listens on.")
    detach: bool = Field(default=False, description="Return when ready and leave the cluster in the background.")
    database_url: DatabaseUrl | None = Field(
        default=None,
        description="A PostgreSQL to use instead of starting one.",
        json_schema_extra=shown_default("one is started"),
    )
    nats_url: NatsUrl | None = Field(
        default=None,
        description="A NATS to use instead of starting one.",
        json_schema_extra=shown_default("one is started"),
    )
    postgres_bin: Directory | None = Field(
        default=None,
        description="Directory with initdb and postgres.",
        json_schema_extra=shown_default("the one that was installed with Corral"),
    )
    nats_bin: Directory | None = Field(
        default=None,
        description="The nats-server program.",
        json_schema_extra=shown_default("the one that was installed with Corral"),
    )
    processes: int = Field(
        default=1, ge=1, le=64, description="How many processes the frontend is; they share its port."
    )


ALL_MODELS: tuple[type[ProcessSettings], ...] = (FrontendSettings, WorkerSettings, UpSettings, ClientSettings)
