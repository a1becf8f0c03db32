"""From what was asked for to what each node is to have: the one plan behind admission, `plan` and the first step.

Named nodes: all of them, or an error that says which one cannot and why. A whole fleet: every node that can; the
others are skipped, each with its reason. Nothing here writes, and nothing is fetched: the catalog is memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from corral.domain.backend import Assignment, AssignmentState, Build, GalleryEntry, InstalledBackend
from corral.domain.errors import Conflict, CorralError, InvalidRequest, NotFound, Unprocessable
from corral.domain.node import Node, NodeId
from corral.domain.operation import OperationKind
from corral.operations.request import Asked
from corral.operations.scope import plain_name
from corral.policy.catalog import capability_of
from corral.policy.planning import (
    Planned,
    PlannedTarget,
    check_waves,
    desired_of,
    fetch_bytes,
    has_build,
    in_waves,
    matching,
    owed_under,
    refusal_of,
)
from corral.store import assignments as assignment_store
from corral.store import installed as installed_store
from corral.store import nodes as node_store
from corral.store.database import Transaction

__all__ = ["Builds", "Fleet", "Planned", "PlannedTarget", "plan", "plan_targets", "read_fleet"]

NAME_LENGTH_MAX = 255
NODES_MAX = 10_000


class Builds(Protocol):
    """The catalog as planning sees it."""

    def find(self, name: str) -> GalleryEntry: ...

    def resolve(self, name: str, capability: str, *, version: str = "", ignores_capability: bool = False) -> Build: ...

    def meta_for(self, concrete: str) -> str | None: ...

    def external(self, uri: str, name: str, alias: str, sha256: str) -> Build: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The registry at one moment: the nodes, what they have and what they are still to get."""

    nodes: Sequence[Node]
    installed: Mapping[NodeId, tuple[InstalledBackend, ...]] = field(default_factory=dict)
    owed: Mapping[NodeId, tuple[Assignment, ...]] = field(default_factory=dict)


async def read_fleet(tx: Transaction, asked: Asked) -> Fleet:
    """As much of it as the request can concern: a node that is named costs the same in any fleet."""
    if asked.nodes is None:
        return Fleet(
            nodes=await node_store.list_nodes(tx),
            installed=await installed_store.list_installed(tx),
            owed=await assignment_store.list_owed(tx),
        )
    nodes = await node_store.list_named(tx, asked.nodes)
    ids = [node.id for node in nodes]
    owed: dict[NodeId, tuple[Assignment, ...]] = {}
    for item in sorted(await assignment_store.list_of_nodes(tx, ids), key=lambda item: item.backend):
        if item.state is AssignmentState.OPEN:
            owed[item.node_id] = (*owed.get(item.node_id, ()), item)
    return Fleet(nodes=nodes, installed=await installed_store.list_installed(tx, only=ids), owed=owed)


async def plan(tx: Transaction, asked: Asked, catalog: Builds) -> Planned:
    """Read the registry and plan."""
    fleet = await read_fleet(tx, asked)
    return plan_targets(asked, fleet.nodes, fleet.installed, catalog, owed=fleet.owed)


def plan_targets(
    asked: Asked,
    nodes: Sequence[Node],
    installed: Mapping[NodeId, tuple[InstalledBackend, ...]],
    catalog: Builds,
    *,
    owed: Mapping[NodeId, tuple[Assignment, ...]] | None = None,
) -> Planned:
    check(asked)
    fleet = Fleet(nodes=nodes, installed=installed, owed=owed or {})
    for_node = _planner(asked, fleet, catalog)
    if asked.nodes is None:
        return _plan_fleet(asked, fleet, for_node)
    named = [_usable(node) for node in named_nodes(asked, nodes)]
    return Planned(targets=in_waves([for_node(node) for node in named], asked.strategy.waves))


def check(asked: Asked) -> None:
    """What can be said of a request without looking at anything."""
    name = asked.backend
    if not name.strip() or len(name) > NAME_LENGTH_MAX or not name.isprintable():
        raise InvalidRequest(
            f"A backend's name has 1 to {NAME_LENGTH_MAX} printable characters.", code="bad_backend_name"
        )
    if asked.nodes is not None and not 0 < len(asked.nodes) <= NODES_MAX:
        raise InvalidRequest(
            "The list of nodes is empty." if not asked.nodes else f"At most {NODES_MAX} nodes can be named.",
            hint="Leave the list out to mean every node that can have it.",
            code="no_nodes",
        )
    if asked.deadline_s is not None and asked.deadline_s <= 0:
        raise InvalidRequest("A deadline lies ahead.", hint="For example 1h.", code="bad_deadline")
    if asked.uri and asked.kind in (OperationKind.BACKEND_DELETE, OperationKind.BACKEND_ROLLBACK):
        raise InvalidRequest("This needs no address; it names what is installed.", code="bad_backend_name")
    if asked.version and asked.kind is OperationKind.BACKEND_ROLLBACK:
        raise InvalidRequest(
            "Rolling back goes to the version before and to no other.",
            hint=f"corral backends upgrade {asked.backend} --version {asked.version}",
            code="unknown_version",
        )
    check_waves(asked.strategy.waves)


def named_nodes(asked: Asked, nodes: Sequence[Node]) -> list[Node]:
    """The nodes of a request by id or name, each once. One that does not exist refuses the request."""
    by_id = {node.id: node for node in nodes}
    by_name = {node.name: node for node in nodes}
    found: dict[NodeId, Node] = {}
    for reference in asked.nodes or ():
        node = by_id.get(NodeId(reference.lower())) or by_name.get(reference)
        if node is None:
            raise NotFound(
                f"There is no node {reference[:80]!r}.",
                hint="`corral nodes list` shows the nodes.",
                code="node_not_found",
            )
        found[node.id] = node
    return list(found.values())


def _usable(node: Node) -> Node:
    refusal = refusal_of(node)
    if refusal is not None:
        raise refusal
    return node


def _plan_fleet(asked: Asked, fleet: Fleet, for_node: Callable[[Node], PlannedTarget]) -> Planned:
    targets: list[PlannedTarget] = []
    skipped: list[tuple[Node, str]] = []
    reasons: list[CorralError] = []
    for node in fleet.nodes:
        try:
            targets.append(for_node(_usable(node)))
        except (Conflict, NotFound, Unprocessable) as reason:
            skipped.append((node, reason.message))
            reasons.append(reason)
    if not targets:
        raise _nobody(asked, skipped, reasons)
    return Planned(targets=in_waves(targets, asked.strategy.waves), skipped=tuple(skipped))


def _nobody(asked: Asked, skipped: Sequence[tuple[Node, str]], reasons: Sequence[CorralError]) -> CorralError:
    """What to say when no node is left: the most telling of the reasons, or that there is none."""
    details = {"skipped": [{"node": node.name, "reason": reason} for node, reason in skipped[:100]]}
    for code in ("already_current", "nothing_to_roll_back", "unknown_version", "ambiguous_backend", "system_backend"):
        telling = next((reason for reason in reasons if reason.slug == code), None)
        if telling is not None:
            return telling
    if asked.kind is OperationKind.BACKEND_INSTALL:
        return Conflict(
            f"No node can have {asked.backend}." if skipped else "There are no nodes yet.",
            hint="The reasons are in the details; `corral nodes list` shows the nodes.",
            code="no_eligible_nodes",
            details=details,
        )
    return NotFound(
        f"No node has {asked.backend} installed.",
        hint=f"corral backends install {asked.backend}",
        code="backend_not_installed",
        details=details,
    )


def _planner(asked: Asked, fleet: Fleet, catalog: Builds) -> Callable[[Node], PlannedTarget]:
    match asked.kind:
        case OperationKind.BACKEND_INSTALL:
            return _installation(asked, fleet, catalog)
        case OperationKind.BACKEND_DELETE:
            return lambda node: _removal(asked, fleet, node)
        case OperationKind.BACKEND_ROLLBACK:
            return lambda node: _return(asked, fleet, node)
        case OperationKind.BACKEND_UPGRADE | OperationKind.BACKEND_REINSTALL:
            return lambda node: _replacement(asked, fleet, catalog, node)
    raise AssertionError(f"{asked.kind} plans no backend")


def _installation(asked: Asked, fleet: Fleet, catalog: Builds) -> Callable[[Node], PlannedTarget]:
    external = catalog.external(asked.uri, asked.backend, asked.alias, asked.sha256) if asked.uri else None
    if external is not None and asked.version:
        # Nobody but the admin knows what lies at the address.
        external = replace(external, version=asked.version)
    if external is None:
        _check_entry(asked, catalog)

    def for_node(node: Node) -> PlannedTarget:
        build = external or catalog.resolve(
            asked.backend,
            capability_of(node.hardware),
            version=asked.version,
            ignores_capability=asked.ignores_capability,
        )
        present = fleet.installed.get(node.id, ())
        if not asked.uri and not asked.version:
            build = _as_it_is_there(build, present, catalog)
        previous = next((_as_previous(item) for item in present if _is_in_the_way(item, asked, build)), None)
        return PlannedTarget(
            node=node,
            backend=build.name,
            desired=desired_of(asked.kind, previous),
            build=build,
            previous=previous,
            fetch_bytes=fetch_bytes(build, present),
            installed_version=next((item.version for item in present if item.name == build.name), None),
        )

    return for_node


def _as_it_is_there(build: Build, present: Iterable[InstalledBackend], catalog: Builds) -> Build:
    """In the version that the node has, if it has one and the gallery still knows it: nothing newer was asked for."""
    there = next((item for item in present if item.name == build.name and not item.is_system), None)
    if there is None or there.version in ("", build.version) or there.gallery not in ("", build.gallery):
        return build
    try:
        kept = catalog.resolve(f"{build.gallery}@{build.name}", "", version=there.version, ignores_capability=True)
    except (NotFound, Unprocessable):
        return build
    return replace(kept, meta=build.meta, alias=build.alias)


def _is_in_the_way(there: InstalledBackend, asked: Asked, build: Build) -> bool:
    """Whether something else than was named is there. Without a version or an address, having any of it is enough."""
    if there.name != build.name or there.is_system:
        return False
    if not asked.uri:
        return bool(asked.version) and there.version != build.version
    is_promised = bool(asked.sha256) and there.digest.removeprefix("sha256:") == asked.sha256.lower()
    return there.uri != build.source.uri and not is_promised


def _check_entry(asked: Asked, catalog: Builds) -> None:
    """A build for one kind of hardware is not for a whole fleet: its meta is, and picks for each node."""
    entry = catalog.find(asked.backend)
    meta = None if entry.is_meta else catalog.meta_for(entry.name)
    if asked.nodes is None and meta is not None:
        raise Conflict(
            f"{entry.name} is a build for particular hardware and needs nodes to go to.",
            hint=f"Install {meta}, which picks the right build for each node, or name the nodes.",
            code="concrete_backend_requires_target",
            details={"meta_alternative": meta},
        )


def _removal(asked: Asked, fleet: Fleet, node: Node) -> PlannedTarget:
    there = _the_installed(asked, fleet, node)
    if there is not None:
        return PlannedTarget(
            node=node, backend=there.name, desired=desired_of(asked.kind), previous=_as_previous(there), fetch_bytes=0
        )
    coming = owed_under(fleet.owed.get(node.id, ()), plain_name(asked.backend))
    if not coming:
        raise _not_installed(asked, node)
    return PlannedTarget(node=node, backend=coming[0].backend, desired=desired_of(asked.kind), fetch_bytes=0)


def _return(asked: Asked, fleet: Fleet, node: Node) -> PlannedTarget:
    """To what the node had before: its worker has kept it, so nothing is resolved or fetched."""
    there = _the_installed(asked, fleet, node)
    if there is None:
        raise _not_installed(asked, node)
    if not there.previous_version:
        raise Conflict(
            f"Node {node.name} has kept no earlier version of {there.name}.",
            hint=f"Name the version instead: corral backends upgrade {asked.backend} --version …",
            code="nothing_to_roll_back",
        )
    return PlannedTarget(
        node=node, backend=there.name, desired=desired_of(asked.kind), previous=_as_previous(there), fetch_bytes=0
    )


def _replacement(asked: Asked, fleet: Fleet, catalog: Builds, node: Node) -> PlannedTarget:
    there = _the_installed(asked, fleet, node)
    if there is None:
        raise _not_installed(asked, node)
    build = _replacing_build(asked, catalog, there)
    if asked.kind is OperationKind.BACKEND_UPGRADE and has_build(there, build):
        raise Conflict(
            f"Node {node.name} has {build.name} {build.version} already.",
            hint="To fetch it once more: corral backends reinstall.",
            code="already_current",
        )
    return PlannedTarget(
        node=node,
        backend=there.name,
        desired=desired_of(asked.kind),
        build=build,
        previous=_as_previous(there),
        fetch_bytes=build.source.size_bytes,
    )


def _replacing_build(asked: Asked, catalog: Builds, there: InstalledBackend) -> Build:
    """For exactly what is there, whatever the hardware says today: another build would be another backend."""
    uri = asked.uri or ("" if there.gallery else there.uri)
    if uri:
        build = catalog.external(uri, there.name, asked.alias or there.alias, asked.sha256)
    else:
        build = _gallery_build(asked, catalog, there)
    return replace(build, meta=build.meta or there.meta, alias=build.alias or there.alias)


def _gallery_build(asked: Asked, catalog: Builds, there: InstalledBackend) -> Build:
    name = f"{there.gallery}@{there.name}" if there.gallery else there.name
    is_reinstall = asked.kind is OperationKind.BACKEND_REINSTALL
    version = asked.version or (there.version if is_reinstall else "")
    try:
        return catalog.resolve(name, "", version=version, ignores_capability=True)
    except Unprocessable:
        if asked.version or not version:
            raise
    # The gallery no longer has the version that is there: a reinstallation takes the newest.
    return catalog.resolve(name, "", ignores_capability=True)


def _the_installed(asked: Asked, fleet: Fleet, node: Node) -> InstalledBackend | None:
    """What the node has under the name, if it is one thing and Corral's to change."""
    found = matching(fleet.installed.get(node.id, ()), plain_name(asked.backend))
    if len(found) > 1:
        names = ", ".join(item.name for item in found)
        raise Conflict(
            f"Node {node.name} has several of {asked.backend}: {names}.",
            hint="Name one of them.",
            code="ambiguous_backend",
        )
    if found and found[0].is_system:
        raise Conflict(
            f"{found[0].name} came with node {node.name}; Corral neither changes nor removes it.", code="system_backend"
        )
    return found[0] if found else None


def _not_installed(asked: Asked, node: Node) -> NotFound:
    knows = node.backends_at is not None
    return NotFound(
        f"Node {node.name} does not have {asked.backend}."
        if knows
        else f"Node {node.name} has not told yet which backends it has.",
        hint=f"corral backends install {asked.backend} --node {node.name}",
        code="backend_not_installed",
    )


def _as_previous(there: InstalledBackend) -> dict[str, str]:
    return {
        "name": there.name,
        "version": there.version,
        "digest": there.digest,
        "uri": there.uri,
        "gallery": there.gallery,
        "previous_version": there.previous_version,
    }
