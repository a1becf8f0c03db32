"""The catalog: every gallery of this cluster in memory, the same on every frontend.

The built-in gallery comes with the program and needs no network. Configured ones are read from their copies in
PostgreSQL, which the leader keeps up to date (`refresh.py`); an unreadable index does not affect the others. A query
of the catalog waits for nothing. A plain name means the built-in gallery first and then the configured ones in their
order, so that a gallery which is added later never changes what a name stands for.

`build_listing` lists the catalog as a page: entries, where they are installed, and which of the cluster's machines
could run them. What can be run is the union over the healthy workers, never the hardware of the frontend that answers.
Without a healthy worker nothing can be run, and everything is still listed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import Any

from corral.backends.index import BackendIndex, is_valid_name, parse_index, read_index
from corral.backends.index_cache import GalleryIndexCache, GalleryState
from corral.backends.sources import derive_name, parse_source_uri
from corral.domain.backend import (
    BUILT_IN_GALLERY,
    DEVELOPMENT_SUFFIX,
    BackendVersion,
    Build,
    Gallery,
    GalleryEntry,
    InstalledBackend,
    Manifest,
    SourceKind,
)
from corral.domain.cluster import OutboxEvent
from corral.domain.errors import Conflict, CorralError, InvalidRequest, NotFound, Unprocessable
from corral.domain.node import Node, NodeId, NodeType
from corral.engines import list_gallery_files
from corral.policy.catalog import (
    can_run_on,
    check_safe_name,
    choose_concrete,
    find_capability,
    find_newest,
    find_uri,
    make_alias_entry,
)
from corral.policy.status import is_schedulable
from corral.store import galleries as store
from corral.store.database import Database

_SUGGESTIONS = 3


@cache
def read_built_in() -> BackendIndex:
    """Return the gallery that comes with Corral. Its files are ours: an invalid one is a bug."""
    found = [parse_index(path.read_text(encoding="utf-8"), BUILT_IN_GALLERY) for path in list_gallery_files()]
    return BackendIndex(
        entries=tuple(entry for index in found for entry in index.entries),
        warnings=tuple(warning for index in found for warning in index.warnings),
    )


class BackendCatalog:
    """Holds every backend gallery in a frontend's memory, and chooses builds for a node's hardware."""

    def __init__(
        self,
        database: Database,
        galleries: Sequence[Gallery] = (),
        *,
        prefers_development: bool = False,
        built_in: BackendIndex | None = None,
    ) -> None:
        self._database = database
        self.prefers_development = prefers_development
        own = read_built_in() if built_in is None else built_in
        self._indexes = GalleryIndexCache(store.BACKENDS, galleries, own, read_index)
        self._entries: tuple[GalleryEntry, ...] = ()
        self._by_id: dict[str, GalleryEntry] = {}
        self._by_name: dict[str, GalleryEntry] = {}
        # The calls of backends in galleries that are not read yet, as of the last time that they were.
        self._kept_serves: dict[str, tuple[str, ...]] = {}
        self._rebuild_entries()

    @property
    def states(self) -> tuple[GalleryState, ...]:
        return self._indexes.states

    def list_unread(self) -> tuple[str, ...]:
        """Return the galleries that have neither been fetched yet nor failed to be."""
        return self._indexes.list_unread()

    def list_entries(self) -> tuple[GalleryEntry, ...]:
        """Return all entries, whatever hardware this frontend or any node has."""
        return self._entries

    async def load(self) -> None:
        """Read the stored copies of all galleries again."""
        await self._indexes.load(self._database)
        self._rebuild_entries()
        self._kept_serves = {}

    async def follow(self, events: Iterable[OutboxEvent]) -> None:
        if any(event.kind == "gallery.changed" for event in events):
            await self.load()

    def find(self, name: str) -> GalleryEntry:
        """Return the entry by name, by gallery@name, or by an alias that is no entry's name."""
        found = self.get(name)
        if found is None:
            raise self._make_unknown_error(name)
        return found

    def get(self, name: str) -> GalleryEntry | None:
        gallery, at, plain = name.strip().rpartition("@")
        key = check_safe_name(plain).lower()
        if at:
            return self._by_id.get(f"{gallery.lower()}@{key}")
        return self._by_name.get(key) or self._find_alias(key)

    def resolve(self, name: str, capability: str, *, version: str = "", ignores_capability: bool = False) -> Build:
        """Return the build that a node with this capability is to install."""
        entry = self.find(name)
        if entry.is_meta:
            concrete = self._find_concrete(entry, capability)
            return _make_build(concrete, self._find_version(concrete, version), meta=entry.name)
        chosen = self._find_version(entry, version)
        if not ignores_capability and not can_run_on(entry.name, _find_address(chosen), capability):
            meta = self.find_meta(entry.name)
            raise Unprocessable(
                f"{entry.name} does not run on a node of the kind {capability}.",
                code="no_build_for_node",
                hint=f"Install {meta}: each node gets the build that fits." if meta else "Choose another build.",
                details={"backend": entry.name, "capability": capability, "meta_alternative": meta},
            )
        return _make_build(entry, chosen, meta=self.find_meta(entry.name) or "")

    def find_manifest(self, name: str) -> Manifest | None:
        """Return the manifest of the first build: builds differ in their hardware, not in the calls that they
        answer."""
        entry = self.get(name)
        if entry is None:
            return None
        for word in ("default", *entry.capabilities):
            try:
                return self.resolve(name, word, ignores_capability=True).manifest
            except CorralError:
                continue
        return None

    def list_calls(self, name: str) -> tuple[str, ...]:
        """Return the calls that a backend answers; none, if no gallery lists it."""
        manifest = self.find_manifest(name)
        return manifest.serves if manifest is not None else self._kept_serves.get(name.lower(), ())

    def to_saved_state(self) -> dict[str, Any]:
        """Return what requests need of the galleries that are read from PostgreSQL."""
        others = [entry for entry in self._entries if entry.gallery != BUILT_IN_GALLERY]
        names = {name.lower() for entry in others for name in (entry.name, entry.alias) if name}
        return {"serves": {name: list(self.list_calls(name)) for name in sorted(names)}}

    def from_saved_state(self, kept: Mapping[str, Any]) -> None:
        self._kept_serves = {name: tuple(calls) for name, calls in kept["serves"].items()}

    def find_meta(self, concrete: str) -> str | None:
        """Return the meta that names this concrete for some hardware; else the alias that it shares with others;
        else None."""
        entry = self.get(concrete)
        if entry is None or entry.is_meta:
            return None
        own = [one for one in self._entries if one.is_meta and one.gallery == entry.gallery]
        for meta in own:
            if entry.name in meta.capabilities.values():
                return meta.name
        shared = self.get(f"{entry.gallery}@{entry.alias}") or self._find_alias(entry.alias.lower())
        # An alias that leads only to this entry is just another name for it.
        if shared is None or not shared.is_meta or set(shared.capabilities.values()) == {entry.name}:
            return None
        return shared.name

    def make_external_build(self, uri: str, name: str, alias: str, sha256: str) -> Build:
        """Return a build from outside every gallery."""
        try:
            source = parse_source_uri(uri, "uri", sha256=sha256.strip().lower())
        except InvalidRequest as error:
            raise InvalidRequest(error.message, code="bad_uri", hint=_URI_HINT) from error
        called = check_safe_name(name) or check_safe_name(derive_name(source))
        if source.kind is SourceKind.OCI and not name.strip():
            raise InvalidRequest("An image of a registry needs a name to be installed under.", code="name_required")
        if not called or called.startswith("."):
            raise InvalidRequest("A name is needed: the address does not contain one.", code="name_required")
        for text in filter(None, (called, check_safe_name(alias))):
            if self.get(text) is None and not is_valid_name(text):
                raise InvalidRequest(
                    "A name has letters, digits, dots, dashes and underscores, and at most 200 of them.",
                    code="bad_backend_name",
                )
            if self.get(text) is not None:
                raise Conflict(
                    f"{text} is the name of a backend in a gallery.",
                    code="name_in_gallery",
                    hint="Choose another name, or install it from the gallery.",
                )
        return Build(name=called, version="", source=source, manifest=Manifest(), alias=check_safe_name(alias))

    def _rebuild_entries(self) -> None:
        self._entries = tuple(entry for index in self._indexes.list_indexes() for entry in index.entries)
        self._by_id = {entry.id.lower(): entry for entry in self._entries}
        self._by_name = {entry.name.lower(): entry for entry in reversed(self._entries)}

    def _find_alias(self, name: str) -> GalleryEntry | None:
        sharing = [one for one in self._entries if name and one.versions and one.alias.lower() == name]
        stable = [one for one in sharing if not one.is_development] or sharing
        same = [one for one in stable if one.gallery == stable[0].gallery]
        return make_alias_entry(same[0].alias, same) if same else None

    def _find_concrete(self, meta: GalleryEntry, capability: str) -> GalleryEntry:
        name = choose_concrete(meta.capabilities, capability)
        concrete = self._find_sibling(meta, name) if name else None
        if concrete is None:
            detail = f" (it names {name}, which its gallery does not have)" if name else ""
            raise Unprocessable(
                f"{meta.name} has no build for a node of the kind {capability}{detail}.",
                code="no_build_for_node",
                hint="It has builds for: " + (", ".join(sorted(meta.capabilities)) or "nothing") + ".",
                details={"backend": meta.name, "capability": capability},
            )
        twin = self._find_sibling(meta, concrete.name + DEVELOPMENT_SUFFIX)
        return twin if self.prefers_development and twin is not None else concrete

    def _find_sibling(self, entry: GalleryEntry, name: str) -> GalleryEntry | None:
        """Return another concrete of the same gallery: identity never crosses galleries."""
        found = self._by_id.get(f"{entry.gallery}@{name}".lower())
        return found if found is not None and found.versions else None

    def _find_version(self, entry: GalleryEntry, version: str) -> BackendVersion:
        if not version:
            chosen = find_newest(entry)
            assert chosen is not None, "a concrete has at least one version"
            return chosen
        for candidate in entry.versions:
            if candidate.version == version:
                return candidate
        known = [one.version for one in entry.versions if one.version]
        raise Unprocessable(
            f"{entry.name} has no version {version}.",
            code="unknown_version",
            hint=f"There are: {', '.join(known[:20])}." if known else "Its gallery lists no versions.",
            details={"backend": entry.name, "versions": known[:100]},
        )

    def _make_unknown_error(self, name: str) -> NotFound:
        known = {entry.name.lower(): entry.name for entry in reversed(self._entries)}
        plain = name.strip().rpartition("@")[2].lower()
        near = [known[one] for one in get_close_matches(plain[:200], list(known), n=_SUGGESTIONS, cutoff=0.6)]
        return NotFound(
            f"There is no backend {name[:200]!r} in any gallery.",
            code="backend_not_found",
            hint=f"Did you mean {' or '.join(near)}?" if near else "`corral backends search` lists what there is.",
            details={"suggestions": near},
        )


_URI_HINT = "Write oci://registry/repository:tag, https://host/file.tar.gz, or the absolute path of a folder."


def _find_address(version: BackendVersion) -> str:
    return "" if version.source.kind is SourceKind.DIRECTORY else version.source.uri


def _make_build(entry: GalleryEntry, version: BackendVersion, *, meta: str) -> Build:
    return Build(
        name=entry.name,
        version=version.version,
        source=version.source,
        manifest=version.manifest,
        meta=meta,
        alias=entry.alias,
        gallery=entry.gallery,
    )


ITEMS_DEFAULT = 9
# Room for every entry of the largest public gallery, so that one page can hold all of it.
ITEMS_MAX = 2000
SORTS = ("name", "repository", "license", "status")

InstalledByNode = Mapping[NodeId, Sequence[InstalledBackend]]


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendListingQuery:
    """Search, filters, order and page of a listing of the backends that galleries offer."""

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
    """Pairs a node with a backend that is installed on it, for listings."""

    node: Node
    installed: InstalledBackend


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedBackend:
    """One backend of a gallery with its versions, the hardware that can run it and the nodes that have it."""

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
    """One page of the backends that galleries offer, with the totals and filter values for all of them."""

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
