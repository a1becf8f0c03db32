"""What fits where: slots, VRAM, disk, and that no candidates never means any candidate."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.domain.model import Need
from corral.domain.node import Liveness, Node, NodeId, NodeType
from corral.domain.replica import Replica, ReplicaState
from corral.policy.placing.fleet import (
    DISK_MARGIN_MIN_BYTES,
    DISK_UNKNOWN_BYTES,
    PlacementDemand,
    PlacementFleet,
    compute_disk_need,
    compute_vram_left,
)
from corral.policy.placing.placement import PlacementResult, place_replicas
from tests.unit.policy.builders import GIB, a_node, a_replica

sizes = st.none() | st.integers(0, 200 * GIB)


def placed(nodes: list[Node], replicas: list[Replica] | None = None, **demand: Any) -> PlacementResult:
    return place_replicas(PlacementFleet.build(nodes, replicas or []), PlacementDemand(model="m", **demand))


def fitting(nodes: list[Node], **demand: Any) -> list[Node]:
    chosen = {one.node_id for one in placed(nodes, **demand).scored}
    return [node for node in nodes if node.id in chosen]


def with_payload(size: int | None) -> Need:
    return Need(payload_bytes=size)


@st.composite
def nodes_with_disks(draw: Any) -> list[Node]:
    disks = draw(st.lists(st.tuples(sizes, sizes), max_size=5))
    return [a_node(f"n{index}", total_disk=total, available_disk=free) for index, (total, free) in enumerate(disks)]


@pytest.mark.behaviour("NODE-28")
def test_node_is_not_chosen_for_more_than_free_less_reserved() -> None:
    node = a_node(total_vram=10 * GIB, available_vram=10 * GIB, reserved_vram=6 * GIB)
    assert compute_vram_left(node) == 4 * GIB
    assert fitting([node], need=Need(vram_bytes=4 * GIB)) == [node]
    assert fitting([node], need=Need(vram_bytes=4 * GIB + 1)) == []


@pytest.mark.behaviour("NODE-15")
def test_budget_caps_the_free_vram_when_it_is_read() -> None:
    node = a_node(total_vram=10 * GIB, available_vram=9 * GIB, budget_reported="80%")
    assert compute_vram_left(node) == 8 * GIB
    assert fitting([node], need=Need(vram_bytes=8 * GIB + 1)) == []
    assert compute_vram_left(a_node(total_vram=10 * GIB, available_vram=9 * GIB, budget_override="")) == 9 * GIB
    assert compute_vram_left(a_node(total_vram=10 * GIB, available_vram=9 * GIB, reserved_vram=20 * GIB)) == -11 * GIB


def test_unknown_vram_satisfies_no_known_need_and_every_unknown_one() -> None:
    node = a_node()
    assert compute_vram_left(node) is None
    assert fitting([node], need=Need(vram_bytes=1)) == []
    assert fitting([node], need=Need(vram_bytes=0)) == [node]
    assert fitting([node], need=Need()) == [node]


@pytest.mark.behaviour("NODE-30")
def test_model_that_fits_nowhere_is_refused_by_name_with_the_shortfall() -> None:
    full = a_node("full", total_disk=500 * GIB, available_disk=0)
    placement = placed([full], need=with_payload(70 * 10**9))
    assert placement.choices == ()
    assert placement.code == "insufficient_disk"
    assert "full has 0.0 GiB of its 500.0 GiB disk free" in placement.sentence
    assert f"{compute_disk_need(70 * 10**9) / GIB:.1f} GiB are needed" in placement.sentence


@pytest.mark.behaviour("NODE-30")
def test_nodes_without_room_are_dropped_when_another_has_it() -> None:
    full = a_node("full", total_disk=500 * GIB, available_disk=0)
    roomy = a_node("roomy", total_disk=500 * GIB, available_disk=400 * GIB)
    assert fitting([full, roomy], need=with_payload(70 * 10**9)) == [roomy]
    assert placed([full, roomy], need=with_payload(70 * 10**9)).code == ""


@pytest.mark.behaviour("NODE-31")
@pytest.mark.parametrize("disk", [{}, {"total_disk": 0, "available_disk": 0}, {"total_disk": 9 * GIB}])
def test_unknown_disk_never_excludes_a_node(disk: dict[str, Any]) -> None:
    node = a_node(**disk)
    assert fitting([node], need=with_payload(70 * 10**9)) == [node]


@pytest.mark.behaviour("NODE-32")
def test_unknown_payload_needs_two_gib() -> None:
    assert compute_disk_need(None) == DISK_UNKNOWN_BYTES == 2 * GIB
    tight = a_node("tight", total_disk=9 * GIB, available_disk=2 * GIB - 1)
    enough = a_node("enough", total_disk=9 * GIB, available_disk=2 * GIB)
    assert fitting([tight, enough], need=with_payload(None)) == [enough]


@pytest.mark.behaviour("NODE-33")
def test_disabled_disk_check_excludes_no_node_and_warns() -> None:
    full = a_node("full", total_disk=500 * GIB, available_disk=0)
    placement = placed([full], need=with_payload(70 * 10**9), is_disk_enforced=False)
    assert [choice.node for choice in placement.choices] == ["full"]
    (warning,) = placement.warnings
    assert "full" in warning
    again = placed([full], need=with_payload(70 * 10**9))
    assert again.choices == (), "the switch counts for one decision, not for ever"


@pytest.mark.behaviour("NODE-34")
def test_shared_models_need_no_disk_on_the_node() -> None:
    full = a_node("full", total_disk=500 * GIB, available_disk=0)
    placement = placed([full], need=with_payload(70 * 10**9), has_shared_models=True)
    assert [choice.node for choice in placement.choices] == ["full"]
    assert (placement.code, placement.warnings) == ("", ())


@pytest.mark.behaviour("NODE-35")
def test_fit_counts_only_bytes_that_are_missing_on_the_node() -> None:
    payload = 70 * GIB
    assert compute_disk_need(payload, staged_bytes=payload) == 0
    assert compute_disk_need(payload, staged_bytes=payload - GIB) == GIB + DISK_MARGIN_MIN_BYTES


@given(payload=st.none() | st.integers(0, 10**12), staged=st.integers(0, 10**12))
def test_need_for_disk_covers_the_missing_bytes_and_falls_with_what_is_staged(payload: int | None, staged: int) -> None:
    need = compute_disk_need(payload, staged)
    assert 0 <= need <= compute_disk_need(payload)
    if payload is not None:
        assert need >= max(0, payload - staged)


@given(nodes=nodes_with_disks(), payload=st.none() | st.integers(0, 10**12), enforced=st.booleans())
def test_disk_drops_some_and_refuses_exactly_when_none_is_left(
    nodes: list[Node], payload: int | None, enforced: bool
) -> None:
    placement = placed(nodes, need=with_payload(payload), is_disk_enforced=enforced)
    left = fitting(nodes, need=with_payload(payload), is_disk_enforced=enforced)
    assert (placement.code == "insufficient_disk") == (bool(nodes) and not left)
    if not enforced:
        assert left == nodes
    for node in nodes:
        if not node.hardware.total_disk:
            assert node in left
        if placement.code:
            assert node.name in placement.sentence


@pytest.mark.behaviour("NODE-36")
def test_lowest_free_index_is_next() -> None:
    node = a_node("a", slots_reported=4)
    assert placed([node], [a_replica("a", 0), a_replica("a", 2)]).choices[0].index == 1
    assert placed([node]).choices[0].index == 0


@pytest.mark.behaviour("NODE-36")
def test_node_without_a_free_slot_is_refused_with_its_own_code() -> None:
    placement = placed([a_node("a", slots_reported=4)], [a_replica("a", index) for index in range(4)])
    assert (placement.choices, placement.code) == ((), "no_free_slot")


@pytest.mark.behaviour("NODE-36")
@given(used=st.sets(st.integers(0, 12)), slots=st.integers(0, 10))
def test_next_index_is_unused_and_nothing_below_it_is_free(used: set[int], slots: int) -> None:
    placement = placed([a_node("a", slots_reported=slots)], [a_replica("a", index) for index in used])
    if not placement.choices:
        assert len(used) >= slots
        return
    (choice,) = placement.choices
    assert choice.index not in used
    assert set(range(choice.index)) <= used


def test_load_in_progress_holds_its_slot_and_an_unload_does_not() -> None:
    rows = [
        a_replica("a", 0, state=ReplicaState.STAGING),
        a_replica("a", 1, state=ReplicaState.UNLOADING),
        a_replica("a", 2, state=ReplicaState.LOADING),
        a_replica("a", 3, model="other"),
        a_replica("b", 4),
    ]
    assert PlacementFleet.build([a_node("a", slots_reported=3)], rows).compute_capacity("m", {}) == 1
    assert placed([a_node("a", slots_reported=2)], rows).code == "no_free_slot"
    assert placed([a_node("a", slots_reported=3)], rows).choices[0].index == 3


@pytest.mark.behaviour("NODE-37")
def test_capacity_of_the_cluster_is_the_sum_of_free_slots() -> None:
    nodes = [a_node("a", slots_reported=4), a_node("b", slots_reported=2), a_node("c", slots_reported=1)]
    assert PlacementFleet.build(nodes, [a_replica("a"), a_replica("c")]).compute_capacity("m", {}) == 5
    crowded = PlacementFleet.build([a_node("c")], [a_replica("c"), a_replica("c", 1)])
    assert crowded.compute_capacity("m", {}) == 0, "never below zero"


@pytest.mark.behaviour("NODE-40")
@pytest.mark.parametrize(
    "changes",
    [
        {"approved_at": None},
        {"bus_ok": False},
        {"liveness": Liveness.LOST},
        {"liveness": Liveness.LEFT},
        {"drained_at": a_node().created_at},
        {"self_drained_at": a_node().created_at},
        {"type": NodeType.AGENT},
    ],
)
def test_node_that_may_get_no_work_is_no_candidate_though_it_matches(changes: dict[str, Any]) -> None:
    labels = {"zone": "b"}
    nodes = [a_node("away", labels=labels, **changes), a_node("well", labels=labels)]
    assert [room.node.name for room in PlacementFleet.build(nodes).list_candidates(labels)] == ["well"]
    assert [node.name for node in fitting(nodes, selector=labels)] == ["well"]


@given(count=st.integers(0, 4), need=st.integers(0, 10**10), payload=st.none() | st.integers(0, 10**10))
def test_empty_candidates_mean_no_node_and_never_any(count: int, need: int, payload: int | None) -> None:
    rows = [a_replica("a", index) for index in range(count)]
    needed = Need(vram_bytes=need, payload_bytes=payload)
    assert placed([], rows, need=needed).choices == ()
    assert placed([a_node("a")], need=needed, only=frozenset()).choices == ()
    assert placed([a_node("a")], need=needed, engines={}).choices == ()
    assert placed([a_node("a")], need=needed, selector={"zone": "b"}).choices == ()
    assert placed([a_node("a")], need=needed, only=frozenset({NodeId("b")})).choices == ()
    empty = PlacementFleet.build([], rows)
    assert (empty.list_candidates({}), empty.compute_capacity("m", {})) == ((), 0)
