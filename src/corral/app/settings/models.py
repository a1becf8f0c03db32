"""Defines every setting of every process, with its type, default and description.

The models are plain values: making one reads neither the environment nor a file (`loader.py` does that once), so a
test can build exactly the settings it means. Flags, variables, the reference page and `config show` are made from the
fields, so they cannot drift apart.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr

from corral.app.settings.base import BrokenSettingsRule, ClientSettings, ProcessSettings, make_shown_default
from corral.app.settings.galleries import Galleries
from corral.app.settings.run_settings import RunSettings
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
    SecretsKeyFile,
    SizeBytes,
    StorageAddress,
    StorageKey,
    VramBudget,
    WebAddress,
    check_web_address,
    strip_userinfo,
)
from corral.domain.access import Scope
from corral.domain.duration import format_duration
from corral.domain.node import NodeType
from corral.domain.run import SERVER_GRACE_S
from corral.insight.access_log import AccessLogStyle

_NONE: dict[str, Any] = {"shown_default": "none"}


def parse_scopes(text: str) -> dict[str, Scope]:
    """Parse text such as `corral-admins=admin,developers=infer` into scopes by value of the claim."""
    scopes: dict[str, Scope] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        value, equals, scope = (word.strip() for word in part.rpartition("="))
        if not equals or not value or scope not in set(Scope):
            raise ValueError(f"has an invalid part ({part!r}): write value=scope, with admin, operate or infer")
        if value in scopes:
            raise ValueError(f"names {value!r} twice")
        scopes[value] = Scope(scope)
    return scopes


def _check_scopes(text: str) -> str:
    parse_scopes(text)
    return text


def _check_issuer(text: str) -> str:
    """Check the address of the provider and return it unchanged, because issuers are compared letter by letter."""
    check_web_address(text)
    return text.strip()


class IdentitySettings(BaseModel):
    """Part of `FrontendSettings`: the public address, and the OpenID Connect provider by which people sign in."""

    model_config = ConfigDict(defer_build=True)

    public_url: WebAddress | None = Field(
        default=None,
        description="Address by which browsers and new machines reach the frontends, if there is a proxy in front "
        "of them.",
        json_schema_extra={"shown_default": "the one that each browser uses"},
    )
    oidc_issuer: Annotated[str, AfterValidator(_check_issuer)] | None = Field(
        default=None,
        description="Issuer address of the OpenID Connect provider, exactly as the provider writes it. Requires "
        "the client id.",
        json_schema_extra=_NONE,
    )
    oidc_client_id: str | None = Field(
        default=None, min_length=1, description="Client id of this cluster at the provider.", json_schema_extra=_NONE
    )
    oidc_client_secret: SecretStr | None = Field(
        default=None, description="Secret of the client at the provider; a public client has none."
    )
    oidc_scope_claim: str = Field(
        default="groups",
        min_length=1,
        description="Claim that gives users their scope; dots lead into nested claims: realm_access.roles.",
    )
    oidc_scopes: Annotated[str, AfterValidator(_check_scopes)] = Field(
        default="",
        description="Which values of the claim give which scope: corral-admins=admin,developers=infer.",
        json_schema_extra=_NONE,
    )
    oidc_default_scope: Annotated[Scope, AnyCase] | None = Field(
        default=None,
        description="Scope of users to whom the claim gives none.",
        json_schema_extra={"shown_default": "they cannot sign in"},
    )


# A silent node must be shown as offline within a minute; the liveness pass after the lease takes the rest.
NODE_LEASE_MAX_S = 55.0
DETECTION_MAX_S = 60.0
HEARTBEATS_PER_LEASE = 3


class LogFormat(StrEnum):
    """Formats of a process's log lines: text for people, JSON for collectors."""

    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """Levels of the setting that says which log lines a process writes: the least severe level."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class _LoggingSettings(ProcessSettings):
    """Settings about logging, shared by frontend and worker."""

    log_format: Annotated[LogFormat, AnyCase] | None = Field(
        default=None,
        description="Format of log lines: text for people, json for collectors.",
        json_schema_extra=make_shown_default("text on a terminal, otherwise json"),
    )
    log_level: Annotated[LogLevel, AnyCase] = Field(
        default=LogLevel.INFO, description="Minimum level of log lines that are written."
    )


class _BusTlsSettings(ProcessSettings):
    """Settings about TLS to NATS, shared by frontend and worker."""

    nats_tls_ca: ReadableFile | None = Field(
        default=None,
        description="File with the CA certificates that the certificate of the NATS server is checked against.",
    )
    nats_tls_cert: ReadableFile | None = Field(
        default=None, description="File with the client certificate for NATS. Requires the key."
    )
    nats_tls_key: ReadableFile | None = Field(
        default=None, description="File with the private key of the client certificate for NATS."
    )

    def find_broken_rules(self) -> Iterator[BrokenSettingsRule]:
        yield from super().find_broken_rules()
        yield from self.find_unpaired(
            "nats_tls_cert", "nats_tls_key", why="a certificate and its key are needed together"
        )


class FrontendSettings(IdentitySettings, RunSettings, _BusTlsSettings, _LoggingSettings):
    """Settings of `corral serve`, one frontend process."""

    process: ClassVar[str] = "frontend"

    database_url: DatabaseUrl = Field(description="PostgreSQL address: postgresql://user:password@host:5432/database.")
    nats_url: NatsUrl = Field(description="NATS address: nats://host:4222. Separate several with commas.")
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
        default_factory=lambda data: strip_userinfo(str(data["nats_url"])),
        description="NATS address for workers. {host} stands for the host name by which a worker reached the frontend.",
        json_schema_extra=make_shown_default("the NATS address"),
    )
    host: str = Field(default="127.0.0.1", min_length=1, description="Address to listen on.")
    port: int = Field(default=8080, ge=0, le=65535, description="Port to listen on; 0 picks a free one.")
    admin_key: SecretStr | None = Field(
        default=None,
        description="Admin key that is created if it does not exist. Without it, one is made at the very first start.",
    )
    metrics_key: SecretStr | None = Field(
        default=None,
        description="Key that GET /metrics requires as a bearer token. Without it, the metrics are public.",
    )
    secrets_key_file: SecretsKeyFile | None = Field(
        default=None,
        description="File with the keys that seal stored secrets, one a line: the first seals, all of them open. Give "
        "every frontend the same file.",
        json_schema_extra=make_shown_default("none: no secret can be stored"),
    )
    local_join_token: SecretStr | None = Field(
        default=None,
        description="Join token that is created if it does not exist; a node that joins with it is approved "
        "automatically.",
    )
    auto_approve_nodes: bool = Field(default=False, description="Approve every node that joins with a valid token.")
    node_lease_s: Duration = Field(default=45.0, description="A node without a heartbeat for this long is offline.")
    heartbeat_interval_s: Duration = Field(
        default=10.0, description="How often workers send heartbeats. Workers get this value from the frontend."
    )
    heartbeat_flush_s: Duration = Field(
        default=1.0, description="How long heartbeats are collected before one write to PostgreSQL."
    )
    liveness_interval_s: Duration = Field(default=5.0, description="How often the leader checks for silent nodes.")
    leader_lease_s: Duration = Field(
        default=15.0, description="Duration of the leader lease; a dead leader is replaced after this time."
    )
    bus_credential_ttl_s: Duration = Field(
        default=3600.0, description="Lifetime of a node's NATS credential; it is renewed well before it expires."
    )
    outbox_retention_s: Duration = Field(
        default=86400.0, description="How far back a page or client can resume its event stream."
    )
    operation_fan_out: int = Field(
        default=128, ge=1, le=10_000, description="How many nodes one operation works on at the same time."
    )
    request_wait_s: DurationOrZero = Field(
        default=60.0,
        description="How long a request waits for a model that is being loaded; 0 for as long as the load takes.",
    )
    first_byte_timeout_s: DurationOrZero = Field(
        default=600.0,
        description="How long an engine may take until the first byte of a response; 0 for no limit. A long prompt, or "
        "a response that is not streamed, can take minutes.",
    )
    between_bytes_timeout_s: DurationOrZero = Field(
        default=300.0, description="How long an engine may be silent in the middle of a response; 0 for no limit."
    )
    request_bytes_max: SizeBytes = Field(
        default=512 * 1024**2,
        gt=0,
        description="Memory limit of a frontend for request bodies above 64 KiB; requests above the limit get 503.",
    )
    request_key_bytes_max: SizeBytes = Field(
        default=128 * 1024**2,
        gt=0,
        description="Memory limit for the request bodies of one key; requests above the limit get 429.",
    )
    upload_bytes_max: SizeBytes = Field(
        default=4 * 1024**3,
        gt=0,
        description="Disk limit of a frontend for audio uploads; uploads above the limit get 503.",
    )
    upload_key_bytes_max: SizeBytes = Field(
        default=1024**3,
        gt=0,
        description="Disk limit for the audio uploads of one key; uploads above the limit get 429.",
    )
    connections_max: int = Field(
        default=16_384, ge=1, le=1_000_000, description="Maximum number of client connections of a frontend."
    )
    connections_per_address_max: int = Field(
        default=2_048,
        ge=1,
        le=1_000_000,
        description="Maximum number of client connections from one address. The machine itself and trusted "
        "proxies may have more.",
    )
    trusted_proxies: Networks = Field(
        default="",
        description="Addresses or networks of reverse proxies whose X-Forwarded-For and X-Forwarded-Proto are trusted, "
        "separated by commas.",
        json_schema_extra=make_shown_default("none"),
    )
    response_headers: bool = Field(
        default=True,
        description="Whether responses of models have headers with the node and replica that served the request.",
    )
    cors_origins: Origins = Field(
        default="",
        description="Origins of web pages that may call models from a browser, separated by commas: "
        "https://chat.example.com. `*` allows all. They may only call models, with a key and without cookies.",
        json_schema_extra=make_shown_default("none"),
    )
    mcp_read_only: bool = Field(
        default=False, description="Whether the MCP tools at /mcp only read, whatever the key may do."
    )
    replica_concurrency: int = Field(
        default=64,
        ge=1,
        le=100_000,
        description="How many requests a replica gets at the same time, unless its model sets `parallel`.",
    )
    queue_max: int = Field(
        default=1000,
        ge=0,
        le=1_000_000,
        description="Maximum number of requests that wait for a busy model, at one frontend.",
    )
    queue_wait_s: Duration = Field(
        default=60.0, description="How long a request waits for its turn at a model that is loaded and busy."
    )
    load_hold_s: Duration = Field(default=25 * 60.0, description="How long a load may take until its first progress.")
    load_stall_s: Duration = Field(
        default=10 * 60.0, description="How long a load may go without progress after it has begun to move."
    )
    load_cap_s: Duration = Field(default=24 * 3600.0, description="Maximum duration of a load, even with progress.")
    unload_grace_s: DurationOrZero = Field(
        default=30.0, description="How long a replica that is being unloaded may finish its requests."
    )
    model_idle_s: DurationOrZero = Field(
        default=0.0,
        description="Idle time after which a model is unloaded, unless the model sets its own; 0 for never.",
    )
    disk_check: bool = Field(
        default=True,
        description="Do not place a model on a node whose disk is too small for its files; off: only warn.",
    )
    backend_galleries: Galleries = Field(
        default=(),
        description='Additional backend galleries, as JSON: [{"name": …, "url": …, "mirrors": […]}].',
        json_schema_extra=make_shown_default("none"),
    )
    model_galleries: Galleries = Field(
        default=(),
        description='Additional model galleries, as JSON: [{"name": …, "url": …, "mirrors": […]}].',
        json_schema_extra=make_shown_default("none"),
    )
    rules: str | None = Field(
        default=None,
        description='Rules that are set at every start, as JSON: [{"model": …, "min_replicas": 1}].',
        json_schema_extra=make_shown_default("none"),
    )
    rules_file: ReadableFile | None = Field(
        default=None,
        description="YAML file with more such rules; it takes precedence if both name a model.",
        json_schema_extra=make_shown_default("none"),
    )
    gallery_interval_s: Duration = Field(default=3600.0, description="How often each gallery is fetched.")
    prefer_development: bool = Field(
        default=False, description="Install the development build of a backend where its gallery has one."
    )
    auto_upgrade_backends: bool = Field(
        default=False, description="Upgrade installed backends as soon as their gallery has a newer version."
    )
    allow_private_sources: bool = Field(
        default=False,
        description="Let admins install, and tasks fetch attachments, from addresses in private networks. Galleries do "
        "not need this.",
    )
    hub_endpoint: WebAddress | None = Field(
        default=None,
        description="Address of the Hugging Face hub, or of a mirror, that models are downloaded from.",
        json_schema_extra=make_shown_default("the public hub"),
    )
    hub_token: SecretStr | None = Field(
        default=None, description="Token for gated or private models of the Hugging Face hub."
    )
    model_paths: Folders = Field(
        default="",
        description="Folders on the frontend's machine that models may be imported from, separated by commas.",
        json_schema_extra=make_shown_default("none"),
    )
    library_dir: Directory = Field(
        default_factory=lambda: Path("~/.corral-library").expanduser(),
        description="Directory in which this frontend stores the files of models.",
        json_schema_extra=make_shown_default("~/.corral-library"),
    )
    library_storage: StorageAddress | None = Field(
        default=None,
        description="S3-compatible storage for the files of models: s3://bucket/folder?endpoint=https://host:9000.",
        json_schema_extra=make_shown_default("none: files stay in the directory"),
    )
    library_storage_key: StorageKey | None = Field(
        default=None,
        description="Access key of the storage: name:secret.",
        json_schema_extra=make_shown_default("the credentials of the machine"),
    )
    state_dir: Directory = Field(
        default_factory=lambda: Path("~/.corral-state").expanduser(),
        description="Directory for the state that this frontend needs while PostgreSQL is away: models it serves, "
        "usage it counted.",
        json_schema_extra=make_shown_default("~/.corral-state"),
    )
    kept_max_age_s: Duration = Field(
        default=7 * 86400.0,
        description="Maximum age of that state for a start without PostgreSQL.",
    )
    usage_retention_s: Duration = Field(default=400 * 86400.0, description="How long usage is kept.")
    access_log: Annotated[AccessLogStyle, AnyCase] = Field(
        default=AccessLogStyle.OFF,
        description="Access log on standard error, one line for each request to a model: off, text or json.",
    )
    otlp_endpoint: WebAddress | None = Field(
        default=None,
        description="Address of an OpenTelemetry collector that receives traces over HTTP: http://host:4318.",
        json_schema_extra=make_shown_default("none: no traces"),
    )
    trace_share: float = Field(
        default=1.0, ge=0, le=1, description="Share of the traces started here that are kept: 0.1 is every tenth."
    )
    stop_grace_s: DurationOrZero = Field(
        default=30.0,
        description="How long running responses may continue after a frontend has received the signal to stop; "
        "then they are cut off.",
    )
    processes: int = Field(
        default=1,
        ge=1,
        le=64,
        description="Number of frontend processes that share the port; each is a whole frontend.",
    )
    shared_models: bool = Field(
        default=False,
        description="The directory of model files is shared by all frontends and workers: files are linked, not "
        "copied.",
    )
    registry_credentials: RegistryCredentials | None = Field(
        default=None,
        description='User names and passwords for registries of models, as JSON: {"host:port": "user:password"}.',
    )
    instance_id: str | None = Field(
        default=None,
        min_length=1,
        description="Name of this frontend in the cluster.",
        json_schema_extra=make_shown_default("a new one at each start"),
    )

    def find_broken_rules(self) -> Iterator[BrokenSettingsRule]:
        yield from super().find_broken_rules()
        yield from self.find_unpaired("nats_operator_seed", "nats_system_seed", why="revoking a node needs both")
        yield from self.find_unpaired("oidc_issuer", "oidc_client_id", why="the provider needs the client id")
        if self.shared_models and self.library_storage is not None:
            yield BrokenSettingsRule(
                fields=("shared_models", "library_storage"),
                sentence="{0} and {1} are both set, but model files are either in a shared folder or in that storage",
                hint="Remove one of them.",
            )
        least = HEARTBEATS_PER_LEASE * self.heartbeat_interval_s
        if self.node_lease_s < least:
            yield BrokenSettingsRule(
                fields=("node_lease_s", "heartbeat_interval_s"),
                sentence=f"{{0}} ({format_duration(self.node_lease_s)}) is shorter than three times {{1}} "
                f"({format_duration(self.heartbeat_interval_s)}): one late heartbeat would take a healthy node offline",
                hint=f"Set {{0}} to at least {format_duration(least)}, or set {1} to a shorter time.",
            )
        if self.node_lease_s > NODE_LEASE_MAX_S:
            yield BrokenSettingsRule(
                fields=("node_lease_s",),
                sentence=f"{{0}} ({format_duration(self.node_lease_s)}) is longer than "
                f"{format_duration(NODE_LEASE_MAX_S)}: a dead node would get work for more than a minute",
                hint=f"Set {{0}} to {format_duration(NODE_LEASE_MAX_S)} or less.",
            )
        elif self.node_lease_s + self.liveness_interval_s > DETECTION_MAX_S:
            yield BrokenSettingsRule(
                fields=("node_lease_s", "liveness_interval_s"),
                sentence="{0} and {1} together are longer than a minute: a dead node must be detected within a minute",
                hint="Make one of them shorter.",
            )
        if self.heartbeat_flush_s > self.heartbeat_interval_s:
            yield BrokenSettingsRule(
                fields=("heartbeat_flush_s", "heartbeat_interval_s"),
                sentence="{0} is longer than {1}: heartbeats would be written after the next one has arrived",
                hint="Set {0} to a fraction of {1}; 1s is a good value.",
            )


def _make_default_name(data: dict[str, Any]) -> str:
    host = socket.gethostname()
    return f"agent-{host}" if data["node_type"] is NodeType.AGENT else host


def _make_default_max_runs(data: dict[str, Any]) -> int:
    return 4 if data["node_type"] is NodeType.AGENT else 0


class WorkerSettings(_BusTlsSettings, _LoggingSettings):
    """Settings of `corral worker`, the worker process of one machine."""

    process: ClassVar[str] = "worker"

    join: FrontendUrls = Field(description="Address of a frontend: http://host:8080. Separate several with commas.")
    token: SecretStr | None = Field(
        default=None,
        description="Join token; only needed for the first start, afterwards the node has its own credential.",
    )
    node_type: Annotated[NodeType, AnyCase] = Field(
        default=NodeType.BACKEND,
        description="Type of the node: backend runs engines; agent executes runs of agents and tasks, and no engines.",
    )
    name: str = Field(
        default_factory=_make_default_name,
        min_length=1,
        max_length=255,
        description="Name of the node; unique in the cluster.",
        json_schema_extra=make_shown_default("the machine's host name (agent-<host name> for an agent)"),
    )
    worker_home: Directory = Field(
        default_factory=lambda: Path("~/.corral-worker").expanduser(),
        description="Directory of the worker: its identity, installed engines, logs.",
        json_schema_extra=make_shown_default("~/.corral-worker"),
    )
    models_dir: Directory = Field(
        default_factory=lambda data: Path(data["worker_home"]) / "models",
        description="Directory for model files.",
        json_schema_extra=make_shown_default("models in the worker's directory"),
    )
    backends_dir: Directory = Field(
        default_factory=lambda data: Path(data["worker_home"]) / "backends",
        description="Directory for installed engines.",
        json_schema_extra=make_shown_default("backends in the worker's directory"),
    )
    system_backends_dir: Directory | None = Field(
        default=None,
        description="Directory with preinstalled engines; they are used and never changed.",
        json_schema_extra=make_shown_default("none"),
    )
    disk_headroom_bytes: SizeBytes = Field(
        default=1024**3,
        description="Disk space that an installation leaves free: 1GiB, 500MB.",
        json_schema_extra=make_shown_default("1GiB"),
    )
    shared_models_dir: Directory | None = Field(
        default=None,
        description="Directory of model files of a frontend, if this machine can access it: files are linked "
        "instead of downloaded.",
        json_schema_extra=make_shown_default("none"),
    )
    parallel_chunks: int = Field(
        default=4, ge=1, le=64, description="How many chunks of model files are downloaded at the same time."
    )
    bandwidth_limit_bytes: SizeBytes | None = Field(
        default=None,
        gt=0,
        description="Limit per second for downloading model files, and the same again for serving them: 100MB.",
        json_schema_extra=make_shown_default("no limit"),
    )
    require_integrity: bool = Field(default=False, description="Refuse to install anything without a known digest.")
    registry_credentials: RegistryCredentials | None = Field(
        default=None,
        description='User names and passwords for registries of images, as JSON: {"host:port": "user:password"}.',
    )
    prefetch_backends: Names = Field(
        default="",
        description="Backends to install on this machine in advance, separated by commas. They are installed by "
        "ordinary operations once the node is approved.",
        json_schema_extra=make_shown_default("none"),
    )
    prefetch_models: Names = Field(
        default="",
        description="Models of the cluster whose files are downloaded to this machine in advance, separated by commas.",
        json_schema_extra=make_shown_default("none"),
    )
    max_parallel_jobs: int = Field(
        default=4, ge=1, le=64, description="How many engines are installed or changed at the same time."
    )
    address: AdvertisedAddress | None = Field(
        default=None,
        description="host:port by which the frontends reach this machine.",
        json_schema_extra=make_shown_default(
            "the address of this machine on the way to the frontend, with the actual port"
        ),
    )
    http_host: str = Field(default="127.0.0.1", min_length=1, description="Address that the worker listens on.")
    http_port: int = Field(
        default=0, ge=0, le=65535, description="Port that the worker listens on; 0 picks a free one."
    )
    engine_host: str = Field(
        default="127.0.0.1",
        min_length=1,
        description="Address that engines with their own key listen on; other engines listen on the loopback address.",
    )
    engine_port: int = Field(default=50_100, ge=1, le=65535, description="Lowest port for engines.")
    engine_port_max: int | None = Field(
        default=None,
        ge=1,
        le=65535,
        description="Highest port for engines.",
        json_schema_extra=make_shown_default("65535"),
    )
    labels: Labels = Field(default_factory=dict, description="Labels of the node: key=value,key2=value2.")
    max_replicas_per_model: int = Field(
        default=1, ge=1, description="Maximum number of replicas of one model on this node."
    )
    max_runs: int = Field(
        default_factory=_make_default_max_runs,
        ge=0,
        le=1000,
        description="How many runs (turns of agents, tasks) this node executes at the same time; 0: none.",
        json_schema_extra=make_shown_default("4 on an agent node, 0 on a backend node"),
    )
    run_user: str | None = Field(
        default=None,
        min_length=1,
        description="User that programs of MCP servers run as; a worker that is not root can only name its own.",
        json_schema_extra=make_shown_default("corral-run or nobody if the worker is root, else its own"),
    )
    run_memory_bytes: SizeBytes = Field(
        default=4 * 1024**3,
        ge=64 * 1024**2,
        description="Memory that each process of an MCP server's program may use: 4GiB, 500MB.",
        json_schema_extra=make_shown_default("4GiB"),
    )
    run_file_bytes: SizeBytes = Field(
        default=1024**3,
        ge=1024**2,
        description="Size of the largest file that an MCP server's program may write: 1GiB, 500MB.",
        json_schema_extra=make_shown_default("1GiB"),
    )
    run_mcp_grace_s: Duration = Field(
        default=SERVER_GRACE_S,
        description="How long the first step of a run waits for its MCP servers. The tools of one that answers later "
        "are added at a later step.",
    )
    vram_budget: VramBudget | None = Field(
        default=None,
        description="Maximum GPU memory for models: 80%, 12GB, 12GiB.",
        json_schema_extra=make_shown_default("all of it"),
    )
    capability: str | None = Field(
        default=None,
        min_length=1,
        description="Hardware kind that engine builds are picked for, instead of the detected one.",
        json_schema_extra=make_shown_default("detected"),
    )
    nats_url: NatsUrl | None = Field(
        default=None,
        description="NATS address to use instead of the one from the frontend.",
        json_schema_extra=make_shown_default("the one from the frontend"),
    )

    def find_broken_rules(self) -> Iterator[BrokenSettingsRule]:
        yield from super().find_broken_rules()
        for field in ("prefetch_backends", "prefetch_models"):
            if getattr(self, field) and self.node_type is NodeType.AGENT:
                yield BrokenSettingsRule(
                    fields=(field, "node_type"),
                    sentence="{0} is set and {1} is agent: an agent node has neither backends nor model files",
                    hint="Remove {0}.",
                )


class UpSettings(ProcessSettings):
    """Settings of `corral up`, a whole cluster on this machine."""

    process: ClassVar[str] = "up"

    home: Directory = Field(
        default_factory=lambda: Path("~/.corral").expanduser(),
        description="Directory of the local cluster.",
        json_schema_extra=make_shown_default("~/.corral"),
    )
    host: str = Field(default="127.0.0.1", min_length=1, description="Address that the frontend listens on.")
    port: int = Field(default=8080, ge=0, le=65535, description="Port that the frontend listens on.")
    detach: bool = Field(
        default=False, description="Return when the cluster is ready and leave it running in the background."
    )
    database_url: DatabaseUrl | None = Field(
        default=None,
        description="Address of a PostgreSQL to use instead of starting one.",
        json_schema_extra=make_shown_default("one is started"),
    )
    nats_url: NatsUrl | None = Field(
        default=None,
        description="Address of a NATS to use instead of starting one.",
        json_schema_extra=make_shown_default("one is started"),
    )
    postgres_bin: Directory | None = Field(
        default=None,
        description="Directory with initdb and postgres.",
        json_schema_extra=make_shown_default("the one that was installed with Corral"),
    )
    nats_bin: Directory | None = Field(
        default=None,
        description="Path of the nats-server program.",
        json_schema_extra=make_shown_default("the one that was installed with Corral"),
    )
    processes: int = Field(default=1, ge=1, le=64, description="Number of frontend processes; they share one port.")
    agent_worker: bool = Field(
        default=True, description="Start a second worker that executes runs of agents and tasks (`max_runs` of them)."
    )


ALL_MODELS: tuple[type[ProcessSettings], ...] = (FrontendSettings, WorkerSettings, UpSettings, ClientSettings)
