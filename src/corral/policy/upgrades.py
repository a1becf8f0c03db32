"""Which installed backends have something newer, and where nodes have drifted apart.

    both have a version            newer in the gallery
    only the gallery has one       yes: what is installed is from before versions
    the gallery has none           the digest behind its tag is another one (only for images of a registry)
    nodes differ among themselves  yes, whatever the gallery says

What most nodes have counts as installed; the others are the drift. Left out: what came with a machine, rows that only
stand for another one (metas and aliases), what no gallery knows, and a stable build whose development twin is
installed: nobody is taken back from a development build by an upgrade. The whole catalog is asked, not what this
process or any one node could run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from corral.domain.backend import DEVELOPMENT_SUFFIX, GalleryEntry, InstalledBackend, SourceKind, Version
from corral.domain.node import NodeId
from corral.policy.catalog import newest
from corral.policy.versions import is_newer, version_key


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeHas:
    """One backend on one node."""

    node_id: NodeId
    node_name: str
    installed: InstalledBackend


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """A node that has something else than most."""

    node_id: NodeId
    node_name: str
    version: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUpgrade:
    """What an upgrade would change on one node. A version is empty where images are told apart by digests."""

    node_id: NodeId
    node_name: str
    from_version: str
    to_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeFound:
    """A backend with nodes that are behind the gallery, or that differ from each other. Empty texts are unknown."""

    backend: str
    installed_version: str
    available_version: str
    installed_digest: str = ""
    available_digest: str = ""
    node_drift: tuple[Drift, ...] = ()
    # Nodes that are behind the gallery, by name. A node that is ahead is not among them.
    nodes: tuple[NodeUpgrade, ...] = ()

    @property
    def summary(self) -> str:
        """Say in one or two sentences which version is the newest and which nodes have another one."""
        if self.nodes:
            newest_is = f"The newest version is {self.available_version}." if self.available_version else _NEW_IMAGE
            return f"{newest_is} {_told(self.nodes)}."
        drift = [
            NodeUpgrade(node_id=one.node_id, node_name=one.node_name, from_version=one.version, to_version="")
            for one in self.node_drift
        ]
        return f"Nodes differ. {_told(drift)}, the others {self.installed_version or 'another one'}."


_NEW_IMAGE = "There is a newer image."
_NAMES_TOLD = 3


def _told(nodes: Sequence[NodeUpgrade]) -> str:
    """Say which nodes have which version: `gpu-a and gpu-b have 1.0, gpu-c has 0.9`."""
    groups: dict[str, list[str]] = {}
    for one in nodes:
        groups.setdefault(one.from_version, []).append(one.node_name)
    told = []
    for version in sorted(groups, key=version_key, reverse=True):
        names = groups[version]
        rest = len(names) - _NAMES_TOLD
        shown = [*names[:_NAMES_TOLD], *([f"{rest} more"] if rest > 0 else [])]
        who = shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
        told.append(f"{who} {'has' if len(names) == 1 else 'have'} {version or 'an older one'}")
    return ", ".join(told)


def find_upgrades(
    rows: Iterable[NodeHas], entries: Sequence[GalleryEntry], digests: Mapping[str, str]
) -> tuple[UpgradeFound, ...]:
    """`digests`: what each tag points to now, by its uri. Sorted by name."""
    known = _Known(entries)
    groups: dict[str, list[NodeHas]] = {}
    names: set[str] = set()
    for row in rows:
        names.add(row.installed.name)
        if not row.installed.is_system:
            groups.setdefault(row.installed.name, []).append(row)
    found = []
    for name, group in sorted(groups.items()):
        entry = known.concrete(group)
        if entry is None or f"{name}{DEVELOPMENT_SUFFIX}" in names:
            continue
        upgrade = _of_one(name, group, entry, digests)
        if upgrade is not None:
            found.append(upgrade)
    return tuple(found)


def tags_in_use(rows: Iterable[NodeHas], entries: Sequence[GalleryEntry]) -> tuple[str, ...]:
    """The references whose digests are worth asking for: those of installed backends, and only tags, which move."""
    known = _Known(entries)
    uris: set[str] = set()
    for row in rows:
        entry = None if row.installed.is_system else known.concrete([row])
        version = newest(entry) if entry is not None else None
        if version is not None and version.source.kind is SourceKind.OCI and "@sha256:" not in version.source.uri:
            uris.add(version.source.uri)
    return tuple(sorted(uris))


class _Known:
    """Entries by gallery and name, and by name alone for rows of workers that did not say where they have it from."""

    def __init__(self, entries: Sequence[GalleryEntry]) -> None:
        self._by_id = {entry.id: entry for entry in entries}
        self._by_name = {entry.name: entry for entry in reversed(entries)}

    def concrete(self, rows: Sequence[NodeHas]) -> GalleryEntry | None:
        """The entry that most of the rows came from; None for a meta, an alias and what no gallery has."""
        (gallery, name), _ = Counter((row.installed.gallery, row.installed.name) for row in rows).most_common(1)[0]
        entry = self._by_id.get(f"{gallery}@{name}") if gallery else self._by_name.get(name)
        return entry if entry is not None and entry.versions else None


def _of_one(name: str, rows: Sequence[NodeHas], entry: GalleryEntry, digests: Mapping[str, str]) -> UpgradeFound | None:
    available = newest(entry)
    assert available is not None, "a concrete has at least one version"
    is_image = available.source.kind is SourceKind.OCI
    version, digest = _majority(rows, is_image=is_image)
    drift = tuple(_drift(row) for row in _by_name(rows) if _identity(row, is_image=is_image) != (version, digest))
    now = _digest_of(available, digests)
    behind = [row for row in _by_name(rows) if _is_upgrade(available, _has(row), now)]
    if not drift and not behind:
        return None
    return UpgradeFound(
        backend=name,
        installed_version=version,
        available_version=available.version,
        installed_digest=digest or next(iter(_digests(rows, version)), ""),
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


def _is_upgrade(available: Version, installed: tuple[str, str], digest_now: str) -> bool:
    version, digest = installed
    if available.version:
        # No version at all is older than any.
        return is_newer(available.version, version)
    return bool(digest_now) and digest_now != digest


def _has(row: NodeHas) -> tuple[str, str]:
    return row.installed.version, row.installed.digest


def _identity(row: NodeHas, *, is_image: bool) -> tuple[str, str]:
    """What makes two nodes the same. Packages for other processors have other digests; an image's tag has one."""
    return (row.installed.version, row.installed.digest if is_image else "")


def _majority(rows: Sequence[NodeHas], *, is_image: bool) -> tuple[str, str]:
    counts = Counter(_identity(row, is_image=is_image) for row in rows)
    return max(counts, key=lambda one: (counts[one], version_key(one[0]), one[1]))


def _digest_of(available: Version, digests: Mapping[str, str]) -> str:
    if available.source.kind is not SourceKind.OCI:
        return ""
    _, pinned, digest = available.source.uri.partition("@sha256:")
    return f"sha256:{digest}" if pinned else digests.get(available.source.uri, "")


def _digests(rows: Sequence[NodeHas], version: str) -> list[str]:
    return [row.installed.digest for row in rows if row.installed.version == version and row.installed.digest]


def _by_name(rows: Sequence[NodeHas]) -> list[NodeHas]:
    return sorted(rows, key=lambda row: (row.node_name, row.node_id))


def _drift(row: NodeHas) -> Drift:
    return Drift(
        node_id=row.node_id, node_name=row.node_name, version=row.installed.version, digest=row.installed.digest
    )
