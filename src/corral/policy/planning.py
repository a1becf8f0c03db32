"""Which nodes an operation goes to, in which order, and how much each will fetch: decisions without a database.

A node that was named must be able to take it, or the request is refused. Of a whole fleet, those that cannot are left
out, each with the reason; none left is an error and never "all of them".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from corral.domain.backend import Assignment, Build, Desired, InstalledBackend, SourceKind
from corral.domain.errors import Conflict, InvalidRequest
from corral.domain.node import Node, NodeType
from corral.domain.operation import OperationKind
from corral.policy.status import is_schedulable

_T = TypeVar("_T")
WAVES_MAX = 100
_DIGEST_PREFIX = "sha256:"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTarget:
    """What one node is to have. A removal has no build."""

    node: Node
    # The concrete name.
    backend: str
    desired: Desired
    build: Build | None = None
    # What the node had before, as plain values.
    previous: Mapping[str, Any] | None = None
    wave: int = 0
    # None is unknown; 0: it has the files already.
    fetch_bytes: int | None = None
    # What the node has of this build now, whether or not the operation replaces it; for the plan only.
    installed_version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    targets: tuple[PlannedTarget, ...]
    # Nodes that get nothing, and why.
    skipped: tuple[tuple[Node, str], ...] = ()


def desired_of(kind: OperationKind, previous: Mapping[str, Any] | None = None) -> Desired:
    """What an operation wants of each node. `previous`: what an installation has to take the place of."""
    match kind:
        case OperationKind.BACKEND_INSTALL:
            return Desired.PRESENT if previous is None else Desired.REPLACED
        case OperationKind.BACKEND_UPGRADE | OperationKind.BACKEND_REINSTALL:
            return Desired.REPLACED
        case OperationKind.BACKEND_ROLLBACK:
            return Desired.ROLLED_BACK
        case OperationKind.BACKEND_DELETE:
            return Desired.ABSENT
    raise AssertionError(f"{kind} wants no backend of anybody")


def refusal_of(node: Node) -> Conflict | None:
    """Why this node gets no backend at all. Being away is no reason: an absent node owes it."""
    if node.type is NodeType.AGENT:
        return Conflict(
            f"Node {node.name} is an agent node and runs no backend.", hint="Name a backend node.", code="node_is_agent"
        )
    if node.approved_at is None:
        return Conflict(
            f"Node {node.name} waits for approval.", hint=f"corral nodes approve {node.name}", code="node_pending"
        )
    if node.drained_at is not None:
        return Conflict(
            f"Node {node.name} is drained.",
            hint=f"Take it back first: corral nodes resume {node.name}",
            code="node_draining",
        )
    return None


def check_waves(waves: Sequence[int]) -> None:
    if len(waves) > WAVES_MAX or any(size < 1 for size in waves):
        raise InvalidRequest(
            "Each wave has at least one node.",
            hint=f"For example 1,5: one node first, then five at a time; at most {WAVES_MAX} numbers.",
            code="bad_waves",
        )


def in_waves(targets: Iterable[PlannedTarget], waves: Sequence[int]) -> tuple[PlannedTarget, ...]:
    """Number the waves. Nodes that can be reached now come first: an absent one would hold up all behind it."""
    ordered = sorted(targets, key=lambda target: (not is_schedulable(target.node), target.node.name))
    if not waves:
        return tuple(ordered)
    check_waves(waves)
    numbered: list[PlannedTarget] = []
    wave = 0
    while len(numbered) < len(ordered):
        size = waves[min(wave, len(waves) - 1)]
        batch = ordered[len(numbered) : len(numbered) + size]
        numbered += [replace(target, wave=wave) for target in batch]
        wave += 1
    return tuple(numbered)


def has_build(installed: InstalledBackend, build: Build) -> bool:
    """Whether this very build is there already. Without a version nobody can say so, and the answer is no."""
    if installed.name != build.name or not build.version or installed.version != build.version:
        return False
    promised = _promised_digest(build)
    if build.source.kind is SourceKind.OCI and not promised:
        return False  # A tag may point to something newer under the same version.
    return not promised or not installed.digest or _bare(installed.digest) == promised


def fetch_bytes(build: Build, installed: Iterable[InstalledBackend]) -> int | None:
    return 0 if any(has_build(item, build) for item in installed) else build.source.size_bytes


def _promised_digest(build: Build) -> str:
    if build.source.kind is SourceKind.OCI:
        _, at, digest = build.source.uri.rpartition("@")
        return _bare(digest) if at and digest.startswith(_DIGEST_PREFIX) else ""
    return _bare(build.source.sha256)


def _bare(digest: str) -> str:
    return digest.lower().removeprefix(_DIGEST_PREFIX)


def matching(installed: Iterable[InstalledBackend], name: str) -> list[InstalledBackend]:
    """What a node has under a name. The exact name wins over a meta or an alias, which several may share."""
    return _exact_first([(item, item.name, (item.meta, item.alias)) for item in installed], name)


def owed_under(owed: Iterable[Assignment], name: str) -> list[Assignment]:
    """What a node is still to get under a name: an installation that has not happened yet can be taken back."""
    coming = [item for item in owed if item.desired in (Desired.PRESENT, Desired.REPLACED)]
    builds = [(item, item.build or {}) for item in coming]
    return _exact_first([(item, item.backend, (build.get("meta"), build.get("alias"))) for item, build in builds], name)


def _exact_first(named: Iterable[tuple[_T, str, tuple[str | None, ...]]], name: str) -> list[_T]:
    wanted = name.lower()
    exact: list[_T] = []
    others: list[_T] = []
    for item, own_name, other_names in named:
        if own_name.lower() == wanted:
            exact.append(item)
        elif wanted in [other.lower() for other in other_names if other]:
            others.append(item)
    return exact or others
