"""What the routes work with, made by `app/frontend.py` and handed over in one piece."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request

from corral.access.allowed import allowed
from corral.access.directory import Directory
from corral.access.sessions import Sessions
from corral.api.join.address import JoinOptions
from corral.api.page.page import Page
from corral.api.stream.board import Board
from corral.backends.catalog import Catalog
from corral.backends.refresh import Refresher
from corral.backends.upgrades import UpgradeCheck
from corral.domain.access import Principal, Scope
from corral.domain.errors import NotAllowed
from corral.events.feed import Feed
from corral.insight.insight import Insight
from corral.insight.live_settings import LiveSettings
from corral.library.library import Library
from corral.loading.service import Loading
from corral.models.gallery import ModelGallery
from corral.nodes.heartbeats import HeartbeatBuffer
from corral.nodes.registration import JoinPolicy
from corral.operations.admission import Admission
from corral.operations.deltas import Deltas
from corral.operations.reports import Reports
from corral.policy.serving.origins import OriginPolicy
from corral.ports.bus import Bus
from corral.ports.credentials import BusCredentials
from corral.ports.fetch import Fetcher
from corral.ports.runtime import Clock, Ids
from corral.reconcile.leader import Leader
from corral.runtime.slices import SliceRunner
from corral.serving.gateway import Gateway
from corral.serving.health import Health
from corral.store.database import Database
from corral.transfer.inbox import Inbox
from corral.wire.settings import SettingOut


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What workers are told."""

    heartbeat_interval_s: float
    # `{host}` in it stands for the name under which the worker reached this frontend.
    nats_url: str


@dataclass(slots=True, kw_only=True)
class Parts:
    frontend_id: str
    database: Database
    directory: Directory
    sessions: Sessions
    feed: Feed
    heartbeats: HeartbeatBuffer
    bus: Bus
    credentials: BusCredentials
    leader: Leader
    clock: Clock
    ids: Ids
    join_policy: JoinPolicy
    told: Told
    catalog: Catalog
    refresher: Refresher
    upgrades: UpgradeCheck
    models: ModelGallery
    model_refresher: Refresher
    loading: Loading
    admission: Admission
    deltas: Deltas
    reports: Reports
    fetcher: Fetcher
    gateway: Gateway
    insight: Insight
    # What watchers see beside the changes.
    board: Board
    # Whether a request may name a source inside a network; galleries, which the operator sets, always may.
    allows_private_sources: bool
    library: Library
    # The web page.
    page: Page
    # How many operations this frontend drives.
    held: Callable[[], int]
    # What does not work now.
    health: Health
    # Settings that can be changed while it runs.
    live: LiveSettings
    # Why this frontend does not serve yet; None when it does, be it from what was kept on disk.
    not_ready: Callable[[], str | None]
    # What this frontend was told at its start, as it may be shown.
    settings: tuple[SettingOut, ...] = ()
    # The address under which browsers reach the frontends; None: the one that each asks by.
    public_url: str | None = None
    # Where another machine reaches this frontend.
    join: JoinOptions = field(default_factory=JoinOptions)
    # Scans large bodies without keeping others waiting.
    slices: SliceRunner = field(default_factory=SliceRunner)
    # What /metrics asks for; None: it is open.
    metrics_key: str | None = field(default=None, repr=False)
    # Which web pages of other origins may call models.
    origins: OriginPolicy = field(default_factory=lambda: OriginPolicy(()))
    # Files that admins are sending; made with the first of them.
    inbox: Inbox | None = None
    # Held by the request that has new galleries fetched; others that need them wait for it.
    gallery_wait: asyncio.Lock = field(default_factory=asyncio.Lock)


# A coroutine although it awaits nothing: the framework would run a plain function in a thread, on every request.
async def parts_of(request: Request) -> Parts:
    parts = request.app.state.parts
    assert isinstance(parts, Parts)
    return parts


PartsIn = Annotated[Parts, Depends(parts_of)]


SESSION_COOKIE = "corral_session"
OWN_PAGE_HEADER = "x-corral-request"
_HARMLESS = frozenset({"GET", "HEAD", "OPTIONS"})


def bearer(request: Request) -> str | None:
    """The secret of a request: `Authorization: Bearer …` or `x-api-key`."""
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and secret.strip():
        return secret.strip()
    return request.headers.get("x-api-key")


async def who(request: Request, parts: Parts) -> Principal:
    """Who is asking, by key or by the cookie of a session.

    A browser sends the cookie whatever page made it ask. A header of our own it sends only for our own pages, so a call
    that changes something must have one.
    """
    principal = await _authenticate(request, parts)
    parts.directory.note_use(principal)
    return principal


async def _authenticate(request: Request, parts: Parts) -> Principal:
    secret, session = bearer(request), request.cookies.get(SESSION_COOKIE)
    if secret or not session:
        return await parts.directory.principal(secret)
    if request.method not in _HARMLESS and OWN_PAGE_HEADER not in request.headers:
        raise NotAllowed(
            f"A call with a session's cookie needs the header {OWN_PAGE_HEADER}.",
            hint=f"Send `{OWN_PAGE_HEADER}: 1`, or use an API key.",
            code="own_page_header_missing",
        )
    return await parts.directory.session(session)


async def _anybody(request: Request, parts: PartsIn) -> Principal:
    return await who(request, parts)


async def _operator(principal: AnybodyIn) -> Principal:
    return allowed(principal, Scope.OPERATE)


async def _admin(principal: AnybodyIn) -> Principal:
    return allowed(principal, Scope.ADMIN)


AnybodyIn = Annotated[Principal, Depends(_anybody)]
OperateIn = Annotated[Principal, Depends(_operator)]
AdminIn = Annotated[Principal, Depends(_admin)]
