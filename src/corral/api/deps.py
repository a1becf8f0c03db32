"""The dependencies of all routes, built by `app/core_api_deps.py` and passed to the routes as one `ApiDeps`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Query, Request

from corral.access.directory import CredentialDirectory, refuse_run_ticket, require_scope
from corral.access.secret_store import SecretStore
from corral.access.sessions import SessionService
from corral.agents.flows import AgentFlows
from corral.api.join.address import JoinOptions
from corral.api.live_views import LiveViews
from corral.api.page.page_store import PageStore
from corral.api.turns.chat_turns import ChatTurnResponder
from corral.api.turns.turn_calls import TurnCallService
from corral.backends.catalog import BackendCatalog
from corral.backends.refresh import GalleryRefresher
from corral.backends.upgrades import UpgradeChecker
from corral.batches.service import BatchService
from corral.domain.access import Principal, Scope
from corral.domain.errors import NotAllowed
from corral.events.feed import Feed
from corral.fine_tuning.exports import ExportService
from corral.fine_tuning.service import FineTuneService
from corral.gateway.exchange.gateway import Gateway
from corral.gateway.routing.health import Health
from corral.insight.live_settings import LiveSettings
from corral.insight.request_monitor import RequestMonitor
from corral.knowledge.flows import KnowledgeFlows
from corral.library.library import FrontendLibrary
from corral.loading.service import ModelOperationService
from corral.models.gallery import ModelGallery
from corral.nodes.heartbeats import HeartbeatBuffer
from corral.nodes.registration import JoinPolicy
from corral.operations.admission import AdmissionControllers
from corral.operations.backend_pool import BackendAdmissionController
from corral.operations.backend_reports import BackendReportWriter
from corral.operations.deltas import OperationDeltaFeed
from corral.policy.serving.cors import CorsPolicy
from corral.ports.bus import Bus
from corral.ports.credentials import BusCredentialIssuer
from corral.ports.files import Fetcher
from corral.ports.runtime import Clock, IdGenerator
from corral.quantization.service import QuantizationService
from corral.reconcile.leader import LeaderElector
from corral.runs.artifacts import ArtifactService
from corral.runs.service import RunService
from corral.runtime.compute_process import ComputeProcess
from corral.runtime.slice_runner import SliceRunner
from corral.skills.repos import SkillRepoService
from corral.skills.service import SkillService
from corral.store.database import Database
from corral.tasks.service import TaskService
from corral.transfer.inbox import Inbox
from corral.wire.cluster import SettingOut


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """What a frontend sends to workers when they register: the heartbeat interval and the address of NATS."""

    heartbeat_interval_s: float
    # `{host}` in it is replaced by the host name under which the worker reached this frontend.
    nats_url: str


@dataclass(slots=True, kw_only=True)
class ApiDeps:
    """Dependencies of all routes of the HTTP API. Made by `app/core.py`."""

    frontend_id: str
    database: Database
    directory: CredentialDirectory
    sessions: SessionService
    secret_store: SecretStore
    feed: Feed
    heartbeats: HeartbeatBuffer
    bus: Bus
    credentials: BusCredentialIssuer
    leader: LeaderElector
    clock: Clock
    ids: IdGenerator
    join_policy: JoinPolicy
    worker_options: WorkerOptions
    catalog: BackendCatalog
    refresher: GalleryRefresher
    upgrade_checker: UpgradeChecker
    model_gallery: ModelGallery
    model_refresher: GalleryRefresher
    model_operations: ModelOperationService
    admission: BackendAdmissionController
    # The admission controllers of all pools of operations.
    admissions: AdmissionControllers
    deltas: OperationDeltaFeed
    runs: RunService
    artifacts: ArtifactService
    batches: BatchService
    quantizations: QuantizationService
    fine_tunes: FineTuneService
    fine_tune_exports: ExportService
    tasks: TaskService
    skills: SkillService
    skill_repos: SkillRepoService
    # Returns the key that webhooks of a task are signed with, by the task's id.
    derive_webhook_key: Callable[[str], bytes]
    agents: AgentFlows
    knowledge: KnowledgeFlows
    # Answers calls by runs: those for agents.
    turn_calls: TurnCallService
    backend_reports: BackendReportWriter
    fetcher: Fetcher
    gateway: Gateway
    request_monitor: RequestMonitor
    # Views that watchers get beside the events.
    live_views: LiveViews
    # Whether a request may name a source in a private network. Galleries of the settings always may.
    allows_private_sources: bool
    library: FrontendLibrary
    # The built web page.
    page: PageStore
    # Returns how many operations this frontend drives.
    count_held_operations: Callable[[], int]
    # Collects what does not work at present.
    health: Health
    # Settings that can be changed while the frontend runs.
    live_settings: LiveSettings
    # Returns why this frontend accepts no requests yet, or None if it does, possibly from the state saved on disk.
    get_not_ready_reason: Callable[[], str | None]
    # The settings that this frontend was started with, as they may be shown.
    settings: tuple[SettingOut, ...] = ()
    # The address under which browsers reach the frontends; None: the host of each request.
    public_url: str | None = None
    # Addresses at which other machines reach this frontend.
    join_options: JoinOptions = field(default_factory=JoinOptions)
    # Scans large bodies in slices, so that other requests are not delayed.
    slice_runner: SliceRunner = field(default_factory=SliceRunner)
    # Translates large requests and responses in another process, for the same reason.
    compute: ComputeProcess = field(default_factory=ComputeProcess)
    # Opens responses of runs for chat requests; made of `turn_calls`.
    turns: ChatTurnResponder = field(init=False)
    # Key for `/metrics`; None: `/metrics` is open.
    metrics_key: str | None = field(default=None, repr=False)
    # Decides which web pages of other origins may call models.
    cors_policy: CorsPolicy = field(default_factory=lambda: CorsPolicy(()))
    # Whether the MCP tools at /mcp only read.
    mcp_read_only: bool = False
    # Inbox of uploads by admins; created with the first upload.
    inbox: Inbox | None = None
    # Held by the request that fetches new galleries; other requests that need them wait for it.
    gallery_lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self.turns = ChatTurnResponder(self.turn_calls, self.compute)


# A coroutine although it awaits nothing: FastAPI would run a plain function in a thread, on every request.
async def get_deps(request: Request) -> ApiDeps:
    deps = request.app.state.deps
    assert isinstance(deps, ApiDeps)
    return deps


DepsIn = Annotated[ApiDeps, Depends(get_deps)]


SESSION_COOKIE = "corral_session"
OWN_PAGE_HEADER = "x-corral-request"
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


def get_bearer_secret(request: Request) -> str | None:
    """Return the secret of a request: `Authorization: Bearer …` or `x-api-key`."""
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and secret.strip():
        return secret.strip()
    return request.headers.get("x-api-key")


async def authenticate_caller(request: Request, deps: ApiDeps) -> Principal:
    """Return the caller of a request, by API key or by session cookie.

    A browser sends the cookie no matter which site started the request, but it sends a custom header only for our own
    pages. So a request that changes something must carry that header.
    """
    principal = await _authenticate(request, deps)
    deps.directory.record_use(principal)
    return principal


async def _authenticate(request: Request, deps: ApiDeps) -> Principal:
    secret, session = get_bearer_secret(request), request.cookies.get(SESSION_COOKIE)
    if secret or not session:
        return await deps.directory.authenticate_key(secret)
    if request.method not in _SAFE_METHODS and OWN_PAGE_HEADER not in request.headers:
        raise NotAllowed(
            f"A call with a session's cookie needs the header {OWN_PAGE_HEADER}.",
            hint=f"Send `{OWN_PAGE_HEADER}: 1`, or use an API key.",
            code="own_page_header_missing",
        )
    return await deps.directory.authenticate_session(session)


async def _require_key(request: Request, deps: DepsIn) -> Principal:
    return refuse_run_ticket(await authenticate_caller(request, deps))


async def _require_owner(principal: AnyCallerIn) -> Principal:
    if principal.node_id is not None:
        raise NotAllowed("The key of a node asks models and owns nothing.", hint="Use a key of your own.")
    return principal


async def _require_operator(principal: AnyCallerIn) -> Principal:
    return require_scope(principal, Scope.OPERATE)


async def _require_admin(principal: AnyCallerIn) -> Principal:
    return require_scope(principal, Scope.ADMIN)


AnyCallerIn = Annotated[Principal, Depends(_require_key)]
# A caller that can own runs, tasks and agents: everybody except nodes.
OwnerIn = Annotated[Principal, Depends(_require_owner)]
OperatorIn = Annotated[Principal, Depends(_require_operator)]
AdminIn = Annotated[Principal, Depends(_require_admin)]


async def find_visible_owner(
    caller: OwnerIn, *, all_users: Annotated[bool, Query(description="For admins: those of all users.")] = False
) -> str | None:
    """Return the owner whose runs, tasks and jobs the caller sees: the caller, or None for all owners."""
    if not all_users:
        return str(caller.owner)
    if not caller.is_admin:
        raise NotAllowed("Only admins see the runs, tasks and jobs of other users.", hint="Leave all_users out.")
    return None


VisibleOwnerIn = Annotated[str | None, Depends(find_visible_owner)]
