"""The registry as decisions about room see it, read at one moment; and what a model asks of it.

Limit: what a node has free is what its last heartbeat said. What was loaded since then counts as still to be taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from corral.domain.backend import Build, InstalledBackend, Manifest
from corral.domain.errors import CorralError
from corral.domain.model import Model, Need
from corral.domain.node import Node, NodeId, NodeType
from corral.domain.replica import Replica, ReplicaState
from corral.loading.request import Wanted
from corral.operations.planning import Builds
from corral.operations.scope import plain_name
from corral.policy.catalog import capability_of, newest, uses_processor_only
from corral.policy.loading import Again
from corral.policy.models.estimate import Observed, estimate, observed_of
from corral.policy.placing.demand import Demand, Engine
from corral.policy.placing.fleet import Copy, Fleet, ModelView
from corral.policy.planning import matching
from corral.store import installed as installed_store
from corral.store import loads as load_store
from corral.store import nodes as node_store
from corral.store import replicas as replica_store
from corral.store import rules as rule_store
from corral.store import staged as staged_store
from corral.store.database import Transaction

# The pauses of a worker between two starts of an engine that dies are a minute at most.
RETURNING_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineChoice:
    """What a node would run: what it has, or the build that it gets first."""

    name: str
    version: str
    build: Build | None = None
    # It keeps models in RAM there, although the node may have a GPU.
    is_processor_build: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    now: datetime
    nodes: Mapping[NodeId, Node]
    replicas: Sequence[Replica]
    fleet: Fleet
    # Who can run the model's backend. A node that is not here cannot.
    engines: Mapping[NodeId, EngineChoice]
    # Why nobody can, if that is not a matter of nodes: a backend that nobody knows.
    problem: str
    # Which contents of the model are in the library.
    in_library: frozenset[str]
    staged: Sequence[staged_store.StagedFile]
    pulling: Sequence[staged_store.Pulling]
    observed: Observed | None
    selector: Mapping[str, str]
    # An engine has ended there since the last heartbeat: more is free than the node has said.
    settling: frozenset[NodeId] = frozenset()
    # Their workers may be starting a replica of the model anew.
    returning: frozenset[NodeId] = frozenset()


async def read_registry(tx: Transaction, model: Model, catalog: Builds) -> Registry:
    now = await load_store.database_now(tx)
    replicas = await replica_store.list_replicas(tx)
    nodes = _as_if_reported(await node_store.list_nodes(tx), replicas)
    installed = await installed_store.list_installed(tx)
    sha256s = {file.sha256 for file in model.files or ()}
    staged = await staged_store.list_files(tx, sha256s)
    rules = await rule_store.list_rules(tx)
    engines, problem = _engines(model, nodes, installed, catalog)
    fleet = Fleet.of(
        nodes,
        replicas,
        models=[
            ModelView(name=one.name, run_hash=one.run_hash, groups=frozenset(one.groups), is_pinned=one.is_pinned)
            for one in await load_store.list_neighbours(tx)
        ],
        rules=rules,
        copies=[Copy(item.node_id, item.sha256, item.size_bytes if item.is_whole else 0) for item in staged],
    )
    return Registry(
        now=now,
        nodes={node.id: node for node in nodes},
        replicas=replicas,
        fleet=fleet,
        engines=engines,
        problem=problem,
        in_library=frozenset(await staged_store.in_library(tx, sha256s)),
        staged=staged,
        pulling=await staged_store.list_pulling(tx, model.name),
        observed=observed_of(await load_store.find_observed(tx, model.name), model.run_hash),
        selector=next((rule.selector for rule in rules if rule.model == model.name), {}),
        settling=await replica_store.list_settling(tx),
        returning=await replica_store.list_returning(tx, model.name, RETURNING_S),
    )


def _as_if_reported(nodes: Sequence[Node], replicas: Sequence[Replica]) -> list[Node]:
    """With what was loaded since the last heartbeat set aside: the node has not said yet that it is gone."""
    here: dict[NodeId, list[Replica]] = {}
    for replica in replicas:
        here.setdefault(replica.node_id, []).append(replica)
    return [_less_newer(node, here[node.id]) if node.id in here else node for node in nodes]


def _less_newer(node: Node, rows: Sequence[Replica]) -> Node:
    """A heartbeat is written a moment after the machine was read, so a reading may be older than it looks: whatever it
    says, a node never has more left than its size less all that stands on it."""
    beat, hardware = node.last_heartbeat_at, node.hardware
    newer = [
        row
        for row in rows
        if row.state is ReplicaState.LOADED and row.loaded_at is not None and beat is not None and row.loaded_at > beat
    ]
    vram = node.reserved_vram + sum(row.vram_bytes or 0 for row in newer)
    ram = node.reserved_ram + sum(row.ram_bytes or 0 for row in newer)
    all_vram, all_ram = sum(row.vram_bytes or 0 for row in rows), sum(row.ram_bytes or 0 for row in rows)
    vram = _at_least(vram, hardware.available_vram, hardware.total_vram, all_vram)
    if hardware.unified_memory:
        # Both are taken of the one memory.
        ram = _at_least(ram + vram, hardware.available_ram, hardware.total_ram, all_ram + all_vram) - vram
    else:
        ram = _at_least(ram, hardware.available_ram, hardware.total_ram, all_ram)
    if (vram, ram) == (node.reserved_vram, node.reserved_ram):
        return node
    return replace(node, reserved_vram=vram, reserved_ram=ram)


def _at_least(reserved: int, available: int | None, total: int | None, taken: int) -> int:
    """So much set aside that no more is left than `total` less `taken`."""
    return reserved if available is None or not total else max(reserved, available - (total - taken))


def _engines(
    model: Model,
    nodes: Sequence[Node],
    installed: Mapping[NodeId, tuple[InstalledBackend, ...]],
    catalog: Builds,
) -> tuple[dict[NodeId, EngineChoice], str]:
    """What each node would run. Nodes of one kind get one build, so each kind is looked up once."""
    wanted = model.config.backend
    builds: dict[str, Build | CorralError] = {}
    found: dict[NodeId, EngineChoice] = {}
    problems: dict[str, None] = {}
    for node in nodes:
        if node.type is not NodeType.BACKEND:
            continue
        capability = capability_of(node.hardware)
        here = matching(installed.get(node.id, ()), plain_name(wanted))
        if here:
            name = here[0].name
            found[node.id] = EngineChoice(
                name=name,
                version=here[0].version,
                is_processor_build=uses_processor_only(name, _manifest(catalog, name), capability),
            )
            continue
        if capability not in builds:
            builds[capability] = _resolved(catalog, wanted, capability)
        build = builds[capability]
        if isinstance(build, Build):
            found[node.id] = EngineChoice(
                name=build.name,
                version=build.version,
                build=build,
                is_processor_build=uses_processor_only(build.name, build.manifest, capability),
            )
        else:
            problems[build.message] = None
    return found, "" if found else " ".join(problems)


def _resolved(catalog: Builds, backend: str, capability: str) -> Build | CorralError:
    try:
        return catalog.resolve(backend, capability)
    except CorralError as error:
        return error


def _manifest(catalog: Builds, name: str) -> Manifest | None:
    """Return how the galleries say that an installed backend runs; None if none of them knows the backend any more."""
    try:
        entry = catalog.find(name)
    except CorralError:
        return None
    version = newest(entry)
    return None if version is None else version.manifest


def demand_of(model: Model, wanted: Wanted, registry: Registry, again: Again, excluded: Mapping[NodeId, str]) -> Demand:
    """What to place, given what was asked for and what has failed so far."""
    config = model.config

    def need(node: Node) -> Need:
        engine = registry.engines.get(node.id)
        found = estimate(
            config,
            model.facts,
            model.payload_bytes,
            node,
            registry.observed,
            is_processor_build=engine is not None and engine.is_processor_build,
        )
        return grown(found, again.grow)

    return Demand(
        model=model.name,
        run_hash=model.run_hash,
        need=need,
        files=model.files,
        backend=config.backend,
        engines={
            node: Engine(item.build is None, None if item.build is None else item.build.source.size_bytes)
            for node, item in registry.engines.items()
        },
        selector=registry.selector,
        only=None if wanted.nodes is None else frozenset(NodeId(node) for node in wanted.nodes),
        excluded=excluded,
        count=wanted.count,
        groups=frozenset(config.groups),
        threads=config.threads,
        returning=registry.returning,
    )


def grown(need: Need, factor: float) -> Need:
    """So much more memory than was thought."""
    if factor == 1.0:
        return need
    return replace(
        need,
        vram_bytes=None if need.vram_bytes is None else int(need.vram_bytes * factor),
        ram_bytes=None if need.ram_bytes is None else int(need.ram_bytes * factor),
    )
