"""Where a model goes: filters with their sentences, then seconds; and what never happens whatever the fleet."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.domain.model import Need, StoredFile
from corral.domain.node import Liveness, NodeId, NodeType
from corral.domain.replica import ReplicaState
from corral.policy.placing.fleet import EngineAvailability, FileCopy, ModelTraits, PlacementDemand, PlacementFleet
from corral.policy.placing.placement import PlacementFilter, PlacementResult, compute_ram_need, place_replicas, uses_gpu
from corral.policy.status import is_schedulable
from tests.unit.policy.builders import GIB, THEN, a_node, a_replica
from tests.unit.policy.placing.fleets import fleets_and_demands, patiently, with_more_room

FILES = (StoredFile(path="a.gguf", sha256="aa", size_bytes=10 * GIB),)


def a_gpu(name: str = "gpu-1", free: int = 20, **changes: Any) -> Any:
    return a_node(name, total_vram=24 * GIB, available_vram=free * GIB, **changes)


def only_reason(placement: PlacementResult) -> tuple[PlacementFilter, str]:
    assert placement.choices == ()
    (refusal,) = placement.refusals
    return refusal.filter, refusal.sentence


def test_placement_without_nodes_is_a_refusal_and_not_an_error() -> None:
    placement = place_replicas(PlacementFleet.build([]), PlacementDemand(model="m"))
    assert placement.choices == ()
    assert placement.code == "no_eligible_nodes"
    assert placement.sentence == "There is no node for m."


@pytest.mark.parametrize(
    ("changes", "demand", "name", "sentence"),
    [
        ({"drained_at": THEN, "drained_by": "ann"}, {}, "not_schedulable", "gpu-1 takes no work: drained by ann."),
        ({"liveness": Liveness.LOST}, {}, "not_schedulable", "gpu-1 takes no work: no heartbeat within its lease."),
        ({"type": NodeType.AGENT}, {}, "agent", "gpu-1 is an agent node and runs no engines."),
        ({}, {"selector": {"zone": "b"}}, "selector", "gpu-1 has no label zone, zone=b is required."),
        ({"labels": {"zone": "a"}}, {"selector": {"zone": "b"}}, "selector", "gpu-1 has zone=a, zone=b is required."),
        ({}, {"only": frozenset({NodeId("other")})}, "excluded", "gpu-1 is not among the requested nodes."),
        ({}, {"excluded": {NodeId("gpu-1"): "gpu-1 ran out of memory."}}, "excluded", "gpu-1 ran out of memory."),
        (
            {"capability": "metal"},
            {"engines": {}, "backend": "vllm"},
            "capability",
            "gpu-1 has no build of vllm: there is none for metal.",
        ),
        ({"available_vram": 3 * GIB}, {}, "vram", "gpu-1 has 3.0 GiB of VRAM free, 5.2 GiB are needed."),
        ({"reserved_vram": 23 * GIB}, {}, "vram", "gpu-1 has 1.0 GiB of VRAM free, 5.2 GiB are needed."),
        ({"budget_reported": "1GiB"}, {}, "vram", "gpu-1 has 1.0 GiB of VRAM free, 5.2 GiB are needed."),
        (
            {"total_disk": 500 * GIB, "available_disk": 4 * GIB},
            {},
            "disk",
            "gpu-1 has 4.0 GiB of its 500.0 GiB disk free, 11.0 GiB are needed.",
        ),
    ],
)
def test_every_filter_says_why_with_its_numbers(
    changes: dict[str, Any], demand: dict[str, Any], name: str, sentence: str
) -> None:
    values = {"total_vram": 24 * GIB, "available_vram": 24 * GIB} | changes
    fleet = PlacementFleet.build([a_node("gpu-1", **values)])
    placement = place_replicas(
        fleet, PlacementDemand(model="m", files=FILES, need=Need(vram_bytes=int(5.2 * GIB)), **demand)
    )
    assert only_reason(placement) == (PlacementFilter(name), sentence)
    assert sentence in placement.sentence


@pytest.mark.behaviour("NODE-36")
def test_placement_without_a_free_slot_has_its_own_code() -> None:
    fleet = PlacementFleet.build([a_gpu()], [a_replica("gpu-1")])
    placement = place_replicas(fleet, PlacementDemand(model="m"))
    assert only_reason(placement) == (PlacementFilter.SLOT, "gpu-1 has 1 of 1 replica slots of m in use.")
    assert placement.code == "no_free_slot"


def test_engine_that_is_being_stopped_takes_no_slot_but_keeps_its_index() -> None:
    fleet = PlacementFleet.build([a_gpu()], [a_replica("gpu-1", 0, state=ReplicaState.UNLOADING)])
    (choice,) = place_replicas(fleet, PlacementDemand(model="m")).choices
    assert choice.index == 1


def test_replica_of_an_older_configuration_takes_no_slot_but_keeps_its_index() -> None:
    fleet = PlacementFleet.build([a_gpu()], [a_replica("gpu-1", 0, revision="old")])
    (choice,) = place_replicas(fleet, PlacementDemand(model="m", run_hash="new")).choices
    assert choice.index == 1
    assert place_replicas(fleet, PlacementDemand(model="m", run_hash="old")).choices == ()


def test_sizes_that_differ_never_read_the_same() -> None:
    fleet = PlacementFleet.build([a_node("gpu-1", total_vram=24 * GIB, available_vram=5 * GIB)])
    _, sentence = only_reason(place_replicas(fleet, PlacementDemand(model="m", need=Need(vram_bytes=5 * GIB + 1))))
    assert sentence == "gpu-1 has 5,368,709,120 bytes of VRAM free, 5,368,709,121 bytes are needed."


def test_ram_counts_on_a_machine_without_a_card_and_not_beside_one() -> None:
    need = Need(ram_bytes=6 * GIB)
    cpu = a_node("cpu", total_ram=8 * GIB, available_ram=7 * GIB, reserved_ram=2 * GIB)
    assert only_reason(place_replicas(PlacementFleet.build([cpu]), PlacementDemand(model="m", need=need))) == (
        PlacementFilter.RAM,
        "cpu has 5.0 GiB of RAM free, 6.0 GiB are needed.",
    )
    card = a_gpu(available_ram=GIB)
    assert place_replicas(PlacementFleet.build([card]), PlacementDemand(model="m", need=need)).choices
    on_processor = PlacementDemand(model="m", need=replace(need, vram_bytes=0))
    assert place_replicas(PlacementFleet.build([card]), on_processor).choices == (), (
        "a need of 0 VRAM is known: it runs beside the card"
    )


def test_shared_memory_of_cpu_and_gpu_is_counted_once() -> None:
    mac = a_node(
        "mac",
        total_vram=24 * GIB,
        available_vram=24 * GIB,
        available_ram=20 * GIB,
        reserved_ram=4 * GIB,
        reserved_vram=4 * GIB,
        unified_memory=True,
    )
    assert place_replicas(
        PlacementFleet.build([mac]), PlacementDemand(model="m", need=Need(vram_bytes=12 * GIB))
    ).choices
    both = Need(vram_bytes=10 * GIB, ram_bytes=3 * GIB)
    assert (
        only_reason(place_replicas(PlacementFleet.build([mac]), PlacementDemand(model="m", need=both)))[0]
        is PlacementFilter.RAM
    )


@pytest.mark.behaviour("PLACE-2")
def test_placement_hands_out_half_of_the_free_threads_and_one_when_none_is_free() -> None:
    fleet = PlacementFleet.build([a_node("cpu", cpu_threads=8, slots_reported=6)])
    placement = place_replicas(fleet, PlacementDemand(model="m", count=6))
    assert [choice.threads for choice in placement.choices] == [4, 2, 1, 1, 1, 1]


@pytest.mark.behaviour("PLACE-2")
def test_placement_prefers_a_node_with_free_threads() -> None:
    full = a_node("a-full", cpu_threads=8, held_threads=8)
    free = a_node("b-free", cpu_threads=8, held_threads=1)
    (choice,) = place_replicas(PlacementFleet.build([full, free]), PlacementDemand(model="m")).choices
    assert choice.node == "b-free"
    (choice,) = place_replicas(PlacementFleet.build([full]), PlacementDemand(model="m", need=Need(ram_bytes=0))).choices
    assert (choice.node, choice.threads) == ("a-full", 1)


@pytest.mark.behaviour("PLACE-2")
def test_requested_threads_are_granted_as_far_as_they_are_free() -> None:
    node = a_node("cpu", cpu_threads=8, held_threads=5)
    (choice,) = place_replicas(PlacementFleet.build([node]), PlacementDemand(model="m", threads=6)).choices
    assert choice.threads == 3
    (choice,) = place_replicas(PlacementFleet.build([node]), PlacementDemand(model="m", need=Need(threads=2))).choices
    assert choice.threads == 2


@pytest.mark.behaviour("PLACE-2")
def test_model_on_a_card_needs_no_free_thread() -> None:
    fleet = PlacementFleet.build([a_gpu(cpu_threads=4, held_threads=4)])
    (choice,) = place_replicas(fleet, PlacementDemand(model="m", need=Need(vram_bytes=GIB))).choices
    assert choice.threads == 0
    (choice,) = place_replicas(fleet, PlacementDemand(model="m", need=Need(vram_bytes=0))).choices
    assert choice.threads == 1


def test_budget_is_for_all_that_runs_on_the_node() -> None:
    """8 GiB may be used and 6 are: the card has more room than Corral."""
    node = a_node("gpu", total_vram=24 * GIB, available_vram=18 * GIB, budget_reported="8GiB", slots_reported=4)
    fleet = PlacementFleet.build([node], [a_replica("gpu", model="other", vram_bytes=6 * GIB)])
    assert place_replicas(fleet, PlacementDemand(model="m", need=Need(vram_bytes=3 * GIB))).choices == ()
    assert place_replicas(fleet, PlacementDemand(model="m", need=Need(vram_bytes=2 * GIB))).choices


@pytest.mark.behaviour("PLACE-4")
def test_models_of_one_group_are_kept_apart_where_another_node_fits() -> None:
    models = [ModelTraits(name="m", groups=frozenset({"big"})), ModelTraits(name="rival", groups=frozenset({"big"}))]
    busy, slow = a_gpu("fast"), a_gpu("slow")
    rows = [a_replica("fast", model="rival")]
    fleet = PlacementFleet.build([busy, slow], rows, models=models, copies=[FileCopy(busy.id, "aa", 10 * GIB)])
    placement = place_replicas(fleet, PlacementDemand(model="m", files=FILES))
    assert placement.choices[0].node == "slow"
    assert [one.shares_group for one in placement.scored] == [False, True]


@pytest.mark.behaviour("PLACE-4")
def test_models_of_one_group_share_a_node_where_nothing_else_fits() -> None:
    models = [ModelTraits(name="rival", groups=frozenset({"big"}))]
    fleet = PlacementFleet.build(
        [a_gpu("only"), a_gpu("full", free=0)], [a_replica("only", model="rival")], models=models
    )
    demand = PlacementDemand(model="m", groups=frozenset({"big"}), need=Need(vram_bytes=GIB))
    assert place_replicas(fleet, demand).choices[0].node == "only"


@pytest.mark.behaviour("PLACE-5")
def test_node_that_has_it_ready_first_is_chosen_and_the_terms_say_why() -> None:
    has, lacks = a_gpu("has"), a_gpu("lacks", free=24)
    fleet = PlacementFleet.build([has, lacks], copies=[FileCopy(has.id, "aa", 10 * GIB)])
    engines = {node.id: EngineAvailability(is_installed=True) for node in (has, lacks)}
    placement = place_replicas(fleet, PlacementDemand(model="m", files=FILES, engines=engines))
    assert [one.node for one in placement.scored] == ["has", "lacks"]
    assert placement.choices[0].missing_bytes == 0
    first, second = (one.terms for one in placement.scored)
    assert (first.fetch_s, second.fetch_s) == (0.0, 10 * GIB / 100e6)
    assert first.total_s < second.total_s


def test_engine_that_is_missing_costs_and_a_fast_line_helps() -> None:
    a, b = a_gpu("a"), a_gpu("b")
    engines = {
        a.id: EngineAvailability(is_installed=False, fetch_bytes=100_000_000),
        b.id: EngineAvailability(is_installed=True),
    }
    fleet = PlacementFleet.build([a, b])
    assert place_replicas(fleet, PlacementDemand(model="m", engines=engines)).choices[0].node == "b"
    fast = PlacementDemand(model="m", engines=engines, files=FILES, bandwidths={a.id: 10e9})
    assert place_replicas(fleet, fast).choices[0].node == "a"


def test_quiet_node_is_taken_before_a_busy_one() -> None:
    rows = [a_replica("a", model="x", in_flight=3), a_replica("b", model="y", state=ReplicaState.STAGING)]
    nodes = [a_gpu("a"), a_gpu("b"), a_gpu("c", free=1)]
    placement = place_replicas(PlacementFleet.build(nodes, rows), PlacementDemand(model="m"))
    assert [one.node for one in placement.scored] == ["c", "a", "b"]
    assert placement.scored[1].terms.busy_s > 0
    assert placement.scored[2].terms.queue_s > 0


def test_equal_nodes_are_ordered_by_room_and_then_by_name() -> None:
    nodes = [a_gpu("c", free=9), a_gpu("b", free=8), a_gpu("a", free=8)]
    placement = place_replicas(PlacementFleet.build(nodes), PlacementDemand(model="m"))
    assert [one.node for one in placement.scored] == ["c", "a", "b"]


@pytest.mark.behaviour("NODE-53")
def test_spread_gives_each_node_one_though_there_are_two_slots() -> None:
    nodes = [a_gpu("a", slots_reported=2), a_gpu("b", slots_reported=2), a_gpu("c", slots_reported=2)]
    placement = place_replicas(
        PlacementFleet.build(nodes, [a_replica("c")]), PlacementDemand(model="m", spreads=True, count=3)
    )
    assert sorted(choice.node for choice in placement.choices) == ["a", "b"]
    assert placement.code == "no_free_slot"
    assert "c has a replica of m already, and each node gets one." in placement.sentence


def test_replicas_are_spread_over_equal_nodes() -> None:
    nodes = [a_gpu(name, slots_reported=4) for name in "abc"]
    placement = place_replicas(
        PlacementFleet.build(nodes), PlacementDemand(model="m", count=6, need=Need(vram_bytes=GIB))
    )
    assert Counter(choice.node for choice in placement.choices) == {"a": 2, "b": 2, "c": 2}
    assert {(choice.node, choice.index) for choice in placement.choices} == {(n, i) for n in "abc" for i in (0, 1)}


@pytest.mark.behaviour("PLACE-6")
@pytest.mark.parametrize(
    ("node", "need", "name"),
    [
        (a_gpu("n", free=5, slots_reported=4), Need(vram_bytes=2 * GIB), "VRAM"),
        (a_node("n", available_ram=5 * GIB, slots_reported=4), Need(ram_bytes=2 * GIB), "RAM"),
    ],
)
def test_resources_of_one_choice_are_not_offered_to_the_next(node: Any, need: Need, name: str) -> None:
    placement = place_replicas(PlacementFleet.build([node]), PlacementDemand(model="m", count=4, need=need))
    assert len(placement.choices) == 2
    assert f"n has 1.0 GiB of {name} free, 2.0 GiB are needed." in placement.sentence


@pytest.mark.behaviour("PLACE-4")
def test_model_is_no_rival_of_itself() -> None:
    models = [ModelTraits(name="m", groups=frozenset({"big"}))]
    nodes = [a_gpu("a", slots_reported=2), a_gpu("b", drained_at=THEN)]
    placement = place_replicas(PlacementFleet.build(nodes, [a_replica("a")], models=models), PlacementDemand(model="m"))
    assert [one.shares_group for one in placement.scored] == [False]


@pytest.mark.behaviour("NODE-33")
def test_disk_check_that_is_off_warns_about_the_nodes_that_were_chosen() -> None:
    full = a_gpu("full", total_disk=100 * GIB, available_disk=0)
    placement = place_replicas(
        PlacementFleet.build([full]), PlacementDemand(model="m", files=FILES, is_disk_enforced=False)
    )
    assert placement.choices
    assert placement.warnings == ("full has 0.0 GiB of its 100.0 GiB disk free, 11.0 GiB are needed.",)


@pytest.mark.behaviour("NODE-35")
def test_files_on_the_disk_need_no_further_space() -> None:
    node = a_gpu("n", total_disk=100 * GIB, available_disk=3 * GIB, reserved_disk=GIB)
    part = FileCopy(node.id, "aa", 9 * GIB)
    demand = PlacementDemand(model="m", files=FILES)
    assert place_replicas(PlacementFleet.build([node], copies=[part]), demand).choices[0].missing_bytes == GIB
    assert (
        place_replicas(PlacementFleet.build([node], copies=[part._replace(size_bytes=8 * GIB)]), demand).code
        == "insufficient_disk"
    )


def test_reason_of_the_node_that_came_furthest_stands_first() -> None:
    nodes = [a_gpu("far", free=1), *(a_gpu(f"away-{n}", drained_at=THEN) for n in range(8))]
    placement = place_replicas(PlacementFleet.build(nodes), PlacementDemand(model="m", need=Need(vram_bytes=2 * GIB)))
    assert placement.code == "no_room"
    assert placement.sentence.startswith("m fits on no node. far has 1.0 GiB of VRAM free, 2.0 GiB are needed. away-0")
    assert placement.sentence.endswith("And 4 more.")


@pytest.mark.behaviour("PLACE-6")
@patiently
@given(fleets_and_demands())
def test_placement_never_takes_more_than_there_is(example: tuple[PlacementFleet, PlacementDemand]) -> None:
    fleet, demand = example
    placement = place_replicas(fleet, demand)
    assert callable(demand.need)
    for node_id in {choice.node_id for choice in placement.choices}:
        room = fleet.rooms[node_id]
        mine = [choice for choice in placement.choices if choice.node_id == node_id]
        need = demand.need(room.node)
        if need.vram_bytes:
            assert room.vram is not None
            assert need.vram_bytes * len(mine) <= room.vram
        if room.ram is not None and compute_ram_need(room, need):
            assert compute_ram_need(room, need) * len(mine) <= room.ram
        if room.threads is not None:
            more_than_one = sum(choice.threads for choice in mine if choice.threads > 1)
            assert more_than_one <= max(0, room.threads)
            assert uses_gpu(room, need) or all(choice.threads >= 1 for choice in mine)
        if room.disk is not None and demand.is_disk_enforced and not demand.has_shared_models:
            assert sum(choice.missing_bytes or 0 for choice in mine) <= max(0, room.disk)
        taken = {row.index for row in fleet.by_node.get(node_id, ()) if row.model == "m"}
        indexes = [choice.index for choice in mine]
        assert len(set(indexes)) == len(indexes)
        assert not taken & set(indexes), "an index belongs to one row until that is gone"
        standing = [row for row in fleet.by_node.get(node_id, ()) if row.model == "m" and _stands(demand, row)]
        assert len(standing) + len(mine) <= room.node.slots
        if demand.spreads:
            assert len(standing) + len(mine) == 1


def _stands(demand: PlacementDemand, row: Any) -> bool:
    return row.state is not ReplicaState.UNLOADING and (not demand.run_hash or row.revision == demand.run_hash)


@pytest.mark.behaviour("PLACE-6")
@patiently
@given(fleets_and_demands())
def test_placement_never_violates_its_demand(example: tuple[PlacementFleet, PlacementDemand]) -> None:
    fleet, demand = example
    placement = place_replicas(fleet, demand)
    assert len(placement.choices) <= demand.count
    assert (placement.code == "") == (placement.sentence == "") == (len(placement.choices) == demand.count)
    for node_id in {choice.node_id for choice in placement.choices} | {one.node_id for one in placement.scored}:
        node = fleet.rooms[node_id].node
        assert is_schedulable(node)
        assert node.type is NodeType.BACKEND
        assert demand.only is None or node_id in demand.only
        assert node_id not in demand.excluded
        assert demand.engines is None or node_id in demand.engines
        assert node.label_map.items() >= demand.selector.items()
    known = {one.node_id for one in placement.scored} | {refusal.node_id for refusal in placement.refusals}
    assert known == set(fleet.rooms), "every node is accounted for"
    assert place_replicas(fleet, demand) == placement, "nothing is left to chance"


@pytest.mark.behaviour("PLACE-6")
@patiently
@given(fleets_and_demands(), st.integers(1, 30))
def test_placement_is_never_prevented_by_more_free_memory(
    example: tuple[PlacementFleet, PlacementDemand], more: int
) -> None:
    fleet, demand = example
    # One at a time: what a wish for threads takes grows with what is free.
    demand = replace(demand, count=1)
    if place_replicas(fleet, demand).choices:
        assert place_replicas(with_more_room(fleet, more * GIB), demand).choices
