"""Decides which nodes an operation goes to, in which order, and how much each will fetch, without a database.

A named node must be able to take it, or the request is refused. Of a whole fleet, nodes that cannot are left out,
each with the reason; no node left is an error and never "all of them".

What a node reports satisfies an assignment:

installed with its generation, or a newer one     yes
removed with its generation, or a newer one       yes, if absence is the desired state
installed, with the desired version               only for `present`: having it is enough
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from corral.domain.backend import Assignment, Build, DesiredState, InstalledBackend, SourceKind
from corral.domain.errors import Conflict, InvalidRequest
from corral.domain.node import Node, NodeType
from corral.domain.operation import OperationKind
from corral.policy.status import is_schedulable

_T = TypeVar("_T")
WAVES_MAX = 100
_DIGEST_PREFIX = "sha256:"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTarget:
    """Plan of an engine backend operation for one node: backend, desired state, build and wave.

    A removal has no build.
    """

    node: Node
    # The concrete name.
    backend: str
    desired: DesiredState
    build: Build | None = None
    # The node's previous version, as plain values.
    previous: Mapping[str, Any] | None = None
    wave: int = 0
    # Bytes to fetch; None is unknown; 0: the node has the files already.
    fetch_bytes: int | None = None
    # The installed build on the node, whether or not the operation replaces it; for the plan only.
    installed_version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendOperationPlan:
    """Plan of an engine backend operation: its nodes with builds, and the nodes that were left out with reasons."""

    targets: tuple[PlannedTarget, ...]
    # Nodes that get nothing, and why.
    skipped: tuple[tuple[Node, str], ...] = ()


def compute_desired(kind: OperationKind, previous: Mapping[str, Any] | None = None) -> DesiredState:
    """Return the desired state of an operation on each node. `previous`: the backend that an installation replaces."""
    match kind:
        case OperationKind.BACKEND_INSTALL:
            return DesiredState.PRESENT if previous is None else DesiredState.REPLACED
        case OperationKind.BACKEND_UPGRADE | OperationKind.BACKEND_REINSTALL:
            return DesiredState.REPLACED
        case OperationKind.BACKEND_ROLLBACK:
            return DesiredState.ROLLED_BACK
        case OperationKind.BACKEND_DELETE:
            return DesiredState.ABSENT
    raise AssertionError(f"{kind} has no desired state")


def find_refusal(node: Node) -> Conflict | None:
    """Return why this node gets no backend at all. Absence is no reason: the change stays pending."""
    if node.type is NodeType.AGENT:
        return Conflict(
            f"Node {node.name} is an agent node and runs no backend.", hint="Name a backend node.", code="node_is_agent"
        )
    if node.approved_at is None:
        return Conflict(
            f"Node {node.name} is waiting for approval.", hint=f"corral nodes approve {node.name}", code="node_pending"
        )
    if node.drained_at is not None:
        return Conflict(
            f"Node {node.name} is drained.",
            hint=f"Resume it first: corral nodes resume {node.name}",
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


def assign_waves(targets: Iterable[PlannedTarget], waves: Sequence[int]) -> tuple[PlannedTarget, ...]:
    """Number the waves. Nodes that can be reached now come first: an absent one would block all behind it."""
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
    """Return whether this very build is installed. Without a version that is unknown, and the answer is no."""
    if installed.name != build.name or not build.version or installed.version != build.version:
        return False
    promised = _find_promised_digest(build)
    if build.source.kind is SourceKind.OCI and not promised:
        return False  # A tag may point to something newer under the same version.
    return not promised or not installed.digest or _strip_digest_prefix(installed.digest) == promised


def estimate_fetch_bytes(build: Build, installed: Iterable[InstalledBackend]) -> int | None:
    return 0 if any(has_build(item, build) for item in installed) else build.source.size_bytes


def _find_promised_digest(build: Build) -> str:
    if build.source.kind is SourceKind.OCI:
        _, at, digest = build.source.uri.rpartition("@")
        return _strip_digest_prefix(digest) if at and digest.startswith(_DIGEST_PREFIX) else ""
    return _strip_digest_prefix(build.source.sha256)


def _strip_digest_prefix(digest: str) -> str:
    return digest.lower().removeprefix(_DIGEST_PREFIX)


def strip_gallery(backend: str) -> str:
    """Return the name without its gallery: `gallery@name` and `name` are installed to the same place."""
    return backend.rpartition("@")[2] or backend


def match_installed(installed: Iterable[InstalledBackend], name: str) -> list[InstalledBackend]:
    """Return the installed backends under a name. The exact name wins over a meta or an alias, which several may
    share."""
    return _match_exact_first([(item, item.name, (item.meta, item.alias)) for item in installed], name)


def match_assignments(assignments: Iterable[Assignment], name: str) -> list[Assignment]:
    """Return the open assignments under a name: an installation that has not happened yet can be cancelled."""
    coming = [item for item in assignments if item.desired in (DesiredState.PRESENT, DesiredState.REPLACED)]
    builds = [(item, item.build or {}) for item in coming]
    return _match_exact_first(
        [(item, item.backend, (build.get("meta"), build.get("alias"))) for item, build in builds], name
    )


def _match_exact_first(named: Iterable[tuple[_T, str, tuple[str | None, ...]]], name: str) -> list[_T]:
    key = name.lower()
    exact: list[_T] = []
    others: list[_T] = []
    for item, own_name, other_names in named:
        if own_name.lower() == key:
            exact.append(item)
        elif key in [other.lower() for other in other_names if other]:
            others.append(item)
    return exact or others


def is_satisfied(assignment: Assignment, installed: Mapping[str, InstalledBackend], removed: Mapping[str, int]) -> bool:
    """Return whether an assignment is satisfied. `installed` by concrete name; `removed` has the generations of
    removals."""
    if assignment.desired is DesiredState.ABSENT:
        return assignment.backend not in installed and removed.get(assignment.backend, -1) >= assignment.generation
    existing = installed.get(assignment.backend)
    if existing is None:
        return False
    if existing.generation >= assignment.generation:
        return True
    return assignment.desired is DesiredState.PRESENT and _is_desired_version(assignment, existing)


def _is_desired_version(assignment: Assignment, existing: InstalledBackend) -> bool:
    desired = (assignment.build or {}).get("version") or ""
    return desired in ("", existing.version)
