"""Choosing nodes for a load and writing the choice down: one short transaction, one after the other in the cluster.

Guarantee: what is written never promises more of a node than it has; two frontends that place at once come one after
the other, and the second sees what the first has reserved. Where other models make room, the place is reserved at once,
so that nobody else takes it while they end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from corral.domain.errors import Conflict
from corral.domain.model import Model
from corral.domain.node import NodeId
from corral.domain.operation import Fault, JobId, Operation
from corral.domain.replica import Replica, ReplicaState
from corral.loading.fleet import Registry, demand_of, read_registry
from corral.loading.request import Wanted
from corral.operations.planning import Builds
from corral.policy.gallery import build_to_json
from corral.policy.loading import Again, Holder, sources_of
from corral.policy.models.estimate import load_budget_s
from corral.policy.placing.demand import Demand
from corral.policy.placing.eviction import Eviction, Outcome, make_room
from corral.policy.placing.placement import Choice, Placement, place
from corral.ports.runtime import Ids
from corral.store import loads as load_store
from corral.store import operations as operation_store
from corral.store import replicas as replica_store
from corral.store import staged as staged_store
from corral.store.database import Transaction
from corral.store.loads import Coming, NewTarget

NO_NODES = "no_eligible_nodes"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceOptions:
    """Read for each decision: what an operator switches counts at once."""

    is_disk_enforced: Callable[[], bool] = lambda: True
    has_shared_models: bool = False
    # How long a replica that has to go may finish what it is answering.
    grace_s: float = replica_store.GRACE_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """What would be done. No choices: why, or what is waited for."""

    placement: Placement
    choices: tuple[Choice, ...] = ()
    eviction: Eviction | None = None
    # Room is coming, and nothing can be reserved yet.
    waits: str = ""
    fault: Fault | None = None

    @property
    def victims(self) -> tuple[Replica, ...]:
        return tuple(victim.replica for victim in self.eviction.victims) if self.eviction is not None else ()

    @property
    def waits_for(self) -> tuple[str, ...]:
        """Replicas that have to be gone before the engine starts."""
        if self.eviction is None:
            return ()
        return tuple(one.id for one in (*self.eviction.waits_for, *self.victims))

    def one_each(self, without: Collection[NodeId] = ()) -> Decided:
        """At most one choice for a node, and none for these."""
        by_node: dict[NodeId, Choice] = {}
        for choice in self.choices:
            if choice.node_id not in without:
                by_node.setdefault(choice.node_id, choice)
        return replace(self, choices=tuple(by_node.values()))

    @property
    def is_busy(self) -> bool:
        return self.fault is not None and self.fault.code == Outcome.BUSY


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What is asked for now: the wish, less what has been done, and what has failed so far."""

    wanted: Wanted
    again: Again = field(default_factory=Again)


class Placer:
    def __init__(self, catalog: Builds, ids: Ids, options: PlaceOptions) -> None:
        self._catalog = catalog
        self._ids = ids
        self._options = options

    async def look(self, tx: Transaction, model: Model) -> Registry:
        return await read_registry(tx, model, self._catalog)

    def decide(self, model: Model, attempt: Attempt, registry: Registry) -> Decided:
        """Nodes that failed for a passing reason are tried again only if nobody else is left."""
        decided = self._decide(model, attempt, registry, attempt.again.avoid)
        retried = attempt.again.may_again
        if decided.fault is not None and retried and decided.fault.code != Outcome.BUSY:
            second = self._decide(model, attempt, registry, attempt.again.avoid - retried)
            if second.fault is None:
                return second
        return decided

    def _decide(self, model: Model, attempt: Attempt, registry: Registry, avoid: frozenset[NodeId]) -> Decided:
        demand = self._demand(model, attempt, registry, avoid)
        placement = place(registry.fleet, demand)
        if placement.choices:
            return Decided(placement=placement, choices=placement.choices)
        if registry.problem:
            return Decided(placement=placement, fault=Fault(code="backend_unknown", text=registry.problem))
        if not placement.refusals:
            fault = Fault(code=NO_NODES, text=placement.sentence or "There is no node.")
            return Decided(placement=placement, fault=fault)
        room = make_room(registry.fleet, replace(demand, count=1), placement, registry.now, registry.settling)
        return _with_others_gone(placement, room)

    def _demand(self, model: Model, attempt: Attempt, registry: Registry, avoid: frozenset[NodeId]) -> Demand:
        names = {key: node.name for key, node in registry.nodes.items()}
        excluded = {node: f"{names.get(node, node)} has failed to load it." for node in avoid}
        demand = demand_of(model, attempt.wanted, registry, attempt.again, excluded)
        return replace(
            demand,
            is_disk_enforced=self._options.is_disk_enforced(),
            has_shared_models=self._options.has_shared_models,
        )

    async def write(
        self, tx: Transaction, operation: Operation, model: Model, decided: Decided, registry: Registry
    ) -> None:
        """Rows, reservations and targets; victims are marked. The caller holds the lock of placing."""
        sources = _sources(model, decided.choices, registry)
        coming: list[Coming] = []
        targets: list[NewTarget] = []
        for choice in decided.choices:
            replica = self._replica(operation, model, choice, registry)
            coming.append(
                Coming(
                    replica=replica,
                    vram_bytes=choice.need.vram_bytes or 0,
                    ram_bytes=choice.need.ram_bytes or 0,
                    disk_bytes=0 if self._options.has_shared_models else choice.missing_bytes or 0,
                )
            )
            targets.append(self._target(choice, replica, model, decided, registry, sources[choice.node_id]))
        # Operations, targets, nodes (which these rows refer to), and replicas last.
        await load_store.put_targets(tx, operation.id, targets)
        held = [(choice.node_id, model.name) for choice in decided.choices]
        await staged_store.forgive_removals(tx, held)
        await staged_store.put_models(tx, [(node, name, model.run_hash) for node, name in held])
        await self._make_room(tx, decided, model)
        await load_store.insert_coming(tx, coming, [self._ids.new_id() for _ in coming])
        notes = [f"{choice.node} is to have it: {_why(choice)}" for choice in decided.choices]
        if decided.eviction is not None:
            notes.append(decided.eviction.sentence)
        notes += decided.placement.warnings
        await operation_store.add_notes(tx, [(operation.id, "info", "", words) for words in notes])

    async def _make_room(self, tx: Transaction, decided: Decided, model: Model) -> None:
        victims = [victim.id for victim in decided.victims]
        marked = await replica_store.mark_unloading(
            tx, victims, f"Evicted for {model.name}.", only_idle=True, grace_s=self._options.grace_s
        )
        if len(marked) != len(victims):
            raise Conflict("A model that was to make room is in use now; try again.", code="try_again")

    def _replica(self, operation: Operation, model: Model, choice: Choice, registry: Registry) -> Replica:
        return Replica(
            id=self._ids.new_id(),
            node_id=choice.node_id,
            model=model.name,
            index=choice.index,
            state=ReplicaState.STAGING,
            revision=model.run_hash,
            backend=registry.engines[choice.node_id].name,
            operation_id=operation.id,
            vram_bytes=choice.need.vram_bytes,
            ram_bytes=choice.need.ram_bytes,
            threads=choice.threads,
        )

    def _target(
        self,
        choice: Choice,
        replica: Replica,
        model: Model,
        decided: Decided,
        registry: Registry,
        sources: tuple[NodeId, ...],
    ) -> NewTarget:
        engine = registry.engines[choice.node_id]
        load = {
            "replica": replica.id,
            "index": replica.index,
            "revision": replica.revision,
            "backend": engine.name,
            "build": None if engine.build is None else build_to_json(engine.build),
            "threads": choice.threads,
            "waits": list(decided.waits_for),
            "from": list(sources),
            "budget_s": load_budget_s(model.payload_bytes, model.config.load_timeout_s),
        }
        return NewTarget(
            node=registry.nodes[choice.node_id],
            job_id=JobId(self._ids.new_id()),
            build={"name": engine.name, "version": engine.version, "load": load},
            total_bytes=model.payload_bytes or None,
        )


def _with_others_gone(placement: Placement, room: Eviction) -> Decided:
    if room.outcome in (Outcome.MAKE_ROOM, Outcome.WAIT):
        if room.choice is not None:
            return Decided(placement=placement, choices=(room.choice,), eviction=room)
        return Decided(placement=placement, eviction=room, waits=room.sentence)
    if room.outcome is Outcome.BUSY:
        return Decided(placement=placement, fault=Fault(code=Outcome.BUSY, text=room.sentence))
    fault = Fault(code=placement.code or Outcome.NONE, text=placement.sentence)
    return Decided(placement=placement, fault=fault)


def _sources(model: Model, choices: Sequence[Choice], registry: Registry) -> Mapping[NodeId, tuple[NodeId, ...]]:
    """From which other nodes each one takes the files."""
    return sources_of([choice.node_id for choice in choices], holders(model, registry))


def holders(model: Model, registry: Registry) -> list[Holder]:
    """Nodes that can be reached and have something of the model's files, or are being sent them now."""
    sha256s = {file.sha256 for file in model.files or () if file.size_bytes}
    if not sha256s:
        return []
    whole: dict[NodeId, set[str]] = {}
    some = {item.node for item in registry.pulling if item.is_same}
    for item in registry.staged:
        some.add(item.node_id)
        if item.is_whole:
            whole.setdefault(item.node_id, set()).add(item.sha256)
    taken: dict[NodeId, int] = {}
    for pulling in registry.pulling:
        if pulling.source is not None:
            taken[pulling.source] = taken.get(pulling.source, 0) + 1
    rooms = registry.fleet.rooms
    return [
        Holder(node=node, is_whole=whole.get(node, set()) >= sha256s, pullers=taken.get(node, 0))
        for node in sorted(some)
        if node in rooms and rooms[node].is_candidate and registry.nodes[node].http_address
    ]


def _why(choice: Choice) -> str:
    return f"ready in about {choice.terms.ready_s:.0f} s"
