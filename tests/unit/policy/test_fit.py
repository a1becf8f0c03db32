"""What fits where: slots, VRAM, disk, and that no candidates never means any candidate."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.domain.errors import Conflict
from corral.domain.node import Liveness, Node, NodeId, NodeType
from corral.domain.replica import ReplicaState
from corral.policy.placing.fit import (
    DISK_MARGIN_MIN_BYTES,
    DISK_UNKNOWN_BYTES,
    candidates,
    cluster_capabilities,
    cluster_capacity,
    disk_need,
    free_vram,
    judge_disk,
    next_free_index,
    occupied,
    pick_replica,
    with_vram,
)
from tests.unit.policy.builders import GIB, a_node, a_replica

sizes = st.none() | st.integers(0, 200 * GIB)


@st.composite
def nodes_with_disks(draw: Any) -> tuple[Node, ...]:
    disks = draw(st.lists(st.tuples(sizes, sizes), max_size=5))
    return tuple(
        a_node(f"n{index}", total_disk=total, available_disk=free) for index, (total, free) in enumerate(disks)
    )


@pytest.mark.behaviour("NODE-28")
def test_a_node_is_not_chosen_for_more_than_free_less_reserved() -> None:
    node = a_node(total_vram=10 * GIB, available_vram=10 * GIB, reserved_vram=6 * GIB)
    assert free_vram(node) == 4 * GIB
    assert with_vram([node], 4 * GIB) == (node,)
    assert with_vram([node], 4 * GIB + 1) == ()


@pytest.mark.behaviour("NODE-15")
def test_the_budget_caps_the_free_vram_when_it_is_read() -> None:
    node = a_node(total_vram=10 * GIB, available_vram=9 * GIB, budget_reported="80%")
    assert free_vram(node) == 8 * GIB
    assert free_vram(a_node(total_vram=10 * GIB, available_vram=9 * GIB, budget_override="")) == 9 * GIB
    assert free_vram(a_node(total_vram=10 * GIB, available_vram=9 * GIB, reserved_vram=20 * GIB)) == 0


def test_unknown_vram_satisfies_no_known_need_and_every_unknown_one() -> None:
    node = a_node()
    assert with_vram([node], 1) == ()
    assert with_vram([node], 0) == (node,)


@pytest.mark.behaviour("NODE-30")
def test_a_model_that_fits_nowhere_is_refused_by_name_with_the_shortfall() -> None:
    full = a_node("full", total_disk=500 * GIB, available_disk=0)
    verdict = judge_disk([full], 70 * 10**9)
    assert verdict.fitting == ()
    assert verdict.refusal is not None
    assert "full has 0.0 GiB free of 500.0 GiB" in verdict.refusal
    assert f"{disk_need(70 * 10**9) / GIB:.1f} GiB" in verdict.refusal


@pytest.mark.behaviour("NODE-30")
def test_nodes_without_room_are_dropped_when_another_has_it() -> None:
    full = a_node("full", total_disk=500 * GIB, available_disk=0)
    roomy = a_node("roomy", total_disk=500 * GIB, available_disk=400 * GIB)
    verdict = judge_disk([full, roomy], 70 * 10**9)
    assert verdict.fitting == (roomy,)
    assert verdict.refusal is None


@pytest.mark.behaviour("NODE-31")
@pytest.mark.parametrize("disk", [{}, {"total_disk": 0, "available_disk": 0}, {"total_disk": 9 * GIB}])
def test_an_unknown_disk_never_excludes_a_node(disk: dict[str, Any]) -> None:
    node = a_node(**disk)
    assert judge_disk([node], 70 * 10**9).fitting == (node,)


@pytest.mark.behaviour("NODE-32")
def test_an_unknown_payload_needs_two_gib() -> None:
    assert disk_need(None) == DISK_UNKNOWN_BYTES == 2 * GIB
    tight = a_node("tight", total_disk=9 * GIB, available_disk=2 * GIB - 1)
    enough = a_node("enough", total_disk=9 * GIB, available_disk=2 * GIB)
    assert judge_disk([tight, enough], None).fitting == (enough,)


@pytest.mark.behaviour("NODE-33")
def test_a_check_that_is_switched_off_drops_nobody_and_warns() -> None:
    full = a_node("full", total_disk=500 * GIB, available_disk=0)
    verdict = judge_disk([full], 70 * 10**9, is_enforced=False)
    assert verdict.fitting == (full,)
    assert verdict.refusal is None
    assert verdict.warning is not None
    assert "full" in verdict.warning
    assert judge_disk([full], 70 * 10**9).refusal is not None, "the switch counts for one decision, not for ever"


@pytest.mark.behaviour("NODE-34")
def test_shared_models_need_no_disk_on_the_node() -> None:
    full = a_node("full", total_disk=500 * GIB, available_disk=0)
    verdict = judge_disk([full], 70 * 10**9, has_shared_models=True)
    assert (verdict.fitting, verdict.refusal, verdict.warning) == ((full,), None, None)


@pytest.mark.behaviour("NODE-35")
def test_only_the_bytes_that_are_missing_on_the_node_are_needed() -> None:
    payload = 70 * GIB
    assert disk_need(payload, staged_bytes=payload) == 0
    assert disk_need(payload, staged_bytes=payload - GIB) == GIB + DISK_MARGIN_MIN_BYTES
    full = a_node("full", total_disk=500 * GIB, available_disk=0)
    assert judge_disk([full], payload, staged_bytes={full.id: payload}).fitting == (full,)
    assert judge_disk([full], payload, staged_bytes={NodeId("other"): payload}).fitting == ()


@given(payload=st.none() | st.integers(0, 10**12), staged=st.integers(0, 10**12))
def test_the_need_for_disk_covers_the_missing_bytes_and_falls_with_what_is_staged(
    payload: int | None, staged: int
) -> None:
    need = disk_need(payload, staged)
    assert 0 <= need <= disk_need(payload)
    if payload is not None:
        assert need >= max(0, payload - staged)


@given(nodes=nodes_with_disks(), payload=st.none() | st.integers(0, 10**12), enforced=st.booleans())
def test_a_disk_verdict_keeps_a_subset_and_refuses_exactly_when_none_is_left(
    nodes: tuple[Node, ...], payload: int | None, enforced: bool
) -> None:
    verdict = judge_disk(nodes, payload, is_enforced=enforced)
    assert set(verdict.fitting) <= set(nodes)
    assert (verdict.refusal is not None) == (bool(nodes) and not verdict.fitting)
    if not enforced:
        assert verdict.fitting == nodes
    for node in nodes:
        if not node.hardware.total_disk:
            assert node in verdict.fitting
        if verdict.refusal is not None:
            assert node.name in verdict.refusal


@pytest.mark.behaviour("NODE-36")
def test_the_lowest_free_index_is_next() -> None:
    assert next_free_index({0, 2}, 4) == 1
    assert next_free_index(set(), 1) == 0


@pytest.mark.behaviour("NODE-36")
def test_no_free_slot_is_an_error_with_its_own_code() -> None:
    with pytest.raises(Conflict) as refused:
        next_free_index({0, 1, 2, 3}, 4)
    assert refused.value.slug == "no_free_slot"


@pytest.mark.behaviour("NODE-36")
@given(used=st.sets(st.integers(0, 12)), slots=st.integers(0, 10))
def test_the_next_index_is_unused_inside_the_slots_and_nothing_below_it_is_free(used: set[int], slots: int) -> None:
    try:
        index = next_free_index(used, slots)
    except Conflict:
        assert set(range(slots)) <= used
        return
    assert 0 <= index < slots
    assert index not in used
    assert set(range(index)) <= used


def test_a_load_in_progress_holds_its_slot_and_an_unload_does_not() -> None:
    rows = [
        a_replica("a", 0, state=ReplicaState.STAGING),
        a_replica("a", 1, state=ReplicaState.UNLOADING),
        a_replica("a", 2, state=ReplicaState.LOADING),
        a_replica("a", 3, model="other"),
        a_replica("b", 4),
    ]
    assert occupied(rows, NodeId("a"), "m") == {0, 2}


@pytest.mark.behaviour("NODE-37")
def test_the_capacity_of_the_cluster_is_the_sum_of_free_slots() -> None:
    nodes = [a_node("a", slots_reported=4), a_node("b", slots_reported=2), a_node("c", slots_reported=1)]
    assert cluster_capacity(nodes, [a_replica("a"), a_replica("c")], "m") == 5
    assert cluster_capacity([a_node("c")], [a_replica("c"), a_replica("c", 1)], "m") == 0, "never below zero"


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
def test_a_node_that_may_get_no_work_is_no_candidate_though_it_matches(changes: dict[str, Any]) -> None:
    labels = {"zone": "b"}
    well = a_node("well", labels=labels)
    assert candidates([a_node("away", labels=labels, **changes), well], labels) == (well,)


def test_pending_nodes_do_not_advertise_their_hardware() -> None:
    pending = a_node("p", approved_at=None, capability="cuda-12")
    plain, card = a_node("a"), a_node("b", gpu_vendor="amd", total_vram=16 * GIB)
    small = a_node("c", gpu_vendor="intel", total_vram=2 * GIB)
    assert cluster_capabilities([pending, plain, card, small]) == {"default", "amd"}


@pytest.mark.behaviour("NODE-43")
def test_a_busy_replica_inside_the_selector_beats_an_idle_one_outside() -> None:
    nodes = [a_node("in", labels={"zone": "b"}), a_node("out", labels={"zone": "c"})]
    allowed = {node.id for node in candidates(nodes, {"zone": "b"})}
    busy, idle = a_replica("in", in_flight=7), a_replica("out", in_flight=0)
    assert pick_replica([idle, busy], allowed) == busy


@pytest.mark.behaviour("NODE-43")
def test_only_loaded_replicas_are_picked_and_the_least_busy_first() -> None:
    loading = a_replica("a", 0, state=ReplicaState.LOADING)
    some, less = a_replica("a", 1, in_flight=2), a_replica("b", 0, in_flight=1)
    assert pick_replica([loading, some, less], {NodeId("a"), NodeId("b")}) == less
    assert pick_replica([loading], {NodeId("a")}) is None


@given(count=st.integers(0, 4), need=st.integers(0, 10**10), payload=st.none() | st.integers(0, 10**10))
def test_no_candidates_means_none_and_never_any(count: int, need: int, payload: int | None) -> None:
    rows = [a_replica("a", index) for index in range(count)]
    assert candidates([], {}) == ()
    assert with_vram([], need) == ()
    assert judge_disk([], payload).fitting == ()
    assert judge_disk([], payload).refusal is None, "another reason is the true one"
    assert cluster_capacity([], rows, "m") == 0
    assert cluster_capabilities([]) == frozenset()
    assert pick_replica(rows, set()) is None
