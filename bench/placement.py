"""Decisions over fleets of growing size: the processor time that each takes, and how it grows.

Baseline in the same run: reading each node and each replica once in plain Python, which no placement can do without.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from statistics import median

from bench.report import ReportRow, format_table
from corral.domain.model import Need, StoredFile
from corral.domain.node import Hardware, Label, LabelSource, Node, NodeId, NodeType
from corral.domain.replica import Replica, ReplicaState, Rule
from corral.policy.placing.eviction import make_room
from corral.policy.placing.fleet import EngineAvailability, FileCopy, ModelTraits, PlacementDemand, PlacementFleet
from corral.policy.placing.placement import place_replicas
from corral.policy.placing.scaling import ScalingInputBuilder, decide

SIZES = (10, 100, 1_000)
REPLICAS_PER_NODE = 10
ROUNDS = 15
GIB = 1024**3
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def run() -> str:
    rows = [_measure(size) for size in SIZES]
    growth = {
        column: math.log(rows[-1].values[column] / rows[0].values[column]) / math.log(SIZES[-1] / SIZES[0])
        for column in rows[0].values
    }
    shown = format_table(
        f"Placement, ms of processor time, median of {ROUNDS}; {REPLICAS_PER_NODE} replicas on each node", rows
    )
    exponents = ", ".join(f"{column.removesuffix(' ms')} {value:.2f}" for column, value in growth.items())
    return f"{shown}\nGrowth exponent from {SIZES[0]} to {SIZES[-1]:,} nodes (1 is linear): {exponents}\n"


def _measure(size: int) -> ReportRow:
    nodes = [_node(number) for number in range(size)]
    replicas = [_replica(node, number) for node in nodes for number in range(REPLICAS_PER_NODE)]
    models = [ModelTraits(name=f"model-{number}", groups=frozenset({f"g{number % 50}"})) for number in range(size)]
    rules = [Rule(model=f"model-{number}", selector={}, min_replicas=1) for number in range(0, size, 3)]
    files = tuple(StoredFile(path=f"part-{n}", sha256=f"{n:064x}", size_bytes=GIB) for n in range(4))
    copies = [FileCopy(node.id, file.sha256, GIB) for node in nodes[::7] for file in files]

    def indexed() -> PlacementFleet:
        return PlacementFleet.build(nodes, replicas, models=models, rules=rules, copies=copies)

    fleet = indexed()
    fits = PlacementDemand(
        model="new",
        need=lambda node: Need(vram_bytes=5 * GIB, payload_bytes=4 * GIB),  # noqa: ARG005  the node is what is asked with
        files=files,
        engines={node.id: EngineAvailability(is_installed=number % 2 == 0) for number, node in enumerate(nodes)},
        selector={"zone": "b"},
        groups=frozenset({"g3"}),
    )
    crowded = PlacementDemand(model="new", need=Need(vram_bytes=20 * GIB), files=files)
    refused = place_replicas(fleet, crowded)
    assert place_replicas(fleet, fits).choices
    assert make_room(fleet, crowded, refused, NOW).victims
    return ReportRow(
        f"{size:,} nodes, {len(replicas):,} replicas",
        {
            "index ms": _ms(indexed),
            "place ms": _ms(lambda: place_replicas(fleet, fits)),
            "place 50 ms": _ms(
                lambda: place_replicas(fleet, PlacementDemand(model="new", need=Need(vram_bytes=GIB), count=50))
            ),
            "nothing fits ms": _ms(lambda: place_replicas(fleet, crowded)),
            "make room ms": _ms(lambda: make_room(fleet, crowded, refused, NOW)),
            "scale all models ms": _ms(lambda: _scale(fleet)),
            "read each once ms": _ms(lambda: _look(nodes, replicas)),
        },
    )


def _ms(work: Callable[[], object]) -> float:
    taken = []
    for _ in range(ROUNDS):
        began = time.process_time()
        work()
        taken.append(time.process_time() - began)
    return median(taken) * 1000


def _scale(fleet: PlacementFleet) -> int:
    scaler = ScalingInputBuilder(fleet, NOW)
    return sum(decide(scaler.build_input(model)).add for model in fleet.models)


def _look(nodes: list[Node], replicas: list[Replica]) -> int:
    return sum(node.slots for node in nodes) + sum(replica.in_flight for replica in replicas)


def _node(number: int) -> Node:
    hardware = Hardware(
        total_vram=24 * GIB,
        available_vram=(6 + number % 5) * GIB,
        total_ram=64 * GIB,
        available_ram=48 * GIB,
        total_disk=1000 * GIB,
        available_disk=(100 + number % 300) * GIB,
        cpu_threads=32,
        gpu_vendor="nvidia",
    )
    return Node(
        id=NodeId(f"node-{number}"),
        name=f"node-{number}",
        type=NodeType.BACKEND,
        credential_hash="",
        boot_id="",
        hardware=hardware,
        approved_at=NOW,
        liveness_since=NOW,
        bus_ok=True,
        slots_reported=2,
        budget_reported="90%" if number % 3 == 0 else None,
        held_threads=REPLICAS_PER_NODE,
        created_at=NOW,
        updated_at=NOW,
        labels=(Label(key="zone", value="ab"[number % 2], source=LabelSource.ADMIN),),
    )


def _replica(node: Node, number: int) -> Replica:
    position = int(node.name.partition("-")[2]) * REPLICAS_PER_NODE + number
    return Replica(
        id=f"{node.id}/{number}",
        node_id=node.id,
        model=f"model-{position % max(1, position // 10 + 1)}",
        index=number,
        state=ReplicaState.LOADED,
        vram_bytes=(1 + number % 3) * GIB,
        load_s=5.0 + position % 40,
        in_flight=position % 4 == 0,
        last_used_at=NOW - timedelta(seconds=position % 7200),
    )
