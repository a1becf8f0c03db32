"""Chooses nodes for a load and writes the choice: one short transaction at a time in the whole cluster.

Guarantee: a written placement never promises more of a node than it has; two frontends that place at once run one
after the other, and the second sees what the first has reserved. Where other models make room, the room is reserved
at once, so that no other load takes it while they end.

The registry is read at one moment. Limit: a node's free memory is what its last heartbeat reported. What was loaded
since then counts as still to be taken.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from corral.domain.backend import Build, InstalledBackend, Manifest
from corral.domain.errors import Conflict, CorralError
from corral.domain.model import Model, Need
from corral.domain.node import Node, NodeId, NodeType
from corral.domain.operation import Fault, JobId, Operation
from corral.domain.replica import Replica, ReplicaState
from corral.domain.run import RunNeeds
from corral.loading.admission import ModelOperationSpec
from corral.operations.backend_plan import BuildCatalog
from corral.policy.catalog import find_capability, find_newest, uses_processor_only
from corral.policy.gallery import build_to_json
from corral.policy.loads import FileHolder, RetryPlan, pick_sources
from corral.policy.models.estimate import ObservedMemory, compute_load_budget_s, estimate_need, parse_observed
from corral.policy.operation_plan import match_installed, strip_gallery
from corral.policy.placing.eviction import EvictionDecision, EvictionOutcome, make_room
from corral.policy.placing.fleet import EngineAvailability, FileCopy, ModelTraits, PlacementDemand, PlacementFleet
from corral.policy.placing.placement import PlacementChoice, PlacementResult, place_replicas
from corral.policy.runs import compute_ram_need
from corral.ports.runtime import IdGenerator
from corral.store import assignments as assignment_store
from corral.store import holdings as staged_store
from corral.store import loads as load_store
from corral.store import nodes as node_store
from corral.store import operations as operation_store
from corral.store import replicas as replica_store
from corral.store import rules as rule_store
from corral.store import run_places as place_store
from corral.store.database import Transaction
from corral.store.loads import NewTarget, PendingReplica

NO_NODES = "no_eligible_nodes"
# The restart backoff of a worker for an engine that dies is a minute at most.
RETURNING_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacerOptions:
    """Tunables of placing models on nodes, read for each decision so that a change counts at once."""

    is_disk_enforced: Callable[[], bool] = lambda: True
    has_shared_models: bool = False
    # How long an evicted replica may finish its running requests.
    grace_s: float = replica_store.GRACE_S


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementDecision:
    """Says on which nodes a model's replicas are placed and which replicas make room, or why not."""

    placement: PlacementResult
    choices: tuple[PlacementChoice, ...] = ()
    eviction: EvictionDecision | None = None
    # True if room is being made, and nothing can be reserved yet.
    wait_message: str = ""
    fault: Fault | None = None

    @property
    def victims(self) -> tuple[Replica, ...]:
        return tuple(victim.replica for victim in self.eviction.victims) if self.eviction is not None else ()

    @property
    def waits_for(self) -> tuple[str, ...]:
        """Return the replicas that have to end before the engine starts."""
        if self.eviction is None:
            return ()
        return tuple(one.id for one in (*self.eviction.waits_for, *self.victims))

    def limit_to_one_per_node(self, excluded: Collection[NodeId] = ()) -> PlacementDecision:
        """Return the decision with at most one choice for each node, and none for the excluded ones."""
        by_node: dict[NodeId, PlacementChoice] = {}
        for choice in self.choices:
            if choice.node_id not in excluded:
                by_node.setdefault(choice.node_id, choice)
        return replace(self, choices=tuple(by_node.values()))

    @property
    def is_busy(self) -> bool:
        return self.fault is not None and self.fault.code == EvictionOutcome.BUSY


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementAttempt:
    """One attempt to place a model: the replicas that have no node yet, and the retry plan after failures."""

    spec: ModelOperationSpec
    retry: RetryPlan = field(default_factory=RetryPlan)


class Placer:
    """Chooses nodes for a model's replicas and writes the choice: replica rows, reservations and operation nodes."""

    def __init__(self, catalog: BuildCatalog, ids: IdGenerator, options: PlacerOptions) -> None:
        self._catalog = catalog
        self._ids = ids
        self._options = options

    async def read_snapshot(self, tx: Transaction, model: Model) -> PlacementSnapshot:
        return await read_placement_snapshot(tx, model, self._catalog)

    def decide(self, model: Model, attempt: PlacementAttempt, snapshot: PlacementSnapshot) -> PlacementDecision:
        """Choose nodes for the model. Nodes that failed for a passing reason are tried again only if no other is
        left."""
        decided = self._decide(model, attempt, snapshot, attempt.retry.avoid)
        retried = attempt.retry.retryable
        if decided.fault is not None and retried and decided.fault.code != EvictionOutcome.BUSY:
            second = self._decide(model, attempt, snapshot, attempt.retry.avoid - retried)
            if second.fault is None:
                return second
        return decided

    def _decide(
        self, model: Model, attempt: PlacementAttempt, snapshot: PlacementSnapshot, avoid: frozenset[NodeId]
    ) -> PlacementDecision:
        demand = self._make_demand(model, attempt, snapshot, avoid)
        placement = place_replicas(snapshot.fleet, demand)
        if placement.choices:
            return PlacementDecision(placement=placement, choices=placement.choices)
        if snapshot.problem:
            return PlacementDecision(placement=placement, fault=Fault(code="backend_unknown", text=snapshot.problem))
        if not placement.refusals:
            fault = Fault(code=NO_NODES, text=placement.sentence or "There are no nodes.")
            return PlacementDecision(placement=placement, fault=fault)
        room = make_room(snapshot.fleet, replace(demand, count=1), placement, snapshot.now, snapshot.settling)
        return _decide_after_eviction(placement, room)

    def _make_demand(
        self, model: Model, attempt: PlacementAttempt, snapshot: PlacementSnapshot, avoid: frozenset[NodeId]
    ) -> PlacementDemand:
        names = {key: node.name for key, node in snapshot.nodes.items()}
        excluded = {node: f"{names.get(node, node)} has failed to load it." for node in avoid}
        demand = make_demand(model, attempt.spec, snapshot, attempt.retry, excluded)
        return replace(
            demand,
            is_disk_enforced=self._options.is_disk_enforced(),
            has_shared_models=self._options.has_shared_models,
        )

    async def write_decision(
        self,
        tx: Transaction,
        operation: Operation,
        model: Model,
        decision: PlacementDecision,
        snapshot: PlacementSnapshot,
    ) -> None:
        """Write rows, reservations and targets, and mark the evicted replicas. The caller holds the placement lock."""
        sources = _pick_sources(model, decision.choices, snapshot)
        coming: list[PendingReplica] = []
        targets: list[NewTarget] = []
        for choice in decision.choices:
            replica = self._make_replica(operation, model, choice, snapshot)
            coming.append(
                PendingReplica(
                    replica=replica,
                    vram_bytes=choice.need.vram_bytes or 0,
                    ram_bytes=choice.need.ram_bytes or 0,
                    disk_bytes=0 if self._options.has_shared_models else choice.missing_bytes or 0,
                )
            )
            targets.append(self._make_target(choice, replica, model, decision, snapshot, sources[choice.node_id]))
        # The lock order is operations, targets, nodes (which these rows refer to), and replicas last.
        await load_store.put_targets(tx, operation.id, targets)
        held = [(choice.node_id, model.name) for choice in decision.choices]
        await staged_store.cancel_removals(tx, held)
        await staged_store.put_models(tx, [(node, name, model.run_hash) for node, name in held])
        await self._make_room(tx, decision, model)
        await load_store.insert_pending(tx, coming, [self._ids.new_id() for _ in coming])
        notes = [f"{choice.node} was chosen: {_describe_choice(choice)}" for choice in decision.choices]
        if decision.eviction is not None:
            notes.append(decision.eviction.sentence)
        notes += decision.placement.warnings
        await operation_store.add_notes(tx, [(operation.id, "info", "", words) for words in notes])

    async def _make_room(self, tx: Transaction, decision: PlacementDecision, model: Model) -> None:
        victims = [victim.id for victim in decision.victims]
        marked = await replica_store.mark_unloading(
            tx, victims, f"Evicted for {model.name}.", only_idle=True, grace_s=self._options.grace_s
        )
        if len(marked) != len(victims):
            raise Conflict("A model that was chosen to make room is in use now. Try again.", code="try_again")

    def _make_replica(
        self, operation: Operation, model: Model, choice: PlacementChoice, snapshot: PlacementSnapshot
    ) -> Replica:
        return Replica(
            id=self._ids.new_id(),
            node_id=choice.node_id,
            model=model.name,
            index=choice.index,
            state=ReplicaState.STAGING,
            revision=model.run_hash,
            backend=snapshot.engines[choice.node_id].name,
            operation_id=operation.id,
            vram_bytes=choice.need.vram_bytes,
            ram_bytes=choice.need.ram_bytes,
            threads=choice.threads,
        )

    def _make_target(
        self,
        choice: PlacementChoice,
        replica: Replica,
        model: Model,
        decision: PlacementDecision,
        snapshot: PlacementSnapshot,
        sources: tuple[NodeId, ...],
    ) -> NewTarget:
        engine = snapshot.engines[choice.node_id]
        load = {
            "replica": replica.id,
            "index": replica.index,
            "revision": replica.revision,
            "backend": engine.name,
            "build": None if engine.build is None else build_to_json(engine.build),
            "threads": choice.threads,
            "waits": list(decision.waits_for),
            "from": list(sources),
            "budget_s": compute_load_budget_s(model.engine_bytes, model.config.load_timeout_s),
        }
        return NewTarget(
            node=snapshot.nodes[choice.node_id],
            job_id=JobId(self._ids.new_id()),
            build={"name": engine.name, "version": engine.version, "load": load},
            total_bytes=model.engine_bytes or None,
        )


def _decide_after_eviction(placement: PlacementResult, room: EvictionDecision) -> PlacementDecision:
    if room.outcome in (EvictionOutcome.MAKE_ROOM, EvictionOutcome.WAIT):
        if room.choice is not None:
            return PlacementDecision(placement=placement, choices=(room.choice,), eviction=room)
        return PlacementDecision(placement=placement, eviction=room, wait_message=room.sentence)
    if room.outcome is EvictionOutcome.BUSY:
        return PlacementDecision(placement=placement, fault=Fault(code=EvictionOutcome.BUSY, text=room.sentence))
    fault = Fault(code=placement.code or EvictionOutcome.NONE, text=placement.sentence)
    return PlacementDecision(placement=placement, fault=fault)


def _pick_sources(
    model: Model, choices: Sequence[PlacementChoice], snapshot: PlacementSnapshot
) -> Mapping[NodeId, tuple[NodeId, ...]]:
    """Return for each chosen node the nodes that it takes the files from."""
    return pick_sources([choice.node_id for choice in choices], list_file_holders(model, snapshot))


def list_file_holders(model: Model, snapshot: PlacementSnapshot) -> list[FileHolder]:
    """Return reachable nodes that hold some of the model's files, or are being sent them now."""
    sha256s = {file.sha256 for file in model.engine_files or () if file.size_bytes}
    if not sha256s:
        return []
    whole: dict[NodeId, set[str]] = {}
    some = {item.node for item in snapshot.pulling if item.is_same}
    for item in snapshot.staged:
        some.add(item.node_id)
        if item.is_whole:
            whole.setdefault(item.node_id, set()).add(item.sha256)
    taken: dict[NodeId, int] = {}
    for pulling in snapshot.pulling:
        if pulling.source is not None:
            taken[pulling.source] = taken.get(pulling.source, 0) + 1
    rooms = snapshot.fleet.rooms
    return [
        FileHolder(node=node, is_whole=whole.get(node, set()) >= sha256s, pullers=taken.get(node, 0))
        for node in sorted(some)
        if node in rooms and rooms[node].is_candidate and snapshot.nodes[node].http_address
    ]


def _describe_choice(choice: PlacementChoice) -> str:
    return f"ready in about {choice.terms.ready_s:.0f} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineChoice:
    """Names the engine that a node would run for a model: the installed one, or the build that it installs first."""

    name: str
    version: str
    build: Build | None = None
    # True if the engine keeps models in RAM there, although the node may have a GPU.
    is_processor_build: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementSnapshot:
    """What PostgreSQL says about nodes, replicas and files, read at one moment for placing one model."""

    now: datetime
    nodes: Mapping[NodeId, Node]
    replicas: Sequence[Replica]
    fleet: PlacementFleet
    # The engine of each node that can run the model's backend. A node that is not listed cannot.
    engines: Mapping[NodeId, EngineChoice]
    # Why no node can run the model, if the reason lies outside the nodes, such as an unknown backend.
    problem: str
    # The contents of the model that are in the library.
    in_library: frozenset[str]
    staged: Sequence[staged_store.StagedFile]
    pulling: Sequence[staged_store.ActivePull]
    observed: ObservedMemory | None
    selector: Mapping[str, str]
    # An engine has ended there since the last heartbeat: more is free than the node has reported.
    settling: frozenset[NodeId] = frozenset()
    # Nodes whose workers may be restarting a replica of the model.
    returning: frozenset[NodeId] = frozenset()


async def read_placement_snapshot(tx: Transaction, model: Model, catalog: BuildCatalog) -> PlacementSnapshot:
    now = await load_store.read_database_now(tx)
    replicas = await replica_store.list_replicas(tx)
    programs = await place_store.list_active_needs(tx)
    nodes = _subtract_unreported(await node_store.list_nodes(tx), replicas, programs)
    installed = await assignment_store.list_installed(tx)
    sha256s = {file.sha256 for file in model.engine_files or ()}
    staged = await staged_store.list_files(tx, sha256s)
    rules = await rule_store.list_rules(tx)
    engines, problem = _find_engines(model, nodes, installed, catalog)
    fleet = PlacementFleet.build(
        nodes,
        replicas,
        models=[
            ModelTraits(name=one.name, run_hash=one.run_hash, groups=frozenset(one.groups), is_pinned=one.is_pinned)
            for one in await load_store.list_model_traits(tx)
        ],
        rules=rules,
        copies=[FileCopy(item.node_id, item.sha256, item.size_bytes if item.is_whole else 0) for item in staged],
    )
    return PlacementSnapshot(
        now=now,
        nodes={node.id: node for node in nodes},
        replicas=replicas,
        fleet=fleet,
        engines=engines,
        problem=problem,
        in_library=frozenset(await staged_store.filter_in_library(tx, sha256s)),
        staged=staged,
        pulling=await staged_store.list_active_pulls(tx, model.name),
        observed=parse_observed(await load_store.find_observed(tx, model.name), model.run_hash),
        selector=next((rule.selector for rule in rules if rule.model == model.name), {}),
        settling=await replica_store.list_settling(tx),
        returning=await replica_store.list_returning(tx, model.name, RETURNING_S),
    )


def _subtract_unreported(
    nodes: Sequence[Node], replicas: Sequence[Replica], programs: Mapping[NodeId, RunNeeds]
) -> list[Node]:
    """Return the nodes less the memory of replicas loaded since the last heartbeat, which does not include them yet,
    and less what the programs of runs may take that have not taken it yet."""
    by_node: dict[NodeId, list[Replica]] = {}
    for replica in replicas:
        by_node.setdefault(replica.node_id, []).append(replica)
    concerned = by_node.keys() | programs.keys()
    return [
        _subtract_newer_replicas(node, by_node.get(node.id, ()), programs.get(node.id, RunNeeds()))
        if node.id in concerned
        else node
        for node in nodes
    ]


def _subtract_newer_replicas(node: Node, rows: Sequence[Replica], program: RunNeeds) -> Node:
    """Return the node less its newer replicas. A heartbeat is written a moment after the machine was read, so a
    reading may be older than it looks: a node never has more left than its size less all replicas on it, and less the
    program of a run, which takes its memory bit by bit."""
    beat, hardware = node.last_heartbeat_at, node.hardware
    newer = [
        row
        for row in rows
        if row.state is ReplicaState.LOADED and row.loaded_at is not None and beat is not None and row.loaded_at > beat
    ]
    vram = node.reserved_vram + sum(row.vram_bytes or 0 for row in newer)
    ram = node.reserved_ram + sum(row.ram_bytes or 0 for row in newer)
    all_vram, all_ram = sum(row.vram_bytes or 0 for row in rows), sum(row.ram_bytes or 0 for row in rows)
    all_ram += compute_ram_need(node, program) or 0
    all_vram += (program.vram_bytes or 0) if hardware.total_vram and not hardware.unified_memory else 0
    vram = _compute_reserved(vram, hardware.available_vram, hardware.total_vram, all_vram)
    if hardware.unified_memory:
        # Both are taken from the unified memory.
        ram = _compute_reserved(ram + vram, hardware.available_ram, hardware.total_ram, all_ram + all_vram) - vram
    else:
        ram = _compute_reserved(ram, hardware.available_ram, hardware.total_ram, all_ram)
    if (vram, ram) == (node.reserved_vram, node.reserved_ram):
        return node
    return replace(node, reserved_vram=vram, reserved_ram=ram)


def _compute_reserved(reserved: int, available: int | None, total: int | None, taken: int) -> int:
    """Return how much to reserve so that no more is left than `total` less `taken`."""
    return reserved if available is None or not total else max(reserved, available - (total - taken))


def _find_engines(
    model: Model,
    nodes: Sequence[Node],
    installed: Mapping[NodeId, tuple[InstalledBackend, ...]],
    catalog: BuildCatalog,
) -> tuple[dict[NodeId, EngineChoice], str]:
    """Return the engine that each node would run. Nodes of one kind get one build, so each kind is looked up once."""
    backend = model.config.backend
    builds: dict[str, Build | CorralError] = {}
    found: dict[NodeId, EngineChoice] = {}
    problems: dict[str, None] = {}
    for node in nodes:
        if node.type is not NodeType.BACKEND:
            continue
        capability = find_capability(node.hardware)
        matching = match_installed(installed.get(node.id, ()), strip_gallery(backend))
        if matching:
            name = matching[0].name
            found[node.id] = EngineChoice(
                name=name,
                version=matching[0].version,
                is_processor_build=uses_processor_only(name, _find_manifest(catalog, name), capability),
            )
            continue
        if capability not in builds:
            builds[capability] = _resolve_build(catalog, backend, capability)
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


def _resolve_build(catalog: BuildCatalog, backend: str, capability: str) -> Build | CorralError:
    try:
        return catalog.resolve(backend, capability)
    except CorralError as error:
        return error


def _find_manifest(catalog: BuildCatalog, name: str) -> Manifest | None:
    """Return how the galleries say that an installed backend runs; None if none of them knows the backend any more."""
    try:
        entry = catalog.find(name)
    except CorralError:
        return None
    version = find_newest(entry)
    return None if version is None else version.manifest


def make_demand(
    model: Model,
    spec: ModelOperationSpec,
    snapshot: PlacementSnapshot,
    retry: RetryPlan,
    excluded: Mapping[NodeId, str],
) -> PlacementDemand:
    """Return the demand for a placement, from the spec and from the failures so far."""
    config = model.config

    def need(node: Node) -> Need:
        engine = snapshot.engines.get(node.id)
        found = estimate_need(
            config,
            model.engine_facts,
            model.engine_bytes,
            node,
            snapshot.observed,
            is_processor_build=engine is not None and engine.is_processor_build,
        )
        return scale_need(found, retry.memory_factor)

    return PlacementDemand(
        model=model.name,
        run_hash=model.run_hash,
        need=need,
        files=model.engine_files,
        backend=config.backend,
        engines={
            node: EngineAvailability(item.build is None, None if item.build is None else item.build.source.size_bytes)
            for node, item in snapshot.engines.items()
        },
        selector=snapshot.selector,
        only=None if spec.nodes is None else frozenset(NodeId(node) for node in spec.nodes),
        excluded=excluded,
        count=spec.count,
        groups=frozenset(config.groups),
        threads=config.threads,
        returning=snapshot.returning,
    )


def scale_need(need: Need, factor: float) -> Need:
    """Return the need with its memory multiplied by `factor`."""
    if factor == 1.0:
        return need
    return replace(
        need,
        vram_bytes=None if need.vram_bytes is None else int(need.vram_bytes * factor),
        ram_bytes=None if need.ram_bytes is None else int(need.ram_bytes * factor),
    )
