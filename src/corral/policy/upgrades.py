"""Finds installed backends with something newer, and nodes that have drifted apart.

    both have a version            newer in the gallery
    only the gallery has one       yes: the installed one is from before versions
    the gallery has none           the digest behind its tag is another one (only for images of a registry)
    nodes differ among themselves  yes, whatever the gallery says

The version that most nodes have counts as installed; the others are the drift. Left out: backends that came with a
machine, rows that only stand for another one (metas and aliases), backends that no gallery lists, and a stable build
whose development twin is installed: an upgrade never leads back from a development build. The whole catalog counts,
not what this process or any one node could run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from corral.domain.backend import DEVELOPMENT_SUFFIX, BackendVersion, GalleryEntry, InstalledBackend, SourceKind
from corral.domain.node import NodeId
from corral.policy.catalog import find_newest, is_newer, make_version_key


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeBackend:
    """Pairs a node with one backend that is installed on it, to find upgrades."""

    node_id: NodeId
    node_name: str
    installed: InstalledBackend


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDrift:
    """Describes a node that has another version or digest of an engine backend than most nodes."""

    node_id: NodeId
    node_name: str
    version: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUpgrade:
    """Says from which to which version a backend upgrade would bring one node."""

    node_id: NodeId
    node_name: str
    from_version: str
    to_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendUpgrade:
    """Describes a backend with nodes that are behind the gallery or differ from each other.

    Empty texts are unknown.
    """

    backend: str
    installed_version: str
    available_version: str
    installed_digest: str = ""
    available_digest: str = ""
    node_drift: tuple[NodeDrift, ...] = ()
    # Nodes that are behind the gallery, by name. A node that is ahead is not among them.
    nodes: tuple[NodeUpgrade, ...] = ()

    @property
    def summary(self) -> str:
        """Say in one or two sentences which version is the newest and which nodes have another one."""
        if self.nodes:
            newest_is = f"The newest version is {self.available_version}." if self.available_version else _NEW_IMAGE
            return f"{newest_is} {_describe_nodes(self.nodes)}."
        drift = [
            NodeUpgrade(node_id=one.node_id, node_name=one.node_name, from_version=one.version, to_version="")
            for one in self.node_drift
        ]
        return f"Nodes differ. {_describe_nodes(drift)}, the others {self.installed_version or 'another one'}."


_NEW_IMAGE = "There is a newer image."
_NAMES_SHOWN = 3


def _describe_nodes(nodes: Sequence[NodeUpgrade]) -> str:
    """Say which nodes have which version: `gpu-a and gpu-b have 1.0, gpu-c has 0.9`."""
    groups: dict[str, list[str]] = {}
    for one in nodes:
        groups.setdefault(one.from_version, []).append(one.node_name)
    phrases = []
    for version in sorted(groups, key=make_version_key, reverse=True):
        names = groups[version]
        rest = len(names) - _NAMES_SHOWN
        shown = [*names[:_NAMES_SHOWN], *([f"{rest} more"] if rest > 0 else [])]
        joined_names = shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
        phrases.append(f"{joined_names} {'has' if len(names) == 1 else 'have'} {version or 'an older one'}")
    return ", ".join(phrases)


def find_upgrades(
    rows: Iterable[NodeBackend], entries: Sequence[GalleryEntry], digests: Mapping[str, str]
) -> tuple[BackendUpgrade, ...]:
    """Find the upgrades, sorted by name. `digests`: what each tag points to now, by its uri."""
    known = _EntryIndex(entries)
    groups: dict[str, list[NodeBackend]] = {}
    names: set[str] = set()
    for row in rows:
        names.add(row.installed.name)
        if not row.installed.is_system:
            groups.setdefault(row.installed.name, []).append(row)
    found = []
    for name, group in sorted(groups.items()):
        entry = known.find_concrete(group)
        if entry is None or f"{name}{DEVELOPMENT_SUFFIX}" in names:
            continue
        upgrade = _find_upgrade(name, group, entry, digests)
        if upgrade is not None:
            found.append(upgrade)
    return tuple(found)


def list_tags_in_use(rows: Iterable[NodeBackend], entries: Sequence[GalleryEntry]) -> tuple[str, ...]:
    """Return the references whose digests are worth a query: those of installed backends, and only tags, which move."""
    known = _EntryIndex(entries)
    uris: set[str] = set()
    for row in rows:
        entry = None if row.installed.is_system else known.find_concrete([row])
        version = find_newest(entry) if entry is not None else None
        if version is not None and version.source.kind is SourceKind.OCI and "@sha256:" not in version.source.uri:
            uris.add(version.source.uri)
    return tuple(sorted(uris))


class _EntryIndex:
    """Finds gallery entries by gallery and name, or by name alone."""

    def __init__(self, entries: Sequence[GalleryEntry]) -> None:
        self._by_id = {entry.id: entry for entry in entries}
        self._by_name = {entry.name: entry for entry in reversed(entries)}

    def find_concrete(self, rows: Sequence[NodeBackend]) -> GalleryEntry | None:
        """Return the entry that most of the rows came from; None for a meta, an alias and an unlisted backend."""
        (gallery, name), _ = Counter((row.installed.gallery, row.installed.name) for row in rows).most_common(1)[0]
        entry = self._by_id.get(f"{gallery}@{name}") if gallery else self._by_name.get(name)
        return entry if entry is not None and entry.versions else None


def _find_upgrade(
    name: str, rows: Sequence[NodeBackend], entry: GalleryEntry, digests: Mapping[str, str]
) -> BackendUpgrade | None:
    available = find_newest(entry)
    assert available is not None, "a concrete has at least one version"
    is_image = available.source.kind is SourceKind.OCI
    version, digest = _find_majority(rows, is_image=is_image)
    drift = tuple(
        _make_drift(row) for row in _sort_by_name(rows) if _get_identity(row, is_image=is_image) != (version, digest)
    )
    now = _find_digest(available, digests)
    behind = [row for row in _sort_by_name(rows) if _is_upgrade(available, _get_installed(row), now)]
    if not drift and not behind:
        return None
    return BackendUpgrade(
        backend=name,
        installed_version=version,
        available_version=available.version,
        installed_digest=digest or next(iter(_list_digests(rows, version)), ""),
        available_digest=now,
        node_drift=drift,
        nodes=tuple(
            NodeUpgrade(
                node_id=row.node_id,
                node_name=row.node_name,
                from_version=row.installed.version,
                to_version=available.version,
            )
            for row in behind
        ),
    )


def _is_upgrade(available: BackendVersion, installed: tuple[str, str], digest_now: str) -> bool:
    version, digest = installed
    if available.version:
        # No version at all is older than any.
        return is_newer(available.version, version)
    return bool(digest_now) and digest_now != digest


def _get_installed(row: NodeBackend) -> tuple[str, str]:
    return row.installed.version, row.installed.digest


def _get_identity(row: NodeBackend, *, is_image: bool) -> tuple[str, str]:
    """Return what makes two nodes equal. Packages for other CPUs have other digests; an image's tag has one."""
    return (row.installed.version, row.installed.digest if is_image else "")


def _find_majority(rows: Sequence[NodeBackend], *, is_image: bool) -> tuple[str, str]:
    counts = Counter(_get_identity(row, is_image=is_image) for row in rows)
    return max(counts, key=lambda one: (counts[one], make_version_key(one[0]), one[1]))


def _find_digest(available: BackendVersion, digests: Mapping[str, str]) -> str:
    if available.source.kind is not SourceKind.OCI:
        return ""
    _, pinned, digest = available.source.uri.partition("@sha256:")
    return f"sha256:{digest}" if pinned else digests.get(available.source.uri, "")


def _list_digests(rows: Sequence[NodeBackend], version: str) -> list[str]:
    return [row.installed.digest for row in rows if row.installed.version == version and row.installed.digest]


def _sort_by_name(rows: Sequence[NodeBackend]) -> list[NodeBackend]:
    return sorted(rows, key=lambda row: (row.node_name, row.node_id))


def _make_drift(row: NodeBackend) -> NodeDrift:
    return NodeDrift(
        node_id=row.node_id, node_name=row.node_name, version=row.installed.version, digest=row.installed.digest
    )
