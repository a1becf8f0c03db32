"""Collects the dependencies of a frontend's routes from its `FrontendCore`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from corral.access.oidc import OidcClient
from corral.access.sessions import SessionService
from corral.api.deps import ApiDeps, WorkerOptions
from corral.api.page.page_store import BUILT_FOLDER, PageStore
from corral.app.core_options import CoreDeps, CoreOptions
from corral.nodes.registration import JoinPolicy
from corral.operations.backend_reports import BackendReportWriter

if TYPE_CHECKING:
    from corral.app.core import FrontendCore


def make_api_deps(core: FrontendCore, options: CoreOptions, deps: CoreDeps) -> ApiDeps:
    """Return the dependencies of the routes. Called last, when the core has all its parts."""
    return ApiDeps(
        frontend_id=options.frontend_id,
        database=deps.database,
        directory=core.directory,
        sessions=_make_sessions(options, deps),
        public_url=options.public_url,
        join_options=options.join,
        metrics_key=options.metrics_key,
        cors_policy=options.cors_policy,
        settings=options.settings,
        live_settings=core.live_settings,
        feed=core.feed,
        heartbeats=core.heartbeats,
        bus=deps.bus,
        credentials=deps.credentials,
        leader=core.leader,
        clock=deps.clock,
        ids=deps.ids,
        join_policy=JoinPolicy(lease_s=options.node_lease_s, approves_all=options.approves_all),
        worker_options=WorkerOptions(
            heartbeat_interval_s=options.heartbeat_interval_s, nats_url=options.nats_public_url
        ),
        catalog=core.catalog,
        refresher=core.refresher,
        upgrade_checker=core.upgrade_checker,
        model_gallery=core.model_gallery,
        model_refresher=core.model_refresher,
        model_operations=core.model_operations,
        admission=core.admission,
        admissions={name: pool.admission for name, pool in core.pools.items()},
        deltas=core.deltas,
        backend_reports=BackendReportWriter(deps.database),
        fetcher=deps.fetcher,
        library=core.library,
        page=PageStore(BUILT_FOLDER, deps.clock),
        gateway=core.gateway,
        compute=core.gateway.compute,
        request_monitor=core.request_monitor,
        live_views=core.live_views,
        allows_private_sources=options.allows_private_sources,
        count_held_operations=lambda: len(core.dispatcher.held),
        health=core.health,
        get_not_ready_reason=core.get_not_ready_reason,
    )


def _make_sessions(options: CoreOptions, deps: CoreDeps) -> SessionService:
    oidc = OidcClient(options.oidc, deps.fetcher, deps.clock, deps.ids) if options.oidc else None
    return SessionService(deps.database, deps.clock, deps.ids, oidc)
