"""Routes that read about backends: pages of the catalog, installed backends by node, upgrades, and galleries.

Upgrades and galleries are returned as known now. A check of registries or a fetch of galleries runs in the background
of the frontend, one round at a time, whether it leads or not; the response does not wait for it, and changes reach the
other frontends through the feed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Annotated, Literal

from fastapi import APIRouter, BackgroundTasks, Query
from pydantic import Field, StringConstraints

from corral.api.deps import ApiDeps, DepsIn, OperatorIn
from corral.api.operations import TASK_TYPES, get_display_name
from corral.backends import catalog as listings
from corral.backends.catalog import BackendCatalog
from corral.backends.index_cache import GalleryState
from corral.domain.backend import GalleryEntry, InstalledBackend
from corral.domain.errors import StoreUnavailable
from corral.domain.node import Node, NodeId
from corral.domain.operation import ACTIVE, Operation
from corral.policy.catalog import choose_concrete, find_newest, make_version_key
from corral.policy.status import compute_status
from corral.policy.upgrades import BackendUpgrade
from corral.runtime.attempt import attempt
from corral.store import assignments as assignment_store
from corral.store import galleries as gallery_store
from corral.store import nodes as node_store
from corral.store import operations as operation_store
from corral.wire.backends import (
    BackendInstallationOut,
    BackendUpgradeOut,
    CatalogEntryOut,
    CatalogPageOut,
    GalleryOut,
    GalleryRefreshOut,
    InstalledBackendOut,
    KnownBackendOut,
    NodeDriftOut,
    NodeUpgradeOut,
)
from corral.wire.base import LenientModel, make_clamp

router = APIRouter(tags=["backends"])
Word = Annotated[str, StringConstraints(max_length=200)]
ItemsIn = Annotated[
    int,
    Field(ge=1, description=f"Entries on a page; at most {listings.ITEMS_MAX}."),
    make_clamp(listings.ITEMS_MAX),
]
UseCases = dict[str, list[str]]
Upgrades = dict[str, BackendUpgradeOut]


@dataclass(frozen=True, slots=True, kw_only=True)
class _RegistrySnapshot:
    """Holds the nodes, installed backends and live operations, read in one transaction."""

    nodes: Sequence[Node]
    installed: listings.InstalledByNode
    live: Sequence[Operation]


async def _read_registry(deps: ApiDeps) -> _RegistrySnapshot:
    async with deps.database.transaction() as tx:
        return _RegistrySnapshot(
            nodes=await node_store.list_nodes(tx),
            installed=await assignment_store.list_installed(tx),
            live=await operation_store.list_live(tx),
        )


class CatalogPageQuery(LenientModel):
    """Query parameters of `GET /api/backends`, which lists the backends of the galleries: search, page and order."""

    term: Word = ""
    tag: Word = ""
    page: Annotated[int, Field(ge=1, le=100_000)] = 1
    items: ItemsIn = listings.ITEMS_DEFAULT
    sort: Literal["name", "repository", "license", "status"] = "name"
    order: Literal["asc", "desc"] = "asc"


@router.get("/api/backends")
async def list_catalog(deps: DepsIn, _: OperatorIn, page: Annotated[CatalogPageQuery, Query()]) -> CatalogPageOut:
    """List a page of the catalog, with installations and running operations. Which entries can run depends on the
    nodes, never on this frontend; while PostgreSQL is away, the catalog is shown without them."""
    try:
        registry = await _read_registry(deps)
    except StoreUnavailable:
        registry = _RegistrySnapshot(nodes=(), installed={}, live=())
    query = listings.BackendListingQuery(
        term=page.term,
        tag=page.tag,
        page=page.page,
        items=page.items,
        sort=page.sort,
        is_descending=page.order == "desc",
    )
    found = listings.build_listing(deps.catalog, registry.nodes, registry.installed, query)
    busy = _map_busy(registry.live)
    return CatalogPageOut(
        backends=[_entry_to_wire(deps.catalog, row, busy) for row in found.items],
        processing_backends={name: operation.id for name, operation in busy.items()},
        task_types={name: TASK_TYPES[operation.kind] for name, operation in busy.items()},
        available_backends=found.available,
        installed_backends=found.installed,
        system_capability=",".join(found.capabilities),
        prefer_development_backends=deps.catalog.prefers_development,
        all_tags=list(found.all_tags),
        current_page=found.page,
        total_pages=found.pages,
    )


def _map_busy(live: Iterable[Operation]) -> dict[str, Operation]:
    """Return running fleet-wide operations by backend. Operations on one node and failed ones do not count."""
    return {get_display_name(one): one for one in live if one.state in ACTIVE and one.scope_node is None}


def _entry_to_wire(catalog: BackendCatalog, row: listings.ListedBackend, busy: dict[str, Operation]) -> CatalogEntryOut:
    entry = row.entry
    operation = busy.get(entry.name)
    versions = [installation.installed.version for installation in row.nodes]
    installed = _pick_most_common(versions) if versions else ""
    return CatalogEntryOut(
        id=entry.id,
        name=entry.name,
        gallery=entry.gallery,
        description=entry.description,
        icon=entry.icon,
        license=entry.license,
        urls=list(entry.urls),
        tags=list(entry.tags),
        alias=entry.alias,
        is_meta=entry.is_meta,
        is_alias=row.is_alias,
        is_development=entry.is_development,
        is_unverified=entry.is_unverified,
        capabilities=dict(entry.capabilities),
        runs_on=list(row.capabilities),
        versions=list(row.versions),
        meta_backend_for=row.meta_for,
        installed=row.is_installed,
        version=installed or row.version or _find_meta_version(catalog, row),
        processing=operation is not None,
        job_id=operation.id if operation else None,
        is_deletion=operation is not None and operation.kind.is_deletion,
        nodes=[
            _installation_to_wire(installation.node, installation.installed, installed) for installation in row.nodes
        ],
    )


def _find_meta_version(catalog: BackendCatalog, row: listings.ListedBackend) -> str:
    """Return the version that a current node would get; stable across pages if nodes would get different ones."""
    for capability in row.capabilities:
        build = catalog.get(f"{row.entry.gallery}@{choose_concrete(row.entry.capabilities, capability)}")
        version = find_newest(build) if build is not None else None
        if version is not None:
            return version.version
    return ""


@router.get("/backends")
async def list_installed_backends(deps: DepsIn, _: OperatorIn) -> list[InstalledBackendOut]:
    """List installed backends by name, with their nodes. Read from the registry, so that a dead node causes no
    delay."""
    registry = await _read_registry(deps)
    upgrades = {one.backend: one for one in await find_upgrades(deps)}
    names = {node.id: node for node in registry.nodes}
    groups: dict[str, list[tuple[Node, InstalledBackend]]] = {}
    for node_id, items in registry.installed.items():
        for item in items:
            if node_id in names:
                groups.setdefault(item.name, []).append((names[node_id], item))
    return [_group_to_wire(name, installations, upgrades.get(name)) for name, installations in sorted(groups.items())]


def _group_to_wire(
    name: str, installations: list[tuple[Node, InstalledBackend]], upgrade: BackendUpgrade | None
) -> InstalledBackendOut:
    version = _pick_most_common([item.version for _, item in installations])
    first = installations[0][1]
    available = upgrade.available_version if upgrade else ""
    behind = {one.node_id: one.to_version for one in upgrade.nodes} if upgrade else {}
    return InstalledBackendOut(
        name=name,
        is_system=all(item.is_system for _, item in installations),
        meta=first.meta,
        alias=first.alias,
        gallery=first.gallery,
        version=version,
        available_version=available,
        has_upgrade=upgrade is not None,
        upgrade_summary=upgrade.summary if upgrade else "",
        nodes=[
            _installation_to_wire(node, item, version, behind)
            for node, item in sorted(installations, key=lambda place: place[0].name)
        ],
    )


def _pick_most_common(versions: Sequence[str]) -> str:
    """Return the most common value; among equally common ones always the same."""
    counts = Counter(versions)
    return max(counts, key=lambda version: (counts[version], make_version_key(version)))


def _installation_to_wire(
    node: Node,
    item: InstalledBackend,
    common_version: str,
    upgrades_by_node: Mapping[NodeId, str] = MappingProxyType({}),
) -> BackendInstallationOut:
    return BackendInstallationOut(
        node_id=node.id,
        node_name=node.name,
        node_status=compute_status(node),
        version=item.version,
        digest=item.digest,
        uri=item.uri,
        installed_at=item.installed_at,
        previous_version=item.previous_version,
        size_bytes=item.size_bytes,
        drifts=item.version != common_version,
        has_upgrade=node.id in upgrades_by_node and not item.is_system,
        upgrade_to=upgrades_by_node.get(node.id, ""),
    )


@router.get("/backends/available")
async def list_available_backends(deps: DepsIn, _: OperatorIn) -> list[CatalogEntryOut]:
    """List all backends that at least one healthy node can run or has, by name."""
    registry = await _read_registry(deps)
    query = listings.BackendListingQuery(items=listings.ITEMS_MAX)
    found = listings.build_listing(deps.catalog, registry.nodes, registry.installed, query)
    busy = _map_busy(registry.live)
    return [_entry_to_wire(deps.catalog, row, busy) for row in found.items if row.capabilities or row.is_installed]


@router.get("/backends/known")
async def list_known_backends(deps: DepsIn, _: OperatorIn) -> list[KnownBackendOut]:
    """List the names of all backends to choose from, without builds for specific hardware and development builds."""
    async with deps.database.transaction() as tx:
        installed = await assignment_store.list_installed(tx)
    names = {name for items in installed.values() for item in items for name in (item.name, item.meta)}
    return [
        _known_to_wire(deps, entry, is_installed=entry.name in names)
        for entry in sorted(deps.catalog.list_entries(), key=lambda entry: entry.name)
        if not entry.is_development and (entry.is_meta or deps.catalog.find_meta(entry.name) is None)
    ]


def _known_to_wire(deps: ApiDeps, entry: GalleryEntry, *, is_installed: bool) -> KnownBackendOut:
    serves, formats = _collect_abilities(deps, entry)
    return KnownBackendOut(
        name=entry.name, description=entry.description, installed=is_installed, serves=serves, formats=formats
    )


def _collect_abilities(deps: ApiDeps, entry: GalleryEntry) -> tuple[list[str], list[str]]:
    """Return the calls and formats that an entry supports; for a meta backend those of all its builds."""
    builds = [entry]
    if entry.is_meta:
        names = sorted(set(entry.capabilities.values()))
        builds = [found for name in names if (found := deps.catalog.get(f"{entry.gallery}@{name}")) is not None]
    versions = [version for build in builds if (version := find_newest(build)) is not None]
    serves = {word for version in versions for word in version.manifest.serves}
    formats = {word for version in versions for word in version.manifest.formats}
    return sorted(serves), sorted(formats)


@router.get("/api/backends/usecases")
async def list_use_cases(deps: DepsIn, _: OperatorIn) -> UseCases:
    """List the calls that each backend serves: chat, completions, embeddings, transcriptions, speech, rerank."""
    return {entry.name: _collect_abilities(deps, entry)[0] for entry in deps.catalog.list_entries()}


async def find_upgrades(deps: ApiDeps) -> tuple[BackendUpgrade, ...]:
    """Return the upgrades that are known now, without network requests."""
    return await deps.upgrade_checker.find()


async def _list_upgrades(deps: DepsIn, _: OperatorIn) -> Upgrades:
    """List installed backends with a newer version in their gallery, or with nodes that differ, by name."""
    return upgrades_to_wire(await find_upgrades(deps))


async def _check_upgrades(deps: DepsIn, _: OperatorIn, background: BackgroundTasks) -> Upgrades:
    """Check registries and galleries again. Returns the upgrades as known now; read them again in a moment."""

    async def look() -> None:
        await attempt(deps.upgrade_checker.check)

    background.add_task(look)
    return upgrades_to_wire(await find_upgrades(deps))


for _prefix, _suffix in (("/api/backends", ""), ("/backends", "_for_localai")):
    router.get(f"{_prefix}/upgrades", name=f"list_upgrades{_suffix}")(_list_upgrades)
    router.post(f"{_prefix}/upgrades/check", name=f"check_upgrades{_suffix}")(_check_upgrades)


def upgrades_to_wire(found: tuple[BackendUpgrade, ...]) -> Upgrades:
    return {
        one.backend: BackendUpgradeOut(
            backend_name=one.backend,
            installed_version=one.installed_version,
            available_version=one.available_version,
            installed_digest=one.installed_digest,
            available_digest=one.available_digest,
            node_drift=[NodeDriftOut(**asdict(drift)) for drift in one.node_drift],
            nodes=[NodeUpgradeOut(**asdict(node)) for node in one.nodes],
            summary=one.summary,
        )
        for one in found
    }


async def _list_galleries(deps: DepsIn, _: OperatorIn) -> list[GalleryOut]:
    """List the galleries with the time and the error of their last fetch."""
    return await _read_galleries(deps)


async def _refresh_galleries(deps: DepsIn, _: OperatorIn, background: BackgroundTasks) -> GalleryRefreshOut:
    """Fetch all galleries again, including those that failed recently. Returns the galleries as known now."""

    async def fetch() -> None:
        await attempt(deps.refresher.refresh_once)

    is_under_way = deps.refresher.is_refreshing
    background.add_task(fetch)
    message = "The galleries are being fetched already." if is_under_way else "The galleries are being fetched."
    return GalleryRefreshOut(message=message, galleries=await _read_galleries(deps))


for _prefix, _suffix in (("/api/backends", ""), ("/backends", "_for_localai")):
    router.get(f"{_prefix}/galleries", name=f"list_backend_galleries{_suffix}")(_list_galleries)
router.post("/api/backends/galleries/refresh", name="refresh_backend_galleries", status_code=202)(_refresh_galleries)


async def _read_galleries(deps: ApiDeps) -> list[GalleryOut]:
    """Return the galleries: entries from memory, and the result of the last fetch from PostgreSQL if it answers."""
    try:
        async with deps.database.transaction() as tx:
            stamps = {(stamp.name, stamp.url): stamp for stamp in await gallery_store.list_stamps(tx)}
    except StoreUnavailable:
        stamps = {}
    return [gallery_to_wire(state, stamps.get((state.name, state.url))) for state in deps.catalog.states]


def gallery_to_wire(state: GalleryState, stamp: gallery_store.GalleryCopy | None) -> GalleryOut:
    return GalleryOut(
        name=state.name,
        url=state.url,
        entries=state.entries,
        fetched_at=stamp.fetched_at if stamp else None,
        problem=stamp.problem if stamp and state.is_readable else state.problem,
    )
