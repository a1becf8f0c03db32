"""What holds for models when the faults are over: rows and processes agree, nothing is pending, and rules are met."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from corral.domain.operation import OPEN, OperationState
from tests.simulation.models.frontend import ModelsFrontend
from tests.simulation.models.host import Host
from tests.simulation.models.inspector import ModelsLook
from tests.simulation.models.work import ModelsWork
from tests.simulation.workers import SimWorker

_S = OperationState
_COMING = ("staging", "loading")


def of_models(
    look: ModelsLook,
    workers: Sequence[SimWorker],
    works: Mapping[str, ModelsWork],
    frontends: Sequence[ModelsFrontend],
    removed: Collection[str] = (),
) -> list[str]:
    """Return what is wrong at the end.

    `removed`: machines whose node was removed once. What they kept of models that were deleted meanwhile is unknown:
    they join like new machines."""
    away = {worker.name for worker in workers if not worker.is_running}
    present = {
        node.name: node
        for node in look.nodes
        if node.name in works and node.name not in away and node.approved_at is not None
    }
    return [
        *_nodes(present),
        *_ends(look, away),
        *_jobs(works),
        *_processes(look, works, present, away),
        *_reservations(look),
        *_copies(look, works, [name for name in sorted(present) if name not in removed]),
        *_use(look, frontends),
        *_rules(look, works, present),
    ]


def _nodes(present: Mapping[str, Any]) -> list[str]:
    return [
        f"{name} runs and is {node.liveness}, on the bus {node.bus_ok}, drained {node.drained_at}"
        for name, node in present.items()
        if node.liveness != "alive" or node.bus_ok is not True or node.drained_at or node.self_drained_at
    ]


def _ends(look: ModelsLook, away: set[str]) -> list[str]:
    """Return the operations that have not ended, except removals that only an absent machine still has to do."""
    wrong = []
    pending = {removal.node_name for removal in look.removals}
    for operation in look.operations:
        state = _S(operation.state)
        if state is _S.COMPLETED_WITH_PENDING and pending <= away:
            continue
        if state in OPEN or state is _S.PAUSED:
            wrong.append(f"operation {operation.id} ({operation.kind} {operation.subject}) is still {state}")
        if operation.owner is not None and state not in (_S.RUNNING, _S.QUEUED):
            wrong.append(f"operation {operation.id} is {state}, and {operation.owner} still holds it")
    wrong += [
        f"{each.node_name} still owes the removal of {each.model}"
        for each in look.removals
        if each.node_name not in away
    ]
    return wrong


def _jobs(works: Mapping[str, ModelsWork]) -> list[str]:
    return [f"{name} is still at job {job}" for name, work in sorted(works.items()) for job in work.unfinished()]


def _processes(
    look: ModelsLook, works: Mapping[str, ModelsWork], present: Mapping[str, Any], away: Collection[str]
) -> list[str]:
    """Return replicas without a process and processes without a replica. A replica that an absent machine was to stop
    is still to be stopped."""
    wrong = []
    hashes = {model.name: model.run_hash for model in look.models}
    for row in look.replicas:
        key = f"{row.model}#{row.replica_index}"
        if row.state == "unloading" and row.node_name in away:
            continue
        if row.state != "loaded":
            wrong.append(f"the replica {key} on {row.node_name} is still {row.state}: {row.stop_problem}")
            continue
        if row.node_name not in present:
            wrong.append(f"{key} is called loaded on {row.node_name}, which is away")
            continue
        engine = works[row.node_name].host.engines.get(key)
        if engine is None or not engine.is_alive:
            wrong.append(f"{key} is called loaded on {row.node_name}, and no such process runs")
        elif (engine.address, engine.command.revision) != (row.address, row.revision):
            wrong.append(f"{key} on {row.node_name} is at {engine.address}, and the row says {row.address}")
        if hashes.get(row.model) != row.revision:
            wrong.append(f"{key} on {row.node_name} is of a revision that its model is not")
    known = {(row.node_name, f"{row.model}#{row.replica_index}") for row in look.replicas}
    for name in sorted(present):
        wrong += [
            f"{name} runs {key}, and no row knows it" for key in works[name].host.engines if (name, key) not in known
        ]
    return wrong


def _reservations(look: ModelsLook) -> list[str]:
    coming = {str(row.id) for row in look.replicas if row.state in _COMING}
    return [
        f"something is set aside on {each.node_name} for {each.holder}, which is no load"
        for each in look.reservations
        if each.holder not in coming
    ]


def _copies(look: ModelsLook, works: Mapping[str, ModelsWork], names: Sequence[str]) -> list[str]:
    known = {model.name for model in look.models}
    return [
        f"{name} still has the files of {model}, which was deleted"
        for name in names
        for model in works[name].disk.models
        if model not in known
    ]


def _use(look: ModelsLook, frontends: Sequence[ModelsFrontend]) -> list[str]:
    """Return the frontends that still count requests."""
    wrong = [f"{use.frontend_id} still counts {use.in_flight} requests in the registry" for use in look.uses]
    counts = {
        each.process: each.core.router.leases.count_own_by_replica() for each in frontends if each.core is not None
    }
    return wrong + [f"{process} still counts {count}" for process, count in counts.items() if count]


def _rules(look: ModelsLook, works: Mapping[str, ModelsWork], present: Mapping[str, Any]) -> list[str]:
    """Return the rules whose minimum is not met although a matching node has room for one more."""
    models = {model.name: model for model in look.models}
    wrong = []
    for rule in look.rules:
        model = models.get(rule.model)
        if model is None or model.config.get("enabled") is False:
            continue
        fitting = [
            name
            for name in sorted(present)
            if all(look.labels.get(name, {}).get(key) == value for key, value in rule.selector.items())
        ]
        loaded = [row.node_name for row in look.replicas if row.model == rule.model and row.state == "loaded"]
        if rule.spreads:
            missing = [name for name in fitting if name not in loaded]
        else:
            missing = fitting if sum(name in fitting for name in loaded) < rule.min_replicas else []
        free = [name for name in missing if _has_room(look, works[name].host, present[name], model)]
        if free:
            wrong.append(f"{rule.model} is on {loaded}, its rule asks for more, and {free} have room")
    return wrong


def _has_room(look: ModelsLook, host: Host, node: Any, model: Any) -> bool:
    here = [row for row in look.replicas if row.node_name == host.name]
    own = [row for row in here if row.model == model.name]
    ram = sum(row.ram_bytes or 0 for row in here)
    wants = int(model.config["options"]["ram"])
    return (
        len(own) < (node.slots_override or node.slots_reported)
        and ram + wants <= host.ram_bytes
        and host.available_ram >= wants
    )
