"""The catalog as a page: what there is, where it is installed, and which of the cluster's machines could run it.

What can be run is the union over the healthy workers, never the hardware of the frontend that is asked. No healthy
worker: nothing can be run, and everything is still listed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from corral.backends.catalog import Catalog
from corral.domain.backend import GalleryEntry, InstalledBackend
from corral.domain.errors import InvalidRequest
from corral.domain.node import Node, NodeId, NodeType
from corral.policy.catalog import capability_of, choose, newest, runs_on, uri_of
from corral.policy.status import is_schedulable

ITEMS_DEFAULT = 9
# Room for every entry of the largest public gallery, so that one page can hold all of it.
ITEMS_MAX = 2000
SORTS = ("name", "repository", "license", "status")

InstalledByNode = Mapping[NodeId, Sequence[InstalledBackend]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """`term` is looked for in names, descriptions, tags and galleries; `tag` is one exact tag."""

    term: str = ""
    tag: str = ""
    page: int = 1
    items: int = ITEMS_DEFAULT
    sort: str = "name"
    is_descending: bool = False
    # Only what a healthy worker can run.
    only_runnable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledOn:
    node: Node
    installed: InstalledBackend


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedBackend:
    entry: GalleryEntry
    # The one that is installed when none is named; empty for a meta and for a gallery without versions.
    version: str
    versions: tuple[str, ...]
    # The name of an entry that other entries share as their alias.
    is_alias: bool
    meta_for: str | None
    # Which capabilities of healthy workers can run it.
    capabilities: tuple[str, ...]
    nodes: tuple[InstalledOn, ...]

    @property
    def is_installed(self) -> bool:
        return bool(self.nodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    items: tuple[ListedBackend, ...]
    # Of the query, over all pages.
    total: int
    page: int
    pages: int
    # Of the whole catalog, whatever was asked for.
    all_tags: tuple[str, ...]
    available: int
    installed: int
    capabilities: tuple[str, ...]


def listing(catalog: Catalog, nodes: Sequence[Node], installed: InstalledByNode, query: Query) -> Listing:
    """One page. `InvalidRequest` for a page, a number of items or an order that makes no sense."""
    _check(query)
    words = healthy_capabilities(nodes)
    everything = _rows(catalog, nodes, installed, words)
    found = [row for row in everything if _matches(row, query)]
    found.sort(key=lambda row: _order(row, query.sort), reverse=query.is_descending)
    pages = max(1, -(-len(found) // query.items))
    start = (query.page - 1) * query.items
    return Listing(
        items=tuple(found[start : start + query.items]),
        total=len(found),
        page=query.page,
        pages=pages,
        all_tags=tuple(sorted({tag for row in everything for tag in row.entry.tags})),
        available=len(everything),
        installed=sum(row.is_installed for row in everything),
        capabilities=words,
    )


def healthy_capabilities(nodes: Iterable[Node]) -> tuple[str, ...]:
    """What the machines that may get work are, each word once."""
    return tuple(
        sorted(
            {capability_of(node.hardware) for node in nodes if node.type is NodeType.BACKEND and is_schedulable(node)}
        )
    )


def runnable_with(catalog: Catalog, entry: GalleryEntry, capabilities: Iterable[str]) -> tuple[str, ...]:
    """Those of the capabilities with which an entry can be installed."""
    return tuple(word for word in capabilities if _can_run(catalog, entry, word))


def _can_run(catalog: Catalog, entry: GalleryEntry, capability: str) -> bool:
    if not entry.is_meta:
        return runs_on(entry.name, uri_of(entry), capability)
    concrete = choose(entry.capabilities, capability)
    found = catalog.get(f"{entry.gallery}@{concrete}") if concrete else None
    return found is not None and bool(found.versions)


def _rows(
    catalog: Catalog, nodes: Sequence[Node], installed: InstalledByNode, words: Sequence[str]
) -> list[ListedBackend]:
    entries = catalog.entries()
    aliases = {(entry.gallery, entry.alias) for entry in entries if entry.alias and entry.alias != entry.name}
    metas = {(one.gallery, concrete): one.name for one in reversed(entries) for concrete in one.capabilities.values()}
    places = _places(nodes, installed)
    return [
        ListedBackend(
            entry=entry,
            version=chosen.version if (chosen := newest(entry)) is not None else "",
            versions=tuple(version.version for version in entry.versions if version.version),
            is_alias=(entry.gallery, entry.name) in aliases,
            meta_for=metas.get((entry.gallery, entry.name)),
            capabilities=runnable_with(catalog, entry, words),
            nodes=tuple(one for one in places.get(entry.name, ()) if one.installed.gallery in ("", entry.gallery)),
        )
        for entry in entries
    ]


def _places(nodes: Sequence[Node], installed: InstalledByNode) -> dict[str, list[InstalledOn]]:
    """Where each name is: a concrete under its own name and under the meta that it was installed through."""
    places: dict[str, list[InstalledOn]] = {}
    for node in sorted(nodes, key=lambda node: node.name):
        for item in installed.get(node.id, ()):
            for name in {item.name, item.meta} - {""}:
                places.setdefault(name, []).append(InstalledOn(node=node, installed=item))
    return places


def _matches(row: ListedBackend, query: Query) -> bool:
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


def _check(query: Query) -> None:
    if query.sort not in SORTS:
        raise InvalidRequest(f"The order {query.sort!r} is not one of {', '.join(SORTS)}.")
    if query.page < 1 or not 1 <= query.items <= ITEMS_MAX:
        raise InvalidRequest(f"A page is 1 or more, and has 1 to {ITEMS_MAX} items.")
