"""The request for a backend operation as a value, and its plan: the build that each node gets.

The request is stored whole with the operation, so that a retry repeats it.

scope    the family of kinds, the backend, the nodes: two active operations never share it, so installing and removing
         the same backend there are rivals
intent   every other option of the request: the same scope and the same intent is the same request

Admission, `plan` and the first step share the planning. A request that names nodes covers all of them, or raises an
error that says which node cannot and why; the first step skips those that were drained since. A request for the whole
fleet covers every node that can have the backend; the others are skipped, each with its reason. Planning writes nothing
and fetches nothing: the catalog is in memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from corral.domain.backend import Assignment, AssignmentState, Build, GalleryEntry, InstalledBackend
from corral.domain.errors import Conflict, CorralError, InvalidRequest, NotFound, Unprocessable
from corral.domain.node import Node, NodeId
from corral.domain.operation import OperationKind, RolloutStrategy
from corral.operations.admission import find_named_nodes
from corral.policy.catalog import find_capability
from corral.policy.operation_plan import (
    BackendOperationPlan,
    PlannedTarget,
    assign_waves,
    check_waves,
    compute_desired,
    estimate_fetch_bytes,
    find_refusal,
    has_build,
    match_assignments,
    match_installed,
    strip_gallery,
)
from corral.store import assignments as assignment_store
from corral.store import nodes as node_store
from corral.store.database import Transaction

__all__ = [
    "FLEET",
    "BackendOperationPlan",
    "BackendOperationSpec",
    "BuildCatalog",
    "FleetSnapshot",
    "PlannedTarget",
    "is_same_request",
    "make_scope_key",
    "plan",
    "plan_targets",
    "read_fleet",
]

NAME_LENGTH_MAX = 255
NODES_MAX = 10_000
FLEET = "fleet"
# More ids than fit here become a hash: the key stays short and still identifies exactly these nodes.
_IDS_LENGTH_MAX = 160
# The spelling of a request is no intent, and its destination is the scope.
_NOT_COMPARED = frozenset({"backend", "nodes"})


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendOperationSpec:
    """Specifies an operation that changes an engine backend: kind, backend, nodes, version and strategy.

    Stored whole with the operation.
    """

    kind: OperationKind
    # The backend as the user wrote it: a meta, a concrete, an alias, or gallery@name. With a `uri`, the name to install
    # it under.
    backend: str
    # Names or ids of nodes. None: every node that may have it; an empty tuple is refused, it never means "all".
    nodes: tuple[str, ...] | None = None
    version: str = ""
    # The address of a source outside every gallery.
    uri: str = ""
    alias: str = ""
    sha256: str = ""
    # Install the build although the node's hardware does not match it.
    ignores_capability: bool = False
    # How long the change may stay pending for an absent node; None: without limit.
    deadline_s: float | None = None
    strategy: RolloutStrategy = field(default_factory=RolloutStrategy)

    @property
    def subject(self) -> str:
        return self.backend

    def check(self) -> None:
        """Raise if the request is invalid by itself, without a look at the registry."""
        name = self.backend
        if not name.strip() or len(name) > NAME_LENGTH_MAX or not name.isprintable():
            raise InvalidRequest(
                f"A backend's name has 1 to {NAME_LENGTH_MAX} printable characters.", code="bad_backend_name"
            )
        if self.nodes is not None and not 0 < len(self.nodes) <= NODES_MAX:
            raise InvalidRequest(
                "The list of nodes is empty." if not self.nodes else f"At most {NODES_MAX} nodes can be named.",
                hint="Leave the list out for every node that can install it.",
                code="no_nodes",
            )
        if self.deadline_s is not None and self.deadline_s <= 0:
            raise InvalidRequest("The deadline must be in the future.", hint="For example 1h.", code="bad_deadline")
        if self.uri and self.kind in (OperationKind.BACKEND_DELETE, OperationKind.BACKEND_ROLLBACK):
            raise InvalidRequest(
                "This operation takes no address: it acts on an installed backend.", code="bad_backend_name"
            )
        if self.version and self.kind is OperationKind.BACKEND_ROLLBACK:
            raise InvalidRequest(
                "A rollback goes to the previous version and to no other.",
                hint=f"corral backends upgrade {self.backend} --version {self.version}",
                code="unknown_version",
            )
        check_waves(self.strategy.waves)

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": str(self.kind),
            "backend": self.backend,
            "nodes": None if self.nodes is None else list(self.nodes),
            "version": self.version,
            "uri": self.uri,
            "alias": self.alias,
            "sha256": self.sha256,
            "ignores_capability": self.ignores_capability,
            "deadline_s": self.deadline_s,
            "strategy": {
                "waves": list(self.strategy.waves),
                "stops_on_failure": self.strategy.stops_on_failure,
                "rolls_back": self.strategy.rolls_back,
            },
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> BackendOperationSpec:
        nodes, strategy = value.get("nodes"), value.get("strategy") or {}
        return cls(
            kind=OperationKind(value["kind"]),
            backend=value["backend"],
            nodes=None if nodes is None else tuple(nodes),
            version=value.get("version", ""),
            uri=value.get("uri", ""),
            alias=value.get("alias", ""),
            sha256=value.get("sha256", ""),
            ignores_capability=value.get("ignores_capability", False),
            deadline_s=value.get("deadline_s"),
            strategy=RolloutStrategy(
                waves=tuple(strategy.get("waves", ())),
                stops_on_failure=strategy.get("stops_on_failure", False),
                rolls_back=strategy.get("rolls_back", False),
            ),
        )


def make_scope_key(spec: BackendOperationSpec, node_ids: Collection[NodeId] | None) -> str:
    """Return the scope key of a request. `node_ids` None: the whole fleet. The name comes last, since it may hold any
    character."""
    return f"{spec.kind.pool}:{_format_nodes(node_ids)}:{strip_gallery(spec.backend).lower()}"


def _format_nodes(node_ids: Collection[NodeId] | None) -> str:
    if node_ids is None:
        return FLEET
    joined = ",".join(sorted(set(node_ids)))
    if len(joined) > _IDS_LENGTH_MAX:
        joined = hashlib.sha256(joined.encode()).hexdigest()
    return f"nodes={joined}"


def is_same_request(spec: BackendOperationSpec, stored_request: Mapping[str, Any]) -> bool:
    return _get_compared_fields(spec.to_json()) == _get_compared_fields(
        BackendOperationSpec.from_json(stored_request).to_json()
    )


def _get_compared_fields(request: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in request.items() if key not in _NOT_COMPARED}


class BuildCatalog(Protocol):
    """Interface that finds backends in galleries and chooses their builds for nodes, to plan a backend operation."""

    def find(self, name: str) -> GalleryEntry: ...

    def resolve(self, name: str, capability: str, *, version: str = "", ignores_capability: bool = False) -> Build: ...

    def find_meta(self, concrete: str) -> str | None: ...

    def make_external_build(self, uri: str, name: str, alias: str, sha256: str) -> Build: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSnapshot:
    """Nodes, their installed backends and pending changes, all read at one moment to plan a backend operation."""

    nodes: Sequence[Node]
    installed: Mapping[NodeId, tuple[InstalledBackend, ...]] = field(default_factory=dict)
    assignments: Mapping[NodeId, tuple[Assignment, ...]] = field(default_factory=dict)


async def read_fleet(tx: Transaction, spec: BackendOperationSpec) -> FleetSnapshot:
    """Read the part of the fleet that the request can concern: a named node costs the same in a fleet of any size."""
    if spec.nodes is None:
        return FleetSnapshot(
            nodes=await node_store.list_nodes(tx),
            installed=await assignment_store.list_installed(tx),
            assignments=await assignment_store.list_open(tx),
        )
    nodes = await node_store.list_by_reference(tx, spec.nodes)
    ids = [node.id for node in nodes]
    assignments: dict[NodeId, tuple[Assignment, ...]] = {}
    for item in sorted(await assignment_store.list_for_nodes(tx, ids), key=lambda item: item.backend):
        if item.state is AssignmentState.OPEN:
            assignments[item.node_id] = (*assignments.get(item.node_id, ()), item)
    return FleetSnapshot(
        nodes=nodes, installed=await assignment_store.list_installed(tx, only=ids), assignments=assignments
    )


async def plan(
    tx: Transaction, spec: BackendOperationSpec, catalog: BuildCatalog, *, skips_drained: bool = False
) -> BackendOperationPlan:
    """Read the registry and return the plan of the operation."""
    fleet = await read_fleet(tx, spec)
    return plan_targets(
        spec,
        fleet.nodes,
        fleet.installed,
        catalog,
        assignments=fleet.assignments,
        skips_drained=skips_drained,
    )


def plan_targets(
    spec: BackendOperationSpec,
    nodes: Sequence[Node],
    installed: Mapping[NodeId, tuple[InstalledBackend, ...]],
    catalog: BuildCatalog,
    *,
    assignments: Mapping[NodeId, tuple[Assignment, ...]] | None = None,
    skips_drained: bool = False,
) -> BackendOperationPlan:
    """Return the plan of the operation. `skips_drained`: a named node that is drained is a target that
    `assignments.assign` ends as skipped, instead of an error."""
    spec.check()
    fleet = FleetSnapshot(nodes=nodes, installed=installed, assignments=assignments or {})
    for_node = _make_planner(spec, fleet, catalog)
    if spec.nodes is None:
        return _plan_fleet(spec, fleet, for_node)
    named = find_named_nodes(spec.nodes, nodes)
    drained = [node for node in named if skips_drained and node.drained_at is not None]
    targets = [for_node(_check_usable(node)) for node in named if node not in drained]
    targets += [PlannedTarget(node=node, backend=spec.backend, desired=compute_desired(spec.kind)) for node in drained]
    return BackendOperationPlan(targets=assign_waves(targets, spec.strategy.waves))


def _check_usable(node: Node) -> Node:
    refusal = find_refusal(node)
    if refusal is not None:
        raise refusal
    return node


def _plan_fleet(
    spec: BackendOperationSpec, fleet: FleetSnapshot, for_node: Callable[[Node], PlannedTarget]
) -> BackendOperationPlan:
    targets: list[PlannedTarget] = []
    skipped: list[tuple[Node, str]] = []
    reasons: list[CorralError] = []
    for node in fleet.nodes:
        try:
            targets.append(for_node(_check_usable(node)))
        except (Conflict, NotFound, Unprocessable) as reason:
            skipped.append((node, reason.message))
            reasons.append(reason)
    if not targets:
        raise _make_no_target_error(spec, skipped, reasons)
    return BackendOperationPlan(targets=assign_waves(targets, spec.strategy.waves), skipped=tuple(skipped))


def _make_no_target_error(
    spec: BackendOperationSpec, skipped: Sequence[tuple[Node, str]], reasons: Sequence[CorralError]
) -> CorralError:
    """Return the error for a plan without targets: the most telling of the reasons, or that no node has the backend."""
    details = {"skipped": [{"node": node.name, "reason": reason} for node, reason in skipped[:100]]}
    for code in ("already_current", "nothing_to_roll_back", "unknown_version", "ambiguous_backend", "system_backend"):
        first_reason = next((reason for reason in reasons if reason.slug == code), None)
        if first_reason is not None:
            return first_reason
    if spec.kind is OperationKind.BACKEND_INSTALL:
        return Conflict(
            f"No node can install {spec.backend}." if skipped else "There are no nodes yet.",
            hint="The reasons are in the details; `corral nodes list` shows the nodes.",
            code="no_eligible_nodes",
            details=details,
        )
    return NotFound(
        f"No node has {spec.backend} installed.",
        hint=f"corral backends install {spec.backend}",
        code="backend_not_installed",
        details=details,
    )


def _make_planner(
    spec: BackendOperationSpec, fleet: FleetSnapshot, catalog: BuildCatalog
) -> Callable[[Node], PlannedTarget]:
    match spec.kind:
        case OperationKind.BACKEND_INSTALL:
            return _make_install_planner(spec, fleet, catalog)
        case OperationKind.BACKEND_DELETE:
            return lambda node: _plan_removal(spec, fleet, node)
        case OperationKind.BACKEND_ROLLBACK:
            return lambda node: _plan_rollback(spec, fleet, node)
        case OperationKind.BACKEND_UPGRADE | OperationKind.BACKEND_REINSTALL:
            return lambda node: _plan_replacement(spec, fleet, catalog, node)
    raise AssertionError(f"{spec.kind} plans no backend")


def _make_install_planner(
    spec: BackendOperationSpec, fleet: FleetSnapshot, catalog: BuildCatalog
) -> Callable[[Node], PlannedTarget]:
    external = catalog.make_external_build(spec.uri, spec.backend, spec.alias, spec.sha256) if spec.uri else None
    if external is not None and spec.version:
        # Only the admin knows what lies at the address, so hardware is not checked.
        external = replace(external, version=spec.version)
    if external is None:
        _check_entry(spec, catalog)

    def for_node(node: Node) -> PlannedTarget:
        build = external or catalog.resolve(
            spec.backend,
            find_capability(node.hardware),
            version=spec.version,
            ignores_capability=spec.ignores_capability,
        )
        present = fleet.installed.get(node.id, ())
        if not spec.uri and not spec.version:
            build = _keep_installed_version(build, present, catalog)
        previous = next((_to_previous(item) for item in present if _is_to_be_replaced(item, spec, build)), None)
        return PlannedTarget(
            node=node,
            backend=build.name,
            desired=compute_desired(spec.kind, previous),
            build=build,
            previous=previous,
            fetch_bytes=estimate_fetch_bytes(build, present),
            installed_version=next((item.version for item in present if item.name == build.name), None),
        )

    return for_node


def _keep_installed_version(build: Build, present: Iterable[InstalledBackend], catalog: BuildCatalog) -> Build:
    """Return the build in the version that the node has, if the gallery still lists it: no newer one was requested."""
    existing = next((item for item in present if item.name == build.name and not item.is_system), None)
    if existing is None or existing.version in ("", build.version) or existing.gallery not in ("", build.gallery):
        return build
    try:
        kept = catalog.resolve(f"{build.gallery}@{build.name}", "", version=existing.version, ignores_capability=True)
    except (NotFound, Unprocessable):
        return build
    return replace(kept, meta=build.meta, alias=build.alias)


def _is_to_be_replaced(existing: InstalledBackend, spec: BackendOperationSpec, build: Build) -> bool:
    """Return whether the installed backend differs from the request. Without a version or an address, any installed
    version will do."""
    if existing.name != build.name or existing.is_system:
        return False
    if not spec.uri:
        return bool(spec.version) and existing.version != build.version
    is_promised = bool(spec.sha256) and existing.digest.removeprefix("sha256:") == spec.sha256.lower()
    return existing.uri != build.source.uri and not is_promised


def _check_entry(spec: BackendOperationSpec, catalog: BuildCatalog) -> None:
    """Raise for a build of particular hardware that was requested for the whole fleet: its meta backend picks a build
    for each node."""
    entry = catalog.find(spec.backend)
    meta = None if entry.is_meta else catalog.find_meta(entry.name)
    if spec.nodes is None and meta is not None:
        raise Conflict(
            f"{entry.name} is a build for particular hardware and needs nodes to go to.",
            hint=f"Install {meta}, which picks the right build for each node, or name the nodes.",
            code="concrete_backend_requires_target",
            details={"meta_alternative": meta},
        )


def _plan_removal(spec: BackendOperationSpec, fleet: FleetSnapshot, node: Node) -> PlannedTarget:
    existing = _find_installed(spec, fleet, node)
    if existing is not None:
        return PlannedTarget(
            node=node,
            backend=existing.name,
            desired=compute_desired(spec.kind),
            previous=_to_previous(existing),
            fetch_bytes=0,
        )
    coming = match_assignments(fleet.assignments.get(node.id, ()), strip_gallery(spec.backend))
    if not coming:
        raise _make_not_installed_error(spec, node)
    return PlannedTarget(node=node, backend=coming[0].backend, desired=compute_desired(spec.kind), fetch_bytes=0)


def _plan_rollback(spec: BackendOperationSpec, fleet: FleetSnapshot, node: Node) -> PlannedTarget:
    """Plan a node's return to its previous version: its worker has kept it, so nothing is resolved or fetched."""
    existing = _find_installed(spec, fleet, node)
    if existing is None:
        raise _make_not_installed_error(spec, node)
    if not existing.previous_version:
        raise Conflict(
            f"Node {node.name} has kept no earlier version of {existing.name}.",
            hint=f"Name the version instead: corral backends upgrade {spec.backend} --version …",
            code="nothing_to_roll_back",
        )
    return PlannedTarget(
        node=node,
        backend=existing.name,
        desired=compute_desired(spec.kind),
        previous=_to_previous(existing),
        fetch_bytes=0,
    )


def _plan_replacement(
    spec: BackendOperationSpec, fleet: FleetSnapshot, catalog: BuildCatalog, node: Node
) -> PlannedTarget:
    existing = _find_installed(spec, fleet, node)
    if existing is None:
        raise _make_not_installed_error(spec, node)
    build = _find_replacement_build(spec, catalog, existing)
    if spec.kind is OperationKind.BACKEND_UPGRADE and has_build(existing, build):
        raise Conflict(
            f"Node {node.name} has {build.name} {build.version} already.",
            hint="To fetch it again: corral backends reinstall.",
            code="already_current",
        )
    return PlannedTarget(
        node=node,
        backend=existing.name,
        desired=compute_desired(spec.kind),
        build=build,
        previous=_to_previous(existing),
        fetch_bytes=build.source.size_bytes,
    )


def _find_replacement_build(spec: BackendOperationSpec, catalog: BuildCatalog, existing: InstalledBackend) -> Build:
    """Return the build that replaces exactly the installed one, whatever the hardware asks for today: another build
    would be another backend."""
    uri = spec.uri or ("" if existing.gallery else existing.uri)
    if uri:
        build = catalog.make_external_build(uri, existing.name, spec.alias or existing.alias, spec.sha256)
    else:
        build = _find_gallery_build(spec, catalog, existing)
    return replace(build, meta=build.meta or existing.meta, alias=build.alias or existing.alias)


def _find_gallery_build(spec: BackendOperationSpec, catalog: BuildCatalog, existing: InstalledBackend) -> Build:
    name = f"{existing.gallery}@{existing.name}" if existing.gallery else existing.name
    is_reinstall = spec.kind is OperationKind.BACKEND_REINSTALL
    version = spec.version or (existing.version if is_reinstall else "")
    try:
        return catalog.resolve(name, "", version=version, ignores_capability=True)
    except Unprocessable:
        if spec.version or not version:
            raise
    # The gallery no longer lists the installed version, so a reinstallation takes the newest one.
    return catalog.resolve(name, "", ignores_capability=True)


def _find_installed(spec: BackendOperationSpec, fleet: FleetSnapshot, node: Node) -> InstalledBackend | None:
    """Return the node's installed backend of this name; raises if several match or if Corral does not manage it."""
    found = match_installed(fleet.installed.get(node.id, ()), strip_gallery(spec.backend))
    if len(found) > 1:
        names = ", ".join(item.name for item in found)
        raise Conflict(
            f"Node {node.name} has several of {spec.backend}: {names}.",
            hint="Name one of them.",
            code="ambiguous_backend",
        )
    if found and found[0].is_system:
        raise Conflict(
            f"{found[0].name} came with node {node.name}; Corral neither changes nor removes it.", code="system_backend"
        )
    return found[0] if found else None


def _make_not_installed_error(spec: BackendOperationSpec, node: Node) -> NotFound:
    knows = node.backends_at is not None
    return NotFound(
        f"Node {node.name} does not have {spec.backend}."
        if knows
        else f"Node {node.name} has not reported its backends yet.",
        hint=f"corral backends install {spec.backend} --node {node.name}",
        code="backend_not_installed",
    )


def _to_previous(existing: InstalledBackend) -> dict[str, str]:
    return {
        "name": existing.name,
        "version": existing.version,
        "digest": existing.digest,
        "uri": existing.uri,
        "gallery": existing.gallery,
        "previous_version": existing.previous_version,
    }
