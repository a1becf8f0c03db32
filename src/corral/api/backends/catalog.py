"""What there is and what is installed: the catalog's pages, installed backends by node. Reading only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import Field, StringConstraints

from corral.api.backends.upgrades import current_upgrades
from corral.api.operations.views import TASK_TYPES, display_name
from corral.api.parts import OperateIn, Parts, PartsIn
from corral.backends import listing as listings
from corral.backends.catalog import Catalog
from corral.domain.backend import GalleryEntry, InstalledBackend
from corral.domain.errors import StoreUnavailable
from corral.domain.node import Node, NodeId
from corral.domain.operation import ACTIVE, Operation
from corral.policy.catalog import choose, newest
from corral.policy.status import status_of
from corral.policy.upgrades import UpgradeFound
from corral.policy.versions import version_key
from corral.store import installed as installed_store
from corral.store import nodes as node_store
from corral.store import operations as operation_store
from corral.wire.backends import (
    CatalogEntryOut,
    CatalogPageOut,
    InstalledBackendOut,
    InstalledOn,
    KnownOut,
)
from corral.wire.base import Lenient, clamp_to

router = APIRouter(tags=["backends"])
Word = Annotated[str, StringConstraints(max_length=200)]
ItemsIn = Annotated[
    int,
    Field(ge=1, description=f"Entries on a page. More than {listings.ITEMS_MAX} are {listings.ITEMS_MAX}."),
    clamp_to(listings.ITEMS_MAX),
]
UseCases = dict[str, list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Registry:
    """The registry at one moment."""

    nodes: Sequence[Node]
    installed: listings.InstalledByNode
    live: Sequence[Operation]


async def _read(parts: Parts) -> _Registry:
    async with parts.database.transaction() as tx:
        return _Registry(
            nodes=await node_store.list_nodes(tx),
            installed=await installed_store.list_installed(tx),
            live=await operation_store.list_listed(tx),
        )


class PageIn(Lenient):
    """Which page of the catalog, and in which order."""

    term: Word = ""
    tag: Word = ""
    page: Annotated[int, Field(ge=1, le=100_000)] = 1
    items: ItemsIn = listings.ITEMS_DEFAULT
    sort: Literal["name", "repository", "license", "status"] = "name"
    order: Literal["asc", "desc"] = "asc"


@router.get("/api/backends")
async def list_catalog(parts: PartsIn, _: OperateIn, page: Annotated[PageIn, Query()]) -> CatalogPageOut:
    """A page of the catalog, with what is installed where and what is being done. Which entries can run is judged by
    the nodes, never by this frontend; while PostgreSQL is away, the catalog is shown without them."""
    try:
        registry = await _read(parts)
    except StoreUnavailable:
        registry = _Registry(nodes=(), installed={}, live=())
    query = listings.Query(
        term=page.term,
        tag=page.tag,
        page=page.page,
        items=page.items,
        sort=page.sort,
        is_descending=page.order == "desc",
    )
    found = listings.listing(parts.catalog, registry.nodes, registry.installed, query)
    busy = _busy(registry.live)
    return CatalogPageOut(
        backends=[_entry(parts.catalog, row, busy) for row in found.items],
        processing_backends={name: operation.id for name, operation in busy.items()},
        task_types={name: TASK_TYPES[operation.kind] for name, operation in busy.items()},
        available_backends=found.available,
        installed_backends=found.installed,
        system_capability=",".join(found.capabilities),
        prefer_development_backends=parts.catalog.prefers_development,
        all_tags=list(found.all_tags),
        current_page=found.page,
        total_pages=found.pages,
    )


def _busy(live: Iterable[Operation]) -> dict[str, Operation]:
    """Fleet-wide operations by name. One on a single node makes nobody else look busy, and a failed one nobody."""
    return {display_name(one): one for one in live if one.state in ACTIVE and one.scope_node is None}


def _entry(catalog: Catalog, row: listings.ListedBackend, busy: dict[str, Operation]) -> CatalogEntryOut:
    entry = row.entry
    operation = busy.get(entry.name)
    versions = [place.installed.version for place in row.nodes]
    installed = _most(versions) if versions else ""
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
        version=installed or row.version or _version_of_meta(catalog, row),
        processing=operation is not None,
        job_id=operation.id if operation else None,
        is_deletion=operation is not None and operation.kind.is_deletion,
        nodes=[_place(place.node, place.installed, installed) for place in row.nodes],
    )


def _version_of_meta(catalog: Catalog, row: listings.ListedBackend) -> str:
    """What a present node would get; the same on every page, if nodes would get different ones."""
    for word in row.capabilities:
        build = catalog.get(f"{row.entry.gallery}@{choose(row.entry.capabilities, word)}")
        version = newest(build) if build is not None else None
        if version is not None:
            return version.version
    return ""


@router.get("/backends")
async def list_installed(parts: PartsIn, _: OperateIn) -> list[InstalledBackendOut]:
    """What is installed, by name, with every node that has it. Read from the registry: a dead node delays nobody."""
    registry = await _read(parts)
    upgrades = {one.backend: one for one in await current_upgrades(parts)}
    names = {node.id: node for node in registry.nodes}
    groups: dict[str, list[tuple[Node, InstalledBackend]]] = {}
    for node_id, items in registry.installed.items():
        for item in items:
            if node_id in names:
                groups.setdefault(item.name, []).append((names[node_id], item))
    return [_group(name, places, upgrades.get(name)) for name, places in sorted(groups.items())]


def _group(name: str, places: list[tuple[Node, InstalledBackend]], upgrade: UpgradeFound | None) -> InstalledBackendOut:
    version = _most([item.version for _, item in places])
    first = places[0][1]
    available = upgrade.available_version if upgrade else ""
    behind = {one.node_id: one.to_version for one in upgrade.nodes} if upgrade else {}
    return InstalledBackendOut(
        name=name,
        is_system=all(item.is_system for _, item in places),
        meta=first.meta,
        alias=first.alias,
        gallery=first.gallery,
        version=version,
        available_version=available,
        has_upgrade=upgrade is not None,
        upgrade_summary=upgrade.summary if upgrade else "",
        nodes=[_place(node, item, version, behind) for node, item in sorted(places, key=lambda place: place[0].name)],
    )


def _most(versions: Sequence[str]) -> str:
    """What most have; of several equally frequent ones always the same."""
    counts = Counter(versions)
    return max(counts, key=lambda version: (counts[version], version_key(version)))


def _place(
    node: Node, item: InstalledBackend, most: str, behind: Mapping[NodeId, str] = MappingProxyType({})
) -> InstalledOn:
    return InstalledOn(
        node_id=node.id,
        node_name=node.name,
        node_status=status_of(node),
        version=item.version,
        digest=item.digest,
        uri=item.uri,
        installed_at=item.installed_at,
        previous_version=item.previous_version,
        size_bytes=item.size_bytes,
        drifts=item.version != most,
        has_upgrade=node.id in behind and not item.is_system,
        upgrade_to=behind.get(node.id, ""),
    )


@router.get("/backends/available")
async def list_available(parts: PartsIn, _: OperateIn) -> list[CatalogEntryOut]:
    """Everything that at least one healthy node can run, or has; by name."""
    registry = await _read(parts)
    query = listings.Query(items=listings.ITEMS_MAX)
    found = listings.listing(parts.catalog, registry.nodes, registry.installed, query)
    busy = _busy(registry.live)
    return [_entry(parts.catalog, row, busy) for row in found.items if row.capabilities or row.is_installed]


@router.get("/backends/known")
async def list_known(parts: PartsIn, _: OperateIn) -> list[KnownOut]:
    """Every name that a gallery has, for a choice: without builds for special hardware and development twins."""
    async with parts.database.transaction() as tx:
        installed = await installed_store.list_installed(tx)
    names = {name for items in installed.values() for item in items for name in (item.name, item.meta)}
    return [
        _known(parts, entry, is_installed=entry.name in names)
        for entry in sorted(parts.catalog.entries(), key=lambda entry: entry.name)
        if not entry.is_development and (entry.is_meta or parts.catalog.meta_for(entry.name) is None)
    ]


def _known(parts: Parts, entry: GalleryEntry, *, is_installed: bool) -> KnownOut:
    serves, formats = _abilities(parts, entry)
    return KnownOut(
        name=entry.name, description=entry.description, installed=is_installed, serves=serves, formats=formats
    )


def _abilities(parts: Parts, entry: GalleryEntry) -> tuple[list[str], list[str]]:
    """What an entry serves and reads; of a meta, what any of its builds does."""
    builds = [entry]
    if entry.is_meta:
        names = sorted(set(entry.capabilities.values()))
        builds = [found for name in names if (found := parts.catalog.get(f"{entry.gallery}@{name}")) is not None]
    versions = [version for build in builds if (version := newest(build)) is not None]
    serves = {word for version in versions for word in version.manifest.serves}
    formats = {word for version in versions for word in version.manifest.formats}
    return sorted(serves), sorted(formats)


@router.get("/api/backends/usecases")
async def list_use_cases(parts: PartsIn, _: OperateIn) -> UseCases:
    """Which calls each backend answers: chat, completions, embeddings, transcriptions, speech, rerank."""
    return {entry.name: _abilities(parts, entry)[0] for entry in parts.catalog.entries()}
