"""Fleets of chance for properties: small, crowded, and with everything that may be unknown now and then unknown."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from corral.domain.model import Need, StoredFile
from corral.domain.node import Liveness, Node, NodeId, NodeType
from corral.domain.replica import Replica, ReplicaState, Rule
from corral.policy.placing.fleet import EngineAvailability, FileCopy, ModelTraits, PlacementDemand, PlacementFleet
from tests.unit.policy.builders import GIB, THEN, a_node, a_replica

MODELS = ("m", "chat", "code", "embed")
HASH = "now"
# Drawing a fleet takes longer than judging it, and longer still on a machine that does something else besides.
patiently = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

maybe_gib = st.none() | st.integers(0, 24).map(lambda number: number * GIB)
gib = st.integers(0, 24).map(lambda number: number * GIB)


@st.composite
def nodes(draw: Any, name: str) -> Node:
    has_gpu = draw(st.booleans())
    total_vram = draw(gib) if has_gpu else None
    total_disk = draw(st.none() | st.just(100 * GIB))
    return a_node(
        name,
        labels={"zone": draw(st.sampled_from("ab"))},
        type=draw(st.sampled_from([NodeType.BACKEND] * 5 + [NodeType.AGENT])),
        liveness=draw(st.sampled_from([Liveness.ALIVE] * 5 + [Liveness.LOST])),
        drained_at=draw(st.sampled_from([None] * 5 + [THEN])),
        slots_reported=draw(st.integers(1, 3)),
        budget_reported=draw(st.sampled_from([None, "50%", "8GiB"])),
        total_vram=total_vram,
        available_vram=None if total_vram is None else min(draw(gib), total_vram),
        reserved_vram=draw(st.integers(0, 2)) * GIB,
        total_ram=32 * GIB,
        available_ram=draw(maybe_gib),
        reserved_ram=draw(st.integers(0, 2)) * GIB,
        unified_memory=draw(st.sampled_from([False, False, None, True])),
        total_disk=total_disk,
        available_disk=None if total_disk is None else draw(maybe_gib),
        reserved_disk=draw(st.integers(0, 2)) * GIB,
        cpu_threads=draw(st.none() | st.integers(1, 8)),
        held_threads=draw(st.integers(0, 9)),
    )


@st.composite
def replicas(draw: Any, fleet_nodes: list[Node]) -> list[Replica]:
    rows: list[Replica] = []
    for node in fleet_nodes:
        for model in draw(st.lists(st.sampled_from(MODELS), max_size=5)):
            index = len([row for row in rows if row.node_id == node.id and row.model == model])
            state = draw(st.sampled_from([ReplicaState.LOADED] * 4 + list(ReplicaState)))
            rows.append(
                a_replica(
                    node.name,
                    index,
                    model=model,
                    state=state,
                    revision=draw(st.sampled_from([HASH] * 4 + ["before"])),
                    vram_bytes=draw(maybe_gib),
                    ram_bytes=draw(maybe_gib),
                    threads=draw(st.integers(0, 3)),
                    load_s=draw(st.none() | st.floats(0, 100)),
                    in_flight=draw(st.sampled_from([0, 0, 0, 2])) if state is ReplicaState.LOADED else 0,
                    last_used_at=draw(st.none() | st.integers(0, 7200).map(lambda s: THEN - timedelta(seconds=s))),
                )
            )
    return rows


@st.composite
def rules(draw: Any) -> list[Rule]:
    found = []
    for model in draw(st.lists(st.sampled_from(MODELS), unique=True)):
        spreads = draw(st.booleans())
        selector = draw(st.sampled_from([{}, {"zone": "a"}]))
        least = 0 if spreads else draw(st.integers(0, 3))
        found.append(Rule(model=model, selector=selector, min_replicas=least, spreads=spreads))
    return found


@st.composite
def fleets(draw: Any) -> PlacementFleet:
    machines = [draw(nodes(f"n{number}")) for number in range(draw(st.integers(0, 5)))]
    views = [
        ModelTraits(
            name=model,
            run_hash=HASH,
            groups=frozenset(draw(st.sets(st.sampled_from("xy")))),
            is_pinned=draw(st.sampled_from([False, False, False, True])),
        )
        for model in MODELS
    ]
    copies = [
        FileCopy(node.id, sha256, size)
        for node in machines
        for sha256, size in draw(st.dictionaries(st.sampled_from("pq"), st.integers(0, 3).map(GIB.__mul__))).items()
    ]
    return PlacementFleet.build(machines, draw(replicas(machines)), models=views, rules=draw(rules()), copies=copies)


@st.composite
def demands(draw: Any, fleet: PlacementFleet) -> PlacementDemand:
    ids = list(fleet.rooms) or [NodeId("none")]
    some = st.frozensets(st.sampled_from(ids))
    needs = {
        node_id: Need(vram_bytes=draw(maybe_gib), ram_bytes=draw(maybe_gib), payload_bytes=draw(maybe_gib))
        for node_id in ids
    }
    return PlacementDemand(
        model="m",
        run_hash=draw(st.sampled_from(["", HASH])),
        need=lambda node: needs[node.id],
        files=draw(st.none() | st.just(tuple(StoredFile(path=sha, sha256=sha, size_bytes=2 * GIB) for sha in "pq"))),
        engines=draw(
            st.none() | some.map(lambda chosen: {one: EngineAvailability(is_installed=True) for one in chosen})
        ),
        selector=draw(st.sampled_from([{}, {"zone": "a"}])),
        only=draw(st.none() | st.none() | some),
        excluded=dict.fromkeys(draw(some), "It was tried.") if draw(st.booleans()) else {},
        count=draw(st.integers(1, 4)),
        spreads=draw(st.booleans()),
        threads=draw(st.none() | st.integers(1, 4)),
        is_disk_enforced=draw(st.sampled_from([True, True, False])),
        has_shared_models=draw(st.sampled_from([False, False, True])),
    )


@st.composite
def fleets_and_demands(draw: Any) -> tuple[PlacementFleet, PlacementDemand]:
    fleet = draw(fleets())
    return fleet, draw(demands(fleet))


@st.composite
def crowded(draw: Any) -> tuple[PlacementFleet, PlacementDemand]:
    """Healthy nodes that are full of models, and a demand that fits nowhere as it is."""
    machines = []
    for number in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["card", "processor", "one memory"]))
        free = draw(st.integers(0, 3)) * GIB
        machines.append(
            a_node(
                f"n{number}",
                labels={"zone": draw(st.sampled_from("ab"))},
                slots_reported=4,
                total_vram=None if kind == "processor" else 24 * GIB,
                available_vram=None if kind == "processor" else free,
                available_ram=free,
                unified_memory=kind == "one memory",
                cpu_threads=8,
                held_threads=draw(st.integers(5, 10)),
                budget_reported=draw(st.sampled_from([None, None, "20GiB"])),
            )
        )
    rows: list[Replica] = []
    for node in machines:
        for model in draw(st.lists(st.sampled_from(MODELS[1:]), min_size=1, max_size=7)):
            index = len([row for row in rows if row.node_id == node.id and row.model == model])
            size = draw(st.integers(1, 6)) * GIB
            rows.append(
                a_replica(
                    node.name,
                    index,
                    model=model,
                    state=draw(st.sampled_from([ReplicaState.LOADED] * 9 + [ReplicaState.UNLOADING])),
                    revision=draw(st.sampled_from([HASH] * 9 + ["before"])),
                    vram_bytes=size if node.hardware.total_vram else 0,
                    ram_bytes=0 if node.hardware.total_vram else size,
                    threads=draw(st.integers(0, 2)),
                    load_s=draw(st.floats(0, 100)),
                    in_flight=draw(st.sampled_from([0] * 9 + [1])),
                    last_used_at=THEN - timedelta(seconds=draw(st.integers(0, 7200))),
                )
            )
    views = [
        ModelTraits(name=model, run_hash=HASH, is_pinned=draw(st.sampled_from([False] * 5 + [True])))
        for model in MODELS
    ]
    size = draw(st.integers(4, 10)) * GIB

    def need(node: Node) -> Need:
        has_card = bool(node.hardware.total_vram)
        return Need(vram_bytes=size if has_card else 0, ram_bytes=0 if has_card else size)

    return PlacementFleet.build(machines, rows, models=views, rules=draw(rules())), PlacementDemand(
        model="m", need=need
    )


def with_more_room(fleet: PlacementFleet, more: int) -> PlacementFleet:
    """The same fleet with more of everything that is known."""

    def grown(node: Node) -> Node:
        hardware = node.hardware
        more_of = {
            name: None if value is None else value + more
            for name in ("available_vram", "available_ram", "available_disk", "total_vram", "total_ram")
            if (value := getattr(hardware, name)) is not None
        }
        threads = hardware.cpu_threads
        return replace(
            node,
            hardware=replace(hardware, **more_of, cpu_threads=None if threads is None else threads + 9),
            slots_reported=node.slots_reported + 1,
            budget_reported=None,
        )

    return PlacementFleet.build(
        [grown(room.node) for room in fleet.rooms.values()],
        [row for rows in fleet.by_node.values() for row in rows],
        models=fleet.models.values(),
        rules=fleet.rules.values(),
        copies=[FileCopy(node_id, sha, size) for sha, held in fleet.copies.items() for node_id, size in held.items()],
    )
