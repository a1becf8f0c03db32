"""The catalog: every gallery of this cluster in memory, the same on every frontend.

The built-in gallery comes with the program and needs no network. Configured ones are read from their copies in
PostgreSQL, which the leader keeps up to date (`refresh.py`); an unreadable index does not affect the others. A query
of the catalog waits for nothing. A plain name means the built-in gallery first and then the configured ones in their
order, so that a gallery which is added later never changes what a name stands for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
    Manifest,
    SourceKind,
)
from corral.domain.cluster import OutboxEvent
from corral.domain.errors import Conflict, CorralError, InvalidRequest, NotFound, Unprocessable
from corral.engines import list_gallery_files
from corral.policy.catalog import can_run_on, check_safe_name, choose_concrete, find_newest, make_alias_entry
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
    """Holds every backend gallery in memory, and resolves names to builds for a node's hardware."""

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

    def set_built_in(self, built_in: BackendIndex) -> None:
        """Replace the built-in gallery of the program."""
        self._indexes.built_in = built_in
        self._rebuild_entries()

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
