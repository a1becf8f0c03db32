"""Lists the catalog as a page: entries, where they are installed, and which of the cluster's machines could run
them.

What can be run is the union over the healthy workers, never the hardware of the frontend that answers. Without a
healthy worker nothing can be run, and everything is still listed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from corral.backends.catalog import BackendCatalog
from corral.domain.backend import GalleryEntry, InstalledBackend
from corral.domain.errors import InvalidRequest
from corral.domain.node import Node, NodeId, NodeType
from corral.policy.catalog import can_run_on, choose_concrete, find_capability, find_newest, find_uri
from corral.policy.status import is_schedulable

ITEMS_DEFAULT = 9
# Room for every entry of the largest public gallery, so that one page can hold all of it.
ITEMS_MAX = 2000
SORTS = ("name", "repository", "license", "status")

InstalledByNode = Mapping[NodeId, Sequence[InstalledBackend]]


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendListingQuery:
    """Filters, sorts and pages the listing of backend galleries."""

    term: str = ""
    tag: str = ""
    page: int = 1
    items: int = ITEMS_DEFAULT
    sort: str = "name"
    is_descending: bool = False
    # Only entries that a healthy worker can run.
    only_runnable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendInstallation:
    """Pairs a node with a backend that is installed on it."""

    node: Node
    installed: InstalledBackend


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedBackend:
    """Shows one gallery entry with its versions, the hardware that can run it and the nodes that have it."""

    entry: GalleryEntry
    # The version that is installed when none is named; empty for a meta and for a gallery without versions.
    version: str
    versions: tuple[str, ...]
    # True for an alias that several entries share.
    is_alias: bool
    meta_for: str | None
    # The capabilities of healthy workers that can run the entry.
    capabilities: tuple[str, ...]
    nodes: tuple[BackendInstallation, ...]

    @property
    def is_installed(self) -> bool:
        return bool(self.nodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendListing:
    """Holds one page of the backend galleries, with the totals and filter values for all of it."""

    items: tuple[ListedBackend, ...]
    # Totals of the query, over all pages.
    total: int
    page: int
    pages: int
    # Values over the whole catalog, whatever the query.
    all_tags: tuple[str, ...]
    available: int
    installed: int
    capabilities: tuple[str, ...]


def build_listing(
    catalog: BackendCatalog, nodes: Sequence[Node], installed: InstalledByNode, query: BackendListingQuery
) -> BackendListing:
    """Build one page. Raises `InvalidRequest` for an invalid page, number of items or order."""
    _check(query)
    words = list_healthy_capabilities(nodes)
    everything = _make_rows(catalog, nodes, installed, words)
    found = [row for row in everything if _matches(row, query)]
    found.sort(key=lambda row: _order(row, query.sort), reverse=query.is_descending)
    pages = max(1, -(-len(found) // query.items))
    start = (query.page - 1) * query.items
    return BackendListing(
        items=tuple(found[start : start + query.items]),
        total=len(found),
        page=query.page,
        pages=pages,
        all_tags=tuple(sorted({tag for row in everything for tag in row.entry.tags})),
        available=len(everything),
        installed=sum(row.is_installed for row in everything),
        capabilities=words,
    )


def list_healthy_capabilities(nodes: Iterable[Node]) -> tuple[str, ...]:
    """Return the capabilities of the machines that may get work, each once."""
    return tuple(
        sorted(
            {find_capability(node.hardware) for node in nodes if node.type is NodeType.BACKEND and is_schedulable(node)}
        )
    )


def filter_runnable_capabilities(
    catalog: BackendCatalog, entry: GalleryEntry, capabilities: Iterable[str]
) -> tuple[str, ...]:
    """Return those of the capabilities for which an entry can be installed."""
    return tuple(word for word in capabilities if _can_run(catalog, entry, word))


def _can_run(catalog: BackendCatalog, entry: GalleryEntry, capability: str) -> bool:
    if not entry.is_meta:
        return can_run_on(entry.name, find_uri(entry), capability)
    concrete = choose_concrete(entry.capabilities, capability)
    found = catalog.get(f"{entry.gallery}@{concrete}") if concrete else None
    return found is not None and bool(found.versions)


def _make_rows(
    catalog: BackendCatalog, nodes: Sequence[Node], installed: InstalledByNode, words: Sequence[str]
) -> list[ListedBackend]:
    entries = catalog.list_entries()
    aliases = {(entry.gallery, entry.alias) for entry in entries if entry.alias and entry.alias != entry.name}
    metas = {(one.gallery, concrete): one.name for one in reversed(entries) for concrete in one.capabilities.values()}
    installations = _group_installations(nodes, installed)
    return [
        ListedBackend(
            entry=entry,
            version=chosen.version if (chosen := find_newest(entry)) is not None else "",
            versions=tuple(version.version for version in entry.versions if version.version),
            is_alias=(entry.gallery, entry.name) in aliases,
            meta_for=metas.get((entry.gallery, entry.name)),
            capabilities=filter_runnable_capabilities(catalog, entry, words),
            nodes=tuple(
                one for one in installations.get(entry.name, ()) if one.installed.gallery in ("", entry.gallery)
            ),
        )
        for entry in entries
    ]


def _group_installations(nodes: Sequence[Node], installed: InstalledByNode) -> dict[str, list[BackendInstallation]]:
    """Return the installations by name: a concrete under its own name and under the meta that it was installed
    through."""
    installations: dict[str, list[BackendInstallation]] = {}
    for node in sorted(nodes, key=lambda node: node.name):
        for item in installed.get(node.id, ()):
            for name in {item.name, item.meta} - {""}:
                installations.setdefault(name, []).append(BackendInstallation(node=node, installed=item))
    return installations


def _matches(row: ListedBackend, query: BackendListingQuery) -> bool:
    entry = row.entry
    if query.only_runnable and not row.capabilities:
        return False
    if query.tag and query.tag.lower() not in (tag.lower() for tag in entry.tags):
        return False
    term = query.term.strip().lower()
    texts = (entry.id, entry.alias, entry.description, *entry.tags)
    return not term or any(term in text.lower() for text in texts)


def _order(row: ListedBackend, sort: str) -> tuple[str, str, str]:
    entry = row.entry
    first = {
        "name": "",
        "repository": entry.gallery,
        "license": entry.license.lower(),
        "status": "0" if row.is_installed else "1",
    }[sort]
    return (first.lower(), entry.name.lower(), entry.gallery)


def _check(query: BackendListingQuery) -> None:
    if query.sort not in SORTS:
        raise InvalidRequest(f"The order {query.sort!r} is not one of {', '.join(SORTS)}.")
    if query.page < 1 or not 1 <= query.items <= ITEMS_MAX:
        raise InvalidRequest(f"A page is 1 or more, and has 1 to {ITEMS_MAX} items.")
